# SPDX-License-Identifier: Apache-2.0
"""Decode and encode packed variables of netCDF and zarr (CF conventions).

Float types and bits equal xarray, which is not imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _core, dtypes
from pyquant._standard import shown
from pyquant.qparams import QParams

if TYPE_CHECKING:
    from typing import Literal

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["decode", "encode", "params"]

_CODES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
_REALS = ("float32", "float64", "float16", "bfloat16")
_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_SLICE = 1 << 15  # elements


def __dir__() -> list[str]:
    return sorted(__all__)


def params(attrs: Mapping[str, Any], dtype: npt.DTypeLike) -> tuple[QParams, np.dtype[Any]]:
    """
    Read quantization parameters from the attributes of a variable.

    Parameters
    ----------
    attrs : mapping
        Attributes of the variable. The function reads ``scale_factor``, ``add_offset``,
        ``_FillValue``, ``missing_value``, ``_Unsigned``, ``valid_range``, ``valid_min`` and
        ``valid_max``.
    dtype : dtype_like
        The stored type of codes: int8, uint8, int16, uint16, int32 or uint32.

    Returns
    -------
    QParams
        Parameters for codes viewed by ``_Unsigned``. `fill` has the codes for NaN, and
        `quant_range` the valid codes.
    numpy.dtype
        float32 or float64: the type that xarray decodes to.

    Raises
    ------
    TypeError, ValueError
        If an attribute is invalid or contradicts another.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant import cf
    >>> attrs = {"scale_factor": np.float32(0.5), "_FillValue": np.int16(-999)}
    >>> cf.params(attrs, "int16")
    (QParams(scale=array(0.5, dtype=float32), zero_point=array(0, dtype=int16), \
dtype='int16', axis=None, block_size=None, fill=(-999,)), dtype('float32'))
    """
    stored = _stored(dtype, "dtype")
    codes = _viewed(attrs, stored)
    scale, offset = _number(attrs, "scale_factor"), _number(attrs, "add_offset")
    real = _float_type(scale, offset, codes)
    fills, valid = _fills(attrs, stored, codes), _valid_range(attrs, stored, codes)
    _check_apart(attrs, fills, valid)
    made = QParams(
        _typed(1 if scale is None else scale, real),
        None,
        codes,
        offset=_typed(offset, real),
        fill=tuple(fills) or None,
        quant_range=valid,
    )
    return made, real


def decode(
    q: ArrayLike,
    attrs: Mapping[str, Any],
    *,
    out: npt.NDArray[Any] | None = None,
    threads: SupportsIndex = 1,
) -> npt.NDArray[Any]:
    """
    Convert the codes of a variable to real numbers by its attributes.

    Parameters
    ----------
    q : array_like
        Stored codes; see `params`.
    attrs : mapping
        Attributes of the variable. The valid range is ignored.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1.

    Returns
    -------
    ndarray
        float32 or float64 by xarray's rule, with NaN for ``_FillValue`` and
        ``missing_value``. Without these attributes, `q` itself, or a view of it by
        ``_Unsigned``.

    Raises
    ------
    TypeError, ValueError
        If an attribute is invalid, or `q` or `out` do not match.

    Notes
    -----
    With ``scale_factor`` only, the result has its type. With ``add_offset`` it is float64,
    unless both are NumPy float32 and codes have at most 16 bits. With neither, it is
    float32 for codes of at most 16 bits, else float64. Python floats are float64.

    Fill values are compared with codes. xarray compares them with codes converted to
    floats. For 32-bit codes and float32 (``scale_factor`` only), it may miss a fill value
    or match several codes.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant import cf
    >>> attrs = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768}
    >>> cf.decode(np.int16([0, 1500, -32768]), attrs)
    array([273.15, 288.15,    nan])
    """
    given = _core.plain(q, "q")
    stored = _stored(given.dtype, "q")
    codes = _viewed(attrs, stored)
    scale, offset = _number(attrs, "scale_factor"), _number(attrs, "add_offset")
    fills = _fills(attrs, stored, codes)
    given = _seen_as(given, codes)
    if scale is None and offset is None and not fills:
        if out is not None:
            np.copyto(_checked(out, given, codes), given)
        return given if out is None else out
    real = _float_type(scale, offset, codes)
    return _core.dequantize(
        given,
        _typed(1 if scale is None else scale, real),
        dtype=real,
        offset=_typed(offset, real),
        fill=tuple(fills) or None,
        out=out,
        threads=threads,
    )


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
    Convert real numbers to the codes of a variable by its attributes.

    Parameters
    ----------
    x : array_like
        float32, float64, float16 or bfloat16. NaN becomes ``_FillValue``, else the first
        ``missing_value``, else the lowest code.
    attrs : mapping
        Attributes of the variable; see `params`. Codes are clipped to the valid range.
    dtype : dtype_like
        The stored type of codes.
    out_of_range : {"saturate", "wrap", "raise"}, optional
        Treatment of values out of range; see `pyquant.quantize`.
    out : ndarray, optional
        Array for the result.
    threads : int, optional
        Largest number of threads. Default 1.

    Returns
    -------
    ndarray
        Codes of `dtype`.

    Raises
    ------
    TypeError, ValueError
        If an attribute is invalid or contradicts another, or `x` or `out` do not match.

    Notes
    -----
    The arithmetic equals xarray. With a fill value it has the type of `x`. Without one, `x`
    is first converted to the type that `decode` returns for 16-bit codes. float16 and
    bfloat16 count as float32. NumPy float64 attributes widen each float32 step, which is
    then rounded. Values that need a conversion are processed in slices, on one thread.
    Values out of range, and NaN without a fill value, are undefined in xarray.

    Examples
    --------
    >>> import numpy as np
    >>> from pyquant import cf
    >>> attrs = {"scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768}
    >>> cf.encode([273.15, 288.15, np.nan], attrs, "int16")
    array([     0,   1500, -32768], dtype=int16)
    """
    stored = _stored(dtype, "dtype")
    p, _ = params(attrs, stored)
    scale, offset = _number(attrs, "scale_factor"), _number(attrs, "add_offset")
    _check_agreement(attrs)
    given = _core.plain(x, "x")
    if _core.is_untyped(x) and given.dtype.kind in "iu":
        given = given.astype(np.float64)
    if given.dtype.name not in _REALS:
        msg = f"x: expected float32, float64, float16 or bfloat16, got {given.dtype}"
        raise TypeError(msg)
    own = _FLOAT64 if given.dtype.name == "float64" else _FLOAT32
    packed = scale is not None or offset is not None
    real = _float_type(scale, offset, None) if packed and p.fill is None else own
    made = None if out is None else _checked(out, given, stored)
    codes = None if made is None else _seen_as(made, p.dtype)
    how: dict[str, Any] = {"dtype": p.dtype, "fill": p.fill, "quant_range": p.quant_range}
    how |= {"out_of_range": out_of_range, "threads": threads}
    if real == own and all(_is_own(number, real) for number in (scale, offset)):
        one = 1 if scale is None else scale
        offset = _typed(offset, real)
        codes = _core.quantize(given, _typed(one, real), offset=offset, out=codes, **how)
        return _seen_as(codes, stored) if made is None else made
    _core.quantize(np.empty(0, np.float32), 1, **how)  # raise its errors
    made = np.empty(given.shape, stored) if made is None else made
    codes = _seen_as(made, p.dtype)
    beyond = _encode_slices(given, scale, offset, real, how, codes)
    if beyond and out is not None:
        beyond += "; out has all codes, as without 'raise'"
    if beyond:
        raise ValueError(beyond)
    return made


def _encode_slices(
    x: npt.NDArray[Any],
    scale: Any,
    offset: Any,
    real: np.dtype[Any],
    how: dict[str, Any],
    out: npt.NDArray[Any],
) -> str:
    """Encode in slices with xarray's operations, for types that one pass lacks.

    Return the error about values out of range, if any.
    """
    walk = np.nditer(
        [x, out],
        flags=["buffered", "external_loop", "zerosize_ok", "copy_if_overlap"],
        op_flags=[["readonly"], ["writeonly"]],
        op_dtypes=[real, how["dtype"]],
        order="C",
        casting="same_kind",
        buffersize=_SLICE,
    )
    info, strict = np.iinfo(how["dtype"]), how["out_of_range"] == "raise"
    lo, hi = how["quant_range"] or (info.min, info.max)
    if strict:
        how = how | {"out_of_range": "saturate"}
    count, first = 0, -1
    with np.errstate(all="ignore"), walk:
        for numbers, codes in walk:
            work = np.array(numbers)
            if offset is not None:
                work -= offset
            if scale is not None:
                work /= scale
            _core.quantize(work, 1, out=codes, **how)
            if strict:
                whole = np.rint(work, dtype=np.float64)
                (where,) = np.nonzero((whole < lo) | (whole > hi))
                if where.size and not count:
                    first = walk.iterindex + int(where[0])
                count += where.size
    if not count:
        return ""
    place = tuple(map(int, np.unravel_index(first, x.shape)))
    return (
        f"x: expected numbers whose codes are from {lo} to {hi}, got {count} others, "
        f"the first at index {place}"
    )


def _stored(dtype: npt.DTypeLike, name: str) -> np.dtype[Any]:
    """Return a type of codes with native byte order."""
    known = dtypes.name_of(dtype)
    if known not in _CODES:
        msg = f"{name}: expected one of {', '.join(_CODES)}, got {dtypes.shown(dtype)}"
        raise TypeError(msg)
    return np.dtype(known)


def _viewed(attrs: Mapping[str, Any], stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of codes that `_Unsigned` selects for the stored type."""
    if not isinstance(attrs, Mapping):
        msg = f"attrs: expected a mapping of attributes, got {type(attrs).__name__}"
        raise TypeError(msg)
    unsigned = attrs.get("_Unsigned")
    if unsigned is None:
        return stored
    if not isinstance(unsigned, str) or unsigned not in ("true", "false"):
        msg = f"_Unsigned: expected 'true' or 'false', got {shown(unsigned):.60}"
        raise ValueError(msg)
    return np.dtype(f"{'u' if unsigned == 'true' else 'i'}{stored.itemsize}")


def _seen_as(array: npt.NDArray[Any], codes: np.dtype[Any]) -> npt.NDArray[Any]:
    if array.dtype.kind == codes.kind:
        return array
    return array.view(codes.newbyteorder(array.dtype.byteorder))


def _array(attrs: Mapping[str, Any], name: str, kinds: str) -> npt.NDArray[Any] | None:
    """Return the numbers of an attribute."""
    value = attrs.get(name)
    if value is None:
        return None
    try:
        array = np.asarray(value)
    except ValueError:  # sequences of several lengths
        array = np.asarray(None)
    if array.dtype.kind not in kinds or array.size == 0:
        due = "numbers" if "f" in kinds else "integers, of codes"
        msg = f"{name}: expected {due}, got {shown(value):.60}"
        raise TypeError(msg)
    return array


def _number(attrs: Mapping[str, Any], name: str) -> Any:
    """Return one number.

    A Python number has the type of the array, and a NumPy number may widen it. xarray never
    reads the single element of an array as float32.
    """
    array = _array(attrs, name, "iuf")
    if array is None:
        return None
    if array.size != 1:
        msg = f"{name}: expected one number, got {array.size}"
        raise ValueError(msg)
    if array.dtype.kind == "f" and array.dtype.name not in _REALS[:2]:
        msg = f"{name}: expected float32 or float64, got {array.dtype}"
        raise TypeError(msg)
    value = attrs[name]
    typed = isinstance(value, (int, float, np.generic))
    return value if typed else np.float64(array.item())


def _float_type(scale: Any, offset: Any, codes: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return xarray's float type; with `codes`, of decoded values."""
    if scale is None and offset is None:
        return _FLOAT32 if codes is not None and codes.itemsize <= 2 else _FLOAT64
    if offset is None:
        kind = np.asarray(scale).dtype
        if kind.kind != "f":
            msg = f"scale_factor: expected a float without add_offset, got {scale!r}"
            raise TypeError(msg)
        return kind
    short = codes is None or codes.itemsize <= 2
    both = all(np.asarray(number).dtype == _FLOAT32 for number in (scale, offset))
    return _FLOAT32 if both and short else _FLOAT64


def _is_own(number: Any, real: np.dtype[Any]) -> bool:
    """Return True if the number does not widen arithmetic of type `real`."""
    if number is None or real == _FLOAT64 or not isinstance(number, np.generic):
        return True
    return bool(_typed(number, real) == number)


def _typed(number: Any, real: np.dtype[Any]) -> Any:
    """Return a number of a type; infinite, if it is too large."""
    with np.errstate(all="ignore"):
        return None if number is None else real.type(number)


def _integers(attrs: Mapping[str, Any], name: str, kinds: str) -> list[int]:
    array = _array(attrs, name, kinds)
    values = [] if array is None else array.ravel().tolist()
    for value in values:
        if not float(value).is_integer():
            msg = f"{name}: expected integers, of codes, got {value}"
            raise ValueError(msg)
    return [int(value) for value in values]


def _codes(
    values: list[int], name: str, stored: np.dtype[Any], codes: np.dtype[Any]
) -> list[int]:
    """Return integers of the stored type or of the viewed type."""
    made = []
    for value in values:
        if not any(np.iinfo(t).min <= value <= np.iinfo(t).max for t in (stored, codes)):
            msg = f"{name}: expected integers within the range of {codes}, got {value}"
            raise ValueError(msg)
        modulo = value % (1 << 8 * codes.itemsize)
        made.append(int(np.uint32(modulo).astype(codes)))
    return made


def _fills(
    attrs: Mapping[str, Any], stored: np.dtype[Any], codes: np.dtype[Any]
) -> list[int]:
    """Return the codes for NaN; NaN becomes the first."""
    fills = _integers(attrs, "_FillValue", "iuf")
    others = [v for v in _integers(attrs, "missing_value", "iuf") if v not in fills]
    # xarray compares these values without regard to _Unsigned.
    made = _codes(fills, "_FillValue", stored, codes)
    return list(dict.fromkeys(made + _codes(others, "missing_value", codes, codes)))


def _valid_range(
    attrs: Mapping[str, Any], stored: np.dtype[Any], codes: np.dtype[Any]
) -> tuple[int, int] | None:
    """Return the lowest and highest valid code of the attributes."""
    ends = {
        name: _codes(_integers(attrs, name, "iu"), name, stored, codes)
        for name in ("valid_range", "valid_min", "valid_max")
    }
    if not any(ends.values()):
        return None
    name, *others = [name for name, values in ends.items() if values]
    if name == "valid_range" and others:
        msg = f"valid_range: expected no {others[0]} beside it"
        raise ValueError(msg)
    lo, hi = int(np.iinfo(codes).min), int(np.iinfo(codes).max)
    apart = (ends["valid_min"] or [lo]) + (ends["valid_max"] or [hi])
    made = ends["valid_range"] or apart
    if len(made) != 2 or made[0] >= made[1]:
        msg = f"{name}: expected a lowest and a higher code, got {made}"
        raise ValueError(msg)
    return made[0], made[1]


def _check_apart(
    attrs: Mapping[str, Any], fills: list[int], valid: tuple[int, int] | None
) -> None:
    within = [] if valid is None else [v for v in fills if valid[0] <= v <= valid[1]]
    if within:
        name = "missing_value" if attrs.get("_FillValue") is None else "_FillValue"
        msg = f"{name}: expected codes outside of the valid range {valid}, got {within[0]}"
        raise ValueError(msg)


def _check_agreement(attrs: Mapping[str, Any]) -> None:
    """Raise an error if NaN would become two codes."""
    fills = _integers(attrs, "_FillValue", "iuf")
    others = _integers(attrs, "missing_value", "iuf")
    if fills and others and fills[0] not in others:
        msg = f"missing_value: expected _FillValue, {fills[0]}, got {others[0]}"
        raise ValueError(msg)


def _checked(
    out: npt.NDArray[Any], due: npt.NDArray[Any], dtype: np.dtype[Any]
) -> npt.NDArray[Any]:
    """Return an array of a type with as many elements as `due`, or raise an error."""
    if not isinstance(out, np.ndarray) or out.dtype != dtype:
        got = getattr(out, "dtype", type(out).__name__)
        msg = f"out: expected an array of {dtype}, got {got}"
        raise TypeError(msg)
    if out.shape != due.shape or not out.flags.writeable:
        got = out.shape if out.flags.writeable else "a read-only one"
        msg = f"out: expected a writeable array of shape {due.shape}, got {got}"
        raise ValueError(msg)
    return out
