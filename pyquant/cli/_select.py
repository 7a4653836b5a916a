# SPDX-License-Identifier: Apache-2.0
"""Add options to the commands, and select tensors by patterns of their names."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, Any, TypeVar

from pyquant._refused import hint
from pyquant.cli._errors import Refused

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Value = TypeVar("_Value")


# The last part of the help text of a command.
STATUS = """
exit status:
  0    done
  2    a file or an argument cannot be used
  3    no space on the disk
  129  SIGHUP; 130: Ctrl-C; 143: SIGTERM"""
# Options that several commands have. A row has the names, the placeholder for the value,
# the help, and optionally further arguments of argparse. If the placeholder is `None`, the
# option is a flag. If it is "", argparse chooses the placeholder. In `add_options`, a list
# of rows has options that exclude each other.
REPEATED = {"action": "append", "default": []}
TENSOR = ("--tensor", "PATTERN", "glob or re:REGEX; repeatable (default: all)", REPEATED)
RAW = ("--raw", None, "treat codes as values; ignore names of scales")
REPORT = ("--report", "OUT.html", "write a page with plots (default: none)")
FORCE = ("-f --force", None, "overwrite existing files")
JSON = ("--json", None, "print JSON lines: the tensors, then a summary")


def add_options(parser: Any, *rows: Any) -> None:
    """Add options to a parser or to a group of options. A row describes an option."""
    for row in rows:
        if isinstance(row, list):
            add_options(parser.add_mutually_exclusive_group(), *row)
            continue
        names, placeholder, help, *how = row
        more = {"action": "store_true"} if placeholder is None else {}
        more |= {"metavar": placeholder} if placeholder else {}
        parser.add_argument(*names.split(), help=help, **more, **(how[0] if how else {}))


def chosen(
    rules: Sequence[tuple[str, _Value]], names: Iterable[str], option: str = "--tensor"
) -> dict[str, _Value]:
    """
    Return a dict from names to the value of the last pattern that matches the name.

    `rules` has pairs of a pattern and a value. A glob must match the complete name, and
    ``*`` matches any characters, also dots. A pattern that begins with ``re:`` is a regular
    expression, and may match any part of the name. A malformed pattern, or a pattern that
    matches no name, raises Refused. The message names the `option`.
    """
    found: dict[str, _Value] = {}
    names = list(names)
    for pattern, value in rules:
        search, regular = pattern.removeprefix("re:"), pattern.startswith("re:")
        try:
            expression = re.compile(search if regular else rf"\A{translate(pattern)}")
        except re.error as error:
            got = f"{pattern!r} ({error})"
            raise Refused(f"{option}: expected a regular expression, got {got}") from None
        matched = [name for name in names if expression.search(name)]
        if not matched:
            end = hint(pattern, names, show=repr)
            raise Refused(f"{option}: no tensor matches {pattern!r}{end}")
        found |= dict.fromkeys(matched, value)
    return {name: found[name] for name in names if name in found}


def selected(patterns: Sequence[str], names: Iterable[str]) -> Iterable[str]:
    """Return the names that match a pattern, or all names without patterns."""
    return chosen([(one, None) for one in patterns], names) if patterns else names
