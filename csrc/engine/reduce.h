/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions: jobs of which many elements come to one result, the extrema of those that
 * share a parameter, for what an operation makes of them.
 */
#ifndef PQ_REDUCE_H
#define PQ_REDUCE_H

#include "engine/job.h"

/* Extrema of `n` parameters, contiguous: float64 where the data is, else float32. Those of
 * no elements are infinities of the wrong sign. */
struct pq_cells {
    size_t n;
    const void *lowest, *highest;
    char *scale, *zero; /* where what is made of the first of them goes */
    ptrdiff_t scale_stride, zero_stride;
};

/* Number `k` of them. */
static inline double pq_cell_at(const void *extrema, bool wide, size_t k)
{
    return wide ? ((const double *)extrema)[k] : (double)((const float *)extrema)[k];
}

typedef void pq_cells_fn(void *what, const struct pq_cells *cells);

/*
 * Hand the extrema of one of `parts` shares of the parameters to `take`, a row at a time.
 * Where these are, and where what is made of them goes, say `scale` and `zero`. At what is
 * not finite this ends with PQ_ERR_NONFINITE, having taken nothing beside it; or if
 * `all_numbers`, infinities are numbers, and both extrema beside a NaN are NaN.
 */
enum pq_status pq_find_extrema(const struct pq_kernels *kernels, const struct pq_args *args,
                               bool all_numbers, pq_cells_fn *take, void *what, int part,
                               int parts);

/* What looks for them; `context` is its own. */
typedef enum pq_status pq_extrema_fn(void *context, const struct pq_kernels *kernels,
                                     const struct pq_args *args, bool all_numbers,
                                     pq_cells_fn *take, void *what, int part, int parts);

/* pq_choose() by the kernels of a level. */
enum pq_status pq_choose_by(const struct pq_kernels *kernels,
                            const struct pq_choice *choice, size_t n,
                            const double *smallest, const double *largest, void *scale,
                            void *zero);

/* pq_choose_params(), of extrema that `find_extrema` finds (ops/choose.c). */
enum pq_status pq_choose_params_by(pq_extrema_fn *reduction, void *context,
                                   const struct pq_kernels *kernels,
                                   const struct pq_args *args,
                                   const struct pq_choice *choice, int part, int parts);

#endif
