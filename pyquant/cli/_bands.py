# SPDX-License-Identifier: Apache-2.0
"""Tensors a few rows at a time, and what is said of them as JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core
from pyquant.cli._forms import Granularity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from pyquant.cli._logical import Logical

__all__ = [
    "as_json",
    "bands",
    "counted",
    "decoded",
    "expanded",
    "extents",
    "grid",
    "has_numbers",
    "wide",
]

# Elements of a band, about: few enough for the cache. And the largest of GGUF's blocks.
BAND, BLOCK = 1 << 16, 256
# Types that float32 does not hold.
WIDE = ("float64", "int32", "uint32", "int64", "uint64")


def bands(shape: tuple[int, ...], unit: int = 1) -> Iterator[slice | None]:
    """
    Cut a tensor into rows along its first axis.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    unit : int, optional
        How many rows belong together: each band but the last has a multiple of it.

    Yields
    ------
    slice or None
        Rows; None, once, for a tensor without axes.
    """
    if not shape:
        yield None
        return
    if 0 in shape:
        return
    rows = max(1, BAND // math.prod(shape[1:]))
    if rows > BLOCK:  # whole blocks of a tensor of one axis, whose rows are elements
        rows -= rows % BLOCK
    rows += -rows % unit
    for first in range(0, shape[0], rows):
        yield slice(first, min(first + rows, shape[0]))


def wide(types: set[str]) -> str:
    """The real type in which the elements of such types are looked at."""
    return "float64" if types.intersection(WIDE) else "float32"


def decoded(tensor: Logical, dtype: str, unit: int = 1) -> Iterator[npt.NDArray[Any]]:
    """The numbers of a tensor, band by band, in memory that the next band takes again."""
    element = _core.dtype_named(dtype)
    room = np.empty(0, element)
    for rows in bands(tensor.shape, unit):
        if rows is None:
            yield tensor.decode(dtype=dtype).reshape(1)
            continue
        shape = (rows.stop - rows.start, *tensor.shape[1:])
        if room.size < math.prod(shape):
            room = np.empty(math.prod(shape), element)
        yield tensor.decode(rows, out=room[: math.prod(shape)].reshape(shape))


def grid(
    values: Any, tensor: Logical, rows: slice | None
) -> tuple[npt.NDArray[Any], tuple[int, ...]]:
    """
    Take the parameters of some rows.

    Parameters
    ----------
    values : ndarray
        Scales or zero points of the whole tensor, with as many axes as it has.
    tensor : Logical
        The tensor.
    rows : slice or None
        The rows; None for a tensor without axes.

    Returns
    -------
    ndarray
        The parameters.
    tuple of int
        How many elements of each axis of these rows share one.
    """
    sizes = Granularity(str(tensor.granularity)).blocks(tensor.shape)
    if rows is None:
        return values, sizes
    if len(values) == 1:
        return values, (min(sizes[0], rows.stop - rows.start), *sizes[1:])
    # Rows may begin within a block: each gets what is its own.
    return values[np.arange(rows.start, rows.stop) // sizes[0]], (1, *sizes[1:])


def expanded(values: Any, tensor: Logical, rows: slice | None) -> npt.NDArray[Any]:
    """The parameters of some rows in a shape that NumPy makes that of the elements."""
    found, sizes = grid(values, tensor, rows)
    if rows is None:
        return np.asarray(found, np.float64).reshape(1)
    for axis, size in enumerate(sizes):
        if found.shape[axis] > 1 and size > 1:
            found = np.repeat(found, size, axis)
    shape = (rows.stop - rows.start, *tensor.shape[1:])
    part: npt.NDArray[Any] = found[tuple(slice(0, n) for n in shape)]
    return part.astype(np.float64, copy=False)


def has_numbers(tensor: Logical) -> bool:
    """Whether the elements are known, and real: complex numbers are not, nor new types."""
    try:
        tensor.decode(slice(0, 0) if tensor.shape else None, dtype="float64")
    except (TypeError, ValueError):
        return False
    return True


def counted(number: int, what: str) -> str:
    """A number of things."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def extents(shape: tuple[int, ...]) -> str:
    """A shape as people read it."""
    return " x ".join(map(str, shape)) if shape else "one"


def as_json(said: Mapping[str, Any]) -> str:
    """One line of JSON, which has no infinities: they are strings; and NaN is null."""
    return json.dumps(_plain(said), separators=(", ", ": "), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
