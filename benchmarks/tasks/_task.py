# SPDX-License-Identifier: Apache-2.0
"""The type of a task, and data for tasks."""

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
    """The call of a task at one size, and the calls of its rivals by name."""

    elements: int
    nbytes: int  # the number of bytes that a call reads and writes
    call: Call
    read: Callable[[Any], Array] = np.asarray
    rivals: Mapping[str, Callable[[], Candidate]] = MappingProxyType({})
    two_calls: Call | None = None  # two calls of pyquant with the result of `call`


class Task(NamedTuple):
    """A call of a function other than `quantize` and `dequantize`."""

    name: str
    build: Callable[[int], Made]
    sizes: tuple[int, ...] = SIZES
    groups: tuple[str, ...] = ("parameters",)


def normal(n: int) -> Array:
    """Return float32 numbers of a normal distribution."""
    return np.random.default_rng(0).standard_normal(n, np.float32)


def rows(n: int) -> Array:
    """Return float32 numbers of a normal distribution as rows of features."""
    features = min(n, FEATURES)
    return normal(n // features * features).reshape(-1, features)


def nothing(result: Any) -> Array:
    """Return an empty array, for results that cannot be compared."""
    return np.empty(0)
