/* SPDX-License-Identifier: Apache-2.0 */
/* OpenVINO's FakeQuantize (ops/levels.c). */
#ifndef PQ_LEVELS_H
#define PQ_LEVELS_H

#include "pq.h"

/* Parameters of one element x. All parameters are finite. Each float32 operation is
 * rounded.
 *
 * If low < high, levels are from 0 to less than 2^22:
 *
 *     level = round(clip(x, low, high) * slope + shift)
 *     result = fma(level, step, first)
 *
 * Otherwise the input range is inverted or empty. `slope` is then the number of steps.
 * `shift` is the result above the larger end, and `step` is the difference of `shift` and
 * `first`:
 *
 *     level = round((x - low) / (high - low) * slope)
 *     result = first                          if x <= high, or if x is NaN
 *              shift                          if x > low
 *              level / slope * step + first   otherwise */
struct pq_level_params {
    float low, high, slope, shift, step, first;
};

/* Compute `out` from `in`. The two arrays have one real type. Elements of `scale` are
 * structs pq_level_params, although the type of `scale` is PQ_F32. float64, float16 and
 * bfloat16 elements are converted to float32 and back. Zero points and options are
 * errors. */
enum pq_status pq_fake_levels(const struct pq_kernels *kernels, const struct pq_args *args,
                              int part, int parts);

#endif
