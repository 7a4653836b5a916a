"""Test `choose_qparams` at the ends of every type, with scales of every type."""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from support import (
    AVAILABLE_CODES,
    HAVE_BFLOAT16,
    REALS,
    amount,
    by_family,
    case,
    dtype_of,
    float_of_bits,
    is_finite,
    loop,
)

import pyquant as pq
from pyquant.dtypes import NARROW_FLOATS

TYPES = [name for name in AVAILABLE_CODES if name not in ("int64", "uint64")]
WIDE = ["int32", "uint32"]


def largest(dtype):
    """Return the largest finite number of a type."""
    return float_of_bits([oracle.FORMATS[np.dtype(dtype).name].infinity - 1], dtype)[0]


def numbers(array):
    """Return the exact numbers of an array."""
    fmt = oracle.format_of(array)
    return [oracle.decode(b, fmt).signed() for b in oracle.bits_of(array)]


def check(x, code, symmetric):
    """Assert that scales are finite and that no number changes by more than half a step."""
    __tracebackhide__ = True
    p = pq.choose_qparams(x, dtype=code, symmetric=symmetric)
    assert np.isfinite(p.scale)
    assert p.scale > 0
    q = p.quantize(x)
    back = p.dequantize(q, dtype=x.dtype)
    assert is_finite(back).all(), f"{x.tolist()} by {p} came back as {back.tolist()}"
    if code in NARROW_FLOATS:
        return
    (scale,), zero = numbers(p.scale), int(p.zero_point)
    lowest, highest = oracle.code_range(code)
    assert lowest <= zero <= highest
    compute = oracle.FORMATS[p.scale.dtype.name]
    half = Fraction(1, 2)
    for value, one in zip(numbers(x), q.reshape(-1), strict=True):
        steps, exact = int(one) - zero, value / scale
        quotient = oracle.round_to_format(oracle.finite(exact), compute).signed()
        # The rounded quotient can be a tie although the exact quotient is no tie. A rounded
        # quotient can also exceed the range of 32-bit codes.
        assert abs(steps - exact) <= half + abs(quotient - exact)
        if code not in WIDE or lowest < int(one) < highest:
            assert abs(steps - quotient) <= half


def ends(dtype):
    """Yield groups of the largest and of the smallest numbers of a type."""
    top = float(largest(dtype)) if np.dtype(dtype) != np.float64 else largest(dtype)
    tiny = float(float_of_bits([1], dtype)[0])
    for low, high in ((top, 0), (0, top), (top, top), (top, top / 2), (top / 3, top)):
        yield [-low, high]
        yield [-low, high, -low / 2, high / 2, high / 3, -low / 5, tiny, -tiny]
    for n in (1, 2, 3, 100, 127, 128, 190, 191, 254, 255, 256, 381, 382, 65535, 98302):
        yield [n * tiny]
        yield [-n * tiny]
        yield [-n * tiny, (n // 3) * tiny, tiny]
        yield [n * tiny, -(n // 2) * tiny, -tiny]


@by_family("code", TYPES)
@loop("dtype, symmetric", REALS, [None, True, False])
def test_ends_of_the_range(dtype, code, symmetric):
    if code in NARROW_FLOATS and symmetric is False:
        return  # Floating-point codes have no zero points.
    for group in ends(dtype):
        with np.errstate(over="ignore"):
            x = np.array(group).astype(dtype)
        check(x[is_finite(x)], code, symmetric)


@loop("dtype, symmetric", REALS, [True, False])
def test_pairs_near_the_largest(dtype, symmetric):
    top = oracle.FORMATS[dtype.name].infinity - 1
    sign = 1 << (8 * dtype.itemsize - 1)
    for below in range(amount(10, 60)):
        for other in (0, 1, 3, below, 100):
            pairs = [top - below, sign | (top - other)]
            for code in TYPES[:: 1 if below < 4 else 3]:
                if symmetric or code not in NARROW_FLOATS:
                    check(float_of_bits(pairs, dtype), code, symmetric)


@pytest.mark.parametrize(
    ("low", "code", "scale_dtype", "places"),
    [
        (-16.484375, "uint8", "float32", -63),
        (-16.5, "uint8", "float32", None),
        (-2970, "uint2", "float16", -63),
        (-3016, "uint2", "float16", None),  # only the 64th neighbour would fit
    ],
)
def test_scale_search_tries_64_neighbours(low, code, scale_dtype, places):
    """Choose a larger scale if all 64 neighbours of the formula's scale fail.

    Then the larger end is rounded towards 0.
    """
    p = pq.qparams_from_range(
        np.float16(low),
        np.float16(65504),
        dtype=code,
        symmetric=False,
        scale_dtype=scale_dtype,
    )
    levels = oracle.code_range(code)[1]
    definition = np.dtype(scale_dtype).type((65504 - low) / levels)
    bits = np.uint32 if scale_dtype == "float32" else np.uint16
    distance = int(p.scale.view(bits)) - int(definition.view(bits))
    if places is not None:
        assert distance == places
        return
    steps = np.floor(65504 / np.float64(definition) - 0.5) + 0.5
    assert distance > 64
    assert np.floor(65504 / np.float64(p.scale)) + 0.5 == steps


# Defaults


def middle(code):
    """Return the zero point in the middle of an unsigned code type."""
    return (oracle.code_range(code)[1] + 1) // 2


@loop("code", TYPES)
def test_the_default(code):
    x = np.float32([-1.0, 2.0, 0.5])
    default = pq.choose_qparams(x, dtype=code)
    assert default == pq.choose_qparams(x, dtype=code, symmetric=None)
    assert default == pq.choose_qparams(x, dtype=code, symmetric=code[0] != "u")
    if code[0] == "u":
        assert default != pq.choose_qparams(x, dtype=code, symmetric=True)
        q = default.quantize(x)
        if code in WIDE:  # float32 quotients cannot reach all 64-bit codes.
            return
        assert (int(q.min()), int(q.max())) == oracle.code_range(code)
    else:
        assert int(default.zero_point) == 0


@loop("code", [t for t in TYPES if t[0] == "u"])
def test_the_middle_code(code):
    for x in ([-1.0, 2.0], [-2.0], [1.0], [0.0], []):
        p = pq.choose_qparams(np.float32(x), dtype=code, symmetric=True)
        assert int(p.zero_point) == middle(code)
    p = pq.choose_qparams(np.float32([[1, -2], [3, 0]]), dtype=code, axis=0, symmetric=True)
    assert [int(z) for z in p.zero_point] == [middle(code)] * 2


@loop("code", NARROW_FLOATS if HAVE_BFLOAT16 else [])
def test_subnormal_data_of_narrow_floats_is_not_clipped(code):
    """Choose a subnormal scale. Its quotient may exceed the largest code by half a step."""
    finite = {float(v) for v in np.arange(256, dtype=np.uint8).view(code).astype(float)}
    before, highest = (
        Fraction(v) for v in sorted(v for v in finite if np.isfinite(v))[-2:]
    )
    half = (highest - before) / 2
    for n in range(1, amount(120, 300)):
        x = np.array([-n * 2.0**-1074])
        (scale,) = numbers(pq.choose_qparams(x, dtype=code).scale)
        assert Fraction(n, 2**1074) / scale <= highest + half


def ends_of(x, how):
    """Return the extremes of each group, as float64."""
    x, size = x.astype(np.float64), how.get("block_size")
    if size is None:
        axis = None if how.get("axis") is None else 1 - how["axis"]
        return x.min(axis), x.max(axis)
    low = high = x
    for d, n in enumerate(size if isinstance(size, tuple) else (1, size)):
        cuts = range(0, x.shape[d], n)
        low = np.minimum.reduceat(low, cuts, axis=d)
        high = np.maximum.reduceat(high, cuts, axis=d)
    return low, high


WITHOUT_ZERO = ({}, {"axis": 0}, {"axis": 1, "block_size": 3}, {"block_size": (4, 3)})


@loop("code, how", ["int8", "uint4", "uint16", "int32"], WITHOUT_ZERO)
def test_ranges_without_zero(code, how):
    """Compare scale and offset with the definition, and compare all functions."""
    low, high = oracle.code_range(code)
    for source in REALS:
        x = np.random.default_rng(1).normal(50, 9, (6, 8)).astype(source)
        for scale_dtype, limits in ((None, (low, high)), ("float16", (1, 9))):
            more = {"dtype": code, "include_zero": False, "scale_dtype": scale_dtype}
            more["quant_range"] = None if scale_dtype is None else limits
            p = pq.choose_qparams(x, **how, **more)
            lo, hi = ends_of(x, how)
            scale = (hi - lo) / (limits[1] - limits[0])
            kind = scale_dtype or ("float64" if x.dtype == np.float64 else "float32")
            assert p.scale.tobytes() == scale.astype(kind).tobytes()
            assert p.offset.tobytes() == (lo - limits[0] * scale).astype(kind).tobytes()
            q, made = pq.dynamic_quantize(x, **how, **more)
            assert made == p
            assert q.tobytes() == p.quantize(x).tobytes()
            given = lo.astype(x.dtype), hi.astype(x.dtype)
            assert pq.qparams_from_range(*given, **how, **more) == p
            if "block_size" not in how:
                assert pq.calibrate([x], **how, **more) == p


def test_equal_numbers_without_zero():
    for x in (np.full(5, 0.1, np.float32), np.float64(-3), np.zeros(2), np.zeros((0, 3))):
        for quant_range in (None, (3, 9)):
            p = pq.choose_qparams(x, include_zero=False, quant_range=quant_range)
            q = p.quantize(x)
            assert (p.scale == 0).all()
            assert (q == (-128 if quant_range is None else 3)).all()
            assert (p.dequantize(q, dtype=x.dtype) == x).all()


def test_extreme_ranges_without_zero():
    """Test ranges with a width that overflows, or with a scale beyond its type."""
    most = np.finfo(np.float64).max
    p = pq.choose_qparams(np.array([-most, most]), include_zero=False)
    assert p.scale == most / 255 - -most / 255
    for x, scale in ((np.float32([0, 1e-45]), 2.0**-24), (np.float32([0, 3e38]), 65504)):
        assert pq.choose_qparams(x, include_zero=False, scale_dtype="f2").scale == scale


SCALE_TYPES = ["float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu"]
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
    """Return random ranges, some of powers of two or of extreme numbers of the dtype."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 2)) * np.exp2(rng.uniform(-12, 4, (count, 1)))
    x[: count // 4] = np.exp2(rng.integers(-8, 3, (count // 4, 2))) * [-1, 1]
    x[-8:] *= 2.0**10
    x[-16:-8] *= 2.0**-30
    fmt = oracle.FORMATS[np.dtype(dtype).name]
    most, least = (float_of_bits([bits], dtype)[0] for bits in (fmt.infinity - 1, 1))
    x[-20:-16] = rng.uniform(-1, 1, (4, 2)) * float(most)
    x[-22:-20] = rng.integers(-300, 300, (2, 2)) * float(least)
    x[-23] = 0
    return np.sort(x.astype(dtype), 1).T


@pytest.mark.parametrize("name", ["float32", "float64", *SCALE_TYPES])
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


VECTORS = {
    "float16": (0.01575, 0.01569),
    "bfloat16": (0.0157471, 0.0157471),
    "float8_e4m3fn": (0.0175781, 0.015625),  # 127 * 0.015625 < 2
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
