"""Run gguf-py, which encodes and decodes GGUF blocks with NumPy."""

from importlib.metadata import version

import gguf
import numpy as np
from conformance.adapters import arguments, need

NAME, VERSION = "gguf", version("gguf")
OPS = ["ggml.decode", "ggml.encode"]


def results(call):
    args = arguments(call)
    kind = getattr(gguf.GGMLQuantizationType, args["type"], None)
    need(kind in gguf.quants._type_traits, "a type")
    need(not {"weights", "search"} & set(args), "weights of elements")
    with np.errstate(all="ignore"):
        try:
            if call.op == "ggml.decode":
                return [gguf.quants.dequantize(args["blocks"], kind)]
            return [gguf.quants.quantize(args["x"], kind)]
        except NotImplementedError as error:
            need(False, str(error))
