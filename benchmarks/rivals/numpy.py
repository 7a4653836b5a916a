# SPDX-License-Identifier: Apache-2.0
"""NumPy: careful code that works in place for speed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from benchmarks import dtypes
from benchmarks.arrays import Array, Case, block_extents
from benchmarks.rivals._rival import OTHER_BITS, SAME, Candidate

_CHANCE = np.random.default_rng(0)

# Functions that round `t` in place, with a second buffer `u`. The usual formula for ties,
# floor(t + 1/2), rounds twice, so some results differ from the definition of the mode.
Rounding: TypeAlias = Callable[[Array, Array], object]
ROUNDINGS: dict[str, Rounding] = {
    "half_even": lambda t, u: np.rint(t, out=t),
    "floor": lambda t, u: np.floor(t, out=t),
    "ceil": lambda t, u: np.ceil(t, out=t),
    "trunc": lambda t, u: np.trunc(t, out=t),
    "away": lambda t, u: np.copysign(np.ceil(np.abs(t, out=u), out=u), t, out=t),
    "half_up": lambda t, u: np.floor(np.add(t, 0.5, out=t), out=t),
    "half_down": lambda t, u: np.ceil(np.subtract(t, 0.5, out=t), out=t),
    "half_away": lambda t, u: np.copysign(
        np.floor(np.add(np.abs(t, out=u), 0.5, out=u), out=u), t, out=t
    ),
    "half_toward_zero": lambda t, u: np.copysign(
        np.ceil(np.subtract(np.abs(t, out=u), 0.5, out=u), out=u), t, out=t
    ),
    "half_odd": lambda t, u: np.add(  # 2 * round(t / 2 - 1/2) + 1 is wrong next to a tie
        np.rint(t, out=u), np.where(np.abs(t - u) == 0.5, 2 * (t - u), 0), out=t
    ),
    "stochastic": lambda t, u: np.floor(
        np.add(t, _CHANCE.random(dtype=t.dtype, out=u), out=t), out=t
    ),
}


def _wrap(t: Array, lowest: float, highest: float) -> Array:
    return t.astype(np.int64)  # the cast keeps the low bits of the number, so it wraps


def _refuse(t: Array, lowest: float, highest: float) -> Array:
    if t.min() < lowest or t.max() > highest:
        msg = "out of range"
        raise ValueError(msg)
    return t


# Functions that saturate or wrap integers outside the range of the type, or raise an error.
Policy: TypeAlias = Callable[[Array, Any, Any], Array]
POLICIES: dict[str, Policy] = {
    "saturate": lambda t, lowest, highest: np.clip(t, lowest, highest, out=t),
    "wrap": _wrap,
    "raise": _refuse,
}


def _repeated(case: Case) -> Any:
    """Return the scales. For small planes, repeat the scale of a plane for each element."""
    if case.form.granularity.startswith("plane"):
        return np.broadcast_to(case.spread, case.x.shape).copy()
    return case.spread


def _pack(codes: Array, width: int) -> Array:
    """Pack codes of `width` bits, one in each byte, into full bytes. Overwrite `codes`."""
    codes &= (1 << width) - 1
    data = codes[:: 8 // width].copy()
    for place in range(1, 8 // width):
        part = codes[place :: 8 // width]
        data[: part.size] |= part << place * width
    return data


def _unpack(data: Array, width: int) -> Array:
    """Return all codes of packed bytes, one in each byte."""
    codes = np.empty(data.size * (8 // width), np.uint8)
    for place in range(8 // width):
        codes[place :: 8 // width] = data >> place * width & (1 << width) - 1
    return codes


def _quantize(case: Case) -> Candidate:
    form, x = case.form, case.x
    real, target = np.dtype(form.computed), dtypes.dtype_named(form.target)
    # The buffers have the strides of `x`. If `x` is transposed, only the codes are copied
    # to C order, because codes are smaller than real numbers.
    t, u = np.empty_like(x, real), np.empty_like(x, real)
    codes = np.empty_like(x, target) if form.layout == "transposed" else t
    spread, limits = _repeated(case), dtypes.limits_within(form.target, real.type)
    rounded, settled = ROUNDINGS[form.rounding], POLICIES[form.out_of_range]
    scaled = np.multiply if form.inverse else np.divide

    def call() -> Array:
        shifted, whole = x, t
        if form.offset:
            shifted = np.subtract(x, case.offset_spread, out=t, casting="unsafe")
        scaled(shifted, spread, out=t, casting="unsafe")
        if limits is not None:
            rounded(t, u)
            if form.zero_point or form.zeros:
                np.add(t, case.zero_spread, out=t, casting="unsafe")
            if form.fill is not None:
                np.copyto(t, form.fill, where=np.isnan(t))
            whole = settled(t, *limits)
        if case.out is None:
            return t.astype(target)
        if codes is not t:
            np.copyto(codes, t, casting="unsafe")
            whole = codes
        np.copyto(case.out, whole, casting="unsafe")
        return case.out

    def packed() -> Array:
        return _pack(call().reshape(-1).view(np.uint8), dtypes.TYPES[form.target].bits)

    mark = OTHER_BITS if form.rounding == "stochastic" else SAME
    return Candidate(packed if form.packed else call, mark=mark)


def _dequantize(case: Case) -> Candidate:
    form, x = case.form, case.x
    real, target = np.dtype(form.computed), dtypes.dtype_named(form.target)
    narrow = case.out is not None and case.out.dtype != real
    kept = np.empty(x.shape, real) if narrow or case.out is None else case.out
    spread = _repeated(case)
    scaled = np.divide if form.inverse else np.multiply

    def unpacked() -> Array:
        if not form.packed:
            return x
        codes = _unpack(case.given.data, dtypes.TYPES[form.source].bits)
        return codes[: x.size].view(x.dtype).reshape(x.shape)

    def call() -> Array:
        t = np.empty(x.shape, real) if form.fresh else kept
        np.copyto(t, unpacked(), casting="unsafe")
        if form.zero_point or form.zeros:
            np.subtract(t, case.zero_spread, out=t, casting="unsafe")
        scaled(t, spread, out=t)
        if form.offset:
            np.add(t, case.offset_spread, out=t)
        if form.fill is not None:
            np.copyto(t, np.nan, where=x == form.fill)
        if t.dtype == target:
            return t
        if case.out is None:
            return t.astype(target)
        np.copyto(case.out, t, casting="unsafe")
        return case.out

    return Candidate(call)


def _choose(case: Case) -> Candidate:
    """Choose scales from the extremes of the data. Unsigned types also get zero points."""
    x, limits = case.x, dtypes.limits(case.form.target)
    assert limits is not None  # the type is an integer type
    blocks = block_extents(x.shape, case.where)
    # The first index of each block, for each axis with blocks.
    starts = [
        (axis, np.arange(0, extent, block))
        for axis, (extent, block) in enumerate(zip(x.shape, blocks, strict=True))
        if block > 1
    ]
    scale_type = np.float64 if case.form.real == "float64" else np.float32

    def extremes(reduction: np.ufunc) -> Array:
        found: Array = x
        for axis, begin in starts:
            if begin.size == 1:
                found = reduction.reduce(found, axis, keepdims=True)
            else:
                found = reduction.reduceat(found, begin, axis)
        return found.astype(np.float64)

    def call() -> Array:
        lowest, highest = extremes(np.minimum), extremes(np.maximum)
        if limits[0] < 0:
            scale = np.maximum(highest, -lowest) / limits[1]
            return scale.astype(scale_type)
        lowest, highest = np.minimum(lowest, 0), np.maximum(highest, 0)
        scale = ((highest - lowest) / limits[1]).astype(scale_type)
        np.rint(-lowest / scale).astype(case.form.target)  # the zero points
        return scale

    return Candidate(call)


def usual_code(case: Case) -> Candidate:
    """Return the NumPy call of a case, for all types that NumPy can cast."""
    if case.form.through == "choose":
        return _choose(case)
    return _quantize(case) if case.form.quantizes else _dequantize(case)


def has_types(case: Case) -> bool:
    """Return true if NumPy has both types."""
    return dtypes.in_numpy(case.form.source) and dtypes.in_numpy(case.form.target)


def with_numpy(case: Case) -> Candidate | None:
    """Return the NumPy call of a case, if NumPy has the types."""
    return usual_code(case) if has_types(case) and not case.form.precision else None
