# SPDX-License-Identifier: Apache-2.0
"""The commands `python -m pyquant demo` and `python -m pyquant info`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import sysconfig
from typing import TYPE_CHECKING

import numpy as np

from pyquant import __version__, _demo, isa

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

PROGRAM = "python -m pyquant"


def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the program's name. Default those of the process.

    Returns
    -------
    int
        Exit status: 0, or 2 for a file that cannot be used.
    """
    arguments = _parser().parse_args(argv)
    if arguments.command == "info":
        _print_info()
        return 0
    try:
        _demo.run(arguments.file)
    except _demo.FileError as error:
        print(f"{PROGRAM} demo: {error}", file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Quantize and dequantize NumPy arrays exactly."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    demo = commands.add_parser(
        "demo",
        help="quantize arrays to int8 and show what it costs and saves",
        description=(
            "Quantize every float array of a file, or of a built-in sample, to symmetric "
            "int8 per tensor, per channel (axis 0) and in blocks along the last axis, and "
            "show error, size and speed."
        ),
    )
    demo.add_argument(
        "file", nargs="?", metavar="FILE", help="a .npy or .npz file; default a sample"
    )
    commands.add_parser("info", help="show versions and instruction sets")
    return parser


def _print_info() -> None:
    print(f"pyquant        {__version__}")
    print(f"ISA active     {isa.active()}")
    print(f"ISA available  {', '.join(isa.available())}")
    free = ", free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    build = f"{platform.python_implementation()}{free}"
    print(f"Python         {platform.python_version()} ({build})")
    print(f"NumPy          {np.__version__}")
    print(f"ml_dtypes      {_ml_dtypes()}")


def _ml_dtypes() -> str:
    try:
        import ml_dtypes
    except ImportError:
        return "not installed"
    return str(ml_dtypes.__version__)


def _run_as_program() -> int:
    try:
        status = main()
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone: give the flush at exit a place to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return status


if __name__ == "__main__":
    sys.exit(_run_as_program())
