"""The examples in the docstrings, and those of the README, print what they say."""

import doctest
import json
import re
from operator import attrgetter
from pathlib import Path

import pytest

import pyquant

README = Path(__file__).resolve().parent.parent / "README.md"


STANDARDS = ("ngraph", "onednn", "onnx", "com_microsoft")
DOCUMENTED = [
    *("quantize", "dequantize", "QParams", "choose_qparams", "PackedArray"),
    *(
        f"{module}.{name}"
        for module in STANDARDS
        for name in getattr(pyquant, module).__all__
        if "quantize" in name
    ),
]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_docstring(name):
    finder = doctest.DocTestFinder(recurse=False)
    (test,) = finder.find(attrgetter(name)(pyquant), name, globs={})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def test_readme(capsys):
    pattern = r"```python\n(.*?)```\s+prints\s+```\n(.*?)```"
    found = re.search(pattern, README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    exec(found[1], {})
    assert capsys.readouterr().out == found[2]


def test_what_the_semantics_cite_exists():
    """Tests by name, and cases of tests/conformance by the beginning of theirs."""
    here = Path(__file__).parent
    text = (here.parent / "docs" / "semantics.md").read_text("utf-8")
    file = None
    for path, name in re.findall(r"`(?:tests/)?([\w.]*)::(test_\w+)|`tests/test_", text):
        if name:
            file = path or file  # a name alone is in the file before it
            assert f"def {name}(" in (here / file).read_text("utf-8"), (file, name)
    for row in text.splitlines():
        if row.startswith("| | "):
            assert row.count("|") != 3, row
    for path in (here / "conformance").glob("*.json"):
        known = [case["id"] for case in json.loads(path.read_text("utf-8"))["cases"]]
        cases = re.findall(rf"[`\[]{path.stem}-([a-z0-9-]+)", text)
        missing = {c for c in cases if not any(k.startswith(c.rstrip("-")) for k in known)}
        missing = {c for c in missing if re.sub(r"-\d+$", "", c) not in known}
        assert not missing, path.name
