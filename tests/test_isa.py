"""Instruction-set levels: what is available, what is active, and `PYQUANT_ISA`."""

import os

import numpy as np
import pytest
from support import LEVELS, REQUIRED, dtype_of, run_python

import pyquant as pq
from pyquant import _core

# As Linux names what the levels need, the best level first.
AVX2 = {"avx2", "fma", "f16c"}
NEEDS = {
    "avx512": AVX2
    | {f"avx512{part}" for part in ("f", "dq", "bw", "vl", "vbmi", "_bf16")}
    | {"gfni"},
    "avx2": AVX2,
}
SHOW = "import pyquant.isa as isa; print(isa.active(), *isa.available())"


def test_available():
    available = pq.isa.available()
    assert isinstance(available, tuple)
    assert available[-1] == "scalar"
    assert len(set(available)) == len(available)
    assert available == LEVELS[::-1]


def test_required_instruction_sets_are_available():
    assert set(REQUIRED) <= set(pq.isa.available())


def test_active():
    assert pq.isa.active() == (os.environ.get("PYQUANT_ISA") or pq.isa.available()[0])


def test_what_the_cpu_says():
    if os.environ.get("PYQUANT_TEST_RUNNER"):
        pytest.skip("/proc/cpuinfo is not of the emulated CPU")
    try:
        with open("/proc/cpuinfo") as f:
            flags = f.read().split()
    except OSError:
        pytest.skip("there is no /proc/cpuinfo")
    if "asimd" in flags:
        assert pq.isa.available() == ("neon", "scalar")
    elif not os.environ.get("PYQUANT_EMULATED"):
        has = [level for level, needs in NEEDS.items() if needs <= set(flags)]
        assert pq.isa.available() == (*has, "scalar")


def test_best_by_default():
    run = run_python(SHOW, PYQUANT_ISA="")
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [pq.isa.available()[0], *pq.isa.available()]


def test_each_available_level_can_be_asked_for(isa):
    run = run_python(SHOW, PYQUANT_ISA=isa)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [isa, *pq.isa.available()]


def test_the_level_asked_for_does_the_work(isa):
    code = (
        "import numpy as np, pyquant as pq;"
        "print(pq.quantize(np.float32([0.273939937, -45.5]), [0.00214854861, 7], axis=0))"
    )
    run = run_python(code, PYQUANT_ISA=isa)
    assert run.stdout == "[127  -6]\n", run.stderr


@pytest.mark.parametrize("name", ["sse9", "AVX2", " scalar", "scalar,avx2"])
def test_an_unknown_level(name):
    run = run_python("import pyquant", PYQUANT_ISA=name)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: PYQUANT_ISA: expected ")
    assert last.endswith(f"got {name!r}")


@pytest.mark.parametrize("name", ["avx512", "avx2", "neon"])
def test_an_unavailable_level(name):
    if name in pq.isa.available():
        pytest.skip(f"{name} is available here")
    run = run_python("import pyquant", PYQUANT_ISA=name)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: PYQUANT_ISA: expected ")
    assert f"got {name!r}" in last


def test_the_variable_is_read_once():
    code = (
        "import os, pyquant; os.environ['PYQUANT_ISA'] = 'sse9';print(pyquant.isa.active())"
    )
    assert run_python(code, PYQUANT_ISA="scalar").stdout == "scalar\n"


def test_a_level_by_argument(isa):
    assert _core.quantize_at(isa, np.float32([1.6]), 1.0).tolist() == [2]


@pytest.mark.parametrize("name", ["sse9", "", "avx512", "avx2", "neon"])
def test_an_unavailable_level_by_argument(name):
    if name in pq.isa.available():
        pytest.skip(f"{name} is available here")
    with pytest.raises(ValueError, match=f"^isa: expected .*got {name!r}$"):
        _core.quantize_at(name, np.float32([1.6]), 1.0)


@pytest.mark.parametrize("code", ["int8", "uint8", "int16", "float8_e4m3fn"])
@pytest.mark.parametrize("real", ["float32", "float16", "bfloat16", "float64"])
def test_long_rows(simd, real, code):
    """Levels may have kernels of their own for them: of an array, of rows, of shares."""
    n = (1 << 16) + 77
    x = np.random.default_rng(7).normal(size=(2, n)) * 40
    x[:, ::1001] = [[np.nan], [-0.0]]
    x[0, :-200:9001] = [-np.inf, np.inf, 1e-39, 1e-39, -1e30, 1e30, 2.5, -3.5]
    with np.errstate(over="ignore"):
        x = x.astype(dtype_of(real))
    zero_point, options = None, {}
    if not code.startswith("float"):
        zero_point, options = np.array([3, 90], code), {"rounding": "floor"}
    for rows, call in (
        (x, {"scale": 0.25}),
        (x[0], {"scale": 0.037, **options}),
        (x[:, 5:], {"scale": [0.25, 0.0731], "zero_point": zero_point, "axis": 0}),
        (x[:, 100:], {"scale": [0.25, 0.0731], "zero_point": zero_point, "axis": 0}),
        (x, {"scale": 0.37, "threads": 2}),
    ):
        got = _core.quantize_at(simd, rows, dtype=code, **call)
        expected = _core.quantize_at("scalar", rows, dtype=code, **call)
        assert got.tobytes() == expected.tobytes(), call
