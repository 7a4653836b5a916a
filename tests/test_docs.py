"""Run the examples of docstrings and pages, and check links and tables."""

import doctest
import importlib
import json
import os
import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import get_args

import numpy as np
import public_calls
import pytest
from support import ROOT

import pyquant
from pyquant._typing import Like
from pyquant.cli import main
from pyquant.packed import LAYOUTS

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
# The keys are packages. An example needs a package if the pattern matches its text.
NEEDS = {
    "onnx": r"import onnx|reference_ops",
    "openvino": r"import openvino",
    "ml_dtypes": r"ml_dtypes|float[468]_|nvfp4|mx\.",
    "torch": r"import torch",
    "dask": r"import dask|integrations\.dask",
    "sklearn": "from sklearn",
    "xarray": r"import xarray",
    "scipy": r"engine=\"scipy\"",
    "distributed": r"dask\.distributed",
    "zarr": r"import zarr|integrations\.zarr",
    "cast_value_rs": r"import cast_value_rs",
}


def skip_without_needed_packages(text):
    for package, words in NEEDS.items():
        if re.search(words, text):
            # skips the example without the package; .ci/run installs all packages
            pytest.importorskip(package)


def documented():
    """Return the public functions, classes and methods by name, without the commands, which
    have no examples."""
    names = dict(public_calls.public())
    return {
        name: one
        for name, one in names.items()
        if not isinstance(one, property) and not name.startswith("cli.")
    }


@pytest.mark.parametrize(("name", "made"), documented().items(), ids=documented())
def test_docstring(name, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for the files that examples write
    skip_without_needed_packages(made.__doc__.partition("Examples\n")[2])
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(made, name, globs={})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_examples_of_the_codec_of_zarr():
    """The examples of the codec's methods run. The test test_docstring does not find these
    examples, because only zarr calls the methods."""
    skip_without_needed_packages("import zarr, import cast_value_rs")
    found = doctest.testmod(importlib.import_module("pyquant.integrations.zarr"))
    assert found.attempted > 5
    assert found.failed == 0


def sections():
    """Yield the page, the title and the text of each section with examples."""
    for page in PAGES:
        parts = re.split(r"^## ", page.read_text("utf-8"), flags=re.MULTILINE)
        for text in parts:
            if "```python\n" in text:
                title = text.partition("\n")[0].lstrip("# ")
                name = f"{page.relative_to(ROOT)}-{title}".replace(" ", "-")
                yield pytest.param(page, title, text, id=name)


@pytest.mark.parametrize(("page", "title", "text"), list(sections()))
def test_page(page, title, text, tmp_path, monkeypatch):
    """Run a section as one session: prompts and results, or a program and its output."""
    monkeypatch.chdir(tmp_path)  # for the files that examples write
    pattern = r"^```python\n(.*?)^```$(?:\s+prints\s+^```\n(.*?)^```$)?"
    blocks = re.findall(pattern, text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == text.count("```python\n")
    session = "\n".join(code for code, _ in blocks if code.startswith(">>>"))
    skip_without_needed_packages("\n".join(code for code, _ in blocks))
    if re.search("LocalCluster|import torch", text) and "PYQUANT_EMULATED" in os.environ:
        pytest.skip("too much for an emulated processor")
    if "'avx512'" in session and pyquant.isa.active() != "avx512":
        pytest.skip("the example is of another instruction set")
    names = {}
    for code, prints in blocks:
        if not code.startswith(">>>"):
            with redirect_stdout(StringIO()) as printed:
                exec(code, names)
            assert printed.getvalue() == prints
    test = doctest.DocTestParser().get_doctest(session, names, title, str(page), 0)
    assert doctest.DocTestRunner().run(test).failed == 0


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_with_dependency_groups_name_the_version_of_pip(page):
    """Pages with `pip install --group` state that pip 25.1 is needed, because the pip of
    Python 3.11 has no dependency groups."""
    text = page.read_text("utf-8") if page.exists() else ""
    assert "pip install --group" not in text or re.search(r"pip(>=| )25\.1", text)


def test_the_corner_cases_of_the_semantics():
    section = (DOCS / "semantics" / "special-values.md").read_text("utf-8")
    names = {}
    exec(re.search(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[1], names)
    rows = re.findall(r"^\|.*\| `(.*)` \| `(.*)` \|$", section, re.MULTILINE)
    assert len(rows) == section.count("\n|") - 2
    for call, result in rows:
        assert str(eval(call, names).tolist()) == result, call


def prose(page):
    """Return a page without examples, which may look like links and headings."""
    text = page.read_text("utf-8")
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Yield the anchors of the headings of a page, on code hosts and on the site."""
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda p: str(p.relative_to(ROOT)))
def test_links(page):
    if not all(other.is_file() for other in OTHERS):  # tests of a wheel run without sources
        pytest.skip("only the tests are here")
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    for target in re.findall(r"(?:\]\(|src(?:set)?=\")([^)\"\s]+)[)\"]", text):
        if not target.startswith("https://"):
            name, _, anchor = target.partition("#")
            file = page.parent / name if name else page
            assert file.exists(), target
            assert not anchor or anchor in anchors(file), target


def test_readme_counts_formats_formulas_and_cases():
    text = (ROOT / "README.md").read_text("utf-8")
    formats = pyquant.weights.blocks.block_formats()
    vectors = (ROOT / "tests" / "conformance" / "v1").glob("*.json")
    vectors = [path for path in vectors if path.stem != "pyquant"]
    cases = sum(len(json.loads(path.read_text("utf-8"))["cases"]) for path in vectors)
    assert len(vectors) == 4
    assert f"decodes {len(formats)} block types" in text
    assert f"encodes {sum(one.quantizes for one in formats)}." in text
    assert f"{len(get_args(Like))} formulas for scales" in text
    assert f"[{cases} conformance cases]" in text


def test_every_public_name_has_a_page():
    """docs/api/index.md lists each public name, or the module of the name. The site has a
    page for each listed name."""
    text = (DOCS / "api" / "index.md").read_text("utf-8")
    listed = re.findall(r"^   ([\w.]+)$", text, re.MULTILINE)
    assert len(listed) == len(set(listed))
    places = [("", pyquant)]
    for prefix, owner in places:
        for name in {*owner.__all__} - {"__version__", *listed}:
            one, path = getattr(owner, name), prefix + name
            assert path in listed or isinstance(one, ModuleType), path
            if path not in listed:
                places.append((f"{path}.", one))


def test_every_type_is_in_the_table_of_types():
    text = (DOCS / "api" / "dtypes.md").read_text("utf-8")
    rows = re.findall(r"^\| ([\w, ]*\d\w*) \|", text, re.MULTILINE)
    assert sorted(", ".join(rows).split(", ")) == sorted(pyquant.dtypes.TYPES)


def test_the_table_of_types_lists_the_layouts():
    text = (DOCS / "api" / "dtypes.md").read_text("utf-8")
    rows = re.findall(r"^\| ([\w, ]*\d\w*) \|(.*)\|$", text, re.MULTILINE)
    for types, columns in rows:
        said = columns.split("|")[2]
        layouts = re.findall(r'`"(\w+)"`', said)
        if said.startswith(" all except "):
            layouts = [name for name in LAYOUTS if name not in layouts]
        for name in types.split(", "):
            t = pyquant.dtypes.TYPES[name]
            bits = {"float8_e8m0fnu": None, "int32": 24}.get(name, t.bits)
            assert layouts == [x.name for x in LAYOUTS.values() if bits in x.widths], name


@pytest.mark.parametrize("page", ["index.md", "howto/onnx-weights.md"])
def test_commands(page, tmp_path, monkeypatch):
    """Run the commands of a page in a folder with a checkpoint and a model."""
    onnx = pytest.importorskip("onnx", minversion="1.19")
    pytest.importorskip("onnx.parser")
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((64, 256), np.float32)
    pyquant.write_weights("model.safetensors", {"up.weight": x, "norm": x[0]})
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> g (float[N, 64] x) => (float[N, M] y) {
            h = MatMul(x, up)
            y = Add(h, conv) }"""
    )
    for name in ("up", "conv"):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(x, name))
    onnx.save_model(proto, "model.onnx")
    lines = re.findall(
        r"^    pyquant (.*)$", (DOCS / page).read_text("utf-8"), re.MULTILINE
    )
    assert len(lines) >= 3
    for line in lines:
        assert main(shlex.split(line)) == 0, line


def rows_of(text):
    """Return the rows of the tables of a page, as lists of cells."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def test_speeds_of_the_comparison_equal_the_performance_page():
    measured = rows_of((DOCS / "tables" / "design.md").read_text("utf-8"))
    names = next(row for row in measured if "torch_eager" in row)
    found = {
        row[0]: dict(zip(names, row, strict=True))
        for row in reversed(measured)
        if row[1] == "64 Ki" and len(row) == len(names)
    }
    rows = rows_of((DOCS / "comparison.md").read_text("utf-8"))
    first = next(n for n, row in enumerate(rows) if row[0] == "form")
    assert len(rows) > first + 5
    for row in rows[first + 2 :]:
        assert row == [found[row[0]][name] for name in rows[first]], row[0]


def test_every_page_is_in_the_table_of_pages():
    """The table on docs/index.md lists every page, in the order of the side bar."""
    text = (DOCS / "index.md").read_text("utf-8")
    trees = re.findall(r"^:hidden:\n:caption: ([^\n]*)\n\n(.*?)\n```", text, re.M | re.S)
    for caption, names in trees:
        table = text.partition(f"### {caption}\n")[2].partition("\n#")[0]
        listed = re.findall(r"^\| \[.*?\]\((.*?)\.md\)", table, re.M)
        assert names.split() == listed, caption
    pages = {page.relative_to(DOCS).with_suffix("").as_posix() for page in PAGES[1:]}
    pages = {page for page in pages if not re.match("api/(?!index)|tables/", page)}
    assert pages - {"index"} == {name for _, names in trees for name in names.split()}


def test_every_page_names_its_readers_and_their_gain():
    for page in PAGES[1:]:
        text, name = page.read_text("utf-8"), page.relative_to(DOCS).as_posix()
        first = " ".join(text.partition("\n\n")[2].partition("\n\n")[0].split())
        if not name.startswith(("api/", "index", "changelog", "performance", "tables/")):
            assert first.startswith("This page is for "), name
            assert re.search(r"\. .*\b[Yy]ou (can|quantize)\b", first), name


def test_every_guide_lists_needs_result_and_time():
    for page in (DOCS / "howto").glob("*.md"):
        head = page.read_text("utf-8").split("\n\n")[2]
        items = re.findall(r"^- \*\*(.*?):\*\* \S", head, re.MULTILINE)
        assert items == ["You need", "Result", "Time"], page.name


def test_the_rounding_modes_of_ngraph():
    text = (DOCS / "howto" / "match-ngraph.md").read_text("utf-8")
    rows = re.findall(r'^\| `(ROUND_\w+)` \| `"(\w+)"` \| (.*) \|$', text, re.MULTILINE)
    x = np.array([2.5, -2.5, 2.25, -2.75], np.float32)
    assert len(rows) == 9
    for name, mode, cells in rows:
        expected = [int(cell.replace("\N{MINUS SIGN}", "-")) for cell in cells.split(" | ")]
        assert pyquant.ngraph.quantize(x, 1.0, 0, "i8", (), name).tolist() == expected
        assert pyquant.quantize(x, 1.0, rounding=mode).tolist() == expected


def test_the_cases_that_the_semantics_cite_exist():
    """Each conformance case that the page cites exists. The page cites prefixes of ids."""
    text = (DOCS / "semantics" / "standards.md").read_text("utf-8")
    for row in text.splitlines():
        if row.startswith("| | "):
            assert row.count("|") != 3, row
    for path in (Path(__file__).parent / "conformance" / "v1").glob("*.json"):
        known = [case["id"] for case in json.loads(path.read_text("utf-8"))["cases"]]
        cases = re.findall(rf"[`\[]{path.stem}-([a-z0-9-]+)", text)
        missing = {c for c in cases if not any(k.startswith(c.rstrip("-")) for k in known)}
        missing = {c for c in missing if re.sub(r"-\d+$", "", c) not in known}
        assert not missing, path.name


def source_files():
    """Return a dictionary from names to paths of the files that internals.md describes."""
    if not (ROOT / ".ci").is_dir():
        pytest.skip("needs the checkout")
    tops = ("csrc", "pyquant", "tests", "benchmarks", ".ci", ".github")
    paths = [path for top in tops for path in (ROOT / top).rglob("*")]
    paths = [path for path in (*paths, *ROOT.iterdir()) if path.is_file()]
    return {f"/{path.relative_to(ROOT).as_posix()}": path for path in paths}


def test_names_in_the_internals_exist():
    """Each file and each identifier with an underscore that internals.md names exists."""
    files = source_files()
    kinds = re.compile(r"(\.([ch]|inc|py|p[yx][xid]|yml))?")
    code = [p for p in files.values() if kinds.fullmatch(p.suffix) and p.name != "_core.c"]
    text = "\n".join(path.read_text("utf-8", "ignore") for path in code)
    words = {*re.findall(r"\w+", text), *(path.stem for path in files.values())}
    page = (DOCS / "internals.md").read_text("utf-8")
    missing = []
    for place in re.findall(r"`[^`]+`|^    .*$", page, re.M):
        names = re.findall(r"(?<![\w<>./])[\w/.]+\.(?:inc|p[yx]\w?|[ch])\b", place)
        missing += [one for one in names if not any(f.endswith(f"/{one}") for f in files)]
        names = re.findall(r"(?<![\w<>.-])\w+_\w+(?![\w<>])", place)
        missing += [one for one in names if one not in words]
    assert not missing
    pairs = re.findall(r"`(\w+)` (?:in |\()`([\w/]+\.\w+)`", page)
    assert len(pairs) > 50
    for name, file in pairs:
        texts = [p.read_text("utf-8") for f, p in files.items() if f.endswith(f"/{file}")]
        assert any(re.search(rf"\b{name}\b", one) for one in texts), (name, file)


def test_the_internals_name_each_file_module_and_kernel():
    """internals.md names each source file, module and kernel. Exceptions are the files of
    instruction sets, and the commands, which another section lists."""
    files = source_files()
    page = (DOCS / "internals.md").read_text("utf-8")
    kinds = r"/csrc/(?!scalar|x86|arm).*\.([ch]|inc)|/pyquant/(?!cli|__|_version).*\.p\w+"
    parts = {path.stem for name, path in files.items() if re.fullmatch(kinds, name)}
    listed = files["/csrc/kernels/list.h"].read_text("utf-8")
    kernels = {f"`{name}`" for name in re.findall(r"^KERNEL\((\w+)", listed, re.M)}
    rows = re.findall(r"^\| `\w+`[^|]*\|", page, re.M)
    assert len(parts) > 100
    assert len(kernels) > 40
    missing = parts.difference(re.findall(r"\w+", page))
    missing |= kernels.difference(re.findall(r"`\w+`", "".join(rows)))
    assert not missing
