"""Run PyTorch's quantize_per_tensor, quantize_per_channel and dequantize on CPUs."""

import warnings

import numpy as np
import torch
from conformance.adapters import arguments, need
from conformance.cases import dtype_of

NAME, VERSION = "torch", torch.__version__.split("+")[0]
warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)  # deprecated
TYPES = {"uint8": torch.quint8, "int8": torch.qint8, "int32": torch.qint32}
# For each operator, the names of the arguments with the data, the scale and the zero point.
OPS = {
    "onnx.quantize_linear": ("x", "y_scale", "y_zero_point"),
    "onnx.dequantize_linear": ("x", "x_scale", "x_zero_point"),
    "onednn.quantize": ("src", "scales", "zps"),
    "onednn.dequantize": ("src", "scales", "zps"),
}


def quantized(x, scale, zero, axis, dtype):
    """Quantize `x` and return a quantized PyTorch tensor."""
    if scale.size == 1:
        return torch.quantize_per_tensor(x, float(scale.item()), int(zero.item()), dtype)
    scale, zero = torch.from_numpy(scale), torch.from_numpy(zero.astype(np.int64))
    return torch.quantize_per_channel(x, scale, zero, axis, dtype)


def holder(q, scale, zero, axis):
    if scale.size == 1:
        scale, zero = float(scale.item()), int(zero.item())
        return torch._make_per_tensor_quantized_tensor(q, scale, zero)
    zero = torch.from_numpy(zero.astype(np.int64))
    return torch._make_per_channel_quantized_tensor(q, torch.from_numpy(scale), zero, axis)


def results(call):
    args = arguments(call)
    data, scale, zero = (args.pop(name, None) for name in OPS[call.op])
    axis, known = args.pop("axis", 1), {"dtype", "qtype", "output_dtype"}
    need(set(args) <= known and not call.refused, "an option")
    result = dtype_of(call.acceptable[0]["dtype"])
    scale = np.asarray(scale, np.float32 if isinstance(scale, list) else None)
    zero = np.zeros(scale.shape, np.int64) if zero is None else np.asarray(zero)
    if "dequantize" in call.op:
        need(data.dtype.name in TYPES and result == np.float32, "a type")
        need(scale.dtype in (np.float32, np.float64) and scale.ndim < 2, "a scale")
        return [holder(torch.from_numpy(data), scale, zero, axis).dequantize().numpy()]
    need(data.dtype == np.float32 and result.name in TYPES, "a type")
    need(scale.dtype in (np.float32, np.float64) and scale.ndim < 2, "a scale")
    x, dtype = torch.from_numpy(data), TYPES[result.name]
    return [quantized(x, scale, zero, axis, dtype).int_repr().numpy()]
