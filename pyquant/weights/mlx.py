# SPDX-License-Identifier: Apache-2.0
"""Read and write weights of MLX's affine quantization, without importing MLX.

For K inputs, the last extent of ``weight`` is K * bits / 32. It contains codes in 32-bit
words, with the first code in the low bits. The last extent of ``scales`` and ``biases`` is
K / group_size, with a number for each group. Values are ``code * scale + bias``, with each
operation rounded to float32. If scales have a 16-bit type and ``Weight.dequantize`` returns
this type, each operation is rounded to this type, like in MLX on CPUs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _check, _core
from pyquant._check import array, fail, listed
from pyquant.packed import Layout, PackedArray
from pyquant.weights import _weight
from pyquant.weights._magnitudes import slabs
from pyquant.weights._weight import REALS, Planar, Weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from pyquant._typing import Array, ArrayLike, Bytes, Floats

__all__ = ["from_tensors", "quantize"]
__dir__: object = __all__.copy

_TENSORS = ("weight", "scales", "biases")
_BITS = (2, 3, 4, 5, 6, 8)
_SIZES = (32, 64, 128)
_TILE = 1 << 15  # number of elements that are quantized at a time


@_core.hinted
def from_tensors(
    tensors: Mapping[str, Any],
    name: str = "",
    *,
    group_size: SupportsIndex | None = None,
    bits: SupportsIndex | None = None,
) -> Weight:
    """
    Return a weight from the results of ``mlx.core.quantize``, without a copy.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays: ``weight`` of uint32 or int32, and ``scales`` and
        ``biases``, both of one type: float32, float16 or bfloat16.
    name : str, optional
        Name of the layer, with which the names begin. Default: no name.
    group_size : int, optional
        Number of inputs in a group: 32, 64 or 128. Default: the only size that fits.
    bits : int, optional
        Number of bits of a code: 2, 3, 4, 5, 6 or 8. Default: the only number that fits.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mlx
    >>> words, one = np.full((1, 4), 0x76543210, np.uint32), np.ones((1, 1), np.float32)
    >>> tensors = {"weight": words, "scales": one, "biases": -one}
    >>> mlx.from_tensors(tensors, bits=4).dequantize()[0, :8].tolist()
    [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    """
    read = partial(_read, group_size=group_size, bits=bits)
    return _weight.make(read, tensors, name, _TENSORS, stacks=False)


def _read(
    weight: Any, scales: Any, biases: Any, *, group_size: Any, bits: Any
) -> tuple[str, dict[str, Array], Planar]:
    """Check that all arguments match each other, and return the common form."""
    if bits is not None:
        bits = _check.choice(bits, "bits", _BITS)
    if group_size is not None:
        group_size = _check.choice(group_size, "group_size", _SIZES)
    words = _weight.word_array(weight, "weight")
    scale = array(scales, "scales", REALS)
    bias = array(biases, "biases", REALS)
    width, size = _sizes_of(words.shape, scale.shape, bits, group_size)
    if words.ndim == 0 or words.shape[-1] * 32 % (size * width):
        expected = f"words of whole groups of {size} codes of {width} bits along the last"
        raise fail(ValueError, "weight", f"{expected} axis", f"shape {words.shape}")
    shape = (*words.shape[:-1], words.shape[-1] * 32 // width)
    groups = (*shape[:-1], shape[-1] // size)
    _weight.check_shape(scale, "scales", groups)
    _weight.check_shape(bias, "biases", groups)
    if scale.dtype != bias.dtype:
        expected = f"{scale.dtype}, as scales are"
        raise fail(TypeError, "biases", expected, f"{bias.dtype}")
    codes = PackedArray(words, "uint8", shape, layout=Layout("words", bits=width))
    last = len(shape) - 1
    by_steps = scale.dtype.itemsize == 2
    made = Planar(codes, width, last, scale, 0, size, None, bias, by_steps)
    return "mlx", _weight.by_name(_TENSORS, words.view("<u4"), scale, bias), made


def _sizes_of(
    words: tuple[int, ...], groups: tuple[int, ...], bits: int | None, size: int | None
) -> tuple[int, int]:
    """Return the number of bits and the group size. Find missing numbers from shapes."""
    if bits is not None and size is not None:
        return bits, size
    pairs = [
        (one, each)
        for one in ((bits,) if bits else _BITS)
        for each in ((size,) if size else _SIZES)
        if words and groups and words[-1] * 32 == groups[-1] * each * one
    ]
    if not pairs:
        got = f"{groups} for words of {words}"
        raise fail(ValueError, "scales", "a scale for each group", got)
    if len(pairs) > 1:
        some = listed(f"{one} for groups of {each}" for one, each in pairs)
        raise fail(ValueError, "bits", f"{some}, which all fit", bits)
    return pairs[0]


@_core.default_fpenv
@np.errstate(all="ignore")
def quantize(
    w: ArrayLike,
    *,
    group_size: SupportsIndex = 64,
    bits: SupportsIndex = 4,
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Quantize a weight like ``mlx.core.quantize``.

    Parameters
    ----------
    w : array_like
        Finite values of float32, float16 or bfloat16, of shape (..., K) and any strides.
        Python numbers become float32.
    group_size : int, optional
        Number of inputs in a group: 32, 64 (the default) or 128. It must divide K.
    bits : int, optional
        Number of bits of a code: 2, 3, 4 (the default), 5, 6 or 8.
    threads : int, optional
        Largest number of threads. A part of the work always uses one thread. Default 1. The
        result does not depend on it.

    Returns
    -------
    Weight
        A weight with scales and biases of the type of `w`.

    Notes
    -----
    The result equals MLX 0.32 on CPUs. In the formulas, ``low`` and ``high`` are the lowest
    and the highest value of a group. Each operation is rounded to float32::

        scale = max((high - low) / (2**bits - 1), 1e-7)
        scale, edge = (scale, low) if abs(low) > abs(high) else (-scale, high)
        steps = round_half_even(edge / scale)
        scale, bias = (scale, 0) if steps == 0 else (edge / steps, edge)
        code = clip(round_half_even((w - bias) / scale))

    Scales and biases are then rounded to the type of `w`.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mlx
    >>> w = mlx.quantize(np.arange(-16, 16, dtype=np.float32) / 8, group_size=32, bits=3)
    >>> [f"{word:x}" for word in w.tensors()["weight"]]
    ['92489200', 'db2491b6', 'ffffb6da']
    """
    size: int = _check.choice(group_size, "group_size", _SIZES)
    width: int = _check.choice(bits, "bits", _BITS)
    values = _weight.values_of(w, "w")
    if values.ndim == 0 or values.shape[-1] % size:
        expected, got = f"a last extent that {size} divides", f"shape {values.shape}"
        raise fail(ValueError, "w", expected, got)
    lead, inputs = values.shape[:-1], values.shape[-1]
    words = np.empty((*lead, inputs * width // 32), "<u4")
    kind = values.dtype.newbyteorder("=")
    scales = np.empty((*lead, inputs // size), kind)
    biases = np.empty_like(scales)
    last, block = values.ndim - 1, (*(1 for _ in lead), size)
    for part, groups in slabs(values.shape, block, _TILE):
        some = values[part]
        if some.dtype.newbyteorder("=") != np.float32:
            some = _core.cast(some, "float32")
        extremes = _weight.extrema_of(some, block, values, "w")
        scale, bias = _parameters(some, extremes, size, width)
        scales[groups], biases[groups] = scale, bias
        codes: PackedArray = _core.quantize(
            some,
            scale,
            offset=bias,
            axis=last,
            block_size=size,
            dtype="uint8",
            layout=Layout("words", axis=last, bits=width),
            threads=threads,
        )
        begin, end = (n * size * width // 32 for n in (groups[-1].start, groups[-1].stop))
        words[(*groups[:-1], slice(begin, end))] = codes.data.view("<u4")
    return _made(size, width, words, scales, biases)


@_core.default_fpenv
def _converted(made: Planar, *, group_size: SupportsIndex | None = None) -> Weight:
    _weight.require(made, "MLX", _BITS, biases=True, mixed=False)
    if made.inputs % made.block_size:
        got = f"shape {made.shape} and groups of {made.block_size}"
        raise fail(ValueError, "weight", "two dimensions and whole groups for MLX", got)
    if group_size is None:
        fit = [one for one in _SIZES if made.block_size % one == 0]
        if not fit:
            expected = "groups of a multiple of 32"
            raise fail(ValueError, "weight", expected, made.block_size)
        size = fit[-1]
    else:
        size = _check.choice(group_size, "group_size", _SIZES)
        if made.block_size % size:
            expected = f"one that divides groups of {made.block_size}"
            raise fail(ValueError, "group_size", expected, size)
    scale, zeros = _weight.along(made, 1)
    bias = made.bias
    if bias is None:
        bias = _biases(scale, zeros, made.bits)
    elif made.axis == 0:
        bias = bias.T
    times = made.block_size // size
    words = _weight.repacked(made, axis=1, along=1)
    scale, bias = (np.repeat(one, times, 1) for one in (scale, bias))
    return _made(size, made.bits, words, scale, bias)


def _made(size: int, bits: int, words: Any, *parameters: Any) -> Weight:
    """Return a weight from words, scales and biases."""
    tensors = _weight.by_name(_TENSORS, words.view("<u4"), *parameters)
    return Weight("mlx", tensors, partial(_read, group_size=size, bits=bits))


def _parameters(
    rows: Floats, extremes: npt.NDArray[np.float64], size: int, bits: int
) -> tuple[Floats, Floats]:
    """Return scales and biases of groups.

    `extremes` has the lowest and the highest of 0 and of the values `rows` of a group.
    """
    low, high = extremes.astype(np.float32)
    # An extreme of 0 may come from 0 itself, and -0 must not become 0. NumPy finds the
    # extremes of the values in these groups.
    others = (low == 0) | (high == 0)
    if others.any():
        some = rows.reshape(*low.shape, size)[others]
        low[others], high[others] = some.min(axis=1), some.max(axis=1)
    one = np.float32(1)
    with np.errstate(all="ignore"):
        scale = np.maximum((high - low) / np.float32((1 << bits) - 1), np.float32(1e-7))
        is_low = abs(low) > abs(high)
        scale = np.where(is_low, scale, -scale)
        edge = np.where(is_low, low, high)
        steps = np.rint(edge / scale)
        none = steps == 0
        scale = np.where(none, scale, edge / np.where(none, one, steps))
        return scale, np.where(none, np.float32(0), edge)


def _biases(scale: Array, zeros: Bytes, bits: int) -> Array:
    """Return biases that replace zero points. Raise an error if a value would change."""
    wide = scale.astype(np.float32)
    exact = -zeros.astype(np.float64) * wide
    with np.errstate(all="ignore"):
        bias = exact.astype(scale.dtype)
    wrong = bias.astype(np.float64) != exact
    # The float32 product of a code and a scale is exact if the low `bits` bits of the scale
    # are 0.
    wrong |= (wide.view(np.uint32) & np.uint32((1 << bits) - 1) != 0) & (zeros != 0)
    largest = np.finfo(np.float32).max
    wrong |= (zeros != 0) & ~(abs(wide.astype(np.float64)) * ((1 << bits) - 1) <= largest)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        narrow = scale.dtype.itemsize < 4
        hint = "; convert the scales to float32 first" if narrow else ""
        expected = f"zero points and scales whose products are {scale.dtype} for MLX"
        got = f"{zeros[place]} and {scale[place]} at {place}{hint}"
        raise fail(ValueError, "weight", expected, got)
    return bias
