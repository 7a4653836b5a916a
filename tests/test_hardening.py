"""Tests of calls without memory, interrupted calls, small stacks and subinterpreters."""

import os
import signal
import subprocess
import sys
import sysconfig

import pytest
from support import amount, run_python

resource = pytest.importorskip("resource", reason="no limits on this system")

HERE = "import numpy as np, pyquant as pq\n"
SIMPLE = "print(pq.quantize(np.float32([0.25, -1.5, 2.5]), 0.5).tolist())"
EXPECTED = "[0, -3, 5]\n"

LIMITED = (
    HERE
    + """
import resource

def used():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()

def limit(more):
    resource.setrlimit(resource.RLIMIT_AS, (used() + more, resource.RLIM_INFINITY))
    if more == 1 << 20:
        try:
            np.ones(1 << 24, np.uint8)
        except MemoryError:
            return
        raise SystemExit("memory in reserve")

def fails(call):
    try:
        call()
    except MemoryError:
        return
    raise SystemExit("no MemoryError")

"""
)


@pytest.fixture
def limits():
    """Skip the test if the system has no limits, or if a limit applies to an emulator."""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("there is no /proc/self/statm")
    if os.environ.get("PYQUANT_EMULATED") or os.environ.get("PYQUANT_TEST_RUNNER"):
        pytest.skip("the limit applies to the emulator, too")
    if "libasan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("the sanitizer needs more address space than any limit")


def run_limited(code):
    run = run_python(code)
    # A limit of address space has no effect after the interpreter reserved gigabytes.
    if run.stderr == "memory in reserve\n" and sysconfig.get_config_var("Py_GIL_DISABLED"):
        pytest.skip("this interpreter has gigabytes of address space in reserve")
    return run


ALLOCATIONS = {
    "quantize": "pq.quantize(x, 0.5)",
    "quantize on threads": "pq.quantize(x, 0.5, threads=2)",
    "dequantize": "pq.dequantize(q, 0.5)",
    "packed": "pq.quantize(x, 0.5, dtype='int4', packed=True)",
    "choose_qparams": "pq.choose_qparams(x, axis=0)",
    "Observer": "pq.Observer(axis=0).update(x)",
    "a copy of a list": "pq.quantize(many, 0.5)",
    "dynamic_quantize_linear": "pq.onnx.dynamic_quantize_linear(x)",
}


@pytest.mark.usefixtures("limits")
@pytest.mark.parametrize("name", ALLOCATIONS)
def test_no_memory(name):
    """A call without memory raises MemoryError. Later calls with memory are correct."""
    code = (
        LIMITED
        + (
            "x = np.ones(1 << 25, np.float32)\n"
            "q = np.ones(1 << 25, np.int8)\n"
            "many = [1.0] * (1 << 19)\n"
            "small = x[:1000], q[:1000]\n"
            f"call = lambda x=x, q=q, many=many: {ALLOCATIONS[name]}\n"
            "call(*small, many[:1000])\n"  # fill the caches
            "limit(1 << 20)\n"
            "fails(call)\n"
            "fails(call)\n" + SIMPLE + "\n"
            "limit(1 << 31)\n"
            "call()\n" + SIMPLE
        )
    )
    run = run_limited(code)
    assert (run.returncode, run.stdout) == (0, 2 * EXPECTED), run.stderr


@pytest.mark.usefixtures("limits")
def test_no_memory_leaves_out_alone():
    """If memory is too small to convert a list of scales, `out` is unchanged."""
    code = LIMITED + (
        "x = np.ones(1 << 22, np.float32)\n"
        "out = np.full(1 << 22, 77, np.int8)\n"
        "many = [0.5] * (1 << 22)\n"
        "limit(1 << 20)\n"
        "fails(lambda: pq.quantize(x, many, axis=0, out=out))\n"
        "print(out.min() == out.max() == 77)"
    )
    run = run_limited(code)
    assert (run.returncode, run.stdout) == (0, "True\n"), run.stderr


@pytest.mark.usefixtures("limits")
def test_no_memory_for_threads():
    """Without memory for a thread's stack, the calling thread computes all parts."""
    code = LIMITED + (
        "import threading\n"
        "threading.stack_size(1 << 28)\n"
        "x = np.ones((1 << 24), np.float32)\n"
        "out = np.empty(x.shape, np.int8)\n"
        "limit(1 << 26)\n"
        "pq.quantize(x, 0.5, out=out, threads=2)\n"
        "print(bool((out == 2).all()))\n" + SIMPLE
    )
    run = run_python(code)
    assert (run.returncode, run.stdout) == (0, "True\n" + EXPECTED), run.stderr


def test_small_stacks():
    """Make calls in threads with the smallest stack size that Python permits."""
    code = HERE + (
        "import threading, resource\n"
        "soft, hard = resource.getrlimit(resource.RLIMIT_STACK)\n"
        "size = 256 << 10\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (size, hard))\n"
        "threading.stack_size(size)\n"
        "x = np.linspace(-9, 9, 40 * 41 * 42, dtype='f4').reshape(40, 41, 42)\n"
        "results = []\n"
        "def work():\n"
        "    for x1 in (x, x.T, x[::2, ::-1], x.astype('f8'), x.astype('>f4')):\n"
        "        p = pq.choose_qparams(x1, axis=1, symmetric=False)\n"
        "        for dtype in ('int8', 'uint4', 'int32'):\n"
        "            packed = dtype == 'uint4'\n"
        "            q = pq.quantize(x1, p.scale, axis=1, dtype=dtype, packed=packed)\n"
        "            y = pq.dequantize(q, p.scale, axis=1)\n"
        "            results.append(y.shape == x1.shape)\n"
        "threads = [threading.Thread(target=work) for _ in range(4)]\n"
        "for t in threads: t.start()\n"
        "for t in threads: t.join()\n"
        "print(len(results), all(results))\n"
    )
    run = run_python(code)
    assert (run.returncode, run.stdout) == (0, "60 True\n"), run.stderr


# A program that prints "ready" and then calls pyquant until it is interrupted.
INTERRUPTED = (
    HERE
    + """
import signal, sys
from pyquant import _threads
_threads.cpu_count = lambda: 4
x = np.ones(SIZE, np.float32)
out = np.empty(x.shape, np.int8)
pq.quantize(x[:100], 0.5, threads=2)
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupted = False
try:
    print("ready", flush=True)
    while True:
        pq.quantize(x, 0.5, out=out, threads=THREADS)
except KeyboardInterrupt:
    interrupted = True
out[:] = 0
pq.quantize(x, 0.5, out=out, threads=THREADS)
print(interrupted, bool((out == 2).all()))
"""
    + SIMPLE
)


@pytest.mark.skipif(not hasattr(os, "kill"), reason="no signals")
@pytest.mark.parametrize("threads", [1, 4])
def test_interrupt(threads):
    """After Ctrl-C in a long call, the process works and ends normally."""
    if os.environ.get("PYQUANT_TEST_RUNNER"):
        pytest.skip("the emulator would get the signal")
    code = INTERRUPTED.replace("SIZE", str(amount(1 << 23, 1 << 25)))
    code = code.replace("THREADS", str(threads))
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=amount(600, 120))
        finally:
            process.kill()
    assert (process.returncode, stdout) == (0, "True True\n" + EXPECTED), stderr


@pytest.mark.parametrize("first", [True, False], ids=["after", "instead"])
def test_subinterpreter(first):
    """Import pyquant in a subinterpreter. The import works, or NumPy raises ImportError."""
    here = HERE + SIMPLE + "\n" if first else ""
    code = here + (
        "try:\n"
        "    import _interpreters as interpreters\n"
        "except ImportError:\n"
        "    import _xxsubinterpreters as interpreters\n"
        "other = interpreters.create()\n"
        'source = """\n'
        "import sys, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "try:\n"
        "    import numpy as np, pyquant as pq\n"
        "except ImportError as error:\n"
        "    print('refused:', str(error).strip().splitlines()[0])\n"
        "else:\n"
        f"    {SIMPLE}\n"
        'sys.stdout.flush()"""\n'
        "failure = interpreters.run_string(other, source)\n"
        "assert failure is None, failure\n"
        "interpreters.destroy(other)\n" + here
    )
    run = run_python(code, PYTHONUNBUFFERED="1")  # keeps the order of the lines
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines(keepends=True)
    if first:  # the main interpreter prints the first and the last line
        assert [lines.pop(0), lines.pop()] == [EXPECTED, EXPECTED]
    (answer,) = lines
    assert answer == EXPECTED or answer.startswith("refused: "), answer
