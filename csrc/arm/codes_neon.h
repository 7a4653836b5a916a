/* SPDX-License-Identifier: Apache-2.0 */
/* The inline functions on vectors of scalar/codes_scalar.h in NEON. Include <arm_neon.h>
 * before this header. */
#ifndef PQ_CODES_NEON_H
#define PQ_CODES_NEON_H

#include "arm/neon.h"

typedef struct {
    vb a, b;
} c32;

/* In byte i, only bit i % 8 is set. */
static const uint8_t single_bits[16] = {1, 2, 4, 8, 16, 32, 64, 128,
                                        1, 2, 4, 8, 16, 32, 64, 128};

#define shift_left_u8v(x, n) vshlq_u8(x, vdupq_n_s8((int8_t)(n)))
#define shift_right_u8v(x, n) vshlq_u8(x, vdupq_n_s8((int8_t)-(n)))
#define load_table load128
#define look_up_u8v(x, entries) vqtbl1q_u8(entries, x)
#define away_i32v vcvtaq_s32_f32
#define up_i32v vcvtpq_s32_f32
#define sign_codes(v) vreinterpretq_s32_u32(vcltzq_f32(v))
#define largest_of vmaxvq_f32
#define FOR_FLOAT_VECTORS(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7)

PQ_INLINE c32 c32_of_words(uint64_t x, uint64_t y, uint64_t z, uint64_t w)
{
    return (c32){vcombine_u8(vcreate_u8(x), vcreate_u8(y)),
                 vcombine_u8(vcreate_u8(z), vcreate_u8(w))};
}

PQ_INLINE c32 c32_nibbles(const uint8_t *p)
{
    const uint8x16_t x = vld1q_u8(p);
    return (c32){vandq_u8(x, vdupq_n_u8(15)), vshrq_n_u8(x, 4)};
}

PQ_INLINE c32 c32_pairs(uint64_t x)
{
    const uint8x16_t three = vdupq_n_u8(3);
    return (c32){vandq_u8(fields_of_2_bits((uint32_t)x), three),
                 vandq_u8(fields_of_2_bits((uint32_t)(x >> 32)), three)};
}

/* Unpack 3-bit codes to bytes. Split 12 bits into two fields of 6 bits, in 16 bits each.
 * Then split each field into two codes, in one byte each. */
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
    return (c32){triples_of(x), triples_of(y)};
}

PQ_INLINE c32 c32_where(uint32_t bits, uint8_t value)
{
    const uint8x16_t mask = vld1q_u8(single_bits), set = vdupq_n_u8(value);
    const uint8x16_t lo =
        vcombine_u8(vdup_n_u8((uint8_t)bits), vdup_n_u8((uint8_t)(bits >> 8)));
    const uint8x16_t hi =
        vcombine_u8(vdup_n_u8((uint8_t)(bits >> 16)), vdup_n_u8((uint8_t)(bits >> 24)));
    return (c32){vandq_u8(vtstq_u8(lo, mask), set), vandq_u8(vtstq_u8(hi, mask), set)};
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

PQ_INLINE void c32_store_entries(char *to, const uint8_t *codes, const float *table)
{
    const uint8_t *const p = (const uint8_t *)table;
    const uint8x16x4_t entries = {
        {vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48)}};
    const uint8x16_t low = vdupq_n_u8(15);
    values_of_16((uint8_t *)to, vandq_u8(vld1q_u8(codes), low), entries);
    values_of_16((uint8_t *)to + 64, vandq_u8(vld1q_u8(codes + 16), low), entries);
}

/* Count the bounds below each of four numbers. For 15 bounds, a tree search is slower. */
PQ_INLINE uint16x4_t count_less(const float *from, const float *bound)
{
    const float32x4_t x = vld1q_f32(from);
    uint32x4_t count = vdupq_n_u32(0);
    for (int k = 1; k < 16; k++) {
        count = vsubq_u32(count, vcltq_f32(vdupq_n_f32(bound[k]), x));
    }
    return vmovn_u32(count);
}

PQ_INLINE c32 c32_find_codes(const float *x, const float *bound, int tree_depth)
{
    uint8_t places[32];
    for (int i = 0; i < 32 && tree_depth == 4; i += 8) {
        const uint16x4_t lo = count_less(x + i, bound), hi = count_less(x + i + 4, bound);
        vst1_u8(places + i, vmovn_u16(vcombine_u16(lo, hi)));
    }
    for (int i = 0; i < 32 && tree_depth != 4; i++) {
        int k = 1;
        for (int level = 0; level < tree_depth; level++) {
            k = 2 * k + (bound[k] < x[i]);
        }
        places[i] = (uint8_t)(k - (1 << tree_depth));
    }
    return (c32){load128(places), load128(places + 16)};
}

PQ_INLINE vb top_trits_u8v(vb x, vb y)
{
    const uint8x16_t part = vmulq_u8(x, y), three = vdupq_n_u8(3);
    const uint16x8_t lo = vmull_u8(vget_low_u8(part), vget_low_u8(three));
    const uint16x8_t hi = vmull_high_u8(part, three);
    return vcombine_u8(vshrn_n_u16(lo, 8), vshrn_n_u16(hi, 8));
}

PQ_INLINE float half_to_f32(uint16_t bits)
{
    const float16x4_t h = vreinterpret_f16_u16(vdup_n_u16(bits));
    return vgetq_lane_f32(vcvt_f32_f16(h), 0);
}

PQ_INLINE uint16_t f32_to_half(float v)
{
    return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(vdupq_n_f32(v))), 0);
}

/* ---- storing codes ---- */

PQ_INLINE void c32_put_nibbles(uint8_t *p, c32 x)
{
    vst1q_u8(p, vorrq_u8(x.a, vshlq_n_u8(x.b, 4)));
}

PQ_INLINE uint64_t c32_joined_pairs(c32 x)
{
    static const int8_t shifts[16] = {0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6, 0, 2, 4, 6};
    const int8x16_t by = vld1q_s8(shifts);
    const uint8x16_t two = vpaddq_u8(vshlq_u8(x.a, by), vshlq_u8(x.b, by));
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(two, two)), 0);
}

PQ_INLINE c32 c32_swap_middle(c32 x)
{
    return (c32){vcombine_u8(vget_low_u8(x.a), vget_low_u8(x.b)),
                 vcombine_u8(vget_high_u8(x.a), vget_high_u8(x.b))};
}

/* Return one bit for each of 16 bytes. Each byte is 0 or 255. */
PQ_INLINE uint32_t mask_bits(uint8x16_t is_set)
{
    const uint8x16_t bits = vandq_u8(is_set, vld1q_u8(single_bits));
    return vaddv_u8(vget_low_u8(bits)) | (uint32_t)vaddv_u8(vget_high_u8(bits)) << 8;
}

PQ_INLINE uint32_t c32_top_bits(c32 x)
{
    return mask_bits(vcltzq_s8(vreinterpretq_s8_u8(x.a))) |
           mask_bits(vcltzq_s8(vreinterpretq_s8_u8(x.b))) << 16;
}

PQ_INLINE void c32_sum_halves(c32 x, int sums[2])
{
    sums[0] = vaddlvq_s8(vreinterpretq_s8_u8(x.a));
    sums[1] = vaddlvq_s8(vreinterpretq_s8_u8(x.b));
}

/* Return x + floor((13 x + 242) / 243) for x up to 242. The integer part of (13 x + 242) *
 * 270 / 2^16 equals the floor. The instruction doubles its product, so multiply by 135. */
PQ_INLINE uint8x8_t base_3_fraction(uint8x8_t x)
{
    const uint16x8_t above = vmlal_u8(vdupq_n_u16(242), x, vdup_n_u8(13));
    const int16x8_t more = vqdmulhq_n_s16(vreinterpretq_s16_u16(above), 135);
    return vadd_u8(x, vmovn_u16(vreinterpretq_u16_s16(more)));
}

PQ_INLINE vb base_3_fraction_u8v(vb x)
{
    return vcombine_u8(base_3_fraction(vget_low_u8(x)), base_3_fraction(vget_high_u8(x)));
}

/* ---- float32 ---- */

#define reduce_to_extrema(lo, hi, least, most)                                             \
    (*(least) = vminvq_f32(lo), *(most) = vmaxvq_f32(hi))

/* Pack int32 numbers to bytes. Saturation is not needed, because the numbers fit. */
PQ_INLINE vb pack_16_codes(const i32v v[4])
{
    const int16x8_t lo = vcombine_s16(vmovn_s32(v[0]), vmovn_s32(v[1]));
    const int16x8_t hi = vcombine_s16(vmovn_s32(v[2]), vmovn_s32(v[3]));
    return vreinterpretq_u8_s8(vcombine_s8(vmovn_s16(lo), vmovn_s16(hi)));
}

PQ_INLINE c32 pack_codes(const i32v v[8])
{
    return (c32){pack_16_codes(v), pack_16_codes(v + 4)};
}

/* Convert the four signed bytes with the indices 4 * k to 4 * k + 3 to float32. */
PQ_INLINE f32v widen_codes(c32 x, int k)
{
    const int8x16_t half = vreinterpretq_s8_u8(k < 4 ? x.a : x.b);
    const int16x8_t codes = k % 4 < 2 ? vmovl_s8(vget_low_s8(half)) : vmovl_high_s8(half);
    return vcvtq_f32_s32(k % 2 == 0 ? vmovl_s16(vget_low_s16(codes))
                                    : vmovl_high_s16(codes));
}

#include "kernels/codes.inc"

#endif
