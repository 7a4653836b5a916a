# SPDX-License-Identifier: Apache-2.0
"""The numbers of other packages' calibrators, of ONNX Runtime 1.31 and PyTorch 2.13, to the
bit: their arithmetic in their order, rounded to float32 where theirs is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, SupportsFloat

import numpy as np

from pyquant import _core
from pyquant.observe import Observer, _flag, _number, _one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from pyquant._typing import ArrayLike

    _Array = npt.NDArray[Any]

__all__ = ["calibrate"]


def _has_batches(batches: object) -> bool:
    """Whether it can be iterated over; buffers of bytes are no batches."""
    if isinstance(batches, str | bytes | bytearray | memoryview):
        return False
    return hasattr(batches, "__iter__") and getattr(batches, "ndim", 1) != 0


class _Batches:
    """Batches that can be gone over again and again, as arrays; what is not finite is
    refused or left out."""

    def __init__(self, batches: Iterable[ArrayLike], nonfinite: Any, threads: Any) -> None:
        if not _has_batches(batches):
            msg = f"batches: expected an iterable of arrays, got {type(batches).__name__}"
            raise TypeError(msg)
        if iter(batches) is batches:
            msg = (
                "batches: expected what can be iterated over twice, such as a list, "
                f"got {type(batches).__name__}"
            )
            raise TypeError(msg)
        self._batches, self._nonfinite, self._threads = batches, nonfinite, threads

    def __iter__(self) -> Iterator[_Array]:
        some = False
        for batch in self._batches:
            x = _core.plain(batch, "batches")
            if x.dtype.kind == "f" and x.dtype.itemsize >= 4:
                x = x.astype(x.dtype.newbyteorder("="), copy=False).ravel()
            else:
                x = _core.cast(x, "float32").ravel()
            if self._nonfinite == "ignore":
                finite = np.isfinite(x)
                x = x if finite.all() else x[finite]
            some = some or x.size > 0
            yield x
        if not some:
            msg = "batches: expected the same numbers each time, got none"
            raise ValueError(msg)

    def observe(self, observer: Observer) -> Observer:
        """An observer of all of them."""
        for number, batch in enumerate(self._batches):
            try:
                observer.update(batch, threads=self._threads)
            except (TypeError, ValueError) as error:
                if not str(error).startswith("x: "):
                    raise
                kind = TypeError if isinstance(error, TypeError) else ValueError
                raise kind(f"batches{str(error)[1:]} in batch {number}") from None
        return observer

    def ends(self) -> tuple[Any, Any]:
        """The extremes, in float64 if some are of that, else float32."""
        seen = self.observe(Observer(nonfinite=self._nonfinite))
        if seen.count == 0:
            msg = "batches: expected at least one finite number, got none"
            raise ValueError(msg)
        return seen.min, seen.max


def _pieces(batches: Iterable[_Array]) -> Iterator[_Array]:
    """Parts of batches, so that nothing is made that is as large as these."""
    step = 1 << 16
    for x in batches:
        for i in range(0, x.size, step):
            yield x[i : i + step]


# ---- ONNX Runtime ----


def _ort_minmax(
    batches: _Batches, *, symmetric: bool = False, moving_average: bool = False
) -> tuple[Any, Any]:
    """MinMaxCalibrater."""
    lo, hi = batches.ends()
    if _flag(moving_average, "moving_average"):
        each = [(x.min(), x.max()) for x in batches if x.size > 0]
        # As its outputs are stacked: how NumPy adds depends on the shape.
        lo, hi = (np.nanmean([np.reshape(v, 1) for v in ends], axis=0)[0] for ends in
                  zip(*each, strict=True))  # fmt: skip
    if _flag(symmetric, "symmetric"):
        largest = np.maximum(np.abs(lo), np.abs(hi))
        return -largest, largest
    return lo, hi


def _histogram(
    batches: Iterable[_Array], bins: int, ends: tuple[Any, Any], magnitudes: bool
) -> tuple[npt.NDArray[np.int64], _Array]:
    """What NumPy counts of all batches at once: bins are the same for each."""
    total = np.zeros(bins, np.int64)
    edges = np.zeros(0)
    for part in _pieces(batches):
        values = np.abs(part) if magnitudes else part
        counts, edges = np.histogram(values.astype(ends[1].dtype), bins, range=ends)
        total += counts
    return total, edges.astype(ends[1].dtype)


def _within(found: tuple[Any, Any], ends: tuple[Any, Any]) -> tuple[Any, Any]:
    lo, hi = found
    return ends[0] if lo < ends[0] else lo, ends[1] if hi > ends[1] else hi


def _ort_percentile(
    batches: _Batches,
    *,
    percentile: SupportsFloat = 99.999,
    symmetric: bool = True,
    bins: int = 2048,
) -> tuple[Any, Any]:
    """HistogramCalibrater with the method percentile."""
    percentile = _number(percentile, "percentile", 0, 100)
    bins = _count(bins, "bins")
    ends = batches.ends()
    if _flag(symmetric, "symmetric"):
        magnitudes = [(m.min(), m.max()) for m in map(np.abs, _pieces(batches))]
        least, most = (np.array(v) for v in zip(*magnitudes, strict=True))
        dtype = ends[1].dtype
        span = least.min().astype(dtype), most.max().astype(dtype)
        hist, edges = _histogram(batches, bins, span, True)
        at = np.searchsorted(np.cumsum(hist / hist.sum()), percentile / 100.0)
        return _within((-edges[at], edges[at]), ends)
    largest = max(abs(ends[0]), abs(ends[1]))
    hist, edges = _histogram(batches, bins, (-largest, largest), False)
    summed = np.cumsum(hist / hist.sum())
    cut = (100.0 - percentile) / 200.0
    right = np.searchsorted(summed, 1.0 - cut)
    left = np.searchsorted(summed, cut)
    return _within((edges[left], edges[right]), ends)


def _ort_entropy(
    batches: _Batches,
    *,
    bins: int = 128,
    quantized_bins: int = 128,
    symmetric: bool = False,
) -> tuple[Any, Any]:
    """HistogramCalibrater with the method entropy, which has no use for `symmetric`."""
    bins, levels = _count(bins, "bins"), _count(quantized_bins, "quantized_bins")
    _flag(symmetric, "symmetric")
    if levels > bins:
        msg = f"quantized_bins: expected at most bins={bins}, got {levels}"
        raise ValueError(msg)
    ends = batches.ends()
    largest = max(abs(ends[0]), abs(ends[1]))
    hist, edges = _histogram(batches, bins, (-largest, largest), False)
    middle, half = bins // 2, levels // 2
    sums = np.concatenate([[0], np.cumsum(hist)])
    divergences = np.zeros(middle - half + 1)
    for i in range(half, middle + 1):
        first, last = middle - i, min(middle + i + 1, bins)
        divergences[i - half] = _ort_divergence(hist, sums, first, last, levels)
    i = int(np.argmin(divergences)) + half
    found = edges[middle - i], edges[min(middle + i + 1, bins)]
    return _within(found, ends)


def _ort_divergence(
    hist: npt.NDArray[np.int64],
    sums: npt.NDArray[np.int64],
    first: int,
    last: int,
    levels: int,
) -> np.float32 | float:
    """Of what codes make of the slice from the slice with what lies beyond at its ends."""
    p = hist[first:last].copy()
    p[0] += sums[first]
    p[-1] += sums[-1] - sums[last]
    each = p.size // levels  # which may be 0, where the last level has all
    bounds = first + np.arange(levels + 1) * each
    merged = np.diff(sums[bounds])
    merged[-1] += sums[last] - sums[bounds[-1]]
    some = np.concatenate([[0], np.cumsum(p != 0)])[bounds - first]
    norm = np.diff(some)
    means = np.zeros(levels, np.int64)
    np.floor_divide(merged, norm, out=means, where=norm != 0)
    q = np.zeros(p.size, np.int64)
    q[: levels * each] = np.repeat(means, each)
    smooth_p, smooth_q = _ort_smooth(p), _ort_smooth(q)
    if smooth_p is None or smooth_q is None:
        return np.inf
    pk = 1.0 * smooth_p / np.sum(smooth_p, axis=0, keepdims=True)
    qk = 1.0 * smooth_q / np.sum(smooth_q, axis=0, keepdims=True)
    terms = pk * np.log(pk / qk)
    return np.float32(np.sum(terms, axis=0))


def _ort_smooth(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float32] | None:
    """Zeros become a little, which the others pay for."""
    zero, other = ((counts == 0).astype(np.float32), (counts != 0).astype(np.float32))
    zeros = zero.sum()
    others = counts.size - zeros
    if not others:
        return None
    share = 0.0001 * float(zeros) / float(others)
    smooth = counts.astype(np.float32)
    smooth += 0.0001 * zero + (-share) * other
    return smooth


# ---- PyTorch ----


def _torch_minmax(batches: _Batches) -> tuple[Any, Any]:
    """MinMaxObserver."""
    lo, hi = batches.ends()
    return np.float32(lo), np.float32(hi)


def _torch_moving(
    batches: _Batches, *, averaging_constant: SupportsFloat = 0.01
) -> tuple[Any, Any]:
    """MovingAverageMinMaxObserver."""
    batches.ends()
    constant = _number(averaging_constant, "averaging_constant", 0, 1)
    seen = Observer(momentum=constant)
    for x in batches:
        seen.update(x)
    return seen.min, seen.max


class _TorchHistogram(NamedTuple):
    """The state of a HistogramObserver."""

    counts: npt.NDArray[np.float32]
    lo: np.float32
    hi: np.float32


def _torch_mse(
    batches: _Batches, *, bins: int = 2048, bits: int = 8
) -> tuple[np.float32, np.float32]:
    """HistogramObserver."""
    bins, bits = _count(bins, "bins"), _count(bits, "bits")
    if bits > 16:
        msg = f"bits: expected 1 to 16, got {bits}"
        raise ValueError(msg)
    batches.ends()
    state = None
    for batch in batches:
        x = batch.astype(np.float32, copy=False)
        if x.size == 0:
            continue
        lo, hi = x.min(), x.max()
        if state is None:
            state = _TorchHistogram(_histc(x, bins, lo, hi), lo, hi)
            continue
        lo, hi = min(lo, state.lo), max(hi, state.hi)
        counts = _histc(x, bins, lo, hi)
        state = _TorchHistogram(_rebinned(state, bins, lo, hi) + counts, lo, hi)
    assert state is not None
    return _torch_search(state, 1 << bits)


def _histc(
    x: npt.NDArray[np.float32], bins: int, lo: np.float32, hi: np.float32
) -> npt.NDArray[np.float32]:
    """torch.histc: one rounded product and one rounded quotient for each element."""
    if lo == hi:
        lo, hi = lo - np.float32(1), hi + np.float32(1)
    counts = np.zeros(bins, np.int64)
    for part in _pieces([x]):
        at = ((part - lo) * np.float32(bins) / (hi - lo)).astype(np.int64)
        counts += np.bincount(np.minimum(at, bins - 1), minlength=bins)
    return counts.astype(np.float32)


def _linspace(lo: np.float32, hi: np.float32, n: int) -> npt.NDArray[np.float32]:
    """torch.linspace: from either end to the middle."""
    step = np.float64((hi - lo) / np.float32(n - 1))
    i = np.arange(n, dtype=np.float64)
    # Its product and sum are fused, which float64 does as well.
    up = (np.float64(lo) + step * i).astype(np.float32)
    down = (np.float64(hi) - step * (n - 1 - i)).astype(np.float32)
    return np.where(i < n // 2, up, down)


def _rebinned(
    state: _TorchHistogram, bins: int, lo: np.float32, hi: np.float32
) -> npt.NDArray[np.float32]:
    """The counts so far in bins of a wider range, each as 16 points."""
    if lo == state.lo and hi == state.hi:
        return state.counts
    if state.lo == state.hi:
        counts = _histc(np.array([state.lo]), bins, lo, hi)
        counts *= state.counts.sum()
        return counts
    rate = 16
    weights = np.repeat(state.counts, rate) / np.float32(rate)
    size = (state.hi - state.lo) / np.float32(bins * rate)
    middles = _linspace(state.lo, state.hi, bins * rate + 1)[:-1] + np.float32(0.5) * size
    edges = _linspace(lo, hi, bins + 1)
    at = np.searchsorted(edges, middles, side="right") - 1
    counts = np.zeros(bins, np.float32)
    np.add.at(counts, np.clip(at, 0, bins - 1), weights)
    return counts


def _torch_search(state: _TorchHistogram, cells: int) -> tuple[np.float32, np.float32]:
    """Move the end that leaves out least until the error grows."""
    counts, bins = state.counts, state.counts.size
    width = (state.hi - state.lo) / np.float32(bins)
    total = float(counts.sum(dtype=np.float64))
    summed = np.cumsum(counts, dtype=np.float64).astype(np.float32)
    alpha, beta, step = 0.0, 1.0, 1e-5
    start, end = 0, bins - 1
    least = np.inf
    while alpha < beta:
        next_alpha, next_beta = alpha + step, beta - step
        left = int(np.searchsorted(summed, np.float32(next_alpha * total)))
        left = min(max(left, start), max(end, start))
        right = int(np.searchsorted(summed, np.float32(next_beta * total), side="right"))
        right = max(min(right - 1, end), min(start, end))
        if left - start > end - right:
            moved, alpha = (left, end), next_alpha
        else:
            moved, beta = (start, right), next_beta
        if moved == (start, end):
            continue
        norm = _torch_norm(state, moved, cells)
        if norm > least:
            break
        least, (start, end) = norm, moved
    return state.lo + width * np.float32(start), state.lo + width * np.float32(end + 1)


def _torch_norm(state: _TorchHistogram, moved: tuple[int, int], cells: int) -> float:
    """The square of the error where bins [start, end] become so many cells."""
    start, end = moved
    bins = state.counts.size
    wide = (float(state.hi) - float(state.lo)) / bins
    wide_cell = wide * (end - start + 1) / cells
    if wide_cell == 0:
        return 0.0
    single = np.float32
    width, cell = single(wide), single(wide_cell)
    first = (np.arange(bins) - start).astype(single) * width
    last = first + width
    begin = np.clip(np.floor(first / cell), single(0), single(cells - 1))
    stop = np.clip(np.floor(last / cell), single(0), single(cells - 1))
    density = state.counts / width
    half = single(wide_cell / 2)

    def integral(a: Any, b: Any) -> Any:
        return density * ((b * b * b - a * a * a) / single(3))

    norm = integral(first - (begin + single(0.5)) * cell, half)
    norm = norm + (stop - begin - single(1)) * integral(-half, half)
    norm = norm + integral(-half, last - (stop * cell + half))
    return float(norm.sum(dtype=np.float64))


# ---- one call ----


def _count(value: Any, name: str) -> int:
    count = _core.integers(value, name)
    if not isinstance(count, int):
        msg = f"{name}: expected an integer, got {type(value).__name__}"
        raise TypeError(msg)
    if not 1 <= count <= 1 << 24:
        msg = f"{name}: expected 1 to {1 << 24}, got {count}"
        raise ValueError(msg)
    return count


_METHODS: dict[str, dict[str, Callable[..., tuple[Any, Any]]]] = {
    "onnxruntime": {
        "minmax": _ort_minmax,
        "percentile": _ort_percentile,
        "entropy": _ort_entropy,
    },
    "pytorch": {"minmax": _torch_minmax, "moving": _torch_moving, "mse": _torch_mse},
}


def _own(batches: _Batches, method: str, options: dict[str, Any]) -> tuple[Any, Any]:
    seen = batches.observe(
        Observer(histogram=method != "minmax", nonfinite=batches._nonfinite)
    )
    if seen.count == 0:
        batches.ends()  # for its message
    lo, hi = seen.range(method, **options)  # type: ignore[arg-type]
    return lo, hi


def _check_options(
    function: Callable[..., object], method: str, options: dict[str, Any]
) -> None:
    known = function.__kwdefaults__ or {}
    for name in options:
        if name not in known:
            names = ", ".join(known) or "none"
            msg = f"{name}: expected an option of {method!r} ({names})"
            raise TypeError(msg)


def calibrate(
    batches: Iterable[ArrayLike], method: str, like: str | None, options: dict[str, Any]
) -> tuple[Any, Any]:
    """See `pyquant.calibrate`."""
    given = dict(options)
    held = _Batches(
        batches, given.pop("nonfinite", "raise"), given.pop("threads", 1)
    )  # which Observer checks
    if like is None:
        _check_options(Observer.range, method, given)
        return _own(held, method, given)
    like = _one_of(like, _METHODS, "like", "None, 'onnxruntime' or 'pytorch'")
    known = f"one of {', '.join(_METHODS[like])} like {like}"
    function = _METHODS[like][_one_of(method, _METHODS[like], "method", known)]
    _check_options(function, method, given)
    return function(held, **given)
