/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prove that the fast quotients of csrc/kernels/quantize.inc and encode.inc equal a
 * division: see quantize_range() and encode_range(). Each check uses every significand of
 * the scale. ranges.c proves the limits of the ranges. The program runs for 30 seconds on
 * one core with FMA instructions.
 */
#include <math.h>
#include <stdint.h>

#include "check.h"
#include "kernels/reciprocal.h"

enum { ALL_ONES = 0x7fffff };

static float scale_of(uint32_t significand, int exponent)
{
    return f32_of_bits((uint32_t)(127 + exponent) << 23 | significand);
}

/* ---- quotients in two operations, for 8-bit codes ---- */

static float in_two_operations(float x, float r, float d)
{
    return fmaf(x, r, x * d);
}

/* Return 1 if fast quotients are on the side of x / s. The numbers x are `tie` * `s` and
 * the numbers next to this product. */
static int has_sides(float s, float tie, float r, float d)
{
    const uint32_t at = bits_of_f32(s * tie);
    int right = 1;
    for (uint32_t step = 0; step < 3; step++) {
        const float x = f32_of_bits(at + step - 1);
        const float q = in_two_operations(x, r, d), due = x / s;
        right &= (q > tie) == (due > tie) && (q < tie) == (due < tie);
    }
    return right;
}

/* Return the number of significands with a fast quotient on the wrong side of a tie. */
static uint32_t wrong_significands(int exponent, int step, uint32_t *last)
{
    uint32_t wrong = 0;
    for (uint32_t m = 0; m <= ALL_ONES; m++) {
        const float s = scale_of(m, exponent), r = 1.0f / s;
        const float d = fmaf(-r, s, 1.0f) * r;
        int right = 1;
        for (int k = 0; k < 256; k += step) {
            right &= has_sides(s, (float)k + 0.5f, r, d);
        }
        right &= has_sides(s, 255.5f, r, d);
        wrong += !right;
        *last = right ? *last : m;
    }
    return wrong;
}

static void prove_two_operations(void)
{
    const struct reciprocal_range range = reciprocal_range_of_bytes();
    const struct {
        int exponent, step;
    } ranges[] = {
        {0, 1}, {(int)(range.lo >> 23) - 127, 51}, {(int)(range.hi >> 23) - 127, 51}};
    for (size_t i = 0; i < COUNT(ranges); i++) {
        uint32_t last = 0;
        check_begin("two operations, scales from 2^%d", ranges[i].exponent);
        const uint32_t wrong =
            wrong_significands(ranges[i].exponent, ranges[i].step, &last);
        CHECK(wrong == 0 || (wrong == 1 && last == ALL_ONES),
              "%u significands, the last one is %#x", (unsigned)wrong, (unsigned)last);
    }
}

/* ---- three operations ---- */

static float in_three_operations(float x, float s, float r)
{
    const float q = x * r;
    return fmaf(fmaf(-q, s, x), r, q);
}

static uint32_t inverse_of(uint32_t odd)
{
    uint32_t v = odd;
    for (int i = 0; i < 5; i++) {
        v *= 2 - odd * v;
    }
    return v;
}

/*
 * Check the fast quotient of every numerator X with a quotient X / S near a midpoint. The
 * distance is |c| / 2S units in the last place: X 2^bits = S N + c, where N is odd and has
 * 25 bits. Only |c| < 8 can fail, because the error before the last rounding is below 2^-22
 * units. X and S have 24 bits.
 */
static uint64_t check_near_midpoints(uint32_t divisor, int bits)
{
    enum { MOST = 15 };
    const int zeros = __builtin_ctz(divisor);
    const uint32_t odd = divisor >> zeros, inverse = inverse_of(odd);
    const float s = (float)divisor, r = 1.0f / s;
    uint64_t cases = 0;
    for (int c = -MOST; zeros < 4 && c <= MOST; c += 2) {
        const int remainder = c * (1 << zeros);
        if (remainder < -MOST || remainder > MOST) {
            continue;
        }
        const uint32_t period = UINT32_C(1) << (bits - zeros);
        const uint32_t first = (uint32_t)-c * inverse & (period - 1);
        for (uint32_t n = first; n < UINT32_C(1) << 25; n += period) {
            const int64_t product = (int64_t)divisor * n + remainder;
            const int64_t numerator = product >> bits;
            if (n < UINT32_C(1) << 24 || numerator < 1 << 23 || numerator >= 1 << 24 ||
                (numerator >= (int64_t)divisor) != (bits == 24)) {
                continue;
            }
            const float x = (float)numerator;
            CHECK(in_three_operations(x, s, r) == x / s, "%a / %a", (double)x, (double)s);
            cases++;
        }
    }
    return cases;
}

static void prove_three_operations(void)
{
    uint64_t cases = 0;
    check_begin("three operations, next to midpoints");
    for (uint32_t divisor = 1 << 23; divisor < 1 << 24; divisor++) {
        cases += check_near_midpoints(divisor, 24);
        cases += check_near_midpoints(divisor, 25);
    }
    CHECK(cases > 80000000, "%llu cases", (unsigned long long)cases);
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    prove_two_operations();
    prove_three_operations();
    return check_finish();
}
