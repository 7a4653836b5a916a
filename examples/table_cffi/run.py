"""Call the table of C functions with cffi, without a compiler and without the GIL."""

import ctypes
import re
from pathlib import Path

import cffi
import numpy as np

import pyquant
from pyquant import _core


def declarations():
    """Return pq.h without comments, directives and C++ parts, for cffi."""
    text = (Path(pyquant.embed.get_include()) / "pq.h").read_text("utf-8")
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"^#ifdef __cplusplus\n.*?^#endif\n", "", text, flags=re.DOTALL | re.M)
    return re.sub(r"^#.*\n", "", text, flags=re.M)


ffi = cffi.FFI()
ffi.cdef(declarations())
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
pq = ffi.cast("struct pq_api *", pointer(_core.c_api, b"pyquant._core.c_api"))
assert pq.major == 1, pq.major

x = np.random.default_rng(1).normal(size=(480, 640)).astype(np.float32)
scale = np.full(480, 0.02, np.float32)
q = np.empty(x.shape, np.int8)

types = ffi.typeof("enum pq_type").relements
by_row = (scale.strides[0], 0)  # a scale for each row
keep = [ffi.new("ptrdiff_t[2]", v) for v in (x.shape, x.strides, q.strides, by_row)]
args = ffi.new("struct pq_args *", {"size": ffi.sizeof("struct pq_args"), "ndim": 2})
args.shape = keep[0]
for name, array, strides in (
    ("in", x, keep[1]),
    ("out", q, keep[2]),
    ("scale", scale, keep[3]),
):
    member = getattr(args, name)
    member.data = ffi.cast("void *", array.ctypes.data)
    member.strides = strides
    member.type = types["PQ_I8" if array is q else "PQ_F32"]
status = pq.quantize(pq.kernels, args, 0, 1)
assert status == 0, ffi.string(pq.status_text(status))
assert np.array_equal(q, pyquant.quantize(x, scale, axis=0))
print("table_cffi:", x.size, "elements quantized")

args.ndim = 65
status = pq.quantize(pq.kernels, args, 0, 1)
print("refused:", ffi.string(pq.status_text(status)).decode())
