# SPDX-License-Identifier: Apache-2.0
"""Read the exported conformance vectors like other programs. Compare with pyquant."""

import hashlib
import re

import numpy as np
import pytest
from conformance import cases, export
from support import same

import pyquant as pq

pytest.importorskip("ml_dtypes")  # skips the tests without the types of the vectors

LONG = {short: name for name, short in export.SHORT.items()}
LINE = re.compile(
    r"(quantize|dequantize) (\w+) (\w+) (\w+)(?: (saturate|overflow))? "
    r"x=([0-9a-f]+) s=([0-9a-f]{8}) z=([0-9a-f]+) -> (nan|[0-9a-f]+)"
)


def element(text, name):
    """Return the element with the given bits. Narrow types use the low bits of a byte."""
    dtype = cases.dtype_of(name)
    bits = int(text, 16)
    if narrow := re.fullmatch(r"(u?)int([24])", name):
        unsigned, width = narrow[1], int(narrow[2])
        sign = 0 if unsigned else bits >> (width - 1)
        return np.array(bits - (sign << width)).astype(dtype)
    return np.array(bits, f"u{dtype.itemsize}").view(dtype)


def test_text():
    lines = export.text()
    assert len(lines) > 480
    for line in lines:
        op, source, target, mode, beyond, x, s, z, wanted = LINE.fullmatch(line).groups()
        x, s = element(x, LONG[source]), element(s, "float32")
        zero = element(z, LONG[target if op == "quantize" else source])
        if op == "dequantize":
            got = pq.dequantize(x, s, zero)
        elif beyond:
            got = pq.quantize(x, s, dtype=LONG[target], saturate=beyond == "saturate")
        else:
            got = pq.quantize(x, s, zero, dtype=LONG[target], rounding=mode)
        if wanted == "nan":
            assert np.isnan(got.astype(np.float32)), line
        else:
            assert export.pattern(np.asarray(got)) == [wanted], line


def test_text_has_every_mode_and_type():
    lines = [line.split() for line in export.text()]
    assert {words[3] for words in lines} == {*pq.RoundMode} - {"half_odd", "stochastic"}
    assert {words[i] for words in lines for i in (1, 2)} == set(LONG)


def test_tables():
    """Each table has the recorded checksum. The checksums are of tables that a definition
    in NumPy computed."""
    lines = (cases.HERE / "tables.sha256").read_text("utf-8").splitlines()
    sums = dict(reversed(line.split()) for line in lines)
    made = {name: hashlib.sha256(data).hexdigest() for name, data in export.tables()}
    assert made == sums


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return the tests that the test loader of ONNX finds in the exported folders."""
    # skips the test; older versions lack types
    pytest.importorskip("onnx", minversion="1.23")
    # some wheels of onnx lack the module
    loader = pytest.importorskip("onnx.backend.test.loader")
    folder = tmp_path_factory.mktemp("vectors")
    count = export.write_onnx(folder)
    found = loader.load_model_tests(data_dir=str(folder.parent), kind=folder.name)
    assert len(found) == count > 150
    return found


def opened(case):
    """Read an exported test. Return the model, and inputs and outputs by name."""
    import onnx

    model = onnx.load(f"{case.model_dir}/model.onnx")
    sides = []
    for kind, infos in (("input", model.graph.input), ("output", model.graph.output)):
        arrays = {}
        for i, info in enumerate(infos):
            path = f"{case.model_dir}/test_data_set_0/{kind}_{i}.pb"
            tensor = onnx.load_tensor(path)
            assert tensor.name == info.name
            arrays[info.name] = onnx.numpy_helper.to_array(tensor)
        sides.append(arrays)
    return model, *sides


def test_folders_in_the_evaluator(folders):
    reference = pytest.importorskip("onnx.reference")  # newer versions have the function
    for case in folders:
        model, inputs, outputs = opened(case)
        evaluator = reference.ReferenceEvaluator(model, new_ops=pq.onnx.reference_ops())
        for got, wanted in zip(evaluator.run(None, inputs), outputs.values(), strict=True):
            same(np.asarray(got), wanted)
