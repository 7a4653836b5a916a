/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA scalar
#include "kernels/kernels.h"

#include "scalar/lanes_scalar.h"

#include "kernels/sums.inc"

/*
 * ---- requantize ----
 *
 * This kernel does not use requantize.inc. Compilers do not vectorize loops of
 * requantize.inc over portable chunks, and these loops would add 20 kB of code. Here, each
 * function computes one element.
 */

/* The parameters of a line, or of one element if `per_element` is true. The compiler keeps
 * the parameters of a line in registers. */
struct place {
    int64_t m;
    float r;
    int32_t bias, most; /* `most`: the largest v that fits int32 after the left shift */
    int left, right;
};

/* How a kernel multiplies: by a float32 number, in fixed point with one rounding or two,
 * or in fixed point with one rounding and int32 results. */
enum product { F32 = PQ_REQUANTIZE_F32, ONCE, TWICE, INT32 };

PQ_INLINE struct place load_requantize_params(const struct pq_requantize_run *how,
                                              size_t at, enum product kind)
{
    struct place p = {.bias = how->bias[at]};
    if (kind == F32) {
        p.r = how->r[at];
        return p;
    }
    const int down = how->down[at], top = kind == TWICE ? -1 : how->doubled;
    p.m = (uint32_t)how->m[at] >> (how->doubled && kind != TWICE);
    p.right = kind == INT32 ? down + 33 - how->doubled : down;
    p.left = how->shifts && top > down ? top - down : 0;
    p.most = INT32_MAX >> p.left;
    return p;
}

/* Shift to the left, and saturate. */
PQ_INLINE int32_t shift_left_saturating(int32_t v, struct place p)
{
    const int32_t capped = v < p.most ? v : p.most;
    return (int32_t)((uint32_t)(capped > ~p.most ? capped : ~p.most) << p.left);
}

/* Return the rounded product. The sum with 1.5 * 2^52 holds an integer below 2^51 in its
 * last bits. */
PQ_INLINE int64_t rounded_product(const struct pq_requantize_run *how, int32_t v,
                                  struct place p, enum product kind)
{
    if (kind == F32) {
        const float product = (float)v * p.r;
        const double lo = (double)how->lowest, hi = (double)how->highest;
        const double q = (double)product, above = q > lo ? q : lo;
        const double bounded = above < hi ? above : hi;
        return (int64_t)(pq_bits_f64(bounded + 0x1.8p52) - pq_bits_f64(0x1.8p52));
    }
    if (kind == INT32) {
        return (v * p.m + (INT64_C(1) << (p.right - 1))) >> p.right;
    }
    const int64_t product = (how->shifts ? shift_left_saturating(v, p) : v) * p.m;
    if (kind == ONCE) {
        return ((product >> 32 >> (how->shifts && p.right < 0 ? 0 : p.right)) + 1) >> 1;
    }
    const int64_t x = (product + (INT64_C(1) << 31)) >> 32;
    return how->shifts && p.right < 0 ? x : (((x - (x < 0)) >> p.right) + 1) >> 1;
}

PQ_INLINE void store_code(char *y, size_t size, int64_t code)
{
    const uint32_t bits = (uint32_t)code;
    const uint16_t half = (uint16_t)code;
    if (size == sizeof bits) {
        memcpy(y, &bits, sizeof bits);
    } else if (size == sizeof half) {
        memcpy(y, &half, sizeof half);
    } else {
        *y = (char)(unsigned char)code;
    }
}

/* Requantize lines. `shifts` is a constant. Return 0 if an element is less than `least` or
 * greater than `most`. */
PQ_INLINE int requantize(const struct pq_requantize_run *given, const char *x, char *y,
                         size_t n, enum product kind, int shifts)
{
    struct pq_requantize_run all = *given, *const how = &all; /* kept in registers */
    all.shifts = shifts;
    const size_t size = pq_bytes_of(all.out);
    const uint32_t span = (uint32_t)all.most - (uint32_t)all.least;
    uint32_t most = 0;
    for (size_t line = 0; line < all.lines && most <= span; line++) {
        struct place p = load_requantize_params(how, all.per_element ? 0 : line, kind);
        for (size_t i = 0; i < n; i++) {
            int32_t v;
            memcpy(&v, x + i * sizeof v, sizeof v);
            const uint32_t distance = (uint32_t)v - (uint32_t)all.least;
            most = distance > most ? distance : most;
            if (all.per_element) {
                p = load_requantize_params(how, i, kind);
            }
            v = (int32_t)((uint32_t)v + (uint32_t)p.bias);
            const int64_t r = rounded_product(how, v, p, kind);
            const int64_t above = r > all.lowest ? r : all.lowest;
            store_code(y + i * size, size,
                       (above < all.highest ? above : all.highest) + all.zero);
        }
        x += all.in_stride;
        y += all.out_stride;
    }
    return most <= span;
}

int PQ_NAME(requantize)(const struct pq_requantize_run *how, const void *x, void *y,
                        size_t n)
{
#define LOOP(kind)                                                                         \
    (how->shifts ? requantize(how, x, y, n, kind, 1) : requantize(how, x, y, n, kind, 0))
    return how->kind == PQ_REQUANTIZE_F32     ? requantize(how, x, y, n, F32, 0)
           : how->kind == PQ_REQUANTIZE_TWICE ? LOOP(TWICE)
           : how->out == PQ_I32               ? requantize(how, x, y, n, INT32, 0)
                                              : LOOP(ONCE);
#undef LOOP
}
