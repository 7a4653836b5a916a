"""`tflite` beside exact arithmetic and the operators of an interpreter."""

import tracemalloc
from fractions import Fraction

import numpy as np
import oracle
import pytest

from pyquant.integrations import tflite


def detail(dtype, scales, zeros, axis=0):
    """Return the details of a tensor, as an interpreter does."""
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
    q = tflite.quantize_input(detail(dtype, [scale], [zero]), x)
    due = oracle.quantize(x, np.float32(scale), zero, dtype=dtype, rounding="half_away")
    np.testing.assert_array_equal(q, due)
    y = tflite.dequantize_output(detail(dtype, [scale], [zero]), q)
    np.testing.assert_array_equal(y, oracle.dequantize(q, np.float32(scale), zero))


@pytest.mark.parametrize("kernels", ["BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"])
@pytest.mark.parametrize(("dtype", "scale", "zero"), CASES)
def test_as_the_interpreter_does(dtype, scale, zero, kernels):
    # Optional; it computes the expected results. Some platforms have no wheels.
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    x = dense(scale, zero, dtype)
    x = x[np.isfinite(x) & (abs(x) < 2**24 * scale)]  # beyond, its integers overflow
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
    optimized = kernels != "BUILTIN_REF"
    np.testing.assert_array_equal(tflite.quantize_input(codes, x, optimized=optimized), q)
    np.testing.assert_array_equal(
        tflite.dequantize_output(codes, q, optimized=optimized).view(np.uint32),
        y.view(np.uint32),
    )
    assert np.any(tflite.quantize_input(codes, x, optimized=not optimized) != q)
    assert tflite.quantize_input(given, x) is x


def _quantize_dequantize(size, dtype, scale, zero):
    """Return a model with both operators."""
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

    types = {
        np.int8: schema.TensorType.INT8,
        np.uint8: schema.TensorType.UINT8,
        np.int16: schema.TensorType.INT16,
    }

    def tensor(name, type_, quantized):
        made = schema.TensorT()
        made.name, made.type, made.shape, made.buffer = name, type_, [size], 0
        if quantized:
            made.quantization = schema.QuantizationParametersT()
            made.quantization.scale = [float(np.float32(scale))]
            made.quantization.zeroPoint = [zero]
        return made

    def operator(code, inputs, outputs):
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs, made.outputs = code, inputs, outputs
        return made

    def opcode(code):
        made = schema.OperatorCodeT()
        made.builtinCode = made.deprecatedBuiltinCode = code
        made.version = 1
        return made

    graph = schema.SubGraphT()
    floats = schema.TensorType.FLOAT32
    graph.tensors = [
        tensor("x", floats, False),
        tensor("q", types[dtype], True),
        tensor("y", floats, False),
    ]
    graph.inputs, graph.outputs = [0], [1, 2]
    graph.operators = [operator(0, [0], [1]), operator(1, [1], [2])]
    model = schema.ModelT()
    model.version, model.subgraphs = 3, [graph]
    model.operatorCodes = [
        opcode(schema.BuiltinOperator.QUANTIZE),
        opcode(schema.BuiltinOperator.DEQUANTIZE),
    ]
    model.buffers = [schema.BufferT()]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return builder.Output()


def test_channels():
    x = np.float32([[0.5, 1.5], [2.5, -3.5]])
    channels = detail(np.int8, [1, 0.5], [0, 0], axis=1)
    q = tflite.quantize_input(channels, x)
    assert q.tolist() == [[1, 3], [3, -7]]
    assert tflite.dequantize_output(channels, q).tolist() == [[1, 1.5], [3, -3.5]]


def test_what_is_not_quantized():
    plain = detail(np.float32, [], [])
    x = np.float32([1, 2])
    assert tflite.quantize_input(plain, x) is x
    assert tflite.quantize_input(plain, np.float64([1, 2])).dtype == np.float32
    assert tflite.dequantize_output(plain, x) is x
    assert tflite.dequantize_output(plain, x, dtype="float64").dtype == np.float64
    out = np.empty(2, np.float32)
    assert tflite.quantize_input(plain, x, out=out) is out
    assert out.tolist() == [1, 2]


def test_the_common_snippet_is_wrong():
    """`(x / scale + zero).astype(dtype)` truncates, and wraps what is out of range."""
    scale, zero = 1 / 128, -1
    x = np.arange(256, dtype=np.float32) / 255
    q = tflite.quantize_input(detail(np.int8, [scale], [zero]), x)
    with np.errstate(invalid="ignore"):
        snippet = (x / np.float32(scale) + zero).astype(np.int32).astype(np.int8)
    assert 0.2 < np.mean(snippet != q) <= 1
    exact = [Fraction(i, 255) / Fraction(scale) + zero for i in range(256)]
    half = Fraction(1, 2)
    assert all(abs(int(q[i]) - exact[i]) <= half for i in range(255))


WRONG_PARAMETERS = [
    ("zero_points", [0.7], "zero_points: expected integers, got float64"),
    ("zero_points", np.float32([3]), "zero_points: expected integers, got float32"),
    ("zero_points", [1 << 70], "zero_points: expected integers, got object"),
    ("zero_points", [np.ma.masked], "zero_points: expected an array without a mask"),
    ("zero_points", "x", "zero_points: expected an array, got str"),
    ("scales", ["0.5"], "scales: expected real numbers, got <U3"),
    ("scales", [1j], "scales: expected real numbers, got complex128"),
    ("scales", None, "scales: expected an array, got NoneType"),
    ("quantized_dimension", 0.7, "expected one of an interpreter"),
    ("quantized_dimension", "0", "expected one of an interpreter"),
]


@pytest.mark.parametrize(("name", "value", "text"), WRONG_PARAMETERS, ids=str)
def test_parameters_of_a_detail_are_checked(name, value, text):
    given = detail(np.int8, [1], [0])
    given["quantization_parameters"][name] = value
    for call in (tflite.quantize_input, tflite.dequantize_output):
        with pytest.raises(TypeError, match=f"^detail: {text}") as caught:
            call(given, [1.0])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("pixel", ["uint8", "uint16"])
def test_pixels_are_numbers(pixel, optimized):
    info = np.iinfo(pixel)
    x = np.arange(info.max + 1).astype(pixel).reshape(-1, 64)
    given = detail(np.int8, [info.max / 250.5], [-128])
    due = tflite.quantize_input(given, x.astype(np.float32), optimized=optimized)
    q = tflite.quantize_input(given, x, optimized=optimized)
    assert (q.dtype, q.shape) == (np.int8, x.shape)
    np.testing.assert_array_equal(q, due)
    out = np.zeros((64, len(x) * 2), np.int8)[:, ::2].T
    swapped = x.astype(x.dtype.newbyteorder())
    assert tflite.quantize_input(given, swapped, optimized=optimized, out=out) is out
    np.testing.assert_array_equal(out, due)
    assert tflite.quantize_input(given, x[:0]).shape == (0, 64)
    memory = np.arange(256, dtype=np.uint8)
    tflite.quantize_input(given, memory, out=memory.view(np.int8))
    np.testing.assert_array_equal(
        memory.view(np.int8), tflite.quantize_input(given, np.arange(256, dtype=np.uint8))
    )


def test_pixels_need_no_large_memory():
    x, out = np.ones(4_000_000, np.uint8), np.empty(4_000_000, np.int8)
    given = detail(np.int8, [1], [-128])
    tflite.quantize_input(given, x[:9])
    tracemalloc.start()
    try:
        tflite.quantize_input(given, x, out=out)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tflite.quantize_input({}, [1.0]), TypeError, "detail: expected"),
        (lambda: tflite.quantize_input(None, [1.0]), TypeError, "detail: expected one"),
        (
            lambda: tflite.quantize_input(detail(np.int8, [1, 2], [0]), [1.0]),
            ValueError,
            "detail: expected as many zero points as scales",
        ),
        (
            lambda: tflite.quantize_input(detail(np.int32, [], []), [1.5]),
            TypeError,
            "x: expected int32, got float64",
        ),
        (
            lambda: tflite.dequantize_output(detail(np.int8, [1], [0]), np.uint8([1])),
            TypeError,
            "q: expected int8, got uint8",
        ),
        (
            lambda: tflite.dequantize_output(detail(np.float32, [], []), ["a"]),
            TypeError,
            "q: expected float32, got <U1",
        ),
        (
            lambda: tflite.dequantize_output(
                detail(np.float32, [], []), np.float32([1]), dtype="int8"
            ),
            TypeError,
            "dtype: expected float32, float64, float16 or bfloat16, got 'int8'",
        ),
        (
            lambda: tflite.dequantize_output(
                detail(np.int8, [1], [0]), np.int8([1]), optimized="no"
            ),
            TypeError,
            "optimized: expected True or False, got str",
        ),
        (
            lambda: tflite.quantize_input(np.ones((9, 9)), [1.0]),
            TypeError,
            "detail: expected one of an interpreter",
        ),
        (
            lambda: tflite.quantize_input(
                detail(np.float32, [], []), np.float32([1]), out=np.zeros(2, np.float32)
            ),
            TypeError,
            "out: expected float32 of shape",
        ),
        (
            lambda: tflite.quantize_input(detail(np.uint8, [1], [0]), np.uint8([1])),
            TypeError,
            "x: expected real numbers, got uint8, the type of the codes; convert pixels to",
        ),
        (
            lambda: tflite.quantize_input(detail(np.int8, [1, 2], [0, 0]), np.uint8([1])),
            TypeError,
            "x: expected real numbers, got uint8, and several scales; convert pixels to fl",
        ),
        (
            lambda: tflite.quantize_input(detail(np.int8, [1], [0]), np.int8([1])),
            TypeError,
            "x: expected float32, float64, float16 or bfloat16, got int8",
        ),
        (
            lambda: tflite.quantize_input(detail(np.int8, [1], [500]), np.uint8([1])),
            ValueError,
            "zero_point: expected integers from -128 to 127 ",
        ),
        (
            lambda: tflite.quantize_input(detail(np.int8, [1], [500]), [1.0]),
            ValueError,
            "zero_point: expected integers from -128 to 127",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=f"^{text}") as caught:
        call()
    assert "\n" not in str(caught.value)


def test_outputs_that_are_real_become_bfloat16_too():
    ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; it defines bfloat16
    y = tflite.dequantize_output(
        detail(np.float32, [], []), np.float32([1]), dtype="bfloat16"
    )
    assert y.dtype == ml_dtypes.bfloat16
