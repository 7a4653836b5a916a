/* SPDX-License-Identifier: Apache-2.0 */
/* What elements of a group become when they are quantized and dequantized, from any one on:
 * in C order, so that they can be summed as they come. */
#ifndef PQ_MAKING_H
#define PQ_MAKING_H

#include "ops/fused.h"

struct pq_round_trip {
    struct pq_job job;
    struct pq_fused fused;
    struct pq_saturation saturation;
    int ndim; /* of a group; [0] is the innermost */
    struct pq_dim dim[PQ_MAX_NDIM];
    const char *scale, *zero; /* of the present group */
};

/* Elements of float32 or float64, as `in` of both is, in an array of the dimensions of a
 * group. What is done depends on the parameters of the whole. The arguments are checked,
 * and none is empty. */
enum pq_status pq_making_init(struct pq_round_trip *making,
                              const struct pq_kernels *kernels, const struct pq_args *whole,
                              const struct pq_args *group, enum pq_type code);

/* Make `n` elements, from number `first` of the group on. */
void pq_run_round_trip(struct pq_round_trip *making, const char *x, char *y,
                       ptrdiff_t first, ptrdiff_t n);

#endif
