/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector words on 512-bit registers, for long runs. A wide chunk has 4 x 16 elements, in
 * order. These words suffice to quantize with one scale in the reciprocal range, and to
 * look up bytes.
 */
#ifndef PQ_SIMD_512_H
#define PQ_SIMD_512_H

#include "x86/simd_avx512.h"

enum { PQ_WIDE = 64, PQ_WIDE_HALF = PQ_WIDE / 2 };

typedef struct {
    __m512 a, b, c, d;
} wf;

typedef struct {
    __m512i a, b, c, d;
} wi;

/* Half a wide chunk of float64. `wi` also holds half a wide chunk of 64-bit integers. */
typedef struct {
    __m512d a, b, c, d;
} wd;

/* ---- load and splat ---- */

#define load_wide_f16v(p) _mm512_cvtph_ps(load256(p))
#define load_wide_bf16v(p)                                                                 \
    _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load256(p)), 16))
LIFT_LOAD(wf, float, 16, load_wide_f32, _mm512_loadu_ps)
LIFT_LOAD(wf, uint16_t, 16, load_wide_f16, load_wide_f16v)
LIFT_LOAD(wf, uint16_t, 16, load_wide_bf16, load_wide_bf16v)
LIFT_LOAD(wd, double, 8, load_wide_f64, _mm512_loadu_pd)
LIFT_SPLAT(wf, float, __m512, wide_splat, _mm512_set1_ps)
LIFT_SPLAT(wd, double, __m512d, wide_splat_f64, _mm512_set1_pd)
LIFT_SPLAT(wi, int32_t, __m512i, wide_splat_i32, _mm512_set1_epi32)
LIFT_SPLAT(wi, int64_t, __m512i, wide_splat_i64, _mm512_set1_epi64)

PQ_INLINE wf load_wide(const void *p, enum pq_type type)
{
    return type == PQ_F16    ? load_wide_f16(p)
           : type == PQ_BF16 ? load_wide_bf16(p)
                             : load_wide_f32(p);
}

/* Convert a chunk of equal elements to a wide chunk. */
PQ_INLINE wf widen(vf x)
{
    return wide_splat(_mm256_cvtss_f32(x.a));
}

PQ_INLINE wi widen_i32(vi x)
{
    return wide_splat_i32(_mm_cvtsi128_si32(_mm256_castsi256_si128(x.a)));
}

/* ---- arithmetic: like the 256-bit words without the prefix wide_ ---- */

/* Return the smaller magnitude, or the operand that is not NaN. In the operand of the
 * range instruction, 2 selects the minimum of magnitudes and 8 clears the sign. */
enum { OF_MAGNITUDES = 2 | 8 };
#define LEAST_PS(x, y) _mm512_range_ps(x, y, OF_MAGNITUDES)
#define LEAST_PD(x, y) _mm512_range_pd(x, y, OF_MAGNITUDES)
/* The instruction returns its second operand if either operand is NaN. */
#define CAP_PS(x, hi) _mm512_min_ps(hi, x)
#define CAP_PD(x, hi) _mm512_min_pd(hi, x)

LIFT2(wf, wide_multiply, _mm512_mul_ps)
LIFT3(wf, wide_fused_add, _mm512_fmadd_ps)
LIFT3(wf, wide_fused_subtract, _mm512_fnmadd_ps)
LIFT2(wf, wide_cap_keep_nan, CAP_PS)
LIFT2(wf, wide_floor_drop_nan, _mm512_max_ps)
LIFT2(wf, wide_larger, _mm512_max_ps)
LIFT2(wf, wide_least_magnitude, LEAST_PS)
LIFT1(wi, wf, wide_bits, _mm512_castps_si512)
LIFT1(wf, wi, wide_float, _mm512_castsi512_ps)
LIFT1(wi, wf, wide_nearest, _mm512_cvtps_epi32)

LIFT2(wi, wide_mask, _mm512_and_si512)
LIFT2(wi, wide_add_i32, _mm512_add_epi32)
LIFT2(wi, wide_subtract_i32, _mm512_sub_epi32)
LIFT2(wi, wide_shift_right, _mm512_srlv_epi32)
LIFT2(wi, wide_add_i64, _mm512_add_epi64)
LIFT2(wi, wide_subtract_i64, _mm512_sub_epi64)
LIFT2(wi, wide_shift_right_i64, _mm512_srlv_epi64)

LIFT2(wd, wide_multiply_f64, _mm512_mul_pd)
LIFT3(wd, wide_fused_add_f64, _mm512_fmadd_pd)
LIFT3(wd, wide_fused_subtract_f64, _mm512_fnmadd_pd)
LIFT2(wd, wide_cap_keep_nan_f64, CAP_PD)
LIFT2(wd, wide_floor_drop_nan_f64, _mm512_max_pd)
LIFT2(wd, wide_larger_f64, _mm512_max_pd)
LIFT2(wd, wide_least_magnitude_f64, LEAST_PD)
LIFT1(wi, wd, wide_bits_f64, _mm512_castpd_si512)
LIFT1(wd, wi, wide_float_f64, _mm512_castsi512_pd)

PQ_INLINE int wide_any_nan(wf x)
{
    return (_mm512_cmp_ps_mask(x.a, x.b, _CMP_UNORD_Q) |
            _mm512_cmp_ps_mask(x.c, x.d, _CMP_UNORD_Q)) != 0;
}

PQ_INLINE int wide_any_nan_f64(wd x)
{
    return (_mm512_cmp_pd_mask(x.a, x.b, _CMP_UNORD_Q) |
            _mm512_cmp_pd_mask(x.c, x.d, _CMP_UNORD_Q)) != 0;
}

PQ_INLINE __m512i nearest_pair(__m512d x, __m512d y)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtpd_epi32(x)),
                              _mm512_cvtpd_epi32(y), 1);
}

/* Convert the two halves of a wide chunk to the nearest int32. */
PQ_INLINE wi wide_nearest_f64(wd x, wd y)
{
    return (wi){nearest_pair(x.a, x.b), nearest_pair(x.c, x.d), nearest_pair(y.a, y.b),
                nearest_pair(y.c, y.d)};
}

/* Return the lower 32 bits of the 64-bit integers of x and y, or the upper 32 bits if
 * `upper` is 1. */
PQ_INLINE __m512i halves_pair(__m512i x, __m512i y, int upper)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i index = _mm512_add_epi32(even, _mm512_set1_epi32(upper));
    return _mm512_permutex2var_epi32(x, index, y);
}

PQ_INLINE wi wide_halves(wi x, wi y, int upper)
{
    return (wi){halves_pair(x.a, x.b, upper), halves_pair(x.c, x.d, upper),
                halves_pair(y.a, y.b, upper), halves_pair(y.c, y.d, upper)};
}

/* ---- store ---- */

PQ_INLINE void store512(void *p, __m512i v)
{
    _mm512_storeu_si512(p, v);
}

/* Restore the order of bytes after pack instructions, which work within lanes of 128 bits.
 */
PQ_INLINE __m512i wide_bytes_in_order(__m512i v)
{
    const __m512i order =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, v);
}

PQ_INLINE __m512i wide_add_narrow(__m512i r0, __m512i r1, __m512i z0, __m512i z1)
{
    return _mm512_adds_epi16(_mm512_packs_epi32(r0, r1), _mm512_packs_epi32(z0, z1));
}

PQ_INLINE __m512i wide_pack(__m512i x, __m512i y, enum pq_type type)
{
    const __m512i words =
        type == PQ_I16 ? _mm512_packs_epi32(x, y) : _mm512_packus_epi32(x, y);
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), words);
}

PQ_INLINE void store_wide_code(void *p, wi r, wi z, enum pq_type type)
{
    if (type == PQ_I8 || type == PQ_U8) {
        const __m512i lo = wide_add_narrow(r.a, r.b, z.a, z.b);
        const __m512i hi = wide_add_narrow(r.c, r.d, z.c, z.d);
        store512(p, wide_bytes_in_order(type == PQ_I8 ? _mm512_packs_epi16(lo, hi)
                                                      : _mm512_packus_epi16(lo, hi)));
    } else {
        const wi v = wide_add_i32(r, z);
        store512(p, wide_pack(v.a, v.b, type));
        store512((char *)p + sizeof v.a, wide_pack(v.c, v.d, type));
    }
}

/* Return true if an unsigned number of 16 or 32 bits is larger than `than`. */
PQ_INLINE int wide_any_above(__m512i v, uint32_t than, int bits)
{
    return bits == 16 ? _mm512_cmpgt_epu16_mask(v, _mm512_set1_epi16((short)than)) != 0
                      : _mm512_cmpgt_epu32_mask(v, _mm512_set1_epi32((int)than)) != 0;
}

/* Like store_above_8() and store_above_16(), for r + z. Return `most`, raised to the sums
 * as unsigned integers of 16 or 32 bits. A sum below the range, or of NaN, exceeds every
 * valid sum. */
PQ_INLINE __m512i store_wide_above_8(void *p, wi r, wi z, int least, __m512i most)
{
    const __m512i lo = wide_add_narrow(r.a, r.b, z.a, z.b);
    const __m512i hi = wide_add_narrow(r.c, r.d, z.c, z.d);
    const __m512i bytes = wide_bytes_in_order(_mm512_packus_epi16(lo, hi));
    store512(p, _mm512_add_epi8(bytes, _mm512_set1_epi8((char)least)));
    return _mm512_max_epu16(most, _mm512_max_epu16(lo, hi));
}

PQ_INLINE __m512i store_wide_above_16(void *p, wi r, wi z, int least, __m512i most)
{
    const wi v = wide_add_i32(r, z);
    const __m512i base = _mm512_set1_epi16((short)least);
    store512(p, _mm512_add_epi16(wide_pack(v.a, v.b, PQ_U16), base));
    store512((char *)p + sizeof v.a, _mm512_add_epi16(wide_pack(v.c, v.d, PQ_U16), base));
    return _mm512_max_epu32(_mm512_max_epu32(most, _mm512_max_epu32(v.a, v.b)),
                            _mm512_max_epu32(v.c, v.d));
}

/* Subtract `above` from magnitude codes of a narrow float. Store them with the sign bit
 * `sign` where `signs` is negative. The magnitude `bare` gets no sign bit. */
PQ_INLINE void store_wide_floats(void *p, wi magnitudes, int above, wi signs, int sign,
                                 int bare)
{
    const __m512i by = _mm512_set1_epi16((short)above);
    const __m512i lo = _mm512_sub_epi16(_mm512_packs_epi32(magnitudes.a, magnitudes.b), by);
    const __m512i hi = _mm512_sub_epi16(_mm512_packs_epi32(magnitudes.c, magnitudes.d), by);
    const __m512i code = _mm512_packus_epi16(lo, hi);
    const __mmask64 negative = _mm512_movepi8_mask(_mm512_packs_epi16(
        _mm512_packs_epi32(signs.a, signs.b), _mm512_packs_epi32(signs.c, signs.d)));
    const __mmask64 signed_ones =
        _mm512_mask_cmpneq_epi8_mask(negative, code, _mm512_set1_epi8((char)bare));
    const __m512i bits = _mm512_maskz_set1_epi8(signed_ones, (char)sign);
    store512(p, wide_bytes_in_order(_mm512_or_si512(code, bits)));
}

/* ---- bytes ---- */

/* Shift 64 numbers of 16 bits to the right, and return their lowest 8 bits. */
PQ_INLINE __m512i wide_bytes_of(const uint16_t *p, int shift)
{
    const __m128i by = _mm_cvtsi32_si128(shift);
    const __m512i lo = _mm512_srl_epi16(_mm512_loadu_si512(p), by);
    const __m512i hi = _mm512_srl_epi16(_mm512_loadu_si512(p + 32), by);
    return _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi16_epi8(lo)),
                              _mm512_cvtepi16_epi8(hi), 1);
}

/* Load 64 codes in an order that store_wide_pairs() reverses. */
PQ_INLINE __m512i load_wide_codes(const void *p)
{
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7),
                                    _mm512_loadu_si512(p));
}

/* Return the entries `at` of a table of 256 bytes. */
PQ_INLINE __m512i wide_look_up(const __m512i *table, __m512i at)
{
    const __m512i first = _mm512_permutex2var_epi8(table[0], at, table[1]);
    const __m512i second = _mm512_permutex2var_epi8(table[2], at, table[3]);
    return _mm512_mask_mov_epi8(first, _mm512_movepi8_mask(at), second);
}

PQ_INLINE void store_wide_pairs(void *p, __m512i lower, __m512i upper)
{
    store512(p, _mm512_unpacklo_epi8(lower, upper));
    store512((char *)p + sizeof lower, _mm512_unpackhi_epi8(lower, upper));
}

/* ---- packed codes of 4 bits ---- */

/* Return 16 codes from 8 bytes, each in the lowest bits of an int32 with garbage above.
 * `flip` is 4 if the first code of a byte is in the upper bits, else 0. */
PQ_INLINE __m512i wide_spread4(const void *p, int flip)
{
    const __m512i places = _mm512_setr_epi64(INT64_C(0x0400000000), INT64_C(0x0c00000008),
                                             INT64_C(0x1400000010), INT64_C(0x1c00000018),
                                             INT64_C(0x2400000020), INT64_C(0x2c00000028),
                                             INT64_C(0x3400000030), INT64_C(0x3c00000038));
    int64_t codes;
    memcpy(&codes, p, sizeof codes);
    const __m512i flipped = _mm512_xor_si512(places, _mm512_set1_epi32(flip));
    return _mm512_multishift_epi64_epi8(flipped, _mm512_set1_epi64(codes));
}

/* Return 32 codes from 16 bytes, each in the lowest bits of an int16 with garbage above. */
PQ_INLINE __m512i wide_spread4_16(const void *p)
{
    const __m512i places = _mm512_set1_epi64(INT64_C(0x0024002000040000));
    return _mm512_multishift_epi64_epi8(places, _mm512_cvtepu8_epi32(load128(p)));
}

/* Dequantize the 8 consecutive codes from `first` on. */
PQ_INLINE __m256 dequantize_8_codes(int first, __m256i z, __m256 s)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i code = _mm256_add_epi32(lane, _mm256_set1_epi32(first));
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(code, z)), s);
}

PQ_INLINE __m256i halves_f16(__m256 lo, __m256 hi)
{
    return _mm256_set_m128i(_mm256_cvtps_ph(hi, _MM_FROUND_TO_NEAREST_INT),
                            _mm256_cvtps_ph(lo, _MM_FROUND_TO_NEAREST_INT));
}

PQ_INLINE __m256i halves_bf16(__m256 lo, __m256 hi, int special)
{
    if (special) { /* like store_bf16() */
        const __m256i both = _mm256_packus_epi32(narrow_bf16(lo), narrow_bf16(hi));
        return _mm256_permute4x64_epi64(both, 0xd8);
    }
    const __m256bh both = _mm256_cvtne2ps_pbh(hi, lo);
    __m256i bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}

/* Return a table of the 16 values of a group, 16 bits or 32 bits each. A table of 16-bit
 * values is repeated, so that the bit above a code has no effect. */
PQ_INLINE __m512i wide_results(__m256 lo, __m256 hi, enum pq_type real, int special)
{
    if (special) {
        lo = fix_nan_ps(lo);
        hi = fix_nan_ps(hi);
    }
    if (real == PQ_F32) {
        return _mm512_castps_si512(_mm512_insertf32x8(_mm512_castps256_ps512(lo), hi, 1));
    }
    return _mm512_broadcast_i64x4(real == PQ_F16 ? halves_f16(lo, hi)
                                                 : halves_bf16(lo, hi, special));
}

/* ---- complete cache lines ---- */

/* Contiguous vectors, stored as aligned cache lines. Each line is the end of one vector and
 * the beginning of the next. The memory must be aligned to 4 bytes. */
struct lines {
    __m512i before, from, shifted;
    char *to, *next;
};

PQ_INLINE struct lines lines_from(char *begin)
{
    const size_t short_of = (size_t)-(uintptr_t)begin % sizeof(__m512i) / sizeof(int32_t);
    const __m512i lane =
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return (struct lines){
        .before = lane,
        .from = _mm512_add_epi32(lane, _mm512_set1_epi32(16)), /* first vector: no shift */
        .shifted = _mm512_add_epi32(lane, _mm512_set1_epi32((int)short_of)),
        .to = begin,
        .next = begin + short_of * sizeof(int32_t),
    };
}

/* Store the next aligned line. The first call stores an unaligned vector. */
PQ_INLINE void store_line(struct lines *lines, __m512i v)
{
    store512(lines->to, _mm512_permutex2var_epi32(lines->before, lines->from, v));
    lines->before = v;
    lines->from = lines->shifted;
    lines->to = lines->next;
    lines->next += sizeof v;
}

/* Store the last vector, which ends at `end`. */
PQ_INLINE void store_last_line(const struct lines *lines, char *end)
{
    store512(end - sizeof lines->before, lines->before);
}

#undef LEAST_PS
#undef LEAST_PD
#undef CAP_PS
#undef CAP_PD

#endif
