/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inline functions on vectors (words) that are faster with AVX-512 instructions, on 256-bit
 * registers. 512-bit registers lower the clock, and their first instructions are slow. All
 * other words come from AVX2; with AVX-512 the compiler has more registers and
 * three-operand logic for them.
 */
#ifndef PQ_SIMD_AVX512_H
#define PQ_SIMD_AVX512_H

#include "x86/simd_avx2.h"

PQ_NOINLINE void store_bf16_subnormal(void *p, const vf *x)
{
    store_bf16(p, *x);
}

/* Rename words, so that the definitions below replace the words of simd_avx2.h. */
#define canonical_nan avx512_canonical_nan
#define load_float_codes avx512_load_halves
#define pack_2_bits avx512_pack_2_bits
#define pack_4_bits avx512_pack_4_bits
#define store_bf16 avx512_store_bf16
#define store_normal_bf16 avx512_store_normal_bf16
#define u32_to_f32 avx512_u32_to_f32
#define saturate_to_u32 avx512_saturate_to_u32

/* ---- narrow floats ---- */

/* Return the matrix over GF(2) that shifts the bits of a byte left by n places, or right
 * by -n places. */
PQ_INLINE uint64_t bit_shift_matrix(int n)
{
    const uint64_t one = 0x0102040810204080;
    return n < 0 ? one << -8 * n : one >> 8 * n;
}

/* Return, for each byte, x times the matrix where the mask `from` has a 1, and y
 * elsewhere. */
PQ_INLINE __m256i move_bits(__m256i y, __mmask32 from, __m256i x, uint64_t matrix)
{
    const __m256i m = _mm256_set1_epi64x((long long)matrix);
    return _mm256_mask_gf2p8affine_epi64_epi8(y, from, x, m, 0);
}

/* Return a mask with a 1 for each code that does not mean NaN. */
PQ_INLINE __mmask32 non_nan_mask(__m256i code, __m256i mag, struct pq_format format)
{
    if (!format.signed_zero) {
        return _mm256_cmpneq_epi8_mask(code, _mm256_set1_epi8((char)format.sign));
    }
    return format.last == format.sign - 1
               ? UINT32_MAX
               : _mm256_cmple_epi8_mask(mag, _mm256_set1_epi8((char)format.last));
}

/* The upper and lower bytes of codes converted to float16 like pq_f16_bits_of_code(). */
struct half_bytes {
    __m256i upper, lower;
};

PQ_INLINE struct half_bytes half_bytes_of(__m256i code, enum pq_type type)
{
    const struct pq_format format = pq_format_of(type);
    const __m256i mag = _mm256_and_si256(code, _mm256_set1_epi8(0x7f));
    const __m256i nan = _mm256_set1_epi8(0x7e), zero = _mm256_setzero_si256();
    const __mmask32 numbers = non_nan_mask(code, mag, format);
    const uint64_t of_mag = 0x0101010101010101u * (unsigned)(format.sign - 1);
    const uint64_t of_sign = (unsigned)format.sign;
    const int up = type == PQ_F8E5M2FNUZ ? 7 : format.half_shift;
    const uint64_t upper = (bit_shift_matrix(up - 8) & of_mag & ~0xffull) | of_sign;
    struct half_bytes half = {_mm256_mask_mov_epi8(nan, numbers, code), zero};
    if (type != PQ_F8E5M2) { /* a code of e5m2 is the upper byte of its float16 number */
        half.upper = move_bits(nan, numbers, code, upper);
    }
    if (type == PQ_F8E5M2FNUZ) { /* subtract 1 from exponents; some become subnormal */
        const __mmask32 subnormal = _mm256_cmplt_epi8_mask(mag, _mm256_set1_epi8(8));
        half.upper =
            _mm256_mask_sub_epi8(half.upper, ~subnormal, code, _mm256_set1_epi8(4));
        half.lower = move_bits(zero, subnormal, code, bit_shift_matrix(up) & of_mag);
    } else if (up < 8) {
        half.lower = move_bits(zero, numbers, code, bit_shift_matrix(up) & of_mag);
    }
    if (format.infinity != 0 && type != PQ_F8E5M2) {
        const __m256i last = _mm256_set1_epi8((char)format.infinity);
        const __m256i infinity = _mm256_or_si256(half.upper, _mm256_set1_epi8(0x7c));
        half.upper =
            _mm256_mask_mov_epi8(half.upper, _mm256_cmpeq_epi8_mask(mag, last), infinity);
    }
    return half;
}

PQ_INLINE vf load_float_codes(const void *p, enum pq_type type)
{
    const __m256i code = _mm256_permute4x64_epi64(load256(p), 0xd8);
    const struct half_bytes half = half_bytes_of(code, type);
    const __m256i lo = _mm256_unpacklo_epi8(half.lower, half.upper);
    const __m256i hi = _mm256_unpackhi_epi8(half.lower, half.upper);
    return (vf){_mm256_cvtph_ps(_mm256_castsi256_si128(lo)),
                _mm256_cvtph_ps(_mm256_extracti128_si256(lo, 1)),
                _mm256_cvtph_ps(_mm256_castsi256_si128(hi)),
                _mm256_cvtph_ps(_mm256_extracti128_si256(hi, 1))};
}

/* ---- bfloat16 ---- */

/* Store bfloat16, rounded half to even. The instruction treats subnormals as zeros. */
PQ_INLINE void store_normal_bf16(void *p, vf x)
{
    const __m256bh ab = _mm256_cvtne2ps_pbh(x.b, x.a), cd = _mm256_cvtne2ps_pbh(x.d, x.c);
    memcpy(p, &ab, sizeof ab);
    memcpy((char *)p + sizeof ab, &cd, sizeof cd);
}

PQ_INLINE void store_bf16(void *p, vf x)
{
    enum { SUBNORMAL = 0x20 };
    const __mmask8 ab = _kor_mask8(_mm256_fpclass_ps_mask(x.a, SUBNORMAL),
                                   _mm256_fpclass_ps_mask(x.b, SUBNORMAL));
    const __mmask8 cd = _kor_mask8(_mm256_fpclass_ps_mask(x.c, SUBNORMAL),
                                   _mm256_fpclass_ps_mask(x.d, SUBNORMAL));
    if (_kortestz_mask8_u8(ab, cd)) {
        store_normal_bf16(p, x);
    } else {
        const vf rare = x; /* without this copy, GCC stores x before the test */
        store_bf16_subnormal(p, &rare);
    }
}

/* ---- NaN ---- */

/* The operand of the fixup instruction: one hexadecimal digit for each class of numbers,
 * the lowest first. The two classes of NaN have the digit 0, which selects the first
 * operand, a canonical NaN. All other classes have 1, which selects the number. */
enum { NAN_BY_CLASS = 0x11111100 };

PQ_INLINE __m256 fix_nan_ps(__m256 x)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_fixupimm_ps(nan, x, _mm256_set1_epi32(NAN_BY_CLASS), 0);
}

LIFT1(vf, vf, canonical_nan, fix_nan_ps)

/* ---- uint32 ---- */

/* Round half to even to uint32. The instruction converts larger values to UINT32_MAX. */
PQ_INLINE __m256i nearest_u32(__m256 x)
{
    return _mm256_cvtps_epu32(_mm256_max_ps(x, _mm256_setzero_ps()));
}

LIFT1(vi, vf, saturate_to_u32, nearest_u32)

LIFT1(vf, vi, u32_to_f32, _mm256_cvtepu32_ps)

/* ---- packed codes ---- */

PQ_INLINE void pack_4_bits(void *p, vb x)
{
    const __m256i even = _mm256_setr_epi64x(0x0e0c0a0806040200, 0x1e1c1a1816141210, 0, 0);
    const __m256i w = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x1001));
    store128(p, _mm256_castsi256_si128(_mm256_permutexvar_epi8(even, w)));
}

PQ_INLINE void pack_2_bits(void *p, vb x)
{
    const __m256i fourth = _mm256_setr_epi64x(0x1c1814100c080400, 0, 0, 0);
    const __m256i w = join_fields_of_2_bits(x);
    _mm_storel_epi64((__m128i *)p,
                     _mm256_castsi256_si128(_mm256_permutexvar_epi8(fourth, w)));
}

#endif
