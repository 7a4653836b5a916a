"""Tests of worker processes with every start method, and of arrays not in memory."""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from support import adversarial, codes, mixed_scales, run_python, same, split_small_arrays

import pyquant as pq

pytestmark = [
    pytest.mark.skipif(
        "PYQUANT_EMULATED" in os.environ, reason="the emulator starts no such processes"
    ),
    # Python 3.12 and later warn if a process with threads forks.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

SHAPE = (300, 200)


def inputs():
    x = adversarial("float32", 0.3, 60_000).reshape(SHAPE)
    return x, mixed_scales("float32", SHAPE[1]), codes("int8", SHAPE[1])


def both_ways(threads):
    """Quantize and dequantize small arrays, which threads compute in parts."""
    with pytest.MonkeyPatch.context() as patch, split_small_arrays(patch, cpus=4):
        x, scale, zero = inputs()
        q = pq.quantize(x, scale, zero, axis=1, threads=threads)
        return q, pq.dequantize(q, scale, zero, axis=1, threads=threads)


def worker(threads):
    return os.getpid(), *both_ways(threads)


@pytest.fixture
def expected():
    """Return the results of one thread. Check that two threads return equal results."""
    result = both_ways(1)
    for got, one in zip(both_ways(2), result, strict=True):
        same(got, one)
    return result


def check(results, expected):
    __tracebackhide__ = True
    for pid, q, y in results:
        assert pid != os.getpid()
        same(q, expected[0])
        same(y, expected[1])


@contextmanager
def processes(n, method):
    """Yield a pool of processes. After a timeout, kill the processes."""
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(n, mp_context=context) as pool:
        try:
            yield pool
        except TimeoutError:
            for process in pool._processes.values():
                process.kill()
            raise


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_processes(method, expected):
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system has no {method}")
    with processes(1, method) as pool:
        check([pool.submit(worker, 2).result(120)], expected)
    with processes(2, method) as pool:
        check(list(pool.map(worker, [1, 2, 3, 4], timeout=120)), expected)


FORK_AMID_CALLS = """
import os, signal, threading, warnings
import numpy as np, pyquant as pq
from pyquant import _threads

warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
_threads.MIN_PART_BYTES, _threads.cpu_count = 1, lambda: 4
x = np.ones(100_000, np.float32)
done, begun = threading.Event(), threading.Event()

def call():
    while not done.is_set():
        pq.quantize(x, 0.5, threads=3)
        begun.set()

threads = [threading.Thread(target=call) for _ in range(2)]
for thread in threads:
    thread.start()
begun.wait()
codes = []
for _ in range(30):
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        q = pq.quantize(x, 0.5, threads=3)
        os._exit(0 if (q == 2).all() else 1)
    codes.append(os.waitpid(child, 0)[1])
done.set()
for thread in threads:
    thread.join()
print(sum(codes))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forks_while_other_threads_are_in_calls():
    done = run_python(FORK_AMID_CALLS)
    assert done.stdout == "0\n", done.stderr


def quantize_rows(p, x):
    return os.getpid(), p, p.quantize(x, threads=2)


def test_processes_exchange_parameters():
    """QParams and packed arrays are equal after they were sent to a process."""
    x, scale, zero = inputs()
    p = pq.QParams(scale, zero, "int8", axis=1)
    packed = pq.quantize(x, 0.3, dtype="int4", packed=True)
    with processes(1, "spawn") as pool:
        pid, sent, q = pool.submit(quantize_rows, p, x).result(120)
        y = pool.submit(pq.dequantize, packed, 0.3).result(120)
        back = pool.submit(pq.quantize, x, 0.3, dtype="int4", packed=True).result(120)
    assert pid != os.getpid()
    assert sent == p
    same(q, p.quantize(x))
    same(y, pq.dequantize(packed, 0.3))
    assert back == packed


def test_memory_that_joblib_maps(tmp_path):
    """Quantize in workers of joblib, which pass large arrays as read-only memory maps."""
    joblib = pytest.importorskip("joblib")  # optional
    x, scale, zero = inputs()
    p = pq.QParams(scale, zero, "int8", axis=1)
    parallel = joblib.Parallel(
        n_jobs=2, backend="loky", max_nbytes=1000, temp_folder=tmp_path, timeout=120
    )
    rows = np.array_split(np.arange(SHAPE[0]), 3)
    results = parallel(joblib.delayed(quantize_rows)(p, x[r]) for r in rows)
    assert os.getpid() not in {pid for pid, _, _ in results}
    same(np.concatenate([q for _, _, q in results]), p.quantize(x))


# ---- Arrays that are not in memory ----


class Lazy:
    """An object with dask's members. Conversion by NumPy would compute the whole array."""

    def __init__(self, graph):
        self.graph = graph

    def __dask_graph__(self):
        return self.graph

    def __array__(self, dtype=None, copy=None):
        assert self.graph is None, "this computes the whole array"
        return np.ones(3, np.float32)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("x", lambda a: pq.quantize(a, 0.5)),
        ("scale", lambda a: pq.quantize(np.ones(3), a, axis=0)),
        ("offset", lambda a: pq.quantize(np.ones(3), np.ones(3), axis=0, offset=a)),
        ("q", lambda a: pq.dequantize(a, 0.5)),
    ],
)
def test_lazy_arrays_are_not_computed_by_accident(name, call):
    with pytest.raises(
        TypeError, match=f"^{name}: expected an array in memory, got a lazily"
    ):
        call(Lazy({}))
    if name != "q":
        assert call(Lazy(None)) is not None


def test_arrays_of_dask_are_refused():
    da = pytest.importorskip("dask.array")  # optional
    with pytest.raises(TypeError, match=r"^x: expected .* got a lazily chunked Array"):
        pq.quantize(da.ones((4, 4), chunks=2), 0.5)
