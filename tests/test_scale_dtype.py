"""Scales of every type and ranges of codes against exact arithmetic."""

from bisect import bisect_left
from fractions import Fraction
from functools import cache

import numpy as np
import oracle
import pytest
from support import amount, dtype_of, loop

import pyquant as pq

HALF = Fraction(1, 2)
TYPES = ["float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu"]
RANGES = [
    ("int8", None),
    ("int8", (-64, 63)),
    ("int8", (-127, 127)),
    ("int8", (-8, 100)),
    ("int8", (5, 90)),
    ("uint8", None),
    ("uint8", (1, 255)),
    ("uint8", (0, 15)),
    ("int4", None),
    ("int16", None),
    ("uint16", (0, 1000)),
    ("int32", (-(2**20), 2**20)),
]


@cache
def positive(name):
    """Return all positive numbers of a type in order."""
    dtype = dtype_of(name)
    count = 2 ** (8 * dtype.itemsize - (name != "float8_e8m0fnu"))
    bits = np.arange(count, dtype=np.uint32).astype(f"u{dtype.itemsize}")
    with np.errstate(invalid="ignore"):
        values = bits.view(dtype).astype(np.float64)
    return [Fraction(float(v)) for v in values if np.isfinite(v) and v > 0]


def place_of(values, wanted, up):
    """Return the place of the nearest number, ties to even patterns. Places begin at 1."""
    k = bisect_left(values, wanted)
    if k == len(values) or k == 0 or values[k] == wanted or up:
        return min(k, len(values) - 1)
    below, above = wanted - values[k - 1], values[k] - wanted
    if below == above:
        return k if (k + 1) % 2 == 0 else k - 1
    return k if above < below else k - 1


def middle(lowest, highest):
    """Zero point and steps of symmetric codes."""
    if lowest < 0 < highest:
        return 0, Fraction(min(highest, -lowest))
    return (lowest + highest + 1) // 2, Fraction(highest - lowest, 2)


def zero_of(scale, lo, codes, symmetric):
    if symmetric:
        return middle(*codes)[0]
    steps = oracle._rounded(codes[0] - oracle._rounded(lo / scale))
    return min(max(oracle.round_to_integer(steps, "half_even"), codes[0]), codes[1])


def expected(lo, hi, codes, symmetric, values, up):
    """Return the scale nearest to the formula that fits the data, and its zero point."""
    lo, hi = min(lo, Fraction(0)), max(hi, Fraction(0))
    steps = middle(*codes)[1] if symmetric else Fraction(codes[1] - codes[0])
    far = max(-lo, hi) if symmetric else oracle._rounded(hi - lo)
    first = place_of(values, oracle._rounded(far / steps), up)
    for k in range(64):
        for at in (first + k, first - k):
            if not 0 <= at < len(values):
                continue
            scale, zero = values[at], zero_of(values[at], lo, codes, symmetric)
            above, below = codes[1] - zero + HALF, zero - codes[0] + HALF
            if hi <= above * scale and -lo <= below * scale:
                return scale, zero
    return values[first], zero_of(values[first], lo, codes, symmetric)


def ranges(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2)) * np.exp2(rng.uniform(-12, 4, (count, 1)))
    x[: count // 4] = np.exp2(rng.integers(-8, 3, (count // 4, 2))) * [-1, 1]
    x[-8:] *= 2.0**20
    x[-16:-8] *= 2.0**-30
    return np.sort(x.astype(np.float32), 1).T


@pytest.mark.parametrize("name", TYPES)
@loop("symmetric, codes", [True, False], RANGES)
def test_scales_by_definition(codes, symmetric, name):
    dtype, quant_range = codes
    codes = quant_range or oracle.code_range(dtype)
    lo, hi = ranges(amount(60, 200), seed=sum(codes) + len(name))
    p = pq.qparams_from_range(
        *(lo, hi),
        axis=0,
        dtype=dtype,
        symmetric=symmetric,
        quant_range=quant_range,
        scale_dtype=name,
    )
    assert p.scale.dtype == dtype_of(name)
    assert p.quant_range == quant_range
    values = positive(name)
    for i, (low, high) in enumerate(zip(lo, hi, strict=True)):
        ends = Fraction(float(low)), Fraction(float(high))
        due = expected(*ends, codes, symmetric, values, name == "float8_e8m0fnu")
        got = Fraction(float(p.scale[i])), int(p.zero_point[i])
        assert got == due, (low, high)


@loop("symmetric, codes", [True, False], RANGES)
def test_ranges_of_codes(isa, symmetric, codes):
    """Data comes back within half a step, by codes within the range."""
    dtype, quant_range = codes
    codes = quant_range or oracle.code_range(dtype)
    lo, hi = ranges(amount(90, 300), seed=7)
    p = pq.choose_qparams(
        np.stack([lo, hi], 1),
        axis=0,
        dtype=dtype,
        symmetric=symmetric,
        quant_range=quant_range,
    )
    for scale, zero, low, high in zip(p.scale, p.zero_point, lo, hi, strict=True):
        assert codes[0] <= zero <= codes[1]
        s = Fraction(float(scale))
        assert max(high, 0) <= (codes[1] - int(zero) + HALF) * s
        assert max(-low, 0) <= (int(zero) - codes[0] + HALF) * s
    q = p.quantize(np.stack([lo, hi], 1) * np.float32(3))
    assert q.min() >= codes[0]
    assert q.max() <= codes[1]


VECTORS = {
    "float16": (0.01575, 0.01569),
    "bfloat16": (0.0157471, 0.0157471),
    "float8_e4m3fn": (0.0175781, 0.015625),  # 127 steps of 0.015625 are too few.
    "float8_e8m0fnu": (0.03125, 0.03125),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vectors(name):
    dtype = dtype_of(name)
    for like, value in zip((None, "pytorch"), VECTORS[name], strict=True):
        p = pq.qparams_from_range(-1.0, 2.0, scale_dtype=name, like=like)
        assert p.scale == np.array(value, np.float32).astype(dtype)
        assert p == pq.choose_qparams(np.float32([-1, 2]), scale_dtype=name, like=like)
        np.testing.assert_array_equal(p.quantize(np.float32([0])), [0])


@loop("source, name", ["float32", "float64"], [*TYPES, "float32", "float64"])
def test_never_zero_and_never_infinite(source, name):
    top, tiny = np.finfo(source).max, np.finfo(source).smallest_subnormal
    values = positive(name) if name in TYPES else None
    for end in (top, tiny, top / 3, tiny * 5):
        for symmetric in (True, False):
            x = np.array([-end, end], source)
            p = pq.choose_qparams(x, scale_dtype=name, symmetric=symmetric)
            assert np.isfinite(p.scale.astype(np.float64))
            assert p.scale.astype(np.float64) > 0
            if values and end == tiny:
                assert Fraction(float(p.scale)) == values[0]
            if values and end == top and name != "bfloat16" and source == "float64":
                assert Fraction(float(p.scale)) == values[-1]
    zeros = pq.choose_qparams(np.zeros(3, source), scale_dtype=name)
    assert (float(zeros.scale), int(zeros.zero_point)) == (1, 0)
