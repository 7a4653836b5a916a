"""Find calls of ai.onnx that only cast, because the scale is 1 and the zero point is 0."""

import numpy as np
from conformance.adapters import arguments, need
from conformance.cases import dtype_of

OPS = ["onnx.quantize_linear", "onnx.dequantize_linear"]


def cast_of(call):
    """Return the input of a cast, the dtype of the result, and True if float8 saturates."""
    args = arguments(call)
    scale = args.get("y_scale", args.get("x_scale"))
    zero = args.get("y_zero_point", args.get("x_zero_point"))
    need(not call.refused and np.size(scale) == 1, "more than a cast")
    need(np.asarray(scale).astype(np.float32) == 1, "a scale")
    need(zero is None or not np.asarray(zero).astype(np.float32).any(), "a zero point")
    need(not args.get("precision"), "a precision")
    to = dtype_of(call.acceptable[0]["dtype"])
    need(args["x"].dtype != np.int32 and np.asarray(scale).dtype == np.float32, "a type")
    return args["x"], to, args.get("saturate", 1)
