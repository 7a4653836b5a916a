# SPDX-License-Identifier: Apache-2.0
"""Convert audio samples (PCM) of 8, 16, 24 and 32 bits to float32, and back."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import pyquant as pq
from benchmarks.tasks._task import Made, Task

SIZES = (1 << 16, 1 << 20, 1 << 24)


def _pcm(n: int, bits: int, channels: int, writes: bool) -> Made:
    """Convert frames of interleaved channels to planes of float32, or back."""
    pcm = pq.QParams.from_pcm(bits)
    shape = (n // channels, channels)
    x = (np.random.default_rng(0).standard_normal(shape[::-1], np.float32)) / 4
    layout: Any = "int24" if bits == 24 else None
    frames: Any = pcm.quantize(x.T, layout=layout)
    nbytes = x.nbytes + frames.nbytes
    if writes:
        to = np.empty((shape[0], 3 * channels), np.uint8) if layout else frames
        return Made(x.size, nbytes, partial(pcm.quantize, x.T, layout=layout, out=to))
    return Made(x.size, nbytes, partial(pcm.dequantize, frames, out=np.empty_like(x).T))


def _task(bits: int, channels: int, writes: bool) -> Task:
    name = f"pcm{bits}-{'write' if writes else 'read'}-{channels}"
    build = partial(_pcm, bits=bits, channels=channels, writes=writes)
    return Task(name, build, SIZES)


TASKS = [
    _task(bits, channels, writes)
    for bits in (8, 16, 24, 32)
    for channels in (1, 2, 6)
    for writes in (False, True)
]
