# SPDX-License-Identifier: Apache-2.0
"""`pyquant compare`: measure the error of each tensor against its original."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any

from pyquant.cli._errors import shown
from pyquant.cli._logical import check_values, logical, records_of
from pyquant.cli._measure import has_numbers, measured
from pyquant.cli._models import open_model
from pyquant.cli._select import FORCE, JSON, RAW, REPORT, TENSOR, selected
from pyquant.cli._show import counted, print_json, print_table

if TYPE_CHECKING:
    import argparse

    from pyquant.cli._logical import Logical
    from pyquant.cli._models import Model
    from pyquant.cli._report import Report

DESCRIPTION = """\
Compare the tensors of B with their originals in A, by name and by value. The
worst tensor comes first. SQNR is the ratio of signal to error in dB. A step is
the largest distance between two codes. A different NaN or infinity is a
fault. Only --exact and --fail-below judge the other errors."""

EXAMPLES = """\
examples:
  pyquant compare model.safetensors model-int8.safetensors
  pyquant compare --fail-below 30 model.safetensors model-int8.safetensors
  pyquant compare --exact model.safetensors model-int8.safetensors
  pyquant compare --report report.html model.safetensors model-int8.safetensors

exit status:
  0  done
  1  a tensor is in one file only, has another shape, differs in a NaN or an
     infinity, or fails a judgement
  2  a file or an argument cannot be used"""

COLUMNS = ("name", "types", "SQNR dB", "max error", "in steps", "cosine", "saturated %")


def _decibels(text: str) -> float:
    from argparse import ArgumentTypeError

    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"expected a number of dB, got {text!r}")
    return value


_BELOW = "exit with 1 below this SQNR (default: no limit)"
OPTIONS = (
    ("a", "A", "the original file"),
    ("b", "B", "the file to measure"),
    *(TENSOR, RAW),
    ("--fail-below", "DB", _BELOW, {"type": _decibels}),
    ("--exact", None, "exit with 1 if B is not the exact result for A"),
    *(REPORT, FORCE, JSON),
)


def run(arguments: argparse.Namespace) -> int:
    """Compare two files, and print the result."""
    with open_model(arguments.a) as a, open_model(arguments.b) as b:
        report = None
        if arguments.report is not None:
            from pyquant.cli._report import Report

            title, inputs = f"{arguments.a} and {arguments.b}", (*a.paths, *b.paths)
            report = Report(title, arguments.report, inputs, arguments.force)
        originals, results = (logical(one, raw=arguments.raw) for one in (a, b))
        records = records_of(b) if arguments.exact else {}
        rows = []
        for name in selected(arguments.tensor, dict.fromkeys([*originals, *results])):
            row: dict[str, Any] = {"tensor": name}
            if name in originals and name in results:
                x, y = originals[name], results[name]
                check_values(a, x)
                check_values(b, y)
                row |= _compared(name, x, y, arguments, report)
                # Without an SQNR, the elements are not real numbers.
                judged = arguments.exact or "sqnr" not in row
                if judged and "shapes" not in row:
                    more = _judged(a, b, x, y, records.get(name, {}))
                    row |= more | {"fault": row["fault"] or more["fault"]}
            else:
                path = arguments.a if name in originals else arguments.b
                row |= {"only_in": path, "fault": f"only in {path}"}
            rows.append(row)
        rows.sort(key=_order)
        if report is not None:
            report.write()
        summary = _summary(rows, arguments)
        show = print_json if arguments.json else _print_text
        show(rows, summary)
    return 0 if summary["failed"] == 0 else 1


# ---- one tensor ----


def _compared(
    name: str, a: Logical, b: Logical, asked: argparse.Namespace, report: Report | None
) -> dict[str, Any]:
    """Return a row of the result with the errors of a tensor.

    The key "fault" has the reason why the comparison fails, or `None`.
    """
    limit, fault = asked.fail_below, None
    row: dict[str, Any] = {"types": [a.type, b.type], "shape": a.shape}
    if a.shape != b.shape:
        fault = f"expected shape {a.shape}, got {b.shape}"
        return row | {"shapes": [a.shape, b.shape], "fault": fault}
    if has_numbers(a) and has_numbers(b):
        row |= report.add(name, a, b) if report is not None else measured(a, b)[0]
        if row["not_finite"]:
            odd = counted(row["not_finite"], "different element")
            fault = f"{odd} with NaN or infinity"
        elif limit is not None and row["sqnr"] < limit:
            fault = f"SQNR {row['sqnr']:.2f} dB"
    return row | {"fault": fault}


def _judged(
    a: Model, b: Model, original: Logical, result: Logical, record: dict[str, Any]
) -> dict[str, Any]:
    """Compare a tensor with the exact result of quantizing its original."""
    from pyquant.cli import _check

    if not (has_numbers(original) and has_numbers(result)):
        equal = _check.has_equal_bytes((a, b), (original, result))
        return {"fault": None if equal else "the bytes differ"}
    counts = _check.differences(b, original, result, record)
    return {"differing": counts, "fault": _check.in_words(counts)}


# ---- all tensors ----


def _order(row: dict[str, Any]) -> tuple[int, float, str]:
    """Return the sort key of a row.

    Tensors that only one file contains are first, then tensors without real numbers. All
    other tensors are sorted by SQNR.
    """
    kind = 0 if "only_in" in row else 1 if "sqnr" not in row else 2
    sqnr = row.get("sqnr")
    return kind, -math.inf if sqnr is None else sqnr, row["tensor"]


def _summary(rows: list[dict[str, Any]], asked: argparse.Namespace) -> dict[str, Any]:
    compared = [row for row in rows if "only_in" not in row and "shapes" not in row]
    found = [row["sqnr"] for row in compared if row.get("sqnr") is not None]
    ratios = [sqnr for sqnr in found if sqnr < math.inf]
    return {
        "a": asked.a,
        "b": asked.b,
        "compared": len(compared),
        "equal": sum(not (row["fault"] or row.get("max_error")) for row in compared),
        "failed": sum(row["fault"] is not None for row in rows),
        "worst": min(ratios, default=None),
        "median": median(ratios) if ratios else None,
    }


def _print_text(rows: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    for row in rows:
        if "sqnr" not in row and row["fault"] is not None:
            print(f"{shown(row['tensor'])}: {shown(row['fault'])}")
    found = [row for row in rows if "sqnr" in row]
    if found:
        print_table(COLUMNS, [_row(one) for one in found], right=COLUMNS[2:])
    if rows:
        print(_summed_up(summary, len(rows)))
    for row in found:
        if row["fault"] is not None:
            print(f"{shown(row['tensor'])}: failed: {row['fault']}")


def _summed_up(summary: dict[str, Any], count: int) -> str:
    tensors = counted(count, "tensor")
    if summary["equal"] == count:
        return f"{tensors}, all without an error"
    equal = f", {summary['equal']} without an error" if summary["equal"] else ""
    if summary["worst"] is None:
        return f"{tensors}{equal}"
    worst = f"worst SQNR {summary['worst']:.2f} dB, median {summary['median']:.2f} dB"
    return f"{tensors}{equal}: {worst}"


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    a, b = row["types"]
    steps, saturated = row["max_steps"], row["saturated"]
    return (
        row["tensor"],
        a if a == b else f"{a} {b}",
        "-" if row["sqnr"] is None else f"{row['sqnr']:.2f}",
        f"{row['max_error']:.4g}",
        "-" if steps is None else f"{steps:.3f}",
        "-" if math.isnan(row["cosine"]) else f"{row['cosine']:.9f}",
        "-" if saturated is None else f"{100 * saturated:.3f}",
    )
