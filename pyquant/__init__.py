# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize NumPy arrays exactly, at the speed of memory."""

try:
    from pyquant._core import dequantize, quantize
except ModuleNotFoundError as error:
    if error.name != "pyquant._core":
        raise
    msg = (
        "pyquant: expected its compiled module, got the source folder; install with "
        "'pip install .' and start Python elsewhere, or here with -P"
    )
    raise ImportError(msg) from None

from pyquant import isa
from pyquant._version import __version__
from pyquant.qparams import QParams, choose_qparams
from pyquant.rounding import RoundMode

__all__ = [
    "QParams",
    "RoundMode",
    "__version__",
    "choose_qparams",
    "dequantize",
    "isa",
    "quantize",
]
