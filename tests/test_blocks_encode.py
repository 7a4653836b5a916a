# SPDX-License-Identifier: Apache-2.0
"""Test encoding of GGUF blocks: bytes, searches, weights, types, memory and errors.

Oracle: blocks_encoders.
"""

import functools
import re

import blocks_encoders
import numpy as np
import pytest
from blocks_encoders import DIRECT, LEGACY, SEARCHED
from hypothesis import given, settings
from hypothesis import strategies as st
from support import (
    LEVELS,
    REALS,
    Guarded,
    amount,
    at_level,
    cast,
    loop,
    peak_of,
    poisoned,
    split_small_arrays,
    untouched,
)

from pyquant import _core
from pyquant.weights.blocks import block_format, block_formats

FORMATS = [block_format(name) for name in (*DIRECT, *SEARCHED)]
OTHERS = [fmt for fmt in block_formats() if fmt not in FORMATS]
FORMS = [
    *((fmt, "plain") for fmt in FORMATS),
    (block_format("IQ4_NL"), "search"),
    *((block_format(name), "weights") for name in (*LEGACY, *SEARCHED)),
]
WEIGHTED = [fmt for fmt, form in FORMS if form == "weights"]
COLUMNS = 768


def by(name, formats):
    """Return a decorator that runs a test for each item of `formats`."""
    return pytest.mark.parametrize(name, formats, ids=lambda one: getattr(one, "name", one))


by_name, by_form = by("fmt", FORMATS), by(("fmt", "form"), FORMS)
by_weighted = by("fmt", WEIGHTED)
some = by("fmt", [block_format(n) for n in ("Q8_0", "Q8_K", "NVFP4", "Q5_K", "IQ4_NL")])


def numbers(rng, fmt, *shape):
    """Return rows of blocks of different magnitudes. All input types hold the numbers."""
    exponents = rng.integers(-20, 9, (*shape, 1))
    x = np.ldexp(rng.integers(-127, 128, (*shape, fmt.block_size)), exponents)
    x[rng.random(x.shape) < 0.1] = 0
    return x.reshape(*shape[:-1], shape[-1] * fmt.block_size).astype(np.float32)


def normal(rng, *shape):
    return rng.standard_normal((*shape, COLUMNS)).astype(np.float32)


def data(rng, kind, rows):
    """Return random rows of numbers of a kind. Most kinds have many ties and equal sums."""
    shape = (rows, COLUMNS)
    groups = (rows, COLUMNS // 32)
    x = rng.standard_normal(shape)

    def by_group(numbers):
        return numbers.repeat(32, axis=-1)

    def made():
        if kind == "ties":
            return rng.integers(-32, 33, shape) / 8
        if kind == "zeros":
            few = np.where(rng.random(shape) < 0.5, rng.choice([0.0, -0.0], shape), x)
            return few * by_group(rng.random(groups) < 0.7)
        if kind == "constant":
            return rng.standard_normal((rows, COLUMNS // 16)).repeat(16, axis=-1)
        if kind == "positive":
            return np.abs(x) + 0.5
        if kind == "negative":
            return -np.abs(x) - 0.5
        if kind == "outlier":
            x[:, ::32] *= 1e5
            return x
        if kind == "wide":
            return np.ldexp(x, rng.integers(-24, 8, shape))
        if kind == "subnormal":
            return np.ldexp(x, by_group(rng.integers(-150, -115, groups)))
        if kind == "huge":
            return np.ldexp(x, by_group(rng.integers(40, 125, groups)))
        bits = rng.integers(0, 2**32, shape, np.uint32).view(np.float32)
        return np.where(np.isfinite(bits), bits, 0)

    return made().astype(np.float32)


KINDS = (
    "ties",
    "zeros",
    "constant",
    "positive",
    "negative",
    "outlier",
    "wide",
    "subnormal",
    "huge",
    "bits",
)


def importance(rng, *shape):
    """Return random weights with ten significant bits. One weight in five is 0."""
    some = rng.random((*shape, COLUMNS)) < 0.8
    return np.where(some, rng.integers(1, 1024, (*shape, COLUMNS)) / 256, 0)


def options_of(form, rng):
    if form == "search":
        return {"search": True}
    return {"weights": importance(rng)} if form == "weights" else {}


def expected(fmt, x, **options):
    rows = np.ascontiguousarray(x, np.float32).reshape(-1, x.shape[-1])
    made = blocks_encoders.encode(fmt.name, rows, **options)
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


@by_form
def test_bytes(fmt, form, rng):
    for kind in KINDS:
        x, options = data(rng, kind, 8), options_of(form, rng)
        wanted = expected(fmt, x, **options)
        for isa in LEVELS:
            same(at_level(isa, _core.encode_blocks, fmt._row, x, **options), wanted)


def test_last_sweep(rng):
    """The search for Q3_K codes repeats up to five times. Only one column in thousands
    needs the fifth time."""
    fmt = block_format("Q3_K")
    x = (rng.integers(-32, 33, (400, COLUMNS)) / 8).astype(np.float32)
    wanted = expected(fmt, x)
    for isa in LEVELS:
        same(at_level(isa, _core.encode_blocks, fmt._row, x), wanted)


@by_weighted
def test_quotients_too_large_to_be_rounded(fmt, rng):
    """Codes are right although the quotients of some numbers exceed the integers of
    float32.

    These numbers have small weights, and are far below the offset of their block.
    """
    groups = (amount(80, 200), COLUMNS // 32, 1)
    counts = rng.random((COLUMNS // 32, 32)) < rng.random((COLUMNS // 32, 1))
    near = -1 - np.ldexp(rng.random((*groups[:2], 32)), -rng.integers(0, 24, groups))
    far = -np.ldexp(rng.random((*groups[:2], 32)), rng.integers(0, 24, groups))
    x = np.where(counts, near, far).astype(np.float32).reshape(-1, COLUMNS)
    little = np.ldexp(1.0, -rng.integers(0, 60, (COLUMNS // 32, 1)))
    weights = np.where(counts, rng.random(counts.shape), little).ravel()
    wanted = expected(fmt, x, weights=weights)
    for isa in LEVELS:
        same(at_level(isa, _core.encode_blocks, fmt._row, x, weights), wanted)


@by_name
def test_numbers_of_any_bits(fmt, rng):
    """Numbers of any bits encode correctly: subnormal numbers, -0, and numbers so large
    that the scale exceeds float16."""
    bits = rng.integers(0, 2**32, (40, 4 * fmt.block_size), np.uint32)
    x = bits.view(np.float32)
    x[~np.isfinite(x)] = -0.0
    x[20:30] *= np.float32(2.0**-120)
    same(fmt.quantize(x), expected(fmt, x))


FEW = st.floats(-8, 8, width=16)


@by_form
@settings(max_examples=amount(12, 30))
@given(st.lists(FEW, min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_few_numbers(fmt, form, numbers, seed):
    """Rows with few different numbers encode correctly, although ties and equal sums of
    errors are frequent."""
    rng = np.random.default_rng(seed)
    x = rng.choice(np.float32(numbers), (1, 256))
    options = options_of(form, rng)
    if form == "weights":
        options["weights"] = options["weights"][:256]
    same(fmt.quantize(x, **options), expected(fmt, x, **options))


def test_float64_is_rounded_once(rng):
    """float64 input is rounded to float32, half to even, before encoding."""
    # In Q8_K, the scale depends on all bits of the largest number.
    fmt = block_format("Q8_K")
    x = rng.standard_normal((50, 256))
    x[:, 0] = 8 + np.arange(50) * 2.0**-20 + 2.0**-21 + (np.arange(50) % 3 - 1) * 2.0**-40
    same(fmt.quantize(x), expected(fmt, x.astype(np.float32)))
    x[0, 0] = float(np.finfo(np.float32).max) * (1 + 2.0**-25 - 2.0**-40)
    same(fmt.quantize(x), expected(fmt, x.astype(np.float32)))
    assert fmt.split(fmt.quantize(x))["d"][0, 0] != 0


def test_float64_weights_are_rounded_once(rng):
    fmt = block_format("Q6_K")
    x, weights = normal(rng, 2), rng.random(COLUMNS) + 1
    wanted = expected(fmt, x, weights=weights.astype(np.float32))
    same(fmt.quantize(x, weights=weights), wanted)
    same(fmt.quantize(x, weights=weights.tolist()), wanted)


def test_worked_by_hand():
    x = (np.arange(32, dtype=np.float32) - 16) / 8
    made = block_format("Q4_0").quantize(x)
    assert made.tobytes().hex() == "0034809191a2a2b3b3c4c4d5d5e6e6f7f7f8"
    assert np.array_equal(block_format("Q4_0").dequantize(made)[::8], x[::8])


@loop("largest", [np.finfo(np.float32).max, -3.4e38, 3.2e38])
def test_finite_numbers_decode_to_finite_numbers(largest):
    """MXFP4 codes of finite numbers decode to finite numbers, even near the largest
    float32."""
    x = np.full(64, 3.2e38, np.float32)
    x[0] = largest
    fmt = block_format("MXFP4")
    y = fmt.dequantize(fmt.quantize(x))
    assert np.isfinite(y).all()
    assert (y[1:32] > 2.5e38).all()


# ---- weights ----


@by_weighted
def test_weights_of_all_numbers(fmt, rng):
    """`weights` can have the shape of the array, with other weights for each row."""
    x, weights = normal(rng, 2, 3), importance(rng, 2, 3)
    wanted = np.array(
        [
            [expected(fmt, x[i, j][None], weights=weights[i, j])[0] for j in range(3)]
            for i in range(2)
        ]
    )
    same(fmt.quantize(x, weights=weights), wanted)
    one = fmt.quantize(x[0, 0], weights=weights[0, 0])
    same(one, wanted[0, 0])
    every = np.broadcast_to(weights[0, 0], x.shape)
    same(fmt.quantize(x, weights=every), fmt.quantize(x, weights=weights[0, 0]))
    for dtype in REALS:
        given = cast(weights, dtype)
        wanted = fmt.quantize(x, weights=given.astype(np.float32))
        same(fmt.quantize(x, weights=given), wanted)


@by_weighted
@loop("value", [0, 1, 3e38, 1e-44])
def test_equal_weights(fmt, value, rng):
    x = normal(rng, 3)
    weights = np.full(COLUMNS, value, np.float32)
    wanted = expected(fmt, x, weights=weights)
    for isa in LEVELS:
        same(at_level(isa, _core.encode_blocks, fmt._row, x, weights), wanted)


def test_formats_that_use_weights(rng):
    x, weights = normal(rng, 2), importance(rng)
    encoding = [fmt for fmt in block_formats() if fmt.quantizes]
    assert len(encoding) == 20
    for fmt in encoding:
        used = not np.array_equal(fmt.quantize(x, weights=weights), fmt.quantize(x))
        assert fmt.weighted == used == (fmt in WEIGHTED)


def test_weights_of_negative_zero():
    fmt = block_format("Q4_K")
    same(fmt.quantize(ONES, weights=ONES * -0.0), fmt.quantize(ONES, weights=ONES * 0))


# ---- memory ----


@by_name
@loop("dtype", REALS)
def test_types(fmt, dtype, rng):
    x = numbers(rng, fmt, 2, 37)
    given = cast(x, dtype)
    same(fmt.quantize(given), expected(fmt, cast(given, np.float32)))


@some
@loop("dtype", REALS)
def test_rows_side_by_side(fmt, dtype, rng, monkeypatch):
    """A transposed array encodes correctly. The core then encodes the blocks of several
    rows together."""
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


def test_nothing_is_allocated(rng):
    fmt = block_format("Q8_0")
    x = numbers(rng, fmt, 256, 128)
    out = np.empty(fmt.encoded_shape(x.shape), np.uint8)
    fmt.quantize(x[:2], out=out[:2])
    for one in (x, x.astype(np.float16), np.asfortranarray(x), x[::-1]):
        assert peak_of(functools.partial(fmt.quantize, one, out=out))[1] < 4096


# ---- errors and options ----


def test_search(rng):
    x, weights = normal(rng, 2), importance(rng)
    iq4 = block_format("IQ4_NL")
    same(iq4.quantize(x, search=False), iq4.quantize(x))
    assert not np.array_equal(iq4.quantize(x, search=True), iq4.quantize(x))
    error, other = (
        ((iq4.dequantize(iq4.quantize(x, search=search)) - x) ** 2).sum()
        for search in (True, False)
    )
    assert error < other
    same(
        iq4.quantize(x, weights=weights, search=np.True_), iq4.quantize(x, weights=weights)
    )
    for name, always in {"Q4_K": True, "Q8_0": False, "Q4_0": False}.items():
        fmt = block_format(name)
        same(fmt.quantize(x, search=always), fmt.quantize(x))
        message = f"search: expected {always} or None for {name}, got {not always}"
        with pytest.raises(ValueError, match=f"^{message}$"):
            fmt.quantize(x, search=not always)
    for fmt in (iq4, block_format("Q4_0")):
        message = f"search: expected True or None for {fmt.name} with weights, got False"
        with pytest.raises(ValueError, match=f"^{message}$"):
            fmt.quantize(x, weights=weights, search=False)
    with pytest.raises(TypeError, match=r"^search: expected True or False, got str$"):
        iq4.quantize(x, search="yes")


@some
@loop("dtype, bad", REALS, [np.nan, np.inf, -np.inf])
def test_numbers_must_be_finite(fmt, dtype, bad, rng):
    """The error names the first number that is not finite, and `out` is unchanged."""
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
    # the least float64 number that rounds to infinity in float32
    limit = float.fromhex("0x1.ffffffp127")
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
MEMORY = np.zeros(4096, np.uint8)
ROWS = np.zeros((2, 64), np.float32)
X = np.zeros((2, 3, 256), np.float32)
ONES = np.ones(256)
