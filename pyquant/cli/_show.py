# SPDX-License-Identifier: Apache-2.0
"""Print tables, JSON and a progress line as plain text."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
from itertools import chain
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from pyquant.cli._errors import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

INTERVAL = 0.1  # seconds between two updates of the progress line
BAR = 20  # characters of the progress bar


def _is_terminal(file: TextIO | None) -> bool:
    """Return true if `file` is a terminal with a cursor."""
    return file is not None and file.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    """Show a progress line on stderr, if stderr is a terminal; a context manager. `total`
    is the number of bytes to process."""

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self.total, self.done = total, 0
        self._live = not quiet and _is_terminal(sys.stderr)
        self._start, self._next = monotonic(), 0.0

    def __enter__(self) -> Progress:
        """Return the progress line, which `advance` draws."""
        return self

    def advance(self, nbytes: int, name: str = "") -> None:
        """Add processed bytes, and show the line with the name of the tensor."""
        self.done += nbytes
        now = monotonic()
        if not self._live or now < self._next:
            return
        self._next = now + INTERVAL
        share = min(1.0, self.done / self.total) if self.total else 1.0
        speed = self.done / max(now - self._start, 1e-9)
        left = (self.total - self.done) / max(speed, 1e-9)
        bar = "#" * round(BAR * share)
        text = f"{share:4.0%} [{bar:{BAR}}] {sized(self.total)}, {sized(speed)}/s, "
        text += f"{left:.0f} s left  {shown(name)}"
        columns = shutil.get_terminal_size().columns - 1
        print(f"\r{text[:columns]}\x1b[K", end="", file=sys.stderr, flush=True)

    def __exit__(self, *error: object) -> None:
        """Clear the line."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def sized(nbytes: float) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} TiB"


def print_table(
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[str] = (),
) -> None:
    """
    Print rows below a line of headings, and never cut a cell.

    The first column holds names. Control characters are escaped. The columns `right` are
    aligned at the right. On a narrow terminal, long names get a line of their own.
    """
    if sys.stdout is None:  # stdout is closed
        return
    cells = [tuple(map(shown, row)) for row in chain((columns,), rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(columns))]
    if _is_terminal(sys.stdout):
        rest = sum(widths[1:]) + 2 * len(widths[1:])
        widths[0] = min(widths[0], max(0, shutil.get_terminal_size().columns - rest))
    for row in cells:
        if len(row[0]) > widths[0]:
            print(row[0])
            row = ("", *row[1:])
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(row, widths, columns, strict=True)
        ]
        print("  ".join(padded).rstrip())


def counted(number: int, what: str) -> str:
    """Return a number with its noun."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def print_json(rows: Iterable[Mapping[str, Any]], summary: Mapping[str, Any]) -> None:
    """Print a line of JSON for each row, and a line with the summary."""
    for row in chain(rows, [{"summary": summary}]):
        print(as_json(row))


def as_json(said: Mapping[str, Any]) -> str:
    """Return one line of JSON. Infinities become strings, and NaN becomes null."""
    return json.dumps(_plain(said), separators=(", ", ": "), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
