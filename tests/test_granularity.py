"""Scales of axes and blocks give the results of a scale for each element."""

import numpy as np
from support import (
    adversarial,
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
