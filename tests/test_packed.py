"""PackedArray: attributes, memory, equality, copies, rows, slices and errors.

Oracles: `packed_oracle` for the bytes, NumPy for rows and slices.
"""

import array
import copy
import itertools
import mmap
import operator
import pickle
import re
import sys
import tracemalloc

import numpy as np
import packed_oracle
import pytest
from support import (
    PACKED,
    amount,
    case,
    dtype_of,
    loop,
    poisoned,
    same,
    set_attribute,
    untouched,
)

import pyquant as pq
from pyquant.dtypes import TYPES

# Unpacked codes have types of ml_dtypes. test_without_ml_dtypes.py does without it.
ml_dtypes = pytest.importorskip("ml_dtypes")

BITS = {name: TYPES[name].bits for name in PACKED}
HINT = "; did you mean int4?"
NAMES = ", ".join(PACKED)


def packed_bytes(codes, name):
    """Return the bytes of codes in the layout of ONNX, by the oracle."""
    low = np.ascontiguousarray(codes).view(np.uint8) & ((1 << BITS[name]) - 1)
    return packed_oracle.packed(low, "onnx", None, BITS[name]).tobytes()


def random_codes(name, count, seed=0):
    """Return random codes. The unused upper bits of their type are random, too."""
    rng = np.random.default_rng([seed, count])
    return rng.integers(0, 256, count, dtype=np.uint8).view(dtype_of(name))


def clean(codes, name):
    """Return the codes with zeros in the unused upper bits, as ml_dtypes writes them."""
    return (codes.view(np.uint8) & ((1 << BITS[name]) - 1)).view(codes.dtype)


# Attributes and memory


@pytest.mark.parametrize("name", PACKED)
def test_attributes(name):
    data = np.arange(24 * BITS[name] // 8, dtype=np.uint8)
    for dtype in (name, dtype_of(name), dtype_of(name).type):
        for shape in ((2, 3, 4), [2, 3, 4], (np.int64(2), 3, np.uint8(4))):
            p = pq.PackedArray(data, dtype, shape)
            assert (p.shape, p.layout) == ((2, 3, 4), "onnx")
            assert isinstance(p.dtype, np.dtype)
            assert p.dtype == dtype_of(name) == p.unpack().dtype
            assert [type(n) for n in p.shape] == [int] * 3
            assert (p.nbytes, p.size, p.ndim) == (data.size, 24, 3)
            same(p.data, data)
            assert np.shares_memory(p.data, data)
    assert pq.PackedArray(data, name, 24).shape == (24,)
    assert pq.PackedArray(data, dtype=name, shape=24, layout="onnx").ndim == 1
    assert not hasattr(p, "itemsize")  # An item has a fraction of a byte.
    again = pq.PackedArray(p.data, p.dtype, p.shape, layout=p.layout)
    assert again == p


def test_number_of_bytes():
    for name, bits in BITS.items():
        for count in range(18):
            p = pq.PackedArray(np.zeros(-(-count * bits // 8), np.uint8), name, count)
            assert p.size == count
        assert pq.PackedArray(np.zeros(1, np.uint8), name, ()).size == 1
        assert pq.PackedArray(np.zeros(0, np.uint8), name, (3, 0, 2)).size == 0


@loop("kind", ["bytes", "bytearray", "memoryview", "mmap", "array"])
def test_from_buffer_shares_memory(kind, tmp_path):
    content = bytes(range(1, 9))
    if kind == "mmap":
        (tmp_path / "codes").write_bytes(content)
        with open(tmp_path / "codes", "r+b") as file:
            buffer = mmap.mmap(file.fileno(), 0)
    else:
        buffer = {
            "bytes": lambda: content,
            "bytearray": lambda: bytearray(content),
            "memoryview": lambda: memoryview(bytearray(content)),
            "array": lambda: array.array("B", content),
        }[kind]()
    p = pq.PackedArray.from_buffer(buffer, "uint4", (2, 8))
    assert p.data.tobytes() == content
    assert not p.data.flags.writeable
    assert np.shares_memory(p.data, np.frombuffer(buffer, np.uint8))
    same(pq.dequantize(p, 1.0)[0, :4], np.float32([1, 0, 2, 0]))
    if kind != "bytes":
        buffer[0] = 0x43
        same(pq.dequantize(p, 1.0)[0, :4], np.float32([3, 4, 2, 0]))


def test_from_buffer_of_arrays():
    numbers = np.arange(6, dtype=np.uint32).reshape(2, 3)
    p = pq.PackedArray.from_buffer(numbers, "int2", 96)
    assert np.shares_memory(p.data, numbers)
    assert p.data.tobytes() == numbers.tobytes()
    assert pq.PackedArray.from_buffer(array.array("h", [1, 2]), "int4", 8).nbytes == 4
    for nothing in (b"", bytearray(), np.empty(0), np.empty((3, 0)), memoryview(b"")):
        assert pq.PackedArray.from_buffer(nothing, "int4", (0, 3)).nbytes == 0


def test_bits_after_the_last_code_are_ignored():
    p = pq.PackedArray.from_buffer(b"\x21\xf3", "uint4", 3)
    same(pq.dequantize(p, 1.0), np.float32([1, 2, 3]))
    same(p.unpack().astype(np.int32), np.int32([1, 2, 3]))


def test_attributes_are_read_only():
    p = pq.PackedArray(np.zeros(2, np.uint8), "int4", 3)
    for name in ("data", "dtype", "shape", "layout", "nbytes", "_data", "new"):
        with pytest.raises(
            AttributeError, match=f"^{name}: expected no assignment, PackedArray is immu"
        ):
            setattr(p, name, 1)
        with pytest.raises(
            AttributeError, match=f"^{name}: expected no deletion, PackedArray is immuta"
        ):
            delattr(p, name)
    with pytest.raises(
        AttributeError, match=r"^data: expected no assignment, PackedArray is immutable$"
    ):
        p.__init__(np.ones(2, np.uint8), "uint4", 4)
    assert not hasattr(p, "__dict__")
    assert repr(p) == "PackedArray(dtype='int4', shape=(3,), layout='onnx', nbytes=2)"


def test_the_bytes_are_read_only_views():
    data = np.zeros(2, np.uint8)
    p = pq.PackedArray(data, "int4", 3)
    assert data.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        p.data[0] = 1
    assert p.data is not p.data
    data[0] = 0x21  # The class does not copy the memory.
    same(pq.dequantize(p, 1.0), np.float32([1, 2, 0]))
    assert type(pq.PackedArray(data.view(Sub), "int4", 3).data) is np.ndarray
    frozen = pq.PackedArray.from_buffer(b"\0\0", "int4", 3).data
    with pytest.raises(ValueError, match="WRITEABLE"):
        frozen.flags.writeable = True


class Sub(np.ndarray):
    """A subclass of ndarray without own members."""


def test_equality_and_hash():
    def make(content=b"\x21\x03", dtype="int4", shape=(3,)):
        return pq.PackedArray.from_buffer(content, dtype, shape)

    assert make() == make(bytearray(b"\x21\x03")) == make(dtype=dtype_of("int4"))
    assert hash(make()) == hash(make(memoryview(b"\x21\x03")))
    others = [
        make(b"\x21\x04"),
        make(b"\x21\x13"),
        make(dtype="uint4"),
        make(shape=(1, 3)),
        make(shape=(3, 1)),
        make(shape=4),
        make(dtype="float4_e2m1fn"),
    ]
    assert len({make(), make(), *others}) == 1 + len(others)
    for other in (*others, "int4", None, b"\x21\x03"):
        assert make() != other


@pytest.mark.parametrize("name", PACKED)
def test_pickle_and_copy(name):
    whole = np.arange(9, dtype=np.uint8)
    for shape, start in (((3, 3), 0), (1, 4), ((), 2), ((0, 2), 9)):
        size = -(-int(np.prod(shape)) * BITS[name] // 8)
        p = pq.PackedArray(whole[start : start + size], name, shape)
        copies = [pickle.loads(pickle.dumps(p, n)) for n in range(6)]
        for other in (*copies, copy.copy(p), copy.deepcopy(p)):
            assert type(other) is pq.PackedArray
            assert other == p
            assert repr(other) == repr(p)
            assert not other.data.flags.writeable


def test_repr():
    p = pq.PackedArray(np.zeros(3, np.uint8), "uint2", (2, 5))
    assert repr(p) == "PackedArray(dtype='uint2', shape=(2, 5), layout='onnx', nbytes=3)"
    assert str(p) == repr(p)


def test_numpy_unpacks():
    q = np.array([[1, -8, 7]], dtype_of("int4"))
    p = pq.pack(q)
    same(np.asarray(p), q)
    same(np.array(p), q)
    same(np.array(p, copy=True), q)
    same(np.asarray(p, dtype=np.int16), np.int16([[1, -8, 7]]))
    same(np.asarray(p, np.float32), np.float32([[1, -8, 7]]))
    assert np.asarray(p).flags.writeable
    assert np.asarray(p, q.dtype).flags.writeable
    same(np.asarray(p, ">i2").astype("i2"), np.int16([[1, -8, 7]]))
    same(np.array([p, p]), np.array([q, q]))
    assert (np.shape(p), np.ndim(p), np.size(p)) == ((1, 3), 2, 3)
    with pytest.raises(
        ValueError, match=r"^copy: expected True or None for a packed array, got False$"
    ):
        np.array(p, copy=False)


# The first axis

WHOLE_ROWS = [(3, 8), (1, 4), (5, 2, 4), (4, 16, 1), (7, 1, 4, 3), (2, 64)]
BROKEN_ROWS = [(3, 7), (4, 3), (5, 1), (2, 3, 3), (6, 1, 5), (1, 3), (8, 2, 1)]
NO_ELEMENTS = [(0,), (0, 3), (0, 4), (3, 0), (5, 0, 7), (3, 2, 0)]
STEPS = [None, 1, 2, 3, -1, -2, -7, 100, -100, np.int64(2), np.int8(-1)]


def packed_of(name, shape, seed=0):
    """Return random codes and a packed array with the codes."""
    q = clean(random_codes(name, int(np.prod(shape)), seed), name).reshape(shape)
    return q, pq.pack(q)


def slices(extent):
    """Return all slices with these steps. The bounds exceed both ends by up to 2."""
    bounds = [None, *range(-extent - 2, extent + 3)]
    return [slice(a, b, c) for a in bounds for b in bounds for c in STEPS]


def begins_and_ends_with_bytes(places, row, extent, bits):
    """Return whether rows use complete bytes, by the places of their first and last bit."""
    places = list(places)
    if not places or row == 0:
        return True
    if any(b - a != 1 for a, b in itertools.pairwise(places)):
        return row * bits % 8 == 0
    begin, end = places[0] * row * bits, (places[-1] + 1) * row * bits
    return begin % 8 == 0 and (end % 8 == 0 or places[-1] == extent - 1)


def check_part(got, expected, name):
    """Assert that a part has the bytes of NumPy's part of the codes, packed."""
    __tracebackhide__ = True
    assert type(got) is pq.PackedArray
    assert got.data.tobytes() == packed_bytes(expected, name)
    assert got.shape == expected.shape
    assert got.dtype == expected.dtype
    assert got == pq.pack(expected)
    same(got.unpack(), expected)


@pytest.mark.parametrize("name", PACKED)
def test_rows(name):
    for shape in WHOLE_ROWS:
        q, p = packed_of(name, shape)
        with case(shape=shape):
            assert len(p) == len(q) == shape[0]
            for i in range(-shape[0], shape[0]):
                for at in (i, np.int64(i), np.int8(i), np.array(i)):
                    check_part(p[at], q[i], name)
                    assert np.shares_memory(p[at].data, p.data)
                same(pq.dequantize(p[i], 0.5), pq.dequantize(q[i], 0.5))
            rows = list(p)
            for got, expected in zip(rows, q, strict=True):
                check_part(got, expected, name)
            assert [hash(row) for row in reversed(p)] == [hash(row) for row in rows[::-1]]


@pytest.mark.parametrize("name", PACKED)
def test_slices(name):
    step = amount(4, 1)
    shapes = [*WHOLE_ROWS, *BROKEN_ROWS, *NO_ELEMENTS, (1,), (2,), (9,)]
    for i, shape in enumerate(shapes, PACKED.index(name)):
        q, p = packed_of(name, shape)
        row, accepted = int(np.prod(shape[1:])), 0
        for part in slices(min(shape[0], 5))[i % step :: step]:
            places = range(shape[0])[part]
            with case(shape=shape, part=part):
                if begins_and_ends_with_bytes(places, row, shape[0], BITS[name]):
                    got, accepted = p[part], accepted + 1
                    assert got.shape == q[part].shape
                    assert got.data.tobytes() == packed_bytes(q[part], name)
                    contiguous = len(places) < 2 or places.step == 1
                    if got.nbytes:
                        assert np.shares_memory(got.data, p.data) == contiguous
                else:
                    with pytest.raises(ValueError, match=r"^index: expected [^\n]+$"):
                        p[part]
        assert accepted
        check_part(p[:], q, name)


@pytest.mark.parametrize("name", PACKED)
def test_rows_that_begin_within_a_byte(name):
    text = r"^index: expected whole bytes, got the "
    for shape in BROKEN_ROWS:
        q, p = packed_of(name, shape)
        row, errors = int(np.prod(shape[1:])), 0
        with case(shape=shape):
            for i in range(shape[0]):
                if begins_and_ends_with_bytes([i], row, shape[0], BITS[name]):
                    check_part(p[i], q[i], name)
                else:
                    with pytest.raises(ValueError, match=text):
                        p[i]
                    errors += 1
            if errors:
                with pytest.raises(ValueError, match=text):
                    list(p)
            else:
                assert [one.unpack().tolist() for one in p] == q.tolist()


@pytest.mark.parametrize("name", PACKED)
def test_elements_of_one_dimension(name):
    for count in (1, 2, 3, 7, 8, 9):
        q, p = packed_of(name, (count,), count)
        assert len(p) == count
        for i in range(-count, count):
            assert type(p[i]) is type(q[i]) is dtype_of(name).type
            assert p[i].tobytes() == q[i].tobytes()
        assert [one.tobytes() for one in p] == [one.tobytes() for one in q]
        assert [type(one) for one in p] == [dtype_of(name).type] * count
    # The bits after the last code are not 0.
    p = pq.PackedArray.from_buffer(b"\xff\xff", name, 8 // BITS[name] + 1)
    assert p[-1] == p[0] == p.unpack()[-1]


def test_elements_of_empty_arrays():
    for shape in NO_ELEMENTS:
        q, p = packed_of("int4", shape)
        assert len(p) == shape[0]
        assert [row.shape for row in p] == [row.shape for row in q]
        assert [len(p[1:]), len(p[::-1])] == [len(q[1:]), len(q[::-1])]


def test_parts_of_parts():
    q, p = packed_of("uint4", (40, 3, 8))
    check_part(p[4:30][2:-3][::5][1][1:][-1], q[4:30][2:-3][::5][1][1:][-1], "uint4")
    check_part(p[7][2][2:6], q[7, 2, 2:6], "uint4")
    memory = p[1:].data
    part = p
    while len(part) > 1:
        part = part[1:]
    assert np.shares_memory(part.data, memory)
    # Each part references the memory and no part between.
    base, chain = part.data, 0
    while base is not None:
        base, chain = getattr(base, "base", getattr(base, "obj", None)), chain + 1
    assert chain < 10


def test_a_million_slices_of_slices():
    rows = amount(100_000, 1_000_000)
    part = pq.PackedArray.from_buffer(bytes(2 * rows), "int2", (rows, 8))
    for _ in range(len(part) - 1):
        part = part[1:]
    assert part.shape == (1, 8)
    del part  # This must not recurse.


def test_parts_cannot_be_written():
    memory = np.arange(16, dtype=np.uint8)
    p = pq.PackedArray(memory, "uint4", (4, 8))
    for part in (p[1:3], p[2], p[::2], p.copy(), p[:0]):
        assert not part.data.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            part.data.flags.writeable = True
        with pytest.raises(AttributeError, match="PackedArray is immutable"):
            set_attribute(part, "shape", (2,))
    kept, spaced, part = p.copy(), p[::2], p[1:3]
    memory[...] = 0xFF  # A part shares the memory, and a copy does not.
    assert set(part.unpack().astype(int).flat) == {15}
    assert kept.data.tobytes() == bytes(range(16))
    assert spaced.data.tobytes() == bytes([0, 1, 2, 3, 8, 9, 10, 11])
    for made in (kept, spaced):
        assert hash(made) == hash(made.copy())
    with pytest.raises(TypeError, match="unhashable"):
        hash(part)
    with pytest.raises(TypeError, match=r"does not support item assignment"):
        p[0] = part


def test_parts_of_constant_memory_have_hashes():
    q, p = packed_of("int2", (6, 8))
    for part in (p[1], p[2:5], p[::-2], p[:0]):
        assert hash(part) == hash(pickle.loads(pickle.dumps(part))) == hash(part.copy())
    assert len({p[0:2], p.copy()[0:2], pq.pack(q[:2]), p[1:2]}) == 2


@pytest.mark.parametrize("name", PACKED)
def test_copy_keeps_every_bit(name):
    for shape in ((3, 3), (1, 4), (), (0, 2), (5,)):
        size = -(-int(np.prod(shape)) * BITS[name] // 8)
        memory = bytearray(b"\xff" * size)
        p = pq.PackedArray.from_buffer(memory, name, shape)
        made = p.copy()
        assert type(made) is pq.PackedArray
        assert made == p
        assert repr(made) == repr(p)
        assert made.data.tobytes() == memory
        assert not size or not np.shares_memory(made.data, p.data)
        hash(made)


def test_equality_compares_each_byte():
    for count in (1, 7, 8, 9, 63, 64, 65, 1000):
        content = bytes(range(1, 200)) * 6
        p = pq.PackedArray.from_buffer(content[:count], "int2", count * 4)
        assert p == pq.PackedArray.from_buffer(content[:count], "int2", count * 4)
        for i in range(count):
            other = bytearray(content[:count])
            other[i] ^= 0x80
            assert p != pq.PackedArray.from_buffer(other, "int2", count * 4)


P0 = pq.PackedArray.from_buffer(b"\x01", "int4", ())
P1 = pq.PackedArray.from_buffer(b"\x21\x43\x05", "uint4", 5)
P2 = pq.PackedArray.from_buffer(bytes(8), "uint2", (2, 16))
P3 = pq.PackedArray.from_buffer(bytes(11), "int4", (3, 7))
EMPTY = pq.PackedArray.from_buffer(b"", "int4", (0, 3))
FIRST = "expected a packed array with a first axis, got shape ()"
WHAT = "index: expected an integer or a slice, got"
INVALID_INDICES = {
    "len of no axis": (lambda: len(P0), TypeError, f"len: {FIRST}"),
    "iteration over no axis": (lambda: iter(P0), TypeError, f"iter: {FIRST}"),
    "index of no axis": (lambda: P0[0], IndexError, f"index: {FIRST}"),
    "slice of no axis": (lambda: P0[:], IndexError, f"index: {FIRST}"),
    "beyond": (
        lambda: P1[5],
        IndexError,
        "index: expected an integer within the 5 rows, got 5",
    ),
    "far before": (
        lambda: P2[-(2**70)],
        IndexError,
        f"index: expected an integer within the 2 rows, got {-(2**70)}",
    ),
    "of no rows": (
        lambda: EMPTY[0],
        IndexError,
        "index: expected an integer within the 0 rows, got 0",
    ),
    "tuple": (lambda: P2[0, 1], TypeError, f"{WHAT} tuple"),
    "ellipsis": (lambda: P2[...], TypeError, f"{WHAT} ellipsis"),
    "none": (lambda: P2[None], TypeError, f"{WHAT} NoneType"),
    "list": (lambda: P2[[0, 1]], TypeError, f"{WHAT} list"),
    "array": (lambda: P2[np.array([0, 1])], TypeError, f"{WHAT} ndarray"),
    "mask": (lambda: P2[np.array([True, False])], TypeError, f"{WHAT} ndarray"),
    "bool": (lambda: P2[True], TypeError, f"{WHAT} bool"),
    "numpy bool": (lambda: P2[np.True_], TypeError, f"{WHAT} bool"),
    "float": (lambda: P2[1.0], TypeError, f"{WHAT} float"),
    "string": (lambda: P2["0"], TypeError, f"{WHAT} str"),
    "slice of floats": (
        lambda: P2[:1.0],
        TypeError,
        "index: expected a slice of integers, got one of NoneType, float, NoneType",
    ),
    "step of a string": (
        lambda: P2[0:1:"1"],
        TypeError,
        "index: expected a slice of integers, got one of int, int, str",
    ),
    "step of zero": (
        lambda: P2[::0],
        ValueError,
        "index: expected a step other than 0, got 0",
    ),
    "row within bytes": (
        lambda: P3[1],
        ValueError,
        "index: expected whole bytes, got the elements 7 to 13 of int4, 2 to a byte "
        "(unpack takes them apart)",
    ),
    "slice from within a byte": (
        lambda: P1[1:],
        ValueError,
        "index: expected whole bytes, got the elements 1 to 4 of uint4, 2 to a byte "
        "(unpack takes them apart)",
    ),
    "slice to within a byte": (
        lambda: P1[:3],
        ValueError,
        "index: expected whole bytes, got the elements 0 to 2 of uint4, 2 to a byte "
        "(unpack takes them apart)",
    ),
    "step through bytes": (
        lambda: P3[::-1],
        ValueError,
        "index: expected rows of whole bytes for a step of -1, got 7 elements of int4 in "
        "each, 2 to a byte",
    ),
    "truth": (
        lambda: bool(P2),
        ValueError,
        "bool: expected a number, got a packed array of shape (2, 16)",
    ),
    "truth of nothing": (
        lambda: bool(EMPTY),
        ValueError,
        "bool: expected a number, got a packed array of shape (0, 3)",
    ),
}


@loop("name", INVALID_INDICES)
def test_errors_of_indices(name):
    call, error, text = INVALID_INDICES[name]
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        call()


def test_in_is_an_error():
    for p in (P0, P1, P2, EMPTY):
        with pytest.raises(TypeError, match="not a container"):
            _ = 1 in p


class Index:
    """An index that raises an error."""

    def __index__(self):
        raise ValueError("mine")


def test_errors_of_an_index_object_pass_through():
    for index in (Index(), slice(Index(), None), slice(None, None, Index())):
        with pytest.raises(ValueError, match=r"^mine$"):
            P2[index]


# Errors

TWO = np.zeros(2, np.uint8)
STRIDED = np.zeros(4, np.uint8)[::2]
EXTENTS = "shape: expected an integer or a tuple of integers, got"
MANY = "shape: expected at most 64 dimensions, got"
OUTSIDE = f"shape: expected extents from 0 to {sys.maxsize}, got"
REFUSED = {
    "list for bytes": (
        ([1, 2], "int4", 3),
        TypeError,
        "data: expected a uint8 array, got list",
    ),
    "bytes": ((b"ab", "int4", 3), TypeError, "data: expected a uint8 array, got bytes"),
    "none": ((None, "int4", 3), TypeError, "data: expected a uint8 array, got NoneType"),
    "signed": (
        (TWO.view(np.int8), "int4", 3),
        TypeError,
        "data: expected a uint8 array, got int8",
    ),
    "codes": (
        (TWO.view(ml_dtypes.int4), "int4", 3),
        TypeError,
        "data: expected a uint8 array, got int4",
    ),
    "two dimensions": (
        (TWO.reshape(1, 2), "int4", 3),
        ValueError,
        "data: expected one dimension, got shape (1, 2)",
    ),
    "no dimension": (
        (np.zeros((), np.uint8), "int4", 1),
        ValueError,
        "data: expected one dimension, got shape ()",
    ),
    "strided": (
        (STRIDED, "int4", 3),
        ValueError,
        "data: expected contiguous bytes, got a strided array",
    ),
    "reversed": (
        (TWO[::-1], "int4", 3),
        ValueError,
        "data: expected contiguous bytes, got a strided array",
    ),
    "too few": (
        (TWO, "int4", (5,)),
        ValueError,
        "data: expected 3 bytes for int4 of shape (5,), got 2",
    ),
    "too many": (
        (TWO, "uint2", (2, 2)),
        ValueError,
        "data: expected 1 bytes for uint2 of shape (2, 2), got 2",
    ),
    "some for none": (
        (TWO, "float4_e2m1fn", (0, 9)),
        ValueError,
        "data: expected 0 bytes for float4_e2m1fn of shape (0, 9), got 2",
    ),
    "too few for what fits nowhere": (
        (TWO, "int4", (2**62, 2**62)),
        ValueError,
        f"shape: expected extents of product {sys.maxsize // 8} or less, 0 as 1, "
        f"got {(2**62, 2**62)}",
    ),
    "wide integers": ((TWO, "int8", 2), TypeError, f"dtype: expected {NAMES}, got int8"),
    "float8": (
        (TWO, "float8_e4m3fn", 2),
        TypeError,
        f"dtype: expected {NAMES}, got float8_e4m3fn",
    ),
    "float6": (
        (TWO, ml_dtypes.float6_e2m3fn, 2),
        TypeError,
        f"dtype: expected {NAMES}, got float6_e2m3fn",
    ),
    "no type": ((TWO, None, 3), TypeError, f"dtype: expected {NAMES}, got None"),
    "unknown type": (
        (TWO, "int3", 3),
        TypeError,
        f"dtype: expected {NAMES}, got 'int3'{HINT}",
    ),
    "array for a type": ((TWO, TWO, 3), TypeError, f"dtype: expected {NAMES}, got ndarray"),
    "float extent": ((TWO, "int4", 3.0), TypeError, f"{EXTENTS} float"),
    "float among extents": ((TWO, "int4", (3, 1.0)), TypeError, f"{EXTENTS} tuple"),
    "string shape": ((TWO, "int4", "3"), TypeError, f"{EXTENTS} str"),
    "no shape": ((TWO, "int4", None), TypeError, f"{EXTENTS} NoneType"),
    "negative extent": ((TWO, "int4", (-3,)), ValueError, f"{OUTSIDE} (-3,)"),
    "one negative extent": ((TWO, "int4", (3, -1)), ValueError, f"{OUTSIDE} (3, -1)"),
    "65 extents": ((TWO, "int4", (1,) * 65), ValueError, f"{MANY} 65"),
}


@loop("name", REFUSED)
def test_errors(name):
    given, error, text = REFUSED[name]
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        pq.PackedArray(*given)


BUFFERS = {
    "integer": (3, TypeError, "buffer: expected a bytes-like object, got int"),
    "string": ("ab", TypeError, "buffer: expected a bytes-like object, got str"),
    "none": (None, TypeError, "buffer: expected a bytes-like object, got NoneType"),
    "list": ([1, 2], TypeError, "buffer: expected a bytes-like object, got list"),
    "too short": (b"a", ValueError, "data: expected 2 bytes for int4 of shape (3,), got 1"),
    "empty": (b"", ValueError, "data: expected 2 bytes for int4 of shape (3,), got 0"),
}


@loop("name", BUFFERS)
def test_errors_of_buffers(name):
    buffer, error, text = BUFFERS[name]
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        pq.PackedArray.from_buffer(buffer, "int4", 3)


@loop("buffer", [memoryview(b"abcd")[::2], STRIDED, TWO[::-1]])
def test_errors_of_strided_buffers(buffer):
    with pytest.raises(
        ValueError, match=r"^buffer: expected contiguous bytes, got strides .+$"
    ):
        pq.PackedArray.from_buffer(buffer, "int4", 3)


UNPACKABLE = {
    "wide integers": (np.int8([1]), f"q: expected {NAMES}, got int8"),
    "real numbers": (np.float32([1]), f"q: expected {NAMES}, got float32"),
    "float8": (np.zeros(1, ml_dtypes.float8_e5m2), f"q: expected {NAMES}, got float8_e5m2"),
    "float6": (
        np.zeros(1, ml_dtypes.float6_e3m2fn),
        f"q: expected {NAMES}, got float6_e3m2fn",
    ),
    "python numbers": ([1, 2], f"q: expected {NAMES}, got int64"),
    "none": (None, "q: expected an array, got NoneType"),
    "string": ("ab", "q: expected an array, got str"),
    "masked": (
        np.ma.masked_array(np.zeros(2, ml_dtypes.int4), [0, 1]),
        "q: expected an array without a mask, got a masked array",
    ),
}


@loop("name", UNPACKABLE)
def test_errors_of_pack(name):
    q, text = UNPACKABLE[name]
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        pq.pack(q)


X = np.ones(5, np.float32)
OUT = poisoned(ml_dtypes.int4, 5)
OPTIONS = {
    "default type": ({}, ValueError, "packed: expected False for int8, got True"),
    "wide integers": (
        {"dtype": "uint16"},
        ValueError,
        "packed: expected False for uint16, got True",
    ),
    "float8": (
        {"dtype": "float8_e4m3fn"},
        ValueError,
        "packed: expected False for float8_e4m3fn, got True",
    ),
    "float6": (
        {"dtype": "float6_e2m3fn"},
        ValueError,
        "packed: expected False for float6_e2m3fn, got True",
    ),
    "out": (
        {"dtype": "int4", "out": OUT},
        ValueError,
        "out: expected None with packed=True, got ndarray",
    ),
    "packed out": (
        {"dtype": "int4", "out": pq.pack(OUT)},
        ValueError,
        "out: expected None with packed=True, got PackedArray",
    ),
    "packed out, not packed": (
        {"dtype": "int4", "packed": False, "out": pq.pack(OUT)},
        TypeError,
        "out: expected a NumPy array, got PackedArray",
    ),
    "integer for packed": (
        {"dtype": "int4", "packed": 1},
        TypeError,
        "packed: expected True, False, a layout or a tuple of layout, axis and bits, "
        "got int",
    ),
    "none for packed": (
        {"dtype": "int4", "packed": None},
        TypeError,
        "packed: expected True, False, a layout or a tuple of layout, axis and bits, "
        "got NoneType",
    ),
    "not saturated": (
        {"dtype": "int4", "saturate": False},
        ValueError,
        "saturate: expected True for int4, got False",
    ),
}


@loop("name", OPTIONS)
def test_errors_of_quantize(name):
    kwargs, error, text = OPTIONS[name]
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        pq.quantize(X, 1.0, **{"packed": True, **kwargs})
    assert untouched(OUT)


def test_packed_accepts_a_numpy_bool():
    assert pq.quantize(X, 1.0, dtype="int4", packed=np.True_).nbytes == 3
    same(pq.quantize(X, 1.0, packed=np.False_), np.int8([1] * 5))


# Packing


@loop("name, kind", ["axis", "bits"], [bool, "c16", "f8", "u2"])
def test_pack_of_an_array_that_changes_its_type(kind, name):
    q = np.zeros(64, np.uint8)

    class Four:
        def __index__(self):
            set_attribute(q, "dtype", kind)
            return 4

    with pytest.raises(TypeError, match=r"^q: expected uint8, got "):
        pq.pack(q, "words", **{name: Four()})


def test_pack_of_a_packed_array():
    q = random_codes("int4", 7)
    assert pq.pack(pq.pack(q)) == pq.pack(q)


# Memory

N = amount(1_000_001, 4_000_000)
PEAKS = {
    "contiguous": lambda: np.ones((N,), "f4"),
    "float16": lambda: np.ones((N,), "f2"),
    "float64": lambda: np.ones((N,), "f8"),
    "columns apart": lambda: np.ones((N // 101, 202), "f4")[:, ::2],
    "transposed": lambda: np.ones((N // 101, 101), "f4").T,
    "big-endian": lambda: np.ones((N,), ">f4"),
    "reversed": lambda: np.ones((N,), "f4")[::-1],
}


def peak(call):
    call()
    tracemalloc.start()
    try:
        result = call()
        return result.nbytes, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@loop("name, layout", ["int4", "uint2"], PEAKS)
def test_memory(name, layout):
    x = PEAKS[layout]()
    size, most = peak(lambda: pq.quantize(x, 0.5, dtype=name, packed=True))
    assert size == -(-x.size * BITS[name] // 8)
    assert most < size + (1 << 20)
    p = pq.quantize(x, 0.5, dtype=name, packed=True)
    size, most = peak(lambda: pq.dequantize(p, 0.5))
    assert most < size + (1 << 20)
    out = np.empty(x.shape[::-1], np.float16).T
    _, most = peak(lambda: pq.dequantize(p, 0.5, dtype="float16", out=out))
    assert most < 1 << 20
    if x.ndim == 1:
        size, most = peak(lambda: pq.dequantize(p, 0.5, threads=2))
        assert most < size + (1 << 20)


class Bytes(np.ndarray):
    """An array that reports a wrong size."""

    size = property(lambda self: 1 << 19)


class Claims(pq.PackedArray):
    __slots__ = ()
    shape = property(lambda self: (1 << 20,))


class ClaimsBytes(Claims):
    __slots__ = ()
    _name = property(lambda self: "int4")
    _how = property(lambda self: ("onnx", None, 4))
    _data = property(lambda self: np.zeros(1, np.uint8).view(Bytes))


class Grows(pq.PackedArray):
    """A packed array whose shape grows with each request."""

    __slots__ = ("asked",)

    @property
    def shape(self):
        asked = getattr(self, "asked", 2) * 2
        object.__setattr__(self, "asked", asked)
        return (asked,)


def test_subclasses_with_wrong_properties():
    """The arguments of the constructor decide, not the overridden properties."""
    data = np.zeros(2, np.uint8)
    for kind in (Claims, ClaimsBytes, Grows):
        assert pq.dequantize(kind(data, "int4", 4), 1.0).shape == (4,)
        assert kind(data, "int4", 4).unpack().dtype == ml_dtypes.int4
        for call in (lambda p: pq.dequantize(p, 1.0), lambda p: pq.quantize([1.0], 1.0, p)):
            with pytest.raises(
                TypeError, match=r"^data: expected words, got a PackedArray"
            ):
                call(kind.__new__(kind))


def test_subclasses_are_packed_arrays():
    class Mine(pq.PackedArray):
        pass

    p = Mine(np.uint8([0x21]), "int4", 2)
    same(pq.dequantize(p, 1.0), np.float32([1, 2]))
    same(p.unpack().astype(np.int8), np.int8([1, 2]))


def closed():
    memory = mmap.mmap(-1, 16)
    memory.close()
    return memory


WITHOUT_BUFFER = {
    "codes": lambda: np.zeros(3, ml_dtypes.int4),
    "dates": lambda: np.zeros(3, "M8[s]"),
    "closed": closed,
}


@loop("name", WITHOUT_BUFFER)
def test_errors_of_objects_without_a_buffer(name):
    with pytest.raises(
        ValueError, match=r"^buffer: expected contiguous bytes, got [^\n]+$"
    ):
        pq.PackedArray.from_buffer(WITHOUT_BUFFER[name](), "int4", 3)


def test_data_cannot_become_writeable():
    p = pq.PackedArray(np.zeros(2, np.uint8), "int4", 3)
    with pytest.raises(ValueError, match="WRITEABLE"):
        p.data.flags.writeable = True


def test_memory_of_results_is_read_only():
    for p in (
        pq.quantize([1.0, 2.0], 1.0, dtype="int4", packed=True),
        pq.pack(np.zeros(3, ml_dtypes.int4)),
    ):
        base = p.data
        while isinstance(base, np.ndarray):
            assert not base.flags.writeable
            with pytest.raises(ValueError, match="WRITEABLE"):
                base.flags.writeable = True
            base = base.base


def test_a_forged_shape_reads_nothing():
    p = pq.PackedArray(np.zeros(2, np.uint8), "int4", 3)
    for slot in ("_shape", "_data", "_how", "_name"):
        with pytest.raises(AttributeError):
            object.__setattr__(p, slot, (10**6,))
    empty = pq.PackedArray.__new__(pq.PackedArray)
    with pytest.raises(ValueError, match=r"^data: expected shape \(500000,\) of 1 bytes"):
        empty._keep(np.zeros(2, np.uint8), "int4", (10**6,), ("onnx", None, 4))
    with pytest.raises(TypeError, match=r"^data: expected words, got a PackedArray"):
        pq.dequantize(empty, 1.0)


NOUNS = ["data", "dtype", "shape", "layout", "axis", "bits", "nbytes", "size", "ndim"]
USES = {
    **{name: operator.attrgetter(name) for name in NOUNS},
    **{f.__name__: f for f in (repr, str, len, hash, bool, list, np.asarray, pickle.dumps)},
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "==": lambda p: p == p,
    "copy": lambda p: p.copy(),
    "unpack": lambda p: p.unpack(),
    "repack": lambda p: p.repack("awq"),
    "[0]": lambda p: p[0],
    "[:]": lambda p: p[:],
    "dequantize": lambda p: pq.dequantize(p, 1.0),
    "zero point": lambda p: pq.quantize([1.0], 1.0, p),
    "ONNX": lambda p: pq.onnx.dequantize_linear(p, np.float32(1)),
    "QParams": lambda p: pq.QParams(1.0, 0, "int4").dequantize(p),
}


@loop("name", USES)
def test_uninitialized_objects_raise_errors(name):
    with pytest.raises(TypeError, match=r"^data: expected words, got a PackedArray that"):
        USES[name](pq.PackedArray.__new__(pq.PackedArray))


@loop("rows, packed", [2**60, 2**61], [True, ("words", 0), "halves"])
def test_too_many_rows_are_an_error(rows, packed):
    none = np.empty((rows, 0), np.float16)
    with pytest.raises(ValueError, match=r"^x: expected extents of product \d+ or less"):
        pq.quantize(none, 1.0, dtype="int4", packed=packed)
    with pytest.raises(ValueError, match=r"^q: expected extents of product \d+ or less"):
        pq.pack(np.empty((rows, 0), np.uint8), bits=4)


@loop("layout", ["onnx", ("words", 0), "words", "awq", "halves"])
def test_the_largest_number_of_rows(layout):
    rows = sys.maxsize // 8
    p = pq.quantize(np.empty((rows, 0), np.float32), 1.0, dtype="int4", packed=layout)
    assert p.shape == (rows, 0)
    assert p.nbytes == 0
    for again in (p.copy(), pickle.loads(pickle.dumps(p)), copy.copy(p)):
        assert again == p
    for other in ("onnx", "words", "awq", "halves"):
        assert p.repack(other).shape == p.shape
        assert p.repack(other, axis=None if other == "onnx" else 0).shape == p.shape
    assert pq.pack(np.empty((rows, 0), np.uint8), bits=4).shape == p.shape
    assert p.unpack().shape == p[:].shape == pq.dequantize(p, 1.0).shape == p.shape


def test_too_many_words_are_an_error():
    none = np.empty((0, 2**59, 1), np.float32)  # Each code needs 16 bytes.
    text = r"^packed: expected a layout that has at most \d+ bytes"
    with pytest.raises(ValueError, match=text):
        pq.quantize(none, 1.0, dtype="int4", packed="halves")
    p = pq.quantize(none, 1.0, dtype="int4", packed=True)
    with pytest.raises(ValueError, match=text.replace("packed", "layout")):
        p.repack("halves")


def test_no_base_of_a_result_is_writeable():
    large = np.broadcast_to(np.float32(1), (1 << 23,))  # NumPy allocates this memory.
    for x in ([1.0, 2.0, 3.0], large):
        check_bases(pq.quantize(x, 1.0, dtype="int4", packed=True).data)


def check_bases(behind):
    seen = 0
    while not (behind is None or isinstance(behind, bytes)):
        if isinstance(behind, memoryview):
            assert behind.readonly
            behind = behind.obj
        else:
            assert not behind.flags.writeable
            behind = behind.base
        seen += 1
    assert seen


def read_only_view(memory):
    """Return a read-only view of writeable memory."""
    view = np.frombuffer(memory, np.uint8)[:]
    view.flags.writeable = False
    return view


WRITEABLE = {
    "bytearray": lambda: bytearray(b"ab"),
    "memoryview": lambda: memoryview(bytearray(b"ab")),
    "read-only memoryview": lambda: memoryview(bytearray(b"ab")).toreadonly(),
    "ndarray": lambda: np.frombuffer(b"ab", np.uint8).copy(),
    "view": lambda: np.zeros(8, np.uint8)[2:4],
    "read-only view": lambda: read_only_view(np.zeros(2, np.uint8)),
    "read-only view of a bytearray": lambda: read_only_view(bytearray(b"ab")),
    "array.array": lambda: array.array("B", b"ab"),
}
CONSTANT = {
    "bytes": lambda: b"ab",
    "memoryview": lambda: memoryview(b"ab"),
    "ndarray": lambda: np.frombuffer(b"ab", np.uint8),
    "view": lambda: np.frombuffer(b"cabd", np.uint8)[1:3],
}


@loop("name", WRITEABLE)
def test_writeable_memory_has_no_hash(name):
    packed = pq.PackedArray.from_buffer(WRITEABLE[name](), "int4", 4)
    with pytest.raises(TypeError, match="unhashable"):
        hash(packed)
    with pytest.raises(TypeError, match="unhashable"):
        hash(pq.PackedArray(packed.data, "int4", 4))
    assert packed == pq.PackedArray.from_buffer(bytes(packed.data), "int4", 4)


@loop("name", CONSTANT)
def test_constant_memory_has_a_hash(name):
    packed = pq.PackedArray.from_buffer(CONSTANT[name](), "int4", 4)
    other = pq.PackedArray.from_buffer(b"ab", "int4", 4)
    assert packed == other
    assert hash(packed) == hash(other)
    assert len({packed, other}) == 1


@loop("copied, first", ["pickle", "copy", "deepcopy"], ["quantize", "from_buffer"])
def test_copies_have_hashes(copied, first):
    if first == "quantize":
        packed = pq.quantize(np.float32([1, 2, 3]), 1.0, dtype="int4", packed=True)
    else:
        packed = pq.PackedArray.from_buffer(b"ab", "int4", 4)
    make = {
        "pickle": lambda p: pickle.loads(pickle.dumps(p)),
        "copy": copy.copy,
        "deepcopy": copy.deepcopy,
    }[copied]
    for other in (make(packed), make(make(packed))):
        assert other == packed
        assert hash(other) == hash(packed)


def test_hash_cannot_change():
    packed = pq.quantize(np.float32([1, 2, 3]), 1.0, dtype="int4", packed=True)
    hashed = hash(packed)
    with pytest.raises(ValueError, match="WRITEABLE"):
        packed.data.flags.writeable = True
    assert hash(packed) == hashed


@loop("mask", [False, True, [False, True]])
def test_masked_memory_is_an_error(mask):
    masked = np.ma.array(np.uint8([1, 2]), mask=mask)
    with pytest.raises(TypeError, match=r"^buffer: .* without a mask, got a masked array$"):
        pq.PackedArray.from_buffer(masked, "int4", 4)
    with pytest.raises(TypeError, match=r"^data: .*mask"):
        pq.PackedArray(masked, "int4", 4)


@loop("shape", [(0, 2**62), (2**62, 0), (2**31, 2**31, 0), (0, 2**60)])
def test_impossible_shapes_are_errors(shape):
    for make in (pq.PackedArray, pq.PackedArray.from_buffer):
        with pytest.raises(ValueError, match=r"^shape: "):
            make(np.zeros(0, np.uint8), "int4", shape)


@loop("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_unpickled_arrays_have_a_hash(protocol):
    packed = pq.quantize(np.arange(5.0), 1.0, dtype="int4", packed=True)
    again = pickle.loads(pickle.dumps(packed, protocol))
    assert again == packed
    assert hash(again) == hash(packed)
