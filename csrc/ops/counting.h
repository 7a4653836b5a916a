/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations for counting one tensor (ops/histogram.c) and channels (ops/channels.c):
 * checks, the plan, extrema, nonfinite values, and the keys of histograms, which pq.h
 * defines. */
#ifndef PQ_COUNTING_H
#define PQ_COUNTING_H

#include <stdbool.h>
#include <string.h>

#include "engine/params.h"
#include "engine/plan.h"
#include "kernels/kernels.h"
#include "math/scalar_math.h"
#include "pq.h"
#include "pq_compiler.h"

enum {
    PQ_KEY_SIGN = 32768,               /* the key of -0 */
    PQ_KEY_MOST = 0x7f7f,              /* the highest finite key of float32 */
    PQ_KEY_REBIAS = (1023 - 127) << 7, /* difference of exponent biases, in keys */
    PQ_COUNT_COLUMNS = 256             /* number of columns of a struct pq_extrema */
};

/* The input of a count. */
struct pq_counting {
    const struct pq_kernels *kernels;
    enum pq_type type;
    size_t size; /* number of bytes of an element */
    bool swapped, is_f64;
    int row; /* index of the type in tables of extrema kernels */
    struct pq_plan plan;
};

/* Check the arguments, and plan one of `parts` parts of `in`. The strides of `channels`
 * select the channel of each element. If it is NULL, there is one channel. */
enum pq_status pq_begin_counting(struct pq_counting *counting,
                                 const struct pq_kernels *kernels,
                                 const struct pq_args *args,
                                 const struct pq_array *channels, int part, int parts);

/* The lowest and the highest value of each column, as float64 for float64 input, else as
 * float32. */
struct pq_extrema {
    union {
        float f32[PQ_COUNT_COLUMNS];
        double f64[PQ_COUNT_COLUMNS];
    } lo, hi;
    uint32_t bits; /* at least PQ_INFINITY_BITS if a value is NaN or infinite */
};

/* Widen the interval [*lowest, *highest] to include the extrema of a column. Replace -0 by
 * +0, because only some kernels find -0. */
void pq_merge_extrema(const struct pq_counting *counting, const struct pq_extrema *found,
                      size_t column, double *lowest, double *highest);

/* Return true if the kernels found only finite values. */
static inline bool pq_found_finite(const struct pq_extrema *found)
{
    return found->bits < PQ_INFINITY_BITS;
}

/* Return the value of an element, in native byte order. */
static inline double pq_counted_value(const struct pq_counting *counting, const char *x)
{
    const struct pq_params at = {x, 0, counting->type, 0};
    double v;
    pq_load_scales_f64(&v, &at, 1, 0);
    return v;
}

/* Return true if a value is finite. Otherwise increment the count of NaN or of
 * infinities. */
static inline bool pq_is_finite_or_count(double v, uint64_t *nan, uint64_t *inf)
{
    if (pq_is_finite_f64(v)) {
        return true;
    }
    ++*(v != v ? nan : inf);
    return false;
}

/* Return the key of a float64: the upper 16 bits after truncation to float32, toward zero.
 */
static inline uint16_t pq_key_of_f64(uint64_t bits)
{
    const uint32_t sign = (uint32_t)(bits >> 63) << 15;
    const int32_t key = (int32_t)(bits << 1 >> 46) - PQ_KEY_REBIAS;
    if (key >= 1 << 7) {
        return (uint16_t)(sign | (uint32_t)(key < PQ_KEY_MOST ? key : PQ_KEY_MOST));
    }
    const int32_t shift = 1 - (key >> 7); /* number of bits to shift out */
    const uint32_t mantissa = (uint32_t)(key & 127) | 128;
    return (uint16_t)(sign | (shift < 8 ? mantissa >> shift : 0));
}

/* Write the keys of `n` float64 elements. The first loop has no branch, but its keys of
 * subnormal float32 values are wrong. If at least one value is a subnormal float32, the
 * second loop replaces all keys. */
static inline void pq_keys_of_f64(uint16_t *PQ_RESTRICT keys, const char *x, size_t n)
{
    uint32_t small = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i * sizeof bits, sizeof bits);
        const uint32_t high = (uint32_t)(bits >> 32), magnitude = high >> 13 & 0x3ffff;
        int32_t key = (int32_t)magnitude - PQ_KEY_REBIAS;
        small |= (uint32_t)(magnitude - 1 < PQ_KEY_REBIAS + 127);
        key = key < 128 ? 0 : key;
        key = key < PQ_KEY_MOST ? key : PQ_KEY_MOST;
        keys[i] = (uint16_t)((high >> 16 & PQ_KEY_SIGN) | (uint32_t)key);
    }
    for (size_t i = 0; small != 0 && i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i * sizeof bits, sizeof bits);
        keys[i] = pq_key_of_f64(bits);
    }
}

/* Return the key of an element. */
static inline uint16_t pq_key_at(enum pq_type type, const char *x)
{
    uint64_t bits;
    uint32_t single;
    uint16_t half;
    switch (type) {
    case PQ_F64:
        memcpy(&bits, x, sizeof bits);
        return pq_key_of_f64(bits);
    case PQ_F32:
        memcpy(&single, x, sizeof single);
        return (uint16_t)(single >> 16);
    default:
        memcpy(&half, x, sizeof half);
        return half;
    }
}

#endif
