"""Compare `tflite.qparams` with exact arithmetic and operators of an interpreter."""

import numpy as np
import oracle
import pytest

import pyquant as pq
from pyquant.integrations import tflite


def detail(dtype, scales, zeros, axis=0):
    """Return a dictionary of tensor details like the one of a TFLite interpreter."""
    return {
        "name": "some",
        "index": 0,
        "dtype": dtype,
        "quantization_parameters": {
            "scales": np.float32(scales),
            "zero_points": np.int32(zeros),
            "quantized_dimension": axis,
        },
    }


def dense(scale, zero, dtype, seed=0):
    """Return ties, their neighbours, both ends and random numbers."""
    rng = np.random.default_rng(seed)
    lo, hi = oracle.code_range(dtype)
    codes = np.arange(lo - 2, hi + 3, max(1, (hi - lo) // 600))
    ties = ((codes - zero + np.float32(0.5)) * np.float32(scale)).astype(np.float32)
    near = [np.nextafter(ties, np.float32(end)) for end in (-np.inf, np.inf)]
    wild = rng.normal(0, (hi - lo) * scale, 500).astype(np.float32)
    return np.concatenate([ties, *near, wild, np.float32([0, -0.0, np.inf, -np.inf])])


CASES = [(np.int8, 1 / 128, -1), (np.uint8, 0.0235, 128), (np.int16, 3e-4, 0)]


@pytest.mark.parametrize(("dtype", "scale", "zero"), CASES)
def test_by_definition(dtype, scale, zero):
    x = dense(scale, zero, dtype)
    p = tflite.qparams(detail(dtype, [scale], [zero]))
    q = p.quantize(x, rounding="half_away")
    due = oracle.quantize(x, np.float32(scale), zero, dtype=dtype, rounding="half_away")
    np.testing.assert_array_equal(q, due)
    np.testing.assert_array_equal(
        p.dequantize(q), oracle.dequantize(q, np.float32(scale), zero)
    )


@pytest.mark.parametrize("kernels", ["BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"])
@pytest.mark.parametrize(("dtype", "scale", "zero"), CASES)
def test_interpreter(dtype, scale, zero, kernels):
    # The interpreter computes the expected results. Some platforms have no wheels.
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    x = dense(scale, zero, dtype)
    x = x[np.isfinite(x) & (abs(x) < 2**24 * scale)]  # no overflow of its integers
    run = interpreter.Interpreter(
        model_content=bytes(_quantize_dequantize(x.size, dtype, scale, zero)),
        experimental_op_resolver_type=interpreter.OpResolverType[kernels],
    )
    run.allocate_tensors()
    (given,) = run.get_input_details()
    run.set_tensor(given["index"], x)
    run.invoke()
    outputs = {np.dtype(one["dtype"]): one for one in run.get_output_details()}
    codes, numbers = outputs[np.dtype(dtype)], outputs[np.dtype(np.float32)]
    q, y = run.get_tensor(codes["index"]), run.get_tensor(numbers["index"])
    p = tflite.qparams(codes)
    made = {
        True: (
            p.quantize(x, rounding="half_away"),
            p.dequantize(q),
        ),
        False: (
            pq.quantize(x, 1 / p.scale, p.zero_point, inverse=True),
            pq.dequantize(q, p.scale, offset=p.zero_point * -p.scale),
        ),
    }
    reference = kernels == "BUILTIN_REF"
    np.testing.assert_array_equal(made[reference][0], q)
    np.testing.assert_array_equal(made[reference][1].view(np.uint32), y.view(np.uint32))
    assert np.any(made[not reference][0] != q)


def _quantize_dequantize(size, dtype, scale, zero):
    """Return a TFLite model that quantizes and dequantizes."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    def made(kind, **fields):
        one = getattr(schema, f"{kind}T")()
        vars(one).update(fields)
        return one

    def tensor(name, type_, **more):
        kind = getattr(schema.TensorType, type_.upper())
        return made("Tensor", name=name, type=kind, shape=[size], buffer=0, **more)

    scales = [float(np.float32(scale))]
    params = made("QuantizationParameters", scale=scales, zeroPoint=[zero])
    codes = tensor("q", np.dtype(dtype).name, quantization=params)
    tensors = [tensor("x", "float32"), codes, tensor("y", "float32")]
    steps = (schema.BuiltinOperator.QUANTIZE, schema.BuiltinOperator.DEQUANTIZE)
    kinds = [
        made("OperatorCode", builtinCode=one, deprecatedBuiltinCode=one, version=1)
        for one in steps
    ]
    calls = [made("Operator", opcodeIndex=i, inputs=[i], outputs=[i + 1]) for i in (0, 1)]
    graph = made("SubGraph", tensors=tensors, inputs=[0], outputs=[1, 2], operators=calls)
    model = made("Model", version=3, subgraphs=[graph], operatorCodes=kinds)
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return builder.Output()


def test_channels():
    p = tflite.qparams(detail(np.int8, [1, 0.5], [0, 2], axis=1))
    assert p == pq.QParams(np.float32([1, 0.5]), np.int8([0, 2]), "int8", axis=1)
    assert p.quantize(np.float32([[0.5, 1.5], [2.5, -3.5]])).tolist() == [[0, 5], [2, -5]]


def with_parameter(name, value):
    """Return tensor details with the quantization parameter `name` set to `value`."""
    given = detail(np.int8, [1], [0])
    given["quantization_parameters"][name] = value
    return given
