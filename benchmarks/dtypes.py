# SPDX-License-Identifier: Apache-2.0
"""Names, ranges and widths of element types, from the table of pyquant."""

from __future__ import annotations

from typing import Any

import numpy as np

# An import with `as` marks a name that other files import from this file.
from pyquant._core import dtype_named as dtype_named
from pyquant.dtypes import TYPES as TYPES

# The types of real numbers. The types of 32 bits and more come first.
REALS = tuple(
    t.name for t in sorted(TYPES.values(), key=lambda t: t.bits < 32) if t.kind == "real"
)
CODES = tuple(
    t.name
    for t in TYPES.values()
    if t.kind == "float" or (t.kind == "integer" and t.bits <= 32)
)
PACKABLE = tuple(name for name in CODES if TYPES[name].bits in (2, 4))


_LETTERS = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u"}


def _short(name: str) -> str:
    """
    Return the short name of a type, for names of forms.

    The short name has one or two letters and the number of bits, or the fields of a narrow
    float. A narrow float of a unique width has its width as its name. The suffix ``fn`` (no
    infinities) is dropped. If two types have equal fields, the type with infinities gets
    the suffix ``inf``.
    """
    plain, _, fields = name.partition("_")
    others = [t for t in TYPES.values() if t.kind == "float" and t.name != name]
    if fields and any(t.bits == TYPES[name].bits for t in others):
        return f"{fields}inf" if f"{name}fn" in TYPES else fields.removesuffix("fn")
    kind = plain.rstrip("0123456789")
    return _LETTERS[kind] + plain[len(kind) :]


SHORT = {name: _short(name) for name in (*REALS, *CODES)}


def in_numpy(name: str) -> bool:
    """Return true if NumPy has the type without ml_dtypes."""
    return hasattr(np, name)


def limits(name: str) -> tuple[int, int] | None:
    """Return the lowest and the highest number of an integer type."""
    lowest, highest = TYPES[name].lowest, TYPES[name].highest
    return None if lowest is None or highest is None else (lowest, highest)


def limits_within(name: str, real: Any) -> tuple[Any, Any] | None:
    """Return the lowest and the highest `real` number in the range of an integer type."""
    found = limits(name)
    if found is None:
        return None
    high = real(found[1])
    return real(found[0]), high if high <= found[1] else np.nextafter(high, real(0))


def packed_bytes(name: str, count: int) -> int:
    """Return the number of bytes of `count` packed elements."""
    return -(-count * TYPES[name].bits // 8)
