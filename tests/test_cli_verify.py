"""`pyquant verify`: every fault that it knows is put into a file, and found."""

import hashlib
import json
import sys
import tracemalloc

import numpy as np
import pytest

import pyquant as pq
from pyquant.cli import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


X = np.random.default_rng(1).standard_normal((300, 1024)).astype(np.float32)


def verify(capsys, *arguments):
    """The status, the faults by tensor, and the summary."""
    status = main(["verify", "--json", *arguments])
    out, err = capsys.readouterr()
    assert err == ""
    *rows, end = [json.loads(line) for line in out.splitlines()]
    end = end["summary"]
    faults = {one["tensor"]: one["faults"] for one in rows}
    assert (status == 1) == bool(end["faults"])
    assert end["faults"] == len(end["others"]) + sum(map(len, faults.values()))
    return status, faults, end


def parts(x=X, dtype="int8", name="w", **how):
    """Codes and parameters, by the names of compressed-tensors."""
    p = pq.choose_qparams(x, dtype=dtype, **how)
    made = {name: p.quantize(x), f"{name}_scale": np.array(p.scale)}
    if p.zero_point is not None and np.any(p.zero_point):
        made[f"{name}_zero_point"] = np.array(p.zero_point)
    if how.get("axis") == 1 and p.block_size is None:  # else names do not tell the axis
        made = {k: v if k == name else v[None] for k, v in made.items()}
    return made


def write(weights, **metadata):
    pq.write_weights("q.safetensors", weights, metadata=metadata)
    return "q.safetensors"


HOW = {
    "tensor": {},
    "axis 0": {"axis": 0},
    "axis 1": {"axis": 1},
    "block": {"axis": 1, "block_size": 32},
    "square": {"block_size": (4, 128)},
}

# A file by itself


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("how", HOW)
def test_what_is_right(how, dtype, capsys):
    status, faults, end = verify(capsys, write(parts(dtype=dtype, **HOW[how])))
    assert (status, faults) == (0, {"w": []})
    assert end == {
        "file": "q.safetensors",
        "tensors": 1,
        "faults": 0,
        "against": None,
        "others": [],
    }


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, -np.inf])
def test_scales_that_cannot_be(value, capsys):
    made = parts(axis=0)
    made["w_scale"][[7, 9]] = value
    status, faults, _ = verify(capsys, write(made))
    said = faults["w"][0]
    shown = {np.inf: "inf", -np.inf: "-inf"}.get(value, str(float(value)))
    expected = "expected finite and positive scales, got 2 others, the first "
    assert (status, said) == (1, f"{expected}{shown}")


def test_scales_of_blocks_may_be_negative(capsys):
    block = pq.block_format("Q4_0")
    pq.write_weights("q.gguf", {"w": (block, block.encode(X))})
    assert verify(capsys, "q.gguf")[0] == 0


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K"])
def test_blocks_that_decode_to_nan(name, capsys):
    block = pq.block_format(name)
    data = block.encode(X)
    data[3, : 2 * block.block_bytes : block.block_bytes] = 0xFF
    data[3, 1 : 2 * block.block_bytes : block.block_bytes] = 0x7F
    pq.write_weights("q.gguf", {"w": (block, data), "x": np.float32([np.nan])})
    status, faults, _ = verify(capsys, "q.gguf")
    assert status == 1
    expected = f"expected finite numbers, got {2 * block.block_size} others"
    assert faults == {"w": [expected], "x": []}  # numbers of no quantization may be NaN


def test_names_that_no_record_joins_are_tensors(capsys):
    made = parts(axis=0)
    made["w_scale"] = made["w_scale"][:-1]
    status, faults, _ = verify(capsys, write(made))
    assert (status, set(faults)) == (0, {"w", "w_scale"})


def test_hashes(capsys):
    made = parts(axis=0) | {"bias": np.float32([1, 2]), "x": X}
    pq.write_weights("q.gguf", {"b": np.float16([1, 2]), "s": np.float32(3)})
    np.savez_compressed("z.npz", bias=np.asfortranarray(X), o=np.ones((3, 2)))
    found = {}
    for path in (write(made), "q.gguf", "z.npz"):
        assert main(["verify", "--json", path]) == 0
        for line in capsys.readouterr().out.splitlines()[:-1]:
            found |= {path[0] + k: v for k, v in json.loads(line)["sha256"].items()}
    arrays = {f"q{name}": one for name, one in made.items()}
    arrays |= {"qb": np.float16([1, 2]), "qs": np.float32(3)}
    arrays |= {"zbias": X, "zo": np.ones((3, 2))}
    assert found == {k: hashlib.sha256(v.tobytes()).hexdigest() for k, v in arrays.items()}


@pytest.mark.parametrize(("said", "status"), [(48, 0), (47, 1), ("48", 1), (None, 0)])
def test_the_bytes_of_an_index(said, status, capsys):
    pq.write_weights("a.safetensors", {"x": np.ones(4, "f4")})
    pq.write_weights("b.safetensors", {"y": np.ones(4, "f8")})
    places = {"x": "a.safetensors", "y": "b.safetensors"}
    metadata = {} if said is None else {"total_size": said}
    with open("m.index.json", "w") as file:
        json.dump({"metadata": metadata, "weight_map": places}, file)
    found, _, end = verify(capsys, "m.index.json")
    expected = "expected a total_size of 48, the bytes of all tensors, got "
    assert found == status
    assert end["others"] == ([f"{expected}{said!r}"] if status else [])


# Beside its original


@pytest.fixture
def original():
    pq.write_weights("x.safetensors", {"w": X})
    return "x.safetensors"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("how", HOW)
def test_codes_beside_their_original(how, dtype, original, capsys):
    made = parts(dtype=dtype, **HOW[how])
    assert verify(capsys, "--against", original, write(made))[:2] == (0, {"w": []})
    made["w"][[5, 299], [1000, 1]] ^= 1
    status, faults, end = verify(capsys, "--against", original, write(made))
    said = ["expected what the original makes, got 2 other codes"]
    assert (status, faults, end["against"]) == (1, {"w": said}, original)


def recorded(x, granularity, method="minmax", symmetric=True, dtype="int8"):
    """A file that says how its parameters were chosen."""
    how = RECORDED[granularity]
    p = pq.choose_qparams(x, dtype=dtype, method=method, symmetric=symmetric, **how)
    made = {"w": p.quantize(x), "w_scale": np.array(p.scale)}
    if not symmetric:
        made["w_zero_point"] = np.broadcast_to(p.zero_point, p.scale.shape).copy()
    record = {"type": dtype, "granularity": granularity, "shape": list(x.shape)}
    record |= {"method": method, "symmetric": symmetric, "rounding": "half_even"}
    return made, record


def written(made, record):
    """By hand: write_weights keeps the key of records for itself."""
    pq.write_weights("y.safetensors", made)
    with open("y.safetensors", "rb") as file:
        head = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    head["__metadata__"] = {"pyquant": json.dumps({"w": {"quantized": record}})}
    text = json.dumps(head).encode()
    with open("q.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + data)
    return "q.safetensors"


RECORDED = {
    "tensor": {},
    "axis:0": {"axis": 0},
    "axis:1": {"axis": 1},
    "block:32": {"axis": 1, "block_size": 32},
    "128x64": {"block_size": (128, 64)},
}


def test_memory_beside_the_parameters(capsys):
    """Those that the original makes are looked at as they are made."""
    x = np.random.default_rng(4).standard_normal((1 << 15, 128)).astype(np.float32)
    pq.write_weights("x.safetensors", {"w": x})
    options = ["--type", "int8", "--granularity", "block:4"]
    assert main(["quantize", "-q", "x.safetensors", "q.safetensors", *options]) == 0
    tracemalloc.start()
    try:
        assert verify(capsys, "--against", "x.safetensors", "q.safetensors")[0] == 0
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * x.nbytes / 4  # a quarter is the scales alone


@pytest.mark.parametrize("shape", [(1, 96), (8, 96)])
@pytest.mark.parametrize("granularity", ["block:32", "128x64", "8x32"])
def test_blocks_of_all_rows(granularity, shape, capsys):
    """Of which no observer can be asked."""
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    pq.write_weights("x.safetensors", {"w": x})
    options = ["--type", "int8", "--granularity", granularity, "--min-size", "1"]
    assert main(["quantize", "-q", "x.safetensors", "q.safetensors", *options]) == 0
    status, faults, _ = verify(capsys, "--against", "x.safetensors", "q.safetensors")
    assert (status, faults) == (0, {"w": []})
    x[0, 0] = 9
    pq.write_weights("x.safetensors", {"w": x})
    _, faults, _ = verify(capsys, "--against", "x.safetensors", "q.safetensors")
    assert faults["w"][0] == "expected what the original makes, got 1 other scales"


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("method", ["minmax", "mse"])
@pytest.mark.parametrize("granularity", RECORDED)
def test_parameters_beside_their_original(granularity, method, symmetric, capsys):
    """Bands of 21 rows begin within blocks of 128."""
    x = np.random.default_rng(2).standard_normal((300, 3072)).astype(np.float32)
    pq.write_weights("x.safetensors", {"w": x})
    made, record = recorded(x, granularity, method, symmetric)
    path = written(made, record)
    assert verify(capsys, "--against", "x.safetensors", path)[:2] == (0, {"w": []})
    last = made["w_scale"].reshape(-1)[-1:]
    last[...] = np.nextafter(last, np.float32(9))
    made["w"][299, -1] ^= 1
    _, faults, _ = verify(capsys, "--against", "x.safetensors", written(made, record))
    assert faults["w"][0] == "expected what the original makes, got 1 other scales"
    assert "other codes" in faults["w"][1]
    if not symmetric:
        last[...] = np.nextafter(last, np.float32(0))
        made["w_zero_point"].reshape(-1)[-1] ^= 1
        _, faults, _ = verify(capsys, "--against", "x.safetensors", written(made, record))
        said = "expected what the original makes, got 1 other zero points"
        assert faults["w"][0] == said


@pytest.mark.parametrize(
    ("key", "value"),
    [("rounding", "x"), ("rounding", []), ("method", None), ("symmetric", "yes")],
)
def test_records_that_say_something_else(key, value, original, capsys):
    made, record = recorded(X, "axis:0")
    path = written(made, record | {key: value})
    _, faults, _ = verify(capsys, "--against", original, path)
    assert faults["w"][0].startswith(f"expected a record with {key} of (")
    assert faults["w"][0].endswith(f"got {value!r}")


def test_an_original_that_has_no_parameters(capsys):
    x = X.copy()
    made, record = recorded(x, "axis:0")
    x[3, 5] = np.nan
    pq.write_weights("x.safetensors", {"w": x})
    path = written(made, record)
    assert main(["verify", "--against", "x.safetensors", path]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"pyquant verify: {path}: tensor 'w': x: expected finite values")
    assert err.count("\n") == 1


def test_narrow_floats_beside_their_original(original, capsys):
    pytest.importorskip("ml_dtypes")  # optional; the type is its
    made = parts(dtype="float8_e4m3fn", axis=0)
    assert verify(capsys, "--against", original, write(made))[0] == 0
    made["w"].view(np.uint8)[[5, 299], [1000, 1]] ^= 1
    _, faults, _ = verify(capsys, "--against", original, write(made))
    assert faults == {"w": ["expected what the original makes, got 2 other codes"]}


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K"])
def test_blocks_beside_their_original(name, original, capsys):
    block = pq.block_format(name)
    data = block.encode(X)
    pq.write_weights("q.gguf", {"w": (block, data)})
    assert verify(capsys, "--against", original, "q.gguf")[0] == 0
    data[299, -1] ^= 1
    data[3, 1] ^= 1
    pq.write_weights("q.gguf", {"w": (block, data)})
    _, faults, _ = verify(capsys, "--against", original, "q.gguf")
    assert faults == {"w": ["expected what the original makes, got 2 other blocks"]}


def test_what_is_kept_beside_its_original(capsys):
    """As it is, or of another real type, of which the bits are one rounding."""
    x = np.float32([1, 1 / 3, -0.0, np.nan])
    np.savez("x.npz", a=x, b=x, c=x, d=x, i=np.int64([2**62]))
    y = x.copy()
    y[2] = 0
    kept = {"a": x, "b": x.astype("f2"), "c": y, "d": x.astype("f2") * 2}
    np.savez("q.npz", **kept, i=np.int64([2**62 + 1]))
    _, faults, _ = verify(capsys, "--against", "x.npz", "q.npz")
    count = {name: one[0].split()[-3] if one else "0" for name, one in faults.items()}
    assert count == {"a": "0", "b": "0", "c": "1", "d": "2", "i": "1"}


def test_what_is_in_one_file_only(capsys):
    np.savez("x.npz", a=np.ones(2), b=np.ones(3), s=np.ones((2, 1)))
    np.savez("q.npz", a=np.ones(2), c=np.ones(3), s=np.ones((1, 2)))
    status, faults, end = verify(capsys, "--against", "x.npz", "q.npz")
    assert (status, faults["s"]) == (1, ["expected shape (2, 1), got (1, 2)"])
    assert end["others"] == [
        "tensor 'b': expected it in the file, got it in the original alone",
        "tensor 'c': expected it in the original, got it in the file alone",
    ]


def test_bfloat16_beside_its_original(monkeypatch, capsys):
    """One rounding of the numbers; to make it ml_dtypes is needed, to keep it nothing."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16  # optional; the type is its
    y = X.astype(bfloat16)
    pq.write_weights("x.safetensors", {"w": X})
    pq.write_weights("y.safetensors", {"w": y})
    y.view(np.uint16)[3, 4] ^= 1
    pq.write_weights("z.safetensors", {"w": y})
    assert verify(capsys, "--against", "x.safetensors", "y.safetensors")[0] == 0
    _, faults, _ = verify(capsys, "--against", "x.safetensors", "z.safetensors")
    assert faults == {"w": ["expected what the original makes, got 1 other elements"]}
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    for other, status in (("y", 0), ("z", 1)):
        path = f"{other}.safetensors"
        assert verify(capsys, "--against", path, "y.safetensors")[0] == status


def test_complex_numbers_beside_their_original(capsys):
    np.savez("x.npz", a=np.array([1 + 2j, 3]), b=np.complex64([1 + 2j, 3]))
    np.savez("q.npz", a=np.array([1 + 2j, 3]), b=np.complex64([1 + 2j, 4]))
    assert verify(capsys, "--against", "x.npz", "x.npz")[0] == 0
    _, faults, _ = verify(capsys, "--against", "x.npz", "q.npz")
    said = ["expected the bytes of the original, as complex64, got others"]
    assert faults == {"a": [], "b": said}


# What is shown


def test_text(original, capsys):
    made = parts()
    made["w_scale"][...] = np.nan
    assert main(["verify", write(made)]) == 1
    assert capsys.readouterr().out == (
        "q.safetensors: tensor 'w': expected finite and positive scales, got 1 others, "
        "the first nan\n"
        "q.safetensors: tensor 'w': expected finite numbers, got 307200 others\n"
        "q.safetensors: 1 tensor: 2 faults\n"
    )
    assert main(["verify", "--against", original, original]) == 0
    out = capsys.readouterr().out
    assert out == f"{original}: 1 tensor, beside {original}: nothing is wrong\n"


@pytest.mark.parametrize("text", ["{", "[]", '{"w": {"quantized": 3}}', "[" * 9999])
def test_records_that_are_none(text, capsys):
    path = "q.safetensors"
    head = {"__metadata__": {"pyquant": text}}
    head["w"] = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    data = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(len(data).to_bytes(8, "little") + data + bytes(4))
    assert main(["verify", path]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"pyquant verify: {path}: expected records of pyquant, got ")
