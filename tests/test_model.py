"""Compare the answers of a trained model with original and with int8 weights.

The model is from the package magika. It recognises the type of a file by the first and
last 1024 bytes. Run this file as a program to save the matrices of the model for the demo:

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

ENDS = 1024  # The model reads this number of bytes at each end of a file.
PADDING = 256  # This token stands for a missing byte of a short file.

# The axis of the output channels of a weight, for each operator that multiplies. The
# attribute transB selects the axis of Gemm. An operand of Add or Mul gets one scale,
# because it has one number for each channel.
OUTPUT_AXIS = {"Conv": 0, "MatMul": -1}


def find_model():
    """Return the path of magika's .onnx file, or None, without importing magika."""
    spec = importlib.util.find_spec("magika")
    folders = (spec and spec.submodule_search_locations) or []
    return next((p for f in folders for p in sorted(Path(f).rglob("*.onnx"))), None)


def output_axis(node):
    """Return the axis of the output channels of a weight, the second input of a node."""
    if node.op_type == "Gemm":
        return 0 if any(a.name == "transB" and a.i for a in node.attribute) else 1
    return OUTPUT_AXIS.get(node.op_type)


def weights_of(model):
    """Yield each float32 initializer with two axes or more, its array, and its node."""
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
    """Return the name, the array, the parameters and the codes of every weight."""
    result = []
    for tensor, x, node in weights_of(model):
        p = pq.choose_qparams(x, axis=output_axis(node))
        result.append((tensor.name, x, p, p.quantize(x)))
    return result


def run(model, inputs):
    """Return the first output of a model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    (name,) = [i.name for i in session.get_inputs()]
    return session.run(None, {name: inputs})[0]


# Inputs


# The first line of a file, the format of a line with three numbers, and the last line.
TEXTS = (
    ("id,width,height\n", "{},{},{}.5\n", ""),
    ('{"rows": [', '{{"id": {}, "size": [{}, {}]}},\n', "{}]}"),
    ("import os\nimport sys\n\n", "def f{}(x, y={}):\n    return x + y * {}\n\n", ""),
    ("#include <stdio.h>\n\n", "static int f{}(int x)\n{{\n    return x * {};\n}}\n", ""),
    (
        "<!DOCTYPE html>\n<html><body><table>\n",
        "<tr><td>{}</td><td>{}</td></tr>\n",
        "</table></body></html>\n",
    ),
    ("#!/bin/sh\nset -e\n", 'if [ "$1" = {} ]; then\n    echo "{}" | cat\nfi\n', ""),
    ("CREATE TABLE t (a INTEGER, b INTEGER);\n", "INSERT INTO t VALUES ({}, {});\n", ""),
    ('<?xml version="1.0"?>\n<list>\n', '  <item id="{}">{}</item>\n', "</list>\n"),
    (
        'package main\n\nimport "fmt"\n\n',
        "func f{}(x int) int {{\n\treturn x * {}\n}}\n",
        "",
    ),
)


def documents():
    """Return the contents of small files of several types, equal in every call."""
    rng = np.random.default_rng(7)
    numbers = rng.integers(10, 99, (60, 3)).tolist()
    noise = rng.integers(0, 256, 3000, dtype=np.uint8).tobytes()
    made = [
        (head + "".join(line.format(*row) for row in numbers) + end).encode()
        for head, line, end in TEXTS
    ]
    return [noise, *made, b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + noise]


def tokens(document):
    """Convert the bytes of one file to an input of the model."""
    data = np.frombuffer(document.strip(), np.uint8).astype(np.int32)
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
    # Quantization changes each weight by up to half a step, and the order of additions in
    # ONNX Runtime depends on the CPU. The largest measured difference of an output was
    # 0.014. Each best answer exceeds the second one by far more.
    bound = 0.03
    assert np.abs(before - after).max() < bound
    second, first = np.sort(before)[:, -2:].T
    assert (first - second).min() > 10 * bound


def save_matrices(path):
    """Save the matrices of the model for the demo, with a row for each output channel."""
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
