# SPDX-License-Identifier: Apache-2.0
"""Measure errors, and choose scales by least error."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

import pyquant as pq
from benchmarks.arrays import Array
from benchmarks.rivals import OTHER_BITS, Candidate
from benchmarks.rivals.torch import torch_on_one_thread
from benchmarks.tasks._task import Made, Task, normal, nothing

GROUP = 128
CANDIDATES = 20
COLUMNS = 512


def _report_by_numpy(x: Array, y: Array) -> Any:
    e = x.astype(np.float64) - y
    signal, noise = np.square(x, dtype=np.float64).sum(), np.square(e).sum()
    return np.array([10 * np.log10(signal / noise), abs(e).max(), e.mean()])


def _report_by_torch(x: Array, y: Array) -> Candidate:
    """The ratio alone."""
    torch = torch_on_one_thread()
    a, b = torch.from_numpy(x), torch.from_numpy(y)
    return Candidate(
        lambda: 20 * torch.log10(torch.norm(a) / torch.norm(a - b)), nothing, OTHER_BITS
    )


def _report_by_onnxruntime(x: Array, y: Array) -> Candidate:
    """The ratio alone."""
    debug = import_module("onnxruntime.quantization.qdq_loss_debug")
    ratio = debug.compute_signal_to_quantization_noice_ratio
    return Candidate(lambda: ratio(x, y), nothing, OTHER_BITS)


def _of(report: pq.ErrorReport) -> Array:
    return np.array([report.sqnr, report.max_error, report.mean_error])


def _report(n: int) -> Made:
    x = normal(n)
    y = np.round(x * 64) / np.float32(64)
    return Made(
        n,
        x.nbytes + y.nbytes,
        lambda: pq.measure_error(x, y),
        _of,
        {
            "numpy": lambda: Candidate(lambda: _report_by_numpy(x, y)),
            "onnxruntime": lambda: _report_by_onnxruntime(x, y),
            "torch_eager": lambda: _report_by_torch(x, y),
        },
    )


def _columns(n: int) -> Made:
    """Measure the error of each column."""
    x = normal(max(1, n // COLUMNS) * COLUMNS).reshape(-1, COLUMNS)
    y = np.round(x * 64) / np.float32(64)
    return Made(
        x.size,
        x.nbytes + y.nbytes,
        lambda: pq.measure_error(x, y, axis=1),
        lambda report: np.asarray(report.sqnr),
    )


def _params(n: int) -> Made:
    """Measure the error of parameters, and of the dequantized array."""
    x = normal(n)
    p = pq.choose_qparams(x)
    return Made(
        n,
        x.nbytes,
        lambda: p.measure_error(x),
        _of,
        two_calls=lambda: _of(pq.measure_error(x, p.dequantize(p.quantize(x)))),
    )


def _search_by_numpy(x: Array) -> Array:
    """Search the grid of pyquant, without the refinement by least squares."""
    most = abs(x).max(1, keepdims=True)
    best = np.full(len(x), np.inf)
    scales = np.empty(len(x), np.float32)
    for j in range(CANDIDATES):
        scale = most * np.float32((1 - j / 100) / 7)
        e = np.clip(np.rint(x / scale), -8, 7) * scale - x
        error = np.square(e).sum(1)
        better = error < best
        best[better], scales[better] = error[better], scale[better, 0]
    return scales


def _search(n: int) -> Made:
    """Choose scales for symmetric int4 codes in blocks."""
    x = normal(max(1, n // GROUP) * GROUP).reshape(-1, GROUP)
    return Made(
        x.size,
        x.nbytes,
        lambda: pq.choose_qparams(x, dtype="int4", axis=0, method="mse"),
        lambda p: np.asarray(p.scale),
        {"numpy": lambda: Candidate(lambda: _search_by_numpy(x))},
    )


TASKS = [
    Task("measure-error", _report),
    Task("measure-error-columns", _columns),
    Task("measure-error-params", _params),
    Task("choose-i4-mse-block128", _search),
]
