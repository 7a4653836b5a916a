"""What most calls are given is recognised at once: the same bits and errors as any call."""

import re

import numpy as np
import pytest
from support import CODES, HAVE_BFLOAT16, NARROW, PACKED, REALS, adversarial, same

import pyquant as pq
from pyquant.dtypes import TYPES

# An array of a narrow type wants ml_dtypes; packed ones are for everybody.
CODE_NAMES = [*(dtype.name for dtype in CODES), *(NARROW if HAVE_BFLOAT16 else ())]
SCALE = 0.3
SIZES = (0, 1, 7, 33, 1000)


def data(real, n):
    with np.errstate(all="ignore"):
        return adversarial("float32", SCALE, max(n, 1)).ravel()[:n].astype(real)


def zeros_of(code):
    row = TYPES[code]
    return (None, 0, 1, row.lowest, row.highest) if row.kind == "integer" else (None,)


@pytest.mark.parametrize("code", CODE_NAMES)
@pytest.mark.parametrize("real", REALS, ids=str)
def test_quantize_as_any_call(real, code):
    for n in SIZES:
        x = data(real, n)
        for zero in zeros_of(code):
            # An array of scales is not usual.
            due = pq.quantize(x, np.array(SCALE), zero, dtype=code)
            same(pq.quantize(x, SCALE, zero, dtype=code), due)
            out = np.empty_like(due)
            assert pq.quantize(x, SCALE, zero, dtype=code, out=out) is out
            same(out, due)
            p = pq.QParams(SCALE, zero, code)
            same(p.quantize(x), due)


@pytest.mark.parametrize("real", REALS, ids=str)
@pytest.mark.parametrize("code", CODE_NAMES)
def test_dequantize_as_any_call(code, real):
    for n in SIZES:
        q = pq.quantize(data("float32", n), SCALE, dtype=code)
        for zero in zeros_of(code):
            due = pq.dequantize(q, np.array(SCALE), zero, dtype=real)
            same(pq.dequantize(q, SCALE, zero, dtype=real), due)
            out = np.empty_like(due)
            assert pq.dequantize(q, SCALE, zero, out=out) is out
            same(out, due)


@pytest.mark.parametrize("code", PACKED)
def test_packed_as_any_call(code):
    for n in SIZES:
        x = data("float32", n)
        for zero in zeros_of(code):
            due = pq.quantize(x, np.array(SCALE), zero, dtype=code, packed=True)
            got = pq.quantize(x, SCALE, zero, dtype=code, packed=True)
            assert got == due
            assert got.shape == due.shape == (n,)
            same(pq.dequantize(got, SCALE, zero), pq.dequantize(due, np.array(SCALE), zero))


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4), (1,) * 64])
def test_shapes(shape):
    x = np.full(shape, 0.75, np.float32)
    due = np.full(shape, 3, np.int8)
    same(pq.quantize(x, 0.25), due)
    same(pq.dequantize(due, 0.25), x)
    packed = pq.quantize(x, 0.25, dtype="int4", packed=True)
    assert packed.shape == shape
    same(pq.dequantize(packed, 0.25), x)


@pytest.mark.parametrize("rounding", [r.value for r in pq.RoundMode])
def test_rounding(rounding):
    x = data("float32", 333)
    due = pq.quantize(x, np.array(SCALE), 3, rounding=rounding)
    same(pq.quantize(x, SCALE, 3, rounding=str(rounding)), due)


def test_what_is_not_usual():
    x = data("float32", 24).reshape(4, 6)
    due = pq.quantize(x, np.array(SCALE))
    for given in (np.asfortranarray(x), x[::-1][::-1], x.astype(">f4"), x.tolist()):
        same(pq.quantize(given, SCALE), pq.quantize(np.array(given, "f4"), np.array(SCALE)))
    for out in (np.empty((6, 4), np.int8).T, np.empty((4, 12), np.int8)[:, ::2]):
        assert pq.quantize(x, SCALE, out=out) is out
        same(np.ascontiguousarray(out), due)
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    unaligned[...] = x
    same(pq.quantize(unaligned, SCALE), due)


X = np.ones(4, np.float32)
READ_ONLY = np.ones(4, np.int8)
READ_ONLY.flags.writeable = False
REFUSED = {
    "out of another type": ({"out": np.ones(4, np.uint8)}, TypeError, "out: "),
    "out of another shape": ({"out": np.ones((2, 2), np.int8)}, ValueError, "out: "),
    "out of another length": ({"out": np.ones(5, np.int8)}, ValueError, "out: "),
    "read-only out": ({"out": READ_ONLY}, ValueError, "out: "),
    "out and packed": (
        {"out": READ_ONLY, "dtype": "int4", "packed": True},
        ValueError,
        "out: ",
    ),
    "packed bytes": ({"packed": True}, ValueError, "packed: "),
    "a zero point beyond": ({"zero_point": 128}, ValueError, "zero_point: "),
    "a zero point far beyond": ({"zero_point": 2**70}, ValueError, "zero_point: "),
    "of a float": ({"zero_point": 1, "dtype": "float8_e5m2"}, ValueError, "zero_point: "),
    "a float's rounding": (
        {"rounding": "ceil", "dtype": "float8_e5m2"},
        ValueError,
        "roun",
    ),
    "no rounding": ({"rounding": "up"}, ValueError, "rounding: "),
    "no code": ({"dtype": "float32"}, TypeError, "dtype: "),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case):
    keywords, error, text = case
    with pytest.raises(error, match=f"^{re.escape(text)}"):
        pq.quantize(X, 0.5, **keywords)


def test_memory_that_is_shared_is_refused():
    memory = np.zeros(64, np.uint8)
    x, whole = memory[:32].view(np.float32), memory[:32].view(np.int8)
    for out in (whole[:8], whole[24:32]):
        with pytest.raises(ValueError, match=r"^out: expected memory of its own"):
            pq.quantize(x, 0.5, out=out)
    beside = memory[32:40].view(np.int8)
    assert pq.quantize(x, 0.5, out=beside) is beside
    q, real = memory[:8].view(np.int8), memory[4:36].view(np.float32)
    with pytest.raises(ValueError, match=r"^out: expected memory of its own"):
        pq.dequantize(q, 0.5, out=real)
