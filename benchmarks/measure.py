# SPDX-License-Identifier: Apache-2.0
"""Time calls that take turns, and measure the bandwidth of memory."""

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
# The pause before a call. CPUs power down wide registers in this time.
PAUSE_SECONDS = 1e-4
# After MIN_ROUNDS rounds, a candidate that has used this much time gets no further turns.
CANDIDATE_SECONDS = 2.0
MIN_ROUNDS = 3
FOOTPRINTS = (32 << 10, 512 << 10, 8 << 20, 128 << 20)

Calls = dict[str, Callable[[], Any]]


class Timing(NamedTuple):
    """The median of a figure over all rounds, and the relative spread of the figure."""

    median: float
    spread: float  # interquartile range of the times divided by the median


def timed(call: Callable[[], Any], times: int) -> float:
    """Return the seconds of one call, measured over many calls without a pause."""
    start = time.perf_counter()
    for _ in repeat(None, times):
        call()
    return (time.perf_counter() - start) / times


def _timed_apart(call: Callable[[], Any], times: int) -> float:
    """Return the seconds of one call, measured over calls that follow other work."""
    taken = 0.0
    for _ in repeat(None, times):
        end = time.perf_counter() + PAUSE_SECONDS
        while (start := time.perf_counter()) < end:
            pass
        call()
        taken += time.perf_counter() - start
    return taken / times


def repeats(call: Callable[[], Any], seconds: float, pause: float = 0.0) -> int:
    """Return how many calls, each after a pause, fill a round of so many seconds."""
    call()
    once = max(timed(call, 1), 1e-7)
    if once < 1e-4:  # the clock is too coarse for one short call
        once = max(timed(call, 100), 1e-8)
    return max(1, round(seconds / (once + pause)))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Stop the garbage collector, so that it does not disturb the timings."""
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

    A slow moment of the machine then affects all calls of a round, and the median removes
    its effect. Rounds begin with different calls, because a call leaves its memory in the
    caches. With `mixed`, other work precedes each call.
    """
    time_calls, pause = (_timed_apart, PAUSE_SECONDS) if mixed else (timed, 0.0)
    with _no_collection():
        times = {}
        for name, call in calls.items():
            times[name] = repeats(call, round_seconds, pause)
        taken: dict[str, list[float]] = {name: [] for name in calls}
        names = list(calls)
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                used = sum(taken[name]) * times[name]
                if turn < MIN_ROUNDS or used < CANDIDATE_SECONDS:
                    taken[name].append(time_calls(calls[name], times[name]))
    return {name: summary(seconds) for name, seconds in taken.items()}


def summary(times: list[float]) -> Timing:
    """Return the median and the spread of the rounds."""
    low, median, high = np.percentile(times, [25, 50, 75]).tolist()
    return Timing(median, (high - low) / median)


def copy_call(nbytes: int) -> Callable[[], Any]:
    """
    Return a plain copy. The sum of the bytes that it reads and writes is `nbytes`.

    NumPy copies contiguous bytes with memcpy of the C library.
    """
    half = max(1, nbytes // 2)
    a, b = np.ones(half, np.uint8), np.ones(half, np.uint8)
    return lambda: np.copyto(b, a)


def _bandwidth_calls(nbytes: int) -> Calls:
    """
    Return the fastest calls that read, write and copy this many bytes.

    Two calls read: the search for an absent byte (memchr), and the maximum of bytes. They
    need one or two vector instructions for each load, so memory limits them. The caller
    uses the faster one.
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
    """Return GB/s of reading, writing and copying for each footprint."""
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
    """Return the cores of this process, if the system reports them."""
    return set(_GIVEN)


def one_core() -> set[int]:
    """Return the last core. The first cores serve interrupts more often."""
    return set(sorted(_GIVEN)[-1:])


def pin(cores: set[int]) -> None:
    """Restrict this process to these cores. Accept an empty set."""
    if cores:
        os.sched_setaffinity(0, cores)


@contextmanager
def on(cores: set[int]) -> Iterator[None]:
    """Use these cores inside the `with` block, and one core after the block."""
    pin(cores)
    try:
        yield
    finally:
        pin(one_core())


_GIVEN = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
