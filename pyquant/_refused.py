# SPDX-License-Identifier: Apache-2.0
"""Write error messages about arguments that the core rejected without details."""

from __future__ import annotations

import re
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np

from pyquant import _core, dtypes
from pyquant._check import fail, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy.typing as npt

__all__ = ["hint", "hint_of_call", "hint_of_integer", "hint_of_swap", "hint_of_type"]
__all__ += ["of_multiplier"]

# Names in other packages, and their equivalents in pyquant.
_MEANT = {
    **dict.fromkeys(("zp", "zeros", "zero_points", "zeropoint"), "zero_point"),
    **dict.fromkeys(("group_size", "groupsize", "block", "blocksize"), "block_size"),
    **dict.fromkeys(("bits", "num_bits", "qtype", "type", "quant_type"), "dtype"),
    **dict.fromkeys(("dim", "axes", "ch_axis", "channel_axis"), "axis"),
    "bias": "offset",
    **dict.fromkeys(("qmin", "qmax", "quant_min", "quant_max", "clip"), "quant_range"),
    **dict.fromkeys(("num_threads", "n_threads", "n_jobs", "workers"), "threads"),
    **dict.fromkeys(("round", "round_mode", "rounding_mode"), "rounding"),
    **dict.fromkeys(("fp8", "float8"), "float8_e4m3fn"),
    **dict.fromkeys(("fp4", "float4", "mxfp4", "nvfp4"), "float4_e2m1fn"),
    **dict.fromkeys(("nearest", "round_half_even", "banker"), "half_even"),
}
_SHORTEST = 3  # fewest characters to look up, because shorter texts are parts of many names
_MANY = 100
_PARTS = re.compile(r"[^0-9a-z]+")


def hint(
    given: object, known: Iterable[str], most: int = 1, show: Callable[[str], str] = str
) -> str:
    """Return the end of a message: a question for the closest names, or nothing."""
    if not isinstance(given, str):
        return ""
    names = {name.lower(): name for name in known}
    text = given[:100].lower()
    close = [_MEANT[text]] if _MEANT.get(text) in names else []
    if not close and len(text) >= _SHORTEST:
        close = sorted((name for name in names if text in name), key=len)
    if not close:
        from difflib import get_close_matches

        close = get_close_matches(text, _likely(text, names), most)
    if not close:
        return ""
    shown = [show(names[one])[:100] for one in close[:most]]
    return f"; did you mean {' or '.join(', '.join(shown).rsplit(', ', 1))}?"


def _likely(text: str, names: Iterable[str]) -> list[str]:
    """Return the names that share most parts with a text. Only these names are passed to
    difflib, which is slow.

    Names of a very different length are never close.
    """
    names = [name for name in names if len(name) < 3 * len(text) < 9 * len(name)]
    if len(names) <= _MANY:
        return names
    from heapq import nlargest

    parts = set(_PARTS.split(text))
    return nlargest(
        _MANY, names, key=lambda name: len(parts.intersection(_PARTS.split(name)))
    )


def hint_of_type(given: object, types: Iterable[str]) -> str:
    """Return the end of a message about a dtype. The dtype may be the name of a codebook or
    of a block format of GGUF."""
    if dtypes.name_of(given) is not None:
        return ""
    from pyquant._codebooks import TABLES
    from pyquant.weights.blocks import block_formats

    texts = {one.name: f'block_format("{one.name}")' for one in block_formats()}
    texts |= {name: f'quantize(codebook="{name}")' for name in TABLES}
    return hint(given, (*types, *texts), 1, lambda name: texts.get(name, name))


def hint_of_integer(value: int, argument: str, types: Iterable[str]) -> str:
    """Return the end of a message that names the first type that holds an integer, and the
    argument that sets the type."""
    for name in types:
        ends = _core.limits(name)
        if ends is not None and ends[0] <= value <= ends[1]:
            how = f'{argument}="{name}"' if argument else f"an array of {name}"
            return f"; {how} holds it"
    return ""


def hint_of_call(
    error: TypeError,
    function: Callable[..., Any],
    args: Sequence[object],
    names: Iterable[str],
) -> str:
    """Return an error message for arguments that do not match the signature, or ""."""
    parameters = signature(function).parameters.values()
    given = {*[one.name for one in parameters][: len(args)], *names}
    required = [one.name for one in parameters if one.default is one.empty]
    if [name for name in required if name not in given] == ["scale"]:
        return _core.no_scale
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in parameters):
        return ""
    known = [one.name for one in parameters]
    unknown = next((one for one in names if one not in known), None)
    if unknown is not None:
        end = hint(unknown, known)
        return f"{function.__name__}() got an unexpected keyword argument {unknown!r}{end}"
    named = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]
    extra = args[len(known) - len(named) :]
    free = [one for one in named if one not in names]
    if not free or not extra:
        return ""
    as_axis = "axis" in free and isinstance(extra[0], (int, tuple))
    return f"{error}; did you mean {'axis' if as_axis else free[0]}=?"


@_core.default_fpenv
def hint_of_swap(scale: npt.NDArray[Any] | None, zero: npt.NDArray[Any]) -> str:
    """Return a question if scale and zero_point seem to be swapped, else ""."""
    if scale is None or zero.dtype.kind != "f":
        return ""
    swapped = scale.dtype.kind in "iu" or (_is_integral(scale) and not _is_integral(zero))
    return "; are scale and zero_point swapped?" if swapped else ""


def _is_integral(array: npt.NDArray[Any]) -> bool:
    with np.errstate(all="ignore"):
        return bool((array.astype(np.float64) % 1 == 0).all())


def check_beside_book(name: str, value: object, usual: object) -> None:
    """Raise an error if an option that `codebook` excludes is not its default."""
    if not (isinstance(value, str) and value == usual):
        got = shown(value) if isinstance(value, (str, int)) else type(value)
        raise fail(ValueError, name, f"{usual!r} beside codebook", got)


_MULTIPLIERS = {
    "float32": "positive finite numbers of float32",
    "rndnu": "numbers from 2**-32 to less than 2**8",
    "tflite": "positive numbers less than 2**30",
    "tflite_single": "positive finite numbers",
    "fbgemm": "numbers from 2**-32 to less than 2**30",
}


def of_multiplier(
    arithmetic: str, multiplier: npt.NDArray[Any], shift: npt.NDArray[Any] | None
) -> Exception:
    """Return the error about a wrong multiplier or shift, with the valid range."""
    multipliers = np.ravel(multiplier).tolist()
    if shift is not None:
        for one in multipliers:
            if not 0 <= one < 2**31:
                expected = "integers from 0 to 2**31 - 1"
                return fail(ValueError, "multiplier", expected, f"{one}")
        lo, hi = (-31, 30) if arithmetic in ("tflite", "tflite_single") else (1, 62)
        for one in np.ravel(shift).tolist():
            if not lo <= one <= hi:
                expected = f"integers from {lo} to {hi} for arithmetic={arithmetic!r}"
                return fail(ValueError, "shift", expected, f"{one}")
    refused = next(one for one in multipliers if not _has(arithmetic, one))
    expected = f"{_MULTIPLIERS[arithmetic]} for arithmetic={arithmetic!r}"
    return fail(ValueError, "multiplier", expected, f"{refused}")


def _has(arithmetic: str, multiplier: float) -> bool:
    if arithmetic != "float32":
        return _core.has_fixed_point(arithmetic, multiplier)
    with np.errstate(all="ignore"):
        return bool(0 < np.float32(multiplier) < np.inf)
