# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear of ONNX Runtime's domain com.microsoft.

Most models use the operators of the standard domain: see `pyquant.onnx`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from pyquant import _standard

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.packed import PackedArray

__all__ = ["dequantize_linear", "quantize_linear"]
__dir__: object = __all__.copy

REAL = ("float32", "float16")
QUANTIZED = ("uint8", "int8", "uint16", "int16", "int4", "uint4")
QUANTIZED_OR_INT32 = (*QUANTIZED, "int32")

QUANTIZE = _standard.Operator(
    "com.microsoft QuantizeLinear",
    input=("x", REAL),
    scale=("y_scale",),
    zero=("y_zero_point", QUANTIZED, "typing"),
    places="scalar",
    quotient="float32",
)
DEQUANTIZE = _standard.Operator(
    "com.microsoft DequantizeLinear",
    input=("x", QUANTIZED_OR_INT32),
    scale=("x_scale", REAL),
    zero=("x_zero_point",),
    places="scalar",
)


def quantize_linear(
    x: ArrayLike,
    y_scale: ArrayLike,
    y_zero_point: ArrayLike | None = None,
    *,
    axis: SupportsIndex | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Quantize: ``saturate(round(x / y_scale) + y_zero_point)``.

    Parameters
    ----------
    x : array_like
        float32 or float16.
    y_scale : array_like
        The scale, of the type of `x` or a Python float. Without `axis`: a scalar. With
        `axis`: one dimension with the extent of `x` along this axis.
    y_zero_point : array_like, optional
        uint8, int8, uint16, int16, int4 or uint4, with the shape of `y_scale`. The result
        has the type of the zero point. Python integers become uint8. Default: uint8 0.
    axis : int, optional
        The axis of the scales. Default `None`: one scale for all of `x`.
    out : ndarray, optional
        Array for the result, of the exact shape and dtype, with any strides.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        Codes, with the shape of `x`, or `out`.

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
    Quotients are float32, also for float16, like in ONNX Runtime. ONNX Runtime also accepts
    a one-dimensional scale of one element for all of `x`, with and without `axis`. The text
    of the operator does not allow that scale.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.com_microsoft.quantize_linear(np.float32([1, 2.5, 400]), np.float32(1))
    array([  1,   2, 255], dtype=uint8)
    """
    return QUANTIZE.run(x, y_scale, y_zero_point, axis, out, threads)


def dequantize_linear(
    x: ArrayLike | PackedArray,
    x_scale: ArrayLike,
    x_zero_point: ArrayLike | None = None,
    *,
    axis: SupportsIndex | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Dequantize: ``(x - x_zero_point) * x_scale``.

    Parameters
    ----------
    x : array_like or PackedArray
        uint8, int8, uint16, int16, int32, int4 or uint4.
    x_scale : array_like
        float32 or float16. Without `axis`: a scalar. With `axis`: one dimension with the
        extent of `x` along this axis.
    x_zero_point : array_like, optional
        Zero points with the type of `x` and the shape of `x_scale`. Default 0.
    axis, out, threads : optional
        See `quantize_linear`.

    Returns
    -------
    ndarray
        Array with the type of `x_scale` and the shape of `x`, or `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        See `quantize_linear`.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> q = np.uint8([0, 3, 128, 255])
    >>> pq.com_microsoft.dequantize_linear(q, np.float32(2), np.uint8(128))
    array([-256., -250.,    0.,  254.], dtype=float32)
    """
    return DEQUANTIZE.run(x, x_scale, x_zero_point, axis, out, threads)
