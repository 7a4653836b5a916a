/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Primitives of AArch64 NEON, which are functions of single vectors. Include <arm_neon.h>
 * before this header.
 */
#ifndef PQ_NEON_H
#define PQ_NEON_H

#include <stdint.h>
#include <string.h>

#include "pq_compiler.h"

#define PQ_LANES 4
#define PQ_LANES16 8

typedef float32x4_t f32v;
typedef float64x2_t f64v;
typedef int32x4_t i32v;
typedef int16x8_t i16v;
typedef uint8x16_t vb;

#include "kernels/lift.inc"

/* Apply f to the vectors of an f8, d4 or c32. In NEON, each type has two vectors. */
#define FILL1 BOTH1
#define FILL2 BOTH2
#define FILL3 BOTH3
#define FILL_BY(f, x, y) {f((x).a, y), f((x).b, y)}
#define FILL_LOAD(f, p, lanes) {f(p), f((p) + (lanes))}
#define FILL_SPLAT(f, s) {f(s), f(s)}
#define FILL_STORE(f, p, lanes, x) (f(p, (x).a), f((p) + (lanes), (x).b))

#define PQ_KEEP_ORDER() ((void)0)

/* ---- load, store and splat; byte loads need no alignment ---- */

PQ_INLINE uint8x16_t load128(const void *p)
{
    return vld1q_u8((const uint8_t *)p);
}

PQ_INLINE void store128(void *p, uint8x16_t v)
{
    vst1q_u8((uint8_t *)p, v);
}

#define load_f32v(p) vreinterpretq_f32_u8(load128(p))
#define load_f64v(p) vreinterpretq_f64_u8(load128(p))
#define load_i32v(p) vreinterpretq_s32_u8(load128(p))
#define load_i16v(p) vreinterpretq_s16_u8(load128(p))
#define load_u8v load128
#define store_f32v(p, v) store128(p, vreinterpretq_u8_f32(v))
#define store_f64v(p, v) store128(p, vreinterpretq_u8_f64(v))
#define store_i32v(p, v) store128(p, vreinterpretq_u8_s32(v))
#define store_i16v(p, v) store128(p, vreinterpretq_u8_s16(v))
#define store_u8v store128
/* Load 4 integers of three bytes, the lowest first. 4 further bytes are read: `before` of
 * them precede the integers. */
PQ_INLINE int32x4_t load_i24v(const char *p, int before)
{
    static const uint8_t order[] = {0, 0, 1, 2, 2, 3, 4, 5, 5, 6, 7, 8, 8, 9, 10, 11};
    const uint8x16_t places = vaddq_u8(load128(order), vdupq_n_u8((uint8_t)before));
    /* The shift removes the lowest byte of each 32-bit lane. */
    return vshrq_n_s32(vreinterpretq_s32_u8(vqtbl1q_u8(load128(p - before), places)), 8);
}

/* Move the low three bytes of each integer to the start of the vector. */
PQ_INLINE uint8x16_t join_i24v(int32x4_t x)
{
    static const uint8_t order[] = {0,  1,  2,  4,  5,   6,   8,   9,
                                    10, 12, 13, 14, 255, 255, 255, 255};
    return vqtbl1q_u8(vreinterpretq_u8_s32(x), load128(order));
}

/* Store the low three bytes of 4 integers. Bytes 12 to 15 are overwritten, too. */
PQ_INLINE void store_i24v(char *p, int32x4_t x)
{
    store128(p, join_i24v(x));
}

/* Like store_i24v(), without a write after the integers. */
PQ_INLINE void store_last_i24v(char *p, int32x4_t x)
{
    const uint8x16_t all = join_i24v(x);
    vst1_u8((uint8_t *)p, vget_low_u8(all));
    const uint32_t last = vgetq_lane_u32(vreinterpretq_u32_u8(all), 2);
    memcpy(p + 8, &last, sizeof last);
}

#define splat_f32v vdupq_n_f32
#define splat_f64v vdupq_n_f64
#define splat_i32v vdupq_n_s32
#define splat_i16v vdupq_n_s16
#define splat_u8v vdupq_n_u8
#define broadcast_f32v(p) vdupq_n_f32(*(p))
#define broadcast_i32v(p) vdupq_n_s32(*(p))

/* ---- arithmetic ---- */

#define add_f32v vaddq_f32
#define subtract_f32v vsubq_f32
#define multiply_f32v vmulq_f32
#define divide_f32v vdivq_f32
#define smaller_f32v vminq_f32
#define larger_f32v vmaxq_f32
#define fused_add_f32v(x, y, z) vfmaq_f32(z, x, y)
#define fused_subtract_f32v(x, y, z) vfmsq_f32(z, x, y)
#define add_f64v vaddq_f64
#define subtract_f64v vsubq_f64
#define multiply_f64v vmulq_f64
#define divide_f64v vdivq_f64
#define smaller_f64v vminq_f64
#define larger_f64v vmaxq_f64
#define fused_add_f64v(x, y, z) vfmaq_f64(z, x, y)
#define add_i32v vaddq_s32
#define subtract_i32v vsubq_s32
#define smaller_i32v vminq_s32
#define larger_i32v vmaxq_s32
#define and_i32v vandq_s32
#define add_i16v vaddq_s16
#define smaller_i16v vminq_s16
#define larger_i16v vmaxq_s16
#define add_u8v vaddq_u8
#define subtract_u8v vsubq_u8
#define and_u8v vandq_u8
#define or_u8v vorrq_u8
#define flip_u8v veorq_u8
#define smaller_u8v vminq_u8

/* Apply an intrinsic of another element type to the bits of two vectors. */
#define AS_U32(f, x, y)                                                                    \
    vreinterpretq_s32_u32(f(vreinterpretq_u32_s32(x), vreinterpretq_u32_s32(y)))
#define AS_U16(f, x, y)                                                                    \
    vreinterpretq_s16_u16(f(vreinterpretq_u16_s16(x), vreinterpretq_u16_s16(y)))
#define AS_I8(f, x, y)                                                                     \
    vreinterpretq_u8_s8(f(vreinterpretq_s8_u8(x), vreinterpretq_s8_u8(y)))
#define larger_u32v(x, y) AS_U32(vmaxq_u32, x, y)
#define larger_u16v(x, y) AS_U16(vmaxq_u16, x, y)
#define smaller_i8v(x, y) AS_I8(vminq_s8, x, y)
#define larger_i8v(x, y) AS_I8(vmaxq_s8, x, y)

/* FMIN keeps a NaN and makes it quiet. FMAXNM then returns its operand that is not NaN.
 * FMAXNM alone would return NaN for a signaling NaN, so callers apply FMIN first. */
#define cap_keep_nan_f32v vminq_f32
#define cap_keep_nan_f64v vminq_f64
#define floor_drop_nan_f32v vmaxnmq_f32
#define floor_drop_nan_f64v vmaxnmq_f64

/* Reinterpret float vectors as unsigned integers, and back. */
#define BITS32 vreinterpretq_u32_f32
#define BITS64 vreinterpretq_u64_f64
#define OF_BITS32 vreinterpretq_f32_u32
#define OF_BITS64 vreinterpretq_f64_u64
#define and_f32v(x, y) OF_BITS32(vandq_u32(BITS32(x), BITS32(y)))
#define or_f32v(x, y) OF_BITS32(vorrq_u32(BITS32(x), BITS32(y)))
#define or_f64v(x, y) OF_BITS64(vorrq_u64(BITS64(x), BITS64(y)))
#define one_where_less_f32v(x, y)                                                          \
    OF_BITS32(vandq_u32(vcltq_f32(x, y), BITS32(vdupq_n_f32(1))))
/* Return -1 where x equals the number y, else 0. */
#define minus_one_if_equal_f32v(x, y) vreinterpretq_s32_u32(vceqq_f32(x, vdupq_n_f32(y)))
#define minus_one_if_equal_f64v(x, y)                                                      \
    OF_BITS64(vandq_u64(vceqq_f64(x, vdupq_n_f64(y)), BITS64(vdupq_n_f64(-1))))

/* ---- round ---- */

#define magnitude_f32v vabsq_f32
#define magnitude_f64v vabsq_f64
#define up_f32v vrndpq_f32
#define up_f64v vrndpq_f64
#define down_f32v vrndmq_f32
#define down_f64v vrndmq_f64
#define truncate_f64v vrndq_f64
#define nearest_f32v vrndnq_f32
#define nearest_f64v vrndnq_f64

#define sign_f32v(q) OF_BITS32(vandq_u32(BITS32(q), vdupq_n_u32(0x80000000)))
#define sign_f64v(q) OF_BITS64(vandq_u64(BITS64(q), vdupq_n_u64(UINT64_C(1) << 63)))

/* ---- conversions ---- */

#define truncate_f32v vcvtq_s32_f32
#define nearest_i32v vcvtnq_s32_f32
#define f32_of_i32v vcvtq_f32_s32
#define f32_of_u32v(x) vcvtq_f32_u32(vreinterpretq_u32_s32(x))
#define u32_of_f32v(x) vreinterpretq_s32_u32(vcvtnq_u32_f32(x))
#define bits_f32v vreinterpretq_s32_f32
#define float_i32v vreinterpretq_f32_s32
/* Convert two vectors, and join the results in one vector, in order. */
#define narrow_f64v(x, y) vcvt_high_f32_f64(vcvt_f32_f64(x), y)
#define narrow_to_odd_f64v(x, y) vcvtx_high_f32_f64(vcvtx_f32_f64(x), y)
#define i32_of_f64v(x, y) vmovn_high_s64(vmovn_s64(vcvtq_s64_f64(x)), vcvtq_s64_f64(y))
#define nearest_i32_of_f64v(x, y) i32_of_f64v(vrndnq_f64(x), vrndnq_f64(y))
#define narrow_i16v(x, y) vqmovn_high_s32(vqmovn_s32(x), y)
#define narrow_u16v(x, y) vreinterpretq_s16_u16(vqmovun_high_s32(vqmovun_s32(x), y))
#define narrow_i8v(x, y) vreinterpretq_u8_s8(vqmovn_high_s16(vqmovn_s16(x), y))
#define narrow_u8v(x, y) vqmovun_high_s16(vqmovun_s16(x), y)
/* Return the lower or the upper 32 bits of each number. */
#define lower_words_f64v(x, y)                                                             \
    vuzp1q_s32(vreinterpretq_s32_f64(x), vreinterpretq_s32_f64(y))
#define upper_words_f64v(x, y)                                                             \
    vuzp2q_s32(vreinterpretq_s32_f64(x), vreinterpretq_s32_f64(y))

PQ_INLINE f32v canonical_nan_f32v(f32v x)
{
    const float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000));
    return vbslq_f32(vceqq_f32(x, x), x, nan);
}

/* Return NaN where x equals a or b, else v. */
PQ_INLINE f32v nan_where_equal_f32v(f32v v, i32v x, i32v a, i32v b)
{
    const float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(0x7fc00000));
    return vbslq_f32(vorrq_u32(vceqq_s32(x, a), vceqq_s32(x, b)), nan, v);
}

PQ_INLINE f64v canonical_nan_f64v(f64v x)
{
    const float64x2_t nan = vreinterpretq_f64_u64(vdupq_n_u64(0x7ff8000000000000));
    return vbslq_f64(vceqq_f64(x, x), x, nan);
}

#define magnitude_bits_f32v(x) vandq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(0x7fffffff))
/* Return the largest power of two that is at most x. x is a positive normal number. */
#define power_f64v(x) OF_BITS64(vandq_u64(BITS64(x), vdupq_n_u64(0x7ff0000000000000)))

/* Convert 16-bit floats to int16 numbers in the order of the floats: the magnitude bits,
 * negated for negative floats. from_order_i16v() converts back. */
PQ_INLINE int16x8_t to_order_i16v(int16x8_t x)
{
    const int16x8_t sign = vshrq_n_s16(x, 15);
    return vsubq_s16(veorq_s16(vandq_s16(x, vdupq_n_s16(0x7fff)), sign), sign);
}

PQ_INLINE int16x8_t from_order_i16v(int16x8_t x)
{
    return vorrq_s16(vabsq_s16(x), vandq_s16(x, vdupq_n_s16(INT16_MIN)));
}

/* Convert to the nearest int32. NaN becomes INT32_MIN. The instruction alone returns 0. */
PQ_INLINE i32v i32_of_f32v(f32v x)
{
    return vbslq_s32(vceqq_f32(x, x), vcvtnq_s32_f32(x), vdupq_n_s32(INT32_MIN));
}

#define round_to_f16_f32v(x) vcvt_f32_f16(vcvt_f16_f32(x))

/* Round half to even to bfloat16 by an integer addition. NaN must be canonical. */
PQ_INLINE uint32x4_t round_bf16(float32x4_t x)
{
    const uint32x4_t u = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    return vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
}

PQ_INLINE f32v round_to_bf16_f32v(f32v x)
{
    const uint32x4_t r = vandq_u32(round_bf16(x), vdupq_n_u32(0xffff0000));
    return vbslq_f32(vceqq_f32(x, x), vreinterpretq_f32_u32(r), x);
}

/* Return the 16 fields of 2 bits of an integer in 16 bytes, the lowest first. The upper
 * bits of each byte are undefined. */
PQ_INLINE uint8x16_t fields_of_2_bits(uint32_t word)
{
    static const uint8_t places[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
    static const int8_t shifts[16] = {0, -2, -4, -6, 0, -2, -4, -6,
                                      0, -2, -4, -6, 0, -2, -4, -6};
    const uint8x16_t bytes = vreinterpretq_u8_u32(vdupq_n_u32(word));
    return vshlq_u8(vqtbl1q_u8(bytes, vld1q_u8(places)), vld1q_s8(shifts));
}

#endif
