"""Compare pyquant with lines that many repositories copy, at six boundaries of models.

In a checkout, install pyquant, the packages that run models, and the packages that contain
the models:

pip install . onnx onnxruntime ai-edge-litert numkong
pip install --no-deps magika silero-vad rapidocr-onnxruntime

The program installs and downloads nothing, and names missing packages. It prints the share
of codes that differ from ONNX Runtime or LiteRT. MB is the NumPy memory that the lines
allocate.
"""

import timeit
import tracemalloc
from importlib.metadata import files

import numpy as np
import onnxruntime
from onnx import helper, load, numpy_helper, parser

import pyquant as pq
from pyquant.integrations import products, tflite

RNG = np.random.default_rng(0)


def session(model):
    """Return a session of ONNX Runtime with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def shipped(package, pattern):
    """Return the path of a model in an installed package, without an import."""
    return str(next(file.locate() for file in files(package) if file.match(pattern)))


def largest_matrix(path):
    """Return the largest matrix in a model."""
    graph = load(path).graph
    constants = [n.attribute[0].t for n in graph.node if n.op_type == "Constant"]
    matrices = [t for t in (*graph.initializer, *constants) if len(t.dims) == 2]
    return numpy_helper.to_array(max(matrices, key=lambda t: np.prod(t.dims)))


def run_operator(kind, *inputs, **attributes):
    """Return the result of an operator of ONNX Runtime."""
    feed = dict(zip("abc", map(np.asarray, inputs), strict=False))
    types = {name: helper.np_dtype_to_tensor_dtype(one.dtype) for name, one in feed.items()}
    declared = [helper.make_tensor_value_info(k, types[k], feed[k].shape) for k in feed]
    results = [helper.make_empty_tensor_value_info("y")]
    node = helper.make_node(kind, list(feed), ["y"], **attributes)
    graph = helper.make_graph([node], kind, declared, results)
    opsets = [helper.make_opsetid("", 21)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return session(model.SerializeToString()).run(None, feed)[0]


def camera():
    """Convert a camera image to the int8 planes of a detector."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["": 21]>
        detector (int8[1, 3, 640, 640] input) => (float[1, 3, 640, 640] x)
        <float s = {0.0186584}, int8 z = {-14}> { x = DequantizeLinear(input, s, z) }""")
    image = RNG.integers(0, 256, (640, 640, 3), dtype=np.uint8)
    mean, std = np.float32([0.485, 0.456, 0.406]), np.float32([0.229, 0.224, 0.225])
    pixels = pq.QParams.from_normalization(mean, std, axis=0)
    model_input = pq.onnx.qparams(model, "input")
    scale, zero_point = model_input.scale, model_input.zero_point
    buffer = np.zeros((3, 640, 640), np.int8)
    planes = pixels.dequantize(image.transpose(2, 0, 1))
    expected = run_operator("QuantizeLinear", planes, scale, zero_point)
    usual = """x = ((image / 255 - mean) / std).transpose(2, 0, 1)
q = (x / scale + zero_point).astype(np.int8)"""
    ours = "q = model_input.requantize(image.transpose(2, 0, 1), pixels, out=buffer)"
    return locals()


def interpreter():
    """Convert a camera image to the int8 input of an interpreter."""
    import flatbuffers
    from ai_edge_litert import interpreter
    from ai_edge_litert import schema_py_generated as schema

    image = RNG.integers(0, 256, (1, 640, 640, 3), dtype=np.uint8)
    params = schema.QuantizationParametersT(scale=[1 / 255], zeroPoint=[-128])
    real = schema.TensorT(image.shape, schema.TensorType.FLOAT32)
    code = schema.TensorT(image.shape, schema.TensorType.INT8, quantization=params)
    steps = [schema.OperatorT(inputs=[i], outputs=[i + 1]) for i in (0, 2)]
    graph = schema.SubGraphT([real, code, code, code], [0, 2], [1, 3], steps)
    kinds = [schema.OperatorCodeT(schema.BuiltinOperator.QUANTIZE)]
    model = schema.ModelT(3, kinds, [graph], buffers=[schema.BufferT()])
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    model = interpreter.Interpreter(model_content=bytes(builder.Output()), num_threads=1)
    model.allocate_tensors()
    floats, detail = model.get_input_details()
    pixels, model_input = pq.QParams.from_normalization(0, 1), tflite.qparams(detail)
    scale, zero_point = detail["quantization"]
    tensor = model.tensor(detail["index"])
    model.set_tensor(floats["index"], pixels.dequantize(image))
    model.invoke()
    expected = model.get_tensor(model.get_output_details()[0]["index"])
    usual = "q = (image / 255 / scale + zero_point).astype(np.int8)"
    ours = "q = model_input.requantize(image, pixels, out=tensor())"
    return locals()


def speech():
    """Convert 60 s of PCM samples to the windows of silero-vad."""
    model = session(shipped("silero-vad", "*16k_sequence.onnx"))
    pcm = (RNG.standard_normal(60 * 16000) * 3000).astype(np.int16)
    windows = np.lib.stride_tricks.sliding_window_view(pcm, 576)[::512]
    params = pq.QParams.from_pcm(16)
    buffer, state = np.empty(windows.shape, np.float32), np.zeros((1, 1, 128), np.float32)
    expected = run_operator("DequantizeLinear", windows, np.float32(1 / 32768))
    model.run(None, {"input": expected, "h": state, "c": state})
    usual = "q = windows.astype(np.float32) / 32768"
    ours = "q = params.dequantize(windows, out=buffer)"
    return locals()


def text():
    """Convert an image of a page to the input of rapidocr, and compute its text mask."""
    model = session(shipped("rapidocr-onnxruntime", "*det_infer.onnx"))
    page = np.full((736, 960, 3), 255, np.uint8)
    signs = RNG.integers(0, 2, (6, 90, 1)) * 255
    page[100:148, 100:820] = np.kron(signs, np.ones((8, 8, 3)))
    mean = std = np.array([0.5, 0.5, 0.5])
    pixels = pq.QParams.from_normalization(mean, std, axis=0)
    buffer, binding = np.empty((1, 3, 736, 960), np.float32), model.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, buffer.shape, buffer.ctypes.data)
    binding.bind_output(model.get_outputs()[0].name)

    def codes_of(q):
        buffer[:] = q
        model.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()[0] > 0.3

    expected = codes_of(((page / 255 - mean) / std).transpose(2, 0, 1))
    usual = """x = (page.astype("float32") * (1 / 255.0) - mean) / std
q = x.transpose((2, 0, 1))[None].astype(np.float32)"""
    ours = "q = pixels.dequantize(page.transpose(2, 0, 1), out=buffer[0])"
    return locals()


def search():
    """Convert the vectors of rapidocr's 6625 characters to int8, and search in them."""
    x = largest_matrix(shipped("rapidocr-onnxruntime", "*rec_infer.onnx")).T.copy()
    start, step = x[::2].min(axis=0), np.ptp(x[::2], axis=0) / 255
    zeros, chosen = np.full(step.shape, -128, np.int8), pq.choose_qparams(x, axis=0)
    usual_expected = run_operator("QuantizeLinear", x - start, step, zeros, axis=1)
    expected = run_operator("QuantizeLinear", x, chosen.scale, chosen.zero_point, axis=0)
    usual = """q = ((x - start) / step - 128).astype(np.int8)
found = q[:1].astype(np.int32) @ q.T"""
    ours = """q, p = pq.dynamic_quantize(x, axis=0)
found = pq.dequantize(products.matmul(q[:1], q.T), (p.scale[:1], p.scale))"""
    return locals()


def layer():
    """Compute a quantized linear layer with a weight of magika."""
    w, w_params = pq.dynamic_quantize(largest_matrix(shipped("magika", "*.onnx")), axis=1)
    w_scale, prepared = w_params.scale, products.Prepared(w)
    x = RNG.standard_normal((64, len(w)), np.float32)
    chosen = pq.choose_qparams(x, axis=0)
    expected = run_operator("QuantizeLinear", x, chosen.scale, chosen.zero_point, axis=0)
    usual = """scale = abs(x).max(axis=1, keepdims=True) / 127
q = (x / scale).astype(np.int8)
y = (q.astype(np.int32) @ w) * (scale * w_scale)"""
    ours = """q, p = pq.dynamic_quantize(x, axis=0)
sums = products.matmul(q, prepared)
y = pq.dequantize(sums, (p.scale, w_scale))"""
    return locals()


def measure(lines, expected, names):
    """Return the share of wrong codes, milliseconds, and megabytes of memory."""
    times = timeit.repeat(names[lines], number=1, repeat=15, globals=names)
    tracemalloc.start()
    exec(names[lines], names)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    wrong = np.mean(names.get("codes_of", np.asarray)(names["q"]) != expected)
    return f"{100 * wrong:.3g} %", f"{1e3 * np.median(times):.3g}", f"{peak / 1e6:.1f}"


table = ["| job | wrong codes | ms | MB |", "|---|---|---|---|"]
for job in (camera, interpreter, speech, text, search, layer):
    title = job.__doc__[:-1]
    try:
        names = {**globals(), **job()}
    except ModuleNotFoundError as error:
        table.append(f"| {title} | missing package: {error.name} | | |")
        continue
    print(
        title, "# usual", names["usual"], "# pyquant", names["ours"], sep="\n", end="\n\n"
    )
    expected = names.get("usual_expected", names["expected"])
    figures = measure("usual", expected, names), measure("ours", names["expected"], names)
    cells = [f"{one} → {other}" for one, other in zip(*figures, strict=True)]
    table.append(f"| {title} | {' | '.join(cells)} |")
print(*table, sep="\n")
