# SPDX-License-Identifier: Apache-2.0
"""Store scales and zero points, and choose scales and zero points from data."""

from __future__ import annotations

from functools import partial
from itertools import product
from math import isfinite, prod
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _check, _core, dtypes
from pyquant._check import Immutable
from pyquant.dtypes import TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

    from pyquant._typing import ArrayLike, Like, ScaleRule
    from pyquant.report import ErrorReport

__all__ = ["QParams", "choose_qparams", "qparams_from_range"]
__dir__: object = __all__.copy


class QParams(Immutable, _core.Calls):
    """
    Immutable quantization parameters: scale, zero point, dtype, granularity.

    Parameters
    ----------
    scale : array_like
        Scales. `axis` and `block_size` determine the shape, see `quantize`.
    zero_point : array_like, optional
        Zero points of any integer type: one element, or the shape of `scale`. Default 0.
        Zero points are stored as `dtype`.
    dtype : dtype_like, optional
        The quantized type. Default int8.
    axis, block_size : int or tuple of int, optional
        The granularity, see `quantize`.
    offset : array_like, optional
        Real numbers: one element, or the shape of `scale`. `quantize` subtracts offsets
        before the division, and `dequantize` adds offsets to the products.
    fill : int or sequence of int, optional
        Codes that represent NaN. NaN becomes the first code.
    quant_range : (int, int), optional
        Lowest and highest code, within the range of `dtype`. The range must contain all
        zero points, unless every zero point is 0.
    scale_dtype : dtype_like, optional
        float8_e8m0fnu: round `scale` to powers of two. Default: keep the type of `scale`.
    scale_rule : {"floor", "ceil", "even", "rceil"}, optional
        Round scales down ("floor"), up ("ceil", "rceil"; the default) or to the nearest
        power of two ("even"; ties up). `scale_rule` needs `scale_dtype`.

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
        zero_point: ArrayLike | None = None,
        dtype: npt.DTypeLike = "int8",
        *,
        axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
        block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
        offset: ArrayLike | None = None,
        fill: SupportsIndex | Iterable[SupportsIndex] | None = None,
        quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
        scale_dtype: npt.DTypeLike | None = None,
        scale_rule: ScaleRule | None = None,
    ) -> None:
        """Check and copy all arguments, so that no caller can change them later."""
        if scale_dtype is not None or scale_rule is not None:
            from pyquant.weights.mx import rounded_scales

            scale = rounded_scales(scale, scale_dtype, scale_rule or "ceil")
        self._set(scale, zero_point, dtype, axis, block_size, offset, fill, quant_range)

    @property
    def scale(self) -> npt.NDArray[Any]:
        """Scales, read-only."""
        return self._scale

    @property
    def zero_point(self) -> npt.NDArray[Any]:
        """
        Zero points of the quantized type, read-only.

        If the type needs ml_dtypes and the package is not installed, the type is int8 or
        uint8.
        """
        return _core.typed_zeros(self._zero_point, self._name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Quantized type: a dtype of NumPy or of the package ml_dtypes."""
        return _core.dtype_named(self._name)

    @property
    def axis(self) -> int | tuple[int, ...] | None:
        """Axes along which the scale varies, or `None`."""
        return self._axis

    @property
    def block_size(self) -> int | tuple[int, ...] | None:
        """Number of elements that share a scale along each axis, or `None`."""
        return self._block_size

    @property
    def offset(self) -> npt.NDArray[Any] | None:
        """Offsets, read-only, or `None`."""
        return self._offset

    @property
    def fill(self) -> tuple[int, ...] | None:
        """Codes that represent NaN, or `None`."""
        return self._fill

    @property
    def quant_range(self) -> tuple[int, int] | None:
        """Lowest and highest code, or `None` for all codes of the type."""
        return self._quant_range

    @classmethod
    @_core.default_fpenv
    def from_normalization(
        cls, mean: ArrayLike, std: ArrayLike, *, axis: SupportsIndex | None = None
    ) -> QParams:
        """
        Return the parameters of uint8 pixels that a model normalizes.

        `dequantize` of pixels then returns ``(pixels / 255 - mean) / std``, with one
        rounded product and one rounded sum.

        Parameters
        ----------
        mean, std : array_like
            Real numbers of equal shape, for pixels from 0 to 1: one for each channel, or
            one number for all channels.
        axis : int, optional
            The axis of the channels: -3 for planes, also in a batch; -1 if channels are
            last. Default: one number for all channels.

        Returns
        -------
        QParams
            uint8 parameters: ``scale = 1 / (255 * std)`` and ``offset = -mean / std``, each
            computed in float64 and rounded once to float32.

        Raises
        ------
        TypeError, ValueError
            If the numbers are not real, shapes differ, a mean is above 1, an element of
            `std` is 0, or several numbers are given without `axis`.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> p = pq.QParams.from_normalization([0.5, 0.25, 0.5], [0.5, 0.5, 0.25], axis=0)
        >>> image = np.uint8([[[0, 255, 255]]])  # height, width, channels
        >>> p.dequantize(image.transpose(2, 0, 1)).ravel()
        array([-1. ,  1.5,  2. ], dtype=float32)
        """
        means = _core.cast(_core.as_reals(mean, "mean"), "float64")
        stds = _core.cast(_core.as_reals(std, "std"), "float64")
        _check.array(stds, "std", ("float64",), means.shape)
        if not stds.all():
            raise _check.fail(ValueError, "std", "numbers other than 0", "0")
        if means.size and means.max() > 1:
            expected = "numbers for pixels from 0 to 1; divide mean and std by 255"
            raise _check.fail(ValueError, "mean", expected, f"{means.max():g}")
        if axis is None and means.ndim == 1:
            raise _check.fail(ValueError, "axis", "the axis of the channels", None)
        with np.errstate(all="ignore"):
            scale, offset = 1 / (255 * stds), -means / stds
        return cls(
            _core.cast(scale, "float32"),
            dtype="uint8",
            axis=axis,
            offset=_core.cast(offset, "float32"),
        )

    @classmethod
    def from_pcm(cls, bits: SupportsIndex) -> QParams:
        """
        Return the parameters of audio samples (PCM), for real numbers from -1 to 1.

        Parameters
        ----------
        bits : {8, 16, 24, 32}
            Bits of a sample. 8: uint8 with zero point 128, as WAV files store it. Else
            signed integers: int16, or int32 for 24 and 32 bits.

        Returns
        -------
        QParams
            Parameters with the scale ``2**(1 - bits)``, and for 24 bits with `quant_range`.

        Raises
        ------
        TypeError, ValueError
            If `bits` has another type or value.

        Notes
        -----
        The layout "int24" stores each 24-bit sample in three bytes, see `Layout`. For
        interleaved samples, ``samples.reshape(-1, channels).T`` has a row for each channel.
        `quantize` rounds half to even and saturates. ``quantize(...,
        rounding="stochastic")`` adds dither.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> pcm = pq.QParams.from_pcm(16)
        >>> pcm.dequantize(np.int16([-32768, 0, 8192]))
        array([-1.  ,  0.  ,  0.25], dtype=float32)
        >>> pcm.quantize([0.5, 1.0])
        array([16384, 32767], dtype=int16)
        """
        width = _check.integer(bits, "bits")
        if width not in (8, 16, 24, 32):
            raise _check.fail(ValueError, "bits", "8, 16, 24 or 32", width)
        most = 1 << (width - 1)
        if width == 8:
            return cls(1 / most, most, "uint8")
        name = "int16" if width == 16 else "int32"
        limits = (-most, most - 1) if width == 24 else None
        return cls(1 / most, dtype=name, quant_range=limits)

    def requantize(
        self,
        q: ArrayLike,
        source: QParams,
        *,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]:
        """
        Convert codes of other parameters to codes of these parameters.

        Parameters
        ----------
        q : array_like
            Codes of the type of `source`, of any shape and strides, with a code in each
            element.
        source : QParams
            The parameters of `q`.
        out : ndarray, optional
            Array for the result, of the exact shape and dtype, with any strides.
        threads : int, optional
            Largest number of threads. Default 1. The result does not depend on `threads`.

        Returns
        -------
        ndarray
            ``self.quantize(source.dequantize(q))``, bit for bit, without the array of real
            numbers.

        Raises
        ------
        TypeError
            If `q` does not have the type of `source`, or is a PackedArray.
        ValueError, numpy.exceptions.AxisError
            If a shape is wrong, or `out` overlaps `q`.

        Notes
        -----
        Quotients are rounded half to even. The first call for a `source` compares both ways
        for all 256 codes of each group, if source and result have 8 bits. If one
        multiplication gives equal codes, later calls use it. Parameters keep the
        multiplication of the last `source` only, so reuse both objects.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> mean, std = [0.5, 0.4, 0.3], [0.25, 0.2, 0.3]
        >>> pixels = pq.QParams.from_normalization(mean, std, axis=0)
        >>> model_input = pq.QParams(0.02, -12, "int8")
        >>> image = np.uint8([[[0, 128, 255]]])  # height, width, channels
        >>> model_input.requantize(image.transpose(2, 0, 1), pixels).ravel()
        array([-112,   13,  105], dtype=int8)
        """
        if not isinstance(source, QParams):
            raise _check.fail(TypeError, "source", "a QParams", type(source))
        return _core.requantize_codes(self, source, q, out, threads)

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
            Real numbers, which are quantized in parts that fit the cache.
        axis : int or tuple of int, optional
            Measure each index of these axes separately. Default: one measurement of all
            elements.
        threads : int, optional
            Largest number of threads. Default 1. The result does not depend on `threads`.

        Returns
        -------
        ErrorReport
            The error statistics, for example `sqnr` in dB and the number of saturated
            elements.

        Raises
        ------
        TypeError, ValueError, numpy.exceptions.AxisError, ImportError
            See `quantize`.

        Notes
        -----
        Codes are dequantized to float32, or to float64 if `x` is float64. All sums equal
        the sums that `measure_error` computes for the dequantized codes, bit for bit.
        `zero_scales` counts the elements whose scale the arithmetic treats as zero.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> report = pq.QParams(0.5, 0, "int8").measure_error(np.float32([0.2, 100, 1]))
        >>> report.max_error, report.saturated_high
        (36.5, 1)
        """
        from pyquant.report import report_of

        return report_of(axis, *_core.measure_params(self, x, axis, threads))

    @_core.default_fpenv
    def __eq__(self, other: object) -> bool:
        """Compare type, granularity, shapes and the bits of all parameters."""
        if not isinstance(other, QParams):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        """Hash the values that `__eq__` compares."""
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return tuple(
            (v.dtype, v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v
            for v in self._parts().values()
        )

    def _parts(self) -> dict[str, Any]:
        """Return the constructor's arguments for an equal object."""
        return {
            "scale": self._scale,
            "zero_point": self._zero_point,
            "dtype": self._name,
            "axis": self._axis,
            "block_size": self._block_size,
            "offset": self._offset,
            "fill": self._fill,
            "quant_range": self._quant_range,
        }

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a call that builds an equal object."""
        given = {k: v for k, v in self._parts().items() if v is not None}
        return partial(QParams, **given), ()

    @_core.default_fpenv
    def to_dict(self) -> dict[str, Any]:
        """
        Return all parameters as JSON types.

        Returns
        -------
        dict
            A mapping for ``json.dumps`` and `from_dict`. Its key "schema" is 1. Arrays have
            a type, a shape and a list of numbers. NaN and infinities, which JSON lacks, are
            strings with their bits.

        Examples
        --------
        >>> import json
        >>> import pyquant as pq
        >>> p = pq.QParams([0.5, 0.25], 3, "uint8", axis=0)
        >>> text = json.dumps(p.to_dict())
        >>> pq.QParams.from_dict(json.loads(text)) == p
        True
        """
        return {"schema": 1} | {k: _plain(v) for k, v in self._parts().items()}

    @classmethod
    @_core.default_fpenv
    def from_dict(cls, data: Mapping[str, Any]) -> QParams:
        """
        Return parameters from the result of `to_dict`.

        Parameters
        ----------
        data : mapping
            The result of `to_dict`.

        Returns
        -------
        QParams
            Parameters that equal the original, bit for bit.

        Raises
        ------
        ValueError
            If `data` is not a result of `to_dict`, or has another schema.
        ImportError
            If a type needs ml_dtypes and the package is not installed.

        Examples
        --------
        >>> import pyquant as pq
        >>> p = pq.choose_qparams([1.0, -0.3], dtype="uint8")
        >>> pq.QParams.from_dict(p.to_dict()) == p
        True
        """
        with _check.restoring(data):
            return cls(**{k: _restored(v) for k, v in data.items() if k != "schema"})

    @_core.default_fpenv
    def __repr__(self) -> str:
        """Show all parameters, but only the ends of long arrays."""
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


_MOST_GROUPS = 4096  # for which `rescaling` compares all codes


@_core.default_fpenv
def rescaling(target: QParams, source: QParams) -> tuple[Any, ...] | None:
    """Return scale, zero point, axis and offset of a multiplication that converts 8-bit
    codes like `QParams.requantize`. Return `None` if no multiplication gives equal codes.

    Each step of `requantize` is rounded, so the nearest float32 scale and offset may give
    other codes. The function therefore also tries the neighbours of both numbers.
    """
    each = source, target
    leads = [(one, _lead(one)) for one in each]
    shapes = {(one._axis, lead.shape) for one, lead in leads if lead.size != 1}
    axis, shape = next(iter(shapes), (None, ()))
    groups = prod(shape)
    if not (
        {one._name for one in each} <= {"int8", "uint8"}
        and all(one._fill is one._quant_range is one._block_size is None for one in each)
        and all((one._axis is None) == (lead.size == 1) for one, lead in leads)
        and len(shapes) <= 1
        and 0 < groups <= _MOST_GROUPS
    ):
        return None
    first, last = (_of_columns(one, groups) for one in each)
    codes = np.arange(256, dtype=np.uint8).view(source._name)
    codes = np.broadcast_to(codes[:, None], (256, groups))
    expected = last.quantize(first.dequantize(codes))
    zero, left = last._zero_point, np.ones(groups, bool)
    made = np.empty((2, groups), np.float32)
    for factor, offset in _factors(first, last):
        got = _core.quantize(
            codes.astype(np.float32),
            factor,
            zero,
            dtype=target._name,
            axis=1,
            offset=offset,
            inverse=True,
        )
        fits = (got == expected).all(axis=0) & left
        made[:, fits] = factor[fits], offset[fits]
        left &= ~fits
        if not left.any():
            factor, offset, zero = (one.reshape(shape) for one in (*made, zero))
            return factor, zero, axis, offset
    return None


def _factors(source: QParams, target: QParams) -> Iterator[tuple[Any, ...]]:
    """Yield float32 scales and offsets for the multiplication. The nearest numbers come
    first, and the neighbours of the nearest numbers follow."""
    scale, divisor = (_core.cast(p._scale, "float64") for p in (source, target))
    shift = np.zeros(scale.shape)
    with np.errstate(all="ignore"):
        for p, sign in ((target, 1), (source, -1)):
            if p._offset is not None:
                shift += sign * _core.cast(p._offset, "float64")
        pair = scale / divisor, source._zero_point + shift / scale
        nearest = [one.astype(np.float32) for one in pair]
        ends = None, np.float32(np.inf), np.float32(-np.inf)
        each = [
            [one if end is None else np.nextafter(one, end) for end in ends]
            for one in nearest
        ]
    yield from product(*each)


def _lead(p: QParams) -> npt.NDArray[Any]:
    """Return the array that determines the shape of all parameters. This is the scale, or
    the offset if the scale is a single number."""
    return p._scale if p._offset is None or p._scale.size != 1 else p._offset


def _of_columns(p: QParams, count: int) -> QParams:
    """Repeat or reshape parameters to one element for each of `count` columns."""
    scale, zero, offset = (
        None if one is None else np.broadcast_to(one.reshape(-1), count)
        for one in (p._scale, p._zero_point, p._offset)
    )
    assert scale is not None
    return QParams(scale, zero, p._name, axis=1, offset=offset)


def _plain(value: Any) -> Any:
    """Return an attribute of a QParams as JSON types."""
    if not isinstance(value, np.ndarray):
        return list(value) if isinstance(value, tuple) else value
    numbers: list[Any] = value.ravel().tolist()
    if value.dtype.kind not in "iu":
        numbers = _core.cast(value.ravel(), "float64").tolist()
        bits = value.view(f"u{value.itemsize}").ravel().tolist()
        numbers = [x if isfinite(x) else hex(b) for x, b in zip(numbers, bits, strict=True)]
    kind = dtypes.name_of(value.dtype)
    return {"dtype": kind, "shape": list(value.shape), "values": numbers}


def _restored(value: Any) -> Any:
    """Return an attribute of a QParams from the result of `_plain`."""
    if not isinstance(value, dict):
        return tuple(value) if isinstance(value, list) else value
    name, numbers = _check.choice(value["dtype"], "dtype", TYPES), value["values"]
    kind = _core.dtype_named(name)
    if kind.kind in "iu":
        return np.array(numbers, kind).reshape(value["shape"])
    bits = {i: int(x, 16) for i, x in enumerate(numbers) if isinstance(x, str)}
    finite = np.array([0 if i in bits else x for i, x in enumerate(numbers)], np.float64)
    made = _core.cast(finite, name)
    for i, pattern in bits.items():
        made.view(f"u{made.itemsize}")[i] = pattern
    return made.reshape(value["shape"])


def _shown(array: npt.NDArray[Any]) -> str:
    """Return the repr of an array. A long array is shortened to one or two lines."""
    shape = f".reshape{array.shape}" if array.size > 20 and array.ndim > 1 else ""
    with np.printoptions(threshold=20, edgeitems=2, floatmode="unique"):
        return repr(array.reshape(-1) if shape else array) + shape


@_core.hinted
def choose_qparams(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    symmetric: bool | np.bool | None = None,
    include_zero: bool | np.bool = True,
    method: Literal["minmax", "mse"] = "minmax",
    weights: ArrayLike | None = None,
    candidates: ArrayLike | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    scale_rule: ScaleRule | None = None,
    like: Like | None = None,
    threads: SupportsIndex = 1,
) -> QParams:
    """
    Choose scales and zero points that cover the range of an array.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float64, float16 or bfloat16. `calibrate` with
        ``nonfinite="ignore"`` skips NaN and infinities.
    dtype : dtype_like, optional
        The quantized type, see `quantize`. Default int8. For a narrow float, the largest
        magnitude of `x` becomes the largest number of the type.
    axis, block_size : int or tuple of int, optional
        `axis` names the axes along which the scale varies (per channel). ``axis=0`` chooses
        one scale for each row. `block_size` is the number of elements in a block that
        shares a scale. Default: one scale for all of `x`.
    symmetric : bool, optional
        True: fix the zero point at 0 (128 for uint8). False: fit the zero point to the
        data. Default: True for signed types and narrow floats, False for unsigned types.
    include_zero : bool, optional
        True (the default): extend the range of the data to contain 0. False: keep the
        range, and return parameters with an `offset` instead of zero points, see Notes.
        Integer types only. False excludes `symmetric`, ``method="mse"``, `scale_rule` and
        `like`.
    method : {"minmax", "mse"}, optional
        "minmax" (the default) covers the range of the data. "mse" minimizes the sum of
        squared errors, see Notes.
    weights : array_like, optional
        For "mse": finite factors of the squared errors, at least 0, of a shape that
        broadcasts to the shape of `x`.
    candidates : array_like, optional
        For "mse": factors of the range, above 0 and at most 1. Default ``1 - j / 100`` for
        `j` from 0 to 19.
    quant_range : (int, int), optional
        Lowest and highest code, within the range of `dtype`, such as ``(-64, 63)`` or
        ``(-127, 127)``. `QParams.quantize` saturates to this range. Integer types only.
    scale_dtype : dtype_like, optional
        float32, float64, float16, bfloat16, float8_e4m3fn or float8_e8m0fnu. Scales are
        rounded to this type before zero points are computed: upwards for float8_e8m0fnu
        (powers of two), else to nearest. A scale that would become 0 or infinite becomes
        the smallest positive or the largest number. Default: float32, or float64 if `x` is
        float64.
    scale_rule : {"floor", "ceil", "even", "rceil"}, optional
        For float8_e8m0fnu scales and ``method="minmax"``: the rule of
        `pyquant.weights.mx.quantize`, see Notes. `scale_rule` excludes `like`.
    like : str, optional
        Use the formula of ``"onnxruntime"``, ``"pytorch"``, ``"aten"``, ``"fbgemm"``,
        ``"torchao"``, ``"torchao_no_clip"``, ``"compressed_tensors"``, ``"tflite"``,
        ``"xnnpack"`` or ``"quark_po2"``, bit for bit. `like` determines scale and zero
        point only, for integer types of at most 16 bits. Default: the formula in Notes.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    QParams
        Parameters with scales of `scale_dtype`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If `x` contains NaN or an infinity. The message states the number of these values
        and the index of the first. If a formula does not support `dtype`, `symmetric` or
        `quant_range`.
    ImportError
        If a type needs ml_dtypes and the package is not installed.
    MemoryError
        If the scales do not fit in memory.

    Notes
    -----
    For each scale, ``lo = min(0, min(x))`` and ``hi = max(0, max(x))``. `qmin` and `qmax`
    are the limits of `dtype`, or `quant_range`. The arithmetic is float64, and the scale is
    rounded once to its type::

        symmetric    scale = max(hi, -lo) / min(qmax, -qmin)
                     zero_point = 0
        unsigned     scale = max(hi, -lo) / ((qmax - qmin) / 2)
                     zero_point = floor((qmin + qmax + 1) / 2)
        asymmetric   scale = (hi - lo) / (qmax - qmin)
                     zero_point = saturate(round_half_even(qmin - lo / scale))

    "symmetric" applies to ranges of codes that contain both signs. "unsigned" applies to
    symmetric parameters of all other ranges. Data of zeros only, or without elements, has
    scale 1. If ``hi - lo`` overflows, both ends are halved. If rounding the scale down
    would saturate data by more than half a step, the scale is the next larger number. If
    data near the largest number of the data's type would become infinite, a neighbour of
    the scale is used. Dequantized data is finite in the type of `x`, and within half a step
    of the data, except for the rounding of quotient and product.

    With ``include_zero=False``, `lo` and `hi` are the extremes of the data. The arithmetic
    is float64, and both results are rounded once to the type of the scale::

        scale = (hi - lo) / (qmax - qmin)
        offset = lo - qmin * scale

    If all numbers are equal, the scale is 0, and dequantized data equals the data.

    ``method="mse"`` computes these parameters for ``c * lo`` and ``c * hi`` with each
    candidate c, rounded to float32 (float64 if `x` is float64). The first candidate with
    the least ``sum(w * (dequantize(quantize(x)) - x)**2)`` wins. For this candidate, let
    `q` be the codes minus the zero point. The scale ``sum(w * x * q) / sum(w * q * q)`` is
    used instead if the sum decreases. Differences are rounded to float32 (float64 if `x` is
    float64). Sums are float64 in a fixed order, so the result is equal on every CPU. Scales
    do not affect each other.

    ``scale_rule=`` applies a rule of `pyquant.weights.mx.quantize` to the numerator a and
    the denominator L of the formula for the scale. The exponent of L replaces the exponent
    e of the element type, and integers have as many mantissa bits as that exponent. "floor"
    and "even" can saturate data. A range that contains only 0 has scale 2**-127. For MX
    element types, `pyquant.weights.mx.quantize` chooses equal scales.

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
    >>> p = pq.choose_qparams(x, scale_dtype="float8_e8m0fnu", scale_rule="ceil")
    >>> float(p.scale)  # 2**2 / 2**6
    0.0625
    >>> p = pq.choose_qparams(np.float32([100, 110, 151]), include_zero=False)
    >>> float(p.scale), float(p.offset)  # 51 / 255, 100 + 128 * 0.2
    (0.20000000298023224, 125.5999984741211)
    """
    if include_zero is not True and not _check.flag(include_zero, "include_zero"):
        _check.choice(method, "method", ("minmax", "mse"), "'minmax' or 'mse'")
        others = {"method": method != "minmax", "scale_rule": scale_rule is not None}
        others |= {"weights": weights is not None, "candidates": candidates is not None}
        _refuse_beside_zero([name for name, given in others.items() if given])
        _check.integer(threads, "threads", 1)
        x = _core.as_reals(x, "x")
        found = _core.extrema(x, block_size, False, axis, False)
        found[:, found[0] > found[1]] = 0  # no elements
        low, high = _core.cast(found, str(dtypes.name_of(x.dtype)))
        options = (dtype, axis, block_size, symmetric, quant_range, scale_dtype, like)
        return _without_zero(low, high, *options)
    if scale_rule is not None:
        from pyquant.weights.mx import check_rule

        check_rule(scale_dtype, scale_rule)
        if like is not None or method != "minmax":
            other = "like" if like is not None else "method"
            raise ValueError(
                f"{other}: expected the default with scale_rule={scale_rule!r}"
            )
        x = _core.as_reals(x, "x")
    made = QParams._choose(
        QParams,
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
    if scale_rule is None:
        return made
    return _by_rule(made, np.asarray(x), symmetric, scale_rule)


@_core.default_fpenv
def _by_rule(
    p: QParams, x: npt.NDArray[Any], symmetric: bool | np.bool | None, rule: str
) -> QParams:
    """Replace the scales of `p` by scales of x that follow `scale_rule`."""
    from pyquant.weights.mx import scales_by_rule

    low, high = _core.extrema(x, p.block_size, False, p.axis)
    scale: npt.NDArray[Any]
    zero: Any = p.zero_point
    limits = p.quant_range or _core.limits(p._name)
    if limits is None:
        scale = scales_by_rule(np.maximum(high, -low), p._name, None, rule)
    else:
        least, most = limits
        if _core.chosen(p._name, symmetric)[1]:
            steps = min(most, -least) if least < 0 < most else (most - least) / 2
            scale = scales_by_rule(np.maximum(high, -low), p._name, steps, rule)
        else:
            with np.errstate(over="ignore"):
                spans = high - low
            scale = scales_by_rule(spans, p._name, most - least, rule)
            zero = np.rint(np.clip(least - low / scale.astype("f8"), least, most))
            zero = zero.astype(np.int64)
    return QParams(
        scale,
        zero,
        p._name,
        axis=p.axis,
        block_size=p.block_size,
        quant_range=p.quant_range,
    )


@_core.hinted
def qparams_from_range(
    lo: ArrayLike,
    hi: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    block_size: SupportsIndex | tuple[SupportsIndex, ...] | None = None,
    symmetric: bool | np.bool | None = None,
    include_zero: bool | np.bool = True,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
) -> QParams:
    """
    Choose scales and zero points from ranges that are known.

    Parameters
    ----------
    lo, hi : array_like
        Finite ends of the ranges, with the shape of the scales: float32, float64, float16
        or bfloat16, like the data. Python numbers and lists of numbers become float32 if
        that type can hold them. A range is extended to contain 0, unless `include_zero` is
        False.
    dtype : dtype_like, optional
        The quantized type, see `quantize`. Default int8.
    axis, block_size : int or tuple of int, optional
        The granularity of the ranges, which the result keeps.
    symmetric, include_zero, quant_range, scale_dtype, like
        See `choose_qparams`.

    Returns
    -------
    QParams
        The parameters that `choose_qparams` returns for data with these extremes, bit for
        bit.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If an end is NaN or infinite, or `lo` is above `hi`. The message states the index.
        If a formula does not support `dtype`, `symmetric` or `quant_range`.
    ImportError
        If a type needs ml_dtypes and the package is not installed.

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
    options = (dtype, axis, block_size, symmetric, quant_range, scale_dtype, like)
    if include_zero is not True and not _check.flag(include_zero, "include_zero"):
        return _without_zero(lo, hi, *options)
    return QParams._from_range(QParams, lo, hi, *options)


def _refuse_beside_zero(names: list[str]) -> None:
    if names:
        expected = "no value beside include_zero=False, which fits scale and offset"
        raise _check.fail(ValueError, names[0], expected, "a value")


@_core.default_fpenv
def _without_zero(
    lo: Any,
    hi: Any,
    dtype: npt.DTypeLike,
    axis: Any,
    block_size: Any,
    symmetric: Any,
    quant_range: Any,
    scale_dtype: npt.DTypeLike | None,
    like: Any,
) -> QParams:
    """Return the scales and offsets of ranges, which may exclude 0."""
    given = symmetric is not None and _check.flag(symmetric, "symmetric")
    _refuse_beside_zero(["symmetric"] * given + ["like"] * (like is not None))
    name = _core.chosen(dtype, None)[0]
    limits = _core.limits(name)
    if limits is None:
        expected = "an integer type beside include_zero=False"
        raise _check.fail(TypeError, "dtype", expected, name)
    lo, hi, _ = _core.range_ends(lo, hi)
    p = QParams._from_range(  # checks all arguments
        *(QParams, lo, hi, dtype, axis, block_size, False, quant_range, scale_dtype, None)
    )
    kind = p.scale.dtype
    if dtypes.name_of(kind) not in _check.REALS:
        expected = f"{_check.listed(_check.REALS)} beside include_zero=False"
        raise _check.fail(ValueError, "scale_dtype", expected, str(kind))
    least, most = p.quant_range or limits
    low, high = (_core.cast(end, "float64") for end in (lo, hi))
    with np.errstate(all="ignore"):
        spans = high - low
        scale = np.asarray(spans / (most - least))
        wide = np.isinf(spans)
        scale[wide] = high[wide] / (most - least) - low[wide] / (most - least)
        offset = low - least * scale
    scales, offsets = (_core.cast(np.asarray(v), str(kind)) for v in (scale, offset))
    bits = scales.view(f"u{kind.itemsize}")
    bits[(bits == 0) & (spans != 0)] = 1  # 0 becomes the smallest positive number.
    bits[np.isinf(scales)] -= 1  # Infinity becomes the largest number.
    return QParams(
        *(scales, np.zeros(scales.shape, np.int8), name),
        axis=p.axis,
        block_size=p.block_size,
        offset=offsets,
        quant_range=p.quant_range,
    )
