# SPDX-License-Identifier: Apache-2.0
"""Open files of arrays and weights, and read their tensors a few rows at a time."""

from __future__ import annotations

import json
import os
import struct
import sys
import zipfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from io import BytesIO, TextIOWrapper
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from pyquant import _core, dtypes
from pyquant.cli._errors import Refused
from pyquant.cli._logical import Logical, Shaped, logical
from pyquant.weights._elements import Mapped, Tensor, open_file, plain_out, sized
from pyquant.weights.files import Weight, open_weights

if TYPE_CHECKING:
    from types import TracebackType

    import numpy.typing as npt

__all__ = [
    "EXTENSIONS",
    "RECORDS",
    "Logical",
    "Model",
    "ModelTensor",
    "Other",
    "kind_of",
    "logical",
    "open_model",
]

# Kinds of files by their extension.
EXTENSIONS = {
    ".npy": "npy",
    ".npz": "npz",
    ".safetensors": "safetensors",
    ".index.json": "safetensors",
    ".gguf": "gguf",
    ".onnx": "onnx",
}
# The member of a .npz file that holds metadata as a JSON string.
RECORDS = "__pyquant__"
NPY, ZIP = b"\x93NUMPY", b"PK\x03\x04"
PIECE = 1 << 16  # characters of metadata that are read at once
MAX_HEADER = 1 << 16  # bytes of the header of a .npy file; NumPy writes a few hundred


class ModelTensor(Protocol):
    """A tensor of a file, not yet read, with the attributes of `pyquant.Weight`."""

    @property
    def name(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def format(self) -> str: ...
    @property
    def dtype(self) -> np.dtype[Any] | None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def ndim(self) -> int: ...
    def decode(
        self,
        rows: slice | None = None,
        *,
        dtype: Any = None,
        out: Any = None,
        threads: int = 1,
    ) -> npt.NDArray[Any]: ...


class Model(Mapping[str, ModelTensor]):
    """
    Map names to the tensors of a file or a folder; a context manager.

    Attributes
    ----------
    path : str
        The opened file.
    kind : {"npy", "npz", "safetensors", "gguf"}
        Kind of the file.
    metadata : mapping
        Metadata of the file.
    paths : tuple of str
        All files of the model.
    shards : mapping
        The name that the file of each tensor gets in a folder; empty for one file.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        tensors: Mapping[str, ModelTensor],
        metadata: Mapping[str, Any],
        close: Callable[[], None],
        *,
        paths: tuple[str, ...] = (),
        shards: Mapping[str, str] | None = None,
    ) -> None:
        self.path: str = path
        self.kind: str = kind
        self.metadata: Mapping[str, Any] = metadata
        self.paths: tuple[str, ...] = paths or (path,)
        self.shards: Mapping[str, str] = shards or {}
        self._tensors, self._close = tensors, close

    def __getitem__(self, name: str) -> ModelTensor:
        """Return a tensor."""
        return self._tensors[name]

    def __contains__(self, name: object) -> bool:
        """Return true if a tensor has this name, without the search for similar names."""
        return name in self._tensors

    def get(self, name: str, default: Any = None, /) -> Any:
        """Return a tensor, or `default`."""
        return self._tensors.get(name, default)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of the file."""
        return iter(self._tensors)

    def __len__(self) -> int:
        """Count the tensors."""
        return len(self._tensors)

    @property
    def absences(self) -> tuple[str, ...]:
        """Why weights of the file are not tensors of the model."""
        return ()

    def faults(self) -> Iterator[str]:
        """Yield the faults of the file that its structure does not show."""
        return iter(())

    def channels(self, name: str) -> int:
        """Return the axis of a tensor whose indices are the outputs of its operator."""
        return 0

    def close(self) -> None:
        """Close the file."""
        self._close()

    def __enter__(self) -> Model:
        """Return the model; the end of the block closes it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()


def open_model(path: str, kind: str | None = None) -> Model:
    """
    Open a file without reading its tensors.

    Parameters
    ----------
    path : str
        A file with an extension of `EXTENSIONS`, a folder with one ``.index.json`` or one
        ``.safetensors`` file, or ``-`` for a .npy or .npz file on stdin.
    kind : str, optional
        Kind of the file. Default: by its name, or by its first bytes.

    Returns
    -------
    Model
        The tensors by name.

    Raises
    ------
    Refused, ValueError
        If the file is malformed; the message is one line and names the file.
    OSError
        If the file cannot be read.
    """
    if path == "-":
        return _open_stdin(kind)
    if os.path.isdir(path):
        path = _in_folder(path)
    kind = kind or _kind_by_content(path) or kind_of(path)
    return _OPENERS[kind](path)


def kind_of(path: str, what: str = "FILE") -> str:
    """Return the kind of a file by its name."""
    for extension, kind in EXTENSIONS.items():
        if path.lower().endswith(extension):
            return kind
    expected = ", ".join(EXTENSIONS)
    raise Refused(f"{what}: expected a name that ends with {expected}, got {path!r}")


def _kind_by_content(path: str) -> str | None:
    """Return the kind of a file by its first bytes, if its name has no known extension."""
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
    """Copy stdin to a temporary file, because its bytes are read twice."""
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
    file = open_weights(path)
    kind = "safetensors"
    if not path.endswith(".json") and file._files[0].opened()[:4] == b"GGUF":
        kind = "gguf"
    paths = tuple(one.path for one in file._files)
    shards = {}
    if path.endswith(".json"):
        paths = (path, *paths)
        folder = os.path.dirname(path)
        names = {p: os.path.relpath(p, folder or ".") for p in paths[1:]}
        # Files of OUT are beside its index, with a name that has no folder.
        names = {p: name.replace(os.sep, "-") for p, name in names.items()}
        shards = {n: names[t.file.path] for n, t in file._tensors.items()}
    metadata = _own_metadata(file) if path.endswith(".json") else file.metadata
    return Model(path, kind, file, metadata, file.close, paths=paths, shards=shards)


def _own_metadata(file: Any) -> Mapping[str, Any]:
    """Merge the metadata of an index and of its files."""
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


def _open_npy(path: str, shown: str | None = None) -> Model:
    file = Mapped(path)
    file.path = shown or path
    name = "array" if shown == "-" else os.path.basename(path)
    if name.lower().endswith(".npy") and len(name) > 4:
        name = name[:-4]
    try:
        tensor = _npy_tensor(name, file, 0, file.size)
    except BaseException:
        file.close()
        raise
    return Model(file.path, "npy", {name: tensor}, {}, file.close)


def _read_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type of an array."""
    # Version 3 differs in names of fields only, and an array of numbers has no fields.
    old, format = np.lib.format.read_magic(stream) == (1, 0), np.lib.format
    read = format.read_array_header_1_0 if old else format.read_array_header_2_0
    return read(stream)


@lru_cache(maxsize=256)
def _parsed(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order and type, and the number of bytes before the data."""
    stream = BytesIO(data)
    return (*_read_header(stream), stream.tell())


def _npy_header(
    path: str, name: str, data: bytes
) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order, type and the number of bytes before the data."""
    if not data.startswith(NPY):
        raise _NoNumbers(path, name, (), "bytes")
    try:
        shape, fortran, dtype, length = _parsed(data)
    except Exception as error:  # a broken header raises anything, even errors of tokenize
        got = " ".join(str(error).split())[:100] or type(error).__name__
        raise _fault(path, name, "a .npy file that NumPy can read", got) from None
    if not sized(shape) or any(n < 0 for n in shape):
        raise _fault(path, name, "a shape that 64 bits count", str(shape)[:100])
    if dtype.names is not None or dtype.subdtype is not None or dtype.kind in "OSUmM":
        raise _NoNumbers(path, name, shape, str(dtype))
    return shape, fortran, dtype, length


def _fault(path: str, name: str, expected: str, got: str) -> Refused:
    return Refused(f"{path}: tensor {name[:100]!r}: expected {expected}, got {got}")


class _NoNumbers(Refused):
    """An array of other elements, or bytes that are no array."""

    def __init__(self, path: str, name: str, shape: tuple[int, ...], format: str) -> None:
        super().__init__(str(_fault(path, name, "an array of numbers", format)))
        self.shape, self.format = shape, format


def _npy_tensor(name: str, file: Mapped, start: int, stop: int) -> ModelTensor:
    """Return the array in a part of a file that begins with a header."""
    memory = file.opened()
    wide = memory[start + 6 : start + 7] != b"\1"  # 4 bytes for the size of the header
    sizes = memory[start + 8 : start + 10 + 2 * wide]
    length = min(8 + len(sizes) + int.from_bytes(sizes, "little"), MAX_HEADER)
    header = bytes(memory[start : min(stop, start + length)])
    shape, fortran, dtype, length = _npy_header(file.path, name, header)
    file.has_read(start, start + length)
    begin, nbytes = start + length, prod(shape) * dtype.itemsize
    if begin + nbytes > stop:
        got = f"{max(stop - begin, 0)}"
        raise _fault(file.path, name, f"{nbytes} bytes of data", got)
    stored = _stored(file, shape[::-1] if fortran else shape, dtype, begin)
    if fortran and len(shape) > 1:
        return Turned(name, Weight(name, stored), shape)
    return Weight(name, stored)


def _stored(file: Any, shape: tuple[int, ...], dtype: np.dtype[Any], start: int) -> Tensor:
    """Describe the stored elements."""
    known, format = _name_of(dtype), _format_of(dtype)
    nbytes = prod(shape) * dtype.itemsize
    order: Literal["<", ">"] = ">" if dtype.byteorder == ">" else "<"
    return Tensor(file, format, known, shape, start, nbytes, order)


@lru_cache(maxsize=256)
def _name_of(dtype: np.dtype[Any]) -> str | None:
    """Return the name of a type that tensors of files can have."""
    name = dtype.newbyteorder("=").name
    known = name in dtypes.TYPES or name in ("bool", "complex64")
    return name if known else None


def _format_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a type for users. A type without a name in NumPy is bytes."""
    unnamed = dtype.kind == "V"
    return f"V{dtype.itemsize}" if unnamed else dtype.newbyteorder("=").name


class Turned(Shaped):
    """An array in Fortran order, which is read completely for each band."""

    def __init__(self, name: str, weight: Weight, shape: tuple[int, ...]) -> None:
        self.name: str = name
        self.shape: tuple[int, ...] = shape
        self._weight = weight

    @property
    def format(self) -> str:
        """Type name in the file."""
        return self._weight.format

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Type of the elements."""
        return self._weight.dtype

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self._weight.nbytes

    def decode(
        self,
        rows: slice | None = None,
        *,
        dtype: Any = None,
        out: Any = None,
        threads: int = 1,
    ) -> npt.NDArray[Any]:
        """Return the values of some rows, like `Weight.decode`."""
        view = np.asarray(self._weight.view()).T[slice(None) if rows is None else rows]
        name = dtypes.requested(dtype if dtype is not None else getattr(out, "dtype", None))
        if name is None:
            small = view.dtype.kind == "f" and view.dtype.itemsize <= 4
            name = "float32" if small else view.dtype.newbyteorder("=").name
        made: npt.NDArray[Any] = _core.cast(np.ascontiguousarray(view), name)
        tensor = self._weight._tensor
        tensor.file.has_read(tensor.start, tensor.start + tensor.nbytes)
        if out is None:
            return made
        to: npt.NDArray[Any] = out
        plain_out(to)[...] = made
        return to


# ---- .npz ----


class Bytes:
    """Bytes in memory with the interface of a mapped file."""

    def __init__(self, path: str, data: bytes) -> None:
        self.path, self.data, self.size = path, data, len(data)

    def opened(self) -> bytes:
        """Return all bytes."""
        return self.data

    def has_read(self, start: int, stop: int) -> None:
        """Do nothing, because the bytes stay in memory."""


class Deflated(Shaped):
    """A compressed member of a .npz file, which is unpacked in order."""

    def __init__(
        self,
        name: str,
        archive: zipfile.ZipFile,
        member: zipfile.ZipInfo,
        path: str,
    ) -> None:
        self.name: str = name
        self._archive, self._member, self._path = archive, member, path
        self._stream: Any = None
        with _unpacking(path), self._opened() as stream:
            start = stream.read(MAX_HEADER)
        self.shape, self._fortran, self._dtype, self._start = _npy_header(path, name, start)
        if _name_of(self._dtype) is None:
            raise _NoNumbers(path, name, self.shape, _format_of(self._dtype))
        if self._start + self.nbytes > member.file_size:
            got = f"{member.file_size - self._start}"
            raise _fault(path, name, f"{self.nbytes} bytes of data", got)

    def _opened(self) -> Any:
        return self._archive.open(self._member)

    @property
    def format(self) -> str:
        """Type name in the file."""
        return self.dtype.name

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""
        return self._dtype.newbyteorder("=")

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return prod(self.shape) * self._dtype.itemsize

    def decode(
        self,
        rows: slice | None = None,
        *,
        dtype: Any = None,
        out: Any = None,
        threads: int = 1,
    ) -> npt.NDArray[Any]:
        """Return the values of some rows, like `Weight.decode`."""
        if self._fortran and self.ndim > 1:
            data = Bytes(self._path, self._read(0, self.nbytes))
            whole = Weight(self.name, _stored(data, self.shape[::-1], self._dtype, 0))
            turned = Turned(self.name, whole, self.shape)
            return turned.decode(rows, dtype=dtype, out=out, threads=threads)
        shape, first = self.shape, 0
        if rows is not None:
            first, stop, _ = rows.indices(shape[0])
            shape = (max(stop - first, 0), *shape[1:])
        each = prod(self.shape[1:]) * self._dtype.itemsize
        data = Bytes(
            self._path, self._read(first * each, prod(shape) * self._dtype.itemsize)
        )
        weight = Weight(self.name, _stored(data, shape, self._dtype, 0))
        return weight.decode(dtype=dtype, out=out, threads=threads)

    def _read(self, start: int, nbytes: int) -> bytes:
        """Return bytes; consecutive calls unpack every byte once."""
        if self._stream is None:
            self._stream = self._opened()
        with _unpacking(self._path):
            self._stream.seek(self._start + start)
            data: bytes = self._stream.read(nbytes)
        if len(data) != nbytes:
            raise _fault(self._path, self.name, f"{nbytes} bytes", f"{len(data)}")
        return data


class Other(Shaped):
    """A member of a .npz file without known numbers, which is copied byte by byte."""

    dtype = None

    def __init__(
        self,
        archive: zipfile.ZipFile,
        member: zipfile.ZipInfo,
        path: str,
        shape: tuple[int, ...],
        format: str,
    ) -> None:
        self.name, self.suffix = _split(member.filename)
        self.shape, self.format, self.nbytes = shape, format, member.file_size
        self._archive, self._member, self._path = archive, member, path

    def pieces(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the bytes of the member in pieces."""
        with _unpacking(self._path):
            yield from _pieces(self._archive, self._member)

    def decode(self, *rows: Any, **how: Any) -> npt.NDArray[Any]:
        """Raise ValueError, because the elements are no numbers."""
        raise ValueError(f"{self.name[:100]!r}: expected numbers, got {self.format}")


def _split(filename: str) -> tuple[str, str]:
    """Split the name of a member into the name of the array and the extension."""
    name = filename.removesuffix(".npy")
    return name, filename[len(name) :]


def _pieces(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield the bytes of a member; the end checks their checksum."""
    with archive.open(member) as stream:
        while data := stream.read(1 << 20):
            yield np.frombuffer(data, np.uint8)


@contextmanager
def _unpacking(path: str) -> Iterator[None]:
    """Convert the errors of a broken archive to `Refused`."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:  # of zipfile, zlib, lzma and bz2, and struct's
        got = " ".join(str(error).split())[:100] or type(error).__name__
        expected = "a .npz file that NumPy can read"
        raise Refused(f"{path}: expected {expected}, got {got}") from None


def _open_npz(path: str, shown: str | None = None) -> Model:
    file = Mapped(path)
    file.path = shown or path
    archive = None
    try:
        with _unpacking(file.path):
            archive = zipfile.ZipFile(path)
            tensors, metadata = _members(file, archive)
    except BaseException:
        _close(file, archive)
        raise
    return _Npz(archive, file, tensors, metadata)


class _Npz(Model):
    """The members of a .npz file."""

    def __init__(
        self,
        archive: zipfile.ZipFile,
        file: Mapped,
        tensors: Mapping[str, ModelTensor],
        metadata: Mapping[str, Any],
    ) -> None:
        close = partial(_close, file, archive)
        super().__init__(file.path, "npz", tensors, metadata, close)
        self._archive = archive

    def faults(self) -> Iterator[str]:
        """Yield the wrong checksums. Tensors read mapped members without this check."""
        archive = zipfile.ZipFile(self._archive.fp)  # type: ignore[arg-type]
        for member in archive.infolist():
            try:
                deque(_pieces(archive, member), 0)
            except Exception as error:  # of zipfile and its decoders
                yield f"{member.filename[:100]!r}: {' '.join(str(error).split())[:100]}"


def _members(
    file: Mapped, archive: zipfile.ZipFile
) -> tuple[dict[str, ModelTensor], dict[str, Any]]:
    tensors: dict[str, ModelTensor] = {}
    metadata: dict[str, Any] = {}
    # Objects of zipfile are large. Free each after its use.
    archive.NameToInfo.clear()
    members = archive.infolist()
    members.reverse()
    while members:
        member = members.pop()
        name, _ = _split(member.filename)
        if name == RECORDS:
            metadata = _json_object(_text_of(archive, member))
        elif name in tensors:
            raise _fault(file.path, name, "a name once", "it again")
        else:
            tensors[name] = _member(name, file, archive, member)
    return tensors, metadata


def _close(file: Mapped, archive: zipfile.ZipFile | None) -> None:
    if archive is not None:
        archive.close()
    file.close()


def _text_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str | None:
    """Return the text of an array with one string."""
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
) -> ModelTensor:
    try:
        if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
            return Deflated(name, archive, member, file.path)
        made = _stored_member(name, file, member)
        if made.dtype is not None:
            return made
        shape, format = made.shape, made.format
    except _NoNumbers as error:
        if error.format == "bytes" and name != member.filename:
            raise
        shape, format = error.shape, error.format
    return Other(archive, member, file.path, shape, format)


def _stored_member(name: str, file: Mapped, member: zipfile.ZipInfo) -> ModelTensor:
    # The extra fields before the data may differ from the fields at the end of the archive.
    memory, at = file.opened(), member.header_offset
    if memory[at : at + 4] != ZIP or at + 30 > file.size:
        raise _fault(file.path, name, "an entry of a zip file", "other bytes")
    lengths = struct.unpack_from("<HH", memory, at + 26)
    start = at + 30 + sum(lengths)
    stop = start + member.file_size
    if stop > file.size:
        expected = f"data within {file.size} bytes"
        raise _fault(file.path, name, expected, f"data up to {stop}")
    return _npy_tensor(name, file, start, stop)


def _open_onnx(path: str) -> Model:
    from pyquant.cli._onnx import OnnxModel

    return OnnxModel(path)


_OPENERS: dict[str, Callable[..., Model]] = {
    "npy": _open_npy,
    "npz": _open_npz,
    "safetensors": _open_weights,
    "gguf": _open_weights,
    "onnx": _open_onnx,
}
