/* SPDX-License-Identifier: Apache-2.0 */
/* The inline functions on vectors of scalar/lanes_scalar.h in NEON. */
#ifndef PQ_LANES_NEON_H
#define PQ_LANES_NEON_H

#include "arm/neon.h"

#define PQ_FUSED_LANES 1

typedef struct {
    f32v a, b;
} f8;

typedef struct {
    f64v a, b;
} d4;

#include "kernels/lanes.inc"

PQ_INLINE f8 f8_load_f16(const void *p)
{
    const float16x8_t x = vreinterpretq_f16_u8(load128(p));
    return (f8){vcvt_f32_f16(vget_low_f16(x)), vcvt_high_f32_f16(x)};
}

PQ_INLINE d4 d4_load_f32(const void *p)
{
    const f32v x = load_f32v(p);
    return (d4){vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)};
}

PQ_INLINE double d4_sum(d4 x)
{
    const float64x2_t two = vaddq_f64(x.a, x.b);
    return vgetq_lane_f64(two, 0) + vgetq_lane_f64(two, 1);
}

#endif
