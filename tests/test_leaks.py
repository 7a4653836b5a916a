"""Many calls, also calls that raise, leave the number of references and memory constant."""

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

# Classes of the arguments that a call could keep a reference to.
KEPT = (np.ndarray, np.dtype, list, tuple, pq.QParams, pq.PackedArray, pq.Observer)
ARGUMENTS = [
    value
    for names in (vars(public_calls), test_errors.ARGUMENTS)
    for value in names.values()
    if isinstance(value, KEPT)
]


@pytest.fixture(scope="module")
def calls():
    """Return the calls of all public functions, without dask, which keeps memory itself.

    Add calls that raise errors.
    """
    rows = {
        name: call
        for name, call in public_calls.rows().items()
        if name != "cli.main" and not name.startswith("dask.")
    }
    return rows | dict(failing())


def failing():
    """Yield a call that raises, for every eighth row of some sections of errors.txt."""
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
    """Count references and memory blocks, which a leak in each call would increase."""
    count = amount(16, 40)

    def counts():
        return np.array([sys.getallocatedblocks(), *map(sys.getrefcount, ARGUMENTS)])

    gc.freeze()  # makes each collection fast, because it ignores older objects
    for name, call in calls.items():
        with case(call=name):
            repeat(call, 3)
            gc.collect()  # Free cycles of objects that refer to arguments.
            repeat(call, 3)  # Fill the interpreter's free lists again.
            before = counts()
            repeat(call, count)
            if (counts() - before).max() >= count // 2:
                gc.collect()  # of cycles
            changed = counts() - before
            assert changed[0] < count // 2
            assert max(abs(changed[1:])) < count // 2, changed
    gc.unfreeze()


def test_memory_over_many_calls(calls):
    """Measure memory after the first calls, which fill caches. Only a leak grows later."""

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
    # Use the minimum, because another thread (of pytest-xdist) may allocate memory once.
    assert min(after - before for before, after in pairwise(sizes)) < 20_000


def resident():
    try:
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * 4096
    except OSError:
        pytest.skip("there is no /proc/self/statm")


def test_resident_memory(calls):
    """Measure the resident memory, which includes memory that C code allocates itself."""
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
