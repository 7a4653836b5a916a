"""Make the tables of docs/conformance.md from deviations/."""

import re
from pathlib import Path

import numpy as np
from conformance import run
from conformance.cases import any_nan, argument, array

PAGE = Path(__file__).resolve().parents[2] / "docs" / "conformance.md"
MARK = "<!-- tests/conformance/run.py --page writes the tables below -->\n"
# For each package, the repository with its list of known faults.
HOMES = {
    "onnx.reference": "https://github.com/onnx/onnx",
    "onnxruntime": "https://github.com/microsoft/onnxruntime",
    "openvino": "https://github.com/openvinotoolkit/openvino",
    "torch": "https://github.com/pytorch/pytorch",
    "ml_dtypes": "https://github.com/jax-ml/ml_dtypes",
    "numkong": "https://github.com/ashvardanian/NumKong",
    "gguf": "https://github.com/ggml-org/llama.cpp",
}


def spoken(value):
    """Convert a number to a short text for a table."""
    wide = float(value)
    if wide == np.round(wide) and abs(wide) < 2**53:
        text = "-0" if not wide and np.signbit(wide) else str(int(wide))
    else:
        text = str(np.float32(value)).replace("inf", "∞").replace("nan", "NaN")
    return text.replace("-", "\N{MINUS SIGN}")


def as_list(expect):
    return expect if isinstance(expect, list) else [expect]


def first_difference(call, deviation):
    """Find the first wrong element. Return texts of input, result and expected result."""
    wanted = as_list(call.acceptable[0])
    if len(wanted) != len(deviation):
        return "", f"{len(deviation)} results", f"{len(wanted)}"
    for there, spec in zip(map(array, deviation), wanted, strict=True):
        text = array(spec)
        if (there.dtype, there.shape) != (text.dtype, text.shape):
            return "", *(f"{a.dtype} {list(a.shape)}" for a in (there, text))
        with np.errstate(invalid="ignore"):
            one, two = there.astype(np.float64), text.astype(np.float64)
        equal = (one == two) & (np.signbit(one) == np.signbit(two))
        equal |= (np.isnan(one) & np.isnan(two)) | any_nan(spec)
        if not equal.all():
            at = tuple(np.argwhere(~equal)[0])
            x = argument(call.args.get("x", call.args.get("src")))
            given = spoken(x[at]) if np.shape(x) == text.shape else ""
            return given, spoken(there[at]), spoken(text[at])
    return "", "other bits", ""


def rows_of(kept):
    """Yield a table row for each case with deviations. The row shows the first of them."""
    rows, taken = {}, {}
    for key, call in run.calls_of(kept["ops"]):
        found = kept["deviations"].get(key)
        if found is None or found == "unsupported":
            continue
        case = re.sub(r"-\d+$", "", key)
        if call.refused:
            taken[case] = taken.get(case, 0) + 1
        else:
            rows.setdefault(case, []).append((call, found))
    if rows:
        yield "| case | calls | first input | there | by the text |"
        yield "|---|---|---|---|---|"
    for case, calls in rows.items():
        call, found = calls[0]
        shown = ("", "an error", "a result")
        if found != "refused":
            shown = first_difference(call, found)
        is_open = "; open" if "open" in call.flags else ""
        yield f"| `{case}` | {len(calls)} | {shown[0]} | {shown[1]} | {shown[2]}{is_open} |"
    if taken:
        names = (f"`{case}` ({count})" for case, count in taken.items())
        yield "\nAccepted, although the text requires an error:\n" + ",\n".join(names) + "."
    if not rows and not taken:
        yield "Nothing deviates."


def text_of(records):
    """Return the table of all implementations, and a section for each implementation."""
    lines = ["| implementation | standard | same | deviates | refuses | unsupported |"]
    lines += ["|---|---|---|---|---|---|"]
    for name, version, standard, row in run.matrix(records):
        counts = " | ".join(str(row[v]) for v in run.VERDICTS)
        lines.append(f"| {name} {version} | `{standard}` | {counts} |")
    for kept in records:
        name = kept["implementation"]
        lines += ["", f"### {name} {kept['version']}", "", f"[{name}]({HOMES[name]})", ""]
        lines += rows_of(kept)
    return "\n".join(lines) + "\n"


def page(records):
    """Return the text of the page with new tables."""
    return PAGE.read_text("utf-8").partition(MARK)[0] + MARK + "\n" + text_of(records)


def write(records):
    PAGE.write_text(page(records), "utf-8", newline="\n")
