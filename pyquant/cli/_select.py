# SPDX-License-Identifier: Apache-2.0
"""Select tensors by patterns of their names."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, TypeVar

from pyquant._refused import hint
from pyquant.cli._errors import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

__all__ = ["add_patterns", "add_raw", "chosen"]

_Value = TypeVar("_Value")


def add_patterns(parser: argparse.ArgumentParser) -> None:
    """Add the option --tensor."""
    parser.add_argument(
        "--tensor",
        action="append",
        default=[],
        metavar="PATTERN",
        help="glob or re:REGEX; repeatable (default: all)",
    )


def add_raw(parser: argparse.ArgumentParser) -> None:
    """Add the option --raw."""
    parser.add_argument(
        "--raw",
        action="store_true",
        help="treat codes as values; ignore names of scales",
    )


def chosen(
    rules: Sequence[tuple[str, _Value]], names: Iterable[str], option: str = "--tensor"
) -> dict[str, _Value]:
    """
    Apply rules to names; the last matching rule wins.

    Parameters
    ----------
    rules : sequence of (str, object)
        Patterns with their values. A glob matches a complete name; ``*`` matches any
        characters, dots included. ``re:`` and a regular expression match any part.
    names : iterable of str
        Names of tensors.
    option : str, optional
        The option that holds the patterns, for messages.

    Returns
    -------
    dict
        The matching names, each with the value of the last matching pattern.

    Raises
    ------
    Refused
        If a pattern matches no name, or if a regular expression is malformed.
    """
    found: dict[str, _Value] = {}
    names = list(names)
    for pattern, value in rules:
        expression = _compiled(pattern, option)
        matched = [name for name in names if expression.search(name)]
        if not matched:
            end = hint(pattern, names, show=repr)
            raise Refused(f"{option}: no tensor matches {pattern!r}{end}")
        found |= dict.fromkeys(matched, value)
    return {name: found[name] for name in names if name in found}


def _compiled(pattern: str, option: str) -> re.Pattern[str]:
    if not pattern.startswith("re:"):
        return re.compile(rf"\A{translate(pattern)}")
    try:
        return re.compile(pattern.removeprefix("re:"))
    except re.error as error:
        got = f"{pattern!r} ({error})"
        raise Refused(f"{option}: expected a regular expression, got {got}") from None
