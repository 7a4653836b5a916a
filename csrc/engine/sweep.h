/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The elements of a part of an array in C order, a piece at a time: what sums are made of,
 * which depend on the order. Plans (plan.h) have an order of their own.
 */
#ifndef PQ_SWEEP_H
#define PQ_SWEEP_H

#include "kernels/kernels.h"

struct pq_sweep {
    const struct pq_kernels *kernels;
    size_t size; /* of an element */
    bool swapped;
    int ndim;        /* [0] is the innermost */
    const char *row; /* where the present row of dimension 0 begins */
    ptrdiff_t at;    /* in it */
    ptrdiff_t extent[PQ_MAX_NDIM], stride[PQ_MAX_NDIM], index[PQ_MAX_NDIM];
};

/* The elements from `data` on, of the extents and strides of `ndim` dimensions; none is
 * empty. */
void pq_sweep_init(struct pq_sweep *sweep, const struct pq_kernels *kernels,
                   const struct pq_array *array, const char *data, int ndim,
                   const ptrdiff_t *extent, const ptrdiff_t *stride);

/* Go on with this element, counted in C order from the first. */
void pq_sweep_seek(struct pq_sweep *sweep, ptrdiff_t position);

/* The next `n` elements where they lie, or null where they do not follow each other. */
const char *pq_sweep_direct(struct pq_sweep *sweep, size_t n);

/* The next `n` elements, where they lie or in `room`. There are as many. */
const char *pq_sweep_next(struct pq_sweep *sweep, size_t n, void *room);

/* The next `n` elements, and those of parts that begin `stride` bytes apart, written to
 * rows that follow each other. */
void pq_sweep_rows(struct pq_sweep *sweep, size_t rows, ptrdiff_t stride, size_t n,
                   char *to);

#endif
