"""Scales of every type and ranges of codes against exact arithmetic."""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from support import REALS, amount, case, dtype_of, float_of_bits, loop

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
    ("int32", (-1787402726, 5)),
    ("int32", (-1787402726, -5)),
    ("int32", None),
    ("uint32", (7, 2**32 - 1)),
]
FLOATS = [(name, None) for name in oracle.NARROW_FORMATS]


def ranges(count, seed, dtype="float32"):
    """Return ranges, including powers of two and both ends of the type of the data."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2)) * np.exp2(rng.uniform(-12, 4, (count, 1)))
    x[: count // 4] = np.exp2(rng.integers(-8, 3, (count // 4, 2))) * [-1, 1]
    x[-8:] *= 2.0**10
    x[-16:-8] *= 2.0**-30
    fmt = oracle.FORMATS[np.dtype(dtype).name]
    most, least = (float_of_bits([bits], dtype)[0] for bits in (fmt.infinity - 1, 1))
    x[-20:-16] = rng.uniform(-1, 1, (4, 2)) * float(most)
    x[-22:-20] = rng.integers(-300, 300, (2, 2)) * float(least)
    return np.sort(x.astype(dtype), 1).T


@pytest.mark.parametrize("name", ["float32", "float64", *TYPES])
@loop("symmetric, codes, source", [True, False], RANGES + FLOATS, REALS, draws=120)
def test_scales_by_definition(codes, symmetric, source, name):
    dtype, quant_range = codes
    if (dtype, None) in FLOATS and not symmetric:
        return  # Floating-point codes have no zero points.
    lo, hi = ranges(amount(30, 60), seed=len(dtype) + len(name), dtype=source)
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
    fmt = oracle.format_of(lo)
    to = oracle.target_of(fmt, dtype, symmetric, quant_range, name)
    for i, (low, high) in enumerate(zip(lo, hi, strict=True)):
        ends = Fraction(min(float(low), 0)), Fraction(max(float(high), 0))
        got = Fraction(float(p.scale[i])), int(p.zero_point[i])
        with case(low=low, high=high):
            assert got == oracle.choose_scale(*ends, to)


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
    q = p.quantize(np.float32([[-np.inf, np.inf]] * len(lo)))
    assert (q == codes).all()


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
    for end in (top, tiny, top / 3, tiny * 5):
        for symmetric in (True, False):
            x = np.array([-end, end], source)
            p = pq.choose_qparams(x, scale_dtype=name, symmetric=symmetric)
            assert np.isfinite(p.scale.astype(np.float64))
            assert p.scale.astype(np.float64) > 0
            place = int(p.scale.view(f"u{p.scale.itemsize}"))
            if name in TYPES and end == tiny:
                assert place == (name != "float8_e8m0fnu")
            if name in TYPES and end == top and name != "bfloat16" and source == "float64":
                assert place == oracle.last_place(name)
    zeros = pq.choose_qparams(np.zeros(3, source), scale_dtype=name)
    assert (float(zeros.scale), int(zeros.zero_point)) == (1, 0)
