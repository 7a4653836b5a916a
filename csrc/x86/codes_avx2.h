/* SPDX-License-Identifier: Apache-2.0 */
/* The words of scalar/codes_scalar.h. The file that includes it has the intrinsics. */
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

/* Each byte four times, moved down by 0, 2, 4 and 6 bits: as two bytes, then as four. */
PQ_INLINE c32 c32_pairs(uint64_t x)
{
    const __m256i w = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)x));
    const __m256i two = _mm256_and_si256(_mm256_or_si256(w, _mm256_slli_epi32(w, 12)),
                                         _mm256_set1_epi32(0x000f000f));
    const __m256i four = _mm256_or_si256(two, _mm256_slli_epi32(two, 6));
    return _mm256_and_si256(four, _mm256_set1_epi8(3));
}

/* The same by steps of 3 bits. */
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

PQ_INLINE c32 c32_raise(c32 x, int shift)
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

/* As upper bytes of 16 bits, of whose products no more is left than of bytes. */
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

/* In order, as streams go: see store_f32 in simd_avx2.h. */
PQ_INLINE void store_eight(char *to, __m256 x)
{
    _mm256_storeu_ps((float *)to, x);
    PQ_IN_ORDER();
}

PQ_INLINE void store_scaled(char *to, c32 x, float a, float b)
{
    const __m128i lo = _mm256_castsi256_si128(x), hi = _mm256_extracti128_si256(x, 1);
    const __m256 va = _mm256_set1_ps(a), vb = _mm256_set1_ps(b);
    store_eight(to, _mm256_mul_ps(eight_of(lo), va));
    store_eight(to + 32, _mm256_mul_ps(eight_of(_mm_unpackhi_epi64(lo, lo)), va));
    store_eight(to + 64, _mm256_mul_ps(eight_of(hi), vb));
    store_eight(to + 96, _mm256_mul_ps(eight_of(_mm_unpackhi_epi64(hi, hi)), vb));
}

PQ_INLINE void store_shifted(char *to, c32 x, float a, float b, float c, float d)
{
    const __m128i lo = _mm256_castsi256_si128(x), hi = _mm256_extracti128_si256(x, 1);
    const __m256 va = _mm256_set1_ps(a), vb = _mm256_set1_ps(b);
    const __m256 vc = _mm256_set1_ps(c), vd = _mm256_set1_ps(d);
    const __m128i lo8 = _mm_unpackhi_epi64(lo, lo), hi8 = _mm_unpackhi_epi64(hi, hi);
    store_eight(to, _mm256_fmadd_ps(eight_of(lo), va, vc));
    store_eight(to + 32, _mm256_fmadd_ps(eight_of(lo8), va, vc));
    store_eight(to + 64, _mm256_fmadd_ps(eight_of(hi), vb, vd));
    store_eight(to + 96, _mm256_fmadd_ps(eight_of(hi8), vb, vd));
}

PQ_INLINE void narrow_to_f16(uint16_t *to, const float *from)
{
    for (int i = 0; i < 32; i += 8) {
        const __m256 x = _mm256_loadu_ps(from + i);
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
    }
}

/* Nearest even by integer addition. */
PQ_INLINE __m256i upper_half(const float *from)
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
            _mm256_packus_epi32(upper_half(from + i), upper_half(from + i + 8));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_permute4x64_epi64(both, 0xd8));
    }
}

#endif
