# SPDX-License-Identifier: Apache-2.0
"""Tests that the files of tests/conformance follow the schema and have right headers."""

import json

import numpy as np
import pytest
from conformance.cases import FILES, HERE, array, calls


@pytest.fixture(scope="module")
def judge():
    jsonschema = pytest.importorskip("jsonschema")  # checks the schema
    schema = json.loads((HERE / "schema" / "v1.json").read_text("utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_files_follow_the_schema(path, judge):
    faults = sorted(judge.iter_errors(json.loads(path.read_text("utf-8"))), key=str)
    assert not [f"{fault.json_path}: {fault.message[:200]}" for fault in faults[:3]]


BYTE = {"dtype": "int8", "data": 1}
WRONG = [
    {},
    [BYTE],
    {"refused": True},
    {"refused": True, "reason": "value"},
    {"any_of": [BYTE]},
    {"dtype": "int8"},
    {"dtype": "int8", "hex": "00"},
    {"dtype": "int8", "data": "zero"},
    {"dtype": "float8_e5m2", "data": 1},
    {**BYTE, "hex": "00", "shape": []},
    {"dtype": "int8", "hex": "00", "shape": [1], "encoding": "bits"},
]


@pytest.mark.parametrize("expect", WRONG, ids=str)
def test_the_schema_refuses(expect, judge):
    head = {"version": "2026.11.23", "about": "", "count": 1, "flags": {}}
    for given in (expect, BYTE):
        cases = [{"id": "a", "source": "", "calls": [{"id": "a-0", "expect": given}]}]
        assert judge.is_valid({**head, "cases": cases}) == (given is BYTE)


def test_undefined_results_are_the_integer_of_nan_and_an_empty_range():
    """A call has the flag `open` if NaN or an empty range makes its result undefined."""
    (path,) = (path for path in FILES if path.stem == "onnx")
    tried = 0
    for call in calls(path):
        if call.op != "onnx.dynamic_quantize_linear" or call.refused:
            continue
        x = array(call.args["x"])
        with np.errstate(all="ignore"):
            low, high = x.min(initial=0), x.max(initial=0)
            scale = (high - low) / np.float32(255)
            unknown = (
                not high - low > 0 or np.isnan(x / scale).any() or np.isnan(low / scale)
            )
        assert ("open" in call.flags) == unknown, call.id
        tried += unknown
    assert tried == 10


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_headers_describe_the_files(path):
    header, listed = json.loads(path.read_text("utf-8")), list(calls(path))
    assert header["count"] == len(listed) == len({call.id for call in listed})
    assert {flag for call in listed for flag in call.flags} == set(header["flags"])
    for call in listed:
        assert ("validation" in call.flags) == call.refused == (call.error is not None)
        assert ("open" in call.flags) == (len(call.acceptable) > 1)
        assert "." in call.op or path.stem in ("pyquant", "compressed-tensors-0.20.0")
