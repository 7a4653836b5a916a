"""Scales of axes and blocks give the results of a scale for each element."""

import itertools

import numpy as np
import oracle
from support import (
    AVAILABLE_CODES,
    FORMS,
    REALS,
    TYPES,
    adversarial,
    amount,
    case,
    codes,
    compute_dtype,
    expand,
    loop,
    misaligned,
    mixed_scales,
    parameter_shape,
    same,
    usual_scales,
    zeros_for,
)

import pyquant as pq

TYPES_OF_CALLS = list(itertools.product(REALS, AVAILABLE_CODES))
FULL = [form for form in FORMS if np.prod(form[0]) and form[0]]


def arguments(shape, axis, block, compute, code, seed=0):
    """Return random parameters for a form. Odd seeds mix unusual scales in."""
    params = parameter_shape(shape, axis, block)
    count = int(np.prod(params))
    make = mixed_scales if seed % 2 else usual_scales
    scale = make(compute, count, seed).reshape(params)
    return scale, zeros_for(code, count).reshape(params)


@loop("form, types", FORMS, TYPES_OF_CALLS, draws=252)
def test_quantize(form, types):
    (shape, axis, block), (source, target) = form, types
    seed = TYPES_OF_CALLS.index(types)
    x = adversarial(source, 0.3, int(np.prod(shape)), seed).reshape(shape)
    scale, zero = arguments(shape, axis, block, compute_dtype(source), target, seed)
    options = {"dtype": target, "axis": axis, "block_size": block}
    spread = expand(scale, shape, axis, block), expand(zero, shape, axis, block)
    of_each = {"dtype": target, "axis": tuple(range(len(shape))) or None}
    got = pq.quantize(x, scale, zero, **options)
    same(got, pq.quantize(x, *spread, **of_each))
    if x.size < 500:
        same(got, oracle.quantize(x, *spread, dtype=target))
    if TYPES[target].kind == "integer":
        mode = oracle.MODES[seed % len(oracle.MODES)]
        got = pq.quantize(x, scale, zero, rounding=mode, **options)
        same(got, pq.quantize(x, *spread, rounding=mode, **of_each))


@loop("form, types", FORMS, TYPES_OF_CALLS, draws=252)
def test_dequantize(form, types):
    (shape, axis, block), (target, source) = form, types
    seed = TYPES_OF_CALLS.index(types)
    q = codes(source, int(np.prod(shape)), seed).reshape(shape)
    scale, zero = arguments(shape, axis, block, compute_dtype(target), source, seed)
    spread = expand(scale, shape, axis, block), expand(zero, shape, axis, block)
    got = pq.dequantize(q, scale, zero, axis=axis, block_size=block, dtype=target)
    of_each = tuple(range(len(shape))) or None
    same(got, pq.dequantize(q, *spread, axis=of_each, dtype=target))
    if q.size < 500:
        same(got, oracle.dequantize(q, *spread, dtype=target))


def rearranged(array):
    """Yield the array reversed, with gaps, misaligned and in Fortran order."""
    for axis in range(array.ndim):
        yield np.flip(np.flip(array, axis).copy(), axis)
        with_gaps = np.repeat(array, 3, axis=axis)
        yield with_gaps[(slice(None),) * axis + (slice(1, None, 3),)]
    yield misaligned(array, 13)
    yield array.copy("F")
    reverse = (slice(None, None, -1),) * array.ndim
    yield array[reverse].copy("F")[reverse]


@loop("form, types", FULL, TYPES_OF_CALLS, draws=126)
def test_every_layout(form, types):
    (shape, axis, block), (source, code) = form, types
    x = adversarial(source, 0.3, int(np.prod(shape))).reshape(shape)
    scale, zero = arguments(shape, axis, block, compute_dtype(source), code)
    where = {"axis": axis, "block_size": block}
    modes = ("half_even", "half_up") if TYPES[code].kind == "integer" else ("half_even",)
    for mode in modes:
        options = {"dtype": code, "rounding": mode, **where}
        expected = pq.quantize(x, scale, zero, **options)
        for view in rearranged(x):
            same(pq.quantize(view, scale, zero, **options), expected)
        for out in rearranged(np.zeros_like(expected)):
            assert pq.quantize(x, scale, zero, out=out, **options) is out
            same(out.copy("C"), expected)
    real = pq.dequantize(expected, scale, zero, dtype=source, **where)
    for view in rearranged(expected):
        same(pq.dequantize(view, scale, zero, dtype=source, **where), real)
        out = np.zeros_like(view, source, order="K", subok=False)
        same(pq.dequantize(view, scale, zero, out=out, **where).copy("C"), real)


def padded(array):
    """Return the array with unused memory at the end of each row."""
    return np.concatenate([array, array[..., :1]], axis=-1)[..., :-1]


def repeated(parameter):
    """Yield views that repeat part of an array along one axis, or one element along all."""
    for axis in range(parameter.ndim):
        first = (slice(None),) * axis + (slice(0, 1),)
        yield np.broadcast_to(parameter[first], parameter.shape)
    yield np.broadcast_to(parameter.reshape(-1)[1 % parameter.size], parameter.shape)


@loop("form", FULL, draws=64)
def test_parameters_that_repeat_in_memory(form):
    shape, axis, block = form
    x = adversarial("float32", 0.3, int(np.prod(shape))).reshape(shape)
    q = codes("int8", x.size).reshape(shape)
    scale, zero = arguments(shape, axis, block, "float32", "int8")
    kwargs = {"axis": axis, "block_size": block}
    cases = [(s, zero) for s in repeated(scale)] + [(scale, z) for z in repeated(zero)]
    for s, z in cases:
        for layout in (np.copy, np.asfortranarray, padded):
            view, codes_of = layout(x), layout(q)
            same(
                pq.quantize(view, s, z, **kwargs),
                pq.quantize(x, s.copy(), z.copy(), **kwargs),
            )
            same(
                pq.dequantize(codes_of, s, z, **kwargs),
                pq.dequantize(q, s.copy(), z.copy(), **kwargs),
            )


def test_parameters_that_overlap_in_memory():
    # The strides of the scale equal the strides of consecutive rows.
    x = adversarial("float32", 0.3, 4 * 10).reshape(4, 10)
    line = usual_scales("float32", 20)
    for step in (1, 2, 3):
        scale = np.lib.stride_tricks.sliding_window_view(line, 3)[::step][:4]
        got = pq.quantize(x, scale, axis=1, block_size=4)
        same(got, pq.quantize(x, scale.copy(), axis=1, block_size=4))


def test_random_forms():
    rng = np.random.default_rng(20)
    for seed in range(amount(40, 400)):
        shape = tuple(rng.integers(1, 9, rng.integers(1, 6)).tolist())
        shape = shape if rng.random() < 0.5 else (*shape[:2], int(rng.integers(1, 200)))
        rank = len(shape)
        kind = rng.integers(3)
        axis, block = None, None
        if kind == 0:
            axis = tuple(rng.permutation(rank)[: rng.integers(1, rank + 1)].tolist())
        elif kind == 1:
            axis, block = int(rng.integers(-rank, rank)), int(rng.integers(1, 40))
        else:
            block = tuple(rng.integers(1, 9, rank).tolist())
        scale, zero = arguments(shape, axis, block, "float32", "int8", seed)
        spread = expand(scale, shape, axis, block), expand(zero, shape, axis, block)
        everything = tuple(range(rank))
        x = adversarial("float32", 0.3, int(np.prod(shape)), seed=seed).reshape(shape)
        kwargs = {"axis": axis, "block_size": block}
        with case(shape=shape, **kwargs):
            got = pq.quantize(x, scale, zero, **kwargs)
            same(got, pq.quantize(x, *spread, axis=everything))
            back = pq.dequantize(got, scale, zero, **kwargs)
            same(back, pq.dequantize(got, *spread, axis=everything))


def test_axis_examples():
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    same(pq.quantize(x, [1.0, 2.0], axis=0), np.int8([[1, 2, 3], [2, 2, 3]]))
    same(pq.quantize(x, [1.0, 2.0, 3.0], axis=1), np.int8([[1, 1, 1], [4, 2, 2]]))
    same(
        pq.quantize(x, [[1, 2, 3], [4, 5, 6]], axis=(0, 1)), np.int8([[1, 1, 1], [1, 1, 1]])
    )


def test_block_examples():
    x = np.arange(10, dtype=np.float32)
    got = pq.quantize(x, [1.0, 2.0, 0.5], axis=0, block_size=4)
    same(got, np.int8([0, 1, 2, 3, 2, 2, 3, 4, 16, 18]))
    square = np.arange(12, dtype=np.float32).reshape(3, 4)
    got = pq.quantize(square, [[1.0, 0.5], [0.25, 2.0]], block_size=(2, 3))
    same(got, np.int8([[0, 1, 2, 6], [4, 5, 6, 14], [32, 36, 40, 6]]))


@loop("shape", [(), (1,), (1, 1), (1, 1, 1, 1)])
def test_one_element_of_any_shape_is_per_tensor(shape):
    x = adversarial("float32", 0.3, 99).reshape(3, 33)
    expected = pq.quantize(x, 0.3, 3)
    scale = np.full(shape, 0.3, dtype=np.float32)
    same(pq.quantize(x, scale, 3), expected)
    same(pq.quantize(x, scale, np.full(shape, 3, dtype=np.int8)), expected)
    for axis in (0, 1, -1, (0, 1)):
        same(pq.quantize(x, scale, 3, axis=axis), expected)
    same(pq.quantize(x, scale, 3, axis=1, block_size=10), expected)
    same(pq.quantize(x, scale, 3, block_size=(2, 10)), expected)


def test_one_zero_point_serves_many_scales():
    x = adversarial("float32", 0.3, 99).reshape(3, 33)
    scale = np.float32([0.1, 0.2, 0.3])
    expected = pq.quantize(x, scale, np.int8([5, 5, 5]), axis=0)
    for zero in (5, [5], np.int8(5), np.int8([5]), np.int8([[5]])):
        same(pq.quantize(x, scale, zero, axis=0, dtype="int8"), expected)


def test_64_dimensions():
    shape = (1,) * 30 + (2,) + (1,) * 32 + (3,)
    x = adversarial("float32", 0.3, 6).reshape(shape)
    got = pq.quantize(x, [0.1, 0.3], [1, 2], axis=30)
    same(got.reshape(2, 3), pq.quantize(x.reshape(2, 3), [0.1, 0.3], [1, 2], axis=0))
    got = pq.quantize(
        x, np.ones((1,) * 63 + (2,), np.float32), block_size=(1,) * 30 + (2,) * 34
    )
    same(got, pq.quantize(x, 1.0))


@loop(
    "columns, block, layout",
    [64, 75, 100],
    [16, 32, 40, 64],
    ["one", "close", "apart", "by row", "by column"],
)
def test_many_short_rows_with_gaps(columns, block, layout):
    """Rows with gaps and with separate parameters give the results of single rows."""
    rows, groups = 70, -(-columns // block)
    rng = np.random.default_rng(columns * block)
    x = rng.normal(0, 40, (rows, columns + 5)).astype(np.float32)[:, :columns]
    scale = rng.uniform(0.5, 2, (rows, groups)).astype(np.float32)
    if layout == "one":
        zero = np.uint8(7)
    elif layout == "by row":
        zero = np.broadcast_to(rng.integers(0, 99, (rows, 1)).astype(np.uint8), scale.shape)
    elif layout == "by column":
        zero = np.broadcast_to(rng.integers(0, 99, groups).astype(np.uint8), scale.shape)
    else:
        zero = rng.integers(0, 99, (rows, groups + 3 * (layout == "apart")))
        zero = zero.astype(np.uint8)[:, :groups]
    where = {"axis": 1, "block_size": block}
    out = np.zeros((rows, columns + 3), np.uint8)[:, :columns]
    q = pq.quantize(x, scale, zero, dtype="uint8", out=out, **where)
    y = pq.dequantize(q, scale, zero, **where)
    for r in range(rows):
        z = zero if layout == "one" else np.ascontiguousarray(zero[r])
        alone = {"axis": 0, "block_size": block}
        same(q[r], pq.quantize(x[r].copy(), scale[r], z, dtype="uint8", **alone))
        same(y[r], pq.dequantize(q[r].copy(), scale[r], z, **alone))


@loop("block, axis", [5, 32], [0, 1])
def test_blocks_over_the_channels_of_a_convolution(block, axis):
    """Each place of the kernel of a convolution has a scale for each block of channels."""
    rng = np.random.default_rng(block)
    w = rng.normal(0, 3, (40, 70, 3, 3)).astype(np.float32)
    shape = [-(-n // block) if d == axis else n for d, n in enumerate(w.shape)]
    scale = rng.uniform(0.01, 0.1, shape).astype(np.float32)
    for zero in (None, np.int8(-3), rng.integers(-9, 9, shape).astype(np.int8)):
        each = np.repeat(scale, block, axis).take(range(w.shape[axis]), axis)
        zeros = zero
        if zero is not None and zero.ndim:
            zeros = np.repeat(zero, block, axis).take(range(w.shape[axis]), axis)
        q = pq.quantize(w, scale, zero, axis=axis, block_size=block)
        same(q, pq.quantize(w, each, zeros))
        y = pq.dequantize(q, scale, zero, axis=axis, block_size=block)
        same(y, pq.dequantize(q, each, zeros))
