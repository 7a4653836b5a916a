# SPDX-License-Identifier: Apache-2.0
"""PyTorch: its operators for quantization, and a sequence of plain operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import dtypes
from benchmarks.arrays import Array, Case
from benchmarks.forms import Form
from benchmarks.rivals._rival import Candidate

QUANTIZED = {"int8": "qint8", "uint8": "quint8", "int32": "qint32"}
FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32")
# Types of ml_dtypes, and for each an integer type of equal size. `from_numpy` accepts only
# the integer type.
BITS = {"bfloat16": np.uint16, **dict.fromkeys(FLOATS, np.uint8)}


def torch_on_one_thread() -> Any:
    """Return the package, set to one thread."""
    torch = import_module("torch")
    torch.set_num_threads(1)
    return torch


def _tensor(torch: Any, array: Array, name: str) -> Any:
    """Return a tensor that shares the memory of an array, ml_dtypes included."""
    if name in BITS:
        return torch.from_numpy(array.view(BITS[name])).view(getattr(torch, name))
    return torch.from_numpy(array)


def _from_torch(torch: Any, tensor: Any) -> Array:
    """Return the elements of a tensor as an array. Narrow floats become their bits."""
    if tensor.dtype.is_floating_point and tensor.element_size() < 4:
        tensor = tensor.view({1: torch.uint8, 2: torch.int16}[tensor.element_size()])
    return np.asarray(tensor.numpy())


def _parameters(torch: Any, case: Case) -> tuple[str, tuple[Any, ...]]:
    """Return the suffix of the operators, and the arguments for the granularity."""
    axis = case.where.get("axis")
    if axis is None:
        return "per_tensor", (float(case.scale), case.form.zero_point)
    scale = torch.from_numpy(case.scale)
    zeros = torch.from_numpy(np.broadcast_to(case.zero, scale.shape).astype(np.int64))
    return "per_channel", (scale, zeros, axis)


# ---- operators for quantization ----


def _cast(torch: Any, case: Case) -> Candidate:
    """Divide, then cast to a narrow float with `copy_` into an existing tensor."""
    form = case.form
    x = _tensor(torch, case.x, form.source)
    out = torch.empty(x.shape, dtype=getattr(torch, form.target))
    spread = torch.from_numpy(np.asarray(case.spread))
    unit = form.granularity == "unit"
    kept = None if unit else torch.empty_like(x)

    def quantize() -> Any:
        return out.copy_(x if unit else torch.div(x, spread, out=kept))

    def dequantize() -> Any:
        out.copy_(x)
        return out if unit else out.mul_(spread)

    return Candidate(
        quantize if form.quantizes else dequantize, partial(_from_torch, torch)
    )


def _native(torch: Any, case: Case) -> Candidate:
    """
    Return torch.quantize_per_tensor, torch.quantize_per_channel or their inverses.

    The time excludes `int_repr`, which copies the codes.
    """
    form = case.form
    x = _tensor(torch, case.x, form.source)
    granularity, parameters = _parameters(torch, case)
    if form.quantizes:
        quantize = getattr(torch, f"quantize_{granularity}")
        dtype = getattr(torch, QUANTIZED[form.target])
        return Candidate(
            lambda: quantize(x, *parameters, dtype),
            lambda t: np.asarray(t.int_repr().numpy()),
        )
    wrap = getattr(torch, f"_make_{granularity}_quantized_tensor")
    if form.layout == "plain":
        return Candidate(wrap(x, *parameters).dequantize, partial(_from_torch, torch))
    # The time includes the copy to contiguous codes, and the copy of the result to C order.
    return Candidate(
        lambda: wrap(x, *parameters).dequantize().contiguous(), partial(_from_torch, torch)
    )


def _decomposed(torch: Any, case: Case) -> Candidate:
    """Return a call of torch.export's operators, which pass over the data several times."""
    form = case.form
    granularity, parameters = _parameters(torch, case)
    keywords = {} if form.quantizes else {"out_dtype": getattr(torch, form.target)}
    import_module("torch.ao.quantization.fx._decomposed")
    verb = "quantize" if form.quantizes else "dequantize"
    operator = getattr(torch.ops.quantized_decomposed, f"{verb}_{granularity}")
    x, dtype = _tensor(torch, case.x, form.source), getattr(torch, form.code)
    info = torch.iinfo(dtype)
    arguments = (*parameters, info.min, info.max, dtype)
    return Candidate(
        lambda: operator(x, *arguments, **keywords), partial(_from_torch, torch)
    )


def _operators(form: Form) -> Callable[[Any, Case], Candidate] | None:
    """Return the builder for the types of a form."""
    if form.code in FLOATS:
        return _cast
    if form.code in QUANTIZED and form.real == "float32":
        return _native
    return _decomposed if form.code in INTEGERS and form.real != "float64" else None


def with_torch(case: Case) -> Candidate | None:
    """Return the operator of PyTorch for the form, if it has one."""
    form = case.form
    if form.packed or not form.usual:
        return None
    torch, operators = torch_on_one_thread(), _operators(form)
    # The operators return new tensors, which have no gaps, and they do not support blocks.
    if form.layout == "out2" or "block_size" in case.where or operators is None:
        return None
    return operators(torch, case)


# ---- plain operators ----


def _eager_zeros(torch: Any, case: Case) -> Any:
    """Return zero points in the type of the computation, or `None` if all are 0."""
    if case.form.zeros is None:
        return case.form.zero_point or None
    wide: Array = case.zero_spread.astype(case.form.computed)
    return torch.from_numpy(wide)


def _eager_quantize(torch: Any, case: Case, out: Any) -> Callable[[], Any]:
    form = case.form
    limits = dtypes.limits_within(form.target, np.dtype(form.computed).type)
    assert limits is not None  # the type is in INTEGERS
    x, spread = _tensor(torch, case.x, form.source), torch.from_numpy(np.array(case.spread))
    kept = torch.empty_like(x, dtype=getattr(torch, form.computed))  # strides of `x`
    lowest, highest = map(float, limits)
    zeros = _eager_zeros(torch, case)

    def call() -> Any:
        torch.div(x, spread, out=kept)
        kept.round_()
        if zeros is not None:
            kept.add_(zeros)
        return out.copy_(kept.clamp_(lowest, highest))

    return call


def _eager_dequantize(torch: Any, case: Case, out: Any) -> Callable[[], Any]:
    form = case.form
    x, spread = _tensor(torch, case.x, form.source), torch.from_numpy(np.array(case.spread))
    wide, zeros = getattr(torch, form.computed), _eager_zeros(torch, case)
    t = out if out.dtype == wide else torch.empty_like(x, dtype=wide)

    def call() -> Any:
        t.copy_(x)
        if zeros is not None:
            t.sub_(zeros)
        t.mul_(spread)
        return t if t is out else out.copy_(t)

    return call


def with_torch_eager(case: Case) -> Candidate | None:
    """Return the steps of the NumPy code as plain operators of PyTorch, in place."""
    form = case.form
    if form.packed or not form.usual or form.code not in INTEGERS or case.out is None:
        return None
    torch = torch_on_one_thread()
    make = _eager_quantize if form.quantizes else _eager_dequantize
    out = _tensor(torch, case.out, form.target)
    return Candidate(make(torch, case, out), partial(_from_torch, torch))
