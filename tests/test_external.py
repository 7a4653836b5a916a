"""Results of NumPy, ml_dtypes and the reference operator of ONNX."""

import numpy as np
import pytest
from support import (
    CHOSEN,
    HAVE_BFLOAT16,
    REALS,
    adversarial,
    amount,
    codes,
    is_nan,
    loop,
    same,
    scales_for,
)

import pyquant as pq

COUNT = amount(2_000, 20_000)


def test_onnx_reference_rounds_float16_quotients():
    pytest.importorskip("onnx")  # optional
    from onnx.reference.ops.op_quantize_linear import QuantizeLinear_21  # noqa: F401

    # The reference divides in float16 and rounds with rint.
    x = np.random.default_rng(1).normal(size=COUNT).astype(np.float16)
    scale = np.float16(0.1)
    expected = np.clip(np.rint(x / scale), -128, 127).astype(np.int8)
    same(pq.quantize(x, scale, precision="float16"), expected)


# Division, rounding and casts of NumPy

NUMPY_MODES = {"half_even": np.rint, "trunc": np.trunc, "ceil": np.ceil, "floor": np.floor}


@loop("dtype, mode", [np.dtype("float32"), np.dtype("float64")], NUMPY_MODES)
def test_numpys_division_and_rounding(dtype, mode):
    for i, scale in enumerate(scales_for(dtype).values()):
        x = adversarial(dtype, scale[0], COUNT, seed=i)
        with np.errstate(all="ignore"):
            quotient = x / scale
        for code in CHOSEN:  # float64 holds the sums of these codes.
            info = np.iinfo(code)
            rounded = NUMPY_MODES[mode](quotient).astype(np.float64)
            rounded = np.where(np.isnan(rounded), info.min, rounded)
            expected = np.clip(rounded, info.min, info.max).astype(np.int64).astype(code)
            same(pq.quantize(x, scale, dtype=code, rounding=mode), expected)


@loop("code, target", CHOSEN, REALS)
def test_numpys_product_and_cast(code, target):
    q = codes(code, COUNT)
    wide = np.float64 if target == np.float64 else np.float32
    for scale in scales_for(wide).values():
        with np.errstate(all="ignore"):
            expected = (q.astype(np.int64).astype(wide) * scale).astype(target)
        got = pq.dequantize(q, scale, dtype=target)
        nan = is_nan(expected)
        assert (is_nan(got) == nan).all()
        same(got[~nan], expected[~nan])


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="ml_dtypes is not installed")
def test_ml_dtypes_own_quotient():
    # ml_dtypes divides two bfloat16 numbers in float32 and rounds once.
    from ml_dtypes import bfloat16

    x = np.random.default_rng(1).normal(size=COUNT).astype(bfloat16)
    scale = bfloat16(0.1)
    with np.errstate(all="ignore"):
        quotient = (x / scale).astype(np.float32)
    expected = np.clip(np.rint(quotient), -128, 127).astype(np.int8)
    same(pq.quantize(x, scale, precision="bfloat16"), expected)
