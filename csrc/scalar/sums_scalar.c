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

/* Return the factor of the product at place `at`: v within its bounds, shifted left. */
PQ_INLINE int32_t shifted(const struct pq_requantize_run *how, int32_t v, size_t at)
{
    const int32_t most = how->most[at];
    const int32_t capped = v < most ? v : most, bounded = capped > ~most ? capped : ~most;
    return (int32_t)((uint32_t)bounded << how->left[at]);
}

PQ_INLINE int64_t requantized_once(const struct pq_requantize_run *how, int32_t v,
                                   size_t at)
{
    const int64_t product = (int64_t)v * how->m[at];
    return ((product >> 32) + how->half[at]) >> how->right[at];
}

PQ_INLINE int64_t requantized_int32(const struct pq_requantize_run *how, int32_t v,
                                    size_t at)
{
    const int64_t product = (int64_t)v * how->m[at];
    return (product + (INT64_C(1) << (how->right[at] - 1))) >> how->right[at];
}

PQ_INLINE int64_t requantized_twice(const struct pq_requantize_run *how, int32_t v,
                                    size_t at)
{
    const int64_t product = (int64_t)v * (how->m[at] + (INT64_C(1) << 32));
    const int64_t x = (product + (INT64_C(1) << 31)) >> 32;
    return how->half[at] == 0 ? x : (((x - (x < 0)) >> how->right[at]) + 1) >> 1;
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

/* Requantize a group. Its parameters start at place `at`, with a stride of `step` places.
 */
PQ_INLINE void requantize_with(product_fn *product, const struct pq_requantize_run *how,
                               const char *x, char *y, size_t n, size_t at, size_t step)
{
    const int64_t lowest = how->lowest, highest = how->highest, zero = how->zero;
    const size_t size = pq_bytes_of(how->out);
    for (size_t i = 0; i < n; i++, at += step) {
        int32_t v;
        memcpy(&v, x + i * sizeof v, sizeof v);
        v += how->bias[at];
        if (how->shifts) {
            v = shifted(how, v, at);
        }
        const int64_t r = product(how, v, at), above = r > lowest ? r : lowest;
        store_code(y + i * size, size, (above < highest ? above : highest) + zero);
    }
}

static void requantize_group(const struct pq_requantize_run *how, const char *x, char *y,
                             size_t n, size_t at, size_t step)
{
    if (how->kind == PQ_REQUANTIZE_F32) {
        requantize_with(requantized_f32, how, x, y, n, at, step);
    } else if (how->kind == PQ_REQUANTIZE_TWICE) {
        requantize_with(requantized_twice, how, x, y, n, at, step);
    } else if (how->out == PQ_I32) {
        requantize_with(requantized_int32, how, x, y, n, at, step);
    } else {
        requantize_with(requantized_once, how, x, y, n, at, step);
    }
}

int PQ_NAME(requantize)(const struct pq_requantize_run *how, const void *px, void *py,
                        size_t n)
{
    const char *x = px;
    char *y = py;
    for (size_t i = 0; i < n; i++) { /* check all sums before writing */
        int32_t v;
        memcpy(&v, x + i * sizeof v, sizeof v);
        if (v + (int64_t)how->least_bias < INT32_MIN ||
            v + (int64_t)how->most_bias > INT32_MAX) {
            return 0;
        }
    }
    const size_t step = how->each != 0, size = pq_bytes_of(how->out);
    for (size_t at = 0, m; n > 0; n -= m, at += !step) {
        m = n < how->group ? n : how->group;
        requantize_group(how, x, y, m, at, step);
        x += m * sizeof(int32_t);
        y += m * size;
    }
    return 1;
}
