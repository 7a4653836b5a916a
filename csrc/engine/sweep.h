/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sweep reads a group of elements of an array in C order, a tile at a time. Sums need
 * this order, because the order of additions changes the result. Plans (plan.h) choose an
 * order that depends on strides.
 */
#ifndef PQ_SWEEP_H
#define PQ_SWEEP_H

#include "kernels/kernels.h"

struct pq_sweep {
    const struct pq_kernels *kernels;
    enum pq_type type;
    size_t size; /* size of an element in bytes */
    bool swapped;
    int ndim;        /* number of dimensions; [0] is the innermost */
    const char *row; /* the start of the current row of dimension 0 */
    ptrdiff_t at;    /* the next index in this row */
    ptrdiff_t extent[PQ_MAX_NDIM], stride[PQ_MAX_NDIM], index[PQ_MAX_NDIM];
};

/* Start a sweep over an array with `ndim` extents. No extent is 0. */
void pq_sweep_init(struct pq_sweep *sweep, const struct pq_kernels *kernels,
                   const struct pq_array *array, int ndim, const ptrdiff_t *extent);

/* Move the sweep to the element with this position in C order. */
void pq_sweep_seek(struct pq_sweep *sweep, ptrdiff_t position);

/* Go to the start of the next row. Return false after the last row. */
bool pq_sweep_next_row(struct pq_sweep *sweep);

/* Return the address of the next `n` elements if they are contiguous, else NULL. */
const char *pq_sweep_direct(struct pq_sweep *sweep, size_t n);

/* Read the next `n` elements of `rows` groups as float32 or float64. A group begins
 * `stride` bytes after the group before it. Return the address of the result, in the array
 * or in `room`. The result has no gaps between groups. `raw` is memory for elements before
 * conversion. */
const char *pq_sweep_load(struct pq_sweep *sweep, enum pq_type type, size_t rows,
                          ptrdiff_t stride, size_t n, void *room, void *raw);

#endif
