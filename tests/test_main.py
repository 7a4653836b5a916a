"""Tests of the commands `python -m pyquant demo` and `python -m pyquant info`."""

import argparse
import json
import os
import platform
import re
import signal
import sys
import sysconfig
from importlib import import_module

import numpy as np
import pytest
from support import HAVE_BFLOAT16, ROOT, program

import pyquant as pq
from pyquant.cli import COMMANDS, _demo, main
from pyquant.cli._forms import BLOCKS, STORED
from pyquant.cli._select import add_options


@pytest.fixture
def demo(monkeypatch, tmp_path, capsys):
    """Return a function that runs the demo and returns its status, output and errors."""
    monkeypatch.setattr(_demo, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(_demo, "MIN_RUNS", 1)
    monkeypatch.chdir(tmp_path)

    def run(**arrays):
        np.savez("arrays.npz", **arrays)
        status = main(["demo", "arrays.npz"])
        return status, *capsys.readouterr()

    return run


# The commands


def test_demo_without_a_file(tmp_path):
    run = program("demo", cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    lines = run.stdout.splitlines()
    assert lines[0] == f"pyquant {pq.__version__}, instruction set {pq.isa.active()}, int8"
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 24  # one screen
    rows = [line for line in lines if line.startswith(tuple(_demo.FORMS))]
    assert len(rows) == 3
    pyquant, numpy, usual = lines[-3:]
    assert "  0 of 150528, 0.0 %  " in pyquant
    assert "  0 of 150528, 0.0 %  " in numpy
    assert re.search(r"  \d{5} of 150528, \d\d\.\d %  ", usual)


@pytest.mark.parametrize("installed", [HAVE_BFLOAT16, False])
def test_info(installed, monkeypatch, capsys):
    if not installed:
        monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    python = f"{platform.python_version()} ({platform.python_implementation()}"
    python += f"{', free-threaded' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''})"
    expected = {
        "pyquant": pq.__version__,
        "ISA active": pq.isa.active(),
        "ISA available": list(pq.isa.available()),
        "Python": python,
        "NumPy": np.__version__,
        "ml_dtypes": import_module("ml_dtypes").__version__
        if installed
        else "not installed",
    }
    assert main(["info", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    keys = [name.replace(" ", "_").lower() for name in expected]
    assert json.loads(line) == dict(zip(keys, expected.values(), strict=True))
    assert main(["info"]) == 0
    expected["ISA available"] = ", ".join(pq.isa.available())
    lines = [f"{name:14} {fact}" for name, fact in expected.items()]
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "end"),
    [
        (["quantise", "a"], "'quantise' is not a command; did you mean quantize?"),
        (["x"], f"'x' is not a command; use one of {', '.join(COMMANDS)}"),
        (["demo", "a.npy", "b.npy"], "unrecognized arguments: b.npy"),
    ],
)
def test_wrong_usage_is_an_error(arguments, end, capsys):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(arguments)
    text = capsys.readouterr().err
    assert text.startswith("usage: pyquant")
    assert text.endswith(f": {end}\n")


def test_no_arguments_print_the_help(tmp_path):
    run = program(cwd=tmp_path)
    assert (run.returncode, run.stderr) == (0, "")
    listed = run.stdout.partition("commands:\n")[2].partition("\n\n")[0]
    names = [line.split()[0] for line in listed.splitlines()]
    order = "inspect quantize compare convert dequantize demo info"
    assert names == order.split()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns(name, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([name, "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: pyquant {name} ")
    examples = re.findall("^  pyquant .*$", text, re.MULTILINE)
    assert examples
    assert max(len(line) for line in text.splitlines() if line not in examples) <= 80


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_one_line_of_help_with_its_default(name):
    parser = argparse.ArgumentParser()
    module = import_module(f"pyquant.cli.{COMMANDS[name][0]}")
    add_options(parser, *module.OPTIONS)
    assert "examples:\n  pyquant" in module.EXAMPLES
    assert name != "quantize" or {*STORED, *BLOCKS} < {*module.EXAMPLES.split()}
    for action in parser._actions:
        assert action.help
        assert len(action.help) <= 52
        is_flag = action.nargs == 0 or not action.option_strings
        assert is_flag or re.search("default|required", action.help), action


def test_version(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"pyquant {pq.__version__}\n"


WRONG = {"PYQUANT_ISA": "sse9"}


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        (["-m", "pyquant"], ["info"]),
        (["-mpyquant"], ["demo", "-m"]),
        (["-P", "-m", "pyquant"], []),
        (["-mpyquant"], ["-m", "pyquant"]),
        (["-P", "pyquant"], ["info"]),
    ],
)
def test_a_wrong_level_is_one_line(module, arguments, tmp_path):
    """Print an import error as one line, also in the script that pip installs."""
    script = tmp_path / "pyquant"
    script.write_text("from pyquant.cli import run_as_program; run_as_program()")
    run = program(*arguments, cwd=tmp_path, module=module, env=WRONG)
    name = "pyquant" if module == ["-P", "pyquant"] else "python -m pyquant"
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (2, "", 1)
    assert run.stderr.startswith(f"{name}: PYQUANT_ISA: expected one of ")
    assert run.stderr.endswith(", got 'sse9'\n")


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such exit status")
def test_an_interrupt_during_the_import_prints_no_traceback(tmp_path):
    script = tmp_path / "pyquant"
    script.write_text("""
import os, _signal, sys
_signal.signal(_signal.SIGINT, _signal.default_int_handler)  # a background job ignores it
for name in "signal", "importlib":  # Ctrl-C while the first of all imports is searched
    sys.modules.pop(name, None)
class Finder:
    def find_spec(self, name, *rest):
        if name not in ("pyquant", "pyquant._installed"):
            os.kill(os.getpid(), _signal.SIGINT)
sys.meta_path.insert(0, Finder())
from pyquant.cli import run_as_program""")
    run = program("info", cwd=tmp_path, module=("-P", str(script)))
    assert (run.returncode, run.stderr) == (-signal.SIGINT, "")


def test_a_wrong_level_is_an_import_error_for_other_programs(tmp_path):
    """Raise ImportError in other programs, even if an argument is `-m` or `pyquant`."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "__init__.py").write_text("import pyquant")
    (tmp_path / "other" / "__main__.py").write_text("")
    for module in (("-m", "other"), ("-m", "other", "pyquant"), ("-c", "import pyquant")):
        run = program(cwd=tmp_path, module=module, env=WRONG)
        assert run.returncode == 1
        assert "\nImportError: PYQUANT_ISA: expected one of " in run.stderr
    code = "import sys; sys.argv[:] = ['-m'] * 99; import pyquant"
    run = program(cwd=tmp_path, module=("-c", code), env=WRONG)
    assert "\nImportError: PYQUANT_ISA: expected one of " in run.stderr


def test_the_source_folder_is_one_line():
    if not (ROOT / "pyquant" / "__main__.py").is_file():
        pytest.skip("only the tests are here")
    run = program("info", cwd=ROOT, module=("-m", "pyquant"))
    assert run.returncode == 2
    expected = "python -m pyquant: pyquant: expected its compiled module, got the source"
    assert run.stderr.startswith(expected)
    assert run.stderr.count("\n") == 1


def test_importing_pyquant_leaves_the_commands_out(tmp_path):
    code = "import sys, numpy; sys.modules.pop('argparse', 0); import pyquant; "
    run = program(cwd=tmp_path, module=("-c", code + "print(*sys.modules)"))
    modules = run.stdout.split()
    assert "pyquant" in modules
    assert not {"argparse", "pyquant.cli", "pyquant.__main__"} & set(modules)


# The table


SHAPES = [(1000,), (31,), (40, 50), (5, 1), (6, 7, 64), (2, 3, 4, 33)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_demo_prints_bytes_and_errors(shape, dtype, demo):
    rng = np.random.default_rng(len(shape))
    x = (rng.standard_normal(shape) * rng.uniform(0.1, 9, shape[-1])).astype(dtype)
    status, out, err = demo(x=x)
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[3] == f"x, {dtype} {' x '.join(map(str, shape))}"
    rows = {line[:11].strip(): line[11:].split() for line in lines[5:]}
    assert list(rows) == [name for name in _demo.FORMS if name != "channel" or x.ndim > 1]
    for name, (before, _, after, sqnr, error, *speeds) in rows.items():
        p = pq.choose_qparams(x, **_demo.FORMS[name])
        y = p.dequantize(p.quantize(x), dtype=p.scale.dtype).astype("f8")
        lost = x.astype("f8") - y
        with np.errstate(divide="ignore"):
            expected = 10 * np.log10(np.sum(x.astype("f8") ** 2) / np.sum(lost**2))
        assert (before, after) == (str(x.nbytes), str(x.size + p.scale.nbytes))
        assert (sqnr, error) == (f"{expected:.2f}", f"{np.abs(lost).max():.4g}")
        assert all(float(speed) >= 0 for speed in speeds)


def test_demo_counts_elements_a_second(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(_demo, "MIN_SECONDS", 0)
    monkeypatch.setattr(_demo, "perf_counter", lambda: next(clock) / 1e9)
    row = next(_demo.measured(np.ones(500, np.float32)))
    assert row[-2:] == ("500.00", "500.00")


LEFT_OUT = {
    "int64": np.arange(3),
    **{name: np.ones(3, name) for name in ("bool", "complex64")},
    "0-d": np.float32(3),
    "empty": np.ones((2, 0), "f4"),
}


@pytest.mark.parametrize("left_out", LEFT_OUT.values(), ids=LEFT_OUT)
def test_demo_leaves_arrays_out(left_out, demo):
    status, out, err = demo(a=left_out, b=np.ones(2, np.float32))
    assert (status, err) == (0, "")
    assert out.splitlines()[3] == "b, float32 2"
    status, out, err = demo(a=left_out)
    expected = "arrays.npz has no arrays of float16, float32, float64 or bfloat16"
    assert (status, out, err) == (2, "", f"pyquant demo: {expected}\n")


def test_demo_skips_arrays_that_are_not_finite(demo):
    status, out, _ = demo(a=np.float32([[1, 2], [np.nan, np.inf]]), b=np.ones(2, "f4"))
    assert status == 0
    expected = "expected finite values, got 2 not finite, the first at index (1, 0)"
    assert out.splitlines()[4] == f"skipped: x: {expected}"
    assert "b, float32 2" in out
