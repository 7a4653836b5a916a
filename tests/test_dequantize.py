"""Dequantize: scalar against exact arithmetic for every code type, and corner cases."""

import numpy as np
import oracle
from support import (
    ANY_ZEROS,
    AVAILABLE_CODES,
    CODES,
    REALS,
    amount,
    by_family,
    case,
    codes,
    compute_dtype,
    dequantize_at,
    float_of_bits,
    is_nan,
    loop,
    mixed_scales,
    same,
    scales_for,
    zero_points,
    zeros_for,
)

import pyquant as pq

INF, NAN = np.inf, np.nan
I32_MIN, I32_MAX, U32_MAX = -(2**31), 2**31 - 1, 2**32 - 1


@by_family("source", AVAILABLE_CODES)
@loop("target", REALS)
def test_one_scale_is_exact(source, target):
    ends = zero_points(source)
    for i, (name, scale) in enumerate(scales_for(compute_dtype(target)).items()):
        for z in {ends[i % len(ends)], ends[-1 - 3 * i % len(ends)]}:
            q = codes(source, amount(20, 80), seed=i)
            q[-1] = z
            with case(scale=name, zero_point=z):
                got = dequantize_at("scalar", q, scale, z, dtype=target)
                same(got, oracle.dequantize(q, scale, z, dtype=target))


@by_family("source", AVAILABLE_CODES)
@loop("target", REALS)
def test_a_scale_for_each_element_is_exact(source, target):
    count = amount(150, 600)
    scale = mixed_scales(compute_dtype(target), count)
    q = codes(source, count)
    zero = zeros_for(source, count)
    got = dequantize_at("scalar", q, scale, zero, axis=0, dtype=target)
    same(got, oracle.dequantize(q, scale, zero, dtype=target))


@loop("source, target", CODES[:2], REALS)
def test_every_8_bit_code_is_exact(source, target):
    info = np.iinfo(source)
    q = np.arange(info.min, info.max + 1).astype(source)
    for scale in (0.1, 1.1e-40, 2.9e38, 6.1e-5, 255.9):
        for zero in (info.min, 1, info.max):
            s = np.array([scale], dtype=compute_dtype(target))
            got = dequantize_at("scalar", q, s, zero, dtype=target)
            same(got, oracle.dequantize(q, s, zero, dtype=target))


@loop("source, target", CODES[2:4], [r for r in REALS if r.itemsize == 2])
def test_products_at_the_midpoints_of_narrow_floats(source, target):
    # At scale 1 the differences contain every tie of a float with 8 or 11 bits of fraction.
    info = np.iinfo(source)
    q = np.arange(info.min, info.max, amount(41, 3)).astype(source)
    s = np.float32([1.0])
    same(
        dequantize_at("scalar", q, s, 1, dtype=target),
        oracle.dequantize(q, s, 1, dtype=target),
    )


# (code, scale, zero point, dtype of q, bits of the float32 result)
CORNERS = {
    "difference rounded once": (16777217, 1.0, 1, "int32", 16777216.0),
    "lowest minus one": (I32_MIN, 1.0, 1, "int32", -2147483648.0),
    "lowest minus highest": (I32_MIN, 1.0, I32_MAX, "int32", -4294967296.0),
    "highest minus lowest": (I32_MAX, 1.0, I32_MIN, "int32", 4294967296.0),
    "highest": (I32_MAX, 1.0, 0, "int32", 2147483648.0),
    "uint32, zero minus highest": (0, 1.0, U32_MAX, "uint32", -4294967296.0),
    "uint32, highest": (U32_MAX, 1.0, 0, "uint32", 4294967296.0),
    "uint32, highest minus 2**31": (U32_MAX, 1.0, 2**31, "uint32", 2147483648.0),
    "uint16, zero minus highest": (0, 1.0, 65535, "uint16", -65535.0),
    "int16, lowest minus highest": (-32768, 1.0, 32767, "int16", -65535.0),
    "zero scale, negative difference": (1, 0.0, 5, "uint8", -0.0),
    "zero scale, positive difference": (5, 0.0, 1, "uint8", 0.0),
    "no difference": (5, 3.0, 5, "uint8", 0.0),
    "no difference, negative scale": (5, -3.0, 5, "uint8", -0.0),
    "inf scale": (5, INF, 1, "uint8", INF),
    "inf scale, negative difference": (1, INF, 5, "uint8", -INF),
    "inf scale, no difference": (5, INF, 5, "uint8", NAN),
    "nan scale": (5, NAN, 1, "uint8", NAN),
    "gradual underflow": (0, 1e-45, 5, "uint8", -7e-45),
    "overflow": (7, 3e38, 0, "uint8", INF),
    "not q * s - z * s": (9, 0.1, 0, "int8", 0.90000004),
}


@loop("name", CORNERS)
def test_corner(name, isa):
    code, scale, zero, source, value = CORNERS[name]
    q = np.full(67, code, dtype=source)
    expected = np.full(67, value, dtype=np.float32)
    expected[np.isnan(expected)] = float_of_bits([0x7FC00000])[0]
    zero = np.array(zero, dtype=source)
    same(dequantize_at(isa, q, np.float32(scale), zero), expected)
    same(
        dequantize_at(isa, q, np.full(67, scale, dtype=np.float32), zero, axis=0), expected
    )


QUIET_NAN = {
    "float32": 0x7FC00000,
    "float64": 0x7FF8 << 48,
    "float16": 0x7E00,
    "bfloat16": 0x7FC0,
}


@by_family("source", CODES)
@loop("target", REALS)
def test_every_nan_is_one_quiet_nan(source, target, isa):
    q = np.arange(70).astype(source)
    bits = {4: [0x7F800001, 0xFF800001, 0xFFC12345, 0x7FC00000], 8: [1, 2]}[4]
    for scale in float_of_bits(bits):
        got = dequantize_at(isa, q, scale, dtype=target)
        assert is_nan(got).all()
        same(got, float_of_bits([QUIET_NAN[target.name]] * 70, target))
    inf = dequantize_at(
        isa, q, np.full(70, -INF, dtype=np.float32), q, axis=0, dtype=target
    )
    same(inf, float_of_bits([QUIET_NAN[target.name]] * 70, target))


def test_overflow_of_narrow_results():
    q = np.int8([1, -1, 2])
    got = pq.dequantize(q, 65519.0, dtype="float16")
    assert got.tolist() == [65504.0, -65504.0, INF]
    assert pq.dequantize(q, 65520.0, dtype="float16").tolist() == [INF, -INF, INF]


def test_the_default_dtype_is_float32():
    for code in CODES:
        assert pq.dequantize(np.ones(3, dtype=code), 0.5).dtype == np.float32
        assert pq.dequantize(np.ones(3, dtype=code), np.float64(0.5)).dtype == np.float32


@loop("target", REALS)
def test_spellings_of_a_dtype(target):
    q = np.int8([1, 2])
    for dtype in (target, target.name, target.type):
        same(pq.dequantize(q, 0.5, dtype=dtype), np.array([0.5, 1.0]).astype(target))


def test_float64_is_computed_in_float64():
    q = np.array([I32_MAX, I32_MIN, 3], dtype=np.int32)
    same(pq.dequantize(q, 0.1, dtype="float64"), q * 0.1)
    z = np.array(1, dtype=np.int32)
    same(pq.dequantize(q, 0.1, z, dtype="float64"), (q.astype(np.int64) - 1) * 0.1)


@loop("target, kind", REALS, ["float16", "float32", "float64"])
def test_a_scale_of_any_real_type(target, kind):
    scale = np.array([0.1, 1.7, 3.0], dtype=kind)
    q = codes("int16", 99).reshape(3, 33)
    expected = oracle.dequantize(q, np.repeat(scale, 33), dtype=target)
    same(pq.dequantize(q, scale, axis=0, dtype=target), expected)
    same(pq.dequantize(q[0], scale[0], dtype=target), expected[0])


def test_a_zero_point_of_another_integer_type():
    q = np.int8([[1, 2], [3, 4]])
    zero = np.array([5, -7], dtype=np.int64)
    same(pq.dequantize(q, [1.0, 2.0], zero, axis=0), np.float32([[-4, -3], [20, 22]]))
    same(pq.dequantize(q, 1.0, np.uint16(5)), np.float32([[-4, -3], [-2, -1]]))


def test_zero_point_none_is_zero():
    q = codes("int8", 99)
    same(pq.dequantize(q, 0.1, None), pq.dequantize(q, 0.1, 0))


def test_back_and_forth_keeps_every_code():
    for code in CODES[:4]:
        info = np.iinfo(code)
        q = np.arange(info.min, info.max + 1).astype(code)
        for scale in (0.1, 7.0, 1e-30):
            for zero in (info.min, 3, info.max):
                real = pq.dequantize(q, scale, zero)
                same(pq.quantize(real, scale, zero, dtype=code), q)


FAR = [2**52, 2**52 + 1, 2**53 + 1, 2**53 + 2**29 + 77, 2**62 + 2**38 + 1, 2**63 - 1]


@loop("dtype, zero", REALS, [*FAR, *(-z - 1 for z in FAR)], draws=16)
def test_zero_points_of_64_bits(zero, dtype):
    """oneDNN allows any 64-bit zero point, and the difference is exact."""
    zeros = np.array([zero])
    for code in ("int8", "uint8", "int32"):
        q = codes(code, 300)
        for scale in (1.0, 0.1, -3.0, np.inf, 0.0):
            s = np.array([scale], compute_dtype(dtype))
            got = ANY_ZEROS.run(q, s, zeros, 0, dtype=dtype, block_size=0)
            same(got, oracle.dequantize(q, s, zeros, dtype=dtype))
    each = np.resize(np.array([zero, 3, -zero // 2]), 300)
    got = ANY_ZEROS.run(q[::-1], s, 5, 0, dtype=dtype, block_size=0)
    same(got, oracle.dequantize(q[::-1], s, 5, dtype=dtype))
    s = np.full(300, 0.1, compute_dtype(dtype))
    got = ANY_ZEROS.run(q, s, each, 0, dtype=dtype, block_size=0)
    same(got, oracle.dequantize(q, s, each, dtype=dtype))


@loop("zero", [2**53 + 1, -(2**63), 2**63 - 1, 2**24 + 1])
def test_quantizing_with_zero_points_of_64_bits(zero):
    x = np.float32([-3e38, -9.3e18, -1, 0, 1, 9.3e18, 3e38, np.nan])
    got = pq.onednn.quantize(x, scales=[1.0], zps=[zero], dtype="s8")
    with np.errstate(over="ignore"):
        total = x + np.float32(zero)
    expected = np.clip(np.rint(np.nan_to_num(total, nan=-np.inf)), -128, 127)
    same(got, expected.astype(np.int8))


PAIRS = [((5, 7), None), ((2, 9000), None), ((3, 5, 7), (2, 0)), ((700, 3), (0, -1))]
PAIRS += [((0, 4), None), ((4, 0), None)]


@loop("pair, target", PAIRS, REALS[:3])
def test_two_scales_are_an_outer_product(pair, target, monkeypatch):
    shape, axis = pair
    rng = np.random.default_rng(3)
    q = rng.integers(-1000, 1000, shape).astype(np.int32)
    axes = sorted(d % q.ndim for d in axis or (-2, -1))
    scale = [rng.normal(0, 1, q.shape[d]).astype(np.float32) for d in axes]
    for one in scale:  # a subnormal product, and an infinite one
        one[:1], one[1:2] = 1e-23, INF
    with np.errstate(all="ignore"):
        products = np.multiply.outer(*scale)
    offset = rng.normal(0, 1, q.shape[axes[1]]).astype(np.float32)
    monkeypatch.setattr("pyquant._threads.MIN_PART_BYTES", 1)
    for more in ({}, {"offset": offset}):
        wide = {name: np.broadcast_to(v, products.shape) for name, v in more.items()}
        due = pq.dequantize(q, products, 3, dtype=target, axis=tuple(axes), **wide)
        for given, zero in (scale, 3), ([v.astype(float) for v in scale], [3]):
            for threads in 1, 3:
                how = {"axis": axis, "dtype": target, "threads": threads, **more}
                same(pq.dequantize(q, tuple(given), zero, **how), due)
        out = np.full(shape[::-1], 7, due.dtype).T
        assert pq.dequantize(q, tuple(scale), 3, axis=axis, out=out, **more) is out
        same(np.ascontiguousarray(out), due)
