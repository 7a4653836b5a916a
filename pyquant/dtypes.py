# SPDX-License-Identifier: Apache-2.0
"""Describe element types; ml_dtypes is recognised without importing it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any

import numpy as np

from pyquant._core import type_rows
from pyquant._shown import shown as _value_shown

__all__ = [
    "NARROW_FLOATS",
    "NARROW_INTEGERS",
    "TYPES",
    "ElementType",
    "described",
    "ml_dtype",
    "ml_name",
    "name_of",
    "requested",
    "shown",
]


def __dir__() -> list[str]:
    return sorted(__all__)


class ElementType:
    """
    Name, kind, size and range of an element type.

    Parameters
    ----------
    name : str
        Name in NumPy or ml_dtypes.
    kind : str
        ``"real"``: input of quantize and result of dequantize. ``"integer"``. ``"float"``:
        a narrow float. ``"exponent"``: a type of scales only.
    bits : int
        Bits of an element.
    nbytes : int
        Bytes of an unpacked element.
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

    def __init__(
        self,
        name: str,
        kind: str,
        bits: int,
        nbytes: int,
        lowest: int | None,
        highest: int | None,
    ) -> None:
        self.name: str = name
        self.kind: str = kind
        self.bits: int = bits
        self.nbytes: int = nbytes
        self.lowest: int | None = lowest
        self.highest: int | None = highest

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
# Some versions of NumPy accept these with a warning, and choose a size.
_ABSTRACT = (
    *(np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger),
    *(np.inexact, np.floating, np.complexfloating, np.flexible, np.character),
)
ML_NAMES = TYPES.keys() - set(_PLAIN.values())


def ml_name(dtype: Any) -> str | None:
    """
    Return the name of a type of ml_dtypes without importing the package.

    Parameters
    ----------
    dtype : object
        Any object.

    Returns
    -------
    str or `None`
        Name of a dtype or class of ml_dtypes that pyquant supports, or `None`.

    Examples
    --------
    >>> import ml_dtypes
    >>> import pyquant.dtypes
    >>> pyquant.dtypes.ml_name(ml_dtypes.float8_e5m2)
    'float8_e5m2'
    """
    scalar = dtype.type if isinstance(dtype, np.dtype) else dtype
    name = getattr(scalar, "__name__", "")
    known = name in ML_NAMES and getattr(scalar, "__module__", "") == "ml_dtypes"
    return name if known else None


def ml_dtype(name: str) -> np.dtype[Any]:
    """
    Return the dtype of ml_dtypes with a given name.

    Parameters
    ----------
    name : str
        Name in ml_dtypes.

    Returns
    -------
    numpy.dtype
        The dtype.

    Raises
    ------
    ImportError
        If ml_dtypes is not installed, or is too old.

    Examples
    --------
    >>> import ml_dtypes
    >>> import pyquant.dtypes
    >>> pyquant.dtypes.ml_dtype("int4") == ml_dtypes.int4
    True
    """
    from pyquant._core import default_fpenv

    try:
        # The package computes the limits of its types.
        ml_dtypes = default_fpenv(import_module)("ml_dtypes")
    except ImportError:
        install = "pip install 'pyquant-simd[ml-dtypes]'"
        msg = f"dtype: {name} needs the package ml_dtypes: {install}"
        raise ImportError(msg) from None
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
    """
    Return the name of an element type, as NumPy or ml_dtypes spells it.

    Parameters
    ----------
    dtype : object
        A dtype, class or string.

    Returns
    -------
    str or `None`
        Name without byte order; `None` for structured dtypes and other objects.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant.dtypes
    >>> pyquant.dtypes.name_of(np.dtype(">f4")), pyquant.dtypes.name_of("int4")
    ('float32', 'int4')
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
        inner = getattr(dtype, "dtype", None)  # like NumPy
        # NumPy reads other objects as structured dtypes, or prints them in its message, and
        # they may be nested too deeply.
        has_one = isinstance(inner, np.dtype) and not isinstance(dtype, np.ndarray)
        return name_of(inner) if has_one else None
    try:
        return str(np.dtype(dtype).name)
    except Exception:  # NumPy parses strings and may raise any exception
        return None


def requested(dtype: Any) -> str | None:
    """
    Return the name of the type that an argument selects.

    Parameters
    ----------
    dtype : object
        A dtype, a class, a dtype of PyTorch, or a string in any letter case.

    Returns
    -------
    str or `None`
        Name; `None` for other objects, and for a dtype with the opposite byte order,
        because results have the byte order of the machine.

    Examples
    --------
    >>> import pyquant.dtypes
    >>> pyquant.dtypes.requested("i2"), pyquant.dtypes.requested(">i2")
    ('int16', None)
    >>> pyquant.dtypes.requested("Float8_E4M3FN")
    'float8_e4m3fn'
    """
    text = dtype if isinstance(dtype, str) else torch_name(dtype)
    if text is not None and text.lower() in TYPES:
        return text.lower()
    if not isinstance(dtype, (str, type, np.dtype)):
        inner = getattr(dtype, "dtype", None)  # like NumPy
        if not isinstance(inner, np.dtype):
            return None
        dtype = inner
    found = name_of(dtype)
    if found is None or found in ML_NAMES or isinstance(dtype, type):
        foreign = isinstance(dtype, np.dtype) and not dtype.isnative
        return None if foreign else found
    return found if np.dtype(dtype).isnative else None


def shown(dtype: Any) -> str:
    """
    Describe the value of a dtype argument for an error message.

    Parameters
    ----------
    dtype : object
        Any object.

    Returns
    -------
    str
        One line.

    Examples
    --------
    >>> import pyquant.dtypes
    >>> pyquant.dtypes.shown("fp8"), pyquant.dtypes.shown([1])
    ("'fp8'", 'list')
    """
    found = name_of(dtype)
    if found is not None and requested(dtype) is None:
        return f"the foreign byte order of {dtype}"
    if torch_name(dtype) is not None:
        return str(dtype)
    plain = dtype is None or isinstance(dtype, (str, int, float))
    return found or (_value_shown(dtype) if plain else type(dtype).__name__)


def described(array: np.ndarray[Any, Any]) -> str:
    """
    Describe the element type of an array for an error message.

    Parameters
    ----------
    array : ndarray
        Any array.

    Returns
    -------
    str
        The dtype, with a hint for types of ml_dtypes that ``numpy.load`` has read.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant.dtypes
    >>> pyquant.dtypes.described(np.zeros(3, "V1"))
    '|V1, as numpy.load reads narrow types: use .view(ml_dtypes.int4) or another'
    """
    dtype = array.dtype
    plain = dtype.type is np.void and not dtype.names and not dtype.subdtype
    if not plain or dtype.itemsize not in (1, 2):
        return " ".join(str(dtype).split())
    if dtype.itemsize == 2:
        return "|V2, as numpy.load reads bfloat16: use .view(ml_dtypes.bfloat16)"
    return "|V1, as numpy.load reads narrow types: use .view(ml_dtypes.int4) or another"
