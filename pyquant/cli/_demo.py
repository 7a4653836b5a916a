# SPDX-License-Identifier: Apache-2.0
"""`pyquant demo`: show error, size and speed of int8 on sample data or on your arrays."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import __version__, isa
from pyquant._core import quantize
from pyquant.cli._errors import Refused, shown
from pyquant.cli._show import print_table
from pyquant.qparams import choose_qparams

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from pyquant._typing import Array

DESCRIPTION = """\
Quantize arrays to int8 with one scale for each tensor, for each channel (index
of axis 0) and for 32 elements. Show bytes, error and speed of one thread.
Without FILE, compare a widespread line of code with the definition, too."""

EXAMPLES = """\
examples:
  pyquant demo
  pyquant demo model.safetensors"""

_FILE = "file with arrays or weights (default: sample data)"
OPTIONS = (("file", "FILE", _FILE, {"nargs": "?"}),)
FORMS: dict[str, dict[str, Any]] = {
    "tensor": {},
    "channel": {"axis": 0},
    "32 elements": {"axis": -1, "block_size": 32},
}
COLUMNS = ("one scale for each", "bytes", "SQNR dB", "max error", "quantize", "dequantize")
SCALE, Z = np.float32(0.0187), np.int8(-14)  # scale and zero point of the input of a model
LINES: dict[str, Callable[[Array], Array]] = {
    "pyquant.quantize": lambda x: quantize(x, SCALE, Z),
    "np.clip(np.rint(x / s) + z, -128, 127)": lambda x: np.clip(
        np.rint(x / SCALE) + Z, -128, 127
    ).astype(np.int8),
    "(x / s + z).astype(np.int8)": lambda x: (x / SCALE + Z).astype(np.int8),
}
MIN_SECONDS, MIN_RUNS = 0.02, 5  # minimum time, and minimum number of runs, to time a call


def run(arguments: argparse.Namespace) -> int:
    """Print a table for each array, and the comparison of lines of code."""
    path, count = arguments.file, 0
    arrays = iter([("weights of a layer", _weights())]) if path is None else _stored(path)
    for name, x in arrays:
        if not count:
            print(f"pyquant {__version__}, instruction set {isa.active()}, int8")
            print("speeds in G elements/s, one thread")
        print(f"\n{shown(name)}, {x.dtype.name} {' x '.join(map(str, x.shape))}")
        count += 1
        try:
            print_table(COLUMNS, [*measured(x)], right=COLUMNS[1:])
        except ValueError as error:
            print(f"skipped: {shown(error)}")
    if not count:
        raise Refused(f"{path} has no arrays of float16, float32, float64 or bfloat16")
    if path is None:
        _compare_lines()
    return 0


def _weights() -> Array:
    """Return sample weights of a convolution, with a few outliers."""
    rng = np.random.default_rng(20)
    weights = rng.standard_normal((256, 1152)) * rng.uniform(0.01, 0.05, (256, 1))
    weights[rng.integers(0, 256, 12), rng.integers(0, 1152, 12)] *= 8
    return weights.astype(np.float32)


def _stored(path: str) -> Iterator[tuple[str, Array]]:
    """Yield the names of the tensors with real numbers in a file, and their arrays."""
    from pyquant.cli._logical import logical
    from pyquant.cli._models import open_model

    with open_model(path) as model:
        for name, tensor in logical(model).items():
            plain = not tensor.is_quantized and tensor.fault is None
            if tensor.is_real and plain and tensor.size and tensor.shape:
                known = tensor.type in ("float16", "float64")
                yield name, tensor.dequantize(dtype=tensor.type if known else "float32")


def measured(x: Array) -> Iterator[tuple[str, ...]]:
    """Yield a row of texts for each granularity.

    A row has the name, the numbers of bytes, the errors, and the speeds of quantizing and
    dequantizing in 10**9 elements per second.
    """
    for name, how in FORMS.items():
        if name == "channel" and x.ndim < 2:
            continue
        p = choose_qparams(x, **how)
        q = p.quantize(x)
        y = p.dequantize(q, dtype=x.dtype)
        report = p.measure_error(x)
        times = _seconds(p.quantize, x, out=q), _seconds(p.dequantize, q, out=y)
        sizes = f"{x.nbytes} -> {q.nbytes + p.scale.nbytes}"
        errors = f"{report.sqnr:.2f}", f"{report.max_error:.4g}"
        yield name, sizes, *errors, *(f"{x.size / time / 1e9:.2f}" for time in times)


def _compare_lines() -> None:
    """Print the wrong codes, by the definition of ONNX, and the speed of lines of code."""
    x = np.random.default_rng(1).normal(0, 1, (3, 224, 224)).astype(np.float32)
    print(f"\ninput of an int8 model, float32 3 x 224 x 224, s = {SCALE:.4f}, z = {Z}")
    exact = [min(127, max(-128, round(v) + int(Z))) for v in (x / SCALE).flat]
    rows = []
    for line, call in LINES.items():
        wrong = np.count_nonzero(call(x).ravel() != exact)
        share = f"{wrong} of {x.size}, {100 * wrong / x.size:.1f} %"
        rows.append((line, share, f"{x.size / _seconds(call, x) / 1e9:.2f}"))
    print_table(
        ("line", "wrong codes", "quantize"), rows, right=("wrong codes", "quantize")
    )


def _seconds(call: Callable[..., object], *given: Array, **out: Array) -> float:
    """Return the median time of a call in seconds."""
    call(*given, **out)
    durations: list[float] = []
    total = 0.0
    while len(durations) < MIN_RUNS or total < MIN_SECONDS:
        start = perf_counter()
        call(*given, **out)
        durations.append(perf_counter() - start)
        total += durations[-1]
    return median(durations)
