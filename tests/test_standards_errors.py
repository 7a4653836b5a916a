"""Errors of the standards: one line with the name of the operator, and nothing else."""

import re

import numpy as np
import pytest
from numpy.exceptions import AxisError
from support import REALS, case, loop, same

import pyquant as pq
from pyquant import _core, com_microsoft, ngraph, onednn, onnx

# The tables hold its arrays; test_without_ml_dtypes.py has the refusals without it.
ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; the types tried are its

X = np.ones((2, 3), np.float32)
Q = np.ones((2, 3), np.int8)
ONE, ZERO = np.float32(1), np.int8(0)
TWO, THREE = np.ones(2, np.float32), np.ones(3, np.float32)
I4, I2 = np.zeros(3, ml_dtypes.int4), np.zeros(3, ml_dtypes.int2)
F8, E8 = np.zeros(3, ml_dtypes.float8_e4m3fn), np.ones(3, ml_dtypes.float8_e8m0fnu)
BF16 = np.ones(3, ml_dtypes.bfloat16)
MASKED = np.ma.masked_array(X, X > 2)
MODE = "ROUND_UP"

REAL = "elements of float32, float64, float16 or bfloat16"
MODES = ", ".join(ngraph.RoundMode.__members__)
FLOAT8 = "float8_e4m3fn, float8_e4m3fnuz, float8_e5m2, float8_e5m2fnuz"
FLOATS = f"{FLOAT8}, float6_e2m3fn, float6_e3m2fn"
CODES = f"uint8, int8, uint16, int16, int4, uint4, int2, uint2, {FLOATS}"
CODES_OR_INT32 = f"{CODES}, float4_e2m1fn or int32"
CODES = f"{CODES} or float4_e2m1fn"
LISTS = "int64, int32, int16, int8, uint32, uint16 or uint8"
DNN = "uint8, int8, float8_e4m3fn or float8_e5m2"
SIX = "uint8, int8, uint16, int16, int4"


def outside(axis, ndim=2):
    return f"axis {axis} is out of bounds for array of dimension {ndim}"


# function -> its name in messages, arguments that are right, and for each name: what
# replaces some of them, the error, the parameter, what follows the name of the standard.
CASES = {
    ngraph.quantize: (
        "nGraph Quantize",
        {
            "input": X,
            "scale": ONE,
            "zero_point": ZERO,
            "type": "i8",
            "axes": (),
            "round_mode": MODE,
        },
        {
            "codes": ({"input": Q}, TypeError, "input", f"expects {REAL}, got int8"),
            "bool": ({"input": True}, TypeError, "input", f"expects {REAL}, got bool"),
            "complex": (
                {"input": 1j},
                TypeError,
                "input",
                f"expects {REAL}, got complex128",
            ),
            "mask": (
                {"input": MASKED},
                TypeError,
                "input",
                f"expects {REAL}, got a masked array",
            ),
            "scale of another type": (
                {"scale": np.float16(1)},
                TypeError,
                "scale",
                "expects elements of float32, got float16",
            ),
            "float64 beside float16": (
                {"input": np.float16(X), "scale": np.ones(())},
                TypeError,
                "scale",
                "expects elements of float16, got float64",
            ),
            "zero point of another type": (
                {"zero_point": np.uint8(0)},
                TypeError,
                "zero_point",
                "expects elements of int8, got uint8",
            ),
            "fraction for zero point": (
                {"zero_point": 0.5},
                TypeError,
                "zero_point",
                "expects elements of int8, got float64",
            ),
            "type int16": (
                {"type": "int16"},
                TypeError,
                "type",
                "expects a quantized type, int8, uint8 or int32, got int16",
            ),
            "type by a name of others": (
                {"type": "i16"},
                TypeError,
                "type",
                "expects a quantized type, int8, uint8 or int32, got 'i16'",
            ),
            "real type": (
                {"type": "f32"},
                TypeError,
                "type",
                "expects a quantized type, int8, uint8 or int32, got float32",
            ),
            "no type": (
                {"type": None},
                TypeError,
                "type",
                "expects a quantized type, int8, uint8 or int32, got None",
            ),
            "int4": (
                {"type": ml_dtypes.int4},
                TypeError,
                "type",
                "expects a quantized type, int8, uint8 or int32, got int4",
            ),
            "dynamic type": (
                {"type": "dynamic"},
                ValueError,
                "type",
                "expects a type that is not dynamic, got dynamic",
            ),
            "axis too large": ({"axes": (5,)}, AxisError, "axes", outside(5)),
            "negative axis": ({"axes": {-1}}, AxisError, "axes", outside(-1)),
            "axes an integer": (
                {"axes": 1},
                TypeError,
                "axes",
                "expects a set of integers, got 1",
            ),
            "no axes": (
                {"axes": None},
                TypeError,
                "axes",
                "expects a set of integers, got None",
            ),
            "fraction among axes": (
                {"axes": (1.0,)},
                TypeError,
                "axes",
                "expects a set of integers, got (1.0,)",
            ),
            "string of axes": (
                {"axes": "01"},
                TypeError,
                "axes",
                "expects a set of integers, got '01'",
            ),
            "scale unlike zero point": (
                {"scale": TWO},
                ValueError,
                "scale",
                "expects the shape of zero_point, (), got (2,)",
            ),
            "one element unlike none": (
                {"zero_point": np.int8([0])},
                ValueError,
                "scale",
                "expects the shape of zero_point, (1,), got ()",
            ),
            "more dimensions than axes": (
                {"scale": TWO, "zero_point": np.int8([0, 0])},
                ValueError,
                "scale",
                "expects as many dimensions as axes, 0, got 1",
            ),
            "fewer dimensions than axes": (
                {"axes": (0, 1)},
                ValueError,
                "scale",
                "expects as many dimensions as axes, 2, got 0",
            ),
            "extent unlike the axis": (
                {"scale": TWO, "zero_point": np.int8([0, 0]), "axes": (1,)},
                ValueError,
                "scale",
                "expects shape (3,), got (2,)",
            ),
            "one for many": (
                {"scale": TWO[:1], "zero_point": np.int8([0]), "axes": (0,)},
                ValueError,
                "scale",
                "expects shape (2,), got (1,)",
            ),
            "mode of pyquant": (
                {"round_mode": "half_even"},
                ValueError,
                "round_mode",
                f"expects one of {MODES}, got 'half_even'",
            ),
            "mode in small letters": (
                {"round_mode": "round_up"},
                ValueError,
                "round_mode",
                f"expects one of {MODES}, got 'round_up'",
            ),
            "number of a mode": (
                {"round_mode": 4},
                TypeError,
                "round_mode",
                "expects a RoundMode or its name, got int",
            ),
            "no mode": (
                {"round_mode": None},
                TypeError,
                "round_mode",
                "expects a RoundMode or its name, got NoneType",
            ),
        },
    ),
    ngraph.dequantize: (
        "nGraph Dequantize",
        {"input": Q, "scale": ONE, "zero_point": ZERO, "type": "f32", "axes": ()},
        {
            "real input": (
                {"input": X},
                TypeError,
                "input",
                "expects elements of int8, uint8 or int32, got float32",
            ),
            "int16": (
                {"input": np.int16([1])},
                TypeError,
                "input",
                "expects elements of int8, uint8 or int32, got int16",
            ),
            "int4": (
                {"input": I4},
                TypeError,
                "input",
                "expects elements of int8, uint8 or int32, got int4",
            ),
            "packed": (
                {"input": pq.pack(I4)},
                TypeError,
                "input",
                "expects elements of int8, uint8 or int32, got int4",
            ),
            "code for a type": (
                {"type": "i8"},
                TypeError,
                "type",
                "expects a real type, float32, float64, float16 or bfloat16, got int8",
            ),
            "dynamic type": (
                {"type": "dynamic"},
                ValueError,
                "type",
                "expects a type that is not dynamic, got dynamic",
            ),
            "scale unlike type": (
                {"scale": np.ones(())},
                TypeError,
                "scale",
                "expects elements of float32, got float64",
            ),
            "zero point unlike input": (
                {"zero_point": np.uint8(0)},
                TypeError,
                "zero_point",
                "expects elements of int8, got uint8",
            ),
            "scale unlike zero point": (
                {"scale": TWO},
                ValueError,
                "scale",
                "expects the shape of zero_point, (), got (2,)",
            ),
            "axis too large": ({"axes": (7,)}, AxisError, "axes", outside(7)),
        },
    ),
    onednn.quantize: (
        "oneDNN Quantize",
        {"src": X, "scales": [1.0], "dtype": "s8"},
        {
            "float64": (
                {"src": np.ones(2)},
                TypeError,
                "src",
                "expects elements of float32, got float64",
            ),
            "bfloat16": (
                {"src": BF16},
                TypeError,
                "src",
                "expects elements of float32, got bfloat16",
            ),
            "codes": (
                {"src": Q},
                TypeError,
                "src",
                "expects elements of float32, got int8",
            ),
            "mask": (
                {"src": MASKED},
                TypeError,
                "src",
                "expects elements of float32, got a masked array",
            ),
            "zero scale": (
                {"scales": [0.0]},
                ValueError,
                "scales",
                "expects no zero, got one at index 0",
            ),
            "zero among scales": (
                {"scales": [1.0, -0.0, 2.0], "qtype": "per_channel"},
                ValueError,
                "scales",
                "expects no zero, got one at index 1",
            ),
            "no list": (
                {"scales": [[1.0]]},
                ValueError,
                "scales",
                "expects a list, got shape (1, 1)",
            ),
            "two scales": (
                {"scales": [1.0, 2.0]},
                ValueError,
                "scales",
                "expects one element, got (2,)",
            ),
            "no scales": (
                {"scales": []},
                ValueError,
                "scales",
                "expects one element, got (0,)",
            ),
            "scales of bool": (
                {"scales": [True]},
                TypeError,
                "scales",
                f"expects elements of float32, float64, float16, {LISTS}, got bool",
            ),
            "fractions for zero points": (
                {"zps": [1.0]},
                TypeError,
                "zps",
                f"expects elements of {LISTS}, got float64",
            ),
            "too many zero points": (
                {"zps": [1, 2]},
                ValueError,
                "zps",
                "expects as many as scales, shape (1,), got (2,)",
            ),
            "no zero points": (
                {"zps": []},
                ValueError,
                "zps",
                "expects as many as scales, shape (1,), got (0,)",
            ),
            "unknown qtype": (
                {"qtype": "x"},
                ValueError,
                "qtype",
                "expects one of per_tensor, per_channel, got 'x'",
            ),
            "groups": (
                {"qtype": "per_group"},
                ValueError,
                "qtype",
                "expects one of per_tensor, per_channel, got 'per_group'",
            ),
            "no qtype": (
                {"qtype": None},
                TypeError,
                "qtype",
                "expects one of per_tensor, per_channel, got None",
            ),
            "too few scales": (
                {"scales": [1.0, 2.0], "qtype": "per_channel"},
                ValueError,
                "scales",
                "expects shape (3,), got (2,)",
            ),
            "one zero point for channels": (
                {"scales": [1.0] * 3, "zps": [1], "qtype": "per_channel"},
                ValueError,
                "zps",
                "expects as many as scales, shape (3,), got (1,)",
            ),
            "axis too large": (
                {"scales": [1.0] * 3, "qtype": "per_channel", "axis": 2},
                AxisError,
                "axis",
                outside(2),
            ),
            "fraction for axis": (
                {"scales": [1.0] * 3, "qtype": "per_channel", "axis": 1.0},
                TypeError,
                "axis",
                "expects an integer, got float",
            ),
            "bool for axis": (
                {"scales": [1.0] * 3, "qtype": "per_channel", "axis": True},
                TypeError,
                "axis",
                "expects an integer, got bool",
            ),
            "int16": ({"dtype": "int16"}, TypeError, "dtype", f"expects {DNN}, got int16"),
            "no dtype": ({"dtype": None}, TypeError, "dtype", f"expects {DNN}, got None"),
            "dtype by a name of others": (
                {"dtype": "bf8"},
                TypeError,
                "dtype",
                f"expects {DNN}, got 'bf8'",
            ),
            "zero points of float8": (
                {"dtype": "f8_e4m3", "zps": [0]},
                ValueError,
                "zps",
                "expects None for float8_e4m3fn, got zero points",
            ),
        },
    ),
    onednn.dequantize: (
        "oneDNN Dequantize",
        {"src": Q, "scales": [1.0]},
        {
            "real": (
                {"src": X},
                TypeError,
                "src",
                f"expects elements of {DNN}, got float32",
            ),
            "int4": ({"src": I4}, TypeError, "src", f"expects elements of {DNN}, got int4"),
            "fractions": (
                {"src": [1.0]},
                TypeError,
                "src",
                f"expects elements of {DNN}, got float64",
            ),
            "zero points of float8": (
                {"src": F8, "zps": [0]},
                ValueError,
                "zps",
                "expects None for float8_e4m3fn, got zero points",
            ),
            "too many zero points": (
                {"zps": [1, 2]},
                ValueError,
                "zps",
                "expects as many as scales, shape (1,), got (2,)",
            ),
        },
    ),
    onednn.dynamic_quantize: (
        "oneAPI DynamicQuantize",
        {"src": X, "scales": ONE, "dtype": "s8"},
        {
            "float64 scales": (
                {"scales": np.ones(1)},
                TypeError,
                "scales",
                "expects elements of float32, got float64",
            ),
            "int64 zero points": (
                {"zps": np.int64(0)},
                TypeError,
                "zps",
                "expects elements of int32, uint8 or int8, got int64",
            ),
            "int4 zero points": (
                {"zps": I4[:1]},
                TypeError,
                "zps",
                "expects elements of int32, uint8 or int8, got int4",
            ),
            "scale of two dimensions": (
                {"scales": X[:1, :1]},
                ValueError,
                "scales",
                "expects one element, got (1, 1)",
            ),
            "groups": (
                {"qtype": "per_group"},
                ValueError,
                "qtype",
                "expects one of per_tensor, per_channel, got 'per_group'",
            ),
            "zero points of float8": (
                {"dtype": "f8_e5m2", "zps": ZERO},
                ValueError,
                "zps",
                "expects None for float8_e5m2, got zero points",
            ),
        },
    ),
    onednn.dynamic_dequantize: (
        "oneAPI DynamicDequantize",
        {"src": Q, "scales": ONE},
        {
            "int2": (
                {"src": I2},
                TypeError,
                "src",
                "expects elements of uint8, int8, int4, uint4, float8_e4m3fn or "
                "float8_e5m2, got int2",
            ),
            "float64 scales": (
                {"scales": np.ones(1)},
                TypeError,
                "scales",
                "expects elements of float32, float16 or bfloat16, got float64",
            ),
            "int64 zero points": (
                {"zps": np.int64(0)},
                TypeError,
                "zps",
                "expects elements of int32, uint8, int8, int4 or uint4, got int64",
            ),
            "groups of no shape": (
                {"qtype": "per_group", "scales": X[:, :1]},
                ValueError,
                "group_shape",
                "expects an integer for each dimension, got None",
            ),
            "groups that do not divide": (
                {"qtype": "per_group", "scales": X[:, :2], "group_shape": (1, 2)},
                ValueError,
                "group_shape",
                "expects divisors of shape (2, 3), got (1, 2)",
            ),
            "groups of too few dimensions": (
                {"qtype": "per_group", "scales": X[:, :1], "group_shape": (3,)},
                ValueError,
                "group_shape",
                "expects divisors of shape (2, 3), got (3,)",
            ),
            "empty groups": (
                {"qtype": "per_group", "scales": X[:, :1], "group_shape": (0, 3)},
                ValueError,
                "group_shape",
                "expects divisors of shape (2, 3), got (0, 3)",
            ),
            "groups an integer": (
                {"qtype": "per_group", "scales": X[:, :1], "group_shape": 3},
                TypeError,
                "group_shape",
                "expects integers, got 3",
            ),
            "scales unlike groups": (
                {"qtype": "per_group", "scales": TWO, "group_shape": (1, 3)},
                ValueError,
                "scales",
                "expects shape (2, 1), got (2,)",
            ),
            "zero points unlike groups": (
                {
                    "qtype": "per_group",
                    "scales": X[:, :1],
                    "zps": ZERO,
                    "group_shape": (1, 3),
                },
                ValueError,
                "zps",
                "expects shape (2, 1), got ()",
            ),
            "shape without groups": (
                {"group_shape": (1, 3)},
                ValueError,
                "group_shape",
                "expects None with qtype 'per_tensor', got (1, 3)",
            ),
            "unknown qtype": (
                {"qtype": "x"},
                ValueError,
                "qtype",
                "expects one of per_tensor, per_channel, per_group, got 'x'",
            ),
            "zero points of float8": (
                {"src": F8, "zps": ZERO},
                ValueError,
                "zps",
                "expects None for float8_e4m3fn, got zero points",
            ),
            "axis too small": (
                {"qtype": "per_channel", "scales": THREE, "axis": -3},
                AxisError,
                "axis",
                outside(-3),
            ),
        },
    ),
    onnx.quantize_linear: (
        "ONNX QuantizeLinear",
        {"x": X, "y_scale": ONE},
        {
            "float64": (
                {"x": np.ones(2)},
                TypeError,
                "x",
                "expects elements of float32, float16, bfloat16 or int32, got float64",
            ),
            "codes": (
                {"x": Q},
                TypeError,
                "x",
                "expects elements of float32, float16, bfloat16 or int32, got int8",
            ),
            "mask": (
                {"x": MASKED},
                TypeError,
                "x",
                "expects elements of float32, float16, bfloat16 or int32, "
                "got a masked array",
            ),
            "scale of codes": (
                {"y_scale": np.int8(1)},
                TypeError,
                "y_scale",
                "expects elements of float32, float16, bfloat16, int32 or float8_e8m0fnu, "
                "got int8",
            ),
            "int32 zero point": (
                {"y_zero_point": np.int32(0)},
                TypeError,
                "y_zero_point",
                f"expects elements of {CODES}, got int32",
            ),
            "zero point unlike scale": (
                {"y_zero_point": np.uint8([0, 0])},
                ValueError,
                "y_zero_point",
                "expects the shape of y_scale, (), got (2,)",
            ),
            "one zero point for many scales": (
                {"y_scale": THREE, "y_zero_point": np.uint8(0)},
                ValueError,
                "y_zero_point",
                "expects the shape of y_scale, (3,), got ()",
            ),
            "unknown number of a type": (
                {"output_dtype": 7},
                TypeError,
                "output_dtype",
                f"expects 0, {CODES}, got 7",
            ),
            "number of int32": (
                {"output_dtype": 6},
                TypeError,
                "output_dtype",
                f"expects 0, {CODES}, got int32",
            ),
            "scales as a type": (
                {"output_dtype": "float8_e8m0fnu"},
                TypeError,
                "output_dtype",
                f"expects 0, {CODES}, got float8_e8m0fnu",
            ),
            "none for a type": (
                {"output_dtype": None},
                TypeError,
                "output_dtype",
                f"expects 0, {CODES}, got None",
            ),
            "bool for a type": (
                {"output_dtype": False},
                TypeError,
                "output_dtype",
                f"expects 0, {CODES}, got False",
            ),
            "two types": (
                {"output_dtype": 3, "y_zero_point": np.uint8(0)},
                ValueError,
                "output_dtype",
                "expects the type of y_zero_point, uint8, got int8",
            ),
            "precision of float64": (
                {"precision": 11},
                TypeError,
                "precision",
                "expects 0, float32, float16 or bfloat16, got float64",
            ),
            "precision of codes": (
                {"precision": "int8"},
                TypeError,
                "precision",
                "expects 0, float32, float16 or bfloat16, got int8",
            ),
            "saturate": ({"saturate": 2}, ValueError, "saturate", "expects 0 or 1, got 2"),
            "none for axis": (
                {"y_scale": THREE, "axis": None},
                TypeError,
                "axis",
                "expects an integer, got NoneType",
            ),
            "axis too large": (
                {"y_scale": THREE, "axis": 2},
                AxisError,
                "axis",
                outside(2),
            ),
            "axis of no dimension": (
                {"x": ONE, "y_scale": TWO},
                AxisError,
                "axis",
                outside(1, 0),
            ),
            "scale of another length": (
                {"y_scale": TWO},
                ValueError,
                "y_scale",
                "expects shape (3,), got (2,)",
            ),
            "scale of two dimensions": (
                {"y_scale": X[:1]},
                ValueError,
                "y_scale",
                "expects a scalar or one dimension without block_size, got shape (1, 3)",
            ),
            "one element of rank 2": (
                {"y_scale": X[:1, :1]},
                ValueError,
                "y_scale",
                "expects a scalar or one dimension without block_size, got shape (1, 1)",
            ),
            "array for axis": (
                {"axis": np.array([1])},
                TypeError,
                "axis",
                "expects an integer, got ndarray",
            ),
            "one element for several blocks": (
                {"y_scale": X[:1, :1], "block_size": 2},
                ValueError,
                "y_scale",
                "expects shape (2, 2), got (1, 1)",
            ),
            "zero point of rank 2": (
                {"y_zero_point": np.zeros((1, 1), np.uint8)},
                ValueError,
                "y_zero_point",
                "expects the shape of y_scale, (), got (1, 1)",
            ),
            "string for axis beside one element": (
                {"axis": "x"},
                TypeError,
                "axis",
                "expects an integer, got str",
            ),
            "negative block": (
                {"block_size": -1},
                ValueError,
                "block_size",
                "expects 0 or more, got -1",
            ),
            "fraction for a block": (
                {"block_size": 1.0},
                TypeError,
                "block_size",
                "expects an integer, got float",
            ),
            "scales unlike blocks": (
                {"block_size": 2, "y_scale": X},
                ValueError,
                "y_scale",
                "expects shape (2, 2), got (2, 3)",
            ),
        },
    ),
    onnx.dequantize_linear: (
        "ONNX DequantizeLinear",
        {"x": Q, "x_scale": ONE},
        {
            "real": (
                {"x": X},
                TypeError,
                "x",
                f"expects elements of {CODES_OR_INT32}, got float32",
            ),
            "scales": (
                {"x": E8},
                TypeError,
                "x",
                f"expects elements of {CODES_OR_INT32}, got float8_e8m0fnu",
            ),
            "int32 scale": (
                {"x_scale": np.int32(1)},
                TypeError,
                "x_scale",
                "expects elements of float32, float16, bfloat16 or float8_e8m0fnu, "
                "got int32",
            ),
            "zero point unlike x": (
                {"x_zero_point": np.uint8(0)},
                TypeError,
                "x_zero_point",
                "expects elements of int8, got uint8",
            ),
            "zero point of another shape": (
                {"x_zero_point": np.int8([0, 0])},
                ValueError,
                "x_zero_point",
                "expects the shape of x_scale, (), got (2,)",
            ),
            "zero point of float8": (
                {"x": F8, "x_zero_point": np.ones(1, ml_dtypes.float8_e4m3fn)},
                ValueError,
                "x_zero_point",
                "expects zeros for float8_e4m3fn, got another number",
            ),
            "no type": (
                {"x_scale": E8[0]},
                ValueError,
                "output_dtype",
                "expects a type where x_scale is float8_e8m0fnu, got 0",
            ),
            "float64": (
                {"output_dtype": 11},
                TypeError,
                "output_dtype",
                "expects 0, float32, float16 or bfloat16, got float64",
            ),
            "axis too large": (
                {"x_scale": THREE, "axis": 5},
                AxisError,
                "axis",
                outside(5),
            ),
            "scales unlike blocks": (
                {"x_scale": THREE, "block_size": 2},
                ValueError,
                "x_scale",
                "expects shape (2, 2), got (3,)",
            ),
        },
    ),
    onnx.dynamic_quantize_linear: (
        "ONNX DynamicQuantizeLinear",
        {},
        {
            "float64": (
                {"x": np.ones(2)},
                TypeError,
                "x",
                "expects elements of float32, got float64",
            ),
            "mask": (
                {"x": MASKED},
                TypeError,
                "x",
                "expects elements of float32, got a masked array",
            ),
        },
    ),
    com_microsoft.quantize_linear: (
        "com.microsoft QuantizeLinear",
        {"x": X, "y_scale": ONE},
        {
            "bfloat16": (
                {"x": BF16},
                TypeError,
                "x",
                "expects elements of float32 or float16, got bfloat16",
            ),
            "scale unlike x": (
                {"y_scale": np.float16(1)},
                TypeError,
                "y_scale",
                "expects elements of float32, got float16",
            ),
            "int32 zero point": (
                {"y_zero_point": np.int32(0)},
                TypeError,
                "y_zero_point",
                f"expects elements of {SIX} or uint4, got int32",
            ),
            "int2 zero point": (
                {"y_zero_point": I2},
                TypeError,
                "y_zero_point",
                f"expects elements of {SIX} or uint4, got int2",
            ),
            "zero point of another shape": (
                {"y_zero_point": np.uint8([0, 0])},
                ValueError,
                "y_zero_point",
                "expects the shape of y_scale, (), got (2,)",
            ),
            "one element of rank 2": (
                {"y_scale": X[:1, :1]},
                ValueError,
                "y_scale",
                "expects a scalar without axis, got shape (1, 1)",
            ),
            "scales without axis": (
                {"y_scale": TWO},
                ValueError,
                "y_scale",
                "expects a scalar without axis, got shape (2,)",
            ),
            "scale of another length": (
                {"y_scale": TWO, "axis": 1},
                ValueError,
                "y_scale",
                "expects shape (3,), got (2,)",
            ),
            "axis too large": ({"axis": 2}, AxisError, "axis", outside(2)),
            "fraction for axis": (
                {"axis": 1.0},
                TypeError,
                "axis",
                "expects an integer, got float",
            ),
        },
    ),
    com_microsoft.dequantize_linear: (
        "com.microsoft DequantizeLinear",
        {"x": Q, "x_scale": ONE},
        {
            "int2": (
                {"x": I2},
                TypeError,
                "x",
                f"expects elements of {SIX}, uint4 or int32, got int2",
            ),
            "bfloat16 scale": (
                {"x_scale": BF16[:1]},
                TypeError,
                "x_scale",
                "expects elements of float32 or float16, got bfloat16",
            ),
            "zero point unlike x": (
                {"x_zero_point": np.uint8(0)},
                TypeError,
                "x_zero_point",
                "expects elements of int8, got uint8",
            ),
            "one element of rank 2": (
                {"x_scale": X[:1, :1]},
                ValueError,
                "x_scale",
                "expects a scalar without axis, got shape (1, 1)",
            ),
            "scales without axis": (
                {"x_scale": TWO},
                ValueError,
                "x_scale",
                "expects a scalar without axis, got shape (2,)",
            ),
            "axis too large": ({"axis": 3}, AxisError, "axis", outside(3)),
            "scale of another length": (
                {"x_scale": TWO, "axis": -1},
                ValueError,
                "x_scale",
                "expects shape (3,), got (2,)",
            ),
        },
    ),
}


@pytest.mark.parametrize("function", CASES, ids=lambda f: CASES[f][0])
def test_errors(function):
    standard, right, cases = CASES[function]
    for name, (wrong, error, parameter, rest) in cases.items():
        colon = ":" if error is AxisError else ""
        text = f"{parameter}: {standard}{colon} {rest}"
        with case(name=name):
            with pytest.raises(error, match=f"^{re.escape(text)}$") as caught:
                function(**{**right, **wrong})
            assert type(caught.value) is error
            assert caught.value.__cause__ is None
            assert caught.value.__suppress_context__ or caught.value.__context__ is None


@loop("function", [f for f in CASES if CASES[f][1]])
def test_the_other_arguments_are_valid(function):
    assert function(**CASES[function][1]).shape == (2, 3)


@loop("function", CASES)
def test_arguments_must_be_arrays(function):
    right = CASES[function][1] or {"x": X}
    for parameter in right:
        if parameter in ("type", "dtype", "axes", "round_mode"):
            continue
        for value, kind in ((None, "NoneType"), ("a", "str"), ({1: 2}, "dict")):
            text = f"{parameter}: {CASES[function][0]}: expected an array, got {kind}"
            with pytest.raises(TypeError, match=f"^{text}$"):
                function(**{**right, parameter: value})


# Accepted arguments


def test_ngraph_accepts():
    x = X.astype(np.float64)
    for code in ("i8", "int8", np.int8, np.dtype(np.int8)):
        for mode in (MODE, ngraph.RoundMode.ROUND_UP):
            got = ngraph.quantize(x, np.ones(()), ZERO, code, [], mode)
            same(got, Q)
    for real in REALS:
        got = ngraph.dequantize(Q, np.ones((), real), ZERO, real, ())
        same(got, X.astype(real))
        same(ngraph.quantize(X.astype(real), np.ones((), real), ZERO, "i8", (), MODE), Q)
    # Scales of any value, Python numbers, the ends of int32, and empty arrays are valid.
    codes = {0.0: 127, -1.0: -1, np.inf: 0, np.nan: -128, 1e-45: 127}
    for scale, code in codes.items():
        with case(scale=scale):
            got = ngraph.quantize(X, np.float32(scale), ZERO, "i8", (), MODE)
            same(got, Q * np.int8(code))
    same(ngraph.quantize([2.5], 1.0, 0, "u8", (), MODE), np.uint8([3]))
    low = np.int32(-(2**31))
    same(ngraph.dequantize(low, 1.0, low, "f32", ()), np.float32(0).reshape(()))
    empty = ngraph.quantize(X[:0], TWO[:0], np.int8([]), "i8", (0,), MODE)
    same(empty, Q[:0])


def test_onednn_accepts():
    for zero, code in {-(10**6): 0, 0: 0, 2**31 - 1: 255, 2**40: 255}.items():
        with case(zero=zero):
            got = onednn.dequantize(Q, scales=[1.0], zps=[zero])
            same(got, np.full((2, 3), np.float32(1 - zero)))
            got = onednn.quantize(X, scales=[2.0], zps=[zero], dtype="u8")
            same(got, np.full((2, 3), code, np.uint8))
    codes = {-1.0: -1, 2: 0, 0.5: 2, np.inf: 0, np.nan: -128}
    for scale, code in codes.items():
        with case(scale=scale):
            same(onednn.quantize(X, scales=[scale], dtype="s8"), Q * np.int8(code))
            same(onednn.quantize(X, scales=scale, dtype="s8"), Q * np.int8(code))
    same(onednn.dequantize(Q, scales=[0.0]), X * np.float32(0))
    same(onednn.dynamic_quantize(X, np.float32(0), dtype="s8"), Q * np.int8(127))
    # Without channels, the axis is ignored.
    same(onednn.quantize(X, scales=[1.0], axis=99, dtype="s8"), Q)
    same(onednn.dynamic_dequantize(Q, TWO, qtype="per_channel", axis=-2), X)
    for group in ((1, 3), [1, 3], np.array([1, 3])):
        got = onednn.dynamic_dequantize(Q, X[:, :1], qtype="per_group", group_shape=group)
        same(got, X)
    # An array of one element may have a dimension.
    same(onednn.dynamic_quantize(X, TWO[:1], np.int8(0), dtype="s8"), Q)


def test_onnx_accepts():
    same(onnx.quantize_linear(X, 1.0), np.uint8(Q))
    same(onnx.quantize_linear(X, ONE, axis=99), np.uint8(Q))
    same(onnx.quantize_linear(X, X[:, :1], block_size=7), np.uint8(Q))
    same(onnx.quantize_linear(X, ONE, np.int8([0])), Q)
    same(onnx.quantize_linear(X, THREE, axis=-1, saturate=0, precision=10), np.uint8(Q))
    same(onnx.quantize_linear(np.int32(X), np.int32(1)), np.uint8(Q))
    same(onnx.dequantize_linear(Q, ONE, output_dtype=np.float32), X)
    same(onnx.dequantize_linear(np.int32(Q), ONE, np.int32(0)), X)
    same(onnx.dequantize_linear(F8, ONE, -np.zeros(1, F8.dtype)), np.float32([0, 0, 0]))
    for scale in (0.0, -1.0, np.inf, np.nan):
        onnx.quantize_linear(X, np.float32(scale))
        onnx.dequantize_linear(Q, np.float32(scale))
    for number, name in onnx.TENSOR_PROTO.items():
        if name in onnx.QUANTIZED:
            got = onnx.quantize_linear(X, ONE, output_dtype=number)
            same(got, onnx.quantize_linear(X, ONE, output_dtype=name))
            same(onnx.dequantize_linear(got, ONE), X)
    for shape in ((), (0,), (3, 0, 2)):
        y, scale, zero = onnx.dynamic_quantize_linear(np.zeros(shape, np.float32))
        assert (y.shape, float(scale), int(zero)) == (shape, 1.0, 0)


def test_com_microsoft_accepts():
    same(com_microsoft.quantize_linear(X, ONE, np.int8(0)), Q)
    same(com_microsoft.quantize_linear(X, TWO, axis=-2), np.uint8(Q))
    same(com_microsoft.quantize_linear(np.float16(X), np.float16(1)), np.uint8(Q))
    same(com_microsoft.quantize_linear(X, TWO, np.int8([0, 0]), axis=0), Q)
    same(com_microsoft.dequantize_linear(np.int32(Q), np.float16(1)), np.float16(X))
    same(com_microsoft.dequantize_linear(Q, THREE, axis=1), X)


def test_no_warning_escapes():
    # pytest raises an error for each warning.
    odd = np.float32([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -0.0, 0.0])
    half = odd[:3].astype(np.float16)
    for scale in np.float32([0.0, -0.0, np.inf, np.nan, 1e-45, 3.4e38]):
        for mode in ngraph.RoundMode:
            ngraph.quantize(odd, scale, ZERO, "i8", (), mode)
        for code in ("u8", "s8", "f8_e4m3", "f8_e5m2"):
            onednn.dynamic_quantize(odd, scale, dtype=code)
        for name in onnx.QUANTIZED:
            q = onnx.quantize_linear(odd, scale, output_dtype=name)
            onnx.quantize_linear(odd, scale, output_dtype=name, saturate=0, precision=10)
            for target in onnx.REAL:
                onnx.dequantize_linear(q, scale, output_dtype=target)
        com_microsoft.quantize_linear(odd, scale)
        ngraph.dequantize(Q, scale, ZERO, "f32", ())
        onednn.dequantize(Q, scales=[float(scale)])
    com_microsoft.quantize_linear(half, np.float16(0))
    onednn.quantize(odd, scales=[1e300], dtype="s8")
    onednn.dequantize(Q, scales=[1e300])
    ngraph.quantize([1e300, float("nan")], 1e-300, 0, "i8", (), MODE)
    for i in range(odd.size):
        onnx.dynamic_quantize_linear(odd[i:])


@loop("scales", [[0.1], [1e-42], [1e300], [2**24 + 1]])
def test_lists_become_float32_whatever_the_control_state(scales):
    from test_fpenv import STATES, state

    array = np.array(scales)
    expected = onednn.dequantize(Q, scales=scales)
    for name in STATES:
        with state(STATES[name]):
            got = onednn.dequantize(Q, scales=scales), onednn.dequantize(Q, scales=array)
        same(got[0], expected)
        same(got[1], expected)


def test_dynamic_ranges_whatever_the_control_state():
    from test_fpenv import STATES, state

    for values in ([1e-40, -1e-40], [3e-39, 0.0], [-1.0, 0.5, 2.0]):
        x = np.array(values, np.float32)
        expected = onnx.dynamic_quantize_linear(x)
        for name in STATES:
            with state(STATES[name]):
                got = onnx.dynamic_quantize_linear(x)
            for a, b in zip(got, expected, strict=True):
                same(a, b)


@loop(
    "scales",
    [
        None,
        [1.0],
        b"",
        np.float32(1),
        np.ones((1, 1), np.float32),
        np.ones(1),
        np.ones(1, ">f4"),
    ],
)
def test_errors_of_core_functions(scales):
    with pytest.raises(TypeError, match=r"^scales: expected float32 of one dimension, got"):
        _core.first_zero(scales)
    with pytest.raises(TypeError, match=r"^types: expected names of types, got none$"):
        _core.array_of(None, scales, "x", "ONNX", ())


def test_a_subnormal_scale_is_no_zero_whatever_the_control_state():
    from test_fpenv import STATES, state

    x = np.array([1e-40], np.float32)
    for name in STATES:
        with state(STATES[name]):
            got = onednn.quantize(x, scales=[1e-40], dtype="u8")
        same(got, np.uint8([1]))


FLOAT64_SCALARS = {
    "ngraph.quantize": lambda: ngraph.quantize(X, np.float64(1), ZERO, "i8", (), MODE),
    "ngraph.dequantize": lambda: ngraph.dequantize(Q, np.float64(1), ZERO, "f32", ()),
    "onnx": lambda: onnx.quantize_linear(X, np.float64(1)),
    "com_microsoft": lambda: com_microsoft.quantize_linear(X, np.float64(1)),
    "onednn": lambda: onednn.dynamic_quantize(X, np.float64(1), dtype="u8"),
}


@loop("name", FLOAT64_SCALARS)
def test_scalars_of_numpy_have_a_type(name):
    with pytest.raises(TypeError, match=r"expects elements of .*, got float64$"):
        FLOAT64_SCALARS[name]()
