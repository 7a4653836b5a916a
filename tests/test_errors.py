"""Errors name the parameter in one line, and leave `out` unchanged."""

from collections import deque

import numpy as np
import pytest
from numpy.exceptions import AxisError
from support import CHOSEN_NAMES, CODE_NAMES, HAVE_BFLOAT16, poisoned, untouched

import pyquant as pq

X = np.ones((2, 3), np.float32)
Q = np.ones((2, 3), np.int8)
READ_ONLY = np.zeros((2, 3), np.int8)
READ_ONLY.flags.writeable = False

REALS = "float32, float64, float16 or bfloat16"
CODES = "an integer type or a narrow float"
AXES = "None, an integer or a tuple of integers"
MODES = (
    "half_away, half_toward_zero, half_up, half_down, half_even, half_odd, away, trunc, "
    "ceil, floor, stochastic"
)


CODED = '; convert it with .astype("float32"), or change the scale of codes with requantize'
REAL = "; did you mean quantize?"


def bounds(axis, ndim=2):
    return f"axis {axis} is out of bounds for array of dimension {ndim}"


# Errors of both directions: (keyword arguments beside x and scale=1.0, error, text).
BOTH = {
    "scale without axis": (
        {"scale": [1.0, 2.0]},
        ValueError,
        "scale: expected one element, or all dimensions of x, without axis or block_size, "
        "got shape (2,), which fits axis=0",
    ),
    "scale of other dimensions without axis": (
        {"scale": np.ones((2, 2))},
        ValueError,
        "scale: expected one element, or all dimensions of x, without axis or block_size, "
        "got shape (2, 2), which fits block_size=(1, 2)",
    ),
    "scale that fits no axis": (
        {"scale": [1.0, 2.0, 3.0, 4.0]},
        ValueError,
        "scale: expected one element, or all dimensions of x, without axis or block_size, "
        "got shape (4,)",
    ),
    "scale that would broadcast x": (
        {"scale": np.ones((2, 1, 3))},
        ValueError,
        "scale: expected one element, or all dimensions of x, without axis or block_size, "
        "got shape (2, 1, 3)",
    ),
    "scale that keeps another dimension": (
        {"scale": np.ones((2, 1)), "axis": 1},
        ValueError,
        "scale: expected shape (3,), got (2, 1), which fits block_size=(1, 3)",
    ),
    "zero points of another dimension": (
        {"scale": np.ones((2, 1)), "zero_point": np.ones((1, 3), np.int8)},
        ValueError,
        "zero_point: expected shape (2, 1), got (1, 3)",
    ),
    "no scale": (
        {"scale": []},
        ValueError,
        "scale: expected one element, or all dimensions of x, without axis or block_size, "
        "got shape (0,)",
    ),
    "scale too short": (
        {"scale": [1.0, 2.0], "axis": 1},
        ValueError,
        "scale: expected shape (3,), got (2,), which fits axis=0",
    ),
    "scale of too many dimensions": (
        {"scale": [[1.0, 2.0]], "axis": 0},
        ValueError,
        "scale: expected shape (2,), got (1, 2), which fits block_size=(2, 2)",
    ),
    "scale of too few dimensions": (
        {"scale": [1.0, 2.0, 3.0], "axis": (0, 1)},
        ValueError,
        "scale: expected shape (2, 3), got (3,), which fits axis=1",
    ),
    "scale of a transposed shape": (
        {"scale": np.ones((3, 2)), "axis": (1, 0)},
        ValueError,
        "scale: expected shape (2, 3), got (3, 2)",
    ),
    "scale with no axes": (
        {"scale": [1.0, 2.0], "axis": ()},
        ValueError,
        "scale: expected shape (), got (2,), which fits axis=0",
    ),
    "scale of wrong blocks": (
        {"scale": [[1.0, 2.0]], "axis": 1, "block_size": 2},
        ValueError,
        "scale: expected shape (2, 2), got (1, 2), which fits block_size=(2, 2)",
    ),
    "scale of one block for many": (
        {"scale": [[1.0], [2.0]], "axis": 1, "block_size": 2},
        ValueError,
        "scale: expected shape (2, 2), got (2, 1), which fits block_size=(1, 3)",
    ),
    "scale of wrong n-d blocks": (
        {"scale": [[1.0, 2.0], [3.0, 4.0]], "block_size": (2, 2)},
        ValueError,
        "scale: expected shape (1, 2), got (2, 2), which fits block_size=(1, 2)",
    ),
    "string scale": ({"scale": "a"}, TypeError, "scale: expected an array, got str"),
    "none for scale": (
        {"scale": None},
        TypeError,
        "scale: expected an array of real numbers, got None (choose_qparams finds one)",
    ),
    "complex scale": (
        {"scale": 1j},
        TypeError,
        "scale: expected real numbers, got complex128",
    ),
    "bool scale": ({"scale": True}, TypeError, "scale: expected real numbers, got bool"),
    "object scale": (
        {"scale": np.ones(1, object)},
        TypeError,
        "scale: expected real numbers, got object",
    ),
    "masked scale": (
        {"scale": np.ma.masked_array([1.0], [1])},
        TypeError,
        "scale: expected an array without a mask, got a masked array",
    ),
    "masked array in a list": (
        {"scale": [np.ma.masked_array([1.0], [1])]},
        TypeError,
        "scale: expected an array without a mask, got a masked array",
    ),
    "masked number in a list": (
        {"scale": [1.0, np.ma.masked]},
        TypeError,
        "scale: expected an array without a mask, got a masked array",
    ),
    "masked array in another sequence": (
        {"scale": deque([np.ma.masked_array([1.0], [1])])},
        TypeError,
        "scale: expected an array without a mask, got a masked array",
    ),
    "bool for an axis": (
        {"axis": True},
        TypeError,
        "axis: expected None, an integer or a tuple of integers, got bool",
    ),
    "bool for a block": (
        {"axis": 0, "block_size": True},
        TypeError,
        "block_size: expected None, an integer or a tuple of integers, got bool",
    ),
    "axis too large": ({"scale": [1.0, 2.0], "axis": 2}, AxisError, bounds(2)),
    "axis too small": ({"scale": [1.0, 2.0], "axis": -3}, AxisError, bounds(-3)),
    "axis too large beside one scale": ({"axis": 2}, AxisError, bounds(2)),
    "one axis of two too large": (
        {"scale": [1.0, 2.0], "axis": (0, 5)},
        AxisError,
        bounds(5),
    ),
    "axis beyond 64 bits": ({"scale": [1.0, 2.0], "axis": 2**70}, AxisError, bounds(2**70)),
    "axis too large beside a block": (
        {"scale": [[1.0, 2.0]], "axis": 2, "block_size": 2},
        AxisError,
        bounds(2),
    ),
    "axis twice": (
        {"scale": [1.0, 2.0], "axis": (0, 0)},
        ValueError,
        "axis: expected different axes, got (0, 0)",
    ),
    "axis twice by another name": (
        {"scale": [1.0, 2.0], "axis": (0, -2)},
        ValueError,
        "axis: expected different axes, got (0, -2)",
    ),
    "string axis": (
        {"scale": [1.0, 2.0], "axis": "a"},
        TypeError,
        f"axis: expected {AXES}, got str",
    ),
    "float axis": (
        {"scale": [1.0, 2.0], "axis": 0.0},
        TypeError,
        f"axis: expected {AXES}, got float",
    ),
    "list of axes": (
        {"scale": [1.0, 2.0], "axis": [0]},
        TypeError,
        f"axis: expected {AXES}, got list",
    ),
    "float among axes": (
        {"scale": [1.0, 2.0], "axis": (0.5,)},
        TypeError,
        f"axis: expected {AXES}, got float",
    ),
    "block without axis": (
        {"block_size": 2},
        ValueError,
        "axis: expected one integer beside block_size=2, got None; blocks along the last "
        "axis need axis=-1",
    ),
    "block with two axes": (
        {"scale": [[1.0, 2.0]], "axis": (0, 1), "block_size": 2},
        ValueError,
        "axis: expected one integer beside block_size=2, got (0, 1)",
    ),
    "block of none": (
        {"scale": [[1.0, 2.0]], "axis": 1, "block_size": 0},
        ValueError,
        "block_size: expected positive integers, got 0",
    ),
    "block of less than none": (
        {"scale": [[1.0, 2.0]], "axis": 1, "block_size": -1},
        ValueError,
        "block_size: expected positive integers, got -1",
    ),
    "string block": (
        {"scale": [[1.0, 2.0]], "axis": 1, "block_size": "a"},
        TypeError,
        f"block_size: expected {AXES}, got str",
    ),
    "float block": (
        {"axis": 1, "block_size": 2.0},
        TypeError,
        f"block_size: expected {AXES}, got float",
    ),
    "blocks with an axis": (
        {"scale": [[1.0, 2.0]], "axis": 1, "block_size": (2, 2)},
        ValueError,
        "axis: expected None beside a block_size per dimension, got 1",
    ),
    "too few blocks": (
        {"scale": [[1.0, 2.0]], "block_size": (2,)},
        ValueError,
        "block_size: expected 2 integers, one per dimension, got (2,)",
    ),
    "too many blocks": (
        {"scale": [[1.0, 2.0]], "block_size": (2, 2, 2)},
        ValueError,
        "block_size: expected 2 integers, one per dimension, got (2, 2, 2)",
    ),
    "an empty block among blocks": (
        {"scale": [[1.0, 2.0]], "block_size": (2, 0)},
        ValueError,
        "block_size: expected positive integers, got (2, 0)",
    ),
    "zero point too large": (
        {"zero_point": 128},
        ValueError,
        "zero_point: expected integers from -128 to 127 for int8, got 128",
    ),
    "zero point too small": (
        {"zero_point": -129},
        ValueError,
        "zero_point: expected integers from -128 to 127 for int8, got -129",
    ),
    "zero point beyond 64 bits": (
        {"zero_point": 2**70},
        ValueError,
        "zero_point: expected an integer that the quantized type holds, "
        "got 1180591620717411303424",
    ),
    "one zero point too large": (
        {"scale": [1.0, 2.0], "zero_point": [1, 200], "axis": 0},
        ValueError,
        "zero_point: expected integers from -128 to 127 for int8, got 200",
    ),
    "float zero point": (
        {"zero_point": 1.0},
        TypeError,
        "zero_point: expected integers, got float64",
    ),
    "bool zero point": (
        {"zero_point": True},
        TypeError,
        "zero_point: expected integers, got bool",
    ),
    "string zero point": (
        {"zero_point": "a"},
        TypeError,
        "zero_point: expected an array, got str",
    ),
    "many zero points for one scale": (
        {"zero_point": [1, 2]},
        ValueError,
        "zero_point: expected one element beside a single scale, got shape (2,)",
    ),
    "no zero point": (
        {"zero_point": []},
        ValueError,
        "zero_point: expected one element beside a single scale, got shape (0,)",
    ),
    "zero points of another shape": (
        {"scale": [1.0, 2.0], "zero_point": [1, 2, 3], "axis": 0},
        ValueError,
        "zero_point: expected shape (2,), got (3,)",
    ),
    "no threads": (
        {"threads": 0},
        ValueError,
        "threads: expected a positive integer, got 0",
    ),
    "fewer than no threads": (
        {"threads": -1},
        ValueError,
        "threads: expected a positive integer, got -1",
    ),
    "half a thread": (
        {"threads": 2.5},
        TypeError,
        "threads: expected a positive integer, got float",
    ),
    "one thread as a float": (
        {"threads": 1.0},
        TypeError,
        "threads: expected a positive integer, got float",
    ),
    "none for threads": (
        {"threads": None},
        TypeError,
        "threads: expected a positive integer, got NoneType",
    ),
    "bool threads": (
        {"threads": True},
        TypeError,
        "threads: expected a positive integer, got bool",
    ),
    "array of threads": (
        {"threads": np.array([1, 2])},
        TypeError,
        "threads: expected a positive integer, got ndarray",
    ),
    "list for out": ({"out": [0] * 6}, TypeError, "out: expected a NumPy array, got list"),
    "buffer for out": (
        {"out": bytearray(6)},
        TypeError,
        "out: expected a NumPy array, got bytearray",
    ),
    "tuple for out": (
        {"out": (READ_ONLY,)},
        TypeError,
        "out: expected a NumPy array, got tuple",
    ),
}

QUANTIZE = {
    "int8": ({"x": Q}, TypeError, f"x: expected {REALS}, got int8{CODED}"),
    "int64": (
        {"x": np.ones(3, np.int64)},
        TypeError,
        f"x: expected {REALS}, got int64{CODED}",
    ),
    "bool": ({"x": np.ones(3, bool)}, TypeError, f"x: expected {REALS}, got bool"),
    "list of bools": ({"x": [True, False]}, TypeError, f"x: expected {REALS}, got bool"),
    "complex": (
        {"x": np.ones(3, complex)},
        TypeError,
        f"x: expected {REALS}, got complex128",
    ),
    "object": ({"x": np.ones(3, object)}, TypeError, f"x: expected {REALS}, got object"),
    "none in a list": ({"x": [1.0, None]}, TypeError, f"x: expected {REALS}, got object"),
    "strings": ({"x": np.array(["a"])}, TypeError, f"x: expected {REALS}, got <U1"),
    "string": ({"x": "a"}, TypeError, "x: expected an array, got str"),
    "bytes": ({"x": b"a"}, TypeError, "x: expected an array, got bytes"),
    "none": ({"x": None}, TypeError, "x: expected an array, got NoneType"),
    "dict": ({"x": {}}, TypeError, "x: expected an array, got dict"),
    "datetime": (
        {"x": np.zeros(3, "M8[s]")},
        TypeError,
        f"x: expected {REALS}, got datetime64[s]",
    ),
    "timedelta": (
        {"x": np.zeros(3, "m8[s]")},
        TypeError,
        f"x: expected {REALS}, got timedelta64[s]",
    ),
    "structure": (
        {"x": np.zeros(3, [("a", "<f4")])},
        TypeError,
        f"x: expected {REALS}, got [('a', '<f4')]",
    ),
    "void": ({"x": np.zeros(3, "V4")}, TypeError, f"x: expected {REALS}, got |V4"),
    "masked": (
        {"x": np.ma.masked_array([1.0, 2.0], [0, 1])},
        TypeError,
        "x: expected an array without a mask, got a masked array",
    ),
    "axis of 0-d": ({"x": np.float32(1), "axis": 0}, AxisError, bounds(0, 0)),
    "complex codes": (
        {"dtype": "complex64"},
        TypeError,
        f"dtype: expected {CODE_NAMES}, got complex64",
    ),
    "Python's bool": (
        {"dtype": bool},
        TypeError,
        f"dtype: expected {CODE_NAMES}, got bool",
    ),
    "real codes": (
        {"dtype": "float32"},
        TypeError,
        f"dtype: expected {CODE_NAMES}, got float32",
    ),
    "no dtype": (
        {"dtype": "nothing"},
        TypeError,
        f"dtype: expected {CODE_NAMES}, got 'nothing'",
    ),
    "number for dtype": ({"dtype": 5}, TypeError, f"dtype: expected {CODE_NAMES}, got 5"),
    "negative zero point for unsigned codes": (
        {"zero_point": -1, "dtype": "uint8"},
        ValueError,
        "zero_point: expected integers from 0 to 255 for uint8, got -1",
    ),
    "zero point of 2**32": (
        {"zero_point": 2**32, "dtype": "uint32"},
        ValueError,
        "zero_point: expected integers from 0 to 4294967295 for uint32, got 4294967296",
    ),
    "unsigned zero point too large": (
        {"zero_point": np.uint64(2**64 - 1), "dtype": "int8"},
        ValueError,
        "zero_point: expected integers from -128 to 127 for int8, got 18446744073709551615",
    ),
    "huge zero point in a list": (
        {"zero_point": [2**64]},
        ValueError,
        "zero_point: expected integers that the quantized type holds, "
        "got 18446744073709551616",
    ),
    "zero point of no quantized type, and no dtype": (
        {"zero_point": np.int64([3])},
        TypeError,
        f"dtype: expected {CODES} where zero_point is int64, got None",
    ),
    "float32 zero point": (
        {"zero_point": np.float32(3)},
        TypeError,
        "zero_point: expected integers, got float32",
    ),
    "masked zero point": (
        {"zero_point": np.ma.masked_array([1], [1])},
        TypeError,
        "zero_point: expected an array without a mask, got a masked array",
    ),
    "unknown mode": (
        {"rounding": "nearest"},
        ValueError,
        f"rounding: expected one of {MODES}, got 'nearest'; did you mean half_even?",
    ),
    "mode in capitals": (
        {"rounding": "HALF_EVEN"},
        ValueError,
        f"rounding: expected one of {MODES}, got 'HALF_EVEN'; did you mean half_even?",
    ),
    "none for mode": (
        {"rounding": None},
        TypeError,
        "rounding: expected a string or a RoundMode, got NoneType",
    ),
    "number for mode": (
        {"rounding": 4},
        TypeError,
        "rounding: expected a string or a RoundMode, got int",
    ),
    "list for mode": (
        {"rounding": ["ceil"]},
        TypeError,
        "rounding: expected a string or a RoundMode, got list",
    ),
    "integer precision": (
        {"precision": "int8"},
        TypeError,
        f"precision: expected None, {REALS}, got int8",
    ),
    "unknown precision": (
        {"precision": "nothing"},
        TypeError,
        f"precision: expected None, {REALS}, got 'nothing'",
    ),
    "not saturating": (
        {"saturate": False},
        ValueError,
        "saturate: expected True for int8, got False",
    ),
    "packed bytes": (
        {"packed": True},
        ValueError,
        "packed: expected False for int8, got True",
    ),
    "read-only out": (
        {"out": READ_ONLY},
        ValueError,
        "out: expected a writeable array, got a read-only one",
    ),
    "real out": (
        {"out": np.zeros((2, 3), np.float32)},
        TypeError,
        "out: expected int8, got float32",
    ),
    "unsigned out": (
        {"out": np.zeros((2, 3), np.uint8)},
        TypeError,
        "out: expected int8, got uint8",
    ),
    "out of another dtype than asked for": (
        {"out": np.zeros((2, 3), np.int8), "dtype": "int16"},
        TypeError,
        "out: expected int16, got int8",
    ),
    "transposed out": (
        {"out": np.zeros((3, 2), np.int8)},
        ValueError,
        "out: expected shape (2, 3), got (3, 2)",
    ),
    "out that would broadcast": (
        {"out": np.zeros((2, 1), np.int8)},
        ValueError,
        "out: expected shape (2, 3), got (2, 1)",
    ),
    "out of more dimensions": (
        {"out": np.zeros((1, 2, 3), np.int8)},
        ValueError,
        "out: expected shape (2, 3), got (1, 2, 3)",
    ),
    "masked out": (
        {"out": np.ma.zeros((2, 3), np.int8)},
        TypeError,
        "out: expected an array without a mask, got a masked array",
    ),
}

DEQUANTIZE = {
    "float32": ({"q": X}, TypeError, f"q: expected {CODES}, got float32{REAL}"),
    "bool": ({"q": np.ones(3, bool)}, TypeError, f"q: expected {CODES}, got bool"),
    "list of floats": ({"q": [1.0]}, TypeError, f"q: expected {CODES}, got float64{REAL}"),
    "list of bools": ({"q": [True]}, TypeError, f"q: expected {CODES}, got bool"),
    "list beyond 32 bits": (
        {"q": [1, 2**32]},
        ValueError,
        "q: expected integers that int32 or uint32 holds, got 1 to 4294967296",
    ),
    "string": ({"q": "a"}, TypeError, "q: expected an array, got str"),
    "masked": (
        {"q": np.ma.masked_array(Q)},
        TypeError,
        "q: expected an array without a mask, got a masked array",
    ),
    "zero point of a wider type": (
        {"zero_point": np.uint8(200)},
        ValueError,
        "zero_point: expected integers from -128 to 127 for int8, got 200",
    ),
    "integer dtype": ({"dtype": "int8"}, TypeError, f"dtype: expected {REALS}, got int8"),
    "no dtype": (
        {"dtype": "nothing"},
        TypeError,
        f"dtype: expected {REALS}, got 'nothing'",
    ),
    "out of codes": (
        {"out": np.zeros((2, 3), np.int8)},
        TypeError,
        f"out: expected {REALS}, got int8",
    ),
    "wider out": (
        {"out": np.zeros((2, 3), np.float64), "dtype": "float32"},
        TypeError,
        "out: expected float32, got float64",
    ),
    "transposed out": (
        {"out": np.zeros((3, 2), np.float32)},
        ValueError,
        "out: expected shape (2, 3), got (3, 2)",
    ),
}

CHOOSE = {
    "int8": (
        {"x": Q},
        TypeError,
        f'x: expected {REALS}, got int8; convert it with .astype("float32")',
    ),
    "masked": (
        {"x": np.ma.masked_array([1.0])},
        TypeError,
        "x: expected an array without a mask, got a masked array",
    ),
    "real dtype": (
        {"dtype": "float32"},
        TypeError,
        f"dtype: expected {CHOSEN_NAMES}, got float32",
    ),
    "wide dtype": (
        {"dtype": "uint64"},
        TypeError,
        f"dtype: expected {CHOSEN_NAMES}, got uint64",
    ),
    "none for dtype": (
        {"dtype": None},
        TypeError,
        f"dtype: expected {CHOSEN_NAMES}, got None",
    ),
    "axis too large": ({"axis": 5}, AxisError, bounds(5)),
    "string axis": ({"axis": "a"}, TypeError, f"axis: expected {AXES}, got str"),
    "block without axis": (
        {"block_size": 2},
        ValueError,
        "axis: expected one integer beside block_size=2, got None; blocks along the last "
        "axis need axis=-1",
    ),
    "block of none": (
        {"axis": 0, "block_size": 0},
        ValueError,
        "block_size: expected positive integers, got 0",
    ),
    "not finite": (
        {"x": np.float32([1, np.nan, -np.inf])},
        ValueError,
        "x: expected finite values, got 2 not finite, the first at index (1,)",
    ),
    **{name: error for name, error in BOTH.items() if "threads" in name},
}


def refused(error, text, call):
    """Assert that a call raises exactly this error with exactly this text."""
    __tracebackhide__ = True
    with pytest.raises((TypeError, ValueError, AxisError)) as caught:
        call()
    assert (caught.type, str(caught.value)) == (error, text)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


def check(call, positional, table, dtype):
    """Expect the error with `out`, which stays unchanged, and without it."""
    __tracebackhide__ = True
    kwargs, error, text = table
    kwargs = {**positional, "scale": 1.0, **kwargs}
    if "out" not in kwargs:
        refused(error, text, lambda: call(**kwargs))
        first = next(iter(positional))
        kwargs["out"] = poisoned(dtype, np.shape(kwargs[first]))
    before = np.array(kwargs["out"]).tobytes()
    refused(error, text, lambda: call(**kwargs))
    assert np.array(kwargs["out"]).tobytes() == before


@pytest.mark.parametrize("name", [*BOTH, *QUANTIZE])
def test_quantize(name):
    check(pq.quantize, {"x": X}, {**BOTH, **QUANTIZE}[name], np.int8)


@pytest.mark.parametrize("name", [*BOTH, *DEQUANTIZE])
def test_dequantize(name):
    check(pq.dequantize, {"q": Q}, {**BOTH, **DEQUANTIZE}[name], np.float32)


@pytest.mark.parametrize("name", CHOOSE)
def test_choose_qparams(name):
    kwargs, error, text = CHOOSE[name]
    refused(error, text, lambda: pq.choose_qparams(**{"x": X, **kwargs}))


def test_overlap_names_the_other_array():
    values = np.ones((2, 3), np.float32)
    text = "out: expected memory of its own, got an array that overlaps "
    view = values.view(np.int8)[:, :3]
    before = values.copy()
    refused(ValueError, text + "the input", lambda: pq.quantize(values, 1.0, out=view))
    refused(
        ValueError, text + "scale", lambda: pq.quantize(X, values, axis=(0, 1), out=view)
    )
    assert (values == before).all()
    zero = np.zeros((2, 3), np.int8)
    refused(
        ValueError,
        text + "zero_point",
        lambda: pq.quantize(X, X, zero, axis=(0, 1), out=zero[::-1]),
    )
    assert not zero.any()


def test_an_axis_error_is_also_the_usual_ones():
    with pytest.raises(AxisError) as caught:
        pq.quantize(X, [1.0], axis=7)
    assert isinstance(caught.value, (ValueError, IndexError))
    assert (caught.value.axis, caught.value.ndim) == (7, 2)


@pytest.mark.parametrize("name", ["x", "scale", "zero_point", "q"])
def test_a_ragged_list(name):
    ragged = [[1], [2, 3]]
    call = {
        "x": lambda: pq.quantize(ragged, 1.0),
        "scale": lambda: pq.quantize(X, ragged),
        "zero_point": lambda: pq.quantize(X, 1.0, ragged),
        "q": lambda: pq.dequantize(ragged, 1.0),
    }[name]
    expected = f"{name}: expected an array, got nested sequences of different lengths"
    refused(ValueError, expected, call)


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="ml_dtypes is not installed")
@pytest.mark.parametrize("name", ["int1", "uint1", "float8_e8m0fnu"])
def test_other_types_of_ml_dtypes(name):
    import ml_dtypes

    if not hasattr(ml_dtypes, name):
        pytest.skip("ml_dtypes is older")  # It lacks the types of 1 bit.
    dtype = getattr(ml_dtypes, name)
    array = np.zeros(3, dtype)
    refused(TypeError, f"x: expected {REALS}, got {name}", lambda: pq.quantize(array, 1.0))
    refused(
        TypeError, f"q: expected {CODES}, got {name}", lambda: pq.dequantize(array, 1.0)
    )
    refused(
        TypeError,
        f"dtype: expected {CODE_NAMES}, got {name}",
        lambda: pq.quantize(X, 1.0, dtype=dtype),
    )


def test_missing_and_unknown_arguments():
    for call in (
        pq.quantize,
        pq.dequantize,
        pq.choose_qparams,
        lambda: pq.quantize(X, 1.0, 0, "int8"),
        lambda: pq.dequantize(Q, 1.0, 0, "float32"),
        lambda: pq.quantize(X, 1.0, mode="ceil"),
        lambda: pq.dequantize(Q, 1.0, rounding="ceil"),
        lambda: pq.choose_qparams(X, "int8"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert "\n" not in str(caught.value)


def test_errors_of_an_argument_are_passed_on():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("broken")

        def __index__(self):
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match=r"^broken$"):
        pq.quantize(Broken(), 1.0)
    with pytest.raises(RuntimeError, match=r"^broken$"):
        pq.quantize(X, 1.0, axis=Broken())
    with pytest.raises(RuntimeError, match=r"^broken$"):
        pq.quantize(X, 1.0, threads=Broken())


def test_out_of_memory():
    x = np.broadcast_to(np.float32(1), (1 << 50,))
    with pytest.raises(MemoryError):
        pq.quantize(x, 1.0)


def test_an_out_that_was_refused_can_be_used():
    out = poisoned(np.int8, (2, 3))
    with pytest.raises(ValueError, match=r"^threads: "):
        pq.quantize(X, 1.0, out=out, threads=0)
    assert untouched(out)
    out.resize((6,), refcheck=False)  # No buffer holds the array.
    pq.quantize(X.reshape(6), 1.0, out=out)
    assert out.tolist() == [1] * 6


def test_a_class_that_cannot_be_hashed_is_no_dtype():
    class Meta(type):
        __hash__ = None

    class Unhashable(metaclass=Meta):
        pass

    for call in (
        lambda: pq.quantize(X, 1.0, dtype=Unhashable),
        lambda: pq.dequantize(np.int8([1]), 1.0, dtype=Unhashable),
        lambda: pq.QParams(1.0, 0, Unhashable),
        lambda: pq.choose_qparams(X, dtype=Unhashable),
    ):
        with pytest.raises(TypeError, match=r"^dtype: expected .*, got object$"):
            call()
