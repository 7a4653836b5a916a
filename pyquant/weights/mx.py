# SPDX-License-Identifier: Apache-2.0
"""Quantize to OCP MX blocks with power-of-two scales, and back."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from pyquant import _core
from pyquant._standard import requested, shown
from pyquant.weights._magnitudes import (
    block_scales,
    blocks_along,
    each_slab,
    one_of,
    real_array,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from pyquant._typing import ArrayLike, ScaleRule
    from pyquant.packed import PackedArray

    _Places = tuple[slice, ...]

__all__ = ["choose_scale", "dequantize", "quantize", "unswizzle"]


class _Element(NamedTuple):
    """Exponent of the largest number of an element type, that number, and mantissa bits."""

    exponent: int | npt.NDArray[np.int32]
    largest: float
    mantissa: int


_ELEMENTS = {
    "float8_e4m3fn": _Element(8, 448, 3),
    "float8_e5m2": _Element(15, 57344, 2),
    "float6_e2m3fn": _Element(2, 7.5, 3),
    "float6_e3m2fn": _Element(4, 28, 2),
    "float4_e2m1fn": _Element(2, 6, 1),
}
_RULES = ("floor", "ceil", "even", "rceil")
_NAN = 255  # NaN as a scale
_INFINITE = 0x7F800000  # infinity as bits of float32; NaN has larger bits
_BITS = 23  # mantissa bits of float32


def __dir__() -> list[str]:
    return sorted(__all__)


@_core.default_fpenv
def choose_scale(
    x: ArrayLike,
    dtype: npt.DTypeLike,
    *,
    rule: ScaleRule = "floor",
    axis: SupportsIndex = -1,
    block_size: SupportsIndex = 32,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Choose the scale of each MX block from its largest magnitude.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16 array of at least one dimension, with any
        strides.
    dtype : dtype_like
        Type of the elements: float8_e4m3fn, float8_e5m2, float6_e2m3fn, float6_e3m2fn or
        float4_e2m1fn.
    rule : {"floor", "ceil", "even", "rceil"}, optional
        See Notes. Default "floor", the rule of the standard.
    axis : int, optional
        The axis of the blocks. Default: the last.
    block_size : int, optional
        Number of elements in a block; the last block may be short. Default 32, like the
        standard.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    ndarray
        float8_e8m0fnu, with the shape of `x`, and the number of blocks at `axis`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value is wrong.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.
    ImportError
        If ml_dtypes, which defines float8_e8m0fnu, is not installed.

    Notes
    -----
    A byte b is the scale 2**(b - 127). Let a be the largest magnitude of a block as float32
    (float64 is rounded, half to even). E is the exponent in its bits, e the exponent of the
    largest number of `dtype`, and m the number of significand bits:

    - "floor": b = E - e. OCP MX 1.0, 6.3; the largest value of a block may saturate.
    - "ceil": like "floor", with a rounded up to a power of two.
    - "even": like "floor", with the significand of a rounded to m bits, half up.
    - "rceil": a divided by the largest number of `dtype`, as float32, and then rounded up
      to a power of two, so that no value saturates. cuBLAS uses this rule.

    A negative b becomes 0, so a block of zeros has b = 0. A block with NaN or an infinity,
    or with "even" a value that rounds to infinity, has b = 255, which is NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mx
    >>> x = np.float32([[0.5, 7, -1], [0, 0, 0]])
    >>> for rule in "floor", "ceil", "even", "rceil":
    ...     print(mx.choose_scale(x, "float4_e2m1fn", rule=rule).astype(float).ravel())
    [1.00000000e+00 5.87747175e-39]
    [2.00000000e+00 5.87747175e-39]
    [2.00000000e+00 5.87747175e-39]
    [2.00000000e+00 5.87747175e-39]
    """
    element = _element_of(dtype)
    one_of(rule, "rule", _RULES)
    scale_dtype = _core.dtype_named("float8_e8m0fnu")
    array = real_array(x)
    size = _core.integer(block_size, "block_size", 1)
    count = _core.integer(threads, "threads", 1)
    at, shape = blocks_along(array.shape, axis, size)
    scales = np.empty(shape, np.uint8)

    def take(places: _Places, magnitudes: npt.NDArray[np.float32]) -> None:
        scales[places] = _bytes_of(magnitudes, element, rule)

    each_slab(take, array, at, size, count)
    made: npt.NDArray[Any] = scales.view(scale_dtype)
    return made


@_core.hinted
def quantize(
    x: ArrayLike,
    dtype: npt.DTypeLike,
    *,
    rule: ScaleRule = "floor",
    axis: SupportsIndex = -1,
    block_size: SupportsIndex = 32,
    packed: bool = False,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> tuple[Any, npt.NDArray[Any]]:
    """
    Convert real numbers to MX blocks.

    Parameters
    ----------
    x, dtype, rule, axis, block_size
        See `choose_scale`.
    packed : bool, optional
        For float4_e2m1fn: return a `PackedArray` with two elements to a byte, the first in
        the low bits.
    out : ndarray, optional
        Array for the elements, of the exact shape and dtype. Any strides are allowed.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    codes : ndarray or PackedArray
        The elements, with the shape of `x`, or `out`.
    scales : ndarray
        float8_e8m0fnu scales, the result of `choose_scale`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong; `out` is unchanged.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.
    ImportError
        If ml_dtypes is not installed, which has the type of the scales.

    Notes
    -----
    The elements are ``quantize(x, scales, dtype=dtype, axis=axis, block_size=block_size)``:
    exact quotients, rounded once half to even and saturated. If the scale of a block is
    NaN, its float8 elements are NaN, and elements of other types have no meaning.

    The result equals torchao's `to_mx` in its modes FLOOR, CEIL, EVEN and RCEIL, except for
    b = 0 or 1 and infinities in release 0.18.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mx
    >>> x = (np.arange(32, dtype=np.float32) - 16) / 8
    >>> q, scales = mx.quantize(x, "float4_e2m1fn", packed=True)
    >>> scales.view(np.uint8)
    array([126], dtype=uint8)
    >>> q.data.tobytes().hex()
    'eededdccccabaa890021224344545566'
    """
    array = real_array(x)
    scales = choose_scale(
        array, dtype, rule=rule, axis=axis, block_size=block_size, threads=threads
    )
    where: Any = out  # `None` beside packed=True, else an error
    codes = _core.quantize(
        array,
        scales,
        dtype=dtype,
        axis=_core.integer(axis, "axis"),
        block_size=_core.integer(block_size, "block_size"),
        packed=packed,
        out=where,
        threads=threads,
    )
    return codes, scales


@_core.hinted
def dequantize(
    q: ArrayLike | PackedArray,
    scale: ArrayLike,
    *,
    dtype: npt.DTypeLike | None = None,
    axis: SupportsIndex = -1,
    block_size: SupportsIndex = 32,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert MX blocks to real numbers.

    Parameters
    ----------
    q : array_like or PackedArray
        Elements of a type of `choose_scale`. A uint8 array contains two float4_e2m1fn
        elements in a byte, if the shape of `scale` fits no other type.
    scale : array_like
        float8_e8m0fnu, or its bytes as uint8, with the shape of `q`, and the number of
        blocks at `axis`.
    dtype : dtype_like, optional
        float32 (the default), float64, float16 or bfloat16.
    axis, block_size : int, optional
        See `choose_scale`.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    ndarray
        Products of elements and scales, rounded once, or `out`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If a value or a shape is wrong; `out` is unchanged.
    numpy.exceptions.AxisError
        If `axis` is out of bounds.
    ImportError
        If a type needs ml_dtypes and the package is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mx
    >>> q, scale = np.full((1, 32), 0x21, np.uint8), np.uint8([[128, 127]])
    >>> mx.dequantize(q, scale)[0, :4]
    array([1., 2., 1., 2.], dtype=float32)
    """
    size = _core.integer(block_size, "block_size", 1)
    codes, scales = block_scales(q, scale, tuple(_ELEMENTS), "float8_e8m0fnu", axis, size)
    return _core.dequantize(
        codes,
        scales,
        dtype=dtype,
        axis=_core.integer(axis, "axis"),
        block_size=size,
        out=out,
        threads=threads,
    )


@_core.hinted
def unswizzle(
    scales: ArrayLike, shape: tuple[SupportsIndex, SupportsIndex]
) -> npt.NDArray[Any]:
    """
    Reorder scales from the layout of cuBLAS to rows.

    Parameters
    ----------
    scales : array_like
        One-byte scales of any shape: consecutive tiles of 128 rows and 4 columns in C
        order, padded to complete tiles.
    shape : tuple of int
        Number of rows and columns of scales.

    Returns
    -------
    ndarray
        The scales, with shape `shape` and the type of `scales`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the number of scales does not match the tiles.

    Notes
    -----
    In a tile of 512 bytes, the scale in row r and column c has position ``r % 32 * 16 + r
    // 32 * 4 + c``.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mx
    >>> tile = np.arange(512).astype(np.uint8)
    >>> mx.unswizzle(tile, (2, 3))
    array([[ 0,  1,  2],
           [16, 17, 18]], dtype=uint8)
    """
    array = _core.plain(scales, "scales")
    if array.dtype.itemsize != 1:
        msg = f"scales: expected elements of one byte, got {array.dtype}"
        raise TypeError(msg)
    extents = _core.integers(shape, "shape")
    if not isinstance(extents, tuple) or len(extents) != 2 or min(extents) < 0:
        msg = f"shape: expected two integers of at least 0, got {shown(shape):.60}"
        raise ValueError(msg)
    rows, columns = extents
    high, wide = -(-rows // 128), -(-columns // 4)
    if math.prod(array.shape) != high * wide * 512:
        count = shown(high * wide * 512)
        expected = f"{count} elements, in tiles of 512, for shape {shown(extents)}"
        msg = f"scales: expected {expected}, got {array.size}"
        raise ValueError(msg)
    tiles = array.reshape(high, wide, 32, 4, 4).transpose(0, 3, 2, 1, 4)
    made: npt.NDArray[Any] = tiles.reshape(high * 128, wide * 4)[:rows, :columns]
    return made.copy()


def _element_of(dtype: npt.DTypeLike) -> _Element:
    name = requested(dtype)
    if name not in _ELEMENTS:
        *most, last = _ELEMENTS
        expected = f"{', '.join(most)} or {last}"
        from pyquant._refused import hint_of_type

        end = hint_of_type(dtype, _ELEMENTS)
        msg = f"dtype: expected {expected}, got {shown(dtype):.60}{end}"
        raise TypeError(msg)
    return _ELEMENTS[name]


def scales_by_rule(
    spans: npt.NDArray[np.float64], dtype: str, steps: float | None, rule: str
) -> npt.NDArray[Any]:
    """Return the scale for each range of `steps` integers, or of an element type."""
    exponent = math.frexp(steps or 1)[1] - 1
    element = _Element(exponent, steps, exponent) if steps else _element_of(dtype)
    magnitudes = _core.cast(spans.reshape(-1), "float32")
    return _finite_scales(magnitudes, element, rule).reshape(spans.shape)


@_core.default_fpenv
def rounded_scales(
    scale: ArrayLike, dtype: npt.DTypeLike | None, rule: str
) -> npt.NDArray[Any]:
    """Round given scales to float8_e8m0fnu."""
    check_rule(dtype, rule)
    stored = _core.as_reals(scale, "scale")
    given = stored.reshape(-1).astype(np.float64)
    bad = ~((given >= 0) & (given < np.inf))
    if bad.any():
        expected = f"finite numbers of at least 0 with scale_rule={rule!r}"
        raise ValueError(f"scale: expected {expected}, got {given[bad][0]}")
    small = given < 2.0**-64  # float32 would be subnormal
    values = _core.cast(given * np.where(small, 2.0**64, 1), "float32")
    element = _Element(np.where(small, np.int32(64), np.int32(0)), 1, 0)
    made = _finite_scales(values, element, "ceil" if rule == "rceil" else rule)
    return made.reshape(stored.shape)


def check_rule(dtype: npt.DTypeLike | None, rule: object) -> None:
    """Raise an error unless a rule can round scales to the type."""
    one_of(rule, "scale_rule", _RULES)
    if dtype is None or requested(dtype) != "float8_e8m0fnu":
        expected = f"float8_e8m0fnu with scale_rule={rule!r}"
        raise ValueError(f"scale_dtype: expected {expected}, got {shown(dtype):.60}")


def _finite_scales(
    magnitudes: npt.NDArray[np.float32], element: _Element, rule: str
) -> npt.NDArray[Any]:
    """Return scales of finite numbers; an overflow becomes the largest exponent."""
    made = _bytes_of(magnitudes, element, rule)
    beyond = np.where(np.isinf(magnitudes), 0, element.exponent)
    made = np.where(made == _NAN, _NAN - np.maximum(beyond, 1), made)
    return made.astype(np.uint8).view(_core.dtype_named("float8_e8m0fnu"))


def _bytes_of(
    magnitudes: npt.NDArray[np.float32], element: _Element, rule: str
) -> npt.NDArray[np.int32]:
    """Return the bytes of scales: exponents of the adjusted magnitudes."""
    bits = magnitudes.view(np.int32)
    nan = bits >= _INFINITE
    if nan.any():
        magnitudes = np.where(nan, np.float32(0), magnitudes)
        bits = magnitudes.view(np.int32)
    if rule == "rceil":
        quotients = magnitudes / np.float64(element.largest)  # double rounding is exact
        bits = _core.cast(quotients, "float32").view(np.int32)
    up = {"floor": 0, "even": 1 << _BITS - 1 >> element.mantissa}.get(
        rule, (1 << _BITS) - 1
    )
    made = bits + np.int32(up)
    made >>= _BITS
    if rule == "rceil":
        small = bits < 1 << _BITS  # subnormal: the power of two is half as large
        if small.any():
            made[small] = bits[small] > 1 << _BITS - 1
    else:
        if rule == "even":
            nan |= made == _NAN  # rounded to infinity
        made -= element.exponent
        np.maximum(made, 0, out=made)
    made[nan] = _NAN
    return made
