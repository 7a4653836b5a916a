"""Test the commands quantize and dequantize, which convert files."""

import gc
import json
import os
import re
import shlex
import struct
import sys
import zipfile
from functools import partial
from itertools import product
from pathlib import Path

import blocks_encoders
import numpy as np
import pytest
from support import HAVE_BFLOAT16, amount, case, peak_of, program, seeds

import pyquant as pq
from pyquant.cli import main
from pyquant.cli._logical import logical
from pyquant.cli._models import open_model
from pyquant.weights import from_tensors
from pyquant.weights.blocks import block_format, block_formats

resource = pytest.importorskip("resource")  # of POSIX

INTEGERS = ("int8", "uint8", "int16", "uint16", "int4", "uint4", "int2", "uint2")
FLOATS = ("float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")


@pytest.fixture
def weights():
    rng = np.random.default_rng(0)
    return {
        "l.0.weight": rng.standard_normal((67, 50)).astype(np.float32),
        "l.1.weight": rng.standard_normal((40, 256)).astype(np.float16),
        "wide": rng.standard_normal((33, 96)),
        "cube": rng.standard_normal((9, 16, 32)).astype(np.float32),
        "l.0.bias": rng.standard_normal(2000).astype(np.float32),
        "ids": np.arange(5000).reshape(50, 100),
    }


REAL = ("l.0.weight", "l.1.weight", "wide", "cube")


@pytest.fixture
def model(here, weights):
    pq.write_weights("in.safetensors", weights, metadata={"format": "pt"})
    return "in.safetensors"


def quantize(*arguments, code=0):
    assert main(["quantize", *map(str, arguments)]) == code


def rows_of(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def whole(x):
    """Return an array in the type that `StoredTensor.dequantize` returns by default."""
    return x if x.dtype == np.float64 else x.astype(np.float32)


def int8(x):
    """Return the codes that `quantize --type int8` stores for an array."""
    return pq.choose_qparams(x, axis=0).quantize(x)


# Codes


# The keys are minimum numbers of dimensions, and the values granularities for arrays with
# so many dimensions or more.
GRANULARITIES = {
    1: "channel tensor axis:0 block:32",
    2: "axis:1 8x16 100x7",
    3: "axis:-1 block:5 4x32",
}
FORMS = [  # shape, dtype, method
    *(((1003,), "f4", "minmax"), ((9, 16, 32), "f4", "minmax"), ((33, 96), "f8", "mse")),
    *(((67, 50), "f4", "minmax"), ((40, 256), "f2", "minmax"), ((33, 96), "f8", "minmax")),
]


@pytest.mark.parametrize(("shape", "dtype", "method"), FORMS, ids=str)
@pytest.mark.parametrize("type", INTEGERS + FLOATS)
def test_codes_equal_the_complete_array(type, shape, dtype, method, here, refused):
    """The codes of the command equal the codes of pyquant for the complete array, also with
    little memory or with zero points."""
    if type in FLOATS and not HAVE_BFLOAT16:
        pytest.skip("needs ml_dtypes")
    x = np.random.default_rng(2).standard_normal(shape).astype(dtype)
    np.save("x.npy", x)
    if type == "float4_e2m1fn" and shape[-1] % 2:  # each byte contains two codes
        said = "expected an even last extent for float4_e2m1fn, got shape (1003,)\n"
        refused(said, "quantize", "x.npy", "x.safetensors", "--type", type)
        return
    given = " ".join(GRANULARITIES[n] for n in range(1, len(shape) + 1)).split()
    for granularity, symmetric in product(given, (None, False)):
        if symmetric is None or type in INTEGERS:
            with case(granularity=granularity, symmetric=symmetric):
                check_codes(x, type, granularity, method, symmetric)


def check_codes(x, type, granularity, method, symmetric):
    channel = "axis:0" if x.ndim > 1 else "tensor"
    text = channel if granularity == "channel" else granularity
    kind, _, number = text.partition(":")
    how = {"tensor": {}, "axis": {"axis": int(number or 0)}}.get(kind)
    if how is None:
        sizes = [int(n) for n in (number or kind).split("x")]
        how = {"block_size": (*[1] * (x.ndim - len(sizes)), *sizes)}
    # The command must read all rows of these arrays at once.
    memory = "4M" if "100" in granularity or method == "mse" or x.ndim == 3 else "64K"
    options = ["--asymmetric"] * (symmetric is False)
    options += ["--granularity", granularity, "--method", method, "--max-memory", memory]
    quantize("x.npy", "x.safetensors", "--type", type, *options, "-qf")
    x = whole(x)
    p = pq.choose_qparams(x, dtype=type, symmetric=symmetric, method=method, **how)
    codes = p.quantize(x)
    y = p.dequantize(codes, dtype=x.dtype)
    with open_model("x.safetensors") as made:
        (found,) = logical(made).values()
        assert (found.type, found.granularity) == (type, text)
        rows = slice(3, 20)
        np.testing.assert_array_equal(found.dequantize(dtype=x.dtype), y)
        np.testing.assert_array_equal(found.dequantize(rows, dtype=x.dtype), y[rows])
        np.testing.assert_array_equal(found.params()[0].ravel(), np.ravel(p.scale))
        if type in INTEGERS:
            codes = codes.astype(np.int32)
            np.testing.assert_array_equal(found.codes(), codes)
            np.testing.assert_array_equal(found.codes(rows), codes[rows])


@pytest.mark.parametrize("type", ["Q4_K", "Q8_0", "Q4_0", "Q6_K", "MXFP4", "IQ4_NL"])
def test_blocks(type, model, weights, capsys):
    """Blocks equal the blocks of pyquant.weights, and therefore of llama.cpp's quantizer,
    which searches the scales of IQ4_NL."""
    quantize(model, "out.gguf", "--type", type, "--json", "--max-memory", "100K")
    errors = {row.get("tensor"): row.get("sqnr") for row in rows_of(capsys)}
    block = block_format(type)
    how = {"search": True} if type == "IQ4_NL" else {}
    fitting = {n for n in REAL if weights[n].shape[-1] % block.block_size == 0}
    with open_model("out.gguf") as made:
        found = logical(made)
        for name in fitting:
            x = whole(weights[name])
            rows = x.astype(np.float32).reshape(-1, x.shape[-1])
            wanted = blocks_encoders.encode(type, rows, **how)
            np.testing.assert_array_equal(made[name].raw, wanted.ravel())
            sqnr = pq.measure_error(x, found[name].dequantize(dtype=x.dtype)).sqnr
            # The command adds in another order, so that the last bits of the sums can
            # differ.
            assert errors[name] == pytest.approx(sqnr, rel=1e-12)
            assert (found[name].type, found[name].granularity) == (
                type,
                f"block:{block.block_size}",
            )
        for name in set(weights) - fitting:
            assert found[name].granularity is None
            kept = found[name].dequantize(dtype=weights[name].dtype)
            np.testing.assert_array_equal(kept, weights[name])
        assert made.metadata["general.quantization_version"] == 2
    patterns = [f"--tensor={name}" for name in fitting]
    assert main(["compare", "--exact", *patterns, model, "out.gguf"]) == 0


def test_the_gguf_package_reads_blocks(model, weights):
    gguf = pytest.importorskip("gguf")
    quantize(model, "out.gguf", "--type", "Q8_0", "--keep", "wide")
    reader = gguf.GGUFReader("out.gguf")
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    assert set(tensors) == set(weights)
    made = tensors["l.1.weight"]
    assert made.tensor_type.name == "Q8_0"
    numbers = gguf.quants.dequantize(made.data, made.tensor_type)
    wanted = block_format("Q8_0").quantize(whole(weights["l.1.weight"]))
    np.testing.assert_array_equal(numbers, block_format("Q8_0").dequantize(wanted))
    np.testing.assert_array_equal(tensors["wide"].data, weights["wide"])


def test_metadata_of_gguf_is_kept(here, weights):
    said = {"general.architecture": "llama", "general.file_type": 1, "a.list": ["x", "y"]}
    pq.write_weights("in.gguf", {"w": weights["l.1.weight"]}, metadata=said)
    quantize("in.gguf", "out.gguf", "--type", "Q8_0")
    with pq.open_weights("out.gguf") as made:
        assert dict(made.metadata) == {
            "general.architecture": "llama",
            "a.list": ["x", "y"],
            "general.quantization_version": 2,
        }
    quantize("out.gguf", "again.gguf", "--type", "Q4_K")
    with pq.open_weights("again.gguf") as made:
        assert made["w"].format == "Q4_K"


ENCODED = [one.name for one in block_formats() if one.quantizes]
MAGNITUDES = (3e38, 1e15, 2e7, 7e5, 6e3, 5e3, 4e3, 1, 2e-2, 1e-4, 2e-7, 8e-9, 1e-30, 1e-44)
TINY_SCALES = ("TQ1_0", "TQ2_0", "Q1_0", "Q2_0")
SMALL_SCALES = ("Q4_0", "Q4_1", "Q5_1", "Q8_1", "NVFP4", *TINY_SCALES)
# The keys are magnitudes of values. The values are the types with scales for this
# magnitude. 2e-7 is near the limit of TINY_SCALES, so that the result depends on the
# rounding of a scale.
HOLD = {
    1e15: ("Q8_K", "MXFP4"),
    5e3: {*ENCODED} - {"NVFP4"},
    7e5: {*ENCODED} - {*SMALL_SCALES},
    1: ENCODED,
    2e-7: ("Q8_K", "MXFP4"),
    8e-9: ("Q8_K", "MXFP4"),
}


@pytest.mark.parametrize("type", ENCODED)
def test_values_beyond_the_range_of_a_type_are_an_error(type, here, capsys):
    """The command names a tensor and writes no file if its blocks lose too much. Compared
    with values near 1, blocks must keep 7/8 of the sum of squares and 3/4 of the largest
    value."""
    block = block_format(type)

    def kept(x):
        """Return the sum of squares and the largest value of `x` that remain in its blocks,
        or NaN if a scale is not finite."""
        blocks = block.quantize(x, search=True if type == "IQ4_NL" else None)
        fields = (one for one in block.split(blocks).values() if one.dtype.kind == "f")
        finite = all(np.isfinite(field).all() for field in fields)
        y = block.dequantize(blocks).astype("f8") if finite else np.nan
        return np.array([(x.astype("f8") ** 2 - (x - y) ** 2).sum(), np.max(abs(y))])

    def check(base, magnitude):
        x = base * np.float32(magnitude)
        x[0] = 0  # a row of zeros is no error
        pq.write_weights("in.safetensors", {"fine": base, "far": x})
        up = -np.frexp(abs(x).max())[1]
        ideal = np.ldexp(kept(np.ldexp(x, up)), [-2 * up, -up])
        with np.errstate(all="ignore"):
            fails = not (kept(x) >= ideal * (7 / 8, 3 / 4)).all()
        if magnitude in HOLD and not (magnitude == 2e-7 and type in TINY_SCALES):
            assert fails == (type not in HOLD[magnitude])
        status = main(["quantize", "in.safetensors", "o.gguf", "--type", type, "-q"])
        assert status == 2 * fails
        if fails:
            assert capsys.readouterr().err == (
                f"pyquant quantize: in.safetensors: tensor 'far' ({type}: largest value "
                f"{abs(x).max():g}): expected values in the range of the type; use another "
                "type, or add --keep far\n"
            )
        else:
            os.remove("o.gguf")
        assert os.listdir() == ["in.safetensors"]

    for seed in seeds(amount(2, 10)):
        random = np.random.default_rng(seed)
        base = random.standard_normal((8, 512)).astype("f4")
        base /= abs(base).max()
        for magnitude in (*MAGNITUDES, 10 ** random.uniform(-12, 12)):
            with case(magnitude=magnitude):
                check(base, magnitude)


@pytest.mark.parametrize("type", sorted({*ENCODED} - {*HOLD[1e15]}))
def test_one_value_beyond_the_range_is_an_error(type, here, refused):
    """One value beyond the range is an error, also in Q3_K, Q6_K and IQ4_XS, which get the
    scale 0 for the largest values."""
    x = np.random.default_rng(1).standard_normal((4, 512)).astype("f4")
    for value in (3e38, -1e20, 1e12):
        x[2, 300] = value
        pq.write_weights("in.safetensors", {"w": x})
        said = f"'w' ({type}: largest value {abs(value):g})"
        refused(said, "quantize", "in.safetensors", "o.gguf", "--type", type, "-q")
        assert os.listdir() == ["in.safetensors"]


def test_all_values_beyond_the_range_are_one_error(here, capsys):
    """One error names all tensors with values beyond the range. With the options that the
    error prints, the command succeeds. Each row is a separate band."""
    x = np.linspace(-1, 1, 2048, dtype="f4").reshape(4, 512)
    # small rows are no error if another row of the tensor is larger
    rows = np.float32([[1], [0], [1e-9], [1e-9]])
    tensors = {"[c]*": x * 1e9, "a b": x * rows[2:3], "fine": x, "rows": x * rows}
    pq.write_weights("in.safetensors", tensors)
    options = ["--type=Q8_0", "--max-memory=8K"]
    assert main(["quantize", "-q", "in.safetensors", "o.gguf", *options]) == 2
    said = capsys.readouterr().err
    assert "tensor '[c]*' (Q8_0: largest value 1e+09), 'a b' (Q8_0: largest " in said
    keep = shlex.split(said.partition(", or add ")[2])
    assert keep == ["--keep", "[[]c][*]", "--keep", "a b"]
    quantize("in.safetensors", "o.gguf", *options, *keep)
    with pq.open_weights("o.gguf") as made:
        assert [made[name].format for name in tensors] == ["F32", "F32", "Q8_0", "Q8_0"]


@pytest.mark.parametrize("value", [7e4, 1e-9])
def test_float16_results_keep_their_values(value, here, refused):
    x = np.float32([[1, 2], [7e4, 3]]) if value > 1 else np.full((2, 2), value, "f4")
    np.save("in.npy", x)
    quantize("in.npy", "q.npz", "--type", "int8")
    command = ["dequantize", "q.npz", "o.npz", "--type", "float16"]
    said = f"tensor 'in' (float16: largest value {value:g}): expected values in the range "
    refused(f"{said}of the type; use float32 or bfloat16\n", *command)
    assert sorted(os.listdir()) == ["in.npy", "q.npz"]
    with np.load("q.npz") as file:  # a stored infinite scale is not reported as an overflow
        parts = {**file, "in_scale": np.float32([[1], [np.inf]])}
    np.savez("q.npz", **parts)
    assert main(command) == 0


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_members_without_known_numbers_are_copied(save, here, capsys, refused):
    x = np.linspace(-1, 1, 128, dtype="f4").reshape(2, 64)
    others = {
        "date": np.array(["2020-01-01"], "M8[s]"),
        "long": x.astype(np.longdouble).T,
        "object": np.array([None, "a"]),
        "record": np.zeros(3, "f4,i4"),
        "text": np.array("text"),
        "void": x.astype("f2").view("V2"),
    }
    save("in.npz", x=x, **others)
    with zipfile.ZipFile("in.npz", "a") as archive:
        archive.writestr("read.me", "bytes")
    assert main(["inspect", "--stats", "in.npz"]) == 0
    assert re.search(r"date +datetime64\[s\] +1 +-", capsys.readouterr().out)
    quantize("in.npz", "q.npz", "--type", "int8")
    assert main(["dequantize", "-q", "q.npz", "x.npz"]) == 0
    assert main(["compare", "--exact", "in.npz", "q.npz"]) == 0
    assert main(["compare", "in.npz", "x.npz"]) == 0
    with (
        np.load("in.npz", allow_pickle=True) as a,
        np.load("x.npz", allow_pickle=True) as b,
    ):
        assert [name.removesuffix(".npy") for name in b] == ["x", *others, "read.me"]
        for name in (*others, "read.me"):
            assert np.asarray(a[name]).tobytes() == np.asarray(b[name]).tobytes()
    save("in.npz", x=x, **{**others, "text": np.array("next")}, **{"read.me": x})
    assert main(["compare", "in.npz", "x.npz"]) == 1
    assert "\ntext: the bytes differ\n" in f"\n{capsys.readouterr().out}"
    said = "tensor 'date': expected a type that .safetensors files have, got datetime64"
    refused(said, "quantize", "in.npz", "q.safetensors", "--type=int8")


# Files of other packages


def test_the_safetensors_package_reads_it(model, weights):
    numpy = pytest.importorskip("safetensors.numpy")
    quantize(model, "out.safetensors", "--type", "int8", "--asymmetric")
    found = numpy.load_file("out.safetensors")
    x = weights["l.0.weight"]
    p = pq.choose_qparams(x, dtype="int8", axis=0, symmetric=False)
    np.testing.assert_array_equal(found["l.0.weight"], p.quantize(x))
    np.testing.assert_array_equal(found["l.0.weight_scale"][:, 0], p.scale)
    np.testing.assert_array_equal(found["l.0.weight_zero_point"][:, 0], p.zero_point)
    np.testing.assert_array_equal(found["ids"], weights["ids"])


@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("type", ["int4", "uint4"])
@pytest.mark.parametrize("granularity", ["axis:0", "block:32", "block:16"])
def test_packed_as_compressed_tensors(type, granularity, asymmetric, model, weights):
    """Packed tensors of the command are in the format of compressed-tensors. `from_tensors`
    reads them without pyquant's metadata."""
    options = ("--type", type, "--granularity", granularity, *["--asymmetric"] * asymmetric)
    quantize(model, "out.safetensors", *options)
    name = "l.1.weight"
    with pq.open_weights("out.safetensors") as file:
        has_zeros = asymmetric or type == "uint4"
        assert (f"{name}_zero_point" in file) == has_zeros
        found = [one.name for one in pq.weights.find(file) if one.formats]
        assert {"l.0.weight", "l.1.weight"} < {*found}
        made = from_tensors(file, "l.1")
        config = json.loads(file.metadata["quantization_config"])
    how = {"axis": 1, "block_size": int(granularity[6:] or 0)}
    how = {"axis": 0} if granularity == "axis:0" else how
    x = whole(weights[name])
    symmetric = False if asymmetric else None
    p = pq.choose_qparams(x, dtype=type, symmetric=symmetric, **how)
    np.testing.assert_array_equal(made.dequantize(), p.dequantize(p.quantize(x)))
    assert config["format"] == "pack-quantized"
    (group,) = config["config_groups"].values()
    assert group["targets"] == ["l.0", "l.1"]
    scheme = {"strategy": "channel"}
    if granularity != "axis:0":
        scheme = {"strategy": "group", "group_size": int(granularity[6:])}
    kinds = {"num_bits": 4, "type": "int", "symmetric": not has_zeros}
    assert group["weights"] == {**kinds, **scheme}


@pytest.mark.parametrize(
    ("type", "granularity", "asymmetric"),
    [
        *(("int8", "axis:0", False), ("int8", "tensor", False), ("int8", "block:32", True)),
        *(("int8", "axis:0", True), ("float8_e4m3fn", "axis:0", False)),
        *(("float8_e4m3fn", "16x32", False), ("int4", "axis:0", False)),
        *(("int4", "axis:0", True), ("int4", "block:32", False)),
        *(("int4", "block:32", True), ("uint4", "block:32", False)),
    ],
)
def test_the_compressed_tensors_package_reads_it(type, granularity, asymmetric, here):
    pytest.importorskip("compressed_tensors", reason="the judge of this test")
    torch_file = pytest.importorskip("safetensors.torch")
    from compressed_tensors.compressors import BaseCompressor
    from compressed_tensors.quantization import QuantizationConfig

    x = np.random.default_rng(4).standard_normal((64, 96)).astype(np.float32)
    pq.write_weights("in.safetensors", {"a.weight": x})
    options = ["--asymmetric"] * asymmetric
    options += ["--type", type, "--granularity", granularity]
    quantize("in.safetensors", "out.safetensors", *options)
    with open_model("out.safetensors") as made:
        wanted = logical(made)["a.weight"].dequantize()
        config = json.loads(made.metadata["quantization_config"])
    scheme = QuantizationConfig.model_validate(config).config_groups["group_0"]
    package = BaseCompressor.get_value_from_registry(config["format"])
    tensors = torch_file.load_file("out.safetensors")
    state = {name.removeprefix("a."): tensor for name, tensor in tensors.items()}
    found = package.decompress(state, scheme)["weight"].float().numpy()
    np.testing.assert_array_equal(found, wanted)


def test_load_knows_codes_and_packed_codes(model, weights):
    quantize(model, "out.safetensors", "--type", "int4", "--tensor", "wide=int8")
    with pq.open_weights("out.safetensors") as file:
        np.testing.assert_array_equal(file.read("wide"), int8(weights["wide"]))
        packed = file.read("l.0.weight_packed")
        # the word has two codes, and its unused bits are 0
        assert not (packed.data[:, -1] & -256).any()
        p = pq.choose_qparams(weights["l.0.weight"], dtype="int4", axis=0)
        codes = p.quantize(weights["l.0.weight"]).astype(np.int8)
        np.testing.assert_array_equal(pq.unpack(packed).astype(np.int8) - 8, codes)
        np.testing.assert_array_equal(file.read("ids"), weights["ids"])


def test_arrays_of_numpy(here, weights):
    """Arrays in C or Fortran order and in any byte order are quantized or copied."""
    orders = {"wide": np.asfortranarray, "ids": np.asfortranarray}
    orders |= dict.fromkeys(("l.0.weight", "l.0.bias"), lambda x: x.astype(">f4"))
    given = {name: orders.get(name, np.copy)(x) for name, x in weights.items()}
    np.savez("in.npz", **given, empty=np.zeros((0, 3), "f4"))
    options = ("--min-size", "1000", "--max-memory", "64K")
    quantize("in.npz", "out.npz", "--type", "int8", *options)
    with zipfile.ZipFile("out.npz") as archive:
        assert archive.testzip() is None
    found = np.load("out.npz")
    for name in ("wide", "l.0.weight"):
        p = pq.choose_qparams(weights[name], axis=0)
        np.testing.assert_array_equal(found[name], p.quantize(weights[name]))
        np.testing.assert_array_equal(found[f"{name}_scale"][:, 0], p.scale)
    for name in ("ids", "l.0.bias"):
        np.testing.assert_array_equal(found[name], weights[name])
    assert found["empty"].shape == (0, 3)
    record = json.loads(json.loads(str(found["__pyquant__"]))["pyquant"])
    assert record["wide"]["quantized"]["granularity"] == "axis:0"
    assert record["wide"]["quantized"]["version"] == pq.__version__


def test_shards_stay_shards(here, weights):
    os.makedirs("in/sub")
    files = ("m-0.safetensors", "sub/m-1.safetensors")
    places = {name: files[number % 2] for number, name in enumerate(weights)}
    for file in set(places.values()):
        own = {name: weights[name] for name in weights if places[name] == file}
        pq.write_weights(f"in/{file}", own)
    index = {"metadata": {"total_size": 1}, "weight_map": places}
    with open("in/m.safetensors.index.json", "w") as text:
        json.dump(index, text)
    os.mkdir("out")
    quantize("in", "out/", "--type", "int8")
    index = "m.safetensors.index.json"
    assert sorted(os.listdir("out")) == [files[0], index, "sub-m-1.safetensors"]
    with open_model("out") as after:
        found = logical(after)
        assert set(found) == set(weights)
        for name in ("l.0.weight", "wide"):
            np.testing.assert_array_equal(found[name].codes(), int8(weights[name]))
            assert after.shards[name] == after.shards[f"{name}_scale"]
            assert after.shards[name] == places[name].replace("/", "-")
    quantize("in", "out", "--type", "int8", code=2)
    quantize("in", "in", "--type", "int8", "-f", code=2)
    quantize("in", "one.safetensors", "--type", "int8", code=2)


# Dequantize


@pytest.mark.parametrize("type", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("way", ["int8", "uint4", "Q8_0"])
def test_back(type, way, model, weights):
    if type == "bfloat16" and not HAVE_BFLOAT16:
        pytest.skip("needs ml_dtypes")
    made = "q.gguf" if way == "Q8_0" else "q.safetensors"
    quantize(model, made, "--type", way)
    options = ["--type", type, "--max-memory", "64K"]
    assert main(["dequantize", made, "back.safetensors", *options]) == 0
    with open_model(made) as before, open_model("back.safetensors") as after:
        assert set(after) == set(weights)
        assert not any(tensor.is_quantized for tensor in logical(after).values())
        changed = {n: t for n, t in logical(before).items() if t.is_quantized}
        assert changed
        for name, tensor in changed.items():
            dtype = after[name].dtype
            assert dtype.name == type
            wanted = tensor.dequantize(dtype=dtype)
            found = after[name].dequantize(dtype=dtype)
            np.testing.assert_array_equal(found.view(np.uint8), wanted.view(np.uint8))
        for key in ("pyquant", "quantization_config"):
            assert key not in after.metadata


@pytest.mark.parametrize("kind", ["safetensors", "gguf"])
@pytest.mark.parametrize(
    ("type", "out"), [("int8", "safetensors"), ("int8", "npz"), ("Q8_0", "gguf")]
)
def test_bfloat16_needs_no_ml_dtypes(kind, type, out, here, monkeypatch):
    """A bfloat16 tensor is quantized, and a bfloat16 vector is copied: to .npz as float32,
    to all other formats unchanged."""
    x = np.random.default_rng(1).standard_normal((64, 256)).astype("f4")
    words = (x.view(np.uint32) >> 16).astype("<u2")  # truncate to bfloat16
    x = (words.astype(np.uint32) << 16).view(np.float32)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    pq.write_weights(f"in.{kind}", {"w": ("bfloat16", x), "v": ("bfloat16", x[0])})
    quantize(f"in.{kind}", f"out.{out}", "--type", type)
    with open_model(f"out.{out}") as made:
        found = logical(made)
        copied = "float32" if out == "npz" else "bfloat16"
        assert (found["w"].type, found["v"].type) == (type, copied)
        np.testing.assert_array_equal(found["v"].dequantize(dtype="float32"), x[0])
        if type == "int8":
            np.testing.assert_array_equal(found["w"].codes(), int8(x))
    assert main(["compare", "--exact", f"in.{kind}", f"out.{out}"]) == 0
    assert main(["dequantize", f"out.{out}", f"y.{kind}", "--type", "bfloat16"]) == 0
    assert main(["dequantize", f"out.{out}", f"z.{kind}"]) == 0
    assert main(["compare", "--exact", f"z.{kind}", f"y.{kind}"]) == 0


def test_through_pipes(here, weights):
    x = weights["l.0.weight"]
    np.save("x.npy", x)
    with open("x.npy", "rb") as file:
        run = program("quantize", "-", "-", "--type", "int8", input=file.read(), text=False)
    assert (run.returncode, run.stderr) == (0, b"")
    back = program("dequantize", "-", "-", input=run.stdout, text=False)
    assert (back.returncode, back.stderr) == (0, b"")
    with open("back.npy", "wb") as file:
        file.write(back.stdout)
    p = pq.choose_qparams(x, axis=0)
    np.testing.assert_array_equal(np.load("back.npy"), p.dequantize(p.quantize(x)))


# Selection of tensors


def test_json(model, capsys):
    options = ("--tensor", "l.*=uint4@block:16", "--tensor", "re:wide|ids=int8@tensor")
    quantize(model, "out.safetensors", "--type", "int8", "--json", "--dry-run", *options)
    assert not os.path.exists("out.safetensors")
    planned = rows_of(capsys)
    assert planned == [
        {"tensor": "ids", "shape": [50, 100], "from": "int64", "to": "int64",
         "granularity": None, "bytes_in": 40000, "bytes_out": 40000,
         "kept": "expected real numbers, got int64"},
        {"tensor": "wide", "shape": [33, 96], "from": "float64", "to": "int8",
         "granularity": "tensor", "bytes_in": 25344, "bytes_out": 3176},
        {"tensor": "cube", "shape": [9, 16, 32], "from": "float32", "to": "int8",
         "granularity": "axis:0", "bytes_in": 18432, "bytes_out": 4644},
        {"tensor": "l.0.bias", "shape": [2000], "from": "float32", "to": "float32",
         "granularity": None, "bytes_in": 8000, "bytes_out": 8000,
         "kept": "fewer than 2 dimensions"},
        {"tensor": "l.0.weight", "shape": [67, 50], "from": "float32", "to": "uint4",
         "granularity": "block:16", "bytes_in": 13400, "bytes_out": 3108},
        {"tensor": "l.1.weight", "shape": [40, 256], "from": "float16", "to": "uint4",
         "granularity": "block:16", "bytes_in": 20480, "bytes_out": 8016},
        {"summary": {"output": "out.safetensors", "tensors": 6, "changed": 4, "kept": 2,
         "bytes_in": 125656, "bytes_out": 66944, "dry_run": True}},
    ]  # fmt: skip
    quantize(model, "out.safetensors", "--type", "int8", "--json", *options)
    done = rows_of(capsys)
    errors = {row["tensor"]: row.pop("sqnr") for row in done[:-1] if "sqnr" in row}
    assert list(errors) == ["wide", "cube", "l.0.weight", "l.1.weight"]
    assert done[:-1] == planned[:-1]
    worst = min(errors, key=errors.__getitem__)
    assert done[-1]["summary"] == {
        **planned[-1]["summary"],
        "dry_run": False,
        "worst": {"tensor": worst, "sqnr": errors[worst]},
    }


LAYER = {"l.0.weight": "int4", "l.1.weight": "int4"}


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (["--keep", "*", "--tensor", "l.*=int4", "--keep", "*.bias"], LAYER),
        # The pattern l.* also matches a bias and a norm, which remain unquantized.
        (["--keep", "[wc]*", "--tensor", "l.*=int4", "--strict"], LAYER),
        (["--keep", "re:^[wc]", "--tensor", "re:l.0.bias$|l.1=int4"],
         {"l.0.weight": "int8", "l.1.weight": "int4"}),
        (["--keep", "re:^[wc]", "--tensor", "l.0.bias=int4"],
         {"l.0.weight": "int8", "l.1.weight": "int8", "l.0.bias": "int4"}),
        (["--min-size", "4608"], dict.fromkeys(("l.1.weight", "cube"), "int8")),
        (["--min-size", "4609"], {"l.1.weight": "int8"}),
        (["--min-size", "9999", "--tensor", "[wW]*=UInt8"],
         {"l.1.weight": "int8", "wide": "uint8"}),
    ],
)  # fmt: skip
def test_patterns_and_sizes_select_tensors(options, changed, model, capsys):
    """The last option with a matching pattern applies to a tensor. Only the complete name
    selects a vector."""
    quantize(model, "out.safetensors", "--type", "INT8", "--json", *options)
    rows = rows_of(capsys)[:-1]
    assert {row["tensor"]: row["to"] for row in rows if "kept" not in row} == changed


def test_a_summary(model, capsys):
    """-q prints no summary. test_cli_docs.py compares the summaries on the page."""
    quantize(model, "out.safetensors", "--type", "int8", "-q")
    assert capsys.readouterr() == ("", "")
    pq.write_weights("ones.safetensors", {"w": np.ones((40, 256), "f4")})
    quantize("ones.safetensors", "o.safetensors", "--type", "int8")  # without an error
    assert capsys.readouterr().out.endswith("; 40.0 KiB to 10.2 KiB\n")
    quantize(model, "o.safetensors", "--type", "int4", "--dry-run", "-f", "--keep", "wide")
    _, _, row, *_ = capsys.readouterr().out.splitlines()
    assert re.split("  +", row) == ["wide", "33x96", "float64", "kept", "--keep", "25344"]


# Errors


IN, Q8 = "in.safetensors", ("--type", "Q8_0")
TYPES = {
    "Q4_K_M": "did you mean Q4_K?",
    "int-8": "did you mean int8?",
    "fp8_e4m3fn": "did you mean float8_e4m3fn?",
    "zzz": "--help lists all types",
}


def nested_metadata():
    """Return a GGUF file with nested lists in its metadata. pyquant can read these lists,
    but not write them."""
    text = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    text += struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 9, 1)
    text += struct.pack("<IQII", 4, 2, 1, 2)
    text += struct.pack("<Q", 1) + b"w" + struct.pack("<IQQIQ", 2, 64, 32, 0, 0)
    return text + bytes(-len(text) % 32) + bytes(64 * 32 * 4)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["none", "out.npz"], "none: No such file or directory"),
        ([IN, "out.txt"], "OUT: expected a name that ends with .npy, .npz"),
        ([IN, "out.npy"], "OUT: expected .npz, for codes and scales, got"),
        ([IN, "out.gguf"], "--type: .gguf files cannot hold int8; use one of Q4_0, Q4_1"),
        ([IN, "no/out.npz"], "folder no does not exist"),
        ([IN, IN, "-f"], "OUT: expected another file than IN"),
        ([IN, "link.safetensors", "-f"], "OUT: expected another file than IN"),
        ([IN, "hard.safetensors", "-f"], "OUT: expected another file than IN"),
        ([IN, "there.npz"], "there.npz exists; use -f to overwrite it"),
        ([IN, "fifo.npz", "-f"], "fifo.npz is a FIFO, not a regular file; use another"),
        ([IN, "/dev/stdout", "--to", "npz", "-f", "--dry-run"],
         "/dev/stdout is a device, not a regular file; use another name"),
        (["fifo.npz", "o.npz"], "fifo.npz: expected a regular file, got a FIFO"),
        (["fifo.x", "o.npz"], "fifo.x: expected a regular file, got a FIFO"),
        (["fifo.index.json", "o.npz"], "fifo.npz: expected a regular file, got a FI"),
        (["fifo.x", "o.npz", "--from", "onnx"], "fifo.x: expected a regular file, got"),
        (["int8.npz", "o.npz"], "no tensor to quantize in int8.npz: the tensor is qu"
         "antized already (int8); use pyquant dequantize"),
        ([IN, "o.npz", "--keep", "x*"], "--keep: no tensor matches 'x*'"),
        ([IN, "o.npz", "--tensor", "*bias=int8"], "--tensor: expected a matrix that matc"),
        ([IN, "o.npz", "--tensor", "re:(=int8"], "--tensor: expected a regular"),
        ([IN, "o.npz", "--tensor", "wide"], "--tensor: expected PATTERN=TYPE[@G], got"),
        ([IN, "o.npz", "--tensor", "a=int9"], "--tensor: 'int9' is not a type; did"),
        ([IN, "o.npz", "--granularity", "row"], "--granularity: expected tensor,"),
        ([IN, "o.npz", "--granularity", "0x4"], "--granularity: expected tensor,"),
        ([IN, "o.npz", "--keep", "*"], f"no tensor to quantize in {IN}: "),
        ([IN, "o.npz", "--strict", "--granularity", "axis:2"],
         f"{IN}: tensor 'wide': expected at least 3 dimensions for axis:2, got shape"),
        ([IN, "o.npz", "--strict", "--tensor", "ids=int8"],
         f"{IN}: tensor 'ids': expected real numbers, got int64"),
        ([IN, "o.npz", "--max-memory", "500"],
         f"{IN}: tensor 'wide': expected --max-memory of at least 3K, got 1K for 1 row"),
        ([IN, "o.npz", "--method", "mse", "--granularity", "tensor",
          "--max-memory", "50000"],
         f"{IN}: tensor 'wide': expected --max-memory of at least 75K, got 49K for 33"),
        ([IN, "-", "--json"], "OUT: expected a file for --dry-run, --json and --rep"),
        ([IN, "-", "--to", "gguf"], "OUT: expected --to npy or npz for stdout, got"),
        (["nan.npy", "o.npz"], "nan.npy: tensor 'nan': expected finite values, got 1"),
        (["same.safetensors", "o.safetensors"], "expected names that no other tensor has"),
        (["late.safetensors", "o.npz"], "late.safetensors: tensor 'z': expected finite v"),
        (["q8.gguf", "o.safetensors", "--keep", "w"],
         "q8.gguf: tensor 'w': expected a type that .safetensors files have, got Q8_0"),
        (["nested.gguf", "o.gguf", "--type", "Q8_0"],
         "nested.gguf: metadata: expected strings, numbers or lists of them, got"),
        ([IN, "o.gguf", *Q8, "--granularity", "channel"],
         "quantize: --granularity: Q8_0 has its own blocks; omit the option\n"),
        ([IN, "o.gguf", *Q8, "--method", "mse"],
         "quantize: --method: Q8_0 has its own search; omit the option\n"),
        *(([IN, "o.npz", "--type", type], f"--type: {type!r} is not a type; {end}")
          for type, end in TYPES.items()),
        *(([f"name{n}.safetensors", "o.npz"], "expected a name") for n in range(3)),
    ],
)  # fmt: skip
def test_refused(arguments, said, model, weights, refused):
    if "onnx" in arguments:
        pytest.importorskip("onnx")  # optional
    os.symlink("in.safetensors", "link.safetensors")
    os.link("in.safetensors", "hard.safetensors")
    np.save("nan.npy", np.float32([[1, np.nan]]))
    np.savez("there.npz", a=np.ones(3))
    np.save("one.npy", np.float32([[1]]))
    quantize("one.npy", "int8.npz", "--type", "int8", "-q")
    os.mkfifo("fifo.npz")
    os.mkfifo("fifo.x")
    with open("fifo.index.json", "w") as index:
        json.dump({"weight_map": {"w": "fifo.npz"}}, index)
    wide = weights["wide"]
    pq.write_weights("same.safetensors", {"w": wide, "w_scale": np.ones(7)})
    pq.write_weights("late.safetensors", {"a": wide, "z": np.where(wide > 2, np.inf, wide)})
    pq.write_weights("q8.gguf", {"w": ("Q8_0", np.zeros((64, 34 * 32), np.uint8))})
    Path("nested.gguf").write_bytes(nested_metadata())
    for number, name in enumerate(("__pyquant__", "a\0b", "x" * 65533)):
        pq.write_weights(f"name{number}.safetensors", {name: wide})
    before = {p: os.stat(p).st_mtime_ns for p in os.listdir()}
    options = () if "--type" in arguments else ("--type", "int8")
    refused(said, "quantize", *arguments, *options)
    assert {p: os.stat(p).st_mtime_ns for p in os.listdir()} == before


@pytest.mark.parametrize("name", ["a\nb", "../up", "/etc/x", "\x1b[31mred", "</td>"])
def test_odd_names(name, here, capsys):
    x = np.random.default_rng(3).standard_normal((32, 64)).astype(np.float32)
    pq.write_weights("in.safetensors", {name: x, "b": x[0]})
    quantize("in.safetensors", "out.safetensors", "--type", "int8", "--dry-run")
    shown = capsys.readouterr().out
    assert shown.count("\n") == 4
    assert "\x1b" not in shown
    quantize("in.safetensors", "out.safetensors", "--type", "int8")
    with open_model("out.safetensors") as made:
        np.testing.assert_array_equal(logical(made)[name].codes(), int8(x))
    assert sorted(os.listdir()) == ["in.safetensors", "out.safetensors"]
    np.savez("in.npz", **{name: x})
    quantize("in.npz", "out.npz", "--type", "uint4")
    assert len(os.listdir()) == 4


def test_a_report(model, refused):
    pytest.importorskip("jinja2", reason="the report's templates are for it")
    options = ("--type", "int8", "--report", "out.html", "-q")
    quantize(model, "out.safetensors", *options)
    with open("out.html", encoding="utf-8") as file:
        text = file.read()
    assert all(name in text for name in REAL)
    assert "ids" not in text
    said = "out.html exists; use -f to overwrite it"
    refused(said, "quantize", model, "other.safetensors", *options)
    said = "--report: in.safetensors is an input or an output"
    refused(said, "quantize", model, "o.npz", "--type", "int8", "--report", model, "-f")
    assert not os.path.exists("o.npz")
    assert not os.path.exists("other.safetensors")


# Interruptions and exit status


def test_a_full_disk(here, weights):
    pq.write_weights("in.safetensors", {"w": np.ones((1 << 10, 1 << 10), np.float32)})

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19))

    options = ("--type", "int8", "--min-size", "1")
    run = program(
        "quantize", "in.safetensors", "out.safetensors", *options, preexec_fn=limit
    )
    assert run.returncode == 3
    assert run.stderr == "pyquant quantize: out.safetensors: File too large\n"
    assert os.listdir() == ["in.safetensors"]


def test_memory_does_not_depend_on_the_number_of_tensors(here):
    x = np.random.default_rng(9).standard_normal((1100, 1024)).astype(np.float32)
    peaks = []
    for count in (2, 24):
        pq.write_weights("in.safetensors", dict.fromkeys(map(str, range(count)), x))
        files = ("in.safetensors", "out.safetensors", "-f")
        call = partial(quantize, *files, "--type", "int8", "--keep", "1")
        peaks.append(peak_of(call)[1])
    assert peaks[1] < peaks[0] + (2 << 20)
    quantize(
        "in.safetensors", "q.safetensors", "--type", "uint8", "--granularity", "block:4"
    )

    def read():
        assert main(["dequantize", "q.safetensors", "d.safetensors", "-q"]) == 0
        with open_model("q.safetensors") as made:
            for tensor in logical(made).values():
                assert tensor.params()[0].nbytes == x.nbytes // 4

    assert peak_of(read)[1] < 3 * x.nbytes
    with open_model("out.safetensors") as made:  # the arrays need several reads, or bands
        np.testing.assert_array_equal(made["1"].dequantize(), x)
        np.testing.assert_array_equal(logical(made)["0"].codes(), int8(x))


def test_memory_for_each_tensor(here):
    """Each command needs less than 2100 bytes for each additional small tensor."""
    commands = (
        "quantize in.safetensors o.safetensors --type int8 --min-size 1 -qf",
        "dequantize o.safetensors d.safetensors -qf",
        "inspect o.safetensors",
        "quantize in.safetensors o.npz --type int8 --min-size 1 -qf",
        "dequantize o.npz d.npz -qf",
        "inspect o.npz",
    )
    x, peaks = np.ones((2, 8), np.float32), {}
    # exclude old objects: if there are many, Python delays the collection of cycles
    gc.collect()
    gc.freeze()
    for count in (20, 280, 600):  # not measured: the first commands, which import modules
        names = (f"model.layers.{i}.weight" for i in range(count))
        pq.write_weights("in.safetensors", dict.fromkeys(names, x))
        for command in commands:
            status, peaks[command, count] = peak_of(partial(main, command.split()))
            assert status == 0
    gc.unfreeze()
    grown = {c: (peaks[c, 600] - peaks[c, 280]) // 320 for c in commands}
    assert max(grown.values()) < 2100, grown


def test_the_same_bytes_with_threads(here):
    x = np.random.default_rng(8).standard_normal((3000, 2048)).astype(np.float32)
    pq.write_weights("in.safetensors", {"w": x})
    for type, name in (("int8", "o.safetensors"), ("Q8_0", "o.gguf")):
        quantize("in.safetensors", name, "--type", type, "-q")
        wanted = Path(name).read_bytes()
        quantize("in.safetensors", name, "--type", type, "-qf", "--threads", "2")
        assert Path(name).read_bytes() == wanted


def test_every_pair_of_kinds(here, weights):
    x = weights["l.1.weight"].astype(np.float32)
    np.save("in.npy", x)
    np.savez("in.npz", **{"in": x})
    pq.write_weights("in.safetensors", {"in": x})
    pq.write_weights("in.gguf", {"in": x})
    kinds = ("npy", "npz", "safetensors", "gguf")
    for before, after in product(kinds, kinds[1:]):
        type = "Q8_0" if after == "gguf" else "int8"
        quantize(f"in.{before}", f"out.{after}", "--type", type, "-fq")
        with open_model(f"out.{after}") as made:
            (found,) = logical(made).values()
            assert (found.name, found.type) == ("in", type)
            assert main(["compare", "--exact", f"in.{before}", f"out.{after}"]) == 0
            if type == "int8":
                np.testing.assert_array_equal(found.codes(), int8(x))
