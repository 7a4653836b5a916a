"""Test errors: one line that names the parameter, and an unchanged `out`.

errors.txt contains calls with one wrong argument, and the expected error of each call.
"""

import functools
import importlib
import inspect
import re
import sys
from collections import deque
from pathlib import Path

import numpy as np
import public_calls
import pytest
import support
from numpy.exceptions import AxisError
from support import (
    CHOSEN_NAMES,
    CODE_NAMES,
    HAVE_BFLOAT16,
    PACKED,
    case,
    check_out,
    lent,
    observed,
    poisoned,
    untouched,
)

import pyquant as pq
from pyquant import _core, com_microsoft, ngraph, onednn, onnx
from pyquant.integrations import cf
from pyquant.packed import LAYOUTS
from pyquant.rounding import NGRAPH
from pyquant.weights.blocks import block_format

X = np.ones((2, 3), np.float32)
Q = np.ones((2, 3), np.int8)
FOREIGN = np.dtype("i4").newbyteorder("S")
READ_ONLY = np.zeros((2, 3), np.int8)
READ_ONLY.flags.writeable = False

CODES = "an integer type or a narrow float"
REALS = "float32, float64, float16 or bfloat16"
FLOATS = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
FLOATS += ("float6_e2m3fn", "float6_e3m2fn")
TEXTS = {
    "REALS": REALS,
    "CODES": CODES,
    "INTEGERS": ", ".join(dtype.name for dtype in support.CODES),
    "PACKED": ", ".join(PACKED),
    "AXES": "None, an integer or a tuple of integers",
    "MODES": ", ".join(pq.RoundMode),
    "NGRAPH": ", ".join(NGRAPH),
    "CODED": '; convert it with .astype("float32"), or change the scale of codes with '
    "QParams.requantize",
    "REAL": "; did you mean quantize?",
    "MASKED": "an array without a mask, got a masked array",
    "UNNAMED": "one element, or all dimensions of x, without axis or block_size",
    "OUTSIDE": "is out of bounds for array of dimension",
    "CODES_OF_ONNX": "uint8, int8, uint16, int16, int4, uint4, int2, uint2, "
    + ", ".join(FLOATS),
    "CODE_NAMES": CODE_NAMES,
    "CHOSEN_NAMES": CHOSEN_NAMES,
    "COMPLETE": "pass the complete array, then index the result",
    "KEYWORD": "() got an unexpected keyword argument ",
    "FOREIGN": f"the foreign byte order of {FOREIGN.str}",
    "LAYOUTS": f"{', '.join(map(repr, LAYOUTS))} or a Layout",
    "LIKE": ", ".join(_core.presets()),
    "MOST": sys.maxsize,
    "EXTENT": sys.maxsize // 8,
}


# The names that rows of errors.txt use. Rows of test modules can also use the second part.
HELPERS = {"check_out": check_out, "poisoned": poisoned}
ARGUMENTS = {
    "np": np,
    "pq": pq,
    "cf": cf,
    "deque": deque,
    "block_format": block_format,
    "observed": observed,
    "X": X,
    "Q": Q,
    "READ_ONLY": READ_ONLY,
    "FOREIGN": FOREIGN,
    "ONE": np.float32(1),
    "ZERO": np.int8(0),
    "MASKED": np.ma.masked_array(X, X > 2),
    "MODE": "ROUND_UP",
    "TWO": np.ones(2, np.float32),
    "THREE": np.ones(3, np.float32),
    "U8": np.zeros((2, 3), np.uint8),
    "ONES": np.ones((4, 8), np.float32),
    "ENDS": np.float32([1, 2]),
    "SUMS": np.int32([1, 2, 3]),
    "SUMS2": np.int32([[1, 2, 3], [4, 5, 6]]),
    "HALF": {"scale_factor": 0.5},
    # all elements are one number in memory
    "MANY": np.broadcast_to(np.float32(1), 1 << 50),
    "PARAMS": pq.QParams(1.0, 0, "int8"),
    "ROWS": pq.choose_qparams(np.float32([[1, 2, 3], [4, 5, 6]]), axis=0),
    "BYTES": np.zeros(2, np.uint8),
    "NO_BYTES": np.zeros(0, np.uint8),
    "EIGHT": np.arange(8, dtype=np.uint8),
    "STRIDED": np.zeros(4, np.uint8)[::2],
    "WORDS": np.zeros((2, 3), np.int32),
    "ALONG": pq.Layout("words", axis=0),
    "P0": pq.PackedArray.from_buffer(b"\1", "uint4", ()),
    "P1": pq.PackedArray.from_buffer(b"\1\2\3", "uint4", 5),
    "P2": pq.PackedArray.from_buffer(bytes(8), "uint2", (2, 16)),
}
if HAVE_BFLOAT16:
    import ml_dtypes

    ARGUMENTS |= {
        "ml_dtypes": ml_dtypes,
        "BF16": np.ones(3, ml_dtypes.bfloat16),
        "I4": np.zeros(3, ml_dtypes.int4),
        "I2": np.zeros(3, ml_dtypes.int2),
        "F8": np.zeros(3, ml_dtypes.float8_e4m3fn),
        "E8": np.ones(3, ml_dtypes.float8_e8m0fnu),
    }


def function_of(name):
    """Return the function that a section names. A name without a module is in pyquant."""
    root, *rest = name.split(".")
    first = ARGUMENTS[root] if root in ARGUMENTS else getattr(pq, root)
    return functools.reduce(getattr, rest, first)


def sections():
    """Return the sections of errors.txt: a dictionary from names to (operator, rows). Each
    row has the valid arguments of the section and the text of the row."""
    found, right = {}, {}
    for line in Path(__file__).with_name("errors.txt").read_text("utf-8").splitlines():
        if line.startswith("["):
            head, _, rest = line[1:].partition("]")
            operator, _, given = rest.strip().partition(": ")
            names = [operator] if head == "calls" else head.split(", ")
            if given:
                right |= zip(names, given.split("; "), strict=True)
            if head.startswith("test_"):
                names, right[head] = [head], None
            for name in names:
                found.setdefault(name, ("" if head == "calls" else operator, []))
        elif line and not line.startswith("#"):
            for name in names:
                found[name][1].append((right.get(name), line))
    return found


SECTIONS = sections()
# Operators of standards: the name of each function, its operator, and valid arguments.
OPERATORS = {
    function_of(name): (operator, rows[0][0])
    for name, (operator, rows) in SECTIONS.items()
    if operator
}
NARROW_TYPES = re.compile("ml_dtypes|float[468]|int[24]|I4|E8|F8|P[0-2]|layout|mx|packed")


def arguments(text):
    return eval(f"dict({text})", ARGUMENTS)


def call_of(name, right, wrong, names=ARGUMENTS):
    """Return a function that makes the call of a row. The text `wrong` of a row has only
    the changed arguments, or is a complete call if `right` is `None`."""
    if right is None:
        return functools.partial(eval, wrong, names)
    return functools.partial(function_of(name), **arguments(right) | arguments(wrong))


def refused(error, text, call, **kwargs):
    """Assert that a call raises an error with a message. If `text` begins or ends with
    "...", the message can be longer at this side."""
    __tracebackhide__ = True
    with pytest.raises((TypeError, ValueError, KeyError)) as caught:
        call(**kwargs)
    said = str(caught.value)
    if text.startswith("..."):
        said = "..." + said[3 - len(text) :]
    elif text.endswith("..."):
        said = said[: len(text) - 3] + "..."
    assert (caught.type.__name__, said) == (error, text)
    assert "\n" not in said
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize("name", SECTIONS)
def test_errors(name):
    """Each row raises its error, with and without `out`. The array `out` is unchanged."""
    operator, rows = SECTIONS[name]
    names = ARGUMENTS
    if name.startswith("test_"):
        names = {**HELPERS, **vars(importlib.import_module(name))}
    if operator and not HAVE_BFLOAT16:
        # the operators need ml_dtypes
        pytest.skip("test_without_ml_dtypes.py has these errors")
    for right, row in rows:
        wrong, _, rest = row.partition(" => ")
        rest = rest.format_map(TEXTS) if names is ARGUMENTS else rest
        kind, _, text = rest.partition(": ")
        if NARROW_TYPES.search(wrong) and not HAVE_BFLOAT16:
            continue
        with case(row=row):
            if operator:
                argument, _, text = text.partition(": ")
                text = f"{argument}: {operator}{':' * (kind == 'AxisError')} {text}"
            call = call_of(name, right, wrong, names)
            refused(kind, text, call)
            # The error is equal for arrays, and for objects with a buffer instead of
            # arrays.
            if operator:
                given = {k: v if k == "out" else lent(v) for k, v in call.keywords.items()}
                refused(kind, text, call.func, **given)
            codes = right and function_of(name)(**arguments(right))
            if isinstance(codes, np.ndarray):
                first = next(iter(call.keywords.values()))
                shape = first.shape if hasattr(first, "shape") else np.shape(first)
                out = call.keywords.setdefault("out", poisoned(codes.dtype, shape))
                before = np.array(out).tobytes()
                refused(kind, text, call)
                assert np.array(out).tobytes() == before


def messages():
    """Yield the class and the message of each error in errors.txt, except abbreviated
    messages."""
    operator = re.compile(
        r"(?:nGraph|oneDNN|oneAPI|ONNX|com\.microsoft) \w+:? (?=axis|expect)"
    )
    for name, (_, rows) in SECTIONS.items():
        for _, row in rows:
            rest = row.partition(" => ")[2]
            rest = rest if name.startswith("test_") else rest.format_map(TEXTS)
            kind, _, text = rest.partition(": ")
            if not text.startswith("..."):
                text = operator.sub("", text.strip('"')).replace("expects ", "expected ")
                yield kind, text


# Errors of imports and files, which other test modules test.
ELSEWHERE = (
    ("ImportError", "dtype: int4 needs the package ml_dtypes: pip install ml_dtypes"),
    ("ImportError", "dtype: int2 needs a newer ml_dtypes, got 0.3.2"),
    ("ImportError", "reference_ops: the package onnx is needed: pip install onnx"),
    ("ImportError", "package: torch needs torch: pip install torch"),
    ("ImportError", "pyquant: expected its compiled module, got the source folder; "),
    ("ImportError", "PYQUANT_ISA: expected one of scalar, got 'avx2'"),
    ("ValueError", "a.npy is not a safetensors or GGUF file"),
    ("ValueError", "a.safetensors: expected an open file, got a closed one"),
)


def test_the_page_of_errors_lists_every_message():
    """docs/errors.md has a row for each message of errors.txt. If several rows match, the
    row with the most letters counts."""
    page = (support.ROOT / "docs" / "errors.md").read_text("utf-8")
    rows = re.findall(r"^\| `(.*?)` \| (`.*?) \|", page, re.MULTILINE)
    assert len(rows) == page.count("\n|") - 2 * page.count("\n|--")
    patterns = {}
    for words, _ in rows:
        text = ".*".join(map(re.escape, words.split("…")))
        patterns[words] = re.compile(rf"(?:(?:\S+|tensor '.*?'): )*{text}")
    kinds = {words: set() for words in patterns}
    for kind, text in (*messages(), *ELSEWHERE):
        fitting = [words for words in patterns if patterns[words].fullmatch(text)]
        assert fitting, text
        kinds[max(fitting, key=lambda words: len(words.replace("…", "")))].add(kind)
    assert rows == [(w, ", ".join(f"`{k}`" for k in sorted(kinds[w]))) for w, _ in rows]


@pytest.mark.parametrize("function", OPERATORS, ids=lambda f: OPERATORS[f][0])
def test_operators_require_arrays(function):
    operator, given = OPERATORS[function]
    right = arguments(given)
    for name in right.keys() - {"type", "dtype", "axes", "round_mode"}:
        for value, kind in ((None, "NoneType"), ("a", "str"), ({1: 2}, "dict")):
            text = f"{name}: {operator}: expected an array, got {kind}"
            with case(name=name, value=value):
                refused("TypeError", text, function, **{**right, name: value})


# If several arguments are wrong, the first of them in this order raises the error.
ORDERS = {
    ngraph.quantize: "type round_mode input scale zero_point axes",
    ngraph.dequantize: "type input zero_point scale axes",
    onednn.quantize: "scales zps src dtype qtype",
    onednn.dequantize: "scales zps src qtype",
    onednn.dynamic_quantize: "scales zps src dtype qtype",
    onednn.dynamic_dequantize: "src scales zps qtype",
    onnx.quantize_linear: "x y_scale output_dtype y_zero_point block_size axis precision "
    "saturate",
    onnx.dequantize_linear: "x x_scale x_zero_point block_size axis output_dtype",
    com_microsoft.quantize_linear: "x y_scale y_zero_point axis",
    com_microsoft.dequantize_linear: "x x_scale x_zero_point axis",
}


@pytest.mark.parametrize("function", ORDERS, ids=lambda f: OPERATORS[f][0])
@pytest.mark.skipif(not HAVE_BFLOAT16, reason="needs ml_dtypes")
def test_operators_check_in_order(function):
    given = OPERATORS[function][1]
    names = [*ORDERS[function].split(), "threads", "out"]
    for i, first in enumerate(names):
        wrong = dict.fromkeys(names[i:], ...)
        with case(first=first), pytest.raises(TypeError, match=f"^{first}: "):
            function(**{**arguments(given), **wrong})


# Invalid values of each parameter that has a constraint on types or values.
NO_NUMBERS = (np.ones(2), np.empty(0), np.array(None), np.ma.ones(3), [[]], float, {}, 1j)
NO_NAMES = (np.ones(2), np.empty(0), np.ma.ones(3), [[]], float, 1, b"minmax", "nothing")
KINDS = (np.zeros(3, kind) for kind in ("?", "O", "U1", "M8[s]", "m8[s]", "V4", "f4,i4"))
NO_ARRAYS = (*KINDS, [True, False], [1.0, None], {}, "a", b"a")
WRONG = {
    "threads": (0, -1, 2.5, 1.0, True, "1", None, np.array([1, 2])),
    "axis": ("a", 1.5, [0.5], 0.0, np.array([0.5])),
    "block_size": ("a", 1.5, 2.0),
    **dict.fromkeys(("x", "scale", "zero_point", "offset", "multiplier"), NO_ARRAYS),
    **dict.fromkeys(
        ("out", "scale_out", "zero_point_out"),
        ([0.0], bytearray(8), (np.ones(3),), np.zeros((7, 7, 7), np.float32)),
    ),
    "dtype": ("nothing", 5, 5.5, complex, bool),
    "mantissa_bits": (*NO_NUMBERS, 8, -1, 1.5, None),
    "momentum": (*NO_NUMBERS, 2, np.nan, np.True_, 10**400),
    "percentile": (*NO_NUMBERS, 101, 49, 0.5, np.True_, 10**400),
    "q": (*NO_NUMBERS, 1.5, -1, np.nan, np.True_, 10**400),
    **dict.fromkeys(
        ("symmetric", "inverse", "saturate", "packed", "histogram", "include_zero"),
        (3, "yes", [True]),
    ),
    **dict.fromkeys(("method", "nonfinite"), NO_NAMES),
    **dict.fromkeys(("like", "rounding", "nan", "out_of_range"), (3, "nothing", ["ceil"])),
    **dict.fromkeys(("scale_dtype", "precision"), ("nothing", 5.5, "int8")),
}


def test_each_constrained_parameter_refuses_wrong_values():
    observer = inspect.signature(pq.Observer).bind()
    calls = {name: (function, call) for name, function, call, _ in public_calls.recorded()}
    for name, (function, call) in {**calls, "Observer": (pq.Observer, observer)}.items():
        if function in OPERATORS or name.startswith("dtypes."):
            continue
        given = dict(call.arguments)
        for parameter in call.signature.parameters.keys() & WRONG.keys():
            if parameter == "q" and function.__name__ != "quantile":
                continue  # here, `q` is an array of codes, which can be of many types
            for value in WRONG[parameter]:
                call.arguments |= {**given, parameter: value}
                if parameter == "percentile":
                    call.arguments["method"] = "percentile"
                with case(name=name, parameter=parameter, value=value):
                    with pytest.raises((TypeError, ValueError)) as caught:
                        function(*call.args, **call.kwargs)
                    said = str(caught.value)
                    assert said.startswith(parameter), said
                    assert "\n" not in said
            call.arguments.clear()
            call.arguments |= given


def test_overlap_names_the_other_array():
    values = np.ones((2, 3), np.float32)
    text = "out: expected memory of its own, got an array that overlaps "
    view = values.view(np.int8)[:, :3]
    before = values.copy()
    zero, axes = np.zeros((2, 3), np.int8), {"axis": (0, 1)}
    for name, given in {
        "the input": {"x": values, "scale": 1.0, "out": view},
        "scale": {"x": X, "scale": values, "out": view, **axes},
        "zero_point": {"x": X, "scale": X, "zero_point": zero, "out": zero[::-1], **axes},
    }.items():
        refused("ValueError", text + name, pq.quantize, **given)
    assert (values == before).all()
    assert not zero.any()


def test_an_axis_error_is_also_the_usual_ones():
    with pytest.raises(AxisError) as caught:
        pq.quantize(X, [1.0], axis=7)
    assert isinstance(caught.value, (ValueError, IndexError))
    assert (caught.value.axis, caught.value.ndim) == (7, 2)


def test_errors_of_an_argument_are_passed_on():
    class Broken:
        def __array__(self, dtype=None, copy=None):
            raise RuntimeError("broken")

        def __index__(self):
            raise RuntimeError("broken")

    for given in ({"x": Broken()}, {"axis": Broken()}, {"threads": Broken()}):
        with pytest.raises(RuntimeError, match=r"^broken$"):
            pq.quantize(**{"x": X, "scale": 1.0, **given})


def test_out_of_memory():
    x = np.broadcast_to(np.float32(1), (1 << 50,))
    with pytest.raises(MemoryError):
        pq.quantize(x, 1.0)


def test_an_out_that_was_refused_can_be_used():
    out = poisoned(np.int8, (2, 3))
    with pytest.raises(ValueError, match=r"^threads: "):
        pq.quantize(X, 1.0, out=out, threads=0)
    assert untouched(out)
    # The resize fails if pyquant still holds a buffer of the array.
    out.resize((6,), refcheck=False)
    pq.quantize(X.reshape(6), 1.0, out=out)
    assert out.tolist() == [1] * 6


def test_a_class_that_cannot_be_hashed_is_no_dtype():
    class Meta(type):
        __hash__ = None

    class Unhashable(metaclass=Meta):
        pass

    calls = (pq.quantize, X, 1.0), (pq.dequantize, Q, 1.0), (pq.QParams, 1.0)
    for function, *given in (*calls, (pq.choose_qparams, X)):
        with pytest.raises(TypeError, match=r"^dtype: expected .*, got object$"):
            function(*given, dtype=Unhashable)
