"""Quantization in exact arithmetic: Python integers and fractions, no floating point.

This module checks the scalar kernels. Arguments and results are the bit patterns of NumPy
arrays. Each intermediate number is a `Real`: an exact fraction with a sign, an infinity or
a NaN. The module defines the types again, and imports nothing from pyquant.
"""

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np

MODES = (
    "half_even",
    "half_away",
    "half_toward_zero",
    "half_up",
    "half_down",
    "away",
    "trunc",
    "ceil",
    "floor",
    "half_odd",
)


class Format(NamedTuple):
    """A binary interchange format: `digits` significant bits, exponents `emin`..`emax`."""

    name: str
    bits: int
    digits: int
    emin: int
    emax: int

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        return (self.emax - self.emin + 2) << (self.digits - 1)

    @property
    def quiet_nan(self) -> int:
        return self.infinity | 1 << (self.digits - 2)


FLOAT16 = Format("float16", 16, 11, -14, 15)
BFLOAT16 = Format("bfloat16", 16, 8, -126, 127)
FLOAT32 = Format("float32", 32, 24, -126, 127)
FLOAT64 = Format("float64", 64, 53, -1022, 1023)
FORMATS = {f.name: f for f in (FLOAT16, BFLOAT16, FLOAT32, FLOAT64)}


class NarrowFormat(NamedTuple):
    """A narrow float: the widths of its fields, and the codes of infinity and NaN."""

    exponent: int
    fraction: int
    bias: int
    largest: int  # the code of the largest finite number
    infinity: int | None = None
    nan: tuple[int, int] = (0, 0)  # the codes of NaN and -NaN
    unsigned_zero: bool = False

    @property
    def bits(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def only_numbers(self) -> bool:
        """Return true if every code is a finite number."""
        return self.largest == self.sign_bit - 1 and not self.unsigned_zero


NARROW_FORMATS = {
    "float8_e4m3fn": NarrowFormat(4, 3, 7, 0x7E, nan=(0x7F, 0xFF)),
    "float8_e4m3fnuz": NarrowFormat(4, 3, 8, 0x7F, nan=(0x80, 0x80), unsigned_zero=True),
    "float8_e5m2": NarrowFormat(5, 2, 15, 0x7B, infinity=0x7C, nan=(0x7E, 0xFE)),
    "float8_e5m2fnuz": NarrowFormat(5, 2, 16, 0x7F, nan=(0x80, 0x80), unsigned_zero=True),
    "float8_e3m4": NarrowFormat(3, 4, 3, 0x6F, infinity=0x70, nan=(0x78, 0xF8)),
    "float8_e4m3": NarrowFormat(4, 3, 7, 0x77, infinity=0x78, nan=(0x7C, 0xFC)),
    "float8_e4m3b11fnuz": NarrowFormat(
        4, 3, 11, 0x7F, nan=(0x80, 0x80), unsigned_zero=True
    ),
    "float6_e2m3fn": NarrowFormat(2, 3, 1, 0x1F, nan=(0x20, 0x20)),
    "float6_e3m2fn": NarrowFormat(3, 2, 3, 0x1F, nan=(0x20, 0x20)),
    "float4_e2m1fn": NarrowFormat(2, 1, 1, 0x7, nan=(0x7, 0x7)),
}


class Real(NamedTuple):
    """An exact extended real number; zeros and infinities carry their sign."""

    kind: str  # "finite", "inf" or "nan"
    negative: bool
    magnitude: Fraction

    def signed(self) -> Fraction:
        return -self.magnitude if self.negative else self.magnitude


ZERO = Fraction(0)
NAN = Real("nan", False, ZERO)


def finite(value: Fraction | int) -> Real:
    return Real("finite", value < 0, Fraction(abs(value)))


def infinite(negative: bool) -> Real:
    return Real("inf", negative, ZERO)


@lru_cache(maxsize=1 << 16)
def decode(bits: int, fmt: Format) -> Real:
    """Return the number that a bit pattern represents."""
    negative = bool(bits & fmt.sign_bit)
    bits &= fmt.sign_bit - 1
    if bits > fmt.infinity:
        return NAN
    if bits == fmt.infinity:
        return infinite(negative)
    exponent, fraction = divmod(bits, 1 << (fmt.digits - 1))
    if exponent:
        fraction += 1 << (fmt.digits - 1)
    power = max(exponent, 1) - 1 + fmt.emin - (fmt.digits - 1)
    magnitude = (
        Fraction(fraction << power) if power >= 0 else Fraction(fraction, 1 << -power)
    )
    return Real("finite", negative, magnitude)


def floor_log2(value: Fraction) -> int:
    """Return the largest e with 2**e <= value, for a positive value."""
    e = value.numerator.bit_length() - value.denominator.bit_length()
    below = (
        value.numerator < value.denominator << e
        if e >= 0
        else value.numerator << -e < value.denominator
    )
    return e - below


def scaled_half_even(value: Fraction, power: int) -> int:
    """Round value / 2**power to an integer, ties to even, for a non-negative value."""
    numerator, denominator = value.numerator, value.denominator
    if power >= 0:
        denominator <<= power
    else:
        numerator <<= -power
    whole, rest = divmod(numerator, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and whole % 2):
        whole += 1
    return whole


def encode(value: Real, fmt: Format) -> int:
    """Return the bit pattern of the nearest number of a format, ties to even."""
    if value.kind == "nan":
        return fmt.quiet_nan
    sign = fmt.sign_bit if value.negative else 0
    if value.kind == "inf":
        return sign | fmt.infinity
    if not value.magnitude:
        return sign
    exponent = max(floor_log2(value.magnitude), fmt.emin)
    digits = scaled_half_even(value.magnitude, exponent - (fmt.digits - 1))
    # If the digits overflow, the addition increments the exponent, which is correct.
    bits = ((exponent - fmt.emin) << (fmt.digits - 1)) + digits
    return sign | min(bits, fmt.infinity)


def decode_narrow(code: int, fmt: NarrowFormat) -> Real:
    """Return the number that a code represents. Ignore bits above the code."""
    code &= 2 * fmt.sign_bit - 1
    negative, magnitude = code >= fmt.sign_bit, code % fmt.sign_bit
    if fmt.unsigned_zero and code == fmt.sign_bit:
        return NAN
    if magnitude > fmt.largest:
        return infinite(negative) if magnitude == fmt.infinity else NAN
    exponent, fraction = divmod(magnitude, 1 << fmt.fraction)
    if exponent:
        fraction += 1 << fmt.fraction
    power = max(exponent, 1) - fmt.bias - fmt.fraction
    return Real("finite", negative, Fraction(fraction) * Fraction(2) ** power)


def narrow_magnitude(value: Real, fmt: NarrowFormat) -> int:
    """Return the code of a magnitude, rounded half to even; it may exceed `fmt.largest`."""
    if value.kind == "inf":
        return fmt.largest + 1
    if not value.magnitude:
        return 0
    exponent = max(floor_log2(value.magnitude), 1 - fmt.bias)
    digits = scaled_half_even(value.magnitude, exponent - fmt.fraction)
    return ((exponent - 1 + fmt.bias) << fmt.fraction) + digits


def encode_narrow(
    value: Real, fmt: NarrowFormat, saturate: bool, nan_negative: bool
) -> int:
    """Return the code of a number, rounded half to even. Return -NaN if `nan_negative`."""
    if value.kind == "nan":
        return fmt.nan[nan_negative]
    sign = fmt.sign_bit if value.negative else 0
    code = narrow_magnitude(value, fmt)
    if code == 0 and fmt.unsigned_zero:
        return 0
    if code <= fmt.largest:
        return sign | code
    if saturate or fmt.only_numbers:
        return sign | fmt.largest
    return sign | fmt.infinity if fmt.infinity else fmt.nan[value.negative]


def round_to_format(value: Real, fmt: Format) -> Real:
    return decode(encode(value, fmt), fmt)


def float32(value: Fraction | int) -> Fraction | None:
    """Round a number once to float32, half to even. If it overflows, return None."""
    rounded = round_to_format(finite(Fraction(value)), FLOAT32)
    return rounded.signed() if rounded.kind == "finite" else None


def divide(x: Real, y: Real) -> Real:
    """Divide exactly. Zeros, infinities and NaN give the results of IEEE 754."""
    negative = x.negative != y.negative
    if "nan" in (x.kind, y.kind) or (x.kind == y.kind == "inf"):
        return NAN
    if x.kind == "inf":
        return infinite(negative)
    if y.kind == "inf":
        return Real("finite", negative, ZERO)
    if not y.magnitude:
        return infinite(negative) if x.magnitude else NAN
    return Real("finite", negative, x.magnitude / y.magnitude)


def multiply(x: Real, y: Real) -> Real:
    """Multiply exactly. Infinities and NaN give the results of IEEE 754."""
    negative = x.negative != y.negative
    if "nan" in (x.kind, y.kind):
        return NAN
    if "inf" in (x.kind, y.kind):
        zero = any(v.kind == "finite" and not v.magnitude for v in (x, y))
        return NAN if zero else infinite(negative)
    return Real("finite", negative, x.magnitude * y.magnitude)


def add(x: Real, y: Real) -> Real:
    """Add exactly. Zeros, infinities and NaN give the results of IEEE 754."""
    if "nan" in (x.kind, y.kind):
        return NAN
    if x.kind == y.kind == "inf" and x.negative != y.negative:
        return NAN
    if "inf" in (x.kind, y.kind):
        return x if x.kind == "inf" else y
    if not (x.magnitude or y.magnitude):
        return Real("finite", x.negative and y.negative, ZERO)
    return finite(x.signed() + y.signed())


def subtract(x: Real, y: Real) -> Real:
    return add(x, y._replace(negative=not y.negative))


def round_to_integer(value: Fraction, mode: str) -> int:
    """Round a fraction to an integer by one of the ten modes."""
    below = value.numerator // value.denominator
    rest = value - below
    if not rest:
        return below
    above, negative = below + 1, value < 0
    if mode == "floor":
        return below
    if mode == "ceil":
        return above
    if mode == "trunc":
        return above if negative else below
    if mode == "away":
        return below if negative else above
    if rest != Fraction(1, 2):
        return above if rest > Fraction(1, 2) else below
    if mode == "half_up":
        return above
    if mode == "half_down":
        return below
    if mode == "half_away":
        return below if negative else above
    if mode == "half_toward_zero":
        return above if negative else below
    if mode == "half_even":
        return above if below % 2 else below
    if mode == "half_odd":
        return below if below % 2 else above
    raise AssertionError(mode)


def code_range(dtype: object) -> tuple[int, int]:
    """Return the lowest and the highest code of an integer type, from its name alone."""
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    bits = int(name.lstrip("uint"))
    if name.startswith("u"):
        return 0, (1 << bits) - 1
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def format_of(array: np.ndarray) -> Format:
    return FORMATS[array.dtype.name]


def compute_format(fmt: Format) -> Format:
    """Return the format that pyquant computes in for numbers of the format `fmt`."""
    return FLOAT64 if fmt is FLOAT64 else FLOAT32


def bits_of(array: np.ndarray) -> list[int]:
    """Return the bit patterns of a float array as a list, in C order."""
    array = np.ascontiguousarray(array)
    return array.reshape(-1).view(f"u{array.dtype.itemsize}").tolist()


def integers_of(codes: np.ndarray) -> list[int]:
    """Return integer codes as a list of Python integers, in C order."""
    own = codes.dtype.name == "uint64"
    return (codes if own else codes.astype(np.int64)).reshape(-1).tolist()


def decode_scales(scale: np.ndarray, compute: Format, size: int) -> list[Real]:
    """Round scales once to the compute format. Return a list of `size` scales."""
    fmt = format_of(scale)
    return _spread([round_to_format(decode(b, fmt), compute) for b in bits_of(scale)], size)


def _spread(values: list, size: int) -> list:
    if len(values) == size:
        return values
    assert len(values) == 1, "parameters must be one value or one value for each element"
    return values * size


def quantize(x, scale, zero_point=0, **options):
    """Return the codes of `pyquant.quantize`.

    Each parameter has one element, or an element for each element of `x`.
    """
    return quantize_affine(x, scale, zero_point, **options)[0]


def _numbers(parameter, compute, size):
    """Return a list of the rounded offset of each element, or of None without offsets."""
    if parameter is None:
        return [None] * size
    return decode_scales(np.asarray(parameter), compute, size)


def array_of_codes(codes, dtype, shape):
    """Convert codes to an array. A code of a narrow float is the float's bit pattern."""
    if dtype.name in NARROW_FORMATS:
        return np.array(codes, np.uint8).view(dtype).reshape(shape)
    return np.array(codes, dtype=dtype).reshape(shape)


def _fills_of(fill):
    return tuple(np.ravel(np.asarray(fill, object)).tolist())


class Policy(NamedTuple):
    """The options that choose the codes of NaN and of quotients outside the code range."""

    fill: tuple[int, ...] = ()
    quant_range: tuple[int, int] | None = None
    out_of_range: str = "saturate"
    nan: str = "lowest"


def affine_code(
    quotient: Real, is_nan: bool, zero_point: int, name: str, mode: str, policy: Policy
) -> tuple[int, bool]:
    """Return a code, and true if the policy requires an error. Set `is_nan` if x is NaN."""
    lowest, highest = policy.quant_range or code_range(name)
    if quotient.kind == "nan":
        if is_nan and policy.fill:
            return policy.fill[0], False
        return lowest, policy.nan == "raise"
    refuses = policy.out_of_range == "raise"
    if quotient.kind == "inf":
        if policy.out_of_range == "wrap":
            return lowest, False
        return lowest if quotient.negative else highest, refuses
    code = round_to_integer(quotient.signed(), mode) + zero_point
    if lowest <= code <= highest:
        return code, False
    if policy.out_of_range == "wrap":
        return (code - lowest) % (highest - lowest + 1) + lowest, False
    return min(max(code, lowest), highest), refuses


def affine_narrow_code(
    quotient: Real, nan_negative: bool, fmt: NarrowFormat, saturate: bool, policy: Policy
) -> tuple[int, bool]:
    """Return the code of a narrow float, and true if the policy requires an error."""
    code = encode_narrow(quotient, fmt, saturate, nan_negative)
    if quotient.kind == "nan":
        return code, policy.nan == "raise"
    beyond = narrow_magnitude(quotient, fmt) > fmt.largest
    return code, beyond and policy.out_of_range == "raise"


def quantize_affine(
    x,
    scale,
    zero_point=0,
    *,
    dtype="int8",
    rounding="half_even",
    precision=None,
    saturate=True,
    offset=None,
    inverse=False,
    fill=(),
    quant_range=None,
    out_of_range="saturate",
    nan="lowest",
):
    """Compute `pyquant.quantize` with all its options. Parameters are like in `quantize`.

    Return the codes, and an array that is true where the policy requires an error.
    """
    dtype = np.dtype(dtype)
    name, source, scale = dtype.name, format_of(x), np.asarray(scale)
    given = compute_format(source)
    compute = given if precision is None else FORMATS[precision]
    policy = Policy(_fills_of(fill), quant_range, out_of_range, nan)
    of_scale = format_of(scale)
    results = []
    for bits, s, s_bits, z, o in zip(
        bits_of(x),
        decode_scales(scale, given, x.size),
        _spread(bits_of(scale), x.size),
        _spread(np.asarray(zero_point).reshape(-1).tolist(), x.size),
        _numbers(offset, given, x.size),
        strict=True,
    ):
        number = decode(bits, source)
        moved = number if o is None else round_to_format(subtract(number, o), compute)
        ratio = (multiply if inverse else divide)(moved, s)
        quotient = round_to_format(ratio, compute)
        if name in NARROW_FORMATS:
            # If subtracting the offset gave NaN, use the sign of the element.
            signed = bool(bits & source.sign_bit)
            negative = (signed if moved.kind == "nan" else moved.negative) != bool(
                s_bits & of_scale.sign_bit
            )
            to = NARROW_FORMATS[name]
            one = affine_narrow_code(quotient, negative, to, saturate, policy)
        else:
            one = affine_code(quotient, number.kind == "nan", z, name, rounding, policy)
        results.append(one)
    codes = array_of_codes([code for code, _ in results], dtype, x.shape)
    return codes, np.array([refused for _, refused in results], bool).reshape(x.shape)


def dequantize(
    q, scale, zero_point=0, *, dtype="float32", offset=None, inverse=False, fill=()
):
    """Compute `pyquant.dequantize` with all options. Parameters are like in `quantize`."""
    name, dtype = q.dtype.name, np.dtype(dtype)
    out = FORMATS[dtype.name]
    compute = compute_format(out)
    fills = _fills_of(fill)
    if name in NARROW_FORMATS:
        numbers = [
            decode_narrow(c, NARROW_FORMATS[name])
            for c in q.view(np.uint8).reshape(-1).tolist()
        ]
    else:
        zeros = _spread(np.asarray(zero_point).reshape(-1).tolist(), q.size)
        codes = integers_of(q)
        numbers = [
            NAN if c in fills else round_to_format(finite(c - z), compute)
            for c, z in zip(codes, zeros, strict=True)
        ]
    bits = []
    for number, s, o in zip(
        numbers,
        decode_scales(np.asarray(scale), compute, q.size),
        _numbers(offset, compute, q.size),
        strict=True,
    ):
        value = round_to_format((divide if inverse else multiply)(number, s), compute)
        if o is not None:
            value = round_to_format(add(value, o), compute)
        bits.append(encode(value, out))
    return np.array(bits, dtype=f"u{dtype.itemsize}").view(dtype).reshape(q.shape)


def _rounded(value: Fraction, fmt: Format = FLOAT64) -> Fraction:
    number = round_to_format(finite(value), fmt)
    assert number.kind == "finite"
    return number.signed()


class Target(NamedTuple):
    """The types of the data, the scales and the codes, and the range of the codes.

    `source` is the format of the data. `scale` is the name of the type of the scales.
    `narrow` is the format of codes that are floats. `half` is the allowed excess of
    quotients beyond each end of the codes, in steps.
    """

    source: Format
    scale: str
    narrow: NarrowFormat | None
    lowest: Fraction
    highest: Fraction
    half: Fraction
    symmetric: bool

    @property
    def middle(self) -> tuple[int, Fraction]:
        """Return the zero point of symmetric codes, and the number of steps to an end."""
        if self.lowest < 0 < self.highest:
            return 0, min(self.highest, -self.lowest)
        return (
            round_to_integer((self.lowest + self.highest + 1) / 2, "floor"),
            (self.highest - self.lowest) / 2,
        )


def target_of(source, dtype, symmetric, quant_range=None, scale_dtype=None) -> Target:
    name = dtype if isinstance(dtype, str) else np.dtype(dtype).name
    narrow = NARROW_FORMATS.get(name)
    scale = scale_dtype or compute_format(source).name
    if narrow is None:
        lowest, highest = map(Fraction, quant_range or code_range(dtype))
        return Target(source, scale, None, lowest, highest, Fraction(1, 2), symmetric)
    most = largest(name)
    half = (most - decode_narrow(narrow.largest - 1, narrow).magnitude) / 2
    return Target(source, scale, narrow, -most, most, half, symmetric)


def last_place(name: str) -> int:
    """Return the bit pattern of the largest number of a float type."""
    if name == "float8_e8m0fnu":
        return 254
    if name in NARROW_FORMATS:
        return NARROW_FORMATS[name].largest
    return FORMATS[name].infinity - 1


def scale_at(place: int, name: str) -> Fraction | None:
    """Return the positive number with a bit pattern, or None for any other pattern."""
    if not (name != "float8_e8m0fnu") <= place <= last_place(name):
        return None
    if name == "float8_e8m0fnu":
        return Fraction(2) ** (place - 127)
    if name in NARROW_FORMATS:
        return decode_narrow(place, NARROW_FORMATS[name]).signed()
    return decode(place, FORMATS[name]).signed()


def largest(name: str) -> Fraction:
    """Return the largest number of a float type."""
    return scale_at(last_place(name), name)


def place_of(value: Fraction, name: str) -> int:
    """Return the bit pattern of the nearest scale. float8_e8m0fnu rounds up instead."""
    if name == "float8_e8m0fnu":
        exponent = floor_log2(value) if value else -128
        return min(max(exponent + (value != Fraction(2) ** exponent) + 127, 0), 254)
    if name in NARROW_FORMATS:
        place = narrow_magnitude(finite(value), NARROW_FORMATS[name])
    else:
        place = encode(finite(value), FORMATS[name])
    return min(max(place, 1), last_place(name))


def _wanted_scale(low, high, to):
    """Compute the scale in float64. The scale is at most the largest finite number."""
    levels = to.highest - to.lowest
    if to.symmetric:
        wanted = max(high, -low) / to.middle[1]
    elif round_to_format(finite(high - low), FLOAT64).kind == "inf":
        wanted = _rounded(_rounded(high / 2) - _rounded(low / 2)) / (levels / 2)
    else:
        wanted = _rounded(high - low) / levels
    return _rounded(min(wanted, largest("float64")))


def _zero_point(scale, low, to):
    if to.symmetric:
        return to.middle[0]
    steps = _rounded(to.lowest - _rounded(low / scale))
    return min(max(round_to_integer(steps, "half_even"), int(to.lowest)), int(to.highest))


def _returned(end, scale, zero_point, to):
    """Quantize and dequantize one end of the range. Return it in the type of the data."""
    compute = compute_format(to.source)
    steps = _rounded(end / scale, compute)
    if to.narrow:
        code = encode_narrow(finite(steps), to.narrow, saturate=True, nan_negative=False)
        steps = decode_narrow(code, to.narrow).signed()
    else:
        code = round_to_integer(steps, "half_even") + zero_point
        steps = min(max(code, to.lowest), to.highest) - zero_point
    product = finite(_rounded(Fraction(steps), compute) * scale)
    return round_to_format(round_to_format(product, compute), to.source)


def _comes_back(scale, low, high, to):
    """Return true if the ends, after a round trip, are finite and one of them is not 0."""
    used = _rounded(scale, compute_format(to.source))
    zero_point = _zero_point(scale, low, to)
    ends = [_returned(end, used, zero_point, to) for end in (low, high)]
    return all(v.kind == "finite" for v in ends) and any(v.magnitude for v in ends)


def _suits(scale, low, high, to):
    """Return true if a scale meets two conditions.

    Data exceeds the code range by at most half a step, and `_comes_back` returns true.
    """
    zero_point = _zero_point(scale, low, to)
    if scale < Fraction(1, 2**126):  # a subnormal, with a large rounding error
        scale = _rounded(scale, compute_format(to.source))
    return (
        high <= (to.highest - zero_point + to.half) * scale
        and -low <= (zero_point - to.lowest + to.half) * scale
        and (
            max(high, -low) < largest(to.source.name) / 4
            or _comes_back(scale, low, high, to)
        )
    )


def _nearest_scale(wanted, low, high, to):
    """Return the scale nearest to `wanted` that `_suits` accepts; ties go to the larger."""
    first = place_of(wanted, to.scale)
    for k in range(64):
        for place in (first + k, first - k):
            scale = scale_at(place, to.scale)
            if scale is not None and _suits(scale, low, high, to):
                return scale
    return None


def choose_scale(low, high, to):
    """Choose the scale and the zero point for a range that contains 0."""
    if low == high == 0:
        return Fraction(1), _zero_point(Fraction(1), low, to)
    wanted = _wanted_scale(low, high, to)
    if to.scale == "float64" and to.source is not FLOAT64:
        wanted = min(max(wanted, Fraction(1, 2**149)), largest("float32"))
    nominal = place_of(wanted, to.scale)
    scale = _nearest_scale(wanted, low, high, to)
    if scale is None:
        # Choose a larger scale, so that the larger magnitude becomes slightly less than
        # n + 1/2 steps and rounds down to n.
        far, half = max(high, -low), Fraction(1, 2)
        steps = (_rounded(far / scale_at(nominal, to.scale)) - half).__ceil__() - half
        if steps >= 1:
            scale = _nearest_scale(_rounded(far / steps), low, high, to)
    below = (scale_at(nominal - k, to.scale) for k in range(64 * (scale is None)))
    saturating = (s for s in below if s is not None and _comes_back(s, low, high, to))
    scale = scale or next(saturating, scale_at(nominal, to.scale))
    return scale, _zero_point(scale, low, to)


def choose_qparams(x, *, dtype="int8", symmetric=True):
    """Choose the scale, as an array of one element, and the zero point of one group."""
    source = format_of(x)
    values = [decode(b, source).signed() for b in bits_of(x)]
    to = target_of(source, dtype, symmetric)
    scale, zero_point = choose_scale(min([ZERO, *values]), max([ZERO, *values]), to)
    place = np.array([place_of(scale, to.scale)], f"u{FORMATS[to.scale].bits // 8}")
    return place.view(to.scale), zero_point
