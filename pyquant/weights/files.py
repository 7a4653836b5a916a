# SPDX-License-Identifier: Apache-2.0
"""Read and write model weights in safetensors and GGUF files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, Literal, Self, SupportsIndex, overload

import numpy as np

from pyquant import _check, _core, dtypes
from pyquant._check import fail, integer
from pyquant.packed import PackedArray
from pyquant.qparams import QParams
from pyquant.weights import _elements

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import TypeVar  # typing.TypeVar may lack the argument `default`

    from pyquant._typing import Array, ArrayLike, Bytes
    from pyquant.weights._elements import Mapped
    from pyquant.weights.blocks import BlockFormat

    _Out = TypeVar("_Out", bound=Array, default=Array)
    _Default = TypeVar("_Default")

__all__ = ["StoredTensor", "WeightFile", "open_weights", "write_weights"]
__dir__: object = __all__.copy

# Key in the metadata of a safetensors file. The value describes the tensors whose types the
# format lacks.
RECORDS = "pyquant"
REALS = ("float32", "float64", "float16", "bfloat16")
EXTENSIONS = (".safetensors", ".gguf")


@dataclass(slots=True, eq=False, repr=False)
class StoredTensor:
    """
    A tensor in a file. The elements are read when a method needs them.

    `pyquant.open_weights` creates these objects. The constructor is private.

    Attributes
    ----------
    name : str
        Name of the tensor.
    shape : tuple of int
        Shape in NumPy's order. GGUF files store it reversed.
    format : str
        Name of the element type or block format in the file, for example ``"BF16"``,
        ``"F8_E4M3"`` or ``"Q4_K"``. The name of an unknown GGUF type has its number, for
        example ``"type 99"``. The type is also unknown if blocks of the format with this
        number do not fill the bytes up to the next tensor.
    nbytes : int
        Number of bytes in the file.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.write_weights("model.safetensors", {"w": np.float32([[1, 2], [3, 4]])})
    >>> w = pq.open_weights("model.safetensors")["w"]
    >>> w, w[1:].tolist()
    (StoredTensor('w', format='F32', shape=(2, 2)), [[3.0, 4.0]])
    """

    name: str
    _file: Mapped
    format: str
    _type: str | None  # pyquant's name of the type; None for blocks and unknown types
    shape: tuple[int, ...]
    _start: int
    nbytes: int
    _order: Literal["<", ">"] = "<"
    _blocks: bool = False

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """
        Type of the elements, or None for blocks and unknown types.

        The package ml_dtypes defines the types that NumPy lacks.
        """
        return None if self._type is None else _dtype_of(self._type)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def raw(self) -> npt.NDArray[Any] | PackedArray:
        """
        Elements as the file stores them, read-only and without a copy.

        Elements of less than a byte are in a `pyquant.PackedArray`. In these cases, the
        array contains bytes as uint8: blocks, unknown types, types that need ml_dtypes if
        it is not installed, and 6-bit elements whose rows do not fill 32-bit words. Without
        ml_dtypes, an array of bfloat16 elements contains their bits as uint16.

        If another program shortens the file, access to the missing bytes ends this program.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> pq.write_weights("model.safetensors", {"w": np.int8([1, 2, 3])})
        >>> with pq.open_weights("model.safetensors") as f:
        ...     f["w"].raw
        array([1, 2, 3], dtype=int8)
        """
        name = self._type
        if name is None or (name == "bfloat16" and self._order == ">"):
            return self._bytes()
        row = dtypes.TYPES.get(name)
        if row is not None and row.bits < 8:
            return self._packed(name, row.bits)
        try:
            dtype = _dtype_of(name)
        except ImportError:
            if name != "bfloat16":
                return self._bytes()
            dtype = np.dtype("<u2")
        if row is None or row.kind in ("real", "integer"):
            dtype = dtype.newbyteorder(self._order) if name != "bfloat16" else dtype
        return self._bytes().view(dtype).reshape(self.shape)

    def _bytes(self) -> Bytes:
        """Return the bytes of the tensor, as a view of the file."""
        if self.nbytes == 0:
            return np.frombuffer(b"", np.uint8)
        return np.frombuffer(self._file.opened(), np.uint8, self.nbytes, self._start)

    def _packed(self, name: str, bits: int) -> Bytes | PackedArray:
        data, shape = self._bytes(), self.shape
        if bits != 6:
            return PackedArray(data, name, shape)
        if not shape or shape[-1] % 16:
            return data
        words = data.view("<i4").reshape(*shape[:-1], shape[-1] * 6 // 32)
        return PackedArray(words, name, shape, layout="words")

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> Array:
        """Return the elements as an array, for NumPy and functions that accept arrays."""
        kind, raw = _dtype_of(self._known()), self.raw
        seen = raw if isinstance(raw, np.ndarray) else np.asarray(raw)
        if seen.dtype.newbyteorder("=") != kind:
            seen = self.dequantize(dtype=kind)
        made = seen if dtype is None else seen.astype(dtype, copy=False)
        return made.copy() if copy and made is seen else made

    def __getitem__(self, rows: slice | ArrayLike) -> Array:
        """Return some rows as real numbers, see `dequantize`."""
        return self.dequantize(rows)

    def dequantize(
        self,
        rows: slice | ArrayLike | None = None,
        *,
        dtype: npt.DTypeLike | None = None,
        out: _Out | None = None,
        threads: SupportsIndex = 1,
    ) -> _Out:
        """
        Convert all elements, or some rows, to real numbers.

        The method converts codes in integer and narrow float tensors without scales,
        because other tensors contain the scales. `pyquant.weights.from_tensors` reads codes
        together with scales.

        Parameters
        ----------
        rows : slice or array_like of int, optional
            Indices along the first axis. Default: all.
        dtype : dtype_like, optional
            float32, float64, float16, bfloat16, or the type of the elements (not for
            blocks). Default: the dtype of `out`. Without `out`, the default is float32 for
            blocks and for floats of at most 32 bits, and otherwise the type of the
            elements.
        out : ndarray, optional
            Array for the result, with the shape and dtype of the result. Dimensions may
            have any strides, but must not interleave.
        threads : int, optional
            Largest number of threads. Default 1.

        Returns
        -------
        ndarray
            A new array, or `out`.

        Raises
        ------
        ValueError
            If the format is unknown (`raw` returns the bytes), if blocks are big-endian
            and contain integers of several bytes, if rows do not consist of complete
            blocks, or if the file is closed.

        Notes
        -----
        Every byte sequence represents numbers or NaN. Conversion to float32 is
        exact, except from int32, int64 and float64. float16 and bfloat16 results are
        rounded from float32, half to even.

        The method releases the pages of the file that it has read. A large tensor therefore
        needs memory for its result only.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> x = np.float16([[1, 2], [3, 4], [5, 6]])
        >>> pq.write_weights("model.safetensors", {"w": x})
        >>> with pq.open_weights("model.safetensors") as f:
        ...     f["w"].dequantize([2, 0])
        array([[5., 6.],
               [1., 2.]], dtype=float32)
        """
        name = _result_type(dtype, out)
        block = self._block() if self._type is None else None
        source = str(self._type)
        if name is None:
            row = dtypes.TYPES.get(source)
            loses = row is None or row.kind == "integer" or source == "float64"
            name = source if block is None and loses else "float32"
        known = REALS if block is not None else (*REALS, source)
        if name not in known or (name != source == "complex64"):
            expected = f"{', '.join(REALS)}{'' if block else f' or {source}'}"
            raise fail(TypeError, "dtype", f"{expected} for {self.format}", name)
        size = 1 if block is None else block.block_size
        shape, runs, scattered = self._runs(rows, size)
        for first, part in runs if shape else ():
            count = prod(shape[1:]) * len(range(*part.indices(shape[0])))
            if count and (first % size or count % size):
                expected = f"whole blocks of {size} for {self.format}"
                got = f"{count} elements from {first} on"
                raise fail(ValueError, "rows", expected, got)
        workers = integer(threads, "threads", 1)
        kind = _dtype_of(name)
        to = np.empty(shape, kind) if out is None else _check.out(out, kind, shape)
        if scattered is not None:
            _elements.decode_rows(self, block, scattered, to, name, workers)
        for first, part in runs:
            place = to[part] if shape else to
            _elements.decode(self, block, first, place, name, workers)
        return to if out is None else out  # type: ignore[return-value]

    def _block(self) -> BlockFormat:
        """Return the format of the blocks. Raise an error if pyquant cannot decode it."""
        from pyquant.weights.blocks import block_format, swaps

        if not self._blocks:
            raise self._unknown("a type that pyquant decodes")
        block = block_format(self.format)
        if self._order == ">" and not swaps(block.name):
            expected = f"little-endian blocks of {self.format}"
            raise self._unknown(expected, "big-endian blocks")
        return block

    def _known(self) -> str:
        """Return pyquant's name of the element type. Raise an error if it is unknown."""
        if self._type is None:
            got = f"{self.format}{'; dequantize() decodes it' if self._blocks else ''}"
            raise self._unknown("a known type without blocks", got)
        return self._type

    def _unknown(self, expected: str, got: str | None = None) -> Exception:
        raw = f"raw has the {self.nbytes} bytes of tensor {self.name[:100]!r}"
        return fail(ValueError, "format", expected, f"{got or self.format}; {raw}")

    def _runs(
        self, rows: slice | ArrayLike | None, size: int
    ) -> tuple[tuple[int, ...], list[tuple[int, slice]], Array | None]:
        """Return the shape of the result for selected rows, and how to read the rows.

        The second item has the runs of consecutive rows. A run is a pair of the index of
        its first element in the tensor, and a slice of the rows of the result. The third
        item is an array of row numbers, or `None`. The row numbers replace short runs if a
        row consists of complete bytes and complete blocks of `size` elements.
        """
        shape = self.shape
        if rows is None:
            return shape, [(0, slice(None))], None
        index, inner = _elements.index_of(rows, shape), prod(shape[1:])
        if isinstance(index, slice):
            count = index.stop - index.start
            return (count, *shape[1:]), [(index.start * inner, slice(0, count))], None
        shape, breaks = (len(index), *shape[1:]), np.flatnonzero(np.diff(index) != 1) + 1
        bits = 8 if self._type is None else _elements.bits_of(self._type)
        whole = inner % size == 0 and inner * bits % 8 == 0
        if whole and 0 < len(index) * inner < len(breaks) * _elements.PIECE:
            return shape, [], index
        starts = [0, *breaks.tolist(), len(index)]
        runs = [(int(index[a]) * inner, slice(a, b)) for a, b in pairwise(starts) if a < b]
        return shape, runs, None

    def __repr__(self) -> str:
        """Show the name, the format and the shape, but no elements."""
        return f"StoredTensor({self.name!r}, format={self.format!r}, shape={self.shape})"


class WeightFile(Mapping[str, StoredTensor]):
    """
    Read-only mapping from names to the tensors of a file or a set of files.

    Attributes
    ----------
    path : str
        The path that was opened.
    metadata : mapping
        Metadata of the file. The values in a safetensors file are strings. The values in a
        GGUF file are numbers, strings, arrays and lists of strings, and each access reads
        the value from the file. GGUF numbers of the types uint32, float32 and bool are
        Python numbers. All other GGUF numbers are NumPy scalars.

    Notes
    -----
    A WeightFile is a context manager. Arrays that were read from the file stay valid after
    the file is closed. A view of the file keeps the memory map of the file.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.write_weights("model.safetensors", {"a": np.float32([1, 2]), "b": np.int8([3])})
    >>> with pq.open_weights("model.safetensors") as f:
    ...     {name: f[name].format for name in f}
    {'a': 'F32', 'b': 'I8'}
    """

    def __init__(
        self,
        path: str,
        files: list[Any],
        tensors: dict[str, StoredTensor],
        metadata: Mapping[str, Any],
    ) -> None:
        self.path: str = path
        self.metadata: Mapping[str, Any] = metadata
        self._files, self._tensors = files, tensors

    def __getitem__(self, name: str) -> StoredTensor:
        """Return the tensor with a name."""
        if name not in self._tensors:
            from pyquant._refused import hint

            end = hint(name, self._tensors, most=3, show=repr)
            raise KeyError(f"name: expected the name of a tensor, got {name!r:.100}{end}")
        return self._tensors[name]

    # The methods of Mapping would call __getitem__. It is slow for a missing name, because
    # its error message contains similar names.

    def __contains__(self, name: object) -> bool:
        """Return True if a tensor has this name."""
        return name in self._tensors

    @overload
    def get(self, name: str, default: None = None, /) -> StoredTensor | None: ...
    @overload
    def get(self, name: str, default: StoredTensor, /) -> StoredTensor: ...
    @overload
    def get(self, name: str, default: _Default, /) -> StoredTensor | _Default: ...
    def get(self, name: str, default: object = None, /) -> object:
        """
        Return a tensor, or a default if no tensor has this name.

        Parameters
        ----------
        name : str
            Name of a tensor.
        default : object, optional
            The result if no tensor has this name. Default `None`.

        Returns
        -------
        StoredTensor
            The tensor, or `default`.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> pq.write_weights("model.safetensors", {"w": np.float32([1, 2])})
        >>> with pq.open_weights("model.safetensors") as f:
        ...     f.get("w").shape, f.get("bias")
        ((2,), None)
        """
        return self._tensors.get(name, default)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the tensors, in the order of the file."""
        return iter(self._tensors)

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._tensors)

    def read(self, name: str) -> npt.NDArray[Any] | PackedArray | QParams:
        """
        Read an object that `pyquant.write_weights` wrote.

        Parameters
        ----------
        name : str
            The name that was passed to `pyquant.write_weights`.

        Returns
        -------
        ndarray, PackedArray or QParams
            An object that equals the written object, in new memory. For a tensor that
            pyquant did not write, an array of the elements.

        Raises
        ------
        KeyError
            If the name does not exist.
        ValueError
            If pyquant's entry in the metadata is invalid, or the type is unknown.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> x = np.float32([[1, -2, 3, 4]])
        >>> p = pq.choose_qparams(x, dtype="int4", axis=0)
        >>> q = p.quantize(x, packed=True)
        >>> pq.write_weights("model.safetensors", {"w": q, "w.params": p})
        >>> with pq.open_weights("model.safetensors") as f:
        ...     f.read("w") == q, f.read("w.params") == p
        (True, True)
        """
        from pyquant.weights import _saved

        return _saved.read(self, name)

    def close(self) -> None:
        """
        Close the file.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> pq.write_weights("model.safetensors", {"w": np.float32([1, 2])})
        >>> f = pq.open_weights("model.safetensors")
        >>> w = f["w"].raw
        >>> f.close()
        >>> w
        array([1., 2.], dtype=float32)
        """
        for file in self._files:
            file.close()

    def __enter__(self) -> Self:
        """Return the file. The end of the `with` block closes the file."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the file."""
        self.close()

    def __repr__(self) -> str:
        """Show the path, and the number of tensors."""
        return f"WeightFile({self.path!r}, {len(self)} tensors)"


def open_weights(path: str | os.PathLike[str]) -> WeightFile:
    """
    Open a safetensors or GGUF file without reading its tensors.

    Parameters
    ----------
    path : str or path-like
        One of these files: a ``.safetensors`` file, an ``.index.json`` file, or a GGUF file
        of version 2 or 3, in either byte order. Files that an index names must be in its
        folder or below. If a GGUF model consists of several files, pass the first file. If
        the extension is unknown, the first bytes decide between GGUF and safetensors.

    Returns
    -------
    WeightFile
        A mapping from names to `StoredTensor`.

    Raises
    ------
    ValueError
        If the content is wrong. The message states the file, the tensor, and the index of
        the byte.
    OSError
        If the file cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.ones((2, 3), np.float32)
    >>> pq.write_weights("model.gguf", {"w": x}, metadata={"general.name": "small"})
    >>> with pq.open_weights("model.gguf") as f:
    ...     f["w"], f.metadata["general.name"]
    (StoredTensor('w', format='F32', shape=(2, 3)), 'small')
    """
    name = _path_of(path)
    files: list[Mapped] = []
    try:
        return (_open_index if name.endswith(".json") else _open_one)(name, files)
    except BaseException:
        for file in files:
            file.close()
        raise


def _open_one(path: str, files: list[Mapped]) -> WeightFile:
    files.append(_elements.Mapped(path))
    memory = files[0].opened()
    if memory[:4] != b"GGUF" and not path.endswith(".gguf"):
        from pyquant.weights import _safetensors

        return WeightFile(path, files, *_safetensors.read(files[0]))
    from pyquant.weights import _gguf

    tensors, metadata = _gguf.read(files[0])
    for number, other in enumerate(_gguf.parts_of(path, metadata), 1):
        files.append(_elements.Mapped(other))
        more, said = _gguf.read(files[-1])
        if said.get("split.no") != number:
            expected = f"{other}: expected split.no {number}"
            raise ValueError(f"{expected}, got {said.get('split.no')}")
        for name, tensor in more.items():
            if name in tensors:
                expected = "expected it once, got it again"
                raise ValueError(f"{other}: tensor {name[:100]!r}: {expected}")
            tensors[name] = tensor
    due = metadata.get("split.tensors.count", len(tensors))
    if len(files) > 1 and due != len(tensors):
        raise ValueError(f"{path}: expected {due} tensors, got {len(tensors)}")
    return WeightFile(path, files, tensors, metadata)


def _open_index(path: str, files: list[Mapped]) -> WeightFile:
    """Open all files of an index, and return the tensors that the index lists."""
    from pyquant.weights import _safetensors

    places, metadata = _safetensors.read_index(path)
    found: dict[str, dict[str, StoredTensor]] = {}
    for name in dict.fromkeys(places.values()):
        files.append(_elements.Mapped(os.path.join(os.path.dirname(path), name)))
        found[name] = _safetensors.read(files[-1])[0]
    for tensor, name in places.items():
        if tensor not in found[name]:
            raise _elements.fault(path, 0, f"a tensor of {name}", "none", tensor)
    tensors = {tensor: found[name][tensor] for tensor, name in places.items()}
    return WeightFile(path, files, tensors, metadata)


@_core.default_fpenv
def write_weights(
    path: str | os.PathLike[str],
    weights: Mapping[str, Any],
    *,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """
    Write tensors to a safetensors or GGUF file; overwrite an existing file.

    Parameters
    ----------
    path : str or path-like
        Path that ends with ``.safetensors`` or ``.gguf``. An existing file is overwritten
        without a warning: the bytes are first written to another file in that folder,
        which then replaces `path` atomically.
    weights : mapping
        A mapping from names to values. A value is one of these objects:

        - an array of any strides;
        - a `StoredTensor` from a file of the same kind;
        - a pair of the string ``"bfloat16"`` and a float32 array. The elements are rounded
          to bfloat16, half to even;
        - safetensors only: a `PackedArray` or a `QParams`. `WeightFile.read` returns it;
        - GGUF only: a pair of a format (a `BlockFormat` or its name) and a uint8 array with
          blocks along the last axis.
    metadata : mapping, optional
        safetensors: a mapping from strings to strings. GGUF: a mapping from strings to
        strings, numbers, arrays and lists of strings. Python integers become uint32 or
        int32 if they fit, and floats become float32 if the conversion is exact. NumPy
        scalars and the values of `WeightFile.metadata` keep their types. ``split.no``,
        ``split.count`` and ``split.tensors.count`` are written only if `path` has a name
        like ``model-00001-of-00002.gguf``.

    Raises
    ------
    OSError
        If the file cannot be written, or `path` is a folder, FIFO, socket or device. An
        existing file is then unchanged.

    Notes
    -----
    safetensors files store the types bfloat16, float8_e4m3fn, float8_e5m2, the fnuz
    variants of both, and float8_e8m0fnu. They store float4_e2m1fn, float6_e2m3fn and
    float6_e3m2fn without unused bits. Elements of all other narrow types are written as
    bytes, with the name of the type in the metadata.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> blocks = np.zeros((2, 3 * 144), np.uint8)
    >>> pq.write_weights("model.gguf", {"w": ("Q4_K", blocks)})
    >>> pq.open_weights("model.gguf")["w"]
    StoredTensor('w', format='Q4_K', shape=(2, 768))
    """
    from pyquant.weights import _saved

    name = _path_of(path)
    if not name.endswith(EXTENSIONS):
        expected = f"a name that ends with {' or '.join(EXTENSIONS)}"
        raise fail(ValueError, "path", expected, f"{name!r}")
    for what, given in (("weights", weights), ("metadata", metadata)):
        if given is not None and not isinstance(given, Mapping):
            raise fail(TypeError, what, "a mapping", type(given))
    _saved.write(name, weights, dict(metadata or {}))


def _path_of(path: str | os.PathLike[str]) -> str:
    name = os.fspath(path) if isinstance(path, (str, os.PathLike)) else None
    if not isinstance(name, str):
        raise fail(TypeError, "path", "a path", type(path))
    if "\0" in name:
        raise fail(ValueError, "path", "a path without null characters", "one")
    return name


def _dtype_of(name: str) -> np.dtype[Any]:
    return _core.dtype_named(name) if name in dtypes.TYPES else np.dtype(name)


def _result_type(dtype: npt.DTypeLike | None, out: Array | None) -> str | None:
    """Return the name of the type of `dtype`, or else of `out`, or `None` without both."""
    name = None if dtype is None else dtypes.requested(dtype)
    if name is None and dtype is not None:
        from pyquant._refused import hint_of_type

        got = f"{dtypes.shown(dtype)}{hint_of_type(dtype, REALS)}"
        raise fail(TypeError, "dtype", "a type of numbers", got)
    if name is None and isinstance(out, np.ndarray):
        plain = np.ndarray.view(out, np.ndarray)  # a subclass could return another dtype
        name = dtypes.name_of(plain.dtype) or plain.dtype.name  # without the byte order
    return name
