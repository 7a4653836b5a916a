/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Vector words of search_blocks.inc: LANES float32 values of neighbouring columns, and a
 * condition for each of them. In plain C one value gives the shortest code.
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

/* Round half to even, for magnitudes below 2^22. The sign of a zero is not specified. */
PQ_INLINE fl fl_rounded(fl x)
{
    return x + 0x1.8p23f - 0x1.8p23f;
}

/* Keep the bits of `kept` and set the bits of `set`. */
PQ_INLINE fl fl_masked(fl x, uint32_t kept, uint32_t set)
{
    return pq_f32_bits((pq_bits_f32(x) & kept) | set);
}

PQ_INLINE ml ml_and(ml x, ml y)
{
    return x & y;
}

/* Return true if the condition holds for any lane. */
PQ_INLINE int ml_any(ml x)
{
    return x;
}

/* Return x if the condition holds, else y. */
PQ_INLINE fl fl_select(ml m, fl x, fl y)
{
    return m ? x : y;
}

/* Store integers as bytes. */
PQ_INLINE void fl_store_bytes(uint8_t *p, fl x)
{
    *p = (uint8_t)(int)x;
}

#endif
