"""Test pyquant without ml_dtypes. A call works, or its error names the package."""

import numpy as np
from support import CODES, NARROW, PACKED, ROOT, dtype_of, run_python

import pyquant as pq

SETUP = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np, pyquant as pq
x = np.float32([1.5, -2.5, 3, 300, -300])
"""
INTEGERS = tuple(dtype.name for dtype in CODES)


# The rows of the table of public calls that need no types of ml_dtypes.
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


def lines(code):
    """Return the lines that `code` prints after SETUP. Warnings are errors."""
    run = run_python(SETUP + code)
    assert run.returncode == 0, run.stderr
    assert not run.stderr
    return run.stdout.splitlines()


def errors(calls):
    """Return the message of each call. Each error is an ImportError of one line."""
    code = "".join(
        f"try:\n    {call}\n    print('no error')\n"
        f"except ImportError as error:\n    print(repr(str(error)))\n"
        for call in calls
    )
    return [eval(line) if line != "no error" else line for line in lines(code)]


def needs(name):
    install = "pip install 'pyquant-simd[ml-dtypes]'"
    return f"dtype: {name} needs the package ml_dtypes: {install}"


def test_public_calls_return_equal_bits():
    run = run_python(TABLE)
    assert run.returncode == 0, run.stderr
    assert lines(TABLE) == run.stdout.splitlines()


def test_narrow_types_need_it():
    calls = {
        **{f"pq.quantize(x, 1.0, dtype={name!r})": name for name in NARROW},
        **{f"pq.QParams(1.0, None, {name!r}).dtype": name for name in NARROW},
        **{f"pq.choose_qparams(x, dtype={name!r}).quantize(x)": name for name in NARROW},
    }
    assert errors(calls) == [needs(name) for name in calls.values()]


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


def test_packed_arrays():
    code = """
for name in PACKED:
    p = pq.quantize(x, 1.0, dtype=name, packed=True)
    same = pq.PackedArray.from_buffer(bytes(p.data), name, 5)
    assert p == same
    print(name, p.data.tolist(), pq.dequantize(same, 0.5).tolist())
p = pq.PackedArray.from_buffer(bytearray(b"\\x21\\x43\\x05"), "uint4", (1, 5))
print(pq.dequantize(p, [1, 10, 100, 1000, 10000], 1, axis=1, dtype="float16").tolist())
print(pq.dequantize(p, 0.5, 2, dtype="float64", threads=2).tolist(), p)
import copy, pickle
for same in (pickle.loads(pickle.dumps(p)), copy.copy(p), copy.deepcopy(p), p.copy()):
    assert same == p
"""
    assert lines(f"PACKED = {PACKED}\n{code}") == [
        "int4 [226, 115, 8] [1.0, -1.0, 1.5, 3.5, -4.0]",
        "uint4 [2, 243, 0] [1.0, 0.0, 1.5, 7.5, 0.0]",
        "int2 [89, 2] [0.5, -1.0, 0.5, 0.5, -1.0]",
        "uint2 [242, 0] [1.0, 0.0, 1.5, 1.5, 0.0]",
        "float4_e2m1fn [195, 117, 15] [0.75, -1.0, 1.5, 3.0, -3.0]",
        "[[0.0, 10.0, 200.0, 3000.0, 40000.0]]",
        "[[-0.5, 0.0, 0.5, 1.0, 1.5]] "
        "PackedArray(dtype='uint4', shape=(1, 5), layout='onnx', nbytes=3)",
    ]


def test_parts_of_packed_arrays():
    code = """
for name in PACKED:
    p = pq.quantize(np.tile(x[:4], (3, 4)), 1.0, dtype=name, packed=True)
    rows = [pq.dequantize(p[i : i + 1], 1.0) for i in range(3)]
    assert (np.concatenate(rows) == pq.dequantize(p, 1.0)).all()
    print(len(p), p[1:2], p[1:] == p.copy()[-2:], p.ndim, p.size, p.nbytes)
"""
    assert lines(f"PACKED = {PACKED}\n{code}") == [
        f"3 PackedArray(dtype={name!r}, shape=(1, 16), layout='onnx', nbytes={size}) "
        f"True 2 48 {3 * size}"
        for name, size in zip(PACKED, (8, 8, 4, 4, 8), strict=True)
    ]


def test_packed_arrays_for_a_type():
    code = """
zero = pq.PackedArray.from_buffer(bytes([0x21, 0x03]), "uint4", 3)
q = pq.quantize(x[:3], [1, 1, 1], zero, axis=0, packed=True)
print(q, pq.dequantize(q, [1, 1, 1], zero, axis=0).tolist())
p = pq.QParams([1, 1, 1], zero, "uint4", axis=0)
print(p.dequantize(q).tolist())
for call in (
    lambda: pq.QParams(1.0, None, "int4").dequantize(q),
    lambda: pq.QParams(1.0, None, "int8").dequantize(q),
    lambda: pq.onnx.dequantize_linear(q, np.float32(1), np.int8(0)),
    lambda: pq.onednn.dynamic_dequantize(pq.PackedArray.from_buffer(b"a", "int2", 4), 1.0),
):
    try:
        call()
    except TypeError as error:
        print(error)
print(pq.onednn.dynamic_dequantize(q, np.float32(1)).tolist())
"""
    assert lines(code) == [
        "PackedArray(dtype='uint4', shape=(3,), layout='onnx', nbytes=2) [2.0, -2.0, 3.0]",
        "[2.0, -2.0, 3.0]",
        "q: expected int4, got uint4",
        "q: expected int8, got uint4",
        "x_zero_point: ONNX DequantizeLinear expects elements of uint4, got int8",
        "src: oneAPI DynamicDequantize expects elements of uint8, int8, int4, uint4, "
        "float8_e4m3fn or float8_e5m2, got int2",
        "[3.0, 0.0, 6.0]",
    ]


def test_errors_without_ml_dtypes():
    """The calls raise their usual errors."""
    code = """
for call in (
    lambda: pq.pack(np.int8([1])),
    lambda: pq.quantize(x, 1.0, dtype="int4", packed=True, out=x),
    lambda: pq.quantize(x, 1.0, 8, dtype="int4", packed=True),
    lambda: pq.quantize(x, 1.0, dtype="float8_e4m3fn", packed=True),
    lambda: pq.dequantize(pq.PackedArray.from_buffer(b"a", "int4", 2), 1.0, 8),
    lambda: pq.PackedArray.from_buffer(b"abc", "int4", 2),
):
    try:
        call()
    except (TypeError, ValueError) as error:
        print(error)
"""
    assert lines(code) == [
        "codes: expected int4, uint4, int2, uint2, float4_e2m1fn, got int8; "
        'Layout("onnx", bits=4) converts int8',
        "out: expected None with packed codes, got ndarray",
        'zero_point: expected integers from -8 to 7 for int4, got 8; dtype="int8" holds it',
        "dtype: expected int4, uint4, int2, uint2, float4_e2m1fn, got float8_e4m3fn",
        "zero_point: expected integers from -8 to 7 for int4, got 8",
        "data: expected 1 bytes for int4 of shape (2,), got 3",
    ]


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
    # float4, float6 and integers of 2 bits came later than float8.
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


def test_parameters_of_packed_types():
    code = """
p = pq.choose_qparams(x[:3], dtype="int4")
q = p.quantize(x[:3], packed=True)
print(q.shape, p.zero_point.dtype, p.dequantize(q).shape)
one = np.float32(1)
zero = pq.PackedArray.from_buffer(bytes([1]), "int4", ())
print(pq.onnx.dequantize_linear(q, one).tolist())
print(pq.onnx.dequantize_linear(q, one, 1).tolist())
print(pq.onnx.dequantize_linear(q, one, zero).tolist())
"""
    assert lines(code) == [
        "(3,) int8 (3,)",
        "[4.0, -6.0, 7.0]",
        "[3.0, -7.0, 6.0]",
        "[3.0, -7.0, 6.0]",
    ]


def test_zero_points_of_parameters():
    code = """
for name in ALL:
    p = pq.QParams(0.5, None, name)
    same = p == pq.QParams(0.5, 0, name) == pq.QParams(0.5, np.int64(0), name)
    again = hash(p) == hash(pq.QParams(0.5, np.int8(0), name))
    print(name, p.zero_point.dtype, p.zero_point.tolist(), same, again)
"""
    stored = {name: name for name in INTEGERS}
    stored |= dict.fromkeys(NARROW, "int8") | {"uint4": "uint8", "uint2": "uint8"}
    got = lines(f"ALL = {(*INTEGERS, *NARROW)}\n{code}")
    kept = [line.split(" ", 1) for line in got]
    assert [name for name, _ in kept] == list(stored)
    for name, rest in kept:
        if name.startswith("float"):
            assert rest.split()[0] in ("int8", "uint8")
            assert rest.endswith("0 True True")
        else:
            assert rest == f"{stored[name]} 0 True True"


def test_all_codes_of_unsigned_types():
    code = """
for name in ("uint8", "uint4", "uint2"):
    p = pq.choose_qparams(x[:3], dtype=name)
    middle = pq.choose_qparams(x[:3], dtype=name, symmetric=True)
    print(name, int(p.zero_point), int(middle.zero_point))
"""
    assert lines(code) == ["uint8 116 128", "uint4 7 8", "uint2 1 2"]


def test_bfloat16_rounds_like_ml_dtypes(tmp_path):
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
