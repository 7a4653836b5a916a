# SPDX-License-Identifier: Apache-2.0
"""Requantize int32 sums of products to int8, and pixels to codes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

import pyquant as pq
from benchmarks.arrays import Array
from benchmarks.rivals import Candidate
from benchmarks.rivals.onnxruntime import one_thread_session
from benchmarks.tasks._task import Made, Task

SIZES = (1 << 16, 1 << 18, 1 << 24)
CHANNELS = 256
INNER = 64  # number of elements of a channel in tasks with the suffix `-planes`
REAL = 1e-4
MEAN, STD, COLUMNS = (0.485, 0.456, 0.406, 0.5), (0.229, 0.224, 0.225, 0.25), 64
ARITHMETICS = ("float32", "rndnu", "tflite", "tflite_single", "fbgemm")
OPSET, IR = 13, 8

# Functions from a number of elements to a shape and the axis of its channels.
SHAPES: dict[str, Callable[[int], tuple[tuple[int, ...], int | None]]] = {
    "": lambda n: ((n,), None),
    "-columns": lambda n: ((max(1, n // CHANNELS), CHANNELS), 1),
    "-planes": lambda n: ((max(1, n // CHANNELS // INNER), CHANNELS, INNER), 1),
}

# ---- rivals of tasks with one multiplier ----


def _float_by_numpy(q: Array) -> Candidate:
    real, t, out = np.float32(REAL), np.empty(q.shape, np.float32), np.empty(q.shape, "i1")

    def call() -> Array:
        np.copyto(t, q, casting="unsafe")
        np.rint(np.multiply(t, real, out=t), out=t)
        np.copyto(out, np.clip(t, -128, 127, out=t), casting="unsafe")
        return out

    return Candidate(call)


def _fixed_by_numpy(q: Array) -> Candidate:
    m, shift = (int(one) for one in pq.fixedpoint.fixed_point(REAL, "fbgemm"))

    def call() -> Any:
        rounded = (q.astype(np.int64) * m + (1 << (shift - 1))) >> shift
        return np.clip(rounded, -128, 127).astype(np.int8)

    return Candidate(call)


def _by_onnxruntime(q: Array) -> Candidate:
    """Return a model of DequantizeLinear and QuantizeLinear."""
    onnx, runtime = import_module("onnx"), import_module("onnxruntime")
    helper, types = onnx.helper, onnx.TensorProto
    constants = {"a": np.float32(REAL), "b": np.float32(1), "z": np.int8(0)}
    graph = helper.make_graph(
        [
            helper.make_node("DequantizeLinear", ["q", "a"], ["x"]),
            helper.make_node("QuantizeLinear", ["x", "b", "z"], ["y"]),
        ],
        "requantize",
        [helper.make_tensor_value_info("q", types.INT32, q.shape)],
        [helper.make_tensor_value_info("y", types.INT8, q.shape)],
        [
            onnx.numpy_helper.from_array(np.asarray(value), name)
            for name, value in constants.items()
        ],
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=IR)
    session = one_thread_session(runtime, model)
    return Candidate(lambda: session.run(None, {"q": q}), lambda results: results[0])


RIVALS: dict[str, dict[str, Callable[[Array], Candidate]]] = {
    "requantize-float32": {"numpy": _float_by_numpy, "onnxruntime": _by_onnxruntime},
    "requantize-fbgemm": {"numpy": _fixed_by_numpy},
}


def _requantize(n: int, name: str, arithmetic: Any, suffix: str, **options: Any) -> Made:
    shape, axis = SHAPES[suffix](n)
    q = np.random.default_rng(0).integers(-(2**20), 2**20, shape, dtype=np.int32)
    out = np.empty(shape, np.int8)
    real: Any = REAL
    if axis is not None:
        real = np.random.default_rng(1).uniform(0.5, 2, CHANNELS) * REAL
        options["axis"] = axis
    rivals = {rival: partial(build, q) for rival, build in RIVALS.get(name, {}).items()}
    call = partial(pq.requantize, q, real, arithmetic=arithmetic, out=out, **options)
    return Made(q.size, q.nbytes + out.nbytes, call, rivals=rivals)


def _task(arithmetic: str, suffix: str = "", **options: Any) -> Task:
    name = "-".join(["requantize", arithmetic.replace("_", "-"), *options]) + suffix
    how = {"name": name, "arithmetic": arithmetic, "suffix": suffix, **options}
    return Task(name, partial(_requantize, **how), SIZES)


# ---- pixels to codes, by QParams.requantize ----


def _codes(n: int, dtype: str, channels_last: bool) -> Made:
    shape = (max(1, n // 4 // COLUMNS), COLUMNS, 4)
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    x = image.transpose(2, 0, 1)
    x = x if channels_last else np.ascontiguousarray(x)
    pixels = pq.QParams.from_normalization(MEAN, STD, axis=0)
    target = pq.QParams(np.float32(0.0187), -14, dtype)
    out, numbers = np.empty(x.shape, dtype), np.empty(x.shape, np.float32)

    def two_calls() -> Any:
        return target.quantize(pixels.dequantize(x, out=numbers), out=out)

    call = partial(target.requantize, x, pixels, out=out)
    return Made(x.size, x.nbytes + out.nbytes, call, two_calls=two_calls)


def _codes_task(suffix: str, dtype: str = "int8", channels_last: bool = False) -> Task:
    build = partial(_codes, dtype=dtype, channels_last=channels_last)
    return Task("requantize-codes" + suffix, build, SIZES)


TASKS = [
    *map(_task, ARITHMETICS),
    _codes_task(""),
    _codes_task("-pixels", channels_last=True),
    _codes_task("-i16", "int16"),
    _task("float32", bias=1234),
    *(
        _task(arithmetic, suffix)
        for suffix in ("-columns", "-planes")
        for arithmetic in ("float32", "tflite", "fbgemm")
    ),
]
