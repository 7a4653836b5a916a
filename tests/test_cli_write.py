"""Output files are complete or unchanged after errors, interrupts and kills."""

import hashlib
import json
import os
import random
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import amount

import pyquant as pq
from pyquant.cli import main

SEED = 31
OLD = b"the old file"
# Count the starts and ends of calls that change files. At a given count, call a function
# that stops the command.
COUNTER = """
import os, sys
CHANGES = (os.replace, os.fsync, getattr(os, "posix_fallocate", None))
class Counter:
    def __init__(self, left, stop):
        self.count, self.left, self.stop = 0, left, stop
    def __call__(self, frame, event, function):
        if event not in ("c_call", "c_return"):
            return
        owner = type(getattr(function, "__self__", None)).__name__
        writes = function.__name__ in ("write", "truncate") and owner == "BufferedWriter"
        if writes or function in CHANGES:
            self.count += 1
            if self.count == self.left:
                self.stop()
"""
# Run the command in child processes. Kill each child at a random call that changes files,
# or at the last. Print the exit status and the files after each child.
KILLER = """
import hashlib, json, os, random, signal, sys
from pathlib import Path
from pyquant.cli import main
seed, wanted, names, old, command = json.loads(sys.stdin.read())
main([*command, "--dry-run"])  # imports modules once
def kill():
    os.kill(os.getpid(), signal.SIGKILL)
def run(number):
    for name in names:
        Path(name).write_bytes(bytes.fromhex(old))
    child = os.fork()
    if child == 0:
        counter = Counter(number, kill)
        sys.setprofile(counter)
        status = main(command)
        sys.setprofile(None)
        Path("count").write_text(str(counter.count))
        os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    digests = [hashlib.sha256(Path(name).read_bytes()).hexdigest() for name in names]
    print(json.dumps([number, status, digests]), flush=True)
run(-1)
count = int(Path("count").read_text())
for number in random.Random(seed).sample(range(1, count), min(count - 1, wanted)):
    run(number)
run(count)
"""

# Input, output and type of a command, and the files that the command writes. The command
# renames its temporary files to these names in this order.
FORMS = {
    "safetensors": ("in.safetensors", "out.safetensors", "int8", ["out.safetensors"]),
    "npz": ("in.safetensors", "out.npz", "uint4", ["out.npz"]),
    "gguf": ("in.safetensors", "out.gguf", "Q8_0", ["out.gguf"]),
    "shards": ("in", "out/", "int4", ["out/a", "out/b", "out/m.safetensors.index.json"]),
    "onnx": ("in.onnx", "out.onnx", "int8", ["out.onnx"]),
    "external": ("ex.onnx", "out.onnx", "int8", ["out.onnx.data", "out.onnx"]),
}


@pytest.fixture(params=FORMS)
def form(request, tmp_path, monkeypatch):
    """Write the input of a form; return the command and the names of its files."""
    monkeypatch.chdir(tmp_path)
    source, out, type, names = FORMS[request.param]
    rng = np.random.default_rng(0)
    arrays = {name: rng.standard_normal((48, 64)).astype(np.float32) for name in ("v", "w")}
    if source.endswith(".onnx"):
        write_model(source, arrays)
    elif source == "in":
        os.mkdir("in")
        os.mkdir("out")
        places = {"v": "a", "w": "b"}
        for name, file in places.items():
            pq.write_weights("one.safetensors", {name: arrays[name]})
            os.rename("one.safetensors", f"in/{file}")
        text = json.dumps({"metadata": {}, "weight_map": places})
        Path("in/m.safetensors.index.json").write_text(text)
    else:
        pq.write_weights(source, arrays)
    return ["quantize", source, out, "--type", type, "-qf"], names


def write_model(path, arrays):
    onnx = pytest.importorskip("onnx", minversion="1.19")
    pytest.importorskip("ml_dtypes")
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21]>
        g (float[N, 48] x) => (float[N, M] y) { t = MatMul(x, v)
            u = Transpose(t)
            y = MatMul(t, w) }"""
    )
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()
    )
    outside = path == "ex.onnx"
    onnx.save_model(model, path, save_as_external_data=outside, location="ex.weights")


def digest(data):
    return hashlib.sha256(data).hexdigest()


def temporary():
    return [str(path) for path in Path().rglob("*.tmp")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork starts the killed processes")
def test_a_killed_process_leaves_old_or_new_files(form):
    command, names = form
    task = json.dumps([SEED, amount(8, 60), names, OLD.hex(), command])
    run = subprocess.run(
        [sys.executable, "-P", "-c", COUNTER + KILLER],
        input=task.encode(),
        capture_output=True,
        check=True,
        timeout=300,
    )
    complete, *kills = [json.loads(line) for line in run.stdout.splitlines()]
    _, status, new = complete
    assert status == 0
    old = digest(OLD)
    assert old not in new
    for number, status, found in kills:
        assert status == -9, number
        done = sum(one != old for one in found)
        # Files get their names in this order, so that an index never names missing files.
        assert found == [*new[:done], *[old] * (len(names) - done)], number
    assert kills[-1][-1] == new
    assert any(old in found for _, _, found in kills)
    assert temporary()


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt, OSError(28, "No space left")], ids=["Ctrl-C", "full disk"]
)
def test_interrupts_and_full_disks_leave_no_temporary_file(form, error, capsys):
    """Raise an exception at each call that changes a file. Then check all files."""
    command, names = form
    scope = {}
    exec(COUNTER, scope)

    def stop():
        raise error

    def run(number):
        for name in names:
            Path(name).write_bytes(OLD)
        counter = scope["Counter"](number, stop)
        before = sys.getprofile()
        sys.setprofile(counter)
        try:
            return main(command), counter.count
        finally:
            sys.setprofile(before)

    status, count = run(-1)
    assert status == 0
    new = [Path(name).read_bytes() for name in names]
    expected = 130 if error is KeyboardInterrupt else 3
    for number in sorted(
        random.Random(SEED).sample(range(1, count + 1), min(count, amount(8, 30)))
    ):
        status, _ = run(number)
        found = [Path(name).read_bytes() for name in names]
        if status == 0 and expected == 3 and found == new:
            # the error came from os.fsync of the folder, which the command ignores
            continue
        assert status == expected, number
        done = sum(one != OLD for one in found)
        assert found == [*new[:done], *[OLD] * (len(names) - done)], number
        assert not temporary(), number
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 1, number
        assert lines[0].startswith("pyquant quantize: ")


@pytest.mark.skipif(os.name != "posix", reason="Windows has no SIGHUP")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "ignored SIGHUP"])
def test_signals_end_the_program_like_an_error(name, tmp_path, monkeypatch):
    """A signal during a write ends the program and removes the temporary file. More signals
    during the removal have no effect."""
    monkeypatch.chdir(tmp_path)
    pq.write_weights("in.safetensors", {"w": np.ones((48, 64), np.float32)})
    Path("out.npz").write_bytes(OLD)
    number = signal.Signals[name.removeprefix("ignored ")]
    code = (
        COUNTER
        + f"""
from pyquant.cli import run_as_program
import signal
for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:  # a background job ignores some
    signal.signal(number, signal.SIG_DFL)
if {name.startswith("ignored")}:
    signal.signal({number}, signal.SIG_IGN)
def stop():
    os.kill(os.getpid(), {number})
true = os.unlink
def unlink(path):
    for number in (1, 2, 15):
        os.kill(os.getpid(), number)
    true(path)
os.unlink = unlink
sys.setprofile(Counter(5, stop))
sys.exit(run_as_program())"""
    )
    command = ["quantize", "in.safetensors", "out.npz", "--type", "int8", "-qf"]
    run = subprocess.run([sys.executable, "-P", "-c", code, *command], capture_output=True)
    ignored = name.startswith("ignored")
    said = b"" if ignored else f"pyquant quantize: stopped by {name}\n".encode()
    assert (run.returncode, run.stderr) == (0 if ignored else 128 + number, said)
    assert (Path("out.npz").read_bytes() == OLD) is not ignored
    assert sorted(os.listdir()) == ["in.safetensors", "out.npz"]


@pytest.mark.skipif(os.name != "posix", reason="Windows ends the process")
def test_a_signal_before_the_options_are_read():
    code = """
import argparse, os, sys
from pyquant.cli import run_as_program
init = argparse.ArgumentParser.__init__
def stopped(*args, **options):
    os.kill(os.getpid(), 15)
    init(*args, **options)
argparse.ArgumentParser.__init__ = stopped
sys.exit(run_as_program())"""
    command = [sys.executable, "-P", "-c", code, "inspect", "m.safetensors"]
    run = subprocess.run(command, capture_output=True)
    assert (run.returncode, run.stderr) == (143, b"pyquant inspect: stopped by SIGTERM\n")


def test_complete_files_are_on_the_disk_before_any_is_renamed(form, monkeypatch):
    command, names = form
    sizes, before = {}, []  # sizes by inode
    sync, rename = os.fsync, os.replace

    def fsync(file):
        found = os.fstat(file)
        assert found.st_ino not in sizes  # one sync suffices
        sizes[found.st_ino] = found.st_size
        sync(file)

    def replace(source, target):
        before.append(sorted(sizes.values()))
        rename(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    assert main(command) == 0
    assert before[0] == sorted(os.path.getsize(name) for name in names)


@pytest.mark.skipif(os.name != "posix", reason="permission bits of POSIX")
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o007])
def test_a_new_file_has_the_permissions_of_the_umask(form, mask):
    command, names = form
    before = os.umask(mask)
    try:
        assert main(command) == 0
    finally:
        os.umask(before)
    for name in names:
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o666 & ~mask


def test_members_of_npz_wait_for_their_turn(tmp_path, monkeypatch):
    """Codes and scales of a tensor are computed together for each band, but the members of
    the .npz file are written one after another."""
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(1).standard_normal((1200, 600)).astype(np.float32)
    np.savez("in.npz", x=x, y=x[:3])
    options = ("--type", "int8", "--granularity", "block:2", "--max-memory", "1M")
    assert main(["quantize", "in.npz", "out.npz", *options, "-q"]) == 0
    found = np.load("out.npz")
    assert found.files == ["x", "x_scale", "y", "y_scale", "__pyquant__"]
    p = pq.choose_qparams(x, axis=1, block_size=2)
    np.testing.assert_array_equal(found["x"], p.quantize(x))
    np.testing.assert_array_equal(found["x_scale"], p.scale)
    assert sorted(os.listdir()) == ["in.npz", "out.npz"]
