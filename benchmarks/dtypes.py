# SPDX-License-Identifier: Apache-2.0
"""Element types, as the benchmarks ask for them: facts come from pyquant's own table."""

from __future__ import annotations

from typing import Any

import numpy as np

from pyquant._core import dtype_named, limits, packed_per_byte

__all__ = [
    "dtype_named",
    "in_numpy",
    "limits",
    "limits_within",
    "packed_bits",
    "packed_bytes",
]


def in_numpy(name: str) -> bool:
    """Whether NumPy has the type, without ml_dtypes."""
    return hasattr(np, name)


def limits_within(name: str, real: Any) -> tuple[Any, Any] | None:
    """The range of an integer type, in numbers of `real` that do not exceed it."""
    found = limits(name)
    if found is None:
        return None
    high = real(found[1])
    return real(found[0]), high if high <= found[1] else np.nextafter(high, real(0))


def packed_bits(name: str) -> int:
    """Bits of an element that shares its byte with others."""
    return 8 // packed_per_byte(name)


def packed_bytes(name: str, count: int) -> int:
    """Bytes of so many packed elements."""
    return -(-count // packed_per_byte(name))
