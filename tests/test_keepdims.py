"""Parameters with the dimensions of `x`, as `keepdims=True` of NumPy returns them."""

import itertools

import numpy as np
import pytest
from support import HAVE_BFLOAT16, REALS, bfloat16, loop, same

import pyquant as pq

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
