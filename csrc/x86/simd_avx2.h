/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector words in AVX2, FMA and F16C: a block is 4 x 8 elements, in order. Twin of
 * scalar/simd_scalar.h. Words apply a step to all four vectors before the next step, so
 * that four dependency chains are in flight.
 */
#ifndef PQ_SIMD_AVX2_H
#define PQ_SIMD_AVX2_H

#include "math/narrow_float.h"
#include "math/scalar_math.h"

#define PQ_CHUNK 32
#define PQ_LANES 8
#define PQ_LANES16 16
#define PQ_HALF (PQ_CHUNK / 2)
#define PQ_SQUARE4 8
#define PQ_SQUARE8 4
#define PQ_BODY PQ_INLINE
#define PQ_SPECIALISED 1
#define PQ_FAST_QUOTIENT 1
/* The convert instruction turns NaN and everything below INT32_MIN into INT32_MIN, which
 * the packs saturate to the lowest code: no lower bound is needed for 8 bits. */
#define PQ_CONVERT_IS_LOW 1

typedef __m256 f32v;
typedef __m256d f64v;

typedef struct {
    f32v a, b, c, d;
} vf;

typedef struct {
    __m256i a, b, c, d;
} vi;

typedef __m256i vb;

/* f applied to the four vectors of blocks x, y and z. */
#define EACH1(f, x) {f((x).a), f((x).b), f((x).c), f((x).d)}
#define EACH2(f, x, y) {f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)}
#define EACH3(f, x, y, z)                                                                  \
    {f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c),               \
     f((x).d, (y).d, (z).d)}

/* ---- load and splat ---- */

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

PQ_INLINE vf load_f32(const void *p)
{
    const float *f = p;
    return (vf){_mm256_loadu_ps(f), _mm256_loadu_ps(f + 8), _mm256_loadu_ps(f + 16),
                _mm256_loadu_ps(f + 24)};
}

PQ_INLINE vf load_f16(const void *p)
{
    const uint16_t *h = p;
    return (vf){_mm256_cvtph_ps(load128(h)), _mm256_cvtph_ps(load128(h + 8)),
                _mm256_cvtph_ps(load128(h + 16)), _mm256_cvtph_ps(load128(h + 24))};
}

PQ_INLINE __m256 widen_bf16(const uint16_t *h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load128(h)), 16));
}

PQ_INLINE vf load_bf16(const void *p)
{
    const uint16_t *h = p;
    return (vf){widen_bf16(h), widen_bf16(h + 8), widen_bf16(h + 16), widen_bf16(h + 24)};
}

PQ_INLINE vi load_i8(const void *p)
{
    const int8_t *c = p;
    return (vi){_mm256_cvtepi8_epi32(load64(c)), _mm256_cvtepi8_epi32(load64(c + 8)),
                _mm256_cvtepi8_epi32(load64(c + 16)), _mm256_cvtepi8_epi32(load64(c + 24))};
}

PQ_INLINE vi load_u8(const void *p)
{
    const uint8_t *c = p;
    return (vi){_mm256_cvtepu8_epi32(load64(c)), _mm256_cvtepu8_epi32(load64(c + 8)),
                _mm256_cvtepu8_epi32(load64(c + 16)), _mm256_cvtepu8_epi32(load64(c + 24))};
}

PQ_INLINE vi load_i16(const void *p)
{
    const int16_t *c = p;
    return (vi){_mm256_cvtepi16_epi32(load128(c)), _mm256_cvtepi16_epi32(load128(c + 8)),
                _mm256_cvtepi16_epi32(load128(c + 16)),
                _mm256_cvtepi16_epi32(load128(c + 24))};
}

PQ_INLINE vi load_u16(const void *p)
{
    const uint16_t *c = p;
    return (vi){_mm256_cvtepu16_epi32(load128(c)), _mm256_cvtepu16_epi32(load128(c + 8)),
                _mm256_cvtepu16_epi32(load128(c + 16)),
                _mm256_cvtepu16_epi32(load128(c + 24))};
}

PQ_INLINE vi load_i32(const void *p)
{
    const int32_t *c = p;
    return (vi){load256(c), load256(c + 8), load256(c + 16), load256(c + 24)};
}

/* 16 codes of a narrow float, each in the upper byte of its word, as float16 numbers; see
 * pq_half_of_code. */
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
    if (type != PQ_F8E5M2 && format.infinity != 0) { /* that of e5m2 is float16's already */
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

/* Every NaN of e5m2 as the one whose float16 number is canonical. */
PQ_INLINE __m256i canonical_e5m2(__m256i code)
{
    const __m256i mag = _mm256_and_si256(code, _mm256_set1_epi8(0x7f));
    const __m256i is_nan = _mm256_cmpgt_epi8(mag, _mm256_set1_epi8(0x7c));
    return _mm256_blendv_epi8(code, _mm256_set1_epi8(0x7e), is_nan);
}

PQ_INLINE vf load_halves(const void *p, enum pq_type type)
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

PQ_INLINE vf splat(float s)
{
    const __m256 v = _mm256_set1_ps(s);
    return (vf){v, v, v, v};
}

PQ_INLINE vi splat_i32(int32_t s)
{
    const __m256i v = _mm256_set1_epi32(s);
    return (vi){v, v, v, v};
}

PQ_INLINE vf load_groups(const float *s, size_t g)
{
    const __m256 a = _mm256_broadcast_ss(s), b = _mm256_broadcast_ss(s + 1);
    if (g == 16) {
        return (vf){a, a, b, b};
    }
    return (vf){a, b, _mm256_broadcast_ss(s + 2), _mm256_broadcast_ss(s + 3)};
}

PQ_INLINE vi load_groups_i32(const int32_t *s, size_t g)
{
    const __m256i a = _mm256_set1_epi32(s[0]), b = _mm256_set1_epi32(s[1]);
    if (g == 16) {
        return (vi){a, a, b, b};
    }
    return (vi){a, b, _mm256_set1_epi32(s[2]), _mm256_set1_epi32(s[3])};
}

/* ---- arithmetic ---- */

PQ_INLINE vf divide(vf x, vf y)
{
    return (vf)EACH2(_mm256_div_ps, x, y);
}

PQ_INLINE vf multiply(vf x, vf y)
{
    return (vf)EACH2(_mm256_mul_ps, x, y);
}

/* x * y + z, rounded once */
PQ_INLINE vf fused_add(vf x, vf y, vf z)
{
    return (vf)EACH3(_mm256_fmadd_ps, x, y, z);
}

/* z - x * y, rounded once */
PQ_INLINE vf fused_subtract(vf x, vf y, vf z)
{
    return (vf)EACH3(_mm256_fnmadd_ps, x, y, z);
}

/* x * y + z, where the product is exact */
PQ_INLINE vf scaled_add(vf x, vf y, vf z)
{
    return fused_add(x, y, z);
}

PQ_INLINE vf add(vf x, vf y)
{
    return (vf)EACH2(_mm256_add_ps, x, y);
}

PQ_INLINE vi add_i32(vi x, vi y)
{
    return (vi)EACH2(_mm256_add_epi32, x, y);
}

PQ_INLINE vi smaller_i32(vi x, vi y)
{
    return (vi)EACH2(_mm256_min_epi32, x, y);
}

PQ_INLINE vi mask_i32(vi x, int32_t bits)
{
    const vi mask = splat_i32(bits);
    return (vi)EACH2(_mm256_and_si256, x, mask);
}

/* Of numbers that are not negative. */
PQ_INLINE vi shift_right(vi x, int n)
{
    const __m256i by = _mm256_set1_epi32(n); /* counts of their own are faster than one */
    return (vi){_mm256_srlv_epi32(x.a, by), _mm256_srlv_epi32(x.b, by),
                _mm256_srlv_epi32(x.c, by), _mm256_srlv_epi32(x.d, by)};
}

PQ_INLINE vi bits_of(vf x)
{
    return (vi)EACH1(_mm256_castps_si256, x);
}

PQ_INLINE vf float_of(vi x)
{
    return (vf)EACH1(_mm256_castsi256_ps, x);
}

/* One comparison sees a NaN on either side. */
PQ_INLINE int any_nan(vf x)
{
    const __m256 ab = _mm256_cmp_ps(x.a, x.b, _CMP_UNORD_Q);
    const __m256 cd = _mm256_cmp_ps(x.c, x.d, _CMP_UNORD_Q);
    return _mm256_movemask_ps(_mm256_or_ps(ab, cd)) != 0;
}

PQ_INLINE vi subtract_i32(vi x, vi y)
{
    return (vi)EACH2(_mm256_sub_epi32, x, y);
}

/* One comparison sees a NaN on either side. */
PQ_INLINE vf gather_nans(vf x, vf seen)
{
    const __m256 ab = _mm256_cmp_ps(x.a, x.b, _CMP_UNORD_Q);
    const __m256 cd = _mm256_cmp_ps(x.c, x.d, _CMP_UNORD_Q);
    return (vf){_mm256_or_ps(seen.a, ab), _mm256_or_ps(seen.b, cd), seen.c, seen.d};
}

PQ_INLINE vf smaller(vf x, vf y)
{
    return (vf)EACH2(_mm256_min_ps, x, y);
}

PQ_INLINE vf larger(vf x, vf y)
{
    return (vf)EACH2(_mm256_max_ps, x, y);
}

PQ_INLINE vi larger_i32(vi x, vi y)
{
    return (vi)EACH2(_mm256_max_epi32, x, y);
}

/* The least and the largest of the vectors of a block, PQ_LANES of them. */
PQ_INLINE void store_smallest(float *p, vf x)
{
    _mm256_storeu_ps(p, _mm256_min_ps(_mm256_min_ps(x.a, x.b), _mm256_min_ps(x.c, x.d)));
}

PQ_INLINE void store_largest(float *p, vf x)
{
    _mm256_storeu_ps(p, _mm256_max_ps(_mm256_max_ps(x.a, x.b), _mm256_max_ps(x.c, x.d)));
}

/* Reduce pairs of rows to half as many lanes each, side by side. */
#define PAIR(f, x, y) f(_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y))
#define ROW(p, k) _mm256_loadu_ps((p) + (k) * PQ_LANES)
#define QUAD(f, p, k)                                                                      \
    PAIR(f, PAIR(f, ROW(p, k), ROW(p, (k) + 2)), PAIR(f, ROW(p, (k) + 1), ROW(p, (k) + 3)))
#define OF_ROWS(f, to, p)                                                                  \
    const __m256 lo = QUAD(f, p, 0), hi = QUAD(f, p, 4);                                   \
    _mm256_storeu_ps(                                                                      \
        to, f(_mm256_permute2f128_ps(lo, hi, 0x20), _mm256_permute2f128_ps(lo, hi, 0x31)))

/* The least and the largest of each of PQ_LANES rows of as many lanes. */
PQ_INLINE void smallest_of_rows(float *to, const float *rows)
{
    OF_ROWS(_mm256_min_ps, to, rows);
}

PQ_INLINE void largest_of_rows(float *to, const float *rows)
{
    OF_ROWS(_mm256_max_ps, to, rows);
}
#undef PAIR
#undef ROW
#undef QUAD
#undef OF_ROWS

PQ_INLINE void store_largest_i32(int32_t *p, vi x)
{
    store256(p, _mm256_max_epi32(_mm256_max_epi32(x.a, x.b), _mm256_max_epi32(x.c, x.d)));
}

/* ---- blocks of 16 bits ---- */

typedef struct {
    __m256i a, b;
} vh;

PQ_INLINE vh load_16(const void *p)
{
    const int16_t *c = p;
    return (vh){load256(c), load256(c + 16)};
}

PQ_INLINE void store_16(void *p, vh x)
{
    int16_t *c = p;
    store256(c, x.a);
    store256(c + 16, x.b);
}

/* Floating-point numbers as integers of the same order: signs and magnitudes as numbers. */
PQ_INLINE __m256i to_order_epi16(__m256i x)
{
    return _mm256_sign_epi16(_mm256_and_si256(x, _mm256_set1_epi16(0x7fff)), x);
}

PQ_INLINE vh to_order(vh x)
{
    return (vh){to_order_epi16(x.a), to_order_epi16(x.b)};
}

PQ_INLINE __m256i from_order_epi16(__m256i x)
{
    const __m256i sign = _mm256_and_si256(x, _mm256_set1_epi16(INT16_MIN));
    return _mm256_or_si256(_mm256_abs_epi16(x), sign);
}

PQ_INLINE vh from_order(vh x)
{
    return (vh){from_order_epi16(x.a), from_order_epi16(x.b)};
}

PQ_INLINE vh smaller_i16(vh x, vh y)
{
    return (vh){_mm256_min_epi16(x.a, y.a), _mm256_min_epi16(x.b, y.b)};
}

PQ_INLINE vh larger_i16(vh x, vh y)
{
    return (vh){_mm256_max_epi16(x.a, y.a), _mm256_max_epi16(x.b, y.b)};
}

/* The least and the largest of the vectors of a block, PQ_LANES16 of them. */
PQ_INLINE void store_smallest_i16(int16_t *p, vh x)
{
    store256(p, _mm256_min_epi16(x.a, x.b));
}

PQ_INLINE void store_largest_i16(int16_t *p, vh x)
{
    store256(p, _mm256_max_epi16(x.a, x.b));
}

/* Reduce pairs of lines to half as many lanes each, side by side. */
#define PAIR(f, x, y) f(_mm256_unpacklo_epi16(x, y), _mm256_unpackhi_epi16(x, y))
#define LINE(p, k) load256((p) + (k) * PQ_LANES16)
#define QUAD(f, p, k)                                                                      \
    PAIR(f, PAIR(f, LINE(p, k), LINE(p, (k) + 4)),                                         \
         PAIR(f, LINE(p, (k) + 2), LINE(p, (k) + 6)))
#define OF_LINES(f, f128, to, p)                                                           \
    const __m256i all = PAIR(f, QUAD(f, p, 0), QUAD(f, p, 1));                             \
    store128(to, f128(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1)))

/* The least and the largest of each of 8 lines of PQ_LANES16 lanes. */
PQ_INLINE void smallest_of_lines(int16_t *to, const int16_t *lines)
{
    OF_LINES(_mm256_min_epi16, _mm_min_epi16, to, lines);
}

PQ_INLINE void largest_of_lines(int16_t *to, const int16_t *lines)
{
    OF_LINES(_mm256_max_epi16, _mm_max_epi16, to, lines);
}
#undef PAIR
#undef LINE
#undef QUAD
#undef OF_LINES

/* min and max return their second operand when either is NaN: the order is the meaning. */
PQ_INLINE vf cap_keep_nan(vf x, vf hi)
{
    return (vf)EACH2(_mm256_min_ps, hi, x);
}

PQ_INLINE vf floor_drop_nan(vf x, vf lo)
{
    return (vf)EACH2(_mm256_max_ps, x, lo);
}

PQ_INLINE vf to_f32(vi x)
{
    return (vf)EACH1(_mm256_cvtepi32_ps, x);
}

PQ_INLINE __m256 canonical_nan_ps(__m256 x)
{
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000));
    return _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

PQ_INLINE vf canonical_nan(vf x)
{
    return (vf)EACH1(canonical_nan_ps, x);
}

PQ_INLINE __m256i magnitude_bits_ps(__m256 x)
{
    return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
}

PQ_INLINE vi magnitude_bits(vf x)
{
    return (vi)EACH1(magnitude_bits_ps, x);
}

/* Raise a magnitude other than 0 to at least `least`. NaN remains NaN, 0 becomes +0. */
PQ_INLINE __m256 raise_ps(__m256 x, __m256 least)
{
    const __m256 sign = _mm256_and_ps(x, _mm256_set1_ps(-0.0f));
    const __m256 raised = _mm256_max_ps(least, _mm256_xor_ps(x, sign));
    const __m256 is_some = _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_UQ);
    return _mm256_and_ps(_mm256_or_ps(raised, sign), is_some);
}

PQ_INLINE vf raise_magnitudes(vf x, vf least)
{
    return (vf)EACH2(raise_ps, x, least);
}

/* ---- primitives of rounding ---- */

#define splat_f32v _mm256_set1_ps
#define add_f32v _mm256_add_ps
#define subtract_f32v _mm256_sub_ps
#define or_f32v _mm256_or_ps
#define truncate_f32v _mm256_cvttps_epi32
#define nearest_i32v _mm256_cvtps_epi32

PQ_INLINE f32v sign_f32v(f32v q)
{
    return _mm256_and_ps(q, _mm256_set1_ps(-0.0f));
}

PQ_INLINE f32v magnitude_f32v(f32v q)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), q);
}

PQ_INLINE f32v up_f32v(f32v q)
{
    return _mm256_round_ps(q, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

PQ_INLINE f32v down_f32v(f32v q)
{
    return _mm256_round_ps(q, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

PQ_INLINE f32v nearest_f32v(f32v q)
{
    return _mm256_round_ps(q, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

/* Return q: truncate_f32v truncates. */
PQ_INLINE f32v toward_zero_f32v(f32v q)
{
    return q;
}

/* Return v where x and y are equal, else 0. */
PQ_INLINE f32v if_equal_f32v(f32v x, f32v y, f32v v)
{
    return _mm256_and_ps(_mm256_cmp_ps(x, y, _CMP_EQ_OQ), v);
}

/* ---- store ---- */

/* The packs work within 128-bit halves and leave groups of four bytes in the order
 * a0 b0 c0 d0 a1 b1 c1 d1. */
PQ_INLINE __m256i in_order(__m256i bytes)
{
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(bytes, order);
}

/* Rounded quotients plus zero points in saturating 16-bit arithmetic: in 32 bits INT32_MIN
 * plus a negative zero point would wrap. What saturates here is outside 8 bits anyway. */
PQ_INLINE __m256i add_narrow(__m256i r0, __m256i r1, __m256i z0, __m256i z1)
{
    return _mm256_adds_epi16(_mm256_packs_epi32(r0, r1), _mm256_packs_epi32(z0, z1));
}

/* The sums that become 8-bit codes, for words that take and give them in an order of their
 * own. */
PQ_INLINE vh narrow_sums(vi r, vi z)
{
    return (vh){add_narrow(r.a, r.b, z.a, z.b), add_narrow(r.c, r.d, z.c, z.d)};
}

PQ_INLINE vh splat_i16(int16_t s)
{
    const __m256i v = _mm256_set1_epi16(s);
    return (vh){v, v};
}

/* Negative ones are above all others. */
PQ_INLINE vh larger_u16(vh x, vh y)
{
    return (vh){_mm256_max_epu16(x.a, y.a), _mm256_max_epu16(x.b, y.b)};
}

/* `least` and as many more as are in `w`, within 0 and 255; modulo 256. */
PQ_INLINE void store_above_8(void *p, vh w, int least)
{
    const __m256i bytes = in_order(_mm256_packus_epi16(w.a, w.b));
    store256(p, _mm256_add_epi8(bytes, _mm256_set1_epi8((char)least)));
}

PQ_INLINE void store_i8(void *p, vi r, vi z)
{
    const __m256i lo = add_narrow(r.a, r.b, z.a, z.b);
    const __m256i hi = add_narrow(r.c, r.d, z.c, z.d);
    store256(p, in_order(_mm256_packs_epi16(lo, hi)));
}

PQ_INLINE void store_u8(void *p, vi r, vi z)
{
    const __m256i lo = add_narrow(r.a, r.b, z.a, z.b);
    const __m256i hi = add_narrow(r.c, r.d, z.c, z.d);
    store256(p, in_order(_mm256_packus_epi16(lo, hi)));
}

/* Quadwords a0 b0 a1 b1 -> a0 a1 b0 b1 */
#define IN_ORDER16(v) _mm256_permute4x64_epi64(v, 0xd8)

/* |r| <= 2^18: adding a 16-bit zero point in 32 bits cannot wrap. */
PQ_INLINE void store_i16(void *p, vi r, vi z)
{
    const vi v = EACH2(_mm256_add_epi32, r, z);
    int16_t *c = p;
    store256(c, IN_ORDER16(_mm256_packs_epi32(v.a, v.b)));
    store256(c + 16, IN_ORDER16(_mm256_packs_epi32(v.c, v.d)));
}

PQ_INLINE void store_u16(void *p, vi r, vi z)
{
    const vi v = EACH2(_mm256_add_epi32, r, z);
    uint16_t *c = p;
    store256(c, IN_ORDER16(_mm256_packus_epi32(v.a, v.b)));
    store256(c + 16, IN_ORDER16(_mm256_packus_epi32(v.c, v.d)));
}

PQ_INLINE void store_equal(void *p, vi x, vi y)
{
    const vi same = EACH2(_mm256_cmpeq_epi32, x, y);
    const __m256i lo = _mm256_packs_epi32(same.a, same.b);
    const __m256i hi = _mm256_packs_epi32(same.c, same.d);
    const __m256i bytes = in_order(_mm256_packs_epi16(lo, hi));
    store256(p, _mm256_and_si256(bytes, _mm256_set1_epi8(1)));
}

PQ_INLINE vi larger_u32(vi x, vi y)
{
    return (vi)EACH2(_mm256_max_epu32, x, y);
}

/* The same within 0 and 65535, modulo 65536. */
PQ_INLINE void store_above_16(void *p, vi w, int least)
{
    const __m256i base = _mm256_set1_epi16((short)least);
    const __m256i lo = IN_ORDER16(_mm256_packus_epi32(w.a, w.b));
    const __m256i hi = IN_ORDER16(_mm256_packus_epi32(w.c, w.d));
    uint16_t *c = p;
    store256(c, _mm256_add_epi16(lo, base));
    store256(c + 16, _mm256_add_epi16(hi, base));
}

/* To int32 and uint32, half to even, saturating, NaN to the least. The conversion makes
 * INT32_MIN of what int32 does not hold. */
PQ_INLINE __m256i whole_i32_ps(__m256 x)
{
    const __m256 above = _mm256_cmp_ps(x, _mm256_set1_ps(0x1p31f), _CMP_GE_OQ);
    return _mm256_xor_si256(_mm256_cvtps_epi32(x), _mm256_castps_si256(above));
}

PQ_INLINE vi whole_i32(vf x)
{
    return (vi)EACH1(whole_i32_ps, x);
}

PQ_INLINE __m256i whole_u32_ps(__m256 x)
{
    const __m256 half = _mm256_set1_ps(0x1p31f), v = _mm256_max_ps(x, _mm256_setzero_ps());
    const __m256 upper = _mm256_cmp_ps(v, half, _CMP_GE_OQ);
    const __m256 above = _mm256_cmp_ps(v, _mm256_set1_ps(0x1p32f), _CMP_GE_OQ);
    const __m256i rest = _mm256_cvtps_epi32(_mm256_sub_ps(v, _mm256_and_ps(upper, half)));
    const __m256i top = _mm256_slli_epi32(_mm256_castps_si256(upper), 31);
    return _mm256_or_si256(_mm256_xor_si256(rest, top), _mm256_castps_si256(above));
}

PQ_INLINE vi whole_u32(vf x)
{
    return (vi)EACH1(whole_u32_ps, x);
}

/* The halves are exact, their sum is rounded once. */
PQ_INLINE __m256 u32_to_ps(__m256i x)
{
    const __m256 hi = _mm256_cvtepi32_ps(_mm256_srli_epi32(x, 16));
    const __m256 lo = _mm256_cvtepi32_ps(_mm256_and_si256(x, _mm256_set1_epi32(0xffff)));
    return _mm256_fmadd_ps(hi, _mm256_set1_ps(0x1p16f), lo);
}

PQ_INLINE vf u32_to_f32(vi x)
{
    return (vf)EACH1(u32_to_ps, x);
}

/* Four stores in any other order take up to twice as long, as results are not in L1. */
PQ_INLINE void store_f32(void *p, vf x)
{
    float *f = p;
    _mm256_storeu_ps(f, x.a);
    PQ_IN_ORDER();
    _mm256_storeu_ps(f + 8, x.b);
    PQ_IN_ORDER();
    _mm256_storeu_ps(f + 16, x.c);
    PQ_IN_ORDER();
    _mm256_storeu_ps(f + 24, x.d);
    PQ_IN_ORDER();
}

PQ_INLINE void store_i32(void *p, vi x)
{
    int32_t *c = p;
    store256(c, x.a);
    store256(c + 8, x.b);
    store256(c + 16, x.c);
    store256(c + 24, x.d);
}

PQ_INLINE void store_f16(void *p, vf x)
{
    uint16_t *h = p;
    store128(h, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT));
    store128(h + 8, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT));
    store128(h + 16, _mm256_cvtps_ph(x.c, _MM_FROUND_TO_NEAREST_INT));
    store128(h + 24, _mm256_cvtps_ph(x.d, _MM_FROUND_TO_NEAREST_INT));
}

/* Round to the nearest even bfloat16 by integer addition. NaN must be canonical. */
PQ_INLINE __m256i narrow_bf16(__m256 x)
{
    const __m256i u = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    return _mm256_srli_epi32(_mm256_add_epi32(u, bias), 16);
}

PQ_INLINE void store_bf16(void *p, vf x)
{
    const vi u = EACH1(narrow_bf16, x);
    uint16_t *h = p;
    store256(h, IN_ORDER16(_mm256_packus_epi32(u.a, u.b)));
    store256(h + 16, IN_ORDER16(_mm256_packus_epi32(u.c, u.d)));
}

/* NaN stays one; its bits do not matter. */
PQ_INLINE __m256 round_to_f16_ps(__m256 x)
{
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

PQ_INLINE vf round_to_f16(vf x)
{
    return (vf)EACH1(round_to_f16_ps, x);
}

PQ_INLINE __m256 round_to_bf16_ps(__m256 x)
{
    const __m256 r = _mm256_castsi256_ps(_mm256_slli_epi32(narrow_bf16(x), 16));
    return _mm256_blendv_ps(r, x, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
}

PQ_INLINE vf round_to_bf16(vf x)
{
    return (vf)EACH1(round_to_bf16_ps, x);
}

/* Magnitudes of a narrow float, the signs those of `signs`, which the packs keep. */
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
    store256(p, in_order(_mm256_or_si256(code, negative)));
}

/* ---- float64: half a block, 4 x 4 numbers ---- */

typedef struct {
    f64v a, b, c, d;
} vd;

PQ_INLINE vd load_f64(const void *p)
{
    const double *f = p;
    return (vd){_mm256_loadu_pd(f), _mm256_loadu_pd(f + 4), _mm256_loadu_pd(f + 8),
                _mm256_loadu_pd(f + 12)};
}

/* Four stores in any other order take up to twice as long, as results are not in L1. */
PQ_INLINE void store_f64(void *p, vd x)
{
    double *f = p;
    _mm256_storeu_pd(f, x.a);
    PQ_IN_ORDER();
    _mm256_storeu_pd(f + 4, x.b);
    PQ_IN_ORDER();
    _mm256_storeu_pd(f + 8, x.c);
    PQ_IN_ORDER();
    _mm256_storeu_pd(f + 12, x.d);
    PQ_IN_ORDER();
}

PQ_INLINE vd splat_f64(double s)
{
    const __m256d v = _mm256_set1_pd(s);
    return (vd){v, v, v, v};
}

PQ_INLINE vd widen_ps(__m256 x, __m256 y)
{
    return (vd){_mm256_cvtps_pd(_mm256_castps256_ps128(x)),
                _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)),
                _mm256_cvtps_pd(_mm256_castps256_ps128(y)),
                _mm256_cvtps_pd(_mm256_extractf128_ps(y, 1))};
}

PQ_INLINE vd widen_epi32(__m256i x, __m256i y)
{
    return (vd){_mm256_cvtepi32_pd(_mm256_castsi256_si128(x)),
                _mm256_cvtepi32_pd(_mm256_extracti128_si256(x, 1)),
                _mm256_cvtepi32_pd(_mm256_castsi256_si128(y)),
                _mm256_cvtepi32_pd(_mm256_extracti128_si256(y, 1))};
}

/* The first and the second half of a block. */
PQ_INLINE vd low_f32(vf x)
{
    return widen_ps(x.a, x.b);
}

PQ_INLINE vd high_f32(vf x)
{
    return widen_ps(x.c, x.d);
}

PQ_INLINE vd low_i32(vi x)
{
    return widen_epi32(x.a, x.b);
}

PQ_INLINE vd high_i32(vi x)
{
    return widen_epi32(x.c, x.d);
}

/* Both halves, rounded to float32. */
PQ_INLINE vf narrow_f64(vd x, vd y)
{
    return (vf){_mm256_set_m128(_mm256_cvtpd_ps(x.b), _mm256_cvtpd_ps(x.a)),
                _mm256_set_m128(_mm256_cvtpd_ps(x.d), _mm256_cvtpd_ps(x.c)),
                _mm256_set_m128(_mm256_cvtpd_ps(y.b), _mm256_cvtpd_ps(y.a)),
                _mm256_set_m128(_mm256_cvtpd_ps(y.d), _mm256_cvtpd_ps(y.c))};
}

/* A bit that is cut off sets the last bit that remains: see pq_float_to_odd. */
PQ_INLINE __m128 narrow_to_odd_pd(__m256d x)
{
    const __m256i bits = _mm256_castpd_si256(x), cut = _mm256_set1_epi64x(0x1fffffff);
    const __m256i exact =
        _mm256_cmpeq_epi64(_mm256_and_si256(bits, cut), _mm256_setzero_si256());
    const __m256i mark = _mm256_andnot_si256(exact, _mm256_set1_epi64x(0x20000000));
    const __m256i kept = _mm256_or_si256(_mm256_andnot_si256(cut, bits), mark);
    return _mm256_cvtpd_ps(_mm256_castsi256_pd(kept));
}

PQ_INLINE vf narrow_to_odd(vd x, vd y)
{
    return (vf){_mm256_set_m128(narrow_to_odd_pd(x.b), narrow_to_odd_pd(x.a)),
                _mm256_set_m128(narrow_to_odd_pd(x.d), narrow_to_odd_pd(x.c)),
                _mm256_set_m128(narrow_to_odd_pd(y.b), narrow_to_odd_pd(y.a)),
                _mm256_set_m128(narrow_to_odd_pd(y.d), narrow_to_odd_pd(y.c))};
}

/* Both halves, integers that int32 holds. */
PQ_INLINE vi convert_f64(vd x, vd y)
{
    return (vi){_mm256_set_m128i(_mm256_cvttpd_epi32(x.b), _mm256_cvttpd_epi32(x.a)),
                _mm256_set_m128i(_mm256_cvttpd_epi32(x.d), _mm256_cvttpd_epi32(x.c)),
                _mm256_set_m128i(_mm256_cvttpd_epi32(y.b), _mm256_cvttpd_epi32(y.a)),
                _mm256_set_m128i(_mm256_cvttpd_epi32(y.d), _mm256_cvttpd_epi32(y.c))};
}

/* Both halves to the nearest integers, halves to even, that int32 holds. */
PQ_INLINE vi nearest_f64(vd x, vd y)
{
    return (vi){_mm256_set_m128i(_mm256_cvtpd_epi32(x.b), _mm256_cvtpd_epi32(x.a)),
                _mm256_set_m128i(_mm256_cvtpd_epi32(x.d), _mm256_cvtpd_epi32(x.c)),
                _mm256_set_m128i(_mm256_cvtpd_epi32(y.b), _mm256_cvtpd_epi32(y.a)),
                _mm256_set_m128i(_mm256_cvtpd_epi32(y.d), _mm256_cvtpd_epi32(y.c))};
}

PQ_INLINE vd divide_f64(vd x, vd y)
{
    return (vd)EACH2(_mm256_div_pd, x, y);
}

PQ_INLINE vd multiply_f64(vd x, vd y)
{
    return (vd)EACH2(_mm256_mul_pd, x, y);
}

/* As of float32. */
PQ_INLINE vd fused_add_f64(vd x, vd y, vd z)
{
    return (vd)EACH3(_mm256_fmadd_pd, x, y, z);
}

PQ_INLINE vd fused_subtract_f64(vd x, vd y, vd z)
{
    return (vd)EACH3(_mm256_fnmadd_pd, x, y, z);
}

PQ_INLINE vd add_f64(vd x, vd y)
{
    return (vd)EACH2(_mm256_add_pd, x, y);
}

PQ_INLINE vd subtract_f64(vd x, vd y)
{
    return (vd)EACH2(_mm256_sub_pd, x, y);
}

PQ_INLINE vd smaller_f64(vd x, vd y)
{
    return (vd)EACH2(_mm256_min_pd, x, y);
}

PQ_INLINE vd larger_f64(vd x, vd y)
{
    return (vd)EACH2(_mm256_max_pd, x, y);
}

PQ_INLINE double smallest_f64(vd x)
{
    const __m256d m = _mm256_min_pd(_mm256_min_pd(x.a, x.b), _mm256_min_pd(x.c, x.d));
    const __m128d h = _mm_min_pd(_mm256_castpd256_pd128(m), _mm256_extractf128_pd(m, 1));
    return _mm_cvtsd_f64(_mm_min_sd(h, _mm_unpackhi_pd(h, h)));
}

PQ_INLINE double largest_f64(vd x)
{
    const __m256d m = _mm256_max_pd(_mm256_max_pd(x.a, x.b), _mm256_max_pd(x.c, x.d));
    const __m128d h = _mm_max_pd(_mm256_castpd256_pd128(m), _mm256_extractf128_pd(m, 1));
    return _mm_cvtsd_f64(_mm_max_sd(h, _mm_unpackhi_pd(h, h)));
}

PQ_INLINE int any_nan_f64(vd x)
{
    const __m256d ab = _mm256_cmp_pd(x.a, x.b, _CMP_UNORD_Q);
    const __m256d cd = _mm256_cmp_pd(x.c, x.d, _CMP_UNORD_Q);
    return _mm256_movemask_pd(_mm256_or_pd(ab, cd)) != 0;
}

/* Bring x within [lo, hi], NaN to lo. */
PQ_INLINE vd bound_f64(vd x, vd lo, vd hi)
{
    const vd v = EACH2(_mm256_max_pd, x, lo);
    return (vd)EACH2(_mm256_min_pd, v, hi);
}

PQ_INLINE __m256d magnitude_f64v(__m256d q)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), q);
}

PQ_INLINE vd cap_keep_nan_f64(vd x, vd hi)
{
    return (vd)EACH2(_mm256_min_pd, hi, x);
}

/* Without the sign. */
PQ_INLINE vd magnitude_f64(vd x)
{
    return (vd)EACH1(magnitude_f64v, x);
}

/* The powers of two below what is not negative. */
PQ_INLINE __m256d power_pd(__m256d x)
{
    return _mm256_and_pd(x, _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff0000000000000)));
}

PQ_INLINE vd power_f64(vd x)
{
    return (vd)EACH1(power_pd, x);
}

/* The lower and the upper halves of the bits of two half blocks. */
#define WORDS_PD(x, y, which)                                                              \
    IN_ORDER16(_mm256_castps_si256(                                                        \
        _mm256_shuffle_ps(_mm256_castpd_ps(x), _mm256_castpd_ps(y), which)))
#define LOWER_PD(x, y) WORDS_PD(x, y, 0x88)
#define UPPER_PD(x, y) WORDS_PD(x, y, 0xdd)

PQ_INLINE vi lower_words(vd x, vd y)
{
    return (vi){LOWER_PD(x.a, x.b), LOWER_PD(x.c, x.d), LOWER_PD(y.a, y.b),
                LOWER_PD(y.c, y.d)};
}

PQ_INLINE vi upper_words(vd x, vd y)
{
    return (vi){UPPER_PD(x.a, x.b), UPPER_PD(x.c, x.d), UPPER_PD(y.a, y.b),
                UPPER_PD(y.c, y.d)};
}
#undef LOWER_PD
#undef UPPER_PD
#undef WORDS_PD

PQ_INLINE __m256d canonical_nan_pd(__m256d x)
{
    const __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff8000000000000));
    return _mm256_blendv_pd(x, nan, _mm256_cmp_pd(x, x, _CMP_UNORD_Q));
}

PQ_INLINE vd canonical_nan_f64(vd x)
{
    return (vd)EACH1(canonical_nan_pd, x);
}

#define splat_f64v _mm256_set1_pd
#define add_f64v _mm256_add_pd
#define subtract_f64v _mm256_sub_pd
#define or_f64v _mm256_or_pd

PQ_INLINE f64v sign_f64v(f64v q)
{
    return _mm256_and_pd(q, _mm256_set1_pd(-0.0));
}

PQ_INLINE f64v up_f64v(f64v q)
{
    return _mm256_round_pd(q, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
}

PQ_INLINE f64v down_f64v(f64v q)
{
    return _mm256_round_pd(q, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

PQ_INLINE f64v toward_zero_f64v(f64v q)
{
    return _mm256_round_pd(q, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
}

PQ_INLINE f64v nearest_f64v(f64v q)
{
    return _mm256_round_pd(q, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

PQ_INLINE f64v if_equal_f64v(f64v x, f64v y, f64v v)
{
    return _mm256_and_pd(_mm256_cmp_pd(x, y, _CMP_EQ_OQ), v);
}

#include "kernels/words.inc"

/* ---- random bits beside numbers ---- */

PQ_INLINE vf load_top_24(const void *p)
{
    const vi words = load_i32(p);
    return (vf){_mm256_cvtepi32_ps(_mm256_srli_epi32(words.a, 8)),
                _mm256_cvtepi32_ps(_mm256_srli_epi32(words.b, 8)),
                _mm256_cvtepi32_ps(_mm256_srli_epi32(words.c, 8)),
                _mm256_cvtepi32_ps(_mm256_srli_epi32(words.d, 8))};
}

PQ_INLINE vf subtract(vf x, vf y)
{
    return (vf)EACH2(_mm256_sub_ps, x, y);
}

PQ_INLINE vf round_down(vf x)
{
    return (vf)EACH1(_mm256_floor_ps, x);
}

PQ_INLINE __m256 one_where_less_ps(__m256 x, __m256 y)
{
    return _mm256_and_ps(_mm256_cmp_ps(x, y, _CMP_LT_OQ), _mm256_set1_ps(1));
}

PQ_INLINE vf one_where_less(vf x, vf y)
{
    return (vf)EACH2(one_where_less_ps, x, y);
}

#define PQ_STREAMS 8
typedef struct {
    __m256i a, b;
} vu;

PQ_INLINE vu splat_u64(uint64_t s)
{
    const __m256i v = _mm256_set1_epi64x((long long)s);
    return (vu){v, v};
}

/* Such that unpacking has blocks in order. */
PQ_INLINE vu load_streams(const uint64_t *p)
{
    return (vu){_mm256_permute4x64_epi64(load256(p), 0xd8),
                _mm256_permute4x64_epi64(load256(p + 4), 0xd8)};
}

PQ_INLINE vu add_u64(vu x, vu y)
{
    return (vu){_mm256_add_epi64(x.a, y.a), _mm256_add_epi64(x.b, y.b)};
}

PQ_INLINE vu product_u32(vu x, vu y)
{
    return (vu){_mm256_mul_epu32(x.a, y.a), _mm256_mul_epu32(x.b, y.b)};
}

PQ_INLINE vu upper_u64(vu x)
{
    return (vu){_mm256_srli_epi64(x.a, 32), _mm256_srli_epi64(x.b, 32)};
}

PQ_INLINE vu flip_u64(vu x, vu y)
{
    return (vu){_mm256_xor_si256(x.a, y.a), _mm256_xor_si256(x.b, y.b)};
}

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

PQ_INLINE vb load_bytes(const void *p)
{
    return load256(p);
}

PQ_INLINE void store_bytes(void *p, vb x)
{
    store256(p, x);
}

PQ_INLINE vb mask_bytes(vb x, uint8_t y)
{
    return _mm256_and_si256(x, _mm256_set1_epi8((char)y));
}

PQ_INLINE vb flip_bytes(vb x, uint8_t y)
{
    return _mm256_xor_si256(x, _mm256_set1_epi8((char)y));
}

PQ_INLINE vb subtract_bytes(vb x, uint8_t y)
{
    return _mm256_sub_epi8(x, _mm256_set1_epi8((char)y));
}

PQ_INLINE vb smaller_u8(vb x, uint8_t y)
{
    return _mm256_min_epu8(x, _mm256_set1_epi8((char)y));
}

PQ_INLINE vb smaller_i8(vb x, int8_t y)
{
    return _mm256_min_epi8(x, _mm256_set1_epi8(y));
}

PQ_INLINE vb larger_i8(vb x, int8_t y)
{
    return _mm256_max_epi8(x, _mm256_set1_epi8(y));
}

/* int8 to int32. */
PQ_INLINE vi widen_bytes(vb x)
{
    const __m128i lo = _mm256_castsi256_si128(x), hi = _mm256_extracti128_si256(x, 1);
    return (vi){_mm256_cvtepi8_epi32(lo), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(lo, lo)),
                _mm256_cvtepi8_epi32(hi), _mm256_cvtepi8_epi32(_mm_unpackhi_epi64(hi, hi))};
}

/* Packed codes of 4 bits, above them garbage: each byte twice, once moved down. */
PQ_INLINE vb unpack4(const void *p)
{
    const __m256i w = _mm256_cvtepu8_epi16(load128(p));
    return _mm256_or_si256(w, _mm256_slli_epi16(w, 4));
}

PQ_INLINE vb unpack2(const void *p)
{
    const __m256i w = _mm256_cvtepu8_epi32(load64(p));
    const __m256i pairs = _mm256_and_si256(_mm256_or_si256(w, _mm256_slli_epi32(w, 12)),
                                           _mm256_set1_epi32(0x000f000f));
    return _mm256_or_si256(pairs, _mm256_slli_epi32(pairs, 6));
}

/* Bytes of 4 bits, packed. */
PQ_INLINE void pack4(void *p, vb x)
{
    const __m256i w = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x1001));
    const __m256i b = _mm256_packus_epi16(w, w);
    store128(p, _mm256_castsi256_si128(_mm256_permute4x64_epi64(b, 0x08)));
}

PQ_INLINE void pack2(void *p, vb x)
{
    const __m256i pairs = _mm256_maddubs_epi16(x, _mm256_set1_epi16(0x0401));
    const __m256i w = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x00100001));
    const __m256i h = _mm256_packus_epi32(w, w);
    const __m256i b = _mm256_packus_epi16(h, h);
    _mm_storel_epi64((__m128i *)p, _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(
                                       b, _mm256_setr_epi32(0, 4, 0, 0, 0, 0, 0, 0))));
}

/* 16 bytes, each from one of `lines` lines of 16, `step` apart, for which `places` has its
 * place; those of other lines have none: 255. */
PQ_INLINE void pick_bytes(char *to, const char *from, ptrdiff_t step, const uint8_t *places,
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

/* ---- transposes of squares: 8 x 8 elements, of 8 bytes 4 x 4 ---- */

PQ_INLINE void transpose_bytes(const char *from, ptrdiff_t from_stride, char *to,
                               ptrdiff_t to_stride)
{
    __m128i pair[4], quad[4];
    for (int i = 0; i < 4; i++) {
        pair[i] = _mm_unpacklo_epi8(load64(from + 2 * i * from_stride),
                                    load64(from + (2 * i + 1) * from_stride));
    }
    for (int i = 0; i < 2; i++) {
        quad[2 * i] = _mm_unpacklo_epi16(pair[2 * i], pair[2 * i + 1]);
        quad[2 * i + 1] = _mm_unpackhi_epi16(pair[2 * i], pair[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        const __m128i lo = _mm_unpacklo_epi32(quad[i], quad[i + 2]);
        const __m128i hi = _mm_unpackhi_epi32(quad[i], quad[i + 2]);
        char *const rows = to + 4 * i * to_stride;
        _mm_storel_epi64((__m128i *)rows, lo);
        store_high64(rows + to_stride, lo);
        _mm_storel_epi64((__m128i *)(rows + 2 * to_stride), hi);
        store_high64(rows + 3 * to_stride, hi);
    }
}

PQ_INLINE void transpose_halves(const char *from, ptrdiff_t from_stride, char *to,
                                ptrdiff_t to_stride)
{
    __m128i pair[8], quad[8];
    for (int i = 0; i < 4; i++) {
        const __m128i even = load128(from + 2 * i * from_stride);
        const __m128i odd = load128(from + (2 * i + 1) * from_stride);
        pair[i] = _mm_unpacklo_epi16(even, odd);
        pair[i + 4] = _mm_unpackhi_epi16(even, odd);
    }
    for (int i = 0; i < 4; i++) {
        quad[2 * i] = _mm_unpacklo_epi32(pair[2 * i], pair[2 * i + 1]);
        quad[2 * i + 1] = _mm_unpackhi_epi32(pair[2 * i], pair[2 * i + 1]);
    }
    for (int i = 0; i < 4; i++) { /* quads 0 1 4 5 with 2 3 6 7 */
        const int q = i / 2 * 4 + i % 2;
        char *const rows = to + 2 * i * to_stride;
        store128(rows, _mm_unpacklo_epi64(quad[q], quad[q + 2]));
        store128(rows + to_stride, _mm_unpackhi_epi64(quad[q], quad[q + 2]));
    }
}

/* Four floats of a line and four of the line four further on. */
PQ_INLINE __m256 load_two(const char *from, ptrdiff_t from_stride)
{
    const __m256 first = _mm256_castps128_ps256(_mm_loadu_ps((const float *)from));
    const float *const second = (const float *)(from + 4 * from_stride);
    return _mm256_insertf128_ps(first, _mm_loadu_ps(second), 1);
}

PQ_INLINE void transpose_words(const char *from, ptrdiff_t from_stride, char *to,
                               ptrdiff_t to_stride)
{
    for (int i = 0; i < 8; i += 4, from += 16, to += 4 * to_stride) {
        const __m256 a = load_two(from, from_stride);
        const __m256 b = load_two(from + from_stride, from_stride);
        const __m256 c = load_two(from + 2 * from_stride, from_stride);
        const __m256 d = load_two(from + 3 * from_stride, from_stride);
        const __m256 ab = _mm256_unpacklo_ps(a, b), ba = _mm256_unpackhi_ps(a, b);
        const __m256 cd = _mm256_unpacklo_ps(c, d), dc = _mm256_unpackhi_ps(c, d);
        _mm256_storeu_ps((float *)to, _mm256_shuffle_ps(ab, cd, 0x44));
        _mm256_storeu_ps((float *)(to + to_stride), _mm256_shuffle_ps(ab, cd, 0xee));
        _mm256_storeu_ps((float *)(to + 2 * to_stride), _mm256_shuffle_ps(ba, dc, 0x44));
        _mm256_storeu_ps((float *)(to + 3 * to_stride), _mm256_shuffle_ps(ba, dc, 0xee));
    }
}

PQ_INLINE void transpose_doubles(const char *from, ptrdiff_t from_stride, char *to,
                                 ptrdiff_t to_stride)
{
    const __m256d a = _mm256_loadu_pd((const double *)from);
    const __m256d b = _mm256_loadu_pd((const double *)(from + from_stride));
    const __m256d c = _mm256_loadu_pd((const double *)(from + 2 * from_stride));
    const __m256d d = _mm256_loadu_pd((const double *)(from + 3 * from_stride));
    const __m256d ab = _mm256_unpacklo_pd(a, b), ba = _mm256_unpackhi_pd(a, b);
    const __m256d cd = _mm256_unpacklo_pd(c, d), dc = _mm256_unpackhi_pd(c, d);
    _mm256_storeu_pd((double *)to, _mm256_permute2f128_pd(ab, cd, 0x20));
    _mm256_storeu_pd((double *)(to + to_stride), _mm256_permute2f128_pd(ba, dc, 0x20));
    _mm256_storeu_pd((double *)(to + 2 * to_stride), _mm256_permute2f128_pd(ab, cd, 0x31));
    _mm256_storeu_pd((double *)(to + 3 * to_stride), _mm256_permute2f128_pd(ba, dc, 0x31));
}

#undef EACH1
#undef EACH2
#undef EACH3
#undef IN_ORDER16

#endif
