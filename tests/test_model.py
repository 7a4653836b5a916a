"""Compare the answers of a trained model before and after int8 weights.

The package magika ships the model, which recognises file types by their first and last
1024 bytes. Run this file as a program to save the matrices of the model for the demo:

    python tests/test_model.py weights.npz && python -m pyquant demo weights.npz
"""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import pyquant as pq

onnx = pytest.importorskip("onnx")  # optional
onnxruntime = pytest.importorskip("onnxruntime")  # optional

ENDS = 1024  # bytes that the model sees of each end of a file
PADDING = 256  # its token for "no byte here"

# The axis of output channels of a weight, by the operator that multiplies with it. Gemm
# depends on its transB. An operand of Add or Mul has one number per channel, and one
# scale for the array.
OUTPUT_AXIS = {"Conv": 0, "MatMul": -1}


def find_model():
    """Return the path of magika's .onnx file, or None, without importing magika."""
    spec = importlib.util.find_spec("magika")
    folders = (spec and spec.submodule_search_locations) or []
    return next((p for f in folders for p in sorted(Path(f).rglob("*.onnx"))), None)


def output_axis(node):
    """The axis of output channels of a weight that is the second input of `node`."""
    if node.op_type == "Gemm":
        return 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
    return OUTPUT_AXIS.get(node.op_type)


def weights_of(model):
    """Each float32 initializer of two axes or more, with the node that takes it."""
    users = {name: node for node in model.graph.node for name in node.input}
    for tensor in model.graph.initializer:
        array = onnx.numpy_helper.to_array(tensor)
        if array.dtype == np.float32 and array.ndim >= 2:
            yield tensor, array, users[tensor.name]


@pytest.fixture(scope="module")
def model():
    path = find_model()
    if path is None:
        pytest.skip("could not find the model of magika")
    return onnx.load(path)


@pytest.fixture(scope="module")
def quantized(model):
    """Name, weights, parameters and codes of every weight."""
    result = []
    for tensor, x, node in weights_of(model):
        p = pq.choose_qparams(x, axis=output_axis(node))
        result.append((tensor.name, x, p, p.quantize(x)))
    return result


def run(model, inputs):
    """The only output of a model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (name,) = [i.name for i in session.get_inputs()]
    return session.run(None, {name: inputs})[0]


# Inputs


def documents():
    """Return small files of several kinds. Every call returns equal files."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(10, 99, (60, 3)).tolist()
    return [
        rng.integers(0, 256, 3000, dtype=np.uint8).tobytes(),
        "id,width,height\n" + "".join(f"{a},{b},{c}.5\n" for a, b, c in numbers),
        "[" + ", ".join(f'{{"id": {a}, "size": [{b}, {c}]}}' for a, b, c in numbers) + "]",
        "import os\nimport sys\n\n"
        + "".join(
            f"def f{a}(x, y={b}):\n    return x + y * {c}\n\n" for a, b, c in numbers
        ),
        "#include <stdio.h>\n\n"
        + "".join(
            f"static int f{a}(int x)\n{{\n    return x * {b};\n}}\n" for a, b, c in numbers
        ),
        "<!DOCTYPE html>\n<html><body><table>\n"
        + "".join(f"<tr><td>{a}</td><td>{b}</td></tr>\n" for a, b, c in numbers)
        + "</table></body></html>\n",
        "#!/bin/sh\nset -e\n"
        + "".join(
            f'if [ "$1" = {a} ]; then\n    echo "{b}" | cat\nfi\n' for a, b, c in numbers
        ),
        "CREATE TABLE t (a INTEGER, b INTEGER);\n"
        + "".join(f"INSERT INTO t VALUES ({a}, {b});\n" for a, b, c in numbers),
        '<?xml version="1.0"?>\n<list>\n'
        + "".join(f'  <item id="{a}">{b}</item>\n' for a, b, c in numbers)
        + "</list>\n",
        'package main\n\nimport "fmt"\n\n'
        + "".join(
            f"func f{a}(x int) int {{\n\treturn x * {b}\n}}\n" for a, b, c in numbers
        ),
        b"\x1f\x8b\x08\0\0\0\0\0\0\x03"
        + rng.integers(0, 256, 3000, dtype=np.uint8).tobytes(),
    ]


def tokens(document):
    """Return the input of the model for one file."""
    data = document.encode() if isinstance(document, str) else document
    data = np.frombuffer(data.strip(), np.uint8).astype(np.int32)
    head, tail = data[:ENDS], data[-ENDS:]
    room = [np.full(ENDS - len(part), PADDING, np.int32) for part in (head, tail)]
    return np.concatenate([head, room[0], room[1], tail])


# Tests


def test_every_weight_is_there(quantized):
    assert sum(x.size for _, x, _, _ in quantized) > 750_000
    axes = [p.axis for _, _, p, _ in quantized]
    assert 0 in axes
    assert -1 in axes


def test_the_model_gives_the_same_answers(model, quantized):
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    values = {name: p.dequantize(q) for name, _, p, q in quantized}
    for tensor, _, _ in list(weights_of(changed)):
        new = onnx.numpy_helper.from_array(values[tensor.name], tensor.name)
        tensor.CopyFrom(new)
    inputs = np.stack([tokens(document) for document in documents()])
    before, after = run(model, inputs), run(changed, inputs)
    assert len(set(before.argmax(1).tolist())) >= 8, "the inputs are too much alike"
    assert (before.argmax(1) == after.argmax(1)).all()
    # A bound, not bits: the weights did move, by up to half a step each, and the order of
    # the sums in ONNX Runtime, so the last bits of both answers, differs between CPUs.
    # 0.014 was seen. Every first answer is ahead by far more than that.
    bound = 0.03
    assert np.abs(before - after).max() < bound
    second, first = np.sort(before)[:, -2:].T
    assert (first - second).min() > 10 * bound


def save_matrices(path):
    """Save the matrices of the model, one row per output channel, for the demo."""
    matrices = {}
    for _, array, node in weights_of(onnx.load(find_model())):
        axis = output_axis(node)
        if axis is not None:
            parts = node.output[0].split("/")
            layer = [p for p in parts if p[-1].isdigit() and ":" not in p][-1]
            matrices[layer] = np.moveaxis(array, axis, 0).reshape(array.shape[axis], -1)
    np.savez(path, **matrices)


if __name__ == "__main__":
    save_matrices(sys.argv[1])
