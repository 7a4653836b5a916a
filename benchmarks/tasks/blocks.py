# SPDX-License-Identifier: Apache-2.0
"""Measure encoding and decoding of the blocks of GGUF files."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TypeAlias

import numpy as np

from benchmarks.arrays import Array
from benchmarks.rivals import Candidate
from benchmarks.tasks._task import Made, Task, normal
from pyquant.weights.blocks import BlockFormat, block_format, block_formats

SIZES = (1 << 20,)
GROUPS = ("blocks",)
SHORT = {"float32": "", "float16": "-f16", "bfloat16": "-bf16"}
# Formats that are also decoded to float16 and bfloat16.
NARROWED = ("Q8_0", "Q4_0", "Q4_K", "Q6_K")

# Formats that gguf-py 0.19 does not decode, and formats that gguf-py encodes.
NOT_DECODED = ("Q8_1", "Q8_K", "Q1_0", "Q2_0")
ENCODED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")
# Formats that libgguf 0.2 lacks. The C code of libgguf comes from ggml.
NOT_IN_LIBGGUF = ("Q8_1", "Q8_K", "Q2_0")

Rivals: TypeAlias = dict[str, Callable[[], Candidate]]


def _by_gguf(name: str, function: str, given: Array) -> Candidate:
    gguf = import_module("gguf")
    kind = gguf.GGMLQuantizationType[name]
    call = getattr(gguf.quants, function)
    return Candidate(lambda: call(given, kind))


def _by_libgguf(name: str, function: str, given: Array, out: Array) -> Candidate:
    """Return a call of ggml's C code that writes into memory that is used again."""
    libgguf = import_module("libgguf")
    kind = int(libgguf.GGMLQuantizationType[name])
    result = np.empty_like(out)
    elements = given.size if function == "quantize" else out.size
    call = getattr(libgguf, f"{function}_rows_into_raw")

    def run() -> Array:
        call(kind, given, result, 1, elements)
        return result

    return Candidate(run)


def _rivals(known: bool, name: str, function: str, given: Array, out: Array) -> Rivals:
    """Return the calls of gguf-py, if it has the format, and of libgguf."""
    rivals: Rivals = {"gguf": partial(_by_gguf, name, function, given)} if known else {}
    if name not in NOT_IN_LIBGGUF:
        rivals["libgguf"] = partial(_by_libgguf, name, function, given, out)
    return rivals


def _blocks(fmt: BlockFormat, n: int) -> Array:
    """Return encoded normal numbers, or random blocks if the format has no encoder."""
    if fmt.quantizes:
        return fmt.quantize(normal(n))
    shape = fmt.encoded_shape((n,))
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8) & np.uint8(0xBB)


def _decode(name: str, dtype: str, n: int) -> Made:
    fmt = block_format(name)
    b = _blocks(fmt, n)
    out = fmt.dequantize(b, dtype=dtype)
    return Made(
        n,
        b.nbytes + out.nbytes,
        lambda: fmt.dequantize(b, out=out),
        lambda result: np.asarray(result, np.float32),
        _rivals(name not in NOT_DECODED, name, "dequantize", b, out)
        if dtype == "float32"
        else {},
    )


def _encode(name: str, n: int) -> Made:
    fmt = block_format(name)
    x = normal(n)
    search = True if name == "IQ4_NL" else None  # ggml's quantizer searches scales
    out = fmt.quantize(x, search=search)
    return Made(
        n,
        x.nbytes + out.nbytes,
        lambda: fmt.quantize(x, search=search, out=out),
        rivals=_rivals(name in ENCODED, name, "quantize", x, out),
    )


def _tasks(fmt: BlockFormat) -> list[Task]:
    name = fmt.name
    dtypes = list(SHORT) if name in NARROWED else ["float32"]
    made = [
        Task(f"decode-{name}{SHORT[dtype]}", partial(_decode, name, dtype), SIZES, GROUPS)
        for dtype in dtypes
    ]
    if fmt.quantizes:
        made.append(Task(f"encode-{name}", partial(_encode, name), SIZES, GROUPS))
    return made


TASKS = [task for fmt in block_formats() for task in _tasks(fmt)]
