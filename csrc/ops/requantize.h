/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of requantize share. */
#ifndef PQ_REQUANTIZE_H
#define PQ_REQUANTIZE_H

#include "engine/plan.h"
#include "kernels/kernels.h"

/* ---- multipliers and products: the definition (ops/fixed_point.c) ---- */

static inline bool pq_is_fixed(enum pq_arithmetic arithmetic)
{
    return arithmetic != PQ_ARITHMETIC_FLOAT32;
}

/* Shifts to the left of 2^-31, the others shift to the right. */
static inline bool pq_is_tflite(enum pq_arithmetic arithmetic)
{
    return arithmetic == PQ_ARITHMETIC_TFLITE || arithmetic == PQ_ARITHMETIC_TFLITE_SINGLE;
}

struct pq_fixed {
    int32_t m;
    int shift;
};

/* What `n` channels from one on, `step` apart, are multiplied by; of the arithmetics one or
 * the other. False where the arithmetic has none. */
bool pq_load_multipliers(float *r, struct pq_fixed *fixed,
                         const struct pq_requantization *args, ptrdiff_t first,
                         ptrdiff_t step, size_t n);
bool pq_have_multipliers(const struct pq_requantization *args, size_t channels);

/* The same for biases, which are 0 where none are given. */
void pq_load_biases(int64_t *to, const struct pq_channels *from, ptrdiff_t first,
                    ptrdiff_t step, size_t n);

/* a * 2^32 + b, where b is within [0, 2^32). */
struct pq_parts {
    int64_t a;
    int64_t b;
};

static inline struct pq_parts pq_parts_of(int64_t v)
{
    return (struct pq_parts){v >> 32, v & UINT32_MAX};
}

/* v - zero + bias, at an end of int64 where that cannot hold it. */
static inline int64_t pq_sum_of(int64_t v, int64_t zero, int64_t bias)
{
    const struct pq_parts x = pq_parts_of(v), y = pq_parts_of(zero), z = pq_parts_of(bias);
    const int64_t low = x.b - y.b + z.b, a = x.a - y.a + z.a + (low >> 32);
    return a > INT32_MAX   ? INT64_MAX
           : a < INT32_MIN ? INT64_MIN
                           : a * (INT64_C(1) << 32) + (low & UINT32_MAX);
}

int64_t pq_fixed_product(int64_t v, enum pq_arithmetic arithmetic, struct pq_fixed by);

/* A product in float32, within [lowest, highest], half to even. */
int64_t pq_float_product(int64_t v, float r, int64_t lowest, int64_t highest);

/* ---- parameters, a place for each channel, or element (ops/requantize_params.c) ---- */

enum {
    PQ_PARAMS = 512,      /* that are prepared at a time, and elements of a tile */
    PQ_PARAMS_BEYOND = 32 /* that kernels may read past them: the largest block */
};

/* What kernels take, and what is as given. */
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
    const struct pq_channels *lead; /* whose places in memory say which channel it is */
    struct pq_requantize_run how;   /* of the loaded_params, or of all of them */
    struct {
        ptrdiff_t first, step, count, repeat, times;
    } loaded_params;
    struct pq_requantize_params prepared;
};

/* Where the walk is among channels: index `i` of a dimension has that of its group. */
struct pq_along {
    ptrdiff_t first, step, group_size; /* of index 0, from group to group, indices to a group */
};

/* Parameters of `count` groups from `group` on, a place for each. */
void pq_load_group_params(struct pq_requantize_job *job, struct pq_along along,
                          ptrdiff_t group, ptrdiff_t count);

/* Those of `columns` elements from `column` on, a place for each, `times` over. */
void pq_load_element_params(struct pq_requantize_job *job, struct pq_along along,
                            ptrdiff_t column, ptrdiff_t columns, ptrdiff_t times);

/* Whether the `count` places from one on are of a kind, which `how` gets, and what else
 * there is to know of them all. */
void pq_summarize_params(struct pq_requantize_run *how, const struct pq_requantize_job *job,
                         size_t place, size_t count);

/* ---- the walk (ops/requantize_job.c) ---- */

/* All elements of the plan. */
void pq_requantize_all(struct pq_requantize_job *job);

#endif
