# SPDX-License-Identifier: Apache-2.0
"""
The speed of pyquant beside NumPy, other packages and a plain copy of the same bytes.

    python -m benchmarks [--forms NAME,...] [--sizes N,...] [--rivals NAME,...]

One process and one core. The candidates of a form take turns, so that a slow moment of
the machine meets them all; each figure is a median of rounds. docs/performance.md says how
to read the table.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from benchmarks import forms, measure, report, rivals, runs, table
from benchmarks.table import Measured

ROUNDS = 9
# Rivals read these when they are imported, which is later. Those that take another setting
# get it in `rivals`.
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _forms(text: str) -> list[Measured]:
    try:
        return table.select(text.split(","))
    except KeyError as error:
        known = ", ".join([*table.GROUPS, *table.ALL])
        msg = f"expected some of {known}, got {error.args[0]!r}"
        raise argparse.ArgumentTypeError(msg) from None


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        usual = ", ".join(map(str, forms.SIZES))
        msg = f"expected positive integers, such as {usual}, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return int(text)


def _sizes(text: str) -> list[int]:
    return [_positive(part) for part in text.split(",")]


def _rivals(text: str) -> list[rivals.Rival]:
    unknown = [name for name in _names(text) if name not in rivals.RIVALS]
    if unknown:
        msg = f"expected some of {', '.join(rivals.RIVALS)}, got {unknown[0]!r}"
        raise argparse.ArgumentTypeError(msg)
    return [rivals.RIVALS[name] for name in _names(text)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    groups = ",".join(forms.DEFAULT_GROUPS)
    add("--list", action="store_true", help="name forms and groups, and measure nothing")
    add("--forms", type=_forms, help=f"names of forms and groups (default {groups})")
    add("--sizes", type=_sizes, help="numbers of elements (default: what suits each form)")
    add("--rivals", type=_rivals, help="beside whom (default all; an empty word is nobody)")
    add("--rounds", type=_positive, default=ROUNDS, help=f"rounds (default {ROUNDS})")
    add("--mixed", action="store_true", help="0.1 ms of scalar code before each call")
    add("--json", metavar="FILE", help="write all figures")
    add("--markdown", metavar="FILE", help="write the table for a document")
    add("--plots", metavar="FOLDER", help="draw elements per second and the roofline")
    add("--compact", action="store_true", help="key forms as ratios to a copy, in seconds")
    return parser


def _listing() -> str:
    lines = [["form", "groups"]]
    lines += [[one.name, " ".join(one.groups)] for one in table.ALL.values()]
    return report.text_table(lines)


def _work(options: argparse.Namespace) -> list[tuple[Measured, int]]:
    """Forms and sizes, in the order of the table."""
    groups = ("compact",) if options.compact else forms.DEFAULT_GROUPS
    chosen = options.forms or table.select(list(groups))
    work = []
    for form in chosen:
        sizes = form.sizes
        if options.compact and len(sizes) > 1:
            sizes = (forms.COMPACT_SIZE,)
        work += [(form, size) for size in options.sizes or sizes]
    return work


def _how(options: argparse.Namespace) -> runs.Options:
    """All rivals and levels, or in the compact mode what is there everywhere."""
    chosen = options.rivals
    if chosen is None:
        chosen = list(rivals.RIVALS.values())
        if options.compact:
            chosen = [rivals.RIVALS["numpy"]]
    return runs.Options(chosen, options.rounds, not options.compact, options.mixed)


def _measure(options: argparse.Namespace) -> report.Results:
    """Measure; what is there after an interruption is a result, too."""
    work, results = _work(options), report.Results([], [], {}, report.machine())
    footprints = () if options.compact else measure.FOOTPRINTS
    progress = report.Progress(len(work) + len(footprints))
    try:
        results.bandwidths.extend(
            measure.bandwidths(footprints, progress.tick, options.rounds)
        )
        for row in runs.measure_all(work, _how(options), results.notes, progress.tick):
            results.rows.append(row)
    except KeyboardInterrupt:
        results.notes["interrupted: the table is not complete"] = []
    progress.close()
    return results


def main(arguments: list[str] | None = None) -> None:
    """Measure and print; write what was asked for."""
    options = _parser().parse_args(arguments)
    if options.list:
        print(_listing())
        return
    for name in ONE_THREAD:
        os.environ[name] = "1"
    measure.pin(measure.one_core())
    results = _measure(options)
    if options.plots:
        try:
            report.plot(options.plots, results)
        except ImportError as error:
            results.notes[f"plots: not drawn ({error})"] = []
    print(report.page(results, options.compact))
    if options.json:
        Path(options.json).write_text(report.as_json(results), "utf-8")
    if options.markdown:
        Path(options.markdown).write_text(report.markdown(results), "utf-8")


def _run_as_program() -> int:
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone: give the flush at exit a place to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_run_as_program())
