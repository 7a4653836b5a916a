# SPDX-License-Identifier: Apache-2.0
"""Run zarr's codecs `cast_value` and `scale_offset` with the kernels of pyquant.

Results equal zarr's own codecs, bit for bit. zarr's codecs process all types that pyquant
lacks, and raise all errors.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pyquant import _core

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy.typing as npt

    _Array = npt.NDArray[Any]

    class _Codec:  # declarations for type checkers; zarr is optional
        dtype: Any
        rounding: str
        out_of_range: str | None
        scalar_map: Mapping[str, Mapping[Any, Any]] | None
        offset: Any
        scale: Any

        def __init__(self, **configuration: Any) -> None: ...
        def resolve_metadata(self, chunk_spec: Any) -> Any: ...
        def _encode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any: ...
        def _decode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any: ...

    class _NDBuffer:
        def __init__(self, array: Any) -> None: ...
        def as_ndarray_like(self) -> Any: ...

    class _CastValue(_Codec): ...

    class _ScaleOffset(_Codec): ...

    config: Any = None

    def register_codec(key: str, codec_cls: type, *, qualname: str) -> None: ...

else:
    from zarr import config
    from zarr.buffer.cpu import NDBuffer as _NDBuffer
    from zarr.codecs import CastValue as _CastValue
    from zarr.codecs import ScaleOffset as _ScaleOffset
    from zarr.registry import register_codec

__all__ = ["CastValue", "ScaleOffset", "register"]

_ROUNDING = {
    "nearest-even": "half_even",
    "nearest-away": "half_away",
    "towards-zero": "trunc",
    "towards-positive": "ceil",
    "towards-negative": "floor",
}
_BEYOND = {None: "raise", "clamp": "saturate", "wrap": "wrap"}
_REALS = ("float16", "float32", "float64")
# Code types, and the real types that represent each code exactly.
_CODES = {
    "int8": _REALS,
    "uint8": _REALS,
    "int16": _REALS[1:],
    "uint16": _REALS[1:],
    "int32": _REALS[2:],
    "uint32": _REALS[2:],
}
_NAN = np.float64(np.nan).tobytes()
_SLICE = 1 << 16  # number of elements that stay in the cache until they are checked


def __dir__() -> list[str]:
    return sorted(__all__)


def register() -> None:
    """
    Register these codecs with zarr, for all arrays that are opened afterwards.

    Arrays that are created with the names of the codecs, or with the classes of this
    module, also use them. Arrays that are created with zarr's classes use them after they
    are opened again. Another call has no effect.

    Examples
    --------
    >>> import pyquant.integrations.zarr
    >>> pyquant.integrations.zarr.register()
    """
    for name, codec in (("cast_value", CastValue), ("scale_offset", ScaleOffset)):
        path = f"{codec.__module__}.{codec.__qualname__}"
        register_codec(name, codec, qualname=path)
        config.set({f"codecs.{name}": path})


class _AtOnce:
    """Asynchronous methods that some of zarr's pipelines call."""

    async def _encode_single(self: Any, chunk_data: Any, chunk_spec: Any) -> Any:
        return self._encode_sync(chunk_data, chunk_spec)

    async def _decode_single(self: Any, chunk_data: Any, chunk_spec: Any) -> Any:
        return self._decode_sync(chunk_data, chunk_spec)


class CastValue(_AtOnce, _CastValue):
    """
    The codec `cast_value` of zarr, between floats and integers.

    Parameters
    ----------
    data_type, rounding, out_of_range, scalar_map
        See `zarr.codecs.CastValue`.

    Notes
    -----
    pyquant casts real numbers to integers of 8, 16 and 32 bits with any rounding mode, and
    these integers to real types that represent each of them exactly. A `scalar_map` may
    contain NaN only. zarr casts all other types and raises the errors, which needs the
    package cast-value-rs. Without this package, pyquant raises the errors.

    Examples
    --------
    >>> import zarr
    >>> from pyquant.integrations.zarr import CastValue
    >>> codec = CastValue(data_type="int8", out_of_range="clamp")
    >>> array = zarr.create_array({}, shape=4, dtype="float32", filters=[codec])
    >>> array[:] = [0.5, 1.5, -3, 1000]
    >>> array[:]
    array([  0.,   2.,  -3., 127.], dtype=float32)
    """

    def resolve_metadata(self, chunk_spec: Any) -> Any:
        """Return the spec of cast chunks, with the cast fill value."""
        fill = np.array([chunk_spec.fill_value], chunk_spec.dtype.to_native_dtype())
        step = self._step(fill, self.dtype, "encode")
        made = None if step is None else _tried(step, fill, None)
        if made is None:
            return super().resolve_metadata(chunk_spec)
        return replace(chunk_spec, dtype=self.dtype, fill_value=made[0])

    def _encode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        made = self._cast(chunk_array, chunk_spec, self.dtype, "encode")
        return super()._encode_sync(chunk_array, chunk_spec) if made is None else made

    def _decode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        made = self._cast(chunk_array, chunk_spec, chunk_spec.dtype, "decode")
        return super()._decode_sync(chunk_array, chunk_spec) if made is None else made

    def _cast(
        self, chunk: Any, chunk_spec: Any, kind: Any, way: Literal["encode", "decode"]
    ) -> Any:
        """Return a chunk of a zarr type, or `None` if zarr must cast it or raise."""
        array, affine = _ahead(chunk, _Affine)
        step = self._step(array, kind, way)
        if isinstance(step, _Dequantize):
            return _pending(array, step, chunk_spec)
        made = None if step is None else _tried(step, array, affine)
        return made if made is None else _buffer(made, chunk_spec)

    def _step(self, array: Any, kind: Any, way: Literal["encode", "decode"]) -> Any:
        """Return pyquant's step for a cast, or `None`."""
        target = kind.to_native_dtype()
        if not _is_known(array) or not target.isnative:
            return None
        scalar_map = (self.scalar_map or {}).get(way) or {}
        if target.name in _CODES.get(array.dtype.name, ()):
            fills = _codes_of(scalar_map.values(), scalar_map.keys())
            return None if fills is None else _Dequantize(target, fills)
        known = self.rounding in _ROUNDING and self.out_of_range in _BEYOND
        if not known or array.dtype.name not in _REALS or target.name not in _CODES:
            return None
        fills = _codes_of(scalar_map.keys(), scalar_map.values())
        if fills is None or len(fills) > 1:
            return None
        rounding, beyond = _ROUNDING[self.rounding], _BEYOND[self.out_of_range]
        return _Quantize(target, fills, rounding, beyond)


class ScaleOffset(_AtOnce, _ScaleOffset):
    """
    The codec `scale_offset`: ``(x - offset) * scale`` and its inverse.

    Parameters
    ----------
    offset, scale
        See `zarr.codecs.ScaleOffset`.

    Notes
    -----
    Without a `CastValue` of this module, it calls zarr's codec. Before a `CastValue`,
    float32 and float64 arrays are scaled and cast in one pass, like ``pyquant.quantize(x,
    scale, offset=offset, inverse=True)``, without an intermediate array.

    Examples
    --------
    >>> import zarr
    >>> from pyquant.integrations.zarr import CastValue, ScaleOffset
    >>> codecs = [ScaleOffset(scale=10, offset=273.15), CastValue(data_type="int16")]
    >>> array = zarr.create_array({}, shape=2, dtype="float64", filters=codecs)
    >>> array[:] = [273.15, 300.12]
    >>> array[:]
    array([273.15, 300.15])
    """

    def _encode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        array, affine = chunk_array.as_ndarray_like(), self._affine(chunk_spec.dtype)
        if affine is None or not _is_known(array):
            return super()._encode_sync(chunk_array, chunk_spec)
        return _pending(array, affine, chunk_spec)

    def _decode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        array, step = _ahead(chunk_array, _Dequantize)
        affine = self._affine(chunk_spec.dtype)
        if affine is None or step is None:
            return super()._decode_sync(chunk_array, chunk_spec)
        return _buffer(step(array, affine), chunk_spec)

    @_core.default_fpenv
    def _affine(self, kind: Any) -> _Affine | None:
        """Return the parameters if pyquant computes arithmetic of this type."""
        if kind.to_native_dtype().name not in _REALS[1:]:
            return None
        given = (self.scale, self.offset)
        numbers = [kind.from_json_scalar(one, zarr_format=3) for one in given]
        return _Affine(*numbers) if np.isfinite(numbers).all() and numbers[0] != 0 else None


class _Affine(NamedTuple):
    """Offset and scale, applied like zarr."""

    scale: np.floating[Any]
    offset: np.floating[Any]

    @_core.default_fpenv
    def __call__(self, x: _Array) -> _Array:
        made: _Array = (x - self.offset) * self.scale
        return made


class _Quantize(NamedTuple):
    """A step from real numbers to integers."""

    dtype: np.dtype[Any]
    fills: tuple[int, ...]
    rounding: Any
    beyond: Any

    @_core.default_fpenv
    def __call__(self, x: _Array, affine: _Affine | None = None) -> _Array:
        how: dict[str, Any] = {"scale": 1} if affine is None else _scaled(affine)
        how |= {"dtype": self.dtype, "rounding": self.rounding, "fill": self.fills or None}
        how["out_of_range"] = self.beyond
        made: _Array
        if self.beyond == "raise":
            made = _core.quantize(x, nan="raise", **how)
            return made
        made = np.empty(x.shape, self.dtype)
        walk = np.nditer(
            [x, made],
            flags=["buffered", "external_loop", "zerosize_ok"],
            op_flags=[["readonly"], ["writeonly"]],
            buffersize=_SLICE,
        )
        with walk, np.errstate(all="ignore"):
            for numbers, codes in walk:
                _core.quantize(numbers, out=codes, **how)
                self._check(numbers, codes, affine)
        return made

    def _check(self, x: _Array, codes: _Array, affine: _Affine | None) -> None:
        """Raise an error for infinities, and for NaN without a code."""
        ends = np.iinfo(self.dtype)  # the codes of these values
        if codes.min() > ends.min and codes.max() < ends.max:
            return
        numbers = x if affine is None else affine(x)
        wrong = np.isinf(numbers) if self.fills else ~np.isfinite(numbers)
        if wrong.any():
            msg = f"x: expected finite numbers, got {numbers[wrong][0]}"
            raise ValueError(msg)


class _Dequantize(NamedTuple):
    """A step from integers to real numbers."""

    dtype: np.dtype[Any]
    fills: tuple[int, ...]

    def __call__(self, codes: _Array, affine: _Affine | None = None) -> _Array:
        how: dict[str, Any] = {"scale": 1} if affine is None else _scaled(affine)
        made: _Array = _core.dequantize(
            codes, dtype=self.dtype, fill=self.fills or None, **how
        )
        return made


class _Pending(_NDBuffer):
    """A chunk with a pending step, which the next codec may fuse with its own."""

    def __init__(self, array: Any, step: Any = None) -> None:
        self.given, self.step = array, step

    @property
    def _data(self) -> Any:  # read by zarr's methods
        if self.step is not None:
            self.given, self.step = self.step(self.given), None
        return self.given


# If zarr renames this attribute, each step runs separately.
_CAN_WAIT = hasattr(_NDBuffer(np.empty(0)), "_data")


def _pending(array: Any, step: Any, chunk_spec: Any) -> Any:
    if _CAN_WAIT and chunk_spec.prototype.nd_buffer is _NDBuffer:
        return _Pending(array, step)
    return _buffer(step(array), chunk_spec)


def _buffer(array: Any, chunk_spec: Any) -> Any:
    return chunk_spec.prototype.nd_buffer.from_ndarray_like(array)


def _ahead(chunk: Any, kind: type) -> tuple[Any, Any]:
    """Return the array of a chunk, and its pending step of a kind, or `None`."""
    if isinstance(chunk, _Pending) and isinstance(chunk.step, kind):
        return chunk.given, chunk.step
    return chunk.as_ndarray_like(), None


def _is_known(array: Any) -> bool:
    """Return True for a NumPy array with native byte order."""
    return isinstance(array, np.ndarray | np.generic) and array.dtype.isnative


def _scaled(affine: _Affine) -> dict[str, Any]:
    return {"scale": affine.scale, "offset": affine.offset, "inverse": True}


def _codes_of(numbers: Collection[Any], codes: Collection[Any]) -> tuple[int, ...] | None:
    """Return the codes that a scalar map pairs with NaN, or `None` for any other map."""
    plain = all(type(code) is int for code in codes) and all(map(_is_nan, numbers))
    return tuple(codes) if plain else None


def _is_nan(number: object) -> bool:
    """Return True for the usual NaN, without sign or payload."""
    is_float = isinstance(number, float) and np.float64(number).tobytes() == _NAN
    return is_float or number == "NaN"


def _tried(step: _Quantize | _Dequantize, array: _Array, affine: _Affine | None) -> Any:
    """Return the result of a step, or `None` if zarr can raise the error."""
    try:
        return step(array, affine)
    except ValueError:
        if find_spec("cast_value_rs") is None:
            raise
        return None
