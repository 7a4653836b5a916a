# SPDX-License-Identifier: Apache-2.0
"""Decode and encode packed variables of netCDF and zarr (CF conventions).

Results have the types and the bits of xarray's results. xarray is not imported. An example
of `encode` chooses ``scale_factor`` and ``add_offset`` from data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _check, _core, dtypes
from pyquant._check import fail, faulty
from pyquant._standard import shown, slices
from pyquant.qparams import QParams

if TYPE_CHECKING:
    from typing import Literal

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["decode", "encode", "qparams"]

_CODES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_REALS = ("float32", "float64", "float16", "bfloat16")
_STORED = (*_CODES, *_REALS[:3])
_FILLS = ("_FillValue", "missing_value")
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
__dir__: object = __all__.copy


@_core.default_fpenv
def qparams(attrs: Mapping[str, Any], dtype: npt.DTypeLike) -> QParams:
    """
    Read quantization parameters from the attributes of a variable.

    To choose attributes from data, see the example of `encode`.

    Parameters
    ----------
    attrs : mapping
        Attributes of the variable. The function reads ``scale_factor``, ``add_offset``,
        ``_FillValue``, ``missing_value``, ``_Unsigned``, ``valid_range``, ``valid_min`` and
        ``valid_max``.
    dtype : dtype_like
        The stored type of codes: an integer type of 8 to 64 bits.

    Returns
    -------
    QParams
        Parameters for codes with the type that ``_Unsigned`` selects. `fill` has the codes
        that mean NaN. A fill value that no code equals is omitted. `quant_range` has the
        lowest and the highest valid code. The scale has the type of the result of `decode`,
        or float64 if this result is an integer type.

    Raises
    ------
    TypeError, ValueError
        If an attribute is invalid, or if two attributes contradict each other.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.integrations import cf
    >>> attrs = {"scale_factor": np.float32(0.5), "_FillValue": np.int16(-999)}
    >>> p = cf.qparams(attrs, "int16")
    >>> p.dequantize(np.int16([3, -999]), dtype=p.scale.dtype)
    array([1.5, nan], dtype=float32)
    """
    stored = _stored(dtype, "dtype", _CODES)
    known = _Attributes(attrs, stored)
    made = known.decoded_type()
    scale, offset = known.parameters(made if made.kind == "f" else _FLOAT64)
    fills = known.fills()
    valid = known.valid_range(fills)
    fill = tuple(fills) or None
    return QParams(scale, None, known.codes, offset=offset, fill=fill, quant_range=valid)


@_core.default_fpenv
def decode(
    q: ArrayLike,
    attrs: Mapping[str, Any],
    *,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert the stored values of a variable to real numbers.

    Parameters
    ----------
    q : array_like
        Stored values: codes of an integer type of 8 to 64 bits, or floats of type float32,
        float64 or float16 with a scale or an offset ("scaled floats").
    attrs : mapping
        Attributes of the variable; see `qparams`. The valid range is ignored.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1. Scaled floats are decoded on one thread.

    Returns
    -------
    ndarray
        Real numbers of the type that the Notes describe, with NaN for ``_FillValue`` and
        ``missing_value``. Without scale, offset and fill values, the result is `q` itself,
        or a view of `q` with the type that ``_Unsigned`` selects.

    Notes
    -----
    The type of the result follows xarray's rules:

    - With ``scale_factor`` only, the result has the type of ``scale_factor``. A Python
      float has type float64.
    - With ``add_offset``, the result is float64. It is float32 if both attributes are
      float32 numbers, not arrays, and codes do not have 32 bits.
    - Without ``scale_factor`` and ``add_offset``, the result is float32 for codes of at
      most 16 bits, and float64 for wider codes. Floats keep their type.
    - If the only fill value of floats is NaN, they keep their type.
    - With an integer ``scale_factor`` and no ``add_offset``, the result has the type of
      ``scale_factor``, and products wrap around. With fill values, this result is float64,
      but xarray raises an error.

    The function compares fill values with codes. A fill value that no code equals has no
    effect. xarray converts codes to floats before it compares them. For 64-bit codes, and
    for 32-bit codes with a float32 ``scale_factor`` only, the conversion is inexact. xarray
    then may miss a fill value, or find it for several codes. xarray also compares
    ``missing_value`` with codes of the stored type, even if ``_Unsigned`` selects another.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.integrations import cf
    >>> attrs = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768}
    >>> cf.decode(np.int16([0, 1500, -32768]), attrs)
    array([273.15, 288.15,    nan])
    """
    given = _core.plain(q, "q")
    stored = _stored(given.dtype, "q", _STORED)
    known = _Attributes(attrs, stored)
    given = _seen_as(given, known.codes)
    if not known.scales and not known.has_fills():
        if out is not None:
            np.copyto(_check.out(out, known.codes, given.shape), given)
        return given if out is None else out
    made = known.decoded_type()
    if stored.kind == "f" or made.kind in "iu":
        to = np.empty(given.shape, made) if out is None else out
        plain = _check.out(to, made, given.shape)
        if stored.kind == "f":
            _decode_slices(given, known, plain, made)
        else:
            scale = np.asarray(known.scale)
            np.multiply(given, scale, out=plain, dtype=made, casting="unsafe")
        return to
    scale, offset = known.parameters(made)
    fill = tuple(known.fills()) or None
    how: dict[str, Any] = {"offset": offset, "fill": fill, "out": out, "threads": threads}
    return _core.dequantize(given, scale, dtype=made, **how)


def _decode_slices(
    q: npt.NDArray[Any], known: _Attributes, out: npt.NDArray[Any], real: np.dtype[Any]
) -> None:
    """Decode scaled floats in slices, with xarray's operations in the type `real`."""
    fills = [
        fill if isinstance(fill, np.generic) else _typed(fill, q.dtype)
        for name in _FILLS
        for fill in known.elements(name)
    ]
    walk = slices([q, out], [real, real])
    with np.errstate(all="ignore"), walk:
        for stored, numbers in walk:
            work = np.array(stored)
            for fill in fills:
                work[stored == fill] = np.nan
            if known.scale is not None:
                work *= known.scale
            if known.offset is not None:
                work += known.offset
            numbers[...] = work


@_core.default_fpenv
def encode(
    x: ArrayLike,
    attrs: Mapping[str, Any],
    dtype: npt.DTypeLike,
    *,
    out_of_range: Literal["saturate", "wrap", "raise"] = "saturate",
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert real numbers to the stored values of a variable.

    Parameters
    ----------
    x : array_like
        An array or a masked array of float32, float64, float16, bfloat16 or integers.
        Masked elements and NaN become ``_FillValue``. Without this attribute, they become
        the first ``missing_value``. Without both attributes, they become the lowest code,
        or NaN if `dtype` is a float type.
    attrs : mapping
        Attributes of the variable; see `qparams`, also for errors. ``scale_factor`` must
        not be 0. Codes are limited to the valid range.
    dtype : dtype_like
        The stored type: an integer type of 8 to 64 bits, float32, float64 or float16.
    out_of_range : {"saturate", "wrap", "raise"}, optional
        Treatment of values out of the range of codes; see `pyquant.quantize`.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1.

    Returns
    -------
    ndarray
        Stored values of type `dtype`.

    Notes
    -----
    The arithmetic equals xarray. With a fill value, the arithmetic has the type of `x`.
    Without a fill value, `x` is first converted to the type that `decode` returns for
    16-bit codes. float16 and bfloat16 are processed like float32. If an attribute is a
    NumPy float64 number and `x` is float32, each operation is computed in float64 and
    rounded to float32. Masked integers become float32 if they have at most 16 bits, and
    otherwise float64. Integers without ``scale_factor`` and ``add_offset`` stay exact. If
    values need a conversion, the function converts them in slices and uses one thread.

    In xarray, the results for values out of range, and for NaN without a fill value, are
    undefined. xarray also raises an error for integers with a scale and fill values.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant.integrations import cf
    >>> attrs = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768}
    >>> cf.encode([273.15, 288.15, np.nan], attrs, "int16")
    array([     0,   1500, -32768], dtype=int16)

    Choose attributes from data with NaN. Limit the range of codes, because otherwise the
    lowest value gets the code of ``_FillValue`` and becomes NaN. If the data is constant,
    the chosen scale is 0, and the example replaces it by 1:

    >>> import pyquant as pq
    >>> x = np.float32([273.15, 288.15, np.nan])
    >>> how = {"include_zero": False, "quant_range": (-32767, 32767)}
    >>> p = pq.calibrate([x], dtype="int16", nonfinite="ignore", **how)
    >>> attrs = {"scale_factor": p.scale[()] or 1, "add_offset": p.offset[()]}
    >>> attrs["_FillValue"] = np.int16(-32768)
    >>> cf.decode(cf.encode(x, attrs, "int16"), attrs)
    array([273.15, 288.15,    nan], dtype=float32)
    """
    stored = _stored(dtype, "dtype", _STORED)
    known = _Attributes(attrs, stored)
    how: dict[str, Any] = {"out_of_range": out_of_range, "threads": threads}
    if stored.kind == "f" and out_of_range != "saturate":
        got = shown(out_of_range)
        raise fail(ValueError, "out_of_range", f"'saturate' for {stored}", f"{got:.60}")
    fills = known.fills(strict=True)
    how["fill"] = tuple(fills) or None
    if stored.kind != "f":
        how |= {"dtype": known.codes, "quant_range": known.valid_range(fills)}
    given, mask = _given(x, packed=known.scales)
    real = known.encoding_type(given.dtype, masked=mask is not None, filled=bool(fills))
    if known.scale is not None and known.parameters(real)[0] == 0:
        got = f"{known.scale!r}; write 1 for constant data"
        raise fail(ValueError, "scale_factor", f"a number other than 0 in {real}", got)
    made = None if out is None else _check.out(out, stored, given.shape)
    direct = stored.kind != "f" and mask is None and given.dtype.name in _REALS
    direct = direct and real == _own_type(given.dtype)
    if direct and all(_is_own(one, real) for one in (known.scale, known.offset)):
        to = None if made is None else _seen_as(made, known.codes)
        scale, offset = known.parameters(real)
        to = _core.quantize(given, scale, offset=offset, out=to, **how)
        return _seen_as(to, stored) if out is None else out
    checked: dict[str, Any] = {"threads": threads} if stored.kind == "f" else how
    _core.quantize(np.empty(0, np.float32), 1, **checked)  # checks the arguments
    made = np.empty(given.shape, stored) if made is None else made
    beyond = _encode_slices(given, mask, known, real, how, _seen_as(made, known.codes))
    if beyond and out is not None:
        beyond += "; out has all codes, as without 'raise'"
    if beyond:
        raise ValueError(beyond)
    return made if out is None else out


def _given(x: Any, *, packed: bool) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool] | None]:
    """Return the numbers to encode, and the mask, or `None` if no number is masked."""
    mask = None
    if _core.is_masked(x):
        mask = np.ma.getmaskarray(x) if np.ma.is_masked(x) else None
        x = np.ma.getdata(x)
    given = _core.plain(x, "x")
    if given.dtype.kind not in "iu" and given.dtype.name not in _REALS:
        raise fail(TypeError, "x", f"integers or {', '.join(_REALS)}", f"{given.dtype}")
    if packed and _core.is_untyped(x) and given.dtype.kind in "iu":
        given = given.astype(np.float64)
    return given, mask


def _own_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of arithmetic for data of a type, if xarray does not convert it."""
    if dtype.kind in "iu":
        return dtype
    return _FLOAT64 if dtype.name == "float64" else _FLOAT32


def _encode_slices(
    x: npt.NDArray[Any],
    mask: npt.NDArray[np.bool] | None,
    known: _Attributes,
    real: np.dtype[Any],
    how: dict[str, Any],
    out: npt.NDArray[Any],
) -> str:
    """Encode in slices with xarray's operations, for types that `quantize` lacks.

    Return the message of an error about values out of range, or "" without an error.
    """
    hidden = np.zeros((), np.bool) if mask is None else mask
    walk = slices([x, hidden, out], [real, hidden.dtype, out.dtype])
    count, first = 0, -1
    with np.errstate(all="ignore"), walk:
        for numbers, masked, codes in walk:
            work = np.array(numbers)
            if mask is not None:
                work[masked] = np.nan
            if known.offset is not None:
                work -= known.offset
            if known.scale is not None:
                work /= known.scale
            (where,) = np.nonzero(_put(work, how, codes))
            if where.size and not count:
                first = walk.iterindex + int(where[0])
            count += where.size
    if not count:
        return ""
    lo, hi = _ends(how, out.dtype)
    place = tuple(map(int, np.unravel_index(first, x.shape)))
    return (
        f"x: expected numbers whose codes are from {lo} to {hi}, got "
        f"{faulty(count)}, the first at index {place}"
    )


def _ends(how: dict[str, Any], codes: np.dtype[Any]) -> tuple[int, int]:
    info = np.iinfo(codes)
    return how["quant_range"] or (int(info.min), int(info.max))


def _put(
    work: npt.NDArray[Any], how: dict[str, Any], codes: npt.NDArray[Any]
) -> npt.NDArray[np.bool]:
    """Round numbers, already divided by the scale, to codes.

    Return a mask of the numbers out of range if ``how["out_of_range"]`` is "raise", else an
    empty mask.
    """
    strict = how["out_of_range"] == "raise"
    none = np.zeros(0, np.bool)
    if codes.dtype.kind == "f":
        codes[...] = work
        if how["fill"]:
            codes[np.isnan(work)] = how["fill"][0]
        return none
    lo, hi = _ends(how, codes.dtype)
    if work.dtype.kind in "iu":
        low, high = work < lo, work > hi
        codes[...] = work
        if how["out_of_range"] != "wrap":
            codes[low], codes[high] = lo, hi
        return low | high if strict else none
    options: dict[str, Any] = how | ({"out_of_range": "saturate"} if strict else {})
    _core.quantize(work, 1, out=codes, **options)
    if not strict:
        return none
    whole: npt.NDArray[np.float64] = np.rint(work, dtype=np.float64)
    return (whole < _float_at(lo, np.inf)) | (whole > _float_at(hi, -np.inf))


def _stored(dtype: npt.DTypeLike, name: str, allowed: tuple[str, ...]) -> np.dtype[Any]:
    """Return `dtype` in native byte order. Raise an error if it is not in `allowed`."""
    known = dtypes.name_of(dtype)
    if known not in allowed:
        expected = f"one of {', '.join(allowed)}"
        raise fail(TypeError, name, expected, dtypes.shown(dtype))
    return np.dtype(known)


class _Attributes:
    """The checked attributes of a variable, for values of a stored type."""

    __slots__ = ("codes", "given", "offset", "scale", "scales", "stored")

    def __init__(self, attrs: Mapping[str, Any], stored: np.dtype[Any]) -> None:
        if not isinstance(attrs, Mapping):
            raise fail(TypeError, "attrs", "a mapping of attributes", type(attrs))
        self.given, self.stored = attrs, stored
        self.codes = self._viewed()
        self.scale = self._number("scale_factor")
        self.offset = self._number("add_offset")
        self.scales = self.scale is not None or self.offset is not None

    def _viewed(self) -> np.dtype[Any]:
        """Return the type of codes that `_Unsigned` selects for the stored type."""
        unsigned, stored = self.given.get("_Unsigned"), self.stored
        if unsigned is None:
            return stored
        if not isinstance(unsigned, str) or unsigned not in ("true", "false"):
            got = f"{shown(unsigned):.60}"
            raise fail(ValueError, "_Unsigned", "'true' or 'false'", got)
        if stored.kind == "f":  # like xarray, ignore _Unsigned for floats
            return stored
        return np.dtype(f"{'u' if unsigned == 'true' else 'i'}{stored.itemsize}")

    def _array(self, name: str, kinds: str) -> npt.NDArray[Any] | None:
        """Return the numbers of an attribute, or `None` without the attribute."""
        value = self.given.get(name)
        if value is None:
            return None
        try:
            array = np.asarray(value)
        except ValueError:  # the value has nested sequences of unequal lengths
            array = np.asarray(None)
        if array.dtype.kind not in kinds or array.size == 0:
            due = "numbers" if "f" in kinds else "integers, of codes"
            raise fail(TypeError, name, due, f"{shown(value):.60}")
        return array

    def _number(self, name: str) -> Any:
        """Return the number of an attribute, or `None` without the attribute.

        The result keeps its type, because arithmetic with a Python number has the type of
        the data, but a NumPy number may widen this type. A single element of an array
        becomes float64, like in xarray.
        """
        array = self._array(name, "iuf")
        if array is None:
            return None
        if array.size != 1:
            raise fail(ValueError, name, "one number", f"{array.size}")
        if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
            raise fail(TypeError, name, "float32 or float64", f"{array.dtype}")
        value = self.given[name]
        typed = isinstance(value, (int, float, np.generic))
        return value if typed else np.float64(array.item())

    def parameters(self, real: np.dtype[Any]) -> tuple[Any, Any]:
        """Convert the scale and the offset to a type. Overflow gives an infinity."""
        scale, offset = self.scale, self.offset
        with np.errstate(all="ignore"):
            made = real.type(1 if scale is None else scale)
            return made, None if offset is None else real.type(offset)

    def _float_type(self, stored: np.dtype[Any] | None) -> np.dtype[Any]:
        """Return the type of xarray's decoded values for a stored type.

        `None` in place of a type means 16-bit codes. With an integer scale and no offset,
        the result is an integer type.
        """
        if not self.scales:
            if stored is not None and stored.kind == "f":
                return stored
            return _FLOAT32 if stored is None or stored.itemsize <= 2 else _FLOAT64
        if self.offset is None:
            return np.asarray(self.scale).dtype
        four = stored is not None and stored.kind in "iu" and stored.itemsize == 4
        both = all(np.asarray(one).dtype == _FLOAT32 for one in (self.scale, self.offset))
        return _FLOAT32 if both and not four else _FLOAT64

    def decoded_type(self) -> np.dtype[Any]:
        """Return the type that `decode` returns.

        If there are fill values, it is a float type, because integers have no NaN.
        """
        made, stored, filled = self._float_type(self.codes), self.codes, self.has_fills()
        if stored.kind == "f":
            only_nan = not filled and any(map(self.elements, _FILLS))
            return stored if only_nan else made if made.kind == "f" else _own_type(stored)
        return _FLOAT64 if filled and made.kind != "f" else made

    def encoding_type(
        self, dtype: np.dtype[Any], *, masked: bool, filled: bool
    ) -> np.dtype[Any]:
        """Return the type of xarray's arithmetic when it encodes data of type `dtype`.

        `masked` means that elements are masked, and `filled` that there are fill values.
        """
        own = _own_type(dtype)
        if own.kind != "f" and masked:
            own = _FLOAT32 if own.itemsize <= 2 else _FLOAT64
        floats = own.kind == "f"
        if not self.scales or (floats and filled):
            return own
        real = self._float_type(None if floats else own)
        return real if real.kind == "f" else own if floats else _FLOAT64

    def elements(self, name: str, kinds: str = "iuf") -> list[Any]:
        """Return the numbers of an attribute as a list. NumPy numbers keep their type."""
        array = self._array(name, kinds)
        if array is None:
            return []
        typed = isinstance(self.given[name], (np.ndarray, np.generic))
        return list(array.ravel()) if typed else array.ravel().tolist()

    def has_fills(self) -> bool:
        """Return True if there are fill values other than NaN."""
        return any(fill == fill for name in _FILLS for fill in self.elements(name))

    def _codes(self, name: str, kinds: str = "iuf", *, strict: bool = True) -> list[int]:
        """Return the numbers of an attribute as codes of the type that `_Unsigned` selects.

        A number that no code equals raises an error if `strict` is true. Otherwise, it is
        omitted.
        """
        values, codes, made = self.elements(name, kinds), self.codes, []
        limits = [np.iinfo(one) for one in (self.stored, codes)] if values else []
        for value in values:
            fits = float(value).is_integer()
            if fits and any(one.min <= int(value) <= one.max for one in limits):
                modulo = int(value) % (1 << 8 * codes.itemsize)
                made.append(int(np.uint64(modulo).astype(codes)))
            elif strict:
                expected = f"integers within the range of {codes}"
                raise fail(ValueError, name, expected, f"{value}")
        return made

    def fills(self, *, strict: bool = False) -> list[Any]:
        """Return the stored values that mean NaN. `encode` converts NaN to the first value.

        If `strict` is true, the method raises an error if ``_FillValue`` contradicts
        ``missing_value``, or if no code equals a fill value.
        """
        fills, others = (
            [_typed(value, self.codes) for value in self.elements(name)]
            if self.codes.kind == "f"
            else self._codes(name, strict=strict)
            for name in _FILLS
        )
        if strict and fills and others:
            equal = (np.array_equal(fills[0], one, equal_nan=True) for one in others)
            if not any(equal):
                expected = f"_FillValue, {fills[0]}"
                raise fail(ValueError, "missing_value", expected, f"{others[0]}")
        return list(dict.fromkeys(fills + others))

    def valid_range(self, fills: list[int]) -> tuple[int, int] | None:
        """Return the lowest and the highest valid code, or `None` without a valid range.

        Raise an error for a fill value that is in the valid range.
        """
        names = ("valid_range", "valid_min", "valid_max")
        ends = {name: self._codes(name, "iu") for name in names}
        if not any(ends.values()):
            return None
        name, *others = [name for name, values in ends.items() if values]
        if name == "valid_range" and others:
            raise ValueError(f"valid_range: expected no {others[0]} beside it")
        lo, hi = int(np.iinfo(self.codes).min), int(np.iinfo(self.codes).max)
        apart = (ends["valid_min"] or [lo]) + (ends["valid_max"] or [hi])
        made = ends["valid_range"] or apart
        if len(made) != 2 or made[0] >= made[1]:
            raise fail(ValueError, name, "a lowest and a higher code", f"{made}")
        valid = made[0], made[1]
        within = [fill for fill in fills if valid[0] <= fill <= valid[1]]
        if within:
            name = _FILLS[self.given.get("_FillValue") is None]
            expected = f"codes outside of the valid range {valid}"
            raise fail(ValueError, name, expected, within[0])
        return valid


def _seen_as(array: npt.NDArray[Any], codes: np.dtype[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind == codes.kind:
        return array
    return array.view(codes.newbyteorder(array.dtype.byteorder))


def _is_own(number: Any, real: np.dtype[Any]) -> bool:
    """Return True if NumPy's arithmetic with the number and data of type `real` has this
    type, or an equal result."""
    if number is None or real == _FLOAT64 or not isinstance(number, np.generic):
        return True
    return bool(_typed(number, real) == number)


def _typed(number: Any, real: np.dtype[Any]) -> Any:
    """Convert a number to a type. A number that is too large becomes infinite."""
    with np.errstate(all="ignore"):
        return real.type(number)


def _float_at(number: int, toward: float) -> float:
    """Convert an integer to float64. Round up if `toward` is positive, and else down."""
    near = float(number)
    beyond = near < number if toward > 0 else near > number
    return float(np.nextafter(near, toward)) if beyond else near
