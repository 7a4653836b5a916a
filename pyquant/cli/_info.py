# SPDX-License-Identifier: Apache-2.0
"""`pyquant info`: print versions and instruction sets."""

from __future__ import annotations

import platform
import sysconfig
from typing import TYPE_CHECKING

import numpy as np

from pyquant import __version__, isa

if TYPE_CHECKING:
    import argparse

DESCRIPTION = "Print versions and instruction sets, for a bug report."
EXAMPLES = "examples:\n  pyquant info\n  pyquant info --json"
OPTIONS = (("--json", None, "print one JSON object"),)


def run(arguments: argparse.Namespace) -> int:
    """Print the versions and the instruction sets."""
    facts = _facts()
    if arguments.json:
        import json

        keys = [name.replace(" ", "_").lower() for name in facts]
        print(json.dumps(dict(zip(keys, facts.values(), strict=True))))
        return 0
    for name, fact in facts.items():
        print(f"{name:14} {fact if isinstance(fact, str) else ', '.join(fact)}")
    return 0


def _facts() -> dict[str, str | list[str]]:
    try:
        import ml_dtypes
    except ImportError:
        version = "not installed"
    else:
        version = ml_dtypes.__version__
    free = ", free-threaded" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    build = f"{platform.python_implementation()}{free}"
    return {
        "pyquant": __version__,
        "ISA active": isa.active(),
        "ISA available": list(isa.available()),
        "Python": f"{platform.python_version()} ({build})",
        "NumPy": np.__version__,
        "ml_dtypes": version,
    }
