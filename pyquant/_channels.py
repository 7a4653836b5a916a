# SPDX-License-Identifier: Apache-2.0
"""Few long channels, each of them counted as an array of its own."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from pyquant import _threads

if TYPE_CHECKING:
    from collections.abc import Callable

    _Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

__all__ = ["observed"]


# Elements beside each other that csrc/ops/histogram.c counts where they lie.
_RUN = 256
# So many are worth counters all of which have to be searched, of which float16, with more
# bits of mantissa, has eight times as many in use.
_LONG, _LONG_OF_F16 = 1 << 15, 1 << 17


def _run(x: _Array, axes: tuple[int, ...]) -> int:
    """How many elements of a channel follow each other in memory."""
    rest = [(x.strides[d], x.shape[d]) for d in range(x.ndim) if d not in axes]
    run = 1
    for stride, n in sorted(rest):
        if n > 1 and stride != run * x.itemsize:
            break
        run *= n
    return run


def _is_worth(x: _Array, axes: tuple[int, ...], parts: int) -> bool:
    """Whether it is; as many threads have to do."""
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
    What is in `x` per index of `axes`, as `count` has it, which is _core.observed.

    None where all channels are counted together: where that is faster, and where some
    numbers are not finite, as that tells where.
    """
    if not _is_worth(x, axes, parts):
        return None
    channels = np.moveaxis(x, axes, range(len(axes)))
    places_of = np.ndindex(channels.shape[: len(axes)])
    try:
        found = [count(channels[at], None, True, *options)[2:] for at in places_of]
    except ValueError:
        return None
    *numbers, pages, tables, places, wraps = zip(*found, strict=True)
    rows = np.unique(np.concatenate(pages))
    size = tables[0].shape[-1]
    table = np.zeros((len(rows), len(found), size), np.uint16)
    for c in range(len(found)):
        table[np.searchsorted(rows, pages[c]), c] = tables[c][:, 0]
    # Of one channel a place is a page and a counter; of more the channel is between them.
    place = np.concatenate(
        [
            (at // size * len(found) + c) * size + at % size
            for c, at in enumerate(map(np.int64, places))
        ]
    ).astype(np.uint64)
    order = place.argsort()
    return (
        *map(np.concatenate, numbers),
        rows,
        table,
        place[order],
        np.concatenate(wraps)[order],
    )
