/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The narrow float formats: their numbers, and encoding and decoding in portable C, the
 * definitions that the vector instructions are tested against.
 */
#ifndef PQ_NARROW_FLOAT_H
#define PQ_NARROW_FLOAT_H

#include "math/scalar_math.h"

struct pq_format {
    int mantissa;     /* explicit bits of it */
    int least;        /* exponent of the smallest normal number */
    int sign;         /* the sign bit, as a number */
    int signed_zero;  /* 0: the code of -0 is NaN */
    uint32_t highest; /* bits, as float32, of the largest number */
    uint32_t beyond;  /* of the value after it, whose code is infinity or NaN */
    uint8_t nan;      /* code for NaN, or what stands for it */
    int signed_nan;
    int last;          /* the largest magnitude that is no NaN ... */
    int infinity;      /* ... and that of infinity, if there is one */
    int half_shift;    /* magnitudes shifted so are float16 numbers ... */
    float half_factor; /* ... to be multiplied by this */
};

/* float32 bits of the largest number, and of the one after it; where no code is left for
 * that, the largest again. */
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

/* A NaN of this sign (0 or 1). */
PQ_INLINE uint8_t pq_nan_code(struct pq_format format, uint32_t sign)
{
    return (uint8_t)(format.nan | (format.signed_nan && sign ? format.sign : 0));
}

/* The code of a number that is no NaN, half to even. Adding 2^(23 - mantissa) units of its
 * exponent, which is not taken below that of the smallest normal number, rounds to steps of
 * the format; the steps count from the exponent's own codes on. */
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

/* A code as float16 bits, to be multiplied by the format's half_factor; NaN is 0x7e00. Only
 * selections, which compilers vectorize where the type is a constant. */
PQ_INLINE uint16_t pq_half_of_code(uint8_t code, enum pq_type type)
{
    const struct pq_format format = pq_format_of(type);
    const int mag = code & (format.sign - 1), sign = code & format.sign ? 0x8000 : 0;
    const int shifted = mag << format.half_shift;
    /* Exponents of e5m2fnuz are one larger than those of float16, but the highest is
     * finite: take one off, which halves what becomes subnormal. */
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
    return pq_f32_from_f16(pq_half_of_code(code, type)) * pq_format_of(type).half_factor;
}

/* float8_e8m0fnu: a power of two, or NaN. */
PQ_INLINE float pq_f32_from_e8m0(uint8_t code)
{
    return pq_f32_bits(code == 0     ? 0x00400000u
                       : code == 255 ? 0x7fc00000u
                                     : (uint32_t)code << 23);
}

#endif
