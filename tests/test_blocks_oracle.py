"""The oracle of GGUF blocks, compared with worked examples and with the gguf package."""

import blocks_oracle
import numpy as np
import pytest
from blocks_oracle import DECODERS, FORMATS, GRID, GRIDS
from support import is_nan, loop


def decoded(name, text):
    data = np.frombuffer(bytes.fromhex(text), np.uint8)
    return DECODERS[name](data.reshape(-1, FORMATS[name][2])).ravel()


def test_fields_fill_each_block():
    """Block raises an error for a missing field and for a field of a wrong size."""
    for name, (_, elements, size) in FORMATS.items():
        assert DECODERS[name](np.zeros((3, size), np.uint8)).shape == (3, elements)


@loop("name", GRIDS)
def test_grids_have_the_shape_of_the_format(name):
    """Entries are distinct, and larger types use every level."""
    grid, (_, levels, elements) = GRID[name], GRIDS[name]
    assert grid.shape[1] == elements
    assert len(np.unique(grid, axis=0)) == len(grid)
    assert set(np.unique(grid)) == set(map(float, levels))


@loop("name", GRIDS)
def test_grids_are_ggmls(name):
    quants = pytest.importorskip("gguf.quants")
    # The name iq2xxs belongs to IQ2_XXS.
    kind = getattr(quants, f"{name[:3]}_{name[3:]}".upper())
    kind.init_grid()
    assert np.array_equal(GRID[name], kind.grid.reshape(kind.grid_shape))


def test_by_hand():
    """No Python package reads these types. The scale d is 4."""
    # 64 numbers from -4 in steps of 1/8: half of them are negative.
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
    """Byte 0x7F decodes to 0, and 0xFF to a number, because the sign is ignored."""
    scales = blocks_oracle.ue4m3(np.arange(256))
    assert scales[[0, 1, 8, 0x38, 0x7E, 0x7F]].tolist() == [0, 2**-10, 2**-7, 0.5, 224, 0]
    assert np.array_equal(scales[128:255], scales[:127])
    assert scales[255] == 240


def test_scales_of_mxfp4():
    """No scale is NaN. The codes of the largest scale overflow float32."""
    x = decoded("MXFP4", "ff" + "21" * 16 + "00" + "21" * 16)
    assert x[[0, 16, 32, 48]].tolist() == [2.0**127, 2.0**128, 2.0**-128, 2.0**-127]


@loop("name", FORMATS)
def test_random_blocks(name):
    """Every byte string decodes to the values of the gguf package, rounded once."""
    gguf = pytest.importorskip("gguf")  # optional; the judge
    kind, elements, size = FORMATS[name]
    if name in ("Q8_1", "Q8_K", "Q1_0", "Q2_0"):
        return  # gguf does not decode it.
    kind = gguf.GGMLQuantizationType(kind)
    assert (kind.name, *gguf.GGML_QUANT_SIZES[kind]) == (name, elements, size)
    data = np.random.default_rng(7).integers(0, 256, (1500, size), np.uint8)
    with np.errstate(invalid="ignore", over="ignore"):
        expected = gguf.quants.dequantize(data, kind)
        got = DECODERS[name](data).astype(np.float32)
    assert np.array_equal(is_nan(got), is_nan(expected))
    number = ~is_nan(got)
    assert np.array_equal(got[number].view("u4"), expected[number].view("u4"))
