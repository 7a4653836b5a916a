"""Tests of `.ci/prose.py`, the lint check for plain English."""

import importlib.util

import pytest
from support import ROOT, case

SCRIPT = ROOT / ".ci" / "prose.py"
if not SCRIPT.exists():
    pytest.skip("needs the checkout", allow_module_level=True)
spec = importlib.util.spec_from_file_location("prose", SCRIPT)
prose = importlib.util.module_from_spec(spec)
spec.loader.exec_module(prose)


def test_faults_are_counted():
    for sentence, heads, relative, vague in (
        ("Return the first group that has a scale.", 0, 0, 0),
        ("What is left goes to the last of those that follow.", 1, 2, 2),
        ("The file has the same as others, apart from its name.", 0, 1, 3),
        ("As a result the call returns early.", 0, 0, 0),
    ):
        with case(sentence=sentence):
            found = prose.faults(sentence)
            assert found == {"heads": heads, "relative": relative, "vague": vague}


@pytest.mark.parametrize(
    ("name", "text", "sentences"),
    [
        ("a.c", "/* One two three four. Five six\n * seven eight. */ int a; // a b", 2),
        ("a.py", "# One two three\n# four.\n'x'\ndef f():\n    '''Ab cd ef gh.'''\n", 2),
        ("a.pyx", "cdef int a  # one\n# One two three four.\nx ==== y\n", 1),
        ("a.md", "# Title of this page is long\n\n- One two three four.\n\n    code\n", 1),
    ],
)
def test_prose_is_found(tmp_path, name, text, sentences):
    path = tmp_path / name
    path.write_text(text)
    paragraphs = prose.PARAGRAPHS[path.suffix](text)
    assert sum(len(prose.sentences(p)) for p in paragraphs) == sentences


@pytest.mark.parametrize("kind", prose.TARGETS)
def test_worse_rates_are_rejected(kind):
    bad = prose.TARGETS | {kind: prose.TARGETS[kind] + 0.1}
    (line,) = prose.worse({"good.py": prose.TARGETS, "bad.py": bad})
    assert line.startswith(f"bad.py: {kind}: expected at most ")
