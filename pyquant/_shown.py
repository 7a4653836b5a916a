# SPDX-License-Identifier: Apache-2.0
"""Show values in error messages: on one line, of limited length."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.exceptions import AxisError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["axis_error", "faulty", "listed", "shown"]

_FLAT = (str, bytes, int, float, complex, type(None), np.generic)
_MOST_BITS = 1024  # of printed integers; Python raises an error above 4300 digits
_MOST_CHARACTERS = 200


def shown(value: object) -> str:
    """Describe a value.

    A container of containers is not printed, because Python cannot print deep nesting.
    """
    if isinstance(value, int) and int.bit_length(value) > _MOST_BITS:
        return f"an integer of {int.bit_length(value)} bits"
    if isinstance(value, (tuple, list)):
        if not all(isinstance(one, _FLAT) for one in value):
            return f"a {type(value).__name__} of sequences"
        text = ", ".join(map(shown, value))
        if isinstance(value, tuple):
            text = f"({text},)" if len(value) == 1 else f"({text})"
        else:
            text = f"[{text}]"
    elif isinstance(value, np.ndarray):
        text = f"an array of {value.dtype}" if value.dtype.hasobject else repr(value)
    elif isinstance(value, _FLAT):
        text = repr(value)
    else:
        return f"a {type(value).__name__}"
    text = " ".join(text.split())
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}..."


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence: a, b or c."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def faulty(count: int) -> str:
    """Return the number of elements that an error is about."""
    return "1 faulty element" if count == 1 else f"{count} faulty elements"


def axis_error(axis: int, ndim: int, name: str | None = None) -> AxisError:
    """Return NumPy's error about an axis. Its own message fails for long integers."""
    if int.bit_length(axis) <= _MOST_BITS:
        return AxisError(axis, ndim, name)
    said = f"axis {shown(axis)} is out of bounds for array of dimension {ndim}"
    return AxisError(said if name is None else f"{name}: {said}")
