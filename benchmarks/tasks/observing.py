# SPDX-License-Identifier: Apache-2.0
"""Observe batches. Each call makes a new observer."""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import pyquant as pq
from benchmarks.arrays import Array
from benchmarks.rivals import OTHER_BITS, Candidate
from benchmarks.rivals.torch import torch_on_one_thread
from benchmarks.tasks._task import Made, Task, normal, nothing

BINS = 2048
QUANTILE = 0.9999


def _observed(x: Array, **options: Any) -> pq.Observer:
    observer = pq.Observer(**options)
    observer.update(x)
    return observer


def _other(call: Callable[[], Any]) -> Candidate:
    """Return a candidate whose statistics differ from pyquant's and are not compared."""
    return Candidate(call, nothing, OTHER_BITS)


# ---- rivals ----


def _onnxruntime(x: Array) -> Candidate:
    calibrate = import_module("onnxruntime.quantization.calibrate")

    def collect() -> None:
        collector = calibrate.HistogramCollector(
            "percentile", False, BINS, 128, 100 * QUANTILE, "same"
        )
        with redirect_stdout(io.StringIO()):
            collector.collect({"x": x})

    return _other(collect)


def _torch_observer(x: Array) -> Any:
    """Return an observer that has observed `x`, and `x` as a tensor of PyTorch."""
    torch = torch_on_one_thread()
    observers = import_module("torch.ao.quantization.observer")
    observer, tensor = observers.HistogramObserver(), torch.from_numpy(x)
    observer(tensor)
    return observer, tensor


def _torch_histogram(x: Array) -> Candidate:
    observer, tensor = _torch_observer(x)
    return _other(lambda: type(observer)()(tensor))


def _torch_search(x: Array) -> Candidate:
    return _other(_torch_observer(x)[0].calculate_qparams)


def _torch_counts(x: Array) -> Candidate:
    torch = torch_on_one_thread()
    return _other(partial(torch.histc, torch.from_numpy(x), BINS))


def _torch_extremes(x: Array) -> Candidate:
    torch = torch_on_one_thread()
    return Candidate(partial(torch.aminmax, torch.from_numpy(x)), lambda v: np.array([*v]))


# ---- tasks ----


def _extremes(n: int) -> Made:
    x = normal(n)
    return Made(
        n,
        x.nbytes,
        lambda: _observed(x),
        lambda seen: np.array([seen.min, seen.max]),
        {
            "numpy": lambda: Candidate(lambda: np.array([x.min(), x.max()])),
            "torch": lambda: _torch_extremes(x),
        },
    )


def _histogram(x: Array) -> Made:
    return Made(
        x.size,
        x.nbytes,
        lambda: _observed(x, histogram=True),
        nothing,
        {
            "numpy": lambda: _other(partial(np.histogram, x, BINS)),
            "onnxruntime": lambda: _onnxruntime(x),
            "torch": lambda: _torch_histogram(x),
            "torch_eager": lambda: _torch_counts(x),
        },
    )


def _one_number(n: int) -> Array:
    return np.full(n, 3, np.float32)


def _two_numbers(n: int) -> Array:
    """Return two values in random order. Repeated increments of few counters are slow."""
    return np.random.default_rng(0).integers(0, 2, n).astype(np.float32)


def _quantile(n: int) -> Made:
    x = normal(n)
    return Made(
        n,
        x.nbytes,
        lambda: _observed(x, histogram=True).quantile(QUANTILE),
        nothing,
        {"numpy": lambda: _other(partial(np.quantile, x, QUANTILE))},
    )


def _search(n: int, method: Any) -> Made:
    """Find the range from a histogram. The number of its bins hardly depends on `n`."""
    x = normal(n)
    seen = _observed(x, histogram=True)
    rivals = {"torch": lambda: _torch_search(x)} if method == "mse" else {}
    return Made(n, x.nbytes, partial(seen.range, method), nothing, rivals)


TASKS = [
    Task("observe-extremes", _extremes),
    Task("observe-histogram", lambda n: _histogram(normal(n))),
    Task("observe-histogram-one", lambda n: _histogram(_one_number(n))),
    Task("observe-histogram-two", lambda n: _histogram(_two_numbers(n))),
    Task("observe-quantile", _quantile),
    *(
        Task(f"range-{method}", partial(_search, method=method), (1 << 18,))
        for method in ("percentile", "mse", "entropy")
    ),
]
