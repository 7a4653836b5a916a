# SPDX-License-Identifier: Apache-2.0
"""Conversions and errors that `Operator` needs for uncommon arguments only.

A module for each standard creates an `Operator` for each function, see
`_cython/standard.pxi`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _convert, _core, dtypes
from pyquant._check import listed, shown
from pyquant.packed import PackedArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

__all__ = [
    "REAL",
    "Operator",
    "all_zero",
    "converted",
    "flag_of",
    "listed",
    "mode_of",
    "refuse",
    "requested",
    "shown",
    "slices",
    "type_of",
]

Operator = _core.Operator

# Names of the real types.
REAL = frozenset(("float32", "float64", "float16", "bfloat16"))
_SLICE = 1 << 15  # elements


def refuse(
    kind: type[Exception], name: str, standard: str, expected: str, got: object
) -> Exception:
    """Return the error about an argument that the standard does not allow."""
    return kind(f"{name}: {standard} expects {expected}, got {got}")


def converted(
    values: Any,
    name: str,
    standard: str,
    types: tuple[str, ...],
    remedy: tuple[str, tuple[str, ...]] = ("", ()),
) -> tuple[npt.NDArray[Any], str]:
    """Return `values` as an array of one of the types, and the name of the type.

    Python numbers have no element type and get the first type that fits. If none fits, an
    error names a type of `remedy`, and the argument that sets the type.
    """
    if isinstance(values, PackedArray):  # `dtype` would need ml_dtypes
        got = values._name
        raise refuse(TypeError, name, standard, f"elements of {listed(types)}", got)
    python, given = False, values
    if not isinstance(values, np.ndarray):
        whose = f"{name}: {standard}"
        python = _core.is_untyped(values)
        values = _core.plain(values, whose)
        values = _typed(given, values, whose, types, remedy) if python else values
    found = _core.known(values) or dtypes.name_of(values.dtype)
    if found is not None and found in types and not _core.is_masked(values):
        return np.ndarray.view(values, np.ndarray), found
    if python and found in {
        _core.zero_name(one) for one in types if one in dtypes.NARROW_INTEGERS
    }:
        return values, str(found)  # codes of int4, uint4, int2 or uint2, one to a byte
    got = "a masked array" if _core.is_masked(values) else dtypes.described(values)
    raise refuse(TypeError, name, standard, f"elements of {listed(types)}", got)


def _typed(
    values: Any,
    array: npt.NDArray[Any],
    name: str,
    types: tuple[str, ...],
    remedy: tuple[str, tuple[str, ...]],
) -> npt.NDArray[Any]:
    """Convert Python numbers to the first type that fits, else to NumPy's default type."""
    reals = not REAL.isdisjoint(types)
    if reals and array.dtype.kind == "O":  # integers beyond int64 and uint64
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
        from pyquant._refused import hint_of_integer

        got = f"{unfit[0]}{hint_of_integer(unfit[0], *remedy)}"
        raise ValueError(f"{name} expects integers that {types[0]} holds, got {got}")
    return array


def _as_type(array: npt.NDArray[Any], name: str, *, only: bool) -> npt.NDArray[Any] | None:
    """Convert Python numbers to a type. Return `None` if a number does not fit the type.

    Numbers fit a narrow float if the type represents the numbers and no other type is
    allowed.
    """
    kind = array.dtype.kind
    if array.size == 0 or (name in REAL and kind in "fiu"):
        return _core.cast(array, name)
    lo, hi = _range_of(name)
    if kind in "iu" and lo <= array.min() and array.max() <= hi:
        return array.astype(name if name == "int64" else _core.zero_name(name))
    if only and kind in "fiu" and name in dtypes.NARROW_FLOATS:
        numbers = array.astype(np.float64)
        codes = _core.quantize(numbers, 1.0, dtype=name)
        return codes if (_core.dequantize(codes, 1.0) == numbers).all() else None
    return None


def _range_of(name: str) -> tuple[int, int]:
    """Return the limits of an integer type. For a float type, return a range without
    numbers."""
    if name == "int64":
        return -(2**63), 2**63 - 1
    return _core.limits(name) or (0, -1)


def all_zero(array: npt.NDArray[Any]) -> bool:
    """Return True if all narrow floats are 0 or -0."""
    return not np.asarray(array).astype(np.float32).any()


def requested(dtype: Any) -> str | None:
    """Return the name of the type that an argument selects; see `dtypes.requested`."""
    return _core.spelled(dtype) or dtypes.requested(dtype)


def type_of(
    given: Any, types: tuple[str, ...], spelled: Mapping[Any, str | None]
) -> str | None:
    """Return the name of the type that an argument selects, or a description of a wrong
    argument."""
    is_number = isinstance(given, (int, np.integer)) and not isinstance(given, bool)
    if is_number or isinstance(given, str):
        key = int(given) if is_number else given
        if key in spelled:
            return spelled[key]
    return requested(given) or dtypes.shown(given)


def flag_of(value: Any, name: str, standard: str) -> bool:
    """Return a flag as a bool. Standards write flags as 0 or 1."""
    if not isinstance(value, (int, np.integer, np.bool)):
        raise refuse(TypeError, name, standard, "0 or 1", type(value).__name__)
    if value not in (0, 1):
        raise refuse(ValueError, name, standard, "0 or 1", shown(value))
    return bool(value)


def mode_of(given: Any, modes: Mapping[str, int], name: str, standard: str) -> int:
    """Return the number of a rounding mode. The name may have any letter case."""
    if not isinstance(given, str):
        got = type(given).__name__
        raise refuse(TypeError, name, standard, "a RoundMode or its name", got)
    for one, number in modes.items():
        if one.lower() == given.lower():
            return number
    expected = f"one of {', '.join(filter(str.isupper, modes))}"
    raise refuse(ValueError, name, standard, expected, shown(str.__str__(given)))


def slices(arrays: list[npt.NDArray[Any]], types: list[np.dtype[Any]]) -> np.nditer:
    """Return an iterator over slices of the inputs and of the output. The output is the
    last array, and the slices are converted to the given types."""
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
