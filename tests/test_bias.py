"""`offset=` of dequantize, the bias of weight formats.

Oracle: NumPy computes an exact difference, the product and the sum. Each step is rounded
once to float32 or float64, and the result is rounded to its type.
"""

import numpy as np
import pytest
from support import (
    REALS,
    cast,
    dequantize_at,
    expand,
    loop,
    same,
)

import pyquant as pq


def definition(q, scale, bias, zero_point=0, dtype="float32"):
    """Dequantize with one scale and one bias for each element."""
    kind = np.dtype("float64" if dtype == "float64" else "float32")
    difference = (q.astype(np.int64) - np.int64(zero_point)).astype(kind)
    with np.errstate(all="ignore"):
        product = difference * scale.astype(kind)
        total = product + bias.astype(kind)
        total[np.isnan(total)] = np.nan
    return total if dtype == kind else cast(total, dtype)


def reals(rng, shape, kind):
    exponents = rng.integers(-12, 4, shape)
    return cast(np.ldexp(rng.standard_normal(shape), exponents), kind)


@loop("bits", range(1, 9))
def test_packed_words(bits, isa):
    rng = np.random.default_rng(bits)
    q = rng.integers(0, 1 << bits, (5, 96), np.uint8)
    scale, bias = reals(rng, (5, 3), "float16"), reals(rng, (5, 3), "float16")
    whole = expand(scale, q.shape, 1, 32), expand(bias, q.shape, 1, 32)
    for axis in (0, 1):
        packed = pq.pack(q, pq.Layout("words", axis=axis, bits=bits))
        got = dequantize_at(isa, packed, scale, offset=bias, axis=1, block_size=32)
        same(got, definition(q, *whole))


# Extent, block size: complete vectors, parts of vectors, one column.
GROUPS = [(256, 32), (200, 100), (192, 64), (165, 33), (1100, 1), (130, 32), (71, 17)]


def strewn(rng, shape, kind="float32"):
    """Return numbers with infinities, NaN, zeros and numbers near the limit of float32."""
    made = reals(rng, shape, kind)
    odd = np.array([np.inf, -np.inf, np.nan, 3e38, -3e38, 0.0, -0.0], np.float32)
    some = slice(None, None, made.size // 7 + 1)
    made.flat[some] = rng.choice(odd, made.flat[some].size)
    return made


@loop("group, make", GROUPS, [reals, strewn])
def test_groups_of_any_codes(group, isa, make):
    n, block = group
    rng = np.random.default_rng(group)
    shape, params = (18, n), (18, -(-n // block)) if block > 1 else (2, n)
    how = {"axis": 1, "block_size": block} if block > 1 else {"axis": 0, "block_size": 9}
    scale, bias = make(rng, params, "float32"), make(rng, params, "float32")
    for name in ("int8", "uint8", "int16", "uint16", "int4", "uint4"):
        bits = int(name.strip("uint"))
        low = -(1 << (bits - 1)) if name.startswith("i") else 0
        q = rng.integers(low, low + (1 << bits), shape)
        zero = rng.integers(low, low + (1 << min(bits, 8)), params)
        whole = [expand(one, shape, *how.values()) for one in (scale, bias, zero)]
        codes = q.astype(f"{name[:-1]}8" if bits == 4 else name)
        if bits == 4:
            codes = pq.pack(codes, pq.Layout("onnx", bits=4))
        for dtype in REALS:
            got = dequantize_at(isa, codes, scale, zero, offset=bias, dtype=dtype, **how)
            same(got, definition(q, *whole, str(np.dtype(dtype))))


def test_words_of_mlx(isa):
    pytest.importorskip("ml_dtypes")  # optional; defines uint4
    x = ((np.arange(32) - 16) / 8).astype(np.float32)
    words = np.array([[0x43222100, 0x87666544, 0xCBAAA988, 0xFFEEEDCC]], "<u4")
    packed = pq.PackedArray(words, "uint4", (1, 32), layout="words")
    scale, bias = np.full((1, 1), 0.25, "f4"), np.full((1, 1), -2, "f4")
    got = dequantize_at(isa, packed, scale, offset=bias, axis=1, block_size=32)
    same(got, pq.unpack(packed).astype("f4") * scale + bias)
    assert np.abs(got - x).max() <= 0.375
    words = np.array([[0x92489200, 0xDB2491B6, 0xFFFFB6DA]], "<u4")
    packed = pq.PackedArray(words, "uint8", (1, 32), layout=pq.Layout("words", bits=3))
    got = dequantize_at(isa, packed, 0.5, offset=-2)
    same(got, pq.unpack(packed).astype("f4") * np.float32(0.5) - np.float32(2))
    assert np.abs(got - x).max() <= 0.375


def test_the_product_is_rounded_before(isa):
    # 0xffffff * (1 + 2^-23) is not a float32 number. A fused sum would not round it.
    scale = np.float32(1 + 2.0**-23)
    q = np.full(100, 0xFFFFFF, np.int32)
    got = dequantize_at(isa, q, scale, offset=-np.float32(0xFFFFFF))
    assert set(got.tolist()) == {1.0}  # fused: 1.9999998807907104
    same(got, definition(q, np.full(100, scale), np.full(100, -np.float32(0xFFFFFF))))
