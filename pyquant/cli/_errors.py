# SPDX-License-Identifier: Apache-2.0
"""What a command says when it does not do what it was asked for, in one line."""

from __future__ import annotations

import errno

__all__ = ["Refused", "shown", "told"]

NO_SPACE = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))


class Refused(Exception):
    """
    Why a command ends; `main` prints it and returns the code.

    Parameters
    ----------
    message : str
        What was expected and what came, with the file and the tensor before it.
    code : int, optional
        Exit status. 1: a difference was found. 2: a file or argument that cannot be used
        (the default). 3: no space, or writing was interrupted.
    """

    def __init__(self, message: str, code: int = 2) -> None:
        super().__init__(message)
        self.code: int = code


def shown(text: object) -> str:
    """The text, on one line and without characters that terminals obey."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def told(error: BaseException) -> tuple[str, int]:
    """The message and the exit status for an error, of any of the kinds in `EXPECTED`."""
    if isinstance(error, Refused):
        return str(error), error.code
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        name = error.filename
        if isinstance(name, bytes):
            name = name.decode(errors="backslashreplace")
        code = 3 if error.errno in NO_SPACE else 2
        return (f"{name}: {reason}" if name is not None else reason), code
    if isinstance(error, MemoryError):
        return f"expected enough memory, got none: {error}".rstrip(": "), 2
    return str(error), 2


# What files and arguments raise. Anything else is a mistake of the program.
EXPECTED = (Refused, OSError, ValueError, ImportError, MemoryError)
