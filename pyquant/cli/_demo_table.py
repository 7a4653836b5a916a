# SPDX-License-Identifier: Apache-2.0
"""The table of `pyquant demo`: error, size and speed of int8 for some arrays."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pyquant import __version__, isa
from pyquant.qparams import QParams, choose_qparams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Array = npt.NDArray[Any]

__all__ = ["FileError", "Row", "measure", "run", "sample"]

BLOCK = 32
WIDTH = 110  # columns of the longest line
MIN_SECONDS = 0.05  # how long the timed runs of one form take together, at least
MIN_RUNS = 5


class FileError(Exception):
    """A file that the demo cannot use; the message is one line."""


class Row(NamedTuple):
    """What one granularity does to one array."""

    granularity: str
    scale_min: float
    scale_max: float
    sqnr: float  # dB; inf where nothing is lost
    error: float  # the largest |x - y|
    saturated: float  # share of elements beyond the highest or lowest code
    before: int  # bytes
    after: int  # bytes, of codes and scales
    quantized: float  # elements per second
    dequantized: float  # elements per second


def run(path: str | None) -> None:
    """
    Print the table.

    Parameters
    ----------
    path : str or None
        A .npy or .npz file; None stands for the built-in sample.

    Raises
    ------
    FileError
        If the file cannot be read or holds nothing to quantize.
    """
    arrays = iter(sample().items()) if path is None else _load(path)
    # The first array comes before the heading: a file that cannot be read has no table.
    first = next(arrays, None)
    _print_heading()
    measured = False
    while first is not None:
        name, array = first
        measured = _print_array(name, array) or measured
        first = next(arrays, None)
    if not measured:
        msg = f"{_shown(str(path))}: no float array that can be quantized"
        raise FileError(msg)


# ---- arrays ----


def sample() -> dict[str, Array]:
    """
    Make arrays that look like a layer's weights and activations.

    Returns
    -------
    dict of str to ndarray
        The same float32 arrays on every call.
    """
    rng = np.random.default_rng(20)
    weights = rng.standard_normal((256, 1152)) * rng.uniform(0.01, 0.05, (256, 1))
    weights[rng.integers(0, 256, 12), rng.integers(0, 1152, 12)] *= 8
    maps = rng.standard_normal((64, 56, 56)) * rng.uniform(0.2, 2, (64, 1, 1))
    tokens = rng.standard_normal((128, 768))
    tokens[:, rng.integers(0, 768, 6)] *= 30
    arrays = {
        "conv weights": weights,
        "activations after ReLU": np.maximum(maps, 0),
        "activations with outlier channels": tokens,
    }
    return {name: array.astype(np.float32) for name, array in arrays.items()}


def _load(path: str) -> Iterator[tuple[str, Array | str]]:
    """Names with arrays, or with the reason why there is none."""
    try:
        file = open(path, "rb")  # noqa: SIM115
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise FileError(f"{_shown(path)}: {reason}") from None
    with file:
        try:
            content = np.load(file, allow_pickle=False)
        except Exception as error:  # a broken file raises anything, even tokenize's errors
            raise FileError(f"{_shown(path)}: {_reason(error)}") from None
        if isinstance(content, np.ndarray):
            yield Path(path).name, content
            return
        for name in content.files:
            yield name, _member(path, content, name)


def _member(path: str, content: Any, name: str) -> Array | str:
    try:
        array = content[name]
    except Exception as error:  # as above
        if _holds_objects(error):
            return _reason(error)
        msg = f"{_shown(path)}: the array {_shown(name)} cannot be read"
        raise FileError(msg) from None
    return array if isinstance(array, np.ndarray) else "not an array"


def _holds_objects(error: BaseException) -> bool:
    return isinstance(error, ValueError) and str(error).startswith("Object arrays")


def _reason(error: BaseException) -> str:
    if _holds_objects(error):
        return "holds Python objects, which are not loaded"
    if isinstance(error, MemoryError):
        return "does not fit into memory"
    return "not a .npy or .npz file that NumPy can read"


def _objection(x: Array) -> str | None:
    """Why an array cannot be quantized."""
    if x.dtype.kind == "V" and x.dtype.itemsize == 2 and x.dtype.names is None:
        return "raw 2-byte elements; .npy does not keep bfloat16, save it as float32"
    if x.dtype.kind != "f" or x.dtype.itemsize not in (2, 4, 8):
        return f"{x.dtype.name} is not float16, float32 or float64"
    if x.ndim == 0:
        return "a single number"
    return "empty" if x.size == 0 else None


# ---- measuring ----


def measure(x: Array) -> list[Row]:
    """
    Quantize an array to int8, symmetrically, and back.

    Parameters
    ----------
    x : ndarray
        float16, float32 or float64; at least one element and one axis; all finite.

    Returns
    -------
    list of Row
        Per tensor, per channel (axis 0) if there are two axes, and in blocks along the
        last axis.

    Raises
    ------
    ValueError
        If `x` holds a NaN or an infinity.
    """
    x = np.ascontiguousarray(x)
    rows = [_measure_one(x, "per tensor", choose_qparams(x))]
    if x.ndim >= 2:
        rows.append(_measure_one(x, "per channel", choose_qparams(x, axis=0)))
    blocks = choose_qparams(x, axis=-1, block_size=BLOCK)
    rows.append(_measure_one(x, f"blocks of {BLOCK}", blocks))
    return rows


def _measure_one(x: Array, granularity: str, p: QParams) -> Row:
    report = p.measure_error(x)
    q = p.quantize(x)
    y = p.dequantize(q, dtype=p.scale.dtype)
    return Row(
        granularity,
        float(p.scale.min()),
        float(p.scale.max()),
        report.sqnr if report.max_error > 0 else np.inf,
        report.max_error,
        (report.saturated_low + report.saturated_high) / report.count,
        x.nbytes,
        q.nbytes + p.scale.nbytes,
        x.size / _seconds(lambda: p.quantize(x, out=q)),
        x.size / _seconds(lambda: p.dequantize(q, dtype=y.dtype, out=y)),
    )


def _seconds(call: Callable[[], object]) -> float:
    """The median duration of several runs, each long enough for the clock."""
    start = perf_counter()
    call()
    once = max(perf_counter() - start, 1e-9)
    repeats = max(1, int(1e-3 / once))
    durations: list[float] = []
    while len(durations) < MIN_RUNS or sum(durations) * repeats < MIN_SECONDS:
        start = perf_counter()
        for _ in range(repeats):
            call()
        durations.append((perf_counter() - start) / repeats)
    return median(durations)


# ---- printing ----


def _print_heading() -> None:
    levels = ", ".join(isa.available())
    print(f"pyquant {__version__}, instruction set {isa.active()} (available: {levels})")
    print("int8, symmetric, half to even, one thread; channels: axis 0; blocks: last axis")
    print()
    print(
        f"{'':43}{'SQNR':>7}{'max error':>11}{'saturated':>11}{'bytes':>14}"
        f"{'G elements/s':>21}"
    )
    print(
        f"{'granularity':14}{'scale min .. max':^29}{'dB':>7}{'|x - y|':>11}{'%':>11}"
        f"{'before -> after':>20}{'quant':>8}{'dequant':>9}"
    )


def _print_array(name: str, array: Array | str) -> bool:
    """Print what there is to say; whether the array was quantized."""
    print()
    if isinstance(array, str):
        print(f"{_shown(name)}: skipped, {array}")
        return False
    title = f"  {array.dtype.name} {array.shape}"
    print(f"{_shown(name, WIDTH - len(title))}{title}", end="")
    rows: list[Row] = []
    objection = _objection(array)
    if objection is None:
        try:
            rows = measure(array)
        except ValueError as error:
            objection = str(error).removeprefix("x: ")
    print("" if objection is None else f": skipped, {objection}")
    for row in rows:
        print(_line(row))
    return bool(rows)


def _line(row: Row) -> str:
    scale = f"{row.scale_min:.4g}"
    if row.scale_max != row.scale_min:
        scale += f" .. {row.scale_max:.4g}"
    size = f"{_bytes(row.before)} -> {_bytes(row.after)}"
    return (
        f"{row.granularity:14}{scale:^29}{row.sqnr:7.2f}{row.error:11.4g}"
        f"{100 * row.saturated:11.3f}{size:>20}{row.quantized / 1e9:8.2f}"
        f"{row.dequantized / 1e9:9.2f}"
    )


def _bytes(count: int) -> str:
    return str(count) if count < 10**8 else f"{count / 1e6:.0f}M"


def _shown(name: str, width: int = WIDTH) -> str:
    """A name that any terminal can show, on one line, cut in the middle if it is long."""
    if not (name.isascii() and name.isprintable()):
        name = ascii(name)
    if len(name) <= width:
        return name
    half = (width - 3) // 2
    return f"{name[:half]}...{name[len(name) - half :]}"
