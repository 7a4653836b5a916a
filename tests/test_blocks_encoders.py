"""Test the oracles of GGUF blocks with results of ggml and gguf, and with examples."""

import math
from hashlib import sha256
from pathlib import Path

import blocks_encoders
import blocks_oracle
import numpy as np
import pytest
from blocks_encoders import encode
from blocks_oracle import DECODERS, FORMATS, GRID, GRIDS, IQ4_LEVELS
from conformance import ggml
from support import is_nan, loop

# The first 8 bytes of the SHA-256 of the blocks that ggml 0.25.3 encodes from
# weighted_data(). The functions of ggml are quantize_row_*_ref, quantize_* with an
# importance matrix, and quantize_iq4_nl without an importance matrix. ggml was compiled for
# x86-64 without fused multiply-add.
GGML = {
    "Q4_0": "3acc79ad53168b2e",
    "Q4_1": "328719c77224e49f",
    "Q5_0": "9a298022daac4e7f",
    "Q5_1": "bf71bf818582fa86",
    "Q8_0": "64711060103e9b75",
    "Q8_1": "ad9024eb0206baeb",
    "Q8_K": "c39561f467f98332",
    "Q1_0": "c966be8a34a94b6d",
    "Q2_0": "ddca5a96dcb58ad6",
    "TQ1_0": "cc5549b8e7598aa2",
    "TQ2_0": "63e2ac0d4f40e5b8",
    "MXFP4": "1c90c20abfefc760",
    "NVFP4": "4503ae023854e453",
    "Q2_K": "82c52ddafbf5997e",
    "Q3_K": "b3cca1b6bdcf4b2b",
    "Q4_K": "5d24ea0a5a8880ca",
    "Q5_K": "90bb5da0e1e2e9d7",
    "Q6_K": "c8b5becc111311d9",
    "IQ4_NL": "dad73c41a3bfcdcc",
    "IQ4_XS": "d1947301c24f9892",
    "Q4_0 weights": "9e7cb415a3d5c864",
    "Q4_1 weights": "e0efb5ee63febde2",
    "Q5_0 weights": "9b97f7161e5adf7e",
    "Q5_1 weights": "256898bccfdf27aa",
    "Q2_K weights": "ba6bff21ba3a0d15",
    "Q3_K weights": "8396e6044d840456",
    "Q4_K weights": "d5a2f35864b0bda5",
    "Q5_K weights": "2b755af1215f53e2",
    "Q6_K weights": "25209fe4389534c4",
    "IQ4_NL weights": "85399196e13dd9fa",
    "IQ4_XS weights": "fc51926dbc291242",
    "IQ4_NL search": "3bbb7fcd9f322bb4",
}


def data(kind, count):
    """Return rows of 256 numbers. `kind` selects the formula. No number is -0."""
    random = np.random.default_rng(11)
    x = random.standard_normal(256 * count)
    spread = random.integers(-100, 10, count).repeat(256)
    x = {
        "normal": x,
        "bfloat16": np.round(x * 64) / 64,
        "ties": random.integers(-32, 33, x.size) / 8,
        "zeros": np.where(random.random(x.size) < 0.5, 0, x)
        * (random.random(x.size // 32) < 0.7).repeat(32),
        "positive": np.abs(x) + 0.5,
        "wide": np.ldexp(x, random.integers(-24, 8, x.size)),
        "scaled": np.ldexp(x, spread),
    }[kind]
    return (x.reshape(count, 256) + 0.0).astype(np.float32)


KINDS = ("normal", "bfloat16", "ties", "zeros", "positive", "wide", "scaled")


BY_GGUF = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")


@loop("name, kind", BY_GGUF, KINDS)
def test_against_gguf(name, kind):
    gguf = pytest.importorskip("gguf")  # optional; the judge
    x = data(kind, 200)
    with np.errstate(all="ignore"):
        expected = gguf.quants.quantize(x, gguf.GGMLQuantizationType[name])
    assert np.array_equal(encode(name, x), expected)


def test_bf16_against_gguf():
    gguf = pytest.importorskip("gguf")  # optional; the judge
    bits = np.random.default_rng(5).integers(0, 2**32, (4, 2**16), np.uint32)
    x = bits.view(np.float32)
    expected = gguf.quants.quantize(x, gguf.GGMLQuantizationType.BF16)
    assert np.array_equal(blocks_encoders.bf16(x), expected.view(np.uint16))
    nan = np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32)
    assert blocks_encoders.bf16(nan).tolist() == [0x7FC0, 0xFFFF]


def test_scales_of_nvfp4_against_gguf():
    """The oracle encodes scales of NVFP4 to the bytes of the package gguf."""
    values = np.geomspace(1e-4, 1e3, 20001).astype(np.float32)
    values = np.concatenate([values, np.arange(0, 500, 0.125, np.float32)])
    got = blocks_encoders.ue4m3_code(values)
    gguf = pytest.importorskip("gguf")  # optional; the judge
    assert np.array_equal(got, gguf.quants.NVFP4.fp32_to_ue4m3(values))


def scrambled(count):
    """Return 32-bit hashes of the integers 1 to `count`."""
    h = np.arange(1, count + 1, dtype=np.uint64) * 2654435761 % 2**32
    h = (h ^ h >> 15) * 2246822519 % 2**32
    h = (h ^ h >> 13) * 3266489917 % 2**32
    return (h ^ h >> 16).astype(np.int64)


def weighted_data():
    """Return rows for the digests above, and weights. The rows have numbers of many
    magnitudes, numbers of few digits, or zeros.

    float32 holds all numbers exactly. One weight in four is 0.
    """
    h = scrambled(96 * 512)
    fine, exponents = (h & 0xFFFF) - 32768, -15 - (h >> 16 & 15) * (h >> 20 & 1)
    coarse = (h >> 10 & 63) - 32
    x = np.where(np.arange(h.size) % 1024 < 512, np.ldexp(fine, exponents), coarse / 16)
    x = x.astype(np.float32)
    x[:256] = 0
    h = scrambled(1024)[512:]
    weights = np.where(h >> 20 & 3, np.ldexp(h % 1024 + 1, -8), 0).astype(np.float32)
    return x.reshape(96, 512), weights


@loop("form", GGML)
def test_as_ggml(form):
    name, _, how = form.partition(" ")
    x, weights = weighted_data()
    options = {"weights": {"weights": weights}, "search": {"search": True}}.get(how, {})
    # skip the first row of zeros, because ggml leaves its codes uninitialized
    rows = slice(form == "IQ4_NL", None)
    got = encode(name, x[rows], **options)
    assert sha256(got).hexdigest()[:16] == GGML[form]


def test_powers_of_mxfp4():
    """The exponent of MXFP4 is the floor of a float32 logarithm. Just below a power of two,
    the logarithm rounds up to the exponent of the power."""
    powers = np.ldexp(np.float32(1), np.arange(-124, 128)).astype(np.float32)
    steps = np.arange(-50, 3, dtype=np.int32)
    values = (powers.view(np.int32)[:, None] + steps).ravel().view(np.float32)
    logarithms = np.array([math.log2(v) for v in values]).astype(np.float32)
    x = np.zeros((values.size, 32), np.float32)
    x[:, 5] = values
    assert np.array_equal(encode("MXFP4", x)[:, 0], np.floor(logarithms) + 125)
    assert (np.floor(logarithms) > np.floor(np.log2(values.astype(float)))).sum() > 1000
    x[:, 5] = 2.0**-126
    assert not encode("MXFP4", x)[:, 0].any()
    assert not encode("MXFP4", x * 0).any()


def test_ties_of_iq4():
    """The oracle encodes a number halfway between two levels to the upper level."""
    levels = IQ4_LEVELS.astype(np.float32)
    assert blocks_encoders.iq4_codes(levels).tolist() == list(range(16))
    middle = (levels[1:] + levels[:-1]) / 2
    assert blocks_encoders.iq4_codes(middle).tolist() == list(range(1, 16))
    below = np.nextafter(middle, np.float32(-200))
    assert blocks_encoders.iq4_codes(below).tolist() == list(range(15))
    assert blocks_encoders.iq4_codes(np.float32([-1e9, 1e9])).tolist() == [0, 15]


def test_conformance_files_are_current():
    for name, text in ggml.files().items():
        assert (Path(ggml.__file__).parent / name).read_text("utf-8") == text


def decoded(name, text):
    data = np.frombuffer(bytes.fromhex(text), np.uint8)
    return DECODERS[name](data.reshape(-1, FORMATS[name][2])).ravel()


def test_fields_fill_each_block():
    """The class Block raises an error if a field is missing or has a wrong size."""
    for name, (_, elements, size) in FORMATS.items():
        assert DECODERS[name](np.zeros((3, size), np.uint8)).shape == (3, elements)


@loop("name", GRIDS)
def test_grids_have_the_shape_of_the_format(name):
    """The entries of a grid are distinct, and contain each level of the type."""
    grid, (_, levels, elements) = GRID[name], GRIDS[name]
    assert grid.shape[1] == elements
    assert len(np.unique(grid, axis=0)) == len(grid)
    assert set(np.unique(grid)) == set(map(float, levels))


@loop("name", GRIDS)
def test_grids_are_ggmls(name):
    quants = pytest.importorskip("gguf.quants")  # skips the test without the package
    # The class is named IQ2_XXS if the grid is named iq2xxs.
    kind = getattr(quants, f"{name[:3]}_{name[3:]}".upper())
    kind.init_grid()
    assert np.array_equal(GRID[name], kind.grid.reshape(kind.grid_shape))


def test_by_hand():
    """The oracle decodes blocks written by hand, because no package decodes these types.
    Each block has the scale 4."""
    x = decoded("Q1_0", "0044" + "00" * 8 + "ff" * 8)
    assert x.tolist() == [-4.0] * 64 + [4.0] * 64
    x = decoded("Q1_0", "0044" + "01" + "00" * 14 + "80")
    assert np.flatnonzero(x > 0).tolist() == [0, 127]
    x = decoded("Q2_0", "0044" + "e4" + "55" * 15)
    assert x.tolist() == [-4, 0, 4, 8] + [0] * 60
    codes = "80ff00017f" + "00" * 27
    values = [-512, -4, 0, 4, 508] + [0] * 27
    assert decoded("Q8_1", "0044" + "ffff" + codes).tolist() == values
    sums = "ff" * 32
    assert decoded("Q8_K", "00008040" + codes * 8 + sums).tolist() == values * 8


def test_scales_of_nvfp4():
    """The scale 0x7F of NVFP4 decodes to 0. The scale 0xFF decodes to 240, because only the
    special case of 0x7F compares the sign bit."""
    scales = blocks_oracle.ue4m3(np.arange(256))
    assert scales[[0, 1, 8, 0x38, 0x7E, 0x7F]].tolist() == [0, 2**-10, 2**-7, 0.5, 224, 0]
    assert np.array_equal(scales[128:255], scales[:127])
    assert scales[255] == 240


def test_scales_of_mxfp4():
    """The bytes 0x00 and 0xFF of MXFP4 are ordinary scales, not NaN. Values of the largest
    scale exceed float32."""
    x = decoded("MXFP4", "ff" + "21" * 16 + "00" + "21" * 16)
    assert x[[0, 16, 32, 48]].tolist() == [2.0**127, 2.0**128, 2.0**-128, 2.0**-127]


@loop("name", FORMATS)
def test_random_blocks(name):
    """Random blocks decode to the values of the package gguf, rounded to float32."""
    gguf = pytest.importorskip("gguf")  # optional; the judge
    kind, elements, size = FORMATS[name]
    if name in ("Q8_1", "Q8_K", "Q1_0", "Q2_0"):
        return  # The package gguf has no decoder for these types.
    kind = gguf.GGMLQuantizationType(kind)
    assert (kind.name, *gguf.GGML_QUANT_SIZES[kind]) == (name, elements, size)
    data = np.random.default_rng(7).integers(0, 256, (1500, size), np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = gguf.quants.dequantize(data, kind)
        got = DECODERS[name](data).astype(np.float32)
    assert np.array_equal(is_nan(got), is_nan(expected))
    number = ~is_nan(got)
    assert np.array_equal(got[number].view("u4"), expected[number].view("u4"))
