"""Test `pyquant.weights.bitsandbytes`: codes, nested scales, int8 rows, files, errors.

The expected results are stored bytes of bitsandbytes 0.50.2, results of an oracle in NumPy,
and results of the package if it is installed.
"""

import itertools
import json
import re

import numpy as np
import pytest
from conformance import cases
from support import HAVE_BFLOAT16, loop, peak_of, same

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


STATE = "weight.quant_state.bitsandbytes__"


def parts(w):
    """Return the packed codes of a weight, and the scales, as arrays."""
    tensors = w.tensors()
    return tensors["weight"].reshape(-1), tensors["weight.absmax"]


def state_of(w):
    (key,) = (key for key in w.tensors() if key.startswith(STATE))
    return json.loads(w.tensors()[key].tobytes())


def read(data, absmax, shape, quant_type="nf4", block_size=64, **state):
    """Return the weight that has the given codes and scales, without writing a file."""
    state |= {"quant_type": quant_type, "blocksize": block_size, "shape": [*shape]}
    text = json.dumps({"dtype": "float32", **state}).encode()
    tensors = {
        "weight": data,
        "weight.absmax": absmax,
        "weight.quant_map": MAPS[quant_type],
    }
    tensors[f"{STATE}{quant_type}"] = np.frombuffer(text, np.uint8)
    return bitsandbytes.from_tensors(tensors)


def oracle(x, block, table):
    """Return the expected packed codes and scales. The oracle compares each number with all
    16 numbers of the table."""
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
        for got, want in zip(parts(bitsandbytes.quantize(**args)), expected, strict=True):
            same(got, want)
        return
    back = read(shape=expected.shape, **args).dequantize(dtype=expected.dtype)
    # In a last block that is shorter, bitsandbytes decodes code 8 to -0 instead of 0.
    if args["quant_type"] == "fp4":
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
        for got, want in zip(parts(q), (data, scales), strict=True):
            same(got, want)
        codes = np.stack([data >> 4, data & 15], 1).reshape(-1)[:count]
        expected = MAPS[quant_type][codes] * np.repeat(scales, block)[:count]
        same(q.dequantize(), expected)
        same(q.dequantize(dtype="float16"), expected.astype(np.float16))
        same(q.tensors()["weight.quant_map"].copy(), MAPS[quant_type])


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="what is stored is bfloat16")
def test_nested_scales_of_a_file():
    tensors, expected = stored("nested-0")
    q = bitsandbytes.from_tensors(tensors, "weight")
    assert (q.shape, q.bits, q.block_size) == ((40, 64), 4, 64)
    assert (parts(q)[1].dtype, parts(q)[1].size) == (np.uint8, 40)
    same(q.dequantize(dtype="bfloat16"), expected)
    again = q.tensors()
    assert again.keys() == tensors.keys()
    for key, tensor in tensors.items():
        same(np.array(again[key]), tensor)


def test_nested_scales_by_their_definition():
    rng = np.random.default_rng(7)
    q = bitsandbytes.quantize(rng.standard_normal((300, 64)).astype("f4"), nested=True)
    data, absmax = parts(q)
    inner = q.tensors()
    product = inner["weight.nested_quant_map"][absmax]
    product *= np.repeat(inner["weight.nested_absmax"], 256)[:300]
    scales = product + np.float32(state_of(q)["nested_offset"])
    codes = np.stack([data >> 4, data & 15], 1).reshape(300, 64)
    same(q.dequantize(), NF4[codes] * scales[:, None])


def test_nested_scales_of_numbers():
    x = np.random.default_rng(3).standard_normal((300, 64)).astype(np.float32)
    plain, q = bitsandbytes.quantize(x), bitsandbytes.quantize(x, nested=True)
    (data, absmax), (nested_data, codes) = parts(plain), parts(q)
    same(nested_data, data)
    mean = np.float32(absmax.mean(dtype=np.float64))
    assert state_of(q)["nested_offset"] == mean
    left = absmax - mean
    table = q.tensors()["weight.nested_quant_map"]
    for g in range(2):
        part = left[256 * g : 256 * (g + 1)]
        most = np.abs(part).max()
        assert q.tensors()["weight.nested_absmax"][g] == most
        y = part * (np.float32(1) / most)
        nearest = np.abs(table[:, None].astype(np.float64) - y).min(0)
        got = np.abs(table[codes[256 * g : 256 * (g + 1)]].astype(np.float64) - y)
        assert (got <= nearest + 1e-7).all()
    other = bitsandbytes.quantize(x, nested=True, offset=2.5)
    assert state_of(other)["nested_offset"] == 2.5
    assert np.abs(other.dequantize() - x).max() < 0.6


@loop("storage", ["uint8", "int8", "uint16", "float16", "bfloat16", "float32"])
def test_files(storage, tmp_path):
    """Files store the packed codes as elements of one of these types (`quant_storage`)."""
    if storage == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="it has the type")
    x = np.random.default_rng(4).standard_normal((6, 72)).astype(np.float16)
    tensors = {"bias": np.arange(6, dtype=np.float32)}
    made = {}
    for name, nested in (("a.weight", False), ("b.weight", True)):
        made[name] = bitsandbytes.quantize(x, nested=nested, quant_type="fp4")
        tensors |= made[name].tensors(name)
        tensors[name] = tensors[name].reshape(-1).view(_core.dtype_named(storage))
    path = tmp_path / "model.safetensors"
    pq.write_weights(path, tensors)
    with pq.open_weights(path) as file:
        found = [one.name for one in pq.weights.find(file)]
        assert found == [*made]
        for name, q in made.items():
            again = pq.weights.from_tensors(file, name)
            same(again.dequantize(), q.dequantize())
            stored = tensors[name]
            if storage.startswith("float"):
                tensors[name] = stored.astype(stored.dtype.newbyteorder(">"))
            same(parts(bitsandbytes.from_tensors(tensors, name))[0], parts(q)[0])


def test_nothing_and_zeros():
    q = bitsandbytes.quantize(np.zeros((0, 3), np.float32))
    assert [one.size for one in parts(q)] == [0, 0]
    same(q.dequantize(), np.zeros((0, 3), np.float32))
    q = bitsandbytes.quantize(np.zeros((0, 64), np.float32))
    same(q.dequantize(), np.zeros((0, 64), np.float32))
    q = bitsandbytes.quantize(np.zeros(65, np.float16), nested=True)
    same(q.dequantize(), np.zeros(65, np.float32))


def test_rows_of_int8():
    args, (codes, scb) = stored("int8-0")
    got = bitsandbytes.quantize_int8(**args)
    for one, want in zip(got.tensors().values(), (codes, scb), strict=True):
        same(one, want)
    args, y = stored("int8-1")
    w = pq.weights.from_tensors({"a.weight": args["codes"], "a.SCB": args["scb"]}, "a")
    same(w.dequantize(), y)
    same(w.dequantize(dtype="float16"), y.astype(np.float16))


def test_memory_of_a_short_block():
    """A call with a short last block allocates no copy of the array."""
    x = np.ones((1 << 22) + 33, np.float32)
    x[-33:] = np.linspace(-1, 0.7, 33, dtype=np.float32)
    data, scales = oracle(x[-1057:], 1024, NF4)
    q, peak = peak_of(lambda: bitsandbytes.quantize(x, block_size=1024))
    assert parts(q)[0][-529:].tobytes() == data.tobytes()
    assert parts(q)[1][-2:].tolist() == scales.tolist()
    assert peak < 1.7 * parts(q)[0].nbytes


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
    q, peak = peak_of(lambda: bitsandbytes.quantize(x, nested=nested))
    for got, want in zip(parts(q), parts(expected), strict=True):
        same(got, want)
    assert peak < sum(one.nbytes for one in parts(q)) + 8 * 2**20
    wrong = x.copy("K")
    wrong[(-1,) * x.ndim] = np.nan
    place = tuple(n - 1 for n in x.shape)
    with pytest.raises(ValueError, match=re.escape(f"at index {place}")):
        bitsandbytes.quantize(wrong, nested=nested)


def test_the_package_itself():
    """The installed package bitsandbytes returns equal results for random numbers."""
    torch = pytest.importorskip("torch", reason="bitsandbytes requires it")
    bnb = pytest.importorskip("bitsandbytes.functional", reason="the rival is optional")
    rng = np.random.default_rng(6)
    for quant_type in MAPS:
        for block in (64, 256):
            x = rng.standard_normal(4 * block + 34).astype(np.float32)
            given = torch.from_numpy(x)
            data, state = bnb.quantize_4bit(given, blocksize=block, quant_type=quant_type)
            q = bitsandbytes.quantize(x, block_size=block, quant_type=quant_type)
            same(parts(q)[0], data.numpy().reshape(-1))
            same(parts(q)[1], state.absmax.numpy())
            back = bnb.dequantize_4bit(data, state).numpy()
            assert (q.dequantize() == back).all()


Q, NESTED = (
    bitsandbytes.quantize(np.ones((3, 64), np.float32), nested=nested)
    for nested in (False, True)
)
ONES = np.ones(4, np.float32)


def changed(**tensors):
    """Return a function that reads the tensors of NESTED after the given changes."""
    given = NESTED.tensors()
    given |= {f"weight.{key}": value for key, value in tensors.items()}
    return lambda: bitsandbytes.from_tensors(given)


def with_state(**items):
    text = json.dumps({**state_of(NESTED), **items}).encode()
    return changed(**{f"{STATE}nf4"[7:]: np.frombuffer(text, np.uint8)})


def test_ratio_beyond_float32():
    w = bitsandbytes.quantize_int8(np.float32([[3e-37, 1e-38, -1e-38]]))
    assert w.tensors()["weight"].tolist() == [[102, 3, -3]]
