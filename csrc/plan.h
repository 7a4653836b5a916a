/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shape, strides, axes and blocks -> as few and as long dimensions as possible. The one
 * place that knows shapes; it knows neither element types nor CPUs.
 */
#ifndef PQ_PLAN_H
#define PQ_PLAN_H

#include <stdbool.h>

#include "pq.h"

/*
 * One dimension of the normalised iteration: indices [begin, end). Strides are bytes per
 * index, for `scale` and `zero` bytes per `block` indices. A dimension that selects no
 * parameter is uniform: both of those are 0.
 */
struct pq_dim {
    ptrdiff_t begin, end;
    ptrdiff_t in, out;
    ptrdiff_t block, scale, zero;
};

/* dim[0] is the innermost; at least two dimensions, the extra ones of one index. */
struct pq_plan {
    bool empty;
    int ndim;
    const char *in;
    char *out; /* null when nothing is written */
    const char *scale, *zero;
    struct pq_dim dim[PQ_MAX_NDIM];
};

/* Plan `args`, checked, whose out.data may be null for a reduction. `out_size` is the size
 * of an element of `out`, for telling whether its elements overlap. */
enum pq_status pq_plan_init(struct pq_plan *plan, const struct pq_args *args,
                            size_t out_size);

/* Narrow the plan to one of `parts` nearly equal shares of the work, perhaps empty. Where
 * `out` is packed, `together` elements that follow each other stay together. */
void pq_plan_part(struct pq_plan *plan, int part, int parts, int together);

static inline bool pq_dim_uniform(const struct pq_dim *dim)
{
    return dim->scale == 0 && dim->zero == 0;
}

/* Byte offset of the parameter that index `i` selects. */
static inline ptrdiff_t pq_dim_scale(const struct pq_dim *dim, ptrdiff_t i)
{
    return dim->scale == 0 ? 0 : i / dim->block * dim->scale;
}

static inline ptrdiff_t pq_dim_zero(const struct pq_dim *dim, ptrdiff_t i)
{
    return dim->zero == 0 ? 0 : i / dim->block * dim->zero;
}

#endif
