# SPDX-License-Identifier: Apache-2.0
"""Arrays of elements smaller than a byte, packed."""

from __future__ import annotations

import sys
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    dtype : str
        Name of the element type. NumPy itself has none of these types.
    shape : tuple of int
        The shape of the unpacked array.
    layout : str
        How elements lie in the bytes.

    Raises
    ------
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If `data` has not as many bytes as `shape` needs.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> p = pq.quantize([1.0, -2.0, 3.0], 1.0, dtype="int4", packed=True)
    >>> p
    PackedArray(dtype='int4', shape=(3,), layout='onnx', nbytes=2)
    >>> pq.dequantize(p, 1.0)
    array([ 1., -2.,  3.], dtype=float32)
    """

    __slots__ = ("_data", "_dtype", "_layout", "_shape")

    _data: npt.NDArray[np.uint8]
    _dtype: str
    _shape: tuple[int, ...]
    _layout: str

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
        self._store(data, name, extents)

    def _store(
        self, data: npt.NDArray[np.uint8], dtype: str, shape: tuple[int, ...]
    ) -> None:
        # Bytes that are lent read-only cannot be made writeable again.
        view = np.frombuffer(memoryview(data.data).toreadonly(), np.uint8)
        store = object.__setattr__
        store(self, "_data", view)
        store(self, "_dtype", dtype)
        store(self, "_shape", shape)
        store(self, "_layout", "onnx")

    @classmethod
    def _of(
        cls, data: npt.NDArray[np.uint8], dtype: str, shape: tuple[int, ...]
    ) -> PackedArray:
        """One of bytes that are known to fit."""
        made = cls.__new__(cls)
        made._store(data, dtype, shape)
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
    def dtype(self) -> str:
        """Name of the element type."""
        return self._dtype

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
        return array if dtype is None else array.astype(dtype)

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
        return self._key() == other._key()

    def __hash__(self) -> int:
        """Hash what `__eq__` compares, where nobody can change it."""
        if _is_writeable(self._data):
            msg = "unhashable: the memory of this PackedArray is writeable"
            raise TypeError(msg)
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return (self._dtype, self._shape, self._layout, self._data.tobytes())

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as the call that makes an equal one."""
        return (_unpickled, (np.array(self._data), self._dtype, self._shape))

    def __repr__(self) -> str:
        """Show what it is, not its elements."""
        return (
            f"PackedArray(dtype={self._dtype!r}, shape={self._shape}, "
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


def _unpickled(
    data: npt.NDArray[np.uint8], dtype: str, shape: tuple[int, ...]
) -> PackedArray:
    """One of bytes that nobody else has."""
    data.flags.writeable = False
    return PackedArray(data, dtype, shape)


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
        extents = tuple(int(index(n)) for n in given)
    except TypeError:
        msg = f"shape: expected an integer or a tuple of integers, got {_kind(shape)}"
        raise TypeError(msg) from None
    if min(extents, default=0) < 0 or max(extents, default=0) > sys.maxsize:
        msg = f"shape: expected extents from 0 to {sys.maxsize}, got {extents}"
        raise ValueError(msg)
    # NumPy makes no array of more bytes, not even an empty one, and float64 has eight.
    if prod(max(n, 1) for n in extents) > sys.maxsize // 8:
        msg = f"shape: expected at most {sys.maxsize // 8} elements, got {extents}"
        raise ValueError(msg)
    if len(extents) > 64:
        msg = f"shape: expected at most 64 dimensions, got {len(extents)}"
        raise ValueError(msg)
    return extents
