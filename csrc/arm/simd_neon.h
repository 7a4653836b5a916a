/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector words in AArch64 NEON: a block is 4 x 4 elements, in order. Twin of
 * scalar/simd_scalar.h.
 */
#ifndef PQ_SIMD_NEON_H
#define PQ_SIMD_NEON_H

#include "math/narrow_float.h"
#include "math/scalar_math.h"

#define PQ_CHUNK 16
#define PQ_LANES 4
#define PQ_LANES16 8
#define PQ_HALF (PQ_CHUNK / 2)
#define PQ_SQUARE4 4
#define PQ_SQUARE8 2
#define PQ_BODY PQ_INLINE
#define PQ_SPECIALISED 1
#define PQ_FAST_QUOTIENT 1
#define PQ_CONVERT_IS_LOW 0 /* converting NaN gives 0 */

typedef float32x4_t f32v;
typedef float64x2_t f64v;

typedef struct {
    f32v a, b, c, d;
} vf;

typedef struct {
    int32x4_t a, b, c, d;
} vi;

typedef uint8x16_t vb;

/* f applied to the four vectors of blocks x and y. */
#define EACH1(f, x) {f((x).a), f((x).b), f((x).c), f((x).d)}
#define EACH2(f, x, y) {f((x).a, (y).a), f((x).b, (y).b), f((x).c, (y).c), f((x).d, (y).d)}
#define EACH3(f, x, y, z)                                                                  \
    {f((x).a, (y).a, (z).a), f((x).b, (y).b, (z).b), f((x).c, (y).c, (z).c),               \
     f((x).d, (y).d, (z).d)}

/* ---- load and splat: through byte loads, which need no alignment ---- */

PQ_INLINE uint8x16_t load128(const void *p)
{
    return vld1q_u8((const uint8_t *)p);
}

PQ_INLINE void store128(void *p, uint8x16_t v)
{
    vst1q_u8((uint8_t *)p, v);
}

PQ_INLINE vf load_f32(const void *p)
{
    const char *f = p;
    return (vf){vreinterpretq_f32_u8(load128(f)), vreinterpretq_f32_u8(load128(f + 16)),
                vreinterpretq_f32_u8(load128(f + 32)),
                vreinterpretq_f32_u8(load128(f + 48))};
}

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

PQ_INLINE vi load_i32(const void *p)
{
    const char *c = p;
    return (vi){vreinterpretq_s32_u8(load128(c)), vreinterpretq_s32_u8(load128(c + 16)),
                vreinterpretq_s32_u8(load128(c + 32)),
                vreinterpretq_s32_u8(load128(c + 48))};
}

/* 8 codes of a narrow float, widened, as float16 numbers; see pq_half_of_code. */
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

PQ_INLINE vf load_halves(const void *p, enum pq_type type)
{
    const uint8x16_t c = load128(p);
    const float16x8_t lo = vreinterpretq_f16_u16(halves_of(vmovl_u8(vget_low_u8(c)), type));
    const float16x8_t hi = vreinterpretq_f16_u16(halves_of(vmovl_high_u8(c), type));
    return (vf){vcvt_f32_f16(vget_low_f16(lo)), vcvt_high_f32_f16(lo),
                vcvt_f32_f16(vget_low_f16(hi)), vcvt_high_f32_f16(hi)};
}

PQ_INLINE vf splat(float s)
{
    const float32x4_t v = vdupq_n_f32(s);
    return (vf){v, v, v, v};
}

PQ_INLINE vi splat_i32(int32_t s)
{
    const int32x4_t v = vdupq_n_s32(s);
    return (vi){v, v, v, v};
}

PQ_INLINE vf load_groups(const float *s, size_t g)
{
    const float32x4_t a = vdupq_n_f32(s[0]), b = vdupq_n_f32(s[1]);
    if (g == 8) {
        return (vf){a, a, b, b};
    }
    return (vf){a, b, vdupq_n_f32(s[2]), vdupq_n_f32(s[3])};
}

PQ_INLINE vi load_groups_i32(const int32_t *s, size_t g)
{
    const int32x4_t a = vdupq_n_s32(s[0]), b = vdupq_n_s32(s[1]);
    if (g == 8) {
        return (vi){a, a, b, b};
    }
    return (vi){a, b, vdupq_n_s32(s[2]), vdupq_n_s32(s[3])};
}

/* ---- arithmetic ---- */

PQ_INLINE vf divide(vf x, vf y)
{
    return (vf)EACH2(vdivq_f32, x, y);
}

PQ_INLINE vf multiply(vf x, vf y)
{
    return (vf)EACH2(vmulq_f32, x, y);
}

/* x * y + z, rounded once */
PQ_INLINE vf fused_add(vf x, vf y, vf z)
{
    return (vf)EACH3(vfmaq_f32, z, x, y);
}

/* z - x * y, rounded once */
PQ_INLINE vf fused_subtract(vf x, vf y, vf z)
{
    return (vf)EACH3(vfmsq_f32, z, x, y);
}

/* x * y + z, where the product is exact */
PQ_INLINE vf scaled_add(vf x, vf y, vf z)
{
    return fused_add(x, y, z);
}

PQ_INLINE vf add(vf x, vf y)
{
    return (vf)EACH2(vaddq_f32, x, y);
}

PQ_INLINE vi add_i32(vi x, vi y)
{
    return (vi)EACH2(vaddq_s32, x, y);
}

PQ_INLINE vi smaller_i32(vi x, vi y)
{
    return (vi)EACH2(vminq_s32, x, y);
}

PQ_INLINE vi mask_i32(vi x, int32_t bits)
{
    const vi mask = splat_i32(bits);
    return (vi)EACH2(vandq_s32, x, mask);
}

/* Shift numbers that are not negative. */
PQ_INLINE vi shift_right(vi x, int n)
{
    const vi down = splat_i32(-n);
    return (vi)EACH2(vshlq_s32, x, down);
}

PQ_INLINE vi bits_of(vf x)
{
    return (vi)EACH1(vreinterpretq_s32_f32, x);
}

PQ_INLINE vf float_of(vi x)
{
    return (vf)EACH1(vreinterpretq_f32_s32, x);
}

PQ_INLINE int any_nan(vf x)
{
    const uint32x4_t ab = vandq_u32(vceqq_f32(x.a, x.a), vceqq_f32(x.b, x.b));
    const uint32x4_t cd = vandq_u32(vceqq_f32(x.c, x.c), vceqq_f32(x.d, x.d));
    return vminvq_u32(vandq_u32(ab, cd)) == 0;
}

PQ_INLINE vi subtract_i32(vi x, vi y)
{
    return (vi)EACH2(vsubq_s32, x, y);
}

/* FMIN and FMAX keep NaN, which is an extreme then. */
PQ_INLINE vf gather_nans(vf x, vf seen)
{
    (void)x;
    return seen;
}

PQ_INLINE vf smaller(vf x, vf y)
{
    return (vf)EACH2(vminq_f32, x, y);
}

PQ_INLINE vf larger(vf x, vf y)
{
    return (vf)EACH2(vmaxq_f32, x, y);
}

PQ_INLINE vi larger_i32(vi x, vi y)
{
    return (vi)EACH2(vmaxq_s32, x, y);
}

/* The least and the largest of the vectors of a block, PQ_LANES of them. */
PQ_INLINE void store_smallest(float *p, vf x)
{
    vst1q_f32(p, vminq_f32(vminq_f32(x.a, x.b), vminq_f32(x.c, x.d)));
}

PQ_INLINE void store_largest(float *p, vf x)
{
    vst1q_f32(p, vmaxq_f32(vmaxq_f32(x.a, x.b), vmaxq_f32(x.c, x.d)));
}

#define ROW(p, k) vld1q_f32((p) + (k) * PQ_LANES)
#define OF_ROWS(f, p) f(f(ROW(p, 0), ROW(p, 1)), f(ROW(p, 2), ROW(p, 3)))

/* The least and the largest of each of PQ_LANES rows of as many lanes. */
PQ_INLINE void smallest_of_rows(float *to, const float *rows)
{
    vst1q_f32(to, OF_ROWS(vpminq_f32, rows));
}

PQ_INLINE void largest_of_rows(float *to, const float *rows)
{
    vst1q_f32(to, OF_ROWS(vpmaxq_f32, rows));
}
#undef ROW
#undef OF_ROWS

PQ_INLINE void store_largest_i32(int32_t *p, vi x)
{
    vst1q_s32(p, vmaxq_s32(vmaxq_s32(x.a, x.b), vmaxq_s32(x.c, x.d)));
}

/* ---- blocks of 16 bits ---- */

typedef struct {
    int16x8_t a, b;
} vh;

PQ_INLINE vh load_16(const void *p)
{
    const char *c = p;
    return (vh){vreinterpretq_s16_u8(load128(c)), vreinterpretq_s16_u8(load128(c + 16))};
}

PQ_INLINE void store_16(void *p, vh x)
{
    char *c = p;
    store128(c, vreinterpretq_u8_s16(x.a));
    store128(c + 16, vreinterpretq_u8_s16(x.b));
}

/* Floating-point numbers as integers of the same order: signs and magnitudes as numbers. */
PQ_INLINE int16x8_t to_order_s16(int16x8_t x)
{
    const int16x8_t sign = vshrq_n_s16(x, 15);
    return vsubq_s16(veorq_s16(vandq_s16(x, vdupq_n_s16(0x7fff)), sign), sign);
}

PQ_INLINE vh to_order(vh x)
{
    return (vh){to_order_s16(x.a), to_order_s16(x.b)};
}

PQ_INLINE int16x8_t from_order_s16(int16x8_t x)
{
    return vorrq_s16(vabsq_s16(x), vandq_s16(x, vdupq_n_s16(INT16_MIN)));
}

PQ_INLINE vh from_order(vh x)
{
    return (vh){from_order_s16(x.a), from_order_s16(x.b)};
}

PQ_INLINE vh smaller_i16(vh x, vh y)
{
    return (vh){vminq_s16(x.a, y.a), vminq_s16(x.b, y.b)};
}

PQ_INLINE vh larger_i16(vh x, vh y)
{
    return (vh){vmaxq_s16(x.a, y.a), vmaxq_s16(x.b, y.b)};
}

PQ_INLINE void store_i16s(int16_t *p, int16x8_t x)
{
    store128(p, vreinterpretq_u8_s16(x));
}

/* The least and the largest of the vectors of a block, PQ_LANES16 of them. */
PQ_INLINE void store_smallest_i16(int16_t *p, vh x)
{
    store_i16s(p, vminq_s16(x.a, x.b));
}

PQ_INLINE void store_largest_i16(int16_t *p, vh x)
{
    store_i16s(p, vmaxq_s16(x.a, x.b));
}

#define LINE(p, k) vreinterpretq_s16_u8(load128((p) + (k) * PQ_LANES16))
#define QUAD(f, p, k)                                                                      \
    f(f(LINE(p, k), LINE(p, (k) + 1)), f(LINE(p, (k) + 2), LINE(p, (k) + 3)))

/* The least and the largest of each of 8 lines of PQ_LANES16 lanes. */
PQ_INLINE void smallest_of_lines(int16_t *to, const int16_t *lines)
{
    store_i16s(to, vpminq_s16(QUAD(vpminq_s16, lines, 0), QUAD(vpminq_s16, lines, 4)));
}

PQ_INLINE void largest_of_lines(int16_t *to, const int16_t *lines)
{
    store_i16s(to, vpmaxq_s16(QUAD(vpmaxq_s16, lines, 0), QUAD(vpmaxq_s16, lines, 4)));
}
#undef LINE
#undef QUAD

/* FMIN keeps NaN and makes it quiet; FMAXNM then takes the number instead. FMAXNM alone
 * would answer a signaling NaN with NaN: the cap must come first. */
PQ_INLINE vf cap_keep_nan(vf x, vf hi)
{
    return (vf)EACH2(vminq_f32, x, hi);
}

PQ_INLINE vf floor_drop_nan(vf x, vf lo)
{
    return (vf)EACH2(vmaxnmq_f32, x, lo);
}

PQ_INLINE vf to_f32(vi x)
{
    return (vf)EACH1(vcvtq_f32_s32, x);
}

PQ_INLINE float32x4_t u32_to_f32x4(int32x4_t x)
{
    return vcvtq_f32_u32(vreinterpretq_u32_s32(x));
}

PQ_INLINE vf u32_to_f32(vi x)
{
    return (vf)EACH1(u32_to_f32x4, x);
}

/* To int32 and uint32, half to even, saturating, NaN to the least. The conversion makes 0
 * of NaN. */
PQ_INLINE int32x4_t whole_i32x4(float32x4_t x)
{
    return vbslq_s32(vceqq_f32(x, x), vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN));
}

PQ_INLINE vi whole_i32(vf x)
{
    return (vi)EACH1(whole_i32x4, x);
}

PQ_INLINE int32x4_t whole_u32x4(float32x4_t x)
{
    return vreinterpretq_s32_u32(vcvtnq_u32_f32(x));
}

PQ_INLINE vi whole_u32(vf x)
{
    return (vi)EACH1(whole_u32x4, x);
}

PQ_INLINE float32x4_t canonical_nan_f32(float32x4_t x)
{
    const float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000));
    return vbslq_f32(vceqq_f32(x, x), x, nan);
}

PQ_INLINE vf canonical_nan(vf x)
{
    return (vf)EACH1(canonical_nan_f32, x);
}

PQ_INLINE int32x4_t magnitude_bits_f32(float32x4_t x)
{
    return vandq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(0x7fffffff));
}

PQ_INLINE vi magnitude_bits(vf x)
{
    return (vi)EACH1(magnitude_bits_f32, x);
}

/* ---- primitives of rounding ---- */

#define splat_f32v vdupq_n_f32
#define add_f32v vaddq_f32
#define subtract_f32v vsubq_f32
#define magnitude_f32v vabsq_f32
#define up_f32v vrndpq_f32
#define down_f32v vrndmq_f32
#define nearest_f32v vrndnq_f32
#define truncate_f32v vcvtq_s32_f32
#define nearest_i32v vcvtnq_s32_f32

PQ_INLINE f32v or_f32v(f32v x, f32v y)
{
    return vreinterpretq_f32_u32(
        vorrq_u32(vreinterpretq_u32_f32(x), vreinterpretq_u32_f32(y)));
}

PQ_INLINE f32v sign_f32v(f32v q)
{
    return vreinterpretq_f32_u32(
        vandq_u32(vreinterpretq_u32_f32(q), vdupq_n_u32(0x80000000)));
}

/* Return q: truncate_f32v truncates. */
PQ_INLINE f32v toward_zero_f32v(f32v q)
{
    return q;
}

/* Return v where x and y are equal, else 0. */
PQ_INLINE f32v if_equal_f32v(f32v x, f32v y, f32v v)
{
    return vreinterpretq_f32_u32(vandq_u32(vceqq_f32(x, y), vreinterpretq_u32_f32(v)));
}

/* ---- store: |r| <= 2^18, so a zero point of 16 bits is added without wrapping ---- */

/* The sums that become 8-bit codes, saturated to 16 bits. */
PQ_INLINE vh narrow_sums(vi r, vi z)
{
    const vi v = add_i32(r, z);
    return (vh){vqmovn_high_s32(vqmovn_s32(v.a), v.b),
                vqmovn_high_s32(vqmovn_s32(v.c), v.d)};
}

PQ_INLINE vh splat_i16(int16_t s)
{
    return (vh){vdupq_n_s16(s), vdupq_n_s16(s)};
}

PQ_INLINE int16x8_t larger_u16x8(int16x8_t x, int16x8_t y)
{
    return vreinterpretq_s16_u16(
        vmaxq_u16(vreinterpretq_u16_s16(x), vreinterpretq_u16_s16(y)));
}

/* Negative ones are above all others. */
PQ_INLINE vh larger_u16(vh x, vh y)
{
    return (vh){larger_u16x8(x.a, y.a), larger_u16x8(x.b, y.b)};
}

/* `least` and as many more as are in `w`, within 0 and 255; modulo 256. */
PQ_INLINE void store_above_8(void *p, vh w, int least)
{
    const uint8x16_t bytes = vqmovun_high_s16(vqmovun_s16(w.a), w.b);
    store128(p, vaddq_u8(bytes, vdupq_n_u8((uint8_t)least)));
}

PQ_INLINE void store_i8(void *p, vi r, vi z)
{
    const vi v = add_i32(r, z);
    const int16x8_t lo = vqmovn_high_s32(vqmovn_s32(v.a), v.b);
    const int16x8_t hi = vqmovn_high_s32(vqmovn_s32(v.c), v.d);
    store128(p, vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(lo), hi)));
}

PQ_INLINE void store_u8(void *p, vi r, vi z)
{
    const vi v = add_i32(r, z);
    const int16x8_t lo = vqmovn_high_s32(vqmovn_s32(v.a), v.b);
    const int16x8_t hi = vqmovn_high_s32(vqmovn_s32(v.c), v.d);
    store128(p, vqmovun_high_s16(vqmovun_s16(lo), hi));
}

PQ_INLINE void store_i16(void *p, vi r, vi z)
{
    const vi v = add_i32(r, z);
    char *c = p;
    store128(c, vreinterpretq_u8_s16(vqmovn_high_s32(vqmovn_s32(v.a), v.b)));
    store128(c + 16, vreinterpretq_u8_s16(vqmovn_high_s32(vqmovn_s32(v.c), v.d)));
}

PQ_INLINE void store_u16(void *p, vi r, vi z)
{
    const vi v = add_i32(r, z);
    char *c = p;
    store128(c, vreinterpretq_u8_u16(vqmovun_high_s32(vqmovun_s32(v.a), v.b)));
    store128(c + 16, vreinterpretq_u8_u16(vqmovun_high_s32(vqmovun_s32(v.c), v.d)));
}

PQ_INLINE void store_equal(void *p, vi x, vi y)
{
    const uint16x8_t lo =
        vmovn_high_u32(vmovn_u32(vceqq_s32(x.a, y.a)), vceqq_s32(x.b, y.b));
    const uint16x8_t hi =
        vmovn_high_u32(vmovn_u32(vceqq_s32(x.c, y.c)), vceqq_s32(x.d, y.d));
    store128(p, vandq_u8(vmovn_high_u16(vmovn_u16(lo), hi), vdupq_n_u8(1)));
}

PQ_INLINE int32x4_t larger_u32x4(int32x4_t x, int32x4_t y)
{
    return vreinterpretq_s32_u32(
        vmaxq_u32(vreinterpretq_u32_s32(x), vreinterpretq_u32_s32(y)));
}

PQ_INLINE vi larger_u32(vi x, vi y)
{
    return (vi)EACH2(larger_u32x4, x, y);
}

/* The same within 0 and 65535, modulo 65536. */
PQ_INLINE void store_above_16(void *p, vi w, int least)
{
    const uint16x8_t base = vdupq_n_u16((uint16_t)least);
    const uint16x8_t lo = vqmovun_high_s32(vqmovun_s32(w.a), w.b);
    const uint16x8_t hi = vqmovun_high_s32(vqmovun_s32(w.c), w.d);
    char *c = p;
    store128(c, vreinterpretq_u8_u16(vaddq_u16(lo, base)));
    store128(c + 16, vreinterpretq_u8_u16(vaddq_u16(hi, base)));
}

PQ_INLINE void store_f32(void *p, vf x)
{
    char *f = p;
    store128(f, vreinterpretq_u8_f32(x.a));
    store128(f + 16, vreinterpretq_u8_f32(x.b));
    store128(f + 32, vreinterpretq_u8_f32(x.c));
    store128(f + 48, vreinterpretq_u8_f32(x.d));
}

PQ_INLINE void store_i32(void *p, vi x)
{
    char *c = p;
    store128(c, vreinterpretq_u8_s32(x.a));
    store128(c + 16, vreinterpretq_u8_s32(x.b));
    store128(c + 32, vreinterpretq_u8_s32(x.c));
    store128(c + 48, vreinterpretq_u8_s32(x.d));
}

PQ_INLINE void store_f16(void *p, vf x)
{
    char *h = p;
    const float16x8_t lo = vcvt_high_f16_f32(vcvt_f16_f32(x.a), x.b);
    const float16x8_t hi = vcvt_high_f16_f32(vcvt_f16_f32(x.c), x.d);
    store128(h, vreinterpretq_u8_f16(lo));
    store128(h + 16, vreinterpretq_u8_f16(hi));
}

/* Round to the nearest even bfloat16 by integer addition. NaN must be canonical. */
PQ_INLINE uint32x4_t round_bf16(float32x4_t x)
{
    const uint32x4_t u = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    return vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
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

/* NaN stays one; its bits do not matter. */
PQ_INLINE float32x4_t round_to_f16_f32(float32x4_t x)
{
    return vcvt_f32_f16(vcvt_f16_f32(x));
}

PQ_INLINE vf round_to_f16(vf x)
{
    return (vf)EACH1(round_to_f16_f32, x);
}

PQ_INLINE float32x4_t round_to_bf16_f32(float32x4_t x)
{
    const uint32x4_t r = vandq_u32(round_bf16(x), vdupq_n_u32(0xffff0000));
    return vbslq_f32(vceqq_f32(x, x), vreinterpretq_f32_u32(r), x);
}

PQ_INLINE vf round_to_bf16(vf x)
{
    return (vf)EACH1(round_to_bf16_f32, x);
}

PQ_INLINE uint8x16_t bytes_of(vi x)
{
    const int16x8_t lo = vqmovn_high_s32(vqmovn_s32(x.a), x.b);
    const int16x8_t hi = vqmovn_high_s32(vqmovn_s32(x.c), x.d);
    return vqmovun_high_s16(vqmovun_s16(lo), hi);
}

/* Magnitudes of a narrow float, the signs those of `signs`, but for the code `bare`. */
PQ_INLINE void store_float_codes(void *p, vi magnitudes, vi signs, int sign, int bare)
{
    const uint8x16_t code = bytes_of(magnitudes);
    const vi ones = (vi){vshrq_n_s32(signs.a, 31), vshrq_n_s32(signs.b, 31),
                         vshrq_n_s32(signs.c, 31), vshrq_n_s32(signs.d, 31)};
    const vi negated = (vi)EACH1(vnegq_s32, ones); /* 1 where negative */
    const uint8x16_t all = vmulq_u8(bytes_of(negated), vdupq_n_u8((uint8_t)sign));
    const uint8x16_t negative = vbicq_u8(all, vceqq_u8(code, vdupq_n_u8((uint8_t)bare)));
    store128(p, vorrq_u8(code, negative));
}

/* ---- float64: half a block, 4 x 2 numbers ---- */

typedef struct {
    f64v a, b, c, d;
} vd;

PQ_INLINE vd load_f64(const void *p)
{
    const char *f = p;
    return (vd){vreinterpretq_f64_u8(load128(f)), vreinterpretq_f64_u8(load128(f + 16)),
                vreinterpretq_f64_u8(load128(f + 32)),
                vreinterpretq_f64_u8(load128(f + 48))};
}

PQ_INLINE void store_f64(void *p, vd x)
{
    char *f = p;
    store128(f, vreinterpretq_u8_f64(x.a));
    store128(f + 16, vreinterpretq_u8_f64(x.b));
    store128(f + 32, vreinterpretq_u8_f64(x.c));
    store128(f + 48, vreinterpretq_u8_f64(x.d));
}

PQ_INLINE vd splat_f64(double s)
{
    const float64x2_t v = vdupq_n_f64(s);
    return (vd){v, v, v, v};
}

PQ_INLINE vd widen_f32(float32x4_t x, float32x4_t y)
{
    return (vd){vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x),
                vcvt_f64_f32(vget_low_f32(y)), vcvt_high_f64_f32(y)};
}

PQ_INLINE vd widen_i32(int32x4_t x, int32x4_t y)
{
    return (vd){vcvtq_f64_s64(vmovl_s32(vget_low_s32(x))), vcvtq_f64_s64(vmovl_high_s32(x)),
                vcvtq_f64_s64(vmovl_s32(vget_low_s32(y))),
                vcvtq_f64_s64(vmovl_high_s32(y))};
}

/* The first and the second half of a block. */
PQ_INLINE vd low_f32(vf x)
{
    return widen_f32(x.a, x.b);
}

PQ_INLINE vd high_f32(vf x)
{
    return widen_f32(x.c, x.d);
}

PQ_INLINE vd low_i32(vi x)
{
    return widen_i32(x.a, x.b);
}

PQ_INLINE vd high_i32(vi x)
{
    return widen_i32(x.c, x.d);
}

/* Round both halves to float32. */
PQ_INLINE vf narrow_f64(vd x, vd y)
{
    return (vf){vcvt_high_f32_f64(vcvt_f32_f64(x.a), x.b),
                vcvt_high_f32_f64(vcvt_f32_f64(x.c), x.d),
                vcvt_high_f32_f64(vcvt_f32_f64(y.a), y.b),
                vcvt_high_f32_f64(vcvt_f32_f64(y.c), y.d)};
}

PQ_INLINE vf narrow_to_odd(vd x, vd y)
{
    return (vf){vcvtx_high_f32_f64(vcvtx_f32_f64(x.a), x.b),
                vcvtx_high_f32_f64(vcvtx_f32_f64(x.c), x.d),
                vcvtx_high_f32_f64(vcvtx_f32_f64(y.a), y.b),
                vcvtx_high_f32_f64(vcvtx_f32_f64(y.c), y.d)};
}

PQ_INLINE int32x4_t convert_pair(float64x2_t x, float64x2_t y)
{
    return vmovn_high_s64(vmovn_s64(vcvtq_s64_f64(x)), vcvtq_s64_f64(y));
}

/* Both halves, integers that int32 holds. */
PQ_INLINE vi convert_f64(vd x, vd y)
{
    return (vi){convert_pair(x.a, x.b), convert_pair(x.c, x.d), convert_pair(y.a, y.b),
                convert_pair(y.c, y.d)};
}

/* Both halves to the nearest integers, halves to even, that int32 holds. */
PQ_INLINE vi nearest_f64(vd x, vd y)
{
    return convert_f64((vd)EACH1(vrndnq_f64, x), (vd)EACH1(vrndnq_f64, y));
}

PQ_INLINE vd divide_f64(vd x, vd y)
{
    return (vd)EACH2(vdivq_f64, x, y);
}

PQ_INLINE vd multiply_f64(vd x, vd y)
{
    return (vd)EACH2(vmulq_f64, x, y);
}

/* As of float32. */
PQ_INLINE float64x2_t fused_add_pair(float64x2_t x, float64x2_t y, float64x2_t z)
{
    return vfmaq_f64(z, x, y);
}

PQ_INLINE float64x2_t fused_subtract_pair(float64x2_t x, float64x2_t y, float64x2_t z)
{
    return vfmsq_f64(z, x, y);
}

PQ_INLINE vd fused_add_f64(vd x, vd y, vd z)
{
    return (vd)EACH3(fused_add_pair, x, y, z);
}

PQ_INLINE vd fused_subtract_f64(vd x, vd y, vd z)
{
    return (vd)EACH3(fused_subtract_pair, x, y, z);
}

PQ_INLINE vd cap_keep_nan_f64(vd x, vd hi)
{
    return (vd)EACH2(vminq_f64, x, hi);
}

/* Return the magnitude. */
PQ_INLINE vd magnitude_f64(vd x)
{
    return (vd)EACH1(vabsq_f64, x);
}

/* The powers of two below what is not negative. */
PQ_INLINE float64x2_t power_pair(float64x2_t x)
{
    const uint64x2_t exponent = vdupq_n_u64(0x7ff0000000000000);
    return vreinterpretq_f64_u64(vandq_u64(vreinterpretq_u64_f64(x), exponent));
}

PQ_INLINE vd power_f64(vd x)
{
    return (vd)EACH1(power_pair, x);
}

/* The lower and the upper halves of the bits of two half blocks. */
#define WORDS(which, x, y) which(vreinterpretq_s32_f64(x), vreinterpretq_s32_f64(y))
#define LOWER(x, y) WORDS(vuzp1q_s32, x, y)
#define UPPER(x, y) WORDS(vuzp2q_s32, x, y)

PQ_INLINE vi lower_words(vd x, vd y)
{
    return (vi){LOWER(x.a, x.b), LOWER(x.c, x.d), LOWER(y.a, y.b), LOWER(y.c, y.d)};
}

PQ_INLINE vi upper_words(vd x, vd y)
{
    return (vi){UPPER(x.a, x.b), UPPER(x.c, x.d), UPPER(y.a, y.b), UPPER(y.c, y.d)};
}
#undef LOWER
#undef UPPER
#undef WORDS

PQ_INLINE vd add_f64(vd x, vd y)
{
    return (vd)EACH2(vaddq_f64, x, y);
}

PQ_INLINE vd subtract_f64(vd x, vd y)
{
    return (vd)EACH2(vsubq_f64, x, y);
}

PQ_INLINE vd smaller_f64(vd x, vd y)
{
    return (vd)EACH2(vminq_f64, x, y);
}

PQ_INLINE vd larger_f64(vd x, vd y)
{
    return (vd)EACH2(vmaxq_f64, x, y);
}

PQ_INLINE double smallest_f64(vd x)
{
    return vminvq_f64(vminq_f64(vminq_f64(x.a, x.b), vminq_f64(x.c, x.d)));
}

PQ_INLINE double largest_f64(vd x)
{
    return vmaxvq_f64(vmaxq_f64(vmaxq_f64(x.a, x.b), vmaxq_f64(x.c, x.d)));
}

PQ_INLINE int any_nan_f64(vd x)
{
    const uint64x2_t ab = vandq_u64(vceqq_f64(x.a, x.a), vceqq_f64(x.b, x.b));
    const uint64x2_t cd = vandq_u64(vceqq_f64(x.c, x.c), vceqq_f64(x.d, x.d));
    return vminvq_u32(vreinterpretq_u32_u64(vandq_u64(ab, cd))) == 0;
}

/* Limit x to the range from lo to hi. NaN becomes lo. For the order see cap_keep_nan. */
PQ_INLINE vd bound_f64(vd x, vd lo, vd hi)
{
    const vd v = EACH2(vminq_f64, x, hi);
    return (vd)EACH2(vmaxnmq_f64, v, lo);
}

PQ_INLINE float64x2_t canonical_nan_one(float64x2_t x)
{
    const float64x2_t nan = vreinterpretq_f64_u64(vdupq_n_u64(0x7ff8000000000000));
    return vbslq_f64(vceqq_f64(x, x), x, nan);
}

PQ_INLINE vd canonical_nan_f64(vd x)
{
    return (vd)EACH1(canonical_nan_one, x);
}

#define splat_f64v vdupq_n_f64
#define add_f64v vaddq_f64
#define subtract_f64v vsubq_f64
#define magnitude_f64v vabsq_f64
#define up_f64v vrndpq_f64
#define down_f64v vrndmq_f64
#define toward_zero_f64v vrndq_f64
#define nearest_f64v vrndnq_f64

PQ_INLINE f64v or_f64v(f64v x, f64v y)
{
    return vreinterpretq_f64_u64(
        vorrq_u64(vreinterpretq_u64_f64(x), vreinterpretq_u64_f64(y)));
}

PQ_INLINE f64v sign_f64v(f64v q)
{
    return vreinterpretq_f64_u64(
        vandq_u64(vreinterpretq_u64_f64(q), vdupq_n_u64(UINT64_C(1) << 63)));
}

PQ_INLINE f64v if_equal_f64v(f64v x, f64v y, f64v v)
{
    return vreinterpretq_f64_u64(vandq_u64(vceqq_f64(x, y), vreinterpretq_u64_f64(v)));
}

#include "kernels/words.inc"

/* ---- random bits beside numbers ---- */

PQ_INLINE float32x4_t top_24(int32x4_t words)
{
    return vcvtq_f32_u32(vshrq_n_u32(vreinterpretq_u32_s32(words), 8));
}

PQ_INLINE vf load_top_24(const void *p)
{
    const vi words = load_i32(p);
    return (vf)EACH1(top_24, words);
}

PQ_INLINE vf subtract(vf x, vf y)
{
    return (vf)EACH2(vsubq_f32, x, y);
}

PQ_INLINE vf round_down(vf x)
{
    return (vf)EACH1(vrndmq_f32, x);
}

PQ_INLINE float32x4_t one_where_less_4(float32x4_t x, float32x4_t y)
{
    const uint32x4_t one = vreinterpretq_u32_f32(vdupq_n_f32(1));
    return vreinterpretq_f32_u32(vandq_u32(vcltq_f32(x, y), one));
}

PQ_INLINE vf one_where_less(vf x, vf y)
{
    return (vf)EACH2(one_where_less_4, x, y);
}

#define PQ_STREAMS 8
typedef struct {
    uint64x2_t a, b, c, d;
} vu;

PQ_INLINE vu splat_u64(uint64_t s)
{
    const uint64x2_t v = vdupq_n_u64(s);
    return (vu){v, v, v, v};
}

PQ_INLINE vu load_streams(const uint64_t *p)
{
    return (vu){vld1q_u64(p), vld1q_u64(p + 2), vld1q_u64(p + 4), vld1q_u64(p + 6)};
}

PQ_INLINE vu add_u64(vu x, vu y)
{
    return (vu)EACH2(vaddq_u64, x, y);
}

PQ_INLINE uint64x2_t product_of_lower(uint64x2_t x, uint64x2_t y)
{
    return vmull_u32(vmovn_u64(x), vmovn_u64(y));
}

PQ_INLINE vu product_u32(vu x, vu y)
{
    return (vu)EACH2(product_of_lower, x, y);
}

PQ_INLINE uint64x2_t upper_of(uint64x2_t x)
{
    return vshrq_n_u64(x, 32);
}

PQ_INLINE vu upper_u64(vu x)
{
    return (vu)EACH1(upper_of, x);
}

PQ_INLINE vu flip_u64(vu x, vu y)
{
    return (vu)EACH2(veorq_u64, x, y);
}

/* Store the words of two blocks. */
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

PQ_INLINE vb load_bytes(const void *p)
{
    return load128(p);
}

PQ_INLINE void store_bytes(void *p, vb x)
{
    store128(p, x);
}

PQ_INLINE vb mask_bytes(vb x, uint8_t y)
{
    return vandq_u8(x, vdupq_n_u8(y));
}

PQ_INLINE vb flip_bytes(vb x, uint8_t y)
{
    return veorq_u8(x, vdupq_n_u8(y));
}

PQ_INLINE vb subtract_bytes(vb x, uint8_t y)
{
    return vsubq_u8(x, vdupq_n_u8(y));
}

PQ_INLINE vb smaller_u8(vb x, uint8_t y)
{
    return vminq_u8(x, vdupq_n_u8(y));
}

PQ_INLINE vb smaller_i8(vb x, int8_t y)
{
    return vreinterpretq_u8_s8(vminq_s8(vreinterpretq_s8_u8(x), vdupq_n_s8(y)));
}

PQ_INLINE vb larger_i8(vb x, int8_t y)
{
    return vreinterpretq_u8_s8(vmaxq_s8(vreinterpretq_s8_u8(x), vdupq_n_s8(y)));
}

/* int8 to int32. */
PQ_INLINE vi widen_bytes(vb x)
{
    const int8x16_t c = vreinterpretq_s8_u8(x);
    return widen_i16(vmovl_s8(vget_low_s8(c)), vmovl_high_s8(c));
}

/* Unpack codes of 4 bits. The upper bits of each byte are undefined. */
PQ_INLINE vb unpack4(const void *p)
{
    const uint8x8_t lo = vld1_u8((const uint8_t *)p), hi = vshr_n_u8(lo, 4);
    return vcombine_u8(vzip1_u8(lo, hi), vzip2_u8(lo, hi));
}

PQ_INLINE vb unpack2(const void *p)
{
    static const uint8_t places[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    static const int8_t shifts[16] = {0, -2, -4, -6, 0, -2, -4, -6,
                                      0, -2, -4, -6, 0, -2, -4, -6};
    uint32_t word;
    memcpy(&word, p, sizeof word);
    const uint8x16_t bytes = vreinterpretq_u8_u32(vdupq_n_u32(word));
    return vshlq_u8(vqtbl1q_u8(bytes, vld1q_u8(places)), vld1q_s8(shifts));
}

/* Pack bytes of 4 bits. */
PQ_INLINE void pack4(void *p, vb x)
{
    const uint8x8_t lo = vget_low_u8(x), hi = vget_high_u8(x);
    vst1_u8((uint8_t *)p, vorr_u8(vuzp1_u8(lo, hi), vshl_n_u8(vuzp2_u8(lo, hi), 4)));
}

PQ_INLINE void pack2(void *p, vb x)
{
    const uint8x8_t lo = vget_low_u8(x), hi = vget_high_u8(x);
    const uint8x8_t pairs = vorr_u8(vuzp1_u8(lo, hi), vshl_n_u8(vuzp2_u8(lo, hi), 2));
    const uint8x8_t all =
        vorr_u8(vuzp1_u8(pairs, pairs), vshl_n_u8(vuzp2_u8(pairs, pairs), 4));
    const uint32_t word = vget_lane_u32(vreinterpret_u32_u8(all), 0);
    memcpy(p, &word, sizeof word);
}

/* 16 bytes, each from one of `lines` lines of 16, `step` apart, for which `places` has its
 * place; those of other lines have none: 255. */
PQ_INLINE void pick_bytes(char *to, const char *from, ptrdiff_t step, const uint8_t *places,
                          size_t lines)
{
    uint8x16_t all = vdupq_n_u8(0);
    for (size_t k = 0; k < lines; k++) {
        all = vorrq_u8(all, vqtbl1q_u8(load128(from + (ptrdiff_t)k * step),
                                       vld1q_u8(places + k * 16)));
    }
    store128(to, all);
}

/* ---- transposes of squares: 8 x 8 bytes and halves, 4 x 4 words, 2 x 2 doubles ---- */

PQ_INLINE void transpose_bytes(const char *from, ptrdiff_t from_stride, char *to,
                               ptrdiff_t to_stride)
{
    uint8x8_t line[8];
    uint16x4_t pair[8];
    uint32x2_t quad[8];
    for (int i = 0; i < 8; i++) {
        line[i] = vld1_u8((const uint8_t *)(from + i * from_stride));
    }
    for (int i = 0; i < 8; i += 2) {
        pair[i] = vreinterpret_u16_u8(vtrn1_u8(line[i], line[i + 1]));
        pair[i + 1] = vreinterpret_u16_u8(vtrn2_u8(line[i], line[i + 1]));
    }
    for (int i = 0; i < 8; i += 4) {
        for (int j = i; j < i + 2; j++) {
            quad[j] = vreinterpret_u32_u16(vtrn1_u16(pair[j], pair[j + 2]));
            quad[j + 2] = vreinterpret_u32_u16(vtrn2_u16(pair[j], pair[j + 2]));
        }
    }
    for (int i = 0; i < 4; i++) {
        vst1_u8((uint8_t *)(to + i * to_stride),
                vreinterpret_u8_u32(vtrn1_u32(quad[i], quad[i + 4])));
        vst1_u8((uint8_t *)(to + (i + 4) * to_stride),
                vreinterpret_u8_u32(vtrn2_u32(quad[i], quad[i + 4])));
    }
}

PQ_INLINE void transpose_halves(const char *from, ptrdiff_t from_stride, char *to,
                                ptrdiff_t to_stride)
{
    uint16x8_t line[8];
    uint32x4_t pair[8];
    uint64x2_t quad[8];
    for (int i = 0; i < 8; i++) {
        line[i] = vreinterpretq_u16_u8(load128(from + i * from_stride));
    }
    for (int i = 0; i < 8; i += 2) {
        pair[i] = vreinterpretq_u32_u16(vtrn1q_u16(line[i], line[i + 1]));
        pair[i + 1] = vreinterpretq_u32_u16(vtrn2q_u16(line[i], line[i + 1]));
    }
    for (int i = 0; i < 8; i += 4) {
        for (int j = i; j < i + 2; j++) {
            quad[j] = vreinterpretq_u64_u32(vtrn1q_u32(pair[j], pair[j + 2]));
            quad[j + 2] = vreinterpretq_u64_u32(vtrn2q_u32(pair[j], pair[j + 2]));
        }
    }
    for (int i = 0; i < 4; i++) {
        store128(to + i * to_stride,
                 vreinterpretq_u8_u64(vtrn1q_u64(quad[i], quad[i + 4])));
        store128(to + (i + 4) * to_stride,
                 vreinterpretq_u8_u64(vtrn2q_u64(quad[i], quad[i + 4])));
    }
}

PQ_INLINE void transpose_words(const char *from, ptrdiff_t from_stride, char *to,
                               ptrdiff_t to_stride)
{
    uint32x4_t line[4];
    uint64x2_t pair[4];
    for (int i = 0; i < 4; i++) {
        line[i] = vreinterpretq_u32_u8(load128(from + i * from_stride));
    }
    for (int i = 0; i < 4; i += 2) {
        pair[i] = vreinterpretq_u64_u32(vtrn1q_u32(line[i], line[i + 1]));
        pair[i + 1] = vreinterpretq_u64_u32(vtrn2q_u32(line[i], line[i + 1]));
    }
    for (int i = 0; i < 2; i++) {
        store128(to + i * to_stride,
                 vreinterpretq_u8_u64(vtrn1q_u64(pair[i], pair[i + 2])));
        store128(to + (i + 2) * to_stride,
                 vreinterpretq_u8_u64(vtrn2q_u64(pair[i], pair[i + 2])));
    }
}

PQ_INLINE void transpose_doubles(const char *from, ptrdiff_t from_stride, char *to,
                                 ptrdiff_t to_stride)
{
    const uint64x2_t a = vreinterpretq_u64_u8(load128(from));
    const uint64x2_t b = vreinterpretq_u64_u8(load128(from + from_stride));
    store128(to, vreinterpretq_u8_u64(vtrn1q_u64(a, b)));
    store128(to + to_stride, vreinterpretq_u8_u64(vtrn2q_u64(a, b)));
}

#undef EACH1
#undef EACH2
#undef EACH3

#endif
