"""Run the casts of ml_dtypes from and to its types. Casts to float8 do not saturate."""

import ml_dtypes
import numpy as np
from conformance.adapters import need
from conformance.adapters._casts import OPS as OPS
from conformance.adapters._casts import cast_of

NAME, VERSION = "ml_dtypes", ml_dtypes.__version__


def results(call):
    x, to, saturate = cast_of(call)
    own = [dtype.isbuiltin != 1 for dtype in (x.dtype, to)]
    need(any(own), "a type of NumPy itself")
    need("int" not in to.name, "integers, which it does not round")
    need(not (saturate and to.name.startswith("float8_")), "saturation")
    with np.errstate(all="ignore"):
        return [x.astype(to)]
