/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primitives of AVX2, FMA and F16C, which are functions of single vectors. Include
 * <immintrin.h> before this header.
 */
#ifndef PQ_AVX2_H
#define PQ_AVX2_H

#include "pq_compiler.h"

#define PQ_LANES 8
#define PQ_LANES16 16

typedef __m256 f32v;
typedef __m256d f64v;
typedef __m256i i32v, i16v, vb;

#include "kernels/lift.inc"

#define V(name) _mm256_##name
#define VI(name) _mm256_##name##_si256
#define TRUE_PS(x, op, y) _mm256_castps_si256(_mm256_cmp_ps(x, y, op))
#define IF_PS(x, op, y, v) _mm256_and_ps(_mm256_cmp_ps(x, y, op), v)
#define IF_PD(x, op, y, v) _mm256_and_pd(_mm256_cmp_pd(x, y, op), v)
#define WHERE_PS(x, op, y, v, w) _mm256_blendv_ps(w, v, _mm256_cmp_ps(x, y, op))
#define WHERE_PD(x, op, y, v, w) _mm256_blendv_pd(w, v, _mm256_cmp_pd(x, y, op))
#define LOWER_PS _mm256_castps256_ps128
#define LOWER_I _mm256_castsi256_si128
#define UPPER_PS(x) _mm256_extractf128_ps(x, 1)
#define UPPER_I(x) _mm256_extracti128_si256(x, 1)
#define JOIN_PS(x, y) _mm256_set_m128(y, x)
#define JOIN_I(x, y) _mm256_set_m128i(y, x)
/* Restore the order after a pack instruction, which works within 128-bit lanes. Quadwords
 * a0 b0 a1 b1 become a0 a1 b0 b1. */
#define IN_ORDER16(v) _mm256_permute4x64_epi64(v, 0xd8)
#define ROUND_PS _mm256_round_ps
#define ROUND_PD _mm256_round_pd
#define broadcast_f32v _mm256_broadcast_ss
#define float_i32v _mm256_castsi256_ps
#define load_i32v load256
#define store_i32v store256
#define load_half load128
#define load_quarter load64
#define store_half store128
#include "x86/primitives.inc"

/* Apply f to the vectors of an f8, d4 or c32. In AVX2, each type has one vector. */
#define FILL1(f, x) {f((x).a)}
#define FILL2(f, x, y) {f((x).a, (y).a)}
#define FILL3(f, x, y, z) {f((x).a, (y).a, (z).a)}
#define FILL_BY(f, x, y) {f((x).a, y)}
#define FILL_LOAD(f, p, lanes) {f(p)}
#define FILL_SPLAT(f, s) {f(s)}
#define FILL_STORE(f, p, lanes, x) f(p, (x).a)

PQ_INLINE void store_high64(void *p, __m128i v)
{
    _mm_storel_epi64(p, _mm_unpackhi_epi64(v, v));
}

/* ---- conversions ---- */

/* Restore the order of bytes after two levels of pack instructions. Groups of four bytes
 * a0 b0 c0 d0 a1 b1 c1 d1 become a0 a1 b0 b1 c0 c1 d0 d1. */
PQ_INLINE __m256i undo_pack_order(__m256i bytes)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(bytes, order);
}

/* Load 8 integers of three bytes, the lowest first. 4 further bytes are read: `before` of
 * them precede the integers. */
PQ_INLINE i32v load_i24v(const char *p, int before)
{
    p -= before;
    const __m256i all = JOIN_I(load128(p), load128(p + 12));
    const __m128i order = _mm_add_epi8(
        _mm_setr_epi8(-1, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11),
        _mm_set1_epi8((char)before)); /* the shift removes the lowest byte of each int32 */
    return _mm256_srai_epi32(_mm256_shuffle_epi8(all, JOIN_I(order, order)), 8);
}

/* Move the low three bytes of each integer to the start of its 128-bit half. */
PQ_INLINE __m256i join_i24v(i32v x)
{
    const __m128i order =
        _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
    return _mm256_shuffle_epi8(x, JOIN_I(order, order));
}

/* Store the low three bytes of 8 integers. Bytes 24 to 27 are overwritten, too. */
PQ_INLINE void store_i24v(char *p, i32v x)
{
    const __m256i all = join_i24v(x);
    store128(p, LOWER_I(all));
    store128(p + 12, UPPER_I(all));
}

/* Like store_i24v(), without a write after the integers. */
PQ_INLINE void store_last_i24v(char *p, i32v x)
{
    const __m256i all = join_i24v(x);
    store128(p, LOWER_I(all));
    store128(p + 8, _mm_alignr_epi8(UPPER_I(all), _mm_slli_si128(LOWER_I(all), 4), 12));
}

/* Return NaN where x equals a or b, else v. */
PQ_INLINE f32v nan_where_equal_f32v(f32v v, i32v x, i32v a, i32v b)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    const i32v same = _mm256_or_si256(_mm256_cmpeq_epi32(x, a), _mm256_cmpeq_epi32(x, b));
    return _mm256_blendv_ps(v, nan, _mm256_castsi256_ps(same));
}

/* Convert 16-bit floats to int16 numbers in the order of the floats: the magnitude bits,
 * negated for negative floats. */
PQ_INLINE __m256i to_order_i16v(__m256i x)
{
    return _mm256_sign_epi16(_mm256_and_si256(x, _mm256_set1_epi16(0x7fff)), x);
}

/* Convert to the nearest int32. The instruction returns INT32_MIN for every number outside
 * int32. For numbers above INT32_MAX, XOR inverts the bits to INT32_MAX. */
PQ_INLINE i32v i32_of_f32v(f32v x)
{
    const __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ);
    return _mm256_xor_si256(_mm256_cvtps_epi32(x), _mm256_castps_si256(above));
}

PQ_INLINE i32v u32_of_f32v(f32v x)
{
    const __m256 half = _mm256_set1_ps(0x1p31f), v = _mm256_max_ps(x, _mm256_setzero_ps());
    const __m256 upper = _mm256_cmp_ps(v, half, _CMP_GE_OQ);
    const __m256 above = _mm256_cmp_ps(v, _mm256_set1_ps(0x1p32f), _CMP_GE_OQ);
    const __m256i rest = _mm256_cvtps_epi32(_mm256_sub_ps(v, _mm256_and_ps(upper, half)));
    const __m256i top = _mm256_slli_epi32(_mm256_castps_si256(upper), 31);
    return _mm256_or_si256(_mm256_xor_si256(rest, top), _mm256_castps_si256(above));
}

/* Convert the upper and the lower 16 bits exactly, and round their sum once. */
PQ_INLINE f32v f32_of_u32v(i32v x)
{
    const __m256 hi = _mm256_cvtepi32_ps(_mm256_srli_epi32(x, 16));
    const __m256 lo = _mm256_cvtepi32_ps(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)));
    return _mm256_fmadd_ps(hi, _mm256_set1_ps(0x1p16f), lo);
}

/* Convert to float32, rounded to odd: if the conversion cuts off a 1, the last remaining
 * bit becomes 1. See pq_float_to_odd(). */
PQ_INLINE __m128 narrow_to_odd_pd(__m256d x)
{
    const __m256i bits = _mm256_castpd_si256(x), cut = _mm256_set1_epi64x(0x1fffffff);
    const __m256i exact =
        _mm256_cmpeq_epi64(_mm256_and_si256(bits, cut), _mm256_setzero_si256());
    const __m256i mark = _mm256_andnot_si256(exact, _mm256_set1_epi64x(0x20000000));
    const __m256i kept = _mm256_or_si256(_mm256_andnot_si256(cut, bits), mark);
    return _mm256_cvtpd_ps(_mm256_castsi256_pd(kept));
}

/* Return the 32 fields of 2 bits of 8 bytes, the lowest first. The upper bits of each byte
 * are undefined. */
PQ_INLINE __m256i fields_of_2_bits(__m128i x)
{
    const __m256i w = _mm256_cvtepu8_epi32(x);
    const __m256i pairs = _mm256_and_si256(_mm256_or_si256(w, _mm256_slli_epi32(w, 12)),
                                           _mm256_set1_epi32(0x000f000f));
    return _mm256_or_si256(pairs, _mm256_slli_epi32(pairs, 6));
}

/* Join four adjacent codes of 2 bits to one byte, in the lowest byte of an int32. */
PQ_INLINE __m256i join_fields_of_2_bits(__m256i x)
{
    const __m256i pairs = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x0401));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00100001));
}

#endif
