"""Reference counts and memory stay as they are over many calls, failing ones among them."""

import contextlib
import gc
import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from support import amount

import pyquant as pq

CALLS = amount(5_000, 100_000)

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
Q = np.arange(12, dtype=np.int8).reshape(3, 4)
SCALE, ZERO = np.float32([0.1, 0.2, 0.3]), np.int8([1, 2, 3])
LIST = [1.5, 2.5]
BIG_ENDIAN = X.astype(">f4")
OUT, REAL_OUT = np.empty((3, 4), np.int8), np.empty((3, 4), np.float32)
READ_ONLY = np.empty((3, 4), np.int8)
READ_ONLY.flags.writeable = False
INT8, FLOAT16 = np.dtype("int8"), np.dtype("float16")
AXES = (0,)
BLOCKS = (3, 2)
BLOCK_SCALE = np.float32([[0.1, 0.2]])
BLOCK_ROWS = np.float32([[0.1, 0.2]] * 3)
DOUBLES = np.float64([0.1, 0.2, 0.3])
BAD = np.float32([np.nan])
PARAMS = pq.choose_qparams(X, axis=0)
PACKED = pq.quantize(X, 0.5, dtype="int4", packed=True)
WORDS = pq.quantize(X, 0.5, dtype="int4", packed="words")
MODE = pq.RoundMode.CEIL

ARGUMENTS = [
    *(X, Q, SCALE, ZERO, LIST, BIG_ENDIAN, OUT, REAL_OUT, READ_ONLY, INT8, FLOAT16),
    *(AXES, BLOCKS, BLOCK_SCALE, BAD, PARAMS, MODE, PACKED, np.int8, None, "int8", "ceil"),
]


def observed(x, axis=None):
    o = pq.Observer(axis=axis, histogram=True)
    o.update(x)
    return o


GOOD = {
    "quantize": lambda: pq.quantize(X, 0.1),
    "quantize with out": lambda: pq.quantize(X, 0.1, out=OUT),
    "quantize along an axis": lambda: pq.quantize(X, SCALE, ZERO, axis=0, out=OUT),
    "quantize in blocks": lambda: pq.quantize(X, BLOCK_SCALE, block_size=BLOCKS),
    "quantize with every option": lambda: pq.quantize(
        X,
        SCALE,
        ZERO,
        dtype=INT8,
        axis=AXES,
        rounding=MODE,
        precision=FLOAT16,
        threads=1,
    ),
    "quantize a list": lambda: pq.quantize(LIST, 0.1, dtype="int8"),
    "quantize big-endian": lambda: pq.quantize(BIG_ENDIAN.T, 0.1, dtype=np.int8),
    "dequantize": lambda: pq.dequantize(Q, 0.1),
    "dequantize with out": lambda: pq.dequantize(Q, 0.1, out=REAL_OUT),
    "dequantize along an axis": lambda: pq.dequantize(
        Q, SCALE, ZERO, axis=0, dtype=FLOAT16
    ),
    "choose_qparams": lambda: pq.choose_qparams(X, axis=0),
    "Observer": lambda: observed(X) + observed(SCALE),
    "Observer of channels": lambda: observed(X, axis=0).quantile(0.5),
    "QParams.quantize": lambda: PARAMS.quantize(X),
    "dynamic_quantize": lambda: pq.dynamic_quantize(X, axis=0, out=OUT),
    "fake_quantize": lambda: pq.fake_quantize(X, SCALE, axis=0, quant_range=(-5, 5)),
    "requantize": lambda: pq.requantize(Q, SCALE, axis=0, out=OUT),
    "fixed_point": lambda: pq.fixedpoint.fixed_point(SCALE),
    "measure_error": lambda: (
        pq.measure_error(X, X, axis=0) + PARAMS.measure_error(X, axis=0)
    ),
    "qparams_from_range": lambda: pq.qparams_from_range(-SCALE, SCALE, axis=0),
    "choose_qparams by errors": lambda: pq.choose_qparams(X, method="mse", weights=X * X),
    "oneDNN lists": lambda: pq.onednn.quantize(X, scales=LIST[:1], zps=[3], dtype="u8"),
    "oneDNN arrays": lambda: pq.onednn.dequantize(
        Q, scales=DOUBLES, zps=ZERO, qtype="per_channel", axis=0
    ),
    "oneDNN groups": lambda: pq.onednn.dynamic_dequantize(
        Q, SCALE.reshape(3, 1), qtype="per_group", group_shape=(1, 4)
    ),
    "ONNX blocks": lambda: pq.onnx.dequantize_linear(PACKED, BLOCK_ROWS, block_size=2),
    "codes in words": lambda: pq.quantize(X, 0.5, dtype="int4", packed=("words", 0)),
    "words back": lambda: pq.dequantize(WORDS, 0.5),
    "pack": lambda: pq.pack(X.astype(np.uint8), "awq", bits=4),
    "unpack and repack": lambda: [WORDS.unpack(), WORDS.repack("awq"), PACKED.unpack()],
    "a packed array of words": lambda: pq.PackedArray(
        WORDS.data, "int4", (3, 4), layout="words"
    ),
    "rows of a packed array": lambda: [PACKED[0], PACKED[1:], PACKED[::-1], *PACKED],
    "a copy of a packed array": lambda: PACKED.copy() == PACKED,
}
FAILING = {
    "scale of a wrong shape": lambda: pq.quantize(X, SCALE, axis=1, out=OUT),
    "scale without axis": lambda: pq.quantize(X, SCALE, ZERO),
    "zero point too large": lambda: pq.quantize(X, SCALE, [1, 2, 999], axis=0, dtype=INT8),
    "oneDNN list of another length": lambda: pq.onednn.dequantize(Q, scales=LIST),
    "bad axis": lambda: pq.quantize(X, SCALE, axis=5),
    "bad dtype": lambda: pq.quantize(X, 0.1, dtype="float32"),
    "no dtype": lambda: pq.quantize(X, 0.1, dtype="nothing"),
    "bad rounding": lambda: pq.quantize(X, 0.1, rounding="nearest"),
    "bad threads": lambda: pq.quantize(X, 0.1, threads=0),
    "read-only out": lambda: pq.quantize(X, 0.1, out=READ_ONLY),
    "wrong out": lambda: pq.quantize(X, 0.1, out=REAL_OUT),
    "integers": lambda: pq.quantize(Q, 0.1),
    "strings": lambda: pq.quantize("x", 0.1),
    "reals": lambda: pq.dequantize(X, 0.1),
    "bad real dtype": lambda: pq.dequantize(Q, 0.1, dtype=INT8),
    "not finite": lambda: pq.choose_qparams(BAD),
    "not finite, to dynamic_quantize": lambda: pq.dynamic_quantize(BAD),
    "a mask of another type": lambda: pq.fake_quantize(X, 0.1, mask=OUT),
    "a multiplier that is none": lambda: pq.requantize(Q, -0.1),
    "errors of other shapes": lambda: pq.measure_error(X, SCALE),
    "no candidates": lambda: pq.choose_qparams(X, method="mse", candidates=[]),
    "a range upside down": lambda: pq.qparams_from_range(1.0, -1.0),
    "not finite, to an Observer": lambda: observed(BAD),
    "channels of others": lambda: observed(X, axis=0) + observed(X, axis=1),
    "overlap": lambda: pq.quantize(X, 0.1, out=X.view(np.int8)[:, ::4]),
    "missing argument": lambda: pq.quantize(X),
    "no such layout": lambda: pq.quantize(X, 0.5, dtype="int4", packed="rows"),
    "no such axis": lambda: pq.quantize(X, 0.5, dtype="int4", packed=("words", 2)),
    "codes that do not fit": lambda: pq.pack(READ_ONLY.view("u1") + 9, bits=2),
    "a shape that words do not have": lambda: pq.PackedArray(Q.ravel(), "int4", 3),
    "row that is not there": lambda: PACKED[[3]],
    "unknown argument": lambda: pq.quantize(X, 0.1, mode="ceil"),
}


def repeat(call, count):
    for _ in range(count):
        with contextlib.suppress(TypeError, ValueError):
            call()


@pytest.mark.parametrize("name", [*GOOD, *FAILING])
def test_nothing_is_kept(name):
    call = {**GOOD, **FAILING}[name]
    if name in FAILING and name != "overlap":  # which may also succeed
        with pytest.raises((TypeError, ValueError)):
            call()
    repeat(call, 10)
    count = CALLS // 10
    blocks = sys.getallocatedblocks()
    references = [sys.getrefcount(a) for a in ARGUMENTS]
    repeat(call, count)
    grown = [
        (sys.getrefcount(a) - r, type(a))
        for a, r in zip(ARGUMENTS, references, strict=True)
    ]
    assert all(abs(g) < count // 2 for g, _ in grown), grown
    if sys.getallocatedblocks() - blocks >= count // 2:
        gc.collect()  # tuples that are kept to be used again
    assert sys.getallocatedblocks() - blocks < count // 2


def test_memory_over_many_calls():
    """Caches grow in the first calls only. A leak grows in every call."""

    def everything(count):
        for call in {**GOOD, **FAILING}.values():
            repeat(call, count)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    everything(3)
    tracemalloc.start()
    try:
        sizes = [everything(amount(200, 700)) for _ in range(4)]
    finally:
        tracemalloc.stop()
    # Another thread, for example of pytest-xdist, may allocate once.
    assert min(after - before for before, after in pairwise(sizes[1:])) < 20_000


def resident():
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096
    except OSError:
        pytest.skip("there is no /proc/self/statm")


def test_resident_memory():
    """What neither Python nor NumPy accounts for: memory that C code would have kept."""
    large = np.ones(50_000, np.float32)
    calls = [
        lambda: pq.quantize(large, 0.1),
        lambda: pq.choose_qparams(large),
        *GOOD.values(),
    ]
    for call in [*calls, *FAILING.values()]:
        repeat(call, 100)
    gc.collect()
    before = resident()
    for call in [*calls, *FAILING.values()]:
        repeat(call, CALLS // 50)
    gc.collect()
    assert resident() - before < 8 << 20
