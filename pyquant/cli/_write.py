# SPDX-License-Identifier: Apache-2.0
"""Write output files under temporary names, and rename them when they are complete."""

from __future__ import annotations

import errno
import json
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile, ZipInfo

import numpy as np

from pyquant.cli._errors import Refused, check_free, fault
from pyquant.cli._models import RECORDS
from pyquant.weights import _gguf, _safetensors
from pyquant.weights._elements import Part, copied_bytes
from pyquant.weights._saved import naming, replacing

if TYPE_CHECKING:
    from io import BufferedWriter

    from pyquant._typing import Array


PIECE = 1 << 13  # number of characters of metadata that are written at once
# The type of a copied member of a .npz file is MEMBER and the extension of the member.
MEMBER = "member"


class File:
    """An output file of `size` bytes with the final name `path`.

    `places` maps the name of a tensor to the offset of the next byte to write. `head` has
    the bytes at the start of the file.
    """

    def __init__(
        self, path: str, places: dict[str, int], size: int, head: bytes | bytearray = b""
    ) -> None:
        self.path, self.places, self.size, self.head = path, places, size, head

    @contextmanager
    def writing(self, stream: BufferedWriter) -> Iterator[None]:
        """Reserve disk space and write `head`. The `with` block then writes the tensors."""
        self._stream = stream
        _reserve(stream, self.size)
        stream.write(self.head)
        self.head = b""  # free the memory of the header
        yield

    def write(self, name: str, data: memoryview) -> None:
        """Append bytes to the data of a tensor."""
        self._stream.seek(self.places[name])
        self._stream.write(data)
        self.places[name] += len(data)


class Archive(File):
    """
    A .npz file without compression. zipfile writes one member after the other.

    Data of a tensor stays in memory until the tensor is complete. If there is metadata, the
    member ``__pyquant__`` contains the metadata as JSON.
    """

    def __init__(self, path: str, parts: list[Part], metadata: Mapping[str, Any]) -> None:
        for name in (part.name for part in parts):
            if name == RECORDS or "\0" in name:
                expected = f"a name without NUL, and not {RECORDS!r}, for .npz"
                raise fault(None, expected, "another", name)
            if len(f"{name}.npy".encode()) > 0xFFFF:
                expected = "a name of less than 64 KiB for .npz"
                raise fault(None, expected, "another", name)
        self._parts, self._metadata = deque(parts), dict(metadata)
        size = sum(len(_npy_head(part)) + part.nbytes for part in parts)
        super().__init__(path, dict.fromkeys((part.name for part in parts), 0), size)

    @contextmanager
    def writing(self, stream: BufferedWriter) -> Iterator[None]:
        """Open the archive. The `with` block then writes the tensors."""
        _reserve(stream, self.size)
        with ZipFile(stream, "w") as self._archive:
            self._waiting: dict[str, bytearray] = {}
            yield
            if self._metadata:
                text = json.dumps(self._metadata, separators=(",", ":"))
                pieces = (text[at : at + PIECE] for at in range(0, len(text), PIECE))
                head = _head_of(f"U{len(text)}", ())
                self._add(RECORDS, ".npy", head, (p.encode("utf-32-le") for p in pieces))
        stream.truncate()

    def write(self, name: str, data: memoryview) -> None:
        """Append bytes to the data of a tensor."""
        self._waiting.setdefault(name, bytearray()).extend(data)
        while self._parts:  # write complete members in order
            part = self._parts[0]
            if len(self._waiting.get(part.name, b"")) < part.nbytes:
                return
            self._parts.popleft()
            suffix = (
                part.format[len(MEMBER) :] if part.format.startswith(MEMBER) else ".npy"
            )
            whole = self._waiting.pop(part.name, b"")
            self._add(part.name, suffix, _npy_head(part), (whole,))

    def _add(self, name: str, suffix: str, head: bytes, pieces: Iterable[Any]) -> None:
        self._archive.NameToInfo.clear()  # free memory that pyquant does not need
        info = ZipInfo(f"{name}{suffix}", (1980, 1, 1, 0, 0, 0))
        with self._archive.open(info, "w", force_zip64=True) as member:
            for piece in chain((head,), pieces):
                member.write(piece)


def _safetensors_file(path: str, parts: list[Part], metadata: Mapping[str, Any]) -> File:
    texts = {key: text for key, text in metadata.items() if isinstance(text, str)}
    return _placed(path, *_safetensors.header(parts, texts), 1)


def _gguf_file(path: str, parts: list[Part], metadata: Mapping[str, Any]) -> File:
    kept = _gguf.unsplit(path, metadata)
    return _placed(path, *_gguf.header(parts, kept))


def _placed(path: str, head: bytes | bytearray, parts: list[Part], alignment: int) -> File:
    places, at = {}, len(head)
    for part in parts:
        places[part.name] = at
        at += -(-part.nbytes // alignment) * alignment
    return File(path, places, at, head)


def _npy_file(path: str, parts: list[Part], metadata: Mapping[str, Any]) -> File:
    if len(parts) != 1:
        raise Refused(f"OUT: expected .npz for {len(parts)} arrays, got {path!r}")
    head = _npy_head(parts[0])
    return File(path, {parts[0].name: len(head)}, len(head) + parts[0].nbytes, head)


@lru_cache(maxsize=256)
def _head_of(type: str, shape: tuple[int, ...]) -> bytes:
    head = BytesIO()
    descr = np.lib.format.dtype_to_descr(np.dtype(type).newbyteorder("<"))
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, fields)
    return head.getvalue()


def _npy_head(part: Part) -> bytes:
    return b"" if part.format.startswith(MEMBER) else _head_of(part.format, part.shape)


# Kind of file -> function that returns an output file for a path, tensors and metadata.
LAYOUTS: dict[str, Callable[[str, list[Part], Mapping[str, Any]], File]] = {
    "safetensors": _safetensors_file,
    "gguf": _gguf_file,
    "npz": Archive,
    "npy": _npy_file,
}


def sharded_files(
    path: str,
    parts: list[Part],
    shards: Mapping[str, str],
    metadata: Callable[[set[str]], Mapping[str, Any]],
) -> list[File]:
    """Return safetensors files and their index.

    `shards` maps the name of a tensor to the name of its file in the folder of `path`. The
    index is the last file. It therefore gets its final name after all other files.
    """
    folder, files = os.path.dirname(path), []
    for name in dict.fromkeys(shards[part.name] for part in parts):
        own = [part for part in parts if shards[part.name] == name]
        texts = metadata({part.name for part in own})
        files.append(_safetensors_file(os.path.join(folder, name), own, texts))
    total = sum(part.nbytes for part in parts)
    places = {part.name: shards[part.name] for part in parts}
    index = {"metadata": {"total_size": total}, "weight_map": places}
    text = json.dumps(index, indent=2, ensure_ascii=False).encode() + b"\n"
    return [*files, File(path, {}, len(text), text)]


def check_paths(files: list[File], inputs: Iterable[str], force: bool) -> None:
    """Raise Refused if an output file would replace an input file.

    Also raise Refused if a file exists, unless `force` is true.
    """
    inputs = list(inputs)
    for file in files:
        if any(_is_same(file.path, given) for given in inputs):
            raise Refused(f"OUT: expected another file than IN, got {file.path!r}")
        check_free(file.path, force)


def _is_same(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


class Output:
    """
    A context manager that writes files under temporary names.

    At the end of the `with` block, all files are renamed in order. After an error, Ctrl-C,
    SIGTERM or SIGHUP, all temporary files are removed. After SIGKILL, temporary files
    remain. In all cases, a final name has either the old file or the complete new file.
    """

    def __init__(self, files: list[File]) -> None:
        self.files: list[File] = files

    def __enter__(self) -> Output:
        """Open a temporary file for each file, in the folder of its final name."""
        with ExitStack() as stack:
            stack.callback(_sync_folder, os.path.dirname(self.files[-1].path))
            paths = (file.path for file in self.files)
            streams = stack.enter_context(replacing(*paths))
            for file, stream in zip(self.files, streams, strict=True):
                with naming(file.path):
                    stack.enter_context(file.writing(stream))
            self._stack = stack.pop_all()
        return self

    def write(self, name: str, values: Array) -> None:
        """Append the elements of an array to a tensor, in little-endian byte order."""
        file = next(file for file in self.files if name in file.places)
        with naming(file.path):
            for piece in copied_bytes(values, 8 * values.dtype.itemsize):
                file.write(name, piece.data)

    def __exit__(self, *raised: Any) -> None:
        """Rename the temporary files. If the block raised an error, remove the files."""
        with naming(self.files[-1].path):
            self._stack.__exit__(*raised)


def _reserve(stream: BufferedWriter, size: int) -> None:
    """Reserve space on the disk, so that a full disk raises an error before any work."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(stream.fileno(), 0, size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
    stream.truncate(size)


def _sync_folder(path: str) -> None:
    """Flush the entries of a folder to the disk, if the system can open folders."""
    with suppress(OSError):
        folder = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
