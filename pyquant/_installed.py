# SPDX-License-Identifier: Apache-2.0
"""Says what is wrong when the compiled module is not there, or refuses its environment."""

import sys
from importlib import import_module


def _is_program() -> bool:
    """Whether this is `python -m pyquant`, for which Python imports the package first."""
    # Python says "-m" until it has found the module, whose name the arguments follow.
    name = sys.orig_argv[-len(sys.argv) :][:1]
    return sys.argv[:1] == ["-m"] and name in (["pyquant"], ["-mpyquant"])


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
    try:
        _require_core()
    except ImportError as error:
        if not (str(error).startswith(("PYQUANT_ISA: ", "pyquant: ")) and _is_program()):
            raise
        print(f"python -m pyquant: {error}", file=sys.stderr)
        sys.exit(2)


_start()
