# SPDX-License-Identifier: Apache-2.0
"""Quantize and dequantize NumPy arrays exactly, at the speed of memory."""

import pyquant._installed  # noqa: F401, the earliest import, for Ctrl-C

# isort: split
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:  # else they are imported when they are first asked for
    from pyquant import (
        awq,
        bitsandbytes,
        cf,
        compressed_tensors,
        gptq,
        matmulnbits,
        mlx,
        mx,
        nvfp4,
        openvino,
        tflite,
    )

__all__ = [
    "BlockFormat",
    "ErrorReport",
    "Observer",
    "PackedArray",
    "QParams",
    "RoundMode",
    "__version__",
    "awq",
    "bitsandbytes",
    "block_format",
    "block_formats",
    "calibrate",
    "cf",
    "choose_qparams",
    "com_microsoft",
    "compressed_tensors",
    "dequantize",
    "dtypes",
    "dynamic_quantize",
    "fake_quantize",
    "fixed_point",
    "get_include",
    "gptq",
    "isa",
    "matmulnbits",
    "measure_error",
    "mlx",
    "mx",
    "ngraph",
    "nvfp4",
    "onednn",
    "onnx",
    "open_weights",
    "openvino",
    "pack",
    "qparams_from_range",
    "quantize",
    "requantize",
    "tflite",
    "write_weights",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # checkers would take any name for one that there is

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
