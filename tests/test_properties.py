"""Properties of every array. Hypothesis searches for counterexamples."""

from fractions import Fraction

import numpy as np
import oracle
import pytest
from support import (
    CHOSEN,
    MODES,
    PRECISIONS,
    REALS,
    amount,
    bit_view,
    compute_dtype,
    dequantize_at,
    expand,
    is_finite,
    parameter_shape,
    quantize_at,
    same,
)
from test_ranges import check as check_range

import pyquant as pq

pytest.importorskip("hypothesis")  # Hypothesis draws the examples.
from hypothesis import given, settings
from hypothesis import strategies as st

examples = settings(max_examples=amount(15, 150))
real_dtypes, code_dtypes = st.sampled_from(REALS), st.sampled_from(CHOSEN)
modes = st.sampled_from(MODES)
shapes = st.lists(st.integers(1, 9), max_size=4).map(tuple) | st.tuples(
    st.integers(1, 4), st.integers(1, 150)
)


@st.composite
def bits(draw, dtype, shape):
    """Draw an array with random bit patterns."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = draw(st.binary(min_size=size, max_size=size))
    return np.frombuffer(raw, np.uint8).copy().view(dtype).reshape(shape)


@st.composite
def granularities(draw, shape):
    """Draw an axis and a block size that fit a shape."""
    rank = len(shape)
    kind = draw(st.sampled_from(["axes", "block", "blocks"])) if rank else "blocks"
    if kind == "axes":
        axes = draw(st.lists(st.integers(0, rank - 1), unique=True, min_size=1))
        signs = draw(st.lists(st.booleans(), min_size=len(axes), max_size=len(axes)))
        return tuple(a - rank * s for a, s in zip(axes, signs, strict=True)), None
    if kind == "block":
        return draw(st.integers(-rank, rank - 1)), draw(st.integers(1, 40))
    return None, tuple(draw(st.integers(1, 12)) for _ in range(rank))


@st.composite
def views(draw, array):
    """Draw another memory layout of an array."""
    order = tuple(draw(st.permutations(list(range(array.ndim)))))
    back = tuple(order.index(axis) for axis in range(array.ndim))
    view = array.transpose(order).copy().transpose(back)
    for axis in range(array.ndim):
        step = draw(st.sampled_from([1, 1, -1, 2]))
        if step == 2:
            view = view.repeat(2, axis=axis)[
                (slice(None),) * axis + (slice(None, None, 2),)
            ]
        elif step == -1:
            view = np.flip(np.flip(view, axis).copy(), axis)
    return view


@st.composite
def quantize_calls(draw):
    shape, source, target = draw(shapes), draw(real_dtypes), draw(code_dtypes)
    axis, block = draw(granularities(shape))
    params = parameter_shape(shape, axis, block)
    x = draw(bits(source, shape))
    scale = draw(bits(compute_dtype(source), params))
    zero = draw(bits(target, params))
    precision = draw(st.none() | st.sampled_from(PRECISIONS))
    kwargs = {"rounding": draw(modes), "precision": precision}
    return draw(views(x)), scale, zero, axis, block, kwargs


@given(quantize_calls())
@examples
def test_quantize_is_exact(call):
    x, scale, zero, axis, block, kwargs = call
    got = pq.quantize(x, scale, zero, axis=axis, block_size=block, **kwargs)
    scale, zero = (expand(p, x.shape, axis, block) for p in (scale, zero))
    same(got, oracle.quantize(x, scale, zero, dtype=zero.dtype, **kwargs))


@given(quantize_calls(), st.sampled_from([2, 3, 7]))
@examples
def test_instruction_sets_and_parts_agree(call, parts):
    x, scale, zero, axis, block, kwargs = call
    kwargs = {"axis": axis, "block_size": block, **kwargs}
    got = [quantize_at(level, x, scale, zero, **kwargs) for level in pq.isa.available()]
    got.append(pq.quantize(x, scale, zero, threads=parts, **kwargs))
    for one in got:
        same(one, got[0])


@st.composite
def dequantize_calls(draw):
    shape, source, target = draw(shapes), draw(code_dtypes), draw(real_dtypes)
    axis, block = draw(granularities(shape))
    params = parameter_shape(shape, axis, block)
    q, zero = draw(bits(source, shape)), draw(bits(source, params))
    scale = draw(bits(compute_dtype(target), params))
    return draw(views(q)), scale, zero, axis, block, target


@given(dequantize_calls())
@examples
def test_dequantize_is_exact(call):
    q, scale, zero, axis, block, target = call
    got = pq.dequantize(q, scale, zero, axis=axis, block_size=block, dtype=target)
    for level in pq.isa.available():
        kwargs = {"axis": axis, "block_size": block, "dtype": target}
        same(dequantize_at(level, q, scale, zero, **kwargs), got)
    scale, zero = (expand(p, q.shape, axis, block) for p in (scale, zero))
    same(got, oracle.dequantize(q, scale, zero, dtype=target))


finite_scales = st.floats(2.0**-60, 2.0**60, width=32)
finite_reals = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(finite_reals, min_size=1, max_size=99), finite_scales, code_dtypes, modes)
@examples
def test_quantize_is_monotone(values, scale, target, mode):
    x = np.sort(np.array(values, np.float32))
    q = pq.quantize(x, scale, 3, dtype=target, rounding=mode).astype(np.int64)
    assert (np.diff(q) >= 0).all()


@given(st.lists(finite_reals, min_size=1, max_size=99), finite_scales, modes)
@examples
def test_a_negative_scale_mirrors(values, scale, mode):
    x = np.array(values, np.float32)
    mirrored = {
        "half_up": "half_down",
        "half_down": "half_up",
        "ceil": "floor",
        "floor": "ceil",
    }
    q = pq.quantize(x, scale, dtype="int32", rounding=mode).astype(np.int64)
    other = mirrored.get(mode, mode)
    p = pq.quantize(x, -scale, dtype="int32", rounding=other).astype(np.int64)
    inside = np.abs(q) < 2**31 - 1
    assert (p[inside] == -q[inside]).all()


@given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=99), finite_scales)
@examples
def test_nearest_is_within_half_a_step(values, scale):
    scale = np.float32(scale)
    x = np.array(values, np.float32) * scale
    x = x[np.abs(x.astype(np.float64)) < 100 * np.float64(scale)]
    q = pq.quantize(x, scale)
    for code, value in zip(q.tolist(), x.tolist(), strict=True):
        # The quotient is first rounded to float32, with an error below 2**-24.
        error = abs(Fraction(value) / Fraction(float(scale)) - code)
        assert error <= Fraction(1, 2) + Fraction(128, 2**24)


@given(st.data(), code_dtypes, finite_scales)
@examples
def test_back_and_forth_keeps_codes(data, code, scale):
    if code.itemsize == 4:
        code = np.dtype("int16")
    q = data.draw(bits(code, (data.draw(st.integers(1, 99)),)))
    zero = data.draw(bits(code, ()))
    real = pq.dequantize(q, scale, zero, dtype="float64")
    same(pq.quantize(real, np.float32(scale), zero, dtype=code), q)


@given(st.data(), shapes, real_dtypes)
@examples
def test_permuted_axes_permute_the_result(data, shape, source):
    order = tuple(data.draw(st.permutations(list(range(len(shape))))))
    x = data.draw(bits(source, shape))
    got = pq.quantize(x.transpose(order), 0.3, 5)
    same(got, pq.quantize(x, 0.3, 5).transpose(order).copy())


@given(st.data(), real_dtypes, code_dtypes, st.booleans())
@examples
def test_chosen_parameters_are_exact(data, source, target, symmetric):
    x = data.draw(bits(source, (data.draw(st.integers(1, 40)),)))
    patterns = x.view(bit_view(source))
    exponent = {2: 0x7C00 if source.name == "float16" else 0x7F80, 4: 0x7F800000}
    mask = bit_view(source).type(exponent.get(source.itemsize, 0x7FF << 52))
    x = x[patterns & mask != mask]
    p = pq.choose_qparams(x, dtype=target, symmetric=symmetric)
    scale, zero = oracle.choose_qparams(x, dtype=target, symmetric=symmetric)
    same(p.scale.reshape(1), scale)
    assert int(p.zero_point) == zero


@given(st.data(), real_dtypes, code_dtypes, st.sampled_from([None, True, False]))
@examples
def test_chosen_parameters_bring_a_pair_back(data, source, target, symmetric):
    x = data.draw(bits(source, (2,)))
    check_range(x[is_finite(x)], target.name, symmetric)
