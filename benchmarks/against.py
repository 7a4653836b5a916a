# SPDX-License-Identifier: Apache-2.0
"""
Time two installations of pyquant: `python -m benchmarks --against PYTHON`.

PYTHON is the interpreter of another virtual environment. Each installation has a worker
process. A worker imports the benchmarks of this checkout, and pyquant from its own
environment. The workers take turns on one core.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import geometric_mean
from typing import IO, Any, NamedTuple, cast

from benchmarks import measure, report
from benchmarks.table import Measured

SLOWEST = 5
# Each worker measures a form in many short turns. Changes of the clock frequency and other
# programs then affect both workers equally.
TURNS = 10
# The addresses of arrays change the time of a call by up to 20 %. With this variable, the
# C library of Linux places each array above 16 KiB 16 bytes past the start of a page.
PLACES = {"MALLOC_MMAP_THRESHOLD_": str(1 << 14)}
# -P: do not import from the current folder, which may hold a `pyquant` without its module.
WORKER = (
    "-P",
    "-c",
    "import sys; sys.path.insert(0, sys.argv[1]); from benchmarks import worker; "
    "worker.serve()",
    str(Path(__file__).resolve().parent.parent),
)

Json = dict[str, Any]
Ask = Callable[[Json], Json]  # send a request to a worker, and return the reply


@contextmanager
def _worker(python: str) -> Iterator[Ask]:
    """Start a worker, and yield a function that sends it a request."""
    pipe = subprocess.PIPE
    environ = os.environ | PLACES
    # The pipes have no buffers (0), so that closing them writes nothing to an ended worker.
    with subprocess.Popen([python, *WORKER], 0, None, pipe, pipe, env=environ) as process:
        requests, replies = cast(IO[bytes], process.stdin), cast(IO[bytes], process.stdout)

        def ask(request: Json) -> Json:
            try:
                requests.write(json.dumps(request).encode() + b"\n")
                return dict(json.loads(replies.readline()))
            except (BrokenPipeError, ValueError):
                sys.exit(f"{python}: the worker ended at the request {request}")

        yield ask


class Ratio(NamedTuple):
    """The times of a form at one size, or the reason why the form cannot be measured."""

    form: str
    elements: int
    # The times of a form in this and in the other installation, and the ratios other /
    # this.
    timings: tuple[measure.Timing, ...] = ()
    absent: str = ""
    equal: bool = True  # both installations return equal bytes


def _compare(this: Ask, other: Ask, form: str, size: int, rounds: int) -> Ratio:
    """
    Time a form in both workers. The worker that begins alternates between turns.

    Each round makes new arrays, because the place of arrays in memory affects the time.
    """
    request = {"form": form, "size": size, "seconds": measure.ROUND_SECONDS / TURNS}
    taken: dict[Ask, list[float]] = {this: [], other: []}
    made: dict[str, Json] = {}
    for _ in range(rounds):
        made = {"this": this(request), "other": other(request)}
        absent = [
            f"{name}: {got['absent']}" for name, got in made.items() if "absent" in got
        ]
        if absent:
            return Ratio(form, size, absent="; ".join(absent))
        times = {"times": min(got["times"] for got in made.values())}
        for turn in range(TURNS):
            for ask in (this, other) if turn % 2 else (other, this):
                taken[ask].append(ask(times)["seconds"])
    ratios = [b / a for a, b in zip(taken[this], taken[other], strict=True)]
    timings = tuple(map(measure.summary, (taken[this], taken[other], ratios)))
    equal = made["this"]["checksum"] == made["other"]["checksum"]
    return Ratio(form, size, timings, equal=equal)


def _table(rows: list[Ratio]) -> str:
    lines = [["form", "elements", "this", "other", "ratio", "±"]]
    for row in rows:
        this, other, ratio = row.timings
        seconds = [report.duration(each.median) for each in (this, other)]
        figures = [f"{ratio.median:.3f}", f"{ratio.spread:.1%}"]
        lines.append([row.form, report.count(row.elements), *seconds, *figures])
    return report.text_table(lines)


def page(rows: list[Ratio], headers: list[str]) -> str:
    """Return the table, the geometric mean, the slowest forms, and the absent forms."""
    timed = sorted((row for row in rows if row.timings), key=lambda row: row.timings[2])
    mean = geometric_mean(row.timings[2].median for row in timed) if timed else math.nan
    lines = [*headers, "", _table([row for row in rows if row.timings]), ""]
    lines += ["ratio: other / this of each round; above 1, this installation is faster"]
    lines += [f"geometric mean of {len(timed)} ratios: {mean:.3f}"]
    for title, chosen in (
        ("slowest", timed[:SLOWEST]),
        ("different results", [row for row in rows if not row.equal]),
        ("absent", [row for row in rows if row.absent]),
    ):
        lines += [f"{title}: {_described(row)}" for row in chosen]
    return "\n".join(lines)


def _described(row: Ratio) -> str:
    size = report.count(row.elements)
    ratio = f", {row.timings[2].median:.3f}" if row.timings else f" ({row.absent})"
    return f"{row.form}, {size}{ratio}"


def compare(python: str, work: list[tuple[Measured, int]], rounds: int) -> str:
    """Time all forms in this installation and in the other one. Return the page."""
    rows: list[Ratio] = []
    progress = report.Progress(len(work))
    with _worker(sys.executable) as this, _worker(python) as other:
        headers = [report.cpu_name()]
        for name, ask in (("this", this), ("other", other)):
            headers.append(f"{name}: pyquant {ask({})['pyquant']}")
        try:
            for one, size in work:
                progress.tick(f"{one.name} {size}")
                rows.append(_compare(this, other, one.name, size, rounds))
        except KeyboardInterrupt:
            headers.append("interrupted: the table is not complete")
    progress.close()
    return page(rows, headers)
