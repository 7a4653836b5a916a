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
        The type of `x`: a scalar, or with `axis` one dimension with the extent of `x` along
        it.
    y_zero_point : array_like, optional
        uint8, int8, uint16, int16, int4 or uint4, with the shape of `y_scale`. Its type is
        the type of the result, uint8 for Python integers. Default: uint8 0.
    axis : int, optional
        The axis of the scales. Default `None`: one scale for all of `x`.

    Returns
    -------
    ndarray
        Codes, with the shape of `x`.

    Raises
    ------
    TypeError
        If element types do not match.
    ValueError
        If shapes do not match.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.

    Notes
    -----
    Quotients are float32, also for float16, like in ONNX Runtime. Its kernel also accepts a
    one-dimensional scale of one element for all of `x`, with and without `axis`. The text
    of the operator does not.

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
        float32 or float16: a scalar, or with `axis` one dimension with the extent of `x`
        along it.
    x_zero_point : array_like, optional
        Zero points with the type of `x` and the shape of `x_scale`. Default 0.
    axis : int, optional
        The axis of the scales. Default `None`: one scale for all of `x`.

    Returns
    -------
    ndarray
        Array with the type of `x_scale` and the shape of `x`.

    Raises
    ------
    TypeError
        If element types do not match.
    ValueError
        If shapes do not match.
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
    """Return the axis, after the shape checks."""
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
