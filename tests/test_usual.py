"""Compare the short path of common calls with the general path: equal bits and errors."""

import numpy as np
import pytest
from support import (
    CODES,
    HAVE_BFLOAT16,
    NARROW,
    REALS,
    adversarial,
    loop,
    run_python,
    same,
)

import pyquant as pq
from pyquant.dtypes import TYPES

# NumPy has no arrays of these types without ml_dtypes.
CODE_NAMES = [*(dtype.name for dtype in CODES), *(NARROW if HAVE_BFLOAT16 else ())]
SCALE = 0.3


def data(real, n):
    with np.errstate(all="ignore"):
        return adversarial("float32", SCALE, max(n, 1)).ravel()[:n].astype(real)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4), (1,) * 64])
def test_shapes(shape):
    x = np.full(shape, 0.75, np.float32)
    due = np.full(shape, 3, np.int8)
    same(pq.quantize(x, 0.25), due)
    same(pq.dequantize(due, 0.25), x)
    packed = pq.quantize(x, 0.25, dtype="int4", packed=True)
    assert packed.shape == shape
    same(pq.dequantize(packed, 0.25), x)


# Numbers and scales that give wrong codes if subnormal numbers count as zeros.
TINY = np.array([1, -1, 3, 2**22, -(2**22), 2**23 - 1, 2**23, -(2**24), 0], np.float64)
TINY = np.concatenate([TINY * 2.0**-149, [-0.0, 1.0, -77.5, np.inf, -np.inf, np.nan]])
TINY_SCALES = (0.3, -1.0, 2.0**-124, -(2.0**-125), 2.0**-126, 1e-40, 5e-324, 0.0, np.nan)


def with_gaps(array):
    """Return an equal array with gaps between its elements in memory."""
    return np.repeat(array, 2)[::2]


@pytest.mark.parametrize("code", CODE_NAMES)
@loop("real", REALS)
def test_contiguous_path_equals_general_loop(real, code):
    """Compare contiguous arrays, which need no plan of the loops, with arrays with gaps."""
    with np.errstate(all="ignore"):
        x = np.tile(TINY, 3).astype(real)
    q = pq.quantize(np.arange(200, dtype=np.float32), 1.0, dtype=code)
    integer = TYPES[code].kind == "integer"
    for rounding in ("half_even", "floor", "away") if integer else ("half_even",):
        for zero in (None, 1) if integer else (None,):
            for scale in TINY_SCALES:
                how = {"dtype": code, "rounding": rounding}
                due = pq.quantize(with_gaps(x), scale, zero, **how)
                back = pq.dequantize(with_gaps(q), scale, zero, dtype=real)
                for one in (scale, np.array(scale)):
                    same(pq.quantize(x, one, zero, **how), due)
                    same(pq.dequantize(q, one, zero, dtype=real), back)


# A short path reads the arguments of quantize and dequantize without a copy. A call
# uses the general path if a keyword is not identical to the signature's string object.
ARGUMENTS = {
    "a scale by its name": (["x"], {"scale": 0.3}),
    "all by place": (["x", 0.3, 5], {}),
    "a zero point by its name": (["x", 0.3], {"zero_point": 5}),
    "both by names": (["x"], {"zero_point": 5, "scale": 0.3}),
    "an axis": (["x", np.float32([0.3, 0.5])], {"axis": 0}),
    "blocks": (["x", np.float32([[0.3, 0.5]] * 2)], {"block_size": 3, "axis": -1}),
    "blocks alone": (["x", np.float32([[0.3, 0.5]])], {"block_size": (2, 3)}),
    "its dimensions": (["x", np.float32([[0.3], [0.5]])], {}),
}
BOTH = {pq.quantize: "uint8", pq.dequantize: "float64"}  # not the default types


@pytest.mark.parametrize("name", ARGUMENTS)
@pytest.mark.parametrize("function", BOTH)
def test_arguments_by_place_and_name(function, name):
    (_, *places), named = ARGUMENTS[name]
    x = data("float32", 12).reshape(2, 6)
    x = x if function is pq.quantize else pq.quantize(x, 0.3)
    for more in ({}, {"dtype": BOTH[function]}, {"threads": 2}, {"offset": 1.0}):
        given = {**named, **more}
        due = function(x, *places, **{"".join(list(k)): given[k] for k in given})
        same(function(x, *places, **given), due)
        same(function(x, *places, **dict(reversed(given.items()))), due)
        out = np.empty_like(due)
        assert function(x, *places, **given, out=out) is out
        same(out, due)


# For the first array of an ml_dtypes type, pyquant runs Python code. During this time, a
# different thread may change the dtype of the array.
CHANGES = {
    "import": """
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "ml_dtypes":
            x.dtype = np.complex128
sys.meta_path.insert(0, Finder())
assert pq.quantize(x, 1.0, dtype="int4").shape == (1 << 20,)
""",
    "look": """
import ml_dtypes
out = np.zeros(1 << 18, ml_dtypes.bfloat16)
q = x.view(np.int32)
def change(frame, event, arg):
    if event == "call":
        q.dtype = np.complex128
sys.setprofile(change)
try:
    pq.dequantize(q, 1.0, out=out)
except ValueError as error:
    sys.setprofile(None)
    assert str(error).startswith("out: expected shape"), error
else:
    raise AssertionError
""",
}


@pytest.mark.skipif(not HAVE_BFLOAT16, reason="needs ml_dtypes")
@pytest.mark.parametrize("how", CHANGES)
def test_an_array_that_gets_another_type(how):
    done = run_python(f"""
import sys, warnings
import numpy as np
import pyquant as pq
warnings.simplefilter("ignore")
x = np.ones(1 << 20, np.float32)
{CHANGES[how]}
print("right")
""")
    assert done.stdout == "right\n", done.stderr
