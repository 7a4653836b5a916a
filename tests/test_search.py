# SPDX-License-Identifier: Apache-2.0
"""Compare choose_qparams(method="mse") with the definition of its search and its fit."""

import numpy as np
import pytest
import sums_oracle
from support import LEVELS, choose_qparams_at, loop, same

import pyquant as pq

REFIT = np.float32([0.1, -0.7, 1.25, 3, -2.5, 1.2])


DISTRIBUTIONS = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, shape),
    "outliers": lambda rng, shape: (
        rng.standard_normal(shape) * np.where(rng.random(shape) < 0.01, 20, 1)
    ),
    "positive": lambda rng, shape: rng.lognormal(0, 1, shape),
    "uniform": lambda rng, shape: rng.uniform(-1, 2, shape),
    "few values": lambda rng, shape: rng.integers(-2, 3, shape),
}


def error_of(p, x):
    """Return the sum of squared errors."""
    x = np.asarray(x)
    y = p.dequantize(p.quantize(x)).astype(np.float64)
    return float(((y - x) ** 2).sum())


def groups_of(x, axis, block_size):
    """Return the elements of each group. Keys are the indices of the parameters."""
    if axis is None:
        return {(): x}
    if block_size is None:
        return {(i,): np.take(x, i, axis) for i in range(x.shape[axis])}
    found = {}
    count = -(-x.shape[axis] // block_size)
    for index in np.ndindex(*(count if d == axis else n for d, n in enumerate(x.shape))):
        start = index[axis] * block_size
        cut = [slice(i, i + 1) for i in index]
        cut[axis] = slice(start, start + block_size)
        found[index] = x[tuple(cut)]
    return found


# ---- vectors ----


def test_refit():
    """Reproduce a published example of the least-squares fit."""
    whole = pq.choose_qparams(REFIT, dtype="int4")
    assert whole.scale == np.float32(0.42857143)
    # The published errors have seven digits. The published scales are exact.
    assert error_of(whole, REFIT) == pytest.approx(0.04841836, rel=1e-6)
    fitted = pq.choose_qparams(REFIT, dtype="int4", method="mse", candidates=[1])
    assert fitted.scale == np.float32(0.4182243)
    assert error_of(fitted, REFIT) == pytest.approx(0.03696262, rel=1e-6)


# ---- the definition ----


CODES = [
    ("int4", True),
    ("int4", False),
    ("int8", True),
    ("uint8", False),
    ("uint4", True),
    ("int2", True),
    ("int16", False),
    ("uint16", False),
]


@loop("distribution, codes", DISTRIBUTIONS, CODES)
def test_groups(isa, distribution, codes, rng):
    dtype, symmetric = codes
    x = DISTRIBUTIONS[distribution](rng, (2, 133)).astype(np.float32)
    options = {"dtype": dtype, "axis": 1, "block_size": 64, "symmetric": symmetric}
    scale, zero = choose_qparams_at(isa, x, method="mse", **options)
    if isa != "scalar":
        expected = choose_qparams_at("scalar", x, method="mse", **options)
        same(scale, expected[0])
        same(zero, expected[1])
        return
    for index, elements in groups_of(x, 1, 64).items():
        expected = sums_oracle.search_group(elements, dtype, symmetric=symmetric)
        assert (scale[index], zero[index]) == expected, index


@loop("n", [1, 2, 15, 16, 17, 1023, 1024, 1025, 5000])
def test_lengths(isa, n, rng):
    """Search groups that are summed in one part or in several, with and without weights."""
    x = rng.standard_t(3, n).astype(np.float32)
    w = rng.random(n).astype(np.float32)
    for weights in (None, w):
        scale, zero = choose_qparams_at(
            isa, x, dtype="uint4", symmetric=False, method="mse", weights=weights
        )
        expected = sums_oracle.search_group(x, "uint4", symmetric=False, weights=weights)
        assert (scale, zero) == expected


@loop("axis, block_size", [None, 0, 1, 2], [None, 3])
def test_granularity(axis, block_size, rng):
    if axis is None and block_size is not None:
        return  # A block size requires an axis.
    x = rng.standard_t(3, (3, 7, 5)).astype(np.float32)
    w = rng.random((7, 1))
    p = pq.choose_qparams(
        x, dtype="int4", axis=axis, block_size=block_size, method="mse", weights=w
    )
    groups = groups_of(x, axis, block_size)
    weights = groups_of(np.broadcast_to(w, x.shape), axis, block_size)
    for index, elements in groups.items():
        expected = sums_oracle.search_group(
            elements, "int4", symmetric=True, weights=weights[index]
        )
        assert (p.scale[index], p.zero_point[index]) == expected


@loop("real", ["float16", "bfloat16", "float64", ">f4"])
def test_types(isa, real, rng):
    if real == "bfloat16":
        real = pytest.importorskip("ml_dtypes").bfloat16
    x = rng.standard_t(3, (6, 200)).astype(real)
    scale, zero = choose_qparams_at(isa, x, dtype="int4", axis=0, method="mse")
    plain = x.astype(np.float64 if x.dtype == np.float64 else np.float32)
    for i, row in enumerate(plain):
        assert (scale[i], zero[i]) == sums_oracle.search_group(row, "int4", symmetric=True)


@loop("unit", [1e-44, 1e-38, 1e-30, 1e30, 1e37])
def test_far_float32(unit, rng):
    x = (rng.standard_normal(200) * unit).astype(np.float32)
    for level in LEVELS:
        scale, zero = choose_qparams_at(level, x, dtype="int8", method="mse")
        assert np.isfinite(scale)
        assert scale > 0
        expected = choose_qparams_at("scalar", x, dtype="int8", method="mse")
        assert (scale, zero) == expected


def test_candidates(rng):
    x = rng.standard_t(3, 500).astype(np.float32)
    for candidates in ([0.5], np.linspace(0.2, 1, 150), [1, 0.9, 0.9, 0.05]):
        p = pq.choose_qparams(x, dtype="int4", method="mse", candidates=candidates)
        expected = sums_oracle.search_group(
            x, "int4", symmetric=True, candidates=list(candidates)
        )
        assert (p.scale, p.zero_point) == expected


def test_groups_are_independent(rng):
    x = rng.standard_t(3, (40, 64)).astype(np.float32)
    together = pq.choose_qparams(x, dtype="int4", axis=0, method="mse").scale
    x[::2] = 0
    without = pq.choose_qparams(x, dtype="int4", axis=0, method="mse").scale
    assert np.array_equal(together[1::2], without[1::2])
    assert (without[::2] == 1).all()


# ---- against simpler searches ----


@loop(
    "distribution, dtype",
    DISTRIBUTIONS,
    ["int4", "int8", "float8_e4m3fn", "float4_e2m1fn", "int32"],
)
def test_error_is_not_above_minmax(distribution, dtype, rng):
    if dtype.startswith("float"):
        pytest.importorskip("ml_dtypes")  # optional
    x = DISTRIBUTIONS[distribution](rng, (3, 700)).astype(np.float32)
    whole = pq.choose_qparams(x, dtype=dtype, axis=0)
    best = pq.choose_qparams(x, dtype=dtype, axis=0, method="mse")
    errors = [p.measure_error(x, axis=0).mse for p in (best, whole)]
    assert (errors[0] <= errors[1] * (1 + 1e-6)).all()
    for level in LEVELS:
        scale, _ = choose_qparams_at(level, x, dtype=dtype, axis=0, method="mse")
        assert np.array_equal(scale, best.scale)


def test_restricted(rng):
    """Search with a restricted range of codes, and with a given type of scales."""
    x = rng.standard_t(3, (4, 300)).astype(np.float32)
    p = pq.choose_qparams(x, axis=0, quant_range=(-7, 7), method="mse")
    assert abs(p.quantize(x)).max() == 7
    p = pq.choose_qparams(x, symmetric=False, quant_range=(0, 15), method="mse")
    expected = sums_oracle.search_group(x, "uint4", symmetric=False)
    assert (p.scale, p.zero_point) == expected
    half = pq.choose_qparams(x, axis=0, dtype="int4", scale_dtype="float16", method="mse")
    assert half.scale.dtype == np.float16
    whole = pq.choose_qparams(x, axis=0, dtype="int4", scale_dtype="float16")
    errors = [q.measure_error(x, axis=0).mse for q in (half, whole)]
    assert (errors[0] <= errors[1]).all()


@loop("like", ["onnxruntime", "pytorch", "aten", "quark_po2"])
def test_formulas_of_other_packages(like, rng):
    """Search with formulas of other packages. quark_po2 keeps powers of two."""
    x = rng.standard_t(3, (4, 300)).astype(np.float32)
    p, whole = (
        pq.choose_qparams(x, axis=0, like=like, method=method)
        for method in ("mse", "minmax")
    )
    errors = [q.measure_error(x, axis=0).mse for q in (p, whole)]
    assert (errors[0] <= errors[1] * (1 + 1e-6)).all()
    if like == "quark_po2":
        assert (np.frexp(p.scale)[0] == 0.5).all()


@loop("dtype, count", ["int8", "int4"], [4, 300])
def test_candidates_without_a_finite_error(dtype, count):
    """Find a later candidate if the first batch of candidates has only infinite errors."""
    top = np.finfo(np.float32).max
    x = np.float32([-top, top / 3, -top / 5, top / 2])
    w = np.float64([0, 1, 1, 1])
    candidates = np.concatenate([np.ones(count), [0.9, 0.8]])
    p = pq.choose_qparams(
        x, dtype=dtype, method="mse", like="pytorch", weights=w, candidates=candidates
    )
    whole = pq.choose_qparams(x, dtype=dtype, like="pytorch")
    assert np.isinf(whole.dequantize(whole.quantize(x))).any()
    y = p.dequantize(p.quantize(x))
    clipped = pq.choose_qparams(np.float32(0.9) * x, dtype=dtype, like="pytorch")
    z = clipped.dequantize(clipped.quantize(x))
    errors = [((v.astype(np.float64) - x)[1:] ** 2).sum() for v in (y, z)]
    assert errors[0] <= errors[1]


@loop("count", [20, 300])
def test_ties_keep_the_first_candidate(count, rng):
    """Choose the first of several candidates with equal errors, also across batches."""
    x = rng.standard_normal((40, 50)).astype(np.float32)
    options = {"axis": 0, "weights": np.zeros(50), "candidates": np.linspace(1, 0.5, count)}
    p = pq.choose_qparams(x, dtype="int4", method="mse", **options)
    assert p == pq.choose_qparams(x, dtype="int4", axis=0)


@loop("unit, sign", [2.0**-1074, 2.0**-1000, 2.0**-600, 2.0**600, 2.0**1000], [1, -1])
def test_squares_beyond_float64(unit, sign):
    """Search huge, tiny or subnormal inputs, with squares beyond the range of float64."""
    x = sign * np.r_[np.rint(np.linspace(0, 12000, 3000)), 13500.0] * unit
    options = {"dtype": "int4", "symmetric": False, "method": "mse"}
    p = pq.choose_qparams(x, **options)
    assert p.scale < 0.95 * pq.choose_qparams(x, dtype="int4", symmetric=False).scale
    assert abs(p.scale / unit - pq.choose_qparams(x / unit, **options).scale) <= 1


# ---- empty input ----


def test_empty():
    p = pq.choose_qparams(np.empty((2, 0), np.float32), axis=0, method="mse")
    assert p.scale.tolist() == [1, 1]
    assert pq.choose_qparams(np.zeros(5), method="mse").scale == 1
    weights = np.zeros(6)
    assert pq.choose_qparams(REFIT, method="mse", weights=weights) == pq.choose_qparams(
        REFIT
    )
