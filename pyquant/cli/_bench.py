# SPDX-License-Identifier: Apache-2.0
"""`pyquant bench`: how fast this machine quantizes, beside a plain copy."""

from __future__ import annotations

from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import __version__, isa
from pyquant.blocks import block_format
from pyquant.cli._bands import as_json
from pyquant.cli._errors import Refused
from pyquant.cli._progress import print_table
from pyquant.cli._select import chosen
from pyquant.qparams import choose_qparams

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    import numpy.typing as npt

    _Array = npt.NDArray[Any]
    # What is called again and again, and how many bytes that reads and writes.
    _Form = tuple[Callable[[], object], int]

__all__ = ["FORMS", "add", "run"]

DESCRIPTION = """\
Measure some forms of quantization on this machine, one thread, each in turns with a plain
copy that reads and writes as many bytes; figures are medians."""

EXAMPLES = """\
examples:
  pyquant bench
  pyquant bench --forms 'quantize int8*' --size 65536
  pyquant bench --json
"""

SIZE = 1 << 20
# Many short rounds: turns as long as those of the system's scheduler would meet the same
# other program again and again.
ROUNDS = 41
MIN_SECONDS = 3e-4
COLUMNS = ("form", "G elements/s", "GB/s", "GB/s of a copy", "of a copy")


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument(
        "--forms",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only these: a glob, or re: and a regular expression; may be repeated",
    )
    parser.add_argument(
        "--size",
        type=int,
        default=SIZE,
        metavar="N",
        help=f"elements, a multiple of 1024; default {SIZE}",
    )
    parser.add_argument("--json", action="store_true", help="a line of JSON for each form")


def run(arguments: argparse.Namespace) -> int:
    """Measure, and show."""
    size = arguments.size
    if size < 1024 or size % 1024:
        raise Refused(f"--size: expected a positive multiple of 1024, got {size}")
    rules = [(pattern, None) for pattern in arguments.forms]
    names = chosen(rules, FORMS, "--forms") if rules else FORMS
    rng = np.random.default_rng(1)
    x = rng.standard_normal((size // 1024, 1024)).astype(np.float32)
    found = [_measured(name, x) for name in names]
    if arguments.json:
        for said in found:
            print(as_json(said))
        levels = {"version": __version__, "isa": isa.active(), "elements": size}
        print(as_json({"summary": levels}))
        return 0
    print(f"pyquant {__version__}, instruction set {isa.active()}, {size} elements")
    print_table(COLUMNS, [_row(said) for said in found], right=COLUMNS[1:])
    return 0


# ---- forms ----


def _quantize(dtype: str, packed: bool = False, **how: Any) -> Callable[[_Array], _Form]:
    def make(x: _Array) -> _Form:
        p = choose_qparams(x, dtype=dtype, **how)
        if packed:
            return lambda: p.quantize(x, packed=True), x.nbytes + x.size // 2
        q = p.quantize(x)
        return lambda: p.quantize(x, out=q), x.nbytes + q.nbytes

    return make


def _dequantize(dtype: str, packed: bool = False, **how: Any) -> Callable[[_Array], _Form]:
    def make(x: _Array) -> _Form:
        p = choose_qparams(x, dtype=dtype, **how)
        q = p.quantize(x, packed=packed)
        y = np.empty_like(x)
        return lambda: p.dequantize(q, out=y), x.nbytes + q.nbytes

    return make


def _encode(name: str) -> Callable[[_Array], _Form]:
    def make(x: _Array) -> _Form:
        block = block_format(name)
        b = block.encode(x)
        return lambda: block.encode(x, out=b), x.nbytes + b.nbytes

    return make


def _decode(name: str) -> Callable[[_Array], _Form]:
    def make(x: _Array) -> _Form:
        block = block_format(name)
        b, y = block.encode(x), np.empty_like(x)
        return lambda: block.decode(b, out=y), x.nbytes + b.nbytes

    return make


def _choose(**how: Any) -> Callable[[_Array], _Form]:
    return lambda x: (lambda: choose_qparams(x, **how), x.nbytes)


FORMS: dict[str, Callable[[_Array], _Form]] = {
    "choose int8": _choose(),
    "choose int8 axis:0": _choose(axis=0),
    "quantize int8": _quantize("int8"),
    "quantize int8 axis:0": _quantize("int8", axis=0),
    "quantize int8 block:32": _quantize("int8", axis=1, block_size=32),
    "quantize uint8": _quantize("uint8"),
    "quantize int4 block:32": _quantize("int4", packed=True, axis=1, block_size=32),
    "dequantize int8": _dequantize("int8"),
    "dequantize int8 axis:0": _dequantize("int8", axis=0),
    "dequantize int8 block:32": _dequantize("int8", axis=1, block_size=32),
    "dequantize int4 block:32": _dequantize("int4", packed=True, axis=1, block_size=32),
    "encode Q8_0": _encode("Q8_0"),
    "decode Q8_0": _decode("Q8_0"),
    "decode Q4_K": _decode("Q4_K"),
}


# ---- measuring ----


def _measured(name: str, x: _Array) -> dict[str, Any]:
    """The speed of a form and of a copy that reads and writes as many bytes."""
    call, nbytes = FORMS[name](x)
    source = np.ones(nbytes // 2, np.uint8)
    target = np.empty_like(source)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(ROUNDS):
        times[0].append(_seconds(call))
        times[1].append(_seconds(lambda: np.copyto(target, source)))
    seconds, copying = median(times[0]), median(times[1])
    return {
        "form": name,
        "elements_per_second": x.size / seconds,
        "bytes_per_second": nbytes / seconds,
        "copy_bytes_per_second": nbytes / copying,
    }


def _seconds(call: Callable[[], object]) -> float:
    """How long a call takes, of as many as the clock needs."""
    calls, start = 0, perf_counter()
    while calls == 0 or perf_counter() - start < MIN_SECONDS:
        call()
        calls += 1
    return (perf_counter() - start) / calls


def _row(said: dict[str, Any]) -> tuple[str, ...]:
    speed, copying = said["bytes_per_second"], said["copy_bytes_per_second"]
    return (
        said["form"],
        f"{said['elements_per_second'] / 1e9:.2f}",
        f"{speed / 1e9:.2f}",
        f"{copying / 1e9:.2f}",
        f"{speed / copying:.2f}",
    )
