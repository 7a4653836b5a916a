"""Tests of the ten rounding modes and of `precision`, the type of quotients."""

import enum

import numpy as np
import oracle
from support import (
    AVAILABLE_CODES,
    CODES,
    HAVE_BFLOAT16,
    MODES,
    PRECISIONS,
    REALS,
    TYPES,
    adversarial,
    amount,
    by_family,
    cast,
    compute_dtype,
    float_of_bits,
    inputs_of_many_scales,
    loop,
    quantize_at,
    same,
    ulps,
)

import pyquant as pq
from pyquant.dtypes import NARROW_INTEGERS

VALUES = (2.5, -2.5, 3.5, -3.5, 2.25, -2.25, 2.75, -2.75, 0.5, -0.5)
# The published results for VALUES. Comments have nGraph's name of each mode.
TABLE = {
    "half_away": (3, -3, 4, -4, 2, -2, 3, -3, 1, -1),  # ROUND_NEAREST_TOWARD_INFINITY
    "half_toward_zero": (2, -2, 3, -3, 2, -2, 3, -3, 0, 0),  # ROUND_NEAREST_TOWARD_ZERO
    "half_up": (3, -2, 4, -3, 2, -2, 3, -3, 1, 0),  # ROUND_NEAREST_UPWARD
    "half_down": (2, -3, 3, -4, 2, -2, 3, -3, 0, -1),  # ROUND_NEAREST_DOWNWARD
    "half_even": (2, -2, 4, -4, 2, -2, 3, -3, 0, 0),  # ROUND_NEAREST_TOWARD_EVEN
    "away": (3, -3, 4, -4, 3, -3, 3, -3, 1, -1),  # ROUND_TOWARD_INFINITY
    "trunc": (2, -2, 3, -3, 2, -2, 2, -2, 0, 0),  # ROUND_TOWARD_ZERO
    "ceil": (3, -2, 4, -3, 3, -2, 3, -2, 1, 0),  # ROUND_UP
    "floor": (2, -3, 3, -4, 2, -3, 2, -3, 0, -1),  # ROUND_DOWN
    "half_odd": (3, -3, 3, -3, 2, -2, 3, -3, 1, -1),  # not in nGraph
}


@by_family("code", CODES)
@loop("mode, source", MODES, REALS)
def test_table(mode, source, code, isa):
    x = np.resize(np.array(VALUES), 70).astype(source)
    zero = 10 if code.kind == "u" else 0
    expected = (np.resize(np.array(TABLE[mode]), 70) + zero).astype(code)
    same(quantize_at(isa, x, 1.0, zero, dtype=code, rounding=mode), expected)
    scale = np.ones(70, dtype=np.float32)
    got = quantize_at(isa, x, scale, zero, dtype=code, rounding=mode, axis=0)
    same(got, expected)


SUB_BYTE = NARROW_INTEGERS if HAVE_BFLOAT16 else ()


@by_family("code", [*SUB_BYTE, *CODES[amount(4, 0) :]])
@loop("mode, source", MODES, [np.dtype("float32"), np.dtype("float64")])
def test_beside_integers_and_halves(mode, source, code):
    whole = [0, 1, 2, 3, 4, 7, 8, 15, 16, 126, 127, 128, 255, 256, 32767, 65535]
    whole += [2**bits for bits in (22, 23, 24, 31, 32)]
    points = np.array([w + d for w in whole for d in (-1, -0.5, 0, 0.5, 1)])
    if source == np.float64:
        points = np.concatenate([points, 2.0**52 + np.array([-0.5, 0, 1])])
    points = np.concatenate([points, -points]).astype(source)
    x = np.concatenate([ulps(points, d) for d in (-1, 0, 1)])
    one = np.ones(1, dtype=source)
    for zero in (0, oracle.code_range(code)[1]):
        got = quantize_at("scalar", x, one, zero, dtype=code, rounding=mode)
        same(got, oracle.quantize(x, one, zero, dtype=code, rounding=mode))


@loop("mode", MODES)
def test_where_adding_a_half_goes_wrong(mode, isa):
    below_half = float_of_bits([0x3EFFFFFF])[0]  # 0.49999997
    x = np.resize([below_half, -below_half, 8388609.0, -8388609.0, 16777215.0], 65)
    x = x.astype(np.float32)
    up = {"away": (1, -1), "ceil": (1, 0), "floor": (0, -1)}.get(mode, (0, 0))
    expected = np.resize([*up, 8388609, -8388609, 16777215], 65).astype(np.int32)
    same(quantize_at(isa, x, 1.0, dtype="int32", rounding=mode), expected)
    small = np.clip(expected, -128, 127).astype(np.int8)
    same(quantize_at(isa, x, 1.0, dtype="int8", rounding=mode), small)
    wide = np.array([0.49999999999999994, -0.49999999999999994, 4503599627370497.0])
    limits = np.array([*up, 2**31 - 1], dtype=np.int32)
    same(quantize_at(isa, wide, 1.0, dtype="int32", rounding=mode), limits)


def test_the_modes_are_an_enum_of_strings():
    assert issubclass(pq.RoundMode, enum.StrEnum)
    assert {m.value for m in pq.RoundMode} == {*MODES, "stochastic"}
    assert all(m.name == m.value.upper() for m in pq.RoundMode)


@loop("mode", MODES)
def test_an_enum_member_is_its_string(mode):
    x = np.float32(VALUES)
    member = pq.RoundMode(mode)
    expected = pq.quantize(x, 1.0, rounding=mode)
    for given in (member, member.name, mode.title()):
        assert pq.RoundMode(given) is member
        same(pq.quantize(x, 1.0, rounding=given), expected)


@by_family("target", AVAILABLE_CODES)
@loop("source, precision", REALS, PRECISIONS)
def test_exact_in_every_precision(source, precision, target):
    for i, scale in enumerate((0.1, 1.7, -3.0, 1e-40, 1e30)):
        x = adversarial(source, scale, amount(30, 150), seed=i)
        s = np.array([scale], dtype=compute_dtype(source))
        zero, options = 0, {"dtype": target, "precision": precision}
        if TYPES[target].kind == "integer":
            zero, options["rounding"] = 1, MODES[i]
        got = quantize_at("scalar", x, s, zero, **options)
        same(got, oracle.quantize(x, s, zero, **options))


@loop("source, precision", REALS, PRECISIONS)
def test_exact_with_a_scale_for_each_element(source, precision):
    x, scale = inputs_of_many_scales(source, amount(80, 300))
    got = quantize_at("scalar", x, scale, axis=0, dtype="int16", precision=precision)
    same(got, oracle.quantize(x, scale, dtype="int16", precision=precision))


# Each exact quotient is close to a midpoint between two numbers of the precision. If the
# quotient were rounded to float64 first, the result would be the midpoint.
@loop(
    "source, precision",
    [np.dtype("float64"), np.dtype("float32")],
    [name for name in PRECISIONS if name != "float64"],  # Codes are coarser.
)
def test_a_quotient_is_rounded_once(source, precision):
    digits = {"float16": 11, "bfloat16": 8, "float32": 24}[precision]
    rng = np.random.default_rng(digits)
    odd = rng.integers(1 << (digits - 1), 1 << digits, amount(40, 200)) * 1.0 + 0.5
    for scale in (0.1, 1 / 3, 1.7, 7.0, 1e-3):
        s = np.array([scale], dtype=source)
        with np.errstate(all="ignore"):
            points = cast(odd * s[0].astype(np.float64), source)
        x = np.concatenate([ulps(points, d) for d in (-1, 0, 1)])
        got = quantize_at("scalar", x, s, dtype="int32", precision=precision)
        same(got, oracle.quantize(x, s, dtype="int32", precision=precision))


def test_the_pair_that_standards_disagree_about():
    x = np.array([0.25], dtype=np.float16)
    scale = np.float16(0.1)
    assert pq.quantize(x, scale).tolist() == [3]
    assert pq.quantize(x, scale, precision="float16").tolist() == [2]


def test_the_precision_does_not_change_the_scale():
    # The scale is rounded to the type of the arithmetic, which depends on `x` alone.
    scale = 0.1  # `tie` is a tie only if the scale is float32.
    tie = np.float32([2.5]) * np.float32(scale)
    for precision in PRECISIONS:
        kwargs = {"precision": precision, "dtype": "int32"}
        for x in (tie, adversarial("float32", scale, 200)):
            expected = oracle.quantize(x, np.float64([scale]), **kwargs)
            same(pq.quantize(x, scale, **kwargs), expected)
        x = adversarial("float64", scale, 200)
        expected = oracle.quantize(x, np.float64([scale]), **kwargs)
        same(pq.quantize(x, scale, **kwargs), expected)
    assert pq.quantize([3e300], 1e300, precision="float32").tolist() == [3]
    assert pq.quantize([1e-50], 1e-50, precision="float32").tolist() == [1]


def test_a_precision_may_be_named_in_every_way():
    x = np.float32([0.25, 1.3])
    expected = pq.quantize(x, 0.1, precision="float16")
    for precision in (np.float16, np.dtype("float16"), "f2", "e"):
        same(pq.quantize(x, 0.1, precision=precision), expected)
