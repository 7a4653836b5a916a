# SPDX-License-Identifier: Apache-2.0
"""What becomes of each tensor, before any of them is read, and how it is done in bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import lcm, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyquant import Observer, __version__, _core, _gguf, _safetensors, choose_qparams
from pyquant._planar import dense
from pyquant.cli._errors import Refused
from pyquant.cli._forms import (
    BLOCKS,
    Granularity,
    Stored,
    named_parts,
    scale_shape,
    stored_as,
)
from pyquant.cli._write import Output, Part
from pyquant.files import Weight

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant.cli._logical import Logical
    from pyquant.cli._models import Model, ModelTensor
    from pyquant.qparams import QParams

__all__ = [
    "NUMPY",
    "Job",
    "Spec",
    "bytes_of",
    "copied",
    "decoded",
    "objection",
    "parameters",
    "quantized",
]

# Elements of a band if there is memory for more: what caches hold.
BAND = 1 << 20


class Spec(NamedTuple):
    """What a tensor is to become."""

    type: str
    granularity: Granularity
    symmetric: bool | None
    method: str
    kind: str = "safetensors"

    @property
    def stored(self) -> Stored:
        """How its codes lie in a file."""
        return stored_as(self.type, self.kind)

    @property
    def has_zero_points(self) -> bool:
        """Whether codes are not symmetric around 0."""
        row = self.type.startswith("uint")
        return row if self.symmetric is None else not self.symmetric


class Job(NamedTuple):
    """
    A tensor, what becomes of it, and how.

    `do` takes the output, what says how far it has come, and how many threads there may
    be.
    """

    source: Logical
    spec: Spec | None
    parts: list[Part]
    do: Callable[[Output, Callable[[int], None], int], None]
    record: dict[str, Any] | None = None
    reason: str | None = None
    changed: str | None = None

    @property
    def to(self) -> str:
        """The type that it becomes."""
        return self.changed or (self.source.type if self.spec is None else self.spec.type)

    @property
    def granularity(self) -> str | None:
        """What shares a scale, afterwards."""
        if self.changed:
            return None
        if self.spec is None:
            return self.source.granularity
        block = BLOCKS.get(self.spec.type)
        return self.spec.granularity.text if block is None else f"block:{block.block_size}"

    @property
    def nbytes(self) -> int:
        """Of what is written."""
        return sum(part.nbytes for part in self.parts)


def objection(source: Logical, spec: Spec) -> str | None:
    """Why a tensor cannot become that: what was expected, and what it is."""
    if not source.is_real or (source.is_quantized and source.type not in BLOCKS):
        return f"expected real numbers, got {source.type}"
    if source.size == 0 or source.ndim == 0:
        return f"expected a dimension and elements, got shape {source.shape}"
    block, last = BLOCKS.get(spec.type), source.shape[-1]
    if block is not None:
        if last % block.block_size:
            expected = f"a last extent that is a multiple of {block.block_size}"
            return f"expected {expected} for {spec.type}, got shape {source.shape}"
        return None
    rows = spec.kind != "onnx"  # that are whole bytes
    if rows and spec.stored.how == "bytes" and last * spec.stored.bits % 8:
        return f"expected an even last extent for {spec.type}, got shape {source.shape}"
    return spec.granularity.objection(source.shape)


# ---- bands ----


class _Bands:
    """Rows of a tensor, as many at a time as memory is for, in one buffer."""

    def __init__(
        self,
        source: Logical,
        unit: int,
        memory: int,
        threads: int,
        real: str | None = None,
    ) -> None:
        self.source = source
        self.real = real or ("float64" if source.type == "float64" else "float32")
        self.dtype = _core.dtype_named(self.real)
        self.inner = prod(source.shape[1:])
        self.row_bytes = each = self.inner * self.dtype.itemsize
        count = source.shape[0]
        # Not more than threads have use for.
        useful = max(1, BAND * (1 if threads == 1 else 8 * threads) // max(1, self.inner))
        fitting = memory // 3 // max(1, each)
        rows = min(useful, fitting, count) // unit * unit
        if rows == 0:
            rows = min(unit, count)
        if rows > fitting:
            expected = f"--max-memory of at least {_sized(rows * each * 3)}"
            got = f"{_sized(memory)} for {rows} rows of {each} bytes that go together"
            raise Refused(f"tensor {source.name[:100]!r}: expected {expected}, got {got}")
        self.rows = rows

    def __call__(self, threads: int) -> Iterator[tuple[int, int, npt.NDArray[Any]]]:
        """The first row, the one behind the last, and the numbers."""
        buffer = np.empty((self.rows, *self.source.shape[1:]), self.dtype)
        count = self.source.shape[0]
        for a in range(0, count, self.rows):
            b = min(a + self.rows, count)
            part = buffer[: b - a]
            self.source.decode(slice(a, b), out=part, threads=threads)
            yield a, b, part


def _sized(nbytes: int) -> str:
    return f"{-(-nbytes // 1024)}K"


# ---- codes and scales ----


def quantized(source: Logical, spec: Spec, memory: int, threads: int) -> Job:
    """Make codes, and scales beside them; or blocks."""
    if spec.type in BLOCKS:
        return _in_blocks(source, spec, memory, threads)
    shape, stored = source.shape, spec.stored
    blocks = spec.granularity.blocks(shape)
    names = named_parts(source.name, stored)
    scales = scale_shape(shape, blocks)
    bands = _Bands(source, _unit(source, spec, blocks), memory, threads)
    # DequantizeLinear makes what its scales are.
    real = source.type if spec.kind == "onnx" else bands.real
    parts = {
        "codes": Part.of(names["codes"], stored.format, stored.shape_of(shape)),
        "scale": Part.of(names["scale"], real, scales),
    }
    if spec.has_zero_points:
        type, form = _zero_form(spec, scales, shape, blocks)
        parts["zero_point"] = Part.of(names["zero_point"], type, form)
    if stored.how == "words":
        parts["shape"] = Part.of(names["shape"], "int64", (len(shape),))

    def do(output: Output, advance: Callable[[int], None], threads: int) -> None:
        writer = _Writer(spec, shape, blocks, parts)  # and its buffer, as long as this
        for part in ("shape",) if "shape" in parts else ():
            output.write(parts[part].name, 0, np.array(shape, "<i8"))
        fixed = None
        if not _is_one_pass(shape, blocks, bands):
            fixed = _observed(bands, spec, len(shape), real, threads)
            writer.write_parameters(output, 0, shape[0], fixed)
        for a, b, numbers in bands(threads):
            chosen = fixed
            if chosen is None:
                chosen = _chosen(numbers, spec, real, threads)
                writer.write_parameters(output, a, b, chosen)
            writer.write_codes(output, a, chosen, numbers, threads)
            advance(numbers.size * source.nbytes // source.size)

    record = {
        "type": spec.type,
        "granularity": spec.granularity.text,
        "shape": list(shape),
        "rounding": "half_even",
        "symmetric": not spec.has_zero_points,
        "method": spec.method,
        "from": source.type,
        "version": __version__,
    }
    return Job(source, spec, list(parts.values()), do, record)


def _unit(source: Logical, spec: Spec, blocks: Sequence[int]) -> int:
    """Rows that go together: blocks of either file, words, and all where one pass over
    bands does not tell their parameters."""
    unit = _block_size(source) if source.ndim == 1 else 1
    each = 32 // spec.stored.bits
    if blocks[0] < source.shape[0]:
        unit = lcm(unit, blocks[0], each if spec.stored.how == "words" else 1)
        if spec.stored.how == "bytes":
            unit = lcm(unit, blocks[0] * 8 // spec.stored.bits)  # of zero points, too
    elif spec.method != "minmax" or "block_size" in spec.granularity.call(source.ndim):
        unit = source.shape[0]
    elif source.ndim == 1:
        unit = lcm(unit, each)
    elif spec.stored.how == "bytes":
        unit = lcm(unit, 8 // spec.stored.bits)
    return unit


def _is_one_pass(shape: tuple[int, ...], blocks: Sequence[int], bands: _Bands) -> bool:
    """Whether no scale is for rows of several bands."""
    return blocks[0] < shape[0] or bands.rows >= shape[0]


def _chosen(numbers: npt.NDArray[Any], spec: Spec, real: str, threads: int) -> QParams:
    how = spec.granularity.call(numbers.ndim)
    method: Any = spec.method
    return choose_qparams(
        numbers,
        dtype=spec.type,
        symmetric=spec.symmetric,
        method=method,
        scale_dtype=real,
        threads=threads,
        **how,
    )


def _observed(bands: _Bands, spec: Spec, ndim: int, real: str, threads: int) -> QParams:
    """Parameters by the extremes of all bands, which are those of the whole tensor."""
    observer = Observer(**spec.granularity.call(ndim))
    for _, _, numbers in bands(threads):
        observer.update(numbers, threads=threads)
    return observer.qparams(spec.type, symmetric=spec.symmetric, scale_dtype=real)


def parameters(source: Logical, spec: Spec) -> Iterator[QParams]:
    """Choose the parameters of a tensor, band by band, exactly as `quantized` does."""
    blocks = spec.granularity.blocks(source.shape)
    bands = _Bands(source, _unit(source, spec, blocks), 1 << 50, 1)
    if not _is_one_pass(source.shape, blocks, bands):
        yield _observed(bands, spec, source.ndim, bands.real, 1)
        return
    for _, _, numbers in bands(1):
        yield _chosen(numbers, spec, bands.real, 1)


def _zero_form(
    spec: Spec, scales: tuple[int, ...], shape: tuple[int, ...], blocks: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
    """Type and shape of the zero points: of words, packed along the outputs of a matrix
    where each of these has its own."""
    if spec.stored.how != "words":
        return spec.type, scales
    if len(shape) == 2 and blocks[0] == 1 and len(scales) == 2:
        return "int32", (-(-scales[0] * spec.stored.bits // 32), scales[1])
    return "int8", scales


class _Writer:
    """Writes bands of codes and of their parameters where these belong."""

    def __init__(
        self,
        spec: Spec,
        shape: tuple[int, ...],
        blocks: Sequence[int],
        parts: dict[str, Part],
    ) -> None:
        self.spec, self.shape, self.blocks, self.parts = spec, shape, blocks, parts
        self.form = tuple(-(-n // b) for n, b in zip(shape, blocks, strict=True))
        self.buffer: npt.NDArray[Any] | None = None

    def write_parameters(self, output: Output, a: int, b: int, chosen: QParams) -> None:
        first = a // self.blocks[0]
        count = -(-(b - first * self.blocks[0]) // self.blocks[0])
        scale = np.asarray(chosen.scale).reshape(count, *self.form[1:])
        self._write_rows(output, self.parts["scale"], first, scale)
        part = self.parts.get("zero_point")
        if part is None:
            return
        zero = np.asarray(chosen._zero_point).astype(np.int16)
        zero = np.broadcast_to(zero.reshape(zero.shape or 1), chosen.scale.shape or 1)
        zero = zero.reshape(scale.shape) + self.spec.stored.middle
        if part.type == "int32":
            bits = self.spec.stored.bits
            words = dense(zero.astype(np.uint8), bits, "words", 0)
            self._write_rows(output, part, first * bits // 32, words)
            return
        if self.spec.stored.how == "bytes":
            at = first * prod(self.form[1:]) * self.spec.stored.bits // 8
            codes = zero.astype(_core.dtype_named(part.type)).reshape(-1)
            output.write(part.name, at, _core.pack(codes, "onnx", None, None).data)
            return
        if self.spec.stored.how == "words":
            zero = zero - (1 << (self.spec.stored.bits - 1))
        self._write_rows(output, part, first, zero.astype(part.type))

    def _write_rows(
        self, output: Output, part: Part, first: int, rows: npt.NDArray[Any]
    ) -> None:
        each = rows.nbytes // max(1, len(rows))
        little = rows.dtype.newbyteorder("<")
        output.write(part.name, first * each, rows.astype(little, copy=False))

    def write_codes(
        self,
        output: Output,
        a: int,
        chosen: QParams,
        numbers: npt.NDArray[Any],
        threads: int,
    ) -> None:
        part, stored = self.parts["codes"], self.spec.stored
        codes = self._codes(chosen, numbers, threads)
        at = a * prod(self.shape[1:]) * stored.bits // 8
        if stored.how == "words" and len(self.shape) > 1:  # rows of whole words
            at = a * prod(part.shape[1:]) * 4
        output.write(part.name, at, codes)

    def _codes(
        self, chosen: QParams, numbers: npt.NDArray[Any], threads: int
    ) -> npt.NDArray[Any]:
        stored = self.spec.stored
        if stored.how == "plain":
            if self.buffer is None or len(self.buffer) < len(numbers):
                self.buffer = np.empty(numbers.shape, _core.dtype_named(stored.codes))
            out = self.buffer[: len(numbers)]
            return chosen.quantize(numbers, out=out, threads=threads)
        layout = "onnx" if stored.how == "bytes" else "words"
        packed = chosen.quantize(numbers, packed=layout, threads=threads).data
        if stored.middle:
            # To add it is to turn the highest bit of each code.
            pattern = sum(stored.middle << at for at in range(0, 32, stored.bits))
            packed = packed.view(np.uint32) ^ np.uint32(pattern)
            used = numbers.shape[-1] * stored.bits % 32
            if used:  # of the last word; bits that no code has are 0
                packed[..., -1] &= np.uint32((1 << used) - 1)
        return packed


def _in_blocks(source: Logical, spec: Spec, memory: int, threads: int) -> Job:
    block = BLOCKS[spec.type]
    shape = source.shape
    # Rows of a tensor of one axis are its elements.
    unit = lcm(block.block_size, _block_size(source)) if len(shape) == 1 else 1
    bands = _Bands(source, unit, memory, threads)
    nbytes = source.size // block.block_size * block.block_bytes
    part = Part(source.name, spec.type, shape, nbytes)

    def do(output: Output, advance: Callable[[int], None], threads: int) -> None:
        buffer = None
        for a, _, numbers in bands(threads):
            encoded = block.encoded_shape(numbers.shape)
            if buffer is None or buffer.shape != encoded:
                buffer = np.empty(encoded, np.uint8)
            block.encode(numbers, out=buffer, threads=threads)
            at = a * bands.inner // block.block_size * block.block_bytes
            output.write(part.name, at, buffer)
            advance(numbers.size * source.nbytes // source.size)

    return Job(source, spec, [part], do)


# ---- real numbers ----


def decoded(source: Logical, type: str, memory: int, threads: int) -> Job:
    """Make real numbers of a type."""
    part = Part.of(source.name, type, source.shape)
    bands = None
    if source.shape:
        unit = _block_size(source) if source.ndim == 1 else 1
        bands = _Bands(source, unit, memory, threads, type)

    def do(output: Output, advance: Callable[[int], None], threads: int) -> None:
        if bands is None:
            numbers = source.decode(dtype=_core.dtype_named(type))
            output.write(part.name, 0, _little(numbers))
            advance(source.nbytes)
            return
        for a, _, numbers in bands(threads):
            output.write(part.name, a * bands.row_bytes, _little(numbers))
            advance(numbers.size * source.nbytes // max(1, source.size))

    return Job(source, None, [part], do, changed=type)


def _block_size(source: Logical) -> int:
    from pyquant.blocks import block_formats

    sizes = {one.name: one.block_size for one in block_formats()}
    return sizes.get(source.type, 1)


def _little(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if numbers.dtype.byteorder == "=" and np.little_endian:
        return numbers
    width = f"u{min(numbers.dtype.itemsize, 8)}"
    return np.ascontiguousarray(numbers).view(width).astype(f"<{width}", copy=False)


# ---- as they are ----


def copied(source: Logical, model: Model, kind: str, reason: str | None) -> Job:
    """Take a tensor, all parts of it, as it is."""
    tensors = [model[name] for name in source.parts]
    parts = [_part_of(tensor, kind) for tensor in tensors]

    def do(output: Output, advance: Callable[[int], None], threads: int) -> None:
        for tensor, part in zip(tensors, parts, strict=True):
            at = 0
            for piece in bytes_of(tensor):
                output.write(part.name, at, piece)
                at += piece.nbytes
                advance(piece.nbytes)

    return Job(source, None, parts, do, reason=reason)


def _part_of(tensor: ModelTensor, kind: str) -> Part:
    """A tensor as another file has it, if that has such."""
    type = _core_name(tensor)
    known: Mapping[str, Any] | set[str] = {
        "safetensors": {*_safetensors.FORMATS, *_safetensors.FORMATS.values()},
        "gguf": {*_gguf.FORMATS, *(row for row in _GGUF_TYPES)},
        "npz": NUMPY,
        "npy": NUMPY,
        "onnx": {type},  # only what another model of ONNX has comes here
    }[kind]
    swapped = isinstance(tensor, Weight) and tensor._tensor.order == ">"
    if type not in known or (swapped and tensor.dtype is None):
        expected = f"a type that .{kind} files have"
        shown = f"tensor {tensor.name[:100]!r}"
        raise Refused(f"{shown}: expected {expected}, got {tensor.format}")
    return Part(tensor.name, type, tensor.shape, tensor.nbytes)


_GGUF_TYPES = tuple(_gguf._NAMES)
NUMPY = {
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64"),
}


def _core_name(tensor: ModelTensor) -> str:
    from pyquant.cli._logical import _type_of

    return _type_of(tensor)


_PIECE = 1 << 22


def bytes_of(tensor: ModelTensor) -> Iterator[npt.NDArray[np.uint8]]:
    """The bytes of a tensor, little-endian and in C order, a few at a time."""
    if isinstance(tensor, Weight) and tensor._tensor.order == "<":
        raw = tensor.raw
        for at in range(0, raw.size, _PIECE):
            piece = raw[at : at + _PIECE]
            yield piece
            start = tensor._tensor.start + at
            tensor._tensor.file.has_read(start, start + piece.size)
        return
    if not tensor.shape:
        yield _little(tensor.decode(dtype=tensor.dtype)).reshape(-1).view(np.uint8)
        return
    each = max(1, tensor.nbytes // max(1, tensor.shape[0]))
    step = max(1, _PIECE // each)
    for a in range(0, tensor.shape[0], step):
        rows = tensor.decode(slice(a, a + step), dtype=tensor.dtype)
        yield _little(rows).reshape(-1).view(np.uint8)
