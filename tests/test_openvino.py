"""Compare `pyquant.openvino` with recorded results, exact arithmetic and OpenVINO."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from oracle import float32 as rounded
from support import amount, at_level, case

import pyquant as pq
from pyquant import _core, openvino

# Number of levels, the four ends, inputs, and results of OpenVINO 2026.4.1. Numbers are bit
# patterns of float32. Most first inputs would get a wrong level if an operation were not
# rounded.
VECTORS = [
    (3, "c337bf53 c337a859 bf3e1686 bf0bfb89",
     "c337b994 c337b994 c337b994 c337b994 c337b994 c337aba5 "
     "c337b4a5 c337a99c c337b239 c337ba7f c337bf53",
     "bf3e1686 bf3e1686 bf3e1686 bf3e1686 bf3e1686 bf0bfb89 "
     "bf250908 bf0bfb89 bf250908 bf3e1686 bf3e1686"),
    (15, "bf0e412e beecad08 3d74b45c 3f257703",
     "bf032683 beee625d bf0d6683 bf04dbd9 bf0bb12e bf05b683 "
     "bf04012e bef71023 bf0f852a bef883c0 bf0f1889",
     "3e9f4e52 3f257702 3d74b45c 3e9f4e52 3e12fcf0 3e89da5b "
     "3e9f4e52 3f054911 3d74b45c 3f054911 3d74b45c"),
    (16, "bf85f623 bf61b2cf bf85f623 bf61b2cf",
     "bf65ebc2 bf712e48 bf6b8d05 bf6b8d05 bf712e48 bf796246 "
     "bf8400d8 bf828e3e bf68307b bf69a0c4 bf841957",
     "bf648371 bf6fc5f7 bf6a24b4 bf6a24b4 bf6fc5f7 bf7837db "
     "bf848dd2 bf832581 bf675412 bf6a24b4 bf848dd2"),
    (255, "bf0196af bf00e453 bfa246a2 3f4292a3",
     "bf014379 bf00f36c bf012b99 bf010e1b bf01706a bf017ad5 "
     "bf01113f bf00fac5 bf00dc1a bf019c2e bf014050",
     "bea6c473 3f159bf8 bd5e5022 3e8fe3cf bf562fce bf72ccc7 "
     "3e7f1439 3f012bd9 3f4292a3 bfa246a2 be925453"),
    (256, "c24a314c c247134b c24a314c c247134b",
     "c24925bb c2472ac3 c247e687 c2499021 c2493560 c24994ac "
     "c2479259 c2490df5 c2494697 c2490676 c247c878",
     "c249242b c2472933 c247e4f7 c2498e91 c24936f1 c24994d3 "
     "c2479399 c2490e43 c2494697 c2490800 c247c8cd"),
    (256, "b9e2f771 3f34575b 3f72daef bf8620b3",
     "3e032e39 3ed1f3b2 3dc26d1d 3e6ebe80 3e9c2b8e bd8858af "
     "3e264449 3d5b03e6 3f350bc1 3e7a110e 3ef2da54",
     "3f14a687 be572857 3f2cb3e9 3e90f852 3da2f95c 3f72daef "
     "3ef9324c 3f4ac4a2 bf8620b2 3e80ef66 becbc9b0"),
    (257, "bfa36a37 42723112 bec7a440 be30ba55",
     "425d6c28 4217deac 4232eb07 41aa6e29 41aa6e29 41a1bc7a "
     "402331c3 425c14e0 3f17b9e4 422db894 41bfaeba",
     "be42fbff be80c9fd be693c6e be9ec826 be9ec826 bea0f48a "
     "bec0afcf be44b91b bec42a07 be6e73c3 be9a6f5f"),
    (1024, "ba163da8 3b623fa4 bf555454 bf868d62",
     "b9ed8f3f ba12a16d ba0f8939 ba0640a0 ba0850c2 3b2920f3 "
     "3a4edf13 3a0b190c 3ac032fd 3a69f0d5 3b1bf140",
     "bf56f70d bf558c28 bf55a813 bf5633a6 bf5617bb bf808717 "
     "bf683198 bf649868 bf719245 bf699c7d bf7e3864"),
]  # fmt: skip


def floats(text):
    """Return the float32 numbers with these bits."""
    return np.array([int(one, 16) for one in text.split()], np.uint32).view(np.float32)


def at(isa, x, *ranges_and_levels):
    """Call fake_quantize with the kernels of an instruction set."""
    *ranges, levels = ranges_and_levels
    arrays = openvino._ranges_of(ranges, x.shape)
    return at_level(isa, _core.fake_levels, x, openvino.params_of(arrays, levels), None, 1)


@pytest.mark.parametrize(("levels", "ends", "x", "y"), VECTORS, ids=lambda v: str(v)[:8])
def test_vectors(levels, ends, x, y, isa):
    ends = floats(ends)
    assert at(isa, floats(x), *ends, levels).tobytes() == floats(y).tobytes()
    for lone, want in zip(floats(x), floats(y), strict=True):
        assert at(isa, np.array([lone]), *ends, levels) == want


def test_ends_that_are_not_in_order():
    """Test OpenVINO 2026.4.1's results, which follow its specification except for NaN."""
    x = np.float32([-2, -1, -0.4, 0, 0.4, 1, 2, np.inf, -np.inf, np.nan])
    y = openvino.fake_quantize(x, 1, -1, 0, 8, 5)
    assert y.tolist() == [0, 0, 6, 4, 2, 0, 8, 8, 0, 0]
    y = openvino.fake_quantize(x, 1, 1, 3, 8, 5)
    assert y.tolist() == [3, 3, 3, 3, 3, 3, 8, 8, 3, 3]


@pytest.mark.parametrize("real", ["float16", "bfloat16", "float64"])
def test_other_types_are_rounded_twice(real):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), real, real))  # optional
    rng = np.random.default_rng(6)
    for shape in ((3, 1300), (700, 3), (5,), ()):
        x = np.asarray(rng.standard_normal(shape) * 2).astype(dtype)
        low = rng.standard_normal(shape[:1])
        low = low.reshape(-1, *[1] * (len(shape) - 1)) if shape else low
        single = openvino.fake_quantize(x.astype(np.float32), low, 0.5, 1.1, 3, 255)
        due = single.astype(dtype)
        for view in (x, np.asarray(x.T.copy().T), x.astype(x.dtype.newbyteorder())):
            out = np.zeros(shape[::-1], dtype).T
            y = openvino.fake_quantize(view, low, 0.5, 1.1, 3, 255)
            assert openvino.fake_quantize(view, low, 0.5, 1.1, 3, 255, out=out) is out
            for one in (y, np.ascontiguousarray(out).reshape(shape)):
                assert one.dtype == dtype
                assert one.tobytes() == due.tobytes()


def by_definition(x, low, high, first, last, levels):
    """Compute the result for one number with fractions."""
    low, high, first, last = (Fraction(float(v)) for v in (low, high, first, last))
    if low >= high:
        if not x > high or x > low:
            return last if x > low else first
        ratio = rounded(rounded(Fraction(float(x)) - low) / rounded(high - low))
        share = rounded(Fraction(round(rounded(ratio * (levels - 1)))) / (levels - 1))
        return rounded(rounded(share * rounded(last - first)) + first)
    slope = rounded(Fraction(levels - 1) / rounded(high - low))
    shift = rounded(-low * slope)
    step = rounded(rounded(last - first) / (levels - 1))
    v = low if x != x else high if x > high else low if x < low else Fraction(float(x))
    level = round(rounded(rounded(v * slope) + shift))
    return rounded(level * step + first)


def test_exact_arithmetic(isa):
    rng = np.random.default_rng(1)
    for levels in (2, 3, 16, 255, 256, 1000, 65536):
        for _ in range(amount(2, 6)):
            low = np.float32(-abs(rng.standard_normal()) * 10.0 ** rng.integers(-3, 3))
            high = np.float32(
                low + abs(rng.standard_normal()) * 10.0 ** rng.integers(-1, 3)
            )
            if rng.random() < 0.3:
                low, high = high, low if rng.random() < 0.8 else high
            first, last = rng.standard_normal(2).astype(np.float32)
            ties = rng.integers(0, 2 * levels, 40) / (2 * (levels - 1))
            x = (low + (float(high) - float(low)) * ties).astype(np.float32)
            x[:3] = [np.nan, np.inf, -np.inf]
            y = at(isa, x, low, high, first, last, levels)
            with np.errstate(invalid="ignore"):
                want = [
                    float(by_definition(one, low, high, first, last, levels)) for one in x
                ]
            assert y.tolist() == want


def test_broadcasting_and_strides(isa):
    """Compare each element with a separate call. No element depends on its neighbours."""
    rng = np.random.default_rng(2)
    for shape, ranges in (
        ((3, 40), (1, 40)),
        ((3, 1300), (3, 1)),
        ((700, 3), (3,)),
        ((2, 5, 70), (5, 1)),
        ((2, 5, 3, 7), (2, 1, 3, 1)),
        ((4, 100), (4, 100)),
        ((9,), ()),
        ((), ()),
    ):
        low = -abs(rng.standard_normal(ranges)) - 0.1
        high = abs(rng.standard_normal(ranges)) + 0.1
        first = rng.standard_normal(ranges)
        x = np.asarray(rng.standard_normal(shape) * 2, np.float32)
        for view in (x, np.asarray(x.T.copy().T), x.astype(x.dtype.newbyteorder())):
            y = at(isa, view, low, high, first, 3.0, 17)
            parts = np.broadcast_arrays(x, low, high, first)
            want = [
                at(isa, np.float32(a).reshape(1), b, c, d, 3.0, 17)[0]
                for a, b, c, d in zip(*[p.reshape(-1) for p in parts], strict=True)
            ]
            assert y.reshape(-1).tolist() == want


X = np.zeros((2, 3), np.float32)


def test_differential():
    """Compare with OpenVINO, and disable its transformations to low precision."""
    ov = pytest.importorskip("openvino")  # OpenVINO computes the expected results
    from openvino import opset13

    if "avx2" not in pq.isa.available():
        pytest.skip("the loops of the library fuse operations only if this CPU can")

    core = ov.Core()
    hints = {"INFERENCE_PRECISION_HINT": "f32", "LP_TRANSFORMS_MODE": "NO"}
    rng = np.random.default_rng(4)
    types = [(ov.Type.f32, np.float32), (ov.Type.f16, np.float16), (ov.Type.f64, float)]
    for levels, inverted in itertools.product((2, 3, 16, 255, 256, 257, 1024), (0, 1)):
        low = -abs(rng.standard_normal()) * 10.0 ** rng.integers(-1, 3)
        high = low + abs(rng.standard_normal()) * 10.0 ** rng.integers(-1, 3)
        low, high = (high, low) if inverted else (low, high)
        first, last = rng.standard_normal(2)
        ties = rng.integers(-5, 2 * levels + 5, 20000) / (2 * (levels - 1))
        kind, real = types[rng.integers(3)]
        x = (low + (high - low) * ties).astype(real)
        p = opset13.parameter([x.size], kind)
        ends = [np.array(v, real) for v in (low, high, first, last)]
        node = opset13.fake_quantize(p, *(opset13.constant(v) for v in ends), levels)
        y = core.compile_model(ov.Model([node], [p]), "CPU", hints)(x)[0]
        with case(levels=levels, inverted=inverted, real=real):
            assert openvino.fake_quantize(x, *ends, levels).tobytes() == y.tobytes()


def test_qparams_of_models():
    ov = pytest.importorskip("openvino")  # the reader of OpenVINO needs models
    ops = ov.opset13
    x = ops.parameter([2, 3], np.float32, name="x")
    low, high = np.float32([[-1], [0.5]]), np.float32([[1], [3]])

    def model(*ends, levels=256):
        return ov.Model([ops.fake_quantize(x, *ends, levels, name="fq")], [x])

    for name in ("x", "fq"):
        p = openvino.qparams(model(low, high, low, high), name)
        scale = ((high - low).astype(float) / 255).astype(np.float32)
        expected = pq.QParams(scale, None, "uint8", offset=low, quant_range=(0, 255))
        assert p == expected
    one = np.float32(0), np.float32(3)
    p = openvino.qparams(model(*one, *one, levels=1024), "x")
    assert (p.scale, p.dtype, p.quant_range) == (np.float32(3 / 1023), "uint16", (0, 1023))
    p = openvino.qparams(model(*[np.float32([0]), np.float32([1, 2, 3])] * 2), "x")
    assert (p.axis, p.scale.shape, p.offset.tolist()) == (-1, (3,), [0, 0, 0])
    computed = model(*one, ops.negative(x), np.float32(3))
    for bad, tensor, said in (
        (computed, "x", "tensor: expected constant ends, got computed ones"),
        (model(*one, one[0], np.float32(4)), "x", "tensor: expected equal ends of input"),
        (computed, "y", "tensor: expected the data or result of FakeQuantize, got 'y'"),
        (computed, 3, "tensor: expected the data or result of FakeQuantize, got int"),
        (3, "x", "model: expected an openvino.Model, got int"),
    ):
        with pytest.raises((TypeError, ValueError)) as error:
            openvino.qparams(bad, tensor)
        assert str(error.value).startswith(said)
