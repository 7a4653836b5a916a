"""Tests of PackedArray and Layout: attributes, memory, copies, slices, bytes, errors.

Oracles: `packed_oracle` for the bytes, NumPy for slices.
"""

import array
import copy
import mmap
import operator
import pickle
import sys

import numpy as np
import packed_oracle
import pytest
from support import PACKED, amount, case, dtype_of, loop, same, set_attribute
from test_packed_calls import BITS, PACKINGS, STREAMS, low_bits, pack, random_codes

import pyquant as pq
from pyquant.packed import LAYOUTS

ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the types

EIGHT = np.arange(8, dtype=np.uint8)
FOUR = pq.Layout("onnx", bits=4)


def packed_of(packing, shape, axis=0):
    """Return random codes for a packing, and the packed array of the codes."""
    codes = random_codes(shape, *packing[1:])
    return codes, pack(codes, packing, axis)


def every_form():
    """Return packed arrays, one for each packing, shape and axis."""
    shapes = ((0, 3), (5,), (3, 4), (2, 3, 9))
    forms = [(shape, axis) for shape in shapes for axis in range(len(shape))]
    return [packed_of(p, shape, axis)[1] for p in PACKINGS for shape, axis in forms]


def uint4(memory, shape):
    return pq.PackedArray.from_buffer(memory, "uint4", shape)


# ---- Attributes, equality and copies ----

COPIES = {
    "copy": lambda p: p.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda p, n=n: pickle.loads(pickle.dumps(p, n)) for n in range(6)},
}
MAKERS = {
    "PackedArray": lambda p: pq.PackedArray(p.data, p.dtype, p.shape, layout=p.layout),
    "from_buffer": lambda p: pq.PackedArray.from_buffer(
        p.data.tobytes(), p._name, list(p.shape), layout=p.layout
    ),
    "repack": lambda p: p.repack(p.layout),
}


def test_copies_and_constructors_give_equal_arrays():
    for p in every_form():
        for name, make in (COPIES | MAKERS).items():
            with case(p=p, name=name):
                again = make(p)
                assert type(again) is pq.PackedArray
                assert again == p
                assert repr(again) == repr(p)
                same(again.data, p.data)
                same(pq.unpack(again), pq.unpack(p))
                shares = p.nbytes > 0 and name == "PackedArray"
                assert np.shares_memory(again.data, p.data) == shares
                base = again.data  # neither this array nor its bases can become writeable
                while isinstance(base, np.ndarray):
                    with pytest.raises(ValueError, match="WRITEABLE"):
                        base.flags.writeable = True
                    base = base.base


@pytest.mark.parametrize("name", PACKED)
def test_attributes(name):
    data = np.arange(24 * BITS[name] // 8, dtype=np.uint8)
    for dtype in (name, name.upper(), dtype_of(name), dtype_of(name).type):
        for shape in ((2, 3, 4), [2, 3, 4], (np.int64(2), 3, np.uint8(4))):
            p = pq.PackedArray(data, dtype, shape)
            assert (p.shape, p.layout) == ((2, 3, 4), ("onnx", None, BITS[name]))
            assert p.dtype == dtype_of(name) == pq.unpack(p).dtype
            assert [type(n) for n in p.shape] == [int] * 3
            assert (p.nbytes, p.size, p.ndim, len(p)) == (data.size, 24, 3, 2)
            assert np.shares_memory(p.data, data)
    assert pq.PackedArray(data, dtype=name, shape=24, layout="ONNX").ndim == 1
    assert not hasattr(p, "itemsize")  # an item is smaller than a byte
    for count in range(18):
        size = -(-count * BITS[name] // 8)
        assert pq.PackedArray(np.zeros(size, np.uint8), name, count).size == count


def test_equality():
    codes = random_codes((8, 8), "uint8", 4)
    ways = [(name, axis) for name in ("words", "awq", "high-first") for axis in (0, 1)]
    every = [pq.pack(codes, pq.Layout(name, axis=a, bits=4)) for name, a in ways]
    every += [pq.pack(codes, FOUR), pq.pack(codes, pq.Layout("words", axis=0, bits=5))]
    every += [pq.pack(codes.view(np.int8) - 8, FOUR), uint4(bytes(32), (64,))]
    for i, p in enumerate(every):
        assert [p == q for q in every] == [i == j for j in range(len(every))]
    for other in ("int4", None, b"\x21\x03"):
        assert p != other
    for count in (1, 7, 8, 63, 64, 65, 1000):  # equality compares every byte
        content = bytes(range(1, 200)) * 6
        p = uint4(content[:count], count * 2)
        assert p == uint4(content[:count], count * 2)
        for i in range(count):
            other = bytearray(content[:count])
            other[i] ^= 0x80
            assert p != uint4(other, count * 2)
    words = pq.pack(codes, pq.Layout("words", axis=0, bits=4))
    unsigned = words.data.view(np.uint32)
    q = pq.PackedArray(unsigned, "uint4", words.shape, layout=words.layout)
    assert q == words
    assert pickle.loads(pickle.dumps(q)).data.dtype == np.uint32


def test_packed_arrays_have_no_hash_and_no_iterator():
    p = uint4(bytes(8), (2, 8))
    for use, text in (
        (hash, "unhashable type"),
        (iter, "not iterable"),
        (reversed, "expected a slice|not reversible"),
        (lambda p: 1 in p, "not a container"),
        (lambda p: p.__setitem__(0, p), "__setitem__"),
    ):
        with pytest.raises((TypeError, AttributeError), match=text):
            list(use(p)) if use is reversed else use(p)


def test_repr():
    data = np.zeros(3, np.uint8)
    p = pq.PackedArray(data, "uint2", (2, 5))
    assert repr(p) == "PackedArray(dtype='uint2', shape=(2, 5), layout='onnx', nbytes=3)"
    assert repr(p.repack(pq.Layout("words", axis=0))) == (
        "PackedArray(dtype='uint2', shape=(2, 5), "
        "layout=Layout('words', axis=0, bits=2), nbytes=20)"
    )
    assert repr(pq.Layout("AWQ")) == "Layout('awq')"


def test_numpy_unpacks():
    q = np.array([[1, -8, 7]], dtype_of("int4"))
    p = pq.pack(q)
    for got in (np.asarray(p), np.array(p), np.array(p, copy=True), pq.unpack(p)):
        same(got, q)
        assert got.flags.writeable
    for dtype in (np.int16, np.float32, ">i2"):
        same(np.asarray(p, dtype=dtype).astype("f4"), q.astype("f4"))
    same(np.array([p, p]), np.array([q, q]))
    assert (np.shape(p), np.ndim(p), np.size(p)) == ((1, 3), 2, 3)
    with pytest.raises(ValueError, match=r"^copy: expected True or None for a packed arr"):
        np.array(p, copy=False)


def test_layouts_are_values():
    layout = pq.Layout("Words", axis=np.int64(-1), bits=np.uint8(3))
    assert (layout.name, layout.axis, layout.bits) == ("words", -1, 3)
    assert [type(one) for one in layout] == [str, int, int]
    assert len({layout, pq.Layout("words", axis=-1, bits=3), pq.Layout("words")}) == 2
    for make in COPIES:
        if make != "copy":
            assert type(COPIES[make](layout)) is pq.Layout
            assert COPIES[make](layout) == layout
    for name in ("name", "axis", "bits", "new"):
        with pytest.raises(AttributeError):
            setattr(layout, name, 0)


def test_rows_of_the_table_do_not_change():
    row = LAYOUTS["words"]
    row.__init__("words", (8,), ("<u1",), b"", True)
    assert (row.name, row.flat, row.word_bits, row.order) == ("words", False, 32, b"")
    for name in ("name", "widths", "words", "order", "flat", "word_bits"):
        with pytest.raises(AttributeError):
            setattr(row, name, None)
    for words in ((), None):
        with pytest.raises((TypeError, ValueError)):
            type(row)("none", (8,), words)


# Memory


def buffer_of(kind, content, folder):
    if kind is not mmap.mmap:
        return kind(content)
    (folder / "codes").write_bytes(content)
    with open(folder / "codes", "r+b") as file:
        return mmap.mmap(file.fileno(), 0)


KINDS = [bytes, bytearray, lambda b: memoryview(bytearray(b)), mmap.mmap]
KINDS += [lambda b: array.array("B", b), lambda b: np.frombuffer(b, np.uint8).copy()]


@loop("kind", KINDS)
def test_arrays_share_the_memory_of_a_buffer(kind, tmp_path):
    content = bytes(range(1, 9))
    buffer = buffer_of(kind, content, tmp_path)
    p = uint4(buffer, (2, 8))
    assert p.data.tobytes() == content
    assert np.shares_memory(p.data, np.frombuffer(buffer, np.uint8))
    kept = p.copy()
    for made in (p, kept, p[:1], p[:0]):
        assert made.data is not made.data
        with pytest.raises(ValueError, match="read-only"):
            made.data[...] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            made.data.flags.writeable = True
    if kind is not bytes:
        buffer[0] = 0x43
        same(pq.dequantize(p, 1.0)[0, :4], np.float32([3, 4, 2, 0]))
        same(pq.dequantize(p[:1], 1.0)[0, :2], np.float32([3, 4]))
        same(pq.dequantize(kept, 1.0)[0, :4], np.float32([1, 0, 2, 0]))


def test_from_buffer_of_arrays():
    numbers = np.arange(6, dtype=np.uint32).reshape(2, 3)
    p = pq.PackedArray.from_buffer(numbers, "int2", 96)
    assert np.shares_memory(p.data, numbers)
    assert p.data.tobytes() == numbers.tobytes()
    assert pq.PackedArray.from_buffer(array.array("h", [1, 2]), "int4", 8).nbytes == 4
    for nothing in (b"", bytearray(), np.empty(0), np.empty((3, 0)), memoryview(b"")):
        assert pq.PackedArray.from_buffer(nothing, "int4", (0, 3)).nbytes == 0


def test_attributes_are_read_only():
    p = pq.PackedArray(np.zeros(2, np.uint8).view(Sub), "int4", 3)
    assert type(p.data) is np.ndarray
    for name in ("data", "dtype", "shape", "layout", "nbytes", "_data", "new"):
        for change, what in ((lambda n: setattr(p, n, 1), "assignment"), (p.__delattr__,
                             "deletion")):  # fmt: skip
            text = f"^{name}: expected no {what}, PackedArray is immutable$"
            with pytest.raises(AttributeError, match=text):
                change(name)
    with pytest.raises(AttributeError, match=r"^data: expected no assignment, PackedArra"):
        p.__init__(np.ones(2, np.uint8), "uint4", 4)
    assert not hasattr(p, "__dict__")


class Sub(np.ndarray):
    """A subclass of ndarray that adds no members."""


def test_memory_of_results_is_read_only():
    large = np.broadcast_to(np.float32(1), (1 << 23,))  # so large that NumPy allocates it
    for x in ([1.0, 2.0, 3.0], large):
        for layout in ("onnx", "words"):
            behind = pq.quantize(x, 1.0, dtype="int4", layout=layout).data
            while not (behind is None or isinstance(behind, bytes)):
                if isinstance(behind, memoryview):
                    assert behind.readonly
                    behind = behind.obj
                else:
                    assert not behind.flags.writeable
                    behind = behind.base


# ---- Slices of the first axis ----


def slices(extent):
    """Return all slices with bounds up to 2 elements beyond both ends of an axis."""
    bounds = [None, *range(-extent - 2, extent + 3)]
    return [slice(a, b, c) for a in bounds for b in bounds for c in (None, 1, np.int8(1))]


def codes_in_a_unit(layout, bits):
    """Return the smallest number of codes that fills complete words and groups."""
    word = 8 * np.dtype(packed_oracle.LAYOUTS[layout][0]).itemsize
    return np.lcm(len(packed_oracle.LAYOUTS[layout][1]), np.lcm(bits, word) // bits)


@pytest.mark.parametrize("packing", PACKINGS, ids=str)
def test_slices(packing):
    layout, _, bits = packing
    unit = codes_in_a_unit(layout, bits)
    for shape in ((3, 8), (3, 7), (4, 16, 1), (9,), (5, 1), (0, 3), (3, 0), (4, 3, 2)):
        for axis in range(len(shape)):
            codes, p = packed_of(packing, shape, axis)
            row = int(np.prod(shape[1:])) if layout == "onnx" else 1
            for part in slices(min(shape[0], 5))[:: amount(5, 1)]:
                places = range(shape[0])[part]
                ends = places.start * row % unit or (
                    places.stop * row % unit and places.stop < shape[0]
                )
                split = places and row and not p.layout.axis and ends
                with case(shape=shape, axis=axis, part=part):
                    if split:
                        with pytest.raises(ValueError, match=r"^index: expected whole "):
                            p[part]
                        continue
                    got = p[part]
                    assert got == pack(codes[part], packing, axis)
                    assert not got.nbytes or np.shares_memory(got.data, p.data)


@pytest.mark.parametrize("stream", STREAMS, ids=str)
def test_slices_of_a_stream(stream):
    layout, bits = stream
    codes = random_codes((130, 2), "uint8", bits)
    p = pq.pack(codes, pq.Layout(layout, axis=None if layout == "onnx" else 0, bits=bits))
    unit = codes_in_a_unit(layout, bits)
    for start in range(0, 130, unit):
        for stop in (*range(0, 130, unit), None):
            same(low_bits(pq.unpack(p[start:stop]), 8), codes[start:stop])


def test_parts_of_parts():
    p = uint4(bytes(range(256)) * 4, (64, 4, 8))
    codes = pq.unpack(p)
    same(pq.unpack(p[4:30][2:-3][1:][-1:]), codes[4:30][2:-3][1:][-1:])
    rows = amount(100_000, 1_000_000)
    part = pq.PackedArray.from_buffer(bytes(2 * rows), "int2", (rows, 8))
    memory = part.data
    for _ in range(rows - 1):
        part = part[1:]
    assert part.shape == (1, 8)
    assert np.shares_memory(part.data, memory)
    base, chain = part.data, 0  # a slice of a slice references the memory directly
    while base is not None:
        base, chain = getattr(base, "base", getattr(base, "obj", None)), chain + 1
    assert chain < 10


# Published bytes


def words_of(codes, layout):
    data = pq.pack(np.asarray(codes, np.uint8), layout).data
    return [f"{word:08x}" for word in data.view(np.uint32).reshape(-1)]


def test_published_words():
    words = pq.Layout("words", bits=4)
    assert words_of(EIGHT, words) == ["76543210"]
    assert words_of(EIGHT.reshape(8, 1), pq.Layout("words", axis=0, bits=4)) == ["76543210"]
    assert words_of(EIGHT, pq.Layout("awq", bits=4)) == ["75316420"]
    # compressed-tensors adds 8 to signed codes. GPTQ has two ways to store a zero point.
    assert words_of(np.arange(-8, 8) + 8, words) == ["76543210", "fedcba98"]
    assert [words_of([zero] * 8, words) for zero in (7, 8)] == [["77777777"], ["88888888"]]
    expected = ["88fac688", "c688fac6", "fac688fa"]
    codes = np.tile(EIGHT, 4)
    assert words_of(codes, pq.Layout("words", bits=3)) == expected
    layout = pq.Layout("words", axis=0, bits=3)
    assert words_of(np.stack([codes, codes], 1), layout)[::2] == expected


def test_published_bytes_of_mlx():
    for codes, bits, expected in (
        (range(8), 3, "88c6fa"),
        (range(8), 5, "2088418a39"),
        ([1, 2, 3, 4], 6, "813010"),
    ):
        data = pq.pack(np.uint8(codes), pq.Layout("words", bits=bits)).data.tobytes()
        assert data[: len(expected) // 2].hex() == expected
    x = (np.arange(32, dtype=np.float32) - 16) / 8
    four = pq.quantize(x, 0.25, 8, dtype="uint4", layout="words")
    three = pq.quantize(x, 0.5, 4, dtype="uint8", layout=pq.Layout("words", bits=3))
    expected = ["43222100", "87666544", "cbaaa988", "ffeeedcc"]
    expected += ["92489200", "db2491b6", "ffffb6da"]
    got = [*four.data.view(np.uint32), *three.data.view(np.uint32)]
    assert [f"{word:08x}" for word in got] == expected


def test_published_bytes_of_ggml():
    # The code bytes of ggml's Q4_0 block of (i - 16) / 8, without its scale 0.25.
    block = bytes.fromhex("809191a2a2b3b3c4c4d5d5e6e6f7f7f8")
    x = (np.arange(32, dtype=np.float32) - 16) / 8
    p = pq.PackedArray.from_buffer(block, "uint4", 32, layout="halves")
    codes = [min(i // 2 + i % 2, 15) for i in range(32)]
    assert pq.unpack(p).astype(int).tolist() == codes
    got = pq.quantize(pq.dequantize(p, 0.25, 8), 0.25, 8, dtype="uint4", layout="halves")
    assert got == p
    assert abs(pq.dequantize(p, 0.25, 8) - x).max() <= 0.25
    assert pq.pack(np.uint8(codes), pq.Layout("halves", bits=4)) == p


@loop("bitorder, dtype", ["big", "little"], ["float16", "float32", "float64", "bfloat16"])
def test_pack_signs(bitorder, dtype):
    tiny = np.finfo(np.float16).smallest_subnormal
    edges = [np.nan, np.inf, -np.inf, tiny, -tiny, 0.0, -0.0, 1.0]
    for shape in ((8,), (3, 9), (2, 3, 65), (4, 0), (0, 5)):
        x = np.resize(np.array(edges), shape).astype(dtype_of(dtype))
        got = pq.pack_signs(x[..., ::-1], bitorder=bitorder)
        signs = x[..., ::-1].astype("f8") > 0
        same(got, np.packbits(signs, axis=-1, bitorder=bitorder))
        assert got.flags.writeable
        assert got.flags.c_contiguous


# Zero points


def test_packed_zero_points_of_parameters():
    eight = pq.pack(np.array([1, 2, 200], np.uint8), pq.Layout("words", bits=8))
    for dtype in ("int16", "uint8"):
        got = pq.QParams(np.ones(3), eight, dtype, axis=0).zero_point
        same(got, np.array([1, 2, 200], dtype))
    three = pq.pack(np.array([7, 0, 5], np.uint8), pq.Layout("words", bits=3))
    got = pq.QParams(np.ones(3), three, "int8", axis=0).zero_point
    same(got, np.array([7, 0, 5], np.int8))


@loop("number, dtype", [0.5, 3.5, 1e4, np.nan], ["float8_e5m2", "int8"])
def test_packed_float_zero_points_raise_the_unpacked_error(number, dtype):
    numbers = np.array([number], ml_dtypes.float8_e5m2)
    with pytest.raises((TypeError, ValueError)) as unpacked:
        pq.QParams(1.0, numbers, dtype)
    with pytest.raises(unpacked.type) as packed:
        pq.QParams(1.0, pq.pack(numbers, "words"), dtype)
    assert str(packed.value) == str(unpacked.value)


def test_onnx_accepts_packed_float8_zero_points():
    x = np.float32([1, 2, -3])
    zero = pq.pack(np.zeros(1, ml_dtypes.float8_e5m2), "words")
    got = pq.onnx.quantize_linear(x, np.float32([1]), zero)
    same(got, pq.quantize(x, 1.0, dtype="float8_e5m2"))
    same(pq.onnx.dequantize_linear(pq.pack(got, "words"), np.float32([1]), zero), x)


# Errors

P1 = uint4(b"\x21\x43\x05", 5)


def test_packed_accepts_a_numpy_bool():
    x = np.ones(5, np.float32)
    assert pq.quantize(x, 1.0, dtype="int4", packed=np.True_).nbytes == 3
    same(pq.quantize(x, 1.0, packed=np.False_), np.int8([1] * 5))


@loop("kind, place", [bool, "c16", "f8", "u2"], [0, 1])
def test_pack_of_an_array_that_changes_its_type(kind, place):
    q = np.zeros(64, np.uint8)

    class Four:
        def __index__(self):
            set_attribute(q, "dtype", kind)
            return 4 * place

    layout = [("words", Four(), 4), ("words", 0, Four())][place]
    with pytest.raises(TypeError, match=r"^codes: expected "):
        pq.pack(q, tuple.__new__(pq.Layout, layout))


@loop("layout", ["onnx", pq.Layout("words", axis=0), "words", "awq", "halves"])
def test_the_largest_number_of_rows(layout):
    rows = sys.maxsize // 8
    p = pq.quantize(np.empty((rows, 0), np.float32), 1.0, dtype="int4", layout=layout)
    assert (p.shape, p.nbytes) == ((rows, 0), 0)
    for make in COPIES.values():
        assert make(p) == p
    for other in ("onnx", "words", "awq", pq.Layout("halves", axis=0)):
        assert p.repack(other).shape == p.shape
    assert pq.pack(np.empty((rows, 0), np.uint8), FOUR).shape == p.shape
    assert pq.unpack(p).shape == p[:].shape == pq.dequantize(p, 1.0).shape == p.shape


# ---- Objects that skip the constructor ----


class Claims(pq.PackedArray):
    """A packed array with properties that return wrong values."""

    __slots__ = ()
    shape = property(lambda self: (1 << 20,))
    _name = property(lambda self: "int4")
    _how = property(lambda self: ("onnx", None, 4))
    _data = property(lambda self: np.zeros(1, np.uint8))


def test_subclasses_with_wrong_properties():
    """Use the constructor's arguments, and not the properties that Claims overrides."""
    p = Claims(np.uint8([0x21, 0]), "int4", 4)
    same(pq.dequantize(p, 1.0), np.float32([1, 2, 0, 0]))
    assert pq.unpack(p).dtype == ml_dtypes.int4


NOUNS = ["data", "dtype", "shape", "layout", "nbytes", "size", "ndim"]
USES = {
    **{name: operator.attrgetter(name) for name in NOUNS},
    **{f.__name__: f for f in (repr, str, len, bool, np.asarray, pickle.dumps, pq.unpack)},
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "==": lambda p: p == p,
    "copy": lambda p: p.copy(),
    "repack": lambda p: p.repack("awq"),
    "[:]": lambda p: p[:],
    "dequantize": lambda p: pq.dequantize(p, 1.0),
    "zero point": lambda p: pq.quantize([1.0], 1.0, p),
    "ONNX": lambda p: pq.onnx.dequantize_linear(p, np.float32(1)),
    "QParams": lambda p: pq.QParams(1.0, 0, "int4").dequantize(p),
}


@loop("name", USES)
def test_uninitialized_objects_raise_errors(name):
    for kind in (pq.PackedArray, Claims):
        if kind is Claims and name in (*NOUNS, "repr", "str", "len", "bool", "==", "[:]"):
            continue  # Claims overrides these properties, which read no data.
        with pytest.raises(TypeError, match=r"^data: expected words, got a PackedArray th"):
            USES[name](kind.__new__(kind))


FORGED = [
    *(("words", axis, 4) for axis in (9, -1, None, "0", 0.0)),
    *(("words", 0, bits) for bits in (0, 8, 3, -4, 2**70, "4")),
    *(("awq", 0, 3), ("gptq", 0, 4), ("onnx", 0, 4), ("onnx", None, 4)),
    *((1, 2), "words", 3, None, (), ("words", 0, 4, 1)),
]


@loop("how", FORGED)
def test_forged_layouts_read_nothing(how):
    true = pq.pack(random_codes((16, 3), "uint8", 4), pq.Layout("words", axis=0, bits=4))
    forged = pq.PackedArray.__new__(pq.PackedArray)
    with pytest.raises((TypeError, ValueError)):
        forged._keep(true._data, true._name, true.shape, how)
    for use in (USES["dequantize"], USES["zero point"], USES["repack"], pq.unpack):
        with pytest.raises(TypeError, match=r"^data: expected words, got a PackedArray"):
            use(forged)


def test_a_forged_shape_reads_nothing():
    for slot in ("_shape", "_data", "_how", "_name"):
        with pytest.raises(AttributeError):
            object.__setattr__(P1, slot, (10**6,))
    empty = pq.PackedArray.__new__(pq.PackedArray)
    with pytest.raises(ValueError, match=r"^data: expected shape \(500000,\) of 1 bytes"):
        empty._keep(np.zeros(2, np.uint8), "int4", (10**6,), ("onnx", None, 4))
