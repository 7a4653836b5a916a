"""Compare `pyquant.weights.mlx` with recorded results of MLX and with NumPy."""

import numpy as np
import planar_oracle as oracle
import pytest
from conformance.cases import WEIGHTS, argument, array, calls
from planar_oracle import KINDS, data, tensors
from support import loop, same

from pyquant.weights import awq, convert, matmulnbits, mlx

VECTORS = [call for path in WEIGHTS for call in calls(path) if call.op.startswith("mlx.")]
BITS = (2, 3, 4, 5, 6, 8)
one = np.float32(1)


def read(w, scales, biases, *, group_size=64, bits=4, **how):
    """Read the three results of `mlx.core.quantize` and dequantize them."""
    given = {"weight": w, "scales": scales, "biases": biases}
    w = mlx.from_tensors(given, group_size=group_size, bits=bits)
    return w.dequantize(**how)


def check(w, words, scales, biases):
    """Compare the tensors of a weight, and dequantize a slice of its rows."""
    for got, want in zip(w.tensors().values(), (words, scales, biases), strict=True):
        same(got, want)
    some = w.dequantize()[1:70]
    same(w.dequantize(slice(1, 70), out=np.empty_like(some)), some)


def by_definition(x, size, bits):
    """Compute codes, scales and biases with NumPy, rounding each step to float32."""
    groups = x.astype(np.float32).reshape(*x.shape[:-1], x.shape[-1] // size, size)
    low, high = groups.min(-1), groups.max(-1)
    with np.errstate(all="ignore"):
        scale = np.maximum((high - low) / np.float32((1 << bits) - 1), np.float32(1e-7))
        is_low = abs(low) > abs(high)
        scale = np.where(is_low, scale, -scale)
        edge = np.where(is_low, low, high)
        steps = np.rint(edge / scale)
        scale = np.where(steps == 0, scale, edge / np.where(steps == 0, one, steps))
        bias = np.where(steps == 0, np.float32(0), edge)
        codes = np.rint((groups - bias[..., None]) / scale[..., None])
    codes = np.clip(codes, 0, (1 << bits) - 1).astype(np.uint8).reshape(x.shape)
    return codes, scale.astype(x.dtype), bias.astype(x.dtype)


def words_of(codes, bits):
    count = codes.shape[-1]
    rows = codes.reshape(codes.size // count, count)
    made = oracle.along(rows, 1, bits).view(np.uint32)
    return made.reshape(*codes.shape[:-1], count * bits // 32)


@pytest.mark.parametrize("kind", KINDS[:-1])
@loop("dtype", [np.float32, np.float16])
def test_quantize_by_definition(kind, dtype):
    for shape in ((3, 256), (128,), (2, 3, 128), (0, 128), (700, 128)):
        x = data(kind, shape, dtype)
        for bits in BITS if shape[0] < 700 else (4,):
            for size in (32, 64, 128):
                codes, scale, bias = by_definition(x, size, bits)
                words = words_of(codes, bits)
                for given in (x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2]):
                    w = mlx.quantize(given, group_size=size, bits=bits, threads=2)
                    check(w, words, scale, bias)


def test_number_of_core_calls(monkeypatch):
    """Quantize all experts in one call of the core, but long rows in several calls."""
    calls = []
    quantize = mlx._core.quantize

    def counted(*given, **named):
        calls.append(given)
        return quantize(*given, **named)

    monkeypatch.setattr(mlx._core, "quantize", counted)
    for shape, most in (((50, 4, 2, 64), 1), ((2, 3, 1 << 16), 12)):
        x = data("normal", shape, np.float32)
        codes, scale, bias = by_definition(x, 32, 5)
        calls.clear()
        w = mlx.quantize(x, group_size=32, bits=5)
        assert len(calls) == most
        check(w, words_of(codes, 5), scale, bias)


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="it defines the type")
    x = data("normal", (3, 128), ml_dtypes.bfloat16)
    codes, scale, bias = by_definition(x, 64, 4)
    w = mlx.quantize(x)
    check(w, words_of(codes, 4), scale, bias)
    product = codes.reshape(3, 2, 64).astype(x.dtype) * scale[..., None]
    same(w.dequantize(dtype=x.dtype), (product + bias[..., None]).reshape(3, 128))


@loop("bits, dtype", BITS, [np.float32, np.float16])
def test_dequantize(bits, dtype):
    """Round the product, and then the sum, to the type of the scales."""
    rng = np.random.default_rng(bits)
    for shape in ((3, 256), (128,), (2, 3, 128), (0, 128), (300, 256)):
        codes = rng.integers(0, 1 << bits, shape, dtype=np.uint8)
        groups = (*shape[:-1], shape[-1] // 64)
        scale, bias = (rng.standard_normal(groups).astype(dtype) for _ in "sb")
        words = words_of(codes, bits)
        each = codes.reshape(*groups, 64).astype(dtype)
        want = (each * scale[..., None] + bias[..., None]).reshape(shape)
        how = {"bits": bits, "dtype": dtype}
        given = (words, scale, bias)
        swapped = (one.astype(one.dtype.newbyteorder(">")) for one in given)
        for tensors_of in (given, swapped):
            same(read(*tensors_of, **how), want)
        single = each.astype(np.float32) * scale[..., None].astype(np.float32)
        single = (single + bias[..., None].astype(np.float32)).reshape(shape)
        same(read(words, scale, bias, bits=bits), single)


@loop("call", VECTORS)
def test_vectors(call):
    """Compare codes and numbers with recorded results of MLX."""
    args = {name: argument(value) for name, value in call.args.items()}
    if call.op == "mlx.dequantize":
        same(read(**args), array(call.expect))
        return
    check(mlx.quantize(**args), *map(array, call.expect))


def test_mlx_itself():
    mx = pytest.importorskip("mlx.core", reason="the judge of this test")
    for dtype in (np.float32, np.float16):
        for kind in KINDS[:-1]:
            x = data(kind, (5, 256), dtype)
            for bits in BITS:
                for size in (32, 64, 128):
                    w = mlx.quantize(x, group_size=size, bits=bits)
                    made = mx.quantize(mx.array(x), group_size=size, bits=bits)
                    check(w, *map(np.array, made))
                    y = mx.dequantize(*made, group_size=size, bits=bits)
                    same(w.dequantize(dtype=dtype), np.array(y))


def test_convert():
    """Convert zero points to biases -zero * scale, which are exact in float16."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (256, 32), dtype=np.uint8)
    scales = rng.standard_normal((2, 32)).astype(np.float16)
    zeros = np.full((2, 32), 8, np.uint8)

    def layer(dtype=np.float16):
        words = [oracle.along(one, 1, 4, oracle.awq) for one in (codes, zeros)]
        return awq.from_tensors(tensors(*words, scales.astype(dtype)))

    w = layer()
    want = oracle.numbers(codes, zeros, scales, np.arange(256) // 128)
    for size in (None, 32, 64, 128):
        got = convert(w, "mlx", group_size=size)
        assert got.block_size == (size or 128)
        assert (got.dequantize() == want).all()
    zeros[1, 2] = 7
    scales[1, 2] = np.float16(1) + np.float16(2**-10)
    with pytest.raises(
        ValueError,
        match=r"^weight: expected zero points .* got 7 and 1.0009765625 at \(2, 1\); "
        "convert the scales to float32 first$",
    ):
        convert(layer(), "mlx")
    wide = layer(np.float32)
    zeros[1, 2] = 0
    for w in (wide, layer()):
        assert (w.dequantize() == convert(w, "mlx").dequantize()).all()
    thirds = scales.T.astype(np.float32) / 3
    fine = matmulnbits.pack(codes.T, thirds, zeros.T, block_size=128)
    with pytest.raises(ValueError, match=r"^weight: expected zero points .*\)$"):
        convert(fine, "mlx")


W = np.zeros((2, 8), np.uint32)
S = np.ones((2, 1), np.float32)
