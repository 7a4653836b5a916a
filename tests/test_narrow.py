"""Tests of codes with fewer than 8 bits and of float8 codes, one type at a time.

oracle.py and ml_dtypes define the expected results. test_quantize.py tests scales, and
test_calls.py tests lengths, granularities and layouts of arrays.
"""

import numpy as np
import oracle
import pytest
from support import (
    NARROW,
    REALS,
    adversarial,
    amount,
    bit_view,
    by_family,
    cast,
    dequantize_at,
    dtype_of,
    expand,
    expected_codes,
    float_of_bits,
    is_nan,
    loop,
    quantize_at,
    same,
    ulps,
    usual_scales,
)

import pyquant as pq
from pyquant.dtypes import NARROW_FLOATS, NARROW_INTEGERS, TYPES

# These tests need ml_dtypes. test_without_ml_dtypes.py tests pyquant without the package.
ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the types

LIMITS = {name: oracle.code_range(name) for name in NARROW_INTEGERS}
FLOATS = oracle.NARROW_FORMATS
SIXTEEN_BITS = [np.dtype(t) for t in (np.float16, ml_dtypes.bfloat16)]


def test_the_oracle_and_ml_dtypes_decode_equally():
    for name in NARROW_FLOATS:
        fmt = FLOATS[name]
        codes = np.arange(2 * fmt.sign_bit, dtype=np.uint8)
        theirs = codes.view(dtype_of(name)).astype(np.float32)
        ours = [oracle.decode_narrow(c, fmt) for c in codes.tolist()]
        bits = [oracle.encode(value, oracle.FLOAT32) for value in ours]
        nan = np.isnan(theirs)
        assert [v.kind == "nan" for v in ours] == nan.tolist()
        same(float_of_bits(bits)[~nan], theirs[~nan])
        assert float(ml_dtypes.finfo(dtype_of(name)).max) == oracle.largest(name)


# Data and parameters


def inputs(shape, source="float32", scale=0.3, seed=0):
    return adversarial(source, scale, int(np.prod(shape)), seed=seed).reshape(shape)


# Midpoints


@by_family("name", NARROW)
@loop("target", ["float32", "float64"])
def test_beside_a_midpoint(name, target, isa):
    # Each quotient differs from a midpoint between two codes by 2**-40 or by one unit in
    # the last place. If a float64 quotient were rounded to float32 first, the result would
    # be the midpoint.
    if name in LIMITS:
        lo, hi = LIMITS[name]
        points = np.arange(lo - 1, hi + 2) + 0.5
    else:
        points = np.concatenate([borders(name), -borders(name)])
    points = points.astype(target)
    up = np.nextafter(points, cast(np.inf, target))
    down = np.nextafter(points, cast(-np.inf, target))
    x = np.concatenate([points, up, down, points * (1 + 2**-20), points * (1 - 2**-20)])
    if target == "float64":
        near = [points * (1 + sign * 2.0**-40) for sign in (1, -1)]
        x = np.concatenate([x, *near])
    x = x.astype(target)
    for scale in (1.0, -0.25, 2.0**60)[: amount(1, 3)]:
        scaled, one = x * x.dtype.type(scale), np.array(scale, target)
        got = quantize_at(isa, scaled, one, dtype=name)
        same(got, expected_codes(isa, scaled, one, dtype=name))
    for block in (1, 32):
        scale = np.exp2(np.arange(-(-x.size // block)) % 5).astype(target)
        spread = expand(scale, x.shape, 0, block)
        got = quantize_at(isa, x * spread, scale, dtype=name, axis=0, block_size=block)
        same(got, expected_codes(isa, x * spread, spread, dtype=name))


# Integers


@loop("name", NARROW_INTEGERS)
def test_zero_points_of_any_type(name, isa):
    lo, hi = LIMITS[name]
    x = inputs((hi - lo + 1, 33))
    scale = usual_scales("float32", hi - lo + 1)
    every = np.arange(lo, hi + 1)
    expected = quantize_at(isa, x, scale, every, dtype=name, axis=0)
    same(
        expected,
        oracle.quantize(x, *(expand(p, x.shape, 0) for p in (scale, every)), dtype=name),
    )
    back = dequantize_at(isa, expected, scale, every, axis=0)
    unsigned = ["u1", "u2", "u4", "u8", ">u4"] if lo == 0 else []
    own = every.astype(dtype_of(name))
    for zero in (
        every.tolist(),
        tuple(every.tolist()),
        own,
        np.repeat(own, 2)[::2],
        own[::-1].copy()[::-1],
        *(every.astype(t) for t in ("i1", "i2", "i4", "i8", ">i2", ">i8", *unsigned)),
    ):
        same(quantize_at(isa, x, scale, zero, dtype=name, axis=0), expected)
        same(dequantize_at(isa, expected, scale, zero, axis=0), back)


@loop("name", [n for n in NARROW if TYPES[n].bits < 8])
def test_bits_above_a_code_are_ignored(name, isa):
    dtype, bits = dtype_of(name), np.arange(256, dtype=np.uint8)
    q, plain = bits.view(dtype), (bits & ((1 << TYPES[name].bits) - 1)).view(dtype)
    for target in REALS:
        got = dequantize_at(isa, q, 0.3, int(name in LIMITS), dtype=target)
        same(got, dequantize_at(isa, plain, 0.3, int(name in LIMITS), dtype=target))
    if name not in LIMITS:
        return
    x, scale = inputs((256,)), usual_scales("float32", 256)
    for code in (name, "int8" if LIMITS[name][0] else "uint8"):
        got = quantize_at(isa, x, scale, q, dtype=code, axis=0)
        same(got, quantize_at(isa, x, scale, plain, dtype=code, axis=0))
    got = dequantize_at(isa, q, scale, q[::-1], axis=0)
    same(got, dequantize_at(isa, plain, scale, plain[::-1].copy(), axis=0))


# ---- Comparison of floats with ml_dtypes: 16-bit patterns, limits of codes, codes ----


def every_code(name):
    """Return all codes of a type once."""
    codes = np.arange(1 << TYPES[name].bits, dtype=np.uint8)
    return codes.view(dtype_of(name))


def every_pattern(dtype):
    """Return all numbers of a 16-bit type."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def borders(name):
    """Return each number of a format, each midpoint, and the first larger number."""
    values = cast(every_code(name), "float64")
    values = np.unique(values[np.isfinite(values) & (values >= 0)])
    values = np.append(values, 2 * values[-1] - values[-2])
    return np.concatenate([values, (values[:-1] + values[1:]) / 2])


def near_borders(name):
    """Return float32 numbers within two units in the last place of the borders."""
    points = cast(borders(name), "float32")
    moved = np.concatenate([ulps(points, step) for step in range(-2, 3)])
    odd = cast([np.inf, np.nan, 3.4028235e38, 1e-45, 1e-38, 65504, 1e9], "float32")
    return np.concatenate([moved, -moved, odd, -odd])


def codes_of_ml_dtypes(x, negative, name, saturate):
    """Cast float32 quotients with ml_dtypes. If `saturate`, clip the quotients first."""
    dtype = dtype_of(name)
    top = np.float32(ml_dtypes.finfo(dtype).max)
    codes = cast(np.clip(x, -top, top) if saturate else x, dtype).view(np.uint8)
    plus, minus = oracle.NARROW_FORMATS[name].nan
    return np.where(is_nan(x), np.where(negative, minus, plus), codes).astype(np.uint8)


def sign_of(x):
    return (x.view(bit_view(x.dtype)) >> (8 * x.itemsize - 1)).astype(bool)


def check(isa, x, scale, name, saturate, **kwargs):
    """Compare a call with a division and a cast. NaN gets the sign of x times the scale."""
    __tracebackhide__ = True
    got = quantize_at(isa, x, scale, dtype=name, saturate=saturate, **kwargs)
    assert got.dtype == dtype_of(name)
    with np.errstate(all="ignore"):
        quotient = x.astype(np.float32) / scale
    negative = sign_of(x) ^ sign_of(np.broadcast_to(scale, x.shape).copy())
    same(got.view(np.uint8), codes_of_ml_dtypes(quotient, negative, name, saturate))


@by_family("name", NARROW_FLOATS)
@loop("saturate, source", [True, False], SIXTEEN_BITS)
def test_every_16_bit_pattern(name, saturate, source, isa):
    x = every_pattern(source)
    for scale in (1.0, -1.0, 0.3):
        check(isa, x, np.array([scale], np.float32), name, saturate)


@by_family("name", NARROW_FLOATS)
@loop("saturate", [True, False])
def test_every_float32_border(name, saturate, isa):
    x = near_borders(name)
    for scale in (1.0, -1.0, 2.0**-60, 0.3, 2.0**-127):
        scale = np.array([scale], np.float32)
        check(isa, x, scale, name, saturate)
        with np.errstate(all="ignore"):
            check(isa, x * scale, scale, name, saturate)


# ---- Saturation, zero points and scales of floats ----


@loop("name", NARROW_FLOATS)
def test_zeros_are_the_only_zero_points(name):
    x, q = np.float32([-0.0, 1, -2]), dtype_of(name)
    expected = pq.quantize(x, 0.5, dtype=name)
    back = pq.dequantize(expected, 0.5)
    for zero in (
        0,
        [0],
        np.int8(0),
        np.uint32([0]),
        np.zeros((), np.int64),
        np.zeros(1, q),
    ):
        same(pq.quantize(x, 0.5, zero, dtype=name), expected)
        same(pq.dequantize(expected, 0.5, zero), back)
    text = f"^zero_point: expected None or zeros for {name}$"
    for zero in (1, [1], np.int8(5), np.uint64([2**63]), np.ones(1, q)):
        for call in (
            lambda zero: pq.quantize(x, 0.5, zero, dtype=name),
            lambda zero: pq.dequantize(expected, 0.5, zero),
        ):
            with pytest.raises(ValueError, match=text):
                call(zero)


@loop("name", ["float8_e8m0fnu", *NARROW_FLOATS])
def test_scales_of_narrow_floats(name, isa):
    bits = np.arange(256, dtype=np.uint8)
    if name in FLOATS:
        bits = bits[: 2 * FLOATS[name].sign_bit]
    scale = bits.view(dtype_of(name))
    if name in FLOATS:
        numbers = [oracle.decode_narrow(b, FLOATS[name]) for b in bits.tolist()]
        wide = float_of_bits([oracle.encode(n, oracle.FLOAT32) for n in numbers])
    else:  # float8_e8m0fnu: 2**-127 to 2**127, and a NaN
        wide = np.append(np.ldexp(np.float32(1), np.arange(-127, 128)), np.float32(np.nan))
        wide = wide.astype(np.float32)
    number = ~np.isnan(wide)
    for source in REALS:
        x = inputs((bits.size,), source, 0.7)
        for target in ("int8", "int4", "float8_e4m3fn", "float4_e2m1fn"):
            got = quantize_at(isa, x, scale, dtype=target, axis=0)
            want = quantize_at(isa, x, wide, dtype=target, axis=0)
            same(got[number], want[number])
            q = np.resize(np.arange(16, dtype=np.uint8), bits.size).view(dtype_of("int4"))
            got = dequantize_at(isa, q, scale, dtype=source, axis=0)
            same(got, dequantize_at(isa, q, wide, dtype=source, axis=0))
        one = scale[5:6]
        same(quantize_at(isa, x, one), quantize_at(isa, x, wide[5]))
        same(quantize_at(isa, x, one[0]), quantize_at(isa, x, wide[5]))
        blocks = scale[4:8].reshape(1, 4)
        tile = np.resize(x, (3, 32))
        got = quantize_at(isa, tile, blocks, dtype="float4_e2m1fn", block_size=(3, 8))
        want = wide[4:8].reshape(1, 4)
        want = quantize_at(isa, tile, want, dtype="float4_e2m1fn", block_size=(3, 8))
        same(got, want)


def test_scales_of_narrow_integers():
    x = inputs((16,))
    for name, (lo, hi) in LIMITS.items():
        every = np.arange(lo, hi + 1)
        scale = every.astype(dtype_of(name))
        part = x[: every.size]
        same(
            pq.quantize(part, scale, axis=0),
            pq.quantize(part, every.astype(np.float32), axis=0),
        )


# QParams


def test_qparams_of_python_integers():
    for name, (lo, hi) in LIMITS.items():
        p = pq.QParams(0.5, hi, name)
        same(p.dequantize([lo, hi]), np.float32([(lo - hi) / 2, 0]))
        for bad in (lo - 1, hi + 1):
            text = f"q: expected integers from {lo} to {hi} for {name}, got {bad}"
            with pytest.raises(ValueError, match=f"^{text}$"):
                p.dequantize([0, bad])
            text = f"zero_point: expected integers from {lo} to {hi} for {name}, got {bad}"
            with pytest.raises(ValueError, match=f"^{text}(;|$)"):
                pq.QParams(0.5, bad, name)
