# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear of ONNX Runtime's domain com.microsoft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from pyquant import _standard

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.packed import PackedArray

__all__ = ["dequantize_linear", "quantize_linear"]


def __dir__() -> list[str]:
    return sorted(__all__)


REAL = ("float32", "float16")
QUANTIZED = ("uint8", "int8", "uint16", "int16", "int4", "uint4")
QUANTIZED_OR_INT32 = (*QUANTIZED, "int32")

_PLACES = ("scalar", "axis")
_USUAL_REALS = _standard.Usual(
    REAL, REAL, QUANTIZED, _PLACES, alike=True, precision="float32"
)
_USUAL_CODES = _standard.Usual(QUANTIZED_OR_INT32, REAL, QUANTIZED_OR_INT32, _PLACES)


def quantize_linear(
    x: ArrayLike,
    y_scale: ArrayLike,
    y_zero_point: ArrayLike | None = None,
    *,
    axis: SupportsIndex | None = None,
) -> npt.NDArray[Any]:
    """
    Quantize: ``saturate(round(x / y_scale) + y_zero_point)``.

    Parameters
    ----------
    x : array_like
        float32 or float16.
    y_scale : array_like
        Of the type of `x`: a scalar; with `axis` one-dimensional, as long as `x` along it.
    y_zero_point : array_like, optional
        uint8, int8, uint16, int16, int4 or uint4, of the shape of `y_scale`; its type is
        that of the result, uint8 for Python integers. Default a uint8 0.
    axis : int, optional
        The axis of the scales. Default None: one scale for all of `x`.

    Returns
    -------
    ndarray
        Codes, of the shape of `x`.

    Raises
    ------
    TypeError
        If element types do not go together.
    ValueError
        If shapes do not go together.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.

    Notes
    -----
    Quotients are float32 for float16, too, as ONNX Runtime computes them. Its kernel is
    laxer than the operator's text, and takes scales of one element in one dimension, which
    are one for all of `x`, with `axis` and without.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.com_microsoft.quantize_linear(np.float32([1, 2.5, 400]), np.float32(1))
    array([  1,   2, 255], dtype=uint8)
    """
    y = _USUAL_REALS.quantize(x, y_scale, y_zero_point, axis)
    if y is not None:
        return y
    op = "com.microsoft QuantizeLinear"
    source, real = _standard.array_of(x, "x", op, REAL)
    s, _ = _standard.array_of(y_scale, "y_scale", op, (real,))
    z, code = None, "uint8"
    if y_zero_point is not None:
        types = ("uint8",) if _standard.is_untyped(y_zero_point) else QUANTIZED
        z, code = _standard.array_of(y_zero_point, "y_zero_point", op, types)
    where = _where(source, s, z, axis, "y", op)
    return _standard.quantize(source, s, z, dtype=code, axis=where, precision="float32")


def dequantize_linear(
    x: ArrayLike | PackedArray,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None = None,
    *,
    axis: SupportsIndex | None = None,
) -> npt.NDArray[Any]:
    """
    Dequantize: ``(x - x_zero_point) * x_scale``.

    Parameters
    ----------
    x : array_like or PackedArray
        uint8, int8, uint16, int16, int32, int4 or uint4.
    x_scale : array_like
        float32 or float16: a scalar; with `axis` one-dimensional, as long as `x` along it.
    x_zero_point : array_like, optional
        Of the type of `x` and the shape of `x_scale`. Default 0.
    axis : int, optional
        The axis of the scales. Default None: one scale for all of `x`.

    Returns
    -------
    ndarray
        Of the type of `x_scale` and the shape of `x`.

    Raises
    ------
    TypeError
        If element types do not go together.
    ValueError
        If shapes do not go together.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> q = np.uint8([0, 3, 128, 255])
    >>> pq.com_microsoft.dequantize_linear(q, np.float32(2), np.uint8(128))
    array([-256., -250.,    0.,  254.], dtype=float32)
    """
    y = _USUAL_CODES.dequantize(x, x_scale, x_zero_point, axis)
    if y is not None:
        return y
    op = "com.microsoft DequantizeLinear"
    q, code = _standard.array_of(x, "x", op, QUANTIZED_OR_INT32)
    s, real = _standard.array_of(x_scale, "x_scale", op, REAL)
    z = None
    if x_zero_point is not None:
        z, _ = _standard.array_of(x_zero_point, "x_zero_point", op, (code,))
    where = _where(q, s, z, axis, "x", op)
    return _standard.dequantize(q, s, z, dtype=real, axis=where)


def _where(
    x: npt.NDArray[Any],
    scale: npt.NDArray[Any],
    zero_point: npt.NDArray[Any] | None,
    axis: SupportsIndex | None,
    prefix: str,
    op: str,
) -> int | None:
    """The core's axis, after the rules for shapes."""
    shape = scale.shape
    if zero_point is not None and zero_point.shape != shape:
        expected = f"the shape of {prefix}_scale, {shape}"
        raise _standard.refuse(
            ValueError, f"{prefix}_zero_point", op, expected, zero_point.shape
        )
    name = f"{prefix}_scale"
    if axis is None:
        if shape:
            expected = "a scalar without axis"
            raise _standard.refuse(ValueError, name, op, expected, f"shape {shape}")
        return None
    at = _standard.axis_of(axis, x.ndim, op)
    if shape != (x.shape[at],):
        raise _standard.wrong_shape(name, op, (x.shape[at],), shape)
    return at
