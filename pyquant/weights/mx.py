# SPDX-License-Identifier: Apache-2.0
"""Read and write weights in OCP MX blocks, which have power-of-two scales.

Blocks are along the last axis. ``weight_scale`` has a float8_e8m0fnu scale for each block.
``weight_packed`` has two float4_e2m1fn elements in a byte, with the first element in the
low bits. Elements of another type are in ``weight``. Values are ``element * scale``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from pyquant import _check, _core, dtypes
from pyquant._check import array, fail, integer, listed, shown
from pyquant.dtypes import requested
from pyquant.packed import PackedArray
from pyquant.weights import _weight
from pyquant.weights._magnitudes import each_slab, grid_of, real_array
from pyquant.weights._weight import Scaled, Weight

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from pyquant._typing import Array, ArrayLike, Floats, ScaleRule, Words

    _Places = tuple[slice, ...]

__all__ = ["from_tensors", "quantize", "unswizzle"]
__dir__: object = __all__.copy

_PACKED, _PLAIN = ("weight_packed", "weight_scale"), ("weight", "weight_scale")
# Names in gpt-oss. The last axis of the first tensor has the bytes of a block.
_BLOCKS = ("weight_blocks", "weight_scales")
_SHORT = ("weight", "scale")  # names in DeepSeek


class _Element(NamedTuple):
    """Exponent and value of the largest number of a type, and number of mantissa bits."""

    exponent: int | Words
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
_NAN = 255  # the code of the scale NaN
_INFINITE = 0x7F800000  # the bits of infinity in float32; the bits of NaN are larger
_BITS = 23  # number of mantissa bits of float32


@_core.hinted
def from_tensors(
    tensors: Mapping[str, Any], name: str = "", *, block_size: SupportsIndex = 32
) -> Weight:
    """
    Return a weight from elements and scales, without a copy.

    Parameters
    ----------
    tensors : mapping
        A mapping from names to arrays. The elements have the name ``weight_packed`` or
        ``weight``, and the scales have the name ``weight_scale`` or ``scale``. Elements
        have a type that `quantize` supports, or are bytes with two float4_e2m1fn elements
        each. Scales have type float8_e8m0fnu or uint8. The names ``weight_blocks`` and
        ``weight_scales`` are also accepted. Bytes in ``weight_blocks`` have an additional
        last axis for the bytes of a block.
    name : str, optional
        Name of the weight, such as "layer.weight", or of its layer. Default: no name.
    block_size : int, optional
        Number of elements in a block. Default 32.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mx
    >>> q, scale = np.full((1, 16), 0x21, np.uint8), np.uint8([[128]])
    >>> w = mx.from_tensors({"up_blocks": q.reshape(1, 1, 16), "up_scales": scale}, "up")
    >>> w.dequantize()[0, :4]
    array([1., 2., 1., 2.], dtype=float32)
    """
    read = partial(_read, size=integer(block_size, "block_size", 1))
    known = (_PACKED, _PLAIN, _SHORT, _BLOCKS, _PACKED)
    needed = _weight.keys_in(tensors, name, *known)
    return _weight.make(read, tensors, name, needed, stacks=False)


def _read(*, size: int, **given: Any) -> tuple[str, dict[str, Any], Scaled]:
    """Check that elements and scales match, and return the common form."""
    (key, elements), (scale_key, stored) = given.items()
    scale = _weight.scales_of(stored, scale_key, "float8_e8m0fnu")
    if key == _BLOCKS[0]:
        elements = np.ascontiguousarray(array(elements, key, ("uint8",)))
        if elements.ndim < 2 or elements.shape[-1] * 2 != size:
            raise fail(ValueError, key, f"a last extent of {size // 2}", elements.shape)
        elements = elements.reshape(*elements.shape[:-2], -1)
    codes = _weight.elements_of(elements, key, tuple(_ELEMENTS))
    _weight.check_shape(scale, scale_key, grid_of(codes.shape, size))
    blocks = (*(1 for _ in codes.shape[1:]), size)
    return "mx", given, Scaled(codes, codes.shape, scale, blocks)


@_core.default_fpenv
def quantize(
    x: ArrayLike,
    dtype: npt.DTypeLike,
    *,
    rule: ScaleRule = "floor",
    block_size: SupportsIndex = 32,
    threads: SupportsIndex = 1,
) -> Weight:
    """
    Convert real numbers to MX blocks.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16 array of shape (..., K), with any strides. K
        must be even for float4_e2m1fn.
    dtype : dtype_like
        Type of the elements: float8_e4m3fn, float8_e5m2, float6_e2m3fn, float6_e3m2fn or
        float4_e2m1fn.
    rule : {"floor", "ceil", "even", "rceil"}, optional
        Rule for choosing scales, see Notes. Default "floor", the rule of the standard.
    block_size : int, optional
        Number of elements in a block along the last axis. The last block may be short.
        Default 32, the size of the standard.
    threads : int, optional
        Largest number of threads. Default 1. The result does not depend on it.

    Returns
    -------
    Weight
        Elements, and float8_e8m0fnu scales of shape (..., blocks).

    Notes
    -----
    A scale is stored as a byte b, which means the number 2**(b - 127). Let a be the largest
    magnitude of a block, rounded to float32. E is the exponent field in the bits of a, e is
    the exponent of the largest number of `dtype`, and m is the number of mantissa bits of
    `dtype`:

    - "floor": b = E - e. This is the rule in section 6.3 of OCP MX 1.0. The largest value
      of a block may saturate.
    - "ceil": like "floor", but a is first rounded up to a power of two.
    - "even": like "floor", but the mantissa of a is first rounded to m bits, half up.
    - "rceil": a is divided by the largest number of `dtype` and rounded to float32. The
      scale is this quotient, rounded up to a power of two, so that no value saturates.
      cuBLAS uses this rule.

    If b is negative, 0 replaces it, so that a block of zeros has b = 0. A block with NaN or
    infinity has b = 255, which is the scale NaN. With "even", b is also 255 if a is rounded
    to infinity. In a block with the scale NaN, float8 elements are NaN, and elements of
    other types have no meaning. Elements are the exact quotients of values and scales,
    rounded once, half to even, and saturated.

    The result equals torchao's `to_mx` in the modes FLOOR, CEIL, EVEN and RCEIL. In release
    0.18 of torchao, the results differ for blocks with infinities and if b is 0 or 1. For
    blocks along other axes,
    ``pq.choose_qparams(..., scale_dtype="float8_e8m0fnu", scale_rule=rule)`` chooses equal
    scales for finite values.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mx
    >>> x = (np.arange(32, dtype=np.float32) - 16) / 8
    >>> w = mx.quantize(x, "float4_e2m1fn")
    >>> w.tensors()["weight_scale"].view(np.uint8)
    array([126], dtype=uint8)
    >>> w.tensors()["weight_packed"].tobytes().hex()
    'eededdccccabaa890021224344545566'
    """
    element, name = _element_of(dtype), str(requested(dtype))
    _check.choice(rule, "rule", _RULES)
    packed = name == "float4_e2m1fn"
    values = real_array(x, even=packed)
    size = integer(block_size, "block_size", 1)
    stored = np.empty(grid_of(values.shape, size), np.uint8)

    def take(places: _Places, magnitudes: Floats) -> None:
        stored[places] = _bytes_of(magnitudes, element, rule)

    each_slab(take, values, size, threads)
    scale = stored.view(_core.dtype_named("float8_e8m0fnu"))
    how: dict[str, Any] = {"axis": values.ndim - 1, "block_size": size, "threads": threads}
    codes = _core.quantize(values, scale, dtype=name, packed=packed, **how)
    data = codes
    if isinstance(codes, PackedArray):
        data = codes.data.reshape(*values.shape[:-1], values.shape[-1] // 2)
    tensors = _weight.by_name(_PACKED if packed else _PLAIN, data, scale)
    return Weight("mx", tensors, partial(_read, size=size))


@_core.hinted
def unswizzle(
    scales: ArrayLike, shape: tuple[SupportsIndex, SupportsIndex]
) -> npt.NDArray[Any]:
    """
    Reorder scales from the layout of cuBLAS to rows.

    Parameters
    ----------
    scales : array_like
        Scales of one byte each, in an array of any shape. In C order, the array is a
        sequence of tiles. A tile has 128 rows and 4 columns of scales. Unused elements fill
        the last tiles.
    shape : tuple of int
        Numbers of rows and columns of the scales in the result.

    Returns
    -------
    ndarray
        The scales, with shape `shape` and the type of `scales`.

    Notes
    -----
    A tile has 512 bytes. The scale in row r and column c of the tile is at index
    ``r % 32 * 16 + r // 32 * 4 + c``.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.weights import mx
    >>> tile = np.arange(512).astype(np.uint8)
    >>> mx.unswizzle(tile, (2, 3))
    array([[ 0,  1,  2],
           [16, 17, 18]], dtype=uint8)
    """
    given = _core.plain(scales, "scales")
    if given.dtype.itemsize != 1:
        raise fail(TypeError, "scales", "elements of one byte", f"{given.dtype}")
    extents = _core.integers(shape, "shape")
    if not isinstance(extents, tuple) or len(extents) != 2 or min(extents) < 0:
        got = f"{shown(shape):.60}"
        raise fail(ValueError, "shape", "two integers of at least 0", got)
    rows, columns = extents
    high, wide = -(-rows // 128), -(-columns // 4)
    if math.prod(given.shape) != high * wide * 512:
        count = shown(high * wide * 512)
        expected = f"{count} elements, in tiles of 512, for shape {shown(extents)}"
        raise fail(ValueError, "scales", expected, given.size)
    tiles = given.reshape(high, wide, 32, 4, 4).transpose(0, 3, 2, 1, 4)
    made: Array = tiles.reshape(high * 128, wide * 4)[:rows, :columns]
    return made.copy()


def _element_of(dtype: npt.DTypeLike) -> _Element:
    name = requested(dtype)
    if name not in _ELEMENTS:
        from pyquant._refused import hint_of_type

        got = f"{dtypes.shown(dtype):.60}{hint_of_type(dtype, _ELEMENTS)}"
        raise fail(TypeError, "dtype", listed(_ELEMENTS), got)
    return _ELEMENTS[name]


def scales_by_rule(
    spans: npt.NDArray[np.float64], dtype: str, steps: float | None, rule: str
) -> npt.NDArray[Any]:
    """Return a scale for each span of values, by a rule.

    The scale is a power of two near the quotient of the span and `steps`, the length of the
    range of integer codes. For a float type `dtype`, `steps` is `None`, and the divisor is
    the largest number of the type.
    """
    exponent = math.frexp(steps or 1)[1] - 1
    element = _Element(exponent, steps, exponent) if steps else _element_of(dtype)
    magnitudes = _core.cast(spans.reshape(-1), "float32")
    return _finite_scales(magnitudes, element, rule).reshape(spans.shape)


@_core.default_fpenv
def rounded_scales(
    scale: ArrayLike, dtype: npt.DTypeLike | None, rule: str
) -> npt.NDArray[Any]:
    """Round scales to float8_e8m0fnu by a rule."""
    check_rule(dtype, rule)
    stored = _core.as_reals(scale, "scale")
    given = stored.reshape(-1).astype(np.float64)
    bad = ~((given >= 0) & (given < np.inf))
    if bad.any():
        expected = f"finite numbers of at least 0 with scale_rule={rule!r}"
        raise fail(ValueError, "scale", expected, f"{given[bad][0]}")
    small = given < 2.0**-64  # multiplied, because the rules need normal float32 numbers
    values = _core.cast(given * np.where(small, 2.0**64, 1), "float32")
    element = _Element(np.where(small, np.int32(64), np.int32(0)), 1, 0)
    made = _finite_scales(values, element, "ceil" if rule == "rceil" else rule)
    return made.reshape(stored.shape)


def check_rule(dtype: npt.DTypeLike | None, rule: object) -> None:
    """Raise an error for an unknown scale_rule, or for a scale type other than E8M0."""
    _check.choice(rule, "scale_rule", _RULES)
    if dtype is None or requested(dtype) != "float8_e8m0fnu":
        expected = f"float8_e8m0fnu with scale_rule={rule!r}"
        raise fail(ValueError, "scale_dtype", expected, f"{shown(dtype):.60}")


def _finite_scales(magnitudes: Floats, element: _Element, rule: str) -> Array:
    """Return scales for magnitudes of finite values, so that no scale is NaN.

    A magnitude may be infinite after rounding to float32. The scale is then the largest
    scale that a finite magnitude can get.
    """
    made = _bytes_of(magnitudes, element, rule)
    beyond = np.where(np.isinf(magnitudes), 0, element.exponent)
    made = np.where(made == _NAN, _NAN - np.maximum(beyond, 1), made)
    return made.astype(np.uint8).view(_core.dtype_named("float8_e8m0fnu"))


def _bytes_of(magnitudes: Floats, element: _Element, rule: str) -> Words:
    """Return the code of the scale for each magnitude by a rule, see `quantize`."""
    bits = magnitudes.view(np.int32)
    nan = bits >= _INFINITE
    if nan.any():
        magnitudes = np.where(nan, np.float32(0), magnitudes)
        bits = magnitudes.view(np.int32)
    if rule == "rceil":
        # The float64 quotient, rounded to float32, equals the float32 quotient.
        quotients = magnitudes / np.float64(element.largest)
        bits = _core.cast(quotients, "float32").view(np.int32)
    up = {"floor": 0, "even": 1 << _BITS - 1 >> element.mantissa}.get(
        rule, (1 << _BITS) - 1
    )
    made = bits + np.int32(up)
    made >>= _BITS
    if rule == "rceil":
        small = bits < 1 << _BITS  # the quotient is a subnormal float32 number
        if small.any():
            made[small] = bits[small] > 1 << _BITS - 1
    else:
        if rule == "even":
            nan |= made == _NAN  # the magnitude was rounded to infinity
        made -= element.exponent
        np.maximum(made, 0, out=made)
    made[nan] = _NAN
    return made
