/* SPDX-License-Identifier: Apache-2.0 */
/* Exact multipliers and products of requantize (ops/fixed_point.c). */
#ifndef PQ_REQUANTIZE_H
#define PQ_REQUANTIZE_H

#include "types.h"

enum { PQ_CHANNELS = PQ_SIZE(64, 8) }; /* maximum number of channels loaded together */

/* A multiplier: `r` for float32, m * 2^-shift for integer arithmetic. */
struct pq_multiplier {
    float r;
    int32_t m;
    int shift;
};

static inline bool pq_is_fixed(enum pq_arithmetic arithmetic)
{
    return arithmetic != PQ_ARITHMETIC_FLOAT32;
}

/* Load the multipliers of at most PQ_CHANNELS channels: first, first + step and so on.
 * Return false if the arithmetic cannot represent a multiplier. */
bool pq_load_multipliers(struct pq_multiplier *to, const struct pq_requantization *args,
                         ptrdiff_t first, ptrdiff_t step, size_t n);

/* Load the integers of at most PQ_CHANNELS channels. If the array is null, write zeros. */
void pq_load_channels(int64_t *to, const struct pq_channels *of, ptrdiff_t first,
                      ptrdiff_t step, size_t n);

/* The number a * 2^32 + b. b is at least 0 and below 2^32. */
struct pq_parts {
    int64_t a;
    int64_t b;
};

static inline struct pq_parts pq_parts_of(int64_t v)
{
    return (struct pq_parts){v >> 32, v & UINT32_MAX};
}

/* Return v - zero + bias, saturated to int64. */
static inline int64_t pq_sum_of(int64_t v, int64_t zero, int64_t bias)
{
    const struct pq_parts x = pq_parts_of(v), y = pq_parts_of(zero), z = pq_parts_of(bias);
    const int64_t low = x.b - y.b + z.b, a = x.a - y.a + z.a + (low >> 32);
    return a > INT32_MAX   ? INT64_MAX
           : a < INT32_MIN ? INT64_MIN
                           : a * (INT64_C(1) << 32) + (low & UINT32_MAX);
}

/* Return the rounded product of `v` and a multiplier. Saturate float32 products to [lowest,
 * highest]. Saturate integer products close to the limits of int64. */
int64_t pq_rounded_product(int64_t v, enum pq_arithmetic arithmetic,
                           const struct pq_multiplier *by, int64_t lowest, int64_t highest);

#endif
