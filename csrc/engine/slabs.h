/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box is a part of a call with a range of indices along each dimension. A slab is a box
 * that fits in the caches, for operations that read elements twice. Each slab is processed
 * by a separate call.
 */
#ifndef PQ_SLABS_H
#define PQ_SLABS_H

#include <stdbool.h>

#include "pq.h"
#include "pq_compiler.h"

/* The usual number of input bytes in a slab, so that a slab stays in the L2 cache. */
enum { PQ_SLAB_BYTES = PQ_SIZE(1 << 17, 1 << 11) };

/* Return true if the indices of dimension `d` select scales, zero points or offsets. */
static inline bool pq_selects_params(const struct pq_args *args, int d)
{
    return args->scale.strides[d] != 0 ||
           (args->zero.data != NULL && args->zero.strides[d] != 0) ||
           (args->offset.data != NULL && args->offset.strides[d] != 0);
}

/* Make the arrays of `slab` start at the element of `args` with the indices `first`. */
void pq_set_first_element(struct pq_args *slab, const struct pq_args *args,
                          const ptrdiff_t *first);

/* The division of the elements of a call into boxes, and the current box. */
struct pq_boxes {
    ptrdiff_t step[PQ_MAX_NDIM];  /* largest extent of a box along each dimension */
    ptrdiff_t count[PQ_MAX_NDIM]; /* number of boxes along each dimension */
    ptrdiff_t all;                /* number of all boxes */
    ptrdiff_t first[PQ_MAX_NDIM]; /* the first element of the current box */
    ptrdiff_t shape[PQ_MAX_NDIM]; /* the shape of the current box */
    struct pq_args box;           /* the call, restricted to the current box */
};

/* Set `count` and `all` from `step`, which the caller has set. The call is not empty. */
void pq_init_boxes(struct pq_boxes *boxes, const struct pq_args *args);

/* Make box `number` in C order the current box, and return the number of its elements. */
ptrdiff_t pq_enter_box(struct pq_boxes *boxes, const struct pq_args *args,
                       ptrdiff_t number);

/* Process one slab. `first` has the indices of its first element in the complete arrays. */
typedef enum pq_status pq_slab_fn(void *what, const struct pq_args *slab,
                                  const ptrdiff_t *first);

/*
 * Call `run` with each slab of one of `parts` parts of `args`, which is checked and not
 * empty. Stop and return the status if `run` does not return PQ_OK. A slab reads at most
 * `bytes` of `in`, unless a unit that must stay in one slab is larger. With `keep_groups`,
 * no group is divided between slabs. No two slabs write to one byte of `out`.
 */
enum pq_status pq_for_slabs(const struct pq_args *args, bool keep_groups, ptrdiff_t bytes,
                            pq_slab_fn *run, void *what, int part, int parts);

#endif
