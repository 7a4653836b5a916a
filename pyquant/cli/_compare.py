# SPDX-License-Identifier: Apache-2.0
"""`pyquant compare`: how far the tensors of one file are from those of another."""

from __future__ import annotations

import math
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import dtypes
from pyquant.cli._bands import (
    as_json,
    bands,
    counted,
    decoded,
    expanded,
    grid,
    has_numbers,
    wide,
)
from pyquant.cli._errors import Refused, shown
from pyquant.cli._logical import logical
from pyquant.cli._models import open_model
from pyquant.cli._select import add_patterns, chosen
from pyquant.cli._show import print_table
from pyquant.qparams import QParams
from pyquant.report import measure_error

if TYPE_CHECKING:
    import argparse

    import numpy.typing as npt

    from pyquant.cli._logical import Logical

__all__ = ["add", "differing", "limits_of", "measured", "run"]

DESCRIPTION = """\
Compare the tensors of two files, by name and as numbers: those of A are taken for the
originals. The worst come first. SQNR is the ratio of signal to error, in dB; a step is
the scale of an element. Without --exact and --fail-below errors are shown, not judged."""

EXAMPLES = """\
examples:
  pyquant compare model.safetensors model-int8.safetensors
  pyquant compare --fail-below 30 model.safetensors model-int8.safetensors
  pyquant compare --html report.html model.safetensors model-int8.safetensors
  pyquant compare --exact a.npz b.npz

exit status: 0; 1 where a tensor is in one file only, has another shape, or fails what was
asked for by --exact or --fail-below; 2 for a file that cannot be used"""

COLUMNS = ("name", "types", "SQNR dB", "max error", "in steps", "cosine", "saturated %")


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description, parser.epilog = DESCRIPTION, EXAMPLES
    parser.add_argument("a", metavar="A", help="the original")
    parser.add_argument("b", metavar="B", help="what was made of it")
    add_patterns(parser)
    parser.add_argument(
        "--fail-below",
        type=_decibels,
        metavar="DB",
        help="exit with 1 if the SQNR of a tensor is lower",
    )
    parser.add_argument(
        "--exact", action="store_true", help="exit with 1 if a bit of a number differs"
    )
    parser.add_argument("--html", metavar="OUT", help="write a report that browsers show")
    parser.add_argument("-f", "--force", action="store_true", help="write over that OUT")
    parser.add_argument(
        "--json", action="store_true", help="a line of JSON for each tensor, and a summary"
    )


def _decibels(text: str) -> float:
    from argparse import ArgumentTypeError

    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ArgumentTypeError(f"expected a number of dB, got {text!r}")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Compare, show, and judge."""
    if arguments.html is not None:
        from pyquant.cli._report import check_installed

        check_installed()
    with open_model(arguments.a) as a, open_model(arguments.b) as b:
        if arguments.html is not None:
            from pyquant.cli._report import check_place

            check_place("--html", arguments.html, (*a.paths, *b.paths), arguments.force)
        originals, results = logical(a), logical(b)
        names = list(dict.fromkeys([*originals, *results]))
        if arguments.tensor:
            rules = [(pattern, None) for pattern in arguments.tensor]
            names = list(chosen(rules, names))
        rows = [
            _compared(name, originals.get(name), results.get(name), arguments)
            for name in names
        ]
        rows.sort(key=_order)
        if arguments.html is not None:
            _write_report(arguments, rows, originals, results)
        said = _summary(rows, arguments)
        show = _print_json if arguments.json else _print_text
        show(rows, said, arguments)
    return 0 if said["failed"] == 0 else 1


# ---- one tensor ----


def _compared(
    name: str, a: Logical | None, b: Logical | None, asked: argparse.Namespace
) -> dict[str, Any]:
    """What is to be said of a tensor; under "fault" why it fails, or None."""
    if a is None or b is None:
        path = asked.b if a is None else asked.a
        return {"tensor": name, "only_in": path, "fault": f"only in {path}"}
    said: dict[str, Any] = {"tensor": name, "types": [a.type, b.type], "shape": a.shape}
    if a.shape != b.shape:
        fault = f"expected shape {a.shape}, got {b.shape}"
        return said | {"shapes": [a.shape, b.shape], "fault": fault}
    if not (has_numbers(a) and has_numbers(b)):
        raise Refused(f"{asked.b}: tensor {name!r}: expected numbers, got {b.type}")
    said |= measured(a, b)
    if asked.exact:
        said["differing"] = differing(a, b)
    return said | {"fault": _fault(said, asked)}


def _fault(said: dict[str, Any], asked: argparse.Namespace) -> str | None:
    if asked.exact and said["differing"]:
        return f"{said['differing']} of {said['elements']} elements differ"
    if asked.fail_below is None:
        return None
    if said["not_finite"]:
        return f"{said['not_finite']} elements not finite in a file, and other in the other"
    if said["sqnr"] < asked.fail_below:
        return f"SQNR {said['sqnr']:.2f} dB"
    return None


def measured(a: Logical, b: Logical) -> dict[str, Any]:
    """
    Measure how far a tensor is from its original, some rows at a time.

    Parameters
    ----------
    a, b : Logical
        The original, and what was made of it; of one shape.

    Returns
    -------
    dict
        ``sqnr`` in dB, infinite without an error; ``max_error``; ``max_steps``, that error
        in steps of `b`, or of `a` if only that has some; ``cosine``; ``saturated``, the
        share of elements beyond the codes of `b` by more than half a step, None without
        codes; ``not_finite``, the elements of which a number is not finite and the other
        is something else; ``elements``.

    Notes
    -----
    Sums are of float64, each band by itself and one added to the other, so that their last
    bits depend on the extents of rows, and on nothing else. Extremes and counts are exact.
    """
    dtype = wide({a.type, b.type})
    report, steps, saturated, odd = None, 0.0, 0, 0
    stepped = b if b.scale is not None else a
    coded = b.scale is not None and limits_of(b.type) is not None
    pairs = zip(bands(a.shape), decoded(a, dtype), decoded(b, dtype), strict=True)
    for rows, x, y in pairs:
        more = measure_error(x, y)
        report = more if report is None else report + more
        if more.nan or more.inf:
            odd += _odd(x, y)
        if stepped.scale is not None:
            steps = max(steps, _most_steps(stepped, rows, x, y))
        if coded:
            saturated += _beyond(b, rows, x)
    elements = math.prod(a.shape)
    error = report.max_error if report is not None else math.nan
    return {
        "sqnr": report.sqnr if report is not None and error > 0 else math.inf,
        "max_error": error,
        "max_steps": steps if stepped.scale is not None else None,
        "cosine": report.cosine if report is not None else math.nan,
        "saturated": saturated / max(elements, 1) if coded else None,
        "not_finite": odd,
        "elements": elements,
    }


def _odd(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> int:
    """Elements of which a number is not finite and the other is something else."""
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    return int(np.count_nonzero(~same & ~(np.isfinite(x) & np.isfinite(y))))


def _most_steps(
    tensor: Logical, rows: slice | None, x: npt.NDArray[Any], y: npt.NDArray[Any]
) -> float:
    with np.errstate(all="ignore"):  # what is not finite is left out
        steps = np.subtract(x, y, dtype=np.float64)
        np.divide(steps, expanded(tensor.scale, tensor, rows), out=steps)
    np.abs(steps, out=steps)
    return float(np.max(steps, where=np.isfinite(steps), initial=0.0))


def limits_of(name: str) -> tuple[int, int] | None:
    """The least and the largest code of an integer type."""
    row = dtypes.TYPES.get(name)
    if row is None or row.kind != "integer":
        return None
    half = 1 << row.bits - 1
    return (0, 2 * half - 1) if name.startswith("u") else (-half, half - 1)


def _beyond(tensor: Logical, rows: slice | None, x: npt.NDArray[Any]) -> int:
    """Count the elements that the codes of a tensor do not reach."""
    scale, sizes = grid(tensor.scale, tensor, rows)
    zero = None
    if tensor.zero_point is not None:
        zero = grid(tensor.zero_point, tensor, rows)[0]
    how: dict[str, Any] = {"block_size": sizes} if scale.size > 1 else {}
    report = QParams(scale, zero, tensor.type, **how).measure_error(x)
    return int(report.saturated_low + report.saturated_high)


def differing(a: Logical, b: Logical, dtype: str | None = None) -> int:
    """Count the elements of which a bit of the number differs, in that type."""
    if dtype is None:
        dtype = wide({a.type, b.type})
    if a.type == b.type in ("int64", "uint64"):  # which float64 does not hold
        dtype = a.type
    word = f"u{dtypes.TYPES[dtype].nbytes}"
    pairs = zip(decoded(a, dtype), decoded(b, dtype), strict=True)
    return sum(int(np.count_nonzero(x.view(word) != y.view(word))) for x, y in pairs)


# ---- all of them ----


def _order(said: dict[str, Any]) -> tuple[int, float, str]:
    """What is in one file only, what has other shapes, and then the lowest SQNR."""
    if "only_in" in said:
        return 0, 0.0, said["tensor"]
    if "shapes" in said:
        return 1, 0.0, said["tensor"]
    sqnr = said["sqnr"]
    return 2, -math.inf if math.isnan(sqnr) else sqnr, said["tensor"]


def _summary(rows: list[dict[str, Any]], asked: argparse.Namespace) -> dict[str, Any]:
    compared = [said["sqnr"] for said in rows if "sqnr" in said]
    ratios = [sqnr for sqnr in compared if sqnr < math.inf]
    return {
        "a": asked.a,
        "b": asked.b,
        "compared": len(compared),
        "equal": len(compared) - len(ratios),
        "failed": sum(said["fault"] is not None for said in rows),
        "worst": min(ratios, default=None),
        "median": median(ratios) if ratios else None,
    }


def _write_report(
    asked: argparse.Namespace,
    rows: list[dict[str, Any]],
    originals: dict[str, Logical],
    results: dict[str, Logical],
) -> None:
    from pyquant.cli._report import Report

    report = Report(f"{asked.a} and {asked.b}")
    for said in rows:
        if "sqnr" in said:
            name = said["tensor"]
            report.add(name, originals[name], results[name])
    report.write(asked.html)


def _print_json(
    rows: list[dict[str, Any]], said: dict[str, Any], asked: argparse.Namespace
) -> None:
    for row in rows:
        print(as_json(row))
    print(as_json({"summary": said}))


def _print_text(
    rows: list[dict[str, Any]], said: dict[str, Any], asked: argparse.Namespace
) -> None:
    for row in rows:
        if "sqnr" not in row:
            print(f"{shown(row['tensor'])}: {shown(row['fault'])}")
    found = [row for row in rows if "sqnr" in row]
    if found:
        print_table(COLUMNS, [_row(one) for one in found], right=COLUMNS[2:])
        print(_summed_up(said))
    for row in found:
        if row["not_finite"]:
            odd = f"{row['not_finite']} not finite in a file, and other in the other"
            print(f"{shown(row['tensor'])}: {odd}")
        if row["fault"] is not None:
            print(f"{shown(row['tensor'])}: failed: {row['fault']}")


def _summed_up(said: dict[str, Any]) -> str:
    tensors = counted(said["compared"], "tensor")
    if said["worst"] is None:
        return f"{tensors}, all without an error"
    worst = f"SQNR at worst {said['worst']:.2f} dB, in the middle {said['median']:.2f} dB"
    same = f", {said['equal']} without an error" if said["equal"] else ""
    return f"{tensors}{same}: {worst}"


def _row(said: dict[str, Any]) -> tuple[str, ...]:
    a, b = said["types"]
    steps, saturated = said["max_steps"], said["saturated"]
    return (
        said["tensor"],
        a if a == b else f"{a} {b}",
        f"{said['sqnr']:.2f}",
        f"{said['max_error']:.4g}",
        "-" if steps is None else f"{steps:.3f}",
        f"{said['cosine']:.9f}",
        "-" if saturated is None else f"{100 * saturated:.3f}",
    )
