# SPDX-License-Identifier: Apache-2.0
"""
What else can do it: for each rival, the call that does what a form does, or none.

A rival reads the case's own input and, where it can, writes into memory of its own that it
uses again, so that nobody pays for a fresh result that others do not pay for.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module, metadata
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks import arrays
from benchmarks.arrays import Array, Case
from benchmarks.forms import SHORT, Form
from pyquant import _core

SAME, OTHER_BITS, CAST = "", "~", "c"
# What the marks are called where ratios to the fastest rival of a mark are shown.
MARKS = {SAME: "same bits", OTHER_BITS: "other bits", CAST: "cast"}
LEGEND = {
    OTHER_BITS: "gives other bits than the standards: a reciprocal instead of the "
    "division, a type in between, or scales of its own choice",
    CAST: "a cast alone, without scale or zero point",
}


class Candidate(NamedTuple):
    """A call to time, how its result reads as an array, and what is known of its bits."""

    call: Callable[[], Any]
    read: Callable[[Any], Array] = np.asarray
    mark: str = SAME


Builder: TypeAlias = Callable[[Case], Candidate | None]


class Rival(NamedTuple):
    """Name in tables, name to install, the builder of its candidate."""

    name: str
    package: str
    build: Builder


def _plain(case: Case) -> bool:
    """Whether arrays are contiguous, rounding is usual, one thread and no method."""
    form = case.form
    usual = form.rounding == "half_even" and form.precision is None
    return usual and form.layout == "plain" and form.threads == 1 and not form.method


def _grouped(case: Case) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """
    Shapes of input and scales that broadcast over each other.

    A dimension in blocks becomes two, one of which is the block.
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


# ---- pyquant on one thread, beside itself on several ----


def one_thread(case: Case) -> Candidate | None:
    """The same call without `threads=`."""
    if case.form.threads == 1:
        return None
    isa = arrays.levels(case.form)[0]
    return Candidate(arrays.pyquant_call(case, isa, threads=1), arrays.as_array)


# ---- NumPy, and ml_dtypes for the types that NumPy lacks ----

# In place, as somebody would write it who wants speed; for ties the usual formulas. `u` is
# memory for one thing more.
Rounding: TypeAlias = Callable[[Array, Array], object]
ROUNDINGS: dict[str, Rounding] = {
    "half_even": lambda t, u: np.rint(t, out=t),
    "floor": lambda t, u: np.floor(t, out=t),
    "ceil": lambda t, u: np.ceil(t, out=t),
    "trunc": lambda t, u: np.trunc(t, out=t),
    "away": lambda t, u: np.copysign(np.ceil(np.abs(t, out=u), out=u), t, out=t),
    "half_up": lambda t, u: np.floor(np.add(t, 0.5, out=t), out=t),
    "half_down": lambda t, u: np.ceil(np.subtract(t, 0.5, out=t), out=t),
    "half_away": lambda t, u: np.copysign(
        np.floor(np.add(np.abs(t, out=u), 0.5, out=u), out=u), t, out=t
    ),
    "half_toward_zero": lambda t, u: np.copysign(
        np.ceil(np.subtract(np.abs(t, out=u), 0.5, out=u), out=u), t, out=t
    ),
}


def _limits(name: str, real: Any) -> tuple[Any, Any] | None:
    """The range of an integer type, in numbers of `real` that do not exceed it."""
    limits = _core.limits(name)
    if limits is None:
        return None
    high = real(limits[1])
    return real(limits[0]), high if high <= limits[1] else np.nextafter(high, real(0))


def _repeated(case: Case) -> Any:
    """The scales as NumPy is fastest with: of small planes one for each element."""
    if case.form.granularity.startswith("plane"):
        return np.broadcast_to(case.spread, case.x.shape).copy()
    return case.spread


def _numpy_quantize(case: Case) -> Candidate:
    form, x = case.form, case.x
    real = np.float64 if form.source == "float64" else np.float32
    target = _core.dtype_named(form.target)
    # Of the layout of `x`: where that is transposed, the codes are, which are smaller.
    t, u = np.empty_like(x, real), np.empty_like(x, real)
    codes = np.empty_like(x, target) if form.layout == "transposed" else t
    spread, limits = _repeated(case), _limits(form.target, real)
    rounded = ROUNDINGS[form.rounding]

    def call() -> Array:
        np.divide(x, spread, out=t, casting="unsafe")
        if limits is not None:
            rounded(t, u)
            if form.zero_point:
                np.add(t, form.zero_point, out=t)
            np.clip(t, *limits, out=t)
        if case.out is None:
            return t.astype(target)
        if codes is not t:
            np.copyto(codes, t, casting="unsafe")
        np.copyto(case.out, codes, casting="unsafe")
        return case.out

    def packed() -> Array:
        codes = call().reshape(-1).view(np.uint8)
        width = 8 // _core.packed_per_byte(form.target)
        codes &= (1 << width) - 1
        data = codes[:: 8 // width].copy()
        for place in range(1, 8 // width):
            part = codes[place :: 8 // width]
            data[: part.size] |= part << place * width
        return data

    return Candidate(packed if form.packed else call)


def _numpy_dequantize(case: Case) -> Candidate:
    form = case.form
    real = np.float64 if form.target == "float64" else np.float32
    target, source = _core.dtype_named(form.target), case.x.dtype
    narrow = case.out is not None and case.out.dtype != real
    kept = np.empty(case.x.shape, real) if narrow or case.out is None else case.out
    spread = _repeated(case)

    def unpacked() -> Array:
        if not form.packed:
            return case.x
        per_byte = _core.packed_per_byte(form.source)
        width, data = 8 // per_byte, case.given.data
        codes = np.empty(data.size * per_byte, np.uint8)
        for place in range(per_byte):
            codes[place::per_byte] = data >> place * width & (1 << width) - 1
        return codes[: case.x.size].view(source).reshape(case.x.shape)

    def call() -> Array:
        t = np.empty(case.x.shape, real) if form.fresh else kept
        np.copyto(t, unpacked(), casting="unsafe")
        if form.zero_point:
            np.subtract(t, form.zero_point, out=t)
        np.multiply(t, spread, out=t)
        if t.dtype == target:
            return t
        if case.out is None:
            return t.astype(target)
        np.copyto(case.out, t, casting="unsafe")
        return case.out

    return Candidate(call)


def _needs_ml_dtypes(case: Case) -> bool:
    return any(not hasattr(np, name) for name in (case.form.source, case.form.target))


def _numpy_idiom(case: Case) -> Candidate:
    return (_numpy_quantize if case.form.quantizes else _numpy_dequantize)(case)


def with_numpy(case: Case) -> Candidate | None:
    """The usual lines of NumPy, in place."""
    return None if _needs_ml_dtypes(case) or case.form.precision else _numpy_idiom(case)


def with_ml_dtypes(case: Case) -> Candidate | None:
    """The same lines, with the casts of ml_dtypes."""
    import_module("ml_dtypes")
    return _numpy_idiom(case) if _needs_ml_dtypes(case) else None


# ---- ONNX Runtime ----

ONNX_REALS = {"float32": "FLOAT", "float16": "FLOAT16"}
ONNX_CODES = {
    name: name.upper().replace("_", "")
    for name in SHORT
    if name.startswith(("int", "uint", "float8"))
}
# int2 and uint2 came with opset 25; an older one is better known to the runtime otherwise.
ONNX_OPSETS = {"int2": 25, "uint2": 25}
ONNX_OPSET = 21
ONNX_IR = 10
# Type code of ONNX and quantized type that the runtime has in one direction alone.
ONNX_MISSING = {(True, "int32"), (True, "uint32"), (False, "uint32")}


def _onnx_granularity(case: Case) -> dict[str, int] | None:
    """Attributes of the operators; None for what they cannot say."""
    axis, block = case.where.get("axis"), case.where.get("block_size")
    if isinstance(block, tuple):
        return None
    attributes = {"axis": axis, "block_size": block}
    return {key: value for key, value in attributes.items() if value is not None}


def _onnx_session(case: Case, attributes: dict[str, int], scale: Array) -> Any:
    """A model of one operator, scale and zero point in it, on one thread."""
    onnx, runtime = import_module("onnx"), import_module("onnxruntime")
    form, helper, types = case.form, onnx.helper, onnx.TensorProto
    real = getattr(types, ONNX_REALS[form.real])
    code = getattr(types, ONNX_CODES[form.code])
    zeros = np.full(scale.shape, form.zero_point, np.int64).reshape(-1).tolist()
    constants = [
        onnx.numpy_helper.from_array(scale, "scale"),
        helper.make_tensor("zero", code, scale.shape, zeros),
    ]
    source, target = (real, code) if form.quantizes else (code, real)
    operator = "QuantizeLinear" if form.quantizes else "DequantizeLinear"
    node = helper.make_node(operator, ["x", "scale", "zero"], ["y"], **attributes)
    x = helper.make_tensor_value_info("x", source, case.x.shape)
    y = helper.make_tensor_value_info("y", target, case.x.shape)
    graph = helper.make_graph([node], "form", [x], [y], constants)
    opset = helper.make_opsetid("", ONNX_OPSETS.get(form.code, ONNX_OPSET))
    model = helper.make_model(graph, opset_imports=[opset], ir_version=ONNX_IR)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = runtime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session, source, target


def with_onnxruntime(case: Case) -> Candidate | None:
    """QuantizeLinear or DequantizeLinear, input and output bound to memory."""
    form, attributes = case.form, _onnx_granularity(case)
    known = form.real in ONNX_REALS and form.code in ONNX_CODES
    known = known and (form.quantizes, form.code) not in ONNX_MISSING
    if not known or attributes is None or not _plain(case):
        return None
    if form.code.endswith(("int4", "int2")) and not form.packed:
        return None  # ONNX has them packed only
    scale = np.asarray(case.scale, _core.dtype_named(form.real))
    session, source, target = _onnx_session(case, attributes, scale)
    x = case.given.data if form.packed and not form.quantizes else case.x
    size = case.x.size
    if form.packed and form.quantizes:
        out = np.empty(-(-size // _core.packed_per_byte(form.target)), np.uint8)
    else:
        out = np.empty(case.x.shape, _core.dtype_named(form.target))
    # It holds addresses only: the case keeps the input, and `call` the output.
    binding, shape = session.io_binding(), case.x.shape
    binding.bind_input("x", "cpu", 0, source, shape, x.ctypes.data)
    if form.fresh:
        binding.bind_output("y", "cpu")

        def fresh() -> Any:
            session.run_with_iobinding(binding)
            return binding.get_outputs()[0]

        return Candidate(fresh, lambda value: np.asarray(value.numpy()))
    binding.bind_output("y", "cpu", 0, target, shape, out.ctypes.data)

    def call() -> Array:
        session.run_with_iobinding(binding)
        return out

    return Candidate(call)


# ---- PyTorch ----

TORCH_QUANTIZED = {"int8": "qint8", "uint8": "quint8", "int32": "qint32"}
TORCH_FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
TORCH_DECOMPOSED = ("int8", "uint8", "int16", "uint16", "int32")
TORCH_BITS = {"bfloat16": np.uint16, **dict.fromkeys(TORCH_FLOATS, np.uint8)}


def _tensor(torch: Any, array: Array, name: str) -> Any:
    """A tensor on the memory of an array, also of a type that only ml_dtypes has."""
    if name in TORCH_BITS:
        return torch.from_numpy(array.view(TORCH_BITS[name])).view(getattr(torch, name))
    return torch.from_numpy(array)


def _from_torch(torch: Any, tensor: Any) -> Array:
    """The bits of a tensor's elements as an array."""
    if tensor.dtype.is_floating_point and tensor.element_size() < 4:
        tensor = tensor.view({1: torch.uint8, 2: torch.int16}[tensor.element_size()])
    return np.asarray(tensor.numpy())


def _torch_cast(torch: Any, case: Case) -> Candidate:
    """Narrow floats: `to`, or `copy_` into a tensor that is there, after the division."""
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
        quantize if form.quantizes else dequantize, lambda t: _from_torch(torch, t)
    )


def _torch_native(torch: Any, case: Case) -> Candidate:
    """
    torch.quantize_per_tensor, torch.quantize_per_channel, and their way back.

    Timed without `int_repr`, which would copy the codes.
    """
    form, axis = case.form, case.where.get("axis")
    dtype = getattr(torch, TORCH_QUANTIZED[form.code])
    x = _tensor(torch, case.x, form.source)
    if axis is None:
        arguments: tuple[Any, ...] = (float(case.scale), form.zero_point)
        quantize, wrap = torch.quantize_per_tensor, torch._make_per_tensor_quantized_tensor
    else:
        scale = torch.from_numpy(case.scale)
        zeros = torch.full(scale.shape, form.zero_point, dtype=torch.int64)
        arguments = (scale, zeros, axis)
        quantize = torch.quantize_per_channel
        wrap = torch._make_per_channel_quantized_tensor
    if form.quantizes:
        return Candidate(
            lambda: quantize(x, *arguments, dtype),
            lambda t: np.asarray(t.int_repr().numpy()),
        )
    if form.layout != "plain":
        # To make the codes contiguous belongs to the work, and so does C order.
        return Candidate(
            lambda: wrap(x, *arguments).dequantize().contiguous(),
            lambda t: np.asarray(t.numpy()),
        )
    return Candidate(wrap(x, *arguments).dequantize, lambda t: np.asarray(t.numpy()))


def _torch_decomposed(torch: Any, case: Case) -> Candidate | None:
    """The operators of torch.export, several passes each, for types the others lack."""
    form, axis, block = case.form, case.where.get("axis"), case.where.get("block_size")
    import_module("torch.ao.quantization.fx._decomposed")
    operators = torch.ops.quantized_decomposed
    limits = _core.limits(form.code)
    if limits is None or form.real == "float64":
        return None
    x, dtype = _tensor(torch, case.x, form.source), getattr(torch, form.code)
    keywords = {} if form.quantizes else {"out_dtype": getattr(torch, form.target)}
    verb = "quantize" if form.quantizes else "dequantize"
    if axis is None:
        operator = getattr(operators, f"{verb}_per_tensor")
        arguments = [float(case.scale), form.zero_point, *limits, dtype]
    else:
        if block is not None or form.target not in ("float32", form.code):
            return None
        scale = torch.from_numpy(case.scale)
        zeros = torch.full(scale.shape, form.zero_point, dtype=torch.int64)
        operator = getattr(operators, f"{verb}_per_channel")
        arguments, keywords = [scale, zeros, axis, *limits, dtype], {}
    return Candidate(
        lambda: operator(x, *arguments, **keywords), lambda t: _from_torch(torch, t)
    )


def with_torch(case: Case) -> Candidate | None:
    """PyTorch's operators for the purpose."""
    form = case.form
    usual = form.rounding == "half_even" and form.precision is None
    if form.packed or form.method or form.threads > 1 or not usual:
        return None
    torch = import_module("torch")
    torch.set_num_threads(1)
    if form.layout == "out2":
        return None  # these operators make their result themselves
    if form.code in TORCH_FLOATS:
        return None if "block_size" in case.where else _torch_cast(torch, case)
    if "block_size" in case.where:
        return None
    if form.code in TORCH_QUANTIZED and form.real == "float32":
        return _torch_native(torch, case)
    return _torch_decomposed(torch, case) if form.code in TORCH_DECOMPOSED else None


def with_torch_eager(case: Case) -> Candidate | None:
    """The lines of NumPy as plain operators of PyTorch, in place, one after the other."""
    form = case.form
    usual = form.rounding == "half_even" and form.precision is None
    if form.packed or form.method or form.threads > 1 or not usual:
        return None
    limits = _limits(form.code, np.float64 if form.real == "float64" else np.float32)
    if form.code not in TORCH_DECOMPOSED or limits is None or case.out is None:
        return None
    torch = import_module("torch")
    torch.set_num_threads(1)
    wide = torch.float64 if form.real == "float64" else torch.float32
    x, spread = _tensor(torch, case.x, form.source), torch.from_numpy(np.array(case.spread))
    out = _tensor(torch, case.out, form.target)
    kept = torch.empty_like(x, dtype=wide)  # of the layout of `x`
    lowest, highest = map(float, limits)

    def quantize() -> Any:
        torch.div(x, spread, out=kept)
        kept.round_()
        if form.zero_point:
            kept.add_(form.zero_point)
        return out.copy_(kept.clamp_(lowest, highest))

    def dequantize() -> Any:
        t = out if out.dtype == wide else kept
        t.copy_(x)
        if form.zero_point:
            t.sub_(form.zero_point)
        t.mul_(spread)
        return t if t is out else out.copy_(t)

    return Candidate(
        quantize if form.quantizes else dequantize, lambda t: _from_torch(torch, t)
    )


# ---- NumKong ----

NUMKONG = {
    **{name: name for name in SHORT if not name.startswith("float")},
    "float32": "float32",
    "float64": "float64",
    "float16": "float16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float6_e2m3fn": "e2m3",
    "float6_e3m2fn": "e3m2",
}
NUMKONG_MISSING = ("int4", "uint4", "int2", "uint2")


def with_numkong(case: Case) -> Candidate | None:
    """`numkong.astype` into memory that is there: a cast, whatever the scale is."""
    form = case.form
    names = NUMKONG.get(form.source), NUMKONG.get(form.target)
    cast = form.granularity in ("tensor", "unit") and form.layout in ("plain", "in2")
    missing = None in names or form.code in NUMKONG_MISSING
    if missing or not cast or not _plain_or_strided(case):
        return None
    numkong = import_module("numkong")
    if form.fresh:
        return Candidate(lambda: numkong.astype(case.x, names[1]), _bytes_of, CAST)
    if form.target in ("float32", "float64", "float16") or form.target[0] not in "fb":
        out = np.empty(case.x.shape, _core.dtype_named(form.target))
    else:
        out = numkong.empty(case.x.shape, dtype=names[1])
    return Candidate(lambda: numkong.astype(case.x, names[1], out=out), _bytes_of, CAST)


def _plain_or_strided(case: Case) -> bool:
    return _plain(case._replace(form=case.form._replace(layout="plain")))


def _bytes_of(tensor: Any) -> Array:
    return np.frombuffer(bytes(memoryview(tensor)), np.uint8)


# ---- gguf ----

# (quantized type, granularity) -> the format of llama.cpp that is nearest to it.
GGUF = {
    ("int8", "block32"): "Q8_0",
    ("int4", "block32"): "Q4_0",
    ("float4_e2m1fn", "block32"): "MXFP4",
}


def with_gguf(case: Case) -> Candidate | None:
    """Blocks of 32 in gguf-py, which chooses scales itself and stores them in float16."""
    form = case.form
    name = GGUF.get((form.code, form.granularity))
    if name is None or form.real != "float32" or case.x.shape[-1] % 32 or not _plain(case):
        return None
    gguf = import_module("gguf")
    kind = gguf.GGMLQuantizationType[name]
    if form.quantizes:
        return Candidate(lambda: gguf.quants.quantize(case.x, kind), np.asarray, OTHER_BITS)
    numbers = np.random.default_rng(0).standard_normal(case.x.shape, np.float32)
    codes = gguf.quants.quantize(numbers, kind)
    return Candidate(lambda: gguf.quants.dequantize(codes, kind), np.asarray, OTHER_BITS)


# ---- OpenVINO ----

OPENVINO = {
    **{name: short for name, short in SHORT.items() if "_" not in name},
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    "float4_e2m1fn": "f4e2m1",
}
del OPENVINO["int2"]  # it has uint2 alone
OPENVINO_OPTIONS = {
    "INFERENCE_NUM_THREADS": 1,
    "INFERENCE_PRECISION_HINT": "f32",
    "ENABLE_CPU_PINNING": False,
}


def _openvino_model(ov: Any, case: Case) -> Any:
    """Divide, round, add, clamp, convert; or convert, subtract, multiply."""
    op, form = import_module("openvino.opset13"), case.form
    real, source = np.dtype(np.float32), getattr(ov.Type, OPENVINO[form.source])
    shape, wide = _grouped(case)
    scale = np.asarray(case.scale, real)
    scale = op.constant(scale.reshape(wide) if case.where else scale)
    x = op.parameter(list(case.x.shape), source)
    split = op.reshape(x, op.constant(np.array(shape)), False)
    y = split if shape != case.x.shape else x
    limits = _core.limits(form.code)
    if form.quantizes:
        y = op.divide(op.convert(y, "f32"), scale)
        if limits is not None:
            y = op.round(y, "half_to_even")
            y = op.add(y, op.constant(real.type(form.zero_point))) if form.zero_point else y
            y = op.clamp(y, *map(float, limits))
    else:
        y = op.convert(y, "f32")
        zero = op.constant(real.type(form.zero_point))
        y = op.multiply(op.subtract(y, zero) if form.zero_point else y, scale)
    y = op.convert(y, OPENVINO[form.target])
    if shape != case.x.shape:
        y = op.reshape(y, op.constant(np.array(case.x.shape)), False)
    return ov.Core().compile_model(ov.Model([y], [x]), "CPU", OPENVINO_OPTIONS)


def _openvino_tensor(ov: Any, array: Array, name: str, shape: tuple[int, ...]) -> Any:
    """A tensor on the memory of an array."""
    if hasattr(np, name):
        return ov.Tensor(array, shared_memory=True)
    bits = {1: np.uint8, 2: np.uint16}[array.dtype.itemsize]
    return ov.Tensor(array.view(bits), list(shape), getattr(ov.Type, OPENVINO[name]))


def with_openvino(case: Case) -> Candidate | None:
    """A model of a few operators, which its CPU plugin makes one kernel of."""
    form = case.form
    known = form.source in OPENVINO and form.target in OPENVINO
    sub_byte = form.code.endswith(("int4", "int2")) or form.code == "float4_e2m1fn"
    tile = isinstance(case.where.get("block_size"), tuple)
    if not known or tile or not _plain(case) or "float64" in (form.source, form.target):
        return None
    if sub_byte and (form.quantizes or not form.packed):
        return None  # its packed types are for weights, which nothing writes
    ov = import_module("openvino")
    request = _openvino_model(ov, case).create_infer_request()
    x = case.given.data if form.packed else case.x
    shape = case.x.shape
    request.set_input_tensor(_openvino_tensor(ov, x, form.source, shape))
    out = np.empty(shape, _core.dtype_named(form.target))
    if form.fresh:
        return None  # it writes to memory that it keeps
    request.set_output_tensor(_openvino_tensor(ov, out, form.target, shape))

    def call() -> Array:
        request.infer()
        return out

    return Candidate(call)


# ---- all of them ----

JUDGED_SIZE = arrays.HARD_COUNT
# Always there, and no rival.
ONE_THREAD = Rival("1-thread", "pyquant", one_thread)
RIVALS = {
    rival.name: rival
    for rival in (
        Rival("numpy", "numpy", with_numpy),
        Rival("ml_dtypes", "ml_dtypes", with_ml_dtypes),
        Rival("onnxruntime", "onnxruntime", with_onnxruntime),
        Rival("torch", "torch", with_torch),
        Rival("torch_eager", "torch", with_torch_eager),
        Rival("numkong", "numkong", with_numkong),
        Rival("gguf", "gguf", with_gguf),
        Rival("openvino", "openvino", with_openvino),
    )
}


def version(package: str) -> str | None:
    """The version of an installed package, None without it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def differing(got: Array, expected: Array) -> float | None:
    """The fraction of elements whose bits differ; None if they cannot be compared."""
    a, b = np.ascontiguousarray(got), np.ascontiguousarray(expected)
    if a.nbytes != b.nbytes or b.size == 0:
        return None
    width = b.dtype.itemsize
    bits = [array.reshape(-1).view(np.uint8).reshape(-1, width) for array in (a, b)]
    return float((bits[0] != bits[1]).any(axis=1).mean())


class Verdict(NamedTuple):
    """What a rival's result for a form is, beside pyquant's."""

    mark: str
    differs: float  # fraction of the elements of `arrays.fill_hard`


@cache
def judge(rival: Rival, form: Form) -> Verdict | None:
    """
    Compare results, on enough numbers that are hard to round, whatever size is measured.

    None if the rival has no such form. What it raises is passed on.
    """
    case = arrays.build(form, JUDGED_SIZE)
    arrays.fill_hard(case)
    expected = arrays.as_array(arrays.pyquant_call(case, arrays.levels(form)[0])()).copy()
    made = build(rival, case)
    if made is None:
        return None
    differs = differing(made.read(made.call()), expected)
    other = made.mark == SAME and differs != 0
    return Verdict(OTHER_BITS if other else made.mark, 1.0 if differs is None else differs)


def build(rival: Rival, case: Case) -> Candidate | None:
    """A rival's candidate, which has run once."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations of the rivals are their own affair
        made = rival.build(case)
        if made is not None:
            made.call()
        return made
