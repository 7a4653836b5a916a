"""Compare scalar's quantize and dequantize with exact arithmetic, and test corner cases."""

import numpy as np
import oracle
import pytest
from support import (
    ANY_ZEROS,
    AVAILABLE_CODES,
    CODES,
    REALS,
    WIDE,
    adversarial,
    amount,
    by_family,
    case,
    codes,
    compute_dtype,
    dequantize_at,
    dtype_of,
    expected_codes,
    float_of_bits,
    is_nan,
    loop,
    quantize_at,
    same,
    scales_for,
    zero_points,
)

import pyquant as pq

INF, NAN = np.inf, np.nan
I32_MIN, I32_MAX, U32_MAX = -(2**31), 2**31 - 1, 2**32 - 1
DEFINITIONS = {quantize_at: oracle.quantize, dequantize_at: oracle.dequantize}
both_directions = pytest.mark.parametrize(
    "function", DEFINITIONS, ids=["quantize", "dequantize"]
)


@both_directions
@by_family("code", AVAILABLE_CODES)
@loop("real", REALS)
def test_one_scale_is_exact(function, real, code):
    ends = zero_points(code)
    for i, (name, scale) in enumerate(scales_for(compute_dtype(real)).items()):
        for z in [ends[i % len(ends)], ends[-1 - 3 * i % len(ends)]][: amount(1, 2)]:
            if function is quantize_at:
                count, dtype = amount(70, 96), code
                values = adversarial(real, scale[0], count, seed=i, zero_point=z)
            else:
                values, dtype = codes(code, amount(40, 80), seed=i), real
                values[-1] = z
            with case(scale=name, zero_point=z):
                got = function("scalar", values, scale, z, dtype=dtype)
                same(got, DEFINITIONS[function](values, scale, z, dtype=dtype))


@loop("source, scale", [r for r in REALS if r.itemsize == 2], [0.0371, -3.0, 1e-7])
def test_every_16_bit_number_is_exact(source, scale):
    step = 1 if scale == 0.0371 else 7
    x = float_of_bits(np.arange(0, 1 << 16, amount(11, step)), source)
    got = quantize_at("scalar", x, scale, 3, dtype="int16")
    same(got, oracle.quantize(x, np.float32([scale]), 3, dtype="int16"))


# Corner cases, and inputs that common shortcuts quantize to wrong codes. A case is
# (x, scale, zero point, dtype, codes).
CORNERS = {
    "just below a half": ([0.49999997], 1.0, 0, "int8", [0]),
    "just below a half, odd zero point": ([0.49999997], 1.0, 1, "int8", [1]),
    "just above minus a half": ([-0.49999997], 1.0, 0, "int8", [0]),
    "odd integer above 2**23": ([8388609.0], 1.0, 0, "int32", [8388609]),
    "odd negative integer below -2**23": ([-8388609.0], 1.0, 0, "int32", [-8388609]),
    "reciprocal lands on a tie": ([0.273939937], 0.00214854861, 0, "int8", [127]),
    "reciprocal lands on a tie, 16 bit": ([0.273939937], 0.00214854861, 0, "int16", [127]),
    "tie at scale 7": ([-45.5], 7.0, 0, "int8", [-6]),
    "near tie at scale 0.3": ([-2.25], 0.3, 0, "int8", [-7]),
    "tie at scale 0.02": ([-0.22999999], 0.02, 0, "int8", [-12]),
    "near tie at scale 0.7": ([-10.849999], 0.7, 0, "int8", [-15]),
    "tie at scale 1/127": ([-0.68897635], 0.0078740157, 0, "int8", [-88]),
    "node test on a border": ([-2.5], 5 / 255, 0, "int8", [-127]),
    "2**31 is not a code": ([2147483648.0], 1.0, 0, "int32", [2147483647]),
    "just below 2**31": ([2147483520.0], 1.0, 0, "int32", [2147483520]),
    "-2**31 is a code": ([-2147483648.0], 1.0, 0, "int32", [-2147483648]),
    "2**32 is not a code": ([4294967296.0], 1.0, 0, "uint32", [4294967295]),
    "just below 2**32": ([4294967040.0], 1.0, 0, "uint32", [4294967040]),
    "huge with high zero point": ([3e9], 1.0, 2147483647, "int32", [2147483647]),
    "huge with low zero point": ([3e9], 1.0, -2147483648, "int32", [852516352]),
    "sum beyond 32 bits": ([-3e9], 1.0, -2147483648, "int32", [-2147483648]),
    "huge with zero point 255": ([1e10], 1.0, 255, "uint8", [255]),
    "minus huge with zero point 255": ([-1e10], 1.0, 255, "uint8", [0]),
    "nan, uint8": ([NAN], 1.0, 0, "uint8", [0]),
    "nan, int8": ([NAN], 1.0, 0, "int8", [-128]),
    "nan, int8, zero point -10": ([NAN], 1.0, -10, "int8", [-128]),
    "nan, uint8, zero point 9": ([NAN], 1.0, 9, "uint8", [0]),
    "nan, int32": ([NAN], 1.0, 0, "int32", [-2147483648]),
    "nan, uint32": ([NAN], 1.0, 7, "uint32", [0]),
    "inf, uint8": ([INF, -INF], 1.0, 0, "uint8", [255, 0]),
    "inf, int8, zero point -10": ([INF, -INF], 1.0, -10, "int8", [127, -128]),
    "inf, int32, zero point -10": (
        [INF, -INF],
        1.0,
        -10,
        "int32",
        [2147483647, -2147483648],
    ),
    "inf, uint32, zero point 10": ([INF, -INF], 1.0, 10, "uint32", [4294967295, 0]),
    "huge": ([1e38, 3e9, -1e38, -3e9], 1.0, 0, "uint8", [255, 255, 0, 0]),
    "ties, zero point 0": ([0.5, 1.5, 2.5, 3.5], 1.0, 0, "uint8", [0, 2, 2, 4]),
    "ties, zero point 1": ([0.5, 1.5, 2.5, 3.5], 1.0, 1, "uint8", [1, 3, 3, 5]),
    "zero scale": ([1.0, -1.0, 0.0, -0.0], 0.0, 5, "uint8", [255, 0, 0, 0]),
    "minus zero scale": ([1.0, -1.0, 0.0], -0.0, 5, "uint8", [0, 255, 0]),
    "negative scale": ([1.0, -1.0, 2.5, -2.5], -1.0, 0, "int8", [-1, 1, -2, 2]),
    "nan scale": ([1.0, 0.0, INF], NAN, 5, "uint8", [0, 0, 0]),
    "inf scale": ([1.0, -1.0, INF], INF, 5, "uint8", [5, 5, 0]),
    "subnormal scale": ([1e-40, 5e-40, 1.0], 1e-40, 5, "uint8", [6, 10, 255]),
    "tiniest scale": ([1e-45, 3e-44], 1e-45, 5, "uint8", [6, 26]),
    "full range of int8": (
        [-128.0, -129.0, 127.0, 128.0],
        1.0,
        0,
        "int8",
        [-128, -128, 127, 127],
    ),
}


@loop("name, real", CORNERS, ["float32", "float64"])
def test_codes_of_corners(name, real, isa):
    values, scale, zero, dtype, expected = CORNERS[name]
    given = [*values, scale]
    if real == "float64" and not np.array_equal(given, np.float32(given), equal_nan=True):
        return  # CORNERS has the codes of numbers that were rounded to float32.
    scale = np.float32(scale)
    for count in (len(values), 69):
        x, due = np.resize(np.array(values, real), count), np.resize(expected, count)
        due = due.astype(dtype)
        same(quantize_at(isa, x, scale, zero, dtype=dtype), due)
        same(quantize_at(isa, x, np.full(count, scale), zero, axis=0, dtype=dtype), due)


# Corner cases of dequantize: (code, scale, zero point, dtype of the code, float32 result).
NUMBERS = {
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


@loop("name", NUMBERS)
def test_numbers_of_corners(name, isa):
    code, scale, zero, source, value = NUMBERS[name]
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


def close_quotients(last):
    """Yield float64 scales with the last 20 bits `last`, and numbers close to a tie.

    A quotient changes its code midway between a tie and the next float64 number. No
    quotient of float64 numbers is closer to this point than the tested quotients.
    """
    for first in (0, 1 << 51, (1 << 52) - (1 << 20)):
        scale = (1 << 52) + first + last % (1 << 20)
        close = {}
        for tie in range(1, 512):
            bits = 54 - tie.bit_length()
            for midway in ((tie << bits) + 1, (tie << bits) - 1):
                for down in (53, 54, 55):
                    x = (scale * midway + (1 << (down - 1))) >> down
                    if 1 << 52 <= x < 1 << 53:
                        apart = abs((x << down) - scale * midway)
                        close[x * 2.0 ** (down - bits - 53)] = apart
        yield scale * 2.0**-52, np.array(sorted(close, key=close.get)[:64])


TIED = [n for n in ("int8", "int16", "float8_e4m3fn") if n in AVAILABLE_CODES]


@by_family("target", TIED)
@loop("last", [0, 1, 2, 15, 16, 17, -1, -2, -15, -16])
def test_float64_quotients_beside_ties(last, target, isa):
    for scale, x in close_quotients(last):
        for sign in (1.0, -1.0):
            got = quantize_at(isa, x * sign, scale, dtype=target)
            same(got, expected_codes(isa, x * sign, np.float64(scale), dtype=target))


def test_a_scale_is_rounded_once_to_the_type_of_the_arithmetic():
    scale = 0.1  # In float32, the scale is 0.1 + 1.5e-9, so 0.25 is no tie.
    x = np.float32([0.25])
    same(pq.quantize(x, scale), oracle.quantize(x, np.float32([scale])))
    wide = x.astype(np.float64)
    same(pq.quantize(wide, scale), oracle.quantize(wide, np.float64([scale])))
    assert pq.quantize(np.float64([1e302]), 1e300).tolist() == [100]
    # In float32, the scales 1e300 and 1e-300 become infinity and 0.
    assert pq.quantize(np.float32([1.0]), 1e300).tolist() == [0]
    assert pq.quantize(np.float32([1.0, 0.0]), 1e-300).tolist() == [127, -128]


@loop("real, kind", REALS, ["float16", "float32", "float64"])
def test_a_scale_of_any_real_type(real, kind):
    scale = np.array([0.1, 1.7, 3.0], dtype=kind)
    x, q = adversarial(real, 1.7, 99).reshape(3, 33), codes("int16", 99).reshape(3, 33)
    each = np.repeat(scale, 33)
    expected, back = oracle.quantize(x, each), oracle.dequantize(q, each, dtype=real)
    same(pq.quantize(x, scale, axis=0), expected)
    same(pq.dequantize(q, scale, axis=0, dtype=real), back)
    for one in (scale[:1], scale[0]):
        same(pq.quantize(x[0], one), expected[0])
        same(pq.dequantize(q[0], one, dtype=real), back[0])


def test_the_default_dtype_is_int8_or_that_of_the_zero_point():
    x = np.float32([1.0, 200.0])
    assert pq.quantize(x, 1.0).dtype == np.int8
    assert pq.quantize(x, 1.0, 3).dtype == np.int8
    assert pq.quantize(x, 1.0, [3]).dtype == np.int8
    for code in CODES:
        for zero in (code.type(3), np.array([3], dtype=code), np.array(3, dtype=code)):
            assert pq.quantize(x, 1.0, zero, dtype=code).dtype == code
            if code not in WIDE:
                assert pq.quantize(x, 1.0, zero).dtype == code
                continue
            with pytest.raises(TypeError, match=f"^dtype: expected .* {code}, got None$"):
                pq.quantize(x, 1.0, zero)
    assert pq.quantize(x, 1.0, np.int64(3), dtype="uint8").dtype == np.uint8
    assert pq.quantize(x, 1.0, np.int16(3), dtype="uint8").tolist() == [4, 203]


def test_the_default_dtype_is_float32():
    for code in CODES:
        assert pq.dequantize(np.ones(3, dtype=code), 0.5).dtype == np.float32
        assert pq.dequantize(np.ones(3, dtype=code), np.float64(0.5)).dtype == np.float32


@loop("name", AVAILABLE_CODES)
def test_spellings_of_a_dtype(name):
    x, dtype = np.float32([1.0, 2.0]), dtype_of(name)
    expected = np.array([1, 1 if name == "int2" else 2], np.int8).astype(dtype)
    spellings = [name, name.upper(), dtype, dtype.type]
    if dtype.isbuiltin == 1:
        spellings += [dtype.str, dtype.char]
    for given in spellings:
        same(pq.quantize(x, 1.0, dtype=given), expected)
    zero = np.zeros(1, dtype)
    for given in (zero, zero[0], zero.reshape(())) if dtype not in WIDE else ():
        same(pq.quantize(x, 1.0, given), expected)


@loop("target", REALS)
def test_spellings_of_a_real_dtype(target):
    q = np.int8([1, 2])
    for dtype in (target, target.name, target.type):
        same(pq.dequantize(q, 0.5, dtype=dtype), np.array([0.5, 1.0]).astype(target))


def test_a_zero_point_of_another_integer_type():
    q = np.int8([[1, 2], [3, 4]])
    zero = np.array([5, -7], dtype=np.int64)
    same(pq.dequantize(q, [1.0, 2.0], zero, axis=0), np.float32([[-4, -3], [20, 22]]))
    same(pq.dequantize(q, 1.0, np.uint16(5)), np.float32([[-4, -3], [-2, -1]]))


FAR = [2**52, 2**52 + 1, 2**53 + 1, 2**53 + 2**29 + 77, 2**62 + 2**38 + 1, 2**63 - 1]


@loop("dtype, zero", REALS, [*FAR, *(-z - 1 for z in FAR)], draws=16)
def test_zero_points_of_64_bits(zero, dtype):
    """Subtract any 64-bit zero point exactly, because oneDNN allows every integer."""
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
    for one in scale:  # some products become subnormal, infinite or NaN
        one[:1], one[1:2] = 1e-23, INF
    with np.errstate(all="ignore"):
        products = np.multiply.outer(*scale)
    offset = rng.normal(0, 1, q.shape[axes[1]]).astype(np.float32)
    monkeypatch.setattr("pyquant._threads.MIN_PART_BYTES", 1)
    for more in ({}, {"offset": offset}):
        wide = {name: np.broadcast_to(v, products.shape) for name, v in more.items()}
        due = pq.dequantize(q, products, 3, dtype=target, axis=tuple(axes), **wide)
        misaligned = [np.frombuffer(b"." + v.tobytes(), v.dtype, offset=1) for v in scale]
        doubles = [v.astype(float) for v in scale]
        for given, zero in (scale, 3), (doubles, [3]), (misaligned, 3):
            for threads in 1, 3:
                how = {"axis": axis, "dtype": target, "threads": threads, **more}
                same(pq.dequantize(q, tuple(given), zero, **how), due)
        out = np.full(shape[::-1], 7, due.dtype).T
        assert pq.dequantize(q, tuple(scale), 3, axis=axis, out=out, **more) is out
        same(np.ascontiguousarray(out), due)
