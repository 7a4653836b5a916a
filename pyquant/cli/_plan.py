# SPDX-License-Identifier: Apache-2.0
"""Plan a job for each tensor before any data is read. Jobs process tensors in bands.

A band consists of consecutive rows. A row has the elements with one index of the first
axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import lcm, prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyquant import Observer, QParams, __version__, _core, choose_qparams, measure_error
from pyquant.cli._errors import Refused, fault
from pyquant.cli._forms import (
    BLOCKS,
    ONNX,
    STORED,
    Granularity,
    Stored,
    encoded,
    grid_of,
    named_parts,
)
from pyquant.cli._logical import _BLOCK_SIZES
from pyquant.cli._measure import NOTHING, decoded
from pyquant.cli._models import Other
from pyquant.cli._write import MEMBER, Output
from pyquant.weights import _gguf, _safetensors
from pyquant.weights._elements import Part, bfloat16_bits, copied_bytes, readable
from pyquant.weights._published import type_of
from pyquant.weights._weight import dense
from pyquant.weights.files import StoredTensor

if TYPE_CHECKING:
    from pyquant._typing import Array, Bytes
    from pyquant.cli._logical import Logical
    from pyquant.cli._models import Model
    from pyquant.report import ErrorReport
    from pyquant.weights.blocks import BlockFormat

BAND = 1 << 20  # usual number of elements in a band, which fits the cache
PIECE = 1 << 22  # number of bytes of a tensor that are copied at once
# Minimum shares of energy and of the largest value that blocks must keep, see `_Kept`.
LEAST = np.array([7 / 8, 3 / 4])
# NUMPY has the element types that .npy and .npz files can store. TYPES maps the kind of a
# file to the element types that the file can store.
NUMPY = {
    *("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"),
    *("float16", "float32", "float64", "complex64"),
}
TYPES: dict[str, set[str]] = {
    "safetensors": {*_safetensors.FORMATS, *_safetensors.FORMATS.values()},
    "gguf": {*_gguf.FORMATS, *_gguf._NAMES},
    "npz": NUMPY,
    "npy": NUMPY,
}


class Spec(NamedTuple):
    """How to quantize a tensor: type, granularity, method, and kind of the output file."""

    type: str
    granularity: Granularity
    symmetric: bool | None
    method: str
    kind: str = "safetensors"

    @property
    def stored(self) -> Stored:
        """A description of how the file stores the codes."""
        return (ONNX if self.kind == "onnx" else STORED)[self.type]

    @property
    def has_zero_points(self) -> bool:
        """True if the file stores zero points."""
        row = self.type.startswith("uint")
        return row if self.symmetric is None else not self.symmetric

    @lru_cache(maxsize=64)  # noqa: B019, many tensors share one object
    def for_axis(self, axis: int | None) -> Spec:
        """Return a copy for one tensor: replace granularity ``channel`` by ``axis:K``.

        If the axis is `None`, replace ``channel`` by ``tensor``.
        """
        if self.granularity.text != "channel":
            return self
        text = "tensor" if axis is None else f"axis:{axis}"
        return self._replace(granularity=Granularity(text))


@dataclass(slots=True, eq=False, repr=False)
class Job:
    """
    The task of writing one tensor of the output.

    `to` and `granularity` are the type and the granularity of the result. `reason` is the
    reason why the tensor is copied unchanged, or `None` for a tensor that changes. `sqnr`
    is the SQNR in dB. It is `None` before the tensor is written, and if the result has no
    error. A job stores few values, because a model has many tensors.
    """

    source: Logical
    to: str
    granularity: str | None
    reason: str | None = None
    sqnr: float | None = None

    @property
    def parts(self) -> list[Part]:
        """Descriptions of the tensors that the job writes."""
        raise NotImplementedError

    def do(self, output: Output, advance: Callable[[int], None], threads: int) -> None:
        """Write the tensors, and pass the numbers of bytes that were read to `advance`."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """Number of bytes of the result."""
        return sum(part.nbytes for part in self.parts)


def already(source: Logical) -> str:
    """Return the reason why a quantized tensor is not quantized again."""
    return f"the tensor is quantized already ({source.type}); use pyquant dequantize"


def objection(source: Logical, spec: Spec) -> str | None:
    """Return the reason why a tensor cannot be quantized, or `None`."""
    # In an ONNX model, a node of the graph decodes the codes already.
    decoded = source.type not in BLOCKS and spec.kind == "onnx"
    if source.is_quantized and decoded:
        return already(source)
    if not source.is_real:
        return f"expected real numbers, got {source.type}"
    if source.size == 0 or source.ndim == 0:
        return f"expected a dimension and elements, got shape {source.shape}"
    block, last = BLOCKS.get(spec.type), source.shape[-1]
    if block is not None:
        if last % block.block_size:
            expected = f"a last extent that is a multiple of {block.block_size}"
            return f"expected {expected} for {spec.type}, got shape {source.shape}"
        return None
    rows = spec.kind != "onnx"  # each row must fill bytes, except in ONNX models
    if rows and spec.stored.how == "bytes" and last * spec.stored.bits % 8:
        return f"expected an even last extent for {spec.type}, got shape {source.shape}"
    return spec.granularity.objection(source.shape)


# ---- bands ----


class _Banded(Job):
    """A job that reads real numbers in bands. `memory` limits the size of a band."""

    __slots__ = ("_memory",)

    def __init__(
        self, source: Logical, to: str, memory: int, threads: int, text: str | None = None
    ) -> None:
        super().__init__(source, to, text)
        self._memory = memory
        self._rows(threads)  # raises an error if the smallest band exceeds the memory

    @property
    def _real(self) -> str:
        """The type of the real numbers in a band."""
        return "float64" if self.source.type == "float64" else "float32"

    @property
    def _unit(self) -> int:
        """The number of rows in a band must be a multiple of this number."""
        return 1

    def _rows(self, threads: int) -> int:
        """Return the number of rows in a band."""
        source, unit = self.source, self._unit
        if source.ndim == 1:  # a row of a vector is an element
            unit = lcm(unit, _BLOCK_SIZES.get(source.type, 1))
        count, *others = source.shape or (1,)
        inner = prod(others)
        each = inner * _core.dtype_named(self._real).itemsize
        # With this number of rows, all threads have work. More rows would not be faster.
        useful = max(1, BAND * (1 if threads == 1 else 8 * threads) // max(1, inner))
        fitting = self._memory // 3 // max(1, each)
        rows = min(useful, fitting, count) // unit * unit
        if rows == 0:
            rows = min(unit, count)
        if rows > fitting:
            least, most = (f"{-(-n // 1024)}K" for n in (rows * each * 3, self._memory))
            expected = f"--max-memory of at least {least}"
            got = f"{most} for {rows} rows of {each} bytes that go together"
            raise fault(None, expected, got, source.name)
        return rows

    def _bands(
        self, threads: int, advance: Callable[[int], None] | None = None
    ) -> Iterator[tuple[slice | None, Array]]:
        """Yield bands like `decoded`. Pass the number of bytes read to `advance`."""
        source, count = self.source, self._rows(threads)
        for rows, band in decoded(source, self._real, count=count, threads=threads):
            yield rows, band
            if advance is not None:
                advance(band.size * source.nbytes // max(1, source.size))


# ---- codes and scales ----


class Quantized(_Banded):
    """A job that writes codes, scales and zero points.

    If `measure` is true, the job also measures the error.
    """

    __slots__ = ("_measure", "spec")

    def __init__(
        self, source: Logical, spec: Spec, memory: int, threads: int, *, measure: bool
    ) -> None:
        self.spec: Spec = spec
        self._measure = measure
        super().__init__(source, spec.type, memory, threads, spec.granularity.text)

    @property
    def _blocks(self) -> tuple[int, ...]:
        return self.spec.granularity.blocks(self.source.shape)

    @property
    def _unit(self) -> int:
        """The unit of the number of rows in a band.

        If parameters depend on all rows and cannot be computed band by band, the unit is
        the number of all rows.
        """
        spec, stored, rows = self.spec, self.spec.stored, self._blocks[0]
        source, each = self.source, 32 // stored.bits
        if rows < source.shape[0]:
            unit = lcm(rows, each if stored.how == "words" else 1)
            # The packed zero points of a band must also fill bytes.
            return lcm(unit, rows * 8 // stored.bits) if stored.how == "bytes" else unit
        if spec.method != "minmax" or "block_size" in spec.granularity.call(source.ndim):
            return source.shape[0]
        if source.ndim == 1:
            return each
        return 8 // stored.bits if stored.how == "bytes" else 1

    def _by_role(self) -> dict[str, Part]:
        source, spec, stored = self.source, self.spec, self.spec.stored
        shape, blocks = source.shape, self._blocks
        names = named_parts(source.name, stored)
        scales = grid_of(shape, blocks)
        scales = scales if prod(scales) != 1 else (1,)
        # In ONNX, the type of the scales is also the type of the decoded values.
        real = source.type if spec.kind == "onnx" else self._real
        parts = {
            "codes": Part.of(names["codes"], stored.format, stored.shape_of(shape)),
            "scale": Part.of(names["scale"], real, scales),
        }
        if spec.has_zero_points:
            type, form = _zero_form(spec, scales, shape, blocks)
            parts["zero_point"] = Part.of(names["zero_point"], type, form)
        if stored.how == "words":
            parts["shape"] = Part.of(names["shape"], "int64", (len(shape),))
        return parts

    @property
    def parts(self) -> list[Part]:
        return [*self._by_role().values()]

    @property
    def record(self) -> dict[str, Any]:
        """The record that describes the tensor in the metadata of the file."""
        return {
            "type": self.spec.type,
            "granularity": self.spec.granularity.text,
            "shape": list(self.source.shape),
            "rounding": "half_even",
            "symmetric": not self.spec.has_zero_points,
            "method": self.spec.method,
            "from": self.source.type,
            "version": __version__,
        }

    def chosen(self, real: str, threads: int) -> QParams | None:
        """Choose the parameters from the extremes of all bands.

        Return `None` if bands do not share scales, or if there is only one band.
        """
        spec, extent = self.spec, self.source.shape[0]
        if self._blocks[0] < extent or self._rows(threads) >= extent:
            return None
        observer = Observer(**spec.granularity.call(self.source.ndim))
        for _, numbers in self._bands(threads):
            observer.update(numbers, threads=threads)
        return observer.qparams(spec.type, symmetric=spec.symmetric, scale_dtype=real)

    def chosen_for(self, numbers: Array, real: str, threads: int) -> QParams:
        """Choose the parameters of a band from its values."""
        spec = self.spec
        how: dict[str, Any] = {"method": spec.method, "symmetric": spec.symmetric}
        how |= spec.granularity.call(numbers.ndim)
        return choose_qparams(
            numbers, dtype=spec.type, scale_dtype=real, threads=threads, **how
        )

    def do(self, output: Output, advance: Callable[[int], None], threads: int) -> None:
        stored, parts, report = self.spec.stored, self._by_role(), NOTHING
        real = parts["scale"].format
        if "shape" in parts:
            output.write(parts["shape"].name, np.array(self.source.shape, np.int64))
        layout = {"bytes": "onnx", "words": "words"}.get(stored.how)
        common = self.chosen(real, threads)
        if common is not None:
            common = _stored(common, stored)
            _write_parameters(output, self.spec, parts, common)
        for _, numbers in self._bands(threads, advance):
            chosen = common
            if chosen is None:
                chosen = _stored(self.chosen_for(numbers, real, threads), stored)
                _write_parameters(output, self.spec, parts, chosen)
            codes: Any = chosen.quantize(numbers, layout=layout, threads=threads)
            if self._measure:
                y = chosen.dequantize(codes, out=np.empty_like(numbers), threads=threads)
                report += measure_error(numbers, y, threads=threads)
            output.write(parts["codes"].name, codes.data if layout else codes)
        self.sqnr = report.sqnr if report.max_error > 0 else None


def parameters(source: Logical, spec: Spec) -> Iterator[QParams]:
    """Yield the parameters of a tensor band by band, exactly as `Quantized` chooses."""
    job = Quantized(source, spec, 1 << 50, 1, measure=False)
    common = job.chosen(job._real, 1)
    if common is not None:
        yield common
        return
    for _, numbers in job._bands(1):
        yield job.chosen_for(numbers, job._real, 1)


def _zero_form(
    spec: Spec, scales: tuple[int, ...], shape: tuple[int, ...], blocks: Sequence[int]
) -> tuple[str, tuple[int, ...]]:
    """Return the type and the shape of stored zero points.

    If codes are in words and each output of a matrix has zero points, the zero points are
    also in words, packed along the outputs.
    """
    if spec.stored.how != "words":
        return spec.type, scales
    if len(shape) == 2 and blocks[0] == 1 and len(scales) == 2:
        return "int32", (-(-scales[0] * spec.stored.bits // 32), scales[1])
    return "int8", scales


def _write_parameters(
    output: Output, spec: Spec, parts: Mapping[str, Part], chosen: QParams
) -> None:
    """Append the scales and zero points of a band to the output file."""
    scale, part = np.asarray(chosen.scale), parts.get("zero_point")
    output.write(parts["scale"].name, scale)
    if part is None:
        return
    bits, how = spec.stored.bits, spec.stored.how
    zero: Array = np.asarray(chosen._zero_point).astype(np.int16)
    zero = np.broadcast_to(zero.reshape(zero.shape or 1), scale.shape or 1)
    if part.format == "int32":
        columns = part.shape[1]
        zero = dense(zero.reshape(-1, columns).astype(np.uint8), bits, "words", 0)
    elif how == "bytes":
        codes = zero.astype(_core.dtype_named(part.format)).reshape(-1)
        zero = _core.pack(codes, "onnx").data
    else:
        zero = zero - (1 << (bits - 1) if how == "words" else 0)
        zero = zero.astype(part.format)
    output.write(part.name, zero)


def _stored(chosen: QParams, stored: Stored) -> QParams:
    """Return the parameters for the stored codes. In words, stored codes are unsigned."""
    if not stored.middle:
        return chosen
    zero = np.add(stored.middle, 0 if chosen.zero_point is None else chosen.zero_point)
    axis, size = chosen.axis, chosen.block_size
    return QParams(chosen.scale, zero, f"u{stored.codes}", axis=axis, block_size=size)


class InBlocks(Quantized):
    """A job that writes GGUF blocks. Blocks contain codes and scales."""

    __slots__ = ()

    @property
    def _unit(self) -> int:
        """The unit of the number of rows in a band.

        A row of a vector is an element, and the unit is the size of a block. A row of a
        matrix consists of complete blocks, and the unit is 1.
        """
        return BLOCKS[self.to].block_size if self.source.ndim == 1 else 1

    @property
    def parts(self) -> list[Part]:
        source, block = self.source, BLOCKS[self.to]
        nbytes = source.size // block.block_size * block.block_bytes
        return [Part(source.name, self.to, source.shape, nbytes)]

    def do(self, output: Output, advance: Callable[[int], None], threads: int) -> None:
        block, source = BLOCKS[self.to], self.source
        kept = _Kept(block, threads)
        for _, numbers in self._bands(threads, advance):
            blocks = encoded(block, numbers, threads=threads)
            output.write(source.name, blocks)
            kept.add(numbers, blocks)
        kept.check()
        self.sqnr = kept.report.sqnr if kept.report.max_error > 0 else None


class OutOfRange(Refused):
    """An error about a tensor with values that a type cannot represent.

    The caller reports all such tensors in one error.
    """

    def __init__(self, type: str, largest: float) -> None:
        super().__init__(f"{type}: largest value {largest:g}")


class _Kept:
    """
    Detect tensors whose values are out of the range of the scales of a block type.

    The energy of a band is the sum of the squares of its values. If the blocks of a band
    keep little of the energy or of the largest value, the values are multiplied by a power
    of two, so that the largest value is about 1. These values are then encoded again. If
    the scales were in range, the first and the second blocks keep equal shares. The tensor
    is out of range if the first blocks keep less than 7/8 of the energy, or less than 3/4
    of the largest value, that the second blocks keep.
    """

    def __init__(self, block: BlockFormat, threads: int) -> None:
        self._block, self._threads, self._largest = block, threads, 0.0
        # Energy and largest value that the first and the second blocks keep.
        self._stored, self._ideal = np.zeros(2), np.zeros(2)
        self.report = NOTHING

    def add(self, x: Array, blocks: Array) -> None:
        """Add a band and its blocks. The method may overwrite the values of the band."""
        largest = _largest(x)
        report, energy, stored = self._kept(x, blocks, largest)
        self.report += report
        ideal = stored
        self._largest = max(self._largest, largest)
        if not (stored >= LEAST * (energy, largest)).all():
            shift = -int(np.frexp(largest)[1])
            np.ldexp(x, shift, out=x)
            blocks = encoded(self._block, x, threads=self._threads)
            *_, ideal = self._kept(x, blocks, np.ldexp(largest, shift))
            ideal = np.ldexp(ideal, (-2 * shift, -shift))
        for sums, (energy, value) in ((self._stored, stored), (self._ideal, ideal)):
            sums[:] = sums[0] + energy, np.maximum(sums[1], value)

    def _kept(
        self, x: Array, blocks: Array, largest: float
    ) -> tuple[ErrorReport, float, Array]:
        """Return the error report and the energy of a band, and an array.

        The array has the energy and the largest value that the blocks keep. If a scale is
        infinite, all three numbers are NaN.
        """
        y = self._block.dequantize(blocks, out=np.empty_like(x), threads=self._threads)
        report = measure_error(x, y, threads=self._threads)
        fields = self._block.split(blocks)
        scales = [one for one in fields.values() if one.dtype.kind == "f"]
        if report.nan or report.inf or not all(np.isfinite(one).all() for one in scales):
            return report, np.nan, np.array([np.nan, np.nan])
        energy, lost = report._sums["xx"].item(), report._sums["ee"].item()
        value = largest if report.max_error <= largest / 4 else _largest(y)
        return report, energy, np.array([energy - lost, value])

    def check(self) -> None:
        """Raise OutOfRange if values of the tensor are out of the range of the type."""
        if not (self._stored >= LEAST * self._ideal).all():
            raise OutOfRange(self._block.name, self._largest)


def _largest(x: Array) -> float:
    """Return the largest magnitude in an array."""
    return max(float(x.max()), -float(x.min()))


# ---- real numbers ----


class Decoded(_Banded):
    """A job that decodes a tensor and writes real numbers of a type."""

    __slots__ = ()

    @property
    def _real(self) -> str:
        return readable(self.to)

    @property
    def parts(self) -> list[Part]:
        return [Part.of(self.source.name, self.to, self.source.shape)]

    def do(self, output: Output, advance: Callable[[int], None], threads: int) -> None:
        largest, stored = 0.0, 0.0
        for rows, numbers in self._bands(threads, advance):
            if self.to == "float16":
                exact = _changed(self.source, rows, numbers)
                largest, stored = max(largest, exact[0]), max(stored, exact[1])
            plain = self._real == self.to
            output.write(self.source.name, numbers if plain else bfloat16_bits(numbers))
        if not 3 / 4 * largest <= stored < np.inf:
            raise OutOfRange(self.to, largest)


def _changed(source: Logical, rows: slice | None, numbers: Array) -> tuple[float, float]:
    """Return the largest finite magnitude of some rows, before and after rounding to
    float16.

    The numbers can differ much only if a float16 value is infinite or all values are tiny.
    Only in these cases, the function decodes the rows again to find the first number.
    """
    bits = int((numbers.view(np.uint16) & 0x7FFF).max())
    stored = float(np.uint16(bits).view(np.float16))
    if 16 <= bits < 0x7C00:
        return stored, stored
    exact = np.abs(source.dequantize(rows, dtype=np.float64)).reshape(numbers.shape)
    finite = np.isfinite(exact)
    largest = float(exact[finite].max(initial=0))
    kept = np.abs(numbers[finite]).max(initial=0)
    return largest, float(kept)


# ---- unchanged tensors ----


class Copied(Job):
    """A job that copies a tensor, with its scales and zero points, unchanged."""

    __slots__ = ("_kind", "_model")

    def __init__(self, source: Logical, model: Model, kind: str, reason: str) -> None:
        super().__init__(source, source.type, source.granularity, reason)
        self._model, self._kind = model, kind
        for name in source.parts:
            _part_of(model[name], kind)  # raises an error if the file cannot store the type

    @property
    def parts(self) -> list[Part]:
        return [_part_of(self._model[name], self._kind) for name in self.source.parts]

    def do(self, output: Output, advance: Callable[[int], None], threads: int) -> None:
        for part in self.parts:
            tensor = self._model[part.name]
            for piece in bytes_of(tensor, part.format):
                output.write(part.name, piece)
                advance(piece.nbytes * tensor.nbytes // max(1, part.nbytes))


def _part_of(tensor: StoredTensor, kind: str) -> Part:
    """Return the description of a copied tensor for the output file.

    Raise Refused if this kind of file cannot store the type. In .npy and .npz files,
    bfloat16 numbers are stored as float32, which represents all of them exactly.
    """
    type = type_of(tensor)
    if isinstance(tensor, Other) and kind == "npz":
        return Part(tensor.name, f"{MEMBER}{tensor.suffix}", (), tensor.nbytes)
    if type == "bfloat16" and TYPES.get(kind) is NUMPY:
        return Part.of(tensor.name, "float32", tensor.shape)
    # A tensor for an ONNX model is from an ONNX model, so that its type is known.
    known = kind == "onnx" or type in TYPES[kind]
    swapped = tensor._order == ">"
    if not known or (swapped and tensor.dtype is None):
        expected = f"a type that .{kind} files have"
        remedy = "; use pyquant dequantize first" if tensor._blocks else ""
        raise fault(None, expected, f"{tensor.format}{remedy}", tensor.name)
    return Part(tensor.name, type, tensor.shape, tensor.nbytes)


def bytes_of(tensor: StoredTensor, type: str | None = None) -> Iterator[Bytes]:
    """Yield the bytes of a tensor in pieces, little-endian and in C order.

    `type` is the type of the elements in the result. The default is the type of the tensor.
    """
    kept = type in (None, type_of(tensor)) or isinstance(tensor, Other)
    if tensor._order == "<" and kept:
        raw = tensor._bytes()
        for at in range(0, raw.size, PIECE):
            piece = raw[at : at + PIECE]
            yield piece
            start = tensor._start + at
            tensor._file.has_read(start, start + piece.size)
        return
    rows: list[slice | None] = [None]
    if tensor.shape:
        each = max(1, tensor.nbytes // max(1, tensor.shape[0]))
        step = max(1, PIECE // each)
        rows = [slice(a, a + step) for a in range(0, tensor.shape[0], step)]
    for part in rows:
        # An unknown type, which has no name, raises an error before memory is allocated.
        numbers = tensor.dequantize(part, dtype=tensor.dtype if kept else type)
        yield from copied_bytes(numbers, 8 * numbers.dtype.itemsize)
