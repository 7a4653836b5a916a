/* SPDX-License-Identifier: Apache-2.0 */
/* A loop over the indices of the outer dimensions of a plan. */
#ifndef PQ_WALK_H
#define PQ_WALK_H

#include "engine/plan.h"

/* The begin of a row, or of a tile of rows: addresses in all arrays, and indices. */
struct pq_position {
    const char *in;
    char *out;
    const char *scale, *zero;
    ptrdiff_t in_code, out_code; /* indices of the first codes, in streams */
    uint64_t place;
};

/* Return the position at index `i` of `dim`. */
static inline struct pq_position pq_position_at(struct pq_position at,
                                                const struct pq_dim *dim, ptrdiff_t i)
{
    at.in += i * dim->in;
    if (at.out != NULL) {
        at.out += i * dim->out;
    }
    at.scale += pq_dim_scale(dim, i);
    at.zero += pq_dim_zero(dim, i);
    at.in_code += i * dim->in_code;
    at.out_code += i * dim->out_code;
    at.place += (uint64_t)i * dim->place;
    return at;
}

static inline struct pq_position pq_position_start(const struct pq_plan *plan)
{
    return (struct pq_position){plan->in,      plan->out, plan->scale, plan->zero,
                                plan->in_code, 0,         plan->place};
}

/* Process the inner dimensions at one position of the outer dimensions. pq_for_each_row()
 * calls `visit` for every index of the dimensions from `first` outwards. */
typedef void pq_row_fn(void *job, struct pq_position at);

static inline void pq_for_each_row(const struct pq_plan *plan, int first, pq_row_fn *visit,
                                   void *job)
{
    ptrdiff_t index[PQ_MAX_NDIM];
    struct pq_position
        start[PQ_MAX_NDIM + 1]; /* start[d]: at the indices of dims d and above */
    int d = plan->ndim;
    start[d] = pq_position_start(plan);
    for (;;) {
        while (d > first) { /* enter the inner dimensions at their first indices */
            d--;
            index[d] = plan->dim[d].begin;
            start[d] = pq_position_at(start[d + 1], &plan->dim[d], index[d]);
        }
        visit(job, start[first]);
        for (;; d++) { /* advance the innermost dimension that has an index left */
            if (d == plan->ndim) {
                return;
            }
            if (++index[d] < plan->dim[d].end) {
                start[d] = pq_position_at(start[d + 1], &plan->dim[d], index[d]);
                break;
            }
        }
    }
}

#endif
