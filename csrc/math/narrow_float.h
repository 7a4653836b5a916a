/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constants of the narrow float formats, and conversions in portable C. Tests compare
 * the vector instructions with these conversions.
 */
#ifndef PQ_NARROW_FLOAT_H
#define PQ_NARROW_FLOAT_H

#include "math/scalar_math.h"

struct pq_format {
    int mantissa;     /* stored mantissa bits */
    int least;        /* exponent of the smallest normal number */
    int sign;         /* mask of the sign bit */
    int signed_zero;  /* 0 if the code of -0 means NaN, else 1 */
    uint32_t highest; /* float32 bits of the largest finite value */
    uint32_t beyond;  /* float32 bits of the next value; its code means infinity or NaN */
    uint8_t nan;      /* code of NaN, or code for NaN inputs if the format has no NaN */
    int signed_nan;
    int last;          /* largest magnitude code that does not mean NaN */
    int infinity;      /* magnitude code of infinity, or 0 */
    int half_shift;    /* the float16 bits of a magnitude code are code << half_shift */
    float half_factor; /* the value of a code is its float16 number * half_factor */
};

/* float32 bits for the members `highest` and `beyond`, which are equal if a format has no
 * code beyond the largest value. */
#define PQ_F6 0x40c00000u
#define PQ_F7_5 0x40f00000u
#define PQ_F15_5 0x41780000u
#define PQ_F16_0 0x41800000u
#define PQ_F28 0x41e00000u
#define PQ_F30 0x41f00000u
#define PQ_F32_0 0x42000000u
#define PQ_F240 0x43700000u
#define PQ_F256 0x43800000u
#define PQ_F448 0x43e00000u
#define PQ_F480 0x43f00000u
#define PQ_F57344 0x47600000u
#define PQ_F65536 0x47800000u

PQ_INLINE struct pq_format pq_format_of(enum pq_type type)
{
    switch (type) {
#define ROW(type, ...)                                                                     \
case PQ_##type:                                                                            \
    return (struct pq_format){__VA_ARGS__};
        ROW(F8E3M4, 4, -2, 0x80, 1, PQ_F15_5, PQ_F16_0, 0x78, 1, 0x70, 0x70, 6, 0x1p12f)
        ROW(F8E4M3, 3, -6, 0x80, 1, PQ_F240, PQ_F256, 0x7c, 1, 0x78, 0x78, 7, 0x1p8f)
        ROW(F8E4M3FN, 3, -6, 0x80, 1, PQ_F448, PQ_F480, 0x7f, 1, 0x7e, 0, 7, 0x1p8f)
        ROW(F8E4M3FNUZ, 3, -7, 0x80, 0, PQ_F240, PQ_F256, 0x80, 0, 0x7f, 0, 7, 0x1p7f)
        ROW(F8E4M3B11FNUZ, 3, -10, 0x80, 0, PQ_F30, PQ_F32_0, 0x80, 0, 0x7f, 0, 7, 0x1p4f)
        ROW(F8E5M2, 2, -14, 0x80, 1, PQ_F57344, PQ_F65536, 0x7e, 1, 0x7c, 0x7c, 8, 1.0f)
        ROW(F8E5M2FNUZ, 2, -15, 0x80, 0, PQ_F57344, PQ_F65536, 0x80, 0, 0x7f, 0, 8, 1.0f)
        ROW(F6E2M3FN, 3, 0, 0x20, 1, PQ_F7_5, PQ_F7_5, 0x20, 0, 0x1f, 0, 7, 0x1p14f)
        ROW(F6E3M2FN, 2, -2, 0x20, 1, PQ_F28, PQ_F28, 0x20, 0, 0x1f, 0, 8, 0x1p12f)
        ROW(F4E2M1FN, 1, 0, 0x08, 1, PQ_F6, PQ_F6, 0x07, 0, 0x07, 0, 9, 0x1p14f)
#undef ROW
    default:
        return (struct pq_format){0};
    }
}

PQ_INLINE uint32_t pq_format_cap(struct pq_format format, int saturate)
{
    return saturate ? format.highest : format.beyond;
}

/* Return the code of a NaN with the given sign (0 or 1). */
PQ_INLINE uint8_t pq_nan_code(struct pq_format format, uint32_t sign)
{
    return (uint8_t)(format.nan | (format.signed_nan && sign ? format.sign : 0));
}

/*
 * Return the code of `v`, which is not NaN, rounded half to even. Let `exponent` be the
 * exponent of v, but at least the exponent of the smallest normal number. The addition of
 * 2^(23 - mantissa + exponent) rounds v to a multiple of the distance of neighbouring
 * codes. The low bits of the sum then count codes from the first code of the exponent on.
 * tests/c/proofs/formats.c tries every v.
 */
PQ_INLINE uint8_t pq_encode(float v, enum pq_type type, int saturate)
{
    const struct pq_format format = pq_format_of(type);
    const int shift = 23 - format.mantissa;
    const uint32_t bits = pq_bits_f32(v), cap = pq_format_cap(format, saturate);
    const uint32_t floor = (uint32_t)(127 + format.least) << 23;
    const uint32_t all = bits & 0x7fffffff;
    const uint32_t mag = all < cap ? all : cap;
    const uint32_t exponent = (mag & 0x7f800000) > floor ? mag & 0x7f800000 : floor;
    const uint32_t magic = exponent + ((uint32_t)shift << 23);
    const uint32_t steps = pq_bits_f32(pq_f32_bits(mag) + pq_f32_bits(magic)) - magic;
    const uint32_t code = steps + ((exponent - floor) >> shift);
    const uint32_t negative = bits >> 31 && (format.signed_zero || code != 0);
    return (uint8_t)(code | (negative ? (uint32_t)format.sign : 0));
}

/* Convert a code to float16 bits. The value of the code is this float16 number times
 * half_factor. NaN becomes 0x7e00. The function has no branches, so that compilers
 * vectorize it for a constant type. */
PQ_INLINE uint16_t pq_f16_bits_of_code(uint8_t code, enum pq_type type)
{
    const struct pq_format format = pq_format_of(type);
    const int mag = code & (format.sign - 1), sign = code & format.sign ? 0x8000 : 0;
    const int shifted = mag << format.half_shift;
    /* The exponent field of e5m2fnuz is larger than the field of float16 by 1, and its
     * highest value is finite. Subtract 1 from the field. Values that become subnormal
     * shift right by one bit instead. */
    const int halved = shifted >> 1, lowered = shifted - 0x400;
    const int moved = halved > lowered ? halved : lowered;
    const int finite = type == PQ_F8E5M2FNUZ ? moved : shifted;
    const int infinite = (format.infinity != 0) & (mag == format.infinity);
    const int half = sign | (infinite ? 0x7c00 : finite);
    const int is_nan = (mag > format.last) | (!format.signed_zero & (code == 0x80));
    return (uint16_t)(is_nan ? 0x7e00 : half);
}

PQ_INLINE float pq_decode(uint8_t code, enum pq_type type)
{
    return pq_f32_from_f16(pq_f16_bits_of_code(code, type)) *
           pq_format_of(type).half_factor;
}

/* Return the value of a float8_e8m0fnu code: a power of two, or NaN for the code 255. */
PQ_INLINE float pq_f32_from_e8m0(uint8_t code)
{
    return pq_f32_bits(code == 0     ? 0x00400000u
                       : code == 255 ? 0x7fc00000u
                                     : (uint32_t)code << 23);
}

#endif
