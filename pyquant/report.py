# SPDX-License-Identifier: Apache-2.0
"""Measure the error of quantization; error reports can be added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.qparams import QParams

__all__ = ["ErrorReport", "measure_error"]

_ONES = ("saturated_low", "saturated_high", "zero_scales")
_COUNTS = ("nan", "inf", *_ONES, "count")
_FIELDS = ("sqnr", "mse", "max_error", "max_index", "mean_error", "cosine", *_COUNTS)


def __dir__() -> list[str]:
    return sorted(__all__)


class ErrorReport:
    """
    Error statistics of ``x - y``: SQNR in dB, MSE, maximum error, saturation.

    `measure_error` and `QParams.measure_error` make it. Of what was measured along axes,
    each attribute but `axis` is an array, of the shape of `x` at these axes; else a number.
    Elements of which a number is NaN or infinite are counted, and left out of the rest.

    ``a + b`` is the report of the elements of `a` followed by those of `b`, where both are
    of the same axes and channels: counts and extremes are those of one call. Sums are
    added, and the last bits of a sum depend on how it was cut into others.

    Attributes
    ----------
    sqnr : float or ndarray
        Signal to quantization noise, ``10 * log10(sum(x**2) / sum((x - y)**2))``, in dB:
        inf without an error, -inf where only `x` is 0, NaN without either.
    mse, mean_error : float or ndarray
        The means of ``(x - y)**2`` and of ``x - y``; NaN of no elements.
    max_error : float or ndarray
        The largest ``abs(x - y)``; NaN of no elements.
    max_index : int or ndarray
        The first element with that error, counted in C order among those of its channel;
        -1 of no elements. Without an axis ``x.flat[max_index]``.
    cosine : float or ndarray
        ``sum(x * y) / sqrt(sum(x**2) * sum(y**2))``; NaN where a sum is 0.
    nan, inf : int or ndarray
        Elements of which either number is NaN; and others of which one is infinite.
    saturated_low, saturated_high : int or ndarray
        Elements that were too low or too high for the codes, by more than half a step. 0
        where no parameters are known, as for `measure_error`.
    zero_scales : int or ndarray
        Elements whose scale is 0, infinite or NaN; likewise.
    count : int or ndarray
        All elements.
    axis : int, tuple of int or None
        The axes.

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
        """Refuse: reports are made by measuring."""
        msg = "ErrorReport: expected measure_error() to make it, got a call"
        raise TypeError(msg)

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
    def max_index(self) -> Any:
        """Index of the first element that has the largest error."""
        return self._given(self._sums["index"])

    @property
    def cosine(self) -> Any:
        """Cosine of the angle between `x` and `y`."""
        sums = self._sums
        with np.errstate(all="ignore"):
            return self._given(sums["xy"] / (np.sqrt(sums["xx"]) * np.sqrt(sums["yy"])))

    @property
    def nan(self) -> Any:
        """Number of elements where `x` or `y` is NaN."""
        return self._given(self._sums["nan"])

    @property
    def inf(self) -> Any:
        """Number of elements where `x` or `y` is infinite and neither is NaN."""
        return self._given(self._sums["inf"])

    @property
    def saturated_low(self) -> Any:
        """Number of elements below the range of the codes."""
        return self._given(self._sums["low"])

    @property
    def saturated_high(self) -> Any:
        """Number of elements above the range of the codes."""
        return self._given(self._sums["high"])

    @property
    def zero_scales(self) -> Any:
        """Number of elements whose scale is 0, infinite or NaN."""
        return self._given(self._sums["bad_scales"])

    @property
    def count(self) -> Any:
        """Number of elements, including NaN and infinities."""
        return self._given(self._sums["count"])

    def _given(self, values: npt.NDArray[Any]) -> Any:
        """As users get it: a number, or an array of their own."""
        return np.array(values) if self._sums.ndim else np.asarray(values).item()

    def _mean(self, name: str, power: int) -> npt.NDArray[np.float64]:
        sums = self._sums
        with np.errstate(all="ignore"):
            mean = sums[name] / (sums["count"] - sums["nan"] - sums["inf"])
            mean = np.ldexp(mean, (power * sums["exponent"]).astype(np.intc))
        return np.asarray(mean)

    def __add__(self, other: object) -> ErrorReport:
        """Report on the elements of both."""
        if not isinstance(other, ErrorReport):
            return NotImplemented
        mine, others = (self._axis, self._sums.shape), (other._axis, other._sums.shape)
        if mine != others:
            msg = (
                f"other: expected axis={mine[0]} and shape {mine[1]}, "
                f"got axis={others[0]} and shape {others[1]}"
            )
            raise ValueError(msg)
        sums = _core.add_errors(self._sums, other._sums)
        return _made(self._axis, sums)

    def __radd__(self, other: object) -> ErrorReport:
        """Let `sum` begin with its 0."""
        return self if isinstance(other, int) and other == 0 else NotImplemented

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a report never changes."""
        msg = f"{name}: expected no assignment, ErrorReport is immutable"
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        """Refuse: a report never changes."""
        msg = f"{name}: expected no deletion, ErrorReport is immutable"
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        """Compare axes, shapes and the bits of all that was found."""
        if not isinstance(other, ErrorReport):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        """Hash what `__eq__` compares."""
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self._axis, self._sums.shape, self._sums.tobytes()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes an equal one."""
        return _made, (self._axis, self._sums)

    def __repr__(self) -> str:
        """Show everything."""
        with np.printoptions(threshold=20, edgeitems=2, floatmode="unique"):
            fields = [f"{name}={getattr(self, name)!r}" for name in _FIELDS]
        return f"ErrorReport({', '.join(fields)}, axis={self._axis})"

    def __str__(self) -> str:
        """Show in one line what counts; of channels the extremes."""
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
    """A number, or the least and the largest of some, or these alone."""
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


def _kept(axis: object, axes: tuple[int, ...]) -> int | tuple[int, ...] | None:
    """The axes as a report has them."""
    return None if axis is None else axes if isinstance(axis, tuple) else axes[0]


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
        float32, float64, float16 or bfloat16, each of any of these, of the same shape and
        any strides.
    axis : int or tuple of int, optional
        Measure the elements at each index of these axes by themselves. Default: all
        together.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.

    Returns
    -------
    ErrorReport
        What was found.

    Raises
    ------
    TypeError
        If an array has another type.
    ValueError
        If the shapes differ.
    numpy.exceptions.AxisError
        If `x` has no such axis.

    Notes
    -----
    Numbers are widened before they are subtracted: to float64, in which all sums are. Those
    of a channel are made in C order whatever the strides, and are the same bits on every
    CPU. Float64 numbers whose squares are beyond float64 are scaled by a power of two.

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
    return _made(_kept(axis, axes), sums)


def measure_params(
    p: QParams, x: ArrayLike, axis: Any, threads: SupportsIndex
) -> ErrorReport:
    """
    Measure the error of quantizing `x` with given parameters.

    Parameters
    ----------
    p : QParams
        The parameters.
    x : array_like
        Real numbers.
    axis : int or tuple of int or None
        As for `measure_error`.
    threads : int
        As for `measure_error`.

    Returns
    -------
    ErrorReport
        With what saturated.
    """
    sums, axes = _core.measure_params(p, x, axis, threads)
    return _made(_kept(axis, axes), sums)
