# SPDX-License-Identifier: Apache-2.0
"""Find ranges from the counts of an `Observer`: quantiles, expected errors, entropy.

All arithmetic is NumPy float64 on a few thousand bins.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pyquant import _core
from pyquant._check import fail

if TYPE_CHECKING:
    import numpy.typing as npt

    _Floats = npt.NDArray[np.float64]
    _Counts = npt.NDArray[np.uint64]

__all__ = ["Bins", "Channel", "entropy", "mse", "quantile"]

_PAGE = 128
_SIGN = 0x8000

# Number of clip thresholds to try: eight in each of the ten octaves below the largest
# magnitude.
CANDIDATES = 80
_PER_OCTAVE = 8
# If a bin is narrower than this fraction of the largest magnitude, the bin counts as one
# number.
_POINT = 2.0**-100
# Number of mantissa bits of the first search for the least squared error. The second search
# uses all bits, and tries the best candidate and _BESIDE candidates on each side.
_COARSE = 3
_BESIDE = 2

# Search by entropy: the number of bins of equal width, the first number of bins to try, and
# the step between numbers of bins to try.
LINEAR_BINS = 2048
_START = 128
_STRIDE = 8


class Channel(NamedTuple):
    """Lower ends, upper ends and counts of the nonempty bins of a channel, in ascending
    order."""

    lower: _Floats
    upper: _Floats
    counts: _Counts


class Bins:
    """The histogram of an observer: the bins and the extremes of each channel."""

    def __init__(
        self,
        real: str,
        bits: int,
        pages: npt.NDArray[np.uint16],
        table: npt.NDArray[np.unsignedinteger],
        extremes: tuple[_Floats, _Floats],
    ) -> None:
        self._table = table
        self._edges = _Edges(real, bits, pages)
        self._coarse = _Edges(real, min(bits, _COARSE), pages)
        self._extremes = [end.tolist() for end in extremes]

    def quantiles(self, part: float) -> tuple[_Floats, _Floats]:
        """Return a lower and an upper bound of the value of rank ``ceil(part * n)`` for
        each channel."""
        channels = map(self._edges.channel, self._table.swapaxes(0, 1))
        bounds = [quantile(bins, part) for bins in channels]
        least, most = self._extremes
        low = np.maximum([low for low, _ in bounds], least)
        return low, np.minimum([high for _, high in bounds], most)

    def ranges(
        self, method: str, part: float, name: str, symmetric: bool
    ) -> tuple[_Floats, _Floats]:
        """Return the range of each channel, for codes of type `name`."""
        low, high = np.zeros((2, self._table.shape[1]))
        for c, ends in enumerate(zip(*self._extremes, strict=True)):
            if ends[0] == ends[1] == 0:
                continue
            bins = self._edges.channel(self._table[:, c])
            if method == "percentile":
                low[c], high[c] = _percentile(bins, ends, part, symmetric)
            elif method == "mse":
                coarse = self._coarse.channel(self._table[:, c])
                low[c], high[c] = mse(bins, coarse, ends, name, symmetric)
            else:
                signed = symmetric or ends[0] < 0
                threshold = entropy(bins, max(ends[1], -ends[0]), name, signed)
                low[c], high[c] = _clipped(threshold, ends, symmetric)
        return low, high


class _Edges:
    """The lower and upper ends of the bins in some pages of a histogram."""

    def __init__(self, real: str, bits: int, pages: npt.NDArray[np.uint16]) -> None:
        self._of_page = 1 << bits
        width = _PAGE >> bits
        keys = pages.astype(np.int64)[:, None] * _PAGE + np.arange(1 << bits) * width
        keys = keys.ravel()
        negative = keys >= _SIGN
        small, large = _ends(real, keys & (_SIGN - 1), width)
        lower = np.where(negative, -large, small)
        # The bin that begins at 0 also contains the small negative values that are counted
        # like -0.
        lower = np.where(keys == 0, -_ends(real, np.zeros(1, np.int64), 1)[1], lower)
        # Adding 0 replaces -0. The sign of the minimum of 0 and -0 may depend on the CPU.
        self._lower, self._upper = lower + 0.0, np.where(negative, -small, large) + 0.0
        # Keys rise with magnitudes, so ascending values need the keys of negative values in
        # reverse.
        self._order = np.append(np.flatnonzero(negative)[::-1], np.flatnonzero(~negative))

    def channel(self, table: npt.NDArray[np.unsignedinteger]) -> Channel:
        """Return the nonempty bins of a channel, after adding counters that share a bin."""
        parts = table.shape[1] // self._of_page
        counts = table.astype(np.uint64).reshape(-1, parts).sum(1)[self._order]
        some = counts != 0
        order = self._order[some]
        return Channel(self._lower[order], self._upper[order], counts[some])


def _values(real: str, keys: npt.NDArray[np.int64]) -> _Floats:
    """Return the smallest magnitude of each key. A key is the upper 16 bits of a number."""
    if real == "float16":
        return keys.astype(np.uint16).view(np.float16).astype(np.float64)
    return (keys << 16).astype(np.uint32).view(np.float32).astype(np.float64)


def _ends(real: str, keys: npt.NDArray[np.int64], width: int) -> tuple[_Floats, _Floats]:
    """Return the least and the largest magnitude of each range of `width` keys from a key
    on."""
    if real in ("float16", "bfloat16"):
        return _values(real, keys), _values(real, keys + width - 1)
    following = _values(real, keys + width)
    if real == "float64":
        beyond = np.nextafter(following, 0)  # infinite beyond float32
        return _values(real, keys), np.where(np.isinf(following), np.inf, beyond)
    last = ((keys + width) << 16) - 1
    return _values(real, keys), last.astype(np.uint32).view(np.float32).astype(np.float64)


def _limits(name: str) -> tuple[int, int] | float:
    """Return the lowest and the highest code of an integer type, or the largest number of a
    narrow float."""
    limits = _core.limits(name)
    if limits is None:
        largest = np.float64(np.finfo(np.float64).max)
        return float(_core.dequantize(_core.quantize(largest, 1.0, dtype=name), 1.0))
    return limits


def _rank(part: float, n: int) -> int:
    return min(max(1, math.ceil(part * n)), n)


def _bin_of(rank: int, counts: _Counts) -> int:
    return int(np.searchsorted(np.cumsum(counts), rank))


def quantile(bins: Channel, part: float) -> tuple[float, float]:
    """Return the ends of the bin that contains the value of rank ``ceil(part * n)``."""
    i = _bin_of(_rank(part, int(bins.counts.sum())), bins.counts)
    return float(bins.lower[i]), float(bins.upper[i])


def _magnitudes(bins: Channel) -> Channel:
    """Return the bins of magnitudes. Bins of positive and negative values stay separate."""
    large = np.maximum(np.abs(bins.lower), np.abs(bins.upper))
    small = np.minimum(np.abs(bins.lower), np.abs(bins.upper))
    small = np.where((bins.lower < 0) & (bins.upper > 0), 0.0, small)
    order = np.argsort(large, kind="stable")
    return Channel(small[order], large[order], bins.counts[order])


# ---- methods ----


def _clipped(
    threshold: float, ends: tuple[float, float], symmetric: bool
) -> tuple[float, float]:
    """Return the range from `-threshold` to `threshold`. An asymmetric range is limited to
    the extremes."""
    if symmetric:
        return -threshold, threshold
    return (
        min(max(ends[0], -threshold), ends[1]),
        max(min(ends[1], threshold), ends[0]),
    )


def _unit_of(largest: float) -> float:
    """Return the largest power of two that is not above a magnitude."""
    return math.ldexp(1.0, math.frexp(largest)[1] - 1)


def _percentile(
    bins: Channel, ends: tuple[float, float], part: float, symmetric: bool
) -> tuple[float, float]:
    """Return a range that contains a part of the values. Ends of the range are ends of
    bins."""
    n = int(bins.counts.sum())
    if symmetric:
        threshold = quantile(_magnitudes(bins), part)[1]
        return _clipped(min(threshold, max(ends[1], -ends[0])), ends, True)
    rank = _rank(1 - (1 - part) / 2, n)
    lo = float(bins.lower[_bin_of(n + 1 - rank, bins.counts)])
    hi = float(bins.upper[_bin_of(rank, bins.counts)])
    return max(lo, ends[0]), min(hi, ends[1])


# ---- least expected square of the error ----


def _steps(
    ends: tuple[float, float], parts: _Floats, limits: tuple[int, int], symmetric: bool
) -> tuple[_Floats, _Floats, _Floats]:
    """Return the scale and the limits of `code - zero_point` for each factor `parts` of the
    range.

    The formulas equal `choose_qparams`.
    """
    least, most = limits
    lo, hi = min(ends[0], 0.0), max(ends[1], 0.0)
    if symmetric:
        half = most if least < 0 else most / 2
        zero = 0 if least < 0 else (most + 1) // 2
        scales = max(hi, -lo) * parts / half
        return scales, np.full(len(parts), least - zero), np.full(len(parts), most - zero)
    scales = (hi / (most - least) - lo / (most - least)) * parts
    zeros = np.clip(np.rint(least - lo * parts / scales), least, most)
    return scales, least - zeros, most - zeros


def _integral(u: _Floats, lowest: _Floats, highest: _Floats) -> _Floats:
    """Return the integral of the squared rounding error from 0 to `u`, in units of the
    scale.

    The function changes `u`, because new arrays would cost as much as the arithmetic.
    """
    codes = np.rint(u)
    np.minimum(np.maximum(codes, lowest, out=codes), highest, out=codes)
    u -= codes
    cubes = u * u
    cubes *= u
    cubes /= 3
    codes /= 12
    codes += cubes
    return codes


def _weighted(lower: _Floats, upper: _Floats, per: _Floats) -> tuple[_Floats, _Floats]:
    """Return the ends of bins in ascending order, and a weight for each end. For each
    function, the sum of `per` times the integral over a bin equals the sum of weight times
    antiderivative at an end.

    Adjacent bins share an end.
    """
    apart = np.append(True, lower[1:] != upper[:-1])
    ends = np.arange(len(upper)) + np.cumsum(apart)
    edges, weights = np.zeros((2, int(ends[-1]) + 1))
    edges[ends - 1], edges[ends] = lower, upper
    weights[ends] = per
    weights[ends - 1] -= per
    return edges, weights


def _expected(bins: Channel, steps: tuple[_Floats, _Floats, _Floats]) -> _Floats:
    """Return the sum of squared errors for each scale.

    Values are uniform in a bin, or exact if the bin contains one number.
    """
    scales, lowest, highest = (step[:, None] for step in steps)
    width = bins.upper - bins.lower
    spread = width > _POINT
    counts = bins.counts.astype(np.float64)
    total: _Floats = np.zeros(len(scales))
    if spread.any():
        edges, weights = _weighted(
            bins.lower[spread], bins.upper[spread], counts[spread] / width[spread]
        )
        total = steps[0] ** 3 * (_integral(edges / scales, lowest, highest) @ weights)
    if not spread.all():
        u = bins.lower[~spread] / scales
        errors = u - np.clip(np.rint(u), lowest, highest)
        total = total + steps[0] ** 2 * (errors**2 @ counts[~spread])
    return total


def _narrow_errors(bins: Channel, scales: _Floats, name: str) -> _Floats:
    """Return the sum of squared errors of a narrow float for each scale, as if all values
    of a bin were at the middle."""
    middles = bins.lower / 2 + bins.upper / 2
    counts = bins.counts.astype(np.float64)
    errors = []
    for scale in scales:
        codes = _core.quantize(middles, scale, dtype=name)
        back = _core.dequantize(codes, scale, dtype="float64")
        errors.append((back - middles) ** 2 @ counts)
    return np.array(errors)


def _joined(bins: Channel, ends: tuple[float, float]) -> Channel:
    """Clip bins to the extremes, and close the gaps that rounding left between bins."""
    lower, upper = np.maximum(bins.lower, ends[0]), np.minimum(bins.upper, ends[1])
    following = np.append(lower[1:], np.inf)
    beside = (following - upper <= np.abs(upper) * 2.0**-22) & (lower < upper)
    return Channel(lower, np.where(beside, following, upper), bins.counts)


def mse(
    bins: Channel, wide: Channel, ends: tuple[float, float], name: str, symmetric: bool
) -> tuple[float, float]:
    """Return the range of the first candidate with the least expected squared error."""
    limits = _limits(name)
    parts = np.exp2(-np.arange(CANDIDATES) / _PER_OCTAVE)
    unit = _unit_of(max(ends[1], -ends[0]))  # so that cubes do not overflow
    ends = ends[0] / unit, ends[1] / unit
    largest = max(ends[1], -ends[0])

    def errors(channel: Channel, parts: _Floats) -> _Floats:
        lower, upper, counts = channel
        channel = _joined(Channel(lower / unit, upper / unit, counts), ends)
        if not isinstance(limits, tuple):
            return _narrow_errors(channel, largest * parts / limits, name)
        steps = _steps(ends, parts, limits, symmetric)
        return _expected(channel, steps)

    coarse = int(np.argmin(errors(wide, parts)))
    beside = parts[max(0, coarse - _BESIDE) : coarse + _BESIDE + 1]
    best = float(beside[np.argmin(errors(bins, beside))])
    if symmetric:
        return -largest * best * unit, largest * best * unit
    lo, hi = ends
    lo, hi = (lo * best if lo < 0 else lo), (hi * best if hi > 0 else hi)
    return min(lo, hi) * unit, max(lo, hi) * unit


# ---- least information lost ----


def _linear(bins: Channel, largest: float, n: int) -> _Floats:
    """Count the magnitudes in `n` equal parts of [0, largest]. The values of a bin are
    taken as uniform within the bin."""
    unit = _unit_of(largest)  # for tiny numbers, slopes would overflow
    largest /= unit
    folded = _magnitudes(Channel(bins.lower / unit, bins.upper / unit, bins.counts))
    # Join the bins of positive and negative values that have equal magnitudes. A bin of
    # width 0 becomes a narrow bin.
    upper, which = np.unique(folded.upper, return_inverse=True)
    counts = np.bincount(which, folded.counts.astype(np.float64))
    lower = np.zeros(len(upper))
    lower[which] = folded.lower
    lower = np.where(lower < upper, lower, np.nextafter(upper, 0))
    upper = np.minimum(upper, largest)
    lower = np.minimum(lower, upper)
    summed = np.concatenate([[0.0], np.cumsum(counts)])
    at = np.column_stack([lower, upper]).ravel()
    values = np.column_stack([summed[:-1], summed[1:]]).ravel()
    edges = np.linspace(0, largest, n + 1)
    cumulative = np.interp(edges, at, values)
    cumulative[0], cumulative[-1] = 0, summed[-1]
    return np.diff(cumulative)


def entropy(bins: Channel, largest: float, name: str, signed: bool) -> float:
    """
    Return the threshold of magnitudes by TensorRT's rule.

    The distribution P has the first i bins, and the last bin includes all larger values.
    The distribution Q has, for each level of codes, the mean of the nonempty bins of the
    level. The threshold is the upper end of the first i bins, for the last i with the least
    divergence of P from Q. The search tries every eighth i, and then all i near the best.
    Signed codes use half of the levels for magnitudes.
    """
    limits = _limits(name)
    bits = 8
    if isinstance(limits, tuple):
        bits = (limits[1] - limits[0]).bit_length()
    if bits > 8:
        raise fail(ValueError, "dtype", "at most 8 bits for 'entropy'", name)
    levels = 1 << (bits - 1 if signed else bits)
    hist = _linear(bins, largest, LINEAR_BINS)
    hist[0] = hist[1]
    first = max(_START, levels)
    each = _last_best(hist, np.arange(first, LINEAR_BINS + 1, _STRIDE), levels)
    near = np.arange(max(first, each - _STRIDE), min(LINEAR_BINS, each + _STRIDE) + 1)
    return largest * (_last_best(hist, near, levels) / LINEAR_BINS)


def _last_best(hist: _Floats, i: npt.NDArray[np.int64], levels: int) -> int:
    divergences = _divergences(hist, i, levels)
    return int(i[len(i) - 1 - np.argmin(divergences[::-1])])


def _divergences(hist: _Floats, i: npt.NDArray[np.int64], levels: int) -> _Floats:
    """Return the divergence of P from Q for the first i bins, for each i; see `entropy`."""
    i = i[:, None]
    total = hist.sum()
    sums = np.concatenate([[0.0], np.cumsum(hist)])
    some = np.concatenate([[0], np.cumsum(hist != 0)])
    # The index of the first bin of each level of codes. The shift divides by the number of
    # levels.
    bounds = (np.arange(levels + 1) * i + levels - 1) >> (levels.bit_length() - 1)
    inside, numbers = np.diff(sums[bounds], axis=1), np.diff(some[bounds], axis=1)
    i = i[:, 0]
    outside = total - sums[i]
    p_log_p = np.concatenate([[0.0], np.cumsum(_times_log(hist / total))])
    last = hist[i - 1] / total
    with_rest = last + outside / total
    own = p_log_p[i] - _times_log(last) + _times_log(with_rest)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(inside / numbers / sums[i][:, None])
    logs = np.where(inside > 0, logs, 0)
    crossed = (inside / total * logs).sum(axis=1) + outside / total * logs[:, -1]
    divergence: _Floats = own - crossed
    divergence[(hist[i - 1] == 0) & (outside > 0)] = np.inf
    return divergence


def _times_log(p: _Floats) -> _Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > 0, p * np.log(p), 0.0)
