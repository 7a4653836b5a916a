"""Test commands with ONNX models. The results are compared with onnx and ONNX Runtime."""

import json
import random
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from support import amount

import pyquant as pq

onnx = pytest.importorskip("onnx", minversion="1.19")  # the tests write models with onnx
pytest.importorskip("ml_dtypes")  # onnx imports the package

from onnx import TensorProto, external_data_helper, helper, numpy_helper, parser  # noqa: E402

from pyquant.cli import main  # noqa: E402
from pyquant.cli._errors import Refused  # noqa: E402
from pyquant.cli._forms import Granularity  # noqa: E402
from pyquant.cli._logical import logical  # noqa: E402
from pyquant.cli._models import open_model  # noqa: E402

pytestmark = pytest.mark.usefixtures("here")

TYPES = {
    name: helper.tensor_dtype_to_np_dtype(value)
    for name, value in TensorProto.DataType.items()
    if name not in ("UNDEFINED", "STRING", "COMPLEX128")
}


DATA = "own.onnx.data"  # the file with the external data of in.onnx


def saved(proto, external=False, path="in.onnx"):
    """Write a model to `path`. If `external` is true, write the tensors to another file."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)  # copy, because save_model changes its argument
    Path(DATA).unlink(missing_ok=True)  # save_model does not overwrite the file
    how = {"location": DATA, "size_threshold": 64}
    onnx.save_model(copy, path, save_as_external_data=external, **how)
    return path


def model_of(*tensors, text="", opset=21, **arrays):
    """Return a model with the given initializers."""
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": {opset}]>
        g (float[N, 24] x) => (float[N, M] y) {{ {text or "y = Identity(x)"} }}"""
    )
    proto.graph.initializer.extend(tensors)
    for name, array in arrays.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    return proto


def skip_without(type):
    if "int2" in type and "INT2" not in TYPES:
        pytest.skip("this onnx has no types of 2 bits")


def values_of(dtype, shape=(5, 7)):
    """Return random bit patterns of a type."""
    size = int(np.prod(shape))
    raw = np.random.default_rng(0).integers(0, 256, size * dtype.itemsize, np.uint8)
    if dtype.kind == "b":
        raw &= 1
    if dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
        raw %= 4 if "2" in dtype.name[:5] else 16
        return raw.astype(np.int8).view(np.uint8).astype(dtype).reshape(shape)
    return raw.view(dtype).reshape(shape)


# Initializers


@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
@pytest.mark.parametrize("name", TYPES)
def test_initializers_equal_the_reader_of_onnx(name, external):
    dtype = TYPES[name]
    array = values_of(dtype, (5, 71))
    path = saved(model_of(w=array), external)
    expected = numpy_helper.to_array(onnx.load(path).graph.initializer[0])
    with open_model(path) as model:
        assert (model.kind, list(model)) == ("onnx", ["w"])
        tensor = model["w"]
        assert (tensor.format, tensor.shape) == (name, (5, 71))
        assert len(model.paths) == 1 + external
        got = tensor.dequantize(dtype=tensor.dtype)
        assert tensor.dtype == dtype
        assert got.dtype == expected.dtype
        assert got.tobytes() == expected.tobytes()
        for rows in (slice(1, 4), slice(3, 3), slice(4, None)):
            part = tensor.dequantize(rows, dtype=tensor.dtype)
            assert part.tobytes() == expected[rows].tobytes()
        if dtype.kind not in "bc":
            with np.errstate(over="ignore", invalid="ignore"):
                real = expected[1:4].astype(np.float32)
            assert np.array_equal(
                tensor.dequantize(slice(1, 4), dtype="float32"), real, equal_nan=True
            )


@pytest.mark.parametrize("kind", ["FLOAT", "INT8", "UINT4", "FLOAT16", "BFLOAT16", "INT64"])
def test_fields_of_each_type(kind):
    """Tensors with elements in a typed field, instead of raw bytes, are read correctly."""
    code = TensorProto.DataType.Value(kind)
    array = np.arange(15).reshape(3, 5).astype(TYPES[kind])
    values = array.astype(np.float32 if "FLOAT" in kind else np.int64).ravel().tolist()
    made = helper.make_tensor("w", code, (3, 5), values)
    assert not made.HasField("raw_data")
    with open_model(saved(model_of(made))) as model:
        assert np.array_equal(model["w"].dequantize(dtype=TYPES[kind]), array)


def test_what_a_model_says():
    proto = model_of()
    proto.metadata_props.add(key="author", value="me")
    proto.producer_name = "exporter"
    with open_model(saved(proto)) as model:
        assert model.metadata["opset"] == {"ai.onnx": 21}
        assert model.metadata["author"] == "me"
        assert model.metadata["producer"] == "exporter"


def test_without_onnx(monkeypatch, refused):
    path = saved(model_of())
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "pyquant.cli._onnx", raising=False)
    said = "quantize: models of ONNX need onnx: pip install 'pyquant-simd[onnx]'\n"
    refused(said, "quantize", path, "out.onnx", "--type", "int8")


def elsewhere(location, **said):
    """Return a function that moves the data of a tensor to the external file `location`."""

    def change(tensor):
        Path("data").write_bytes(bytes(48))
        Path("link").symlink_to("/etc/hostname")
        external_data_helper.set_external_data(tensor, location)
        tensor.ClearField("raw_data")
        for key, value in said.items():
            tensor.external_data.add(key=key, value=str(value))

    return change


def negative(tensor):
    tensor.dims[:] = [-3, -4]


def without_data(tensor):
    tensor.data_type = 53  # unknown
    tensor.ClearField("raw_data")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.dims.append(2), "96 bytes for FLOAT[3, 4, 2], got 48"),
        (negative, "a shape that NumPy can have"),
        (without_data, "data that fills the shape"),
        (elsewhere("/etc/passwd"), "external data in the folder"),
        (elsewhere("../m.onnx"), "external data in the folder"),
        (elsewhere("a/../../m.onnx"), "external data in the folder"),
        (elsewhere("link"), "external data in the folder"),
        (elsewhere(""), "a file of external data"),
        (elsewhere("data", offset=1), "bytes within the 48 of"),
        (elsewhere("data", offset=-1), "bytes within the 48 of"),
        (elsewhere("data", offset="x"), "whole numbers"),
        (elsewhere("data", length=40), "48 bytes for FLOAT[3, 4], got 40"),
        (elsewhere("data", length=2**70), "bytes within the 48 of"),
    ],
    ids=range(13),
)
def test_tensors_that_contradict_their_header(change, said):
    proto = model_of(w=np.ones((3, 4), np.float32))
    change(proto.graph.initializer[0])
    Path("m.onnx").write_bytes(proto.SerializeToString())
    with pytest.raises(Refused) as caught:
        open_model("m.onnx")
    assert str(caught.value).startswith(f"m.onnx: tensor 'w': expected {said}")
    assert "\n" not in str(caught.value)


def test_absent_external_data_is_an_error():
    path = saved(model_of(w=np.ones((30, 4), np.float32)), True)
    Path(DATA).unlink()
    with pytest.raises(FileNotFoundError):
        open_model(path)


ONES = np.ones(3)
NO_TEXT = model_of(name=ONES).SerializeToString().replace(b"name", b"n\xffme")
TWICE = [numpy_helper.from_array(ONES, "w")] * 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        *((one, "a model of ONNX, got ") for one in (b"", b"\x08", bytes(range(256)))),
        *((one, "a model of ONNX, got ") for one in (b"\x08\x0a", b"PK\3\4", b"\x3a\0")),
        (NO_TEXT, "a model of ONNX, got names that are no UTF-8"),
        (model_of(*TWICE).SerializeToString(), "different names, got it twice"),
    ],
    ids=range(8),
)
def test_files_that_are_no_models(content, said):
    Path("m.onnx").write_bytes(content)
    with pytest.raises(Refused, match=f"expected {said}"):
        open_model("m.onnx")


def test_bytes_of_unknown_types_are_kept():
    one = numpy_helper.from_array(ONES, "w")
    one.data_type = 53
    with open_model(saved(model_of(one))) as model:
        assert (model["w"].format, model["w"].dtype) == ("type 53", None)
        assert model["w"].raw.tobytes() == ONES.tobytes()


# Results of DequantizeLinear


def linear(codes, scale, zero_point=None, **attributes):
    """Return a model that dequantizes initializers to `w`, and the value of `w` that onnx
    computes."""
    from onnx.reference import ReferenceEvaluator

    named = {"q": codes, "s": scale, "z": zero_point}
    named = {name: array for name, array in named.items() if array is not None}
    tensors = [numpy_helper.from_array(array, name) for name, array in named.items()]
    node = helper.make_node("DequantizeLinear", [*named], ["w"], **attributes)
    kind = helper.np_dtype_to_tensor_dtype(scale.dtype)
    output = helper.make_tensor_value_info("w", kind, codes.shape)
    graph = helper.make_graph([node], "g", [], [output], tensors)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    return proto, ReferenceEvaluator(proto).run(None, {})[0]


RNG = np.random.default_rng(3)
CODES = RNG.integers(-8, 8, (6, 10)).astype(np.int8)


def scales(*shape, dtype=np.float32):
    return np.random.default_rng(4).uniform(0.1, 1, shape).astype(dtype)


@pytest.mark.parametrize(
    "dtype", ["int8", "int4", "uint4", "int2", "int16", "float8_e4m3fn"]
)
@pytest.mark.parametrize(
    ("scale", "attributes", "granularity"),
    [
        (scales(), {}, "tensor"),
        (scales(1), {}, "tensor"),
        (scales(6), {"axis": 0}, "axis:0"),
        (scales(10), {}, "axis:1"),
        (scales(10), {"axis": -1}, "axis:1"),
        (scales(6, 2), {"axis": 1, "block_size": 5}, "block:5"),
        (scales(2, 10), {"axis": 0, "block_size": 3}, "3x1"),
        (scales(6, 3), {"axis": 1, "block_size": 4}, "block:4"),
        (scales(3, 10), {"axis": -2, "block_size": 2}, "2x1"),
        (scales(6, dtype=np.float16), {"axis": 0}, "axis:0"),
    ],
    ids=range(10),
)
def test_nodes_are_tensors(scale, attributes, granularity, dtype):
    skip_without(dtype)
    codes = CODES.astype(np.float32) if "float" in dtype else CODES % 2
    codes = codes.astype(np.dtype(TYPES[dtype.upper().replace("_E", "E")]))
    zero = None if "float" in dtype else np.ones(scale.shape, np.int8).astype(codes.dtype)
    proto, expected = linear(codes, scale, zero, **attributes)
    with open_model(saved(proto)) as model:
        found = logical(model)
        assert list(found) == ["w"]
        w = found["w"]
        assert (w.type, w.granularity, w.shape) == (dtype, granularity, (6, 10))
        assert w.parts == (("q", "s") if zero is None else ("q", "s", "z"))
        real = scale.dtype
        assert w.dequantize(dtype=real).tobytes() == expected.tobytes()
        for rows in (slice(1, 4), slice(5, 6), slice(2, 2)):
            assert w.dequantize(rows, dtype=real).tobytes() == expected[rows].tobytes()
        if zero is not None:
            assert np.array_equal(w.codes(slice(1, 4)), codes[1:4].astype(int))
            bytes_of = {"int16": "int16"}.get(dtype, "uint8" if dtype[0] == "u" else "int8")
            assert w.codes().dtype == bytes_of


@pytest.mark.parametrize(
    ("scale", "attributes"),
    [(scales(5), {"axis": 0}), (scales(6), {"axis": 1}), (scales(6), {"axis": 7})],
    ids=range(3),
)
def test_nodes_that_do_not_fit_are_left_alone(scale, attributes):
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], **attributes)
    proto = model_of(q=CODES, s=scale)
    proto.graph.node.insert(0, node)
    with open_model(saved(proto)) as model:
        assert sorted(logical(model)) == ["q", "s"]


# Quantized


def weights():
    """Return the arrays of the initializers in network(), by name."""
    rng = np.random.default_rng(5)
    shapes = {
        "table": (40, 24),
        "hidden/kernel:0": (24, 31),
        "gemm": (9, 31),
        "conv": (4, 1, 3, 5),
        "branch": (24, 24),
        "bias": (31,),
        "shared": (24, 24),
    }
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def network(opset=13, real="float", arrays=None):
    """Return a model with Gather, MatMul, Gemm, Conv and If."""
    squeeze = "Squeeze(c, axes)" if opset >= 13 else "Squeeze<axes=[1]>(c)"
    proto = parser.parse_model(
        f"""<ir_version: 7, opset_import: ["": {opset}]>
        network (int64[N] i, bool choice) =>
            ({real}[N, 9] y, {real}[24, 24] shared, {real}[a, b, c] z)
        <int64[1] axes = {{1}}, int64[4] shape = {{-1, 1, 1, 9}}> {{
            x = Gather(table, i)
            x1 = If (choice) <
                then_branch = yes () => ({real}[?, ?] a) {{ a = MatMul(x, branch) }},
                else_branch = no () => ({real}[?, ?] b) {{
                    t = MatMul(x, shared)
                    b = Identity(t) }}>
            h = MatMul(x1, "hidden/kernel:0")
            h1 = Add(h, bias)
            h2 = Relu(h1)
            y = Gemm<transB = 1>(h2, gemm)
            image = Reshape(y, shape)
            c = Conv<pads = [1, 2, 1, 2]>(image, conv)
            p = Transpose<perm = [0, 2, 1, 3]>(c)
            z = {squeeze.replace("(c", "(p")}
        }}""".replace('"hidden/kernel:0"', "hidden")
    )
    for node in proto.graph.node:
        node.input[:] = ["hidden/kernel:0" if n == "hidden" else n for n in node.input]
    for name, array in (arrays or weights()).items():
        dtype = {"float": np.float32, "float16": np.float16}[real]
        proto.graph.initializer.append(numpy_helper.from_array(array.astype(dtype), name))
    onnx.checker.check_model(proto)
    return proto


FEED = {"i": np.array([3, 0, 39, 7, 7]), "choice": np.array(True)}


def run(path_or_proto, feed=FEED, outputs=None):
    """Return the results of a model in ONNX Runtime, without optimizations."""
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    model = path_or_proto
    if not isinstance(model, str):
        model = model.SerializeToString()
    session = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    return session.run(outputs, feed)


def command(*arguments):
    return main([str(a) for a in arguments])


INT8 = ("--type", "int8", "--min-size", 0)


def quantize(proto, *options, external=False):
    """Quantize a model to out.onnx, including small tensors. Return the new model."""
    given = ("quantize", saved(proto, external), "out.onnx", "--min-size", 0)
    assert command(*given, *options) == 0
    onnx.checker.check_model("out.onnx", full_check=True)
    return onnx.load("out.onnx")


def decoded(path="out.onnx"):
    """Return the weights that DequantizeLinear nodes compute, by name, decoded by pyquant.
    test_nodes_are_tensors compares decoded weights with onnx."""
    with open_model(path) as model:
        found = logical(model)
        return {
            name: found[name].dequantize(dtype=found[name].real) for name in model.linear
        }


def fed(proto, arrays, feed=FEED):
    """Return the results of a model with inputs instead of the initializers in `arrays`."""
    changed = onnx.ModelProto()
    changed.CopyFrom(proto)
    del changed.graph.initializer[:]
    for tensor in proto.graph.initializer:
        if tensor.name not in arrays:
            changed.graph.initializer.append(tensor)
            continue
        kind, shape = tensor.data_type, tensor.dims
        changed.graph.input.append(helper.make_tensor_value_info(tensor.name, kind, shape))
    return run(changed, {**feed, **arrays})


def assert_equal(ones, others):
    for one, other in zip(ones, others, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def check_result(proto, feed=FEED):
    """Check that the results of out.onnx equal the results of `proto` with the decoded
    weights."""
    assert_equal(run("out.onnx", feed), fed(proto, decoded(), feed))


MATRICES = ["table", "hidden/kernel:0", "gemm", "conv", "branch", "shared"]


@pytest.mark.parametrize("real", ["float", "float16"])
@pytest.mark.parametrize(
    ("type", "options", "opset"),
    [
        ("int8", ["--granularity", "axis:0"], 13),
        ("int8", ["--granularity", "axis:1", "--asymmetric"], 13),
        ("uint8", ["--granularity", "tensor"], 13),
        ("int8", ["--granularity", "block:8", "--method", "mse"], 21),
        ("int16", ["--granularity", "tensor"], 21),
        ("int4", ["--granularity", "axis:0", "--asymmetric", "--max-memory", "2K"], 21),
        ("uint4", ["--granularity", "7x1"], 21),
        ("int2", ["--granularity", "block:5"], 25),
        ("uint2", ["--granularity", "tensor", "--max-memory", "2K"], 25),
        ("float8_e4m3fn", ["--granularity", "axis:-1"], 19),
        ("float8_e5m2", [], 19),
    ],
    ids=range(11),
)
def test_a_model_computes_with_its_decoded_weights(type, options, opset, real):
    skip_without(type)
    proto = network(real=real)
    made = quantize(proto, "--type", type, *options)
    least = 19 if real == "float16" else 13
    assert made.opset_import[0].version == max(opset, least)
    assert [v.name for v in made.graph.output] == ["y", "shared", "z"]
    values = decoded()
    assert sorted(values) == sorted(MATRICES)
    with open_model("in.onnx") as model, open_model("out.onnx") as result:
        before, after = logical(model), logical(result)
        assert [*before] == [*after]
        for name in MATRICES:
            assert after[name].type == type
            array = before[name].dequantize(dtype=values[name].dtype)
            # pyquant.choose_qparams() returns equal codes. Scales have the type of the
            # weights.
            assert_is_quantized(array, after[name], values[name], options)
    for choice in (True, False):
        check_result(proto, {**FEED, "choice": np.array(choice)})


def assert_is_quantized(array, tensor, values, options):
    channel = f"axis:{int(tensor.name in ('hidden/kernel:0', 'branch', 'shared'))}"
    given = dict(zip(options[::2], options[1::2], strict=False))
    arguments = Granularity(given.get("--granularity", channel)).call(array.ndim)
    p = pq.choose_qparams(
        array,
        dtype=tensor.type,
        symmetric=False if "--asymmetric" in options else None,
        method="mse" if "mse" in options else "minmax",
        scale_dtype=array.dtype,
        **arguments,
    )
    expected = p.dequantize(p.quantize(array), dtype=array.dtype)
    assert expected.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    ("text", "shape", "granularity"),
    [
        ("y = MatMul(x, w)", (40, 30), "axis:1"),
        ("y = MatMul(x, w)", (2, 40, 30), "axis:2"),
        ("y = MatMul(w, x)", (2, 40, 30), "axis:1"),
        ("y = Gemm(x, w)", (40, 30), "axis:1"),
        ("y = Gemm<transB = 1>(x, w)", (40, 30), "axis:0"),
        ("y = Gemm<transA = 1, transB = 1>(w, x)", (40, 30), "axis:1"),
        ("y = Conv(x, w)", (9, 8, 5, 5), "axis:0"),
        ("y = ConvTranspose(x, w)", (9, 8, 5, 5), "axis:1"),
        ("y = LSTM<hidden_size = 8>(x, w, r)", (1, 32, 40), "axis:1"),
        ("y = Gather(w, x)", (40, 30), "axis:0"),
        ("y = Gather<axis = -1>(w, x)", (40, 30), "axis:1"),
        ("y = Gather(x, w)", (40, 30), "axis:0"),
        ("t = Transpose(w)\n y = MatMul(x, t)", (40, 30), "axis:0"),
        ("t = Transpose<perm = [1, 2, 0]>(w)\n y = MatMul(x, t)", (9, 8, 30), "axis:0"),
        ("t = Transpose<perm = [1, 2, 0]>(w)\n y = MatMul(t, x)", (9, 8, 30), "axis:2"),
        ("t = Transpose<perm = [1, 7]>(w)\n y = MatMul(x, t)", (40, 30), "axis:0"),
        ("t = Cast<to = 1>(w)\n u = Identity(t)\n y = MatMul(x, u)", (40, 30), "axis:1"),
        ("t = Identity(w)\n w = Identity(t)\n y = Add(x, t)", (40, 30), "axis:0"),
        ("y = Add(x, w)\n t = MatMul(x, w)\n u = Gather(w, x)", (40, 30), "axis:1"),
        (
            "y = If(x) <then_branch = g () => (float a) {a = MatMul(x, w)},"
            "else_branch = g () => (float b) {b = Relu(x)}>",
            (40, 30),
            "axis:1",
        ),
    ],
)
def test_channel_is_the_axis_of_the_outputs(text, shape, granularity):
    """Outputs are along the last axis of a MatMul weight, and axis 0 of a Conv weight."""
    proto = model_of(text=text, w=np.ones(shape, np.float32))
    with open_model(saved(proto)) as model:
        assert f"axis:{model.channels('w')}" == granularity


def constant(tensor):
    """Return a Constant node with the value of an initializer."""
    return helper.make_node("Constant", [], [tensor.name], value=tensor)


def in_bodies(proto):
    """Return a copy of the model network(). The weights are in Constant nodes and in the
    branches of If."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    tensors = {one.name: one for one in made.graph.initializer}
    (branches,) = (node.attribute for node in made.graph.node if node.op_type == "If")
    for body, name in zip(branches, ("branch", "shared"), strict=True):
        weight = onnx.TensorProto()
        weight.CopyFrom(tensors.pop(name))
        weight.name = body.g.node[0].input[1] = "w"  # in both bodies
        if name == "branch":
            body.g.initializer.append(weight)
        else:
            body.g.node.insert(0, constant(weight))
    nodes = [constant(tensors.pop(name)) for name in ("table", "conv", "gemm")]
    kept = [
        *tensors.values(),
        *(one for one in proto.graph.initializer if one.name == "shared"),
    ]
    nodes += made.graph.node
    del made.graph.initializer[:], made.graph.node[:]
    made.graph.initializer.extend(kept)
    made.graph.node.extend(nodes)
    onnx.checker.check_model(made)
    return made


@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
@pytest.mark.parametrize("options", [[], ["--keep", "re:^w_|gemm"]])
def test_weights_in_constants_and_bodies(options, external, refused):
    """Weights in Constant nodes and in branches are quantized. The results equal the
    results for the model with initializers, bit for bit."""
    given = network()
    names = {"w_1": "branch", "w_2": "shared"}
    with open_model(saved(in_bodies(given), external)) as model:
        assert {names.get(name, name) for name in model} == {*weights(), "axes", "shape"}
        for name in model.keys() - {"axes", "shape"}:
            array = weights()[names.get(name, name)]
            assert model[name].dequantize().tobytes() == array.tobytes()
    types = ["--type", "int8", "--granularity", "axis:0", *options]
    made = quantize(in_bodies(given), *types, external=external)
    assert len(decoded()) == (4 if options else 7)
    assert command("dequantize", "out.onnx", "back.onnx") == 0
    assert command("compare", "--exact", "in.onnx", "out.onnx") == 0
    if not options:
        said = "the tensor is quantized already (int8); use pyquant dequantize"
        refused(said, "quantize", "out.onnx", "o.onnx", "--min-size", 0, *types)
        Path("out.onnx").unlink()
        Path("out.onnx.data").unlink(missing_ok=True)
        plain = quantize(given, *types)
        for choice in (True, False):
            feed = {**FEED, "choice": np.array(choice)}
            assert_equal(run(made, feed), run(plain, feed))


def test_bfloat16():
    import ml_dtypes

    array = weights()["gemm"].astype(ml_dtypes.bfloat16)
    quantize(model_of(w=array), "--type", "int8")
    p = pq.choose_qparams(array, axis=0, scale_dtype="bfloat16")
    expected = p.dequantize(p.quantize(array), dtype="bfloat16")
    assert decoded()["w"].tobytes() == expected.tobytes()
    assert command("dequantize", "out.onnx", "back.onnx") == 0
    with open_model("back.onnx") as model:
        assert model["w"].format == "BFLOAT16"
        assert np.asarray(model["w"].raw).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("rows", "granularity", "shape"),
    [
        *((9, "block:31", (9, 1)), (9, "tensor", ()), (9, "9x1", (1, 31))),
        *((1, "block:31", (1, 1)), (1, "axis:0", (1,))),
    ],
)
def test_one_block_has_a_scale_with_all_axes(rows, granularity, shape):
    array = weights()["gemm"][:rows]
    made = quantize(model_of(w=array), "--type", "int8", "--granularity", granularity)
    scale = {one.name: one for one in made.graph.initializer}["w_scale"]
    assert tuple(scale.dims) == shape
    assert decoded()["w"].shape == array.shape


@pytest.mark.parametrize("opset", [11, 12])
def test_older_operators_are_converted(opset):
    proto = network(opset)
    made = quantize(proto, "--type", "uint4")
    assert made.opset_import[0].version == 21
    assert made.ir_version >= 10
    check_result(proto)
    assert quantize(proto, "--type", "int8", "-f").opset_import[0].version == 13


def test_external_data_stays_outside(refused):
    """The command replaces an existing file of external data only with -f. It never
    replaces the external data of the input."""
    proto = network(arrays=weights() | {"table": np.ones((400, 24), np.float32)})
    path, data = saved(proto, True), Path("out.onnx.data")
    inside = Path(DATA).read_bytes()
    options = ("--type", "int8", "--keep", "branch", "--granularity", "axis:0")
    said = "expected another file than IN, got 'own.onnx.data'"
    refused(said, "quantize", path, "own.onnx", *options, "-f")
    data.write_bytes(b"mine")
    said = "out.onnx.data exists; use -f to overwrite it"
    refused(said, "quantize", path, "out.onnx", *options)
    assert (data.read_bytes(), Path(DATA).read_bytes()) == (b"mine", inside)
    assert not Path("out.onnx").exists()
    assert command("quantize", path, "out.onnx", *options, "-f") == 0
    Path(DATA).unlink()
    assert {p.name for p in Path().iterdir()} == {"in.onnx", "out.onnx", data.name}
    assert data.stat().st_size < 400 * 24 * 4
    onnx.checker.check_model("out.onnx", full_check=True)
    offsets = []
    for tensor in onnx.load("out.onnx", load_external_data=False).graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            said = {entry.key: entry.value for entry in tensor.external_data}
            assert said["location"] == "out.onnx.data"
            offsets.append(int(said["offset"]))
    assert len(offsets) >= 2
    assert not any(offset % 4096 for offset in offsets)
    check_result(proto)


def beside(tensor, before=b"", after=b""):
    """Move the data of a tensor to a file named like the tensor, between other bytes."""
    Path(tensor.name).write_bytes(before + tensor.raw_data + after)
    place = (len(before), len(tensor.raw_data))
    external_data_helper.set_external_data(tensor, tensor.name, *place)
    tensor.ClearField("raw_data")


def test_data_of_attributes_and_sparse_tensors_comes_along():
    """The output includes the external data of attributes and sparse tensors. Offsets
    outside of the external file raise an error."""
    proto, arrays = network(), {"value": np.float32([1, 2]), "sparse": np.float32([5, 6])}
    tensors = {name: numpy_helper.from_array(array, name) for name, array in arrays.items()}
    for tensor in tensors.values():
        beside(tensor, b"before", b"after")
    proto.graph.node.append(
        helper.make_node("Constant", [], ["constant"], value=tensors["value"])
    )
    places = numpy_helper.from_array(np.int64([1, 3]))
    sparse = helper.make_sparse_tensor(tensors["sparse"], places, [8])
    proto.graph.sparse_initializer.append(sparse)
    Path("in.onnx").write_bytes(proto.SerializeToString())
    Path("b").mkdir()
    given = ("quantize", "in.onnx", "b/out.onnx", "--type", "int8", "--min-size", 0)
    assert command(*given) == 0
    made = onnx.load("b/out.onnx")
    found = numpy_helper.to_array(made.graph.sparse_initializer[0].values)
    assert found.tobytes() == arrays["sparse"].tobytes()
    (constant,) = (node for node in made.graph.node if node.op_type == "Constant")
    found = numpy_helper.to_array(constant.attribute[0].t)
    assert found.tobytes() == arrays["value"].tobytes()
    Path("value").write_bytes(bytes(13))
    assert command(*given, "-f") == 2
    assert onnx.load("b/out.onnx") == made


def test_names_that_are_taken():
    text = "gemm_quantized = Identity(x)\n gemm_scale = Identity(gemm_quantized)\n"
    text += "y = MatMul(gemm_scale, gemm)"
    proto = model_of(text=text, gemm=weights()["table"].T.copy())
    proto.graph.node[0].name = "gemm_DequantizeLinear"
    made = quantize(proto, "--type", "uint8")
    (node,) = (n for n in made.graph.node if n.op_type == "DequantizeLinear")
    assert node.name == "gemm_DequantizeLinear_1"
    assert [*node.input] == ["gemm_quantized_1", "gemm_scale_1", "gemm_zero_point"]
    check_result(proto, {"x": np.ones((2, 24), np.float32)})


def kept(out_text):
    rows = [json.loads(line) for line in out_text.splitlines()]
    return {row["tensor"]: row["kept"] for row in rows if "kept" in row}


def test_what_is_kept_and_why(capsys, refused):
    ones = np.ones((40, 40), np.float32)
    arrays = {"double": ones.astype("f8"), "input": ones, "codes": ones.astype("i1")}
    proto = model_of(**arrays, w=ones)
    proto.graph.initializer.append(helper.make_tensor("text", 8, (2,), [b"a", b"b"]))
    value = helper.make_tensor_value_info("input", TensorProto.FLOAT, (40, 40))
    proto.graph.input.append(value)
    options = ("--type", "int8", "--granularity")
    made = quantize(proto, *options, "axis:0", "--json")
    assert kept(capsys.readouterr().out) == {
        "double": "expected float32, float16 or bfloat16, got DOUBLE",
        "input": "expected an initializer alone, got an input of the graph, too",
        "codes": "expected real numbers, got int8",
    }
    made = {one.name: one for one in made.graph.initializer}
    assert list(made["text"].string_data) == [b"a", b"b"]
    for name, array in arrays.items():
        assert numpy_helper.to_array(made[name]).tobytes() == array.tobytes()
    given = ("quantize", "in.onnx", "out.onnx", "-f", *options)
    said = "tensor 'double': expected float32, float16"
    refused(said, *given, "axis:0", "--strict")
    refused("expected blocks along one axis for DequantizeLinear, got 8x8", *given, "8x8")


def test_what_goes_with_codes_is_kept(capsys):
    """Initializers that belong to codes are kept, including scales with as many dimensions
    as weights."""
    text = """t = com.microsoft.MatMulBnb4<K = 64, N = 40, quant_type = 1, block_size = 32>(
        x, codes, scales, zeros)
    y = MatMul(t, w)"""
    rng = np.random.default_rng(8)
    proto = model_of(
        text=text,
        codes=rng.integers(0, 256, (40, 2, 16), np.uint8),
        **{name: rng.random((40, 2)).astype(np.float32) for name in ("scales", "zeros")},
        w=rng.random((40, 30)).astype(np.float32),
    )
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert command("quantize", saved(proto), "out.onnx", *INT8, "--json") == 0
    reason = "expected a weight, got what goes with codes"
    found = kept(capsys.readouterr().out)
    assert found.pop("codes") == "expected real numbers, got uint8"
    assert found == {"scales": reason, "zeros": reason}
    assert [*decoded()] == ["w"]


@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
def test_mutated_models(external, capsys):
    path = Path(saved(network(), external))
    content, rng, codes = path.read_bytes(), random.Random(5), set()
    there = {p.name for p in Path().iterdir()} | {"out.onnx", "out.onnx.data"}
    for _ in range(amount(30, 150)):
        data = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice([0, 1, 1, 4])] = rng.randbytes(rng.choice([1, 1, 4]))
        path.write_bytes(data[: rng.choice([None, None, -1, len(data) // 2])])
        for options in (["quantize", "--type", "int4", "--min-size", 0], ["dequantize"]):
            code = command(*options, path, "out.onnx", "-f", "-q")
            lines = capsys.readouterr().err.count("\n")
            assert (code, lines) in [(0, 0), (2, 1)]
            codes.add(code)
    assert 2 in codes
    assert {p.name for p in Path().iterdir()} <= there


def test_operators_of_other_domains_are_kept():
    """The command keeps operators of other domains, also if it converts the model to a
    newer opset."""
    text = "t = com.microsoft.BiasGelu(x, bias)\n y = MatMul(t, table)"
    arrays = {"table": weights()["table"].T.copy(), "bias": weights()["branch"][0]}
    proto = model_of(text=text, opset=14, **arrays)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    feed = {"x": np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 24)}
    for type, opset in (("int8", 14), ("uint4", 21)):
        given = ("--type", type, "--min-size", 0, "-f")
        assert command("quantize", saved(proto), "out.onnx", *given) == 0
        versions = [(o.domain, o.version) for o in onnx.load("out.onnx").opset_import]
        assert versions == [("", opset), ("com.microsoft", 1)]
        check_result(proto, feed)


def changed(proto, change):
    """Apply a change to a model, and return the model."""
    change(proto)
    return proto


def add_function(proto):
    opset = helper.make_opsetid("", 12)
    node = helper.make_node("Abs", "a", "b")
    proto.functions.append(helper.make_function("own", "F", ["a"], ["b"], [node], [opset]))
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.ir_version = 8


def set_unknown_operator(proto):
    proto.graph.node[0].op_type = "NoSuchOperator"


def set_nan(proto):
    (shared,) = (one for one in proto.graph.initializer if one.name == "shared")
    shared.raw_data = b"\xff" * len(shared.raw_data)


RETURNED = """y = If(x) <then_branch = g () => (float[2, 2] a) {
            a = Constant<value = float[2, 2] {1, 2, 3, 4}>() },
        else_branch = h () => (float[2, 2] b) { b = Identity(x) }>"""
REFUSED = {
    "a branch returns the weight": (
        *(lambda: model_of(text=RETURNED), "int8"),
        "no tensor to quantize in in.onnx: a branch of If, or a body of Loop or Scan, "
        "returns a weight\n",
    ),
    "not finite": (
        *(lambda: changed(network(), set_nan), "int8"),
        "in.onnx: tensor 'shared': expected finite",
    ),
    "not converted": (
        *(lambda: changed(network(12), add_function), "int4"),
        "expected a model that onnx.version_converter raises to opset 21",
    ),
    "not accepted": (
        *(lambda: changed(network(), set_unknown_operator), "int8"),
        "in.onnx: expected a model that onnx.checker accepts, got No Op regist",
    ),
}


@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_failed_command_leaves_no_file(name, external, refused):
    make, type, said = REFUSED[name]
    path = saved(make(), external)
    before = sorted(p.name for p in Path().iterdir())
    refused(said, "quantize", path, "out.onnx", "--type", type, "--min-size", 0)
    assert sorted(p.name for p in Path().iterdir()) == before


def test_other_files_become_no_models(refused):
    np.save("w.npy", np.ones((4, 4), np.float32))
    for name, *options in ("quantize", "--type", "int8"), ("dequantize",):
        refused("as IN is no model of ONNX", name, "w.npy", "out.onnx", *options)


def test_examples_of_help():
    from test_cli_docs import of_help

    examples = [one for one in of_help() if ".onnx" in one]
    assert examples
    saved(network(), path="model.onnx")
    for example in examples:
        _, *arguments = shlex.split(example)
        assert command(*arguments, "--min-size", 0) == 0


# Dequantize


@pytest.mark.parametrize("real", ["float", "float16"])
@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
def test_there_and_back(real, external):
    proto = network(real=real)
    quantize(proto, "--type", "int4", external=external)
    assert command("dequantize", "out.onnx", "back.onnx") == 0
    onnx.checker.check_model("back.onnx", full_check=True)
    made = onnx.load("back.onnx")
    assert "DequantizeLinear" not in [node.op_type for node in made.graph.node]
    found = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    names = {t.name for t in proto.graph.initializer}
    assert found.keys() - names <= {t.name for t in onnx.load("out.onnx").graph.initializer}
    for name, array in decoded().items():
        assert array.dtype == found[name].dtype
        assert array.tobytes() == found[name].tobytes()
    assert not [name for name in found if name.endswith(("_quantized", "_scale"))]
    check_result(made)


def test_scales_with_another_reader_stay(refused):
    """The command keeps a scale of a dequantized weight if another node uses the scale."""
    text = """w = DequantizeLinear<axis = 0>(q, s)
    t = Mul(x, s)
    y = MatMul(t, w)"""
    arrays = {"q": np.arange(-50, 46, dtype=np.int8)[:96].reshape(24, 4), "s": scales(24)}
    saved(model_of(text=text, **arrays))
    said = "tensor 'w': expected float32, as the graph has it"
    refused(said, "dequantize", "in.onnx", "out.onnx", "--type", "float16")
    assert command("dequantize", "in.onnx", "out.onnx") == 0
    made = onnx.load("out.onnx").graph.initializer
    made = {t.name: numpy_helper.to_array(t) for t in made}
    assert sorted(made) == ["s", "w"]
    assert made["s"].tobytes() == arrays["s"].tobytes()
    feed = {"x": np.ones((2, 24), np.float32)}
    assert_equal(run("out.onnx", feed), run("in.onnx", feed))


@pytest.mark.parametrize("type", ["int8", "int4", "uint2", "float8_e4m3fn"])
@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
def test_exact_finds_a_changed_code(external, type, capsys):
    skip_without(type)
    options = ["--granularity", "axis:1", "--asymmetric"] if "int" in type else []
    quantize(network(), "--type", type, *options, "--keep", "bias", external=external)
    assert command("inspect", "--check", "out.onnx") == 0
    assert command("compare", "--exact", "in.onnx", "out.onnx") == 0
    with open_model("out.onnx") as model:
        tensor = model[logical(model)["table"].parts[0]]
        where, raw = Path(tensor._file.path), tensor._bytes().tobytes()
    data = bytearray(where.read_bytes())
    data[data.find(raw) + 5] ^= 1
    where.write_bytes(data)
    capsys.readouterr()
    assert command("compare", "--exact", "in.onnx", "out.onnx") == 1
    assert "table" in capsys.readouterr().out


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_of_matmulnbits_are_read(bits, symmetric, refused):
    """Weights of MatMulNBits nodes are dequantized, and converted to formats of other
    packages. In a quantized ONNX model they remain unchanged."""
    x = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    how = {"bits": bits, "block_size": 16}
    made = pq.weights.matmulnbits.quantize(x, **how, symmetric=symmetric)
    given = made.tensors()
    given = {f"w.weight_Q{bits}": given.pop("B"), **given}
    node = helper.make_node(
        "MatMulNBits", ["x", *given], ["t"], domain="com.microsoft", K=32, N=32, **how
    )
    proto = model_of(**given)
    proto.graph.node.insert(0, node)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    values, path = made.dequantize(), saved(proto)
    with open_model(path) as model:
        (found,) = logical(model).values()
        assert found.name == "w.weight"
        assert (found.type, found.shape) == ("matmulnbits", (32, 32))
        assert (found.granularity, found.parts) == ("block:16", (*given,))
        np.testing.assert_array_equal(found.dequantize(), values)
        np.testing.assert_array_equal(found.dequantize(slice(2, 5)), values[2:5])
    assert main(["dequantize", "-q", path, "y.safetensors"]) == 0
    np.testing.assert_array_equal(pq.open_weights("y.safetensors")["w.weight"], values)
    options = ["-q", "--format=compressed_tensors"]
    assert main(["convert", path, "g.safetensors", *options]) == 0
    assert main(["compare", "--exact", "y.safetensors", "g.safetensors"]) == 0
    for name, *options in ("dequantize",), ("quantize", "--type=int8"):
        refused("quantized", name, path, "o.onnx", *options)
