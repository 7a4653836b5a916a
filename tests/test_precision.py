"""`precision`: the quotient is rounded to this type before it is rounded to an integer."""

import numpy as np
import oracle
from support import (
    AVAILABLE_CODES,
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
    inputs_of_many_scales,
    loop,
    quantize_at,
    same,
    ulps,
)

import pyquant as pq
from pyquant import isa


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


TARGETS = ["int8", "uint8", "int16", "uint16"]
if HAVE_BFLOAT16:  # ml_dtypes also defines int4.
    TARGETS.append("int4")


@loop("dtype, target", REALS[2:], TARGETS)
def test_scales_of_a_16_bit_type(dtype, target):
    """Numbers, scales and quotients of one type, as in an ONNX model of that type."""
    limits = {"int4": (-8, 7)}.get(target)
    for i, scale in enumerate((0.1, 1.7, -3.0, 0.0, np.inf, 6e-5)):
        x, s = adversarial(dtype, scale, amount(90, 400), seed=i), cast([scale], dtype)
        zeros = np.resize([0, 1, 3, 7], x.size)
        whole = "int8" if target == "int4" else target
        expected = oracle.quantize(x, s, zeros, dtype=whole, precision=dtype.name)
        if limits is not None:
            expected = np.clip(expected, *limits)
        for level in isa.available():
            got = quantize_at(
                *(level, x, np.resize(s, x.size), zeros),
                axis=0,
                dtype=target,
                precision=dtype,
            )
            same(got.astype(whole), expected)


# These quotients are close to a midpoint of the precision. If they were first rounded to
# float64, they would fall on the midpoint.
@loop(
    "source, precision",
    [np.dtype("float64"), np.dtype("float32")],
    [name for name in PRECISIONS if name != "float64"],  # No code is as fine as float64.
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


@loop("source", ["float32", "float16"])
def test_float32_is_the_default(source):
    x = adversarial(source, 0.3, 300)
    same(pq.quantize(x, 0.3), pq.quantize(x, 0.3, precision="float32"))
    same(pq.quantize(x, 0.3, precision=None), pq.quantize(x, 0.3, precision="float32"))


def test_float64_is_the_default_for_float64():
    x = adversarial("float64", 0.3, 300)
    same(pq.quantize(x, 0.3), pq.quantize(x, 0.3, precision="float64"))
    near = np.array([2.5 + 1e-10])
    assert pq.quantize(near, 1.0).tolist() == [3]
    assert pq.quantize(near, 1.0, precision="float32").tolist() == [2]


def test_the_precision_does_not_change_the_scale():
    # The scale is rounded to the type of the arithmetic. Only `x` decides this type.
    scale = 0.1  # A tie below depends on the float32 scale.
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


def test_overflow_of_a_narrow_quotient_saturates():
    x = np.float32([65519.0, 65520.0, -65520.0])
    got = pq.quantize(x, 1.0, dtype="int32", precision="float16")
    assert got.tolist() == [65504, 2**31 - 1, -(2**31)]


def test_underflow_of_a_narrow_quotient_is_zero_in_every_mode():
    x = np.float32([2.0**-25, -(2.0**-25), 1.1 * 2.0**-25])
    for mode in MODES:
        got = pq.quantize(x, 1.0, precision="float16", rounding=mode)
        above = 1 if mode in ("ceil", "away") else 0
        assert got.tolist() == [0, 0, above]
