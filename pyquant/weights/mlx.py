# SPDX-License-Identifier: Apache-2.0
"""Read and write weights of MLX's affine quantization, without importing MLX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant.packed import PackedArray
from pyquant.weights import _weight
from pyquant.weights._elements import check_apart
from pyquant.weights._magnitudes import slabs

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike
    from pyquant.weights.blocks import BlockFormat

__all__ = ["Weight", "convert", "dequantize", "quantize"]

_BITS = (2, 3, 4, 5, 6, 8)
_SIZES = (32, 64, 128)
_TILE = 1 << 15  # number of elements quantized at a time


def __dir__() -> list[str]:
    return sorted(__all__)


@dataclass(frozen=True, eq=False, repr=False)
class Weight(_weight.Made):
    """
    Weight of MLX: the result of ``mlx.core.quantize``.

    Parameters
    ----------
    w : array_like
        uint32 or int32 of shape (..., K * bits / 32): codes along the last axis, the first
        in the low bits of a word.
    scales, biases : array_like
        float32, float16 or bfloat16, of equal type, of shape (..., K / group_size).
    group_size : int, optional
        32, 64 (the default) or 128.
    bits : int, optional
        2, 3, 4 (the default), 5, 6 or 8.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong.

    Notes
    -----
    Values are ``code * scale + bias``, each step rounded to float32. If `dequantize`
    returns the type of the scales, each step is rounded to that type, like MLX on CPUs.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mlx
    >>> w = mlx.quantize(np.arange(-16, 16, dtype=np.float32) / 8, group_size=32)
    >>> w
    mlx.Weight(shape=(32,), bits=4, block_size=32)
    >>> [f"{word:x}" for word in w.w]
    ['43222100', '87666544', 'cbaaa988', 'ffeeedcc']
    >>> float(w.scales[0]), float(w.biases[0])
    (0.25, -2.0)
    """

    w: npt.NDArray[np.uint32]
    scales: npt.NDArray[Any]
    biases: npt.NDArray[Any]
    group_size: int = 64
    bits: int = 4

    def __post_init__(self) -> None:
        """Check that all arguments match."""
        bits = _weight.one_of(self.bits, "bits", _BITS)
        size = _weight.one_of(self.group_size, "group_size", _SIZES)
        words = _weight.word_array(self.w, "w")
        if words.ndim == 0 or words.shape[-1] * 32 % (size * bits):
            msg = (
                f"w: expected words of whole groups of {size} codes of {bits} bits along "
                f"the last axis, got shape {words.shape}"
            )
            raise ValueError(msg)
        shape = (*words.shape[:-1], words.shape[-1] * 32 // bits)
        groups = (*shape[:-1], shape[-1] // size)
        scale = _weight.numbers_of(self.scales, "scales")
        bias = _weight.numbers_of(self.biases, "biases")
        _weight.check_shape(scale, "scales", groups)
        _weight.check_shape(bias, "biases", groups)
        if scale.dtype != bias.dtype:
            msg = f"biases: expected {scale.dtype}, as scales are, got {bias.dtype}"
            raise TypeError(msg)
        codes = PackedArray(words, "uint8", shape, layout="words", bits=bits)
        last = len(shape) - 1
        made = _weight.Planar(codes, bits, last, shape[-1], scale, 0, size, None, bias)
        self._keep(
            made,
            w=words.view("<u4"),
            scales=scale,
            biases=bias,
            group_size=size,
            bits=bits,
        )

    @_core.default_fpenv
    def dequantize(
        self,
        *,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]:
        """
        Convert the codes to real numbers.

        Parameters
        ----------
        dtype : dtype_like, optional
            float32 (the default), float64, float16 or bfloat16. If it is the 16-bit type of
            the scales, product and sum are rounded to it, like MLX.
        out : ndarray, optional
            Array for the result, of that shape and type. Any strides are allowed.
        threads : int, optional
            Largest number of threads. Default 1.

        Returns
        -------
        ndarray
            Array of shape `shape`.

        Raises
        ------
        TypeError, ValueError
            If an argument is wrong; `out` is unchanged.
        """
        kind = _weight.real_of(dtype, out)
        bias = self.biases
        if kind.itemsize != 2 or bias.dtype.newbyteorder("=") != kind:
            return super().dequantize(dtype=kind, out=out, threads=threads)
        if out is not None:
            check_apart(out, bias)
        made = _weight.decoded(
            self._planar._replace(bias=None), kind, out, threads, turned=False
        )
        groups = made.reshape(*bias.shape, self.group_size)  # a view, for any strides
        with np.errstate(all="ignore"):
            np.add(groups, bias[..., np.newaxis], out=groups)
        return made


@_core.hinted
def dequantize(
    w: ArrayLike,
    scales: ArrayLike,
    biases: ArrayLike,
    *,
    group_size: SupportsIndex = 64,
    bits: SupportsIndex = 4,
    dtype: npt.DTypeLike | None = None,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert codes of MLX to real numbers.

    Parameters
    ----------
    w, scales, biases : array_like
        The results of ``mlx.core.quantize``, see `Weight`.
    group_size : int, optional
        32, 64 (the default) or 128.
    bits : int, optional
        2, 3, 4 (the default), 5, 6 or 8.
    dtype : dtype_like, optional
        float32 (the default), float64, float16 or bfloat16. If it is the 16-bit type of the
        scales, product and sum are rounded to it, like MLX.
    out : ndarray, optional
        Array for the result, of shape (..., K) and that type. Any strides are allowed.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    ndarray
        Array of shape (..., K), or `out`.

    Raises
    ------
    TypeError, ValueError
        If an argument is wrong; `out` is unchanged.

    Notes
    -----
    ``code * scale + bias``, each step rounded: to float64 for float64 results, else to
    float32, and the sum to the type of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mlx
    >>> w = np.full((1, 4), 0x76543210, np.uint32)
    >>> one = np.ones((1, 1), np.float32)
    >>> mlx.dequantize(w, one, -one, group_size=32)[0, :8].tolist()
    [-1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    """
    given: Any = (w, scales, biases, group_size, bits)
    return Weight(*given).dequantize(dtype=dtype, out=out, threads=threads)


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
        32, 64 (the default) or 128. It must divide K.
    bits : int, optional
        2, 3, 4 (the default), 5, 6 or 8.
    threads : int, optional
        Largest number of threads for a part of the work. Default 1. The result does not
        depend on it.

    Returns
    -------
    Weight
        A weight with scales and biases of the type of `w`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value is wrong.

    Notes
    -----
    The result equals MLX 0.32 on CPUs. Each float32 operation is rounded, with the lowest
    and highest value of a group::

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
    >>> [f"{word:x}" for word in w.w]
    ['92489200', 'db2491b6', 'ffffb6da']
    """
    size: int = _weight.one_of(group_size, "group_size", _SIZES)
    width: int = _weight.one_of(bits, "bits", _BITS)
    array: npt.NDArray[Any] = _core.as_reals(w, "w")
    if not isinstance(w, (np.ndarray, np.generic)) and array.dtype == np.float64:
        array = _core.cast(array, "float32")
    array = _weight.numbers_of(array, "w")
    if array.ndim == 0 or array.shape[-1] % size:
        msg = f"w: expected a last extent that {size} divides, got shape {array.shape}"
        raise ValueError(msg)
    lead, inputs = array.shape[:-1], array.shape[-1]
    words = np.empty((*lead, inputs * width // 32), "<u4")
    kind = array.dtype.newbyteorder("=")
    scales = np.empty((*lead, inputs // size), kind)
    biases = np.empty_like(scales)
    last = array.ndim - 1
    for part, groups in slabs(array.shape, last, size, _TILE):
        some = array[part]
        if some.dtype.newbyteorder("=") != np.float32:
            some = _core.cast(some, "float32")
        try:
            extremes = _core.extrema(some, (*(1 for _ in lead), size))
        except ValueError:
            _weight.refuse_nonfinite(array, "w")  # raises with the full index
            raise
        scale, bias = _parameters(some, extremes, size, width)
        scales[groups], biases[groups] = scale, bias
        codes: PackedArray = _core.quantize(
            some,
            scale,
            offset=bias,
            axis=last,
            block_size=size,
            dtype="uint8",
            packed=("words", last, width),
            threads=threads,
        )
        begin, end = (n * size * width // 32 for n in (groups[-1].start, groups[-1].stop))
        words[(*groups[:-1], slice(begin, end))] = codes.data.view("<u4")
    return Weight(words, scales, biases, size, width)


@_core.default_fpenv
def convert(
    weight: _weight.Weight | _weight.Made | tuple[BlockFormat, npt.NDArray[np.uint8]],
    *,
    group_size: SupportsIndex | None = None,
) -> Weight:
    """
    Convert a weight of another format to MLX without loss.

    Parameters
    ----------
    weight : Weight or tuple
        A weight of `awq`, `gptq`, `matmulnbits`, `compressed_tensors` or of this
        module; or a GGUF format, Q4_0, Q4_1 or Q8_0, and the uint8 bytes of its blocks.
    group_size : int, optional
        32, 64 or 128. It must divide the groups of `weight`; scales are repeated. Default:
        the largest.

    Returns
    -------
    Weight
        A weight with equal float32 values, except the sign of 0, with a row for each
        output. Scales keep their type, and biases are ``-zero_point * scale``.

    Raises
    ------
    TypeError, ValueError
        If MLX cannot store the weight: groups or codes of other sizes, inputs out of the
        order of their groups, or biases beyond the type of the scales.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> from pyquant.weights import mlx
    >>> fmt = pq.weights.blocks.block_format("Q4_1")
    >>> b = fmt.encode(np.linspace(0, 1, 64, dtype=np.float32).reshape(2, 32))
    >>> w = mlx.convert((fmt, b))
    >>> bool((w.dequantize() == fmt.decode(b)).all() and (w.blocks("Q4_1") == b).all())
    True
    """
    made = _weight.planar_of(weight)
    _weight.check_width(made, _BITS, "MLX")
    _weight.refuse_groups(made, "MLX")
    if len(made.shape) != 2 or made.inputs % made.block_size:
        msg = (
            "weight: expected two dimensions and whole groups for MLX, got shape "
            f"{made.shape} and groups of {made.block_size}"
        )
        raise ValueError(msg)
    if group_size is None:
        fit = [one for one in _SIZES if made.block_size % one == 0]
        if not fit:
            msg = f"weight: expected groups of a multiple of 32, got {made.block_size}"
            raise ValueError(msg)
        size = fit[-1]
    else:
        size = _weight.one_of(group_size, "group_size", _SIZES)
        if made.block_size % size:
            msg = (
                f"group_size: expected one that divides groups of {made.block_size}, got "
                f"{size}"
            )
            raise ValueError(msg)
    scale, zeros = _weight.outputs_first(made)
    bias = made.bias
    if bias is None:
        bias = _biases(scale, zeros, made.bits)
    elif made.axis == 0:
        bias = bias.T
    times = made.block_size // size
    return Weight(
        _weight.repacked(made, axis=1, along=1),
        np.repeat(scale, times, 1),
        np.repeat(bias, times, 1),
        size,
        made.bits,
    )


def _parameters(
    rows: npt.NDArray[np.float32], extremes: npt.NDArray[np.float64], size: int, bits: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Return scales and biases of groups, from extremes that include 0."""
    low, high = extremes.astype(np.float32)
    others = (low == 0) | (high == 0)  # the sign of its 0 may differ
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


def _biases(
    scale: npt.NDArray[Any], zeros: npt.NDArray[np.uint8], bits: int
) -> npt.NDArray[Any]:
    """Return biases that replace zero points, if all products and sums are exact."""
    wide = scale.astype(np.float32)
    exact = -zeros.astype(np.float64) * wide
    with np.errstate(all="ignore"):
        bias = exact.astype(scale.dtype)
    wrong = bias.astype(np.float64) != exact
    # Products with codes are exact if this number of bits is free.
    wrong |= (wide.view(np.uint32) & np.uint32((1 << bits) - 1) != 0) & (zeros != 0)
    largest = np.finfo(np.float32).max
    wrong |= (zeros != 0) & ~(abs(wide.astype(np.float64)) * ((1 << bits) - 1) <= largest)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        narrow = scale.dtype.itemsize < 4
        hint = "; convert the scales to float32 first" if narrow else ""
        msg = (
            f"weight: expected zero points and scales whose products are {scale.dtype} for "
            f"MLX, got {zeros[place]} and {scale[place]} at {place}{hint}"
        )
        raise ValueError(msg)
    return bias
