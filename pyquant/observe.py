# SPDX-License-Identifier: Apache-2.0
"""Collect statistics over batches and choose quantization parameters from them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
)

import numpy as np

from pyquant import _core
from pyquant.qparams import qparams_from_range

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt

    from pyquant._typing import ArrayLike, Like
    from pyquant.qparams import QParams

    _Axis: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | None
    _Method: TypeAlias = Literal["minmax", "percentile", "mse", "entropy"]

__all__ = ["Observer", "calibrate"]

_METHODS = ("minmax", "percentile", "mse", "entropy")


def __dir__() -> list[str]:
    return sorted(__all__)


@_core.default_fpenv
class Observer:
    """
    Collect minimum, maximum and a histogram over batches, to choose scales from.

    The extremes are exact. With `histogram`, an observer also counts the upper 16 bits of
    each value as float32: sign, exponent and 7 bits of the mantissa. These bins do not
    depend on the data. Observers of parts of the data therefore add up to the observer of
    all data, bit for bit, in any order and on any number of threads or machines.

    Parameters
    ----------
    axis : int or tuple of int, optional
        Collect separate statistics for each index along these axes. Default: one set of
        statistics.
    histogram : bool, optional
        Count values. All methods except "minmax" need the counts. Default False.
    mantissa_bits : int, optional
        Histogram resolution, 0 to 7. 7 (the default) uses up to 128 counters for each
        exponent; 3 uses 8, which suits many channels.
    momentum : float, optional
        Keep moving averages of the extremes of each batch, like PyTorch's
        MovingAverageMinMaxObserver: ``m + momentum * (new - m)`` in float32. The averages
        depend on the order of the batches and exclude `histogram` and `merge`.
    nonfinite : {"raise", "ignore"}, optional
        "raise" (the default): NaN and infinities raise an error, and nothing of the batch
        is counted. "ignore": they are counted separately.

    Attributes
    ----------
    axis : int, tuple of int or None
        The axes that have separate statistics.
    min, max : numpy scalar or ndarray
        Extremes, with the shape that `axis` selects. The type is float64 if a batch was
        float64, else float32. ValueError if no data was added.
    count, nan, inf : int or ndarray
        Number of finite values, NaN and infinities.

    Notes
    -----
    An observer needs 0.25 KiB for each sign and exponent in the data: 5 to 15
    KiB for usual data, at most 129 KiB. float16 needs up to eight times as much for each
    exponent, and the maximum is equal. A counter has two bytes. Each counter that reaches
    2**16 needs 16 more bytes; there are at most ``count / 2**16`` of them. With `axis`,
    each channel needs this memory. ``sys.getsizeof`` returns the present size.

    float64 values are truncated toward zero to float32 before they are counted. float16 has
    3 more bits of mantissa, which are counted exactly, and excludes all other types.

    An observer must not be used by two threads at a time.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> o = pq.Observer(histogram=True)
    >>> for batch in np.split(np.linspace(-1, 3, 4096, dtype=np.float32), 4):
    ...     o.update(batch)
    >>> o.count, float(o.min), float(o.max)
    (4096, -1.0, 3.0)
    >>> lo, hi = o.range("percentile", percentile=99, dtype="uint8")
    >>> p = o.qparams("uint8", method="percentile", percentile=99)
    """

    __slots__ = (
        "_axis",
        "_bits",
        "_count",
        "_histogram",
        "_inf",
        "_max",
        "_min",
        "_momentum",
        "_nan",
        "_nonfinite",
        "_pages",
        "_places",
        "_real",
        "_shape",
        "_table",
        "_wraps",
    )

    def __init__(
        self,
        *,
        axis: _Axis = None,
        histogram: bool = False,
        mantissa_bits: SupportsIndex = 7,
        momentum: SupportsFloat | None = None,
        nonfinite: Literal["raise", "ignore"] = "raise",
    ) -> None:
        self._axis = _axes(axis)
        self._histogram = _flag(histogram, "histogram")
        self._bits = _core.integer(mantissa_bits, "mantissa_bits", 0, 7)
        self._momentum = None if momentum is None else _momentum(momentum, self._histogram)
        self._nonfinite = _one_of(
            nonfinite, ("raise", "ignore"), "nonfinite", "'raise' or 'ignore'"
        )
        self._real: str | None = None  # type that holds all data
        self._shape: tuple[int, ...] | None = None  # shape along axis
        self._count = np.zeros(0, np.uint64)
        self._nan, self._inf = self._count, self._count
        self._min = np.zeros(0)
        self._max = self._min
        self._pages = np.zeros(0, np.uint16)  # pages of counters, see pq.h
        self._table = np.zeros((0, 0, 1 << self._bits), np.uint16)  # modulo 2**16
        self._places = np.zeros(0, np.uint64)  # counters that overflowed
        self._wraps = self._places  # number of overflows

    # ---- add data ----

    def update(self, x: ArrayLike, *, threads: SupportsIndex = 1) -> None:
        """
        Add a batch.

        Parameters
        ----------
        x : array_like
            float32, float64, float16 or bfloat16 array of any shape, strides and byte
            order. It may be empty. The extents along `axis` must equal the extents of
            earlier batches.
        threads : int, optional
            Largest number of threads. Default 1. The result does not depend on it.

        Raises
        ------
        ValueError
            If values are not finite, or the extents along `axis` differ. Nothing is
            counted.
        """
        found = Observer.__new__(Observer)
        found._take_options(self)
        (
            found._real,
            found._shape,
            found._count,
            found._nan,
            found._inf,
            found._min,
            found._max,
            found._pages,
            found._table,
            found._places,
            found._wraps,
        ) = _core.observed(
            x,
            self._axis,
            self._histogram,
            self._bits,
            self._nonfinite == "ignore",
            threads,
        )
        if self._momentum is not None:
            found._average(self)
        self._add(found, "x")

    def merge(self, other: Observer) -> None:
        """
        Add the statistics of another observer.

        Parameters
        ----------
        other : Observer
            Observer with equal `axis`, `histogram`, `mantissa_bits`, `nonfinite` and shape.

        Raises
        ------
        TypeError
            If `other` is not an Observer, or one of both has moving averages, which depend
            on the order of the batches.
        ValueError
            If an option or the shape differs. Nothing is added.
        """
        if not isinstance(other, Observer):
            msg = f"other: expected an Observer, got {type(other).__name__}"
            raise TypeError(msg)
        if self._momentum is not None or other._momentum is not None:
            msg = "other: expected extremes to merge, got moving averages (momentum)"
            raise TypeError(msg)
        for name, mine, its in zip(
            ("axis", "histogram", "mantissa_bits", "nonfinite"),
            self._options(),
            other._options(),
            strict=False,
        ):
            if mine != its:
                msg = f"other: expected {name}={mine!r}, got {its!r}"
                raise ValueError(msg)
        self._add(other, "other")

    def copy(self) -> Observer:
        """Return an independent observer with equal state."""
        new = Observer.__new__(Observer)
        new._take_options(self)
        new._set_state(self._state())
        return new

    __copy__ = copy

    def __add__(self, other: Observer) -> Observer:
        """Return an observer with the statistics of both."""
        if not isinstance(other, Observer):
            return NotImplemented
        new = self.copy()
        new.merge(other)
        return new

    def __radd__(self, other: object) -> Observer:
        """Support `sum`, which starts with 0."""
        return self.copy() if type(other) is int and other == 0 else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Compare options and all statistics."""
        if not isinstance(other, Observer):
            return NotImplemented
        if self._options() != other._options():
            return False
        return all(
            np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
            for a, b in zip(self._state(), other._state(), strict=True)
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle options and state."""
        return (_unpickled, (self._options(), self._state()))

    def __sizeof__(self) -> int:
        """Return the size in bytes, including the arrays."""
        arrays = (v for v in self._state() if isinstance(v, np.ndarray))
        return object.__sizeof__(self) + sum(array.nbytes for array in arrays)

    def __repr__(self) -> str:
        """Show options, extremes and count in one line."""
        seen = int(self._count.sum())
        more = "" if self._momentum is None else f", momentum={self._momentum}"
        if seen:
            more += f", min={self._min.min():.9g}, max={self._max.max():.9g}"
        return (
            f"Observer(axis={self._axis}, histogram={self._histogram}, "
            f"mantissa_bits={self._bits}{more}, count={seen})"
        )

    # ---- statistics ----

    @property
    def axis(self) -> int | tuple[int, ...] | None:
        """Axes that have statistics of their own, or None."""
        return self._axis

    @property
    def count(self) -> Any:
        """Number of finite values."""
        return self._numbers(self._count)

    @property
    def nan(self) -> Any:
        """Number of NaN values."""
        return self._numbers(self._nan)

    @property
    def inf(self) -> Any:
        """Number of infinite values."""
        return self._numbers(self._inf)

    @property
    def min(self) -> Any:
        """Smallest finite value."""
        self._need_data()
        return self._reals(self._min)

    @property
    def max(self) -> Any:
        """Largest finite value."""
        self._need_data()
        return self._reals(self._max)

    def quantile(self, q: SupportsFloat) -> tuple[Any, Any]:
        """
        Return a lower and an upper bound of a quantile.

        Parameters
        ----------
        q : float
            From 0 to 1. For n values, the quantile is the value of rank ``ceil(q * n)``, at
            least 1: ``numpy.quantile(..., method="inverted_cdf")``.

        Returns
        -------
        low, high : numpy scalar or ndarray
            Bounds with the shape and type of `min` and `max`. With 7 mantissa bits they
            differ by at most 1/128 of their magnitude. For float16 and bfloat16 they are
            equal.

        Raises
        ------
        ValueError
            If `q` is out of range, or there is no histogram, or no data.
        """
        from pyquant import _searches

        at = _number(q, "q", 0, 1)
        self._need_histogram("quantile")
        bins = self._bins()
        bounds = [_searches.quantile(bins.channel(c), at) for c in range(bins.channels)]
        low = np.maximum([low for low, _ in bounds], self._min)
        high = np.minimum([high for _, high in bounds], self._max)
        return self._reals(low), self._reals(high)

    def range(
        self,
        method: _Method = "minmax",
        *,
        percentile: SupportsFloat | None = None,
        dtype: npt.DTypeLike = "int8",
        symmetric: bool | np.bool | None = None,
    ) -> tuple[Any, Any]:
        """
        Choose the range that the codes cover.

        Parameters
        ----------
        method : {"minmax", "percentile", "mse", "entropy"}, optional
            "minmax" (the default): the extremes. "percentile": cut off a percentage of the
            values. "mse": minimize the expected squared error. "entropy": minimize the loss
            of information by TensorRT's rule, based on magnitudes. All methods except
            "minmax" need `histogram`.
        percentile : float, optional
            For "percentile" only: the percentage of values to keep, from 50 to 100. Default
            99.99. A symmetric range counts magnitudes. All other ranges cut off half of the
            rest at each end.
        dtype : dtype_like, optional
            The quantized type. "mse" and "entropy" depend on it. Default int8.
        symmetric : bool, optional
            True: make the range symmetric around 0. Default: the rule of `choose_qparams`.

        Returns
        -------
        lo, hi : numpy scalar or ndarray
            Ends of the range, with the shape and type of `min` and `max`. They do not
            exceed the extremes, except that a symmetric range has ``-lo == hi``.

        Raises
        ------
        ValueError
            If there is no data, the method is unknown, the method needs a histogram, or
            `percentile` is out of range or given for another method.
        """
        lo, hi = self._range(method, percentile, dtype, symmetric)
        return self._reals(lo), self._reals(hi)

    def qparams(
        self,
        dtype: npt.DTypeLike = "int8",
        *,
        method: _Method = "minmax",
        percentile: SupportsFloat | None = None,
        symmetric: bool | np.bool | None = None,
        quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
        scale_dtype: npt.DTypeLike | None = None,
        like: Like | None = None,
    ) -> QParams:
        """
        Choose scales and zero points from the statistics.

        Parameters
        ----------
        dtype, symmetric, quant_range, scale_dtype, like
            See `choose_qparams`.
        method, percentile
            See `range`.

        Returns
        -------
        QParams
            With "minmax" the result equals `choose_qparams` on all data.
        """
        ends = self._range(method, percentile, dtype, symmetric)
        if method == "minmax":  # some formulas need both extremes
            ends = self._min, self._max
        lo, hi = (self._reals(end, self._real) for end in ends)
        return qparams_from_range(
            lo,
            hi,
            dtype=dtype,
            axis=self._axis,
            symmetric=symmetric,
            quant_range=quant_range,
            scale_dtype=scale_dtype,
            like=like,
        )

    # ---- state ----

    def _options(self) -> tuple[Any, ...]:
        return (self._axis, self._histogram, self._bits, self._nonfinite, self._momentum)

    def _take_options(self, other: Observer) -> None:
        (self._axis, self._histogram, self._bits, self._nonfinite, self._momentum) = (
            other._options()
        )

    def _state(self) -> tuple[Any, ...]:
        return (
            self._real,
            self._shape,
            self._count,
            self._nan,
            self._inf,
            self._min,
            self._max,
            self._pages,
            self._table,
            self._places,
            self._wraps,
        )

    def _set_state(self, state: tuple[Any, ...]) -> None:
        (
            self._real,
            self._shape,
            self._count,
            self._nan,
            self._inf,
            self._min,
            self._max,
            self._pages,
            self._table,
            self._places,
            self._wraps,
        ) = state

    def _add(self, found: Observer, name: str) -> None:
        """
        Add the statistics of `found`; never write to arrays that other observers may share.
        """
        if found._shape is None:
            return
        if self._shape is None:
            self._set_state(found._state())
            if not found._seen():
                self._real = None
            return
        if self._shape != found._shape:
            msg = f"{name}: expected channels {self._shape}, got {found._shape}"
            raise ValueError(msg)
        real = self._real
        if found._seen():
            real = _common(real, found._real, name, self._histogram)
        counters = self._counters()
        if self._histogram:
            counters = _sum_counters(counters, found._counters())
        lowest, highest = found._min, found._max
        if self._momentum is None:
            lowest = np.minimum(lowest, self._min)
            highest = np.maximum(highest, self._max)
        self._set_state(
            (
                real,
                self._shape,
                self._count + found._count,
                self._nan + found._nan,
                self._inf + found._inf,
                lowest,
                highest,
                *counters,
            )
        )

    def _counters(self) -> _Counters:
        return _Counters(self._pages, self._table, self._places, self._wraps)

    def _seen(self) -> bool:
        return any(counts.any() for counts in (self._count, self._nan, self._inf))

    def _average(self, before: Observer) -> None:
        """
        Replace the extremes by moving averages, with PyTorch's float32 rounding steps.
        """
        self._real = "float32"
        if before._shape is None or before._shape != self._shape:
            with np.errstate(all="ignore"):
                ends = [end.astype(np.float32) for end in (self._min, self._max)]
            self._min, self._max = (end.astype(np.float64) for end in ends)
            return
        self._min = _averaged(before, before._min, self._min, self._count)
        self._max = _averaged(before, before._max, self._max, self._count)

    def _need_data(self) -> None:
        if self._shape is None or not self._count.all() or not self._count.size:
            msg = "x: expected at least one finite number, got none"
            if self._axis is not None and self._count.any():
                msg = f"x: expected finite numbers of each index of axis {self._axis}"
            raise ValueError(msg)

    def _need_histogram(self, what: str) -> None:
        if not self._histogram:
            msg = f"histogram: expected Observer(histogram=True) for {what}, got False"
            raise ValueError(msg)
        self._need_data()

    def _numbers(self, counts: npt.NDArray[np.uint64]) -> Any:
        if self._axis is None or self._axis == ():
            return int(counts.sum())
        return counts.reshape((0,) if self._shape is None else self._shape).copy()

    def _reals(self, ends: npt.ArrayLike, real: str | None = None) -> Any:
        real = real or ("float64" if self._real == "float64" else "float32")
        ends = _core.cast(np.asarray(ends, np.float64), real)
        return ends.reshape(self._shape or ())[()]

    def _bins(self) -> Any:
        from pyquant import _searches

        return _searches.Bins(self._real or "float32", self._bits, *self._counters())

    def _range(
        self,
        method: str,
        percentile: SupportsFloat | None,
        dtype: npt.DTypeLike,
        symmetric: object,
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        method, part = _check_method(method, percentile)
        name, even = _core.chosen(dtype, symmetric)
        if method == "minmax":
            self._need_data()
            largest = np.maximum(self._max, -self._min)
            return (-largest, largest) if even else (self._min, self._max)
        self._need_histogram(repr(method))
        from pyquant import _searches

        bins = self._bins()
        ends = [
            _searches.find(
                method,
                (bins, c),
                (float(self._min[c]), float(self._max[c])),
                part=part,
                name=name,
                symmetric=even,
            )
            for c in range(bins.channels)
        ]
        return np.array([lo for lo, _ in ends]), np.array([hi for _, hi in ends])


@_core.hinted
def calibrate(
    batches: Iterable[ArrayLike],
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Axis = None,
    method: _Method = "minmax",
    percentile: SupportsFloat | None = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    mantissa_bits: SupportsIndex = 7,
    momentum: SupportsFloat | None = None,
    nonfinite: Literal["raise", "ignore"] = "raise",
    threads: SupportsIndex = 1,
) -> QParams:
    """
    Choose quantization parameters from an iterable of batches.

    Each batch is passed to `Observer.update`, and `Observer.qparams` returns the result.

    Parameters
    ----------
    batches : iterable of array_like
        Arrays of float32, float64, float16 or bfloat16. The iterable is read once, so a
        generator works.
    dtype, symmetric, quant_range, scale_dtype
        See `choose_qparams`.
    method, percentile
        See `Observer.range`.
    like : str, optional
        The formula for scale and zero point, see `choose_qparams`. The range does not
        depend on it.
    axis, mantissa_bits, momentum, nonfinite
        See `Observer`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    QParams
        Parameters to quantize later batches with.

    Raises
    ------
    TypeError
        If `batches` is an array, or a batch is not an array of real numbers.
    ValueError
        If the batches contain no finite number, or if they contain NaN or an infinity and
        `nonfinite` is "raise".

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> batches = [np.float32([-4, 3]), np.float32([-8, 10, 1]), np.float32([0, 5])]
    >>> p = pq.calibrate(batches, dtype="uint8")
    >>> p.quantize(np.float32([-8, 0, 10]))
    array([  0, 113, 255], dtype=uint8)
    """
    _check_batches(batches)
    formula: dict[str, Any] = {
        "dtype": dtype,
        "symmetric": symmetric,
        "quant_range": quant_range,
        "scale_dtype": scale_dtype,
        "like": like,
    }
    # Report wrong options before the first batch is read.
    _check_method(method, percentile)
    qparams_from_range(-1.0, 1.0, **formula)
    observer = Observer(
        axis=axis,
        histogram=method != "minmax",
        mantissa_bits=mantissa_bits,
        momentum=momentum,
        nonfinite=nonfinite,
    )
    for number, batch in enumerate(batches):
        with _errors_about_batches(f" in batch {number}"):
            observer.update(batch, threads=threads)
    with _errors_about_batches(""):
        return observer.qparams(method=method, percentile=percentile, **formula)


def _check_batches(batches: object) -> None:
    """Raise TypeError if `batches` is one array, or is not iterable."""
    if isinstance(batches, str) or not hasattr(batches, "__iter__"):
        remedy = ""
    elif isinstance(batches, bytes | bytearray | memoryview) or any(
        hasattr(batches, name) for name in ("__array__", "__dlpack__")
    ):
        remedy = "; wrap one array in a list, or call choose_qparams"
    else:
        return
    got = type(batches).__name__
    msg = f"batches: expected an iterable of arrays, got {got}{remedy}"
    raise TypeError(msg)


@contextmanager
def _errors_about_batches(place: str) -> Iterator[None]:
    """Name `batches` instead of `x` in errors, and append the number of the batch."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if not str(error).startswith("x: "):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError
        fault, mark, remedy = str(error).partition("; ")
        raise kind(f"batches{fault[1:]}{place}{mark}{remedy}") from None


def _check_method(method: object, percentile: SupportsFloat | None) -> tuple[str, float]:
    """Return the method of `Observer.range` and the percentile as a fraction."""
    found = _one_of(method, _METHODS, "method")
    number = 99.99 if percentile is None else _real(percentile, "percentile")
    if percentile is not None and found != "percentile":
        msg = (
            f"percentile: expected None for method={found!r}, got {number!r}; "
            "method='percentile' uses it"
        )
        raise ValueError(msg)
    if not 50 <= number <= 100:
        hint = f" (did you mean {100 * number:.10g}?)" if 0.5 <= number <= 1 else ""
        msg = f"percentile is in percent, from 50 to 100; got {number!r}{hint}"
        raise ValueError(msg)
    return found, number / 100


# ---- helpers ----


def _unpickled(options: tuple[Any, ...], state: tuple[Any, ...]) -> Observer:
    axis, histogram, bits, nonfinite, momentum = options
    new = Observer(
        axis=axis,
        histogram=histogram,
        mantissa_bits=bits,
        momentum=momentum,
        nonfinite=nonfinite,
    )
    new._set_state(state)
    return new


def _axes(axis: object) -> int | tuple[int, ...] | None:
    axes: int | tuple[int, ...] | None = _core.integers(axis, "axis")
    if isinstance(axes, tuple) and len(set(axes)) < len(axes):
        msg = f"axis: expected different axes, got {axes}"
        raise ValueError(msg)
    return axes


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool | np.bool):
        msg = f"{name}: expected True or False, got {type(value).__name__}"
        raise TypeError(msg)
    return bool(value)


def _one_of(value: object, names: Iterable[str], name: str, expected: str = "") -> str:
    """Return `value` if it is one of these strings; `expected` describes them in errors."""
    expected = expected or f"one of {', '.join(names)}"
    if not isinstance(value, str):
        msg = f"{name}: expected {expected}, got {type(value).__name__}"
        raise TypeError(msg)
    for one in names:
        if value == one:
            return one
    from pyquant._refused import hint

    msg = f"{name}: expected {expected}, got {str(value)!r}{hint(value, names)}"
    raise ValueError(msg)


def _number(value: SupportsFloat, name: str, least: int, most: int) -> float:
    """Return a float within limits."""
    number = _real(value, name)
    if not least <= number <= most:
        msg = f"{name}: expected {least} to {most}, got {number}"
        raise ValueError(msg)
    return number


def _real(value: SupportsFloat, name: str) -> float:
    """Return a float; an integer beyond float64 becomes infinite."""
    if isinstance(value, str | bytes | bool | np.bool) or not hasattr(value, "__float__"):
        msg = f"{name}: expected a number, got {type(value).__name__}"
        raise TypeError(msg)
    try:
        return float(value)
    except TypeError:  # raised for arrays and types
        msg = f"{name}: expected a number, got {type(value).__name__}"
        raise TypeError(msg) from None
    except OverflowError:
        return np.inf


def _momentum(value: SupportsFloat, histogram: bool) -> float:
    number = _number(value, "momentum", 0, 1)
    if histogram:
        msg = "momentum: expected None beside a histogram, which has all data"
        raise ValueError(msg)
    return number


def _common(a: str | None, b: str | None, name: str, counted: bool) -> str | None:
    """Return the type that holds both types."""
    if a is None or a == b:
        return b
    if counted and "float16" in (a, b):
        msg = f"{name}: expected {a} again, as float16 is counted its own way, got {b}"
        raise ValueError(msg)
    return "float64" if "float64" in (a, b) else "float32"


class _Counters(NamedTuple):
    """
    Counters of an observer, modulo 2**16, and their overflows.

    `pages` is ascending, and `table` has the counters of each channel in a page. `places`
    are the positions of counters that reached 2**16, ascending, and `wraps` the number of
    times.
    """

    pages: npt.NDArray[np.uint16]
    table: npt.NDArray[np.uint16]
    places: npt.NDArray[np.uint64]
    wraps: npt.NDArray[np.uint64]


def _sum_counters(a: _Counters, b: _Counters) -> _Counters:
    """Return the sum of both in new arrays."""
    pages = a.pages
    if not np.array_equal(pages, b.pages):
        pages = np.union1d(pages, b.pages)
    more = _spread(b, pages)
    table = _spread(a, pages) + more
    anew = np.flatnonzero(table < more)
    if not (len(anew) or len(a.places) or len(b.places)):
        return _Counters(pages, table, a.places, a.wraps)
    places, wraps = np.concatenate([a.places, b.places]), np.concatenate([a.wraps, b.wraps])
    if len(anew):
        each = table[0].size  # counters of a page
        row, rest = np.divmod(anew, each)
        more_places = pages[row].astype(np.uint64) * np.uint64(each) + rest.astype(
            np.uint64
        )
        places = np.concatenate([places, more_places])
        wraps = np.concatenate([wraps, np.ones(len(anew), np.uint64)])
    places, at = np.unique(places, return_inverse=True)
    times, wraps = wraps, np.zeros(len(places), np.uint64)
    np.add.at(wraps, at, times)
    return _Counters(pages, table, places, wraps)


def _spread(counters: _Counters, pages: npt.NDArray[np.uint16]) -> npt.NDArray[np.uint16]:
    """Return the table with a row for each of these pages."""
    if len(pages) == len(counters.pages):
        return counters.table
    table = np.zeros((len(pages), *counters.table.shape[1:]), np.uint16)
    table[np.searchsorted(pages, counters.pages)] = counters.table
    return table


def _averaged(
    observer: Observer,
    mean: npt.NDArray[np.float64],
    new: npt.NDArray[np.float64],
    count: npt.NDArray[np.uint64],
) -> npt.NDArray[np.float64]:
    """
    Return moving averages, rounded like PyTorch.

    A channel without earlier data gets the new extreme. A channel without new data keeps
    the old one.
    """
    with np.errstate(all="ignore"):
        old, now = mean.astype(np.float32), new.astype(np.float32)
        step = np.float32(observer._momentum) * (now - old)
        averaged = np.where(observer._count == 0, now, old + step)
    return np.where(count == 0, old, averaged).astype(np.float64)
