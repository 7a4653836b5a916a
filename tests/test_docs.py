"""The examples in the docstrings, and those of the README, print what they say."""

import doctest
import re
from pathlib import Path

import pytest

import pyquant

README = Path(__file__).resolve().parent.parent / "README.md"


@pytest.mark.parametrize("name", ["quantize", "dequantize", "QParams", "choose_qparams"])
def test_docstring(name):
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(getattr(pyquant, name), name, globs={})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_readme(capsys):
    pattern = r"```python\n(.*?)```\s+prints\s+```\n(.*?)```"
    found = re.search(pattern, README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    exec(found[1], {})
    assert capsys.readouterr().out == found[2]
