"""`pyquant inspect`: what it shows of files and of the numbers in them."""

import json

import numpy as np
import pytest

import pyquant as pq
from pyquant.cli import main


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def model(here):
    """A model of few tensors, whose sums are exact."""
    w = np.zeros((600, 1024), np.float32)
    w[0, 0], w[599, 1023], w[300] = -3, 12, 0.5
    w[1, :3] = np.nan, np.inf, -np.inf
    rest = {"bias": np.float16([1, -1, 3, 0]), "one": np.float64(7), "steps": np.arange(4)}
    pq.write_weights("m.safetensors", {"w": w, **rest}, metadata={"format": "pt"})
    return "m.safetensors"


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


# What is shown


def test_a_table(model, capsys):
    assert main(["inspect", model]) == 0
    assert capsys.readouterr().out == (
        "m.safetensors: safetensors, 4 tensors, 614409 elements, 2457648 bytes, "
        "32.00 bits per element\n"
        "  format = pt\n"
        "name   type     shape       scales    bytes   bits\n"
        "one    float64  one         -             8  64.00\n"
        "steps  int64    4           -            32  64.00\n"
        "w      float32  600 x 1024  -       2457600  32.00\n"
        "bias   float16  4           -             8  16.00\n"
    )


def test_statistics(model, capsys):
    """Of 600 x 1024 numbers 3 are not finite: the sums are those of the rest."""
    assert main(["inspect", "--stats", "--json", "--tensor", "w", model]) == 0
    (said, end) = lines(capsys)
    count = 600 * 1024 - 3
    mean, square = (512 - 3 + 12) / count, (256 + 9 + 144) / count
    assert said == {
        "file": model,
        "tensor": "w",
        "type": "float32",
        "shape": [600, 1024],
        "granularity": None,
        "bytes": 2457600,
        "parts": ["w"],
        "stats": {
            "min": -3.0,
            "max": 12.0,
            "mean": mean,
            "rms": square**0.5,
            "max/rms": 12 / square**0.5,
            "zeros": count - 1024 - 2,
            "nan": 1,
            "inf": 2,
        },
    }
    assert end["summary"]["tensors"] == 1


def test_json(model, capsys):
    assert main(["inspect", "--json", "--tensor", "[bo]*", model]) == 0
    assert capsys.readouterr().out == (
        '{"file": "m.safetensors", "tensor": "one", "type": "float64", "shape": [], '
        '"granularity": null, "bytes": 8, "parts": ["one"]}\n'
        '{"file": "m.safetensors", "tensor": "bias", "type": "float16", "shape": [4], '
        '"granularity": null, "bytes": 8, "parts": ["bias"]}\n'
        '{"summary": {"file": "m.safetensors", "kind": "safetensors", "tensors": 2, '
        '"elements": 5, "bytes": 16, "metadata": {"format": "pt"}}}\n'
    )


@pytest.mark.parametrize(
    ("array", "said"),
    [
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
    ids=["empty", "not finite", "zeros", "codes", "large", "bool"],
)
def test_statistics_of_corners(array, said, here, capsys):
    np.save("a.npy", array)
    assert main(["inspect", "--stats", "--json", "a.npy"]) == 0
    found = list(lines(capsys)[0]["stats"].values())
    assert found == said


def test_what_has_no_numbers(here, capsys):
    np.save("c.npy", np.ones(3, "c8"))
    assert main(["inspect", "--stats", "--json", "c.npy"]) == 0
    assert lines(capsys)[0]["stats"] is None
    assert main(["inspect", "--stats", "c.npy"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["c", *"--------"]


def test_many_files(model, capsys):
    np.save("a.npy", np.float32([1]))
    np.savez("b.npz", x=np.float32([1]), y=np.int8([[1, 2]]))
    pq.write_weights("c.gguf", {"t": ("Q8_0", np.zeros((2, 34), np.uint8))})
    assert main(["inspect", "--json", "a.npy", "b.npz", "c.gguf", model]) == 0
    ends = [one["summary"] for one in lines(capsys) if "summary" in one]
    assert [one["kind"] for one in ends] == ["npy", "npz", "gguf", "safetensors"]
    assert [one["bytes"] for one in ends] == [4, 6, 68, 2457648]
    assert [one["elements"] for one in ends] == [1, 3, 64, 614409]


def test_metadata_of_gguf_is_brief(here, capsys):
    metadata = {f"k{i}": i for i in range(9)} | {"words": ["x"] * 1000, "long": "y" * 999}
    metadata = {"words": metadata.pop("words"), "long": metadata.pop("long"), **metadata}
    pq.write_weights("c.gguf", {"t": np.float32([1])}, metadata=metadata)
    assert main(["inspect", "c.gguf"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert "  words = [1000 of strings]" in out
    assert f"  long = {'y' * 57}..." in out
    assert max(map(len, out)) < 100
    assert any(line.startswith("  and ") for line in out)
