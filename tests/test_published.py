"""Tests that commands decode published formats by tensor names or print an error."""

import io
import json
import re
from contextlib import chdir, redirect_stderr, redirect_stdout
from itertools import product
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from support import dtype_of

import pyquant as pq
from pyquant import weights
from pyquant.cli import _measure, main

E4M3, E8M0, BF16 = map(dtype_of, ("float8_e4m3fn", "float8_e8m0fnu", "bfloat16"))
ROWS, COLUMNS = 256, 320
X = np.random.default_rng(1).standard_normal((ROWS, COLUMNS)).astype(np.float32)
# The shape of a block that shares a scale, for each granularity.
BLOCKS = {
    "128x128": (128, 128),
    "axis:0": (1, COLUMNS),
    "block:32": (1, 32),
    "tensor": (ROWS, COLUMNS),
}


pytestmark = pytest.mark.usefixtures("here")


def by_hand(blocks):
    """Return codes, scales of blocks, and the values of the codes."""
    rows, columns = (np.arange(n) // b for n, b in zip(X.shape, blocks, strict=True))
    scale = np.exp2(-(rows[:, None] % 5) - columns % 3.0).astype(np.float32)
    codes = (X / scale).astype(E4M3)
    return codes, scale[:: blocks[0], :: blocks[1]], codes.astype(np.float32) * scale


def run(*arguments, status=0):
    assert main([*map(str, arguments)]) == status


def error(capsys, *arguments):
    """Return the message of a command that fails."""
    run(*arguments, status=2)
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    return err.removeprefix(f"pyquant {arguments[0]}: m.safetensors: ").rstrip("\n")


SPELLINGS = {
    "weight_scale": "weight",
    "weight_scale_inv": "weight",
    "scale": "weight",
    "scale_weight": "weight",
    "qscale_weight": "weight",
    "weights_scaling_factor": "weight",
    "weight._scale": "weight._data",
    "_weight_scale": "_weight_qdata",
}


@pytest.mark.parametrize(
    ("spelling", "blocks", "dtype"),
    [
        *product([*SPELLINGS][1:], ["128x128"], ["f4"]),
        *product(["weight_scale"], BLOCKS, ["f4", "f2", BF16, E8M0, "u1"]),
    ],
    ids=str,
)
def test_float8_codes_are_decoded_with_their_scale(spelling, blocks, dtype, capsys):
    codes, scale, values = by_hand(BLOCKS[blocks])
    stored = scale.astype(E8M0).view("u1") if dtype == "u1" else scale.astype(dtype)
    if scale.size == 1:
        stored = stored.reshape(())
    tensors = {f"a.{SPELLINGS[spelling]}": codes, f"a.{spelling}": stored}
    if spelling == "weight_scale":
        tensors["a.comfy_quant"] = np.frombuffer(b'{"format": "float8_e4m3fn"}', "u1")
    marker = {"scaled_fp8": np.zeros(2, E4M3)} if spelling == "scale_weight" else {}
    pq.write_weights("m.safetensors", tensors | marker)
    pq.write_weights("x.safetensors", {"a.weight": values, **marker})
    run("inspect", "--json", "m.safetensors")
    facts = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (facts["tensor"], facts["granularity"]) == ("a.weight", blocks)
    assert facts["parts"] == [*tensors]
    given = pq.open_weights("m.safetensors")
    for name in ("a", "a.weight"):
        np.testing.assert_array_equal(
            pq.weights.from_tensors(given, name).dequantize(), values
        )
    run("dequantize", "m.safetensors", "y.safetensors")
    assert [*pq.open_weights("y.safetensors")] == ["a.weight"]
    np.testing.assert_array_equal(pq.open_weights("y.safetensors")["a.weight"], values)
    run("compare", "--exact", "--tensor=a.weight", "y.safetensors", "x.safetensors")
    outputs = (("q.safetensors", "int8"), ("q.gguf", "Q8_0"))
    for out, type in outputs[: 1 if marker else 2]:  # GGUF has no float8 type
        for name in ("m.safetensors", "x.safetensors"):
            run("quantize", "-qf", name, f"{name[0]}.{out}", "--type", type)
        found, expected = (pq.open_weights(f"{name}.{out}") for name in "mx")
        assert [*found] == [*expected]
        for name in found:
            np.testing.assert_array_equal(found[name].raw, expected[name].raw)


def test_float8_codes_without_a_scale_are_refused(capsys):
    """Reject float8 codes without a scale, but with --raw, treat the codes as values."""
    pq.write_weights("m.safetensors", {"a.weight": X.astype(E4M3), "b": X})
    pq.write_weights("x.safetensors", {"a.weight": X.astype(E4M3).astype("f4"), "b": X})
    expected = "a.weight: float8 codes without a scale; expected a.weight_scale or "
    expected += "a.weight_scale_inv; use --raw to treat codes as values"
    files = ["m.safetensors", "q.safetensors"]
    assert error(capsys, "quantize", *files, "--type", "int8") == expected
    assert error(capsys, "dequantize", *files) == expected
    assert error(capsys, "compare", "m.safetensors", "x.safetensors") == expected
    run("inspect", "--check", "m.safetensors", status=1)
    assert expected in capsys.readouterr().out
    run("compare", "--raw", "--exact", "x.safetensors", "m.safetensors")
    run("inspect", "--raw", "--check", "m.safetensors")
    keep = ["--keep", "a.weight"]
    run("quantize", "-q", *files, "--type", "int8", *keep)
    for name in "mx":
        run(
            "quantize", "-qf", f"{name}.safetensors", f"{name}.gguf", "--type=Q8_0", "--raw"
        )
    found, expected = (pq.open_weights(f"{name}.gguf")["a.weight"].raw for name in "mx")
    np.testing.assert_array_equal(found, expected)


WORDS, BYTES = np.zeros((64, 256), "i4"), np.zeros((64, 256), "u1")
HALF, E8 = np.ones((64, 256), "f2"), np.ones((64, 256), E8M0)
# Names that no format uses: the name of the codes, the type, and names of the scale.
UNREAD = (
    ("weight", "int8", "scales", "scale", "weight_scales", "scale_weight"),
    ("weight", "uint8", "weight.scale", "SCB", "weight_scale_inv"),
    ("weight", "int16", "weight_scale", "weights_scaling_factor"),
    ("weight", "float8_e4m3fn", "scales"),
    ("qweight", "int8", "scales", "weight_scales"),
    ("qweight", "int16", "scales"),
    ("qweight", "int64", "scale"),
    ("weight_packed", "int32", "scale_packed"),
    ("weight_packed", "uint32", "weight_scales"),
    ("W_q", "uint8", "scale"),
    ("weight._data", "int8", "weight._scale"),
    ("_weight_qdata", "int8", "_weight_scale"),
    ("experts.0.weight", "uint8", "experts.0.absmax"),
)
NVFP4 = {"a.weight": BYTES, "a.weight_scale": np.ones((64, 32), E4M3)}


def refusal(tensors):
    """Write tensors to a file, run several commands, and raise the error that all print."""
    output = io.StringIO()
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(output):
        pq.write_weights("m.safetensors", tensors)
        said, commands = set(), ("quantize --type=int8", "dequantize", "compare")
        for command in commands:
            end = "m.safetensors" if command == "compare" else "q.safetensors"
            name, *options = command.split()
            with redirect_stderr(io.StringIO()) as errors:
                run(name, "m.safetensors", end, *options, status=2)
            said.add(errors.getvalue().removeprefix(f"pyquant {name}: m.safetensors: "))
        assert output.getvalue() == ""
        (message,) = said
        run("inspect", "m.safetensors")
        run("inspect", "--check", "m.safetensors", status=1)
        assert output.getvalue().count(message) == 1
        run("compare", "--raw", *["m.safetensors"] * 2)
    raise ValueError(message.removesuffix("\n"))


def in_unread_formats():
    """Yield tensors that commands must reject, and the format or scale in the message."""
    for name, codes, value, scale in (
        ("Marlin 2:4", "B_24", WORDS, "s"),
        ("QQQ", "B", WORDS, "s_channel"),
        ("QQQ", "qweight", WORDS, "s_channel"),
        ("SqueezeLLM", "qweight", WORDS, "lookup_table"),
        ("SVDQuant", "qweight", BYTES.view("i1"), "wscales"),
    ):
        yield f"a.{codes}", {f"a.{codes}": value, f"a.{scale}": HALF}, name
    for codes, kind, *scales in UNREAD:
        for scale in scales:
            rest = dict.fromkeys((f"{kind}.{scale}", f"{kind}.zero"), HALF)
            made = {f"{kind}.{codes}": BYTES.astype(dtype_of(kind)), **rest}
            yield f"{kind}.{codes}", made, f"its scale is {kind}.{scale}"


@pytest.mark.parametrize(
    ("name", "tensors", "why"),
    [*in_unread_formats()],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_quantized_weights_are_not_quantized_again(name, tensors, why):
    said = f"{name} is quantized already ({why}); pyquant does not read this format"
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        refusal(tensors)


def in_formats():
    """Yield a weight in each format that can store it, and settings of config.json."""
    x = np.random.default_rng(2).integers(-7, 8, (64, 96)).astype("f4") / 8
    scales, mixed = np.full((3, 64), 0.125, "f2"), np.arange(96, dtype="i4") * 7 % 3
    gptq, points = weights.gptq, np.random.default_rng(3).integers(5, 11, (3, 64))
    words = weights.compressed_tensors
    yield "gptq", gptq.pack(x, scales, np.full((3, 64), 8), bits=4, format="gptq"), None
    how = {"bits": 8, "format": "gptq_v2"}
    config = {"checkpoint_format": "gptq_v2"}
    yield "gptq", gptq.pack(x, scales, points + 90, mixed, **how), config
    yield "awq", weights.awq.pack(x, scales, points), None
    yield "mlx", weights.mlx.quantize(x, group_size=32), {"group_size": 32, "bits": 4}
    yield "compressed_tensors", words.quantize(x, bits=3, group_size=32), None
    made = words.quantize(x, bits=5, group_size=24, symmetric=False)
    yield "compressed_tensors", made, {"group_size": 24}
    mixed = {"weight_g_idx": mixed, **words.quantize(x, group_size=32).tensors()}
    yield "compressed_tensors", weights.from_tensors(mixed), None
    bitsandbytes = weights.bitsandbytes
    yield "bitsandbytes", bitsandbytes.quantize(x, nested=True), None
    rows = {"weight": np.arange(64 * 96).reshape(64, 96).astype("i1")}
    rows["SCB"] = np.arange(64, dtype="f4")
    yield "bitsandbytes", bitsandbytes.from_tensors(rows), None
    yield "mx", weights.mx.quantize(x, "float4_e2m1fn"), None
    for like in ("torchao", "compressed_tensors"):
        yield "nvfp4", weights.nvfp4.quantize(x, like=like), None


@pytest.mark.parametrize(("format", "made", "config"), [*in_formats()])
def test_weights_of_every_format_are_read(format, made, config, capsys, monkeypatch):
    """Read the values that `pyquant.weights` returns, a few rows at a time."""
    monkeypatch.setattr(_measure, "BAND", 1000)
    tensors, values = made.tensors("a"), made.dequantize()
    pq.write_weights("m.safetensors", {**tensors, "b": X})
    pq.write_weights("x.safetensors", {"a.weight": values, "b": X})
    if config is not None:
        assert error(capsys, "dequantize", "m.safetensors", "y.npz").startswith("a.")
        with open("config.json", "w") as file:
            json.dump({"quantization_config": config}, file)
    run("inspect", "--json", "m.safetensors")
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (facts,) = (row for row in rows if row.get("tensor") == "a.weight")
    assert (facts["type"], facts["shape"]) == (made.format, [64, 96])
    assert facts["granularity"] == f"block:{made.block_size}"
    assert facts["bytes"] == sum(one.nbytes for one in tensors.values())
    assert {*facts["parts"]} == {*tensors}
    run("inspect", "--check", "m.safetensors")
    run("compare", "--exact", "m.safetensors", "x.safetensors")
    options = ["--max-memory", "8K", "--type", "float16"]
    run("dequantize", "m.safetensors", "y.safetensors", *options)
    found = pq.open_weights("y.safetensors")
    assert {*found} == {"a.weight", "b"}
    np.testing.assert_array_equal(found["a.weight"], made.dequantize(dtype="f2"))
    for name in "mx":
        run("quantize", "-q", f"{name}.safetensors", f"{name}.gguf", "--type", "Q8_0")
    run("compare", "--exact", "m.gguf", "x.gguf")


def test_a_vector_of_a_format_is_read(capsys):
    made = weights.bitsandbytes.quantize(X[0])
    pq.write_weights("m.safetensors", made.tensors("a"))
    pq.write_weights("x.safetensors", {"a.weight": made.dequantize()})
    run("compare", "--exact", "m.safetensors", "x.safetensors")
    run("dequantize", "-q", "m.safetensors", "y.npy")
    np.testing.assert_array_equal(np.load("y.npy"), made.dequantize())


@pytest.mark.parametrize("format", ["awq", "gptq_v2", "gptq_p", "compressed_tensors"])
@pytest.mark.parametrize("source", ["gptq", "awq", "int4", "Q4_0"])
def test_convert_keeps_every_value(source, format, capsys):
    """Convert a file to a format and back to Q4_0. Plain tensors are copied."""
    x = np.random.default_rng(2).standard_normal((64, 96)).astype("f4")
    scales, zeros = np.full((3, 64), 0.25, "f2"), np.full((3, 64), 8)
    layers = {
        "gptq": lambda: weights.gptq.pack(x, scales, zeros, bits=4, format="gptq"),
        "awq": lambda: weights.awq.pack(x, scales, zeros),
    }
    layers["Q4_0"] = layers["gptq"]
    plain = {"b": X, "v": X[0]}
    if source == "int4":
        pq.write_weights("x.safetensors", {"a.weight": x.astype("f2"), **plain})
        how = ("--type=int4", "--granularity=group:32", "--keep=b", "--max-memory=9K")
        run("quantize", "x.safetensors", "m.safetensors", *how)
    else:
        pq.write_weights("m.safetensors", {**layers[source]().tensors("a"), **plain})
    if source == "Q4_0":
        run("convert", "m.safetensors", "m.gguf", "--format=q4_0")
        run("convert", "m.gguf", "z.gguf", "--format=Q8_0", status=2)
    name = "m.gguf" if source == "Q4_0" else "m.safetensors"
    same = (source, format) in (("awq", "awq"), ("int4", "compressed_tensors"))
    run("convert", name, "y.safetensors", "--format", format, status=2 * same)
    if same:
        said = f"no weights to convert in {name}: already {format}; not quantized\n"
        assert capsys.readouterr().err.endswith(said)
        return
    assert "1 of 3 tensors are" in capsys.readouterr().out
    run("compare", "--exact", name, "y.safetensors")
    found = pq.open_weights("y.safetensors")
    made = weights.from_tensors(found, "a.weight", format)
    assert made.format == format
    assert {*found} == {*made.tensors("a"), *plain}
    if source != "int4":  # the scales of int4 exceed float16
        run("convert", "y.safetensors", "z.gguf", "--format", "Q4_0", "--tensor", "a.*")
        values = pq.open_weights("z.gguf")["a.weight"].dequantize()
        np.testing.assert_array_equal(values, made.dequantize())


@pytest.mark.parametrize(
    ("kind", "type", "format", "said"),
    [
        ("safetensors", "int8", "awq", "convert does not read int8 codes (quantize the "
         "original file with --type int4)"),
        ("gguf", "Q4_K", "Q8_0", "convert does not change Q4_K to Q8_0 (use quantize)"),
    ],
)  # fmt: skip
def test_convert_explains_why_it_reads_no_weight(kind, type, format, said, capsys):
    pq.write_weights("x.safetensors", {"a": np.zeros((64, 256), np.float32)})
    run("quantize", "-q", "x.safetensors", f"q.{kind}", "--type", type)
    said = f"pyquant convert: no weights to convert in q.{kind}: {said}"
    assert error(capsys, "convert", f"q.{kind}", f"y.{kind}", "--format", format) == said
    if kind == "gguf":
        run("quantize", "-q", "q.gguf", "y.gguf", "--type", format)
        said = "'a': expected a type that .safetensors files have, got Q4_K; use pyquant "
        message = error(capsys, "convert", "q.gguf", "y.safetensors", "--format=awq")
        assert message.endswith(f"{said}dequantize first")


def test_convert_keeps_the_records_of_other_tensors():
    x = X[:64, :96].astype("f2")
    pq.write_weights("x.safetensors", {"a.weight": x, "c.weight": x[::-1]})
    options = ("--type", "int4", "--granularity", "group:32")
    run("quantize", "-q", "x.safetensors", "q.safetensors", *options)
    run("convert", "q.safetensors", "y.safetensors", "--format=awq", "--tensor=a.weight")
    records = json.loads(pq.open_weights("y.safetensors").metadata["pyquant"])
    assert [*records] == ["c.weight", "c.weight_packed"]
    run("compare", "--exact", "--tensor=c.*", "x.safetensors", "y.safetensors")
    run("compare", "--exact", "q.safetensors", "y.safetensors")


@pytest.mark.parametrize(
    ("out", "options", "said"),
    [
        ("y.safetensors", ["--format=gpq"], "--format: 'gpq' is no format of .safetensors "
         "files; did you mean gptq?"),
        ("y.gguf", ["--format=awq"], "--format: 'awq' is no format of .gguf files; use one "
         "of Q4_0, Q4_1, Q8_0"),
        ("y.npz", ["--format=awq"], "OUT: expected .safetensors or .gguf, got 'y.npz'"),
        ("y.safetensors", ["--format=awq"], "tensor 'a.weight': expected codes of 4 bits "
         "for AWQ, got 3"),
        ("y.safetensors", ["--format=gptq", "--tensor=b"], "no weights to convert in "
         "m.safetensors: not selected by --tensor; not quantized"),
    ],
)  # fmt: skip
def test_convert_refuses(out, options, said, capsys):
    made = weights.compressed_tensors.quantize(X, bits=3, group_size=32)
    pq.write_weights("m.safetensors", {**made.tensors("a"), "b": X})
    said = said if said.startswith("tensor") else f"pyquant convert: {said}"
    assert error(capsys, "convert", "m.safetensors", out, *options) == said


@pytest.mark.parametrize(
    ("shape", "scales", "config", "granularity"),
    [
        ((192, 128), (2, 1), None, "128x128"),
        ((448, 960), (4, 8), None, "128x128"),
        ((1984, 576), (16, 5), None, "128x128"),
        ((8, 159), (8, 2), None, "block:128"),
        ((8, 48), (8, 2), {"group_size": 24}, "block:24"),
        ((8, 48), (8, 2), {"group_size": 32}, "block:32"),
        ((8, 160), (8, 2), {"group_size": 96}, "block:96"),
        ((8, 160), (8, 1), {"group_size": 32}, "axis:0"),
        ((8, 192), (8, 2), {"config_groups": [{"w": {"group_size": 96}}]}, "block:96"),
        ((100, 300), (2, 3), {"weight_block_size": [96, 120]}, "96x120"),
        ((4, 1100), (4, 8), {"group_size": 144}, "block:144"),
        (
            (1, 512),
            (1, 4),
            {"weight_block_size": [96, 128], "group_size": 128},
            "block:128",
        ),
        ((64, 32), (64, 1), {"group_size": 128, "a": {"group_size": 32}}, "axis:0"),
        ((3, 64, 96), (3, 2, 3), None, "32x32"),
        ((64,), (), None, "tensor"),
        ((64,), (1,), None, "tensor"),
        ((64,), (2,), None, "block:32"),
    ],
    ids=str,
)
def test_block_sizes_are_derived_or_stated(shape, scales, config, granularity, capsys):
    """Infer a block size that is a power of two, or use a fitting size of config.json."""
    codes = np.ones(shape, "i1")
    scale = np.arange(1, np.prod(scales) + 1, dtype="f4").reshape(scales)
    pq.write_weights("m.safetensors", {"w": codes, "w_scale": scale})
    if config is not None:
        with open("config.json", "w") as file:
            json.dump({"quantization_config": config}, file)
    run("inspect", "--json", "m.safetensors")
    facts = json.loads(capsys.readouterr().out.splitlines()[0])
    assert facts["granularity"] == granularity
    run("dequantize", "-q", "m.safetensors", "y.safetensors")
    sizes = (
        granularity.replace("tensor", "64")
        .replace("axis:0", "160")
        .removeprefix("block:")
        .split("x")
    )
    sizes = [1] * (len(shape) - len(sizes)) + [int(size) for size in sizes]
    scale = scale.reshape(scales or 1)
    index = np.ix_(*(np.arange(n) // size for n, size in zip(shape, sizes, strict=True)))
    np.testing.assert_array_equal(pq.open_weights("y.safetensors")["w"], scale[index])


@pytest.mark.parametrize(
    ("shape", "scales", "config", "sizes"),
    [
        ((8, 160), (8, 2), {"group_size": 32}, ("1x32", "1 x 80 or 128")),
        ((192, 128), (2, 1), {"weight_block_size": [64, 64]}, ("64x64", "128 x 128")),
    ],
)
def test_scales_that_contradict_the_stated_size_are_an_error(
    shape, scales, config, sizes, capsys
):
    tensors = {"w": np.ones(shape, "i1"), "w_scale": np.ones(scales, "f4")}
    pq.write_weights("m.safetensors", tensors)
    with open("config.json", "w") as file:
        json.dump({"quantization_config": config}, file)
    assert error(capsys, "dequantize", "m.safetensors", "y.safetensors") == (
        f"w: expected blocks of {sizes[0]}, which config.json or the metadata states, got "
        f"scales of shape {scales} for shape {shape}, which fit blocks of {sizes[1]}"
    )


@pytest.mark.parametrize(
    "text", ["{", "[" * 9999, "[1, null]", '{"group_size": [0]}', "\xff"]
)
def test_a_configuration_without_sizes_is_ignored(text, capsys):
    scale = np.ones((8, 2), "f4")
    pq.write_weights("m.safetensors", {"w": np.ones((8, 159), "i1"), "w_scale": scale})
    with open("config.json", "w", encoding="latin-1") as file:
        file.write(text)
    run("inspect", "--json", "m.safetensors")
    assert '"granularity": "block:128"' in capsys.readouterr().out


def test_integers_that_are_no_codes_pass():
    """Copy integers unchanged if a scale in the file belongs to a different tensor."""
    pairs = (
        ("bn.num_batches_tracked", "bn.scale"),
        ("attn.relative_position_index", "attn.logit_scale"),
        ("position_ids", "logit_scale"),
        ("a.weight_fake_quant.zero_point", "a.weight_fake_quant.scale"),
        ("b.weight", "c.scale"),
    )
    words, scales = zip(*pairs, strict=True)
    tensors = dict.fromkeys(words, WORDS.astype("i8")) | dict.fromkeys(scales, HALF)
    pq.write_weights("m.safetensors", tensors)
    run("quantize", "-q", "m.safetensors", "q.safetensors", "--type", "int8")
    run("inspect", "--check", "m.safetensors")
    made = pq.open_weights("q.safetensors")
    for codes, scale in pairs:
        assert (made[codes].format, made[scale].format) == ("I64", "I8")
