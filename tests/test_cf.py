"""Compare `pyquant.integrations.cf` with xarray and, for missing values, with netCDF4.

Tests are skipped if the package to compare with is not installed.
"""

import itertools
import warnings

import numpy as np
import pytest
from support import case, peak_of, same

from pyquant.integrations import cf

CODES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
# the value of `_Unsigned` that changes a signed type to unsigned, or back
OTHER = {"i": "true", "u": "false"}
# Pairs of scale_factor and add_offset. `None` means that the attribute is missing.
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
INTEGRAL = [(2, None), (np.int16(-3), None), (np.uint64(3), None)]
# Attributes of missing values. The function `attributes` replaces the words by values.
FILLS = [
    {},
    {"_FillValue": "last"},
    {"missing_value": "last"},
    {"_FillValue": "last", "missing_value": "last"},
    {"_FillValue": "last", "missing_value": "first"},
    {"missing_value": "both"},
    {"_FillValue": "float"},
    {"_FillValue": "huge"},
    {"missing_value": "half"},
    {"_FillValue": "NaN"},
]

SCALE = {"scale_factor": 0.5}


def attributes(affine, fills, dtype):
    info = np.iinfo(dtype)
    last = info.max if info.bits < 64 else 2**62  # a float64
    one = {
        "last": np.dtype(dtype).type(last),
        "first": np.dtype(dtype).type(info.min),
        "both": np.array([last, info.min], dtype),
        "float": np.float64(last),
        "huge": 1e20,
        "half": 0.5,
        "NaN": np.float32(np.nan),
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
    ends = [info.min, info.max if info.bits < 64 else 2**62, 0]
    return np.concatenate([some, near.astype(dtype), np.array(ends, dtype)])


def decoded(q, attrs):
    xr = pytest.importorskip("xarray")  # skips the test without the package
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        variable = xr.Variable(("x",), q, dict(attrs))
        return xr.conventions.decode_cf_variable("v", variable).values


def encoded(x, attrs, dtype):
    xr = pytest.importorskip("xarray")  # skips the test without the package
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        variable = xr.Variable(("x",), x, {}, {**attrs, "dtype": np.dtype(dtype)})
        return xr.conventions.encode_cf_variable(variable).values


def check_encode(x, attrs, dtype):
    """Compare the codes of cf.encode() with the codes of xarray. Return the codes."""
    with case(attrs=attrs):
        q = cf.encode(x, attrs, dtype)
        same(q, encoded(x, attrs, dtype))
        return q


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
        if fills and narrow and q.dtype.itemsize >= 4:
            continue  # test_fills_that_float32_does_not_tell_apart
        with case(attrs=attrs):
            y = cf.decode(q, attrs)
            same(y, decoded(q, attrs))
            p = cf.qparams(attrs, dtype)
            if y.dtype.kind == "f":
                same(y, p.dequantize(q.view(p.dtype), dtype=p.scale.dtype))


@pytest.mark.parametrize("dtype", [*CODES, "float32", "float64"])
@pytest.mark.parametrize("affine", INTEGRAL, ids=str)
def test_decodes_by_an_integer_scale(affine, dtype):
    floats = dtype.startswith("f")
    q = np.arange(200).astype(dtype)
    attrs = attributes(affine, {}, "int8")
    if floats:  # xarray truncates them
        same(cf.decode(q, attrs), q * np.dtype(dtype).type(affine[0]))
        return
    y = cf.decode(q, attrs)
    same(y, decoded(q, attrs))
    assert cf.qparams(attrs, dtype).scale.dtype == np.float64
    # xarray raises an error for this fill value
    attrs["_FillValue"] = np.dtype(dtype).type(7)
    due = q.astype(np.float64) * float(affine[0])
    due[q == 7] = np.nan
    same(cf.decode(q, attrs), due)


def test_fills_that_float32_does_not_tell_apart():
    """Codes and fill values are compared as integers. xarray compares in float32, which
    does not represent the netCDF fill value -2147483647."""
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
    attrs["missing_value"] = np.int8(-2)  # xarray compares -2 with 254, the unsigned code
    same(cf.decode(q, attrs), np.float32([np.nan, np.nan, 3]))
    del attrs["_FillValue"]
    same(cf.decode(q, attrs), np.float32([255, np.nan, 3]))
    assert cf.encode(np.float32([np.nan]), attrs, "int8") == -2


def test_missing_values_have_the_stored_type():
    """`missing_value` has the stored type, as in the CF conventions and in netCDF4."""
    netcdf = pytest.importorskip("netCDF4")  # skips the test without the package
    q = np.int8([-62, 1])
    attrs = {"missing_value": np.int8(-62), "_Unsigned": "true"}
    with netcdf.Dataset("v", "w", diskless=True) as file:
        file.createDimension("x", 2)
        v = file.createVariable("v", "i1", "x")
        v.set_auto_maskandscale(False)
        v[:] = q
        v.setncatts(attrs)
        v.set_auto_maskandscale(True)
        assert v[:].tolist() == [None, 1]
    same(cf.decode(q, attrs), np.float32([np.nan, 1]))


@pytest.mark.parametrize("real", ["float16", "float32", "float64"])
def test_decodes_floats_as_xarray_does(real):
    q = np.random.default_rng(2).normal(0, 100, 70_000).astype(real)
    q[5::7], q[6::11], q[:2] = 1.25, np.nan, [np.inf, -0.0]
    fills = [{}, {"_FillValue": np.dtype(real).type(1.25)}, {"missing_value": 7.5}]
    fills += [{"_FillValue": np.float32(np.nan)}, {"missing_value": np.float32([2, 1.25])}]
    for affine, fill in itertools.product(AFFINE, fills):
        attrs = attributes(affine, {}, "int8") | fill | {"_Unsigned": "false"}
        with case(attrs=attrs):
            same(cf.decode(q, attrs), decoded(q, attrs))


def test_python_fills_have_the_type_of_floats():
    q = np.float32([1e20, 0.1, 2])
    assert np.isnan(cf.decode(q, {"missing_value": [1e20, 0.1]})).tolist() == [1, 1, 0]
    y = cf.decode(q, {"_FillValue": 1e20, "add_offset": 1.0})
    same(y, np.float64([np.nan, float(np.float32(0.1)) + 1, 3]))
    out = np.empty(3, np.float64)
    assert cf.decode(q, {"_FillValue": 1e20, "add_offset": 1.0}, out=out) is out
    same(out, y)


def test_one_element_arrays_are_numbers():
    q = np.int16([1, 2, 3])
    pair = {"scale_factor": np.float32([0.5]), "add_offset": np.float32([1])}
    same(cf.decode(q, pair), decoded(q, pair))
    swapped = {"scale_factor": np.array([0.01], ">f8"), "_FillValue": np.array([2], ">i2")}
    same(cf.decode(q, swapped), cf.decode(q, {"scale_factor": 0.01, "_FillValue": 2}))
    one = {"scale_factor": np.float32([0.5])}  # xarray returns objects
    same(cf.decode(q, one), np.float64([0.5, 1, 1.5]))


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
    span = min(int(info.max), 2**20)  # float32 represents integers up to 2**20
    for affine in AFFINE[:-1]:
        scale, offset = (1 if affine[0] is None else affine[0]), (affine[1] or 0)
        q = rng.integers(max(info.min + 1, -span), span - 1, 3000)
        wide = (q + rng.choice([0, 0.5, 0.49999, rng.random()], 3000)) * float(scale)
        x = (wide + float(offset)).astype(real)
        for fills in FILLS[:4]:
            attrs = attributes(affine, fills, dtype)
            x[::7] = np.nan if fills else x[1]
            q = check_encode(x, attrs, dtype)
            own = attrs | {"_Unsigned": {"i": "false", "u": "true"}[info.kind]}
            same(cf.encode(x, own, dtype), q)


@pytest.mark.parametrize("real", ["float32", "float64"])
def test_encodes_other_signs_as_xarray_does(real):
    for affine in AFFINE[:-1]:
        scale, offset = (1 if affine[0] is None else affine[0]), (affine[1] or 0)
        x = (np.arange(255) * float(scale) + float(offset)).astype(real)
        x[3] = np.nan
        attrs = attributes(affine, {}, "int8") | {"_Unsigned": "true"}
        attrs["_FillValue"] = np.int8(-1)
        q = check_encode(x, attrs, "int8")
        assert q[3] == -1
        assert q[254] == -2 or real == "float32"


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
@pytest.mark.parametrize("source", ["int8", "int16", "int32", "uint64"])
def test_encodes_integers_as_xarray_does(source, dtype):
    x = np.arange(100).astype(source)
    for affine, fills in itertools.product(AFFINE[:-1], FILLS[:2]):
        attrs = attributes(affine, fills, dtype)
        if affine == (None, None) or not fills:
            check_encode(x, attrs, dtype)
        if fills:
            check_encode(np.ma.masked_array(x, x % 5 == 0), attrs, dtype)


@pytest.mark.parametrize("out_of_range", ["saturate", "wrap", "raise"])
def test_integers_without_scale_are_exact(out_of_range):
    x = np.int64([2**62 + 1, -(2**63), 2**63 - 1])
    same(cf.encode(x, {}, "int64", out_of_range=out_of_range), x)
    same(cf.encode(x.tolist(), {}, "int64", out_of_range=out_of_range), x)
    big = np.uint64([2**64 - 1, 7])
    if out_of_range == "raise":
        with pytest.raises(ValueError, match=r" 9223372036854775807, got 1 faulty"):
            cf.encode(big, {}, "int64", out_of_range="raise")
    else:
        wraps = out_of_range == "wrap"
        due = np.int64([-1 if wraps else 2**63 - 1, 7])
        same(cf.encode(big, {}, "int64", out_of_range=out_of_range), due)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("source", ["float32", "float64", "int16", "masked"])
def test_encodes_to_floats_as_xarray_does(source, dtype):
    x = np.arange(-50, 50)
    x = np.ma.masked_array(x, x < 3) if source == "masked" else x.astype(source)
    if x.dtype.kind == "f":
        x[3::5] = np.nan
    fill = {"_FillValue": np.dtype(dtype).type(1e20)}
    for affine, attrs in itertools.product(AFFINE[:-1], [{}, fill]):
        if attrs and source == "int16" and affine != (None, None):
            continue  # xarray raises an error, because it divides integers in place
        check_encode(x, attributes(affine, {}, "int8") | attrs, dtype)


def test_masked_arrays_become_fill_values():
    x = np.ma.masked_array(np.float32([[1, 2], [3, 4]]), [[0, 1], [0, 0]])
    attrs = SCALE | {"_FillValue": -9}
    assert cf.encode(x, attrs, "int8").tolist() == [[2, -9], [6, 8]]
    assert cf.encode(x.T, attrs, "int8").tolist() == [[2, 6], [-9, 8]]
    assert cf.encode(x, SCALE, "int8").tolist() == [[2, -128], [6, 8]]
    shown = np.ma.masked_array(x.data, False)
    assert cf.encode(shown, attrs, "int8").tolist() == [[2, 4], [6, 8]]


def test_wider_integers_are_encoded_in_slices():
    """Arrays of several slices, of any strides and of 0 dimensions encode correctly."""
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
    # `memory` is the lower half of each element of x, so that output and input overlap
    memory = x.view(np.int16)[:, ::2]
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
    said = r"^x: .* 2 faulty elements, the .* \(0, 0\); out has all codes, .* 'raise'$"
    with pytest.raises(ValueError, match=said):
        cf.encode(x, attrs, "int8", out_of_range="raise", out=out)
    assert out.view("u1").tolist() == [[0, 0, 255], [255, 7, 255]]
    attrs |= {"valid_min": 5, "valid_max": np.int16(100)}
    assert cf.encode(x, attrs, "int8").view("u1").tolist() == [[5, 5, 100], [100, 7, 255]]
    with pytest.raises(ValueError, match=r"are from 5 to 100, got 4 faulty elements"):
        cf.encode(x, attrs, "int8", out_of_range="raise")
    with pytest.raises(ValueError, match=r"^out_of_range: expected"):
        cf.encode(x, attrs, "int8", out_of_range="wrap")


def test_slices_take_little_memory():
    x, out = np.ones(4_000_000, np.float32), np.empty(4_000_000, np.int16)
    attrs = {"scale_factor": np.float64(0.01)}
    cf.encode(x[:9], attrs, "int16")
    assert peak_of(lambda: cf.encode(x, attrs, "int16", out=out))[1] < 2_000_000


def test_the_first_one_may_be_in_a_later_slice():
    x = np.zeros((300, 700), np.float32)
    x[123, [45, 46]] = x[299, 699] = 1e9
    message = r"3 faulty elements, the first at index \(123, 45\)$"
    for attrs in (SCALE, {"scale_factor": np.float32(0.5)}):  # slices, one pass
        with pytest.raises(ValueError, match=message):
            cf.encode(x, attrs, "int16", out_of_range="raise")


def test_scales_beyond_float32():
    x = np.float32([1, -np.inf])
    for huge in (1e308, np.float64(1e308)):
        attrs = {"scale_factor": huge, "_FillValue": np.int8(-1)}
        assert cf.encode(x, attrs, "int8")[0] == 0


def test_halves_are_taken_as_float32():
    ml_dtypes = pytest.importorskip("ml_dtypes")  # skips the test without bfloat16
    for half in (np.float16, ml_dtypes.bfloat16):
        x = np.arange(-9, 9).astype(half)
        for scale in (np.float32(0.3), np.float64(0.3)):
            attrs = {"scale_factor": scale}
            due = encoded(x.astype(np.float32), attrs, "int16")
            same(cf.encode(x, attrs, "int16"), due)


def test_decoding_ignores_contradictions():
    fills = {"_FillValue": 1, "missing_value": 2}, {"_FillValue": 300}
    for attrs in (*fills, {"valid_range": [9, 0]}, {"valid_max": 900}):
        assert cf.decode(np.int8([3]), attrs | SCALE) == 1.5
