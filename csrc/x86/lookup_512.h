/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inline functions on 512-bit registers that look up the results of codes in tables.
 */
#ifndef PQ_LOOKUP_512_H
#define PQ_LOOKUP_512_H

#include "x86/simd_avx512.h"

enum { WIDE_CODES = 64 };

PQ_INLINE void store512(void *p, __m512i v)
{
    _mm512_storeu_si512(p, v);
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

/* Load 64 codes in an order that the unpack instructions of store_wide_pairs() undo. */
PQ_INLINE __m512i load_wide_codes(const void *p)
{
    return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7),
                                    _mm512_loadu_si512(p));
}

/* Look up 64 bytes in a table of 256 bytes. `at` contains their indices. */
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

/* Return 16 codes from 8 bytes, each in the lowest bits of an int32 with undefined bits
 * above. `flip` is 4 if the first code of a byte is in the upper bits, else 0. */
PQ_INLINE __m512i wide_unpack4(const void *p, int flip)
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

/* Return 32 codes from 16 bytes, each in the lowest bits of an int16. Its other bits are
 * undefined. */
PQ_INLINE __m512i wide_unpack4_16(const void *p)
{
    const __m512i places = _mm512_set1_epi64(INT64_C(0x0024002000040000));
    return _mm512_multishift_epi64_epi8(places, _mm512_cvtepu8_epi32(load128(p)));
}

/* Dequantize the 8 codes `first` to `first` + 7, by zero points z and scales s. */
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
    if (special) { /* vcvtne2ps2bf16 would flush subnormals */
        const __m256i both = _mm256_packus_epi32(narrow_bf16(lo), narrow_bf16(hi));
        return _mm256_permute4x64_epi64(both, 0xd8);
    }
    const __m256bh both = _mm256_cvtne2ps_pbh(hi, lo);
    __m256i bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}

/* Return a table of the 16 values of a group, 16 bits or 32 bits each. A table of 16-bit
 * values is repeated, so that the bit above a code has no effect. `special` is true if
 * values can be NaN or subnormal. */
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

PQ_INLINE struct lines begin_lines(char *begin)
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

#endif
