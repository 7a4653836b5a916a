"""References and memory are constant over many calls, failing calls among them."""

import gc
import sys
import tracemalloc
from functools import partial
from itertools import pairwise

import numpy as np
import public_calls
import pytest
import test_errors
from support import HAVE_BFLOAT16, amount, case

import pyquant as pq

# The objects that calls could keep.
KEPT = (np.ndarray, np.dtype, list, tuple, pq.QParams, pq.PackedArray, pq.Observer)
ARGUMENTS = [
    value
    for names in (vars(public_calls), test_errors.ARGUMENTS)
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
    return rows | dict(failing())


def failing():
    """Yield a call that raises for every eighth row of errors.txt without a module."""
    for name, (_, rows) in test_errors.SECTIONS.items():
        for right, row in rows[::8] if not name.startswith("test_") else ():
            wrong = row.partition(" => ")[0]
            if HAVE_BFLOAT16 or not test_errors.NARROW_TYPES.search(wrong):
                yield row, partial(expect_error, test_errors.call_of(name, right, wrong))


def expect_error(call):
    with pytest.raises((TypeError, ValueError, KeyError)):
        call()


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
    """C code has no leaks in memory that Python and NumPy do not count."""
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
