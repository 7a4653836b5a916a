# SPDX-License-Identifier: Apache-2.0
"""Convert real multipliers to the fixed-point form that `requantize` accepts."""

from pyquant._core import fixed_point

__all__ = ["fixed_point"]
__dir__: object = __all__.copy
