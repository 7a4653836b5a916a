# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize NumPy arrays exactly, at the speed of memory.

Begin with `choose_qparams` or `calibrate`, then call the method `quantize` of the result.
``pyquant.weights`` reads and writes quantized weights of other packages, and
``pyquant.integrations.cf`` converts packed variables of CF/netCDF.
"""

import pyquant._installed  # noqa: F401 This import comes first, so that Ctrl-C is quiet.

# isort: split
from typing import TYPE_CHECKING

from pyquant import dtypes, isa
from pyquant._core import dequantize, quantize, requantize
from pyquant._installed import lazy
from pyquant._version import __version__
from pyquant.fused import dynamic_quantize, fake_quantize
from pyquant.packed import Layout, PackedArray, pack, pack_signs, unpack
from pyquant.qparams import QParams, choose_qparams, qparams_from_range
from pyquant.rounding import RoundMode

if TYPE_CHECKING:
    from pyquant import (
        com_microsoft,
        embed,  # noqa: F401
        fixedpoint,  # noqa: F401
        integrations,
        ngraph,
        onednn,
        onnx,
        openvino,
        weights,
    )
    from pyquant.observe import Observer, calibrate
    from pyquant.report import ErrorReport, measure_error
    from pyquant.weights.files import open_weights, write_weights

__all__ = [
    "ErrorReport",
    "Layout",
    "Observer",
    "PackedArray",
    "QParams",
    "RoundMode",
    "__version__",
    "calibrate",
    "choose_qparams",
    "com_microsoft",
    "dequantize",
    "dtypes",
    "dynamic_quantize",
    "fake_quantize",
    "integrations",
    "isa",
    "measure_error",
    "ngraph",
    "onednn",
    "onnx",
    "open_weights",
    "openvino",
    "pack",
    "pack_signs",
    "qparams_from_range",
    "quantize",
    "requantize",
    "unpack",
    "weights",
    "write_weights",
]

if not TYPE_CHECKING:  # Hidden, because with __getattr__ type checkers accept any name.
    _NAMES = {
        "pyquant": "com_microsoft embed fixedpoint integrations ngraph observe onednn onnx "
        "openvino report weights",
        "pyquant.observe": "Observer calibrate",
        "pyquant.report": "ErrorReport measure_error",
        "pyquant.weights.files": "open_weights write_weights",
    }
    __getattr__, __dir__ = lazy(__name__, __all__, _NAMES)
