"""Helpers of the tests: types, difficult data, guarded memory, exact comparisons."""

import copy
import functools
import inspect
import itertools
import json
import math
import os
import pickle
import shlex
import subprocess
import sys
import threading
import tracemalloc
import warnings
import zlib
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import oracle
import pytest

import pyquant as pq
from pyquant import _core, isa
from pyquant.dtypes import NARROW_FLOATS, NARROW_INTEGERS, TYPES

try:
    from ml_dtypes import bfloat16
except ImportError:  # an optional dependency, and absent from some emulated machines
    bfloat16 = None

ROOT = Path(__file__).resolve().parent.parent

# conftest.py sets this variable if pytest runs with --everything.
EVERYTHING = False

# The available instruction sets. The first one is scalar. PYQUANT_REQUIRE_ISA names the
# sets that this machine must have; test_isa.py fails if a named set is missing.
LEVELS = isa.available()[::-1]
REQUIRED = [name for name in os.environ.get("PYQUANT_REQUIRE_ISA", "").split(",") if name]

# The names are from pyquant's table of types, so that tests try every row. The oracle has
# separate definitions of the types. NumPy's types are dtypes here, and other types are
# names, because the package ml_dtypes is optional.
HAVE_BFLOAT16 = bfloat16 is not None
REALS = [
    np.dtype(bfloat16 if t.name == "bfloat16" else t.name)
    for t in sorted(TYPES.values(), key=lambda t: t.bits < 32)
    if t.kind == "real" and (HAVE_BFLOAT16 or t.name != "bfloat16")
]
CODES = [np.dtype(t.name) for t in TYPES.values() if t.kind == "integer" and t.bits >= 8]
WIDE = [dtype for dtype in CODES if dtype.itemsize == 8]
CHOSEN = [dtype for dtype in CODES if dtype not in WIDE]  # Types for choose_qparams.
# An operator that accepts every integer as a zero point. quantize and dequantize accept
# only zero points in the range of the code type.
_NAMES = tuple(dtype.name for dtype in CODES)
ANY_ZEROS = _core.Operator(
    "a standard",
    input=("q", (*_NAMES, "uint4")),
    scale=("scale", ("float32", "float64")),
    zero=("zero_point", _NAMES),
    places="blocks",
    dtype=("dtype", ("float32", "float64", "float16", "bfloat16"), {}),
)
NARROW = (*NARROW_INTEGERS, *NARROW_FLOATS)
EVERY_CODE = (*(dtype.name for dtype in CODES), *NARROW)
# The code types of NumPy, and of ml_dtypes if it is installed.
AVAILABLE_CODES = EVERY_CODE if HAVE_BFLOAT16 else tuple(dtype.name for dtype in CODES)
PACKED = tuple(name for name in NARROW if TYPES[name].bits in (2, 4))
# The lists of types that error messages contain.
CODE_NAMES = " or ".join(", ".join(EVERY_CODE).rsplit(", ", 1))
CHOSEN_NAMES = CODE_NAMES.replace("int64, uint64, ", "")
MODES = oracle.MODES
PRECISIONS = ("float16", "float32", "float64", *(("bfloat16",) if HAVE_BFLOAT16 else ()))


def amount(default, everything):
    """Return `default`, or `everything` if pytest runs with --everything."""
    return everything if EVERYTHING else default


def program(*arguments, module=("-P", "-m", "pyquant"), env=None, **how):
    """Run `python -m pyquant` with arguments and additional environment variables."""
    given = {"capture_output": True, "text": True, "timeout": 300, **how}
    command = [sys.executable, *module, *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, **(env or {})}, **given)


# The last seed that `seeds` yielded to the running test. conftest.py resets the list before
# each test.
SEED = None


def seeds(count):
    """Yield the seeds of a random test. PYQUANT_TEST_SEED replaces all of them by one."""
    global SEED
    only = os.environ.get("PYQUANT_TEST_SEED")
    for seed in range(count) if only is None else [int(only)]:
        SEED = seed
        yield seed


@contextmanager
def case(**values):
    """If the block fails, add the values to the report, to identify the iteration."""
    try:
        yield
    except BaseException as error:  # pytest.fail raises a BaseException
        error.add_note("case: " + ", ".join(f"{k}={v!r}" for k, v in values.items()))
        raise


def check_out(call, out=None, *args, **options):
    """Make a call that raises, and check that `out` is unchanged."""
    try:
        call(*args, out=out, **options)
    finally:
        assert out is None or untouched(out)


def repeat_command(test):
    """Return the command that repeats a test with its last seed."""
    variables = {"PYQUANT_ISA": os.environ.get("PYQUANT_ISA"), "PYQUANT_TEST_SEED": SEED}
    words = [f"{name}={value}" for name, value in variables.items() if value is not None]
    words += ["python", "-m", "pytest", "-n0", *["--everything"][: int(EVERYTHING)]]
    return " ".join([*words, shlex.quote(test)])


def dtype_of(name):
    """Return the dtype of a type name. Skip the test if ml_dtypes is needed and missing."""
    if isinstance(name, np.dtype) or hasattr(np, name):
        return np.dtype(name)
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))


# Bits and comparison


def bit_view(dtype):
    """Return the unsigned dtype for the bit patterns of a float dtype."""
    return np.dtype(f"u{np.dtype(dtype).itemsize}")


def float_of_bits(bits, dtype="float32"):
    """Return the float array with the given bit patterns."""
    return np.array(bits, dtype=bit_view(dtype)).view(np.dtype(dtype))


def compute_dtype(dtype):
    """Return the dtype that pyquant computes in for a dtype: float32 or float64."""
    return np.dtype("float64") if np.dtype(dtype) == np.float64 else np.dtype("float32")


def same(got, expected):
    """Assert that two arrays have equal dtype, shape and bits."""
    __tracebackhide__ = True
    assert type(got) is np.ndarray, f"got a {type(got).__name__}"
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    a = np.ascontiguousarray(got).reshape(-1).view(bit_view(got.dtype))
    b = np.ascontiguousarray(expected).reshape(-1).view(bit_view(expected.dtype))
    wrong = np.flatnonzero(a != b)
    if wrong.size:
        x, y = got.reshape(-1), expected.reshape(-1)
        shown = ", ".join(
            f"[{i}] {x[i]} ({a[i]:#x}) for {y[i]} ({b[i]:#x})" for i in wrong[:8].tolist()
        )
        raise AssertionError(f"{wrong.size} of {a.size} differ: {shown}")


# Data


def _layout(dtype):
    """Return for a float dtype: bits, fraction bits, and the bit pattern of infinity."""
    dtype = np.dtype(dtype)
    bits = 8 * dtype.itemsize
    fraction = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype.name]
    return bits, fraction, ((1 << (bits - 1 - fraction)) - 1) << fraction


def _magnitudes(values):
    bits = bit_view(values.dtype)
    return values.view(bits) & bits.type((1 << (8 * bits.itemsize - 1)) - 1)


def is_nan(values):
    """Return `np.isnan(values)` without the warning of ml_dtypes about signaling NaN."""
    return _magnitudes(values) > _layout(values.dtype)[2]


def is_finite(values):
    """Return `np.isfinite(values)` without the warning of ml_dtypes about signaling NaN."""
    return _magnitudes(values) < _layout(values.dtype)[2]


def specials(dtype):
    """Return zeros, subnormals, ones, largest numbers, infinities and NaN of both signs."""
    bits, fraction, infinity = _layout(dtype)
    one = (infinity >> (fraction + 1)) << fraction
    patterns = [
        *(0, 1, 2, 3, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1),
        *(one - 1, one, one + 1, one - (1 << fraction)),
        *(infinity - 2, infinity - 1, infinity),
        *(infinity + 1, infinity | 1 << (fraction - 1), infinity | (1 << fraction) - 1),
    ]
    sign = 1 << (bits - 1)
    return float_of_bits(patterns + [p | sign for p in patterns], dtype)


def uniform_bits(dtype, count, seed):
    """Return `count` numbers of a dtype with uniformly distributed bit patterns."""
    words = np.random.default_rng(seed).integers(0, 256, count * np.dtype(dtype).itemsize)
    return words.astype(np.uint8).view(np.dtype(dtype))


def ulps(values, step):
    """Move numbers away from zero by `step` units in the last place."""
    bits, _, infinity = _layout(values.dtype)
    if bits == 64:
        infinity = min(infinity, (1 << 63) - 8)
    patterns = values.view(bit_view(values.dtype)).astype(np.uint64)
    sign = np.uint64(1 << (bits - 1))
    magnitude = (patterns & ~sign).astype(np.int64)
    nan = magnitude > infinity
    moved = np.where(nan, magnitude, np.clip(magnitude + step, 0, infinity)).astype(
        np.uint64
    )
    return (moved | patterns & sign).astype(bit_view(values.dtype)).view(values.dtype)


def cast(values, dtype):
    """Cast without the warnings of NumPy."""
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(dtype)


def adversarial(dtype, scale, count, seed=0, zero_point=0):
    """Return inputs of a dtype that are hard for a scale.

    The first nine elements are NaN, infinities, ties and saturation edges. The seed rotates
    these elements and selects the width of the edges, so that calls with short arrays try
    each element. The rest is in random order: integers and half-integers times the scale,
    moved by up to two units in the last place; the edges of every code range; random bit
    patterns; subnormals, zeros, infinities and NaN.
    """
    dtype = np.dtype(dtype)
    rng = np.random.default_rng([seed, count])
    share = count // 2 + 1
    edges = [
        float(edge - zero_point)
        for bits in (8, 4, 16, 32, 54, 64)
        for edge in (-(1 << (bits - 1)), (1 << (bits - 1)) - 1, (1 << bits) - 1)
    ]
    steps = np.concatenate(
        [
            np.arange(-4, 5),
            rng.integers(-300, 300, share),
            rng.integers(-70000, 70000, share // 4),
            *(np.float64([edge, edge - 1, edge + 1]) for edge in edges),
        ]
    )
    with np.errstate(all="ignore"):
        points = np.concatenate([steps, steps + 0.5]) * np.float64(scale)
        start = 3 * (seed % 4)  # the seed selects codes of 8, 4, 16 or 32 bits
        low, high, highest = (
            np.float64(edges[start : start + 3]) + np.float64([-0.5, 0.5, 0.5])
        ) * np.float64(scale)
    points = cast(points, dtype)
    moved = ulps(points, rng.integers(-2, 3, points.size))
    tiny = float_of_bits(rng.integers(0, 1 << _layout(dtype)[1], 8), dtype)
    pool = np.concatenate([moved, uniform_bits(dtype, share, seed), tiny])
    rng.shuffle(pool.view(bit_view(dtype)))
    tie = 0.5 * np.float64(scale)
    first = [np.nan, np.inf, high, tie, -np.inf, -np.nan, low, highest, -tie]
    first = np.roll(cast(first, dtype), seed)
    return np.concatenate([first, specials(dtype)[: count // 2], pool])[:count]


@functools.cache
def inputs_of_many_scales(dtype, count):
    """Return `count` inputs that are hard for their scales, and a scale for each input."""
    scales = mixed_scales(compute_dtype(dtype), count)
    inputs = [adversarial(dtype, s, 70, seed=i)[i % 70] for i, s in enumerate(scales)]
    return np.array(inputs, dtype), scales


def codes(dtype, count, seed=0):
    """Return codes of a dtype or type name, including the lowest and the highest code.

    Narrow types get random bytes. The bits of a byte above the code are random, too.
    """
    dtype = dtype_of(dtype)
    rng = np.random.default_rng([seed, count])
    if dtype.name in NARROW:
        return rng.integers(0, 256, count, dtype=np.uint8).view(dtype)
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
    ends = [info.min, info.max, info.min + 1, info.max - 1, 0]
    values[: len(ends)] = ends[:count]
    return values


def zero_points(dtype):
    """Return zero points of a type: both ends, their neighbours, and values between."""
    row = TYPES[name_of(np.dtype(dtype)) if dtype not in NARROW else dtype]
    if row.kind != "integer":
        return [0]
    lo, hi = row.lowest, row.highest
    ends = {lo, lo + 1, 0, 1, hi // 2 - 2, hi - 1, hi}
    return sorted(
        {z for z in ends if z >= lo} | ({2**53 - 1, 2**53 + 1} if row.bits == 64 else set())
    )


def zeros_for(dtype, count, seed=0):
    """Return `count` zero points, in the code type, or in int16 if NumPy lacks the type."""
    zeros = np.array(zero_points(dtype), np.int16 if dtype in NARROW else dtype)
    return np.resize(np.roll(zeros, -seed), count)


# float32 scales: usual scales, scales at both sides of the limits of fast paths, and scales
# for which a product with the reciprocal rounds differently from the quotient.
SCALES = {
    "one": 1.0,
    "half": 0.5,
    "tenth": 0.1,
    "third": 0.3,
    "seven": 7.0,
    "percent": 0.02,
    "127th": 1 / 127,
    "fbgemm": 0.00214854861,
    "ones": 1.9999998807907104,
    "1.76": 1.76,
    "2^-99": 2.0**-99,
    "2^-100": 2.0**-100,
    "below_2^-100": 2.0**-100 * (1 - 2.0**-24),
    "2^-101": 1.3 * 2.0**-101,
    "2^-110": 1.7 * 2.0**-110,
    "2^-120": 1.3 * 2.0**-120,
    "2^-125": 1.9 * 2.0**-125,
    "2^-126": 2.0**-126,
    "subnormal": 1e-40,
    "tiniest": 1.401298464324817e-45,
    "below_2^101": 2.0**101 * (1 - 2.0**-24),
    "2^101": 2.0**101,
    "2^102": 1.7 * 2.0**102,
    "2^126": 1.1 * 2.0**126,
    "huge": 3.4028234663852886e38,
    "negative": -0.7,
    "minus_one": -1.0,
    "zero": 0.0,
    "minus_zero": -0.0,
    "inf": np.inf,
    "minus_inf": -np.inf,
    "nan": np.nan,
}
# float64 only.
WIDE_SCALES = {
    "fraction": 0.1 + 2.0**-40,
    "2^-969": 1.1 * 2.0**-969,
    "2^-970": 1.1 * 2.0**-970,
    "2^-1021": 1.5 * 2.0**-1021,
    "subnormal64": 1e-310,
    "tiniest64": 5e-324,
    "2^970": 1.3 * 2.0**970,
    "2^1022": 1.3 * 2.0**1022,
    "huge64": 1.7976931348623157e308,
    "minus_huge64": -1.7976931348623157e308,
}


def scales_for(compute):
    """Return a dictionary of scales. Each one is an array of one element of `compute`."""
    wide = WIDE_SCALES if np.dtype(compute) == np.float64 else {}
    return {name: np.array([s], dtype=compute) for name, s in (SCALES | wide).items()}


def mixed_scales(compute, count, seed=0):
    """Return `count` scales. Every third one is from SCALES or WIDE_SCALES."""
    rng = np.random.default_rng([seed, count])
    usual = np.exp2(rng.uniform(-12, 4, count))
    odd = np.concatenate(list(scales_for(compute).values()))
    usual[:: max(1, 3)] = rng.choice(odd, usual[::3].size)
    return cast(usual, compute)


def usual_scales(compute, count, seed=0):
    """Return `count` scales within the limits of the fast paths."""
    return cast(
        np.exp2(np.random.default_rng([seed, count]).uniform(-12, 4, count)), compute
    )


def at_level(isa, function, *args, **options):
    """Call a function with the kernels of an instruction set."""
    before = _core.use_isa(isa)
    try:
        return function(*args, **options)
    finally:
        _core.use_isa(before)


quantize_at, dequantize_at, requantize_at = [
    lambda isa, *args, function=function, **options: at_level(
        isa, function, *args, **options
    )
    for function in (pq.quantize, pq.dequantize, pq.requantize)
]


def choose_qparams_at(isa, x, **options):
    """Choose the scale and the zero point with the kernels of an instruction set."""
    p = at_level(isa, pq.choose_qparams, x, **options)
    return p.scale, p.zero_point


def expected_codes(isa, x, scale, zero_point=0, **options):
    """Return the codes to expect from an instruction set.

    Exact arithmetic defines the codes of scalar, and scalar defines the codes of SIMD sets.
    Parameters have one element, or an element for each element of `x`.
    """
    if isa == "scalar":
        return oracle.quantize(x, scale, zero_point, **options)
    axis = tuple(range(x.ndim)) if np.size(scale) > 1 else None
    return quantize_at("scalar", x, scale, zero_point, axis=axis, **options)


def expected_reals(isa, q, scale, zero_point=0, **options):
    """Return the numbers to expect from an instruction set, like `expected_codes`."""
    if isa == "scalar":
        return oracle.dequantize(q, scale, zero_point, **options)
    axis = tuple(range(q.ndim)) if np.size(scale) > 1 else None
    return dequantize_at("scalar", q, scale, zero_point, axis=axis, **options)


# ---- Granularity ----

# Shapes of data, and granularities (axis, block size) to test with each shape. FORMS has a
# row for each pair.
GRANULARITIES = {
    (): [(None, None)],
    (9,): [(None, None)],
    (0, 3): [(1, None)],
    (3, 0): [(0, None)],
    (100, 14, 5): [(1, 7)],
    (5, 77): [(1, 7)],
    (5,): [(0, None), (-1, None)],
    (3, 4): [(0, None), (1, None), (-1, None), (-2, None)],
    (2, 3, 7, 7): [
        *((axis, None) for axis in (0, 1, 2, 3, (1,), (0, 1), (1, 0), (-1, 0))),
        *((axis, None) for axis in ((1, 3), (0, 2), (0, 1, 2, 3), (3, 2, 1, 0))),
    ],
    (2, 1, 7, 1): [((0, 1), None), ((0, 3), None)],
    (1, 6, 1): [(1, None)],
    (64,): [(0, 32), (None, None)],
    (65,): [(0, 32)],
    (63,): [(0, 32)],
    (10,): [(0, 3), (-1, 3), (0, 9)],
    (4, 70): [(1, 32), (0, 3)],
    (70, 4): [(0, 32), (-2, 32), (1, 3)],
    (3, 50, 5): [(1, 16), (1, 50), (1, 1000), (2, 1)],
    (7, 9): [(None, blocks) for blocks in ((2, 4), (7, 4), (1, 9), (9, 1), (1, 1))],
    (9, 40): [(None, (4, 32))],
    (5, 6, 7): [(None, (2, 3, 4)), (None, (5, 1, 4))],
    (2, 3, 4, 5): [(None, (2, 2, 2, 2))],
    (6,): [(None, (4,))],
    (2, 3000): [(1, None), (1, 128)],
    (3000, 2): [(0, None)],
    (3, 3000): [(0, None), ((0, 1), None)],
    (3000, 3): [(1, None), (0, 128)],
    (2, 3, 700): [((0, 1, 2), None)],
    (40, 1000): [(None, (16, 300))],
    (90, 4, 3, 3): [(2, 2), (3, 2), ((0, 3), None)],
    (60, 5, 7): [(None, (1, 2, 3))],
    (60, 56): [(1, 30), (1, 16)],
    (2500, 1): [(0, 2)],
    (3, 1100): [(1, 5)],
    (700,): [(None, None)],
    (1100,): [(0, None)],
    (3, 40): [(0, None), (1, None)],
    (40, 3): [(-1, None)],
    (1030,): [(0, 513), (0, 512)],
    (1200,): [(0, 100)],
    (70,): [(0, 33)],
    (4, 96): [(1, 32), (1, 16), (1, 8)],
    (60, 9): [(1, 2)],
    (1000, 3): [(1, None)],
    (3, 1000): [(0, None), (1, None)],
    (2, 2100): [(1, 1050)],
    (4099,): [(None, None), (0, 32), (0, 3)],
    (1027,): [(0, None), (0, 32)],
    (3, 65): [(0, None), (-1, None), (1, 32), (0, 2)],
    (33, 5): [(None, None)],
    (33, 65): [(0, 10), (1, 33), (None, (4, 16)), ((0, 1), None)],
    (96, 40): [(0, 32), (1, 8)],
    (5, 1003): [(0, None), (1, None), (1, 33)],
    (1003, 5): [(0, None), (0, 33)],
    (3, 34, 37): [(1, None), (1, 16), (2, 5)],
    (9, 41): [(None, (4, 32))],
}
FORMS = [(shape, *how) for shape, some in GRANULARITIES.items() for how in some]


def expand(parameter, shape, axis=None, block_size=None):
    """Expand a parameter of blocks or axes to an array of shape `shape`."""
    parameter = np.asarray(parameter)
    if parameter.size == 1:
        return np.full(shape, parameter.reshape(-1)[0], dtype=parameter.dtype)
    rank = len(shape)
    if block_size is not None and not np.iterable(block_size):
        blocks = [1] * rank
        blocks[axis] = block_size
    elif block_size is not None:
        blocks = list(block_size)
    else:
        axes = sorted(a % rank for a in (axis if np.iterable(axis) else [axis]))
        kept = [shape[a] if a in axes else 1 for a in range(rank)]
        parameter = parameter.reshape(kept)
        blocks = [1 if a in axes else max(shape[a], 1) for a in range(rank)]
    index = np.ix_(*(np.arange(n) // b for n, b in zip(shape, blocks, strict=True)))
    return parameter[index]


def parameter_shape(shape, axis=None, block_size=None):
    """Return the shape of the scale for a granularity."""
    if axis is None and block_size is None:
        return ()
    if block_size is None:
        axes = sorted(a % len(shape) for a in (axis if np.iterable(axis) else [axis]))
        return tuple(shape[a] for a in axes)
    if np.iterable(block_size):
        return tuple(-(-n // b) for n, b in zip(shape, block_size, strict=True))
    result = list(shape)
    result[axis] = -(-shape[axis] // block_size)
    return tuple(result)


def draw_granularity(rng, shape):
    """Return a random axis and a random block size that fit a shape."""
    ndim = len(shape)
    kind = rng.integers(5) if ndim else 0
    if kind == 1:
        return int(rng.integers(-ndim, ndim)), None
    if kind == 2:
        return int(rng.integers(-ndim, ndim)), int(rng.integers(1, 40))
    if kind == 3:
        return None, tuple(int(n) for n in rng.integers(1, 20, ndim))
    if kind == 4:
        some = rng.permutation(ndim)[: int(rng.integers(1, ndim + 1))]
        return tuple(int(axis) for axis in some), None
    return None, None


def parameters_of(form, name, source="float32", seed=0, make=usual_scales):
    """Return scale, zero point, axis and block size for a row of FORMS and a code type."""
    shape, axis, block = form
    params = parameter_shape(shape, axis, block)
    count = int(np.prod(params))
    kwargs = {
        "scale": make(compute_dtype(source), count, seed).reshape(params),
        "axis": axis,
        "block_size": block,
    }
    if TYPES[name].kind == "integer":
        lo, hi = TYPES[name].lowest, TYPES[name].highest
        zeros = np.resize(np.roll(np.arange(lo, hi + 1), lo), count)  # 0, 1, ..., lo, ...
        kwargs["zero_point"] = zeros.reshape(params).astype(np.int16)
    return kwargs


# Guarded memory

CANARY = 0xA5
MARGIN = 96


class Guarded:
    """An array at any byte offset. Known bytes before and after it detect wrong writes."""

    def __init__(self, dtype, shape, offset=0):
        dtype = np.dtype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        raw = np.full(size + 2 * MARGIN + 128, CANARY, dtype=np.uint8)
        start = -raw.ctypes.data % 64 + MARGIN // 32 * 32 + offset
        self.before, self.after = raw[:start], raw[start + size :]
        self.array = raw[start : start + size].view(dtype).reshape(shape)

    def check(self):
        __tracebackhide__ = True
        assert (self.before == CANARY).all(), "wrote before the array"
        assert (self.after == CANARY).all(), "wrote after the array"


def misaligned(values, offset):
    """Return a copy that begins `offset` bytes after a 64-byte boundary."""
    copy = Guarded(values.dtype, values.shape, offset).array
    copy[...] = values
    return copy


def _swapped(a):
    """Return the array in the opposite byte order, but an array of ml_dtypes unchanged."""
    own = a.dtype.isbuiltin == 1 and a.dtype.kind in "iuf"
    return a.astype(a.dtype.newbyteorder()) if own else a


def _read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


class Lender:
    """An object that NumPy converts to an array only by the method `__array__`."""

    def __init__(self, array):
        self.array = np.asarray(array)

    def __array__(self, dtype=None, copy=None):
        return self.array


def lent(value):
    """Wrap an array or a scalar of NumPy in a Lender. Return any other value unchanged."""
    return Lender(value) if isinstance(value, np.ndarray | np.generic) else value


# Functions that copy an array and change its strides, its alignment or its byte order.
LAYOUTS = {
    "contiguous": np.copy,
    "columns": lambda a: a.copy("F"),
    "gaps": lambda a: np.repeat(a, 3, axis=-1)[..., 1::3] if a.ndim else a,
    "rows apart": lambda a: np.repeat(a, 3, axis=0)[1::3] if a.ndim else a,
    "reversed": lambda a: np.flip(np.flip(a).copy()) if a.ndim else a,
    "reversed columns": lambda a: np.flip(np.flip(a).copy("F")) if a.ndim else a,
    "misaligned": lambda a: misaligned(a, 13),
    "byte order": _swapped,
    "read-only": _read_only,
}
FOR_OUT = [name for name in LAYOUTS if name != "read-only"]


def draw_layout(rng, array):
    """Copy an array with a random function of LAYOUTS."""
    return LAYOUTS[rng.choice([*LAYOUTS])](array)


def poisoned(dtype, shape):
    """Return an array filled with CANARY bytes, to detect writes."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.full(count, CANARY, dtype=np.uint8).view(np.dtype(dtype)).reshape(shape)


def untouched(array):
    """Return true if every byte of an array from `poisoned` is unchanged."""
    return bool((np.ascontiguousarray(array).view(np.uint8) == CANARY).all())


def observed(x, **options):
    """Return an Observer with a histogram after an update with `x`."""
    observer = pq.Observer(**{"histogram": True, "nonfinite": "ignore", **options})
    observer.update(x)
    return observer


def peak_of(call):
    """Return the result of a call, and its peak of allocated memory in bytes."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


# Threads


def at_once(count, work):
    """Run `work(i)` on `count` threads that start together, and return all results."""
    barrier = threading.Barrier(count)
    results, errors = [None] * count, []

    def run(i):
        try:
            barrier.wait(60)
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
        assert not t.is_alive()
    if errors:
        raise errors[0]
    return results


# Subprocesses


def run_python(code, timeout=600, **environment):
    """Run code in a new interpreter that does not import from the current folder.

    If set, the variable PYQUANT_TEST_RUNNER is a command that runs the interpreter, for
    example an emulator.
    """
    runner = shlex.split(os.environ.get("PYQUANT_TEST_RUNNER", ""))
    return subprocess.run(
        [*runner, sys.executable, "-P", "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )


# Parametrization


def name_of(value):
    """Return a readable id of a parameter."""
    return value.name if isinstance(value, np.dtype) else str(value)


def each(names, *choices):
    """Make a separate test for each combination of choices, with readable ids."""
    return pytest.mark.parametrize(names, list(itertools.product(*choices)), ids=name_of)


def loop(names, *choices, draws=None):
    """Run a test once with every combination of choices, and report it as one test.

    With `draws`, try only `draws` random combinations, or four times as many if pytest runs
    with --everything. All values of a choice occur about equally often.
    """
    names = names.split(", ")

    def decorate(test):
        def looped(**given):
            rows = _combinations(choices, draws, given)
            _run_each(test, given, (dict(zip(names, row, strict=True)) for row in rows))

        return _named_after(test, looped, names)

    return decorate


def _run_each(test, given, runs):
    """Run a test with each set of values. Skip the test if each run was skipped."""
    passed, skipped = 0, None
    for values in runs:
        try:
            with case(**values):
                test(**given, **values)
            passed += 1
        except pytest.skip.Exception as error:
            skipped = error
    if skipped and not passed:
        raise skipped


def _combinations(choices, draws, given):
    choices = [list(choice) for choice in choices]
    total = math.prod(map(len, choices))
    draws = total if draws is None else amount(draws, 4 * draws)
    if draws >= total:
        return itertools.product(*choices)
    # The seed depends on types and instruction set, to test more combinations.
    text = ",".join(name_of(v) for v in given.values() if isinstance(v, str | np.dtype))
    rng = np.random.default_rng([total, zlib.crc32(text.encode())])
    return zip(*(_drawn(choice, draws, rng) for choice in choices), strict=True)


def _drawn(choice, draws, rng):
    """Return `draws` values of a choice: all values in random order, repeated as needed."""
    rounds = -(-draws // len(choice))
    order = np.concatenate([rng.permutation(len(choice)) for _ in range(rounds)])
    return [choice[i] for i in order[:draws].tolist()]


def by_family(name, types):
    """Parametrize over families of types. One test runs all types of a family in a loop."""
    families = {}
    for one in types:
        families.setdefault(family_of(one), []).append(one)

    def decorate(test):
        def looped(**given):
            family = given.pop(name)
            _run_each(test, given, ({name: one} for one in family))

        mark = pytest.mark.parametrize(name, families.values(), ids=families)
        return mark(_named_after(test, looped))

    return decorate


def family_of(one):
    """Return the name of the family of a type. Types of a family use similar kernels."""
    row = TYPES[name_of(one)]
    if row.kind == "integer":
        return "sub-byte" if row.bits < 8 else f"{row.bits}-bit"
    return (
        row.name if row.kind == "real" else "float8" if row.bits == 8 else "sub-byte float"
    )


def _named_after(test, looped, names=()):
    """Copy name, marks and signature of a test to its loop. Omit the parameters `names`."""
    signature = inspect.signature(test)
    rest = [p for key, p in signature.parameters.items() if key not in names]
    looped.__signature__ = signature.replace(parameters=rest)
    for attribute in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(looped, attribute, getattr(test, attribute))
    looped.__dict__.update(test.__dict__)
    return looped


@contextmanager
def split_small_arrays(monkeypatch, cpus=8):
    """Change limits, so that calls with `threads=` split arrays of any size into parts."""
    from pyquant import _threads

    with monkeypatch.context() as patch:
        patch.setattr(_threads, "MIN_PART_BYTES", 1)
        patch.setattr(_threads, "cpu_count", lambda: cpus)
        yield


def set_attribute(array, name, value):
    """Set the shape or the dtype of an array. NumPy 2.5 deprecates the assignment."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        setattr(array, name, value)


# Granularities that a reader can infer from the shapes of the stored scales.
STORED = {
    "tensor": {},
    "axis 0": {"axis": 0},
    "axis 1": {"axis": 1},
    "block": {"axis": 1, "block_size": 32},
    "square": {"block_size": (4, 128)},
}


def named_parts(x, dtype="int8", name="w", **how):
    """Quantize `x`. Return parameters, codes, and a file's arrays by name.

    The names are those that compressed-tensors uses.
    """
    p = pq.choose_qparams(x, dtype=dtype, **how)
    q = p.quantize(x)
    parts = {name: q, f"{name}_scale": np.array(p.scale)}
    if p.zero_point is not None and np.any(p.zero_point):
        parts[f"{name}_zero_point"] = np.array(p.zero_point)
    if how.get("axis") == 1 and p.block_size is None:  # the dimension 1 marks the axis
        parts = {key: part if key == name else part[None] for key, part in parts.items()}
    return p, q, parts


def copies(value):
    """Return copies of a value, made by copy, deepcopy, each pickle protocol, and JSON."""
    text = json.dumps(value.to_dict(), allow_nan=False)
    protocols = range(pickle.HIGHEST_PROTOCOL + 1)
    return [
        copy.copy(value),
        copy.deepcopy(value),
        *(pickle.loads(pickle.dumps(value, protocol)) for protocol in protocols),
        type(value).from_dict(json.loads(text)),
    ]
