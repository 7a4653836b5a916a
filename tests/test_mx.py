"""Tests of `mx`: scales by four rules, codes and numbers, order of stored scales."""

import itertools
from fractions import Fraction

import mx_oracle
import numpy as np
import oracle
import pytest
from mx_oracle import wild
from support import loop, uniform_bits

import pyquant as pq

ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the types of weights

from pyquant.weights import _magnitudes, mx  # noqa: E402


def parts(w):
    """Return the unpacked elements and the scales of a weight."""
    codes, scales = w.tensors().values()
    if "weight_packed" in w.tensors():
        codes = pq.unpack(pq.PackedArray(codes.reshape(-1), "float4_e2m1fn", w.shape))
    return codes, scales


def scales_of(x, name, **how):
    """Quantize and return the scales. Append a 0 to rows of odd length, to fill a byte."""
    x = np.asarray(x)
    x = x if x.shape[-1] % 2 == 0 else np.append(x, 0 * x[..., :1], -1)
    return parts(mx.quantize(x, name, **how))[1]


def read(codes, scales, block_size=32):
    given = {"weight": codes, "weight_scale": scales}
    return mx.from_tensors(given, block_size=block_size)


E8M0 = np.dtype(ml_dtypes.float8_e8m0fnu)
FLOATS = ("float8_e4m3fn", "float8_e5m2")


def magnitudes():
    """Return magnitudes at limits of the rules, their neighbours, and random magnitudes."""
    near = [np.float32(1 + k / 32) for k in range(32)]
    sevens = [np.float32(v) for v in (6, 7, 7.5, 28, 448, 449, 57344, 61440)]
    powers = [np.float32(2.0**e) for e in (-149, -140, -127, -126, -125, -9, 0, 9, 126)]
    given = [p * v for p in powers for v in (*near, *sevens)]
    given += [np.float32(v) for v in (0, 1e-40, np.finfo(np.float32).max)]
    around = [np.nextafter(v, np.float32(end)) for v in given for end in (0, np.inf)]
    found = np.concatenate([given, around, abs(uniform_bits("float32", 600, 5))])
    return found[np.isfinite(found)].astype(np.float32)


@pytest.mark.parametrize("name", mx_oracle.TYPES)
@loop("rule", mx_oracle.RULES)
def test_scales(name, rule):
    with np.errstate(over="ignore"):
        a = magnitudes()
    got = scales_of(-a[:, None], name, rule=rule)
    assert got.dtype == E8M0
    assert got.shape == (a.size, 1)
    due = [mx_oracle.scale_byte([v], name, rule) for v in a]
    np.testing.assert_array_equal(got.view(np.uint8).ravel(), due)


# For each unrounded scale, the exponents of the rounded scale by each rule of RULES.
GIVEN = {
    1.125: (0, 1, 0, 1),
    1.25: (0, 1, 0, 1),
    5: (2, 3, 2, 3),
    1.5: (0, 1, 1, 1),
    0.25: (-2, -2, -2, -2),
    2.0**-127: (-127, -127, -127, -127),
    2.0**-126.5: (-127, -126, -127, -126),
    1e-300: (-127, -127, -127, -127),
    0: (-127, -127, -127, -127),
    3e38: (127, 127, 127, 127),
    1e300: (127, 127, 127, 127),
}


@loop("rule", mx_oracle.RULES)
def test_given_scales_are_rounded_by_a_rule(rule):
    k = mx_oracle.RULES.index(rule)
    given = {"scale_dtype": E8M0, "scale_rule": rule}
    p = pq.QParams(list(GIVEN), None, "int8", axis=0, **given)
    assert (p.scale.view(np.uint8).astype(int) - 127).tolist() == [
        row[k] for row in GIVEN.values()
    ]
    assert pq.QParams(5.0, 3, "int8", **given).scale == 2.0 ** GIVEN[5][k]
    assert pq.QParams([1.125], None, "int8", axis=0, scale_dtype=E8M0).scale == [2]
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"^scale: expected finite numbers of at l"):
            pq.QParams(bad, 0, "int8", **given)


CODES = [
    *((name, None) for name in (*mx_oracle.TYPES, "int8", "uint8", "int4", "uint16")),
    ("int8", (-3, 5)),
    ("uint8", (2, 13)),
    ("int32", (-1787402726, 5)),
]


@loop("rule, codes, symmetric", mx_oracle.RULES, CODES, [True, False, None])
def test_chosen_scales_by_a_rule(rule, codes, symmetric):
    """Compare with the formulas of MX for MX elements, and with the oracle for integers."""
    code, quant_range = codes
    narrow = code in mx_oracle.TYPES
    if narrow and symmetric is False:
        return
    options = {
        "dtype": code,
        "symmetric": symmetric,
        "quant_range": quant_range,
        "scale_dtype": E8M0,
        "scale_rule": rule,
    }
    rng = np.random.default_rng(3)
    x = np.float32(rng.normal(size=(9, 10)) * np.exp2(rng.integers(-9, 9, (9, 1))))
    x[0], x[1] = 0, np.finfo(np.float32).max / 8
    p = pq.choose_qparams(x, axis=1, block_size=5, **options)
    if narrow:
        due = scales_of(x, code, rule=rule, block_size=5)
        np.testing.assert_array_equal(p.scale.view(np.uint8), due.view(np.uint8))
        return
    if symmetric is None:
        symmetric = code[0] != "u"
    to = oracle.target_of(oracle.FLOAT32, code, symmetric, quant_range, "float8_e8m0fnu")
    steps = to.middle[1] if symmetric else to.highest - to.lowest
    for index, block in np.ndenumerate(np.empty((9, 2))):
        row, k = index
        block = [0, *x[row, 5 * k : 5 * k + 5].tolist()]
        low, high = min(block), max(block)
        span = np.float32(max(-low, high) if symmetric else high - low)
        scale = mx_oracle.scale_byte([span], code, rule, steps)
        assert p.scale.view(np.uint8)[index] == scale
        exact = Fraction(2) ** (scale - 127)
        assert int(p.zero_point[index]) == oracle._zero_point(exact, Fraction(low), to)
    assert pq.choose_qparams([1e300], **options).scale == 2.0**127
    views = {"axis": 0}, {"axis": None}, {"axis": (1, 0)}, {"block_size": (4, 3)}
    for one in (x, x[:0]) if rule == "ceil" else ():
        for where in views:
            p = pq.choose_qparams(one, **where, **options)
            assert p.scale.shape == pq.choose_qparams(one, **where).scale.shape
            if one.size:
                assert pq.measure_error(one, p.dequantize(p.quantize(one))).sqnr > 0


@pytest.mark.parametrize("name", mx_oracle.TYPES)
def test_names_and_types_of_files(name):
    w = mx.quantize((np.arange(32, dtype=np.float32) - 16) / 8, name)
    data, scales = w.tensors().values()
    y = pq.dequantize(parts(w)[0], scales, axis=0, block_size=32)
    for one in (w, pq.weights.from_tensors(w.tensors("a"), "a"), read(data, scales)):
        np.testing.assert_array_equal(one.dequantize(), y)
    if name == "float4_e2m1fn":
        y = np.stack([y, y]).reshape(1, 64)
        stored = {
            "a_blocks": np.stack([data, data])[None],
            "a_scales": scales.repeat(2)[None],
        }
        np.testing.assert_array_equal(pq.weights.from_tensors(stored, "a").dequantize(), y)
        data, scale = np.concatenate([data, data]), scales.view("u1").repeat(2)
        for dtype in ("i1", "u1", "<i4", ">i4"):
            given = {
                "a.weight": data.view("<" + dtype[-2:]).astype(dtype),
                "a.scale": scale,
            }
            y = y.reshape(pq.weights.from_tensors(given, "a").shape)
            np.testing.assert_array_equal(
                pq.weights.from_tensors(given, "a").dequantize(), y
            )


@pytest.mark.parametrize("name", mx_oracle.TYPES)
@loop("rule", mx_oracle.RULES)
def test_codes(name, rule):
    x = wild((40, 46), 3)
    x[0, :20] = -0.0
    codes, scales = parts(mx.quantize(x, name, rule=rule, block_size=20))
    for row, blocks in enumerate(mx_oracle.blocks_of(x, 20)):
        for k, block in enumerate(blocks):
            byte = mx_oracle.scale_byte(block, name, rule)
            assert scales.view(np.uint8)[row, k] == byte
            due = mx_oracle.encode(block, name, Fraction(2) ** (byte - 127))
            assert codes.view(np.uint8)[row, 20 * k : 20 * k + len(block)].tolist() == due


@pytest.mark.parametrize("name", mx_oracle.TYPES)
def test_numbers(name):
    fmt = oracle.NARROW_FORMATS[name]
    positive = np.arange(fmt.largest + 1)
    q = np.concatenate([positive, positive | fmt.sign_bit]).astype(np.uint8)
    stored = np.uint8([0, 1, 60, 127, 180, 240])
    q = np.broadcast_to(q, (stored.size, q.size)).view(getattr(ml_dtypes, name))
    for scales in (stored[:, None], stored[:, None].view(E8M0)):
        got = read(q, scales, q.shape[1]).dequantize(dtype="float64")
        for row, byte in zip(got, stored.tolist(), strict=True):
            due = [
                float(mx_oracle.decode(int(c), name) * Fraction(2) ** (byte - 127))
                for c in q[0].view(np.uint8)
            ]
            assert row.tolist() == due


@pytest.mark.parametrize("name", mx_oracle.TYPES)
@loop("rule", mx_oracle.RULES)
def test_blocks_that_are_not_finite(name, rule, monkeypatch):
    x = wild((30, 64), 4)
    usual = scales_of(x, name, rule=rule).view(np.uint8)
    x[3, 40], x[7, 0], x[7, 63], x[20, 5] = np.nan, np.inf, -np.inf, -np.nan
    lost = np.zeros(usual.shape, bool)
    lost[[3, 7, 7, 20], [1, 0, 1, 0]] = True
    for copied in (_magnitudes.COPIED, 64, 1):
        monkeypatch.setattr(_magnitudes, "COPIED", copied)
        w = mx.quantize(x, name, rule=rule)
        codes, scales = parts(w)
        np.testing.assert_array_equal(scales.view(np.uint8), np.where(lost, 255, usual))
        nan = np.isnan(w.dequantize()).reshape(30, 2, 32)
        np.testing.assert_array_equal(nan, np.broadcast_to(lost[..., None], nan.shape))
        if name in FLOATS:
            assert np.isnan(codes.astype(np.float32).reshape(30, 2, 32)[lost]).all()


def test_float64_is_rounded_once():
    above = np.nextafter(np.float64(2), 3)  # 2, as float32
    assert scales_of([above], "float4_e2m1fn", rule="ceil").view(np.uint8) == [126]
    huge = np.float64([1e300, 1])
    assert scales_of(huge, "float4_e2m1fn").view(np.uint8) == [255]
    # Quotients of float64 inputs are float64: 0.25 + 2**-40 is not rounded to the tie 0.25.
    x = np.float64([4, 0.25 + 2.0**-40])
    codes, scales = parts(mx.quantize(x, "float4_e2m1fn", rule="ceil"))
    assert scales.view(np.uint8) == [127]
    assert codes.view(np.uint8).tolist() == [6, 1]


@loop("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_types(dtype):
    x = wild((6, 5, 70), 6)
    x = np.clip(x, -1e4, 1e4).astype(getattr(ml_dtypes, dtype, dtype))
    how = {"rule": "even", "block_size": 16}
    w = mx.quantize(x, "float6_e3m2fn", **how)
    single = mx.quantize(x.astype(np.float32), "float6_e3m2fn", **how)
    for one, wide in zip(*map(parts, (w, single)), strict=True):
        assert one.tobytes() == wide.tobytes()


@loop("slab", [1, 7, 64, 1000])
def test_slabs_and_threads(slab, monkeypatch, small_parts):
    x = wild((7, 33, 9), 7)
    x[2, 30, 1] = np.nan
    views = [np.moveaxis(x, k, -1) for k in range(3)]
    due = [parts(mx.quantize(one, "float8_e5m2", block_size=4))[1] for one in views]
    monkeypatch.setattr(_magnitudes, "SLAB", slab)
    for threads, axis in itertools.product((1, 3), range(3)):
        how = {"block_size": 4, "threads": threads}
        mx.quantize(views[axis] * 64, "float8_e5m2", **how)  # fills memory
        got = parts(mx.quantize(views[axis], "float8_e5m2", **how))[1]
        assert got.tobytes() == due[axis].tobytes()


def test_no_elements():
    for shape, grid in (((0, 64), (0, 2)), ((3, 0), (3, 0))):
        for name in ("float8_e4m3fn", "float4_e2m1fn"):
            w = mx.quantize(np.zeros(shape, np.float32), name)
            assert (w.dequantize().shape, parts(w)[1].shape) == (shape, grid)
    x = np.broadcast_to(np.float32(3), (2, 40))
    assert scales_of(x, "float4_e2m1fn").view(np.uint8).tolist() == [[126, 126]] * 2


@loop("shape", [(1, 1), (128, 4), (129, 5), (300, 11), (0, 3), (5, 0)])
def test_unswizzle(shape):
    rows, columns = shape
    high, wide = -(-rows // 128), -(-columns // 4)
    rng = np.random.default_rng(1)
    due = rng.integers(0, 255, shape).astype(np.uint8)
    tiles = np.zeros(high * wide * 512, np.uint8)
    for r in range(rows):
        for c in range(columns):
            tile = (r // 128) * wide + c // 4
            place = tile * 512 + (r % 32) * 16 + (r % 128 // 32) * 4 + c % 4
            tiles[place] = due[r, c]
    got = mx.unswizzle(tiles, shape)
    np.testing.assert_array_equal(got, due)
    assert got.flags.owndata
    typed = mx.unswizzle(tiles.reshape(-1, 512).view(E8M0), shape)
    assert typed.dtype == E8M0
    np.testing.assert_array_equal(typed.view(np.uint8), due)


X = np.ones((2, 64), np.float32)
CODES = X.astype(ml_dtypes.float8_e4m3fn)


@loop("name, rule", mx_oracle.TYPES, mx_oracle.RULES)
def test_equals_torchao(name, rule):
    torch = pytest.importorskip("torch")  # optional
    theirs = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")  # optional
    constants = pytest.importorskip("torchao.prototype.mx_formats.constants")  # optional
    kinds = {
        "float6_e2m3fn": constants.DTYPE_FP6_E2M3,
        "float6_e3m2fn": constants.DTYPE_FP6_E3M2,
        "float4_e2m1fn": torch.float4_e2m1fn_x2,
    }
    kind = kinds.get(name) or getattr(torch, name)
    x = wild((2000, 32), 8)
    mode = theirs.ScaleCalculationMode[rule.upper()]
    scales, codes = theirs.to_mx(torch.from_numpy(x), kind, 32, mode)
    scales = scales.view(torch.uint8).numpy()
    codes = codes.contiguous().view(torch.uint8).numpy()
    q, s = parts(mx.quantize(x, name, rule=rule))
    if name == "float4_e2m1fn":
        codes = np.stack([codes & 15, codes >> 4], -1).reshape(x.shape)
    usual = scales.ravel() > 1  # if a scale is 0, torchao divides by 1 or 2**-126
    assert usual.sum() > 1500
    np.testing.assert_array_equal(s.view(np.uint8), scales)
    np.testing.assert_array_equal(q.view(np.uint8)[usual], codes[usual])
