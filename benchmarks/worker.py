# SPDX-License-Identifier: Apache-2.0
"""
Time the forms of one installation. `benchmarks.against` starts two of these programs.

Requests are lines of JSON on standard input. Replies are lines of JSON on standard output.
The file `benchmarks.table` is not imported, because parts of it may need a newer pyquant.
"""

from __future__ import annotations

import gc
import json
import signal
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pyquant as pq
from benchmarks import arrays, forms, measure, tasks

Json = dict[str, Any]


def _task(name: str) -> tasks.Task:
    """Find a task. Skip the files that import a module that the installed pyquant lacks."""
    for file in tasks.FILES:
        try:
            return {task.name: task for task in tasks.read(file)}[name]
        except (ImportError, AttributeError, KeyError):
            continue
    raise LookupError(name)


def _call(name: str, size: int) -> tuple[Callable[[], Any], Callable[[Any], Any], int]:
    """Return a call, the function that reads its result, and its number of threads."""
    form = forms.FORMS.get(name)
    if form is None:
        made = _task(name).build(size)
        return made.call, made.read, 1
    case = arrays.build(form, size)
    return arrays.pyquant_call(case, pq.isa.active()), arrays.as_array, form.threads


class _Worker:
    """Store the call that the last request prepared."""

    call: Callable[[], Any] = int

    def reply(self, request: Json) -> Json:
        """Prepare a form, or time the prepared form, or describe pyquant."""
        if "times" in request:
            self.call()  # load the arrays into the caches again
            return {"seconds": measure.timed(self.call, request["times"])}
        if "form" not in request:
            return {"pyquant": f"{pq.__version__} in {Path(pq.__file__).parent}"}
        self.call = int  # release the arrays of the last call
        gc.collect()
        try:
            self.call, read, threads = _call(request["form"], request["size"])
            measure.pin(measure.all_cores() if threads > 1 else measure.one_core())
            checksum = zlib.crc32(np.asarray(read(self.call())).tobytes())
        except Exception as error:  # an older pyquant may fail in any way
            return {"absent": f"{type(error).__name__}: {error}"}
        times = measure.repeats(self.call, request["seconds"])
        return {"times": times, "checksum": checksum}


def serve() -> None:
    """Answer requests until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    worker = _Worker()
    gc.disable()
    with np.errstate(all="ignore"):
        for line in sys.stdin:
            print(json.dumps(worker.reply(json.loads(line))), flush=True)
