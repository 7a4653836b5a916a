# SPDX-License-Identifier: Apache-2.0
"""The type of a rival, and the comparison of its results with the results of pyquant."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import metadata
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np

from benchmarks import arrays
from benchmarks.arrays import Array, Case
from benchmarks.forms import Form

SAME, OTHER_BITS, CAST = "", "~", "c"
# The marks of rivals. Each mark has a column of the table with this title, for the fastest
# rival with the mark.
MARKS = {SAME: "same bits", OTHER_BITS: "other bits", CAST: "cast"}
LEGEND = {
    OTHER_BITS: "other bits than the standard: a reciprocal instead of the division, an "
    "intermediate type, other scales, another order of sums, or other statistics",
    CAST: "a cast without scale or zero point",
}


class Candidate(NamedTuple):
    """A call to time, a function that reads the result, and a mark that rates its bits."""

    call: Callable[[], Any]
    read: Callable[[Any], Array] = np.asarray
    mark: str = SAME


Builder: TypeAlias = Callable[[Case], Candidate | None]


def no_form(case: Case) -> None:
    """Build nothing, for a rival that has tasks but no forms."""


class Rival(NamedTuple):
    """A package to compare: its name in tables, its distribution, and its builder."""

    name: str
    package: str
    build: Builder


def version(package: str) -> str | None:
    """Return the version of a package, if it is installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def differing(got: Array, expected: Array) -> float | None:
    """Return the fraction of elements with other bits, or `None` if sizes differ."""
    a, b = np.ascontiguousarray(got), np.ascontiguousarray(expected)
    if a.nbytes != b.nbytes or b.size == 0:
        return None
    width = b.dtype.itemsize
    bits = [array.reshape(-1).view(np.uint8).reshape(-1, width) for array in (a, b)]
    return float((bits[0] != bits[1]).any(axis=1).mean())


class Verdict(NamedTuple):
    """The comparison of a result of a rival with the result of pyquant."""

    mark: str
    differs: float  # fraction of elements with other bits, for the data of `fill_hard`


@cache
def judge(rival: Rival, form: Form) -> Verdict | None:
    """
    Compare results on a fixed number of values that are hard to round.

    Return `None` if the rival lacks the form. Exceptions of the rival are not caught.
    """
    case = arrays.build(form, arrays.HARD_COUNT)
    arrays.fill_hard(case)
    expected = arrays.as_array(arrays.pyquant_call(case, arrays.levels(form)[0])()).copy()
    made = build(rival, case)
    if made is None:
        return None
    return verdict(made, expected)


def verdict(made: Candidate, expected: Array) -> Verdict:
    """Compare the result of a candidate with the expected result."""
    differs = differing(made.read(made.call()), expected)
    other = made.mark == SAME and differs != 0
    return Verdict(OTHER_BITS if other else made.mark, 1.0 if differs is None else differs)


Made = TypeVar("Made", Candidate, Candidate | None)


def quietly(make: Callable[[], Made]) -> Made:
    """Build a candidate without warnings, and run it once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = make()
        if made is not None:
            made.call()
        return made


def build(rival: Rival, case: Case) -> Candidate | None:
    """Return the candidate of a rival for a form."""
    return quietly(partial(rival.build, case))
