"""Compare the short path of common calls with the general path: equal bits and errors."""

import copy
import pickle

import numpy as np
import pytest
from support import (
    CODES,
    HAVE_BFLOAT16,
    NARROW,
    PACKED,
    REALS,
    adversarial,
    amount,
    run_python,
    same,
)

import pyquant as pq
from pyquant import com_microsoft, ngraph, onednn, onnx
from pyquant.dtypes import TYPES

# An array of a narrow type wants ml_dtypes; packed ones are for everybody.
CODE_NAMES = [*(dtype.name for dtype in CODES), *(NARROW if HAVE_BFLOAT16 else ())]
SCALE = 0.3
SIZES = (0, 1, 7, 33, 1000)


def data(real, n):
    with np.errstate(all="ignore"):
        return adversarial("float32", SCALE, max(n, 1)).ravel()[:n].astype(real)


def zeros_of(code):
    row = TYPES[code]
    return (None, 0, 1, row.lowest, row.highest) if row.kind == "integer" else (None,)


@pytest.mark.parametrize("code", CODE_NAMES)
@pytest.mark.parametrize("real", REALS, ids=str)
def test_quantize_as_any_call(real, code):
    for n in SIZES:
        x = data(real, n)
        for zero in zeros_of(code):
            # An array of scales is not usual.
            due = pq.quantize(x, np.array(SCALE), zero, dtype=code)
            same(pq.quantize(x, SCALE, zero, dtype=code), due)
            out = np.empty_like(due)
            assert pq.quantize(x, SCALE, zero, dtype=code, out=out) is out
            same(out, due)
            p = pq.QParams(SCALE, zero, code)
            same(p.quantize(x), due)


@pytest.mark.parametrize("real", REALS, ids=str)
@pytest.mark.parametrize("code", CODE_NAMES)
def test_dequantize_as_any_call(code, real):
    for n in SIZES:
        q = pq.quantize(data("float32", n), SCALE, dtype=code)
        for zero in zeros_of(code):
            due = pq.dequantize(q, np.array(SCALE), zero, dtype=real)
            same(pq.dequantize(q, SCALE, zero, dtype=real), due)
            out = np.empty_like(due)
            assert pq.dequantize(q, SCALE, zero, out=out) is out
            same(out, due)


@pytest.mark.parametrize("code", PACKED)
def test_packed_as_any_call(code):
    for n in SIZES:
        x = data("float32", n)
        for zero in zeros_of(code):
            due = pq.quantize(x, np.array(SCALE), zero, dtype=code, packed=True)
            got = pq.quantize(x, SCALE, zero, dtype=code, packed=True)
            assert got == due
            assert got.shape == due.shape == (n,)
            same(pq.dequantize(got, SCALE, zero), pq.dequantize(due, np.array(SCALE), zero))


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3, 4), (1,) * 64])
def test_shapes(shape):
    x = np.full(shape, 0.75, np.float32)
    due = np.full(shape, 3, np.int8)
    same(pq.quantize(x, 0.25), due)
    same(pq.dequantize(due, 0.25), x)
    packed = pq.quantize(x, 0.25, dtype="int4", packed=True)
    assert packed.shape == shape
    same(pq.dequantize(packed, 0.25), x)


# Where it would show that subnormal numbers are taken for zeros.
TINY = np.array([1, -1, 3, 2**22, -(2**22), 2**23 - 1, 2**23, -(2**24), 0], np.float64)
TINY = np.concatenate([TINY * 2.0**-149, [-0.0, 1.0, -77.5, np.inf, -np.inf, np.nan]])
TINY_SCALES = (0.3, -1.0, 2.0**-124, -(2.0**-125), 2.0**-126, 1e-40, 5e-324, 0.0, np.nan)


def apart(array):
    """Return equal elements with gaps between them."""
    return np.repeat(array, 2)[::2]


@pytest.mark.parametrize("code", CODE_NAMES)
@pytest.mark.parametrize("real", REALS, ids=str)
def test_a_run_as_what_is_walked(real, code):
    """An array in one contiguous run needs no plan. The numbers are equal."""
    with np.errstate(all="ignore"):
        x = np.tile(TINY, 3).astype(real)
    q = np.arange(200, dtype=np.uint8)
    q = pq.quantize(q.astype(np.float32), 1.0, dtype=code)
    integer = TYPES[code].kind == "integer"
    for rounding in ("half_even", "floor", "away") if integer else ("half_even",):
        for zero in (None, 1) if integer else (None,):
            for scale in TINY_SCALES:
                how = {"dtype": code, "rounding": rounding}
                due = pq.quantize(apart(x), scale, zero, **how)
                same(pq.quantize(x, scale, zero, **how), due)
                same(pq.quantize(x, np.array(scale), zero, **how), due)
                due = pq.dequantize(apart(q), scale, zero, dtype=real)
                same(pq.dequantize(q, scale, zero, dtype=real), due)
                same(pq.dequantize(q, np.array(scale), zero, dtype=real), due)


@pytest.mark.parametrize("n", [5000, 20000, 300000])
def test_long_runs(n):
    """Without the GIL, and beyond the caches."""
    x = np.linspace(-300, 300, n, dtype=np.float32)
    due = pq.quantize(apart(x), SCALE, 3)
    same(pq.quantize(x, SCALE, 3), due)
    same(pq.dequantize(due, SCALE, 3), pq.dequantize(apart(due), SCALE, 3))


@pytest.mark.parametrize("rounding", [r.value for r in pq.RoundMode])
def test_rounding(rounding):
    x = data("float32", 333)
    due = pq.quantize(x, np.array(SCALE), 3, rounding=rounding)
    same(pq.quantize(x, SCALE, 3, rounding=str(rounding)), due)


# A short path reads the arguments of quantize and dequantize in place. Keywords that are
# not identical to the interned names of the signature use the general path.
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
BOTH = {pq.quantize: "uint8", pq.dequantize: "float64"}  # another type of results


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


@pytest.mark.parametrize("function", BOTH)
def test_errors_of_arguments(function):
    x = np.ones(2, np.float32 if function is pq.quantize else np.int8)
    first = "x" if function is pq.quantize else "q"
    for places, named, text in (
        ((), {}, r"takes at least 2 positional arguments \(0 given\)"),
        (
            (x, 1.0, 0, "int8"),
            {},
            r"takes at most 3 positional arguments \(4 given\); did you mean dtype=\?",
        ),
        ((x, 1.0), {"scale": 1.0}, "got multiple values for .* 'scale'"),
        ((x, 1.0), {first: x}, f"got multiple values for .* '{first}'"),
        (
            (x, 1.0),
            {"dtyp": "int8"},
            r"got an unexpected keyword argument 'dtyp'; did you mean dtype\?",
        ),
        ((x, 1.0), {"": 1}, "got an unexpected keyword argument ''"),
    ):
        with pytest.raises(TypeError, match=rf"^{function.__name__}\(\) {text}$"):
            function(*places, **named)
    same(function(**{first: x, "scale": 1.0}), function(x, 1.0))


@pytest.mark.parametrize("function", BOTH)
def test_functions_are_known_by_their_names(function):
    assert pickle.loads(pickle.dumps(function)) is function
    assert copy.deepcopy(function) is function
    assert function.__qualname__ == function.__name__
    assert function.__module__ == "pyquant._core"


def test_what_is_not_usual():
    x = data("float32", 24).reshape(4, 6)
    due = pq.quantize(x, np.array(SCALE))
    for given in (np.asfortranarray(x), x[::-1][::-1], x.astype(">f4")):
        same(pq.quantize(given, SCALE), due)
    same(pq.quantize(x.tolist(), SCALE), pq.quantize(x.astype("f8"), SCALE))
    for out in (np.empty((6, 4), np.int8).T, np.empty((4, 12), np.int8)[:, ::2]):
        assert pq.quantize(x, SCALE, out=out) is out
        same(np.ascontiguousarray(out), due)
    unaligned = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    unaligned[...] = x
    same(pq.quantize(unaligned, SCALE), due)


def test_memory_that_is_shared_is_refused():
    memory = np.zeros(64, np.uint8)
    x, whole = memory[:32].view(np.float32), memory[:32].view(np.int8)
    for out in (whole[:8], whole[24:32]):
        with pytest.raises(ValueError, match=r"^out: expected memory of its own"):
            pq.quantize(x, 0.5, out=out)
    beside = memory[32:40].view(np.int8)
    assert pq.quantize(x, 0.5, out=beside) is beside
    q, real = memory[:8].view(np.int8), memory[4:36].view(np.float32)
    with pytest.raises(ValueError, match=r"^out: expected memory of its own"):
        pq.dequantize(q, 0.5, out=real)


# Python code runs for the first array of an ml_dtypes type. Another thread may change the
# type of the array during this code.
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


# Calls of the standards with NumPy arrays, and with objects that lend the arrays.


class Lender:
    """An object with an array that only NumPy's protocol finds."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def lent(value):
    """Return a lender instead of an array or scalar of NumPy."""
    if isinstance(value, np.ndarray | np.generic):
        return Lender(np.asarray(value))
    return value


SHAPES = [(), (1,), (6,), (4, 6), (1, 6), (2, 4, 6), (0, 6), (4, 0)]
REAL_TYPES = ["float32"] * 6 + ["float16", "float64", ">f4", "int32"]
CODE_TYPES = ["int8", "uint8"] * 4 + ["int16", "int32", ">i2", "int64", "float32"]
if HAVE_BFLOAT16:
    REAL_TYPES += ["bfloat16"]
    CODE_TYPES += ["int4", "uint4", "float8_e5m2", "float8_e4m3fn", "float8_e4m3fn"]
AXES = [0, 1, -1, 1, None, 5, -7, np.int64(0), True]


def view_of(rng, array):
    """Return equal elements in another memory layout."""
    how = rng.choice(["", "", "", "F", "stride", "list"])
    if how == "F":
        return np.asfortranarray(array)
    if how == "stride":
        wide = np.repeat(array.reshape(-1), 2)
        return wide[::2].reshape(array.shape) if array.ndim == 1 else array
    return array.tolist() if how == "list" and array.dtype.kind in "fiu" else array


def reals_of(rng, shape):
    x = np.array(rng.choice([-1e9, -3.5, -0.5, 0.0, 0.25, 1.0, 77.0, np.nan], shape))
    with np.errstate(all="ignore"):
        return view_of(rng, x.astype(rng.choice(REAL_TYPES)))


def codes_of(rng, shape):
    name = rng.choice(CODE_TYPES)
    q = np.array(rng.integers(0, 4, shape)).astype(name)
    if name in PACKED and rng.random() < 0.5:
        return pq.pack(q, rng.choice(["onnx", "words"]) if shape else "onnx")
    return view_of(rng, q)


def like(rng, shape, axis):
    """The shape of parameters: most are right."""
    fitting = [(), (1,), (6,), (4,)]
    if shape and type(axis) is int and -len(shape) <= axis < len(shape):
        fitting += [(shape[axis],)] * 6
    return fitting[rng.integers(len(fitting))]


def scales_of(rng, shape):
    values = [0.5] * 9 + [3.0, -1.0, 1e-30, 1e39, 1e-42, 0.0, 1e-300, np.inf, np.nan]
    scale = np.array(rng.choice(values, shape))
    forms = [*["float32"] * 5, *["list"] * 4, "float64", ">f8", "float16", "int32", ">f4"]
    form = rng.choice(forms)
    if form == "list":
        return scale.tolist()
    with np.errstate(all="ignore"):
        scale = scale.astype(form)
    return scale[()] if rng.random() < 0.5 else scale


def zeros_like(rng, shape):
    if rng.random() < 0.25:
        return None
    zeros = np.array(rng.integers(0, 5, shape))
    form = rng.choice(["int8", "uint8"] * 3 + ["list"] * 3 + ["int32", "int64", "far"])
    if form == "list":
        return zeros.tolist()
    if form == "far":
        return (zeros + 2**40).tolist()
    if rng.random() < 0.2 and HAVE_BFLOAT16:
        form = "uint4"
    return zeros.astype(form)[()]


def draw_onednn(rng, dynamic):
    shape = SHAPES[rng.integers(len(SHAPES))]
    qtype = rng.choice(["per_tensor", "per_channel", "per_row"], p=[0.45, 0.5, 0.05])
    axis = AXES[rng.integers(len(AXES))]
    form = like(rng, shape, axis if qtype == "per_channel" else None)
    zeros = zeros_like(rng, form if rng.random() < 0.9 else (1,))
    scales = scales_of(rng, form)
    options = {"qtype": str(qtype), "axis": axis}
    return (
        shape,
        (scales, zeros) if dynamic else (),
        (options if dynamic else {"scales": scales, "zps": zeros, **options}),
    )


TARGETS = ["u8", "s8", "uint8", np.int8, np.dtype("uint8"), "f8_e5m2", "int16", None, 3]


def onednn_quantize(rng, dynamic=False):
    shape, args, kwargs = draw_onednn(rng, dynamic)
    target = TARGETS[rng.integers(len(TARGETS))]
    function = onednn.dynamic_quantize if dynamic else onednn.quantize
    return function, (reals_of(rng, shape), *args), {**kwargs, "dtype": target}


def onednn_dequantize(rng, dynamic=False):
    shape, args, kwargs = draw_onednn(rng, dynamic)
    function = onednn.dynamic_dequantize if dynamic else onednn.dequantize
    if dynamic and rng.random() < 0.1:
        kwargs["group_shape"] = (1,) * len(shape)
    return function, (codes_of(rng, shape), *args), kwargs


def onednn_groups(rng):
    shape = SHAPES[rng.integers(len(SHAPES))]
    groups = tuple(int(rng.choice([1, 1, 2, 3, n or 1])) for n in shape)
    form = tuple(n // g for n, g in zip(shape, groups, strict=True))
    if rng.random() < 0.2:
        form = form[::-1]
    odd = [0, -1, 2**70, "1", np.int64(1), True]
    if groups and rng.random() < 0.2:
        groups = (*groups[:-1], odd[rng.integers(len(odd))])
    others = [[*groups], None, 0, groups[:1]]
    if rng.random() < 0.3:
        groups = others[rng.integers(len(others))]
    args = codes_of(rng, shape), scales_of(rng, form), zeros_like(rng, form)
    return onednn.dynamic_dequantize, args, {"qtype": "per_group", "group_shape": groups}


def draw_linear(rng, blocks):
    shape = SHAPES[rng.integers(len(SHAPES))]
    axis = AXES[rng.integers(len(AXES))]
    form, kwargs = like(rng, shape, axis), {"axis": axis}
    if blocks and shape and rng.random() < 0.5:
        odd = [0, -1, 2**70, "1", np.int64(2), True]
        block = int(rng.choice([1, 2, 3, 4, 9]))
        if type(axis) is int and -len(shape) <= axis < len(shape):
            extents = [*shape]
            extents[axis] = -(-shape[axis] // block)
            form = tuple(extents)
        kwargs["block_size"] = block if rng.random() < 0.8 else odd[rng.integers(len(odd))]
    zeros = zeros_like(rng, form if rng.random() < 0.9 else (1,))
    return shape, (scales_of(rng, form), zeros), kwargs


def linear_quantize(rng, module):
    shape, args, kwargs = draw_linear(rng, module is onnx)
    return module.quantize_linear, (reals_of(rng, shape), *args), kwargs


def linear_dequantize(rng, module):
    shape, args, kwargs = draw_linear(rng, module is onnx)
    return module.dequantize_linear, (codes_of(rng, shape), *args), kwargs


def ngraph_axes(rng, shape):
    axis = AXES[rng.integers(len(AXES))]
    axes = () if rng.random() < 0.4 else (axis,)
    form = like(rng, shape, axis) if axes else ()
    return axes, scales_of(rng, form), zeros_like(rng, form)


def ngraph_quantize(rng):
    shape = SHAPES[rng.integers(len(SHAPES))]
    axes, scale, zero = ngraph_axes(rng, shape)
    target = str(rng.choice(["i8", "u8", "uint8", "i32", "f32"]))
    args = reals_of(rng, shape), scale, zero, target, axes, "ROUND_DOWN"
    return ngraph.quantize, args, {}


def ngraph_dequantize(rng):
    shape = SHAPES[rng.integers(len(SHAPES))]
    axes, scale, zero = ngraph_axes(rng, shape)
    target = str(rng.choice(["f32", "f32", "float32", "f16", "f64", "i8"]))
    return ngraph.dequantize, (codes_of(rng, shape), scale, zero, target, axes), {}


def outcome(call):
    function, args, kwargs = call
    try:
        return function(*args, **kwargs), None
    except Exception as error:
        return None, (type(error), str(error))


DRAWS = {
    "oneDNN quantize": (onednn_quantize, {}),
    "oneDNN dequantize": (onednn_dequantize, {}),
    "oneDNN dynamic quantize": (onednn_quantize, {"dynamic": True}),
    "oneDNN dynamic dequantize": (onednn_dequantize, {"dynamic": True}),
    "oneDNN groups": (onednn_groups, {}),
    "ONNX quantize": (linear_quantize, {"module": onnx}),
    "ONNX dequantize": (linear_dequantize, {"module": onnx}),
    "ms quantize": (linear_quantize, {"module": com_microsoft}),
    "ms dequantize": (linear_dequantize, {"module": com_microsoft}),
    "nGraph quantize": (ngraph_quantize, {}),
    "nGraph dequantize": (ngraph_dequantize, {}),
}
ARRAYS = ("scales", "zps")


@pytest.mark.parametrize("name", DRAWS)
def test_standards_accept_lent_arrays(name):
    draw, options = DRAWS[name]
    results = 0
    for seed in range(amount(800, 2500)):
        function, args, kwargs = draw(np.random.default_rng(seed), **options)
        result, error = outcome((function, args, kwargs))
        args = [*map(lent, args[:3]), *args[3:]]
        changed = {k: lent(v) if k in ARRAYS else v for k, v in kwargs.items()}
        again, refused = outcome((function, args, changed))
        assert error == refused, (function, args, kwargs)
        if error is None:
            results += 1
            same(again, result)
            out = np.empty_like(result)
            threads = seed % 3 + 1
            assert function(*args, **kwargs, out=out, threads=threads) is out
            same(out, result)
    assert results > 20
