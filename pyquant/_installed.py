# SPDX-License-Identifier: Apache-2.0
"""Says what is wrong when Python found the source folder instead of the package."""

from importlib import import_module


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


_require_core()
