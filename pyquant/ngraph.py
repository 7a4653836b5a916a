# SPDX-License-Identifier: Apache-2.0
"""nGraph's operations Quantize and Dequantize (op::v0), as specified."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

from pyquant import _standard
from pyquant.rounding import NGRAPH

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.rounding import RoundMode

__all__ = ["dequantize", "quantize"]
__dir__: object = __all__.copy

QUANTIZED = ("int8", "uint8", "int32")
REAL = ("float32", "float64", "float16", "bfloat16")
# nGraph's own names of the element types.
SHORT_NAMES = {
    "i8": "int8",
    "u8": "uint8",
    "i32": "int32",
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
    "dynamic": "dynamic",  # not allowed
}


QUANTIZE = _standard.Operator(
    "nGraph Quantize",
    dtype=("type", QUANTIZED, SHORT_NAMES, "a quantized type, "),
    rounding=("round_mode", NGRAPH),
    input=("input", REAL),
    scale=("scale",),
    zero=("zero_point", None, "required"),
    places="axes",
)
DEQUANTIZE = _standard.Operator(
    "nGraph Dequantize",
    dtype=("type", REAL, SHORT_NAMES, "a real type, "),
    input=("input", QUANTIZED),
    zero=("zero_point", None, "required"),
    scale=("scale",),
    places="axes",
)


def quantize(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    type: npt.DTypeLike,
    axes: Iterable[SupportsIndex],
    round_mode: RoundMode | str,
    *,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Quantize: ``saturate(round(input / scale) + zero_point)``.

    Parameters
    ----------
    input : array_like
        Real numbers. The type is float32, float64, float16 or bfloat16.
    scale : array_like
        Scales. The type is the type of `input`. The shape is the shape of `input` at
        `axes`.
    zero_point : array_like
        Zero points of the output type. The shape is the shape of `scale`.
    type : dtype_like
        The output type. It is int8, uint8 or int32. nGraph's names are "i8", "u8", "i32".
    axes : iterable of int
        The axes along which scales vary, in any order. ``()``: one scale for all of
        `input`.
    round_mode : RoundMode or str
        nGraph's name, for example ``"ROUND_NEAREST_UPWARD"``, in any letter case, or a
        member of `pyquant.RoundMode`.
    out : ndarray, optional
        Array for the result. It has the exact shape and dtype. Any strides are valid.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on `threads`.

    Returns
    -------
    ndarray
        Codes of `type`, with the shape of `input`, or `out`.

    Raises
    ------
    TypeError
        If element types do not match.
    ValueError
        If shapes do not match, or `round_mode` is unknown.
    numpy.exceptions.AxisError
        If an axis is out of bounds.

    Notes
    -----
    Quotients are rounded once to the type of `input`, and then by the exact definition of
    the mode. nGraph's old reference kernel misrounds values next to one half and large odd
    values. nGraph's own tests agree with the definitions.

    Examples
    --------
    >>> import pyquant as pq
    >>> x = [2.5, -3.5, 2.25]
    >>> pq.ngraph.quantize(x, 1.0, 0, "i8", (), "ROUND_NEAREST_UPWARD")
    array([ 3, -3,  2], dtype=int8)
    """
    return QUANTIZE.run(
        input, scale, zero_point, axes, out, threads, type, rounding=round_mode
    )


def dequantize(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    type: npt.DTypeLike,
    axes: Iterable[SupportsIndex],
    *,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Dequantize: ``(input - zero_point) * scale``.

    Parameters
    ----------
    input : array_like
        Codes. The type is int8, uint8 or int32.
    scale : array_like
        Scales of the output type. The shape is the shape of `input` at `axes`.
    zero_point : array_like
        Zero points. The type is the type of `input`. The shape is the shape of `scale`.
    type : dtype_like
        The output type. It is float32, float64, float16 or bfloat16. nGraph's names are
        "f32", "f64", "f16", "bf16".
    axes, out, threads
        See `quantize`.

    Returns
    -------
    ndarray
        Real numbers of `type`, with the shape of `input`, or `out`.

    Raises
    ------
    TypeError, ValueError, numpy.exceptions.AxisError
        See `quantize`.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.ngraph.dequantize(np.uint8([0, 7]), 0.5, 3, "f32", ())
    array([-1.5,  2. ], dtype=float32)
    """
    return DEQUANTIZE.run(input, scale, zero_point, axes, out, threads, type)
