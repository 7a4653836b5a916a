# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize NumPy arrays exactly, at the speed of memory."""

import pyquant._installed  # noqa: F401
from pyquant import com_microsoft, dtypes, isa, ngraph, onednn, onnx
from pyquant._core import dequantize, quantize
from pyquant._include import get_include
from pyquant._version import __version__
from pyquant.packed import PackedArray, pack
from pyquant.qparams import QParams, choose_qparams
from pyquant.rounding import RoundMode

__all__ = [
    "PackedArray",
    "QParams",
    "RoundMode",
    "__version__",
    "choose_qparams",
    "com_microsoft",
    "dequantize",
    "dtypes",
    "get_include",
    "isa",
    "ngraph",
    "onednn",
    "onnx",
    "pack",
    "quantize",
]


def __dir__() -> list[str]:
    return sorted(__all__)
