/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inline functions on 512-bit vectors (words), for long runs. Chunks have 4 x 16 elements.
 */
#ifndef PQ_SIMD_512_H
#define PQ_SIMD_512_H

#include "pq_compiler.h"

#define PQ_LANES 16
#define PQ_LANES16 32

typedef __m512 f32v;
typedef __m512d f64v;
typedef __m512i i32v, i16v, vb;

#include "kernels/lift.inc"

#define V(name) _mm512_##name
#define VI(name) _mm512_##name##_si512
#define TRUE_PS(x, op, y) _mm512_movm_epi32(_mm512_cmp_ps_mask(x, y, op))
#define IF_PS(x, op, y, v) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, y, op), v)
#define IF_PD(x, op, y, v) _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(x, y, op), v)
#define WHERE_PS(x, op, y, v, w) _mm512_mask_mov_ps(w, _mm512_cmp_ps_mask(x, y, op), v)
#define WHERE_PD(x, op, y, v, w) _mm512_mask_mov_pd(w, _mm512_cmp_pd_mask(x, y, op), v)
#define LOWER_PS _mm512_castps512_ps256
#define LOWER_I _mm512_castsi512_si256
#define UPPER_PS(x) _mm512_extractf32x8_ps(x, 1)
#define UPPER_I(x) _mm512_extracti64x4_epi64(x, 1)
#define JOIN_PS(x, y) _mm512_insertf32x8(_mm512_castps256_ps512(x), y, 1)
#define JOIN_I(x, y) _mm512_inserti64x4(_mm512_castsi256_si512(x), y, 1)
#define IN_ORDER16(v) _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), v)
#define ROUND_PS _mm512_roundscale_ps
#define ROUND_PD _mm512_roundscale_pd
#define broadcast_f32v(p) _mm512_set1_ps(*(p))
#define float_i32v _mm512_castsi512_ps
#define load_i32v _mm512_loadu_si512
#define store_i32v _mm512_storeu_si512
#define load_half load256
#define load_quarter load128
#define store_half store256
#include "x86/primitives.inc"

/* ---- conversions ---- */

/* Convert to the nearest int32. The instruction returns INT32_MIN for every number outside
 * int32, so the macro replaces the results of large numbers by INT32_MAX. */
#define i32_of_f32v(x)                                                                     \
    _mm512_mask_mov_epi32(_mm512_cvtps_epi32(x),                                           \
                          _mm512_cmp_ps_mask(x, _mm512_set1_ps(0x1p31f), _CMP_GE_OQ),      \
                          _mm512_set1_epi32(INT32_MAX))
#define u32_of_f32v(x) _mm512_cvtps_epu32(_mm512_max_ps(x, _mm512_setzero_ps()))
#define f32_of_u32v _mm512_cvtepu32_ps

/* Restore the order of bytes after pack instructions, which work within lanes of 128 bits.
 */
PQ_INLINE __m512i undo_pack_order(__m512i v)
{
    const __m512i order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, v);
}

/* Return NaN where x equals a or b, else v. */
PQ_INLINE f32v nan_where_equal_f32v(f32v v, i32v x, i32v a, i32v b)
{
    const __mmask16 same = _mm512_cmpeq_epi32_mask(x, a) | _mm512_cmpeq_epi32_mask(x, b);
    return _mm512_mask_mov_ps(v, same, _mm512_set1_ps(PQ_NAN_F32));
}

/* Convert 16-bit floats to int16 numbers in the order of the floats: the magnitude bits,
 * negated for negative floats. */
PQ_INLINE i32v to_order_i16v(i32v x)
{
    const i32v mag = _mm512_and_si512(x, _mm512_set1_epi16(0x7fff));
    return _mm512_mask_sub_epi16(mag, _mm512_movepi16_mask(x), _mm512_setzero_si512(), mag);
}

/* Convert to float32, rounded to odd: if the conversion cuts off a 1, the last remaining
 * bit becomes 1. See pq_float_to_odd(). */
PQ_INLINE __m256 narrow_to_odd_pd(f64v x)
{
    const i32v bits = _mm512_castpd_si512(x), cut = _mm512_set1_epi64(0x1fffffff);
    const i32v kept = _mm512_andnot_si512(cut, bits), mark = _mm512_set1_epi64(0x20000000);
    const i32v odd =
        _mm512_mask_or_epi64(kept, _mm512_test_epi64_mask(bits, cut), kept, mark);
    return _mm512_cvtpd_ps(_mm512_castsi512_pd(odd));
}

#include "x86/words.inc"

/* Return the smaller magnitude by one instruction, not two. A quiet NaN is dropped. */
#define smaller_magnitude_f32v(x, y) _mm512_range_ps(x, y, 2 | 8)
LIFT2(vf, smaller_magnitude, smaller_magnitude_f32v)
#define smaller_magnitude smaller_magnitude

/* Return true if an element is NaN. A comparison of two vectors finds the NaNs of both. */
PQ_INLINE int any_nan(vf x)
{
    return (_mm512_cmp_ps_mask(x.a, x.b, _CMP_UNORD_Q) |
            _mm512_cmp_ps_mask(x.c, x.d, _CMP_UNORD_Q)) != 0;
}

PQ_INLINE int any_nan_f64(vd x)
{
    return (_mm512_cmp_pd_mask(x.a, x.b, _CMP_UNORD_Q) |
            _mm512_cmp_pd_mask(x.c, x.d, _CMP_UNORD_Q)) != 0;
}

/* Store magnitude codes of a narrow float, plus the sign bit `sign` where `signs` is
 * negative. The magnitude code `bare` never gets the sign bit. */
PQ_INLINE void store_float_codes(void *p, vi magnitudes, vi signs, int sign, int bare)
{
    const __m512i code =
        _mm512_packus_epi16(_mm512_packs_epi32(magnitudes.a, magnitudes.b),
                            _mm512_packs_epi32(magnitudes.c, magnitudes.d));
    const __mmask64 negative = _mm512_movepi8_mask(_mm512_packs_epi16(
        _mm512_packs_epi32(signs.a, signs.b), _mm512_packs_epi32(signs.c, signs.d)));
    const __mmask64 signed_ones =
        _mm512_mask_cmpneq_epi8_mask(negative, code, _mm512_set1_epi8((char)bare));
    const __m512i bits = _mm512_maskz_set1_epi8(signed_ones, (char)sign);
    store_u8v(p, undo_pack_order(_mm512_or_si512(code, bits)));
}

#endif
