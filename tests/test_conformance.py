"""Every case of tests/conformance: the standards and their corner cases, to the bit."""

from importlib import import_module

import numpy as np
import pytest
from conformance.cases import BLOCKS, STANDARDS, any_nan, argument, array, calls
from support import is_nan, same

import pyquant as pq

CALLS = [(path.stem, call) for path in STANDARDS for call in calls(path)]
NAMES = [f"{file}-{call.id}" for file, call in CALLS]
NEAREST = ("TOWARD_INFINITY", "TOWARD_ZERO", "UPWARD", "DOWNWARD", "TOWARD_EVEN")
OTHERS = ("TOWARD_INFINITY", "TOWARD_ZERO", "UP", "DOWN")

ERRORS = {
    "TypeError": TypeError,
    "ValueError": ValueError,
    "AxisError": np.exceptions.AxisError,
}


def function(op):
    """`ngraph.quantize` is that of pyquant.ngraph, `quantize` that of pyquant."""
    module, _, name = op.rpartition(".")
    return getattr(import_module(f"pyquant.{module}" if module else "pyquant"), name)


def strided(value):
    """The same array where no two elements are neighbours in memory."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    return np.repeat(value, 2, axis=-1)[..., ::2]


def check(got, spec):
    """A result against an expected array; where that says "nan", any NaN will do."""
    __tracebackhide__ = True
    expected, free = array(spec), any_nan(spec)
    got = np.asarray(got) if isinstance(got, np.generic) else got
    assert got.flags.c_contiguous
    assert got.shape == expected.shape
    if free.any():
        assert is_nan(got[free]).all()
        got = np.where(free, expected, got)
    same(got, expected)


@pytest.mark.parametrize("call", [call for _, call in CALLS], ids=NAMES)
def test_case(call):
    try:
        args = {name: argument(value) for name, value in call.args.items()}
        # An expected ml_dtypes array cannot be built without ml_dtypes.
        expects = call.acceptable[0] if call.acceptable else []
        for expect in expects if isinstance(expects, list) else [expects]:
            array(expect)
    except ImportError:
        # Not what the case is about: most of the files need none of its types.
        pytest.skip("ml_dtypes is not installed")
    if call.refused:
        names = "|".join(call.error["parameter"])
        with pytest.raises(
            ERRORS[call.error["error"]], match=f"^({names}):" if names else None
        ):
            function(call.op)(**args)
        return
    for inputs in (args, {name: strided(value) for name, value in args.items()}):
        got = function(call.op)(**inputs)
        several = isinstance(expects, list)
        for result, expect in zip(
            got if several else [got], expects if several else [expects], strict=True
        ):
            check(result, expect)


def test_round_modes_of_ngraph():
    # The members mean what the strings mean, and have nGraph's numbers.
    ngraph = import_module("pyquant.ngraph")
    names = [f"ROUND_NEAREST_{tie}" for tie in NEAREST] + [f"ROUND_{to}" for to in OTHERS]
    assert {mode.name: mode.value for mode in ngraph.RoundMode} == dict(
        zip(names, range(9), strict=True)
    )
    x = np.array([2.5, -2.5, 3.5, -3.5, 2.25, -2.25], np.float32)
    one, zero = np.float32(1), np.int8(0)
    for mode in ngraph.RoundMode:
        got = ngraph.quantize(x, one, zero, "i8", (), mode)
        same(got, ngraph.quantize(x, one, zero, "i8", (), mode.name))


AXES = [{1, 0}, (1, 0), [0, 1, 1], range(2), np.array([1, 0])]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_axes_of_ngraph_are_any_iterable(axes):
    ngraph = import_module("pyquant.ngraph")
    scale = np.array([[1, 2], [4, 8]], np.float32)
    q, zero = np.ones((2, 2), np.int8), np.zeros((2, 2), np.int8)
    same(ngraph.dequantize(q, scale, zero, "f32", axes), scale)


DECODED = [call for path in BLOCKS for call in calls(path) if call.op == "ggml.decode"]


@pytest.mark.parametrize("call", DECODED, ids=[call.id for call in DECODED])
def test_decoded_as_by_ggml(call):
    got = pq.block_format(call.args["type"]).decode(array(call.args["blocks"]))
    same(got, array(call.expect))


ENCODED = [call for path in BLOCKS for call in calls(path) if call.op == "ggml.encode"]


@pytest.mark.parametrize("call", ENCODED, ids=[call.id for call in ENCODED])
def test_encoded_as_by_ggml(call):
    options = {"search": call.args.get("search")}
    if "weights" in call.args:
        options["weights"] = array(call.args["weights"])
    got = pq.block_format(call.args["type"]).encode(array(call.args["x"]), **options)
    same(got, array(call.expect))


def test_each_case_has_its_own_name():
    assert len(set(NAMES)) == len(NAMES)
