"""Integers below 8 bits and floats of 4, 6 and 8 bits: the rules of one type.

Exact arithmetic (oracle.py) and ml_dtypes are the judges. test_quantize.py and
test_dequantize.py test scales of these types, test_granularity.py granularities, and
test_isa.py lengths.
"""

import numpy as np
import oracle
import pytest
from support import (
    MODES,
    NARROW,
    REALS,
    adversarial,
    amount,
    bit_view,
    by_family,
    cast,
    compute_dtype,
    dequantize_at,
    dtype_of,
    expand,
    expected_codes,
    float_of_bits,
    is_nan,
    loop,
    parameter_shape,
    quantize_at,
    same,
    ulps,
    usual_scales,
)

import pyquant as pq
from pyquant.dtypes import NARROW_FLOATS, NARROW_INTEGERS, TYPES

# test_without_ml_dtypes.py tests what works without ml_dtypes.
ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; it defines the types

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


def midpoints(name):
    """Return the midpoints of neighbours of a type, up to the first overflow."""
    if name in LIMITS:
        lo, hi = LIMITS[name]
        return np.arange(lo - 1, hi + 2) + 0.5
    fmt = FLOATS[name]
    codes = range(fmt.largest + 1)
    values = [float(oracle.decode_narrow(c, fmt).magnitude) for c in codes]
    values.append(2 * values[-1] - values[-2])
    between = (np.array(values[1:]) + np.array(values[:-1])) / 2
    return np.concatenate([between, -between])


# Midpoints


@by_family("name", NARROW)
@loop("target", ["float32", "float64"])
def test_beside_a_midpoint(name, target, isa):
    # The quotients are one unit in the last place or 2**-40 beside a midpoint. If a float64
    # quotient were rounded to float32 first, it would fall on the midpoint.
    points = midpoints(name).astype(target)
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


@loop("name", NARROW)
def test_double_rounding_is_avoided(name):
    # Codes on both sides of a midpoint differ, which needs no oracle.
    points = midpoints(name)
    points = points[points > 0]
    above = pq.quantize(points * (1 + 2.0**-40), 1.0, dtype=name)
    below = pq.quantize(points * (1 - 2.0**-40), 1.0, dtype=name)
    distance = pq.dequantize(above, 1.0) - pq.dequantize(below, 1.0)
    inside = points < (LIMITS[name][1] if name in LIMITS else float(oracle.largest(name)))
    assert (distance[inside] > 0).all()
    assert (distance[~inside] == 0).all()
    # In float32 both quotients are on the midpoint.
    rounded = [
        pq.quantize(points * (1 + sign * 2.0**-40), 1.0, dtype=name, precision="float32")
        for sign in (1, -1)
    ]
    same(rounded[0], rounded[1])


# Integers


@by_family("name", NARROW_INTEGERS)
@loop("mode, source", MODES, REALS)
def test_rounding_modes(name, mode, source, isa):
    lo, hi = LIMITS[name]
    halves = np.arange(2 * lo - 5, 2 * hi + 6) / 2
    x = np.concatenate([halves, np.nextafter(halves, 99), np.nextafter(halves, -99)])
    values = np.concatenate([cast(x, source), inputs((99,), source)])
    rest = {"dtype": name, "rounding": mode}
    one = np.ones((), compute_dtype(source))
    for zero in (lo, 0, hi):
        got = quantize_at(isa, values, 1.0, zero, **rest)
        same(got, expected_codes(isa, values, one, zero, **rest))
    scale = usual_scales(compute_dtype(source), values.size)
    zeros = np.full(values.size, hi)
    got = quantize_at(isa, values, scale, hi, axis=0, **rest)
    same(got, expected_codes(isa, values, scale, zeros, **rest))


@loop("name", NARROW_INTEGERS)
def test_integers_saturate(name, isa):
    lo, hi = LIMITS[name]
    x = np.float32([np.nan, -np.inf, np.inf, -3e38, 3e38, lo - 0.5, hi + 0.5, lo, hi, -0.0])
    want = [lo, lo, hi, lo, hi, lo, hi, lo, hi, 0]
    for source in REALS:
        got = quantize_at(isa, cast(x, source), 1.0, dtype=name)
        assert got.astype(np.int32).tolist() == want
    for zero in range(lo, hi + 1):
        got = quantize_at(isa, x, 1.0, zero, dtype=name)
        same(got, oracle.quantize(x, np.float32(1), zero, dtype=name))


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
    for i, zero in enumerate(every.tolist()):
        one = quantize_at(isa, x[i], scale[i], zero, dtype=name)
        same(one, expected[i])
        for given in (np.int64(zero), own[i], own[i : i + 1], np.array(zero), [zero]):
            same(quantize_at(isa, x[i], scale[i], given, dtype=name), one)
            same(dequantize_at(isa, one, scale[i], given), back[i])


@loop("name", NARROW_INTEGERS)
def test_bits_above_a_code_are_ignored(name, isa):
    bits = TYPES[name].bits
    lo, _ = LIMITS[name]
    q = np.arange(256, dtype=np.uint8).view(dtype_of(name))
    plain = (q.view(np.uint8) & ((1 << bits) - 1)).view(q.dtype)
    for target in REALS:
        got = dequantize_at(isa, q, 0.3, 1, dtype=target)
        same(got, dequantize_at(isa, plain, 0.3, 1, dtype=target))
    x, scale = inputs((256,)), usual_scales("float32", 256)
    for dtype in (name, "int8" if lo else "uint8"):
        got = quantize_at(isa, x, scale, q, dtype=dtype, axis=0)
        same(got, quantize_at(isa, x, scale, plain, dtype=dtype, axis=0))
    got = dequantize_at(isa, q, scale, q[::-1], axis=0)
    same(got, dequantize_at(isa, plain, scale, plain[::-1].copy(), axis=0))


@loop("name", [n for n in NARROW_FLOATS if TYPES[n].bits < 8])
def test_bits_above_a_float_code_are_ignored(name, isa):
    q = np.arange(256, dtype=np.uint8)
    plain = q & (2 * FLOATS[name].sign_bit - 1)
    for target in REALS:
        got = dequantize_at(isa, q.view(dtype_of(name)), 0.3, dtype=target)
        same(got, dequantize_at(isa, plain.view(dtype_of(name)), 0.3, dtype=target))


@loop("name, source", NARROW_INTEGERS, SIXTEEN_BITS)
def test_sub_byte_codes_are_clipped_int32_codes(name, source, isa):
    low, high = oracle.code_range(name)
    x = every_pattern(source)
    for scale, zero in ((1.0, 0), (-0.7, 1), (0.3, low)):
        wide = quantize_at(isa, x, scale, zero, dtype="int32")
        got = quantize_at(isa, x, scale, zero, dtype=name)
        assert got.dtype == dtype_of(name)
        same(got.astype(np.int32), np.clip(wide, low, high))


@loop("name, target", NARROW_INTEGERS, REALS)
def test_every_sub_byte_code_is_decoded(name, target, isa):
    low, high = oracle.code_range(name)
    wide = np.resize(np.arange(low, high + 1), 3 * 16 + 7).astype(np.int8)
    for scale, zero in ((1.0, 0), (-0.3, high)):
        got = dequantize_at(isa, wide.astype(dtype_of(name)), scale, zero, dtype=target)
        same(got, dequantize_at(isa, wide, scale, zero, dtype=target))


# Floats against ml_dtypes: every 16-bit pattern, every border, every code


# The codes of NaN and -NaN in ml_dtypes where pyquant differs. ONNX specifies -0 for float6
# and 6 for float4, for both signs of the NaN.
NAN_OF_ML_DTYPES = {
    "float6_e2m3fn": (0x20, 0x00),
    "float6_e3m2fn": (0x20, 0x00),
    "float4_e2m1fn": (0x08, 0x00),
}


def every_code(name):
    """Return all codes of a type once."""
    codes = np.arange(1 << TYPES[name].bits, dtype=np.uint8)
    return codes.view(dtype_of(name))


def every_pattern(dtype):
    """Return all numbers of a 16-bit type."""
    return np.arange(1 << 16, dtype=np.uint16).view(dtype)


def borders(name):
    """Return each number of a format, each midpoint, and the first overflow."""
    values = cast(every_code(name), "float64")
    values = np.unique(values[np.isfinite(values) & (values >= 0)])
    values = np.append(values, 2 * values[-1] - values[-2])
    return np.concatenate([values, (values[:-1] + values[1:]) / 2])


def near_borders(name):
    """Return the float32 borders moved by up to two units in the last place."""
    points = cast(borders(name), "float32")
    moved = np.concatenate([ulps(points, step) for step in range(-2, 3)])
    odd = cast([np.inf, np.nan, 3.4028235e38, 1e-45, 1e-38, 65504, 1e9], "float32")
    return np.concatenate([moved, -moved, odd, -odd])


def codes_of_ml_dtypes(x, negative, name, saturate):
    """Return the codes of ml_dtypes for float32 quotients, clipped first to saturate."""
    dtype = dtype_of(name)
    top = np.float32(ml_dtypes.finfo(dtype).max)
    codes = cast(np.clip(x, -top, top) if saturate else x, dtype).view(np.uint8)
    plus, minus = oracle.NARROW_FORMATS[name].nan
    return np.where(is_nan(x), np.where(negative, minus, plus), codes).astype(np.uint8)


def sign_of(x):
    return (x.view(bit_view(x.dtype)) >> (8 * x.itemsize - 1)).astype(bool)


def check(isa, x, scale, name, saturate, **kwargs):
    """Compare one call with float32 quotients. A NaN has the sign of x times the scale."""
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


@by_family("name", NARROW_FLOATS)
@loop("saturate", [True, False])
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


@by_family("name", NARROW_FLOATS)
@loop("saturate", [True, False])
def test_every_float64_border(name, saturate, isa):
    # A quotient beside a border has the code of the float32 neighbour. If a float64
    # quotient were rounded to float32 first, it would fall on the border.
    points = borders(name)
    for step in (-1, 0, 1):
        x = ulps(points, step)
        near = ulps(points.astype(np.float32), step)
        for sign in (1.0, -1.0):
            got = quantize_at(isa, sign * x, 1.0, dtype=name, saturate=saturate)
            near32 = np.float32(sign) * near
            codes = codes_of_ml_dtypes(near32, sign_of(near32), name, saturate)
            same(got.view(np.uint8), codes)


@by_family("name", NARROW_FLOATS)
@loop("source", SIXTEEN_BITS)
def test_precision_of_the_quotient(name, source, isa):
    # ml_dtypes and NumPy also divide 16-bit numbers in float32 and round once.
    x = every_pattern(source)
    scale = np.array([0.1], source)
    with np.errstate(all="ignore"):
        quotient = (x / scale).astype(np.float32)
    codes = codes_of_ml_dtypes(quotient, sign_of(x), name, saturate=True)
    got = quantize_at(isa, x, scale, dtype=name, precision=source)
    same(got.view(np.uint8), codes)


@by_family("name", NARROW_FLOATS)
@loop("target", REALS)
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


@loop("name", NARROW_FLOATS)
def test_dequantize_and_quantize_return_every_code(name, isa):
    codes = every_code(name)
    back = quantize_at(isa, dequantize_at(isa, codes, 1.0), 1.0, dtype=name)
    number = ~np.isnan(codes.astype(np.float32))
    if oracle.NARROW_FORMATS[name].infinity:  # a saturating cast gives no infinity
        number &= np.isfinite(codes.astype(np.float32))
    same(back[number].view(np.uint8), codes[number].view(np.uint8))


@loop("name", NARROW_FLOATS)
def test_nan_of_ml_dtypes(name):
    # If this test fails, ml_dtypes has changed, and an exception above can be removed.
    nan = np.array([0x7FC00000, 0xFFC00000], np.uint32).view(np.float32)
    known = NAN_OF_ML_DTYPES.get(name, oracle.NARROW_FORMATS[name].nan)
    assert tuple(cast(nan, dtype_of(name)).view(np.uint8).tolist()) == known


# Saturation, zero points and scales of floats


@loop("name, saturate", NARROW_FLOATS, [True, False])
def test_overflow(name, saturate, isa):
    largest = float(oracle.largest(name))
    beyond = float(midpoints(name)[midpoints(name) > largest][0])
    x = np.array([largest, beyond, np.nextafter(beyond, 0), 3e38, np.inf])
    x = np.concatenate([x, -x, [np.nan, -np.nan, 0.0, -0.0]])
    for source in ("float32", "float64"):
        values = cast(x, source)
        got = quantize_at(isa, values, 1.0, dtype=name, saturate=saturate)
        ones = np.ones(x.size, source)
        same(got, oracle.quantize(values, ones, dtype=name, saturate=saturate))
    codes = got.view(np.uint8).tolist()
    fmt = FLOATS[name]
    over = fmt.infinity or fmt.nan[0]
    if saturate or FLOATS[name].only_numbers:
        over = fmt.largest
    # The midpoint above the largest number goes to the even neighbour, which is the
    # overflow if the largest number has an odd code.
    assert (codes[0], codes[2]) == (fmt.largest, fmt.largest)
    assert codes[3:5] == [over, over]
    assert codes[1] == (over if fmt.largest % 2 else fmt.largest)


@by_family("name", NARROW_FLOATS)
@loop("saturate", [True, False])
def test_saturation_with_other_options(name, saturate, isa):
    for shape, axis, block in (((150,), None, None), ((150,), 0, None), ((3, 50), 1, 16)):
        for seed, source in enumerate(REALS[: amount(1, 4)]):
            x = inputs(shape, source, 0.01, seed)
            params = parameter_shape(shape, axis, block)
            count = int(np.prod(params))
            scale = usual_scales(compute_dtype(source), count, seed).reshape(params)
            rest = {"dtype": name, "saturate": saturate}
            got = quantize_at(isa, x, scale, axis=axis, block_size=block, **rest)
            spread = expand(scale, shape, axis, block)
            same(got, expected_codes(isa, x, spread, **rest))


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
    else:  # powers of two from 2**-127 on, and a NaN
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


@loop("name", NARROW_FLOATS)
def test_the_largest_magnitude_becomes_the_largest_number(name):
    x = np.float32([0.1, -5, 3, 0])
    p = pq.choose_qparams(x, dtype=name)
    q = p.quantize(x)
    assert abs(float(q[1])) == float(oracle.largest(name))
    assert p.dtype == dtype_of(name)
    same(p.dequantize(q), pq.dequantize(q, p.scale))
    with pytest.raises(
        ValueError, match=f"^symmetric: expected True for {name}, got False$"
    ):
        pq.choose_qparams(x, dtype=name, symmetric=False)


@loop("name", NARROW)
def test_qparams(name):
    p = pq.QParams([0.5, 0.25], None, name, axis=0)
    assert (p.dtype, p.axis, p.zero_point.tolist()) == (dtype_of(name), 0, 0)
    assert p == pq.QParams([0.5, 0.25], None, dtype_of(name), axis=0)
    assert p != pq.QParams([0.5, 0.25], None, "int8", axis=0)
    assert f"dtype='{name}'" in repr(p)
    x = np.float32([[0.3, 1], [-1, 2]])
    q = p.quantize(x)
    same(q, pq.quantize(x, [0.5, 0.25], dtype=name, axis=0))
    same(p.dequantize(q), pq.dequantize(q, [0.5, 0.25], axis=0))
    other = "int4" if name != "int4" else "uint4"
    with pytest.raises(TypeError, match=f"^q: expected {name}, got {other}$"):
        p.dequantize(np.zeros((2, 2), dtype_of(other)))


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
