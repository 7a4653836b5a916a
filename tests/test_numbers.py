# SPDX-License-Identifier: Apache-2.0
"""Python numbers, alone and in sequences. The fast path gives NumPy's results."""

import sys

import numpy as np
import pytest
from support import loop, same

import pyquant as pq

MOST = 2**63 - 1


class Whole(int):
    """A subclass of int."""


class Real(float):
    """A subclass of float."""


REALS = [
    0.5,
    -0.0,
    5e-324,
    1e308,
    float("inf"),
    float("nan"),
    3,
    2**53 + 1,  # ties that float64 cannot represent
    2**53 + 3,
    MOST,
    -(2**63),
    2**63,
    Whole(7),
    Real(0.25),
    np.float64(0.75),
]


@loop("one, kind", REALS, [list, tuple])
def test_reals_are_float64(kind, one):
    for values in ([one], [0.5, one], [one, 2]):
        expected = np.array([float(value) for value in values])
        parameters = pq.QParams(kind(values), None, "int8", axis=0)
        same(parameters.scale, expected)
        found = pq.quantize(kind(values), 0.7, dtype="int32")
        same(found, pq.quantize(expected, 0.7, dtype="int32"))


@loop("one", REALS)
def test_a_single_real(one):
    expected = np.array(float(one))
    found = pq.quantize(one, 0.7, dtype="int32")
    same(found, pq.quantize(expected, 0.7, dtype="int32"))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([0, -1, 2**31 - 1, -(2**31)], np.int32),
        ((1, 2), np.int32),
        ([2**31, 0], np.uint32),
        ([2**32 - 1], np.uint32),
        ([Whole(3), 1], np.int32),
    ],
)
def test_integers_are_codes(values, dtype):
    expected = pq.dequantize(np.array(values, dtype), 0.5, dtype="float64")
    same(pq.dequantize(values, 0.5, dtype="float64"), expected)


def test_a_list_may_change_later():
    values = [0.5, 1.5]
    scales = pq.QParams(values, None, "int8", axis=0).scale
    values[0] = 9.0
    same(scales, np.array([0.5, 1.5]))


LISTS = {
    "floats": ([0.1, 1e-45, 3e38], [1, 0, 255]),
    "integers": ([1, 2**24 + 1, 3], [0, 0, 0]),
    "beyond float32": ([1e300, 1.0, 2.0], [0, 0, 0]),
    "a number of NumPy": ([np.float64(0.1), 1.0, 2.0], [0, np.int64(3), 0]),
}


@pytest.mark.parametrize("name", LISTS)
@loop("kind", [list, tuple])
def test_lists_of_standards(name, kind):
    scales, zeros = LISTS[name]
    x = np.float32([[1, 2, 3], [-4, 5e37, -0.0]])
    with np.errstate(over="ignore"):
        s = np.array(scales, object).astype(np.float32)
    per_channel = {"qtype": "per_channel", "axis": 1, "dtype": "u8"}
    found = pq.onednn.quantize(x, scales=kind(scales), zps=kind(zeros), **per_channel)
    same(found, pq.onednn.dynamic_quantize(x, s, np.int32(zeros), **per_channel))
    found = pq.onnx.quantize_linear(x, kind(scales), kind(zeros), axis=1)
    same(found, pq.onnx.quantize_linear(x, s, np.uint8(zeros), axis=1))
    found = pq.ngraph.quantize(x, kind(scales), kind(zeros), "u8", kind([1]), "ROUND_UP")
    same(found, pq.ngraph.quantize(x, s, np.uint8(zeros), "u8", {1}, "ROUND_UP"))


@pytest.mark.parametrize(
    "axes", [(0, 1), [1, 0], {0, 1}, (1, 0, 1), np.array([0, 1]), (Whole(0), np.int8(1))]
)
def test_axes_are_a_set(axes):
    x = np.float32([[1, 2, 3], [4, 5, 6]])
    s, z = np.ones((2, 3), np.float32), np.zeros((2, 3), np.uint8)
    same(pq.ngraph.quantize(x, s, z, "u8", axes, "ROUND_UP"), x.astype(np.uint8))


def test_nested_mask_is_found_near_the_recursion_limit():
    values = np.ma.masked_array([1.0], [1])
    for _ in range(60):
        values = [values]

    def deep(frames):
        if frames:
            return deep(frames - 1)
        with pytest.raises(TypeError, match=r"^x: expected an array without"):
            pq.quantize(values, 1.0)
        return True

    used = 0
    frame = sys._getframe()
    while frame is not None:
        used, frame = used + 1, frame.f_back
    assert deep(sys.getrecursionlimit() - used - 60)
