"""Every 16-bit pattern, every border and every code of the narrow types, at each level."""

import numpy as np
import oracle
import pytest
from support import CODES, REALS, bit_view, cast, dtype_of, each, is_nan, same, ulps

from pyquant._core import dequantize_at, quantize_at
from pyquant.dtypes import NARROW_FLOATS, NARROW_INTEGERS, TYPES

# The judge of these tests, and a requirement of the tests: absent only by choice.
ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; the types tried are its

# What ml_dtypes makes of NaN and -NaN where pyquant makes something else. The pages of ONNX
# on float6 and float4 say -0 and 6, whatever the sign of the NaN.
NAN_OF_ML_DTYPES = {
    "float6_e2m3fn": (0x20, 0x00),
    "float6_e3m2fn": (0x20, 0x00),
    "float4_e2m1fn": (0x08, 0x00),
}
SOURCES = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16)]


def every_code(name):
    codes = np.arange(1 << TYPES[name].bits, dtype=np.uint8)
    return codes.view(dtype_of(name))


def every_pattern(dtype):
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def borders(name):
    """Each number of a format and each middle of two neighbours, the first overflow too."""
    values = cast(every_code(name), "float64")
    values = np.unique(values[np.isfinite(values) & (values >= 0)])
    values = np.append(values, 2 * values[-1] - values[-2])
    return np.concatenate([values, (values[:-1] + values[1:]) / 2])


def near_borders(name):
    """The float32 borders, moved by up to two units in the last place, with both signs."""
    points = cast(borders(name), "float32")
    moved = np.concatenate([ulps(points, step) for step in range(-2, 3)])
    odd = cast([np.inf, np.nan, 3.4028235e38, 1e-45, 1e-38, 65504, 1e9], "float32")
    return np.concatenate([moved, -moved, odd, -odd])


def expected(x, negative, name, saturate):
    """What ml_dtypes makes of float32 quotients, clipped first to saturate."""
    dtype = dtype_of(name)
    top = np.float32(ml_dtypes.finfo(dtype).max)
    codes = cast(np.clip(x, -top, top) if saturate else x, dtype).view(np.uint8)
    plus, minus = oracle.NARROW_FORMATS[name].nan
    return np.where(is_nan(x), np.where(negative, minus, plus), codes).astype(np.uint8)


def sign_of(x):
    return (x.view(bit_view(x.dtype)) >> (8 * x.itemsize - 1)).astype(bool)


def check(level, x, scale, name, saturate, **kwargs):
    """One call against float32 quotients; a NaN has the sign of x times the scale's."""
    __tracebackhide__ = True
    got = quantize_at(level, x, scale, dtype=name, saturate=saturate, **kwargs)
    assert got.dtype == dtype_of(name)
    with np.errstate(all="ignore"):
        quotient = x.astype(np.float32) / scale
    negative = sign_of(x) ^ sign_of(np.broadcast_to(scale, x.shape).copy())
    same(got.view(np.uint8), expected(quotient, negative, name, saturate))


@each("name, saturate, source", NARROW_FLOATS, [True, False], SOURCES)
def test_every_16_bit_pattern(name, saturate, source, isa):
    x = every_pattern(source)
    for scale in (1.0, -1.0, 0.3):
        check(isa, x, np.array([scale], np.float32), name, saturate)


@each("name, saturate", NARROW_FLOATS, [True, False])
def test_every_float32_border(name, saturate, isa):
    x = near_borders(name)
    for scale in (1.0, -1.0, 2.0**-60, 0.3, 2.0**-127):
        scale = np.array([scale], np.float32)
        check(isa, x, scale, name, saturate)
        with np.errstate(all="ignore"):
            check(isa, x * scale, scale, name, saturate)


@each("name, saturate", NARROW_FLOATS, [True, False])
def test_every_border_with_a_scale_for_each_element_or_block(name, saturate, isa):
    x = near_borders(name)
    scale = np.exp2(np.arange(x.size) % 9 - 4).astype(np.float32)
    with np.errstate(all="ignore"):
        check(isa, x * scale, scale, name, saturate, axis=0)
    blocks = scale[: -(-x.size // 32)]
    got = quantize_at(isa, x, blocks, dtype=name, saturate=saturate, axis=0, block_size=32)
    spread = np.repeat(blocks, 32)[: x.size]
    each_own = quantize_at(isa, x, spread, dtype=name, saturate=saturate, axis=0)
    same(got.view(np.uint8), each_own.view(np.uint8))


@each("name, saturate", NARROW_FLOATS, [True, False])
def test_every_float64_border(name, saturate, isa):
    # Beside a border, however near, the code is that of the float32 neighbour: rounding a
    # float64 quotient to float32 first would move it onto the border.
    points = borders(name)
    for step in (-1, 0, 1):
        x = ulps(points, step)
        near = ulps(points.astype(np.float32), step)
        for sign in (1.0, -1.0):
            got = quantize_at(isa, sign * x, 1.0, dtype=name, saturate=saturate)
            near32 = np.float32(sign) * near
            codes = expected(near32, sign_of(near32), name, saturate)
            same(got.view(np.uint8), codes)


@each("name, source", NARROW_FLOATS, SOURCES)
def test_precision_of_the_quotient(name, source, isa):
    # ml_dtypes and NumPy divide 16-bit numbers in float32 and round once, too.
    x = every_pattern(source)
    scale = np.array([0.1], source)
    with np.errstate(all="ignore"):
        quotient = (x / scale).astype(np.float32)
    codes = expected(quotient, sign_of(x), name, saturate=True)
    got = quantize_at(isa, x, scale, dtype=name, precision=source)
    same(got.view(np.uint8), codes)


@each("name, target", NARROW_FLOATS, REALS)
def test_every_code_is_decoded(name, target, isa):
    codes = np.resize(every_code(name), 3 * 256 + 7)
    for scale in (1.0, -0.3, 2.0**100):
        compute = np.float64 if target == np.float64 else np.float32
        with np.errstate(all="ignore"):
            product = codes.astype(compute) * compute(np.float32(scale))
        want = cast(product, target)
        got = dequantize_at(isa, codes, np.float32(scale), dtype=target)
        nan = is_nan(want)
        assert (is_nan(got) == nan).all()
        same(got[~nan], want[~nan])


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_every_code_survives_both_ways(name, isa):
    codes = every_code(name)
    back = quantize_at(isa, dequantize_at(isa, codes, 1.0), 1.0, dtype=name)
    number = ~np.isnan(codes.astype(np.float32))
    if oracle.NARROW_FORMATS[name].infinity:  # a saturating cast has no infinity
        number &= np.isfinite(codes.astype(np.float32))
    same(back[number].view(np.uint8), codes[number].view(np.uint8))


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_nan_of_ml_dtypes(name):
    # Where these are no longer what ml_dtypes gives, the exceptions above can go.
    nan = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
    known = NAN_OF_ML_DTYPES.get(name, oracle.NARROW_FORMATS[name].nan)
    assert tuple(cast(nan, dtype_of(name)).view(np.uint8).tolist()) == known


@each("name, source", NARROW_INTEGERS, SOURCES)
def test_sub_byte_codes_are_clipped_wider_ones(name, source, isa):
    low, high = oracle.code_range(name)
    x = every_pattern(source)
    for scale, zero in ((1.0, 0), (-0.7, 1), (0.3, low)):
        wide = quantize_at(isa, x, scale, zero, dtype="int32")
        got = quantize_at(isa, x, scale, zero, dtype=name)
        assert got.dtype == dtype_of(name)
        same(got.astype(np.int32), np.clip(wide, low, high))


@each("name, target", NARROW_INTEGERS, REALS)
def test_every_sub_byte_code_is_decoded(name, target, isa):
    low, high = oracle.code_range(name)
    wide = np.resize(np.arange(low, high + 1), 3 * 16 + 7).astype(CODES[0])
    for scale, zero in ((1.0, 0), (-0.3, high)):
        got = dequantize_at(isa, wide.astype(dtype_of(name)), scale, zero, dtype=target)
        same(got, dequantize_at(isa, wide, scale, zero, dtype=target))
