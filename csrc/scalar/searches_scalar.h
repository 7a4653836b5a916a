/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words of searches: so many numbers of float32 side by side, of as many columns, and
 * whether something holds for each of them. In plain C one number is least code.
 */
#ifndef PQ_SEARCHES_SCALAR_H
#define PQ_SEARCHES_SCALAR_H

#include <math.h>

#include "math/scalar_math.h"

enum { LANES = 1 };

typedef float fl;
typedef int ml;

PQ_INLINE fl fl_splat(float s)
{
    return s;
}

PQ_INLINE fl fl_load(const float *p)
{
    return *p;
}

PQ_INLINE void fl_store(float *p, fl x)
{
    *p = x;
}

#define BINARY(name, type, expression)                                                     \
    PQ_INLINE type name(fl x, fl y)                                                        \
    {                                                                                      \
        return expression;                                                                 \
    }
BINARY(fl_add, fl, x + y)
BINARY(fl_subtract, fl, x - y)
BINARY(fl_multiply, fl, x *y)
BINARY(fl_divide, fl, x / y)
BINARY(fl_smaller, fl, x < y ? x : y)
BINARY(fl_larger, fl, x > y ? x : y)
BINARY(fl_less, ml, x < y)
BINARY(fl_differ, ml, x != y)
#undef BINARY

PQ_INLINE fl fl_root(fl x)
{
    return sqrtf(x);
}

/* Half to even, of magnitudes below 2^22; a zero of either sign. */
PQ_INLINE fl fl_rounded(fl x)
{
    return x + 0x1.8p23f - 0x1.8p23f;
}

/* The bits that are set in `kept`, and those of `set`. */
PQ_INLINE fl fl_masked(fl x, uint32_t kept, uint32_t set)
{
    return pq_f32_bits((pq_bits_f32(x) & kept) | set);
}

PQ_INLINE ml ml_and(ml x, ml y)
{
    return x & y;
}

/* Whether there is one for which it holds. */
PQ_INLINE int ml_any(ml x)
{
    return x;
}

/* `x` where it holds. */
PQ_INLINE fl fl_select(ml m, fl x, fl y)
{
    return m ? x : y;
}

/* Of integers of a byte each. */
PQ_INLINE void fl_store_bytes(uint8_t *p, fl x)
{
    *p = (uint8_t)(int)x;
}

#endif
