"""Tests that error messages state the wrong value, the valid names and a remedy."""

import inspect
import itertools

import numpy as np
import public_calls
import pytest
from support import REALS, bit_view, dtype_of, each

import pyquant as pq
from pyquant.weights.blocks import block_format

HUGE = 2**63  # for errors.txt
X, Q = np.float32([1, 2]), np.int8([1, 2])


def message(kind, call):
    """Return the message of the exception that a call raises."""
    __tracebackhide__ = True
    with pytest.raises(kind) as error:
        call()
    return str(error.value)


# Names


UNKNOWN_KEYWORD = "() got an unexpected keyword argument "
# Arguments of these modules have the names that a standard defines.
STANDARDS = "com_microsoft", "ngraph", "onednn", "onnx"


def keywords():
    """Return the first keyword-only argument of each function without **options."""
    found = {}
    for name, value in public_calls.public():
        if (
            name.count(".") > 1
            or name.split(".")[0] in STANDARDS
            or isinstance(value, type)
        ):
            continue
        arguments = inspect.signature(value).parameters.values()
        kinds = {one.kind for one in arguments}
        for one in arguments:
            if one.kind is one.KEYWORD_ONLY and one.VAR_KEYWORD not in kinds:
                found.setdefault(name, (value, one.name))
    return found


KEYWORDS = keywords()


@pytest.mark.parametrize("name", KEYWORDS)
def test_each_function_gives_a_hint_for_a_wrong_keyword(name):
    function, keyword = KEYWORDS[name]
    said = message(TypeError, lambda: function(**{f"{keyword}_": 0}))
    start = f"{function.__name__}{UNKNOWN_KEYWORD}'{keyword}_'"
    assert said == f"{start}; did you mean {keyword}?"


DIGITS = 10**5000  # for errors.txt: more digits than Python prints


def test_names_in_any_letter_case():
    assert pq.dequantize(Q, 1.0, dtype="FLOAT64").dtype == np.float64
    assert pq.QParams(1.0, 0, "Float8_E4M3FN") == pq.QParams(1.0, 0, "float8_e4m3fn")
    same = pq.quantize(X, 1.0, codebook="NF4") == pq.quantize(X, 1.0, codebook="nf4")
    assert same.all()
    assert block_format("iq4_nl") is block_format("IQ4_NL")


def test_short_names_of_types():
    for name, short in (
        ("float8_e4m3fn", ("e4m3", "E4M3FN", "fp8_e4m3", "FP8_E4M3")),
        ("float8_e5m2", ("e5m2", "fp8_e5m2")),
        ("float4_e2m1fn", ("e2m1", "fp4_e2m1")),
    ):
        for one in short:
            assert pq.QParams(1.0, dtype=one) == pq.QParams(1.0, dtype=name)
    for name, short in (("float16", "fp16"), ("float32", "FP32"), ("float64", "fp64")):
        assert pq.dequantize(Q, 1.0, dtype=short).dtype == name
    same = pq.choose_qparams(X, dtype="E5M2", scale_dtype="fp16")
    assert same == pq.choose_qparams(X, dtype="float8_e5m2", scale_dtype="float16")


@pytest.mark.parametrize("function", [pq.quantize, pq.dequantize])
def test_no_scale(function):
    numbers = X if function is pq.quantize else Q
    said = message(TypeError, lambda: function(numbers))
    assert said.startswith("scale: expected ")
    assert said == message(TypeError, lambda: function(numbers, None))
    scale = inspect.signature(function).parameters["scale"]
    assert scale.default is inspect.Parameter.empty
    assert scale.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert "scale, zero_point=None" in str(inspect.signature(function))


# Bit patterns of quiet and signaling NaNs. The sign bit is 0.
NANS = {
    "float32": (0x7FC00000, 0x7F800001, 0x7FFFFFFF),
    "float64": (0x7FF8 << 48, (0x7FF << 52) | 1, (0x7FF << 52) | (1 << 30)),
    "float16": (0x7E00, 0x7C01, 0x7FFF),
    "bfloat16": (0x7FC0, 0x7F81, 0x7FFF),
    "float8_e4m3fn": (0x7F,),
    "float8_e5m2": (0x7E, 0x7D, 0x7F),
}


@each("target, sign", ["float8_e4m3fn", "float8_e5m2"], [0, 1])
def test_a_scale_of_nan_gives_its_sign_to_the_code(target, sign):
    expected = {"float8_e4m3fn": 0x7F, "float8_e5m2": 0x7E}[target] | sign << 7
    for source, (name, patterns) in itertools.product(REALS, NANS.items()):
        x = np.resize(np.array([1.0, 3.0, 0.0, 2.5]), 70).astype(source)
        dtype = dtype_of(name)
        for pattern in patterns:
            bits = np.full(70, pattern | sign << (8 * dtype.itemsize - 1), bit_view(dtype))
            nan = bits.view(dtype)
            for scale, axis in ((nan[0], None), (nan[:1], None), (nan, 0)):
                q = pq.quantize(x, scale, axis=axis, dtype=target)
                assert (q.view(np.uint8) == expected).all()


def test_integers_that_only_floats_hold():
    y = pq.onnx.quantize_linear(2**70, np.float32(2.0**65), np.int8(0))
    assert int(y) == 32
    y = pq.onnx.quantize_linear(np.float32(2.0**70), 2**65, np.int8(0))
    assert int(y) == 32
