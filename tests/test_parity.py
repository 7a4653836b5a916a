"""Every level against scalar, byte for byte: lengths, alignments, groups, modes, types."""

import numpy as np
import pytest
from support import (
    CODES,
    MODES,
    REALS,
    Guarded,
    adversarial,
    amount,
    codes,
    compute_dtype,
    each,
    misaligned,
    mixed_scales,
    name_of,
    parameter_shape,
    same,
    scales_for,
    usual_scales,
    zero_points,
)

from pyquant._core import choose_qparams_at, dequantize_at, quantize_at

LONG = amount(700, 5000)
LENGTHS = [*range(3 * 32 + 4), 127, 128, 129, 255, 257, 1000, 4095, 4096, 4097, LONG]
GROUPS = [*range(1, 68), 127, 128, 129, 784]


def check_quantize(level, x, scale, zero, **kwargs):
    """One call at a level, into guarded memory, against scalar's answer."""
    __tracebackhide__ = True
    expected = quantize_at("scalar", x, scale, zero, **kwargs)
    out = Guarded(expected.dtype, expected.shape)
    quantize_at(level, x, scale, zero, out=out.array, **kwargs)
    out.check()
    same(out.array, expected)


def check_dequantize(level, q, scale, zero, **kwargs):
    __tracebackhide__ = True
    expected = dequantize_at("scalar", q, scale, zero, **kwargs)
    out = Guarded(expected.dtype, expected.shape)
    dequantize_at(level, q, scale, zero, out=out.array, **kwargs)
    out.check()
    same(out.array, expected)


def zeros_for(dtype, count):
    return np.resize(np.array(zero_points(dtype), dtype=dtype), count)


@each("source, target, mode", REALS, CODES, MODES)
def test_quantize_in_every_mode(source, target, mode, simd):
    for i, scale in enumerate((0.3, 7.0, 1e-40, -0.02)):
        s = np.array([scale], dtype=compute_dtype(source))
        x = adversarial(source, scale, amount(300, 1500), seed=i)
        check_quantize(simd, x, s, zeros_for(target, 4)[i], dtype=target, rounding=mode)
        scales, zeros = mixed_scales(s.dtype, x.size, seed=i), zeros_for(target, x.size)
        check_quantize(simd, x, scales, zeros, dtype=target, axis=0, rounding=mode)
    blocks = (
        usual_scales(s.dtype, -(-x.size // 32)),
        zeros_for(target, -(-x.size // 32)),
    )
    rest = {"dtype": target, "axis": 0, "block_size": 32, "rounding": mode}
    check_quantize(simd, x, *blocks, **rest)


@each("source, target", REALS, CODES)
def test_quantize_at_every_scale(source, target, simd):
    ends = zero_points(target)
    for i, (name, scale) in enumerate(scales_for(compute_dtype(source)).items()):
        x = adversarial(source, scale[0], amount(400, 3000), seed=i)
        try:
            check_quantize(simd, x, scale, ends[i % len(ends)], dtype=target)
        except AssertionError as error:
            raise AssertionError(f"scale {name}: {error}") from None


@each("source, target", REALS, CODES)
def test_quantize_every_length(source, target, simd):
    x = adversarial(source, 0.3, LENGTHS[-1])
    scales = mixed_scales(compute_dtype(source), x.size)
    zeros = zeros_for(target, x.size)
    for n in LENGTHS:
        check_quantize(simd, x[:n], 0.3, 5, dtype=target)
        check_quantize(simd, x[:n], 0.3, 5, dtype=target, rounding="half_up")
        check_quantize(simd, x[:n], scales[:n], zeros[:n], dtype=target, axis=0)


@each("source, target", REALS, CODES)
def test_quantize_every_group(source, target, simd):
    for g in GROUPS[:: amount(5, 1)]:
        n = min(max(5 * g + g // 2, 70), 2500)
        count = -(-n // g)
        x = adversarial(source, 0.3, n, seed=g)
        compute = compute_dtype(source)
        for scales in (usual_scales(compute, count), mixed_scales(compute, count)):
            zeros = zeros_for(target, count)
            rest = {"dtype": target, "axis": 0}
            check_quantize(simd, x, scales, zeros, block_size=g, **rest)
            whole = x[: n // g * g].reshape(-1, g)
            check_quantize(simd, whole, scales[: n // g], zeros[: n // g], **rest)


@each("source, target", REALS, CODES)
def test_quantize_every_alignment(source, target, simd):
    x = adversarial(source, 0.3, 131)
    scales = usual_scales(compute_dtype(source), x.size)
    expected = quantize_at("scalar", x, 0.3, 1, dtype=target)
    one_each = quantize_at("scalar", x, scales, axis=0, dtype=target)
    for i in range(0, 32, amount(3, 1)):
        shifted = misaligned(x, i)
        for j in range(0, 32, amount(5, 1)):
            out = Guarded(target, x.shape, j)
            quantize_at(simd, shifted, 0.3, 1, out=out.array, dtype=target)
            same(out.array, expected)
            out.check()
        params = misaligned(scales, i)
        same(
            quantize_at(simd, shifted, params, axis=0, out=out.array, dtype=target),
            one_each,
        )
        out.check()


@each("source, target", CODES, REALS)
def test_dequantize_at_every_scale(source, target, simd):
    ends = zero_points(source)
    q = codes(source, amount(400, 3000))
    for i, (name, scale) in enumerate(scales_for(compute_dtype(target)).items()):
        try:
            check_dequantize(simd, q, scale, ends[i % len(ends)], dtype=target)
        except AssertionError as error:
            raise AssertionError(f"scale {name}: {error}") from None


@each("source, target", CODES, REALS)
def test_dequantize_every_length(source, target, simd):
    q = codes(source, LENGTHS[-1])
    scales = mixed_scales(compute_dtype(target), q.size)
    zeros = zeros_for(source, q.size)
    for n in LENGTHS:
        check_dequantize(simd, q[:n], 0.3, 5, dtype=target)
        check_dequantize(simd, q[:n], scales[:n], zeros[:n], axis=0, dtype=target)


@each("source, target", CODES, REALS)
def test_dequantize_every_group(source, target, simd):
    for g in GROUPS[:: amount(5, 1)]:
        n = min(max(5 * g + g // 2, 70), 2500)
        count = -(-n // g)
        q = codes(source, n, seed=g)
        scales = mixed_scales(compute_dtype(target), count)
        zeros = zeros_for(source, count)
        check_dequantize(simd, q, scales, zeros, axis=0, block_size=g, dtype=target)
        whole = q[: n // g * g].reshape(-1, g)
        kwargs = {"axis": 0, "dtype": target}
        check_dequantize(simd, whole, scales[: n // g], zeros[: n // g], **kwargs)


@each("source, target", CODES, REALS)
def test_dequantize_every_alignment(source, target, simd):
    q = codes(source, 131)
    scales = usual_scales(compute_dtype(target), q.size)
    expected = dequantize_at("scalar", q, 0.3, 1, dtype=target)
    one_each = dequantize_at("scalar", q, scales, axis=0, dtype=target)
    for i in range(0, 32, amount(3, 1)):
        shifted = misaligned(q, i)
        for j in range(0, 32, amount(5, 1)):
            out = Guarded(target, q.shape, j)
            dequantize_at(simd, shifted, 0.3, 1, out=out.array, dtype=target)
            same(out.array, expected)
            out.check()
        params = misaligned(scales, i)
        same(
            dequantize_at(simd, shifted, params, axis=0, out=out.array, dtype=target),
            one_each,
        )
        out.check()


SHAPES = [
    ((7, 65), 0, None),
    ((7, 65), 1, None),
    ((3, 5, 49), 1, None),
    ((3, 49, 5), (0, 1), None),
    ((3, 5, 33), (0, 2), None),
    ((5, 300), 1, 32),
    ((300, 5), 0, 32),
    ((5, 301), 1, 7),
    ((20, 70), None, (3, 16)),
    ((2, LONG + 1), 1, None),
    ((LONG + 1, 2), 0, None),
    ((2, LONG + 1), 0, None),
    ((LONG + 1, 3), 1, None),
]


@each("form, swap", SHAPES, [False, True])
def test_granularities_and_strides(form, swap, simd):
    shape, axis, block = form
    count = int(np.prod(shape))
    params = parameter_shape(shape, axis, block)
    scale = mixed_scales("float32", int(np.prod(params))).reshape(params)
    zero = zeros_for(np.int8, scale.size).reshape(params)
    x = adversarial("float32", 0.3, count).reshape(shape)
    q = codes("int8", count).reshape(shape)
    if swap:  # the same arrays in Fortran order, every other element reversed
        x, q = (np.repeat(a, 2, axis=0)[::-2].copy("F")[::-1] for a in (x, q))
    kwargs = {"axis": axis, "block_size": block}
    check_quantize(simd, x, scale, zero, **kwargs)
    check_quantize(simd, x, scale, zero, rounding="half_away", **kwargs)
    check_dequantize(simd, q, scale, zero, **kwargs)


@pytest.mark.parametrize("source", REALS, ids=name_of)
@pytest.mark.parametrize("symmetric", [False, True])
def test_choose_qparams(source, symmetric, simd):
    x = np.random.default_rng(7).normal(size=5003).astype(source)
    for n in [*range(1, 100), x.size]:
        for at in {0, n // 2, n - 1}:
            values = x[:n].copy()
            values[at] = 77 - 154 * (n % 2)
            got = choose_qparams_at(simd, values, symmetric=symmetric)
            expected = choose_qparams_at("scalar", values, symmetric=symmetric)
            for a, b in zip(got, expected, strict=True):
                same(a, b)
    for g in GROUPS[:: amount(5, 1)]:
        for matrix, axis in (
            (x[: 6 * g].reshape(6, g), 0),
            (x[: 6 * g].reshape(g, 6), 1),
        ):
            got = choose_qparams_at(simd, matrix, axis=axis, symmetric=symmetric)
            expected = choose_qparams_at("scalar", matrix, axis=axis, symmetric=symmetric)
            for a, b in zip(got, expected, strict=True):
                same(a, b)
