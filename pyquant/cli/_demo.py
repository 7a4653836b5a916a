# SPDX-License-Identifier: Apache-2.0
"""`pyquant demo`: what int8 costs and saves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyquant.cli import _demo_table
from pyquant.cli._errors import Refused

if TYPE_CHECKING:
    import argparse

__all__ = ["add", "run"]


def add(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments."""
    parser.description = (
        "Quantize every float array of a file, or of a built-in sample, to symmetric\n"
        "int8 per tensor, per channel (axis 0) and in blocks along the last axis, and\n"
        "show error, size and speed."
    )
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="a .npy or .npz file; default a sample"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table."""
    try:
        _demo_table.run(arguments.file)
    except _demo_table.FileError as error:
        raise Refused(str(error)) from None
    return 0
