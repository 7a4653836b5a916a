# SPDX-License-Identifier: Apache-2.0
"""numcodecs: FixedScaleOffset, a filter of zarr that multiplies by the scale."""

from __future__ import annotations

from importlib import import_module

from benchmarks import dtypes
from benchmarks.arrays import Case
from benchmarks.rivals._rival import Candidate


def with_numcodecs(case: Case) -> Candidate | None:
    """Return a call of `encode`, or of `decode` into existing memory."""
    form = case.form
    if not form.inverse or form.fill is not None or case.where:
        return None
    numcodecs = import_module("numcodecs")
    codec = numcodecs.FixedScaleOffset(
        offset=case.offset or 0,
        scale=case.scale,
        dtype=dtypes.dtype_named(form.real),
        astype=dtypes.dtype_named(form.code),
    )
    if form.quantizes:
        return Candidate(lambda: codec.encode(case.x))
    return Candidate(lambda: codec.decode(case.x, out=case.out))
