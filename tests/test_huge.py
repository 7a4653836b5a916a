"""Tests of arrays that broadcast one element to more elements than memory has bytes."""

import numpy as np
import pytest
from support import REALS

import pyquant as pq

HUGE = 2**59  # the largest number of float64 elements in a NumPy array


def huge(value):
    """Return an array of HUGE elements that share the memory of one element."""
    return np.broadcast_to(value, (HUGE,))


def rows(dtype):
    """Return an array with HUGE rows of no elements."""
    return np.broadcast_to(np.zeros((1, 0), dtype), (HUGE, 0))


@pytest.mark.parametrize("dtype", REALS, ids=str)
def test_parameters_of_one_value(dtype):
    x = np.ones((), dtype) * 3
    for array in (huge(x), huge(x)[::-1], huge(x)[::3], huge(x).reshape(2**30, 2**29)):
        for code in ("int8", "uint8"):
            expected = pq.choose_qparams(x.reshape(1), dtype=code)
            assert pq.choose_qparams(array, dtype=code) == expected


def test_parameters_by_the_short_axis():
    x = np.broadcast_to(np.float32([[1], [2], [-3]]), (3, 2**58))
    p = pq.choose_qparams(x, axis=0)
    assert p == pq.choose_qparams(np.float32([[1], [2], [-3]]), axis=0)
    assert pq.choose_qparams(x.T, axis=1).scale.tolist() == p.scale.tolist()


def test_parameters_of_large_blocks():
    p = pq.choose_qparams(huge(np.float32(127)), axis=0, block_size=2**58)
    assert p.scale.tolist() == [1.0, 1.0]
    assert p.block_size == 2**58


def test_no_elements():
    p = pq.choose_qparams(rows("f4"))
    assert (p.scale.tolist(), p.zero_point.tolist()) == (1.0, 0)
    assert pq.choose_qparams(rows("f4"), axis=1).scale.shape == (0,)
    assert pq.quantize(rows("f4"), 1.0).shape == (HUGE, 0)
    assert pq.dequantize(rows("i1"), 1.0).shape == (HUGE, 0)


CALLS = {
    "quantize": lambda: pq.quantize(huge(np.float32(3)), 1.0),
    "packed": lambda: pq.quantize(huge(np.float32(3)), 1.0, dtype="int4", packed=True),
    "threads": lambda: pq.quantize(huge(np.float32(3)), 1.0, threads=2),
    "dequantize": lambda: pq.dequantize(huge(np.int8(3)), 1.0),
    "axis": lambda: pq.choose_qparams(huge(np.float32(3)), axis=0),
    "blocks": lambda: pq.choose_qparams(huge(np.float32(3)), axis=0, block_size=2),
    "rows": lambda: pq.choose_qparams(rows("f4"), axis=0),
    "QParams": lambda: pq.QParams(1.0, 0, "int8").quantize(huge(np.float32(3))),
    "onnx": lambda: pq.onnx.quantize_linear(huge(np.float32(3)), np.float32(1)),
    "dynamic": lambda: pq.onnx.dynamic_quantize_linear(huge(np.float32(3))),
    "scales": lambda: pq.quantize(np.ones(3), huge(np.float32(3)), axis=0),
    "zeros": lambda: pq.quantize(np.ones(3), 1.0, huge(np.int8(3))),
    "float64 of rows": lambda: pq.dequantize(
        np.broadcast_to(rows("i1"), (2, HUGE, 0)), 1.0, dtype="float64"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_beyond_the_memory_raise_an_exception(name):
    with pytest.raises((MemoryError, ValueError)):
        CALLS[name]()
