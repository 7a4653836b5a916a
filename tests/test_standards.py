"""Tests of arguments that the standards' functions accept. errors.txt has the errors."""

import numpy as np
import pytest
from support import REALS, case, same

import pyquant as pq
from pyquant import com_microsoft, ngraph, onednn, onnx
from pyquant.rounding import NGRAPH

ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the types

X = np.ones((2, 3), np.float32)
Q = np.ones((2, 3), np.int8)
ONE, ZERO = np.float32(1), np.int8(0)
TWO, THREE = np.ones(2, np.float32), np.ones(3, np.float32)
F8, E8 = np.zeros(3, ml_dtypes.float8_e4m3fn), np.ones(3, ml_dtypes.float8_e8m0fnu)
MODE = "ROUND_UP"


def test_ngraph_accepts():
    x = X.astype(np.float64)
    for code in ("i8", "int8", np.int8, np.dtype(np.int8)):
        for mode in (MODE, MODE.lower(), np.str_(MODE), "ceil", pq.RoundMode.CEIL):
            got = ngraph.quantize(x, np.ones(()), ZERO, code, [], mode)
            same(got, Q)
    for real in REALS:
        got = ngraph.dequantize(Q, np.ones((), real), ZERO, real, ())
        same(got, X.astype(real))
        same(ngraph.quantize(X.astype(real), np.ones((), real), ZERO, "i8", (), MODE), Q)
    # Accept scales of any value, Python numbers, the ends of int32, and empty arrays.
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
            wide = np.float64([scale])  # float64 is valid if the scale is not 0 in float32
            same(onednn.quantize(X, scales=wide, dtype="s8"), Q * np.int8(code))
    same(onednn.dequantize(Q, scales=[0.0]), X * np.float32(0))
    same(onednn.dynamic_quantize(X, np.float32(0), dtype="s8"), Q * np.int8(127))
    # If there is only one scale, the argument `axis` is ignored.
    same(onednn.quantize(X, scales=[1.0], axis=99, dtype="s8"), Q)
    same(onednn.dynamic_dequantize(Q, TWO, qtype="per_channel", axis=-2), X)
    for group in ((1, 3), [1, 3], np.array([1, 3])):
        got = onednn.dynamic_dequantize(Q, X[:, :1], qtype="per_group", group_shape=group)
        same(got, X)
    # A scale may be an array of shape (1,).
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
    # pytest turns each warning into an error.
    odd = np.float32([np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e-45, -0.0, 0.0])
    half = odd[:3].astype(np.float16)
    for scale in np.float32([0.0, -0.0, np.inf, np.nan, 1e-45, 3.4e38]):
        for mode in NGRAPH:
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
