"""Test examples/boundary, which compares pyquant with the runtimes of models."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest
from support import ROOT


@pytest.mark.skipif("PYQUANT_EMULATED" in os.environ, reason="too much for an emulated CPU")
def test_example_of_six_boundaries(tmp_path):
    """Every job of the example succeeds. Each job compares pyquant's codes with the codes
    of the runtime."""
    pytest.importorskip("onnx")  # skips the test without the package
    pytest.importorskip("onnxruntime")  # skips the test without the package
    script = ROOT / "examples" / "boundary" / "run.py"
    if not script.exists():
        pytest.skip("the examples are not here")  # tests of a wheel run without sources
    run = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    rows = [line for line in run.stdout.splitlines() if line.startswith("|")][2:]
    jobs = [row for row in rows if "missing package" not in row]
    needed = ["ai_edge_litert", "silero_vad", "rapidocr_onnxruntime", "magika"]
    assert len(rows) == 6
    if all(map(find_spec, needed)):
        assert len(jobs) == 6
    for row in jobs:
        cells = [cell.split(" → ") for cell in row.strip("| ").split(" | ")]
        assert cells[1][1] == "0 %", row
    assert not list(tmp_path.iterdir())
