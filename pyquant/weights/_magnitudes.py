# SPDX-License-Identifier: Apache-2.0
"""Find the largest magnitudes of blocks along the last axis, one slab at a time."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from pyquant import _core, _threads
from pyquant._check import fail, integer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyquant._typing import Array, ArrayLike, Floats

    _Places = tuple[slice, ...]
    _Take = Callable[[_Places, Floats], None]

# SLAB is the number of elements in a slab, the part of an array that one call of the core
# processes. SLAB is large, because each call costs time, and small enough for the memory of
# the results. A slab with NaN or infinities is copied in parts of COPIED elements.
SLAB, COPIED = 1 << 20, 1 << 16


def real_array(x: ArrayLike, *, even: bool) -> Array:
    """Return an array of real numbers that has an axis.

    Raise an error without an axis, or if `even` is true and the last extent is odd.
    """
    array: Array = _core.as_reals(x, "x")
    if array.ndim == 0:
        raise fail(ValueError, "x", "at least one dimension", "shape ()")
    if even and array.shape[-1] % 2:
        raise fail(ValueError, "x", "an even last extent", f"shape {array.shape}")
    return array


def grid_of(shape: tuple[int, ...], block_size: int) -> tuple[int, ...]:
    """Return the number of blocks along each axis. Blocks are along the last axis."""
    return (*shape[:-1], -(-shape[-1] // block_size))


def each_slab(take: _Take, x: Array, block_size: int, threads: SupportsIndex) -> None:
    """
    Pass the positions of blocks, and the largest magnitudes in the blocks, to `take`.

    Magnitudes are rounded to float32. For a block with NaN or infinity, the magnitude is
    NaN or infinity. Several threads may call `take` at a time, and no position occurs in
    two calls.
    """
    count = integer(threads, "threads", 1)
    if x.size == 0:
        return
    block = (*(1 for _ in x.shape[1:]), min(block_size, x.shape[-1]))
    parts = _threads.useful_parts(x.nbytes, count)

    def work(part: int) -> int:
        for number, (elements, places) in enumerate(slabs(x.shape, block, SLAB)):
            if number % parts == part:
                _take_slab(take, x[elements], places, block)
        return 0

    _threads.run(work, parts)


def _take_slab(take: _Take, x: Array, places: _Places, block: tuple[int, ...]) -> None:
    found = _core.extrema(x, block, True)
    if found is not None:
        take(places, found)
        return
    for some, within in slabs(x.shape, block, COPIED):
        inner = tuple(
            slice(whole.start + part.start, whole.start + part.stop)
            for whole, part in zip(places, within, strict=True)
        )
        # NumPy finds the magnitudes, because the core rejects NaN and infinities.
        numbers = np.abs(_core.cast(x[some], "float32"))
        starts = range(0, numbers.shape[-1], block[-1])
        take(inner, np.maximum.reduceat(numbers, starts, axis=-1))


def slabs(
    shape: tuple[int, ...], block: tuple[int, ...], most: int
) -> Iterator[tuple[_Places, _Places]]:
    """
    Divide an array into parts, and yield two tuples of slices for each part.

    The first tuple selects the elements of a part, and the second tuple selects its blocks.
    A part consists of complete blocks. `block` has the extents of a block. Parts are in C
    order. A part has at most `most` elements, unless it is a single block.
    """
    if 0 < prod(shape) <= most:  # most arrays are a single part
        counts = [-(-n // u) for n, u in zip(shape, block, strict=True)]
        yield tuple([slice(0, n) for n in shape]), tuple([slice(0, n) for n in counts])
        return
    size, step = 1, list(shape)
    for d in reversed(range(len(shape))):  # choose the extent of a part along each axis
        step[d] = min(shape[d], max(1, most // max(1, size) // block[d]) * block[d])
        size *= step[d]
    ranges = (range(0, n, s) if n else range(0) for n, s in zip(shape, step, strict=True))
    for at in product(*ranges):
        ends = [min(a + s, n) for a, s, n in zip(at, step, shape, strict=True)]
        yield (
            tuple(slice(a, e) for a, e in zip(at, ends, strict=True)),
            tuple(
                slice(a // u, -(-e // u)) for a, e, u in zip(at, ends, block, strict=True)
            ),
        )
