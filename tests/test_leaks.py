"""References and memory are constant over many calls, failing calls among them."""

import gc
import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import public_calls
import pytest
from support import amount, case

import pyquant as pq

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
Q = np.arange(12, dtype=np.int8).reshape(3, 4)
SCALE, ZERO = np.float32([0.1, 0.2, 0.3]), np.int8([1, 2, 3])
LIST = [1.5, 2.5]
OUT, REAL_OUT = np.empty((3, 4), np.int8), np.empty((3, 4), np.float32)
READ_ONLY = np.empty((3, 4), np.int8)
READ_ONLY.flags.writeable = False
INT8 = np.dtype("int8")
BAD = np.float32([np.nan])
PACKED = pq.quantize(X, 0.5, dtype="int4", packed=True)


def observed(x, axis=None):
    o = pq.Observer(axis=axis, histogram=True)
    o.update(x)
    return o


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
    "no such layout": lambda: pq.quantize(X, 0.5, dtype="int4", layout="rows"),
    "no such axis": lambda: pq.quantize(
        X, 0.5, dtype="int4", layout=pq.Layout("words", axis=2)
    ),
    "codes that do not fit": lambda: pq.pack(
        READ_ONLY.view("u1") + 9, pq.Layout("onnx", bits=2)
    ),
    "a shape that words do not have": lambda: pq.PackedArray(Q.ravel(), "int4", 3),
    "row": lambda: PACKED[0],
    "unknown argument": lambda: pq.quantize(X, 0.1, mode="ceil"),
}


# The objects that calls could keep.
KEPT = (np.ndarray, np.dtype, list, tuple, pq.QParams, pq.PackedArray, pq.Observer)
ARGUMENTS = [
    value
    for names in (globals(), vars(public_calls))
    for value in names.values()
    if isinstance(value, KEPT)
]


@pytest.fixture(scope="module")
def calls():
    """Return all calls: of public functions, and with errors. dask itself keeps memory."""
    rows = {
        name: call
        for name, call in public_calls.rows().items()
        if name != "cli.main" and not name.startswith("dask.")
    }
    return rows | {name: failing(call) for name, call in FAILING.items()}


def failing(call):
    """Return a call that expects an error of `call`."""

    def run():
        with pytest.raises((TypeError, ValueError)):
            call()

    return run


def repeat(call, count):
    for _ in range(count):
        call()


def test_references_and_memory_blocks(calls):
    """A leak in each call grows more than caches do."""
    count = amount(16, 40)

    def counts():
        return np.array([sys.getallocatedblocks(), *map(sys.getrefcount, ARGUMENTS)])

    gc.freeze()  # collect only the objects of these calls, which is fast
    for name, call in calls.items():
        with case(call=name):
            repeat(call, 3)
            gc.collect()  # of cycles that refer to arguments
            repeat(call, 3)  # fill the free lists that the collection emptied
            before = counts()
            repeat(call, count)
            if (counts() - before).max() >= count // 2:
                gc.collect()  # of cycles
            changed = counts() - before
            assert changed[0] < count // 2
            assert max(abs(changed[1:])) < count // 2, changed
    gc.unfreeze()


def test_memory_over_many_calls(calls):
    """Caches grow in the first calls only. A leak grows in each call."""

    def everything():
        for call in calls.values():
            repeat(call, amount(1, 3))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    everything()
    tracemalloc.start()
    try:
        sizes = [everything() for _ in range(3)]
    finally:
        tracemalloc.stop()
    # Another thread, for example of pytest-xdist, may allocate once.
    assert min(after - before for before, after in pairwise(sizes)) < 20_000


def resident():
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096
    except OSError:
        pytest.skip("there is no /proc/self/statm")


def test_resident_memory(calls):
    """C code keeps no memory that neither Python nor NumPy counts."""
    large = np.ones(50_000, np.float32)
    all_calls = [
        lambda: pq.quantize(large, 0.1),
        lambda: pq.choose_qparams(large),
        *calls.values(),
    ]
    for call in all_calls:
        repeat(call, 5)
    before = resident()
    for call in all_calls:
        repeat(call, amount(5, 20))
    assert resident() - before < 8 << 20
