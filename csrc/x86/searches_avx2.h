/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector words of search_blocks.inc: see scalar/searches_scalar.h. Two vectors hide the
 * latency of sums. The file that includes this header has the intrinsics.
 */
#ifndef PQ_SEARCHES_AVX2_H
#define PQ_SEARCHES_AVX2_H

#include <stdint.h>

#include "pq_compiler.h"

enum { LANES = 16 };

typedef struct {
    __m256 a, b;
} fl, ml;

PQ_INLINE fl fl_splat(float s)
{
    return (fl){_mm256_set1_ps(s), _mm256_set1_ps(s)};
}

PQ_INLINE fl fl_load(const float *p)
{
    return (fl){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}

PQ_INLINE void fl_store(float *p, fl x)
{
    _mm256_storeu_ps(p, x.a);
    _mm256_storeu_ps(p + 8, x.b);
}

#define BINARY(name, type, word)                                                           \
    PQ_INLINE type name(fl x, fl y)                                                        \
    {                                                                                      \
        return (type){word(x.a, y.a), word(x.b, y.b)};                                     \
    }
#define LESS(x, y) _mm256_cmp_ps(x, y, _CMP_LT_OQ)
#define DIFFER(x, y) _mm256_cmp_ps(x, y, _CMP_NEQ_UQ)
BINARY(fl_add, fl, _mm256_add_ps)
BINARY(fl_subtract, fl, _mm256_sub_ps)
BINARY(fl_multiply, fl, _mm256_mul_ps)
BINARY(fl_divide, fl, _mm256_div_ps)
BINARY(fl_smaller, fl, _mm256_min_ps)
BINARY(fl_larger, fl, _mm256_max_ps)
BINARY(fl_less, ml, LESS)
BINARY(fl_differ, ml, DIFFER)
#undef BINARY
#undef LESS
#undef DIFFER

PQ_INLINE fl fl_root(fl x)
{
    return (fl){_mm256_sqrt_ps(x.a), _mm256_sqrt_ps(x.b)};
}

PQ_INLINE fl fl_rounded(fl x)
{
    enum { EVEN = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    return (fl){_mm256_round_ps(x.a, EVEN), _mm256_round_ps(x.b, EVEN)};
}

PQ_INLINE fl fl_masked(fl x, uint32_t kept, uint32_t set)
{
    const __m256 k = _mm256_castsi256_ps(_mm256_set1_epi32((int)kept));
    const __m256 s = _mm256_castsi256_ps(_mm256_set1_epi32((int)set));
    return (fl){_mm256_or_ps(_mm256_and_ps(x.a, k), s),
                _mm256_or_ps(_mm256_and_ps(x.b, k), s)};
}

PQ_INLINE ml ml_and(ml x, ml y)
{
    return (ml){_mm256_and_ps(x.a, y.a), _mm256_and_ps(x.b, y.b)};
}

PQ_INLINE int ml_any(ml x)
{
    return _mm256_movemask_ps(_mm256_or_ps(x.a, x.b)) != 0;
}

PQ_INLINE fl fl_select(ml m, fl x, fl y)
{
    return (fl){_mm256_blendv_ps(y.a, x.a, m.a), _mm256_blendv_ps(y.b, x.b, m.b)};
}

/* Store integers as bytes. */
PQ_INLINE void fl_store_bytes(uint8_t *p, fl x)
{
    const __m256i a = _mm256_cvttps_epi32(x.a), b = _mm256_cvttps_epi32(x.b);
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);
    _mm_storeu_si128((__m128i *)p, _mm_packus_epi16(_mm256_castsi256_si128(halves),
                                                    _mm256_extracti128_si256(halves, 1)));
}

#endif
