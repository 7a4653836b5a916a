# SPDX-License-Identifier: Apache-2.0
"""Read and write model weights in safetensors and GGUF files."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

import numpy as np

from pyquant import _core, dtypes
from pyquant.packed import PackedArray
from pyquant.qparams import QParams

if TYPE_CHECKING:
    from types import TracebackType

    import numpy.typing as npt

    from pyquant._elements import Mapped, Tensor

    _Out = TypeVar("_Out", bound=npt.NDArray[Any])

__all__ = ["Weight", "WeightFile", "open_weights", "write_weights"]

# The key of safetensors' metadata that says what its own types do not.
RECORDS = "pyquant"
REALS = ("float32", "float64", "float16", "bfloat16")
EXTENSIONS = (".safetensors", ".gguf")


def __dir__() -> list[str]:
    return sorted(__all__)


class Weight:
    """
    A tensor in a file that is read on demand.

    Attributes
    ----------
    name : str
        Its name.
    shape : tuple of int
        The extents, in NumPy's order: those of GGUF reversed.
    format : str
        Its type as the file has it: ``"BF16"``, ``"F8_E4M3"``, ``"Q4_K"``, ``"type 99"``.
        A number of GGUF is taken for a format of blocks only if these fill the room that
        tensors of that number have.
    dtype : numpy.dtype or None
        The type of its elements, of ml_dtypes where NumPy has none. None for blocks, as
        those of Q4_K, and for types that are not known.
    raw : ndarray
        Its bytes, of the file itself, read-only.
    nbytes, size, ndim : int
        Number of bytes, of elements, of dimensions.
    """

    __slots__ = ("_tensor", "name")

    def __init__(self, name: str, tensor: Tensor) -> None:
        self.name: str = name
        self._tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in NumPy's order."""
        return self._tensor.shape

    @property
    def format(self) -> str:
        """Name of the element type or block format in the file."""
        return self._tensor.format

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Type of the elements, or None for blocks and unknown types."""
        name = self._tensor.dtype
        return None if name is None else _dtype_of(name)

    @property
    def nbytes(self) -> int:
        """Number of bytes."""
        return self._tensor.nbytes

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self._tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._tensor.shape)

    @property
    def raw(self) -> npt.NDArray[np.uint8]:
        """Bytes of the tensor in the file, read-only."""
        return self._tensor.raw()

    def view(self) -> npt.NDArray[Any] | PackedArray:
        """
        Return the elements as stored in the file, without a copy.

        Returns
        -------
        ndarray or PackedArray
            Read-only. Packed where elements are parts of a byte, which `dequantize` takes,
            too.

        Raises
        ------
        ValueError
            If only the bytes are known; if rows of elements of 6 bits are not whole words;
            or if the file is closed.
        ImportError
            If NumPy has no such type, and ml_dtypes is not installed.

        Notes
        -----
        A file that others shorten ends the program that looks at what is no longer there.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/model.safetensors"
        >>> pq.write_weights(path, {"w": np.arange(6, dtype=np.int16).reshape(2, 3)})
        >>> pq.open_weights(path)["w"].view()
        array([[0, 1, 2],
               [3, 4, 5]], dtype=int16)
        """
        tensor, name = self._tensor, self._known()
        if name in dtypes.TYPES and dtypes.TYPES[name].bits < 8:
            return self._packed(name)
        dtype = _dtype_of(name)
        if tensor.order == ">" and name == "bfloat16":
            msg = f"view: expected little-endian bfloat16, got {self!r} (decode swaps it)"
            raise ValueError(msg)
        if name not in dtypes.TYPES or dtypes.TYPES[name].kind in ("real", "integer"):
            dtype = dtype.newbyteorder(tensor.order) if name != "bfloat16" else dtype
        return tensor.raw().view(dtype).reshape(tensor.shape)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """What `view` gives, to NumPy and to functions that take arrays."""
        seen = np.asarray(self.view())
        made = seen if dtype is None else seen.astype(dtype, copy=False)
        return made.copy() if copy and made is seen else made

    def _packed(self, name: str) -> PackedArray:
        tensor = self._tensor
        if dtypes.TYPES[name].bits == 4:
            return PackedArray(tensor.raw(), name, tensor.shape)
        if not tensor.shape or tensor.shape[-1] % 16:
            msg = f"view: expected a last extent that is a multiple of 16, got {self!r} "
            msg += f"(decode with dtype={name!r} makes an array)"
            raise ValueError(msg)
        words = (*tensor.shape[:-1], tensor.shape[-1] * 6 // 32)
        data = tensor.raw().view("<i4").reshape(words)
        return PackedArray(data, name, tensor.shape, layout="words")

    @overload
    def decode(
        self,
        rows: slice | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: _Out,
        threads: SupportsIndex = 1,
    ) -> _Out: ...
    @overload
    def decode(
        self,
        rows: slice | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]: ...
    def decode(
        self,
        rows: slice | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: npt.NDArray[Any] | None = None,
        threads: SupportsIndex = 1,
    ) -> npt.NDArray[Any]:
        """
        Convert all elements, or some rows, to real numbers.

        Parameters
        ----------
        rows : slice, optional
            Rows along the first axis, one after the other. Default all.
        dtype : dtype_like, optional
            float32, float64, float16 or bfloat16, or the type of the elements itself, which
            blocks have not. Default that of `out`, else float32 for floats of at most 32
            bits and blocks, else their own.
        out : ndarray, optional
            Where the numbers go: of that type and the shape of the result, with any
            strides that keep the elements of one dimension clear of those of the next.
        threads : int, optional
            How many threads may share the work.

        Returns
        -------
        ndarray
            `out`, or a new array.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If the format is not known: `raw` has its bytes; or blocks are big-endian, and
            have integers of several bytes. If rows are not next to each other, or not whole
            blocks, `out` has another shape or elements that share memory, or the file is
            closed.
        ImportError
            If a type is one of ml_dtypes, which is not installed.

        Notes
        -----
        Every byte stands for a number, or for NaN. To float32 nothing is rounded but int32,
        int64 and float64; float16 and bfloat16 are made of float32, half to even.

        Pages of the file that have been read do not stay in the memory of the process: what
        a large tensor needs is its result.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/model.safetensors"
        >>> pq.write_weights(path, {"w": np.float16([[1, 2], [3, 4], [5, 6]])})
        >>> with pq.open_weights(path) as f:
        ...     f["w"].decode(slice(1, 3))
        array([[3., 4.],
               [5., 6.]], dtype=float32)
        """
        from pyquant import _elements

        if self._tensor.dtype is None:
            return self._decode_blocks(rows, dtype, out, threads)
        source, name = self._known(), _result_type(dtype, out)
        shape, first = self._rows(rows)
        if name is None:
            name = source if _is_exact(source) else "float32"
        if name not in (source, *REALS) or (name != source and source == "complex64"):
            expected = f"{', '.join(REALS)} or {source}"
            msg = f"dtype: expected {expected} for {self.format}, got {name}"
            raise TypeError(msg)
        count = _threads_of(threads)
        to = _place(shape, name, out)
        _elements.decode(self._tensor, first, to, name, count)
        return to if out is None else out

    def _decode_blocks(
        self,
        rows: slice | None,
        dtype: npt.DTypeLike | None,
        out: npt.NDArray[Any] | None,
        threads: SupportsIndex,
    ) -> npt.NDArray[Any]:
        from pyquant import _elements
        from pyquant.blocks import block_format, swaps

        if not self._tensor.blocks:
            raise self._unknown("one that has a decoder")
        block = block_format(self.format)
        if self._tensor.order == ">" and not swaps(block.name):
            raise self._unknown("little-endian blocks, or scales alone of several bytes")
        name = _result_type(dtype, out) or "float32"
        if name not in REALS:
            expected = f"{', '.join(REALS)} for {self.format}"
            raise TypeError(f"dtype: expected {expected}, got {name}")
        shape, first = self._rows(rows)
        if prod(shape) and (first % block.block_size or prod(shape) % block.block_size):
            expected = f"whole blocks of {block.block_size} for {self.format}"
            got = f"{prod(shape)} elements from {first} on"
            raise ValueError(f"rows: expected {expected}, got {got}")
        count = _threads_of(threads)
        to = _place(shape, name, out)
        _elements.decode_blocks(self._tensor, block, first, to, count)
        return to if out is None else out

    def _known(self) -> str:
        """The type of the elements, as pyquant has it."""
        name = self._tensor.dtype
        if name is None:
            raise self._unknown("a type of single elements")
        return name

    def _unknown(self, expected: str) -> ValueError:
        msg = f"format: expected {expected}, got {self.format} "
        msg += f"(raw has the {self.nbytes} bytes of {self.name[:100]!r})"
        return ValueError(msg)

    def _rows(self, rows: slice | None) -> tuple[tuple[int, ...], int]:
        """The shape of some rows, and the number of the first element."""
        shape = self._tensor.shape
        if rows is None:
            return shape, 0
        if not isinstance(rows, slice):
            raise TypeError(f"rows: expected a slice, got {type(rows).__name__}")
        if not shape:
            raise ValueError("rows: expected None for a tensor without axes, got a slice")
        try:
            chosen = range(*rows.indices(shape[0]))
        except (TypeError, ValueError) as error:
            raise TypeError(f"rows: expected a slice of integers, got {error}") from None
        if chosen.step != 1:
            raise ValueError(f"rows: expected a step of 1, got {chosen.step}")
        inner = shape[1:]
        return (len(chosen), *inner), chosen.start * prod(inner)

    def __repr__(self) -> str:
        """Show what it is, not its elements."""
        return f"Weight({self.name!r}, format={self.format!r}, shape={self.shape})"


class WeightFile(Mapping[str, Weight]):
    """
    Read-only mapping from names to the tensors of a file or a set of files.

    Attributes
    ----------
    path : str
        What was opened.
    metadata : mapping
        What the file says of itself: strings of safetensors; of GGUF numbers, strings,
        arrays and lists of strings, each made when it is asked for. Numbers of other types
        than uint32, float32 and bool are NumPy's scalars.

    Notes
    -----
    It is a context manager. When it is closed arrays that were made of it stay valid, and
    keep the file.
    """

    def __init__(
        self,
        path: str,
        files: list[Mapped],
        tensors: dict[str, Tensor],
        metadata: Mapping[str, Any],
    ) -> None:
        self.path: str = path
        self.metadata: Mapping[str, Any] = metadata
        self._files, self._tensors = files, tensors

    def __getitem__(self, name: str) -> Weight:
        """Find a tensor."""
        return Weight(name, self._tensors[name])

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of the file."""
        return iter(self._tensors)

    def __len__(self) -> int:
        """Count the tensors."""
        return len(self._tensors)

    def load(self, name: str) -> npt.NDArray[Any] | PackedArray | QParams:
        """
        Read an array, PackedArray or QParams that `write_weights` wrote.

        Parameters
        ----------
        name : str
            The name that it had there.

        Returns
        -------
        ndarray, PackedArray or QParams
            An equal one. Of other tensors, blocks among them, the array of their elements.

        Raises
        ------
        KeyError
            If there is no such name.
        ValueError
            If the file does not say what it has to; or only the bytes are known.
        ImportError
            If NumPy has no such type, and ml_dtypes is not installed.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/model.safetensors"
        >>> x = np.float32([[1, -2, 3, 4]])
        >>> p = pq.choose_qparams(x, dtype="int4", axis=0)
        >>> q = p.quantize(x, packed=True)
        >>> pq.write_weights(path, {"w": q, "w.params": p})
        >>> with pq.open_weights(path) as f:
        ...     f.load("w") == q, f.load("w.params") == p
        (True, True)
        """
        from pyquant import _saved

        return _saved.load(self, name)

    def close(self) -> None:
        """Close the file."""
        for file in self._files:
            file.close()

    def __enter__(self) -> WeightFile:
        """Begin a block at whose end the file is closed."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Show how many there are."""
        return f"WeightFile({self.path!r}, {len(self)} tensors)"


def open_weights(path: str | os.PathLike[str]) -> WeightFile:
    """
    Open a safetensors or GGUF file without reading its tensors.

    Parameters
    ----------
    path : str or path-like
        A ``.safetensors`` file; a ``.index.json`` beside the files that it names; a GGUF
        file of version 2 or 3, of either byte order, of several files the first. Another
        name is that of a GGUF file if that begins so, else of a safetensors file.

    Returns
    -------
    WeightFile
        A mapping of names to `Weight`.

    Raises
    ------
    ValueError
        If the file is not what it should be: the message names it, the tensor and the byte.
    OSError
        If it cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/model.gguf"
    >>> x = np.ones((2, 3), np.float32)
    >>> pq.write_weights(path, {"w": x}, metadata={"general.name": "small"})
    >>> with pq.open_weights(path) as f:
    ...     f["w"], f.metadata["general.name"]
    (Weight('w', format='F32', shape=(2, 3)), 'small')
    """
    name = _path_of(path)
    if name.endswith(".json"):
        return _open_index(name)
    files: list[Mapped] = []
    try:
        return _open_one(name, files)
    except BaseException:
        for file in files:
            file.close()
        raise


def _open_one(path: str, files: list[Mapped]) -> WeightFile:
    from pyquant import _elements

    files.append(_elements.Mapped(path))
    memory = files[0].opened()
    if memory[:4] != b"GGUF" and not path.endswith(".gguf"):
        from pyquant import _safetensors

        return WeightFile(path, files, *_safetensors.read(files[0]))
    from pyquant import _gguf

    tensors, metadata = _gguf.read(files[0])
    for number, other in enumerate(_gguf.parts_of(path, metadata), 1):
        files.append(_elements.Mapped(other))
        more, said = _gguf.read(files[-1])
        if said.get("split.no") != number:
            expected = f"{other}: expected split.no {number}"
            raise ValueError(f"{expected}, got {said.get('split.no')}")
        _join(tensors, more, other)
    due = metadata.get("split.tensors.count", len(tensors))
    if len(files) > 1 and due != len(tensors):
        raise ValueError(f"{path}: expected {due} tensors, got {len(tensors)}")
    return WeightFile(path, files, tensors, metadata)


def _open_index(path: str) -> WeightFile:
    """What an index names, and nothing else of the files."""
    from pyquant import _elements, _safetensors

    places, metadata = _safetensors.read_index(path)
    found: dict[str, dict[str, Tensor]] = {}
    files: list[Mapped] = []
    try:
        for name in dict.fromkeys(places.values()):
            files.append(_elements.Mapped(os.path.join(os.path.dirname(path), name)))
            found[name] = _safetensors.read(files[-1])[0]
        for tensor, name in places.items():
            if tensor not in found[name]:
                raise _elements.fault(path, 0, f"a tensor of {name}", "none", tensor)
        tensors = {tensor: found[name][tensor] for tensor, name in places.items()}
    except BaseException:
        for file in files:
            file.close()
        raise
    return WeightFile(path, files, tensors, metadata)


def _join(tensors: dict[str, Tensor], more: dict[str, Tensor], path: str) -> None:
    for name, tensor in more.items():
        if name in tensors:
            raise ValueError(
                f"{path}: tensor {name[:100]!r}: expected it once, got it again"
            )
        tensors[name] = tensor


def write_weights(
    path: str | os.PathLike[str],
    weights: Mapping[str, Any],
    *,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """
    Write tensors to a safetensors or GGUF file, replacing it atomically.

    Parameters
    ----------
    path : str or path-like
        Where to: a name that ends with ``.safetensors`` or ``.gguf``. The bytes go to a
        file beside it first, which takes its place at the end.
    weights : mapping
        Names to arrays, of any strides, or to `Weight` of a file of the same kind.
        safetensors: also to `PackedArray` and `QParams`, which `WeightFile.load` reads
        again. GGUF: also to pairs of a format, as `BlockFormat` or its name, and the bytes
        of its blocks, uint8 with blocks along the last axis.
    metadata : mapping, optional
        Of safetensors strings to strings; of GGUF strings to strings, numbers, arrays and
        lists of strings. Python's integers become uint32 or int32 where these hold them,
        and floats float32 where that does; NumPy's scalars keep their types, as does what
        `WeightFile.metadata` has. ``split.no``, ``split.count`` and ``split.tensors.count``
        go to no file but one named as a part.

    Raises
    ------
    TypeError
        If a value is of a kind, or an array of a type, that the file has no place for.
    ValueError
        If the path ends otherwise, or a shape does not fit.
    OSError
        If it cannot be written; then a file that was there is as it was.

    Notes
    -----
    safetensors has float8_e4m3fn, float8_e5m2, their fnuz forms, float8_e8m0fnu, bfloat16
    and, packed, float4_e2m1fn, float6_e2m3fn and float6_e3m2fn. Other narrow types are
    written as the bytes they are, with their name in the metadata.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/model.gguf"
    >>> blocks = np.zeros((2, 3 * 144), np.uint8)
    >>> pq.write_weights(path, {"w": ("Q4_K", blocks)})
    >>> pq.open_weights(path)["w"]
    Weight('w', format='Q4_K', shape=(2, 768))
    """
    from pyquant import _saved

    name = _path_of(path)
    if not name.endswith(EXTENSIONS):
        msg = (
            f"path: expected a name that ends with {' or '.join(EXTENSIONS)}, got {name!r}"
        )
        raise ValueError(msg)
    for what, given in (("weights", weights), ("metadata", metadata)):
        if given is not None and not isinstance(given, Mapping):
            raise TypeError(f"{what}: expected a mapping, got {type(given).__name__}")
    _saved.write(name, weights, dict(metadata or {}))


def _path_of(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise TypeError(f"path: expected a path, got {type(path).__name__}")
    if "\0" in name:
        raise ValueError("path: expected a path without null characters, got one")
    return name


def _dtype_of(name: str) -> np.dtype[Any]:
    return _core.dtype_named(name) if name in dtypes.TYPES else np.dtype(name)


def _is_exact(name: str) -> bool:
    """Whether float32 would lose something that other types keep."""
    row = dtypes.TYPES.get(name)
    return row is None or row.kind == "integer" or name == "float64"


def _result_type(dtype: npt.DTypeLike | None, out: npt.NDArray[Any] | None) -> str | None:
    """The name of the type that is asked for, if any."""
    name = None
    if dtype is not None:
        name = dtypes.requested(dtype)
        if name is None:
            raise TypeError(f"dtype: expected a type of numbers, got {dtypes.shown(dtype)}")
    if out is None:
        return name
    if not isinstance(out, np.ndarray) or _core.is_masked(out):
        got = "a masked one" if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"out: expected a NumPy array, got {got}")
    out = np.ndarray.view(out, np.ndarray)  # subclasses may say what is not so
    found = dtypes.requested(out.dtype)
    if found is None or name not in (None, found):
        expected = name or "a type of numbers in the byte order of the machine"
        raise TypeError(f"out: expected {expected}, got {dtypes.described(out)}")
    if not out.flags.writeable:
        raise ValueError("out: expected a writeable array, got a read-only one")
    return found


def _place(
    shape: tuple[int, ...], name: str, out: npt.NDArray[Any] | None
) -> npt.NDArray[Any]:
    """Where the numbers go: all of it is judged before any is written."""
    from pyquant import _elements

    if out is None:
        return np.empty(shape, _dtype_of(name))
    to = _elements.plain_out(out)
    if to.shape != shape:
        raise ValueError(f"out: expected shape {shape}, got {to.shape}")
    return to


def _threads_of(threads: SupportsIndex) -> int:
    try:
        count = 0 if isinstance(threads, bool) else operator.index(threads)
    except TypeError:
        kind = type(threads).__name__
        raise TypeError(f"threads: expected a positive integer, got {kind}") from None
    if count < 1:
        raise ValueError(f"threads: expected a positive integer, got {threads!r}")
    return count
