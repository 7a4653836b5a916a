"""Compare pyquant's `CastValue` with zarr's own codec: bytes, values, errors, stores."""

import itertools
import pickle

import numpy as np
import pytest
from support import run_python, same, specials, uniform_bits

pytest.importorskip("zarr", minversion="3.2")  # pyquant's codec needs zarr.
pytest.importorskip("cast_value_rs")  # zarr's own codec casts with cast_value_rs.
import zarr
from zarr.core.codec_pipeline import BatchedCodecPipeline

import pyquant.integrations.zarr

pytestmark = pytest.mark.filterwarnings("ignore:(overflow|invalid|divide):RuntimeWarning")

ROUNDINGS = (
    *("nearest-even", "nearest-away"),
    *("towards-zero", "towards-positive", "towards-negative"),
)
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
REALS = ("float16", "float32", "float64")
PIPELINES = ["BatchedCodecPipeline", "FusedCodecPipeline"]  # the second since 3.3


@pytest.fixture(params=PIPELINES)
def pipeline(request):
    if not hasattr(zarr.core.codec_pipeline, request.param):
        pytest.skip("a later zarr has it")
    path = f"{BatchedCodecPipeline.__module__}.{request.param}"
    with zarr.config.set({"codec_pipeline.path": path}):
        yield


def created(module, x, *configurations, store=None, before=(), **options):
    options = {
        "dtype": x.dtype.newbyteorder("="),
        "compressors": None,
        "serializer": zarr.codecs.BytesCodec(),
        **options,
    }
    return zarr.create_array(
        {} if store is None else store,
        shape=x.shape,
        filters=[*before, *(module.CastValue(**one) for one in configurations)],
        **options,
    )


def contents(array):
    """Return the contents of an array's memory store: the bytes of each key."""
    return {key: bytes(b.to_bytes()) for key, b in array.store._store_dict.items()}


def outcome(function):
    """Call a function. Return its result, or the type and message of its exception."""
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def check(x, *configurations, **options):
    """Write and read with both codecs. Compare stored bytes, errors and values."""

    def write(module):
        array = created(module, x, *configurations, **options)
        refusal = outcome(lambda: array.__setitem__(..., x))
        return array, refusal

    made = (
        outcome(lambda: write(pyquant.integrations.zarr)),
        outcome(lambda: write(zarr.codecs)),
    )
    if isinstance(made[0], str) or isinstance(made[1], str):
        assert made[0] == made[1]
        return None
    (ours, refusal), (theirs, expected) = made
    assert refusal == expected
    assert contents(ours) == contents(theirs)
    if refusal is not None:
        return refusal
    again = zarr.open_array(ours.store)  # with zarr's codecs
    read = [outcome(lambda a=a: np.asarray(a[...])) for a in (theirs, ours, again)]
    for one in read[1:]:
        if isinstance(read[0], str):
            assert one == read[0]
        else:
            same(one, read[0])
    return read[0]


@pytest.fixture
def no_help(monkeypatch):
    """Make zarr's own codec fail, so that a test fails if pyquant calls it."""

    def refuse(*args, **kwargs):
        raise AssertionError("zarr's own codec")

    monkeypatch.setattr(zarr.codecs.CastValue, "_do_cast", refuse)


def numbers(source, target, count=400):
    """Return ties, the ends of a type, and neighbours, all within the range of the type."""
    ends = np.iinfo(target)
    near = [end + step for end in (ends.min, ends.max) for step in (-1, -0.5, 0, 0.5, 1)]
    rng = np.random.default_rng(count)
    ties = rng.integers(2 * max(ends.min, -(1 << 12)), 2 * min(ends.max, 1 << 12), count)
    with np.errstate(over="ignore"):
        made = np.array([*near, *ties / 2]).astype(source)
    away = np.concatenate([np.nextafter(made, made.dtype.type(t)) for t in (-1e4, 1e4)])
    every = np.concatenate([made, away])
    every = every[np.isfinite(every)]
    whole = every.astype(np.float64)
    return every[(whole >= ends.min) & (whole <= ends.max)]


@pytest.mark.parametrize("target", INTEGERS)
@pytest.mark.parametrize("source", REALS)
def test_real_numbers_to_integers_and_back(source, target):
    within = numbers(source, target)
    bits = uniform_bits(source, 1000, 3)
    finite = bits[np.isfinite(bits)]
    for rounding, out_of_range in itertools.product(ROUNDINGS, (None, "clamp", "wrap")):
        how = {"data_type": target, "rounding": rounding, "out_of_range": out_of_range}
        assert isinstance(check(within, how), np.ndarray)
        check(finite, how)


@pytest.mark.parametrize("target", ["int8", "int16", "uint16", "int32"])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_a_million_bit_patterns(target, rounding):
    x = uniform_bits("float32", 1 << 20, 7)
    x = np.where(np.isfinite(x), x, np.float32(0.5))
    check(x, {"data_type": target, "rounding": rounding, "out_of_range": "clamp"})


@pytest.mark.parametrize("target", REALS)
@pytest.mark.parametrize("source", INTEGERS)
def test_integers_to_real_numbers_and_back(source, target):
    ends = np.iinfo(source)
    rng = np.random.default_rng(0)
    x = rng.integers(ends.min, ends.max, 1000, dtype=source, endpoint=True)
    for rounding, out_of_range in itertools.product(ROUNDINGS, (None, "clamp")):
        how = {"data_type": target, "rounding": rounding, "out_of_range": out_of_range}
        check(x, how)
        assert isinstance(check(x % 100, how), np.ndarray)


@pytest.mark.usefixtures("pipeline")
def test_pyquant_casts_its_types(no_help):
    """Check that pyquant's codec casts, so that no test compares zarr with itself."""
    every = {"int8": 3, "uint8": 3, "int16": 2, "uint16": 2, "int32": 1, "uint32": 1}
    for target, count in every.items():
        for source in REALS[-count:]:
            for rounding in ROUNDINGS:
                for out_of_range in (None, "clamp", "wrap"):
                    how = {"rounding": rounding, "out_of_range": out_of_range}
                    x = np.arange(5).astype(source)
                    a = created(pyquant.integrations.zarr, x, {"data_type": target, **how})
                    a[...] = x
                    same(a[...], x)
            mapped = {"encode": {"NaN": 100}, "decode": {100: "NaN"}}
            for out_of_range in (None, "clamp", "wrap"):
                how = {"out_of_range": out_of_range, "scalar_map": mapped}
                m = created(pyquant.integrations.zarr, x, {"data_type": target, **how})
                m[...] = nans = np.array([0, np.nan, 1, np.iinfo(target).min, 3], source)
                same(m[...], nans)
            q = x.astype(target)
            b = created(pyquant.integrations.zarr, q, {"data_type": source})
            b[...] = q
            same(b[...], q)


REFUSED = (np.nan, np.inf, -np.inf, 128, -129, 3e38, -3e38, 127.5, -128.5000153)


@pytest.mark.parametrize("out_of_range", [None, "clamp", "wrap"])
@pytest.mark.parametrize("wrong", REFUSED)
def test_errors(out_of_range, wrong):
    """Compare errors at several positions in an array. An error changes no stored value."""
    how = {"data_type": "int8", "out_of_range": out_of_range}
    for index in (0, 3, 70000):
        x = np.zeros(70001, np.float32)
        x[index] = wrong
        got = check(x, how, chunks=(70001,))
        assert isinstance(got, str) == (out_of_range is None or not np.isfinite(wrong))
        a = created(pyquant.integrations.zarr, x, how, chunks=(70001,), fill_value=x[1])
        outcome(lambda a=a: a.__setitem__(..., np.float32(1)))
        kept = contents(a)
        if isinstance(outcome(lambda a=a, x=x: a.__setitem__(..., x)), str):
            assert contents(a) == kept


MAPS = (
    {"encode": {"NaN": -7}, "decode": {-7: "NaN"}},
    {"encode": {"NaN": 127}, "decode": {127: "NaN", -128: "NaN"}},
    {"encode": [["NaN", -128]]},
    {"decode": [[0, "NaN"]]},
    {"encode": {np.nan: 0}, "decode": {0: np.nan}},
    # zarr's:
    {"encode": {"NaN": 1, "Infinity": 2, "-Infinity": 3}, "decode": {2: "Infinity"}},
    {"encode": {5.0: 6}, "decode": {6: 5.0}},
    {"encode": {"NaN": 1, np.nan: 2}},
    {"encode": {"NaN": True}, "decode": {True: "NaN"}},
    {"encode": {}, "decode": {}},
    {"encode": {"NaN": 128}},
)


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize("scalar_map", MAPS)
@pytest.mark.parametrize("out_of_range", [None, "clamp", "wrap"])
@pytest.mark.parametrize("source", REALS)
def test_scalar_maps(source, scalar_map, out_of_range):
    how = {"data_type": "int8", "out_of_range": out_of_range, "scalar_map": scalar_map}
    x = np.array([1, np.nan, -3.5, 5, 0, -7, 127, -np.nan], source)
    payload = specials(source)
    for given in (x, x[:1], np.append(x, np.array(np.inf, source)), payload):
        check(given, how)
    check(np.float32([1, np.nan]), how, fill_value=np.nan)


def test_a_nan_with_a_sign():
    """Test a scalar map with -NaN, which a codec object can have, but not JSON metadata."""
    x = np.float32([1, np.nan, -np.nan])
    how = {
        "data_type": "int8",
        "scalar_map": {"encode": {-np.nan: 0}, "decode": {0: -np.nan}},
    }
    read = []
    for module in (pyquant.integrations.zarr, zarr.codecs):
        a = created(module, x, how)
        a[...] = x
        read.append(a[...])
    same(*read)
    assert np.signbit(read[0]).tolist() == [False, True, True]


@pytest.mark.usefixtures("pipeline")
def test_fill_values_are_cast():
    how = {"data_type": "int8", "out_of_range": "clamp"}
    for fill in (3.0, 2.5, -1000.0, np.nan, np.inf):
        x = np.full((6,), 2.5, np.float32)
        got = check(x, how, fill_value=fill, chunks=(2,))
        assert np.isfinite(fill) == isinstance(got, np.ndarray)
        if not np.isfinite(fill):
            continue
        written = []
        for module in (pyquant.integrations.zarr, zarr.codecs):
            a = created(module, x, how, fill_value=fill, chunks=(2,))
            a[1:3] = [fill, 4]
            written.append(contents(a))
            a[...] = np.float32(fill)
            written[-1]["full"] = a[...].tobytes()
        assert written[0] == written[1]


SHAPES = (
    ((), {}),
    ((0,), {}),
    ((3, 0, 2), {}),
    ((1,), {}),
    ((7, 5), {"chunks": (3, 2)}),
    ((16, 16), {"chunks": (4, 4), "shards": (8, 16)}),
    ((3, 300, 300), {"chunks": (2, 300, 299)}),
)


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize(("shape", "options"), SHAPES)
@pytest.mark.parametrize("out_of_range", [None, "clamp"])
def test_chunks_and_shards(shape, options, out_of_range):
    rng = np.random.default_rng(2)
    x = np.asarray(rng.uniform(-120, 120, shape)).astype(np.float32)
    how = {"data_type": "int8", "out_of_range": out_of_range}
    turned = zarr.codecs.TransposeCodec(order=tuple(range(len(shape)))[::-1])
    for before in ([], [turned]):
        got = check(x, how, before=before, **options)
        assert got.shape == shape
        check(x, how, before=before, compressors="auto", **options)


@pytest.mark.usefixtures("pipeline")
@pytest.mark.parametrize("out_of_range", [None, "clamp"])
def test_any_memory(out_of_range):
    """Assign arrays with any strides, also to parts of chunks."""
    base = np.random.default_rng(3).uniform(-100, 100, (40, 60)).astype(np.float32)
    how = {"data_type": "int16", "out_of_range": out_of_range}
    for x in (
        np.asfortranarray(base),
        base.T,
        base[::-2, 3::5],
        np.broadcast_to(base[:, :1], (40, 60)),
        base.astype(">f4"),
    ):
        check(x, how, chunks=tuple(n // 2 for n in x.shape))
    arrays = [
        created(m, base, how, chunks=(7, 9))
        for m in (pyquant.integrations.zarr, zarr.codecs)
    ]
    for a in arrays:
        a[3:31:2, 5] = base[3:31:2, 5]
        a[2:3, 10:50] = -5.5
        a.oindex[[1, 30], [2, 3, 59]] = base[:2, :3]
    assert contents(arrays[0]) == contents(arrays[1])


OTHERS = (
    *(("float32", "int64"), ("float64", "uint64"), ("int64", "int8"), ("int16", "int8")),
    *(("float64", "float32"), ("float32", "float16"), ("uint64", "float64")),
    *(("int32", "float32"), ("int16", "float16"), ("uint32", "float32")),
)


@pytest.mark.parametrize(("source", "target"), OTHERS)
def test_zarr_casts_other_types(source, target):
    x = np.array([0, 1, 2, 100, 127, 77, 33]).astype(source)
    for rounding, out_of_range in itertools.product(ROUNDINGS, (None, "clamp")):
        how = {"data_type": target, "rounding": rounding, "out_of_range": out_of_range}
        assert check(x, how) is not None
        check(x * x.dtype.type(321) + x.dtype.type(1), how)


def test_other_byte_orders():
    """Compare both codecs with big-endian stores and arrays."""
    big = zarr.codecs.BytesCodec(endian="big")
    x = np.arange(6, dtype=np.float32)
    for kind in ("int8", "int16", "uint32"):
        check(x, {"data_type": kind}, serializer=big)
        check(x.astype(kind), {"data_type": "float64"}, serializer=big)
        check(x, {"data_type": kind}, serializer=big, dtype=">f4")


def test_invalid_configurations():
    x = np.zeros(3, np.float32)
    for wrong in (
        {"data_type": "complex64"},
        {"data_type": "float16", "out_of_range": "wrap"},
        {"data_type": "int8", "rounding": "sideways"},
        {"data_type": "int8", "out_of_range": "sometimes"},
        {"data_type": "int8", "scalar_map": {"encode": {"NaN": 1.5}}},
        {"data_type": "int8", "unknown": 1},
    ):
        made = [
            outcome(lambda m=m, w=wrong: created(m, x, w).__setitem__(..., x))
            for m in (pyquant.integrations.zarr, zarr.codecs)
        ]
        assert isinstance(made[0], str)
        assert made[0] == made[1]


def test_class_and_configuration():
    how = {"data_type": "int8", "rounding": "towards-zero", "out_of_range": "clamp"}
    ours, theirs = (m.CastValue(**how) for m in (pyquant.integrations.zarr, zarr.codecs))
    assert isinstance(ours, type(theirs))
    assert ours.to_dict() == theirs.to_dict()
    assert type(ours).from_dict(ours.to_dict()) == ours
    assert pickle.loads(pickle.dumps(ours)) == ours


REGISTERED = """
import numpy as np, zarr, pyquant.integrations.zarr
from zarr.registry import get_codec_class
assert get_codec_class("cast_value").__module__ == "zarr.codecs.cast_value"
pyquant.integrations.zarr.register()
pyquant.integrations.zarr.register()
assert get_codec_class("cast_value") is pyquant.integrations.zarr.CastValue
store = {}
filters = [{"name": "cast_value", "configuration": {"data_type": "int8"}}]
a = zarr.create_array(store, shape=4, dtype="float32", filters=filters)
a[:] = [1, 2, 3, 4]
assert [type(f).__module__ for f in a.filters] == ["pyquant.integrations.zarr"]
b = zarr.open_array(store)
assert [type(f).__module__ for f in b.filters] == ["pyquant.integrations.zarr"]
assert b[:].tolist() == [1, 2, 3, 4]
"""


def test_register():
    run = run_python(REGISTERED)
    assert run.returncode == 0, run.stderr
    assert not run.stderr


def test_without_the_other_backend():
    """pyquant runs its own codecs and raises its own errors."""
    run = run_python(
        "import sys; sys.modules['cast_value_rs'] = None\n"
        + REGISTERED
        + "try: a[:] = [1, 2, 3, 128]\n"
        "except ValueError as error: print(error)\n"
        "filters = [{'name': 'cast_value', 'configuration': {'data_type': 'int64'}}]\n"
        "try: zarr.create_array({}, shape=1, dtype='int8', filters=filters)[:] = 1\n"
        "except ImportError as error: print('cast-value-rs' in str(error))\n"
    )
    assert run.returncode == 0, run.stderr
    message = (
        "x: expected numbers within the range of int8 and no NaN, got 1 faulty element"
    )
    assert run.stdout.splitlines() == [f"{message}, the first at index (3,)", "True"]
