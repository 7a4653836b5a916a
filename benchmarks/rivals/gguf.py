# SPDX-License-Identifier: Apache-2.0
"""gguf-py, which chooses its own scales for each block."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from benchmarks.arrays import Case
from benchmarks.rivals._rival import OTHER_BITS, Candidate

# (quantized type, granularity) -> the closest format of llama.cpp.
FORMATS = {
    ("int8", "block32"): "Q8_0",
    ("int4", "block32"): "Q4_0",
    ("float4_e2m1fn", "block32"): "MXFP4",
}


def with_gguf(case: Case) -> Candidate | None:
    """Return a call for blocks of 32 with float16 scales."""
    form = case.form
    name = FORMATS.get((form.code, form.granularity))
    if name is None or form.real != "float32" or case.x.shape[-1] % 32 or not form.plain:
        return None
    gguf = import_module("gguf")
    kind = gguf.GGMLQuantizationType[name]
    if form.quantizes:
        return Candidate(lambda: gguf.quants.quantize(case.x, kind), np.asarray, OTHER_BITS)
    numbers = np.random.default_rng(0).standard_normal(case.x.shape, np.float32)
    codes = gguf.quants.quantize(numbers, kind)
    return Candidate(lambda: gguf.quants.dequantize(codes, kind), np.asarray, OTHER_BITS)
