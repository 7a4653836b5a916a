"""Numbers so small that remainders underflow, or that are subnormal themselves.

Kernels take subnormal numbers for zeros where no code depends on them. The judge is a
power of two: numbers and scales that are smaller by the same one have the same codes.
"""

import numpy as np
import pytest
from support import CODES, HAVE_BFLOAT16, MODES, each, float_of_bits, light

import pyquant as pq
from pyquant._core import quantize_at
from pyquant.dtypes import NARROW_FLOATS

TARGETS = [*CODES, *(NARROW_FLOATS if HAVE_BFLOAT16 else ())]
# Of scales: both sides of what the fast quotient takes and of what divisions take, where
# subnormals count as zeros; and those that are subnormal.
POWERS = (
    -60,
    -76,
    -80,
    -97,
    -98,
    -99,
    -100,
    -101,
    -107,
    -108,
    -124,
    -125,
    -126,
    -138,
    -149,
)
# Shapes, those of the scales, and where they are.
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


def draw(shape, scale_shape, power, seed):
    """Numbers and scales, ties among them, of which 2**power times is exact in float32."""
    rng = np.random.default_rng([seed, -power])
    unit = 2.0 ** max(-12, -149 - power)
    scale = rng.integers(8, 16, scale_shape) / 8
    if unit > 1 / 8:
        scale = np.ones(scale_shape)
    steps = rng.integers(-300, 300, shape) / 2 * rng.choice([1, 1, 1, 2**-4, 2**-8], shape)
    factor = scale.flat[0] if scale.size else 1.0
    return np.round(steps * factor / unit) * unit, scale


def lowered(values, power):
    """Times 2**power, as float32, and whether that was exact."""
    small = np.ldexp(values, power).astype(np.float32)
    assert np.array_equal(np.ldexp(small.astype(np.float64), -power), values)
    return small


@each("where, power", GRANULARITIES, POWERS)
def test_a_power_of_two_changes_no_code(where, power, isa):
    shape, scale_shape, keywords = GRANULARITIES[where]
    for seed in range(light(3, 1)):
        x, scale = draw(shape, scale_shape, power, seed)
        small_x, small_scale = lowered(x, power), lowered(scale, power)
        plain_x, plain_scale = lowered(x, 0), lowered(scale, 0)
        for dtype in TARGETS:
            for mode in MODES if dtype in (np.int8, np.int32) else ("half_even",):
                rest = {"dtype": dtype, "rounding": mode, **keywords}
                want = quantize_at("scalar", plain_x, plain_scale, **rest)
                got = quantize_at(isa, small_x, small_scale, **rest)
                wrong = np.flatnonzero(
                    got.view(f"u{want.itemsize}") != want.view(f"u{want.itemsize}")
                )
                assert not wrong.size, (dtype, mode, small_x.flat[wrong[0]])


@pytest.mark.parametrize("power", POWERS)
def test_scales_of_all_sizes_beside_each_other(power, isa):
    """One that is too small does not change what its neighbours give."""
    x, scale = draw((8, 64), (8, 8), power, 5)
    odd = np.float32([0.0, -0.0, np.inf, np.nan, 1e-45, 2.0**-126, -(2.0**-125), 3e38])
    scales = np.resize(np.concatenate([lowered(scale, power).ravel(), odd]), (8, 8))
    values = lowered(x, power)
    values[:, ::5] = float_of_bits([1, 0x80000003, 0x007FFFFF])[1]
    for dtype in TARGETS:
        for block in (8, 16, 32):
            count = 64 // block
            got = quantize_at(
                isa, values, scales[:, :count], dtype=dtype, axis=1, block_size=block
            )
            for k in range(count):
                part = np.ascontiguousarray(values[:, k * block : (k + 1) * block])
                for row in range(8):
                    one = [
                        quantize_at("scalar", v.reshape(1), scales[row, k], dtype=dtype)[0]
                        for v in part[row]
                    ]
                    want = np.array(one, got.dtype).view(f"u{got.itemsize}")
                    here = got[row, k * block : (k + 1) * block].view(f"u{got.itemsize}")
                    assert np.array_equal(here, want), (dtype, scales[row, k])


def test_a_float64_scale_is_rounded_to_a_subnormal_one():
    # Converted while subnormals count as zeros, it would be 0.
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
