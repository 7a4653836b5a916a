"""Compare `requantize` with definitions in Python integers. Test `fixed_point`."""

import gc
import itertools
import math
import weakref
from fractions import Fraction

import numpy as np
import pytest
from oracle import code_range, float32
from support import (
    LEVELS,
    amount,
    at_level,
    case,
    draw_granularity,
    draw_layout,
    loop,
    parameter_shape,
    requantize_at,
    same,
)

import pyquant as pq
from pyquant.qparams import rescaling

ARITHMETICS = ("float32", "rndnu", "tflite", "tflite_single", "fbgemm")
FIXED = ARITHMETICS[1:]
SOURCES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
TARGETS = ("int8", "uint8", "int16", "uint16", "int32")


# The definitions


def fixed(real, arithmetic):
    """Convert a real multiplier to an integer multiplier and a shift."""
    real = Fraction(float(real))
    if arithmetic.startswith("tflite"):
        fraction, shift = math.frexp(float(real))
        m = math.floor(Fraction(fraction) * 2**31 + Fraction(1, 2))
        if m == 2**31:
            m, shift = m // 2, shift + 1
        if shift < -31:
            return 0, 0
        if shift > 30 and arithmetic == "tflite_single":
            return 2**31 - 1, 30
        return m, shift
    real = float32(real)
    fraction, exponent = math.frexp(float(real))
    if arithmetic == "rndnu":
        return int(fraction * 2**24), 24 - exponent
    shift = 31
    while real < Fraction(1, 2):
        real, shift = real * 2, shift + 1
    while real > 1:
        real, shift = real / 2, shift - 1
    m = round(real * 2**31)
    return (m // 2, shift - 1) if m == 2**31 else (m, shift)


def srdhm(a, b):
    """Compute gemmlowp's SaturatingRoundingDoublingHighMul, which divides toward zero."""
    nudged = a * b + (2**30 if a * b >= 0 else 1 - 2**30)
    quotient = abs(nudged) // 2**31
    return quotient if nudged >= 0 else -quotient


def rdbp(x, exponent):
    """Compute gemmlowp's RoundingDivideByPOT."""
    mask = 2**exponent - 1
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0))


def product(v, real, arithmetic, stored=None):
    """Return the rounded product of `v` and a multiplier, without the zero point."""
    if arithmetic == "float32":
        by = float32(Fraction(float(real)))
        p = float32(float32(v) * by)
        return round(p) if p is not None else 2**200 * (1 if v > 0 else -1)
    m, shift = stored or fixed(real, arithmetic)
    if arithmetic == "tflite":
        return rdbp(srdhm(v << max(shift, 0), m), max(-shift, 0))
    if arithmetic == "tflite_single":
        return ((v * m) + (1 << (30 - shift))) >> (31 - shift)
    return (v * m + (1 << (shift - 1))) >> shift


def clamp(v, lo, hi):
    return min(max(v, lo), hi)


def code(q, real, arithmetic, *, zero=0, input_zero=0, bias=0, ends, stored=None):
    v = clamp(int(q) - input_zero + int(bias), -(2**63), 2**63 - 1)
    return clamp(product(v, real, arithmetic, stored) + zero, *ends)


# Vectors


TABLE = (
    ((1, 3, 5), 0.5, (0, 2, 2), (1, 2, 3), (1, 2, 3), (1, 2, 3), (1, 2, 3)),
    ((-1, -3), 0.5, (0, -2), (0, -1), (0, -1), (0, -1), (0, -1)),
    ((2, -2, -6), 0.25, (0, 0, -2), (1, 0, -1), (1, -1, -2), (1, 0, -1), (1, 0, -1)),
    ((253, -253), 1 / 3, (84, -84), (84, -84), (85, -85), (84, -84), (84, -84)),
    ((10, -10), 0.05, (0, 0), (1, -1), (1, -1), (0, 0), (1, -1)),
    ((30,), 0.05, (2,), (2,), (2,), (1,), (2,)),
    ((-85,), 1.5, (-128,), (-127,), (-127,), (-127,), (-127,)),
)


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@loop("row, isa", TABLE, LEVELS)
def test_the_table(row, arithmetic, isa):
    v, real, *results = row
    expected = list(results[ARITHMETICS.index(arithmetic)])
    for count in (1, 40):  # one copy of `v`, then several chunks
        got = requantize_at(isa, np.int32(v * count), real, arithmetic=arithmetic)
        assert got.tolist() == expected * count
    assert [product(one, real, arithmetic) for one in v] == expected


MULTIPLIERS = (
    (1 / 3, "tflite", 1431655765, -1),
    (np.float32(1 / 3), "tflite", 1431655808, -1),
    (0.0123456, "tflite", 1696766344, -6),
    (1.0, "tflite", 1073741824, 1),
    (1.0, "fbgemm", 2**30, 30),
    (3e-10, "tflite", 1383505806, -31),
    (1e-10, "tflite", 0, 0),
    (1e-300, "tflite_single", 0, 0),
    (5e-324, "tflite", 0, 0),
    (2.0**30, "tflite_single", 2**31 - 1, 30),
    (1e300, "tflite_single", 2**31 - 1, 30),
    (1 - 2.0**-53, "tflite", 2**30, 1),
    (0.5, "rndnu", 2**23, 24),
    (255.99998, "rndnu", 2**24 - 1, 16),
    (2.0**-32, "rndnu", 2**23, 55),
    (2.0**-32, "fbgemm", 2**30, 62),
    (2.0**29, "fbgemm", 2**30, 1),
    (3.0, "fbgemm", 3 * 2**29, 29),
)


@loop("example", MULTIPLIERS)
def test_multipliers(example):
    real, arithmetic, m, shift = example
    got = pq.fixedpoint.fixed_point(real, arithmetic)
    assert tuple(map(type, got)) == (np.int32, np.int8)
    assert tuple(map(int, got)) == (m, shift)
    assert fixed(real, arithmetic) == (m, shift)


@pytest.mark.parametrize("arithmetic", FIXED)
def test_multipliers_of_any_number(arithmetic):
    rng = np.random.default_rng(1)
    numbers = np.ldexp(rng.uniform(0.5, 1, (300, 4)), rng.integers(-31, 9, (300, 4)))
    numbers[:, 1] = np.ldexp(0.5, rng.integers(-30, 9, 300))
    numbers[:, 2] = np.nextafter(numbers[:, 1], 0)
    for reals in (numbers, numbers.astype(np.float32), numbers.astype(">f8")):
        reals = np.clip(reals, 2.0**-32, 255.9)
        m, shift = pq.fixedpoint.fixed_point(reals, arithmetic)
        assert m.shape == shift.shape == reals.shape
        expected = [fixed(real, arithmetic) for real in reals.ravel()]
        assert (
            list(zip(m.ravel().tolist(), shift.ravel().tolist(), strict=False)) == expected
        )


# Random arguments


def draw(rng, dtype, count):
    """Return random integers of all magnitudes. A tenth are the lowest or the highest."""
    lo, hi = code_range(dtype)
    q = rng.integers(lo, hi, count, dtype=dtype, endpoint=True)
    q = q >> rng.integers(0, np.iinfo(dtype).bits, count).astype(dtype)
    q[rng.random(count) < 0.05] = lo
    q[rng.random(count) < 0.05] = hi
    return q


def draw_reals(rng, count, q):
    """Return random multipliers: any size, powers of two, or results within the range."""
    kind = rng.integers(0, 4)
    if kind == 0:
        return np.ldexp(rng.uniform(0.5, 1, count), rng.integers(-31, 8, count))
    if kind == 1:
        return np.ldexp(0.5, rng.integers(-30, 8, count))
    near = 100 / (np.median(np.abs(q.astype(float))) + 1)
    reals = np.clip(near * rng.uniform(0.3, 2, count), 2.0**-32, 255)
    return reals.astype(np.float32) if kind == 2 else reals


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@loop("seed", range(amount(8, 60)))
def test_by_definition(seed, arithmetic):
    rng = np.random.default_rng([seed, ARITHMETICS.index(arithmetic)])
    source, target = str(rng.choice(SOURCES)), str(rng.choice(TARGETS))
    if seed % 2:
        source = "int32"
    count = int(rng.choice([1, 5, 15, 31, 32, 33, 100, 700]))
    q = draw(rng, source, count)
    reals = draw_reals(rng, count if rng.random() < 0.5 else 1, q)
    ends = code_range(target)
    zero = int(rng.integers(*ends, endpoint=True))
    input_zero = int(draw(rng, source, 1)[0]) if rng.random() < 0.4 else 0
    bias = None
    if rng.random() < 0.5:
        most = 2 ** int(rng.choice([5, 20, 31, 40, 62]))
        bias = rng.integers(-most, most, count if rng.random() < 0.5 else 1)
        bias = bias.astype(np.int32) if most < 2**31 else bias
    clip = None
    if rng.random() < 0.4:
        clip = ends = tuple(sorted(rng.integers(*ends, 2, endpoint=True).tolist()))
    options = {
        "dtype": target,
        "input_zero_point": input_zero,
        "bias": bias,
        "quant_range": clip,
        "axis": 0,
        "arithmetic": arithmetic,
    }
    biases = itertools.repeat(0) if bias is None else np.resize(bias, count)
    expected = [
        code(v, real, arithmetic, zero=zero, input_zero=input_zero, bias=b, ends=ends)
        for v, real, b in zip(q, np.resize(reals, count), biases, strict=False)
    ]
    for isa in LEVELS:
        got = requantize_at(isa, q, reals, zero, **options)
        assert got.dtype == target
        assert got.tolist() == expected, isa
    if arithmetic != "float32":
        m, shift = pq.fixedpoint.fixed_point(reals, arithmetic)
        assert pq.requantize(q, m, zero, shift=shift, **options).tolist() == expected


PAIRS = ((2, 4100), None), ((5, 7), None), ((3, 4, 5), (2, 0)), ((300, 3), (0, -1))
PAIRS += ((0, 4), None), ((4, 0), None), ((2, 3, 0), (0, 1))


@loop("arithmetic, pair", ARITHMETICS, PAIRS)
def test_two_multipliers_are_an_outer_product(arithmetic, pair, monkeypatch):
    shape, axis = pair
    rng = np.random.default_rng(7)
    axes = sorted(d % len(shape) for d in axis or (-2, -1))
    q = draw(rng, "int32", shape)
    first, second = (np.ldexp(0.5, rng.integers(-12, 4, shape[d])) for d in axes)
    second *= rng.uniform(0.5, 1, second.shape)
    products = np.multiply.outer(np.float32(first), np.float32(second))
    bias = rng.integers(-(2**40), 2**40, second.size) >> rng.integers(0, 40, second.size)
    others = [d for d in range(q.ndim) if d not in axes]
    reals = np.broadcast_to(np.expand_dims(products, others), shape)
    biases = np.expand_dims(np.broadcast_to(bias, products.shape), others)
    biases = np.broadcast_to(biases, shape)
    monkeypatch.setattr("pyquant._threads.MIN_PART_BYTES", 1)
    for more, added in ({}, 0 * biases), ({"bias": bias}, biases):
        due = [
            code(*one, arithmetic, zero=3, bias=b, ends=(-128, 127))
            for *one, b in zip(q.flat, reals.flat, added.flat, strict=True)
        ]
        how = {"axis": axis, "arithmetic": arithmetic, **more}
        for threads in 1, 3:
            got = pq.requantize(q, (first, second), 3, threads=threads, **how)
            assert got.ravel().tolist() == due
        out = np.full(shape[::-1], 7, np.int8).T
        assert pq.requantize(q, (-first, -second), 3, out=out, **how) is out
        assert out.ravel().tolist() == due


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
def test_two_multipliers_with_a_wrong_product(arithmetic):
    """Reject a pair of multiplier arrays if one product is no valid multiplier."""
    q, out = np.int32([[1, 2], [3, 4]]), np.full((2, 2), 7, np.int8)
    twos = np.float32([2, 2])
    for wrong in (2e38, 0, -1, np.nan, np.inf):
        for pair in ([2, wrong], twos), (twos, [wrong, 2]), ([-2, -wrong], -twos):
            pair = tuple(map(np.float32, pair))
            with pytest.raises(ValueError, match=r"^multiplier: expected "):
                pq.requantize(q, pair, arithmetic=arithmetic, out=out)
    assert (out == 7).all()


@loop("arithmetic, target", FIXED, TARGETS)
def test_stored_integers(arithmetic, target):
    """Test integer multipliers and shifts that `fixed_point` would not return."""
    rng = np.random.default_rng(3)
    ends, count = code_range(target), 400
    q = draw(rng, "int32", count)
    q[:40] = -(2**31)
    m = rng.integers(0, 2**31, count, dtype=np.int32) >> rng.integers(0, 31, count)
    shift = rng.integers(*((-31, 31) if "tflite" in arithmetic else (1, 63)), count)
    expected = [
        code(v, None, arithmetic, ends=ends, stored=(int(a), int(b)))
        for v, a, b in zip(q, m, shift, strict=False)
    ]
    how = {"dtype": target, "arithmetic": arithmetic}
    for isa, dtype in itertools.product(LEVELS, ("int8", "int64", ">i2")):
        got = requantize_at(isa, q, m, axis=0, shift=shift.astype(dtype), **how)
        assert got.tolist() == expected
    for a, b, v in zip(m[:40], shift[:40], expected, strict=False):
        got = pq.requantize(q[:1], a, shift=b, **how)
        assert got.tolist() == [v]


@pytest.mark.parametrize("arithmetic", ARITHMETICS)
@loop("isa", LEVELS)
def test_the_ends_of_int32(arithmetic, isa):
    """Test multipliers of all sizes, each in a separate call and all in one call."""
    ends = [-(2**31), 1 - 2**31, -(2**30), -1, 0, 1, 2**30, 2**31 - 2, 2**31 - 1]
    reals = [m * 2.0**e for e in range(-31, 7) for m in (1, 1.5, 1 - 2.0**-24)]
    reals = [real for real in reals if 2.0**-32 <= real < 256]
    q, by = np.meshgrid(np.int32(ends), reals)
    for target in ("int8", "uint16"):
        expected = [
            [code(v, real, arithmetic, zero=7, ends=code_range(target)) for v in ends]
            for real in reals
        ]
        how = {"dtype": target, "arithmetic": arithmetic}
        got = requantize_at(isa, q, by[:, 0], 7, axis=0, **how)
        assert got.tolist() == expected
        mixed = np.random.default_rng(4).permutation(q.size)  # both directions
        flat = requantize_at(isa, q.ravel()[mixed], by.ravel()[mixed], 7, axis=0, **how)
        assert np.array_equal(flat, np.ravel(expected)[mixed])
        for real, row in zip(reals, expected, strict=True):
            assert (
                requantize_at(isa, np.resize(q[0], 63), real, 7, **how).tolist() == row * 7
            )


@loop("arithmetic", ARITHMETICS)
def test_sums_beyond_int32(arithmetic):
    q = np.int32([2**31 - 1, -(2**31), 5, -5] * 20)
    for bias in (2**31 - 1, -(2**31), 2**40):
        how = {"arithmetic": arithmetic, "dtype": "int16"}
        got = pq.requantize(q, 2.0**-26, bias=np.int64(bias), **how)
        ends = code_range("int16")
        expected = [code(v, 2.0**-26, arithmetic, bias=bias, ends=ends) for v in q]
        assert got.tolist() == expected


def test_sums_beyond_int64():
    ends = code_range("int64")
    for v, zero, bias in itertools.product(ends, (*ends, 0), (*ends, 0)):
        for arithmetic in ARITHMETICS:
            how = {"arithmetic": arithmetic, "dtype": "int32", "input_zero_point": zero}
            got = pq.requantize(np.int64(v), 2.0**-31, bias=np.int64(bias), **how)
            given = {"input_zero": zero, "bias": bias, "ends": code_range("int32")}
            assert int(got) == code(v, 2.0**-31, arithmetic, **given)


@loop("arithmetic", ARITHMETICS)
def test_any_number_of_channels(arithmetic):
    """Test many channels, because the core prepares the multipliers of 512 at a time."""
    rng = np.random.default_rng(6)
    for channels, inner in ((1100, 1), (600, 3), (520, 40), (3, 1500)):
        q = rng.integers(-30000, 30000, (2, channels, inner), dtype=np.int32)
        reals, bias = rng.uniform(0.001, 0.9, channels), rng.integers(-99, 99, channels)
        one = [
            pq.requantize(q[:, c], reals[c], 3, bias=bias[c], arithmetic=arithmetic)
            for c in range(channels)
        ]
        for axis in (0, 1, 2, -1):
            given = np.moveaxis(q, 1, axis)
            for part in (given, given.copy()):
                got = pq.requantize(
                    part, reals, 3, bias=bias, axis=axis, arithmetic=arithmetic
                )
                assert np.array_equal(np.moveaxis(got, axis, 0), one)


def test_kinds_of_arguments():
    q = np.int32([100, -100])
    expected = [50, -50]
    for multiplier in (0.5, [0.5, 0.5], np.float32(0.5), np.float64([0.5]), (0.5,)):
        axis = 0 if np.size(multiplier) > 1 else None
        assert pq.requantize(q, multiplier, axis=axis).tolist() == expected
    assert pq.requantize([100, -100], 0.5).tolist() == expected
    assert pq.requantize(q, 1).tolist() == [100, -100]
    assert pq.requantize(q, 0.5, np.int64(3), bias=[2]).tolist() == [54, -46]
    assert pq.requantize(q, 0.5, quant_range=(0, 6)).tolist() == [6, 0]
    assert pq.requantize(q, 0.5, quant_range=(0, 0)).tolist() == [0, 0]
    zero_d = pq.requantize(np.int32(100), 0.5)
    assert zero_d.shape == ()
    assert int(zero_d) == 50
    assert pq.requantize(np.int32([]), 0.5).tolist() == []
    empty = pq.requantize(np.zeros((3, 0), np.int32), np.ones(0), axis=1)
    assert empty.shape == (3, 0)
    frozen = q.copy()
    frozen.setflags(write=False)
    assert pq.requantize(frozen, 0.5).tolist() == expected


def test_fixed_point_of_many_dimensions():
    m, shift = pq.fixedpoint.fixed_point(np.full((1,) * 63 + (2,), 0.75))
    assert m.shape == shift.shape == (1,) * 63 + (2,)
    assert m.ravel().tolist() == [3 << 29, 3 << 29]
    assert shift.ravel().tolist() == [0, 0]


# ---- From codes to codes, by QParams.requantize ----


def drawn_params(rng, name, shape):
    """Return parameters of a random granularity for codes of a type."""
    axis, block = draw_granularity(rng, shape)
    extents = parameter_shape(shape, axis, block)
    scale = rng.random(extents) * 10 ** rng.uniform(-2, 2) + 1e-3
    if rng.random() < 0.4:  # powers of two cause ties
        scale = np.exp2(np.rint(np.log2(scale)))
    scale = scale.astype(rng.choice(["f4", "f8", "f2"]))
    options = {"axis": axis, "block_size": block}
    lowest, highest = (-9, 9) if name.startswith("int") else (0, 9)
    zero = None if name.startswith("float") else rng.integers(lowest, highest, extents)
    if rng.random() < 0.4:
        options["offset"] = (rng.normal(size=extents) * 3).astype(scale.dtype)
    if name == "uint8" and rng.random() < 0.2:
        options |= {"fill": 255, "quant_range": (0, 254)}
    return pq.QParams(scale, zero, name, **options)


def random_codes(rng, dtype, shape):
    """Return codes with any bits, in a random layout."""
    data = np.frombuffer(rng.bytes(math.prod(shape) * dtype.itemsize), dtype)
    return draw_layout(rng, data.reshape(shape))


@pytest.mark.parametrize("seed", range(4))
def test_codes_to_codes_equal_two_calls(isa, seed):
    rng = np.random.default_rng(seed)
    names = [*SOURCES, "uint64", "float8_e4m3fn"]
    for _ in range(amount(25, 400)):
        shape = tuple(rng.integers(1, 40, rng.integers(1, 4)).tolist())
        if rng.random() < 0.1:  # several boxes
            shape = (*shape[:-1], int(rng.integers(1, 30000 // math.prod(shape[:-1]) + 2)))
        short = rng.random() < 0.5
        types = [str(rng.choice(["int8", "uint8"] if short else names)) for _ in range(2)]
        source, target = (drawn_params(rng, name, shape) for name in types)
        q = random_codes(rng, source.dtype, shape)
        expected = target.quantize(source.dequantize(q))
        out = np.empty(shape[::-1], target.dtype).T
        with case(source=source, target=target, shape=shape, strides=q.strides):
            same(at_level(isa, target.requantize, q, source), expected)
            at_level(isa, target.requantize, q, source, out=out, threads=2)
            same(out, expected)


def test_a_multiplication_rescales_8_bit_codes(isa):
    """Test all 256 codes of each group with the kernel that multiplies codes."""
    rng = np.random.default_rng(3)
    for _ in range(amount(10, 100)):
        groups = int(rng.integers(1, 70))
        types = [str(rng.choice(["int8", "uint8"])) for _ in range(2)]
        source, target = (
            pq.QParams(
                np.exp2(rng.integers(-4, 4, groups)) if tied else rng.random(groups) + 0.01,
                rng.integers(0, 128, groups),
                name,
                axis=1,
                offset=rng.normal(size=groups) if name == "uint8" else None,
            )
            for name, tied in zip(types, rng.random(2) < 0.5, strict=True)
        )
        codes = np.arange(256, dtype=np.uint8).view(types[0])
        q = np.broadcast_to(codes[:, None], (256, groups))
        with case(source=source, target=target):
            assert rescaling(target, source) is not None
            expected = target.quantize(source.dequantize(q))
            same(at_level(isa, target.requantize, q, source), expected)


@loop("name", ["fill", "quant_range", "coarse", "blocks", "axes", "many"])
def test_codes_that_a_multiplication_does_not_rescale(name):
    first = {"scale": np.float32([0.5, 0.25, 3]), "dtype": "uint8", "axis": 0}
    last = dict(first, dtype="int8")
    changes = {
        "fill": {"fill": 3},
        "quant_range": {"quant_range": (-5, 5)},
        "coarse": {"offset": np.float32([1e8, 0, 0])},  # float32 rounds to multiples of 8
        "blocks": {"scale": np.float32([[1], [2]]), "block_size": 2},
        "axes": {"scale": np.float32([1, 2, 3, 4]), "axis": 1},
        "many": {"scale": np.ones(5000, "f4"), "axis": 1},
    }
    if name == "coarse":
        first |= changes[name]
    source, target = pq.QParams(**first), pq.QParams(**(last | changes[name]))
    assert rescaling(target, source) is None
    q = np.resize(np.arange(256, dtype=np.uint8), (3, 5000 if name == "many" else 4))
    if name == "blocks":
        q = np.resize(q, (3, 1))
    same(target.requantize(q, source), target.quantize(source.dequantize(q)))


def test_parameters_of_one_scale_and_several_offsets():
    """Test one scale with several offsets. `axis` is then the axis of the offsets."""
    q = np.arange(9, dtype=np.uint8).reshape(3, 3)
    rows = pq.QParams(0.5, None, "uint8", axis=0, offset=np.float32([0, 1, 2]))
    columns = pq.QParams(np.float32([1, 2, 3]), None, "uint8", axis=1)
    one = pq.QParams(1.0, None, "uint8", offset=np.float32(np.inf))
    for source, target in itertools.permutations((rows, columns, one), 2):
        with np.errstate(all="raise"):
            got = target.requantize(q, source)
        same(got, target.quantize(source.dequantize(q)))
    assert rescaling(pq.QParams(0.25, None, "int8"), rows) is not None
    far = pq.QParams(np.float32([0.5]), None, "uint8", axis=5)
    for source, target in ((far, one), (one, far)):
        with pytest.raises(np.exceptions.AxisError):
            target.requantize(q, source)


def test_parameters_do_not_keep_their_source_alive():
    source, target = pq.QParams(0.5, None, "uint8"), pq.QParams(0.25, None, "int8")
    target.requantize(np.uint8([1, 2]), source)
    alive = weakref.ref(source)
    del source
    gc.collect()
    assert alive() is None
    other = pq.QParams(0.125, None, "uint8")
    same(target.requantize(np.uint8([2, 4]), other), np.int8([1, 2]))


def test_normalized_pixels():
    """Compare pixels with float64 arithmetic, and codes with two separate calls."""
    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    image = np.random.default_rng(0).integers(0, 256, (37, 41, 3), np.uint8)
    planes = image.transpose(2, 0, 1)
    pixels = pq.QParams.from_normalization(mean, std, axis=0)
    same(pixels.scale, np.float32(1 / (255 * np.float64(std))))
    same(pixels.offset, np.float32(-np.float64(mean) / np.float64(std)))
    numbers = pixels.dequantize(planes)
    exact = (planes / 255 - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    assert np.abs(numbers - exact).max() < 2**-21  # rounded twice below 4
    model_input = pq.QParams(np.float32(0.0186), -14, "int8")
    for order in (planes, planes[::-1], np.ascontiguousarray(planes), planes[:, 3:30:2]):
        codes = model_input.requantize(order, pixels)
        expected = pq.onnx.quantize_linear(
            pixels.dequantize(order), np.float32(0.0186), np.int8(-14)
        )
        same(codes, expected)
    by_last = pq.QParams.from_normalization(mean, std, axis=-1)
    same(
        model_input.requantize(image, by_last).transpose(2, 0, 1),
        model_input.requantize(planes, pixels),
    )
    assert pq.QParams.from_normalization(0.5, 0.25).axis is None
    back = pixels.requantize(model_input.requantize(planes, pixels), model_input)
    same(
        back,
        pixels.quantize(model_input.dequantize(model_input.requantize(planes, pixels))),
    )
