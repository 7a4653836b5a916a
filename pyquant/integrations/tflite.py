# SPDX-License-Identifier: Apache-2.0
"""Quantize inputs and dequantize outputs of TFLite (LiteRT) interpreters.

TFLite is not imported. The codes equal its Quantize operator: the reference kernel, which
divides and rounds half away from zero, or the optimized kernels.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant._standard import requested, shown, slices

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["dequantize_output", "quantize_input"]

_PIXELS = ("uint8", "uint16")


def __dir__() -> list[str]:
    return sorted(__all__)


class _Tensor(NamedTuple):
    """Parameters of a detail; without a scale, the tensor is not quantized."""

    dtype: np.dtype[Any]
    scale: npt.NDArray[Any] | None
    zero_point: npt.NDArray[Any]
    axis: int | None


@_core.default_fpenv
def quantize_input(
    detail: Mapping[str, Any],
    x: ArrayLike,
    *,
    optimized: bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert real numbers to an input of an interpreter.

    Parameters
    ----------
    detail : mapping
        One of ``interpreter.get_input_details()``.
    x : array_like
        Real numbers, with any shape that the input supports. Pixels of type uint8 or uint16
        are numbers, too, if the input has another type and a single scale. Divide them
        first if the model expects, for example, pixels from 0 to 1.
    optimized : bool, optional
        True: compute like the optimized kernels, which multiply by the float32 reciprocal
        of the scale and round half to even. Default False.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1. Pixels use one thread.

    Returns
    -------
    ndarray
        Codes of the type of the input. If the input is not quantized, `x`, converted to its
        type if necessary.

    Raises
    ------
    TypeError, ValueError
        If `detail` is invalid, or `x` or `out` do not match it.

    Notes
    -----
    ``saturate(round_half_away(x / scale) + zero_point)``, in float32 unless `x` is float64.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.integrations import tflite
    >>> detail = {"name": "image", "dtype": np.int8, "quantization_parameters": {
    ...     "scales": np.float32([1 / 128]), "zero_points": np.int32([-1]),
    ...     "quantized_dimension": 0}}
    >>> tflite.quantize_input(detail, np.float32([0, 0.5, 0.99609375, 2]))
    array([ -1,  63, 127, 127], dtype=int8)
    """
    tensor = _tensor(detail)
    _check_flag(optimized)
    if tensor.scale is None:
        return _converted(tensor.dtype, x, "x", out)
    if not _core.is_untyped(x):
        x = x if type(x) is np.ndarray else _core.plain(x, "x")
        if x.dtype.kind == "u" and x.dtype.name in _PIXELS:
            _check_pixels(tensor, x)
            made = _checked_out(tensor.dtype, x, out)
            none = np.empty(0, np.float32)
            quantize_input(detail, none, optimized=optimized, threads=threads)  # errors
            with slices([x, made], [none.dtype, made.dtype]) as walk:
                for numbers, codes in walk:
                    quantize_input(detail, numbers, optimized=optimized, out=codes)
            return made
    return _core.quantize(
        x,
        _single(np.divide, 1, tensor.scale) if optimized else tensor.scale,
        tensor.zero_point,
        dtype=tensor.dtype,
        axis=tensor.axis,
        inverse=optimized,
        rounding="half_even" if optimized else "half_away",
        out=out,
        threads=threads,
    )


def _check_pixels(tensor: _Tensor, x: npt.NDArray[Any]) -> None:
    """Raise an error for integers that may be codes, or that need several scales."""
    if x.dtype == tensor.dtype or tensor.axis is not None:
        whose = "the type of the codes" if tensor.axis is None else "and several scales"
        msg = f"x: expected real numbers, got {x.dtype}, {whose}; convert pixels to float32"
        raise TypeError(msg)


@_core.default_fpenv
def dequantize_output(
    detail: Mapping[str, Any],
    q: ArrayLike,
    *,
    dtype: npt.DTypeLike | None = None,
    optimized: bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert an output of an interpreter to real numbers.

    Parameters
    ----------
    detail : mapping
        One of ``interpreter.get_output_details()``.
    q : array_like
        Codes of the type of the output.
    dtype : dtype_like, optional
        float32 (the default), float64, float16 or bfloat16.
    optimized : bool, optional
        True: compute like the optimized kernels, ``q * scale - zero_point * scale``, with
        each step rounded. Default False.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1.

    Returns
    -------
    ndarray
        ``(q - zero_point) * scale``. If the output is not quantized, `q`, converted to
        `dtype` if necessary.

    Raises
    ------
    TypeError, ValueError
        If `detail` is invalid, or `q` or `out` do not match it.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.integrations import tflite
    >>> detail = {"name": "scores", "dtype": np.uint8, "quantization_parameters": {
    ...     "scales": np.float32([0.5]), "zero_points": np.int32([3]),
    ...     "quantized_dimension": 0}}
    >>> tflite.dequantize_output(detail, np.uint8([3, 4, 0]))
    array([ 0. ,  0.5, -1.5], dtype=float32)
    """
    tensor = _tensor(detail)
    _check_flag(optimized)
    if tensor.scale is None:
        return _converted(tensor.dtype if dtype is None else _real(dtype), q, "q", out)
    given = _core.plain(q, "q")
    if given.dtype != tensor.dtype:
        msg = f"q: expected {tensor.dtype}, got {given.dtype}"
        raise TypeError(msg)
    return _core.dequantize(
        given,
        tensor.scale,
        None if optimized else tensor.zero_point,
        dtype=dtype,
        axis=tensor.axis,
        offset=_single(np.multiply, tensor.zero_point, -tensor.scale)
        if optimized
        else None,
        out=out,
        threads=threads,
    )


def _tensor(detail: Mapping[str, Any]) -> _Tensor:
    """Return the relevant parts of a detail."""
    try:
        dtype = np.dtype(detail["dtype"])
        given = detail["quantization_parameters"]
        found, axis = [given["scales"], given["zero_points"]], given["quantized_dimension"]
        axis = index(axis)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        # The value is not shown, because it may be nested too deeply.
        got = type(detail).__name__
        msg = (
            "detail: expected one of an interpreter's get_input_details() or "
            f"get_output_details(), got {got}"
        )
        raise TypeError(msg) from None
    scales = _numbers(found[0], "scales", "fiu", "real numbers")
    scales = scales if scales.dtype == np.float32 else _core.cast(scales, "float32")
    zeros = _numbers(found[1], "zero_points", "iu", "integers")
    if scales.size == 0:
        return _Tensor(dtype, None, zeros, None)
    if zeros.shape != scales.shape or scales.ndim != 1:
        msg = (
            "detail: expected as many zero points as scales, got shapes "
            f"{zeros.shape} and {scales.shape}"
        )
        raise ValueError(msg)
    return _Tensor(dtype, scales, zeros, axis if scales.size > 1 else None)


def _numbers(value: Any, name: str, kinds: str, expected: str) -> npt.NDArray[Any]:
    """Return the numbers of a detail."""
    plain = type(value) is np.ndarray
    array = value if plain else _core.plain(value, f"detail: {name}")
    if array.size and array.dtype.kind not in kinds:
        msg = f"detail: {name}: expected {expected}, got {array.dtype}"
        raise TypeError(msg)
    return array


def _check_flag(optimized: object) -> None:
    if not isinstance(optimized, (bool, np.bool)):
        msg = f"optimized: expected True or False, got {type(optimized).__name__}"
        raise TypeError(msg)


def _real(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Return a type of real numbers, perhaps from ml_dtypes."""
    name = requested(dtype)
    if name not in ("float32", "float64", "float16", "bfloat16"):
        msg = (
            f"dtype: expected float32, float64, float16 or bfloat16, got {shown(dtype):.60}"
        )
        raise TypeError(msg)
    made: np.dtype[Any] = _core.dtype_named(name)
    return made


def _single(step: np.ufunc, *values: Any) -> npt.NDArray[Any]:
    """Compute one float32 step without warnings."""
    with np.errstate(all="ignore"):
        made: npt.NDArray[Any] = step(*values, dtype=np.float32)
    return made


def _converted(
    dtype: np.dtype[Any], values: ArrayLike, name: str, out: npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    """Convert to the type of an unquantized tensor, if only precision is lost."""
    array = _core.plain(values, name)
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        msg = f"{name}: expected {dtype}, got {array.dtype}"
        raise TypeError(msg)
    if out is None:
        return array.astype(dtype, copy=False)
    np.copyto(_checked_out(dtype, array, out), array, casting="same_kind")
    return out


def _checked_out(
    dtype: np.dtype[Any], x: npt.NDArray[Any], out: npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    """Return `out`, or a new array, with the shape of `x`."""
    if out is None:
        return np.empty(x.shape, dtype)
    if not isinstance(out, np.ndarray) or (out.dtype, out.shape) != (dtype, x.shape):
        got = getattr(out, "dtype", type(out)), getattr(out, "shape", "")
        msg = f"out: expected {dtype} of shape {x.shape}, got {got[0]} {got[1]}"
        raise TypeError(msg)
    return out
