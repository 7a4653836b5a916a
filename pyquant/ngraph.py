# SPDX-License-Identifier: Apache-2.0
"""nGraph's operations Quantize and Dequantize (op::v0), as specified."""

from __future__ import annotations

from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Any, SupportsIndex

from pyquant import _standard, dtypes
from pyquant._shown import axis_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

__all__ = ["RoundMode", "dequantize", "quantize"]


def __dir__() -> list[str]:
    return sorted(__all__)


QUANTIZED = ("int8", "uint8", "int32")
REAL = ("float32", "float64", "float16", "bfloat16")
# nGraph's own names of the element types.
SHORT_NAMES = {
    "i8": "int8",
    "u8": "uint8",
    "i32": "int32",
    "f32": "float32",
    "f64": "float64",
    "f16": "float16",
    "bf16": "bfloat16",
}


class RoundMode(IntEnum):
    """Rounding modes with nGraph's names and numbers."""

    ROUND_NEAREST_TOWARD_INFINITY = 0
    """To the nearest, ties away from zero."""
    ROUND_NEAREST_TOWARD_ZERO = 1
    """To the nearest, ties toward zero."""
    ROUND_NEAREST_UPWARD = 2
    """To the nearest, ties toward positive infinity."""
    ROUND_NEAREST_DOWNWARD = 3
    """To the nearest, ties toward negative infinity."""
    ROUND_NEAREST_TOWARD_EVEN = 4
    """To the nearest, ties to the even one."""
    ROUND_TOWARD_INFINITY = 5
    """Away from zero."""
    ROUND_TOWARD_ZERO = 6
    """Toward zero."""
    ROUND_UP = 7
    """Toward positive infinity."""
    ROUND_DOWN = 8
    """Toward negative infinity."""


ROUNDING = {
    RoundMode.ROUND_NEAREST_TOWARD_INFINITY: "half_away",
    RoundMode.ROUND_NEAREST_TOWARD_ZERO: "half_toward_zero",
    RoundMode.ROUND_NEAREST_UPWARD: "half_up",
    RoundMode.ROUND_NEAREST_DOWNWARD: "half_down",
    RoundMode.ROUND_NEAREST_TOWARD_EVEN: "half_even",
    RoundMode.ROUND_TOWARD_INFINITY: "away",
    RoundMode.ROUND_TOWARD_ZERO: "trunc",
    RoundMode.ROUND_UP: "ceil",
    RoundMode.ROUND_DOWN: "floor",
}
ROUNDING_BY_NAME = {mode.name: rounding for mode, rounding in ROUNDING.items()}

_PLACES = ("scalar", "axis")
_USUAL_REALS = _standard.Usual(
    *(REAL, REAL, QUANTIZED, _PLACES),
    alike=True,
    names=dict(zip(QUANTIZED, QUANTIZED, strict=True)),
)
_USUAL_CODES = _standard.Usual(
    *(QUANTIZED, REAL, QUANTIZED, _PLACES), names=dict(zip(REAL, REAL, strict=True))
)


def quantize(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    type: npt.DTypeLike,
    axes: Iterable[SupportsIndex],
    round_mode: RoundMode | str,
) -> npt.NDArray[Any]:
    """
    Quantize: ``saturate(round(input / scale) + zero_point)``.

    Parameters
    ----------
    input : array_like
        float32, float64, float16 or bfloat16.
    scale : array_like
        The type of `input`, and its shape at `axes`.
    zero_point : array_like
        The output type, and the shape of `scale`.
    type : dtype_like
        int8, uint8 or int32; or nGraph's names "i8", "u8", "i32".
    axes : iterable of int
        The set of axes along which the scale varies, in any order.
    round_mode : RoundMode or str
        A member or its name, for example ``"ROUND_NEAREST_TOWARD_EVEN"``.

    Returns
    -------
    ndarray
        Codes of `type`, with the shape of `input`.

    Raises
    ------
    TypeError
        If element types do not match.
    ValueError
        If shapes do not match, or `round_mode` is unknown.
    numpy.exceptions.AxisError
        If an axis is out of bounds.

    Notes
    -----
    Quotients are rounded once to the type of `input`, and then by the exact definition of
    the mode. The old reference kernel misrounds values next to one half and large odd
    values; its own tests agree with the definitions.

    Examples
    --------
    >>> import pyquant as pq
    >>> x = [2.5, -3.5, 2.25]
    >>> pq.ngraph.quantize(x, 1.0, 0, "i8", (), "ROUND_NEAREST_UPWARD")
    array([ 3, -3,  2], dtype=int8)
    """
    op = "nGraph Quantize"
    target = _type(type, op, "quantized", QUANTIZED)
    rounding = _rounding(round_mode, op)
    usual, at = _usual_axis(axes)
    if usual and zero_point is not None:
        y = _USUAL_REALS.quantize(
            input, scale, zero_point, at, dtype=target, rounding=rounding
        )
        if y is not None:
            return y
    x, source = _standard.array_of(input, "input", op, REAL)
    s, _ = _standard.array_of(scale, "scale", op, (source,))
    z, _ = _standard.array_of(zero_point, "zero_point", op, (target,))
    where = _projection(x, s, z, axes, op)
    return _standard.quantize(
        x,
        s,
        z,
        dtype=target,
        axis=where,
        rounding=rounding,
        precision=source,
    )


def dequantize(
    input: ArrayLike,
    scale: ArrayLike,
    zero_point: ArrayLike,
    type: npt.DTypeLike,
    axes: Iterable[SupportsIndex],
) -> npt.NDArray[Any]:
    """
    Dequantize: ``(input - zero_point) * scale``.

    Parameters
    ----------
    input : array_like
        int8, uint8 or int32.
    scale : array_like
        The output type, and the shape of `input` at `axes`.
    zero_point : array_like
        The type of `input`, and the shape of `scale`.
    type : dtype_like
        float32, float64, float16 or bfloat16; or nGraph's names "f32", "f64", "f16",
        "bf16".
    axes : iterable of int
        The set of axes along which the scale varies, in any order.

    Returns
    -------
    ndarray
        Real numbers of `type`, with the shape of `input`.

    Raises
    ------
    TypeError
        If element types do not match.
    ValueError
        If shapes do not match.
    numpy.exceptions.AxisError
        If an axis is out of bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import pyquant as pq
    >>> pq.ngraph.dequantize(np.uint8([0, 7]), 0.5, 3, "f32", ())
    array([-1.5,  2. ], dtype=float32)
    """
    op = "nGraph Dequantize"
    target = _type(type, op, "real", REAL)
    usual, at = _usual_axis(axes)
    if usual and zero_point is not None:
        y = _USUAL_CODES.dequantize(input, scale, zero_point, at, dtype=target)
        if y is not None:
            return y
    q, code = _standard.array_of(input, "input", op, QUANTIZED)
    z, _ = _standard.array_of(zero_point, "zero_point", op, (code,))
    s, _ = _standard.array_of(scale, "scale", op, (target,))
    return _standard.dequantize(q, s, z, dtype=target, axis=_projection(q, s, z, axes, op))


def _usual_axis(axes: Iterable[SupportsIndex]) -> tuple[bool, int | None]:
    """Return True and the axis if there is at most one nonnegative axis."""
    if type(axes) is not tuple or len(axes) > 1:
        return False, None
    if not axes:
        return True, None
    at = axes[0]
    return type(at) is int and at >= 0, at


def _type(given: npt.DTypeLike, op: str, kind: str, allowed: tuple[str, ...]) -> str:
    if isinstance(given, str) and given == "dynamic":
        raise _standard.refuse(ValueError, "type", op, "a type that is not dynamic", given)
    spelled = SHORT_NAMES.get(given) if isinstance(given, str) else None
    name = spelled or _standard.requested(given)
    if name not in allowed:
        expected = f"a {kind} type, {_standard.listed(allowed)}"
        raise _standard.refuse(TypeError, "type", op, expected, name or dtypes.shown(given))
    return name


def _rounding(given: RoundMode | str, op: str) -> str:
    if type(given) is RoundMode:
        return ROUNDING[given]
    if not isinstance(given, str):
        got = type(given).__name__
        raise _standard.refuse(TypeError, "round_mode", op, "a RoundMode or its name", got)
    rounding = ROUNDING_BY_NAME.get(given)
    if rounding is None:
        expected = f"one of {', '.join(ROUNDING_BY_NAME)}"
        raise _standard.refuse(ValueError, "round_mode", op, expected, repr(given))
    return rounding


def _axes(axes: Iterable[SupportsIndex], ndim: int, op: str) -> tuple[int, ...]:
    """Return the axes in ascending order, after all checks."""
    found = _standard.integers(axes, "axes", op, "a set of integers")
    if len(found) > 1:
        found = tuple(sorted(set(found)))
    for axis in found:
        if not 0 <= axis < ndim:
            raise axis_error(axis, ndim, f"axes: {op}")
    return found


_axes_within = partial(_standard.axes_within, _axes)


def _projection(
    x: npt.NDArray[Any],
    scale: npt.NDArray[Any],
    zero_point: npt.NDArray[Any],
    axes: Iterable[SupportsIndex],
    op: str,
) -> int | tuple[int, ...] | None:
    """Return the axes in ascending order, after the shape checks in nGraph's order."""
    extents = x.shape
    none = type(axes) is tuple and not axes  # the common case
    where = () if none else _axes_within(axes, len(extents), op)
    shape = scale.shape
    if shape != zero_point.shape:
        expected = f"the shape of zero_point, {zero_point.shape}"
        raise _standard.refuse(ValueError, "scale", op, expected, shape)
    if len(shape) != len(where):
        expected = f"as many dimensions as axes, {len(where)}"
        raise _standard.refuse(ValueError, "scale", op, expected, len(shape))
    if not where:
        return None
    one = len(where) == 1
    selected = (extents[where[0]],) if one else tuple([extents[at] for at in where])
    if shape != selected:
        raise _standard.wrong_shape("scale", op, selected, shape)
    return where[0] if one else where
