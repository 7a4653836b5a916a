# SPDX-License-Identifier: Apache-2.0
"""Convert numbers to SVG paths for the plots of a report."""

from __future__ import annotations

from itertools import pairwise
from math import isfinite, log1p
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

# The widths of a histogram and of a curve, and the common height, in SVG units.
WIDE, NARROW, HIGH = 512, 240, 100
EDGE = 1  # margin in SVG units, so that wide lines stay inside the plot
# Height of a row of codes below a histogram, and the space above the row, in SVG units.
STRIP, GAP = 10, 6
BAR = 20  # distance between the tops of two bars, in SVG units
# The axis may exceed the range of the data at each side by FARTHEST times this range.
FARTHEST = 1


def histogram(
    shown: dict[str, Any], grids: list[dict[str, Any]], levels: list[list[float]], used: str
) -> dict[str, Any]:
    """
    Draw a histogram of values with logarithmic counts, and rows of codes below.

    `shown`, `grids` and `used` are the details ``"histogram"``, ``"grids"`` and ``"used"``
    that `measured` returns for a tensor. `levels` has a list for each grid: the values of
    all codes with the scale of the grid. For types with many codes, `levels` is empty. The
    result has paths for the values inside and outside the range of the codes, paths for
    used and unused codes, and the lowest and highest value of the axis.
    """
    counts = shown["counts"]
    # All numbers are divided by the largest magnitude, so that no difference overflows.
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
        """Return the horizontal position of a value in the plot."""
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
    """Return a path for the used codes, and a path for the unused codes.

    A path has a line for each code with a position in the plot. `places` has the positions.
    """
    lines: dict[str, list[str]] = {"1": [], "0": []}
    for x, is_used in zip(places, used, strict=True):
        if EDGE <= x <= WIDE - EDGE:
            lines[is_used].append(f"M{_short(x)} {top}v{STRIP}")
    return {"used": "".join(lines["1"]), "unused": "".join(lines["0"])}


def curve(points: list[float]) -> dict[str, Any]:
    """Draw a curve of logarithms of scales in descending order. The result has a path, and
    the ends of the axis. The axis covers at least a factor of 2."""
    high, low = points[0], min(points[-1], points[0] - 1)
    across, down = (NARROW - 2 * EDGE) / (len(points) - 1), (HIGH - 2 * EDGE) / (high - low)
    places = [
        f"{_short(EDGE + k * across)} {_short(EDGE + (high - p) * down)}"
        for k, p in enumerate(points)
    ]
    return {"path": f"M{'L'.join(places)}", "low": low, "high": high}


def bars(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the position and the length of a bar to the data of each granularity.

    The length is proportional to the SQNR.
    """
    known = [s if (s := one["sqnr"]) is not None and isfinite(s) else 0 for one in found]
    most = max(0, *known) or 1
    return [
        {**one, "y": k * BAR, "length": _short(NARROW * max(0, sqnr) / most)}
        for k, (one, sqnr) in enumerate(zip(found, known, strict=True))
    ]


def _short(number: float) -> str:
    """Return a number, rounded to a tenth, as the shortest text."""
    return f"{number:.1f}".removesuffix(".0")
