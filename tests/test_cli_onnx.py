"""Models of ONNX on the command line; onnx, ONNX Runtime and its own operators judge."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")  # whose models these are
pytest.importorskip("ml_dtypes")  # which onnx needs

from onnx import TensorProto, external_data_helper, helper, numpy_helper, parser  # noqa: E402

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
    """A model whose graph has these initializers."""
    proto = parser.parse_model(
        f"""<ir_version: 10, opset_import: ["": {opset}]>
        g (float[N, 24] x) => (float[N, M] y) {{ {text or "y = Identity(x)"} }}"""
    )
    proto.graph.initializer.extend(tensors)
    return proto


def values_of(dtype, shape=(5, 7)):
    """Every kind of number that a type has."""
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
        got = tensor.decode(dtype=tensor.dtype)
        assert tensor.dtype == dtype
        assert got.dtype == expected.dtype
        assert got.tobytes() == expected.tobytes()
        for rows in (slice(1, 4), slice(3, 3), slice(4, None)):
            part = tensor.decode(rows, dtype=tensor.dtype)
            assert part.tobytes() == expected[rows].tobytes()
        if dtype.kind not in "bc":
            with np.errstate(over="ignore", invalid="ignore"):
                real = expected[1:4].astype(np.float32)
            assert np.array_equal(
                tensor.decode(slice(1, 4), dtype="float32"), real, equal_nan=True
            )


@pytest.mark.parametrize("kind", ["FLOAT", "INT8", "UINT4", "FLOAT16", "BFLOAT16", "INT64"])
def test_fields_of_each_type(kind, tmp_path):
    """Elements that are no bytes, but numbers of the protocol."""
    code = TensorProto.DataType.Value(kind)
    array = np.arange(15).reshape(3, 5).astype(TYPES[kind])
    values = array.astype(np.float32 if "FLOAT" in kind else np.int64).ravel().tolist()
    made = helper.make_tensor("w", code, (3, 5), values)
    assert not made.HasField("raw_data")
    with open_model(saved(tmp_path / "m.onnx", model_of(made))) as model:
        assert np.array_equal(model["w"].decode(dtype=TYPES[kind]), array)


def test_what_a_model_says(tmp_path):
    proto = model_of()
    proto.metadata_props.add(key="author", value="me")
    proto.producer_name = "exporter"
    with open_model(saved(tmp_path / "m.onnx", proto)) as model:
        assert model.metadata["opset"] == {"ai.onnx": 21}
        assert model.metadata["author"] == "me"
        assert model.metadata["producer"] == "exporter"


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
        assert not model["w"].decode().any()
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


def test_names_that_come_twice(tmp_path):
    one = numpy_helper.from_array(np.ones(3, np.float32), "w")
    with pytest.raises(Refused, match="tensor 'w': expected different names"):
        open_model(saved(tmp_path / "m.onnx", model_of(one, one)))


# What DequantizeLinear makes


def linear(codes, scale, zero_point=None, **attributes):
    """A model that makes w of initializers, and what onnx's own operator makes."""
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
        assert w.decode(dtype=real).tobytes() == expected.tobytes()
        for rows in (slice(1, 4), slice(5, 6), slice(2, 2)):
            assert w.decode(rows, dtype=real).tobytes() == expected[rows].tobytes()
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
