# SPDX-License-Identifier: Apache-2.0
"""Read and write weights of the package compressed-tensors.

Format "pack-quantized" stores a weight of N outputs and K inputs in these tensors:

- ``weight_packed``: int32 words in N rows. A row contains the codes of the K inputs, with
  the first code in the low bits. ``2**(bits - 1)`` is added to the signed codes.
- ``weight_scale``: scales of shape (N, groups) or (N, 1), or a single scale.
- ``weight_zero_point``, optional: int32 words with a column for each group. A column
  contains the zero points of the N outputs. Or unpacked int8 zero points with the shape of
  ``weight_scale``.
- ``weight_g_idx`` of shape (K,), optional: the group of each input. If the tensor is absent
  or -1 for all inputs, inputs are in the order of their groups.
- ``weight_shape``, optional: the numbers N and K.

Values are ``(code - zero_point) * scale``. `from_tensors` also reads the formats
"int-quantized", "float-quantized" and "naive-quantized" with unpacked codes. The package is
not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from pyquant import _check, _core, dtypes
from pyquant._check import array, fail, integer, listed
from pyquant.packed import Layout, PackedArray
from pyquant.qparams import choose_qparams
from pyquant.weights import _weight
from pyquant.weights._published import block_shape, find_one
from pyquant.weights._weight import REALS, Planar, Scaled, Weight

if TYPE_CHECKING:
    from pyquant._typing import Array, ArrayLike, Words

    _Packing = Literal["dense", "padded"]

__all__ = ["from_tensors", "quantize"]
__dir__: object = __all__.copy

_TENSORS = tuple(
    f"weight_{part}" for part in ("packed", "scale", "zero_point", "g_idx", "shape")
)
_BITS = (1, 2, 3, 4, 5, 6, 7, 8)
_PACKINGS = ("dense", "padded")
_PLAIN, _REST = ("weight", "weight_scale"), ("weight_zero_point", "weight_g_idx")
_CODES = ("int8", "uint8", "int16", "uint16", *dtypes.NARROW_FLOATS)
_SCALES = (*REALS, "float64", "float8_e8m0fnu")
_TILE = 1 << 15  # number of elements that are quantized at a time


@_core.hinted
def from_tensors(
    tensors: Mapping[str, Any],
    name: str = "",
    *,
    bits: SupportsIndex | None = None,
    packing: _Packing = "dense",
    group_size: SupportsIndex | None = None,
    block_structure: tuple[SupportsIndex, SupportsIndex] | None = None,
) -> Weight:
    """
    Return a weight from the tensors of compressed-tensors, without a copy.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays. A weight with packed codes has ``weight_packed`` of
        int32 or uint32, ``weight_scale`` of float32, float16 or bfloat16, and the optional
        tensors. The arrays may have an additional first axis for several experts.
        A weight without packed codes has ``weight`` of int8, int16 or a narrow float type,
        ``weight_scale``, and optionally ``weight_zero_point``. If another package wrote the
        file, names may differ; `pyquant.weights.find` lists the names.
    name : str, optional
        Name of the weight, such as "layer.weight", or of its layer. Default: no name.
    bits : int, optional
        Number of bits of a code, from 1 to 8. Default: the only number that fits
        ``weight_shape``.
    packing : {"dense", "padded"}, optional
        "dense" (the default): codes follow each other without unused bits, and a code may
        continue in the next word. "padded": a word contains ``32 // bits`` complete codes,
        like in older versions of the package. For 1, 2, 4 and 8 bits, both are equal.
    group_size : int, optional
        Number of inputs in a group. Default: the only size that makes the given number of
        groups, or else the only power of two that does. If K / groups is also an integer
        but not this power of two, the function raises an error. The package
        compressed-tensors assumes K / groups.
    block_structure : (int, int), optional
        Numbers of outputs and of inputs in a block that shares a scale, for codes that are
        not packed.

    Returns
    -------
    Weight
        The weight. It refers to the arrays. Without ``weight_shape``, K is the maximum
        number of codes in a row of words.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import compressed_tensors
    >>> words = np.array([[0x76543210, 0xFEDCBA98]], np.uint32)
    >>> tensors = {"weight_packed": words, "weight_scale": np.float32([[1]])}
    >>> w = compressed_tensors.from_tensors(tensors, bits=4)
    >>> w
    Weight(format='compressed_tensors', shape=(1, 16), bits=4, block_size=16)
    >>> w.dequantize().astype(int).tolist()
    [[-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7]]
    """
    stated: tuple[int, ...] | None = None
    if group_size is not None:
        stated = (integer(group_size, "group_size", 1, _weight.LARGEST),)
    if block_structure is not None:
        if stated is not None:
            raise fail(ValueError, "group_size", "None beside blocks", group_size)
        stated = _blocks_of(block_structure)
    words, plain = (
        _weight.tensor_of(tensors, name, key) for key in ("weight_packed", "weight")
    )
    names = _plain_names(tensors, name) if words is None else {}
    if names or (words is None and plain is not None):
        read_plain = partial(_read_plain, stated=stated)
        return _weight.make(read_plain, tensors, name, _PLAIN, _REST, names, stacks=False)
    shape = _weight.tensor_of(tensors, name, "weight_shape")
    if shape is not None and words is not None:
        experts = _core.plain(words, "weight_packed")
        if experts.ndim == 3:
            shape = _shapes_of(shape, len(experts))
            tensors = {**tensors, _weight.joined(name, "weight_shape", tensors): shape}
    read = partial(_read, bits=bits, packing=packing, group_size=group_size)
    return _weight.make(read, tensors, name, _TENSORS[:2], _TENSORS[2:])


def _plain_names(tensors: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return a dict from keys to names of tensors, for a weight with unpacked codes."""
    for one in find_one(tensors, name):
        if one.formats == ("compressed_tensors",):
            keys = {"codes": "weight"}
            return {keys.get(k, f"weight_{k}"): full for k, full in one.parts.items()}
    return {}


def _read_plain(
    weight: Any,
    weight_scale: Any,
    weight_zero_point: Any = None,
    weight_g_idx: Any = None,
    *,
    stated: tuple[int, ...] | None,
) -> tuple[str, dict[str, Array], Scaled]:
    """Check that unpacked codes match their scales, and return the common form."""
    codes = _core.plain(weight, "weight")
    if dtypes.name_of(codes.dtype) not in _CODES or codes.ndim == 0:
        some = "int8, uint8, int16, uint16 or narrow floats with an axis"
        raise fail(TypeError, "weight", some, dtypes.described(codes))
    scale = array(weight_scale, "weight_scale", (*_SCALES, "uint8"))
    if scale.dtype == np.uint8:
        scale = scale.view(_core.dtype_named("float8_e8m0fnu"))
    shape, kept = codes.shape, [codes, scale]
    if scale.size == 1:
        scale = scale.reshape((1,) * len(shape))
    elif scale.shape == shape[:1]:
        scale = scale.reshape(-1, *(1,) * (len(shape) - 1))
    if stated is not None:
        blocks = (*(1,) * (len(shape) - len(stated)), *stated)
        grid = tuple(-(-n // size) for n, size in zip(shape, blocks, strict=True))
        _weight.check_shape(scale, "weight_scale", grid)
    elif scale.shape == shape:
        blocks = (1,) * len(shape)
    else:
        remedy = "use group_size or block_structure"
        try:
            blocks = block_shape(shape, scale.shape, remedy=remedy)
        except ValueError as error:
            raise ValueError(f"weight_scale: {error}") from None
    zero = None
    if weight_zero_point is not None:
        types = (str(dtypes.name_of(codes.dtype)),)
        zero = array(weight_zero_point, "weight_zero_point", types, kept[1].shape)
        zero = zero.reshape(scale.shape)
    if weight_g_idx is not None:
        given = _weight.order_of(weight_g_idx, "weight_g_idx", shape[-1], scale.shape[-1])
        if _weight.groups_of(given, scale.shape[-1], blocks[-1]) is not None:
            expected = "inputs in the order of their groups for codes that are not packed"
            raise fail(ValueError, "weight_g_idx", expected, "another order")
    tensors = _weight.by_name((*_PLAIN, _REST[0]), *kept, weight_zero_point)
    return "compressed_tensors", tensors, Scaled(codes, shape, scale, blocks, zero)


def _read(
    weight_packed: Any,
    weight_scale: Any,
    weight_zero_point: Any = None,
    weight_g_idx: Any = None,
    weight_shape: Any = None,
    *,
    bits: Any,
    packing: Any,
    group_size: Any,
) -> tuple[str, dict[str, Array], Planar]:
    """Check that all arguments match each other, and return the common form."""
    packing = _check.choice(packing, "packing", _PACKINGS)
    words = _weight.word_array(weight_packed, "weight_packed")
    rows, columns = _weight.matrix_of(words, "weight_packed")
    width, inputs = _sizes_of(weight_shape, rows, columns, bits, packing)
    kept = scale = array(weight_scale, "weight_scale", REALS)
    if scale.size == 1:
        scale = np.broadcast_to(scale.reshape(1, 1), (rows, 1))
    outputs, groups = _weight.matrix_of(scale, "weight_scale")
    _weight.check_shape(scale, "weight_scale", (rows, groups))
    given = _weight.order_of(weight_g_idx, "weight_g_idx", inputs, groups)
    size = _weight.blocks_of(inputs, groups, group_size, "weight_scale", given, even=True)
    order = _weight.groups_of(given, groups, size)
    zero, zeros = _zeros_of(weight_zero_point, (outputs, groups), width, packing)
    codes = _codes_of(words, (rows, inputs), 1, width, packing)
    made = Planar(codes, width, 1, scale, zero, size, order)
    shape = np.array([rows, inputs], np.int64)
    tensors = _weight.by_name(_TENSORS, words, kept, zeros, given, shape)
    return "compressed_tensors", tensors, made


@_core.default_fpenv
def quantize(
    weight: ArrayLike,
    weight_scale: ArrayLike | None = None,
    weight_zero_point: ArrayLike | None = None,
    *,
    bits: SupportsIndex = 4,
    group_size: SupportsIndex | None = 128,
    symmetric: bool = True,
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Quantize and pack a weight like compressed-tensors ("pack-quantized").

    Parameters
    ----------
    weight : array_like
        Finite values of float32, float16 or bfloat16, of shape (N, K) and any strides, with
        a row for each output. Python numbers become float32.
    weight_scale : array_like, optional
        Scales with the type of `weight`, of shape (N, groups). Default: scales and zero
        points from the extremes of the groups.
    weight_zero_point : array_like, optional
        int8 with the shape of `weight_scale`. Allowed only with `weight_scale`. Default 0.
    bits : int, optional
        Number of bits of a code, from 2 to 8. Default 4.
    group_size : int, optional
        Number of inputs in a group. Default 128. `None`: one group for each output.
    symmetric : bool, optional
        True (the default): zero points are 0, and the weight does not store them. False:
        choose zero points.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        The weight, with dense packing.

    Notes
    -----
    Codes are ``clip(round_half_even(weight / scale + zero_point))``. Each operation is
    rounded to the type of `weight`, so that codes equal compressed-tensors 0.20. Scales
    are chosen like ``pq.choose_qparams(..., like="compressed_tensors")``, in the type of
    `weight`.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import compressed_tensors
    >>> x = np.arange(-8, 8, dtype=np.float32).reshape(1, 16)
    >>> w = compressed_tensors.quantize(x, np.float32([[1]]), group_size=16)
    >>> [f"{word:x}" for word in w.tensors()["weight_packed"].view(np.uint32)[0]]
    ['76543210', 'fedcba98']
    """
    width: int = _check.choice(bits, "bits", _BITS[1:])
    symmetric = _check.flag(symmetric, "symmetric")
    values = _weight.values_of(weight, "weight")
    kind = values.dtype.newbyteorder("=")
    rows, inputs = _weight.matrix_of(values, "weight")
    if group_size is None:
        size = max(1, inputs)
    else:
        size = integer(group_size, "group_size", 1, _weight.LARGEST)
    form = (rows, -(-inputs // size))
    middle = 1 << (width - 1)
    zero: Array | None = None
    _weight.refuse_nonfinite(values, "weight")
    if weight_scale is not None:
        scale = array(weight_scale, "weight_scale", (kind.name,), form)
        if weight_zero_point is not None:
            zero = array(weight_zero_point, "weight_zero_point", ("int8",), form)
            _weight.check_range(zero, "weight_zero_point", -middle, middle - 1)
    elif weight_zero_point is not None:
        raise fail(ValueError, "weight_zero_point", "None without scales", "some")
    else:
        chosen = choose_qparams(
            values,
            dtype="int8",
            axis=1,
            block_size=size,
            symmetric=symmetric,
            quant_range=(-middle, middle - 1),
            like="compressed_tensors",
            threads=threads,
        )
        scale = np.broadcast_to(np.asarray(chosen.scale).astype(kind), form)
        if not symmetric:
            zero = np.broadcast_to(np.asarray(chosen.zero_point, np.int8), form)
    words = _quantized(values, scale, zero, width, size, threads)
    stored = None
    if zero is not None:
        moved = (zero.astype(np.int16) + middle).astype(np.uint8)
        stored = _weight.dense(moved, width, "words", 0)
    return _made(inputs, width, size, words, scale, stored, None)


def _converted(made: Planar) -> Weight:
    _weight.require(made, "compressed-tensors", uneven=False)
    scale, zeros = _weight.along(made, 1)
    words = _weight.repacked(made, axis=1, along=1)
    stored = None
    if (zeros != 1 << (made.bits - 1)).any():
        stored = _weight.dense(zeros, made.bits, "words", 0)
    order = None if made.groups is None else made.groups.astype(np.int32)
    return _made(made.inputs, made.bits, made.block_size, words, scale, stored, order)


def _made(inputs: int, bits: int, size: int, words: Any, *parameters: Any) -> Weight:
    """Return a weight from words of codes, and from scales and zero points."""
    shape = np.array([words.shape[0], inputs])
    tensors = _weight.by_name(_TENSORS, words, *parameters, shape)
    how = {"bits": bits, "packing": "dense", "group_size": size}
    return Weight("compressed_tensors", tensors, partial(_read, **how))


def _codes_of(
    words: Words, shape: tuple[int, int], axis: int, bits: int, packing: str
) -> PackedArray:
    """Return the codes of a matrix of shape `shape` that is packed along an axis."""
    if packing == "padded" and 32 % bits:
        rows = _dense_rows(words if axis == 1 else words.T, shape[axis], bits)
        words = rows if axis == 1 else np.ascontiguousarray(rows.T)
    return PackedArray(words, "uint8", shape, layout=Layout("words", axis=axis, bits=bits))


def _dense_rows(words: Words, count: int, bits: int) -> Words:
    """Convert rows of words from packing "padded" to packing "dense"."""
    shifts = np.arange(0, 32 - bits + 1, bits, dtype=np.uint32)
    made = np.empty((len(words), _count(count, bits, "dense")), "<i4")
    step = max(1, _TILE // max(1, count))
    for first in range(0, len(words), step):
        some = np.ascontiguousarray(words[first : first + step]).view("<u4")
        each = some[..., np.newaxis] >> shifts & np.uint32((1 << bits) - 1)
        codes = each.astype(np.uint8).reshape(len(some), -1)[:, :count]
        made[first : first + step] = _weight.dense(codes, bits, "words", 1)
    return made


def _count(codes: int, bits: int, packing: str) -> int:
    """Return the number of words that contain a number of codes."""
    if packing == "dense":
        return -(-codes * bits // 32)
    return -(-codes // (32 // bits))


def _blocks_of(given: Any) -> tuple[int, int]:
    """Check `block_structure`, and return the numbers of outputs and inputs in a block."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise fail(TypeError, "block_structure", "two integers", type(given))
    rows, columns = (integer(one, "block_structure", 1, _weight.LARGEST) for one in given)
    return rows, columns


def _shapes_of(given: ArrayLike, experts: int) -> Array:
    """Check ``weight_shape``, and return the numbers of outputs and inputs by expert."""
    shape: Array = _core.plain(given, "weight_shape")
    if shape.shape == (3,) and shape[0] == experts:
        return np.broadcast_to(shape[1:], (experts, 2))
    return shape


def _sizes_of(
    given: Any, rows: int, columns: int, bits: Any, packing: str
) -> tuple[int, int]:
    """Return the number of bits of a code, and the number of inputs, for a weight.

    `given` is the argument ``weight_shape``. `rows` and `columns` are the numbers of rows
    and columns of words. If `bits` is `None`, the function finds the only number of bits
    that fits, or raises an error.
    """
    width = 0
    if bits is not None or given is None:
        width = int(_check.choice(bits, "bits", _BITS))
    if given is None:
        per_word = 32 // width
        return width, columns * 32 // width if packing == "dense" else columns * per_word
    shape: Array = _core.plain(given, "weight_shape")
    if shape.dtype.kind not in "iu" or shape.shape != (2,):
        got = f"{shape.dtype} {shape.shape}"
        raise fail(TypeError, "weight_shape", "two integers", got)
    outputs, inputs = map(int, shape)
    if not width:
        fit = [one for one in _BITS if _count(inputs, one, packing) == columns]
        if len(fit) > 1:
            raise fail(ValueError, "bits", f"{listed(map(str, fit))}, which all fit", None)
        width = fit[0] if fit else _BITS[-1]  # if no width fits, a check raises the error
    fitting = [
        one
        for one in _PACKINGS
        if inputs >= 0 and (outputs, _count(inputs, width, one)) == (rows, columns)
    ]
    if packing not in fitting:
        hint = f"; packing={fitting[0]!r} fits" if fitting else ""
        expected = f"extents of words of shape {(rows, columns)}"
        raise fail(ValueError, "weight_shape", expected, f"{(outputs, inputs)}{hint}")
    return width, inputs


def _zeros_of(
    given: Any, shape: tuple[int, int], bits: int, packing: str
) -> tuple[Any, Array | None]:
    """Return zero points as unsigned integers, and the argument as a checked array."""
    middle = 1 << (bits - 1)
    if given is None:
        return middle, None
    zeros = array(given, "weight_zero_point", ("int32", "int8"))
    if zeros.dtype == np.int8:
        _weight.check_shape(zeros, "weight_zero_point", shape)
        _weight.check_range(zeros, "weight_zero_point", -middle, middle - 1)
        return (zeros.astype(np.int16) + middle).astype(np.uint8), zeros
    words = _weight.word_array(zeros, "weight_zero_point")
    wanted = (_count(shape[0], bits, packing), shape[1])
    _weight.check_shape(words, "weight_zero_point", wanted)
    return _codes_of(words, shape, 0, bits, packing), words


def _quantized(
    x: Array, scale: Array, zero: Array | None, bits: int, size: int, threads: SupportsIndex
) -> Array:
    """Quantize and pack a weight. Add zero points to the quotients before rounding."""
    how: dict[str, Any] = {"dtype": "uint8", "threads": threads}
    how["layout"] = Layout("words", axis=1, bits=bits)
    middle = 1 << (bits - 1)
    codes: PackedArray
    if zero is None:
        precision = None if x.dtype.itemsize == 4 else x.dtype.name
        how |= {"axis": 1, "block_size": size, "precision": precision}
        codes = _core.quantize(x, scale, middle, **how)
        return codes.data
    rows, inputs = x.shape
    words = np.empty((rows, -(-inputs * bits // 32)), "<i4")
    step = max(1, _TILE // max(1, inputs))
    for first in range(0, rows, step):
        part = slice(first, first + step)
        each, added = (np.repeat(one[part], size, 1)[:, :inputs] for one in (scale, zero))
        with np.errstate(all="ignore"):
            numbers = np.divide(x[part], each)
            numbers += added.astype(numbers.dtype)
        codes = _core.quantize(numbers, 1.0, middle, **how)
        words[part] = codes.data
    return words
