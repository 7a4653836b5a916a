# SPDX-License-Identifier: Apache-2.0
"""Files that are written beside their final names, in any order, and may be resumed."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import prod
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pyquant import _gguf, _safetensors
from pyquant._elements import Item, bits_of
from pyquant.cli._errors import Refused
from pyquant.cli._models import RECORDS, kind_of

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "KINDS",
    "LAYOUTS",
    "File",
    "Output",
    "Part",
    "check_paths",
    "kind_of_output",
    "sharded_files",
]

INTERVAL = 0.2  # seconds between two notes of what is finished


class Part(NamedTuple):
    """A tensor of a file that is written; `type` of its elements, or of blocks."""

    name: str
    type: str
    shape: tuple[int, ...]
    nbytes: int

    @classmethod
    def of(cls, name: str, type: str, shape: tuple[int, ...]) -> Part:
        """One of single elements."""
        return cls(name, type, shape, -(-prod(shape) * bits_of(type) // 8))

    def item(self) -> Item:
        """What the modules of the formats make headers of."""
        blocks = self.type in _gguf.FORMATS and self.type not in _safetensors.FORMATS
        bits = 8 if blocks else bits_of(_safetensors.FORMATS.get(self.type, self.type))
        none = np.empty(0, np.uint8)
        return Item(self.name, self.type, self.shape, self.nbytes, bits, none)


class File:
    """
    A file, of which every byte has its place before the first one is written.

    Parameters
    ----------
    path : str
        Its final name.
    pieces : iterable of (int, bytes)
        What it has besides tensors, and where.
    places : mapping of str to int
        Where the tensors begin.
    size : int
        Its bytes.
    closing : callable, optional
        From sums (CRC-32) of the tensors, by their names, to more pieces.
    seeds : mapping of str to int, optional
        What the sums begin with.
    """

    def __init__(
        self,
        path: str,
        pieces: Iterable[tuple[int, bytes]],
        places: Mapping[str, int],
        size: int,
        closing: Callable[[Mapping[str, int]], Iterable[tuple[int, bytes]]] | None = None,
        seeds: Mapping[str, int] | None = None,
    ) -> None:
        self.path, self.pieces, self.places = path, list(pieces), places
        self.size, self.closing, self.seeds = size, closing, seeds or {}

    @property
    def beside(self) -> str:
        """Its name as long as it is not whole."""
        return f"{self.path}.part"


def _safetensors_file(path: str, parts: list[Part], metadata: Mapping[str, Any]) -> File:
    said = {key: text for key, text in metadata.items() if isinstance(text, str)}
    head, items = _safetensors.header([part.item() for part in parts], said)
    return _placed(path, head, items, 1)


def _gguf_file(path: str, parts: list[Part], metadata: Mapping[str, Any]) -> File:
    said = _gguf.unsplit(path, metadata)
    head, items, alignment = _gguf.header([part.item() for part in parts], said)
    return _placed(path, head, items, alignment)


def _placed(path: str, head: bytes, items: list[Item], alignment: int) -> File:
    places, at = {}, len(head)
    for item in items:
        places[item.name] = at
        at += -(-item.nbytes // alignment) * alignment
    return File(path, [(0, head)], places, at)


def _npy_head(part: Part) -> bytes:
    from io import BytesIO

    with suppress(TypeError):
        head = BytesIO()
        descr = np.lib.format.dtype_to_descr(np.dtype(part.type).newbyteorder("<"))
        said = {"descr": descr, "fortran_order": False, "shape": part.shape}
        np.lib.format.write_array_header_1_0(head, said)
        return head.getvalue()
    raise Refused(f"tensor {part.name[:100]!r}: expected a type of NumPy, got {part.type}")


def _npy_file(path: str, parts: list[Part], metadata: Mapping[str, Any]) -> File:
    if len(parts) != 1:
        raise Refused(f"OUT: expected .npz for {len(parts)} arrays, got {path!r}")
    head = _npy_head(parts[0])
    size = len(head) + parts[0].nbytes
    return File(path, [(0, head)], {parts[0].name: len(head)}, size)


# Signature, version, flags (names of UTF-8), method, time and date, sum, and the sizes, of
# which the last words are elsewhere; the lengths of the name and of what follows it.
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_CENTRAL = struct.Struct("<4sHHHHHHIIIHHHHHII")
_END64 = struct.Struct("<4sQHHIIQQQQ")
_LOCATOR = struct.Struct("<4sIQI")
_END = struct.Struct("<4sHHHHIIH")
_DATE = 0x21  # the first that there is
_MORE = 0xFFFFFFFF


def _check_member(name: str) -> None:
    """Refuse names that other names would be read as, or that no entry has room for."""
    expected = None
    if name == RECORDS or "\0" in name:
        expected = f"a name without NUL, and not {RECORDS!r}, for .npz"
    elif len(f"{name}.npy".encode()) > 0xFFFF:
        expected = "a name of less than 64 KiB for .npz"
    if expected is not None:
        raise Refused(f"tensor {name[:100]!r}: expected {expected}, got another")


def _npz_file(path: str, parts: list[Part], metadata: Mapping[str, Any]) -> File:
    """A zip file without compression, as NumPy writes it."""
    for part in parts:
        _check_member(part.name)
    heads = {part.name: _npy_head(part) for part in parts}
    sizes = {part.name: len(heads[part.name]) + part.nbytes for part in parts}
    if metadata:
        # An array of one string, which ends the file.
        text = np.array(json.dumps(dict(metadata), separators=(",", ":")))
        said = Part(RECORDS, text.dtype.str, (), text.nbytes)
        heads[RECORDS] = _npy_head(said) + text.tobytes()
        sizes[RECORDS] = len(heads[RECORDS])
    pieces: list[tuple[int, bytes]] = []
    seeds = {name: zlib.crc32(head) for name, head in heads.items()}
    places, starts, at = {}, {}, 0
    for name, head in heads.items():
        encoded = f"{name}.npy".encode()
        starts[name] = at
        begin = at + _LOCAL.size + len(encoded) + 20
        pieces.append((begin, head))
        places[name] = begin + len(head)
        at = begin + sizes[name]

    def closing(sums: Mapping[str, int]) -> Iterable[tuple[int, bytes]]:
        directory = b""
        for name, start in starts.items():
            encoded, size = f"{name}.npy".encode(), sizes[name]
            found = sums.get(name, seeds[name])
            common = (45, 0x800, 0, 0, _DATE, found, _MORE, _MORE, len(encoded))
            local = _LOCAL.pack(b"PK\3\4", *common, 20)
            extra = struct.pack("<HHQQ", 1, 16, size, size)
            yield start, local + encoded + extra
            extra = struct.pack("<HHQQQ", 1, 24, size, size, start)
            entry = _CENTRAL.pack(b"PK\1\2", 45, *common, 28, 0, 0, 0, 0, _MORE)
            directory += entry + encoded + extra
        count, place = len(starts), at
        end64 = (44, 45, 45, 0, 0, count, count, len(directory), place)
        directory += _END64.pack(b"PK\6\6", *end64)
        directory += _LOCATOR.pack(b"PK\6\7", 0, place + end64[7], 1)
        directory += _END.pack(b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, _MORE, _MORE, 0)
        yield place, directory

    return File(path, pieces, places, at, closing, seeds)


# A kind of file: from its path, parts and metadata to every byte's place.
LAYOUTS: dict[str, Callable[[str, list[Part], Mapping[str, Any]], File]] = {
    "safetensors": _safetensors_file,
    "gguf": _gguf_file,
    "npz": _npz_file,
    "npy": _npy_file,
}
# And models of ONNX, to which there is more than their parts.
KINDS = (*LAYOUTS, "onnx")


def sharded_files(
    path: str,
    parts: list[Part],
    shards: Mapping[str, str],
    metadata: Callable[[set[str]], Mapping[str, Any]],
) -> list[File]:
    """
    Lay out files of safetensors and the index that names them.

    Parameters
    ----------
    path : str
        The index.
    parts : list of Part
        All tensors.
    shards : mapping
        The file, without its folder, of each.
    metadata : callable
        From the names of tensors to what their file says of them.

    Returns
    -------
    list of File
        The index is the last.
    """
    folder, files = os.path.dirname(path), []
    for name in dict.fromkeys(shards[part.name] for part in parts):
        own = [part for part in parts if shards[part.name] == name]
        said = metadata({part.name for part in own})
        files.append(_safetensors_file(os.path.join(folder, name), own, said))
    total = sum(part.nbytes for part in parts)
    places = {part.name: shards[part.name] for part in parts}
    index = {"metadata": {"total_size": total}, "weight_map": places}
    text = json.dumps(index, indent=2, ensure_ascii=False).encode() + b"\n"
    return [*files, File(path, [(0, text)], {}, len(text))]


def check_paths(files: list[File], inputs: Iterable[str], force: bool) -> None:
    """Refuse to write over what is read, and over what is there unless that is wanted."""
    inputs = list(inputs)
    for file in files:
        for path in (file.path, file.beside, f"{file.beside}.json"):
            for given in inputs:
                if _is_same(path, given):
                    raise Refused(f"OUT: expected another file than IN, got {path!r}")
        if os.path.isdir(file.path):
            raise Refused(f"OUT: expected a file, got a folder, {file.path!r}")
        if os.path.lexists(file.path) and not force:
            raise Refused(f"{file.path}: expected no such file (-f overwrites it), got one")
    state = f"{files[-1].beside}.json"
    if force or _is_state(state):  # what an interrupted run has left may go
        return
    for path in (*(file.beside for file in files), state):
        if os.path.lexists(path):
            raise Refused(f"{path}: expected no such file (-f overwrites it), got one")


def _is_state(path: str) -> bool:
    """Whether it is what `Output` notes."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            start = file.readline(1 << 10)
    except OSError:
        return False
    return not os.path.islink(path) and (not start or "plan" in _row(start))


def _is_same(a: str, b: str) -> bool:
    try:
        return os.path.samefile(a, b)
    except OSError:
        return False


class Output:
    """
    Files under way; a context manager that leaves them whole, or none.

    Parameters
    ----------
    files : list of File
        What is written. The last one takes its name last.
    plan : str
        What tells this plan from others, for going on.
    resume : bool
        Whether to go on with what another process has left, and to leave it on errors.
    """

    def __init__(self, files: list[File], plan: str, *, resume: bool) -> None:
        self.files: list[File] = files
        self.finished: set[str] = set()
        self._plan, self._resume = plan, resume
        self._state = f"{files[-1].beside}.json"
        self._open: dict[str, Any] = {}
        self._where = {name: file for file in files for name in file.places}
        self._sums: dict[str, int] = {}
        self._pending: list[dict[str, Any]] = []
        self._noted = monotonic()
        self._notes: Any = None

    def __enter__(self) -> Output:
        """Open the files, with room for all that comes."""
        going_on = self._resume and self._read_state()
        try:
            for file in self.files:
                self._open[file.path] = _opened(file.beside)
        except BaseException:
            self._close()
            raise
        try:
            for file in self.files:
                self._prepare(file, going_on)
            if os.path.islink(self._state):
                raise Refused(f"{self._state}: expected a file, got a symbolic link")
            mode = "a" if going_on else "w"
            self._notes = open(self._state, mode, encoding="utf-8")
            if not going_on:
                self._note({"plan": self._plan})
        except BaseException:
            self._close()
            if not going_on:
                self._remove()
            raise
        return self

    def _prepare(self, file: File, going_on: bool) -> None:
        stream = self._open[file.path]
        if not going_on:
            stream.truncate(0)
            _reserve(stream, file.size, file.beside)
        for at, data in file.pieces:
            _write(stream, at, data, file.beside)

    def _read_state(self) -> bool:
        """Whether there is something to go on with: of the same plan, and all of it."""
        try:
            with open(self._state, encoding="utf-8", errors="replace") as file:
                lines = file.read().split("\n")[:-1]  # the last one may not be whole
        except FileNotFoundError:
            return False
        rows = [_row(line) for line in lines]
        if not rows or not all(os.path.exists(file.beside) for file in self.files):
            return False
        if rows[0].get("plan") != self._plan:
            expected = "what --resume goes on with to be of the same files and options"
            raise Refused(f"{self._state}: expected {expected}, got others")
        for row in rows[1:]:
            sums = row.get("sums")
            if isinstance(row.get("done"), str) and isinstance(sums, dict):
                self.finished.add(row["done"])
                self._sums |= sums
        return True

    def write(self, part: str, at: int, data: npt.NDArray[Any]) -> None:
        """Write bytes of a tensor, which follow the last ones of it."""
        file = self._where[part]
        array = np.ascontiguousarray(data)
        bytes_: Any = array.reshape(-1).view(np.uint8).data if array.size else b""
        _write(self._open[file.path], file.places[part] + at, bytes_, file.beside)
        if file.closing is not None:
            before = self._sums[part] if at else file.seeds[part]
            self._sums[part] = zlib.crc32(bytes_, before)

    def finish(self, name: str, parts: Iterable[str]) -> None:
        """Remember that a tensor is whole, all parts of it."""
        sums = {part: self._sums[part] for part in parts if part in self._sums}
        self._pending.append({"done": name, "sums": sums})
        if monotonic() - self._noted > INTERVAL:
            self._note_pending()

    def _note_pending(self) -> None:
        """Data first: what is noted is on the disk."""
        for stream in self._open.values():
            os.fsync(stream.fileno())
        for row in self._pending:
            self._note(row)
        self._pending.clear()
        self._noted = monotonic()

    def _note(self, row: dict[str, Any]) -> None:
        self._notes.write(json.dumps(row) + "\n")
        self._notes.flush()

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        """Give the files their names, if nothing has failed."""
        try:
            if kind is None:
                self._commit()
                return
            if issubclass(kind, KeyboardInterrupt) or self._resume:
                with suppress(OSError):
                    self._note_pending()
                return
        except BaseException:
            if not self._resume:
                self._remove()
            raise
        finally:
            self._close()
        self._remove()

    def _commit(self) -> None:
        for file in self.files:
            stream = self._open[file.path]
            if file.closing is not None:
                for at, data in file.closing(self._sums):
                    _write(stream, at, data, file.beside)
            os.fsync(stream.fileno())
        if os.name == "nt":  # where open files keep their names
            self._close()
        for file in self.files:  # while locked: nobody else begins to write them
            os.replace(file.beside, file.path)
        os.unlink(self._state)
        _sync_folder(os.path.dirname(self.files[-1].path))

    def _close(self) -> None:
        for stream in self._open.values():
            stream.close()
        if self._notes is not None:
            with suppress(OSError):
                self._notes.close()

    def _remove(self) -> None:
        for path in (*(file.beside for file in self.files), self._state):
            with suppress(OSError):
                os.unlink(path)


def _row(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _opened(path: str) -> Any:
    """A file for this process alone, where there are locks; with what is in it already."""
    if os.path.islink(path):  # whose target is another's
        raise Refused(f"{path}: expected a file, got a symbolic link")
    stream = open(os.open(path, os.O_RDWR | os.O_CREAT, 0o666), "r+b", buffering=0)  # noqa: SIM115
    with suppress(ImportError):
        import fcntl

        free = True
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            free = False
        except OSError:
            pass  # of a file system without locks
        if not (free and _is_at(stream, path)):
            stream.close()
            expected = "a file that no other process is writing"
            raise Refused(f"{path}: expected {expected}, got one that is")
    return stream


def _is_at(stream: Any, path: str) -> bool:
    """Whether it has not got another name since it was opened."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), os.stat(path))
    except OSError:
        return False


def _reserve(stream: Any, size: int, path: str) -> None:
    """Room on the disk, so that a full one is known before the work is done."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(stream.fileno(), 0, size)
        except OSError as error:
            import errno

            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise OSError(error.errno, error.strerror, path) from None
    stream.truncate(size)


def _write(stream: Any, at: int, data: bytes | memoryview, path: str) -> None:
    try:
        stream.seek(at)
        left = memoryview(data)
        while left:
            left = left[stream.write(left) :]
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None


def _sync_folder(path: str) -> None:
    """The names are on the disk, too, where folders can be opened."""
    with suppress(OSError):
        folder = os.open(path or ".", os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def kind_of_output(path: str, kind: str | None) -> str:
    """What is written, by its name unless that is said."""
    found = kind or kind_of(path, "OUT")
    if found not in KINDS:
        raise Refused(f"OUT: expected one of {', '.join(KINDS)}, got {found}")
    return found
