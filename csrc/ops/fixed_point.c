/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requantize multiplies by, and its products: everything that rounds is defined here,
 * an element at a time and exactly, in integers without limits as far as results can tell.
 */
#include <float.h>

#include "../fpenv.h"
#include "../params.h"
#include "../rescale.h"
#include "../scalar_math.h"

enum { MOST_SHIFT = 62 }; /* as (v * m + 2^(shift - 1)) >> shift is within 64 bits */

#define MOST_MULTIPLIER INT32_MAX

/* ---- multipliers ---- */

/* TFLite's QuantizeMultiplier: half away from zero to 31 bits. Below 2^-32 it is 0; what
 * single rounding cannot shift so far is the largest. */
static bool fix_tflite(struct pq_fixed *to, double real, bool single)
{
    const uint64_t bits = pq_bits_f64(real);
    const uint64_t fraction = (bits & (UINT64_MAX >> 12)) | UINT64_C(1) << 52;
    int shift = (int)(bits >> 52) - 1022;
    int64_t m = (int64_t)((fraction + (1 << 21)) >> 22);
    if (m == INT64_C(1) << 31) {
        m /= 2;
        shift++;
    }
    if (shift < -31) {
        m = 0;
        shift = 0;
    }
    if (shift > 30 && single) {
        m = INT32_MAX;
        shift = 30;
    }
    *to = (struct pq_fixed){(int32_t)m, shift};
    return shift <= 30;
}

/* XNNPACK's: the 24 bits of a float32, which is within [2^-32, 2^8). */
static bool fix_rndnu(struct pq_fixed *to, float real)
{
    const uint32_t bits = pq_bits_f32(real);
    *to =
        (struct pq_fixed){(int32_t)((bits & 0x7fffff) | 0x800000), 150 - (int)(bits >> 23)};
    return real >= 0x1p-32f && real < 0x1p8f;
}

/* FBGEMM's ChooseRequantizationMultiplier, of which the shift is from 1 to 62. */
static bool fix_fbgemm(struct pq_fixed *to, float real)
{
    int shift = 31;
    if (!(real >= 0x1p-32f && real < 0x1p30f)) {
        return false;
    }
    for (; real < 0.5F; real *= 2) {
        shift++;
    }
    for (; real > 1; real /= 2) {
        shift--;
    }
    if (real == 1) { /* 2^31 is no int32 */
        real /= 2;
        shift--;
    }
    *to = (struct pq_fixed){(int32_t)(real * 0x1p31F), shift};
    return true;
}

PQ_NOINLINE bool fix(struct pq_fixed *to, enum pq_arithmetic arithmetic, double real)
{
    if (!(real > 0 && real <= DBL_MAX)) {
        return false;
    }
    switch (arithmetic) {
    case PQ_ARITHMETIC_RNDNU:
        return fix_rndnu(to, (float)real);
    case PQ_ARITHMETIC_TFLITE:
        return fix_tflite(to, real, false);
    case PQ_ARITHMETIC_TFLITE_SINGLE:
        return fix_tflite(to, real, true);
    case PQ_ARITHMETIC_FBGEMM:
        return fix_fbgemm(to, (float)real);
    default:
        return false;
    }
}

enum pq_status pq_fixed_point(enum pq_arithmetic arithmetic, double multiplier,
                              int32_t *integer, int *shift)
{
    struct pq_fixed fixed = {0, 0};
    if (integer == NULL || shift == NULL) {
        return PQ_ERR_NULL;
    }
    const pq_fpenv found = pq_fpenv_enter();
    const bool fits = fix(&fixed, arithmetic, multiplier);
    pq_fpenv_leave(found);
    if (fits) {
        *integer = fixed.m;
        *shift = fixed.shift;
    }
    return fits ? PQ_OK : PQ_ERR_OPTION;
}

static struct pq_params channel_at(const struct pq_channels *of, ptrdiff_t channel)
{
    return (struct pq_params){(const char *)of->data + channel * of->stride, of->stride,
                              of->type, of->swapped};
}

int64_t pq_integer_at(const struct pq_channels *of, ptrdiff_t channel)
{
    const struct pq_params at = channel_at(of, channel);
    return pq_load_integer(&at);
}

bool pq_load_multiplier(struct pq_multiplier *to, const struct pq_requantization *args,
                        ptrdiff_t channel)
{
    double real;
    if (args->shift.data != NULL) {
        const int64_t m = pq_integer_at(&args->multiplier, channel);
        const int64_t shift = pq_integer_at(&args->shift, channel);
        const bool left = pq_is_tflite(args->arithmetic);
        if (m < 0 || m > MOST_MULTIPLIER || shift < (left ? -31 : 1) ||
            shift > (left ? 30 : MOST_SHIFT)) {
            return false;
        }
        to->fixed = (struct pq_fixed){(int32_t)m, (int)shift};
        return true;
    }
    const struct pq_params at = channel_at(&args->multiplier, channel);
    pq_load_scales_f64(&real, &at, 1, 0);
    if (pq_is_fixed(args->arithmetic)) {
        return fix(&to->fixed, args->arithmetic, real);
    }
    to->r = (float)real;
    return to->r > 0 && to->r <= FLT_MAX;
}

/* ---- an element ---- */

/* a * 2^32 + b, where b is within [0, 2^32). */
struct parts {
    int64_t a;
    int64_t b;
};

static struct parts parts_of(int64_t v)
{
    return (struct parts){v >> 32, v & UINT32_MAX};
}

int64_t pq_sum_of(int64_t v, int64_t zero, int64_t bias)
{
    const struct parts x = parts_of(v), y = parts_of(zero), z = parts_of(bias);
    const int64_t low = x.b - y.b + z.b, a = x.a - y.a + z.a + (low >> 32);
    return a > INT32_MAX   ? INT64_MAX
           : a < INT32_MIN ? INT64_MIN
                           : a * (INT64_C(1) << 32) + (low & UINT32_MAX);
}

/* (v * m + 2^(shift - 1)) >> shift, for shifts from 1 to 62; near an end of int64 where
 * that cannot hold it. */
static int64_t rounded_product(int64_t v, int32_t m, int shift)
{
    const struct parts x = parts_of(v);
    const int64_t low = x.b * m, high = x.a * m + (low >> 32);
    if (shift > 32) {
        return (high + (INT64_C(1) << (shift - 33))) >> (shift - 32);
    }
    const int64_t most = INT64_MAX >> (32 - shift);
    if (high > most - 2 || high < 2 - most) {
        return high < 0 ? -INT64_MAX : INT64_MAX;
    }
    const int64_t rest = (low & UINT32_MAX) + (INT64_C(1) << (shift - 1));
    return high * (INT64_C(1) << (32 - shift)) + (rest >> shift);
}

/* gemmlowp's RoundingDivideByPOT, half away from zero. */
static int64_t divided(int64_t v, int exponent)
{
    const int64_t mask = (INT64_C(1) << exponent) - 1;
    return (v >> exponent) + ((v & mask) > (mask >> 1) + (v < 0));
}

int64_t pq_fixed_product(int64_t v, enum pq_arithmetic arithmetic, struct pq_fixed by)
{
    if (!pq_is_tflite(arithmetic)) {
        return rounded_product(v, by.m, by.shift);
    }
    if (by.shift >= 0 || arithmetic == PQ_ARITHMETIC_TFLITE_SINGLE) {
        return rounded_product(v, by.m, 31 - by.shift);
    }
    return divided(rounded_product(v, by.m, 31), -by.shift);
}

int64_t pq_float_product(int64_t v, float r, int64_t lowest, int64_t highest)
{
    const float product = (float)v * r;
    const double p = (double)product, lo = (double)lowest, hi = (double)highest;
    const double above = p > lo ? p : lo, bounded = above < hi ? above : hi;
    return (int64_t)(bounded + 0x1.8p52 - 0x1.8p52);
}
