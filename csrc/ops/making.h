/* SPDX-License-Identifier: Apache-2.0 */
/* Quantize and dequantize elements of a group in C order, from any element on. Sums need
 * this order. */
#ifndef PQ_MAKING_H
#define PQ_MAKING_H

#include "ops/fused.h"

struct pq_round_trip {
    struct pq_job job;
    struct pq_fused fused;
    struct pq_saturation saturation;
    int ndim; /* dimensions of a group; [0] is the innermost */
    struct pq_dim dim[PQ_MAX_NDIM];
    const char *scale, *zero; /* parameters of the current group */
};

/* Prepare round trips of float32 or float64 elements with the dimensions of a group. The
 * method depends on all parameters, in `whole`. The arguments are checked and not empty. */
enum pq_status pq_making_init(struct pq_round_trip *making,
                              const struct pq_kernels *kernels, const struct pq_args *whole,
                              const struct pq_args *group, enum pq_type code);

/* Write `n` results, from element `first` of the group on. */
void pq_run_round_trip(struct pq_round_trip *making, const char *x, char *y,
                       ptrdiff_t first, ptrdiff_t n);

#endif
