"""Compare pyquant with every case of tests/conformance, bit for bit."""

from operator import attrgetter

import numpy as np
import pytest
from conformance.cases import BLOCKS, STANDARDS, any_nan, argument, array, calls
from support import case, is_nan, loop, same

import pyquant as pq
from pyquant.weights.blocks import block_format

CALLS = {path.stem: list(calls(path)) for path in STANDARDS}
BLOCK_CALLS = [call for path in BLOCKS for call in calls(path)]

ERRORS = {
    "TypeError": TypeError,
    "ValueError": ValueError,
    "AxisError": np.exceptions.AxisError,
}


def parts(weight):
    """Return the unpacked codes and the scales of a weight."""
    codes, *scales = weight.tensors().values()
    if codes.dtype == np.uint8:  # two float4 codes
        codes = np.stack([codes & 15, codes >> 4], -1).reshape(weight.shape)
        codes = codes.view("float4_e2m1fn")
    return (codes, *(one.reshape(()) if one.size == 1 else one for one in scales))


def dequantize_nvfp4(q, scale, tensor_scale, like):
    """Return the numbers of an NVFP4 weight from tensors with the names of a package."""
    prefix = {"torchao": ("weight", "weight_scale_2")}
    codes, single = prefix.get(like, ("weight_packed", "weight_global_scale"))
    given = {codes: q, "weight_scale": scale, single: tensor_scale}
    return pq.weights.nvfp4.from_tensors(given).dequantize()


# The functions for operators that have no function with the name of the operator.
OPERATORS = {
    "mx.quantize": lambda **given: parts(pq.weights.mx.quantize(**given)),
    "mx.dequantize": lambda q, scale: pq.weights.mx.from_tensors(
        {"weight": q, "weight_scale": scale}
    ).dequantize(),
    "nvfp4.quantize": lambda **given: parts(pq.weights.nvfp4.quantize(**given)),
    "nvfp4.dequantize": dequantize_nvfp4,
}


def function(op):
    """Return the function of an operator. For example, `ngraph.quantize` is the function
    `quantize` in pyquant.ngraph."""
    if op in OPERATORS:
        return OPERATORS[op]
    owner = pq.weights if op.partition(".")[0] in pq.weights.__all__ else pq
    return attrgetter(op)(owner)


def strided(value):
    """Copy an array into memory with a gap after each element, and return the copy."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    return np.repeat(value, 2, axis=-1)[..., ::2]


def check(got, spec):
    """Compare a result with an expected array. An expected "nan" accepts any NaN."""
    __tracebackhide__ = True
    expected, free = array(spec), any_nan(spec)
    got = np.asarray(got) if isinstance(got, np.generic) else got
    assert got.flags.c_contiguous
    assert got.shape == expected.shape
    if free.any():
        assert is_nan(got[free]).all()
        got = np.where(free, expected, got)
    same(got, expected)


def check_call(call):
    """Assert that a call returns the results, or raises the error, of its case."""
    __tracebackhide__ = True
    try:
        args = {name: argument(value) for name, value in call.args.items()}
        # Build the expected arrays, which fails if their types need ml_dtypes.
        expects = call.acceptable[0] if call.acceptable else []
        for expect in expects if isinstance(expects, list) else [expects]:
            array(expect)
    except ImportError:
        return  # Skip the case, because it needs ml_dtypes.
    if call.refused:
        names = "|".join(call.error["parameter"])
        match = rf"^({names})\b" if names else None
        with pytest.raises(ERRORS[call.error["error"]], match=match):
            function(call.op)(**args)
        return
    for inputs in (args, {name: strided(value) for name, value in args.items()}):
        got = function(call.op)(**inputs)
        several = isinstance(expects, list)
        for result, expect in zip(
            got if several else [got], expects if several else [expects], strict=True
        ):
            check(result, expect)


@pytest.mark.parametrize("file", CALLS)
def test_cases(file):
    ids = [call.id for call in CALLS[file]]
    assert len(set(ids)) == len(ids)
    for call in CALLS[file]:
        with case(id=f"{file}-{call.id}"):
            check_call(call)


AXES = [{1, 0}, (1, 0), [0, 1, 1], range(2), np.array([1, 0])]


@loop("axes", AXES)
def test_axes_of_ngraph_are_any_iterable(axes):
    scale = np.array([[1, 2], [4, 8]], np.float32)
    q, zero = np.ones((2, 2), np.int8), np.zeros((2, 2), np.int8)
    same(pq.ngraph.dequantize(q, scale, zero, "f32", axes), scale)


def test_decoded_by_ggml():
    decoded = [call for call in BLOCK_CALLS if call.op == "ggml.decode"]
    for call in decoded:
        with case(id=call.id):
            got = block_format(call.args["type"]).dequantize(array(call.args["blocks"]))
            same(got, array(call.expect))
    assert len(decoded) == 27


def test_encoded_by_ggml():
    encoded = [call for call in BLOCK_CALLS if call.op == "ggml.encode"]
    for call in encoded:
        options = {"search": call.args.get("search")}
        if "weights" in call.args:
            options["weights"] = array(call.args["weights"])
        with case(id=call.id):
            fmt = block_format(call.args["type"])
            got = fmt.quantize(array(call.args["x"]), **options)
            same(got, array(call.expect))
    assert len(encoded) == 32
