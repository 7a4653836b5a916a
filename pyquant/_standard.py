# SPDX-License-Identifier: Apache-2.0
"""Checks that the standards share: element types, axes and errors.

The modules of the standards contain names, defaults and validation. This module calls the
core.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from pyquant import _convert, _core, dtypes
from pyquant._shown import axis_error, listed, shown
from pyquant.packed import PackedArray

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = [
    "Usual",
    "all_zero",
    "array_of",
    "axes_within",
    "axis_of",
    "both_single",
    "cast",
    "dequantize",
    "dynamic_range",
    "first_zero",
    "integer",
    "integers",
    "is_untyped",
    "listed",
    "quantize",
    "refuse",
    "requested",
    "shown",
    "slices",
    "wrong_shape",
]

quantize = _core.quantize_standard
dequantize = _core.dequantize_standard
dynamic_range = _core.dynamic_range
cast = _core.cast
is_untyped = _core.is_untyped
first_zero = _core.first_zero
axes_within = _core.axes_within
Usual = _core.Usual


_known = _core.known
# Python types that match immediately, for any value.
REAL = frozenset(("float32", "float64", "float16", "bfloat16"))
_SLICE = 1 << 15  # elements


def refuse(
    kind: type[Exception], name: str, standard: str, expected: object, got: object
) -> Exception:
    """Return the error for a parameter that the standard does not allow."""
    text = shown(got) if type(got) is int else " ".join(f"{got}".split())
    return kind(f"{name}: {standard} expects {expected}, got {text}")


def integer(value: object, name: str, standard: str) -> int:
    """Return an integer; bool raises an error."""
    try:
        return _core.index(value)  # type: ignore[arg-type]
    except TypeError:
        pass
    raise refuse(TypeError, name, standard, "an integer", type(value).__name__)


def integers(
    values: Iterable[SupportsIndex], name: str, standard: str, what: str = "integers"
) -> tuple[int, ...]:
    """Return integers; bool raises an error."""
    try:
        return tuple([_core.index(n) for n in values])
    except TypeError:
        pass
    raise refuse(TypeError, name, standard, what, shown(values))


def _converted(
    values: ArrayLike | PackedArray, name: str, standard: str, types: tuple[str, ...]
) -> tuple[Any, str]:
    """Convert an object that is not obviously an array of one of the types."""
    if isinstance(values, PackedArray):  # its dtype needs ml_dtypes
        got = values._name
        raise refuse(TypeError, name, standard, f"elements of {listed(types)}", got)
    python = False
    if not isinstance(values, np.ndarray):
        whose = f"{name}: {standard}"
        python = is_untyped(values)
        values = _typed(values, whose, types) if python else _core.plain(values, whose)
    found = _known(values) or dtypes.name_of(values.dtype)
    if found is not None and found in types and not _core.is_masked(values):
        return values, found
    if python and found in {
        _core.zero_name(one) for one in types if one in dtypes.NARROW_INTEGERS
    }:
        return values, str(found)  # integers of a narrow type that NumPy lacks
    got = "a masked array" if _core.is_masked(values) else dtypes.described(values)
    raise refuse(TypeError, name, standard, f"elements of {listed(types)}", got)


# Return an array of an allowed element type, and the type.
#
# NumPy scalars have the attributes of arrays and are accepted, and so are packed arrays.
# Python numbers have no element type and get the first allowed type that fits.
array_of = partial(_core.array_of, _converted)


def _typed(values: Any, name: str, types: tuple[str, ...]) -> npt.NDArray[Any]:
    """Convert Python numbers to the first type that fits, else to NumPy's default type."""
    array = _core.plain(values, name)
    reals = not REAL.isdisjoint(types)
    if reals and array.dtype.kind == "O":  # integers beyond all integer types
        array = _convert.floats_of(values, array, name)
    if array.size and (array.dtype.kind == "O" or not reals):
        _convert.refuse_huge(values, array, name, f"numbers that {types[0]} holds")
    for one in types:
        found = _as_type(array, one, only=len(types) == 1)
        if found is not None:
            return found
    lo, hi = _range_of(types[0])
    if array.dtype.kind in "iu" and lo < hi:
        unfit = [v for v in array.ravel().tolist() if not lo <= v <= hi]
        raise ValueError(f"{name}: expected integers that {types[0]} holds, got {unfit[0]}")
    return array


def _as_type(array: npt.NDArray[Any], name: str, *, only: bool) -> npt.NDArray[Any] | None:
    """Return numbers as an array of a type, or `None` if the type does not fit.

    Narrow floats fit numbers that they represent, if no other type is allowed.
    """
    kind = array.dtype.kind
    if array.size == 0 or (name in REAL and kind in "fiu"):
        return cast(array, name)
    lo, hi = _range_of(name)
    if kind in "iu" and lo <= array.min() and array.max() <= hi:
        return array.astype(name if name == "int64" else _core.zero_name(name))
    if only and kind in "fiu" and name in dtypes.NARROW_FLOATS:
        numbers = array.astype(np.float64)
        codes = _core.quantize(numbers, 1.0, dtype=name)
        return codes if (_core.dequantize(codes, 1.0) == numbers).all() else None
    return None


def _range_of(name: str) -> tuple[int, int]:
    """Return the limits of an integer type, or limits that no integer satisfies."""
    if name == "int64":
        return -(2**63), 2**63 - 1
    return _core.limits(name) or (0, -1)


def all_zero(array: Any) -> bool:
    """Return True if all narrow floats are 0 or -0."""
    if isinstance(array, np.ndarray):
        return not array.astype(np.float32).any()
    return not _core.dequantize(array, 1.0).any()


def requested(dtype: Any) -> str | None:
    """Return the name of the type that an argument selects; see `dtypes.requested`."""
    return _core.spelled(dtype) or dtypes.requested(dtype)


def axis_of(axis: object, ndim: int, standard: str) -> int:
    """Return a nonnegative axis."""
    at = axis if type(axis) is int else integer(axis, "axis", standard)
    if not -ndim <= at < ndim:
        raise axis_error(at, ndim, f"axis: {standard}")
    return at % ndim


def both_single(zero_point: npt.NDArray[Any], scale: npt.NDArray[Any]) -> bool:
    """Return True if both are single elements, with rank 0 or 1."""
    return bool(zero_point.size == scale.size == 1 and zero_point.ndim <= 1)


def wrong_shape(
    name: str, standard: str, expected: tuple[int, ...], got: tuple[int, ...]
) -> Exception:
    """Return the error for a wrong shape."""
    return refuse(ValueError, name, standard, f"shape {expected}", got)


def slices(arrays: list[npt.NDArray[Any]], types: list[np.dtype[Any]]) -> np.nditer:
    """Return an iterator over slices of inputs and, last, an output, in these types."""
    access: Any = [["readonly"]] * (len(arrays) - 1) + [["writeonly"]]
    made: np.nditer = np.nditer(
        arrays,
        flags=["buffered", "external_loop", "zerosize_ok", "copy_if_overlap"],
        op_flags=access,
        op_dtypes=types,
        order="C",
        casting="same_kind",
        buffersize=_SLICE,
    )
    return made
