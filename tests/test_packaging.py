"""Tests of the installed package: metadata, files, exported symbols and imports."""

import importlib.metadata
import importlib.resources
import inspect
import pydoc
import re
import shutil
import subprocess
import sys
import traceback
from operator import attrgetter
from pathlib import Path

import public_calls
import pytest
from support import ROOT, run_python

import pyquant as pq
from pyquant import _core
from pyquant.weights.blocks import BlockFormat, block_format

# Modules that import an optional package.
OF_OTHERS = ("pyquant.integrations.dask", "pyquant.integrations.zarr")
MODULES = {module.__name__: module for module in public_calls.public_modules()}
del MODULES["pyquant.cli"]  # only the command imports this module
LAZY = re.compile(
    r"pyquant\.(cli|com_microsoft|integrations|ngraph|observe|onednn|onnx|openvino|report|"
    r"weights)\b.*"
)
DISTRIBUTION = "pyquant-simd"  # on PyPI, `pyquant` is a different project


def test_the_installed_package_is_tested():
    folder = Path(pq.__file__).resolve().parent
    assert folder != ROOT / "pyquant"
    assert Path(_core.__file__).resolve().parent == folder


def test_version():
    assert pq.__version__ == importlib.metadata.version(DISTRIBUTION)
    numbers = pq.__version__.split(".")
    assert len(numbers) >= 3
    assert all(n.isdigit() for n in numbers[:2])


def test_metadata():
    metadata = importlib.metadata.metadata(DISTRIBUTION)
    assert metadata["Name"] == DISTRIBUTION
    assert metadata["License-Expression"] == "Apache-2.0 AND MIT"
    assert set(metadata.get_all("License-File")) == {"LICENSE", "NOTICE"}
    assert metadata["Requires-Python"] == ">=3.11"
    needed = importlib.metadata.requires(DISTRIBUTION) or []
    needed = [r for r in needed if "extra ==" not in r]
    assert [r.split(">")[0].strip() for r in needed] == ["numpy"]


def test_links_of_the_description_are_absolute():
    """Links must be absolute and pictures must be raw files to work on a package index."""
    metadata = importlib.metadata.metadata(DISTRIBUTION)
    urls = dict(label.split(", ") for label in metadata.get_all("Project-URL"))
    assert set(urls) == {"Homepage", "Documentation", "Source", "Changelog", "Issues"}
    assert all(url.startswith(urls["Source"]) for url in urls.values())
    assert metadata["Description-Content-Type"] == "text/markdown"
    # After an import of the backport importlib_metadata, the description is a header.
    text = metadata.get_payload() or metadata["Description"]
    links = re.findall(r"(!?)\[[^]]*\]\(([^)\s]+)\)|(src)(?:set)?=\"([^\"]+)\"", text)
    kinds = {"raw": set(), "blob": set()}
    for mark, target, source, picture in links:
        kinds["raw" if mark or source else "blob"].add(target or picture)
    for kind, targets in kinds.items():
        files = f"{urls['Source']}/{kind}/v{pq.__version__}/"
        relative = {target for target in targets if not target.startswith("#")}
        assert len(relative) > 2
        assert all(target.startswith(files) for target in relative), relative
        text = text.replace(files, "")
    assert text == (ROOT / "README.md").read_text("utf-8")
    # Declare only systems that run the tests.
    systems = [c for c in metadata.get_all("Classifier") if c.startswith("Operating")]
    assert systems == ["Operating System :: POSIX :: Linux"]


def test_nothing_asks_an_index_for_the_other_project():
    files = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/*/*.toml"),
    ]
    files += [*ROOT.glob(".github/*/*.yml"), *ROOT.glob(".ci/*/*")]
    files += [path for path in ROOT.glob(".ci/*") if path.is_file()]
    wrong = r'pip install pyquant(?!-simd)|[/"]pyquant-[*\d]|project/pyquant/|, "pyquant"\]'
    wrong += r'|= \["pyquant"|pyquant\.egg-info'
    for file in files:
        assert not re.findall(wrong, file.read_text("utf-8")), file


def test_tests_that_the_checks_name_exist():
    """Check that tests exist if scripts or workflows name them, also as test_{a,b}.py."""
    files = [*ROOT.glob(".ci/*"), *ROOT.glob(".github/workflows/*")]
    text = "\n".join(path.read_text("utf-8") for path in files if path.is_file())
    text = re.sub(
        r"(\S*test_)\{([\w,]+)\}(\S*)",
        lambda found: " ".join(found[1] + name + found[3] for name in found[2].split(",")),
        text,
    )
    names = re.findall(r"(?<![\w.])((?:test|check|fuzz)_\w+\*?)(?:\.py::(\w+))?", text)
    names += [(name, "") for name in re.findall(r"\btests/(\w+)\.py", text)]
    missing = []
    for name, function in dict.fromkeys(names):
        found = [*ROOT.glob(f"tests/{name}.py"), *ROOT.glob(f"tests/c/{name}.c")]
        texts = [path.read_text("utf-8") for path in found]
        if not any(f"def {function}(" in one or not function for one in texts):
            missing.append((name, function))
    assert not missing
    assert len(names) > 200 or not files  # tests of wheels run without .ci


def test_pages_and_messages_name_extras_as_the_index_does():
    """Spell extras exactly, because pip 23.2 does not find `ml_dtypes` as `ml-dtypes`."""
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("pyquant/**/*.py")]
    pattern = r"(?:pyquant-simd|[\"'].)\[([a-z][\w,-]*)\][\"'`]"
    named = re.findall(pattern, "".join(file.read_text("utf-8") for file in files))
    extras = importlib.metadata.metadata(DISTRIBUTION).get_all("Provides-Extra")
    assert len(named) > 5
    assert set(",".join(named).split(",")) <= set(extras)


def test_files():
    folder = importlib.resources.files("pyquant")
    assert folder.joinpath("py.typed").is_file()
    assert folder.joinpath("_core.pyi").is_file()
    files = importlib.metadata.files(DISTRIBUTION) or []
    names = [Path(str(f)) for f in files]
    assert sum(f.size or 0 for f in files) < 5e6  # README.md states this limit
    assert not {n.suffix for n in names} & {".c", ".inc", ".pyx", ".pxi"}
    assert sorted(n.name for n in names if n.suffix in {".h", ".pxd"}) == [
        "__init__.pxd",
        "pq.h",
        "pyquant.h",
    ]


def test_public_names():
    names = (
        *("ErrorReport", "Layout", "Observer", "PackedArray", "QParams", "RoundMode"),
        *("__version__", "pack_signs", "unpack"),
        *("calibrate", "choose_qparams", "com_microsoft", "dequantize", "dtypes"),
        *("dynamic_quantize", "fake_quantize", "integrations", "isa", "measure_error"),
        *("ngraph", "onednn", "onnx", "open_weights", "openvino", "pack"),
        *("qparams_from_range", "quantize", "requantize", "weights", "write_weights"),
    )
    assert sorted(pq.__all__) == sorted(names)
    code = "import pyquant; [getattr(pyquant, name) for name in pyquant.__all__]"
    assert run_python(code).returncode == 0


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_completion_offers_public_names_only(module):
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, public) for public in dir(module))
    documented = pydoc.plain(pydoc.render_doc(module))
    assert all(public in documented for public in dir(module) if public != "__version__")


# Each function with the names of its positional parameters. The rest is keyword-only.
PLACES = {
    "quantize": (pq.quantize, ["x", "scale", "zero_point"]),
    "dequantize": (pq.dequantize, ["q", "scale", "zero_point"]),
    "choose_qparams": (pq.choose_qparams, ["x"]),
    "qparams_from_range": (pq.qparams_from_range, ["lo", "hi"]),
    "QParams": (pq.QParams, ["scale", "zero_point", "dtype"]),
    "QParams.quantize": (pq.QParams.quantize, ["self", "x"]),
    "QParams.dequantize": (pq.QParams.dequantize, ["self", "q"]),
    "pack": (pq.pack, ["codes", "layout"]),
    "PackedArray": (pq.PackedArray, ["data", "dtype", "shape"]),
    "from_buffer": (pq.PackedArray.from_buffer, ["buffer", "dtype", "shape"]),
    "repack": (pq.PackedArray.repack, ["self", "layout"]),
    "open_weights": (pq.open_weights, ["path"]),
    "write_weights": (pq.write_weights, ["path", "weights"]),
    "StoredTensor.dequantize": (pq.weights.files.StoredTensor.dequantize, ["self", "rows"]),
    "block_format": (block_format, ["format"]),
    "BlockFormat.dequantize": (BlockFormat.dequantize, ["self", "b"]),
    "BlockFormat.quantize": (BlockFormat.quantize, ["self", "x"]),
}


@pytest.mark.parametrize(("function", "places"), PLACES.values(), ids=PLACES)
def test_options_have_names(function, places):
    parameters = inspect.signature(function).parameters.values()
    options = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    assert [one.name for one in parameters] == places + options


def test_one_exported_symbol():
    if not shutil.which("nm") or sys.platform != "linux":
        pytest.skip("there is no nm here")
    run = subprocess.run(
        ["nm", "-D", "--defined-only", _core.__file__],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {line.split()[-1] for line in run.stdout.splitlines()}
    assert names - {"_init", "_fini", "_edata", "_end", "__bss_start"} == {"PyInit__core"}


def test_tracebacks_name_the_lines_of_the_extension():
    with pytest.raises(TypeError) as caught:
        pq.quantize("text", 1.0)
    frames = traceback.extract_tb(caught.value.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename.endswith(".pxi")]
    assert len(lines) > 1
    assert all(lines)


def imported_by(code):
    """Run code in a new interpreter. Return the modules that it imports, except NumPy's."""
    probe = (
        "import sys, numpy; before = set(sys.modules)\n"
        f"{code}\nprint(*sorted(set(sys.modules) - before))"
    )
    run = run_python(probe)
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


def test_importing_pyquant_imports_no_slow_modules():
    modules = imported_by("import pyquant")
    others = [m for m in modules if m.split(".")[0] not in ("pyquant", "cython_runtime")]
    others = [m for m in others if not m.startswith("_cython_")]
    slow = {
        "ml_dtypes",
        "importlib.metadata",
        "concurrent.futures",
        "multiprocessing",
        "logging",
    }
    assert not slow & set(others), others


def test_lazy_modules_are_imported_on_first_use():
    """`import pyquant` does not import standards, weights, integrations or statistics."""
    assert not list(filter(LAZY.match, imported_by("import pyquant; dir(pyquant)")))
    names = [name for name in MODULES if LAZY.match(name) and name not in OF_OTHERS]
    assert len(names) == 22
    code = "import pyquant as pq; pq.weights.mx; pq.integrations.tflite"
    found = set(filter(LAZY.match, imported_by(code)))
    assert {"pyquant.weights.mx", "pyquant.integrations.tflite"} < found
    assert not found & {"pyquant.weights.gptq", "pyquant.integrations.cf", "pyquant.cli"}
    for name in names:
        assert attrgetter(name.removeprefix("pyquant."))(pq) is MODULES[name]
    for owner, name in (pq, "_mx"), (pq, "zarr2"), (pq.weights, "files_"), (pq, "gptq"):
        with pytest.raises(
            AttributeError, match=rf"^module '{owner.__name__}' has no attr"
        ):
            getattr(owner, name)


def test_ml_dtypes_is_not_imported_by_calls():
    code = """
import numpy as np, pyquant as pq
q = pq.quantize(np.ones(9, np.float16), 0.5)
pq.dequantize(q, 0.5, dtype="float16")
pq.choose_qparams(np.ones(9, np.float32))
"""
    assert "ml_dtypes" not in imported_by(code)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["-U__FLT_EVAL_METHOD__", "-D__FLT_EVAL_METHOD__=1"], "excess precision"),
        (["-U__FLT_EVAL_METHOD__", "-D__FLT_EVAL_METHOD__=2"], "excess precision"),
        (["-ffast-math"], "-ffast-math changes results"),
    ],
    ids=["float-as-double", "x87", "fast-math"],
)
def test_compilers_that_would_change_results_are_refused(flags, says):
    """With excess precision, as on x87 and s390x, the kernels would round twice."""
    compiler = shutil.which("gcc")
    source = ROOT / "csrc" / "scalar" / "kernels_scalar.c"
    if compiler is None or not source.exists():
        pytest.skip("no gcc, or no checkout")
    command = [compiler, "-std=c11", "-fsyntax-only", f"-I{ROOT / 'csrc'}", str(source)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    refused = subprocess.run(
        [*command, *flags], capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert says in refused.stderr
