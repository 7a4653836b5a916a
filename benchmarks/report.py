# SPDX-License-Identifier: Apache-2.0
"""Write results as text, Markdown, JSON and plots."""

from __future__ import annotations

import json
import platform
import re
import sys
from datetime import UTC, datetime
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pyquant as pq
from benchmarks import rivals
from benchmarks.runs import TWO_CALLS, Notes, Row
from pyquant import _core

# Also list the package onnx, which makes the models of ONNX Runtime.
PACKAGES = ("onnx", *dict.fromkeys(rival.package for rival in rivals.RIVALS.values()))
BAR_WIDTH = 30
# Titles of the columns that contain names instead of figures.
NAMES = ("form", "groups", *rivals.MARKS.values())
PLOT_COLUMNS = 4
PLOT_DPI = 90
PLOT_PALETTE = 64
# The line style of each mark of a candidate.
LINES = {rivals.SAME: "-", rivals.OTHER_BITS: "--", rivals.CAST: ":"}
COLORS = {
    "avx512": "#8c1010",
    "avx2": "#d62728",
    "neon": "#d62728",
    "scalar": "#e8a0a0",
    "numpy": "#1f77b4",
    "ml_dtypes": "#17becf",
    "onnxruntime": "#2ca02c",
    "torch": "#ff7f0e",
    "torch_eager": "#bcbd22",
    "numkong": "#9467bd",
    "gguf": "#8c564b",
    "openvino": "#000000",
    "xarray": "#7f7f7f",
    "numcodecs": "#e377c2",
    "bitsandbytes": "#393b79",
    "compressed_tensors": "#637939",
    "mlx": "#843c39",
}


class Progress:
    """A progress line on stderr, if stderr is a terminal."""

    def __init__(self, total: int) -> None:
        """Count up to `total`."""
        self.total, self.done = max(total, 1), 0

    def tick(self, what: str) -> None:
        """Show the name of the next step."""
        filled = BAR_WIDTH * self.done // self.total
        bar = "#" * filled + "." * (BAR_WIDTH - filled)
        self._write(f"[{bar}] {self.done}/{self.total} {what:40.40}")
        self.done += 1

    def close(self) -> None:
        """Clear the line."""
        self._write(" " * (BAR_WIDTH + 60) + "\r")

    def _write(self, text: str) -> None:
        if sys.stderr.isatty():
            print("\r" + text, end="", file=sys.stderr, flush=True)


# ---- the machine ----


class Machine(NamedTuple):
    """The computer, the versions and the command of a measurement."""

    cpu: str
    os: str
    compiler: str
    python: str
    pyquant: str
    isa: tuple[str, ...]
    packages: dict[str, str]
    date: str
    command: str


def cpu_name() -> str:
    """Return the model name of the CPU, or its architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
        return next(line.split(":")[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def compiler() -> str:
    """Return the compiler that GCC and Clang record in the extension module."""
    found = re.search(
        rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", Path(_core.__file__).read_bytes()
    )
    return found[0].decode() if found else f"that of Python, {platform.python_compiler()}"


def machine() -> Machine:
    """Describe this machine and the installed packages."""
    versions = {name: rivals.version(name) for name in PACKAGES}
    return Machine(
        cpu_name(),
        platform.platform(),
        compiler(),
        platform.python_version(),
        pq.__version__,
        pq.isa.available(),
        {name: version for name, version in versions.items() if version},
        datetime.now(UTC).date().isoformat(),
        " ".join(["python -m benchmarks", *sys.argv[1:]]),
    )


class Results(NamedTuple):
    """All results of a measurement. Rows and notes are added while the measurement runs."""

    rows: list[Row]
    bandwidths: list[dict[str, float]]
    notes: Notes
    machine: Machine


def header(results: Results) -> str:
    """Return lines about the machine, the packages and the command."""
    m = results.machine
    lines = [
        f"{m.cpu}; {m.os}; {m.date}",
        f"pyquant {m.pyquant} ({', '.join(m.isa)}), {m.compiler}, Python {m.python}",
        ", ".join(f"{name} {version}" for name, version in m.packages.items()),
        m.command,
    ]
    for row in results.bandwidths:
        figures = ", ".join(f"{key} {row[key]:.1f}" for key in ("read", "write", "copy"))
        lines.append(f"GB/s within {count(int(row['bytes'])) + 'B':>7}: {figures}")
    return "\n".join(lines)


# ---- the table ----


def count(n: int) -> str:
    """Return a count with a binary unit: 1048576 is 1 Mi."""
    for shift, unit in ((20, "Mi"), (10, "Ki")):
        if n >= 1 << shift and n % (1 << shift) == 0:
            return f"{n >> shift} {unit}"
    return str(n)


def duration(seconds: float) -> str:
    for unit, factor in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def _rate(row: Row, name: str) -> str:
    if name not in row.seconds:
        return "-"
    rate = row.elements / row.seconds[name] / 1e9
    return f"{rate:.3g}" + row.marks.get(name, "")


def _ratio(found: tuple[str, float] | None) -> str:
    return f"{found[1]:.2f} {found[0]}" if found else "-"


def _names(rows: list[Row]) -> list[str]:
    """Return the names of the candidates of all rows, in the order of the columns."""
    present = dict.fromkeys(name for row in rows for name in row.seconds)
    order = [*pq.isa.available(), rivals.ONE_THREAD.name, TWO_CALLS, *rivals.RIVALS]
    return [name for name in order if name in present]


def cells(rows: list[Row]) -> list[list[str]]:
    """Return the table: a line of titles, then one line for each row."""
    names = _names(rows)
    lines = [
        ["form", "elements", "time", "GB/s", "copy", "±", *names, *rivals.MARKS.values()],
    ]
    for row in rows:
        lines.append(
            [
                row.form,
                count(row.elements),
                duration(row.time),
                f"{row.bytes / row.time / 1e9:.3g}",
                f"{row.share:.0%}",
                f"{row.spread[row.best]:.0%}",
                *(_rate(row, name) for name in names),
                *(_ratio(row.fastest(mark)) for mark in rivals.MARKS),
            ]
        )
    return lines


LEGEND = [
    "avx2 and other names: 10⁹ elements per second. time, GB/s, copy and ± belong to the",
    "best instruction set of pyquant. GB/s: bytes read and written. copy: the time to copy",
    "as many bytes, divided by time. ±: interquartile range divided by the median. Last",
    "columns: the time of the fastest rival with this mark, divided by time.",
    *(f"{mark} {meaning}" for mark, meaning in rivals.LEGEND.items()),
]


def note_lines(notes: Notes) -> list[str]:
    """Return a line for each note, with the names of the first forms concerned."""
    lines = []
    for text, forms in notes.items():
        names = list(dict.fromkeys(forms))
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        lines.append(text + (f" [{', '.join(names[:4])}{more}]" if names else ""))
    return lines


def text_table(lines: list[list[str]]) -> str:
    """Align names to the left and figures to the right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left = [i for i, title in enumerate(lines[0]) if title in NAMES]
    rendered = []
    for line in lines:
        padded = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        rendered.append("  ".join(padded).rstrip())
    return "\n".join(rendered)


def page(results: Results, compact: bool) -> str:
    """Return the header, table, legend and notes for a terminal."""
    if compact:
        parts = [header(results), compact_table(results.rows), COMPACT_LEGEND]
    else:
        parts = [header(results), text_table(cells(results.rows)), "\n".join(LEGEND)]
    return "\n\n".join([*parts, "\n".join(note_lines(results.notes))]).rstrip()


def markdown(results: Results) -> str:
    """Return the header, table, legend and notes for a document."""
    titles, *body = cells(results.rows)
    table = [titles, ["---" if t in NAMES else "---:" for t in titles], *body]
    parts = [
        "```\n" + header(results) + "\n```",
        "\n".join("| " + " | ".join(line) + " |" for line in table),
        "\n".join(f"- `{mark}` {meaning}" for mark, meaning in rivals.LEGEND.items()),
        "\n".join(f"- {line}" for line in note_lines(results.notes)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(results: Results) -> str:
    """Return all results as JSON."""
    report = {
        "machine": results.machine._asdict(),
        "bandwidths": results.bandwidths,
        "marks": rivals.LEGEND,
        "notes": note_lines(results.notes),
        "rows": [row.record() for row in results.rows],
    }
    return json.dumps(report, indent=1) + "\n"


COMPACT_LEGEND = (
    "time: of the best instruction set of pyquant; / copy: time divided by the time of a\n"
    "plain copy of as many bytes; numpy /: the time of NumPy divided by time."
)


def compact_table(rows: list[Row]) -> str:
    """Return a table of times relative to a copy, which are comparable between machines."""
    lines = [["form", "elements", "time", "/ copy", "numpy /", "±"]]
    for row in rows:
        numpy = row.seconds.get("numpy")
        lines.append(
            [
                row.form,
                count(row.elements),
                duration(row.time),
                f"{row.time / row.roofline_seconds:.2f}",
                f"{numpy / row.time:.1f}" if numpy else "-",
                f"{row.spread[row.best]:.0%}",
            ]
        )
    return text_table(lines)


# ---- plots ----


def plot(folder: str, results: Results) -> None:
    """
    Draw the plots that the results allow.

    Raises
    ------
    ImportError
        If matplotlib is missing.
    """
    matplotlib = import_module("matplotlib")
    matplotlib.use("agg")  # no window
    pyplot = import_module("matplotlib.pyplot")
    Path(folder).mkdir(parents=True, exist_ok=True)
    rows = results.rows
    for group in dict.fromkeys(row.group for row in rows):
        forms = _by_form([row for row in rows if row.group == group])
        if forms:
            figure = _throughput(pyplot, forms)
            save(pyplot, figure, Path(folder, f"throughput-{group}.png"))
    save(pyplot, _roofline(pyplot, results), Path(folder, "roofline.png"))


def save(pyplot: Any, figure: Any, path: Path) -> None:
    """Write a figure as a small image."""
    drawn = BytesIO()
    figure.savefig(drawn, dpi=PLOT_DPI, bbox_inches="tight")
    pyplot.close(figure)
    # A palette of colors makes the file three times smaller. PIL is always available,
    # because Matplotlib requires it.
    image = import_module("PIL.Image").open(drawn).convert("RGB")
    image.quantize(PLOT_PALETTE).save(path, optimize=True)


def _by_form(rows: list[Row]) -> dict[str, list[Row]]:
    """Return the rows of each form that has several sizes."""
    forms: dict[str, list[Row]] = {}
    for row in rows:
        forms.setdefault(row.form, []).append(row)
    return {name: found for name, found in forms.items() if len(found) > 1}


def _throughput(pyplot: Any, forms: dict[str, list[Row]]) -> Any:
    """Draw elements per second over size, one panel for each form."""
    lines = -(-len(forms) // PLOT_COLUMNS)
    figure, axes = pyplot.subplots(
        lines, PLOT_COLUMNS, figsize=(13, 2.7 * lines + 0.6), squeeze=False, sharex=True
    )
    handles: dict[str, Any] = {}
    for panel, (name, rows) in zip(axes.flat, forms.items(), strict=False):
        for candidate in _names(rows):
            points = [
                (row.elements, row.elements / row.seconds[candidate] / 1e9)
                for row in rows
                if candidate in row.seconds
            ]
            ours = candidate in pq.isa.available()
            mark = rows[0].marks.get(candidate, rivals.SAME)
            (line,) = panel.plot(
                *zip(*points, strict=True),
                LINES[mark],
                marker="o",
                markersize=3,
                linewidth=2.2 if ours else 1.2,
                color=COLORS.get(candidate, "black"),
            )
            if mark == rivals.SAME or candidate not in handles:
                handles[candidate] = line
        panel.set(xscale="log", yscale="log", title=name)
        panel.grid(alpha=0.3)
    for panel in axes.flat[len(forms) :]:
        panel.axis("off")
    figure.supxlabel("elements; dashed: other bits, dotted: a cast alone")
    figure.supylabel("G elements / s")
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.4 / (2.7 * lines + 0.6)))
    figure.legend(handles.values(), handles.keys(), loc="upper center", ncols=len(handles))
    return figure


def _roofline(pyplot: Any, results: Results) -> Any:
    """Draw GB/s over the number of bytes of a call, with the bandwidths of memory."""
    figure, panel = pyplot.subplots(figsize=(9, 5.4))
    touched = [each["bytes"] for each in results.bandwidths]
    for kind, style in (("read", "-."), ("write", ":"), ("copy", "-")):
        speeds = [each[kind] for each in results.bandwidths]
        panel.plot(touched, speeds, style, color="black", linewidth=1.2, label=kind)
    for group in dict.fromkeys(row.group for row in results.rows):
        rows = [row for row in results.rows if row.group == group]
        speeds = [row.bytes / row.time / 1e9 for row in rows]
        sizes = [row.bytes for row in rows]
        panel.plot(sizes, speeds, "o", markersize=4, alpha=0.7, label=group)
    panel.set(xscale="log", yscale="log", xlabel="bytes of a call", ylabel="GB / s")
    panel.grid(alpha=0.3)
    panel.legend()
    figure.tight_layout()
    return figure
