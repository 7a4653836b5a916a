/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primitives of AVX2, FMA and F16C, which are functions of single vectors. Include
 * <immintrin.h> before this header.
 */
#ifndef PQ_AVX2_H
#define PQ_AVX2_H

#include <stdint.h>

#include "pq_compiler.h"

#define PQ_LANES 8
#define PQ_LANES16 16

typedef __m256 f32v;
typedef __m256d f64v;
typedef __m256i i32v;
typedef __m256i vb;

/* Apply f to the vectors of an f8, d4 or c32. Each of these types has one vector here. */
#define FILL1(f, x) {f((x).a)}
#define FILL2(f, x, y) {f((x).a, (y).a)}
#define FILL3(f, x, y, z) {f((x).a, (y).a, (z).a)}
#define FILL_BY(f, x, y) {f((x).a, y)}
#define FILL_LOAD(f, p, lanes) {f(p)}
#define FILL_SPLAT(f, s) {f(s)}
#define FILL_STORE(f, p, lanes, x) f(p, (x).a)

/* Forbid compilers to reorder the stores of a chunk. In any other order than ascending,
 * they take up to twice as long if results are not in L1. */
#define PQ_KEEP_ORDER PQ_IN_ORDER

/* ---- load, store and splat ---- */

PQ_INLINE __m128i load128(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

PQ_INLINE __m128i load64(const void *p)
{
    return _mm_loadl_epi64((const __m128i *)p);
}

PQ_INLINE __m256i load256(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

PQ_INLINE void store128(void *p, __m128i v)
{
    _mm_storeu_si128((__m128i *)p, v);
}

PQ_INLINE void store256(void *p, __m256i v)
{
    _mm256_storeu_si256((__m256i *)p, v);
}

PQ_INLINE void store_high64(void *p, __m128i v)
{
    _mm_storel_epi64(p, _mm_unpackhi_epi64(v, v));
}

#define load_f32v _mm256_loadu_ps
#define load_f64v _mm256_loadu_pd
#define load_i32v load256
#define load_i16v load256
#define load_u8v load256
#define store_f32v _mm256_storeu_ps
#define store_f64v _mm256_storeu_pd
#define store_i32v store256
#define store_i16v store256
#define store_u8v store256
#define splat_f32v _mm256_set1_ps
#define splat_f64v _mm256_set1_pd
#define splat_i32v _mm256_set1_epi32
#define splat_i16v _mm256_set1_epi16
#define splat_u8v(s) _mm256_set1_epi8((char)(s))
#define broadcast_f32v _mm256_broadcast_ss
#define broadcast_i32v(p) _mm256_set1_epi32(*(p))

/* ---- arithmetic ---- */

#define add_f32v _mm256_add_ps
#define subtract_f32v _mm256_sub_ps
#define multiply_f32v _mm256_mul_ps
#define divide_f32v _mm256_div_ps
#define smaller_f32v _mm256_min_ps
#define larger_f32v _mm256_max_ps
#define fused_add_f32v _mm256_fmadd_ps
#define fused_subtract_f32v _mm256_fnmadd_ps
#define or_f32v _mm256_or_ps
#define add_f64v _mm256_add_pd
#define subtract_f64v _mm256_sub_pd
#define multiply_f64v _mm256_mul_pd
#define divide_f64v _mm256_div_pd
#define smaller_f64v _mm256_min_pd
#define larger_f64v _mm256_max_pd
#define fused_add_f64v _mm256_fmadd_pd
#define or_f64v _mm256_or_pd
#define add_i32v _mm256_add_epi32
#define subtract_i32v _mm256_sub_epi32
#define smaller_i32v _mm256_min_epi32
#define larger_i32v _mm256_max_epi32
#define larger_u32v _mm256_max_epu32
#define and_i32v _mm256_and_si256
#define add_i16v _mm256_add_epi16
#define smaller_i16v _mm256_min_epi16
#define larger_i16v _mm256_max_epi16
#define larger_u16v _mm256_max_epu16
#define add_u8v _mm256_add_epi8
#define subtract_u8v _mm256_sub_epi8
#define and_u8v _mm256_and_si256
#define or_u8v _mm256_or_si256
#define flip_u8v _mm256_xor_si256
#define smaller_u8v _mm256_min_epu8
#define smaller_i8v _mm256_min_epi8
#define larger_i8v _mm256_max_epi8

/* min and max return the second operand if either operand is NaN. */
#define cap_keep_nan_f32v(x, hi) _mm256_min_ps(hi, x)
#define cap_keep_nan_f64v(x, hi) _mm256_min_pd(hi, x)
#define floor_drop_nan_f32v _mm256_max_ps

#define one_where_less_f32v(x, y)                                                          \
    _mm256_and_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ), _mm256_set1_ps(1))
/* Return v where x and y are equal, else 0. */
#define if_equal_f32v(x, y, v) _mm256_and_ps(_mm256_cmp_ps(x, y, _CMP_EQ_OQ), v)
#define if_equal_f64v(x, y, v) _mm256_and_pd(_mm256_cmp_pd(x, y, _CMP_EQ_OQ), v)

/* ---- round ---- */

#define sign_f32v(q) _mm256_and_ps(q, _mm256_set1_ps(-0.0f))
#define sign_f64v(q) _mm256_and_pd(q, _mm256_set1_pd(-0.0))
#define magnitude_f32v(q) _mm256_andnot_ps(_mm256_set1_ps(-0.0f), q)
#define magnitude_f64v(q) _mm256_andnot_pd(_mm256_set1_pd(-0.0), q)
#define ROUNDED_PS(q, to) _mm256_round_ps(q, _MM_FROUND_TO_##to | _MM_FROUND_NO_EXC)
#define ROUNDED_PD(q, to) _mm256_round_pd(q, _MM_FROUND_TO_##to | _MM_FROUND_NO_EXC)
#define up_f32v(q) ROUNDED_PS(q, POS_INF)
#define up_f64v(q) ROUNDED_PD(q, POS_INF)
#define down_f32v(q) ROUNDED_PS(q, NEG_INF)
#define down_f64v(q) ROUNDED_PD(q, NEG_INF)
#define nearest_f32v(q) ROUNDED_PS(q, NEAREST_INT)
#define nearest_f64v(q) ROUNDED_PD(q, NEAREST_INT)
#define toward_zero_f64v(q) ROUNDED_PD(q, ZERO)
#define toward_zero_f32v(q) (q) /* truncate_f32v truncates */

/* ---- conversions ---- */

#define truncate_f32v _mm256_cvttps_epi32
#define nearest_i32v _mm256_cvtps_epi32
#define f32_of_i32v _mm256_cvtepi32_ps
#define bits_f32v _mm256_castps_si256
#define float_i32v _mm256_castsi256_ps
/* Convert two vectors, and join the results in one vector, in order. */
#define narrow_f64v(x, y) _mm256_set_m128(_mm256_cvtpd_ps(y), _mm256_cvtpd_ps(x))
#define i32_of_f64v(x, y) _mm256_set_m128i(_mm256_cvttpd_epi32(y), _mm256_cvttpd_epi32(x))
#define nearest_i32_of_f64v(x, y)                                                          \
    _mm256_set_m128i(_mm256_cvtpd_epi32(y), _mm256_cvtpd_epi32(x))
#define narrow_i16v(x, y) IN_ORDER16(_mm256_packs_epi32(x, y))
#define narrow_u16v(x, y) IN_ORDER16(_mm256_packus_epi32(x, y))
#define narrow_i8v(x, y) in_order(_mm256_packs_epi16(x, y))
#define narrow_u8v(x, y) in_order(_mm256_packus_epi16(x, y))
/* The packs work within 128-bit lanes. Quadwords a0 b0 a1 b1 become a0 a1 b0 b1. */
#define IN_ORDER16(v) _mm256_permute4x64_epi64(v, 0xd8)

/* Groups of four bytes a0 b0 c0 d0 a1 b1 c1 d1 become a0 a1 b0 b1 c0 c1 d0 d1. */
PQ_INLINE __m256i in_order(__m256i bytes)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(bytes, order);
}

PQ_INLINE f32v canonical_nan_f32v(f32v x)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

/* Return NaN where x is one of two integers, else v. */
PQ_INLINE f32v nan_where_equal_f32v(f32v v, i32v x, i32v a, i32v b)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    const i32v same = _mm256_or_si256(_mm256_cmpeq_epi32(x, a), _mm256_cmpeq_epi32(x, b));
    return _mm256_blendv_ps(v, nan, _mm256_castsi256_ps(same));
}

PQ_INLINE f64v canonical_nan_f64v(f64v x)
{
    const __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff8000000000000));
    return _mm256_blendv_pd(x, nan, _mm256_cmp_pd(x, x, _CMP_UNORD_Q));
}

#define magnitude_bits_f32v(x)                                                             \
    _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff))
/* Return the power of two below a positive number. */
#define power_f64v(x)                                                                      \
    _mm256_and_pd(x, _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff0000000000000)))

/* Convert 16-bit floats to integers of equal order: the magnitude bits, negated for
 * negative floats. from_order_i16v() converts them back. */
PQ_INLINE __m256i to_order_i16v(__m256i x)
{
    return _mm256_sign_epi16(_mm256_and_si256(x, _mm256_set1_epi16(0x7fff)), x);
}

PQ_INLINE __m256i from_order_i16v(__m256i x)
{
    const __m256i sign = _mm256_and_si256(x, _mm256_set1_epi16(INT16_MIN));
    return _mm256_or_si256(_mm256_abs_epi16(x), sign);
}

/* The conversion returns INT32_MIN for a number outside int32. The exclusive or turns it
 * into INT32_MAX for large numbers. */
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

#define round_to_f16_f32v(x) _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT))

/* Round to the nearest even bfloat16 by integer addition. NaN must be canonical. */
PQ_INLINE __m256i narrow_bf16(__m256 x)
{
    const __m256i u = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
}

PQ_INLINE f32v round_to_bf16_f32v(f32v x)
{
    const __m256 r = _mm256_castsi256_ps(_mm256_slli_epi32(narrow_bf16(x), 16));
    return _mm256_blendv_ps(r, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
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

#define narrow_to_odd_f64v(x, y) _mm256_set_m128(narrow_to_odd_pd(y), narrow_to_odd_pd(x))
/* Return the lower or the upper 32 bits of each number. */
#define WORDS_F64V(x, y, which)                                                            \
    IN_ORDER16(_mm256_castps_si256(                                                        \
        _mm256_shuffle_ps(_mm256_castpd_ps(x), _mm256_castpd_ps(y), which)))
#define lower_words_f64v(x, y) WORDS_F64V(x, y, 0x88)
#define upper_words_f64v(x, y) WORDS_F64V(x, y, 0xdd)

/* Return the 32 fields of 2 bits of 8 bytes, the lowest first. The upper bits of each byte
 * are undefined. */
PQ_INLINE __m256i fields_of_2_bits(__m128i x)
{
    const __m256i w = _mm256_cvtepu8_epi32(x);
    const __m256i pairs = _mm256_and_si256(_mm256_or_si256(w, _mm256_slli_epi32(w, 12)),
                                           _mm256_set1_epi32(0x000f000f));
    return _mm256_or_si256(pairs, _mm256_slli_epi32(pairs, 6));
}

/* Join two adjacent codes of 2 bits to 4 bits, and two of these to a byte of an int32. */
PQ_INLINE __m256i join_fields_of_2_bits(__m256i x)
{
    const __m256i pairs = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x0401));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00100001));
}

/* Add rounded quotients and zero points in saturating 16-bit arithmetic. In 32 bits,
 * INT32_MIN plus a negative zero point would wrap. A saturated sum is outside 8 bits. */
PQ_INLINE __m256i add_narrow(__m256i r0, __m256i r1, __m256i z0, __m256i z1)
{
    return _mm256_adds_epi16(_mm256_packs_epi32(r0, r1), _mm256_packs_epi32(z0, z1));
}

#endif
