# SPDX-License-Identifier: Apache-2.0
"""Count few long channels, each like a separate array."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pyquant import _threads

if TYPE_CHECKING:
    from collections.abc import Callable

    _Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

__all__ = ["observed"]


# Contiguous elements that csrc/ops/histogram.c counts in place.
_RUN = 256
# Least elements of a channel that repay the search of its counters. float16 uses eight
# times as many counters, because it has more mantissa bits.
_LONG, _LONG_OF_F16 = 1 << 15, 1 << 17


def _run(x: _Array, axes: tuple[int, ...]) -> int:
    """Return the number of contiguous elements of a channel."""
    rest = [(x.strides[d], x.shape[d]) for d in range(x.ndim) if d not in axes]
    run = 1
    for stride, n in sorted(rest):
        if n > 1 and stride != run * x.itemsize:
            break
        run *= n
    return run


def _is_worth(x: _Array, axes: tuple[int, ...], parts: int) -> bool:
    """Return True if separate counting is faster; it must suffice for all threads."""
    size = x.size // math.prod(x.shape[d] for d in axes)
    return (
        size >= (_LONG_OF_F16 if x.dtype.char == "e" else _LONG)
        and (parts == 1 or size * x.itemsize >= parts * _threads.MIN_PART_BYTES)
        and _run(x, axes) >= _RUN
    )


def observed(
    count: Callable[..., tuple[Any, ...]],
    x: _Array,
    axes: tuple[int, ...],
    parts: int,
    *options: Any,
) -> tuple[_Array, ...] | None:
    """
    Return the counts of `x` for each index of `axes`, like `_core.observed`.

    Return `None` if counting all channels together is faster, or if some numbers are not
    finite, because the common count reports their index.
    """
    if not _is_worth(x, axes, parts):
        return None
    channels = np.moveaxis(x, axes, range(len(axes)))
    places_of = np.ndindex(channels.shape[: len(axes)])
    try:
        found = [count(channels[at], None, True, *options)[2:] for at in places_of]
    except ValueError:
        return None
    *numbers, pages, tables = zip(*found, strict=True)
    rows = np.unique(np.concatenate(pages))
    table = np.zeros((len(rows), len(found), tables[0].shape[-1]), np.result_type(*tables))
    for c in range(len(found)):
        table[np.searchsorted(rows, pages[c]), c] = tables[c][:, 0]
    return (*map(np.concatenate, numbers), rows, table)
