# SPDX-License-Identifier: Apache-2.0
"""Open files of arrays and weights as models, whose tensors are read on demand."""

from __future__ import annotations

import json
import os
import struct
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO, TextIOWrapper
from math import prod
from typing import Any, Literal, TypeGuard

import numpy as np

from pyquant import dtypes
from pyquant.cli._errors import Refused, converting, fault
from pyquant.cli._logical import Logical, weight_of
from pyquant.weights._elements import Mapped, open_file, sized
from pyquant.weights.files import StoredTensor, WeightFile, open_weights

# Extension of a file name -> kind of the file.
EXTENSIONS = {
    ".npy": "npy",
    ".npz": "npz",
    ".safetensors": "safetensors",
    ".index.json": "safetensors",
    ".gguf": "gguf",
    ".onnx": "onnx",
}
# The member of a .npz file that contains the metadata as a JSON string.
RECORDS = "__pyquant__"
NPY, ZIP = b"\x93NUMPY", b"PK\x03\x04"
PIECE = 1 << 16  # number of characters of metadata that are read at once
READABLE = "a .npz file that NumPy can read"
MAX_HEADER = 1 << 16  # maximum number of bytes in a .npy header; most have a few hundred


class Model(WeightFile):
    """
    A mapping from names to the tensors of a model, and a context manager.

    A model is a file or a folder. `kind` is "npy", "npz", "safetensors", "gguf" or "onnx".
    `paths` has the paths of all files. If the model has several files (shards), `shards`
    maps the name of each tensor to the file name in an output folder; otherwise, `shards`
    is empty. `joined` has the logical tensors that nodes of an ONNX graph dequantize.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        files: list[Any],
        tensors: dict[str, StoredTensor],
        metadata: Mapping[str, Any],
    ) -> None:
        super().__init__(path, files, tensors, metadata)
        self.kind: str = kind
        self.paths: tuple[str, ...] = (path,)
        self.shards: Mapping[str, str] = {}
        self.joined: Mapping[str, Logical] = {}

    @property
    def absences(self) -> tuple[str, ...]:
        """Reasons why the model does not contain all weights of the file."""
        return ()

    def faults(self) -> Iterator[str]:
        """Yield the faults of the file that the constructor does not check."""
        return iter(())

    def channels(self, name: str) -> int:
        """Return the axis of a weight that has an index for each output of its operator."""
        return 0

    def close(self) -> None:
        """Close the file, and remove the weights that refer to the file from the cache."""
        weight_of.cache_clear()
        super().close()


def open_model(path: str, kind: str | None = None) -> Model:
    """
    Open a file without reading its tensors.

    `path` is a file, a folder with one ``.index.json`` or one ``.safetensors`` file, or
    ``-`` for a .npy or .npz file on stdin. By default, the extension decides the kind of
    the file. If the extension is unknown, the first bytes decide. For a malformed file, the
    function raises Refused or ValueError. The message has one line and names the file.
    """
    if path == "-":
        return _open_stdin(kind)
    if os.path.isdir(path):
        path = _in_folder(path)
    kind = kind or _kind_by_content(path) or kind_of(path)
    if kind == "onnx":
        try:
            from pyquant.cli._onnx import OnnxModel
        except ImportError:
            msg = "models of ONNX need onnx: pip install 'pyquant-simd[onnx]'"
            raise ImportError(msg) from None
        return OnnxModel(path)
    return _OPENERS[kind](path)


def kind_of(path: str, what: str = "FILE") -> str:
    """Return the kind of a file by the extension. Raise Refused if it is unknown."""
    for extension, kind in EXTENSIONS.items():
        if path.lower().endswith(extension):
            return kind
    expected = ", ".join(EXTENSIONS)
    raise Refused(f"{what}: expected a name that ends with {expected}, got {path!r}")


def _kind_by_content(path: str) -> str | None:
    """Return the kind of a file by its first bytes, or `None` if it is unknown.

    If the extension of the name is known, the function returns `None`, too.
    """
    if path.lower().endswith(tuple(EXTENSIONS)):
        return None
    with open_file(path) as file:
        start = file.read(8)
    kinds = {NPY: "npy", ZIP: "npz", b"GGUF": "gguf"}
    return next((kind for magic, kind in kinds.items() if start.startswith(magic)), None)


def _in_folder(path: str) -> str:
    names = sorted(os.listdir(path))
    for extension in (".index.json", ".safetensors", ".gguf"):
        found = [name for name in names if name.endswith(extension)]
        if len(found) == 1:
            return os.path.join(path, found[0])
    expected = "a folder with one .index.json or one .safetensors file"
    raise Refused(f"{path}: expected {expected}, got another")


def _open_stdin(kind: str | None) -> Model:
    """Copy stdin to a temporary file, because a command may read the bytes twice."""
    import shutil
    import tempfile

    if sys.stdin is None:
        raise Refused("-: expected a file on stdin, got none, as it is closed")
    with tempfile.NamedTemporaryFile(prefix="pyquant-") as copy:
        shutil.copyfileobj(sys.stdin.buffer, copy)
        copy.flush()
        kind = kind or _kind_by_content(copy.name) or "npy"
        if kind not in ("npy", "npz"):
            raise Refused(f"-: expected a .npy or .npz file on stdin, got {kind}")
        made: Model = _OPENERS[kind](copy.name, "-")
    return made


# ---- safetensors and GGUF ----


def _open_weights(path: str) -> Model:
    file, is_index = open_weights(path), path.endswith(".json")
    files, tensors, paths = file._files, file._tensors, [one.path for one in file._files]
    is_gguf = not is_index and files[0].opened()[:4] == b"GGUF"
    metadata = _own_metadata(file) if is_index else file.metadata
    made = Model(path, "gguf" if is_gguf else "safetensors", files, tensors, metadata)
    made.paths = (*[path] * is_index, *paths)
    if is_index:
        folder = os.path.dirname(path) or "."
        # The output files are in the folder of the index, so that their names must not
        # contain a folder.
        names = {p: os.path.relpath(p, folder).replace(os.sep, "-") for p in paths}
        made.shards = {n: names[t._file.path] for n, t in tensors.items()}
    return made


def _own_metadata(file: Any) -> Mapping[str, Any]:
    """Return the metadata of an index, merged with the metadata of its files."""
    from pyquant.weights import _safetensors

    found = dict(file.metadata)
    records: dict[str, Any] = {}
    for one in file._files:
        said = _safetensors.read(one)[1]
        for key, value in said.items():
            if key == "pyquant":
                records |= _json_object(value)
            else:
                found.setdefault(key, value)
    if records:
        found["pyquant"] = json.dumps(records)
    return found


def _json_object(text: Any) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {}


# ---- arrays of NumPy ----


class Bytes:
    """Bytes in memory with the methods of `Mapped`."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path, self.data, self.size = path, data, len(data)

    def opened(self) -> bytes:
        """Return all bytes."""
        return self.data

    def has_read(self, start: int, stop: int) -> None:
        """Do nothing, because the bytes stay in memory."""

    def close(self) -> None:
        """Do nothing, because no file is open."""


class Loaded(Bytes):
    """The bytes of an array that must be read at once, for example from a compressed file.

    A cache contains the bytes of the last two arrays.
    """

    def __init__(self, path: str, load: Callable[[], bytes]) -> None:
        self.path, self._load = path, load

    def opened(self) -> bytes:
        """Return the bytes from the cache, or read the array."""
        return _loaded(self._load)


@lru_cache(maxsize=2)
def _loaded(load: Callable[[], bytes]) -> bytes:
    return load()


@dataclass(slots=True, eq=False, repr=False)
class Other(StoredTensor):
    """A member of a .npz file that is no array of numbers. Commands copy it unchanged."""

    suffix: str = ""  # extension of the name of the member


def _open_npy(path: str, shown: str | None = None) -> Model:
    file = Mapped(path)
    file.path = shown or path
    name = "array" if shown == "-" else os.path.basename(path)
    if name.lower().endswith(".npy") and len(name) > 4:
        name = name[:-4]
    try:
        head = _mapped_header(file, 0, file.size)
        shape, fortran, dtype, length = _npy_header(file.path, name, head)
        if not _is_number(dtype):
            raise fault(file.path, "an array of numbers", str(dtype or "bytes"), name)
        tensor = _array(name, file, (length, file.size), shape, dtype, fortran)
    except BaseException:
        file.close()
        raise
    return Model(file.path, "npy", [file], {name: tensor}, {})


def _mapped_header(file: Mapped, start: int, stop: int) -> bytes:
    """Return the .npy header of an array that is at bytes `start` to `stop` of a file."""
    memory = file.opened()
    wide = memory[start + 6 : start + 7] != b"\1"  # 4 bytes, not 2, for the length
    sizes = memory[start + 8 : start + 10 + 2 * wide]
    length = min(8 + len(sizes) + int.from_bytes(sizes, "little"), MAX_HEADER)
    header = bytes(memory[start : min(stop, start + length)])
    file.has_read(start, start + length)
    return header


def _read_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read a .npy header. Return the shape, true for Fortran order, and the type."""
    # Headers of versions 2 and 3 of the .npy format differ only in the encoding of field
    # names. Arrays of numbers have no fields, so that the reader of version 2 reads both.
    old, format = np.lib.format.read_magic(stream) == (1, 0), np.lib.format
    read = format.read_array_header_1_0 if old else format.read_array_header_2_0
    return read(stream)


@lru_cache(maxsize=256)
def _parsed(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, Fortran order, type, and number of bytes in the header."""
    stream = BytesIO(data)
    return (*_read_header(stream), stream.tell())


def _npy_header(
    path: str, name: str, data: bytes
) -> tuple[tuple[int, ...], bool, np.dtype[Any] | None, int]:
    """Return shape, Fortran order, type, and number of bytes in the header of an array. If
    the bytes are no .npy file, the type is `None`."""
    if not data.startswith(NPY):
        return (), False, None, 0
    with converting(path, "a .npy file that NumPy can read", name):
        found = _parsed(data)
    shape = found[0]
    if not sized(shape) or any(n < 0 for n in shape):
        raise fault(path, "a shape that 64 bits count", str(shape)[:100], name)
    return found


def _is_number(dtype: np.dtype[Any] | None) -> TypeGuard[np.dtype[Any]]:
    if dtype is None or dtype.names is not None or dtype.subdtype is not None:
        return False
    return dtype.kind not in "OSUmM"


def _array(
    name: str,
    file: Any,
    place: tuple[int, int],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    fortran: bool,
) -> StoredTensor:
    """Return a tensor for an array in a file.

    `place` has the index of the first byte of the data, and the end of the bytes that may
    belong to the data.
    """
    start, stop = place
    nbytes = prod(shape) * dtype.itemsize
    if start + nbytes > stop:
        raise fault(file.path, f"{nbytes} bytes of data", f"{max(stop - start, 0)}", name)
    if fortran and len(shape) > 1 and nbytes:
        file, start = Loaded(file.path, partial(_turned, file, start, shape, dtype)), 0
    order: Literal["<", ">"] = ">" if dtype.byteorder == ">" else "<"
    format = _format_of(dtype)
    return StoredTensor(name, file, format, _name_of(dtype), shape, start, nbytes, order)


def _turned(file: Any, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> bytes:
    """Return the bytes of an array in C order. The file contains it in Fortran order."""
    array = np.frombuffer(file.opened(), dtype, prod(shape), start)
    made = array.reshape(shape[::-1]).T.tobytes()
    file.has_read(start, start + len(made))
    return made


@lru_cache(maxsize=256)
def _name_of(dtype: np.dtype[Any]) -> str | None:
    """Return the name of a type, or `None` if a stored tensor cannot have the type."""
    name = dtype.newbyteorder("=").name
    known = name in dtypes.TYPES or name in ("bool", "complex64")
    return name if known else None


def _format_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a type for users. A type that NumPy lacks has a name like "V2"."""
    unnamed = dtype.kind == "V"
    return f"V{dtype.itemsize}" if unnamed else dtype.newbyteorder("=").name


# ---- .npz ----


class _Npz(Model):
    """A model with the members of a .npz file."""

    def __init__(self, path: str, shown: str | None = None) -> None:
        file = Mapped(path)
        file.path, files = shown or path, list[Any]([file])
        try:
            # zipfile may raise exceptions of any type for an invalid file.
            with converting(file.path, READABLE):
                self._archive = zipfile.ZipFile(path)
                files.insert(0, self._archive)
                tensors, metadata = _members(file, self._archive)
        except BaseException:
            for one in files:
                one.close()
            raise
        super().__init__(file.path, "npz", files, tensors, metadata)

    def faults(self) -> Iterator[str]:
        """Yield the members with wrong checksums. Memory maps skip this check."""
        archive = zipfile.ZipFile(self._archive.fp)  # type: ignore[arg-type]
        for member in archive.infolist():
            try:
                with archive.open(member) as stream:
                    while stream.read(1 << 20):
                        pass
            except Exception as error:  # zipfile may raise exceptions of any type
                yield f"{member.filename[:100]!r}: {' '.join(str(error).split())[:100]}"


def _members(
    file: Mapped, archive: zipfile.ZipFile
) -> tuple[dict[str, StoredTensor], dict[str, Any]]:
    tensors: dict[str, StoredTensor] = {}
    metadata: dict[str, Any] = {}
    # The objects of zipfile are large, so that the loop frees each object after its use.
    archive.NameToInfo.clear()
    members = archive.infolist()
    members.reverse()
    while members:
        member = members.pop()
        name = member.filename.removesuffix(".npy")
        if name == RECORDS:
            metadata = _json_object(_text_of(archive, member))
        elif name in tensors:
            raise fault(file.path, "a name once", "it again", name)
        else:
            tensors[name] = _member(name, file, archive, member)
    return tensors, metadata


def _text_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str | None:
    """Return the string in an array that has one string, or `None` for all other arrays."""
    with archive.open(member) as stream:
        shape, _, dtype = _read_header(stream)
        if dtype.kind != "U" or shape:
            return None
        order = "be" if dtype.str.startswith(">") else "le"
        reader = TextIOWrapper(stream, f"utf-32-{order}", newline="")
        text = "".join(iter(lambda: reader.read(PIECE), ""))
        return text.rstrip("\0")


def _member(
    name: str, file: Mapped, archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> StoredTensor:
    path, stop = file.path, member.file_size
    source: Any
    loaded: Any = Loaded(path, partial(_unpacked, path, archive, member))
    if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1:
        source, start = file, _first_byte(name, file, member)
        stop += start
        head = _mapped_header(file, start, stop)
    else:
        source, start = loaded, 0
        with archive.open(member) as stream:
            head = stream.read(MAX_HEADER)
    shape, fortran, dtype, length = _npy_header(path, name, head)
    if dtype is None and name != member.filename:
        raise fault(path, "an array of numbers", "bytes", name)
    if _is_number(dtype) and _name_of(dtype) is not None:
        return _array(name, source, (start + length, stop), shape, dtype, fortran)
    format = _format_of(dtype) if _is_number(dtype) else str(dtype or "bytes")
    suffix = member.filename[len(name) :]
    return Other(name, loaded, format, None, shape, 0, member.file_size, suffix=suffix)


def _unpacked(path: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Return the bytes of a member. Raise an error if its size or checksum is wrong."""
    with converting(path, READABLE):
        data = archive.read(member)
        if len(data) != member.file_size:
            raise ValueError(f"{len(data)} of {member.file_size} bytes")
    return data


def _first_byte(name: str, file: Mapped, member: zipfile.ZipInfo) -> int:
    """Return the index of the first byte of a member without compression."""
    # Read the entry before the data. Its fields may have other lengths than the fields of
    # this member at the end of the archive.
    memory, at = file.opened(), member.header_offset
    if memory[at : at + 4] != ZIP or at + 30 > file.size:
        raise fault(file.path, "an entry of a zip file", "other bytes", name)
    start = at + 30 + sum(struct.unpack_from("<HH", memory, at + 26))
    if start + member.file_size > file.size:
        got = f"data up to {start + member.file_size}"
        raise fault(file.path, f"data within {file.size} bytes", got, name)
    return int(start)


_OPENERS: dict[str, Callable[..., Model]] = {
    "npy": _open_npy,
    "npz": _Npz,
    "safetensors": _open_weights,
    "gguf": _open_weights,
}
