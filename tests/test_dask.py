"""Test pyquant.integrations.dask: codes of any chunks equal codes of the complete array."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from support import ROOT, dtype_of

import pyquant as pq

pytest.importorskip("dask")  # skips the tests without dask
import dask
import dask.array as da

import pyquant.integrations.dask as pqd


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def same(mine, due):
    assert isinstance(due, np.ndarray)
    assert (mine.dtype, mine.shape) == (due.dtype, due.shape)
    assert mine._meta.dtype == due.dtype
    got = mine.compute()
    assert type(got) is np.ndarray
    assert got.dtype == due.dtype
    assert got.tobytes() == due.tobytes()


def data(shape):
    return np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)


# Shape, chunks, granularity.
CASES = [
    ((40, 30), (16, 7), {}),
    ((40, 30), (16, 7), {"axis": 0}),
    ((40, 30), (16, 7), {"axis": -1}),
    ((40, 30), (16, 7), {"axis": (1, 0)}),
    ((40, 30), (16, 8), {"axis": 1, "block_size": 8}),
    ((40, 30), (16, 8), {"axis": 1, "block_size": 4}),
    ((40, 30), (16, 7), {"axis": 1, "block_size": 64}),
    ((40, 30), (16, 8), {"axis": 0, "block_size": 16}),
    ((40, 30), (16, 10), {"block_size": (8, 5)}),
    ((40, 30), (40, 30), {"block_size": (9, 7)}),
    ((40, 30), ((16, 8, 16), (12, 18)), {"block_size": (8, 6)}),
    ((6, 5, 4), (2, 2, 2), {"axis": (0, 2)}),
    ((6, 5, 4), (2, 2, 2), {"axis": 1}),
    ((6, 5, 4), (2, 3, 2), {"block_size": (2, 3, 4)}),
    ((7,), (3,), {"axis": 0}),
    ((), (), {}),
    ((0, 5), (1, 2), {"axis": 1}),
    ((4, 0), (2, 1), {"axis": 1}),
    ((4, 0), (2, 1), {"axis": 0}),
    ((0, 2, 4), (2, 1, 2), {"block_size": (4, 1, 2)}),
    ((8, 6), ((0, 4, 0, 4), (6, 0)), {"axis": 0, "block_size": 4}),
    ((8, 6), ((0, 4, 0, 4), (6, 0)), {"axis": 1}),
    ((1, 5), (1, 2), {"axis": 0}),
]


REALS = ("float32", "float16", "float64", "bfloat16")


@pytest.mark.parametrize("number", range(len(CASES)))
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float8_e4m3fn"])
def test_as_one_process(number, dtype):
    dtype_of(dtype)  # skips the test if the type needs ml_dtypes and the package is missing
    shape, chunks, how = CASES[number]
    real = dtype_of(REALS[number % len(REALS)])
    x = data(shape).astype(real)
    lazy = da.from_array(x, chunks=chunks)
    symmetric = None if "float" in dtype else (None, True, False)[number % 3]
    p = pq.choose_qparams(x, dtype=dtype, symmetric=symmetric, **how)
    assert pqd.choose_qparams(lazy, dtype=dtype, symmetric=symmetric, **how) == p
    q = p.quantize(x)
    parts = (p.scale, p.zero_point)
    codes = pqd.quantize(lazy, *parts, dtype=p.dtype, **how)
    assert codes.chunks == lazy.chunks
    same(codes, q)
    same(pqd.dequantize(codes, *parts, dtype=real, **how), p.dequantize(q, dtype=real))


SIX = np.full(6, 0.1)
ZEROS = (None, 3, [1, 2, 3, 4, 5, 6], np.uint8(3), np.arange(6, dtype=np.int16))
# Pairs of a shape of scales and an axis. These shapes need no argument `axis`.
AS_MANY = (((8, 1), 0), ((1, 6), 1), ((8, 6), (0, 1)), ((1, 1), None))
OFFSETS = (
    {"offset": data(6), "axis": 1},
    {"offset": data((1, 6))},
    {"offset": data((8, 2)), "axis": 1, "block_size": 3},
    {"offset": [0.5], "axis": 1},
)
# Scale, zero point and keyword arguments for an array of shape (8, 6).
ARGUMENTS = [
    *((SIX, zero, {"axis": 1}) for zero in ZEROS),
    # NumPy would convert a list with these zero points to float64.
    (np.ones(6), [0, 2**64 - 1, 2**63, 1, 2, 3], {"dtype": "uint64", "axis": 1}),
    *((abs(data(shape)) + 0.1, None, {}) for shape, _ in AS_MANY),
    *((abs(data(shape)) + 0.1, None, {"axis": axis}) for shape, axis in AS_MANY),
    *((scale, 3, how) for scale in (0.1, [0.1]) for how in OFFSETS),
]


@pytest.mark.parametrize(("scale", "zero", "how"), ARGUMENTS)
def test_arguments(scale, zero, how):
    x = data((8, 6))
    q = pq.quantize(x, scale, zero, **how)
    codes = pqd.quantize(da.from_array(x, chunks=(3, 3)), scale, zero, **how)
    same(codes, q)
    how = {key: value for key, value in how.items() if key != "dtype"}
    same(pqd.dequantize(codes, scale, zero, **how), pq.dequantize(q, scale, zero, **how))


def test_options():
    x = data((8, 6))
    x[2, 3] = np.nan
    lazy = da.from_array(x, chunks=3)
    more = {"offset": data(6), "fill": -128, "rounding": "half_away", "inverse": True}
    more |= {"axis": 1, "quant_range": (-100, 100)}
    scale = np.linspace(1, 9, 6)
    q = pq.quantize(x, scale, **more)
    codes = pqd.quantize(lazy, scale, **more)
    same(codes, q)
    del more["rounding"], more["quant_range"]
    same(
        pqd.dequantize(codes, scale, **more),
        pq.dequantize(q, scale, **more),
    )
    late = pqd.quantize(lazy, 1e-9, out_of_range="raise")
    with pytest.raises(ValueError, match=r"^x: expected numbers within the range of int8"):
        late.compute()


def refusal(lazy, **how):
    with pytest.raises(ValueError, match=r"^x: expected ") as caught:
        pqd.quantize(lazy, 1.0, **how).compute()
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("chunks", [(3, 4), (8, 6), ((0, 8), (2, 0, 4)), (1, 1)])
def test_indices_equal_the_complete_array(chunks):
    for place in ((0, 0), (2, 5), (3, 4), (7, 0), (7, 5)):
        for value in (1e9, np.nan, np.inf):
            x = np.zeros((8, 6), np.float32)
            x[place] = value
            lazy = da.from_array(x, chunks=chunks)
            end = f" in a chunk, the first at index {place}"
            if value == 1e9:
                assert refusal(lazy, out_of_range="raise").endswith(
                    "got 1 faulty element" + end
                )
                continue
            if value != value:
                assert refusal(lazy, nan="raise").endswith("got 1 faulty element" + end)
            with pytest.raises(ValueError, match=r"^x: expected finite values") as caught:
                pqd.choose_qparams(lazy, axis=1)
            assert str(caught.value).endswith("got 1 not finite" + end)


def test_indices_beside_parameters_that_are_cut():
    x = np.zeros((8, 6), np.float32)
    x[5:, 3] = 300
    lazy = da.from_array(x, chunks=4)
    scale = np.array([1, 1, 1, 2, 1, 1], np.float32)
    codes = pqd.quantize(lazy, scale, axis=1, out_of_range="raise")
    end = r"got 3 faulty elements in a chunk, the first at index \(5, 3\)$"
    for scheduler in ("synchronous", "threads"):
        with pytest.raises(ValueError, match=end):
            codes.compute(scheduler=scheduler)


def test_indices_of_few_dimensions_and_unknown_sizes():
    text = refusal(da.from_array(np.float32(1e9)), out_of_range="raise")
    assert text.endswith("got 1 faulty element, the first at index ()")
    unknown = da.from_array(np.array([0, 0, 0, 1e9]), chunks=2)
    unknown = unknown[unknown >= 0]
    text = refusal(unknown, out_of_range="raise")
    assert text.endswith("got 1 faulty element, the first at index (1,)")


def test_extremes_are_found_once():
    seen = []

    def see(block):
        seen.append(block.shape)
        return block

    lazy = da.from_array(data((8, 6)), chunks=4).map_blocks(see, dtype=np.float32)
    seen.clear()
    pqd.choose_qparams(lazy, axis=1)
    assert sorted(seen) == [(4, 2), (4, 2), (4, 4), (4, 4)]


def test_names_depend_on_the_arguments():
    lazy = da.ones((8, 6), chunks=3)

    def name(*scale, **more):
        return pqd.quantize(lazy, *scale, **more).name

    rows = np.ones(8)
    assert name(rows, axis=0) == name(rows.copy(), axis=0)
    names = [name(rows, axis=0), name(rows * 2, axis=0), name(rows, dtype="uint8", axis=0)]
    names += [name(1.0), name(2.0), name(1.0, 1), name(1.0, rounding="floor")]
    assert len(set(names)) == len(names)
    assert all(one.startswith("quantize-") for one in names)


def test_graphs_are_pickled():
    lazy = da.ones((8, 6), chunks=3)
    q = pqd.quantize(lazy, np.ones(8), axis=0)
    assert pickle.loads(pickle.dumps(q)).compute().sum() == 48


def test_nothing_is_computed():
    def fail(block):
        raise AssertionError

    lazy = da.zeros((8, 6), chunks=3).map_blocks(fail, dtype=np.float32)
    q = pqd.quantize(lazy, np.ones(8), axis=0)
    assert pqd.dequantize(q, np.ones(8), axis=0).dtype == np.float32


@pytest.mark.parametrize(
    ("n", "block", "near"), [(50, 32, 64), (40, 32, 32), (5, 32, 32), (100, 32, 96)]
)
def test_chunks_that_end_inside_of_blocks(n, block, near):
    lazy = da.ones((4, 320), chunks=(4, n))
    message = rf"expected chunks of whole blocks of {block} along axis 1, got one of {n} "
    message += rf"\(rechunk\({{1: {near}}}\)\)$"
    how = {"axis": 1, "block_size": block}
    codes = lazy.astype(np.int8)
    for name, call in (
        ("x", lambda: pqd.quantize(lazy, np.ones((4, 10)), **how)),
        ("q", lambda: pqd.dequantize(codes, np.ones((4, 10)), **how)),
        ("x", lambda: pqd.choose_qparams(lazy, **how)),
    ):
        with pytest.raises(ValueError, match=f"^{name}: {message}"):
            call()
    whole = lazy.rechunk({1: near})
    assert pqd.quantize(whole, np.ones((4, 10)), **how).compute().sum() == 1280


LAZY = da.ones((8, 6), chunks=3)


def test_chunks_of_unknown_sizes_have_one_scale():
    unknown = LAZY[LAZY[:, 0] > 0]
    assert pqd.quantize(unknown, 0.5).compute().tolist() == [[2] * 6] * 8


@pytest.mark.skipif("PYQUANT_EMULATED" in os.environ, reason="too much for it")
def test_example_of_two_processes_and_zarr(tmp_path):
    pytest.importorskip("distributed")  # skips the test without the package
    pytest.importorskip("zarr", minversion="3")  # skips the test without the package
    script = ROOT / "examples" / "dask_zarr.py"
    if not script.exists():
        pytest.skip("the examples are not here")
    command = [sys.executable, str(script)]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert run.stdout == "4096000 codes, equal to the codes of one process\n"
    assert not list(tmp_path.iterdir())
