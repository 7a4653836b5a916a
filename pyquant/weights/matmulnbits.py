# SPDX-License-Identifier: Apache-2.0
"""Read and write weights of ONNX Runtime's operator MatMulNBits.

A node has K inputs, N outputs and these initializers:

- ``B`` of shape (N, ceil(K / block_size), block_size * bits / 8): bytes with the codes in
  the order of the inputs. The first code is in the low bits of a byte.
- ``scales`` of shape (N, ceil(K / block_size)), or with one dimension.
- ``zero_points``, optional. Integer zero points are packed like ``B``. They have type uint8
  and shape (N, ceil(ceil(K / block_size) * bits / 8)), or one dimension. Real zero points
  have the shape of ``scales``. Without the tensor, zero points are ``2**(bits - 1)``.
- ``g_idx`` of shape (K,), optional: for each input, the index of the block with the scale
  and the zero point of the input.

Values are ``(code - zero_point) * scale``. With real zero points, values are ``code * scale
- zero_point * scale``. Each operation is rounded to float32, like in ONNX Runtime. If a
node has a ``g_idx``, ONNX Runtime 1.32 ignores the zero points. The initializers of a node
may have any names, so that this module cannot find weights by names.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _check, _core
from pyquant._check import array, fail, integer
from pyquant.packed import Layout, PackedArray
from pyquant.weights import _weight
from pyquant.weights._magnitudes import slabs
from pyquant.weights._weight import REALS, Planar, Weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from pyquant._typing import Array, ArrayLike, Bytes, Floats

__all__ = ["from_tensors", "pack", "quantize"]
__dir__: object = __all__.copy

_TENSORS = ("B", "scales", "zero_points", "g_idx")
_BITS = (2, 4, 8)
_LEAST, _MOST = 16, 1 << 16  # minimum and maximum block size
_TILE = 1 << 15  # number of elements that are quantized at a time


@_core.hinted
def from_tensors(
    tensors: Mapping[str, Any],
    name: str = "",
    *,
    K: SupportsIndex,
    N: SupportsIndex,
    bits: SupportsIndex = 4,
    block_size: SupportsIndex,
) -> Weight:
    """
    Return a weight from the initializers and attributes of a node, without a copy.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays: ``B`` of uint8, ``scales`` of float32, float16 or
        bfloat16, and optionally ``zero_points`` and ``g_idx``.
    name : str, optional
        Prefix of the names. A dot follows the prefix. Default: no prefix.
    K, N : int
        Numbers of inputs and of outputs.
    bits : int, optional
        Number of bits of a code: 2, 4 (the default) or 8.
    block_size : int
        Number of inputs in a block: a power of two from 16 to 65536.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import matmulnbits
    >>> tensors = {"B": np.uint8([[[0x98] * 8]]), "scales": np.float32([[0.5]])}
    >>> matmulnbits.from_tensors(tensors, K=4, N=1, block_size=16).dequantize()
    array([[0. , 0.5, 0. , 0.5]], dtype=float32)
    """
    read = partial(_read, K=K, N=N, bits=bits, block_size=block_size)
    return _weight.make(read, tensors, name, _TENSORS[:2], _TENSORS[2:], stacks=False)


@_core.default_fpenv
def _read(
    B: Any,
    scales: Any,
    zero_points: Any = None,
    g_idx: Any = None,
    *,
    K: Any,
    N: Any,
    bits: Any,
    block_size: Any,
) -> tuple[str, dict[str, Array], Planar]:
    """Check that all arguments match each other, and return the common form."""
    bits = _check.choice(bits, "bits", _BITS)
    size = _block(block_size)
    inputs = integer(K, "K", 0, _weight.LARGEST)
    outputs = integer(N, "N", 0, _weight.LARGEST)
    blocks = -(-inputs // size)
    data = np.ascontiguousarray(
        array(B, "B", ("uint8",), (outputs, blocks, size * bits // 8))
    )
    codes: Any
    if bits == 8:
        codes = data.reshape(outputs, blocks * size)[:, :inputs]
    else:
        words = data.reshape(outputs, blocks * size * bits // 8).view("<i4")
        due = inputs * bits
        if words.shape[1] * 32 > due:  # remove the codes that follow the K inputs
            words = words[:, : -(-due // 32)].copy()
            if due % 32:
                words[:, -1] &= np.int32((1 << due % 32) - 1)
        layout = Layout("words", bits=bits)
        codes = PackedArray(words, "uint8", (outputs, inputs), layout=layout)
    scale = _flat_or(array(scales, "scales", REALS), "scales", outputs, blocks)
    zero, bias, zeros = _zeros_of(zero_points, scale, bits)
    order = _weight.order_of(g_idx, "g_idx", inputs, blocks)
    groups = _weight.groups_of(order, blocks, size)
    made = Planar(codes, bits, 1, scale, zero, size, groups, bias)
    return "matmulnbits", _weight.by_name(_TENSORS, data, scale, zeros, order), made


@_core.default_fpenv
def quantize(
    x: ArrayLike,
    *,
    bits: SupportsIndex = 4,
    block_size: SupportsIndex = 32,
    symmetric: bool = True,
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Quantize the transposed right operand of a MatMul like ONNX Runtime.

    Parameters
    ----------
    x : array_like
        Finite values of shape (N, K), with a row for each output. The type is float32,
        float16 or bfloat16, as in the operator. Python numbers become float32. Any strides
        are allowed; contiguous rows are fastest.
    bits : int, optional
        Number of bits of a code: 2, 4 (the default) or 8.
    block_size : int, optional
        Number of inputs in a block: a power of two from 16 to 65536. Default 32.
    symmetric : bool, optional
        True (the default): zero points are ``2**(bits - 1)``, and the weight does not store
        them. False: choose zero points.
    threads : int, optional
        Largest number of threads. A part of the work always uses one thread. Default 1. The
        result does not depend on it.

    Returns
    -------
    Weight
        A weight with scales of the type of `x`. If K inputs do not fill the last block, the
        remaining codes are 0. In ONNX Runtime, unused codes in the last byte may differ.

    Notes
    -----
    Codes, scales and zero points equal the results of ``quantize_matmul_4bits`` in ONNX
    Runtime 1.32, and of its variants for 2 and 8 bits. These functions do not support
    bfloat16, which pyquant processes like float16. Each operation is rounded to float32. If
    `symmetric` is true, ``m`` is the value of a block with the largest magnitude. If two
    values have this magnitude, ``m`` is the lower value::

        scale = -m / 2**(bits - 1)
        code = clip(round_half_away(x * (1 / scale) + 2**(bits - 1)))

    If `symmetric` is false, ``low`` and ``high`` are the lowest and the highest of 0 and of
    the values in a block::

        scale = (high - low) / (2**bits - 1)
        zero_point = clip(round_half_away(0 - low / scale))
        code = clip(round_half_away(x * (1 / scale) + zero_point))

    If the scale is 0, ``1 / scale`` and the zero point are replaced by 0.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import matmulnbits
    >>> x = np.linspace(-1, 2, 16, dtype=np.float32).reshape(1, 16)
    >>> w = matmulnbits.quantize(x, block_size=16, symmetric=False)
    >>> w.tensors()["scales"], w.tensors()["zero_points"]
    (array([[0.2]], dtype=float32), array([[133]], dtype=uint8))
    >>> float(abs(w.dequantize() - x).max()) < 1e-6
    True
    """
    width: int = _check.choice(bits, "bits", _BITS)
    size = _block(block_size)
    symmetric = _check.flag(symmetric, "symmetric")
    values = _weight.values_of(x, "x")
    outputs, inputs = _weight.matrix_of(values, "x")
    blocks = -(-inputs // size)
    words = np.zeros((outputs, blocks * size * width // 32), "<i4")
    scales = np.empty((outputs, blocks), values.dtype.newbyteorder("="))
    zeros = np.full((outputs, blocks), 1 << (width - 1), np.uint8)
    given, block, axis, ways = values, (1, size), 1, (words, scales, zeros)
    if abs(values.strides[0]) <= abs(values.strides[1]):
        given, block, axis, ways = values.T, (size, 1), 0, (words.T, scales.T, zeros.T)
    to_words, to_scales, to_zeros = ways
    for part, groups in slabs(given.shape, block, _TILE):
        rows, zero = given[part], to_zeros[groups]
        extremes = _weight.extrema_of(rows, block, values, "x")
        firsts = rows[:: block[0], :: block[1]]
        inverse = _parameters(extremes, firsts, width, symmetric, to_scales[groups], zero)
        each = np.repeat(inverse, size, axis)[: rows.shape[0], : rows.shape[1]]
        with np.errstate(all="ignore"):
            scaled = np.multiply(rows, each, dtype=np.float32)
        codes = _core.quantize(
            scaled,
            1.0,
            offset=np.negative(zero, dtype=np.float32),
            axis=axis,
            block_size=size,
            rounding="half_away",
            dtype="uint8",
            layout=Layout("words", axis=axis, bits=width),
            threads=threads,
        ).data
        place = [*part]
        begin = part[axis].start * width // 32
        place[axis] = slice(begin, begin + codes.shape[axis])
        to_words[tuple(place)] = codes
    stored = None if symmetric else _packed_zeros(zeros, width)
    return _made(inputs, width, size, words, scales, stored, None)


@_core.hinted
def pack(
    q: ArrayLike,
    scales: ArrayLike,
    zero_points: ArrayLike | None = None,
    g_idx: ArrayLike | None = None,
    *,
    bits: SupportsIndex = 4,
    block_size: SupportsIndex,
) -> Weight:
    """
    Pack given codes in the layout of MatMulNBits.

    Parameters
    ----------
    q : array_like
        Codes: uint8 integers from 0 to ``2**bits - 1``, with shape (N, K).
    scales : array_like
        float32, float16 or bfloat16 of shape (N, ceil(K / block_size)).
    zero_points : array_like, optional
        uint8 integers from 0 to ``2**bits - 1``, with the shape of `scales`. Default:
        ``2**(bits - 1)``.
    g_idx : array_like, optional
        int32 of shape (K,): for each input, the index of the block with the scale and the
        zero point of the input. By default, the block that contains the input.
    bits : int, optional
        Number of bits of a code: 2, 4 (the default) or 8.
    block_size : int
        Number of inputs in a block: a power of two from 16 to 65536.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import matmulnbits
    >>> q = np.arange(16, dtype=np.uint8).reshape(1, 16)
    >>> w = matmulnbits.pack(q, np.float32([[1]]), block_size=16)
    >>> w.tensors()["B"].tobytes().hex(" ")
    '10 32 54 76 98 ba dc fe'
    """
    width: int = _check.choice(bits, "bits", _BITS)
    size, middle, most = _block(block_size), 1 << (width - 1), (1 << width) - 1
    codes = array(q, "q", ("uint8",))
    outputs, inputs = _weight.matrix_of(codes, "q")
    form = (outputs, -(-inputs // size))
    scale = array(scales, "scales", REALS, form)
    zeros: Any = None
    if zero_points is not None:
        zeros = array(zero_points, "zero_points", ("uint8",), form)
        _weight.check_range(zeros, "zero_points", 0, most)
    _weight.check_range(codes, "q", 0, most)
    order = _weight.order_of(g_idx, "g_idx", inputs, form[1])
    groups = _weight.groups_of(order, form[1], size)
    zero = middle if zeros is None else zeros
    made = Planar(codes, width, 1, scale, zero, size, groups)
    return _written(made, size, keep=zeros is not None)


def _converted(made: Planar, *, block_size: SupportsIndex | None = None) -> Weight:
    _weight.require(made, "MatMulNBits", _BITS, uneven=False)
    size = made.block_size
    largest = size & -size
    if block_size is None:
        if largest < _LEAST:
            expected = f"groups of a multiple of {_LEAST} inputs"
            raise fail(ValueError, "weight", expected, size)
        return _written(made, min(largest, _MOST))
    chosen = _block(block_size)
    if size % chosen:
        raise fail(ValueError, "block_size", f"one that divides groups of {size}", chosen)
    return _written(made, chosen)


def _written(made: Planar, size: int, *, keep: bool = False) -> Weight:
    """Return a weight with blocks of `size` inputs.

    Zero points are stored if one differs from the default ``2**(bits - 1)``, or if `keep`
    is true.
    """
    bits, inputs = made.bits, made.inputs
    blocks = -(-inputs // size)
    columns = blocks * size * bits // 32
    words = _weight.repacked(made, axis=1, along=1, columns=columns)
    scale, zeros = _weight.along(made, 1)
    times = made.block_size // size
    zeros, scale = (np.repeat(one, times, 1)[:, :blocks] for one in (zeros, scale))
    middle = 1 << (bits - 1)
    stored = _packed_zeros(zeros, bits) if keep or (zeros != middle).any() else None
    order = None if made.groups is None else (made.groups * times).astype(np.int32)
    return _made(inputs, bits, size, words, scale, stored, order)


def _made(inputs: int, bits: int, size: int, words: Any, scale: Any, *rest: Any) -> Weight:
    """Return a weight from words of codes, scales and optional tensors."""
    rows, blocks = scale.shape
    data = words.view(np.uint8).reshape(rows, blocks, size * bits // 8)
    tensors = _weight.by_name(_TENSORS, data, scale, *rest)
    how = {"K": inputs, "N": rows, "bits": bits, "block_size": size}
    return Weight("matmulnbits", tensors, partial(_read, **how))


def _block(block_size: object) -> int:
    size = integer(block_size, "block_size", _LEAST, _MOST)
    if size & (size - 1):
        expected = f"a power of two from {_LEAST} to {_MOST}"
        raise fail(ValueError, "block_size", expected, size)
    return size


def _flat_or(one: Array, name: str, rows: int, columns: int) -> Array:
    """Return scales or zero points as a matrix. Older models store one dimension."""
    if one.shape == (rows * columns,):
        return one.reshape(rows, columns)
    _weight.check_shape(one, name, (rows, columns))
    return one


def _zeros_of(
    given: Any, scale: Array, bits: int
) -> tuple[Any, Floats | None, Array | None]:
    """Return zero points, biases (for real zero points), and the argument as an array."""
    rows, blocks = scale.shape
    if given is None:
        return 1 << (bits - 1), None, None
    zeros = array(given, "zero_points", ("uint8", *REALS))
    if zeros.dtype != np.uint8:
        zeros = _flat_or(zeros, "zero_points", rows, blocks)
        with np.errstate(all="ignore"):
            product = np.multiply(zeros, scale, dtype=np.float32)
        return 0, -product, zeros
    zeros = _flat_or(zeros, "zero_points", rows, -(-blocks * bits // 8))
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    each = zeros[..., np.newaxis] >> shifts & np.uint8((1 << bits) - 1)
    return each.reshape(rows, zeros.shape[1] * (8 // bits))[:, :blocks], None, zeros


def _packed_zeros(zeros: Bytes, bits: int) -> Bytes:
    """Pack rows of zero points, with the middle code for unused bits of the last byte."""
    rows, blocks = zeros.shape
    size = -(-blocks * bits // 8)
    filled = np.full((rows, size * 8 // bits), 1 << (bits - 1), np.uint8)
    filled[:, :blocks] = zeros
    words = _weight.dense(filled, bits, "words", 1)
    return np.ascontiguousarray(words.view(np.uint8)[:, :size])


def _parameters(
    extremes: npt.NDArray[np.float64],
    firsts: Array,
    bits: int,
    symmetric: bool,
    scales: Array,
    zeros: Bytes,
) -> Floats:
    """Compute `scales` and `zeros` from extremes, and return the reciprocals of scales."""
    first, last = extremes.astype(np.float32)
    scale: Array
    with np.errstate(all="ignore"):
        if symmetric:
            farthest = np.where(abs(last) > abs(first), last, first)
            # If all values of a block are 0 or -0, the first value determines the sign of
            # the scale.
            farthest = np.where(farthest == 0, firsts, farthest)
            scale = -farthest / np.float32(1 << (bits - 1))
        else:
            most = np.float32((1 << bits) - 1)
            scale = (last - first) / most
            middle = np.float32(0) - first / scale  # NaN if all values of a block are 0
            rounded = _core.quantize(middle, 1.0, rounding="half_away", dtype="uint8")
            np.minimum(rounded, np.uint8(most), out=zeros)
        scales[...] = scale
        kept = scales.astype(np.float32)
        return np.where(kept == 0, np.float32(0), np.float32(1) / kept)
