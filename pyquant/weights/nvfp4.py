# SPDX-License-Identifier: Apache-2.0
"""Read and write NVFP4 weights: float4_e2m1fn in blocks of 16 with float8 scales.

Two elements share a byte, with the first element in the low bits. Blocks are along the last
axis. The names of the tensors and the formulas depend on the package:

- torchao and ModelOpt use ``weight``, ``weight_scale`` and ``weight_scale_2``. Values are
  ``element * (weight_scale_2 * weight_scale)``.
- compressed-tensors uses ``weight_packed``, ``weight_scale`` and ``weight_global_scale``.
  Values are ``element * (weight_scale / weight_global_scale)``.

The products and quotients in parentheses are rounded to float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _check, _core
from pyquant._check import integer
from pyquant.weights import _weight
from pyquant.weights._magnitudes import each_slab, grid_of, real_array
from pyquant.weights._weight import Scaled, Weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyquant._typing import Array, ArrayLike, Floats

    _Places = tuple[slice, ...]
    _Like = Literal["torchao", "compressed_tensors"]

__all__ = ["from_tensors", "pack", "quantize"]
__dir__: object = __all__.copy

_TENSORS = {
    "torchao": ("weight", "weight_scale", "weight_scale_2"),
    "compressed_tensors": ("weight_packed", "weight_scale", "weight_global_scale"),
}
_BLOCK, _ELEMENTS = 16, ("float4_e2m1fn",)
_MOST = np.float32(448 * 6)  # the largest scale of a block, times the largest element
_SMALLEST, _LARGEST = np.float32(2**-6), np.float32(448)  # torchao's range of block scales
_FOR_ZERO = np.uint8(0x20)  # the code of 0.125, the scale of a block of zeros
# Lowest and highest scale of the tensor with which no operation can overflow.
_RANGES = {
    "torchao": (2.0**-121, 2.0**119),
    "compressed_tensors": (2.0**-118, float(np.finfo(np.float32).max)),
}


@_core.hinted
def from_tensors(tensors: Mapping[str, Any], name: str = "") -> Weight:
    """
    Return a weight from elements and scales of blocks and tensor, without a copy.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays:

        - ``weight`` or ``weight_packed``: float4_e2m1fn elements, or bytes with two
          elements each;
        - ``weight_scale``: float8_e4m3fn scales, or their bytes as uint8;
        - ``weight_scale_2``, a multiplier, or ``weight_global_scale``, a divisor. If both
          are absent, the function raises an error.
    name : str, optional
        Name of the weight, such as "layer.weight", or of its layer. Default: no name.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import nvfp4
    >>> q, scale = np.full((2, 8), 0x21, np.uint8), np.full((2, 1), 0x38, np.uint8)
    >>> given = {"weight": q, "weight_scale": scale, "weight_scale_2": np.float32(0.5)}
    >>> nvfp4.from_tensors(given).dequantize()[0, :4]
    array([0.25, 0.5 , 0.25, 0.5 ], dtype=float32)
    """
    (codes, scale, factor), (packed, _, divisor) = _TENSORS.values()
    (elements,) = _weight.keys_in(tensors, name, (packed,), (codes,))
    (single,) = _weight.keys_in(tensors, name, (divisor,), (factor,))
    has = [_weight.tensor_of(tensors, name, key) is not None for key in (elements, single)]
    if has == [True, False]:
        msg = "tensors: expected weight_scale_2 or weight_global_scale, the scale of the "
        raise ValueError(f"{msg}tensor, got none; without any, add weight_scale_2 = 1")
    return _weight.make(_read, tensors, name, (elements, scale, single), stacks=False)


def _read(**given: Any) -> tuple[str, dict[str, Any], Scaled]:
    """Check that elements and scales match, and return the common form."""
    (key, elements), (scale_key, stored), (single_key, single) = given.items()
    codes = _weight.elements_of(elements, key, _ELEMENTS)
    scale = _weight.scales_of(stored, scale_key, "float8_e4m3fn")
    divides = single_key == _TENSORS["compressed_tensors"][2]
    factor = (_single(single, single_key), divides)
    _weight.check_shape(scale, "weight_scale", grid_of(codes.shape, _BLOCK))
    blocks = (*(1 for _ in codes.shape[1:]), _BLOCK)
    made = Scaled(codes, codes.shape, scale, blocks, tensor_scale=factor)
    return "nvfp4", given, made


@_core.default_fpenv
def quantize(
    x: ArrayLike,
    tensor_scale: ArrayLike | None = None,
    *,
    like: _Like = "torchao",
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Convert real numbers to NVFP4 blocks.

    Parameters
    ----------
    x : array_like
        Finite values of float32, float64, float16 or bfloat16, of shape (..., K) and any
        strides. K must be even. float64 values must be in the range of float32.
    tensor_scale : float, optional
        Scale of the tensor, rounded to float32. For the default, see Notes. With 1, the
        scale of the tensor has no effect.
    like : {"torchao", "compressed_tensors"}, optional
        The package whose formulas are used, see Notes. With "torchao", `tensor_scale` is a
        multiplier, like in ModelOpt's files. With "compressed_tensors", `tensor_scale` is a
        divisor.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        Elements, a scale for each block of 16 elements, and the scale of the tensor. The
        last block may be short.

    Notes
    -----
    Let a be the largest magnitude of a block, and t the scale of the tensor. Each operation
    is rounded to float32. Scales and elements are then rounded half to even and saturated::

        torchao:             scale = e4m3(max((a / 6) / t, 2**-6))
                             code = e2m1(x * ((1 / t) / scale))
        compressed_tensors:  scale = e4m3(t * (a / 6)), 0.125 for 0
                             code = e2m1(x / (scale / t))

    Let A be the largest magnitude of `x`. The default of t is A / 2688 for torchao and
    2688 * (1 / A) for compressed_tensors, with 2688 = 448 * 6. If this number could make an
    operation overflow, for example if A is 0, the default is 1.

    With "torchao", the result equals torchao's `nvfp4_quantize`, with and without a tensor
    scale. With "compressed_tensors", the result equals `calculate_qparams` and `quantize`
    of compressed-tensors, except that this `quantize` converts -0 to 0. If `x` is float64,
    magnitudes are rounded to float32, and products and quotients of `x` are float64. The
    call allocates memory for the result, and a float32 number for each block.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import nvfp4
    >>> x = (np.arange(32, dtype=np.float32) - 16) / 8
    >>> w = nvfp4.quantize(x)
    >>> codes, scale, single = w.tensors().values()
    >>> scale.astype(int), single.view(np.uint32) == 0x3a430c31
    (array([448, 416]), np.True_)
    >>> codes.tobytes().hex()
    'ffefeededdccab9a1022435465667677'
    >>> w.dequantize()[16:20]
    array([0.        , 0.15476191, 0.30952382, 0.30952382], dtype=float32)
    """
    like = _check.choice(like, "like", _TENSORS)
    given = None if tensor_scale is None else _given(tensor_scale, like)
    _core.dtype_named("float8_e4m3fn")  # raises an error if ml_dtypes is not installed
    array, count = real_array(x, even=True), integer(threads, "threads", 1)
    amax = _amax_of(array, count)
    chosen = _tensor_scale(amax, like) if given is None else given
    with np.errstate(all="ignore"):
        amax /= np.float32(6)
        if like == "torchao":
            amax /= chosen
            np.clip(amax, _SMALLEST, _LARGEST, out=amax)
        else:
            amax *= chosen
    scales = _core.quantize(amax, 1.0, dtype="float8_e4m3fn", threads=count)
    if like != "torchao":
        stored = scales.view(np.uint8)
        stored[stored == 0] = _FOR_ZERO
    return _packed(array, scales, chosen, like, amax, count)


@_core.default_fpenv
def pack(
    x: ArrayLike,
    scales: ArrayLike,
    tensor_scale: ArrayLike,
    *,
    like: _Like = "torchao",
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Convert real numbers to NVFP4 blocks with given scales.

    Parameters
    ----------
    x : array_like
        See `quantize`.
    scales : array_like
        float8_e4m3fn scales of shape (..., blocks), or their bytes as uint8.
    tensor_scale : float
        Scale of the tensor, rounded to float32.
    like : {"torchao", "compressed_tensors"}, optional
        See `quantize`.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        Elements and the given scales.

    Notes
    -----
    `quantize` documents the formula of the elements. If a scale is 0, the operations follow
    IEEE 754, and may divide by 0.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import nvfp4
    >>> x = (np.arange(16, dtype=np.float32) - 8) / 4
    >>> nvfp4.pack(x, np.uint8([0x38]), 0.5).dequantize()[:4]
    array([-2. , -2. , -1.5, -1. ], dtype=float32)
    """
    like = _check.choice(like, "like", _TENSORS)
    chosen = _given(tensor_scale, like)
    array, count = real_array(x, even=True), integer(threads, "threads", 1)
    stored = _weight.scales_of(scales, "scales", "float8_e4m3fn")
    _weight.check_shape(stored, "scales", grid_of(array.shape, _BLOCK))
    _weight.refuse_nonfinite(array, "x")
    room = np.empty(stored.shape, np.float32)
    return _packed(array, stored, chosen, like, room, count)


def _packed(
    x: Array, scales: Array, chosen: np.float32, like: _Like, factors: Floats, threads: int
) -> Weight:
    """Quantize elements with given scales.

    The function overwrites `factors`, which has a float32 number for each block.
    """
    multiplies = like == "torchao"
    if multiplies:
        _core.dequantize(scales, 1.0, out=factors)
        with np.errstate(all="ignore"):
            np.divide(np.float32(1) / chosen, factors, out=factors)
    else:
        _core.dequantize(scales, chosen, inverse=True, out=factors)
    codes: Any = _core.quantize(
        x,
        factors,
        dtype="float4_e2m1fn",
        axis=x.ndim - 1,
        block_size=_BLOCK,
        inverse=multiplies,
        packed=True,
        threads=threads,
    )
    data = codes.data.reshape(*x.shape[:-1], x.shape[-1] // 2)
    single = np.array(chosen if multiplies else [chosen])
    tensors = _weight.by_name(_TENSORS[like], data, scales, single)
    return Weight("nvfp4", tensors, _read)


def _single(value: ArrayLike, name: str = "tensor_scale") -> np.float32:
    """Convert an array of one number to float32. Raise an error for several numbers."""
    array = _core.as_reals(value, name)
    if array.size != 1:
        raise _check.fail(ValueError, name, "one number", f"shape {array.shape}")
    made: np.float32 = _core.cast(array, "float32").reshape(-1)[0]
    return made


def _given(tensor_scale: ArrayLike, like: _Like) -> np.float32:
    """Check that no operation with `tensor_scale` can overflow; return it as float32."""
    scale, (least, most) = _single(tensor_scale), _RANGES[like]
    if not least <= scale <= most:
        expected = f"a number from {least:.3g} to {most:.3g} for like={like!r}"
        raise _check.fail(ValueError, "tensor_scale", expected, f"{scale}")
    return scale


def _tensor_scale(amax: Floats, like: _Like) -> np.float32:
    largest = amax.max(initial=np.float32(0))
    least, most = _RANGES[like]
    with np.errstate(all="ignore"):
        scale = largest / _MOST
        if like != "torchao":
            scale = _MOST * (np.float32(1) / largest)
    return scale if least <= scale <= most else np.float32(1)


def _amax_of(x: Array, threads: int) -> Floats:
    """Return the largest magnitude of each block. Raise an error for NaN and infinity."""
    amax = np.empty(grid_of(x.shape, _BLOCK), np.float32)
    infinite = []

    def take(places: _Places, magnitudes: Floats) -> None:
        amax[places] = magnitudes
        if not np.isfinite(magnitudes).all():
            infinite.append(places)

    each_slab(take, x, _BLOCK, threads)
    if infinite:
        # This call raises an error for NaN and infinity. A float64 number may have become
        # infinite by the conversion to float32; the next lines raise that error.
        found = _core.extrema(x, x.shape)
        expected = "numbers that float32 holds"
        raise _check.fail(ValueError, "x", expected, f"{abs(found).max()}")
    return amax
