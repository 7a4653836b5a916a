"""Call public functions with objects that raise, change, or return wrong values.

    python -P tests/hostile.py [SEED [COUNT [FIRST]]]

makes COUNT calls of a seed, from call FIRST on, and prints the number of each result. An
exception of ANSWERS is a correct result. Faults are crashes, exceptions of other types, and
exceptions after a call wrote into `out`. test_hostile.py makes some thousand calls.
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
import pyquant.openvino
from pyquant.integrations import cf, tflite
from pyquant.weights import bitsandbytes, mx, nvfp4
from pyquant.weights.blocks import BlockFormat, block_format, block_formats

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

STUCK = 300  # seconds for a thousand calls
ENDLESS = 100  # calls of one method


class Hostility(Exception):
    """Exception of hostile objects."""


ANSWERS = (
    TypeError,
    ValueError,
    IndexError,  # of hostile objects after ENDLESS calls
    OverflowError,
    BufferError,
    MemoryError,
    RecursionError,
    AttributeError,  # PackedArray and QParams are immutable
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
    """Return a value that special methods must not return."""
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
    """Return an object. Its special methods raise, return wrong values, or do both."""
    space = {}
    for name in rng.sample(SPECIAL, rng.randint(1, 5)):
        lie, kind = lies(rng), rng.randrange(3)

        def method(self, *_, lie=lie, kind=kind, calls=[0], **__):  # noqa: B006
            calls[0] += 1
            if calls[0] > ENDLESS:  # NumPy reads a sequence until IndexError
                raise IndexError
            if kind == 0 or (kind == 1 and calls[0] % 2 == 0):
                raise Hostility
            return lie

        # Some names are attributes. Some properties raise.
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
    """A sequence that grows each time its length is read."""

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
    """A sequence with one element: a new sequence of this class."""

    def __len__(self):
        return 1

    def __getitem__(self, i):
        if i:
            raise IndexError
        return Endless()


class Turning(list):
    """A list that becomes empty when it is read."""

    def __iter__(self):
        for i in range(len(self)):
            del self[:]
            yield i

    def __getitem__(self, i):
        del self[:]
        return 1.0


class Child(np.ndarray):
    """An array without views: a view raises."""

    def __array_finalize__(self, other):
        if getattr(other, "angry", False):
            raise Hostility


class Shy(np.ndarray):
    """An array with a wrong shape and type."""

    shape = property(lambda self: (1 << 40,))
    dtype = property(lambda self: np.dtype("V3"))
    ndim = property(lambda self: 64)
    strides = property(lambda self: (-8,))
    flags = property(lambda self: None)
    __repr__ = __str__ = __format__ = lambda self, *_: "shy"  # NumPy's own would fail


class Other(np.ndarray):
    """An array with a dtype of too large elements."""

    dtype = property(lambda self: np.dtype(ml_dtypes.bfloat16 if ml_dtypes else "f8"))
    itemsize = property(lambda self: 8)

    def view(self, *_):
        return np.ndarray.view(self, np.ndarray)


class Packed(pq.PackedArray):
    """A packed array. Its shape grows each time it is read."""

    __slots__ = ("asked",)
    _data = property(lambda self: np.zeros(1, np.uint8).view(Other))
    _name = property(lambda self: "int4")

    @property
    def shape(self):
        asked = getattr(self, "asked", 1) * 7
        object.__setattr__(self, "asked", asked)
        return (asked,)


class Format(BlockFormat):
    """A block format with too few bytes."""

    __slots__ = ()
    _row = property(lambda self: ("Q6_K", 14, 256, 1, True))


def knot():
    """Return a list that contains itself."""
    inside = [1.0]
    inside.append(inside)
    return inside


class Lines(int):
    """An integer with a representation of two lines."""

    def __repr__(self):
        return "1\n2"

    __str__ = __repr__


def deep():
    """Return a list with more levels than arrays have dimensions."""
    value = 1.0
    for _ in range(100):
        value = [value]
    return value


def deeper(kind, levels=100_000):
    """Return a list or tuple with more levels than the stack. Keep it: it is slow."""
    if (kind, levels) not in DEEPER:
        value = kind((1.0,))
        for _ in range(levels):
            value = kind((value,))
        DEEPER[kind, levels] = value
    return DEEPER[kind, levels]


DEEPER = {}


def released():
    """Return a released memoryview."""
    view = memoryview(bytearray(16))
    view.release()
    return view


def angry():
    """Return an array without views."""
    child = np.ones(4, np.float32).view(Child)
    child.angry = True
    return child


def strange_array(rng):
    """Return an array with a random type, shape and strides."""
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
    *(lambda: pq.pack(np.uint8([[1, 2, 3]]), pq.Layout("words", axis=1, bits=3)),),
    *(lambda: ("words", 0), lambda: pq.Layout("awq", axis=1, bits=4)),
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
    """Return a hostile object, a strange array or a value of STRANGE."""
    kind = rng.randrange(3)
    if kind == 0:
        return hostile_object(rng)
    return strange_array(rng) if kind == 1 else rng.choice(STRANGE)()


# ---- calls ----

TYPES = pq.dtypes.TYPES.values()
INTEGERS = [t.name for t in TYPES if t.kind == "integer" and t.bits <= 32]
CODES = [*INTEGERS, *(pq.dtypes.NARROW_FLOATS if ml_dtypes else [])]
REALS = ["float32", "float64", "float16", *(["bfloat16"] if ml_dtypes else [])]
BOOK = np.linspace(-1, 1, 16, dtype=np.float32)
ONES = np.ones((3, 4))


def packing(rng):
    """Return a valid value of `layout`, or a forged one."""
    how = {"axis": rng.choice([None, 0, 1, -1]), "bits": rng.choice([None, 4])}
    some = [pq.Layout(name, **how) for name in ("words", "awq", "halves")]
    forged = tuple.__new__(pq.Layout, rng.choice([("words", 9, Lines(7)), ("awq", 4)]))
    return rng.choice(["onnx", "words", "high-first", "packbits", *some, forged])


def packed_of(rng):
    if rng.random() < 0.3:
        layout, bits = rng.choice([("words", 3), ("words", 8), ("awq", 4), ("halves", 4)])
        layout = pq.Layout(layout, axis=rng.choice([0, 1]), bits=bits)
        return pq.pack(np.ones((3, 4), np.uint8), layout)
    layout = rng.choice(["onnx", "words", pq.Layout("awq", axis=0), "halves", "high-first"])
    kind = rng.choice(["int4", "uint4"])
    return pq.quantize(np.ones((3, 4)), 1.0, dtype=kind, layout=layout)


def wrap(given):
    if type(given) is not tuple:
        return pq.PackedArray(given, given, 1)
    data, dtype, layout, axis, bits = given
    layout = pq.Layout(layout, axis=axis, bits=bits)
    return pq.PackedArray(data, dtype, (3, 4), layout=layout)


def forge(rng, words, name, extents, how):
    """Use a packed array with unchecked arguments."""
    packed = pq.PackedArray.__new__(pq.PackedArray)
    packed._keep(words, name, extents, how)
    return pq.unpack(packed) if rng.random() < 0.3 else pq.dequantize(packed, 1.0)


# Valid arguments by kind: a list of values, or a function that makes a new value. A value
# that a call may write is new in each call.
VALID = {
    "x": lambda r: np.ones((3, 4), r.choice(["f4", "f8", "f2"])),
    "elements": lambda r: {
        "weight": np.ones((3, 8), r.choice(["u1", "i1", "<i4", "f4"])),
        "weight_scale": np.ones((3, r.choice([1, 2])), "u1"),
        **({"weight_scale_2": np.float32(0.5)} if r.random() < 0.8 else {}),
    },
    "q": lambda r: (
        packed_of(r) if r.random() < 0.2 else np.ones((3, 4), r.choice("bBhHiI"))
    ),
    "scale": [1.0, 0.5, np.float32(2), [0.5] * 4, [0.5] * 3, np.ones((3, 2)), ONES],
    "scales": [[1.0], [0.5] * 4, [0.5] * 3],
    "zero": [None, 0, [1] * 4, [1] * 3, np.int8(1), np.uint8([1, 2, 3])],
    "dtype": [None, *CODES, np.int8, np.dtype("u1")],
    "real": [*REALS, np.float32],
    "axis": [0, 1, 1, -1, (1,), None],
    "block_size": [None, 1, 2, 3, (1, 2), (3, 4), 0],
    "rounding": ["half_even", "ceil", "stochastic", "stochastic", pq.RoundMode.AWAY],
    "place": [None, None, 0, 7, 2**64 - 1, np.uint8(9)],
    "precision": [None, 0, "float16", "float64"],
    "flag": [True, False, 0, 1],
    "out": lambda r: r.choice([None, out_of(r)]),
    "threads": [1, 1, 2, 3],
    "qtype": ["per_tensor", "per_channel", "per_group"],
    "shape": [4, (2, 2), (3,), ()],
    "bytes": lambda r: np.zeros(2, np.uint8),
    "buffer": lambda r: r.choice([b"ab", bytearray(2), memoryview(b"ab")]),
    "packed": [False, False, True],
    "layouts": lambda r: r.choice([None, None, packing(r)]),
    "layout": packing,
    "layout_name": ["onnx", "words", "awq", "halves"],
    "stream": [None, 0, -1],
    "bits": [None, 4, 3, 8],
    "bytes_codes": lambda r: np.ones((2, 3), r.choice(["u1", "i1"])),
    "words": lambda r: np.zeros((2, 4), "i4") if r.random() < 0.5 else np.zeros(6, "u1"),
    "name": ["int4", "uint4", "uint8", "float4_e2m1fn", "int2"],
    "extents": [(3, 4), (12,), (9, 4), (16, 4), (2, 32), (0, 9)],
    "how": [
        (layout, axis, 4)
        for layout in ("onnx", "words", "awq", "high-first")
        for axis in (None, 0, 1)
    ],
    "axes": [(), (0,), (1,), [0, 1]],
    "mode": ["ROUND_HALF_TO_EVEN", "ROUND_DOWN", pq.RoundMode.CEIL],
    "packable": lambda r: np.zeros((2, 3), ml_dtypes.int4 if ml_dtypes else "i1"),
    "output_dtype": [0, 2, 3, 1, 10, "int8", "float32"],
    "group": [None, (1, 2), (3, 4), [1, 1]],
    "offset": [
        *(None, 0.5, np.float32(2), np.float64([3]), [0.5] * 4, [0.5] * 3),
        np.ones((3, 2)),
    ],
    "fill": [None, 0, 3, [0, 1, 1], np.int16(-9), np.uint8([7, 8])],
    "quant_range": [None, (0, 7), (-5, 5), [1, 1 << 20], np.int8([-2, 1])],
    "beyond": ["saturate", "wrap", "raise"],
    "nan": ["lowest", "raise"],
    "detail": lambda r: detail_of(r),
    "element": ["float4_e2m1fn", "float8_e4m3fn", "float6_e3m2fn"],
    "rule": ["floor", "ceil", "even", "rceil"],
    "style": ["torchao", "compressed-tensors"],
    "codebook": [None] * 6 + ["nf4", "dynamic8", BOOK, BOOK[::-1], BOOK[:3]],
    "four": ["nf4", "fp4"],
    "size": [64, 64, 32, 4096],
    "sixty_four": lambda r: np.ones((3, 64), r.choice(["f4", "f2", "f8"])),
    "attrs": lambda r: attrs_of(r),
    "method": ["minmax", "mse", "mse", "percentile", "entropy"],
    "search": ["minmax", "mse", "mse"],
    "weights": [None, 1.0, np.ones(4, "f4"), np.ones((3, 1))],
    "candidates": [None, 1.0, [1, 0.5], np.float32([0.9])],
    "scale_dtype": [None, *REALS, "float32", "float8_e8m0fnu"],
    "like": [None, None, "pytorch", "tflite", "quark_po2", "fbgemm"],
    "lows": [-1.0, [-1.0] * 3, np.full((3, 4), -2, "f4")],
    "highs": [1.0, [1.0] * 3, np.full((3, 4), 2, "f4")],
    "mask": lambda r: r.choice([None, np.zeros((3, 4), bool), np.zeros((4, 3), bool).T]),
    "real_out": lambda r: r.choice([None, np.full((3, 4), 7, r.choice(["f4", "f8"]))]),
    "sums": lambda r: np.full((3, 4), 9, r.choice(["i1", "i4", ">i4", "i8", "u2", "u4"])),
    "multiplier": [0.5, 1e-3, [0.5] * 4, np.float32([0.1, 0.2, 0.3])],
    "bias": [None, 5, [1] * 4, np.int64([1, 2, 3])],
    "arithmetic": ["float32", "tflite", "rndnu", "fbgemm"],
    "shift": [None, None, 3, [1] * 4],
    "int": [0, 1, -3, np.int8(5)],
    "percentile": [0, 99.9, np.float32(100), 50],
    "momentum": [None, 0.1, 1],
    "nonfinite": ["raise", "ignore"],
    "batches": lambda r: [np.ones((3, 4), "f4"), np.arange(r.choice([0, 5]), dtype="f4")],
    "levels": [2, 16, 255, 256],
    "format": lambda r: getattr(format_of(r), r.choice(["name", "ggml_id"])),
    "blocks": lambda r: r.choice([BYTES, BYTES, BYTES[::-1], BYTES.view(">i2")]),
    "numbers": lambda r: np.ones((3, 512), r.choice(["f4", "f8", "f2"])),
    "block_out": lambda r: r.choice([None, np.full((3, 512), 7, r.choice(["f4", "f8"]))]),
    "byte_out": lambda r: r.choice([None, np.full((3, r.choice([288, 544])), 7, "u1")]),
    "rows": [None, slice(0, 2), slice(None), slice(-1, None)],
    "weight_out": lambda r: r.choice(
        [None, np.full((3, 256), 7, r.choice(["f4", "f8", "u1"])), BYTES[:3].copy()]
    ),
    # Objects of pyquant, from functions below.
    "params": lambda r: qparams(r),
    "report": lambda r: report_of(r),
    "observer": lambda r: observer_of(r),
    "packed_array": lambda r: packed_of(r),
    "block_format": lambda r: format_of(r),
    "data_of_words": [
        (np.zeros((1, 4), np.int32), "uint4", "words", 0, None),
        (np.zeros((3, 1), np.uint32), "int4", "awq", 1, 4),
        (np.zeros((3, 16), np.uint8), "uint4", "halves", -1, None),
        (np.zeros((3, 1), np.int32), "uint8", "words", 1, 3),
    ],
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
    """Return attributes of a variable. Some are invalid."""
    names = rng.sample(list(ATTRIBUTES), rng.randint(0, 4))
    return {
        name: strange(rng) if rng.random() < 0.2 else rng.choice(ATTRIBUTES[name])
        for name in names
    }


def out_of(rng):
    """Return an output array that contains canaries."""
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
    """Return parameters from an Observer of an array."""
    o = pq.Observer(axis=axis, histogram=histogram, nonfinite="ignore")
    o.update(x, threads=threads)
    if o.nan is None or not np.all(o.count):
        return o
    method = "percentile" if o._options.histogram else "minmax"
    return (o + o).qparams(method=method), repr(o)


def observer_of(rng):
    """Return an Observer, with or without a batch."""
    o = pq.Observer(
        axis=rng.choice([None, None, 0, 1, (0, 1)]),
        histogram=rng.random() < 0.5,
        nonfinite=rng.choice(["raise", "ignore"]),
    )
    if rng.random() < 0.6:
        o.update(np.arange(12, dtype="f4").reshape(3, 4) - 4)
    return o


def use_observer(rng, o, x, **kwargs):
    """Call a method of an Observer. If it raises, the Observer must be unchanged."""
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
        if o != before or pickle.dumps(o) != state:
            raise AssertionError("an Observer was changed before the exception") from None
        raise
    return None


def report_of(rng):
    """Return an error report."""
    x = np.ones((3, 4), "f4")
    return pq.measure_error(x, x / 3, axis=rng.choice([None, 0, 1, (0, 1)]))


def use_report(rng, report, other):
    """Read the properties of an ErrorReport, and call a method."""
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
    """Read the properties of a PackedArray, and call a method."""
    found = (packed.data, packed.dtype, packed.shape, packed.layout, packed.nbytes)
    found += (
        packed.size,
        packed.ndim,
        repr(packed),
        packed.copy(),
        pq.PackedArray.__eq__(packed, other),
    )
    pickle.loads(pickle.dumps(packed))
    step = rng.randrange(10)
    if step == 0:
        pq.unpack(packed)
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
        np.asarray(packed)
    elif step == 6:
        bool(packed)
    elif step == 7:
        len(packed)
        return [packed[rng.choice([0, -1]) :], *packed[:1].data]
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
    return f.dequantize(b, **kwargs)


def encode_blocks(rng, f, x, **kwargs):
    f = f if isinstance(f, BlockFormat) else format_of(rng)
    return f.quantize(x, **kwargs)


def use_format(rng, f, other):
    """Read the properties of a BlockFormat, and call a method besides its codecs."""
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
    """Return an open file with a tensor of each type."""
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
    return file[rng.choice(list(file))].dequantize(rows, **kwargs)


def use_params(rng, params, other):
    """Read the properties of a QParams."""
    found = (params.scale, params.zero_point, params.dtype, params.axis, params.block_size)
    found += (params.offset, params.fill, params.quant_range)
    found += (repr(params), hash(params), pq.QParams.__eq__(params, other))
    pickle.loads(pickle.dumps(params))
    if rng.random() < 0.3:
        params.scale = other
    return found


def read_bitsandbytes(rng, given):
    """Read a bitsandbytes weight with one changed or missing tensor."""
    four = bitsandbytes.quantize(np.ones((3, 64), "f4"), nested=rng.random() < 0.5)
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
    return bitsandbytes.from_tensors(tensors).dequantize()


CHOICE = "quant_range scale_dtype like"
GROUPS = "dtype axis block_size symmetric=flag"
NOISE = "seed=place start=place"
AFFINE = "threads offset inverse=flag fill"
VALUES = "rounding precision saturate=flag"
OBSERVER = f"dtype method percentile symmetric=flag {CHOICE} threads"

# Functions, the kinds of their positional arguments, and their keywords. A keyword has the
# kind of its name, unless `keyword=kind` names another one.
CALLS = [
    *[
        (pq.quantize, "x scale", f"zero_point=zero dtype axis block_size {VALUES} "
         f"layout=layouts packed out {AFFINE} codebook quant_range out_of_range=beyond "
         f"nan {NOISE}"),
        (pq.dequantize, "q scale", "zero_point=zero dtype=real axis block_size out "
         f"{AFFINE} codebook"),
    ] * 4,
    (pq.choose_qparams, "x", f"{GROUPS} method=search weights candidates {CHOICE} threads"),
    (pq.qparams_from_range, "lows highs", f"{GROUPS} {CHOICE}"),
    (pq.dynamic_quantize, "x", f"{GROUPS} {CHOICE} layout=layouts packed "
     f"out threads rounding {NOISE}"),
    (pq.fake_quantize, "x scale", f"zero_point=zero dtype axis block_size {VALUES} "
     f"out=real_out {AFFINE} codebook quant_range {NOISE} mask"),
    (pyquant.openvino.fake_quantize, "x lows highs lows highs levels",
     "out=real_out threads"),
    (pq.requantize, "sums multiplier", "zero_point=int dtype input_zero_point=int bias "
     "axis arithmetic quant_range shift out threads"),
    (pq.fixedpoint.fixed_point, "multiplier", "arithmetic"),
    (pq.measure_error, "x x", "axis threads"),
    (lambda p, x, **k: p.measure_error(x, **k), "params x", "axis"),
    (use_report, "report report", ""),
    (pq.Observer, "", "axis histogram=flag mantissa_bits=int momentum nonfinite"),
    (use_observer, "observer x", OBSERVER),
    (use_observer, "observer observer", OBSERVER),
    (pq.calibrate, "batches", f"axis {OBSERVER} momentum nonfinite"),
    (observe, "x", "axis histogram=flag threads"),
    (pq.QParams, "scale zero", "dtype axis block_size offset fill quant_range"),
    (lambda p, x, **k: p.quantize(x, **k), "params x",
     f"rounding out threads out_of_range=beyond nan {NOISE}"),
    (lambda p, q, **k: p.dequantize(q, **k), "params q", "dtype=real out threads"),
    (use_params, "params x", ""),
    (pq.pack, "packable", ""),
    (pq.pack, "bytes_codes", "layout"),
    (pq.unpack, "packed_array", ""),
    (pq.pack_signs, "x", "bitorder=layout_name"),
    (pq.Layout, "layout_name", "axis=stream bits"),
    (pq.PackedArray, "bytes dtype shape", "layout"),
    (wrap, "data_of_words", ""),
    (lambda p, to: p.repack(to), "packed_array layout", ""),
    (forge, "words name extents how", ""),
    (pq.PackedArray.from_buffer, "buffer dtype shape", "layout"),
    (use_packed, "packed_array real", ""),
    (decode_blocks, "block_format blocks", "dtype=real out=block_out threads"),
    (encode_blocks, "block_format numbers", "out=byte_out threads"),
    (use_format, "block_format blocks", ""),
    (find_format, "format", ""),
    (decode_weight, "rows", "dtype=real out=weight_out threads"),
    (pq.ngraph.quantize, "x scale zero dtype axes mode", ""),
    (pq.ngraph.dequantize, "q scale zero real axes", ""),
    (pq.onednn.quantize, "x", "scales zps=zero qtype axis dtype"),
    (pq.onednn.dequantize, "q", "scales zps=zero qtype axis"),
    (pq.onednn.dynamic_quantize, "x scale zero", "qtype axis dtype"),
    (pq.onednn.dynamic_dequantize, "q scale zero", "qtype axis group_shape=group"),
    (pq.onnx.quantize_linear, "x scale zero",
     "axis block_size saturate=flag output_dtype precision"),
    (pq.onnx.dequantize_linear, "q scale zero", "axis block_size output_dtype"),
    (pq.onnx.dynamic_quantize_linear, "x", ""),
    (pq.com_microsoft.quantize_linear, "x scale zero", "axis"),
    (pq.com_microsoft.dequantize_linear, "q scale zero", "axis"),
    (tflite.qparams, "detail", ""),
    (mx.quantize, "x element", "rule block_size threads"),
    (mx.from_tensors, "elements", "block_size"),
    (mx.unswizzle, "q group", ""),
    (nvfp4.quantize, "x", "tensor_scale=scale like threads"),
    (nvfp4.pack, "x scale scale", "like threads"),
    (nvfp4.from_tensors, "elements", ""),
    (bitsandbytes.quantize, "sixty_four", "quant_type=four block_size=size nested=flag"),
    (read_bitsandbytes, "", "given=sixty_four"),
    (cf.qparams, "attrs dtype", ""),
    (cf.decode, "q attrs", "out threads"),
    (cf.encode, "x attrs dtype", "out out_of_range=beyond"),
]  # fmt: skip

# These functions read all of their input before they raise an error. Strange arrays can
# have 2**61 elements.
PATIENT = (
    *(pq.choose_qparams, observe, pq.onnx.dynamic_quantize_linear, pq.dynamic_quantize),
    *(use_observer, pq.calibrate, pq.measure_error, pq.fixedpoint.fixed_point),
    *(encode_blocks, mx.quantize, nvfp4.quantize),
    bitsandbytes.quantize,
)
# The first argument of these functions is the generator.
WITH_RNG = (use_packed, use_params, forge, use_observer, use_report, use_format)
WITH_RNG += (decode_weight, decode_blocks, encode_blocks, read_bitsandbytes)


def draw(rng):
    """Return a function with its arguments."""
    function, kinds, keywords = rng.choice(CALLS)
    hostility = rng.choice([0, 0.05, 0.1, 0.1, 0.3, 1.0])

    def value_of(kind):
        valid = VALID[kind]
        if rng.random() < hostility:
            value = strange(rng)
        else:
            value = valid(rng) if callable(valid) else rng.choice(valid)
        if function in PATIENT and type(value) is np.ndarray and value.size > 1 << 20:
            return 1.0
        return value

    args = [value_of(kind) for kind in kinds.split()]
    named = (word.partition("=") for word in keywords.split())
    given = [(name, kind or name) for name, _, kind in named if rng.random() < 0.5]
    kwargs = {name: value_of(kind) for name, kind in given}
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
    """Make one call. Return "returned" or the name of its exception."""
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
    """Make calls, each with its own seed. Return the number of each result."""
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
