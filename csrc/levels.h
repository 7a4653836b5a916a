/* SPDX-License-Identifier: Apache-2.0 */
/* FakeQuantize by ranges, as OpenVINO has it (ops/levels.c). */
#ifndef PQ_LEVELS_H
#define PQ_LEVELS_H

#include "pq.h"

/*
 * What becomes of a float32 between two numbers: it is brought to within [low, high], and
 * fma(round(it * slope + shift), step, first) is the result, the product and the sum
 * rounded one after the other.
 */
struct pq_level_params {
    float low, high, slope, shift, step, first;
};

/* Float32 `in` to float32 `out`, with such parameters for `scale`: six float32 that follow
 * each other at each of its places, all finite, of levels from 0 to less than 2^22. `zero`
 * is not looked at, and no options are. */
enum pq_status pq_fake_levels(const struct pq_kernels *kernels, const struct pq_args *args,
                              int part, int parts);

#endif
