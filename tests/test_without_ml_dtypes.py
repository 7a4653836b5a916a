"""Tests of pyquant without ml_dtypes. A call works, or its error names ml_dtypes."""

import numpy as np
import pytest
from support import NARROW, PACKED, ROOT, dtype_of, run_python

import pyquant as pq

MISSING = """
import sys
sys.modules["ml_dtypes"] = None
"""
SETUP = """
import numpy as np, pyquant as pq
x = np.float32([1.5, -2.5, 3, 300, -300])
"""

# A program that runs the rows of public_calls.py that need no types of ml_dtypes.
TABLE = f"""
import sys
sys.path.append({str(ROOT / "tests")!r})
import hashlib, support
support.HAVE_BFLOAT16 = False
import public_calls
for name, call in public_calls.rows().items():
    if not name.startswith(("cli", "files.WeightFile")):
        print(name, hashlib.sha256(repr(public_calls.bits(call())).encode()).hexdigest())
"""

# A program that uses packed codes of ml_dtypes' types, and parameters for these types.
PACKED_CALLS = f"""
import copy, pickle
from pyquant.dtypes import TYPES

def show(*calls):
    for call in calls:
        try:
            print(call())
        except (TypeError, ValueError) as error:
            print(error)

one = np.float32(1)
for name in {PACKED}:
    p = pq.quantize(np.tile(x[:4], (3, 4)), 1.0, dtype=name, packed=True)
    again = pq.PackedArray.from_buffer(bytes(p.data), name, (3, 16))
    for same in (pickle.loads(pickle.dumps(p)), copy.copy(p), copy.deepcopy(p), p.copy()):
        assert p == again == same
    print(p[1:2], p.data.tolist(), pq.dequantize(again, 0.5, threads=2).tolist())
    print(len(p), p.ndim, p.size, p[1:].nbytes, p[1:] == p.copy()[-2:])
    params = pq.choose_qparams(x[:3], dtype=name)
    q = params.quantize(x[:3], packed=True)
    print(q.shape, int(params.zero_point), params.dequantize(q).tolist())
    show(
        lambda: pq.quantize(x, 1.0, dtype=name, packed=True, out=x),
        lambda: pq.quantize(x, 1.0, 300, dtype=name, packed=True),
        lambda: pq.dequantize(p, 1.0, 300),
        lambda: pq.PackedArray.from_buffer(b"abc", name, 2),
        lambda: pq.QParams(1.0, None, "int4").dequantize(p),
        lambda: pq.QParams(1.0, None, "int8").dequantize(p),
        lambda: pq.onednn.dynamic_dequantize(p, one).tolist(),
        lambda: pq.onnx.dequantize_linear(p, one, 1 if "int" in name else None).tolist(),
        lambda: pq.onnx.dequantize_linear(p, one, np.int8(0)),
        lambda: pq.onnx.dequantize_linear(p, one, pq.PackedArray(p.data[:1], name, ())),
    )
show(
    lambda: pq.pack(np.int8([1])),
    lambda: pq.quantize(x, 1.0, dtype="float8_e4m3fn", packed=True),
)
zero = pq.PackedArray.from_buffer(bytes([0x21, 0x03]), "uint4", 3)
q = pq.quantize(x[:3], [1, 1, 1], zero, axis=0, packed=True)
print(q, pq.dequantize(q, [1, 1, 1], zero, axis=0, dtype="float16").tolist())
print(pq.QParams([1, 1, 1], zero, "uint4", axis=0).dequantize(q).tolist())
for name in [t.name for t in TYPES.values() if t.kind in ("integer", "float")]:
    p = pq.QParams(0.5, None, name)
    same = p == pq.QParams(0.5, 0, name) == pq.QParams(0.5, np.int64(0), name)
    again = hash(p) == hash(pq.QParams(0.5, np.int8(0), name))
    print(name, int(p.zero_point), same, again)
"""


def lines(code, missing=MISSING):
    """Return the lines that code prints without ml_dtypes. Warnings are errors."""
    run = run_python(missing + SETUP + code)
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    return run.stdout.splitlines()


@pytest.mark.parametrize("code", [TABLE, PACKED_CALLS], ids=["public", "packed"])
def test_calls_print_equal_lines_with_and_without_ml_dtypes(code):
    assert lines(code) == lines(code, missing="")


def errors(calls):
    """Run each call and return the message of its ImportError, or "no error"."""
    code = "".join(
        f"try:\n    {call}\n    print('no error')\n"
        f"except ImportError as error:\n    print(repr(str(error)))\n"
        for call in calls
    )
    return [eval(line) if line != "no error" else line for line in lines(code)]


def needs(name):
    install = "pip install 'pyquant-simd[ml-dtypes]'"
    return f"dtype: {name} needs the package ml_dtypes: {install}"


def test_narrow_types_need_it():
    calls = {
        **{f"pq.quantize(x, 1.0, dtype={name!r})": name for name in NARROW},
        **{f"pq.QParams(1.0, None, {name!r}).dtype": name for name in NARROW},
        **{f"pq.choose_qparams(x, dtype={name!r}).quantize(x)": name for name in NARROW},
    }
    assert errors(calls) == [needs(name) for name in calls.values()]


def test_types_of_stored_zero_points():
    code = f"for name in {NARROW}: print(pq.QParams(0.5, None, name).zero_point.dtype)"
    assert lines(code) == ["uint8" if name[0] == "u" else "int8" for name in NARROW]


def test_bfloat16_needs_it():
    calls = ["pq.dequantize(np.int8([1]), 1.0, dtype='bfloat16')"]
    assert errors(calls) == [needs("bfloat16")]
    code = "print(pq.quantize(x, 0.5, precision='bfloat16').tolist())"
    assert lines(code) == ["[3, -5, 6, 127, -128]"]


def test_unpacking_needs_it():
    calls = {
        **{
            "pq.unpack(pq.PackedArray.from_buffer("
            f"b'ab', {name!r}, 3 + ('2' in {name!r}[:5]) * 4))": name
            for name in PACKED
        },
        "np.asarray(pq.quantize(x, 1.0, dtype='int4', packed=True))": "int4",
        **{f"pq.quantize(x, 1.0, dtype={n!r}, packed=True).dtype": n for n in PACKED},
    }
    assert errors(calls) == [needs(name) for name in calls.values()]


def test_out_is_left_alone():
    code = """
out = np.full(5, 77, np.int8)
try:
    pq.quantize(x, 1.0, dtype="int4", out=out)
except TypeError as error:
    print(error)
print(set(out.tolist()))
"""
    assert lines(code) == ["out: expected int4, got int8", "{77}"]


def test_standards_that_are_asked_for_its_types():
    calls = {
        "pq.onnx.quantize_linear(x, np.float32(1), output_dtype=22)": "int4",
        "pq.onnx.quantize_linear(x, np.float32(1), output_dtype='float8_e5m2')": (
            "float8_e5m2"
        ),
        "pq.onnx.dequantize_linear(np.int8([1]), np.float32(1), output_dtype=16)": (
            "bfloat16"
        ),
        "pq.onednn.quantize(x, scales=[1.0], dtype='f8_e4m3')": "float8_e4m3fn",
        "pq.onednn.dynamic_quantize(x, [1.0], dtype='f8_e5m2')": "float8_e5m2",
        "pq.ngraph.dequantize(np.int8([1]), 1.0, 0, 'bf16', ())": "bfloat16",
    }
    assert errors(calls) == [needs(name) for name in calls.values()]


def test_reference_ops_need_onnx():
    code = """
sys.modules["onnx"] = None
try:
    pq.onnx.reference_ops()
except ImportError as error:
    print(error)
"""
    assert lines(code) == ["reference_ops: the package onnx is needed: pip install onnx"]


def test_an_old_ml_dtypes():
    # ml_dtypes had float8 first, and float4, float6 and 2-bit integers only later.
    code = """
import types
sys.modules["ml_dtypes"] = types.SimpleNamespace(__version__="0.3.2")
try:
    pq.quantize(x, 1.0, dtype="int2")
except ImportError as error:
    print(error)
print(pq.quantize(x, 1.0, dtype="int2", packed=True).nbytes)
"""
    assert lines(code) == ["dtype: int2 needs a newer ml_dtypes, got 0.3.2", "2"]


def test_bfloat16_rounds_like_ml_dtypes(tmp_path):
    """Files need no ml_dtypes: pyquant itself rounds to bfloat16."""
    bfloat16 = dtype_of("bfloat16")
    bits = np.arange(0, 1 << 32, 4099, dtype=np.uint64)  # a prime step
    bits = np.concatenate([bits, bits & 0xFFFF0000 | 0x8000, (1 << 32) - 1 - bits[:10]])
    x = bits.astype(np.uint32).view(np.float32).reshape(2, -1)
    for given in (x, x.astype(">f4"), x[:, ::-3]):
        pq.write_weights(tmp_path / "a.safetensors", {"a": ("bfloat16", given)})
        found = pq.open_weights(tmp_path / "a.safetensors")["a"].raw
        with np.errstate(all="ignore"):
            expected = given.astype(np.float32).astype(bfloat16)
        np.testing.assert_array_equal(found.view(np.uint16), expected.view(np.uint16))
