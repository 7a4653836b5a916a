"""Audio samples: `QParams.from_pcm` and the layout "int24".

A sample is an integer code times a power of two. float32 represents each product exactly,
because a sample has at most 24 bits. float64 represents each quotient exactly.
"""

import io

import numpy as np
import pytest
from support import FOR_OUT, LAYOUTS, amount, case, dequantize_at, quantize_at, same, seeds

import pyquant as pq

BITS = (8, 16, 24, 32)
KIND = {8: np.uint8, 16: np.int16, 24: np.int32, 32: np.int32}
# Frames, channels.
SHAPES = [
    *((n, 1) for n in (0, 1, 5, 6, 7, 9, 10, 33, 1023, 1024, 1025, 4099)),
    *((n, c) for n in (1, 3, 15, 16, 17, 100, 1037) for c in (2, 3, 4, 5, 6, 7, 8, 9)),
]


def random_samples(rng, bits, shape):
    """Return random samples with the lowest and the highest one."""
    most = 1 << (bits - 1)
    lift = most if bits == 8 else 0
    samples = rng.integers(-most, most, shape) + lift
    samples.flat[:2] = (lift - most, lift + most - 1)[: samples.size]
    return samples.astype(KIND[bits])


def real_of(samples, bits):
    """Convert samples to float32: subtract 128 from 8-bit samples, and scale to -1 to 1."""
    exact = samples.astype(np.int64) - (128 if bits == 8 else 0)
    return exact.astype(np.float32) * np.float32(2.0 ** (1 - bits))


def samples_of(x, bits):
    """Convert float32 numbers to samples: round half to even and saturate."""
    most = 1 << (bits - 1)
    quotients = np.rint(np.asarray(x, np.float64) * most)
    quotients = np.where(np.isnan(x), -most, np.clip(quotients, -most, most - 1))
    return (quotients + (most if bits == 8 else 0)).astype(np.int64).astype(KIND[bits])


def bytes_of(samples):
    """Return 24-bit samples as bytes. Each sample becomes three bytes of the last axis."""
    three = np.ascontiguousarray(samples).astype("<i4").view(np.uint8)
    three = three.reshape(*samples.shape, 4)[..., :3]
    return three.reshape(*samples.shape[:-1], 3 * samples.shape[-1]).copy()


def stored(samples, bits):
    """Return samples in the form that `dequantize` reads: 24-bit samples are packed."""
    if bits != 24:
        return samples
    return pq.PackedArray(bytes_of(samples), "int32", samples.shape, layout="int24")


@pytest.mark.parametrize("bits", BITS)
def test_parameters(bits):
    p = pq.QParams.from_pcm(bits)
    zero = 128 if bits == 8 else 0
    limits = (-(1 << 23), (1 << 23) - 1) if bits == 24 else None
    assert p == pq.QParams(2.0 ** (1 - bits), zero, KIND[bits], quant_range=limits)
    same(p.quantize([-1.0, 0.0, 1.0, np.nan]), samples_of([-1.0, 0, 1, np.nan], bits))


@pytest.mark.parametrize("bits", BITS)
def test_read(bits, isa):
    """Dequantize mono and interleaved samples to interleaved rows and to planes."""
    p, rng = pq.QParams.from_pcm(bits), np.random.default_rng(bits)
    for shape in SHAPES:
        samples = random_samples(rng, bits, shape)
        expected = real_of(samples, bits)
        planes = np.empty(shape[::-1], np.float32)
        with case(shape=shape):
            same(dequantize_at(isa, stored(samples, bits), p.scale, p.zero_point), expected)
        same(p.dequantize(stored(samples, bits), out=planes.T, threads=2), expected.copy())
        if bits != 24:
            same(p.dequantize(samples.T), np.ascontiguousarray(expected.T))
            same(p.dequantize(samples[::2, ::-1]), expected[::2, ::-1].copy())


@pytest.mark.parametrize("bits", BITS)
def test_write(bits, isa):
    """Quantize rows and planes, with ties, values out of range, infinities and NaN."""
    p, rng = pq.QParams.from_pcm(bits), np.random.default_rng(bits)
    layout = "int24" if bits == 24 else None
    for shape in SHAPES:
        steps = rng.integers(-(1 << bits), 1 << bits, shape) / 2  # many ties
        x = np.float32(steps * 2.0 ** (1 - bits) * rng.choice([1, 1, 2**-9], shape))
        x.flat[:4] = (np.nan, np.inf, -np.inf, -0.0)[: x.size]
        expected = samples_of(x, bits)
        how = {"dtype": p.dtype, "layout": layout}
        with case(shape=shape):
            got = quantize_at(isa, x, p.scale, p.zero_point, **how)
            same(pq.unpack(got) if layout else got, expected)
        planes = np.ascontiguousarray(x.T)
        got = p.quantize(planes.T, layout=layout, threads=2)
        same(got.data if layout else got, bytes_of(expected) if layout else expected)
        if layout is None:
            back = np.empty(shape, p.dtype)
            same(p.quantize(planes, out=back.T), np.ascontiguousarray(expected.T))


def check_int24(seed):
    """Compare calls that use packed 24-bit codes with calls that use int32 codes."""
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 24, int(rng.integers(1, 5))))
    codes = random_samples(rng, 24, shape)
    packed = pq.pack(codes, "int24")
    same(packed.data, bytes_of(codes))
    same(pq.unpack(packed), codes)
    memory = packed.data.tobytes()
    assert packed == pq.PackedArray.from_buffer(memory, "int32", shape, layout="int24")
    axis = int(rng.integers(len(shape)))
    scale = rng.uniform(0.5, 2, shape[axis]).astype(np.float32) * np.float32(2**-20)
    zero = rng.integers(-(2**22), 2**22, shape[axis], dtype=np.int32)
    offset = rng.standard_normal(shape[axis]).astype(np.float32)
    for more in ({}, {"offset": offset}, {"fill": int(codes.flat[0])}):
        for out in FOR_OUT:
            with case(shape=shape, axis=axis, more=more, out=out):
                to = LAYOUTS[out](np.zeros(shape, np.float32))
                got = pq.dequantize(packed, scale, zero, axis=axis, out=to, **more)
                same(
                    got.astype("=f4"), pq.dequantize(codes, scale, zero, axis=axis, **more)
                )
    limits = (-(1 << 23), (1 << 23) - 1)
    x = (rng.standard_normal(shape) * 6).astype(np.float32)
    for more in (
        {},
        {"rounding": "floor"},
        {"rounding": "stochastic", "seed": seed},
        {"offset": offset},
        {"precision": "float64"},
    ):
        for copy in LAYOUTS.values():
            how = {"dtype": "int32", "axis": axis, **more}
            got = pq.quantize(copy(x), scale, layout="int24", threads=2, **how)
            same(pq.unpack(got), pq.quantize(x, scale, quant_range=limits, **how))
    wide = pq.quantize(x, scale, dtype="int32", axis=axis)
    wrapped = pq.quantize(
        x, scale, dtype="int32", axis=axis, layout="int24", out_of_range="wrap"
    )
    same(pq.unpack(wrapped), (wide + (1 << 23)) % (1 << 24) - (1 << 23))


def test_int24_equals_int32():
    """Test random shapes, parameters, strides and options."""
    for seed in seeds(amount(20, 200)):
        with case(seed=seed):
            check_int24(seed)


def test_dither():
    """Round a number between two samples stochastically. The mean is near the number."""
    x = np.full(1 << 16, 0.25 * 2**-15, np.float32)
    got = pq.QParams.from_pcm(16).quantize(x, rounding="stochastic", seed=1)
    assert set(got.tolist()) == {0, 1}
    assert abs(got.mean() - 0.25) < 0.01


def test_int24_writes_into_bytes():
    """Write results to `out`. If a call raises, the bytes of `out` do not change."""
    p, x = pq.QParams.from_pcm(24), np.float32([[0.5, -1.0], [1.0, 0.0]])
    out = np.full((2, 6), 7, np.uint8)
    assert p.quantize(x, layout="int24", out=out) is out
    same(out, np.uint8([[0, 0, 64, 0, 0, 128], [255, 255, 127, 0, 0, 0]]))
    codes, p = pq.dynamic_quantize(x, dtype="int32", layout="int24", out=out)
    limits = (-(1 << 23), (1 << 23) - 1)
    assert p == pq.choose_qparams(x, dtype="int32", quant_range=limits)
    assert codes is out
    kept, shared = out.copy(), np.zeros(2, np.float32)
    for bad, message in (
        (np.empty((2, 2), np.int32), "out: expected uint8, got int32"),
        (np.empty((2, 5), np.uint8), "out: expected shape (2, 6), got (2, 5)"),
        (np.empty((2, 12), np.uint8)[:, ::2], "out: expected contiguous bytes"),
        (out[:1], "out: expected shape (2, 6)"),
    ):
        with pytest.raises((TypeError, ValueError)) as caught:
            p.quantize(x, layout="int24", out=bad)
        assert str(caught.value).startswith(message)
    with pytest.raises(ValueError, match="overlaps the input"):
        p.quantize(shared, layout="int24", out=shared.view(np.uint8)[:6])
    unlimited = pq.QParams(2.0**-23, None, "int32")
    with pytest.raises(ValueError, match="within the range of int32 in 24 bits"):
        unlimited.quantize(x, layout="int24", out_of_range="raise")
    same(out, kept)


@pytest.mark.parametrize("bits", BITS)
def test_read_equals_soundfile(bits):
    """Read a WAV file with two channels."""
    soundfile = pytest.importorskip("soundfile")
    import wave

    samples = random_samples(np.random.default_rng(bits), bits, (5000, 2))
    file = io.BytesIO()
    with wave.open(file, "wb") as w:
        w.setnchannels(2)
        w.setsampwidth(bits // 8)
        w.setframerate(48000)
        raw = bytes_of(samples) if bits == 24 else samples.astype(samples.dtype, copy=False)
        w.writeframes(raw.tobytes())
    file.seek(0)
    read, rate = soundfile.read(file, dtype="float32")
    assert rate == 48000
    p, planes = pq.QParams.from_pcm(bits), np.empty((2, 5000), np.float32)
    p.dequantize(stored(samples, bits), out=planes.T)
    same(planes, np.ascontiguousarray(read.T))
