# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize NumPy arrays exactly, at the speed of memory."""

import pyquant._installed  # noqa: F401
from pyquant import com_microsoft, dtypes, isa, ngraph, onednn, onnx
from pyquant._core import dequantize, fixed_point, quantize, requantize
from pyquant._include import get_include
from pyquant._version import __version__
from pyquant.blocks import BlockFormat, block_format, block_formats
from pyquant.files import open_weights, write_weights
from pyquant.fused import dynamic_quantize, fake_quantize
from pyquant.observe import Observer, calibrate
from pyquant.packed import PackedArray, pack
from pyquant.qparams import QParams, choose_qparams, qparams_from_range
from pyquant.report import ErrorReport, measure_error
from pyquant.rounding import RoundMode

__all__ = [
    "BlockFormat",
    "ErrorReport",
    "Observer",
    "PackedArray",
    "QParams",
    "RoundMode",
    "__version__",
    "block_format",
    "block_formats",
    "calibrate",
    "choose_qparams",
    "com_microsoft",
    "dequantize",
    "dtypes",
    "dynamic_quantize",
    "fake_quantize",
    "fixed_point",
    "get_include",
    "isa",
    "measure_error",
    "ngraph",
    "onednn",
    "onnx",
    "open_weights",
    "pack",
    "qparams_from_range",
    "quantize",
    "requantize",
    "write_weights",
]


def __dir__() -> list[str]:
    return sorted(__all__)
