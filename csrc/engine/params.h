/* SPDX-License-Identifier: Apache-2.0 */
/* Scales and zero points of any type and stride, converted a tile at a time. */
#ifndef PQ_PARAMS_H
#define PQ_PARAMS_H

#include "pq.h"

/* One row of parameters: element i is at data + i * stride. */
struct pq_params {
    const char *data;
    ptrdiff_t stride;
    enum pq_type type;
    int swapped;
};

/* The kernels of pairs of types take float32 and int32. A float64 scale is rounded, nearest
 * even. */
void pq_load_scales_f32(float *to, const struct pq_params *from, size_t n);
void pq_load_zeros_i32(int32_t *to, const struct pq_params *from, size_t n);

/* Kernels that add zero points to floats take float32. */
void pq_load_zeros_f32(float *to, const struct pq_params *from, size_t n);

/* The general kernels take float64; `single` rounds the scales to float32 first. */
void pq_load_scales_f64(double *to, const struct pq_params *from, size_t n, int single);
void pq_load_zeros_f64(double *to, const struct pq_params *from, size_t n);

/* Those of codes of 64 bits take integers, as two's complement. */
void pq_load_zeros_u64(uint64_t *to, const struct pq_params *from, size_t n);

/* One integer that int64 holds. */
int64_t pq_load_integer(const struct pq_params *from);

#endif
