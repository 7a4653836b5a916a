/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inline functions on vectors for search_blocks.inc. An fl has LANES float32 values of
 * neighbouring columns, and an ml is a mask with a boolean for each value. In plain C,
 * LANES is 1, because this makes the program shortest.
 */
#ifndef PQ_SEARCHES_SCALAR_H
#define PQ_SEARCHES_SCALAR_H

#include <math.h>

#include "math/scalar_math.h"

enum { LANES = 1 };

typedef float fl;
typedef int ml;

#define WORD(type, word, parameters, expression)                                           \
    PQ_INLINE type word parameters                                                         \
    {                                                                                      \
        return expression;                                                                 \
    }
WORD(fl, fl_splat, (float s), s)
WORD(fl, fl_load, (const float *p), *p)
WORD(fl, fl_add, (fl x, fl y), x + y)
WORD(fl, fl_subtract, (fl x, fl y), x - y)
WORD(fl, fl_multiply, (fl x, fl y), x *y)
WORD(fl, fl_divide, (fl x, fl y), x / y)
WORD(fl, fl_smaller, (fl x, fl y), x < y ? x : y)
WORD(fl, fl_larger, (fl x, fl y), x > y ? x : y)
WORD(ml, fl_less, (fl x, fl y), x < y)
WORD(ml, fl_differ, (fl x, fl y), x != y)
WORD(fl, fl_root, (fl x), sqrtf(x))
/* Round half to even, for magnitudes below 2^22. The sign of a zero is not specified. */
WORD(fl, fl_rounded, (fl x), pq_nearest_f32(x))
/* Keep the bits of `kept` and set the bits of `set`. */
WORD(fl, fl_masked, (fl x, uint32_t kept, uint32_t set),
     pq_f32_bits((pq_bits_f32(x) & kept) | set))
WORD(ml, ml_and, (ml x, ml y), x &y)
WORD(int, ml_any, (ml x), x)                       /* true if any lane is true */
WORD(fl, fl_select, (ml m, fl x, fl y), m ? x : y) /* x where m is true, else y */
#undef WORD

PQ_INLINE void fl_store(float *p, fl x)
{
    *p = x;
}

/* Store integers as bytes. */
PQ_INLINE void fl_store_bytes(uint8_t *p, fl x)
{
    *p = (uint8_t)(int)x;
}

#endif
