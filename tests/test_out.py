"""`out`: returned, written exactly, refused when it overlaps, untouched by errors."""

import itertools

import numpy as np
import pytest
from support import (
    CODES,
    REALS,
    adversarial,
    bit_view,
    codes,
    loop,
    same,
    usual_scales,
)

import pyquant as pq


def right_or_refused(call, memory, views, out, expected):
    """If `out` overlaps an input, expect the correct result, or an error and no write."""
    __tracebackhide__ = True
    before = memory.copy()
    result, error = None, None
    try:
        result = call(*views, out)
    except ValueError as refused:
        error = refused
    if error is None:
        assert result is out
        same(out.copy(), expected)
    else:
        assert str(error).startswith("out: expected memory of its own, got an array")
        same(memory, before)


def overlapping(dtype, out_dtype, count):
    """Yield two views of one memory at many distances and in both directions."""
    a, b = np.dtype(dtype).itemsize, np.dtype(out_dtype).itemsize
    size = count * (a + b) * 2 + 64 * 8
    for start, other in itertools.product(
        (0, 1, 4, a, 8 * a, 32 * a, 40), (0, 1, 4, 32, 64)
    ):
        for flip in (1, -1):
            memory = np.zeros(size, dtype=np.uint8)
            x = memory[start : start + count * a].view(dtype)
            out = memory[other : other + count * b].view(out_dtype)[::flip]
            yield memory, x, out


@loop("source, target", REALS, CODES)
def test_quantize_into_the_input(source, target):
    for n in (3, 70):
        values = adversarial(source, 0.3, n)
        expected = pq.quantize(values, 0.3, dtype=target)
        for memory, x, out in overlapping(source, target, n):
            x.view(bit_view(source))[...] = values.view(bit_view(source))
            right_or_refused(
                lambda x, out: pq.quantize(x, 0.3, dtype=target, out=out),
                memory,
                [x],
                out,
                expected,
            )


@loop("source, target", CODES, REALS)
def test_dequantize_into_the_input(source, target):
    for n in (3, 70):
        values = codes(source, n)
        expected = pq.dequantize(values, 0.3, dtype=target)
        for memory, q, out in overlapping(source, target, n):
            q[...] = values
            right_or_refused(
                lambda q, out: pq.dequantize(q, 0.3, dtype=target, out=out),
                memory,
                [q],
                out,
                expected,
            )


def test_out_over_the_parameters():
    x, scales = adversarial("float32", 0.3, 70), usual_scales("float32", 70)
    zeros = codes("int8", 70)
    for name, given, view in (
        ("scale", scales, np.float32),
        ("zero_point", zeros, np.int8),
        ("one scale", np.float32([0.3]), np.float32),
    ):
        call = {"scale": scales, "zero_point": zeros, "axis": 0}
        if name == "one scale":
            call, name = {"zero_point": 5}, "scale"
        expected = pq.quantize(x, **{**call, name: given})
        for shift in (0, 1, 4, 35, 210):
            memory = np.zeros(800, np.uint8)
            part = memory[40 : 40 + given.nbytes].view(view)
            part[...] = given
            right_or_refused(
                lambda part, out, call=call, name=name: pq.quantize(
                    x, **{**call, name: part}, out=out
                ),
                memory,
                [part],
                memory[shift : shift + 70].view(np.int8),
                expected,
            )


def test_a_transposed_out_over_the_input():
    memory = adversarial("float32", 0.3, 64).view(np.int8).copy()
    x = memory.view(np.float32).reshape(8, 8)
    expected = pq.quantize(x.copy(), 0.3)
    right_or_refused(
        lambda x, out: pq.quantize(x, 0.3, out=out),
        memory,
        [x],
        memory[:64].reshape(8, 8).T,
        expected,
    )


def test_interleaved_memory_is_no_overlap():
    record = np.zeros(70, dtype=[("x", "f4"), ("q", "i1"), ("pad", "u1")])
    record["x"] = adversarial("float32", 0.3, 70)
    expected = pq.quantize(record["x"].copy(), 0.3)
    out = record["q"]
    pq.quantize(record["x"], 0.3, out=out)
    same(record["q"].copy(), expected)
    assert not record["pad"].any()


def test_neighbours_in_memory_are_no_overlap():
    memory = np.zeros(70 * 5, np.uint8)
    x = memory[: 70 * 4].view(np.float32)
    x[...] = usual_scales("float32", 70)
    out = memory[70 * 4 :].view(np.int8)
    pq.quantize(x, 0.3, out=out)
    same(out.copy(), pq.quantize(x.copy(), 0.3))


def test_an_out_whose_elements_share_memory_is_refused():
    memory = np.zeros(8, np.int8)
    out = np.lib.stride_tricks.as_strided(memory, (4, 8), (0, 1), writeable=True)
    with pytest.raises(ValueError, match=r"^out: "):
        pq.quantize(np.ones((4, 8), np.float32), 1.0, out=out)
    assert not memory.any()


def test_an_out_that_says_it_is_larger_than_it_is():
    ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; it defines the type

    class Claims(np.ndarray):
        dtype = property(lambda self: np.dtype(ml_dtypes.bfloat16))

        def view(self, *_):
            return np.ndarray.view(self, np.ndarray)

    q = np.int8([1, 2])
    pq.dequantize(q, 1.0, dtype="bfloat16")  # a type that is known from now on
    memory = np.full(8, 0xA5, np.uint8)
    with pytest.raises(TypeError, match=r"^out: expected bfloat16, got uint8$"):
        pq.dequantize(q, 1.0, dtype="bfloat16", out=np.ndarray.view(memory[:2], Claims))
    assert (memory == 0xA5).all()
