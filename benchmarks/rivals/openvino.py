# SPDX-License-Identifier: Apache-2.0
"""OpenVINO: a model of a few operators, which its CPU plugin fuses."""

from __future__ import annotations

from importlib import import_module
from operator import mod
from typing import Any

import numpy as np

from benchmarks import arrays, dtypes
from benchmarks.arrays import Array, Case, Shape
from benchmarks.dtypes import PACKABLE, SHORT
from benchmarks.forms import Form
from benchmarks.rivals._rival import Candidate

# OpenVINO lacks int2, and computes float64 in float32.
MISSING = ("int2", "float64")
NAMES = {
    name: short for name, short in SHORT.items() if "_" not in name and name not in MISSING
} | {
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float4_e2m1fn": "f4e2m1",
}
OPTIONS = {
    "INFERENCE_NUM_THREADS": 1,
    "INFERENCE_PRECISION_HINT": "f32",
    "ENABLE_CPU_PINNING": False,
}
REAL = np.float32


def _has(case: Case) -> bool:
    """Return true if a model can compute the form and write to existing memory."""
    form, tile = case.form, isinstance(case.where.get("block_size"), tuple)
    known = {form.source, form.target} <= NAMES.keys()
    if not known or tile or not form.plain or form.fresh or form.zeros:
        return False
    if any(map(mod, case.x.shape, arrays.block_extents(case.x.shape, case.where))):
        # No operator supports a short last block or writes packed codes.
        return False
    return form.code not in PACKABLE or (form.packed and not form.quantizes)


def _grouped(case: Case) -> tuple[Shape, Shape]:
    """
    Return shapes for the input and the scales, so that the scales broadcast.

    A dimension with blocks becomes two dimensions: blocks, and elements of a block.
    """
    shape, wide = [], []
    blocks = arrays.block_extents(case.x.shape, case.where)
    for extent, block in zip(case.x.shape, blocks, strict=True):
        if block in (1, extent):
            shape.append(extent)
            wide.append(extent // block)
        else:
            shape += [extent // block, block]
            wide += [extent // block, 1]
    return tuple(shape), tuple(wide)


def _quantized(op: Any, x: Any, scale: Any, form: Form) -> Any:
    """Return the operators that divide, round, add and clamp."""
    y, limits = op.divide(op.convert(x, "f32"), scale), dtypes.limits(form.code)
    if limits is None:
        return y
    y = op.round(y, "half_to_even")
    if form.zero_point:
        y = op.add(y, op.constant(REAL(form.zero_point)))
    return op.clamp(y, *map(float, limits))


def _dequantized(op: Any, x: Any, scale: Any, form: Form) -> Any:
    """Return the operators that subtract and multiply."""
    y = op.convert(x, "f32")
    if form.zero_point:
        y = op.subtract(y, op.constant(REAL(form.zero_point)))
    return op.multiply(y, scale)


def _model(ov: Any, case: Case) -> Any:
    """Return a model that converts, reshapes to blocks, computes, reshapes and converts."""
    op, form = import_module("openvino.opset13"), case.form
    shape, wide = _grouped(case)
    scale = np.asarray(case.scale, REAL)
    scale = op.constant(scale.reshape(wide) if case.where else scale)
    x = op.parameter(list(case.x.shape), getattr(ov.Type, NAMES[form.source]))
    split = shape != case.x.shape
    y = op.reshape(x, op.constant(np.array(shape)), False) if split else x
    y = (_quantized if form.quantizes else _dequantized)(op, y, scale, form)
    y = op.convert(y, NAMES[form.target])
    if split:
        y = op.reshape(y, op.constant(np.array(case.x.shape)), False)
    return ov.Core().compile_model(ov.Model([y], [x]), "CPU", OPTIONS)


def _tensor(ov: Any, array: Array, name: str, shape: Shape) -> Any:
    """Return a tensor that shares the memory of an array."""
    if dtypes.in_numpy(name):
        return ov.Tensor(array, shared_memory=True)
    bits = {1: np.uint8, 2: np.uint16}[array.dtype.itemsize]
    return ov.Tensor(array.view(bits), list(shape), getattr(ov.Type, NAMES[name]))


def with_openvino(case: Case) -> Candidate | None:
    """Return a call of the compiled model on existing memory."""
    if not _has(case):
        return None
    ov = import_module("openvino")
    form, shape = case.form, case.x.shape
    request = _model(ov, case).create_infer_request()
    x = case.given.data if form.packed else case.x
    out = np.empty(shape, dtypes.dtype_named(form.target))
    request.set_input_tensor(_tensor(ov, x, form.source, shape))
    request.set_output_tensor(_tensor(ov, out, form.target, shape))

    def call() -> Array:
        request.infer()
        return out

    return Candidate(call)
