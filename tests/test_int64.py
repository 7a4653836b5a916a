"""Tests of int64 and uint64 codes. float64 cannot represent all of these integers.

The tests compare with exact arithmetic, for codes, zero points and quotients near the ends
of both types and near the limits of float32 and float64.
"""

import itertools
import re

import numpy as np
import oracle
import pytest
from support import (
    REALS,
    WIDE,
    amount,
    cast,
    copies,
    dequantize_at,
    expected_reals,
    loop,
    quantize_at,
    same,
)

import pyquant as pq

NAMES = [dtype.name for dtype in WIDE]
# Limits of exact integers in float32 and float64, and ends of the code types. STEPS are
# distances from these integers.
EDGES = [0, 2**24, 2**32, 2**52, 2**53, 2**54, 2**62, 2**63, 2**64, 2**65]
STEPS = [0, 1, 2, 3, 511, 512, 513, 1023, 1024, 1025, 2048, 2**39 - 1, 2**39, 2**40]


def integers(name):
    """Return integers of a type, mainly near its ends and near the limits of floats."""
    lo, hi = oracle.code_range(name)
    near = {s * (e + t * d) for e in EDGES for d in STEPS for s in (1, -1) for t in (1, -1)}
    near |= {end + t * d for end in (lo, hi) for d in STEPS for t in (1, -1)}
    return sorted(one for one in near if lo <= one <= hi)


def zeros(name):
    lo, hi = oracle.code_range(name)
    middle = [0, 1, -1, 2**53 - 1, -(2**53) - 1, 2**62 + 1, (lo + hi) // 2]
    ends = [lo, lo + 1, lo + 1024, hi - 1024, hi - 1, hi]
    return [z for z in (*ends, *middle) if lo <= z <= hi]


def quotients(zero, name):
    """Return quotients near the ends of the codes and of float64, NaN and infinities."""
    lo, hi = oracle.code_range(name)
    ends = [float(end - zero) for end in (lo, hi)]
    points = [0.5, 1.5, 2.0**51 + 0.5, 2.0**52 - 0.5, 2.0**52 + 1, 2.0**53 + 2, 2.0**63]
    points += [2.0**64, 1.5 * 2.0**64, 2.0**65, 2.0**83, 2.0**116, 1.5 * 2.0**116, 1e300]
    points = np.array([*ends, *points])
    points = np.concatenate([points, np.nextafter(points, 0), np.nextafter(points, np.inf)])
    rest = [np.nan, np.inf, 0.0, 5e-324, 0.49999999999999994]
    points = np.concatenate([points, rest])
    return np.concatenate([points, -points])


@loop("name, policy", NAMES, ["saturate", "wrap", "raise"])
def test_quantize_at_the_ends(name, policy, isa):
    modes = itertools.cycle(oracle.MODES)
    for zero, scale in itertools.product(zeros(name), amount((1.0,), (1.0, -1.0, 0.5))):
        x = quotients(zero, name) * scale
        options = {"rounding": next(modes), "out_of_range": policy}
        want, refused = oracle.quantize_affine(
            x, np.float64([scale]), zero, dtype=name, **options
        )
        out = np.empty(x.size, name)
        call = {"dtype": name, "out": out, **options}
        if refused.any():
            text = f"{np.count_nonzero(refused)} faulty .* index .{np.argmax(refused)},"
            with pytest.raises(ValueError, match=text):
                quantize_at(isa, x, scale, zero, **call)
        else:
            quantize_at(isa, x, scale, zero, **call)
        same(out, want)


@loop("name, target", NAMES, REALS)
def test_dequantize_at_the_ends(name, target, isa):
    q = np.array(integers(name), name)
    scales = (1.0, -0.3, 2.0**-40)
    pairs = zip(zeros(name), itertools.cycle(scales), strict=False)
    for zero, scale in amount(pairs, itertools.product(zeros(name), scales)):
        s = cast([scale], "float64" if target == np.float64 else "float32")
        got = dequantize_at(isa, q, s, zero, dtype=target)
        same(got, expected_reals(isa, q, s, zero, dtype=target))


@loop("name", NAMES)
def test_a_difference_is_converted_once(name, isa):
    # A conversion by way of float64 would round the difference down to a tie of float32,
    # and then to even. The direct conversion to float32 rounds up.
    base = 2**62 if name == "int64" else 2**63
    q = np.array([base + base // 2**24 + 1, base + 3 * base // 2**24 - 1], name)
    want = np.float32([base * (1 + 2.0**-23)] * 2)
    same(dequantize_at(isa, q, 1.0), want)
    for zero in (3, 2**40 + 1):
        shifted = np.array([int(one) + zero for one in q], name)
        same(dequantize_at(isa, shifted, 1.0, zero), want)


# ---- Options with integers beyond int64 ----

TOP = 2**64 - 1


def test_fills_and_ranges_beyond_int64(isa):
    x = np.float64([np.nan, -5, 2.0**63, 2.0**64, np.inf, 7])
    rest = {"dtype": "uint64", "fill": [TOP, 0], "quant_range": (2**63 + 1, TOP - 1)}
    got = quantize_at(isa, x, 1.0, **rest)
    assert got.tolist() == [TOP, 2**63 + 1, 2**63 + 1, TOP - 1, TOP - 1, 2**63 + 1]
    back = dequantize_at(isa, got, 1.0, fill=[TOP, 0], dtype="float64")
    assert np.isnan(back).tolist() == [True] + [False] * 5
    text = f"codes are from {2**63 + 1} to {TOP - 1}, got 5 faulty elements, "
    text += "the first at index (1,)"
    with pytest.raises(ValueError, match=re.escape(text)):
        quantize_at(isa, x, 1.0, out_of_range="raise", **rest)


def test_a_range_to_the_highest(isa):
    x = np.float64([-1, 0, 3, 2.0**64])
    got = quantize_at(isa, x, 1.0, dtype="uint64", quant_range=(2, TOP))
    assert got.tolist() == [2, 2, 3, TOP]
    got = quantize_at(isa, x, 1.0, dtype="int64", quant_range=(-(2**63), -1))
    assert got.tolist() == [-1] * 4


@loop("zero", [TOP, [TOP], np.uint64(TOP), np.array([TOP], ">u8")])
def test_zero_points_beyond_int64(zero):
    x = np.float64([-1, 0, -(2.0**63), 1])
    got = pq.quantize(x, 1.0, zero, dtype="uint64")
    assert got.tolist() == [TOP - 1, TOP, 2**63 - 1, TOP]
    same(pq.dequantize(got, 1.0, zero, dtype="float64"), np.float64([-1, 0, -(2.0**63), 0]))


def test_some_zero_points_beyond_int64():
    x = np.zeros((3, 2))
    got = pq.quantize(x, np.ones(3), [0, TOP, 2**63], dtype="uint64", axis=0)
    assert got[:, 0].tolist() == [0, TOP, 2**63]


# QParams


@loop("dtype", WIDE)
def test_qparams(dtype):
    lo, hi = oracle.code_range(dtype)
    x = np.float64([np.nan, -1, 0, 1e30])
    for zero in (None, 0, lo + 1, hi, hi - 1, np.asarray(hi - 1, dtype)):
        rest = {"fill": lo, "quant_range": (lo + 1, hi)}
        p = pq.QParams(0.5, zero, dtype, **rest)
        assert p.zero_point.dtype == dtype
        assert p.zero_point.item() == (zero or 0)
        assert (p.fill, p.quant_range) == ((lo,), (lo + 1, hi))
        for other in copies(p):
            assert (other, hash(other)) == (p, hash(p))
        q = p.quantize(x)
        same(q, pq.quantize(x, 0.5, zero, dtype=dtype, **rest))
        same(p.dequantize(q), pq.dequantize(q, 0.5, zero, fill=lo))
        same(p.dequantize(q.tolist()), p.dequantize(q))
    p = pq.QParams([0.5, 1.0], [lo, hi], dtype, axis=0)
    assert p.zero_point.tolist() == [lo, hi]
    assert eval(repr(p), {**vars(np), **vars(pq), dtype.name: dtype}) == p


@loop("ends", [(10, 2**63 - 1), (10, 2**64 - 2), (2**63, 2**64 - 2)])
def test_zero_points_lie_within_quant_range(ends):
    lo, hi = ends
    x = np.float64([-1e30, 0, 1, 1e30])
    rest = {"dtype": "uint64", "quant_range": ends}
    for zero in (lo, lo + 1, hi - 1, hi):
        due = [lo, zero, min(zero + 1, hi), hi]
        for given in (zero, np.uint64(zero)):
            assert pq.quantize(x, 1.0, given, **rest).tolist() == due
        q = pq.quantize(np.stack([x, x]), [1.0, 1.0], np.uint64([0, 0]), axis=0, **rest)
        assert q.tolist() == [[lo, lo, lo, hi]] * 2
        q = pq.quantize(np.stack([x, x]), [1.0, 1.0], np.uint64([zero, lo]), axis=0, **rest)
        assert q[0].tolist() == due
        assert pq.QParams(1.0, zero, "uint64", quant_range=ends).quantize(x).tolist() == due
    for zero in (1, lo - 1, hi + 1):
        for given in (zero, np.uint64([lo, zero])):
            with pytest.raises(ValueError, match=f"^zero_point: .* got {zero}$") as caught:
                pq.quantize(x[:2], [1.0, 1.0], given, axis=0, **rest)
            assert f"quant_range={ends}" in str(caught.value)
