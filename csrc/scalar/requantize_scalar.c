/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct pq_rescale in plain C, an element at a time: a block of vector words, of which
 * compilers make no vectors here, would take 20 kB.
 */
#include "kernels.h"
#include "scalar_math.h"

/* What becomes of v before it is multiplied, and its multiplier, at a place. */
static int32_t shifted(const struct pq_rescale *how, int32_t v, size_t at)
{
    const int32_t most = how->most[at];
    const int32_t capped = v < most ? v : most, bounded = capped > ~most ? capped : ~most;
    return (int32_t)((uint32_t)bounded << how->left[at]);
}

static int64_t rescaled_once(const struct pq_rescale *how, int32_t v, size_t at)
{
    const int64_t product = (int64_t)v * how->m[at];
    const int right = how->right[at];
    return how->out == PQ_I32 ? (product + (INT64_C(1) << (right - 1))) >> right
                              : ((product >> 32) + how->half[at]) >> right;
}

static int64_t rescaled_twice(const struct pq_rescale *how, int32_t v, size_t at)
{
    const int64_t product = (int64_t)v * (how->m[at] + (INT64_C(1) << 32));
    const int64_t x = (product + (INT64_C(1) << 31)) >> 32;
    return how->half[at] == 0 ? x : (((x - (x < 0)) >> how->right[at]) + 1) >> 1;
}

/* Sums with 1.5 * 2^52 have integers of less than 2^51 in their last places. */
static int64_t rescaled_f32(const struct pq_rescale *how, int32_t v, size_t at)
{
    const float product = (float)v * how->r[at];
    const double p = (double)product, lo = (double)how->lowest, hi = (double)how->highest;
    const double above = p > lo ? p : lo, bounded = above < hi ? above : hi;
    return (int64_t)(pq_bits_f64(bounded + 0x1.8p52) - pq_bits_f64(0x1.8p52));
}

static void store_code(char *y, size_t size, int64_t code)
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

int pq_scalar_rescale(const struct pq_rescale *how, const void *px, void *py, size_t n)
{
    const char *const x = px;
    char *const y = py;
    for (size_t i = 0; i < n; i++) { /* nothing is written before */
        int32_t v;
        memcpy(&v, x + i * sizeof v, sizeof v);
        if (v + (int64_t)how->least_bias < INT32_MIN ||
            v + (int64_t)how->most_bias > INT32_MAX) {
            return 0;
        }
    }
    const size_t step = how->each != 0, size = pq_bytes_of(how->out);
    for (size_t i = 0, at = 0, left = how->group; i < n; i++, left--, at += step) {
        int32_t v;
        if (left == 0) {
            at = how->each ? 0 : at + 1;
            left = how->group;
        }
        memcpy(&v, x + i * sizeof v, sizeof v);
        v += how->bias[at];
        if (how->shifts) {
            v = shifted(how, v, at);
        }
        int64_t r = how->kind == PQ_RESCALE_F32    ? rescaled_f32(how, v, at)
                    : how->kind == PQ_RESCALE_ONCE ? rescaled_once(how, v, at)
                                                   : rescaled_twice(how, v, at);
        r = r > how->lowest ? r : how->lowest;
        store_code(y + i * size, size, (r < how->highest ? r : how->highest) + how->zero);
    }
    return 1;
}
