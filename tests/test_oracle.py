"""Compare the oracle with published tables and with casts of NumPy and ml_dtypes."""

import operator
from fractions import Fraction

import numpy as np
import oracle
import pytest
from support import (
    REALS,
    bit_view,
    is_finite,
    is_nan,
    loop,
    name_of,
    same,
    specials,
    uniform_bits,
)
from test_rounding import TABLE, VALUES

from pyquant.dtypes import TYPES


@loop("mode", oracle.MODES)
def test_integer_rounding_is_ngraphs_table(mode):
    assert tuple(oracle.round_to_integer(Fraction(v), mode) for v in VALUES) == TABLE[mode]


@loop("mode", oracle.MODES)
def test_integer_rounding_keeps_integers(mode):
    assert [oracle.round_to_integer(Fraction(n), mode) for n in range(-5, 6)] == list(
        range(-5, 6)
    )


def test_integer_rounding_is_pythons():
    grid = [Fraction(n, 16) for n in range(-200, 200)]
    assert [oracle.round_to_integer(v, "half_even") for v in grid] == [
        round(v) for v in grid
    ]
    assert [oracle.round_to_integer(v, "trunc") for v in grid] == [int(v) for v in grid]
    assert [oracle.round_to_integer(v, "floor") for v in grid] == [
        v.__floor__() for v in grid
    ]
    assert [oracle.round_to_integer(v, "ceil") for v in grid] == [
        v.__ceil__() for v in grid
    ]


@loop("dtype", REALS)
def test_encode_inverts_decode(dtype):
    fmt = oracle.FORMATS[dtype.name]
    patterns = np.concatenate([specials(dtype), uniform_bits(dtype, 2000, seed=1)])
    patterns = patterns[~is_nan(patterns)]
    for bits in oracle.bits_of(patterns):
        assert oracle.encode(oracle.decode(bits, fmt), fmt) == bits


@loop("dtype", REALS)
def test_decode_is_pythons_float(dtype):
    fmt = oracle.FORMATS[dtype.name]
    values = np.concatenate([specials(dtype), uniform_bits(dtype, 2000, seed=2)])
    values = values[is_finite(values)]
    wide = values.astype(np.float64)
    for bits, value in zip(oracle.bits_of(values), wide.tolist(), strict=True):
        number = oracle.decode(bits, fmt)
        assert number.signed() == Fraction(value)
        assert number.negative == (str(value)[0] == "-")


def neighbours_of_midpoints(source, target):
    """Return numbers of `source`: numbers of `target`, midpoints, and their neighbours."""
    fmt = oracle.FORMATS[target.name]
    values = np.concatenate([specials(target), uniform_bits(target, 1500, seed=3)])
    values = values[is_finite(values)]
    bits = []
    for b in oracle.bits_of(values):
        low, high = (oracle.decode(b + d, fmt) for d in (0, 1))
        points = [low.signed()]
        if high.kind == "finite":
            points.append((low.signed() + high.signed()) / 2)
        for p in points:
            near = oracle.encode(oracle.finite(p), oracle.FORMATS[source.name])
            bits += [near + d for d in (-1, 0, 1) if near + d >= 0]
    limit = 1 << 8 * source.itemsize
    bits = np.array([b for b in bits if b < limit], dtype=bit_view(source))
    return np.concatenate([bits.view(source), specials(source)])


@pytest.mark.parametrize("target", REALS, ids=name_of)
@loop("source", REALS)
def test_rounding_to_a_format_is_numpys_cast(source, target):
    if source.itemsize <= target.itemsize and source != target:
        values = np.concatenate([specials(source), uniform_bits(source, 2000, seed=4)])
    else:
        values = neighbours_of_midpoints(source, target)
    with np.errstate(all="ignore"):
        if source.name == "float64" and target.name == "bfloat16":
            # ml_dtypes converts to float32 first. Use float32 numbers, to round only once.
            values = values.astype(np.float32).astype(np.float64)
        expected = values.astype(target)
    a, b = oracle.FORMATS[source.name], oracle.FORMATS[target.name]
    got = [oracle.encode(oracle.decode(v, a), b) for v in oracle.bits_of(values)]
    got = np.array(got, dtype=bit_view(target)).view(target)
    nan = is_nan(values)
    same(got[~nan], expected[~nan])
    assert np.isnan(got[nan]).all()


@pytest.mark.parametrize("op", [oracle.divide, oracle.multiply], ids=["divide", "multiply"])
@pytest.mark.parametrize(
    "dtype", [d for d in REALS if d.name in ("float32", "float64")], ids=name_of
)
def test_division_and_product_are_numpys(op, dtype):
    fmt = oracle.FORMATS[dtype.name]
    some = np.concatenate([specials(dtype), uniform_bits(dtype, 60, seed=5)])
    x, y = (v.reshape(-1) for v in np.meshgrid(some, some))
    ufunc = operator.truediv if op is oracle.divide else operator.mul
    with np.errstate(all="ignore"):
        expected = ufunc(x, y)
    got = [
        oracle.encode(op(oracle.decode(a, fmt), oracle.decode(b, fmt)), fmt)
        for a, b in zip(oracle.bits_of(x), oracle.bits_of(y), strict=True)
    ]
    got = np.array(got, dtype=bit_view(dtype)).view(dtype)
    nan = np.isnan(expected)
    same(got[~nan], expected[~nan])
    assert np.isnan(got[nan]).all()


def widths(kind):
    """Return the name and the number of bits of each type of a kind."""
    return {t.name: t.bits for t in TYPES.values() if t.kind == kind}


def test_every_type_has_a_definition():
    """The oracle defines exactly the types of pyquant."""
    formats, narrow = oracle.FORMATS, oracle.NARROW_FORMATS
    assert widths("real") == {name: formats[name].bits for name in formats}
    assert widths("float") == {name: narrow[name].bits for name in narrow}
    assert widths("exponent") == {"float8_e8m0fnu": 8}


@loop("name", widths("integer"))
def test_ranges_of_integers(name):
    lowest, highest = oracle.code_range(name)
    assert (TYPES[name].lowest, TYPES[name].highest) == (lowest, highest)
    assert highest - lowest == 2 ** TYPES[name].bits - 1


@loop("name", TYPES)
def test_sizes(name):
    assert TYPES[name].nbytes == -(-TYPES[name].bits // 8)
    if hasattr(np, name):
        assert TYPES[name].nbytes == np.dtype(name).itemsize
