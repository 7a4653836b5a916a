"""The examples of docs/recipes.md print what they say."""

import doctest
import re
from pathlib import Path

import pytest

RECIPES = Path(__file__).resolve().parent.parent / "docs" / "recipes.md"
# What an example needs besides NumPy, by what it says.
NEEDS = {"onnx": r"import onnx", "ml_dtypes": r"ml_dtypes|float[468]_"}


def recipes():
    """The examples under each heading, as one session."""
    text = RECIPES.read_text("utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        blocks = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        title = section.partition("\n")[0]
        yield pytest.param(title, "\n".join(blocks), id=title.replace(" ", "-"))


@pytest.mark.parametrize(("title", "examples"), list(recipes()))
def test_recipe(title, examples):
    for package, pattern in NEEDS.items():
        if re.search(pattern, examples):
            pytest.importorskip(package)
    test = doctest.DocTestParser().get_doctest(examples, {}, title, str(RECIPES), 0)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
