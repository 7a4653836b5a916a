# SPDX-License-Identifier: Apache-2.0
"""
Measure the first figures of README.md, on the image of README.md.

    python -m benchmarks.reason

The program compares two lines of NumPy, the usual line and the correct line, with
`pyquant.quantize` and with ONNX Runtime, if it is installed. All calls return new arrays,
and run on one thread.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

import pyquant as pq
from benchmarks import arrays, forms, measure, report, rivals
from benchmarks.arrays import Array

README = Path(__file__).resolve().parent.parent / "README.md"
SECTION = r"^## Feed an int8 model\n.*?^```python\n(.*?)^```$"
ROUNDS = 25


def example() -> dict[str, Any]:
    """Run the program of README.md that makes a model's input. Return its variables."""
    found = re.search(SECTION, README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found, "README.md has no such section"
    names: dict[str, Any] = {"np": np, "pq": pq, "print": lambda *values: None}
    exec(found[1], names)
    return names


def usual(x: Array, scale: np.float32, zero_point: np.int8) -> Array:
    """Quantize with the usual line, which truncates and wraps."""
    return np.asarray((x / scale + zero_point).astype(np.int8))


def correct(x: Array, scale: np.float32, zero_point: np.int8) -> Array:
    """Quantize with the correct line, which computes QuantizeLinear of ONNX."""
    return np.asarray(np.clip(np.rint(x / scale) + zero_point, -128, 127).astype(np.int8))


def onnxruntime_call(x: Array, scale: np.float32, zero_point: np.int8) -> Callable[[], Any]:
    """Return a call of QuantizeLinear. Raise ImportError if a package is missing."""
    form = forms.FORMS["f32-i8"]
    case = arrays.build(form, 1)._replace(
        form=form._replace(fresh=True), x=x, given=x, scale=scale, zero=zero_point
    )
    made = rivals.build(rivals.RIVALS["onnxruntime"], case)
    assert made
    return lambda: made.read(made.call())


def measured() -> tuple[dict[str, Array], dict[str, measure.Timing]]:
    """Return the codes and the time of each way to quantize."""
    names = example()
    planes = names["pixels"].dequantize(names["image"].transpose(2, 0, 1))
    given = planes[np.newaxis], names["scale"], names["zero_point"]
    calls: measure.Calls = {
        "NumPy, usual line": lambda: usual(*given),
        "NumPy, correct line": lambda: correct(*given),
        "pyquant": lambda: pq.quantize(*given),
    }
    with suppress(ImportError):
        calls["onnxruntime"] = onnxruntime_call(*given)
    codes = {name: np.asarray(call()).reshape(-1) for name, call in calls.items()}
    return codes, measure.interleaved(calls, ROUNDS, measure.ROUND_SECONDS)


def main() -> None:
    """Print a line for each way to quantize."""
    measure.pin(measure.one_core())
    codes, timings = measured()
    standard = "onnxruntime" if "onnxruntime" in codes else "pyquant"
    wanted, m = codes[standard], report.machine()
    print(f"{m.cpu}, {pq.isa.active()}, {m.date}; {wanted.size} float32 elements")
    print(", ".join(f"{name} {version}" for name, version in m.packages.items()))
    lines = [["form", "time", "/ pyquant", f"codes that differ from {standard}"]]
    for name, timing in timings.items():
        ratio = timing.median / timings["pyquant"].median
        wrong = (codes[name] != wanted).mean()
        lines.append([name, report.duration(timing.median), f"{ratio:.2f}", f"{wrong:.2%}"])
    print(report.text_table(lines))


if __name__ == "__main__":
    main()
