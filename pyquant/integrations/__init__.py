# SPDX-License-Identifier: Apache-2.0
"""Quantize dask arrays and variables of netCDF and zarr, and multiply codes."""

from typing import TYPE_CHECKING

from pyquant._installed import lazy

if TYPE_CHECKING:
    from pyquant.integrations import cf, dask, products, tflite, zarr  # noqa: F401

# The modules dask and zarr are absent, because help() imports each name of this list, and
# both modules need packages that may be missing.
__all__ = ["cf", "products", "tflite"]

if not TYPE_CHECKING:  # type checkers would accept any name because of __getattr__
    _NAMES = {__name__: "cf dask products tflite zarr"}
    __getattr__, __dir__ = lazy(__name__, __all__, _NAMES)
