"""Available instruction sets. Each set returns the bytes of scalar."""

import os

import numpy as np
import pytest
from support import (
    AVAILABLE_CODES,
    LEVELS,
    MODES,
    NARROW,
    REALS,
    REQUIRED,
    TYPES,
    Guarded,
    adversarial,
    amount,
    at_level,
    by_family,
    case,
    choose_qparams_at,
    codes,
    compute_dtype,
    dequantize_at,
    dtype_of,
    loop,
    misaligned,
    mixed_scales,
    parameter_shape,
    quantize_at,
    run_python,
    same,
    scales_for,
    usual_scales,
    zero_points,
    zeros_for,
)

import pyquant as pq
from pyquant import _core

# CPU flags of Linux that each instruction set needs, the best set first.
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


def test_best_by_default():
    run = run_python(SHOW, PYQUANT_ISA="")
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [pq.isa.available()[0], *pq.isa.available()]


def test_the_variable_selects_the_set(isa):
    run = run_python(SHOW, PYQUANT_ISA=isa)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == [isa, *pq.isa.available()]


def test_the_selected_set_computes(isa):
    code = (
        "import numpy as np, pyquant as pq;"
        "print(pq.quantize(np.float32([0.273939937, -45.5]), [0.00214854861, 7], axis=0))"
    )
    run = run_python(code, PYQUANT_ISA=isa)
    assert run.stdout == "[127  -6]\n", run.stderr


UNAVAILABLE = sorted({"avx512", "avx2", "neon"} - set(LEVELS))


WRONG = ["sse9", "AVX2", " scalar", "scalar,avx2", "\x7f", "a" * 5000]


@loop("name", [*WRONG, *UNAVAILABLE])
def test_another_name_is_an_import_error(name):
    run = run_python("import pyquant", PYQUANT_ISA=name)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: PYQUANT_ISA: expected ")
    assert f"got {name!r}"[:40] in last


def test_the_variable_is_read_once():
    code = (
        "import os, pyquant; os.environ['PYQUANT_ISA'] = 'sse9';print(pyquant.isa.active())"
    )
    assert run_python(code, PYQUANT_ISA="scalar").stdout == "scalar\n"


def test_the_set_is_an_argument(isa):
    assert quantize_at(isa, np.float32([1.6]), 1.0).tolist() == [2]


@loop("name", ["sse9", "", *UNAVAILABLE])
def test_another_name_is_a_value_error(name):
    with pytest.raises(ValueError, match=f"^isa: expected .*got {name!r}$"):
        _core.use_isa(name)


# Every instruction set against scalar

LONG = amount(700, 5000)
LENGTHS = [
    *amount(
        [*range(41), *range(47, 50), *range(63, 67), 71, 80, *range(95, 98)], range(100)
    ),
    *(127, 128, 129, 255, 257, 1000, 1025, amount(4097, 5000)),
]
GROUPS = amount(
    [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 39, 48, 63, 64, 65, 100, 129, 784],
    [*range(1, 68), 100, 127, 128, 129, 784],
)
INTEGERS = [name for name in AVAILABLE_CODES if TYPES[name].kind == "integer"]
both_directions = pytest.mark.parametrize(
    "function", [quantize_at, dequantize_at], ids=["quantize", "dequantize"]
)


def inputs(function, real, code, count, scale=0.3, seed=0):
    """Return values to quantize or dequantize, and the type of the result."""
    if function is quantize_at:
        return adversarial(real, scale, count, seed), code
    return codes(code, count, seed), real


def share(values, code, real):
    """Return a part of the values for a narrow type.

    Narrow types share kernels, and the remaining values are tried with other types.
    """
    if code not in NARROW:
        return values
    step = amount(4, 2)
    return values[(NARROW.index(code) + REALS.index(real)) % step :: step]


def check(function, isa, values, scale, zero, **options):
    """Compare one call with scalar. The result is written into guarded memory."""
    __tracebackhide__ = True
    expected = function("scalar", values, scale, zero, **options)
    out = Guarded(expected.dtype, expected.shape)
    function(isa, values, scale, zero, out=out.array, **options)
    out.check()
    same(out.array, expected)


@by_family("code", INTEGERS)
@loop("real, mode", REALS, MODES)
def test_quantize_in_every_mode(real, code, mode, simd):
    rest = {"dtype": code, "rounding": mode}
    first = MODES.index(mode) % 2
    scales = (0.3, 7.0, 1e-40, -0.02)
    for seed in range(len(scales))[amount(first, 0) :: amount(2, 1)]:
        scale = np.array([scales[seed]], compute_dtype(real))
        x = adversarial(real, scales[seed], amount(300, 1500), seed)
        zeros = zeros_for(code, x.size)
        check(quantize_at, simd, x, scale, zeros[seed], **rest)
        check(
            quantize_at, simd, x, mixed_scales(scale.dtype, x.size), zeros, axis=0, **rest
        )
    blocks = usual_scales(scale.dtype, -(-x.size // 32)), zeros[: -(-x.size // 32)]
    check(quantize_at, simd, x, *blocks, axis=0, block_size=32, **rest)


@both_directions
@by_family("code", AVAILABLE_CODES)
@loop("real", REALS)
def test_every_scale(function, real, code, simd):
    zeros = zero_points(code)
    scales = list(scales_for(compute_dtype(real)).items())
    for i, (name, scale) in enumerate(share(scales, code, real)):
        count = amount(300, 3000)
        values, dtype = inputs(function, real, code, count, scale[0], seed=i)
        with case(scale=name):
            check(function, simd, values, scale, zeros[i % len(zeros)], dtype=dtype)


@both_directions
@by_family("code", AVAILABLE_CODES)
@loop("real", REALS)
def test_every_length(function, real, code, simd):
    scales = mixed_scales(compute_dtype(real), LENGTHS[-1])
    zeros = zeros_for(code, LENGTHS[-1])
    for n in share(LENGTHS, code, real):
        values, dtype = inputs(function, real, code, n, seed=n)
        with case(length=n):
            check(function, simd, values, 0.3, zeros[2 % len(zeros)], dtype=dtype)
            check(function, simd, values, scales[:n], zeros[:n], axis=0, dtype=dtype)
            if function is quantize_at and code in INTEGERS:
                check(function, simd, values, 0.3, None, dtype=dtype, rounding="half_up")


@both_directions
@by_family("code", AVAILABLE_CODES)
@loop("real", REALS)
def test_every_group(function, real, code, simd):
    for g in share(GROUPS, code, real):
        n = min(max(5 * g + g // 2, 70), 2500)
        count = -(-n // g)
        values, dtype = inputs(function, real, code, n, seed=g)
        complete = values[: n // g * g].reshape(-1, g)
        zeros = zeros_for(code, count)
        rest = {"axis": 0, "dtype": dtype}
        for make in (usual_scales, mixed_scales):
            scales = make(compute_dtype(real), count, seed=g)
            with case(group=g, scales=make.__name__):
                check(function, simd, values, scales, zeros, block_size=g, **rest)
                check(function, simd, complete, scales[: n // g], zeros[: n // g], **rest)


@by_family("code", [name for name in AVAILABLE_CODES if TYPES[name].bits < 32])
@loop("real", REALS)
def test_dynamic_quantize_in_every_group(real, code, simd):
    """Short groups reach the group loop of a kernel only by choosing their own scales."""
    x = np.random.default_rng(5).normal(size=2500).astype(real)
    for g in share(GROUPS, code, real):
        part = x[: min(max(5 * g + g // 2, 70), 2500)]
        where = {"axis": 0, "block_size": g}
        scale, zero = choose_qparams_at("scalar", part, dtype=code, **where)
        expected = quantize_at("scalar", part, scale, zero, dtype=code, **where)
        got, p = at_level(simd, pq.dynamic_quantize, part, dtype=code, **where)
        with case(group=g):
            same(got, expected)
            same(p.scale, scale)


@both_directions
@by_family("code", AVAILABLE_CODES)
@loop("real", REALS)
def test_every_alignment(function, real, code, simd):
    values, dtype = inputs(function, real, code, 131)
    scales = usual_scales(compute_dtype(real), values.size)
    expected = function("scalar", values, 0.3, dtype=dtype)
    of_each = function("scalar", values, scales, axis=0, dtype=dtype)
    for i in range(0, 32, amount(3, 1)):
        shifted = misaligned(values, i)
        for j in range(0, 32, amount(7, 3)):
            out = Guarded(expected.dtype, values.shape, j)
            function(simd, shifted, 0.3, out=out.array, dtype=dtype)
            same(out.array, expected)
            out.check()
        params = misaligned(scales, i)
        got = function(simd, shifted, params, axis=0, out=out.array, dtype=dtype)
        same(got, of_each)
        out.check()


SHAPES = [
    ((7, 65), 0, None),
    ((7, 65), 1, None),
    ((3, 5, 49), 1, None),
    ((3, 49, 5), (0, 1), None),
    ((3, 5, 33), (0, 2), None),
    ((5, 300), 1, 32),
    ((300, 5), 0, 32),
    ((5, 301), 1, 7),
    ((40, 77, 3), 1, 7),
    ((20, 70), None, (3, 16)),
    ((2, LONG + 1), 1, None),
    ((LONG + 1, 2), 0, None),
    ((2, LONG + 1), 0, None),
    ((LONG + 1, 3), 1, None),
]


@loop("form, turned", SHAPES, [False, True])
def test_granularities_and_strides(form, turned, simd):
    shape, axis, block = form
    count = int(np.prod(shape))
    params = parameter_shape(shape, axis, block)
    scale = mixed_scales("float32", int(np.prod(params))).reshape(params)
    zero = zeros_for("int8", scale.size).reshape(params)
    x = adversarial("float32", 0.3, count).reshape(shape)
    q = codes("int8", count).reshape(shape)
    if turned:  # Fortran order, the first axis reversed and with gaps
        x, q = (np.repeat(a, 2, axis=0)[::-2].copy("F")[::-1] for a in (x, q))
    where = {"axis": axis, "block_size": block}
    check(quantize_at, simd, x, scale, zero, **where)
    check(quantize_at, simd, x, scale, zero, rounding="half_away", **where)
    check(dequantize_at, simd, q, scale, zero, **where)


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
    """Instruction sets may have separate kernels for long rows."""
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
