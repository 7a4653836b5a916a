"""`bitsandbytes`: codes, nested scales, rows of int8, tensors of files, and errors.

Judges: stored bytes of bitsandbytes 0.50.2, an oracle in NumPy, and the package.
"""

import itertools
import json
import re
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from conformance import cases
from support import HAVE_BFLOAT16, loop, same, split_small_arrays

import pyquant as pq
from pyquant import _core
from pyquant.weights import bitsandbytes

(FILE,) = (path for path in cases.WEIGHTS if path.name.startswith("bitsandbytes-"))
CALLS = {call.id.removeprefix("bitsandbytes-"): call for call in cases.calls(FILE)}
FOUR_BIT = [
    name
    for name in CALLS
    if name.split("-")[0] in ("nf4", "fp4") and (HAVE_BFLOAT16 or "bfloat16" not in name)
]
NF4 = np.array(
    [
        *(-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634),
        *(0.33791524171829224, 0.44070982933044434, 0.5626170039176941),
        *(0.7229568362236023, 1),
    ],
    np.float32,
)
FP4 = np.array([0, 1 / 192, 2 / 3, 1, 1 / 3, 1 / 2, 1 / 6, 1 / 4], np.float32)
MAPS = {"nf4": NF4, "fp4": np.concatenate([FP4, [0], -FP4[1:]]).astype(np.float32)}


def oracle(x, block, table):
    """Return bytes and scales. Each number is compared with all 16 numbers."""
    x = x.astype(np.float32)
    codes, scales = [], []
    for begin in range(0, x.size, block):
        part = x[begin : begin + block]
        most = max(np.abs(part).max(), np.float32(1e-38))
        short = part.size < block
        y = part / most if short else part * (np.float32(1) / most)
        order = sorted(range(16), key=lambda i: table[i])  # stable
        ends = [
            np.float32((float(table[a]) + float(table[b])) / 2)
            for a, b in itertools.pairwise(order)
        ]
        codes += [order[sum(end < v for end in ends)] for v in y]
        scales.append(np.abs(part).max())
    if len(codes) % 2:
        codes.append(min(i for i in range(16) if table[i] == 0))
    data = [16 * a + b for a, b in zip(codes[::2], codes[1::2], strict=True)]
    return np.array(data, np.uint8), np.array(scales, np.float32)


def stored(name):
    call = CALLS[name]
    args = {key: cases.argument(value) for key, value in call.args.items()}
    if isinstance(call.expect, list):
        return args, [cases.array(one) for one in call.expect]
    return args, cases.array(call.expect)


@loop("name", FOUR_BIT)
def test_stored_bytes(name):
    args, expected = stored(name)
    if "x" in args:
        q = bitsandbytes.quantize(**args)
        same(q.data, expected[0])
        same(q.absmax, expected[1])
        return
    kind = args["quant_type"]
    rest = {"quant_map": MAPS[kind], "dtype": expected.dtype.name}
    back = bitsandbytes.dequantize(
        bitsandbytes.FourBit(shape=expected.shape, **args, **rest)
    )
    if kind == "fp4":  # In short blocks, bitsandbytes decodes code 8 to -0.
        back, expected = back + np.zeros_like(back), expected + np.zeros_like(back)
    same(back, expected)


@pytest.mark.parametrize("quant_type", MAPS)
def test_the_oracle(quant_type):
    rng = np.random.default_rng(9)
    for block, count in ((64, 1), (32, 96), (64, 200), (128, 129), (32, 31)):
        x = (rng.standard_normal(count) * 10.0 ** rng.integers(-39, 9)).astype(np.float32)
        x[rng.integers(count)] = 0
        q = bitsandbytes.quantize(x, block_size=block, quant_type=quant_type)
        data, scales = oracle(x, block, MAPS[quant_type])
        same(q.data, data)
        same(q.absmax, scales)
        codes = np.stack([data >> 4, data & 15], 1).reshape(-1)[:count]
        expected = MAPS[quant_type][codes] * np.repeat(scales, block)[:count]
        same(bitsandbytes.dequantize(q), expected)
        half = expected.astype(np.float16)
        same(bitsandbytes.dequantize(q, dtype="float16"), half)
        same(q.quant_map.copy(), MAPS[quant_type])


def test_worked_examples():
    x = np.zeros(64, np.float32)
    x[:8] = [1, -1, 0.5, 0.25, -0.7, 0, 0.08, 0.03979014977812767]
    assert bitsandbytes.quantize(x).data[:5].tobytes().hex() == "f0ca178777"
    fp4 = bitsandbytes.quantize(x, quant_type="fp4")
    assert fp4.data[:5].tobytes().hex() == "3b57a01100"
    q = bitsandbytes.quantize(((np.arange(64) - 32) / 16).astype(np.float32))
    assert q.absmax.tolist() == [2]
    halves = "000001111111122222333344455566677788999aaabbbccccddddeeeeeeeffff"
    assert q.data.tobytes().hex() == halves


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="what is stored is bfloat16")
def test_nested_scales_of_a_file():
    tensors, expected = stored("nested-0")
    q = bitsandbytes.from_tensors(tensors, "weight")
    assert (q.shape, q.dtype, q.quant_type) == ((40, 64), "bfloat16", "nf4")
    assert (q.absmax.dtype, q.absmax.size) == (np.uint8, 40)
    same(bitsandbytes.dequantize(q), expected)
    again = bitsandbytes.to_tensors(q, "weight")
    assert again.keys() == tensors.keys()
    for key, tensor in tensors.items():
        same(np.array(again[key]), tensor)


def test_nested_scales_by_their_definition():
    rng = np.random.default_rng(7)
    q = bitsandbytes.quantize(rng.standard_normal((300, 64)).astype("f4"), nested=True)
    inner = q.nested
    product = inner.quant_map[q.absmax] * np.repeat(inner.absmax, 256)[:300]
    scales = product + np.float32(inner.offset)
    codes = np.stack([q.data >> 4, q.data & 15], 1).reshape(300, 64)
    same(bitsandbytes.dequantize(q), NF4[codes] * scales[:, None])


def test_nested_scales_of_numbers():
    x = np.random.default_rng(3).standard_normal((300, 64)).astype(np.float32)
    plain, q = bitsandbytes.quantize(x), bitsandbytes.quantize(x, nested=True)
    same(q.data, plain.data)
    mean = np.float32(plain.absmax.mean(dtype=np.float64))
    assert q.nested.offset == mean
    left = plain.absmax - mean
    table = q.nested.quant_map
    for g in range(2):
        part = left[256 * g : 256 * (g + 1)]
        most = np.abs(part).max()
        assert q.nested.absmax[g] == most
        y = part * (np.float32(1) / most)
        nearest = np.abs(table[:, None].astype(np.float64) - y).min(0)
        got = np.abs(table[q.absmax[256 * g : 256 * (g + 1)]].astype(np.float64) - y)
        assert (got <= nearest + 1e-7).all()
    other = bitsandbytes.quantize(x, nested=True, offset=2.5)
    assert other.nested.offset == 2.5
    assert np.abs(bitsandbytes.dequantize(other) - x).max() < 0.6


@loop("storage", ["uint8", "int8", "uint16", "float16", "bfloat16", "float32"])
def test_files(storage, tmp_path):
    """Files store packed bytes in any of these types (`quant_storage`)."""
    if storage == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="it has the type")
    x = np.random.default_rng(4).standard_normal((6, 72)).astype(np.float16)
    tensors = {"bias": np.arange(6, dtype=np.float32)}
    made = {}
    for name, nested in (("a.weight", False), ("b.weight", True)):
        made[name] = bitsandbytes.quantize(x, nested=nested, quant_type="fp4")
        tensors |= bitsandbytes.to_tensors(made[name], name)
        tensors[name] = tensors[name].reshape(-1).view(_core.dtype_named(storage))
    path = tmp_path / "model.safetensors"
    pq.write_weights(path, tensors)
    with pq.open_weights(path) as file:
        for name, q in made.items():
            again = bitsandbytes.from_tensors(file, name)
            same(bitsandbytes.dequantize(again), bitsandbytes.dequantize(q))
            stored = tensors[name]
            if storage.startswith("float"):
                tensors[name] = stored.astype(stored.dtype.newbyteorder(">"))
            same(bitsandbytes.from_tensors(tensors, name).data, q.data)


def test_out_strides_and_threads(monkeypatch):
    x = np.random.default_rng(5).standard_normal((700, 130)).astype(np.float32)
    q = bitsandbytes.quantize(x, block_size=128)
    same(bitsandbytes.quantize(np.asfortranarray(x), block_size=128).data, q.data)
    expected = bitsandbytes.dequantize(q)
    out = np.empty_like(x)
    assert bitsandbytes.dequantize(q, out=out) is out
    same(out, expected)
    room = np.zeros((700, 260), np.float64)
    bitsandbytes.dequantize(q, out=room[:, ::2])
    same(room[:, ::2].astype(np.float32), expected)
    assert not room[:, 1::2].any()
    turned = np.empty((130, 700), np.float32).T
    same(bitsandbytes.dequantize(q, out=turned), expected)
    with split_small_arrays(monkeypatch):
        same(bitsandbytes.quantize(x, block_size=128, threads=3).data, q.data)
        same(bitsandbytes.dequantize(q, threads=3), expected)


def test_nothing_and_zeros():
    q = bitsandbytes.quantize(np.zeros((0, 3), np.float32))
    assert (q.data.size, q.absmax.size) == (0, 0)
    same(bitsandbytes.dequantize(q), np.zeros((0, 3), np.float32))
    q = bitsandbytes.quantize(np.zeros(65, np.float16), nested=True)
    same(bitsandbytes.dequantize(q), np.zeros(65, np.float16))


def test_rows_of_int8():
    args, (codes, scb) = stored("int8-0")
    got = bitsandbytes.quantize_int8(**args)
    same(got[0], codes)
    same(got[1], scb)
    args, y = stored("int8-1")
    same(bitsandbytes.dequantize_int8(**args, dtype="float32"), y)
    same(bitsandbytes.dequantize_int8(codes, scb), y.astype(np.float16))
    out = np.zeros((40, 5), np.float64).T
    bitsandbytes.dequantize_int8(codes, scb, out=out)
    same(out.astype(np.float32), y)


def test_types_of_rows_of_int8():
    """`dtype` decides the type, then `out`. The default is float16."""
    codes, scb = np.int8([[100, -3]]), np.float32([0.7])
    wide = bitsandbytes.dequantize_int8(codes, scb, dtype="float32")
    same(bitsandbytes.dequantize_int8(codes, scb), wide.astype(np.float16))
    same(bitsandbytes.dequantize_int8(codes, scb, dtype=None), wide.astype(np.float16))
    for dtype in (None, "float32"):
        out = np.empty((1, 2), np.float32)
        same(bitsandbytes.dequantize_int8(codes, scb, dtype=dtype, out=out), wide)


def test_counts_of_numpy():
    """Files contain Python integers."""
    made = replace(Q, shape=(np.int64(3), np.int64(64)), block_size=np.int64(64))
    tensors = bitsandbytes.to_tensors(made, "w")
    assert bitsandbytes.from_tensors(tensors, "w").shape == (3, 64)


@loop("dtype", [np.uint8, np.int16, np.uint16, np.uint64])
def test_block_sizes_of_numpy(dtype):
    """Element counts may exceed the type of the block size."""
    inner = replace(NESTED.nested, block_size=dtype(64))
    made = replace(NESTED, nested=inner, block_size=dtype(64))
    same(bitsandbytes.dequantize(made), bitsandbytes.dequantize(NESTED))
    for rows in (3, 1025):  # one slab, then several slabs
        q = bitsandbytes.quantize(np.ones((rows, 64), np.float32))
        out = np.empty((rows, 128), np.float32)[:, ::2]
        made = replace(q, block_size=dtype(64))
        same(bitsandbytes.dequantize(made, out=out), bitsandbytes.dequantize(q))
    again = bitsandbytes.from_tensors(bitsandbytes.to_tensors(made, "w"), "w")
    assert type(again.block_size) is int


def test_memory_of_a_short_block():
    """The short block does not need a copy of the array."""
    x = np.ones((1 << 22) + 33, np.float32)
    x[-33:] = np.linspace(-1, 0.7, 33, dtype=np.float32)
    data, scales = oracle(x[-1057:], 1024, NF4)
    tracemalloc.start()
    q = bitsandbytes.quantize(x, block_size=1024)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert q.data[-529:].tobytes() == data.tobytes()
    assert q.absmax[-2:].tolist() == scales.tolist()
    assert peak < 1.7 * q.data.nbytes


@loop(
    "x, nested",
    [
        np.arange(3 * 2**20, dtype=np.float32).reshape(-1, 1024).T,
        (np.arange(3 * 2**21 + 70) % 1009).astype(np.float16)[::2],
        np.ones((96, 5, 64, 101), ">f4").transpose(3, 1, 0, 2),
    ],
    [False, True],
)
def test_memory_of_strided_arrays(x, nested):
    expected = bitsandbytes.quantize(np.ascontiguousarray(x), nested=nested)
    tracemalloc.start()
    q = bitsandbytes.quantize(x, nested=nested)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    same(q.data, expected.data)
    same(q.absmax, expected.absmax)
    assert peak < q.data.nbytes + q.absmax.nbytes + 8 * 2**20
    wrong = x.copy("K")
    wrong[(-1,) * x.ndim] = np.nan
    place = tuple(n - 1 for n in x.shape)
    with pytest.raises(ValueError, match=re.escape(f"at index {place}")):
        bitsandbytes.quantize(wrong, nested=nested)


def test_the_package_itself():
    """The package agrees for random numbers of all types and block sizes."""
    torch = pytest.importorskip("torch", reason="bitsandbytes requires it")
    bnb = pytest.importorskip("bitsandbytes.functional", reason="the rival is optional")
    rng = np.random.default_rng(6)
    for quant_type in MAPS:
        for block in (64, 256):
            x = rng.standard_normal(4 * block + 34).astype(np.float32)
            given = torch.from_numpy(x)
            data, state = bnb.quantize_4bit(given, blocksize=block, quant_type=quant_type)
            q = bitsandbytes.quantize(x, block_size=block, quant_type=quant_type)
            same(q.data, data.numpy().reshape(-1))
            same(q.absmax, state.absmax.numpy())
            back = bnb.dequantize_4bit(data, state).numpy()
            assert (bitsandbytes.dequantize(q) == back).all()


Q = bitsandbytes.quantize(np.ones((3, 64), np.float32))
NESTED = bitsandbytes.quantize(np.ones((3, 64), np.float32), nested=True)
ONES = np.ones(4, np.float32)
STATE = "w.quant_state.bitsandbytes__nf4"


def tensors_with(**changed):
    tensors = bitsandbytes.to_tensors(NESTED, "w")
    for key, value in changed.items():
        tensors["w." + key if key != "w" else key] = value
    return tensors


def state_with(**changed):
    text = bitsandbytes.to_tensors(NESTED, "w")[STATE].tobytes()
    state = {**json.loads(text), **changed}
    return {
        "quant_state.bitsandbytes__nf4": np.frombuffer(json.dumps(state).encode(), "u1")
    }


def read(**changed):
    return lambda: bitsandbytes.from_tensors(tensors_with(**changed), "w")


REFUSED = {
    "block": (lambda: bitsandbytes.quantize(ONES, block_size=48), "block_size: expected"),
    "bool": (lambda: bitsandbytes.quantize(ONES, block_size=True), "block_size: expected"),
    "type": (
        lambda: bitsandbytes.quantize(ONES, quant_type="int4"),
        "quant_type: expected",
    ),
    "nested": (lambda: bitsandbytes.quantize(ONES, nested=1), "nested: expected True or"),
    "offset": (lambda: bitsandbytes.quantize(ONES, offset=1), "offset: expected None"),
    "offset kind": (
        lambda: bitsandbytes.quantize(ONES, nested=True, offset="1"),
        "offset: expected a number, got str",
    ),
    "offset flag": (
        lambda: bitsandbytes.quantize(ONES, nested=True, offset=True),
        "offset: expected a number, got bool",
    ),
    "offset nan": (
        lambda: bitsandbytes.quantize(ONES, nested=True, offset=np.nan),
        "offset: expected a finite float32, got nan",
    ),
    "float64": (lambda: bitsandbytes.quantize([1.0]), "x: expected float32, float16 or"),
    "nan": (lambda: bitsandbytes.quantize(ONES * np.nan), "x: expected finite"),
    "q": (lambda: bitsandbytes.dequantize(ONES), "q: expected a FourBit, got ndarray"),
    "q of tensors": (lambda: bitsandbytes.to_tensors(1, "w"), "q: expected a FourBit"),
    "data": (
        lambda: bitsandbytes.dequantize(replace(Q, data=Q.data[1:])),
        "q: expected 96 uint8 in data, got uint8 of shape (95,)",
    ),
    "absmax": (
        lambda: bitsandbytes.dequantize(replace(Q, absmax=Q.absmax[1:])),
        "q: expected 3 float32 in absmax, got float32 of shape (2,)",
    ),
    "shape kind": (
        lambda: bitsandbytes.dequantize(replace(Q, shape=None)),
        "q: expected a shape of integers from 0 on, got None",
    ),
    "shape of numbers": (
        lambda: bitsandbytes.dequantize(replace(Q, shape=(3.0, 64))),
        "q: expected a shape of integers from 0 on, got (3.0, 64)",
    ),
    "block kind": (
        lambda: bitsandbytes.dequantize(replace(Q, block_size=np.array([64, 64]))),
        "q: expected blocks of 32, 64,",
    ),
    "type kind": (
        lambda: bitsandbytes.dequantize(replace(Q, quant_type=[])),
        "q: expected nf4 or fp4 of float32, float16 or bfloat16, got [] of 'float32'",
    ),
    "dtype kind": (
        lambda: bitsandbytes.dequantize(replace(Q, dtype=np.float32)),
        "q: expected nf4 or fp4 of float32, float16 or bfloat16, got 'nf4' of a type",
    ),
    "nested kind": (
        lambda: bitsandbytes.dequantize(replace(Q, nested=3)),
        "q: expected Nested or None in nested, got 3",
    ),
    "nested offset": (
        lambda: bitsandbytes.dequantize(
            replace(NESTED, nested=replace(NESTED.nested, offset="1"))
        ),
        "q: expected a finite float32 as offset of nested scales, got '1'",
    ),
    "nested block": (
        lambda: bitsandbytes.dequantize(
            replace(NESTED, nested=replace(NESTED.nested, block_size=None))
        ),
        "q: expected nested blocks of 32,",
    ),
    "no tensors": (
        lambda: bitsandbytes.from_tensors(None, "w"),
        "tensors: expected a mapping, got NoneType",
    ),
    "no name": (lambda: bitsandbytes.from_tensors({}, []), "name: expected a string, got"),
    "name of tensors": (
        lambda: bitsandbytes.to_tensors(Q, 3),
        "name: expected a string, got int",
    ),
    "int8 out and dtype": (
        lambda: bitsandbytes.dequantize_int8(
            np.zeros((4, 3), "i1"), ONES, dtype="float16", out=np.zeros((4, 3), "f4")
        ),
        "out: expected float16, got float32",
    ),
    "int8 dtype": (
        lambda: bitsandbytes.dequantize_int8(np.zeros((4, 3), "i1"), ONES, dtype="int8"),
        "dtype: expected float32, float64, float16 or bfloat16, got 'int8'",
    ),
    "map": (
        lambda: bitsandbytes.dequantize(replace(Q, quant_map=ONES)),
        "q: expected 16 float32 in quant_map, got float32 of shape (4,)",
    ),
    "out": (
        lambda: bitsandbytes.dequantize(Q, out=np.zeros(3, "f4")),
        "out: expected shape (3, 64), got (3,)",
    ),
    "out kind": (
        lambda: bitsandbytes.dequantize(Q, out=np.zeros((3, 64), "i4")),
        "out: expected float32, float64, float16 or bfloat16, got int32",
    ),
    "out and dtype": (
        lambda: bitsandbytes.dequantize(Q, dtype="float32", out=np.zeros((3, 64))),
        "out: expected float32, got float64",
    ),
    "shape of int8": (
        lambda: bitsandbytes.quantize_int8(ONES),
        "x: expected two dimensions",
    ),
    "codes": (lambda: bitsandbytes.dequantize_int8(ONES, ONES), "codes: expected int8"),
    "scb": (
        lambda: bitsandbytes.dequantize_int8(np.zeros((3, 4), "i1"), ONES),
        "scb: expected shape (3,), got (4,)",
    ),
    "no state": (
        lambda: bitsandbytes.from_tensors({"w": Q.data}, "w"),
        "tensors: expected one of w.quant_state.bitsandbytes__nf4, ",
    ),
    "no array": (read(absmax="x"), "tensors: expected an array for w.absmax, got str"),
    "no JSON": (
        read(**{"quant_state.bitsandbytes__nf4": np.zeros(3, "u1")}),
        f"tensors: expected a JSON object in {STATE}, as uint8, got 3 elements of uint8",
    ),
    "deep JSON": (
        read(**{"quant_state.bitsandbytes__nf4": np.full(60000, ord("["), "u1")}),
        "tensors: expected a JSON object in",
    ),
    "shape": (read(**state_with(shape=[3, -64])), "tensors: expected a shape in w.quant"),
    "huge": (read(**state_with(shape=[1 << 62, 64])), "tensors: expected 1475739525896764"),
    "blocksize": (
        read(**state_with(blocksize=0)),
        "tensors: expected a positive blocksize",
    ),
    "odd blocksize": (read(**state_with(blocksize=65)), "tensors: expected blocks of 32,"),
    "dtype": (read(**state_with(dtype="int8")), "tensors: expected nf4 or fp4 of float32"),
    "kind": (read(**state_with(quant_type="af4")), "tensors: expected nf4 or fp4 of"),
    "nan offset": (
        read(**state_with(nested_offset=float("nan"))),
        "tensors: expected a finite nested_offset in",
    ),
    "no nested block": (
        read(**state_with(nested_blocksize=None)),
        "tensors: expected a positive nested_blocksize in",
    ),
    "nested absmax": (
        read(nested_absmax=np.ones(2, "f4")),
        "tensors: expected 1 float32 in nested_absmax, got float32 of shape (2,)",
    ),
    "nested map": (
        read(nested_quant_map=np.ones(16, "f4")),
        "tensors: expected 256 float32 in nested_quant_map, got float32 of shape (16,)",
    ),
}


@loop("name", REFUSED)
def test_refusals(name):
    call, text = REFUSED[name]
    with pytest.raises((TypeError, ValueError)) as raised:
        call()
    assert str(raised.value).startswith(text)
    assert "\n" not in str(raised.value)


def test_a_missing_weight():
    with pytest.raises(
        KeyError, match="name: expected that of a weight in tensors, got 'w'"
    ):
        bitsandbytes.from_tensors({}, "w")
    tensors = bitsandbytes.to_tensors(bitsandbytes.quantize(np.ones(64, np.float32)), "w")
    del tensors["w.absmax"]
    with pytest.raises(ValueError, match=r"^tensors: expected w\.absmax beside the others"):
        bitsandbytes.from_tensors(tensors, "w")


def test_out_must_not_overlap_the_codes():
    """A call would write parts of `out` before it reads the codes."""
    x = np.linspace(-1, 1, 256, dtype=np.float32)
    q = bitsandbytes.quantize(x)
    memory = np.zeros(1024, np.float32)
    lies = replace(q, data=memory[:32].view(np.uint8))
    overlapped = memory[::2][:256]
    with pytest.raises(ValueError, match=r"^out: expected memory of its own"):
        bitsandbytes.dequantize(lies, out=overlapped)
    codes, scb = memory[:64].view(np.int8).reshape(4, 64), np.ones(4, np.float32)
    with pytest.raises(ValueError, match=r"^out: expected memory of its own"):
        bitsandbytes.dequantize_int8(codes, scb, out=memory[:256].reshape(4, 64))
    twice = np.lib.stride_tricks.as_strided(memory, (4, 64), (0, 4))
    with pytest.raises(ValueError, match=r"^out: expected dimensions that neither overlap"):
        bitsandbytes.dequantize_int8(np.zeros((4, 64), np.int8), scb, out=twice)


def test_numbers_at_the_ends():
    """An offset and a ratio exceed the largest float."""
    with pytest.raises(ValueError, match=r"^offset: expected a finite float32"):
        bitsandbytes.quantize(np.ones(64, np.float32), nested=True, offset=10**400)
    codes, _ = bitsandbytes.quantize_int8(np.float32([[3e-37, 1e-38, -1e-38]]))
    assert codes.tolist() == [[102, 3, -3]]
    q = bitsandbytes.quantize(np.ones(64, np.float32))
    with pytest.raises(ValueError, match=r"^q: expected blocks of 32"):
        bitsandbytes.dequantize(replace(q, block_size=0))
    with pytest.raises((TypeError, ValueError), match=r"^(out|dtype): expected"):
        bitsandbytes.dequantize(q, dtype="garbage", out=np.empty(64, np.float32))
