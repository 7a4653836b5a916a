# SPDX-License-Identifier: Apache-2.0
"""MLX on CPUs: affine codes of 4 bits in groups of 64."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.arrays import Array
from benchmarks.rivals._rival import Candidate


def quantized(x: Array) -> Candidate:
    """Return a call of `quantize` that waits for its result."""
    mx = import_module("mlx.core")
    given = mx.array(x)

    def call() -> Any:
        made = mx.quantize(given, group_size=64, bits=4)
        mx.eval(made)
        return made[0]

    return Candidate(call, np.array)


def dequantized(x: Array) -> Candidate:
    """Return a call of `dequantize`."""
    mx = import_module("mlx.core")
    made = mx.quantize(mx.array(x), group_size=64, bits=4)
    mx.eval(made)

    def call() -> Any:
        numbers = mx.dequantize(*made, group_size=64, bits=4)
        mx.eval(numbers)
        return numbers

    return Candidate(call, np.array)
