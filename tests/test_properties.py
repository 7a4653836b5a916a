"""Properties of every array. Hypothesis searches for counterexamples."""

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
    parameter_shape,
    quantize_at,
    same,
)

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
