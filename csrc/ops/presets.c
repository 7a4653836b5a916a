/* SPDX-License-Identifier: Apache-2.0 */
/* presets: scales and zero points by the formulas of other packages. preset_pair() applies
 * all rules of a preset to one range, and rounds after each operation. For many ranges of
 * float32 data, pq_preset_pairs() is 12 to 30 times as fast. It requires that no scale
 * needs a special rule. */
#include "ops/presets.h"

#include <float.h>

#include "kernels/kernels.h"
#include "ops/scales.h"

#define ROW(like, name, bits, forms, codes, span, numbers, kept, before, from, tie,        \
            middle, small)                                                                 \
    [PQ_LIKE_##like] = {name,                                                              \
                        #forms " " #codes " " #span " " #numbers " " #kept " " #before     \
                               " " #from " " #tie " " #middle " " #small,                  \
                        bits,                                                              \
                        PQ_FORMS_##forms,                                                  \
                        PQ_CODES_##codes,                                                  \
                        PQ_SPAN_##span,                                                    \
                        PQ_NUMBERS_##numbers,                                              \
                        PQ_NUMBERS_##kept,                                                 \
                        PQ_BEFORE_##before,                                                \
                        PQ_FROM_##from,                                                    \
                        PQ_TIE_##tie,                                                      \
                        PQ_MIDDLE_##middle,                                                \
                        PQ_SMALL_##small},
static const struct pq_preset presets[PQ_LIKE_COUNT] = {PQ_FOR_PRESET(ROW)};
#undef ROW

const struct pq_preset *pq_preset_of(enum pq_like like)
{
    const bool known = (unsigned)like < PQ_LIKE_COUNT && presets[like].name != NULL;
    return known ? presets + like : NULL;
}

bool pq_preset_has_code(const struct pq_preset *preset, enum pq_type code)
{
    const bool is_signed =
        preset->forms == PQ_FORMS_SIGNED || preset->forms == PQ_FORMS_SIGNED_SYMMETRIC;
    return pq_is_integer(code) && pq_bits_of(code) <= preset->most_bits &&
           (!is_signed || pq_range_of(code).lo < 0);
}

bool pq_preset_has_rule(const struct pq_preset *preset, enum pq_rule rule)
{
    switch (rule) {
    case PQ_RULE_SYMMETRIC:
        return preset->forms != PQ_FORMS_ASYMMETRIC;
    case PQ_RULE_ASYMMETRIC:
        return preset->forms != PQ_FORMS_SIGNED_SYMMETRIC;
    default:
        return false;
    }
}

enum pq_rule pq_usual_rule(enum pq_like like, enum pq_type code)
{
    const struct pq_preset *const preset = pq_preset_of(like);
    const bool is_signed = !pq_is_integer(code) || pq_range_of(code).lo < 0;
    const bool symmetric = preset == NULL || pq_preset_has_rule(preset, PQ_RULE_SYMMETRIC);
    return is_signed && symmetric ? PQ_RULE_SYMMETRIC : PQ_RULE_ASYMMETRIC;
}

struct pq_wanted pq_wanted_of(const struct pq_choice *choice)
{
    const struct pq_preset *const preset = pq_preset_of(choice->like);
    const struct pq_range all = pq_range_of(choice->code);
    const struct pq_range codes = pq_code_range(choice);
    const bool given = pq_is_range_given(choice);
    const bool symmetric = choice->rule == PQ_RULE_SYMMETRIC;
    const bool has_bytes = pq_carrier_of(choice->code) == choice->code;
    const bool narrow =
        !given && symmetric && has_bytes && all.lo < 0 && preset->codes == PQ_CODES_NARROW;
    return (struct pq_wanted){.preset = preset,
                              .real = choice->real,
                              .scale = choice->scale,
                              .lowest = (double)(narrow ? -all.hi : codes.lo),
                              .highest = (double)codes.hi,
                              .symmetric = symmetric,
                              .unsigned_byte = choice->code == PQ_U8,
                              .is_signed = all.lo < 0,
                              .spans_type = has_bytes && !given};
}

/* Return the type that `numbers` selects for data of type `real`. */
static enum pq_type arithmetic_type(enum pq_numbers numbers, enum pq_type real)
{
    return numbers == PQ_NUMBERS_INPUT ? real : numbers == PQ_NUMBERS_F32 ? PQ_F32 : PQ_F64;
}

/* Round to float32, also if the result is subnormal, 0 or infinite. */
PQ_NOINLINE double round_to_f32_at_limits(double v)
{
    const volatile float single = (float)v;
    return (double)single;
}

/* Round to float32, half to even. The function changes bits, because GCC 12 removes
 * conversions to float and back if it computes two such conversions in a vector. */
static inline double round_to_f32(double v)
{
    const uint64_t bits = pq_bits_f64(v), exponent = bits >> 52 & 0x7ff;
    const uint64_t rounded = bits + 0x0fffffff + (bits >> 29 & 1);
    const bool inside = exponent >= 1023 - 126 && exponent < 1023 + 127;
    return inside || v == 0 ? pq_f64_bits(rounded & ~(uint64_t)0x1fffffff)
                            : round_to_f32_at_limits(v);
}

/* Round a result of float64 arithmetic to another type. If the operands are float32, the
 * rounded result equals the result of float32 arithmetic. For a type of 16 bits, round to
 * float32 first. */
PQ_NOINLINE double round_to(enum pq_type type, double v)
{
    switch (type) {
    case PQ_F64:
        return v;
    case PQ_F16:
        return (double)pq_f32_from_f16(pq_f16_from_f32((float)v));
    case PQ_BF16:
        return (double)pq_f32_from_bf16(pq_bf16_from_f32((float)v));
    default:
        return round_to_f32(v);
    }
}

/* Return the smallest normal number of a type. */
static double smallest_normal(enum pq_type type)
{
    return type == PQ_F64 ? DBL_MIN : type == PQ_F16 ? 0x1p-14 : (double)FLT_MIN;
}

/* A range and its scale. */
struct range {
    double lo, hi, scale;
    enum pq_type numbers, kept; /* types of the arithmetic, and of the scale */
    bool one;                   /* return the scale 1 and the zero point 0 */
};

/* Widen a range, in float32, so that the ends are -(n + 1) and n steps. n is half of
 * `highest - lowest`, rounded down, but at least 1. */
static void widen_to_sparse(const struct pq_wanted *wanted, struct range *of)
{
    const double half = floor((wanted->highest - wanted->lowest) / 2);
    const double most = half > 0 ? half : 1;
    const double down = fabs(round_to_f32(of->lo / -(most + 1)));
    const double up = fabs(round_to_f32(of->hi / most)), amax = down > up ? down : up;
    of->lo = round_to_f32(amax * -(most + 1));
    of->hi = round_to_f32(amax * most);
}

/* The formulas of scales and zero points for ranges from `lo` to `hi` that include 0. For
 * PQ_FROM_SIGN, `scale` contains the reciprocals of the scales. Zero points are rounded,
 * and stored in `codes`, or in `zero` if `codes` is null. If the types `in` and `number`
 * differ, R rounds the result of an operation to `in`. Adding and subtracting MAGIC rounds
 * to an integer. Compilers vectorize the loops of float32 and float64. */
#define FORMULAS(name, number, end, MAGIC, R)                                              \
    static void scales_##name(const struct pq_wanted *wanted, enum pq_type in, size_t n,   \
                              const end *lo, const end *hi, number *PQ_RESTRICT scale)     \
    {                                                                                      \
        const number lowest = (number)wanted->lowest, highest = (number)wanted->highest;   \
        const number levels = highest - lowest, half = levels / 2;                         \
        (void)in;                                                                          \
        if (wanted->preset->from == PQ_FROM_SIGN) { /* store reciprocals of scales */      \
            for (size_t i = 0; i < n; i++) {                                               \
                const number width = R((number)hi[i] - (number)lo[i]);                     \
                scale[i] = width > 0 ? R(levels / width) : 1;                              \
            }                                                                              \
        } else if (!wanted->symmetric || wanted->preset->span == PQ_SPAN_SPARSE) {         \
            for (size_t i = 0; i < n; i++) {                                               \
                scale[i] = R(R((number)hi[i] - (number)lo[i]) / levels);                   \
            }                                                                              \
        } else if (wanted->preset->span == PQ_SPAN_ENDS) {                                 \
            for (size_t i = 0; i < n; i++) {                                               \
                const number down = R((number)lo[i] / lowest);                             \
                const number up = R((number)hi[i] / highest);                              \
                scale[i] = down > up ? down : up;                                          \
            }                                                                              \
        } else {                                                                           \
            for (size_t i = 0; i < n; i++) {                                               \
                const number down = -(number)lo[i], up = (number)hi[i];                    \
                scale[i] = R((down > up ? down : up) / half);                              \
            }                                                                              \
        }                                                                                  \
    }                                                                                      \
                                                                                           \
    static void zeros_##name(const struct pq_wanted *wanted, enum pq_type in, size_t n,    \
                             const end *lo, const end *hi, const number *scale,            \
                             number *PQ_RESTRICT zero, uint32_t *PQ_RESTRICT codes)        \
    {                                                                                      \
        const number lowest = (number)wanted->lowest, highest = (number)wanted->highest;   \
        (void)in;                                                                          \
        if (wanted->preset->from == PQ_FROM_SIGN) { /* use lo if sum > 0, else hi */       \
            for (size_t i = 0; i < n; i++) {                                               \
                const number down = R((number)lo[i] * scale[i]);                           \
                const number up = R((number)hi[i] * scale[i]);                             \
                const number sum = R(R(lowest + down) + R(highest + up));                  \
                zero[i] = sum > 0 ? R(lowest - down) : R(highest - up);                    \
            }                                                                              \
        } else if (wanted->preset->from == PQ_FROM_LOW) {                                  \
            for (size_t i = 0; i < n; i++) {                                               \
                zero[i] = R(lowest - R((number)lo[i] / scale[i]));                         \
            }                                                                              \
        } else if (wanted->preset->from == PQ_FROM_STEPS) {                                \
            for (size_t i = 0; i < n; i++) {                                               \
                zero[i] = R(lowest - (R((number)lo[i] / scale[i]) + MAGIC - MAGIC));       \
            }                                                                              \
        } else { /* use lo or hi, with the smaller sum or difference */                    \
            const number sign = wanted->preset->from == PQ_FROM_SUM ? 1 : -1;              \
            const number least = lowest < 0 ? -lowest : lowest;                            \
            const number most = highest < 0 ? -highest : highest;                          \
            for (size_t i = 0; i < n; i++) {                                               \
                const number down = R((number)lo[i] / scale[i]);                           \
                const number up = R((number)hi[i] / scale[i]);                             \
                zero[i] =                                                                  \
                    least - sign * down < most + sign * up ? lowest - down : highest - up; \
            }                                                                              \
        }                                                                                  \
        const number away = wanted->preset->tie == PQ_TIE_AWAY ? 2 : 0;                    \
        for (size_t i = 0; i < n; i++) { /* clamp and round zero points */                 \
            const number up = zero[i] > lowest ? zero[i] : lowest;                         \
            const number code = up < highest ? up : highest;                               \
            const number even = code + MAGIC - MAGIC, rest = code - even;                  \
            const bool tie =                                                               \
                (rest == (number)0.5 && code > 0) || (rest == -(number)0.5 && code < 0);   \
            const number rounded = even + (tie ? away * rest : 0);                         \
            if (codes != NULL) {                                                           \
                codes[i] = (uint32_t)(int32_t)rounded;                                     \
            } else {                                                                       \
                zero[i] = rounded;                                                         \
            }                                                                              \
        }                                                                                  \
    }

#define EXACT(v) (v)
#define ROUNDED(v) round_to(in, v)
FORMULAS(f32, float, float, 0x1.8p23f, EXACT)
FORMULAS(f64, double, float, 0x1.8p52, EXACT)
FORMULAS(any, double, double, 0x1.8p52, ROUNDED)
#undef FORMULAS
#undef EXACT
#undef ROUNDED

/* Return the scale of a range. Symmetric formulas can also widen the range. */
PQ_NOINLINE double scale_of(const struct pq_wanted *wanted, struct range *of)
{
    const struct pq_preset *const preset = wanted->preset;
    const double levels = wanted->highest - wanted->lowest;
    double scale;
    if (wanted->symmetric && preset->span == PQ_SPAN_SPARSE && of->lo < 0 && of->hi > 0) {
        widen_to_sparse(wanted, of);
    }
    const double width = of->hi - of->lo;
    if (!wanted->symmetric && preset->span == PQ_SPAN_POWER) { /* a float64 division */
        return round_to(of->kept, width) / levels;
    }
    if (of->numbers == PQ_F64 && !(width < HUGE_VAL) && preset->from != PQ_FROM_SIGN &&
        (!wanted->symmetric || preset->span == PQ_SPAN_SPARSE)) {
        return (of->hi / 2 - of->lo / 2) / (levels / 2);
    }
    scales_any(wanted, of->numbers, 1, &of->lo, &of->hi, &scale);
    if (wanted->symmetric &&
        (preset->span == PQ_SPAN_HALF || preset->span == PQ_SPAN_POWER)) {
        of->hi = of->hi > -of->lo ? of->hi : -of->lo;
        of->lo = -of->hi;
    }
    return preset->from == PQ_FROM_SIGN ? round_to(of->numbers, 1 / scale) : scale;
}

/* Return 2^-rint(-log2 s) for a float32 or a normal float64 number. The constant is the
 * first float64 above sqrt(1/2), because sqrt(1/2) is the geometric mean of 1/2 and 1. */
static double nearest_power_of_two(double scale)
{
    if (!(scale < HUGE_VAL)) {
        return scale; /* infinity and NaN have no exponent */
    }
    int exponent;
    const double significand = frexp(scale, &exponent);
    return ldexp(significand >= 0x1.6a09e667f3bcdp-1 ? 1 : 0.5, exponent);
}

#define TENTH_LEAST ((double)6.1e-5f)

/* If the reciprocal of a scale is infinite, replace the scale by 0.1. If a scale is below
 * TENTH_LEAST, raise the scale to TENTH_LEAST and widen the range of the data. */
static void widen_small_range(const struct pq_wanted *wanted, struct range *of)
{
    const double levels = wanted->highest - wanted->lowest;
    const double single = round_to_f32(of->scale);
    if (single == 0 || 1 / single > (double)FLT_MAX) {
        of->scale = wanted->preset->kept == PQ_NUMBERS_F32 ? (double)0.1f : 0.1;
    }
    if (of->scale >= TENTH_LEAST) {
        return;
    }
    const double factor = round_to_f32(TENTH_LEAST / round_to_f32(of->scale));
    of->scale = TENTH_LEAST;
    if (of->lo == 0) {
        of->hi = round_to_f32(TENTH_LEAST * levels);
    } else if (of->hi == 0) {
        of->lo = round_to_f32(-TENTH_LEAST * levels);
    } else {
        of->lo = round_to_f32(of->lo * factor);
        of->hi = round_to_f32(of->hi * factor);
    }
}

/* Apply the rule of the preset for small scales. */
PQ_NOINLINE void apply_small_rule(const struct pq_wanted *wanted, struct range *of)
{
    const double scale = of->scale;
    double least = 0;
    switch (wanted->preset->small) {
    case PQ_SMALL_ONE_BELOW_TINY:
        of->one = wanted->real == PQ_F16 && wanted->preset->span != PQ_SPAN_POWER
                      ? round_to(PQ_F16, scale) == 0
                      : scale < smallest_normal(wanted->real);
        break;
    case PQ_SMALL_EPSILON:
        least = (double)FLT_EPSILON;
        break;
    case PQ_SMALL_NORMAL:
        least = smallest_normal(wanted->real);
        break;
    case PQ_SMALL_TENTH:
        widen_small_range(wanted, of);
        return;
    case PQ_SMALL_ONE_FOR_ZERO:
        of->one = of->lo == 0 && of->hi == 0 && wanted->preset->from != PQ_FROM_SIGN;
        break;
    default:
        break;
    }
    of->scale = of->one ? 1 : scale > least ? scale : least;
}

/* Return the zero point of symmetric parameters. */
static double middle_of(const struct pq_wanted *wanted)
{
    const double sum = wanted->lowest + wanted->highest;
    switch (wanted->preset->middle) {
    case PQ_MIDDLE_NONE:
        return 0;
    case PQ_MIDDLE_FLOOR:
        return wanted->is_signed ? 0 : wanted->spans_type ? (sum + 1) / 2 : floor(sum / 2);
    case PQ_MIDDLE_UP:
        return trunc((sum + 1) / 2);
    default:
        return pq_nearest_f64(sum / 2);
    }
}

/* Return the zero point of asymmetric parameters. */
PQ_NOINLINE double zero_point_of(const struct pq_wanted *wanted, const struct range *of,
                                 double scale)
{
    double zero;
    if (wanted->preset->from == PQ_FROM_SIGN) {
        scales_any(wanted, of->numbers, 1, &of->lo, &of->hi, &scale);
    }
    zeros_any(wanted, of->numbers, 1, &of->lo, &of->hi, &scale, &zero, NULL);
    return zero;
}

/* Return true if the zero point of the preset is the result of middle_of(). */
static bool has_middle(const struct pq_wanted *wanted, bool both_signs)
{
    return wanted->symmetric && wanted->preset->middle != PQ_MIDDLE_LOW &&
           (wanted->preset->span != PQ_SPAN_SPARSE || both_signs);
}

/* Round a scale to the type of scales, but neither to 0 nor to infinity. */
static double stored_scale(const struct pq_wanted *wanted, double scale)
{
    return pq_stored_scale(wanted->scale, wanted->real, scale);
}

/* Apply the formula of a preset, in float64 if `is_f64`. The results may be infinite or
 * NaN.
 */
PQ_NOINLINE struct pq_pair preset_pair(const struct pq_wanted *wanted, double lo, double hi,
                                       bool is_f64)
{
    const struct pq_preset *const preset = wanted->preset;
    const enum pq_type numbers =
        is_f64 ? PQ_F64 : arithmetic_type(preset->numbers, wanted->real);
    const enum pq_type kept = is_f64 ? PQ_F64 : arithmetic_type(preset->kept, wanted->real);
    /* ATen and FBGEMM, the packages with PQ_SMALL_TENTH, round the ends of a range to
     * float32, and then compute in float64. */
    const enum pq_type ends = preset->small == PQ_SMALL_TENTH && !is_f64 ? PQ_F32 : numbers;
    struct range of = {round_to(ends, lo), round_to(ends, hi), 0, numbers, kept, false};
    if (preset->span == PQ_SPAN_POWER) {
        of.lo = pq_clamp(of.lo, -(double)FLT_MAX / 2, 0);
        of.hi = pq_clamp(of.hi, 0, (double)FLT_MAX / 2);
    }
    of.scale = scale_of(wanted, &of);
    if (preset->before == PQ_BEFORE_STORED) {
        of.scale = round_to(kept, of.scale);
    }
    apply_small_rule(wanted, &of);
    const double exact = of.scale;
    of.scale = round_to(kept, exact);
    if (preset->span == PQ_SPAN_POWER) {
        of.scale = nearest_power_of_two(of.scale);
    }
    double zero;
    if (of.one ||
        (preset->small == PQ_SMALL_EPSILON_FOR_ZERO && exact == 0 && of.lo == 0)) {
        zero = 0; /* 0 / 0 in the formula would be NaN */
    } else if (has_middle(wanted, of.lo < 0 && of.hi > 0)) {
        zero = middle_of(wanted);
    } else if (preset->before == PQ_BEFORE_STORED) {
        zero = zero_point_of(wanted, &of, stored_scale(wanted, exact));
    } else {
        zero = zero_point_of(wanted, &of, exact);
    }
    if (wanted->symmetric && preset->middle == PQ_MIDDLE_LOW && wanted->unsigned_byte &&
        zero == 127) {
        zero = 128; /* the package replaces 127 by 128 for its hardware */
    }
    return (struct pq_pair){of.scale, pq_clamp(zero, wanted->lowest, wanted->highest)};
}

struct pq_pair pq_preset_pair(const struct pq_wanted *wanted, double lo, double hi)
{
    const struct pq_preset *const preset = wanted->preset;
    const enum pq_type type = wanted->scale;
    struct pq_pair pair = {0};
    /* Compute in float32. If the scale is infinite, NaN or 0, compute in float64. */
    for (int is_f64 = 0; is_f64 <= 1; is_f64++) {
        pair = preset_pair(wanted, lo, hi, is_f64);
        const bool lost = pair.scale == 0 && preset->from == PQ_FROM_SIGN;
        if (!lost && pair.scale < HUGE_VAL) {
            break;
        }
    }
    if (preset->small == PQ_SMALL_EPSILON_FOR_ZERO &&
        pq_scale_of_bits(type, pq_scale_bits(type, pair.scale)) == 0) {
        const bool same = type == PQ_F32 && wanted->real != PQ_F64;
        pair.scale = pq_next_scale(same ? wanted->real : type, 1, 1) - 1;
    }
    pair.scale = stored_scale(wanted, pair.scale);
    return pair;
}

/* ---- many ranges of float32 data, float32 scales ---- */

/* Ranges that include 0, and the scales and zero points of the ranges, in float32 or
 * float64. */
struct ranges {
    float lo[PQ_CHOSEN], hi[PQ_CHOSEN];
    union {
        float f32[PQ_CHOSEN];
        double f64[PQ_CHOSEN];
    } scale, zero;
};

/* Return true if no scale is close enough to a limit for a special rule to apply. */
static bool no_rule_applies(const struct pq_wanted *wanted, size_t n, const float *scale)
{
    const enum pq_small rule = wanted->preset->small;
    const float least = rule == PQ_SMALL_TENTH     ? (float)TENTH_LEAST
                        : rule == PQ_SMALL_EPSILON ? FLT_EPSILON
                                                   : 0x1p-80f;
    const float most = 0x1p80f;
    uint32_t others = 0;
    for (size_t i = 0; i < n; i++) {
        others |= pq_bits_f32(scale[i] - least) | pq_bits_f32(most - scale[i]);
    }
    return others >> 31 == 0;
}

/* Load ranges. Repeat the last range up to a multiple of 8 ranges, so that loops need no
 * code for remaining ranges. */
static void load_ranges(size_t n, const float *los, const float *his, struct ranges *of)
{
    for (size_t i = 0; i < n; i++) {
        of->lo[i] = los[i] < 0 ? los[i] : 0;
        of->hi[i] = his[i] > 0 ? his[i] : 0;
    }
    for (size_t i = n; i % 8 != 0; i++) {
        of->lo[i] = of->lo[n - 1];
        of->hi[i] = of->hi[n - 1];
    }
}

/* Compute the float32 scales of the result, and the scales from which the formulas
 * compute zero points. */
static void make_scales(const struct pq_wanted *wanted, size_t n, struct ranges *of,
                        float *PQ_RESTRICT scale)
{
    if (wanted->preset->numbers != PQ_NUMBERS_F64) {
        scales_f32(wanted, PQ_F32, n, of->lo, of->hi, of->scale.f32);
        memcpy(scale, of->scale.f32, n * sizeof *scale);
        for (size_t i = 0; wanted->preset->from == PQ_FROM_SIGN && i < n; i++) {
            scale[i] = 1 / of->scale.f32[i];
        }
        return;
    }
    scales_f64(wanted, PQ_F64, n, of->lo, of->hi, of->scale.f64);
    for (size_t i = 0; i < n; i++) {
        scale[i] = (float)of->scale.f64[i];
    }
    if (wanted->preset->before == PQ_BEFORE_STORED) {
        for (size_t i = 0; i < n; i++) {
            of->scale.f64[i] = (double)scale[i];
        }
    }
}

bool pq_preset_pairs(const struct pq_wanted *wanted, size_t n, const float *los,
                     const float *his, float *scale, uint32_t *zero)
{
    const struct pq_preset *const preset = wanted->preset;
    struct ranges of;
    if (preset->span == PQ_SPAN_POWER ||
        (preset->span == PQ_SPAN_SPARSE && wanted->symmetric)) {
        return false;
    }
    load_ranges(n, los, his, &of);
    n = (n + 7) / 8 * 8;
    make_scales(wanted, n, &of, scale);
    if (!no_rule_applies(wanted, n, scale)) {
        return false;
    }
    if (wanted->symmetric) {
        const double middle = pq_clamp(middle_of(wanted), wanted->lowest, wanted->highest);
        for (size_t i = 0; i < n; i++) {
            zero[i] = (uint32_t)(int32_t)middle;
        }
        return true;
    }
    if (preset->numbers == PQ_NUMBERS_F64) {
        zeros_f64(wanted, PQ_F64, n, of.lo, of.hi, of.scale.f64, of.zero.f64, zero);
    } else {
        zeros_f32(wanted, PQ_F32, n, of.lo, of.hi, of.scale.f32, of.zero.f32, zero);
    }
    return true;
}
