/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slabs: parts of a call that fit the caches, for operations that read elements twice. Each
 * slab is a separate call.
 */
#ifndef PQ_SLABS_H
#define PQ_SLABS_H

#include <stdbool.h>

#include "pq.h"
#include "pq_compiler.h"

/* The usual size of a slab, in bytes of input: a slab stays in the L2 cache. */
enum { PQ_SLAB_BYTES = PQ_SIZE(1 << 17, 1 << 11) };

/* Return true if the indices of dimension `d` select scales or zero points. */
static inline bool pq_selects_params(const struct pq_args *args, int d)
{
    return args->scale.strides[d] != 0 ||
           (args->zero.data != NULL && args->zero.strides[d] != 0);
}

/* Make the arrays of `slab` start at the element of `args` with the indices `first`. */
void pq_set_first_element(struct pq_args *slab, const struct pq_args *args,
                          const ptrdiff_t *first);

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
