# SPDX-License-Identifier: Apache-2.0
"""Quantize the arrays of other packages: dask, zarr, TFLite interpreters, netCDF files."""

from typing import TYPE_CHECKING

from pyquant._lazy import lazy

if TYPE_CHECKING:
    from pyquant.integrations import cf, dask, tflite, zarr

__all__ = ["cf", "dask", "tflite", "zarr"]

if not TYPE_CHECKING:  # type checkers would accept every name
    __getattr__, __dir__ = lazy(__name__, __all__, dict.fromkeys(__all__, __name__))
