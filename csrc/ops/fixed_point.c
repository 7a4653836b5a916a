/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What requantize multiplies by, and its products: everything that rounds is defined here,
 * an element at a time and exactly, in integers without limits as far as results can tell.
 */
#include <float.h>
#include <string.h>

#include "engine/params.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"
#include "ops/requantize.h"

enum {
    CHANNELS = 64,  /* that are loaded at a time */
    MOST_SHIFT = 62 /* as (v * m + 2^(shift - 1)) >> shift is within 64 bits */
};

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

/* FBGEMM's ChooseRequantizationMultiplier: the same 24 bits, and shifts from 1 to 62. */
static bool fix_fbgemm(struct pq_fixed *to, float real)
{
    const uint32_t bits = pq_bits_f32(real);
    const int32_t m = (int32_t)((bits & 0x7fffff) | 0x800000) << 7;
    *to = (struct pq_fixed){m, 157 - (int)(bits >> 23)};
    return real >= 0x1p-32f && real < 0x1p30f;
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

/* Those of channels `step` apart. */
static struct pq_params channels_from(const struct pq_channels *of, ptrdiff_t first,
                                      ptrdiff_t step)
{
    return (struct pq_params){(const char *)of->data + first * of->stride,
                              step * of->stride, of->type, of->swapped};
}

static int64_t integer_at(const struct pq_channels *of, ptrdiff_t channel)
{
    const struct pq_params at = channels_from(of, channel, 0);
    return pq_load_integer(&at);
}

/* As they are stored, integers with their shifts. */
static bool load_stored(struct pq_fixed *to, const struct pq_requantization *args,
                        ptrdiff_t channel)
{
    const int64_t m = integer_at(&args->multiplier, channel);
    const int64_t shift = integer_at(&args->shift, channel);
    const bool left = pq_is_tflite(args->arithmetic);
    const bool fits = m >= 0 && m <= MOST_MULTIPLIER && shift >= (left ? -31 : 1) &&
                      shift <= (left ? 30 : MOST_SHIFT);
    *to = fits ? (struct pq_fixed){(int32_t)m, (int)shift} : (struct pq_fixed){0, 0};
    return fits;
}

/* At most CHANNELS. */
static bool load_some(float *r, struct pq_fixed *fixed,
                      const struct pq_requantization *args, ptrdiff_t first, ptrdiff_t step,
                      size_t n)
{
    double real[CHANNELS];
    bool fit = true;
    if (args->shift.data != NULL) {
        for (size_t i = 0; i < n; i++) {
            r[i] = 0;
            fit = load_stored(&fixed[i], args, first + (ptrdiff_t)i * step) && fit;
        }
        return fit;
    }
    const struct pq_params from = channels_from(&args->multiplier, first, step);
    pq_load_scales_f64(real, &from, n, 0);
    for (size_t i = 0; i < n; i++) {
        fixed[i] = (struct pq_fixed){0, 0};
        r[i] = (float)real[i];
        fit = (pq_is_fixed(args->arithmetic) ? fix(&fixed[i], args->arithmetic, real[i])
                                             : r[i] > 0 && r[i] <= FLT_MAX) &&
              fit;
    }
    return fit;
}

bool pq_load_multipliers(float *r, struct pq_fixed *fixed,
                         const struct pq_requantization *args, ptrdiff_t first,
                         ptrdiff_t step, size_t n)
{
    bool fit = true;
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < CHANNELS ? n - done : CHANNELS;
        fit = load_some(r + done, fixed + done, args, first + (ptrdiff_t)done * step, step,
                        m) &&
              fit;
    }
    return fit;
}

bool pq_have_multipliers(const struct pq_requantization *args, size_t channels)
{
    float r[CHANNELS];
    struct pq_fixed fixed[CHANNELS];
    bool have = true;
    for (size_t done = 0, m; done < channels && have; done += m) {
        m = channels - done < CHANNELS ? channels - done : CHANNELS;
        have = load_some(r, fixed, args, (ptrdiff_t)done, 1, m);
    }
    return have;
}

void pq_load_biases(int64_t *to, const struct pq_channels *from, ptrdiff_t first,
                    ptrdiff_t step, size_t n)
{
    if (from->data == NULL) {
        memset(to, 0, n * sizeof *to);
    } else if (pq_bytes_of(from->type) == sizeof(int64_t)) {
        for (size_t i = 0; i < n; i++) {
            to[i] = integer_at(from, first + (ptrdiff_t)i * step);
        }
    } else { /* all of which float64 holds */
        double some[CHANNELS];
        for (size_t done = 0, m; done < n; done += m) {
            const struct pq_params at =
                channels_from(from, first + (ptrdiff_t)done * step, step);
            m = n - done < CHANNELS ? n - done : CHANNELS;
            pq_load_zeros_f64(some, &at, m);
            for (size_t i = 0; i < m; i++) {
                to[done + i] = (int64_t)some[i];
            }
        }
    }
}

/* ---- an element ---- */

/* (v * m + 2^(shift - 1)) >> shift, for shifts from 1 to 62; near an end of int64 where
 * that cannot hold it. */
static int64_t rounded_product(int64_t v, int32_t m, int shift)
{
    const struct pq_parts x = pq_parts_of(v);
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
