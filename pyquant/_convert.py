# SPDX-License-Identifier: Apache-2.0
"""Convert sequences, arrays of other libraries and Python numbers to ndarrays.

NumPy arrays, NumPy scalars and Python floats do not need this slow path. `_core` calls
these functions, and sets the floating-point control state during each call.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core, dtypes
from pyquant._check import fail

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

__all__ = [
    "codes",
    "floats_of",
    "integers",
    "is_masked",
    "plain",
    "reals",
    "refuse_huge",
    "zeros",
]

# Deepest nesting that NumPy supports.
NPY_MAXDIMS = 64
# Types that NumPy converts to a single element, not to an array.
NO_ARRAYS = (str, bytes, dict, set, frozenset, type(None))
# Attributes of objects that NumPy can convert to arrays.
SEEN_BY_NUMPY = ("__array__", "__array_interface__", "__array_struct__")
# DLPack devices with memory that NumPy can read: CPU, and host memory of other devices.
HOST_DEVICES = (1, 3, 11, 13)
# Modules with arrays that may lack values. This module does not import these modules.
LACK_VALUES = frozenset(("numpy.ma", "pandas", "polars", "pyarrow"))
FLOAT64 = np.dtype(np.float64)


def plain(obj: Any, name: str) -> npt.NDArray[Any]:
    """Convert to an ndarray. Masked arrays keep the mask, and Python numbers get NumPy's
    dtype."""
    if isinstance(obj, NO_ARRAYS):
        end = " (numpy.frombuffer reads it)" if isinstance(obj, bytes) else ""
        raise fail(TypeError, name, "an array", f"{type(obj).__name__}{end}")
    graph = getattr(type(obj), "__dask_graph__", None)
    # A container like an xarray object is lazy if the container has a lazy array. Lazy
    # arrays raise an error, because the computed array may exceed the memory.
    if callable(graph) and graph(obj) is not None:
        remedy = "(compute it, or map_blocks a function over it)"
        got = f"a lazily chunked {type(obj).__name__} {remedy}"
        raise fail(TypeError, name, "an array in memory", got)
    if not sys.modules.keys().isdisjoint(LACK_VALUES):
        _refuse_lacking(obj, name)
    if isinstance(obj, _core.Calls):
        got = "QParams; call its method quantize or dequantize"
        raise fail(TypeError, name, "an array", got)
    try:
        return _array_of(obj, name)
    except (ValueError, OverflowError, RecursionError) as error:
        said = " ".join(str(error).split())
        if "inhomogeneous" in said:
            said = "nested sequences of different lengths"
        raise fail(ValueError, name, "an array", said) from None
    except (TypeError, BufferError, RuntimeError) as error:  # Raised by another library.
        # A RuntimeError of an object without DLPack has another cause. PyTorch's errors
        # state the reason.
        if isinstance(error, RuntimeError) and not hasattr(type(obj), "__dlpack__"):
            raise
        said = " ".join(str(error).split())
        if said.startswith(f"{name}: "):
            raise
        raise fail(TypeError, name, "an array", f"{type(obj).__name__}: {said}") from None


def reals(obj: Any, name: str) -> npt.NDArray[Any]:
    """Convert to an ndarray. Objects without a dtype become real numbers."""
    array = plain(obj, name)
    if array.dtype is FLOAT64 or not _core.is_untyped(obj):
        return array
    return floats_of(obj, array, name)


def integers(obj: Any, name: str) -> npt.NDArray[Any]:
    """Convert to an ndarray. Python integers become int32, or else uint32."""
    array = plain(obj, name)
    if array.size:
        refuse_huge(obj, array, name, "integers that int32 or uint32 holds")
    if not _core.is_untyped(obj) or (array.size and array.dtype.kind not in "iu"):
        return array
    lo, hi = (array.min(), array.max()) if array.size else (0, 0)
    if lo >= -(2**31) and hi < 2**31:
        return array.astype(np.int32)
    if lo >= 0 and hi < 2**32:
        return array.astype(np.uint32)
    raise fail(ValueError, name, "integers that int32 or uint32 holds", f"{lo} to {hi}")


def zeros(obj: Any, name: str) -> npt.NDArray[Any]:
    """Convert to an ndarray of zero points. An empty list or tuple becomes int64."""
    array = _as_uint64(obj, plain(obj, name))
    refuse_huge(obj, array, name, "integers that the quantized type holds")
    if array.size == 0 and _core.is_untyped(obj):
        return array.astype(np.int64)
    return array


def codes(
    obj: Any, name: str, dtype: str, limits: tuple[int, int] | None
) -> npt.NDArray[Any]:
    """Convert an object without dtype to codes: integers within `limits`."""
    array = _as_uint64(obj, plain(obj, name))
    if array.size == 0 or dtypes.name_of(array.dtype) == dtype:
        return array
    if limits is not None:
        refuse_huge(obj, array, name, f"integers that {dtype} holds")
    if limits is None or array.dtype.kind not in "iu":
        raise fail(TypeError, name, dtype, dtypes.described(array))
    lo, hi = limits
    for value in (array.min(), array.max()):
        if not lo <= value <= hi:
            expected = f"integers from {lo} to {hi} for {dtype}"
            raise fail(ValueError, name, expected, f"{value}")
    return array


def floats_of(obj: Any, array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Convert Python integers to float64 with Python's conversion instead of NumPy's.

    NumPy's conversion of arrays depends on the floating-point control state.
    """
    kind = array.dtype.kind
    if kind in "iu" or (kind == "O" and _all_integers(array.flat)):
        try:
            return np.asarray(obj, dtype=np.float64)
        except OverflowError:
            raise ValueError(f"{name}: expected numbers that float64 holds") from None
    return array


def refuse_huge(obj: Any, array: npt.NDArray[Any], name: str, expected: str) -> None:
    """Raise ValueError for Python integers beyond NumPy's integer types.

    NumPy converts these integers to objects or float64. An error about that type would
    mislead, because the value is wrong.
    """
    if _core.is_untyped(obj) and array.dtype.kind in "Of":
        values = list(np.asarray(obj, dtype=object).flat)
        if values and _all_integers(values):
            raise fail(ValueError, name, expected, max(values, key=abs))


def _as_uint64(obj: Any, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Convert Python integers within uint64 that NumPy converts to float64.

    NumPy converts to float64 if no integer type contains all integers of a sequence.
    """
    if _core.is_untyped(obj) and array.size and array.dtype.kind == "f":
        values = list(np.asarray(obj, dtype=object).flat)
        if _all_integers(values) and min(values) >= 0 and max(values) < 2**64:
            return np.array(values, np.uint64).reshape(array.shape)
    return array


def is_masked(obj: object) -> bool:
    """Return True for a masked array, without importing numpy.ma, which needs 1 MB of
    memory."""
    ma = sys.modules.get("numpy.ma")
    return ma is not None and isinstance(obj, ma.MaskedArray)


def _all_integers(values: Any) -> bool:
    return all(type(value) is int for value in values)


def _refuse_lacking(obj: Any, name: str) -> None:
    """Raise an error if `obj`, or an array in nested sequences, has a mask or nulls.

    The search stops at NumPy's limit of nesting. The search uses a list instead of
    recursion, because deep sequences would exceed Python's recursion limit.
    """
    within: list[Iterator[Any]] = [iter((obj,))]
    while within:
        for one in within[-1]:
            if type(one) is float or type(one) is int:
                continue
            if isinstance(one, (np.ndarray, np.generic)):
                if is_masked(one):
                    raise fail(TypeError, name, "an array without a mask", "a masked array")
            elif count := _null_count(one):
                got = f"{count} in a {type(one).__name__}; fill or drop them"
                raise fail(ValueError, name, "an array without nulls", got)
            elif len(within) <= NPY_MAXDIMS and _is_sequence(one):
                within.append(iter(one))
                break
        else:
            within.pop()


def _null_count(obj: Any) -> int:
    """Return the number of nulls in a column or table of pandas, polars or pyarrow.

    NaN counts as a null only in the types of pandas that have nulls, else as a number.
    """
    if hasattr(obj, "itercolumns"):  # a table of pyarrow
        return sum(map(_null_count, obj.itercolumns()))
    if hasattr(obj, "isna"):  # pandas
        if hasattr(obj, "columns"):
            return sum(_null_count(column) for _, column in obj.items())
        null = getattr(obj.dtype, "na_value", np.nan)
        return 0 if isinstance(null, float) else int(obj.isna().sum())
    if hasattr(obj, "get_columns"):  # a table of polars
        return sum(map(_null_count, obj.get_columns()))
    count: Any = getattr(obj, "null_count", 0)
    if callable(count):  # a polars column may contain arrays
        nested = hasattr(getattr(obj, "dtype", None), "inner")
        own: Any = count()
        return int(own) + (_null_count(obj.explode()) if nested else 0)
    return int(count) if isinstance(count, (int, np.integer)) else 0


def _is_sequence(obj: object) -> bool:
    """Return True for a sequence that may contain arrays. A buffer has only numbers."""
    if isinstance(obj, (list, tuple)):
        return True
    if isinstance(obj, (str, bytes)) or not isinstance(obj, Sequence):
        return False
    return not _has_buffer(obj)


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj).release()
    except TypeError:
        return False
    except (BufferError, ValueError):
        pass  # a buffer that memoryview cannot read
    return True


def _array_of(obj: Any, name: str) -> npt.NDArray[Any]:
    """Convert with NumPy, or through DLPack if an object supports nothing else.

    NumPy lacks some types of PyTorch. A tensor with a type that NumPy lacks is converted as
    integers, and viewed as a type of ml_dtypes.
    """
    lacking = dtypes.torch_name(getattr(obj, "dtype", None))
    if lacking in dtypes.ML_NAMES and not obj.requires_grad:
        bits = getattr(sys.modules["torch"], f"uint{8 * obj.element_size()}")
        return np.asarray(obj.view(bits)).view(dtypes.ml_dtype(lacking))
    if not hasattr(obj, "__dlpack__") or _has_buffer(obj):
        return np.asarray(obj)
    if any(hasattr(obj, way) for way in SEEN_BY_NUMPY):
        return np.asarray(obj)
    if hasattr(obj, "__dlpack_device__"):
        kind, _ = obj.__dlpack_device__()
        if kind not in HOST_DEVICES:
            got = f"one on DLPack device type {int(kind)}"
            raise fail(TypeError, name, "an array in the memory of the CPU", got)
    try:
        return np.from_dlpack(obj)
    except RuntimeError as error:  # NumPy's error for an unsupported type or version
        raise TypeError(error) from None


def unfit(codes: npt.NDArray[Any], lo: int, hi: int, bits: int) -> Exception:
    """Return the error for codes out of range."""
    at = codes.argmin() if codes.min() < lo else codes.argmax()
    where = tuple([int(i) for i in np.unravel_index(at, codes.shape)])
    expected = f"integers from {lo} to {hi} for {bits} bits"
    return fail(ValueError, "codes", expected, f"{codes[where]} at {where}")
