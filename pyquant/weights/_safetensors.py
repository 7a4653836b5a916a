# SPDX-License-Identifier: Apache-2.0
"""Read and write headers of safetensors files."""

from __future__ import annotations

import json
import os
import re
from math import prod
from posixpath import normpath
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from pyquant.weights._elements import (
    MAX_DIMS,
    MAX_KEYS,
    MAX_TENSORS,
    PIECE,
    Described,
    Mapped,
    Tensor,
    bits_of,
    check_count,
    fault,
    open_file,
    sized,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_Item = TypeVar("_Item", bound=Described)

__all__ = ["FORMATS", "header", "read", "read_index"]

FORMATS = {
    "BOOL": "bool",
    "F4": "float4_e2m1fn",
    "F6_E2M3": "float6_e2m3fn",
    "F6_E3M2": "float6_e3m2fn",
    "U8": "uint8",
    "I8": "int8",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I16": "int16",
    "U16": "uint16",
    "F16": "float16",
    "BF16": "bfloat16",
    "I32": "int32",
    "U32": "uint32",
    "F32": "float32",
    "C64": "complex64",
    "F64": "float64",
    "I64": "int64",
    "U64": "uint64",
}
MAX_HEADER = 100_000_000
FIELDS = "dtype, shape and data_offsets"

# Format, type, shape and number of bits of a tensor.
_Kind: TypeAlias = tuple[str, str | None, tuple[int, ...], int]


def _pattern(text: str) -> re.Pattern[bytes]:
    """Compile a pattern; a space in it matches any JSON white space.

    Groups are atomic, so time and memory do not depend on the text.
    """
    string = r'"([^"\\\x00-\x1f]*+(?:\\["\\/bfnrtu][^"\\\x00-\x1f]*+)*+)"'
    for name, part in (("STRING", string), ("INTEGER", r"(?:0|[1-9]\d{0,19}+)")):
        text = text.replace(name, part)
    text = text.replace(" ", r"[ \t\n\r]*+")
    return re.compile(text.encode())


# One match reads a tensor: its name, its three fields in any order, and the delimiter.
_FIELD = (
    r'(?:"dtype" : "(\w{1,40}+)"|"shape" : \[ ([0-9, ]{0,2000}+) \]'
    r'|"data_offsets" : \[ (INTEGER) , (INTEGER) \])'
).replace("[0-9, ]", r"[0-9,\x20\t\n\r]")
_NAME = _pattern(" STRING : ")
_TENSOR = _pattern(rf" STRING : \{{ (?:{_FIELD} (?:, (?!\}})|(?=\}}))){{3}}\}} ([,}}])")
_EXTENTS = _pattern(r" (?:INTEGER (?:, INTEGER )*+)?+")
_OPEN = _pattern(r"\{ (\}?+) ")
_PAIR = _pattern(r" STRING : STRING ([,}])")
_NEXT = _pattern(r" ([,}]) ")
_BLANK = _pattern(" ")


def read(file: Mapped) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors and the metadata of a file."""
    memory = file.opened()
    length = int.from_bytes(memory[:8], "little")
    end = 8 + length
    if file.size < 8 or length > MAX_HEADER or end > file.size:
        if memory[8:9] != b"{":
            raise ValueError(f"{file.path} is not a safetensors or GGUF file")
        limit = min(MAX_HEADER, max(file.size - 8, 0))
        raise fault(file.path, 0, f"a header of at most {limit} bytes", length)
    return _Header(file, end).read()


class _Header:
    """A header and the position of the reader."""

    def __init__(self, file: Mapped, end: int) -> None:
        self.file, self.end, self.at = file, end, 8
        self.memory = file.opened()
        self.tensors: dict[str, Tensor] = {}
        self.kinds: dict[tuple[bytes, bytes], _Kind] = {}
        self.metadata: dict[str, str] | None = None

    def read(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        more = not self._take(_OPEN, "a JSON object")[1]
        while more:
            found = _TENSOR.match(self.memory, self.at, self.end)
            more = self._read_tensor(found) if found else self._read_other()
        self._take(_BLANK, "spaces")
        if self.at != self.end:
            raise self._fault("spaces up to the end of the header", "other text")
        self._check_places()
        return self.tensors, self.metadata or {}

    def _read_tensor(self, found: re.Match[bytes]) -> bool:
        name, dtype, shape, begin, end, then = found.groups()
        at, self.at = self.at, found.end()
        self.file.has_read(at, self.at)
        name = self._string(name)
        if dtype is None or shape is None or begin is None:
            raise fault(self.file.path, at, FIELDS, "one of them twice", name)
        if name in self.tensors:
            raise fault(self.file.path, at, "a name once", "it again", name)
        if len(self.tensors) == MAX_TENSORS:
            raise fault(self.file.path, at, f"at most {MAX_TENSORS} tensors", "more", name)
        kind = self.kinds.get((dtype, shape))
        if kind is None:  # most tensors have a type and shape seen before
            kind = self.kinds[dtype, shape] = self._kind(dtype, shape, at, name)
        format, known, extents, bits = kind
        start = int(begin)
        nbytes = int(end) - start
        if bits != 8 * nbytes and known is not None:
            expected = f"{bits / 8:g} bytes for {format} of shape {list(extents)}"
            raise fault(self.file.path, at, expected, f"{nbytes}", name)
        place = self.end + start
        self.tensors[name] = Tensor(self.file, format, known, extents, place, nbytes)
        return bool(then == b",")

    def _kind(self, dtype: bytes, text: bytes, at: int, name: str) -> _Kind:
        """Return type, shape and number of bits of a tensor."""
        if _EXTENTS.fullmatch(text) is None:
            raise fault(self.file.path, at, "a shape of integers", "others", name)
        shape = tuple(map(int, text.split(b","))) if text.strip() else ()
        if not sized(shape):
            expected = f"at most {MAX_DIMS} extents that 64 bits count"
            raise fault(self.file.path, at, expected, "more", name)
        format = dtype.decode()
        known = FORMATS.get(format)
        return format, known, shape, prod(shape) * bits_of(known) if known else 0

    def _read_other(self) -> bool:
        """Read the metadata, or raise an error."""
        name = self._string(self._take(_NAME, "a name and a colon")[1])
        if name != "__metadata__":
            raise self._fault(FIELDS, "other text", name)
        if self.metadata is not None:
            raise self._fault("__metadata__ once", "it again")
        self.metadata = {}
        more = not self._take(_OPEN, "an object of strings")[1]
        while more:
            key, value, then = self._take(_PAIR, "a string for a string").groups()
            key = self._string(key)
            if key in self.metadata:
                raise self._fault("a key once", f"{key[:100]!r} again")
            if len(self.metadata) == MAX_KEYS:
                raise self._fault(f"at most {MAX_KEYS} keys", "more")
            self.metadata[key] = self._string(value)
            more = then == b","
        return bool(self._take(_NEXT, "a comma or a brace")[1] == b",")

    def _check_places(self) -> None:
        """Check that the tensors are contiguous and fill the file."""
        due, path = self.end, self.file.path
        for tensor, name in sorted(
            ((t, n) for n, t in self.tensors.items()),
            key=lambda one: (one[0].start, one[0].nbytes),
        ):
            if tensor.start != due or tensor.nbytes < 0:
                expected = f"data from byte {due} on"
                got = f"from {tensor.start} to {tensor.start + tensor.nbytes}"
                raise fault(path, due, expected, got, name)
            due += tensor.nbytes
            if due > self.file.size:
                raise fault(path, due, f"data within {self.file.size} bytes", due, name)
        if due != self.file.size:
            raise fault(path, due, "the end of the file", f"{self.file.size - due} bytes")

    def _take(self, pattern: re.Pattern[bytes], expected: str) -> re.Match[bytes]:
        found = pattern.match(self.memory, self.at, self.end)
        if found is None:
            raise self._fault(expected, "other text")
        self.at = found.end()
        return found

    def _string(self, text: bytes) -> str:
        try:
            found = str(json.loads(b'"%b"' % text)) if b"\\" in text else text.decode()
            found.encode()
        except ValueError:
            raise self._fault("a string of UTF-8", "another before it") from None
        return found

    def _fault(self, expected: str, got: str, name: str = "") -> ValueError:
        return fault(self.file.path, self.at, expected, got, name)


def read_index(path: str) -> tuple[dict[str, str], dict[str, object]]:
    """Return the file of each tensor from a ``.index.json``, and its metadata."""
    try:
        with open_file(path) as file:
            text = file.read(MAX_HEADER + 1)
        if len(text) > MAX_HEADER:
            raise ValueError(f"more than {MAX_HEADER} bytes")
        index = json.loads(text, object_pairs_hook=_once)
        names = index["weight_map"] if type(index) is dict else None
    except (KeyError, ValueError, RecursionError) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise fault(path, 0, "JSON with a weight_map", said) from None
    if type(names) is not dict or not all(type(n) is str for n in names.values()):
        raise fault(path, 0, "a weight_map of names to files", type(names).__name__)
    for name, file in names.items():
        parts = {*file.split("/")}
        outside = file.startswith("/") or ".." in parts or parts <= {"", "."}
        if outside or set(file) & set("\\:\0") or not _is_text(file):
            raise fault(path, 0, "a file in the folder", repr(file[:100]), name)
        names[name] = normpath(file)  # "./a" is "a"
    said = index.get("metadata")
    return names, said if type(said) is dict else {}


def _is_text(name: str) -> bool:
    """Return True if a string contains no lone surrogates."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def header(
    items: Sequence[_Item], metadata: Mapping[str, object]
) -> tuple[bytearray, list[_Item]]:
    """Return the bytes before the data, and the tensors by descending element size.

    This order aligns each tensor to its element size. The text is made in parts, because it
    may be large.
    """
    check_count(len(items))
    for key, value in metadata.items():
        if type(key) is not str or type(value) is not str:
            got = f"{type(key).__name__} to {type(value).__name__}"
            raise TypeError(f"metadata: expected strings to strings, got {got}")
    formats = {dtype: format for format, dtype in FORMATS.items()}
    ordered = sorted(items, key=lambda one: (-one.bits, one.name))
    text, at = bytearray(8), 0
    for key, value in metadata.items():
        text += b'{"__metadata__":{' if len(text) == 8 else b","
        _append(text, key, ":")
        _append(text, str(value))
    text += b"}" if metadata else b"{"
    for one in ordered:
        format = formats.get(one.format, one.format)
        if format not in FORMATS or one.name == "__metadata__":
            raise ValueError(f"weights: expected a type of safetensors, got {one.shown()}")
        if one.nbytes * 8 != prod(one.shape) * one.bits:
            raise ValueError(f"weights: expected whole bytes, got {one.shown()}")
        text += b"" if text.endswith(b"{") else b","
        shape = ",".join(map(str, one.shape))
        fields = f':{{"dtype":"{format}","shape":[{shape}],"data_offsets":'
        _append(text, one.name, f"{fields}[{at},{at + one.nbytes}]}}")
        at += one.nbytes
    text += b"}"
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER + 8:
        expected = f"a header of {MAX_HEADER} bytes"
        raise ValueError(f"metadata: expected {expected}, got {len(text) - 8}")
    text[:8] = (len(text) - 8).to_bytes(8, "little")
    return text, ordered


def _append(text: bytearray, value: str, rest: str = "") -> None:
    """Append a string of JSON, and more text."""
    text += b'"'
    for at in range(0, len(value), PIECE):
        text += json.dumps(value[at : at + PIECE], ensure_ascii=False)[1:-1].encode()
    text += f'"{rest}'.encode()
