/* SPDX-License-Identifier: Apache-2.0 */
/* The inline functions on vectors of scalar/codes_scalar.h in AVX2. Include <immintrin.h>
 * before this header. */
#ifndef PQ_CODES_AVX2_H
#define PQ_CODES_AVX2_H

#include "x86/avx2.h"

typedef struct {
    vb a;
} c32;

/* Shifts of 16-bit lanes move bits into the neighbouring byte. Callers clear these bits by
 * a mask. */
#define shift_left_u8v _mm256_slli_epi16
#define shift_right_u8v _mm256_srli_epi16
#define load_table(table) _mm256_broadcastsi128_si256(load128(table))
#define look_up_u8v(x, entries) _mm256_shuffle_epi8(entries, x)
#define up_i32v(q) truncate_f32v(_mm256_ceil_ps(q))
#define sign_codes(v) bits_f32v(add_f32v(v, splat_f32v(0))) /* -0 becomes 0 */
#define FOR_FLOAT_VECTORS(f) f(0) f(1) f(2) f(3)

PQ_INLINE c32 c32_of_words(uint64_t x, uint64_t y, uint64_t z, uint64_t w)
{
    return (c32){_mm256_set_epi64x((long long)w, (long long)z, (long long)y, (long long)x)};
}

PQ_INLINE c32 c32_nibbles(const uint8_t *p)
{
    const __m128i x = load128(p);
    const __m256i both = _mm256_set_m128i(_mm_srli_epi16(x, 4), x);
    return (c32){_mm256_and_si256(both, _mm256_set1_epi8(15))};
}

PQ_INLINE c32 c32_pairs(uint64_t x)
{
    const __m256i fields = fields_of_2_bits(_mm_cvtsi64_si128((long long)x));
    return (c32){_mm256_and_si256(fields, _mm256_set1_epi8(3))};
}

/* Unpack 3-bit codes to bytes. Split 12 bits into two fields of 6 bits, in 16 bits each.
 * Then split each field into two codes, in one byte each. */
PQ_INLINE c32 c32_triples(uint64_t x, uint64_t y)
{
    const __m256i w = _mm256_cvtepu16_epi32(_mm_set_epi64x((long long)y, (long long)x));
    const __m256i two = _mm256_and_si256(_mm256_or_si256(w, _mm256_slli_epi32(w, 10)),
                                         _mm256_set1_epi32(0x003f003f));
    const __m256i four = _mm256_or_si256(two, _mm256_slli_epi32(two, 5));
    return (c32){_mm256_and_si256(four, _mm256_set1_epi8(7))};
}

PQ_INLINE c32 c32_where(uint32_t bits, uint8_t value)
{
    const __m256i places =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i each = _mm256_set1_epi64x((long long)0x8040201008040201);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32((int)bits), places);
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, each), each);
    return (c32){_mm256_and_si256(is_set, splat_u8v(value))};
}

/* Store the table entries of 32 codes. Permutations use the lower three bits of a code.
 * The fourth bit becomes a sign, which selects the upper half of the table. */
PQ_INLINE void c32_store_entries(char *to, const uint8_t *p, const float *table)
{
    const __m256 low = _mm256_loadu_ps(table), high = _mm256_loadu_ps(table + 8);
    for (int k = 0; k < 32; k += 8) {
        const __m256i i = _mm256_cvtepu8_epi32(load64(p + k));
        const __m256 is_high = _mm256_castsi256_ps(_mm256_slli_epi32(i, 28));
        const __m256 l = _mm256_permutevar8x32_ps(low, i);
        const __m256 h = _mm256_permutevar8x32_ps(high, i);
        _mm256_storeu_ps((float *)(void *)to + k, _mm256_blendv_ps(l, h, is_high));
        PQ_KEEP_ORDER();
    }
}

/* Step from nodes of one level of the search tree to nodes of the next level. */
PQ_INLINE __m256i step_down_tree(__m256i at, __m256 bound, __m256 x)
{
    const __m256i is_less = _mm256_castps_si256(_mm256_cmp_ps(bound, x, _CMP_LT_OQ));
    return _mm256_sub_epi32(_mm256_add_epi32(at, at), is_less);
}

/* Find the table indices of eight numbers. In the first four levels, one register holds
 * all bounds of a level. */
PQ_INLINE __m256i find_eight_indices(const float *from, const float *bound, int tree_depth)
{
    const __m256 x = _mm256_loadu_ps(from);
    const __m256 second = _mm256_broadcast_ps((const __m128 *)(bound + 2));
    const __m256 third = _mm256_broadcast_ps((const __m128 *)(bound + 4));
    __m256i at = step_down_tree(_mm256_setzero_si256(), _mm256_broadcast_ss(bound + 1), x);
    at = step_down_tree(at, _mm256_permutevar_ps(second, at), x);
    at = step_down_tree(at, _mm256_permutevar_ps(third, at), x);
    at = step_down_tree(at, _mm256_permutevar8x32_ps(_mm256_loadu_ps(bound + 8), at), x);
    for (int level = 4; level < tree_depth; level++) {
        at = step_down_tree(at, _mm256_i32gather_ps(bound + (1 << level), at, 4), x);
    }
    return at;
}

PQ_INLINE c32 c32_find_codes(const float *x, const float *bound, int tree_depth)
{
    const __m256i lo = _mm256_packs_epi32(find_eight_indices(x, bound, tree_depth),
                                          find_eight_indices(x + 8, bound, tree_depth));
    const __m256i hi = _mm256_packs_epi32(find_eight_indices(x + 16, bound, tree_depth),
                                          find_eight_indices(x + 24, bound, tree_depth));
    return (c32){undo_pack_order(_mm256_packus_epi16(lo, hi))};
}

PQ_INLINE float half_to_f32(uint16_t bits)
{
    return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

PQ_INLINE uint16_t f32_to_half(float v)
{
    const __m128i h = _mm_cvtps_ph(_mm_set_ss(v), _MM_FROUND_TO_NEAREST_INT);
    return (uint16_t)_mm_cvtsi128_si32(h);
}

/* ---- storing codes ---- */

PQ_INLINE void c32_put_nibbles(uint8_t *p, c32 x)
{
    const __m128i hi = _mm_slli_epi16(_mm256_extracti128_si256(x.a, 1), 4);
    store128(p, _mm_or_si128(_mm256_castsi256_si128(x.a), hi));
}

PQ_INLINE uint64_t c32_joined_pairs(c32 x)
{
    const __m256i four = join_fields_of_2_bits(x.a);
    const __m128i lo = _mm256_castsi256_si128(four), hi = _mm256_extracti128_si256(four, 1);
    const __m128i words = _mm_packs_epi32(lo, hi);
    return (uint64_t)_mm_cvtsi128_si64(_mm_packus_epi16(words, words));
}

PQ_INLINE c32 c32_swap_middle(c32 x)
{
    return (c32){IN_ORDER16(x.a)};
}

PQ_INLINE uint32_t c32_top_bits(c32 x)
{
    return (uint32_t)_mm256_movemask_epi8(x.a);
}

/* Store the sum of the first 16 signed codes, and the sum of the last 16. Add 128 to each
 * code, because the instruction sums 8 unsigned bytes at a time. */
PQ_INLINE void c32_sum_halves(c32 x, int sums[2])
{
    const __m256i eights = _mm256_sad_epu8(_mm256_xor_si256(x.a, _mm256_set1_epi8(-128)),
                                           _mm256_setzero_si256());
    const __m256i both = _mm256_add_epi32(eights, _mm256_srli_si256(eights, 8));
    sums[0] = _mm256_cvtsi256_si32(both) - 16 * 128;
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(both, 1)) - 16 * 128;
}

/* Return floor((13 x + 242) / 243), which base_3_fraction_u8v() adds to x. For x up to 242
 * (five base-3 digits), the integer part of (13 x + 242) * 270 / 2^16 equals the floor. */
PQ_INLINE __m256i fraction_excess(__m256i x)
{
    const __m256i m = _mm256_mullo_epi16(x, _mm256_set1_epi16(13));
    const __m256i above = _mm256_add_epi16(m, _mm256_set1_epi16(242));
    return _mm256_mulhi_epu16(above, _mm256_set1_epi16(270));
}

PQ_INLINE vb base_3_fraction_u8v(vb x)
{
    const __m256i even = fraction_excess(_mm256_and_si256(x, _mm256_set1_epi16(0xff)));
    const __m256i odd = fraction_excess(_mm256_srli_epi16(x, 8));
    return _mm256_add_epi8(x, _mm256_or_si256(even, _mm256_slli_epi16(odd, 8)));
}

/* Return floor((x * y % 256) * 3 / 256) for each byte. The bytes of x are in the upper
 * halves of 16-bit lanes, so that the upper half of a product is x * y % 256. */
PQ_INLINE vb top_trits_u8v(vb x, vb y)
{
    const __m256i upper = _mm256_set1_epi16((short)0xff00), three = _mm256_set1_epi16(3);
    const __m256i even = _mm256_mullo_epi16(_mm256_slli_epi16(x, 8), y);
    const __m256i odd =
        _mm256_mullo_epi16(_mm256_and_si256(x, upper), _mm256_srli_epi16(y, 8));
    const __m256i first = _mm256_mulhi_epu16(even, three);
    return _mm256_or_si256(first, _mm256_slli_epi16(_mm256_mulhi_epu16(odd, three), 8));
}

/* ---- float32 ---- */

/* Find the smallest element of `lowest` and the largest of `hi`. After negation of the
 * minima, one sequence of maxima reduces both. */
PQ_INLINE void reduce_to_extrema(f32v lowest, f32v hi, float *least, float *most)
{
    const f32v lo = _mm256_xor_ps(lowest, _mm256_set1_ps(-0.0f));
    const __m128 a = _mm_max_ps(_mm256_castps256_ps128(lo), _mm256_extractf128_ps(lo, 1));
    const __m128 b = _mm_max_ps(_mm256_castps256_ps128(hi), _mm256_extractf128_ps(hi, 1));
    const __m128 two = _mm_max_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
    const __m128 one = _mm_max_ps(two, _mm_movehl_ps(two, two));
    *least = -_mm_cvtss_f32(one);
    *most = _mm_cvtss_f32(_mm_movehdup_ps(one));
}

PQ_INLINE float largest_of(f32v x)
{
    const __m128 hi = _mm256_extractf128_ps(x, 1);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), hi);
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/* Round half away from zero, for magnitudes below 2^22: add the largest float32 below 1/2
 * to the magnitude, and truncate. */
PQ_INLINE i32v away_i32v(f32v v)
{
    return truncate_f32v(add_f32v(v, or_f32v(sign_f32v(v), splat_f32v(0x1.fffffep-2f))));
}

/* Pack int32 to signed bytes, with saturation, which keeps signs. */
PQ_INLINE c32 pack_codes(const i32v v[4])
{
    const __m256i lo = _mm256_packs_epi32(v[0], v[1]), hi = _mm256_packs_epi32(v[2], v[3]);
    return (c32){undo_pack_order(_mm256_packs_epi16(lo, hi))};
}

/* Convert the eight signed bytes with the indices 8 * k to 8 * k + 7 to float32. */
PQ_INLINE f32v widen_codes(c32 x, int k)
{
    const __m128i half =
        k < 2 ? _mm256_castsi256_si128(x.a) : _mm256_extracti128_si256(x.a, 1);
    const __m128i codes = k % 2 == 0 ? half : _mm_unpackhi_epi64(half, half);
    return f32_of_i32v(_mm256_cvtepi8_epi32(codes));
}

#include "kernels/codes.inc"

#endif
