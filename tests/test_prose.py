"""The lint check for plain English: `.ci/prose.py`."""

import importlib.util

import pytest
from support import ROOT, case

SCRIPT = ROOT / ".ci" / "prose.py"
if not SCRIPT.exists():
    pytest.skip("needs the checkout", allow_module_level=True)
spec = importlib.util.spec_from_file_location("prose", SCRIPT)
prose = importlib.util.module_from_spec(spec)
spec.loader.exec_module(prose)

PLAIN = {"words": 200, "heads": 0.0, "relative": 1.0, "vague": 2.0, "length": 12.0}


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
def test_worse_rates_are_refused(kind):
    recorded = {"old.py": PLAIN | {kind: 30.0}}
    bad = PLAIN | {kind: 30.1}
    assert prose.worse({"old.py": recorded["old.py"]}, recorded) == []
    assert len(prose.worse({"old.py": bad}, recorded)) == 1
    # A new file is compared with the targets, a better file may use the targets.
    assert len(prose.worse({"new.py": recorded["old.py"]}, {})) == 1
    assert prose.worse({"new.py": PLAIN | prose.TARGETS}, {"new.py": PLAIN}) == []


def test_a_merged_file_has_the_mean_of_its_sources():
    recorded = {"a.py": PLAIN | {"vague": 10.0}, "b.py": PLAIN | {"words": 600}}
    followed = prose.follow(recorded, ["c.py=a.py,b.py"])
    assert followed["c.py"]["vague"] == (10.0 * 200 + 2.0 * 600) / 800
