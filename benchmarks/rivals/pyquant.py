# SPDX-License-Identifier: Apache-2.0
"""pyquant on one thread, for forms that use several."""

from __future__ import annotations

from benchmarks import arrays
from benchmarks.arrays import Case
from benchmarks.rivals._rival import Candidate


def one_thread(case: Case) -> Candidate | None:
    """Return the call without `threads=`, for a form of several threads."""
    if case.form.threads == 1:
        return None
    isa = arrays.levels(case.form)[0]
    return Candidate(arrays.pyquant_call(case, isa, threads=1), arrays.as_array)
