"""`pyquant bench`: a line for each form, with numbers that can be."""

import json

import pytest

import pyquant as pq
from pyquant.cli import main


def test_bench(capsys):
    assert main(["bench", "--json", "--forms", "*", "--size", "4096"]) == 0
    *forms, end = map(json.loads, capsys.readouterr().out.splitlines())
    assert {one["form"] for one in forms} >= {"quantize int8", "decode Q4_K"}
    assert all(x > 0 for one in forms for x in list(one.values())[1:])
    assert end["summary"]["isa"] == pq.isa.active()
    assert main(["bench", "--forms", "re:int4", "--size", "1024"]) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 4
    assert out[0].startswith(f"pyquant {pq.__version__}, ")


@pytest.mark.parametrize(
    "arguments", [["--size", "1000"], ["--size", "-1024"], ["--forms", "x"]]
)
def test_refusals_are_one_line(arguments, capsys):
    assert main(["bench", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"pyquant bench: {arguments[0]}: expected ")
