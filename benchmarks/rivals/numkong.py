# SPDX-License-Identifier: Apache-2.0
"""NumKong: casts, without scales."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import dtypes
from benchmarks.arrays import Array, Case
from benchmarks.dtypes import PACKABLE, SHORT
from benchmarks.rivals._rival import CAST, Candidate

NAMES = {
    name: name for name in SHORT if not name.startswith("float") and name not in PACKABLE
} | {
    "float32": "float32",
    "float64": "float64",
    "float16": "float16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float6_e2m3fn": "e2m3",
    "float6_e3m2fn": "e3m2",
}
GRANULARITIES = ("tensor", "unit")
LAYOUTS = ("plain", "in2")


def _bytes_of(tensor: Any) -> Array:
    return np.frombuffer(bytes(memoryview(tensor)), np.uint8)


def with_numkong(case: Case) -> Candidate | None:
    """Return a call of `numkong.astype`, into existing memory if the form allows it."""
    form = case.form
    known = {form.source, form.target} <= NAMES.keys() and form.granularity in GRANULARITIES
    if not known or form.layout not in LAYOUTS or not form.usual:
        return None
    numkong, target = import_module("numkong"), NAMES[form.target]
    if form.fresh:
        return Candidate(lambda: numkong.astype(case.x, target), _bytes_of, CAST)
    if dtypes.in_numpy(form.target):
        out = np.empty(case.x.shape, form.target)
    else:
        out = numkong.empty(case.x.shape, dtype=target)
    return Candidate(lambda: numkong.astype(case.x, target, out=out), _bytes_of, CAST)
