# SPDX-License-Identifier: Apache-2.0
"""Quantize to NVFP4: float4_e2m1fn in blocks of 16 with float8 scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant.weights._magnitudes import (
    block_scales,
    blocks_along,
    each_slab,
    one_of,
    real_array,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.packed import PackedArray

    _Places = tuple[slice, ...]
    _Style = Literal["torchao", "compressed-tensors"]

__all__ = ["Blocks", "choose_tensor_scale", "dequantize", "quantize"]

BLOCK, ELEMENTS = 16, ("float4_e2m1fn",)
_MOST = np.float32(448 * 6)  # the largest scale of a block times the largest element
_SMALLEST, _LARGEST = np.float32(2**-6), np.float32(448)  # limits of torchao's scales
_FOR_ZERO = np.uint8(0x20)  # 0.125
# Range of tensor scales that never overflow.
_RANGES = {
    "torchao": (2.0**-121, 2.0**119),
    "compressed-tensors": (2.0**-118, float(np.finfo(np.float32).max)),
}


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True, eq=False)
class Blocks:
    """
    NVFP4 elements, with the scales of their blocks and of the tensor.

    Attributes
    ----------
    codes : ndarray or PackedArray
        float4_e2m1fn elements.
    scales : ndarray
        float8_e4m3fn, with the shape of `codes`, and the number of blocks at `axis`.
    tensor_scale : float32
        Scale of the tensor.
    style : str
        "torchao": `tensor_scale` is a multiplier. "compressed-tensors": it is a divisor.
    axis : int
        The axis of the blocks of 16.
    """

    codes: Any
    scales: npt.NDArray[Any]
    tensor_scale: np.float32
    style: _Style
    axis: int

    def dequantize(
        self,
        *,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]:
        """
        Convert the blocks to real numbers.

        Parameters
        ----------
        dtype, out, threads
            See the function `dequantize`.

        Returns
        -------
        ndarray
            Array with the shape of `codes`, or `out`.

        Raises
        ------
        TypeError, ValueError
            If an argument is wrong; `out` is unchanged.
        """
        given = {"style": self.style, "axis": self.axis}
        how: Any = {**given, "dtype": dtype, "out": out, "threads": threads}
        return dequantize(self.codes, self.scales, self.tensor_scale, **how)


@_core.default_fpenv
def choose_tensor_scale(
    x: ArrayLike, *, style: _Style = "torchao", threads: SupportsIndex = 1
) -> np.float32:
    """
    Choose the scale of a tensor from its largest magnitude.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float64, float16 or bfloat16, of any shape and strides.
    style : {"torchao", "compressed-tensors"}, optional
        The formula, see `quantize`.
    threads : int, optional
        Largest number of threads. Default 1.

    Returns
    -------
    float32
        "torchao": a multiplier, the magnitude divided by 2688 (448 times 6).
        "compressed-tensors": a divisor, 2688 times the reciprocal of the magnitude, rounded
        twice. 1 if the result is out of the range of `quantize`, for example for zeros.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value does not fit, or `x` contains a value that is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import nvfp4
    >>> x = np.float32([-2, 1])
    >>> print(nvfp4.choose_tensor_scale(x, style="compressed-tensors"))
    1344.0
    """
    one_of(style, "style", tuple(_RANGES))
    array, count = real_array(x), _core.integer(threads, "threads", 1)
    if array.ndim == 0:
        array = array.reshape(1)
    elif array.ndim > 1 and array.flags.c_contiguous:
        array = array.reshape(-1)
    axis = int(np.argmax(array.shape))
    return _tensor_scale(_amax_of(array, axis, 1 << 12, count), style)


@_core.default_fpenv
def quantize(
    x: ArrayLike,
    tensor_scale: ArrayLike | None = None,
    *,
    style: _Style = "torchao",
    axis: SupportsIndex = -1,
    packed: bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> Blocks:
    """
    Convert real numbers to NVFP4 blocks.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float64, float16 or bfloat16, with at least one dimension
        and any strides. float64 values must be within float32.
    tensor_scale : float, optional
        Scale of the tensor, rounded to float32. Default: the result of
        `choose_tensor_scale`. With 1, only blocks have scales.
    style : {"torchao", "compressed-tensors"}, optional
        The formulas, see Notes. "torchao": `tensor_scale` is a multiplier, like in
        ModelOpt's files. "compressed-tensors": it is a divisor.
    axis : int, optional
        The axis of the blocks of 16; the last block may be short. Default: the last axis.
    packed : bool, optional
        Return a `PackedArray` with two elements to a byte, the first in the low bits.
    out : ndarray, optional
        Array for the elements, of the exact shape and dtype. Any strides are allowed.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Blocks
        Elements with the shape of `x`, in `out` if given, with all scales, style and axis.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong, or `x` contains a value that is not finite; `out` is
        unchanged.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.
    ImportError
        If ml_dtypes, which defines the type of the scales, is not installed.

    Notes
    -----
    Let a be the largest magnitude of a block, and t the scale of the tensor. Each operation
    is rounded to float32. Scales and elements are then rounded half to even and saturated::

        torchao:             scale = e4m3(max((a / 6) / t, 2**-6))
                             code = e2m1(x * ((1 / t) / scale))
        compressed-tensors:  scale = e4m3(t * (a / 6)), 0.125 for 0
                             code = e2m1(x / (scale / t))

    The result equals torchao's `nvfp4_quantize`, with and without a tensor scale, and
    `calculate_qparams` and `quantize` of compressed-tensors, except that `quantize` of
    compressed-tensors converts -0 to 0. If `x` is float64, magnitudes are rounded to
    float32, and products and quotients of `x` are float64. The call allocates the result
    and a float32 for each block.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import nvfp4
    >>> x = (np.arange(32, dtype=np.float32) - 16) / 8
    >>> b = nvfp4.quantize(x, packed=True)
    >>> b.scales.astype(int), b.tensor_scale.view(np.uint32) == 0x3a430c31
    (array([448, 416]), np.True_)
    >>> b.codes.data.tobytes().hex()
    'ffefeededdccab9a1022435465667677'
    >>> b.dequantize()[16:20]
    array([0.        , 0.15476191, 0.30952382, 0.30952382], dtype=float32)
    """
    one_of(style, "style", tuple(_RANGES))
    given = None if tensor_scale is None else _given(tensor_scale, style)
    _core.dtype_named("float8_e4m3fn")  # else an error
    array, count = real_array(x), _core.integer(threads, "threads", 1)
    at = blocks_along(array.shape, axis, BLOCK)[0]
    amax = _amax_of(array, at, BLOCK, count)
    chosen = _tensor_scale(amax, style) if given is None else given
    scales, factors = _scales_of(amax, chosen, style, count)
    where: Any = out  # `None` beside packed=True, else an error
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
    return Blocks(codes, scales, chosen, style, at)


@_core.hinted
def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    tensor_scale: ArrayLike,
    *,
    style: _Style,
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
        float4_e2m1fn elements; or uint8 with one or two elements to a byte, if the shape of
        `scale` fits only one of them.
    scale : array_like
        float8_e4m3fn, or its bytes as uint8, with the shape of `q`, and the number of
        blocks at `axis`.
    tensor_scale : float
        Scale of the tensor, rounded to float32. 1 if only blocks have scales.
    style : {"torchao", "compressed-tensors"}
        "torchao": `tensor_scale` is a multiplier, like in the files of torchao and
        ModelOpt. "compressed-tensors": it is a divisor.
    dtype : dtype_like, optional
        float32 (the default), float64, float16 or bfloat16.
    axis : int, optional
        The axis of the blocks of 16. Default: the last.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    ndarray
        ``q * (tensor_scale * scale)`` or ``q * (scale / tensor_scale)``, with the
        parentheses rounded to float32, or `out`.

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
    >>> from pyquant.weights import nvfp4
    >>> q, scale = np.full((2, 16), 0x21, np.uint8), np.full((2, 2), 0x38, np.uint8)
    >>> nvfp4.dequantize(q, scale, 0.5, style="torchao")[0, :4]
    array([0.25, 0.5 , 0.25, 0.5 ], dtype=float32)
    """
    one_of(style, "style", tuple(_RANGES))
    codes, stored = block_scales(q, scale, ELEMENTS, "float8_e4m3fn", axis, BLOCK)
    factors = _core.dequantize(
        stored, _single(tensor_scale), inverse=style != "torchao", threads=threads
    )
    return _core.dequantize(
        codes,
        factors,
        dtype=dtype,
        axis=_core.integer(axis, "axis"),
        block_size=BLOCK,
        out=out,
        threads=threads,
    )


def _single(tensor_scale: ArrayLike) -> np.float32:
    """Return one number as float32."""
    array = _core.as_reals(tensor_scale, "tensor_scale")
    if array.size != 1:
        msg = f"tensor_scale: expected one number, got shape {array.shape}"
        raise ValueError(msg)
    made: np.float32 = _core.cast(array, "float32").reshape(-1)[0]
    return made


def _given(tensor_scale: ArrayLike, style: str) -> np.float32:
    """Return a given number, or raise an error if a step could overflow."""
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
    """Return scales of blocks, and replace magnitudes by the factors of the elements."""
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
    """Return the largest magnitude of each block; raise if a value is not finite."""
    amax = np.empty(blocks_along(x.shape, axis, block_size)[1], np.float32)
    infinite = []

    def take(places: _Places, magnitudes: npt.NDArray[np.float32]) -> None:
        amax[places] = magnitudes
        if not np.isfinite(magnitudes).all():
            infinite.append(places)

    each_slab(take, x, axis, block_size, threads)
    if infinite:
        found = _core.extrema(x, x.shape)  # else an error with the index
        msg = f"x: expected numbers that float32 holds, got {abs(found).max()}"
        raise ValueError(msg)
    return amax
