# SPDX-License-Identifier: Apache-2.0
"""Measure the error of quantization, and add error reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant._check import Immutable, fail

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["ErrorReport", "measure_error"]

_ONES = ("saturated_low", "saturated_high", "zero_scales")
_COUNTS = ("nan", "inf", *_ONES, "count")
_FIELDS = ("sqnr", "mse", "max_error", "max_index", "mean_error", "cosine", *_COUNTS)
__dir__: object = __all__.copy


def _sum(name: str, text: str) -> Any:
    """Return a property of reports for a sum, a count or an index of the core."""
    return property(lambda self: self._given(self._sums[name]), doc=text)


@_core.default_fpenv
class ErrorReport(Immutable):
    """
    Error statistics of ``x - y``: SQNR in dB, MSE, maximum error, saturation.

    `measure_error` and `QParams.measure_error` return immutable reports. If axes were
    measured, each attribute except `axis` is an array with the shape of `x` at these axes.
    Otherwise each attribute is a number. Elements where `x` or `y` is NaN or infinite are
    counted and excluded from all other statistics.

    ``a + b`` is the report of the elements of `a` followed by the elements of `b`. The axes
    and shapes must be equal. Counts and extremes equal a single call on all elements. Sums
    are added, so the last bits of a sum depend on how the data was divided.

    Attributes
    ----------
    sqnr : float or ndarray
        Signal-to-quantization-noise ratio in dB,
        ``10 * log10(sum(x**2) / sum((x - y)**2))``: inf without an error, -inf if only
        `x` is 0, NaN if both sums are 0.
    mse, mean_error : float or ndarray
        Means of ``(x - y)**2`` and of ``x - y``; NaN for zero elements.
    max_error : float or ndarray
        Largest ``abs(x - y)``; NaN for zero elements.
    max_index : int or ndarray
        Position of the first element with the largest error, in C order. With an axis, the
        position among the elements of an index of `axis`. -1 for zero elements. Without an
        axis the element is ``x.flat[max_index]``.
    cosine : float or ndarray
        ``sum(x * y) / sqrt(sum(x**2) * sum(y**2))``; NaN if a sum is 0.
    nan, inf : int or ndarray
        `nan` is the number of elements where `x` or `y` is NaN. `inf` is the number of all
        other elements where `x` or `y` is infinite.
    saturated_low, saturated_high : int or ndarray
        Number of elements that are below and above the range of the codes by more than half
        a step. `measure_error` reports 0, because `measure_error` does not know the range.
    zero_scales : int or ndarray
        Number of elements with scale 0, infinity or NaN. `measure_error` reports 0.
    count : int or ndarray
        Number of all elements.
    axis : int, tuple of int or None
        The measured axes.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.float32([0.1, -0.7, 1.25, 30, -2.5, 12])
    >>> p = pq.choose_qparams(x)
    >>> report = p.measure_error(x)
    >>> print(report)
    45.95 dB, max error 0.1 at 0, mean 0.03812, cosine 0.999987547, 6 elements
    >>> (report + report).count
    12
    """

    __slots__ = ("_axis", "_sums")

    _axis: int | tuple[int, ...] | None
    _sums: npt.NDArray[Any]

    def __init__(self) -> None:
        """Raise TypeError, because only `measure_error` creates reports."""
        raise fail(TypeError, "ErrorReport", "measure_error() to make it", "a call")

    @property
    def axis(self) -> int | tuple[int, ...] | None:
        """Measured axes, counted from 0, or None for one set of statistics."""
        return self._axis

    @property
    def sqnr(self) -> Any:
        """Signal-to-quantization-noise ratio, in dB."""
        with np.errstate(all="ignore"):
            ratio = self._sums["xx"] / self._sums["ee"]
            return self._given(10 * np.log10(ratio))

    @property
    def mse(self) -> Any:
        """Mean squared error."""
        return self._given(self._mean("ee", 2))

    @property
    def mean_error(self) -> Any:
        """Mean of ``x - y``."""
        return self._given(self._mean("e", 1))

    @property
    def max_error(self) -> Any:
        """Largest absolute value of ``x - y``."""
        found = self._sums["index"] >= 0
        return self._given(np.where(found, self._sums["most"], np.nan))

    @property
    def cosine(self) -> Any:
        """Cosine of the angle between `x` and `y`."""
        sums = self._sums
        with np.errstate(all="ignore"):
            return self._given(sums["xy"] / (np.sqrt(sums["xx"]) * np.sqrt(sums["yy"])))

    max_index: Any = _sum("index", "Index of the first element that has the largest error.")
    nan: Any = _sum("nan", "Number of elements where `x` or `y` is NaN.")
    inf: Any = _sum("inf", "Number of elements with an infinity in `x` or `y`, and no NaN.")
    saturated_low: Any = _sum("low", "Number of elements below the range of the codes.")
    saturated_high: Any = _sum("high", "Number of elements above the range of the codes.")
    zero_scales: Any = _sum(
        "bad_scales", "Number of elements with scale 0, infinity or NaN."
    )
    count: Any = _sum("count", "Number of elements, including NaN and infinities.")

    def _given(self, values: npt.NDArray[Any]) -> Any:
        """Return a number, or a new array for measured axes."""
        return np.array(values) if self._sums.ndim else np.asarray(values).item()

    def _mean(self, name: str, power: int) -> npt.NDArray[np.float64]:
        sums = self._sums
        with np.errstate(all="ignore"):
            mean = sums[name] / (sums["count"] - sums["nan"] - sums["inf"])
            mean = np.ldexp(mean, (power * sums["exponent"]).astype(np.intc))
        return np.asarray(mean)

    def __add__(self, other: object) -> ErrorReport:
        """Return the report of all elements of both reports."""
        if not isinstance(other, ErrorReport):
            return NotImplemented
        mine, others = (self._axis, self._sums.shape), (other._axis, other._sums.shape)
        if mine != others:
            due, got = (f"axis={axis} and shape {shape}" for axis, shape in (mine, others))
            raise fail(ValueError, "other", due, got)
        sums = _core.add_errors(self._sums, other._sums)
        return _made(self._axis, sums)

    def __radd__(self, other: object) -> ErrorReport:
        """Support `sum`, which starts with 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Compare axes, shapes and the bits of all statistics."""
        if not isinstance(other, ErrorReport):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        """Hash the values that `__eq__` compares."""
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self._axis, self._sums.shape, self._sums.tobytes()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a call that builds an equal report."""
        return _made, (self._axis, self._sums)

    def __repr__(self) -> str:
        """Show all statistics."""
        with np.printoptions(threshold=20, edgeitems=2, floatmode="unique"):
            fields = [f"{name}={getattr(self, name)!r}" for name in _FIELDS]
        return f"ErrorReport({', '.join(fields)}, axis={self._axis})"

    def __str__(self) -> str:
        """Show the main statistics in one line. With axes, show the extremes of each
        statistic."""
        parts = [
            f"{_span(self.sqnr, '.2f')} dB",
            f"max error {_span(self.max_error, '.4g', last=True)}",
            f"mean {_span(self.mean_error, '.4g')}",
            f"cosine {_span(self.cosine, '.9g')}",
        ]
        if not self._sums.ndim:
            parts[1] += f" at {self.max_index}"
        for name in _COUNTS[:-1]:
            number = int(np.sum(getattr(self, name)))
            if number:
                parts.append(f"{name.replace('_', ' ')} {number}")
        parts.append(f"{int(self._sums['count'].sum())} elements")
        return ", ".join(parts)


def _span(values: Any, how: str, *, last: bool = False) -> str:
    """
    Format the smallest and the largest number of an array; if `last`, only the largest.
    """
    known = np.asarray(values)
    known = known[~np.isnan(known)]
    if known.size == 0:
        return "nan"
    low, high = format(known.min(), how), format(known.max(), how)
    return high if last or low == high else f"{low} .. {high}"


def _made(axis: int | tuple[int, ...] | None, sums: npt.NDArray[Any]) -> ErrorReport:
    made = object.__new__(ErrorReport)
    object.__setattr__(made, "_axis", axis)
    object.__setattr__(made, "_sums", sums)
    return made


def report_of(axis: object, sums: npt.NDArray[Any], axes: tuple[int, ...]) -> ErrorReport:
    """Return a report from the sums of the core. `axes` are the axes of `axis` in ascending
    order."""
    kept = None if axis is None else axes if isinstance(axis, tuple) else axes[0]
    return _made(kept, sums)


@_core.hinted
def measure_error(
    x: ArrayLike,
    y: ArrayLike,
    *,
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    threads: SupportsIndex = 1,
) -> ErrorReport:
    """
    Measure the error of `y` as an approximation of `x`.

    Parameters
    ----------
    x, y : array_like
        float32, float64, float16 or bfloat16 arrays of equal shape, with any strides. Their
        types may differ.
    axis : int or tuple of int, optional
        Measure each index of these axes separately. Default: one measurement of all
        elements.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ErrorReport
        The error statistics, for example `sqnr` in dB.

    Raises
    ------
    TypeError
        If an array has another type.
    ValueError
        If the shapes differ.
    numpy.exceptions.AxisError
        If an axis is out of bounds.

    Notes
    -----
    Elements are converted to float64 before the subtraction, and all sums are float64. Sums
    are computed in C order for any strides, and are equal bit for bit on every CPU. If the
    square of a float64 element exceeds float64, the elements are scaled by a power of two.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.float32([[1, 2, 4], [8, 16, 32]])
    >>> report = pq.measure_error(x, x + np.float32([[0, 0, 0.5], [1, 0, 0]]))
    >>> report.max_error, report.max_index, report.mse
    (1.0, 3, 0.20833333333333334)
    >>> pq.measure_error(x, np.round(x, -1), axis=0).max_error
    array([4., 4.])
    """
    sums, axes = _core.measure(x, y, axis, threads)
    return report_of(axis, sums, axes)
