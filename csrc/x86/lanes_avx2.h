/* SPDX-License-Identifier: Apache-2.0 */
/* The inline functions on vectors of scalar/lanes_scalar.h in AVX2. */
#ifndef PQ_LANES_AVX2_H
#define PQ_LANES_AVX2_H

#include "x86/avx2.h"

#define PQ_FUSED_LANES 1

typedef struct {
    f32v a;
} f8;

typedef struct {
    f64v a;
} d4;

#include "kernels/lanes.inc"

PQ_INLINE f8 f8_load_f16(const void *p)
{
    return (f8){_mm256_cvtph_ps(load128(p))};
}

/* Load four float32 as float64. A conversion from memory needs no shuffle. */
PQ_INLINE d4 d4_load_f32(const void *p)
{
    return (d4){_mm256_cvtps_pd(_mm_loadu_ps(p))};
}

PQ_INLINE double d4_sum(d4 x)
{
    const __m128d two =
        _mm_add_pd(_mm256_castpd256_pd128(x.a), _mm256_extractf128_pd(x.a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#endif
