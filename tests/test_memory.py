"""A call allocates its result and little else, for every layout of its arguments."""

import os
import sys
import tracemalloc

import numpy as np
import pytest
from support import REALS, loop

import pyquant as pq
from pyquant import openvino
from pyquant.weights.blocks import block_format

N = 1_500_000
ROWS = N // 1000
SMALL = 1 << 20


def peak(call):
    """Return the bytes of the result and the largest number of allocated bytes."""
    call()
    tracemalloc.start()
    try:
        result = call()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return result.nbytes, most


def ones(dtype, shape=(ROWS, 1000)):
    return np.ones(shape, dtype)


SCALE_64 = np.ones((ROWS, 1000))
ROW, COLUMN = np.ones(1000), np.ones(ROWS, ">f4")

QUANTIZE = {
    **{f"contiguous {d.name}": (lambda d=d: (ones(d), {})) for d in REALS},
    "columns apart": lambda: (ones("f4", (ROWS, 2000))[:, ::2], {}),
    "transposed": lambda: (ones("f4").T, {}),
    "reversed": lambda: (ones("f4")[::-1, ::-1], {}),
    "big-endian": lambda: (ones(">f4"), {}),
    "big-endian float64": lambda: (ones(">f8"), {}),
    "misaligned": lambda: (ones("u1", (N * 4 + 1,))[1:].view("f4"), {}),
    "broadcast": lambda: (np.broadcast_to(np.float32(1), (ROWS, 1000)), {}),
    "a scale for each element": lambda: (
        ones("f4"),
        {"scale": ones("f4"), "axis": (0, 1)},
    ),
    "float64 scales": lambda: (ones("f4"), {"scale": SCALE_64, "axis": (0, 1)}),
    "float64 scales of a transposed array": lambda: (
        ones("f4", (1000, ROWS)).T,
        {"scale": SCALE_64, "axis": (0, 1)},
    ),
    "int64 zero points": lambda: (
        ones("f4"),
        {"scale": SCALE_64, "axis": (0, 1), "zero_point": ones("i8"), "dtype": "int8"},
    ),
    "blocks of one": lambda: (
        ones("f4"),
        {"scale": SCALE_64, "axis": 1, "block_size": 1},
    ),
    "small blocks": lambda: (
        ones("f2"),
        {"scale": ones("f8", (ROWS, 500)), "axis": 1, "block_size": 2},
    ),
    "rows": lambda: (ones("f4"), {"scale": COLUMN, "axis": 0}),
    "columns": lambda: (ones("f4"), {"scale": ROW, "axis": 1}),
    "another mode": lambda: (ones("f4"), {"rounding": "half_up"}),
    "another precision": lambda: (ones("f4"), {"precision": "float16"}),
    "32 bit codes": lambda: (ones("f4"), {"dtype": "int32"}),
    "two threads": lambda: (ones("f4"), {"threads": 2}),
}


@pytest.mark.parametrize("name", QUANTIZE)
def test_quantize(name):
    x, given = QUANTIZE[name]()
    kwargs = {"scale": 0.5, "dtype": "int8", **given}
    size, most = peak(lambda: pq.quantize(x, **kwargs))
    assert most < size + SMALL
    out = np.empty(x.shape, kwargs["dtype"])
    _, most = peak(lambda: pq.quantize(x, **kwargs, out=out))
    assert most < SMALL
    if not given:
        p = pq.quantize(x, 0.5, dtype="int4", packed=True)
        size, most = peak(lambda: pq.quantize(x, 0.5, dtype="int4", packed=True))
        assert most < size + SMALL
        size, most = peak(lambda: pq.dequantize(p, 0.5, threads=2))
        assert most < size + SMALL


DEQUANTIZE = {
    **{f"contiguous to {d.name}": (lambda d=d: (ones("i1"), {"dtype": d})) for d in REALS},
    "columns apart": lambda: (ones("i1", (ROWS, 2000))[:, ::2], {}),
    "transposed": lambda: (ones("u2").T, {}),
    "big-endian": lambda: (ones(">i4"), {}),
    "float64 scales": lambda: (ones("i1"), {"scale": SCALE_64, "axis": (0, 1)}),
    "blocks of one": lambda: (
        ones("u1"),
        {"scale": SCALE_64, "axis": 1, "block_size": 1},
    ),
    "rows": lambda: (ones("i1"), {"scale": COLUMN, "axis": 0}),
    "columns": lambda: (ones("i1"), {"scale": ROW, "axis": 1}),
    "two threads": lambda: (ones("i1"), {"threads": 2}),
}


@pytest.mark.parametrize("name", DEQUANTIZE)
def test_dequantize(name):
    q, kwargs = DEQUANTIZE[name]()
    size, most = peak(lambda: pq.dequantize(q, **{"scale": 0.5, **kwargs}))
    assert most < size + SMALL


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("dtype", ["f4", "f2", "f8", ">f4"])
def test_choose_qparams(dtype, axis, order):
    x = np.asarray(ones(dtype), order=order)

    def call():
        pq.choose_qparams(x, axis=axis)
        return x[:0]

    _, most = peak(call)
    assert most < SMALL


def test_choose_qparams_of_many_groups():
    """The parameters, and QParams' own copy of them."""
    x = ones("f4")
    scales, most = peak(lambda: pq.choose_qparams(x, axis=(0, 1)).scale)
    zero_points = x.size
    assert most < 2 * (scales + zero_points) + SMALL


@pytest.mark.parametrize(
    "layout", ["columns apart", "reversed", "big-endian", "transposed"]
)
def test_out_of_any_layout(layout):
    out = {
        "columns apart": lambda: ones("i2", (ROWS, 2000))[:, ::2],
        "reversed": lambda: ones("i2")[::-1, ::-1],
        "big-endian": lambda: ones(">i2"),
        "transposed": lambda: ones("i2", (1000, ROWS)).T,
    }[layout]()
    x = ones("f4")
    _, most = peak(lambda: pq.quantize(x, 0.5, dtype="int16", out=out))
    assert most < SMALL


# ---- parameters, errors and accumulators ----

SPREAD = np.random.default_rng(5).standard_normal(N, np.float32).reshape(ROWS, 1000)
NOISE = {"rounding": "stochastic", "seed": 1}
LAYOUTS = {
    "contiguous": lambda: SPREAD,
    "columns apart": lambda: np.repeat(SPREAD, 2, 1)[:, ::2],
    "columns apart, float64": lambda: np.repeat(SPREAD.astype("f8"), 2, 1)[:, ::2],
    "transposed": lambda: SPREAD.T,
    "big-endian": lambda: SPREAD.astype(">f4"),
}
# Calls with an array, by name.
CALLS = {
    "dynamic_quantize": lambda x: pq.dynamic_quantize(x)[0],
    "dynamic_quantize of rows": lambda x: pq.dynamic_quantize(x, axis=0)[0],
    "dynamic_quantize of columns": lambda x: pq.dynamic_quantize(x, axis=1)[0],
    "dynamic_quantize of blocks": (
        lambda x: pq.dynamic_quantize(x, axis=1, block_size=125, dtype="uint8")[0]
    ),
    "dynamic_quantize, packed": (
        lambda x: pq.dynamic_quantize(x, axis=0, dtype="int4", packed=True)[0].data
    ),
    "dynamic_quantize, stochastic": lambda x: pq.dynamic_quantize(x, axis=0, **NOISE)[0],
    "dynamic_quantize, threads": lambda x: pq.dynamic_quantize(x, axis=0, threads=2)[0],
    "fake_quantize": lambda x: pq.fake_quantize(x, 0.5),
    "fake_quantize of 32 bits": lambda x: pq.fake_quantize(x, 0.5, dtype="int32"),
    "fake_quantize, stochastic": lambda x: pq.fake_quantize(x, 0.5, **NOISE),
    "fake_quantize, threads": lambda x: pq.fake_quantize(x, 0.5, 3, threads=2),
    "openvino": lambda x: openvino.fake_quantize(x, -1, 1, -1, 1, 256),
    "stochastic": lambda x: pq.quantize(x, 0.5, **NOISE),
    "choose_qparams by search": (
        lambda x: pq.choose_qparams(x, axis=0, dtype="int4", method="mse").scale[:0]
    ),
    "choose_qparams by search of all": (
        lambda x: pq.choose_qparams(x, dtype="int4", method="mse", candidates=[1]).scale
    ),
    "measure_error": lambda x: measured(pq.measure_error(x, x)),
    "measure_error of columns": lambda x: measured(pq.measure_error(x, x, axis=1)),
    "measure_error, threads": lambda x: measured(pq.measure_error(x, x, threads=2)),
    "QParams.measure_error": lambda x: measured(STEP.measure_error(x)),
    "QParams.measure_error of rows": (lambda x: measured(STEP.measure_error(x, axis=0))),
    "Observer": lambda x: observed(x),
    "Observer with a histogram": lambda x: observed(x, histogram=True),
    "Observer of columns": lambda x: observed(x, axis=1),
    "Observer that ignores": lambda x: observed(x, histogram=True, nonfinite="ignore"),
}
STEP = pq.QParams(0.5, 0, "int8")
ONLY_FLOAT32 = ("openvino",)


def measured(report):
    return np.asarray(report.mse)


def observed(x, **options):
    observer = pq.Observer(**options)
    observer.update(x)
    return np.asarray(observer.max)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_call(name, layout):
    if "float64" in layout and name in ONLY_FLOAT32:
        pytest.skip("the operator has no float64 input")
    x = LAYOUTS[layout]()
    size, most = peak(lambda: CALLS[name](x))
    assert most < size + SMALL


def test_mask():
    x, mask = SPREAD, np.empty(SPREAD.shape, bool)
    out = np.empty_like(x)
    _, most = peak(lambda: pq.fake_quantize(x, 0.01, mask=mask, out=out))
    assert most < SMALL
    assert not mask.all()


SUMS = {
    "contiguous": lambda dtype: ones(dtype),
    "columns apart": lambda dtype: ones(dtype, (ROWS, 2000))[:, ::2],
    "transposed": lambda dtype: ones(dtype, (1000, ROWS)).T,
    "big-endian": lambda dtype: ones(f">{dtype}"),
}


@pytest.mark.parametrize("arithmetic", ["float32", "tflite", "rndnu", "fbgemm"])
@pytest.mark.parametrize("dtype", ["i4", "i8"])
@pytest.mark.parametrize("layout", SUMS)
def test_requantize(layout, dtype, arithmetic):
    q = SUMS[layout](dtype)
    multipliers, biases = np.full(1000, 0.5, np.float32), np.arange(1000)
    for options in ({}, {"axis": 1, "bias": biases}):
        multiplier = multipliers if options else 0.5
        size, most = peak(
            lambda multiplier=multiplier, options=options: pq.requantize(
                q, multiplier, arithmetic=arithmetic, **options
            )
        )
        assert most < size + SMALL


@loop("method, dtype, axis", ["minmax", "percentile"], REALS, [None, 1])
def test_calibrate(method, dtype, axis):
    """The memory of counters depends on channels and exponents, not on the batch."""
    x = SPREAD.astype(dtype)
    how = {"method": method, "axis": axis, "mantissa_bits": 3 if axis is None else 0}
    _, most = peak(lambda: pq.calibrate([x], **how).scale)
    assert most < 3 * SMALL


def test_join():
    parts = block_format("Q4_0").split(ones("u1", (ROWS, 18 * 32)))
    size, most = peak(lambda: block_format("Q4_0").join(**parts))
    assert most < size + SMALL


@pytest.mark.skipif(
    sys.platform != "linux"
    or "PYQUANT_EMULATED" in os.environ
    or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="needs the allocator and the counters of Linux",
)
def test_growing_counters_are_not_copied():
    """An update touches pages for its counters and its result, and for no copies."""
    import resource  # of POSIX: the mark above selects Linux

    keys = np.arange(1 << 16, dtype="u2").view("f2")
    x = np.resize(keys[np.isfinite(keys)], (512, 256))
    bytes_of_counters = 2 * 31 * 8 * 128 * 256 * 2  # exponents, and their parts, of f2

    def touched():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt * resource.getpagesize()

    before = touched()
    pq.Observer(axis=1, histogram=True).update(x)
    assert touched() - before < 3 * bytes_of_counters
