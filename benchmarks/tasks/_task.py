# SPDX-License-Identifier: Apache-2.0
"""What a task is: a call beside `quantize` and `dequantize`, and who else has it."""

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
    """The arrays of a task at a size, as calls on them."""

    elements: int
    nbytes: int  # read and written
    call: Call  # pyquant's
    read: Callable[[Any], Array] = np.asarray
    rivals: Mapping[str, Callable[[], Candidate]] = MappingProxyType({})  # by name
    two_calls: Call | None = None  # what pyquant has for it besides


class Task(NamedTuple):
    """A row of the table, beside forms."""

    name: str
    build: Callable[[int], Made]
    sizes: tuple[int, ...] = SIZES
    groups: tuple[str, ...] = ("parameters",)


def normal(n: int) -> Array:
    """Normal numbers, float32."""
    return np.random.default_rng(0).standard_normal(n, np.float32)


def rows(n: int) -> Array:
    """The same in rows of features, as of tokens."""
    features = min(n, FEATURES)
    return normal(n // features * features).reshape(-1, features)


def nothing(result: Any) -> Array:
    """What cannot be compared."""
    return np.empty(0)
