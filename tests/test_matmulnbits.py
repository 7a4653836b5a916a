"""Tests of `pyquant.weights.matmulnbits` against ONNX Runtime's MatMulNBits."""

from itertools import product

import numpy as np
import planar_oracle as oracle
import pytest
from planar_oracle import KINDS, data, tensors
from support import amount, bfloat16, loop, same

from pyquant.weights import awq, convert, matmulnbits


def node(B, scales, zero_points=None, g_idx=None, **attributes):
    """Return the weight that the attributes and inputs of a node define."""
    given = {"B": B, "scales": scales, "zero_points": zero_points, "g_idx": g_idx}
    given = {name: one for name, one in given.items() if one is not None}
    return matmulnbits.from_tensors(given, **attributes)


def arrays_of(w):
    return map(w.tensors().get, ("B", "scales", "zero_points"))


def half_away(v):
    exact = v.astype(np.float64)
    return np.trunc(exact + np.copysign(0.5, exact))


def by_definition(x, bits, size, symmetric):
    """Compute codes, scales and zero points, one block after the other."""
    inputs, outputs = x.shape
    blocks, most, middle = -(-inputs // size), (1 << bits) - 1, 1 << (bits - 1)
    codes = np.zeros((outputs, blocks * size), np.uint8)
    scales = np.zeros((outputs, blocks), x.dtype)
    zeros = np.full((outputs, blocks), middle, np.uint8)
    one = np.float32(1)
    with np.errstate(all="ignore"):
        for n in range(outputs):
            for b in range(blocks):
                v = x[b * size : (b + 1) * size, n].astype(np.float32)
                low, high = v.min(), v.max()
                if symmetric:
                    farthest = high if abs(high) > abs(low) else low
                    scale = -(farthest or v[0]) / np.float32(middle)
                else:
                    low, high = min(low, np.float32(0)), max(high, np.float32(0))
                    scale = (high - low) / np.float32(most)
                    zeros[n, b] = 0
                    if scale != 0:
                        zero = half_away(np.float32(0) - low / scale)
                        zeros[n, b] = np.clip(zero, 0, most)
                scales[n, b] = scale
                kept = np.float32(scales[n, b])
                inverse = one / kept if kept != 0 else np.float32(0)
                q = np.clip(half_away(v * inverse + np.float32(zeros[n, b])), 0, most)
                codes[n, b * size : b * size + v.size] = q
    return codes, scales, zeros


def in_bytes(codes, bits):
    return oracle.along(codes, 1, bits, oracle.byte_stream, np.uint8)


def zeros_in_bytes(zeros, bits):
    filled = np.full((zeros.shape[0], -(-zeros.shape[1] * bits // 8) * 8 // bits), 1)
    filled = filled * (1 << (bits - 1))
    filled[:, : zeros.shape[1]] = zeros
    return in_bytes(filled, bits)


SHAPES = ((40, 3), (64, 8), (7, 2), (1, 1), (100, 5), (256, 20))


@pytest.mark.parametrize("bits", [2, 4, 8])
@loop("kind, symmetric", KINDS, [True, False])
def test_quantize_by_definition(kind, bits, symmetric):
    """Round scales to the type of `x` before the division, also for 16-bit types."""
    small = {2: bfloat16 or np.float16, 4: np.float32, 8: np.float16}[bits]
    for shape in SHAPES[: amount(3, None)]:
        for dtype in (np.float32, small) if kind != "sizes" else (np.float32,):
            x = data(kind, shape, dtype)
            for size in (16, 32, 128):
                codes, scales, zeros = by_definition(x, bits, size, symmetric)
                how = {"bits": bits, "block_size": size, "symmetric": symmetric}
                for given in (x, np.asfortranarray(x), np.repeat(x, 2, 0)[::2]):
                    B, s, zero_points = arrays_of(matmulnbits.quantize(given.T, **how))
                    same(s, scales)
                    same(B.reshape(len(codes), -1), in_bytes(codes, bits))
                    if symmetric:
                        assert zero_points is None
                    else:
                        same(zero_points, zeros_in_bytes(zeros, bits))


def test_quantize_in_parts():
    """Quantize an array that is too large to be processed in one part."""
    x = data("normal", (300, 700))
    codes, scales, _ = by_definition(x, 4, 32, True)
    for threads in (1, 3):
        B, s, _ = arrays_of(matmulnbits.quantize(x.T, threads=threads))
        same(s, scales)
        same(B.reshape(700, -1), in_bytes(codes, 4))


def test_worked_examples():
    x = np.float32([[(k - 20) / 8 for k in range(40)]])
    B, scales, _ = arrays_of(matmulnbits.quantize(x))
    assert scales.tolist() == [[0.3125, -0.296875]]
    assert B.tobytes().hex() == (
        "001122324344556676878899aabacbcc33221100000000000000000000000000"
    )
    B, scales, zeros = arrays_of(matmulnbits.quantize(x, symmetric=False))
    assert scales.tolist() == [[0.25833332538604736, 0.15833333134651184]]
    assert zeros.tolist() == [[0x0A]]
    assert B.tobytes().hex() == (
        "102132435465768798a9aabbccddeeffa9cbddfe000000000000000000000000"
    )
    w = matmulnbits.quantize(x, bits=2, symmetric=False)
    assert w.tensors()["zero_points"].tolist() == [[0xA2]]


def packed(bits, inputs, outputs, size):
    """Return random inputs of a node, the unpacked codes and zeros, and attributes."""
    whole = -(-inputs // size) * size
    made = oracle.layer(bits, whole, outputs, size, 0, np.float32)
    codes, zeros, scales = (one.T.copy() for one in made)
    B = in_bytes(codes, bits).reshape(*scales.shape, -1)
    attributes = {"K": inputs, "N": outputs, "bits": bits, "block_size": size}
    return B, scales, zeros_in_bytes(zeros, bits), codes, zeros, attributes


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_dequantize(bits):
    for inputs, outputs, size in ((64, 5, 32), (40, 3, 16), (1, 1, 16), (257, 300, 128)):
        B, scales, zero_bytes, codes, zeros, how = packed(bits, inputs, outputs, size)
        groups = np.arange(inputs) // size
        codes = codes[:, :inputs].T
        want = oracle.numbers(codes, zeros.T, scales.T, groups)
        w = node(B, scales, zero_bytes, **how)
        assert (w.format, w.inputs_axis) == ("matmulnbits", 1)
        same(w.dequantize(), want.copy())
        flat = node(B, scales.ravel(), zero_bytes.ravel(), **how)
        assert (flat.dequantize() == want).all()
        exact = oracle.numbers(codes, zeros.T, scales.T, groups, np.float64)
        assert (w.dequantize(dtype="float64") == exact).all()
        middle = np.full_like(zeros, 1 << (bits - 1))
        want = oracle.numbers(codes, middle.T, scales.T, groups)
        assert (node(B, scales, **how).dequantize() == want).all()
        g_idx = np.random.default_rng(0).permutation(groups).astype(np.int32)
        want = oracle.numbers(codes, zeros.T, scales.T, g_idx)
        assert (node(B, scales, zero_bytes, g_idx, **how).dequantize() == want).all()
        for real in (np.float32, np.float16):
            z = np.random.default_rng(1).standard_normal(scales.shape).astype(real)
            s = scales.astype(real)
            got = node(B, s, z, **how).dequantize(dtype="float32")
            s, z = (part[:, groups].astype(np.float32) for part in (s, z))
            assert (got == codes.T.astype(np.float32) * s - z * s).all()


def test_pack():
    for bits, inputs, size in ((2, 40, 16), (4, 64, 32), (8, 33, 16)):
        B, scales, zero_bytes, codes, zeros, _ = packed(bits, inputs, 6, size)
        blank = codes.copy()
        blank[:, inputs:] = 0
        w = matmulnbits.pack(codes[:, :inputs], scales, zeros, bits=bits, block_size=size)
        want = (in_bytes(blank, bits).reshape(B.shape), scales, zero_bytes)
        for got, array in zip(arrays_of(w), want, strict=True):
            same(got, array)


def test_session():
    """Compare with ONNX Runtime: dequantize by a product with the identity, and pack."""
    onnx = pytest.importorskip("onnx", reason="ONNX Runtime is given models by it")
    ort = pytest.importorskip("onnxruntime", reason="the judge of this test")
    helper, arrays = onnx.helper, onnx.numpy_helper
    one = onnx.TensorProto.FLOAT

    def run(w):
        (N, K), domain = w.shape, "com.microsoft"
        how = {"domain": domain, "bits": w.bits, "block_size": w.block_size}
        given = [arrays.from_array(value, name) for name, value in w.tensors().items()]
        names = ["A", *w.tensors()]
        node = helper.make_node("MatMulNBits", names, ["Y"], K=K, N=N, **how)
        ends = (("A", K), ("Y", N))
        x, y = ([helper.make_tensor_value_info(name, one, ["M", n])] for name, n in ends)
        graph = helper.make_graph([node], "weight", x, y, given)
        sets = [helper.make_opsetid("", 21), helper.make_opsetid(domain, 1)]
        model = helper.make_model(graph, opset_imports=sets, ir_version=10)
        providers = ["CPUExecutionProvider"]
        session = ort.InferenceSession(model.SerializeToString(), providers=providers)
        return session.run(None, {"A": np.eye(K, dtype=np.float32)})[0].T

    for bits in (2, 4, 8):
        for inputs, outputs, size in ((64, 5, 32), (80, 3, 16), (256, 9, 128)):
            x = data("normal", (outputs, inputs))
            for symmetric in (True, False):
                w = matmulnbits.quantize(x, bits=bits, block_size=size, symmetric=symmetric)
                assert (run(w) == w.dequantize()).all()
    rng = np.random.default_rng(0)
    words = rng.integers(-(2**31), 2**31, (2, 130, 2), dtype=np.int32)
    given = tensors(words[0, :128], words[1, :2], data("normal", (2, 16)))
    layer = awq.from_tensors(given)
    assert (run(convert(layer, "matmulnbits")) == layer.dequantize()).all()
    real = rng.standard_normal((5, 2)).astype(np.float32)
    given = {**matmulnbits.quantize(data("normal", (5, 64))).tensors(), "zero_points": real}
    w = matmulnbits.from_tensors(given, K=64, N=5, block_size=32)
    assert (run(w) == w.dequantize()).all()


@loop("dtype", [np.float32, np.float16])
def test_encoder_of_onnxruntime(dtype):
    ort = pytest.importorskip("onnxruntime", reason="the judge of this test")
    for bits in (2, 4, 8):
        encode = getattr(ort.capi._pybind_state, f"quantize_matmul_{bits}bits", None)
        if encode is None:
            pytest.skip(f"this ONNX Runtime has no encoder of {bits} bits")
        shapes, sizes = ((40, 3), (64, 8), (104, 5)), (16, 32, 64, 128)
        cases = product(KINDS[:5], shapes, sizes, (True, False))
        for kind, shape, size, symmetric in cases:
            x = data(kind, shape, dtype)
            how = {"bits": bits, "block_size": size, "symmetric": symmetric}
            want = matmulnbits.quantize(x.T, **how).tensors()
            made = {name: np.zeros_like(want[name]) for name in ("B", "scales")}
            zeros = np.zeros((shape[1], -(-made["scales"].shape[1] * bits // 8)), "u1")
            encode(made["B"], x, made["scales"], zeros, size, *shape[::-1], symmetric)
            made |= {} if symmetric else {"zero_points": zeros}
            for name, array in made.items():
                same(want[name], array)


B = np.zeros((3, 2, 16), np.uint8)
S = np.ones((3, 2), np.float32)
HOW = {"K": 64, "N": 3, "block_size": 32}
X = np.ones((3, 64), np.float32)
