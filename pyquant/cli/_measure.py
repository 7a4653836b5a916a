# SPDX-License-Identifier: Apache-2.0
"""Read tensors in bands of rows, and measure their values and errors."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pyquant import _core
from pyquant.cli._forms import Granularity
from pyquant.dtypes import TYPES
from pyquant.packed import PackedArray
from pyquant.qparams import QParams
from pyquant.report import measure_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyquant.cli._logical import Logical

__all__ = [
    "STATISTICS",
    "Codes",
    "Steps",
    "bands",
    "decoded",
    "has_codes",
    "has_numbers",
    "measured",
    "statistics",
    "wide",
]

Array = npt.NDArray[Any]

# Elements of a band, unless a row has more: few enough for the cache, and a multiple of the
# 256 elements of the largest GGUF block.
BAND = 1 << 16
# Types with values that float32 cannot represent.
WIDE = ("float64", "int32", "uint32", "int64", "uint64")


def bands(shape: tuple[int, ...]) -> Iterator[slice | None]:
    """
    Divide a tensor into bands of rows.

    Parameters
    ----------
    shape : tuple of int
        The shape of the tensor.

    Yields
    ------
    slice or `None`
        Rows along the first axis; `None`, once, for a tensor without axes.
    """
    if not shape:
        yield None
        return
    if 0 in shape:
        return
    rows = max(1, BAND // math.prod(shape[1:]))
    for first in range(0, shape[0], rows):
        yield slice(first, min(first + rows, shape[0]))


def wide(types: set[str]) -> str:
    """Return the real type that represents all values of some types."""
    return "float64" if types.intersection(WIDE) else "float32"


def decoded(tensor: Logical, dtype: str) -> Iterator[Array]:
    """Yield the values of a tensor in bands, which share one buffer."""
    element = _core.dtype_named(dtype)
    room = np.empty(0, element)
    for rows in bands(tensor.shape):
        if rows is None:
            yield tensor.decode(dtype=dtype).reshape(1)
            continue
        shape = (rows.stop - rows.start, *tensor.shape[1:])
        if room.size < math.prod(shape):
            room = np.empty(math.prod(shape), element)
        yield tensor.decode(rows, out=room[: math.prod(shape)].reshape(shape))


def has_numbers(tensor: Logical) -> bool:
    """Return true if the elements are real numbers of a known type."""
    try:
        tensor.decode(slice(0, 0) if tensor.shape else None, dtype="float64")
    except (TypeError, ValueError):
        return False
    return True


# ---- codes and steps ----


class Codes:
    """Describe the values of the codes of a type, at scale 1 and zero point 0."""

    def __init__(self, name: str) -> None:
        kind = TYPES[name]
        self.integers = kind.kind == "integer"
        self.levels: Array | None = None  # ascending; `None` for wide types
        self.gap = 1.0  # between the two largest values
        if not self.integers:
            self.levels = _floats(name)
            self.lowest, self.highest = self.levels[0], self.levels[-1]
            self.gap = float(self.highest - self.levels[-2])
            self.reach = self.lowest - self.gap / 2, self.highest + self.gap / 2
            return
        lowest, self.highest = float(kind.lowest or 0), float(kind.highest or 0)
        self.lowest = max(lowest, -self.highest) if lowest else 0.0
        self.reach = lowest - 0.5, self.highest + 0.5
        if kind.bits <= 8:
            self.levels = np.arange(lowest, self.highest + 1)


def _floats(name: str) -> Array:
    """Return the finite values of a narrow float, ascending."""
    bits = TYPES[name].bits
    codes = np.arange(1 << bits, dtype=np.uint8)
    spread = np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little")
    words = np.packbits(spread, bitorder="little").view("<i4")
    values = _core.dequantize(PackedArray(words, name, 1 << bits, layout="words"), 1.0)
    return np.unique(values[np.isfinite(values)].astype(np.float64) + 0.0)


def has_codes(name: str) -> bool:
    """Return true if a type has codes that float64 represents."""
    row = TYPES.get(name)
    return row is not None and row.kind in ("integer", "float") and row.bits <= 32


class Steps:
    """Hold the scales and zero points of a tensor, and select them for rows."""

    def __init__(self, result: Any, shape: tuple[int, ...]) -> None:
        self.shape, self.type = shape, str(result.type)
        narrow = self.type in TYPES and TYPES[self.type].kind == "float"
        self.gap = Codes(self.type).gap if narrow else 1.0
        self.sizes = Granularity(result.granularity or "tensor").blocks(shape)
        self.grid = tuple(-(-n // b) for n, b in zip(shape, self.sizes, strict=True))
        scale = np.asarray(result.scale)
        exact = np.float64 if scale.dtype == np.float64 else np.float32
        self.scale = self._shaped(scale.astype(exact, copy=False))
        zero = getattr(result, "zero_point", None)
        self.has_zero = bool(zero is not None and np.size(zero))
        self.zero = self._shaped(np.asarray(zero if self.has_zero else 0))

    def _shaped(self, given: Array) -> Array:
        one = (1,) * len(self.shape)
        return given.reshape(one if given.size == 1 else self.grid)

    def of(self, rows: slice | None) -> tuple[Array, Array]:
        """Return scales and zero points in shapes that broadcast to the rows."""
        first, *others = (range(n) for n in self.shape) if self.shape else [range(0)]
        ranges = [first[rows] if rows else first, *others] if self.shape else []
        return np.abs(self._taken(self.scale, ranges)), self._taken(self.zero, ranges)

    def _taken(self, given: Array, ranges: list[range]) -> Array:
        for k, (indices, size) in enumerate(zip(ranges, self.sizes, strict=True)):
            if given.shape[k] > 1:
                given = given.take(np.asarray(indices) // size, axis=k)
        return given

    def params(self, rows: slice | None) -> tuple[Array, Array | None, dict[str, Any]]:
        """Return scales, zero points and further arguments of `QParams` for some rows."""
        scale, zero, sizes = self.scale, self.zero, self.sizes
        if rows is not None and self.grid[0] > 1:
            # Rows may begin within a block, so that each row gets its own parameters.
            index = np.arange(rows.start, rows.stop) // sizes[0]
            scale, zero = (x[index] if len(x) > 1 else x for x in (scale, zero))
            sizes = (1, *sizes[1:])
        how = {"block_size": sizes} if scale.size > 1 else {}
        return scale, zero if self.has_zero else None, how

    def most(self, rows: slice | None, x: Array, y: Array) -> float:
        """Return the largest error in steps. Values that are not finite are skipped."""
        with np.errstate(all="ignore"):
            error = np.subtract(x, y, dtype=np.float64)
            error /= self.of(rows)[0].astype(np.float64) * self.gap
        np.abs(error, out=error)
        return float(np.max(error, where=np.isfinite(error), initial=0.0))

    def saturated(self, rows: slice | None, x: Array) -> int:
        """Count the elements out of the range of the codes by more than half a step."""
        scale, zero, how = self.params(rows)
        report = QParams(scale, zero, self.type, **how).measure_error(x)
        return int(report.saturated_low + report.saturated_high)

    def usual(self) -> Array:
        """Return the magnitudes of scales that are finite and not 0, descending."""
        good: Array = self.scale[np.isfinite(self.scale) & (self.scale != 0)]
        np.abs(good, out=good)
        good.sort()
        return good[::-1]

    def zero_at(self, scale: float) -> float:
        """Return the zero point of a scale."""
        if self.zero.size == 1:
            return float(self.zero.flat[0])
        return float(self.zero.flat[int(np.argmax(np.abs(self.scale) == scale))])


# ---- measurements ----


STATISTICS = ("min", "max", "mean", "rms", "max/rms", "zeros", "nan", "inf")


def statistics(tensor: Logical) -> dict[str, Any] | None:
    """
    Read all values of a tensor, a few rows at a time.

    Parameters
    ----------
    tensor : Logical
        The tensor.

    Returns
    -------
    dict or `None`
        ``min``, ``max``, ``mean`` and ``rms`` of the finite values, `None` without them;
        ``max/rms``, the largest magnitude divided by the root mean square; the numbers of
        ``zeros``, ``nan`` and ``inf``. `None` if the elements are not real numbers.
    """
    if not has_numbers(tensor):
        return None
    low, high, zeros, report = math.inf, -math.inf, 0, None
    for band in decoded(tensor, wide({tensor.type})):
        # Errors against 0 are the values: one exact pass returns all sums.
        more = measure_error(band, np.broadcast_to(band.dtype.type(0), band.shape))
        report = more if report is None else report + more
        zeros += band.size - int(np.count_nonzero(band))
        finite = band[np.isfinite(band)] if more.nan or more.inf else band
        if finite.size:
            low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    if report is None or low > high:
        nan, inf = (report.nan, report.inf) if report else (0, 0)
        return dict.fromkeys(STATISTICS) | {"zeros": 0, "nan": nan, "inf": inf}
    rms = math.sqrt(report.mse)
    largest = report.max_error / rms if rms else 0.0
    values = (low, high, report.mean_error, rms, largest, zeros, report.nan, report.inf)
    return dict(zip(STATISTICS, values, strict=True))


def measured(a: Logical, b: Logical) -> dict[str, Any]:
    """
    Measure the error of a tensor, a few rows at a time.

    Parameters
    ----------
    a, b : Logical
        The original and the result, with equal shapes.

    Returns
    -------
    dict
        ``sqnr`` in dB, infinite without an error, `None` if ``not_finite`` is not 0;
        ``max_error``; ``max_steps``, the largest
        error in steps of `b`, or of `a` if only `a` has scales; ``cosine``; ``saturated``,
        the share of elements out of the range of `b` by more than half a step, `None`
        without codes; ``not_finite``, the elements with a NaN or infinity in one
        file only; ``elements``. A step is the largest distance between two codes.

    Notes
    -----
    Sums of the bands are added in float64. Their last bits depend on the shape alone.
    Extremes and counts are exact.
    """
    dtype = wide({a.type, b.type})
    report, most, saturated, odd = None, 0.0, 0, 0
    stepped = b if b.scale is not None else a
    steps = None if stepped.scale is None else Steps(stepped, a.shape)
    coded = b.scale is not None and has_codes(b.type)
    pairs = zip(bands(a.shape), decoded(a, dtype), decoded(b, dtype), strict=True)
    for rows, x, y in pairs:
        more = measure_error(x, y)
        report = more if report is None else report + more
        if more.nan or more.inf:
            odd += _odd(x, y)
        if steps is not None:
            most = max(most, steps.most(rows, x, y))
            saturated += steps.saturated(rows, x) if coded else 0
    elements = math.prod(a.shape)
    error = report.max_error if report is not None else 0.0
    return {
        "sqnr": None if odd else report.sqnr if report and error > 0 else math.inf,
        "max_error": error,
        "max_steps": most if steps is not None else None,
        "cosine": report.cosine if report is not None else math.nan,
        "saturated": saturated / max(elements, 1) if coded else None,
        "not_finite": odd,
        "elements": elements,
    }


def _odd(x: Array, y: Array) -> int:
    """Count elements with a NaN or infinity in one array and another value in the other."""
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return int(np.count_nonzero(~same & ~(np.isfinite(x) & np.isfinite(y))))
