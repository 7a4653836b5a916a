# SPDX-License-Identifier: Apache-2.0
"""All that is measured, forms and tasks, by name and by group."""

from __future__ import annotations

from typing import TypeAlias

from benchmarks.forms import FORMS, Form
from benchmarks.tasks import TASKS, Task

Measured: TypeAlias = Form | Task

ALL: dict[str, Measured] = {**FORMS, **TASKS}
GROUPS = tuple(dict.fromkeys(group for one in ALL.values() for group in one.groups))


def select(names: list[str]) -> list[Measured]:
    """
    What names of forms, tasks and groups stand for, each once.

    Raises
    ------
    KeyError
        With the first unknown name.
    """
    found: dict[str, Measured] = {}
    for name in names:
        if name in GROUPS:
            found |= {one.name: one for one in ALL.values() if name in one.groups}
        else:
            found[name] = ALL[name]
    return list(found.values())
