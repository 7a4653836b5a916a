# SPDX-License-Identifier: Apache-2.0
"""Measure the numbers of a report: errors, histogram, codes and scales of a tensor."""

from __future__ import annotations

from math import isfinite, prod
from typing import Any, Protocol

import numpy as np

from pyquant import _core
from pyquant.cli._measure import Array, Codes, Steps, bands, has_codes
from pyquant.dtypes import TYPES
from pyquant.qparams import choose_qparams, qparams_from_range
from pyquant.report import ErrorReport, measure_error

__all__ = ["PLOTS", "Tensor", "measure"]

BINS = 128  # bins of a histogram
POINTS = 160  # points of a curve of scales
BLOCK = 32  # elements of a block in the alternatives
# Keys that only the plots need.
PLOTS = ("histogram", "used", "grids", "scale_curve", "alternatives")


class Tensor(Protocol):
    """A tensor to measure. A quantized tensor also has `type`, `granularity`, `scale` and
    `zero_point`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape."""
        ...

    @property
    def nbytes(self) -> int:
        """Number of bytes of all parts."""
        ...

    def decode(self, rows: slice | None = None, *, dtype: Any = None) -> Array:
        """Return the real numbers of some rows."""
        ...


def _real(tensor: Tensor, rows: slice | None) -> Array:
    """Return rows as float32, or as float64 if float32 cannot represent the type."""
    found: Any = np.asarray(tensor.decode(rows))
    if found.dtype.kind == "c":
        found = np.stack((found.real, found.imag))
    wide = found.dtype.kind in "iu" and found.dtype.itemsize > 2
    to = np.float64 if wide or found.dtype == np.float64 else np.float32
    return np.asarray(found, to)


def _finite(x: Array) -> Array:
    """Return the finite elements in one dimension."""
    return _of(x, np.isfinite(x))


def _of(x: Array, which: Array) -> Array:
    """Return the selected elements in one dimension."""
    return x.ravel() if which.all() else x[which]


class Extent:
    """Measure range, squares and errors in a first pass over all elements."""

    def __init__(self, original: Tensor, result: Tensor) -> None:
        self.low, self.high, self.squares = np.inf, -np.inf, 0.0
        self.errors: ErrorReport | int = 0
        self.exact, self.finite = True, 0
        for rows in bands(original.shape):
            x, y = _real(original, rows), _real(result, rows)
            self._add(x, y)

    def _add(self, x: Array, y: Array) -> None:
        both = np.result_type(x, y)
        self.errors += measure_error(x.astype(both, copy=False), y.astype(both, copy=False))
        self.exact = self.exact and np.array_equal(x, y, equal_nan=True)
        x = _finite(x).astype(np.float64)
        self.finite += x.size
        if x.size:
            self.low = min(self.low, float(x.min()))
            self.high = max(self.high, float(x.max()))
            with np.errstate(over="ignore"):
                self.squares += float(np.square(x, out=x).sum())  # dot would start threads

    def numbers(self) -> dict[str, Any]:
        """Return the numbers of a row of the table."""
        errors = self.errors
        if not isinstance(errors, ErrorReport):  # the tensor has no elements
            return {"sqnr": None, "exact": True, "max_error": 0.0, "cosine": None}
        rms = np.sqrt(self.squares / max(1, self.finite))
        peak = max(abs(self.low), abs(self.high)) if self.finite else 0.0
        return {
            "sqnr": known(errors.sqnr),
            "exact": self.exact,
            "max_error": known(errors.max_error),
            "cosine": known(errors.cosine),
            "not_finite": errors.nan + errors.inf,
            "peak_to_rms": known(peak / rms) if rms else None,
        }


class Detail:
    """Measure histogram, steps and codes in a second pass over all elements."""

    def __init__(self, original: Tensor, result: Any, extent: Extent) -> None:
        self.extent = extent
        self.counts = np.zeros(BINS, np.int64)
        name = getattr(result, "type", None) or ""
        self.codes = Codes(name) if has_codes(name) else None
        scaled = self.codes is not None and getattr(result, "scale", None) is not None
        self.steps = Steps(result, tuple(original.shape)) if scaled else None
        levels = self.codes.levels if self.codes is not None else None
        self.seen = np.zeros(1 << 16, np.bool_) if levels is not None else None
        self.most, self.saturated = 0.0, 0
        self.others = Others(name, original, result, extent)
        for rows in bands(original.shape):
            x = _real(original, rows)
            self._count(x)
            if self.steps is not None:
                self._compare(rows, x, _real(result, rows))
            self.others.add(x)

    def _count(self, x: Array) -> None:
        width = (self.extent.high - self.extent.low) / BINS
        x = _finite(x)
        if isfinite(width) and x.dtype.type(width) > 0:
            bins = _core.quantize(
                *(x, x.dtype.type(width)),
                offset=self.extent.low,
                dtype="uint8",
                rounding="floor",
                quant_range=(0, BINS - 1),
            )
            self.counts += np.bincount(bins, minlength=BINS)
        else:  # one value, or a range that float32 cannot divide
            self.counts[BINS // 2] += x.size

    def _compare(self, rows: slice | None, x: Array, y: Array) -> None:
        assert self.steps is not None
        self.most = max(self.most, self.steps.most(rows, x, y))
        self.saturated += self.steps.saturated(rows, x)
        if self.seen is None or self.codes is None:
            return
        scale, zero = (of.astype(x.dtype, copy=False) for of in self.steps.of(rows))
        with np.errstate(all="ignore"):
            value = y / scale + zero
        if self.codes.integers:  # values are rounded, so quotients are not exact
            value = np.rint(value)
        self.seen[_halves(_of(value, np.isfinite(x)))] = True

    def numbers(self) -> dict[str, Any]:
        """Return the numbers of the table and of the plots."""
        finite = self.extent.finite
        histogram = {
            "low": known(self.extent.low),
            "high": known(self.extent.high),
            "counts": self.counts.tolist(),
        }
        shown: dict[str, Any] = {"histogram": histogram if finite else None}
        shown["alternatives"] = self.others.found()
        if self.steps is None:
            return shown
        usual = self.steps.usual()
        shown["max_error_steps"] = self.most
        shown["saturated"] = self.saturated / max(1, finite)
        shown["scales"] = self.steps.scale.size
        shown["zero_scales"] = self.steps.scale.size - usual.size
        if self.used is not None:
            shown["unused_codes"] = int(np.count_nonzero(~self.used))
            shown["used"] = "".join("01"[one] for one in self.used.tolist())
        shown["grids"] = self._grids(usual)
        if usual.size > 1:
            places = np.linspace(0, usual.size - 1, min(POINTS, usual.size)).astype(np.intp)
            shown["scale_curve"] = np.log2(usual[places].astype(np.float64)).tolist()
        return shown

    @property
    def used(self) -> Array | None:
        """Return which levels occur; `None` for types with many levels."""
        if self.seen is None or self.codes is None or self.codes.levels is None:
            return None
        return self.seen[_halves(self.codes.levels)]

    def _grids(self, usual: Array) -> list[dict[str, Any]]:
        """Return the range without saturation at the largest and at the median scale."""
        assert self.codes is not None
        assert self.steps is not None
        which = {"largest scale": 0, "median scale": usual.size // 2}
        if usual.size < 2:
            which = {"scale": 0} if usual.size else {}
        ends = np.array(self.codes.reach)
        grids = []
        for label, place in which.items():
            scale = float(usual[place])
            zero = self.steps.zero_at(scale)
            low, high = ((ends - zero) * scale).tolist()
            grids.append(
                {
                    "label": label,
                    "scale": scale,
                    "zero_point": zero,
                    "low": low,
                    "high": high,
                }
            )
        return grids


def _halves(values: Array) -> Array:
    """Return bits of float16, which distinguish all values of the types of 8 bits."""
    with np.errstate(over="ignore", invalid="ignore"):
        return (values + 0).astype(np.float16).view(np.uint16)


class Others:
    """Measure the error of three granularities at a similar number of bits."""

    def __init__(self, name: str, original: Tensor, result: Any, extent: Extent) -> None:
        bits = 8 * result.nbytes / max(1, prod(original.shape))
        usual = "int4" if bits < 6 else "int8"
        self.dtype = name if has_codes(name) and TYPES[name].bits <= 16 else usual
        self.errors: dict[str, ErrorReport | int] = {}
        self.flat = len(original.shape) < 2
        whole = (extent.low, extent.high) if extent.finite else (0.0, 0.0)
        self.whole = qparams_from_range(*whole, dtype=self.dtype)

    def add(self, x: Array) -> None:
        """Measure a band with each granularity."""
        if not np.isfinite(x).all():
            x = np.where(np.isfinite(x), x, 0).astype(x.dtype)
        if not x.size:
            return
        x = x.reshape((1, -1)) if self.flat else x
        tried = {"tensor": self.whole}
        if not self.flat:
            tried["axis:0"] = choose_qparams(x, dtype=self.dtype, axis=0)
        tried[f"block:{BLOCK}"] = choose_qparams(
            x, dtype=self.dtype, axis=-1, block_size=BLOCK
        )
        for name, params in tried.items():
            self.errors[name] = self.errors.get(name, 0) + params.measure_error(x)

    def found(self) -> list[dict[str, Any]]:
        """Return the error of each granularity in dB."""
        return [
            {"granularity": name, "type": self.dtype, "sqnr": known(errors.sqnr)}
            for name, errors in self.errors.items()
            if isinstance(errors, ErrorReport)
        ]


def known(number: Any) -> float | None:
    """Return the number for JSON: `None` for infinities and NaN."""
    return float(number) if isfinite(number) else None


def measure(name: str, original: Tensor, result: Any) -> dict[str, Any]:
    """
    Measure a tensor against its original.

    Parameters
    ----------
    name : str
        Name of the tensor.
    original, result : Tensor
        The original and the quantized tensor.

    Returns
    -------
    dict
        Values for JSON. `PLOTS` and the numbers of the second pass are missing if the
        tensors are equal. All numbers are missing if the elements are of an unknown type.

    Raises
    ------
    ValueError
        If the shapes differ.
    """
    shape = tuple(original.shape)
    if not (_has_numbers(original) and _has_numbers(result)):
        return _row(name, original, result, dict.fromkeys(("sqnr", "exact", "max_error")))
    if shape != tuple(result.shape):
        expected = f"expected shape {shape}, as the original has"
        raise ValueError(f"tensor {name!r}: {expected}, got {tuple(result.shape)}")
    extent = Extent(original, result)
    numbers = extent.numbers()
    if not extent.exact:
        numbers |= Detail(original, result, extent).numbers()
    return _row(name, original, result, numbers)


def _row(
    name: str, original: Tensor, result: Any, numbers: dict[str, Any]
) -> dict[str, Any]:
    size = prod(original.shape)
    return {
        "name": name,
        "shape": list(original.shape),
        "from": _type_of(original),
        "type": _type_of(result),
        "granularity": getattr(result, "granularity", None),
        "elements": size,
        "bytes_before": original.nbytes,
        "bytes_after": result.nbytes,
        "bits_per_weight": 8 * result.nbytes / size if size else None,
        **numbers,
    }


def _has_numbers(tensor: Tensor) -> bool:
    """Return true if the elements have a known type."""
    try:
        tensor.decode(slice(0, 0) if tensor.shape else None)
    except (TypeError, ValueError, ImportError):
        return False
    return True


def _type_of(tensor: Any) -> str:
    """Return the name of the type."""
    for kind in ("type", "format", "dtype"):
        found = getattr(tensor, kind, None)
        if found is not None:
            return str(found)
    return "unknown"
