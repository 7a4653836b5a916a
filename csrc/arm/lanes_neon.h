/* SPDX-License-Identifier: Apache-2.0 */
/* The words of scalar/lanes_scalar.h. The file that includes it has the intrinsics. */
#ifndef PQ_LANES_NEON_H
#define PQ_LANES_NEON_H

#include "pq_compiler.h"

#define PQ_FUSED_LANES 1

typedef struct {
    float32x4_t a, b;
} f8;

typedef struct {
    float64x2_t a, b;
} d4;

PQ_INLINE float32x4_t load_four(const char *p)
{
    return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p));
}

PQ_INLINE float64x2_t load_two(const char *p)
{
    return vreinterpretq_f64_u8(vld1q_u8((const uint8_t *)p));
}

PQ_INLINE f8 f8_load(const void *p)
{
    const char *const from = (const char *)p;
    return (f8){load_four(from), load_four(from + 16)};
}

PQ_INLINE f8 f8_load_f16(const void *p)
{
    const float16x8_t x = vreinterpretq_f16_u8(vld1q_u8((const uint8_t *)p));
    return (f8){vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
}

PQ_INLINE void f8_store(void *p, f8 x)
{
    uint8_t *const to = (uint8_t *)p;
    vst1q_u8(to, vreinterpretq_u8_f32(x.a));
    vst1q_u8(to + 16, vreinterpretq_u8_f32(x.b));
}

PQ_INLINE f8 f8_splat(float s)
{
    return (f8){vdupq_n_f32(s), vdupq_n_f32(s)};
}

PQ_INLINE d4 d4_load(const void *p)
{
    const char *const from = (const char *)p;
    return (d4){load_two(from), load_two(from + 16)};
}

PQ_INLINE void d4_store(void *p, d4 x)
{
    uint8_t *const to = (uint8_t *)p;
    vst1q_u8(to, vreinterpretq_u8_f64(x.a));
    vst1q_u8(to + 16, vreinterpretq_u8_f64(x.b));
}

PQ_INLINE d4 d4_splat(double s)
{
    return (d4){vdupq_n_f64(s), vdupq_n_f64(s)};
}

PQ_INLINE d4 widen_four(float32x4_t x)
{
    return (d4){vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
}

PQ_INLINE d4 d4_load_f32(const void *p)
{
    return widen_four(load_four((const char *)p));
}

#define SINGLE(name, word)                                                                 \
    PQ_INLINE f8 name(f8 x, f8 y)                                                          \
    {                                                                                      \
        return (f8){word(x.a, y.a), word(x.b, y.b)};                                       \
    }
#define DOUBLE(name, word)                                                                 \
    PQ_INLINE d4 name(d4 x, d4 y)                                                          \
    {                                                                                      \
        return (d4){word(x.a, y.a), word(x.b, y.b)};                                       \
    }
SINGLE(f8_add, vaddq_f32)
SINGLE(f8_subtract, vsubq_f32)
SINGLE(f8_multiply, vmulq_f32)
SINGLE(f8_divide, vdivq_f32)
SINGLE(f8_smaller, vminq_f32)
SINGLE(f8_larger, vmaxq_f32)
DOUBLE(d4_add, vaddq_f64)
DOUBLE(d4_subtract, vsubq_f64)
DOUBLE(d4_multiply, vmulq_f64)
DOUBLE(d4_larger, vmaxq_f64)
#undef SINGLE
#undef DOUBLE

/* To integers, half to even, of magnitudes up to 2^22. */
PQ_INLINE f8 f8_nearest(f8 x)
{
    return (f8){vrndnq_f32(x.a), vrndnq_f32(x.b)};
}

/* x * y + z, rounded once */
PQ_INLINE f8 f8_fused_add(f8 x, f8 y, f8 z)
{
    return (f8){vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b)};
}

/* z - x * y, rounded once */
PQ_INLINE f8 f8_fused_subtract(f8 x, f8 y, f8 z)
{
    return (f8){vfmsq_f32(z.a, x.a, y.a), vfmsq_f32(z.b, x.b, y.b)};
}

PQ_INLINE d4 d4_magnitude(d4 x)
{
    return (d4){vabsq_f64(x.a), vabsq_f64(x.b)};
}

PQ_INLINE d4 d4_add_product(d4 x, d4 y, d4 z)
{
    return (d4){vfmaq_f64(z.a, x.a, y.a), vfmaq_f64(z.b, x.b, y.b)};
}

PQ_INLINE double d4_sum(d4 x)
{
    const float64x2_t two = vaddq_f64(x.a, x.b);
    return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
}

#endif
