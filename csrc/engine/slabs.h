/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call cut into slabs that caches hold, for what goes over elements twice: each is a call
 * of its own, with whole groups.
 */
#ifndef PQ_SLABS_H
#define PQ_SLABS_H

#include <stdbool.h>

#include "pq.h"

/* Where `slab` begins in the whole. */
typedef enum pq_status pq_slab_fn(void *what, const struct pq_args *slab,
                                  const ptrdiff_t *first);

/*
 * Call `run` with each slab of one of `parts` shares of `args`, checked and not empty,
 * until it says something else than PQ_OK. No slab has a part of a group if `keep_groups`;
 * else elements that share parameters may be in different ones. A slab has more than
 * `bytes` of `in` where groups do. No two of them have bits of a byte of `out`.
 */
enum pq_status pq_for_slabs(const struct pq_args *args, bool keep_groups, ptrdiff_t bytes,
                            pq_slab_fn *run, void *what, int part, int parts);

#endif
