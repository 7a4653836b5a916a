# SPDX-License-Identifier: Apache-2.0
"""Convert numbers to SVG paths for the plots of a report."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite, log1p
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

WIDE, NARROW, HIGH = 512, 240, 100  # widths and height of plots, in SVG units
EDGE = 1  # margin, so that wide lines stay inside the plot
STRIP, GAP = 10, 6  # height of the codes below a histogram, and distance between them
BAR = 20  # distance between two bars
FARTHEST = 1  # largest margin of the axis at each side, as a multiple of the data's width


def histogram(
    shown: dict[str, Any], grids: list[dict[str, Any]], levels: list[list[float]], used: str
) -> dict[str, Any]:
    """
    Draw a histogram of the values with logarithmic counts, and the codes below.

    `shown`, `grids` and `used` are the details ``"histogram"``, ``"grids"`` and ``"used"``
    that `measured` returns for a tensor. `levels` has the values of the codes at the scale
    of each grid. It is empty for types of many codes. The result has paths of the values
    inside and outside the range of the codes, paths of used and unused codes, and the ends
    of the axis.
    """
    counts = shown["counts"]
    # Numbers are divided by the unit, so that no difference overflows.
    unit: float = max(abs(shown["low"]), abs(shown["high"])) or 1.0
    low, high = shown["low"] / unit, shown["high"] / unit
    if low == high:
        low, high = low - 1, high + 1
    width, first, last = high - low, low, high
    if grids:
        first, last = grids[0]["low"] / unit, grids[0]["high"] / unit
    start: float = max(min(low, first), low - FARTHEST * width)
    stop: float = min(max(high, last), high + FARTHEST * width)

    def place(value: float) -> float:
        """Return the position of a value on the axis."""
        return EDGE + (WIDE - 2 * EDGE) * ((value / unit - start) / (stop - start))

    ends = [low + width * k / len(counts) for k in range(len(counts) + 1)]
    edges = [place(end * unit) for end in ends]
    tall = [HIGH * log1p(count) / log1p(max(counts)) for count in counts]
    within = [
        height * (first <= end and start <= last)
        for height, (start, end) in zip(tall, pairwise(ends), strict=True)
    ]
    strips = []
    for k, (grid, values) in enumerate(zip(grids, levels, strict=False)):
        top = HIGH + GAP + k * (STRIP + GAP)
        strips.append({**grid, **_strip(map(place, values), used, top)})
    return {
        "inside": _skyline(edges, within),
        "outside": _skyline(edges, [h - one for h, one in zip(tall, within, strict=True)]),
        "strips": strips,
        "start": start * unit,
        "stop": stop * unit,
        "most": max(counts),
    }


def _skyline(places: list[float], heights: list[float]) -> str:
    """Return the outline of adjacent columns as a path, or "" if all heights are 0."""
    if not any(heights):
        return ""
    path, before = [f"M{_short(places[0])} {HIGH}"], 0.0
    for start, height in zip(places, heights, strict=False):
        if height != before:
            path.append(f"H{_short(start)}V{_short(HIGH - height)}")
        before = height
    path.append(f"H{_short(places[-1])}V{HIGH}z")
    return "".join(path)


def _strip(places: Iterable[float], used: str, top: int) -> dict[str, str]:
    """Return paths with a line for each code inside the plot: used and unused codes."""
    lines: dict[str, list[str]] = {"1": [], "0": []}
    for x, is_used in zip(places, used, strict=True):
        if EDGE <= x <= WIDE - EDGE:
            lines[is_used].append(f"M{_short(x)} {top}v{STRIP}")
    return {"used": "".join(lines["1"]), "unused": "".join(lines["0"])}


def curve(points: list[float]) -> dict[str, Any]:
    """Draw the logarithms of the scales in descending order. The result has a path, and the
    ends of the axis, which covers at least a factor of 2."""
    high, low = points[0], min(points[-1], points[0] - 1)
    across, down = (NARROW - 2 * EDGE) / (len(points) - 1), (HIGH - 2 * EDGE) / (high - low)
    places = [
        f"{_short(EDGE + k * across)} {_short(EDGE + (high - p) * down)}"
        for k, p in enumerate(points)
    ]
    return {"path": f"M{'L'.join(places)}", "low": low, "high": high}


def bars(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the position and length of a bar to each granularity. The length is its SQNR."""
    known = [s if (s := one["sqnr"]) is not None and isfinite(s) else 0 for one in found]
    most = max(0, *known) or 1
    return [
        {**one, "y": k * BAR, "length": _short(NARROW * max(0, sqnr) / most)}
        for k, (one, sqnr) in enumerate(zip(found, known, strict=True))
    ]


def _short(number: float) -> str:
    """Round to a tenth, and write the shortest text."""
    return f"{number:.1f}".removesuffix(".0")
