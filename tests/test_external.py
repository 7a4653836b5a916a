"""Results of ONNX Runtime, NumPy and ml_dtypes, where they follow the standard."""

import numpy as np
import pytest
from support import (
    CHOSEN,
    HAVE_BFLOAT16,
    REALS,
    adversarial,
    amount,
    codes,
    each,
    is_nan,
    loop,
    mixed_scales,
    same,
    scales_for,
    usual_scales,
    zero_points,
)

import pyquant as pq

ONNX_CODES = CHOSEN[:4]
COUNT = amount(2_000, 20_000)


@pytest.fixture(scope="module")
def onnx():
    pytest.importorskip("onnxruntime")  # optional; it computes the expected results
    return pytest.importorskip("onnx")  # optional; it defines the operators


@pytest.fixture(scope="module")
def run_node(onnx):
    """Return a function that runs one operator of ai.onnx in ONNX Runtime."""
    import onnxruntime
    from onnx import TensorProto, helper

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1

    def run(op, *inputs, **attributes):
        inputs = [np.asarray(a) for a in inputs]
        names = [f"i{n}" for n in range(len(inputs))]
        types = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in inputs]
        result = types[2] if op == "QuantizeLinear" else TensorProto.FLOAT
        graph = helper.make_graph(
            [helper.make_node(op, names, ["y"], **attributes)],
            op,
            [
                helper.make_tensor_value_info(n, t, a.shape)
                for n, t, a in zip(names, types, inputs, strict=True)
            ],
            [helper.make_tensor_value_info("y", result, None)],
        )
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
        )
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, dict(zip(names, inputs, strict=True)))[0]

    return run


@pytest.mark.parametrize("code", ONNX_CODES, ids=str)
def test_onnx_runtime_quantizes_per_tensor(code, run_node):
    ends = zero_points(code)
    for i, scale in enumerate(scales_for("float32").values()):
        x = adversarial("float32", scale[0], COUNT, seed=i)
        zero = np.array(ends[i % len(ends)], dtype=code)
        same(pq.quantize(x, scale, zero), run_node("QuantizeLinear", x, scale[0], zero))


@each("code, axis", ONNX_CODES, [0, 1, 2])
def test_onnx_runtime_quantizes_along_an_axis(code, axis, run_node):
    x = adversarial("float32", 0.3, 8 * 33 * 40).reshape(8, 33, 40)
    scale = mixed_scales("float32", x.shape[axis])
    zero = codes(code, scale.size)
    got = pq.quantize(x, scale, zero, axis=axis)
    same(got, run_node("QuantizeLinear", x, scale, zero, axis=axis))


@pytest.mark.parametrize("code", ONNX_CODES, ids=str)
def test_onnx_runtime_quantizes_in_blocks(code, run_node):
    # ONNX Runtime saturates correctly only in blocks along the last axis.
    x = adversarial("float32", 0.3, 12 * 100).reshape(12, 100)
    scale = usual_scales("float32", 12 * 4).reshape(12, 4)
    zero = codes(code, scale.size).reshape(scale.shape)
    got = pq.quantize(x, scale, zero, axis=1, block_size=32)
    same(got, run_node("QuantizeLinear", x, scale, zero, axis=1, block_size=32))


@pytest.mark.parametrize("code", ONNX_CODES, ids=str)
def test_onnx_runtime_dequantizes(code, run_node):
    q = codes(code, 8 * 33 * 40).reshape(8, 33, 40)
    for i, scale in enumerate(scales_for("float32").values()):
        zero = np.array(zero_points(code)[i % 5], dtype=code)
        got, expected = (
            pq.dequantize(q, scale, zero),
            run_node("DequantizeLinear", q, scale[0], zero),
        )
        assert (is_nan(got) == is_nan(expected)).all()
        same(got[~is_nan(got)], expected[~is_nan(got)])
    for axis in range(3):
        scale = usual_scales("float32", q.shape[axis])
        zero = codes(code, scale.size)
        got = pq.dequantize(q, scale, zero, axis=axis)
        same(got, run_node("DequantizeLinear", q, scale, zero, axis=axis))
    flat = q.reshape(8, -1)
    scale = usual_scales("float32", 8 * 83).reshape(8, 83)
    zero = codes(code, scale.size).reshape(scale.shape)
    got = pq.dequantize(flat, scale, zero, axis=1, block_size=16)
    same(got, run_node("DequantizeLinear", flat, scale, zero, axis=1, block_size=16))


NODE_TESTS = [
    *(
        "quantizelinear",
        "quantizelinear_axis",
        "quantizelinear_uint16",
        "quantizelinear_int16",
    ),
    "quantizelinear_blocked_asymmetric",
    *("dequantizelinear", "dequantizelinear_axis", "dequantizelinear_uint16"),
    *("dequantizelinear_int16", "dequantizelinear_blocked"),
]


@pytest.fixture(scope="module")
def node_tests(onnx):
    pytest.importorskip("onnx.backend.test.case.node.quantizelinear")  # optional
    pytest.importorskip("onnx.backend.test.case.node.dequantizelinear")  # optional
    from onnx.backend.test.case import node

    return {case.name: case for case in node._NodeTestCases}


@pytest.mark.parametrize("name", NODE_TESTS)
def test_onnx_node_tests(name, node_tests):
    case = node_tests[f"test_{name}"]
    attributes = {a.name: a.i for a in case.model.graph.node[0].attribute}
    for (x, scale, *zero), (expected,) in case.data_sets:
        kwargs = {"axis": attributes.get("axis", 1)} if np.size(scale) > 1 else {}
        if attributes.get("block_size"):
            kwargs["block_size"] = attributes["block_size"]
        if expected.dtype.kind == "f":
            same(pq.dequantize(x, scale, *zero, **kwargs), expected)
        else:
            kwargs["dtype"] = expected.dtype
            same(pq.quantize(x, scale, *zero, **kwargs), expected)


def test_onnx_reference_rounds_float16_quotients(onnx):
    from onnx.reference.ops.op_quantize_linear import QuantizeLinear_21  # noqa: F401

    # The reference divides in float16 and rounds with rint.
    x = np.random.default_rng(1).normal(size=COUNT).astype(np.float16)
    scale = np.float16(0.1)
    expected = np.clip(np.rint(x / scale), -128, 127).astype(np.int8)
    same(pq.quantize(x, scale, precision="float16"), expected)


# Division, rounding and casts of NumPy

NUMPY_MODES = {
    "half_even": np.rint,
    "trunc": np.trunc,
    "ceil": np.ceil,
    "floor": np.floor,
}


@loop("dtype, mode", [np.dtype("float32"), np.dtype("float64")], NUMPY_MODES)
def test_numpys_division_and_rounding(dtype, mode):
    for i, scale in enumerate(scales_for(dtype).values()):
        x = adversarial(dtype, scale[0], COUNT, seed=i)
        with np.errstate(all="ignore"):
            quotient = x / scale
        for code in CHOSEN:  # float64 holds the sums of these codes.
            info = np.iinfo(code)
            rounded = NUMPY_MODES[mode](quotient).astype(np.float64)
            rounded = np.where(np.isnan(rounded), info.min, rounded)
            expected = np.clip(rounded, info.min, info.max).astype(np.int64).astype(code)
            same(pq.quantize(x, scale, dtype=code, rounding=mode), expected)


@loop("code, target", CHOSEN, REALS)
def test_numpys_product_and_cast(code, target):
    q = codes(code, COUNT)
    wide = np.float64 if target == np.float64 else np.float32
    for scale in scales_for(wide).values():
        with np.errstate(all="ignore"):
            expected = (q.astype(np.int64).astype(wide) * scale).astype(target)
        got = pq.dequantize(q, scale, dtype=target)
        nan = is_nan(expected)
        assert (is_nan(got) == nan).all()
        same(got[~nan], expected[~nan])


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="ml_dtypes is not installed")
def test_ml_dtypes_own_quotient():
    # ml_dtypes divides two bfloat16 numbers in float32 and rounds once.
    from ml_dtypes import bfloat16

    x = np.random.default_rng(1).normal(size=COUNT).astype(bfloat16)
    scale = bfloat16(0.1)
    with np.errstate(all="ignore"):
        quotient = (x / scale).astype(np.float32)
    expected = np.clip(np.rint(quotient), -128, 127).astype(np.int8)
    same(pq.quantize(x, scale, precision="bfloat16"), expected)
