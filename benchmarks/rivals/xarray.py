# SPDX-License-Identifier: Apache-2.0
"""xarray: variables with the attributes of the CF conventions."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import dtypes
from benchmarks.arrays import Case
from benchmarks.rivals._rival import Candidate


def with_xarray(case: Case) -> Candidate | None:
    """Return a call of `decode_cf_variable` or `encode_cf_variable`."""
    form = case.form
    if form.fill is None or not form.offset or form.inverse or case.where:
        return None
    xarray = import_module("xarray")
    real = np.dtype(form.real).type
    attrs = {
        "scale_factor": real(case.scale),
        "add_offset": real(case.offset),
        "_FillValue": dtypes.dtype_named(form.code).type(form.fill),
    }
    if form.quantizes:
        encoding = attrs | {"dtype": dtypes.dtype_named(form.code)}
        numbers = xarray.Variable("n", case.x, encoding=encoding)

        def encode() -> Any:
            return xarray.conventions.encode_cf_variable(numbers).values

        return Candidate(encode)
    codes = xarray.Variable("n", case.x, attrs)
    return Candidate(lambda: xarray.conventions.decode_cf_variable("x", codes).values)
