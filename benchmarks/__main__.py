# SPDX-License-Identifier: Apache-2.0
"""Elements per second of the hot forms, beside NumPy and a plain copy of the same bytes.

    python -m benchmarks [--sizes 1,1024,...] [--forms NAME,...] [--json FILE]

One process, one core, results into a reused array. The candidates of a form take turns,
so that a slow moment of the machine meets them all; each figure is a median of rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import pyquant as pq
from pyquant import _core

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (1, 1 << 10, 1 << 16, 1 << 20, 1 << 24)
ROUNDS = 9
ROUND_SECONDS = 0.02


class Form(NamedTuple):
    """One kind of call: its inputs for `n` elements, and what it does."""

    name: str
    source: str
    target: str
    granularity: str = "tensor"
    rounding: str = "half_even"
    packed: bool = False


FORMS = [
    Form("f32-i8", "float32", "int8"),
    Form("f32-u8", "float32", "uint8"),
    Form("f32-i8-floor", "float32", "int8", rounding="floor"),
    Form("f32-i8-axis", "float32", "int8", "axis"),
    Form("f32-i8-block32", "float32", "int8", "block"),
    Form("f32-i8-plane49", "float32", "int8", "plane"),
    Form("f16-i8", "float16", "int8"),
    Form("bf16-i8", "bfloat16", "int8"),
    Form("f32-i16", "float32", "int16"),
    Form("f64-i8", "float64", "int8"),
    Form("f32-i32", "float32", "int32"),
    Form("i8-f32", "int8", "float32"),
    Form("u8-f32", "uint8", "float32"),
    Form("i8-f32-axis", "int8", "float32", "axis"),
    Form("i8-f32-block32", "int8", "float32", "block"),
    Form("i8-f16", "int8", "float16"),
    Form("i8-bf16", "int8", "bfloat16"),
    Form("i32-f32", "int32", "float32"),
    Form("f16-i8-half", "float16", "int8", "half"),
    Form("f32-e4m3", "float32", "float8_e4m3fn", "unit"),
    Form("e4m3-f32", "float8_e4m3fn", "float32", "unit"),
    Form("f32-e5m2", "float32", "float8_e5m2", "unit"),
    Form("e5m2-f32", "float8_e5m2", "float32", "unit"),
    Form("f32-i4-block32", "float32", "int4", "block"),
    Form("i4-f32-block32", "int4", "float32", "block", packed=True),
    Form("f4-f32-block32", "float4_e2m1fn", "float32", "block", packed=True),
]
REALS = ("float32", "float64", "float16", "bfloat16")
# Names of the types for NumKong, which casts without a scale.
NUMKONG = {"float32": "float32", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}


def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's dtype, or that of ml_dtypes."""
    return _core.dtype_named(name)


def parameters(form: Form, n: int) -> tuple[tuple[int, ...], Any, dict[str, Any], Any]:
    """Shape, scale, granularity arguments, and the scale as NumPy would broadcast it."""
    rng = np.random.default_rng(1)

    def scales(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return rng.uniform(0.01, 0.05, count).astype(np.float32)

    if form.granularity == "axis":
        columns = min(n, 1024)
        scale = scales(columns)
        return (n // columns, columns), scale, {"axis": 1}, scale
    if form.granularity == "block":
        width = min(n, 32)
        scale = scales(n // width)
        wide = np.repeat(scale, width)
        return (n,), scale, {"axis": 0, "block_size": width}, wide
    if form.granularity == "unit":
        return (n,), 1.0, {}, np.float32(1)
    if form.granularity == "half":
        return (n,), np.float16(0.02), {"precision": "float16"}, np.float16(0.02)
    if form.granularity == "plane":
        channels = max(1, n // 49)
        scale = scales(channels)
        return (channels, 7, 7), scale, {"axis": 0}, scale[:, None, None]
    return (n,), 0.02, {}, np.float32(0.02)


def quantizers(form: Form, n: int) -> tuple[dict[str, Callable[[], object]], int]:
    """The candidates that quantize, and the bytes that each moves."""
    shape, scale, where, wide = parameters(form, n)
    source, target = dtype_of(form.source), dtype_of(form.target)
    x = np.random.default_rng(0).standard_normal(shape, np.float32).astype(source)
    out = np.empty(shape, target)
    calls: dict[str, Callable[[], object]] = {}
    for isa in pq.isa.available():
        calls[isa] = lambda isa=isa: _core.quantize_at(
            isa, x, scale, dtype=form.target, rounding=form.rounding, out=out, **where
        )
    to_integer = np.floor if form.rounding == "floor" else np.rint
    real = np.float64 if form.source == "float64" else np.float32
    limits = _core.limits(form.target)

    def numpy_idiom() -> object:
        quotient = x.astype(real, copy=False) / wide
        if limits is None:
            return quotient.astype(target)
        return np.clip(to_integer(quotient), *limits).astype(target)

    calls["numpy"] = numpy_idiom
    add_numkong(calls, x, form)
    return calls, x.nbytes + out.nbytes


def dequantizers(form: Form, n: int) -> tuple[dict[str, Callable[[], object]], int]:
    """The candidates that dequantize, and the bytes that each moves."""
    shape, scale, where, wide = parameters(form, n)
    source, target = dtype_of(form.source), dtype_of(form.target)
    q = np.random.default_rng(0).integers(0, 7, shape).astype(source)
    codes: Any = pq.pack(q) if form.packed else q
    out = np.empty(shape, target)
    calls: dict[str, Callable[[], object]] = {}
    for isa in pq.isa.available():
        calls[isa] = lambda isa=isa: _core.dequantize_at(
            isa, codes, scale, dtype=form.target, out=out, **where
        )

    def numpy_idiom() -> object:
        values = q
        if form.packed:
            nibbles = np.empty(shape, np.uint8)
            nibbles[0::2], nibbles[1::2] = codes.data & 15, codes.data >> 4
            values = nibbles.view(source)
        return (values.astype(np.float32) * wide).astype(target, copy=False)

    calls["numpy"] = numpy_idiom
    add_numkong(calls, q, form)
    return calls, codes.nbytes + out.nbytes


def add_numkong(
    calls: dict[str, Callable[[], object]], x: np.ndarray[Any, Any], form: Form
) -> None:
    """A cast without a scale, where NumKong is installed and the form is one."""
    if form.granularity != "unit":
        return
    try:
        import numkong
    except ImportError:
        return
    if form.source == "float32":
        calls["numkong"] = lambda: numkong.astype(x, NUMKONG[form.target])
    else:
        tensor = numkong.astype(x.astype(np.float32), NUMKONG[form.source])
        calls["numkong"] = lambda: numkong.astype(tensor, NUMKONG[form.target])


def candidates(form: Form, n: int) -> dict[str, Callable[[], object]]:
    """What to time for one form and size, by name."""
    calls, nbytes = (quantizers if form.source in REALS else dequantizers)(form, n)
    # A copy moves each byte twice: as many bytes as the form reads and writes.
    half = nbytes // 2
    a, b = np.ones(half, np.uint8), np.empty(half, np.uint8)
    calls["copy"] = lambda: np.copyto(b, a)
    return calls


def measure(calls: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Median seconds per call, the calls of a round one after the other."""
    repeats = {}
    for name, call in calls.items():
        call()
        start = time.perf_counter()
        call()
        once = max(time.perf_counter() - start, 1e-7)
        repeats[name] = max(1, round(ROUND_SECONDS / once))
    rounds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            times = range(repeats[name])
            start = time.perf_counter()
            for _ in times:
                call()
            rounds[name].append((time.perf_counter() - start) / repeats[name])
    return {name: statistics.median(times) for name, times in rounds.items()}


def cell(rate: dict[str, float], name: str) -> str:
    """A figure, or a dash for a candidate that is not there."""
    return f"{rate[name]:10.3g}" if name in rate else f"{'-':>10}"


def cpu_name() -> str:
    """Model name of the CPU, where the system tells."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            names = [line.split(":")[1].strip() for line in lines if "model name" in line]
        return names[0]
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def main() -> None:
    """Measure and print, one line per form and size."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--forms", default=",".join(form.name for form in FORMS))
    parser.add_argument("--json")
    options = parser.parse_args()
    known = {form.name: form for form in FORMS}
    unknown = [name for name in options.forms.split(",") if name not in known]
    if unknown:
        parser.error(f"--forms: expected some of {', '.join(known)}, got {unknown[0]!r}")
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    levels = pq.isa.available()
    print(f"pyquant {pq.__version__}, NumPy {np.__version__}, {cpu_name()}")
    print("G elements per second; 'copy' moves as many bytes as the form reads and writes")
    columns = [*levels, "numpy", "numkong", "copy"]
    print(f"{'form':16}{'elements':>10}" + "".join(f"{name:>10}" for name in columns))
    rows = []
    for name in options.forms.split(","):
        for size in map(int, options.sizes.split(",")):
            seconds = measure(candidates(known[name], size))
            rate = {key: size / value / 1e9 for key, value in seconds.items()}
            print(f"{name:16}{size:>10}" + "".join(cell(rate, c) for c in columns))
            sys.stdout.flush()
            rows.append({"form": name, "elements": size, "seconds": seconds})
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"cpu": cpu_name(), "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
