# SPDX-License-Identifier: Apache-2.0
"""Element types, as the benchmarks ask for them: facts come from pyquant's own table."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyquant._core import dtype_named
from pyquant.dtypes import TYPES

__all__ = [
    "CODES",
    "PACKABLE",
    "REALS",
    "SHORT",
    "dtype_named",
    "in_numpy",
    "limits",
    "limits_within",
    "packed_bits",
    "packed_bytes",
]

# Those of 32 bits and more are first.
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
    What a form's name calls a type: a letter or two and the bits, or fields of a float.

    A narrow float that is the only one of its bits is called by them. ``fn``, for no
    infinities, goes without saying; of the same fields, the type that has them says so.
    """
    plain, _, fields = name.partition("_")
    others = [t for t in TYPES.values() if t.kind == "float" and t.name != name]
    if fields and any(t.bits == TYPES[name].bits for t in others):
        return f"{fields}inf" if f"{name}fn" in TYPES else fields.removesuffix("fn")
    kind = plain.rstrip("0123456789")
    return _LETTERS[kind] + plain[len(kind) :]


SHORT = {name: _short(name) for name in (*REALS, *CODES)}


def in_numpy(name: str) -> bool:
    """Whether NumPy has the type, without ml_dtypes."""
    return hasattr(np, name)


def limits(name: str) -> tuple[int, int] | None:
    """The range of an integer type."""
    lowest, highest = TYPES[name].lowest, TYPES[name].highest
    return None if lowest is None or highest is None else (lowest, highest)


def limits_within(name: str, real: Any) -> tuple[Any, Any] | None:
    """The range of an integer type, in numbers of `real` that do not exceed it."""
    found = limits(name)
    if found is None:
        return None
    high = real(found[1])
    return real(found[0]), high if high <= found[1] else np.nextafter(high, real(0))


def packed_bits(name: str) -> int:
    """Bits of an element that shares its byte with others."""
    return TYPES[name].bits


def packed_bytes(name: str, count: int) -> int:
    """Bytes of so many packed elements."""
    return -(-count * TYPES[name].bits // 8)
