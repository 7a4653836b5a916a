"""Compute MX and NVFP4 blocks in exact arithmetic, with the number formats of `oracle`."""

from fractions import Fraction

import numpy as np
import oracle
from oracle import NARROW_FORMATS
from oracle import floor_log2 as exponent_of

NAMES = ("8_e4m3fn", "8_e5m2", "6_e2m3fn", "6_e3m2fn", "4_e2m1fn")
TYPES = [f"float{name}" for name in NAMES]
RULES = ("floor", "ceil", "even", "rceil")


def decode(code, name):
    """Return the exact number that a code represents. Codes of 0 and -0 both give 0."""
    return oracle.decode_narrow(code, NARROW_FORMATS[name]).signed()


def exponent_above(v):
    """Return the exponent of the least power of two that is at least v."""
    n = exponent_of(v)
    return n if Fraction(2) ** n == v else n + 1


def scale_byte(numbers, name, rule, steps=None):
    """Return the byte of the scale for a block of float32 numbers.

    For integers, `steps` replaces the largest number of the element type.
    """
    if not np.isfinite(numbers).all():
        return 255
    a = max(abs(Fraction(float(v))) for v in numbers)
    if a == 0:
        return 0
    largest = steps or oracle.largest(name)
    fraction = exponent_of(steps) if steps else NARROW_FORMATS[name].fraction
    if rule == "rceil":
        quotient = oracle.float32(a / largest)
        return max(0, exponent_above(quotient) + 127) if quotient else 0
    if rule == "ceil":
        exponent = exponent_above(a)
    elif rule == "even":
        step = Fraction(2) ** (exponent_of(a) - fraction)
        exponent = exponent_of((a / step + Fraction(1, 2)).__floor__() * step)
        if exponent > 127:
            return 255
    else:
        exponent = exponent_of(a)
    return max(0, exponent - exponent_of(largest) + 127)


def code_of(x, name, negative=False):
    """Return the code of `x`, rounded half to even and saturated, with the given sign."""
    value = oracle.finite(abs(x))._replace(negative=bool(negative))
    return oracle.encode_narrow(value, NARROW_FORMATS[name], True, False)


def encode(x, name, scale):
    """Divide floats exactly by a scale and return the codes."""
    return [code_of(Fraction(float(v)) / scale, name, np.signbit(v)) for v in x]


def blocks_of(x, size):
    """Divide rows into blocks. The last block of a row may be shorter."""
    return [[row[i : i + size] for i in range(0, len(row), size)] for row in x]


def wild(shape, seed, of_rows=(-150, 120), of_elements=(-9, 3)):
    """Return random numbers, a few subnormal.

    The exponent of an element is the sum of a random exponent of its row and its own.
    """
    rng = np.random.default_rng(seed)
    exponents = rng.integers(*of_rows, (*shape[:-1], 1))
    exponents = exponents + rng.integers(*of_elements, shape)
    with np.errstate(under="ignore"):
        return (rng.standard_normal(shape) * np.exp2(exponents)).astype(np.float32)
