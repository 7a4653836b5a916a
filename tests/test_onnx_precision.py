"""Tests of the ONNX functions: the type of the division, Python zero points, models.

Oracle: `oracle`, in exact arithmetic.
"""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from support import HAVE_BFLOAT16, adversarial, amount, case, cast, dtype_of, loop, same

import pyquant as pq

TENSOR_PROTO = {"float32": 1, "float16": 10, "bfloat16": 16}
REALS = [n for n in TENSOR_PROTO if HAVE_BFLOAT16 or n != "bfloat16"]
WIDE = [*REALS, "int32"]
SCALES = [*WIDE, *["float8_e8m0fnu"] * HAVE_BFLOAT16]
CODES = ["int8", "uint8", "int16", "uint16"]


def reals(array):
    """Return the exact numbers of an array of floats, integers or float8_e8m0fnu."""
    if array.dtype.kind == "i":
        return [oracle.finite(Fraction(n)) for n in array.reshape(-1).tolist()]
    if array.dtype.itemsize == 1:  # e8m0: a biased exponent
        powers = array.reshape(-1).view("u1").tolist()
        return [
            oracle.NAN if p == 255 else oracle.finite(Fraction(2) ** (p - 127))
            for p in powers
        ]
    return [oracle.decode(b, oracle.format_of(array)) for b in oracle.bits_of(array)]


def quotients(x, scale, division):
    """Round both operands to the type of the division, divide, and round the quotients."""
    fmt = oracle.FORMATS[division]
    values, steps = (
        [oracle.round_to_format(v, fmt) for v in reals(array)] for array in (x, scale)
    )
    steps = steps * x.size if len(steps) == 1 else steps
    pairs = zip(values, steps, strict=True)
    return [oracle.round_to_format(oracle.divide(*pair), fmt) for pair in pairs]


def codes_of(quotients, zero, code):
    """Round quotients half to even, add the zero point, and saturate."""
    codes = [
        oracle.affine_code(one, False, zero, code, "half_even", oracle.Policy())[0]
        for one in quotients
    ]
    return np.array(codes, code)


def inputs(name, scale, seed):
    """Return numbers that are hard for a scale, or, for int32, random integers."""
    if name != "int32":
        return adversarial(dtype_of(name), scale, amount(60, 300), seed=seed)
    rng = np.random.default_rng(seed)
    whole = [
        rng.integers(-(2**k), 2**k, amount(12, 40)) for k in (4, 8, 11, 12, 17, 25, 31)
    ]
    ends = [0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, 65519, 65520, 2049, 257, 2**30 + 1]
    return np.concatenate([*whole, ends]).astype(np.int32)


def scales(name):
    """Return scales of a type, each as an array without dimensions."""
    values = (1.0, 2.0, 4096.0, 0.5, 2.0**-14) if "e8m0" in name else (0.1, 1.7, 0.013)
    values = (1, 3, 7, 257, 2049, 100_003) if name == "int32" else values
    if name in REALS:
        values = (*values, -3.0, 0.0, np.inf, 3e-5, 1e-7, 60000.0, 3.0)
    return [cast(v, dtype_of(name)) for v in values]


@pytest.mark.parametrize("source", WIDE)
@loop("scale_type, precision", SCALES, [None, *REALS])
def test_the_type_of_the_division(source, scale_type, precision):
    division = precision or (scale_type if scale_type in REALS else "float32")
    given = {} if precision is None else {"precision": TENSOR_PROTO[precision]}
    for seed, scale in enumerate(scales(scale_type)):
        x = inputs(source, float(scale), seed)
        expected = quotients(x, scale, division)
        for code in CODES:
            zero = np.array(3 if code[0] == "u" else -5, code)
            got = pq.onnx.quantize_linear(x, scale, zero, **given)
            with case(scale=scale, code=code):
                same(got, codes_of(expected, int(zero), code))


@loop("source, precision", WIDE, [None, *REALS])
def test_many_scales(source, precision):
    x = inputs(source, 0.3, 9)
    scale = np.resize([0.1, 0.3, 7.0, 1e-3, -2.0, 300.0], x.size).astype(np.float32)
    given = {} if precision is None else {"precision": precision}
    got = pq.onnx.quantize_linear(x, scale, np.zeros(x.size, "i1"), axis=0, **given)
    same(got, codes_of(quotients(x, scale, precision or "float32"), 0, "int8"))


@loop("scale_type, precision", SCALES, [0, 1, 10, *[16] * HAVE_BFLOAT16])
def test_integers_and_floats_of_one_value_agree(scale_type, precision):
    whole = np.concatenate([np.arange(-4200, 4200, 7), 2 ** np.arange(24) - 1])
    for scale in scales(scale_type):
        got = [
            pq.onnx.quantize_linear(
                whole.astype(t), scale, np.int16(1), precision=precision
            )
            for t in ("int32", "float32")
        ]
        same(*got)


# ---- Zero points that are Python integers ----


X = np.float32([[-7.0, 2.5], [300.0, 4.0]])
ONE, Q = np.ones(2, np.float32), np.ones((2, 2), np.uint8)  # for errors.txt
FUNCTIONS = {
    "ONNX QuantizeLinear": pq.onnx.quantize_linear,
    "com.microsoft QuantizeLinear": pq.com_microsoft.quantize_linear,
}


@loop("name, zero", FUNCTIONS, [0, 3, 128, 255])
def test_python_zero_points_are_uint8(name, zero):
    got = FUNCTIONS[name](X, np.float32(1), zero)
    same(got, FUNCTIONS[name](X, np.float32(1), np.uint8(zero)))
    if name[0] == "O":
        same(FUNCTIONS[name](X, np.float32([1, 2]), [zero, 3], axis=1)[:, 0], got[:, 0])


@pytest.mark.parametrize("code", ["int8", "uint16", "int4", "uint2"])
def test_output_dtype_is_the_type_of_python_zero_points(code):
    if "16" not in code and "8" not in code:
        pytest.importorskip("ml_dtypes")  # ml_dtypes defines int4 and uint2
    low, high = oracle.code_range(code)
    for zero in (low, 0, high):
        got = pq.onnx.quantize_linear(X, np.float32(1), zero, output_dtype=code)
        same(got, pq.quantize(X, 1.0, zero, dtype=code))


@loop("code", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_zero_points_of_float_codes(code):
    pytest.importorskip("ml_dtypes")  # it defines the types
    expected = pq.quantize(X, 1.0, dtype=code)
    for zero in (0, [0], 0.0):
        got = pq.onnx.quantize_linear(X, np.float32(1), zero, output_dtype=code)
        same(got, expected)


# ---- Shapes of parameters for com.microsoft ----


def test_an_axis_of_one_element_has_one_scale():
    scale = np.full(1, 2, np.float32)
    got = pq.com_microsoft.quantize_linear(X[:1], scale, axis=0)
    same(got, pq.com_microsoft.quantize_linear(X[:1], scale[0]))


# Parameters in models

NODES = {
    "s = {0.5}, uint8 z = {3}> {c = QuantizeLinear(x, s, z)}": (0.5, 3, "uint8"),
    "s = {0.5}> {c = QuantizeLinear <output_dtype = 5> (x, s)}": (0.5, 0, "int16"),
    "s = {0.5}> {c = QuantizeLinear(x, s)}": (0.5, 0, "uint8"),
    "s = {0.5}, int8[1] z = {-3}> {x = DequantizeLinear(c, s, z)}": (0.5, -3, "int8"),
    "s = {0.5}, uint8 c = {1}> {x = DequantizeLinear(c, s)}": (0.5, 0, "uint8"),
    "s = {0.5}> {z = Constant <value = uint8 {3}> () c = QuantizeLinear(x, s, z)}": (
        *(0.5, 3, "uint8"),
    ),
}
# Models of two nodes. The codes `d` between the nodes have a type but no zero point.
PAIRS = {
    "{d = QuantizeLinear(x, s) c = DequantizeLinear(d, s)}": "uint8",
    "{d = QuantizeLinear <output_dtype = 3> (x, s) c = DequantizeLinear(d, s)}": "int8",
}
PARTS = {
    "[2] s = {1, 2}> {c = QuantizeLinear(x, s)}": {"axis": 1},
    "[2] s = {1, 2}> {c = QuantizeLinear <axis = -1> (x, s)}": {"axis": -1},
    "[1, 2] s = {1, 2}> {c = QuantizeLinear <block_size = 3> (x, s)}": {
        "axis": 1,
        "block_size": 3,
    },
}


HEAD = '<ir_version: 10, opset_import: ["" : 21]>'


def model_of(text):
    """Return a model from the text of its parameters and nodes."""
    parser = pytest.importorskip("onnx.parser")  # it reads the text
    return parser.parse_model(f"{HEAD} g (float[N, 2] x) => () <float {text}")


def test_qparams_of_models(tmp_path):
    for text, (scale, zero, dtype) in NODES.items():
        model = model_of(text)
        for name in ("x", "c"):
            expected = pq.QParams(np.float32(scale), zero, dtype)
            with case(text=text):
                assert pq.onnx.qparams(model, name) == expected
    for text, dtype in PAIRS.items():
        for name in ("x", "d", "c"):
            expected = pq.QParams(np.float32(0.5), None, dtype)
            with case(text=text, name=name):
                assert pq.onnx.qparams(model_of(f"s = {{0.5}}> {text}"), name) == expected
    for text, how in PARTS.items():
        scale = np.float32([1, 2]).reshape((1, 2) if "block_size" in how else 2)
        expected = pq.QParams(scale, None, "uint8", **how)
        with case(text=text):
            assert pq.onnx.qparams(model_of(text), "x") == expected
    inner = "{d = QuantizeLinear(x, s, z) c = DequantizeLinear(d, s)}"
    text = f"(float[N] x, int8 z) => () <float s = {{0.5}}> {inner}"
    parser = pytest.importorskip("onnx.parser")  # it reads the text
    made = parser.parse_model(f"{HEAD} g {text}")
    assert pq.onnx.qparams(made, "c") == pq.QParams(np.float32(0.5), None, "int8")
    made.graph.input[1].type.tensor_type.elem_type = 8  # a string
    with pytest.raises(ValueError, match="tensor: expected a known type of 'z', got"):
        pq.onnx.qparams(made, "c")
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert pq.onnx.qparams(path, "x") == pq.onnx.qparams(str(path), "c")
    path.write_bytes(b"a text")
    with pytest.raises(ValueError, match="model: expected an ONNX file, got"):
        pq.onnx.qparams(path, "x")
