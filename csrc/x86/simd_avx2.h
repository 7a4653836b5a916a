/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inline functions on vectors (words) in AVX2, FMA and F16C. Chunks have 4 x 8 elements.
 */
#ifndef PQ_SIMD_AVX2_H
#define PQ_SIMD_AVX2_H

#include "x86/avx2.h"

#include "x86/words.inc"

#define PQ_SQUARE4 8
#define PQ_SQUARE8 4

/* ---- load ---- */

/* Convert 16 codes of a narrow float, each in the upper byte of a 16-bit lane, to float16.
 * See pq_f16_bits_of_code. */
PQ_INLINE __m256i halves_of(__m256i code, enum pq_type type)
{
    const struct pq_format format = pq_format_of(type);
    const int unused = format.sign == 0x80 ? 0 : format.sign == 0x20 ? 2 : 4;
    const int mag = (format.sign - 1) << format.half_shift;
    const __m256i nan = _mm256_set1_epi16(0x7e00);
    const __m256i top = _mm256_slli_epi16(code, unused);
    __m256i half = _mm256_srai_epi16(top, 8 + unused - format.half_shift);
    half = _mm256_and_si256(half, _mm256_set1_epi16((short)(mag | 0x8000)));
    if (type == PQ_F8E4M3FN) {
        const __m256i all = _mm256_or_si256(code, _mm256_set1_epi16((short)0x8000));
        const __m256i is_nan = _mm256_cmpeq_epi16(all, _mm256_set1_epi16((short)0xff00));
        return _mm256_blendv_epi8(half, nan, is_nan);
    }
    if (type == PQ_F8E5M2FNUZ) {
        const __m256i sign = _mm256_set1_epi16((short)0x8000);
        const __m256i m = _mm256_andnot_si256(sign, half);
        const __m256i lowered = _mm256_sub_epi16(m, _mm256_set1_epi16(0x400));
        half = _mm256_or_si256(_mm256_max_epi16(_mm256_srli_epi16(m, 1), lowered),
                               _mm256_and_si256(half, sign));
    }
    if (type != PQ_F8E5M2 && format.infinity != 0) { /* e5m2 codes need no correction */
        const __m256i last = _mm256_set1_epi16((short)(format.infinity << 8));
        const __m256i m = _mm256_and_si256(code, _mm256_set1_epi16(0x7f00));
        const __m256i infinite = _mm256_or_si256(half, _mm256_set1_epi16(0x7c00));
        const __m256i finite_or_not =
            _mm256_blendv_epi8(half, infinite, _mm256_cmpeq_epi16(m, last));
        return _mm256_blendv_epi8(finite_or_not, nan, _mm256_cmpgt_epi16(m, last));
    }
    if (!format.signed_zero) {
        const __m256i is_nan = _mm256_cmpeq_epi16(code, _mm256_set1_epi16((short)0x8000));
        return _mm256_blendv_epi8(half, nan, is_nan);
    }
    return half;
}

/* Replace each NaN of e5m2 by 0x7e, the upper byte of the canonical float16 NaN. */
PQ_INLINE __m256i canonical_e5m2(__m256i code)
{
    const __m256i mag = _mm256_and_si256(code, _mm256_set1_epi8(0x7f));
    const __m256i is_nan = _mm256_cmpgt_epi8(mag, _mm256_set1_epi8(0x7c));
    return _mm256_blendv_epi8(code, _mm256_set1_epi8(0x7e), is_nan);
}

PQ_INLINE vf load_float_codes(const void *p, enum pq_type type)
{
    const __m256i all = load256(p), zero = _mm256_setzero_si256();
    const __m256i code =
        _mm256_permute4x64_epi64(type == PQ_F8E5M2 ? canonical_e5m2(all) : all, 0xd8);
    const __m256i lo = halves_of(_mm256_unpacklo_epi8(zero, code), type);
    const __m256i hi = halves_of(_mm256_unpackhi_epi8(zero, code), type);
    return (vf){_mm256_cvtph_ps(_mm256_castsi256_si128(lo)),
                _mm256_cvtph_ps(_mm256_extracti128_si256(lo, 1)),
                _mm256_cvtph_ps(_mm256_castsi256_si128(hi)),
                _mm256_cvtph_ps(_mm256_extracti128_si256(hi, 1))};
}

/* ---- arithmetic ---- */

/* Return true if an element is NaN. A comparison of two vectors finds the NaNs of
 * both. */
PQ_INLINE int any_nan(vf x)
{
    const __m256 ab = _mm256_cmp_ps(x.a, x.b, _CMP_UNORD_Q);
    const __m256 cd = _mm256_cmp_ps(x.c, x.d, _CMP_UNORD_Q);
    return _mm256_movemask_ps(_mm256_or_ps(ab, cd)) != 0;
}

PQ_INLINE int any_nan_f64(vd x)
{
    const __m256d ab = _mm256_cmp_pd(x.a, x.b, _CMP_UNORD_Q);
    const __m256d cd = _mm256_cmp_pd(x.c, x.d, _CMP_UNORD_Q);
    return _mm256_movemask_pd(_mm256_or_pd(ab, cd)) != 0;
}

PQ_INLINE vf gather_nans(vf x, vf seen)
{
    const __m256 ab = _mm256_cmp_ps(x.a, x.b, _CMP_UNORD_Q);
    const __m256 cd = _mm256_cmp_ps(x.c, x.d, _CMP_UNORD_Q);
    return (vf){_mm256_or_ps(seen.a, ab), _mm256_or_ps(seen.b, cd), seen.c, seen.d};
}

#define EXTREME_F64(word, which)                                                           \
    PQ_INLINE double word(vd x)                                                            \
    {                                                                                      \
        const f64v m = FOLD(_mm256_##which##_pd, x);                                       \
        const __m128d lo = _mm256_castpd256_pd128(m), hi = _mm256_extractf128_pd(m, 1);    \
        const __m128d two = _mm_##which##_pd(lo, hi);                                      \
        return _mm_cvtsd_f64(_mm_##which##_sd(two, _mm_unpackhi_pd(two, two)));            \
    }
EXTREME_F64(smallest_f64, min)
EXTREME_F64(largest_f64, max)
#undef EXTREME_F64

/* Combine two rows in one vector: reduce each row to half of its lanes. */
#define PAIR(f, x, y) f(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y))
#define ROW(p, k) _mm256_loadu_ps((p) + (k) * PQ_LANES)
#define QUAD(f, p, k)                                                                      \
    PAIR(f, PAIR(f, ROW(p, k), ROW(p, (k) + 2)), PAIR(f, ROW(p, (k) + 1), ROW(p, (k) + 3)))

/* Store the smallest or the largest number of each of PQ_LANES rows of PQ_LANES numbers. */
#define OF_ROWS(word, f)                                                                   \
    PQ_INLINE void word(float *to, const float *rows)                                      \
    {                                                                                      \
        const __m256 lo = QUAD(f, rows, 0), hi = QUAD(f, rows, 4);                         \
        _mm256_storeu_ps(to, f(_mm256_permute2f128_ps(lo, hi, 0x20),                       \
                               _mm256_permute2f128_ps(lo, hi, 0x31)));                     \
    }
OF_ROWS(smallest_of_rows, _mm256_min_ps)
OF_ROWS(largest_of_rows, _mm256_max_ps)
#undef PAIR
#undef ROW
#undef QUAD
#undef OF_ROWS

/* Combine two lines in one vector: reduce each line to half of its lanes. */
#define PAIR(f, x, y) f(_mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y))
#define LINE(p, k) load256((p) + (k) * PQ_LANES16)
#define QUAD(f, p, k)                                                                      \
    PAIR(f, PAIR(f, LINE(p, k), LINE(p, (k) + 4)),                                         \
         PAIR(f, LINE(p, (k) + 2), LINE(p, (k) + 6)))

/* Store the smallest or the largest number of each of 8 lines of PQ_LANES16 numbers. */
#define OF_LINES(word, f, f128)                                                            \
    PQ_INLINE void word(int16_t *to, const int16_t *lines)                                 \
    {                                                                                      \
        const __m256i all = PAIR(f, QUAD(f, lines, 0), QUAD(f, lines, 1));                 \
        store128(to, f128(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1))); \
    }
OF_LINES(smallest_of_lines, _mm256_min_epi16, _mm_min_epi16)
OF_LINES(largest_of_lines, _mm256_max_epi16, _mm_max_epi16)
#undef PAIR
#undef LINE
#undef QUAD
#undef OF_LINES

/* ---- store ---- */

/* For each element, store a byte: 1 where x and y are equal, else 0. */
PQ_INLINE void store_equal(void *p, vi x, vi y)
{
    const vi same = EACH2(_mm256_cmpeq_epi32, x, y);
    const __m256i lo = _mm256_packs_epi32(same.a, same.b);
    const __m256i hi = _mm256_packs_epi32(same.c, same.d);
    const __m256i bytes = narrow_i8v(lo, hi);
    store256(p, _mm256_and_si256(bytes, _mm256_set1_epi8(1)));
}

/* Store magnitude codes of a narrow float, plus the sign bit `sign` where `signs` is
 * negative. Pack instructions keep signs. The code `bare` never gets the sign bit. */
PQ_INLINE void store_float_codes(void *p, vi magnitudes, vi signs, int sign, int bare)
{
    const __m256i code =
        _mm256_packus_epi16(_mm256_packs_epi32(magnitudes.a, magnitudes.b),
                            _mm256_packs_epi32(magnitudes.c, magnitudes.d));
    const __m256i packed = _mm256_packs_epi16(_mm256_packs_epi32(signs.a, signs.b),
                                              _mm256_packs_epi32(signs.c, signs.d));
    const __m256i all = _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), packed),
                                         _mm256_set1_epi8((char)sign));
    const __m256i negative =
        _mm256_andnot_si256(_mm256_cmpeq_epi8(code, _mm256_set1_epi8((char)bare)), all);
    store256(p, undo_pack_order(_mm256_or_si256(code, negative)));
}

/* ---- random words ---- */

#define PQ_STREAMS 8
typedef struct {
    __m256i a, b;
} vu;

#define upper_u64v(x) _mm256_srli_epi64(x, 32)
PAIR2(vu, add_u64, _mm256_add_epi64)
PAIR2(vu, product_u32, _mm256_mul_epu32)
PAIR2(vu, flip_u64, _mm256_xor_si256)
PAIR1(vu, upper_u64, upper_u64v)

LIFT_AS(vu, splat_u64, (uint64_t s),
        {_mm256_set1_epi64x((long long)s), _mm256_set1_epi64x((long long)s)})
/* Load numbers in an order that the unpack instructions of store_4_streams() undo. */
LIFT_AS(vu, load_streams, (const uint64_t *p),
        {IN_ORDER16(load256(p)), IN_ORDER16(load256(p + 4))})

PQ_INLINE void store_4_streams(uint32_t *to, __m256i a, __m256i b, __m256i c, __m256i d)
{
    const __m256i lo = _mm256_blend_epi32(a, _mm256_slli_epi64(b, 32), 0xaa);
    const __m256i hi = _mm256_blend_epi32(c, _mm256_slli_epi64(d, 32), 0xaa);
    store256(to, _mm256_unpacklo_epi64(lo, hi));
    store256(to + 8, _mm256_unpackhi_epi64(lo, hi));
}

PQ_INLINE void store_streams(uint32_t *to, vu a, vu b, vu c, vu d)
{
    store_4_streams(to, a.a, b.a, c.a, d.a);
    store_4_streams(to + 16, a.b, b.b, c.b, d.b);
}

/* ---- bytes ---- */

/* Convert int8 to int32. */
PQ_INLINE vi widen_bytes(vb x)
{
    const __m128i lo = _mm256_castsi256_si128(x), hi = _mm256_extracti128_si256(x, 1);
    return (vi){_mm256_cvtepi8_epi32(lo), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(lo, lo)),
                _mm256_cvtepi8_epi32(hi), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(hi, hi))};
}

/* The lower and the upper bytes of the 16-bit results of 16 codes. */
struct result_bytes {
    vb lower, upper;
};

PQ_INLINE struct result_bytes load_results(const uint16_t *p)
{
    const __m128i a = load128(p), b = load128(p + 8), low = _mm_set1_epi16(0xff);
    const __m128i lower = _mm_packus_epi16(_mm_and_si128(a, low), _mm_and_si128(b, low));
    const __m128i upper = _mm_packus_epi16(_mm_srli_epi16(a, 8), _mm_srli_epi16(b, 8));
    return (struct result_bytes){_mm256_broadcastsi128_si256(lower),
                                 _mm256_broadcastsi128_si256(upper)};
}

/* Look up the 16-bit results of a chunk of codes, and store them. */
PQ_INLINE void store_results(void *p, struct result_bytes of, vb codes)
{
    const vb at = IN_ORDER16(codes);
    const vb lower = _mm256_shuffle_epi8(of.lower, at);
    const vb upper = _mm256_shuffle_epi8(of.upper, at);
    store256(p, _mm256_unpacklo_epi8(lower, upper));
    store256((char *)p + sizeof lower, _mm256_unpackhi_epi8(lower, upper));
}

/* Unpack codes of 4 or 2 bits. The upper bits of each byte are undefined. */
PQ_INLINE vb unpack_4_bits(const void *p)
{
    const __m256i w = _mm256_cvtepu8_epi16(load128(p));
    return _mm256_or_si256(w, _mm256_slli_epi16(w, 4));
}

PQ_INLINE vb unpack_2_bits(const void *p)
{
    return fields_of_2_bits(load64(p));
}

/* Pack codes of 4 or 2 bits, which are in the low bits of bytes. */
PQ_INLINE void pack_4_bits(void *p, vb x)
{
    const __m256i w = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x1001));
    const __m256i b = _mm256_packus_epi16(w, w);
    store128(p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(b, 0x08)));
}

PQ_INLINE void pack_2_bits(void *p, vb x)
{
    const __m256i w = join_fields_of_2_bits(x);
    const __m256i h = _mm256_packus_epi32(w, w);
    const __m256i b = _mm256_packus_epi16(h, h);
    _mm_storel_epi64((__m128i *)p, _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
                                       b, _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0))));
}

/* Store 16 bytes, each from one of several input lines. Lines begin at distances of `step`
 * bytes. Byte i is byte `places[16 * k + i]` of line k, unless this index is 255. */
PQ_INLINE void join_bytes(char *to, const char *from, ptrdiff_t step, const uint8_t *places,
                          size_t lines)
{
    __m128i all = _mm_setzero_si128();
    for (size_t k = 0; k < lines; k++) {
        const __m128i picked =
            _mm_shuffle_epi8(load128(from + (ptrdiff_t)k * step), load128(places + k * 16));
        all = _mm_or_si128(all, picked);
    }
    store128(to, all);
}

/* ---- transpose squares of 8 x 8 elements, or of 4 x 4 elements of 8 bytes ---- */

/* Load the 16 bytes at p, and the 16 bytes at p + distance. */
PQ_INLINE __m256i load_two(const char *p, ptrdiff_t distance)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(p)),
                                   load128(p + distance), 1);
}

PQ_INLINE void store_two_lines(char *to, ptrdiff_t stride, __m128i lines)
{
    _mm_storel_epi64((__m128i *)to, lines);
    store_high64(to + stride, lines);
}

/* Words for two lines of 16 bytes, at a distance of `distance` bytes in memory. */
#define PQ_HAS_LINES 1
typedef __m256i line_pair;
#define load_lines load_two
#define shuffle_lines(v, order) _mm256_shuffle_epi8(v, load_two(order, 0))
#define swap_middle_quarters(v) _mm256_permute4x64_epi64(v, 0xd8)

PQ_INLINE void store_lines(char *p, ptrdiff_t distance, line_pair v)
{
    if (distance == sizeof v / 2) {
        store256(p, v);
    } else {
        store128(p, LOWER_I(v));
        store128(p + distance, UPPER_I(v));
    }
}

#define LOAD_BYTES(p, stride) _mm_unpacklo_epi8(load64(p), load64((p) + 4 * (stride)))
#define LOAD_LINE(p, stride) load128(p)
#define LOAD_WORDS(p, stride) load_two(p, 4 * (stride))
#define LOAD_DOUBLES(p, stride) load_two(p, 2 * (stride))
#define STORE_LINE(p, stride, v) store128(p, v)
#define STORE_LONG_LINE(p, stride, v) store256(p, v)
SQUARE(transpose_bytes, 4, 2, 2, __m128i, LOAD_BYTES, _mm_unpacklo_epi8, _mm_unpackhi_epi8,
       store_two_lines)
SQUARE(transpose_halves, 8, 3, 1, __m128i, LOAD_LINE, _mm_unpacklo_epi16,
       _mm_unpackhi_epi16, STORE_LINE)
SQUARE(transpose_4_words, 4, 2, 1, __m256i, LOAD_WORDS, _mm256_unpacklo_epi32,
       _mm256_unpackhi_epi32, STORE_LONG_LINE)
SQUARE(transpose_2_doubles, 2, 1, 1, __m256i, LOAD_DOUBLES, _mm256_unpacklo_epi64,
       _mm256_unpackhi_epi64, STORE_LONG_LINE)

PQ_INLINE void transpose_words(const char *from, ptrdiff_t from_stride, char *to,
                               ptrdiff_t to_stride)
{
    transpose_4_words(from, from_stride, to, to_stride);
    transpose_4_words(from + 16, from_stride, to + 4 * to_stride, to_stride);
}

PQ_INLINE void transpose_doubles(const char *from, ptrdiff_t from_stride, char *to,
                                 ptrdiff_t to_stride)
{
    transpose_2_doubles(from, from_stride, to, to_stride);
    transpose_2_doubles(from + 16, from_stride, to + 2 * to_stride, to_stride);
}

#endif
