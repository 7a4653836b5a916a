# SPDX-License-Identifier: Apache-2.0
"""Read and write headers of safetensors files."""

from __future__ import annotations

import json
import os
import re
from itertools import chain
from math import prod
from posixpath import normpath
from typing import TYPE_CHECKING, Any

from pyquant._check import fail
from pyquant.weights._elements import (
    MAX_DIMS,
    MAX_KEYS,
    MAX_TENSORS,
    Mapped,
    Part,
    bits_of,
    check_count,
    fault,
    open_file,
    sized,
)
from pyquant.weights.files import StoredTensor

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeGuard

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
FIELDS = ("dtype", "shape", "data_offsets")
# Maximum number of objects and arrays in a header, and maximum number of elements in all of
# the objects and arrays, to limit the memory.
MAX_NESTED, MAX_ELEMENTS = 3 * MAX_TENSORS, 10 * MAX_TENSORS
_FORMAT = re.compile(r"\w{1,40}", re.ASCII)


def read(file: Mapped) -> tuple[dict[str, StoredTensor], dict[str, str]]:
    """Return the tensors and the metadata of a file."""
    memory, path = file.opened(), file.path
    length = int.from_bytes(memory[:8], "little")
    end = 8 + length
    if file.size < 8 or length > MAX_HEADER or end > file.size:
        if memory[8:9] != b"{":
            raise ValueError(f"{path} is not a safetensors or GGUF file")
        limit = min(MAX_HEADER, max(file.size - 8, 0))
        raise fault(path, 0, f"a header of at most {limit} bytes", length)
    text = memory[8:end]
    file.has_read(8, end)
    nested = max(text.count(b"["), text.count(b"{"))
    if nested > MAX_NESTED or text.count(b",") > MAX_ELEMENTS:
        raise fault(path, 8, f"a header of at most {MAX_TENSORS} tensors", "more")
    how: dict[str, Any] = {"object_pairs_hook": _object, "parse_constant": _no_constant}
    try:
        found = json.loads(text.decode(), **how)
    except (ValueError, RecursionError) as error:
        said = " ".join(f"{error}".split())[:200]
        at = 8 + getattr(error, "pos", 0)
        raise fault(path, at, "a JSON object", said) from None
    del text
    if type(found) is not dict or memory[8:9] != b"{":
        raise fault(path, 8, "a JSON object", "other text")
    metadata = _metadata(found.pop("__metadata__", {}), path)
    if len(found) > MAX_TENSORS:
        raise fault(path, 8, f"at most {MAX_TENSORS} tensors", "more")
    try:
        for one in chain(found, metadata, metadata.values()):
            one.encode()
    except UnicodeEncodeError:
        raise fault(path, 8, "strings of UTF-8", "half of a pair") from None
    tensors = {name: _tensor(file, end, name, one) for name, one in found.items()}
    _check_places(file, end, tensors)
    return tensors, metadata


def _object(pairs: list[tuple[str, object]]) -> object:
    """Convert a JSON object to a dict, or a description of a tensor to a small tuple."""
    found = _once(pairs)
    return tuple(map(found.get, FIELDS)) if found.keys() == {*FIELDS} else found


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name}, which JSON lacks")


def _metadata(said: object, path: str) -> dict[str, str]:
    if type(said) is not dict or not all(type(one) is str for one in said.values()):
        raise fault(path, 8, "metadata of strings to strings", "others")
    if len(said) > MAX_KEYS:
        raise fault(path, 8, f"at most {MAX_KEYS} keys", "more")
    return said


def _tensor(file: Mapped, end: int, name: str, fields: object) -> StoredTensor:
    """Check the fields that describe a tensor, and return the tensor."""
    path = file.path
    format, shape, offsets = fields if type(fields) is tuple else (None, None, None)
    if type(format) is not str or not _FORMAT.fullmatch(format):
        raise fault(path, 8, f"the fields {', '.join(FIELDS)}", "others", name)
    if not _are_sizes(shape) or not _are_sizes(offsets) or len(offsets) != 2:
        raise fault(path, 8, "a shape and two offsets of integers", "others", name)
    if not sized(shape := tuple(shape)):
        expected = f"at most {MAX_DIMS} extents that 64 bits count"
        raise fault(path, 8, expected, "more", name)
    known, (start, stop) = FORMATS.get(format), offsets
    bits, nbytes = prod(shape) * bits_of(known) if known else 0, stop - start
    if known is not None and bits != 8 * nbytes:
        expected = f"{bits / 8:g} bytes for {format} of shape {list(shape)}"
        raise fault(path, 8, expected, nbytes, name)
    return StoredTensor(name, file, format, known, shape, end + start, nbytes)


def _are_sizes(values: Any) -> TypeGuard[list[int]]:
    """Return True for a list of integers in the range of uint64."""
    return type(values) is list and all(type(n) is int and 0 <= n < 1 << 64 for n in values)


def _check_places(file: Mapped, due: int, tensors: dict[str, StoredTensor]) -> None:
    """Check that the tensors fill all bytes of the file after the header, without gaps."""
    path, size = file.path, file.size
    placed = [(one._start, one.nbytes, name) for name, one in tensors.items()]
    for start, nbytes, name in sorted(placed):
        if start != due or nbytes < 0:
            got = f"from {start} to {start + nbytes}"
            raise fault(path, due, f"data from byte {due} on", got, name)
        due += nbytes
        if due > size:
            raise fault(path, due, f"data within {size} bytes", due, name)
    if due != size:
        raise fault(path, due, "the end of the file", f"{size - due} bytes")


def read_index(path: str) -> tuple[dict[str, str], dict[str, object]]:
    """Read a ``.index.json``. Return the file name of each tensor, and the metadata."""
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
        names[name] = normpath(file)  # for example "./a" becomes "a"
    said = index.get("metadata")
    return names, said if type(said) is dict else {}


def _is_text(name: str) -> bool:
    """Return True if the operating system can encode a string as a file name."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def header(
    items: Sequence[Part], metadata: Mapping[str, object]
) -> tuple[bytearray, list[Part]]:
    """Return the bytes before the data, and the tensors in the order of the data.

    Tensors with larger elements are first, so that the position of each tensor is a
    multiple of its element size. The function appends to one buffer, because the text may
    be large.
    """
    check_count(len(items))
    for key, value in metadata.items():
        if type(key) is not str or type(value) is not str:
            got = f"{type(key).__name__} to {type(value).__name__}"
            raise fail(TypeError, "metadata", "strings to strings", got)
    formats = {dtype: format for format, dtype in FORMATS.items()}
    bits = {format: bits_of(dtype) for format, dtype in FORMATS.items()}
    ordered = []
    for one in items:
        name, stored, extents, nbytes = one
        format = formats.get(stored, stored)
        if format not in FORMATS or name == "__metadata__":
            raise fail(ValueError, "weights", "a type of safetensors", one.shown())
        if nbytes * 8 != prod(extents) * bits[format]:
            raise fail(ValueError, "weights", "whole bytes", one.shown())
        ordered.append((-bits[format], name, format, one))
    ordered.sort()
    text, at = bytearray(8), 0
    for key, value in metadata.items():
        text += b'{"__metadata__":{' if len(text) == 8 else b","
        text += f"{_json_of(key)}:{_json_of(value)}".encode()
    text += b"}" if metadata else b"{"
    for _, name, format, (_, _, extents, nbytes) in ordered:
        text += b"" if text.endswith(b"{") else b","
        shape = ",".join(map(str, extents))
        fields = f'"dtype":"{format}","shape":[{shape}],"data_offsets":[{at},{at + nbytes}]'
        text += f"{_json_of(name)}:{{{fields}}}".encode()
        at += nbytes
    text += b"}"
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER + 8:
        expected = f"a header of {MAX_HEADER} bytes"
        raise fail(ValueError, "metadata", expected, len(text) - 8)
    text[:8] = (len(text) - 8).to_bytes(8, "little")
    return text, [row[-1] for row in ordered]


def _json_of(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
