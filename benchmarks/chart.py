# SPDX-License-Identifier: Apache-2.0
"""Draw the chart of README.md as a light and a dark SVG file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

import pyquant as pq
from benchmarks import rivals
from benchmarks.report import Results, count
from benchmarks.runs import Row

SIZE = 1 << 20
# The forms of the chart, and the titles of their panels.
TITLES = {
    "f32-i8": "float32 → int8, one scale",
    "f32-i8-first": "float32 → int8, one scale per output channel (axis 0)",
    "f16-i8": "float16 → int8, one scale",
    "i4-f32-block32": "packed int4 → float32, blocks of 32",
}
# The bars of a panel, and the rivals of each bar. A bar shows the fastest of its rivals.
BARS = {
    "NumPy": ("numpy", "ml_dtypes"),
    "PyTorch": ("torch", "torch_eager"),
    "ONNX Runtime": ("onnxruntime",),
}
RIVALS = tuple(name for names in BARS.values() for name in names)
COPY = "plain copy"

WIDTH, LEFT, RIGHT = 480, 104, 48  # pixels; LEFT is for names, RIGHT is for figures
LINE, TITLE, GAP, HEAD = 17, 22, 12, 44
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"
KINDS = ("text", "muted", "own", "rival", "copy")
COLORS = {
    "light": ("#1f2328", "#59636e", "#0969da", "#8c959f", "#d1d9e0"),
    "dark": ("#f0f6fc", "#9198a1", "#4493f8", "#6e7681", "#3d444d"),
}


class Bar(NamedTuple):
    """
    A line of a panel: a name, a bar, and a figure.

    `rate` is in 10⁹ elements per second, or `None` if the package lacks the form. `kind` is
    one of KINDS, and selects the color of the bar.
    """

    name: str
    rate: float | None
    kind: str
    mark: str = ""


def bars(row: Row) -> list[Bar]:
    """Return the bars of a form, for pyquant, the rivals and a plain copy."""
    rates = {name: row.elements / s / 1e9 for name, s in row.seconds.items()}
    made = [Bar("pyquant", rates[row.best], "own")]
    for title, names in BARS.items():
        best = max(names, key=lambda name: rates.get(name, 0))
        mark = "≠" if row.marks.get(best) == rivals.OTHER_BITS else ""
        made.append(Bar(title, rates.get(best), "rival", mark))
    return [*made, Bar(COPY, row.elements / row.roofline_seconds / 1e9, "copy")]


# ---- SVG ----

STYLE = (
    "text {{ font: 13px {font}; fill: {text} }}",
    ".name, .figure {{ font-size: 12px }}",
    ".note {{ font-size: 11px; fill: {muted} }}",
    ".title {{ font-weight: 600 }}",
    ".own {{ fill: {own} }} .rival {{ fill: {rival} }} .copy {{ fill: {copy} }}",
    "text.own {{ font-weight: 600 }}",
    ".differs {{ fill-opacity: 0.3; stroke: {rival}; stroke-dasharray: 3 2 }}",
)


def _text(x: float, y: float, text: str, kind: str, anchor: str = "start") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">'
        f"{escape(text)}</text>"
    )


def _figure(bar: Bar) -> str:
    return "not available" if bar.rate is None else f"{bar.rate:.2g} {bar.mark}".strip()


def _bar(bar: Bar, y: float, scale: float) -> list[str]:
    """Return a line of the chart, with a name, a bar and a figure, as SVG."""
    width = (bar.rate or 0) * scale
    kind = f"{bar.kind} differs" if bar.mark else bar.kind
    own = " own" if bar.kind == "own" else ""
    figure = "note" if bar.rate is None else "figure" + own
    return [
        _text(LEFT - 8, y + 12, bar.name, "name" + own, "end"),
        f'<rect x="{LEFT}" y="{y + 2:g}" width="{width:.1f}" height="{LINE - 4}" '
        f'class="{kind}"/>',
        _text(LEFT + width + 5, y + 12, _figure(bar), figure),
    ]


def _notes(results: Results) -> list[str]:
    m = results.machine
    return [
        "≠ some results differ from the standard's",
        "NumPy: divide, rint, clip, cast. Plain copy: of as many bytes, read and written",
        f"{m.cpu}, {pq.isa.active()}, {m.date}",
        m.command,
    ]


def svg(results: Results, colors: tuple[str, ...]) -> str:
    """Return the chart as the text of an SVG file."""
    panels = {TITLES.get(row.form, row.form): bars(row) for row in results.rows}
    drawn = [bar for panel in panels.values() for bar in panel]
    scale = (WIDTH - LEFT - RIGHT) / max(bar.rate or 0 for bar in drawn)
    elements = " or ".join(dict.fromkeys(count(row.elements) for row in results.rows))
    title = f"Speed in 10⁹ elements per second; {elements} elements, one thread"
    lines, y = [_text(0, 16, title, "title")], HEAD - TITLE
    for name, panel in panels.items():
        lines.append(_text(0, y + 15, name, "panel"))
        y += TITLE
        for bar in panel:
            lines += _bar(bar, y, scale)
            y += LINE
        y += GAP
    for note in _notes(results):
        lines.append(_text(0, y + 10, note, "note"))
        y += 15
    summary = "; ".join(
        f"{name}: " + ", ".join(f"{bar.name} {_figure(bar)}" for bar in panel)
        for name, panel in panels.items()
    )
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y}" '
        f'width="{WIDTH}" height="{y}" role="img" aria-labelledby="title desc">'
    )
    style = {"font": FONT, **dict(zip(KINDS, colors, strict=True))}
    about = [
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(summary)}</desc>',
        f"<style>{' '.join(STYLE).format(**style)}</style>",
    ]
    return "\n".join([head, *about, *lines, "</svg>"]) + "\n"


def write(folder: str, results: Results) -> None:
    """Write readme-light.svg and readme-dark.svg, unless no form was measured."""
    if results.rows:
        Path(folder).mkdir(parents=True, exist_ok=True)
        for name, colors in COLORS.items():
            Path(folder, f"readme-{name}.svg").write_text(svg(results, colors), "utf-8")
