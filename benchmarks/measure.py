# SPDX-License-Identifier: Apache-2.0
"""Time calls that take turns, and what this machine's memory can do."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

ROUND_SECONDS = 0.02
# What else a mixed program does between two calls: time enough for wide registers to rest.
PAUSE_SECONDS = 1e-4
# A candidate that has used this much time takes no further turns, but has had MIN_ROUNDS.
CANDIDATE_SECONDS = 2.0
MIN_ROUNDS = 3
FOOTPRINTS = (32 << 10, 512 << 10, 8 << 20, 128 << 20)

Calls = dict[str, Callable[[], Any]]


class Timing(NamedTuple):
    """Median seconds of a call, and how far the middle half of the rounds lies apart."""

    median: float
    spread: float  # interquartile range over median


def _timed(call: Callable[[], Any], times: int) -> float:
    """Seconds of a call, one after the other."""
    start = time.perf_counter()
    for _ in repeat(None, times):
        call()
    return (time.perf_counter() - start) / times


def _timed_apart(call: Callable[[], Any], times: int) -> float:
    """Seconds of a call that follows other work, as in a program that does more."""
    taken = 0.0
    for _ in repeat(None, times):
        end = time.perf_counter() + PAUSE_SECONDS
        while (start := time.perf_counter()) < end:
            pass
        call()
        taken += time.perf_counter() - start
    return taken / times


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector out of the timings."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def interleaved(
    calls: Calls, rounds: int, round_seconds: float, mixed: bool = False
) -> dict[str, Timing]:
    """
    Time all calls, one after the other in each round.

    So a slow moment of the machine meets all of them, and the median drops it. Each round
    begins with another, as what ran before leaves its memory in the caches. `mixed` lets
    each call follow a pause of other work.
    """
    timed, pause = (_timed_apart, PAUSE_SECONDS) if mixed else (_timed, 0.0)
    with _no_collection():
        repeats = {}
        for name, call in calls.items():
            call()
            once = max(_timed(call, 1), 1e-7)
            # A few more for what is short: one call alone says little.
            once = max(_timed(call, 100), 1e-8) if once < 1e-4 else once
            repeats[name] = max(1, round(round_seconds / (once + pause)))
        taken: dict[str, list[float]] = {name: [] for name in calls}
        names = list(calls)
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                used = sum(taken[name]) * repeats[name]
                if turn < MIN_ROUNDS or used < CANDIDATE_SECONDS:
                    taken[name].append(timed(calls[name], repeats[name]))
    return {name: summary(times) for name, times in taken.items()}


def summary(times: list[float]) -> Timing:
    """Median and spread of the rounds."""
    low, median, high = np.percentile(times, [25, 50, 75]).tolist()
    return Timing(median, (high - low) / median)


def copy_call(nbytes: int) -> Callable[[], Any]:
    """
    A plain copy that reads and writes `nbytes` together: the roofline.

    NumPy copies contiguous bytes with the C library's memcpy.
    """
    half = max(1, nbytes // 2)
    a, b = np.ones(half, np.uint8), np.ones(half, np.uint8)
    return lambda: np.copyto(b, a)


def _bandwidth_calls(nbytes: int) -> Calls:
    """
    What reads, writes and copies this many bytes fastest.

    Reads: a search for a byte that is not there (memchr), and a maximum of bytes, both
    with a vector instruction or two for each load; which is faster differs between caches
    and memory. A sum, or a comparison of two arrays, would be bound by something else.
    """
    text = bytearray(b"\1") * nbytes
    numbers = np.ones(nbytes, np.uint8)
    return {
        "read (search)": lambda: text.find(b"\2"),
        "read (maximum)": numbers.max,
        "write": lambda: numbers.fill(1),
        "copy": copy_call(nbytes),
    }


def bandwidths(
    footprints: tuple[int, ...], tick: Callable[[str], None], rounds: int
) -> list[dict[str, float]]:
    """GB/s of reading, writing and copying (reads and writes counted), by footprint."""
    rows = []
    for nbytes in footprints:
        tick(f"bandwidth at {nbytes >> 10} KiB")
        timings = interleaved(_bandwidth_calls(nbytes), rounds, ROUND_SECONDS / 2)
        rate = {name: nbytes / t.median / 1e9 for name, t in timings.items()}
        read = max(rate["read (search)"], rate["read (maximum)"])
        row = {"bytes": nbytes, "read": read, "write": rate["write"], "copy": rate["copy"]}
        rows.append(row)
    return rows


# ---- cores ----


def all_cores() -> set[int]:
    """The cores that this process was given; none where the system does not tell."""
    return set(_GIVEN)


def one_core() -> set[int]:
    """The last of them: the first ones serve interrupts more often."""
    return set(sorted(_GIVEN)[-1:])


def pin(cores: set[int]) -> None:
    """Stay on these cores, where the system can be asked."""
    if cores:
        os.sched_setaffinity(0, cores)


@contextmanager
def on(cores: set[int]) -> Iterator[None]:
    """Use these cores, and one core afterwards."""
    pin(cores)
    try:
        yield
    finally:
        pin(one_core())


_GIVEN = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
