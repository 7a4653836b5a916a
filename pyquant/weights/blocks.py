# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize weights in the block formats of GGUF.

`block_format` returns a format by its name, such as "Q4_K".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core, dtypes
from pyquant._check import Immutable, fail, flag

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    from typing_extensions import TypeVar  # typing.TypeVar may lack the argument `default`

    from pyquant._typing import Array, ArrayLike, Bytes

    _Real = TypeVar("_Real", bound=Array, default=Array)
    _Bytes = TypeVar("_Bytes", bound=Array, default=Bytes)

__all__ = ["BlockFormat", "block_format", "block_formats"]
__dir__: object = __all__.copy

# Format -> the fields of a block in the order of the bytes. A field has a name, a type, and
# a number of elements.
_FIELDS = {
    "Q4_0": "d:f2 qs:u1:16",
    "Q4_1": "d:f2 m:f2 qs:u1:16",
    "Q5_0": "d:f2 qh:u4 qs:u1:16",
    "Q5_1": "d:f2 m:f2 qh:u4 qs:u1:16",
    "Q8_0": "d:f2 qs:i1:32",
    "Q8_1": "d:f2 s:f2 qs:i1:32",
    "Q2_K": "scales:u1:16 qs:u1:64 d:f2 dmin:f2",
    "Q3_K": "hmask:u1:32 qs:u1:64 scales:u1:12 d:f2",
    "Q4_K": "d:f2 dmin:f2 scales:u1:12 qs:u1:128",
    "Q5_K": "d:f2 dmin:f2 scales:u1:12 qh:u1:32 qs:u1:128",
    "Q6_K": "ql:u1:128 qh:u1:64 scales:i1:16 d:f2",
    "Q8_K": "d:f4 qs:i1:256 bsums:i2:16",
    "IQ2_XXS": "d:f2 qs:u2:32",
    "IQ2_XS": "d:f2 qs:u2:32 scales:u1:8",
    "IQ3_XXS": "d:f2 qs:u1:64 scales_and_signs:u4:8",
    "IQ1_S": "d:f2 qs:u1:32 qh:u2:8",
    "IQ4_NL": "d:f2 qs:u1:16",
    "IQ3_S": "d:f2 qs:u1:64 qh:u1:8 signs:u1:32 scales:u1:4",
    "IQ2_S": "d:f2 qs:u1:32 signs:u1:32 qh:u1:8 scales:u1:8",
    "IQ4_XS": "d:f2 scales_h:u2 scales_l:u1:4 qs:u1:128",
    "IQ1_M": "qs:u1:32 qh:u1:16 scales:u2:4",
    "TQ1_0": "qs:u1:48 qh:u1:4 d:f2",
    "TQ2_0": "qs:u1:64 d:f2",
    "MXFP4": "e:u1 qs:u1:16",
    "NVFP4": "d:u1:4 qs:u1:32",
    "Q1_0": "d:f2 qs:u1:16",
    "Q2_0": "d:f2 qs:u1:16",
}


# Kinds of encoders in the core: the encoder searches for scales, or the caller decides.
_SEARCHED, _EITHER = 2, 3


class BlockFormat(Immutable):
    """
    A block format of GGUF, with its decoder and encoder. The object is immutable.

    `block_format` and `block_formats` return the formats.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> fmt = pq.weights.blocks.block_format("Q8_0")
    >>> fmt
    BlockFormat('Q8_0', block_size=32, block_bytes=34)
    >>> b = fmt.join(d=np.float16([[0.5]]), qs=np.arange(32).reshape(1, 1, 32))
    >>> b.shape
    (1, 34)
    >>> fmt.dequantize(b)[0, :5]
    array([0. , 0.5, 1. , 1.5, 2. ], dtype=float32)
    """

    __slots__ = ("_row",)

    _row: tuple[str, int, int, int, int, bool]

    def __new__(cls) -> BlockFormat:
        """Raise TypeError, because `block_format` returns the existing formats."""
        raise fail(TypeError, "BlockFormat", "block_format() to make it", "a call")

    @property
    def name(self) -> str:
        """Name of the format in ggml, for example ``"Q4_K"``."""
        return self._row[0]

    @property
    def ggml_id(self) -> int:
        """Number of the format in ggml and in GGUF files."""
        return self._row[1]

    @property
    def block_size(self) -> int:
        """Number of elements in a block."""
        return self._row[2]

    @property
    def block_bytes(self) -> int:
        """Number of bytes in a block."""
        return self._row[3]

    @property
    def bits_per_element(self) -> float:
        """Number of bits per element, including the scales of a block."""
        return self.block_bytes * 8 / self.block_size

    @property
    def quantizes(self) -> bool:
        """True if `quantize` supports this format."""
        return self._row[4] > 0

    @property
    def weighted(self) -> bool:
        """True if `quantize` uses its argument `weights`."""
        return self._row[5]

    def encoded_shape(self, shape: Sequence[SupportsIndex]) -> tuple[int, ...]:
        """
        Return the shape of the uint8 array that encodes an array of a given shape.

        Parameters
        ----------
        shape : sequence of int
            Shape of the array. The last extent is a multiple of `block_size`.

        Returns
        -------
        tuple of int
            `shape` with another last extent.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.weights.blocks.block_format("Q4_K").encoded_shape((4096, 512))
        (4096, 288)
        """
        return self._other(shape, self.block_size, self.block_bytes)

    def decoded_shape(self, shape: Sequence[SupportsIndex]) -> tuple[int, ...]:
        """
        Return the shape of the array that encoded bytes of a given shape represent.

        Parameters
        ----------
        shape : sequence of int
            Shape of the bytes. The last extent is a multiple of `block_bytes`.

        Returns
        -------
        tuple of int
            `shape` with another last extent.

        Examples
        --------
        >>> import pyquant as pq
        >>> pq.weights.blocks.block_format("Q4_K").decoded_shape((4096, 288))
        (4096, 512)
        """
        return self._other(shape, self.block_bytes, self.block_size)

    def _other(
        self, shape: Sequence[SupportsIndex], unit: int, other: int
    ) -> tuple[int, ...]:
        try:
            extents = tuple(_core.index(n) for n in shape)
        except TypeError:
            raise fail(TypeError, "shape", "a tuple of integers", type(shape)) from None
        if not extents or min(extents) < 0:
            raise fail(ValueError, "shape", "extents of at least 0", extents)
        if extents[-1] % unit:
            expected = f"a last extent that is a multiple of {unit} for {self.name}"
            raise fail(ValueError, "shape", expected, extents[-1])
        return (*extents[:-1], extents[-1] // unit * other)

    def dequantize(
        self,
        b: ArrayLike,
        *,
        dtype: npt.DTypeLike | None = None,
        out: _Real | None = None,
        threads: SupportsIndex = 1,
    ) -> _Real:
        """
        Convert blocks to real numbers.

        Parameters
        ----------
        b : array_like
            uint8 array of any strides, with complete blocks along the last axis. For a
            ``bytes`` object, pass ``np.frombuffer(b, np.uint8).reshape(rows, -1)``.
        dtype : dtype_like, optional
            float32, float64, float16 or bfloat16. Default: the dtype of `out`, else
            float32.
        out : ndarray, optional
            Array for the result, with the type and shape of the result. It must not share
            memory with `b`. Dimensions may have any strides, but must not interleave.
        threads : int, optional
            Largest number of threads. Default 1. The result does not depend on it.

        Returns
        -------
        ndarray
            A new array, or `out`.

        Notes
        -----
        The exact values are rounded once to float32, so that results equal ggml. float16
        and bfloat16 results are rounded from float32, half to even. Every byte sequence has
        a result. If a scale is NaN or infinite, results are NaN or infinities. With `out`,
        the call allocates no memory.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> b = np.full((2, 18), 0x3C, np.uint8)
        >>> pq.weights.blocks.block_format("Q4_0").dequantize(b, dtype="float16").shape
        (2, 32)
        """
        row = _ROWS[self._row[0]]  # `self._row[0]` is faster than `self.name`
        return _core.decode_blocks(row, b, dtype, out, threads)  # type: ignore[return-value]

    def quantize(
        self,
        x: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        search: bool | None = None,
        out: _Bytes | None = None,
        threads: SupportsIndex = 1,
    ) -> _Bytes:
        """
        Convert real numbers to blocks.

        Parameters
        ----------
        x : array_like
            Finite values of float32, float64, float16 or bfloat16, of any strides, with
            complete blocks along the last axis.
        weights : array_like, optional
            Weights of the errors (an importance matrix): real numbers of at least 0. The
            array has a weight for each column, or the shape of `x`. A format that is not
            `weighted` ignores the weights, like ggml.
        search : bool, optional
            True: search for scales with small errors. By default, the format determines
            whether `quantize` searches. Only IQ4_NL without weights supports both values.
            Its default is False.
        out : ndarray, optional
            uint8 array for the blocks, with the shape of the result. It must not share
            memory with `x`. Dimensions may have any strides, but must not interleave.
        threads : int, optional
            Largest number of threads. Default 1. The result does not depend on it.

        Returns
        -------
        ndarray
            A new uint8 array of shape `encoded_shape`, or `out`.

        Raises
        ------
        ValueError
            If the format has no encoder (see `quantizes`), if the format does not support
            the value of `search`, or if an element of `x` exceeds float32.

        Notes
        -----
        The bytes equal the results of ggml's functions ``quantize_row_*_ref``, with each
        operation rounded once. With weights, or if IQ4_NL searches, the bytes equal the
        results of ggml's functions ``quantize_*``. float64 input is rounded once to
        float32, half to even. The conversion of float16 and bfloat16 input is exact. A
        scale beyond float16 becomes infinite, like in ggml. With `out`, the call allocates
        no memory.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> fmt = pq.weights.blocks.block_format("Q8_0")
        >>> b = fmt.quantize(np.linspace(-1, 1, 64, dtype=np.float32))
        >>> b.shape, float(abs(fmt.dequantize(b) - np.linspace(-1, 1, 64)).max()) < 0.005
        ((68,), True)

        Columns with larger weights get smaller errors:

        >>> x = np.sin(np.arange(2048, dtype=np.float32)).reshape(8, 256)
        >>> fmt = pq.weights.blocks.block_format("Q2_K")
        >>> plain = fmt.dequantize(fmt.quantize(x))
        >>> weights = np.where(np.arange(256) < 32, 9.0, 1.0)
        >>> y = fmt.dequantize(fmt.quantize(x, weights=weights))
        >>> errors = [np.square(one - x)[:, :32].mean() for one in (y, plain)]
        >>> bool(errors[0] < errors[1])
        True
        """
        row = _ROWS[self._row[0]]  # `self._row[0]` is faster than `self.name`
        if not row[4]:
            names = ", ".join(one.name for one in _BY_NAME.values() if one.quantizes)
            raise fail(ValueError, "format", f"{names} to encode", self.name)
        asked = search is not None and self._is_asked(search, weights is not None)
        return _core.encode_blocks(  # type: ignore[return-value]
            row, x, weights, asked, out, threads
        )

    def _is_asked(self, search: bool, weights: bool) -> bool:
        """Check `search`. Return it if the format supports both values, else False."""
        search = flag(search, "search")
        how = _ROWS[self.name][4]
        weighted = weights and self.weighted
        if how == _EITHER and not weighted:
            return search
        always = how == _SEARCHED or weighted
        if search != always:
            which = f"{self.name} with weights" if weighted else self.name
            raise fail(ValueError, "search", f"{always} or None for {which}", search)
        return False

    def split(self, b: ArrayLike) -> dict[str, npt.NDArray[Any]]:
        """
        Split blocks into their fields.

        Parameters
        ----------
        b : array_like
            uint8 array with complete blocks along the last axis.

        Returns
        -------
        dict of str to ndarray
            The fields by their names in ggml, in the order of the bytes. Numbers are
            little-endian. The shape of a field is the shape of `b` with the number of
            blocks as the last extent. If a field has several elements, the number of
            elements follows as another extent. The fields are views of `b` if the bytes of
            each row are contiguous.

        Examples
        --------
        >>> import numpy as np
        >>> from pyquant.weights.blocks import block_format
        >>> parts = block_format("Q4_0").split(np.zeros((5, 36), np.uint8))
        >>> {name: (part.dtype.str, part.shape) for name, part in parts.items()}
        {'d': ('<f2', (5, 2)), 'qs': ('|u1', (5, 2, 16))}
        """
        array = _core.plain(b, "b")
        if array.dtype != np.uint8:
            raise fail(TypeError, "b", "uint8", f"{array.dtype}")
        if array.ndim == 0:
            raise fail(ValueError, "b", "rows of bytes", "an array without dimensions")
        if array.shape[-1] % self.block_bytes:
            expected = f"rows of a multiple of {self.block_bytes} bytes for {self.name}"
            raise fail(ValueError, "b", expected, array.shape[-1])
        count = array.shape[-1] // self.block_bytes
        blocks = array.reshape(*array.shape[:-1], count, self.block_bytes)
        if blocks.strides[-1] != 1:
            blocks = np.ascontiguousarray(blocks)
        return {name: _field(blocks, *where) for name, where in _fields(self.name).items()}

    @_core.default_fpenv
    def join(self, **parts: ArrayLike) -> npt.NDArray[np.uint8]:
        """
        Build blocks from their fields.

        Parameters
        ----------
        **parts : array_like
            All fields, with the names and shapes that `split` returns. Scales are real
            numbers. All other fields are integers in the range of the type of the field.

        Returns
        -------
        ndarray
            uint8 array of blocks. `split` divides it into fields that equal `parts`.

        Examples
        --------
        >>> import numpy as np
        >>> import pyquant as pq
        >>> fmt = pq.weights.blocks.block_format("MXFP4")
        >>> fmt.join(e=np.array([127]), qs=np.full((1, 16), 0x22))
        array([127,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,  34,
                34,  34,  34,  34], dtype=uint8)
        """
        fields = _fields(self.name)
        if parts.keys() != fields.keys():
            got = ", ".join(parts) or "none"
            raise fail(TypeError, "join", ", ".join(fields), got)
        made = {
            name: _stored(_core.plain(parts[name], name), name, where[1])
            for name, where in fields.items()
        }
        leading = _leading(made, fields)
        out = np.empty((*leading, self.block_bytes), np.uint8)
        for name, where in fields.items():
            _field(out, *where)[...] = made[name]
        return out.reshape(*leading[:-1], leading[-1] * self.block_bytes)

    def __repr__(self) -> str:
        """Show the name, and the numbers of elements and bytes in a block."""
        size, nbytes = self.block_size, self.block_bytes
        return f"BlockFormat({self.name!r}, block_size={size}, block_bytes={nbytes})"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the format by its name."""
        return block_format, (self.name,)


def _made(row: tuple[str, int, int, int, int, bool]) -> BlockFormat:
    format = object.__new__(BlockFormat)
    object.__setattr__(format, "_row", row)
    return format


# Name -> row with the sizes of a format in the core. Methods pass this row to the core,
# because the properties of a subclass of BlockFormat could return wrong sizes.
_ROWS = {row[0]: row for row in _core.block_rows()}
_BY_NAME = {name: _made(row) for name, row in _ROWS.items()}
_BY_ID = {one.ggml_id: one for one in _BY_NAME.values()}


def block_format(format: str | SupportsIndex) -> BlockFormat:
    """
    Return the GGUF block format with a given name or ggml number.

    Parameters
    ----------
    format : str or int
        Name in ggml in any letter case, for example ``"Q4_K"``, or number in ggml.

    Returns
    -------
    BlockFormat
        The format. All calls with one format return the same object.

    Raises
    ------
    KeyError
        If the format is unknown.

    Examples
    --------
    >>> from pyquant.weights.blocks import block_format
    >>> block_format(12).name, block_format("Q4_K").bits_per_element
    ('Q4_K', 4.5)
    """
    if isinstance(format, str):
        found = _BY_NAME.get(format.upper())
    else:
        try:
            found = _BY_ID.get(_core.index(format))
        except TypeError:
            got = type(format)
            raise fail(TypeError, "format", "a string or an integer", got) from None
    if found is None:
        raise fail(KeyError, "format", "a block format of GGUF", format, _BY_NAME)
    return found


def block_formats() -> tuple[BlockFormat, ...]:
    """
    Return all GGUF block formats.

    Returns
    -------
    tuple of BlockFormat
        All formats, in the order of their numbers in ggml.

    Examples
    --------
    >>> import pyquant as pq
    >>> [fmt.name for fmt in pq.weights.blocks.block_formats()][:4]
    ['Q4_0', 'Q4_1', 'Q5_0', 'Q5_1']
    """
    return tuple(_BY_NAME.values())


def _fields(name: str) -> dict[str, tuple[int, np.dtype[Any], int]]:
    """Return offset in bytes, type, and number of elements of each field of a block."""
    fields, at = {}, 0
    for text in _FIELDS[name].split():
        field, letters, *count = text.split(":")
        dtype = np.dtype(f"<{letters}")
        fields[field] = (at, dtype, int(count[0]) if count else 1)
        at += dtype.itemsize * fields[field][2]
    return fields


def _field(blocks: Bytes, at: int, dtype: np.dtype[Any], count: int) -> Array:
    """Return a view of the field at byte `at` of each block."""
    view = blocks[..., at : at + dtype.itemsize * count].view(dtype)
    return view[..., 0] if count == 1 else view


def swaps(name: str) -> bool:
    """
    Return True if pyquant reads big-endian blocks of this format.

    Every field with elements of several bytes must be a float, because writers of
    big-endian files disagree about the order of bytes in an integer.
    """
    types = [dtype for _, dtype, _ in _fields(name).values()]
    return all(dtype.kind == "f" or dtype.itemsize == 1 for dtype in types)


def swapped(b: npt.NDArray[np.uint8], name: str) -> npt.NDArray[np.uint8]:
    """Return a little-endian copy of big-endian blocks."""
    copy = b.copy()
    blocks = copy.reshape(-1, _BY_NAME[name].block_bytes)
    for where in _fields(name).values():
        _field(blocks, *where).byteswap(inplace=True)
    return copy


def _stored(array: Array, name: str, dtype: np.dtype[Any]) -> Array:
    """Convert an argument to the type of a field. Raise an error if it does not fit."""
    if array.dtype == dtype:
        return array
    if dtypes.name_of(array.dtype) == "bfloat16":
        array = _core.cast(array, "float32")
    kinds = "fiu" if dtype.kind == "f" else "iu"
    if array.dtype.kind not in kinds:
        expected = "real numbers" if dtype.kind == "f" else "integers"
        raise fail(TypeError, name, expected, dtypes.described(array))
    made = _core.cast(array, dtype.name)
    if dtype.kind == "f" != array.dtype.kind:  # a NumPy comparison could round integers
        same = np.equal(made, array, signature="OO->?")
    else:
        same = (made == array) | ((made != made) & (array != array))
    if not same.all():
        wrong = array[~same].flat[0]
        raise fail(ValueError, name, f"numbers that {dtype.name} holds", f"{wrong}")
    return made


def _leading(
    made: dict[str, Array], fields: dict[str, tuple[int, np.dtype[Any], int]]
) -> tuple[int, ...]:
    """Check the shapes of all fields, and return the shape of the array of blocks."""
    shapes = []
    for name, (_, _, count) in fields.items():
        shape = made[name].shape
        ends = (count,) if count > 1 else ()
        if shape[len(shape) - len(ends) :] != ends or len(shape) == len(ends):
            expected = ", ".join(("…, blocks", *map(str, ends)))
            raise fail(ValueError, name, f"shape ({expected})", shape)
        shapes.append(shape[: len(shape) - len(ends)])
        if shapes[-1] != shapes[0]:
            expected = f"{shapes[0]} blocks, as {next(iter(fields))} has"
            raise fail(ValueError, name, expected, shapes[-1])
    return shapes[0]
