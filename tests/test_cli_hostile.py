"""Test commands that read files with hostile input: damaged files, large files, control
characters in names. Also test closed pipes."""

import io
import json
import os
import random
import struct
import subprocess
import sys
import time

import fuzz_files
import numpy as np
import pytest
from support import program

import pyquant as pq
from pyquant.cli import main

# Names and usage


def test_control_characters_in_names_are_escaped(here, capsys):
    np.savez("n.npz", **{"a\n\x1b[31m\u202e": np.float32([1])})
    for command in (["inspect"], ["inspect", "--stats"]):
        assert main([*command, "n.npz"]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert "\u202e" not in out
        assert r"a\n\x1b[31m\u202e" in out
    assert main(["compare", "n.npz", "n.npz"]) == 0
    assert r"a\n\x1b[31m\u202e" in capsys.readouterr().out


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that closes streams")
@pytest.mark.parametrize(
    ("command", "status", "said"),
    [
        ("inspect a.npy >&-", 0, ""),
        ("quantize a.npy o.npz --type int8 >&-", 0, ""),
        ("quantize a.npy o.npz --type int8 2>&-", 0, ""),
        ("quantize a.npy - --type int8 >&-", 2, "pyquant quantize: OUT: expected a file"),
        ("quantize - o.npz --type int8 <&-", 2, "pyquant quantize: -: expected a file"),
    ],
)
def test_closed_streams(command, status, said, here):
    np.save("a.npy", np.ones((8, 8), np.float32))
    line = f'"{sys.executable}" -P -m pyquant {command}'
    run = subprocess.run(line, shell=True, capture_output=True, text=True, timeout=120)
    assert run.returncode == status
    assert run.stderr.startswith(said)
    assert run.stderr.count("\n") == bool(said)


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "utf-8"])
def test_names_outside_the_encoding_of_stdout_are_escaped(encoding, here):
    np.savez("n.npz", **{"größe 名": np.float32([1])})
    environment = {"PYTHONIOENCODING": encoding}
    run = program("inspect", "n.npz", env=environment, encoding=encoding)
    expected = "größe 名".encode(encoding, "backslashreplace").decode(encoding)
    assert (run.returncode, run.stderr) == (0, "")
    assert expected in run.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="not a BrokenPipeError on Windows")
@pytest.mark.parametrize(
    "command",
    [
        "inspect {0}",
        "compare {0} {0}",
        "quantize {0} o.npz --type int8 --min-size 1",
        "info",
    ],
)
def test_closed_pipe_ends_a_command_silently(command, here):
    """A command ends without an error message if the reader of its output closes the pipe.
    Except for `info`, the output is longer than the buffer of a pipe."""
    pq.write_weights(
        "m.safetensors", {f"t{i}": np.zeros((1, 3), "f4") for i in range(1000)}
    )
    arguments = f"-P -m pyquant {command.format('m.safetensors')} --json".split()
    with subprocess.Popen(
        [sys.executable, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        if command != "info":
            assert process.stdout.readline().startswith(b'{"')
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_large_file_stays_on_the_disk(here):
    """Commands use little memory for a tensor of 256 MiB, and for its codes."""
    resource = pytest.importorskip("resource")  # not on Windows
    del resource
    rows = 1 << 16
    entry = {"dtype": "F32", "shape": [rows, 1024], "data_offsets": [0, rows << 12]}
    head = json.dumps({"w": entry}).encode()
    with open("m.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head)
        file.truncate(8 + len(head) + (rows << 12))
    code = (
        "import sys, resource; from pyquant.cli import main; "
        "r = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; before = r(); "
        "status = main(sys.argv[1:]); print((r() - before) >> 10, file=sys.stderr); "
        "sys.exit(status)"
    )
    for command in (
        "inspect --stats m.safetensors",
        "inspect --check m.safetensors",
        "compare --exact m.safetensors m.safetensors",
        "quantize -q m.safetensors q.safetensors --type int2 --granularity tensor",
        "dequantize -q q.safetensors d.safetensors --type float16",
    ):
        given = [sys.executable, "-P", "-c", code, *command.split()]
        run = subprocess.run(given, capture_output=True, text=True, timeout=120)
        assert run.returncode == 0, run.stderr
        assert int(run.stderr) < 120, command


# Files with wrong headers


def damaged_arrays(rng, folder):
    """Write a .npy or .npz file, and change random bytes of the file."""
    arrays = {"a": np.ones((3, 40), "f4"), "b": np.arange(9), "c": np.ones(3, "c8")}
    file = io.BytesIO()
    kind = rng.choice(("npy", "npz", "packed.npz"))
    if kind == "npy":
        np.save(file, rng.choice([*arrays.values()]))
    else:
        (np.savez if kind == "npz" else np.savez_compressed)(file, **arrays)
    path = os.path.join(folder, f"x.{kind}")
    fuzz_files.write(path, fuzz_files.damaged(rng, file.getvalue()))
    return path


ODD = np.float32([0, -1, np.nan, np.inf, -np.inf, 1e-45, 3e38, 1])


def odd_parts(rng, folder):
    """Write random codes, scales, zero points and records of pyquant to a file."""
    shape = rng.choice(((4, 64), (64,), (), (0, 8), (3, 2, 32), (1, 1)))
    few = (1,) * len(shape)
    forms = (shape, shape[:1], (), few, (*shape[:-1], 2), (*shape[:-1], 1), (7,))
    size = rng.choice(forms)
    scale = np.resize(np.float32(rng.choices(ODD, k=5)), size)
    names = ("int8", "uint8", "int16", "int32", "float32")
    codes = np.resize(np.arange(-9, 9).astype(rng.choice(names)), shape)
    with np.errstate(all="ignore"):
        scale = scale.astype(rng.choice(("f4", "f2", "f8", "i1")))
    found = {"w": codes, "w_scale": scale}
    if rng.random() < 0.5:
        zero = np.resize([rng.choice((0, -1, 300))], rng.choice((size, (2,))))
        found["w_zero_point"] = zero.astype(rng.choice(("int8", "uint8", "int32")))
    if rng.random() < 0.3:
        columns = rng.choice((64, 63, 8, 2**40, -1, 0))
        found["w_packed"] = np.arange(32, dtype=np.int32).reshape(4, 8)
        found["w_shape"] = np.int64(rng.choice(([4, columns], [columns], [[4, columns]])))
    types = ("int8", "uint8", "int4", "uint2", "float8_e4m3fn", "float4_e2m1fn", "x")
    record = {
        "type": rng.choice(types),
        "shape": rng.choice((list(shape), [4, 64], [2**62, 2**62], [-1], "x", None)),
        "granularity": rng.choice(("tensor", "axis:0", "axis:-9", "block:2", "2x9", "", 3)),
        "rounding": rng.choice(("half_even", "half_up", "x", None, [])),
    }
    records = rng.choice(({}, {"w": {"quantized": record}}, {"v": {"quantized": record}}))
    found["__pyquant__"] = np.array(json.dumps({"pyquant": json.dumps(records)}))
    path = os.path.join(folder, "x.npz")
    np.savez(path, **found)
    return path


COMMANDS = (
    ["inspect"],
    ["inspect", "--stats", "--json"],
    ["inspect", "--check"],
    ["compare", "--exact", "real.npz"],
)
WRITING = (
    ["dequantize", "--to=safetensors"],
    ["dequantize", "--to=gguf"],
    ["quantize", "--to=safetensors", "--type=int8", "--min-size=0"],
    ["quantize", "--to=npz", "--type=uint4", "--max-memory=64K"],
    ["quantize", "--to=gguf", "--type=Q8_0"],
)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("make", [fuzz_files.make, damaged_arrays, odd_parts])
def test_damaged_files_are_read_or_refused_in_one_line(make, seed, here, capsys):
    """Each command succeeds, or prints one line with an error, within some seconds."""
    statuses = set()
    for number in range(20):
        rng = random.Random(f"{seed}:{number}")
        path = make(rng, str(here))
        np.savez("real.npz", w=np.ones((4, 64), "f4"))
        beside = (["compare", path], ["compare", "real.npz"], ["compare", "--exact", path])
        reading = [[*command, path] for command in (*COMMANDS, *beside)]
        writing = [[*command, path, "o", "-qf"] for command in rng.sample(WRITING, 2)]
        for command in (*reading, *writing):
            began = time.process_time()
            status = main(command)
            assert not [name for name in os.listdir() if name.endswith(".tmp")]
            assert time.process_time() - began < 5 * fuzz_files.SECONDS, (command, number)
            out, err = capsys.readouterr()
            assert status in (0, 1, 2), (command, number)
            assert (err.count("\n") == 1) == (status == 2), (command, number, err)
            assert len(err) < 1500
            assert "\x1b" not in out
            statuses.add(status)
    assert {0, 2} <= statuses
