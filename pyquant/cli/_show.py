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

INTERVAL = 0.1  # minimum time between two updates of the progress line, in seconds
BAR = 20  # number of characters in the progress bar


def _is_terminal(file: TextIO | None) -> bool:
    """Return true if `file` is a terminal that can move its cursor."""
    return file is not None and file.isatty() and os.environ.get("TERM") != "dumb"


class Progress:
    """A context manager that shows a progress line on stderr, if stderr is a terminal.

    `total` is the number of bytes that will be processed.
    """

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self.total, self.done = total, 0
        self._live = not quiet and _is_terminal(sys.stderr)
        self._start, self._next = monotonic(), 0.0

    def __enter__(self) -> Progress:
        """Return the object. `advance` shows the line."""
        return self

    def advance(self, nbytes: int, name: str = "") -> None:
        """Add a number of processed bytes, and show the line with the name of a tensor."""
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
        """Clear the progress line."""
        if self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def sized(nbytes: float) -> str:
    """Return a number of bytes as text with a unit, for example "1.5 MiB"."""
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
    Print a table: a line with the names of the columns, and the rows.

    No text is shortened, and control characters are escaped. The columns in `right` are
    right-aligned. The first column has names of tensors or files. On a narrow terminal, a
    long name is on a separate line.
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
    """Return a number with a noun, for example "1 tensor" or "2 tensors"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def print_json(rows: Iterable[Mapping[str, Any]], summary: Mapping[str, Any]) -> None:
    """Print a line of JSON for each row, and then a line of JSON with the summary."""
    for row in chain(rows, [{"summary": summary}]):
        print(as_json(row))


def as_json(said: Mapping[str, Any]) -> str:
    """Return an object as one line of JSON. Infinities become strings, and NaN is null."""
    return json.dumps(_plain(said), separators=(", ", ": "), allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
