# SPDX-License-Identifier: Apache-2.0
"""Parts that weight formats with separate codes and parameters share.

Each format converts to and from a `Planar`. The modules of the formats contain names,
shapes and errors; this module contains the computation.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, SupportsIndex

import numpy as np

from pyquant import _core, dtypes
from pyquant._refused import hint, hint_of_type
from pyquant._standard import REAL, listed, requested, shown
from pyquant.packed import LAYOUTS, Layout, PackedArray, pack, unpack
from pyquant.weights import _published
from pyquant.weights._elements import check_apart, index_of, plain_out
from pyquant.weights.blocks import BlockFormat, block_format

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["Weight", "convert", "from_tensors"]

_WORD = 32
# Bits and zero point of GGUF formats.
_BLOCKS = {"Q4_0": (4, 8), "Q4_1": (4, 0), "Q8_0": (8, 128)}
# The module of each format.
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
# Formats that store zero points or biases, which `convert` writes.
WRITTEN = [name for name in FORMATS if name not in ("bitsandbytes", "mx", "nvfp4")]
REALS = ("float32", "float16", "bfloat16")
LARGEST = (1 << 31) - 1  # of extents and group sizes
# Number of elements at a time, if the core cannot process all at once.
_TILE = 1 << 15


class Rows(Protocol):
    """Codes in a layout that the core lacks; slices return uint8 arrays of rows."""

    shape: tuple[int, ...]
    words: npt.NDArray[np.int32]

    def taken(self, outputs: Any, /) -> Rows: ...
    def __getitem__(self, part: slice, /) -> npt.NDArray[np.uint8]: ...


class Planar(NamedTuple):
    """
    The common form of all formats: ``(code - zero_point) * scale + bias``.

    Codes are unsigned and have `bits` bits. Parameters have the dimensions of the codes,
    with groups in place of inputs. Zero points may be one number.
    """

    codes: PackedArray | npt.NDArray[np.uint8] | Rows
    bits: int
    axis: int  # axis of the inputs
    inputs: int  # codes along the axis may exceed this number
    scale: npt.NDArray[Any]
    zero_point: npt.NDArray[np.uint8] | PackedArray | int
    block_size: int  # inputs in a group
    groups: npt.NDArray[np.int64] | None = None  # group of each input, if they are mixed
    bias: npt.NDArray[Any] | None = None
    by_steps: bool = False  # round products to the 16-bit type of the scales

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weight."""
        extents = list(self.codes.shape)
        extents[self.axis] = self.inputs
        return tuple(extents)

    @property
    def outputs(self) -> int:
        """Extent of the other axis."""
        return self.shape[1 - self.axis]

    @property
    def is_plain(self) -> bool:
        """True if the core can process the complete weight."""
        return (
            isinstance(self.codes, (PackedArray, np.ndarray))
            and self.groups is None
            and self.codes.shape == self.shape
        )

    def write(self, out: npt.NDArray[Any], threads: SupportsIndex) -> None:
        """Write the values, with a row for each output."""
        target, bias = out.T if self.axis == 0 else out, self.bias
        kinds = [one.dtype.newbyteorder("=") for one in (self.scale, out)]
        if bias is None or not self.by_steps or kinds[0] != kinds[1]:
            _decode(self, target, threads)
        else:
            _decode(self._replace(bias=None), target, threads)
            _add(bias, target.reshape(*bias.shape, self.block_size))  # a view

    def taken(self, index: Any) -> Planar:
        """Return some outputs."""
        return _taken(self, index)


class Scaled(NamedTuple):
    """
    Codes with the scales of blocks: ``(code - zero_point) * scale``.

    Scales and zero points have the dimensions of the codes, with blocks in place of codes.
    Codes may have one dimension: the elements of the weight in C order.
    """

    codes: PackedArray | npt.NDArray[Any]
    shape: tuple[int, ...]
    scale: npt.NDArray[Any]
    blocks: tuple[int, ...]  # extents of a block
    zero_point: npt.NDArray[Any] | None = None
    codebook: npt.NDArray[np.float32] | None = None
    # A scale of all scales, and true if it is a divisor.
    tensor_scale: tuple[np.float32, bool] | None = None
    factor: np.float32 | None = None  # of rounded products
    rows: npt.NDArray[np.intp] | None = None  # if codes have one dimension

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

    def write(self, out: npt.NDArray[Any], threads: SupportsIndex) -> None:
        """Write the values."""
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
                block_size=self.blocks,
                codebook=self.codebook,
                out=out.reshape(self.codes.shape),
                threads=threads,
            )
        else:
            self._write_elements(out)

    def _write_elements(self, out: npt.NDArray[Any]) -> None:
        """Write the values of codes with one dimension to some rows, or to any strides."""
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
                    dtype=out.dtype,
                )
                to.flat[begin:end] = made[start + begin - first * size :][: end - begin]

    def taken(self, index: Any) -> Scaled:
        """Return some rows."""
        codes, (across, *_) = self.codes, self.blocks
        if codes.ndim < len(self.shape):
            return self._replace(rows=np.arange(self.shape[0])[index])
        if isinstance(codes, PackedArray):
            codes = _taken_codes(codes, index)
        else:
            codes = codes[index]
        given, blocks = (self.scale, self.zero_point), self.blocks
        if len(self.scale) > 1 or across == 1:
            numbers = np.arange(self.shape[0])[index] // across
            given = _each(given, index if across == 1 else numbers)
            blocks = (1, *blocks[1:])
        scale, zero = given
        shape = (len(codes), *self.shape[1:])
        return self._replace(
            codes=codes, shape=shape, scale=scale, blocks=blocks, zero_point=zero
        )


def _taken_codes(codes: PackedArray, index: Any) -> PackedArray:
    """Return some rows of codes that are packed along the last axis."""
    shape = codes.shape
    flat = codes.layout.axis is None
    data = codes.data.reshape(shape[0], -1) if flat else codes.data
    data = np.ascontiguousarray(data[index])
    form = (len(data), *shape[1:])
    data = data.reshape(-1) if flat else data
    return PackedArray(data, codes._name, form, layout=codes.layout)


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
    _tensors: dict[str, npt.NDArray[Any]]
    _each: tuple[Planar | Scaled, ...]  # a form for each expert
    _stacked: bool = False  # True if the first axis counts experts

    def __repr__(self) -> str:
        return (
            f"Weight(format={self.format!r}, shape={self.shape}, bits={self.bits}, "
            f"block_size={self.block_size})"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the weight: (outputs, inputs), or with experts as the first axis."""
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
        if len(self.shape) != 2:
            msg = f"weight: expected two dimensions, got shape {self.shape}"
            raise ValueError(msg)
        (made,) = self._each
        if isinstance(made, Scaled):
            msg = f"weight: expected codes with zero points or biases, got {self.format}"
            raise ValueError(msg)
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
            Arrays by the names of the format, which begin with `name` and a dot.

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
            Array for the result, of that shape and type. Any strides are allowed.
        threads : int, optional
            Largest number of threads. Default 1. The result does not depend on it.

        Returns
        -------
        ndarray
            Array of shape `shape`, with the selected rows only, or `out`.

        Raises
        ------
        TypeError, ValueError
            If an argument is wrong; `out` is unchanged.

        Notes
        -----
        Values are ``(code - zero_point) * scale``, rounded to float32 (to float64 for
        float64 results), then to `dtype`.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> x = np.arange(64, dtype=np.float32).reshape(2, 32) % 16
        >>> w = pq.weights.mlx.quantize(x, group_size=32)
        >>> w.dequantize([1])[:, :5]
        array([[0., 1., 2., 3., 4.]], dtype=float32)
        """
        kind, each, shape = real_of(dtype, out), self._each, self.shape
        count = _core.integer(threads, "threads", 1)
        if rows is not None:
            index = index_of(rows, shape, "weight", 2)
            numbers = np.arange(shape[0])[index]
            shape = (len(numbers), *shape[1:])
            if self._stacked:
                each = tuple(each[number] for number in numbers)
            else:
                each = (each[0].taken(index),)
        if out is not None:
            check_out(out, shape, kind)
            check_apart(out, *self._tensors.values())
            made = plain_out(out)
        elif self.inputs_axis == 0 and len(shape) > 1:
            made = np.empty((*shape[:-2], *shape[:-3:-1]), kind).swapaxes(-1, -2)
        else:
            made = np.empty(shape, kind)
        for one, place in zip(each, made if self._stacked else [made], strict=True):
            one.write(place, count)
        return made if out is None else out

    def linear(self) -> dict[str, Any]:
        """
        Return arguments of `pyquant.onnx.dequantize_linear`.

        Returns
        -------
        dict
            ``x`` (a `pyquant.PackedArray` of uint4 or uint2 in the layout of ONNX, or a
            uint8 array), ``x_scale``, ``x_zero_point``, ``axis`` and ``block_size``. The
            operator returns the type of the scales, with the values of `dequantize` for
            that type.

        Raises
        ------
        ValueError
            If the operator does not support the weight: codes of other widths, inputs out
            of the order of their groups, or biases.

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
        check_width(made, (2, 4, 8), "DequantizeLinear")
        refuse_bias(made, "DequantizeLinear")
        refuse_groups(made, "DequantizeLinear")
        single = made.bits == 8
        codes: Any = made.codes
        if not isinstance(codes, (PackedArray, np.ndarray)) or codes.shape != made.shape:
            words = repacked(made, axis=made.axis, along=1)
            layout = Layout("words", bits=made.bits)
            codes = PackedArray(words, "uint8", made.shape, layout=layout)
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
        TypeError
            If `name` is not a string.
        ValueError
            If the format cannot store the weight: codes of other widths, groups that do not
            fill blocks, zero points other than 8 (Q8_0: 128; Q4_1: 0), or scales beyond
            float16.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> x = np.arange(32, dtype=np.float32).reshape(1, 32) % 16 - 8
        >>> w = pq.weights.compressed_tensors.quantize(x, group_size=32)
        >>> q4_0 = pq.weights.blocks.block_format("Q4_0")
        >>> q4_0.dequantize(w.blocks("Q4_0"))[:, :4] - w.dequantize()[:, :4]
        array([[0., 0., 0., 0.]], dtype=float32)
        """
        name = one_of(name, "name", tuple(_BLOCKS))
        bits, zero = _BLOCKS[name]
        made = self._planar
        if len(made.shape) != 2:
            msg = f"weight: expected two dimensions, got shape {made.shape}"
            raise ValueError(msg)
        check_width(made, (bits,), name)
        refuse_groups(made, name)
        fmt = block_format(name)
        size = fmt.block_size
        if made.inputs % size or made.block_size % size:
            msg = (
                f"weight: expected groups of a multiple of {size} inputs for {name}, got "
                f"{made.block_size} of {made.inputs}"
            )
            raise ValueError(msg)
        scale, zeros = along(made, 1)
        if (zeros != zero).any():
            got = zeros[zeros != zero][0]
            msg = f"weight: expected zero points {zero} for {name}, got {got}"
            raise ValueError(msg)
        times = made.block_size // size
        rows, blocks = made.outputs, made.inputs // size
        parts: dict[str, Any] = {"d": _halves(scale, name, times)[:, :blocks]}
        if name == "Q4_1":
            bias = made.scale * 0 if made.bias is None else made.bias
            bias = bias.T if made.axis == 0 else bias
            parts["m"] = _halves(bias, name, times)[:, :blocks]
        else:
            refuse_bias(made, name)
        if bits == 8:
            codes = repacked(made, axis=1, along=1).view(np.uint8) ^ np.uint8(0x80)
            parts["qs"] = codes.reshape(rows, blocks, size).view(np.int8)
        else:
            codes = repacked(made, axis=1, along=1, layout="halves")
            parts["qs"] = codes.reshape(rows, blocks, size // 2)
        return fmt.join(**parts)


# ---- values ----


def _halves(numbers: npt.NDArray[Any], name: str, times: int) -> npt.NDArray[np.float16]:
    """Return scales as blocks store them."""
    with np.errstate(all="ignore"):
        made = numbers.astype(np.float16)
    wrong = made.astype(numbers.dtype) != numbers
    if wrong.any():
        got = numbers[wrong][0]
        msg = f"weight: expected scales that float16 holds for {name}, got {got}"
        raise ValueError(msg)
    return np.repeat(made, times, 1)


def real_of(dtype: npt.DTypeLike | None, out: object) -> np.dtype[Any]:
    """Return a type of real numbers, perhaps from ml_dtypes."""
    if dtype is not None:
        which, name, got = "dtype", requested(dtype), shown(dtype)
    elif isinstance(out, np.ndarray):
        which, name, got = "out", dtypes.name_of(out.dtype), str(out.dtype)
    else:
        which, name, got = "out", "float32", ""
    if name not in REAL:
        end = hint_of_type(dtype, REAL)
        msg = f"{which}: expected float32, float64, float16 or bfloat16, got {got:.60}{end}"
        raise TypeError(msg)
    made: np.dtype[Any] = _core.dtype_named(name)
    return made


def check_out(out: object, shape: tuple[int, ...], kind: np.dtype[Any]) -> None:
    if not isinstance(out, np.ndarray):
        msg = f"out: expected an array, got {type(out).__name__}"
        raise TypeError(msg)
    if dtypes.name_of(out.dtype) != kind.name:
        msg = f"out: expected {kind}, got {out.dtype}"
        raise TypeError(msg)
    if out.shape != shape:
        msg = f"out: expected shape {shape}, got {out.shape}"
        raise ValueError(msg)
    if not out.flags.writeable:
        msg = "out: expected a writeable array, got a read-only one"
        raise ValueError(msg)
    plain_out(out)


@_core.default_fpenv
def _multiply(
    room: npt.NDArray[np.float32], factor: np.float32, out: npt.NDArray[Any]
) -> None:
    with np.errstate(all="ignore"):
        out[...] = np.multiply(room, factor, out=room)


@_core.default_fpenv
def _add(bias: npt.NDArray[Any], groups: npt.NDArray[Any]) -> None:
    with np.errstate(all="ignore"):
        np.add(groups, bias[..., np.newaxis], out=groups)


def _decode(made: Planar, target: npt.NDArray[Any], threads: SupportsIndex) -> None:
    """Write the values in the order of the codes."""
    codes: Any = made.codes
    if made.is_plain:
        _core.dequantize(
            codes,
            made.scale,
            made.zero_point,
            axis=made.axis,
            block_size=made.block_size,
            offset=made.bias,
            out=target,
            threads=threads,
        )
        return
    for one in made:
        memory = one.data if isinstance(one, PackedArray) else getattr(one, "words", one)
        if isinstance(memory, np.ndarray):
            check_apart(target, memory)
    made = made._replace(zero_point=_settled(made))
    room: npt.NDArray[Any] | None = None
    for part in _parts(made):
        piece = made.codes[part]
        to = target[part]
        if piece.shape != to.shape:
            if room is None:
                room = np.empty(piece.shape, target.dtype)
            to = room[: piece.shape[0]]
        scale, zero, bias, how = _parameters_of(made, part, piece.shape[made.axis])
        _core.dequantize(piece, scale, zero, offset=bias, out=to, threads=threads, **how)
        if room is not None:
            target[part] = to[:, : made.inputs]


def _settled(made: Planar) -> npt.NDArray[np.uint8] | int:
    zero = made.zero_point
    return small_codes(zero) if isinstance(zero, PackedArray) else zero


def _parts(made: Planar) -> Iterator[slice]:
    """Return ranges of rows that begin at words."""
    rows, extent = made.codes.shape
    step = max(_WORD, _TILE // max(extent, 1) // _WORD * _WORD)
    for first in range(0, rows, step):
        yield slice(first, min(first + step, rows))


def _parameters_of(
    made: Planar, part: slice, inputs: int
) -> tuple[npt.NDArray[Any], Any, Any, dict[str, Any]]:
    """Return scales, zero points, biases and granularity of some rows of codes."""
    given = (made.scale, made.zero_point, made.bias)
    groups = made.groups
    if made.axis == 1:
        given = _each(given, part)
        if groups is None:
            return (*given, {"axis": 1, "block_size": made.block_size})
        return (*_each(given, (slice(None), _filled(groups, inputs))), {"axis": (0, 1)})
    if groups is None:
        chosen = np.arange(part.start, part.stop) // made.block_size
    else:
        chosen = groups[part]
    return (*_each(given, chosen), {"axis": (0, 1)})


def _each(given: Any, place: Any) -> Any:
    return tuple(one[place] if isinstance(one, np.ndarray) else one for one in given)


def _filled(groups: npt.NDArray[np.int64], inputs: int) -> npt.NDArray[np.int64]:
    """Assign any group to codes without an input."""
    return np.concatenate([groups, np.zeros(inputs - groups.size, np.int64)])


def _taken(made: Planar, index: Any) -> Planar:
    """Return some outputs of a weight."""
    across = 0 if made.axis else 1
    place = index if across == 0 else (slice(None), index)
    codes: Any = made.codes
    if not isinstance(codes, PackedArray):
        codes = codes[place] if isinstance(codes, np.ndarray) else codes.taken(index)
    else:
        numbers = np.arange(made.shape[across])[index]
        each = 1
        if codes.layout.axis == across:  # words of several outputs
            each = _WORD // made.bits
            words, where = np.unique(numbers // each, return_inverse=True)
            place = words if across == 0 else (slice(None), words)
            numbers = where * each + numbers % each
        data = np.ascontiguousarray(codes.data[place])
        shape = list(codes.shape)
        shape[across] = data.shape[across] * each
        codes = PackedArray(data, "uint8", tuple(shape), layout=codes.layout)
        if each > 1:
            codes = unpack(codes)[numbers if across == 0 else (slice(None), numbers)]
    place = index if across == 0 else (slice(None), index)
    given = (made.scale, _settled(made), made.bias)
    scale, zero, bias = _each(given, place)
    return made._replace(codes=codes, scale=scale, zero_point=zero, bias=bias)


# ---- formats ----


def joined(name: str, key: str, tensors: Collection[str] = ()) -> str:
    """Return the name of a tensor of a weight, from the name of the weight or its layer."""
    layer = "" if name == "weight" else name.removesuffix(".weight")
    full = f"{layer}.{key}" if layer else key
    short = f"{name}{key.removeprefix('weight')}"  # of a tensor that is no layer's "weight"
    return short if full not in tensors and short in tensors else full


def tensor_of(tensors: object, name: object, key: str) -> Any:
    """Return a tensor of a weight; `None` if it is missing or an argument is wrong."""
    if not isinstance(tensors, Mapping) or not isinstance(name, str):
        return None
    return tensors.get(joined(name, key, tensors))


def by_name(names: tuple[str, ...], *arrays: Any) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays by their names, without None."""
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
        Default: the tensors have the names of the format, such as "qweight".
    format : str, optional
        Name of a format, see `convert`. Default: the only format with tensors of these
        names, types and shapes.
    **options
        Arguments of ``from_tensors`` in the module of the format, such as `group_size`.

    Returns
    -------
    Weight
        The weight. It refers to the arrays.

    Raises
    ------
    TypeError, ValueError
        If an argument or a tensor is wrong, or if several formats are possible.

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
    how: dict[str, str] = {}
    if format is not None:
        module, how = _module_of(format, FORMATS)
    else:
        module = import_module(f"pyquant.weights.{_module_in(tensors, name)}")
    made: Weight = module.from_tensors(tensors, name, **how, **options)
    return made


def _module_in(tensors: Mapping[str, Any], name: str) -> str:
    """Return the module that reads a weight."""
    found = _published.find_one(tensors, name)
    formats = [one for each in found for one in each.formats]
    modules = [*dict.fromkeys(FORMATS.get(one, one) for one in formats)]
    if len(modules) == 1 and modules[0] in FORMATS.values():
        return modules[0]
    if len(modules) == 1:
        raise ValueError(
            f"name: expected a weight to read, use pyquant.weights.{modules[0]}"
        )
    if modules:
        some = listed(map(repr, formats))
        raise ValueError(f"format: expected {some}, which all fit, got None")
    if found:
        raise ValueError(f"name: expected a weight that pyquant reads; {found[0].fault}")
    known = [one.name for one in _published.find(tensors) if one.formats]
    some = listed([*map(repr, known[:4])] or ["the name of a weight in a known format"])
    end = hint(name, known[4:], show=repr)
    raise ValueError(f"name: expected {some}, got {name!r:.100}{end}")


def convert(
    weight: Weight | tuple[BlockFormat, npt.NDArray[np.uint8]],
    format: str,
    **options: Any,
) -> Weight:
    """
    Convert a weight to another format without loss.

    Parameters
    ----------
    weight : Weight or tuple
        A weight; or a GGUF format, Q4_0, Q4_1 or Q8_0, and the uint8 bytes of its blocks,
        with a row for each output.
    format : str
        Format of the result: "awq", "compressed_tensors", "gptq", "gptq_v2", "gptq_p",
        "matmulnbits" or "mlx".
    **options
        "gptq": ``wrap=True`` stores a zero point of 0 as ``2**bits - 1``, else an error.
        "mlx": `group_size`, 32, 64 or 128. "matmulnbits": `block_size`, a power of two from
        16. Both must divide the groups of `weight`; the default is the largest.

    Returns
    -------
    Weight
        A weight with equal float32 values; "mlx" does not keep the sign of 0. Scales keep
        their type.

    Raises
    ------
    TypeError, ValueError
        If the format cannot store the weight: codes of other widths, extents that do not
        fill words, or biases. "awq" and "mlx" also cannot store a short last group, or
        inputs out of the order of their groups. "mlx" stores biases in the type of the
        scales, and groups of a multiple of 32 inputs.

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
    """Return the module of a format, and its argument `format` if it has one."""
    name = one_of(format, "format", tuple(known))
    module = import_module(f"pyquant.weights.{FORMATS[name]}")
    several = list(FORMATS.values()).count(FORMATS[name]) > 1
    return module, {"format": name} if several else {}


def make(
    read: Callable[..., tuple[str, dict[str, npt.NDArray[Any]], Planar | Scaled]],
    tensors: Mapping[str, Any],
    name: str,
    needed: tuple[str, ...],
    rest: tuple[str, ...] = (),
    names: Mapping[str, str] | None = None,
    *,
    stacks: bool = True,
) -> Weight:
    """Return a weight from tensors, or from tensors of experts along a first axis of three.

    `read` returns the format, the checked tensors and the form of a weight. If `stacks` is
    false, it reads arrays of any dimensions. `names` are unusual names of tensors by key.
    """
    if not isinstance(tensors, Mapping):
        got = type(tensors).__name__
        raise TypeError(f"tensors: expected a mapping of names to arrays, got {got}")
    if not isinstance(name, str):
        raise TypeError(f"name: expected a string, got {type(name).__name__}")
    usual = {key: joined(name, key, tensors) for key in (*needed, *rest)}
    names = {**usual, **(names or {})}
    missing = [names[key] for key in needed if names[key] not in tensors]
    if missing:
        got = listed([*map(str, tensors)][:4]) if tensors else "none"
        raise ValueError(f"tensors: expected {missing[0]}, got {got:.200}")
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
            raise ValueError(f"{key}: expected {some}, got shape {one.shape}")
    each = [
        read(**{key: one[expert] for key, one in given.items()})
        for expert in range(experts)
    ]
    return Weight(each[0][0], given, tuple(made for *_, made in each), True)


# ---- words ----


def repacked(
    made: Planar,
    *,
    axis: int,
    along: int,
    layout: str = "words",
    columns: int | None = None,
) -> npt.NDArray[Any]:
    """Return words of the codes with the inputs along `axis`, packed along `along`.

    `columns` may exceed the number that the codes need.
    """
    if len(made.shape) != 2:
        msg = f"weight: expected two dimensions, got shape {made.shape}"
        raise ValueError(msg)
    turned = axis != made.axis
    row = LAYOUTS[layout]
    shape = made.shape[::-1] if turned else made.shape
    rows, needed = row.shape(shape, along, made.bits)
    words = np.zeros((rows, columns or needed), row.words[0])
    target = words.T if turned else words  # in the order of the source codes
    here = 1 - along if turned else along
    to = Layout(layout, axis=here, bits=made.bits)
    for part in _parts(made):
        piece = made.codes[part]
        if isinstance(piece, PackedArray):
            some = piece.repack(to).data
        else:
            some = pack(piece, to).data
        first = row.length(part.start, made.bits) if here == 0 else part.start
        place = target[first : first + some.shape[0], : some.shape[1]]
        place[...] = some[:, : place.shape[1]]
    if made.codes.shape[made.axis] != made.inputs and axis == along == 1:
        words[:, needed:] = 0
        rest = made.inputs * made.bits % _WORD
        if rest:
            words[:, needed - 1] &= np.int32((1 << rest) - 1)
    return words


def small_codes(packed: PackedArray) -> npt.NDArray[np.uint8]:
    """Unpack a few codes to bytes, without ml_dtypes."""
    return _core.dequantize(packed, 1.0).astype(np.uint8)


def zero_codes(made: Planar) -> npt.NDArray[np.uint8]:
    """Return zero points with the shape of the scales."""
    zero = made.zero_point
    if isinstance(zero, PackedArray):
        return small_codes(zero)
    return np.broadcast_to(np.asarray(zero, np.uint8), made.scale.shape)


def planar_of(weight: Weight | tuple[BlockFormat, npt.NDArray[np.uint8]]) -> Planar:
    """Return the common form of a weight of a module or of GGUF blocks."""
    if isinstance(weight, Weight):
        return weight._planar
    if isinstance(weight, tuple) and len(weight) == 2:
        block, b = weight
        if isinstance(block, BlockFormat):
            return _of_blocks(block, b)
    msg = (
        "weight: expected a weights.Weight, or a tuple of a block format and blocks, "
        f"got {type(weight).__name__}"
    )
    raise TypeError(msg)


def _of_blocks(made: BlockFormat, b: Any) -> Planar:
    if made.name not in _BLOCKS:
        msg = f"weight: expected blocks of {listed(_BLOCKS)}, got {made.name}"
        raise ValueError(msg)
    given = array_of(b, "weight", ("uint8",))
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
    size, m = made.block_size, parts.get("m")
    return Planar(codes, bits, 1, inputs, parts["d"], zero, size, None, m)


def check_width(made: Planar, widths: tuple[int, ...], target: str) -> None:
    if made.bits not in widths:
        some = listed(map(str, widths))
        msg = f"weight: expected codes of {some} bits for {target}, got {made.bits}"
        raise ValueError(msg)


def check_codes(array: npt.NDArray[np.uint8], name: str, bits: int) -> None:
    """Raise an error for codes with more bits."""
    most = (1 << bits) - 1
    if array.size and array.max() > most:
        place = np.unravel_index(int(array.argmax()), array.shape)
        got = array[place]
        msg = f"{name}: expected integers from 0 to {most}, got {got} at {_shown(place)}"
        raise ValueError(msg)


def _shown(place: Any) -> tuple[int, ...]:
    return tuple(map(int, place))


def refuse_bias(made: Planar, target: str) -> None:
    if made.bias is not None:
        msg = f"weight: expected no biases or float zero points for {target}, got some"
        raise ValueError(msg)


def refuse_groups(made: Planar, target: str) -> None:
    if made.groups is None:
        return
    place = int(np.argmax(made.groups != np.arange(made.inputs) // made.block_size))
    msg = (
        f"weight: expected inputs in the order of their groups for {target}, "
        f"got group {made.groups[place]} for input {place}"
    )
    raise ValueError(msg)


# ---- arguments of formats ----


def one_of(value: object, name: str, choices: tuple[Any, ...]) -> Any:
    """Return the choice that equals a value."""
    if isinstance(choices[0], int):
        with suppress(TypeError):
            value = _core.index(value)  # type: ignore[arg-type]
    for one in choices:
        if type(value) is not bool and isinstance(value, type(one)) and value == one:
            return one
    some = listed(map(repr, choices))
    kind: type[Exception] = ValueError
    if not isinstance(value, type(choices[0])) or isinstance(value, bool):
        kind = TypeError
    end = hint(value, [one for one in choices if isinstance(one, str)])
    raise kind(f"{name}: expected {some}, got {shown(value):.60}{end}")


def flag_of(value: object, name: str) -> bool:
    if not isinstance(value, (bool, np.bool)):
        msg = f"{name}: expected True or False, got {type(value).__name__}"
        raise TypeError(msg)
    return bool(value)


def array_of(value: Any, name: str, types: tuple[str, ...]) -> npt.NDArray[Any]:
    """Return an array with one of the named types."""
    array: npt.NDArray[Any] = _core.plain(value, name)
    if dtypes.name_of(array.dtype) not in types or _core.is_masked(array):
        got = "a masked array" if _core.is_masked(array) else dtypes.described(array)
        msg = f"{name}: expected {listed(types)}, got {got}"
        raise TypeError(msg)
    return array


def numbers_of(value: Any, name: str) -> npt.NDArray[Any]:
    """Return scales or biases."""
    return array_of(value, name, REALS)


def reals_of(value: Any, name: str) -> npt.NDArray[Any]:
    """Return real numbers to quantize."""
    return array_of(_core.as_reals(value, name), name, ("float64", *REALS))


def refuse_nonfinite(array: npt.NDArray[Any], name: str) -> None:
    """Raise an error about the first value that is not finite, if any."""
    try:
        _core.extrema(array, tuple(max(1, n) for n in array.shape))
    except ValueError as error:
        msg = f"{name}: {str(error).partition(': ')[2]}"
        raise ValueError(msg) from None


def bytes_of(value: Any, name: str) -> npt.NDArray[np.uint8]:
    """Return bytes in C order."""
    return np.ascontiguousarray(array_of(value, name, ("uint8",)))


def scales_of(value: Any, name: str, dtype: str) -> npt.NDArray[Any]:
    """Return scales of a type, or of its bytes."""
    array: npt.NDArray[Any] = _core.plain(value, name)
    kind: np.dtype[Any] = _core.dtype_named(dtype)
    if array.dtype not in (kind, np.uint8):
        got = dtypes.described(array)
        raise TypeError(f"{name}: expected {dtype}, or its bytes, got {got}")
    return array.view(kind)


def elements_of(value: Any, name: str, types: tuple[str, ...]) -> Any:
    """Return elements of one of the types. Integers hold two float4_e2m1fn in a byte."""
    array = array_of(value, name, (*types, "uint8", "int8", "int32"))
    if array.ndim == 0:
        raise ValueError(f"{name}: expected at least one dimension, got shape ()")
    if array.dtype.kind not in "iu":
        return array
    data = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).view(np.uint8)
    shape = (*data.shape[:-1], data.shape[-1] * 2)
    return PackedArray(data.reshape(-1), "float4_e2m1fn", shape)


def word_array(value: Any, name: str) -> npt.NDArray[np.int32]:
    """Return little-endian 32-bit words in C order, for `PackedArray`."""
    array = array_of(value, name, ("int32", "uint32"))
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(array).view("<i4")


def check_shape(
    array: npt.NDArray[Any], name: str, wanted: tuple[int, ...], what: str = ""
) -> None:
    if array.shape != wanted:
        msg = f"{name}: expected shape {wanted}{what}, got {array.shape}"
        raise ValueError(msg)


def matrix_of(array: npt.NDArray[Any], name: str) -> tuple[int, int]:
    """Return the extents of a matrix."""
    if array.ndim != 2:
        msg = f"{name}: expected two dimensions, got shape {array.shape}"
        raise ValueError(msg)
    rows, columns = array.shape
    return rows, columns


def blocks_of(
    inputs: int,
    groups: int,
    group_size: SupportsIndex | None,
    name: str,
    order: npt.NDArray[np.int32] | None = None,
    *,
    even: bool = False,
) -> int:
    """Return the number of inputs in a group, if all arguments together determine it.

    If `order` mixes groups, the result does not affect values. If `even` is true, a power
    of two is not certain beside another size that makes equal groups.
    """
    if group_size is not None:
        size = _core.integer(group_size, "group_size", 1, LARGEST)
        if order is None and -(-inputs // size) != groups:
            msg = (
                f"{name}: expected {-(-inputs // size)} groups of {size} for {inputs} "
                f"inputs, got {groups}"
            )
            raise ValueError(msg)
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
        msg = (
            f"{name}: expected groups of one size for {inputs} inputs, got {groups} groups"
        )
        raise ValueError(msg)
    msg = (
        f"group_size: expected {_published.listed(sizes)}, which all make {groups} groups "
        f"of {inputs} inputs, got None"
    )
    raise ValueError(msg)


def order_of(
    g_idx: ArrayLike | None, name: str, inputs: int, groups: int
) -> npt.NDArray[np.int32] | None:
    """Return the given group of each input, or `None` for ordered groups.

    -1 for all inputs means ordered groups.
    """
    if g_idx is None:
        return None
    array = array_of(g_idx, name, ("int32", "int64"))
    check_shape(array, name, (inputs,))
    if inputs and (array == -1).all():
        return None
    wrong = np.flatnonzero((array < 0) | (array >= groups))
    if wrong.size:
        place = int(wrong[0])
        msg = (
            f"{name}: expected groups from 0 to {groups - 1}, or -1 for all inputs, got "
            f"{array[place]} at ({place},)"
        )
        raise ValueError(msg)
    return array.astype(np.int32)


def groups_of(
    order: npt.NDArray[np.int32] | None, groups: int, size: int
) -> npt.NDArray[np.int64] | None:
    """Return the group of each input, or `None` for ordered groups of one size."""
    if order is None or (
        -(-order.size // size) == groups
        and np.array_equal(order, np.arange(order.size) // size)
    ):
        return None
    return order.astype(np.int64)


# ---- parts of formats ----


def integers_of(value: Any, name: str, bits: int) -> npt.NDArray[np.uint8]:
    """Return zero points of any integer type within a width."""
    array: npt.NDArray[Any] = _core.plain(value, name)
    if array.dtype.kind not in "iu" or _core.is_masked(array):
        got = "a masked array" if _core.is_masked(array) else dtypes.described(array)
        msg = f"{name}: expected integers, got {got}"
        raise TypeError(msg)
    for one in (array.min(initial=0), array.max(initial=0)):
        if not 0 <= one < 1 << bits:
            msg = f"{name}: expected integers from 0 to {(1 << bits) - 1}, got {one}"
            raise ValueError(msg)
    return array.astype(np.uint8)


def words_by(
    x: Any,
    scale: npt.NDArray[Any],
    zero: npt.NDArray[np.uint8],
    bits: int,
    size: int,
    groups: npt.NDArray[np.int64] | None,
    layout: str,
    along: int,
    threads: SupportsIndex,
) -> npt.NDArray[Any]:
    """
    Quantize values with the inputs along the first axis to words of codes.

    ``(x + zero * scale) / scale``, each step rounded, then half to even, like the packing
    of GPTQ and AWQ.
    """
    with np.errstate(all="ignore"):
        offset = -np.multiply(zero, scale, dtype=np.float32)
    given = (scale, offset)
    how: dict[str, Any] = {"dtype": "uint8", "threads": threads}
    how["layout"] = Layout(layout, axis=along, bits=bits)
    if groups is None:
        codes: PackedArray = _core.quantize(
            x, scale, offset=offset, axis=0, block_size=size, **how
        )
        return codes.data
    row = LAYOUTS[layout]
    words = np.empty(row.shape(x.shape, along, bits), row.words[0])
    made = Planar(x, bits, 0, x.shape[0], scale, 0, size)
    for part in _parts(made):
        some, shift = _each(given, groups[part])
        codes = _core.quantize(x[part], some, offset=shift, axis=(0, 1), **how)
        first = row.length(part.start, bits) if along == 0 else part.start
        words[first : first + codes.data.shape[0]] = codes.data
    return words


def dense(codes: Any, bits: int, layout: str, along: int) -> npt.NDArray[np.int32]:
    """Pack a few codes to words."""
    made: npt.NDArray[np.int32] = pack(
        np.ascontiguousarray(codes), Layout(layout, axis=along, bits=bits)
    ).data
    return made


def along(made: Planar, axis: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Return scales and zero points with groups along an axis."""
    each = (made.scale, zero_codes(made))
    turned = made.axis != axis
    scale, zeros = (np.ascontiguousarray(one.T if turned else one) for one in each)
    return scale, zeros


def refuse_uneven(made: Planar, target: str) -> None:
    """Raise an error for groups of different sizes."""
    groups = made.scale.shape[made.axis]
    if -(-made.inputs // made.block_size) != groups:
        msg = (
            f"weight: expected as many groups as {made.block_size} inputs each make of "
            f"{made.inputs} for {target}, got {groups}"
        )
        raise ValueError(msg)


def refuse_short(made: Planar, target: str) -> None:
    if made.inputs % made.block_size:
        msg = (
            f"weight: expected inputs that groups of {made.block_size} divide for "
            f"{target}, got {made.inputs}"
        )
        raise ValueError(msg)


def check_whole(extent: int, bits: int, name: str, what: str, target: str) -> None:
    """Raise an error if codes do not fill their words."""
    least = _WORD // gcd(_WORD, bits)
    if extent % least:
        msg = f"{name}: expected {what} that {least} divides for {target}, got {extent}"
        raise ValueError(msg)
