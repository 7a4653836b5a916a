"""Tests that an Observer's result depends on the numbers only, not on order or batches."""

import json
import math
import pickle
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from support import (
    REALS,
    amount,
    at_level,
    case,
    copies,
    float_of_bits,
    loop,
    observed,
    split_small_arrays,
)

import pyquant as pq
from pyquant import _searches

SIGN = 0x8000


# ---- A definition of the histogram in Python ----


def key_of(value, dtype):
    """Compute the 16-bit index of a number in the histogram with Python integers."""
    if dtype.itemsize == 2:
        key = int(np.array(value, dtype).view(np.uint16))
    else:
        with np.errstate(over="ignore", under="ignore"):
            single = np.float32(value)
        bits = int(single.view(np.uint32))
        if abs(float(single)) > abs(float(value)):  # rounded away from 0
            bits -= 1
        key = bits >> 16
    return 0 if key == SIGN else key


def counted(x):
    """Count how many finite numbers have each index in the histogram."""
    keys = {}
    for value in x.ravel():
        if np.isfinite(value):
            key = key_of(value, x.dtype)
            keys[key] = keys.get(key, 0) + 1
    return keys


def keys_of(observer, channel=0):
    """Return the counts of an observer with 7 mantissa bits, by index in the histogram."""
    found = {}
    pages, table = observer._state.pages, observer._state.table
    assert (np.diff(pages.astype(np.int64)) > 0).all()
    assert table.any(axis=(1, 2)).all()
    for page, some in zip(pages.tolist(), table[:, channel].tolist(), strict=True):
        found |= {page * 128 + k: n for k, n in enumerate(some) if n}
    return found


def hard_numbers(dtype, rng, n=3000):
    """Return a mixture of random bit patterns, usual and extreme numbers, and zeros."""
    x = float_of_bits(rng.integers(0, 2 ** (8 * dtype.itemsize - 1), n, np.uint64), dtype)
    x = np.where(rng.random(n) < 0.5, x, -x)
    x[rng.random(n) < 0.3] = rng.standard_normal()
    x[rng.random(n) < 0.1] = 0
    x[rng.random(n) < 0.1] = -0.0
    x[rng.random(n) < 0.05] = 1e-45
    x[rng.random(n) < 0.05] = -1e-44
    return x.astype(dtype)


# ---- counting ----


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@loop("dtype", REALS)
def test_counts_equal_the_definition(dtype):
    rng = np.random.default_rng(dtype.itemsize)
    for n in (0, 1, 31, 1023, 1025, amount(1500, 5000)):
        x = hard_numbers(dtype, rng, n)
        o = observed(x)
        wide = x.astype(np.float64)
        assert keys_of(o) == counted(x)
        assert o.count == np.isfinite(wide).sum()
        assert (o.nan, o.inf) == (np.isnan(wide).sum(), np.isinf(wide).sum())
        if o.count:
            finite = wide[np.isfinite(wide)]
            assert (float(o.min), float(o.max)) == (finite.min(), finite.max())
            assert type(o.min) is (np.float64 if dtype == np.float64 else np.float32)


def test_many_numbers():
    """Count so many numbers that a kernel does not look up each number separately."""
    rng = np.random.default_rng(5)
    x = (rng.standard_normal(200_001) * 10.0 ** rng.integers(-20, 20, 200_001)).astype("f4")
    for some in (x, np.where(np.arange(x.size) % 9 == 0, np.float32(-0.0), x)):
        keys, counts = np.unique(some.view(np.uint32) >> 16, return_counts=True)
        due = dict(zip(keys.tolist(), counts.tolist(), strict=True))
        zeros = due.pop(SIGN, 0)
        if zeros:
            due[0] = due.get(0, 0) + zeros
        assert keys_of(observed(some)) == due
    constant = observed(np.full(300_000, 3, np.float32))
    assert keys_of(constant) == {0x4040: 300_000}


@loop("bits", range(8))
def test_fewer_bits_join_bins(bits):
    x = hard_numbers(np.dtype(np.float32), np.random.default_rng(2))
    few, all_of_them = observed(x, mantissa_bits=bits), observed(x)
    assert (few._state.pages == all_of_them._state.pages).all()
    joined = all_of_them._state.table.reshape(len(few._state.pages), 1, 1 << bits, -1).sum(
        -1
    )
    assert (few._state.table == joined).all()


@loop("axis, histogram", [0, 1, -1, (0, 2), (-1, -3), (-1, 0), ()], [False, True])
def test_channels(axis, histogram):
    x = np.random.default_rng(3).standard_normal((4, 6, 5)).astype(np.float32)
    o = observed(x, axis=axis, histogram=histogram)
    axes = sorted(a % 3 for a in (axis if isinstance(axis, tuple) else (axis,)))
    rest = tuple(d for d in range(3) if d not in axes)
    assert (o.min == x.min(rest)).all()
    assert (o.max == x.max(rest)).all()
    assert np.shape(o.min) == x.min(rest).shape
    assert np.all(o.count == x.size // x.min(rest).size)
    if histogram:
        channels = np.moveaxis(x, axes, range(len(axes))).reshape(x.min(rest).size, -1)
        for c, channel in enumerate(channels):
            assert keys_of(o, c) == counted(channel)
            low, high = o.quantile(0.3)
            one = observed(channel).quantile(0.3)
            assert (np.ravel(low)[c], np.ravel(high)[c]) == one
    p = o.qparams()
    assert p == pq.choose_qparams(x, axis=axis)


@loop("axis", [None, ()])
def test_counts_of_one_channel_are_integers(axis):
    o = pq.Observer(axis=axis, nonfinite="ignore")
    assert (o.count, o.nan, o.inf) == (0, 0, 0)
    o.update(np.float32([[1, np.nan], [np.inf, 2]]))
    assert (o.count, o.nan, o.inf) == (2, 1, 1)
    assert type(o.count) is type(o.nan) is type(o.inf) is int


def by_channel(x, axis, **options):
    """Return a separate observer of each channel, updated with contiguous numbers."""
    channels = np.moveaxis(x, axis, range(len(axis)))
    channels = channels.reshape(math.prod(x.shape[a] for a in axis), -1)
    return [observed(channel, **options) for channel in channels]


def check_channels(x, axis, threads=1, **options):
    """Compare the statistics of channels with separate observers of the channels."""
    o = pq.Observer(axis=axis, histogram=True, nonfinite="ignore", **options)
    o.update(x, threads=threads)
    counters = o._state.table
    for c, one in enumerate(by_channel(x, axis, **options)):
        for name in ("count", "nan", "inf"):
            assert np.ravel(getattr(o, name))[c] == getattr(one, name)
        assert (o._state.min[c], o._state.max[c]) == (one._state.min[0], one._state.max[0])
        rows = np.searchsorted(o._state.pages, one._state.pages)
        assert (counters[rows, c] == one._state.table[:, 0]).all()
        assert counters[:, c].sum() == one.count


@loop("dtype", REALS)
def test_channels_of_any_shape_and_strides(dtype):
    """Test few or many channels, long or short channels, and every memory order."""
    rng = np.random.default_rng(6)
    for shape, axis in (
        ((3, 700), (0,)),
        ((700, 3), (1,)),
        ((5, 130), (1,)),
        ((70, 5), (0,)),
        ((90, 150), (1,)),
        ((4, 17, 30), (1,)),
        ((4, 17, 30), (0, 2)),
        ((2, 3, 5, 40), (1, 2)),
        ((2, 3, 5), (0, 1, 2)),
        ((2100,), ()),
    ):
        x = hard_numbers(dtype, rng, int(np.prod(shape))).reshape(shape)
        bits = int(rng.integers(0, 8))
        swapped = x.astype(x.dtype.newbyteorder()) if x.dtype.kind == "f" else x
        turned = x[tuple(slice(None, None, -1) for _ in shape)]
        for view in (
            x,
            np.asfortranarray(x),
            swapped,
            turned,
            np.repeat(x, 2, -1)[..., ::2],
        ):
            check_channels(view, axis, mantissa_bits=bits)
    check_channels(np.broadcast_to(hard_numbers(dtype, rng, 50), (40, 50)), (0,))


LONG_CHANNELS = [
    ((3, 33_001), (0,)),
    ((2, 3, 170, 200), (1,)),
    ((2, 1, 140_000), (1, 0)),
    ((2, 1 << 19), (0,)),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@loop("dtype, form, threads", REALS, LONG_CHANNELS, [1, 2])
def test_few_long_channels(form, dtype, threads, monkeypatch):
    """Test long channels, which are counted separately, in several orders of elements."""
    shape, axis = form
    rng = np.random.default_rng(len(shape))
    x = np.resize(hard_numbers(dtype, rng, 900), shape)
    bits = int(rng.integers(0, 8))
    with split_small_arrays(monkeypatch, 2):
        check_channels(x[..., ::-1], axis, threads)
        other = observed(np.asfortranarray(x), axis=axis, mantissa_bits=bits)
        assert observed(x, axis=axis, mantissa_bits=bits) == other


@loop("threads", [1, 3])
def test_large_counters_of_channels(threads, monkeypatch):
    """Count over 2**16 equal numbers: in one call, in lanes, on threads, over calls."""
    monkeypatch.setattr(pq._core._threads, "MIN_PART_BYTES", 1 << 12)
    monkeypatch.setattr(pq._core._threads, "cpu_count", lambda: 3)
    x = np.zeros((3, 200_000), np.float16)
    x[1] = 7
    x[2, ::3] = np.random.default_rng(1).standard_normal(x[2, ::3].size)
    many = np.repeat(x[:, :70_000], 3, axis=0)  # The core counts this shape without lanes.
    for y in (x, many):
        for view, axis in ((y, 0), (np.ascontiguousarray(y.T), 1)):
            for bits in (0, 7):
                check_channels(view, (axis,), threads, mantissa_bits=bits)
    o = observed(x, axis=0)
    for part in np.array_split(x, 50, axis=1):
        o.update(part, threads=threads)
    assert o == observed(np.concatenate([x, x], axis=1), axis=0)
    assert keys_of(o, 1) == {int(np.float16(7).view(np.uint16)): 400_000}


@loop("axis", [None, 0])
def test_sums_beyond_two_bytes(axis):
    """Add large counters of batches. The sums equal the counters of one call."""
    rng = np.random.default_rng(9)
    x = np.maximum(rng.standard_normal((2, 150_000)), 0).astype(np.float32)
    whole = observed(x, axis=axis)
    parts = np.array_split(x, 5, axis=1)
    by_update = observed(parts[0], axis=axis)
    for part in parts[1:]:
        by_update.update(part)
    by_merge = sum(
        (observed(part, axis=axis) for part in parts[1:]), observed(parts[0], axis=axis)
    )
    for one in (by_update, by_merge):
        assert one == whole
        assert pickle.dumps(one._state) == pickle.dumps(whole._state)
        for q in (0, 0.4, 0.6, 1):
            assert np.array_equal(one.quantile(q), whole.quantile(q))
        for method in ("percentile", "mse", "entropy"):
            assert np.array_equal(one.range(method), whole.range(method))
        assert one.qparams(method="percentile") == whole.qparams(method="percentile")


def test_many_pages_are_found_late():
    """Count each element once, although the table grows in the middle of a tile."""
    x = np.ones((4000, 70), np.float32)
    rng = np.random.default_rng(3)
    for row, exponent in enumerate(range(-126, 128)):
        x[3990 - 15 * row, rng.integers(0, 70, 5)] = np.float32(2.0) ** exponent
        x[3989 - 15 * row, rng.integers(0, 70, 5)] = -(np.float32(2.0) ** exponent)
    for threads in (1, 2):
        check_channels(x, (1,), threads)
        check_channels(np.ascontiguousarray(x.T), (0,), threads, mantissa_bits=2)


def test_levels_agree(simd):
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(100_000) * 2.0 ** rng.integers(-130, 120, 100_000)).astype(
        "f4"
    )
    x[::7] = np.where(rng.random(x[::7].size) < 0.5, -0.0, 0.0)
    for axis, view in ((None, x), (1, x.reshape(-1, 5)), (0, x.reshape(5, -1))):
        got, expected = (
            at_level(level, observed, view, axis=axis) for level in (simd, "scalar")
        )
        assert pickle.dumps(got._state) == pickle.dumps(expected._state)
        assert np.array_equal(got.range("mse"), expected.range("mse"))


# ---- Only the numbers decide the result, and not their order ----

ARRAYS = hnp.arrays(
    np.float32,
    hnp.array_shapes(min_dims=1, max_dims=1, min_side=0, max_side=40),
    elements=st.floats(width=32),
)


@settings(deadline=None, max_examples=amount(20, 60))
@given(st.lists(ARRAYS, min_size=3, max_size=3), st.randoms(use_true_random=False))
def test_merging(arrays, random):
    a, b, c = (observed(x) for x in arrays)
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    everything = np.concatenate(arrays)
    random.shuffle(everything)
    assert a + b + c == observed(everything)
    assert sum([a, b, c]) == a + b + c
    merged = a.copy()
    merged.merge(b)
    assert merged == a + b
    assert a == observed(arrays[0])  # The sum did not change `a`.


def test_merges_of_types():
    a, b = observed(np.float32([1, 2])), observed(np.float64([0.1]))
    assert (a + b).min == np.float64(0.1)
    assert (b + a).min.dtype == np.float64
    half = observed(np.float16([3]))
    plain = observed(np.float16([3]), histogram=False)
    plain.update(np.float32([70000]))
    assert plain.max == 70000
    empty = observed(np.float64([]))  # An empty array does not change the type.
    assert (empty + half).qparams() == half.qparams()


def test_copies():
    o = observed(np.float32([1, -5, np.nan]), axis=None)
    for other in (o.copy(), *copies(o)):
        assert other == o
        assert repr(other) == repr(o)
        other.update(np.float32([7]))
        assert other != o
        assert o.max == 1
    assert o != pq.Observer()
    assert o != 3


def by_json(observer):
    """Return the observer after a round trip through standard JSON."""
    text = json.dumps(observer.to_dict(), allow_nan=False)
    return pq.Observer.from_dict(json.loads(text))


@pytest.mark.parametrize("options", [
    {}, {"axis": 1}, {"axis": (0, 1)}, {"axis": 0, "mantissa_bits": 2},
    {"histogram": False}, {"histogram": False, "momentum": 0.1, "axis": -1},
], ids=str)  # fmt: skip
def test_json(options):
    rng = np.random.default_rng(1)
    halves = np.float16([[1, 1e-7, np.inf], [0, -3, 2]])
    nans = np.full((2, 3), np.nan, np.float32)
    for batches in ([], [rng.normal(size=(2, 3))], [nans, nans], [halves], [nans[:, :0]]):
        o = pq.Observer(**{"histogram": True, "nonfinite": "ignore", **options})
        for batch in batches:
            o.update(batch)
        with case(batches=batches):
            again = by_json(o)
            assert again == o
            assert pickle.dumps(again) == pickle.dumps(o)


def read_json(**items):
    """Read an observer from a dictionary with changed or additional items."""
    pq.Observer.from_dict(observed(np.float32([1, -1])).to_dict() | items)


def all_exponents(rng, n):
    return rng.choice([-1, 1], n) * np.exp2(rng.uniform(-149, 128, n))


# Maximum size of a stored observer in bytes, and the data, for each distribution.
SIZES = {
    "normal": (64 << 10, lambda rng, n: rng.standard_normal(n)),
    "uniform": (64 << 10, lambda rng, n: rng.uniform(-1, 1, n)),
    "float16": (64 << 10, lambda rng, n: rng.uniform(-1, 1, n).astype(np.float16)),
    "cauchy": (128 << 10, lambda rng, n: rng.standard_cauchy(n)),
    "relu": (32 << 10, lambda rng, n: np.maximum(rng.standard_normal(n), 0)),
    "log-uniform": (130 << 10, all_exponents),
    "three": (12 << 10, lambda rng, n: rng.integers(0, 3, n)),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@loop("name", SIZES)
def test_memory(name):
    most, draw = SIZES[name]
    rng = np.random.default_rng(0)
    o = pq.Observer(histogram=True)
    for _ in range(4):
        o.update(draw(rng, 1 << 18).astype("f2" if name == "float16" else "f4"))
    pages, table = o._state.pages, o._state.table
    wide = 1 << 16 if table.dtype == np.uint32 else 1
    assert wide <= table.max() < 1 << 8 * table.itemsize
    assert sys.getsizeof(o) <= (128 * table.itemsize + 2) * len(pages) + 512
    assert sys.getsizeof(o) <= most
    assert len(pickle.dumps(o)) <= most
    again = o.copy()
    for _ in range(30):  # to 2^50 numbers
        again.merge(again)
    assert sys.getsizeof(again) <= 1026 * len(pages) + 512
    assert (again._state.table == table.astype(np.uint64) << np.uint64(30)).all()


def test_memory_is_bounded_for_any_data():
    """Every key occurs."""
    keys = np.arange(1 << 16, dtype=np.uint32) << 16
    x = keys.view(np.float32)
    o = observed(x[np.isfinite(x)], nonfinite="raise")
    o.update(np.zeros(1 << 20, np.float32))
    assert len(o._state.pages) == 510
    assert sys.getsizeof(o) <= 513 << 10
    assert len(pickle.dumps(o)) <= 513 << 10


# ---- statistics ----


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@loop("dtype, bits", REALS, [7, 3, 0])
def test_quantiles_lie_between(dtype, bits):
    rng = np.random.default_rng(bits)
    for number in range(amount(6, 40)):
        x = hard_numbers(dtype, rng, int(rng.integers(1, 400)))
        if number % 2:
            x = rng.standard_t(2, 500).astype(dtype)
        elif number % 4:  # many numbers are subnormal in float32
            x = (rng.standard_normal(9) * 2.0**-129).astype(dtype)
        x = x[np.isfinite(x.astype(np.float64))]
        if x.size == 0:
            continue
        o = observed(x, mantissa_bits=bits)
        for q in (0, 1, 0.5, 0.001, 0.999, float(rng.random())):
            rank = min(max(1, int(np.ceil(q * x.size))), x.size)
            exact = np.sort(x.astype(np.float64))[rank - 1]
            low, high = o.quantile(q)
            assert o.min <= low <= exact <= high <= o.max, (q, exact)
            assert not np.signbit([low, high])[np.equal([low, high], 0)].any(), q
            if bits == 7 and dtype.itemsize == 2:
                assert low == high
            # Bins of subnormal numbers are wider. Numbers beyond float32 share a bin.
            rest = 2.0**-16 if dtype == np.float16 else 2.0**-125
            if abs(exact) < 3e38:
                assert high - low <= abs(exact) * 2.0**-bits * 1.01 + rest


def test_percentiles_leave_out_no_more():
    rng = np.random.default_rng(4)
    for _ in range(50):
        x = (rng.standard_t(3, int(rng.integers(1, 3000))) + 0.3).astype(np.float32)
        o = observed(x)
        for percent in (50, 90, 99, 99.9, 100):
            lo, hi = o.range("percentile", percentile=percent)
            exact = np.sort(np.abs(x))[max(0, int(np.ceil(percent / 100 * x.size)) - 1)]
            assert -lo == hi
            assert exact <= hi <= exact * (1 + 2.0**-7)
            lo, hi = o.range("percentile", percentile=percent, dtype="uint8")
            left_out = (1 - percent / 100) / 2 * x.size + 1e-9
            assert (x < lo).sum() <= left_out
            assert (x > hi).sum() <= left_out
            assert x.min() <= lo
            assert hi <= x.max()


@loop("method", ["minmax", "percentile", "mse", "entropy"])
def test_ranges_are_within_the_extremes(method):
    rng = np.random.default_rng(9)
    for low, high in ((4.9, 5), (-5, -4), (-1, 3), (0.1, 90), (1e-310, 3e-310)):
        for _ in range(amount(5, 50)):
            o = observed(rng.uniform(low, high, 40), mantissa_bits=rng.integers(8))
            with case(low=low, high=high, observer=o):
                lo, hi = o.range(method, dtype="int8", symmetric=False)
                assert o.min <= lo <= hi <= o.max
                lo, hi = o.range(method, dtype="int8", symmetric=True)
                assert 0 < -lo == hi <= max(-o.min, o.max)


def error_of(x, p):
    return (
        (p.dequantize(p.quantize(x), dtype="float64") - x.astype(np.float64)) ** 2
    ).sum()


DRAWS = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "student": lambda rng, n: rng.standard_t(3, n),
    "uniform": lambda rng, n: rng.uniform(-1, 1, n),
    "skewed": lambda rng, n: rng.exponential(1, n) - 0.2,
    "relu": lambda rng, n: np.maximum(rng.standard_normal(n), 0),
    "outliers": lambda rng, n: (
        np.where(np.arange(n) < 20, 1000, 1) * rng.standard_normal(n)
    ),
}


@loop("draw, dtype, bits", DRAWS, ["int8", "uint8", "int4"], [7, 3])
def test_mse_finds_the_least_error(draw, dtype, bits):
    """Find the least error of all candidates, except for 1 or 3 percent because of bins."""
    x = DRAWS[draw](np.random.default_rng(7), 1 << 14).astype(np.float32)
    found = error_of(x, observed(x, mantissa_bits=bits).qparams(dtype, method="mse"))
    lo, hi = min(x.min(), 0), max(x.max(), 0)
    if not dtype.startswith("u"):
        hi = max(hi, -lo)
        lo = -hi
    parts = 2.0 ** (-np.arange(_searches.CANDIDATES) / 8)
    ranges = [np.float32([lo * part, hi * part]) for part in parts]
    least = min(error_of(x, pq.choose_qparams(r, dtype=dtype)) for r in ranges)
    assert found <= least * (1.01 if bits == 7 else 1.03)


def test_mse_is_the_expected_error():
    """Compare the closed form of the error with a fine sum, which approximates it."""
    rng = np.random.default_rng(8)
    for _ in range(30):
        a, b = np.sort(rng.normal(0, 3, 2))
        bins = _searches.Channel(np.array([a]), np.array([b]), np.array([7], np.uint64))
        scale, lowest, highest = rng.uniform(0.05, 1), -int(rng.integers(1, 9)), 5
        steps = [np.array([float(v)]) for v in (scale, lowest, highest)]
        t = a + (b - a) * (np.arange(200_000) + 0.5) / 200_000
        due = ((t - np.clip(np.rint(t / scale), lowest, highest) * scale) ** 2).mean() * 7
        assert _searches._expected(bins, tuple(steps))[0] == pytest.approx(due, rel=1e-4)


def test_mse_of_narrow_floats():
    pytest.importorskip("ml_dtypes")  # optional
    x = np.random.default_rng(1).standard_t(2, 1 << 14).astype(np.float32)
    o = observed(x)
    lo, hi = o.range("mse", dtype="float4_e2m1fn")
    assert -lo == hi < o.max
    best = error_of(x, o.qparams("float4_e2m1fn", method="mse"))
    assert best < error_of(x, o.qparams("float4_e2m1fn")) * 0.8


def tensorrt(hist, i, levels):
    """Compute the divergence with Python loops, like pytorch-quantization."""
    hist = hist.copy()
    space = np.linspace(0, i, levels + 1)
    level = np.digitize(range(i), space) - 1
    level[hist[:i] == 0] = -1
    sums, numbers = np.zeros(levels), np.zeros(levels)
    for j in range(i):
        if level[j] >= 0:
            sums[level[j]] += hist[j]
            numbers[level[j]] += 1
    q = np.array([sums[k] / numbers[k] if k >= 0 else 0 for k in level])
    p = hist[:i].copy()
    p[-1] += hist[i:].sum()
    p, q = p / p.sum(), q / q.sum()
    with np.errstate(divide="ignore"):
        return sum(a * np.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def test_entropy_is_that_of_the_loops():
    rng = np.random.default_rng(6)
    hist = np.floor(rng.exponential(30, 400)) * (rng.random(400) < 0.8)
    i = np.array([128, 133, 200, 256, 377, 400])
    found = _searches._divergences(hist, i, 128)
    due = [tensorrt(hist, int(n), 128) for n in i]
    assert found == pytest.approx(due, rel=1e-9)  # the order of additions differs


def test_entropy_of_usual_data():
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    x[:3] = 40
    hist, edges = np.histogram(np.abs(x), _searches.LINEAR_BINS, (0, 40))
    hist = hist.astype(float)
    hist[0] = hist[1]
    lo, hi = observed(x).range("entropy")
    assert -lo == hi
    # Applied to exact counts, the rule excludes the outliers at a similar limit.
    due = edges[_searches._last_best(hist, np.arange(128, 2049), 128)]
    assert 0.5 * due <= hi <= 2 * due < 20
    assert observed(x).range("entropy", dtype="uint8")[0] == pytest.approx(
        max(x.min(), -observed(x).range("entropy", dtype="uint8")[1])
    )


@loop(
    "method, dtype, value",
    ["minmax", "percentile", "mse", "entropy"],
    ["int8", "uint8"],
    [0.0, 3.0, -3.0, 1e-45, 3e38],
)
def test_constant_data(method, dtype, value):
    o = observed(np.full(1000, value, np.float32))
    lo, hi = o.range(method, dtype=dtype)
    if method in ("minmax", "percentile"):
        size = abs(np.float32(value))
        even = dtype == "int8"
        assert (lo, hi) == ((-size, size) if even else (np.float32(value),) * 2)
    assert lo <= hi
    p = o.qparams(dtype, method=method)
    assert np.isfinite(p.scale)
    assert p.scale > 0


@loop("like", [None, "onnxruntime", "pytorch", "torchao_no_clip"])
def test_formulas_of_other_packages(like):
    x = np.random.default_rng(3).normal(1, 3, (17, 23)).astype(np.float32)
    for axis in (None, 1):
        o = observed(x, axis=axis)
        for options in ({"scale_dtype": "float16"}, {"quant_range": (-7, 7)}):
            options["like"] = like
            assert o.qparams(**options) == pq.choose_qparams(x, axis=axis, **options)
            assert (
                o.qparams(method="mse", **options).scale.dtype
                == o.qparams(**options).scale.dtype
            )


# ---- moving averages ----


NORMAL = np.random.default_rng(0).standard_normal((70, 4)).astype(np.float32)
CALIBRATIONS = [
    ({}, {}),
    ({}, {"dtype": "uint8", "symmetric": True, "quant_range": (1, 254)}),
    ({}, {"method": "percentile", "percentile": 99, "like": "onnxruntime"}),
    ({"mantissa_bits": 3}, {"method": "mse", "scale_dtype": "float16"}),
    ({"axis": 1}, {"method": "entropy", "symmetric": False}),
    ({"axis": -1, "momentum": 0.1}, {}),
]


@pytest.mark.parametrize(("seeing", "choosing"), CALIBRATIONS)
def test_calibrate_equals_an_observer(seeing, choosing):
    batches = np.array_split(NORMAL, 7)
    histogram = choosing.get("method", "minmax") != "minmax"
    observer = pq.Observer(histogram=histogram, **seeing)
    for batch in batches:
        observer.update(batch)
    due = observer.qparams(**choosing)
    once = (batch for batch in batches)
    assert pq.calibrate(once, **seeing, **choosing, threads=2) == due
    assert next(once, None) is None


def test_calibrate_can_ignore_nonfinite_values():
    bad = np.float32([np.nan, 1, np.inf, -2])
    found = pq.calibrate([bad], nonfinite="ignore")
    assert found == pq.choose_qparams(np.float32([1, -2]))


ONE = np.float32([1, 2])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", "moving"),
        ("percentile", 101),
        ("dtype", "int9"),
        ("quant_range", (3, 2)),
        ("scale_dtype", "int8"),
        ("like", "none"),
        ("mantissa_bits", 8),
    ],
)
def test_calibrate_checks_options_before_it_reads_a_batch(name, value):
    once = iter([ONE])
    with pytest.raises((TypeError, ValueError), match=f"^{name}: expected "):
        pq.calibrate(once, **{name: value})
    assert next(once) is ONE


def test_momentum_rounds_as_pytorch_does():
    rng = np.random.default_rng(0)
    batches = [rng.normal(0, 3, 50).astype(np.float32) for _ in range(20)]
    o = pq.Observer(momentum=0.01)
    lo = None
    for x in batches:
        o.update(x)
        if lo is None:
            lo, hi = x.min(), x.max()
        else:
            lo = lo + np.float32(0.01) * (x.min() - lo)
            hi = hi + np.float32(0.01) * (x.max() - hi)
        o.update(np.float32([]))
        assert (o.min, o.max) == (lo, hi)
    assert o.count == 1000
    assert pickle.loads(pickle.dumps(o)) == o
    with pytest.raises(TypeError, match="other: expected extremes to merge, got moving "):
        o + o


def test_momentum_of_channels():
    o = pq.Observer(axis=1, momentum=0.5, nonfinite="ignore")
    o.update(np.float32([[1, np.nan]]))
    o.update(np.float32([[2, 7]]))
    assert o.max.tolist() == [1.5, 7]
    o.update(np.float32([[np.nan, 9]]))
    assert o.max.tolist() == [1.5, 8]


# ---- errors ----


@loop("axis, histogram, threads", [None, 1], [False, True], [1, 4])
def test_failed_updates_change_nothing(axis, histogram, threads, monkeypatch):
    o = pq.Observer(axis=axis, histogram=histogram)
    o.update(np.ones((2, 3), np.float32))
    before = o.copy()
    many = np.ones((3000, 3), np.float32)
    many[2999, 1] = np.inf
    message = r"x: expected finite values, got 1 not .*first at index \(2999, 1\)"
    with split_small_arrays(monkeypatch), pytest.raises(ValueError, match=message):
        o.update(many, threads=threads)
    if axis == 1:
        with pytest.raises(ValueError, match=r"x: expected channels \(3,\), got "):
            o.update(np.ones((2, 4), np.float32))
    with pytest.raises(TypeError):
        o.update("text")
    o.update(np.ones((0, 3), np.float32))
    assert o == before
    o.update(np.ones((2, 3), np.float32))
    assert o == before + before
