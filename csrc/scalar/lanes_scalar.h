/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector words for sums, in plain C: eight float32 or four float64 lanes. Each lane sums
 * its own elements, so that every instruction set adds equal numbers in equal order.
 */
#ifndef PQ_LANES_SCALAR_H
#define PQ_LANES_SCALAR_H

#include <string.h>

#include "math/scalar_math.h"
#include "pq_compiler.h"

#define PQ_FUSED_LANES 0 /* no fused multiply-add */

typedef struct {
    float v[8];
} f8;

typedef struct {
    double v[4];
} d4;

#define LANE(i) for (int i = 0; i < (int)(sizeof r.v / sizeof *r.v); i++)

PQ_INLINE f8 f8_load(const void *p)
{
    f8 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

PQ_INLINE void f8_store(void *p, f8 a)
{
    memcpy(p, a.v, sizeof a.v);
}

PQ_INLINE f8 f8_splat(float s)
{
    f8 r;
    LANE(i) r.v[i] = s;
    return r;
}

PQ_INLINE d4 d4_load(const void *p)
{
    d4 r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

PQ_INLINE void d4_store(void *p, d4 a)
{
    memcpy(p, a.v, sizeof a.v);
}

PQ_INLINE d4 d4_splat(double s)
{
    d4 r;
    LANE(i) r.v[i] = s;
    return r;
}

PQ_INLINE d4 d4_load_f32(const void *p)
{
    float v[4];
    d4 r;
    memcpy(v, p, sizeof v);
    LANE(i) r.v[i] = (double)v[i];
    return r;
}

#define BINARY(name, type, expression)                                                     \
    PQ_INLINE type name(type a, type b)                                                    \
    {                                                                                      \
        type r;                                                                            \
        LANE(i) r.v[i] = expression;                                                       \
        return r;                                                                          \
    }
BINARY(f8_add, f8, a.v[i] + b.v[i])
BINARY(f8_subtract, f8, a.v[i] - b.v[i])
BINARY(f8_multiply, f8, a.v[i] * b.v[i])
BINARY(f8_divide, f8, a.v[i] / b.v[i])
BINARY(f8_smaller, f8, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
BINARY(f8_larger, f8, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
BINARY(d4_add, d4, a.v[i] + b.v[i])
BINARY(d4_subtract, d4, a.v[i] - b.v[i])
BINARY(d4_multiply, d4, a.v[i] * b.v[i])
BINARY(d4_larger, d4, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
#undef BINARY

/* Round magnitudes up to 2^22 half to even: float32 numbers next to 1.5 * 2^23 are
 * integers. */
PQ_INLINE f8 f8_nearest(f8 a)
{
    f8 r;
    LANE(i) r.v[i] = (a.v[i] + 0x1.8p23f) - 0x1.8p23f;
    return r;
}

PQ_INLINE d4 d4_magnitude(d4 a)
{
    d4 r;
    LANE(i) r.v[i] = pq_f64_bits(pq_bits_f64(a.v[i]) & INT64_MAX);
    return r;
}

/* Return c + a * b. The product must be exact. */
PQ_INLINE d4 d4_add_product(d4 a, d4 b, d4 c)
{
    d4 r;
    LANE(i) r.v[i] = c.v[i] + a.v[i] * b.v[i];
    return r;
}

/* Return the sum of all lanes: add the second half to the first half until one is left. */
PQ_INLINE double d4_sum(d4 a)
{
    return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
}
#undef LANE

#endif
