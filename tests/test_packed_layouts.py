"""Layouts of packed codes: published bytes, PackedArray with a layout, and errors."""

import copy
import itertools
import pickle
import re

import numpy as np
import pytest
from support import EVERY_CODE, loop, same

import pyquant as pq
from pyquant.dtypes import TYPES
from pyquant.packed import LAYOUTS

ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; defines the types of codes

NAMES = [name for name in EVERY_CODE if TYPES[name].bits <= 8]
LAYOUTS_OF_FOUR_BITS = ("awq", "halves", "high-first")
# Layout, bits.
STREAMS = [
    *(("words", bits) for bits in range(1, 9)),
    *((layout, 4) for layout in LAYOUTS_OF_FOUR_BITS),
    ("packbits", 1),
]


def random_codes(shape, bits, seed=0):
    rng = np.random.default_rng([seed, bits, *shape])
    return rng.integers(0, 1 << bits, shape, dtype=np.uint8)


def low_bits(array, bits):
    return array.view(np.uint8) & ((1 << bits) - 1)


# Published bytes


def words_of(packed):
    return [f"{word:08x}" for word in packed.data.view(np.uint32).reshape(-1)]


EIGHT = np.arange(8, dtype=np.uint8)


def test_worked_words_of_four_bits():
    assert words_of(pq.pack(EIGHT, "words", bits=4)) == ["76543210"]
    assert words_of(pq.pack(EIGHT.reshape(8, 1), "words", axis=0, bits=4)) == ["76543210"]
    assert words_of(pq.pack(EIGHT, "awq", bits=4)) == ["75316420"]
    # compressed-tensors stores signed codes plus 8.
    codes = (np.arange(-8, 8) + 8).astype(np.uint8)
    assert words_of(pq.pack(codes, "words", bits=4)) == ["76543210", "fedcba98"]


def test_worked_words_of_three_bits():
    expected = ["88fac688", "c688fac6", "fac688fa"]
    codes = np.tile(EIGHT, 4)
    assert words_of(pq.pack(codes, "words", bits=3)) == expected
    gptq = pq.pack(np.stack([codes, codes[::-1]], 1), "words", axis=0, bits=3)
    assert gptq.data.shape == (3, 2)
    assert [f"{word:08x}" for word in gptq.data[:, 0].view(np.uint32)] == expected
    again = pq.PackedArray(gptq.data, "uint8", (32, 2), layout="words", axis=0, bits=3)
    assert again == gptq


def test_worked_bytes_of_mlx():
    def data(codes, bits):
        return pq.pack(np.uint8(codes), "words", bits=bits).data.tobytes()

    assert data(range(8), 3)[:3] == bytes.fromhex("88c6fa")
    assert data(range(8), 5)[:5] == bytes.fromhex("2088418a39")
    assert data([1, 2, 3, 4], 6)[:3] == bytes.fromhex("813010")


def test_worked_words_of_mlx():
    x = (np.arange(32, dtype=np.float32) - 16) / 8
    four = pq.quantize(x, 0.25, 8, dtype="uint4", packed="words")
    assert words_of(four) == ["43222100", "87666544", "cbaaa988", "ffeeedcc"]
    three = pq.quantize(x, 0.5, 4, dtype="uint8", packed=("words", -1, 3))
    assert words_of(three) == ["92489200", "db2491b6", "ffffb6da"]


def test_worked_zero_points_of_gptq():
    for version, zero in (("77777777", 7), ("88888888", 8)):
        assert words_of(pq.pack(np.full(8, zero, np.uint8), "words", bits=4)) == [version]


def test_worked_bytes_of_ggml():
    # Q4_0 of (i - 16) / 8 has these bytes after a scale of 0.25.
    block = bytes.fromhex("809191a2a2b3b3c4c4d5d5e6e6f7f7f8")
    x = (np.arange(32, dtype=np.float32) - 16) / 8
    p = pq.PackedArray(np.frombuffer(block, np.uint8), "uint4", 32, layout="halves")
    codes = [i // 2 + i % 2 for i in range(32)]
    assert p.unpack().astype(int).tolist() == np.minimum(codes, 15).tolist()
    got = pq.dequantize(p, 0.25, 8)
    assert abs(got - x).max() <= 0.25
    assert pq.quantize(got, 0.25, 8, dtype="uint4", packed="halves") == p
    halves = (np.arange(32) % 16 + (np.arange(32) // 16)).astype(np.uint8) % 16
    assert pq.pack(halves, "halves", bits=4).data.tolist() == [
        i + (i + 1) % 16 * 16 for i in range(16)
    ]


def test_bytes_of_packbits():
    for shape, axis in (((9,), 0), ((3, 64), 1), ((65, 5), 0)):
        codes = random_codes(shape, 1)
        p = pq.pack(codes, "packbits", axis=axis, bits=1)
        same(p.data, np.packbits(codes, axis))
        x = codes.astype(np.float32) - 0.25
        assert pq.quantize(x, 1.0, dtype="uint8", packed=("packbits", axis, 1)) == p
        same(pq.dequantize(p, 2.0, axis=None), codes.astype(np.float32) * 2)
    with pytest.raises(ValueError, match=r"^bits: expected 1 for layout 'packbits', got N"):
        pq.pack(codes, "packbits")


# PackedArray with a layout


def some(layout="words", axis=0, bits=4, shape=(16, 3)):
    return pq.pack(random_codes(shape, bits), layout, axis=axis, bits=bits)


SOME = {
    "gptq": some(),
    "three bits": some(bits=3),
    "compressed-tensors": some(axis=1),
    "awq": some("awq", 1),
    "halves": some("halves", 1),
    "high first": some("high-first", 1),
    "signs": some("packbits", 1, 1),
    "one dimension": some(shape=(33,)),
    "nothing": some(shape=(0, 4), axis=1),
}


@loop("name", SOME)
def test_copies(name):
    p = SOME[name]
    for again in (
        pickle.loads(pickle.dumps(p)),
        copy.copy(p),
        copy.deepcopy(p),
        p.copy(),
        pq.PackedArray(p.data, p.dtype, p.shape, layout=p.layout, axis=p.axis, bits=p.bits),
        pq.PackedArray.from_buffer(
            p.data.tobytes(), p.dtype, p.shape, layout=p.layout, axis=p.axis, bits=p.bits
        ),
    ):
        assert again == p
        assert hash(again) == hash(p)
        assert (again.layout, again.axis, again.bits) == (p.layout, p.axis, p.bits)
        assert again.data.dtype == p.data.dtype
        same(again.unpack(), p.unpack())
    with pytest.raises(ValueError, match="read-only"):
        p.data[...] = 0


def test_unsigned_words():
    p = some()
    words = p.data.view(np.uint32)
    q = pq.PackedArray(words, "uint4", p.shape, layout="words", axis=0)
    assert q == p
    assert hash(q.copy()) == hash(p)
    assert pickle.loads(pickle.dumps(q)).data.dtype == np.uint32
    same(q.unpack(), p.unpack())


def test_equality():
    codes = random_codes((8, 8), 4)
    ways = [("words", 0), ("words", 1), ("awq", 0), ("awq", 1), ("halves", 1)]
    ways += [("high-first", 0), ("high-first", 1)]
    every = [pq.pack(codes, layout, axis=axis, bits=4) for layout, axis in ways]
    every += [pq.pack(codes, bits=4), pq.pack(codes, "words", axis=0, bits=5)]
    for i, p in enumerate(every):
        assert [p == q for q in every] == [i == j for j in range(len(every))]


def test_repr():
    assert repr(some()) == (
        "PackedArray(dtype='uint4', shape=(16, 3), layout='words', axis=0, bits=4, "
        "nbytes=24)"
    )


def test_rows():
    for axis in (1, 2):
        p = some("words", axis, 3, (4, 11, 9))
        unpacked = p.unpack()
        for i in range(-4, 4):
            assert p[i].axis == axis - 1
            same(p[i].unpack(), unpacked[i])
        parts = [(1, 3), (None,), (3, 1), (None, None, 2), (None, None, -1), (2, 3)]
        for part in (slice(*ends) for ends in parts):
            same(p[part].unpack(), unpacked[part])
        assert [row.shape for row in p] == [(11, 9)] * 4
        if axis == 2:
            same(np.asarray(p[1:][2][3]), unpacked[3][3])
        same(pq.dequantize(p[2], 0.5), pq.dequantize(unpacked[2], 0.5))


def test_parts_of_a_stream():
    for layout, bits in STREAMS:
        p = some(layout, 0, bits, (130, 2))
        whole = {"awq": 8, "halves": 32, "high-first": 2, "packbits": 8}.get(
            layout, np.lcm(bits, 32) // bits
        )
        unpacked = p.unpack()
        for start, stop in itertools.product(range(0, 130, whole), repeat=2):
            same(p[start:stop].unpack(), unpacked[start:stop])
            same(p[start:].unpack(), unpacked[start:])
        line = pq.pack(low_bits(unpacked[:, 0].copy(), 8), layout, axis=0, bits=bits)
        assert [int(line[i]) for i in range(-130, 130)] == [
            int(unpacked[i, 0]) for i in range(-130, 130)
        ]
        assert [int(one) for one in line] == [int(one) for one in unpacked[:, 0]]
        if whole > 1:
            with pytest.raises(ValueError, match=r"^index: expected whole (word|group)s, "):
                p[1:]
        with pytest.raises(ValueError, match=r"^index: expected a slice along axis 0"):
            p[1]
        with pytest.raises(ValueError, match=r"^index: expected a step of 1 along axis 0"):
            p[::2]


# Errors

WORDS = np.zeros((2, 3), np.int32)
EVERY = "'onnx', 'words', 'awq', 'halves', 'high-first' or 'packbits'"
REFUSED = {
    "layout": (
        lambda: pq.pack(EIGHT, "gptq", bits=4),
        ValueError,
        f"layout: expected {EVERY}, got 'gptq'",
    ),
    "kind of layout": (
        lambda: pq.pack(EIGHT, 3, bits=4),
        TypeError,
        f"layout: expected {EVERY}, got int",
    ),
    "axis of onnx": (
        lambda: pq.pack(EIGHT, "onnx", axis=0, bits=4),
        ValueError,
        "axis: expected None for layout 'onnx', got 0",
    ),
    "axis": (
        lambda: pq.pack(EIGHT, "words", axis=1),
        np.exceptions.AxisError,
        "axis 1 is out of bounds for array of dimension 1",
    ),
    "kind of axis": (
        lambda: pq.pack(EIGHT, "words", axis=0.0),
        TypeError,
        "axis: expected an integer, got float",
    ),
    "no axis": (
        lambda: pq.pack(np.uint8(3), "words"),
        ValueError,
        "layout: expected 'onnx' for what has no axis, got 'words'",
    ),
    "kind of bits": (
        lambda: pq.pack(EIGHT, "words", bits="4"),
        TypeError,
        "bits: expected an integer, got str",
    ),
    "bits": (
        lambda: pq.pack(EIGHT, "words", bits=9),
        ValueError,
        "bits: expected 1 to 8 for uint8, got 9",
    ),
    "bits of a type": (
        lambda: pq.pack(np.int8([1]), "words", bits=3),
        ValueError,
        "bits: expected 8 for int8, got 3",
    ),
    "bits of a layout": (
        lambda: pq.pack(EIGHT, "awq", bits=3),
        ValueError,
        "bits: expected 4 for layout 'awq', got 3",
    ),
    "type of a layout": (
        lambda: pq.pack(EIGHT, "awq"),
        TypeError,
        "q: expected int4, uint4, float4_e2m1fn, got uint8",
    ),
    "too large a code": (
        lambda: pq.pack(np.uint8([[1, 2, 3], [4, 9, 8]]), "words", bits=3),
        ValueError,
        "q: expected integers from 0 to 7 for 3 bits, got 9 at (1, 1)",
    ),
    "too small a code": (
        lambda: pq.pack(np.int8([1, -9]), "words", bits=4),
        ValueError,
        "q: expected integers from -8 to 7 for 4 bits, got -9 at (1,)",
    ),
    "repacked": (
        lambda: some(bits=3).repack("awq"),
        ValueError,
        "layout: expected one that has elements of 3 bits, got 'awq'",
    ),
    "layout of an array": (
        lambda: pq.PackedArray(WORDS, "uint4", (16, 3), layout="high first"),
        ValueError,
        f"layout: expected {EVERY}, got 'high first'",
    ),
    "shape of words": (
        lambda: pq.PackedArray(WORDS, "uint4", (16, 4), layout="words", axis=0),
        ValueError,
        "data: expected shape (2, 4) for uint4 of shape (16, 4), 4 bits each along axis 0, "
        "got (2, 3)",
    ),
    "kind of words": (
        lambda: pq.PackedArray(
            WORDS.astype(np.int64), "uint4", (16, 3), layout="words", axis=0
        ),
        TypeError,
        "data: expected an int32 or uint32 array, got int64",
    ),
    "order of bytes": (
        lambda: pq.PackedArray(
            WORDS.astype(">i4"), "uint4", (16, 3), layout="words", axis=0
        ),
        TypeError,
        "data: expected an int32 or uint32 array, got >i4",
    ),
    "strided words": (
        lambda: pq.PackedArray(WORDS.T.copy().T, "uint4", (16, 3), layout="words", axis=0),
        ValueError,
        "data: expected contiguous words, got a strided array",
    ),
    "too few words": (
        lambda: pq.PackedArray.from_buffer(
            b"1234", "uint4", (16, 3), layout="words", axis=0
        ),
        ValueError,
        "buffer: expected 24 bytes for int32 of shape (2, 3), got 4",
    ),
    "kind of packed": (
        lambda: pq.quantize([1.0], 1.0, packed=3),
        TypeError,
        "packed: expected True, False, a layout or a tuple of layout, axis and bits, "
        "got int",
    ),
    "long tuple": (
        lambda: pq.quantize([1.0], 1.0, packed=("words", 0, 8, 1)),
        TypeError,
        "packed: expected True, False, a layout or a tuple of layout, axis and bits, "
        "got a tuple of 4",
    ),
    "packed": (
        lambda: pq.quantize([1.0], 1.0, packed="gptq"),
        ValueError,
        f"packed: expected {EVERY}, got 'gptq'",
    ),
    "packed axis": (
        lambda: pq.quantize([1.0], [1.0], axis=0, packed=("words", 1)),
        np.exceptions.AxisError,
        "packed[1]: axis 1 is out of bounds for array of dimension 1",
    ),
    "packed axis of onnx": (
        lambda: pq.quantize([1.0], 1.0, dtype="int4", packed=("onnx", 0)),
        ValueError,
        "packed[1]: expected None for layout 'onnx', got 0",
    ),
    "kind of packed axis": (
        lambda: pq.quantize([1.0], 1.0, packed=("words", "0")),
        TypeError,
        "packed[1]: expected an integer, got str",
    ),
    "packed, without an axis": (
        lambda: pq.quantize(1.0, 1.0, packed="words"),
        ValueError,
        "packed: expected 'onnx' for what has no axis, got 'words'",
    ),
    "packed bits": (
        lambda: pq.quantize([1.0], 1.0, dtype="uint8", packed=("words", 0, 9)),
        ValueError,
        "packed[2]: expected 1 to 8 for uint8, got 9",
    ),
    "packed bits of a type": (
        lambda: pq.quantize([1.0], 1.0, dtype="int4", packed=("words", 0, 3)),
        ValueError,
        "packed[2]: expected 4 for int4, got 3",
    ),
    "packed bits of a layout": (
        lambda: pq.quantize([1.0], 1.0, dtype="uint8", packed=("awq", 0, 3)),
        ValueError,
        "packed[2]: expected 4 for layout 'awq', got 3",
    ),
    "kind of packed bits": (
        lambda: pq.quantize([1.0], 1.0, dtype="uint8", packed=("words", 0, 3.0)),
        TypeError,
        "packed[2]: expected an integer, got float",
    ),
    "packed bits of another type than that of parameters": (
        lambda: pq.QParams(1.0, 200, "uint8").quantize([1.0], packed=("words", 0, 4)),
        ValueError,
        "packed[2]: expected bits of uint8, which the parameters are for, got 4, those of "
        "uint4",
    ),
    "wide type": (
        lambda: pq.quantize([1.0], 1.0, dtype="int16", packed="words"),
        TypeError,
        f"dtype: expected {', '.join(NAMES)}, got int16",
    ),
    "out": (
        lambda: pq.quantize([1.0], 1.0, packed="words", out=np.zeros(1, np.int8)),
        ValueError,
        "out: expected None with packed codes, got ndarray",
    ),
}


@loop("name", REFUSED)
def test_errors(name):
    call, error, text = REFUSED[name]
    with pytest.raises(error, match=f"^{re.escape(text)}") as raised:
        call()
    assert "\n" not in str(raised.value)


FORGED = [
    *(("words", axis, 4) for axis in (9, -1, None, "0", 0.0)),
    *(("words", 0, bits) for bits in (0, 8, 3, -4, 2**70, "4")),
    *(("awq", 0, 3), ("gptq", 0, 4), ("onnx", 0, 4), ("onnx", None, 4)),
    *((1, 2), "words", 3, None, (), ("words", 0, 4, 1)),
]


@loop("how", FORGED)
def test_forged_layouts_read_nothing(how):
    true = some()
    forged = pq.PackedArray.__new__(pq.PackedArray)
    with pytest.raises((TypeError, ValueError)):
        forged._keep(true._data, true._name, true.shape, how)
    for use in (
        lambda: pq.dequantize(forged, 1.0),
        lambda: pq.quantize(1.0, 1.0, forged),
        lambda: forged.repack("words", axis=1),
        forged.unpack,
    ):
        with pytest.raises(TypeError, match=r"^data: expected words, got a PackedArray"):
            use()


def test_packed_zero_points_of_parameters():
    eight = pq.pack(np.array([1, 2, 200], np.uint8), "words", axis=0, bits=8)
    scale = np.ones(3)
    for dtype in ("int16", "uint8"):
        got = pq.QParams(scale, eight, dtype, axis=0).zero_point
        same(got, np.array([1, 2, 200], dtype))
    with pytest.raises(ValueError, match=r"^zero_point: .* int8, got 200$"):
        pq.QParams(scale, eight, "int8", axis=0)
    three = pq.pack(np.array([7, 0, 5], np.uint8), "words", axis=0, bits=3)
    same(pq.QParams(scale, three, "int8", axis=0).zero_point, np.array([7, 0, 5], np.int8))


@loop("number, dtype", [0.5, 3.5, 1e4, np.nan], ["float8_e5m2", "int8"])
def test_packed_float_zero_points_raise_the_unpacked_error(number, dtype):
    numbers = np.array([number], ml_dtypes.float8_e5m2)
    with pytest.raises((TypeError, ValueError)) as unpacked:
        pq.QParams(1.0, numbers, dtype)
    with pytest.raises(unpacked.type) as packed:
        pq.QParams(1.0, pq.pack(numbers, "words", axis=0), dtype)
    assert str(packed.value) == str(unpacked.value)


def test_onnx_accepts_packed_float8_zero_points():
    x = np.float32([1, 2, -3])
    zero = pq.pack(np.zeros(1, ml_dtypes.float8_e5m2), "words", axis=0)
    got = pq.onnx.quantize_linear(x, np.float32([1]), zero)
    same(got, pq.quantize(x, 1.0, dtype="float8_e5m2"))
    packed = pq.pack(got, "words", axis=0)
    same(pq.onnx.dequantize_linear(packed, np.float32([1]), zero), x)


def test_layouts_do_not_change():
    row = LAYOUTS["words"]
    row.__init__("words", (8,), ("<u1",), b"", True)
    assert (row.name, row.flat, row.word_bits, row.order) == ("words", False, 32, b"")
    for name in ("name", "widths", "words", "order", "flat", "word_bits"):
        with pytest.raises(AttributeError):
            setattr(row, name, None)


@loop("words", [(), None])
def test_layouts_have_words(words):
    with pytest.raises((TypeError, ValueError)):
        type(LAYOUTS["words"])("none", (8,), words)
