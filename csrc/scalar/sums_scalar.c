/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA scalar
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

#include "scalar/lanes_scalar.h"

#include "kernels/sums.inc"

/*
 * ---- requantize ----
 *
 * This kernel does not use requantize.inc: compilers do not vectorize portable words on
 * chunks here, and the loops would take 20 kB. Each function computes one element.
 */

/* Return m * 2, or m. */
PQ_INLINE int64_t multiplier_at(const struct pq_requantize_run *how, size_t at)
{
    return how->doubled ? (int64_t)(uint32_t)how->m[at] : how->m[at];
}

/* Shift to the left by `top` - down, unless that is negative, and saturate. */
PQ_INLINE int32_t shifted(const struct pq_requantize_run *how, int32_t v, size_t at,
                          int top)
{
    const int left = top - how->down[at] > 0 ? top - how->down[at] : 0;
    const int32_t most = INT32_MAX >> left;
    const int32_t capped = v < most ? v : most, bounded = capped > ~most ? capped : ~most;
    return (int32_t)((uint32_t)bounded << left);
}

PQ_INLINE int64_t requantized_once(const struct pq_requantize_run *how, int32_t v,
                                   size_t at)
{
    const int64_t m = multiplier_at(how, at) >> how->doubled;
    const int64_t product = shifted(how, v, at, how->doubled) * m >> 32;
    return ((product >> (how->down[at] > 0 ? how->down[at] : 0)) + 1) >> 1;
}

PQ_INLINE int64_t requantized_int32(const struct pq_requantize_run *how, int32_t v,
                                    size_t at)
{
    const int right = how->down[at] + 33 - how->doubled;
    const int64_t product = v * (multiplier_at(how, at) >> how->doubled);
    return (product + (INT64_C(1) << (right - 1))) >> right;
}

PQ_INLINE int64_t requantized_twice(const struct pq_requantize_run *how, int32_t v,
                                    size_t at)
{
    const int64_t product = shifted(how, v, at, -1) * multiplier_at(how, at);
    const int64_t x = (product + (INT64_C(1) << 31)) >> 32;
    return how->down[at] < 0 ? x : (((x - (x < 0)) >> how->down[at]) + 1) >> 1;
}

/* The sum with 1.5 * 2^52 holds an integer below 2^51 in its last bits. */
PQ_INLINE int64_t requantized_f32(const struct pq_requantize_run *how, int32_t v, size_t at)
{
    const float product = (float)v * how->r[at];
    const double p = (double)product, lo = (double)how->lowest, hi = (double)how->highest;
    const double above = p > lo ? p : lo, bounded = above < hi ? above : hi;
    return (int64_t)(pq_bits_f64(bounded + 0x1.8p52) - pq_bits_f64(0x1.8p52));
}

PQ_INLINE void store_code(char *y, size_t size, int64_t code)
{
    const uint32_t bits = (uint32_t)code;
    const uint16_t half = (uint16_t)code;
    if (size == sizeof bits) {
        memcpy(y, &bits, sizeof bits);
    } else if (size == sizeof half) {
        memcpy(y, &half, sizeof half);
    } else {
        *y = (char)(unsigned char)code;
    }
}

typedef int64_t product_fn(const struct pq_requantize_run *how, int32_t v, size_t at);

/* Requantize lines. Return 0 if an element is not within the bounds. */
PQ_INLINE int requantize_with(product_fn *product, const struct pq_requantize_run *how,
                              const char *x, char *y, size_t n)
{
    const int64_t lowest = how->lowest, highest = how->highest, zero = how->zero;
    const size_t size = pq_bytes_of(how->out);
    bool beyond = false;
    for (size_t line = 0; line < how->lines && !beyond; line++) {
        for (size_t i = 0; i < n; i++) {
            const size_t at = how->each ? i : line;
            int32_t v;
            memcpy(&v, x + i * sizeof v, sizeof v);
            beyond |= v < how->least || v > how->most;
            v = (int32_t)((uint32_t)v + (uint32_t)how->bias[at]);
            const int64_t r = product(how, v, at), above = r > lowest ? r : lowest;
            store_code(y + i * size, size, (above < highest ? above : highest) + zero);
        }
        x += how->in_stride;
        y += how->out_stride;
    }
    return !beyond;
}

int PQ_NAME(requantize)(const struct pq_requantize_run *how, const void *px, void *py,
                        size_t n)
{
    const char *const x = px;
    char *const y = py;
    return how->kind == PQ_REQUANTIZE_F32 ? requantize_with(requantized_f32, how, x, y, n)
           : how->kind == PQ_REQUANTIZE_TWICE
               ? requantize_with(requantized_twice, how, x, y, n)
           : how->out == PQ_I32 ? requantize_with(requantized_int32, how, x, y, n)
                                : requantize_with(requantized_once, how, x, y, n);
}
