# SPDX-License-Identifier: Apache-2.0
"""How far a command has come, and tables: in colours on a terminal, else plain lines."""

from __future__ import annotations

import os
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, TextIO

from pyquant.cli._errors import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

__all__ = ["Progress", "print_table", "sized"]

INTERVAL = 0.1  # seconds between two looks of the line


def _is_terminal(file: TextIO | None) -> bool:
    """Whether there is somebody who looks, and wants more than plain lines."""
    plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return file is not None and file.isatty() and not plain


class Progress:
    """
    A line on stderr that says how much is done; none where that is no terminal.

    Parameters
    ----------
    total : int
        Bytes that there are.
    quiet : bool, optional
        Whether to say nothing.
    """

    def __init__(self, total: int, *, quiet: bool = False) -> None:
        self.total: int = total
        self.done: int = 0
        self._live = not quiet and _is_terminal(sys.stderr)
        self._next = 0.0
        self._rich: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        """Begin the line."""
        if self._live:
            self._rich = _rich_line()
        if self._rich is not None:
            self._rich.start()
            self._task = self._rich.add_task("", total=self.total or 1)
        return self

    def advance(self, nbytes: int, name: str = "") -> None:
        """Say that so many more bytes are done, of this tensor."""
        self.done += nbytes
        now = monotonic()
        if not self._live or now < self._next:
            return
        self._next = now + INTERVAL
        if self._rich is not None:
            label = shown(name)[:40]
            self._rich.update(self._task, completed=self.done, description=label)
            return
        share = self.done / self.total if self.total else 1
        text = f"\r{share:4.0%} of {sized(self.total)}  {shown(name)[:40]:40}"
        print(text, end="", file=sys.stderr, flush=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the line."""
        if self._rich is not None:
            self._rich.stop()
        elif self._live:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _rich_line() -> Any:
    """The line by rich, if that is installed."""
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        return None
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.DownloadColumn(binary_units=True),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(file=sys.stderr),
        transient=True,
    )


def sized(nbytes: float) -> str:
    """A number of bytes, for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if nbytes < 1024:
            return f"{nbytes:.0f} B" if unit == "B" else f"{nbytes:.1f} {unit}"
        nbytes /= 1024
    return f"{nbytes:.1f} TiB"


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Sequence[str] = (),
    file: TextIO | None = None,
) -> None:
    """
    Print rows below a line of headings.

    Parameters
    ----------
    columns : sequence of str
        The headings.
    rows : sequence of sequences
        A cell for each column, which may be of any type; control characters are escaped.
    right : sequence of str, optional
        The columns that end at the same place: those of numbers.
    file : file, optional
        Default stdout. On a terminal rich prints the table, if that is installed.
    """
    to: TextIO | None = sys.stdout if file is None else file
    if to is None:  # closed, and nobody reads it
        return
    cells = [[shown(cell) for cell in row] for row in rows]
    if _is_terminal(to) and _print_rich(columns, cells, right, to):
        return
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    for row in (columns, *cells):
        padded = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for cell, width, name in zip(row, widths, columns, strict=True)
        ]
        print("  ".join(padded).rstrip(), file=to)


def _print_rich(
    columns: Sequence[str], rows: list[list[str]], right: Sequence[str], file: TextIO
) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    Console(file=file, highlight=False).print(table)
    return True
