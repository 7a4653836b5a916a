/* SPDX-License-Identifier: Apache-2.0 */
/* Scales and zero points of any type and stride, converted a tile at a time. */
#ifndef PQ_PARAMS_H
#define PQ_PARAMS_H

#include "pq.h"

/* A row of parameters: element i is at data + i * stride bytes. */
struct pq_params {
    const char *data;
    ptrdiff_t stride;
    enum pq_type type;
    int swapped;
};

/* Load float32 scales and int32 zero points, for the kernels of type pairs. A float64 scale
 * is rounded to nearest, half to even. */
void pq_load_scales_f32(float *to, const struct pq_params *from, size_t n);
void pq_load_zeros_i32(int32_t *to, const struct pq_params *from, size_t n);

/* Load float32 zero points, for kernels that add zero points before rounding. */
void pq_load_zeros_f32(float *to, const struct pq_params *from, size_t n);

/* Load float64 parameters, for the general kernels. `single` rounds scales to float32
 * first. */
void pq_load_scales_f64(double *to, const struct pq_params *from, size_t n, int single);
void pq_load_zeros_f64(double *to, const struct pq_params *from, size_t n);

/* Load zero points in two's complement, for kernels of 64-bit codes. */
void pq_load_zeros_u64(uint64_t *to, const struct pq_params *from, size_t n);

/* Load contiguous elements of a real type as float32, in native byte order. */
struct pq_kernels;
void pq_load_reals_f32(const struct pq_kernels *kernels, float *to, const void *from,
                       enum pq_type type, size_t n);

/* Load one integer. The value must fit int64. */
int64_t pq_load_integer(const struct pq_params *from);

#endif
