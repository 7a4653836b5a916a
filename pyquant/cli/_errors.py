# SPDX-License-Identifier: Apache-2.0
"""Errors of a command, each printed as one line."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyquant.weights._elements import special_kind

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_SPACE = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class Refused(Exception):
    """
    End a command with one line about a file, a tensor, and the fault or the remedy.

    `code` is the exit status. 1: a difference or fault was found. 2: a file or argument
    cannot be used (the default). 3: no space.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code: int = code


def shown(text: object) -> str:
    """Return the text in one line, with control characters escaped."""
    text = str(text)
    if text.isprintable():
        return text
    escaped = (c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(c if c.isprintable() else e for c, e in zip(text, escaped, strict=True))


def fault(
    path: str | None, expected: str, got: object, tensor: str | None = None
) -> Refused:
    """Return an error about a file, or about a tensor of a file."""
    where = "" if path is None else f"{path}: "
    where += "" if tensor is None else f"tensor {tensor[:100]!r}: "
    return Refused(f"{where}expected {expected}, got {got}")


@contextmanager
def converting(
    path: str, expected: str, tensor: str | None = None, before: str = "", most: int = 100
) -> Iterator[None]:
    """Convert errors of any type, which other packages raise for files, to `Refused`. The
    message has at most `most` characters of the error."""
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        got = " ".join(str(error).split())[:most] or type(error).__name__
        raise fault(path, expected, before + got, tensor) from None


def check_free(path: str, force: bool) -> None:
    """Refuse a path without a folder, an existing file unless `force` is true, and a
    folder, FIFO, socket or device, which a file must not replace."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise Refused(f"folder {folder} does not exist")
    kind = special_kind(path, replace=True)
    if kind is not None:
        raise Refused(f"{path} is {kind}, not a regular file; use another name")
    if os.path.lexists(path) and not force:
        raise Refused(f"{path} exists; use -f to overwrite it")


def told(error: BaseException) -> tuple[str, int]:
    """Return the message and the exit status of an error in `EXPECTED`."""
    if isinstance(error, Refused):
        return str(error), error.code
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        name = error.filename
        code = 3 if error.errno in NO_SPACE else 2
        return (f"{name}: {reason}" if name is not None else reason), code
    if isinstance(error, MemoryError):
        return f"expected enough memory, got none: {error}".rstrip(": "), 2
    return str(error), 2


# Errors that files and arguments cause. Any other exception is a bug of pyquant.
EXPECTED = (Refused, OSError, ValueError, ImportError, MemoryError)
