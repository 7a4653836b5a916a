"""Tests of strides, alignments, byte orders, `out`, and objects that become arrays."""

import array

import numpy as np
import pytest
from support import (
    HAVE_BFLOAT16,
    Guarded,
    adversarial,
    amount,
    dequantize_at,
    loop,
    mixed_scales,
    quantize_at,
    same,
    usual_scales,
)

import pyquant as pq


def test_broadcast_views():
    row = adversarial("float32", 0.3, 67)
    wide = np.broadcast_to(row, (5, 67))
    same(pq.quantize(wide, 0.3), pq.quantize(wide.copy(), 0.3))
    tall = np.broadcast_to(row[:, None], (67, 40))
    same(pq.quantize(tall, 0.3), pq.quantize(tall.copy(), 0.3))
    scale = mixed_scales("float32", 40)
    same(pq.quantize(tall, scale, axis=1), pq.quantize(tall.copy(), scale, axis=1))
    point = np.broadcast_to(np.float32(1.7), (3, 50))
    same(pq.quantize(point, 1.0), np.full((3, 50), 2, np.int8))


# Kernels read interleaved pixels of up to 9 channels, with one byte for each channel.
@loop("channels", range(1, 10))
def test_pixels_to_planes_and_back(channels, isa):
    rng = np.random.default_rng(channels)
    for count in (1, 2, 15, 16, 17, 31, 32, 33, 49, 768, 800, 1100):
        pixels = Guarded("uint8", (count, channels), count % 7)
        pixels.array[...] = rng.integers(0, 256, pixels.array.shape)
        scale, zero = (
            np.float32(rng.integers(1, 9, channels)),
            rng.integers(0, 256, channels),
        )
        for first, last in {
            (0, channels),
            (0, max(1, channels - 1)),
            (channels - 1, channels),
        }:
            part = np.s_[first:last]
            given, s, z = pixels.array.T[part], scale[part], zero[part].astype("uint8")
            planes = Guarded("float32", given.shape, 4 * (count % 3))
            dequantize_at(isa, given, s, z, axis=0, out=planes.array)
            want = (given.astype("float32") - z[:, None]) * s[:, None]
            same(planes.array, want)
            back = Guarded("uint8", pixels.array.shape, count % 5)
            back.array[...] = 77
            quantize_at(isa, want, s, z, axis=0, out=back.array.T[part])
            same(back.array.T[part], given)
            back.array.T[part] = 77
            assert (back.array == 77).all()
            for guarded in (pixels, planes, back):
                guarded.check()


def transposed_at(values, offset):
    """Copy values to a Fortran-order array that begins after `offset` unused elements."""
    flat = np.empty(values.size + offset, dtype=values.dtype)
    view = flat[offset:].reshape(values.shape[::-1]).T
    view[...] = values
    return view


def check_transposes(x, code, offset=0, axis=None):
    """Compare calls with a transposed argument, with a transposed result, and with both."""
    how = {"scale": 0.3 if axis is None else mixed_scales("float32", x.shape[axis])}
    how["axis"] = axis
    q = pq.quantize(x, dtype=code, **how)
    back = pq.dequantize(q, dtype=x.dtype, **how)
    for given in (x, transposed_at(x, offset)):
        for out in (np.zeros_like(q), transposed_at(np.zeros_like(q), offset)):
            same(pq.quantize(given, dtype=code, out=out, **how), q)
    for given in (q, transposed_at(q, offset)):
        for out in (np.zeros_like(back), transposed_at(np.zeros_like(back), offset)):
            same(pq.dequantize(given, dtype=x.dtype, out=out, **how), back)


# A transposing call divides an array into squares. These arrays have several squares, and
# incomplete squares at the edges.
ACROSS = [
    *(("float32", code) for code in ("int8", "int16", "int32")),
    *(("float64", "uint8"), ("float64", "int32"), ("float16", "uint16")),
    *([("float32", "int4")] if HAVE_BFLOAT16 else []),  # ml_dtypes defines int4.
]


@loop("types, axis", ACROSS, [None, 0, 1])
def test_transposes_of_many_squares(types, axis):
    real, code = types
    check_transposes(adversarial(real, 0.3, 150 * 131).reshape(150, 131), code, axis=axis)


# These arrays exceed the near caches. Then squares end at the ends of cache lines, wherever
# the array begins.
@loop("code, offset", ["int8", "uint16", "int32"], [0, 4, 11])
def test_transposes_at_every_offset(code, offset):
    shape = amount((300, 521), (2700, 520))
    x = adversarial("float32", 0.3, shape[0] * shape[1]).reshape(shape)
    check_transposes(x, code, offset)
    check_transposes(x.T, code, offset)


# If each row has one scale, a kernel call processes up to 1024 rows of a structured array.
@loop(
    "real, axis, columns",
    ["float32", "float16", "float64"],
    [None, 0, 1],
    [31, 32, 33, 100, 1024, 1025],
)
def test_rows_of_records(columns, axis, real, isa):
    rows = 1100 if columns == 33 else 9
    shape = rows, columns
    scale = 0.3 if axis is None else mixed_scales("float32", shape[axis])
    zero = 3 if axis is None else (np.arange(shape[axis]) % 50).astype("i1")
    x = adversarial(real, 0.3, rows * columns).reshape(shape)
    q = quantize_at(isa, x, scale, zero, axis=axis)
    back = dequantize_at(isa, q, scale, zero, axis=axis, dtype=real)
    fields = [("code", "i1", (columns,)), ("between", "u1"), ("real", real, (columns,))]
    records = np.zeros(rows, fields)
    records["real"] = x
    same(quantize_at(isa, records["real"], scale, zero, axis=axis), q)
    quantize_at(isa, x, scale, zero, axis=axis, out=records["code"])
    same(records["code"].copy(), q)
    same(dequantize_at(isa, records["code"], scale, zero, axis=axis, dtype=real), back)
    dequantize_at(isa, records["code"], scale, zero, axis=axis, out=records["real"])
    same(records["real"].copy(), back)
    same(records["code"].copy(), q)
    assert not records["between"].any()


# ---- Objects that NumPy converts to arrays ----


def test_scalars():
    for x in (1.6, np.float32(1.6), np.float64(1.6), np.float16(1.6), 2):
        same(pq.quantize(x, 1.0), np.array(2, np.int8))


def test_lists():
    same(pq.quantize([1, 2, 300], 1.0), np.int8([1, 2, 127]))
    same(pq.quantize([[1.5], [2.5]], 1.0), np.int8([[2], [2]]))
    same(pq.quantize([], 1.0), np.empty(0, np.int8))
    same(pq.dequantize([1, -2], 0.5), np.float32([0.5, -1.0]))
    same(pq.dequantize([[1], [2**31]], 1.0), np.float32([[1.0], [2.0**31]]))
    same(pq.dequantize(-7, 0.5), np.array(-3.5, np.float32))
    same(pq.dequantize(array.array("b", [1, -2]), 0.5), np.float32([0.5, -1.0]))
    same(pq.dequantize(bytearray(b"\x01\xff"), 0.5), np.float32([0.5, 127.5]))
    same(pq.quantize(np.float32([[1, 2]]), [1, 2], [3, 4], axis=1), np.int8([[4, 5]]))
    same(pq.quantize(np.float32([1, 2]), 1, 1), np.int8([2, 3]))


def test_subclasses_give_plain_arrays():
    class Tagged(np.ndarray):
        pass

    x = np.float32([1.6, -2.4]).view(Tagged)
    same(pq.quantize(x, 1.0), np.int8([2, -2]))
    same(pq.dequantize(np.int8([2]).view(Tagged), 0.5), np.float32([1.0]))


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="ml_dtypes is not installed")
def test_bfloat16_scalars_and_parameters():
    from ml_dtypes import bfloat16

    same(pq.quantize(bfloat16(1.6), 1.0), np.array(2, np.int8))
    x = np.array([1.6, -2.4], dtype=bfloat16)
    same(pq.quantize(x, bfloat16(0.5)), np.int8([3, -5]))
    same(pq.quantize(x, np.array([0.5, 1.0], dtype=bfloat16), axis=0), np.int8([3, -2]))


def test_big_endian_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the type
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    swapped = bfloat16.newbyteorder(">")
    x = np.array([1, 2, 3, -250, 0.5], bfloat16)
    same(pq.quantize(x.astype(swapped), 0.5), pq.quantize(x, 0.5))
    q = np.int8([1, 2, 3])
    same(pq.dequantize(q, x[:3].astype(swapped), axis=0), pq.dequantize(q, x[:3], axis=0))
    out = np.zeros(3, swapped)
    assert pq.dequantize(q, 1.0, dtype=bfloat16, out=out) is out
    assert out.view("u1").tolist() == [0x3F, 0x80, 0x40, 0x00, 0x40, 0x40]


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


def test_an_out_with_a_wrong_dtype_property():
    ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the type

    class Claims(np.ndarray):
        dtype = property(lambda self: np.dtype(ml_dtypes.bfloat16))

        def view(self, *_):
            return np.ndarray.view(self, np.ndarray)

    q = np.int8([1, 2])
    pq.dequantize(q, 1.0, dtype="bfloat16")  # from now on, the core knows the type
    memory = np.full(8, 0xA5, np.uint8)
    with pytest.raises(TypeError, match=r"^out: expected bfloat16, got uint8$"):
        pq.dequantize(q, 1.0, dtype="bfloat16", out=np.ndarray.view(memory[:2], Claims))
    assert (memory == 0xA5).all()
