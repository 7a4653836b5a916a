# SPDX-License-Identifier: Apache-2.0
"""Pack codes that are smaller than a byte, and unpack packed codes."""

from __future__ import annotations

from functools import partial
from math import gcd, lcm, prod
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, final

import numpy as np

from pyquant import _core
from pyquant._check import Immutable, choice, fail

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from _typeshed import ReadableBuffer

    from pyquant._typing import ArrayLike

__all__ = ["Layout", "PackedArray", "pack", "pack_signs", "unpack"]
__dir__: object = __all__.copy

LAYOUTS = _core.layouts()


@final
class Layout(tuple[str, "int | None", "int | None"]):
    """
    Layout of packed codes: name, packed axis and number of bits of a code.

    Parameters
    ----------
    name : str
        "onnx", "words", "awq", "halves", "high-first", "packbits" or "int24"; see Notes.
    axis : int, optional
        The axis along which codes are packed. Default: the last. "onnx" has no axis.
    bits : int, optional
        Number of bits of a code. int8 codes accept 4 and 2 (elements of int4 and int2).
        uint8 codes accept 1 to 8; 4 and 2 become uint4 and uint2. Default: the width of the
        element type, or 24 for "int24".

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the layout is unknown, or does not support `axis` or `bits`.

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
    "halves"      4       uint8         32 in 16 bytes along `axis`: element i in the low
                                        half of byte i, element i + 16 in the high half
    "high-first"  4       uint8         two to a byte along `axis`, the first in the high
                                        half
    "packbits"    1       uint8         eight to a byte along `axis`, the first in the high
                                        bit, like ``numpy.packbits``; not for `codebook`,
                                        which needs at least 4 entries
    "int24"       24      uint8         three for each int32 element along the last axis,
                                        the lowest first, like audio samples in WAV files
    ============  ======  ============  ===================================================

    Except for "onnx", `data` has the dimensions of the array, with words in place of the
    elements along `axis`. Words are little-endian. Unused bits are written as zeros and
    ignored when read.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.float32([[0, 1], [2, 3], [4, 9]])
    >>> layout = pq.Layout("words", axis=0, bits=3)
    >>> pq.quantize(x, 1.0, dtype="uint8", layout=layout).data
    array([[272, 473]], dtype=int32)
    """

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        *,
        axis: SupportsIndex | None = None,
        bits: SupportsIndex | None = None,
    ) -> Layout:
        """Check all arguments."""
        return tuple.__new__(cls, _core.layout_of(name, axis, bits))

    @property
    def name(self) -> str:
        """Name of the layout."""
        return self[0]

    @property
    def axis(self) -> int | None:
        """Axis along which codes are packed, or `None`."""
        return self[1]

    @property
    def bits(self) -> int | None:
        """Bits of a code, or `None`."""
        return self[2]

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a call that builds an equal object."""
        return partial(Layout, axis=self.axis, bits=self.bits), (self.name,)

    def __repr__(self) -> str:
        """Show the arguments that are not `None`."""
        axis = "" if self.axis is None else f", axis={self.axis}"
        bits = "" if self.bits is None else f", bits={self.bits}"
        return f"Layout({self.name!r}{axis}{bits})"


class PackedArray(Immutable, _core.Packed):
    """
    Immutable view of packed codes, two or more to a byte or word.

    Parameters
    ----------
    data : ndarray
        Bytes or words in the layout `layout`. The array is not copied, so changes of `data`
        change the codes.
    dtype : dtype_like
        The element type, with a width that `layout` supports: int4, uint4, int2, uint2 or
        float4_e2m1fn. Layouts of other widths also support int8, uint8 and all other narrow
        floats, and "int24" supports int32.
    shape : int or tuple of int
        Shape of the unpacked array.
    layout : str or Layout, optional
        How the codes are stored. Default "onnx".

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
    ``p[a:b]`` returns a part of the first axis, which shares the memory of `p`. A part must
    begin at the start of a byte or word, and end at the end of a byte or word or of the
    array. Otherwise the slice raises ValueError. `unpack` returns single elements.

    ``==`` compares type, shape, layout and bytes, and returns True or False. A packed array
    has no truth value and does not support ``in``. NumPy functions unpack a packed array.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> p = pq.quantize([1.0, -2.0, 3.0], 1.0, dtype="int4", packed=True)
    >>> p
    PackedArray(dtype='int4', shape=(3,), layout='onnx', nbytes=2)
    >>> pq.dequantize(p, 1.0)
    array([ 1., -2.,  3.], dtype=float32)

    Dequantize a part of weights without a copy:

    >>> w = np.arange(-8, 8, dtype=np.float32).reshape(2, 8)
    >>> p = pq.quantize(w, 1.0, dtype="int4", packed=True)
    >>> pq.dequantize(p[1:], 1.0)
    array([[0., 1., 2., 3., 4., 5., 6., 7.]], dtype=float32)
    """

    __slots__ = ()

    # Without these lines, Python would use `__getitem__` for `in` and for loops.
    __contains__ = None
    __iter__ = None

    def __init__(
        self,
        data: npt.NDArray[Any],
        dtype: npt.DTypeLike,
        shape: SupportsIndex | Sequence[SupportsIndex],
        *,
        layout: str | Layout = "onnx",
    ) -> None:
        """Check that data, type, shape and layout match."""
        name, extents, how, words, row = _core.words_of(dtype, shape, layout)
        view = _constant_view(data, row)
        if view.shape != words:
            expected = f"{words[0]} bytes for {name} of shape {extents}"
            if not row.flat:
                expected = f"shape {words} for {name} of shape {extents}, {how[2]} bits "
                expected += f"each along axis {how[1]}"
            got = view.size if row.flat else view.shape
            raise fail(ValueError, "data", expected, got)
        self._keep(view, name, extents, how)

    @classmethod
    def from_buffer(
        cls,
        buffer: ReadableBuffer | npt.NDArray[Any],
        dtype: npt.DTypeLike,
        shape: SupportsIndex | Sequence[SupportsIndex],
        *,
        layout: str | Layout = "onnx",
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
        layout : str or Layout, optional
            How the codes are stored. Default "onnx".

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
            raise fail(TypeError, "buffer", "memory without a mask", "a masked array")
        # The type is Any, because before Python 3.12 type checkers reject an ndarray as a
        # buffer.
        given: Any = buffer
        try:
            memory = memoryview(given)
        except TypeError:
            raise fail(TypeError, "buffer", "a bytes-like object", type(buffer)) from None
        except (ValueError, BufferError) as error:
            raise fail(ValueError, "buffer", "contiguous bytes", str(error)) from None
        if not memory.c_contiguous:
            got = f"strides {memory.strides}"
            raise fail(ValueError, "buffer", "contiguous bytes", got)
        data = np.frombuffer(memory if memory.nbytes else b"", np.uint8)
        *_, words, row = _core.words_of(dtype, shape, layout)
        if not row.flat:
            kind = row.words[0]
            size = prod(words) * kind.itemsize
            if data.size != size:
                expected = f"{size} bytes for {kind} of shape {words}"
                raise fail(ValueError, "buffer", expected, data.size)
            data = data.view(kind).reshape(words)
        return cls(data, dtype, shape, layout=layout)

    @property
    def data(self) -> npt.NDArray[Any]:
        """Packed bytes or words, read-only."""
        return self._data

    @property
    def dtype(self) -> np.dtype[Any]:
        """
        Element type.

        If NumPy lacks the type, this attribute and `unpack` need the package ml_dtypes. All
        other functions work without ml_dtypes.
        """
        return _core.dtype_named(self._name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the unpacked array."""
        return self._shape

    @property
    def layout(self) -> Layout:
        """Name of the layout, packed axis, and bits of an element."""
        name, axis, bits = self._how
        return Layout(name, axis=axis, bits=bits)

    @property
    def nbytes(self) -> int:
        """
        Number of packed bytes.

        ``itemsize`` does not exist, because an element is a part of a byte.
        """
        return self._data.nbytes

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self._shape)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    def repack(self, layout: str | Layout) -> PackedArray:
        """
        Pack the elements in another layout.

        Parameters
        ----------
        layout : str or Layout
            The new layout.

        Returns
        -------
        PackedArray
            Array with equal elements, in new memory.

        Raises
        ------
        TypeError, ValueError, numpy.exceptions.AxisError
            See `pack`.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> p = pq.pack(np.arange(8, dtype=np.uint8), pq.Layout("words", bits=4))
        >>> [f"{p.repack(layout).data[0]:08x}" for layout in ("words", "awq")]
        ['76543210', '75316420']
        """
        return _core.repack(self, layout)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """Unpack for NumPy."""
        if copy is False:
            raise fail(ValueError, "copy", "True or None for a packed array", "False")
        array = _core.unpack(self)
        return array if dtype is None else array.astype(dtype, copy=False)

    def copy(self) -> PackedArray:
        """
        Copy the codes to read-only memory.

        Returns
        -------
        PackedArray
            An equal array, which does not keep the original memory alive.

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
            raise fail(TypeError, "p", "a packed array with a first axis", "shape ()")
        return self._shape[0]

    def __bool__(self) -> bool:
        """
        Raise ValueError, like NumPy. Python would otherwise use `__len__`, and an array
        of zeros would be true.
        """
        got = f"a packed array of shape {self._shape}"
        raise fail(ValueError, "bool", "a number", got)

    def __getitem__(self, index: slice) -> PackedArray:
        """Return a slice of the first axis, which shares the words with this array."""
        layout, axis, bits = self._how
        row, extent = LAYOUTS[layout], len(self)
        start, stop = first, last = _ends(index, extent)
        if not axis:  # the first axis is packed
            each = 1 if axis == 0 or not extent else self.size // extent
            first, last = start * each, stop * each
            words = row.word_bits // gcd(row.word_bits, bits)
            whole = lcm(len(row.order) or 1, words)
            if first < last and (first % whole or (last % whole and stop < extent)):
                part = "byte" if row.flat else "word" if not row.order else "group"
                got = f"the elements {first} to {last - 1} of {self._name}, {whole} to a "
                got += f"{part}; unpack returns single elements"
                raise fail(ValueError, "index", f"whole {part}s", got)
            first, last = row.length(first, bits), row.length(last, bits)
        made = PackedArray.__new__(PackedArray)
        shape = (stop - start, *self._shape[1:])
        made._keep(self._data[first:last], self._name, shape, self._how)
        return made

    def __eq__(self, other: object) -> bool:
        """Compare type, shape, layout and bytes."""
        if not isinstance(other, PackedArray):
            return NotImplemented
        return self._head() == other._head() and _core.same_words(self, other)

    def _head(self) -> tuple[object, ...]:
        """Return type, shape and layout."""
        return (self._name, self._shape, *self._how)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as a call that builds an equal array."""
        made = partial(PackedArray, layout=self.layout)
        return made, (self._data.copy(), self._name, self._shape)

    def __repr__(self) -> str:
        """Show type, shape and layout, not the elements."""
        layout = self.layout
        how = repr(layout.name if layout.axis is None else layout)
        return (
            f"PackedArray(dtype={self._name!r}, shape={self._shape}, layout={how}, "
            f"nbytes={self.nbytes})"
        )


@_core.hinted
def pack(codes: ArrayLike, layout: str | Layout = "onnx") -> PackedArray:
    """
    Pack codes that are stored one to a byte.

    Parameters
    ----------
    codes : array_like
        Codes of any shape and strides. An int8 or uint8 array of narrower codes needs the
        number of bits, for example ``layout=Layout("onnx", bits=4)``. For arrays of int4,
        uint4, int2, uint2 and float4_e2m1fn, the type determines the number of bits.
        "words" also accepts codes of 8 bits and other narrow floats. Convert wider integers
        to int8 first.
    layout : str or Layout, optional
        How the codes are stored. Default "onnx".

    Returns
    -------
    PackedArray
        Packed array with equal elements.

    Raises
    ------
    TypeError
        If `codes` has another type, or `layout` has the wrong type.
    ValueError
        If a code needs more bits, or the layout is unknown or does not support the width.
    numpy.exceptions.AxisError
        If the axis is out of bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> packed = pq.pack(np.array([1, -2, 3], np.int8), pq.Layout("onnx", bits=4))
    >>> packed
    PackedArray(dtype='int4', shape=(3,), layout='onnx', nbytes=2)
    >>> [hex(byte) for byte in packed.data]
    ['0xe1', '0x3']

    Pack codes of 3 bits like GPTQ, along the first axis of a matrix:

    >>> codes = np.arange(32, dtype=np.uint8).reshape(32, 1) % 8
    >>> p = pq.pack(codes, pq.Layout("words", axis=0, bits=3))
    >>> [f"{word:08x}" for word in p.data[:, 0].view(np.uint32)]
    ['88fac688', 'c688fac6', 'fac688fa']
    """
    return _core.pack(codes, layout)


@_core.hinted
def unpack(p: PackedArray) -> npt.NDArray[Any]:
    """
    Return an array with one byte for each code.

    Parameters
    ----------
    p : PackedArray
        Packed codes.

    Returns
    -------
    ndarray
        The codes, of the type ``p.dtype``: int8 codes that `pack` stored in 4 bits have
        the type int4, and ``.astype("int8")`` converts them.

    Raises
    ------
    TypeError
        If `p` is no packed array.
    ImportError
        If the type needs ml_dtypes and the package is not installed.

    Examples
    --------
    >>> import pyquant as pq
    >>> p = pq.quantize([1.0, -2.0, 3.0], 1.0, dtype="int4", packed=True)
    >>> pq.unpack(p)
    array([1, -2, 3], dtype=int4)
    """
    return _core.unpack(p)


@_core.hinted
def pack_signs(
    x: ArrayLike, *, bitorder: Literal["big", "little"] = "big"
) -> npt.NDArray[np.uint8]:
    """
    Pack one bit for each number along the last axis: 1 if the number is above 0.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16 array with at least one dimension, such as
        embeddings. NaN gives 0.
    bitorder : {"big", "little"}, optional
        "big" (the default): the first number is the highest bit of a byte, like
        ``numpy.packbits``. "little": the first number is the lowest bit.

    Returns
    -------
    ndarray of uint8
        Eight numbers to a byte along the last axis. Unused bits are 0.

    Raises
    ------
    TypeError
        If `x` has another type.
    ValueError
        If `bitorder` is unknown, or `x` has no dimension.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> x = np.float32([[0.3, -0.1, 0.2, 0, -1, 2, 3, 4, 5], [-1] * 9])
    >>> pq.pack_signs(x)
    array([[167, 128],
           [  0,   0]], dtype=uint8)
    >>> np.array_equal(pq.pack_signs(x), np.packbits(x > 0, axis=-1))
    True
    """
    order = choice(bitorder, "bitorder", ("big", "little"), "'big' or 'little'")
    array = _core.as_reals(x, "x")
    if array.ndim == 0:
        raise fail(ValueError, "x", "at least one dimension", "a number")
    layout = Layout("packbits" if order == "big" else "words", axis=-1, bits=1)
    p = _core.quantize(array, 1.0, dtype="uint8", rounding="ceil", layout=layout)
    count = -(-p.shape[-1] // 8)
    return np.array(p.data.view(np.uint8)[..., :count])


def _constant_view(
    data: npt.NDArray[Any], layout: _core.LayoutRow
) -> npt.NDArray[np.integer[Any]]:
    """Return a read-only view of words, which NumPy cannot make writeable again."""
    if _core.is_masked(data):
        raise fail(TypeError, "data", "an array without a mask", "a masked array")
    if not isinstance(data, np.ndarray) or data.dtype not in layout.words:
        got = str(data.dtype) if isinstance(data, np.ndarray) else type(data)
        wanted = " or ".join(map(str, layout.words))
        article = "an" if wanted.startswith("int") else "a"
        raise fail(TypeError, "data", f"{article} {wanted} array", got)
    if layout.flat and data.ndim != 1:
        raise fail(ValueError, "data", "one dimension", f"shape {data.shape}")
    if not data.flags.c_contiguous:
        parts = "bytes" if layout.word_bits == 8 else "words"
        raise fail(ValueError, "data", f"contiguous {parts}", "a strided array")
    view = np.frombuffer(memoryview(data.data).toreadonly(), data.dtype)
    return view.reshape(data.shape)


def _ends(index: slice, extent: int) -> tuple[int, int]:
    """Return first and last position of a slice."""
    if not isinstance(index, slice):
        got = f"{type(index).__name__}; unpack returns single elements"
        raise fail(TypeError, "index", "a slice", got)
    try:
        first, last, step = index.indices(extent)
    except TypeError:
        ends = (index.start, index.stop, index.step)
        got = f"one of {', '.join(type(one).__name__ for one in ends)}"
        raise fail(TypeError, "index", "a slice of integers", got) from None
    if step != 1:
        raise fail(ValueError, "index", "a slice with step 1", f"{step}")
    return (first, last) if first < last else (0, 0)
