"""ONNX models on the command line, compared with onnx and ONNX Runtime."""

import json
import random
import re
import shlex
import sys

import numpy as np
import pytest
from support import amount

import pyquant as pq

onnx = pytest.importorskip("onnx", minversion="1.19")  # writes the models
pytest.importorskip("ml_dtypes")  # onnx imports it

from onnx import TensorProto, external_data_helper, helper, numpy_helper, parser  # noqa: E402

from pyquant.cli import main  # noqa: E402
from pyquant.cli._errors import Refused  # noqa: E402
from pyquant.cli._logical import logical  # noqa: E402
from pyquant.cli._models import open_model  # noqa: E402

TYPES = {
    name: helper.tensor_dtype_to_np_dtype(value)
    for name, value in TensorProto.DataType.items()
    if name not in ("UNDEFINED", "STRING", "COMPLEX128")
}


def saved(path, proto, external=False):
    if external:
        inside, proto = proto, onnx.ModelProto()
        proto.CopyFrom(inside)  # save_model changes its argument
        onnx.save_model(
            proto,
            str(path),
            save_as_external_data=True,
            location=f"{path.stem}.weights",
            size_threshold=64,
        )
    else:
        onnx.save_model(proto, str(path))
    return str(path)


def model_of(*tensors, text="", opset=21):
    """Make a model with these initializers."""
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": {opset}]>
        g (float[N, 24] x) => (float[N, M] y) {{ {text or "y = Identity(x)"} }}"""
    )
    proto.graph.initializer.extend(tensors)
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
def test_initializers_are_what_onnx_reads(name, external, tmp_path):
    dtype = TYPES[name]
    array = values_of(dtype, (5, 71))
    proto = model_of(numpy_helper.from_array(array, "w"))
    path = saved(tmp_path / "m.onnx", proto, external)
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
def test_fields_of_each_type(kind, tmp_path):
    """A tensor may store its elements in a typed field instead of bytes."""
    code = TensorProto.DataType.Value(kind)
    array = np.arange(15).reshape(3, 5).astype(TYPES[kind])
    values = array.astype(np.float32 if "FLOAT" in kind else np.int64).ravel().tolist()
    made = helper.make_tensor("w", code, (3, 5), values)
    assert not made.HasField("raw_data")
    with open_model(saved(tmp_path / "m.onnx", model_of(made))) as model:
        assert np.array_equal(model["w"].dequantize(dtype=TYPES[kind]), array)


def test_what_a_model_says(tmp_path):
    proto = model_of()
    proto.metadata_props.add(key="author", value="me")
    proto.producer_name = "exporter"
    with open_model(saved(tmp_path / "m.onnx", proto)) as model:
        assert model.metadata["opset"] == {"ai.onnx": 21}
        assert model.metadata["author"] == "me"
        assert model.metadata["producer"] == "exporter"


def test_without_onnx(tmp_path, monkeypatch, refused):
    path = saved(tmp_path / "m.onnx", model_of())
    monkeypatch.setitem(sys.modules, "onnx", None)
    said = "quantize: models of ONNX need onnx: pip install 'pyquant-simd[onnx]'\n"
    refused(said, "quantize", path, tmp_path / "out.onnx", "--type", "int8")


def broken(change):
    def made(tmp_path):
        proto = model_of(numpy_helper.from_array(np.ones((3, 4), np.float32), "w"))
        change(proto.graph.initializer[0], tmp_path)
        path = tmp_path / "m.onnx"
        path.write_bytes(proto.SerializeToString())
        return str(path)

    return made


def elsewhere(location, **said):
    def change(tensor, tmp_path):
        (tmp_path / "data").write_bytes(bytes(48))
        external_data_helper.set_external_data(tensor, location)
        tensor.ClearField("raw_data")
        for key, value in said.items():
            tensor.external_data.add(key=key, value=str(value))

    return change


def negative(tensor, tmp_path):
    tensor.dims[:] = [-3, -4]


def link(tensor, tmp_path):
    elsewhere("link")(tensor, tmp_path)
    (tmp_path / "link").symlink_to("/etc/hostname")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t, _: t.dims.append(2), "96 bytes for FLOAT[3, 4, 2], got 48"),
        (negative, "shape"),
        (elsewhere("/etc/passwd"), "in the folder"),
        (elsewhere("../m.onnx"), "in the folder"),
        (elsewhere("a/../../m.onnx"), "in the folder"),
        (link, "in the folder"),
        (elsewhere(""), "a file of external data"),
        (elsewhere("data", offset=1), "bytes within the 48 of"),
        (elsewhere("data", offset=-1), "bytes within the 48 of"),
        (elsewhere("data", offset="x"), "whole numbers"),
        (elsewhere("data", length=40), "48 bytes for FLOAT[3, 4], got 40"),
        (elsewhere("data", length=2**70), "bytes within the 48 of"),
    ],
    ids=range(12),
)
def test_tensors_that_are_not_what_they_say(change, said, tmp_path):
    path = broken(change)(tmp_path)
    with pytest.raises(Refused, match=r"m\.onnx: tensor 'w': expected") as caught:
        open_model(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_external_data_that_is_there(tmp_path):
    path = broken(elsewhere("data", offset=0, length=48))(tmp_path)
    with open_model(path) as model:
        assert not model["w"].dequantize().any()
    (tmp_path / "data").unlink()
    with pytest.raises(FileNotFoundError):
        open_model(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x08", bytes(range(256)), b"\x08\x0a", b"PK\x03\x04", b"\x3a\x00"],
    ids=range(6),
)
def test_files_that_are_no_models(content, tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    with pytest.raises(Refused, match="expected a model of ONNX, got"):
        open_model(str(path))


def test_names_that_are_no_text(tmp_path):
    content = model_of(numpy_helper.from_array(np.ones(3), "name")).SerializeToString()
    path = tmp_path / "m.onnx"
    path.write_bytes(content.replace(b"name", b"n\xffme"))
    with pytest.raises(Refused, match="got names that are no UTF-8"):
        open_model(str(path))


def test_types_that_nobody_knows(tmp_path):
    """The reader keeps bytes of an unknown type, and refuses elements in typed fields."""
    one = numpy_helper.from_array(np.ones(3), "w")
    one.data_type = 53
    with open_model(saved(tmp_path / "m.onnx", model_of(one))) as model:
        assert (model["w"].format, model["w"].dtype) == ("type 53", None)
        assert model["w"].raw.tobytes() == np.ones(3).tobytes()
    one.ClearField("raw_data")
    with pytest.raises(Refused, match="tensor 'w': expected data that fills the shape"):
        open_model(saved(tmp_path / "m.onnx", model_of(one)))


def test_names_that_come_twice(tmp_path):
    one = numpy_helper.from_array(np.ones(3, np.float32), "w")
    with pytest.raises(Refused, match="tensor 'w': expected different names"):
        open_model(saved(tmp_path / "m.onnx", model_of(one, one)))


# Results of DequantizeLinear


def linear(codes, scale, zero_point=None, **attributes):
    """Make a model that dequantizes initializers to w; return it and the result of onnx."""
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
def test_nodes_are_tensors(scale, attributes, granularity, dtype, tmp_path):
    skip_without(dtype)
    codes = CODES.astype(np.float32) if "float" in dtype else CODES % 2
    codes = codes.astype(np.dtype(TYPES[dtype.upper().replace("_E", "E")]))
    zero = None if "float" in dtype else np.ones(scale.shape, np.int8).astype(codes.dtype)
    proto, expected = linear(codes, scale, zero, **attributes)
    with open_model(saved(tmp_path / "m.onnx", proto)) as model:
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
def test_nodes_that_do_not_fit_are_left_alone(scale, attributes, tmp_path):
    named = {"q": CODES, "s": scale}
    node = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], **attributes)
    proto = model_of(*(numpy_helper.from_array(a, n) for n, a in named.items()))
    proto.graph.node.insert(0, node)
    with open_model(saved(tmp_path / "m.onnx", proto)) as model:
        assert sorted(logical(model)) == ["q", "s"]


# Quantized


def weights():
    """Return the initializers of `network` by name."""
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
    """Make a model with Gather, MatMul, Gemm, Conv and If, of opset 11 to 13."""
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
    """Run a model with ONNX Runtime, without optimizations."""
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


def decoded(path):
    """Dequantize the tensors of a file with onnx's reference operator."""
    from onnx.reference import ReferenceEvaluator

    proto = onnx.load(path)
    nodes = [node for node in proto.graph.node if node.op_type == "DequantizeLinear"]
    kinds = {one.name: one.data_type for one in proto.graph.initializer}
    outputs = [
        helper.make_tensor_value_info(node.output[0], kinds[node.input[1]], None)
        for node in nodes
    ]
    taken = {name for node in nodes for name in node.input}
    tensors = [one for one in proto.graph.initializer if one.name in taken]
    graph = helper.make_graph(nodes, "g", [], outputs, tensors)
    # onnx implements the operator of opset 13 as opset 19.
    version = max(19, proto.opset_import[0].version)
    alone = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])
    values = ReferenceEvaluator(alone).run(None, {})
    return {o.name: value for o, value in zip(outputs, values, strict=True)}


def fed(proto, arrays, feed=FEED):
    """Run a model with inputs in place of these initializers."""
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
def test_a_model_computes_with_its_decoded_weights(type, options, opset, real, tmp_path):
    skip_without(type)
    proto = network(real=real)
    path, out = saved(tmp_path / "in.onnx", proto), str(tmp_path / "out.onnx")
    assert command("quantize", path, out, "--type", type, "--min-size", 0, *options) == 0
    onnx.checker.check_model(out, full_check=True)
    made = onnx.load(out)
    least = 19 if real == "float16" else 13
    assert made.opset_import[0].version == max(opset, least)
    assert [v.name for v in made.graph.output] == ["y", "shared", "z"]
    values = decoded(out)
    assert sorted(values) == sorted(MATRICES)
    with open_model(path) as model, open_model(out) as result:
        before, after = logical(model), logical(result)
        assert [*before] == [*after]
        for name in MATRICES:
            assert after[name].type == type
            array = before[name].dequantize(dtype=values[name].dtype)
            # The library returns equal codes with scales of the type of the weights.
            assert_is_quantized(array, after[name], values[name], options)
    for choice in (True, False):
        feed = {**FEED, "choice": np.array(choice)}
        assert_equal(run(out, feed), fed(proto, values, feed))


def assert_is_quantized(array, tensor, values, options):
    how = {"axis": "axis", "block": "block_size"}
    channel = f"axis:{int(tensor.name in ('hidden/kernel:0', 'branch', 'shared'))}"
    given = dict(zip(options[::2], options[1::2], strict=False))
    text = given.get("--granularity", channel)
    kind, _, size = text.partition(":")
    arguments = {how[kind]: int(size)} if size else {}
    if kind == "block":
        arguments["axis"] = -1
    if kind[0].isdigit():
        arguments = {"axis": -2, "block_size": int(kind.split("x")[0])}
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
def test_channel_is_the_axis_of_the_outputs(text, shape, granularity, tmp_path):
    """A MatMul weight has its outputs along the last axis, a Conv weight along axis 0."""
    array = np.ones(shape, np.float32)
    proto = model_of(numpy_helper.from_array(array, "w"), text=text)
    with open_model(saved(tmp_path / "m.onnx", proto)) as model:
        assert f"axis:{model.channels('w')}" == granularity


def constant(tensor):
    """Make a Constant node of an initializer."""
    return helper.make_node("Constant", [], [tensor.name], value=tensor)


def in_bodies(proto):
    """Move the weights of `network` to Constant nodes, and to the branches of If."""
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
def test_weights_in_constants_and_bodies(options, external, tmp_path, refused):
    """The result equals the result for the model with initializers, bit for bit."""
    given = network()
    path = saved(tmp_path / "in.onnx", in_bodies(given), external)
    names = {"w_1": "branch", "w_2": "shared"}
    with open_model(path) as model:
        assert {names.get(name, name) for name in model} == {*weights(), "axes", "shape"}
        for name in model.keys() - {"axes", "shape"}:
            array = weights()[names.get(name, name)]
            assert model[name].dequantize().tobytes() == array.tobytes()
    out, plain = str(tmp_path / "out.onnx"), str(tmp_path / "plain.onnx")
    types = ["--type", "int8", "--min-size", 0, "--granularity", "axis:0", *options]
    assert command("quantize", path, out, *types) == 0
    onnx.checker.check_model(out, full_check=True)
    assert len(decoded(out)) == (4 if options else 7)
    if not options:
        said = "the tensor is quantized already (int8); use pyquant dequantize"
        refused(said, "quantize", out, plain, *types)
        assert command("quantize", saved(tmp_path / "p.onnx", given), plain, *types) == 0
        for choice in (True, False):
            feed = {**FEED, "choice": np.array(choice)}
            assert_equal(run(out, feed), run(plain, feed))
    assert command("dequantize", out, tmp_path / "back.onnx") == 0
    assert command("compare", "--exact", path, out) == 0


def test_a_weight_that_a_branch_returns_is_no_tensor(tmp_path, refused):
    text = """y = If(x) <then_branch = g () => (float[2, 2] a) {
            a = Constant<value = float[2, 2] {1, 2, 3, 4}>() },
        else_branch = h () => (float[2, 2] b) { b = Identity(x) }>"""
    path = saved(tmp_path / "m.onnx", model_of(text=text))
    said = "a branch of If, or a body of Loop or Scan, returns a weight\n"
    said = f"no tensor to quantize in {path}: {said}"
    refused(said, "quantize", path, tmp_path / "o.onnx", "--type", "int8")


def test_weights_in_loops(tmp_path):
    text = """n = Constant<value = int64 {2}>()
    go = Constant<value = bool {1}>()
    y = Loop(n, go, x) <body = b (int64 i, bool c, float[N, 24] s) =>
        (bool c1, float[N, 24] s1, float[24, 24] v) {
            c1 = Identity(c)
            s1 = MatMul(s, w) }>"""
    w = numpy_helper.from_array(weights()["branch"], "w")
    v = numpy_helper.from_array(weights()["shared"], "v")
    proto = model_of(text=text)
    (loop,) = (node for node in proto.graph.node if node.op_type == "Loop")
    loop.output.append("all")
    body = loop.attribute[0].g
    body.initializer.append(w)
    body.node.append(constant(v))
    path, out = saved(tmp_path / "in.onnx", proto), str(tmp_path / "out.onnx")
    assert command("quantize", path, out, "--type", "int8", "--min-size", 0) == 0
    assert list(decoded(out)) == ["w"]  # the body returns v
    del body.initializer[:]
    proto.graph.initializer.append(w)
    feed = {"x": np.ones((2, 24), np.float32)}
    assert_equal(run(out, feed), fed(proto, decoded(out), feed))


def test_bfloat16(tmp_path):
    import ml_dtypes

    array = weights()["gemm"].astype(ml_dtypes.bfloat16)
    proto = model_of(numpy_helper.from_array(array, "w"))
    path, out = saved(tmp_path / "in.onnx", proto), str(tmp_path / "out.onnx")
    assert command("quantize", path, out, "--type", "int8", "--min-size", 0) == 0
    p = pq.choose_qparams(array, axis=0, scale_dtype="bfloat16")
    expected = p.dequantize(p.quantize(array), dtype="bfloat16")
    assert decoded(out)["w"].tobytes() == expected.tobytes()
    assert command("dequantize", out, tmp_path / "back.onnx") == 0
    with open_model(str(tmp_path / "back.onnx")) as model:
        assert model["w"].format == "BFLOAT16"
        assert np.asarray(model["w"].raw).tobytes() == expected.tobytes()


def test_one_block_has_a_scale_with_all_axes(tmp_path):
    array = weights()["gemm"]
    path = saved(tmp_path / "in.onnx", model_of(numpy_helper.from_array(array, "w")))
    out = str(tmp_path / "out.onnx")
    options = ("--type", "int8", "--min-size", 0, "--granularity")
    for granularity, shape in (("block:31", (9, 1)), ("tensor", ()), ("9x1", (1, 31))):
        assert command("quantize", path, out, *options, granularity, "-qf") == 0
        scale = {one.name: one for one in onnx.load(out).graph.initializer}["w_scale"]
        assert tuple(scale.dims) == shape
        assert decoded(out)["w"].shape == array.shape
    array = array[:1]
    saved(tmp_path / "in.onnx", model_of(numpy_helper.from_array(array, "w")))
    for granularity, shape in (("block:31", (1, 1)), ("axis:0", (1,))):
        assert command("quantize", path, out, *options, granularity, "-qf") == 0
        scale = {one.name: one for one in onnx.load(out).graph.initializer}["w_scale"]
        assert tuple(scale.dims) == shape
        assert decoded(out)["w"].shape == array.shape


@pytest.mark.parametrize("opset", [11, 12])
def test_older_operators_are_converted(opset, tmp_path):
    proto = network(opset)
    path, out = saved(tmp_path / "in.onnx", proto), str(tmp_path / "out.onnx")
    assert command("quantize", path, out, "--type", "uint4", "--min-size", 0) == 0
    onnx.checker.check_model(out, full_check=True)
    made = onnx.load(out)
    assert made.opset_import[0].version == 21
    assert made.ir_version >= 10
    assert_equal(run(out), fed(proto, decoded(out)))
    other = str(tmp_path / "other.onnx")
    assert command("quantize", path, other, "--type", "int8", "--min-size", 0) == 0
    assert onnx.load(other).opset_import[0].version == 13


def test_external_data_stays_outside(tmp_path):
    proto = network(arrays=weights() | {"table": np.ones((400, 24), np.float32)})
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    path, out = saved(tmp_path / "a/in.onnx", proto, True), str(tmp_path / "b/out.onnx")
    data = tmp_path / "b/out.onnx.data"
    keep = ["--keep", "branch", "--granularity", "axis:0"]
    assert command("quantize", path, out, "--type", "int8", *keep) == 0
    (tmp_path / "a/in.weights").unlink()
    assert sorted(p.name for p in (tmp_path / "b").iterdir()) == [
        "out.onnx",
        "out.onnx.data",
    ]
    assert data.stat().st_size < 400 * 24 * 4
    onnx.checker.check_model(out, full_check=True)
    offsets = []
    for tensor in onnx.load(out, load_external_data=False).graph.initializer:
        if tensor.data_location == tensor.EXTERNAL:
            said = {entry.key: entry.value for entry in tensor.external_data}
            assert said["location"] == "out.onnx.data"
            offsets.append(int(said["offset"]))
    assert len(offsets) >= 2
    assert not any(offset % 4096 for offset in offsets)
    assert_equal(run(out), fed(proto, decoded(out)))


def test_what_is_there_is_not_overwritten(tmp_path, refused):
    path = saved(tmp_path / "in.onnx", network(), True)
    out = tmp_path / "out.onnx"
    (tmp_path / "out.onnx.data").write_bytes(b"mine")
    options = ("quantize", path, out, "--type", "int16", "--min-size", 0)
    refused("out.onnx.data exists; use -f to overwrite it", *options)
    assert (tmp_path / "out.onnx.data").read_bytes() == b"mine"
    assert not out.exists()
    assert command(*options, "-f") == 0
    onnx.checker.check_model(str(out))
    (tmp_path / "in.weights").rename(tmp_path / "own.onnx.data")
    proto = onnx.load(path, load_external_data=False)
    for tensor in proto.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "own.onnx.data"
    (tmp_path / "in.onnx").write_bytes(proto.SerializeToString())
    before = (tmp_path / "own.onnx.data").read_bytes()
    own = tmp_path / "own.onnx"
    refused("expected another file than IN", "quantize", path, own, *options[3:], "-f")
    assert (tmp_path / "own.onnx.data").read_bytes() == before


def test_data_of_subgraphs_comes_along(tmp_path):
    """External data of a subgraph becomes part of the model."""
    proto = network()
    branch = proto.graph.node[1].attribute[0].g
    inner = numpy_helper.from_array(np.eye(24, dtype=np.float32), "inner")
    branch.initializer.append(inner)
    branch.node[0].input[1] = "inner"
    path = str(tmp_path / "in.onnx")
    table = next(one for one in proto.graph.initializer if one.name == "table")
    for tensor in (branch.initializer[0], table):
        (tmp_path / tensor.name).write_bytes(tensor.raw_data)
        external_data_helper.set_external_data(tensor, tensor.name)
        tensor.ClearField("raw_data")
    (tmp_path / "in.onnx").write_bytes(proto.SerializeToString())
    expected = run(path)
    (tmp_path / "b").mkdir()
    out = str(tmp_path / "b/out.onnx")
    types = ["--type", "int8", "--keep", "*", "--tensor", "gemm=int8"]
    assert command("quantize", path, out, *types) == 0
    assert run(out)[1].tobytes() == expected[1].tobytes()
    numbers = decoded(out)
    assert [*numbers] == ["gemm"]
    assert_equal(run(out), fed(onnx.load(path), numbers))


def test_data_of_attributes_and_sparse_tensors_comes_along(tmp_path):
    """The output holds the data, and offsets outside the file are an error."""
    proto, arrays = network(), {"value": np.float32([1, 2]), "sparse": np.float32([5, 6])}
    tensors = {name: numpy_helper.from_array(array, name) for name, array in arrays.items()}
    for name, tensor in tensors.items():
        (tmp_path / name).write_bytes(b"before" + tensor.raw_data + b"after")
        external_data_helper.set_external_data(tensor, name, 6, 8)
        tensor.ClearField("raw_data")
    proto.graph.node.append(
        helper.make_node("Constant", [], ["constant"], value=tensors["value"])
    )
    places = numpy_helper.from_array(np.int64([1, 3]))
    sparse = helper.make_sparse_tensor(tensors["sparse"], places, [8])
    proto.graph.sparse_initializer.append(sparse)
    path = tmp_path / "in.onnx"
    path.write_bytes(proto.SerializeToString())
    (tmp_path / "b").mkdir()
    out = tmp_path / "b/out.onnx"
    assert command("quantize", path, out, "--type", "int8", "--min-size", 0) == 0
    made = onnx.load(str(out))
    found = numpy_helper.to_array(made.graph.sparse_initializer[0].values)
    assert found.tobytes() == arrays["sparse"].tobytes()
    (constant,) = (node for node in made.graph.node if node.op_type == "Constant")
    found = numpy_helper.to_array(constant.attribute[0].t)
    assert found.tobytes() == arrays["value"].tobytes()
    (tmp_path / "value").write_bytes(bytes(13))
    assert command("quantize", path, out, "--type", "int8", "--min-size", 0, "-f") == 2
    assert onnx.load(str(out)) == made


def test_names_that_are_taken(tmp_path):
    text = "gemm_quantized = Identity(x)\n gemm_scale = Identity(gemm_quantized)\n"
    text += "y = MatMul(gemm_scale, gemm)"
    array = weights()["table"].T.copy()
    proto = model_of(numpy_helper.from_array(array, "gemm"), text=text)
    proto.graph.node[0].name = "gemm_DequantizeLinear"
    path, out = saved(tmp_path / "in.onnx", proto), str(tmp_path / "out.onnx")
    assert command("quantize", path, out, "--type", "uint8", "--min-size", 0) == 0
    made = onnx.load(out)
    onnx.checker.check_model(out, full_check=True)
    (node,) = (n for n in made.graph.node if n.op_type == "DequantizeLinear")
    assert node.name == "gemm_DequantizeLinear_1"
    assert [*node.input] == ["gemm_quantized_1", "gemm_scale_1", "gemm_zero_point"]
    feed = {"x": np.ones((2, 24), np.float32)}
    assert_equal(run(out, feed), fed(proto, decoded(out), feed))


def kept(out_text):
    rows = [json.loads(line) for line in out_text.splitlines()]
    return {row["tensor"]: row["kept"] for row in rows if "kept" in row}


def test_what_is_kept_and_why(tmp_path, capsys, refused):
    ones = np.ones((40, 40))
    arrays = {
        "double": ones,
        "input": ones.astype(np.float32),
        "codes": ones.astype(np.int8),
        "w": ones.astype(np.float32),
    }
    proto = model_of(*(numpy_helper.from_array(a, n) for n, a in arrays.items()))
    proto.graph.initializer.append(helper.make_tensor("text", 8, (2,), [b"a", b"b"]))
    value = helper.make_tensor_value_info("input", TensorProto.FLOAT, (40, 40))
    proto.graph.input.append(value)
    path, out = saved(tmp_path / "in.onnx", proto), tmp_path / "out.onnx"
    options = ("quantize", path, out, "--type", "int8", "--granularity")
    assert command(*options, "axis:0", "--json") == 0
    assert kept(capsys.readouterr().out) == {
        "double": "expected float32, float16 or bfloat16, got DOUBLE",
        "input": "expected an initializer alone, got an input of the graph, too",
        "codes": "expected real numbers, got int8",
    }
    made = {one.name: one for one in onnx.load(str(out)).graph.initializer}
    assert list(made["text"].string_data) == [b"a", b"b"]
    for name in ("double", "input", "codes"):
        assert numpy_helper.to_array(made[name]).tobytes() == arrays[name].tobytes()
    said = "tensor 'double': expected float32, float16"
    refused(said, *options, "axis:0", "-f", "--strict")
    said = "expected blocks along one axis for DequantizeLinear, got 8x8"
    refused(said, *options, "8x8", "-f")


def test_what_goes_with_codes_is_kept(tmp_path, capsys):
    """Scales of blocks have as many dimensions as weights."""
    text = """t = com.microsoft.MatMulBnb4<K = 64, N = 40, quant_type = 1, block_size = 32>(
        x, codes, scales, zeros)
    y = MatMul(t, w)"""
    rng = np.random.default_rng(8)
    arrays = {
        "codes": rng.integers(0, 256, (40, 2, 16), np.uint8),
        "scales": rng.random((40, 2)).astype(np.float32),
        "zeros": rng.random((40, 2)).astype(np.float32),
        "w": rng.random((40, 30)).astype(np.float32),
    }
    proto = model_of(*(numpy_helper.from_array(a, n) for n, a in arrays.items()), text=text)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    path, out = saved(tmp_path / "in.onnx", proto), str(tmp_path / "out.onnx")
    options = ("--type", "int8", "--min-size", 0, "--json")
    assert command("quantize", path, out, *options) == 0
    reason = "expected a weight, got what goes with codes"
    found = kept(capsys.readouterr().out)
    assert found.pop("codes") == "expected real numbers, got uint8"
    assert found == {"scales": reason, "zeros": reason}
    assert [*decoded(out)] == ["w"]


def test_dry_run_says_the_same_and_writes_nothing(tmp_path, capsys):
    path, out = saved(tmp_path / "in.onnx", network()), tmp_path / "out.onnx"
    options = ("quantize", path, out, "--type", "int4", "--min-size", 0, "--json")
    assert command(*options, "--dry-run") == 0
    dry = capsys.readouterr().out
    assert [p.name for p in tmp_path.iterdir()] == ["in.onnx"]
    assert command(*options) == 0
    done = re.sub(r', "sqnr": [^}]*|, "worst": {[^}]*}', "", capsys.readouterr().out)
    assert done == dry.replace('"dry_run": true', '"dry_run": false')


@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
def test_nothing_is_left_of_what_fails(external, tmp_path, refused):
    arrays = weights()
    arrays["shared"][3, 4] = np.nan
    path = saved(tmp_path / "in.onnx", network(arrays=arrays), external)
    before = sorted(p.name for p in tmp_path.iterdir())
    out = tmp_path / "out.onnx"
    said = "in.onnx: tensor 'shared': expected finite"
    refused(said, "quantize", path, out, "--type", "int8", "--min-size", 0)
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
def test_mutated_models(external, tmp_path, capsys):
    path = tmp_path / "in.onnx"
    saved(path, network(), external)
    content, rng = path.read_bytes(), random.Random(5)
    out, codes = tmp_path / "out.onnx", set()
    there = {p.name for p in tmp_path.iterdir()} | {"out.onnx", "out.onnx.data"}
    for _ in range(amount(30, 150)):
        data = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data))
            data[at : at + rng.choice([0, 1, 1, 4])] = rng.randbytes(rng.choice([1, 1, 4]))
        path.write_bytes(data[: rng.choice([None, None, -1, len(data) // 2])])
        for options in (["quantize", "--type", "int4", "--min-size", 0], ["dequantize"]):
            code = command(*options, path, out, "-f", "-q")
            lines = capsys.readouterr().err.count("\n")
            assert (code, lines) in [(0, 0), (2, 1)]
            codes.add(code)
    assert 2 in codes
    assert {p.name for p in tmp_path.iterdir()} <= there


def test_operators_of_others_are_kept(tmp_path):
    """Operators of an unknown domain survive a change of the opset."""
    text = "t = com.microsoft.BiasGelu(x, bias)\n y = MatMul(t, table)"
    arrays = {"table": weights()["table"].T.copy(), "bias": weights()["branch"][0]}
    proto = model_of(
        *(numpy_helper.from_array(a, n) for n, a in arrays.items()), text=text, opset=14
    )
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    path = saved(tmp_path / "in.onnx", proto)
    feed = {"x": np.linspace(-1, 1, 48, dtype=np.float32).reshape(2, 24)}
    for type, opset in (("int8", 14), ("uint4", 21)):
        out = str(tmp_path / f"{type}.onnx")
        assert command("quantize", path, out, "--type", type, "--min-size", 0) == 0
        made = onnx.load(out)
        assert [(one.domain, one.version) for one in made.opset_import] == [
            ("", opset),
            ("com.microsoft", 1),
        ]
        assert_equal(run(out, feed), fed(proto, decoded(out), feed))


def test_models_that_cannot_be_converted(tmp_path, refused):
    proto = network(12)
    proto.functions.append(
        helper.make_function("own", "F", ["a"], ["b"], [helper.make_node("Abs", "a", "b")],
                             [helper.make_opsetid("", 12)])
    )  # fmt: skip
    proto.opset_import.append(helper.make_opsetid("own", 1))
    proto.ir_version = 8
    path, out = saved(tmp_path / "in.onnx", proto), tmp_path / "out.onnx"
    said = "expected a model that onnx.version_converter raises to opset 21"
    refused(said, "quantize", path, out, "--type", "int4", "--min-size", 0)
    assert not out.exists()


def test_models_that_onnx_does_not_accept(tmp_path, refused):
    proto = network()
    proto.graph.node[0].op_type = "NoSuchOperator"
    path, out = saved(tmp_path / "in.onnx", proto), tmp_path / "out.onnx"
    said = "in.onnx: expected a model that onnx.checker accepts, got No Op regist"
    refused(said, "quantize", path, out, "--type", "int8", "--min-size", 0)
    assert not out.exists()


def test_other_files_become_no_models(tmp_path, refused):
    np.save(tmp_path / "w.npy", np.ones((4, 4), np.float32))
    out = tmp_path / "out.onnx"
    for name, *options in ("quantize", "--type", "int8"), ("dequantize",):
        refused("as IN is no model of ONNX", name, tmp_path / "w.npy", out, *options)


def test_examples_of_help(tmp_path, monkeypatch):
    from test_cli_docs import of_help

    examples = [one for one in of_help() if ".onnx" in one]
    assert examples
    saved(tmp_path / "model.onnx", network())
    monkeypatch.chdir(tmp_path)
    for example in examples:
        _, *arguments = shlex.split(example)
        assert command(*arguments, "--min-size", 0) == 0


# And back


@pytest.mark.parametrize("real", ["float", "float16"])
@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
def test_there_and_back(real, external, tmp_path):
    proto = network(real=real)
    path, out = saved(tmp_path / "in.onnx", proto, external), str(tmp_path / "out.onnx")
    back = str(tmp_path / "back.onnx")
    assert command("quantize", path, out, "--type", "int4", "--min-size", 0) == 0
    assert command("dequantize", out, back) == 0
    onnx.checker.check_model(back, full_check=True)
    made = onnx.load(back)
    assert "DequantizeLinear" not in [node.op_type for node in made.graph.node]
    found = {t.name: numpy_helper.to_array(t) for t in made.graph.initializer}
    names = {t.name for t in proto.graph.initializer}
    assert found.keys() - names <= {t.name for t in onnx.load(out).graph.initializer}
    for name, array in decoded(out).items():
        assert array.dtype == found[name].dtype
        assert array.tobytes() == found[name].tobytes()
    assert not [name for name in found if name.endswith(("_quantized", "_scale"))]
    numbers = {name: array for name, array in found.items() if name in MATRICES}
    assert_equal(run(out), fed(made, numbers))


def test_what_others_take_stays(tmp_path, refused):
    """A scale stays in the model if another node uses it."""
    text = """w = DequantizeLinear<axis = 0>(q, s)
    t = Mul(x, s)
    y = MatMul(t, w)"""
    arrays = {"q": np.arange(-50, 46, dtype=np.int8)[:96].reshape(24, 4), "s": scales(24)}
    proto = model_of(*(numpy_helper.from_array(a, n) for n, a in arrays.items()), text=text)
    path, out = saved(tmp_path / "in.onnx", proto), str(tmp_path / "out.onnx")
    said = "tensor 'w': expected float32, as the graph has it"
    refused(said, "dequantize", path, out, "--type", "float16")
    assert command("dequantize", path, out) == 0
    made = {t.name: numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer}
    assert sorted(made) == ["s", "w"]
    assert made["s"].tobytes() == arrays["s"].tobytes()
    feed = {"x": np.ones((2, 24), np.float32)}
    assert run(out, feed)[0].tobytes() == run(path, feed)[0].tobytes()


@pytest.mark.parametrize("type", ["int8", "int4", "uint2", "float8_e4m3fn"])
@pytest.mark.parametrize("external", [False, True], ids=["inside", "beside"])
def test_exact_finds_a_changed_code(external, type, tmp_path, capsys):
    skip_without(type)
    path = saved(tmp_path / "in.onnx", network(), external)
    out = str(tmp_path / "out.onnx")
    options = ["--granularity", "axis:1", "--asymmetric"] if "int" in type else []
    options += ["--min-size", 0, "--keep", "bias"]
    assert command("quantize", path, out, "--type", type, *options) == 0
    assert command("inspect", "--check", out) == 0
    assert command("compare", "--exact", path, out) == 0
    with open_model(out) as model:
        part = logical(model)["table"].parts[0]
        tensor = model[part]
        where, raw = tensor._file.path, tensor._bytes().tobytes()
    data = bytearray((tmp_path / where).read_bytes())
    at = data.find(raw) + 5
    data[at] ^= 1
    (tmp_path / where).write_bytes(data)
    capsys.readouterr()
    assert command("compare", "--exact", path, out) == 1
    assert "table" in capsys.readouterr().out


# A trained model


def test_the_classifier_gives_the_same_answers(tmp_path, capsys):
    """Quantize every matrix to int8, with a scale for each index of axis 0."""
    import test_model as trained

    path = trained.find_model()
    if path is None:
        pytest.skip("could not find the model of magika")
    out = str(tmp_path / "out.onnx")
    types = ["--type", "int8", "--granularity", "axis:0"]
    assert command("quantize", path, out, *types, "--json") == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])["summary"]
    assert summary["changed"] == 3
    assert summary["bytes_out"] * 3.8 < summary["bytes_in"]
    onnx.checker.check_model(out, full_check=True)
    inputs = np.stack([trained.tokens(document) for document in trained.documents()])
    before, after = (trained.run(onnx.load(one), inputs) for one in (path, out))
    assert len(set(before.argmax(1).tolist())) >= 8
    assert (before.argmax(1) == after.argmax(1)).all()
    # Weights moved by up to half a step, and every first answer is far ahead.
    assert np.abs(before - after).max() < 0.03
    assert command("compare", path, out, "--json", "--fail-below", 40) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()[:-1]]
    assert [row["types"] for row in rows[:3]] == [["float32", "int8"]] * 3
    assert rows[3]["types"][0] == rows[3]["types"][-1]
    assert command("compare", path, out, "--fail-below", 41) == 1
    assert command("compare", "--exact", path, out) == 0
    feed = {"bytes": inputs}
    assert_equal(run(out, feed), fed(onnx.load(path), decoded(out), feed))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_weights_of_matmulnbits_are_read(bits, symmetric, tmp_path, monkeypatch, refused):
    """They become real numbers and other formats. An ONNX model keeps them."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(1).standard_normal((32, 32)).astype(np.float32)
    how = {"bits": bits, "block_size": 16, "symmetric": symmetric}
    made = pq.weights.matmulnbits.quantize(x, **how)
    given = {
        f"w.weight_Q{bits}" if key == "B" else key: one
        for key, one in made.tensors().items()
    }
    proto = model_of(*(numpy_helper.from_array(one, name) for name, one in given.items()))
    sizes = {"K": 32, "N": 32, "bits": bits, "block_size": 16}
    node = helper.make_node(
        "MatMulNBits", ["x", *given], ["t"], domain="com.microsoft", **sizes
    )
    proto.graph.node.insert(0, node)
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    saved(tmp_path / "m.onnx", proto)
    with open_model("m.onnx") as model:
        (found,) = logical(model).values()
        assert (found.name, found.type, found.shape) == (
            "w.weight",
            "matmulnbits",
            (32, 32),
        )
        assert (found.granularity, found.parts) == ("block:16", (*given,))
        np.testing.assert_array_equal(found.dequantize(), made.dequantize())
        np.testing.assert_array_equal(found.dequantize(slice(2, 5)), made.dequantize()[2:5])
    assert main(["dequantize", "-q", "m.onnx", "y.safetensors"]) == 0
    np.testing.assert_array_equal(
        pq.open_weights("y.safetensors")["w.weight"], made.dequantize()
    )
    assert (
        main(["convert", "-q", "m.onnx", "g.safetensors", "--format=compressed_tensors"])
        == 0
    )
    assert main(["compare", "--exact", "y.safetensors", "g.safetensors"]) == 0
    for name, *options in ("dequantize",), ("quantize", "--type=int8"):
        refused("quantized", name, "m.onnx", "o.onnx", *options)
