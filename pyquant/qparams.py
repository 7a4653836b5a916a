# SPDX-License-Identifier: Apache-2.0
"""Hold scales and zero points, and choose them from data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _core

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike, Like
    from pyquant.report import ErrorReport

__all__ = ["QParams", "choose_qparams", "qparams_from_range"]


def __dir__() -> list[str]:
    return sorted(__all__)


class QParams(_core.Calls):
    """
    Immutable quantization parameters: scale, zero point, dtype, granularity.

    Parameters
    ----------
    scale : array_like
        Scales, of the shape that `axis` and `block_size` ask for; see `quantize`.
    zero_point : array_like or None
        Zero points, one or as many as scales; None is 0. They are kept in `dtype`, whatever
        type they come in.
    dtype : dtype_like
        The quantized type.
    axis, block_size : int or tuple of int, optional
        Granularity, as for `quantize`.
    offset : array_like, optional
        Real numbers, one or as many as scales may be, that are subtracted before numbers
        are divided, and added to products.
    fill : int or sequence of int, optional
        Codes that stand for NaN, which becomes the first of them.
    quant_range : (int, int), optional
        The lowest and the highest code, of those that `dtype` has. Zero points, unless all
        are 0, are among them.

    Attributes
    ----------
    scale, zero_point : ndarray
        Read-only. Zero points have the quantized type.
    dtype : numpy.dtype
        The quantized type.
    axis, block_size : int, tuple of int or None
        Granularity.
    offset : ndarray or None
        Read-only.
    fill : tuple of int or None
        Codes that stand for NaN.
    quant_range : tuple of int or None
        The lowest and the highest code.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.array([[-1.0, 0.5], [4.0, 2.0]], np.float32)
    >>> p = pq.choose_qparams(x, axis=0)
    >>> p.quantize(x)
    array([[-127,   64],
           [ 127,   64]], dtype=int8)
    """

    __slots__ = ()

    def __init__(
        self,
        scale: ArrayLike,
        zero_point: ArrayLike | None,
        dtype: npt.DTypeLike,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
        block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
        offset: ArrayLike | None = None,
        fill: SupportsIndex | Iterable[SupportsIndex] | None = None,
        quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    ) -> None:
        """Check and copy everything, so that nothing can change it."""
        self._set(scale, zero_point, dtype, axis, block_size, offset, fill, quant_range)

    @property
    def scale(self) -> npt.NDArray[Any]:
        """Scales, read-only."""
        return self._scale

    @property
    def zero_point(self) -> npt.NDArray[Any]:
        """Zero points of the quantized type, read-only.

        Where that is one of ml_dtypes, which is not installed, of int8 or uint8.
        """
        return _core.typed_zeros(self._zero_point, self._name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Quantized type: a NumPy dtype, or one of ml_dtypes."""
        return _core.dtype_named(self._name)

    @property
    def axis(self) -> int | tuple[int, ...] | None:
        """Axes along which the scale varies."""
        return self._axis

    @property
    def block_size(self) -> int | tuple[int, ...] | None:
        """Number of elements that share a scale along each axis, or None."""
        return self._block_size

    @property
    def offset(self) -> npt.NDArray[Any] | None:
        """Offsets, read-only, or None."""
        return self._offset

    @property
    def fill(self) -> tuple[int, ...] | None:
        """Codes that represent NaN, or None."""
        return self._fill

    @property
    def quant_range(self) -> tuple[int, int] | None:
        """Lowest and highest code, or None for all codes of the type."""
        return self._quant_range

    def measure_error(
        self,
        x: ArrayLike,
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
        threads: SupportsIndex = 1,
    ) -> ErrorReport:
        """
        Measure the error of ``dequantize(quantize(x))``.

        Parameters
        ----------
        x : array_like
            Real numbers. They are quantized a piece at a time, in cache.
        axis : int or tuple of int, optional
            Measure the elements at each index of these axes by themselves. Default: all
            together.
        threads : int, optional
            How many threads may share the work. The result does not depend on it.

        Returns
        -------
        ErrorReport
            What was found; also how many elements saturated.

        Raises
        ------
        TypeError, ValueError, numpy.exceptions.AxisError, ImportError
            As `quantize` does.

        Notes
        -----
        Codes are dequantized to float32, to float64 when `x` is that. Sums are those of
        `measure_error`, bit for bit. Scales count as zero where the arithmetic has them so.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> report = pq.QParams(0.5, 0, "int8").measure_error(np.float32([0.2, 100, 1]))
        >>> report.max_error, report.saturated_high
        (36.5, 1)
        """
        from pyquant.report import measure_params

        return measure_params(self, x, axis, threads)

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: the parameters never change."""
        msg = f"{name}: expected no assignment, QParams is immutable"
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        """Refuse: the parameters never change."""
        msg = f"{name}: expected no deletion, QParams is immutable"
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        """Compare type, granularity, shapes and the bits of all parameters."""
        if not isinstance(other, QParams):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        """Hash what `__eq__` compares."""
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        arrays = [
            None if a is None else (a.dtype, a.shape, a.tobytes())
            for a in (self._scale, self._zero_point, self._offset)
        ]
        rest = (self._name, self._axis, self._block_size, self._fill, self._quant_range)
        return (*arrays, *rest)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes an equal one."""
        parts = (self._scale, self._zero_point, self._name, self._axis, self._block_size)
        return (_unpickled, (*parts, *self._affine_parts()))

    def _affine_parts(self) -> tuple[Any, ...]:
        """What most parameters do not have."""
        parts = (self._offset, self._fill, self._quant_range)
        return parts if any(part is not None for part in parts) else ()

    def __repr__(self) -> str:
        """Show everything, but of long arrays a few elements of each end."""
        more = ""
        if self._offset is not None:
            more += f", offset={_shown(self._offset)}"
        if self._fill is not None:
            more += f", fill={self._fill}"
        if self._quant_range is not None:
            more += f", quant_range={self._quant_range}"
        return (
            f"QParams(scale={_shown(self._scale)}, zero_point={_shown(self.zero_point)}, "
            f"dtype={self._name!r}, axis={self._axis}, block_size={self._block_size}{more})"
        )


def _unpickled(
    scale: npt.NDArray[Any],
    zero_point: npt.NDArray[Any],
    dtype: str,
    axis: int | tuple[int, ...] | None,
    block_size: int | tuple[int, ...] | None,
    offset: npt.NDArray[Any] | None = None,
    fill: tuple[int, ...] | None = None,
    quant_range: tuple[int, int] | None = None,
) -> QParams:
    return QParams(
        scale,
        zero_point,
        dtype,
        axis=axis,
        block_size=block_size,
        offset=offset,
        fill=fill,
        quant_range=quant_range,
    )


def _shown(array: npt.NDArray[Any]) -> str:
    """The repr of an array; of a long one a line or two, whatever its dimensions."""
    shape = f".reshape{array.shape}" if array.size > 20 and array.ndim > 1 else ""
    with np.printoptions(threshold=20, edgeitems=2, floatmode="unique"):
        return repr(array.reshape(-1) if shape else array) + shape


def choose_qparams(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    symmetric: bool | np.bool | None = None,
    method: Literal["minmax", "mse"] = "minmax",
    weights: ArrayLike | None = None,
    candidates: ArrayLike | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    threads: SupportsIndex = 1,
) -> QParams:
    """
    Choose scales and zero points that cover the range of an array.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16; all finite.
    dtype : dtype_like, optional
        The quantized type, int8 by default; see `quantize`. With narrow floats the
        largest magnitude becomes their largest number.
    axis, block_size : int or tuple of int, optional
        Granularity, as for `quantize`. Default one scale for all of `x`.
    symmetric : bool, optional
        Whether the zero point is the same for all data: 0, for unsigned types the middle
        code (128 of uint8); or one that makes use of all codes. Default: symmetric for
        signed types and narrow floats, all codes for unsigned types.
    method : {"minmax", "mse"}, optional
        What decides: the extremes of the data, or the sum of squared errors, see Notes.
    weights : array_like, optional
        With "mse": finite real numbers from 0 that squared errors are multiplied by, of a
        shape that broadcasts to that of `x`.
    candidates : array_like, optional
        With "mse": numbers above 0, at most 1, that the range is multiplied by. Default
        ``1 - j / 100`` for `j` from 0 to 19.
    quant_range : (int, int), optional
        The lowest and the highest code, of those that `dtype` has, in place of all of them:
        ``(-64, 63)``, ``(-127, 127)``. `quantize` of the result saturates to it. Integers
        only.
    scale_dtype : dtype_like, optional
        float32, float64, float16, bfloat16, float8_e4m3fn or float8_e8m0fnu. A scale is
        rounded to it before anything is made of it: to nearest, to float8_e8m0fnu, the
        powers of two, upwards. What would become 0, or infinite, becomes the smallest
        positive, or the largest number. Default float32, float64 when `x` is float64.
    like : str, optional
        Whose formula: ``"onnxruntime"``, ``"pytorch"``, ``"aten"``, ``"fbgemm"``,
        ``"torchao"``, ``"torchao_no_clip"``, ``"compressed_tensors"``, ``"tflite"``,
        ``"xnnpack"`` or ``"quark_po2"``, whose numbers scales and zero points then are, bit
        for bit; see "What like= switches" in the semantics. For integers of at most 16
        bits. It does not change how codes are made. Default: the formula below.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.

    Returns
    -------
    QParams
        With scales of `scale_dtype`.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `x` holds a NaN or an infinity; the message says how many and where the first is.
        If a formula has no meaning for `dtype`, `symmetric` or `quant_range`.
    ImportError
        If a type is one of ml_dtypes, which is not installed.
    MemoryError
        If there are more scales than memory holds.

    Notes
    -----
    With ``lo = min(0, min(x))``, ``hi = max(0, max(x))`` of a group, and `qmin`, `qmax` the
    limits of `dtype`, or `quant_range`, in float64 arithmetic, the scale rounded once to
    its type::

        symmetric    scale = max(hi, -lo) / min(qmax, -qmin)
                     zero_point = 0
        unsigned     scale = max(hi, -lo) / ((qmax - qmin) / 2)
                     zero_point = floor((qmin + qmax + 1) / 2)
        asymmetric   scale = (hi - lo) / (qmax - qmin)
                     zero_point = saturate(round_half_even(qmin - lo / scale))

    Codes of both signs are symmetric around 0, others around the middle one. A group of
    zeros, or an empty one, gets scale 1. Should ``hi - lo`` overflow, both are
    halved. The scale is the next larger one where rounding down would let data saturate by
    more than half a step, and one beside it where data at the end of the range of its type
    would come back infinite: what is dequantized to the type of `x` is finite, and within
    half a step of the data, as far as the quotient and the product are not rounded.

    With ``method="mse"`` that is done for ``c * lo`` and ``c * hi`` for each of the
    candidates, rounded to float32 (float64 when `x` is float64). The first is kept for
    which ``sum(w * (dequantize(quantize(x)) - x)**2)`` is least; then, of its codes `q`
    less the zero point, ``sum(w * x * q) / sum(w * q * q)`` is the scale if that makes the
    sum less. Differences are rounded to float32 (float64), sums are float64 in an order of
    their own: the result is the same on every CPU. Groups know nothing of each other.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> p = pq.choose_qparams(np.float32([-1, 0.5, 2]), dtype="uint8", symmetric=False)
    >>> float(p.scale), int(p.zero_point)
    (0.0117647061124444, 85)
    >>> x = np.float32([0.1, -0.7, 1.25, 3, -2.5, 1.2])
    >>> for method in ("minmax", "mse"):
    ...     p = pq.choose_qparams(x, dtype="int4", method=method)
    ...     print(f"{p.scale:.4f} {p.measure_error(x).sqnr:.2f} dB")
    0.4286 25.88 dB
    0.4182 27.05 dB
    """
    return QParams._choose(
        x,
        dtype,
        axis,
        block_size,
        symmetric,
        quant_range,
        scale_dtype,
        like,
        method,
        weights,
        candidates,
        threads,
    )


def qparams_from_range(
    lo: ArrayLike,
    hi: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
) -> QParams:
    """
    Choose scales and zero points from ranges that are known.

    Parameters
    ----------
    lo, hi : array_like
        The ends of the ranges, of the shape of the scales; float32, float64, float16 or
        bfloat16, as the data is, and finite. Python's numbers, and lists of them, count as
        float32 where that holds them. A range is extended to 0.
    dtype : dtype_like, optional
        The quantized type, int8 by default; see `quantize`.
    axis, block_size : int or tuple of int, optional
        Granularity, of which the ranges are; it is kept in the result.
    symmetric, quant_range, scale_dtype, like
        As for `choose_qparams`.

    Returns
    -------
    QParams
        What `choose_qparams` says of data that has these extremes, bit for bit.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If an end is NaN or infinite, or `lo` above `hi`: the message says where. If a
        formula has no meaning for `dtype`, `symmetric` or `quant_range`.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Examples
    --------
    >>> import pyquant as pq
    >>> p = pq.qparams_from_range(-1.0, 2.0, dtype="uint8")
    >>> float(p.scale), int(p.zero_point)
    (0.0117647061124444, 85)
    >>> float(pq.qparams_from_range(-1.0, 2.0).scale)  # 2 / 127
    0.015748031437397003
    >>> float(pq.qparams_from_range(-1.0, 2.0, like="pytorch").scale)  # 2 / 127.5
    0.01568627543747425
    """
    return QParams._from_range(
        lo,
        hi,
        dtype,
        axis,
        block_size,
        symmetric,
        quant_range,
        scale_dtype,
        like,
    )
