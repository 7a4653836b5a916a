# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime: a model of one operator."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import dtypes
from benchmarks.arrays import Array, Case
from benchmarks.dtypes import PACKABLE, SHORT
from benchmarks.forms import Form
from benchmarks.rivals._rival import Candidate

FLOAT8 = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
TYPES = {"float32": "FLOAT", "float16": "FLOAT16"} | {
    name: name.upper().replace("_", "")
    for name in SHORT
    if name in FLOAT8 or name.startswith(("int", "uint"))
}
# int2 and uint2 need opset 25. For all other types, the runtime
# supports more operators in OPSET.
OPSETS = {"int2": 25, "uint2": 25}
OPSET = 21
IR = 10
# Pairs of operator and quantized type that the runtime lacks.
MISSING = {
    ("QuantizeLinear", "int32"),
    ("QuantizeLinear", "uint32"),
    ("DequantizeLinear", "uint32"),
}


def _operator(form: Form) -> str:
    return "QuantizeLinear" if form.quantizes else "DequantizeLinear"


def _has(case: Case) -> bool:
    """Return true if the operators support the form, and the runtime supports its types."""
    form, tile = case.form, isinstance(case.where.get("block_size"), tuple)
    known = {form.source, form.target} <= TYPES.keys()
    if not known or tile or not form.plain or (_operator(form), form.code) in MISSING:
        return False
    return form.packed or form.code not in PACKABLE  # ONNX packs these types


def _model(onnx: Any, case: Case, scale: Array) -> Any:
    """Return a model of one operator with constant scale and zero point."""
    form, helper = case.form, onnx.helper
    source, target, code = (
        getattr(onnx.TensorProto, TYPES[name])
        for name in (form.source, form.target, form.code)
    )
    zeros = np.broadcast_to(case.zero, scale.shape).reshape(-1).tolist()
    constants = [
        onnx.numpy_helper.from_array(scale, "scale"),
        helper.make_tensor("zero", code, scale.shape, zeros),
    ]
    inputs = ["x", "scale", "zero"]
    # Attributes of the operators and arguments of pyquant have equal names.
    node = helper.make_node(_operator(form), inputs, ["y"], **case.where)
    x = helper.make_tensor_value_info("x", source, case.x.shape)
    y = helper.make_tensor_value_info("y", target, case.x.shape)
    graph = helper.make_graph([node], "form", [x], [y], constants)
    opset = helper.make_opsetid("", OPSETS.get(form.code, OPSET))
    return helper.make_model(graph, opset_imports=[opset], ir_version=IR)


def one_thread_session(runtime: Any, model: Any) -> Any:
    """Return a session on one thread, without log messages."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def _result(case: Case) -> Array:
    """Return memory for the result."""
    form = case.form
    if form.packed and form.quantizes:
        return np.empty(dtypes.packed_bytes(form.target, case.x.size), np.uint8)
    return np.empty(case.x.shape, dtypes.dtype_named(form.target))


def with_onnxruntime(case: Case) -> Candidate | None:
    """Return a call of QuantizeLinear or DequantizeLinear that uses bound memory."""
    if not _has(case):
        return None
    onnx, runtime = import_module("onnx"), import_module("onnxruntime")
    form, shape = case.form, case.x.shape
    scale = np.asarray(case.scale, dtypes.dtype_named(form.real))
    session = one_thread_session(runtime, _model(onnx, case, scale))
    source, target = (
        getattr(onnx.TensorProto, TYPES[name]) for name in (form.source, form.target)
    )
    x = case.given.data if form.packed and not form.quantizes else case.x
    # The binding stores addresses and no references. `case` keeps the input alive, and
    # `call` keeps the output alive.
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, source, shape, x.ctypes.data)
    if form.fresh:
        binding.bind_output("y", "cpu")

        def fresh() -> Any:
            session.run_with_iobinding(binding)
            return binding.get_outputs()[0]

        return Candidate(fresh, lambda value: np.asarray(value.numpy()))
    out = _result(case)
    binding.bind_output("y", "cpu", 0, target, shape, out.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return out

    return Candidate(call)
