# SPDX-License-Identifier: Apache-2.0
"""The workers of `threads=`: none until asked for, new ones after a fork.

concurrent.futures would do, but for its import: a child that is forked while another thread
is importing can never do it itself, and to import it beforehand takes longer than all else.
"""

from __future__ import annotations

import _thread
import os
import sys
from _queue import SimpleQueue  # that of queue, which takes a millisecond to import
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["MIN_PART_BYTES", "Part", "cpu_count", "run"]

# Bytes read and written by one part below which handing it over costs more than it saves.
MIN_PART_BYTES = 8 << 20

_lock = _thread.allocate_lock()
_parts: SimpleQueue[Part] = SimpleQueue()
_workers = 0


def cpu_count() -> int:
    """How many CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Part:
    """A part of the work, for the next worker that is free."""

    def __init__(self, work: Callable[[int], int], part: int) -> None:
        self._work, self._part = work, part
        self._status: int | None = None
        self._doing = _thread.allocate_lock()
        self._doing.acquire()
        _parts.put(self)

    def do(self) -> None:
        """Do it, whatever comes: nobody but `result` waits for it."""
        try:
            self._status = self._work(self._part)
        except BaseException:
            self._status = None
        finally:
            self._doing.release()

    def result(self) -> int:
        """The status, once it is done."""
        with self._doing:
            pass
        if self._status is None:
            raise SystemError("pyquant: a part of the work has not been done")
        return self._status


def _serve(parts: SimpleQueue[Part]) -> None:
    while True:
        parts.get().do()


def _hire(n: int) -> int:
    """How many workers there are, of `n` that are wanted."""
    global _workers
    if sys.is_finalizing():
        return 0  # they do not run any more
    with _lock:
        try:
            while _workers < n:
                _thread.start_new_thread(_serve, (_parts,))
                _workers += 1
        except RuntimeError:
            pass  # no more threads, or the interpreter is shutting down
        return min(n, _workers)


def run(work: Callable[[int], int], parts: int) -> int:
    """Do all parts, those here that workers do not; the highest status of any."""
    hired = _hire(parts - 1)
    given = [Part(work, part) for part in range(1, 1 + hired)]
    here = [work(part) for part in (0, *range(1 + hired, parts))]
    return max(*here, *(part.result() for part in given), 0)


def _forget() -> None:
    """In a forked child the workers do not exist, and locks may be held."""
    global _lock, _parts, _workers
    _lock = _thread.allocate_lock()
    _parts = SimpleQueue()
    _workers = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
