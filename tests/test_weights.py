"""Tests of rules for all weight formats: memory, arguments, threads, `out`, imports."""

import contextlib
import itertools
import pickle

import numpy as np
import public_calls
import pytest
from planar_oracle import tensors
from support import HAVE_BFLOAT16, ROOT, amount, case, loop, peak_of, same

import pyquant as pq
from pyquant.weights import (
    awq,
    bitsandbytes,
    compressed_tensors,
    convert,
    gptq,
    matmulnbits,
    mlx,
    mx,
    nvfp4,
)

K, N, G = amount(1024, 4096), 512, 64
SMALL = 1 << 20
rng = np.random.default_rng(0)


def words(*shape):
    return rng.integers(-(2**31), 2**31, shape, dtype=np.int32)


SCALES = rng.random((K // G, N)).astype(np.float16)
MIXED = rng.permutation(np.arange(K) // G).astype(np.int32)
AWQ = awq.from_tensors(tensors(words(K, N // 8), words(K // G, N // 8), SCALES))
GPTQ = {
    bits: gptq.from_tensors(
        tensors(words(K * bits // 32, N), words(K // G, N * bits // 32), SCALES),
        format="gptq_v2",
    )
    for bits in (2, 3, 4, 8)
}
TENSORS = GPTQ[3].tensors()
ORDERED = gptq.from_tensors({**TENSORS, "g_idx": MIXED}, format="gptq_v2")
PLANES = gptq.from_tensors(TENSORS, format="gptq_p")
NBITS = convert(AWQ, "matmulnbits")
PADDED = compressed_tensors.from_tensors(
    {
        "weight_packed": words(N, -(-K // 10)),
        "weight_scale": SCALES.T,
        "weight_shape": (N, K),
    },
    bits=3,
    packing="padded",
)
X = rng.standard_normal((N, K)).astype(np.float32)
TURNED = np.asfortranarray(X)
MLX = mlx.quantize(X)
SHORT = matmulnbits.quantize(X[:, :-8])
INT8 = compressed_tensors.from_tensors(
    {"weight": words(N, K // 4).view(np.int8), "weight_scale": SCALES.T}
)
SQUARES = compressed_tensors.from_tensors(
    {
        "weight": words(N, K // 4).view(np.int8),
        "weight_scale": rng.random((N // 128, K // 128)),
        "weight_zero_point": words(N // 128, K // 512).view(np.int8),
    }
)
READ = {
    "awq": AWQ,
    "gptq": GPTQ[4],
    "2 bits": GPTQ[2],
    "3 bits": GPTQ[3],
    "8 bits": GPTQ[8],
    "mixed": ORDERED,
    "planes": PLANES,
    "matmulnbits": NBITS,
    "short": SHORT,
    "padded": PADDED,
    "mlx": MLX,
    "int8": INT8,
    "squares": SQUARES,
    "nf4": bitsandbytes.quantize(X),
    "flat": bitsandbytes.quantize(X[:, :-8], nested=True, quant_type="fp4"),
    "rows": bitsandbytes.quantize_int8(X),
}
if HAVE_BFLOAT16:  # ml_dtypes defines the types of the scales
    READ |= {name: mx.quantize(X, name) for name in ("float4_e2m1fn", "float8_e5m2")}
    READ |= {like: nvfp4.quantize(X, like=like) for like in nvfp4._TENSORS}


def peak(call):
    """Return the size of a result and the peak of allocated memory, both in bytes."""
    call()
    result, most = peak_of(call)
    if isinstance(result, np.ndarray):
        return result.nbytes, most
    arrays = [one for one in result.tensors().values() if isinstance(one, np.ndarray)]
    return sum(one.nbytes for one in arrays), most


@loop("module", [matmulnbits, mlx, mx, nvfp4] if HAVE_BFLOAT16 else [matmulnbits, mlx])
def test_a_weight_without_rows(module):
    options = {"dtype": "float4_e2m1fn"} if module is mx else {}
    w = module.quantize(np.zeros((0, K), np.float32), **options)
    assert w.shape == w.dequantize().shape == (0, K)


@loop("name", READ)
def test_memory_of_dequantize(name):
    w = READ[name]
    out = np.empty(w.shape, np.float32)
    _, most = peak(lambda: w.dequantize(out=out))
    assert most < SMALL
    size, most = peak(lambda: w.dequantize(dtype="float16"))
    assert most < size + SMALL


WRITE = {
    "awq": lambda: awq.pack(X, SCALES, np.full(SCALES.shape, 8)),
    "gptq": lambda: gptq.pack(
        X, SCALES, np.full(SCALES.shape, 8), MIXED, bits=4, format="gptq"
    ),
    "matmulnbits": lambda: matmulnbits.quantize(X),
    "matmulnbits, asymmetric": lambda: matmulnbits.quantize(TURNED, symmetric=False),
    "mlx": lambda: mlx.quantize(X),
    "compressed_tensors": lambda: compressed_tensors.quantize(X, symmetric=False),
}


@loop("name", WRITE)
def test_memory_of_quantize(name):
    """Check the peak of memory. A second copy of the parameters is permitted."""
    size, most = peak(WRITE[name])
    assert most < size + X.nbytes // 16 + SMALL * 3 // 2


CONVERT = {
    "to awq": lambda: convert(NBITS, "awq"),
    "to gptq": lambda: convert(AWQ, "gptq_v2"),
    "to matmulnbits": lambda: convert(AWQ, "matmulnbits"),
    "to short blocks": lambda: convert(SHORT, "matmulnbits"),
    "to compressed_tensors": lambda: convert(GPTQ[3], "compressed_tensors"),
    "from padded words": lambda: convert(PADDED, "compressed_tensors"),
}


@loop("name", CONVERT)
def test_memory_of_convert(name):
    size, most = peak(CONVERT[name])
    assert most < size + SCALES.nbytes * 2 + SMALL


ROWS = [slice(None), slice(3, 40), slice(-1, None), slice(9, 3), slice(None, None, -7)]
ROWS += [[], [5, 0, 5], np.array([N - 1, 7], np.uint16)]


@loop("name", READ)
def test_rows_in_parts(name, monkeypatch):
    """Dequantize many rows, which the package processes a few at a time."""
    monkeypatch.setattr(pq.weights._weight, "_TILE", 40)
    rows = np.random.default_rng(0).integers(0, N, 3 * N)
    same(READ[name].dequantize(rows), READ[name].dequantize()[rows])


@loop("name", READ)
def test_rows(name):
    w = READ[name]
    for dtype in ("float32", "float16", "float64"):
        want = w.dequantize(dtype=dtype)
        for rows in ROWS:
            y = want[np.asarray(rows, int) if isinstance(rows, list) else rows]
            same(w.dequantize(rows, dtype=dtype), y)
            for order in "<>":
                out = np.zeros(y.shape[::-1], np.dtype(dtype).newbyteorder(order)).T
                assert w.dequantize(rows, out=out, threads=2) is out
                assert (out == y).all()


@loop("name", READ)
def test_weights_are_immutable_and_pickle(name):
    w = READ[name]
    with pytest.raises(AttributeError):
        w.bits = 4
    again = pickle.loads(pickle.dumps(w))
    assert repr(again) == repr(w)
    assert (again.dequantize() == w.dequantize()).all()


def nested(depth):
    deep = []
    for _ in range(depth):
        deep = [deep]
    return deep


WRONG = {
    "object": object(),
    "text": "sixteen",
    "lines": "a\nb",
    "complex": 1j,
    "array of complex": np.ones((2, 2), complex),
    "masked": np.ma.masked_array(np.ones((2, 2), np.float32), [[0, 1], [0, 0]]),
    "objects": np.array([[object()]]),
    "deep": nested(5000),
    "dictionary": {},
    "negative": -7,
    "huge": 2**70,
    "five dimensions": np.ones((1,) * 5, np.float32),
    "empty": np.ones((0, 0), np.int32),
    "bool": True,
}

# Values of WRONG that are valid for an argument.
ACCEPTED = {
    "dtype": ("masked", "five dimensions"),
    "threads": ("huge",),
    "weights": ("dictionary",),
    "offset": ("negative", "huge"),
    "block_size": ("huge",),
    "tensor_scale": ("huge", "five dimensions"),
    **dict.fromkeys(("wrap", "nested", "symmetric", "search"), ("bool",)),
    **dict.fromkeys(("x", "weight_scale", "weight_scale_2"), ("five dimensions",)),
    "weight.nested_absmax": ("five dimensions",),
}
FREE = ("self", "name", "path", "out", "default", "metadata", "options", "known", "parts")


def test_errors_of_arguments():
    """A wrong argument raises an error of one line. It begins with an argument's name."""
    first = {}
    for name, function, call, _ in public_calls.recorded():
        if function.__module__.startswith("pyquant.weights") and "find" not in name:
            first.setdefault(name, (function, call))
    for name, (function, call) in first.items():
        given = dict(call.arguments)
        tensors = given.get("tensors", {})
        wrong = [(key, None) for key in call.signature.parameters if key not in FREE]
        names = {*call.signature.parameters, *tensors}
        for (key, _), kind in itertools.product([*wrong, *tensors.items()], WRONG):
            some = {key: WRONG[kind]}
            call.arguments |= {"tensors": {**tensors, **some}} if key in tensors else some
            with case(name=name, argument=key, kind=kind):
                try:
                    function(*call.args, **call.kwargs)
                except (TypeError, ValueError) as error:
                    text = str(error)
                    assert "\n" not in text
                    assert len(text) < 400
                    assert text.partition(":")[0] in names, text
                else:
                    assert kind in ACCEPTED.get(key, ())
            call.arguments.clear()
            call.arguments |= given


def test_errors_do_not_change_out():
    out = np.full((8, 32), 7, np.float32)
    good = {"qweight": words(4, 8), "qzeros": words(1, 1) * 0}
    good["scales"] = np.ones((1, 8), np.float16)

    def read(given, **how):
        gptq.from_tensors({**good, **given}, format="gptq").dequantize(out=out, **how)

    for given, how in (
        ({"g_idx": np.full(32, 9, np.int32)}, {}),
        ({"scales": np.ones((2, 8), np.float16)}, {}),
        ({"qzeros": np.full((1, 1), -1, np.int32)}, {}),
        ({}, {"threads": 0}),
        ({}, {"rows": [8]}),
    ):
        with pytest.raises(ValueError, match=r"^(g_idx|group_size|qzeros|rows|threads): "):
            read(given, **how)
    assert (out == 7).all()


def test_arrays_of_other_packages():
    torch = pytest.importorskip("torch", reason="whose tensors are read")
    given = {**GPTQ[4].tensors(), "g_idx": MIXED}
    given = {name: torch.from_numpy(one.copy()) for name, one in given.items()}
    w = gptq.from_tensors(given, format="gptq_v2")
    assert w.tensors()["g_idx"].tolist() == MIXED.tolist()
    same(w.dequantize()[:2], w.dequantize(dtype="float64")[:2].astype(np.float32))


def test_linear_of_every_weight():
    for name, w in READ.items():
        if name in ("awq", "gptq", "2 bits", "8 bits", "matmulnbits", "short"):
            pytest.importorskip("ml_dtypes", reason="the types of 4 bits are its")
            given = w.linear()
            assert isinstance(given["x"], pq.PackedArray) == (w.bits < 8)
            how = {"axis": given["axis"], "block_size": given["block_size"]}
            y = pq.dequantize(given["x"], given["x_scale"], given["x_zero_point"], **how)
            want = w.dequantize()
            assert (y == (want if y.shape == want.shape else want.T)).all()
            y = pq.onnx.dequantize_linear(**given)  # The result has the type of the scales.
            want = w.dequantize(dtype=given["x_scale"].dtype)
            same(y, want if y.shape == want.shape else want.T)
        else:
            with pytest.raises(ValueError, match=r"^weight: expected "):
                w.linear()


def test_integers_and_ends():
    """Accept NumPy integers. Reject a conversion if a product overflows float32."""
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)
    assert mlx.quantize(x, group_size=np.int32(32)).block_size == 32
    w = matmulnbits.pack(
        np.full((1, 32), 15, np.uint8), np.float32([[1.25 * 2**124]]), block_size=32
    )
    with pytest.raises(ValueError, match=r"^weight: expected zero points and scales"):
        convert(w, "mlx")


# ---- Conversions of a weight with 64 outputs and 256 inputs, in groups of 64 ----

POWERS = rng.random((4, 64)).astype(np.float16)
REAL = rng.standard_normal((64, 256)).astype(np.float16)
BLOCKS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}


def weight_of(name, bits, zeros):
    """Return a weight in a format, if the format can store codes of `bits` bits."""
    if bits != {"awq": 4, **BLOCKS}.get(name, bits):
        return None
    if name in BLOCKS:
        fmt = pq.weights.blocks.block_format(name)
        return fmt, fmt.quantize(REAL)
    if name == "awq":
        return awq.pack(REAL, POWERS, zeros)
    if name == "mlx":
        return mlx.quantize(REAL, bits=bits) if bits != 7 else None
    if name == "matmulnbits":
        codes = rng.integers(0, 1 << bits, REAL.shape, np.uint8)
        given = {"bits": bits, "block_size": 64}
        zeros = zeros.T.astype(np.uint8)
        return (
            matmulnbits.pack(codes, POWERS.T, zeros, **given) if bits in (2, 4, 8) else None
        )
    if name == "compressed_tensors":
        signed = (zeros.T - (1 << bits - 1)).astype(np.int8)
        return compressed_tensors.quantize(REAL, POWERS.T, signed, bits=bits, group_size=64)
    known = range(2, 9) if name == "gptq_p" else (2, 3, 4, 8)
    return gptq.pack(REAL, POWERS, zeros, bits=bits, format=name) if bits in known else None


def values_of(weight):
    if isinstance(weight, tuple):
        return weight[0].dequantize(weight[1])
    return weight.dequantize()


def converted(weight, name):
    if name in BLOCKS and isinstance(weight, tuple):
        raise ValueError("blocks do not become other blocks")
    if name in BLOCKS:
        return pq.weights.blocks.block_format(name), weight.blocks(name)
    return convert(weight, name)


def kept(start, end, lowest):
    """Return the widths of codes, in bits, that a conversion keeps without loss.

    With `lowest` 0, all zero points are the middle code.
    """
    found = []
    for bits in range(2, 9):
        first, last = (lowest, (1 << bits) - 1) if lowest else [1 << bits - 1] * 2
        weight = weight_of(start, bits, rng.integers(first, last + 1, POWERS.shape))
        if weight is not None:
            with contextlib.suppress(ValueError):
                assert (values_of(converted(weight, end)) == values_of(weight)).all()
                found.append(bits)
    return "2 to 8" if found == [*range(2, 9)] else ", ".join(map(str, found))


def test_the_table_of_lossless_conversions():
    """Compare each cell, for example "2 to 8 (z)". (z) requires middle zero points."""
    page = (ROOT / "docs" / "semantics" / "formats.md").read_text("utf-8")
    table = page.partition("## Lossless conversions\n")[2]
    lines = [line for line in table.splitlines() if line.startswith("|")]
    titles, _, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    assert len(titles) == len(rows) == 9
    for start, *cells in rows:
        for column, cell in zip(titles[1:], cells, strict=True):
            for one, end in itertools.product(start.split(", "), column.split(", ")):
                with case(start=one, end=end):
                    middle, others = kept(one, end, 0), kept(one, end, 1)
                    assert others in (middle, "")
                    assert cell == middle + " (z)" * (middle != others)
