# SPDX-License-Identifier: Apache-2.0
"""Names of element types, and those of ml_dtypes, recognised without importing it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

__all__ = ["bfloat16", "is_bfloat16", "name_of"]


def is_bfloat16(dtype: Any) -> bool:
    """Whether `dtype` is the bfloat16 of ml_dtypes."""
    scalar = dtype.type if isinstance(dtype, np.dtype) else dtype
    return (
        getattr(scalar, "__name__", "") == "bfloat16"
        and getattr(scalar, "__module__", "") == "ml_dtypes"
    )


def bfloat16() -> np.dtype[Any]:
    """The bfloat16 of ml_dtypes.

    Raises
    ------
    ImportError
        If ml_dtypes is not installed.
    """
    try:
        import ml_dtypes
    except ImportError:
        msg = "dtype: bfloat16 needs the package ml_dtypes: pip install ml_dtypes"
        raise ImportError(msg) from None
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def name_of(dtype: Any) -> str | None:
    """The name of a dtype, class or string, as NumPy or ml_dtypes spells it.

    None for what is no dtype. The byte order is not part of the name.
    """
    if is_bfloat16(dtype):
        return "bfloat16"
    if dtype is None:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # spellings that NumPy deprecates
            return str(np.dtype(dtype).name)
    except Exception:  # NumPy parses strings: anything may come
        return None
