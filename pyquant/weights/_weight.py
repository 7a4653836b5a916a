# SPDX-License-Identifier: Apache-2.0
"""The common parts of weight formats with separate codes, scales and zero points.

This module contains the computation. The module of each format converts its tensors to a
`Planar` or a `Scaled`, and contains the names, shapes and errors of the format.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from pyquant import _check, _core, dtypes
from pyquant._check import array, fail, integer, listed
from pyquant._refused import hint
from pyquant.packed import LAYOUTS, Layout, PackedArray, pack, unpack
from pyquant.weights import _published
from pyquant.weights._elements import index_of
from pyquant.weights.blocks import BlockFormat, block_format

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    import numpy.typing as npt

    from pyquant._typing import Array, ArrayLike, Bytes, Floats, Words

    _Read = Callable[..., tuple[str, dict[str, Array], "Planar | Scaled"]]

_WORD = 32
# GGUF format -> number of bits of a code, and the zero point. Weights can be converted from
# and to these formats.
_BLOCKS = {"Q4_0": (4, 8), "Q4_1": (4, 0), "Q8_0": (8, 128)}
# Name of a format -> its module.
FORMATS = {
    "awq": "awq",
    "bitsandbytes": "bitsandbytes",
    "compressed_tensors": "compressed_tensors",
    **dict.fromkeys(("gptq", "gptq_v2", "gptq_p"), "gptq"),
    "matmulnbits": "matmulnbits",
    "mlx": "mlx",
    "mx": "mx",
    "nvfp4": "nvfp4",
}
# Formats that `convert` writes. All of these formats store zero points or biases.
WRITTEN = [name for name in FORMATS if name not in ("bitsandbytes", "mx", "nvfp4")]
REALS = ("float32", "float16", "bfloat16")
LARGEST = (1 << 31) - 1  # maximum extent of an axis, and maximum size of a group
# Number of elements that are processed at a time, if one call of the core is not enough.
_TILE = 1 << 15


class Planar(NamedTuple):
    """
    The common form of weights with groups: ``(code - zero_point) * scale + bias``.

    Codes are unsigned and have `bits` bits. The arrays of scales, zero points and biases
    have the shape of the codes, except that the axis of the inputs has an index for each
    group. The zero point may also be a number for all groups.
    """

    codes: PackedArray | Bytes
    bits: int
    axis: int  # axis of the inputs
    scale: Array
    zero_point: Bytes | PackedArray | int
    block_size: int  # number of inputs in a group
    # The group of each input; None if inputs are in the order of their groups.
    groups: npt.NDArray[np.int64] | None = None
    bias: Array | None = None
    # True: if the results have the 16-bit type of the scales, each operation is rounded.
    by_steps: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the codes."""
        return self.codes.shape

    @property
    def inputs(self) -> int:
        """Extent of the axis of the inputs."""
        return self.codes.shape[self.axis]

    @property
    def outputs(self) -> int:
        """Extent of the axis of the outputs."""
        return self.codes.shape[1 - self.axis]

    def write(self, out: Array, threads: SupportsIndex) -> None:
        """Write the values to `out`, which has a row for each output."""
        target, bias = out.T if self.axis == 0 else out, self.bias
        kinds = [one.dtype.newbyteorder("=") for one in (self.scale, out)]
        if bias is None or not self.by_steps or kinds[0] != kinds[1]:
            _decode(self, target, threads)
        else:
            _decode(self._replace(bias=None), target, threads)
            # The result of `reshape` is a view, so that _add changes `out`.
            _add(bias, target.reshape(*bias.shape, self.block_size))

    def taken(self, index: Any) -> Planar:
        """Return the weight of the outputs that an index selects."""
        given = self.codes, self.scale, _settled(self), self.bias
        across = 0 if self.axis else 1
        codes, scale, zero, bias = (_taken(one, index, across) for one in given)
        return self._replace(codes=codes, scale=scale, zero_point=zero, bias=bias)


class Scaled(NamedTuple):
    """
    Codes with the scales of blocks: ``(code - zero_point) * scale``.

    The arrays of scales and zero points have as many axes as the codes, and an element for
    each block. Codes with one dimension are the elements of the weight in C order.
    """

    codes: PackedArray | Array
    shape: tuple[int, ...]
    scale: Array
    blocks: tuple[int, ...]  # extents of a block
    zero_point: Array | np.int16 | None = None
    codebook: Floats | None = None
    # The scale of the tensor, and a flag. If the flag is true, scales of blocks are divided
    # by the scale of the tensor. Otherwise, scales of blocks are multiplied by it.
    tensor_scale: tuple[np.float32, bool] | None = None
    factor: np.float32 | None = None  # multiplies the values after rounding to float32
    rows: npt.NDArray[np.intp] | None = None  # selected rows of codes with one dimension

    @property
    def axis(self) -> int:
        """Axis of the inputs."""
        return len(self.shape) - 1

    @property
    def bits(self) -> int:
        """Number of bits of a code."""
        if isinstance(self.codes, PackedArray):
            return self.codes._how[2]
        return dtypes.TYPES[str(dtypes.name_of(self.codes.dtype))].bits

    @property
    def block_size(self) -> int:
        """Number of inputs in a block."""
        return self.blocks[-1]

    def write(self, out: Array, threads: SupportsIndex) -> None:
        """Write the values to `out`."""
        if self.tensor_scale is not None:
            scale, divides = self.tensor_scale
            scales = _core.dequantize(self.scale, scale, inverse=divides, threads=threads)
            self._replace(scale=scales, tensor_scale=None).write(out, threads)
        elif self.factor is not None:
            step = max(1, _TILE // max(1, prod(self.shape[1:])))
            for first in range(0, self.shape[0], step):
                part = slice(first, min(first + step, self.shape[0]))
                room = np.empty((part.stop - first, *self.shape[1:]), np.float32)
                self.taken(part)._replace(factor=None).write(room, threads)
                _multiply(room, self.factor, out[part])
        elif self.rows is None and (self.codes.ndim == out.ndim or out.flags.c_contiguous):
            _core.dequantize(
                self.codes,
                self.scale,
                self.zero_point,
                block_size=self.blocks or None,
                codebook=self.codebook,
                out=out.reshape(self.codes.shape),
                threads=threads,
            )
        else:
            self._write_elements(out)

    def _write_elements(self, out: Array) -> None:
        """Write the values for codes with one dimension: selected rows, or any strides."""
        size, inner = self.block_size, prod(self.shape[1:])
        step = max(size, _TILE // size * size)
        places = [(out, 0)]
        if self.rows is not None:
            places = [(to, int(n) * inner) for to, n in zip(out, self.rows, strict=True)]
        for to, start in places:
            for begin in range(0, to.size, step):
                end = min(begin + step, to.size)
                first, last = (start + begin) // size, -(-(start + end) // size)
                made = _core.dequantize(
                    self.codes[first * size : min(last * size, self.codes.shape[0])],
                    self.scale[first:last],
                    block_size=self.blocks,
                    codebook=self.codebook,
                    dtype=out.dtype.newbyteorder("="),
                )
                to.flat[begin:end] = made[start + begin - first * size :][: end - begin]

    def taken(self, index: Any) -> Scaled:
        """Return the weight of the rows that an index selects."""
        codes = self.codes
        if codes.ndim < len(self.shape):
            return self._replace(rows=np.arange(self.shape[0])[index])
        codes = _taken(codes, index, 0)
        scale, zero, blocks = self.parameters(index)
        shape = (len(codes), *self.shape[1:])
        return self._replace(
            codes=codes, shape=shape, scale=scale, blocks=blocks, zero_point=zero
        )

    def parameters(self, index: Any) -> tuple[Any, Any, tuple[int, ...]]:
        """Return scales, zero points, and extents of a block, for some rows. If the rows
        have different scales, each row gets its own scales, because the first row may be
        inside a block."""
        given, (across, *inner) = (self.scale, self.zero_point), self.blocks
        if len(self.scale) == 1 and across > 1:
            return (*given, self.blocks)
        if across > 1:
            index = _numbers(index, self.shape[0]) // across
        return (*(_taken(one, index, 0) for one in given), (1, *inner))


def _numbers(index: Any, extent: int) -> npt.NDArray[np.intp]:
    """Return the row numbers that an index selects."""
    if isinstance(index, slice):
        return np.arange(*index.indices(extent))
    numbers: npt.NDArray[np.intp] = np.arange(extent)[index]
    return numbers


def _taken(values: Any, index: Any, axis: int) -> Any:
    """Return the values at some indices along axis 0 or 1.

    If `values` is a number or `None`, return it unchanged.
    """
    if isinstance(values, PackedArray):
        return _taken_codes(values, index, axis)
    if not isinstance(values, np.ndarray):
        return values
    if isinstance(index, slice):
        return values[index] if axis == 0 else values[:, index]
    return np.take(values, index, axis)  # `np.take` is faster than values[index]


def _taken_codes(codes: PackedArray, index: Any, axis: int) -> Any:
    """Return the packed codes at some indices along axis 0 or 1."""
    shape, layout, each, numbers = codes.shape, codes.layout, 1, index
    if len(shape) == 1:  # unpack complete words, because a row may begin inside a word
        if not isinstance(index, slice):
            return unpack(codes)[index]
        start, stop, _ = index.indices(shape[0])
        first, last = start // _WORD * _WORD, min(-(-stop // _WORD) * _WORD, shape[0])
        return unpack(codes[first:last])[start - first : stop - first]
    if layout.axis == axis:  # a word contains the codes of several indices
        each, given = _WORD // codes._how[2], _numbers(index, shape[axis])
        index, where = np.unique(given // each, return_inverse=True)
        numbers = where * each + given % each
    flat = layout.axis is None
    data = codes.data.reshape(shape[0], -1) if flat else codes.data
    data = np.ascontiguousarray(_taken(data, index, axis))
    form = (*shape[:axis], data.shape[axis] * each, *shape[axis + 1 :])
    data = data.reshape(-1) if flat else data
    if each == 1:
        return PackedArray(data, codes._name, form, layout=layout)
    return _taken(unpack(PackedArray(data, "uint8", form, layout=layout)), numbers, axis)


@dataclass(frozen=True, eq=False, repr=False)
class Weight:
    """
    A weight in a published format: codes, scales and zero points.

    `from_tensors` and `convert` return weights, and so do the functions of the formats.

    Attributes
    ----------
    format : str
        Name of the format, see `convert`.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> qweight = np.full((16, 1), 0x75316420, np.int32)
    >>> scales = np.ones((1, 8), np.float16)
    >>> given = {"qweight": qweight, "qzeros": qweight[:1] * 0, "scales": scales}
    >>> w = pq.weights.from_tensors(given, format="awq")
    >>> w
    Weight(format='awq', shape=(8, 16), bits=4, block_size=16)
    >>> w.dequantize(slice(2, 4), dtype="float16")[:, :3].tolist()
    [[2.0, 2.0, 2.0], [3.0, 3.0, 3.0]]
    >>> sorted(w.tensors("layer"))
    ['layer.qweight', 'layer.qzeros', 'layer.scales']
    """

    format: str
    _tensors: dict[str, Array]
    # The common form of each expert's weight, or a function that returns these forms.
    _forms: tuple[Planar | Scaled, ...] | _Read
    _stacked: bool = False  # True: the indices of the first axis are experts

    @property
    def _each(self) -> tuple[Planar | Scaled, ...]:
        forms = self._forms
        if not isinstance(forms, tuple):
            forms = (forms(**self._tensors)[-1],)
            object.__setattr__(self, "_forms", forms)
        return forms

    def __repr__(self) -> str:
        return (
            f"Weight(format={self.format!r}, shape={self.shape}, bits={self.bits}, "
            f"block_size={self.block_size})"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weight: (outputs, inputs), or (experts, outputs, inputs)."""
        made = self._each[0]
        shape = made.shape[::-1] if made.axis == 0 else made.shape
        return (len(self._each), *shape) if self._stacked else shape

    @property
    def bits(self) -> int:
        """Number of bits of a code."""
        return self._each[0].bits

    @property
    def block_size(self) -> int:
        """Number of inputs that share a scale."""
        return self._each[0].block_size

    @property
    def inputs_axis(self) -> int:
        """Axis of the inputs in the stored tensors."""
        return self._each[0].axis

    @property
    def _planar(self) -> Planar:
        matrix_of(self, "weight")
        (made,) = self._each
        if isinstance(made, Scaled):
            expected = "codes with zero points or biases"
            raise fail(ValueError, "weight", expected, self.format)
        return made

    def tensors(self, name: str = "") -> dict[str, npt.NDArray[Any]]:
        """
        Return the tensors of the weight, as its format stores them.

        Parameters
        ----------
        name : str, optional
            Name of the weight in a file. Default: no name.

        Returns
        -------
        dict
            A mapping from names to arrays. A name consists of `name`, a dot, and the name
            of the tensor in the format.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> w = pq.weights.mlx.quantize(np.zeros((2, 64), np.float32))
        >>> {name: a.shape for name, a in w.tensors("layer").items()}
        {'layer.weight': (2, 8), 'layer.scales': (2, 1), 'layer.biases': (2, 1)}
        """
        return {joined(name, key): array for key, array in self._tensors.items()}

    def dequantize(
        self,
        rows: slice | ArrayLike | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]:
        """
        Convert the codes to real numbers.

        Parameters
        ----------
        rows : slice or array_like of int, optional
            Indices along the first axis. Default: all.
        dtype : dtype_like, optional
            float32 (the default), float64, float16 or bfloat16.
        out : ndarray, optional
            Array for the result, with the shape and type of the result. Any strides are
            allowed.
        threads : int, optional
            Largest number of threads. Default 1. The result does not depend on it.

        Returns
        -------
        ndarray
            `out`, or an array of shape `shape`, but with the selected rows only.

        Notes
        -----
        Values are ``(code - zero_point) * scale``. They are rounded to float32, and then to
        `dtype`. float64 results are rounded to float64 only.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> x = np.arange(64, dtype=np.float32).reshape(2, 32) % 16
        >>> w = pq.weights.mlx.quantize(x, group_size=32)
        >>> w.dequantize([1])[:, :5]
        array([[0., 1., 2., 3., 4.]], dtype=float32)
        """
        if dtype is None and isinstance(out, np.ndarray):  # `out` may have any byte order
            kind = _check.real_dtype(dtypes.name_of(out.dtype) or out.dtype, "out")
        else:
            kind = _check.real_dtype("float32" if dtype is None else dtype)
        each, shape = self._each, self.shape
        count, scattered = integer(threads, "threads", 1), None
        if rows is not None:
            index = index_of(rows, shape, "weight")
            # Decode all rows of a vector, because a group contains several rows.
            if len(shape) == 1 and isinstance(each[0], Planar):
                some: Array = self.dequantize(dtype=kind, threads=count)[index]
                if out is None:
                    return some
                _check.out(out, kind, some.shape, *self._tensors.values())[...] = some
                return out
            numbers = range(shape[0])[index] if isinstance(index, slice) else index
            shape = (len(numbers), *shape[1:])
            if self._stacked:
                each = tuple(each[number] for number in numbers)
            elif isinstance(index, slice):
                each = (each[0].taken(index),)
            else:
                scattered = index
        if out is not None:
            made = _check.out(out, kind, shape, *self._tensors.values())
        elif self.inputs_axis == 0 and len(shape) > 1:
            made = np.empty((*shape[:-2], *shape[:-3:-1]), kind).swapaxes(-1, -2)
        else:
            made = np.empty(shape, kind)
        places: Any = zip(each, made if self._stacked else [made], strict=True)
        if scattered is not None:  # limit the memory for copies of the codes
            step = max(1, _TILE * 16 // max(1, prod(shape[1:])))
            parts = [slice(at, at + step) for at in range(0, len(scattered), step)]
            places = ((each[0].taken(scattered[one]), made[one]) for one in parts)
        for one, place in places:
            if place.size:
                one.write(place, count)
        return made if out is None else out

    def linear(self) -> dict[str, Any]:
        """
        Return arguments of `pyquant.onnx.dequantize_linear`.

        Returns
        -------
        dict
            ``x`` (a `pyquant.PackedArray` of uint4 or uint2 in the layout of ONNX, or a
            uint8 array), ``x_scale``, ``x_zero_point``, ``axis`` and ``block_size``. With
            these arguments, the operator returns values of the type of the scales. The
            values equal the results of `dequantize` for this type.

        Raises
        ------
        ValueError
            If the operator does not support the weight. It supports codes of 2, 4 and 8
            bits, and inputs in the order of their groups. It supports no biases.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> x = np.arange(32, dtype=np.float32).reshape(1, 32) % 16 - 8
        >>> w = pq.weights.compressed_tensors.quantize(x, group_size=32)
        >>> y = pq.onnx.dequantize_linear(**w.linear())
        >>> bool((y == w.dequantize(dtype=y.dtype)).all())
        True
        """
        made = self._planar
        require(made, "DequantizeLinear", (2, 4, 8), mixed=False)
        single = made.bits == 8
        codes: Any = made.codes
        if isinstance(codes, PackedArray):
            codes = unpack(codes) if single else codes.repack("onnx")
        zeros: Any = zero_codes(made)
        if not single:
            zeros = pack(zeros, Layout("onnx", bits=made.bits))
        return {
            "x": codes,
            "x_scale": made.scale,
            "x_zero_point": zeros,
            "axis": made.axis,
            "block_size": made.block_size,
        }

    @_core.default_fpenv
    def blocks(self, name: str) -> npt.NDArray[np.uint8]:
        """
        Convert the codes to GGUF blocks without loss.

        Parameters
        ----------
        name : {"Q4_0", "Q4_1", "Q8_0"}
            Format of the blocks.

        Returns
        -------
        ndarray
            uint8 blocks along the inputs, with a row for each output, for
            ``pq.weights.blocks.block_format(name).dequantize`` and `pyquant.write_weights`.

        Raises
        ------
        ValueError
            If the format cannot store the weight. The formats require codes of 4 bits
            (Q8_0: 8 bits) and groups that consist of complete blocks. Every zero point must
            be 8 (Q8_0: 128; Q4_1: 0). Only Q4_1 stores biases. Every scale and every bias
            must be exact in float16.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> x = np.arange(32, dtype=np.float16).reshape(1, 32) % 16 - 8
        >>> w = pq.weights.compressed_tensors.quantize(x, group_size=32)
        >>> q4_0 = pq.weights.blocks.block_format("Q4_0")
        >>> q4_0.dequantize(w.blocks("Q4_0"))[:, :4] - w.dequantize()[:, :4]
        array([[0., 0., 0., 0.]], dtype=float32)
        """
        name = _check.choice(name, "name", _BLOCKS)
        bits, zero = _BLOCKS[name]
        made = self._planar
        require(made, name, (bits,), biases=name == "Q4_1", mixed=False)
        fmt = block_format(name)
        size = fmt.block_size
        if made.inputs % size or made.block_size % size:
            expected = f"groups of a multiple of {size} inputs for {name}"
            got = f"{made.block_size} of {made.inputs}"
            raise fail(ValueError, "weight", expected, got)
        scale, zeros = along(made, 1)
        if (zeros != zero).any():
            expected, got = f"zero points {zero} for {name}", zeros[zeros != zero][0]
            raise fail(ValueError, "weight", expected, f"{got}")
        times = made.block_size // size
        rows, blocks = made.outputs, made.inputs // size
        parts: dict[str, Any] = {"d": _halves(scale, name, times)[:, :blocks]}
        if name == "Q4_1":
            bias = made.scale * 0 if made.bias is None else made.bias
            bias = bias.T if made.axis == 0 else bias
            parts["m"] = _halves(bias, name, times)[:, :blocks]
        if bits == 8:
            codes = repacked(made, axis=1, along=1).view(np.uint8) ^ np.uint8(0x80)
            parts["qs"] = codes.reshape(rows, blocks, size).view(np.int8)
        else:
            codes = repacked(made, axis=1, along=1, layout="halves")
            parts["qs"] = codes.reshape(rows, blocks, size // 2)
        return fmt.join(**parts)


# ---- values ----


def _halves(numbers: Array, name: str, times: int) -> npt.NDArray[np.float16]:
    """Convert scales to float16, and repeat each scale `times` times in its row.

    Raise an error for a scale that float16 does not represent exactly.
    """
    with np.errstate(all="ignore"):
        made = numbers.astype(np.float16)
    wrong = made.astype(numbers.dtype) != numbers
    if wrong.any():
        expected = f"scales that float16 holds for {name}"
        raise fail(ValueError, "weight", expected, f"{numbers[wrong][0]}")
    return np.repeat(made, times, 1)


@_core.default_fpenv
def _multiply(room: Floats, factor: np.float32, out: Array) -> None:
    with np.errstate(all="ignore"):
        out[...] = np.multiply(room, factor, out=room)


@_core.default_fpenv
def _add(bias: Array, groups: Array) -> None:
    with np.errstate(all="ignore"):
        np.add(groups, bias[..., np.newaxis], out=groups)


def _decode(made: Planar, target: Array, threads: SupportsIndex) -> None:
    """Write the values to an array with the shape of the codes."""
    how: dict[str, Any] = {"out": target, "threads": threads}
    if made.groups is None:
        how |= {"axis": made.axis, "block_size": made.block_size, "offset": made.bias}
        _core.dequantize(made.codes, made.scale, made.zero_point, **how)
        return
    given = (made.scale, _settled(made), made.bias)
    for part in _parts(made):
        place = made.groups[part] if made.axis == 0 else (part, made.groups)
        scale, zero, bias = _each(given, place)
        how |= {"axis": (0, 1), "offset": bias, "out": target[part]}
        _core.dequantize(made.codes[part], scale, zero, **how)


def _settled(made: Planar) -> Bytes | int:
    zero = made.zero_point
    return small_codes(zero) if isinstance(zero, PackedArray) else zero


def _parts(made: Planar) -> Iterator[slice]:
    """Yield slices of rows. Each slice begins at the first code of a packed word."""
    rows, extent = made.shape
    step = max(_WORD, _TILE // max(extent, 1) // _WORD * _WORD)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def _each(given: Any, place: Any) -> Any:
    return tuple(one[place] if isinstance(one, np.ndarray) else one for one in given)


# ---- formats ----


def joined(name: str, key: str, tensors: Collection[str] = ()) -> str:
    """Return the name of a tensor of a weight.

    `name` is the name of the weight or of its layer, and `key` is the name in the format.
    """
    layer = "" if name == "weight" else name.removesuffix(".weight")
    full = f"{layer}.{key}" if layer else key
    # For example, "experts.up" and the key "weight_scale" make "experts.up_scale".
    short = f"{name}{key.removeprefix('weight')}"
    return short if full not in tensors and short in tensors else full


def tensor_of(tensors: Mapping[str, Any], name: str, key: str) -> Any:
    """Return a tensor of a weight, or `None` if the tensor is missing."""
    _check_names(tensors, name)
    return tensors.get(joined(name, key, tensors))


def keys_in(
    tensors: Mapping[str, Any], name: str, *known: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the first tuple of keys with a tensor for each key, or else the last tuple."""
    for keys in known:
        if all(tensor_of(tensors, name, key) is not None for key in keys):
            return keys
    return known[-1]


def by_name(names: tuple[str, ...], *arrays: Any) -> dict[str, Array]:
    """Return a dict from names to arrays. Omit names with `None` in place of an array."""
    named = zip(names, arrays, strict=True)
    return {name: array for name, array in named if array is not None}


def from_tensors(
    tensors: Mapping[str, Any], name: str = "", format: str | None = None, **options: Any
) -> Weight:
    """
    Return a weight from the tensors of a checkpoint.

    Parameters
    ----------
    tensors : mapping
        Names to arrays, or to tensors of `pyquant.open_weights`.
    name : str, optional
        Name of the weight, such as "layer.weight", or of its layer. `find` lists the names.
        By default, the names of the tensors have no prefix, for example "qweight".
    format : str, optional
        Name of a format, see `convert`. Default: the format that the names, types and
        shapes of the tensors determine.
    **options
        Arguments of ``from_tensors`` in the module of the format, such as `group_size`.

    Returns
    -------
    Weight
        The weight. It refers to the arrays without a copy.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> words = np.full((2, 8), 0x76543210, np.int32)
    >>> tensors = {
    ...     "layer.qweight": words,
    ...     "layer.qzeros": np.full((1, 1), 0x77777777, np.int32),
    ...     "layer.scales": np.ones((1, 8), np.float16),
    ... }
    >>> pq.weights.from_tensors(tensors, "layer")
    Weight(format='gptq', shape=(8, 16), bits=4, block_size=16)
    """
    _check_names(tensors, name)
    how: dict[str, str] = {}
    if format is not None:
        module, how = _module_of(format, FORMATS)
    else:
        module = import_module(f"pyquant.weights.{_module_in(tensors, name)}")
    made: Weight = module.from_tensors(tensors, name, **how, **options)
    return made


def _module_in(tensors: Mapping[str, Any], name: str) -> str:
    """Return the name of the only module that reads the weight `name`."""
    found = _published.find_one(tensors, name)
    formats = [one for each in found for one in each.formats]
    modules = [*dict.fromkeys(FORMATS.get(one, one) for one in formats)]
    if len(modules) == 1 and modules[0] in FORMATS.values():
        return modules[0]
    if len(modules) == 1:
        expected = "a weight to read"
        raise ValueError(f"name: expected {expected}, use pyquant.weights.{modules[0]}")
    if modules:
        expected = f"{listed(map(repr, formats))}, which all fit"
        raise fail(ValueError, "format", expected, None)
    if found:
        raise ValueError(f"name: expected a weight that pyquant reads; {found[0].fault}")
    known = [one.name for one in _published.find(tensors) if one.formats]
    some = listed([*map(repr, known[:4])] or ["the name of a weight in a known format"])
    got = f"{name!r:.100}{hint(name, known[4:], show=repr)}"
    raise fail(ValueError, "name", some, got)


def convert(
    weight: Weight | tuple[BlockFormat, npt.NDArray[np.uint8]], format: str, **options: Any
) -> Weight:
    """
    Convert a weight to another format without loss.

    Parameters
    ----------
    weight : Weight or tuple
        A weight. Or a pair of a GGUF format (Q4_0, Q4_1 or Q8_0) and the uint8 bytes of
        blocks, with a row for each output.
    format : str
        Format of the result: "awq", "compressed_tensors", "gptq", "gptq_v2", "gptq_p",
        "matmulnbits" or "mlx".
    **options
        "gptq": with ``wrap=True``, a zero point of 0 is stored as ``2**bits - 1``. By
        default, a zero point of 0 raises an error.
        "mlx": `group_size` is 32, 64 or 128. "matmulnbits": `block_size` is a power of two,
        at least 16. The size must divide the group size of `weight`. The default is the
        largest size that does.

    Returns
    -------
    Weight
        A weight whose float32 values equal the values of `weight`, except that "mlx" does
        not keep the sign of 0. Scales keep their type.

    Raises
    ------
    ValueError
        If the format cannot store the weight, for one of these reasons:

        - The format does not have codes of this number of bits.
        - The codes of a row or column do not fill 32-bit words.
        - The weight has biases. Only "mlx" stores biases, with the type of the scales.
        - "awq" and "mlx": the last group is short, or inputs are not in the order of their
          groups.
        - "mlx": the number of inputs in a group is not a multiple of 32.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x, scales = np.arange(64.0).reshape(8, 8), np.ones((1, 8), np.float16)
    >>> w = pq.weights.awq.pack(x, scales, np.zeros((1, 8), int))
    >>> pq.weights.convert(w, "gptq_v2")
    Weight(format='gptq_v2', shape=(8, 8), bits=4, block_size=8)
    """
    module, how = _module_of(format, WRITTEN)
    made: Weight = module._converted(planar_of(weight), **how, **options)
    return made


def _module_of(format: object, known: Iterable[str]) -> tuple[Any, dict[str, str]]:
    """Return the module of a format, and the keyword arguments for its functions.

    A module for several formats needs the argument `format`.
    """
    name = _check.choice(format, "format", known)
    module = import_module(f"pyquant.weights.{FORMATS[name]}")
    several = list(FORMATS.values()).count(FORMATS[name]) > 1
    return module, {"format": name} if several else {}


def make(
    read: _Read,
    tensors: Mapping[str, Any],
    name: str,
    needed: tuple[str, ...],
    rest: tuple[str, ...] = (),
    names: Mapping[str, str] | None = None,
    *,
    stacks: bool = True,
) -> Weight:
    """Return a weight from tensors, or a weight of several experts along a first axis.

    `read` gets the tensors of one expert, and returns the format, the checked tensors and
    the common form. If `stacks` is false, the format has no experts, and `read` gets arrays
    of any number of dimensions. `names` maps a key to the full name of a tensor if this
    name does not follow from the name of the weight.
    """
    _check_names(tensors, name)
    usual = {key: joined(name, key, tensors) for key in (*needed, *rest)}
    names = {**usual, **(names or {})}
    missing = [names[key] for key in needed if names[key] not in tensors]
    if missing:
        got = listed([*map(str, tensors)][:4]) if tensors else "none"
        raise fail(ValueError, "tensors", missing[0], f"{got:.200}")
    keys = [key for key in (*needed, *rest) if names[key] in tensors]
    given = {key: _core.plain(tensors[names[key]], key) for key in keys}
    first, words = next(iter(given.items()))
    if words.ndim != 3 or not stacks:
        format, found, made = read(**given)
        return Weight(format, found, (made,))
    experts = words.shape[0]
    for key, one in given.items():
        if one.shape[:1] != (experts,) or not experts:
            some = f"{experts} experts, as in {first}" if experts else "an expert or more"
            raise fail(ValueError, key, some, f"shape {one.shape}")
    each = [
        read(**{key: one[expert] for key, one in given.items()})
        for expert in range(experts)
    ]
    return Weight(each[0][0], given, tuple(made for *_, made in each), True)


def _check_names(tensors: object, name: object) -> None:
    if not isinstance(tensors, Mapping):
        raise fail(TypeError, "tensors", "a mapping of names to arrays", type(tensors))
    if not isinstance(name, str):
        raise fail(TypeError, "name", "a string", type(name))


# ---- words ----


def repacked(
    made: Planar,
    *,
    axis: int,
    along: int,
    layout: str = "words",
    columns: int | None = None,
) -> Array:
    """Transpose a matrix of codes so that `axis` is the axis of the inputs, and pack it.

    A word contains consecutive codes along axis `along`. `columns` is the number of words
    in a row of the result. It may be larger than necessary; the remaining words are 0.
    """
    turned = axis != made.axis
    row = LAYOUTS[layout]
    shape = made.shape[::-1] if turned else made.shape
    rows, needed = row.shape(shape, along, made.bits)
    words = np.zeros((rows, columns or needed), row.words[0])
    target = words.T if turned else words  # a view with the axes of made.codes
    here = 1 - along if turned else along
    to = Layout(layout, axis=here, bits=made.bits)
    for part in _parts(made):
        piece = made.codes[part]
        some = (
            piece.repack(to) if isinstance(piece, PackedArray) else pack(piece, to)
        ).data
        first = row.length(part.start, made.bits) if here == 0 else part.start
        target[first : first + some.shape[0], : some.shape[1]] = some
    return words


def small_codes(packed: PackedArray) -> Bytes:
    """Unpack a small array of codes to uint8. Unlike `unpack`, never use ml_dtypes."""
    return _core.dequantize(packed, 1.0).astype(np.uint8)


def zero_codes(made: Planar) -> Bytes:
    """Return the zero points as uint8, with the shape of the scales."""
    return np.broadcast_to(np.asarray(_settled(made), np.uint8), made.scale.shape)


def along(made: Planar, axis: int) -> tuple[Array, Bytes]:
    """Return scales and zero points, transposed if groups are not along `axis`."""
    turned = made.axis != axis
    each = (made.scale, zero_codes(made))
    scale, zeros = (np.ascontiguousarray(one.T if turned else one) for one in each)
    return scale, zeros


def dense(codes: Any, bits: int, layout: str, along: int) -> Words:
    """Pack a small array of codes to words along an axis."""
    made: Words = pack(
        np.ascontiguousarray(codes), Layout(layout, axis=along, bits=bits)
    ).data
    return made


def quantized_words(made: Planar, layout: str, along: int, threads: SupportsIndex) -> Array:
    """
    Quantize the real numbers that ``made.codes`` contains, and pack the codes into words.

    The first axis is the axis of the inputs. The codes are ``(x + zero * scale) / scale``.
    Each operation is rounded, and the quotient is then rounded to an integer, half to even.
    The packages of GPTQ and AWQ compute codes with these operations.
    """
    x: Any = made.codes
    zero: Any = made.zero_point
    scale, bits, groups = made.scale, made.bits, made.groups
    with np.errstate(all="ignore"):
        offset = -np.multiply(zero, scale, dtype=np.float32)
    given = (scale, offset)
    how: dict[str, Any] = {"dtype": "uint8", "threads": threads}
    how["layout"] = Layout(layout, axis=along, bits=bits)
    if groups is None:
        how |= {"axis": 0, "block_size": made.block_size}
        codes: PackedArray = _core.quantize(x, scale, offset=offset, **how)
        return codes.data
    row = LAYOUTS[layout]
    words = np.empty(row.shape(x.shape, along, bits), row.words[0])
    for part in _parts(made):
        some, shift = _each(given, groups[part])
        codes = _core.quantize(x[part], some, offset=shift, axis=(0, 1), **how)
        first = row.length(part.start, bits) if along == 0 else part.start
        words[first : first + codes.data.shape[0]] = codes.data
    return words


# ---- conversions ----


def planar_of(weight: Weight | tuple[BlockFormat, Bytes]) -> Planar:
    """Return the common form of a `Weight`, or of a pair of a GGUF format and blocks."""
    if isinstance(weight, Weight):
        return weight._planar
    if isinstance(weight, tuple) and len(weight) == 2:
        block, b = weight
        if isinstance(block, BlockFormat):
            return _of_blocks(block, b)
    expected = "a weights.Weight, or a tuple of a block format and blocks"
    raise fail(TypeError, "weight", expected, type(weight))


def _of_blocks(made: BlockFormat, b: Any) -> Planar:
    if made.name not in _BLOCKS:
        got = f"{made.name}; dequantize the blocks, and quantize the numbers"
        raise fail(ValueError, "weight", f"blocks of {listed(_BLOCKS)}", got)
    given = array(b, "weight", ("uint8",))
    matrix_of(given, "weight")
    parts = made.split(given)
    rows, blocks = parts["d"].shape
    inputs = blocks * made.block_size
    codes: Any
    bits, zero = _BLOCKS[made.name]
    if bits == 8:
        codes = parts["qs"].reshape(rows, inputs).view(np.uint8) ^ np.uint8(0x80)
    else:
        words = np.ascontiguousarray(parts["qs"]).reshape(rows, inputs // 2)
        codes = PackedArray(words, "uint4", (rows, inputs), layout="halves")
    return Planar(codes, bits, 1, parts["d"], zero, made.block_size, None, parts.get("m"))


def require(
    made: Planar,
    target: str,
    widths: Iterable[int] = range(1, 9),
    *,
    biases: bool = False,
    mixed: bool = True,
    short: bool = True,
    uneven: bool = True,
) -> None:
    """Raise an error if the format `target` does not support a property of a weight.

    `widths` are the supported numbers of bits of a code. The other arguments state whether
    the format supports biases, inputs out of the order of their groups, and so on.
    """
    groups, size = made.scale.shape[made.axis], made.block_size
    got: object
    if made.bits not in widths:
        expected, got = f"codes of {listed(map(str, widths))} bits", made.bits
    elif made.bias is not None and not biases:
        expected, got = "no biases or float zero points", "some"
    elif made.groups is not None and not mixed:
        place = int(np.argmax(made.groups != np.arange(made.inputs) // size))
        expected = "inputs in the order of their groups"
        got = f"group {made.groups[place]} for input {place}"
    elif made.inputs % size and not short:
        expected, got = f"inputs that groups of {size} divide", made.inputs
    elif -(-made.inputs // size) != groups and not uneven:
        expected = f"as many groups as {size} inputs each make of {made.inputs}"
        got = groups
    else:
        return
    raise fail(ValueError, "weight", f"{expected} for {target}", got)


def require_whole(extent: int, bits: int, name: str, what: str, target: str) -> None:
    """Raise an error if `extent` codes of `bits` bits do not fill 32-bit words."""
    least = _WORD // gcd(_WORD, bits)
    if extent % least:
        raise fail(ValueError, name, f"{what} that {least} divides for {target}", extent)


# ---- arguments of formats ----


def values_of(value: Any, name: str) -> Array:
    """Convert an argument to an array of real numbers. Python numbers become float32."""
    made: Array = _core.as_reals(value, name)
    if not isinstance(value, (np.ndarray, np.generic)) and made.dtype == np.float64:
        made = _core.cast(made, "float32")
    return array(made, name, REALS)


def extrema_of(
    x: Array, block: tuple[int, ...], whole: Array, name: str
) -> npt.NDArray[np.float64]:
    """
    Return the lowest and the highest value of each block of `x`.

    `x` is a part of `whole`. The message for a value that is not finite contains the index
    of the value in `whole`.
    """
    try:
        return _core.extrema(x, block)
    except ValueError:
        refuse_nonfinite(whole, name)
        raise


def refuse_nonfinite(x: Array, name: str) -> None:
    """Raise an error if a value of `x` is not finite. Describe the first such value."""
    try:
        _core.extrema(x, tuple(max(1, n) for n in x.shape))
    except ValueError as error:
        raise ValueError(f"{name}: {str(error).partition(': ')[2]}") from None


def scales_of(value: Any, name: str, dtype: str) -> Array:
    """Return scales with type `dtype`. A uint8 array is viewed with this type."""
    made: Array = _core.plain(value, name)
    kind: np.dtype[Any] = _core.dtype_named(dtype)
    if made.dtype not in (kind, np.uint8):
        got = dtypes.described(made)
        raise fail(TypeError, name, f"{dtype}, or its bytes", got)
    return made.view(kind)


def elements_of(value: Any, name: str, types: tuple[str, ...]) -> Any:
    """Return an array with one of the types. A byte becomes two float4_e2m1fn elements."""
    made = array(value, name, (*types, "uint8", "int8", "int32"))
    if made.ndim == 0:
        raise fail(ValueError, name, "at least one dimension", "shape ()")
    if made.dtype.kind not in "iu":
        return made
    data = np.ascontiguousarray(made, made.dtype.newbyteorder("<")).view(np.uint8)
    shape = (*data.shape[:-1], data.shape[-1] * 2)
    return PackedArray(data.reshape(-1), "float4_e2m1fn", shape)


def word_array(value: Any, name: str) -> Words:
    """Check an array of 32-bit words, and return it little-endian and in C order."""
    made = array(value, name, ("int32", "uint32"))
    made = made.astype(made.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(made).view("<i4")


def check_shape(one: Array, name: str, wanted: tuple[int, ...]) -> None:
    """Raise an error if the shape of an array is not `wanted`."""
    if one.shape != wanted:
        raise fail(ValueError, name, f"shape {wanted}", one.shape)


def check_range(codes: Array, name: str, least: int, most: int) -> None:
    """Raise an error for a code that is not in the range from `least` to `most`."""
    low, high = codes.min(initial=least), codes.max(initial=least)
    if low < least or high > most:
        at = codes.argmin() if low < least else codes.argmax()
        place = tuple(map(int, np.unravel_index(at, codes.shape)))
        got = f"{codes[place]} at {place}"
        raise fail(ValueError, name, f"integers from {least} to {most}", got)


def matrix_of(one: Array | Weight, name: str) -> tuple[int, int]:
    """Return the numbers of rows and columns. Raise an error for other dimensions."""
    if len(one.shape) != 2:
        raise fail(ValueError, name, "two dimensions", f"shape {one.shape}")
    rows, columns = one.shape
    return rows, columns


def given(x: Any, scales: Any, zeros: Any, bits: int) -> tuple[Array, Array, Bytes]:
    """Check the arguments of `pack`; return weight, scales and zero points as arrays."""
    values = array(_core.as_reals(x, "x"), "x", ("float64", *REALS))
    outputs, _ = matrix_of(values, "x")
    scale = array(scales, "scales", REALS)
    groups, _ = matrix_of(scale, "scales")
    check_shape(scale, "scales", (groups, outputs))
    points: Array = _core.plain(zeros, "zeros")
    if points.dtype.kind not in "iu" or _core.is_masked(points):
        got = "a masked array" if _core.is_masked(points) else dtypes.described(points)
        raise fail(TypeError, "zeros", "integers", got)
    check_range(points, "zeros", 0, (1 << bits) - 1)
    check_shape(points, "zeros", scale.shape)
    return values, scale, points.astype(np.uint8)


def blocks_of(
    inputs: int,
    groups: int,
    group_size: SupportsIndex | None,
    name: str,
    order: Words | None = None,
    *,
    even: bool = False,
) -> int:
    """Return the number of inputs in a group; raise an error if several numbers fit.

    `order` has the group of each input, or is `None` for inputs in the order of groups.
    With `order`, the result does not affect values. `even` has the meaning of the argument
    of `likely_sizes`.
    """
    if group_size is not None:
        size = integer(group_size, "group_size", 1, LARGEST)
        made = -(-inputs // size)
        if order is None and made != groups:
            expected = f"{made} groups of {size} for {inputs} inputs"
            raise fail(ValueError, name, expected, groups)
        return size
    certain = _published.group_size(inputs, groups, even=even)
    if order is not None:
        most = max(1, int(np.bincount(order, minlength=1).max()))
        if groups_of(order, groups, most) is None:
            return most
        return certain or max(1, -(-inputs // max(1, groups)))
    if certain or inputs == groups == 0:
        return certain or 1
    sizes = _published.likely_sizes(inputs, groups, even=even)
    if not sizes:
        expected = f"groups of one size for {inputs} inputs"
        raise fail(ValueError, name, expected, f"{groups} groups")
    some = f"{_published.listed(sizes)}, which all make {groups} groups of {inputs} inputs"
    raise fail(ValueError, "group_size", some, None)


def order_of(g_idx: ArrayLike | None, name: str, inputs: int, groups: int) -> Words | None:
    """Check `g_idx`, the group of each input, and return it as an array.

    Return `None` if `g_idx` is `None` or -1 for all inputs. Inputs are then in the order of
    their groups.
    """
    if g_idx is None:
        return None
    made = array(g_idx, name, ("int32", "int64"), (inputs,))
    if inputs and (made == -1).all():
        return None
    wrong = np.flatnonzero((made < 0) | (made >= groups))
    if wrong.size:
        place = int(wrong[0])
        expected = f"groups from 0 to {groups - 1}, or -1 for all inputs"
        raise fail(ValueError, name, expected, f"{made[place]} at ({place},)")
    return made.astype(np.int32)


def groups_of(order: Words | None, groups: int, size: int) -> npt.NDArray[np.int64] | None:
    """Return the group of each input, or `None` for groups of `size` consecutive inputs."""
    if order is None or (
        -(-order.size // size) == groups
        and np.array_equal(order, np.arange(order.size) // size)
    ):
        return None
    return order.astype(np.int64)
