"""Tests of inputs, scales and remainders that are subnormal or close to subnormal.

Kernels may treat subnormal numbers as zero only if no code changes. A multiplication of
inputs and scales by a power of two changes no code. Therefore the tests compare with the
codes of larger inputs and scales.
"""

import numpy as np
import pytest
from support import (
    CODES,
    HAVE_BFLOAT16,
    MODES,
    amount,
    by_family,
    case,
    float_of_bits,
    loop,
    quantize_at,
    same,
)

import pyquant as pq
from pyquant._core import Operator
from pyquant.dtypes import NARROW_FLOATS

TARGETS = [*CODES, *(NARROW_FLOATS if HAVE_BFLOAT16 else ())]
# Exponents of scales: subnormal scales, and both sides of two limits. Beyond these
# limits, kernels do not use fast quotients, or do not treat subnormal numbers as zero.
POWERS = {
    np.float32: (
        *(-60, -76, -80, -97, -98, -99, -100, -101, -107, -108),
        *(-124, -125, -126, -138, -149),
    ),
    np.float64: (-400, -498, -499, -500, -501, -502, -900, -1020, -1022, -1040, -1074),
}
SMALL = [(real, power) for real, powers in POWERS.items() for power in powers]
# Shape of the inputs, shape of the scales, and options of the granularity.
GRANULARITIES = {
    "tensor": ((600,), (), {}),
    "short": ((7,), (), {}),
    "rows": ((12, 50), (12,), {"axis": 0}),
    "short rows": ((60, 9), (60,), {"axis": 0}),
    "columns": ((12, 50), (50,), {"axis": 1}),
    "blocks of 8": ((5, 120), (5, 15), {"axis": 1, "block_size": 8}),
    "blocks of 32": ((5, 96), (5, 3), {"axis": 1, "block_size": 32}),
    "blocks of 49": ((5, 100), (5, 3), {"axis": 1, "block_size": 49}),
}


def draw(shape, scale_shape, power, seed, real=np.float32):
    """Return inputs, some at ties, and scales. Products with 2**power are exact."""
    rng = np.random.default_rng([seed, -power])
    least = int(np.log2(float(float_of_bits([1], real)[0])))
    unit = 2.0 ** max(-12, least - power)
    scale = rng.integers(8, 16, scale_shape) / 8
    if unit > 1 / 8:
        scale = np.ones(scale_shape)
    steps = rng.integers(-300, 300, shape) / 2 * rng.choice([1, 1, 1, 2**-4, 2**-8], shape)
    factor = scale.flat[0] if scale.size else 1.0
    return np.round(steps * factor / unit) * unit, scale


def lowered(values, power, real=np.float32):
    """Multiply values by 2**power, as `real`, and assert that no value is rounded."""
    small = np.ldexp(values, power).astype(real)
    back = np.ldexp(small.astype(np.float64) * 2.0 ** min(60, -power), max(0, -power - 60))
    assert np.array_equal(back, values)
    return small


@by_family("dtype", TARGETS)
@loop("where, small", GRANULARITIES, SMALL)
def test_a_power_of_two_changes_no_code(where, small, dtype, isa):
    shape, scale_shape, keywords = GRANULARITIES[where]
    real, power = small
    for seed in range(amount(1, 3)):
        x, scale = draw(shape, scale_shape, power, seed, real)
        small_x, small_scale = lowered(x, power, real), lowered(scale, power, real)
        plain_x, plain_scale = lowered(x, 0, real), lowered(scale, 0, real)
        for mode in MODES if dtype in (np.int8, np.int32) else ("half_even",):
            rest = {"dtype": dtype, "rounding": mode, **keywords}
            want = quantize_at("scalar", plain_x, plain_scale, **rest)
            with case(seed=seed, mode=mode):
                same(quantize_at(isa, small_x, small_scale, **rest), want)


@by_family("dtype", TARGETS)
@loop("small", SMALL)
def test_scales_of_all_sizes_beside_each_other(small, dtype, isa):
    """Quantize groups correctly if a different group has a scale beyond the fast path."""
    real, power = small
    x, scale = draw((8, 64), (8, 8), power, 5, real)
    odd = [0.0, -0.0, np.inf, np.nan, 1e-45, 2.0**-126, -(2.0**-125), 3e38]
    if real is np.float64:
        odd += [5e-324, 2.0**-1022, -(2.0**-501), 2.0**-499, 1e308]
    given = np.concatenate([lowered(scale, power, real).ravel(), np.array(odd, real)])
    scales = np.resize(given, (8, 8))
    values = lowered(x, power, real)
    values[:, ::5] = 3 * -float_of_bits([1], real)[0]
    for block in (8, 16, 32):
        part = np.ascontiguousarray(scales[:, : 64 // block])
        got = quantize_at(isa, values, part, dtype=dtype, axis=1, block_size=block)
        # Give each element its own scale, so that each element is a group.
        of_each = np.repeat(part, block, axis=1)
        same(got, quantize_at("scalar", values, of_each, dtype=dtype, axis=(0, 1)))


def test_sums_with_a_zero_point_that_are_truncated():
    """Add the zero point 1 to the quotient -2**-6 before rounding. Two modes round to 0."""
    x = np.full(70, -(2.0**-130), np.float32)
    codes = {"trunc": 0, "half_even": 1, "half_away": 1, "floor": 0}
    operator = Operator(
        "a standard",
        rounding=("mode", dict(zip(codes, codes, strict=True))),
        input=("x", ("float32",)),
        scale=("scale",),
        zero=("zero_point", ("uint8",), "typing"),
        places="scalar",
        zero_first=True,
    )
    for mode, code in codes.items():
        got = operator.run(x, np.float32(2.0**-124), 1, rounding=mode)
        assert (got == code).all(), mode


def test_a_float64_scale_is_rounded_to_a_subnormal_one():
    # If subnormal numbers counted as 0 during the conversion, the float32 scale would be 0.
    x = np.full(100, 2.0**-140, np.float32)
    for scale in (2.0**-140, np.array(2.0**-140), 2.0**-140 * (1 + 2.0**-40)):
        assert (pq.quantize(x, scale) == 1).all()
    rows = np.repeat(2.0 ** -np.arange(127.0, 150.0), 64).astype(np.float32).reshape(-1, 64)
    assert (pq.quantize(rows, rows[:, 0].astype(np.float64), axis=0) == 1).all()


def test_modes_that_round_away_from_zero_see_subnormals(isa):
    x = np.resize(float_of_bits([1, 0x80000001]), 70)
    for mode, codes in {"ceil": [1, 0], "floor": [0, -1], "away": [1, -1]}.items():
        got = quantize_at(isa, x, 0.5, rounding=mode)
        assert np.array_equal(got, np.resize(np.int8(codes), 70)), mode
    assert not quantize_at(isa, x, 0.5).any()
    if not HAVE_BFLOAT16:
        pytest.skip("no ml_dtypes")
    signs = quantize_at(isa, x, 0.5, dtype="float8_e5m2").view(np.uint8)
    assert np.array_equal(signs, np.resize(np.uint8([0, 0x80]), 70))
