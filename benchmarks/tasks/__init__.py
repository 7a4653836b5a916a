# SPDX-License-Identifier: Apache-2.0
"""Calls beside `quantize` and `dequantize`, and who else has them: a file for each kind."""

from benchmarks.tasks import (
    blocks,
    errors,
    fused,
    microscaling,
    observing,
    requantizing,
    weights,
)
from benchmarks.tasks._task import Made, Task

__all__ = ["TASKS", "Made", "Task"]

TASKS = {
    task.name: task
    for file in (fused, observing, errors, requantizing, blocks, weights, microscaling)
    for task in file.TASKS
}
