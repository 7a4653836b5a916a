# SPDX-License-Identifier: Apache-2.0
"""The command `pyquant`, also `python -m pyquant`: from files to files."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

from pyquant import __version__
from pyquant.cli._errors import EXPECTED, shown, told

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "main", "run_as_program"]

PROGRAM = "pyquant"

# A command: the module that has add(parser) and run(arguments), and a line of help. Only
# the module of the command that is run is imported.
COMMANDS = {
    "quantize": ("_quantize", "weights of a file to codes and scales, or to blocks"),
    "dequantize": ("_dequantize", "codes and scales, or blocks, of a file to numbers"),
    "info": ("_info", "show versions and instruction sets"),
    "demo": ("_demo", "quantize arrays to int8 and show what it costs and saves"),
    "inspect": ("_inspect", "show the tensors of files"),
    "compare": ("_compare", "show how far the tensors of a file are from another's"),
}


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
        Exit status: 0; 1 for a difference that was found; 2 for arguments or files that
        cannot be used; 3 for want of space; 130 for Ctrl-C.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if not given or given[0] not in COMMANDS:
        _overview().parse_args(given[:1])  # which ends here: by help, or by an error
    name, *rest = given
    module = import_module(f"{__name__}.{COMMANDS[name][0]}")
    parser = argparse.ArgumentParser(
        prog=f"{PROGRAM} {name}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    module.add(parser)
    try:
        return int(module.run(parser.parse_args(rest)))
    except BrokenPipeError:
        raise
    except EXPECTED as error:
        message, code = told(error)
        print(f"{PROGRAM} {name}: {shown(message)}", file=sys.stderr)
        return code
    except KeyboardInterrupt:
        print(f"{PROGRAM} {name}: interrupted", file=sys.stderr)
        return 130


def run_as_program() -> int:
    """
    Run the command of the process, whose reader may go away.

    Returns
    -------
    int
        As of `main`; 1 where nobody reads what it prints.
    """
    out = sys.stdout  # None where there is none to begin with
    if isinstance(out, TextIOWrapper):  # which may be of an encoding without some
        out.reconfigure(errors="backslashreplace")
    try:
        status = main()
        if out is not None:
            out.flush()
    except BrokenPipeError:
        # The reader has gone: give the flush at exit a place to write to.
        if out is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return 1
    return status


def _overview() -> argparse.ArgumentParser:
    """What there is, for those who have not said which command."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM, description="Quantize and dequantize arrays and model files exactly."
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, line) in COMMANDS.items():
        commands.add_parser(name, help=line)
    return parser
