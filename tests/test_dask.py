"""pyquant.dask: every code is that of one process, whatever the chunks."""

import doctest
import pickle

import numpy as np
import pytest

import pyquant as pq

pytest.importorskip("dask")  # which the module imports, and no extra of pyquant installs
import dask
import dask.array as da

import pyquant.dask


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


def data(shape, dtype=np.float32):
    return np.random.default_rng(0).normal(0, 3, shape).astype(dtype)


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


@pytest.mark.parametrize(("shape", "chunks", "how"), CASES)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "float8_e4m3fn"])
def test_as_one_process(shape, chunks, how, dtype):
    if dtype.startswith("float"):
        pytest.importorskip("ml_dtypes")
    x = data(shape)
    lazy = da.from_array(x, chunks=chunks)
    p = pq.choose_qparams(x, dtype=dtype, **how)
    assert pyquant.dask.choose_qparams(lazy, dtype=dtype, **how) == p
    q = p.quantize(x)
    parts = (p.scale, p.zero_point)
    codes = pyquant.dask.quantize(lazy, *parts, dtype=p.dtype, **how)
    assert codes.chunks == lazy.chunks
    same(codes, q)
    same(pyquant.dask.dequantize(codes, *parts, **how), p.dequantize(q))


@pytest.mark.parametrize("real", ["float16", "float64", "bfloat16"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_types(real, symmetric):
    if real == "bfloat16":
        pytest.importorskip("ml_dtypes")
    x = pq.dequantize(data((40, 30)).astype(np.int8), 0.25, dtype=real)
    lazy = da.from_array(x, chunks=(16, 10))
    how = {"axis": 1, "block_size": 5}
    p = pq.choose_qparams(x, dtype="int8", symmetric=symmetric, **how)
    assert pyquant.dask.choose_qparams(lazy, symmetric=symmetric, **how) == p
    q = pyquant.dask.quantize(lazy, p.scale, p.zero_point, **how)
    same(q, p.quantize(x))
    y = pyquant.dask.dequantize(q, p.scale, p.zero_point, dtype=real, **how)
    same(y, p.dequantize(p.quantize(x), dtype=real))


def test_type_of_zero_points():
    x = data((8, 6))
    lazy = da.from_array(x, chunks=3)
    for zero in (None, 3, [1, 2, 3, 4, 5, 6], np.uint8(3), np.arange(6, dtype=np.int16)):
        due = pq.quantize(x, np.full(6, 0.1), zero, axis=1)
        same(pyquant.dask.quantize(lazy, np.full(6, 0.1), zero, axis=1), due)


def test_scales_of_as_many_dimensions():
    x = data((8, 6))
    lazy = da.from_array(x, chunks=(3, 4))
    for shape in ((8, 1), (1, 6), (8, 6), (1, 1)):
        scale = np.abs(data(shape)) + 0.1
        same(pyquant.dask.quantize(lazy, scale), pq.quantize(x, scale))


def test_options():
    x = data((8, 6))
    x[2, 3] = np.nan
    lazy = da.from_array(x, chunks=3)
    more = {"offset": data(6), "fill": -128, "rounding": "half_away", "inverse": True}
    more |= {"axis": 1, "quant_range": (-100, 100)}
    scale = np.linspace(1, 9, 6)
    q = pq.quantize(x, scale, **more)
    codes = pyquant.dask.quantize(lazy, scale, **more)
    same(codes, q)
    del more["rounding"], more["quant_range"]
    same(pyquant.dask.dequantize(codes, scale, **more), pq.dequantize(q, scale, **more))
    late = pyquant.dask.quantize(lazy, 1e-9, out_of_range="raise")
    with pytest.raises(ValueError, match=r"^x: expected numbers within the range of int8"):
        late.compute()


def test_names_are_of_what_is_computed():
    lazy = da.ones((8, 6), chunks=3)

    def name(*scale, **more):
        return pyquant.dask.quantize(lazy, *scale, **more).name

    rows = np.ones(8)
    assert name(rows, axis=0) == name(rows.copy(), axis=0)
    names = [name(rows, axis=0), name(rows * 2, axis=0), name(rows, dtype="uint8", axis=0)]
    names += [name(1.0), name(2.0), name(1.0, 1), name(1.0, rounding="floor")]
    assert len(set(names)) == len(names)


def test_graphs_are_pickled():
    lazy = da.ones((8, 6), chunks=3)
    q = pyquant.dask.quantize(lazy, np.ones(8), axis=0)
    assert pickle.loads(pickle.dumps(q)).compute().sum() == 48


def test_nothing_is_computed():
    def fail(block):
        raise AssertionError

    lazy = da.zeros((8, 6), chunks=3).map_blocks(fail, dtype=np.float32)
    q = pyquant.dask.quantize(lazy, np.ones(8), axis=0)
    assert pyquant.dask.dequantize(q, np.ones(8), axis=0).dtype == np.float32


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
        ("x", lambda: pyquant.dask.quantize(lazy, np.ones((4, 10)), **how)),
        ("q", lambda: pyquant.dask.dequantize(codes, np.ones((4, 10)), **how)),
        ("x", lambda: pyquant.dask.choose_qparams(lazy, **how)),
    ):
        with pytest.raises(ValueError, match=f"^{name}: {message}"):
            call()
    whole = lazy.rechunk({1: near})
    assert pyquant.dask.quantize(whole, np.ones((4, 10)), **how).compute().sum() == 1280


LAZY = da.ones((8, 6), chunks=3)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: pyquant.dask.quantize(np.ones(3), 1.0),
            TypeError,
            "x: expected an array of dask, got ndarray",
        ),
        (
            lambda: pyquant.dask.dequantize([1], 1.0),
            TypeError,
            "q: expected an array of dask, got list",
        ),
        (
            lambda: pyquant.dask.choose_qparams(None),
            TypeError,
            "x: expected an array of dask, got NoneType",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, LAZY[:, 0], axis=0),
            TypeError,
            "scale: expected an array in memory",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, np.ones(7), axis=0),
            ValueError,
            r"scale: expected shape \(8,\), got shape \(7,\)",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, np.ones(8)),
            ValueError,
            r"scale: expected one element, got shape \(8,\)",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, np.ones(8), np.ones(6, "i1"), axis=0),
            ValueError,
            r"zero_point: expected shape \(8,\), got \(6,\)",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, np.ones(8), [300] * 8, axis=0),
            ValueError,
            "zero_point: expected integers from -128 to 127",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, 1.0, axis=2),
            ValueError,
            "axis: axis 2",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, 1.0, packed=True),
            TypeError,
            "packed: expec",
        ),
        (lambda: pyquant.dask.dequantize(LAZY, 1.0), TypeError, "q: expected"),
        (
            lambda: pyquant.dask.quantize(LAZY, 1.0, rounding="up"),
            ValueError,
            "rounding:",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, np.ones((8, 6)), block_size=(1,)),
            ValueError,
            "block_size: expected 2 integers, one per dimension",
        ),
        (
            lambda: pyquant.dask.quantize(LAZY, np.ones((8, 6)), axis=0, block_size=0),
            ValueError,
            "block_size: expected positive integers, got 0",
        ),
        (
            lambda: pyquant.dask.choose_qparams(LAZY, axis=(0, 1), block_size=3),
            ValueError,
            "axis: expected one integer beside block_size=3, got .0",
        ),
        (
            lambda: pyquant.dask.choose_qparams(LAZY, block_size=3),
            ValueError,
            "axis: expected one integer beside block_size=3, got None",
        ),
        (
            lambda: pyquant.dask.choose_qparams(LAZY[LAZY[:, 0] > 0], axis=0),
            ValueError,
            "x: expected chunks of known sizes",
        ),
        (
            lambda: pyquant.dask.choose_qparams(LAZY * np.inf, axis=0),
            ValueError,
            r"x: expected finite numbers, got .* in 8 groups, the first at index \(0,\)",
        ),
        (
            lambda: pyquant.dask.choose_qparams(LAZY * np.nan),
            ValueError,
            "x: expected fini",
        ),
        (
            lambda: pyquant.dask.choose_qparams(LAZY, dtype="some"),
            TypeError,
            "dtype: exp",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=f"^{text}") as caught:
        call()
    assert "\n" not in str(caught.value)


def test_chunks_of_unknown_sizes_have_one_scale():
    unknown = LAZY[LAZY[:, 0] > 0]
    assert pyquant.dask.quantize(unknown, 0.5).compute().tolist() == [[2] * 6] * 8


def test_docstrings():
    assert doctest.testmod(pyquant.dask).attempted > 8
    assert doctest.testmod(pyquant.dask).failed == 0
