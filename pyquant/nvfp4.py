# SPDX-License-Identifier: Apache-2.0
"""Quantize to NVFP4: float4_e2m1fn in blocks of 16 with float8 scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant._magnitudes import (
    block_scales,
    blocks_along,
    each_slab,
    integer,
    one_of,
    positive,
    real_array,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.packed import PackedArray

    _Places = tuple[slice, ...]
    _Style = Literal["torchao", "compressed-tensors"]

__all__ = ["choose_tensor_scale", "dequantize", "quantize"]

BLOCK = 16
_MOST = np.float32(448 * 6)  # the largest scale of a block times the largest element
_SMALLEST, _LARGEST = np.float32(2**-6), np.float32(448)  # scales that torchao has
_FOR_ZERO = np.uint8(0x20)  # 0.125
# Tensor scales with which no step overflows, whatever the block.
_RANGES = {
    "torchao": (2.0**-121, 2.0**119),
    "compressed-tensors": (2.0**-118, float(np.finfo(np.float32).max)),
}


def __dir__() -> list[str]:
    return sorted(__all__)


def choose_tensor_scale(
    x: ArrayLike, *, style: _Style = "torchao", threads: SupportsIndex = 1
) -> np.float32:
    """
    Choose the scale of a tensor from its largest magnitude.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16, of any shape and strides, all finite.
    style : {"torchao", "compressed-tensors"}, optional
        Whose, see `quantize`.
    threads : int, optional
        Largest number of threads. Default 1.

    Returns
    -------
    float32
        With "torchao" a multiplier, the magnitude divided by 2688, which is 448 times 6;
        with "compressed-tensors" a divisor, 2688 times the reciprocal of the magnitude, two
        roundings. 1 where that is out of the range that `quantize` takes, as of zeros.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value does not fit, or `x` holds what is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant import nvfp4
    >>> x = np.float32([-2, 1])
    >>> print(nvfp4.choose_tensor_scale(x, style="compressed-tensors"))
    1344.0
    """
    one_of(style, "style", tuple(_RANGES))
    array, count = real_array(x), positive(threads, "threads")
    if array.ndim == 0:
        array = array.reshape(1)
    elif array.ndim > 1 and array.flags.c_contiguous:
        array = array.reshape(-1)
    axis = int(np.argmax(array.shape))
    return _tensor_scale(_amax_of(array, axis, 1 << 12, count), style)


def quantize(
    x: ArrayLike,
    tensor_scale: ArrayLike | None = None,
    *,
    style: _Style = "torchao",
    axis: SupportsIndex = -1,
    packed: bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> tuple[Any, npt.NDArray[Any], np.float32]:
    """
    Convert real numbers to NVFP4 blocks.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16, of any shape, of at least one dimension, and
        any strides; all finite, and float64 within float32.
    tensor_scale : float, optional
        The scale of the tensor, as calibration had it; rounded to float32. Default that of
        `choose_tensor_scale`. With 1 there are scales of blocks only.
    style : {"torchao", "compressed-tensors"}, optional
        Whose formulas: in the first one `tensor_scale` is a multiplier, as in ModelOpt's
        files, in the other one a divisor. See Notes.
    axis : int, optional
        That along which blocks of 16 follow each other, of which the last one may have
        fewer. Default the last one.
    packed : bool, optional
        As for `pyquant.quantize`: return a `PackedArray`, two elements a byte, the first
        one in the low bits.
    out : ndarray, optional
        Where to put the elements: exact shape and dtype, any strides.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    codes : ndarray or PackedArray
        float4_e2m1fn, of the shape of `x`; or `out`.
    scales : ndarray
        float8_e4m3fn, of the shape of `x` but for the extent of `axis`, in whose place
        there is the number of blocks.
    tensor_scale : float32
        That of the tensor.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape does not fit, or `x` holds what is not finite; `out` is
        unchanged.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.
    ImportError
        If ml_dtypes is not installed, which has the type of the scales.

    Notes
    -----
    Let a be the largest magnitude of a block, and t the scale of the tensor. Each operation
    is rounded to float32; then scales and elements half to even, and saturated::

        torchao:             scale = e4m3(max((a / 6) / t, 2**-6))
                             code = e2m1(x * ((1 / t) / scale))
        compressed-tensors:  scale = e4m3(t * (a / 6)), 0.125 for 0
                             code = e2m1(x / (scale / t))

    Equal to torchao's `nvfp4_quantize`, with and without a scale of the tensor, and to
    `calculate_qparams` and `quantize` of compressed-tensors, but for -0, which the last one
    makes 0. Where `x` is float64, magnitudes are rounded to float32, and the products and
    quotients of `x` are float64. Beside the result a float32 for each block is allocated.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant import nvfp4
    >>> x = (np.arange(32, dtype=np.float32) - 16) / 8
    >>> q, scales, tensor_scale = nvfp4.quantize(x, packed=True)
    >>> scales.astype(int), tensor_scale.view(np.uint32) == 0x3a430c31
    (array([448, 416]), np.True_)
    >>> q.data.tobytes().hex()
    'ffefeededdccab9a1022435465667677'
    """
    one_of(style, "style", tuple(_RANGES))
    given = None if tensor_scale is None else _given(tensor_scale, style)
    _core.dtype_named("float8_e4m3fn")  # or an error
    array, count = real_array(x), positive(threads, "threads")
    at = blocks_along(array.shape, axis, BLOCK)[0]
    amax = _amax_of(array, at, BLOCK, count)
    chosen = _tensor_scale(amax, style) if given is None else given
    scales, factors = _scales_of(amax, chosen, style, count)
    where: Any = out  # which is None beside packed=True, or an error
    codes = _core.quantize(
        array,
        factors,
        dtype="float4_e2m1fn",
        axis=at,
        block_size=BLOCK,
        inverse=style == "torchao",
        packed=packed,
        out=where,
        threads=count,
    )
    return codes, scales, chosen


def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    tensor_scale: ArrayLike = 1,
    *,
    style: _Style = "torchao",
    dtype: npt.DTypeLike | None = None,
    axis: SupportsIndex = -1,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert NVFP4 blocks to real numbers.

    Parameters
    ----------
    q : array_like or PackedArray
        Elements, float4_e2m1fn.
    scale : array_like
        float8_e4m3fn, or its bytes as uint8: of the shape of `q` but for the extent of
        `axis`, in whose place there is the number of blocks.
    tensor_scale : float, optional
        The scale of the tensor, rounded to float32. Default 1, for scales of blocks only.
    style : {"torchao", "compressed-tensors"}, optional
        Whether `tensor_scale` is a multiplier, as in torchao's and ModelOpt's files, or a
        divisor.
    dtype : dtype_like, optional
        float32 (the default), float64, float16 or bfloat16.
    axis : int, optional
        That along which blocks of 16 follow each other. Default the last one.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    ndarray
        ``q * (tensor_scale * scale)``, or ``q * (scale / tensor_scale)``, where what is in
        parentheses is rounded to float32; or `out`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong; `out` is unchanged.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.
    ImportError
        If a type needs ml_dtypes and the package is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> from pyquant import nvfp4
    >>> q = pq.PackedArray(np.full(8, 0x21, np.uint8), "float4_e2m1fn", (16,))
    >>> nvfp4.dequantize(q, np.uint8([0x38]), 0.5)[:4]
    array([0.25, 0.5 , 0.25, 0.5 ], dtype=float32)
    """
    one_of(style, "style", tuple(_RANGES))
    codes, stored = block_scales(q, scale, "float8_e4m3fn", axis, BLOCK)
    factors = _core.dequantize(
        stored, _single(tensor_scale), inverse=style != "torchao", threads=threads
    )
    return _core.dequantize(
        codes,
        factors,
        dtype=dtype,
        axis=integer(axis, "axis"),
        block_size=BLOCK,
        out=out,
        threads=threads,
    )


def _single(tensor_scale: ArrayLike) -> np.float32:
    """One number, as float32."""
    array = _core.as_reals(tensor_scale, "tensor_scale")
    if array.size != 1:
        msg = f"tensor_scale: expected one number, got shape {array.shape}"
        raise ValueError(msg)
    made: np.float32 = _core.cast(array, "float32").reshape(-1)[0]
    return made


def _given(tensor_scale: ArrayLike, style: str) -> np.float32:
    """One number, with which no step overflows."""
    scale, (least, most) = _single(tensor_scale), _RANGES[style]
    if not least <= scale <= most:
        expected = f"a number from {least:.3g} to {most:.3g} for style={style!r}"
        msg = f"tensor_scale: expected {expected}, got {scale}"
        raise ValueError(msg)
    return scale


def _tensor_scale(amax: npt.NDArray[np.float32], style: str) -> np.float32:
    largest = amax.max(initial=np.float32(0))
    least, most = _RANGES[style]
    with np.errstate(all="ignore"):
        scales = {
            "torchao": largest / _MOST,
            "compressed-tensors": _MOST * (np.float32(1) / largest),
        }
    scale = scales[style]
    return scale if least <= scale <= most else np.float32(1)


def _scales_of(
    amax: npt.NDArray[np.float32], chosen: np.float32, style: str, threads: int
) -> tuple[npt.NDArray[Any], npt.NDArray[np.float32]]:
    """Scales of blocks, and in place of magnitudes what elements are multiplied or divided
    by."""
    one = np.float32(1)
    with np.errstate(all="ignore"):
        amax /= np.float32(6)
        if style == "torchao":
            amax /= chosen
            np.clip(amax, _SMALLEST, _LARGEST, out=amax)
        else:
            amax *= chosen
        scales = _core.quantize(amax, one, dtype="float8_e4m3fn", threads=threads)
        if style == "torchao":
            _core.dequantize(scales, one, out=amax)
            np.divide(one / chosen, amax, out=amax)
            return scales, amax
    stored = scales.view(np.uint8)
    stored[stored == 0] = _FOR_ZERO
    return scales, _core.dequantize(scales, chosen, inverse=True, out=amax)


def _amax_of(
    x: npt.NDArray[Any], axis: int, block_size: int, threads: int
) -> npt.NDArray[np.float32]:
    """The largest magnitude of each block, of finite numbers."""
    amax = np.empty(blocks_along(x.shape, axis, block_size)[1], np.float32)
    infinite = []

    def take(places: _Places, magnitudes: npt.NDArray[np.float32]) -> None:
        amax[places] = magnitudes
        if not np.isfinite(magnitudes).all():
            infinite.append(places)

    each_slab(take, x, axis, block_size, threads)
    if infinite:
        found = _core.extrema(x, x.shape)  # or an error that says where
        msg = f"x: expected numbers that float32 holds, got {abs(found).max()}"
        raise ValueError(msg)
    return amax
