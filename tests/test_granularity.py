"""Scales of axes, of blocks and with kept dimensions equal a scale for each element."""

import itertools

import numpy as np
import pytest
from support import (
    HAVE_BFLOAT16,
    REALS,
    adversarial,
    bfloat16,
    loop,
    same,
    usual_scales,
)

import pyquant as pq


def test_parameters_that_overlap_in_memory():
    # The strides of the scale equal the strides of consecutive rows.
    x = adversarial("float32", 0.3, 4 * 10).reshape(4, 10)
    line = usual_scales("float32", 20)
    for step in (1, 2, 3):
        scale = np.lib.stride_tricks.sliding_window_view(line, 3)[::step][:4]
        got = pq.quantize(x, scale, axis=1, block_size=4)
        same(got, pq.quantize(x, scale.copy(), axis=1, block_size=4))


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


X = np.ones((3, 3, 4), np.float32)
SHAPES = [(3, 4), (1, 4), (4, 1), (2, 3, 4), (3, 3, 3), (2, 1, 3, 4), (2, 3, 2, 5)]
CASES = [
    (shape, axes)
    for shape in SHAPES
    for n in range(len(shape) + 1)
    for axes in itertools.combinations(range(len(shape)), n)
]


def parameters(shape, axes, dtype):
    """Return scales and zero points with all dimensions, and with some axes only."""
    kept = [n if a in axes else 1 for a, n in enumerate(shape)]
    rng = np.random.default_rng([len(shape), *axes])
    scale = rng.uniform(0.01, 0.5, kept).astype(np.float32)
    zero = rng.integers(0, 100, kept).astype(dtype)
    flat = tuple(shape[a] for a in axes)
    return scale, zero, scale.reshape(flat), zero.reshape(flat)


@loop("form", CASES)
def test_kept_dimensions_equal_axes(form):
    shape, axes = form
    x = np.random.default_rng(1).normal(0, 5, shape).astype(np.float32)
    scale, zero, flat_scale, flat_zero = parameters(shape, axes, "uint8")
    axis = {"axis": axes} if axes else {}
    q = pq.quantize(x, flat_scale, flat_zero, **axis)
    y = pq.dequantize(q, flat_scale, flat_zero, **axis)
    same(pq.quantize(x, scale, zero), q)
    same(pq.dequantize(q, scale, zero), y)
    same(
        pq.quantize(x, scale, dtype="uint8"),
        pq.quantize(x, flat_scale, dtype="uint8", **axis),
    )
    if axes:
        same(pq.quantize(x, scale, zero, axis=axes), q)
        same(pq.dequantize(q, scale, zero, axis=axes), y)
        back = tuple(a - len(shape) for a in reversed(axes))
        same(pq.quantize(x, scale, zero, axis=back), q)
    for p in (
        pq.QParams(scale, zero, "uint8"),
        pq.QParams(flat_scale, flat_zero, "uint8", **axis),
    ):
        same(p.quantize(x), q)
        same(p.dequantize(q), y)
    # One zero point beside many scales.
    one = zero.reshape(-1)[:1].reshape(())
    same(pq.quantize(x, scale, one), pq.quantize(x, flat_scale, one, **axis))
    # Fortran order.
    same(pq.quantize(np.asfortranarray(x), np.asfortranarray(scale), zero), q)


@loop("threads, dtype", [1, 2], REALS)
def test_keepdims_of_numpy(threads, dtype):
    x = np.random.default_rng(2).normal(0, 3, (4, 5, 6)).astype(dtype)
    scale = np.abs(x).max(axis=(0, 2), keepdims=True) / np.float32(127)
    got = pq.quantize(x, scale, threads=threads)
    same(got, pq.quantize(x, scale.reshape(-1), axis=1))


@pytest.mark.parametrize("code", ["int4", "float8_e4m3fn"])
def test_narrow_types(code):
    pytest.importorskip("ml_dtypes")  # optional; it defines the types
    x = np.random.default_rng(3).normal(0, 3, (3, 4)).astype(np.float32)
    scale = np.float32([[0.5], [0.25], [2]])
    q = pq.quantize(x, scale, dtype=code)
    same(q, pq.quantize(x, scale.ravel(), axis=0, dtype=code))
    same(pq.dequantize(q, scale), pq.dequantize(q, scale.ravel(), axis=0))
    if code == "int4":
        packed = pq.quantize(x, scale, dtype=code, packed=True)
        assert packed == pq.pack(q)
        same(pq.dequantize(packed, scale), pq.dequantize(q, scale))


# The dtype of `out` decides the type of the result


OUTS = ["float16", "float32", "float64", ">f2", ">f4", ">f8"]


@loop("dtype", OUTS)
def test_out_selects_the_type(dtype):
    q = np.int8([1, -100, 3])
    out = np.empty(3, dtype)
    assert pq.dequantize(q, 0.1, out=out) is out
    expected = pq.dequantize(q, 0.1, dtype=np.dtype(dtype).newbyteorder("="))
    same(out.astype(expected.dtype), expected)
    p = pq.QParams(0.1, 0, "int8")
    assert p.dequantize(q, out=np.empty(3, dtype)).tobytes() == out.tobytes()


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="ml_dtypes is not installed")
def test_out_of_bfloat16():
    q, out = np.int8([1, -100, 3]), np.empty(3, bfloat16)
    pq.dequantize(q, 0.1, out=out)
    same(out, pq.dequantize(q, 0.1, dtype="bfloat16"))
    swapped = np.empty(3, np.dtype(bfloat16).newbyteorder())
    pq.dequantize(q, 0.1, out=swapped)
    assert swapped.tobytes() == out.view("u2").byteswap().tobytes()
