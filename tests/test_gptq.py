"""Tests of the modules `gptq` and `awq`, and of conversions between weight formats."""

import itertools

import numpy as np
import planar_oracle as oracle
import pytest
from planar_oracle import layer, tensors
from support import amount, loop, same

from pyquant.weights import (
    Weight,
    awq,
    compressed_tensors,
    convert,
    from_tensors,
    gptq,
    matmulnbits,
)
from pyquant.weights.blocks import block_format

WIDTHS = {"gptq": (2, 3, 4, 8), "gptq_v2": (2, 3, 4, 8), "gptq_p": (2, 3, 4, 5, 6, 7, 8)}
EVERY = [(kind, bits) for kind, widths in WIDTHS.items() for bits in widths]
EVERY.append(("awq", 4))


def words_of(codes, zeros, bits, kind):
    """Pack codes and zero points into words. Axis 0 runs over inputs or their groups."""
    if kind == "awq":
        return [oracle.along(one, 1, 4, oracle.awq) for one in (codes, zeros)]
    pack = oracle.planes if kind == "gptq_p" else oracle.stream
    stored = (zeros.astype(int) - 1) % (1 << bits) if kind == "gptq" else zeros
    return oracle.along(codes, 0, bits, pack), oracle.along(stored, 1, bits, pack)


def pack(kind, bits, x, scales, zeros, g_idx=None):
    if kind == "awq":
        return awq.pack(x, scales, zeros, threads=2)
    return gptq.pack(x, scales, zeros, g_idx, bits=bits, format=kind, threads=2)


def swapped(array):
    return array.astype(array.dtype.newbyteorder(">"))


def experts(*arrays):
    """Stack each array with itself, to get the tensors of two equal experts."""
    return [None if one is None else np.stack([one, one]) for one in arrays]


def mixed(inputs, size, seed=0):
    rng = np.random.default_rng(seed)
    return rng.permutation(np.arange(inputs) // size).astype(np.int32)


# Numbers of inputs and outputs, and group sizes to test with each format.
SHAPES = dict.fromkeys(WIDTHS, ((64, 32, 32), (96, 64, 64), (2112, 32, 64), (64, 32, 64)))
SHAPES["awq"] = ((64, 32, 32), (3, 8, 1), (130, 264, 65), (40, 8, 40))


@pytest.mark.parametrize(("kind", "bits"), EVERY)
def test_dequantize(kind, bits):
    for inputs, outputs, size in SHAPES[kind]:
        codes, zeros, scales = layer(bits, inputs, outputs, size, int(kind == "gptq"))
        words = words_of(codes, zeros, bits, kind)
        ordered = np.arange(inputs) // size
        for g_idx in (None, ordered, mixed(inputs, size))[: 1 if kind == "awq" else 3]:
            groups = ordered if g_idx is None else g_idx
            order = None if g_idx is None else g_idx.astype(np.int32)
            given = (*words, scales, order)
            w = from_tensors(tensors(*given), format=kind)
            assert (w.format, w.bits, w.inputs_axis) == (kind, bits, 0)
            for dtype in (np.float32, np.float16, np.float64):
                want = oracle.numbers(codes, zeros, scales, groups, dtype)
                same(w.dequantize(dtype=dtype), want)
            unsigned = [one.view(np.uint32) for one in words]
            named = tensors(*unsigned, scales, order)
            for change in (np.asfortranarray, swapped):
                turned = {name: change(one) for name, one in named.items()}
                same(from_tensors(turned, format=kind).dequantize(dtype="f8"), want)
            two = experts(*given)
            two[2][1] *= -1
            w = from_tensors(tensors(*two), format=kind)
            out = np.full((inputs, 2, outputs), np.nan).transpose(1, 2, 0)
            assert w.dequantize(out=out) is out
            assert (out == [want, -want]).all()
            same(w.dequantize([1, 0, 1], dtype="float64"), np.stack([-want, want, -want]))


@pytest.mark.parametrize(("kind", "bits"), EVERY)
def test_quantize_packs_given_parameters(kind, bits):
    codes, zeros, scales = layer(bits, 2112, 32, 64, 1)
    scales = abs(scales) + np.float16(0.5)
    words = words_of(codes, zeros, bits, kind)
    for g_idx in (None, mixed(2112, 64))[: 1 if kind == "awq" else 2]:
        groups = np.arange(2112) // 64 if g_idx is None else g_idx
        x = oracle.numbers(codes, zeros, scales, groups)
        made = pack(kind, bits, x, scales, zeros, g_idx).tensors()
        order = None if kind == "awq" else groups.astype(np.int32)
        want = tensors(*words, scales, order)
        assert made.keys() == want.keys()
        for name, array in want.items():
            same(made[name], array)


@loop("dtype", [np.float32, np.float64, np.float16])
def test_quantize_by_definition(dtype):
    """Round after each step, in the documented order, and saturate the codes."""
    _, zeros, scales = layer(4, 64, 32, 32)
    scales = scales.astype(np.float32) * np.float32(0.3)
    x = np.random.default_rng(0).standard_normal((64, 32)).astype(dtype)
    real = np.float64 if dtype is np.float64 else np.float32
    for kind, g_idx in (("gptq_v2", None), ("gptq_v2", mixed(64, 32)), ("awq", None)):
        groups = np.arange(64) // 32 if g_idx is None else g_idx
        shift = (zeros * scales).astype(np.float32)[groups].astype(real)
        quotient = (x.astype(real) + shift) / scales[groups].astype(real)
        codes = np.clip(np.rint(quotient), 0, 15).astype(np.uint8)
        made = pack(kind, 4, x.T, scales, zeros, g_idx).tensors()
        for name, want in tensors(*words_of(codes, zeros, 4, kind), scales).items():
            same(made[name], want)


def test_worked_words():
    eight = np.tile(np.arange(8, dtype=np.uint8), (32, 4))

    def words(bits, kind):
        zeros = np.zeros((1, 32), np.uint8)
        made = gptq.pack(
            eight.astype(np.float32), np.ones((1, 32), np.float32), zeros, bits=bits,
            format=kind,
        )  # fmt: skip
        return [f"{word:x}" for word in made.tensors()["qweight"][:, 0].view(np.uint32)]

    assert words(4, "gptq_v2")[0] == "76543210"
    assert words(3, "gptq_p") == ["e4e4e4e4", "e4e4e4e4", "f0f0f0f0"]
    one = np.ones((1, 8), np.float32)
    for kind, stored in (("gptq", 0x77777777), ("gptq_v2", 0x88888888)):
        w = gptq.pack(np.zeros((8, 8)), one, np.full((1, 8), 8), bits=4, format=kind)
        assert w.tensors()["qzeros"].view(np.uint32).tolist() == [[stored]]


def test_zero_points_of_the_first_format():
    """Reject a zero point that readers of GPTQ decode differently, without `wrap=True`."""
    codes, zeros, scales = layer(4, 64, 32, 32)
    zeros[1, 3] = 0
    given = tensors(*words_of(codes, zeros, 4, "gptq"), scales)
    with pytest.raises(ValueError, match=r"^qzeros: .* without wrap=True, got 15 at \("):
        gptq.from_tensors(given, format="gptq")
    want = oracle.numbers(codes, zeros, scales, np.arange(64) // 32)
    same(from_tensors(given, format="gptq", wrap=True).dequantize(), want)
    second = tensors(*words_of(codes, zeros, 4, "gptq_v2"), scales)
    w = gptq.from_tensors(second, format="gptq_v2")
    with pytest.raises(
        ValueError, match=r"^weight: expected zero points from 1 .* got 0 at"
    ):
        convert(w, "gptq")
    first = convert(w, "gptq", wrap=True)
    same(first.tensors()["qzeros"], given["qzeros"])
    back = convert(first, "gptq_v2").tensors("a")
    same(back["a.qzeros"], second["qzeros"])
    same(back["a.qweight"], second["qweight"])


@loop("bits", WIDTHS["gptq"])
def test_detect(bits):
    middle = 1 << (bits - 1)
    codes, _, scales = layer(bits, 64, 32, 32)
    for kind in ("gptq", "gptq_v2"):
        zeros = np.full(scales.shape, middle, np.uint8)
        words = words_of(codes, zeros, bits, kind)
        w = from_tensors(tensors(*words, scales))
        assert (w.format, w.bits) == (kind, bits)
        same(w.dequantize(), oracle.numbers(codes, zeros, scales, np.arange(64) // 32))
        zeros[1, 2] += 1
        words = words_of(codes, zeros, bits, kind)
        with pytest.raises(ValueError, match=r"^qzeros: expected .* to tell the format"):
            gptq.from_tensors(tensors(*words, scales))


@pytest.mark.parametrize(("inputs", "size"), [(72, 32), (160, 128), (192, 128)])
def test_groups_that_end_short(inputs, size):
    """Infer the group size from the number of groups. The last group is shorter."""
    codes, zeros, scales = layer(4, inputs, 8, size, 1)
    words = words_of(codes, zeros, 4, "gptq_v2")
    want = oracle.numbers(codes, zeros, scales, np.arange(inputs) // size)
    how = {"format": "gptq_v2"}
    for given in (None, size):
        w = gptq.from_tensors(tensors(*words, scales), group_size=given, **how)
        same(w.dequantize(), want)
    for g_idx in (np.full(inputs, -1), np.arange(inputs) // size):
        w = gptq.from_tensors(tensors(*words, scales, g_idx.astype(np.int32)), **how)
        assert w.block_size == size
        same(w.dequantize(), want)
    equal = -(-inputs // len(scales))
    g_idx = (np.arange(inputs) // equal).astype(np.int32)
    given = tensors(*words, scales, g_idx)
    assert gptq.from_tensors(given, **how).block_size == equal
    none = {name: array[:0] for name, array in given.items()}
    assert gptq.from_tensors(none, **how).block_size == 1


# Conversions


def weights(bits, inputs, outputs, size, lowest=1):
    """Return one weight in each format that can store it, and its dequantized numbers."""
    codes, zeros, scales = layer(bits, inputs, outputs, size, lowest)
    want = oracle.numbers(codes, zeros, scales, np.arange(inputs) // size)
    made = {}
    for kind, widths in WIDTHS.items():
        if bits in widths and (lowest or kind != "gptq"):
            words = words_of(codes, zeros, bits, kind)
            made[kind] = gptq.from_tensors(tensors(*words, scales), format=kind)
    if bits == 4:
        made["awq"] = awq.from_tensors(tensors(*words_of(codes, zeros, 4, "awq"), scales))
    if bits in (2, 4, 8):
        made["matmulnbits"] = matmulnbits.pack(
            codes.T, scales.T, zeros.T, bits=bits, block_size=size
        )
    made["compressed_tensors"] = packed(codes.T, zeros.T, scales.T, bits, "dense")
    made["padded"] = packed(codes.T, zeros.T, scales.T, bits, "padded")
    return made, want


def packed(codes, zeros, scales, bits, packing):
    """Return a compressed-tensors weight. `padded` words have unused bits at the end."""
    pack = {"dense": oracle.stream, "padded": oracle.padded}[packing]
    given = {
        "weight_packed": oracle.along(codes, 1, bits, pack),
        "weight_zero_point": oracle.along(zeros, 0, bits, pack),
        "weight_scale": scales,
        "weight_shape": codes.shape,
    }
    return compressed_tensors.from_tensors(given, bits=bits, packing=packing)


def arrays(w):
    """Return the tensors of a weight, except `g_idx`."""
    return {name: array for name, array in w.tensors().items() if name != "g_idx"}


@pytest.mark.parametrize("bits", range(1, 9))
def test_convert(bits):
    """Convert between each pair of formats. Values and tensors are exactly as expected."""
    shapes = ((64, 32, 32), (2176, 96, 128))
    for inputs, outputs, size in shapes[: amount(1, None)]:
        made, want = weights(bits, inputs, outputs, size, lowest=int(bits > 1))
        for source in made.values():
            assert (source.dequantize() == want).all()
            for name, target in made.items():
                if name == "padded":
                    continue
                got = convert(source, name)
                assert (got.dequantize() == want).all()
                found = arrays(got)
                for part, value in arrays(target).items():
                    same(found[part], value)


def test_mixed_and_uneven_groups():
    """Read groups of any inputs. Some conversions require consecutive, equal groups."""
    orders = [mixed(64, 32), np.arange(64)[::-1] // 40, np.zeros(64), np.arange(64) < 3]
    for g_idx in (*orders, np.ones(64), np.arange(40) // 39):
        size = 32 if g_idx.size == 64 else 16
        codes, zeros, scales = layer(4, g_idx.size, 32, size, 1)
        words = words_of(codes, zeros, 4, "gptq")
        g_idx = g_idx.astype(np.int32)
        w = gptq.from_tensors(tensors(*words, scales, g_idx), format="gptq")
        want = oracle.numbers(codes, zeros, scales, g_idx)
        same(w.dequantize(), want)
        node = convert(w, "matmulnbits")
        for got in (node, convert(w, "gptq_v2"), convert(node, "gptq_v2")):
            assert (got.dequantize() == want).all()
            assert size == 16 or got.tensors()["g_idx"].tolist() == g_idx.tolist()
    many = (np.repeat(one, 10, 0) for one in (words[1], scales))
    w = gptq.from_tensors(tensors(words[0], *many, g_idx), format="gptq_v2")
    with pytest.raises(ValueError, match=r"^weight: expected as many groups as 2 .*got 30"):
        convert(w, "matmulnbits")
    codes, zeros, scales = layer(4, 64, 32, 32, 1)
    given = tensors(*words_of(codes, zeros, 4, "gptq"), scales, orders[0])
    w = gptq.from_tensors(given, format="gptq")
    smaller = convert(w, "matmulnbits", block_size=16)
    assert (smaller.dequantize() == w.dequantize()).all()
    for refusing in (lambda w: convert(w, "awq"), Weight.linear):
        with pytest.raises(ValueError, match=r"^weight: expected inputs in the order"):
            refusing(w)


def test_short_blocks():
    """Set unused codes after the last input to 0. GPTQ cannot store incomplete words."""
    rng = np.random.default_rng(0)
    B = rng.integers(0, 256, (8, 2, 16), dtype=np.uint8)
    scales = rng.standard_normal((8, 2)).astype(np.float32)
    given = {"B": B, "scales": scales}
    w = matmulnbits.from_tensors(given, K=40, N=8, block_size=32)
    got = convert(w, "matmulnbits")
    codes = got.tensors()["B"]
    assert not codes[:, 1, 4:].any()
    assert (codes.reshape(8, 32)[:, :20] == B.reshape(8, 32)[:, :20]).all()
    again = convert(w, "gptq_v2")
    assert again.tensors()["qweight"].shape == (5, 8)
    for one in (got, again):
        assert (one.dequantize() == w.dequantize()).all()
    with pytest.raises(ValueError, match=r"^weight: expected inputs that groups of 32"):
        convert(w, "awq")


def test_smaller_blocks():
    codes, zeros, scales = layer(4, 96, 32, 48)
    want = oracle.numbers(codes, zeros, scales, np.arange(96) // 48)
    w = awq.from_tensors(tensors(*words_of(codes, zeros, 4, "awq"), scales))
    w = convert(w, "matmulnbits")
    assert (w.block_size, w.tensors()["scales"].shape) == (16, (32, 6))
    assert (w.dequantize() == want).all()
    made, want = weights(4, 256, 32, 128)
    w = convert(made["awq"], "matmulnbits", block_size=32)
    assert (w.dequantize() == want).all()


def test_blocks_of_gguf():
    """Convert GGUF blocks to a format and back without a change of the blocks."""
    rng = np.random.default_rng(0)
    fits = {"Q4_0": {"awq", "gptq", "matmulnbits", "compressed_tensors", "mlx"}}
    fits |= {"Q8_0": fits["Q4_0"] - {"awq"}, "Q4_1": {"mlx"}}
    for (name, formats), format in itertools.product(fits.items(), fits["Q4_0"]):
        fmt = block_format(name)
        b = fmt.quantize(rng.standard_normal((24, 96)).astype(np.float32))
        if format not in formats:
            with pytest.raises(ValueError, match=r"^weight: expected "):
                convert((fmt, b), format)
            continue
        w = convert((fmt, b), format)
        assert (w.bits, w.block_size) == (8 if name == "Q8_0" else 4, 32)
        assert (w.dequantize() == fmt.dequantize(b)).all()
        if (format == "mlx") == (name == "Q4_1"):
            same(w.blocks(name), b)


def test_blocks_of_larger_and_of_short_groups():
    codes, _, scales = layer(4, 128, 16, 64)
    zeros = np.full(scales.shape, 8, np.uint8)
    w = awq.from_tensors(tensors(*words_of(codes, zeros, 4, "awq"), scales))
    x = np.random.default_rng(0).standard_normal((3, 96)).astype(np.float16)
    for one in (w, matmulnbits.quantize(x, block_size=64)):
        got = block_format("Q4_0").dequantize(one.blocks("Q4_0"))
        assert (got == one.dequantize()).all()


LINE = np.linspace(-0.7, 1, 64, dtype=np.float32).reshape(1, 64)
BLOCK = matmulnbits.quantize(LINE)
HALVES = matmulnbits.quantize(LINE.astype(np.float16), symmetric=False)
W4, Z4 = np.zeros((4, 32), np.int32), np.zeros((1, 4), np.int32)
ONES = np.ones((1, 32), np.float16)
S8 = np.ones((2, 1, 8), np.float32)
Z6, S6 = np.repeat(Z4, 6, 0), np.repeat(ONES, 6, 0)
EIGHT = np.ones((8, 16), np.float32)
V2 = {"bits": 4, "format": "gptq_v2"}


def read(*arrays, format="gptq_v2", **options):
    return gptq.from_tensors(tensors(*arrays), format=format, **options)


def read_awq(*arrays):
    return awq.from_tensors(tensors(*arrays))
