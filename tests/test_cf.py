"""pyquant.cf: attributes of the CF conventions, beside xarray's own coders.

Who has xarray, as `.ci/run` does, is told whether the bits are its; without it, dask or
ml_dtypes what compares with them is skipped, since there is nothing to compare with.
"""

import doctest
import itertools
import tracemalloc
import warnings

import numpy as np
import pytest
from support import case

from pyquant import cf

CODES = ("int8", "uint8", "int16", "uint16", "int32", "uint32")
OTHER = {"i": "true", "u": "false"}  # what views codes as of the other sign
# What scale_factor and add_offset may be, None for absent.
AFFINE = [
    (None, None),
    (np.float32(0.01), None),
    (np.float64(0.01), None),
    (0.01, None),
    (-0.5, None),
    (None, np.float32(273.15)),
    (None, 273.15),
    (None, np.int16(5)),
    (np.float32(0.01), np.float32(273.15)),
    (np.float64(0.01), np.float64(273.15)),
    (0.01, 273.15),
    (np.float32(0.01), np.float64(273.15)),
    (np.float64(0.01), np.float32(1.1)),
    (np.float32(0.5), 7),
    (np.int32(2), np.float32(0.1)),
    (np.float32(3e38), np.float32(1)),
]
# Which fill values: none, one, or several, of the type or wider.
FILLS = [
    {},
    {"_FillValue": "last"},
    {"missing_value": "last"},
    {"_FillValue": "last", "missing_value": "last"},
    {"_FillValue": "last", "missing_value": "first"},
    {"missing_value": "both"},
    {"_FillValue": "float"},
]

SCALE = {"scale_factor": 0.5}


def attributes(affine, fills, dtype):
    info = np.iinfo(dtype)
    one = {
        "last": np.dtype(dtype).type(info.max),
        "first": np.dtype(dtype).type(info.min),
        "both": np.array([info.max, info.min], dtype),
        "float": np.float64(info.max),
    }
    named = dict(zip(("scale_factor", "add_offset"), affine, strict=True))
    named = {name: value for name, value in named.items() if value is not None}
    return named | {name: one[value] for name, value in fills.items()}


def all_codes(dtype):
    info = np.iinfo(dtype)
    if info.bits <= 16:
        return np.arange(info.min, info.max + 1).astype(dtype)
    rng = np.random.default_rng(0)
    some = rng.integers(info.min, info.max, 1000, dtype, endpoint=True)
    near = np.arange(2**24 - 20, 2**24 + 20)
    ends = [info.min, info.max, 0]
    return np.concatenate([some, near.astype(dtype), np.array(ends, dtype)])


def decoded(q, attrs):
    xr = pytest.importorskip("xarray")  # whose bits are the measure; cf needs it not
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        variable = xr.Variable(("x",), q, dict(attrs))
        return xr.conventions.decode_cf_variable("v", variable).values


def encoded(x, attrs, dtype):
    xr = pytest.importorskip("xarray")  # whose bits are the measure; cf needs it not
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        variable = xr.Variable(("x",), x, {}, {**attrs, "dtype": np.dtype(dtype)})
        return xr.conventions.encode_cf_variable(variable).values


def same(mine, due):
    """Type and bits."""
    assert (mine.dtype, mine.shape) == (due.dtype, due.shape)
    bits = f"u{due.dtype.itemsize}"
    np.testing.assert_array_equal(mine.view(bits), due.view(bits))


@pytest.mark.parametrize("dtype", CODES)
def test_decodes_as_xarray_does(dtype):
    q = all_codes(dtype)
    for affine, unsigned, fills in itertools.product(
        AFFINE, [None, "true", "false"], FILLS
    ):
        attrs = attributes(affine, fills, dtype)
        if unsigned is not None:
            attrs["_Unsigned"] = unsigned
            if unsigned == OTHER[np.dtype(dtype).kind] and fills not in FILLS[:2]:
                continue  # test_missing_values_of_another_sign
        narrow = affine[1] is None and isinstance(affine[0], np.float32)
        if fills and narrow and q.dtype.itemsize == 4:
            continue  # test_fills_that_float32_does_not_tell_apart
        with case(attrs=attrs):
            y = cf.decode(q, attrs)
            same(y, decoded(q, attrs))
            p, real = cf.params(attrs, dtype)
            if len(attrs) > (unsigned is not None):
                same(y, p.dequantize(q.view(p.dtype), dtype=real))


def test_fills_that_float32_does_not_tell_apart():
    """-2147483647, which netCDF fills with, is no float32: xarray lets it through."""
    lowest = -(2**31)
    q = np.array([lowest, lowest + 1, lowest + 40, 5], np.int32)
    attrs = {"scale_factor": np.float32(1), "_FillValue": np.int32(lowest + 1)}
    assert np.isnan(cf.decode(q, attrs)).tolist() == [False, True, False, False]
    assert not np.isnan(decoded(q, attrs)).any()
    attrs["_FillValue"] = np.int32(lowest)
    assert np.isnan(cf.decode(q, attrs)).tolist() == [True, False, False, False]
    assert np.isnan(decoded(q, attrs)).tolist() == [True, True, True, False]


def test_missing_values_of_another_sign():
    q = np.int8([-1, -2, 3])
    attrs = {"_Unsigned": "true", "missing_value": 254}
    same(cf.decode(q, attrs), decoded(q, attrs))
    same(cf.decode(q, attrs), np.float32([255, np.nan, 3]))
    attrs |= {"_FillValue": np.int8(-1), "missing_value": np.int8(-1)}
    same(cf.decode(q, attrs), decoded(q, attrs))
    with pytest.raises(ValueError, match=r"^missing_value: expected integers"):
        cf.decode(q, attrs | {"missing_value": np.int8(-2)})


def test_one_element_arrays_are_numbers():
    q = np.int16([1, 2, 3])
    pair = {"scale_factor": np.float32([0.5]), "add_offset": np.float32([1])}
    same(cf.decode(q, pair), decoded(q, pair))
    one = {"scale_factor": np.float32([0.5])}  # xarray makes objects of these
    same(cf.decode(q, one), np.float64([0.5, 1, 1.5]))


def test_byte_orders_strides_and_out():
    q = np.arange(-60, 60, dtype=">i2").reshape(10, 12)
    attrs = {"scale_factor": np.float32(0.1), "_FillValue": np.int16(-7)}
    due = decoded(q.ravel(), attrs).reshape(q.shape)
    same(cf.decode(q, attrs), due)
    same(np.ascontiguousarray(cf.decode(q.T[::2], attrs)), np.ascontiguousarray(due.T[::2]))
    out = np.empty((12, 10), np.float32).T
    assert cf.decode(q, attrs, out=out) is out
    same(np.ascontiguousarray(out), due)
    seen = {"scale_factor": np.float32(0.1), "_Unsigned": "true"}
    same(cf.decode(q, seen).ravel(), decoded(q.ravel(), seen))


@pytest.mark.parametrize("affine", AFFINE[:-1], ids=str)
def test_byte_orders_of_numbers(affine):
    attrs = attributes(affine, FILLS[1], "int16")
    x = np.linspace(250, 300, 999)
    for real in ("f4", "f8"):
        swapped = x.astype(f">{real}")
        same(cf.encode(swapped, attrs, "int16"), cf.encode(x.astype(real), attrs, "int16"))
    arrays = {"scale_factor": np.array([0.01], ">f8"), "_FillValue": np.array([9], ">i2")}
    due = cf.decode(np.int16([8, 9]), {"scale_factor": 0.01, "_FillValue": 9})
    same(cf.decode(np.int16([8, 9]), arrays), due)


def test_nothing_to_decode():
    q = np.int16([1, -1])
    assert cf.decode(q, {"units": "K", "valid_range": [0.5, 2.5]}) is q
    seen = cf.decode(q, {"_Unsigned": "true"})
    assert seen.tolist() == [1, 65535]
    assert np.shares_memory(seen, q)
    out = np.empty(2, np.int16)
    assert cf.decode(q, {}, out=out) is out
    assert out.tolist() == [1, -1]


@pytest.mark.parametrize("dtype", CODES)
@pytest.mark.parametrize("real", ["float32", "float64"])
def test_encodes_as_xarray_does(dtype, real):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(1)
    span = min(int(info.max), 2**20)  # float32 has these integers
    for affine in AFFINE[:-1]:
        scale, offset = (1 if affine[0] is None else affine[0]), (affine[1] or 0)
        q = rng.integers(max(info.min + 1, -span), span - 1, 3000)
        wide = (q + rng.choice([0, 0.5, 0.49999, rng.random()], 3000)) * float(scale)
        x = (wide + float(offset)).astype(real)
        for fills, unsigned in itertools.product(FILLS[:4], [None, *OTHER.values()]):
            attrs = attributes(affine, fills, dtype)
            x[::7] = np.nan if fills else x[1]
            steps = encoded(x, attrs, dtype)
            if unsigned:
                attrs["_Unsigned"] = unsigned
            if unsigned == OTHER[info.kind]:
                continue
            with case(attrs=attrs):
                same(cf.encode(x, attrs, dtype), steps)


@pytest.mark.parametrize("real", ["float32", "float64"])
def test_encodes_other_signs_as_xarray_does(real):
    for affine in AFFINE[:-1]:
        scale, offset = (1 if affine[0] is None else affine[0]), (affine[1] or 0)
        x = (np.arange(255) * float(scale) + float(offset)).astype(real)
        x[3] = np.nan
        attrs = attributes(affine, {}, "int8") | {"_Unsigned": "true"}
        attrs["_FillValue"] = np.int8(-1)
        with case(attrs=attrs):
            q = cf.encode(x, attrs, "int8")
            same(q, encoded(x, attrs, "int8"))
            assert q[3] == -1
            assert q[254] == -2 or real == "float32"


def test_encodes_in_slices_what_is_wider():
    """More than a slice, any strides, 0-d, and nothing of the input's size."""
    attrs = {"scale_factor": np.float64(0.01), "add_offset": np.float64(0.1)}
    x = np.random.default_rng(0).normal(0, 50, (300, 700)).astype(np.float32)
    due = encoded(x.ravel(), attrs, "int16").reshape(x.shape)
    same(cf.encode(x, attrs, "int16"), due)
    assert cf.encode(x.T[::3, 1::2], attrs, "int16").tolist() == due.T[::3, 1::2].tolist()
    out = np.empty((700, 300), np.int16).T
    assert cf.encode(x, attrs, "int16", out=out) is out
    np.testing.assert_array_equal(out, due)
    assert cf.encode(x[0, 0], attrs, "int16") == due[0, 0]
    assert cf.encode(x[:0], attrs, "int16").shape == (0, 700)
    memory = x.view(np.int16)[:, ::2]  # the output is the input
    cf.encode(x, attrs, "int16", out=memory)
    np.testing.assert_array_equal(memory, due)


@pytest.mark.parametrize("offset", [273.15, np.float64(0)], ids=["pass", "slices"])
def test_what_is_out_of_range(offset):
    attrs = {"scale_factor": np.float64(0.1), "add_offset": offset, "_FillValue": -1}
    slices = np.float32
    real = slices if offset == 0 else np.float64
    codes = np.array([[-5, 0, 255], [300, 7.0, np.nan]])
    x = (codes * 0.1 + offset).astype(real)
    attrs["_Unsigned"] = "true"
    assert cf.encode(x, attrs, "int8").view("u1").tolist() == [[0, 0, 255], [255, 7, 255]]
    wrapped = cf.encode(x, attrs, "int8", out_of_range="wrap").view("u1")
    assert wrapped.tolist() == [[251, 0, 255], [44, 7, 255]]
    out = np.zeros((2, 3), np.int8)
    said = r"^x: .* 2 others, the first at index \(0, 0\); out has all codes, .* 'raise'$"
    with pytest.raises(ValueError, match=said):
        cf.encode(x, attrs, "int8", out_of_range="raise", out=out)
    assert out.view("u1").tolist() == [[0, 0, 255], [255, 7, 255]]
    attrs |= {"valid_min": 5, "valid_max": np.int16(100)}
    assert cf.encode(x, attrs, "int8").view("u1").tolist() == [[5, 5, 100], [100, 7, 255]]
    with pytest.raises(ValueError, match=r"are from 5 to 100, got 4 others, the first at"):
        cf.encode(x, attrs, "int8", out_of_range="raise")
    with pytest.raises(ValueError, match=r"^out_of_range: expected"):
        cf.encode(x, attrs, "int8", out_of_range="wrap")


def test_slices_take_little_memory():
    x, out = np.ones(4_000_000, np.float32), np.empty(4_000_000, np.int16)
    attrs = {"scale_factor": np.float64(0.01)}
    cf.encode(x[:9], attrs, "int16")
    tracemalloc.start()
    try:
        cf.encode(x, attrs, "int16", out=out)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


def test_the_first_one_may_be_in_a_later_slice():
    x = np.zeros((300, 700), np.float32)
    x[123, [45, 46]] = x[299, 699] = 1e9
    message = r"3 others, the first at index \(123, 45\)$"
    for attrs in (SCALE, {"scale_factor": np.float32(0.5)}):  # slices, one pass
        with pytest.raises(ValueError, match=message):
            cf.encode(x, attrs, "int16", out_of_range="raise")


def test_scales_beyond_float32():
    x = np.float32([1, -np.inf])
    for huge in (1e308, np.float64(1e308)):
        attrs = {"scale_factor": huge, "_FillValue": np.int8(-1)}
        assert cf.encode(x, attrs, "int8")[0] == 0


def test_halves_are_taken_as_float32():
    ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; the types tried are its
    for half in (np.float16, ml_dtypes.bfloat16):
        x = np.arange(-9, 9).astype(half)
        for scale in (np.float32(0.3), np.float64(0.3)):
            attrs = {"scale_factor": scale}
            due = encoded(x.astype(np.float32), attrs, "int16")
            same(cf.encode(x, attrs, "int16"), due)


def test_there_and_back_through_a_dataset():
    xr = pytest.importorskip("xarray")  # whose bits are the measure; cf needs it not
    attrs = {"scale_factor": 0.01, "add_offset": 20.0, "_FillValue": np.int16(-999)}
    q = all_codes("int16").reshape(256, 256)
    packed = xr.Dataset({"v": (("y", "x"), q, attrs)})
    same(cf.decode(q, attrs), xr.decode_cf(packed)["v"].values)
    y = cf.decode(q, attrs)
    same(cf.encode(y, attrs, "int16"), q)


def test_chunks_of_dask():
    xr = pytest.importorskip("xarray")  # whose bits are the measure; cf needs it not
    pytest.importorskip("dask")  # which pyquant needs for its own module only
    attrs = {"scale_factor": np.float32(0.1), "_FillValue": np.int16(-9)}
    q = np.arange(-500, 500, dtype=np.int16).reshape(20, 50)
    packed = xr.Dataset({"v": (("y", "x"), q, attrs)}).chunk(x=20)
    due = xr.decode_cf(packed)["v"]
    y = xr.apply_ufunc(
        cf.decode,
        packed["v"],
        kwargs={"attrs": attrs},
        dask="parallelized",
        output_dtypes=[cf.params(attrs, "int16")[1]],
    )
    assert y.dtype == due.dtype
    same(y.compute(scheduler="synchronous").values, due.compute().values)


@pytest.mark.parametrize(
    ("attrs", "error", "text"),
    [
        ({"scale_factor": 2}, TypeError, "scale_factor: expected a float without add_off"),
        ({"scale_factor": "0.5"}, TypeError, "scale_factor: expected numbers, got '0.5'"),
        ({"scale_factor": [1, [2]]}, TypeError, "scale_factor: expected numbers, got"),
        ({"scale_factor": np.float16(1)}, TypeError, "scale_factor: expected float32 or"),
        ({"scale_factor": True}, TypeError, "scale_factor: expected numbers, got True"),
        (
            {"scale_factor": [0.5, 1]},
            ValueError,
            "scale_factor: expected one number",
        ),
        ({"add_offset": [0.5, 1]}, ValueError, "add_offset: expected one number, got 2"),
        ({"_FillValue": 300}, ValueError, "_FillValue: expected integers within the range"),
        ({"_FillValue": 0.5}, ValueError, "_FillValue: expected integers, of codes"),
        (
            {"_FillValue": np.nan},
            ValueError,
            "_FillValue: expected integers, of codes",
        ),
        (
            {"_FillValue": np.inf},
            ValueError,
            "_FillValue: expected integers, of codes",
        ),
        ({"_FillValue": "x"}, TypeError, "_FillValue: expected numbers, got 'x'"),
        (
            {"missing_value": [1, 400]},
            ValueError,
            "missing_value: expected integers",
        ),
        ({"missing_value": []}, TypeError, "missing_value: expected numbers, got"),
        ({"_Unsigned": "yes"}, ValueError, "_Unsigned: expected 'true' or 'false', got"),
        ({"_Unsigned": True}, ValueError, "_Unsigned: expected 'true' or 'false', got"),
        ([], TypeError, "attrs: expected a mapping of attributes, got list"),
    ],
)
def test_attributes_without_meaning(attrs, error, text):
    out = np.full(1, 7, np.float64)
    for call in (
        lambda: cf.decode(np.int8([1]), attrs, out=out),
        lambda: cf.encode(np.float64([1]), attrs, "int8", out=out.view(np.int8)[:1]),
        lambda: cf.params(attrs, "int8"),
    ):
        with pytest.raises(error, match=f"^{text}") as caught:
            call()
        assert "\n" not in str(caught.value)
    assert out == 7


@pytest.mark.parametrize(
    ("attrs", "error", "text"),
    [
        (
            {"_FillValue": 1, "missing_value": 2},
            ValueError,
            "missing_value: expected _",
        ),
        ({"_FillValue": 1, "valid_min": 0}, ValueError, "_FillValue: expected codes outsi"),
        ({"missing_value": 1, "valid_min": 0}, ValueError, "missing_value: expected codes"),
        ({"valid_range": [0.0, 9.0]}, TypeError, "valid_range: expected integers, of code"),
        ({"valid_range": [9, 0]}, ValueError, "valid_range: expected a lowest and a high"),
        ({"valid_range": [1, 2, 3]}, ValueError, "valid_range: expected a lowest and a hi"),
        (
            {"valid_range": [0, 9], "valid_max": 9},
            ValueError,
            "valid_range: expected no",
        ),
        ({"valid_max": 900}, ValueError, "valid_max: expected integers within the range"),
        ({"valid_max": -128}, ValueError, "valid_max: expected a lowest and a higher"),
    ],
)
def test_contradictions(attrs, error, text):
    """Which do not matter where there are codes already."""
    assert cf.decode(np.int8([3]), attrs | SCALE) == 1.5
    with pytest.raises(error, match=f"^{text}") as caught:
        cf.encode([1.0], attrs | SCALE, "int8")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: cf.decode(np.int64([1]), SCALE),
            TypeError,
            "q: expected one of int8, .*",
        ),
        (lambda: cf.decode([1.5], SCALE), TypeError, "q: expected .* float64"),
        (
            lambda: cf.params(SCALE, "some"),
            TypeError,
            "dtype: expected .* 'some'",
        ),
        (
            lambda: cf.encode([1.0], SCALE, "int4"),
            TypeError,
            "dtype: expected .* int4",
        ),
        (
            lambda: cf.encode(np.int8([1]), SCALE, "int8"),
            TypeError,
            "x: expected float32",
        ),
        (
            lambda: cf.encode(np.complex64([1]), SCALE, "int8"),
            TypeError,
            "x: expected .* co",
        ),
        (
            lambda: cf.encode(np.complex64([1]), {}, "int8"),
            TypeError,
            "x: expected .* got ",
        ),
        (lambda: cf.encode(["a"], SCALE, "int8"), (TypeError, ValueError), "x: expected"),
        (
            lambda: cf.encode([1.0], SCALE, "int8", out=np.zeros(1, "u1")),
            TypeError,
            "out: expected an array of int8, got uint8",
        ),
        (
            lambda: cf.encode([1.0], SCALE, "int8", out=np.zeros(2, "i1")),
            ValueError,
            r"out: expected a writeable array of shape \(1,\), got \(2,\)",
        ),
        (
            lambda: cf.decode(np.int8([1]), {}, out=[0]),
            TypeError,
            "out: expected an array of int8, got list",
        ),
        (
            lambda: cf.encode([1.0], SCALE, "int8", out_of_range="clip"),
            ValueError,
            "out_of_range: expected one of",
        ),
    ],
)
def test_errors(call, error, text):
    with pytest.raises(error, match=f"^{text}") as caught:
        call()
    assert "\n" not in str(caught.value)


def test_docstrings():
    assert doctest.testmod(cf).attempted > 6
    assert doctest.testmod(cf).failed == 0
