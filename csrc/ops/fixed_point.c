/* SPDX-License-Identifier: Apache-2.0 */
/* The multipliers of requantize, and products with multipliers. Functions for a single
 * element define how each arithmetic rounds. If int64 cannot represent a product, the
 * product and the code saturate. */
#include <float.h>
#include <string.h>

#include "engine/params.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"
#include "ops/requantize.h"

/* With a larger shift, v * m + 2^(shift - 1) can exceed int64 for an int32 v. */
enum { LARGEST_SHIFT = 62 };

/* Return true for both arithmetics of TFLite. TFLite multiplies by m * 2^-31 and shifts to
 * the left. XNNPACK and FBGEMM multiply by m and shift to the right. */
static bool is_tflite(enum pq_arithmetic arithmetic)
{
    return arithmetic == PQ_ARITHMETIC_TFLITE || arithmetic == PQ_ARITHMETIC_TFLITE_SINGLE;
}

/* Convert a right shift to the shift that the package of the arithmetic stores, or a stored
 * shift to a right shift. One formula computes both. */
static int published_shift(enum pq_arithmetic arithmetic, int shift)
{
    return is_tflite(arithmetic) ? 31 - shift : shift;
}

/* ---- multipliers ---- */

/* Compute TFLite's QuantizeMultiplier, which rounds to 31 bits, half away from zero. A
 * multiplier below 2^-32 becomes 0. A multiplier of at least 2^30 becomes the largest
 * multiplier if `single` is set. Otherwise this multiplier is an error, and the function
 * returns false. */
static bool fix_tflite(struct pq_multiplier *to, double real, bool single)
{
    const uint64_t bits = pq_bits_f64(real);
    const uint64_t fraction = (bits & (UINT64_MAX >> 12)) | UINT64_C(1) << 52;
    int exponent = (int)(bits >> 52) - 1022;
    int64_t m = (int64_t)((fraction + (1 << 21)) >> 22);
    if (m == INT64_C(1) << 31) {
        m /= 2;
        exponent++;
    }
    if (exponent < -31) {
        m = 0;
        exponent = 0;
    }
    if (exponent > 30 && single) {
        m = INT32_MAX;
        exponent = 30;
    }
    to->m = (int32_t)m;
    to->shift = 31 - exponent;
    return exponent <= 30;
}

/* Convert a multiplier as XNNPACK does, to a 24-bit float32 significand and a right shift.
 * Return false, which is an error of the call, unless the multiplier is in [2^-32, 2^8). */
static bool fix_rndnu(struct pq_multiplier *to, float real)
{
    const uint32_t bits = pq_bits_f32(real);
    to->m = (int32_t)((bits & 0x7fffff) | 0x800000);
    to->shift = 150 - (int)(bits >> 23);
    return real >= 0x1p-32f && real < 0x1p8f;
}

/* Compute FBGEMM's ChooseRequantizationMultiplier: a 24-bit float32 significand times 2^7,
 * and a right shift from 1 to 62. */
static bool fix_fbgemm(struct pq_multiplier *to, float real)
{
    fix_rndnu(to, real);
    to->m <<= 7;
    to->shift += 7;
    return real >= 0x1p-32f && real < 0x1p30f;
}

PQ_NOINLINE bool convert_to_fixed_point(struct pq_multiplier *to,
                                        enum pq_arithmetic arithmetic, double real)
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
    struct pq_multiplier fixed = {0, 0, 0};
    if (integer == NULL || shift == NULL) {
        return PQ_ERR_NULL;
    }
    const pq_fpenv found = pq_fpenv_enter();
    const bool fits = convert_to_fixed_point(&fixed, arithmetic, multiplier);
    pq_fpenv_leave(found);
    if (fits) {
        *integer = fixed.m;
        *shift = published_shift(arithmetic, fixed.shift);
    }
    return fits ? PQ_OK : PQ_ERR_OPTION;
}

/* ---- channels ---- */

/* Return a sequence of numbers in an array: the numbers of channels first, first + step,
 * first + 2 * step, ... */
static struct pq_params channels_from(const struct pq_channels *of, ptrdiff_t first,
                                      ptrdiff_t step)
{
    return (struct pq_params){(const char *)of->data + first * of->stride,
                              step * of->stride, of->type, of->swapped};
}

void pq_load_channels(int64_t *to, const struct pq_channels *of, ptrdiff_t first,
                      ptrdiff_t step, size_t n)
{
    if (of->data == NULL) {
        memset(to, 0, n * sizeof *to);
    } else {
        const struct pq_params from = channels_from(of, first, step);
        pq_load_zeros_u64((uint64_t *)to, &from, n);
    }
}

/* Convert a stored multiplier and its shift. Return false if the multiplier or the shift is
 * out of range. */
static bool convert_stored(struct pq_multiplier *to, enum pq_arithmetic arithmetic,
                           int64_t m, int64_t shift)
{
    const bool left = is_tflite(arithmetic);
    const bool fits = m >= 0 && m <= INT32_MAX && shift >= (left ? -31 : 1) &&
                      shift <= (left ? 30 : LARGEST_SHIFT);
    to->m = fits ? (int32_t)m : 0;
    to->shift = fits ? published_shift(arithmetic, (int)shift) : 0;
    return fits;
}

bool pq_load_multipliers(struct pq_multiplier *to, const struct pq_requantization *args,
                         ptrdiff_t first, ptrdiff_t step, size_t n)
{
    const bool stored = args->shift.data != NULL;
    double real[PQ_CHANNELS];
    int64_t m[PQ_CHANNELS], shift[PQ_CHANNELS];
    bool fit = true;
    if (stored) {
        pq_load_channels(m, &args->multiplier, first, step, n);
        pq_load_channels(shift, &args->shift, first, step, n);
    } else {
        const struct pq_params from = channels_from(&args->multiplier, first, step);
        pq_load_scales_f64(real, &from, n, 0);
    }
    for (size_t i = 0; i < n; i++) {
        to[i] = (struct pq_multiplier){0, 0, 0};
        if (stored) {
            fit = convert_stored(&to[i], args->arithmetic, m[i], shift[i]) && fit;
        } else if (pq_is_fixed(args->arithmetic)) {
            fit = convert_to_fixed_point(&to[i], args->arithmetic, real[i]) && fit;
        } else {
            to[i].r = (float)real[i];
            fit = to[i].r > 0 && to[i].r <= FLT_MAX && fit;
        }
    }
    return fit;
}

/* ---- products ---- */

/* Return (v * m + 2^(shift - 1)) >> shift, for shifts from 1 to 64. If int64 cannot
 * represent the result, return a number near the limit of int64. */
static int64_t shifted_product(int64_t v, int32_t m, int shift)
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

/* Compute gemmlowp's RoundingDivideByPOT: half away from zero. */
static int64_t divide_by_power_of_two(int64_t v, int exponent)
{
    const int64_t mask = (INT64_C(1) << exponent) - 1;
    return (v >> exponent) + ((v & mask) > (mask >> 1) + (v < 0));
}

int64_t pq_rounded_product(int64_t v, enum pq_arithmetic arithmetic,
                           const struct pq_multiplier *by, int64_t lowest, int64_t highest)
{
    if (!pq_is_fixed(arithmetic)) {
        const float product = (float)v * by->r;
        const double p = (double)product, lo = (double)lowest, hi = (double)highest;
        const double above = p > lo ? p : lo, bounded = above < hi ? above : hi;
        return (int64_t)pq_nearest_f64(bounded);
    }
    if (arithmetic == PQ_ARITHMETIC_TFLITE && by->shift > 31) {
        return divide_by_power_of_two(shifted_product(v, by->m, 31), by->shift - 31);
    }
    return shifted_product(v, by->m, by->shift);
}
