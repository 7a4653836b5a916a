"""Integers of 2 and 4 bits and floats of 4 to 8, judged by exact arithmetic."""

import re

import numpy as np
import oracle
import pytest
from support import (
    CODE_NAMES,
    MODES,
    NARROW,
    PRECISIONS,
    REALS,
    adversarial,
    amount,
    cast,
    compute_dtype,
    dtype_of,
    each,
    expand,
    float_of_bits,
    misaligned,
    mixed_scales,
    parameter_shape,
    poisoned,
    same,
    scales_for,
    specials,
    split_small_arrays,
    untouched,
    usual_scales,
    zero_points,
)

import pyquant as pq
from pyquant._core import choose_qparams_at, dequantize_at, quantize_at
from pyquant.dtypes import NARROW_FLOATS, NARROW_INTEGERS, TYPES

# Its types are the subject; test_without_ml_dtypes.py has what works without it.
ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; the types tried are its

LIMITS = {name: oracle.code_range(name) for name in NARROW_INTEGERS}
FLOATS = oracle.NARROW_FORMATS

# (shape, axis, block_size)
FORMS = [
    ((), None, None),
    ((9,), None, None),
    ((131,), None, None),
    ((131,), 0, None),
    ((131,), 0, 32),
    ((10,), -1, 3),
    ((3, 35), 0, None),
    ((3, 35), 1, None),
    ((3, 35), (1, 0), None),
    ((3, 35), 1, 16),
    ((35, 3), 0, 16),
    ((2, 3, 5, 5), 1, None),
    ((2, 3, 5, 5), (0, 2), None),
    ((3, 20, 3), 1, 8),
    ((7, 9), None, (2, 4)),
    ((5, 6, 4), None, (2, 3, 3)),
    ((0, 3), 1, None),
    ((3, 0), 0, None),
]
FULL = [f for f in FORMS if f[0] and 0 not in f[0]]


def test_the_oracle_and_ml_dtypes_read_the_same():
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


def arguments(form, name, source="float32", seed=0):
    """Keyword arguments of a form, and the same parameters for each element."""
    shape, axis, block = form
    params = parameter_shape(shape, axis, block)
    count = int(np.prod(params))
    make = mixed_scales if seed % 2 else usual_scales
    scale = make(compute_dtype(source), count, seed).reshape(params)
    zero = np.zeros(params, np.int8)
    if name in LIMITS:
        lo, hi = LIMITS[name]
        zero = np.resize(np.arange(lo, hi + 1), count).reshape(params).astype(np.int8)
    kwargs = {"scale": scale, "zero_point": zero, "axis": axis, "block_size": block}
    return kwargs, expand(scale, shape, axis, block), expand(zero, shape, axis, block)


def inputs(shape, source="float32", scale=0.3, seed=0):
    return adversarial(source, scale, int(np.prod(shape)), seed=seed).reshape(shape)


def random_codes(name, count, seed=0):
    """Codes, with garbage above the bits that have a meaning."""
    rng = np.random.default_rng([seed, count])
    return rng.integers(0, 256, count, dtype=np.uint8).view(dtype_of(name))


def midpoints(name):
    """The numbers between two neighbours of a type, as far as the first overflow."""
    if name in LIMITS:
        lo, hi = LIMITS[name]
        return np.arange(lo - 1, hi + 2) + 0.5
    fmt = FLOATS[name]
    codes = range(fmt.largest + 1)
    values = [float(oracle.decode_narrow(c, fmt).magnitude) for c in codes]
    values.append(2 * values[-1] - values[-2])
    between = (np.array(values[1:]) + np.array(values[:-1])) / 2
    return np.concatenate([between, -between])


def layouts(array):
    """The same array in other layouts."""
    yield array.copy("F")
    reverse = (slice(None, None, -1),) * array.ndim
    yield array[reverse].copy()[reverse]
    yield np.repeat(array, 3, axis=-1)[..., 1::3]
    yield np.repeat(array, 2, axis=0)[::2]
    yield misaligned(array, 13)


# Every granularity, type and layout


@each("form, name", FORMS, NARROW)
def test_quantize(form, name, isa):
    for seed, source in enumerate(REALS[: amount(1, 4)]):
        x = inputs(form[0], source, seed=seed)
        kwargs, scale, zero = arguments(form, name, source, seed)
        got = quantize_at(isa, x, dtype=name, **kwargs)
        same(got, oracle.quantize(x, scale, zero, dtype=name))


@each("form, name", FORMS, NARROW)
def test_dequantize(form, name, isa):
    for seed, target in enumerate(REALS[: amount(1, 4)]):
        q = random_codes(name, int(np.prod(form[0]))).reshape(form[0])
        kwargs, scale, zero = arguments(form, name, target, seed)
        got = dequantize_at(isa, q, dtype=target, **kwargs)
        same(got, oracle.dequantize(q, scale, zero, dtype=target))


@each("form, name", FULL, NARROW)
def test_every_layout(form, name, isa):
    x, (kwargs, *_) = inputs(form[0]), arguments(form, name)
    codes = quantize_at(isa, x, dtype=name, **kwargs)
    reals = dequantize_at(isa, codes, **kwargs)
    for view in (*layouts(x), x.astype(">f4")):
        same(quantize_at(isa, view, dtype=name, **kwargs), codes)
    for view in layouts(codes):
        same(dequantize_at(isa, view, **kwargs), reals)
    for out in layouts(poisoned(dtype_of(name), form[0])):
        assert quantize_at(isa, x, dtype=name, out=out, **kwargs) is out
        same(out.copy("C"), codes)
    for out in (*layouts(poisoned("f4", form[0])), poisoned(">f4", form[0])):
        assert dequantize_at(isa, codes, out=out, **kwargs) is out
        same(out.astype("f4", order="C"), reals)


@each("form, name", FULL, NARROW)
def test_threads(form, name, monkeypatch):
    x, (kwargs, *_) = inputs(form[0]), arguments(form, name)
    codes = pq.quantize(x, dtype=name, **kwargs)
    reals = pq.dequantize(codes, **kwargs)
    with split_small_arrays(monkeypatch):
        for threads in (2, 5):
            same(pq.quantize(x, dtype=name, threads=threads, **kwargs), codes)
            same(pq.dequantize(codes, threads=threads, **kwargs), reals)


@pytest.mark.parametrize("name", NARROW)
def test_lengths(name, isa):
    x = inputs((1100,))
    codes = quantize_at(isa, x, 0.3, dtype=name)
    reals = dequantize_at(isa, codes, 0.3)
    for count in (*range(70), 127, 128, 129, 255, 1023, 1099):
        same(quantize_at(isa, x[:count], 0.3, dtype=name), codes[:count])
        same(dequantize_at(isa, codes[1 : count + 1], 0.3), reals[1 : count + 1])


@each("name, source", NARROW, REALS)
def test_unusual_scales(name, source, isa):
    for scale in scales_for(compute_dtype(source)).values():
        x = inputs((48,), source, float(scale[0]))[-16:]
        x = np.concatenate([specials(source), x])
        zero = 0 if name in FLOATS else 1
        got = quantize_at(isa, x, scale, zero, dtype=name)
        same(got, oracle.quantize(x, scale, zero, dtype=name))


# Midpoints


@each("name, target", NARROW, ["float32", "float64"])
def test_beside_a_midpoint(name, target, isa):
    # The nearest that float32 and float64 allow, and 2**-40 beside it: rounding such a
    # float64 quotient to float32 first would move it onto the midpoint.
    points = midpoints(name).astype(target)
    up = np.nextafter(points, cast(np.inf, target))
    down = np.nextafter(points, cast(-np.inf, target))
    x = np.concatenate([points, up, down, points * (1 + 2**-20), points * (1 - 2**-20)])
    if target == "float64":
        near = [points * (1 + sign * 2.0**-40) for sign in (1, -1)]
        x = np.concatenate([x, *near])
    x = x.astype(target)
    for scale in (1.0, -0.25, 2.0**60)[: amount(1, 3)]:
        got = quantize_at(isa, x * x.dtype.type(scale), scale, dtype=name)
        same(
            got,
            oracle.quantize(
                x * x.dtype.type(scale), np.array(scale, target), 0, dtype=name
            ),
        )
    for block in (1, 32):
        scale = np.exp2(np.arange(-(-x.size // block)) % 5).astype(target)
        spread = expand(scale, x.shape, 0, block)
        got = quantize_at(isa, x * spread, scale, dtype=name, axis=0, block_size=block)
        same(got, oracle.quantize(x * spread, spread, 0, dtype=name))


@pytest.mark.parametrize("name", NARROW)
def test_double_rounding_is_avoided(name):
    # Even without an oracle: beside a midpoint, the code is never that of the other side.
    points = midpoints(name)
    points = points[points > 0]
    above = pq.quantize(points * (1 + 2.0**-40), 1.0, dtype=name)
    below = pq.quantize(points * (1 - 2.0**-40), 1.0, dtype=name)
    apart = pq.dequantize(above, 1.0) - pq.dequantize(below, 1.0)
    inside = points < (LIMITS[name][1] if name in LIMITS else float(oracle.largest(name)))
    assert (apart[inside] > 0).all()
    assert (apart[~inside] == 0).all()
    # Asked for float32 quotients, both are on the midpoint.
    rounded = [
        pq.quantize(points * (1 + sign * 2.0**-40), 1.0, dtype=name, precision="float32")
        for sign in (1, -1)
    ]
    same(rounded[0], rounded[1])


@each("name, precision", NARROW, PRECISIONS)
def test_precision(name, precision, isa):
    for seed, source in enumerate(REALS[: amount(1, 4)]):
        x = inputs((150,), source, 0.7, seed)
        compute = compute_dtype(source)
        for scale in (0.7, 3e-5):
            scale = np.array(scale, compute)
            got = quantize_at(isa, x, scale, dtype=name, precision=precision)
            same(got, oracle.quantize(x, scale, 0, dtype=name, precision=precision))


# Integers


@each("name, mode", NARROW_INTEGERS, MODES)
def test_rounding_modes(name, mode, isa):
    lo, hi = LIMITS[name]
    halves = np.arange(2 * lo - 5, 2 * hi + 6) / 2
    x = np.concatenate([halves, np.nextafter(halves, 99), np.nextafter(halves, -99)])
    for source in REALS:
        values = np.concatenate([cast(x, source), inputs((99,), source)])
        for zero in (lo, 0, hi):
            got = quantize_at(isa, values, 1.0, zero, dtype=name, rounding=mode)
            scale = np.ones((), compute_dtype(source))
            same(got, oracle.quantize(values, scale, zero, dtype=name, rounding=mode))
        scale = usual_scales(compute_dtype(source), values.size)
        got = quantize_at(isa, values, scale, hi, dtype=name, rounding=mode, axis=0)
        same(got, oracle.quantize(values, scale, hi, dtype=name, rounding=mode))


@pytest.mark.parametrize("name", NARROW_INTEGERS)
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


@pytest.mark.parametrize("name", NARROW_INTEGERS)
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


@pytest.mark.parametrize("name", NARROW_INTEGERS)
def test_bits_without_a_meaning(name, isa):
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


@pytest.mark.parametrize("name", [n for n in NARROW_FLOATS if TYPES[n].bits < 8])
def test_bits_without_a_meaning_in_floats(name, isa):
    q = np.arange(256, dtype=np.uint8)
    plain = q & (2 * FLOATS[name].sign_bit - 1)
    for target in REALS:
        got = dequantize_at(isa, q.view(dtype_of(name)), 0.3, dtype=target)
        same(got, dequantize_at(isa, plain.view(dtype_of(name)), 0.3, dtype=target))


def test_every_zero_point_within_the_types_is_taken():
    for name, (lo, hi) in LIMITS.items():
        wide = "int8" if lo else "uint8"
        for zero in (z for z in zero_points(wide) if not lo <= z <= hi):
            text = f"zero_point: expected integers from {lo} to {hi} for {name}, got {zero}"
            for given in (zero, np.array(zero, wide), [zero], np.int64([zero])):
                for call in (
                    lambda z, n=name: pq.quantize(np.float32([1]), 1.0, z, dtype=n),
                    lambda z, n=name: pq.dequantize(np.zeros(1, dtype_of(n)), 1.0, z),
                ):
                    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
                        call(given)


# Floats


@each("name, saturate", NARROW_FLOATS, [True, False])
def test_what_is_too_large(name, saturate, isa):
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
    # Halfway beyond the largest number goes to the even neighbour, which is above it
    # where the largest has an odd code.
    assert (codes[0], codes[2]) == (fmt.largest, fmt.largest)
    assert codes[3:5] == [over, over]
    assert codes[1] == (over if fmt.largest % 2 else fmt.largest)


@each("name, saturate", NARROW_FLOATS, [True, False])
def test_saturation_with_other_options(name, saturate, isa):
    for form in (((150,), None, None), ((150,), 0, None), ((3, 50), 1, 16)):
        for seed, source in enumerate(REALS[: amount(1, 4)]):
            x = inputs(form[0], source, 0.01, seed)
            kwargs, scale, _ = arguments(form, name, source, seed)
            got = quantize_at(isa, x, dtype=name, saturate=saturate, **kwargs)
            same(got, oracle.quantize(x, scale, dtype=name, saturate=saturate))


@pytest.mark.parametrize("name", NARROW_FLOATS)
def test_zeros_are_the_only_zero_points(name):
    x = np.float32([-0.0, 1, -2])
    expected = pq.quantize(x, 0.5, dtype=name)
    q = dtype_of(name)
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
    text = f"zero_point: expected None or zeros for {name}"
    for zero in (1, -1, [1], np.int8(5), np.uint64([2**63]), np.ones(1, q)):
        with pytest.raises(ValueError, match=f"^{text}$"):
            pq.quantize(x, 0.5, zero, dtype=name)
        with pytest.raises(ValueError, match=f"^{text}$"):
            pq.dequantize(expected, 0.5, zero)


@pytest.mark.parametrize("name", ["float8_e8m0fnu", *NARROW_FLOATS])
def test_scales_of_narrow_floats(name, isa):
    bits = np.arange(256, dtype=np.uint8)
    if name in FLOATS:
        bits = bits[: 2 * FLOATS[name].sign_bit]
    scale = bits.view(dtype_of(name))
    if name in FLOATS:
        numbers = [oracle.decode_narrow(b, FLOATS[name]) for b in bits.tolist()]
        wide = float_of_bits([oracle.encode(n, oracle.FLOAT32) for n in numbers])
    else:  # powers of two from 2**-127, and a NaN
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


def test_scales_of_integers_of_few_bits():
    x = inputs((16,))
    for name, (lo, hi) in LIMITS.items():
        every = np.arange(lo, hi + 1)
        scale = every.astype(dtype_of(name))
        part = x[: every.size]
        same(
            pq.quantize(part, scale, axis=0),
            pq.quantize(part, every.astype(np.float32), axis=0),
        )


# dtype


@pytest.mark.parametrize("name", NARROW)
def test_spellings_of_a_type(name):
    x = inputs((99,))
    expected = pq.quantize(x, 0.3, dtype=name)
    assert expected.dtype == dtype_of(name)
    same(pq.quantize(x, 0.3, dtype=dtype_of(name)), expected)
    same(pq.quantize(x, 0.3, dtype=dtype_of(name).type), expected)
    out = poisoned(dtype_of(name), 99)
    assert pq.quantize(x, 0.3, dtype=name, out=out) is out
    same(out, expected)


@pytest.mark.parametrize("name", NARROW)
def test_the_default_is_the_type_of_the_zero_point(name):
    x = inputs((99,))
    expected = pq.quantize(x, 0.3, dtype=name)
    zero = np.zeros(1, dtype_of(name))
    for given in (zero, zero[0], zero.reshape(())):
        same(pq.quantize(x, 0.3, given), expected)
    assert pq.quantize(x, 0.3, 0).dtype == pq.quantize(x, 0.3, [0]).dtype == np.int8


# Choosing parameters


@each("name, source", NARROW, REALS)
def test_choose_qparams(name, source, isa):
    rng = np.random.default_rng(7)
    for values in (
        rng.normal(size=33),
        rng.normal(size=33) * 1e-4,
        rng.uniform(2, 3, 33),
        -rng.uniform(2, 3, 33),
        np.zeros(33),
        np.full(33, 6e-8),
        np.full(33, 60000.0),
    ):
        x = cast(values, source)
        for symmetric in (True, False) if name in LIMITS else (True,):
            scale, zero = choose_qparams_at(isa, x, dtype=name, symmetric=symmetric)
            want, want_zero = oracle.choose_qparams(x, dtype=name, symmetric=symmetric)
            same(scale.reshape(1), want)
            assert zero.tolist() == want_zero
            assert zero.dtype == ("uint8" if name.startswith("u") else "int8")


@each("form, name", FULL, NARROW)
def test_choose_qparams_of_groups(form, name):
    shape, axis, block = form
    x = np.random.default_rng(8).normal(size=shape).astype(np.float32)
    p = pq.choose_qparams(x, dtype=name, axis=axis, block_size=block, symmetric=True)
    params = parameter_shape(shape, axis, block)
    assert p.scale.shape == p.zero_point.shape == params
    group = expand(np.arange(p.scale.size).reshape(params), shape, axis, block)
    for i, scale in enumerate(p.scale.reshape(-1)):
        same(np.array([scale]), oracle.choose_qparams(x[group == i], dtype=name)[0])
    same(
        p.quantize(x),
        pq.quantize(x, p.scale, p.zero_point, dtype=name, axis=axis, block_size=block),
    )


@pytest.mark.parametrize("name", NARROW_FLOATS)
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


@pytest.mark.parametrize("name", NARROW)
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
            with pytest.raises(ValueError, match=f"^{text}$"):
                pq.QParams(0.5, bad, name)


# What is refused

X = np.ones(3, np.float32)
F8, I4 = np.zeros(3, ml_dtypes.float8_e4m3fn), np.zeros(3, ml_dtypes.int4)
CODES = "an integer type or a narrow float"
REALS_LIST = "float32, float64, float16 or bfloat16"
QUANTIZE = {
    "narrow integers for x": (
        {"x": I4},
        TypeError,
        f"x: expected {REALS_LIST}, got int4",
    ),
    "narrow floats for x": (
        {"x": F8},
        TypeError,
        f"x: expected {REALS_LIST}, got float8_e4m3fn",
    ),
    "scales as a type": (
        {"dtype": "float8_e8m0fnu"},
        TypeError,
        f"dtype: expected {CODE_NAMES}, got float8_e8m0fnu",
    ),
    "a precision of few bits": (
        {"dtype": "float8_e4m3fn", "precision": "float8_e5m2"},
        TypeError,
        f"precision: expected None, {REALS_LIST}, got float8_e5m2",
    ),
    "an unknown mode for floats": (
        {"dtype": "float8_e4m3fn", "rounding": "nearest"},
        ValueError,
        "rounding: expected one of half_away, half_toward_zero, half_up, half_down, "
        "half_even, away, trunc, ceil, floor, stochastic, got 'nearest'",
    ),
    "a number for saturate": (
        {"dtype": "float8_e4m3fn", "saturate": 0},
        TypeError,
        "saturate: expected True or False, got int",
    ),
    "floats for zero points of integers": (
        {"dtype": "int4", "zero_point": F8[:1]},
        TypeError,
        "zero_point: expected integers, got float8_e4m3fn",
    ),
    "real zero points for floats": (
        {"dtype": "float8_e4m3fn", "zero_point": 0.0},
        TypeError,
        "zero_point: expected integers, got float64",
    ),
    "out of wide integers": (
        {"dtype": "int4", "out": poisoned("int8", 3)},
        TypeError,
        "out: expected int4, got int8",
    ),
    "out of another float": (
        {"dtype": "float8_e4m3fn", "out": poisoned(ml_dtypes.float8_e5m2, 3)},
        TypeError,
        "out: expected float8_e4m3fn, got float8_e5m2",
    ),
    "out of bytes": (
        {"dtype": "float8_e4m3fn", "out": poisoned("uint8", 3)},
        TypeError,
        "out: expected float8_e4m3fn, got uint8",
    ),
    "out of another shape": (
        {"dtype": "float8_e4m3fn", "out": poisoned(ml_dtypes.float8_e4m3fn, 4)},
        ValueError,
        "out: expected shape (3,), got (4,)",
    ),
    "zero point with out": (
        {"dtype": "int4", "zero_point": 8, "out": poisoned(ml_dtypes.int4, 3)},
        ValueError,
        "zero_point: expected integers from -8 to 7 for int4, got 8",
    ),
    "one zero point of many with out": (
        {
            "dtype": "uint2",
            "scale": [1.0, 1.0, 1.0],
            "axis": 0,
            "zero_point": [3, 0, 4],
            "out": poisoned(ml_dtypes.uint2, 3),
        },
        ValueError,
        "zero_point: expected integers from 0 to 3 for uint2, got 4",
    ),
    "rounding with out": (
        {
            "dtype": "float4_e2m1fn",
            "rounding": "floor",
            "out": poisoned(ml_dtypes.float4_e2m1fn, 3),
        },
        ValueError,
        "rounding: expected 'half_even' or 'stochastic' for float4_e2m1fn, got 'floor'",
    ),
    "threads with out": (
        {"dtype": "int4", "threads": 0, "out": poisoned(ml_dtypes.int4, 3)},
        ValueError,
        "threads: expected a positive integer, got 0",
    ),
}
DEQUANTIZE = {
    "scales": (
        {"q": np.zeros(3, ml_dtypes.float8_e8m0fnu)},
        TypeError,
        f"q: expected {CODES}, got float8_e8m0fnu",
    ),
    "to a narrow float": (
        {"q": I4, "dtype": "float8_e4m3fn"},
        TypeError,
        f"dtype: expected {REALS_LIST}, got float8_e4m3fn",
    ),
    "zero point with out": (
        {"q": I4, "zero_point": -9, "out": poisoned("float32", 3)},
        ValueError,
        "zero_point: expected integers from -8 to 7 for int4, got -9",
    ),
    "zero point of floats with out": (
        {"q": F8, "zero_point": 1, "out": poisoned("float32", 3)},
        ValueError,
        "zero_point: expected None or zeros for float8_e4m3fn",
    ),
    "floats as zero points with out": (
        {"q": I4, "zero_point": F8[:1], "out": poisoned("float32", 3)},
        TypeError,
        "zero_point: expected integers, got float8_e4m3fn",
    ),
}


@pytest.mark.parametrize("case", QUANTIZE.values(), ids=QUANTIZE)
def test_quantize_refuses(case):
    kwargs, error, text = case
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        pq.quantize(**{"x": X, "scale": 1.0, **kwargs})
    assert "out" not in kwargs or untouched(kwargs["out"])


@pytest.mark.parametrize("case", DEQUANTIZE.values(), ids=DEQUANTIZE)
def test_dequantize_refuses(case):
    kwargs, error, text = case
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        pq.dequantize(**{"scale": 1.0, **kwargs})
    assert "out" not in kwargs or untouched(kwargs["out"])


@each("name, mode", NARROW_FLOATS, MODES)
def test_floats_have_one_rounding(name, mode):
    if mode == "half_even":
        expected = pq.quantize(X, 0.3, dtype=name)
        for given in (mode, pq.RoundMode.HALF_EVEN):
            same(pq.quantize(X, 0.3, dtype=name, rounding=given), expected)
        return
    text = f"rounding: expected 'half_even' or 'stochastic' for {name}, got '{mode}'"
    for given in (mode, pq.RoundMode(mode)):
        with pytest.raises(ValueError, match=f"^{text}$"):
            pq.quantize(X, 0.3, dtype=name, rounding=given)


@pytest.mark.parametrize("name", ["int8", "uint32", *NARROW_INTEGERS])
def test_integers_always_saturate(name):
    same(pq.quantize(X, 1.0, dtype=name), pq.quantize(X, 1.0, dtype=name, saturate=True))
    with pytest.raises(
        ValueError, match=f"^saturate: expected True for {name}, got False$"
    ):
        pq.quantize(X, 1.0, dtype=name, saturate=False)


@pytest.mark.parametrize("name", NARROW)
def test_out_must_not_overlap(name):
    memory = poisoned(np.uint8, 64)
    x = memory[:16].view(np.float32)
    text = "out: expected memory of its own, got an array that overlaps the input"
    with pytest.raises(ValueError, match=f"^{text}$"):
        pq.quantize(x, 1.0, dtype=name, out=memory[12:16].view(dtype_of(name)))
    with pytest.raises(ValueError, match=f"^{text}$"):
        pq.dequantize(memory[12:16].view(dtype_of(name)), 1.0, out=x)
    assert untouched(memory)


# The world around


@pytest.mark.parametrize("name", NARROW)
def test_the_control_state_does_not_matter(name, isa):
    from test_fpenv import STATES, state  # skips where it knows no such state

    for source in REALS:
        x = inputs((150,), source)
        q = random_codes(name, 150)
        compute = compute_dtype(source)
        scales = mixed_scales(compute, 150)
        narrow = np.arange(150, dtype=np.uint8).view(ml_dtypes.float8_e8m0fnu)
        calls = [
            *(
                lambda s=s, x=x: quantize_at(isa, x, s, dtype=name, **over(s))
                for s in (0.1, 1e-42, scales, narrow)
            ),
            *(
                lambda s=s, q=q, t=source: dequantize_at(isa, q, s, dtype=t, **over(s))
                for s in (0.1, 1e-42, scales, narrow)
            ),
        ]
        for call in calls:
            expected = call()
            for one in STATES if amount(0, 1) else ["all"]:
                with state(STATES[one]):
                    got = call()
                same(got, expected)


def over(scale):
    """The axis of a scale for each element, none for a number."""
    return {"axis": 0} if np.ndim(scale) else {}


def test_calls_do_not_change_their_arguments():
    x, scale = inputs((99,)), usual_scales("float32", 99)
    before = x.copy(), scale.copy()
    for name in NARROW:
        q = pq.quantize(x, scale, dtype=name, axis=0)
        kept = q.copy()
        pq.dequantize(q, scale, axis=0)
        same(q, kept)
    same(x, before[0])
    same(scale, before[1])
