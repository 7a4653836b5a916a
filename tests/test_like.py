"""Compare the formulas of `like=` with recorded results and with other packages."""

import re
from pathlib import Path

import numpy as np
import pytest
from support import amount, choose_qparams_at, loop

import pyquant as pq
from pyquant import _core

F32, F64 = np.float32, np.float64
MANY = amount(2_000, 200_000)
ROOT = Path(__file__).parents[1]
LIMITS = {
    name: tuple(int(end) for end in _core.limits(name))
    for name in ("int8", "uint8", "int16", "uint16", "int4", "uint4")
}


def chosen(lo, hi, like, **options):
    p = pq.qparams_from_range(lo, hi, like=like, **options)
    return p.scale, p.zero_point.astype(np.int64)


# ---- Recorded results of packages that no test below runs, and useless scales ----

RANGES = {
    "usual": (-1, 2),
    "none": (0, 0),
    "small": (0, 1e-6),
    "tie": (-0.5, 254.5),
    "large": (-3e38, 3e38),
    "apart": (-0.065, 2.485),
}
U8, I8 = {"dtype": "uint8"}, {"dtype": "int8"}
SYMMETRIC, ASYMMETRIC = {**I8, "symmetric": True}, {**I8, "symmetric": False}
MIDDLE = {**U8, "symmetric": True}
VECTORS = [
    ("fbgemm", "apart", U8, 0.01, 6),
    ("fbgemm", "usual", U8, 0.011764706, 85),
    ("fbgemm", "usual", MIDDLE, 0.015748031, 128),
    ("tflite", "usual", I8, 0.011764706, -43),
    ("tflite", "small", I8, 3.9215684e-09, -128),
    ("tflite", "tie", I8, 1, -128),
    ("tflite", "tie", U8, 1, 1),
    ("xnnpack", "usual", I8, 0.011764706, -43),
    ("xnnpack", "none", I8, 1, 127),
    ("xnnpack", "tie", I8, 1, -128),
    ("quark_po2", "usual", SYMMETRIC, 0.015625, 0),
    ("quark_po2", "usual", U8, 0.015625, 85),
    ("quark_po2", "usual", MIDDLE, 0.015625, 128),
    ("quark_po2", "none", U8, 1, 0),
    # If a package returns a useless scale, pyquant computes the formula in float64.
    ("tflite", "none", I8, 1, 0),
    ("pytorch", "large", U8, 2.3529411e36, 128),
    ("torchao", "large", ASYMMETRIC, 2.3529411e36, 0),
    ("compressed_tensors", "large", ASYMMETRIC, 2.3529411e36, 0),
    ("xnnpack", "large", I8, 2.3529411e36, -1),
]


@pytest.mark.parametrize(("like", "of", "options", "scale", "zero_point"), VECTORS)
def test_vectors(like, of, options, scale, zero_point):
    s, z = chosen(*(F32(end) for end in RANGES[of]), like, **options)
    assert s.dtype == F32
    assert (s, z) == (F32(scale), zero_point)
    assert chosen(*(float(end) for end in RANGES[of]), like, **options) == (s, z)


LEAST, TOP = float(np.finfo(F32).tiny), float.fromhex("0x1.fffffffffffffp+127")
ROOT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")  # just above the square root of 1/2
TWO = {**SYMMETRIC, "quant_range": (0, 1)}


@pytest.mark.parametrize(
    ("like", "lo", "hi", "options", "scale", "zero_point"),
    [
        ("onnxruntime", F32(0), F32(255 * LEAST), ASYMMETRIC, LEAST, -128),
        ("onnxruntime", F32(0), F32(254.99998 * LEAST), ASYMMETRIC, 1, 0),
        ("aten", F32(-1), F32(2), TWO, 6, 0),  # the range becomes -4 to 2
        ("aten", F64(0), F64(TOP), {**ASYMMETRIC, "quant_range": (0, 2)}, TOP / 2, 0),
        ("tflite", F64(-5e-324), F64(5e-324), ASYMMETRIC, 5e-324, -128),
        ("quark_po2", F64(0), F64(ROOT_HALF), {**TWO, **ASYMMETRIC}, 1, 0),
        (
            "quark_po2",
            F64(0),
            np.nextafter(F64(ROOT_HALF), 0),
            {**TWO, **ASYMMETRIC},
            0.5,
            0,
        ),
    ],
)
def test_numbers_at_their_edges(like, lo, hi, options, scale, zero_point):
    """Test a range on each side of the limit where a formula changes its rule."""
    assert chosen(lo, hi, like, **options) == (scale, zero_point)
    many = chosen(np.full(9, lo), np.full(9, hi), like, axis=0, **options)
    assert (many[0] == scale).all()
    assert (many[1] == zero_point).all()


# ---- models of the packages in NumPy ----


def ranges(count, levels=255, seed=0):
    """Return float32 ranges. Half of the zero points are ties; some ends are huge."""
    rng = np.random.default_rng(seed)
    half = count // 2
    s = np.exp2(rng.uniform(-12, 8, count))
    s[:half] = np.exp2(rng.integers(-10, 6, half)) * rng.integers(1, 64, half)
    s[: half // 2] = rng.integers(1, 3000, half // 2) / 1000  # not exact in float32
    lo = -(rng.integers(0, levels, count) + 0.5) * s
    hi = lo + levels * s
    lo[half:] *= rng.uniform(0.5, 1.5, count - half)
    found = np.stack([lo, hi], 1)
    found[-50:] = 0
    found[-100:-50, 0] = 0
    found[-150:-100, 1] = 0
    for k, factor in enumerate((1e-38, 1e-42, 1e-30, 1e-6, 1e-7, 1e30)):
        found[-200 - 50 * k : -150 - 50 * k] *= factor
    found[-500:-450] = rng.normal(0, 1e-4, (50, 2))
    found[-550:-500] = rng.normal(0, 1e38, (50, 2))
    found[-600:-550] = rng.normal(3, 1, (50, 2))
    with np.errstate(over="ignore"):
        found = np.sort(np.clip(found, -3.4e38, 3.4e38).astype(F32), 1)
    return found[:, 0], found[:, 1]


def with_zero(lo, hi):
    return np.minimum(lo, F32(0)), np.maximum(hi, F32(0))


def model_onnxruntime(lo, hi, lowest, highest, symmetric, _):
    if symmetric:
        hi = np.maximum(-lo, hi)
        lo = -hi
    scale = (F64(hi) - F64(lo)) / (highest - lowest)
    zero = np.rint(lowest - F64(lo) / scale)
    if symmetric:
        zero = np.full_like(zero, np.rint((lowest + highest) / 2))
    small = scale < np.finfo(F32).tiny
    return np.where(small, F32(1), F32(scale)), np.where(small, 0, zero)


def model_pytorch(lo, hi, lowest, highest, symmetric, middle):
    if symmetric:
        scale = np.maximum(np.maximum(-lo, hi) / F32((highest - lowest) / 2), F32(2**-23))
        return scale, np.full(len(lo), 0 if lowest < 0 else middle)
    scale = np.maximum((hi - lo) / F32(highest - lowest), F32(2**-23))
    return scale, np.clip(lowest - np.rint(lo / scale), lowest, highest)


def model_torchao(lo, hi, lowest, highest, symmetric, _, clip=True):
    least = np.finfo(F32).tiny
    if not clip:
        scale = np.maximum(lo / F32(lowest), hi / F32(highest))
    elif symmetric:
        scale = np.maximum(-lo, hi) / F32((highest - lowest) / 2)
    else:
        scale = np.maximum((hi - lo) / F32(highest - lowest), least)
        return scale, np.clip(lowest - np.rint(lo / scale), lowest, highest)
    return np.maximum(scale, least), np.full(len(lo), int((lowest + highest + 1) / 2))


def model_no_clip(*args):
    return model_torchao(*args, clip=False)


def model_compressed_tensors(lo, hi, lowest, highest, symmetric, _):
    if symmetric:
        scale, zero = np.maximum(-lo, hi) / F32((highest - lowest) / 2), np.zeros(len(lo))
    else:
        scale = (hi - lo) / F32(highest - lowest)
        zero = np.rint(np.clip(F32(lowest) - lo / scale, lowest, highest))
    return np.where(scale == 0, F32(2**-23), scale), np.nan_to_num(zero)


def model_aten(lo, hi, lowest, highest, symmetric, _, sign=-1, kind=F64):
    least, levels = F32(6.1e-5), highest - lowest
    both = (lo < 0) & (hi > 0) & symmetric
    far = F64(np.maximum(np.abs(lo / F32(-(levels // 2 + 1))), hi / F32(levels // 2)))
    lo = np.where(both, F32(far * -(levels // 2 + 1)), lo)
    hi = np.where(both, F32(far * (levels // 2)), hi)
    scale = kind((F64(hi) - lo) / levels)
    lost = (F32(scale) == 0) | np.isinf(F32(1) / F32(scale))
    scale = np.where(lost, kind(0.1), scale)
    small, factor = scale < least, least / F32(scale)
    rise = np.where(hi == 0, hi, np.where(lo == 0, least * F32(levels), hi * factor))
    fall = np.where(lo == 0, lo, np.where(hi == 0, -least * F32(levels), lo * factor))
    lo, hi = np.where(small, fall, lo), np.where(small, rise, hi)
    scale = F64(np.where(small, least, scale))
    down, up = abs(lowest) + sign * np.abs(lo / scale), abs(highest) + sign * hi / scale
    zero = np.where(down < up, lowest - lo / scale, highest - hi / scale)
    zero = np.where((lo < 0) & (hi > 0) & symmetric, (lowest + highest) / 2, zero)
    return F32(scale), np.rint(np.clip(zero, lowest, highest))


def model_fbgemm(*args):
    return model_aten(*args, sign=1, kind=F32)


def model_tflite(lo, hi, lowest, highest, _, __):
    lo, hi = F64(lo), F64(hi)
    scale = (hi - lo) / (highest - lowest)
    down, up = abs(lowest) + np.abs(lo / scale), abs(highest) + np.abs(hi / scale)
    zero = np.where(down < up, lowest - lo / scale, highest - hi / scale)
    zero = np.clip(zero, lowest, highest)
    zero = np.copysign(np.floor(np.abs(zero) + 0.5), zero)  # exact for these numbers
    none = lo == hi
    return np.where(none, F32(1), F32(scale)), np.where(none, 0, zero)


def model_xnnpack(lo, hi, lowest, highest, _, __):
    inverse = np.where(lo == hi, F32(1), F32(highest - lowest) / (hi - lo))
    a, b = lo * inverse, hi * inverse
    sign = (F32(lowest) + a) + (F32(highest) + b) > 0
    zero = np.where(sign, F32(lowest) - a, F32(highest) - b)
    return F32(1) / inverse, np.rint(np.clip(zero, lowest, highest))


def model_quark(lo, hi, lowest, highest, symmetric, middle):
    most = np.finfo(F32).max / 2
    lo, hi = np.maximum(lo, -most), np.minimum(hi, most)
    if symmetric:
        hi = np.maximum(-lo, hi)
        lo = -hi
    scale = F64(hi - lo) / (highest - lowest)
    zero = np.rint(lowest - lo / scale)
    small = scale < np.finfo(F32).tiny
    power = np.exp2(-np.rint(-np.log2(np.where(small, 1, F32(scale)).astype(F64))))
    zero = np.where(small, 0, zero)
    if symmetric and middle == 128:
        zero = np.where(zero == 127, 128, zero)
    return F32(power), zero


MODELS = {
    "onnxruntime": model_onnxruntime,
    "pytorch": model_pytorch,
    "aten": model_aten,
    "fbgemm": model_fbgemm,
    "torchao": model_torchao,
    "torchao_no_clip": model_no_clip,
    "compressed_tensors": model_compressed_tensors,
    "tflite": model_tflite,
    "xnnpack": model_xnnpack,
    "quark_po2": model_quark,
}
NARROW = {"onnxruntime", "quark_po2"}


def is_for(like, name, symmetric):
    forms = _core.presets()[like][0]
    if name.startswith("u") and forms.startswith("signed"):
        return False
    if like == "compressed_tensors" and name.endswith("16"):
        return False
    return forms != ("asymmetric" if symmetric else "signed_symmetric")


def check(got, expected):
    """Compare all ranges, unless the package returns NaN or a scale of 0."""
    __tracebackhide__ = True
    scale, zero = got
    assert np.isfinite(scale).all()
    assert (scale > 0).all()
    usable = np.isfinite(expected[0]) & (expected[0] > 0) & np.isfinite(expected[1])
    assert usable.sum() > 0.9 * usable.size
    wrong = usable & ((scale != expected[0]) | (zero != expected[1]))
    at = np.flatnonzero(wrong)[:3]
    assert not wrong.any(), (at, scale[at], zero[at], expected[0][at], expected[1][at])


@pytest.mark.parametrize("like", MODELS)
@loop("symmetric, name", [True, False], LIMITS)
def test_models(like, symmetric, name):
    if not is_for(like, name, symmetric):
        return  # The package has no formula for this code type.
    lowest, highest = LIMITS[name]
    lo, hi = ranges(MANY, highest - lowest)
    middle = (highest + 1) // 2 if "4" not in name else highest // 2
    codes = lowest, highest
    if like in NARROW and symmetric and name in ("int8", "int16"):
        codes = -highest, highest
    with np.errstate(all="ignore"):
        expected = MODELS[like](*with_zero(lo, hi), *codes, symmetric, middle)
    check(chosen(lo, hi, like, dtype=name, symmetric=symmetric, axis=0), expected)


@pytest.mark.parametrize("like", MODELS)
@loop(
    "symmetric, quant_range",
    [True, False],
    [(-64, 63), (-64, 64), (-127, 127), (-8, 7), (-100, 3)],
)
def test_models_in_ranges_of_codes(like, symmetric, quant_range):
    if not is_for(like, "int8", symmetric):
        return  # The package has no formula for this choice of `symmetric`.
    lo, hi = ranges(MANY // 10 + 1000, quant_range[1] - quant_range[0], seed=1)
    options = {"symmetric": symmetric, "quant_range": quant_range, "axis": 0}
    with np.errstate(all="ignore"):
        expected = MODELS[like](*with_zero(lo, hi), *quant_range, symmetric, 0)
    zero = np.clip(expected[1], *quant_range)
    check(chosen(lo, hi, like, **options), (expected[0], zero))


# ---- the packages ----


def numpy_of(scale, zero_point):
    return scale.double().numpy(), zero_point.numpy().astype(np.int64)


@loop("name, symmetric", ["int8", "uint8"], [True, False])
def test_pytorch_itself(name, symmetric):
    torch = pytest.importorskip("torch")  # optional
    observer = pytest.importorskip("torch.ao.quantization.observer")  # optional
    lo, hi = ranges(MANY)
    kind = "symmetric" if symmetric else "affine"
    o = observer.PerChannelMinMaxObserver(
        ch_axis=0,
        dtype=getattr(torch, f"q{name}"),
        qscheme=getattr(torch, f"per_channel_{kind}"),
    )
    o(torch.from_numpy(np.stack([lo, hi], 1)))
    expected = numpy_of(*o.calculate_qparams())
    check(chosen(lo, hi, "pytorch", dtype=name, symmetric=symmetric, axis=0), expected)


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")  # PyTorch deprecates it.
@pytest.mark.parametrize(("name", "share"), [("int8", 20), ("uint8", 2)])
def test_aten_itself(name, share):
    torch = pytest.importorskip("torch")  # optional
    lo, hi = ranges(max(MANY // share, 1000))
    made = [
        torch.quantize_per_tensor_dynamic(one, getattr(torch, f"q{name}"), False)
        for one in torch.from_numpy(np.stack([lo, hi], 1))
    ]
    scale = F32([one.q_scale() for one in made])
    zero = np.int64([one.q_zero_point() for one in made])
    options = {"dtype": name, "symmetric": False, "axis": 0}
    check(chosen(lo, hi, "aten", **options), (scale, zero))


def in_torch(torch, lo, hi, name):
    """Return the finite ranges as a tensor with two columns and as an equal array."""
    x = torch.from_numpy(np.stack([lo, hi], 1)).to(getattr(torch, name))
    x = x[torch.isfinite(x).all(1)]
    if name != "bfloat16":
        return x, x.numpy()
    ml_dtypes = pytest.importorskip("ml_dtypes")  # optional
    return x, x.view(torch.int16).numpy().view(ml_dtypes.bfloat16)


@loop(
    "source, name, kind",
    ["float32", "float16", "bfloat16"],
    ["int8", "uint8"],
    ["SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC"],
)
def test_torchao_itself(kind, name, source):
    torch = pytest.importorskip("torch")  # optional
    theirs = pytest.importorskip("torchao.quantization.quant_primitives")  # optional
    if (kind, name) == ("SYMMETRIC_NO_CLIPPING_ERR", "uint8"):
        return  # torchao returns a wrong scale.
    x, y = in_torch(torch, *ranges(MANY), source)
    expected = theirs.choose_qparams_affine(
        x, theirs.MappingType[kind], (1, 2), getattr(torch, name)
    )
    like = "torchao_no_clip" if "NO_CLIP" in kind else "torchao"
    options = {"dtype": name, "symmetric": kind != "ASYMMETRIC", "axis": 0}
    check(chosen(y[:, 0], y[:, 1], like, **options), numpy_of(*expected))


@loop(
    "source, bits, symmetric, scale_dtype",
    ["float32", "float16", "bfloat16"],
    [8, 4],
    [True, False],
    [None, "float16", "bfloat16", "float8_e4m3fn"],
)
def test_compressed_tensors_itself(scale_dtype, symmetric, bits, source):
    torch = pytest.importorskip("torch")  # optional
    quantization = pytest.importorskip("compressed_tensors.quantization")  # optional
    helpers = pytest.importorskip("compressed_tensors.quantization.utils.helpers")
    if (source, scale_dtype) == ("float16", "bfloat16"):
        return  # compressed_tensors raises an error.
    x, y = in_torch(torch, *ranges(MANY), source)
    width = y[:, 1].astype(F32) - y[:, 0].astype(F32)
    if source == "float16":  # scales of wider ranges overflow
        x, y = x[width < 65000], y[width < 65000]
    given = quantization.QuantizationArgs(
        num_bits=bits,
        symmetric=symmetric,
        scale_dtype=scale_dtype and getattr(torch, scale_dtype),
        zp_dtype=torch.int8,
    )
    scale, zero = numpy_of(*helpers.calculate_qparams(x[:, 0], x[:, 1], given))
    options = {"symmetric": symmetric, "axis": 0, "scale_dtype": scale_dtype}
    options["dtype"] = f"int{bits}"
    s, z = chosen(y[:, 0], y[:, 1], "compressed_tensors", **options)
    check((s.astype(F64), z), (scale, zero))


@loop(
    "source, name, reduce_range, symmetric",
    [np.float32, np.float16],
    LIMITS,
    [False, True],
    [True, False],
)
def test_onnxruntime_itself(symmetric, reduce_range, name, source):
    theirs = pytest.importorskip("onnxruntime.quantization.quant_utils")  # optional
    types = pytest.importorskip("onnx").TensorProto
    lowest, highest = theirs.get_qmin_qmax_for_qType(
        getattr(types, name.upper()), reduce_range, symmetric
    )
    version = tuple(
        int(n) for n in pytest.importorskip("onnxruntime").__version__.split(".")
    )
    if source == np.float16 and version < (1, 32):
        return  # Before 1.32, ONNX Runtime did not round scales to float16 first.
    with np.errstate(over="ignore"):
        lo, hi = (end.astype(source) for end in ranges(amount(1_000, 5_000)))
    fits = np.isfinite(lo) & np.isfinite(hi)
    lo, hi = lo[fits], hi[fits]
    made = [
        theirs.compute_scale_zp(np.array(a), np.array(b), lowest, highest, symmetric)
        for a, b in zip(lo, hi, strict=True)
    ]
    scale = np.array([F64(one[1]) for one in made])
    zero = np.array([int(one[0]) for one in made])
    codes = (int(lowest), int(highest)) if reduce_range else None
    options = {"dtype": name, "symmetric": symmetric, "quant_range": codes, "axis": 0}
    check(chosen(lo, hi, "onnxruntime", **options), (scale, zero))


# ---- all formulas ----


@loop(
    "like, source, scale_dtype",
    [None, *MODELS],
    ["float32", "float64", "float16"],
    [None, "float16", "float64"],
)
def test_data_and_its_range_agree(isa, scale_dtype, source, like):
    """Compare the parameters of data with the parameters of the data's extremes."""
    with np.errstate(over="ignore"):
        lo, hi = (end.astype(source) for end in ranges(3000, seed=2))
    fits = np.isfinite(lo) & np.isfinite(hi)
    lo, hi = lo[fits], hi[fits]
    x = np.stack([hi, lo, (lo / 2 + hi / 2)], 1)
    options = {"like": like, "scale_dtype": scale_dtype}
    p = pq.qparams_from_range(lo, hi, axis=0, **options)
    assert pq.choose_qparams(x, axis=0, **options) == p
    assert pq.choose_qparams(x, axis=0, threads=3, **options) == p
    scale, zero = choose_qparams_at(isa, x, axis=0, **options)
    assert scale.tobytes() == p.scale.tobytes()
    assert zero.tobytes() == p.zero_point.tobytes()
    one = pq.qparams_from_range(lo.min(), hi.max(), **options)
    assert pq.choose_qparams(x, **options) == one


def test_ends_beyond_float32():
    for like in (None, *MODELS):
        p = pq.qparams_from_range(-1e300, 1e308, like=like)
        assert p.scale.dtype == F64
        assert np.isfinite(p.scale)
        assert like == "quark_po2" or p.scale > 1e300
    both = pq.qparams_from_range(-1.5e308, 1.5e308, like="tflite", dtype="uint8")
    assert float(both.scale) == 1.5e308 / 127.5


@loop("symmetric", [True, False])
def test_a_width_beyond_float16(symmetric):
    """Compute the width 131008, which exceeds float16, without overflow.

    The width divided by 255 is 513.75, and the next power of two is 512.
    """
    x = np.float16([-65504, 65504])
    options = {"dtype": "uint8", "symmetric": symmetric, "like": "quark_po2"}
    assert float(pq.qparams_from_range(x[0], x[1], **options).scale) == 512
    assert float(pq.choose_qparams(x, **options).scale) == 512


# ---- errors ----

LO, HI = np.zeros((70, 90), F32), np.ones((70, 90), F32)  # for errors.txt


def changed(ends, at, value):
    ends = ends.copy()
    ends[at] = value
    return ends


def test_types_of_ranges():
    for lo, hi, dtype in (
        (-1.0, 2, F32),
        ([-1, 0], [1, 2], F32),
        (F32(-1), 2.0, F32),
        (-1.0, F64(2), F64),
        (F32(-1), F64(2), F64),
        (np.float16(-1), np.float16(2), F32),
        (np.array(-1, ">f8"), np.array(2, ">f8"), F64),
        (-1e300, 2.0, F64),
    ):
        assert pq.qparams_from_range(lo, hi).scale.dtype == dtype
    swapped = pq.qparams_from_range(np.array(-1, ">f4"), np.array(2, ">f4"))
    assert swapped == pq.qparams_from_range(-1.0, 2.0)
    # torchao computes with float16 ranges in float16.
    half = pq.qparams_from_range(np.float16(-1), np.float16(2), like="torchao")
    assert half.scale == F32(np.float16(2) / np.float16(127.5))
    assert pq.qparams_from_range([], [], axis=0).scale.shape == (0,)
    strided = pq.qparams_from_range(*np.float32([[-1, 2], [-3, 4]]).T, axis=0, like="aten")
    assert strided == pq.qparams_from_range(F32([-1, -3]), F32([2, 4]), axis=0, like="aten")


# ---- the documentation ----


def test_the_table_of_switches_is_the_one_of_the_core():
    text = (ROOT / "docs" / "semantics" / "scales.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE)
    rows = [(name, tuple(cells.split(" | "))) for name, cells in rows if name in MODELS]
    said = {name: cells for name, cells in rows if len(cells) > 1}
    assert said == {
        name: tuple(word.replace("_", " ") for word in words)
        for name, words in _core.presets().items()
    }
    words = {word.replace("_", " ") for row in _core.presets().values() for word in row}
    explained = set(
        re.findall(r"`([a-z0-9 ]+)`", text[text.index("### Formulas of `like=`") :])
    )
    assert words <= explained
