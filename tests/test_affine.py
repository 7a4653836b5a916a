"""Affine options of quantize and dequantize: offsets, fills, ranges, error policies.

The scalar kernels are compared with exact arithmetic in Python. The kernels of each other
instruction set are compared with the scalar kernels.
"""

import itertools
from functools import partial

import numpy as np
import oracle
import pytest
from support import (
    AVAILABLE_CODES,
    FORMS,
    REALS,
    adversarial,
    amount,
    by_family,
    case,
    cast,
    codes,
    compute_dtype,
    copies,
    dequantize_at,
    dtype_of,
    expand,
    float_of_bits,
    loop,
    mixed_scales,
    parameter_shape,
    peak_of,
    poisoned,
    quantize_at,
    same,
    ulps,
    untouched,
    usual_scales,
    zeros_for,
)
from test_calls import (
    REFUSED,
    dequantize_options,
    kept,
    limits_of,
    numbers,
    offsets,
    option_sets,
    quantized,
    same_results,
)

import pyquant as pq
from pyquant.dtypes import TYPES

INF, NAN = np.inf, np.nan
INTEGERS = tuple(name for name in AVAILABLE_CODES if TYPES[name].kind == "integer")
NARROW_FLOATS = tuple(name for name in AVAILABLE_CODES if name not in INTEGERS)
PACKED_CODES = tuple(name for name in AVAILABLE_CODES if TYPES[name].bits in (2, 4))


def expected_error(refused):
    """Return the number of elements out of range, and the index of the first of them."""
    if not refused.any():
        return 0, None
    first = np.unravel_index(np.flatnonzero(refused)[0], refused.shape)
    return np.count_nonzero(refused), str(tuple(map(int, first)))


def expected_results(isa, x, scale, zero=None, *, dtype, **options):
    """Return the expected codes and the expected elements out of range.

    Exact arithmetic computes the results for the instruction set "scalar". The scalar
    kernels compute the results for any other instruction set. Each parameter has one
    element, or one for each element of `x`.
    """
    if isa != "scalar":
        counts = np.size(scale), np.size(options.get("offset", 0))
        axis = tuple(range(x.ndim)) if max(counts) > 1 else None
        return quantized("scalar", x, scale, zero, dtype=dtype, axis=axis, **options)
    dtype, zero = dtype_of(dtype), 0 if zero is None else kept(zero, **options)
    codes, refused = oracle.quantize_affine(x, scale, zero, dtype=dtype, **options)
    return codes, expected_error(refused)


# Exactness


@by_family("name", AVAILABLE_CODES)
@loop("source", REALS)
def test_quantize_is_exact(source, name):
    count = amount(30, 72)
    modes = itertools.cycle(
        oracle.MODES if TYPES[name].kind == "integer" else oracle.MODES[:1]
    )
    ways = [(offset, wide) for offset in (True, False) for wide in (None, "float64")]
    every = [(o, w) for o in option_sets(name) for w in ways]
    for seed, (options, (has_offset, precision)) in enumerate(every[:: amount(5, 1)]):
        if seed % amount(1, 2) and precision and has_offset:
            continue
        scale = (mixed_scales if seed % 3 else usual_scales)(
            compute_dtype(source), count, seed
        )
        offset = offsets(scale.dtype, scale, seed) if has_offset else None
        zero = zeros_for(name, count, seed)
        x = numbers(source, scale, offset, seed, zero, options.get("inverse", False))
        options = {
            **options,
            "offset": offset,
            "precision": precision,
            "rounding": next(modes),
        }
        got = quantized("scalar", x, scale, zero, dtype=name, axis=0, **options)
        want, refused = oracle.quantize_affine(
            x, scale, kept(zero, **options), dtype=dtype_of(name), **options
        )
        with case(**{**options, "seed": seed, "offset": has_offset}):
            same_results(got, (want, expected_error(refused)))


@by_family("name", AVAILABLE_CODES)
@loop("target", REALS)
def test_dequantize_is_exact(name, target):
    count = amount(40, 150)
    fills = (None,)
    if TYPES[name].kind == "integer":
        lo, hi = limits_of(name)
        fills = (None, lo, (hi, lo, 0))
    for seed, (fill, inverse, has_offset) in enumerate(
        itertools.product(fills, (False, True), (False, True))
    ):
        scale = mixed_scales(compute_dtype(target), count, seed)
        offset = offsets(scale.dtype, scale, seed) if has_offset else None
        zero = zeros_for(name, count, seed)
        q = codes(name, count, seed)
        options = {"offset": offset, "inverse": inverse}
        got = dequantize_at(
            "scalar", q, scale, zero, axis=0, dtype=target, fill=fill, **options
        )
        fill = () if fill is None else fill
        want = oracle.dequantize(q, scale, zero, dtype=target, fill=fill, **options)
        with case(seed=seed, fill=fill, inverse=inverse, offset=has_offset):
            same(got, want)


def beside(form, compute, name, seed=0):
    """Return scales, offsets and zero points for a kind of call (shape, axis and block).
    The first list has the shapes of the call. The second list has a parameter for each
    element of the array."""
    shape, axis, block = form
    params = parameter_shape(shape, axis, block)
    count = int(np.prod(params))
    scale = (mixed_scales if seed % 2 else usual_scales)(compute, count, seed)
    offset = offsets(scale.dtype, scale, seed)
    zero = zeros_for(name, count, seed)
    given = [part.reshape(params) for part in (scale, offset, zero)]
    return given, [expand(part, shape, axis, block) for part in given]


# Quotients beyond the range


@loop("name", ["int8", "uint8", "int16", "uint16"])
def test_wrap_near_the_limit_of_the_fast_path(name, isa):
    """Fast kernels need quotients below 2**22. A second pass handles larger quotients."""
    lo, hi = oracle.code_range(name)
    ends = [2.0**22, 2.0**23, 2.0**31, 2.0**32, 3e9, 1e30]
    near = np.float32([end + step for end in ends for step in (-2, -1, -0.5, 0, 1, 256)])
    rng = np.random.default_rng(6)
    for count, offset in itertools.product((1, 33, 5000), (None, 0.0)):
        for scale in np.float32([1, 0.37, 2.0**-90]):
            x = rng.uniform(-1e5, 1e5, count).astype(np.float32)
            some = rng.integers(0, count, max(count // 50, 1))
            x[some] = rng.choice(near, some.size) * rng.choice([1, -1], some.size)
            x *= scale
            due = np.rint(x / scale).tolist()
            due = [(int(q) + hi - lo) % (hi - lo + 1) + lo for q in due]
            how = {"dtype": name, "out_of_range": "wrap", "offset": offset}
            made = quantize_at(isa, x, scale, hi, **how)
            assert made.tolist() == due, (count, scale)


# Rounding modes at the ends of a range


@by_family("name", INTEGERS)
@loop("mode", oracle.MODES)
def test_ends_of_a_range_in_every_mode(name, mode, isa):
    lo, hi = limits_of(name)
    near = [-1.5, -1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1, 1.5]
    if TYPES[name].bits == 64:
        near += [4096 * step for step in near]
    x = np.float64([float(end) + step for end in (lo, hi) for step in near])
    x = np.concatenate([x, np.nextafter(x, INF), np.nextafter(x, -INF)])
    rest = {"dtype": name, "rounding": mode}
    for z in (0, hi, lo):
        for policy in ("raise", "wrap"):
            moved = x - z
            call = {"out_of_range": policy, **rest}
            want = expected_results(isa, moved, np.float64([1]), z, **call)
            same_results(quantized(isa, moved, 1.0, z, **call), want)
    if hi - lo > 2:
        call = {"quant_range": (lo + 1, hi - 1), "out_of_range": "raise", **rest}
        want = expected_results(isa, x, np.float64([1]), **call)
        same_results(quantized(isa, x, 1.0, **call), want)


@loop("name, source", NARROW_FLOATS, REALS)
def test_the_largest_of_a_narrow_float(name, source, isa):
    fmt = oracle.NARROW_FORMATS[name]
    most = float(oracle.largest(name))
    below = float(oracle.decode_narrow(fmt.largest - 1, fmt).magnitude)
    tie = most + (most - below) / 2
    x = cast([below, most, tie, most + 2 * (tie - most), INF, NAN], source)
    x = np.concatenate([x, ulps(x, np.full(x.size, 1)), ulps(x, np.full(x.size, -1))])
    x = np.concatenate([x, -x])
    rest = {"out_of_range": "raise", "nan": "raise"}
    got = quantized(isa, x, 1.0, dtype=name, **rest)
    want, refused = oracle.quantize_affine(x, np.float32([1]), dtype=dtype_of(name), **rest)
    same_results(got, (want, expected_error(refused)))
    assert refused[4:6].all()
    assert bool(refused[2]) == bool(fmt.largest & 1)  # half to even


FLOATS = [n for n in ("float8_e5m2", "float4_e2m1fn") if n in AVAILABLE_CODES]


@loop("name, source", FLOATS, REALS)
def test_scales_that_multiply_to_narrow_floats(name, source, isa):
    """With inverse=True, codes are of x * scale, for scales of all magnitudes."""
    count, ends = 400, (-149, -130, -127, -126, -100, 90, 100, 120, 126, 127)
    scales = mixed_scales(np.float32, count, 5)
    scales[:20] = [2.0**k for k in ends] * 2
    x = adversarial("float32", 1.0, count, 3)[:count]
    x[:60:3] = 3 * 2.0 ** -np.arange(149, 129, -1)
    x = cast(x, source)
    wide = x.astype(compute_dtype(source))
    for group in (1, 3, 16, 32, 100, count):
        s = scales[: -(-count // group)]
        each_scale = s.repeat(group)[:count].astype(wide.dtype)
        with np.errstate(all="ignore"):
            product = wide * each_scale
        nan = np.isnan(product)
        signs = np.where(np.signbit(wide) ^ np.signbit(each_scale), -1.0, 1.0)
        product[nan] = np.copysign(NAN, signs[nan])
        for saturate in (True, False):
            rest = {"dtype": name, "saturate": saturate}
            due = quantize_at("scalar", product, 1.0, **rest)
            how = {"axis": 0, "block_size": group, "inverse": True, **rest}
            same(quantize_at(isa, x, s, **how), due)
            same(quantize_at(isa, np.repeat(x, 2)[::2], s, **how), due)
    small = cast(np.arange(-4000, 4000) * 2.0**-139, "float32")
    usual = cast(np.resize(np.arange(-4000, 4000) * 0.01, 70000), "float32")
    for x, scale in ((small, 2.0**127), (small, 3 * 2.0**125), (usual, 0.3)):
        product = x * np.float32(scale)
        due = quantize_at("scalar", product, 1.0, dtype=name)
        same(quantize_at(isa, x, scale, dtype=name, inverse=True), due)
    pattern = product[:8000:97]
    due = oracle.quantize(pattern, np.float32(1), dtype=dtype_of(name))
    same(quantize_at("scalar", pattern, 1.0, dtype=name), due)


def ends_of(name, source):
    """Return, for scale 1, the lowest and the highest number within the codes of a type,
    and some numbers out of this range."""
    if TYPES[name].kind != "integer":
        most = float(oracle.largest(name))
        return -most, most, [-2 * most, 2 * most]
    lo, hi = limits_of(name)
    # Numbers at a distance of `step` are exact in the source type.
    room = {"bfloat16": 7, "float16": 10, "float32": 23, "float64": 52}[source.name]
    step, most = max((hi - lo + 1) >> room, 1), 6e4 if source == np.float16 else 1e38
    beyond = [float(lo) - step, float(hi) + step]
    return float(max(lo + step, -most)), float(min(hi - step, most)), beyond


@by_family("name", AVAILABLE_CODES)
@loop("source", REALS)
def test_error_index_in_long_runs(source, name, isa):
    """The index in the error is right in long runs. Kernels have separate loops for long
    runs, which begin at a cache line."""
    count = (1 << 16) + 4096 + 77
    lo, hi, beyond = ends_of(name, source)
    beyond = [one for one in beyond if np.isfinite(cast([one], source)).all()]
    numbers = cast(np.clip(np.rint(np.linspace(lo, hi, 257)), lo, hi), source)
    x = np.resize(numbers, count + 3)[3:]
    rest = {"dtype": name, "out_of_range": "raise", "nan": "raise"}
    due = quantize_at("scalar", x[:257], 1.0, dtype=name)
    got, refused = quantized(isa, x, 1.0, **rest)
    assert refused == (0, None)
    same(got, np.resize(due, count))
    rng = np.random.default_rng(count)
    places = [0, 63, 4095, 4096, (1 << 16) - 1, 1 << 16, count - 1]
    for place in rng.choice(places, amount(1, 3), replace=False):
        odd = [*beyond, INF, -INF, NAN]
        before, x[place] = x[place], odd[rng.integers(len(odd))]
        due = quantize_at(isa, x, 1.0, dtype=name)
        got, refused = quantized(isa, x, 1.0, **rest)
        assert refused == (1, f"({place},)")
        same(got, due)
        x[place] = before


# Fast kernels only detect that some element is out of range. A second pass then finds the
# index of the first of the elements for the error message.

WITHIN = [form for form in FORMS if 0 not in form[0]]


@loop("form", WITHIN, draws=40)
def test_one_step_beyond_the_end(form, isa):
    """Numbers at the limits of the codes raise no error. The next numbers raise an
    error."""
    for seed, name in enumerate(("int8", "uint8", "int16", "uint16")):
        (_, _, zero), spread = beside(form, "float32", name, seed)
        scale = np.resize(np.float32([0.02, 3, 0.7]), zero.shape)
        wide = expand(scale, *form).astype(np.float64)
        options = {"dtype": name, "axis": form[1], "block_size": form[2]}
        lo, hi = limits_of(name)
        rng = np.random.default_rng(seed)
        for mode in ("half_even", "ceil"):
            options |= {"rounding": mode, "out_of_range": "raise", "nan": "raise"}
            want = rng.choice([lo, lo + 1, hi - 1, hi], form[0])
            x = np.array((want - spread[2]) * wide * (1 - 2.0**-22), np.float32)
            got, refused = quantized(isa, x, scale, zero, **options)
            assert refused == (0, None)
            assert (abs(got.astype(int) - want) <= 1).all()
            place = int(rng.integers(x.size))
            at = np.unravel_index(place, form[0])
            over = rng.choice([lo - 2, hi + 2]) - np.asarray(spread[2])[at]
            for odd in (np.float32(over * wide[at]), np.float32(NAN)):
                x[at] = odd
                index = str(tuple(map(int, at)))
                assert quantized(isa, x, scale, zero, **options)[1] == (1, index)


@loop("source, name", ["float32", "float64"], ["int8", "uint16"])
def test_codes_at_the_ends_of_long_runs(source, name, isa):
    """Codes and errors are right for numbers at or above the highest code, at any place of
    a long run. The first elements of a run select one of two methods."""
    lo, hi = limits_of(name)
    x = np.random.default_rng(3).integers(lo + 1, hi, 70_001).astype(source)
    for places in ([], [5], [1023], [1024], [40_000, 70_000], range(0, 70_001, 99)):
        for odd in (hi, lo, hi + 1, NAN):
            given = x.copy()
            given[list(places)] = odd
            for options in ({"out_of_range": "raise"}, {"nan": "raise"}, {"fill": hi}):
                refused = given > hi if "out_of_range" in options else np.isnan(given)
                refused &= "fill" not in options
                options |= {"dtype": name}
                want = quantized("scalar", given, 1.0, **options)
                assert want[1] == expected_error(refused)
                same_results(quantized(isa, given, 1.0, **options), want)


# Subnormal numbers


@loop("source, name", ["float32", "float64"], AVAILABLE_CODES[:: amount(7, 3)])
def test_subnormal_inputs(source, name, isa):
    tiny = float_of_bits([1], source)[0]
    normal = np.finfo(source).smallest_normal
    rng = np.random.default_rng(7)
    count = amount(40, 100)
    for k, scale in enumerate((normal * 4, normal * 512, normal * 2**26, normal, tiny)):
        steps = rng.integers(-8, 8, count) / 2
        offset = cast(steps * scale, source)
        x = cast(
            rng.integers(-3, 4, count) * tiny * 2.0 ** rng.integers(0, 22, count), source
        )
        scales = np.full(count, scale, source)
        wide = {"precision": "float64", "nan": "raise"}
        got = quantize_at(isa, x, scales, dtype=name, axis=0, **wide)
        same(got, expected_results(isa, x, scales, dtype=name, **wide)[0])
        for inverse in (False, True):
            options = {"offset": offset, "rounding": oracle.MODES[k]}
            if TYPES[name].kind != "integer":
                options["rounding"] = "half_even"
            if inverse:
                scales = cast(np.full(count, 1 / normal), source)
                options["inverse"] = True
            got = quantize_at(isa, x, scales, dtype=name, axis=0, **options)
            same(got, expected_results(isa, x, scales, dtype=name, **options)[0])
            of_one = {**options, "offset": offset[:1]}
            got = quantize_at(isa, x, scales[0], dtype=name, **of_one)
            same(got, expected_results(isa, x, scales[:1], dtype=name, **of_one)[0])
        q = codes(name, count)
        for inverse in (False, True):
            scales = np.full(count, scale, source)
            scales = cast(1 / scales.astype(np.longdouble), source) if inverse else scales
            options = {"offset": x, "inverse": inverse, "dtype": source}
            got = dequantize_at(isa, q, scales, axis=0, **options)
            same(got, oracle.dequantize(q, scales, **options))


@loop("name, mode", ("int8", "uint16"), ("away", "ceil", "floor"))
def test_subnormal_quotients_in_modes_away_from_zero(name, mode, isa):
    """In the modes away, ceil and floor, codes differ if a quotient is subnormal or if it
    rounds to 0 in float32. The last bit of a scale can decide this."""
    scales = np.float32([1, 1.5, 1.9, 2 - 2.0**-22, 2, 2.5, 3, 3.9, 5, 2.0**20 - 1])
    tiny = float_of_bits(np.arange(1, 40), "float32")
    x = np.concatenate([tiny, -tiny, tiny[::-1] * np.float32(2.0**17)])
    for options in ({"out_of_range": "raise"}, {"quant_range": (0, 100)}, {"offset": -0.0}):
        options |= {"dtype": name, "rounding": mode}
        for scale in scales:
            want = expected_results(isa, x, scale.reshape(1), **options)
            same_results(quantized(isa, x, scale, **options), want)


# Examples


EXAMPLES = {
    "offset": ({"offset": 10.0}, [10, 10.5, 11.5, 9], [0, 0, 2, -1]),
    "inverse": ({"scale": 100.0, "inverse": True}, [0.01, 0.125, -1.27], [1, 12, -127]),
    "inverse and offset": (
        {"scale": 10.0, "offset": 2.0, "inverse": True},
        [2, 2.5, 1.5],
        [0, 5, -5],
    ),
    "fill": ({"fill": -1}, [1, NAN, -2], [1, -1, -2]),
    "fills": ({"fill": [99, -1]}, [1, NAN], [1, 99]),
    "fill is not for other NaN": (
        {"fill": 5, "offset": INF},
        [INF, NAN, 1],
        [-128, 5, -128],
    ),
    "lowest of the range": ({"quant_range": (-7, 7)}, [NAN, INF, -9, 8], [-7, 7, -7, 7]),
    "range and zero point": (
        {"quant_range": (1, 9), "zero_point": 5},
        [-9, -4, 0, 4, 9],
        [1, 1, 5, 9, 9],
    ),
    "wrap": (
        {"out_of_range": "wrap"},
        [127.5, 128, 256, -129, 1e10, 3e38, NAN, INF, -INF],
        [-128, -128, 0, 127, 0, 0, -128, -128, -128],
    ),
    "wrap with zero point": (
        {"out_of_range": "wrap", "zero_point": 100},
        [27, 28, 284],
        [127, -128, -128],
    ),
    "offset NaN": ({"offset": NAN}, [0, 1, INF], [-128] * 3),
    "offset infinity": ({"offset": INF}, [0, INF, -INF], [-128] * 3),
    "offset minus infinity": ({"offset": -INF}, [0, INF, -INF], [127, 127, -128]),
}


@loop("name", EXAMPLES)
def test_example(name, isa):
    options, x, want = EXAMPLES[name]
    options = {"scale": 1.0, "dtype": "int8", **options}
    for count in (len(x), 67, 1030):
        numbers_in = np.resize(np.float32(x), count)
        expected = np.resize(np.array(want, np.int8), count)
        same(quantize_at(isa, numbers_in, **options), expected)
        options_of_each = {**options, "scale": np.full(count, options["scale"])}
        same(quantize_at(isa, numbers_in, axis=0, **options_of_each), expected)


# Types of offsets


@loop(
    "of_scale, of_offset",
    ["f2", "f4", "f8", ">f4", "i4"],
    ["f2", "f4", "f8", ">f4", ">f8", "i2", "u8"],
)
def test_offsets_of_another_type_than_scales(of_scale, of_offset, isa):
    x = adversarial("float32", 0.3, 99).reshape(3, 33)
    scale = np.array([1, 3, 7], of_scale)
    offset = np.array([2, 0, 100], of_offset)
    want = quantize_at(
        "scalar", x, scale.astype("f8"), axis=0, offset=offset.astype("f8"), inverse=True
    )
    for s in (scale, list(scale.astype("f8"))):
        same(quantize_at(isa, x, s, axis=0, offset=offset, inverse=True), want)


def test_an_offset_with_all_dimensions_and_one_scale():
    x = adversarial("float32", 0.3, 60).reshape(3, 4, 5)
    offset = np.float32([[[1], [2], [3], [-4]]])
    want = pq.quantize(x, 0.3, offset=offset.ravel(), axis=1)
    same(pq.quantize(x, 0.3, offset=offset), want)
    same(pq.quantize(x, [0.3], offset=offset, axis=1), want)
    same(
        pq.dequantize(want, 0.3, offset=offset),
        pq.dequantize(want, 0.3, offset=offset.ravel(), axis=1),
    )


def test_one_offset_of_any_kind():
    x = adversarial("float32", 0.3, 70).reshape(7, 10)
    q, scale = codes("int8", 70).reshape(7, 10), usual_scales("float32", 7)
    for one in (2, [2.0], [[2]], np.float16(2), np.array([2.0], ">f4"), np.uint64(2)):
        for function, given in ((pq.quantize, x), (pq.dequantize, q)):
            same(function(given, 0.3, offset=one), function(given, 0.3, offset=2.0))
            expected = function(given, scale, axis=0, offset=np.full(7, 2.0))
            same(function(given, scale, axis=0, offset=one), expected)


def test_an_offset_is_rounded_once_to_the_type_of_the_arithmetic():
    x = np.float32([0.1])
    for precision in (None, "float64"):
        got = pq.quantize(x, 1e-9, offset=0.1, dtype="int32", precision=precision)
        assert got.tolist() == [0]  # 0.1 is rounded to float32, so that x - 0.1 is 0.
    wide = x.astype(np.float64)
    assert pq.quantize(wide, 1e-9, offset=0.1, dtype="int32").tolist() == [1]
    assert pq.dequantize(np.int8([0]), 1.0, offset=1e300).tolist() == [INF]
    assert pq.dequantize(np.int8([0]), 1.0, offset=1e300, dtype="f8").tolist() == [1e300]


def test_the_product_is_rounded_before_the_sum(isa):
    # The product 0xffffff * (1 + 2^-23) must be rounded to float32. A fused multiply-add
    # would not round the product.
    q, scale = np.full(100, 0xFFFFFF, np.int32), np.float32(1 + 2.0**-23)
    got = dequantize_at(isa, q, scale, offset=-np.float32(0xFFFFFF))
    assert set(got.tolist()) == {1.0}  # fused: 1.9999998807907104


# Packed


@loop("name", PACKED_CODES)
def test_packed_results_and_input(name, isa):
    for shape, axis, block in (((67,), None, None), ((5, 41), 0, None), ((3, 70), 1, 32)):
        form = shape, axis, block
        (scale, offset, zero), spread = beside(form, "float32", name, 2)
        x = numbers("float32", spread[0], spread[1], 3, spread[2])
        where = {"axis": axis, "block_size": block, "offset": offset}
        for options in option_sets(name):
            zero = kept(zero, **options)
            codes_of, said = quantized(isa, x, scale, zero, dtype=name, **where, **options)
            for layout in ("onnx", pq.Layout("words", axis=0)):
                rest = {"dtype": name, "layout": layout, **where, **options}
                if said[0]:
                    with pytest.raises(ValueError, match=REFUSED) as error:
                        quantize_at(isa, x, scale, zero, **rest)
                    assert REFUSED.fullmatch(str(error.value)).groups() == (
                        str(said[0]),
                        said[1],
                    )
                else:
                    same(pq.unpack(quantize_at(isa, x, scale, zero, **rest)), codes_of)
        for options in dequantize_options(name):
            q = codes(name, x.size).reshape(shape)
            want = dequantize_at(isa, q, scale, zero, **where, **options)
            for packed in (pq.pack(q), pq.pack(q, pq.Layout("words", axis=0))):
                same(dequantize_at(isa, packed, scale, zero, **where, **options), want)


@loop("bits", [1, 3, 5, 7])
def test_words_of_bits_that_no_type_has(bits, isa):
    hi = (1 << bits) - 1
    x = np.float32([[-1, -0.5, 0, 0.5, 1, hi, hi + 0.5, hi + 1, NAN, 300, INF, 3e9]])
    x = np.repeat(x, 5, axis=0)
    layout = pq.Layout("words", axis=1, bits=bits)
    want = np.where(np.isnan(x), 0, np.clip(np.rint(np.nan_to_num(x, nan=0)), 0, hi))

    def codes_of(**options):
        return pq.unpack(quantize_at(isa, x, 1.0, dtype="uint8", layout=layout, **options))

    same(codes_of(offset=0.0), want.astype(np.uint8))
    same(codes_of(fill=hi), np.where(np.isnan(x), hi, want).astype(np.uint8))
    wide = np.where(np.isfinite(x), x, 0).astype(np.float64)
    modulo = np.where(np.isfinite(x), np.rint(wide) % (hi + 1), 0)
    same(codes_of(out_of_range="wrap"), modulo.astype(np.uint8))
    beyond = 5 * np.count_nonzero((np.rint(x[0]) < 0) | (np.rint(x[0]) > hi))
    with pytest.raises(ValueError, match=f"uint8 in {bits} bits, got {beyond} faulty"):
        codes_of(out_of_range="raise")
    for wrong in ({"fill": hi + 1}, {"quant_range": (0, hi + 1)}):
        with pytest.raises(ValueError, match=f"from 0 to {hi} for uint8 in {bits} bits"):
            codes_of(**wrong)
    if bits > 1:
        got = codes_of(quant_range=(1, hi - 1), fill=[hi])
        expected = np.where(np.isnan(x), hi, np.clip(want, 1, hi - 1))
        same(got, expected.astype(np.uint8))
        q = pq.pack(got, pq.Layout("words", axis=1, bits=bits))
        plain = dequantize_at(isa, got, 0.1, offset=0.3, fill=hi)
        same(dequantize_at(isa, q, 0.1, offset=0.3, fill=hi), plain)
        with pytest.raises(ValueError, match=f"from 0 to {hi} for uint8 in {bits} bits"):
            dequantize_at(isa, q, 0.1, fill=[hi, hi + 1])


# QParams


def of_options(scale=0.1, zero_point=3, dtype="int16", **options):
    return pq.QParams(scale, zero_point, dtype, **options)


KEPT = {
    "offset": {"offset": 2.5},
    "offsets": {"scale": [0.1, 0.2], "offset": np.float32([1, 2]), "axis": 0},
    "one offset of many": {"scale": [0.1, 0.2], "offset": 1.0, "axis": 0},
    "other dtype": {"scale": np.float32([0.1, 0.2]), "offset": [1.0, 2.0], "axis": 0},
    "one scale of many": {"offset": np.float32([1, 2]), "axis": 0},
    "one scale of as many as zero points": {
        "scale": np.float32([0.1]),
        "zero_point": [[3], [4]],
        "offset": [[1.0], [2.0]],
    },
    "fill": {"fill": -1},
    "fills": {"fill": [-1, 7]},
    "range": {"quant_range": (-100, 100)},
    "all": {"offset": np.float32(1), "fill": -128, "quant_range": (-127, 127)},
    "blocks": {
        "scale": np.ones((2, 3)),
        "offset": np.ones((2, 3)),
        "axis": 1,
        "block_size": 4,
    },
}


def outcome(function, *arguments, **keywords):
    """Return the bytes of the result of a call, or the text of the error."""
    try:
        return function(*arguments, **keywords).tobytes()
    except ValueError as error:
        return str(error)


@loop("name", KEPT)
def test_qparams_equal_a_call(name):
    options = KEPT[name]
    p = of_options(**options)
    x = adversarial("float32", 0.1, 18).reshape(2, 9)
    call = {"scale": 0.1, "zero_point": 3, **options}
    same(p.quantize(x), pq.quantize(x, dtype="int16", **call))
    for policy in ({"out_of_range": "wrap"}, {"out_of_range": "raise", "nan": "raise"}):
        outcomes = [
            outcome(p.quantize, x, **policy),
            outcome(pq.quantize, x, dtype="int16", **call, **policy),
        ]
        assert outcomes[0] == outcomes[1]
    call.pop("quant_range", None)
    q = codes("int16", 18).reshape(2, 9)
    same(p.dequantize(q), pq.dequantize(q, **call))
    same(p.dequantize(q, dtype="float16"), pq.dequantize(q, dtype="float16", **call))


@loop("name", KEPT)
def test_qparams_are_values(name):
    p = of_options(**KEPT[name])
    for q in (of_options(**KEPT[name]), *copies(p)):
        assert p == q
        assert hash(p) == hash(q)
        assert repr(p) == repr(q)
        assert (q.fill, q.quant_range) == (p.fill, p.quant_range)
        assert (p.offset is None) == (q.offset is None)
        if p.offset is not None:
            same(q.offset, p.offset)
    for other in KEPT:
        assert (of_options(**KEPT[other]) == p) == (other == name)
    plain = {k: v for k, v in KEPT[name].items() if k in ("scale", "axis", "block_size")}
    assert of_options(**plain) != p


def test_qparams_print_their_parameters():
    p = of_options(offset=2.5, fill=[-1, 7], quant_range=(0, 6))
    assert (p.offset.tolist(), p.fill, p.quant_range) == (2.5, (-1, 7), (0, 6))
    text = ", offset=array(2.5), fill=(-1, 7), quant_range=(0, 6))"
    assert repr(p).endswith(text)
    assert of_options(fill=np.int8(4)).fill == (4,)
    assert type(of_options(fill=np.int8(4)).fill[0]) is int
    p = of_options()
    assert (p.offset, p.fill, p.quant_range) == (None, None, None)
    assert "offset" not in repr(p)


def test_qparams_copy_their_options():
    offset, fill = np.float32([1, 2]), [1, 2]
    p = of_options([0.1, 0.2], offset=offset, fill=fill, axis=0)
    offset[:] = 9
    fill[:] = [3, 4]
    assert (p.offset.tolist(), p.fill) == ([1, 2], (1, 2))
    with pytest.raises(ValueError, match="WRITEABLE"):
        p.offset.flags.writeable = True


def test_equality_of_qparams_with_offsets_and_fills():
    assert of_options(offset=0.0) != of_options(offset=-0.0)
    assert of_options(offset=NAN) == of_options(offset=NAN)
    assert of_options(offset=1.0) == of_options(offset=np.float64(1))
    assert of_options(fill=3) == of_options(fill=(3,))
    assert of_options(fill=(3, 4)) != of_options(fill=(4, 3))


def test_calls_copy_neither_scales_nor_offsets():
    scale, offset = np.ones(5000, np.float32), np.ones(10000)[::2]
    x, out = np.ones((5000, 1), np.float32), np.empty((5000, 1), np.int8)
    for given in ((scale, offset), (scale, 2.0), (2.0, offset)):
        p = pq.QParams(given[0], 0, "int8", offset=given[1], axis=0)
        where = {"offset": given[1], "axis": 0}
        for call in (
            partial(p.quantize, x, out=out),
            partial(p.dequantize, out, out=x),
            partial(pq.quantize, x, given[0], out=out, **where),
            partial(pq.dequantize, out, given[0], out=x, **where),
        ):
            call()
            assert peak_of(call)[1] < scale.nbytes


# Errors


def test_many_zero_points_outside_of_a_range():
    zero = np.full(70_000, 5, np.int16)
    x, out = np.ones((70_000, 1), np.float32), poisoned("int8", (70_000, 1))
    options = {"dtype": "int8", "axis": 0, "quant_range": (1, 7)}
    scale = np.ones(70_000, np.float32)
    zero[60_000] = 9
    text = r"^zero_point: expected integers within quant_range=\(1, 7\), .*, got 9$"
    with pytest.raises(ValueError, match=text):
        pq.quantize(x, scale, zero, out=out, **options)
    assert untouched(out)
    with pytest.raises(ValueError, match=text):
        pq.QParams(scale, zero, **options)
    zero[60_000] = 7
    assert pq.quantize(x, scale, zero, out=out, **options).max() == 7


def test_zeros_go_with_any_range():
    x = np.float32([[-3, 0], [3, 9]])
    for zero in (None, 0, [0], [0, 0], np.zeros(2, np.uint8)):
        scale = 1.0 if np.size(zero) == 1 else [1.0, 1.0]
        options = {"dtype": "int8", "axis": 0, "quant_range": (2, 7)}
        assert pq.quantize(x, scale, zero, **options).tolist() == [[2, 2], [3, 7]]
        p = pq.QParams(scale, zero, **options)
        assert p.quantize(x).tolist() == [[2, 2], [3, 7]]
        assert all(other == p for other in copies(p))


def test_errors_of_policies():
    x = np.float32([[1, NAN], [300, -INF]])
    raises = {"out_of_range": "raise"}
    within, first = "numbers within the range of int8", "the first at index (1, 0)"
    for policy, given, text in (
        (raises, {}, f"{within}, got 2 faulty elements, {first}"),
        ({"nan": "raise"}, {}, "no NaN, got 1 faulty element, the first at index (0, 1)"),
        (
            raises | {"nan": "raise"},
            {},
            f"{within} and no NaN, got 3 faulty elements, the first at index (0, 1)",
        ),
        (
            raises,
            {"quant_range": (-7, 7)},
            f"numbers whose codes are from -7 to 7, got 2 faulty elements, {first}",
        ),
    ):
        out = poisoned("int8", (2, 2))
        with pytest.raises(ValueError, match="x: ") as caught:
            pq.quantize(x, 1.0, out=out, **policy, **given)
        end = "; out has all codes, as without 'raise'"
        assert str(caught.value) == f"x: expected {text}{end}"
        same(out, pq.quantize(x, 1.0, **given))
    with pytest.raises(ValueError, match=r"got 1 faulty element, the first at index \(\)$"):
        pq.quantize(np.float32(300), 1.0, out_of_range="raise")
