# SPDX-License-Identifier: Apache-2.0
"""
Draw the error of int8 over the clipping threshold, and the thresholds that methods choose.

    python -m benchmarks.clipping FILE.png

Needs matplotlib.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

import pyquant as pq
from benchmarks import report

COUNT = 200_000
POINTS = 200
Method: TypeAlias = Literal["minmax", "percentile", "mse"]
# The color and the size of the point of each method. Sizes differ, because points may
# overlap.
METHODS: dict[Method, tuple[str, int]] = {
    "minmax": ("#1f77b4", 6),
    "percentile": ("#2ca02c", 10),
    "mse": ("#d62728", 6),
}
# Distributions like activations and weights, from light tails to heavy tails.
DATA = {
    "normal": lambda rng: rng.standard_normal(COUNT),
    "Student's t, 4 degrees": lambda rng: rng.standard_t(4, COUNT),
    "after ReLU, 1 of 1000 times 20": lambda rng: (
        np.maximum(rng.standard_normal(COUNT), 0) * (1 + 19 * (rng.random(COUNT) < 1e-3))
    ),
}


def decibels(x: Any, low: float, high: float) -> float:
    """Return the signal-to-noise ratio of int8 codes for this range."""
    return float(pq.qparams_from_range(low, high).measure_error(x).sqnr)


def panel(axes: Any, name: str) -> None:
    """Draw the curve of one distribution, and the points that methods choose."""
    x = DATA[name](np.random.default_rng(0)).astype(np.float32)
    seen = pq.Observer(histogram=True)
    seen.update(x)
    most = float(np.abs(x).max())
    thresholds = np.geomspace(most / 50, most, POINTS)
    axes.plot(thresholds, [decibels(x, -t, t) for t in thresholds], color="black")
    for method, (color, size) in METHODS.items():
        low, high = seen.range(method=method)
        t = max(-float(low), float(high))
        error = decibels(x, -t, t)
        axes.plot(t, error, "o", color=color, markersize=size, label=method)
    axes.set(xscale="log", title=name, xlabel="threshold")
    axes.grid(alpha=0.3)


def draw(path: str | Path) -> None:
    """
    Write the picture.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    """
    import_module("matplotlib").use("agg")  # no window
    pyplot = import_module("matplotlib.pyplot")
    figure, panels = pyplot.subplots(1, len(DATA), figsize=(11, 3.4), sharey=True)
    for axes, name in zip(panels, DATA, strict=True):
        panel(axes, name)
    panels[0].set_ylabel("signal over noise of int8, dB")
    panels[0].legend()
    figure.tight_layout()
    report.save(pyplot, figure, Path(path))


def main(arguments: list[str] | None = None) -> None:
    """Draw the picture, and write it to the file that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.clipping", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument("file", metavar="FILE.png")
    draw(parser.parse_args(arguments).file)


if __name__ == "__main__":
    main()
