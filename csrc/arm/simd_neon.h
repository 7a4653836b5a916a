/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inline functions on vectors (words) in AArch64 NEON. kernels/words.inc defines words on
 * chunks of 4 x 4 elements, in order, by primitives of arm/neon.h. Later words are specific
 * to NEON. A word applies a step to all four vectors before the next step, so four
 * dependency chains run at once.
 */
#ifndef PQ_SIMD_NEON_H
#define PQ_SIMD_NEON_H

#include "arm/neon.h"
#include "math/narrow_float.h"
#include "math/scalar_math.h"

#define PQ_SQUARE4 4
#define PQ_SQUARE8 2
#define PQ_CONVERT_IS_LOW 0 /* the conversion to int32 returns 0 for NaN */

PQ_INLINE vd widen_f32v(f32v x, f32v y)
{
    return (vd){vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x),
                vcvt_f64_f32(vget_low_f32(y)), vcvt_high_f64_f32(y)};
}

PQ_INLINE vd widen_i32v(i32v x, i32v y)
{
    return (vd){vcvtq_f64_s64(vmovl_s32(vget_low_s32(x))), vcvtq_f64_s64(vmovl_high_s32(x)),
                vcvtq_f64_s64(vmovl_s32(vget_low_s32(y))),
                vcvtq_f64_s64(vmovl_high_s32(y))};
}

/* Return the sums r + z, saturated to 16 bits. Callers saturate the sums to 8 bits. */
PQ_INLINE vh narrow_sums(vi r, vi z)
{
    const vi sums = EACH2(add_i32v, r, z);
    return (vh){narrow_i16v(sums.a, sums.b), narrow_i16v(sums.c, sums.d)};
}

#include "kernels/words.inc"

/* ---- load ---- */

PQ_INLINE vf load_f16(const void *p)
{
    const char *h = p;
    const float16x8_t lo = vreinterpretq_f16_u8(load128(h));
    const float16x8_t hi = vreinterpretq_f16_u8(load128(h + 16));
    return (vf){vcvt_f32_f16(vget_low_f16(lo)), vcvt_high_f32_f16(lo),
                vcvt_f32_f16(vget_low_f16(hi)), vcvt_high_f32_f16(hi)};
}

PQ_INLINE vf load_bf16(const void *p)
{
    const char *h = p;
    const uint16x8_t lo = vreinterpretq_u16_u8(load128(h));
    const uint16x8_t hi = vreinterpretq_u16_u8(load128(h + 16));
    return (vf){vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(lo), 16)),
                vreinterpretq_f32_u32(vshll_high_n_u16(lo, 16)),
                vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(hi), 16)),
                vreinterpretq_f32_u32(vshll_high_n_u16(hi, 16))};
}

PQ_INLINE vi widen_i16(int16x8_t lo, int16x8_t hi)
{
    return (vi){vmovl_s16(vget_low_s16(lo)), vmovl_high_s16(lo),
                vmovl_s16(vget_low_s16(hi)), vmovl_high_s16(hi)};
}

PQ_INLINE vi widen_u16(uint16x8_t lo, uint16x8_t hi)
{
    return (vi){vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(lo))),
                vreinterpretq_s32_u32(vmovl_high_u16(lo)),
                vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(hi))),
                vreinterpretq_s32_u32(vmovl_high_u16(hi))};
}

PQ_INLINE vi load_i8(const void *p)
{
    const int8x16_t c = vreinterpretq_s8_u8(load128(p));
    return widen_i16(vmovl_s8(vget_low_s8(c)), vmovl_high_s8(c));
}

PQ_INLINE vi load_u8(const void *p)
{
    const uint8x16_t c = load128(p);
    return widen_u16(vmovl_u8(vget_low_u8(c)), vmovl_high_u8(c));
}

PQ_INLINE vi load_i16(const void *p)
{
    const char *c = p;
    return widen_i16(vreinterpretq_s16_u8(load128(c)),
                     vreinterpretq_s16_u8(load128(c + 16)));
}

PQ_INLINE vi load_u16(const void *p)
{
    const char *c = p;
    return widen_u16(vreinterpretq_u16_u8(load128(c)),
                     vreinterpretq_u16_u8(load128(c + 16)));
}

/* Load 32-bit integers, and convert the upper 24 bits of each to float32. */
#define top_24v(words) vcvtq_f32_u32(vshrq_n_u32(vreinterpretq_u32_s32(words), 8))
PQ_INLINE vf load_top_24(const void *p)
{
    const vi words = load_i32(p);
    return (vf)EACH1(top_24v, words);
}

/* Convert 8 codes, each in a 16-bit lane, to float16, like pq_f16_bits_of_code(). */
PQ_INLINE uint16x8_t halves_of(uint16x8_t code, enum pq_type type)
{
    const struct pq_format format = pq_format_of(type);
    const uint16x8_t mag = vandq_u16(code, vdupq_n_u16((uint16_t)(format.sign - 1)));
    const int16_t to_sign = format.sign == 0x80 ? 8 : format.sign == 0x20 ? 10 : 12;
    const uint16x8_t sign = vshlq_u16(vandq_u16(code, vdupq_n_u16((uint16_t)format.sign)),
                                      vdupq_n_s16(to_sign));
    const uint16x8_t nan = vdupq_n_u16(0x7e00);
    uint16x8_t half = vshlq_u16(mag, vdupq_n_s16((int16_t)format.half_shift));
    if (type == PQ_F8E5M2FNUZ) {
        const int16x8_t shifted = vreinterpretq_s16_u16(half);
        half = vreinterpretq_u16_s16(
            vmaxq_s16(vshrq_n_s16(shifted, 1), vsubq_s16(shifted, vdupq_n_s16(0x400))));
    }
    half = vorrq_u16(half, sign);
    if (format.infinity != 0) {
        const uint16x8_t infinite = vorrq_u16(sign, vdupq_n_u16(0x7c00));
        half = vbslq_u16(vceqq_u16(mag, vdupq_n_u16((uint16_t)format.infinity)), infinite,
                         half);
    }
    if (format.signed_nan) {
        half = vbslq_u16(vcgtq_u16(mag, vdupq_n_u16((uint16_t)format.last)), nan, half);
    } else if (!format.signed_zero) {
        half = vbslq_u16(vceqq_u16(code, vdupq_n_u16(0x80)), nan, half);
    }
    return half;
}

PQ_INLINE vf load_float_codes(const void *p, enum pq_type type)
{
    const uint8x16_t c = load128(p);
    const float16x8_t lo = vreinterpretq_f16_u16(halves_of(vmovl_u8(vget_low_u8(c)), type));
    const float16x8_t hi = vreinterpretq_f16_u16(halves_of(vmovl_high_u8(c), type));
    return (vf){vcvt_f32_f16(vget_low_f16(lo)), vcvt_high_f32_f16(lo),
                vcvt_f32_f16(vget_low_f16(hi)), vcvt_high_f32_f16(hi)};
}

/* ---- arithmetic ---- */

/* Shift right by n bits. The numbers must not be negative. */
PQ_INLINE vi shift_right(vi x, int n)
{
    const vi down = splat_i32(-n);
    return (vi)EACH2(vshlq_s32, x, down);
}

PQ_INLINE int any_nan(vf x)
{
    const uint32x4_t ab = vandq_u32(vceqq_f32(x.a, x.a), vceqq_f32(x.b, x.b));
    const uint32x4_t cd = vandq_u32(vceqq_f32(x.c, x.c), vceqq_f32(x.d, x.d));
    return vminvq_u32(vandq_u32(ab, cd)) == 0;
}

PQ_INLINE int any_nan_f64(vd x)
{
    const uint64x2_t ab = vandq_u64(vceqq_f64(x.a, x.a), vceqq_f64(x.b, x.b));
    const uint64x2_t cd = vandq_u64(vceqq_f64(x.c, x.c), vceqq_f64(x.d, x.d));
    return vminvq_u32(vreinterpretq_u32_u64(vandq_u64(ab, cd))) == 0;
}

/* Return `seen` unchanged. FMIN and FMAX keep a NaN, so that the extrema contain it. */
PQ_INLINE vf gather_nans(vf x, vf seen)
{
    (void)x;
    return seen;
}

LIFT_AS(double, smallest_f64, (vd x), vminvq_f64(FOLD(vminq_f64, x)))
LIFT_AS(double, largest_f64, (vd x), vmaxvq_f64(FOLD(vmaxq_f64, x)))

#define ROW(p, k) vld1q_f32((p) + (k) * PQ_LANES)

/* Store the smallest or the largest number of each of PQ_LANES rows of PQ_LANES numbers. */
#define OF_ROWS(word, f)                                                                   \
    PQ_INLINE void word(float *to, const float *rows)                                      \
    {                                                                                      \
        vst1q_f32(to, f(f(ROW(rows, 0), ROW(rows, 1)), f(ROW(rows, 2), ROW(rows, 3))));    \
    }
OF_ROWS(smallest_of_rows, vpminq_f32)
OF_ROWS(largest_of_rows, vpmaxq_f32)
#undef ROW
#undef OF_ROWS

#define LINE(p, k) load_i16v((p) + (k) * PQ_LANES16)
#define QUAD(f, p, k)                                                                      \
    f(f(LINE(p, k), LINE(p, (k) + 1)), f(LINE(p, (k) + 2), LINE(p, (k) + 3)))

/* Store the smallest or the largest number of each of 8 lines of PQ_LANES16 numbers. */
#define OF_LINES(word, f)                                                                  \
    PQ_INLINE void word(int16_t *to, const int16_t *lines)                                 \
    {                                                                                      \
        store_i16v(to, f(QUAD(f, lines, 0), QUAD(f, lines, 4)));                           \
    }
OF_LINES(smallest_of_lines, vpminq_s16)
OF_LINES(largest_of_lines, vpmaxq_s16)
#undef LINE
#undef QUAD
#undef OF_LINES

/* ---- store ---- */

PQ_INLINE void store_f16(void *p, vf x)
{
    char *h = p;
    const float16x8_t lo = vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b);
    const float16x8_t hi = vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d);
    store128(h, vreinterpretq_u8_f16(lo));
    store128(h + 16, vreinterpretq_u8_f16(hi));
}

PQ_INLINE void store_bf16(void *p, vf x)
{
    char *h = p;
    const uint16x8_t lo =
        vshrn_high_n_u32(vshrn_n_u32(round_bf16(x.a), 16), round_bf16(x.b), 16);
    const uint16x8_t hi =
        vshrn_high_n_u32(vshrn_n_u32(round_bf16(x.c), 16), round_bf16(x.d), 16);
    store128(h, vreinterpretq_u8_u16(lo));
    store128(h + 16, vreinterpretq_u8_u16(hi));
}

/* For each element, store a byte: 1 where x and y are equal, else 0. */
PQ_INLINE void store_equal(void *p, vi x, vi y)
{
    const uint16x8_t lo =
        vmovn_high_u32(vmovn_u32(vceqq_s32(x.a, y.a)), vceqq_s32(x.b, y.b));
    const uint16x8_t hi =
        vmovn_high_u32(vmovn_u32(vceqq_s32(x.c, y.c)), vceqq_s32(x.d, y.d));
    store128(p, vandq_u8(vmovn_high_u16(vmovn_u16(lo), hi), vdupq_n_u8(1)));
}

PQ_INLINE uint8x16_t bytes_of(vi x)
{
    return narrow_u8v(narrow_i16v(x.a, x.b), narrow_i16v(x.c, x.d));
}

/* Store magnitude codes of a narrow float, plus the sign bit `sign` where `signs` is
 * negative. The magnitude code `bare` never gets the sign bit. */
PQ_INLINE void store_float_codes(void *p, vi magnitudes, vi signs, int sign, int bare)
{
    const uint8x16_t code = bytes_of(magnitudes);
    const vi ones = (vi){vshrq_n_s32(signs.a, 31), vshrq_n_s32(signs.b, 31),
                         vshrq_n_s32(signs.c, 31), vshrq_n_s32(signs.d, 31)};
    const vi negated = (vi)EACH1(vnegq_s32, ones); /* 1 where `signs` is negative, else 0 */
    const uint8x16_t all = vmulq_u8(bytes_of(negated), vdupq_n_u8((uint8_t)sign));
    const uint8x16_t negative = vbicq_u8(all, vceqq_u8(code, vdupq_n_u8((uint8_t)bare)));
    store128(p, vorrq_u8(code, negative));
}

/* ---- random words ---- */

#define PQ_STREAMS 8
typedef struct {
    uint64x2_t a, b, c, d;
} vu;

#define product_u32v(x, y) vmull_u32(vmovn_u64(x), vmovn_u64(y))
#define upper_u64v(x) vshrq_n_u64(x, 32)
LIFT_SPLAT(vu, uint64_t, uint64x2_t, splat_u64, vdupq_n_u64)
LIFT_LOAD(vu, uint64_t, 2, load_streams, vld1q_u64)
LIFT2(vu, add_u64, vaddq_u64)
LIFT2(vu, product_u32, product_u32v)
LIFT2(vu, flip_u64, veorq_u64)
LIFT1(vu, vu, upper_u64, upper_u64v)

/* Store the random words of two counters: four words for each counter. */
PQ_INLINE void store_2_streams(uint32_t *to, uint64x2_t a, uint64x2_t b, uint64x2_t c,
                               uint64x2_t d)
{
    const uint64x2_t lo = vsliq_n_u64(a, b, 32), hi = vsliq_n_u64(c, d, 32);
    store128(to, vreinterpretq_u8_u64(vzip1q_u64(lo, hi)));
    store128(to + 4, vreinterpretq_u8_u64(vzip2q_u64(lo, hi)));
}

PQ_INLINE void store_streams(uint32_t *to, vu a, vu b, vu c, vu d)
{
    store_2_streams(to, a.a, b.a, c.a, d.a);
    store_2_streams(to + 8, a.b, b.b, c.b, d.b);
    store_2_streams(to + 16, a.c, b.c, c.c, d.c);
    store_2_streams(to + 24, a.d, b.d, c.d, d.d);
}

/* ---- bytes ---- */

/* Convert int8 to int32. */
PQ_INLINE vi widen_bytes(vb x)
{
    const int8x16_t c = vreinterpretq_s8_u8(x);
    return widen_i16(vmovl_s8(vget_low_s8(c)), vmovl_high_s8(c));
}

/* A table of the 16-bit results of the codes 0 to 15, as lower and upper bytes. */
struct result_bytes {
    vb lower, upper;
};

PQ_INLINE struct result_bytes load_results(const uint16_t *p)
{
    const uint8x16x2_t bytes = vld2q_u8((const uint8_t *)p);
    return (struct result_bytes){bytes.val[0], bytes.val[1]};
}

/* Look up the 16-bit results of a chunk of codes, and store them. */
PQ_INLINE void store_results(void *p, struct result_bytes of, vb codes)
{
    const vb lower = vqtbl1q_u8(of.lower, codes), upper = vqtbl1q_u8(of.upper, codes);
    vst2q_u8(p, ((uint8x16x2_t){{lower, upper}}));
}

/* Unpack codes of 4 or 2 bits. The upper bits of each byte are undefined. */
PQ_INLINE vb unpack_4_bits(const void *p)
{
    const uint8x8_t lo = vld1_u8((const uint8_t *)p), hi = vshr_n_u8(lo, 4);
    return vcombine_u8(vzip1_u8(lo, hi), vzip2_u8(lo, hi));
}

PQ_INLINE vb unpack_2_bits(const void *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return fields_of_2_bits(word);
}

/* Pack codes of 4 or 2 bits, which are in the low bits of bytes. */
PQ_INLINE void pack_4_bits(void *p, vb x)
{
    const uint8x8_t lo = vget_low_u8(x), hi = vget_high_u8(x);
    vst1_u8((uint8_t *)p, vorr_u8(vuzp1_u8(lo, hi), vshl_n_u8(vuzp2_u8(lo, hi), 4)));
}

PQ_INLINE void pack_2_bits(void *p, vb x)
{
    const uint8x8_t lo = vget_low_u8(x), hi = vget_high_u8(x);
    const uint8x8_t pairs = vorr_u8(vuzp1_u8(lo, hi), vshl_n_u8(vuzp2_u8(lo, hi), 2));
    const uint8x8_t all =
        vorr_u8(vuzp1_u8(pairs, pairs), vshl_n_u8(vuzp2_u8(pairs, pairs), 4));
    const uint32_t word = vget_lane_u32(vreinterpret_u32_u8(all), 0);
    memcpy(p, &word, sizeof word);
}

/* Store 16 bytes, each from one of several input lines. Lines begin at distances of `step`
 * bytes. Byte i is byte `places[16 * k + i]` of line k, unless this index is 255. */
PQ_INLINE void join_bytes(char *to, const char *from, ptrdiff_t step, const uint8_t *places,
                          size_t lines)
{
    uint8x16_t all = vdupq_n_u8(0);
    for (size_t k = 0; k < lines; k++) {
        all = vorrq_u8(all, vqtbl1q_u8(load128(from + (ptrdiff_t)k * step),
                                       vld1q_u8(places + k * 16)));
    }
    store128(to, all);
}

/* ---- transpose squares: 8 x 8 elements of 1 or 2 bytes, 4 x 4 of 4, 2 x 2 of 8 ---- */

#define LOAD_BYTES(p, stride) vld1_u8((const uint8_t *)(p))
#define LOAD_HALVES(p, stride) vreinterpretq_u16_u8(load128(p))
#define LOAD_WORDS(p, stride) vreinterpretq_u32_u8(load128(p))
#define LOAD_DOUBLES(p, stride) vreinterpretq_u64_u8(load128(p))
#define STORE_BYTES(p, stride, v) vst1_u8((uint8_t *)(p), v)
#define STORE_HALVES(p, stride, v) store128(p, vreinterpretq_u8_u16(v))
#define STORE_WORDS(p, stride, v) store128(p, vreinterpretq_u8_u32(v))
#define STORE_DOUBLES(p, stride, v) store128(p, vreinterpretq_u8_u64(v))
SQUARE(transpose_bytes, 8, 3, 1, uint8x8_t, LOAD_BYTES, vzip1_u8, vzip2_u8, STORE_BYTES)
SQUARE(transpose_halves, 8, 3, 1, uint16x8_t, LOAD_HALVES, vzip1q_u16, vzip2q_u16,
       STORE_HALVES)
SQUARE(transpose_words, 4, 2, 1, uint32x4_t, LOAD_WORDS, vzip1q_u32, vzip2q_u32,
       STORE_WORDS)
SQUARE(transpose_doubles, 2, 1, 1, uint64x2_t, LOAD_DOUBLES, vzip1q_u64, vzip2q_u64,
       STORE_DOUBLES)

#endif
