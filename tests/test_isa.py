"""Tests that each available instruction set returns the results of scalar exactly."""

import os

import numpy as np
import pytest
from support import (
    AVAILABLE_CODES,
    LEVELS,
    REALS,
    REQUIRED,
    TYPES,
    at_level,
    by_family,
    case,
    choose_qparams_at,
    dtype_of,
    loop,
    quantize_at,
    run_python,
    same,
)
from test_calls import GROUPS

import pyquant as pq
from pyquant import _core

# For each instruction set, the CPU flags that Linux must list. The best set is first.
AVX2 = {"avx2", "fma", "f16c"}
NEEDS = {
    "avx512": AVX2
    | {f"avx512{part}" for part in ("f", "dq", "bw", "vl", "vbmi", "_bf16")}
    | {"gfni"},
    "avx2": AVX2,
}
SHOW = """
import os
import numpy as np, pyquant as pq
os.environ["PYQUANT_ISA"] = "sse9"
print(pq.isa.active(), *pq.isa.available())
print(*pq.quantize(np.float32([0.273939937, -45.5]), [0.00214854861, 7], axis=0))
"""


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


def test_available_sets_match_the_cpu_flags():
    if os.environ.get("PYQUANT_TEST_RUNNER"):
        pytest.skip("/proc/cpuinfo describes the host, not the emulated CPU")
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


@pytest.mark.parametrize("name", ["", *LEVELS])
def test_the_variable_selects_the_set(name):
    """An empty name selects the best set. A later change of the variable has no effect."""
    run = run_python(SHOW, PYQUANT_ISA=name)
    active = name or pq.isa.available()[0]
    assert run.stdout.split() == [active, *pq.isa.available(), "127", "-6"], run.stderr


UNAVAILABLE = sorted({"avx512", "avx2", "neon"} - set(LEVELS))
WRONG = ["sse9", "AVX2", " scalar", "scalar,avx2", "\x7f", "a" * 5000]


@loop("name", [*WRONG, *UNAVAILABLE])
def test_unknown_names_raise_an_import_error(name):
    run = run_python("import pyquant", PYQUANT_ISA=name)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: PYQUANT_ISA: expected ")
    assert f"got {name!r}"[:40] in last


@loop("name", ["sse9", "", *UNAVAILABLE])
def test_unknown_names_raise_a_value_error(name):
    with pytest.raises(ValueError, match=f"^isa: expected .*got {name!r}$"):
        _core.use_isa(name)


# ---- Comparison of every instruction set with scalar ----


@by_family("code", [name for name in AVAILABLE_CODES if TYPES[name].bits < 32])
@loop("real", REALS)
def test_dynamic_quantize_in_every_group(real, code, simd):
    """Test the group loop of kernels, which only dynamic_quantize uses for short groups."""
    x = np.random.default_rng(5).normal(size=2500).astype(real)
    for g in GROUPS[(AVAILABLE_CODES.index(code) + REALS.index(real)) % 3 :: 3]:
        part = x[: min(max(5 * g + g // 2, 70), 2500)]
        where = {"axis": 0, "block_size": g}
        scale, zero = choose_qparams_at("scalar", part, dtype=code, **where)
        expected = quantize_at("scalar", part, scale, zero, dtype=code, **where)
        got, p = at_level(simd, pq.dynamic_quantize, part, dtype=code, **where)
        with case(group=g):
            same(got, expected)
            same(p.scale, scale)


@loop("source, symmetric", REALS, [False, True])
def test_choose_qparams(source, symmetric, simd):
    x = np.random.default_rng(7).normal(size=5003).astype(source)

    def agree(values, **where):
        for got, expected in zip(
            choose_qparams_at(simd, values, symmetric=symmetric, **where),
            choose_qparams_at("scalar", values, symmetric=symmetric, **where),
            strict=True,
        ):
            same(got, expected)

    for n in [*range(1, 100), x.size]:
        for at in {0, n // 2, n - 1}:
            values = x[:n].copy()
            values[at] = 77 - 154 * (n % 2)
            agree(values)
    for g in GROUPS:
        agree(x[: 6 * g].reshape(6, g), axis=0)
        agree(x[: 6 * g].reshape(g, 6), axis=1)


@loop("real, code", REALS, ["int8", "uint8", "int16", "float8_e4m3fn"])
def test_long_rows(real, code, simd):
    """Test long rows, because instruction sets may have separate kernels for long rows."""
    n = (1 << 16) + 77
    x = np.random.default_rng(7).normal(size=(2, n)) * 40
    x[:, ::1001] = [[np.nan], [-0.0]]
    x[0, :-200:9001] = [-np.inf, np.inf, 1e-39, 1e-39, -1e30, 1e30, 2.5, -3.5]
    with np.errstate(over="ignore"):
        x = x.astype(real)
    dtype_of(code)
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
        got = quantize_at(simd, rows, dtype=code, **call)
        same(got, quantize_at("scalar", rows, dtype=code, **call))
