# SPDX-License-Identifier: Apache-2.0
"""Import the compiled module first, and report its errors to users of the command."""

import sys
from importlib import import_module


def _program() -> str | None:
    """Return the command line of the process, if its program is `pyquant`."""
    script = sys.argv[0].replace("\\", "/").rpartition("/")[2] if sys.argv else ""
    if script in ("pyquant", "pyquant.exe"):
        return "pyquant"
    # sys.argv[0] is "-m" until Python finds the module. The name precedes the arguments.
    name = sys.orig_argv[-len(sys.argv) :][:1]
    by_name = sys.argv[:1] == ["-m"] and name in (["pyquant"], ["-mpyquant"])
    return "python -m pyquant" if by_name else None


def _require_core() -> None:
    try:
        import_module("pyquant._core")
    except ModuleNotFoundError as error:
        if error.name != "pyquant._core":
            raise
        msg = (
            "pyquant: expected its compiled module, got the source folder; install with "
            "'pip install .' and start Python elsewhere, or here with -P"
        )
        raise ImportError(msg) from None


def _start() -> None:
    """Import the module. Until the command runs, Ctrl-C ends it without a traceback."""
    if _program():
        import signal

        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        _require_core()
    except ImportError as error:
        program = _program()
        if program is None or not str(error).startswith(("PYQUANT_ISA: ", "pyquant: ")):
            raise
        print(f"{program}: {error}", file=sys.stderr)
        sys.exit(2)


_start()
