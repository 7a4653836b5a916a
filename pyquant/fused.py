# SPDX-License-Identifier: Apache-2.0
"""Choose parameters and quantize, or quantize and dequantize, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeVar, overload

from pyquant import _core
from pyquant.qparams import QParams

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from pyquant._core import _Codes, _Integers, _Known, _Packing, _Rounding
    from pyquant._typing import ArrayLike, Like
    from pyquant.packed import PackedArray

    _Scalar = TypeVar("_Scalar", bound=np.generic)
    _Array = TypeVar("_Array", bound=npt.NDArray[Any])

__all__ = ["dynamic_quantize", "fake_quantize"]


def __dir__() -> list[str]:
    return sorted(__all__)


@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    packed: Literal[False] = False,
    out: _Array,
    threads: SupportsIndex = 1,
) -> tuple[_Array, QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: _Known[_Scalar],
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    packed: Literal[False] = False,
    out: None = None,
    threads: SupportsIndex = 1,
    rounding: _Rounding = "half_even",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> tuple[npt.NDArray[_Scalar], QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    packed: Literal[True] | _Packing,
    out: None = None,
    threads: SupportsIndex = 1,
    rounding: _Rounding = "half_even",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> tuple[PackedArray, QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    packed: Literal[False] = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    rounding: _Rounding = "half_even",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> tuple[npt.NDArray[Any], QParams]: ...
@overload
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    packed: bool | np.bool | _Packing = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    rounding: _Rounding = "half_even",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> tuple[Any, QParams]: ...
def dynamic_quantize(
    x: ArrayLike,
    *,
    dtype: npt.DTypeLike = "int8",
    axis: _Integers = None,
    block_size: _Integers = None,
    symmetric: bool | np.bool | None = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    scale_dtype: npt.DTypeLike | None = None,
    like: Like | None = None,
    packed: bool | np.bool | _Packing = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    rounding: _Rounding = "half_even",
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> tuple[Any, QParams]:
    """
    Choose parameters from the data and quantize in one pass.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16, of any shape and strides; all finite.
    dtype : dtype_like, optional
        The quantized type, int8 by default; one that `choose_qparams` takes.
    axis, block_size : int or tuple of int, optional
        Granularity, as for `quantize`: ``axis=0`` is a scale for each row, as activations
        have one for each token. Default one scale for all of `x`.
    symmetric, quant_range, scale_dtype, like
        As for `choose_qparams`.
    packed : bool, str or tuple, optional
        As for `quantize`: return a `PackedArray`.
    out : ndarray, optional
        Where to put the codes: exact shape and dtype, any strides.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.
    rounding : str or RoundMode, optional
        As for `quantize`.
    seed, start : int, optional
        With stochastic rounding only, as for `quantize`. `start` is the place of the first
        element of `x` in a larger array, whose rows may so be quantized in chunks.

    Returns
    -------
    codes : ndarray or PackedArray
        The codes, of the shape of `x`; `out` if given.
    parameters : QParams
        What they were made with.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit: `out` has not been written to. If `x` holds a
        NaN or an infinity: `out` may have the codes of other groups.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Notes
    -----
    Bit for bit what `choose_qparams` and `QParams.quantize` give. Groups are quantized
    while caches hold them, so that each number comes from memory once, unless one group is
    more than they hold.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.float32([[-1, 0.5, 2], [0, 0, 0], [0.1, 0.2, 0.3]])
    >>> q, p = pq.dynamic_quantize(x, axis=0)
    >>> q
    array([[-64,  32, 127],
           [  0,   0,   0],
           [ 42,  85, 127]], dtype=int8)
    >>> p.scale
    array([0.01574803, 1.        , 0.0023622 ], dtype=float32)
    """
    return _core.dynamic_quantize(
        QParams,
        None,
        x,
        dtype,
        axis,
        block_size,
        symmetric,
        quant_range,
        scale_dtype,
        like,
        packed,
        out,
        threads,
        rounding,
        seed,
        start,
    )


@overload
def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    mask: npt.NDArray[np.bool] | None = None,
    out: _Array,
    threads: SupportsIndex = 1,
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> _Array: ...
@overload
def fake_quantize(
    x: npt.NDArray[_Scalar],
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    mask: npt.NDArray[np.bool] | None = None,
    out: None = None,
    threads: SupportsIndex = 1,
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[_Scalar]: ...
@overload
def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    mask: npt.NDArray[np.bool] | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[Any]: ...
def fake_quantize(
    x: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike | None = None,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: _Integers = None,
    block_size: _Integers = None,
    rounding: _Rounding = "half_even",
    precision: npt.DTypeLike | None = None,
    saturate: bool | np.bool = True,
    offset: ArrayLike | None = None,
    inverse: bool | np.bool = False,
    fill: _Codes = None,
    quant_range: tuple[SupportsIndex, SupportsIndex] | None = None,
    mask: npt.NDArray[np.bool] | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
    seed: SupportsIndex | None = None,
    start: SupportsIndex | None = None,
) -> npt.NDArray[Any]:
    """
    Quantize and dequantize in one pass.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16, of any shape, strides and byte order.
    scale, zero_point, dtype, axis, block_size, rounding, precision, saturate
        As for `quantize`.
    offset, inverse, fill, quant_range
        As for `quantize`, and for the way back as for `dequantize`.
    mask : ndarray of bool, optional
        Of the shape of `x`, any strides: gets True where the rounded quotient and the zero
        point are within the range of codes, and False where they saturate. NaN is not
        within it. What gradients pass through, where they are estimated so. With codes of
        64 bits and narrow floats not beside a `precision` less than that of `x`.
    out : ndarray, optional
        Where to put the result: the shape and the dtype of `x`, any strides.
    threads : int, optional
        How many threads may share the work. The result does not depend on it.
    seed, start : int, optional
        With stochastic rounding only, as for `quantize`.

    Returns
    -------
    ndarray
        Real numbers of the shape and the dtype of `x`; `out` if given.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If a value or a shape does not fit. Neither `out` nor `mask` has been written to.
    numpy.exceptions.AxisError
        If an axis is out of bounds.
    ImportError
        If a type is one of ml_dtypes, which is not installed.

    Notes
    -----
    Bit for bit ``dequantize(quantize(x, …), …, dtype=x.dtype)`` with the same arguments,
    where the codes are never more than a few thousand at a time.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> mask = np.empty(4, bool)
    >>> pq.fake_quantize(np.float32([0.6, 1.5, -3, 1e9]), 0.5, 1, dtype="uint8", mask=mask)
    array([  0.5,   1.5,  -0.5, 127. ], dtype=float32)
    >>> mask
    array([ True,  True, False, False])
    """
    return _core.fake_quantize(
        None,
        x,
        scale,
        zero_point,
        dtype,
        axis,
        block_size,
        rounding,
        precision,
        saturate,
        offset,
        inverse,
        fill,
        quant_range,
        mask,
        out,
        threads,
        seed,
        start,
    )
