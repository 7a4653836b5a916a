# SPDX-License-Identifier: Apache-2.0
"""Names of element types, and those of ml_dtypes, recognised without importing it."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["NARROW_FLOATS", "NARROW_INTEGERS", "ml_dtype", "ml_name", "name_of"]


def __dir__() -> list[str]:
    return sorted(__all__)


NARROW_INTEGERS = ("int4", "uint4", "int2", "uint2")
NARROW_FLOATS = (
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float4_e2m1fn",
)
# What needs no parsing, in either byte order.
_PLAIN = {
    np.dtype(order + kind + size): np.dtype(kind + size).name
    for order in "<>"
    for kind in "iuf"
    for size in "1248"
    if kind + size != "f1"
}
# Some versions of NumPy take these, with a warning, for types of a size of their choice.
_ABSTRACT = (
    *(np.generic, np.number, np.integer, np.signedinteger, np.unsignedinteger),
    *(np.inexact, np.floating, np.complexfloating, np.flexible, np.character),
)
_ML_NAMES = {"bfloat16", "float8_e8m0fnu", *NARROW_INTEGERS, *NARROW_FLOATS}


def ml_name(dtype: Any) -> str | None:
    """
    Name a type of ml_dtypes, which is not imported for it.

    Parameters
    ----------
    dtype : object
        Anything.

    Returns
    -------
    str or None
        The name of a dtype or class of ml_dtypes that pyquant knows; None for others.

    Examples
    --------
    >>> import ml_dtypes
    >>> import pyquant.dtypes
    >>> pyquant.dtypes.ml_name(ml_dtypes.float8_e5m2)
    'float8_e5m2'
    """
    scalar = dtype.type if isinstance(dtype, np.dtype) else dtype
    name = getattr(scalar, "__name__", "")
    known = name in _ML_NAMES and getattr(scalar, "__module__", "") == "ml_dtypes"
    return name if known else None


def ml_dtype(name: str) -> np.dtype[Any]:
    """
    Find the dtype of ml_dtypes of that name.

    Parameters
    ----------
    name : str
        As ml_dtypes spells it.

    Returns
    -------
    numpy.dtype
        The dtype.

    Raises
    ------
    ImportError
        If ml_dtypes is not installed, or is too old to have it.

    Examples
    --------
    >>> import ml_dtypes
    >>> import pyquant.dtypes
    >>> pyquant.dtypes.ml_dtype("int4") == ml_dtypes.int4
    True
    """
    try:
        import ml_dtypes
    except ImportError:
        msg = f"dtype: {name} needs the package ml_dtypes: pip install ml_dtypes"
        raise ImportError(msg) from None
    scalar = getattr(ml_dtypes, name, None)
    if scalar is None:
        msg = f"dtype: {name} needs a newer ml_dtypes, got {ml_dtypes.__version__}"
        raise ImportError(msg)
    found: np.dtype[Any] = np.dtype(scalar)
    return found


def name_of(dtype: Any) -> str | None:
    """
    Name an element type, as NumPy or ml_dtypes spells it.

    Parameters
    ----------
    dtype : object
        A dtype, class or string.

    Returns
    -------
    str or None
        The name, of which the byte order is no part; None for what is no dtype.

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
    if isinstance(dtype, str) and dtype in _ML_NAMES:
        return dtype
    if isinstance(dtype, type) and dtype in _ABSTRACT:
        return None
    try:
        return str(np.dtype(dtype).name)
    except Exception:  # NumPy parses strings: anything may come
        return None
