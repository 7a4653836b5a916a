# SPDX-License-Identifier: Apache-2.0
"""Quantize and Dequantize of oneDNN Graph, and oneAPI's dynamic versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from pyquant import _standard

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy as np
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.packed import PackedArray

__all__ = ["dequantize", "dynamic_dequantize", "dynamic_quantize", "quantize"]
__dir__: object = __all__.copy

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
SINGLE = ("float32",)
_LISTS: dict[str, Any] = {
    "scale": ("scales", LISTED_REAL, "list"),
    "zero": ("zps", LISTED_INTEGER, "list"),
}
_DTYPE = ("dtype", QUANTIZED, SHORT_NAMES)
_SUM: dict[str, Any] = {"zero_first": True, "overflows": True, "quotient": "float32"}
QUANTIZE = _standard.Operator(
    "oneDNN Quantize",
    **_LISTS,
    nonzero=True,
    input=("src", SINGLE),
    dtype=_DTYPE,
    float8="refuse",
    places=QTYPES,
    **_SUM,
)
DEQUANTIZE = _standard.Operator(
    "oneDNN Dequantize", **_LISTS, input=("src", QUANTIZED), places=QTYPES, float8="refuse"
)
DYNAMIC_QUANTIZE = _standard.Operator(
    "oneAPI DynamicQuantize",
    scale=("scales", SINGLE),
    zero=("zps", ZERO_POINT[:3]),
    input=("src", SINGLE),
    dtype=_DTYPE,
    float8="refuse",
    places=QTYPES,
    **_SUM,
)
DYNAMIC_DEQUANTIZE = _standard.Operator(
    "oneAPI DynamicDequantize",
    input=("src", DYNAMIC),
    scale=("scales", REAL),
    zero=("zps", ZERO_POINT),
    places=DYNAMIC_QTYPES,
    float8="refuse",
)


def quantize(
    src: ArrayLike,
    *,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    qtype: str = "per_tensor",
    axis: SupportsIndex = 1,
    dtype: npt.DTypeLike,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Quantize with constant parameters: ``saturate(round(src / scale + zp))``.

    Parameters
    ----------
    src : array_like
        float32.
    scales : sequence of float
        One nonzero number, or with ``per_channel`` one number for each index along `axis`.
    zps : sequence of int, optional
        As many as `scales`, of any value. Default 0. Not allowed for float8.
    qtype : str, optional
        "per_tensor" (the default) or "per_channel".
    axis : int, optional
        The axis of the channels; negative values count from the end. Default 1.
        ``per_tensor`` ignores `axis`.
    dtype : dtype_like
        uint8, int8, float8_e4m3fn or float8_e5m2; or oneDNN's "u8", "s8", "f8_e4m3",
        "f8_e5m2".
    out : ndarray, optional
        Array for the result, of the exact shape and dtype, with any strides.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        Codes of `dtype`, with the shape of `src`, or `out`.

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
    The zero point is added before rounding, in float32. For example, 0.5 with scale 1 and
    zero point 1 becomes 2, but 1 in ONNX. The quotient is a true division, like the
    formula. The library multiplies by a rounded reciprocal and differs for some values.
    Rounding is half to even. Float8 does not saturate.

    Examples
    --------
    >>> import pyquant as pq
    >>> pq.onednn.quantize([0.5, 1.5, -9.0], scales=[1.0], zps=[1], dtype="u8")
    array([2, 2, 0], dtype=uint8)
    """
    return QUANTIZE.run(src, scales, zps, axis, out, threads, dtype, None, qtype)


def dequantize(
    src: ArrayLike,
    *,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    qtype: str = "per_tensor",
    axis: SupportsIndex = 1,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[np.float32]:
    """
    Dequantize with constant parameters: ``(src - zp) * scale``.

    Parameters
    ----------
    src : array_like
        uint8, int8, float8_e4m3fn or float8_e5m2.
    scales : sequence of float
        One number, or with ``per_channel`` one number for each index along `axis`.
    zps : sequence of int, optional
        As many as `scales`, of any value. Default 0. Not allowed for float8.
    qtype, axis, out, threads : optional
        See `quantize`.

    Returns
    -------
    ndarray
        float32 array with the shape of `src`, or `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        See `quantize`.

    Notes
    -----
    The difference is exact. The specification prints ``round`` around the formula for one
    scale. This ``round`` does not round to integers, because the formula for channels has
    no ``round``, and the library returns fractions.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.onednn.dequantize(np.uint8([0, 255]), scales=[0.5], zps=[300])
    array([-150. ,  -22.5], dtype=float32)
    """
    return DEQUANTIZE.run(src, scales, zps, axis, out, threads, None, None, qtype)


def dynamic_quantize(
    src: ArrayLike,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    *,
    qtype: str = "per_tensor",
    axis: SupportsIndex = 1,
    dtype: npt.DTypeLike,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Quantize with parameters in tensors: ``saturate(round(src / scales + zps))``.

    Parameters
    ----------
    src : array_like
        float32.
    scales : array_like
        float32: one element, or with ``per_channel`` one dimension.
    zps : array_like, optional
        int32, uint8 or int8, as many as `scales`. Default 0. Not allowed for float8.
    qtype, axis, dtype, out, threads
        See `quantize`.

    Returns
    -------
    ndarray
        Codes of `dtype`, with the shape of `src`, or `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        See `quantize`.

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
    return DYNAMIC_QUANTIZE.run(src, scales, zps, axis, out, threads, dtype, None, qtype)


def dynamic_dequantize(
    src: ArrayLike | PackedArray,
    scales: ArrayLike,
    zps: ArrayLike | None = None,
    *,
    qtype: str = "per_tensor",
    axis: SupportsIndex = 1,
    group_shape: Iterable[SupportsIndex] | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
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
        int32, uint8, int8, int4 or uint4, with the shape of `scales`. Default 0. Not
        allowed for float8.
    qtype : str, optional
        "per_tensor" (the default), "per_channel" or "per_group".
    axis : int, optional
        See `quantize`.
    group_shape : sequence of int, optional
        For ``per_group``: the extents of a group. They must divide the extents of `src`.
    out, threads : optional
        See `quantize`.

    Returns
    -------
    ndarray
        Array with the type of `scales` and the shape of `src`, or `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        See `quantize`.

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
    return DYNAMIC_DEQUANTIZE.run(
        src, scales, zps, axis, out, threads, None, group_shape, qtype
    )
