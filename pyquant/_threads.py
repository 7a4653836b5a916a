# SPDX-License-Identifier: Apache-2.0
"""Threads for the argument `threads=`, started on first use and again after a fork.

This module does not use concurrent.futures. The import of concurrent.futures takes longer
than the import of pyquant. An import on first use could fail for ever in a child process,
if the parent forks while another thread imports the package.
"""

from __future__ import annotations

import _thread
import os
import sys
from _queue import SimpleQueue  # importing queue takes a millisecond
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MIN_PART_BYTES", "Part", "cpu_count", "run", "useful_parts"]

# Least number of bytes of a part. For a smaller part, the start of a thread costs more time
# than the thread saves.
MIN_PART_BYTES = 8 << 20

_lock = _thread.allocate_lock()
_parts: SimpleQueue[Part] = SimpleQueue()
_workers = 0


def cpu_count() -> int:
    """Return the number of CPUs that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def useful_parts(size: int, threads: int) -> int:
    """Return the number of parts for a call that reads and writes `size` bytes, at most
    `threads`."""
    worth = size // max(1, MIN_PART_BYTES)
    return min(threads, cpu_count(), worth) if worth > 1 else 1


class Part:
    """A part of the work, in the queue for the next free worker thread."""

    def __init__(self, work: Callable[[int], int], part: int) -> None:
        self._work, self._part = work, part
        self._status = 0
        self._error: BaseException | None = None
        self._doing = _thread.allocate_lock()
        self._doing.acquire()
        _parts.put(self)

    def do(self) -> None:
        """Run the part and store its status or error for `result`."""
        try:
            self._status = self._work(self._part)
        except BaseException as error:
            self._error = error
        finally:
            self._doing.release()

    def result(self) -> int:
        """Wait for the part, and return its status or raise its error."""
        with self._doing:
            pass
        if self._error is not None:
            raise self._error
        return self._status


def _serve(parts: SimpleQueue[Part]) -> None:
    while True:
        parts.get().do()


def _hire(n: int) -> int:
    """Start workers until there are `n` workers, if possible. Return the number of workers,
    at most `n`."""
    global _workers
    if sys.is_finalizing():
        return 0  # workers have stopped
    with _lock:
        try:
            while _workers < n:
                _thread.start_new_thread(_serve, (_parts,))
                _workers += 1
        except RuntimeError:
            pass  # no more threads, or Python is shutting down
        return min(n, _workers)


def run(work: Callable[[int], int], parts: int) -> int:
    """Run all parts, some on this thread, and return the highest status. Raise the first
    error after all parts have run."""
    if parts == 1:
        return work(0)
    hired = _hire(parts - 1)
    given = [Part(work, part) for part in range(1, 1 + hired)]
    results: list[Callable[[], int]] = [
        *(partial(work, part) for part in (0, *range(1 + hired, parts))),
        *(part.result for part in given),
    ]
    statuses = [0]
    errors: list[BaseException] = []
    for result in results:
        try:
            statuses.append(result())
        except BaseException as error:
            errors.append(error)
    if errors:
        raise errors[0]
    return max(statuses)


def _forget() -> None:
    """Reset this module in a forked child. The child has no worker threads, and locks may
    be held."""
    global _lock, _parts, _workers
    _lock = _thread.allocate_lock()
    _parts = SimpleQueue()
    _workers = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
