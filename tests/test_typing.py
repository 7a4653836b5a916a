# SPDX-License-Identifier: Apache-2.0
"""Tests that results have the types that type checkers infer."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from collections import ChainMap
from operator import attrgetter
from pathlib import Path

import pytest
import typed_calls
from support import ROOT

import pyquant

STUB = Path(pyquant.__file__).with_name("_core.pyi")


# The functions of typed_calls.py to call. A function with parameters is only a helper.
TYPED = [
    one
    for one in vars(typed_calls).values()
    if inspect.isfunction(one) and not inspect.signature(one).parameters
]


@pytest.mark.parametrize("call", TYPED, ids=lambda call: call.__name__)
def test_results_have_the_inferred_types(call):
    call()


def test_the_package_contains_its_types():
    assert STUB.with_name("py.typed").is_file()
    assert STUB.is_file()


def trees():
    """Yield the name and the syntax tree of each module with overloads."""
    for path in (STUB, STUB.with_name("fused.py")):
        yield path.stem, ast.parse(path.read_text("utf-8"))


def overloaded():
    """Return the overloads of each function in order. The last one has all parameters."""
    found = {}
    for module, tree in trees():
        for owner in (tree, *(n for n in tree.body if isinstance(n, ast.ClassDef))):
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and node.decorator_list:
                    name = f"{module}.{getattr(owner, 'name', '')}.{node.name}"
                    found.setdefault(name.replace("..", "."), []).append(node)
    return found


def groups():
    """Return, for each TypedDict of keywords, the annotation of each keyword."""
    found = {}
    for _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and node.keywords:
                bases = (found.get(ast.unparse(base), {}) for base in node.bases)
                lines = (line for line in node.body if isinstance(line, ast.AnnAssign))
                own = {line.target.id: ast.unparse(line.annotation) for line in lines}
                found[node.name] = dict(ChainMap(own, *bases))
    return found


@pytest.mark.parametrize("name", [n for n in overloaded() if n.startswith("_core.")])
def test_the_stub_has_the_docstrings(name):
    """Only the last overload has a docstring, because Jedi reads only the last one."""
    *others, last = map(ast.get_docstring, overloaded()[name])
    assert not any(others)
    doc = inspect.getdoc(attrgetter(name)(pyquant))
    if name not in ("_core.quantize", "_core.dequantize"):
        doc = doc.partition("\n")[0]
    assert last == doc or name == "_core.extrema"  # a private function


def parameters(function):
    """Return the parameters, except `self`, of a function or a function's syntax tree."""
    if isinstance(function, ast.FunctionDef):
        code = (
            f"from __future__ import annotations\ndef made({ast.unparse(function.args)}): 0"
        )
        exec(code, made := {})
        function = made["made"]
    found = dict(inspect.signature(function).parameters)
    found.pop("self", None)
    return found


@pytest.mark.parametrize("name", overloaded())
def test_overloads_have_the_parameters_of_the_function(name):
    """Groups (``**options: Unpack[...]``) have each keyword, which no tool checks."""
    function = parameters(attrgetter(name)(pyquant))
    *others, last = map(parameters, overloaded()[name])
    full = {key: p.annotation for key, p in last.items()}
    for one in others:
        group = one.pop("options", None)
        keywords = groups()[group.annotation[len("Unpack[") : -1]] if group else {}
        assert {*one, *keywords, "codebook"} == {*full, "codebook"}
        if name.startswith("_core."):  # in fused.py, mypy compares these types
            own = keywords.keys() - {"layout", "packed", "out"}
            assert all(keywords[k] == full[k] for k in own)
    assert [(p.name, p.kind, p.default) for p in last.values()] == [
        (p.name, p.kind, p.default) for p in function.values()
    ]


def test_the_stub_has_the_names_of_the_rounding_modes():
    (alias,) = re.findall(
        r"^_Rounding: TypeAlias = \((.*?)^\)", STUB.read_text("utf-8"), re.M | re.S
    )
    assert re.findall('"(.*?)"', alias) == [str(mode) for mode in pyquant.RoundMode]


OPTIONAL = re.compile(
    r"^(?:>>> )?(?:import|from) (?:dask|onnx|openvino|sklearn|torch|xarray|zarr)", re.M
)


def test_mypy_accepts_the_examples_of_the_pages(tmp_path):
    pytest.importorskip("mypy")  # mypy checks the types
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]:
        sections = re.split("^## ", page.read_text("utf-8"), flags=re.M)
        for i, text in enumerate(sections):
            blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
            if blocks and not OPTIONAL.search(text):
                code = [
                    doctest.script_from_examples(b) if ">>>" in b else b for b in blocks
                ]
                name = f"{page.parent.name}_{page.stem}_{i}.py"  # two pages are index.md
                (tmp_path / name).write_text("\n".join(code), "utf-8")
    files = [path.name for path in tmp_path.glob("*.py")]
    assert any("README" in name for name in files)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
