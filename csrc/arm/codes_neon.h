/* SPDX-License-Identifier: Apache-2.0 */
/* The vector words of scalar/codes_scalar.h. The including file includes the intrinsics. */
#ifndef PQ_CODES_NEON_H
#define PQ_CODES_NEON_H

#include <stdint.h>

#include "pq_compiler.h"

typedef uint8x16x2_t c32;

PQ_INLINE c32 c32_of(uint8x16_t lo, uint8x16_t hi)
{
    c32 r;
    r.val[0] = lo;
    r.val[1] = hi;
    return r;
}

PQ_INLINE c32 c32_load(const uint8_t *p)
{
    return c32_of(vld1q_u8(p), vld1q_u8(p + 16));
}

PQ_INLINE c32 c32_join(uint64_t x, uint64_t y, uint64_t z, uint64_t w)
{
    return c32_of(vcombine_u8(vcreate_u8(x), vcreate_u8(y)),
                  vcombine_u8(vcreate_u8(z), vcreate_u8(w)));
}

PQ_INLINE c32 c32_splat(uint8_t s)
{
    return c32_of(vdupq_n_u8(s), vdupq_n_u8(s));
}

PQ_INLINE c32 c32_nibbles(const uint8_t *p)
{
    const uint8x16_t x = vld1q_u8(p);
    return c32_of(vandq_u8(x, vdupq_n_u8(15)), vshrq_n_u8(x, 4));
}

PQ_INLINE c32 c32_nibbles_of_8(const uint8_t *p)
{
    const c32 x = c32_nibbles(p);
    return c32_of(vcombine_u8(vget_low_u8(x.val[0]), vget_low_u8(x.val[1])),
                  vcombine_u8(vget_high_u8(x.val[0]), vget_high_u8(x.val[1])));
}

PQ_INLINE c32 c32_pairs(uint64_t x)
{
    static const int8_t shifts[16] = {0, -2, -4, -6, 0, -2, -4, -6,
                                      0, -2, -4, -6, 0, -2, -4, -6};
    static const uint8_t places[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    const uint8x16_t bytes = vcombine_u8(vcreate_u8(x), vdup_n_u8(0));
    const uint8x16_t at = vld1q_u8(places), three = vdupq_n_u8(3);
    const int8x16_t by = vld1q_s8(shifts);
    const uint8x16_t lo = vqtbl1q_u8(bytes, at);
    const uint8x16_t hi = vqtbl1q_u8(bytes, vaddq_u8(at, vdupq_n_u8(4)));
    return c32_of(vandq_u8(vshlq_u8(lo, by), three), vandq_u8(vshlq_u8(hi, by), three));
}

/* Turn each 12 bits into two 16-bit fields of 6 bits, and each field into two bytes of 3.
 */
PQ_INLINE uint8x16_t triples_of(uint64_t x)
{
    const uint32x4_t w = vmovl_u16(vcreate_u16(x));
    const uint32x4_t two =
        vandq_u32(vorrq_u32(w, vshlq_n_u32(w, 10)), vdupq_n_u32(0x003f003f));
    const uint32x4_t four = vorrq_u32(two, vshlq_n_u32(two, 5));
    return vandq_u8(vreinterpretq_u8_u32(four), vdupq_n_u8(7));
}

PQ_INLINE c32 c32_triples(uint64_t x, uint64_t y)
{
    return c32_of(triples_of(x), triples_of(y));
}

PQ_INLINE c32 c32_where(uint32_t bits, uint8_t value)
{
    static const uint8_t each[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                     1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t mask = vld1q_u8(each), set = vdupq_n_u8(value);
    const uint8x16_t lo =
        vcombine_u8(vdup_n_u8((uint8_t)bits), vdup_n_u8((uint8_t)(bits >> 8)));
    const uint8x16_t hi =
        vcombine_u8(vdup_n_u8((uint8_t)(bits >> 16)), vdup_n_u8((uint8_t)(bits >> 24)));
    return c32_of(vandq_u8(vtstq_u8(lo, mask), set), vandq_u8(vtstq_u8(hi, mask), set));
}

PQ_INLINE c32 c32_flip(c32 x, uint32_t bits)
{
    const c32 mask = c32_where(bits, 0xff);
    return c32_of(vsubq_u8(veorq_u8(x.val[0], mask.val[0]), mask.val[0]),
                  vsubq_u8(veorq_u8(x.val[1], mask.val[1]), mask.val[1]));
}

PQ_INLINE c32 c32_field(c32 x, int shift, uint8_t mask)
{
    const int8x16_t by = vdupq_n_s8((int8_t)-shift);
    const uint8x16_t kept = vdupq_n_u8(mask);
    return c32_of(vandq_u8(vshlq_u8(x.val[0], by), kept),
                  vandq_u8(vshlq_u8(x.val[1], by), kept));
}

PQ_INLINE c32 c32_shift_left(c32 x, int shift)
{
    const int8x16_t by = vdupq_n_s8((int8_t)shift);
    return c32_of(vshlq_u8(x.val[0], by), vshlq_u8(x.val[1], by));
}

PQ_INLINE c32 c32_or(c32 x, c32 y)
{
    return c32_of(vorrq_u8(x.val[0], y.val[0]), vorrq_u8(x.val[1], y.val[1]));
}

PQ_INLINE c32 c32_subtract(c32 x, c32 y)
{
    return c32_of(vsubq_u8(x.val[0], y.val[0]), vsubq_u8(x.val[1], y.val[1]));
}

PQ_INLINE c32 c32_look_up(const int8_t *table, c32 x)
{
    const uint8x16_t entries = vreinterpretq_u8_s8(vld1q_s8(table));
    return c32_of(vqtbl1q_u8(entries, x.val[0]), vqtbl1q_u8(entries, x.val[1]));
}

PQ_INLINE void scale_table(float *to, const float *from, float scale)
{
    const float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000));
    for (int k = 0; k < 16; k += 4) {
        const float32x4_t v = vmulq_n_f32(vld1q_f32(from + k), scale);
        vst1q_f32(to + k, vbslq_f32(vceqq_f32(v, v), v, nan));
    }
}

/* Look up 16 codes in a table of float32, byte by byte. */
PQ_INLINE void values_of_16(uint8_t *to, uint8x16_t x, uint8x16x4_t table)
{
    static const uint8_t bytes[16] = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3};
    static const uint8_t codes[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    const uint8x16_t first = vshlq_n_u8(x, 2);
    for (int i = 0; i < 4; i++) {
        const uint8x16_t each = vaddq_u8(vld1q_u8(codes), vdupq_n_u8((uint8_t)(4 * i)));
        const uint8x16_t place = vaddq_u8(vqtbl1q_u8(first, each), vld1q_u8(bytes));
        vst1q_u8(to + 16 * i, vqtbl4q_u8(table, place));
    }
}

PQ_INLINE void c32_values(char *to, const uint8_t *codes, const float *table)
{
    const uint8_t *const p = (const uint8_t *)table;
    const uint8x16x4_t entries = {
        {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
    const uint8x16_t low = vdupq_n_u8(15);
    values_of_16((uint8_t *)to, vandq_u8(vld1q_u8(codes), low), entries);
    values_of_16((uint8_t *)to + 64, vandq_u8(vld1q_u8(codes + 16), low), entries);
}

/* Count the bounds below each number. With 15 bounds, this is faster than a tree search. */
PQ_INLINE uint16x4_t count_less(const float *from, const float *bound)
{
    const float32x4_t x = vld1q_f32(from);
    uint32x4_t count = vdupq_n_u32(0);
    for (int k = 1; k < 16; k++) {
        count = vsubq_u32(count, vcltq_f32(vdupq_n_f32(bound[k]), x));
    }
    return vmovn_u32(count);
}

PQ_INLINE c32 c32_find(const float *x, const float *bound, int levels)
{
    uint8_t places[32];
    for (int i = 0; i < 32 && levels == 4; i += 8) {
        const uint16x4_t lo = count_less(x + i, bound), hi = count_less(x + i + 4, bound);
        vst1_u8(places + i, vmovn_u16(vcombine_u16(lo, hi)));
    }
    for (int i = 0; i < 32 && levels != 4; i++) {
        int k = 1;
        for (int level = 0; level < levels; level++) {
            k = 2 * k + (bound[k] < x[i]);
        }
        places[i] = (uint8_t)(k - (1 << levels));
    }
    return c32_load(places);
}

PQ_INLINE uint8x16_t trits_of(uint8x16_t x, uint8x16_t y)
{
    const uint8x16_t part = vmulq_u8(x, y), three = vdupq_n_u8(3);
    const uint16x8_t lo = vmull_u8(vget_low_u8(part), vget_low_u8(three));
    const uint16x8_t hi = vmull_high_u8(part, three);
    return vcombine_u8(vshrn_n_u16(lo, 8), vshrn_n_u16(hi, 8));
}

PQ_INLINE c32 c32_trits(c32 x, c32 y)
{
    return c32_of(trits_of(x.val[0], y.val[0]), trits_of(x.val[1], y.val[1]));
}

PQ_INLINE float half_value(uint16_t bits)
{
    const float16x4_t h = vreinterpret_f16_u16(vdup_n_u16(bits));
    return vgetq_lane_f32(vcvt_f32_f16(h), 0);
}

/* Store by bytes, which need no alignment. */
PQ_INLINE void store_four(char *to, float32x4_t x)
{
    vst1q_u8((uint8_t *)to, vreinterpretq_u8_f32(x));
}

/* Store 16 signed codes times `a`, plus `c` if `shifted`. */
PQ_INLINE void store_sixteen(char *to, uint8x16_t x, float a, float c, int shifted)
{
    const int8x16_t code = vreinterpretq_s8_u8(x);
    const int16x8_t lo = vmovl_s8(vget_low_s8(code)), hi = vmovl_high_s8(code);
    const int32x4_t quarter[4] = {vmovl_s16(vget_low_s16(lo)), vmovl_high_s16(lo),
                                  vmovl_s16(vget_low_s16(hi)), vmovl_high_s16(hi)};
    const float32x4_t va = vdupq_n_f32(a), vc = vdupq_n_f32(c);
    for (int i = 0; i < 4; i++) {
        const float32x4_t q = vcvtq_f32_s32(quarter[i]);
        store_four(to + 16 * i, shifted ? vfmaq_f32(vc, q, va) : vmulq_f32(q, va));
    }
}

PQ_INLINE void store_scaled(char *to, c32 x, float a, float b)
{
    store_sixteen(to, x.val[0], a, 0, 0);
    store_sixteen(to + 64, x.val[1], b, 0, 0);
}

PQ_INLINE void store_shifted(char *to, c32 x, float a, float b, float c, float d)
{
    store_sixteen(to, x.val[0], a, c, 1);
    store_sixteen(to + 64, x.val[1], b, d, 1);
}

PQ_INLINE void narrow_to_f16(uint16_t *to, const float *from)
{
    for (int i = 0; i < 32; i += 8) {
        const float16x8_t h =
            vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(from + i)), vld1q_f32(from + i + 4));
        vst1q_u16(to + i, vreinterpretq_u16_f16(h));
    }
}

/* Round to bfloat16, half to even, by an integer addition. */
PQ_INLINE uint16x4_t bf16_bits_of(const float *from)
{
    const uint32x4_t u = vreinterpretq_u32_f32(vld1q_f32(from));
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    return vaddhn_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
}

PQ_INLINE void narrow_to_bf16(uint16_t *to, const float *from)
{
    for (int i = 0; i < 32; i += 8) {
        vst1q_u16(to + i, vcombine_u16(bf16_bits_of(from + i), bf16_bits_of(from + i + 4)));
    }
}

/* ---- words on finite numbers ---- */

PQ_INLINE void float_ends(const float *x, int n, float *least, float *most)
{
    float32x4_t lo = vld1q_f32(x), hi = lo, lo4 = vld1q_f32(x + 4), hi4 = lo4;
    for (int i = 8; i < n; i += 8) {
        const float32x4_t a = vld1q_f32(x + i), b = vld1q_f32(x + i + 4);
        lo = vminq_f32(lo, a);
        hi = vmaxq_f32(hi, a);
        lo4 = vminq_f32(lo4, b);
        hi4 = vmaxq_f32(hi4, b);
    }
    *least = vminvq_f32(vminq_f32(lo, lo4));
    *most = vmaxvq_f32(vmaxq_f32(hi, hi4));
}

PQ_INLINE float float_magnitude(const float *x, int n)
{
    float32x4_t most = vabsq_f32(vld1q_f32(x)), other = vabsq_f32(vld1q_f32(x + 4));
    for (int i = 8; i < n; i += 8) {
        most = vmaxq_f32(most, vabsq_f32(vld1q_f32(x + i)));
        other = vmaxq_f32(other, vabsq_f32(vld1q_f32(x + i + 4)));
    }
    return vmaxvq_f32(vmaxq_f32(most, other));
}

/* Pack four vectors of int32, which fit bytes, to bytes. */
PQ_INLINE uint8x16_t pack_bytes(const int32x4_t v[4])
{
    const int16x8_t lo = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    const int16x8_t hi = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    return vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
}

PQ_INLINE uint8x16_t truncated(const float *x, float low, float i, float added)
{
    const float32x4_t vl = vdupq_n_f32(low), va = vdupq_n_f32(added);
    int32x4_t v[4];
    for (int k = 0; k < 4; k++) {
        const float32x4_t q = vmulq_n_f32(vsubq_f32(vld1q_f32(x + 4 * k), vl), i);
        v[k] = vcvtq_s32_f32(vaddq_f32(q, va));
    }
    return pack_bytes(v);
}

PQ_INLINE c32 c32_truncated(const float *x, float low, float i, float added)
{
    return c32_of(truncated(x, low, i, added), truncated(x + 16, low, i, added));
}

PQ_INLINE uint8x16_t rounded(const float *x, float i)
{
    int32x4_t v[4];
    for (int k = 0; k < 4; k++) {
        v[k] = vcvtaq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * k), i));
    }
    return pack_bytes(v);
}

PQ_INLINE c32 c32_rounded(const float *x, float i)
{
    return c32_of(rounded(x, i), rounded(x + 16, i));
}

PQ_INLINE uint8x16_t nearest_codes(const float *x, float i)
{
    int32x4_t v[4];
    for (int k = 0; k < 4; k++) {
        v[k] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * k), i));
    }
    return pack_bytes(v);
}

PQ_INLINE c32 c32_nearest(const float *x, float i)
{
    return c32_of(nearest_codes(x, i), nearest_codes(x + 16, i));
}

PQ_INLINE uint8x16_t rounded_up(const float *x, float by)
{
    int32x4_t v[4];
    for (int k = 0; k < 4; k++) {
        const float32x4_t q = vdivq_f32(vabsq_f32(vld1q_f32(x + 4 * k)), vdupq_n_f32(by));
        v[k] = vcvtpq_s32_f32(vminq_f32(q, vdupq_n_f32(32)));
    }
    return pack_bytes(v);
}

PQ_INLINE c32 c32_rounded_up(const float *x, float a, float b)
{
    return c32_of(rounded_up(x, a), rounded_up(x + 16, b));
}

PQ_INLINE uint8x16_t are_negative(const float *x)
{
    int32x4_t v[4];
    for (int k = 0; k < 4; k++) {
        v[k] = vreinterpretq_s32_u32(vcltzq_f32(vld1q_f32(x + 4 * k)));
    }
    return pack_bytes(v);
}

PQ_INLINE c32 c32_signs(const float *x)
{
    return c32_of(are_negative(x), are_negative(x + 16));
}

PQ_INLINE uint16_t half_bits(float v)
{
    return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(v))), 0);
}

/* ---- storing codes ---- */

PQ_INLINE void c32_store(uint8_t *p, c32 x)
{
    vst1q_u8(p, x.val[0]);
    vst1q_u8(p + 16, x.val[1]);
}

PQ_INLINE void c32_put_nibbles(uint8_t *p, c32 x)
{
    vst1q_u8(p, vorrq_u8(x.val[0], vshlq_n_u8(x.val[1], 4)));
}

PQ_INLINE uint64_t c32_joined_pairs(c32 x)
{
    static const int8_t shifts[16] = {0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6};
    const int8x16_t by = vld1q_s8(shifts);
    const uint8x16_t two = vpaddq_u8(vshlq_u8(x.val[0], by), vshlq_u8(x.val[1], by));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(two, two)), 0);
}

PQ_INLINE c32 c32_exchange(c32 x)
{
    return c32_of(vcombine_u8(vget_low_u8(x.val[0]), vget_low_u8(x.val[1])),
                  vcombine_u8(vget_high_u8(x.val[0]), vget_high_u8(x.val[1])));
}

/* Return one bit for each of 16 bytes. Each byte is 0 or 255. */
PQ_INLINE uint32_t mask_bits(uint8x16_t is_set)
{
    static const uint8_t each[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                     1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t bits = vandq_u8(is_set, vld1q_u8(each));
    return vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

PQ_INLINE uint32_t c32_top_bits(c32 x)
{
    return mask_bits(vcltzq_s8(vreinterpretq_s8_u8(x.val[0]))) |
           mask_bits(vcltzq_s8(vreinterpretq_s8_u8(x.val[1]))) << 16;
}

PQ_INLINE c32 c32_add(c32 x, c32 y)
{
    return c32_of(vaddq_u8(x.val[0], y.val[0]), vaddq_u8(x.val[1], y.val[1]));
}

PQ_INLINE c32 c32_smaller(c32 x, c32 y)
{
    return c32_of(vminq_u8(x.val[0], y.val[0]), vminq_u8(x.val[1], y.val[1]));
}

PQ_INLINE void c32_sums(c32 x, int sums[2])
{
    sums[0] = vaddlvq_s8(vreinterpretq_s8_u8(x.val[0]));
    sums[1] = vaddlvq_s8(vreinterpretq_s8_u8(x.val[1]));
}

/* Return x + floor((13 x + 242) / 243). For bytes x, the product with 270 / 2^16 has an
 * equal integer part. The instruction doubles its product, so it multiplies by 135. */
PQ_INLINE uint8x8_t fraction_of(uint8x8_t x)
{
    const uint16x8_t above = vmlal_u8(vdupq_n_u16(242), x, vdup_n_u8(13));
    const int16x8_t more = vqdmulhq_n_s16(vreinterpretq_s16_u16(above), 135);
    return vadd_u8(x, vmovn_u16(vreinterpretq_u16_s16(more)));
}

PQ_INLINE c32 c32_fraction(c32 x)
{
    return c32_of(vcombine_u8(fraction_of(vget_low_u8(x.val[0])),
                              fraction_of(vget_high_u8(x.val[0]))),
                  vcombine_u8(fraction_of(vget_low_u8(x.val[1])),
                              fraction_of(vget_high_u8(x.val[1]))));
}

#endif
