"""A call allocates its result and next to nothing else, whatever lies before it."""

import tracemalloc

import numpy as np
import pytest
from support import REALS, light

import pyquant as pq

N = light(4_000_000, 1_500_000)
ROWS = N // 1000
SMALL = 1 << 20


def peak(call):
    """Bytes of the result, and the most that was allocated at once while making it."""
    call()
    tracemalloc.start()
    try:
        result = call()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return result.nbytes, most


def ones(dtype, shape=(ROWS, 1000)):
    return np.ones(shape, dtype)


SCALE_64 = np.ones((ROWS, 1000))
ROW, COLUMN = np.ones(1000), np.ones(ROWS, ">f4")

QUANTIZE = {
    **{f"contiguous {d.name}": (lambda d=d: (ones(d), {})) for d in REALS},
    "columns apart": lambda: (ones("f4", (ROWS, 2000))[:, ::2], {}),
    "transposed": lambda: (ones("f4").T, {}),
    "reversed": lambda: (ones("f4")[::-1, ::-1], {}),
    "big-endian": lambda: (ones(">f4"), {}),
    "big-endian float64": lambda: (ones(">f8"), {}),
    "misaligned": lambda: (ones("u1", (N * 4 + 1,))[1:].view("f4"), {}),
    "broadcast": lambda: (np.broadcast_to(np.float32(1), (ROWS, 1000)), {}),
    "a scale for each element": lambda: (
        ones("f4"),
        {"scale": ones("f4"), "axis": (0, 1)},
    ),
    "float64 scales": lambda: (ones("f4"), {"scale": SCALE_64, "axis": (0, 1)}),
    "float64 scales of a transposed array": lambda: (
        ones("f4", (1000, ROWS)).T,
        {"scale": SCALE_64, "axis": (0, 1)},
    ),
    "int64 zero points": lambda: (
        ones("f4"),
        {"scale": SCALE_64, "axis": (0, 1), "zero_point": ones("i8"), "dtype": "int8"},
    ),
    "blocks of one": lambda: (
        ones("f4"),
        {"scale": SCALE_64, "axis": 1, "block_size": 1},
    ),
    "small blocks": lambda: (
        ones("f2"),
        {"scale": ones("f8", (ROWS, 500)), "axis": 1, "block_size": 2},
    ),
    "rows": lambda: (ones("f4"), {"scale": COLUMN, "axis": 0}),
    "columns": lambda: (ones("f4"), {"scale": ROW, "axis": 1}),
    "another mode": lambda: (ones("f4"), {"rounding": "half_up"}),
    "another precision": lambda: (ones("f4"), {"precision": "float16"}),
    "32 bit codes": lambda: (ones("f4"), {"dtype": "int32"}),
    "two threads": lambda: (ones("f4"), {"threads": 2}),
}


@pytest.mark.parametrize("name", QUANTIZE)
def test_quantize(name):
    x, kwargs = QUANTIZE[name]()
    size, most = peak(lambda: pq.quantize(x, **{"scale": 0.5, **kwargs}))
    assert most < size + SMALL


@pytest.mark.parametrize("name", QUANTIZE)
def test_quantize_into_out(name):
    x, kwargs = QUANTIZE[name]()
    out = np.empty(x.shape, kwargs.get("dtype", "int8"))
    kwargs = {"scale": 0.5, "dtype": out.dtype, **kwargs}
    _, most = peak(lambda: pq.quantize(x, **kwargs, out=out))
    assert most < SMALL


DEQUANTIZE = {
    **{f"contiguous to {d.name}": (lambda d=d: (ones("i1"), {"dtype": d})) for d in REALS},
    "columns apart": lambda: (ones("i1", (ROWS, 2000))[:, ::2], {}),
    "transposed": lambda: (ones("u2").T, {}),
    "big-endian": lambda: (ones(">i4"), {}),
    "float64 scales": lambda: (ones("i1"), {"scale": SCALE_64, "axis": (0, 1)}),
    "blocks of one": lambda: (
        ones("u1"),
        {"scale": SCALE_64, "axis": 1, "block_size": 1},
    ),
    "rows": lambda: (ones("i1"), {"scale": COLUMN, "axis": 0}),
    "columns": lambda: (ones("i1"), {"scale": ROW, "axis": 1}),
    "two threads": lambda: (ones("i1"), {"threads": 2}),
}


@pytest.mark.parametrize("name", DEQUANTIZE)
def test_dequantize(name):
    q, kwargs = DEQUANTIZE[name]()
    size, most = peak(lambda: pq.dequantize(q, **{"scale": 0.5, **kwargs}))
    assert most < size + SMALL


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", ">f4"])
def test_choose_qparams(dtype, axis, order):
    x = np.asarray(ones(dtype), order=order)

    def call():
        pq.choose_qparams(x, axis=axis)
        return x[:0]

    _, most = peak(call)
    assert most < SMALL


def test_choose_qparams_of_many_groups():
    """The parameters, and QParams' own copy of them."""
    x = ones("f4")
    scales, most = peak(lambda: pq.choose_qparams(x, axis=(0, 1)).scale)
    zero_points = x.size
    assert most < 2 * (scales + zero_points) + SMALL


@pytest.mark.parametrize(
    "layout", ["columns apart", "reversed", "big-endian", "transposed"]
)
def test_out_of_any_layout(layout):
    out = {
        "columns apart": lambda: ones("i2", (ROWS, 2000))[:, ::2],
        "reversed": lambda: ones("i2")[::-1, ::-1],
        "big-endian": lambda: ones(">i2"),
        "transposed": lambda: ones("i2", (1000, ROWS)).T,
    }[layout]()
    x = ones("f4")
    _, most = peak(lambda: pq.quantize(x, 0.5, dtype="int16", out=out))
    assert most < SMALL
