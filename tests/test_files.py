"""Tests of safetensors and GGUF files: reading, writing, and files with wrong contents.

The tests build expected bytes from the definitions of the formats. The packages safetensors
and gguf read the written files, too.
"""

import json
import os
import re
import struct
import sys
from tempfile import TemporaryDirectory

import fuzz_files
import numpy as np
import pytest
from support import amount, dtype_of, loop, peak_of, run_python, same, split_small_arrays

import pyquant as pq
from pyquant.dtypes import TYPES
from pyquant.weights import _elements, _gguf, _safetensors
from pyquant.weights.blocks import block_format, block_formats

SEED = int(os.environ.get("PYQUANT_FILE_SEED", 1))
MUTANTS = int(os.environ.get("PYQUANT_FILE_MUTANTS", amount(200, 1000)))
RNG = np.random.default_rng(17)

# The types of safetensors with at least one byte per element. Keys are the names in a file.
PLAIN = {
    format: name
    for format, name in _safetensors.FORMATS.items()
    if name not in TYPES or TYPES[name].bits >= 8
}


def stored(tensors, metadata=None, pad=b""):
    """Return a safetensors file. `tensors` maps a name to (format, shape, bytes)."""
    entries, at = {}, 0
    for name, (format, shape, data) in tensors.items():
        offsets = [at, at + len(data)]
        entries[name] = {"dtype": format, "shape": list(shape), "data_offsets": offsets}
        at += len(data)
    if metadata is not None:
        entries["__metadata__"] = metadata
    return framed(json.dumps(entries), b"".join(d for *_, d in tensors.values()), pad)


def framed(header, data=b"", pad=b""):
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text) + len(pad)) + text + pad + data


def text_of(value, order="<"):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack(order + "Q", len(value)) + value


def stored_gguf(keys=(), tensors=(), data=b"", order="<", version=3, align=32):
    """Return a GGUF file with keys (name, type, bytes).

    `tensors` has tuples (name, dimensions, type, offset).
    """
    head = b"GGUF" + struct.pack(order + "IQQ", version, len(tensors), len(keys))
    for name, kind, value in keys:
        head += text_of(name, order) + struct.pack(order + "I", kind) + value
    for name, dims, kind, offset in tensors:
        head += text_of(name, order) + struct.pack(
            order + f"I{len(dims)}Q", len(dims), *dims
        )
        head += struct.pack(order + "IQ", kind, offset)
    return head + bytes(-len(head) % align) + data


@pytest.fixture
def made(tmp_path):
    """Return a function that writes bytes to a file and returns its path."""

    def make(data, name="x.safetensors"):
        path = tmp_path / name
        path.write_bytes(data)
        return str(path)

    return make


def random_array(name, shape):
    """Return elements of a type with random bits."""
    if name == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    dtype = np.dtype(name) if hasattr(np, name) else dtype_of(name)
    bits = TYPES[name].bits if name in TYPES else dtype.itemsize * 8
    codes = RNG.integers(0, 256, (*shape, dtype.itemsize)).astype(np.uint8)
    if bits < 8:
        codes &= (1 << bits) - 1
    return codes.view(dtype).reshape(shape)


def bits(array):
    return np.ascontiguousarray(array).tobytes()


# Types


@loop("name", _safetensors.FORMATS.values())
def test_every_type_of_safetensors_there_and_back(name, tmp_path):
    x = random_array(name, (6, 16))
    pq.write_weights(tmp_path / "a.safetensors", {"x": x})
    with pq.open_weights(tmp_path / "a.safetensors") as f:
        w = f["x"]
        assert _safetensors.FORMATS[w.format] == name
        assert (w.shape, w.dtype, w.size, w.ndim) == (x.shape, x.dtype, x.size, 2)
        assert bits(w.dequantize(dtype=name)) == bits(x)
        view = w.raw
        if isinstance(view, pq.PackedArray):
            view = pq.unpack(view)
        assert bits(view) == bits(x)
        assert "pyquant" not in f.metadata


TARGETS = ("float32", "float64", "float16", "bfloat16")


@loop("name, target", _safetensors.FORMATS.values(), TARGETS)
def test_numbers_of_every_type(name, target, tmp_path):
    """Numbers equal the result of a cast to float32 and a cast to the target type."""
    if name == "complex64":
        return
    x, to = random_array(name, (7, 20)), dtype_of(target)
    pq.write_weights(tmp_path / "a.safetensors", {"x": x})
    with np.errstate(all="ignore"):
        wide = x if target == "float64" else x.astype(np.float32)
        expected = wide.astype(to)
        w = pq.open_weights(tmp_path / "a.safetensors")["x"]
        got = w.dequantize(dtype=target)
        nan = np.isnan(expected.astype(np.float64))
        assert np.array_equal(np.isnan(got.astype(np.float64)), nan)
    assert bits(got[~nan]) == bits(expected[~nan])
    steps = (slice(None, None, -2), [5, 6, 0, 1, 1], np.array([], np.uint8))
    for rows in (slice(2, 5), slice(3, 3), slice(-1, None), *steps):
        part = got[np.asarray(rows, int) if not isinstance(rows, slice) else rows]
        assert bits(w.dequantize(rows, dtype=target)) == bits(part)
    assert bits(w[[3, 1]]) == bits(w.dequantize()[[3, 1]])
    out = np.zeros((20, 7), to).T
    assert w.dequantize(out=out) is out
    assert bits(out) == bits(got)


def test_pieces_and_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(_elements, "PIECE", 64)
    monkeypatch.setattr(_elements, "SPAN", 128)
    monkeypatch.setattr(_elements, "GATHERED", 128)
    scattered = np.random.default_rng(0).integers(0, 41, 60)
    for name in ("float6_e2m3fn", "float4_e2m1fn", "float8_e5m2", "bfloat16", "int16"):
        x = random_array(name, (41, 28))
        pq.write_weights(tmp_path / "a.safetensors", {"x": x})
        w = pq.open_weights(tmp_path / "a.safetensors")["x"]
        with np.errstate(all="ignore"):
            expected = x.astype(np.float32)
        with split_small_arrays(monkeypatch):
            for threads in (1, 3):
                for rows in (slice(0, 41), slice(5, 38), scattered, scattered[::7]):
                    got = w.dequantize(rows, dtype="float32", threads=threads)
                    assert np.array_equal(got, expected[rows], equal_nan=True)


def test_elements_that_begin_within_a_byte(made):
    data = bytes(range(1, 24))
    path = made(stored({"a": ("F4", (2, 3), data[:3]), "b": ("F6_E2M3", (4, 3), data[:9])}))
    f = pq.open_weights(path)
    for name in f:
        whole = f[name].dequantize()
        for row in range(len(whole)):
            assert bits(f[name].dequantize(slice(row, row + 1))) == bits(
                whole[row : row + 1]
            )


def test_the_default_type(tmp_path):
    x = {n: random_array(n, (2, 2)) for n in ("float16", "float64", "int32", "bool")}
    pq.write_weights(tmp_path / "a.safetensors", x)
    f = pq.open_weights(tmp_path / "a.safetensors")
    found = {name: f[name].dequantize().dtype.name for name in x}
    assert found == {**{n: n for n in x}, "float16": "float32"}


def test_without_ml_dtypes(made):
    """Without ml_dtypes, decode every type and write bfloat16. Views in NumPy fail."""
    tensors = {
        "f8": ("F8_E4M3", (3,), b"\x38\xc0\x7e"),
        "f6": ("F6_E2M3", (4,), b"\x81\x30\x10"),
        "f4": ("F4", (4,), b"\x21\xf0"),
        "b": ("BF16", (1,), b"\x80\x3f"),
        "e": ("F8_E8M0", (3,), b"\x00\x7f\xff"),
    }
    code = f"path = {made(stored(tensors))!r}\n"
    code += """
import sys, tempfile
sys.modules["ml_dtypes"] = None
import numpy as np, pyquant as pq
f = pq.open_weights(path)
for name in f:
    print(name, f[name].format, f[name].dequantize().tolist())
print(pq.dequantize(f["f4"].raw, 2.0))
print(f["b"].raw)
x = np.float32([[1, -1.00390625], [1.01171875, np.nan]])  # two ties
for kind in ("safetensors", "gguf"):
    path = tempfile.mkdtemp() + f"/b.{kind}"
    pq.write_weights(path, {"b": ("bfloat16", x), "c": x})
    b = pq.open_weights(path)["b"]
    print(b, b.raw.tolist(), b.dequantize().tolist())
print(f["f8"].raw)
for call in (lambda: np.asarray(f["f8"]), lambda: np.asarray(f["b"])):
    try:
        call()
    except ImportError as error:
        print(error)"""
    run = run_python(code)
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [
        "f8 F8_E4M3 [1.0, -2.0, 448.0]",
        "f6 F6_E2M3 [0.125, 0.25, 0.375, 0.5]",
        "f4 F4 [0.5, 1.0, 0.0, -6.0]",
        "b BF16 [1.0]",
        "e F8_E8M0 [5.877471754111438e-39, 1.0, nan]",
        "[  1.   2.   0. -12.]",
        "[16256]",
        *(
            "StoredTensor('b', format='BF16', shape=(2, 2)) "
            "[[16256, 49024], [16258, 32704]] [[1.0, -1.0], [1.015625, nan]]"
            for _ in range(2)
        ),
        "[ 56 192 126]",
        *(
            f"dtype: {name} needs the package ml_dtypes: "
            "pip install 'pyquant-simd[ml-dtypes]'"
            for name in ("float8_e4m3fn", "bfloat16")
        ),
    ]


# Other packages


def test_safetensors_round_trip(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    x = {name: random_array(name, (4, 8)) for name in _safetensors.FORMATS.values()}
    x["empty"], x["number"] = np.zeros((0, 3), np.float32), np.float32(2)
    x["strided"] = np.arange(24, dtype=">i4").reshape(4, 6).T[::2]
    pq.write_weights(tmp_path / "a.safetensors", x, metadata={"key\n\u1234": '"value"\\'})
    data = (tmp_path / "a.safetensors").read_bytes()
    found = dict(safetensors.deserialize(data))
    assert set(found) == set(pq.open_weights(tmp_path / "a.safetensors"))
    for name, array in x.items():
        assert tuple(found[name]["shape"]) == np.shape(array)
        w = pq.open_weights(tmp_path / "a.safetensors")[name]
        raw = w.raw.data if isinstance(w.raw, pq.PackedArray) else w.raw
        assert (found[name]["dtype"], bytes(found[name]["data"])) == (w.format, bits(raw))
    with safetensors.safe_open(tmp_path / "a.safetensors", "np") as f:
        assert f.metadata() == {"key\n\u1234": '"value"\\'}
        assert np.array_equal(f.get_tensor("strided"), x["strided"])
    assert data.index(b"}}") < struct.unpack("<Q", data[:8])[0] + 8
    assert struct.unpack("<Q", data[:8])[0] % 8 == 0


def test_what_safetensors_writes_is_read(tmp_path):
    numpy = pytest.importorskip("safetensors.numpy")
    pytest.importorskip("ml_dtypes")
    names = [n for n in PLAIN.values() if "fnuz" not in n]
    x = {name: random_array(name, (3, 5)) for name in names}
    numpy.save_file(
        x,
        tmp_path / "a.safetensors",
        {"a": "\u00e9\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")},
    )
    with pq.open_weights(tmp_path / "a.safetensors") as f:
        assert set(f) == set(x)
        assert f.metadata == {"a": "\u00e9\U0001f600"}
        for name, array in x.items():
            assert bits(f[name].dequantize(dtype=name)) == bits(array)
            assert f[name].raw.dtype == array.dtype


@loop("order", ["LITTLE", "BIG"])
def test_what_gguf_writes_is_read(order, tmp_path):
    gguf = pytest.importorskip("gguf")  # The test compares bytes with this package.
    path = tmp_path / "a.gguf"
    writer = gguf.GGUFWriter(path, "llama", endianess=gguf.GGUFEndian[order])
    writer.add_token_list(["a", "\u00e9", b"\xff\xfe"])
    writer.add_token_scores([0.5, -1.0, 2.0])
    writer.add_token_types([1, -2, 3])
    writer.add_bool("b", True)
    writer.add_float64("d", 0.1)
    writer.add_int64("i", -(2**40))
    writer.add_array("nested", [[1, 2], [3]])
    plain = ("float32", "float16", "float64", "int8", "int16", "int32", "int64")
    x = {name: random_array(name, (3, 2, 32)) for name in plain}
    for name, array in x.items():
        writer.add_tensor(name, array.copy())
    kind = gguf.GGMLQuantizationType.Q4_K
    writer.add_tensor(
        "blocks", np.arange(288, dtype=np.uint8).reshape(2, 144), raw_dtype=kind
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pq.open_weights(path) as f:
        for name, array in x.items():
            assert f[name].shape == array.shape
            assert bits(f[name].dequantize(dtype=name)) == bits(array)
            assert np.array_equal(f[name].raw, array, equal_nan=True)
        assert (f["blocks"].format, f["blocks"].shape, f["blocks"].dtype) == (
            "Q4_K",
            (2, 256),
            None,
        )
        assert f["blocks"].nbytes == 288
        said = f.metadata
        assert said["tokenizer.ggml.tokens"] == ["a", "\u00e9", "\udcff\udcfe"]
        same(said["tokenizer.ggml.scores"], np.float32([0.5, -1, 2]))
        same(said["tokenizer.ggml.token_type"], np.int32([1, -2, 3]))
        assert (said["b"], said["d"], said["i"]) == (True, 0.1, -(2**40))
        assert [list(one) for one in said["nested"]] == [[1, 2], [3]]
        assert said["general.architecture"] == "llama"
        assert "general.name" not in said


def test_gguf_round_trip(tmp_path):
    gguf = pytest.importorskip("gguf")  # The test compares bytes with this package.
    path = tmp_path / "a.gguf"
    said = {
        "general.architecture": "llama",
        "n": 7,
        "s": -7,
        "l": 2**40,
        "f": 0.5,
        "d": 0.1,
    }
    said |= {
        "t": True,
        "names": ["a", "b\u00e9"],
        "array": np.float32([1, 2]),
        "u": np.uint8(3),
    }
    x = {name: random_array(name, (2, 3, 32)) for name in ("float32", "float16", "int16")}
    blocks = RNG.integers(0, 256, (2, 36), dtype=np.uint8)
    pq.write_weights(path, {**x, "q": ("Q4_0", blocks)}, metadata=said)
    reader = gguf.GGUFReader(path)
    found = {tensor.name: tensor for tensor in reader.tensors}
    for name, array in x.items():
        assert bits(found[name].data) == bits(array)
        assert found[name].shape.tolist() == [32, 3, 2]
    assert np.array_equal(found["q"].data, blocks)
    assert found["q"].tensor_type == gguf.GGMLQuantizationType.Q4_0
    for key, value in said.items():
        assert np.array_equal(reader.fields[key].contents(), value), key
    with pq.open_weights(path) as f:
        assert set(f.metadata) == set(said)
        assert all(np.array_equal(f.metadata[key], said[key]) for key in said)
        pq.write_weights(tmp_path / "b.gguf", f, metadata=f.metadata)
    assert list(pq.open_weights(tmp_path / "b.gguf")) == [*x, "q"]


def test_the_types_of_ggml():
    gguf = pytest.importorskip("gguf")  # The test compares bytes with this package.
    for kind, sizes in gguf.GGML_QUANT_SIZES.items():
        if kind.name != "Q8_1":  # gguf has a wrong size of Q8_1
            assert _gguf._BY_ID[kind.value][:3] == (kind.name, *sizes)


# GGUF


@loop("version, order", [2, 3], "<>")
def test_gguf_by_its_definition(order, version, made):
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    keys = [("general.alignment", 4, struct.pack(order + "I", 64))]
    tensors = [("a", (3, 2), 0, 0), ("b", (5,), 99, 64), ("c", (2,), 30, 128)]
    data = x.astype(order + "f4").tobytes().ljust(64, b"\0") + bytes(range(64))
    data += np.uint16([0x3F80, 0xC000]).astype(order + "u2").tobytes()
    path = made(stored_gguf(keys, tensors, data, order, version, 64), "x.gguf")
    f = pq.open_weights(path)
    assert list(f) == ["a", "b", "c"]
    same(f["a"].dequantize(), x)
    assert (f["b"].format, f["b"].shape, f["b"].dtype) == ("type 99", (5,), None)
    assert f["b"].raw.tolist() == list(range(64))
    assert f["c"].dequantize().tolist() == [1.0, -2.0]
    message = "^format: expected .*, got type 99; raw has the 64 bytes of tensor 'b'$"
    for call in (f["b"].dequantize, lambda: f.read("b")):
        with pytest.raises(ValueError, match=message):
            call()


# Type numbers that GPTQModel and ggml use for different types. Values are GPTQModel's
# number of elements and of bytes in a block.
FOREIGN = {40: (32, 6), 41: (128, 18)}


@loop("rows, last", [(64,), (3, 96), (256, 2)], [False, True])
def test_ambiguous_type_numbers(rows, last, made):
    """A tensor has an unknown type if its type requires a different number of bytes."""
    block, each = FOREIGN[40]
    nbytes = np.prod(rows) // block * each
    data = bytes(range(1, 33)) + RNG.bytes(nbytes) + bytes(-nbytes % 32)
    tensors = [("a", (8,), 0, 0), ("w", rows[::-1], 40, 32)]
    if not last:
        tensors.append(("z", (1,), 24, len(data)))
        data += b"7"
    with pq.open_weights(made(stored_gguf((), tensors, data), "x.gguf")) as f:
        assert (f["w"].format, f["w"].shape, f["w"].dtype) == ("type 40", rows, None)
        assert f["w"].raw.tobytes()[:nbytes] == data[32 : 32 + nbytes]
        assert f["w"].nbytes - nbytes < 32
        with pytest.raises(ValueError, match=r"^format: expected .*, got type 40; raw has"):
            f["w"].dequantize()
        assert f["a"].dequantize().tobytes() == data[:32]


def test_ambiguous_type_numbers_in_one_file(made):
    """A type number has one meaning in a file, even if a padded tensor fits both types."""
    tensors = [("a", (256,), 12, 0), ("b", (256,), 12, 160), ("c", (256,), 13, 288)]
    path = made(stored_gguf((), tensors, bytes(288 + 192)), "x.gguf")
    with pq.open_weights(path) as f:
        assert [w.format for w in f.values()] == ["type 12", "type 12", "Q5_K"]
        assert [w.nbytes for w in f.values()] == [160, 128, 176]
        assert not f["c"].dequantize().any()


@loop("kind", [2, 8, 12, 40, 41, 99])
def test_gguf_offsets_outside_the_file_are_rejected(kind, made):
    """Reject tensors that share an offset, or a tensor that begins after the file's end."""
    block = 256 if kind == 99 else block_format(kind).block_size
    for offsets in ((0, 0), (0, 4096), (64, 64)):
        tensors = [(f"t{i}", (block,), kind, at) for i, at in enumerate(offsets)]
        path = made(stored_gguf((), tensors, bytes(400)), "x.gguf")
        with pytest.raises(ValueError, match=r"x\.gguf: tensor 't\d': expected data "):
            pq.open_weights(path)


@loop("fmt", block_formats())
def test_truncated_files(fmt, made):
    """Reject a file without its last byte. An ambiguous type becomes an unknown type."""
    tensors = [("a", (fmt.block_size, 9), fmt.ggml_id, 0)]
    path = made(stored_gguf((), tensors, bytes(fmt.block_bytes * 9 - 1)), "x.gguf")
    if fmt.ggml_id in (40, 41):
        assert pq.open_weights(path)["a"].format == f"type {fmt.ggml_id}"
        return
    with pytest.raises(ValueError, match="tensor 'a': expected data that ends by byte"):
        pq.open_weights(path)


def split_file(number, count, name, total=None):
    keys = [
        ("split.no", 2, struct.pack("<H", number)),
        ("split.count", 2, struct.pack("<H", count)),
        ("split.tensors.count", 5, struct.pack("<i", total or count)),
    ]
    return stored_gguf(keys, [(name, (2,), 0, 0)], np.float32([number, 1]).tobytes())


def test_split_files(made):
    for number in range(3):
        path = made(split_file(number, 3, f"t{number}"), f"m-{number + 1:05}-of-00003.gguf")
    with pytest.raises(ValueError, match="expected the first of 3 files"):
        pq.open_weights(path)
    first = path.replace("00003-of", "00001-of")
    with pq.open_weights(first) as f:
        assert [f[name].dequantize().tolist()[0] for name in f] == [0, 1, 2]
    made(split_file(1, 3, "t0"), "m-00002-of-00003.gguf")
    with pytest.raises(
        ValueError, match=r"m-00002.*tensor 't0': expected it once, got it again"
    ):
        pq.open_weights(first)
    made(split_file(2, 3, "t1"), "m-00002-of-00003.gguf")
    with pytest.raises(ValueError, match=r"m-00002.*expected split.no 1, got 2"):
        pq.open_weights(first)
    made(split_file(1, 3, "t1"), "m-00002-of-00003.gguf")
    made(split_file(0, 3, "t0", 4), "m-00001-of-00003.gguf")
    with pytest.raises(ValueError, match="expected 4 tensors, got 3"):
        pq.open_weights(first)
    os.unlink(path)
    made(split_file(1, 3, "t1"), "m-00002-of-00003.gguf")
    with pytest.raises(FileNotFoundError):
        pq.open_weights(first)


def test_vocabularies_make_no_objects(made):
    count = amount(40_000, 150_000)
    words = b"".join(text_of(f"token {i}") for i in range(count))
    array = struct.pack("<IQ", 8, count) + words
    scores = struct.pack("<IQ", 6, count) + bytes(4 * count)
    keys = [("tokens", 9, array), ("scores", 9, scores), ("merges", 9, array)]
    path = made(stored_gguf(keys), "x.gguf")
    pq.open_weights(path)
    f, peak = peak_of(lambda: pq.open_weights(path))
    assert peak < 100_000
    assert f.metadata["tokens"][-1] == f"token {count - 1}"
    assert f.metadata["scores"].shape == (count,)


# Shards


def test_an_index(tmp_path, made):
    (tmp_path / "sub").mkdir()
    places = {"t1": "m-1.safetensors", "t0": "./sub//m-0.safetensors"}
    for i in range(2):
        pq.write_weights(tmp_path / places[f"t{i}"], {f"t{i}": np.float32([i])})
    index = {"metadata": {"total_size": 8}, "weight_map": places}
    path = made(json.dumps(index).encode(), "model.safetensors.index.json")
    with pq.open_weights(path) as f:
        assert {name: f[name].dequantize().tolist() for name in f} == {"t1": [1], "t0": [0]}
        assert f.metadata == {"total_size": 8}


# ---- Parameters and packed arrays ----


PARAMS = [
    pq.QParams(0.5, 3, "uint8"),
    pq.QParams(np.float32([0.5, 2]), np.int8([1, -2]), "int4", axis=-1),
    pq.QParams(np.float64([[0.1]]), None, "int16", block_size=(2, 3), quant_range=(-9, 9)),
    pq.QParams(0.5, 3, "uint8", offset=1.5, fill=(255, 0)),
    pq.QParams(np.float32([1, 2]), None, "float8_e4m3fn", axis=(0,)),
]


@loop("params", PARAMS)
def test_parameters_come_back_equal(params, tmp_path):
    pq.write_weights(tmp_path / "a.safetensors", {"p": params}, metadata={"mine": "x"})
    with pq.open_weights(tmp_path / "a.safetensors") as f:
        assert f.read("p") == params
        assert f.metadata["mine"] == "x"
        with pytest.raises(KeyError):
            f.read("q")


@loop(
    "packing",
    [
        *(pq.Layout(name, bits=4) for name in ("onnx", "words", "awq", "halves")),
        pq.Layout("words", axis=0, bits=4),
        pq.Layout("words", axis=1, bits=3),
        pq.Layout("packbits", axis=1, bits=1),
    ],
)
def test_packed_arrays_come_back_equal(packing, tmp_path):
    codes = RNG.integers(0, min(8, 1 << packing.bits), (32, 64)).astype(np.uint8)
    p = pq.pack(codes, packing)
    pq.write_weights(tmp_path / "a.safetensors", {"p": p})
    assert pq.open_weights(tmp_path / "a.safetensors").read("p") == p


@loop("name", sorted({*TYPES, *_safetensors.FORMATS.values()}))
def test_arrays_of_every_type_come_back_equal(name, tmp_path):
    for shape in ((6, 16), (3, 3), (), (0, 2)):
        x = random_array(name, shape)
        pq.write_weights(tmp_path / "a.safetensors", {"x": x})
        got = pq.open_weights(tmp_path / "a.safetensors").read("x")
        assert (got.dtype, got.shape, bits(got)) == (x.dtype, x.shape, bits(x))


@loop(
    "record",
    [
        *("[]", "3", "{", '{"x":3}', '{"x":{"packed":[1]}}', '{"x":{"qparams":[]}}'),
        *("[" * 99999, '{"x":{"type":"int4"}}'),
        '{"x":{"packed":["int4",[99],"onnx",null,4]}}',
    ],
)
def test_invalid_records(record, made):
    path = made(stored({"x": ("F32", (1,), bytes(4))}, {"pyquant": record}))
    f = pq.open_weights(path)
    with pytest.raises(ValueError, match="expected metadata of pyquant for 'x', got "):
        f.read("x")


# Writing


def test_a_file_appears_as_a_whole(tmp_path, monkeypatch):
    from pyquant.weights import _saved

    path = tmp_path / "a.safetensors"
    pq.write_weights(path, {"a": np.float32([1])})
    before = path.read_bytes()

    def failing(*_):
        raise OSError("no space")

    monkeypatch.setattr(_saved, "_write_item", failing)
    with pytest.raises(OSError, match="no space"):
        pq.write_weights(path, {"b": np.float32([2])})
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]
    assert path.read_bytes() == before


def test_a_file_that_is_open_may_be_replaced(tmp_path):
    path = tmp_path / "a.safetensors"
    pq.write_weights(path, {"a": np.float32([1, 2])})
    if sys.platform == "win32":
        pytest.skip("there an open file cannot be replaced")
    with pq.open_weights(path) as f:
        pq.write_weights(path, {"a": f["a"], "b": np.float32([3])})
        assert f["a"].dequantize().tolist() == [1, 2]
    assert list(pq.open_weights(path)) == ["a", "b"]


X = np.float32([[1, 2, 3]])


# Reading


def test_views_are_of_the_file(tmp_path):
    path = tmp_path / "a.safetensors"
    pq.write_weights(path, {"a": np.arange(4, dtype=np.int32)})
    f = pq.open_weights(path)
    raw = f["a"].raw
    assert not raw.flags.writeable
    assert not raw.flags.owndata
    weight = f["a"]
    assert repr(weight) == "StoredTensor('a', format='I32', shape=(4,))"
    assert repr(f) == f"WeightFile({str(path)!r}, 1 tensors)"
    f.close()
    f.close()
    assert raw.tolist() == [0, 1, 2, 3]
    for call in (weight.dequantize, lambda: weight.raw):
        with pytest.raises(ValueError, match="expected an open file, got a closed one"):
            call()
    with pytest.raises(KeyError, match=r"name: expected the name of a tensor, got 'b'\"$"):
        f["b"]


def test_a_missing_name_lists_similar_names(tmp_path):
    names = ("model.norm.weight", "lm_head.weight", "a.weight\x1b[2J", "bias")
    pq.write_weights(tmp_path / "a.safetensors", dict.fromkeys(names, np.zeros(2)))
    with pq.open_weights(tmp_path / "a.safetensors") as f:
        close = r"'a.weight\x1b[2J', 'lm_head.weight' or 'model.norm.weight'"
        for name, end in (("Weight", close), ("lm_haed.weight", "'lm_head.weight'")):
            with pytest.raises(KeyError) as error:
                f[name]
            assert error.value.args[0].startswith(
                f"name: expected the name of a tensor, got {name!r}; did you mean {end}"
            )
            assert name not in f
            assert f.get(name) is None
        assert f.get("bias").name == "bias"


def test_places_that_lie(made):
    """Check the true dtype of `out`, and not the dtype that a subclass reports."""

    class Other(np.ndarray):
        dtype = property(lambda _: np.dtype(np.float32))

    w = pq.open_weights(made(stored({"x": ("F32", (3,), bytes(12))})))["x"]
    out = np.full(3, 7, np.uint8).view(Other)
    with pytest.raises(TypeError, match=r"^dtype: expected .* for F32, got uint8"):
        w.dequantize(out=out)
    assert out.tobytes() == b"\7\7\7"


def test_paths(tmp_path):
    with pytest.raises(FileNotFoundError):
        pq.open_weights(tmp_path / "no.gguf")
    with pytest.raises(FileNotFoundError, match=r"path: the folder does not exist: .*no'$"):
        pq.write_weights(tmp_path / "no" / "x.gguf", {})
    (tmp_path / "folder.gguf").mkdir()
    expected = "path: expected a regular file, got a"
    with pytest.raises(FileExistsError, match=f"{expected} folder: .*gguf"):
        pq.write_weights(tmp_path / "folder.gguf", {})
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "fifo.gguf")
        with pytest.raises(FileExistsError, match=f"{expected} FIFO: .*gguf"):
            pq.write_weights(tmp_path / "fifo.gguf", {})
        with pytest.raises(OSError, match="expected a regular file, got a FIFO"):
            pq.open_weights(tmp_path / "fifo.gguf")
    if os.path.islink("/dev/stdout"):  # even a link to a regular file is a device
        assert _elements.special_kind("/dev/stdout", replace=True) == "a device"
    for path, error in ((3, TypeError), (b"x.gguf", TypeError), ("\0.gguf", ValueError)):
        with pytest.raises(error, match=r"^path: expected a path"):
            pq.open_weights(path)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_rows_of_a_large_file_need_little_memory():
    """Calls that read few rows release the memory pages that they read."""
    code = """
import json, struct, tempfile
import numpy as np, pyquant as pq
size = 1 << SHIFT
head = {"dtype": "F16", "shape": [1024, size // 2048], "data_offsets": [0, size]}
head = json.dumps({"x": head})
with tempfile.TemporaryDirectory() as folder:
    with open(folder + "/a.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head.encode())
        file.truncate(8 + len(head) + size)
    def peak():
        lines = open("/proc/self/status").read().splitlines()
        return int(next(one for one in lines if one.startswith("VmHWM")).split()[1])
    out = np.ones((8, size // 2048), np.float32)
    before = peak()
    with pq.open_weights(folder + "/a.safetensors") as f:
        for row in range(0, 1024, 8):
            f["x"].dequantize(slice(row, row + 8), out=out)
    print(peak() - before, out.any())"""
    run = run_python(code.replace("SHIFT", str(amount(28, 29))))
    assert run.returncode == 0, run.stderr
    grown, values = run.stdout.split()
    assert values == "False"
    assert int(grown) < 64 << 10


# Hostile files

# The rows of errors.txt use the names and functions below.
E = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
ONE = [("a", (4,), 0, 0)]
D = bytes(16)


def entry(shape, offsets="[0,1]", dtype="U8"):
    """Return a safetensors header with one tensor `a` and the given texts of its fields."""
    return f'{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}}}'


def opened(data, name="x.safetensors"):
    """Open a file with the contents `data`. An error must begin with the path."""
    with TemporaryDirectory() as folder:
        pq.write_weights(os.path.join(folder, "m-1.safetensors"), {"t1": X})
        path = os.path.join(folder, name)
        with open(path, "wb") as file:
            file.write(data)
        try:
            pq.open_weights(path)
        except ValueError as error:
            start, end, said = str(error).partition(f"{path}: ")
            assert (start, bool(end)) == ("", True)
            assert re.search(r" at byte \d+$", said)
            raise ValueError(said) from None


def opened_gguf(*given, **more):
    """Open a GGUF file with the given keys and tensors."""
    opened(stored_gguf(*given, **more), "x.gguf")


def opened_index(index):
    """Open a JSON index, in a folder with a safetensors file that has one tensor."""
    index = index if isinstance(index, str) else json.dumps(index)
    opened(index.encode("latin-1"), "x.json")


def dequantized(**options):
    """Dequantize an int8 tensor of shape (2, 3) from a GGUF file."""
    with TemporaryDirectory() as folder:
        pq.write_weights(f"{folder}/a.gguf", {"x": np.zeros((2, 3), np.int8)})
        with pq.open_weights(f"{folder}/a.gguf") as file:
            file["x"].dequantize(**options)


def written(name, weights, metadata=None):
    """Write a file that must fail, and check that the folder is empty afterwards."""
    with TemporaryDirectory() as folder:
        try:
            pq.write_weights(os.path.join(folder, name), weights, metadata=metadata)
        finally:
            assert not os.listdir(folder)


def test_files_of_other_formats(made):
    for data in (b"1234", b"\x93NUMPY\x01\0v\0{", struct.pack("<Q", 2**60) + b"["):
        with pytest.raises(ValueError, match=r"x\.safetensors is not a safetensors or GG"):
            pq.open_weights(made(data))


def test_header_beyond_the_limit(made):
    """Reject a header that exceeds the limit, although the file is large enough for it."""
    path = made(struct.pack("<Q", _safetensors.MAX_HEADER + 1) + b"{")
    os.truncate(path, _safetensors.MAX_HEADER + 9)
    message = "expected a header of at most 100000000 bytes, got 100000001 at byte 0"
    with pytest.raises(ValueError, match=message):
        pq.open_weights(path)


def test_gguf_strings_are_limited(made):
    """Reject a GGUF file with too many strings, because each string takes time to read."""
    count = _gguf.MAX_STRINGS + 1
    data = struct.pack("<IQ", 8, count) + bytes(8 * count)
    with pytest.raises(ValueError, match="expected at most 4194304 strings and arrays"):
        pq.open_weights(made(stored_gguf([("k", 9, data)]), "x.gguf"))


@loop("kind", ["safetensors", "gguf"])
def test_writers_and_readers_have_one_limit(kind, tmp_path, monkeypatch):
    path = tmp_path / f"x.{kind}"
    pq.write_weights(path, {"a": X, "b": X})
    with monkeypatch.context() as patch:
        for module in (_elements, _gguf, _safetensors):
            patch.setattr(module, "MAX_TENSORS", 1)
        with pytest.raises(ValueError, match=r"^weights: expected at most 1 tensors in a "):
            pq.write_weights(path, {"a": X, "b": X})
        with pytest.raises(ValueError, match="expected at most 1 tensors, got"):
            pq.open_weights(path)


def test_safetensors_with_too_many_tensors_or_keys(made, monkeypatch):
    monkeypatch.setattr(_safetensors, "MAX_TENSORS", 1)
    monkeypatch.setattr(_safetensors, "MAX_KEYS", 1)
    two = {"a": ("U8", (1,), b"1"), "b": ("U8", (1,), b"2")}
    with pytest.raises(ValueError, match="expected at most 1 tensors, got more at byte 8"):
        pq.open_weights(made(stored(two)))
    with pytest.raises(ValueError, match="expected at most 1 keys, got more at byte"):
        pq.open_weights(made(stored({}, {"a": "1", "b": "2"})))


def test_files_that_lie(tmp_path):
    """Open files with wrong bytes. Each one decodes or raises an error of one line."""
    results = fuzz_files.run(SEED, MUTANTS, str(tmp_path))
    for kind in ("gguf", "safetensors", "json"):
        for answer in ("opened", "refused"):
            assert results[f"{kind} {answer}"] > MUTANTS // 100


def test_names_of_blocks_in_safetensors_are_bytes(tmp_path):
    """A safetensors tensor with the type name of a GGUF block is read only as bytes."""
    header = b'{"w":{"dtype":"Q4_0","shape":[32],"data_offsets":[0,18]}}'
    path = tmp_path / "a.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(18))
    with pq.open_weights(path) as f:
        message = r"^format: expected a type that pyquant decodes, got Q4_0; raw has the 18"
        with pytest.raises(ValueError, match=message):
            f["w"].dequantize()
        with pytest.raises(ValueError, match=r"^weights: expected bytes of a format with"):
            pq.write_weights(tmp_path / "a.gguf", {"w": f["w"]})
        pq.write_weights(tmp_path / "b.gguf", {"w": ("Q4_0", f["w"].raw)})
    with pq.open_weights(tmp_path / "b.gguf") as f:
        assert f["w"].dequantize().shape == (32,)


def test_metadata_keep_their_types(tmp_path):
    """A copy of a file keeps the types of metadata and drops the keys of a split model."""
    said = {f"k.{letter}": np.dtype(letter).type(3) for letter in "bBhHiIqQfd"}
    said |= {"k.bool": True, "k.below": np.int32(-3), "k.text": "x", "k.list": ["a", "b"]}
    split = {"split.no": np.uint16(0), "split.count": np.uint16(1)}
    said["general.alignment"] = np.uint32(64)
    one, two = tmp_path / "a-00001-of-00001.gguf", tmp_path / "b.gguf"
    x = np.arange(5, dtype=np.float32)
    pq.write_weights(one, {"x": x}, metadata=said | split)
    with pq.open_weights(one) as f:
        assert dict(f.metadata) == said | split
        pq.write_weights(two, {**f}, metadata={**f.metadata, "k.text": "y"})
    with pq.open_weights(two) as f:
        assert dict(f.metadata) == said | {"k.text": "y"}
    kinds = gguf_types(one)
    assert gguf_types(two) == {key: kinds[key] for key in kinds if key not in split}


def gguf_types(path):
    """Read the types of the metadata values with the package gguf."""
    gguf = pytest.importorskip("gguf", reason="it is in the group integration")
    return {key: field.types for key, field in gguf.GGUFReader(path).fields.items()}


@pytest.mark.parametrize("dtype", ["u1", "u2", "i2", "u8"])
def test_rows_by_numbers_of_any_type(dtype, tmp_path):
    """Read rows by unsigned numbers, although the difference of two numbers can wrap."""
    x = np.arange(1 << 16, dtype=np.float32).reshape(-1, 1)
    pq.write_weights(tmp_path / "w.safetensors", {"w": x})
    rows = np.array([255, 0, 1, 255, 254], dtype)
    with pq.open_weights(tmp_path / "w.safetensors") as f:
        same(f["w"].dequantize(rows), x[rows.astype(np.int64)])


def test_scattered_rows_release_pages(tmp_path, monkeypatch):
    """A call that reads scattered rows counts the memory pages that it reads."""
    pq.write_weights(tmp_path / "w.safetensors", {"w": np.zeros((4096, 512), np.int8)})
    with pq.open_weights(tmp_path / "w.safetensors") as f:
        w, read = f["w"], []
        monkeypatch.setattr(
            type(w._file), "has_read", lambda self, *given: read.append(given)
        )
        w.dequantize(np.arange(0, 4096, 64), dtype="float32")
        assert read == [(w._start, w._start + w.nbytes, 64 * 4096)]


def test_functions_accept_weights(tmp_path):
    """Functions accept the weights of a file as arrays, without `view`."""
    path = tmp_path / "w.safetensors"
    x = np.arange(12, dtype=np.int8).reshape(3, 4)
    pq.write_weights(path, {"x": x})
    with pq.open_weights(path) as f:
        same(np.asarray(f["x"]), x)
        assert np.shares_memory(np.asarray(f["x"]), f["x"].raw)
        assert np.array(f["x"]).flags.writeable
        same(np.asarray(f["x"], np.float64), x.astype(np.float64))
        same(pq.dequantize(f["x"], 0.5), pq.dequantize(x, 0.5))
