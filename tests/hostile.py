"""Call public functions with objects that raise, change, or return wrong values.

    python -P tests/hostile.py [SEED [COUNT [FIRST]]]

makes COUNT calls from a seed and prints the number of each result. FIRST is the index of
the first call. An exception of a type in ANSWERS is correct. Crashes, other exceptions and
errors after a change of `out` are faults. test_hostile.py makes some thousand calls.
"""

import array
import collections
import contextlib
import copy
import faulthandler
import functools
import inspect
import pickle
import random
import sys
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parent))  # `python -P` leaves it out
import public_calls

import pyquant as pq
from pyquant.weights.blocks import BlockFormat, block_format, block_formats
from pyquant.weights.files import StoredTensor

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

STUCK = 300  # Maximum duration of a thousand calls, in seconds.
ENDLESS = 100  # A hostile method raises IndexError after this number of calls.


class Hostility(Exception):
    """The exception that hostile objects raise."""


ANSWERS = (
    TypeError,
    ValueError,
    IndexError,  # hostile methods raise this after ENDLESS calls
    OverflowError,
    BufferError,
    MemoryError,
    RecursionError,
    AttributeError,  # PackedArray and QParams are immutable.
    ImportError,  # A call may need ml_dtypes.
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
    """Return a value of a wrong type or size for a special method to return."""
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
    """Return an object. Its special methods raise, return wrong values, or alternate."""
    space = {}
    for name in rng.sample(SPECIAL, rng.randint(1, 5)):
        lie, kind = lies(rng), rng.randrange(3)

        def method(self, *_, lie=lie, kind=kind, calls=[0], **__):  # noqa: B006
            calls[0] += 1
            if calls[0] > ENDLESS:  # ends NumPy's loop over a sequence
                raise IndexError
            if kind == 0 or (kind == 1 and calls[0] % 2 == 0):
                raise Hostility
            return lie

        # Define some names as plain attributes, and some as properties, which may raise.
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
    """A sequence of length 1. Its element is a new sequence of this class."""

    def __len__(self):
        return 1

    def __getitem__(self, i):
        if i:
            raise IndexError
        return Endless()


class Turning(list):
    """A list that removes all its elements when a loop reads the first one."""

    def __iter__(self):
        for i in range(len(self)):
            del self[:]
            yield i

    def __getitem__(self, i):
        del self[:]
        return 1.0


class Child(np.ndarray):
    """An array that raises an exception when code makes a view of it."""

    def __array_finalize__(self, other):
        if getattr(other, "angry", False):
            raise Hostility


class Shy(np.ndarray):
    """An array that reports a wrong shape, dtype, number of dimensions and strides."""

    shape = property(lambda self: (1 << 40,))
    dtype = property(lambda self: np.dtype("V3"))
    ndim = property(lambda self: 64)
    strides = property(lambda self: (-8,))
    flags = property(lambda self: None)
    __repr__ = __str__ = __format__ = lambda self, *_: "shy"  # NumPy's would fail


class Other(np.ndarray):
    """An array that reports elements of 8 bytes and a smaller dtype."""

    dtype = property(lambda self: np.dtype(ml_dtypes.bfloat16 if ml_dtypes else "f8"))
    itemsize = property(lambda self: 8)

    def view(self, *_):
        return np.ndarray.view(self, np.ndarray)


class Packed(pq.PackedArray):
    """A packed array. Its shape grows each time that code reads the shape."""

    __slots__ = ("asked",)
    _data = property(lambda self: np.zeros(1, np.uint8).view(Other))
    _name = property(lambda self: "int4")

    @property
    def shape(self):
        asked = getattr(self, "asked", 1) * 7
        object.__setattr__(self, "asked", asked)
        return (asked,)


class Format(BlockFormat):
    """A block format that reports 1 byte for each block of 256 elements."""

    __slots__ = ()
    _row = property(lambda self: ("Q6_K", 14, 256, 1, True))


def knot():
    """Return a list that contains itself."""
    inside = [1.0]
    inside.append(inside)
    return inside


class Lines(int):
    """An integer that has a `repr` of two lines."""

    def __repr__(self):
        return "1\n2"

    __str__ = __repr__


def deep():
    """Return lists nested 100 deep, which exceeds NumPy's maximum number of dimensions."""
    value = 1.0
    for _ in range(100):
        value = [value]
    return value


def deeper(kind, levels=100_000):
    """Return nested lists or tuples, too deep for recursion. Cache the result."""
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
    """Return an array that raises when code makes a view of it."""
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
ONES = np.ones((3, 4), np.float32)
BYTES = np.arange(3 * 1024, dtype=np.uint8).reshape(3, 1024)


def layout_of(rng):
    """Return a value for a parameter `layout`, for example a Layout with invalid fields."""
    how = {"axis": rng.choice([None, 0, 1, -1]), "bits": rng.choice([None, 4])}
    some = [pq.Layout(name, **how) for name in ("words", "awq", "halves")]
    forged = tuple.__new__(pq.Layout, rng.choice([("words", 9, Lines(7)), ("awq", 4)]))
    return rng.choice(
        [None, "onnx", "words", "high-first", "packbits", "int24", *some, forged]
    )


def packed_of(rng):
    if rng.random() < 0.3:
        layout, bits = rng.choice([("words", 3), ("words", 8), ("awq", 4), ("halves", 4)])
        layout = pq.Layout(layout, axis=rng.choice([0, 1]), bits=bits)
        return pq.pack(np.ones((3, 4), np.uint8), layout)
    layout = rng.choice(["onnx", "words", pq.Layout("awq", axis=0), "halves", "high-first"])
    kind = rng.choice(["int4", "uint4"])
    return pq.quantize(np.ones((3, 4)), 1.0, dtype=kind, layout=layout)


def changed(given, rng):
    """Copy a mapping, and change or remove one value, perhaps of a nested mapping."""
    made = dict(given)
    name = rng.choice([*made])
    if type(made[name]) is dict and made[name]:
        made[name] = changed(made[name], rng)
    elif rng.random() < 0.3:
        del made[name]
    else:
        made[name] = strange(rng)
    return made


ATTRIBUTES = {"scale_factor": 3, "add_offset": np.float64([0.1]), "_FillValue": np.int16(5)}
ATTRIBUTES |= {"missing_value": np.int8([5]), "_Unsigned": "true", "valid_min": 0}
# More values for each parameter name, in addition to the values of public_calls.py.
# An entry is a list of values, or a function that makes a value.
VALUES = {
    "x": lambda r: np.ones((3, 4), r.choice(["f4", "f8", "f2"])),
    "q": lambda r: r.choice([packed_of(r), *(np.ones((3, 4), kind) for kind in "bBhHiI")]),
    "scale": [1.0, 0.5, np.float32(2), [0.5] * 4, [0.5] * 3, np.ones((3, 2)), ONES],
    "zero_point": [None, 0, [1] * 4, [1] * 3, np.int8(1), np.uint8([1, 2, 3])],
    "dtype": [None, *CODES, *REALS, np.int8, np.dtype("u1")],
    "axis": [0, 1, 1, -1, (1,), None],
    "block_size": [None, 1, 2, 3, (1, 2), (3, 4), 0, 32],
    "rounding": ["half_even", "ceil", "stochastic", "stochastic", pq.RoundMode.AWAY],
    **dict.fromkeys(("seed", "start"), (None, None, 0, 7, 2**64 - 1, np.uint8(9))),
    "precision": [None, 0, "float16", "float64"],
    **dict.fromkeys(("saturate", "inverse", "symmetric", "nested"), (True, False, 0, 1)),
    "histogram": [True, False],
    "threads": [1, 1, 2, 3],
    "packed": [False, False, True],
    "layout": layout_of,
    "bits": [None, 4, 3, 8],
    "shape": [4, (2, 2), (3,), ()],
    "codes": lambda r: np.ones((2, 3), r.choice(["u1", "i1"])),
    "group_shape": [None, (1, 2), (3, 4), [1, 1]],
    "offset": [None, 0.5, np.float32(2), np.float64([3]), [0.5] * 4, [0.5] * 3],
    "fill": [None, 0, 3, [0, 1, 1], np.int16(-9), np.uint8([7, 8])],
    "quant_range": [None, (0, 7), (-5, 5), [1, 1 << 20], np.int8([-2, 1])],
    "out_of_range": ["saturate", "wrap", "raise"],
    "nan": ["lowest", "raise"],
    "codebook": [None] * 6 + ["nf4", "dynamic8", np.linspace(-1, 1, 16), [0, 1, 2]],
    "attrs": [{}, ATTRIBUTES, {**ATTRIBUTES, "valid_range": [0, 100]}],
    "method": ["minmax", "mse", "mse", "percentile", "entropy"],
    "weights": [None, 1.0, np.ones(4, "f4"), np.ones((3, 1))],
    "candidates": [None, 1.0, [1, 0.5], np.float32([0.9])],
    "scale_dtype": [None, *REALS, "float32", "float8_e8m0fnu"],
    "like": [None, None, "pytorch", "tflite", "quark_po2", "fbgemm"],
    "mask": lambda r: r.choice([None, np.zeros((3, 4), bool), np.zeros((4, 3), bool).T]),
    "bias": [None, 5, [1] * 4, np.int64([1, 2, 3])],
    "shift": [None, None, 3, [1] * 4],
    "percentile": [None, 99.9, np.float32(100), 50],
    "momentum": [None, 0.1, 1],
    "nonfinite": ["raise", "ignore"],
    "levels": [2, 16, 255, 256],
    "rows": [None, slice(0, 2), slice(None), slice(-1, None)],
    "b": lambda r: r.choice([BYTES, BYTES[::-1], BYTES.view(">i2")]),
}


def out_of(rng, shape, dtype):
    """Return an output array filled with bytes 0xA5, to detect changes."""
    if rng.random() < 0.5 or dtype.itemsize == 0:
        shape = (3, 4)
        dtype = np.dtype(rng.choice([*(t for t in INTEGERS if hasattr(np, t)), *REALS[:3]]))
    size = int(np.prod(shape))
    raw = np.full(size * dtype.itemsize * 2, 0xA5, np.uint8).view(dtype)
    raw = np.ndarray.view(raw, Other) if rng.random() < 0.1 else raw
    row = raw[:size]
    return rng.choice(
        [row.reshape(shape), raw[::2].reshape(shape), row.reshape(shape[::-1]).T]
    )


@functools.cache
def calls():
    """Return (name, function, arguments, result) of public calls that use no files."""
    found = [
        row
        for row in public_calls.recorded()
        if not row[0].startswith(("files.open", "files.write", "files.WeightFile", "dask."))
    ]
    for made in (pq.Observer, pq.QParams, pq.PackedArray, pq.Layout):
        given = {
            pq.QParams: {"scale": [0.5] * 3, "zero_point": [1, 2, 3], "axis": 0},
            pq.PackedArray: {"data": np.zeros(2, np.uint8), "dtype": "int4", "shape": 4},
            pq.Layout: {"name": "words"},
        }.get(made, {})
        found += [(made.__name__, made, inspect.signature(made).bind(**given), None)] * 3
    for row in found:
        for name, value in row[2].arguments.items():
            POOL[name].append(value)
    by_name = collections.defaultdict(list)
    for row in found:
        by_name[row[0]].append(row)
    common = ["_core.quantize", "_core.dequantize"] * 4
    return [*by_name.values(), *(by_name[name] for name in common)]


POOL = collections.defaultdict(list)
# Only these functions get strange arrays, which can have 2**61 elements, because these
# functions raise an error before they read all elements.
QUICK = ("_core.quantize", "_core.dequantize", "_core.requantize", "_core.fake_quantize")
QUICK += ("packed.pack", "QParams", "ngraph.quantize", "onednn.quantize", "cf.encode")


def draw(rng):
    """Return a public function and its arguments.

    Some arguments are from a recorded call, some are other values or hostile objects.
    """
    name, function, bound, result = rng.choice(rng.choice(calls()))
    hostility = rng.choice([0, 0.05, 0.1, 0.1, 0.3, 1.0])
    parameters = bound.signature.parameters
    args, kwargs = [], {}
    for key, parameter in parameters.items():
        kind = parameter.kind
        if kind is kind.VAR_KEYWORD:
            given = bound.arguments.get(key, {})
            kwargs |= changed(given, rng) if given and rng.random() < 0.7 else given
            continue
        needed, known = parameter.default is parameter.empty, key in bound.arguments
        if not needed and rng.random() < (0.3 if known else 0.7):
            continue
        value = bound.arguments.get(key, parameter.default)
        if key == "self":
            some = [one for one in objects() if isinstance(one, type(value))]
            value = rng.choice([value, *some])
        elif rng.random() < hostility:
            value = strange(rng)
        elif key == "out":
            shape, dtype = getattr(result, "shape", ()), getattr(result, "dtype", None)
            value = out_of(rng, shape, dtype if type(dtype) is np.dtype else np.dtype("V0"))
        elif rng.random() < 0.5 or not known:
            some = VALUES.get(key, ())
            value = some(rng) if callable(some) else rng.choice([*some, *POOL[key], value])
        if type(value) is dict and value and rng.random() < 0.5:
            value = changed(value, rng)
        if type(value) is pq.Observer:
            value = value.copy()
        if name not in QUICK and type(value) is np.ndarray and value.size > 1 << 20:
            value = 1.0
        if kind is kind.KEYWORD_ONLY or len(args) < list(parameters).index(key):
            kwargs[key] = value
        else:
            args.append(value)
    if rng.random() < 0.02:
        kwargs[rng.choice(["", "X", "out", "dtype"])] = strange(rng)
    return function, args, kwargs


@functools.cache
def objects():
    """Return objects of all public classes, and some without a call of `__init__`."""
    found = [one for many in public_calls.OBJECTS.values() for one in many]
    forged = [object.__new__(Format), pq.PackedArray.__new__(pq.PackedArray)]
    found = [one for one in found if type(one).__name__ != "WeightFile"]
    return [*found, *block_formats(), *forged, Packed.__new__(Packed)]


def use(rng, value, other):
    """Read all properties of an object, and use one of its operators."""
    if type(value) is pq.Observer:
        value = value.copy()
    if type(value) is StoredTensor:  # a copy, because a call can set attributes
        value = copy.copy(value)
    found = [getattr(value, name) for name in dir(value) if name[0] != "_"]
    found += [repr(value), str(value), type(value).__eq__(value, other)]
    parts = [rng.choice([None, other, -1, 0, 1, 2, 9]) for _ in range(3)]
    uses = [
        *(lambda: hash(value), lambda: len(value), lambda: bool(value)),
        *(lambda: copy.copy(value), lambda: copy.deepcopy(value)),
        lambda: pickle.loads(pickle.dumps(value)),
        *(lambda: value[other], lambda: value[slice(*parts)]),
        *(lambda: np.asarray(value), lambda: np.asarray(value, "V4")),
        *(lambda: type(value).__add__(value, other), lambda: type(value)(other)),
        lambda: setattr(value, rng.choice(dir(value)), other),
    ]
    return rng.choice(uses)()


def forge(rng, name, other):
    """Unpack or dequantize a packed array with attributes that nothing has checked."""
    words = np.zeros((2, 4), "i4") if rng.random() < 0.5 else np.zeros(6, "u1")
    extents = rng.choice([(3, 4), (12,), (9, 4), (16, 4), (2, 32), (0, 9), other])
    how = rng.choice(["onnx", "words", "awq", "high-first"]), rng.choice([None, 0, 1]), 4
    packed = pq.PackedArray.__new__(pq.PackedArray)
    packed._keep(words, name, extents, how)
    return pq.unpack(packed) if rng.random() < 0.3 else pq.dequantize(packed, 1.0)


# An element out of range raises its error only after all codes are in `out`.
OUT_HOLDS_ALL = "faulty element"
OUT_HOLDS_SOME = "out has codes of some"


def contents(out):
    """Return the contents of a small array as bytes, or None for any other value."""
    if type(out) is np.ndarray and not out.dtype.hasobject and out.size < 1000:
        return out.tobytes()
    return None


def call(rng):
    """Make one call. Return "returned" or the name of its exception."""
    step = rng.random()
    function, args, kwargs = draw(rng)
    if step < 0.15:
        function, kwargs = use, {}
        args = [rng, rng.choice(objects()), strange(rng)]
    elif step < 0.18:
        function, args, kwargs = forge, [rng, rng.choice(CODES), strange(rng)], {}
    observer = args[0] if args and type(args[0]) is pq.Observer else None
    state = pickle.dumps(observer)
    places = [kwargs.get("out"), kwargs.get("mask")]
    before = [contents(place) for place in places]
    try:
        function(*args, **kwargs)
    except ANSWERS as error:
        answer = error
        if pickle.dumps(observer) != state:
            raise AssertionError("an Observer was changed before the exception") from error
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
    """Make calls, each with its own seed. Count how often each result occurs."""
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
