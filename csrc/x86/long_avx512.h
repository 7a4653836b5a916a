/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that quantize long groups with 512-bit registers. */
#ifndef PQ_LONG_AVX512_H
#define PQ_LONG_AVX512_H

#include "kernels/kernels.h"

/* Quantize `n` elements of one group. For options or scales that the function does not
 * support, write nothing and return 0. Else return 1. */
typedef int pq_long_fn(const struct pq_run *run, const char *x, char *y, size_t n);

#define PQ_PAIR(real, code) pq_long_fn pq_long_quantize_##real##_##code;
PQ_FOR_CODE_PAIR
#undef PQ_PAIR
pq_long_fn pq_long_encode_F32, pq_long_encode_F16, pq_long_encode_BF16,
    pq_long_quantize_general, pq_long_quantize_affine;

#endif
