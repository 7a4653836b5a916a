"""Run the commands of pages, README.md and --help. Compare the output with the pages."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import ROOT

import pyquant as pq
from pyquant import weights
from pyquant.cli import COMMANDS, main

PAGE = ROOT / "docs" / "cli.md"
# The keys are pages with programs and commands. The values are the packages that the
# commands need.
PAGES = {
    PAGE: (),
    ROOT / "docs" / "start" / "first-model.md": ("jinja2", "onnx", "onnxruntime", "magika"),
    ROOT / "docs" / "howto" / "bf16-to-gguf.md": ("onnx", "magika"),
    ROOT / "docs" / "howto" / "gguf-to-gguf.md": (),
}
README = ROOT / "README.md"
# These commands print numbers that depend on the machine.
OF_MACHINES = ("demo", "info")


def blocks(kind, page=PAGE):
    text = page.read_text("utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def commands_of(block):
    """Return the commands of a code block, with the lines that each command prints."""
    text = re.sub(r" *\\\n *", " ", block)
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)


def examples(page=PAGE):
    """Yield each command of a page, with the lines that the command prints."""
    for block in blocks("console", page):
        yield from commands_of(block)


def run(command, capsys):
    """Run a command. Return the exit status and the output."""
    program, *arguments = shlex.split(command)
    assert program == "pyquant"
    status = main(arguments)
    out, err = capsys.readouterr()
    return status, out + err


def masked(text):
    """Return a text that does not depend on the machine. Numbers become 1, and names of
    instruction sets are deleted."""
    text = re.sub(r"avx512|avx2|neon|scalar|, free-threaded", "", text)
    text = text.replace("not installed", "1")
    return re.sub(r"[ ,]+", " ", re.sub(r"[\w.+]*\d[\w.+]*", "1", text))


def is_optional(text):
    return re.search("bfloat16|int4", text) is not None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page_shows_the_output_of_its_commands(page, tmp_path, monkeypatch, capsys):
    """Run the programs and commands of a page in one folder, in the order of the page."""
    if any(is_optional(command) for command, _ in examples(page)):
        pytest.importorskip("ml_dtypes")  # skips the test without bfloat16 and int4
    for package in PAGES[page]:
        pytest.importorskip(package)  # skips the test without the package
    monkeypatch.chdir(tmp_path)
    pattern = r"^```(py|console)\n(.*?)^```$(?:\s+prints\s+^```\n(.*?)^```$)?"
    for kind, block, prints in re.findall(pattern, page.read_text("utf-8"), re.M | re.S):
        if kind == "py":
            exec(block, {})
            assert capsys.readouterr().out == prints
        else:
            check_commands(block, capsys)


def check_commands(block, capsys):
    """Run the commands of a code block. Compare the output and the exit status of each."""
    for command, expected in commands_of(block):
        status, printed = run(command, capsys)
        if command.split()[1] in OF_MACHINES:
            printed, expected = masked(printed), masked(expected)
        assert printed == expected, command
        failed = command.startswith("pyquant compare --fail-below")
        assert status == (1 if failed else 2 if "-f to overwrite" in printed else 0)


def test_readme_shows_the_output_of_its_commands(tmp_path, monkeypatch, capsys):
    """Run the commands of README.md by the installed program. The first example writes the
    file that the commands read."""
    monkeypatch.chdir(tmp_path)
    exec(blocks("python", README)[0], {})
    assert capsys.readouterr().out
    script = Path(sys.executable).with_name("pyquant")
    program = [script] if script.exists() else [sys.executable, "-P", "-m", "pyquant"]
    commands = list(examples(README))
    assert [command.split()[1] for command, _ in commands] == ["quantize", "compare"]
    for command, expected in commands:
        run = [*program, *shlex.split(command)[1:]]
        done = subprocess.run(run, capture_output=True, encoding="utf-8")
        assert (done.returncode, done.stderr, done.stdout) == (0, "", expected), command


def test_page_has_every_command():
    text = PAGE.read_text("utf-8")
    shown = {command.split()[1] for command, _ in examples()}
    for name in COMMANDS:
        assert f"`pyquant {name}`" in text
        assert name in shown


def of_help():
    """Yield the examples at the end of each command's --help, each as one line."""
    from importlib import import_module

    for name, (module, _) in COMMANDS.items():
        text = import_module(f"pyquant.cli.{module}").EXAMPLES.replace("\\\n", " ")
        found = re.findall(r"^  (pyquant .*)$", text, re.MULTILINE)
        assert found, name
        yield from found


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Make a folder with the files that the examples of --help name."""
    folder = tmp_path_factory.mktemp("files")
    x = np.linspace(-1, 1, 64 * 256, dtype=np.float32).reshape(64, 256)
    names = ("layers.0.weight", "layers.0.norm.weight", "lm_head.weight")
    model = folder / "model.safetensors"
    pq.write_weights(model, dict.fromkeys(names, x))
    for name in ("a", "b", "weights"):
        np.save(folder / f"{name}.npy", x)
    for name in ("a", "b"):
        np.savez(folder / f"{name}.npz", x=x)
    layer = weights.awq.pack(x, np.full((8, 64), 0.125, "f2"), np.full((8, 64), 8))
    for made in (layer, weights.convert(layer, "gptq")):
        name = folder / f"model-{made.format}.safetensors"
        pq.write_weights(name, made.tensors("layers.0"))
    for source, made, type in (
        (model, "model-int8.safetensors", "int8"),
        *((model, f"model{one}.gguf", "Q4_K") for one in ("", ".Q4_K")),
        (model, "model.Q4_0.gguf", "Q4_0"),
        (folder / "weights.npy", "weights.npz", "int8"),
    ):
        assert (
            main(["quantize", "-q", str(source), str(folder / made), "--type", type]) == 0
        )
    return folder


@pytest.mark.parametrize("command", dict.fromkeys(of_help()))
def test_examples_of_help(command, files, capsysbinary, monkeypatch):
    if is_optional(command):
        pytest.importorskip("ml_dtypes")  # skips the test without bfloat16 and int4
    if ".html" in command:
        pytest.importorskip("jinja2")  # skips the test without the package
    if ".onnx" in command:
        pytest.skip("test_cli_onnx.py has these")
    monkeypatch.chdir(files)
    command, _, _ = command.partition(" > ")
    _, *arguments = shlex.split(command)
    if arguments[0] in ("quantize", "convert", "dequantize") or "--report" in arguments:
        arguments.append("--force")  # the output file can exist
    status = main(arguments)
    out, err = capsysbinary.readouterr()
    assert (status, err) == (0, b""), command
    assert out or sys.platform == "win32"
