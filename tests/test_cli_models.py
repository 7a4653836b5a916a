"""Test how commands open files: reading rows of tensors, and joining codes with scales."""

import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import pyquant as pq
from pyquant.cli._errors import Refused
from pyquant.cli._logical import logical
from pyquant.cli._models import open_model
from pyquant.cli._select import chosen
from pyquant.weights import compressed_tensors


@pytest.fixture
def x():
    return np.random.default_rng(0).standard_normal((7, 48)).astype(np.float32)


# Arrays of NumPy


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        np.asfortranarray,
        lambda x: x.astype(">f4"),
        lambda x: x.astype(np.float16),
        lambda x: np.asfortranarray(x.astype(">f8")),
        lambda x: (x * 9).astype(np.int16),
        lambda x: x > 0,
        lambda x: x.reshape(7, 6, 8).T,
    ],
    ids=["c", "f", "swapped", "float16", "f swapped", "int16", "bool", "three axes"],
)
@pytest.mark.parametrize("kind", ["npy", "npz", "deflated"])
def test_rows_of_arrays(x, change, kind, tmp_path):
    array = change(x)
    path = tmp_path / f"model.{kind[:3]}"
    if kind == "npy":
        np.save(path, array)
    else:
        path = tmp_path / "model.npz"
        save = np.savez if kind == "npz" else np.savez_compressed
        save(path, model=array, other=np.arange(3))
    with open_model(str(path)) as model:
        assert model.kind == kind[:3].replace("def", "npz")
        tensor = model["model"]
        assert tensor.shape == array.shape
        for name in ("nbytes", "size", "ndim"):
            assert getattr(tensor, name) == getattr(array, name)
        assert tensor.dtype == array.dtype.newbyteorder("=")
        own = array.dtype.newbyteorder("=")
        for rows in (None, slice(2, 5), slice(0, 1), slice(5, None), slice(3, 3)):
            got = tensor.dequantize(rows, dtype=own)
            np.testing.assert_array_equal(got, array[slice(None) if rows is None else rows])
            assert got.dtype == own
        if array.dtype.kind == "f":
            out = np.empty(array[1:4].shape, np.float64)
            assert tensor.dequantize(slice(1, 4), out=out) is out
            np.testing.assert_array_equal(out, array[1:4])
        assert logical(model)["model"].granularity is None


def test_types_without_a_name_are_bytes(here):
    np.save("a.npy", np.zeros(4, "V2"))
    with open_model("a.npy") as model:
        assert (model["a"].dtype, model["a"].format) == (None, "V2")


@pytest.mark.parametrize(
    "array",
    [np.array([{}], object), np.zeros(2, "f4,i4"), np.array(["a"]), np.zeros(2, "M8[s]")],
    ids=["object", "record", "string", "date"],
)
def test_arrays_without_numbers_are_refused(array, here):
    np.save("a.npy", array, allow_pickle=True)
    with pytest.raises(Refused, match=r"a.npy: tensor 'a': expected an array of numbers"):
        open_model("a.npy")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: b"", "expected a header, got an empty file"),
        (lambda data: b"not an array", "expected an array of numbers, got bytes"),
        (lambda data: data[:4], "expected an array of numbers, got bytes"),
        (lambda data: data[:30], "expected a .npy file that NumPy can read, got EOF"),
        (lambda data: data[:-1], "expected 1344 bytes of data, got 1343"),
        (lambda data: data.replace(b"(7, 48), }", b"(7, 48, (("), "expected a .npy file"),
    ],
    ids=["empty", "text", "half a magic", "half a header", "data cut", "unfinished header"],
)
def test_broken_headers(change, said, x, here, refused):
    path = Path("x.npy")
    np.save(path, x)
    path.write_bytes(change(path.read_bytes()))
    refused(f"demo: {path}: ", "demo", path)
    refused(said, "demo", path)


def test_a_member_shorter_than_stated(x, tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=x)
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\1\2") + 24  # index of the size in the directory of the zip archive
    size = int.from_bytes(data[at : at + 4], "little")
    data[at : at + 4] = (size + 1).to_bytes(4, "little")
    path.write_bytes(data)
    with (
        open_model(str(path)) as model,
        pytest.raises(Refused, match=f"{size} of {size + 1}"),
    ):
        model["x"].dequantize()


def test_a_name_twice(x, tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=x)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(match="Duplicate"):
        archive.writestr("x.npy", b"")
    with pytest.raises(Refused, match="a name once"):
        open_model(str(path))


# Kinds of files


def test_kinds_by_content_and_by_word(x, tmp_path):
    path = tmp_path / "weights"
    with open(path, "wb") as file:
        np.save(file, x)
    with open_model(str(path)) as model:
        assert (model.kind, list(model)) == ("npy", ["weights"])
    with open(path, "wb") as file:
        np.savez(file, a=x)
    with open_model(str(path)) as model:
        assert (model.kind, list(model)) == ("npz", ["a"])
    path.write_bytes(b"what is this")
    with pytest.raises(Refused, match=r"expected a name that ends with \.npy"):
        open_model(str(path))


def test_folders(x, tmp_path):
    with pytest.raises(Refused, match="expected a folder with one"):
        open_model(str(tmp_path))
    pq.write_weights(tmp_path / "m.safetensors", {"a": x})
    with open_model(str(tmp_path)) as model:
        assert list(model) == ["a"]
        assert model.paths == (str(tmp_path / "m.safetensors"),)


# Codes and scales


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packed_weights_by_their_names(x, symmetric, bits, tmp_path):
    """Packed weights are joined by their names. The expected values are computed by
    pyquant.weights.compressed_tensors, which shares no code with the commands."""
    path = tmp_path / "m.safetensors"
    made = compressed_tensors.quantize(x, bits=bits, group_size=16, symmetric=symmetric)
    parts = {**made.tensors("l"), "l.bias": x[0]}
    pq.write_weights(path, parts)
    with open_model(str(path)) as model:
        found = logical(model)
        assert set(found) == {"l.weight", "l.bias"}
        weight = found["l.weight"]
        assert (weight.type, weight.granularity) == (f"int{bits}", "block:16")
        assert weight.shape == x.shape
        assert set(weight.parts) == set(parts) - {"l.bias"}
        assert weight.nbytes == sum(parts[name].nbytes for name in weight.parts)
        whole = made.dequantize()
        np.testing.assert_array_equal(weight.dequantize(), whole)
        np.testing.assert_array_equal(weight.dequantize(slice(2, 5)), whole[2:5])
        codes = weight.codes()
        assert codes.dtype == np.int8
        scales, zeros, _ = weight.params()
        zeros = np.zeros((7, 3), np.int8) if symmetric else zeros
        zeros, scales = (np.repeat(one, 16, 1) for one in (zeros, scales))
        np.testing.assert_array_equal((codes.astype(np.float32) - zeros) * scales, whole)
    if sys.platform == "linux":  # a mapped file could not be replaced on Windows
        assert str(path) not in Path("/proc/self/maps").read_text()


def test_ambiguous_words_are_not_joined(tmp_path):
    made = compressed_tensors.quantize(np.ones((4, 3), np.float32), group_size=3)
    parts = {name.replace("weight", "w"): one for name, one in made.tensors().items()}
    pq.write_weights(tmp_path / "m.safetensors", parts)
    with open_model(str(tmp_path / "m.safetensors")) as model:
        assert set(logical(model)) == {"w_packed", "w_scale", "w_shape"}


RECORD = '{"w": {"quantized": {"type": "%s", "shape": %s, "granularity": "%s"}}}'


@pytest.mark.parametrize(
    "record",
    [
        "{",
        "[]",
        '{"w": {"quantized": 3}}',
        RECORD % ("int9", "[7, 48]", "tensor"),
        RECORD % ("int8", "[7, -1]", "tensor"),
        RECORD % ("int8", "[7, 48]", "axis:2"),
        RECORD % ("int8", "[7, 48]", "block:5"),
        RECORD % ("int8", "[48, 7]", "tensor"),
        (RECORD % ("int8", "[7, 48]", "tensor")).replace("w", "v"),
        "[" * 9999,
    ],
    ids=range(10),
)
def test_wrong_records_are_refused(x, record, tmp_path):
    path = tmp_path / "m.npz"
    scale = np.float32([1])
    said = np.array(json.dumps({"pyquant": record}))
    np.savez(path, w=x.astype(np.int8), w_scale=scale, __pyquant__=said)
    with (
        open_model(str(path)) as model,
        pytest.raises(Refused, match=r"m\.npz: .*expected"),
    ):
        logical(model)


# Patterns


def test_patterns():
    names = ["a.0.w", "a.1.w", "b.w", "b.[0]"]
    assert chosen([("*", 1)], names) == dict.fromkeys(names, 1)
    rules = [("a.*", 1), ("re:1", 2), ("b.?", 3)]
    assert chosen(rules, names) == {"a.0.w": 1, "a.1.w": 2, "b.w": 3}
    assert chosen([("a.*", 1), ("a.0*", 2), ("*0*", 3)], names) == {
        "a.0.w": 3, "a.1.w": 1, "b.[0]": 3,
    }  # fmt: skip
    assert chosen([], names) == {}
    with pytest.raises(Refused, match=r"--keep: no tensor matches 'A\.\*'"):
        chosen([("A.*", 1)], names, "--keep")
    with pytest.raises(Refused, match=r"no tensor matches 'a0w'; did you mean 'a.0.w'\?$"):
        chosen([("a0w", 1)], names)
    with pytest.raises(Refused, match="expected a regular expression"):
        chosen([("re:(", 1)], names)
