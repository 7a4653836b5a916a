/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector words of search_blocks.inc: see scalar/searches_scalar.h. Two vectors hide the
 * latency of sums. The file that includes this header has the intrinsics.
 */
#ifndef PQ_SEARCHES_NEON_H
#define PQ_SEARCHES_NEON_H

#include <stdint.h>

#include "pq_compiler.h"

enum { LANES = 8 };

typedef struct {
    float32x4_t a, b;
} fl;

typedef struct {
    uint32x4_t a, b;
} ml;

PQ_INLINE fl fl_splat(float s)
{
    return (fl){vdupq_n_f32(s), vdupq_n_f32(s)};
}

PQ_INLINE fl fl_load(const float *p)
{
    return (fl){vld1q_f32(p), vld1q_f32(p + 4)};
}

PQ_INLINE void fl_store(float *p, fl x)
{
    vst1q_f32(p, x.a);
    vst1q_f32(p + 4, x.b);
}

#define BINARY(name, type, word)                                                           \
    PQ_INLINE type name(fl x, fl y)                                                        \
    {                                                                                      \
        return (type){word(x.a, y.a), word(x.b, y.b)};                                     \
    }
#define DIFFER(x, y) vmvnq_u32(vceqq_f32(x, y))
BINARY(fl_add, fl, vaddq_f32)
BINARY(fl_subtract, fl, vsubq_f32)
BINARY(fl_multiply, fl, vmulq_f32)
BINARY(fl_divide, fl, vdivq_f32)
BINARY(fl_smaller, fl, vminq_f32)
BINARY(fl_larger, fl, vmaxq_f32)
BINARY(fl_less, ml, vcltq_f32)
BINARY(fl_differ, ml, DIFFER)
#undef BINARY
#undef DIFFER

PQ_INLINE fl fl_root(fl x)
{
    return (fl){vsqrtq_f32(x.a), vsqrtq_f32(x.b)};
}

PQ_INLINE fl fl_rounded(fl x)
{
    return (fl){vrndnq_f32(x.a), vrndnq_f32(x.b)};
}

PQ_INLINE float32x4_t four_masked(float32x4_t x, uint32x4_t kept, uint32x4_t set)
{
    const uint32x4_t bits = vandq_u32(vreinterpretq_u32_f32(x), kept);
    return vreinterpretq_f32_u32(vorrq_u32(bits, set));
}

PQ_INLINE fl fl_masked(fl x, uint32_t kept, uint32_t set)
{
    const uint32x4_t k = vdupq_n_u32(kept), s = vdupq_n_u32(set);
    return (fl){four_masked(x.a, k, s), four_masked(x.b, k, s)};
}

PQ_INLINE ml ml_and(ml x, ml y)
{
    return (ml){vandq_u32(x.a, y.a), vandq_u32(x.b, y.b)};
}

PQ_INLINE int ml_any(ml x)
{
    return vmaxvq_u32(vorrq_u32(x.a, x.b)) != 0;
}

PQ_INLINE fl fl_select(ml m, fl x, fl y)
{
    return (fl){vbslq_f32(m.a, x.a, y.a), vbslq_f32(m.b, x.b, y.b)};
}

/* Store integers as bytes. */
PQ_INLINE void fl_store_bytes(uint8_t *p, fl x)
{
    const uint16x4_t a = vmovn_u32(vcvtq_u32_f32(x.a)), b = vmovn_u32(vcvtq_u32_f32(x.b));
    vst1_u8(p, vmovn_u16(vcombine_u16(a, b)));
}

#endif
