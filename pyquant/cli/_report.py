# SPDX-License-Identifier: Apache-2.0
"""Write a report about quantization errors: one HTML file without dependencies."""

from __future__ import annotations

import os
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from math import inf, isfinite, isnan
from statistics import median
from typing import TYPE_CHECKING, Any

from pyquant import __version__
from pyquant.cli import _charts
from pyquant.cli._errors import Refused, check_free, shown
from pyquant.cli._measure import PLOTS, Codes, measured
from pyquant.cli._show import sized
from pyquant.weights._saved import replacing

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyquant.cli._logical import Logical

# If more than MOST tensors have errors, the page has plots only for PLOTTED tensors, which
# have the lowest SQNR.
MOST, PLOTTED = 400, 200
BAR = 80  # length of the longest bar in the table, in SVG units
COLUMNS = (
    ("tensor", "name"),
    ("type", "type of the codes"),
    ("scales", "elements that share a scale"),
    ("shape", "sorted by elements"),
    ("bits", "bits per weight, scales included"),
    ("SQNR, dB", "signal to quantization noise"),
    ("max error", "the largest |x - y|"),
    ("in steps", "the largest |x - y| divided by the largest distance between two codes"),
    ("peak/rms", "max |x| over the root of the mean square: outliers"),
    ("saturated", "elements beyond the codes"),
    ("unused", "codes without an element"),
    ("bad scales", "scales that are 0 or not finite"),
    ("not finite", "elements that are NaN or infinite"),
)
ABSENT = "–"  # noqa: RUF001, the page shows a dash for an unknown value


class Report:
    """
    Collect measurements of tensors, and write a page with the report.

    `others` are the paths of all files that the report describes. The constructor raises
    Refused if Jinja is not installed, if `path` is in `others`, or if `check_free` rejects
    `path`. The error is raised before any work.
    """

    def __init__(self, title: str, path: str, others: Iterable[str], force: bool) -> None:
        try:
            import jinja2  # noqa: F401
        except ImportError:
            raise Refused("a report needs jinja2; run: pip install jinja2") from None
        if os.path.realpath(path) in map(os.path.realpath, others):
            raise Refused(f"--report: {path} is an input or an output; use another name")
        if not path:
            raise Refused(f"--report: expected the name of a file, got {path!r}")
        check_free(path, force)
        self.title, self._path = title, path
        self._tensors: list[dict[str, Any]] = []

    def add(self, name: str, a: Logical, b: Logical) -> dict[str, Any]:
        """Add a tensor to the report: the original `a` and the result `b`, of equal shapes.

        Return the numbers of `measured`.
        """
        numbers, details = measured(a, b, plots=True)
        facts = {
            "name": name,
            "shape": a.shape,
            "from": a.type,
            "type": b.type,
            "granularity": b.granularity,
            "bytes_before": a.nbytes,
            "bytes_after": b.nbytes,
            "bits_per_weight": 8 * b.nbytes / a.size if a.size else None,
        }
        self._tensors.append(facts | numbers | details)
        drawn = [one for one in self._tensors if PLOTS[0] in one]
        if len(drawn) > MOST:  # free the data of plots that the page will not have
            for one in sorted(drawn, key=_order)[PLOTTED:]:
                for key in PLOTS:
                    one.pop(key, None)
        return numbers

    def write(self) -> None:
        """Write the page. An error keeps an existing file."""
        with replacing(self._path) as (file,):
            file.writelines(piece.encode() for piece in self._pieces())

    def _pieces(self) -> Iterator[str]:
        """Yield the text of the page in parts."""
        import jinja2
        from markupsafe import Markup

        folder = files("pyquant.cli").joinpath("templates")
        page, style, script = (
            folder.joinpath(f"report.{kind}").read_text("utf-8")
            for kind in ("html", "css", "js")
        )
        environment = jinja2.Environment(
            autoescape=True,
            undefined=jinja2.ChainableUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters |= FILTERS
        tensors = sorted(self._tensors, key=_order)
        totals = _totals(tensors)
        plotted = totals["lossy"] if totals["lossy"] <= MOST else PLOTTED
        sizes = ("WIDE", "NARROW", "HIGH", "EDGE", "STRIP", "GAP", "BAR")
        return environment.from_string(page).generate(
            title=shown(self.title),
            version=__version__,
            # Style and script are files of this package. The security policy of the page
            # allows no other style or script.
            style=Markup(style),
            script=Markup(script),
            policy=_policy(style, script),
            totals=totals,
            columns=COLUMNS,
            plotted=plotted,
            tensors=list(_rows(tensors, plotted)),
            plots=_plots,
            **{name: getattr(_charts, name) for name in sizes},
        )


def _policy(style: str, script: str) -> str:
    """Return a content security policy that allows only the given style and script."""

    def source(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    sources = f"style-src {source(style)}; script-src {source(script)}"
    return f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'"


def _order(tensor: dict[str, Any]) -> float:
    """Return the sort key of a tensor in the table: its SQNR in dB, infinite if exact."""
    sqnr = tensor["sqnr"]
    return -inf if sqnr is None or isnan(sqnr) else float(sqnr)


def _totals(tensors: list[dict[str, Any]]) -> dict[str, Any]:
    elements = sum(one["elements"] for one in tensors)
    after = sum(one["bytes_after"] for one in tensors)
    noise = [one["sqnr"] for one in tensors if _known(one["sqnr"])]
    return {
        "tensors": len(tensors),
        "exact": sum(one["exact"] for one in tensors),
        "lossy": sum(not one["exact"] for one in tensors),
        "elements": elements,
        "bytes_before": sum(one["bytes_before"] for one in tensors),
        "bytes_after": after,
        "bits_per_weight": 8 * after / elements if elements else None,
        "worst_sqnr": min(noise, default=None),
        "median_sqnr": median(noise) if noise else None,
    }


def _rows(tensors: list[dict[str, Any]], plotted: int) -> Iterator[dict[str, Any]]:
    """Yield the values of each row of the table."""
    most = max((one["sqnr"] for one in tensors if _known(one["sqnr"])), default=0)
    for k, one in enumerate(tensors):
        part = float(one["exact"])
        if _known(one["sqnr"]) and most > 0:
            part = max(0.0, one["sqnr"]) / most
        yield {
            **one,
            "shown": shown(one["name"]),
            "number": k,
            "order": _order(one),
            "length": f"{BAR * part:.1f}",
            "plotted": k < plotted,
        }


def _plots(tensor: dict[str, Any]) -> dict[str, Any]:
    """Return the paths and numbers for the plots of a tensor."""
    grids, points = tensor.get("grids", []), tensor.get("scale_curve")
    others = [{**one, "label": one["granularity"]} for one in tensor["alternatives"]]
    values, used = tensor["histogram"], tensor.get("used", "")
    levels = []
    if used:
        codes = Codes(tensor["type"]).levels
        levels = [((codes - one["zero_point"]) * one["scale"]).tolist() for one in grids]
    drawn = _charts.histogram(values, grids, levels, used) if values else None
    return {
        "histogram": drawn,
        "curve": _charts.curve(points) if points else None,
        "bars": _charts.bars([{"sqnr": tensor["sqnr"], "label": "this file"}, *others]),
    }


def _known(number: object) -> bool:
    return isinstance(number, (int, float)) and isfinite(number)


def _sorted(number: object) -> bool:
    return isinstance(number, (int, float)) and not isnan(number)


def _number(number: object, digits: int) -> str:
    return f"{number:.{digits}g}" if _known(number) else ABSENT


# Name of a filter in the template -> function that formats a number.
FILTERS = {
    "number": _number,
    "bytes": sized,
    "grouped": lambda n: f"{n:,}".replace(",", "\u202f") if _known(n) else ABSENT,
    "hundredths": lambda n: f"{n:.2f}" if _known(n) else ABSENT,
    "decibels": lambda n: f"{n:.2f} dB" if _known(n) else ABSENT,
    "percent": lambda n: f"{100 * n:.3g} %" if _known(n) else ABSENT,
    # The script of the page reads numbers in this format to sort the rows.
    "plain": lambda n: f"{n:.17g}".replace("inf", "Infinity") if _sorted(n) else "",
}
