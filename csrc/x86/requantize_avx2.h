/* SPDX-License-Identifier: Apache-2.0 */
/* Primitives of requantize.inc in AVX2. Include <immintrin.h> before this header. */
#ifndef PQ_REQUANTIZE_AVX2_H
#define PQ_REQUANTIZE_AVX2_H

#include "x86/simd_avx2.h"

#define PQ_SUMS_SATURATE 1

typedef __m256i i64v;
#define splat_i64v _mm256_set1_epi64x

/* Copy each element at an odd index to the even index below it. */
PQ_INLINE __m256i move_odd_epi32(__m256i x)
{
    return _mm256_castps_si256(_mm256_movehdup_ps(_mm256_castsi256_ps(x)));
}

/* Join the upper halves of 64-bit products of even and of odd elements. */
PQ_INLINE __m256i join_upper_epi32(__m256i even, __m256i odd)
{
    return _mm256_blend_epi32(move_odd_epi32(even), odd, 0xaa);
}

PQ_INLINE __m256i upper_product(__m256i x, __m256i y)
{
    return join_upper_epi32(_mm256_mul_epi32(x, y),
                            _mm256_mul_epi32(move_odd_epi32(x), move_odd_epi32(y)));
}

/* Return (x * y + 2^31) >> 32 of each element. */
PQ_INLINE __m256i upper_product_rounded(__m256i x, __m256i y)
{
    const __m256i half = _mm256_set1_epi64x(INT64_C(1) << 31);
    const __m256i odd = _mm256_mul_epi32(move_odd_epi32(x), move_odd_epi32(y));
    return join_upper_epi32(_mm256_add_epi64(_mm256_mul_epi32(x, y), half),
                            _mm256_add_epi64(odd, half));
}

/* Return (x * y + 2^(n - 1)) >> n of even elements, clipped to [lo, hi], for n from 1 to
 * 62. AVX2 has no arithmetic shift of 64 bits: add 2^63 before the shift, and subtract 2^63
 * >> n afterwards. */
PQ_INLINE __m256i shifted_product(__m256i x, __m256i y, __m256i n, __m256i lo, __m256i hi)
{
    const __m256i top = _mm256_set1_epi64x(INT64_MIN), one = _mm256_set1_epi64x(1);
    const __m256i half = _mm256_srli_epi64(_mm256_sllv_epi64(one, n), 1);
    const __m256i sum =
        _mm256_add_epi64(_mm256_mul_epi32(x, y), _mm256_or_si256(half, top));
    const __m256i r =
        _mm256_sub_epi64(_mm256_srlv_epi64(sum, n), _mm256_srlv_epi64(top, n));
    const __m256i capped = _mm256_blendv_epi8(r, hi, _mm256_cmpgt_epi64(r, hi));
    return _mm256_blendv_epi8(capped, lo, _mm256_cmpgt_epi64(lo, capped));
}

PQ_INLINE __m256i shifted_products_of(__m256i x, __m256i y, __m256i n, __m256i lo,
                                      __m256i hi)
{
    const __m256i lower = _mm256_set1_epi64x(UINT32_MAX);
    const __m256i even = shifted_product(x, y, _mm256_and_si256(n, lower), lo, hi);
    const __m256i odd = shifted_product(move_odd_epi32(x), move_odd_epi32(y),
                                        _mm256_srli_epi64(n, 32), lo, hi);
    return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}

/* Return, for each lane, y if x is negative, else 0. Each lane of y is 0 or -1. */
#define sign_within(x, y) _mm256_and_si256(_mm256_srai_epi32(x, 31), y)
#define shift_right_i32v _mm256_srav_epi32
#define shift_left_i32v _mm256_sllv_epi32

/* Saturate x and y to 16 bits, add z with saturation, and halve the sums. z is twice the
 * zero point plus 1. */
PQ_INLINE __m256i halve_16(__m256i x, __m256i y, __m256i z)
{
    return _mm256_srai_epi16(_mm256_adds_epi16(_mm256_packs_epi32(x, y), z), 1);
}

PQ_INLINE void store_halved(void *p, vi r, int32_t zero, enum pq_type out)
{
    const __m256i z = _mm256_set1_epi16((int16_t)(2 * zero + 1));
    const __m256i lo = halve_16(r.a, r.b, z), hi = halve_16(r.c, r.d, z);
    store256(p, undo_pack_order(out == PQ_I8 ? _mm256_packs_epi16(lo, hi)
                                             : _mm256_packus_epi16(lo, hi)));
}

/* Return true if an element of x, read as unsigned, exceeds `limit`. */
PQ_INLINE int any_exceeds(__m256i x, uint32_t limit)
{
    const __m256i most = _mm256_set1_epi32((int32_t)limit);
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32(larger_u32v(x, most), most)) != -1;
}

#endif
