"""Compare random calls with calls of the scalar kernels, with parameters for each element.

The bytes of both results must be equal. test_quantize.py and test_affine.py compare the
scalar kernels with exact arithmetic.
"""

import itertools
import math
import re
import zlib

import numpy as np
import oracle
import pytest
from support import (
    AVAILABLE_CODES,
    FORMS,
    LAYOUTS,
    PRECISIONS,
    REALS,
    TYPES,
    Guarded,
    adversarial,
    amount,
    by_family,
    case,
    cast,
    codes,
    compute_dtype,
    dequantize_at,
    dtype_of,
    expand,
    misaligned,
    mixed_scales,
    parameter_shape,
    poisoned,
    quantize_at,
    same,
    scales_for,
    specials,
    split_small_arrays,
    ulps,
    uniform_bits,
    usual_scales,
    zeros_for,
)

REFUSED = re.compile(
    r"x: expected (?:numbers within the range of \w+|numbers whose codes are from -?\d+ to "
    r"-?\d+|no NaN|numbers .* and no NaN), got (\d+) faulty elements?, "
    r"the first at index (\(.*?\))"
    r"(?:; out has all codes, as without 'raise')?"
)


# The random word of an element depends only on the seed and the index of the element.
STOCHASTIC = {"rounding": "stochastic", "seed": 5, "start": 2**64 - 99}


def limits_of(name):
    return TYPES[name].lowest, TYPES[name].highest


def kept(zero, quant_range=None, **options):
    """Return the zero points, clipped to `quant_range` if this argument is given."""
    return zero if zero is None or quant_range is None else np.clip(zero, *quant_range)


def quantized(isa, x, scale, zero=None, *, dtype, out=None, **options):
    """Return the codes, the number of elements out of range, and the index of the first."""
    zero = kept(zero, **options)
    out = poisoned(dtype_of(dtype), x.shape) if out is None else out
    try:
        got = quantize_at(isa, x, scale, zero, dtype=dtype, out=out, **options)
    except ValueError as error:
        match = REFUSED.fullmatch(str(error))
        if match is None:
            raise
        return out, (int(match[1]), match[2])
    assert got is out
    return out, (0, None)


def dequantized(isa, q, scale, zero, *, out=None, **options):
    got = dequantize_at(isa, q, scale, zero, out=out, **options)
    assert out is None or got is out
    return got, None


def same_results(got, expected):
    __tracebackhide__ = True
    same(got[0], expected[0])
    assert got[1] == expected[1]


# Data


def offsets(compute, scale, seed=0):
    """Return a random offset for each scale: similar to the scale, much larger, much
    smaller, 0 or not finite."""
    rng = np.random.default_rng([seed, scale.size])
    factor = rng.choice([0.0, 1.0, -1.0, 0.5, -3.25, 1000.1, -70000.5, 1e12], scale.shape)
    with np.errstate(all="ignore"):
        values = cast(factor * scale.astype(np.float64), compute)
    odd = specials(compute)
    where = rng.integers(0, 4, scale.shape) == 0
    return np.where(where, rng.choice(odd, scale.shape), values).astype(compute)


def numbers(source, scale, offset, seed=0, zero=0, inverse=False):
    """Return a random number for each scale: a tie plus the offset, a number at the limit
    of codes, or random bits."""
    rng = np.random.default_rng([seed, scale.size])
    steps = adversarial("float64", 1.0, max(scale.size, 64), seed, 0)[: scale.size]
    steps = rng.permutation(steps).reshape(scale.shape)
    ends = rng.choice(
        [
            float(end) + half
            for b in (2, 4, 8, 16, 32, 53, 64)
            for end in (-(1 << b - 1), (1 << b - 1) - 1, (1 << b) - 1)
            for half in (-1, -0.5, 0, 0.5, 1)
        ],
        scale.shape,
    )
    steps = np.where(rng.integers(0, 3, scale.shape) == 0, ends, steps)
    with np.errstate(all="ignore"):
        wide = scale.astype(np.float64)
        steps = steps - np.asarray(zero).astype(np.float64)
        points = steps / wide if inverse else steps * wide
        points = points + (0 if offset is None else offset.astype(np.float64))
    points = cast(points, source)
    moved = ulps(points.reshape(-1), rng.integers(-1, 2, points.size)).reshape(points.shape)
    anything = uniform_bits(source, points.size, seed).reshape(points.shape)
    anything.reshape(-1)[::2] = rng.choice(specials(source), anything.reshape(-1)[::2].size)
    return np.where(rng.integers(0, 5, scale.shape) == 0, anything, moved)


def option_sets(name):
    """Yield combinations of affine options of quantize for a code type."""
    yield {}
    yield {"inverse": True}
    yield {"nan": "raise"}
    yield {"out_of_range": "raise"}
    yield {"out_of_range": "raise", "nan": "raise", "inverse": True}
    if TYPES[name].kind != "integer":
        yield {"saturate": False, "nan": "raise"}
        yield {"saturate": False, "inverse": True}
        return
    lo, hi = limits_of(name)
    yield {"out_of_range": "wrap"}
    yield {"out_of_range": "wrap", "inverse": True, "nan": "raise"}
    yield {"fill": hi}
    yield {"fill": [lo, hi], "nan": "raise", "out_of_range": "raise"}
    yield {"fill": [hi, lo], "out_of_range": "wrap"}
    yield {"quant_range": (lo + 1, hi)}
    yield {"quant_range": (lo, hi - 1), "out_of_range": "raise", "nan": "raise"}
    yield {"quant_range": (lo + 1, hi - 1), "fill": lo, "inverse": True}
    yield {"quant_range": (lo + 1, hi), "fill": (lo,), "out_of_range": "raise"}


def quantize_options(name):
    """Return combinations of options of quantize. Modes and precisions alternate."""
    integer = TYPES[name].kind == "integer"
    modes = itertools.cycle(oracle.MODES if integer else ["half_even"])
    precisions = itertools.cycle([None, None, "float64"])
    return (
        [
            {"rounding": next(modes), "precision": next(precisions), **options}
            for options in [*option_sets(name), *[{}] * amount(5, 20)]
        ]
        + [{"precision": one} for one in PRECISIONS]
        + [STOCHASTIC] * 3
    )


def dequantize_options(name):
    """Return combinations of options of dequantize."""
    lo, hi = limits_of(name) if TYPES[name].kind == "integer" else (None, None)
    fills = (None,) if hi is None else (None, hi, (hi, lo, 0, 1))
    pairs = itertools.product(fills, (False, True))
    return [{"fill": fill, "inverse": inverse} for fill, inverse in pairs]


# Forms (shape, axis and block size of a call): runs of each length, groups of each size,
# blocks, axes, and rows with gaps

LENGTHS = [
    *amount(
        [*range(41), *range(47, 50), *range(63, 67), 71, 80, *range(95, 98)], range(100)
    ),
    *(127, 128, 129, 255, 257, 511, 512, 513, 1000, 1023, 1025, amount(4097, 5000)),
]
GROUPS = amount(
    [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 39, 48, 63, 64, 65, 100, 129, 784],
    [*range(1, 68), 100, 127, 128, 129, 784],
)
MORE_FORMS = [((n,), axis, None) for n in LENGTHS for axis in (None, 0)]
MORE_FORMS += [((min(max(5 * g + g // 2, 70), 2500),), 0, g) for g in GROUPS]
MORE_FORMS += [((5, g), 0, None) for g in GROUPS]
MORE_FORMS += [((9, width), 1, None) for width in (17, 40)]
MORE_FORMS += [((70, n), 1, b) for n in (64, 75, 100) for b in (16, 32, 40, 64)]
EVERY_FORM = [*FORMS, *MORE_FORMS]


def padded(a):
    """Return a copy of the array that has unused memory at the end of each row."""
    return np.concatenate([a, a[..., :1]], axis=-1)[..., :-1] if a.ndim and a.size else a


def in_structure(a):
    """Return a copy of the array as a misaligned field of a structured array."""
    record = np.zeros(a.shape, np.dtype([("pad", "u1"), ("value", a.dtype)]))
    record["value"] = a
    return record["value"]


MORE_LAYOUTS = {
    **LAYOUTS,
    "padded": padded,
    "structure": in_structure,
    "far apart": lambda a: np.repeat(a, 37, axis=-1)[..., ::37] if a.ndim else a,
    "reversed rows": lambda a: np.flip(np.flip(a, 0).copy(), 0) if a.ndim else a,
    "misaligned by 3": lambda a: misaligned(a, 3),
}


def any_layout(rng, array):
    """Return the array, or a copy in a random memory layout. None remains None."""
    half = rng.random() < 0.5
    return (
        array if half or array is None else MORE_LAYOUTS[rng.choice([*MORE_LAYOUTS])](array)
    )


def repeated(rng, array):
    """Return the array, or a view that repeats one index along an axis."""
    if array is None or array.ndim == 0 or array.size == 0 or rng.random() < 0.9:
        return array
    axis = int(rng.integers(array.ndim))
    return np.broadcast_to(np.take(array, [0], axis), array.shape)


class Call:
    """Random arguments of a call with a given shape, axis and block size."""

    def __init__(self, rng, number, form, code, quantizes):
        self.shape, axis, block = form
        self.real = REALS[number % len(REALS)]
        self.where = {"axis": axis, "block_size": block}
        table = (quantize_options if quantizes else dequantize_options)(code)
        self.options = dict(table[int(rng.integers(len(table)))])
        compute, params = compute_dtype(self.real), parameter_shape(*form)
        seed, count = int(rng.integers(1 << 30)), math.prod(params)
        if count == 1:
            every = [*scales_for(compute).values()]
            scale = every[number % len(every)]
        else:
            scale = (usual_scales, mixed_scales)[number // 2 % 2](compute, count, seed)
        offset = zero = None
        if rng.random() < 0.3 and self.options.get("precision") in (None, "float64"):
            offset = offsets(compute, scale, seed).reshape(params)
        if rng.random() < 0.8 and TYPES[code].kind == "integer":
            zero = kept(zeros_for(code, count, seed), **self.options).reshape(params)
        # test also one scale with an offset for each group
        if offset is not None and rng.random() < 0.2:
            scale = scale[:1]
        scale = scale.reshape(params if scale.size == count else ())
        given = [repeated(rng, one) for one in (scale, zero, offset)]
        self.spread = [one if one is None else expand(one, *form) for one in given]
        self.given = [any_layout(rng, one) for one in given]
        scales, zeros, shifts = self.spread
        inverse = self.options.get("inverse", False)
        if quantizes:
            zeros = 0 if zeros is None else zeros
            self.x = numbers(self.real, scales, shifts, seed, zeros, inverse)
        else:
            self.x = codes(code, math.prod(self.shape), seed).reshape(self.shape)

    def arguments(self, each):
        """Return the arguments, with parameters for each element if `each` is true, else
        for each group."""
        scale, zero, offset = self.spread if each else self.given
        where = {"axis": tuple(range(len(self.shape))) or None} if each else self.where
        return [scale, zero], {**self.options, "offset": offset, **where}


def out_of(rng, dtype, shape):
    """Return an array for the result, in guarded memory or in a random layout, and a
    function that checks the guards."""
    if rng.random() < 0.6:
        guarded = Guarded(dtype, shape, int(rng.integers(32)))
        return guarded.array, guarded.check
    layouts = {k: make for k, make in MORE_LAYOUTS.items() if k != "read-only"}
    return layouts[rng.choice([*layouts])](poisoned(dtype, shape)), lambda: None


@pytest.mark.parametrize("direction", ["quantize", "dequantize"])
@by_family("code", AVAILABLE_CODES)
def test_calls(direction, code, isa, monkeypatch):
    quantizes = direction == "quantize"
    step, first = amount(2, 1), AVAILABLE_CODES.index(code)
    for number in range(first % step, len(EVERY_FORM), step):
        form = EVERY_FORM[number]
        rng = np.random.default_rng([number, zlib.crc32(code.encode())])
        call = Call(rng, number // step + first, form, code, quantizes)
        with case(form=form, real=call.real, **call.options):
            x = any_layout(rng, call.x)
            dtype = dtype_of(code) if quantizes else call.real
            out, check = out_of(rng, dtype, call.shape)
            call_at = quantized if quantizes else dequantized
            scales, options = call.arguments(each=True)
            due = call_at("scalar", call.x, *scales, dtype=dtype, **options)
            scales, options = call.arguments(each=False)
            options["threads"] = int(rng.choice([1, 1, 2, 3]))
            with split_small_arrays(monkeypatch):
                got = call_at(isa, x, *scales, dtype=dtype, out=out, **options)
            check()
            same_results((out.astype(dtype), got[1]), due)
