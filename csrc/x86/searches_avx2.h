/* SPDX-License-Identifier: Apache-2.0 */
/* The inline functions on vectors of scalar/searches_scalar.h in AVX2. */
#ifndef PQ_SEARCHES_AVX2_H
#define PQ_SEARCHES_AVX2_H

#include "x86/avx2.h"

typedef struct {
    f32v a, b;
} fl, ml;

#define root_f32v _mm256_sqrt_ps
#define less_f32v(x, y) _mm256_cmp_ps(x, y, _CMP_LT_OQ)
#define differ_f32v(x, y) _mm256_cmp_ps(x, y, _CMP_NEQ_UQ)
#define and_f32v _mm256_and_ps
#define and_m32v _mm256_and_ps
#define select_f32v(m, x, y) _mm256_blendv_ps(y, x, m)
#include "kernels/columns.inc"

PQ_INLINE int ml_any(ml x)
{
    return _mm256_movemask_ps(_mm256_or_ps(x.a, x.b)) != 0;
}

/* Store float32 numbers that are integers from 0 to 255 as bytes. */
PQ_INLINE void fl_store_bytes(uint8_t *p, fl x)
{
    const __m256i halves = narrow_i16v(truncate_f32v(x.a), truncate_f32v(x.b));
    store128(p, _mm_packus_epi16(_mm256_castsi256_si128(halves),
                                 _mm256_extracti128_si256(halves, 1)));
}

#endif
