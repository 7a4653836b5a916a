"""MX and NVFP4 blocks in exact arithmetic; no code of the package."""

from fractions import Fraction

import numpy as np

# Exponent bits, mantissa bits, bias, and the largest code of a number.
TYPES = {
    "float8_e4m3fn": (4, 3, 7, 0x7E),
    "float8_e5m2": (5, 2, 15, 0x7B),
    "float6_e2m3fn": (2, 3, 1, 0x1F),
    "float6_e3m2fn": (3, 2, 3, 0x1F),
    "float4_e2m1fn": (2, 1, 1, 0x07),
}
RULES = ("floor", "ceil", "even", "rceil")


def value_of(code, name):
    """The number of a code without a sign."""
    _, mantissa, bias, _ = TYPES[name]
    exponent, rest = divmod(code, 1 << mantissa)
    if exponent == 0:
        return Fraction(rest, 1 << mantissa) * Fraction(2) ** (1 - bias)
    return (1 + Fraction(rest, 1 << mantissa)) * Fraction(2) ** (exponent - bias)


NUMBERS = {
    name: [value_of(code, name) for code in range(most + 1)]
    for name, (_, _, _, most) in TYPES.items()
}


def exponent_of(v):
    """That of the largest power of two that is not more than v, which is positive."""
    n = v.numerator.bit_length() - v.denominator.bit_length()
    return n if Fraction(2) ** n <= v else n - 1


def exponent_above(v):
    """That of the least power of two that is not less."""
    n = exponent_of(v)
    return n if Fraction(2) ** n == v else n + 1


def rounded(v, step):
    """To the nearest multiple, half to even."""
    return round(v / step) * step


def float32(v):
    """A number that is not negative as float32 has it, half to even; None is infinity."""
    if v == 0:
        return v
    made = rounded(v, Fraction(2) ** (max(exponent_of(v), -126) - 23))
    return made if made < Fraction(2) ** 128 else None


def scale_byte(numbers, name, rule):
    """The scale of a block by its byte; of float32 numbers."""
    if not np.isfinite(numbers).all():
        return 255
    a = max(abs(Fraction(float(v))) for v in numbers)
    if a == 0:
        return 0
    largest = NUMBERS[name][-1]
    if rule == "rceil":
        quotient = float32(a / largest)
        return max(0, exponent_above(quotient) + 127) if quotient else 0
    if rule == "ceil":
        exponent = exponent_above(a)
    elif rule == "even":
        step = Fraction(2) ** (exponent_of(a) - TYPES[name][1])
        exponent = exponent_of((a / step + Fraction(1, 2)).__floor__() * step)
        if exponent > 127:
            return 255
    else:
        exponent = exponent_of(a)
    return max(0, exponent - exponent_of(largest) + 127)


def code_of(x, name):
    """The code of the magnitude of a Fraction, half to even, saturated."""
    numbers = NUMBERS[name]
    v = abs(x)
    if v >= numbers[-1]:
        return len(numbers) - 1
    below = max(code for code, number in enumerate(numbers) if number <= v)
    down, up = v - numbers[below], numbers[below + 1] - v
    return below + (up < down or (up == down and below % 2))


def encode(x, name, scale):
    """Codes of floats under an exact scale, signs included."""
    sign = 1 << sum(TYPES[name][:2])
    return [
        code_of(Fraction(float(v)) / scale, name) | (sign if np.signbit(v) else 0)
        for v in x
    ]


def decode(code, name):
    """A code as an exact number, but for the sign of zero."""
    sign = 1 << sum(TYPES[name][:2])
    return value_of(code & sign - 1, name) * (-1 if code & sign else 1)


def blocks_of(x, size):
    """Rows cut into blocks, of which the last may be short."""
    return [[row[i : i + size] for i in range(0, len(row), size)] for row in x]
