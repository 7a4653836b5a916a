"""Tests of properties that hold for every array, with examples from Hypothesis."""

import numpy as np
import oracle
import pytest
from support import (
    CHOSEN,
    LAYOUTS,
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
def calls(draw, quantizes):
    """Draw an array with any strides, parameters of any granularity, and options."""
    shape, real, code = draw(shapes), draw(real_dtypes), draw(code_dtypes)
    axis, block = draw(granularities(shape))
    params = parameter_shape(shape, axis, block)
    array = draw(bits(real if quantizes else code, shape))
    array = LAYOUTS[draw(st.sampled_from([*LAYOUTS]))](array)
    scale, zero = draw(bits(compute_dtype(real), params)), draw(bits(code, params))
    options = {"dtype": code if quantizes else real}
    if quantizes:
        precision = draw(st.none() | st.sampled_from(PRECISIONS))
        options |= {"rounding": draw(modes), "precision": precision}
    return array, scale, zero, axis, block, options


def check(call, oracle_of, function_at):
    """Compare the results of each instruction set with exact arithmetic."""
    array, *parameters, axis, block, options = call
    where = {"axis": axis, "block_size": block, **options}
    spread = [expand(one, array.shape, axis, block) for one in parameters]
    native = array.astype(array.dtype.newbyteorder("="))
    expected = oracle_of(native, *spread, **options)
    for isa in pq.isa.available():
        same(function_at(isa, array, *parameters, **where), expected)


@given(calls(True))
@examples
def test_quantize_is_exact(call):
    check(call, oracle.quantize, quantize_at)


@given(calls(False))
@examples
def test_dequantize_is_exact(call):
    check(call, oracle.dequantize, dequantize_at)


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
