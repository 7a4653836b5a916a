"""Tests of `threads`: equal results for any number, worker threads, and interrupts."""

import os
import sys
import threading
from functools import partial

import numpy as np
import pytest
from support import (
    FORMS,
    LAYOUTS,
    REALS,
    adversarial,
    amount,
    loop,
    run_python,
    same,
    split_small_arrays,
)

import pyquant as pq
from pyquant import _threads


@pytest.fixture
def started(monkeypatch):
    """Split even small arrays. Return a list that collects the parts given to workers."""
    parts = []

    class Spy(_threads.Part):
        def __init__(self, work, part):
            parts.append(part)
            super().__init__(work, part)

    monkeypatch.setattr(_threads, "Part", Spy)
    with split_small_arrays(monkeypatch):
        yield parts


@loop("form", FORMS, draws=28)
def test_parameters_do_not_depend_on_the_number_of_threads(form, started):
    shape, axis, block = form
    started.clear()
    for i, source in enumerate(REALS):
        x = np.clip(adversarial(source, 0.3, int(np.prod(shape)), seed=i), -30000, 30000)
        x = np.nan_to_num(x).astype(source).reshape(shape)
        views = [change(x) for change in LAYOUTS.values()]
        for view in [*views, np.broadcast_to(x[:1], shape) if x.ndim else x]:
            for code in ("int8", "uint8", "int32"):
                kwargs = {"dtype": code, "axis": axis, "block_size": block}
                one = pq.choose_qparams(view, **kwargs)
                assert one == pq.choose_qparams(view.copy(), **kwargs)
                for n in (2, 3, 4, 5):
                    assert pq.choose_qparams(view, **kwargs, threads=n) == one
    assert bool(started) == (0 not in shape and shape != ())


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_any_number_of_threads_counts_numbers_that_are_not_finite(axis, started):
    x = np.ones((90, 110), np.float32)
    x[(7, 80), (100, 3)] = np.nan, np.inf
    for n in range(1, 6):
        with pytest.raises(ValueError, match=r"got 2 not finite, .* at index \(7, 100\)$"):
            pq.choose_qparams(x, axis=axis, threads=n)
    assert started


def test_one_thread_starts_no_other(started):
    pq.choose_qparams(np.ones(1000, np.float32), threads=1)
    pq.quantize(np.ones(1000, np.float32), 1.0)
    pq.quantize(np.ones(1000, np.float32), 1.0, threads=1)
    assert not started


@pytest.mark.parametrize(("least", "cpus"), [(_threads.MIN_PART_BYTES, 8), (1, 1)])
def test_arrays_that_are_not_split(least, cpus, monkeypatch):
    """Do not split an array if it is small or if there is only one processor."""
    monkeypatch.setattr(_threads, "MIN_PART_BYTES", least)
    monkeypatch.setattr(_threads, "cpu_count", lambda: cpus)

    def refuse(work, part):
        raise AssertionError("the array was split")

    monkeypatch.setattr(_threads, "Part", refuse)
    pq.quantize(np.ones(1000, np.float32), 1.0, threads=8)


def test_the_number_of_processors():
    count = _threads.cpu_count()
    assert count >= 1
    if hasattr(os, "sched_getaffinity"):
        assert count <= len(os.sched_getaffinity(0))


def test_any_integer_is_a_number_of_threads(started):
    x = np.ones(100, np.float32)
    for n in (1, 2, np.int64(2), np.uint8(3), 1000, 2**40):
        same(pq.quantize(x, 1.0, threads=n), np.ones(100, np.int8))


@pytest.fixture
def fresh():
    """Stop all worker threads before and after the test."""
    _threads._forget()
    yield
    _threads._forget()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_caller_computes_parts_if_no_thread_starts(count, monkeypatch, started):
    x = adversarial("float32", 0.3, 5000)
    expected = pq.quantize(x, 0.3)
    start, left = _threads._thread.start_new_thread, count

    def few(*args):
        nonlocal left
        left -= 1
        if left < 0:
            raise RuntimeError("can't start new thread")
        return start(*args)

    monkeypatch.setattr(_threads._thread, "start_new_thread", few)
    for _ in range(2):
        same(pq.quantize(x, 0.3, threads=7), expected)
    assert len(started) == 2 * count


@pytest.mark.usefixtures("fresh")
def test_threads_of_earlier_calls_are_used_again(monkeypatch, started):
    hired = []
    start = _threads._thread.start_new_thread
    monkeypatch.setattr(
        _threads._thread, "start_new_thread", lambda *args: hired.append(start(*args))
    )
    x = np.ones(5000, np.float32)
    for n, most in ((3, 2), (2, 2), (3, 2), (5, 4), (4, 4)):
        pq.quantize(x, 0.3, threads=n)
        assert len(hired) == most
    assert len(started) == 2 + 1 + 2 + 4 + 3


def test_a_part_that_fails_is_no_result():
    for _ in range(3):  # repeat, to use the worker again
        with pytest.raises(ZeroDivisionError):
            _threads.run(lambda part: 1 // (part - 1), 2)
    assert _threads.run(lambda part: part, 2) == 1


def test_all_parts_end_before_an_error_is_raised():
    ended = []

    def work(part):
        if part == 0:
            raise ZeroDivisionError
        ended.append(sum(range(10**6)))  # takes longer than the error of part 0
        return 1 // (part - 1)  # part 1 fails, too

    with pytest.raises(ZeroDivisionError):
        _threads.run(work, 3)
    assert len(ended) == 2


FINALIZING = """
import os, sys
import numpy as np, pyquant as pq
from pyquant import _threads
_threads.MIN_PART_BYTES = 1
_threads.cpu_count = (4).__int__  # a function of this module would keep the module alive
x = np.ones(50_000, np.float32)

class Late:
    def __del__(self, call=pq.quantize, x=x, late=sys.is_finalizing, write=os.write):
        codes = call(x, 0.5, threads=4).tobytes()  # other methods of arrays import modules
        write(1, b"%d %d" % (late(), codes == b"\\2" * 50_000))

one = Late()
pq.quantize(x, 0.5, threads=4)  # starts workers, which end before `one`
"""


def test_a_call_at_the_end_of_the_interpreter_waits_for_no_worker():
    run = run_python(FINALIZING)
    assert (run.returncode, run.stdout, run.stderr) == (0, "1 1", "")


class Interrupted:
    """Parts that do not run. Waiting for a part raises KeyboardInterrupt."""

    def __init__(self):
        self.queue = []

    def start(self, work, part):
        self.queue.append((work, part))
        return self

    def result(self):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["quantize", "dequantize", "requantize", "fake", "minmax",
                                  "mse", "observe", "observe_axis"])  # fmt: skip
def test_no_part_outlives_an_interrupted_call(monkeypatch, name):
    """A part that starts after an interrupted call does not use the memory of the call."""
    parts = Interrupted()
    x = adversarial("float32", 0.3, 5000)
    q, codes, numbers = pq.quantize(x, 0.3), np.zeros(5000, np.int8), np.zeros_like(x)
    call = {
        "quantize": lambda: pq.quantize(x, 0.3, threads=3, out=codes),
        "dequantize": lambda: pq.dequantize(q, 0.3, threads=3, out=numbers),
        "requantize": lambda: pq.requantize(q, 0.3, threads=3, out=codes),
        "fake": lambda: pq.fake_quantize(x, 0.3, threads=3, out=numbers),
        "minmax": lambda: pq.choose_qparams(x, threads=3),
        "mse": lambda: pq.choose_qparams(x, method="mse", threads=3),
        "observe": lambda: pq.Observer().update(x, threads=3),
        "observe_axis": lambda: pq.Observer(axis=1).update(x.reshape(50, 100), threads=3),
    }[name]
    with split_small_arrays(monkeypatch):
        monkeypatch.setattr(_threads, "Part", parts.start)
        with pytest.raises(KeyboardInterrupt):
            call()
    assert len(parts.queue) == 2
    codes[:] = numbers[:] = 0
    assert [work(part) for work, part in parts.queue] == [0, 0]
    assert not codes.any()
    assert not numbers.any()


def test_an_interrupt_waits_for_running_parts(monkeypatch):
    """After Ctrl-C, the call first waits for the parts that are already running."""
    running = threading.Event()

    class Eager(Interrupted):
        def start(self, work, part):
            def run():
                running.set()
                work(part)

            thread = threading.Thread(target=run)
            thread.start()
            running.wait()
            self.queue.append(thread)
            return self

    parts = Eager()
    x = adversarial("float32", 0.3, 2_000_000)
    out = np.zeros(x.size, np.int8)
    with split_small_arrays(monkeypatch):
        monkeypatch.setattr(_threads, "Part", parts.start)
        with pytest.raises(KeyboardInterrupt):
            pq.quantize(x, 0.3, threads=3, out=out, rounding="half_up", precision="float16")
    before = out.copy()
    for thread in parts.queue:
        thread.join()
    same(out, before)


EXIT = """
import sys
import numpy as np, pyquant as pq
from pyquant import _threads
_threads.MIN_PART_BYTES = 1
_threads.cpu_count = lambda: 4
modules = set(sys.modules)
pq.quantize(np.ones(50_000, np.float32), 0.02, threads=4)
# A process that is forked during an import cannot complete the import.
assert set(sys.modules) == modules
print("ok")
"""


def test_workers_import_nothing_and_keep_no_process_alive():
    run = run_python(EXIT)
    assert (run.returncode, run.stdout, run.stderr) == (0, "ok\n", "")


def looks(work):
    """Count how often this thread runs while another thread works."""
    finished, count = threading.Event(), 0

    def run():
        for _ in range(5):
            work()
        finished.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(3600)  # no switch unless a call releases the lock
    try:
        thread = threading.Thread(target=run)
        thread.start()
        while not finished.wait(1e-4):
            count += 1
    finally:
        sys.setswitchinterval(interval)
        thread.join(120)
    return count


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(),
    reason="this interpreter has no lock to release",
)
def test_the_interpreter_is_released(monkeypatch):
    """Check that calls release the lock. A thread switch is not certain in each call."""
    x = np.ones(amount(3_000_000, 30_000_000), np.float32)
    out = np.zeros(x.shape, np.int8)

    def call():
        pq.quantize(x, 1.0, out=out, rounding="away")

    assert any(looks(call) > 1 for _ in range(100))

    seen = []

    def run(work, parts):
        """Check that other Python threads run during each part."""
        seen.append(any(looks(partial(work, part)) > 1 for part in [0, 1] * 100))
        return 0

    with split_small_arrays(monkeypatch):
        monkeypatch.setattr(_threads, "run", run)
        pq.quantize(x, 1.0, out=out, threads=2)
        pq.dequantize(out, 1.0, threads=2)
    assert seen == [True, True]
