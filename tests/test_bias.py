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
    parameter_shape,
    same,
    split_small_arrays,
)

import pyquant as pq

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
FORMS = [
    ((40,), None, None),
    ((3, 70), 0, None),
    ((5, 33), 1, None),
    ((4, 96), 1, 32),
    ((4, 100), -1, 64),
    ((6, 7, 8), (0, 2), None),
    ((9, 10), None, (4, 3)),
]


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


@loop("form", FORMS)
def test_two_roundings_at_any_granularity(form, isa):
    shape, axis, block = form
    rng = np.random.default_rng(1)
    params = parameter_shape(shape, axis, block)
    for name in INTEGERS:
        limits = np.iinfo(name)
        q = rng.integers(limits.min, limits.max, shape, name, endpoint=True)
        zero = int(rng.integers(0, 100))
        scale, bias = reals(rng, params, "float32"), reals(rng, params, "float32")
        whole = expand(scale, shape, axis, block), expand(bias, shape, axis, block)
        for dtype in REALS:
            how = {"axis": axis, "block_size": block, "dtype": dtype}
            got = dequantize_at(isa, q, scale, zero, offset=bias, **how)
            same(got, definition(q, *whole, zero, str(np.dtype(dtype))))


@loop("kind", REALS)
def test_scale_and_bias_of_any_real_type(kind, isa):
    rng = np.random.default_rng(2)
    q = rng.integers(0, 16, (6, 64), np.uint8)
    scale = reals(rng, (6, 2), kind)
    for other in REALS:
        bias = reals(rng, (6, 2), other)
        whole = expand(scale, q.shape, 1, 32), expand(bias, q.shape, 1, 32)
        got = dequantize_at(isa, q, scale, offset=bias, axis=1, block_size=32)
        same(got, definition(q, *whole))


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


def test_strides_threads_and_out(isa, monkeypatch):
    rng = np.random.default_rng(3)
    q = rng.integers(-128, 128, (64, 66), np.int8)
    scale, bias = reals(rng, (64, 2), "float32"), reals(rng, (64, 2), "float32")
    whole = expand(scale, q.shape, 1, 33), expand(bias, q.shape, 1, 33)
    expected = definition(q, *whole)
    how = {"axis": 1, "block_size": 33}
    room = np.zeros((66, 130), "f4")
    out = room[:, 1:129:2].T
    got = dequantize_at(isa, q, scale, offset=bias, out=out, **how)
    assert got is out
    same(got, expected)
    assert not room[:, ::2].any()
    turned = np.asfortranarray(q)[:, ::-1]
    same(
        dequantize_at(
            isa, turned[:, ::-1], scale[::-1][::-1], offset=bias.T.copy().T, **how
        ),
        expected,
    )
    with split_small_arrays(monkeypatch):
        same(dequantize_at(isa, q, scale, offset=bias, threads=3, **how), expected)


def test_one_bias_for_all_scales_and_many_beside_one():
    q = np.arange(12, dtype=np.uint8).reshape(3, 4)
    scale = np.array([0.5, 1, 2], "f4")
    same(
        pq.dequantize(q, scale, offset=1, axis=0),
        q.astype("f4") * scale[:, None] + np.float32(1),
    )
    same(
        pq.dequantize(q, 0.5, offset=scale, axis=0),
        q.astype("f4") * np.float32(0.5) + scale[:, None],
    )


def test_out_that_overlaps():
    memory = np.ones(8, "f4")
    with pytest.raises(ValueError, match=r"^out: .*offset"):
        pq.dequantize(
            np.ones(4, "i1"), memory[:4], offset=memory[4:], axis=0, out=memory[4:]
        )
