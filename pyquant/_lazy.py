# SPDX-License-Identifier: Apache-2.0
"""Import the parts of a package on first access."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy(
    package: str, public: list[str], owners: Mapping[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """
    Return `__getattr__` and `__dir__` for a package.

    A name in `owners` is an attribute of the module `owners[name]`, or a module of the
    package if `owners[name]` is the package.
    """

    def find(name: str) -> object:
        if name not in owners:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if owners[name] == package:
            return import_module(f"{package}.{name}")
        return getattr(import_module(owners[name]), name)

    return find, lambda: sorted(public)
