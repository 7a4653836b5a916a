# SPDX-License-Identifier: Apache-2.0
"""Quantize arrays of dask, zarr and TFLite, and variables of netCDF files."""

from typing import TYPE_CHECKING

from pyquant._installed import lazy

if TYPE_CHECKING:
    from pyquant.integrations import cf, dask, tflite, zarr  # noqa: F401

__all__ = ["cf", "tflite"]  # dask and zarr need packages, and help() imports each name

if not TYPE_CHECKING:  # type checkers would accept every name
    _NAMES = {__name__: "cf dask tflite zarr"}
    __getattr__, __dir__ = lazy(__name__, __all__, _NAMES)
