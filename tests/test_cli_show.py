"""Test tables on a terminal of 80 columns, which must show complete names and numbers."""

import io

import numpy as np
import pytest

import pyquant as pq
from pyquant.cli import _show, main
from pyquant.cli._show import Progress, print_table

NAMES = [f"model.layers.{i}.self_attn.{part}_proj.weight" for i in (7, 31) for part in "qk"]
NAMES += [f"{'n' * 90}.weight"]
VECTOR = "model.layers.31.post_attention_norm.bias"


class Terminal(io.StringIO):
    """A text stream that claims to be a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(tmp_path, monkeypatch):
    """Run a command on a terminal of 80 columns. Return the printed lines."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    rng = np.random.default_rng(0)
    pq.write_weights(
        "model.safetensors",
        {name: rng.standard_normal((64, 256)).astype("f4") for name in NAMES}
        | {VECTOR: np.ones(256, "f4")},
    )
    assert main(["quantize", "-q", "model.safetensors", "b.safetensors", *INT8]) == 0

    def run(*arguments):
        screen = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr("sys.stdout", screen)
            assert main(list(arguments)) == 0
        return screen.getvalue().splitlines()

    return run


INT8 = ("--type", "int8")
HEADINGS = ("name  ", "tensor  ")
TABLES = {
    "inspect": ["inspect", "b.safetensors"],
    "inspect --stats": ["inspect", "--stats", "b.safetensors"],
    "compare": ["compare", "model.safetensors", "b.safetensors"],
    "quantize": ["quantize", "model.safetensors", "x.gguf", "--type", "Q8_0", "--dry-run"],
    "dequantize": ["dequantize", "b.safetensors", "x.safetensors", "--dry-run"],
}


@pytest.mark.parametrize("command", TABLES)
def test_tables_at_80_columns_cut_no_cell(command, terminal, capsys):
    lines = terminal(*TABLES[command])
    for name in NAMES:
        assert any(line.split()[:1] == [name] for line in lines)
    heading = next(k for k, line in enumerate(lines) if line.startswith(HEADINGS))
    table = [line for line in lines[heading:-1] if "n" * 90 not in line]
    assert max(map(len, table)) <= 80
    assert "dry-run" not in TABLES[command] or "kept" in " ".join(table)
    # Without a terminal, each tensor is one line, and all lines have equal words.
    assert main(TABLES[command]) == 0
    plain = capsys.readouterr().out
    assert plain.split() == " ".join(lines).split()
    assert all(
        line.split()[0] in NAMES for line in plain.splitlines() if ".weight " in line
    )


def test_short_names_stay_beside_their_numbers(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setattr("sys.stdout", screen := Terminal())
    rows = [("a" * 13, 12345), ("b" * 14, 1)]
    print_table(("name", "bytes"), rows, right=("bytes",))
    assert screen.getvalue().splitlines() == [
        "name           bytes",
        "aaaaaaaaaaaaa  12345",
        "bbbbbbbbbbbbbb",
        "                   1",
    ]


@pytest.mark.parametrize("quiet", [True, False])
def test_a_terminal_shows_the_progress(quiet, terminal, monkeypatch):
    monkeypatch.setattr("sys.stderr", screen := Terminal())
    terminal("quantize", "model.safetensors", "x.gguf", "--type=Q8_0", *["-q"] * quiet)
    assert (screen.getvalue() == "") == quiet
    assert quiet or "model.layers." in screen.getvalue()


@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_progress_fits_one_line_and_leaves_none(term, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(_show, "monotonic", iter(range(100)).__next__)
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with Progress(1 << 30) as progress:
        progress.advance(1 << 28, "w\n" * 99)
        progress.advance(1 << 28, "w")
    if term == "dumb":
        assert screen.getvalue() == ""
        return
    _, first, second, end = screen.getvalue().split("\r")
    assert first.startswith(" 25% [#####               ] 1.0 GiB, 256.0 MiB/s, 3 s left")
    assert len(first.removesuffix("\x1b[K")) == 79
    assert second == " 50% [##########          ] 1.0 GiB, 256.0 MiB/s, 2 s left  w\x1b[K"
    assert end == "\x1b[K"
