# SPDX-License-Identifier: Apache-2.0
"""
Compare the speed of pyquant with NumPy, other packages and a plain copy of as many bytes.

    python -m benchmarks [--forms NAME,...] [--sizes N,...] [--rivals NAME,...]

One process measures on one core. A form is a kind of call. Its candidates, pyquant and
other packages, take turns, so that a slow moment of the machine affects all of them. Each
figure is a median of rounds. docs/performance.md explains the table.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks import against, chart, forms, measure, report, rivals, runs, table
from benchmarks.table import Measured

ROUNDS = 9
# main() sets these environment variables before the import of the packages that read them.
# For all other packages, the files of benchmarks/rivals set the number of threads.
ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class Mode(NamedTuple):
    """The default forms, sizes, rivals and instruction sets of `--compact` and so on."""

    groups: tuple[str, ...]
    size: int | None  # the size of a form with several sizes; `None`: all its sizes
    rivals: tuple[str, ...]
    all_levels: bool = False  # measure every instruction set, not only the best


TABLE = Mode(forms.DEFAULT_GROUPS, None, tuple(rivals.RIVALS), all_levels=True)
# The mode of each option: `--compact`, `--chart`, `--against`.
MODES = {
    "compact": Mode(("compact",), forms.COMPACT_SIZE, ("numpy",)),
    "chart": Mode(("chart",), chart.SIZE, chart.RIVALS),
    "against": Mode(table.GROUPS, forms.COMPACT_SIZE, ()),
}
# Options that `--against` does not use.
NOT_AGAINST = ("rivals", "mixed", "json", "markdown", "plots")


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


def _interpreter(text: str) -> str:
    if not Path(text).is_file():
        msg = f"expected the path of a Python interpreter, got {text!r}"
        raise argparse.ArgumentTypeError(msg)
    return text


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    groups = ",".join(forms.DEFAULT_GROUPS)
    add("--forms", type=_forms, help=f"names of forms and groups (default {groups})")
    add(
        "--sizes", type=_sizes, help="numbers of elements (default: the sizes of each form)"
    )
    add("--rivals", type=_rivals, help="other packages (default all; '' for none)")
    rounds = f"number of rounds (default {ROUNDS})"
    add("--rounds", type=_positive, default=ROUNDS, help=rounds)
    add("--mixed", action="store_true", help="run scalar code for 0.1 ms before each call")
    add("--json", metavar="FILE", help="write all figures as JSON")
    add("--markdown", metavar="FILE", help="write the table as Markdown")
    add("--plots", metavar="FOLDER", help="draw elements per second, and the roofline")
    mode = parser.add_mutually_exclusive_group().add_argument
    mode("--list", action="store_true", help="list forms and groups, and measure nothing")
    mode("--compact", action="store_true", help="time the main forms, relative to a copy")
    mode("--chart", metavar="FOLDER", help="draw the chart of README.md")
    mode(
        "--against",
        metavar="PYTHON",
        type=_interpreter,
        help="time all forms in this environment and in that of another interpreter",
    )
    return parser


def _listing() -> str:
    lines = [["form", "groups"]]
    lines += [[one.name, " ".join(one.groups)] for one in table.ALL.values()]
    return report.text_table(lines)


def _mode(options: argparse.Namespace) -> Mode:
    return next((mode for name, mode in MODES.items() if getattr(options, name)), TABLE)


def _work(options: argparse.Namespace) -> list[tuple[Measured, int]]:
    """Return the forms and sizes to measure, in the order of the table."""
    mode = _mode(options)
    work = []
    for form in options.forms or table.select(list(mode.groups)):
        one_size = (mode.size,) if mode.size and len(form.sizes) > 1 else form.sizes
        work += [(form, size) for size in options.sizes or one_size]
    return work


def _how(options: argparse.Namespace) -> runs.Options:
    mode, chosen = _mode(options), options.rivals
    if chosen is None:
        chosen = [rivals.RIVALS[name] for name in mode.rivals]
    return runs.Options(chosen, options.rounds, mode.all_levels, options.mixed)


def _measure(options: argparse.Namespace) -> report.Results:
    """Measure all forms. After Ctrl-C, return the rows that are complete."""
    work, results = _work(options), report.Results([], [], {}, report.machine())
    footprints = measure.FOOTPRINTS if _mode(options) is TABLE else ()
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


def _write(options: argparse.Namespace, results: report.Results) -> None:
    """Write the files that the options name."""
    if options.plots:
        try:
            report.plot(options.plots, results)
        except ImportError as error:  # add the note before the files are written
            results.notes[f"plots: not drawn ({error})"] = []
    if options.chart:
        chart.write(options.chart, results)
    if options.json:
        Path(options.json).write_text(report.as_json(results), "utf-8")
    if options.markdown:
        Path(options.markdown).write_text(report.markdown(results), "utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print the table, and write the files that the options name."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.list:
        print(_listing())
        return
    for name in ONE_THREAD:
        os.environ[name] = "1"
    if options.against:
        unused = [f"--{name}" for name in NOT_AGAINST if getattr(options, name)]
        if unused:
            parser.error(f"argument --against: not allowed with argument {unused[0]}")
        print(against.compare(options.against, _work(options), options.rounds))
        return
    measure.pin(measure.one_core())
    results = _measure(options)
    _write(options, results)
    print(report.page(results, options.compact))


def _run_as_program() -> int:
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe. Let the flush at exit write elsewhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_run_as_program())
