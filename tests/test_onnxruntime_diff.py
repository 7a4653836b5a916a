"""Compare with ONNX Runtime on data with many ties, and test its known deviations."""

import numpy as np
import pytest
from oracle import code_range
from support import (
    adversarial,
    amount,
    cast,
    codes,
    dtype_of,
    is_nan,
    loop,
    mixed_scales,
    same,
    scales_for,
    usual_scales,
)

import pyquant.com_microsoft
import pyquant.onnx

# pyquant's extra "model" installs both packages, but not on emulated processors.
# Since version 1.32, ONNX Runtime divides in the specified type and saturates infinities.
onnxruntime = pytest.importorskip("onnxruntime", minversion="1.32")
onnx = pytest.importorskip("onnx")  # The package onnx defines the operators.
pytest.importorskip("ml_dtypes")  # ml_dtypes defines the types.

from onnx import helper, numpy_helper  # noqa: E402

COUNT = amount(2_000, 20_000)
NAMES = ("int8", "uint8", "int16", "uint16", "int4", "uint4")
RANGES = {name: code_range(name) for name in NAMES}
FLOAT8 = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"]
# The Python interface of ONNX Runtime cannot return these types. A Cast in the model
# converts the results to the wider types.
WIDER = {"int4": np.int8, "uint4": np.uint8, "int2": np.int8, "uint2": np.uint8}


def run_node(op, *inputs, result, domain="", opset=25, **attributes):
    """Run one operator in ONNX Runtime with constant inputs, and widen the result."""
    inputs = [np.asarray(a) for a in inputs]
    names = [f"i{n}" for n in range(len(inputs))]
    nodes = [helper.make_node(op, names, ["y"], domain=domain, **attributes)]
    result = np.dtype(result)
    wide = np.dtype(WIDER.get(result.name, np.float32 if result.name in FLOAT8 else result))
    if wide != result:
        kind = helper.np_dtype_to_tensor_dtype(wide)
        nodes.append(helper.make_node("Cast", ["y"], ["wide"], to=kind))
    last = nodes[-1].output[0]
    graph = helper.make_graph(
        nodes,
        op,
        [],
        [helper.make_tensor_value_info(last, helper.np_dtype_to_tensor_dtype(wide), None)],
        [numpy_helper.from_array(a, n) for n, a in zip(names, inputs, strict=True)],
    )
    opsets = [helper.make_opsetid("", opset)]
    if domain:
        opsets.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=11)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, {})[0]


def widened(got):
    """Return a result of pyquant in the type that `run_node` returns."""
    if got.dtype.name in FLOAT8:
        return cast(got, np.float32)
    return got.astype(WIDER.get(got.dtype.name, got.dtype))


def same_numbers(got, expected):
    """Compare bit for bit, except the bits of NaN."""
    __tracebackhide__ = True
    nan = is_nan(expected)
    assert (is_nan(got) == nan).all()
    same(got[~nan], expected[~nan])


def codes_of(name, count, seed=0):
    """Return codes of a type, including the lowest and the highest code."""
    low, high = RANGES[name]
    values = low + codes("uint16", count, seed).astype(np.int64) % (high - low + 1)
    values[:2] = [low, high][:count]
    return values.astype(dtype_of(name))


def ends_of(name):
    """Return zero points of a type: both ends, values next to an end, and small values."""
    low, high = RANGES[name]
    return np.array([low, high, 0, 1, 3, high - 1]).astype(dtype_of(name))


def check_quantize(x, scale, zero, **attributes):
    __tracebackhide__ = True
    got = pyquant.onnx.quantize_linear(x, scale, zero, **attributes)
    assert got.dtype == zero.dtype
    theirs = run_node("QuantizeLinear", x, scale, zero, result=zero.dtype, **attributes)
    same(widened(got), theirs)


@loop("name", RANGES)
def test_quantizes_per_tensor(name):
    zeros = ends_of(name)
    for i, scale in enumerate(scales_for("float32").values()):
        zero = zeros[i % zeros.size]
        x = adversarial("float32", scale[0], COUNT, seed=i, zero_point=int(zero))
        check_quantize(x, scale[0], np.asarray(zero))


def test_quantizes_every_float16():
    numbers = np.arange(65536, dtype=np.uint16).view(np.float16)
    for scale in np.array([0.1, 0.3, -7, 2.0**-14], np.float16):
        check_quantize(numbers, scale, np.array(3, np.uint8))


@loop("name, axis", RANGES, [0, 1, 2, -1])
def test_quantizes_along_an_axis(name, axis):
    x = adversarial("float32", 0.3, 8 * 33 * 40).reshape(8, 33, 40)
    scale = mixed_scales("float32", x.shape[axis])
    check_quantize(x, scale, codes_of(name, scale.size), axis=axis)


@loop("name, block", RANGES, [16, 32, 64])
def test_quantizes_in_blocks_of_the_last_axis(name, block):
    x = adversarial("float32", 0.3, 12 * 100).reshape(12, 100)
    shape = (12, -(-100 // block))
    scale = usual_scales("float32", shape[0] * shape[1]).reshape(shape)
    zero = codes_of(name, scale.size).reshape(shape)
    check_quantize(x, scale, zero, axis=1, block_size=block)


def check_dequantize(q, scale, *zero, **attributes):
    __tracebackhide__ = True
    got = pyquant.onnx.dequantize_linear(q, scale, *zero, **attributes)
    theirs = run_node("DequantizeLinear", q, scale, *zero, result=scale.dtype, **attributes)
    assert got.dtype == scale.dtype
    same_numbers(got, theirs)


@loop("name, real", RANGES, ["float32", "float16"])
def test_dequantizes(name, real):
    q = codes_of(name, 8 * 33 * 40).reshape(8, 33, 40)
    zeros = ends_of(name)
    for i, scale in enumerate(scales_for("float32").values()):
        check_dequantize(q, cast(scale[0], real), np.asarray(zeros[i % zeros.size]))
    for axis in (0, 1, 2, -1):
        scale = usual_scales(real, q.shape[axis])
        check_dequantize(q, scale, codes_of(name, scale.size), axis=axis)
    flat = q.reshape(8, -1)
    scale = usual_scales(real, 8 * 83).reshape(8, 83)
    zero = codes_of(name, scale.size).reshape(scale.shape)
    check_dequantize(flat, scale, zero, axis=1, block_size=16)


def test_dequantizes_int32():
    q = codes("int32", COUNT)
    for scale in scales_for("float32").values():
        check_dequantize(q, scale[0])
        check_dequantize(q // 2, scale[0], np.array(-5, np.int32))
    check_dequantize(q.reshape(-1, 20), usual_scales("float32", 20), axis=1)


@loop("name, real", FLOAT8, ["float32", "float16"])
def test_float8_with_saturation(name, real):
    for i, scale in enumerate((1.0, 0.3, -0.7, 2.0**-10, 1000.0)):
        x = adversarial(real, scale, COUNT, seed=i)
        scale, zero = cast(scale, real), np.zeros((), dtype_of(name))
        got = pyquant.onnx.quantize_linear(x, scale, zero)
        theirs = run_node("QuantizeLinear", x, scale, zero, result=zero.dtype)
        same_numbers(widened(got), theirs)


@pytest.mark.parametrize("opset", [19, 22, 23, 24])
def test_the_opset_sets_the_type_of_the_division(opset):
    single = opset < 23
    zero = np.uint8(100)
    for scale in (np.float16(0.1), np.float16(-3.3)):
        x = adversarial("float16", scale, COUNT)
        x = x[np.isfinite(x)]
        options = {"precision": "float32"} if single else {}
        got = pyquant.onnx.quantize_linear(x, scale, zero, **options)
        theirs = run_node("QuantizeLinear", x, scale, zero, result="uint8", opset=opset)
        same(got, theirs)
    theirs = run_node("QuantizeLinear", HALVES, TENTH, zero, result="uint8", opset=opset)
    assert theirs.tolist() == ([103, 111] if single else [102, 110])


@loop("name", FLOAT8)
def test_float8_dequantizes_every_code(name):
    q = np.arange(256, dtype=np.uint8).view(dtype_of(name))
    for scale in scales_for("float32").values():
        check_dequantize(q, scale[0])
        check_dequantize(q, scale[0], np.zeros((), q.dtype))


@loop("name, axis", RANGES, [None, 1])
def test_com_microsoft(name, axis):
    x = adversarial("float32", 0.3, 4 * 33 * 10).reshape(4, 33, 10)
    scale = mixed_scales("float32", 33) if axis else np.float32(0.3)
    zero = codes_of(name, np.size(scale)).reshape(np.shape(scale))
    attributes = {} if axis is None else {"axis": axis}
    outside = {"domain": "com.microsoft", **attributes}
    got = pyquant.com_microsoft.quantize_linear(x, scale, zero, **attributes)
    theirs = run_node("QuantizeLinear", x, scale, zero, result=zero.dtype, **outside)
    same(widened(got), theirs)
    back = pyquant.com_microsoft.dequantize_linear(got, scale, zero, **attributes)
    theirs = run_node("DequantizeLinear", got, scale, zero, result=np.float32, **outside)
    same_numbers(back, theirs)


def f32(*values):
    return np.array(values, np.float32)


def quantized(name, *values):
    return np.array(values).astype(dtype_of(name))


def fp8(name, *patterns):
    return cast(np.array(patterns, np.uint8).view(dtype_of(name)), np.float32)


ONE = np.float32(1)
HALVES, TENTH = np.array([0.25, 1.05], np.float16), np.float16(0.1)
# Deviations of ONNX Runtime. Values are the operator and the inputs, the attributes, the
# result of ONNX Runtime and the result of pyquant.
DEVIATIONS = {
    "e4m3fn without saturation, 480 to 496": (
        ("QuantizeLinear", (f32(464, 480, 495), ONE, quantized("float8_e4m3fn", 0)[0])),
        {"saturate": 0},
        fp8("float8_e4m3fn", 0x7E, 0x7E, 0x7E),
        fp8("float8_e4m3fn", 0x7E, 0x7F, 0x7F),
    ),
    "e5m2 without saturation, 61440 to 65536": (
        ("QuantizeLinear", (f32(61439, 61440, 65535), ONE, quantized("float8_e5m2", 0)[0])),
        {"saturate": 0},
        fp8("float8_e5m2", 0x7B, 0x7F, 0x7F),
        fp8("float8_e5m2", 0x7B, 0x7C, 0x7C),
    ),
    "int32 difference wraps": (
        ("DequantizeLinear", (np.array([-(2**31)], np.int32), ONE, np.int32(1))),
        {},
        f32(2.0**31),
        f32(-(2.0**31)),
    ),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_deviations_of_onnx_runtime(name):
    (op, inputs), attributes, theirs, ours = DEVIATIONS[name]
    result = inputs[2].dtype if op == "QuantizeLinear" else theirs.dtype
    answer = run_node(op, *inputs, result=result, **attributes)
    same_numbers(answer, theirs) if answer.dtype.kind == "f" else same(answer, theirs)
    call = getattr(pyquant.onnx, op.replace("Linear", "_linear").lower())
    got = widened(call(*inputs, **attributes))
    same_numbers(got, ours) if got.dtype.kind == "f" else same(got, ours)


def test_com_microsoft_takes_scales_without_an_axis():
    # Without an axis, the specification requires scalar parameters. ONNX Runtime accepts
    # arrays and assumes axis 1.
    x, scale, zero = f32([1, 2], [3, 4]), f32(1, 0.5), np.zeros(2, np.uint8)
    answer = run_node(
        "QuantizeLinear", x, scale, zero, result=np.uint8, domain="com.microsoft"
    )
    assert answer.tolist() == [[1, 4], [3, 8]]
    with pytest.raises(ValueError, match=r"^(y_scale|axis):"):
        pyquant.com_microsoft.quantize_linear(x, scale, zero)


# Weights have 7 bits, because without VNNI, ONNX Runtime adds pairs of products in 16 bits.
WEIGHTS = -64, 65


@loop("target, zero", ["uint8", "int8"], [0, 5])
def test_requantize_equals_qlinear_matmul(target, zero):
    rng = np.random.default_rng(8)
    for m, k, n, scale in ((40, 64, 48, 0.03), (16, 8, 64, 0.5), (64, 300, 20, 0.11)):
        a = rng.integers(0, 256, (m, k)).astype(target)
        b = rng.integers(*WEIGHTS, (k, n), dtype=np.int8)
        scales = f32(0.02, scale, 0.37 * k**0.5 * scale)
        parameters = (scales[0], a.dtype.type(7), b, scales[1], np.int8(0), scales[2])
        zero = a.dtype.type(zero)
        theirs = run_node("QLinearMatMul", a, *parameters, zero, result=target)
        sums = (a.astype(np.int32) - 7) @ b.astype(np.int32)
        multiplier = scales[0] * scales[1] / scales[2]
        got = pyquant.requantize(sums, multiplier, zero, dtype=target)
        same(got, theirs)
        assert len(np.unique(got)) > 20
