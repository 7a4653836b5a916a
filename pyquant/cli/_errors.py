# SPDX-License-Identifier: Apache-2.0
"""Errors of a command. A command prints each error as one line."""

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
    An error that ends a command with a message of one line.

    `code` is the exit status of the command: 1 if a difference or fault was found, 2 (the
    default) if a file or argument cannot be used, and 3 for a full disk.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code: int = code


def shown(text: object) -> str:
    """Return a text with escaped line breaks and control characters, to print one line."""
    text = str(text)
    if text.isprintable():
        return text
    escaped = (c.encode("unicode_escape").decode("ascii") for c in text)
    return "".join(c if c.isprintable() else e for c, e in zip(text, escaped, strict=True))


def fault(
    path: str | None, expected: str, got: object, tensor: str | None = None
) -> Refused:
    """Return an exception about a file, or about a tensor of a file."""
    where = "" if path is None else f"{path}: "
    where += "" if tensor is None else f"tensor {tensor[:100]!r}: "
    return Refused(f"{where}expected {expected}, got {got}")


@contextmanager
def converting(
    path: str, expected: str, tensor: str | None = None, before: str = "", most: int = 100
) -> Iterator[None]:
    """Convert exceptions of any type in the `with` block to `Refused`.

    The block calls another package that may raise any exception for an invalid file. The
    message contains at most `most` characters of the exception.
    """
    try:
        yield
    except Refused:
        raise
    except Exception as error:
        got = " ".join(str(error).split())[:most] or type(error).__name__
        raise fault(path, expected, before + got, tensor) from None


def check_free(path: str, force: bool) -> None:
    """Raise Refused if no new file may be written to a path.

    Reasons are a missing folder, an existing file (unless `force` is true), and a path of a
    folder, FIFO, socket or device.
    """
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


# Exceptions that files and arguments can cause. Any other exception is a bug of pyquant.
EXPECTED = (Refused, OSError, ValueError, ImportError, MemoryError)
