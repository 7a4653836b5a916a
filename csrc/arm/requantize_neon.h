/* SPDX-License-Identifier: Apache-2.0 */
/* Primitives of requantize.inc in NEON. Include <arm_neon.h> before this header. */
#ifndef PQ_REQUANTIZE_NEON_H
#define PQ_REQUANTIZE_NEON_H

#include "arm/simd_neon.h"

#define PQ_SUMS_SATURATE 0

typedef int64x2_t i64v;
#define splat_i64v vdupq_n_s64

/* Return (x * y) >> 32 of each element. */
PQ_INLINE int32x4_t upper_product(int32x4_t x, int32x4_t y)
{
    return vshrn_high_n_s64(vshrn_n_s64(vmull_s32(vget_low_s32(x), vget_low_s32(y)), 32),
                            vmull_high_s32(x, y), 32);
}

/* Return (x * y + 2^31) >> 32 of each element. */
PQ_INLINE int32x4_t upper_product_rounded(int32x4_t x, int32x4_t y)
{
    return vrshrn_high_n_s64(vrshrn_n_s64(vmull_s32(vget_low_s32(x), vget_low_s32(y)), 32),
                             vmull_high_s32(x, y), 32);
}

/* Compute (product + 2^(n - 1)) >> n for n from 1 to 62, and clip the result to [lo, hi].
 * Return its lower 32 bits. */
PQ_INLINE int32x2_t shifted_product(int64x2_t product, int64x2_t n, int64x2_t lo,
                                    int64x2_t hi)
{
    const int64x2_t r = vrshlq_s64(product, vnegq_s64(n));
    const int64x2_t capped = vbslq_s64(vcgtq_s64(r, hi), hi, r);
    return vmovn_s64(vbslq_s64(vcgtq_s64(lo, capped), lo, capped));
}

PQ_INLINE int32x4_t shifted_products_of(int32x4_t x, int32x4_t y, int32x4_t n, int64x2_t lo,
                                        int64x2_t hi)
{
    return vcombine_s32(shifted_product(vmull_s32(vget_low_s32(x), vget_low_s32(y)),
                                        vmovl_s32(vget_low_s32(n)), lo, hi),
                        shifted_product(vmull_high_s32(x, y), vmovl_high_s32(n), lo, hi));
}

/* Return, for each lane, y if x is negative, else 0. Each lane of y is 0 or -1. */
#define sign_within(x, y) vandq_s32(vshrq_n_s32(x, 31), y)
#define shift_right_i32v(x, n) vshlq_s32(x, vnegq_s32(n))
#define shift_left_i32v vshlq_s32

/* Return true if an element of x, read as unsigned, exceeds `limit`. */
PQ_INLINE int any_exceeds(int32x4_t x, uint32_t limit)
{
    return vmaxvq_u32(vreinterpretq_u32_s32(x)) > limit;
}

#endif
