"""Compare scales of axes or blocks with a separate scale for each element."""

import itertools

import numpy as np
from support import (
    adversarial,
    loop,
    same,
    usual_scales,
)

import pyquant as pq


def test_parameters_that_overlap_in_memory():
    # With steps 1 and 2, consecutive rows of the scale share elements.
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


def test_64_dimensions():
    shape = (1,) * 30 + (2,) + (1,) * 32 + (3,)
    x = adversarial("float32", 0.3, 6).reshape(shape)
    got = pq.quantize(x, [0.1, 0.3], [1, 2], axis=30)
    same(got.reshape(2, 3), pq.quantize(x.reshape(2, 3), [0.1, 0.3], [1, 2], axis=0))
    got = pq.quantize(
        x, np.ones((1,) * 63 + (2,), np.float32), block_size=(1,) * 30 + (2,) * 34
    )
    same(got, pq.quantize(x, 1.0))


X = np.ones((3, 3, 4), np.float32)
SHAPES = [(3, 4), (1, 4), (4, 1), (2, 3, 4), (3, 3, 3), (2, 1, 3, 4), (2, 3, 2, 5)]
CASES = [
    (shape, axes)
    for shape in SHAPES
    for n in range(len(shape) + 1)
    for axes in itertools.combinations(range(len(shape)), n)
]


def parameters(shape, axes, dtype):
    """Return scales and zero points with all dimensions kept, and with only `axes`."""
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
    # One zero point with many scales.
    one = zero.reshape(-1)[:1].reshape(())
    same(pq.quantize(x, scale, one), pq.quantize(x, flat_scale, one, **axis))
    # Fortran order.
    same(pq.quantize(np.asfortranarray(x), np.asfortranarray(scale), zero), q)


# ---- The dtype of `out` is the type of the result ----


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
