# SPDX-License-Identifier: Apache-2.0
"""Write error messages about arguments that the core rejected without details."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["of_multiplier"]

_MULTIPLIERS = {
    "float32": "positive finite numbers of float32",
    "rndnu": "numbers from 2**-32 to less than 2**8",
    "tflite": "positive numbers less than 2**30",
    "tflite_single": "positive finite numbers",
    "fbgemm": "numbers from 2**-32 to less than 2**30",
}


def of_multiplier(
    arithmetic: str, multiplier: npt.NDArray[Any], shift: npt.NDArray[Any] | None
) -> ValueError:
    """Return the error about a wrong multiplier or shift, with the valid range."""
    multipliers = np.ravel(multiplier).tolist()
    if shift is not None:
        for one in multipliers:
            if not 0 <= one < 2**31:
                return ValueError(
                    f"multiplier: expected integers from 0 to 2**31 - 1, got {one}"
                )
        lo, hi = (-31, 30) if arithmetic in ("tflite", "tflite_single") else (1, 62)
        for one in np.ravel(shift).tolist():
            if not lo <= one <= hi:
                return ValueError(
                    f"shift: expected integers from {lo} to {hi} for "
                    f"arithmetic={arithmetic!r}, got {one}"
                )
    refused = next(one for one in multipliers if not _has(arithmetic, one))
    return ValueError(
        f"multiplier: expected {_MULTIPLIERS[arithmetic]} for arithmetic={arithmetic!r}, "
        f"got {refused}"
    )


def _has(arithmetic: str, multiplier: float) -> bool:
    if arithmetic != "float32":
        return _core.has_fixed_point(arithmetic, multiplier)
    with np.errstate(all="ignore"):
        return bool(0 < np.float32(multiplier) < np.inf)
