"""Tests of stochastic rounding: random words, codes, and the places of elements.

Oracles: Philox4x32-10 in Python integers here, and `oracle` for quotients and codes.
"""

from bisect import bisect_right
from fractions import Fraction
from functools import cache

import numpy as np
import oracle
import pytest
from oracle import FLOAT32, FLOAT64, FORMATS, NARROW_FORMATS
from support import (
    LEVELS,
    PRECISIONS,
    REALS,
    amount,
    case,
    dtype_of,
    loop,
    quantize_at,
    same,
)

import pyquant as pq
from pyquant.dtypes import TYPES

INTEGERS = [n for n, t in TYPES.items() if t.kind == "integer"]
NARROW_FLOATS = [n for n, t in TYPES.items() if t.kind == "float"]
WORD = 2**32 - 1
# Pairs of a seed and a first place. Four places share a block of Philox,
# and the indices of some blocks exceed 32 bits.
PLACES = [(0, 0), (1, 5), (2**64 - 1, 2**34 - 9), (123456789123456789, 2**63 + 2)]

# A seed and a place with a random word that has 24 zero bits at its upper end.
ZERO_BITS = (0, 59535980)


# ---- the definition ----


def philox(counter, key):
    """Philox4x32-10 of Salmon, Moraes, Dror and Shaw, 2011."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        low, high = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1 = high >> 32 ^ c1 ^ k0, high & WORD
        c2, c3 = low >> 32 ^ c3 ^ k1, low & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return c0, c1, c2, c3


def noise(seed, place):
    """Return the upper 24 bits of the random word for a place."""
    block = place % 2**64 // 4
    words = philox((block & WORD, block >> 32, 0, 0), (seed & WORD, seed >> 32))
    return words[place % 4] >> 8


def noises(n, seed=0, start=0):
    return [noise(seed, start + i) for i in range(n)]


def share_of(value, fmt):
    """Round a fraction to float64 if `fmt` is float64, otherwise to float32."""
    exact = oracle.finite(value)
    return oracle.round_to_format(exact, FLOAT64 if fmt is FLOAT64 else FLOAT32).signed()


def drawn_integer(value, bits, fmt):
    below = value.numerator // value.denominator
    return below + (Fraction(bits, 2**24) < share_of(value - below, fmt))


@cache
def grid_of(to):
    """Return the magnitudes of a narrow float, and one that is a step above the largest."""
    grid = [oracle.decode_narrow(code, to).magnitude for code in range(to.largest + 1)]
    return [*grid, 2 * grid[-1] - grid[-2]]


def drawn_float(value, bits, fmt, grid):
    at = bisect_right(grid, abs(value)) - 1
    if at == len(grid) - 1 or grid[at] == abs(value):
        return value
    ends = (grid[at], grid[at + 1]) if value > 0 else (-grid[at + 1], -grid[at])
    share = share_of((value - ends[0]) / (ends[1] - ends[0]), fmt)
    return ends[Fraction(bits, 2**24) < share]


def expected(x, scale, name, bits, *, zero=0, precision=None, saturate=True):
    """Compute the codes of a row. There is one scale, or a scale for each element."""
    source = oracle.format_of(x)
    compute = oracle.compute_format(source)
    fmt = compute if precision is None else FORMATS[precision]
    scales = oracle.decode_scales(np.asarray(scale), compute, x.size)
    s_bits = np.resize(np.signbit(np.asarray(scale)), x.size)
    x_bits = np.signbit(x)
    codes = []
    for i, b in enumerate(oracle.bits_of(x)):
        q = oracle.round_to_format(oracle.divide(oracle.decode(b, source), scales[i]), fmt)
        if name in NARROW_FORMATS:
            to = NARROW_FORMATS[name]
            if q.kind == "finite":
                drawn = drawn_float(q.signed(), bits[i], fmt, grid_of(to))
                q = q._replace(magnitude=abs(drawn))
            negative = bool(x_bits[i] != s_bits[i])
            codes.append(oracle.encode_narrow(q, to, saturate, negative))
            continue
        if q.kind == "finite":
            q = oracle.finite(drawn_integer(q.signed(), bits[i], fmt))
        code, _ = oracle.affine_code(q, False, zero, name, "floor", oracle.Policy())
        codes.append(code)
    return oracle.array_of_codes(codes, dtype_of(name), x.shape)


def hard(dtype, name, count, seed=0):
    """Return quotients at codes, between codes, near the ends and 0, infinities and NaN."""
    rng = np.random.default_rng([seed, count])
    if name in NARROW_FLOATS:
        most = float(oracle.largest(name))
        steps = rng.choice([0.001, 0.03, 0.4, 1.1], count) * most
        values = steps * rng.uniform(-1, 1, count)
    else:
        most = min(float(oracle.code_range(name)[1]), 2.0**50)
        values = rng.choice([1, 3, min(most, 200), 1.2 * most], count)
        values = values * rng.uniform(-1, 1, count)
        values[::5] = np.round(values[::5] * 2) / 2
    values[1::7] = rng.choice(
        [2.0**-i for i in (3, 20, 24, 25, 26, 60, 140)], values[1::7].size
    )
    values[4::7] = -values[1::7][: values[4::7].size]
    odd = [0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e300, -1e300, most, -most]
    values[rng.permutation(count)[: len(odd)]] = odd[:count]
    with np.errstate(over="ignore"):
        return values.astype(dtype)


# ---- the words ----


def test_words_of_random123():
    assert philox((0,) * 4, (0, 0)) == (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)
    assert philox((WORD,) * 4, (WORD, WORD)) == (
        0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD
    )  # fmt: skip
    assert philox(
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0)
    ) == (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)
    assert philox((1, 0, 0, 0), (0, 0)) == (0xF8E4CCA4, 0x5CB200DB, 0xB1A574EB, 0x097EFF67)


def test_the_codes_of_the_definition():
    x = np.float32([0.5, 0.5, 0.5, 0.5, 0.25, 0.75, -0.5, -0.5, 1.1, -1.1, 126.7, 200])
    got = pq.quantize(x, 1.0, rounding="stochastic")
    assert got.tolist() == [1, 0, 0, 0, 0, 1, -1, 0, 2, -1, 127, 127]
    same(
        pq.quantize(
            x, 1.0, rounding=pq.RoundMode.STOCHASTIC, seed=np.uint64(0), start=np.int8(0)
        ),
        got,
    )


@loop("place", PLACES)
def test_each_of_24_bits_of_a_word_matters(isa, place):
    """Round down an element that equals its threshold, and up if it is 2**-24 larger."""
    seed, start = place
    bits = noises(amount(300, 3000), seed, start)
    options = {"rounding": "stochastic", "seed": seed, "start": start, "dtype": "uint8"}
    at = np.array(bits, np.float32) / 2**24
    assert not np.any(quantize_at(isa, at, 1.0, **options))
    above = np.array([b + 1 for b in bits], np.float32) / 2**24
    assert np.all(quantize_at(isa, above, 1.0, **options))


def test_places_wrap_to_0(isa):
    x = np.full(100, 0.5, np.float32)
    options = {"rounding": "stochastic", "seed": 9}
    whole = quantize_at(isa, x, 1.0, start=2**64 - 30, **options)
    assert whole.tolist() == [int(b < 2**23) for b in noises(100, 9, 2**64 - 30)]
    same(whole[30:], quantize_at(isa, x[30:], 1.0, **options))


# ---- codes ----


@pytest.mark.parametrize("name", [*INTEGERS, *NARROW_FLOATS])
@loop("source", REALS)
def test_codes_by_the_definition(source, name):
    """Compare with the definition. Each scale has a different place and zero point."""
    dtype, integer = dtype_of(name), name in INTEGERS
    lo, hi = oracle.code_range(name) if integer else (0, 0)
    scales = (1.0, 0.37, -(2.0**-3), 1e-3 if source != "float16" else 3.0)
    for k, (scale, zero) in enumerate(
        zip(scales, (0, lo, hi, (lo + hi) // 2 + integer), strict=True)
    ):
        n = amount(40, 170) + k
        scale = np.array(scale, np.float64 if source == np.float64 else np.float32)
        x = hard(np.float64, name, n, k) * float(scale)
        with np.errstate(over="ignore"):
            x = x.astype(source)
        seed, start = PLACES[k]
        precisions = (None, *PRECISIONS)
        options = {"precision": precisions[(k + REALS.index(source)) % len(precisions)]}
        options["saturate"] = integer or k % 2 == 0
        want = expected(x, scale, name, noises(n, seed, start), zero=zero, **options)
        options |= {"rounding": "stochastic", "seed": seed, "start": start}
        for isa in LEVELS:
            with case(isa=isa, scale=scale, zero=zero, **options):
                got = quantize_at(isa, x, scale, zero, dtype=dtype, **options)
                same(got, want)


def test_subnormal_numbers():
    """Round a subnormal number up only if the upper 24 bits of its random word are 0."""
    seed, start = ZERO_BITS
    assert noise(seed, start) == 0
    x = np.full(64, 1e-44, np.float32)
    for isa in LEVELS:
        got = quantize_at(isa, x, 1.0, rounding="stochastic", seed=seed, start=start - 7)
        assert np.flatnonzero(got).tolist() == [7]
        assert not np.any(quantize_at(isa, -x, 1.0, rounding="stochastic", seed=1))


# ---- parameters and options ----


@loop("name", ["int8", "uint16", "int32", "int64", "float8_e4m3fn"])
def test_offsets_and_multipliers(isa, name):
    """Subtract the offset and multiply or divide in float32 before the random rounding."""
    dtype = dtype_of(name)
    rng = np.random.default_rng(7)
    x = (rng.normal(size=777) * 9).astype(np.float32)
    moved = (x - np.float32(1.3)) * np.float32(0.7)
    options = {"dtype": dtype, "rounding": "stochastic", "seed": 5, "start": 2}
    got = quantize_at(isa, x, 0.7, offset=1.3, inverse=True, **options)
    same(got, quantize_at(isa, moved, 1.0, **options))
    got = quantize_at(isa, x, 0.7, offset=1.3, **options)
    same(got, quantize_at(isa, x - np.float32(1.3), 0.7, **options))


@loop("name", ["int8", "uint8", "int16", "uint32", "int64"])
def test_fills_and_ranges(isa, name):
    x = hard(np.float32, "int8", 900, 2)
    options = {"rounding": "stochastic", "seed": 5, "start": 2}
    plain = quantize_at(isa, x, 0.9, 3, dtype=name, **options)
    got = quantize_at(isa, x, 0.9, 3, dtype=name, fill=100, quant_range=(1, 60), **options)
    same(got, np.where(np.isnan(x), 100, np.clip(plain, 1, 60)).astype(name))


@loop("name", ["int8", "uint8", "int16"])
def test_codes_that_wrap(isa, name):
    x = np.random.default_rng(1).uniform(-2000, 2000, 700).astype(np.float32)
    options = {"rounding": "stochastic", "seed": 1}
    wide = quantize_at(isa, x, 0.9, 3, dtype="int32", **options)
    got = quantize_at(isa, x, 0.9, 3, dtype=name, out_of_range="wrap", **options)
    same(got, wide.astype(name))


@loop("shape", [(600,), (20, 30), (3, 200)])
def test_numbers_rounded_beyond_the_range_are_errors(isa, shape):
    """Raise for 127.5 only if the random word of the element rounds 127.5 up."""
    x = np.full(shape, 127.5, np.float32)
    options = {"rounding": "stochastic", "seed": 1, "out_of_range": "raise"}
    beyond = np.array([b < 2**23 for b in noises(x.size, 1)]).reshape(shape)
    first = tuple(int(i) for i in np.argwhere(beyond)[0])
    for given in (x, np.asfortranarray(x)):
        with pytest.raises(ValueError, match=f"got {beyond.sum()} faulty") as error:
            quantize_at(isa, given, 1.0, **options)
        assert error.value.index == first
    x[beyond] = 127.0
    same(
        quantize_at(isa, x, 1.0, **options),
        quantize_at(isa, x, 1.0, rounding="stochastic", seed=1),
    )


def test_nan_is_refused(isa):
    x = np.full(100, 0.5, np.float32)
    x[[40, 60]] = np.nan
    with pytest.raises(ValueError, match="expected no NaN, got 2 faulty elements") as error:
        quantize_at(isa, x, 1.0, rounding="stochastic", nan="raise")
    assert error.value.index == (40,)


# ---- The place of an element in the sequence of random words ----

WHOLE = np.random.default_rng(3).normal(size=(11, 13, 37)).astype(np.float32) * 20
NOISY = {"rounding": "stochastic", "seed": 77, "start": 5}


@loop("source", REALS)
def test_lengths_and_starts(isa, source):
    x = WHOLE.reshape(-1)[:1100].astype(source)
    want = quantize_at(isa, x, 0.7, **NOISY)
    for first in range(70):
        for n in (1, 2, 5, 31, 32, 33, 64, 100, 1000):
            got = quantize_at(
                isa, x[first : first + n], 0.7, rounding="stochastic", seed=77,
                start=5 + first,
            )  # fmt: skip
            same(got, want[first : first + n])


def test_seeds_and_places_differ():
    x, seen = np.full(200, 0.5, np.float32), set()
    for seed in (0, 1, 2**32, 2**63):
        for start in (0, 1, 2, 3, 4, 2**34, 2**63):
            with case(seed=seed, start=start):
                got = pq.quantize(x, 1.0, rounding="stochastic", seed=seed, start=start)
                assert got.tolist() == [int(b < 2**23) for b in noises(200, seed, start)]
                seen.add(got.tobytes())
    assert len(seen) == 28
