# SPDX-License-Identifier: Apache-2.0
"""Element types, including types of ml_dtypes without an import of ml_dtypes."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from pyquant._check import shown as _value_shown
from pyquant._core import type_rows

__all__ = ["NARROW_FLOATS", "NARROW_INTEGERS", "TYPES", "ElementType"]
__dir__: object = __all__.copy


class ElementType:
    """
    Name, kind, size and range of an element type.

    Parameters
    ----------
    name : str
        Name in NumPy or ml_dtypes.
    kind : str
        ``"real"`` (input of quantize and result of dequantize), ``"integer"``, ``"float"``
        (narrow float) or ``"exponent"`` (type of scales only).
    bits : int
        Number of bits of an element.
    nbytes : int
        Number of bytes of an unpacked element.
    lowest, highest : int or `None`
        Range of an integer type; `None` for all other types.

    Examples
    --------
    >>> import pyquant.dtypes
    >>> uint4 = pyquant.dtypes.TYPES["uint4"]
    >>> uint4.kind, uint4.bits, uint4.nbytes, uint4.lowest, uint4.highest
    ('integer', 4, 1, 0, 15)
    """

    # A NamedTuple would take a millisecond, a fifth of the import of pyquant.
    __slots__ = ("bits", "highest", "kind", "lowest", "name", "nbytes")
    name: str
    kind: str
    bits: int
    nbytes: int
    lowest: int | None
    highest: int | None

    def __init__(
        self,
        name: str,
        kind: str,
        bits: int,
        nbytes: int,
        lowest: int | None,
        highest: int | None,
    ) -> None:
        self.name, self.kind, self.bits, self.nbytes = name, kind, bits, nbytes
        self.lowest, self.highest = lowest, highest

    def __repr__(self) -> str:
        size = f"bits={self.bits}, nbytes={self.nbytes}"
        ends = f"lowest={self.lowest}, highest={self.highest}"
        return f"ElementType(name={self.name!r}, kind={self.kind!r}, {size}, {ends})"


TYPES: Mapping[str, ElementType] = MappingProxyType(
    {row[0]: ElementType(*row) for row in type_rows()}
)
NARROW_INTEGERS = tuple(
    t.name for t in TYPES.values() if t.kind == "integer" and t.bits < 8
)
NARROW_FLOATS = tuple(t.name for t in TYPES.values() if t.kind == "float")
# Types that need no parsing, in both byte orders.
_PLAIN = {
    np.dtype(order + kind + size): np.dtype(kind + size).name
    for order in "<>"
    for kind in "iuf"
    for size in "1248"
    if kind + size != "f1"
}
# Abstract classes. Some versions of NumPy convert an abstract class to a dtype, with a
# warning.
_ABSTRACT = (
    *(np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger),
    *(np.inexact, np.floating, np.complexfloating, np.flexible, np.character),
)
ML_NAMES = TYPES.keys() - set(_PLAIN.values())
_SHORT = {
    **dict.fromkeys(("e4m3", "e4m3fn", "fp8_e4m3", "fp8_e4m3fn"), "float8_e4m3fn"),
    **dict.fromkeys(("e5m2", "fp8_e5m2"), "float8_e5m2"),
    **dict.fromkeys(("e2m1", "fp4_e2m1"), "float4_e2m1fn"),
    **dict.fromkeys(("e8m0", "e8m0fnu"), "float8_e8m0fnu"),
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
}


def ml_name(dtype: Any) -> str | None:
    """Return the name of a type of ml_dtypes without importing it, or `None`."""
    scalar = dtype.type if isinstance(dtype, np.dtype) else dtype
    name = getattr(scalar, "__name__", "")
    known = name in ML_NAMES and getattr(scalar, "__module__", "") == "ml_dtypes"
    return name if known else None


def ml_dtype(name: str) -> np.dtype[Any]:
    """Return the dtype of ml_dtypes with a name, or raise ImportError."""
    from pyquant._core import default_fpenv

    try:
        # The import of ml_dtypes computes limits of types in floating point, and so needs
        # the default floating-point environment.
        ml_dtypes = default_fpenv(import_module)("ml_dtypes")
    except ImportError:
        install = "pip install 'pyquant-simd[ml-dtypes]'"
        raise ImportError(f"dtype: {name} needs the package ml_dtypes: {install}") from None
    scalar = getattr(ml_dtypes, name, None)
    if scalar is None:
        msg = f"dtype: {name} needs a newer ml_dtypes, got {ml_dtypes.__version__}"
        raise ImportError(msg)
    found: np.dtype[Any] = np.dtype(scalar)
    return found


def torch_name(dtype: Any) -> str | None:
    """Return the name of a dtype of PyTorch, or `None` for other objects."""
    torch = sys.modules.get("torch")
    found = torch is not None and isinstance(dtype, getattr(torch, "dtype", ()))
    return str(dtype).removeprefix("torch.") if found else None


def name_of(dtype: Any) -> str | None:
    """Return the name of a dtype, class or string in NumPy or ml_dtypes.

    The name has no byte order. For structured dtypes and other objects, the name is `None`.
    """
    if isinstance(dtype, np.dtype) and dtype in _PLAIN:
        return _PLAIN[dtype]
    found = ml_name(dtype)
    if found is not None or dtype is None:
        return found
    if isinstance(dtype, str) and dtype in ML_NAMES:
        return dtype
    if isinstance(dtype, type) and dtype in _ABSTRACT:
        return None
    if not isinstance(dtype, (str, type, np.dtype)):
        inner = getattr(dtype, "dtype", None)  # Like NumPy.
        # NumPy must not convert any other object, because NumPy would read a structured
        # dtype, or print an object that may be nested too deeply.
        has_one = isinstance(inner, np.dtype) and not isinstance(dtype, np.ndarray)
        return name_of(inner) if has_one else None
    try:
        return str(np.dtype(dtype).name)
    except Exception:  # NumPy parses strings and may raise any exception
        return None


def requested(dtype: Any) -> str | None:
    """Return the name of the type that an argument selects, or `None`.

    Strings may have any letter case. A dtype with the opposite byte order gives `None`,
    because results have the byte order of the machine.
    """
    text = dtype if isinstance(dtype, str) else torch_name(dtype)
    if text is not None:
        text = _SHORT.get(text.lower(), text.lower())
        if text in TYPES:
            return text
    if not isinstance(dtype, (str, type, np.dtype)):
        inner = getattr(dtype, "dtype", None)  # Like NumPy.
        if not isinstance(inner, np.dtype):
            return None
        dtype = inner
    found = name_of(dtype)
    if found is None or found in ML_NAMES or isinstance(dtype, type):
        foreign = isinstance(dtype, np.dtype) and not dtype.isnative
        return None if foreign else found
    return found if np.dtype(dtype).isnative else None


def shown(dtype: Any) -> str:
    """Describe the value of a dtype argument for an error message, in one line."""
    found = name_of(dtype)
    if found is not None and requested(dtype) is None:
        return f"the foreign byte order of {dtype}"
    if torch_name(dtype) is not None:
        return str(dtype)
    plain = dtype is None or isinstance(dtype, (str, int, float))
    return found or (_value_shown(dtype) if plain else type(dtype).__name__)


def described(array: np.ndarray[Any, Any]) -> str:
    """Describe the element type of an array for an error message.

    ``numpy.load`` reads types of ml_dtypes as void types. For void types, the text has a
    hint.
    """
    dtype = array.dtype
    plain = dtype.type is np.void and not dtype.names and not dtype.subdtype
    if not plain or dtype.itemsize not in (1, 2):
        return " ".join(str(dtype).split())
    if dtype.itemsize == 2:
        return "|V2, as numpy.load reads bfloat16: use .view(ml_dtypes.bfloat16)"
    return "|V1, as numpy.load reads narrow types: use .view(ml_dtypes.int4) or another"
