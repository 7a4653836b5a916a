"""Calls of everything public with objects that lie, raise, change or make no sense.

    python -P tests/hostile.py [SEED [COUNT [FIRST]]]

makes COUNT calls, the FIRSTth of the seed on, and prints what came of them. Ordinary
exceptions are answers; a crash, another exception, or an `out` that was written although an
exception came, is a fault. test_hostile.py makes some thousand calls.
"""

import array
import atexit
import collections
import contextlib
import copy
import faulthandler
import functools
import pickle
import random
import sys
import tempfile
import warnings
from fractions import Fraction

import numpy as np

import pyquant as pq
import pyquant.integrations.cf
import pyquant.integrations.tflite
import pyquant.openvino
import pyquant.weights.bitsandbytes
import pyquant.weights.mx
import pyquant.weights.nvfp4
from pyquant.weights.blocks import BlockFormat, block_format, block_formats

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

STUCK = 300  # seconds for a thousand calls
ENDLESS = 100  # calls of one method


class Hostility(Exception):
    """What hostile objects raise."""


ANSWERS = (
    TypeError,
    ValueError,
    IndexError,  # of an object that would be endless
    OverflowError,
    BufferError,
    MemoryError,
    RecursionError,
    AttributeError,  # PackedArray and QParams cannot be changed
    ImportError,  # without ml_dtypes
    Hostility,
)

# ---- objects ----

SPECIAL = (
    *("__array__", "__index__", "__float__", "__int__", "__len__", "__iter__"),
    *("__getitem__", "__eq__", "__hash__", "__bool__", "__str__", "__repr__"),
    *("__array_interface__", "__array_struct__", "__buffer__", "__complex__"),
    *("__array_priority__", "dtype", "shape", "ndim", "size", "name", "value"),
    *("__dlpack__", "__dlpack_device__", "__array_ufunc__", "__array_function__"),
)
METHODS = [name for name in SPECIAL if name not in ("dtype", "shape", "ndim", "size")]


def lies(rng):
    """Something that a special method has no business to return."""
    return rng.choice(
        [
            *(None, -1, 1 << 70, 1.5, "x", b"", [], [[1, 2], [3]], np.nan, object()),
            *(True, np.float32([1, 2]), np.empty(0), np.array(None), (), {}, 0, 1, 3),
            {"shape": (1 << 40,), "typestr": "<f4", "data": (0, False), "version": 3},
            {"shape": (-3,), "typestr": "<f4", "data": (8, True), "version": 3},
            {"shape": (2,), "typestr": "<f4", "data": np.zeros(1, np.uint8), "version": 3},
            {"shape": (2,), "typestr": "?!", "version": 3},
        ]
    )


def hostile_object(rng):
    """An object of which some special methods raise, lie, or do either by turns."""
    space = {}
    for name in rng.sample(SPECIAL, rng.randint(1, 5)):
        lie, kind = lies(rng), rng.randrange(3)

        def method(self, *_, lie=lie, kind=kind, calls=[0], **__):  # noqa: B006
            calls[0] += 1
            if calls[0] > ENDLESS:  # NumPy reads a sequence without an end for ever
                raise IndexError
            if kind == 0 or (kind == 1 and calls[0] % 2 == 0):
                raise Hostility
            return lie

        # Not callable: an attribute; raised by a property, now and then.
        attribute = name not in METHODS or name in SPECIAL[12:14]
        space[name] = property(method) if attribute and rng.random() < 0.5 else method
        if attribute and rng.random() < 0.3:
            space[name] = lie
    base = rng.choice([object, object, object, list, float, int, str, tuple, dict])
    try:
        return type("Hostile", (base,), space)()
    except (TypeError, ValueError, Hostility):
        return object()


class Growing(collections.abc.Sequence):
    """A sequence that is longer each time it is looked at."""

    def __init__(self):
        self.n = 0

    def __len__(self):
        self.n += 1
        return min(self.n, 50)

    def __getitem__(self, i):
        if i > self.n:
            raise IndexError
        return float(i)


class Endless(collections.abc.Sequence):
    """A sequence of one element, which is again such a sequence, without end."""

    def __len__(self):
        return 1

    def __getitem__(self, i):
        if i:
            raise IndexError
        return Endless()


class Turning(list):
    """A list that empties itself when it is read."""

    def __iter__(self):
        for i in range(len(self)):
            del self[:]
            yield i

    def __getitem__(self, i):
        del self[:]
        return 1.0


class Child(np.ndarray):
    """A subclass that objects to being made."""

    def __array_finalize__(self, other):
        if getattr(other, "angry", False):
            raise Hostility


class Shy(np.ndarray):
    """A subclass that says it has another shape and type."""

    shape = property(lambda self: (1 << 40,))
    dtype = property(lambda self: np.dtype("V3"))
    ndim = property(lambda self: 64)
    strides = property(lambda self: (-8,))
    flags = property(lambda self: None)
    __repr__ = __str__ = __format__ = lambda self, *_: "shy"  # NumPy's own would fail


class Other(np.ndarray):
    """A subclass that says it is of larger elements."""

    dtype = property(lambda self: np.dtype(ml_dtypes.bfloat16 if ml_dtypes else "f8"))
    itemsize = property(lambda self: 8)

    def view(self, *_):
        return np.ndarray.view(self, np.ndarray)


class Packed(pq.PackedArray):
    """One that says each time that it is larger."""

    __slots__ = ("asked",)
    _data = property(lambda self: np.zeros(1, np.uint8).view(Other))
    _name = property(lambda self: "int4")

    @property
    def shape(self):
        asked = getattr(self, "asked", 1) * 7
        object.__setattr__(self, "asked", asked)
        return (asked,)


class Format(BlockFormat):
    """One that says it has fewer bytes, and encodes."""

    __slots__ = ()
    _row = property(lambda self: ("Q6_K", 14, 256, 1, True))


def knot():
    """A list that contains itself."""
    inside = [1.0]
    inside.append(inside)
    return inside


class Lines(int):
    """An integer with a representation of two lines."""

    def __repr__(self):
        return "1\n2"

    __str__ = __repr__


def deep():
    """A list of more levels than arrays have."""
    value = 1.0
    for _ in range(100):
        value = [value]
    return value


def deeper(kind, levels=100_000):
    """A list or tuple of more levels than the stack; made once, as that takes long."""
    if (kind, levels) not in DEEPER:
        value = kind((1.0,))
        for _ in range(levels):
            value = kind((value,))
        DEEPER[kind, levels] = value
    return DEEPER[kind, levels]


DEEPER = {}


def released():
    """A memoryview that is no more."""
    view = memoryview(bytearray(16))
    view.release()
    return view


def angry():
    """An array that cannot be viewed."""
    child = np.ones(4, np.float32).view(Child)
    child.angry = True
    return child


def strange_array(rng):
    """An array of any type, shape and strides."""
    names = ["f4", "f8", "f2", ">f4", ">f8", "i1", "u1", "i2", ">i4", "u8", "i8", "?"]
    names += ["c8", "O", "S3", "U2", "V4", "M8[s]", "m8", "f4,i1", "V2", "g"]
    types = [np.dtype(n) for n in names]
    if ml_dtypes is not None:
        narrow = ("bfloat16", "int4", "uint2", "float8_e4m3fn", "float4_e2m1fn")
        types += [np.dtype(getattr(ml_dtypes, n)) for n in (*narrow, "float8_e8m0fnu")]
    shape = rng.choice([(), (0,), (1,), (4,), (2, 3), (3, 4), (0, 5), (1,) * 64, (2, 3, 4)])
    made = np.zeros(shape, rng.choice(types))
    with (
        contextlib.suppress(TypeError, ValueError, OverflowError),
        np.errstate(all="ignore"),
    ):
        made[...] = rng.choice([0, 1, 3, -1, 100, float("nan"), 1e300])
    kind = rng.randrange(9)
    if kind == 0 and made.ndim:
        made = made[::-1]
    elif kind == 1 and made.ndim:
        made = np.lib.stride_tricks.as_strided(made, strides=(0,) * made.ndim)
    elif kind == 2:
        made.flags.writeable = False
    elif kind == 3:
        made = made.T[..., ::2] if made.ndim else made
    elif kind == 4:
        made = np.frombuffer(b"\1" * (made.nbytes + 1), np.uint8)[1:]
    elif kind == 5:
        made = np.broadcast_to(made, (2, *made.shape)) if made.ndim < 60 else made
    elif kind == 6:
        made = made.view(rng.choice([Child, Other, np.matrix if made.ndim == 2 else Child]))
    elif kind == 7:
        made = np.ma.masked_array(made)
    return made


STRANGE = [
    *(lambda: None, lambda: ..., lambda: NotImplemented, lambda: object, lambda: type),
    *(lambda: 1 << 100, lambda: -(1 << 100), lambda: 1 << 63, lambda: -(1 << 63)),
    *(lambda: float("nan"), lambda: float("inf"), lambda: -0.0, lambda: 1j, lambda: True),
    *(lambda: "", lambda: "int8", lambda: "\0", lambda: "\ud800", lambda: "f4,f4"),
    *(lambda: b"int8", lambda: bytearray(5), lambda: memoryview(b"abcd"), released),
    *(list, lambda: [[]], lambda: [1, [2]], dict, lambda: {1: 2}, set),
    *(knot, deep, Growing, lambda: Turning([1.0, 2.0]), angry, lambda: (), lambda: (0, 0)),
    *(lambda: np.ones(4, np.float32).view(Shy), lambda: array.array("f", [1, 2])),
    *(lambda: iter([1]), lambda: (i for i in (1, 2)), lambda: range(3), lambda: print),
    *(lambda: 10**5000, lambda: [-(10**5000)], lambda: (10**5000, 1), lambda: Lines(7)),
    *(lambda: 10**400, lambda: "a\nb", lambda: Lines(10**5000), lambda: [Lines(-1)]),
    *(lambda: Fraction(1, 3), lambda: np.float16(2), lambda: np.int64(3), lambda: np.ma),
    *(lambda: np.ma.masked, lambda: [np.ma.masked], lambda: np.array([object()])),
    *(lambda: np.dtype("i1"), lambda: np.int8, lambda: np.dtype("O"), lambda: "bfloat16"),
    *(lambda: np.datetime64("NaT"), lambda: np.str_("x"), lambda: np.void(b"1234")),
    *(lambda: pq.RoundMode.CEIL, lambda: pq.RoundMode, lambda: pq, lambda: 64, lambda: -65),
    *(lambda: sys.maxsize, lambda: -sys.maxsize - 1, lambda: [sys.maxsize] * 3),
    *(lambda: pq.quantize([1.0, 2.0, 3.0], 1.0, dtype="int4", packed=True),),
    *(lambda: pq.pack(np.uint8([[1, 2, 3]]), "words", axis=1, bits=3),),
    *(lambda: ("words", 0), lambda: ("awq", 1, 4), lambda: ("halves", 0, 4, 4)),
    *(lambda: pq.choose_qparams([1.0, 2.0]), lambda: [float("nan")] * 4, lambda: [1e300]),
    *(lambda: np.broadcast_to(np.float32(1), (1 << 31, 1 << 29)),),
    *(lambda: np.broadcast_to(np.int8(1), (1 << 31, 1 << 29)),),
    *(lambda: pq.PackedArray.__new__(pq.PackedArray),),
    *(lambda: pq.QParams.__new__(pq.QParams), lambda: object.__new__(BlockFormat)),
    *(lambda: object.__new__(Format), lambda: block_format("Q4_0"), lambda: slice(None)),
    *(lambda: type("P", (pq.PackedArray,), {"_data": 3, "_shape": (9,)})(
        np.zeros(2, np.uint8), "int4", 4),),
    *(lambda: Packed.__new__(Packed), Endless, lambda: [Endless()]),
    *(lambda: deeper(list), lambda: deeper(tuple), lambda: [0, deeper(tuple)]),
]  # fmt: skip


def strange(rng):
    """Anything at all."""
    kind = rng.randrange(3)
    if kind == 0:
        return hostile_object(rng)
    return strange_array(rng) if kind == 1 else rng.choice(STRANGE)()


# ---- calls ----

TYPES = pq.dtypes.TYPES.values()
INTEGERS = [t.name for t in TYPES if t.kind == "integer" and t.bits <= 32]
CODES = [*INTEGERS, *(pq.dtypes.NARROW_FLOATS if ml_dtypes else [])]
REALS = ["float32", "float64", "float16", *(["bfloat16"] if ml_dtypes else [])]


def packing(rng):
    """What `packed` may be."""
    axis = rng.choice([None, 0, 1, -1])
    return rng.choice(
        [True, "words", ("words", axis), ("awq", axis), ("halves", axis, 4), "high-first"]
    )


def packed_of(rng):
    if rng.random() < 0.3:
        layout, bits = rng.choice([("words", 3), ("words", 8), ("awq", 4), ("halves", 4)])
        return pq.pack(
            np.ones((3, 4), np.uint8), layout, axis=rng.choice([0, 1]), bits=bits
        )
    kind, packed = rng.choice(["int4", "uint4"]), packing(rng)
    return pq.quantize(np.ones((3, 4)), 1.0, dtype=kind, packed=packed)


def words_of(rng):
    """Words, and what they are of."""
    return rng.choice(
        [
            (np.zeros((1, 4), np.int32), "uint4", "words", 0, None),
            (np.zeros((3, 1), np.uint32), "int4", "awq", 1, 4),
            (np.zeros((3, 16), np.uint8), "uint4", "halves", -1, None),
            (np.zeros((3, 1), np.int32), "uint8", "words", 1, 3),
        ]
    )


def wrap(given):
    if type(given) is not tuple:
        return pq.PackedArray(given, given, 1)
    data, dtype, layout, axis, bits = given
    return pq.PackedArray(data, dtype, (3, 4), layout=layout, axis=axis, bits=bits)


def forge(rng, words, name, extents, how):
    """One that is told anything."""
    packed = pq.PackedArray.__new__(pq.PackedArray)
    packed._keep(words, name, extents, how)
    return packed.unpack() if rng.random() < 0.3 else pq.dequantize(packed, 1.0)


VALID = {
    "x": lambda r: np.ones((3, 4), r.choice(["f4", "f8", "f2"])),
    "q": lambda r: (
        packed_of(r) if r.random() < 0.2 else np.ones((3, 4), r.choice("bBhHiI"))
    ),
    "scale": lambda r: r.choice(
        [1.0, 0.5, np.float32(2), [0.5] * 4, [0.5] * 3, np.ones((3, 2)), np.ones((3, 4))]
    ),
    "scales": lambda r: r.choice([[1.0], [0.5] * 4, [0.5] * 3]),
    "zero": lambda r: r.choice(
        [None, 0, [1] * 4, [1] * 3, np.int8(1), np.uint8([1, 2, 3])]
    ),
    "dtype": lambda r: r.choice([None, *CODES, np.int8, np.dtype("u1")]),
    "real": lambda r: r.choice([*REALS, np.float32]),
    "axis": lambda r: r.choice([0, 1, 1, -1, (1,), None]),
    "block": lambda r: r.choice([None, 1, 2, 3, (1, 2), (3, 4), 0]),
    "rounding": lambda r: r.choice(
        ["half_even", "ceil", "stochastic", "stochastic", pq.RoundMode.AWAY]
    ),
    "place": lambda r: r.choice([None, None, 0, 7, 2**64 - 1, np.uint8(9)]),
    "precision": lambda r: r.choice([None, 0, "float16", "float64"]),
    "flag": lambda r: r.choice([True, False, 0, 1]),
    "out": lambda r: r.choice([None, out_of(r)]),
    "threads": lambda r: r.choice([1, 1, 2, 3]),
    "qtype": lambda r: r.choice(["per_tensor", "per_channel", "per_group"]),
    "shape": lambda r: r.choice([4, (2, 2), (3,), ()]),
    "bytes": lambda r: np.zeros(2, np.uint8),
    "buffer": lambda r: r.choice([b"ab", bytearray(2), memoryview(b"ab")]),
    "packed": lambda r: r.choice([False, packing(r)]),
    "layout": lambda r: r.choice(["onnx", "words", "awq", "halves", "packbits"]),
    "stream": lambda r: r.choice([None, 0, -1]),
    "bits": lambda r: r.choice([None, 4, 3, 8]),
    "bytes codes": lambda r: np.ones((2, 3), r.choice(["u1", "i1"])),
    "words": lambda r: np.zeros((2, 4), "i4") if r.random() < 0.5 else np.zeros(6, "u1"),
    "name": lambda r: r.choice(["int4", "uint4", "uint8", "float4_e2m1fn", "int2"]),
    "extents": lambda r: r.choice([(3, 4), (12,), (9, 4), (16, 4), (2, 32), (0, 9)]),
    "how": lambda r: (
        r.choice(["onnx", "words", "awq", "high-first"]),
        r.choice([None, 0, 1]),
        4,
    ),
    "axes": lambda r: r.choice([(), (0,), (1,), [0, 1]]),
    "mode": lambda r: r.choice(["ROUND_HALF_TO_EVEN", "ROUND_DOWN", pq.RoundMode.CEIL]),
    "packable": lambda r: np.zeros((2, 3), ml_dtypes.int4 if ml_dtypes else "i1"),
    "output_dtype": lambda r: r.choice([0, 2, 3, 1, 10, "int8", "float32"]),
    "group": lambda r: r.choice([None, (1, 2), (3, 4), [1, 1]]),
    "offset": lambda r: r.choice(
        [None, 0.5, np.float32(2), np.float64([3]), [0.5] * 4, [0.5] * 3, np.ones((3, 2))]
    ),
    "fill": lambda r: r.choice([None, 0, 3, [0, 1, 1], np.int16(-9), np.uint8([7, 8])]),
    "range": lambda r: r.choice([None, (0, 7), (-5, 5), [1, 1 << 20], np.int8([-2, 1])]),
    "beyond": lambda r: r.choice(["saturate", "wrap", "raise"]),
    "nan": lambda r: r.choice(["lowest", "raise"]),
    "detail": lambda r: detail_of(r),
    "element": lambda r: r.choice(["float4_e2m1fn", "float8_e4m3fn", "float6_e3m2fn"]),
    "rule": lambda r: r.choice(["floor", "ceil", "even", "rceil"]),
    "style": lambda r: r.choice(["torchao", "compressed-tensors"]),
    "codebook": lambda r: r.choice(
        [None] * 6 + ["nf4", "dynamic8", BOOK, BOOK[::-1], BOOK[:3]]
    ),
    "four": lambda r: r.choice(["nf4", "fp4"]),
    "size": lambda r: r.choice([64, 64, 32, 4096]),
    "sixty-four": lambda r: np.ones((3, 64), r.choice(["f4", "f2", "f8"])),
    "attrs": lambda r: attrs_of(r),
    "method": lambda r: r.choice(["minmax", "mse", "mse", "percentile", "entropy"]),
    "search": lambda r: r.choice(["minmax", "mse", "mse"]),
    "weights": lambda r: r.choice([None, 1.0, np.ones(4, "f4"), np.ones((3, 1))]),
    "candidates": lambda r: r.choice([None, 1.0, [1, 0.5], np.float32([0.9])]),
    "scale type": lambda r: r.choice([None, *REALS, "float32", "float8_e8m0fnu"]),
    "like": lambda r: r.choice([None, None, "pytorch", "tflite", "quark_po2", "fbgemm"]),
    "lows": lambda r: r.choice([-1.0, [-1.0] * 3, np.full((3, 4), -2, "f4")]),
    "highs": lambda r: r.choice([1.0, [1.0] * 3, np.full((3, 4), 2, "f4")]),
    "mask": lambda r: r.choice([None, np.zeros((3, 4), bool), np.zeros((4, 3), bool).T]),
    "real out": lambda r: r.choice([None, np.full((3, 4), 7, r.choice(["f4", "f8"]))]),
    "sums": lambda r: np.full((3, 4), 9, r.choice(["i1", "i4", ">i4", "i8", "u2", "u4"])),
    "multiplier": lambda r: r.choice([0.5, 1e-3, [0.5] * 4, np.float32([0.1, 0.2, 0.3])]),
    "bias": lambda r: r.choice([None, 5, [1] * 4, np.int64([1, 2, 3])]),
    "arithmetic": lambda r: r.choice(["float32", "tflite", "rndnu", "fbgemm"]),
    "shift": lambda r: r.choice([None, None, 3, [1] * 4]),
    "int": lambda r: r.choice([0, 1, -3, np.int8(5)]),
    "percent": lambda r: r.choice([0, 99.9, np.float32(100), 50]),
    "momentum": lambda r: r.choice([None, 0.1, 1]),
    "nonfinite": lambda r: r.choice(["raise", "ignore"]),
    "batches": lambda r: [np.ones((3, 4), "f4"), np.arange(r.choice([0, 5]), dtype="f4")],
    "levels": lambda r: r.choice([2, 16, 255, 256]),
    "format": lambda r: getattr(format_of(r), r.choice(["name", "ggml_id"])),
    "blocks": lambda r: r.choice([BYTES, BYTES, BYTES[::-1], BYTES.view(">i2")]),
    "numbers": lambda r: np.ones((3, 512), r.choice(["f4", "f8", "f2"])),
    "block out": lambda r: r.choice([None, np.full((3, 512), 7, r.choice(["f4", "f8"]))]),
    "byte out": lambda r: r.choice([None, np.full((3, r.choice([288, 544])), 7, "u1")]),
    "rows": lambda r: r.choice([None, slice(0, 2), slice(None), slice(-1, None)]),
    "weight out": lambda r: r.choice(
        [None, np.full((3, 256), 7, r.choice(["f4", "f8", "u1"])), BYTES[:3].copy()]
    ),
}


def detail_of(rng):
    """Return the description of a tensor by an interpreter."""
    scales = rng.choice([[0.5], [0.5] * 4, [], [0.0]])
    zeros = rng.choice([[3] * len(scales), [0], [1 << 40]])
    parameters = {
        "scales": np.array(scales, "f4"),
        "zero_points": np.array(zeros, "i8"),
        "quantized_dimension": rng.choice([0, 1, -1, 9]),
    }
    if rng.random() < 0.3:
        parameters[rng.choice(list(parameters))] = strange(rng)
    detail = {
        "dtype": rng.choice([np.int8, np.uint8, np.int16, np.float32]),
        "shape": rng.choice([[3, 4], [4], []]),
        "name": "x",
        "quantization_parameters": parameters,
        "quantization": (0.5, 3),
    }
    if rng.random() < 0.3:
        detail[rng.choice(list(detail))] = strange(rng)
    return detail


ATTRIBUTES = {
    "scale_factor": [0.5, np.float32(2), np.float64([0.1]), 3],
    "add_offset": [1.0, np.float32(2), np.float64([0.1])],
    "_FillValue": [-1, np.int16(5), np.uint8([255]), [1, 2]],
    "missing_value": [np.int8([3, 4]), 7],
    "_Unsigned": ["true", "false"],
    "valid_range": [[0, 100], np.int16([-5, 5])],
    "valid_min": [0],
    "valid_max": [np.int16(9)],
    "dtype": ["int16"],
}


def attrs_of(rng):
    """Attributes of a variable, some of them no such."""
    names = rng.sample(list(ATTRIBUTES), rng.randint(0, 4))
    return {
        name: strange(rng) if rng.random() < 0.2 else rng.choice(ATTRIBUTES[name])
        for name in names
    }


def out_of(rng):
    """A place for the result, full of canaries."""
    types = [*(t for t in INTEGERS if hasattr(np, t)), *REALS[:3]]
    size = np.dtype(rng.choice(types))
    raw = np.full(12 * size.itemsize * 2, 0xA5, np.uint8).view(size)
    raw = np.ndarray.view(raw, Other) if rng.random() < 0.1 else raw
    return rng.choice(
        [raw[:12].reshape(3, 4), raw[::2].reshape(3, 4), raw[:12].reshape(4, 3).T]
    )


def qparams(rng):
    if rng.random() < 0.3:
        kept = rng.choice([{"fill": -128}, {"quant_range": (-127, 100)}, {}])
        return pq.QParams([0.5] * 3, [1, 2, 3], "int8", axis=0, offset=[1.0] * 3, **kept)
    return pq.choose_qparams(np.ones((3, 4)), axis=rng.choice([None, 0, 1]), dtype="int8")


def observe(x, axis=None, histogram=False, threads=1):
    """All that an Observer says of the numbers."""
    o = pq.Observer(axis=axis, histogram=histogram, nonfinite="ignore")
    o.update(x, threads=threads)
    if o.nan is None or not np.all(o.count):
        return o
    method = "percentile" if o._options.histogram else "minmax"
    return (o + o).qparams(method=method), repr(o)


def observer_of(rng):
    """One that may have seen something."""
    o = pq.Observer(
        axis=rng.choice([None, None, 0, 1, (0, 1)]),
        histogram=rng.random() < 0.5,
        nonfinite=rng.choice(["raise", "ignore"]),
    )
    if rng.random() < 0.6:
        o.update(np.arange(12, dtype="f4").reshape(3, 4) - 4)
    return o


def use_observer(rng, o, x, **kwargs):
    """Everything that an Observer can do. What fails leaves it as it was."""
    o = o if type(o) is pq.Observer else observer_of(rng)
    before, state = o.copy(), pickle.dumps(o)
    step = rng.randrange(7)
    try:
        if step == 0:
            o.update(x, threads=kwargs.get("threads", 1))
        elif step == 1:
            o.merge(x)
        elif step == 2:
            return [o + x, sum([o, x])]
        elif step == 3:
            o.quantile(x)
        elif step == 4:
            o.range(x if rng.random() < 0.3 else kwargs.get("method", "minmax"))
        elif step == 5:
            kwargs.pop("threads", 1)
            o.qparams(**kwargs)
        else:
            o.__eq__(x)
            return repr(o), o.count, o.nan, o.inf, o.min, o.max, pickle.loads(state)
    except BaseException:
        # An exception must leave the Observer unchanged.
        if o != before or pickle.dumps(o) != state:
            raise AssertionError("an Observer was changed before the exception") from None
        raise
    return None


def report_of(rng):
    """Of some errors."""
    x = np.ones((3, 4), "f4")
    return pq.measure_error(x, x / 3, axis=rng.choice([None, 0, 1, (0, 1)]))


def use_report(rng, report, other):
    """Everything that an ErrorReport can do."""
    report = report if type(report) is pq.ErrorReport else report_of(rng)
    found = [getattr(report, name) for name in dir(report) if name[0] != "_"]
    found += [repr(report), str(report), hash(report), report.__eq__(other)]
    assert pickle.loads(pickle.dumps(report)) == report
    step = rng.randrange(4)
    if step == 0:
        found.append(report + other)
    elif step == 1:
        found.append(sum([report, other]))
    elif step == 2:
        report.mse = other
    else:
        pq.ErrorReport(other)
    return found


def use_packed(rng, packed, other):
    """Everything that a PackedArray can do."""
    found = (packed.data, packed.dtype, packed.shape, packed.layout, packed.nbytes)
    found += (
        packed.size,
        packed.ndim,
        repr(packed),
        packed.copy(),
        hash(packed),
        pq.PackedArray.__eq__(packed, other),
    )
    pickle.loads(pickle.dumps(packed))
    step = rng.randrange(10)
    if step == 0:
        packed.unpack()
    elif step == 1:
        np.asarray(packed, other)
    elif step == 2:
        packed._shape = other
    elif step == 3:
        packed[other]
    elif step == 4:
        parts = [rng.choice([None, other, -1, 0, 1, 2, 9]) for _ in range(3)]
        packed[slice(*parts)].copy()
    elif step == 5:
        list(packed)
    elif step == 6:
        bool(packed)
    elif step == 7:
        len(packed)
        return [hash(row) for row in packed[rng.choice([0, -1]) :]]
    return found


BYTES = np.arange(3 * 1024, dtype=np.uint8).reshape(3, 1024)


def format_of(rng):
    return object.__new__(Format) if rng.random() < 0.1 else rng.choice(block_formats())


def find_format(name):
    with contextlib.suppress(KeyError):
        return block_format(name)
    return None


def decode_blocks(rng, f, b, **kwargs):
    f = f if isinstance(f, BlockFormat) else format_of(rng)
    if type(b) is np.ndarray:
        b = b[..., : 512 // f.block_size * f.block_bytes]
    return f.decode(b, **kwargs)


def encode_blocks(rng, f, x, **kwargs):
    f = f if isinstance(f, BlockFormat) else format_of(rng)
    return f.encode(x, **kwargs)


def use_format(rng, f, other):
    """Everything else that a BlockFormat can do."""
    f = f if isinstance(f, BlockFormat) else format_of(rng)
    if other is BYTES and rng.random() < 0.5:
        other = rng.choice(
            [(4, 3 * f.block_size * f.block_bytes), BYTES[:, : f.block_bytes]]
        )
    found = [repr(f), f.name, f.bits_per_element, f == other, hash(f), copy.copy(f)]
    step = rng.randrange(5)
    if step == 0:
        f.split(other)
    elif step == 1:
        f.encoded_shape(other)
    elif step == 2:
        f.decoded_shape(other)
    elif step == 3:
        f._row = other
    else:
        parts = f.split(BYTES[:, : 2 * f.block_bytes])
        parts[rng.choice(list(parts))] = other
        f.join(**parts)
    return found


@functools.cache
def weight_file():
    """Tensors of every kind, in one file that is open."""
    folder = tempfile.TemporaryDirectory()
    atexit.register(folder.cleanup)
    x = np.arange(3 * 256).reshape(3, 256)
    tensors = {n: x.astype(n) for n in ("f4", "f8", "f2", "i1", "i8")}
    for fmt in block_formats():
        blocks = BYTES[:, : 256 // fmt.block_size * fmt.block_bytes]
        tensors[fmt.name] = (fmt, blocks)
    pq.write_weights(f"{folder.name}/a.gguf", tensors)
    return pq.open_weights(f"{folder.name}/a.gguf")


def decode_weight(rng, rows, **kwargs):
    file = weight_file()
    return file[rng.choice(list(file))].decode(rows, **kwargs)


def use_params(rng, params, other):
    """Everything that a QParams can do besides its two methods."""
    found = (params.scale, params.zero_point, params.dtype, params.axis, params.block_size)
    found += (params.offset, params.fill, params.quant_range)
    found += (repr(params), hash(params), pq.QParams.__eq__(params, other))
    pickle.loads(pickle.dumps(params))
    if rng.random() < 0.3:
        params.scale = other
    return found


AFFINE = {"offset": "offset", "inverse": "flag", "fill": "fill"}
POLICIES = {"out_of_range": "beyond", "nan": "nan"}
NOISE = {"seed": "place", "start": "place"}
BOOK = np.linspace(-1, 1, 16, dtype=np.float32)


def read_bitsandbytes(rng, given):
    """Tensors of a file of which one is another, or lacks something."""
    four = pyquant.weights.bitsandbytes.quantize(
        np.ones((3, 64), "f4"), nested=rng.random() < 0.5
    )
    tensors = four.tensors()
    name = rng.choice(sorted(tensors))
    what = rng.random()
    if what < 0.3:
        tensors[name] = given
    elif what < 0.5:
        del tensors[name]
    elif what < 0.9 and tensors[name].size:
        changed = np.array(tensors[name]).reshape(-1).view(np.uint8)
        changed[rng.randrange(changed.size)] = rng.randrange(256)
        tensors[name] = changed.view(tensors[name].dtype).reshape(tensors[name].shape)
    return pyquant.weights.bitsandbytes.from_tensors(tensors).dequantize()


QUANTIZE = {
    "x": "x",
    "scale": "scale",
    "zero_point": "zero",
    "dtype": "dtype",
    "axis": "axis",
    "block_size": "block",
    "rounding": "rounding",
    "precision": "precision",
    "saturate": "flag",
    "packed": "packed",
    "out": "out",
    "threads": "threads",
    **AFFINE,
    "codebook": "codebook",
    "quant_range": "range",
    **POLICIES,
    **NOISE,
}
DEQUANTIZE = {
    "q": "q",
    "scale": "scale",
    "zero_point": "zero",
    "dtype": "real",
    "axis": "axis",
    "block_size": "block",
    "out": "out",
    "threads": "threads",
    **AFFINE,
    "bias": "offset",
    "codebook": "codebook",
}
OF_PARAMS = {
    "rounding": "rounding",
    "out": "out",
    "threads": "threads",
    **POLICIES,
    **NOISE,
}
CHOICE = {"quant_range": "range", "scale_dtype": "scale type", "like": "like"}
ONEDNN = {"scales": "scales", "zps": "zero", "qtype": "qtype", "axis": "axis"}

CALLS = [
    *[(pq.quantize, 2, QUANTIZE), (pq.dequantize, 2, DEQUANTIZE)] * 4,
    (
        pq.choose_qparams,
        1,
        {
            "x": "x",
            "dtype": "dtype",
            "axis": "axis",
            "block_size": "block",
            "symmetric": "flag",
            "method": "search",
            "weights": "weights",
            "candidates": "candidates",
            **CHOICE,
            "threads": "threads",
        },
    ),
    (
        pq.qparams_from_range,
        2,
        {
            "lo": "lows",
            "hi": "highs",
            "dtype": "dtype",
            "axis": "axis",
            "block_size": "block",
            "symmetric": "flag",
            **CHOICE,
        },
    ),
    (
        pq.dynamic_quantize,
        1,
        {
            "x": "x",
            "dtype": "dtype",
            "axis": "axis",
            "block_size": "block",
            "symmetric": "flag",
            **CHOICE,
            "packed": "packed",
            "out": "out",
            "threads": "threads",
            **{k: v for k, v in QUANTIZE.items() if k == "rounding" or k in NOISE},
        },
    ),
    (
        pq.fake_quantize,
        2,
        {
            **{k: v for k, v in QUANTIZE.items() if k not in (*POLICIES, "packed")},
            "out": "real out",
            "mask": "mask",
        },
    ),
    (
        pyquant.openvino.fake_quantize,
        6,
        {
            "x": "x",
            "input_low": "lows",
            "input_high": "highs",
            "output_low": "lows",
            "output_high": "highs",
            "levels": "levels",
            "out": "real out",
            "threads": "threads",
        },
    ),
    (
        pq.requantize,
        2,
        {
            "q": "sums",
            "multiplier": "multiplier",
            "zero_point": "int",
            "dtype": "dtype",
            "input_zero_point": "int",
            "bias": "bias",
            "axis": "axis",
            "arithmetic": "arithmetic",
            "clip": "range",
            "shift": "shift",
            "out": "out",
            "threads": "threads",
        },
    ),
    (
        pq.fixedpoint.fixed_point,
        1,
        {"multiplier": "multiplier", "arithmetic": "arithmetic"},
    ),
    (pq.measure_error, 2, {"x": "x", "y": "x", "axis": "axis", "threads": "threads"}),
    (
        lambda p, x, **k: p.measure_error(x, **k),
        2,
        {"p": qparams, "x": "x", "axis": "axis"},
    ),
    (use_report, 2, {"report": report_of, "other": report_of}),
    (
        pq.Observer,
        0,
        {
            "axis": "axis",
            "histogram": "flag",
            "mantissa_bits": "int",
            "momentum": "momentum",
            "nonfinite": "nonfinite",
        },
    ),
    *[
        (
            use_observer,
            2,
            {
                "o": observer_of,
                "x": seen,
                "dtype": "dtype",
                "method": "method",
                "percentile": "percent",
                "symmetric": "flag",
                **CHOICE,
                "threads": "threads",
            },
        )
        for seen in ("x", observer_of)
    ],
    (
        pq.calibrate,
        1,
        {
            "batches": "batches",
            "dtype": "dtype",
            "axis": "axis",
            "method": "method",
            "percentile": "percent",
            "symmetric": "flag",
            **CHOICE,
            "momentum": "momentum",
            "nonfinite": "nonfinite",
            "threads": "threads",
        },
    ),
    (
        observe,
        1,
        {"x": "x", "axis": "axis", "histogram": "flag", "threads": "threads"},
    ),
    (
        pq.QParams,
        2,
        {
            "scale": "scale",
            "zero_point": "zero",
            "dtype": "dtype",
            "axis": "axis",
            "block_size": "block",
            "offset": "offset",
            "fill": "fill",
            "quant_range": "range",
        },
    ),
    (lambda p, x, **k: p.quantize(x, **k), 2, {"p": qparams, "x": "x", **OF_PARAMS}),
    (
        lambda p, q, **k: p.dequantize(q, **k),
        2,
        {"p": qparams, "q": "q", "dtype": "real", "out": "out", "threads": "threads"},
    ),
    (use_params, 2, {"params": qparams, "other": "x"}),
    (pq.pack, 1, {"q": "packable"}),
    (
        pq.pack,
        1,
        {"q": "bytes codes", "layout": "layout", "axis": "stream", "bits": "bits"},
    ),
    (
        pq.PackedArray,
        3,
        {
            "data": "bytes",
            "dtype": "dtype",
            "shape": "shape",
            "layout": "layout",
            "axis": "stream",
            "bits": "bits",
        },
    ),
    (wrap, 1, {"given": words_of}),
    (
        lambda p, to, at: p.repack(to, axis=at),
        3,
        {"p": packed_of, "to": "layout", "at": "stream"},
    ),
    (forge, 4, {"words": "words", "name": "name", "extents": "extents", "how": "how"}),
    (
        pq.PackedArray.from_buffer,
        3,
        {
            "buffer": "buffer",
            "dtype": "dtype",
            "shape": "shape",
            "layout": "layout",
            "axis": "stream",
            "bits": "bits",
        },
    ),
    (use_packed, 2, {"packed": packed_of, "other": "real"}),
    (
        decode_blocks,
        2,
        {
            "f": format_of,
            "b": "blocks",
            "dtype": "real",
            "out": "block out",
            "threads": "threads",
        },
    ),
    (
        encode_blocks,
        2,
        {"f": format_of, "x": "numbers", "out": "byte out", "threads": "threads"},
    ),
    (use_format, 2, {"f": format_of, "other": "blocks"}),
    (find_format, 1, {"name": "format"}),
    (
        decode_weight,
        1,
        {"rows": "rows", "dtype": "real", "out": "weight out", "threads": "threads"},
    ),
    (
        pq.ngraph.quantize,
        6,
        {
            "input": "x",
            "scale": "scale",
            "zero_point": "zero",
            "type": "dtype",
            "axes": "axes",
            "round_mode": "mode",
        },
    ),
    (
        pq.ngraph.dequantize,
        5,
        {
            "input": "q",
            "scale": "scale",
            "zero_point": "zero",
            "type": "real",
            "axes": "axes",
        },
    ),
    (pq.onednn.quantize, 1, {"src": "x", **ONEDNN, "dtype": "dtype"}),
    (pq.onednn.dequantize, 1, {"src": "q", **ONEDNN}),
    (
        pq.onednn.dynamic_quantize,
        3,
        {
            "src": "x",
            "scales": "scale",
            "zps": "zero",
            "qtype": "qtype",
            "axis": "axis",
            "dtype": "dtype",
        },
    ),
    (
        pq.onednn.dynamic_dequantize,
        3,
        {
            "src": "q",
            "scales": "scale",
            "zps": "zero",
            "qtype": "qtype",
            "axis": "axis",
            "group_shape": "group",
        },
    ),
    (
        pq.onnx.quantize_linear,
        3,
        {
            "x": "x",
            "y_scale": "scale",
            "y_zero_point": "zero",
            "axis": "axis",
            "block_size": "block",
            "saturate": "flag",
            "output_dtype": "output_dtype",
            "precision": "precision",
        },
    ),
    (
        pq.onnx.dequantize_linear,
        3,
        {
            "x": "q",
            "x_scale": "scale",
            "x_zero_point": "zero",
            "axis": "axis",
            "block_size": "block",
            "output_dtype": "output_dtype",
        },
    ),
    (pq.onnx.dynamic_quantize_linear, 1, {"x": "x"}),
    (
        pq.com_microsoft.quantize_linear,
        3,
        {"x": "x", "y_scale": "scale", "y_zero_point": "zero", "axis": "axis"},
    ),
    (
        pq.com_microsoft.dequantize_linear,
        3,
        {"x": "q", "x_scale": "scale", "x_zero_point": "zero", "axis": "axis"},
    ),
    (pyquant.integrations.tflite.qparams, 1, {"detail": "detail"}),
    (
        pyquant.weights.mx.quantize,
        2,
        {
            "x": "x",
            "dtype": "element",
            "rule": "rule",
            "axis": "axis",
            "block_size": "block",
            "packed": "flag",
            "out": "out",
            "threads": "threads",
        },
    ),
    (
        pyquant.weights.mx.dequantize,
        2,
        {"q": "q", "scale": "scale", "dtype": "real", "axis": "axis", "out": "out"},
    ),
    (pyquant.weights.mx.unswizzle, 2, {"scales": "q", "shape": "group"}),
    (
        pyquant.weights.nvfp4.quantize,
        1,
        {
            "x": "x",
            "tensor_scale": "scale",
            "style": "style",
            "axis": "axis",
            "packed": "flag",
            "out": "out",
            "threads": "threads",
        },
    ),
    (
        pyquant.weights.nvfp4.dequantize,
        3,
        {"q": "q", "scale": "zero", "tensor_scale": "scale", "style": "style"},
    ),
    (pyquant.weights.nvfp4.choose_tensor_scale, 1, {"x": "x", "style": "style"}),
    (
        pyquant.weights.bitsandbytes.quantize,
        1,
        {"x": "sixty-four", "quant_type": "four", "block_size": "size", "nested": "flag"},
    ),
    (read_bitsandbytes, 0, {"given": "sixty-four"}),
    (pyquant.integrations.cf.qparams, 2, {"attrs": "attrs", "dtype": "dtype"}),
    (
        pyquant.integrations.cf.decode,
        2,
        {"q": "q", "attrs": "attrs", "out": "out", "threads": "threads"},
    ),
    (
        pyquant.integrations.cf.encode,
        3,
        {
            "x": "x",
            "attrs": "attrs",
            "dtype": "dtype",
            "out": "out",
            "out_of_range": "beyond",
        },
    ),
]

# They read all of their input before they refuse anything, and that may be 2^61 elements.
PATIENT = (
    *(pq.choose_qparams, observe, pq.onnx.dynamic_quantize_linear, pq.dynamic_quantize),
    *(
        use_observer,
        pq.calibrate,
        pq.measure_error,
        pq.fixedpoint.fixed_point,
        encode_blocks,
    ),
    *(
        pyquant.weights.mx.quantize,
        pyquant.weights.nvfp4.quantize,
        pyquant.weights.nvfp4.choose_tensor_scale,
    ),
    pyquant.weights.bitsandbytes.quantize,
)


WITH_RNG = (use_packed, use_params, forge, use_observer, use_report, use_format)
WITH_RNG += (decode_weight, decode_blocks, encode_blocks, read_bitsandbytes)


def draw(rng):
    """A function with its arguments."""
    function, positional, parameters = rng.choice(CALLS)
    hostility = rng.choice([0, 0.05, 0.1, 0.1, 0.3, 1.0])
    args, kwargs = [], {}
    for i, (name, kind) in enumerate(parameters.items()):
        make = kind if callable(kind) else VALID[kind]
        value = strange(rng) if rng.random() < hostility else make(rng)
        if function in PATIENT and type(value) is np.ndarray and value.size > 1 << 20:
            value = 1.0
        if i < positional:
            args.append(value)
        elif rng.random() < 0.5:
            kwargs[name] = value
    if function in WITH_RNG:
        args.insert(0, rng)
    if rng.random() < 0.02:
        kwargs[rng.choice(["", "X", "out", "dtype"])] = strange(rng)
    return function, args, kwargs


# The error about elements out of range is raised after all codes are written.
OUT_HOLDS_ALL = "faulty element"
OUT_HOLDS_SOME = "out has codes of some"


def contents(out):
    """Return the bytes of a small array without objects, or None."""
    if type(out) is np.ndarray and not out.dtype.hasobject and out.size < 1000:
        return out.tobytes()
    return None


def call(rng):
    """Make one call: "returned" or the name of the exception, or an AssertionError."""
    function, args, kwargs = draw(rng)
    places = [kwargs.get("out"), kwargs.get("mask")]
    before = [contents(place) for place in places]
    try:
        function(*args, **kwargs)
    except ANSWERS as error:
        answer = error
    except BaseException as error:
        name = getattr(function, "__qualname__", "a method")
        raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
    else:
        return "returned"
    said = str(answer)
    if isinstance(answer, (TypeError, ValueError)) and (
        "\n" in said or "Exceeds the limit" in said
    ):
        raise AssertionError("a message of several lines, or about digits") from answer
    if OUT_HOLDS_ALL in said or OUT_HOLDS_SOME in said:
        return type(answer).__name__
    if [contents(place) for place in places] != before:
        raise AssertionError("out was written before the exception") from answer
    return type(answer).__name__


def run(seed, count, first=0):
    """Make calls, each with a seed of its own; how many came to what."""
    results = collections.Counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for i in range(first, first + count):
            if i % 1000 == 0 and sys.stderr is sys.__stderr__:
                faulthandler.dump_traceback_later(STUCK, exit=True)
            try:
                results[call(random.Random(f"{seed}:{i}"))] += 1
            except AssertionError as error:
                error.add_note(f"call {i} of seed {seed}")
                raise
    faulthandler.cancel_dump_traceback_later()
    return results


def main(seed="1", count="10000", first="0"):
    faulthandler.enable()
    results = run(int(seed), int(count), int(first))
    for name, n in results.most_common():
        print(f"{n:9} {name}")
    print(f"{results.total():9} calls of seed {seed}, no fault")


if __name__ == "__main__":
    main(*sys.argv[1:])
