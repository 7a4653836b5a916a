"""Test `pyquant inspect`: lists, statistics and checks of tensors."""

import json

import numpy as np
import pytest
from support import STORED, named_parts

import pyquant as pq
from pyquant.cli import main
from pyquant.cli._measure import STATISTICS
from pyquant.weights.blocks import block_format


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# Lists of tensors. test_cli_docs.py compares the tables and lines of JSON that the page of
# the command shows.


def with_odd_values():
    """Return an array with three values that are not finite. The sums of the finite values
    and of their squares are exact."""
    w = np.zeros((600, 1024), np.float32)
    w[0, 0], w[599, 1023], w[300] = -3, 12, 0.5
    w[1, :3] = np.nan, np.inf, -np.inf
    return w


COUNT = 600 * 1024 - 3  # the number of finite values of with_odd_values()
RMS = ((256 + 9 + 144) / COUNT) ** 0.5


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (with_odd_values(), [-3, 12, 521 / COUNT, RMS, 12 / RMS, COUNT - 1026, 1, 2]),
        (np.zeros((0, 3), "f4"), [None, None, None, None, None, 0, 0, 0]),
        (np.float32([np.nan, np.inf]), [None, None, None, None, None, 0, 1, 1]),
        (np.zeros(5, "f2"), [0.0, 0.0, 0.0, 0.0, 0.0, 5, 0, 0]),
        (np.int8([-3, 0, 4, 5]), [-3.0, 5.0, 1.5, 12.5**0.5, 5 / 12.5**0.5, 1, 0, 0]),
        (
            np.float64([2.0**500, -(2.0**500)]),
            [-(2.0**500), 2.0**500, 0.0, 2.0**500, 1.0, 0, 0, 0],
        ),
        (np.array([True, False]), [0.0, 1.0, 0.5, 0.5**0.5, 1 / 0.5**0.5, 1, 0, 0]),
    ],
    ids=["usual", "empty", "not finite", "zeros", "codes", "large", "bool"],
)
def test_statistics_leave_out_values_that_are_not_finite(array, said, here, capsys):
    np.save("a.npy", array)
    assert main(["inspect", "--stats", "--json", "a.npy"]) == 0
    assert lines(capsys)[0]["stats"] == dict(zip(STATISTICS, said, strict=True))


def test_complex_numbers_have_no_statistics(here, capsys):
    np.save("c.npy", np.complex64(1))
    assert main(["inspect", "--stats", "--json", "c.npy"]) == 0
    assert lines(capsys)[0]["stats"] is None
    assert main(["inspect", "--stats", "c.npy"]) == 0
    _, _, listed, _, measured = capsys.readouterr().out.splitlines()
    assert listed.split() == ["c", "complex64", "one", "-", "8", "64.00"]
    assert measured.split() == ["c", *"--------"]


def test_inspect_lists_several_files(here, capsys):
    np.save("a.npy", np.float32([1]))
    np.savez("b.npz", x=np.float32([1]), y=np.int8([[1, 2]]))
    pq.write_weights("c.gguf", {"t": ("Q8_0", np.zeros((2, 34), np.uint8))})
    pq.write_weights("m.safetensors", {"w": np.float64(7), "bias": np.float16([1, -1, 3])})
    assert main(["inspect", "--json", "a.npy", "b.npz", "c.gguf", "m.safetensors"]) == 0
    ends = [one["summary"] for one in lines(capsys) if "summary" in one]
    assert [one["kind"] for one in ends] == ["npy", "npz", "gguf", "safetensors"]
    assert [one["bytes"] for one in ends] == [4, 6, 68, 14]
    assert [one["elements"] for one in ends] == [1, 3, 64, 4]


def test_long_metadata_is_shortened(here, capsys):
    metadata = {f"k{i}": i for i in range(9)} | {"words": ["x"] * 1000, "long": "y" * 999}
    metadata = {"words": metadata.pop("words"), "long": metadata.pop("long"), **metadata}
    pq.write_weights("c.gguf", {"t": np.float32([1])}, metadata=metadata)
    assert main(["inspect", "c.gguf"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "  words = [1000 of strings]" in out
    assert f"  long = {'y' * 57}..." in out
    assert max(map(len, out)) < 100
    assert any(line.startswith("  and ") for line in out)


# --check


X = np.random.default_rng(1).standard_normal((300, 1024)).astype(np.float32)


def check(capsys, path):
    """Run `inspect --check`. Return the status, the faults by tensor, and the summary."""
    status = main(["inspect", "--check", "--json", path])
    *rows, end = lines(capsys)
    faults = {one["tensor"]: one["faults"] for one in rows}
    assert status == int(any(faults.values()) or bool(end["summary"]["faults"]))
    return status, faults, end["summary"]


def write(weights, **metadata):
    pq.write_weights("q.safetensors", weights, metadata=metadata)
    return "q.safetensors"


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("how", STORED)
def test_check_accepts_a_correct_file(how, dtype, here, capsys):
    path = write(named_parts(X, dtype, **STORED[how])[2])
    status, faults, end = check(capsys, path)
    assert (status, faults) == (0, {"w": []})
    assert (end["quantized"], end["faults"]) == (1, [])
    assert main(["inspect", "--check", path]) == 0
    assert capsys.readouterr().out == "q.safetensors: 1 quantized tensor, no faults\n"


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf, -np.inf])
def test_check_finds_impossible_scales(value, here, capsys):
    """--check reports scales that are not finite and positive, in one line for a tensor."""
    made = named_parts(X, axis=0)[2]
    made["w_scale"][[7, 9]] = value
    status, faults, _ = check(capsys, write(made))
    expected = [
        f"2 of 300 scales are not finite and positive; the first is {float(value)}",
        *["2048 of 307200 values are not finite"][: not np.isfinite(value)],
    ]
    assert (status, faults) == (1, {"w": expected})
    assert main(["inspect", "--check", "q.safetensors"]) == 1
    count = "1 fault" if np.isfinite(value) else "2 faults"
    lines = [f"tensor 'w': {fault}" for fault in expected]
    lines += [f"1 quantized tensor, {count}"]
    printed = capsys.readouterr().out
    assert printed == "".join(f"q.safetensors: {line}\n" for line in lines)


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q4_K"])
def test_check_finds_blocks_with_nan(name, here, capsys):
    """--check reports NaN in blocks, but no negative scales and no NaN of other tensors."""
    block = block_format(name)
    data, nan = block.quantize(X), np.float32([np.nan])
    pq.write_weights("q.gguf", {"w": (block, data), "x": nan})
    assert check(capsys, "q.gguf")[:2] == (0, {"w": [], "x": []})
    data[3, : 2 * block.block_bytes : block.block_bytes] = 0xFF
    data[3, 1 : 2 * block.block_bytes : block.block_bytes] = 0x7F
    pq.write_weights("q.gguf", {"w": (block, data), "x": nan})
    expected = f"{2 * block.block_size} of {X.size} values are not finite"
    assert check(capsys, "q.gguf")[:2] == (1, {"w": [expected], "x": []})


def test_check_finds_zero_points_out_of_range(here, capsys):
    """--check compares zero points with the limits of 4-bit codes, although the zero points
    are stored as int8."""
    made = {"w_packed": np.zeros((1, 4), "<i4"), "w_shape": np.array([1, 32])}
    made |= {"w_scale": np.float32([[1]]), "w_zero_point": np.int8([[7]])}
    assert check(capsys, write(made))[:2] == (0, {"w": []})
    made["w_zero_point"][...] = 8
    expected = "1 of 1 zero points are outside -8 to 7; the first is 8"
    assert check(capsys, write(made))[:2] == (1, {"w": [expected]})


def test_check_finds_scales_that_do_not_fit(here, capsys):
    made = named_parts(X, axis=0)[2]
    made["w_scale"] = made["w_scale"][:-1]
    status, faults, end = check(capsys, write(made))
    expected = "w: expected scales for shape (300, 1024), got shape (299,)"
    assert (status, faults) == (1, {"w": [], "w_scale": []})
    assert end["faults"] == [expected]


@pytest.mark.parametrize(("stated", "status"), [(48, 0), (47, 1), ("48", 1), (None, 0)])
def test_check_compares_the_total_of_an_index(stated, status, here, capsys):
    pq.write_weights("a.safetensors", {"x": np.ones(4, "f4")})
    pq.write_weights("b.safetensors", {"y": np.ones(4, "f8")})
    places = {"x": "a.safetensors", "y": "b.safetensors"}
    metadata = {} if stated is None else {"total_size": stated}
    with open("m.index.json", "w") as file:
        json.dump({"metadata": metadata, "weight_map": places}, file)
    found, _, end = check(capsys, "m.index.json")
    expected = f"total_size is {stated!r}, but the tensors have 48 bytes"
    assert (found, end["faults"]) == (status, [expected] if status else [])
    # In a file that is not an index, `total_size` may be any text.
    one = {"total_size": str(stated)}
    pq.write_weights("c.safetensors", {"x": np.ones(12, "f4")}, metadata=one)
    assert check(capsys, "c.safetensors")[0] == 0


def test_check_verifies_checksums(here, capsys):
    np.savez("m.npz", w=np.full((4, 4), 85, "i1"), w_scale=np.float32(1), n=np.arange(9))
    assert check(capsys, "m.npz")[0] == 0
    data = bytearray((here / "m.npz").read_bytes())
    data[data.index(b"UUUU")] ^= 1
    (here / "m.npz").write_bytes(data)
    status, faults, end = check(capsys, "m.npz")
    assert (status, faults) == (1, {"w": [], "n": []})
    assert end["faults"] == ["'w.npy': Bad CRC-32 for file 'w.npy'"]
