/* SPDX-License-Identifier: Apache-2.0 */
/* Convert scales and zero points of any type and stride to the types of kernels. */
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

/* Load scales as float32 and zero points as int32, for kernels with float32 parameters. A
 * float64 scale is rounded to nearest, half to even. */
void pq_load_scales_f32(float *to, const struct pq_params *from, size_t n);
void pq_load_zeros_i32(int32_t *to, const struct pq_params *from, size_t n);

/* Load zero points as float32, for kernels that add zero points before rounding. */
void pq_load_zeros_f32(float *to, const struct pq_params *from, size_t n);

/* Load parameters as float64, for the general kernels. If `single` is not 0, round scales
 * to float32. */
void pq_load_scales_f64(double *to, const struct pq_params *from, size_t n, int single);
void pq_load_zeros_f64(double *to, const struct pq_params *from, size_t n);

/* Load zero points as 64-bit two's complement, for kernels of 64-bit codes. */
void pq_load_zeros_u64(uint64_t *to, const struct pq_params *from, size_t n);

struct pq_kernels;

/* Load contiguous elements of a real type, in native byte order, as float32. */
void pq_load_reals_f32(const struct pq_kernels *kernels, float *to, const void *from,
                       enum pq_type type, size_t n);

/* Load one integer. A uint64 value is returned in two's complement. */
int64_t pq_load_integer(const struct pq_params *from);

#endif
