"""The commands `pyquant demo` and `pyquant info`, here as `python -m pyquant`."""

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from importlib import import_module

import numpy as np
import pytest
from support import HAVE_BFLOAT16, ROOT, float_of_bits

import pyquant as pq
from pyquant.cli import _demo_table as _demo
from pyquant.cli import main

ROW = re.compile(
    r"(?P<granularity>per tensor|per channel|blocks of 32) +"
    r"(?P<lo>\S+)(?: \.\. (?P<hi>\S+))? +"
    r"(?P<sqnr>\S+) +(?P<error>\S+) +(?P<saturated>\S+) +"
    r"(?P<before>\S+) -> (?P<after>\S+) +(?P<quant>\S+) +(?P<dequant>\S+)"
)


def program(*arguments, cwd, module=("-m", "pyquant"), **variables):
    """Run the commands as a user does, away from the checkout."""
    return subprocess.run(
        [sys.executable, *module, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture
def fast(monkeypatch):
    """Time every form once: the numbers mean nothing then."""
    monkeypatch.setattr(_demo, "MIN_SECONDS", 0.0)
    monkeypatch.setattr(_demo, "MIN_RUNS", 1)


def table(text):
    """The rows below each line that names an array."""
    found, rows = {}, None
    for line in text.splitlines():
        match = ROW.fullmatch(line)
        if match and rows is not None:
            rows.append(match)
        elif line and not line.startswith((" ", "granularity", "pyquant", "int8")):
            rows = found[line] = []
    return found


@pytest.fixture
def demo(fast, tmp_path, capsys):
    """Run the demo in this process on arrays or bytes; its status, table and errors."""

    def run(**arrays):
        path = tmp_path / "arrays.npz"
        np.savez(path, **arrays)
        status = main(["demo", str(path)])
        out, err = capsys.readouterr()
        return status, table(out), err

    return run


# The commands


def test_demo_without_a_file(tmp_path):
    run = program("demo", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    first = run.stdout.splitlines()[0]
    assert first.startswith(f"pyquant {pq.__version__}, ")
    assert f"instruction set {pq.isa.active()} " in first
    arrays = table(run.stdout)
    assert len(arrays) == 3
    assert all(len(rows) == 3 for rows in arrays.values())
    assert all(len(line) <= 110 for line in run.stdout.splitlines())
    assert run.stdout.isascii()


def test_demo_with_a_file(tmp_path):
    np.save(tmp_path / "w.npy", np.arange(100, dtype=np.float32))
    run = program("demo", "w.npy", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert list(table(run.stdout)) == ["w.npy  float32 (100,)"]


def test_info(tmp_path):
    run = program("info", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    python = f"{platform.python_version()} ({platform.python_implementation()}"
    python += f"{', free-threaded' if sysconfig.get_config_var('Py_GIL_DISABLED') else ''})"
    ml_dtypes = import_module("ml_dtypes").__version__ if HAVE_BFLOAT16 else "not installed"
    assert [line.split(maxsplit=1) for line in run.stdout.splitlines()] == [
        ["pyquant", pq.__version__],
        ["ISA", f"active     {pq.isa.active()}"],
        ["ISA", f"available  {', '.join(pq.isa.available())}"],
        ["Python", python],
        ["NumPy", np.__version__],
        ["ml_dtypes", ml_dtypes],
    ]


def test_info_as_json(capsys):
    assert main(["info", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    facts = json.loads(line)
    assert list(facts) == [
        *("pyquant", "isa_active", "isa_available", "python", "numpy", "ml_dtypes"),
    ]
    assert facts["isa_available"] == list(pq.isa.available())


def test_version(capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["--version"])
    assert exit_.value.code == 0
    assert capsys.readouterr().out == f"pyquant {pq.__version__}\n"


def test_info_without_ml_dtypes(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    assert main(["info"]) == 0
    assert capsys.readouterr().out.endswith("ml_dtypes      not installed\n")


REFUSED = "python -m pyquant: PYQUANT_ISA: expected one of "


@pytest.mark.parametrize("arguments", [["info"], ["demo", "-m"], [], ["-m", "pyquant"]])
@pytest.mark.parametrize(
    "module", [("-m", "pyquant"), ("-mpyquant",), ("-P", "-m", "pyquant")]
)
def test_a_wrong_level_is_one_line(arguments, module, tmp_path):
    run = program(*arguments, cwd=tmp_path, module=module, PYQUANT_ISA="sse9")
    assert run.returncode == 2
    assert run.stderr.startswith(REFUSED)
    assert run.stderr.endswith(", got 'sse9'\n")
    assert (run.stderr.count("\n"), run.stdout) == (1, "")


def test_a_wrong_level_for_the_script(tmp_path):
    """Which pip writes: it imports the command before anything can be caught."""
    script = tmp_path / "pyquant"
    script.write_text("from pyquant.cli import run_as_program; run_as_program()")
    run = program("info", cwd=tmp_path, module=("-P", str(script)), PYQUANT_ISA="sse9")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("pyquant: PYQUANT_ISA: expected one of ")
    assert run.stderr.count("\n") == 1
    run = program("info", cwd=tmp_path, module=("-P", str(script)))
    assert (run.returncode, run.stderr) == (0, "")


def test_a_wrong_level_is_an_import_error_for_other_programs(tmp_path):
    """Also for those that Python finds while it says -m, and whose argument is a name."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "__init__.py").write_text("import pyquant")
    (tmp_path / "other" / "__main__.py").write_text("")
    for module in (("-m", "other"), ("-m", "other", "pyquant"), ("-c", "import pyquant")):
        run = program(cwd=tmp_path, module=module, PYQUANT_ISA="sse9")
        assert run.returncode == 1
        assert "\nImportError: PYQUANT_ISA: expected one of " in run.stderr
    code = "import sys; sys.argv[:] = ['-m'] * 99; import pyquant"
    run = program(cwd=tmp_path, module=("-c", code), PYQUANT_ISA="sse9")
    assert "\nImportError: PYQUANT_ISA: expected one of " in run.stderr


def test_the_source_folder_is_one_line():
    if not (ROOT / "pyquant" / "__main__.py").is_file():
        pytest.skip("only the tests are here")
    run = program("info", cwd=ROOT)
    assert run.returncode == 2
    expected = "python -m pyquant: pyquant: expected its compiled module, got the source"
    assert run.stderr.startswith(expected)
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["quantise"], ["demo", "a.npy", "b.npy"]])
def test_wrong_usage(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage: pyquant" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="not a BrokenPipeError on Windows")
def test_a_reader_that_goes_away(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-m", "pyquant", "info"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_importing_pyquant_leaves_the_commands_out(tmp_path):
    code = "import sys, numpy; sys.modules.pop('argparse', 0); import pyquant; "
    run = subprocess.run(
        [sys.executable, "-c", code + "print(*sys.modules)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    modules = run.stdout.split()
    assert "pyquant" in modules
    assert not {"argparse", "pyquant.cli", "pyquant.__main__"} & set(modules)


# The table


def expected(x, **granularity):
    """What a row must say, computed without chunks and from a scale per element."""
    p = pq.choose_qparams(x, **granularity)
    q = pq.quantize(x, p.scale, axis=p.axis, block_size=p.block_size)
    scale = np.asarray(p.scale, np.float64)
    if p.block_size is not None:
        scale = np.repeat(scale, p.block_size, axis=-1)[..., : x.shape[-1]]
    elif p.axis is not None:
        scale = scale.reshape(-1, *[1] * (x.ndim - 1))
    y = q.astype(p.scale.dtype) * scale.astype(p.scale.dtype)
    exact = x.astype(np.float64)
    lost = exact - y
    with np.errstate(divide="ignore"):
        sqnr = 10 * np.log10(np.sum(exact**2) / np.sum(lost**2))
    return {
        "lo": f"{p.scale.min():.4g}",
        "hi": None if p.scale.min() == p.scale.max() else f"{p.scale.max():.4g}",
        "sqnr": f"{sqnr:.2f}",
        "error": f"{np.max(np.abs(lost)):.4g}",
        "saturated": "0.000",
        "before": str(x.nbytes),
        "after": str(x.size + p.scale.nbytes),
    }


SHAPES = [(1000,), (31,), (40, 50), (5, 1), (6, 7, 64), (2, 3, 4, 33)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_values(shape, dtype, demo):
    rng = np.random.default_rng(len(shape))
    x = (rng.standard_normal(shape) * rng.uniform(0.1, 9, shape[-1])).astype(dtype)
    status, arrays, err = demo(x=x)
    assert (status, err) == (0, "")
    rows = {r["granularity"]: r.groupdict() for r in arrays[f"x  {dtype} {shape}"]}
    wanted = {"per tensor": expected(x)}
    if len(shape) > 1:
        wanted["per channel"] = expected(x, axis=0)
    wanted["blocks of 32"] = expected(x, axis=-1, block_size=32)
    assert list(rows) == list(wanted)
    for granularity, values in wanted.items():
        assert {k: rows[granularity][k] for k in values} == values
        assert float(rows[granularity]["quant"]) >= 0


@pytest.mark.parametrize(
    "change", [np.asfortranarray, lambda x: x.astype(">f4")], ids=["fortran", "swapped"]
)
def test_layout_changes_nothing(change):
    x = np.random.default_rng(1).standard_normal((40, 50)).astype(np.float32)
    assert [row[:8] for row in _demo.measure(change(x))] == [
        row[:8] for row in _demo.measure(x)
    ]


def test_nothing_is_lost():
    for row in _demo.measure(np.zeros((4, 64), np.float32)):
        assert row[1:6] == (1, 1, np.inf, 0, 0)


def test_nothing_saturates():
    # No float32 scale is as small as 1.4 times the smallest: it is rounded up.
    x = float_of_bits([178, 3, 2, 1])
    (row, _) = _demo.measure(x)
    assert row.scale_min == 2.0**-148
    assert row.saturated == 0
    assert row.error == 2.0**-149


def test_values_near_the_limits_of_float64():
    x = np.array([1.7e308, -1.1e307, 1e308])
    for row in _demo.measure(x):
        assert 0 < row.error <= row.scale_max / 2
        assert 30 < row.sqnr < 70


def test_speed_counts_elements(fast, monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(_demo, "perf_counter", lambda: next(clock))
    (row, _) = _demo.measure(np.ones(500, np.float32))
    assert (row.quantized, row.dequantized) == (500, 500)


def test_the_sample_is_always_the_same():
    first, second = _demo.sample(), _demo.sample()
    assert list(first) == list(second)
    for name, array in first.items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, second[name])


# Arrays that are left out


@pytest.mark.parametrize(
    ("array", "note"),
    [
        (np.arange(3), "int64 (3,): skipped, int64 is not float16, float32 or float64"),
        (np.ones(3, bool), "bool (3,): skipped, bool is not float16, float32 or float64"),
        (np.ones(2, "c8"), "complex64 (2,): skipped, complex64 is not float16, float32 or "
         "float64"),
        (np.float32(3), "float32 (): skipped, a single number"),
        (np.ones((2, 0, 3), "f4"), "float32 (2, 0, 3): skipped, empty"),
        (np.zeros(3, "V2"), "void16 (3,): skipped, raw 2-byte elements; .npy does not keep "
         "bfloat16, save it as float32"),
        (np.float32([[1, 2], [np.nan, np.inf]]), "float32 (2, 2): skipped, expected finite "
         "values, got 2 not finite, the first at index (1, 0)"),
    ],
    ids=["int64", "bool", "complex64", "0-d", "empty", "void2", "not finite"],
)  # fmt: skip
def test_skipped(array, note, demo):
    status, arrays, err = demo(a=array, b=np.ones(2, np.float32))
    assert (status, err) == (0, "")
    assert list(arrays) == [f"a  {note}", "b  float32 (2,)"]
    assert [len(rows) for rows in arrays.values()] == [0, 2]


def test_bfloat16_is_named(demo):
    ml_dtypes = pytest.importorskip("ml_dtypes")  # optional; the types tried are its
    status, arrays, _ = demo(a=np.ones(4, ml_dtypes.bfloat16), b=np.ones(2, np.float32))
    assert status == 0
    assert "save it as float32" in next(iter(arrays))


def test_objects_are_left_out(demo):
    status, arrays, err = demo(a=np.array([{}, None]), b=np.ones(2, np.float32))
    assert (status, err) == (0, "")
    assert list(arrays) == [
        "a: skipped, holds Python objects, which are not loaded",
        "b  float32 (2,)",
    ]


def test_long_and_odd_names(demo):
    names = ["n" * 300, "line\nbreak", "größe"]
    _, arrays, _ = demo(**dict.fromkeys(names, np.ones(2, np.float32)))
    shown = list(arrays)
    assert len(shown[0]) <= 110
    assert shown[0].endswith("  float32 (2,)")
    assert shown[1:] == [r"'line\nbreak'  float32 (2,)", r"'gr\xf6\xdfe'  float32 (2,)"]


# Files that cannot be used


def failure(path, capsys):
    """The one line that a file gets that cannot be used."""
    assert main(["demo", str(path)]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert err.startswith("pyquant demo: ")
    return err.strip().removeprefix("pyquant demo: ")


def test_a_missing_file(tmp_path):
    run = program("demo", "none.npy", cwd=tmp_path)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr == "pyquant demo: none.npy: No such file or directory\n"


def test_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert failure(".", capsys).startswith(".: ")


def saved(save, *arrays):
    """The bytes that NumPy writes."""
    import io

    file = io.BytesIO()
    save(file, *arrays)
    return file.getvalue()


NPY = saved(np.save, np.ones((3, 40), np.float32))
NEGATIVE_SHAPE = NPY.replace(b"(3, 40)", b"(3, -4)")
NPZ = saved(np.savez, np.ones((3, 40), np.float32))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not an array",
        NPY[:4],
        NPY[:30],
        NPY[:-1],
        NEGATIVE_SHAPE,
        NPY.replace(b"(3, 40), }", b"(3, 40, (("),
        NPZ[:100],
        NPZ[:-10],
    ],
    ids=[
        "empty",
        "text",
        "half a magic",
        "half a header",
        "data cut",
        "negative shape",
        "unfinished header",
        "zip cut in a member",
        "zip cut at its end",
    ],
)
def test_a_broken_file(content, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.npy").write_bytes(content)
    if content == NEGATIVE_SHAPE and np.lib.NumpyVersion(np.__version__) < "2.3.0":
        pytest.skip("this NumPy ignores the sign")
    assert failure("x.npy", capsys) == "x.npy: not a .npy or .npz file that NumPy can read"


def test_a_broken_member(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    one = np.float32(1).tobytes()
    (tmp_path / "x.npz").write_bytes(NPZ.replace(one * 9, one * 8 + bytes(4), 1))
    assert failure("x.npz", capsys) == "x.npz: the array arr_0 cannot be read"


def test_objects_only(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.array([{}, None]))
    expected = "x.npy: holds Python objects, which are not loaded"
    assert failure("x.npy", capsys) == expected


@pytest.mark.parametrize("arrays", [{}, {"a": np.arange(3)}, {"a": np.float32(np.nan)}])
def test_no_float_array(arrays, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("x.npz", **arrays)
    assert failure("x.npz", capsys) == "x.npz: no float array that can be quantized"
