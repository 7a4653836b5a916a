/* SPDX-License-Identifier: Apache-2.0 */
/* Types that chosen scales are stored in: float64 numbers to them, and their neighbours. */
#ifndef PQ_SCALES_H
#define PQ_SCALES_H

#include <math.h>

#include "narrow_float.h"
#include "types.h"

/* The bits of the largest number; those of positive numbers are in their order. 0: not a
 * type of scales. */
PQ_INLINE uint64_t pq_last_scale(enum pq_type type)
{
    switch (type) {
    case PQ_F64:
        return 0x7fefffffffffffff;
    case PQ_F32:
        return 0x7f7fffff;
    case PQ_F16:
        return 0x7bff;
    case PQ_BF16:
        return 0x7f7f;
    case PQ_F8E4M3FN:
        return 0x7e;
    case PQ_F8E8M0FNU:
        return 0xfe;
    default:
        return 0;
    }
}

/* 0 is 2^-127, and what is no power of two the next larger one: nothing is clipped. */
PQ_INLINE uint64_t pq_e8m0_above(double v)
{
    const uint64_t bits = pq_bits_f64(v), cut = bits & 0xfffffffffffff;
    const uint64_t code = (bits >> 52) - (1023 - 127) + (cut != 0);
    return v > 0x1p127 ? 255 : v > 0x1p-127 ? code : 0;
}

/* Half to even; subnormal ones in steps of their own, of which float32 has too few bits. */
PQ_INLINE uint64_t pq_bf16_bits(double v)
{
    return v < 0x1p-126 ? (uint64_t)(v * 0x1p133 + 0x1p52 - 0x1p52)
                        : pq_bf16_from_f32(pq_float_to_odd(v));
}

/* Bits of v >= 0, half to even. */
PQ_INLINE uint64_t pq_scale_bits(enum pq_type type, double v)
{
    switch (type) {
    case PQ_F64:
        return pq_bits_f64(v);
    case PQ_F16:
        return pq_f16_from_f32(pq_float_to_odd(v));
    case PQ_BF16:
        return pq_bf16_bits(v);
    case PQ_F8E4M3FN:
        return pq_encode(pq_float_to_odd(v), PQ_F8E4M3FN, 1);
    case PQ_F8E8M0FNU:
        return pq_e8m0_above(v);
    default:
        return pq_bits_f32((float)v);
    }
}

PQ_INLINE double pq_scale_of_bits(enum pq_type type, uint64_t bits)
{
    switch (type) {
    case PQ_F64:
        return pq_f64_bits(bits);
    case PQ_F16:
        return (double)pq_f32_from_f16((uint16_t)bits);
    case PQ_BF16:
        return (double)pq_f32_from_bf16((uint16_t)bits);
    case PQ_F8E4M3FN:
        return (double)pq_decode((uint8_t)bits, PQ_F8E4M3FN);
    case PQ_F8E8M0FNU:
        return (double)pq_f32_from_e8m0((uint8_t)bits);
    default:
        return (double)pq_f32_bits((uint32_t)bits);
    }
}

/* Round v >= 0 to the type of scales, but neither to 0 nor to infinity. Data that is not
 * float64 is divided by float32 scales, so its scales stay between the ends of float32. */
PQ_INLINE double pq_stored_scale(enum pq_type type, enum pq_type real, double v)
{
    const bool single = type == PQ_F64 && real != PQ_F64;
    const double end = single ? 0x1p-149 : 0, most = single ? 0x1.fffffep127 : HUGE_VAL;
    const uint64_t least = type == PQ_F8E8M0FNU ? 0 : 1, last = pq_last_scale(type);
    const uint64_t bits = pq_scale_bits(type, v > end ? (v < most ? v : most) : end);
    return pq_scale_of_bits(type, bits < least ? least : bits < last ? bits : last);
}

/* The scale so many places further up or down; NaN where there is none. */
PQ_INLINE double pq_next_scale(enum pq_type type, double scale, int places)
{
    const uint64_t bits = pq_scale_bits(type, scale) + (uint64_t)(int64_t)places;
    return bits <= pq_last_scale(type) ? pq_scale_of_bits(type, bits) : (double)NAN;
}

#endif
