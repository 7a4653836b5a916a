/* SPDX-License-Identifier: Apache-2.0 */
/* The inline functions on vectors of scalar/searches_scalar.h in NEON. */
#ifndef PQ_SEARCHES_NEON_H
#define PQ_SEARCHES_NEON_H

#include "arm/neon.h"

typedef struct {
    f32v a, b;
} fl;

typedef struct {
    uint32x4_t a, b;
} ml;

#define root_f32v vsqrtq_f32
#define less_f32v vcltq_f32
#define differ_f32v(x, y) vmvnq_u32(vceqq_f32(x, y))
#define and_m32v vandq_u32
#define select_f32v vbslq_f32
#include "kernels/columns.inc"

PQ_INLINE int ml_any(ml x)
{
    return vmaxvq_u32(vorrq_u32(x.a, x.b)) != 0;
}

/* Store float32 numbers that are integers from 0 to 255 as bytes. */
PQ_INLINE void fl_store_bytes(uint8_t *p, fl x)
{
    const uint16x4_t a = vmovn_u32(vcvtq_u32_f32(x.a)), b = vmovn_u32(vcvtq_u32_f32(x.b));
    vst1_u8(p, vmovn_u16(vcombine_u16(a, b)));
}

#endif
