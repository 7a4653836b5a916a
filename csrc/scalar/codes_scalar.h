/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words on 32 codes, of a byte each, in plain C: what makes numbers of blocks of weights.
 * Memory needs no alignment. Words of more than one step are not repeated, to be small.
 */
#ifndef PQ_CODES_SCALAR_H
#define PQ_CODES_SCALAR_H

#include <string.h>

#include "scalar_math.h"

typedef struct {
    uint8_t v[32];
} c32;

#define EACH_CODE(i) for (int i = 0; i < 32; i++)

PQ_INLINE c32 c32_load(const uint8_t *p)
{
    c32 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

/* Words of 8 bytes, the lowest of each first. */
PQ_INLINE c32 c32_join(uint64_t x, uint64_t y, uint64_t z, uint64_t w)
{
    const uint64_t words[4] = {x, y, z, w};
    c32 r;
    EACH_CODE(i) r.v[i] = words[i / 8] >> (i % 8 * 8) & 0xff;
    return r;
}

PQ_INLINE c32 c32_splat(uint8_t s)
{
    c32 r;
    memset(r.v, s, sizeof r.v);
    return r;
}

/* The lower halves of 16 bytes, then the upper ones. */
PQ_NOINLINE c32 c32_nibbles(const uint8_t *p)
{
    c32 r;
    for (int i = 0; i < 16; i++) {
        r.v[i] = p[i] & 15;
        r.v[i + 16] = p[i] >> 4;
    }
    return r;
}

/* The same of each half of them. */
PQ_INLINE c32 c32_nibbles_of_8(const uint8_t *p)
{
    c32 r;
    for (int i = 0; i < 8; i++) {
        r.v[i] = p[i] & 15;
        r.v[i + 8] = p[i] >> 4;
        r.v[i + 16] = p[i + 8] & 15;
        r.v[i + 24] = p[i + 8] >> 4;
    }
    return r;
}

/* 32 fields of 2 bits, the lowest first; and 16 of them, of 3 bits, four in each 16. */
PQ_NOINLINE c32 c32_pairs(uint64_t x)
{
    c32 r;
    EACH_CODE(i) r.v[i] = x >> (2 * i) & 3;
    return r;
}

PQ_NOINLINE c32 c32_triples(uint64_t x, uint64_t y)
{
    c32 r;
    for (int i = 0; i < 16; i++) {
        r.v[i] = x >> (i / 4 * 16 + i % 4 * 3) & 7;
        r.v[i + 16] = y >> (i / 4 * 16 + i % 4 * 3) & 7;
    }
    return r;
}

/* `value` where a bit is set, else 0; the lowest bit first. */
PQ_NOINLINE c32 c32_where(uint32_t bits, uint8_t value)
{
    c32 r;
    EACH_CODE(i) r.v[i] = bits >> i & 1 ? value : 0;
    return r;
}

/* Signed codes, those of the other sign where a bit is set. */
PQ_NOINLINE c32 c32_flip(c32 x, uint32_t bits)
{
    EACH_CODE(i) x.v[i] = (uint8_t)(bits >> i & 1 ? -x.v[i] : x.v[i]);
    return x;
}

/* Bits from `shift` on of each code, as many as `mask` has. */
PQ_INLINE c32 c32_field(c32 x, int shift, uint8_t mask)
{
    EACH_CODE(i) x.v[i] = (uint8_t)(x.v[i] >> shift & mask);
    return x;
}

/* Codes that stay within a byte. */
PQ_INLINE c32 c32_raise(c32 x, int shift)
{
    EACH_CODE(i) x.v[i] = (uint8_t)(x.v[i] << shift);
    return x;
}

PQ_INLINE c32 c32_or(c32 x, c32 y)
{
    EACH_CODE(i) x.v[i] |= y.v[i];
    return x;
}

/* Modulo 256. */
PQ_INLINE c32 c32_subtract(c32 x, c32 y)
{
    EACH_CODE(i) x.v[i] = (uint8_t)(x.v[i] - y.v[i]);
    return x;
}

/* Of codes below 16 the entries of a table. */
PQ_NOINLINE c32 c32_look_up(const int8_t *table, c32 x)
{
    EACH_CODE(i)
    {
        x.v[i] = (uint8_t)table[x.v[i]];
        PQ_IN_ORDER(); /* vectors of it take ten times the code, and as long */
    }
    return x;
}

/* The digits of base 3 that the fractions x y / 256 begin with: floor(3 (x y mod 256) /
 * 256). */
PQ_NOINLINE c32 c32_trits(c32 x, c32 y)
{
    EACH_CODE(i) x.v[i] = (uint8_t)((uint8_t)(x.v[i] * y.v[i]) * 3 >> 8);
    return x;
}

PQ_INLINE float half_value(uint16_t bits)
{
    return pq_f32_from_f16(bits);
}

/* Signed codes times `a`, the second half of them times `b`, to float32; plus `c` and `d`,
 * where the products are exact. */
PQ_NOINLINE void store_scaled(char *to, c32 x, float a, float b)
{
    float y[32];
    for (int i = 0; i < 16; i++) {
        y[i] = (float)(int8_t)x.v[i] * a;
        y[i + 16] = (float)(int8_t)x.v[i + 16] * b;
    }
    memcpy(to, y, sizeof y);
}

PQ_NOINLINE void store_shifted(char *to, c32 x, float a, float b, float c, float d)
{
    float y[32];
    for (int i = 0; i < 16; i++) {
        y[i] = (float)(int8_t)x.v[i] * a + c;
        y[i + 16] = (float)(int8_t)x.v[i + 16] * b + d;
    }
    memcpy(to, y, sizeof y);
}

/* 32 float32 numbers, their NaN canonical, to float16 and bfloat16. */
PQ_INLINE void narrow_to_f16(uint16_t *to, const float *from)
{
    EACH_CODE(i) to[i] = pq_f16_from_f32(from[i]);
}

PQ_INLINE void narrow_to_bf16(uint16_t *to, const float *from)
{
    EACH_CODE(i) to[i] = pq_bf16_from_f32(from[i]);
}

#endif
