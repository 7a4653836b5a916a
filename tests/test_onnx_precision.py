"""ONNX's types: of Python's zero points, and of the division, in exact arithmetic."""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from support import HAVE_BFLOAT16, adversarial, amount, cast, each, same

import pyquant as pq

TENSOR_PROTO = {"float32": 1, "float16": 10, "bfloat16": 16}
REALS = [n for n in TENSOR_PROTO if HAVE_BFLOAT16 or n != "bfloat16"]
WIDE = [*REALS, "int32"]
SCALES = [*WIDE, *["float8_e8m0fnu"] * HAVE_BFLOAT16]
CODES = ["int8", "uint8", "int16", "uint16"]


def type_of(name):
    """The dtype of a name, of NumPy or ml_dtypes."""
    if name in ("bfloat16", "float8_e8m0fnu"):
        ml_dtypes = pytest.importorskip("ml_dtypes")  # optional, and others are its
        return np.dtype(getattr(ml_dtypes, name))
    return np.dtype(name)


def reals(array):
    """The exact numbers of an array of floats, integers or powers of two."""
    if array.dtype.kind == "i":
        return [oracle.finite(Fraction(n)) for n in array.reshape(-1).tolist()]
    if array.dtype.itemsize == 1:  # e8m0: a biased exponent
        powers = array.reshape(-1).view("u1").tolist()
        return [
            oracle.NAN if p == 255 else oracle.finite(Fraction(2) ** (p - 127))
            for p in powers
        ]
    return [oracle.decode(b, oracle.format_of(array)) for b in oracle.bits_of(array)]


def judged(x, scale, zero, code, division):
    """Codes by the rule: operands, then quotients, are rounded to the division's type."""
    fmt = oracle.FORMATS[division]
    limits, codes = oracle.code_range(code), []
    steps = reals(scale)
    steps = steps * x.size if len(steps) == 1 else steps
    for value, step in zip(reals(x), steps, strict=True):
        value, step = (oracle.round_to_format(v, fmt) for v in (value, step))
        codes.append(oracle.quantize_value(value, step, zero, limits, "half_even", fmt))
    return np.array(codes, code).reshape(x.shape)


def inputs(name, scale, seed):
    """Numbers of a type that are hard for a scale; whole ones for int32."""
    if name != "int32":
        return adversarial(type_of(name), scale, amount(70, 300), seed=seed)
    rng = np.random.default_rng(seed)
    whole = [rng.integers(-(2**k), 2**k, 40) for k in (4, 8, 11, 12, 17, 25, 31)]
    ends = [0, 1, -1, 2**31 - 1, -(2**31), 2**24 + 1, 65519, 65520, 2049, 257, 2**30 + 1]
    return np.concatenate([*whole, ends]).astype(np.int32)


def scales(name):
    """Scales of a type as arrays of no dimension."""
    values = (1.0, 2.0, 4096.0, 0.5, 2.0**-14) if "e8m0" in name else (0.1, 1.7, 0.013)
    values = (1, 3, 7, 257, 2049, 100_003) if name == "int32" else values
    if name in REALS:
        values = (*values, -3.0, 0.0, np.inf, 3e-5, 1e-7, 60000.0, 3.0)
    return [cast(v, type_of(name)) for v in values]


@each("source, scale_type, precision", WIDE, SCALES, [None, *REALS])
def test_the_type_of_the_division(source, scale_type, precision):
    division = precision or (scale_type if scale_type in REALS else "float32")
    given = {} if precision is None else {"precision": TENSOR_PROTO[precision]}
    for seed, scale in enumerate(scales(scale_type)):
        x = inputs(source, float(scale), seed)
        for code in CODES:
            zero = np.array(3 if code[0] == "u" else -5, code)
            got = pq.onnx.quantize_linear(x, scale, zero, **given)
            same(got, judged(x, scale, int(zero), code, division))


@each("source, precision", WIDE, [None, *REALS])
def test_many_scales(source, precision):
    x = inputs(source, 0.3, 9)
    scale = np.resize([0.1, 0.3, 7.0, 1e-3, -2.0, 300.0], x.size).astype(np.float32)
    given = {} if precision is None else {"precision": precision}
    got = pq.onnx.quantize_linear(x, scale, np.zeros(x.size, "i1"), axis=0, **given)
    same(got, judged(x, scale, 0, "int8", precision or "float32"))


@each("scale_type, precision", SCALES, [0, 1, 10, *[16] * HAVE_BFLOAT16])
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


@each("source, scale_type, precision", REALS, REALS, REALS)
def test_the_reference_of_onnx(source, scale_type, precision):
    onnx = pytest.importorskip("onnx")  # whose models and operators these are
    if onnx.defs.onnx_opset_version() < 25:
        pytest.skip("this onnx knows no precision")
    from onnx.reference import ReferenceEvaluator

    def value(name, array):
        kind = TENSOR_PROTO.get(array.dtype.name, onnx.TensorProto.INT8)
        return onnx.helper.make_tensor_value_info(name, kind, array.shape)

    for seed, scale in enumerate(scales(scale_type)):
        x = inputs(source, float(scale), seed)
        x = x[np.isfinite(cast(x, "f4"))]
        if not (np.isfinite(float(scale)) and scale != 0):
            continue  # NumPy's casts of NaN and infinities are undefined
        with np.errstate(all="ignore"):
            narrow = type_of(precision)
            quotient = x.astype(narrow) / scale.astype(narrow)
            keep = np.abs(cast(quotient, "f4")) < 1000
        x, zero = x[keep], np.array(3, np.int8)
        node = onnx.helper.make_node(
            "QuantizeLinear", ["x", "s", "z"], ["y"], precision=TENSOR_PROTO[precision]
        )
        graph = onnx.helper.make_graph(
            [node],
            "g",
            [value("x", x), value("s", scale), value("z", zero)],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT8, x.shape)],
        )
        model = onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 25)]
        )
        with np.errstate(all="ignore"):
            (expected,) = ReferenceEvaluator(model).run(
                None, {"x": x, "s": scale, "z": zero}
            )
        got = pq.onnx.quantize_linear(x, scale, zero, precision=TENSOR_PROTO[precision])
        same(got, expected)


# Python's integers have no type


X = np.float32([[-7.0, 2.5], [300.0, 4.0]])
FUNCTIONS = {
    "ONNX QuantizeLinear": pq.onnx.quantize_linear,
    "com.microsoft QuantizeLinear": pq.com_microsoft.quantize_linear,
}


@each("name, zero", FUNCTIONS, [0, 3, 128, 255])
def test_python_zero_points_are_uint8(name, zero):
    got = FUNCTIONS[name](X, np.float32(1), zero)
    same(got, FUNCTIONS[name](X, np.float32(1), np.uint8(zero)))
    if name[0] == "O":
        same(FUNCTIONS[name](X, np.float32([1, 2]), [zero, 3], axis=1)[:, 0], got[:, 0])


@each("name, zero", FUNCTIONS, [-1, 300, 256, 2**63, -(2**70)])
def test_those_that_uint8_lacks_are_refused(name, zero):
    with pytest.raises(ValueError, match=rf"^y_zero_point: {name}: .*uint8.*, got {zero}$"):
        FUNCTIONS[name](X, np.float32(1), zero)
    with pytest.raises(ValueError, match=rf"^y_zero_point: {name}: .*uint8.*, got {zero}$"):
        FUNCTIONS[name](X, np.float32([1, 1]), [3, zero], axis=1)


@pytest.mark.parametrize(
    ("code", "low", "high"),
    [("int8", -128, 127), ("uint16", 0, 65535), ("int4", -8, 7), ("uint2", 0, 3)],
)
def test_output_dtype_is_their_type(code, low, high):
    if "16" not in code and "8" not in code:
        pytest.importorskip("ml_dtypes")  # optional; the types tried are its
    for zero in (low, 0, high):
        got = pq.onnx.quantize_linear(X, np.float32(1), zero, output_dtype=code)
        same(got, pq.quantize(X, 1.0, zero, dtype=code))
    for zero in (low - 1, high + 1):
        with pytest.raises(ValueError, match=rf"^y_zero_point: .*{code}.* got {zero}$"):
            pq.onnx.quantize_linear(X, np.float32(1), zero, output_dtype=code)


@pytest.mark.parametrize("code", ["float8_e4m3fn", "float8_e5m2", "float4_e2m1fn"])
def test_a_zero_beside_float8(code):
    pytest.importorskip("ml_dtypes")  # optional; the types tried are its
    expected = pq.quantize(X, 1.0, dtype=code)
    for zero in (0, [0], 0.0):
        got = pq.onnx.quantize_linear(X, np.float32(1), zero, output_dtype=code)
        same(got, expected)


def test_typed_zero_points_keep_their_type():
    for zero in (np.int8(-1), np.array(3, "u2"), np.int16(300)):
        got = pq.onnx.quantize_linear(X, np.float32(1), zero)
        assert got.dtype == zero.dtype


# Shapes of com.microsoft


@each("axis, shape", [0, 1, -1], [(), (1,)])
def test_one_scale_for_a_longer_axis_is_refused(axis, shape):
    scale, zero = np.ones(shape, np.float32), np.zeros(shape, np.uint8)
    for z in (None, zero):
        with pytest.raises(ValueError, match=r"^y_scale: .* expects shape \(2,\), got "):
            pq.com_microsoft.quantize_linear(X, scale, z, axis=axis)
        with pytest.raises(ValueError, match=r"^x_scale: .* expects shape \(2,\), got "):
            pq.com_microsoft.dequantize_linear(np.ones((2, 2), "u1"), scale, z, axis=axis)


def test_one_dimension_without_axis_is_refused():
    scale = np.ones(1, np.float32)
    with pytest.raises(ValueError, match=r"^y_scale: .* a scalar without axis, got"):
        pq.com_microsoft.quantize_linear(X, scale)
    with pytest.raises(ValueError, match=r"^x_scale: .* a scalar without axis, got"):
        pq.com_microsoft.dequantize_linear(np.ones((2, 2), "u1"), scale)


def test_an_axis_of_one_takes_one():
    scale = np.full(1, 2, np.float32)
    got = pq.com_microsoft.quantize_linear(X[:1], scale, axis=0)
    same(got, pq.com_microsoft.quantize_linear(X[:1], scale[0]))
    with pytest.raises(ValueError, match=r"^y_scale: "):
        pq.com_microsoft.quantize_linear(X[:1], scale[0], axis=0)
