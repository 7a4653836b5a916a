# SPDX-License-Identifier: Apache-2.0
"""cast-value-rs: the casts of zarr, without scales."""

from __future__ import annotations

from importlib import import_module

import numpy as np

from benchmarks.arrays import Case
from benchmarks.rivals._rival import Candidate
from benchmarks.rivals.numpy import has_types

ROUNDINGS = {
    "half_even": "nearest-even",
    "half_away": "nearest-away",
    "trunc": "towards-zero",
    "ceil": "towards-positive",
    "floor": "towards-negative",
}


def with_cast_value_rs(case: Case) -> Candidate | None:
    """Return a call of `cast_array_into`, which clamps, and rejects infinities and NaN."""
    form = case.form
    mode = ROUNDINGS.get(form.rounding)
    alone = form.granularity == "unit" and form.zero_point == 0 and form.zeros is None
    usual = form._replace(rounding="half_even").plain and not form.fresh and not form.tiny
    if mode is None or not alone or not usual or not has_types(case):
        return None
    cast = import_module("cast_value_rs").cast_array_into
    out = np.empty(case.x.shape, form.target)

    def call() -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        cast(case.x, out, rounding_mode=mode, out_of_range_mode="clamp")
        return out

    return Candidate(call)
