# SPDX-License-Identifier: Apache-2.0
"""Run zarr's codec `cast_value` with the kernels of pyquant.

Results equal the codec of zarr, bit for bit. zarr's codec casts the types that pyquant does
not support, and raises all errors.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core
from pyquant._check import fail

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    import numpy.typing as npt

    _Array = npt.NDArray[Any]

    class _CastValue:  # declarations for type checkers, because zarr is optional
        dtype: Any
        rounding: str
        out_of_range: str | None
        scalar_map: Mapping[str, Mapping[Any, Any]] | None

        def __init__(self, **configuration: Any) -> None: ...
        def resolve_metadata(self, chunk_spec: Any) -> Any: ...
        def _encode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any: ...
        def _decode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any: ...

    config: Any = None

    def register_codec(key: str, codec_cls: type, *, qualname: str) -> None: ...

else:
    from zarr import config
    from zarr.codecs import CastValue as _CastValue
    from zarr.registry import register_codec

__all__ = ["CastValue", "register"]

_ROUNDING = {
    "nearest-even": "half_even",
    "nearest-away": "half_away",
    "towards-zero": "trunc",
    "towards-positive": "ceil",
    "towards-negative": "floor",
}
_BEYOND = {None: "raise", "clamp": "saturate", "wrap": "wrap"}
_REALS = ("float16", "float32", "float64")
# Code type -> the real types that represent each code of the type exactly.
_CODES = {
    "int8": _REALS,
    "uint8": _REALS,
    "int16": _REALS[1:],
    "uint16": _REALS[1:],
    "int32": _REALS[2:],
    "uint32": _REALS[2:],
}
_NAN = np.float64(np.nan).tobytes()
# Number of elements in a slice. It is small, so that the codes are still in the cache when
# they are checked.
_SLICE = 1 << 16
__dir__: object = __all__.copy


def register() -> None:
    """
    Register `CastValue` with zarr, for all arrays that are opened afterwards.

    An array that is created with the name "cast_value", or with the class of this module,
    uses `CastValue` immediately. An array that is created with zarr's class uses
    `CastValue` after the array is opened again. Further calls have no effect.

    Examples
    --------
    >>> import pyquant.integrations.zarr
    >>> pyquant.integrations.zarr.register()
    """
    path = f"{CastValue.__module__}.{CastValue.__qualname__}"
    register_codec("cast_value", CastValue, qualname=path)
    config.set({"codecs.cast_value": path})


class CastValue(_CastValue):
    """
    The codec `cast_value` of zarr, between floats and integers.

    Parameters
    ----------
    data_type, rounding, out_of_range, scalar_map
        See `zarr.codecs.CastValue`.

    Notes
    -----
    pyquant casts real numbers to integers of 8, 16 and 32 bits, with all rounding modes of
    zarr. It also casts these integers to a real type if the type represents each of them
    exactly. If a `scalar_map` maps a number other than NaN, or for other types, zarr's
    codec casts the values. zarr's codec also raises the errors. It needs the package
    cast-value-rs. Without this package, pyquant raises the errors.

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
        """Return the specification of encoded chunks: their type and fill value."""
        fill = np.array([chunk_spec.fill_value], chunk_spec.dtype.to_native_dtype())
        made = self._tried(fill, self.dtype.to_native_dtype(), "encode")
        if made is None:
            return super().resolve_metadata(chunk_spec)
        return replace(chunk_spec, dtype=self.dtype, fill_value=made[0])

    def _encode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        made = self._cast(chunk_array, chunk_spec, self.dtype, "encode")
        return super()._encode_sync(chunk_array, chunk_spec) if made is None else made

    def _decode_sync(self, chunk_array: Any, chunk_spec: Any) -> Any:
        made = self._cast(chunk_array, chunk_spec, chunk_spec.dtype, "decode")
        return super()._decode_sync(chunk_array, chunk_spec) if made is None else made

    def _cast(self, chunk: Any, chunk_spec: Any, kind: Any, way: str) -> Any:
        """Return a cast chunk, or `None` if zarr must cast the chunk or raise an error."""
        array = chunk.as_ndarray_like()
        made = self._tried(array, kind.to_native_dtype(), way)
        if made is None:
            return None
        return chunk_spec.prototype.nd_buffer.from_ndarray_like(made)

    def _tried(self, array: Any, target: np.dtype[Any], way: str) -> _Array | None:
        """Return a cast array, or `None` if zarr must cast the array or raise an error."""
        if not isinstance(array, np.ndarray) or not (
            array.dtype.isnative and target.isnative
        ):
            return None
        scalar_map = (self.scalar_map or {}).get(way) or {}
        if target.name in _CODES.get(array.dtype.name, ()):
            fills = _codes_of(scalar_map.values(), scalar_map.keys())
            if fills is None:
                return None
            made: _Array = _core.dequantize(array, 1, dtype=target, fill=fills or None)
            return made
        known = self.rounding in _ROUNDING and self.out_of_range in _BEYOND
        if not known or array.dtype.name not in _REALS or target.name not in _CODES:
            return None
        fills = _codes_of(scalar_map.keys(), scalar_map.values())
        if fills is None or len(fills) > 1:
            return None
        try:
            return _quantize(
                array,
                dtype=target,
                rounding=_ROUNDING[self.rounding],
                fill=fills or None,
                out_of_range=_BEYOND[self.out_of_range],
            )
        except ValueError:
            if find_spec("cast_value_rs") is None:
                raise
            return None  # zarr then raises the error


@_core.default_fpenv
def _quantize(x: _Array, **options: Any) -> _Array:
    """Cast real numbers to integers. Raise an error for infinities, and for NaN if
    ``options["fill"]`` has no code for NaN."""
    made: _Array
    if options["out_of_range"] == "raise":
        made = _core.quantize(x, 1, nan="raise", **options)
        return made
    made = np.empty(x.shape, options["dtype"])
    ends = np.iinfo(made.dtype)
    walk = np.nditer(
        [x, made],
        flags=["buffered", "external_loop", "zerosize_ok"],
        op_flags=[["readonly"], ["writeonly"]],
        buffersize=_SLICE,
    )
    with walk, np.errstate(all="ignore"):
        for numbers, codes in walk:
            _core.quantize(numbers, 1, out=codes, **options)
            if codes.min() > ends.min and codes.max() < ends.max:
                # An infinity, or NaN without a fill code, would be an extreme code here.
                continue
            wrong = np.isinf(numbers) if options["fill"] else ~np.isfinite(numbers)
            if wrong.any():
                raise fail(ValueError, "x", "finite numbers", f"{numbers[wrong][0]}")
    return made


def _codes_of(numbers: Collection[Any], codes: Collection[Any]) -> tuple[int, ...] | None:
    """Return the codes that a scalar map pairs with NaN. Return `None` if the map contains
    a number other than NaN."""
    plain = all(type(code) is int for code in codes) and all(map(_is_nan, numbers))
    return tuple(codes) if plain else None


def _is_nan(number: object) -> bool:
    """Return True for NaN with the default sign and payload bits."""
    is_float = isinstance(number, float) and np.float64(number).tobytes() == _NAN
    return is_float or number == "NaN"
