"""Encode GGUF blocks with the same operations, in the same order, as ggml's reference code.

Each sum runs along axis 0, adds the terms in order, and is rounded to float32 after each
addition. Each function processes all blocks at once.
"""

from functools import partial

import blocks_oracle
import numpy as np
from blocks_oracle import E2M1_TWICE, FORMATS, IQ4_LEVELS, ue4m3

F = np.float32
TINY = F(1e-15)  # If no magnitude in a group reaches TINY, the group is encoded as zeros.


# Numbers


def half(values):
    """Return the bytes of the nearest float16. Every NaN becomes the same float16 NaN."""
    halves = values.astype(np.float16)
    return bytes_of(np.where(np.isnan(halves), np.float16(np.nan), halves))


def total(terms):
    result = np.zeros(terms.shape[1:], F)
    for term in terms:
        result = result + term
    return result


def nearest(values):
    """Round to the nearest integer, ties to even, by adding a constant like ggml.

    Infinities become the lowest integer, and NaN becomes 0.
    """
    return ((values + F(12582912)).view(np.int32) & 0x7FFFFF) - 0x400000


def finite(values):
    """Replace by 0 each infinity or NaN, which an overflowing reciprocal causes."""
    return np.where(np.isfinite(values), values, F(0))


def half_away(values):
    values = finite(values).astype(float)
    return np.trunc(values + np.copysign(0.5, values)).astype(int)


def trunc(values):
    return np.trunc(finite(values)).astype(int)


def inverse(d):
    return np.where(d != 0, F(1) / d, F(0))


def largest(x):
    """Return the signed element of the largest magnitude, the first one if several tie."""
    result = np.zeros(x.shape[1:], F)
    for element in x:
        result = np.where(np.abs(element) > np.abs(result), element, result)
    return result


def extrema(x):
    """Return the first minimum and the first maximum. The comparison treats -0 as 0."""
    low = high = x[0]
    for element in x:
        low = np.where(element < low, element, low)
        high = np.where(element > high, element, high)
    return low, high


# Bytes


def bytes_of(numbers):
    """Return the little-endian bytes of numbers, as an array of shape (blocks, bytes)."""
    little = numbers.astype(numbers.dtype.newbyteorder("<"))
    return np.ascontiguousarray(little).reshape(len(numbers), -1).view(np.uint8)


def in_bits(codes, bits, dtype=np.uint8):
    """Pack consecutive codes into each number, the first code into its lowest bits."""
    count = 8 * np.dtype(dtype).itemsize // bits
    groups = codes.reshape(len(codes), -1, count).astype(dtype)
    return bytes_of(
        (groups << (bits * np.arange(count)).astype(dtype)).sum(-1, dtype=dtype)
    )


def in_planes(codes, bits, width):
    """Pack the first `width` codes into the lowest bits of `width` bytes.

    The next `width` codes occupy the next higher bits of these bytes.
    """
    groups = codes.reshape(len(codes), -1, 8 // bits, width)
    shifts = np.arange(0, 8, bits)[:, None]
    return bytes_of((groups << shifts).sum(2).astype(np.uint8))


def in_halves(codes, width=16):
    return in_planes(codes, 4, width)


def joined(*fields):
    return np.concatenate(fields, -1)


# Encode without a search. `x` has shape (elements, blocks), codes (blocks, elements).


def q5_fields(codes):
    return joined(in_bits(codes >> 4, 1, np.uint32), in_halves(codes & 15))


def q4_or_q5_0(x, middle, pack):
    d = largest(x) / F(-middle)
    codes = np.minimum(2 * middle - 1, trunc(x * inverse(d) + F(middle + 0.5)))
    return joined(half(d), pack(codes.T))


def q4_1(x):
    low, high = extrema(x)
    d = (high - low) / F(15)
    codes = np.minimum(15, trunc((x - low) * inverse(d) + F(0.5)))
    return joined(half(d), half(low), in_halves(codes.T))


def q5_1(x):
    low, high = extrema(x)
    d = (high - low) / F(31)
    codes = trunc((x - low) * inverse(d) + F(0.5))
    return joined(half(d), half(low), q5_fields(codes.T))


def q8_codes(x):
    d = np.abs(x).max(0) / F(127)
    return d, half_away(x * inverse(d)).T


def q8_0(x):
    d, codes = q8_codes(x)
    return joined(half(d), bytes_of(codes.astype(np.int8)))


def q8_1(x):
    d, codes = q8_codes(x)
    sums = codes.sum(-1).astype(F) * d
    return joined(half(d), half(sums), bytes_of(codes.astype(np.int8)))


def q8_k(x):
    """Encode Q8_K. For zeros, the sums are 0; ggml leaves the sums uninitialized."""
    i = np.where(largest(x) != 0, F(-127) / largest(x), F(0))
    codes = np.minimum(127, nearest(i * x)).T
    sums = codes.reshape(len(codes), 16, 16).sum(-1)
    d = bytes_of(inverse(i))
    return joined(d, bytes_of(codes.astype(np.int8)), bytes_of(sums.astype(np.int16)))


def q1_0(x):
    return joined(half(total(np.abs(x)) / F(128)), in_bits((x >= 0).T, 1))


def ternary(x):
    """Return the scale and codes. Codes 0, 1 and 2 mean -1, 0 and 1 times the scale."""
    d = np.abs(x).max(0)
    return half(d), half_away(x * inverse(d)).T + 1


def q2_0(x):
    """Encode Q2_0. An element with an infinite or NaN quotient gets code 0."""
    d, codes = ternary(x)
    overflow = ~np.isfinite(x * inverse(np.abs(x).max(0))).T
    return joined(d, in_bits(np.where(overflow, 0, codes.clip(0, 3)), 2))


def tq1_0(x):
    """Encode TQ1_0. A byte stores up to five base-3 digits as a fraction of 256."""
    d, codes = ternary(x)

    def digits(part, count, width):
        groups = part.reshape(len(part), count, width)
        number = sum(groups[:, n] * 3 ** (4 - n) for n in range(count))
        return ((number * 256 + 242) // 243).astype(np.uint8)

    first, second, last = np.split(codes, [160, 240], axis=-1)
    return joined(digits(first, 5, 32), digits(second, 5, 16), digits(last, 4, 4), d)


def tq2_0(x):
    d, codes = ternary(x)
    return joined(in_planes(codes, 2, 32), d)


def e2m1_codes(x, unit):
    """Return the nearest codes. Ties go to the smaller magnitude.

    If the decoded number overflows float32, the code of magnitude 3 is returned instead.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        quotient = x.astype(float) / unit
    levels = E2M1_TWICE[:8]
    between = (levels[1:] + levels[:-1]) / 2
    codes = np.searchsorted(between, np.abs(np.nan_to_num(quotient)), side="left")
    codes = np.where(levels[codes] * unit > np.finfo(np.float32).max, 5, codes)
    return codes + 8 * ((x < 0) & (codes > 0))


def floor_log2(values):
    """Return the floor of the base-2 logarithm after its rounding to float32.

    Just below a power of two, the rounding increases the logarithm to the integer exponent
    of that power.
    """
    _, power = np.frexp(values.astype(float))
    bits = np.array([abs(k - (k > 0)) for k in power], int)
    bits = np.array([int(k).bit_length() for k in bits])
    near = np.floor(2.0**bits * np.log(2) / 2) * (power != 0)
    below = np.ldexp(1.0, power) - values
    return power - 1 + ((values > 0) & (below <= near * np.ldexp(1.0, power - 24)))


def mxfp4(x):
    """Encode MXFP4. A negative exponent becomes 0; in ggml its result is undefined."""
    largest = np.abs(x).max(0)
    e = np.where(largest > 0, np.maximum(floor_log2(largest) + 125, 0), 0)
    codes = e2m1_codes(x, np.ldexp(1.0, e - 128))
    return joined(e.astype(np.uint8)[:, None], in_halves(codes.T))


def ue4m3_code(values):
    """Return the codes of scales. Like ggml, round up if the first dropped bit is 1.

    Like ggml, return the code of 448 for a number that rounds to 256 or more.
    """
    bits = np.minimum(values, F(448)).view(np.uint32).astype(int)
    normal = ((bits >> 19) + 1 >> 1) - (120 << 3)
    small = np.minimum(trunc(values * F(512) + F(0.5)), 7)
    code = np.where(bits >> 23 <= 120, small, np.where(normal >= 15 << 3, 0x7E, normal))
    return np.where(values > 0, code, 0)


def nvfp4(x):
    groups = x.reshape(4, 16, -1).transpose(1, 2, 0)  # 16, blocks, 4
    scales = ue4m3_code(np.abs(groups).max(0) / F(6))
    codes = np.where(scales > 0, e2m1_codes(groups, ue4m3(scales)), 0)
    return joined(scales.astype(np.uint8), in_halves(codes.transpose(1, 2, 0), 8))


# Search for scales. `x` and codes have shape (elements, ...); scales have shape (...).


def scale_and_min(x, w, nmax, first, step, steps, error=np.square):
    """Search for codes 0 to `nmax`, a scale and a minimum. Return the minimum negated."""
    low, high = extrema(x)
    sum_w, sum_x = total(w), total(w * x)
    low = np.where(low > 0, F(0), low)
    full = high > low

    def codes_of(i):
        return nearest(i * (x - low)).clip(0, nmax).astype(F)

    def error_of(codes, scale, low):
        return total(w * error(scale * codes + low - x))

    i = F(nmax) / (high - low)
    scale = F(1) / i
    codes = codes_of(i)
    least = error_of(codes, scale, low)
    for k in range(steps + 1):
        q = codes_of((F(first) + F(step) * F(k) + F(nmax)) / (high - low))
        a, b, c = total(w * q), total(w * q * q), total(w * q * x)
        determinant = sum_w * b - a * a
        s = (sum_w * c - sum_x * a) / determinant
        m = (b * sum_x - a * c) / determinant
        s, m = np.where(m > 0, c / b, s), np.where(m > 0, F(0), m)
        e = error_of(q, s, m)
        take = full & (determinant > 0) & (e < least)
        codes, scale = np.where(take, q, codes), np.where(take, s, scale)
        least, low = np.where(take, e, least), np.where(take, m, low)
    return np.where(full, codes, 0).astype(int), np.where(full, scale, F(0)), -low


def signed_scale(x, nmax, w=None):
    """Return the codes plus `nmax`, and a scale, which may be negative."""
    w = x * x if w is None else w
    peak = largest(x)
    full = np.abs(peak) >= TINY

    def tried(i):
        q = nearest(i * x).clip(-nmax, nmax - 1)
        f = q.astype(F)
        return q + nmax, total(w * x * f), total(w * f * f)

    codes, a, b = tried(F(-nmax) / peak)
    scale = np.where(b != 0, a / b, F(0))
    best = scale * a
    for k in (*range(-9, 0), *range(1, 10)):
        q, a, b = tried(-(F(nmax) + F(0.1) * F(k)) / peak)
        take = (b > 0) & (a * a > best * b)
        codes, scale = np.where(take, q, codes), np.where(take, a / b, scale)
        best = np.where(take, scale * a, best)
    return np.where(full, codes, 0), np.where(full, scale, F(0))


def swept(x, w, codes, a, b, clip, allowed):
    """Improve one code after another, in five passes. Return codes and scales.

    The codes keep their dtype. Weighted sums `a` and `b` define the scale `a / b`.
    """
    kept, codes = codes.dtype, list(codes)
    for _ in range(5):
        for k, (element, weight) in enumerate(zip(x, w, strict=True)):
            old = codes[k].astype(F)
            a1 = a - weight * element * old
            b1 = b - weight * old * old
            q = clip(nearest(element * b1 / a1))
            new = q.astype(F)
            a2 = a1 + weight * element * new
            b2 = b1 + weight * new * new
            take = (q != codes[k]) & allowed(a1, b1, b2) & (a2 * a2 * b > a * a * b2)
            codes[k] = np.where(take, q.astype(kept), codes[k])
            a, b = np.where(take, a2, a), np.where(take, b2, b)
    return np.array(codes), np.where(b > 0, a / b, F(0))


def swept_scale(x, nmax):
    """Return codes and a scale like `signed_scale`, but improve the codes with `swept`."""
    peak, w = largest(x), x * x
    full = np.abs(peak) >= TINY

    def clip(codes):
        return codes.clip(-nmax, nmax - 1)

    codes = clip(nearest(F(-nmax) / peak * x))
    q = codes.astype(F)
    a, b = total(w * x * q), total(w * q * q)
    codes, scale = swept(x, w, codes, a, b, clip, lambda a1, b1, b2: (a1 > 0) & (b2 > 0))
    return np.where(full, codes + nmax, 0), np.where(full, scale, F(0))


def scale_of_scales(x, w, nmax):
    """Quantize non-negative numbers to codes 0 to `nmax`; return the codes and the scale.

    Large codes wrap to uint8 like in ggml, because some weights cause large quotients.
    """
    peak = np.maximum(x.max(0), F(0))
    full = peak >= TINY

    def clip(codes):
        return np.minimum(codes, nmax)

    def error_of(i, codes):
        delta = x - F(1) / i * codes.astype(F)
        return total(w * delta * delta)

    i = F(nmax) / peak
    least = error_of(i, nearest(i * x).astype(np.uint8))
    for k in (*range(-4, 0), *range(1, 5)):
        other = (F(0.1) * F(k) + F(nmax)) / peak
        e = error_of(other, clip(nearest(other * x)))
        take = e < least
        i, least = np.where(take, other, i), np.where(take, e, least)
    codes = clip(nearest(i * x))
    q = codes.astype(F)
    a, b = total(w * x * q), total(w * q * q)
    codes = codes.astype(np.uint8)
    codes, scale = swept(x, w, codes, a, b, clip, lambda a1, b1, b2: (a1 > 0) & (b1 > 0))
    return np.where(full, codes, 0), np.where(full, scale, F(0))


# Encode blocks of 256 elements. `x` and `v` have shape (256, blocks).
# Sub-blocks have shape (elements, blocks, sub-blocks).


def in_groups(x, count):
    """Divide each block into sub-blocks of `count` elements."""
    return x.reshape(-1, count, x.shape[1]).transpose(1, 2, 0)


def flat(codes):
    """Reorder (elements, blocks, sub-blocks) to (blocks, elements)."""
    return codes.transpose(1, 2, 0).reshape(codes.shape[1], -1)


def importance(x, v, mean):
    """Return the weight of each element's error. `v` is the importance of its column."""
    return v * np.sqrt(mean + x * x)


def mean_square(x, times=1):
    return (F(times) * total(x * x) / F(len(x)))[:, None]


def times(d, numbers):
    """Return `numbers` times the float16 value of the block's scale `d`."""
    return d.astype(np.float16).astype(F)[:, None] * numbers.astype(F)


def recoded(x, codes, d, low, high, m=None):
    """Return the codes for the stored scales `d`. Keep the codes where `d` is 0."""
    numbers = x if m is None else x + m
    return np.where(d != 0, nearest(numbers / d).clip(low, high), codes)


def of_most(values, most, top):
    """Return codes 0 to `top`, and the scale `most / top` of each block."""
    i = np.where(most > 0, F(top) / most, F(0))
    codes = np.minimum(top, nearest(i[:, None] * values).astype(np.uint8))
    return codes, np.where(most > 0, most / F(top), F(0))


def scales_and_mins(scales, mins, weights, top):
    """Quantize scales and minima. Return two pairs: the codes and their float32 scale."""
    if weights is None:
        return (
            *of_most(scales, np.maximum(scales.max(-1), F(0)), top),
            *of_most(mins, np.maximum(mins.max(-1), F(0)), top),
        )
    sums = total(weights).T
    s, d = scale_of_scales(scales.T, sums, top)
    m, dmin = scale_of_scales(mins.T, sums, top)
    return s.T, d, m.T, dmin


# Arguments `first`, `step` and `steps` of scale_and_min.
IMPORTANT = (-0.9, 0.05, 36)


def q2_k(x, v=None):
    g = in_groups(x, 16)
    if v is None:
        w = None
        codes, scales, mins = scale_and_min(g, np.abs(g), 3, -0.5, 0.1, 15, np.abs)
    else:
        w = importance(g, in_groups(v, 16), mean_square(x))
        codes, scales, mins = scale_and_min(g, w, 3, *IMPORTANT)
    s, d, m, dmin = scales_and_mins(scales, mins, w, 15)
    scales = s | m << 4
    codes = recoded(g, codes, times(d, scales & 15), 0, 3, times(dmin, scales >> 4))
    return joined(scales, in_planes(flat(codes), 2, 32), half(d), half(dmin))


def q3_k(x, v=None):
    g = in_groups(x, 16)
    if v is None:
        codes, scales = swept_scale(g, 4)
        peak = largest(scales.T)
        i = F(-32) / peak
        s = np.where(peak[:, None] != 0, nearest(i[:, None] * scales).clip(-32, 31) + 32, 0)
        d = np.where(peak != 0, F(1) / i, F(0))
    else:
        w = importance(g, in_groups(v, 16), mean_square(x, 2))
        codes, scales = signed_scale(g, 4, w)
        s, d = signed_scale(scales.T, 32, total(w).T)
        s = s.T
    codes = flat(recoded(g, codes - 4, times(d, s - 32), -4, 3) + 4)
    scales = joined(in_halves(s & 15, 8), in_planes(s >> 4, 2, 4))
    high, low = in_planes(codes >> 2, 1, 32), in_planes(codes & 3, 2, 32)
    return joined(high, low, scales, half(d))


def k4_scales(s, m):
    """Pack eight 6-bit scales and eight 6-bit minima into 12 bytes."""
    low, high = slice(0, 4), slice(4, 8)
    first = s[:, low] | s[:, high] >> 4 << 6
    second = m[:, low] | m[:, high] >> 4 << 6
    third = s[:, high] & 15 | (m[:, high] & 15) << 4
    return joined(first, second, third)


def q4_or_q5_k(x, v, nmax, candidates):
    """Return the bytes that a block stores before its codes, and the codes."""
    g = in_groups(x, 32)
    if v is None:
        w = None
        weights = np.sqrt(total(g * g) / F(32)) + np.abs(g)
        codes, scales, mins = scale_and_min(g, weights, nmax, *candidates)
    else:
        w = importance(g, in_groups(v, 32), mean_square(x, 2))
        codes, scales, mins = scale_and_min(g, w, nmax, *IMPORTANT)
    s, d, m, dmin = scales_and_mins(scales, mins, w, 63)
    packed = k4_scales(s, m)
    s, m = blocks_oracle.scales_and_mins(packed)
    codes = flat(recoded(g, codes, times(d, s), 0, nmax, times(dmin, m)))
    return joined(half(d), half(dmin), packed), codes


def q4_k(x, v=None):
    fields, codes = q4_or_q5_k(x, v, 15, (-1, 0.1, 20))
    return joined(fields, in_planes(codes, 4, 32))


def q5_k(x, v=None):
    fields, codes = q4_or_q5_k(x, v, 31, (-0.5, 0.1, 15))
    return joined(fields, in_planes(codes >> 4, 1, 32), in_planes(codes & 15, 4, 32))


def q6_k(x, v=None):
    g = in_groups(x, 16)
    codes, scales = signed_scale(g, 32, None if v is None else in_groups(v, 16))
    peak = largest(scales.T)
    i = F(-128) / peak
    s = np.minimum(127, nearest(i[:, None] * scales))
    d = F(1) / i
    codes = flat(recoded(g, codes - 32, times(d, s), -32, 31) + 32)
    fields = (
        *(in_planes(codes & 15, 4, 64), in_planes(codes >> 4, 2, 32)),
        *(bytes_of(s.astype(np.int8)), half(d)),
    )
    return np.where(np.abs(peak)[:, None] < TINY, 0, joined(*fields))


# IQ4 types


def iq4_codes(values):
    """Return the index of the nearest IQ4 level. Ties go to the upper level."""
    levels = IQ4_LEVELS.astype(F)
    upper = np.searchsorted(levels, values, side="right").clip(1, 15)
    nearer = values - levels[upper - 1] < levels[upper] - values
    return np.where(values <= levels[0], 0, np.where(nearer, upper - 1, upper))


def iq4_scale(x, w, search):
    """Return the codes of the first candidate, and the best scale. For zeros, return 0."""
    peak = largest(x)
    full = np.abs(peak) >= TINY

    def tried(i):
        codes = iq4_codes(i * x)
        q = IQ4_LEVELS.astype(F)[codes]
        return codes, total(w * q * x), total(w * q * q)

    codes, a, b = tried(F(1) / ((-peak if search else peak) / F(-127)))
    d = np.where(b > 0, a / b, F(0))
    best = d * a
    for t in range(-7, 8) if search else ():
        _, a, b = tried(F(t - 127) / peak)
        take = (b > 0) & (a * a > best * b)
        d = np.where(take, a / b, d)
        best = np.where(take, d * a, best)
    return np.where(full, codes, 0), np.where(full, d, F(0))


def iq4_nl(x, v=None, search=False):
    """Encode IQ4_NL. Without a search, zeros get code 0; ggml leaves it uninitialized."""
    w = x * x if v is None else importance(x, v, mean_square(x, 2)[:, 0])
    codes, d = iq4_scale(x, w, search or v is not None)
    if search or v is not None:
        codes = iq4_codes(inverse(d) * x)
    return joined(half(d), in_halves(codes.T))


def iq4_xs(x, v=None):
    g = in_groups(x, 32)
    w = g * g if v is None else importance(g, in_groups(v, 32), mean_square(x, 2))
    _, scales = iq4_scale(g, w, True)
    d = -largest(scales.T) / F(32)
    s = nearest(inverse(d)[:, None] * scales).clip(-32, 31)
    codes = flat(iq4_codes(inverse(d[:, None] * s.astype(F)) * g))
    s = s + 32
    fields = in_bits(s >> 4, 2, np.uint16), in_bits(s & 15, 4), in_halves(codes)
    return joined(half(d), *fields)


# Encode legacy blocks with column weights `v`. `mean` is the mean square of each row.


def with_scale(x, v, mean, middle, pack):
    codes, d = signed_scale(x, middle, importance(x, v, mean))
    return joined(half(d), pack(codes.T))


def with_scale_and_min(x, v, mean, nmax, pack):
    codes, d, m = scale_and_min(x, importance(x, v, mean), nmax, *IMPORTANT)
    return joined(half(d), half(-m), pack(codes.T))


LEGACY = {
    "Q4_0": partial(with_scale, middle=8, pack=in_halves),
    "Q4_1": partial(with_scale_and_min, nmax=15, pack=in_halves),
    "Q5_0": partial(with_scale, middle=16, pack=q5_fields),
    "Q5_1": partial(with_scale_and_min, nmax=31, pack=q5_fields),
}
SEARCHED = {
    "Q2_K": q2_k,
    "Q3_K": q3_k,
    "Q4_K": q4_k,
    "Q5_K": q5_k,
    "Q6_K": q6_k,
    "IQ4_NL": iq4_nl,
    "IQ4_XS": iq4_xs,
}
DIRECT = {
    "Q4_0": partial(q4_or_q5_0, middle=8, pack=in_halves),
    "Q4_1": q4_1,
    "Q5_0": partial(q4_or_q5_0, middle=16, pack=q5_fields),
    "Q5_1": q5_1,
    "Q8_0": q8_0,
    "Q8_1": q8_1,
    "Q8_K": q8_k,
    "Q1_0": q1_0,
    "Q2_0": q2_0,
    "TQ1_0": tq1_0,
    "TQ2_0": tq2_0,
    "MXFP4": mxfp4,
    "NVFP4": nvfp4,
}


def encode(name, x, weights=None, **options):
    """Encode float32 numbers (rows, columns) as uint8 blocks of shape (rows, bytes).

    `weights` has a number for each column. `search=True` applies to IQ4_NL only.
    """
    assert x.dtype == F
    rows, columns = x.shape
    size = FORMATS[name][1]

    def in_blocks(array):
        return np.ascontiguousarray(array.reshape(-1, size).T)

    arguments = [in_blocks(x)]
    function = SEARCHED.get(name) or DIRECT[name]
    if weights is not None and name in {**LEGACY, **SEARCHED}:
        function = LEGACY.get(name, function)
        arguments.append(in_blocks(np.broadcast_to(weights.astype(F), x.shape)))
        if name in LEGACY:
            with np.errstate(over="ignore"):
                mean = total((x * x).T) / F(columns)
            arguments.append(np.repeat(mean, columns // size))
    with np.errstate(all="ignore"):
        return function(*arguments, **options).astype(np.uint8).reshape(rows, -1)


def bf16(x):
    """Return the nearest bfloat16 as uint16, ties to even. NaN becomes quiet."""
    bits = x.view(np.uint32)
    nearest = bits + 0x7FFF + (bits >> 16 & 1) >> 16
    return np.where(np.isnan(x), bits >> 16 | 64, nearest).astype(np.uint16)
