# SPDX-License-Identifier: Apache-2.0
"""A lazily made pool for `threads=`: none until asked for, a new one after a fork."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import ThreadPoolExecutor

__all__ = ["MIN_PART_BYTES", "cpu_count", "executor", "run"]

# Bytes read and written by one part below which handing it over costs more than it saves.
MIN_PART_BYTES = 8 << 20

_lock = threading.RLock()
_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def cpu_count() -> int:
    """How many CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def executor(n: int) -> ThreadPoolExecutor:
    """The pool, with at least `n` threads."""
    global _pool, _pool_size
    with _lock:
        # Not at the top: it would be a large part of the time that importing pyquant takes.
        # Under the lock: a child forked in the midst of it could never import it.
        from concurrent.futures import ThreadPoolExecutor

        if _pool is None or _pool_size < n:
            # A smaller pool ends by itself once nobody waits on it.
            _pool = ThreadPoolExecutor(n, thread_name_prefix="pyquant")
            _pool_size = n
        return _pool


def run(work: Callable[[int], int], parts: int) -> int:
    """Do all parts, the first one here; the highest status of any."""
    futures = []
    left = range(0)
    try:
        pool = executor(parts - 1)
        for part in range(1, parts):
            futures.append(pool.submit(work, part))
    except RuntimeError:
        # No more threads, or the interpreter is shutting down: do the rest here too.
        left = range(1 + len(futures), parts)
    statuses = [work(0), *map(work, left)]
    return max(*statuses, *(future.result() for future in futures), 0)


def _before_fork() -> None:
    """Let nobody be in the midst of making the pool."""
    _lock.acquire()


def _after_fork() -> None:
    _lock.release()


def _forget() -> None:
    """In a forked child the pool's threads do not exist, and the lock is held."""
    global _lock, _pool, _pool_size
    _lock = threading.RLock()
    _pool = None
    _pool_size = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_forget
    )
