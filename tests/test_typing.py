# SPDX-License-Identifier: Apache-2.0
"""The types that checkers derive are those that results have."""

from __future__ import annotations

import ast
import doctest
import inspect
import re
import subprocess
import sys
from operator import attrgetter
from pathlib import Path

import pytest
import typed_calls
from support import ROOT

import pyquant
from pyquant import _core

STUB = Path(pyquant.__file__).with_name("_core.pyi")


@pytest.mark.parametrize("call", typed_calls.CALLS, ids=lambda call: call.__name__)
def test_results_have_the_types_that_checkers_derive(call):
    call()


def test_the_package_says_that_it_is_typed():
    assert STUB.with_name("py.typed").is_file()
    assert STUB.is_file()


def overloaded():
    """The overloads in the stubs, by name."""
    found = {}
    tree = ast.parse(STUB.read_text("utf-8"))
    for owner in (tree, *(n for n in tree.body if isinstance(n, ast.ClassDef))):
        for node in owner.body:
            if isinstance(node, ast.FunctionDef) and node.decorator_list:
                name = f"{getattr(owner, 'name', '')}.{node.name}".lstrip(".")
                found.setdefault(name, []).append(node)
    return found


@pytest.mark.parametrize(
    "name", ["quantize", "dequantize", "Calls.quantize", "Calls.dequantize"]
)
def test_the_stubs_have_the_docstrings(name):
    """For editors: pyright shows that of any overload for all, jedi that of the last."""
    *others, last = overloaded()[name]
    assert ast.get_docstring(last) == inspect.cleandoc(attrgetter(name)(_core).__doc__)
    assert not any(ast.get_docstring(other) for other in others)


def test_the_stubs_know_the_names_of_the_modes():
    (alias,) = re.findall(
        r"^_Rounding: TypeAlias = \((.*?)^\)", STUB.read_text("utf-8"), re.M | re.S
    )
    assert re.findall('"(.*?)"', alias) == [str(mode) for mode in pyquant.RoundMode]


OF_OTHERS = re.compile(
    r"^(?:>>> )?(?:import|from) (?:dask|onnx|sklearn|torch|xarray|zarr)", re.M
)


def test_type_checkers_take_the_examples_of_the_pages(tmp_path):
    pytest.importorskip("mypy")  # which is the judge here
    for page in [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]:
        sections = re.split("^## ", page.read_text("utf-8"), flags=re.M)
        for i, text in enumerate(sections):
            blocks = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
            if blocks and not OF_OTHERS.search(text):
                code = [
                    doctest.script_from_examples(b) if ">>>" in b else b for b in blocks
                ]
                (tmp_path / f"{page.stem}_{i}.py").write_text("\n".join(code), "utf-8")
    files = [path.name for path in tmp_path.glob("*.py")]
    assert any(name.startswith("README") for name in files)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *files],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.returncode == 0, run.stdout + run.stderr
