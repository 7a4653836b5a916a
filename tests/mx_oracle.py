"""MX and NVFP4 blocks in exact arithmetic, with the number formats of `oracle`."""

from fractions import Fraction

import numpy as np
import oracle
from oracle import NARROW_FORMATS
from oracle import floor_log2 as exponent_of

NAMES = ("8_e4m3fn", "8_e5m2", "6_e2m3fn", "6_e3m2fn", "4_e2m1fn")
TYPES = [f"float{name}" for name in NAMES]
RULES = ("floor", "ceil", "even", "rceil")


def decode(code, name):
    """Return the exact number of a code. Zero has no sign."""
    return oracle.decode_narrow(code, NARROW_FORMATS[name]).signed()


def exponent_above(v):
    """Return the exponent of the least power of two that is at least v."""
    n = exponent_of(v)
    return n if Fraction(2) ** n == v else n + 1


def scale_byte(numbers, name, rule, steps=None):
    """Return the byte of the scale for a block of float32 numbers.

    For integers, `steps` code steps take the place of the largest element.
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
    """Return the code of a magnitude, half to even, saturated, with a sign."""
    value = oracle.finite(abs(x))._replace(negative=bool(negative))
    return oracle.encode_narrow(value, NARROW_FORMATS[name], True, False)


def encode(x, name, scale):
    """Return the codes of floats with an exact scale."""
    return [code_of(Fraction(float(v)) / scale, name, np.signbit(v)) for v in x]


def blocks_of(x, size):
    """Divide rows into blocks. The last block of a row may be shorter."""
    return [[row[i : i + size] for i in range(0, len(row), size)] for row in x]


def wild(shape, seed, of_rows=(-150, 120), of_elements=(-9, 3)):
    """Return numbers with exponents of each row and of each element; some are subnormal."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(*of_rows, (*shape[:-1], 1))
    exponents = exponents + rng.integers(*of_elements, shape)
    with np.errstate(under="ignore"):
        return (rng.standard_normal(shape) * np.exp2(exponents)).astype(np.float32)
