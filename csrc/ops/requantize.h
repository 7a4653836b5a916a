/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations for the files of requantize: arithmetic, parameters and kernel calls. */
#ifndef PQ_REQUANTIZE_H
#define PQ_REQUANTIZE_H

#include "engine/job.h"

/* ---- exact multipliers and products (ops/fixed_point.c) ---- */

enum { PQ_CHANNELS = PQ_SIZE(64, 8) }; /* channels to load together */

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

/* Load the multipliers of at most PQ_CHANNELS channels: every `step`th from `first`. Return
 * false if the arithmetic cannot represent a multiplier. */
bool pq_load_multipliers(struct pq_multiplier *to, const struct pq_requantization *args,
                         ptrdiff_t first, ptrdiff_t step, size_t n);

/* Load the biases of at most PQ_CHANNELS channels, or zeros if the call has no bias. */
void pq_load_biases(int64_t *to, const struct pq_channels *of, ptrdiff_t first,
                    ptrdiff_t step, size_t n);

/* The number a * 2^32 + b, with b in [0, 2^32). */
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

/* Return the rounded product. Saturate float32 products to [lowest, highest], and integer
 * products near the limits of int64. */
int64_t pq_rounded_product(int64_t v, enum pq_arithmetic arithmetic,
                           const struct pq_multiplier *by, int64_t lowest, int64_t highest);

/* ---- parameters of kernels (ops/requantize_params.c) ---- */

/* The range of loaded parameters. */
struct pq_requantize_range {
    int32_t lowest_down, highest_down;
    int32_t least_bias, most_bias; /* at most 0; at least 0 */
    bool grows;                    /* an `r` is 1 or more */
    bool is_uneven;                /* a doubled multiplier is neither 0 nor at least 2^31 */
};

#define PQ_NO_REQUANTIZE_RANGE                                                             \
    (struct pq_requantize_range)                                                           \
    {                                                                                      \
        INT32_MAX, INT32_MIN, 0, 0, false, false                                           \
    }

struct pq_requantization_job {
    const struct pq_kernels *kernels;
    const struct pq_requantization *args;
    const struct pq_channels *lead; /* its addresses identify channels; null: one channel */
    struct pq_requantize_run how;   /* options of kernels */
    struct pq_requantize_range range;
};

/* Return the channel of an address of the plan. */
static inline ptrdiff_t pq_channel_of(const struct pq_requantization_job *call,
                                      const char *at)
{
    const struct pq_channels *const lead = call->lead;
    return lead == NULL ? 0 : (at - (const char *)lead->data) / lead->stride;
}

/* Load parameters to the tiles of scales (`r` or `m`), zero points (`bias`) and offsets
 * (`down`). */
extern pq_load_fn pq_load_requantize_params;

/* Add parameters to a range. */
void pq_note_requantize_params(struct pq_requantize_range *range, int32_t m, int32_t down,
                               int32_t bias);

/* Choose the kind of kernel for the parameters of a range. */
void pq_set_requantize_kind(struct pq_requantize_run *how,
                            const struct pq_requantize_range *range);

/* Return the multiplier of a place. */
struct pq_multiplier pq_multiplier_at(const struct pq_requantize_run *how, size_t place);

/* ---- kernel calls (ops/requantize_job.c) ---- */

/* Requantize a run. If no kernel can compute a part of it, apply the definition. */
extern pq_kernel_fn pq_requantize_lines;

/* Requantize one element by the definition, also with a bias beyond int32. */
extern pq_row_fn pq_requantize_element;

#endif
