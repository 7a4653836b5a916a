# SPDX-License-Identifier: Apache-2.0
"""Compute sums of errors and search for parameters by definition, without the kernels."""

import functools
import math

import numpy as np
import oracle

LANES, RUN, CHUNK, PIECE = 16, 4096, 65536, 1024


def lane_sum(values):
    """Add element i to lane i % 16. Then add the upper half of the lanes to the lower half.

    Halve the number of lanes in this way until one sum remains.
    """
    rows = -(-len(values) // LANES)
    padded = np.zeros(rows * LANES)
    padded[: len(values)] = values
    lanes = np.zeros(LANES)
    for row in padded.reshape(rows, LANES):
        lanes = lanes + row
    while len(lanes) > 1:
        lanes = lanes[: len(lanes) // 2] + lanes[len(lanes) // 2 :]
    return lanes[0]


def in_order(values, size):
    """Divide the values into parts of `size` elements, and add the parts' sums in order."""
    total = 0.0
    for i in range(0, len(values), size):
        total += lane_sum(values[i : i + size])
    return total


def error_sums(x, y):
    """Return the sums and extremes of an error report for a pair of arrays."""
    x, y = (np.asarray(a).astype(np.float64).ravel() for a in (x, y))
    known = np.isfinite(x) & np.isfinite(y)
    with np.errstate(invalid="ignore"):
        e = np.where(known, x - y, 0)
    a, b = np.where(known, x, 0), np.where(known, y, 0)
    sums = {"xx": a * a, "yy": b * b, "xy": a * b, "e": e, "ee": e * e}
    found = {}
    for name, terms in sums.items():
        found[name] = 0.0
        for i in range(0, len(terms), CHUNK):
            part = in_order(terms[i : i + CHUNK], RUN)
            found[name] = part if i == 0 else found[name] + part
    magnitudes = np.where(known, abs(e), -1)
    nan = np.isnan(x) | np.isnan(y)
    found["most"] = magnitudes.max() if known.any() else 0.0
    found["index"] = int(magnitudes.argmax()) if known.any() else -1
    found |= {"count": x.size, "nan": int(nan.sum()), "inf": int((~known & ~nan).sum())}
    return found


# ---- searching ----


@functools.cache
def scale_and_zero(lo, hi, dtype, symmetric, real):
    """Return the parameters that choose_qparams chooses for a range."""
    ends = np.array([lo, hi], real)
    scale, zero = oracle.choose_qparams(ends, dtype=dtype, symmetric=symmetric)
    return real(scale), int(zero)


def codes_less_zero(x, scale, zero, dtype):
    """Quantize `x`. Return the codes minus the zero point, in the type of `x`."""
    qmin, qmax = oracle.code_range(dtype)
    return np.clip(np.rint(x / scale), qmin - zero, qmax - zero).astype(x.dtype)


def squared_error(x, w, scale, zero, dtype, unit):
    """Return the weighted sum of squared errors, which a search minimizes."""
    e = codes_less_zero(x, scale, zero, dtype) * scale - x
    e = e.astype(np.float64) * unit
    return in_order(w * (e * e), PIECE)


def search_group(x, dtype, *, symmetric, weights=None, candidates=None):
    """Search for the scale and the zero point of one group."""
    real = np.float64 if x.dtype == np.float64 else np.float32
    x = x.astype(real).ravel()
    w = np.ones(x.size) if weights is None else weights.astype(np.float64).ravel()
    if candidates is None:
        candidates = [1 - j / 100 for j in range(20)]
    unit = 1.0
    if real is np.float64:
        unit = math.ldexp(1, -math.frexp(abs(x).max())[1])
    best = None
    for by in candidates:
        lo, hi = real(float(x.min()) * by), real(float(x.max()) * by)
        scale, zero = scale_and_zero(lo, hi, dtype, symmetric, real)
        error = squared_error(x, w, scale, zero, dtype, unit)
        if best is None or error < best[0]:
            best = error, scale, zero
    error, scale, zero = best
    q = codes_less_zero(x, scale, zero, dtype).astype(np.float64)
    xq = in_order(w * (x.astype(np.float64) * q), PIECE)
    qq = in_order(w * (q * q), PIECE)
    if qq > 0 and real(xq / qq) > 0:
        fitted = real(xq / qq)
        if squared_error(x, w, fitted, zero, dtype, unit) < error:
            scale = fitted
    return scale, zero
