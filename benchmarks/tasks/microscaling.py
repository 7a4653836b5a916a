# SPDX-License-Identifier: Apache-2.0
"""Choose scales and quantize to blocks of MX and NVFP4. The rival is torchao."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import Any, Literal

import numpy as np

from benchmarks.arrays import Array
from benchmarks.rivals import Candidate
from benchmarks.rivals.torch import torch_on_one_thread
from benchmarks.tasks._task import Made, Task, rows
from pyquant.weights import mx, nvfp4

MX = {"mxfp4": "float4_e2m1fn", "mxfp8": "float8_e4m3fn"}
TORCHAO = "torchao.prototype.mx_formats"


def _bytes(result: Any) -> Array:
    """Return the elements as an array of bytes, whether packed or not."""
    codes = next(iter(result.tensors().values()))
    return np.asarray(codes.view(np.uint8).ravel())


def _of_torch(result: Any) -> Array:
    """Return the elements of a pair (scales, elements) as an array of bytes."""
    torch = import_module("torch")
    return np.asarray(result[1].contiguous().view(torch.uint8).numpy().ravel())


def _mx_by_torchao(x: Array, name: str) -> Candidate:
    torch = torch_on_one_thread()
    to_mx = import_module(f"{TORCHAO}.mx_tensor").to_mx
    kind = getattr(torch, {"float4_e2m1fn": "float4_e2m1fn_x2"}.get(name, name))
    t = torch.from_numpy(x)
    return Candidate(lambda: to_mx(t, kind, 32), _of_torch)


def _nvfp4_by_torchao(x: Array, scale: np.float32) -> Candidate:
    torch = torch_on_one_thread()
    quantize = import_module(f"{TORCHAO}.nvfp4_tensor").nvfp4_quantize
    t, given = torch.from_numpy(x), torch.tensor(float(scale))
    return Candidate(lambda: quantize(t, 16, given), _of_torch)


def _mx(n: int, name: str) -> Made:
    x = rows(n)
    dtype = MX[name]
    packed = dtype == "float4_e2m1fn"
    return Made(
        x.size,
        x.nbytes + x.size // (2 if packed else 1),
        lambda: mx.quantize(x, dtype),
        _bytes,
        {"torch": partial(_mx_by_torchao, x, dtype)},
    )


def _nvfp4(n: int, like: Literal["torchao", "compressed_tensors"]) -> Made:
    x = rows(n)
    *_, single = nvfp4.quantize(x, like=like).tensors().values()
    scale = np.float32(single.reshape(()))
    rivals = {"torch": partial(_nvfp4_by_torchao, x, scale)} if like == "torchao" else {}
    return Made(
        x.size,
        x.nbytes + x.size // 2,
        lambda: nvfp4.quantize(x, scale, like=like),
        _bytes,
        rivals,
    )


def _to_numbers(n: int) -> Made:
    x = rows(n)
    y = np.empty_like(x)
    b = nvfp4.quantize(x)
    return Made(
        x.size,
        x.nbytes + x.size // 2,
        lambda: b.dequantize(out=y),
    )


TASKS = [
    *(Task(name, partial(_mx, name=name)) for name in MX),
    Task("nvfp4", partial(_nvfp4, like="torchao")),
    Task("nvfp4-divisor", partial(_nvfp4, like="compressed_tensors")),
    Task("nvfp4-f32", _to_numbers),
]
