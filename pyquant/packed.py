# SPDX-License-Identifier: Apache-2.0
"""Arrays of elements smaller than a byte, packed."""

from __future__ import annotations

import operator
import sys
from math import prod
from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import numpy as np

from pyquant import _core

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt
    from _typeshed import ReadableBuffer

    from pyquant._typing import ArrayLike

__all__ = ["PackedArray", "pack"]


def __dir__() -> list[str]:
    return sorted(__all__)


class PackedArray:
    """
    Immutable view of packed codes.

    Elements follow each other in C order, the first in the low bits of a byte; the last
    byte is filled up with zeros. That is the layout of ONNX.

    Parameters
    ----------
    data : ndarray
        The bytes, uint8 and one-dimensional. Not copied: to change them changes the array.
    dtype : dtype_like
        int4, uint4, int2, uint2 or float4_e2m1fn.
    shape : int or tuple of int
        The shape of the unpacked array.
    layout : str, optional
        Only "onnx", so far.

    Attributes
    ----------
    data : ndarray
        The bytes, read-only.
    dtype : numpy.dtype
        The element type, of ml_dtypes: without it this is an ImportError, and nothing else
        that a packed array does needs it but to unpack elements.
    shape : tuple of int
        The shape of the unpacked array.
    layout : str
        How elements lie in the bytes.
    nbytes, size, ndim : int
        Number of packed bytes, of elements, of dimensions. There is no ``itemsize``:
        elements are parts of a byte.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `data` has not as many bytes as `shape` needs.

    Notes
    -----
    ``len(p)``, ``p[i]``, ``p[a:b]`` and iteration go along the first axis, as in NumPy, and
    copy nothing: rows and slices are packed arrays on the same bytes. So a part has to
    begin with a byte, and to end with one or with the array. Where rows are whole bytes any
    part does, and a step other than 1 makes a copy; where they are not, some do not, and
    are a `ValueError`. Of one dimension ``p[i]`` is the element, a scalar of ml_dtypes, and
    iteration goes over all of them.

    ``==`` compares the packed arrays as a whole: type, shape, layout and bytes, and is True
    or False. There is no truth value and no ``in``. What NumPy makes of a packed array is
    unpacked.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> p = pq.quantize([1.0, -2.0, 3.0], 1.0, dtype="int4", packed=True)
    >>> p
    PackedArray(dtype='int4', shape=(3,), layout='onnx', nbytes=2)
    >>> pq.dequantize(p, 1.0)
    array([ 1., -2.,  3.], dtype=float32)

    A row of weights without a copy:

    >>> w = np.arange(-8, 8, dtype=np.float32).reshape(2, 8)
    >>> p = pq.quantize(w, 1.0, dtype="int4", packed=True)
    >>> pq.dequantize(p[1], 1.0)
    array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """

    __slots__ = ("_data", "_layout", "_name", "_shape")

    _data: npt.NDArray[np.uint8]
    _name: str
    _shape: tuple[int, ...]
    _layout: str

    # Python would compare with each row, NumPy with each element.
    __contains__ = None

    def __init__(
        self,
        data: npt.NDArray[np.uint8],
        dtype: npt.DTypeLike,
        shape: SupportsIndex | Sequence[SupportsIndex],
        layout: str = "onnx",
    ) -> None:
        """Check that everything fits together."""
        if hasattr(self, "_layout"):
            msg = "data: expected no assignment, PackedArray is immutable"
            raise AttributeError(msg)
        name = _core.packed_name(dtype)
        extents = _extents(shape)
        if _core.is_masked(data):
            msg = "data: expected an array without a mask, got a masked array"
            raise TypeError(msg)
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8:
            got = data.dtype if isinstance(data, np.ndarray) else _kind(data)
            msg = f"data: expected a uint8 array, got {got}"
            raise TypeError(msg)
        if data.ndim != 1:
            msg = f"data: expected one dimension, got shape {data.shape}"
            raise ValueError(msg)
        if not isinstance(layout, str):
            msg = f"layout: expected 'onnx', got {_kind(layout)}"
            raise TypeError(msg)
        if layout != "onnx":
            msg = f"layout: expected 'onnx', got {layout!r}"
            raise ValueError(msg)
        needed = -(-prod(extents) // _core.packed_per_byte(name))
        if data.size != needed:
            msg = f"data: expected {needed} bytes for {name} of shape {extents}, "
            msg += f"got {data.size}"
            raise ValueError(msg)
        if not data.flags.c_contiguous:
            msg = "data: expected contiguous bytes, got a strided array"
            raise ValueError(msg)
        # Bytes that are lent read-only cannot be made writeable again.
        view = np.frombuffer(memoryview(data.data).toreadonly(), np.uint8)
        self._store(view, name, extents)

    def _store(
        self, view: npt.NDArray[np.uint8], name: str, shape: tuple[int, ...]
    ) -> None:
        store = object.__setattr__
        store(self, "_data", view)
        store(self, "_name", name)
        store(self, "_shape", shape)
        store(self, "_layout", "onnx")

    @classmethod
    def _of(
        cls, data: npt.NDArray[np.uint8], name: str, shape: tuple[int, ...]
    ) -> PackedArray:
        """One of bytes that are known to fit."""
        made = cls.__new__(cls)
        made._store(np.frombuffer(data.data.toreadonly(), np.uint8), name, shape)
        return made

    @classmethod
    def from_buffer(
        cls,
        buffer: ReadableBuffer | npt.NDArray[Any],
        dtype: npt.DTypeLike,
        shape: SupportsIndex | Sequence[SupportsIndex],
    ) -> PackedArray:
        """
        Wrap packed bytes, without a copy.

        Parameters
        ----------
        buffer : bytes-like
            Contiguous memory: bytes, bytearray, memoryview, mmap, array.
        dtype : dtype_like
            int4, uint4, int2, uint2 or float4_e2m1fn.
        shape : int or tuple of int
            The shape of the unpacked array.

        Returns
        -------
        PackedArray
            A view of `buffer`.

        Raises
        ------
        TypeError
            If an argument is of the wrong kind.
        ValueError
            If `buffer` is not contiguous, or has not as many bytes as `shape` needs.

        Examples
        --------
        >>> import pyquant as pq
        >>> p = pq.PackedArray.from_buffer(bytes([0xE1, 0x03]), "int4", 3)
        >>> pq.dequantize(p, 0.5)
        array([ 0.5, -1. ,  1.5], dtype=float32)
        """
        if _core.is_masked(buffer):
            msg = "buffer: expected memory without a mask, got a masked array"
            raise TypeError(msg)
        given: Any = buffer  # to checkers an ndarray is no buffer before Python 3.12
        try:
            memory = memoryview(given)
        except TypeError:
            msg = f"buffer: expected a bytes-like object, got {_kind(buffer)}"
            raise TypeError(msg) from None
        except (ValueError, BufferError) as error:
            msg = f"buffer: expected contiguous bytes, got {error}"
            raise ValueError(msg) from None
        if not memory.c_contiguous:
            msg = f"buffer: expected contiguous bytes, got strides {memory.strides}"
            raise ValueError(msg)
        data = np.frombuffer(memory, np.uint8) if memory.nbytes else np.empty(0, np.uint8)
        return cls(data, dtype, shape)

    @property
    def data(self) -> npt.NDArray[np.uint8]:
        """The bytes, read-only."""
        return self._data.view()

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type, of ml_dtypes."""
        return _core.dtype_named(self._name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the unpacked array."""
        return self._shape

    @property
    def layout(self) -> str:
        """How elements lie in the bytes."""
        return self._layout

    @property
    def nbytes(self) -> int:
        """Number of packed bytes."""
        return self._data.size

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self._shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    def unpack(self) -> npt.NDArray[Any]:
        """
        Make an array with a byte for each element.

        Returns
        -------
        ndarray
            Of the ml_dtypes type `dtype`.

        Raises
        ------
        ImportError
            If ml_dtypes is not installed.

        Examples
        --------
        >>> import ml_dtypes
        >>> import pyquant as pq
        >>> q = pq.PackedArray.from_buffer(bytes([0xE1, 0x03]), "int4", 3).unpack()
        >>> q
        array([1, -2, 3], dtype=int4)
        >>> q.dtype == ml_dtypes.int4
        True
        """
        return _core.unpack(self)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """Unpack, for NumPy."""
        if copy is False:
            msg = "copy: expected True or None for a packed array, got False"
            raise ValueError(msg)
        array = self.unpack()
        return array if dtype is None else array.astype(dtype, copy=False)

    def copy(self) -> PackedArray:
        """
        Copy the bytes to memory that nobody can change.

        Returns
        -------
        PackedArray
            An equal one. It does not keep the memory that this one is a view of, and has a
            hash.

        Examples
        --------
        >>> import pyquant as pq
        >>> memory = bytearray([0x21, 0x43])
        >>> p = pq.PackedArray.from_buffer(memory, "uint4", 4)
        >>> kept = p.copy()
        >>> memory[0] = 0
        >>> kept == p
        False
        """
        return _constant(self._data, self._name, self._shape)

    def __len__(self) -> int:
        """Count the rows of the first axis."""
        if not self._shape:
            msg = "len: expected a packed array with a first axis, got shape ()"
            raise TypeError(msg)
        return self._shape[0]

    def __bool__(self) -> bool:
        """Refuse, as NumPy does: by `__len__` an array of zeros would be true."""
        msg = f"bool: expected a number, got a packed array of shape {self._shape}"
        raise ValueError(msg)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the rows of the first axis, or the elements of one dimension."""
        if not self._shape:
            msg = "iter: expected a packed array with a first axis, got shape ()"
            raise TypeError(msg)
        if len(self._shape) == 1:
            return iter(self.unpack())
        return map(self.__getitem__, range(self._shape[0]))

    @overload
    def __getitem__(self, index: slice) -> PackedArray: ...
    @overload
    def __getitem__(self, index: SupportsIndex) -> Any: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        """Take an element, a row or some rows of the first axis; see the notes."""
        chosen = _chosen(index, self._shape)
        if isinstance(chosen, range):
            if chosen.step != 1:
                return self._spaced(chosen)
            shape = (len(chosen), *self._shape[1:])
            return self._part(chosen.start, chosen.stop, shape)
        if len(self._shape) == 1:
            return self._element(chosen)
        return self._part(chosen, chosen + 1, self._shape[1:])

    def _element(self, at: int) -> Any:
        per_byte = _core.packed_per_byte(self._name)
        byte, at = divmod(at, per_byte)
        of_one = PackedArray._of(self._data[byte : byte + 1], self._name, (per_byte,))
        return of_one.unpack()[at]

    def _part(self, start: int, stop: int, shape: tuple[int, ...]) -> PackedArray:
        """Rows from start to stop, on the same bytes."""
        row = prod(self._shape[1:])
        first, last = start * row, stop * row
        per_byte = _core.packed_per_byte(self._name)
        whole = last % per_byte == 0 or stop == self._shape[0]
        if first < last and (first % per_byte or not whole):
            msg = f"index: expected whole bytes, got the elements {first} to {last - 1} of "
            msg += f"{self._name}, {per_byte} to a byte (unpack takes them apart)"
            raise ValueError(msg)
        made = PackedArray.__new__(PackedArray)
        # Not by _of: of a slice of a slice that would make an ever longer chain of views.
        view = self._data[first // per_byte : -(-last // per_byte)]
        made._store(view, self._name, shape)
        return made

    def _spaced(self, chosen: range) -> PackedArray:
        """A copy of rows with a step between."""
        row, per_byte = prod(self._shape[1:]), _core.packed_per_byte(self._name)
        if row % per_byte:
            msg = f"index: expected rows of whole bytes for a step of {chosen.step}, got "
            msg += f"{row} elements of {self._name} in each, {per_byte} to a byte"
            raise ValueError(msg)
        rows = self._data.reshape(self._shape[0], row // per_byte)
        stop = chosen.stop if chosen.stop >= 0 else None
        rows = rows[chosen.start : stop : chosen.step]
        return _constant(rows, self._name, (len(chosen), *self._shape[1:]))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a packed array never changes."""
        msg = f"{name}: expected no assignment, PackedArray is immutable"
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        """Refuse: a packed array never changes."""
        msg = f"{name}: expected no deletion, PackedArray is immutable"
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        """Compare type, shape, layout and bytes."""
        if not isinstance(other, PackedArray):
            return NotImplemented
        if self._head() != other._head():
            return False
        return bool(np.array_equal(self._data, other._data))

    def __hash__(self) -> int:
        """Hash what `__eq__` compares, where nobody can change it."""
        if _is_writeable(self._data):
            msg = "unhashable: the memory of this PackedArray is writeable"
            raise TypeError(msg)
        return hash((*self._head(), self._data.tobytes()))

    def _head(self) -> tuple[object, ...]:
        """All but the bytes."""
        return (self._name, self._shape, self._layout)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes an equal one."""
        return (_unpickled, (self._data.tobytes(), self._name, self._shape))

    def __repr__(self) -> str:
        """Show what it is, not its elements."""
        return (
            f"PackedArray(dtype={self._name!r}, shape={self._shape}, "
            f"layout={self._layout!r}, nbytes={self.nbytes})"
        )


def pack(q: ArrayLike) -> PackedArray:
    """
    Pack codes that have a byte each.

    Parameters
    ----------
    q : array_like
        An ml_dtypes array of int4, uint4, int2, uint2 or float4_e2m1fn, of any shape and
        strides.

    Returns
    -------
    PackedArray
        The same elements.

    Raises
    ------
    TypeError
        If `q` is of another type.

    Examples
    --------
    >>> import ml_dtypes
    >>> import numpy as np
    >>> import pyquant as pq
    >>> packed = pq.pack(np.array([1, -2, 3], ml_dtypes.int4))
    >>> packed
    PackedArray(dtype='int4', shape=(3,), layout='onnx', nbytes=2)
    >>> [hex(byte) for byte in packed.data]
    ['0xe1', '0x3']
    """
    return _core.pack(q)


def _unpickled(data: bytes, dtype: str, shape: tuple[int, ...]) -> PackedArray:
    """One of bytes that nobody can change, so that it has a hash."""
    return PackedArray(np.frombuffer(data, np.uint8), dtype, shape)


def _constant(
    data: npt.NDArray[np.uint8], name: str, shape: tuple[int, ...]
) -> PackedArray:
    """One of a copy of bytes in C order, which nobody can change."""
    return PackedArray._of(np.frombuffer(data.tobytes(), np.uint8), name, shape)


def _chosen(index: SupportsIndex | slice, shape: tuple[int, ...]) -> int | range:
    """The place along the first axis that an index stands for, or the places of a slice."""
    if not shape:
        msg = "index: expected a packed array with a first axis, got shape ()"
        raise IndexError(msg)
    if isinstance(index, slice):
        return _places(index, shape[0])
    try:
        if isinstance(index, bool):
            raise TypeError
        at = operator.index(index)
    except TypeError:
        msg = f"index: expected an integer or a slice, got {_kind(index)}"
        raise TypeError(msg) from None
    if not -shape[0] <= at < shape[0]:
        msg = f"index: expected an integer within the {shape[0]} rows, got {at}"
        raise IndexError(msg)
    return at + shape[0] if at < 0 else at


def _places(part: slice, extent: int) -> range:
    """The places of a slice; of less than two the step is 1, of none the first is 0."""
    try:
        if part.step is not None and operator.index(part.step) == 0:
            msg = "index: expected a step other than 0, got 0"
            raise ValueError(msg)
        found = range(*part.indices(extent))
    except TypeError:
        kinds = ", ".join(_kind(one) for one in (part.start, part.stop, part.step))
        msg = f"index: expected a slice of integers, got one of {kinds}"
        raise TypeError(msg) from None
    if not found:
        return range(0)
    return range(found[0], found[0] + 1) if len(found) == 1 else found


def _is_writeable(array: npt.NDArray[np.uint8]) -> bool:
    """Whether the memory that an array is a view of may change by any view between."""
    owner: Any = array
    while True:
        if isinstance(owner, np.ndarray):
            if owner.flags.writeable:
                return True
            owner = owner.base
        elif isinstance(owner, memoryview):
            if not owner.readonly:
                return True
            owner = owner.obj
        elif owner is None or isinstance(owner, bytes):
            return False
        else:
            try:
                return not memoryview(owner).readonly
            except (TypeError, ValueError, BufferError):
                return True  # nobody knows


def _kind(value: object) -> str:
    return type(value).__name__


def _extents(shape: SupportsIndex | Sequence[SupportsIndex]) -> tuple[int, ...]:
    try:
        one = not isinstance(shape, (tuple, list))
        given: Any = (shape,) if one else shape
        if any(isinstance(n, bool) for n in given):
            raise TypeError
        extents = tuple(int(operator.index(n)) for n in given)
    except TypeError:
        msg = f"shape: expected an integer or a tuple of integers, got {_kind(shape)}"
        raise TypeError(msg) from None
    if min(extents, default=0) < 0 or max(extents, default=0) > sys.maxsize:
        msg = f"shape: expected extents from 0 to {sys.maxsize}, got {extents}"
        raise ValueError(msg)
    # NumPy makes no array of more bytes, not even an empty one, and float64 has eight.
    if prod(max(n, 1) for n in extents) > sys.maxsize // 8:
        most = sys.maxsize // 8
        msg = f"shape: expected extents of product {most} or less, 0 as 1, got {extents}"
        raise ValueError(msg)
    if len(extents) > 64:
        msg = f"shape: expected at most 64 dimensions, got {len(extents)}"
        raise ValueError(msg)
    return extents
