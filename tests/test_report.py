# SPDX-License-Identifier: Apache-2.0
"""Tests of error reports: sums, compared with exact arithmetic, addition, and text."""

import math
import pickle
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import pytest
import sums_oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from support import at_level, dtype_of, expand, loop

import pyquant as pq
from pyquant import _core
from pyquant.report import _made

OTHERS = dict.fromkeys(("exponent", "low", "high", "bad_scales"), 0)
X = np.float32([0.1, -0.7, 1.25, 30, -2.5, 12])


def pair(rng, shape, real="float32", spread=1.0):
    """Return a random array and a copy with small errors."""
    x = rng.standard_normal(shape) * spread
    y = x + rng.standard_normal(shape) * spread * 1e-3
    return x.astype(real), y.astype(real)


def check(sums, x, y):
    """Assert that the sums of a report equal the definition bit for bit."""
    found = {name: sums[name].item() for name in sums.dtype.names}
    assert found == {**sums_oracle.error_sums(x, y), **OTHERS}


# ---- vectors ----


def test_vector():
    p = pq.QParams(np.float32(30 / 127), 0, "int8")
    assert p.quantize(X).tolist() == [0, -3, 5, 127, -11, 51]
    report = p.measure_error(X)
    assert report.sqnr == 45.94959608574621
    assert report._sums["ee"] == 0.026741460367353087
    assert report._sums["xx"] == pytest.approx(1052.3124999836086, rel=1e-15, abs=0)
    assert report.max_error == 0.10000000149011612
    assert report.max_index == 0
    assert report.cosine == pytest.approx(0.999987547284526, rel=1e-15, abs=0)
    assert report == pq.measure_error(X, p.dequantize(p.quantize(X)))


def test_special_values():
    x = np.float32([1, np.nan, np.inf, 4, -np.inf, 0])
    y = np.float32([1, 2, np.inf, np.nan, 5, 0.5])
    report = pq.measure_error(x, y)
    assert (report.nan, report.inf, report.count) == (2, 2, 6)
    assert (report.max_error, report.max_index) == (0.5, 5)
    assert report.mse == 0.125


@pytest.mark.parametrize(
    ("x", "y", "sqnr", "cosine"),
    [
        ([1, 2], [1, 2], math.inf, 1.0),
        ([0, 0], [1, 0], -math.inf, math.nan),
        ([0, 0], [0, 0], math.nan, math.nan),
        ([], [], math.nan, math.nan),
    ],
)
def test_ratios_of_zeros_and_empty_arrays(x, y, sqnr, cosine):
    report = pq.measure_error(np.float32(x), np.float32(y))
    assert repr((report.sqnr, report.cosine)) == repr((sqnr, cosine)) or (
        report.sqnr == sqnr and report.cosine == pytest.approx(cosine)
    )
    if not x:
        assert math.isnan(report.mse)
        assert math.isnan(report.max_error)
        assert report.max_index == -1


# ---- the definition ----


@loop(
    "real, n",
    ["float32", "float64", "float16"],
    [1, 7, 8, 15, 16, 17, 1023, 1040, 4095, 4097, 70001],
)
def test_sums(isa, n, real, rng):
    x, y = pair(rng, n, real)
    check(at_level(isa, _core.measure, x, y)[0], x, y)


def test_sums_with_gaps(isa, rng):
    """Exclude elements with NaN or infinity from the sums, and add 0 to their lanes."""
    x, y = pair(rng, 9000)
    x[rng.integers(0, 9000, 50)] = np.nan
    y[rng.integers(0, 9000, 50)] = np.inf
    x[:20] = -np.inf
    check(at_level(isa, _core.measure, x, y)[0], x, y)


CHANGES = {
    "reversed": lambda a: a[::-1, :, ::2],
    "turned": lambda a: a.transpose(2, 0, 1),
    "part": lambda a: a[:, 1:4].swapaxes(0, 1),
    "swapped": lambda a: a.astype(a.dtype.newbyteorder()),
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "columns": lambda a: a[..., :1],
    "fortran": np.asfortranarray,
}


@loop("real", ["float32", "float64"])
def test_long_columns(real, rng):
    """Measure chunks of columns. The last chunk is smaller."""
    x, y = pair(rng, (70_001, 35), real)
    x[5000, 3], y[66_000, 20] = np.nan, np.inf
    if real == "float64":  # The core measures these columns in a second pass.
        x[:, 7] *= 1e200
        y[:, 9] *= 1e-300
    alone = pq.measure_error(x.T.copy(), y.T.copy(), axis=0)
    for threads in (1, 2):
        report = pq.measure_error(x, y, axis=1, threads=threads)
        assert report._sums.tobytes() == alone._sums.tobytes()
    check(alone._sums[34], x[:, 34], y[:, 34])


def test_mixed_types(rng):
    x, y = pair(rng, 3000)
    for other in ("float64", "float16"):
        y = y.astype(other)
        check(pq.measure_error(x, y)._sums, x, y)


def check_largest_error(report, x, y):
    """Compare the largest error with exact differences. Return the exact differences."""
    e = [Fraction(a) - Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    sizes = [abs(v) for v in e]
    assert report.max_error == float(max(sizes))
    assert report.max_index == sizes.index(max(sizes))
    return e


@loop("unit", [1e-300, 1e-160, 1e155, 1e307, 5e-324])
def test_far_float64(unit, rng):
    """Measure numbers with squares that overflow or underflow in float64."""
    x, y = pair(rng, 5000, "float64")
    x, y = np.clip(x * 3, -9, 9) * unit, np.clip(y * 3, -9, 9) * unit
    report = pq.measure_error(x, y)
    e = check_largest_error(report, x, y)
    noise = sum(v * v for v in e)
    signal = sum(Fraction(a) ** 2 for a in x.tolist())
    if noise:
        assert report.sqnr == pytest.approx(10 * math.log10(signal / noise), rel=1e-12)
    assert report.cosine == pytest.approx(1, rel=1e-2)


@loop(
    "arrays",
    [
        ([1e308, -1e308, 1e-320], [0, 0, 0]),
        ([1e200, 1e-320, -2e-320, 1e308], [1e200, 0, 0, 1e308]),
        ([1e200, 3, -4], [1e200, 0, 0]),
    ],
)
def test_largest_error_beside_far_larger_numbers(arrays):
    """Find the largest error, although scaling for the squares makes it 0 or subnormal."""
    x, y = (np.array(a, np.float64) for a in arrays)
    check_largest_error(pq.measure_error(x, y), x, y)


# ---- adding ----


def exactly_mergeable(report):
    """Return the statistics that do not depend on how an array is cut into parts."""
    fields = ("max_error", "max_index", "nan", "inf", "count", "saturated_low")
    return {name: repr(getattr(report, name)) for name in fields}


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_merging(sizes, seed):
    rng = np.random.default_rng(seed)
    x, y = pair(rng, (2, sum(sizes)))
    x[rng.random(x.shape) < 0.1] = np.nan
    cuts = np.cumsum(sizes)[:-1]
    parts = zip(np.split(x, cuts, axis=1), np.split(y, cuts, axis=1), strict=True)
    reports = [pq.measure_error(a, b, axis=0) for a, b in parts]
    whole = pq.measure_error(x, y, axis=0)
    merged = sum(reports[1:], reports[0])
    assert merged == sum(reports)
    assert exactly_mergeable(merged) == exactly_mergeable(whole)
    assert np.allclose(merged.mse, whole.mse, rtol=1e-13, atol=0, equal_nan=True)
    if len(reports) > 2:
        left, right = (reports[0] + reports[1]) + reports[2], reports[0] + sum(reports[1:3])
        assert exactly_mergeable(left) == exactly_mergeable(right)
    back = sum(reports[::-1])
    assert repr(back.max_error) == repr(whole.max_error)
    assert np.array_equal(back.count, whole.count)


@loop("axis", [None, 1])
def test_parts_with_the_borders_of_one_pass(axis, rng):
    """Add the reports of parts, from the left. The sum equals the report of the array."""
    n, rows = 1 << 16, (3 << 16) + 5
    x = rng.standard_normal((rows, 2) if axis else rows).astype(np.float32)
    y = x * np.float32(0.99)
    cuts = [slice(i, i + n) for i in range(0, rows, n)]
    reports = [pq.measure_error(x[cut], y[cut], axis=axis) for cut in cuts]
    assert reduce(add, reports) == pq.measure_error(x, y, axis=axis)
    if axis is None:
        p = pq.choose_qparams(x)
        assert reduce(add, [p.measure_error(x[cut]) for cut in cuts]) == p.measure_error(x)


def test_merging_of_far_exponents():
    small = pq.measure_error(np.array([3e-200]), np.array([1e-200]))
    large = pq.measure_error(np.array([3e200]), np.array([1e200]))
    for both in (small + large, large + small):
        assert both.max_error == 2e200
        assert both.sqnr == large.sqnr
        assert both.count == 2
    none = pq.measure_error(np.zeros(3), np.zeros(3))
    assert (none + small).sqnr == small.sqnr == (small + none).sqnr
    assert (none + small).mse == pytest.approx(0)
    x, y = np.array([3e200, -4e198]), np.array([1e200, 5e198])
    parts = [pq.measure_error(x[i : i + 1], y[i : i + 1]) for i in range(2)]
    for both in (sum(parts), sum(parts[::-1])):
        for name in ("sqnr", "mse", "mean_error", "cosine"):
            due = getattr(pq.measure_error(x, y), name)
            assert getattr(both, name) == pytest.approx(due, rel=1e-12), name


def test_largest_errors_of_no_numbers():
    x = np.full(5000, np.nan, np.float32)
    for report in (pq.measure_error(x, x + 1), pq.QParams(1, 0, "int8").measure_error(x)):
        assert report.max_index == -1
        assert math.isnan(report.max_error)
    x[4999] = 3
    assert pq.measure_error(x, x).max_index == 4999


# ---- parameters ----


def with_scale(p, factor):
    """Return the parameters with each scale multiplied by `factor`."""
    scale = p.scale * p.scale.dtype.type(factor)
    where = {"axis": p.axis, "block_size": p.block_size, "quant_range": p.quant_range}
    return pq.QParams(scale, p.zero_point, p.dtype, **where)


SHAPES = [(), (300,), (7, 300), (3, 50, 700), (2, 3, 70_000)]
OPTIONS = [
    {},
    {"axis": 0},
    {"axis": -1},
    {"axis": -1, "block_size": 32},
    {"axis": 0, "block_size": 2},
    {"axis": -1, "block_size": 66_000},
    {"dtype": "uint8", "axis": 0},
    {"dtype": "uint16", "symmetric": False},
    {"dtype": "float8_e4m3fn", "axis": 0},
    {"dtype": "int4", "axis": -1, "block_size": 5},
]


@loop("how", OPTIONS)
def test_parameters(how, rng):
    dtype_of(how.get("dtype", "int8"))
    for shape in SHAPES["axis" in how :]:
        check_parameters(shape, how, rng)


def check_parameters(shape, how, rng):
    x = (rng.standard_normal(shape) * rng.choice([1, 30], shape)).astype(np.float32)
    p = with_scale(pq.choose_qparams(x, **how), 0.5)
    y = p.dequantize(p.quantize(x), dtype=np.float32)
    scale, zero = (expand(v, shape, p.axis, p.block_size) for v in (p.scale, p.zero_point))
    steps = (x / scale).astype(np.float64) + zero
    for axis in (None, *range(-1, len(shape) - 1)):
        report, whole = p.measure_error(x, axis=axis), pq.measure_error(x, y, axis=axis)
        same_sums(report, whole)
        assert report == p.measure_error(x, axis=axis, threads=3)
        if p.dtype.kind in "iu":
            ends = np.iinfo(p.dtype)
            others = tuple(a for a in range(x.ndim) if axis is None or a != axis % x.ndim)
            low, high = steps < ends.min - 0.5, steps > ends.max + 0.5
            assert np.array_equal(report.saturated_low, low.sum(axis=others))
            assert np.array_equal(report.saturated_high, high.sum(axis=others))


def same_sums(report, whole):
    """Compare all sums bit for bit, except the saturation counts."""
    for name in report._sums.dtype.names[:-3]:
        assert report._sums[name].tobytes() == whole._sums[name].tobytes(), name


LAYOUT_OPTIONS = [
    {},
    {"axis": 1, "dtype": "uint8", "symmetric": False},
    {"axis": (0, 2)},
    {"axis": 1, "block_size": 4, "dtype": "int16"},
    {"axis": 2, "block_size": 3, "dtype": "int32"},
    {"axis": 0, "quant_range": (-5, 6)},
]


@loop("real, change, how", ["float32", "float64", "float16"], CHANGES, LAYOUT_OPTIONS)
def test_layouts_of_parameters(isa, change, real, how, rng):
    """Compare the report of parameters with the report of an array and its round trip."""
    x = CHANGES[change](pair(rng, (21, 30, 34), real, 3.0)[0])
    p = with_scale(pq.choose_qparams(x, **how), 0.9)
    y = p.dequantize(p.quantize(x), dtype="float64" if real == "float64" else "float32")
    for axis in (None, 0, 1, (0, 2), -1):
        found, axes = at_level(isa, _core.measure_params, p, x, axis, 2)
        whole = pq.measure_error(x, y, axis=axis)
        same_sums(_made(axes, found), whole)
        others = at_level("scalar", _core.measure_params, p, x, axis, 1)[0]
        assert found.tobytes() == others.tobytes()


@loop("code", ["int64", "uint64", "int8"])
def test_zero_points_of_some_channels(code, rng):
    """Compare reports of parameters with one nonzero zero point in one of 20 channels."""
    x = (rng.standard_normal((20, 70)) * 200).astype(np.float32)
    zero = np.zeros(20, code)
    zero[7] = 100
    p = pq.QParams(np.full(20, 0.5, np.float32), zero, code, axis=0)
    y = p.dequantize(p.quantize(x))
    for axis in (None, 0, 1):
        same_sums(p.measure_error(x, axis=axis), pq.measure_error(x, y, axis=axis))


def test_far_float64_of_channels_beside_each_other(rng):
    """Measure each channel with the parameters of that channel, also in a second pass."""
    x = rng.standard_normal((300, 20))
    x[:, [3, 17, 19]] *= 1e200
    x[:, 8] *= 1e-200
    p = pq.choose_qparams(x, axis=1)
    found = p.measure_error(x, axis=1)
    for i in range(20):
        one = pq.QParams(p.scale[i], 0, "int8").measure_error(x[:, i])
        for name in ("sqnr", "mse", "mean_error", "max_error", "max_index", "cosine"):
            assert getattr(found, name)[i] == getattr(one, name), (i, name)


def test_saturation_of_narrow_floats():
    pytest.importorskip("ml_dtypes")  # optional
    x = np.float32([448, 464, 464.1, -500, 0, np.inf])
    report = pq.QParams(1.0, None, "float8_e4m3fn").measure_error(x)
    assert (report.saturated_low, report.saturated_high) == (1, 2)


def test_zero_scales(rng):
    x = rng.standard_normal((6, 10)).astype(np.float32)
    with np.errstate(all="ignore"):
        scale = np.float32([[1], [0], [np.inf]]).repeat(10, axis=1)
        p = pq.QParams(scale, None, "int8", axis=0, block_size=2)
        report = p.measure_error(x)
        assert report.zero_scales == 40
        assert p.measure_error(x, axis=0).zero_scales.tolist() == [0, 0, 10, 10, 10, 10]
        assert p.measure_error(x, axis=1).zero_scales.tolist() == [4] * 10
        p = pq.QParams(0.0, None, "int8")
        assert p.measure_error(x, axis=1).zero_scales.sum() == 60


def test_affine_parameters(rng):
    x = rng.standard_normal((4, 40)).astype(np.float32)
    p = pq.QParams(
        np.float32([0.1, 0.2, 0.3, 0.4]), None, "int8", axis=0, fill=-50,
        offset=np.float32([0, 1, 2, 3]), quant_range=(-10, 10),
    )  # fmt: skip
    x[0, 0] = np.nan
    report = p.measure_error(x)
    whole = pq.measure_error(x, p.dequantize(p.quantize(x)))
    assert exactly_mergeable(report)["max_index"] == exactly_mergeable(whole)["max_index"]
    assert report.mse == pytest.approx(whole.mse, rel=1e-14)
    steps = (x - p.offset[:, None]) / p.scale[:, None]
    assert report.saturated_low == np.count_nonzero(steps < -10.5)
    assert report.saturated_high == np.count_nonzero(steps > 10.5)


# ---- the class ----


def test_reports_are_values(rng):
    x, y = pair(rng, (3, 50))
    a, b = pq.measure_error(x, y, axis=0), pq.measure_error(x.copy(), y, axis=-2)
    assert a == b
    assert hash(a) == hash(b)
    assert a != pq.measure_error(x, y)
    assert a != 3
    assert pickle.loads(pickle.dumps(a)) == a
    with pytest.raises(AttributeError, match=r"^mse: expected no assignment, "):
        a.mse = 1
    with pytest.raises(AttributeError, match=r"^mse: expected no deletion, "):
        del a.mse
    a.mse[0] = 5  # This changes a copy.
    assert a == b
    assert 0 + a == a


def test_texts(rng):
    names = ("sqnr", "mse", "max_index", "cosine", "zero_scales", "inf", "count", "axis")
    x, y = pair(rng, (3, 50))
    for report in (pq.measure_error(x, y), pq.measure_error(x, y, axis=0)):
        assert "\n" not in str(report)
        for name in names:
            assert f"{name}=" in repr(report)
    assert str(pq.measure_error(X, X)).startswith("inf dB, max error 0 at 0, ")
    x[0] = np.nan
    assert "nan 50" in str(pq.measure_error(x, y, axis=0))


def test_counts_of_rows_with_a_short_last_block():
    """Count each element of an incomplete last block once."""
    for shape, blocks in (((4, 38), 2), ((4, 3, 38), 2), ((5, 100), 4), ((9, 33), 2)):
        size = 32 if blocks < 4 else 30
        scale = np.ones((*shape[:-1], blocks), np.float32)
        scale[..., -1] = 0
        x = np.full(shape, 200, np.float32)
        last = x[..., size * (blocks - 1) :].size
        report = pq.QParams(scale, axis=-1, block_size=size).measure_error(x)
        assert report.zero_scales == last
        assert report.saturated_high == x.size
