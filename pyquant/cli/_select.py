# SPDX-License-Identifier: Apache-2.0
"""Which tensors a pattern means."""

from __future__ import annotations

import re
from fnmatch import translate
from typing import TYPE_CHECKING, TypeVar

from pyquant.cli._errors import Refused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

__all__ = ["add_patterns", "chosen"]

_Value = TypeVar("_Value")


def add_patterns(parser: argparse.ArgumentParser) -> None:
    """Describe --tensor of commands that show some tensors."""
    parser.add_argument(
        "--tensor",
        action="append",
        default=[],
        metavar="PATTERN",
        help="only these: a glob, or re: and a regular expression; may be repeated",
    )


def chosen(
    rules: Sequence[tuple[str, _Value]], names: Iterable[str], what: str = "--tensor"
) -> dict[str, _Value]:
    """
    Find what rules say of names.

    Parameters
    ----------
    rules : sequence of (str, object)
        Patterns, each with what it stands for: globs for whole names, in which ``*`` means
        any characters, dots too; or ``re:`` and a regular expression, which may be found
        anywhere in a name.
    names : iterable of str
        Names of tensors.
    what : str, optional
        The option that the patterns come from, for messages.

    Returns
    -------
    dict
        Names that some pattern matches, with what the last of these stands for.

    Raises
    ------
    Refused
        If a pattern matches nothing, or is no regular expression.
    """
    found: dict[str, _Value] = {}
    names = list(names)
    for pattern, value in rules:
        expression = _compiled(pattern, what)
        matched = [name for name in names if expression.search(name)]
        if not matched:
            raise Refused(f"{what}: expected a pattern of some tensors, got {pattern!r}")
        found |= dict.fromkeys(matched, value)
    return {name: found[name] for name in names if name in found}


def _compiled(pattern: str, what: str) -> re.Pattern[str]:
    if not pattern.startswith("re:"):
        return re.compile(rf"\A{translate(pattern)}")
    try:
        return re.compile(pattern.removeprefix("re:"))
    except re.error as error:
        got = f"{pattern!r} ({error})"
        raise Refused(f"{what}: expected a regular expression, got {got}") from None
