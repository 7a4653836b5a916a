/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions (words) on vectors of 32 codes of one byte, in plain C, for GGUF blocks. Memory
 * needs no alignment. Words of several steps are not inlined, to keep the code small.
 */
#ifndef PQ_CODES_SCALAR_H
#define PQ_CODES_SCALAR_H

#include <math.h>
#include <string.h>

#include "math/scalar_math.h"
#include "scalar/each.h"

typedef struct {
    uint8_t v[32];
} c32;

#define EACH_CODE(i) for (int i = 0; i < 32; i++)

LOAD_STORE(c32, c32_load, c32_store)

/* Return the bytes of four 64-bit integers, the lowest byte of each integer first. */
PQ_INLINE c32 c32_of_words(uint64_t x, uint64_t y, uint64_t z, uint64_t w)
{
    const uint64_t words[4] = {x, y, z, w};
    c32 r;
    EACH_CODE(i) r.v[i] = words[i / 8] >> (i % 8 * 8) & 0xff;
    return r;
}

SPLAT(c32, c32_splat, uint8_t)

/* Return the lower four bits of each of 16 bytes, and then the upper four bits of each. */
PQ_NOINLINE c32 c32_nibbles(const uint8_t *p)
{
    c32 r;
    for (int i = 0; i < 16; i++) {
        r.v[i] = p[i] & 15;
        r.v[i + 16] = p[i] >> 4;
    }
    return r;
}

/* Return 32 fields of 2 bits, the lowest first. c32_triples() returns 16 fields of 3 bits
 * from each argument: four fields from the lower 12 bits of each 16-bit word. */
WORD_AS(PQ_NOINLINE, c32, c32_pairs, (uint64_t x), x >> (2 * i) & 3)

PQ_NOINLINE c32 c32_triples(uint64_t x, uint64_t y)
{
    c32 r;
    for (int i = 0; i < 16; i++) {
        r.v[i] = x >> (i / 4 * 16 + i % 4 * 3) & 7;
        r.v[i + 16] = y >> (i / 4 * 16 + i % 4 * 3) & 7;
    }
    return r;
}

/* For each code, return `value` if its bit is set, else 0. Bit 0 is for the first code. */
WORD_AS(PQ_NOINLINE, c32, c32_where, (uint32_t bits, uint8_t value),
        bits >> i & 1 ? value : 0)

/* Negate each code if its bit in `bits` is set. Bit 0 is for the first code. */
WORD_AS(PQ_NOINLINE, c32, c32_negate_where, (c32 x, uint32_t bits),
        (uint8_t)(bits >> i & 1 ? -x.v[i] : x.v[i]))

/* Shift codes right, and mask them. */
IN_PLACE(c32, c32_field, (c32 x, int shift, uint8_t mask),
         (uint8_t)(x.v[i] >> shift & mask))

/* Shift codes left. The results must fit in a byte. */
IN_PLACE(c32, c32_shift_left, (c32 x, int shift), (uint8_t)(x.v[i] << shift))

WORD2(c32, c32_or, (uint8_t)(x.v[i] | y.v[i]))

/* Subtract modulo 256. */
WORD2(c32, c32_subtract, (uint8_t)(x.v[i] - y.v[i]))

/* Look up codes below 16 in a table of 16 bytes. */
PQ_NOINLINE c32 c32_look_up(const int8_t *table, c32 x)
{
    for (int i = 0; i < 32; i += 2) {
        x.v[i] = (uint8_t)table[x.v[i]];
        x.v[i + 1] = (uint8_t)table[x.v[i + 1]];
        PQ_IN_ORDER(); /* a vectorized loop has ten times the code, but is not faster */
    }
    return x;
}

/* Multiply 16 numbers by `scale`. NaN becomes the canonical NaN. */
PQ_NOINLINE void scale_table(float *to, const float *from, float scale)
{
    for (int i = 0; i < 16; i++) {
        to[i] = pq_canonical_f32(from[i] * scale);
        PQ_IN_ORDER(); /* a vectorized loop has more code, but is not faster */
    }
}

/* Store a table entry for each of 32 bytes. The lower four bits of a byte are the index. */
PQ_NOINLINE void c32_store_entries(char *to, const uint8_t *p, const float *table)
{
    float y[32];
    EACH_CODE(i)
    {
        y[i] = table[p[i] & 15];
        PQ_IN_ORDER(); /* a vectorized loop has more code, but is not faster */
    }
    memcpy(to, y, sizeof y);
}

/* Find the code of each number in a search tree of 4 or 8 levels, see kernels.h. */
PQ_NOINLINE c32 c32_find_codes(const float *x, const float *bound, int tree_depth)
{
    c32 r;
    EACH_CODE(i)
    {
        int k = 1;
        for (int level = 0; level < tree_depth; level++) {
            k = 2 * k + (bound[k] < x[i]);
        }
        r.v[i] = (uint8_t)(k - (1 << tree_depth));
    }
    return r;
}

/* Return the first base-3 digit of the fraction of x * y / 256, which is floor(3 * (x * y
 * mod 256) / 256). */
WORD_AS(PQ_NOINLINE, c32, c32_trits, (c32 x, c32 y),
        (uint8_t)((uint8_t)(x.v[i] * y.v[i]) * 3 >> 8))

PQ_INLINE float half_to_f32(uint16_t bits)
{
    return pq_f32_from_f16(bits);
}

/* Store signed codes as float32: the first 16 codes times `a`, the last 16 times `b`.
 * store_shifted() requires exact products, and adds `c` to the first 16 and `d` to the last
 * 16. */
#define STORE_FLOATS(word, parameters, expression)                                         \
    PQ_NOINLINE void word parameters                                                       \
    {                                                                                      \
        float y[32];                                                                       \
        EACH_CODE(i) y[i] = expression;                                                    \
        memcpy(to, y, sizeof y);                                                           \
    }
STORE_FLOATS(store_scaled_halves, (char *to, c32 x, float a, float b),
             (float)(int8_t)x.v[i] * (i < 16 ? a : b))
STORE_FLOATS(store_shifted, (char *to, c32 x, float a, float b, float c, float d),
             (float)(int8_t)x.v[i] * (i < 16 ? a : b) + (i < 16 ? c : d))
#undef STORE_FLOATS

/* ---- words on finite numbers ---- */

/* Find the extrema of `n` numbers. `n` is a multiple of 16. A zero can have either sign. */
PQ_NOINLINE void find_float_extrema(const float *x, int n, float *least, float *most)
{
    float low = x[0], high = x[0];
    for (int i = 1; i < n; i++) {
        low = x[i] < low ? x[i] : low;
        high = x[i] > high ? x[i] : high;
    }
    *least = low;
    *most = high;
}

/* Return the largest magnitude of `n` numbers. `n` is a multiple of 16. */
PQ_NOINLINE float find_float_magnitude(const float *x, int n)
{
    int32_t most = 0; /* the bits of magnitudes have the order of the magnitudes */
    for (int i = 0; i < n; i++) {
        const int32_t bits = (int32_t)(pq_bits_f32(x[i]) & 0x7fffffff);
        most = bits > most ? bits : most;
    }
    return pq_f32_bits((uint32_t)most);
}

/* Return (x - low) * i + added, rounded after each operation and truncated to a byte. */
PQ_NOINLINE c32 c32_truncated(const float *x, float low, float i, float added)
{
    c32 r;
    EACH_CODE(k)
    {
        const float v = (x[k] - low) * i + added;
        r.v[k] = (uint8_t)(int)(fabsf(v) < 256 ? v : 0); /* NaN becomes 0 */
    }
    return r;
}

/* Round x * i to signed bytes, half away from zero. c32_nearest() rounds half to even: the
 * low byte of the sum with 1.5 * 2^23 is the integer. */
PQ_NOINLINE c32 c32_rounded(const float *x, float i)
{
    c32 r;
    EACH_CODE(k)
    {
        const float q = x[k] * i, v = fabsf(q) < 128 ? q : 0, rest = v - (float)(int)v;
        r.v[k] = (uint8_t)((int)v + (rest >= 0.5f) - (rest <= -0.5f));
    }
    return r;
}

WORD_AS(PQ_NOINLINE, c32, c32_nearest, (const float *x, float by),
        (uint8_t)pq_bits_f32(x[i] * by + 0x1.8p23f))

/* Divide the first 16 magnitudes by `a`, and the last 16 by `b`. Round up to integers. The
 * quotients are at most 32. */
PQ_NOINLINE c32 c32_quotients_up(const float *x, float a, float b)
{
    c32 r;
    EACH_CODE(k)
    {
        const float q = fabsf(x[k]) / (k < 16 ? a : b), v = q < 32 ? q : 32;
        r.v[k] = (uint8_t)((int)v + (v > (float)(int)v));
        PQ_IN_ORDER(); /* a vectorized loop has more code */
    }
    return r;
}

/* Set bit 7 of each code if its number is below 0. The other bits have no meaning. */
WORD_AS(PQ_NOINLINE, c32, c32_signs, (const float *x), x[i] < 0 ? 0x80 : 0)

PQ_INLINE uint16_t f32_to_half(float v)
{
    return pq_f16_from_f32(v);
}

/* ---- storing codes ---- */

/* Store codes below 16 in the format of c32_nibbles(). */
PQ_NOINLINE void c32_put_nibbles(uint8_t *p, c32 x)
{
    for (int i = 0; i < 16; i++) {
        p[i] = (uint8_t)(x.v[i] | x.v[i + 16] << 4);
    }
}

/* Pack 32 codes below 4 into 64 bits, the first code in the lowest bits: the inverse of
 * c32_pairs(). */
PQ_NOINLINE uint64_t c32_joined_pairs(c32 x)
{
    uint64_t r = 0;
    EACH_CODE(i) r |= (uint64_t)x.v[i] << (2 * i);
    return r;
}

/* Exchange codes 8 to 15 with codes 16 to 23. */
PQ_INLINE c32 c32_swap_middle(c32 x)
{
    uint64_t w[4];
    memcpy(w, x.v, sizeof w);
    memcpy(x.v, (uint64_t[]){w[0], w[2], w[1], w[3]}, sizeof w);
    return x;
}

/* Return the highest bit of each code. Bit 0 of the result is from the first code. */
PQ_NOINLINE uint32_t c32_top_bits(c32 x)
{
    uint32_t bits = 0;
    EACH_CODE(i) bits |= (uint32_t)(x.v[i] >> 7) << i;
    return bits;
}

/* Add modulo 256. */
WORD2(c32, c32_add, (uint8_t)(x.v[i] + y.v[i]))

WORD2(c32, c32_smaller, x.v[i] < y.v[i] ? x.v[i] : y.v[i])

/* Store the sum of the first 16 signed codes, and the sum of the last 16. */
PQ_NOINLINE void c32_sum_halves(c32 x, int sums[2])
{
    sums[0] = sums[1] = 0;
    EACH_CODE(i) sums[i / 16] += (int8_t)x.v[i];
}

/* Return 256 * x / 243, rounded up. x has five digits in base 3. c32_trits() extracts the
 * digits from the result. */
IN_PLACE(c32, c32_fraction, (c32 x), (uint8_t)((x.v[i] * 256 + 242) / 243))

#endif
