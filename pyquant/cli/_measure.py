# SPDX-License-Identifier: Apache-2.0
"""Read tensors in bands, and measure their values and errors.

A band consists of consecutive rows. A row has the elements with one index of the first
axis.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core
from pyquant.cli._logical import Joined
from pyquant.dtypes import TYPES
from pyquant.packed import PackedArray
from pyquant.qparams import QParams, choose_qparams, qparams_from_range
from pyquant.report import measure_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyquant._typing import Array
    from pyquant.cli._logical import Logical

# Maximum number of elements in a band, unless a single row has more. A band fits the cache.
# The number is a multiple of 256, the number of elements in the largest GGUF block.
BAND = 1 << 16
# Types with values that float32 cannot represent.
WIDE = ("float64", "int32", "uint32", "int64", "uint64")
BINS = 128  # number of bins in a histogram
POINTS = 160  # maximum number of points in a curve of scales
BLOCK = 32  # block size of the alternative granularity with blocks
STATISTICS = ("min", "max", "mean", "rms", "max/rms", "zeros", "nan", "inf")
# Keys of the details of `measured` that only the plots of a report need.
PLOTS = ("histogram", "used", "grids", "scale_curve", "alternatives")


# ---- bands ----


def wide(types: set[str]) -> str:
    """Return float64 if one of the types is in WIDE, and otherwise float32."""
    return "float64" if types.intersection(WIDE) else "float32"


def decoded(
    tensor: Logical, dtype: str, *, count: int | None = None, threads: int = 1
) -> Iterator[tuple[slice | None, Array]]:
    """
    Yield the bands of a tensor: a slice of rows, and an array of values.

    All arrays share one buffer. A tensor without axes has one band with one value, and
    `None` instead of a slice. `count` is the number of rows in a band. By default, a band
    fits the cache.
    """
    if not tensor.shape:
        yield None, tensor.dequantize(dtype=dtype).reshape(1)
        return
    if 0 in tensor.shape:
        return
    total, *others = tensor.shape
    count = min(total, count or max(1, BAND // math.prod(others)))
    room = np.empty((count, *others), _core.dtype_named(dtype))
    for first in range(0, total, count):
        rows = slice(first, min(first + count, total))
        band = room[: rows.stop - first]
        tensor.dequantize(rows, out=band, threads=threads)
        yield rows, band


def pairs(
    a: Logical, b: Logical, dtype: str
) -> Iterator[tuple[slice | None, Array, Array]]:
    """Yield the bands of two tensors of equal shapes: a slice of rows, and two arrays."""
    for (rows, x), (_, y) in zip(decoded(a, dtype), decoded(b, dtype), strict=True):
        yield rows, x, y


def has_numbers(tensor: Logical) -> bool:
    """Return true if the elements are real numbers of a known type."""
    try:
        tensor.dequantize(slice(0, 0) if tensor.shape else None, dtype="float64")
    except (TypeError, ValueError):
        return False
    return True


# ---- codes and steps ----


class Codes:
    """
    The values of the codes of a type, with scale 1 and zero point 0.

    `levels` has the finite values in ascending order, or is `None` for types of more than 8
    bits. `gap` is the largest difference of two adjacent values. `reach` has the ends of
    the range of numbers whose distance from the nearest code is at most half of `gap`.
    """

    def __init__(self, name: str) -> None:
        kind = TYPES[name]
        self.levels: Array | None = _levels(name) if kind.bits <= 8 else None
        self.gap, ends = 1.0, (float(kind.lowest or 0), float(kind.highest or 0))
        if self.levels is not None:
            self.gap = float(self.levels[-1] - self.levels[-2])
            ends = float(self.levels[0]), float(self.levels[-1])
        self.reach: tuple[float, float] = ends[0] - self.gap / 2, ends[1] + self.gap / 2


def _levels(name: str) -> Array:
    """Return the finite values of all codes of a type in ascending order."""
    bits = TYPES[name].bits
    codes = np.arange(max(1 << bits, 16), dtype=np.uint8)  # 16 codes fill 32-bit words
    spread = np.unpackbits(codes[:, None], axis=1, count=bits, bitorder="little")
    words = np.packbits(spread, bitorder="little").view("<i4")
    values = _core.dequantize(PackedArray(words, name, codes.size, layout="words"), 1.0)
    return np.unique(values[np.isfinite(values)].astype(np.float64) + 0.0)


def has_codes(name: str) -> bool:
    """Return true for a type of codes whose values float64 represents exactly."""
    row = TYPES.get(name)
    return row is not None and row.kind in ("integer", "float") and row.bits <= 32


class Steps:
    """Measure the errors of a tensor in steps, the differences of adjacent codes."""

    def __init__(self, tensor: Joined) -> None:
        self.tensor, self.codes = tensor, Codes(tensor.type)
        self.scale, zero, _ = tensor.params()
        self.zero = np.zeros((1,) * tensor.ndim, np.int8) if zero is None else zero

    def spread(self, rows: slice | None) -> tuple[Array, Array | None]:
        """Return scales and zero points that can be broadcast to the shape of some rows."""
        shape, sizes = self.tensor.shape, self.tensor._form.blocks
        scale, zero, _ = self.tensor.params(rows)
        for axis in range(1, len(shape)):
            if scale.shape[axis] > 1:
                index = np.arange(shape[axis]) // sizes[axis]
                scale = scale.take(index, axis)
                zero = None if zero is None else zero.take(index, axis)
        return scale, zero

    def most(self, rows: slice | None, x: Array, y: Array) -> float:
        """Return the largest finite error of some rows, as a multiple of the step."""
        with np.errstate(all="ignore"):
            error = np.subtract(x, y, dtype=np.float64)
            error /= self.spread(rows)[0].astype(np.float64) * self.codes.gap
        np.abs(error, out=error)
        return float(np.max(error, where=np.isfinite(error), initial=0.0))

    def saturated(self, rows: slice | None, x: Array) -> int:
        """Count the elements of `x` that exceed the range of the codes by more than half a
        step."""
        scale, zero, how = self.tensor.params(rows)
        report = QParams(scale, zero, self.tensor.type, **how).measure_error(x)
        return int(report.saturated_low + report.saturated_high)

    def usual(self) -> Array:
        """Return the magnitudes of scales in descending order, without 0, NaN, infinity."""
        good: Array = self.scale[np.isfinite(self.scale) & (self.scale != 0)]
        np.abs(good, out=good)
        good.sort()
        return good[::-1]


# ---- measurements ----


# The report for an empty array. The reports of bands are added to this report.
NOTHING = measure_error(np.zeros(0), np.zeros(0))


class _Values:
    """Statistics of the values of a tensor. `add` adds the values of a band."""

    def __init__(self) -> None:
        self.low, self.high, self.zeros = math.inf, -math.inf, 0
        self._report = NOTHING

    def add(self, x: Array) -> None:
        """Add the values of a band. The errors of x against zeros are statistics of x."""
        more = measure_error(x, np.broadcast_to(x.dtype.type(0), x.shape))
        self._report += more
        self.zeros += x.size - int(np.count_nonzero(x))
        finite = x[np.isfinite(x)] if more.nan or more.inf else x
        if finite.size:
            self.low = min(self.low, float(finite.min()))
            self.high = max(self.high, float(finite.max()))

    def numbers(self) -> dict[str, Any]:
        """Return the statistics by name. Without finite values, most are `None`."""
        report = self._report
        nan, inf = report.nan, report.inf
        if self.low > self.high:
            return dict.fromkeys(STATISTICS) | {"zeros": 0, "nan": nan, "inf": inf}
        rms = math.sqrt(report.mse)
        largest = report.max_error / rms if rms else 0.0
        found = self.low, self.high, report.mean_error, rms, largest, self.zeros, nan, inf
        return dict(zip(STATISTICS, found, strict=True))


def statistics(tensor: Logical) -> dict[str, Any] | None:
    """
    Return statistics of the values of a tensor, or `None` if it has no real numbers.

    ``min``, ``max``, ``mean`` and ``rms`` (the root mean square) are computed from the
    finite values. Without finite values, they are `None`. ``max/rms`` is the largest
    magnitude divided by ``rms``. ``zeros``, ``nan`` and ``inf`` are counts.
    """
    if not has_numbers(tensor):
        return None
    values = _Values()
    for _, x in decoded(tensor, wide({tensor.type})):
        values.add(x)
    return values.numbers()


def measured(
    a: Logical, b: Logical, *, plots: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    Measure the error of a tensor band by band, and return two dicts: numbers and details.

    `a` is the original and `b` the result, with equal shapes. The numbers are:

    - ``sqnr``: the SQNR in dB. It is infinite without an error, and `None` if
      ``not_finite`` is not 0;
    - ``max_error``: the largest error, and ``cosine``: the cosine similarity;
    - ``max_steps``: the largest error in steps of `b`, or of `a` if only `a` has scales. A
      step is the largest difference of two adjacent codes;
    - ``saturated``: the share of elements that are out of the range of the codes of `b` by
      more than half a step, or `None` without codes;
    - ``not_finite``: the number of elements with NaN or an infinity in only one file;
    - ``elements``: the number of elements.

    If `plots` is false, the details are empty. Otherwise, the details are:

    - ``exact``: true if all values are equal;
    - ``max/rms`` of `a`;
    - ``excluded``: the number of elements with NaN or infinity in one or both files;
    - if the tensor has errors: the keys in `PLOTS`, and the numbers of scales, of zero
      scales and of unused codes. A second pass over the tensor measures these details.

    Extremes and counts are exact. Sums are added in float64, and their last bits depend on
    the shape of the tensor, because bands are summed separately.
    """
    dtype = wide({a.type, b.type})
    report, values, most, saturated, odd = NOTHING, _Values(), 0.0, 0, 0
    stepped = next((one for one in (b, a) if isinstance(one, Joined)), None)
    steps = None if stepped is None else Steps(stepped)
    coded = stepped is b and has_codes(b.type)
    for rows, x, y in pairs(a, b, dtype):
        more = measure_error(x, y)
        report += more
        # Count the elements that differ and are not finite in one or both files.
        if more.nan or more.inf:
            same = (x == y) | (np.isnan(x) & np.isnan(y))
            odd += int(np.count_nonzero(~same & ~(np.isfinite(x) & np.isfinite(y))))
        if steps is not None:
            most = max(most, steps.most(rows, x, y))
            saturated += steps.saturated(rows, x) if coded else 0
        if plots:
            values.add(x)
    elements, lossy = report.count, report.max_error > 0
    numbers = {
        "sqnr": None if odd else report.sqnr if lossy else math.inf,
        "max_error": report.max_error if elements else 0.0,
        "max_steps": most if steps is not None else None,
        "cosine": report.cosine,
        "saturated": saturated / max(elements, 1) if coded else None,
        "not_finite": odd,
        "elements": elements,
    }
    if not plots:
        return numbers, {}
    details = {
        "exact": not (odd or lossy),
        "max/rms": values.numbers()["max/rms"] or None,
        "excluded": report.nan + report.inf,
    }
    if not details["exact"]:
        plotted = _Plots(a, b, values, steps if coded else None)
        for rows, x, y in pairs(a, b, dtype):
            plotted.add(rows, x, y)
        details |= plotted.numbers()
    return numbers, details


class _Plots:
    """Collect the details of a tensor for the plots of a report, band by band."""

    def __init__(
        self, a: Logical, b: Logical, values: _Values, steps: Steps | None
    ) -> None:
        self.values, self.steps = values, steps
        self.finite = values.low <= values.high
        self.counts = np.zeros(BINS, np.int64)
        self.codes = None if steps is None else steps.codes
        # True for each used code. The index is the float16 bits of the value of the code.
        self.seen = np.zeros(1 << 16, np.bool_)
        usual = "int4" if 8 * b.nbytes < 6 * math.prod(a.shape) else "int8"
        self.dtype = b.type if has_codes(b.type) and TYPES[b.type].bits <= 16 else usual
        ends = (values.low, values.high) if self.finite else (0.0, 0.0)
        self.whole = qparams_from_range(*ends, dtype=self.dtype)
        self.others: dict[str, Any] = {}  # granularity -> report for all bands

    def add(self, rows: slice | None, x: Array, y: Array) -> None:
        """Add a band: the original values `x`, and the values `y` of the result."""
        good = np.isfinite(x)
        if self.codes is not None and self.codes.levels is not None:
            self.seen[_halves(self._codes_of(rows, y)[good])] = True
        self._count(x.ravel() if good.all() else x[good])
        self._try(x if good.all() else np.where(good, x, x.dtype.type(0)))

    def _codes_of(self, rows: slice | None, y: Array) -> Array:
        assert self.steps is not None
        steps = self.steps
        scale, zero = steps.spread(rows)
        with np.errstate(all="ignore"):
            found: Array = y / np.abs(scale).astype(y.dtype)
            found += np.asarray(0 if zero is None else zero).astype(y.dtype)
        # The values of integer codes were rounded, so that the quotients are not integers.
        return found if TYPES[steps.tensor.type].kind == "float" else np.rint(found)

    def _count(self, x: Array) -> None:
        width = (self.values.high - self.values.low) / BINS
        if math.isfinite(width) and x.dtype.type(width) > 0:
            bins = _core.quantize(
                *(x, x.dtype.type(width)),
                offset=self.values.low,
                dtype="uint8",
                rounding="floor",
                quant_range=(0, BINS - 1),
            )
            self.counts += np.bincount(bins, minlength=BINS)
        else:  # all values are equal, or the width of a bin is out of range
            self.counts[BINS // 2] += x.size

    def _try(self, x: Array) -> None:
        """Quantize a band with up to three granularities, and add the errors to reports."""
        flat = x.ndim < 2
        x = x.reshape((1, -1)) if flat else x
        tried = {"tensor": self.whole}
        if not flat:
            tried["axis:0"] = choose_qparams(x, dtype=self.dtype, axis=0)
        blocks = choose_qparams(x, dtype=self.dtype, axis=-1, block_size=BLOCK)
        tried[f"block:{BLOCK}"] = blocks
        for name, params in tried.items():
            self.others[name] = self.others.get(name, 0) + params.measure_error(x)

    def numbers(self) -> dict[str, Any]:
        """Return the details for the plots."""
        ends = {"low": self.values.low, "high": self.values.high}
        histogram = {**ends, "counts": self.counts.tolist()} if self.finite else None
        found: dict[str, Any] = {"histogram": histogram}
        found["alternatives"] = [
            {"granularity": name, "type": self.dtype, "sqnr": errors.sqnr}
            for name, errors in self.others.items()
        ]
        if self.steps is None or self.codes is None:
            return found
        usual = self.steps.usual()
        found["scales"] = self.steps.scale.size
        found["zero_scales"] = self.steps.scale.size - usual.size
        if self.codes.levels is not None:
            used = self.seen[_halves(self.codes.levels)]
            found["unused_codes"] = int(np.count_nonzero(~used))
            found["used"] = "".join("01"[one] for one in used.tolist())
        found["grids"] = [*self._grids(usual)]
        if usual.size > 1:
            places = np.linspace(0, usual.size - 1, min(POINTS, usual.size)).astype(np.intp)
            found["scale_curve"] = np.log2(usual[places].astype(np.float64)).tolist()
        return found

    def _grids(self, usual: Array) -> Iterator[dict[str, Any]]:
        """Yield the range of the codes with the largest and with the median scale.

        `usual` has the magnitudes of the scales in descending order.
        """
        assert self.steps is not None
        which = {"largest scale": 0, "median scale": usual.size // 2}
        if usual.size < 2:
            which = {"scale": 0} if usual.size else {}
        for label, place in which.items():
            scale = float(usual[place])
            zeros, scales = self.steps.zero, np.abs(self.steps.scale)
            zero = float(zeros.flat[0 if zeros.size == 1 else np.argmax(scales == scale)])
            low, high = ((end - zero) * scale for end in self.steps.codes.reach)
            grid = {"label": label, "scale": scale, "zero_point": zero}
            yield {**grid, "low": low, "high": high}


def _halves(values: Array) -> Array:
    """Convert values to float16, and return the bits.

    The bits of any two different values of a type of at most 8 bits differ.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return (values + 0).astype(np.float16).view(np.uint16)
