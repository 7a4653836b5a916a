/* SPDX-License-Identifier: Apache-2.0 */
/* The words of scalar/lanes_scalar.h. The file that includes it has the intrinsics. */
#ifndef PQ_LANES_AVX2_H
#define PQ_LANES_AVX2_H

#include "pq_compiler.h"

#define PQ_FUSED_LANES 1

typedef __m256 f8;

typedef __m256d d4;

PQ_INLINE f8 f8_load(const void *p)
{
    return _mm256_loadu_ps((const float *)p);
}

PQ_INLINE f8 f8_load_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}

PQ_INLINE void f8_store(void *p, f8 x)
{
    _mm256_storeu_ps((float *)p, x);
}

PQ_INLINE f8 f8_splat(float s)
{
    return _mm256_set1_ps(s);
}

PQ_INLINE d4 d4_load(const void *p)
{
    return _mm256_loadu_pd((const double *)p);
}

PQ_INLINE void d4_store(void *p, d4 x)
{
    _mm256_storeu_pd((double *)p, x);
}

PQ_INLINE d4 d4_splat(double s)
{
    return _mm256_set1_pd(s);
}

/* Conversions from memory need no shuffle. */
PQ_INLINE d4 d4_load_f32(const void *p)
{
    return _mm256_cvtps_pd(_mm_loadu_ps((const float *)p));
}

PQ_INLINE f8 f8_add(f8 x, f8 y)
{
    return _mm256_add_ps(x, y);
}

PQ_INLINE f8 f8_subtract(f8 x, f8 y)
{
    return _mm256_sub_ps(x, y);
}

PQ_INLINE f8 f8_multiply(f8 x, f8 y)
{
    return _mm256_mul_ps(x, y);
}

PQ_INLINE f8 f8_divide(f8 x, f8 y)
{
    return _mm256_div_ps(x, y);
}

PQ_INLINE f8 f8_smaller(f8 x, f8 y)
{
    return _mm256_min_ps(x, y);
}

PQ_INLINE f8 f8_larger(f8 x, f8 y)
{
    return _mm256_max_ps(x, y);
}

/* To integers, half to even, of magnitudes up to 2^22. */
PQ_INLINE f8 f8_nearest(f8 x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* x * y + z, rounded once */
PQ_INLINE f8 f8_fused_add(f8 x, f8 y, f8 z)
{
    return _mm256_fmadd_ps(x, y, z);
}

/* z - x * y, rounded once */
PQ_INLINE f8 f8_fused_subtract(f8 x, f8 y, f8 z)
{
    return _mm256_fnmadd_ps(x, y, z);
}

PQ_INLINE d4 d4_add(d4 x, d4 y)
{
    return _mm256_add_pd(x, y);
}

PQ_INLINE d4 d4_subtract(d4 x, d4 y)
{
    return _mm256_sub_pd(x, y);
}

PQ_INLINE d4 d4_multiply(d4 x, d4 y)
{
    return _mm256_mul_pd(x, y);
}

PQ_INLINE d4 d4_larger(d4 x, d4 y)
{
    return _mm256_max_pd(x, y);
}

PQ_INLINE d4 d4_magnitude(d4 x)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
}

PQ_INLINE d4 d4_add_product(d4 x, d4 y, d4 z)
{
    return _mm256_fmadd_pd(x, y, z);
}

PQ_INLINE double d4_sum(d4 x)
{
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

#endif
