# SPDX-License-Identifier: Apache-2.0
"""Tasks: calls of functions other than `quantize` and `dequantize`, and their rivals."""

from importlib import import_module

from benchmarks.tasks._task import Made, Task

__all__ = ["FILES", "Made", "Task", "read"]

FILES = (
    "fused",
    "observing",
    "errors",
    "requantizing",
    "blocks",
    "weights",
    "microscaling",
    "audio",
)


def read(file: str) -> list[Task]:
    """Import a file of this folder, and return its tasks."""
    found: list[Task] = import_module(f"benchmarks.tasks.{file}").TASKS
    return found
