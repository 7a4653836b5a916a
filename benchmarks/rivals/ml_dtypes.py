# SPDX-License-Identifier: Apache-2.0
"""ml_dtypes, for the types that NumPy lacks."""

from __future__ import annotations

from importlib import import_module

from benchmarks.arrays import Case
from benchmarks.rivals import numpy
from benchmarks.rivals._rival import Candidate


def with_ml_dtypes(case: Case) -> Candidate | None:
    """Return the call of the rival NumPy for a case with types of ml_dtypes."""
    import_module("ml_dtypes")
    return None if numpy.has_types(case) else numpy.usual_code(case)
