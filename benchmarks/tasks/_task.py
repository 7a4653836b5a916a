# SPDX-License-Identifier: Apache-2.0
"""The type of a task: a call other than `quantize` and `dequantize`, and its rivals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from benchmarks.arrays import Array
from benchmarks.rivals import Candidate

SIZES = (1 << 18, 1 << 24)
FEATURES = 4096

Call: TypeAlias = Callable[[], Any]


class Made(NamedTuple):
    """The calls of a task at a size."""

    elements: int
    nbytes: int  # read and written
    call: Call  # of pyquant
    read: Callable[[Any], Array] = np.asarray
    rivals: Mapping[str, Callable[[], Candidate]] = MappingProxyType({})  # by name
    two_calls: Call | None = None  # two calls of pyquant that do the work of `call`


class Task(NamedTuple):
    """A row of the table of tasks."""

    name: str
    build: Callable[[int], Made]
    sizes: tuple[int, ...] = SIZES
    groups: tuple[str, ...] = ("parameters",)


def normal(n: int) -> Array:
    """Return normal float32 numbers."""
    return np.random.default_rng(0).standard_normal(n, np.float32)


def rows(n: int) -> Array:
    """Return normal float32 numbers as rows of features."""
    features = min(n, FEATURES)
    return normal(n // features * features).reshape(-1, features)


def nothing(result: Any) -> Array:
    """Return an empty array, for results that cannot be compared."""
    return np.empty(0)
