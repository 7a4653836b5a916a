# SPDX-License-Identifier: Apache-2.0
"""Convert the bytes of tensors in files to numbers and back, in parts."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyquant import _core, _threads, dtypes
from pyquant._check import fail
from pyquant.dtypes import TYPES
from pyquant.packed import PackedArray, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from mmap import mmap

    import numpy.typing as npt

    from pyquant._typing import Array
    from pyquant.weights.blocks import BlockFormat
    from pyquant.weights.files import StoredTensor

# PIECE is the number of elements that are converted at a time. It is a multiple of 8, so
# that each piece begins at a byte. SPAN is the number of elements that are decoded from
# blocks at a time. RESIDENT is the number of bytes that may stay in memory after reading.
PIECE = 1 << 18
SPAN = PIECE << 3
RESIDENT = 1 << 23
GATHERED = 1 << 18  # number of bytes of scattered rows that are copied at a time
PAGE = 1 << 12
MAX_DIMS = 64  # maximum number of dimensions in NumPy
MAX_SIZE = 2**63 - 1
# Maximum numbers of tensors and of metadata keys in a file, to limit the memory. The Python
# objects for MAX_TENSORS tensors need 400 MB.
MAX_TENSORS, MAX_KEYS = 1 << 20, 1 << 16


class Mapped:
    """A read-only memory map of a file."""

    __slots__ = ("_seen", "memory", "path", "size")

    def __init__(self, path: str) -> None:
        from mmap import ACCESS_READ, mmap

        self.path: str = path
        # The index of the first byte that was read, the end of the last range, and the
        # number of bytes that were read.
        self._seen = (0, 0, 0)
        with open_file(path) as file:
            self.size: int = file.seek(0, 2)
            if self.size == 0:
                raise fault(path, 0, "a header", "an empty file")
            self.memory: mmap | None = mmap(file.fileno(), 0, access=ACCESS_READ)

    def opened(self) -> mmap:
        """Return the memory, or raise an error if the file is closed."""
        if self.memory is None:
            raise ValueError(f"{self.path}: expected an open file, got a closed one")
        return self.memory

    def close(self) -> None:
        """Release the memory map. Arrays that are views of the map keep the map alive."""
        if self.memory is not None:
            with suppress(BufferError):
                self.memory.close()
            self.memory = None

    def has_read(self, start: int, stop: int, touched: int | None = None) -> None:
        """Count the bytes that were read, and release their pages after RESIDENT bytes.

        Many small reads then leave as few pages in memory as one large read. If the range
        from `start` to `stop` contains pages that were not read, `touched` is the number of
        bytes in the pages that were read.
        """
        first, last, nbytes = self._seen
        touched = stop - start if touched is None else touched
        if nbytes:
            start, stop, nbytes = min(first, start), max(last, stop), nbytes + touched
        else:
            nbytes = touched
        if nbytes < RESIDENT:
            self._seen = start, stop, nbytes
            return
        import mmap

        self._seen = 0, 0, 0
        start = start // mmap.PAGESIZE * mmap.PAGESIZE
        if self.memory is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.memory.madvise(mmap.MADV_DONTNEED, start, stop - start)


_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}


def special_kind(path: str, *, replace: bool = False) -> str | None:
    """Return the kind of a path that is not a regular file, for example "a FIFO".

    The result is `None` for a regular file and for a path that does not exist. `replace`
    means that a new file will replace the path. A link in /dev then counts as a device,
    because a link such as /dev/stdout names an open file.
    """
    folder = os.path.realpath(os.path.dirname(path))
    if replace and folder == "/dev" and os.path.islink(path):
        return "a device"
    if not os.path.exists(path) or os.path.isfile(path):
        return None
    return _KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "a device")


def open_file(path: str) -> BufferedReader:
    """Open a regular file to read it. Reject a FIFO, which would block, and a device."""
    kind = special_kind(path)
    if kind not in (None, "a folder"):  # `open` raises an error for a folder
        raise OSError(errno.EINVAL, f"expected a regular file, got {kind}", path)
    return open(path, "rb")


class Part(NamedTuple):
    """A tensor to write. `format` names the type of the elements, or the block format."""

    name: str
    format: str
    shape: tuple[int, ...]
    nbytes: int

    @classmethod
    def of(cls, name: str, type: str, shape: tuple[int, ...]) -> Part:
        """Return the description of a tensor without blocks."""
        return cls(name, type, shape, -(-prod(shape) * bits_of(type) // 8))

    def shown(self) -> str:
        """Return a text about the tensor for error messages."""
        return f"{self.format} of shape {self.shape} for {self.name[:100]!r}"


def check_count(count: int) -> None:
    """Raise an error for more tensors in a file than the readers of pyquant accept."""
    if count > MAX_TENSORS:
        expected = f"at most {MAX_TENSORS} tensors in a file"
        raise fail(ValueError, "weights", expected, count)


def fault(path: str, at: int, expected: str, got: object, tensor: str = "") -> ValueError:
    """Return an exception about byte `at` of a corrupt file."""
    name = f"tensor {tensor[:100]!r}: " if tensor else ""
    return ValueError(f"{path}: {name}expected {expected}, got {got} at byte {at}")


def bits_of(dtype: str) -> int:
    """Return the number of bits of an element of a type in a file."""
    row = TYPES.get(dtype)
    return row.bits if row is not None else np.dtype(dtype).itemsize * 8


def sized(shape: tuple[int, ...]) -> bool:
    """Return True if NumPy supports an array of this shape."""
    size = prod([n for n in shape if n])
    return len(shape) <= MAX_DIMS and size * 8 <= MAX_SIZE


def decode(
    tensor: StoredTensor,
    block: BlockFormat | None,
    first: int,
    out: Array,
    dtype: str,
    threads: int,
    copied: Array | None = None,
) -> None:
    """Convert elements of a tensor to `dtype`, and fill `out` with the results.

    The index of the first element is `first`. `block` is the block format of the tensor, or
    `None` for a tensor without blocks. `copied` has bytes of the tensor; if it is `None`,
    the function reads the bytes from the file.
    """
    if block is not None:
        _decode_blocks(tensor, block, first, out, threads, copied)
        return
    bits = bits_of(tensor._type or "uint8")
    parts = _threads.useful_parts(out.nbytes, threads)
    share = -(-out.size // (parts * PIECE)) * PIECE
    raw = tensor._bytes() if copied is None else copied

    def work(part: int) -> int:
        to: Any = out.reshape(-1) if out.flags.c_contiguous else out.flat
        stop = min((part + 1) * share, out.size)
        for a in range(part * share, stop, PIECE):
            b = min(a + PIECE, stop)
            place = to[a:b] if out.flags.c_contiguous else None
            found = _piece(raw, tensor, first + a, first + b, dtype, place)
            if found is not place:
                to[a:b] = found
            if copied is None:
                ends = [tensor._start + (first + at) * bits // 8 for at in (a, b)]
                tensor._file.has_read(*ends)
        return 0

    _threads.run(work, parts)


def _decode_blocks(
    tensor: StoredTensor,
    block: BlockFormat,
    first: int,
    out: Array,
    threads: int,
    copied: Array | None,
) -> None:
    """Decode complete blocks, the first with element `first`, and fill `out`."""
    from pyquant.weights.blocks import swapped

    raw = tensor._bytes() if copied is None else copied
    at = first // block.block_size * block.block_bytes
    step = SPAN * min(threads, _threads.cpu_count())
    for place in _places(out, step, block.block_size):
        end = at + place.size // block.block_size * block.block_bytes
        data = raw[at:end].reshape(*place.shape[:-1], -1)
        if tensor._order == ">":
            data = swapped(data, block.name)
        block.dequantize(data, out=place, threads=threads)
        if copied is None:
            tensor._file.has_read(tensor._start + at, tensor._start + end)
        at = end


def decode_rows(
    tensor: StoredTensor,
    block: BlockFormat | None,
    index: Array,
    out: Array,
    dtype: str,
    threads: int,
) -> None:
    """Decode the rows that `index` selects into `out`. A row fills complete bytes."""
    table = tensor._bytes().reshape(tensor.shape[0], -1)
    size = table.shape[1]
    workers = 1 if threads == 1 else min(threads, _threads.cpu_count())
    step = max(1, GATHERED * workers // size)
    for at in range(0, len(index), step):
        part, place = index[at : at + step], out[at : at + step]
        data = table.take(part, axis=0).reshape(-1)
        decode(tensor, block, 0, place, dtype, threads, data)
        ends = tensor._start, tensor._start + tensor.nbytes
        tensor._file.has_read(*ends, min(len(part) * max(size, PAGE), tensor.nbytes))


def _places(out: Array, step: int, unit: int) -> Iterator[Array]:
    """Yield consecutive parts of an array, each of at most about `step` elements.

    The function cuts the array along an axis. This axis is the first axis whose single
    index selects at most `step` elements. Along the last axis, the number of elements in a
    part is a multiple of `unit`.
    """
    if out.size == 0:
        return
    out = out.reshape(-1) if out.flags.c_contiguous else out
    axis, within = 0, prod(out.shape[1:])
    while within > step:
        axis += 1
        within //= out.shape[axis]
    unit = unit if within == 1 else 1
    count = max(step // (within * unit), 1) * unit
    for index in np.ndindex(out.shape[:axis]):
        for at in range(0, out.shape[axis], count):
            yield out[index][at : at + count]


def index_of(rows: object, shape: tuple[int, ...], what: str = "tensor") -> Any:
    """Convert an index of rows to a slice with step 1, or to an array of row numbers."""
    if not shape:
        raise fail(ValueError, "rows", f"None for a {what} of shape {shape}", type(rows))
    extent = shape[0]
    if isinstance(rows, slice):
        try:
            chosen = range(*rows.indices(extent))
        except (TypeError, ValueError) as error:
            raise fail(TypeError, "rows", "a slice of integers", f"{error}") from None
        if chosen.step == 1:
            return slice(chosen.start, max(chosen.start, chosen.stop))
        return np.array(chosen, np.int64)
    array: Array = _core.plain(rows, "rows")
    if array.size == 0:
        array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        got = f"{dtypes.described(array)} of shape {array.shape}"
        raise fail(TypeError, "rows", "a slice or a list of integers", got)
    wrong = (array < 0) | (array >= extent)
    if wrong.any():
        got = f"{array[wrong][0]}"
        raise fail(ValueError, "rows", f"numbers from 0 to {extent - 1}", got)
    return array.astype(np.int64, copy=False)  # a difference of row numbers may be negative


def _piece(
    raw: Array, tensor: StoredTensor, a: int, b: int, dtype: str, out: Array | None
) -> Array:
    """Convert the elements with indices from `a` to `b - 1` in the bytes `raw` to `dtype`.

    The result may be a view of `raw`, or `out`, or a new array.
    """
    source = tensor._type or ""
    kind = TYPES[source].kind if source in TYPES else ""
    if kind == "float" or (kind == "integer" and TYPES[source].bits < 8):
        return _narrow(raw, source, a, b, dtype, out)
    if source == "bool":
        found: Array = raw[a:b] != 0
    elif kind == "exponent":
        if dtype == source:
            return raw[a:b].view(_core.dtype_named(source))
        found = _powers()[raw[a:b]]
    elif source == "bfloat16":
        words = raw[2 * a : 2 * b].view(f"{tensor._order}u2")
        if dtype == source:
            return words.astype(np.uint16).view(_core.dtype_named(source))
        found = np.left_shift(words, 16, dtype=np.uint32).view(np.float32)
    else:
        plain = np.dtype(source)
        size = plain.itemsize
        found = raw[size * a : size * b].view(plain.newbyteorder(tensor._order))
    if found.dtype.name == dtype:
        return found
    if dtype in ("float16", "bfloat16") and found.dtype != np.float32:
        found = _core.cast(found, "float32")  # 16-bit results are rounded from float32
    return _core.cast(found, dtype)


def _narrow(
    raw: Array, source: str, a: int, b: int, dtype: str, out: Array | None
) -> Array:
    """Convert narrow floats and integers.

    Elements that no NumPy type represents are read as packed codes. The first packed code
    has an index that is a multiple of 4, because every fourth element begins at a byte.
    """
    bits, codes = TYPES[source].bits, None
    if bits == 8:
        with suppress(ImportError):
            codes = raw[a:b].view(_core.dtype_named(source))
    if codes is not None and dtype != source:
        return _core.dequantize(codes, 1.0, dtype=dtype, out=out)
    if codes is not None:
        return codes
    first = a - a % 4
    packed = _packed(raw[first * bits // 8 :], source, b - first)
    if dtype == source:
        return unpack(packed)[a - first :]
    return _core.dequantize(packed, 1.0, dtype=dtype)[a - first :]


def _packed(raw: Array, source: str, count: int) -> PackedArray:
    """Return the first `count` codes in `raw`: a view, or a copy in full 32-bit words."""
    bits = TYPES[source].bits
    nbytes = -(-count * bits // 8)
    if bits == 4:
        return PackedArray(raw[:nbytes], source, count)
    words = np.zeros(-(-count * bits // 32), "<i4")
    words.view(np.uint8)[:nbytes] = raw[:nbytes]
    return PackedArray(words, source, count, layout="words")


def _powers() -> Array:
    """Return the values of the 256 codes of float8_e8m0fnu."""
    bits = np.arange(256, dtype=np.uint32) << 23
    bits[0], bits[255] = 1 << 22, 0x7FC00000
    return bits.view(np.float32)


def readable(dtype: str) -> str:
    """Return `dtype`, but float32 instead of bfloat16 if ml_dtypes is not installed."""
    try:
        _core.dtype_named(dtype)
    except ImportError:
        if dtype != "bfloat16":
            raise
        return "float32"
    return dtype


def bfloat16_bits(x: Array) -> npt.NDArray[np.uint16]:
    """Round float32 values to bfloat16, half to even, and return the bits."""
    words = np.array(x, np.float32).view(np.uint32)
    nan = (words & 0x7FFFFFFF) > 0x7F800000
    odd = words >> 16
    odd &= 1
    odd += 0x7FFF
    words += odd
    words >>= 16
    if nan.any():
        words[nan] = np.where(np.signbit(x[nan]), 0xFFC0, 0x7FC0)
    return words.astype(np.uint16)


def copied_bytes(array: Array, bits: int) -> Iterator[Array]:
    """
    Yield the elements of an array as little-endian bytes, in parts.

    `bits` is the width of an element in the file. If it is 16 and the array has type
    float32, the function rounds the elements to bfloat16.
    """
    size = array.dtype.itemsize if array.dtype.kind != "c" else array.dtype.itemsize // 2
    order = ">" if array.dtype.byteorder == ">" else "="
    flat: Any = array.reshape(-1) if array.flags.c_contiguous else array.flat
    for at in range(0, array.size, PIECE):
        piece = np.ascontiguousarray(flat[at : at + PIECE])
        if bits == 16 and size == 4:
            yield bfloat16_bits(piece).astype("<u2", copy=False).view(np.uint8)
        elif bits % 8:
            packed = _core.pack(piece, "words").data
            yield packed.view(np.uint8)[: piece.size * bits // 8]
        else:
            words = piece.view(f"{order}u{size}")
            yield words.astype(f"<u{size}", copy=False).view(np.uint8)
