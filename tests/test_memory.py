"""Tests that a call allocates little memory beyond its result, with any array strides."""

import os
import sys

import numpy as np
import pytest
from support import HAVE_BFLOAT16, REALS, bfloat16, loop, misaligned, peak_of

import pyquant as pq
from pyquant.weights.blocks import block_format

N = 1_500_000
ROWS = N // 1000
SMALL = 1 << 20


def peak(call):
    """Return the number of bytes of the result and the peak of allocated bytes."""
    call()
    result, most = peak_of(call)
    return np.asarray(result).nbytes, most


def ones(dtype, shape=(ROWS, 1000)):
    return np.ones(shape, dtype)


SPREAD = np.random.default_rng(5).standard_normal(N, np.float32).reshape(ROWS, 1000)
CODES = np.resize(np.arange(-100, 100, dtype=np.int32), SPREAD.shape)
NOISE = {"rounding": "stochastic", "seed": 1}
LAYOUTS = {
    "contiguous": lambda a: a,
    "columns apart": lambda a: np.repeat(a, 2, 1)[:, ::2],
    "transposed": lambda a: a.T,
    "reversed": lambda a: a[::-1, ::-1],
    "big-endian": lambda a: a.astype(a.dtype.newbyteorder(">")),
    "misaligned": lambda a: misaligned(a, 1),
    "broadcast": lambda a: np.broadcast_to(a[:1, :1], a.shape),
}
# Pairs of a type of `x` and a type of `q`.
TYPES = [("f4", "i4"), ("f2", "i1"), ("f8", "i8"), *[(bfloat16, "u2")] * HAVE_BFLOAT16]
# Shapes of `x`. The parameters and results below exist for both shapes.
SHAPES = (SPREAD.shape, SPREAD.T.shape)
EACH = {shape: np.ones(shape) for shape in SHAPES}
ZEROS = {shape: np.ones(shape, np.int64) for shape in SHAPES}
HALVES = {shape: np.ones((shape[0], -(-shape[1] // 2))) for shape in SHAPES}
LINE = {n: np.ones(n, ">f4") for n in SHAPES[0]}
OUT = {shape: np.repeat(np.ones(shape, ">i2"), 2, 1)[::-1, ::2] for shape in SHAPES}
# Calls to measure. `x` is an array of real numbers, and `q` is an array of codes.
CALLS = """
pq.quantize(x, 0.5)
pq.quantize(x, EACH[x.shape], axis=(0, 1))
pq.quantize(x, EACH[x.shape], ZEROS[x.shape], axis=(0, 1), dtype="i1")
pq.quantize(x, EACH[x.shape], axis=1, block_size=1)
pq.quantize(x, HALVES[x.shape], axis=1, block_size=2)
pq.quantize(x, LINE[x.shape[0]], axis=0)
pq.quantize(x, LINE[x.shape[1]], axis=1)
pq.quantize(x, 0.5, rounding="half_up")
pq.quantize(x, 0.5, precision="float16")
pq.quantize(x, 0.5, dtype="int32")
pq.quantize(x, 0.5, threads=2)
pq.quantize(x, 0.5, dtype="int4", packed=True)
pq.quantize(x, 0.5, dtype="int16", out=OUT[x.shape])[:0]
pq.quantize(x, 0.5, **NOISE)
pq.dequantize(q, 0.5)
pq.dequantize(q, 0.5, threads=2, dtype="float64")
pq.dequantize(q, EACH[q.shape], axis=(0, 1))
pq.dequantize(q, EACH[q.shape], axis=1, block_size=1, dtype="float16")
pq.dequantize(q, LINE[q.shape[0]], axis=0)
pq.dequantize(q, LINE[q.shape[1]], axis=1)
pq.dequantize(NIBBLES, 0.5, threads=2)
pq.choose_qparams(x).scale.ravel()
pq.choose_qparams(x, axis=0).scale[:0]
pq.choose_qparams(x, axis=1).scale[:0]
pq.requantize(q, 0.5)
pq.requantize(q, 0.5, arithmetic="tflite")
pq.requantize(q, 0.5, arithmetic="rndnu")
pq.requantize(q, 0.5, arithmetic="fbgemm")
pq.requantize(q, LINE[q.shape[1]], axis=1, bias=np.arange(q.shape[1]))
pq.dynamic_quantize(x)[0]
pq.dynamic_quantize(x, axis=0)[0]
pq.dynamic_quantize(x, axis=1)[0]
pq.dynamic_quantize(x, axis=1, block_size=125, dtype="uint8")[0]
pq.dynamic_quantize(x, axis=0, dtype="int4", packed=True)[0].data
pq.dynamic_quantize(x, axis=0, **NOISE)[0]
pq.dynamic_quantize(x, axis=0, threads=2)[0]
pq.fake_quantize(x, 0.5)
pq.fake_quantize(x, 0.5, dtype="int32")
pq.fake_quantize(x, 0.5, **NOISE)
pq.fake_quantize(x, 0.5, 3, threads=2)
pq.openvino.fake_quantize(x, -1, 1, -1, 1, 256)
pq.choose_qparams(x, axis=0, dtype="int4", method="mse").scale[:0]
pq.choose_qparams(x, dtype="int4", method="mse", candidates=[1]).scale
pq.measure_error(x, x).mse
pq.measure_error(x, x, axis=1).mse
pq.measure_error(x, x, threads=2).mse
STEP.measure_error(x).mse
STEP.measure_error(x, axis=0).mse
observed(x)
observed(x, histogram=True)
observed(x, axis=1)
observed(x, histogram=True, nonfinite="ignore")
""".strip().splitlines()
NIBBLES = pq.quantize(SPREAD, 0.5, dtype="int4", packed=True)
STEP = pq.QParams(0.5, 0, "int8")


def observed(x, **options):
    observer = pq.Observer(**options)
    observer.update(x)
    return observer.max


@pytest.mark.parametrize("call", CALLS)
@loop("layout, types", LAYOUTS, TYPES, draws=9)
def test_call(call, layout, types):
    x, q = (
        LAYOUTS[layout](a.astype(t)) for a, t in zip((SPREAD, CODES), types, strict=True)
    )
    if call.startswith("pq.openvino") and x.dtype.itemsize == 8:
        return  # The operator rejects float64.
    names = {**globals(), "x": x, "q": q}
    size, most = peak(lambda: eval(call, names))
    assert most < size + SMALL


def test_choose_qparams_of_many_groups():
    """The call allocates the parameters and the copy in QParams."""
    x = ones("f4")
    scales, most = peak(lambda: pq.choose_qparams(x, axis=(0, 1)).scale)
    zero_points = x.size
    assert most < 2 * (scales + zero_points) + SMALL


def test_mask():
    x, mask = SPREAD, np.empty(SPREAD.shape, bool)
    out = np.empty_like(x)
    _, most = peak(lambda: pq.fake_quantize(x, 0.01, mask=mask, out=out))
    assert most < SMALL
    assert not mask.all()


@loop("method, dtype, axis", ["minmax", "percentile"], REALS, [None, 1])
def test_calibrate(method, dtype, axis):
    """calibrate allocates memory for counters, but no memory in proportion to the batch."""
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
    """An update writes to new memory pages only for its counters, and not for copies."""
    import resource  # Only POSIX has this module. The mark above selects Linux.

    keys = np.arange(1 << 16, dtype="u2").view("f2")
    x = np.resize(keys[np.isfinite(keys)], (512, 256))
    bytes_of_counters = 2 * 31 * 8 * 128 * 256 * 2  # float16 values * channels * 2 bytes

    def touched():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt * resource.getpagesize()

    before = touched()
    pq.Observer(axis=1, histogram=True).update(x)
    assert touched() - before < 3 * bytes_of_counters
