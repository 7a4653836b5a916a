# SPDX-License-Identifier: Apache-2.0
"""Collect statistics over batches and choose quantization parameters from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from operator import index
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

from pyquant import _core, _threads
from pyquant._check import REALS, choice, fail, flag, integer, number, restoring
from pyquant.qparams import qparams_from_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike, Like
    from pyquant.qparams import QParams

    _Axis: TypeAlias = SupportsIndex | tuple[SupportsIndex, ...] | None
    _Method: TypeAlias = Literal["minmax", "percentile", "mse", "entropy"]
    _Counts: TypeAlias = npt.NDArray[np.uint64]
    _Pages: TypeAlias = npt.NDArray[np.uint16]
    _Table: TypeAlias = npt.NDArray[np.unsignedinteger[Any]]
    _Floats: TypeAlias = npt.NDArray[np.float64]
    _Reals: TypeAlias = npt.NDArray[Any]

__all__ = ["Observer", "calibrate"]

_METHODS = ("minmax", "percentile", "mse", "entropy")
__dir__: object = __all__.copy


class _Options(NamedTuple):
    axis: int | tuple[int, ...] | None
    histogram: bool
    mantissa_bits: int
    nonfinite: str
    momentum: float | None


class _State(NamedTuple):
    """
    Statistics of an observer, with an element for each channel.

    `real` is the type that holds all data. `pages` has the numbers of the pages of counters
    in ascending order, see pq.h. `table` has the counters of each page, channel and bin, in
    the smallest unsigned type of at least 16 bits that holds the counts.
    """

    real: str | None
    shape: tuple[int, ...] | None
    finite: _Counts
    nan: _Counts
    inf: _Counts
    min: _Floats
    max: _Floats
    pages: _Pages
    table: _Table

    def is_seen(self) -> bool:
        """Return True if any element was counted."""
        return any(counts.any() for counts in (self.finite, self.nan, self.inf))


_NO_COUNTS, _NO_ENDS = np.zeros(0, np.uint64), np.zeros(0)
_EMPTY = _State(
    *(None, None, _NO_COUNTS, _NO_COUNTS, _NO_COUNTS, _NO_ENDS, _NO_ENDS),
    *(np.zeros(0, np.uint16), np.zeros((0, 0, 0), np.uint16)),
)


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
        exponent. 3 uses 8 counters, which suits many channels.
    momentum : float, optional
        Keep moving averages of the extremes of each batch, like PyTorch's
        MovingAverageMinMaxObserver: ``m + momentum * (new - m)`` in float32. The averages
        depend on the order of the batches and exclude `histogram` and `merge`.
    nonfinite : {"raise", "ignore"}, optional
        "raise" (the default): NaN and infinities raise an error, and nothing of the batch
        is counted. "ignore": NaN and infinities are counted separately.

    Notes
    -----
    An observer needs 128 counters for each sign and exponent in the data. A counter has 2
    bytes, 4 if a count reaches 2**16, and 8 if it reaches 2**32. Usual data needs 10 to 60
    KiB. The maximum is 513 KiB. float16 needs up to eight times as many counters for each
    exponent, but also at most 513 KiB. With `axis`, each channel needs this memory.
    ``sys.getsizeof`` returns the present size.

    float64 values are truncated toward zero to float32 before they are counted. float16 has
    3 more bits of mantissa, which are counted exactly. An observer of float16 data accepts
    no other types.

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

    __slots__ = ("_options", "_state")

    _options: _Options
    _state: _State

    def __init__(
        self,
        *,
        axis: _Axis = None,
        histogram: bool = False,
        mantissa_bits: SupportsIndex = 7,
        momentum: SupportsFloat | None = None,
        nonfinite: Literal["raise", "ignore"] = "raise",
    ) -> None:
        counted = flag(histogram, "histogram")
        axes: int | tuple[int, ...] | None = _core.integers(axis, "axis")
        if isinstance(axes, tuple) and len(set(axes)) < len(axes):
            raise fail(ValueError, "axis", "different axes", f"{axes}")
        bits = integer(mantissa_bits, "mantissa_bits", 0, 7)
        known = ("raise", "ignore")
        found = choice(nonfinite, "nonfinite", known, "'raise' or 'ignore'")
        rate = None if momentum is None else number(momentum, "momentum", 0, 1)
        if rate is not None and counted:
            said = "expected None beside a histogram, which has all data"
            raise ValueError(f"momentum: {said}")
        self._options = _Options(axes, counted, bits, found, rate)
        self._state = _EMPTY

    # ---- add data ----

    def update(self, x: ArrayLike, *, threads: SupportsIndex = 1) -> None:
        """
        Add a batch.

        Parameters
        ----------
        x : array_like
            float32, float64, float16 or bfloat16 array of any shape, strides and byte
            order. The array may be empty. The extents along `axis` must equal the extents
            of earlier batches.
        threads : int, optional
            Largest number of threads. Default 1. The result does not depend on `threads`.

        Raises
        ------
        ValueError
            If values are not finite, or the extents along `axis` differ. Nothing is
            counted.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> o = pq.Observer(axis=0)
        >>> o.update(np.float32([[1, 2], [-3, 5]]))
        >>> o.max
        array([2., 5.], dtype=float32)
        """
        by = self._options
        how = by.axis, by.histogram, by.mantissa_bits, by.nonfinite == "ignore"
        *state, table = _core.observed(x, *how, threads)
        found = _State._make((*state, _smallest(table)))
        if by.momentum is not None:
            found = _averaged(self._state, found, by.momentum)
        self._state = self._sum(found, "x")

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
            If `other` is not an Observer, or one of the observers has moving averages,
            which depend on the order of the batches.
        ValueError
            If an option or the shape differs. Nothing is added.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> a, b = pq.Observer(), pq.Observer()
        >>> a.update(np.float32([1, 2]))
        >>> b.update(np.float32([-5]))
        >>> a.merge(b)
        >>> float(a.min), a.count
        (-5.0, 3)
        """
        if not isinstance(other, Observer):
            raise fail(TypeError, "other", "an Observer", type(other))
        if self._options.momentum is not None or other._options.momentum is not None:
            got = "moving averages (momentum)"
            raise fail(TypeError, "other", "extremes to merge", got)
        options = zip(_Options._fields, self._options, other._options, strict=True)
        for name, mine, its in options:
            if mine != its:
                raise fail(ValueError, "other", f"{name}={mine!r}", f"{its!r}")
        self._state = self._sum(other._state, "other")

    def copy(self) -> Observer:
        """
        Return an independent observer with equal state.

        Returns
        -------
        Observer
            The copy.

        Examples
        --------
        >>> import pyquant as pq
        >>> o = pq.Observer()
        >>> o.copy() == o
        True
        """
        return _made(self._options, self._state)

    __copy__ = copy

    def __add__(self, other: Observer) -> Observer:
        """Return an observer with the statistics of both observers."""
        if not isinstance(other, Observer):
            return NotImplemented
        new = self.copy()
        new.merge(other)
        return new

    def __radd__(self, other: object) -> Observer:
        """Support `sum`, which starts with 0."""
        return self.copy() if type(other) is int and other == 0 else NotImplemented

    def to_dict(self) -> dict[str, Any]:
        """
        Return options and statistics as JSON types.

        Returns
        -------
        dict
            A mapping for ``json.dumps`` and `from_dict`. Its key "schema" is 1.

        Examples
        --------
        >>> import json
        >>> import numpy as np
        >>> import pyquant as pq
        >>> o = pq.Observer(histogram=True)
        >>> o.update(np.float32([1, 2, -3]))
        >>> text = json.dumps(o.to_dict())
        >>> pq.Observer.from_dict(json.loads(text)) == o
        True
        """
        state = self._state
        made: dict[str, Any] = {"schema": 1, **self._options._asdict()}
        for name, value in state._asdict().items():
            made[name] = value.tolist() if isinstance(value, np.ndarray) else value
        for name in ("min", "max"):  # JSON has no infinities
            made[name] = [
                x if n else None for x, n in zip(made[name], state.finite, strict=True)
            ]
        return made

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Observer:
        """
        Return an observer from the result of `to_dict`.

        Parameters
        ----------
        data : mapping
            The result of `to_dict`.

        Returns
        -------
        Observer
            An observer that equals the original.

        Raises
        ------
        TypeError, ValueError
            If `data` is not a result of `to_dict`, or has another schema.

        Examples
        --------
        >>> import pyquant as pq
        >>> o = pq.Observer(axis=0)
        >>> pq.Observer.from_dict(o.to_dict()) == o
        True
        """
        with restoring(data):
            axis = data["axis"]
            options = {name: data[name] for name in _Options._fields}
            options["axis"] = tuple(axis) if isinstance(axis, list) else axis
            made = cls(**options)
            made._state = _state_of(data, made._options.mantissa_bits)
        return made

    def __eq__(self, other: object) -> bool:
        """Compare options and all statistics."""
        if not isinstance(other, Observer):
            return NotImplemented
        return self._options == other._options and all(
            np.array_equal(a, b)  # type: ignore[arg-type]
            for a, b in zip(self._state, other._state, strict=True)
        )

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle options and state."""
        return _made, (self._options, self._state)

    def __sizeof__(self) -> int:
        """Return the size in bytes, including the arrays of statistics."""
        arrays = (v for v in self._state if isinstance(v, np.ndarray))
        return object.__sizeof__(self) + sum(array.nbytes for array in arrays)

    def __repr__(self) -> str:
        """Show options, extremes and count in one line."""
        by, state = self._options, self._state
        seen = int(state.finite.sum())
        more = "" if by.momentum is None else f", momentum={by.momentum}"
        if seen:
            more += f", min={state.min.min():.9g}, max={state.max.max():.9g}"
        return (
            f"Observer(axis={by.axis}, histogram={by.histogram}, "
            f"mantissa_bits={by.mantissa_bits}{more}, count={seen})"
        )

    # ---- statistics ----

    @property
    def axis(self) -> int | tuple[int, ...] | None:
        """Axes with separate statistics for each index, or None."""
        return self._options.axis

    @property
    def count(self) -> Any:
        """Number of finite values."""
        return self._numbers(self._state.finite)

    @property
    def nan(self) -> Any:
        """Number of NaN values."""
        return self._numbers(self._state.nan)

    @property
    def inf(self) -> Any:
        """Number of infinite values."""
        return self._numbers(self._state.inf)

    @property
    def min(self) -> Any:
        """
        Smallest finite value, with the shape that `axis` selects.

        The type is float64 if a batch was float64, else float32. Without data the attribute
        raises ValueError.
        """
        self._need_data()
        return self._reals(self._state.min)

    @property
    def max(self) -> Any:
        """Largest finite value, see `min`."""
        self._need_data()
        return self._reals(self._state.max)

    def quantile(self, q: SupportsFloat) -> tuple[Any, Any]:
        """
        Return a lower and an upper bound of a quantile.

        Parameters
        ----------
        q : float
            From 0 to 1. For n values, the quantile is the value of rank ``max(1, ceil(q *
            n))``, like ``numpy.quantile(..., method="inverted_cdf")``.

        Returns
        -------
        low, high : numpy scalar or ndarray
            Bounds with the shape and type of `min` and `max`. With 7 mantissa bits, the
            bounds differ by at most 1/128 of the magnitude. For float16 and bfloat16, the
            bounds are equal.

        Raises
        ------
        ValueError
            If `q` is out of range, or there is no histogram, or no data.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> o = pq.Observer(histogram=True)
        >>> o.update(np.arange(9, dtype=np.float32))
        >>> [float(x) for x in o.quantile(0.5)]
        [4.0, 4.031249523162842]
        """
        at = number(q, "q", 0, 1)
        self._need_histogram("quantile")
        low, high = self._bins().quantiles(at)
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
            "minmax" (the default): the extremes. "percentile": keep the central
            `percentile` percent of the values. "mse": minimize the expected squared error.
            "entropy": minimize the loss of information by TensorRT's rule, based on
            magnitudes. All methods except "minmax" need ``histogram=True``.
        percentile : float, optional
            For "percentile" only: the percentage of values to keep, from 50 to 100. Default
            99.99. A symmetric range counts magnitudes. All other ranges cut off half of the
            remaining values at each end. Ends are accurate to a bin of the histogram.
        dtype : dtype_like, optional
            The quantized type, which affects "mse" and "entropy". Default int8.
        symmetric : bool, optional
            True: make the range symmetric around 0. Default: the rule of `choose_qparams`.

        Returns
        -------
        lo, hi : numpy scalar or ndarray
            Ends of the range, with the shape and type of `min` and `max`. The range is
            within the extremes, except that a symmetric range has ``-lo == hi``.

        Raises
        ------
        ValueError
            If there is no data, the method is unknown, the method needs a histogram, or
            `percentile` is out of range or given for another method.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> o = pq.Observer()
        >>> o.update(np.float32([-1, 3]))
        >>> [float(x) for x in o.range(dtype="uint8")]
        [-1.0, 3.0]
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
        include_zero: bool | np.bool = True,
        quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
        scale_dtype: npt.DTypeLike | None = None,
        like: Like | None = None,
    ) -> QParams:
        """
        Choose scales and zero points from the statistics.

        Parameters
        ----------
        dtype : dtype_like, optional
            See `choose_qparams`.
        method, percentile
            See `range`.
        symmetric, include_zero, quant_range, scale_dtype, like
            See `choose_qparams`.

        Returns
        -------
        QParams
            With "minmax" the result equals `choose_qparams` on all data.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> x = np.float32([-1, 3])
        >>> o = pq.Observer()
        >>> o.update(x)
        >>> o.qparams("uint8") == pq.choose_qparams(x, dtype="uint8")
        True
        """
        keeps = flag(include_zero, "include_zero")
        ends = self._range(method, percentile, dtype, symmetric if keeps else False)
        if method == "minmax":  # formulas may need both extremes
            ends = self._state.min, self._state.max
        lo, hi = (self._reals(end, self._state.real) for end in ends)
        return qparams_from_range(
            lo,
            hi,
            dtype=dtype,
            axis=self._options.axis,
            symmetric=symmetric,
            include_zero=keeps,
            quant_range=quant_range,
            scale_dtype=scale_dtype,
            like=like,
        )

    # ---- state ----

    def _sum(self, found: _State, name: str) -> _State:
        """Return the sum of both states in new arrays, because observers may share the old
        arrays."""
        mine = self._state
        if found.shape is None:
            return mine
        if mine.shape is None:
            return found if found.is_seen() else found._replace(real=None)
        if mine.shape != found.shape:
            raise fail(ValueError, name, f"channels {mine.shape}", found.shape)
        real = mine.real
        if found.is_seen():
            real = _common(real, found.real, name, self._options.histogram)
        lowest, highest = found.min, found.max
        if self._options.momentum is None:
            lowest, highest = np.minimum(lowest, mine.min), np.maximum(highest, mine.max)
        pages, table = mine.pages, mine.table
        if self._options.histogram:
            if pages.tobytes() != found.pages.tobytes():
                pages = np.union1d(pages, found.pages)
            most = int(mine.table.max(initial=0)) + int(found.table.max(initial=0))
            both = [_spread(pages, one.pages, one.table) for one in (mine, found)]
            table = _smallest(np.add(*both, dtype=_type_of(most)))
        return _State(
            real,
            mine.shape,
            mine.finite + found.finite,
            mine.nan + found.nan,
            mine.inf + found.inf,
            lowest,
            highest,
            pages,
            table,
        )

    def _need_data(
        self, name: str = "Observer", remedy: str = "; add data with update(x)"
    ) -> None:
        count, axis = self._state.finite, self._options.axis
        if self._state.shape is None or not count.all() or not count.size:
            expected = "at least one finite number, got none"
            if axis is not None and count.any():
                expected = f"finite numbers of each index of axis {axis}"
            raise ValueError(f"{name}: expected {expected}{remedy}")

    def _need_histogram(self, what: str) -> None:
        if not self._options.histogram:
            expected = f"Observer(histogram=True) for {what}"
            raise fail(ValueError, "histogram", expected, "False")
        self._need_data()

    def _numbers(self, counts: npt.NDArray[np.uint64]) -> Any:
        if self._options.axis in (None, ()):
            return int(counts.sum())
        shape = self._state.shape
        return counts.reshape((0,) if shape is None else shape).copy()

    def _reals(self, ends: npt.ArrayLike, real: str | None = None) -> Any:
        real = real or ("float64" if self._state.real == "float64" else "float32")
        ends = _core.cast(np.asarray(ends, np.float64), real)
        return ends.reshape(self._state.shape or ())[()]

    def _bins(self) -> Any:
        from pyquant import _searches

        state, bits = self._state, self._options.mantissa_bits
        extremes = state.min, state.max
        real = state.real or "float32"
        return _searches.Bins(real, bits, state.pages, state.table, extremes)

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
            lowest, highest = self._state.min, self._state.max
            largest = np.maximum(highest, -lowest)
            return (-largest, largest) if even else (lowest, highest)
        self._need_histogram(repr(method))
        found: tuple[_Floats, _Floats] = self._bins().ranges(method, part, name, even)
        return found


@_core.hinted
def calibrate(
    batches: Iterable[ArrayLike],
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Axis = None,
    method: _Method = "minmax",
    percentile: SupportsFloat | None = None,
    symmetric: bool | np.bool | None = None,
    include_zero: bool | np.bool = True,
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
    dtype : dtype_like, optional
        See `choose_qparams`.
    axis : int or tuple of int, optional
        See `Observer`.
    method, percentile
        "minmax" (the default), "percentile", "mse" or "entropy"; see `Observer.range`.
        `percentile` is the percentage of values to keep. For 99.9, a symmetric range omits
        0.1 % of the magnitudes, and any other range 0.05 % of the values at each end.
    symmetric, include_zero, quant_range, scale_dtype
        See `choose_qparams`.
    like : str, optional
        The formula for scale and zero point, see `choose_qparams`. The range does not
        depend on `like`.
    mantissa_bits, momentum, nonfinite
        See `Observer`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

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
        "include_zero": include_zero,
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
    for i, batch in enumerate(batches):
        try:
            observer.update(batch, threads=threads)
        except (TypeError, ValueError) as error:
            if not str(error).startswith("x: "):
                raise
            # In the message, name `batches` instead of `x`, and append the index of the
            # batch.
            kind = TypeError if isinstance(error, TypeError) else ValueError
            fault, mark, remedy = str(error).partition("; ")
            raise kind(f"batches{fault[1:]} in batch {i}{mark}{remedy}") from None
    observer._need_data("batches", "")
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
    raise fail(TypeError, "batches", "an iterable of arrays", f"{got}{remedy}")


def _check_method(method: object, percentile: SupportsFloat | None) -> tuple[str, float]:
    """Return the method of `Observer.range` and the percentile as a fraction."""
    found: str = choice(method, "method", _METHODS)
    part = 99.99 if percentile is None else number(percentile, "percentile")
    if percentile is not None and found != "percentile":
        got = f"{part!r}; method='percentile' uses it"
        raise fail(ValueError, "percentile", f"None for method={found!r}", got)
    if not 50 <= part <= 100:
        hint = f" (did you mean {100 * part:.10g}?)" if 0.5 <= part <= 1 else ""
        raise ValueError(f"percentile is in percent, from 50 to 100; got {part!r}{hint}")
    return found, part / 100


# ---- helpers ----


def _made(options: _Options, state: _State) -> Observer:
    new = Observer.__new__(Observer)
    new._options, new._state = options, state
    return new


def _state_of(data: Mapping[str, Any], mantissa_bits: int) -> _State:
    """Return the statistics that a result of `to_dict` contains."""
    if data["shape"] is None:
        return _EMPTY
    shape = tuple(map(index, data["shape"]))
    n, rows = math.prod(shape), len(data["pages"])
    sizes = {"pages": (rows,), "table": (rows, n, 1 << mantissa_bits)}
    state = {"real": data["real"], "shape": shape}
    for name in ("finite", "nan", "inf", "pages", "table"):
        found = np.array(data[name] or np.zeros(0, np.uint64))
        if found.dtype.kind not in "iu" or found.min(initial=0) < 0:
            raise ValueError(f"{name}: expected integers of at least 0")
        state[name] = found.astype(np.uint64).reshape(sizes.get(name, (n,)))
    for name, empty in (("min", np.inf), ("max", -np.inf)):
        ends = [empty if x is None else number(x, name) for x in data[name]]
        state[name] = np.array(ends, np.float64).reshape(n)
    state["pages"] = state["pages"].astype(np.uint16)
    state["table"] = _smallest(state["table"])
    if state["real"] is not None:
        choice(state["real"], "real", REALS)
    if (np.diff(state["pages"].astype(int), prepend=-1, append=512) <= 0).any():
        raise ValueError("pages: expected ascending numbers from 0 to 511")
    return _State(**state)


def _common(a: str | None, b: str | None, name: str, counted: bool) -> str | None:
    """Return the type that holds all values of two types of data."""
    if a is None or a == b:
        return b
    if counted and "float16" in (a, b):
        expected = f"{a} again, as float16 is counted its own way"
        raise fail(ValueError, name, expected, b)
    return "float64" if "float64" in (a, b) else "float32"


def _spread(rows: _Pages, pages: _Pages, counts: _Table) -> _Table:
    """Return the counters of some pages as a table with a row for each page of `rows`."""
    if len(rows) == len(pages):
        return counts
    table = np.zeros((len(rows), *counts.shape[1:]), counts.dtype)
    table[np.searchsorted(rows, pages)] = counts
    return table


def _type_of(most: int) -> Any:
    return np.uint16 if most < 1 << 16 else np.uint32 if most < 1 << 32 else np.uint64


def _smallest(table: _Table) -> _Table:
    """Return the counters in the smallest type that holds all counts."""
    if table.dtype == np.uint16:
        return table
    return table.astype(_type_of(int(table.max(initial=0))), copy=False)


def _averaged(before: _State, found: _State, momentum: float) -> _State:
    """
    Replace the extremes of `found` by moving averages, rounded like PyTorch.

    A channel without earlier data gets the new extreme. A channel without new data keeps
    the old average.
    """

    def average(mean: _Floats, new: _Floats) -> _Floats:
        with np.errstate(all="ignore"):
            now = new.astype(np.float32)
            if before.shape != found.shape:
                return now.astype(np.float64)
            old = mean.astype(np.float32)
            step = np.float32(momentum) * (now - old)
            averaged = np.where(before.finite == 0, now, old + step)
        return np.where(found.finite == 0, old, averaged).astype(np.float64)

    return found._replace(
        real="float32",
        min=average(before.min, found.min),
        max=average(before.max, found.max),
    )


# ---- channels ----

# Least number of contiguous elements that csrc/ops/histogram.c counts without a copy.
_RUN = 256
# Least number of elements of a channel that is counted separately. The limit exists because
# the search for nonempty counters takes time. float16 has eight times as many counters.
_LONG, _LONG_OF_F16 = 1 << 15, 1 << 17


def _is_worth(x: _Reals, axes: tuple[int, ...], parts: int) -> bool:
    """Return True if counting each channel separately is faster than counting all channels
    together."""
    size = x.size // math.prod(x.shape[d] for d in axes)
    if size < (_LONG_OF_F16 if x.dtype.char == "e" else _LONG):
        return False
    if parts > 1 and size * x.itemsize < parts * _threads.MIN_PART_BYTES:
        return False
    run = 1  # number of contiguous elements
    for stride, n in sorted(
        (x.strides[d], x.shape[d]) for d in range(x.ndim) if d not in axes
    ):
        if n > 1 and stride != run * x.itemsize:
            break
        run *= n
    return run >= _RUN


def observed_apart(
    count: Callable[..., tuple[Any, ...]],
    x: _Reals,
    axes: tuple[int, ...],
    parts: int,
    *options: Any,
) -> tuple[_Reals, ...] | None:
    """
    Count a few long channels of `x`, each channel like a separate array. See
    `_core.observed`.

    Return `None` if counting all channels together is faster. Also return `None` if some
    numbers are not finite, because only the common count reports the index in `x`.
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
    spread = [_spread(rows, *one) for one in zip(pages, tables, strict=True)]
    return (*map(np.concatenate, numbers), rows, np.concatenate(spread, axis=1))


def joined(
    parts: list[tuple[memoryview, list[int], int, int]],
    size: int,
    channels: int,
    width: int,
) -> tuple[_Pages, _Table]:
    """
    Add the counters of the parts of an array. Return the numbers of the pages and the
    table.

    A channel has `size` elements. A part is a tuple: the memory of the counters, the number
    of the page of each row, the number of counters of a row with padding, and the number of
    copies of each counter in a row.
    """
    sums = _type_of(size)
    kind = sums if sums != np.uint64 else np.uint32  # type of the counters of a part
    found = []
    for memory, pages, length, lanes in parts:
        rows = np.frombuffer(memory, kind).reshape(len(pages), length)
        counts = rows[:, : lanes * channels * width]
        found.append((pages, counts.reshape(len(pages), lanes, channels, width)))
    all_pages = np.unique(np.concatenate([pages for pages, _ in found])).astype(np.uint16)
    if len(found) == 1:
        [(pages, counts)] = found
        counts = counts[np.argsort(pages)]
        return all_pages, counts.sum(1, kind) if counts.shape[1] > 1 else counts[:, 0]
    table: _Table = np.zeros((len(all_pages), channels, width), sums)
    for pages, counts in found:
        table[np.searchsorted(all_pages, pages)] += counts.sum(1, kind)
    return all_pages, table
