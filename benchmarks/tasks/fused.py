# SPDX-License-Identifier: Apache-2.0
"""Measure functions that do the work of `quantize` and of a second function in one call."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import pyquant as pq
from benchmarks.arrays import Array
from benchmarks.rivals import Candidate
from benchmarks.rivals.torch import torch_on_one_thread
from benchmarks.tasks._task import Made, Task, normal, rows

SCALE = 0.02

# ---- dynamic quantization ----


def _codes(result: Any) -> Array:
    return np.asarray(result[0])


def _by_numpy(x: Array) -> Candidate:
    """Quantize each row with its own scale, in place."""
    q, t = np.empty(x.shape, np.int8), np.empty_like(x)

    def call() -> Array:
        scale = np.abs(x, out=t).max(axis=1, keepdims=True) / np.float32(127)
        np.rint(np.divide(x, scale, out=t), out=t)
        np.copyto(q, np.clip(t, -128, 127, out=t), casting="unsafe")
        return q

    return Candidate(call)


def _by_torch(x: Array) -> Candidate:
    """Quantize with one scale and zero point."""
    torch = torch_on_one_thread()
    t = torch.from_numpy(x)
    return Candidate(
        lambda: torch.quantize_per_tensor_dynamic(t, torch.quint8, False),
        lambda q: np.asarray(q.int_repr().numpy()),
    )


# Maps the name of a task to its rival.
RIVALS = {
    "dynamic-i8-rows": ("numpy", _by_numpy),
    "dynamic-u8": ("torch", _by_torch),
}


def _dynamic(n: int, name: str, **options: Any) -> Made:
    x = rows(n)
    q = np.empty(x.shape, options.get("dtype", "int8"))
    rivals = {}
    if name in RIVALS:
        rival, build = RIVALS[name]
        rivals[rival] = partial(build, x)
    return Made(
        x.size,
        x.nbytes + q.nbytes,
        lambda: pq.dynamic_quantize(x, out=q, **options),
        _codes,
        rivals,
        lambda: pq.choose_qparams(x, **options).quantize(x, out=q),
    )


DYNAMIC: dict[str, dict[str, Any]] = {
    "dynamic-i8-rows": {"axis": 0},
    "dynamic-u8-rows": {"axis": 0, "dtype": "uint8"},
    "dynamic-i8-block32": {"axis": 1, "block_size": 32},
    "dynamic-i8-block128": {"axis": 1, "block_size": 128},
    "dynamic-u8": {"dtype": "uint8"},
}

# ---- fake quantization ----


def _fake_by_numpy(x: Array) -> Candidate:
    y = np.empty_like(x)

    def call() -> Array:
        np.rint(np.divide(x, np.float32(SCALE), out=y), out=y)
        return np.multiply(np.clip(y, -128, 127, out=y), np.float32(SCALE), out=y)

    return Candidate(call)


def _fake_by_torch(x: Array) -> Candidate:
    torch = torch_on_one_thread()
    t = torch.from_numpy(x)
    return Candidate(lambda: torch.fake_quantize_per_tensor_affine(t, SCALE, 0, -128, 127))


def _fake_rows_by_torch(x: Array) -> Candidate:
    torch = torch_on_one_thread()
    t, scale = torch.from_numpy(x), torch.full((len(x),), SCALE)
    zero = torch.zeros(len(x), dtype=torch.int32)
    return Candidate(
        lambda: torch.fake_quantize_per_channel_affine(t, scale, zero, 0, -128, 127)
    )


def _fake(n: int) -> Made:
    x = rows(n)
    y, q = np.empty_like(x), np.empty(x.shape, np.int8)
    return Made(
        x.size,
        x.nbytes + y.nbytes,
        lambda: pq.fake_quantize(x, SCALE, out=y),
        rivals={
            "numpy": lambda: _fake_by_numpy(x),
            "torch": lambda: _fake_by_torch(x),
        },
        two_calls=lambda: pq.dequantize(pq.quantize(x, SCALE, out=q), SCALE, out=y),
    )


def _fake_rows(n: int) -> Made:
    x = rows(n)
    y, scale = np.empty_like(x), np.full(len(x), SCALE, np.float32)
    return Made(
        x.size,
        x.nbytes + y.nbytes,
        lambda: pq.fake_quantize(x, scale, axis=0, out=y),
        rivals={"torch": lambda: _fake_rows_by_torch(x)},
    )


def _fake_blocks_by_numpy(x: Array, scale: Array, size: int) -> Candidate:
    y, blocks = np.empty_like(x), (*scale.shape, size)
    given, result, by = x.reshape(blocks), y.reshape(blocks), scale[..., np.newaxis]

    def call() -> Array:
        np.rint(np.divide(given, by, out=result), out=result)
        np.multiply(np.clip(result, -128, 127, out=result), by, out=result)
        return y

    return Candidate(call)


def _fake_blocks(n: int, size: int) -> Made:
    x = rows(n)
    y, shape = np.empty_like(x), (len(x), x.shape[1] // size)
    scale = np.random.default_rng(1).uniform(SCALE / 2, 2 * SCALE, shape)
    scales = scale.astype(np.float32)
    return Made(
        x.size,
        x.nbytes + y.nbytes + scales.nbytes,
        lambda: pq.fake_quantize(x, scales, axis=1, block_size=size, out=y),
        rivals={"numpy": lambda: _fake_blocks_by_numpy(x, scales, size)},
    )


# ---- a cache of keys and values ----


def _cache(n: int, reads: bool) -> Made:
    """Quantize 8 heads of 128 numbers to a row of a cache, or dequantize all rows."""
    x = normal(1024).reshape(8, 128)
    cache = np.zeros((max(2, n // 1024), 8, 128), np.int8)
    scales = np.ones(cache.shape[:2], np.float32)
    if reads:
        out = np.empty(cache.shape, np.float32)
        call = partial(pq.dequantize, cache, scales, axis=(0, 1), out=out)
        return Made(cache.size, cache.nbytes + out.nbytes, call)
    return Made(
        x.size,
        x.nbytes + x.size,
        lambda: pq.dynamic_quantize(x, axis=0, out=cache[1], scale_out=scales[1]),
        _codes,
    )


def _fake_mask(n: int) -> Made:
    x = rows(n)
    y, mask = np.empty_like(x), np.empty(x.shape, bool)
    return Made(
        x.size,
        x.nbytes + y.nbytes + mask.nbytes,
        lambda: pq.fake_quantize(x, SCALE, out=y, mask=mask),
    )


TASKS = [
    *(Task(name, partial(_dynamic, name=name, **how)) for name, how in DYNAMIC.items()),
    Task("cache-append", partial(_cache, reads=False), (1 << 10,)),
    Task("cache-read", partial(_cache, reads=True)),
    Task("fake-i8", _fake),
    Task("fake-i8-rows", _fake_rows),
    *(
        Task(f"fake-i8-block{size}", partial(_fake_blocks, size=size))
        for size in (8, 16, 32)
    ),
    Task("fake-i8-mask", _fake_mask),
]
