# SPDX-License-Identifier: Apache-2.0
"""What a rival is, and how its results are judged; knows none of them."""

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
# What the marks are called where ratios to the fastest rival of a mark are shown.
MARKS = {SAME: "same bits", OTHER_BITS: "other bits", CAST: "cast"}
LEGEND = {
    OTHER_BITS: "gives other bits than the standards: a reciprocal instead of the "
    "division, a type in between, scales of its own choice, another order of sums, or "
    "other statistics",
    CAST: "a cast alone, without scale or zero point",
}


class Candidate(NamedTuple):
    """A call to time, how its result reads as an array, and what is known of its bits."""

    call: Callable[[], Any]
    read: Callable[[Any], Array] = np.asarray
    mark: str = SAME


Builder: TypeAlias = Callable[[Case], Candidate | None]


def no_form(case: Case) -> None:
    """Build nothing: of a rival that has tasks alone."""


class Rival(NamedTuple):
    """Name in tables, name to install, the builder of its candidate."""

    name: str
    package: str
    build: Builder


def version(package: str) -> str | None:
    """The version of an installed package, None without it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def differing(got: Array, expected: Array) -> float | None:
    """The fraction of elements whose bits differ; None if they cannot be compared."""
    a, b = np.ascontiguousarray(got), np.ascontiguousarray(expected)
    if a.nbytes != b.nbytes or b.size == 0:
        return None
    width = b.dtype.itemsize
    bits = [array.reshape(-1).view(np.uint8).reshape(-1, width) for array in (a, b)]
    return float((bits[0] != bits[1]).any(axis=1).mean())


class Verdict(NamedTuple):
    """What a rival's result for a form is, beside pyquant's."""

    mark: str
    differs: float  # fraction of the elements of `arrays.fill_hard`


@cache
def judge(rival: Rival, form: Form) -> Verdict | None:
    """
    Compare results, on enough numbers that are hard to round, whatever size is measured.

    None if the rival has no such form. What it raises is passed on.
    """
    case = arrays.build(form, arrays.HARD_COUNT)
    arrays.fill_hard(case)
    expected = arrays.as_array(arrays.pyquant_call(case, arrays.levels(form)[0])()).copy()
    made = build(rival, case)
    if made is None:
        return None
    return verdict(made, expected)


def verdict(made: Candidate, expected: Array) -> Verdict:
    """What its result is beside the one expected."""
    differs = differing(made.read(made.call()), expected)
    other = made.mark == SAME and differs != 0
    return Verdict(OTHER_BITS if other else made.mark, 1.0 if differs is None else differs)


Made = TypeVar("Made", Candidate, Candidate | None)


def quietly(make: Callable[[], Made]) -> Made:
    """A candidate, which has run once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of the rivals are their own affair
        made = make()
        if made is not None:
            made.call()
        return made


def build(rival: Rival, case: Case) -> Candidate | None:
    """A rival's candidate for a form."""
    return quietly(partial(rival.build, case))
