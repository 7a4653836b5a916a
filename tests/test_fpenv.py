"""Tests that no call depends on the CPU's floating-point control state or changes it."""

import ctypes
import ctypes.util
import os
import platform
import struct
import sys
from contextlib import contextmanager

import numpy as np
import public_calls
import pytest
from support import (
    HAVE_BFLOAT16,
    adversarial,
    at_level,
    case,
    codes,
    loop,
    mixed_scales,
    run_python,
    same,
    split_small_arrays,
)

import pyquant as pq
from pyquant import _threads

# The byte offset of the control word in fenv_t, the mask of its control bits, and settings.
MACHINES = {
    "x86_64": (
        28,
        0xFFC0,
        {
            "down": 0x3F80,
            "up": 0x5F80,
            "toward zero": 0x7F80,
            "flush to zero": 0x9F80,
            "denormals are zero": 0x1FC0,
            "all": 0xFFC0,
        },
    ),
    "aarch64": (
        0,
        0x07F79F00,
        {
            "up": 1 << 22,
            "down": 2 << 22,
            "toward zero": 3 << 22,
            "flush to zero": 1 << 24,
            "flush half to zero": 1 << 19,
            "default nan": 1 << 25,
            "all": 3 << 22 | 1 << 24 | 1 << 25,
        },
    ),
}
MACHINE = {"AMD64": "x86_64", "arm64": "aarch64"}.get(
    platform.machine(), platform.machine()
)
if MACHINE not in MACHINES or sys.platform != "linux":
    pytest.skip("the layout of fenv_t is not known here", allow_module_level=True)
OFFSET, CONTROL, STATES = MACHINES[MACHINE]
FLAGS = 1 | 4 | 8 if MACHINE == "x86_64" else 1 | 2 | 4  # invalid, divided by 0, overflow

libm = ctypes.CDLL(ctypes.util.find_library("m"))


def control_state(new=None):
    """Return the control word of this thread. If `new` is given, set it first."""
    environment = ctypes.create_string_buffer(64)
    assert libm.fegetenv(environment) == 0
    if new is not None:
        struct.pack_into("<I", environment, OFFSET, new)
        assert libm.fesetenv(environment) == 0
    return struct.unpack_from("<I", environment, OFFSET)[0] & CONTROL


@contextmanager
def state(new):
    before = control_state()
    control_state(new)
    try:
        yield
    finally:
        after = control_state()
        control_state(before)
    assert after == new & CONTROL, (
        f"control state {after:#x} after the call, {new:#x} before"
    )


def test_the_state_can_be_changed():
    one, three = np.float32(1), np.float32(3)
    settings = []
    for name in ("up", "down"):
        with state(STATES[name]):
            settings.append(float(one / three))
    assert settings[0] > settings[1]
    with state(STATES["flush to zero"]):
        assert np.float32(1e-38) * np.float32(0.1) == 0


@loop("name", STATES)
def test_errors_restore_the_state(name):
    bad = np.full(9, np.nan, np.float32)
    with state(STATES[name]):
        with pytest.raises(ValueError, match="not finite"):
            pq.choose_qparams(bad)
        with pytest.raises(ValueError, match="rounding"):
            pq.quantize(bad, 0.1, rounding="nearest")
        with pytest.raises(ValueError, match="rule: expected"):
            pq.weights.mx.quantize(bad, "float8_e4m3fn", rule="nearest")


@loop("name", STATES)
def test_worker_threads_return_equal_bits_in_each_state(name, monkeypatch):
    x = adversarial("float32", 1e-40, 5000)
    q = codes("int16", 5000)
    scales = mixed_scales("float32", 5000)

    def results(threads):
        return (
            pq.quantize(x, 1e-40, threads=threads),
            pq.quantize(x, scales, axis=0, threads=threads),
            pq.dequantize(q, scales, axis=0, dtype="float16", threads=threads),
            *magnitudes(threads),
        )

    def magnitudes(threads):
        if HAVE_BFLOAT16:  # ml_dtypes defines the type of the scales
            how = {"rule": "rceil", "block_size": 2, "threads": threads}
            yield from pq.weights.mx.quantize(x, "float8_e4m3fn", **how).tensors().values()

    expected = results(1)
    _threads._forget()
    with split_small_arrays(monkeypatch), state(STATES[name]):
        got = results(3)
    _threads._forget()
    for a, b in zip(got, expected, strict=True):
        same(a, b)


@pytest.fixture(scope="module")
def public():
    """Return each public name with its call, and the bits of its result."""
    return {
        name: (call, public_calls.bits(call()))
        for name, call in public_calls.rows().items()
    }


# A state of NumPy, not of the CPU: NumPy raises an error for each floating-point fault.
RAISES = "NumPy raises"
# Functions with these names run with each instruction set, all else with the active set.
COMPUTING = ("_core.", "fused.", "qparams.choose", "observe.Observer.update", "onnx.")


@pytest.mark.parametrize("name", [*STATES, RAISES])
def test_every_public_name(name, public, isa):
    for row, (call, expected) in public.items():
        if isa != pq.isa.active() and not row.startswith(COMPUTING):
            continue  # the function does not depend on the instruction set
        with case(call=row):
            libm.feclearexcept(FLAGS)
            with np.errstate(all="raise") if name == RAISES else state(STATES[name]):
                got = at_level(isa, call)
                left = libm.fetestexcept(FLAGS)
            assert public_calls.bits(got) == expected
            assert left == 0


def test_calibrate_reads_batches_in_the_state_of_the_caller():
    found = []

    def batches():
        found.append(control_state())
        yield np.ones(3)

    with state(STATES["up"]):
        pq.calibrate(batches())
    assert found == [STATES["up"] & CONTROL]


PUBLIC_TRAPPING = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import ctypes, ctypes.util, public_calls
libm = ctypes.CDLL(ctypes.util.find_library("m"))
rows = public_calls.rows()
for call in rows.values():
    call()  # the first call imports modules
assert libm.feenableexcept(1 | 4 | 8) != -1
for name, call in rows.items():
    print(name, end=" ", flush=True)  # if a call traps, its name is the last
    call()
print("ok")
"""


@pytest.mark.skipif(MACHINE != "x86_64", reason="ARM cores seldom trap")
def test_unmasked_exceptions_do_not_trap():
    if not hasattr(libm, "feenableexcept"):
        pytest.skip("this C library unmasks no exceptions")
    run = run_python(PUBLIC_TRAPPING)
    assert run.returncode == 0, (run.stdout.split()[-1:], run.stderr)
    assert run.stdout.endswith("ok\n")
