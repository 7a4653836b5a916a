"""Run ONNX's node cases with pyquant's functions and with onnx's reference evaluator."""

import numpy as np
import pytest
from support import case, same

# pyquant's extra "model" installs onnx. Emulated processors lack onnx.
onnx = pytest.importorskip("onnx")  # The package onnx defines the operators.
pytest.importorskip("onnx.reference")  # Old versions of onnx lack this module.
pytest.importorskip("ml_dtypes")  # ml_dtypes defines the types.

from onnx import TensorProto, helper, numpy_helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

import pyquant.onnx  # noqa: E402

FUNCTIONS = {
    "QuantizeLinear": pyquant.onnx.quantize_linear,
    "DequantizeLinear": pyquant.onnx.dequantize_linear,
    "DynamicQuantizeLinear": pyquant.onnx.dynamic_quantize_linear,
}
OPS = pyquant.onnx.reference_ops()


@pytest.fixture(scope="module")
def cases():
    """Return ONNX's cases of the operators. Version 1.23 has 30 cases, older ones fewer."""
    # An import of a module of this private package creates the cases of an operator.
    for name in ("quantizelinear", "dequantizelinear", "dynamicquantizelinear"):
        pytest.importorskip(f"onnx.backend.test.case.node.{name}")  # not in all wheels
    from onnx.backend.test.case import node

    names = tuple(f"test_{op.lower()}" for op in FUNCTIONS)
    found = [one for one in node._NodeTestCases if one.name.startswith(names)]
    found = [one for one in found if not one.name.endswith("_expanded")]  # other operators
    assert len(found) >= 20
    return found


def arrays(values):
    return [
        numpy_helper.to_array(v) if isinstance(v, TensorProto) else np.asarray(v)
        for v in values
    ]


def results(got):
    return list(got) if isinstance(got, tuple | list) else [got]


def check(got, outputs):
    __tracebackhide__ = True
    for one, expected in zip(results(got), arrays(outputs), strict=True):
        same(np.asarray(one), expected)


def test_functions(cases):
    for one in cases:
        (node,) = one.model.graph.node
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        for inputs, outputs in one.data_sets:
            with case(name=one.name):
                check(FUNCTIONS[node.op_type](*arrays(inputs), **attributes), outputs)


def test_evaluator(cases):
    for one in cases:
        evaluator = ReferenceEvaluator(one.model, new_ops=OPS)
        assert type(evaluator.rt_nodes_[0]) in OPS  # onnx did not choose its own operator
        names = [i.name for i in one.model.graph.input]
        for inputs, outputs in one.data_sets:
            feeds = dict(zip(names, arrays(inputs), strict=True))
            with case(name=one.name):
                check(evaluator.run(None, feeds), outputs)


def model(op, inputs, opset=25, **attributes):
    """Return a model of one node. The evaluator ignores the declared types."""
    names = [f"i{n}" for n in range(len(inputs))]
    outputs = ["y", "s", "z"] if op == "DynamicQuantizeLinear" else ["y"]
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in names]
    out = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    node = helper.make_node(op, names, outputs, **attributes)
    graph = helper.make_graph([node], op, info, out)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    return made, dict(zip(names, inputs, strict=True))


def f32(*values):
    return np.array(values, np.float32)


# Deviations of onnx.reference that conformance/ does not test. Values are the operator, the
# inputs, the result of onnx.reference and the result of pyquant.
DEVIATIONS = {
    "int32 is converted before the zero point": (
        "DequantizeLinear",
        (np.array([16777217], np.int32), f32(1)[0], np.int32(1)),
        ([16777215.0],),
        ([16777216.0],),
    ),
    "a zero range has a scale of 1/255": (
        "DynamicQuantizeLinear",
        (f32(0, 0),),
        ([0, 0], np.float32(1 / 255), 0),
        ([0, 0], 1, 0),
    ),
}


@pytest.mark.parametrize("name", DEVIATIONS)
def test_deviations_of_the_reference(name):
    op, inputs, *expected = DEVIATIONS[name]
    made, feeds = model(op, inputs, 11 if op == "DynamicQuantizeLinear" else 25)
    for ops, results in zip(([], OPS), expected, strict=True):
        got = ReferenceEvaluator(made, new_ops=ops).run(None, feeds)
        assert [one.tolist() for one in got] == [
            np.asarray(one).tolist() for one in results
        ]


@pytest.mark.parametrize("opset", [19, 22, 23, 25])
def test_the_opset_sets_the_type_of_the_division(opset):
    inputs = (np.float16([0.25, 1.05]), np.float16(0.1), np.uint8(0))
    made, feeds = model("QuantizeLinear", inputs, opset)
    got = ReferenceEvaluator(made, new_ops=OPS).run(None, feeds)
    assert got[0].tolist() == ([3, 11] if opset < 23 else [2, 10])


@pytest.mark.parametrize(
    ("number", "array_type", "name"),
    [
        (TensorProto.INT8, np.int8, "int8"),
        (TensorProto.UINT16, np.uint16, "uint16"),
        (TensorProto.INT4, onnx.helper.tensor_dtype_to_np_dtype(TensorProto.INT4), "int4"),
    ],
)
def test_output_dtype_in_each_form(number, array_type, name):
    expected = np.array([1, 2, 4]).astype(array_type)
    for form in (number, int(number), array_type, np.dtype(array_type), name):
        got = pyquant.onnx.quantize_linear(f32(1, 2, 3.5), f32(1)[0], output_dtype=form)
        same(got, expected)


def test_precision_in_each_form():
    x, scale = np.array([0.25, 1.05], np.float16), np.float16(0.1)
    for form in (TensorProto.FLOAT, 1, np.float32, np.dtype("float32"), "float32"):
        got = pyquant.onnx.quantize_linear(x, scale, precision=form)
        same(got, np.array([3, 11], np.uint8))
