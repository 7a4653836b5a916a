# SPDX-License-Identifier: Apache-2.0
"""Find the largest magnitudes of blocks along an axis, one slab of blocks at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core, _threads
from pyquant._shown import axis_error
from pyquant._standard import listed
from pyquant.dtypes import TYPES, described, name_of
from pyquant.packed import PackedArray

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

    _Places = tuple[slice, ...]

__all__ = [
    "block_scales",
    "blocks_along",
    "each_slab",
    "one_of",
    "real_array",
    "slabs",
]

# Elements of a slab: enough to repay its calls, and few enough for its parameters. A slab
# with values that are not finite is copied, so it is smaller.
SLAB, COPIED = 1 << 20, 1 << 16


def one_of(value: object, name: str, choices: tuple[str, ...]) -> str:
    """Return one of these strings."""
    *most, last = choices
    expected = f"{name}: expected {', '.join(most)} or {last}"
    if not isinstance(value, str):
        raise TypeError(f"{expected}, got {type(value).__name__}")
    if value not in choices:
        from pyquant._refused import hint

        raise ValueError(f"{expected}, got {value[:60]!r}{hint(value, choices)}")
    return value


def real_array(x: ArrayLike) -> npt.NDArray[Any]:
    """Return an array of a real type that `quantize` accepts."""
    array: npt.NDArray[Any] = _core.as_reals(x, "x")
    return array


def blocks_along(
    shape: tuple[int, ...], axis: SupportsIndex, block_size: int
) -> tuple[int, tuple[int, ...]]:
    """Return the nonnegative axis and the shape of the blocks along it."""
    at, ndim = _core.integer(axis, "axis"), len(shape)
    if not -ndim <= at < ndim:
        raise axis_error(at, ndim)
    at %= ndim
    return at, (*shape[:at], -(-shape[at] // block_size), *shape[at + 1 :])


def block_scales(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    elements: tuple[str, ...],
    dtype: str,
    axis: SupportsIndex,
    block_size: int,
) -> tuple[Any, npt.NDArray[Any]]:
    """Return elements as an array, and one scale for each block.

    Bytes become elements if the shape of the scales leaves one type and one packing.
    """
    codes: Any = q if isinstance(q, PackedArray) else _core.plain(q, "q")
    stored, kind = _core.plain(scale, "scale"), _core.dtype_named(dtype)
    if stored.dtype == np.uint8:
        stored = stored.view(kind)
    elif stored.dtype != kind:
        msg = f"scale: expected {dtype}, or its bytes, got {stored.dtype}"
        raise TypeError(msg)
    if isinstance(codes, np.ndarray) and codes.dtype == np.uint8 and codes.ndim:
        fitting = [
            (name, bits, shape)
            for name, bits, shape in _readings(codes.shape, elements)
            if blocks_along(shape, axis, block_size)[1] == stored.shape
        ]
        if len(fitting) == 1:
            ((name, bits, shape),) = fitting
            if bits == 8:
                most, found = (1 << TYPES[name].bits) - 1, codes.max(initial=0)
                if found > most:
                    msg = f"q: expected bytes from 0 to {most} for {name}, got {found}"
                    raise ValueError(msg)
                return codes.view(_core.dtype_named(name)), stored
            return PackedArray(codes.reshape(-1), name, shape), stored
    if name_of(codes.dtype) not in elements:
        msg = (
            f"q: expected {listed(elements)}, got {described(codes)}; give the type of "
            "bytes with q.view(dtype) or PackedArray(q, dtype, shape)"
        )
        raise TypeError(msg)
    wanted = blocks_along(codes.shape, axis, block_size)[1]
    if stored.shape != wanted:  # a single scale would apply to all blocks
        msg = f"scale: expected shape {wanted}, got {stored.shape}"
        raise ValueError(msg)
    return codes, stored


def _readings(
    shape: tuple[int, ...], elements: tuple[str, ...]
) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yield the types of elements, bits and shapes that bytes may have."""
    *lead, last = shape
    for name in elements:
        for bits in {8, TYPES[name].bits if last else 8}:
            if last * 8 % bits == 0:
                yield name, bits, (*lead, last * 8 // bits)


def each_slab(
    take: Callable[[_Places, npt.NDArray[np.float32]], None],
    x: npt.NDArray[Any],
    axis: int,
    block_size: int,
    threads: int,
) -> None:
    """
    Pass the largest magnitudes of all blocks, with their positions, to `take`.

    Magnitudes are rounded to float32. A block with an infinity or NaN has this value.
    Several threads may call `take` at a time, with disjoint positions.
    """
    if x.size == 0:
        return
    work = _Work(take, x, axis, block_size)
    parts = _threads.useful_parts(x.nbytes, threads)
    if parts == 1:
        work.do(0, 1)
        return
    _threads.run(lambda part: work.caught(part, parts), parts)
    if work.error is not None:
        raise work.error


class _Work:
    """Slabs, divided among parts."""

    def __init__(
        self,
        take: Callable[[_Places, npt.NDArray[np.float32]], None],
        x: npt.NDArray[Any],
        axis: int,
        block_size: int,
    ) -> None:
        self.take, self.x, self.axis = take, x, axis
        self.block_size = min(block_size, x.shape[axis])
        self.error: BaseException | None = None

    def caught(self, part: int, parts: int) -> int:
        """A part on a thread; it stores its error for the caller."""
        try:
            self.do(part, parts)
        except BaseException as error:
            self.error = error
        return 0

    def do(self, part: int, parts: int) -> None:
        parted = slabs(self.x.shape, self.axis, self.block_size, SLAB)
        for number, (elements, places) in enumerate(parted):
            if number % parts == part:
                self.do_slab(self.x[elements], places)

    def do_slab(self, x: npt.NDArray[Any], places: _Places) -> None:
        blocks = tuple([self.block_size if d == self.axis else 1 for d in range(x.ndim)])
        found = _core.extrema(x, blocks, True)
        if found is not None:
            self.take(places, found)
            return
        for some, within in slabs(x.shape, self.axis, self.block_size, COPIED):
            inner = tuple(
                slice(whole.start + part.start, whole.start + part.stop)
                for whole, part in zip(places, within, strict=True)
            )
            self.take(inner, self.copied(x[some]))

    def copied(self, x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The path for values that are not finite, which the core only reports."""
        numbers = np.abs(_core.cast(x, "float32"))
        starts = range(0, x.shape[self.axis], self.block_size)
        return np.maximum.reduceat(numbers, list(starts), axis=self.axis)


def slabs(
    shape: tuple[int, ...], axis: int, block_size: int, most: int
) -> Iterator[tuple[_Places, _Places]]:
    """
    Yield parts of complete blocks: the slices of their elements and of their blocks.

    Parts are in C order and have at most this number of elements, or one block.
    """
    units = [block_size if d == axis else 1 for d in range(len(shape))]
    if 0 in shape:
        return
    size, step = 1, list(shape)
    for d in reversed(range(len(shape))):  # extent of a part along each dimension
        step[d] = min(shape[d], max(1, most // size // units[d]) * units[d])
        size *= step[d]
    at = [0] * len(shape)
    while True:
        ends = [min(a + s, n) for a, s, n in zip(at, step, shape, strict=True)]
        yield (
            tuple(slice(a, e) for a, e in zip(at, ends, strict=True)),
            tuple(
                slice(a // u, -(-e // u)) for a, e, u in zip(at, ends, units, strict=True)
            ),
        )
        for d in reversed(range(len(shape))):
            at[d] += step[d]
            if at[d] < shape[d]:
                break
            at[d] = 0
        else:
            return
