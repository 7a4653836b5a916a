# SPDX-License-Identifier: Apache-2.0
"""bitsandbytes on CPUs: codes of 4 bits in blocks of 64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.arrays import Array
from benchmarks.rivals._rival import Candidate
from benchmarks.rivals.torch import torch_on_one_thread


def _functional() -> Any:
    return import_module("bitsandbytes.functional")


def quantized(x: Array, quant_type: str) -> Candidate:
    """Return a call of `quantize_4bit`, which returns bytes of codes."""
    functional, given = _functional(), torch_on_one_thread().from_numpy(x)
    return Candidate(
        lambda: functional.quantize_4bit(given, blocksize=64, quant_type=quant_type),
        lambda made: np.asarray(made[0].numpy().reshape(-1)),
    )


def dequantized(x: Array, quant_type: str) -> Candidate:
    """Return a call of `dequantize_4bit`."""
    functional, given = _functional(), torch_on_one_thread().from_numpy(x)
    data, state = functional.quantize_4bit(given, blocksize=64, quant_type=quant_type)
    return Candidate(
        lambda: functional.dequantize_4bit(data, state),  # CPUs do not support `out`
        lambda made: np.asarray(made.numpy()),
    )
