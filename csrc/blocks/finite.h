/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PQ_BLOCKS_FINITE_H
#define PQ_BLOCKS_FINITE_H

#include "pq.h"

/* Whether what pq_block_encode, by the same arguments, would read of a part is finite when
 * it is float32: else PQ_ERR_NONFINITE. Nothing is written. */
enum pq_status pq_block_finite(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts);

#endif
