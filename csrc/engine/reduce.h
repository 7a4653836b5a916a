/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions: jobs that find the extrema of the elements of each parameter. The operation
 * turns the extrema into its results.
 */
#ifndef PQ_REDUCE_H
#define PQ_REDUCE_H

#include "engine/job.h"

/* Fewer groups are reduced one by one. A kernel for several groups would take longer. */
enum { PQ_FEW_GROUPS = 8 };

/* The extrema of the elements of a parameter are a cell: [0] is the lowest, [1] the
 * highest. Extrema are float64 if the data is float64, else float32. */
enum { PQ_MOST_CELLS = 512 };
union pq_cell_extrema {
    float f32[2][PQ_MOST_CELLS];
    double f64[2][PQ_MOST_CELLS];
};

/* Return the address of extremum `which` of cell `k`. */
static inline void *pq_cell_extremum(union pq_cell_extrema *of, bool is_f64, int which,
                                     size_t k)
{
    return pq_extremum(is_f64 ? (void *)of->f64[which] : of->f32[which], is_f64, k);
}

/* Extrema of `n` parameters, in contiguous arrays of float64 if the data is float64, else
 * of float32. Without elements, the lowest is +inf and the highest is -inf. */
struct pq_cells {
    size_t n;
    const void *lowest, *highest;
    char *scale, *zero; /* addresses of the results of the first parameter */
    ptrdiff_t scale_stride, zero_stride;
};

/* Turn the extrema of a row of parameters into results. */
typedef void pq_cells_fn(void *what, const struct pq_cells *cells);

/*
 * Find the extrema of one of `parts` parts of the parameters and pass them to `take`, a row
 * at a time. The strides of the arrays `scale` and `zero` define the parameters; these
 * arrays receive the results. If an element is NaN or infinite, the function returns
 * PQ_ERR_NONFINITE and does not pass the extrema of that element's parameter. With
 * `all_numbers`, infinities are accepted, and NaN makes both extrema of its parameter NaN.
 * pq_find_extrema() ignores `context`.
 */
typedef enum pq_status pq_extrema_fn(void *context, const struct pq_kernels *kernels,
                                     const struct pq_args *args, bool all_numbers,
                                     pq_cells_fn *take, void *what, int part, int parts);
extern pq_extrema_fn pq_find_extrema;

/* Like pq_choose(), with the kernels of a given instruction set. */
enum pq_status pq_choose_by(const struct pq_kernels *kernels,
                            const struct pq_choice *choice, size_t n,
                            const double *smallest, const double *largest, void *scale,
                            void *zero);

/* The size of struct pq_choice in its first version. */
enum { PQ_LEAST_CHOICE = offsetof(struct pq_choice, rule) + sizeof(enum pq_rule) };

/* Check a call that chooses parameters and accepts the options `accepted`, and complete
 * `choice` (ops/choose.c). Replace `*args` as pq_adapt_args_version() does. */
enum pq_status pq_check_choosing(const struct pq_args **args, struct pq_args *room,
                                 int accepted, struct pq_choice *choice,
                                 const struct pq_choice *given,
                                 const struct pq_kernels *kernels, int part, int parts);

/* Like pq_choose_params(), but accept the options `accepted`. `reduction` finds the
 * extrema; its first argument is `context` (ops/choose.c). */
enum pq_status pq_choose_params_by(pq_extrema_fn *reduction, void *context,
                                   const struct pq_kernels *kernels,
                                   const struct pq_args *args, int accepted,
                                   const struct pq_choice *choice, int part, int parts);

#endif
