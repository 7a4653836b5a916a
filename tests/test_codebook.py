"""Test the argument `codebook`, a table of numbers. A code is an index into the table.

The expected codes are computed by NumPy: sort the table, and count the middles below each
quotient. The expected numbers are products in float32.
"""

import hashlib

import numpy as np
import pytest
from support import (
    HAVE_BFLOAT16,
    REALS,
    at_once,
    cast,
    compute_dtype,
    dequantize_at,
    expand,
    loop,
    parameter_shape,
    quantize_at,
    same,
    split_small_arrays,
)

import pyquant as pq
from pyquant._codebooks import TABLES

SIZES = (4, 8, 16, 32, 64, 128, 256)
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38]


def random_table(count, seed=0):
    """Return an unsorted table with two equal numbers and many magnitudes."""
    rng = np.random.default_rng([seed, count])
    table = np.ldexp(rng.standard_normal(count), rng.integers(-9, 3, count))
    table[count // 2] = table[1]
    return table.astype(np.float32)


BOOKS = {**TABLES, **{f"of {n}": random_table(n) for n in SIZES}}


def places(y, table):
    """Return the index of the nearest number. At a tie, the smaller number counts."""
    order = np.argsort(table, kind="stable")
    ascending = table[order].astype(np.float64)
    middles = ((ascending[:-1] + ascending[1:]) / 2).astype(np.float32)
    below = np.searchsorted(middles, y.astype(np.float64), side="left")
    below[np.isnan(y)] = 0
    return order[below].astype(np.uint8)


def values(q, scale, table, inverse=False):
    """Return the float32 numbers of codes. Each NaN has the bits of NumPy's NaN."""
    with np.errstate(all="ignore"):
        looked_up, scale = table[q], scale.astype(np.float32)
        made = looked_up / scale if inverse else looked_up * scale
    made[np.isnan(made)] = np.nan
    return made


def around(table):
    """Return the middles of neighbouring numbers of a table, the float32 numbers next to
    the middles, the numbers, and extreme values."""
    ascending = np.sort(table).astype(np.float64)
    middles = ((ascending[:-1] + ascending[1:]) / 2).astype(np.float32)
    up, down = np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, -np.inf)
    wide = np.linspace(-2, 2, 501, dtype=np.float32) * np.abs(table).max()
    edges = np.array(EDGES, np.float32)
    found = np.concatenate([middles, up, down, table, wide, edges])
    return np.random.default_rng(4).permutation(found)


@loop("name", BOOKS)
def test_the_nearest_and_ties_down(name, isa):
    table = BOOKS[name]
    x = around(table)
    given = name if name in TABLES else table
    same(quantize_at(isa, x, 1, codebook=given), places(x, table))
    codes = np.arange(len(table), dtype=np.uint8)
    same(dequantize_at(isa, codes, 1, codebook=given), table)
    if len(set(table.tolist())) == len(table):
        same(quantize_at(isa, table, 1, codebook=given), codes)


@loop("name", ("nf4", "dynamic8", "of 4"))
def test_scales_divide_and_multiply(name, isa):
    table = BOOKS[name]
    rng = np.random.default_rng(5)
    for shape, axis, block in (
        ((777,), None, None),
        ((5, 130), 0, None),
        ((5, 130), 1, None),
        ((6, 192), 1, 64),
        ((4, 100), 1, 33),
        ((4, 100), 1, 7),
        ((64, 5), 0, 32),
        ((9, 12), None, (4, 3)),
    ):
        how = {"axis": axis, "block_size": block}
        x = rng.standard_normal(shape).astype(np.float32)
        x.reshape(-1)[: len(EDGES)] = EDGES
        scale = np.abs(rng.standard_normal(parameter_shape(shape, axis, block)))
        scale = np.float32(scale + 0.1)
        whole = expand(scale, shape, axis, block)
        for inverse in (False, True):
            for dtype in REALS:
                given = cast(x, dtype)
                with np.errstate(all="ignore"):
                    wide = given.astype(compute_dtype(dtype))
                    y = wide * whole if inverse else wide / whole
                q = quantize_at(isa, given, scale, codebook=table, inverse=inverse, **how)
                same(q, places(y, table))
                expected = cast(values(q, whole, table, inverse), dtype)
                got = dequantize_at(
                    isa, q, scale, codebook=table, inverse=inverse, dtype=dtype, **how
                )
                same(got, expected)


def test_quotients_of_float64_are_not_rounded_to_float32(isa):
    middle = 0.5
    table = np.array([0, 1, 2, 3], np.float32)
    x = np.array([middle, np.nextafter(middle, 1), np.nextafter(middle, 0)])
    same(quantize_at(isa, x, 1, codebook=table), np.array([0, 1, 0], np.uint8))


def test_unusual_scales(isa):
    codes = np.tile(np.arange(16, dtype=np.uint8), 9)
    for scale in (0.0, -0.0, -2.5, np.inf, np.nan, 1e-45, 1e38, 3e-39):
        whole = np.full(codes.shape, scale, np.float32)
        for inverse in (False, True):
            same(
                dequantize_at(isa, codes, scale, codebook="nf4", inverse=inverse),
                values(codes, whole, TABLES["nf4"], inverse),
            )
        x = np.array([*EDGES, 1, -1, 0.3], np.float32)
        with np.errstate(all="ignore"):
            y = x / np.float32(scale)
        same(quantize_at(isa, x, scale, codebook="nf4"), places(y, TABLES["nf4"]))


LAYOUTS = [
    ("nf4", "onnx", "uint4"),
    ("of 4", "onnx", "uint2"),
    ("nf4", "high-first", "uint4"),
    ("nf4", pq.Layout("words", axis=0), "uint4"),
    ("nf4", pq.Layout("halves", axis=-1), "uint4"),
    *[(f"of {n}", "words", "uint8") for n in (8, 32, 64, 128)],
    ("of 8", pq.Layout("words", axis=-1, bits=3), "uint8"),
    ("of 32", pq.Layout("words", axis=0, bits=5), "uint8"),
    ("of 128", pq.Layout("words", axis=1, bits=7), "uint8"),
    ("dynamic8", pq.Layout("words", axis=1), "uint8"),
]


@loop("layout", LAYOUTS)
def test_packed_codes(layout, isa, monkeypatch):
    name, layout, dtype = layout
    table = BOOKS[name]
    rng = np.random.default_rng(7)
    for shape in ((4, 64), (3, 7), (64, 33), (1, 1), (0, 4)):
        x = rng.standard_normal(shape).astype(np.float32)
        scale = rng.uniform(0.5, 2, shape[:1]).astype(np.float32)
        kept = "uint8" if getattr(layout, "bits", None) else None
        how = {"axis": 0, "codebook": table}
        p = quantize_at(isa, x, scale, layout=layout, dtype=kept, **how)
        q = places(x / expand(scale, shape, 0), table)
        if HAVE_BFLOAT16 or dtype == "uint8":
            assert p.dtype == dtype
            same(pq.unpack(p).astype(np.uint8), q)
        expected = values(q, expand(scale, shape, 0), table)
        same(dequantize_at(isa, p, scale, **how), expected)
        with split_small_arrays(monkeypatch):
            same(dequantize_at(isa, p, scale, threads=3, **how), expected)


@loop("layout", ("onnx", "high-first"))
def test_packed_groups_of_unusual_scales(layout, isa):
    rng = np.random.default_rng(11)
    odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3e38], np.float32)
    for n, block in ((4096, 64), (1056, 32), (520, 96), (256, 256), (200, 8), (97, 33)):
        codes = rng.integers(0, 16, n, np.uint8)
        scale = rng.standard_normal(-(-n // block)).astype(np.float32)
        scale[::3] = rng.choice(odd, scale[::3].size)
        p = pq.pack(codes, pq.Layout(layout, bits=4))
        whole = expand(scale, (n,), 0, block)
        for name in ("nf4", "fp4_bnb"):
            expected = values(codes, whole, TABLES[name])
            how = {"axis": 0, "block_size": block, "codebook": name}
            same(dequantize_at(isa, p, scale, **how), expected)
            # the slices below begin at different positions in a cache line
            room = np.empty(n + 9, np.float32)
            for first in (1, 5, 9):
                out = room[first : first + n]
                same(dequantize_at(isa, p, scale, out=out, **how), expected)


def test_types_of_ml_dtypes(isa):
    pytest.importorskip("ml_dtypes")  # skips the test without uint2 and uint4
    x = np.linspace(-1, 1, 128, dtype=np.float32)
    for name, dtype in (("nf4", "uint4"), ("of 4", "uint2")):
        q = quantize_at(isa, x, 1, codebook=BOOKS[name], dtype=dtype)
        assert q.dtype.name == dtype
        same(q.astype(np.uint8), places(x, BOOKS[name]))
        expected = values(q.astype(np.uint8), np.full(128, 0.5), BOOKS[name])
        how = {"axis": 0, "block_size": 64, "codebook": BOOKS[name]}
        same(dequantize_at(isa, q, [0.5, 0.5], **how), expected)
        same(dequantize_at(isa, q[:99], 0.5, codebook=BOOKS[name]), expected[:99])


def test_scalars_lists_and_nothing():
    same(pq.quantize(0.3, 1, codebook="nf4"), np.array(11, np.uint8))
    same(pq.dequantize([0, 15], 2, codebook="nf4"), np.array([-2, 2], np.float32))
    same(pq.quantize([], 1, codebook="nf4"), np.zeros(0, np.uint8))
    same(
        pq.dequantize(np.zeros((0, 3), np.uint8), 1, codebook="nf4"),
        np.zeros((0, 3), np.float32),
    )


def test_a_table_with_middles_beyond_float32():
    big = np.float32(3.4e38)
    table = np.array([big, -big, 0, 3.2e38], np.float32)
    x = np.array([big, -big, 0.6 * big, 1, np.inf, 3.2e38], np.float32)
    same(pq.quantize(x, 1, codebook=table), np.array([0, 1, 3, 2, 0, 3], np.uint8))


def test_each_call_reads_the_table():
    table = np.arange(16, dtype=np.float32)
    assert int(pq.quantize(np.float32(3), 1, codebook=table)) == 3
    table[:] = table[::-1].copy()
    assert int(pq.quantize(np.float32(3), 1, codebook=table)) == 12


def test_names_from_many_threads():
    x = np.float32([-0.5])
    for found in at_once(4, lambda i: pq.quantize(x, 1, codebook="dynamic8")):
        same(found, places(x, TABLES["dynamic8"]))


DIGESTS = {"dynamic8": "e732639a65f497b4", "dynamic8_unsigned": "305f002cc11278fb"}


@loop("name", DIGESTS)
def test_dynamic_maps_of_bitsandbytes(name):
    memory = TABLES[name].astype("<f4").tobytes()
    assert hashlib.sha256(memory).hexdigest().startswith(DIGESTS[name])
    assert len(TABLES[name]) == 256
    assert not TABLES[name].flags.writeable
