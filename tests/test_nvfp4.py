"""Tests of `nvfp4`: scales of blocks and tensors like two packages, codes, numbers."""

from fractions import Fraction

import mx_oracle
import numpy as np
import pytest
from oracle import float32 as single
from support import loop, same

import pyquant as pq

ml_dtypes = pytest.importorskip("ml_dtypes")  # it defines the types of weights

from pyquant.weights import nvfp4  # noqa: E402


def parts(w):
    """Return the unpacked elements, the scales of blocks and the scale of the tensor."""
    codes, scales, single = w.tensors().values()
    codes = pq.unpack(pq.PackedArray(codes.reshape(-1), E2M1, w.shape))
    return codes, scales, single.reshape(())[()]


def read(codes, scales, single, like="torchao"):
    names = nvfp4._TENSORS[like]
    return nvfp4.from_tensors(dict(zip(names, (codes, scales, single), strict=True)))


PACKAGES = ("torchao", "compressed_tensors")
E4M3, E2M1 = "float8_e4m3fn", "float4_e2m1fn"


def exact(v):
    return Fraction(float(v))


def tensor_scale(a, like):
    if like == "torchao":
        return single(a / 2688)
    return single(2688 * single(1 / a))


def block_scale(a, t, like):
    """Return the scale of a block as a byte."""
    sixth = single(a / 6)
    if like == "torchao":
        return max(mx_oracle.code_of(min(single(sixth / t), Fraction(448)), E4M3), 8)
    return mx_oracle.code_of(single(t * sixth), E4M3) or 0x20


def codes_of(block, t, byte, like):
    s = mx_oracle.decode(byte, E4M3)
    if like == "torchao":
        factor = single(single(1 / t) / s)
        quotients = [single(exact(v) * factor) for v in block]
    else:
        divisor = single(s / t)
        quotients = [single(exact(v) / divisor) for v in block]
    return [
        mx_oracle.code_of(q, E2M1, np.signbit(v))
        for q, v in zip(quotients, block, strict=True)
    ]


def factor_of(byte, t, like):
    s = mx_oracle.decode(byte, E4M3)
    return single(t * s) if like == "torchao" else single(s / t)


def wild(shape, seed, spread=6):
    return mx_oracle.wild(shape, seed, (-spread, spread), (-5, 3))


@pytest.mark.parametrize("like", PACKAGES)
@loop("spread", [3, 30])
def test_by_definition(like, spread):
    x = wild((24, 52), 1, spread)
    x[0, :16], x[1, :16] = 0, -0.0
    x[2, :16] = np.arange(16) / 4 - 2  # multiples of 1/4 include ties if the scale is 1
    x[3, 3] = 1e-42
    a = max(abs(exact(v)) for v in x.flat)
    for given in (None, 1, float(2.0**-spread) * 1.7):
        w = nvfp4.quantize(x, given, like=like)
        codes, scales, t = parts(w)
        due = tensor_scale(a, like) if given is None else exact(np.float32(given))
        assert exact(t) == due
        again = nvfp4.pack(x, scales, t, like=like).tensors()
        for key, array in w.tensors().items():
            same(again[key].reshape(-1).view("u1"), array.reshape(-1).view("u1"))
        y = w.dequantize()
        for row, blocks in enumerate(mx_oracle.blocks_of(x, 16)):
            for k, block in enumerate(blocks):
                byte = block_scale(max(abs(exact(v)) for v in block), due, like)
                assert scales.view(np.uint8)[row, k] == byte
                want = codes_of(block, due, byte, like)
                at = slice(16 * k, 16 * k + len(block))
                assert codes.view(np.uint8)[row, at].tolist() == want
                factor = factor_of(byte, due, like)
                numbers = [float(single(mx_oracle.decode(c, E2M1) * factor)) for c in want]
                assert y[row, at].tolist() == numbers


@pytest.mark.parametrize("like", PACKAGES)
def test_given_scales(like):
    x, t = wild((12, 52), 4), np.float32(0.37)
    given = np.random.default_rng(5).integers(1, 0x7F, (12, 4)).astype(np.uint8)
    for scales in (given, given.view(ml_dtypes.float8_e4m3fn)):
        codes, stored, single = parts(nvfp4.pack(x, scales, t, like=like, threads=2))
        assert (stored.view(np.uint8).tolist(), single) == (given.tolist(), t)
        for row, blocks in enumerate(mx_oracle.blocks_of(x, 16)):
            want = [
                code
                for block, byte in zip(blocks, given[row].tolist(), strict=True)
                for code in codes_of(block, exact(t), byte, like)
            ]
            assert codes.view(np.uint8)[row].tolist() == want


@pytest.mark.parametrize("like", PACKAGES)
def test_numbers_next_to_ties(like):
    """Test numbers that get wrong codes if operations are in a wrong order."""
    ties = np.repeat([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], 2)[:14]
    t = np.float32(0.0123)
    for k in range(60):
        x = np.zeros(16, np.float32)
        x[0] = 2 + k / 7
        byte = block_scale(exact(x[0]), exact(t), like)
        s = mx_oracle.decode(byte, E4M3)
        factor = single(1 / exact(t)) if like == "torchao" else 1 / single(s / exact(t))
        factor = single(factor / s) if like == "torchao" else factor
        x[1:15] = ties / float(factor)
        x[1:15:2] = np.nextafter(x[1:15:2], np.float32(9 * (k % 3 - 1)))
        w = nvfp4.quantize(x, t, like=like)
        codes, scales, _ = parts(w)
        assert scales.view(np.uint8) == byte
        assert codes.view(np.uint8).tolist() == codes_of(x, exact(t), byte, like)


def test_worked_blocks():
    x = (np.arange(32, dtype=np.float32) - 16) / 8
    w = nvfp4.quantize(x)
    codes, scales, t = w.tensors().values()
    assert t.view(np.uint32) == 0x3A430C31
    assert scales.tobytes().hex() == "7e7d"
    assert codes.tobytes().hex() == "ffefeededdccab9a1022435465667677"
    factors = np.float64(np.float32(t) * scales.astype(np.float32)).repeat(16)
    y = parts(w)[0].astype(np.float64) * factors
    for given in (codes, parts(w)[0]):
        for one in (scales, scales.view(np.uint8)):
            assert read(given, one, [t]).dequantize(dtype="float64").tolist() == y.tolist()
    assert w.dequantize().tolist() == y.astype(np.float32).tolist()


@pytest.mark.parametrize("like", PACKAGES)
def test_ends_of_tensor_scales(like):
    for a in (0, 1e-45, 1e-38, 3e-36, 1e-33, 1e-4, 3e38):
        x = np.zeros((2, 20), np.float32)
        x[1, 18] = -a
        w = nvfp4.quantize(x, like=like)
        t = parts(w)[2]
        y = w.dequantize()
        assert np.isfinite(y).all()
        assert np.count_nonzero(y) == (t != 1)
    low, high = nvfp4._RANGES[like]
    for given in (low, high):
        w = nvfp4.quantize(wild((4, 32), 9), given, like=like)
        assert np.isfinite(w.dequantize()).all()


def test_no_elements():
    w = nvfp4.quantize(np.zeros((0, 64), np.float32))
    codes, scales, t = parts(w)
    assert (codes.shape, scales.shape, t) == ((0, 64), (0, 4), 1)
    none = np.zeros((2, 0), np.uint8)
    assert read(none, none, 1.0).dequantize().shape == (2, 0)


X = np.ones((2, 64), np.float32)
CODES = X.astype(ml_dtypes.float4_e2m1fn)
BYTES = np.full((2, 4), 0x38, np.uint8)
NAN = X.copy()
NAN[1, 3] = np.nan


@loop("spread", [3, 20, 60])
def test_equals_torchao(spread):
    torch = pytest.importorskip("torch")  # optional
    theirs = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor")  # optional
    x = wild((500, 64), spread, spread)
    x[0] = 0
    t = theirs.per_tensor_amax_to_scale(torch.tensor(abs(x).max()))
    for given in (t, None):
        scales, codes = theirs.nvfp4_quantize(torch.from_numpy(x), 16, given)
        w = nvfp4.quantize(x, None if given is not None else 1)
        packed, made, single = w.tensors().values()
        assert single == (1 if given is None else t.numpy())
        due = scales.view(torch.uint8).numpy()
        np.testing.assert_array_equal(made.view(np.uint8), due)
        np.testing.assert_array_equal(packed.ravel(), codes.numpy().ravel())
    made = theirs.NVFP4Tensor.to_nvfp4(torch.from_numpy(x), 16, t)
    y = nvfp4.quantize(x).dequantize()
    due = made.dequantize(torch.float32).numpy()
    np.testing.assert_array_equal(y.view(np.uint32), due.view(np.uint32))


@loop("spread", [3, 20, 60])
def test_equals_compressed_tensors(spread):
    torch = pytest.importorskip("torch")  # optional
    package = "compressed_tensors"
    theirs = pytest.importorskip(f"{package}.quantization")  # optional
    utils = pytest.importorskip(f"{package}.quantization.utils")  # optional
    lifecycle = pytest.importorskip(f"{package}.quantization.lifecycle.forward")  # optional
    x = wild((500, 64), spread, spread)
    x[0] = 0
    given = torch.from_numpy(x)
    args = theirs.preset_name_to_scheme("NVFP4", ["Linear"]).weights
    t = utils.generate_gparam(given.min(), given.max())
    blocks = given.view(500, 4, 16)
    scales, _ = utils.calculate_qparams(blocks.amin(-1), blocks.amax(-1), args, t)
    zero = torch.zeros_like(scales)
    codes = lifecycle.quantize(given, scales, zero, args, global_scale=t)
    w = nvfp4.quantize(x, like="compressed_tensors")
    made, stored, single = parts(w)
    assert single == t.numpy()
    np.testing.assert_array_equal(stored.astype(np.float32), scales.float().numpy())
    np.testing.assert_array_equal(made.astype(np.float32), codes.float().numpy())
    y = lifecycle.dequantize(codes, scales, zero, args, global_scale=t, dtype=torch.float32)
    np.testing.assert_array_equal(w.dequantize().view(np.uint32), y.numpy().view(np.uint32))
