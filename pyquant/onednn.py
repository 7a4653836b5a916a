# SPDX-License-Identifier: Apache-2.0
"""Quantize and Dequantize of oneDNN Graph, and oneAPI's dynamic versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _standard, dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.packed import PackedArray

__all__ = ["dequantize", "dynamic_dequantize", "dynamic_quantize", "quantize"]


def __dir__() -> list[str]:
    return sorted(__all__)


FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
INTEGER = ("uint8", "int8")
QUANTIZED = (*INTEGER, *FLOAT8)
DYNAMIC = (*INTEGER, "int4", "uint4", *FLOAT8)
REAL = ("float32", "float16", "bfloat16")
ZERO_POINT = ("int32", "uint8", "int8", "int4", "uint4")
# Element types that attribute lists may have.
LISTED_INTEGER = ("int64", "int32", "int16", "int8", "uint32", "uint16", "uint8")
LISTED_REAL = ("float32", "float64", "float16", *LISTED_INTEGER)
# oneDNN's own names of the element types.
SHORT_NAMES = {
    "s8": "int8",
    "u8": "uint8",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
}
QTYPES = ("per_tensor", "per_channel")
DYNAMIC_QTYPES = (*QTYPES, "per_group")
FLOAT32 = np.dtype(np.float32)
# Accepted spellings of a type, and its name.
_NAMES = {**SHORT_NAMES, **dict(zip(QUANTIZED, QUANTIZED, strict=True))}


_PLACES = {"per_tensor": "single", "per_channel": "axis", "per_group": "blocks"}


def _usual(
    src: tuple[str, ...], scales: tuple[str, ...], zps: tuple[str, ...], **options: Any
) -> dict[str, _standard.Usual]:
    """Return the short path for common calls, by qtype."""
    options = {"mixed": True, "zero_first": True, **options}
    return {
        qtype: _standard.Usual(src, scales, zps, (place,), **options)
        for qtype, place in _PLACES.items()
    }


SINGLE = ("float32",)
_QUANTIZE = _usual(SINGLE, SINGLE, LISTED_INTEGER, attributes=True, names=_NAMES)
_DEQUANTIZE = _usual(QUANTIZED, SINGLE, LISTED_INTEGER, attributes=True)
_DYNAMIC_QUANTIZE = _usual(SINGLE, SINGLE, ZERO_POINT[:3], names=_NAMES)
_DYNAMIC_DEQUANTIZE = _usual(DYNAMIC, REAL, ZERO_POINT)
_GROUPS = _DYNAMIC_DEQUANTIZE["per_group"]


def quantize(
    src: ArrayLike,
    *,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    qtype: str = "per_tensor",
    axis: SupportsIndex = 1,
    dtype: npt.DTypeLike,
) -> npt.NDArray[Any]:
    """
    Quantize with constant parameters: ``saturate(round(src / scale + zp))``.

    Parameters
    ----------
    src : array_like
        float32.
    scales : sequence of float
        One nonzero number, or with ``per_channel`` one for each index along `axis`.
    zps : sequence of int, optional
        As many as `scales`, of any value. Default 0. Float8 excludes them.
    qtype : str, optional
        "per_tensor" (the default) or "per_channel".
    axis : int, optional
        The axis of the channels; negative values count from the end. Default 1.
        ``per_tensor`` ignores it.
    dtype : dtype_like
        uint8, int8, float8_e4m3fn or float8_e5m2; or oneDNN's "u8", "s8", "f8_e4m3",
        "f8_e5m2".

    Returns
    -------
    ndarray
        Codes of `dtype`, with the shape of `src`.

    Raises
    ------
    TypeError
        If an argument or its elements have the wrong type.
    ValueError
        If values or lengths violate the specification.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.

    Notes
    -----
    The zero point is added before rounding, in float32: 0.5 with scale 1 and zero point 1
    becomes 2, and in ONNX 1. The quotient is a true division, like the formula. The library
    multiplies by a rounded reciprocal and differs for some values. Rounding is half to
    even. Float8 does not saturate.

    Examples
    --------
    >>> import pyquant as pq
    >>> pq.onednn.quantize([0.5, 1.5, -9.0], scales=[1.0], zps=[1], dtype="u8")
    array([2, 2, 0], dtype=uint8)
    """
    if type(qtype) is str and qtype in QTYPES:
        y = _QUANTIZE[qtype].quantize(src, scales, zps, axis, dtype=dtype)
        if y is not None:
            return y
    op = "oneDNN Quantize"
    s = _list_of(scales, "scales", op, LISTED_REAL)
    if s.dtype is not FLOAT32:  # includes the opposite byte order
        s = _standard.cast(s, "float32")
    z = None if zps is None else _list_of(zps, "zps", op, LISTED_INTEGER)
    at = _standard.first_zero(s)
    if at >= 0:
        raise _standard.refuse(ValueError, "scales", op, "no zero", f"one at index {at}")
    return _quantize(src, s, z, qtype, axis, dtype, op)


def dequantize(
    src: ArrayLike,
    *,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    qtype: str = "per_tensor",
    axis: SupportsIndex = 1,
) -> npt.NDArray[np.float32]:
    """
    Dequantize with constant parameters: ``(src - zp) * scale``.

    Parameters
    ----------
    src : array_like
        uint8, int8, float8_e4m3fn or float8_e5m2.
    scales : sequence of float
        One number, or with ``per_channel`` one for each index along `axis`.
    zps : sequence of int, optional
        As many as `scales`, of any value. Default 0. Float8 excludes them.
    qtype, axis : optional
        See `quantize`.

    Returns
    -------
    ndarray
        float32 array with the shape of `src`.

    Raises
    ------
    TypeError
        If an argument or its elements have the wrong type.
    ValueError
        If values or lengths violate the specification.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.

    Notes
    -----
    The difference is exact. The specification prints ``round`` around the formula for one
    scale. It does not round to an integer: the formula for channels has no ``round``, and
    the library returns fractions.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.onednn.dequantize(np.uint8([0, 255]), scales=[0.5], zps=[300])
    array([-150. ,  -22.5], dtype=float32)
    """
    if type(qtype) is str and qtype in QTYPES:
        y = _DEQUANTIZE[qtype].dequantize(src, scales, zps, axis)
        if y is not None:
            return y
    op = "oneDNN Dequantize"
    s = _list_of(scales, "scales", op, LISTED_REAL)
    if s.dtype is not FLOAT32:  # includes the opposite byte order
        s = _standard.cast(s, "float32")
    z = None if zps is None else _list_of(zps, "zps", op, LISTED_INTEGER)
    q, code = _standard.array_of(src, "src", op, QUANTIZED)
    channel = _where(q, s, z, qtype, axis, op)
    if z is not None and code in FLOAT8:
        raise _no_zps(code, op)
    return _standard.dequantize(q, s, z, dtype="float32", axis=channel)


def dynamic_quantize(
    src: ArrayLike,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    *,
    qtype: str = "per_tensor",
    axis: SupportsIndex = 1,
    dtype: npt.DTypeLike,
) -> npt.NDArray[Any]:
    """
    Quantize with parameters in tensors: ``saturate(round(src / scales + zps))``.

    Parameters
    ----------
    src : array_like
        float32.
    scales : array_like
        float32: one element, or one dimension with ``per_channel``.
    zps : array_like, optional
        int32, uint8 or int8, as many as `scales`. Default 0. Float8 excludes them.
    qtype, axis, dtype
        See `quantize`.

    Returns
    -------
    ndarray
        Codes of `dtype`, with the shape of `src`.

    Raises
    ------
    TypeError
        If an argument or its elements have the wrong type.
    ValueError
        If values or shapes violate the specification.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.

    Notes
    -----
    See `quantize`. A scale of 0 is allowed and follows IEEE arithmetic.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.float32([[1, 2], [3, 4]])
    >>> pq.onednn.dynamic_quantize(x, [1.0, 2.0], qtype="per_channel", dtype="s8")
    array([[1, 1],
           [3, 2]], dtype=int8)
    """
    if type(qtype) is str and qtype in QTYPES:
        y = _DYNAMIC_QUANTIZE[qtype].quantize(src, scales, zps, axis, dtype=dtype)
        if y is not None:
            return y
    op = "oneAPI DynamicQuantize"
    s, _ = _standard.array_of(scales, "scales", op, ("float32",))
    z = None if zps is None else _standard.array_of(zps, "zps", op, ZERO_POINT[:3])[0]
    return _quantize(src, s, z, qtype, axis, dtype, op)


def dynamic_dequantize(
    src: ArrayLike | PackedArray,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    *,
    qtype: str = "per_tensor",
    axis: SupportsIndex = 1,
    group_shape: Iterable[SupportsIndex] | None = None,
) -> npt.NDArray[Any]:
    """
    Dequantize with parameters in tensors: ``(src - zps) * scales``.

    Parameters
    ----------
    src : array_like or PackedArray
        uint8, int8, int4, uint4, float8_e4m3fn or float8_e5m2.
    scales : array_like
        float32, float16 or bfloat16: one element; one dimension with ``per_channel``; the
        shape of `src` divided by `group_shape` with ``per_group``.
    zps : array_like, optional
        int32, uint8, int8, int4 or uint4, with the shape of `scales`. Default 0. Float8
        excludes them.
    qtype : str, optional
        "per_tensor" (the default), "per_channel" or "per_group".
    axis : int, optional
        See `quantize`.
    group_shape : sequence of int, optional
        For ``per_group``: the extents of a group. They must divide the extents of `src`.

    Returns
    -------
    ndarray
        Array with the type of `scales` and the shape of `src`.

    Raises
    ------
    TypeError
        If an argument or its elements have the wrong type.
    ValueError
        If values or shapes violate the specification.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.

    Notes
    -----
    The difference is exact, followed by one multiplication in float32 and one conversion.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> q = np.int8([[1, 2, 3, 4], [5, 6, 7, 8]])
    >>> s = np.float32([[1, 10], [100, 1000]])
    >>> pq.onednn.dynamic_dequantize(q, s, qtype="per_group", group_shape=(1, 2))
    array([[1.e+00, 2.e+00, 3.e+01, 4.e+01],
           [5.e+02, 6.e+02, 7.e+03, 8.e+03]], dtype=float32)
    """
    y = None
    if type(qtype) is str and qtype in QTYPES and group_shape is None:
        y = _DYNAMIC_DEQUANTIZE[qtype].dequantize(src, scales, zps, axis)
    elif type(qtype) is str and qtype == "per_group" and type(group_shape) is tuple:
        y = _GROUPS.dequantize(src, scales, zps, None, block_size=group_shape)
    if y is not None:
        return y
    op = "oneAPI DynamicDequantize"
    q, code = _standard.array_of(src, "src", op, DYNAMIC)
    s, real = _standard.array_of(scales, "scales", op, REAL)
    z = None if zps is None else _standard.array_of(zps, "zps", op, ZERO_POINT)[0]
    channel = groups = None
    if isinstance(qtype, str) and qtype == "per_group":
        groups = _groups(q, s, z, group_shape, op)
    else:
        if group_shape is not None:
            expected = f"None with qtype {_standard.shown(qtype)}"
            raise _standard.refuse(
                ValueError, "group_shape", op, expected, _standard.shown(group_shape)
            )
        channel = _where(q, s, z, qtype, axis, op, DYNAMIC_QTYPES)
    if z is not None and code in FLOAT8:
        raise _no_zps(code, op)
    return _standard.dequantize(q, s, z, dtype=real, axis=channel, block_size=groups)


def _list_of(
    values: ArrayLike, name: str, op: str, types: tuple[str, ...]
) -> npt.NDArray[Any]:
    """Return the list that an attribute contains."""
    array: npt.NDArray[Any]
    array, _ = _standard.array_of(values, name, op, types)
    if array.ndim == 1:
        return array
    if array.ndim > 1:
        raise _standard.refuse(ValueError, name, op, "a list", f"shape {array.shape}")
    return array.reshape(-1)


def _quantize(
    src: ArrayLike,
    scales: npt.NDArray[Any],
    zps: npt.NDArray[Any] | None,
    qtype: str,
    axis: SupportsIndex,
    dtype: npt.DTypeLike,
    op: str,
) -> npt.NDArray[Any]:
    x, _ = _standard.array_of(src, "src", op, ("float32",))
    target = _type(dtype, op)
    if zps is not None and target in FLOAT8:
        raise _no_zps(target, op)
    return _standard.quantize(
        x,
        scales,
        zps,
        dtype=target,
        axis=_where(x, scales, zps, qtype, axis, op),
        saturate=target in INTEGER,
        zero_first=True,
    )


def _type(dtype: npt.DTypeLike, op: str) -> str:
    spelled = SHORT_NAMES.get(dtype) if isinstance(dtype, str) else None
    name = spelled or _standard.requested(dtype)
    if name not in QUANTIZED:
        expected = _standard.listed(QUANTIZED)
        got = name or dtypes.shown(dtype)
        raise _standard.refuse(TypeError, "dtype", op, expected, got)
    return name


def _no_zps(code: str, op: str) -> Exception:
    return _standard.refuse(ValueError, "zps", op, f"None for {code}", "zero points")


def _where(
    x: npt.NDArray[Any],
    scales: npt.NDArray[Any],
    zps: npt.NDArray[Any] | None,
    qtype: str,
    axis: SupportsIndex,
    op: str,
    qtypes: tuple[str, ...] = QTYPES,
) -> int | None:
    """Return the axis, after the checks of lengths."""
    if not isinstance(qtype, str) or qtype not in qtypes:
        expected = f"one of {', '.join(qtypes)}"
        kind = ValueError if isinstance(qtype, str) else TypeError
        raise _standard.refuse(kind, "qtype", op, expected, _standard.shown(qtype))
    shape = scales.shape
    channel = None
    if qtype == "per_channel":
        channel = _standard.axis_of(axis, x.ndim, op)
        if shape != (x.shape[channel],):
            raise _standard.wrong_shape("scales", op, (x.shape[channel],), shape)
    elif shape and shape != (1,):
        raise _standard.refuse(ValueError, "scales", op, "one element", shape)
    if zps is not None and zps.shape != shape and not zps.size == scales.size == 1:
        expected = f"as many as scales, shape {shape}"
        raise _standard.refuse(ValueError, "zps", op, expected, zps.shape)
    return channel


def _groups(
    q: npt.NDArray[Any],
    scales: npt.NDArray[Any],
    zps: npt.NDArray[Any] | None,
    group_shape: Iterable[SupportsIndex] | None,
    op: str,
) -> tuple[int, ...]:
    if group_shape is None:
        raise _standard.refuse(
            ValueError, "group_shape", op, "an integer for each dimension", group_shape
        )
    groups = _standard.integers(group_shape, "group_shape", op)
    extents = q.shape
    shape = []
    for group, extent in zip(groups, extents, strict=False):
        if group > 0 and extent % group == 0:
            shape.append(extent // group)
    if len(groups) != len(extents) or len(shape) != len(extents):
        expected = f"divisors of shape {extents}"
        raise _standard.refuse(
            ValueError, "group_shape", op, expected, _standard.shown(group_shape)
        )
    if scales.shape != tuple(shape):
        raise _standard.wrong_shape("scales", op, tuple(shape), scales.shape)
    if zps is not None and zps.shape != tuple(shape):
        raise _standard.wrong_shape("zps", op, tuple(shape), zps.shape)
    return groups
