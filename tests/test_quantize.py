"""Quantize: scalar against exact arithmetic for every code type, and named corner cases."""

import numpy as np
import oracle
import pytest
from support import (
    AVAILABLE_CODES,
    CODES,
    REALS,
    WIDE,
    adversarial,
    amount,
    by_family,
    case,
    compute_dtype,
    dtype_of,
    expected_codes,
    float_of_bits,
    inputs_of_many_scales,
    loop,
    quantize_at,
    same,
    scales_for,
    zero_points,
    zeros_for,
)

import pyquant as pq

INF, NAN = np.inf, np.nan


@by_family("target", AVAILABLE_CODES)
@loop("source", REALS)
def test_one_scale_is_exact(source, target):
    ends = zero_points(target)
    for i, (name, scale) in enumerate(scales_for(compute_dtype(source)).items()):
        for z in [ends[i % len(ends)], ends[-1 - 3 * i % len(ends)]][: amount(1, 2)]:
            x = adversarial(source, scale[0], amount(70, 96), seed=i, zero_point=z)
            with case(scale=name, zero_point=z):
                got = quantize_at("scalar", x, scale, z, dtype=target)
                same(got, oracle.quantize(x, scale, z, dtype=target))


@by_family("target", AVAILABLE_CODES)
@loop("source", REALS)
def test_a_scale_for_each_element_is_exact(source, target):
    count = amount(120, 500)
    x, scale = inputs_of_many_scales(source, count)
    zero = zeros_for(target, count)
    got = quantize_at("scalar", x, scale, zero, dtype=target, axis=0)
    same(got, oracle.quantize(x, scale, zero, dtype=target))


@loop("source, scale", [r for r in REALS if r.itemsize == 2], [0.0371, -3.0, 1e-7])
def test_every_16_bit_number_is_exact(source, scale):
    step = 1 if scale == 0.0371 else 7
    x = float_of_bits(np.arange(0, 1 << 16, amount(11, step)), source)
    got = quantize_at("scalar", x, scale, 3, dtype="int16")
    same(got, oracle.quantize(x, np.float32([scale]), 3, dtype="int16"))


# Inputs on which common shortcuts fail: (x, scale, zero point, dtype, code).
REGRESSIONS = {
    "just below a half": (0.49999997, 1.0, 0, "int8", 0),
    "just below a half, odd zero point": (0.49999997, 1.0, 1, "int8", 1),
    "just above minus a half": (-0.49999997, 1.0, 0, "int8", 0),
    "odd integer above 2**23": (8388609.0, 1.0, 0, "int32", 8388609),
    "odd negative integer below -2**23": (-8388609.0, 1.0, 0, "int32", -8388609),
    "reciprocal lands on a tie": (0.273939937, 0.00214854861, 0, "int8", 127),
    "reciprocal lands on a tie, 16 bit": (0.273939937, 0.00214854861, 0, "int16", 127),
    "tie at scale 7": (-45.5, 7.0, 0, "int8", -6),
    "near tie at scale 0.3": (-2.25, 0.3, 0, "int8", -7),
    "tie at scale 0.02": (-0.22999999, 0.02, 0, "int8", -12),
    "near tie at scale 0.7": (-10.849999, 0.7, 0, "int8", -15),
    "tie at scale 1/127": (-0.68897635, 0.0078740157, 0, "int8", -88),
    "node test on a border": (-2.5, 5 / 255, 0, "int8", -127),
    "2**31 is not a code": (2147483648.0, 1.0, 0, "int32", 2147483647),
    "just below 2**31": (2147483520.0, 1.0, 0, "int32", 2147483520),
    "-2**31 is a code": (-2147483648.0, 1.0, 0, "int32", -2147483648),
    "2**32 is not a code": (4294967296.0, 1.0, 0, "uint32", 4294967295),
    "just below 2**32": (4294967040.0, 1.0, 0, "uint32", 4294967040),
    "huge with high zero point": (3e9, 1.0, 2147483647, "int32", 2147483647),
    "huge with low zero point": (3e9, 1.0, -2147483648, "int32", 852516352),
    "sum beyond 32 bits": (-3e9, 1.0, -2147483648, "int32", -2147483648),
    "huge with zero point 255": (1e10, 1.0, 255, "uint8", 255),
    "minus huge with zero point 255": (-1e10, 1.0, 255, "uint8", 0),
}


@loop("name, wide", REGRESSIONS, [False, True])
def test_regression(name, wide, isa):
    x, scale, zero, dtype, code = REGRESSIONS[name]
    if wide and not np.array_equal([x, scale], np.float32([x, scale])):
        return  # float32 does not hold these float64 numbers.
    x = np.full(67, x, dtype=np.float64 if wide else np.float32)
    scales = np.full(67, scale, dtype=np.float32)
    for got in (
        quantize_at(isa, x, scale, zero, dtype=dtype),
        quantize_at(isa, x, scales, zero, axis=0, dtype=dtype),
        quantize_at(isa, x[:1], scale, zero, dtype=dtype),
    ):
        assert got.tolist() == [code] * got.size


# The corner cases: (x, scale, zero point, dtype, codes).
CORNERS = {
    "nan, uint8": ([NAN], 1.0, 0, "uint8", [0]),
    "nan, int8": ([NAN], 1.0, 0, "int8", [-128]),
    "nan, int8, zero point -10": ([NAN], 1.0, -10, "int8", [-128]),
    "nan, uint8, zero point 9": ([NAN], 1.0, 9, "uint8", [0]),
    "nan, int32": ([NAN], 1.0, 0, "int32", [-2147483648]),
    "nan, uint32": ([NAN], 1.0, 7, "uint32", [0]),
    "inf, uint8": ([INF, -INF], 1.0, 0, "uint8", [255, 0]),
    "inf, int8, zero point -10": ([INF, -INF], 1.0, -10, "int8", [127, -128]),
    "inf, int32, zero point -10": (
        [INF, -INF],
        1.0,
        -10,
        "int32",
        [2147483647, -2147483648],
    ),
    "inf, uint32, zero point 10": ([INF, -INF], 1.0, 10, "uint32", [4294967295, 0]),
    "huge": ([1e38, 3e9, -1e38, -3e9], 1.0, 0, "uint8", [255, 255, 0, 0]),
    "ties, zero point 0": ([0.5, 1.5, 2.5, 3.5], 1.0, 0, "uint8", [0, 2, 2, 4]),
    "ties, zero point 1": ([0.5, 1.5, 2.5, 3.5], 1.0, 1, "uint8", [1, 3, 3, 5]),
    "zero scale": ([1.0, -1.0, 0.0, -0.0], 0.0, 5, "uint8", [255, 0, 0, 0]),
    "minus zero scale": ([1.0, -1.0, 0.0], -0.0, 5, "uint8", [0, 255, 0]),
    "negative scale": ([1.0, -1.0, 2.5, -2.5], -1.0, 0, "int8", [-1, 1, -2, 2]),
    "nan scale": ([1.0, 0.0, INF], NAN, 5, "uint8", [0, 0, 0]),
    "inf scale": ([1.0, -1.0, INF], INF, 5, "uint8", [5, 5, 0]),
    "subnormal scale": ([1e-40, 5e-40, 1.0], 1e-40, 5, "uint8", [6, 10, 255]),
    "tiniest scale": ([1e-45, 3e-44], 1e-45, 5, "uint8", [6, 26]),
    "full range of int8": (
        [-128.0, -129.0, 127.0, 128.0],
        1.0,
        0,
        "int8",
        [-128, -128, 127, 127],
    ),
}


@loop("name", CORNERS)
def test_corner(name, isa):
    x, scale, zero, dtype, codes = CORNERS[name]
    x = np.resize(np.array(x, dtype=np.float32), 69)
    expected = np.resize(np.array(codes, dtype=dtype), 69)
    same(quantize_at(isa, x, np.float32(scale), zero, dtype=dtype), expected)
    same(
        quantize_at(
            isa, x, np.full(69, scale, dtype=np.float32), zero, axis=0, dtype=dtype
        ),
        expected,
    )


def test_quotients_that_underflow_in_directed_modes():
    x = float_of_bits([1, 0x80000001])
    scale = np.float32(1.76)  # the quotient rounds to a subnormal, and its sign counts
    assert pq.quantize(x, scale, rounding="ceil").tolist() == [1, 0]
    assert pq.quantize(x, scale, rounding="floor").tolist() == [0, -1]
    assert pq.quantize(x, scale, rounding="away").tolist() == [1, -1]
    # Here the quotient rounds to zero, once and for all modes.
    for mode in oracle.MODES:
        assert pq.quantize(x, np.float32(2.5), rounding=mode).tolist() == [0, 0]


def test_float64_is_computed_in_float64():
    assert pq.quantize(np.array([0.49999999999999994, 2.5 + 1e-13]), 1.0).tolist() == [0, 3]
    third = np.array([1 / 3 * 1e9])
    assert pq.quantize(third, 1 / 3, dtype="int32").tolist() == [1000000000]
    near = np.array([2147483646.5, 2147483647.4999998])
    assert pq.quantize(near, 1.0, dtype="int32").tolist() == [2147483646, 2147483647]


def close_quotients(last):
    """Yield float64 scales with the last 20 bits `last`, and numbers close to a tie.

    A code changes midway between a tie and its neighbour. No float64 quotients are closer
    to that point.
    """
    for first in (0, 1 << 51, (1 << 52) - (1 << 20)):
        scale = (1 << 52) + first + last % (1 << 20)
        close = {}
        for tie in range(1, 512):
            bits = 54 - tie.bit_length()
            for midway in ((tie << bits) + 1, (tie << bits) - 1):
                for down in (53, 54, 55):
                    x = (scale * midway + (1 << (down - 1))) >> down
                    if 1 << 52 <= x < 1 << 53:
                        apart = abs((x << down) - scale * midway)
                        close[x * 2.0 ** (down - bits - 53)] = apart
        yield scale * 2.0**-52, np.array(sorted(close, key=close.get)[:64])


TIED = [n for n in ("int8", "int16", "float8_e4m3fn") if n in AVAILABLE_CODES]


@by_family("target", TIED)
@loop("last", [0, 1, 2, 15, 16, 17, -1, -2, -15, -16])
def test_float64_quotients_beside_ties(last, target, isa):
    for scale, x in close_quotients(last):
        for sign in (1.0, -1.0):
            got = quantize_at(isa, x * sign, scale, dtype=target)
            same(got, expected_codes(isa, x * sign, np.float64(scale), dtype=target))


def test_a_scale_is_rounded_once_to_the_type_of_the_arithmetic():
    scale = 0.1  # is 0.1 + 1.5e-9 in float32, which moves the tie
    x = np.float32([0.25])
    wide, narrow = x.astype(np.float64), x
    assert (
        pq.quantize(narrow, scale).tolist()
        == oracle.quantize(x, np.float32([scale])).tolist()
    )
    assert (
        pq.quantize(wide, scale).tolist()
        == oracle.quantize(wide, np.float64([scale])).tolist()
    )
    assert pq.quantize(np.float32([1.0]), 1e300).tolist() == [0]  # inf in float32
    assert pq.quantize(np.float64([1e302]), 1e300).tolist() == [100]
    assert pq.quantize(np.float32([1.0, 0.0]), 1e-300).tolist() == [
        127,
        -128,
    ]  # 0 in float32


@loop("source, kind", REALS, ["float16", "float32", "float64"])
def test_a_scale_of_any_real_type(source, kind):
    scale = np.array([0.1, 1.7, 3.0], dtype=kind)
    x = adversarial(source, 1.7, 99).reshape(3, 33)
    expected = oracle.quantize(x, np.repeat(scale, 33))
    same(pq.quantize(x, scale, axis=0), expected)
    same(pq.quantize(x[0], scale[:1]), expected[0])
    same(pq.quantize(x[0], scale[0]), expected[0])


def test_the_default_dtype_is_int8_or_that_of_the_zero_point():
    x = np.float32([1.0, 200.0])
    assert pq.quantize(x, 1.0).dtype == np.int8
    assert pq.quantize(x, 1.0, 3).dtype == np.int8
    assert pq.quantize(x, 1.0, [3]).dtype == np.int8
    for code in CODES:
        for zero in (code.type(3), np.array([3], dtype=code), np.array(3, dtype=code)):
            assert pq.quantize(x, 1.0, zero, dtype=code).dtype == code
            if code not in WIDE:
                assert pq.quantize(x, 1.0, zero).dtype == code
                continue
            with pytest.raises(TypeError, match=f"^dtype: expected .* {code}, got None$"):
                pq.quantize(x, 1.0, zero)
    assert pq.quantize(x, 1.0, np.int64(3), dtype="uint8").dtype == np.uint8
    assert pq.quantize(x, 1.0, np.int16(3), dtype="uint8").tolist() == [4, 203]


@loop("name", AVAILABLE_CODES)
def test_spellings_of_a_dtype(name):
    x, dtype = np.float32([1.0, 2.0]), dtype_of(name)
    expected = np.array([1, 1 if name == "int2" else 2], np.int8).astype(dtype)
    spellings = [name, name.upper(), dtype, dtype.type]
    if dtype.isbuiltin == 1:
        spellings += [dtype.str, dtype.char]
    for given in spellings:
        same(pq.quantize(x, 1.0, dtype=given), expected)
    zero = np.zeros(1, dtype)
    for given in (zero, zero[0], zero.reshape(())) if dtype not in WIDE else ():
        same(pq.quantize(x, 1.0, given), expected)


@loop("kind", ["int8", "uint8", "int16", "uint16", "int32", "int64", "uint64"])
def test_a_zero_point_of_any_integer_type_that_fits(kind):
    x = np.float32([[1.0, -1.0], [2.0, -2.0]])
    zero = np.array([5, 7], dtype=kind)
    same(pq.quantize(x, 1.0, zero[0], dtype="int8"), np.int8([[6, 4], [7, 3]]))
    got = pq.quantize(x, [1.0, 1.0], zero, axis=0, dtype="int8")
    same(got, np.int8([[6, 4], [9, 5]]))


def test_zero_point_none_is_zero():
    x = adversarial("float32", 0.1, 99)
    same(pq.quantize(x, 0.1, None), pq.quantize(x, 0.1, 0))
