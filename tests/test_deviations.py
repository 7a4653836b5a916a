# SPDX-License-Identifier: Apache-2.0
"""Check the recorded results of other implementations in tests/conformance/deviations."""

from importlib import import_module

import numpy as np
import pytest
from conformance import page, run
from conformance.adapters import Unsupported
from conformance.cases import Call

KEPT = run.kept_records()
NAMES = [f"{kept['implementation']}-{kept['version']}" for kept in KEPT]
BYTES = {"dtype": "uint8", "data": [1, 2]}
FLOATS = {"dtype": "float32", "encoding": "bits", "data": ["nan", "0x80000000"]}


class Adapter:
    """An adapter for conformance/run.py that returns results or raises an exception."""

    def __init__(self, results):
        self.given = results

    def results(self, call):
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def judged(results, expect):
    return run.judged(Adapter(results), Call("id", "op", {}, expect))


def test_verdicts():
    one, other = np.array([1, 2], np.uint8), np.array([1, 3], np.uint8)
    refused = {"refused": True, "reason": "shape"}
    assert judged([one], BYTES) is None
    assert judged([other], BYTES) == [{"dtype": "uint8", "shape": [2], "hex": "0103"}]
    assert judged([other], {"any_of": [BYTES, BYTES | {"data": [1, 3]}]}) is None
    assert judged([one.astype(np.int8)], BYTES) is not None
    assert judged([one[None]], BYTES) is not None
    assert judged([one, one], BYTES) is not None
    assert judged([one], refused) == [{"dtype": "uint8", "shape": [2], "hex": "0102"}]
    assert judged(ValueError(), refused) is None
    assert judged(ValueError(), BYTES) == "refused"
    assert judged(Unsupported(), BYTES) == "unsupported"


def test_verdicts_about_nan_and_signed_zeros():
    zero, nan = 0x80000000, 0xFFC00001
    assert judged([np.array([nan, zero], np.uint32).view(np.float32)], FLOATS) is None
    assert judged([np.float32([np.nan, 0])], FLOATS) is not None
    assert judged([np.float32([1, -0.0])], FLOATS) is not None


@pytest.mark.parametrize("kept", KEPT, ids=NAMES)
def test_recorded_deviations_differ_from_the_vectors(kept):
    """Each recorded deviation is of a known call, and differs from the expected result."""
    pytest.importorskip("ml_dtypes")  # skips the test without the types of some results
    calls = dict(run.calls_of(kept["ops"]))
    assert set(kept["deviations"]) <= set(calls)
    for key, found in kept["deviations"].items():
        if isinstance(found, str):
            assert found in ("refused", "unsupported"), key
            continue
        arrays = [run.cases.array(one) for one in found]
        assert run.spelled(arrays) == found, key
        assert not any(run.agrees(arrays, one) for one in calls[key].acceptable), key


def test_the_page_shows_the_recorded_deviations():
    pytest.importorskip("ml_dtypes")  # skips the test without the types of some results
    if not page.PAGE.exists():
        pytest.skip("only the tests are here")
    assert page.PAGE.read_text("utf-8") == page.page(KEPT)


# Packages that import or compile for seconds are not tested here. `run.py --impl` runs
# them.
@pytest.mark.parametrize("name", ["gguf", "ml_dtypes", "numkong", "onnx_reference"])
def test_an_implementation_has_its_recorded_deviations(name):
    for needed in ("ml_dtypes", {"onnx_reference": "onnx.reference"}.get(name, name)):
        pytest.importorskip(needed)  # skips the test without the package
    adapter = import_module(f"conformance.adapters.{name}")
    kept = {(one["implementation"], one["version"]): one for one in KEPT}
    this = adapter.NAME, adapter.VERSION
    if this not in kept:
        pytest.skip("another version than those kept")
    assert run.record(name) == kept[this]
