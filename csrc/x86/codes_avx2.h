/* SPDX-License-Identifier: Apache-2.0 */
/* The vector words of scalar/codes_scalar.h. The including file includes the intrinsics. */
#ifndef PQ_CODES_AVX2_H
#define PQ_CODES_AVX2_H

#include <stdint.h>

#include "pq_compiler.h"

typedef __m256i c32;

PQ_INLINE c32 c32_load(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

PQ_INLINE c32 c32_join(uint64_t x, uint64_t y, uint64_t z, uint64_t w)
{
    return _mm256_set_epi64x((long long)w, (long long)z, (long long)y, (long long)x);
}

PQ_INLINE c32 c32_splat(uint8_t s)
{
    return _mm256_set1_epi8((char)s);
}

PQ_INLINE c32 c32_nibbles(const uint8_t *p)
{
    const __m128i x = _mm_loadu_si128((const __m128i *)p);
    const __m256i both = _mm256_set_m128i(_mm_srli_epi16(x, 4), x);
    return _mm256_and_si256(both, _mm256_set1_epi8(15));
}

PQ_INLINE c32 c32_nibbles_of_8(const uint8_t *p)
{
    return _mm256_permute4x64_epi64(c32_nibbles(p), 0xd8);
}

/* Turn each byte into two 16-bit fields of 4 bits, and each field into two bytes of 2. */
PQ_INLINE c32 c32_pairs(uint64_t x)
{
    const __m256i w = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)x));
    const __m256i two = _mm256_and_si256(_mm256_or_si256(w, _mm256_slli_epi32(w, 12)),
                                         _mm256_set1_epi32(0x000f000f));
    const __m256i four = _mm256_or_si256(two, _mm256_slli_epi32(two, 6));
    return _mm256_and_si256(four, _mm256_set1_epi8(3));
}

/* Turn each 12 bits into two 16-bit fields of 6 bits, and each field into two bytes of 3.
 */
PQ_INLINE c32 c32_triples(uint64_t x, uint64_t y)
{
    const __m256i w = _mm256_cvtepu16_epi32(_mm_set_epi64x((long long)y, (long long)x));
    const __m256i two = _mm256_and_si256(_mm256_or_si256(w, _mm256_slli_epi32(w, 10)),
                                         _mm256_set1_epi32(0x003f003f));
    const __m256i four = _mm256_or_si256(two, _mm256_slli_epi32(two, 5));
    return _mm256_and_si256(four, _mm256_set1_epi8(7));
}

PQ_INLINE c32 c32_where(uint32_t bits, uint8_t value)
{
    const __m256i places =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i each = _mm256_set1_epi64x((long long)0x8040201008040201);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), places);
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, each), each);
    return _mm256_and_si256(is_set, c32_splat(value));
}

PQ_INLINE c32 c32_flip(c32 x, uint32_t bits)
{
    const __m256i mask = c32_where(bits, 0xff);
    return _mm256_sub_epi8(_mm256_xor_si256(x, mask), mask);
}

PQ_INLINE c32 c32_field(c32 x, int shift, uint8_t mask)
{
    return _mm256_and_si256(_mm256_srli_epi16(x, shift), c32_splat(mask));
}

PQ_INLINE c32 c32_shift_left(c32 x, int shift)
{
    return _mm256_slli_epi16(x, shift);
}

PQ_INLINE c32 c32_or(c32 x, c32 y)
{
    return _mm256_or_si256(x, y);
}

PQ_INLINE c32 c32_subtract(c32 x, c32 y)
{
    return _mm256_sub_epi8(x, y);
}

PQ_INLINE c32 c32_look_up(const int8_t *table, c32 x)
{
    const __m128i entries = _mm_loadu_si128((const __m128i *)table);
    return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(entries), x);
}

/* Store in ascending order, as hardware prefetchers expect: see store_f32() in
 * simd_avx2.h. */
PQ_INLINE void store_eight(char *to, __m256 x)
{
    _mm256_storeu_ps((float *)to, x);
    PQ_IN_ORDER();
}

PQ_INLINE void scale_table(float *to, const float *from, float scale)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    for (int k = 0; k < 16; k += 8) {
        const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(from + k), _mm256_set1_ps(scale));
        const __m256 is_nan = _mm256_cmp_ps(v, v, _CMP_UNORD_Q);
        _mm256_storeu_ps(to + k, _mm256_blendv_ps(v, nan, is_nan));
    }
}

/* Permutations use the lower three bits of a code. The fourth bit becomes a sign, which
 * selects the upper half of the table. */
PQ_INLINE void c32_values(char *to, const uint8_t *p, const float *table)
{
    const __m256 low = _mm256_loadu_ps(table), high = _mm256_loadu_ps(table + 8);
    for (int k = 0; k < 32; k += 8) {
        const __m256i i = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(p + k)));
        const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28));
        const __m256 l = _mm256_permutevar8x32_ps(low, i);
        const __m256 h = _mm256_permutevar8x32_ps(high, i);
        store_eight(to + 4 * k, _mm256_blendv_ps(l, h, is_high));
    }
}

/* Step from nodes of one level of the search tree to nodes of the next level. */
PQ_INLINE __m256i next_level(__m256i at, __m256 bound, __m256 x)
{
    const __m256i is_less = _mm256_castps_si256(_mm256_cmp_ps(bound, x, _CMP_LT_OQ));
    return _mm256_sub_epi32(_mm256_add_epi32(at, at), is_less);
}

/* Find the table indices of eight numbers. One register holds all bounds of a level in the
 * first four levels. */
PQ_INLINE __m256i find_eight_indices(const float *from, const float *bound, int levels)
{
    const __m256 x = _mm256_loadu_ps(from);
    const __m256 second = _mm256_broadcast_ps((const __m128 *)(bound + 2));
    const __m256 third = _mm256_broadcast_ps((const __m128 *)(bound + 4));
    __m256i at = next_level(_mm256_setzero_si256(), _mm256_broadcast_ss(bound + 1), x);
    at = next_level(at, _mm256_permutevar_ps(second, at), x);
    at = next_level(at, _mm256_permutevar_ps(third, at), x);
    at = next_level(at, _mm256_permutevar8x32_ps(_mm256_loadu_ps(bound + 8), at), x);
    for (int level = 4; level < levels; level++) {
        at = next_level(at, _mm256_i32gather_ps(bound + (1 << level), at, 4), x);
    }
    return at;
}

PQ_INLINE c32 c32_find(const float *x, const float *bound, int levels)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i lo = _mm256_packs_epi32(find_eight_indices(x, bound, levels),
                                          find_eight_indices(x + 8, bound, levels));
    const __m256i hi = _mm256_packs_epi32(find_eight_indices(x + 16, bound, levels),
                                          find_eight_indices(x + 24, bound, levels));
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(lo, hi), order);
}

/* Multiply bytes as the upper bytes of 16-bit lanes, so that the upper byte of a product is
 * the product modulo 256. */
PQ_INLINE c32 c32_trits(c32 x, c32 y)
{
    const __m256i upper = _mm256_set1_epi16((short)0xff00), three = _mm256_set1_epi16(3);
    const __m256i even = _mm256_mullo_epi16(_mm256_slli_epi16(x, 8), y);
    const __m256i odd =
        _mm256_mullo_epi16(_mm256_and_si256(x, upper), _mm256_srli_epi16(y, 8));
    const __m256i first = _mm256_mulhi_epu16(even, three);
    return _mm256_or_si256(first, _mm256_slli_epi16(_mm256_mulhi_epu16(odd, three), 8));
}

PQ_INLINE float half_value(uint16_t bits)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

PQ_INLINE __m256 eight_of(__m128i x)
{
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
}

PQ_INLINE void store_scaled(char *to, c32 x, float a, float b)
{
    const __m128i lo = _mm256_castsi256_si128(x), hi = _mm256_extracti128_si256(x, 1);
    const __m256 splat_a = _mm256_set1_ps(a), splat_b = _mm256_set1_ps(b);
    store_eight(to, _mm256_mul_ps(eight_of(lo), splat_a));
    store_eight(to + 32, _mm256_mul_ps(eight_of(_mm_unpackhi_epi64(lo, lo)), splat_a));
    store_eight(to + 64, _mm256_mul_ps(eight_of(hi), splat_b));
    store_eight(to + 96, _mm256_mul_ps(eight_of(_mm_unpackhi_epi64(hi, hi)), splat_b));
}

PQ_INLINE void store_shifted(char *to, c32 x, float a, float b, float c, float d)
{
    const __m128i lo = _mm256_castsi256_si128(x), hi = _mm256_extracti128_si256(x, 1);
    const __m256 splat_a = _mm256_set1_ps(a), splat_b = _mm256_set1_ps(b);
    const __m256 splat_c = _mm256_set1_ps(c), splat_d = _mm256_set1_ps(d);
    const __m128i lo8 = _mm_unpackhi_epi64(lo, lo), hi8 = _mm_unpackhi_epi64(hi, hi);
    store_eight(to, _mm256_fmadd_ps(eight_of(lo), splat_a, splat_c));
    store_eight(to + 32, _mm256_fmadd_ps(eight_of(lo8), splat_a, splat_c));
    store_eight(to + 64, _mm256_fmadd_ps(eight_of(hi), splat_b, splat_d));
    store_eight(to + 96, _mm256_fmadd_ps(eight_of(hi8), splat_b, splat_d));
}

PQ_INLINE void narrow_to_f16(uint16_t *to, const float *from)
{
    for (int i = 0; i < 32; i += 8) {
        const __m256 x = _mm256_loadu_ps(from + i);
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
}

/* Round to bfloat16, half to even, by an integer addition. */
PQ_INLINE __m256i bf16_bits_of(const float *from)
{
    const __m256i u = _mm256_castps_si256(_mm256_loadu_ps(from));
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
}

PQ_INLINE void narrow_to_bf16(uint16_t *to, const float *from)
{
    for (int i = 0; i < 32; i += 16) {
        const __m256i both =
            _mm256_packus_epi32(bf16_bits_of(from + i), bf16_bits_of(from + i + 8));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_permute4x64_epi64(both, 0xd8));
    }
}

/* ---- words on finite numbers ---- */

PQ_INLINE void float_ends(const float *x, int n, float *least, float *most)
{
    __m256 lo = _mm256_loadu_ps(x), hi = lo, lo8 = _mm256_loadu_ps(x + 8), hi8 = lo8;
    for (int i = 16; i < n; i += 16) {
        const __m256 a = _mm256_loadu_ps(x + i), b = _mm256_loadu_ps(x + i + 8);
        lo = _mm256_min_ps(lo, a);
        hi = _mm256_max_ps(hi, a);
        lo8 = _mm256_min_ps(lo8, b);
        hi8 = _mm256_max_ps(hi8, b);
    }
    /* Negate the minimum. Then one sequence of maxima reduces both extrema. */
    lo = _mm256_xor_ps(_mm256_min_ps(lo, lo8), _mm256_set1_ps(-0.0f));
    hi = _mm256_max_ps(hi, hi8);
    const __m128 a = _mm_max_ps(_mm256_castps256_ps128(lo), _mm256_extractf128_ps(lo, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(hi), _mm256_extractf128_ps(hi, 1));
    const __m128 two = _mm_max_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
    const __m128 one = _mm_max_ps(two, _mm_movehl_ps(two, two));
    *least = -_mm_cvtss_f32(one);
    *most = _mm_cvtss_f32(_mm_movehdup_ps(one));
}

PQ_INLINE float float_magnitude(const float *x, int n)
{
    const __m256 sign = _mm256_set1_ps(-0.0f);
    __m256 most = _mm256_andnot_ps(sign, _mm256_loadu_ps(x));
    __m256 other = _mm256_andnot_ps(sign, _mm256_loadu_ps(x + 8));
    for (int i = 16; i < n; i += 16) {
        most = _mm256_max_ps(most, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i)));
        other = _mm256_max_ps(other, _mm256_andnot_ps(sign, _mm256_loadu_ps(x + i + 8)));
    }
    most = _mm256_max_ps(most, other);
    const __m128 hi = _mm256_extractf128_ps(most, 1);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(most), hi);
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* Pack four vectors of int32 to signed bytes, with saturation. */
PQ_INLINE c32 pack_int32(__m256i a, __m256i b, __m256i c, __m256i d)
{
    const __m256i places = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    const __m256i lo = _mm256_packs_epi32(a, b), hi = _mm256_packs_epi32(c, d);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(lo, hi), places);
}

PQ_INLINE __m256i truncated(const float *x, __m256 low, __m256 i, __m256 added)
{
    const __m256 v = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(x), low), i);
    return _mm256_cvttps_epi32(_mm256_add_ps(v, added));
}

PQ_INLINE c32 c32_truncated(const float *x, float low, float i, float added)
{
    const __m256 splat_l = _mm256_set1_ps(low), splat_i = _mm256_set1_ps(i);
    const __m256 splat_a = _mm256_set1_ps(added);
    return pack_int32(truncated(x, splat_l, splat_i, splat_a),
                      truncated(x + 8, splat_l, splat_i, splat_a),
                      truncated(x + 16, splat_l, splat_i, splat_a),
                      truncated(x + 24, splat_l, splat_i, splat_a));
}

/* Round half away from zero: add the largest number below 1/2 to magnitudes below 2^22. */
PQ_INLINE __m256i rounded(const float *x, __m256 i)
{
    const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x), i);
    const __m256 sign = _mm256_and_ps(v, _mm256_set1_ps(-0.0f));
    const __m256 half = _mm256_or_ps(sign, _mm256_set1_ps(0x1.fffffep-2f));
    return _mm256_cvttps_epi32(_mm256_add_ps(v, half));
}

PQ_INLINE c32 c32_rounded(const float *x, float i)
{
    const __m256 splat_i = _mm256_set1_ps(i);
    return pack_int32(rounded(x, splat_i), rounded(x + 8, splat_i),
                      rounded(x + 16, splat_i), rounded(x + 24, splat_i));
}

PQ_INLINE __m256i nearest_codes(const float *x, __m256 i)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), i));
}

PQ_INLINE c32 c32_nearest(const float *x, float i)
{
    const __m256 splat_i = _mm256_set1_ps(i);
    return pack_int32(nearest_codes(x, splat_i), nearest_codes(x + 8, splat_i),
                      nearest_codes(x + 16, splat_i), nearest_codes(x + 24, splat_i));
}

PQ_INLINE __m256i rounded_up(const float *x, __m256 by)
{
    const __m256 mag = _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x));
    const __m256 q = _mm256_min_ps(_mm256_div_ps(mag, by), _mm256_set1_ps(32));
    return _mm256_cvttps_epi32(_mm256_ceil_ps(q));
}

PQ_INLINE c32 c32_rounded_up(const float *x, float a, float b)
{
    const __m256 splat_a = _mm256_set1_ps(a), splat_b = _mm256_set1_ps(b);
    return pack_int32(rounded_up(x, splat_a), rounded_up(x + 8, splat_a),
                      rounded_up(x + 16, splat_b), rounded_up(x + 24, splat_b));
}

/* Return the bits of numbers as int32, which keep the signs. -0 becomes 0. */
PQ_INLINE __m256i normalize_zeros(const float *x)
{
    return _mm256_castps_si256(_mm256_add_ps(_mm256_loadu_ps(x), _mm256_setzero_ps()));
}

PQ_INLINE c32 c32_signs(const float *x)
{
    return pack_int32(normalize_zeros(x), normalize_zeros(x + 8), normalize_zeros(x + 16),
                      normalize_zeros(x + 24));
}

PQ_INLINE uint16_t half_bits(float v)
{
    const __m128i h = _mm_cvtps_ph(_mm_set_ss(v), _MM_FROUND_TO_NEAREST_INT);
    return (uint16_t)_mm_cvtsi128_si32(h);
}

/* ---- storing codes ---- */

PQ_INLINE void c32_store(uint8_t *p, c32 x)
{
    _mm256_storeu_si256((__m256i *)p, x);
}

PQ_INLINE void c32_put_nibbles(uint8_t *p, c32 x)
{
    const __m128i hi = _mm_slli_epi16(_mm256_extracti128_si256(x, 1), 4);
    _mm_storeu_si128((__m128i *)p, _mm_or_si128(_mm256_castsi256_si128(x), hi));
}

/* Join two adjacent codes to 4 bits, and two of these to a byte. */
PQ_INLINE uint64_t c32_joined_pairs(c32 x)
{
    const __m256i two = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x0401));
    const __m256i four = _mm256_madd_epi16(two, _mm256_set1_epi32(0x00100001));
    const __m128i lo = _mm256_castsi256_si128(four), hi = _mm256_extracti128_si256(four, 1);
    const __m128i words = _mm_packs_epi32(lo, hi);
    return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(words, words));
}

PQ_INLINE c32 c32_exchange(c32 x)
{
    return _mm256_permute4x64_epi64(x, 0xd8);
}

PQ_INLINE uint32_t c32_top_bits(c32 x)
{
    return (uint32_t)_mm256_movemask_epi8(x);
}

PQ_INLINE c32 c32_add(c32 x, c32 y)
{
    return _mm256_add_epi8(x, y);
}

PQ_INLINE c32 c32_smaller(c32 x, c32 y)
{
    return _mm256_min_epu8(x, y);
}

/* Add 128 to signed codes. The instruction then sums 8 unsigned bytes at a time. */
PQ_INLINE void c32_sums(c32 x, int sums[2])
{
    const __m256i eights = _mm256_sad_epu8(_mm256_xor_si256(x, _mm256_set1_epi8(-128)),
                                           _mm256_setzero_si256());
    const __m256i both = _mm256_add_epi32(eights, _mm256_srli_si256(eights, 8));
    sums[0] = _mm256_cvtsi256_si32(both) - 16 * 128;
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(both, 1)) - 16 * 128;
}

/* Return floor((13 x + 242) / 243). Added to x, it is the fraction of c32_fraction(). For
 * bytes x, the product with 270 / 2^16 has an equal integer part. */
PQ_INLINE __m256i fraction_excess(__m256i x)
{
    const __m256i m = _mm256_mullo_epi16(x, _mm256_set1_epi16(13));
    const __m256i above = _mm256_add_epi16(m, _mm256_set1_epi16(242));
    return _mm256_mulhi_epu16(above, _mm256_set1_epi16(270));
}

PQ_INLINE c32 c32_fraction(c32 x)
{
    const __m256i even = fraction_excess(_mm256_and_si256(x, _mm256_set1_epi16(0xff)));
    const __m256i odd = fraction_excess(_mm256_srli_epi16(x, 8));
    return _mm256_add_epi8(x, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

#endif
