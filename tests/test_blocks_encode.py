# SPDX-License-Identifier: Apache-2.0
"""Encode GGUF blocks: bytes, types, memory, threads and errors. Oracle: blocks_encoders."""

import re
import tracemalloc

import blocks_encoders
import numpy as np
import pytest
import test_fpenv
from blocks_encoders import DIRECT, SEARCHED
from support import (
    LEVELS,
    REALS,
    Guarded,
    at_level,
    bfloat16,
    case,
    cast,
    loop,
    poisoned,
    split_small_arrays,
    untouched,
)

import pyquant as pq
from pyquant import _core
from pyquant.weights.blocks import block_format, block_formats

FORMATS = [block_format(name) for name in (*DIRECT, *SEARCHED)]
OTHERS = [fmt for fmt in block_formats() if fmt not in FORMATS]
by_name = pytest.mark.parametrize("fmt", FORMATS, ids=lambda fmt: fmt.name)
some = pytest.mark.parametrize(
    "fmt",
    [block_format(name) for name in ("Q8_0", "Q8_K", "NVFP4", "Q5_K", "IQ4_NL")],
    ids=lambda fmt: fmt.name,
)


@pytest.fixture
def rng():
    """Return a generator that starts anew for each test."""
    return np.random.default_rng(23)


def numbers(rng, fmt, *shape):
    """Return rows of blocks of different magnitudes. Input types hold them exactly."""
    exponents = rng.integers(-20, 9, (*shape, 1))
    x = np.ldexp(rng.integers(-127, 128, (*shape, fmt.block_size)), exponents)
    x[rng.random(x.shape) < 0.1] = 0
    return x.reshape(*shape[:-1], shape[-1] * fmt.block_size).astype(np.float32)


def expected(fmt, x):
    rows = np.ascontiguousarray(x, np.float32).reshape(-1, x.shape[-1])
    made = blocks_encoders.encode(fmt.name, rows)
    return made.reshape(fmt.encoded_shape(x.shape))


def same(got, wanted):
    assert got.dtype == wanted.dtype == np.uint8
    assert got.shape == wanted.shape
    assert np.array_equal(got, wanted)


# ---- bytes ----


def test_formats_that_encode():
    assert {fmt for fmt in block_formats() if fmt.quantizes} == set(FORMATS)
    for fmt in OTHERS:
        x = np.zeros(fmt.block_size, np.float32)
        out = poisoned(np.uint8, fmt.block_bytes)
        message = rf"^format: expected Q4_0, Q4_1, .*, Q2_0 to encode, got {fmt.name}$"
        with pytest.raises(ValueError, match=message):
            fmt.quantize(x, out=out)
        assert untouched(out)


@by_name
def test_bytes(fmt, rng):
    normal = rng.standard_normal((2, 40 * fmt.block_size)).astype(np.float32)
    for x in (numbers(rng, fmt, 3, 70), normal):
        wanted = expected(fmt, x)
        for isa in LEVELS:
            with case(isa=isa):
                same(at_level(isa, _core.encode_blocks, fmt._row, x), wanted)


@by_name
def test_numbers_of_any_bits(fmt, rng):
    """Numbers include subnormal numbers, -0 and numbers with scales beyond float16."""
    bits = rng.integers(0, 2**32, (40, 4 * fmt.block_size), np.uint32)
    x = bits.view(np.float32)
    x[~np.isfinite(x)] = -0.0
    x[20:30] *= np.float32(2.0**-120)
    same(fmt.quantize(x), expected(fmt, x))


@by_name
@loop("dtype", REALS)
def test_types(fmt, dtype, rng):
    x = numbers(rng, fmt, 2, 37)
    given = cast(x, dtype)
    same(fmt.quantize(given), expected(fmt, cast(given, np.float32)))


def test_float64_is_rounded_once(rng):
    """float64 numbers are rounded once, half to even, to float32."""
    fmt = block_format("Q8_K")  # All bits of the largest number decide the scale.
    x = rng.standard_normal((50, 256))
    x[:, 0] = 8 + np.arange(50) * 2.0**-20 + 2.0**-21 + (np.arange(50) % 3 - 1) * 2.0**-40
    same(fmt.quantize(x), expected(fmt, x.astype(np.float32)))
    x[0, 0] = float(np.finfo(np.float32).max) * (1 + 2.0**-25 - 2.0**-40)
    same(fmt.quantize(x), expected(fmt, x.astype(np.float32)))
    assert fmt.split(fmt.quantize(x))["d"][0, 0] != 0


def test_worked_by_hand():
    x = (np.arange(32, dtype=np.float32) - 16) / 8
    made = block_format("Q4_0").quantize(x)
    assert made.tobytes().hex() == "0034809191a2a2b3b3c4c4d5d5e6e6f7f7f8"
    assert np.array_equal(block_format("Q4_0").dequantize(made)[::8], x[::8])


# ---- memory ----


@some
@loop("dtype", REALS)
def test_rows_side_by_side(fmt, dtype, rng, monkeypatch):
    """A transposed input gives a block of several rows at a time, in several pieces."""
    x = cast(numbers(rng, fmt, 2, 70, 3), dtype)
    wanted = fmt.quantize(x)
    bad = x.copy()
    bad[1, 67, fmt.block_size] = np.nan
    wide = (*wanted.shape[:2], 2 * wanted.shape[2])

    def turned(x):
        return np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)

    with split_small_arrays(monkeypatch):
        for threads in (1, 2, 5):
            same(fmt.quantize(turned(x), threads=threads), wanted)
            same(fmt.quantize(turned(x)[1], threads=threads), wanted[1])
            out = poisoned(np.uint8, wide)[..., ::2]
            same(fmt.quantize(turned(x), out=out, threads=threads), wanted)
            with pytest.raises(
                ValueError, match=rf"got nan at \(1, 67, {fmt.block_size}\)$"
            ):
                fmt.quantize(turned(bad), threads=threads)
    same(fmt.quantize(turned(x)[:, ::-1]), wanted[:, ::-1])
    same(fmt.quantize(turned(x)[:, 3:5]), wanted[:, 3:5])


@by_name
def test_encode_writes_only_its_result(fmt, rng):
    for offset in (0, 1):
        memory = Guarded(np.float32, 5 * fmt.block_size, offset)
        result = Guarded(np.uint8, 5 * fmt.block_bytes, offset)
        memory.array[...] = numbers(rng, fmt, 5)
        fmt.quantize(memory.array, out=result.array)
        same(result.array, expected(fmt, memory.array))
        result.check()
        memory.check()


def test_empty():
    fmt = block_format("Q8_0")
    for shape in [(0,), (0, 32), (3, 0), (2, 0, 64)]:
        found = fmt.quantize(np.empty(shape, np.float32))
        assert found.shape == fmt.encoded_shape(shape)
        assert found.dtype == np.uint8


def test_other_memory(rng):
    fmt = block_format("Q8_0")
    x = numbers(rng, fmt, 2, 3)
    same(fmt.quantize(memoryview(x)), expected(fmt, x))
    same(fmt.quantize(x.tolist()), expected(fmt, x))


def test_nothing_is_allocated(rng):
    fmt = block_format("Q8_0")
    x = numbers(rng, fmt, 256, 128)
    out = np.empty(fmt.encoded_shape(x.shape), np.uint8)
    fmt.quantize(x[:2], out=out[:2])
    for given in (x, x.astype(np.float16), np.asfortranarray(x), x[::-1]):
        tracemalloc.start()
        fmt.quantize(given, out=out)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4096


def test_control_state_does_not_matter(rng):
    """Flushing subnormals would take small numbers for 0."""
    fmt = block_format("Q8_K")
    x = numbers(rng, fmt, 9) * np.float32(2.0**-130)
    wanted = expected(fmt, x)
    for state in test_fpenv.STATES.values():
        with test_fpenv.state(state):
            found = fmt.quantize(x)
        same(found, wanted)


# ---- errors ----


@some
@loop("dtype, bad", REALS, [np.nan, np.inf, -np.inf])
def test_numbers_must_be_finite(fmt, dtype, bad, rng):
    """The error names the first number, and the result is not written."""
    x = cast(numbers(rng, fmt, 3, 5), dtype)
    out = poisoned(np.uint8, fmt.encoded_shape(x.shape))
    for place in [(0, 0), (1, fmt.block_size + 3), (2, x.shape[1] - 1)]:
        given = x.copy()
        given[place] = bad
        given[2, -1] = bad
        message = f"x: expected finite numbers, got {bad} at {place}"
        with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
            fmt.quantize(given, out=out)
    assert untouched(out)


def test_numbers_outside_float32_are_errors():
    fmt = block_format("Q8_0")
    limit = float.fromhex("0x1.ffffffp127")  # rounded to even, this is infinite
    x = np.ones((2, 32))
    out = poisoned(np.uint8, (2, 34))
    for number in (limit, -limit, 1e300, -1e300):
        x[1, 3] = number
        message = f"x: expected numbers that float32 holds, got {number}"
        with pytest.raises(ValueError, match="^" + re.escape(message) + "$"):
            fmt.quantize(x, out=out)
    assert untouched(out)
    for number in (np.nextafter(limit, 0), -np.nextafter(limit, 0)):
        x[1, 3] = number
        same(fmt.quantize(x), expected(fmt, x.astype(np.float32)))


Q8_0 = block_format("Q8_0")
ROWS = np.zeros((2, 64), np.float32)


def test_overlaps():
    memory = np.zeros(4096, np.uint8)
    x = memory.view(np.float32)[:256]
    with pytest.raises(ValueError, match=r"^out: expected memory of its own.* overlaps x$"):
        Q8_0.quantize(x, out=memory[1000:1272])
    Q8_0.quantize(x, out=memory[1024:1296])
    twice = np.lib.stride_tricks.as_strided(np.zeros(35, np.uint8), (2, 34), (1, 1))
    with pytest.raises(ValueError, match=r"^out: expected dimensions that neither overlap"):
        Q8_0.quantize(np.ones((2, 32), np.float32), out=twice)
    assert not twice.any()


# ---- files ----


@by_name
def test_files(fmt, rng, tmp_path):
    path = tmp_path / "a.gguf"
    x = numbers(rng, fmt, 3, 2)
    pq.write_weights(path, {"w": (fmt, fmt.quantize(x))})
    with pq.open_weights(path) as f:
        assert f["w"].format == fmt.name
        assert f["w"].shape == x.shape
        assert np.array_equal(f["w"].dequantize(), fmt.dequantize(expected(fmt, x)))


@loop("dtype", [np.dtype(np.float32), bfloat16])
def test_gguf_reads_what_is_encoded(dtype, rng, tmp_path):
    gguf = pytest.importorskip("gguf")  # optional; the judge
    path = tmp_path / "a.gguf"
    x = cast(numbers(rng, Q8_0, 5, 4), dtype)
    pq.write_weights(path, {"w": (Q8_0, Q8_0.quantize(x))})
    (tensor,) = gguf.GGUFReader(path).tensors
    kind = gguf.GGMLQuantizationType.Q8_0
    assert tensor.tensor_type == kind
    assert tensor.shape.tolist() == [128, 5]
    wanted = gguf.quants.quantize(x.astype(np.float32), kind)
    assert np.array_equal(tensor.data, wanted)
    decoded = gguf.quants.dequantize(tensor.data, kind)
    assert np.array_equal(decoded, Q8_0.dequantize(wanted))


@loop("largest", [np.finfo(np.float32).max, -3.4e38, 3.2e38])
def test_finite_numbers_decode_to_finite_numbers(largest):
    """If a level would be infinite, the level before is the nearest."""
    x = np.full(64, 3.2e38, np.float32)
    x[0] = largest
    fmt = block_format("MXFP4")
    y = fmt.dequantize(fmt.quantize(x))
    assert np.isfinite(y).all()
    assert (y[1:32] > 2.5e38).all()
