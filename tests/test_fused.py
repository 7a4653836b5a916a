"""Compare dynamic_quantize and fake_quantize with two separate calls, and test masks.

Oracles: `choose_qparams`, `quantize` and `dequantize`.
"""

import numpy as np
import oracle
import pytest
from support import (
    CODES,
    EVERY_CODE,
    HAVE_BFLOAT16,
    PACKED,
    REALS,
    amount,
    at_level,
    case,
    dequantize_at,
    draw_granularity,
    draw_layout,
    loop,
    quantize_at,
)

import pyquant as pq
from pyquant.dtypes import NARROW_FLOATS

CHOSEN = [
    name
    for name in EVERY_CODE
    if name not in ("int64", "uint64") and (HAVE_BFLOAT16 or hasattr(np, name))
]
SCALES = ("float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e8m0fnu")
INTEGERS = [dtype.name for dtype in CODES]
X = np.array([[-1, 0.5, 2], [0, 0, 0], [0.1, 0.2, 0.3]], np.float32)


def dynamic(isa, x, dtype="int8", **options):
    return at_level(isa, pq.dynamic_quantize, x, dtype=dtype, **options)


def fake(isa, x, scale, zero=None, dtype=None, **options):
    return at_level(isa, pq.fake_quantize, x, scale, zero, dtype=dtype, **options)


def same(a, b):
    """Return true if two results have equal types, shapes and bytes."""
    if isinstance(a, pq.PackedArray):
        return a == b and a.data.tobytes() == b.data.tobytes()
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def draw_array(rng, dtype):
    """Return random numbers, in an array of random shape and memory layout."""
    ndim = int(rng.integers(0, 4))
    shape = tuple(int(n) for n in rng.integers(1, 30, ndim))
    if rng.random() < 0.2:
        shape = (int(rng.integers(1, 9)), int(rng.integers(1, 3000)))
    values = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 3)
    if rng.random() < 0.3:
        values = values * 10.0 ** rng.uniform(-4, 1, shape)
    x = np.asarray(values).astype(dtype)
    if ndim and rng.random() < 0.1:
        return np.broadcast_to(x[:1], x.shape)
    return draw_layout(rng, x)


def draw_noise(rng):
    """Return random options of stochastic rounding: a seed and the place of element 0."""
    places = (None, 0, 7, 2**32 - 5, 2**64 - 3)
    return {
        "rounding": "stochastic",
        "seed": places[rng.integers(0, len(places))],
        "start": places[rng.integers(0, len(places))],
    }


@loop("dtype", REALS)
def test_dynamic_is_two_calls(isa, dtype):
    rng = np.random.default_rng([1, REALS.index(dtype)])
    for _ in range(amount(50, 400)):
        x = draw_array(rng, dtype)
        code = CHOSEN[rng.integers(0, len(CHOSEN))]
        integer = code not in NARROW_FLOATS
        axis, block_size = draw_granularity(rng, x.shape)
        choice = {"axis": axis, "block_size": block_size}
        if integer and rng.random() < 0.5:
            choice["symmetric"] = bool(rng.random() < 0.5)
        if rng.random() < 0.2 and HAVE_BFLOAT16:
            choice["scale_dtype"] = SCALES[rng.integers(0, len(SCALES))]
        if rng.random() < 0.3 and code in ("int8", "uint8"):
            choice["quant_range"] = (0, 100) if code == "uint8" else (-64, 63)
        if rng.random() < 0.2 and code == "int8" and choice.get("symmetric") is not False:
            choice["like"] = ("onnxruntime", "pytorch")[rng.integers(0, 2)]
        how = {"packed": code in PACKED and bool(rng.random() < 0.7)}
        if rng.random() < 0.4:
            how |= draw_noise(rng)
        elif integer and rng.random() < 0.2:
            how["rounding"] = oracle.MODES[rng.integers(0, len(oracle.MODES))]
        with case(shape=x.shape, strides=x.strides, code=code, **choice, **how):
            p = pq.choose_qparams(x, dtype=code, **choice)
            want = p.quantize(x, **how)
            q, made = dynamic(isa, x, code, **choice, **how)
            assert made == p
            assert same(q, want)
            assert same(made.quantize(x, **how), want)


@loop("code", ["uint8", "int16"])
def test_dynamic_ranges_of_many_small_groups(isa, code):
    """Test group sizes that are no multiples of the kernels' chunks."""
    x = np.random.default_rng(3).standard_normal(1000, np.float32)
    x[::7] *= 30
    for block_size in (*range(1, 40), 63, 100):
        for n in (2 * block_size + 1, 63, 75, 1000 - block_size // 2):
            options = {"block_size": block_size, "quant_range": (0, 100)}
            p = pq.choose_qparams(x[:n], dtype=code, axis=0, **options)
            q, made = dynamic(isa, x[:n], code, axis=0, **options)
            assert made == p
            assert same(q, p.quantize(x[:n])), (block_size, n)


@pytest.mark.usefixtures("small_parts")
@loop("order, packed", "CF", [False, True])
def test_stochastic_of_slabs_and_threads(order, packed):
    """Split an array that exceeds the caches between threads, along each dimension."""
    if not (packed or HAVE_BFLOAT16):
        return  # ml_dtypes is missing.
    x = np.random.default_rng(8).standard_normal((61, 4099)).astype(np.float32)
    x = np.asarray(x, order=order)
    how = {"rounding": "stochastic", "seed": 5, "start": 11}
    for axis, block_size in ((None, None), (0, None), (1, None), (1, 32), (1, 100), (0, 7)):
        options = {"axis": axis, "block_size": block_size, "dtype": "int4"}
        p = pq.choose_qparams(x, **options)
        want = p.quantize(x, packed=packed, **how)
        for n in (1, 3, 8):
            q, made = pq.dynamic_quantize(x, packed=packed, threads=n, **options, **how)
            assert made == p
            assert same(q, want), (axis, block_size, n)
            if packed:
                continue
            mask = np.zeros(x.shape, bool)
            y = pq.fake_quantize(
                x, p.scale, p.zero_point, threads=n, mask=mask, **options, **how
            )
            assert same(y, p.dequantize(want)), (axis, block_size, n)
            wide = pq.quantize(
                x, p.scale, axis=axis, block_size=block_size, dtype="int16", **how
            )
            assert (mask == (np.abs(wide + 0.5) < 8)).all()


@loop("rows, dtype", [1, 7, 8, 9, 600], REALS)
def test_dynamic_subnormal_rows_beside_normal_rows(rows, dtype):
    """Kernels may treat subnormal numbers as 0 only if the scale is normal.

    A search for extrema never treats subnormal numbers as 0.
    """
    for small in (slice(0, None, 2), slice(rows // 2, None)):
        x = np.ones((rows, 33), dtype)
        x[small] = np.finfo(dtype).smallest_subnormal if dtype.kind == "f" else 1e-40
        q, p = pq.dynamic_quantize(x, axis=0)
        expected = pq.choose_qparams(x, axis=0)
        assert p == expected
        assert same(q, expected.quantize(x))


@loop("how", [{}, {"threads": 2}, {"include_zero": False}, {"packed": True}])
def test_dynamic_scale_out(how):
    for x in (X, X[:, :0], np.broadcast_to(X[:, :1], X.shape)):
        for dtype in ("uint4", "int4"):
            want, p = pq.dynamic_quantize(x, axis=0, dtype=dtype, **how)
            scales = np.full((3, 2), 7, np.float32)
            zeros = np.full(6, 7, p.zero_point.dtype)
            outs = {"scale_out": scales[:, 0], "zero_point_out": zeros[::2]}
            got, made = pq.dynamic_quantize(x, axis=0, dtype=dtype, **how, **outs)
            assert made == p
            assert np.array_equal(np.asarray(got), np.asarray(want))
            assert np.array_equal(scales[:, 0], p.scale)
            assert np.array_equal(zeros[::2], p.zero_point)
            assert (scales[:, 1] == 7).all()
            assert (zeros[1::2] == 7).all()


@loop("name", ["scale_out", "zero_point_out"])
def test_dynamic_rejects_shared_outputs(name):
    """Reject `scale_out` or `zero_point_out` if it shares memory with another array."""
    x, memory = np.ones((4, 4), np.float32), np.zeros(64, np.int8)
    out, kept = memory[:16].reshape(4, 4), np.zeros(64, np.int8)
    shared = memory[12:28].view(np.float32) if name == "scale_out" else memory[12:16]
    inner = x[0] if name == "scale_out" else x.view(np.int8)[0, :4]
    for given in (shared, inner):
        with pytest.raises(ValueError, match=f"{name}: expected memory of its own"):
            pq.dynamic_quantize(x, axis=0, out=out, **{name: given})
    both = {"scale_out": memory[16:32].view(np.float32), "zero_point_out": memory[30:34]}
    with pytest.raises(ValueError, match="zero_point_out: expected memory of its own"):
        pq.dynamic_quantize(x, axis=0, out=out, **both)
    assert same(memory, kept)


NOT_FINITE = (np.nan, np.inf, -np.inf)


@loop("bad, options", NOT_FINITE, [{}, {"axis": 0}, {"axis": 1, "block_size": 3}])
def test_dynamic_numbers_must_be_finite(bad, options):
    x = np.ones((5, 7), np.float32)
    x[3, 2] = bad
    said = "x: expected finite values, got 1 not finite, the first at index (3, 2)"
    with pytest.raises(ValueError, match="finite") as caught:
        pq.dynamic_quantize(x, **options)
    assert str(caught.value) == said
    with pytest.raises(ValueError, match="finite") as caught:
        pq.dynamic_quantize(x, out=np.zeros((5, 7), np.int8), **options)
    assert str(caught.value) == f"{said}; out has codes of some"
    assert caught.value.index == (3, 2)


@loop("shape", [(0,), (0, 3), (3, 0), (2, 0, 4)])
def test_dynamic_of_empty_arrays(shape):
    for axis in (None, 0):
        q, p = pq.dynamic_quantize(np.empty(shape, np.float32), axis=axis)
        assert p == pq.choose_qparams(np.empty(shape, np.float32), axis=axis)
        assert q.shape == shape


def test_dynamic_numbers_and_lists():
    q, p = pq.dynamic_quantize(3.0)
    assert (q.shape, int(q), p.scale.dtype) == ((), 127, np.float64)
    q, _ = pq.dynamic_quantize([[1, 2], [3, 4]], axis=0)
    assert q.tolist() == [[64, 127], [95, 127]]


# ---- fake_quantize ----


def draw_scales(rng, x, axis, block_size):
    """Return random scales of a granularity. In a fifth of the calls, one is unusual."""
    shape = pq.choose_qparams(
        np.ones(x.shape), dtype="int8", axis=axis, block_size=block_size
    ).scale.shape
    scale = np.asarray(10.0 ** rng.uniform(-4, 1, shape)).astype(np.float32)
    if rng.random() < 0.2 and scale.size:
        odd = np.float32([0, -0.5, 1e-41, 1e-30, np.inf, np.nan, 3e38])
        scale = scale.copy()
        scale.reshape(-1)[rng.integers(0, scale.size)] = odd[rng.integers(0, len(odd))]
    return scale


def draw_options(rng, code):
    """Return a random combination of options that a call accepts."""
    options = {}
    if rng.random() < 0.3 and code not in NARROW_FLOATS:
        options["rounding"] = oracle.MODES[rng.integers(0, len(oracle.MODES))]
    elif rng.random() < 0.3:
        options.update(draw_noise(rng))
    if rng.random() < 0.2:
        options["precision"] = "float64"
    if rng.random() < 0.2 and code not in NARROW_FLOATS:
        options["quant_range"] = (0, 1)
    elif rng.random() < 0.2 and code in NARROW_FLOATS:
        options["saturate"] = False
    if rng.random() < 0.2:
        options["inverse"] = True
    if rng.random() < 0.2:
        options["offset"] = 0.25
    if rng.random() < 0.2 and code in INTEGERS and "quant_range" not in options:
        options["fill"] = 7
    return options


def both_ways(isa, x, scale, zero, code, options, granularity):
    """Return the result of the two calls that the fused call replaces."""
    back = {k: options[k] for k in ("offset", "inverse", "fill") if k in options}
    q = quantize_at(isa, x, scale, zero, dtype=code, **granularity, **options)
    dtype = x.dtype.newbyteorder("=")
    return dequantize_at(isa, q, scale, zero, dtype=dtype, **granularity, **back)


@loop("dtype", REALS)
def test_fake_is_two_calls(isa, dtype):
    rng = np.random.default_rng([2, REALS.index(dtype)])
    codes = [name for name in EVERY_CODE if HAVE_BFLOAT16 or hasattr(np, name)]
    for _ in range(amount(40, 300)):
        x = draw_array(rng, dtype)
        if x.size and rng.random() < 0.5 and x.flags.writeable:
            x = x.copy()
            odd = [np.nan, np.inf, -np.inf, -0.0, 3e38, 1e-45]
            for value in odd[: int(rng.integers(0, len(odd)))]:
                with np.errstate(all="ignore"):
                    x.reshape(-1)[rng.integers(0, x.size)] = value
        code = codes[rng.integers(0, len(codes))]
        axis, block_size = draw_granularity(rng, x.shape)
        granularity = {"axis": axis, "block_size": block_size}
        options = draw_options(rng, code)
        scale = draw_scales(rng, x, axis, block_size)
        zero = None
        if code not in NARROW_FLOATS and rng.random() < 0.5:
            zero = np.full(scale.shape, 1, np.int8) if rng.random() < 0.5 else 1
        want = both_ways(isa, x, scale, zero, code, options, granularity)
        mask = np.zeros(x.shape, bool) if rng.random() < 0.3 else None
        y = fake(isa, x, scale, zero, code, mask=mask, **granularity, **options)
        with case(shape=x.shape, strides=x.strides, code=code, **granularity, **options):
            assert same(y, want)


@loop("dtype", REALS)
def test_fake_of_long_rows_and_of_many(isa, dtype):
    """Test rows that exceed one kernel call, and rows of several groups or with gaps."""
    wide = np.random.default_rng([13, REALS.index(dtype)]).standard_normal((50, 1500)) * 9
    wide = np.concatenate([wide, wide[:, ::-1]], axis=1).astype(dtype)
    views = [wide.reshape(-1)[:29000], wide[:3, 7:2900], wide[:, :90], wide[:9, 5:45].T]
    codes = ["int8", "int64", *(["float8_e4m3fn"] if HAVE_BFLOAT16 else [])]
    hows = [
        {},
        {"rounding": "stochastic", "seed": 4, "start": 9},
        {"inverse": True, "offset": 0.5},
    ]
    for x in views:
        for axis, block_size in ((None, None), (0, None), (-1, 1100), (-1, 9500)):
            granularity = {"axis": axis, "block_size": block_size}
            p = pq.choose_qparams(x, **granularity)
            scale = np.linspace(0.01, 0.5, p.scale.size, dtype=np.float32)
            scale = scale.reshape(p.scale.shape)
            for code, how in ((code, how) for code in codes for how in hows):
                if "offset" in how:
                    how = {**how, "offset": scale * 3}
                want = both_ways(isa, x, scale, None, code, how, granularity)
                y = fake(isa, x, scale, None, code, **granularity, **how)
                assert same(y, want), f"{x.shape} by {code}, {granularity}, {how}"


@pytest.mark.parametrize("code", ["int8", "uint8", "int16", "uint16"])
@loop("axis, columns", [None, 0, 1], [96, 531, 1100])
def test_fake_at_ties_and_ends(isa, code, axis, columns):
    """Test rows that kernels read in place and that end inside a chunk of a kernel."""
    info = np.iinfo(code)
    ends = np.arange(-3, 3, 0.25)
    scale = 0.1 if axis is None else np.linspace(1e-3, 1, 40 if axis == 0 else columns)
    scale = np.float32(scale)
    lined = scale.reshape((-1, 1) if axis == 0 else (-1,))
    x = np.concatenate(
        [ends + info.min, ends, ends + info.max, [np.nan, np.inf, -np.inf, -0.0]]
    )
    x = np.float32(np.resize(x, (40, columns)) * lined)
    mask = np.empty(x.shape, bool)
    y = fake(isa, x, scale, None, code, axis=axis, mask=mask)
    q = pq.quantize(x, scale, dtype=code, axis=axis)
    assert same(y, pq.dequantize(q, scale, axis=axis))
    rounded = np.rint(x / lined)
    assert (mask == ((info.min <= rounded) & (rounded <= info.max))).all()


def test_mask_at_ties(isa):
    """Set the mask like the example for cachemask in PyTorch's documentation."""
    x = np.float32([-0.5, -0.50001, 255.4, 255.5, 255.49998, np.nan, np.inf, -np.inf, 0])
    mask = np.zeros(9, bool)
    fake(isa, x, 1.0, 0, "uint8", mask=mask)
    assert mask.tolist() == [True, False, True, False, True, False, False, False, True]


def test_mask_that_overlaps_itself():
    out = np.zeros((3, 3), np.float32)
    mask = np.lib.stride_tricks.as_strided(np.zeros(9, bool), (3, 3), (1, 1))
    with pytest.raises(ValueError, match=r"^mask: expected dimensions that neither over"):
        pq.fake_quantize(X, 0.5, out=out, mask=mask)
    assert not out.any()


@loop("code", EVERY_CODE)
def test_mask_marks_numbers_that_do_not_saturate(isa, code):
    """The mask is false exactly for elements that raise with `out_of_range` and `nan`."""
    if not HAVE_BFLOAT16 and not hasattr(np, code):
        return  # ml_dtypes is missing.
    rng = np.random.default_rng([5, EVERY_CODE.index(code)])
    for size in (1, 31, 200):
        most = {"int8": 127, "uint8": 255}.get(code, 10.0 ** rng.uniform(0, 20))
        x = (rng.standard_normal(size) * most * 1.2).astype(np.float32)
        x[: size // 8] = np.nan
        scale = np.float32([0.5, 1, -2][rng.integers(0, 3)])
        options = {}
        if code not in NARROW_FLOATS and rng.random() < 0.5:
            options = {"rounding": "floor", "quant_range": (0, 1)}
        mask = np.zeros(size, bool)
        fake(isa, x, scale, None, code, mask=mask, **options)
        want = []
        for one in x:
            try:
                pq.quantize(
                    one, scale, dtype=code, out_of_range="raise", nan="raise", **options
                )
                want.append(True)
            except ValueError:
                want.append(False)
        assert mask.tolist() == want


@pytest.mark.usefixtures("small_parts")
@loop("threads", [1, 2, 3, 8])
def test_mask_strides_slabs_and_threads(threads):
    x = np.random.default_rng(7).standard_normal((700, 310)).astype(np.float32) * 100
    expected = (np.rint(x) >= -128) & (np.rint(x) <= 127)
    plain = np.zeros(x.shape, bool)
    y = pq.fake_quantize(x, 1.0, mask=plain, threads=threads)
    assert (plain == expected).all()
    assert not plain.all()
    odd = np.zeros((310, 1400), bool)
    view = odd[::-1, ::2].T
    z = pq.fake_quantize(x, 1.0, mask=view, threads=threads)
    assert (view == expected).all()
    assert not odd[:, 1::2].any()
    assert same(y, z)
    columns = np.full(310, 1.0, np.float32)
    turned = np.asfortranarray(x)
    pq.fake_quantize(turned, columns, axis=1, mask=view, threads=threads)
    assert (view == expected).all()


@loop("code", ["int8", "int16", "float8_e4m3fn"])
def test_dynamic_long_rows_of_any_magnitude(isa, code):
    """Compute scales from magnitudes alone, also near the limits of float32."""
    if not HAVE_BFLOAT16 and "float" in code:
        return  # ml_dtypes is missing.
    rng = np.random.default_rng(10)
    ends = [1e-45, 3e-45, 7e-44, 1e-40, 2e-38, 1e-30, 1e-24, 1, 1e30, 1e36, 2e38, 3.4e38]
    rows = []
    for end in ends:
        for low in (0, -0.3, -0.999, -1):
            row = rng.uniform(low * end, end, 300)
            row[rng.integers(0, 300)] = end
            row[7] = low * end
            rows += [row, -row]
    # If a scale was rounded down, these values are ±128 steps. int8 has -128, but not 128.
    few = [np.full(300, sign * 1280 * 2.0**-149) for sign in (1, -1)]
    x = np.array([*few, *rows, np.zeros(300)]).astype(np.float32)
    p = pq.choose_qparams(x, dtype=code, axis=0)
    q, made = dynamic(isa, x, code, axis=0)
    assert made == p
    assert same(q, p.quantize(x))


LONG_CHOICES = [
    *({"like": like} for like in ("pytorch", "torchao_no_clip", "onnxruntime", "fbgemm")),
    *({"quant_range": ends} for ends in ((-5, 100), (-100, 5), (0, 100), (-100, 0))),
    *({"dtype": "uint8", "symmetric": symmetric} for symmetric in (None, True, False)),
    *({"scale_dtype": name} for name in SCALES[:2]),
    {"symmetric": False},
    {"dtype": "int4", "packed": True},
    {},
]


@loop("options", LONG_CHOICES)
def test_dynamic_long_groups(isa, options):
    """Test formulas that use magnitudes or both ends, and a last group of any length.

    The memory after the last group contains numbers that the call must not read.
    """
    rng = np.random.default_rng(12)
    for last in (0, 1, 5, 40, 63, 64, 65, 299):
        x = np.full(2000, 1e30, np.float32)[: 3 * 300 + last]
        x[:] = rng.uniform(-1, 3, x.size)
        x[300:600] *= -1
        choice = {k: v for k, v in options.items() if k != "packed"}
        p = pq.choose_qparams(x, axis=0, block_size=300, **choice)
        q, made = dynamic(isa, x, axis=0, block_size=300, **options)
        assert made == p
        assert same(q, p.quantize(x, packed=options.get("packed", False)))


@loop("bad", NOT_FINITE)
def test_dynamic_long_groups_that_are_not_finite(isa, bad):
    for at in (0, 77, 299, 300, 598, 599, 899):
        x = np.ones(900, np.float32)
        x[at] = bad
        with pytest.raises(ValueError, match=rf"1 not finite, .* index \({at},\)"):
            dynamic(isa, x, "int8", axis=0, block_size=300)


def test_mask_of_rows_with_gaps_between(isa):
    if not HAVE_BFLOAT16:
        pytest.skip("ml_dtypes is missing")
    rng = np.random.default_rng(11)
    wide = (rng.standard_normal((81, 90)) * 400).astype(np.float32)
    scale = np.linspace(0.5, 2, 81, dtype=np.float32)
    for code in ("float8_e4m3fn", "int8", "int64"):
        mask, odd = np.zeros((81, 40), bool), np.zeros((81, 80), bool)
        y = fake(isa, wide[:, :40].copy(), scale, None, code, axis=0, mask=mask)
        z = fake(isa, wide[:, :40], scale, None, code, axis=0, mask=odd[:, 40:])
        assert (odd[:, 40:] == mask).all()
        assert not odd[:, :40].any()
        assert same(y, z)
        assert mask.all() == (code == "int64")
