# SPDX-License-Identifier: Apache-2.0
"""Run the command `pyquant`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING

from pyquant import __version__, embed
from pyquant._core import default_fpenv
from pyquant._refused import hint
from pyquant.cli._errors import EXPECTED, shown, told
from pyquant.cli._select import add_options

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["COMMANDS", "main", "run_as_program"]

PROGRAM = "pyquant"
# The signals that end a command. Windows has no SIGHUP.
SIGNALS = [one for one in signal.Signals if one.name in ("SIGINT", "SIGTERM", "SIGHUP")]
# In a help text, leave 28 columns for the names of commands and options.
FORMATTER = partial(argparse.RawDescriptionHelpFormatter, max_help_position=28)

# Command -> its module, and its line in the help. The order is the order of use. A module
# has the function run(arguments) and the list OPTIONS. In the output of --help, DESCRIPTION
# is the text before the options, and EXAMPLES the text after them. Only the module of the
# given command is imported.
COMMANDS = {
    "inspect": ("_inspect", "list and check the tensors of files"),
    "quantize": ("_quantize", "quantize the weights of a model file"),
    "compare": ("_compare", "measure what a quantized file lost"),
    "convert": ("_convert", "change the format of quantized weights"),
    "dequantize": ("_dequantize", "restore real numbers from a quantized file"),
    "demo": ("_demo", "show error, size and speed on sample data or on your arrays"),
    "info": ("_info", "print versions and instruction sets"),
}

EXAMPLES = """\
examples:
  pyquant inspect model.safetensors
  pyquant quantize model.safetensors model-int8.safetensors --type int8
  pyquant compare model.safetensors model-int8.safetensors

pyquant COMMAND --help lists the options of a command, with examples"""


@default_fpenv
def main(argv: Sequence[str] | None = None) -> int:
    """
    Run one command, and return its exit status.

    `argv` has the name of the command and its arguments. The default is the arguments of
    the process. The status is 0 for success, 1 for a difference or fault in a file, 2 for
    arguments or files that cannot be used, 3 for a full disk, and 128 + N for signal N.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    if not given:
        _overview().print_help()
        return 0
    if given[0] not in COMMANDS:
        parser = _overview()
        if not given[0].startswith("-"):
            end = hint(given[0], COMMANDS) or f"; use one of {', '.join(COMMANDS)}"
            parser.error(f"{given[0]!r} is not a command{end}")
        parser.parse_args(given[:1])  # prints the help, the version or an error, and exits
    name, *rest = given
    try:
        module = import_module(f"{__name__}.{COMMANDS[name][0]}")
        parser = argparse.ArgumentParser(
            prog=f"{PROGRAM} {name}",
            description=module.DESCRIPTION,
            epilog=module.EXAMPLES,
            formatter_class=FORMATTER,
            allow_abbrev=False,
        )
        add_options(parser, *module.OPTIONS)
        return int(module.run(parser.parse_args(rest)))
    except BrokenPipeError:
        raise
    except EXPECTED as error:
        message, code = told(error)
        print(f"{PROGRAM} {name}: {shown(message)}", file=sys.stderr)
        return code
    except KeyboardInterrupt as stop:
        number = signal.Signals(stop.args[0] if stop.args else signal.SIGINT)
        with suppress(OSError):  # after SIGHUP, the terminal may be closed
            print(f"{PROGRAM} {name}: stopped by {number.name}", file=sys.stderr)
        return 128 + number


def _stop(number: int, frame: object) -> None:
    """End the command by KeyboardInterrupt, and ignore further signals.

    A further signal could stop the removal of temporary files.
    """
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


def run_as_program() -> int:
    """
    Run the command of the process, and return the status of `main`.

    SIGINT, SIGTERM and SIGHUP end the command like an error. A signal that the process
    already ignores, for example because of nohup, stays ignored. If the reader of stdout
    closes the pipe, the status is 1.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    out = sys.stdout  # `None` if the process started without stdout
    if isinstance(out, TextIOWrapper):  # the encoding of stdout may lack characters
        out.reconfigure(errors="backslashreplace")
    try:
        status = main()
        if out is not None:
            out.flush()
    except BrokenPipeError:
        # Python flushes stdout at exit. Without this redirection, the closed pipe would
        # cause a second error.
        if out is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        return 1
    return status


def _overview() -> argparse.ArgumentParser:
    """Return the parser of the program. The help of this parser lists the commands."""
    lines = [f"  {name:12}{line}" for name, (_, line) in COMMANDS.items()]
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Quantize arrays and model files exactly, and measure the error.",
        epilog="\n".join(["commands:", *lines, "", EXAMPLES]),
        formatter_class=FORMATTER,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    for option, folder, names in (
        ("--include-dir", embed.get_include(), "pq.h and pyquant.h"),
        ("--cmake-dir", embed.get_cmake_dir(), "pyquant-config.cmake and pyquant.pc"),
    ):
        line = f"print the folder of {names}"
        parser.add_argument(option, action="version", version=folder, help=line)
    parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help="see below")
    return parser
