"""Test `python -m benchmarks`: forms (kinds of calls), rivals, command line and output."""

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from importlib.util import module_from_spec, spec_from_file_location
from xml.etree import ElementTree

import numpy as np
import pytest
from support import ROOT, same

import pyquant as pq

PACKAGE = ROOT / "benchmarks" / "__init__.py"
if not PACKAGE.exists():  # a source distribution does not contain the folder `benchmarks`
    pytest.skip("needs the checkout", allow_module_level=True)

# import the folder, because the checkout is not on sys.path
if "benchmarks" not in sys.modules:
    spec = spec_from_file_location(
        "benchmarks", PACKAGE, submodule_search_locations=[str(PACKAGE.parent)]
    )
    sys.modules["benchmarks"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["benchmarks"])

MODULES = (
    *("against", "arrays", "chart", "forms", "measure"),
    *("report", "rivals", "runs", "table", "worker"),
)
against, arrays, chart, forms, measure, report, rivals, runs, table, worker = (
    importlib.import_module(f"benchmarks.{name}") for name in MODULES
)
main = importlib.import_module("benchmarks.__main__").main

FORMS = list(forms.FORMS.values())
TASKS = [one for name, one in table.ALL.items() if name not in forms.FORMS]


@pytest.fixture
def bench(monkeypatch, capsys):
    """Return a function that runs `python -m benchmarks` in this process with given
    arguments. The function returns the printed text."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.setattr(measure, "pin", lambda cores: None)
    monkeypatch.setattr(measure, "FOOTPRINTS", (1 << 12,))
    monkeypatch.setattr(measure, "ROUND_SECONDS", 0.0)

    def run(*arguments):
        rivals.judge.cache_clear()
        main(list(arguments))
        return capsys.readouterr().out

    return run


def build(form, size):
    """Return the arrays of a benchmarked call. Skip the test if a type is missing."""
    try:
        return arrays.build(form, size)
    except ImportError as error:
        pytest.skip(str(error))  # ml_dtypes is optional


# The table of forms


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_every_form_runs_at_every_level(form):
    case = build(form, 160)
    results = []
    for isa in arrays.levels(form):
        if case.out is not None:
            case.out[...] = np.ones(1, case.out.dtype)
        results.append(arrays.as_array(arrays.pyquant_call(case, isa)()).copy())
        same(results[-1], results[0])
    arrays_of_call = [case.given, results[0], np.asarray(case.scale)]
    if form.zeros:
        arrays_of_call.append(case.zero)
    if form.offset:
        arrays_of_call.append(np.asarray(case.offset))
    if form.through == "choose":
        del arrays_of_call[1]  # the result is `scale`, which must count only once
    assert case.nbytes == sum(array.nbytes for array in arrays_of_call)


# NumPy has no functions for these rounding modes. The formulas in NumPy round twice.
TIES = [mode for mode in forms.MODES if mode.startswith("half_") and mode != "half_even"]
EXACT = [form for form in FORMS if form.rounding not in (*TIES, "stochastic")]


@pytest.mark.parametrize("form", EXACT, ids=lambda form: form.name)
def test_numpy_agrees_where_it_has_the_form(form):
    case = build(form, 160)
    arrays.fill_hard(case)
    expected = arrays.as_array(arrays.pyquant_call(case, pq.isa.active())()).copy()
    for name in ("numpy", "ml_dtypes"):
        try:
            found = rivals.RIVALS[name].build(case)
        except ImportError:  # this rival needs a package that is not installed
            continue
        if found is not None:
            assert rivals.differing(found.read(found.call()), expected) == 0


@pytest.mark.parametrize("form", ["i16-f32-cf", "f32-i16-cf", "f32-i16-inverse"])
def test_rivals_with_equal_bits(form):
    name = "numcodecs" if "inverse" in form else "xarray"
    pytest.importorskip(name)  # a rival
    rivals.judge.cache_clear()
    assert rivals.judge(rivals.RIVALS[name], forms.FORMS[form]) == (rivals.SAME, 0.0)


def test_affine_forms_have_fills_layouts_and_ranges():
    decoded = build(forms.FORMS["i16-f32-cf"], 1000)
    assert (decoded.x == forms.CF_FILL).sum() == 16
    assert np.isnan(build(forms.FORMS["f32-i16-cf"], 1000).x).sum() == 16
    image = build(forms.FORMS["u8-f32-image"], 1 << 12)
    assert image.x.shape == image.out.shape == (3, 1, 1024)
    assert (image.x.strides, image.out.strides) == ((1, 3072, 3), (4096, 4096, 4))
    fitting = build(forms.FORMS["f32-i8-axis-raise"], 1 << 20)
    codes = arrays.pyquant_call(fitting, pq.isa.active())()
    assert (codes.min(), codes.max()) == (-128, 127)
    wild = build(forms.FORMS["f32-i8-wrap"], 1 << 14)
    assert abs(wild.x / wild.scale).max() > 128


def test_short_names_are_stable():
    """Short names of types must not change, because they identify stored results."""
    kept = "bfloat16 uint16 int4 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float4_e2m1fn"
    short = " ".join(forms.SHORT[name] for name in kept.split())
    assert short == "bf16 u16 i4 e4m3 e4m3fnuz e5m2 f4"
    assert len(set(forms.SHORT.values())) == len(forms.SHORT)


def test_names_of_forms_begin_with_their_types():
    for form in FORMS:
        source, target = form.name.split("-")[:2]
        assert (forms.SHORT[form.source], forms.SHORT[form.target]) == (source, target)
    assert {form.rounding for form in FORMS} == set(forms.MODES)
    assert {(form.source, form.target) for form in FORMS} == {
        pair for r in forms.REALS for c in forms.CODES for pair in ((r, c), (c, r))
    }


@pytest.mark.parametrize("size", [1, 48, 49, 1000])
@pytest.mark.parametrize("granularity", arrays.GRANULARITIES)
def test_any_size_has_a_shape(granularity, size):
    form = forms.FORMS["f32-i8"]._replace(granularity=granularity)
    case = arrays.build(form, size)
    assert 0 < case.elements <= max(size, 196)
    assert arrays.pyquant_call(case, "scalar")() is case.out


# Names of rivals, and names of the tasks with results that equal pyquant's bit for bit.
EQUAL = {
    "numpy": "dynamic-i8-rows observe-extremes requantize-float32 requantize-fbgemm "
    "quantize-nf4 dequantize-fp4_bnb quantize-dynamic8 quantize-gptq dequantize-gptq "
    "quantize-awq dequantize-awq dequantize-matmulnbits quantize-compressed_tensors",
    "onnxruntime": "requantize-float32 quantize-matmulnbits",
    "gguf": "decode-Q4_K encode-Q8_0",
    "libgguf": " ".join(task.name for task in TASKS if task.groups == ("blocks",)),
    "torch": "mxfp4 nvfp4",
    "bitsandbytes": "quantize-bitsandbytes-nf4 dequantize-bitsandbytes-nf4",
    "compressed_tensors": "quantize-compressed_tensors dequantize-compressed_tensors",
    "mlx": "quantize-mlx dequantize-mlx",
}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_every_task_runs_beside_its_rivals(task):
    if task.name.startswith(("mxfp", "nvfp")):
        pytest.importorskip("ml_dtypes")  # skips the task without the types of the scales
    made = task.build(1 << 14)
    assert 0 < made.elements <= 1 << 14
    assert made.nbytes > made.elements
    expected = made.read(made.call()).copy()
    if made.two_calls is not None:
        same(np.asarray(made.two_calls()), expected)
    for name, make in made.rivals.items():
        assert name in rivals.RIVALS
        try:
            found = rivals.quietly(make)
        except ImportError:  # the package of the rival is not installed
            continue
        verdict = rivals.verdict(found, expected)
        assert verdict.mark in (rivals.SAME, rivals.OTHER_BITS)
        if task.name in EQUAL.get(name, "").split():
            assert verdict == (rivals.SAME, 0.0), name


# The command line


def test_the_group_of_parameters_has_forms_and_tasks(bench):
    chosen = table.select(["parameters"])
    others = [one for one in TASKS if one.groups == ("parameters",)]
    assert {one.name for one in others} < {one.name for one in chosen}
    assert "f32-i8-stochastic" in [one.name for one in chosen]
    some = "f32-i8-stochastic,fake-i8,requantize-float32"
    text = bench("--forms", some, "--sizes", "4096", "--rounds=1", "--rivals=numpy")
    head, *rows = text.split("\n\n")[1].splitlines()
    assert head.split()[6:] == [
        *pq.isa.available(), "2-calls", "numpy", "same", "bits", "other", "bits", "cast"
    ]  # fmt: skip
    assert [row.split()[0] for row in rows] == some.split(",")


def run_in_checkout(*arguments, **options):
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=ROOT, text=True, timeout=300, **options)


def test_program_lists_every_form():
    run = run_in_checkout("-m", "benchmarks", "--list", capture_output=True)
    assert run.returncode == 0, run.stderr
    assert [line.split()[0] for line in run.stdout.splitlines()] == ["form", *table.ALL]


@pytest.mark.skipif(sys.platform == "win32", reason="not a BrokenPipeError on Windows")
def test_program_ends_quietly_if_its_reader_closes_the_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    run = run_in_checkout(
        "-m", "benchmarks", "--list", stdout=writer, stderr=subprocess.PIPE
    )
    os.close(writer)
    assert (run.returncode, run.stderr) == (1, "")


def test_rivals_are_imported_lazily():
    code = (
        "import sys; from benchmarks.rivals import RIVALS; "
        "print(*{rival.package for rival in RIVALS.values()} & set(sys.modules))"
    )
    run = run_in_checkout("-c", code, capture_output=True)
    assert run.stdout.split() == ["numpy"], run.stderr


@pytest.mark.parametrize(
    ("option", "value", "got", "known"),
    [
        ("--forms", "f32-i8,f32-i9", "'f32-i9'", ["f32-i8-axis", "granularities"]),
        ("--forms", "", "''", ["f32-i8-axis"]),
        ("--sizes", "64,0", "'0'", ["1024", "65536"]),
        ("--sizes", "1e6", "'1e6'", ["65536"]),
        ("--sizes", "", "''", ["65536"]),
        ("--rivals", "numpy,torsch", "'torsch'", list(rivals.RIVALS)),
        ("--rounds", "-1", "'-1'", []),
        ("--against", "python4", "'python4'", []),
    ],
)
def test_bad_input_lists_accepted_names(bench, capsys, option, value, got, known):
    with pytest.raises(SystemExit) as exit_:
        bench(f"{option}={value}")
    assert exit_.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert f"argument {option}: expected " in last
    assert last.endswith(f"got {got}")
    assert all(name in last for name in known)


# Output

SMALL = ("--forms", "f32-i8", "--sizes", "64", "--rounds", "1")


def test_json_and_markdown(bench, tmp_path):
    files = "--json", str(tmp_path / "a.json"), "--markdown", str(tmp_path / "a.md")
    text = bench(*SMALL, "--rivals", "numpy", *files)
    report = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert report["machine"]["packages"]["numpy"] == np.__version__
    assert all(report["machine"][key] for key in ("cpu", "os", "compiler", "date"))
    assert [row["bytes"] for row in report["bandwidths"]] == [1 << 12]
    (row,) = report["rows"]
    assert (row["form"], row["elements"], row["bytes"]) == ("f32-i8", 64, 328)
    assert list(row["seconds"]) == [*pq.isa.available(), "numpy"]
    assert list(row["spread"]) == list(row["seconds"])
    assert row["differs"] == {"numpy": 0.0}
    assert row["roofline_seconds"] > 0
    best = row["seconds"][pq.isa.available()[0]]
    assert row["gb_per_second"] == 328 / best / 1e9
    assert row["fastest_rival"]["same bits"]["name"] == "numpy"
    page = (tmp_path / "a.md").read_text("utf-8")
    assert "| f32-i8 | 64 |" in page
    for line in (text, page):
        assert f"pyquant {pq.__version__}" in line


def test_the_tables_of_the_documentation_have_the_columns_of_a_table():
    """Each file in docs/tables has the columns and the legend that --markdown writes."""
    pages = sorted((ROOT / "docs" / "tables").glob("*.md"))
    assert len(pages) == 6
    (known,) = report.cells([])
    levels = ["avx512", "avx2", "scalar"]
    order = [*levels, rivals.ONE_THREAD.name, "2-calls", *rivals.RIVALS]
    legend = "".join(f"- `{mark}` {text}\n" for mark, text in rivals.LEGEND.items())
    for page in pages:
        text = page.read_text("utf-8")
        assert re.match(
            r"```\n.*; \d{4}-\d\d-\d\d\npyquant .*\n.*\npython -m benchmarks ", text
        )
        assert legend in text
        titles, _, *rows = re.findall(r"^\| (.*) \|$", text, re.MULTILINE)
        first, names, last = (titles := titles.split(" | "))[:6], titles[6:-3], titles[-3:]
        assert first + last == known
        assert names == [name for name in order if name in names]
        for row in rows:
            assert row.partition(" | ")[0] in table.ALL
            assert row.count(" | ") == len(titles) - 1


def fail(*arguments):
    raise RuntimeError("no such kernel\nand more")


def reciprocal(case):
    scale = np.float32(1) / case.spread
    return rivals.Candidate(
        lambda: np.clip(np.rint(case.x * scale), -128, 127).astype(np.int8)
    )


def missing(form, size):
    raise ImportError("dtype: int4 needs ml_dtypes")


def test_notes_of_rivals_and_forms(bench, monkeypatch):
    """The table marks rivals with an error, other bits or a missing type, and a note names
    a rival that is not installed."""
    for name in ("onnxruntime", "onnx"):
        monkeypatch.setitem(sys.modules, name, None)
    text = bench(*SMALL, "--rivals", "numpy,onnxruntime")
    head = text.split("\nform")[1].splitlines()[0]
    assert "\nonnxruntime: not installed (" in text
    assert ("numpy" in head, "onnxruntime" in head) == (True, False)
    torch = rivals.RIVALS["torch"]
    monkeypatch.setitem(rivals.RIVALS, "torch", torch._replace(build=fail))
    text = bench(*SMALL, "--rivals", "torch")
    assert "\ntorch: RuntimeError: no such kernel [f32-i8]" in text
    monkeypatch.setitem(rivals.RIVALS, "torch", torch._replace(build=reciprocal))
    rows = bench(*SMALL, "--rivals", "torch").splitlines()
    assert "~" in next(row for row in rows if row.startswith("f32-i8"))
    monkeypatch.setattr(arrays, "build", missing)
    assert "needs ml_dtypes) [f32-i8]" in bench(*SMALL, "--rivals=")


def test_compact_measures_one_size(bench):
    text = bench("--compact", "--forms", "f32-i8,f32-i8-one", "--rounds", "1")
    rows = [line.split() for line in text.splitlines() if line.startswith("f32-i8")]
    assert [row[0] for row in rows] == ["f32-i8", "f32-i8-one"]
    assert [row[1] for row in rows] == ["64", "1"]


def test_plots(bench, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "matplotlib", None)
        text = bench(*SMALL, "--rivals=", "--plots", str(tmp_path))
        assert "\nplots: not drawn (" in text
    pytest.importorskip("matplotlib")  # optional
    sizes = ("--forms", "f32-i8,f32-i8-axis", "--sizes", "64,128", "--rounds", "1")
    bench(*sizes, "--rivals", "numpy", "--plots", str(tmp_path))
    drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(drawn) == {"throughput-design.png", "roofline.png"}
    assert all(image.startswith(b"\x89PNG") for image in drawn.values())


@pytest.mark.skipif(sys.platform == "win32", reason="needs the module resource")
def test_checkpoint_measures_every_form(tmp_path, capsys):
    checkpoint = importlib.import_module("benchmarks.checkpoint")
    checkpoint.main([str(tmp_path), "--gib", "0.02", "--runs", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[2:]] == list(checkpoint.FORMS)
    assert not list(tmp_path.iterdir())


def test_clipping_draws_a_picture(tmp_path):
    pytest.importorskip("matplotlib")  # skips the test without the package
    clipping = importlib.import_module("benchmarks.clipping")
    clipping.main([str(tmp_path / "clipping.png")])
    assert (tmp_path / "clipping.png").read_bytes().startswith(b"\x89PNG")


# The chart of README.md

SVG = "{http://www.w3.org/2000/svg}"


def row_of(form, rates, marks):
    """Return a row of results with the given rates in 10⁹ elements a second. The rate of a
    copy is 0.5 * 10⁹."""
    n, seconds = 10**9, {name: 1 / rate for name, rate in rates.items()}
    return runs.Row(form, "chart", n, 5 * n, 2.0, seconds, {}, marks, {})


def results_of(*rows):
    return report.Results(list(rows), [], {}, report.machine())


def test_chart_draws_bars_in_proportion_and_marks_other_codes():
    rates = {"avx2": 2.0, "numpy": 0.125, "torch": 0.5, "torch_eager": 0.25}
    row = row_of("f32-i8", rates, {"torch": "~", "torch_eager": "", "numpy": ""})
    own, numpy, torch, onnxruntime, copy = chart.bars(row)
    assert own == ("pyquant", 2.0, "own", "")
    assert numpy == ("NumPy", 0.125, "rival", "")
    assert torch == ("PyTorch", 0.5, "rival", "≠")
    assert onnxruntime == ("ONNX Runtime", None, "rival", "")
    assert copy == ("plain copy", 0.5, "copy", "")
    drawn = ElementTree.fromstring(chart.svg(results_of(row), chart.COLORS["light"]))
    widths = [float(bar.get("width")) for bar in drawn.iter(f"{SVG}rect")]
    full = chart.WIDTH - chart.LEFT - chart.RIGHT
    assert widths == [full, full / 16, full / 4, 0, full / 4]
    kinds = [bar.get("class") for bar in drawn.iter(f"{SVG}rect")]
    assert kinds == ["own", "rival", "rival differs", "rival", "copy"]
    assert "PyTorch 0.5 ≠, ONNX Runtime not available" in drawn.find(f"{SVG}desc").text
    texts = [text.text for text in drawn.iter(f"{SVG}text")]
    assert {"0.5 ≠", "not available", "float32 → int8, one scale"} < set(texts)


def test_chart_measures_its_forms_and_writes_two_files(bench, tmp_path):
    bench("--chart", str(tmp_path), "--sizes=64", "--rounds=1", "--rivals=numpy")
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["readme-dark.svg", "readme-light.svg"]
    light, dark = (
        (tmp_path / f"readme-{name}.svg").read_text("utf-8") for name in ("light", "dark")
    )
    assert all(title in light for title in chart.TITLES.values())
    for ours, theirs in zip(*chart.COLORS.values(), strict=True):
        light = light.replace(ours, theirs)
    assert light == dark
    assert {form.name for form in table.select(["chart"])} == set(chart.TITLES)


# The figures of README.md


def test_readme_gives_the_share_of_wrong_codes(monkeypatch):
    monkeypatch.setattr(measure, "ROUND_SECONDS", 0.0)
    reason = importlib.import_module("benchmarks.reason")
    monkeypatch.setattr(reason, "ROUNDS", 1)
    codes, timings = reason.measured()
    assert set(codes) == set(timings)
    wrong = (codes.pop("NumPy, usual line") != codes["pyquant"]).mean()
    assert f"{100 * wrong:.1f} % of the codes" in reason.README.read_text("utf-8")
    expected = reason.example()["codes"].reshape(-1)
    for name, found in codes.items():  # ONNX Runtime, if it is installed
        np.testing.assert_array_equal(found, expected, name)


# Two installations


def test_against_prints_ratios_and_their_geometric_mean(bench):
    names = ["f32-i8", "f32-i8-one", "fake-i8"]
    some = ("--forms", ",".join(names), "--sizes", "64", "--rounds", "3")
    text = bench("--against", sys.executable, *some)
    rows = [line.split() for line in text.split("\n\n")[1].splitlines()]
    assert rows[0] == ["form", "elements", "this", "other", "ratio", "±"]
    assert [row[:2] for row in rows[1:]] == [[name, "64"] for name in names]
    ratios = np.array([float(row[-2]) for row in rows[1:]])
    mean = float(re.search("geometric mean of 3 ratios: (.*)", text)[1])
    # The printed ratios are rounded to three decimal places.
    error = 0.0005 * (1 + ratios.max() / ratios.min())
    assert abs(mean - np.exp(np.log(ratios).mean())) <= error
    slowest = re.findall("^slowest: (.*), 64, (.*)$", text, re.MULTILINE)
    assert [float(ratio) for _, ratio in slowest] == sorted(ratios)
    assert re.search(rf"^other: pyquant {re.escape(pq.__version__)} in /", text, re.M)
    assert "different results" not in text
    assert "absent" not in text


def test_against_compares_times_and_results():
    def ask(seconds, checksum):
        made = {"times": 2, "checksum": checksum}
        return lambda request: {"seconds": seconds} if "times" in request else made

    row = against._compare(ask(2e-3, 1), ask(3e-3, 7), "f32-i8", 64, 3)
    assert [timing.median for timing in row.timings] == [2e-3, 3e-3, 1.5]
    text = against.page([row], [])
    assert "geometric mean of 1 ratios: 1.500" in text
    assert "different results: f32-i8, 64, 1.500" in text


def test_against_lists_a_form_that_one_installation_lacks(monkeypatch):
    monkeypatch.setattr(measure, "pin", lambda cores: None)
    monkeypatch.setattr(measure, "ROUND_SECONDS", 0.0)
    monkeypatch.setitem(sys.modules, "benchmarks.tasks.fused", None)
    ask = worker._Worker().reply
    absent = against._compare(ask, ask, "fake-i8", 64, 1)
    assert absent.absent == "this: LookupError: fake-i8; other: LookupError: fake-i8"
    present = against._compare(ask, ask, "requantize-float32", 64, 1)
    text = against.page([absent, present], [])
    assert "geometric mean of 1 ratios" in text
    assert f"absent: fake-i8, 64 ({absent.absent})" in text


@pytest.mark.skipif(shutil.which("true") is None, reason="needs the program `true`")
def test_against_reports_a_worker_that_ends(bench):
    with pytest.raises(SystemExit, match="true: the worker ended at the request"):
        bench("--against", shutil.which("true"), *SMALL)


# Measurement


def test_differing_counts_unequal_bits():
    a = np.float32([1, 2, 3, 4])
    assert rivals.differing(a, a) == 0
    assert rivals.differing(np.float32([1, 2, 3, 5]), a) == 0.25
    assert rivals.differing(np.float32([-0.0]), np.float32([0.0])) == 1
    assert rivals.differing(a[:3], a) is None


def test_calls_take_turns():
    order = []
    calls = {name: (lambda name=name: order.append(name)) for name in "abc"}
    timings = measure.interleaved(calls, rounds=4, round_seconds=0.0)
    assert "".join(order).endswith("abcbcacababc")
    assert all(t.median > 0 and t.spread >= 0 for t in timings.values())
    assert measure.summary([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, 2 / 3)


def test_mixed_excludes_the_pause_from_the_time(bench, monkeypatch):
    monkeypatch.setattr(measure, "PAUSE_SECONDS", 1e-3)
    began = []
    calls = {"a": lambda: began.append(time.perf_counter())}
    timing = measure.interleaved(calls, rounds=9, round_seconds=0.0, mixed=True)["a"]
    apart = np.diff(began[-9:])
    assert (apart >= 1e-3).all()
    assert timing.median < 1e-3  # the measured time excludes the pause
    assert "f32-i8" in bench(*SMALL, "--rivals=", "--mixed")


def test_layouts_have_offsets_and_strides():
    case = arrays.build(forms.FORMS["i8-f32-line16"], 1000)
    assert [array.ctypes.data % 64 for array in (case.x, case.out)] == [16, 16]
    case = arrays.build(forms.FORMS["f32-i8-records32"], 1024)
    assert (case.x.strides, case.out.strides) == ((132, 4), (36, 1))


def test_fresh_results_are_fresh():
    case = arrays.build(forms.FORMS["i8-f32-fresh"], 64)
    call = arrays.pyquant_call(case, pq.isa.active())
    assert call() is not call()
