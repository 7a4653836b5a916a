# SPDX-License-Identifier: Apache-2.0
"""Read and write model weights in safetensors and GGUF files."""

from __future__ import annotations

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

    from pyquant.weights._elements import Mapped, Tensor

    _Out = TypeVar("_Out", bound=npt.NDArray[Any])
    _Default = TypeVar("_Default")

__all__ = ["Weight", "WeightFile", "open_weights", "write_weights"]

# Key of the safetensors metadata that describes types the format lacks.
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
        Name of the tensor.
    shape : tuple of int
        Shape in NumPy's order. GGUF files store it reversed.
    format : str
        Name of the element type or block format in the file: ``"BF16"``, ``"F8_E4M3"``,
        ``"Q4_K"``, ``"type 99"``. A GGUF type number is a block format only if the blocks
        fill the room between the tensors of that type.
    dtype : numpy.dtype or None
        Type of the elements, from ml_dtypes if NumPy lacks it. `None` for blocks, such as
        Q4_K, and for unknown types.
    raw : ndarray
        Bytes of the tensor in the file, read-only.
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
            Read-only view of the file. It is a PackedArray if an element is a part of a
            byte. `dequantize` accepts both. bfloat16 without the package ml_dtypes: the
            bits, as uint16.

        Raises
        ------
        ValueError
            If the type is unknown or a block format, if rows of 6-bit elements do not fill
            complete words, or if the file is closed.
        ImportError
            If another type needs ml_dtypes and the package is not installed.

        Notes
        -----
        If another program shortens the file, access to the missing bytes ends this program.

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
        dtype = _stored_dtype(name)
        if tensor.order == ">" and name == "bfloat16":
            msg = f"view: expected little-endian bfloat16, got {self!r} (decode swaps it)"
            raise ValueError(msg)
        if name not in dtypes.TYPES or dtypes.TYPES[name].kind in ("real", "integer"):
            dtype = dtype.newbyteorder(tensor.order) if name != "bfloat16" else dtype
        return tensor.raw().view(dtype).reshape(tensor.shape)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """Return the result of `view` to NumPy and to functions that accept arrays."""
        _dtype_of(self._known())  # bits of bfloat16 are not its values
        seen = np.asarray(self.view())
        made = seen if dtype is None else seen.astype(dtype, copy=False)
        return made.copy() if copy and made is seen else made

    def _packed(self, name: str) -> PackedArray:
        tensor = self._tensor
        if dtypes.TYPES[name].bits in (2, 4):
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
            Consecutive rows along the first axis. Default: all rows.
        dtype : dtype_like, optional
            float32, float64, float16, bfloat16, or the type of the elements (not for
            blocks). Default: the dtype of `out`; else float32 for blocks and for floats of
            at most 32 bits; else the type of the elements.
        out : ndarray, optional
            Array for the result, of the exact shape and dtype. Dimensions may have any
            strides, but must not interleave.
        threads : int, optional
            Largest number of threads. Default 1.

        Returns
        -------
        ndarray
            A new array, or `out`.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the format is unknown (`raw` has the bytes), or consists of big-endian blocks
            with integers of several bytes. If rows are not consecutive or do not consist of
            complete blocks, if `out` has another shape or elements that share memory, or if
            the file is closed.
        ImportError
            If a type needs ml_dtypes and the package is not installed.

        Notes
        -----
        Every byte sequence represents numbers or NaN. Conversion to float32 is
        exact, except from int32, int64 and float64. float16 and bfloat16 results are
        rounded from float32, half to even.

        File pages do not remain in the memory of the process after reading. A large tensor
        therefore needs memory for its result only.

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
        from pyquant.weights import _elements

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
        count = _core.integer(threads, "threads", 1)
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
        from pyquant.weights import _elements
        from pyquant.weights.blocks import block_format, swaps

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
        count = _core.integer(threads, "threads", 1)
        to = _place(shape, name, out)
        _elements.decode_blocks(self._tensor, block, first, to, count)
        return to if out is None else out

    def _known(self) -> str:
        """Return pyquant's name of the element type."""
        name = self._tensor.dtype
        if name is None:
            raise self._unknown("a type of single elements")
        return name

    def _unknown(self, expected: str) -> ValueError:
        msg = f"format: expected {expected}, got {self.format} "
        msg += f"(raw has the {self.nbytes} bytes of {self.name[:100]!r})"
        return ValueError(msg)

    def _rows(self, rows: slice | None) -> tuple[tuple[int, ...], int]:
        """Return the shape of some rows, and the position of their first element."""
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
        """Show name, format and shape, not the elements."""
        return f"Weight({self.name!r}, format={self.format!r}, shape={self.shape})"


class WeightFile(Mapping[str, Weight]):
    """
    Read-only mapping from names to the tensors of a file or a set of files.

    Attributes
    ----------
    path : str
        The path that was opened.
    metadata : mapping
        Metadata of the file. safetensors: strings. GGUF: numbers, strings, arrays and lists
        of strings, each read on access. GGUF numbers are NumPy scalars, except uint32,
        float32 and bool.

    Notes
    -----
    A WeightFile is a context manager. Arrays that were read from it stay valid after it is
    closed, and keep it mapped.
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
        """Return a tensor."""
        if name not in self._tensors:
            from pyquant._refused import hint

            end = hint(name, self._tensors, most=3, show=repr)
            raise KeyError(f"name: expected the name of a tensor, got {name!r:.100}{end}")
        return Weight(name, self._tensors[name])

    # Without these methods, a missing name would cost the search for similar names.

    def __contains__(self, name: object) -> bool:
        """Return True if a tensor has this name."""
        return name in self._tensors

    @overload
    def get(self, name: str, default: None = None, /) -> Weight | None: ...
    @overload
    def get(self, name: str, default: Weight, /) -> Weight: ...
    @overload
    def get(self, name: str, default: _Default, /) -> Weight | _Default: ...
    def get(self, name: str, default: object = None, /) -> object:
        """Return a tensor, or `default` if no tensor has this name."""
        tensor = self._tensors.get(name)
        return default if tensor is None else Weight(name, tensor)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names, in the order of the file."""
        return iter(self._tensors)

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self._tensors)

    def load(self, name: str) -> npt.NDArray[Any] | PackedArray | QParams:
        """
        Read an object that `pyquant.write_weights` wrote.

        Parameters
        ----------
        name : str
            The name that was passed to `pyquant.write_weights`.

        Returns
        -------
        ndarray, PackedArray or QParams
            An object that equals the written one, in new memory. For other tensors,
            including blocks, the array of their elements.

        Raises
        ------
        KeyError
            If the name does not exist.
        ValueError
            If the metadata of the file is wrong, or the type is unknown.
        ImportError
            If the type needs ml_dtypes and the package is not installed.

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
        from pyquant.weights import _saved

        return _saved.load(self, name)

    def close(self) -> None:
        """Close the file."""
        for file in self._files:
            file.close()

    def __enter__(self) -> WeightFile:
        """Return the file, which is closed at the end of the `with` block."""
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
        """Show path and number of tensors."""
        return f"WeightFile({self.path!r}, {len(self)} tensors)"


def open_weights(path: str | os.PathLike[str]) -> WeightFile:
    """
    Open a safetensors or GGUF file without reading its tensors.

    Parameters
    ----------
    path : str or path-like
        A ``.safetensors`` file; an ``.index.json`` whose files are in its folder or below;
        or a GGUF file of version 2 or 3, in either byte order. For a GGUF model in several
        files, the first file. For other extensions, the first bytes decide between GGUF and
        safetensors.

    Returns
    -------
    WeightFile
        A mapping from names to `Weight`.

    Raises
    ------
    ValueError
        If the content is wrong; the message states file, tensor and byte.
    OSError
        If the file cannot be read.

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
    from pyquant.weights import _elements

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
        _join(tensors, more, other)
    due = metadata.get("split.tensors.count", len(tensors))
    if len(files) > 1 and due != len(tensors):
        raise ValueError(f"{path}: expected {due} tensors, got {len(tensors)}")
    return WeightFile(path, files, tensors, metadata)


def _open_index(path: str) -> WeightFile:
    """Open the tensors that an index lists, and no other tensors of its files."""
    from pyquant.weights import _elements, _safetensors

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
        Names to arrays of any strides, or to `Weight` objects of a file of equal kind.
        Also to pairs of the name ``"bfloat16"`` and a float32 array, which is rounded half
        to even. safetensors: also to `PackedArray` and `QParams`, which `WeightFile.load`
        reads.
        GGUF: also to pairs of a format (a `BlockFormat` or its name) and the uint8 bytes of
        its blocks, with blocks along the last axis.
    metadata : mapping, optional
        safetensors: strings to strings. GGUF: strings to strings, numbers, arrays and lists
        of strings. Python integers become uint32 or int32 if they fit, and floats become
        float32 if that is exact. NumPy scalars keep their types, and so do the values of
        `WeightFile.metadata`. ``split.no``, ``split.count`` and ``split.tensors.count`` are
        written only if the name of the file is the name of a part.

    Raises
    ------
    TypeError
        If the file format does not support the type of a value or array.
    ValueError
        If the path has another extension, or a shape is wrong.
    OSError
        If the file cannot be written, or `path` is a folder, FIFO, socket or device. An
        existing file is then unchanged.

    Notes
    -----
    safetensors supports float8_e4m3fn, float8_e5m2, their fnuz forms, float8_e8m0fnu,
    bfloat16 and, packed, float4_e2m1fn, float6_e2m3fn and float6_e3m2fn. All other narrow
    types are written as bytes, with the name of the type in the metadata.

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
    from pyquant.weights import _saved

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


def _stored_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of stored elements; bfloat16 without ml_dtypes is uint16."""
    try:
        return _dtype_of(name)
    except ImportError:
        if name != "bfloat16":
            raise
        return np.dtype("<u2")


def _is_exact(name: str) -> bool:
    """Return True if float32 would lose information of the type."""
    row = dtypes.TYPES.get(name)
    return row is None or row.kind == "integer" or name == "float64"


def _result_type(dtype: npt.DTypeLike | None, out: npt.NDArray[Any] | None) -> str | None:
    """Return the name of the type that `dtype` or `out` selects, if any."""
    name = None
    if dtype is not None:
        name = dtypes.requested(dtype)
        if name is None:
            from pyquant._refused import hint_of_type

            got = f"{dtypes.shown(dtype)}{hint_of_type(dtype, REALS)}"
            raise TypeError(f"dtype: expected a type of numbers, got {got}")
    if out is None:
        return name
    if not isinstance(out, np.ndarray) or _core.is_masked(out):
        got = "a masked one" if isinstance(out, np.ndarray) else type(out).__name__
        raise TypeError(f"out: expected a NumPy array, got {got}")
    out = np.ndarray.view(out, np.ndarray)  # a subclass may report another dtype
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
    """Return the array for the result, after all checks and before any write."""
    from pyquant.weights import _elements

    if out is None:
        return np.empty(shape, _dtype_of(name))
    to = _elements.plain_out(out)
    if to.shape != shape:
        raise ValueError(f"out: expected shape {shape}, got {to.shape}")
    return to
