"""NumKong: astype."""

import numkong
import numpy as np
from conformance.adapters import need
from conformance.adapters._casts import OPS as OPS
from conformance.adapters._casts import cast_of

NAME, VERSION = "numkong", numkong.__version__
TYPES = {
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float6_e2m3fn": "e2m3",
    "float6_e3m2fn": "e3m2",
} | {name: name for name in ("int8", "uint8", "int16", "uint16", "float16", "float32")}


def results(call):
    x, to, saturate = cast_of(call)
    need({x.dtype.name, to.name} <= set(TYPES), "a type")
    need(x.size and x.ndim, "an array without elements or dimensions")
    need(saturate, "no saturation")
    if x.dtype.isbuiltin == 1:
        source = x
    else:
        source = numkong.empty(x.shape, dtype=TYPES[x.dtype.name])
        np.frombuffer(source, np.uint8)[:] = x.view(np.uint8).reshape(-1)
    made = bytes(memoryview(numkong.astype(source, TYPES[to.name])))
    return [np.frombuffer(made, np.uint8).view(to).reshape(x.shape)]
