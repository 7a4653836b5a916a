# SPDX-License-Identifier: Apache-2.0
"""compressed-tensors: symmetric codes of 4 bits in its format "pack-quantized"."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.arrays import Array
from benchmarks.rivals._rival import Candidate
from benchmarks.rivals.torch import torch_on_one_thread

BASE = "compressed_tensors"


def _tools(group: int) -> tuple[Any, Any, Any]:
    """Return the modules that quantize and pack, and the description of the format."""
    quantization = import_module(f"{BASE}.quantization")
    args = quantization.QuantizationArgs(
        num_bits=4, type="int", symmetric=True, strategy="group", group_size=group
    )
    codes = import_module(f"{BASE}.quantization.lifecycle.forward")
    words = import_module(f"{BASE}.compressors.pack_quantized.helpers")
    return codes, words, args


def packed(x: Array, scale: Array, group: int) -> Candidate:
    """Return a call that quantizes with given scales and packs codes into 32-bit words."""
    torch = torch_on_one_thread()
    codes, words, args = _tools(group)
    given, by = torch.from_numpy(x), torch.from_numpy(scale)

    def call() -> Any:
        made = codes.quantize(given, by, None, args, dtype=torch.int8)
        return words.pack_to_int32(made, 4)

    return Candidate(call, lambda made: np.asarray(made.numpy()))


def unpacked(data: Array, scale: Array, group: int) -> Candidate:
    """Return a call that unpacks words and dequantizes the codes."""
    torch = torch_on_one_thread()
    codes, words, args = _tools(group)
    given, by = torch.from_numpy(data), torch.from_numpy(scale)
    shape = torch.Size((data.shape[0], data.shape[1] * 8))

    def call() -> Any:
        made = words.unpack_from_int32(given, 4, shape)
        return codes.dequantize(made, by, None, args)

    return Candidate(call, lambda made: np.asarray(made.numpy()))
