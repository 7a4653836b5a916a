# SPDX-License-Identifier: Apache-2.0
"""Measure forms and tasks, and return rows of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import pyquant as pq
from benchmarks import arrays, measure, rivals
from benchmarks.forms import Form
from benchmarks.rivals import Rival
from benchmarks.table import Measured
from benchmarks.tasks import Made, Task

# The name of the candidate that makes two calls of pyquant, with the result of one call.
TWO_CALLS = "2-calls"
# Texts of failures and remarks, and the names of the forms that each text is about.
Notes = dict[str, list[str]]


class Row(NamedTuple):
    """
    The figures of a form at one size.

    The keys of all mappings are names of candidates: first instruction sets of pyquant,
    then rivals.
    """

    form: str
    group: str
    elements: int
    bytes: int
    roofline_seconds: float  # time of a copy that reads and writes as many bytes
    seconds: dict[str, float]
    spread: dict[str, float]
    marks: dict[str, str]
    differs: dict[str, float]

    @property
    def best(self) -> str:
        """The best instruction set of pyquant."""
        return next(iter(self.seconds))

    @property
    def time(self) -> float:
        """The time of a call with the best instruction set, in seconds."""
        return self.seconds[self.best]

    @property
    def share(self) -> float:
        """The speed of the best instruction set as a share of the speed of a copy."""
        return self.roofline_seconds / self.time

    def fastest(self, mark: str) -> tuple[str, float] | None:
        """Return the fastest rival with a mark, and its time divided by pyquant's."""
        times = {n: self.seconds[n] for n, found in self.marks.items() if found == mark}
        times.pop(rivals.ONE_THREAD.name, None)
        if not times:
            return None
        name = min(times, key=times.__getitem__)
        return name, times[name] / self.time

    def record(self) -> dict[str, Any]:
        """Return the row for JSON: all fields, and figures computed from them."""
        found = {title: self.fastest(mark) for mark, title in rivals.MARKS.items()}
        return self._asdict() | {
            "elements_per_second": {n: self.elements / t for n, t in self.seconds.items()},
            "gb_per_second": self.bytes / self.time / 1e9,
            "share_of_roofline": self.share,
            "fastest_rival": {
                title: best and {"name": best[0], "ratio": best[1]}
                for title, best in found.items()
            },
        }


class Options(NamedTuple):
    """Options of a run."""

    rivals: list[Rival]
    rounds: int
    all_levels: bool = True
    mixed: bool = False  # run other work before each call


def _one_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:100]}"


def _note(notes: Notes, rival: Rival, error: Exception, name: str) -> None:
    """Add the failure of a rival to the notes. Failures of equal text share a note."""
    if isinstance(error, ImportError):
        notes.setdefault(f"{rival.name}: not installed ({error})", [])
    else:
        notes.setdefault(f"{rival.name}: {_one_line(error)}", []).append(name)


def _candidates(
    case: arrays.Case, options: Options, notes: Notes
) -> tuple[measure.Calls, dict[str, rivals.Verdict]]:
    """Return the calls of pyquant and rivals, and a verdict on the bits of each rival."""
    levels = arrays.levels(case.form)[: None if options.all_levels else 1]
    calls: measure.Calls = {isa: arrays.pyquant_call(case, isa) for isa in levels}
    verdicts = {}
    for rival in (rivals.ONE_THREAD, *options.rivals):
        try:
            verdict = rivals.judge(rival, case.form)
            made = rivals.build(rival, case) if verdict else None
        except Exception as error:  # a rival may fail
            _note(notes, rival, error, case.form.name)
            continue
        if made and verdict:
            calls[rival.name], verdicts[rival.name] = made.call, verdict
    return calls, verdicts


def measure_form(form: Form, size: int, options: Options, notes: Notes) -> Row:
    """Measure one form at one size."""
    case = arrays.build(form, size)
    cores = measure.all_cores() if form.threads > 1 else measure.one_core()
    with measure.on(cores), np.errstate(all="ignore"):
        calls, verdicts = _candidates(case, options, notes)
        return _row(form, case, calls, verdicts, options)


def _task_candidates(
    task: Task, made: Made, options: Options, notes: Notes
) -> tuple[measure.Calls, dict[str, rivals.Verdict]]:
    """Return the calls of pyquant and rivals, and a verdict on the bits of each rival."""
    calls: measure.Calls = {pq.isa.active(): made.call}
    if made.two_calls:
        calls[TWO_CALLS] = made.two_calls
    expected = made.read(made.call()).copy()
    verdicts = {}
    for rival in options.rivals:
        if rival.name in made.rivals:
            try:
                found = rivals.quietly(made.rivals[rival.name])
                verdicts[rival.name] = rivals.verdict(found, expected)
            except Exception as error:  # a rival may fail
                _note(notes, rival, error, task.name)
                continue
            calls[rival.name] = found.call
    return calls, verdicts


def measure_task(task: Task, size: int, options: Options, notes: Notes) -> Row:
    """Measure one task at one size."""
    made = task.build(size)
    with measure.on(measure.one_core()), np.errstate(all="ignore"):
        calls, verdicts = _task_candidates(task, made, options, notes)
        return _row(task, made, calls, verdicts, options)


def _row(
    one: Measured,
    made: arrays.Case | Made,
    calls: measure.Calls,
    verdicts: dict[str, rivals.Verdict],
    options: Options,
) -> Row:
    """Time the calls and a copy of as many bytes, in turns."""
    calls["copy"] = measure.copy_call(made.nbytes)
    timings = measure.interleaved(
        calls, options.rounds, measure.ROUND_SECONDS, options.mixed
    )
    roofline = timings.pop("copy")
    return Row(
        one.name,
        one.groups[0],
        made.elements,
        made.nbytes,
        roofline.median,
        {name: timing.median for name, timing in timings.items()},
        {name: timing.spread for name, timing in timings.items()},
        {name: verdict.mark for name, verdict in verdicts.items()},
        {name: verdict.differs for name, verdict in verdicts.items()},
    )


def measure_all(
    work: list[tuple[Measured, int]],
    options: Options,
    notes: Notes,
    tick: Callable[[str], None],
) -> Iterator[Row]:
    """Yield the row of each form. Add a note if a form needs a missing package."""
    for one, size in work:
        tick(f"{one.name} {size}")
        try:
            if isinstance(one, Task):
                yield measure_task(one, size, options, notes)
            else:
                yield measure_form(one, size, options, notes)
        except ImportError as error:
            notes.setdefault(f"left out ({error})", []).append(one.name)
