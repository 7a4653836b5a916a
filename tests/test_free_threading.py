"""Calls on many threads with equal arguments, with and without the interpreter's lock."""

import sys
import sysconfig
import warnings

import numpy as np
import pytest
from support import (
    HAVE_BFLOAT16,
    adversarial,
    amount,
    at_once,
    mixed_scales,
    run_python,
    same,
    split_small_arrays,
)

import pyquant as pq
from pyquant import _threads

THREADS = 8
ROUNDS = amount(3, 15)


@pytest.fixture(autouse=True)
def often():
    """Make the interpreter switch threads as often as possible."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


IMPORTS = """
import sys
import numpy
assert not sys._is_gil_enabled()
import pyquant, pyquant.__main__, pyquant.cli._demo
pyquant.quantize(numpy.ones(9, numpy.float32), 1.0, threads=2)
print(sys._is_gil_enabled())
"""


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="this interpreter cannot do without its lock",
)
def test_the_lock_stays_off():
    run = run_python(IMPORTS, PYTHON_GIL="")
    assert (run.returncode, run.stdout, run.stderr) == (0, "False\n", "")


def test_the_same_arguments():
    """Threads share inputs, parameters and packed arrays. Each has its own result."""
    x = adversarial("float32", 0.3, 12_000).reshape(60, 200)
    scale, zero = mixed_scales("float32", 200), np.arange(-100, 100).astype(np.int8)
    p = pq.QParams(scale, zero, "int8", axis=1)
    packed = pq.quantize(x, scale, dtype="uint4", axis=1, packed=True)
    finite = np.nan_to_num(x, nan=0, posinf=0, neginf=0)

    def results(threads, q=None, y=None):
        kwargs = {"threads": threads}
        return [
            p.quantize(x, out=q, **kwargs),
            pq.quantize(x.T, scale, zero, axis=0, **kwargs),
            p.dequantize(p.quantize(x), out=y, **kwargs),
            pq.quantize(x, scale, dtype="uint4", axis=1, packed=True, **kwargs).data,
            pq.dequantize(packed, scale, axis=1, **kwargs),
            pq.choose_qparams(finite, axis=0).scale,
            pq.onnx.quantize_linear(x, scale, zero),
        ]

    expected = [one.copy() for one in results(1)]

    def work(i):
        q, y = np.empty(x.shape, np.int8), np.empty(x.shape, np.float32)
        for turn in range(ROUNDS):
            for got, one in zip(results(1 + (i + turn) % 3, q, y), expected, strict=True):
                same(got, one)
        return True

    with pytest.MonkeyPatch.context() as patch, split_small_arrays(patch):
        assert all(at_once(THREADS, work))


def test_calls_on_different_numbers_of_threads_at_once(monkeypatch):
    x = adversarial("float32", 0.3, 5000)
    expected = pq.quantize(x, 0.3)
    with split_small_arrays(monkeypatch):
        for _ in range(amount(5, 50)):
            _threads._forget()
            for got in at_once(THREADS, lambda i: pq.quantize(x, 0.3, threads=2 + i)):
                same(got, expected)
            assert _threads._workers == THREADS - 1  # the calling thread computes one part


FIRST = """
import threading
import numpy as np, pyquant as pq
x = np.arange(-40, 40).astype(np.float32)
names = ("bfloat16", "float8_e4m3fn", "int4", "float4_e2m1fn")
barrier = threading.Barrier(8)
found = [None] * 8
def work(i):
    barrier.wait(60)
    results = [pq.dequantize(pq.quantize(x, 1.0), 0.5, dtype="bfloat16")]
    results += [pq.quantize(x, 1.0, dtype=name) for name in names[1:]]
    results += [pq.dequantize(q, 0.5, threads=2) for q in results[1:]]
    results += [pq.quantize(results[0], 0.25), pq.quantize(x, 1, dtype="i2")]
    found[i] = [(str(r.dtype), r.tobytes()) for r in results]
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
assert found[0] and all(one == found[0] for one in found)
print(len(found[0]))
"""


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="ml_dtypes is not installed")
def test_first_uses_of_every_table_at_once():
    for _ in range(amount(1, 5)):
        run = run_python(FIRST)
        assert (run.returncode, run.stdout) == (0, "9\n"), run.stderr


def test_calls_keep_the_warnings_of_other_threads():
    """Pass names of dtypes that NumPy parses, and names that NumPy rejects."""
    x = adversarial("float32", 0.3, 50)
    expected = pq.quantize(x, 0.3, dtype="int16")

    def work(i):
        for _ in range(amount(30, 300)):
            same(pq.quantize(x, 0.3, dtype="i2"), expected)
            with pytest.raises(TypeError, match=r"^dtype: expected int8, uint8"):
                pq.quantize(x, 0.3, dtype=np.integer)
        return True

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before = list(warnings.filters)
        assert all(at_once(THREADS, work))
        assert warnings.filters == before
