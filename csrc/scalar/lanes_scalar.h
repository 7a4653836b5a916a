/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inline functions on vectors for sums, in portable C. An f8 has eight float32 numbers, and
 * a d4 has four float64 numbers. Only d4_sum() adds different lanes, so all instruction
 * sets add numbers in one order.
 */
#ifndef PQ_LANES_SCALAR_H
#define PQ_LANES_SCALAR_H

#include "math/scalar_math.h"
#include "scalar/each.h"

#define PQ_FUSED_LANES 0 /* portable C uses no fused multiply-add */

typedef struct {
    float v[8];
} f8;

typedef struct {
    double v[4];
} d4;

LOAD_STORE(f8, f8_load, f8_store)
LOAD_STORE(d4, d4_load, d4_store)
LOAD_AS(d4, d4_load_f32, float, (double))
SPLAT(f8, f8_splat, float)
SPLAT(d4, d4_splat, double)
ARITHMETIC(f8, f8_, )
ARITHMETIC(d4, d4_, )
IN_PLACE(d4, d4_magnitude, (d4 x), pq_f64_bits(pq_bits_f64(x.v[i]) & INT64_MAX))

IN_PLACE(f8, f8_nearest, (f8 x), pq_nearest_f32(x.v[i]))

/* Return z + x * y. The product must be exact. */
IN_PLACE(d4, d4_add_product, (d4 x, d4 y, d4 z), z.v[i] + x.v[i] * y.v[i])

/* Add the upper half of the lanes to the lower half until one lane is left. */
PQ_INLINE double d4_sum(d4 x)
{
    return (x.v[0] + x.v[2]) + (x.v[1] + x.v[3]);
}

#endif
