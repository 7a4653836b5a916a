# SPDX-License-Identifier: Apache-2.0
"""Find the forms and tasks that the benchmark measures, by name and by group."""

from __future__ import annotations

from typing import TypeAlias

from benchmarks import tasks
from benchmarks.forms import FORMS, Form
from benchmarks.tasks import Task

Measured: TypeAlias = Form | Task

ALL: dict[str, Measured] = {
    **FORMS,
    **{task.name: task for file in tasks.FILES for task in tasks.read(file)},
}
GROUPS = tuple(dict.fromkeys(group for one in ALL.values() for group in one.groups))


def select(names: list[str]) -> list[Measured]:
    """
    Return the forms and tasks with these names, or in groups with these names.

    Raises
    ------
    KeyError
        If a name is unknown; the exception contains the first unknown name.
    """
    found: dict[str, Measured] = {}
    for name in names:
        if name in GROUPS:
            found |= {one.name: one for one in ALL.values() if name in one.groups}
        else:
            found[name] = ALL[name]
    return list(found.values())
