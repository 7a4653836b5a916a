# SPDX-License-Identifier: Apache-2.0
"""Calls are safe if the conversion of one argument frees the memory of another argument."""

from support import run_python

SETUP = """
import numpy as np, pyquant as pq

N = 1 << 20

def gone(array):
    # The method for unpickling frees the memory. The system gets a large block at once, so
    # that a later read crashes.
    array.__setstate__((1, (1,), array.dtype, False, bytes(array.itemsize)))

x = np.ones((N, 2), np.float32)
q = np.ones((N, 2), np.int8)
u = np.ones((N, 2), np.uint8)
scales = np.ones(N, np.float32)
zeros = np.zeros(N, np.int16)
COLUMN = np.ones((N, 1), np.float32)

def words(axis, bits):
    return tuple.__new__(pq.Layout, ("words", axis, bits))

class Number:
    def __init__(self, value, *victims):
        self.value, self.victims = value, victims

    def __index__(self):
        for one in self.victims:
            gone(one)
        return self.value

class Array(Number):
    def __array__(self, dtype=None, copy=None):
        return np.full(N, Number.__index__(self), np.float32 if self.value else np.int8)

class Out(np.ndarray):
    __class__ = property(lambda self: gone(x) or Out)

    def __array_function__(self, *_):
        gone(x)
        return False

class Type:
    @property
    def dtype(self):
        gone(x)
        return np.dtype(np.int8)

class Flag:
    __class__ = property(lambda self: np.bool_)
    asked = 0

    def __bool__(self):
        self.asked += 1
        if self.asked == 2:
            gone(x)
        return False

class Yes(str):
    def __hash__(self):
        gone(x)
        return str.__hash__(self)
"""
CALLS = """
pq.quantize(x, scales, axis=Number(0, x))
pq.quantize(x, scales, axis=Number(0, scales))
pq.quantize(x, scales, zeros, dtype="int8", axis=Number(0, zeros))
pq.quantize(x, scales, axis=(Number(0, x, scales),))
pq.quantize(x, np.ones((N, 1)), axis=1, block_size=Number(2, x))
pq.quantize(x, np.ones((N, 1)), block_size=(1, Number(2, x)))
pq.quantize(x, 1.0, threads=Number(1, x))
pq.quantize(x, Array(1, x), axis=0)
pq.quantize(x, scales, Array(0, x, scales), axis=0)
pq.quantize(x, Array(1, x, zeros), zeros, dtype="int8", axis=0)
pq.quantize(x, 1.0, out=q.view(Out))
pq.quantize(x, 1.0, dtype=Type())
pq.quantize(x, 1.0, rounding=Yes("ceil"))
pq.quantize(x, 1.0, precision=Type())
pq.quantize(x, 1.0, packed=Flag())
pq.quantize(x, 1.0, dtype="uint8", layout=words(Number(0, x), Number(3, x)))
pq.pack(u, words(Number(0, u), Number(3, u)))
pq.PackedArray(u, "int4", (Number(4, u), N))
pq.quantize(x, 1.0, saturate=Flag())
pq.dequantize(q, scales, axis=Number(0, q, scales))
pq.dequantize(q, scales, Array(0, q, scales), axis=0)
pq.dequantize(q, 1.0, threads=Number(1, q))
pq.dequantize(q, 1.0, out=x.view(Out))
pq.onednn.quantize(x, scales=[1.0], zps=[3], dtype=Type())
pq.onednn.dequantize(q, scales=[1.0], qtype=Yes("per_tensor"))
pq.onednn.dynamic_dequantize(q, Array(1, q), qtype="per_channel")
pq.onednn.dynamic_dequantize(q, COLUMN, qtype="per_group", group_shape=(1, Number(2, q)))
pq.onnx.dequantize_linear(q, COLUMN, block_size=Number(2, q))
pq.choose_qparams(x, axis=Number(0, x))
pq.choose_qparams(x, axis=1, block_size=Number(2, x))
pq.choose_qparams(x, dtype=Type())
pq.QParams(scales, zeros, "int8", axis=Number(0, scales, zeros))
pq.QParams(scales, Array(0, scales), "int8", axis=0)
pq.QParams(1.0, None, "int8").quantize(x, threads=Number(1, x))
""".strip().splitlines()
PROGRAM = f"""
for call in {CALLS}:
    print(call, flush=True)  # if a call crashes, it is the last line
    names = dict()
    exec({SETUP!r}, names)
    try:
        exec(call, names)
    except Exception:
        pass
"""


def test_freed_memory_is_not_read():
    """The GNU C library returns each large block at once, so that a read crashes."""
    done = run_python(PROGRAM, MALLOC_MMAP_THRESHOLD_="65536")
    assert done.returncode == 0, (done.returncode, done.stdout[-200:], done.stderr)
    assert done.stdout.splitlines() == CALLS
