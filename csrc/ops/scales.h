/* SPDX-License-Identifier: Apache-2.0 */
/* Functions for the types of chosen scales: round float64 numbers to a type, and find the
 * neighbours of a scale. */
#ifndef PQ_SCALES_H
#define PQ_SCALES_H

#include <math.h>

#include "math/narrow_float.h"
#include "types.h"

/* Limit a value to [lo, hi]. NaN, for example from an infinite range, becomes `lo`. */
PQ_INLINE double pq_clamp(double v, double lo, double hi)
{
    return v > lo ? (v < hi ? v : hi) : lo;
}

/* Return the bits of the largest finite number of a type, or 0 if scales cannot have the
 * type. Among positive numbers, larger numbers have larger bits. */
PQ_INLINE uint64_t pq_largest_scale_bits(enum pq_type type)
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

/* Return the float8_e8m0fnu code of the smallest power of two >= v, so that no data
 * saturates. 0 becomes 2^-127, and values above 2^127 become NaN. */
PQ_INLINE uint64_t pq_e8m0_above(double v)
{
    const uint64_t bits = pq_bits_f64(v), cut = bits & 0xfffffffffffff;
    const uint64_t code = (bits >> 52) - (1023 - 127) + (cut != 0);
    return v > 0x1p127 ? 255 : v > 0x1p-127 ? code : 0;
}

/* Return the bfloat16 bits of v >= 0, rounded half to even. Subnormal numbers are rounded
 * in one step, because float32 has too few bits for an intermediate result. */
PQ_INLINE uint64_t pq_bf16_bits(double v)
{
    return v < 0x1p-126 ? (uint64_t)(v * 0x1p133 + 0x1p52 - 0x1p52)
                        : pq_bf16_from_f32(pq_float_to_odd(v));
}

/* Round v >= 0 to a type of scales, half to even, or up for float8_e8m0fnu. Return the
 * bits. */
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

/* Store the low bits of a scale or a code. The type states the number of bits. */
PQ_INLINE void pq_store_bits(enum pq_type type, uint64_t bits, char *to)
{
    const size_t size = pq_bytes_of(type);
    const uint32_t word = (uint32_t)bits;
    const uint16_t half = (uint16_t)bits;
    const uint8_t byte = (uint8_t)bits;
    memcpy(to,
           size == 8   ? (const void *)&bits
           : size == 4 ? (const void *)&word
           : size == 2 ? (const void *)&half
                       : &byte,
           size);
}

/* Round v >= 0 to the type of scales, but neither to 0 nor to infinity. If the data is not
 * float64, also limit the scale to positive finite float32, because quantize uses float32
 * scales. */
double pq_stored_scale(enum pq_type type, enum pq_type real, double v); /* in choose.c */

/* Return the scale `places` representable numbers above `scale`, or below `scale` for
 * negative `places`. Return NaN if the type has no such finite number. */
PQ_INLINE double pq_next_scale(enum pq_type type, double scale, int places)
{
    const uint64_t bits = pq_scale_bits(type, scale) + (uint64_t)(int64_t)places;
    return bits <= pq_largest_scale_bits(type) ? pq_scale_of_bits(type, bits) : (double)NAN;
}

#endif
