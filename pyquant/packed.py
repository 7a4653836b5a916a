# SPDX-License-Identifier: Apache-2.0
"""Pack codes smaller than a byte, and unpack them."""

from __future__ import annotations

import operator
from math import gcd, lcm, prod
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


LAYOUTS = _core.layouts()


class PackedArray(_core.Packed):
    """
    Immutable view of packed codes, two or more to a byte or word.

    Parameters
    ----------
    data : ndarray
        Bytes or words in the layout `layout`. The array is not copied, so changes of `data`
        change the codes.
    dtype : dtype_like
        The element type, with a width that `layout` supports: int4, uint4, int2, uint2,
        float4_e2m1fn, and for layouts of other widths int8, uint8 and all other narrow
        floats.
    shape : int or tuple of int
        Shape of the unpacked array.
    layout : str, optional
        "onnx" (the default), "words", "awq", "halves", "high-first" or "packbits"; see
        Notes.
    axis : int, optional
        The axis along which codes are packed. Default: the last. "onnx" has no axis.
    bits : int, optional
        Width of uint8 codes, 1 to 8. Widths 4 and 2 select uint4 and uint2, or int4 and
        int2 if `dtype` is int8. Default: the width of `dtype`.

    Attributes
    ----------
    data : ndarray
        Packed bytes or words, read-only.
    dtype : numpy.dtype
        Element type. If NumPy lacks the type, this attribute needs ml_dtypes, and so does
        unpacking. Everything else works without it.
    shape : tuple of int
        Shape of the unpacked array.
    layout : str
        Name of the layout.
    axis : int or None
        The axis along which codes are packed; `None` for "onnx".
    bits : int
        Number of bits of an element.
    nbytes, size, ndim : int
        Number of packed bytes, of elements, of dimensions. ``itemsize`` does not exist,
        because an element is a part of a byte.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the size or shape of `data` does not match `shape`, or `layout` does not support
        the width.
    numpy.exceptions.AxisError
        If the axis is out of bounds.

    Notes
    -----
    ============  ======  ============  ===================================================
    layout        widths  `data`        elements
    ============  ======  ============  ===================================================
    "onnx"        2, 4    uint8, 1-d    in C order, the first in the low bits of a byte
    "words"       1 to 8  int32 or      along `axis`, the first in the low bits of a word;
                          uint32        a code may continue in the low bits of the next word
    "awq"         4       int32 or      eight to a word along `axis`, from the low bits:
                          uint32        elements 0 2 4 6 1 3 5 7
    "halves"      4       uint8         32 to 16 bytes along `axis`: element i in the low
                                        half of byte i, element i + 16 in the high half
    "high-first"  4       uint8         two to a byte along `axis`, the first in the high
                                        half
    "packbits"    1       uint8         eight to a byte along `axis`, the first in the high
                                        bit, like ``numpy.packbits``; not for `codebook`,
                                        which needs at least 4 entries
    ============  ======  ============  ===================================================

    Except for "onnx", `data` has the dimensions of the array, with words in place of the
    elements along `axis`. Words are little-endian. Unused bits are written as zeros and
    ignored when read.

    ``len(p)``, ``p[i]``, ``p[a:b]`` and iteration use the first axis, like NumPy. Rows and
    slices are packed arrays that share the bytes. A slice must therefore begin at a byte or
    word, and end at one or at the end of the array; else it raises ValueError. A step other
    than 1 copies rows of complete bytes. For one dimension, ``p[i]`` is a scalar, and
    iteration returns all elements.

    ``==`` compares type, shape, layout and bytes, and returns True or False. A packed array
    has no truth value and does not support ``in``. NumPy functions unpack it.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> p = pq.quantize([1.0, -2.0, 3.0], 1.0, dtype="int4", packed=True)
    >>> p
    PackedArray(dtype='int4', shape=(3,), layout='onnx', nbytes=2)
    >>> pq.dequantize(p, 1.0)
    array([ 1., -2.,  3.], dtype=float32)

    Dequantize one row of weights without a copy:

    >>> w = np.arange(-8, 8, dtype=np.float32).reshape(2, 8)
    >>> p = pq.quantize(w, 1.0, dtype="int4", packed=True)
    >>> pq.dequantize(p[1], 1.0)
    array([0., 1., 2., 3., 4., 5., 6., 7.], dtype=float32)
    """

    __slots__ = ()

    # Python compares with each row, and NumPy with each element, so support neither.
    __contains__ = None

    def __init__(
        self,
        data: npt.NDArray[Any],
        dtype: npt.DTypeLike,
        shape: SupportsIndex | Sequence[SupportsIndex],
        *,
        layout: str = "onnx",
        axis: SupportsIndex | None = None,
        bits: SupportsIndex | None = None,
    ) -> None:
        """Check that data, type, shape and layout match."""
        name, extents, how, words, row = _core.words_of(dtype, shape, layout, axis, bits)
        view = _constant_view(data, row)
        if view.shape != words:
            of = f"for {name} of shape {extents}"
            if row.flat:
                msg = f"data: expected {words[0]} bytes {of}, got {view.size}"
            else:
                msg = f"data: expected shape {words} {of}, {how[2]} bits each along axis "
                msg += f"{how[1]}, got {view.shape}"
            raise ValueError(msg)
        self._keep(view, name, extents, how)

    @classmethod
    def from_buffer(
        cls,
        buffer: ReadableBuffer | npt.NDArray[Any],
        dtype: npt.DTypeLike,
        shape: SupportsIndex | Sequence[SupportsIndex],
        *,
        layout: str = "onnx",
        axis: SupportsIndex | None = None,
        bits: SupportsIndex | None = None,
    ) -> PackedArray:
        """
        Wrap packed bytes without a copy.

        Parameters
        ----------
        buffer : bytes-like
            Contiguous memory, such as bytes, bytearray, memoryview, mmap or array.
        dtype : dtype_like
            The element type.
        shape : int or tuple of int
            Shape of the unpacked array.
        layout : str, optional
            "onnx" (the default), "words", "awq", "halves", "high-first" or "packbits".
        axis : int, optional
            The axis along which codes are packed. Default: the last. "onnx" has no axis.
        bits : int, optional
            Width of codes, see `PackedArray`.

        Returns
        -------
        PackedArray
            A view of `buffer`.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If `buffer` is not contiguous, or its size does not match `shape`.

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
        given: Any = (
            buffer  # type checkers reject an ndarray as a buffer before Python 3.12
        )
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
        data = np.frombuffer(memory if memory.nbytes else b"", np.uint8)
        *_, words, row = _core.words_of(dtype, shape, layout, axis, bits)
        if not row.flat:
            kind = row.words[0]
            if data.size != prod(words) * kind.itemsize:
                msg = f"buffer: expected {prod(words) * kind.itemsize} bytes for {kind} "
                msg += f"of shape {words}, got {data.size}"
                raise ValueError(msg)
            data = data.view(kind).reshape(words)
        return cls(data, dtype, shape, layout=layout, axis=axis, bits=bits)

    @property
    def data(self) -> npt.NDArray[Any]:
        """Packed bytes or words, read-only."""
        return self._data

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return _core.dtype_named(self._name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the unpacked array."""
        return self._shape

    @property
    def layout(self) -> str:
        """Name of the layout of the codes in the bytes or words."""
        return self._how[0]

    @property
    def axis(self) -> int | None:
        """Axis along which codes are packed, or `None` for layout "onnx"."""
        return self._how[1]

    @property
    def bits(self) -> int:
        """Number of bits of an element."""
        return self._how[2]

    @property
    def nbytes(self) -> int:
        """Number of packed bytes."""
        return self._data.nbytes

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
        Return an array with one byte for each element.

        Returns
        -------
        ndarray
            Array of the type `dtype`.

        Raises
        ------
        ImportError
            If the type needs ml_dtypes and the package is not installed.

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

    def repack(self, layout: str, *, axis: SupportsIndex | None = None) -> PackedArray:
        """
        Pack the elements in another layout.

        Parameters
        ----------
        layout : str
            "onnx", "words", "awq", "halves", "high-first" or "packbits".
        axis : int, optional
            The axis along which codes are packed. Default: the last. "onnx" has no axis.

        Returns
        -------
        PackedArray
            Array with equal elements, in new memory.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the layout is unknown or does not support the width.
        numpy.exceptions.AxisError
            If the axis is out of bounds.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> p = pq.pack(np.arange(8, dtype=np.uint8), "words", bits=4)
        >>> [f"{p.repack(layout).data[0]:08x}" for layout in ("words", "awq")]
        ['76543210', '75316420']
        """
        return _core.repack(self, layout, axis)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """Unpack for NumPy."""
        if copy is False:
            msg = "copy: expected True or None for a packed array, got False"
            raise ValueError(msg)
        array = self.unpack()
        return array if dtype is None else array.astype(dtype, copy=False)

    def copy(self) -> PackedArray:
        """
        Copy the codes to read-only memory.

        Returns
        -------
        PackedArray
            An equal array. It does not keep the original memory alive, and it has a hash.

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
        return _core.copied(self, self._data, self._shape)

    def __len__(self) -> int:
        """Return the extent of the first axis."""
        if not self._shape:
            msg = "len: expected a packed array with a first axis, got shape ()"
            raise TypeError(msg)
        return self._shape[0]

    def __bool__(self) -> bool:
        """
        Raise ValueError, like NumPy: with `__len__` alone, an array of zeros would be true.
        """
        msg = f"bool: expected a number, got a packed array of shape {self._shape}"
        raise ValueError(msg)

    def __iter__(self) -> Iterator[Any]:
        """
        Iterate over the rows of the first axis, or over the elements of one dimension.
        """
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
        """Return an element, a row or a slice of the first axis; see Notes."""
        chosen = _chosen(index, self._shape)
        if isinstance(chosen, range):
            if chosen.step != 1:
                return self._spaced(chosen)
            return self._part(chosen.start, chosen.stop)
        if len(self._shape) == 1:
            return self._element(chosen)
        return self._row(chosen)

    def _element(self, at: int) -> Any:
        whole = _whole(LAYOUTS[self.layout], self.bits)
        first = at // whole * whole
        return self._part(first, min(first + whole, self._shape[0])).unpack()[at - first]

    def _row(self, at: int) -> PackedArray:
        """Return a row of the first axis that shares the words."""
        layout, axis, bits = self._how
        if axis is None:
            return self._part(at, at + 1, self._shape[1:])
        if axis == 0:
            msg = f"index: expected a slice along axis 0, which is packed in {layout!r}, "
            msg += f"got {at} (unpack takes it apart)"
            raise ValueError(msg)
        made = PackedArray.__new__(PackedArray)
        made._keep(self._data[at], self._name, self._shape[1:], (layout, axis - 1, bits))
        return made

    def _part(
        self, start: int, stop: int, shape: tuple[int, ...] | None = None
    ) -> PackedArray:
        """Return rows from start to stop that share the words."""
        layout, axis, bits = self._how
        row = LAYOUTS[layout]
        first, last = start, stop  # in codes; converted to words below
        whole = _whole(row, bits) if not axis else 1
        if axis is None:
            first, last = start * prod(self._shape[1:]), stop * prod(self._shape[1:])
        ends = last % whole == 0 or stop == self._shape[0]
        if first < last and (first % whole or not ends):
            part = "byte" if row.flat else "word" if not row.order else "group"
            msg = f"index: expected whole {part}s, got the elements {first} to {last - 1} "
            msg += f"of {self._name}, {whole} to a {part} (unpack takes them apart)"
            raise ValueError(msg)
        if not axis:
            first, last = row.length(first, bits), row.length(last, bits)
        made = PackedArray.__new__(PackedArray)
        extents = (stop - start, *self._shape[1:]) if shape is None else shape
        made._keep(self._data[first:last], self._name, extents, self._how)
        return made

    def _spaced(self, chosen: range) -> PackedArray:
        """Return a copy of rows with a step."""
        layout, axis, bits = self._how
        rows = self._data
        if axis == 0:
            msg = "index: expected a step of 1 along axis 0, which is packed in "
            msg += f"{layout!r}, got {chosen.step}"
            raise ValueError(msg)
        if axis is None:
            row, per_byte = prod(self._shape[1:]), 8 // bits
            if row % per_byte:
                msg = f"index: expected rows of whole bytes for a step of {chosen.step}, "
                msg += f"got {row} elements of {self._name} in each, {per_byte} to a byte"
                raise ValueError(msg)
            rows = rows.reshape(self._shape[0], row // per_byte)
        stop = chosen.stop if chosen.stop >= 0 else None
        rows = rows[chosen.start : stop : chosen.step]
        if axis is None:
            rows = rows.reshape(-1)
        return _core.copied(self, rows, (len(chosen), *self._shape[1:]))

    def __setattr__(self, name: str, value: object) -> None:
        """Raise AttributeError: packed arrays are immutable."""
        msg = f"{name}: expected no assignment, PackedArray is immutable"
        raise AttributeError(msg)

    def __delattr__(self, name: str) -> None:
        """Raise AttributeError: packed arrays are immutable."""
        msg = f"{name}: expected no deletion, PackedArray is immutable"
        raise AttributeError(msg)

    def __eq__(self, other: object) -> bool:
        """Compare type, shape, layout and bytes."""
        if not isinstance(other, PackedArray):
            return NotImplemented
        return self._head() == other._head() and _core.same_words(self, other)

    def __hash__(self) -> int:
        """Hash the values that `__eq__` compares; raise TypeError for writeable memory."""
        data = self._data
        if _is_writeable(data):
            msg = "unhashable: the memory of this PackedArray is writeable"
            raise TypeError(msg)
        return hash((*self._head(), data.tobytes()))

    def _head(self) -> tuple[object, ...]:
        """Return type, shape and layout."""
        return (self._name, self._shape, *self._how)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a call that builds an equal array."""
        layout, axis, bits = self._how
        parts: tuple[object, ...] = (self._data.tobytes(), self._name, self._shape)
        if axis is not None:
            parts = (*parts, layout, axis, bits, self._data.dtype.str)
        return (_unpickled, parts)

    def __repr__(self) -> str:
        """Show type, shape and layout, not the elements."""
        layout, axis, bits = self._how
        along = "" if axis is None else f"axis={axis}, bits={bits}, "
        return (
            f"PackedArray(dtype={self._name!r}, shape={self._shape}, "
            f"layout={layout!r}, {along}nbytes={self.nbytes})"
        )


@_core.hinted
def pack(
    q: ArrayLike,
    layout: str = "onnx",
    *,
    axis: SupportsIndex | None = None,
    bits: SupportsIndex | None = None,
) -> PackedArray:
    """
    Pack codes that are stored one to a byte.

    Parameters
    ----------
    q : array_like
        Codes of any shape and strides, with a width that `layout` supports: an array of
        int4, uint4, int2, uint2 or float4_e2m1fn, for "words" also of int8, uint8 or any
        other narrow float. With `bits`: uint8 or int8 codes of that width.
    layout : str, optional
        "onnx" (the default), "words", "awq", "halves", "high-first" or "packbits"; see
        `PackedArray`.
    axis : int, optional
        The axis along which codes are packed. Default: the last. "onnx" has no axis.
    bits : int, optional
        Width of uint8 codes, 1 to 8. Widths 4 and 2 convert uint8 codes to uint4 and uint2,
        and int8 codes to int4 and int2. Default: the width of the type of `q`.

    Returns
    -------
    PackedArray
        Packed array with equal elements.

    Raises
    ------
    TypeError
        If `q` has another type, or an argument has the wrong type.
    ValueError
        If a code needs more than `bits`, or the layout is unknown or does not support the
        width.
    numpy.exceptions.AxisError
        If the axis is out of bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> packed = pq.pack(np.array([1, -2, 3], np.int8), bits=4)
    >>> packed
    PackedArray(dtype='int4', shape=(3,), layout='onnx', nbytes=2)
    >>> [hex(byte) for byte in packed.data]
    ['0xe1', '0x3']

    Pack codes of 3 bits like GPTQ, along the first axis of a matrix:

    >>> codes = np.arange(32, dtype=np.uint8).reshape(32, 1) % 8
    >>> p = pq.pack(codes, "words", axis=0, bits=3)
    >>> [f"{word:08x}" for word in p.data[:, 0].view(np.uint32)]
    ['88fac688', 'c688fac6', 'fac688fa']
    """
    return _core.pack(q, layout, axis, bits)


def _unpickled(
    data: bytes,
    dtype: str,
    shape: tuple[int, ...],
    layout: str = "onnx",
    axis: int | None = None,
    bits: int | None = None,
    words: str = "<u1",
) -> PackedArray:
    """Return an array on immutable bytes, so that it has a hash."""
    if layout == "onnx":
        return PackedArray(np.frombuffer(data, np.uint8), dtype, shape)
    *_, extents, _ = _core.words_of(dtype, shape, layout, axis, bits)
    array = np.frombuffer(data, words).reshape(extents)
    return PackedArray(array, dtype, shape, layout=layout, axis=axis, bits=bits)


def _constant_view(
    data: npt.NDArray[Any], layout: _core.Layout
) -> npt.NDArray[np.integer[Any]]:
    """Return a read-only view of words, which NumPy cannot make writeable again."""
    if _core.is_masked(data):
        msg = "data: expected an array without a mask, got a masked array"
        raise TypeError(msg)
    if not isinstance(data, np.ndarray) or data.dtype not in layout.words:
        got = data.dtype if isinstance(data, np.ndarray) else _kind(data)
        wanted = " or ".join(map(str, layout.words))
        article = "an" if wanted.startswith("int") else "a"
        msg = f"data: expected {article} {wanted} array, got {got}"
        raise TypeError(msg)
    if layout.flat and data.ndim != 1:
        msg = f"data: expected one dimension, got shape {data.shape}"
        raise ValueError(msg)
    if not data.flags.c_contiguous:
        parts = "bytes" if layout.word_bits == 8 else "words"
        msg = f"data: expected contiguous {parts}, got a strided array"
        raise ValueError(msg)
    view = np.frombuffer(memoryview(data.data).toreadonly(), data.dtype)
    return view.reshape(data.shape)


def _whole(layout: _core.Layout, bits: int) -> int:
    """Return the least number of codes that fill complete words and groups."""
    words = layout.word_bits // gcd(layout.word_bits, bits)
    return lcm(len(layout.order) or 1, words)


def _chosen(index: SupportsIndex | slice, shape: tuple[int, ...]) -> int | range:
    """Return the position along the first axis, or the positions of a slice."""
    if not shape:
        msg = "index: expected a packed array with a first axis, got shape ()"
        raise IndexError(msg)
    if isinstance(index, slice):
        return _places(index, shape[0])
    try:
        at = _core.index(index)
    except TypeError:
        msg = f"index: expected an integer or a slice, got {_kind(index)}"
        raise TypeError(msg) from None
    if not -shape[0] <= at < shape[0]:
        msg = f"index: expected an integer within the {shape[0]} rows, got {at}"
        raise IndexError(msg)
    return at + shape[0] if at < 0 else at


def _places(part: slice, extent: int) -> range:
    """Return the positions of a slice; fewer than two have step 1, zero are range(0)."""
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


def _is_writeable(array: npt.NDArray[Any]) -> bool:
    """Return True if the memory of an array, or of any view in between, may change."""
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
                return True  # unknown


def _kind(value: object) -> str:
    return type(value).__name__
