# SPDX-License-Identifier: Apache-2.0
"""Read and write headers of GGUF files."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Literal

import numpy as np

from pyquant import _core
from pyquant._check import fail
from pyquant.weights._elements import (
    MAX_KEYS,
    MAX_TENSORS,
    Mapped,
    Part,
    check_count,
    fault,
    sized,
)
from pyquant.weights.files import StoredTensor

# Element types. A row has the name, the id, the numbers of elements and of bytes in a
# block, and the dtype. The dtype is `None` for block formats.
_ROWS = (
    *(("F32", 0, 1, 4, "float32"), ("F16", 1, 1, 2, "float16")),
    *(("BF16", 30, 1, 2, "bfloat16"), ("F64", 28, 1, 8, "float64")),
    *(("I8", 24, 1, 1, "int8"), ("I16", 25, 1, 2, "int16")),
    *(("I32", 26, 1, 4, "int32"), ("I64", 27, 1, 8, "int64")),
    *((*row[:4], None) for row in _core.block_rows()),
)
FORMATS = {name: (block, nbytes) for name, _, block, nbytes, _ in _ROWS}
_BY_ID = {code: (name, block, nbytes, dtype) for name, code, block, nbytes, dtype in _ROWS}
_IDS = {name: code for name, code, *_ in _ROWS}
_NAMES = {dtype: name for name, *_, dtype in _ROWS if dtype}

# The index in _SCALARS is the number of a metadata type, and the letter is its format in
# the module struct. Type 8 is a string, and type 9 is an array.
_SCALARS = "BbHhIif?"
_LETTERS = {**dict(enumerate(_SCALARS)), 10: "Q", 11: "q", 12: "d"}
_NUMBERS = {np.dtype(letter): kind for kind, letter in _LETTERS.items()}
_STRING, _ARRAY = 8, 9
# Numbers of these metadata types become Python numbers: uint32, float32 and bool. A
# negative int32 also becomes a Python integer, because the writer stores a negative Python
# integer as int32. All other numbers become NumPy scalars, so that their type is not lost.
_PLAIN, _INT32 = (4, 6, 7), 5
# Type ids that GPTQModel used for its own types before ggml assigned the ids.
SHARED = (40, 41)
_SPLIT = ("split.no", "split.count", "split.tensors.count")
_PART = re.compile(r"(.*-)(\d{5})(-of-\d{5}\.gguf)", re.DOTALL)
# Maximum number of strings and nested arrays, because the reader visits each one in a loop.
MAX_STRINGS = 1 << 22
MAX_DEPTH = 8
MAX_DIMS = 4
ALIGNMENT = 32


class Metadata(Mapping[str, Any]):
    """The metadata of a file. Each access reads the value from the file."""

    __slots__ = ("_places", "_reader")

    def __init__(self, reader: _Reader, places: dict[str, tuple[int, int]]) -> None:
        self._reader, self._places = reader, places

    @_core.default_fpenv
    def __getitem__(self, key: str) -> Any:
        """Return a value: a number, a string, an array of numbers or a list.

        Numbers of the types uint32, float32 and bool are Python numbers. All other numbers
        are NumPy scalars.
        """
        kind, at = self._places[key]
        return self._reader.value(kind, at)[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"<metadata of {len(self)} keys>"


def read(file: Mapped) -> tuple[dict[str, StoredTensor], Metadata]:
    """Return the tensors and the metadata of a file."""
    memory = file.opened()
    if memory[:4] != b"GGUF":
        raise fault(file.path, 0, "GGUF", repr(memory[:4]))
    try:
        return _Reader(file, ">" if memory[4:6] == b"\0\0" else "<").read()
    except struct.error:
        got = "the end of the file"
        raise fault(file.path, file.size, "more of the header", got) from None


class _Reader:
    """A reader of the header of a file in a given byte order."""

    def __init__(self, file: Mapped, order: Literal["<", ">"]) -> None:
        self.file = file
        self.order: Literal["<", ">"] = order
        self.words = {size: struct.Struct(order + size) for size in "IQ"}
        self.strings = 0

    def read(self) -> tuple[dict[str, StoredTensor], Metadata]:
        version = self._word("I", 4)
        if version not in (2, 3):
            raise self._fault(4, "version 2 or 3", version)
        count = self._count(8, MAX_TENSORS, 24, "tensors")
        keys = self._count(16, MAX_KEYS, 12, "keys")
        places, at = self._keys(keys, 24)
        metadata = Metadata(self, places)
        alignment = self._alignment(places)
        found, at = self._tensors(count, at)
        data = -(-at // alignment) * alignment
        return self._placed(found, data, alignment), metadata

    def _fault(self, at: int, expected: str, got: object, tensor: str = "") -> ValueError:
        return fault(self.file.path, at, expected, got, tensor)

    def _word(self, size: str, at: int) -> int:
        return int(self.words[size].unpack_from(self.file.opened(), at)[0])

    def _count(self, at: int, most: int, each: int, what: str) -> int:
        """Read a number of items. Raise an error if the file has no room for the items.

        An item has at least `each` bytes, and at most `most` items are allowed.
        """
        count = self._word("Q", at)
        most = min(most, max(self.file.size - at, 0) // each)
        if count > most:
            raise self._fault(at, f"at most {most} {what}", count)
        return count

    def _string(self, at: int) -> tuple[str, int]:
        stop = at + 8 + self._word("Q", at)
        if stop > self.file.size:
            got = f"{stop - at - 8} bytes"
            raise self._fault(at, "a string within the file", got)
        text = self.file.opened()[at + 8 : stop]
        return text.decode("utf-8", "surrogateescape"), stop

    def _keys(self, count: int, at: int) -> tuple[dict[str, tuple[int, int]], int]:
        places: dict[str, tuple[int, int]] = {}
        for _ in range(count):
            start = at
            key, at = self._string(at)
            if key in places:
                raise self._fault(start, "a key once", f"{key[:100]!r} again")
            kind = self._word("I", at)
            places[key] = (kind, at + 4)
            at = self._after(kind, at + 4, 0)
        return places, at

    def _after(self, kind: int, at: int, depth: int) -> int:
        """Return the byte position after a value, without reading the value."""
        if kind == _STRING:
            return self._after_strings(at, 1)
        if kind == _ARRAY:
            if depth == MAX_DEPTH:
                raise self._fault(at, f"at most {depth} nested arrays", "more")
            inner = self._word("I", at)
            each = self._size(inner, at) or 8
            count = self._count(at + 4, self.file.size, each, "elements")
            if inner == _STRING:
                return self._after_strings(at + 12, count)
            if inner != _ARRAY:
                return at + 12 + count * each
            at += 12
            for _ in range(count):
                self._counted(1, at)
                at = self._after(_ARRAY, at, depth + 1)
            return at
        at += self._size(kind, at - 4)
        if at > self.file.size:
            raise self._fault(at, "a value within the file", "its end")
        return at

    def _size(self, kind: int, at: int) -> int:
        """Return the number of bytes of a metadata type, or 0 for strings and arrays."""
        if kind in (_STRING, _ARRAY):
            return 0
        if kind not in _LETTERS:
            raise self._fault(at, "a type from 0 to 12", kind)
        return struct.calcsize("=" + _LETTERS[kind])

    def _counted(self, count: int, at: int) -> None:
        self.strings += count
        if self.strings > MAX_STRINGS:
            raise self._fault(at, f"at most {MAX_STRINGS} strings and arrays", self.strings)

    def _after_strings(self, at: int, count: int) -> int:
        self._counted(count, at)
        memory, length = self.file.opened(), self.words["Q"].unpack_from
        try:
            for _ in range(count):
                at += 8 + length(memory, at)[0]
        except (struct.error, OverflowError):  # the end of a string is beyond the file
            at = self.file.size + 1
        if at > self.file.size:
            at = self.file.size
            raise self._fault(at, "strings within the file", "its end")
        return at

    def value(self, kind: int, at: int) -> tuple[Any, int]:
        """Return a value, which `_after` has checked, and the byte position after it."""
        if kind == _STRING:
            return self._string(at)
        if kind != _ARRAY:
            one = struct.Struct(self.order + _LETTERS[kind])
            number = one.unpack_from(self.file.opened(), at)[0]
            if kind not in _PLAIN and not (kind == _INT32 and number < 0):
                number = np.dtype(_LETTERS[kind]).type(number)
            return number, at + one.size
        inner, count = self._word("I", at), self._word("Q", at + 4)
        at += 12
        if inner not in (_STRING, _ARRAY):
            dtype = np.dtype(self.order + _LETTERS[inner])
            return self._numbers(dtype, count, at), at + count * dtype.itemsize
        values = []
        for _ in range(count):
            one_value, at = self.value(inner, at)
            values.append(one_value)
        return values, at

    def _numbers(self, dtype: np.dtype[Any], count: int, at: int) -> np.ndarray[Any, Any]:
        text = self.file.opened()[at : at + count * dtype.itemsize]
        found: np.ndarray[Any, Any] = np.frombuffer(text, dtype)
        made = found.astype(dtype.newbyteorder("="))
        return np.not_equal(made.view(np.uint8), 0) if dtype == np.bool else made

    def _alignment(self, places: dict[str, tuple[int, int]]) -> int:
        if "general.alignment" not in places:
            return ALIGNMENT
        kind, at = places["general.alignment"]
        value = self._word("I", at) if kind == 4 else 0
        if value < 1 or value & (value - 1):
            got = value if kind == 4 else f"type {kind}"
            raise self._fault(at, "a power of two for the alignment", got)
        return value

    def _tensors(self, count: int, at: int) -> tuple[dict[str, tuple[Any, ...]], int]:
        """Read the type, the shape, the offset and the header position of each tensor."""
        found: dict[str, tuple[Any, ...]] = {}
        memory = self.file.opened()
        rests = [struct.Struct(f"{self.order}{n}QIQ") for n in range(MAX_DIMS + 1)]
        for _ in range(count):
            start = at
            name, at = self._string(at)
            ndim = self._word("I", at)
            if name in found:
                raise self._fault(start, "a name once", "it again", name)
            if ndim > MAX_DIMS:
                raise self._fault(at, f"at most {MAX_DIMS} dimensions", ndim, name)
            *dims, kind, offset = rests[ndim].unpack_from(memory, at + 4)
            at += 4 + rests[ndim].size
            shape = tuple(dims[::-1])
            if not sized(shape):
                expected = "a number of elements that 64 bits count"
                raise self._fault(start, expected, list(shape), name)
            found[name] = (kind, shape, offset, start)
        return found, at

    def _placed(
        self, found: dict[str, tuple[Any, ...]], data: int, alignment: int
    ) -> dict[str, StoredTensor]:
        """Check that tensors are within the file and do not overlap, and return them.

        A tensor of an unknown type extends to the next tensor or to the end of the file.
        """
        size = self.file.size
        tensors: dict[str, StoredTensor] = {}
        falling = sorted(found.items(), key=lambda one: one[1][2:], reverse=True)
        foreign = self._foreign([one for _, one in falling], data, alignment)
        limit = size
        for name, (kind, shape, offset, entry) in falling:
            start, some = data + offset, prod(shape) > 0
            if offset % alignment:
                expected = f"a multiple of {alignment} for an offset"
                raise self._fault(entry, expected, offset, name)
            if start > size and some:
                got = f"data from {start} on"
                raise self._fault(entry, f"data within {size} bytes", got, name)
            known = None if kind in foreign else _BY_ID.get(kind)
            if known is None:
                nbytes = max(limit - start, 1) if some else 0
                format, dtype = f"type {kind}", None
            else:
                format, block, each, dtype = known
                row = shape[-1] if shape else 1
                if row % block:
                    expected = f"a last extent that is a multiple of {block} for {format}"
                    raise self._fault(entry, expected, row, name)
                nbytes = prod(shape) // block * each
            if start + nbytes > limit and nbytes:
                expected = f"data that ends by byte {limit}"
                raise self._fault(entry, expected, f"{start} to {start + nbytes}", name)
            if nbytes:
                limit = start
            blocks = known is not None and dtype is None
            place = (shape, start, nbytes, self.order, blocks)
            tensors[name] = StoredTensor(name, self.file, format, dtype, *place)
        return {name: tensors[name] for name in found}

    def _foreign(
        self, falling: list[tuple[Any, ...]], data: int, alignment: int
    ) -> set[int]:
        """Return the type ids that have another meaning in this file.

        An id has another meaning if the blocks of its type do not fill the bytes up to the
        next tensor. The last tensor is checked only for the ids in SHARED, which several
        programs use. For all other ids, the check would fail for a truncated file and for a
        file with additional bytes at its end.
        """
        found: set[int] = set()
        limit = self.file.size
        for kind, shape, offset, _ in falling:
            start = data + offset
            _, block, each, dtype = _BY_ID.get(kind, ("", 1, 1, ""))
            if dtype is None and prod(shape):
                whole = shape[-1:] != () and shape[-1] % block == 0
                rest = limit - start - prod(shape) // block * each
                tells = kind in SHARED or (whole and limit < self.file.size)
                if tells and not (whole and 0 <= rest < alignment):
                    found.add(kind)
            if prod(shape):
                limit = start
        return found


def parts_of(path: str, metadata: Mapping[str, Any]) -> list[str]:
    """Return the paths of all parts of a split model, except `path`, the first part."""
    count = metadata.get("split.count", 1)
    if not isinstance(count, (int, np.integer)) or count <= 1:
        return []
    count, name = int(count), _PART.fullmatch(path)
    number = metadata.get("split.no", 0)
    if name is None or int(name[2]) != 1 or number != 0 or name[3][4:9] != f"{count:05}":
        expected = f"the first of {count} files, named …-00001-of-{count:05}.gguf"
        raise ValueError(f"{path}: expected {expected}, got split.no {number}")
    return [f"{name[1]}{i:05}{name[3]}" for i in range(2, count + 1)]


def unsplit(path: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata, without the keys ``split.*`` if `path` does not name a part."""
    split = () if _PART.fullmatch(path) else _SPLIT
    return {key: value for key, value in metadata.items() if key not in split}


def header(items: list[Part], metadata: Mapping[str, Any]) -> tuple[bytes, list[Part], int]:
    """Return the bytes before the data, the tensors in file order, and the alignment."""
    check_count(len(items))
    alignment = metadata.get("general.alignment", ALIGNMENT)
    if isinstance(alignment, np.integer):
        alignment = int(alignment)
        metadata = {**metadata, "general.alignment": alignment}
    if (
        type(alignment) is not int
        or not 0 < alignment < 1 << 32
        or alignment & (alignment - 1)
    ):
        raise fail(ValueError, "metadata", "a power of two to align to", f"{alignment!r}")
    text = [b"GGUF", struct.pack("<IQQ", 3, len(items), len(metadata))]
    for key, value in metadata.items():
        if type(key) is not str:
            raise fail(TypeError, "metadata", "strings for keys", type(key))
        kind, made = _written(value, key)
        text += [_text(key), struct.pack("<I", kind), made]
    at = 0
    for one in items:
        format = _NAMES.get(one.format, one.format)
        if format not in FORMATS or len(one.shape) > MAX_DIMS:
            expected = f"a type of GGUF and at most {MAX_DIMS} dimensions"
            raise fail(ValueError, "weights", expected, one.shown())
        dims = struct.pack(f"<I{len(one.shape)}Q", len(one.shape), *one.shape[::-1])
        text += [_text(one.name), dims, struct.pack("<IQ", _IDS[format], at)]
        at += -(-one.nbytes // alignment) * alignment
    made = b"".join(text)
    return made + bytes(-len(made) % alignment), items, alignment


def _text(value: str) -> bytes:
    made = value.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(made)) + made


def _written(value: Any, key: str) -> tuple[int, bytes]:
    """Return the number of the metadata type of a value, and its bytes in a file."""
    if isinstance(value, str):
        return _STRING, _text(value)
    if isinstance(value, (list, tuple)) and value and all(type(v) is str for v in value):
        start = struct.pack("<IQ", _STRING, len(value))
        return _ARRAY, start + b"".join(map(_text, value))
    array = np.asarray(value)
    if type(value) is int and -(1 << 31) <= value < 1 << 32:  # most integers are small
        array = array.astype(np.uint32 if value >= 0 else np.int32)
    elif type(value) is float:
        with np.errstate(all="ignore"):
            narrow = array.astype(np.float32)
        array = narrow if value != value or value == float(narrow) else array
    kind = _NUMBERS.get(array.dtype.newbyteorder("="))
    if kind is None or array.ndim > 1:
        got = f"{type(value).__name__} for {key[:100]!r}"
        raise fail(TypeError, "metadata", "strings, numbers or lists of them", got)
    made = array.astype(array.dtype.newbyteorder("<")).tobytes()
    if array.ndim == 0:
        return kind, made
    return _ARRAY, struct.pack("<IQ", kind, array.size) + made
