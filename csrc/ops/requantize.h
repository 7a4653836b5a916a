/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations for the files of requantize: arithmetic, parameters and jobs. */
#ifndef PQ_REQUANTIZE_H
#define PQ_REQUANTIZE_H

#include "engine/plan.h"
#include "kernels/kernels.h"

/* ---- exact multipliers and products (ops/fixed_point.c) ---- */

static inline bool pq_is_fixed(enum pq_arithmetic arithmetic)
{
    return arithmetic != PQ_ARITHMETIC_FLOAT32;
}

/* Return true for TFLite. Its shifts go left, from 2^-31; other shifts go right. */
static inline bool pq_is_tflite(enum pq_arithmetic arithmetic)
{
    return arithmetic == PQ_ARITHMETIC_TFLITE || arithmetic == PQ_ARITHMETIC_TFLITE_SINGLE;
}

/* An integer multiplier and its shift. */
struct pq_fixed {
    int32_t m;
    int shift;
};

/* Load the multipliers of `n` channels from `first`, `step` apart: `r` for float32, `fixed`
 * for integer arithmetic. Return false if the arithmetic cannot represent a multiplier. */
bool pq_load_multipliers(float *r, struct pq_fixed *fixed,
                         const struct pq_requantization *args, ptrdiff_t first,
                         ptrdiff_t step, size_t n);

/* Return true if the arithmetic can represent the multipliers of all channels. */
bool pq_have_multipliers(const struct pq_requantization *args, size_t channels);

/* Load biases, or zeros if the call has no bias. */
void pq_load_biases(int64_t *to, const struct pq_channels *from, ptrdiff_t first,
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

/* Return the rounded product of integer arithmetic. */
int64_t pq_fixed_product(int64_t v, enum pq_arithmetic arithmetic, struct pq_fixed by);

/* Return a float32 product, rounded half to even and saturated to [lowest, highest]. */
int64_t pq_float_product(int64_t v, float r, int64_t lowest, int64_t highest);

/* ---- parameters of channels or elements (ops/requantize_params.c) ---- */

enum {
    PQ_PARAMS = PQ_SIZE(512, 64), /* places of parameters, and elements of a tile */
    PQ_PARAMS_BEYOND = 32 /* places that kernels may read after them: the largest chunk */
};

/* Parameters of kernels, and parameters of the call (`given_bias`, `given`). */
struct pq_requantize_params {
    float r[PQ_PARAMS + PQ_PARAMS_BEYOND];
    int32_t bias[PQ_PARAMS + PQ_PARAMS_BEYOND];
    int32_t most[PQ_PARAMS + PQ_PARAMS_BEYOND], left[PQ_PARAMS + PQ_PARAMS_BEYOND];
    int32_t m[PQ_PARAMS + PQ_PARAMS_BEYOND];
    int32_t half[PQ_PARAMS + PQ_PARAMS_BEYOND], right[PQ_PARAMS + PQ_PARAMS_BEYOND];
    int64_t given_bias[PQ_PARAMS];
    struct pq_fixed given[PQ_PARAMS];
    unsigned char kind[PQ_PARAMS];
};

struct pq_requantize_job {
    const struct pq_kernels *kernels;
    const struct pq_requantization *args;
    struct pq_plan plan;
    const struct pq_channels *lead; /* its addresses identify channels */
    struct pq_requantize_run how;   /* options and summary of the loaded parameters */
    struct {
        ptrdiff_t first, step, count, repeat, times;
    } loaded_params;
    struct pq_requantize_params prepared;
};

/* The channels along a dimension, one for each group of indices. */
struct pq_along {
    ptrdiff_t first, step; /* channel of index 0; distance of channels between groups */
    ptrdiff_t group_size;  /* indices in a group */
};

/* Load the parameters of `count` groups from `group`, one place for each group. */
void pq_load_group_params(struct pq_requantize_job *job, struct pq_along along,
                          ptrdiff_t group, ptrdiff_t count);

/* Load the parameters of `columns` elements from `column`, one place for each element, and
 * repeat them `times` times. */
void pq_load_element_params(struct pq_requantize_job *job, struct pq_along along,
                            ptrdiff_t column, ptrdiff_t columns, ptrdiff_t times);

/* Summarize `count` places from `place` in `how`: their kind if it is equal, the range of
 * biases, and the kinds of shifts. */
void pq_summarize_params(struct pq_requantize_run *how, const struct pq_requantize_job *job,
                         size_t place, size_t count);

/* ---- jobs (ops/requantize_job.c) ---- */

/* Requantize all elements of the plan. */
void pq_requantize_all(struct pq_requantize_job *job);

#endif
