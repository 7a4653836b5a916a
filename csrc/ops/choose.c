/* SPDX-License-Identifier: Apache-2.0 */
/* From extrema to scales and zero points. */
#include <float.h>
#include <math.h>

#include "args.h"
#include "fpenv.h"
#include "narrow_float.h"
#include "scalar_math.h"
#include "types.h"

/* Half to even, of a number small enough for 1.5 * 2^52 to have an ulp of 1. */
static double nearest(double v)
{
    return v + 0x1.8p52 - 0x1.8p52;
}

/* NaN, from an infinite range, to the lowest: converting it would be undefined. */
static double clamp(double v, double lo, double hi)
{
    return v > lo ? (v < hi ? v : hi) : lo;
}

/* What codes there are, and what a scale has to do. */
struct target {
    enum pq_type real;      /* of the data */
    double lowest, highest; /* codes, or numbers of a narrow float */
    double margin;          /* half a step beyond them is within reach, too */
    bool integers;
    bool symmetric;
    double middle; /* the zero point of symmetric codes */
    double end;    /* what the type of the data cannot hold */
};

/* From here on a product is infinite when rounded to the type of the data, float16 and
 * bfloat16 by way of float32. */
static double end_of(enum pq_type real)
{
    switch (real) {
    case PQ_F64:
        return HUGE_VAL;
    case PQ_F16:
        return 65520 - 0x1p-9;
    case PQ_BF16:
        return 0x1.ffp127 - 0x1p103;
    default:
        return 0x1.ffffffp127;
    }
}

static struct target target_of(const struct pq_choice *choice)
{
    struct target to = {.real = choice->real,
                        .symmetric = choice->rule == PQ_RULE_SYMMETRIC,
                        .end = end_of(choice->real)};
    if (pq_is_narrow_float(choice->code)) {
        const struct pq_format format = pq_format_of(choice->code);
        int exponent;
        to.highest = (double)pq_f32_bits(format.highest);
        to.lowest = -to.highest;
        frexp(to.highest, &exponent); /* one more than that of its significand */
        to.margin = ldexp(0.5, exponent - 1 - format.mantissa);
    } else {
        const struct pq_range range = pq_range_of(choice->code);
        to.lowest = (double)range.lo;
        to.highest = (double)range.hi;
        to.margin = 0.5;
        to.integers = true;
        to.middle = range.lo < 0 ? 0 : (to.highest + 1) / 2;
    }
    return to;
}

/* Scale and zero point, both exact in float64. */
struct pair {
    double scale, zero;
};

static bool is_wide(const struct target *to)
{
    return to->real == PQ_F64;
}

/* A scale as it is stored, and never 0, which would lose everything. */
static double stored_scale(const struct target *to, double scale)
{
    if (is_wide(to)) {
        return scale > 0 ? scale : 0x1p-1074;
    }
    const float single = (float)scale;
    return single > 0 ? (double)single : 0x1p-149;
}

/* The scale so many places further up or down. */
static double next_scale(const struct target *to, double scale, int places)
{
    if (is_wide(to)) {
        return pq_f64_bits(pq_bits_f64(scale) + (uint64_t)(int64_t)places);
    }
    return (double)pq_f32_bits(pq_bits_f32((float)scale) + (uint32_t)places);
}

static double zero_of(const struct target *to, double scale, double lo)
{
    return to->symmetric ? to->middle
                         : nearest(clamp(to->lowest - lo / scale, to->lowest, to->highest));
}

/* Whether v lies at most `steps` scales from 0: the product is not rounded. */
static bool is_within(const struct target *to, double v, double steps, double scale)
{
    if (!is_wide(to) && to->highest <= UINT16_MAX) {
        return v <= steps * scale; /* of 24 and 18 bits */
    }
    /* Where fractions of steps are subnormal; those are quarters at least. */
    const double unit = v < 1 ? 4 : 1;
    return fma(steps * unit, scale, -v * unit) >= 0;
}

/* What quantizing and dequantizing make of one end of the data. */
static bool comes_back(const struct target *to, struct pair pair, double end)
{
    double steps = end / pair.scale;
    if (!is_wide(to)) {
        steps = (double)(float)steps; /* float32 operands: as good as their quotient */
    }
    if (to->integers) {
        const double code = clamp(nearest(steps) + pair.zero, to->lowest, to->highest);
        steps = code - pair.zero;
    } else { /* the larger end is the largest number, and nothing is larger */
        steps = to->highest;
    }
    return fabs((is_wide(to) ? steps : (double)(float)steps) * pair.scale) < to->end;
}

/* Whether data from lo to hi comes back finite and saturates by half a step at most. */
static bool suits(const struct target *to, struct pair pair, double lo, double hi)
{
    /* Half a step is less than what is stepped over. */
    const double safe = (is_wide(to) ? DBL_MAX : to->end) / 4;
    return is_within(to, hi, to->highest - pair.zero + to->margin, pair.scale) &&
           is_within(to, -lo, pair.zero - to->lowest + to->margin, pair.scale) &&
           ((hi < safe && -lo < safe) ||
            (comes_back(to, pair, lo) && comes_back(to, pair, hi)));
}

enum { PLACES = 64 }; /* more than any case has been seen to need */

/* The scale nearest to this one that suits, if one of its neighbours does. */
static bool find_near(const struct target *to, struct pair *pair, double scale, double lo,
                      double hi)
{
    for (int k = 0; k < PLACES; k++) {
        for (int way = 1; way >= (k > 0 ? -1 : 1); way -= 2) {
            const double found = next_scale(to, scale, way * k);
            if (found > 0 && found < HUGE_VAL) {
                *pair = (struct pair){found, zero_of(to, found, lo)};
                if (suits(to, *pair, lo, hi)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Types of which most data has a simple answer, see choose_usual. */
static bool is_usual(const struct target *to)
{
    return to->symmetric && to->middle == 0 && to->highest <= UINT16_MAX;
}

/*
 * The definition rounded, unless rounding down lets data saturate by more than half a step,
 * or what lies at the end of the range of its type comes back infinite. Then a neighbour;
 * or, where both ends are that far out, the next larger scale of which the larger magnitude
 * is a little less than a number of steps and a half: both are rounded towards 0.
 */
static struct pair choose(const struct target *to, double lo, double hi)
{
    lo = lo < 0 ? lo : 0; /* empty groups, too, have +inf and -inf here */
    hi = hi > 0 ? hi : 0;
    if (hi == HUGE_VAL || lo == -HUGE_VAL) { /* not of data that may be quantized */
        return (struct pair){HUGE_VAL, to->symmetric ? to->middle : to->lowest};
    }
    if (lo == 0 && hi == 0) {
        return (struct pair){1, zero_of(to, 1, 0)};
    }
    const double far = hi > -lo ? hi : -lo;
    const double levels = to->highest - to->lowest, width = hi - lo;
    double wanted;
    if (to->symmetric) {
        wanted = far / (to->middle > 0 ? levels / 2 : to->highest);
    } else {
        wanted = width - width == 0 ? width / levels : (hi / 2 - lo / 2) / (levels / 2);
    }
    const double scale = stored_scale(to, wanted);
    if (is_usual(to) && far > 0x1p-80 && far < to->end / 4 && far < 0x1p120) {
        return (struct pair){scale, 0};
    }
    struct pair pair;
    if (find_near(to, &pair, scale, lo, hi)) {
        return pair;
    }
    const double steps = floor(far / scale - 0.5) + 0.5;
    if (steps >= 1 && find_near(to, &pair, stored_scale(to, far / steps), lo, hi)) {
        return pair;
    }
    return (struct pair){scale, zero_of(to, scale, lo)};
}

/* Scale and zero point 0 of data like most, so many at a time: rounded by 2^-24, while
 * 2^-17 of the largest code is half a step, and far from all ends. */
enum { CHOSEN = 64 };

static bool choose_usual(const struct target *to, size_t n, const double *smallest,
                         const double *largest, double *PQ_RESTRICT scale)
{
    const double top = to->end / 4 < 0x1p120 ? to->end / 4 : 0x1p120;
    const double highest = to->highest;
    uint64_t others = 0;
    if (!is_usual(to)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const double lo = smallest[i] < 0 ? -smallest[i] : 0;
        const double hi = largest[i] > 0 ? largest[i] : 0;
        const double far = hi > lo ? hi : lo;
        others |= (far > 0x1p-80 ? UINT64_C(0) : UINT64_C(1)) |
                  (far < top ? UINT64_C(0) : UINT64_C(1));
        scale[i] = far / highest;
    }
    return others == 0;
}

static void narrow_scales(char *to, const double *scale, size_t n)
{
    float single[CHOSEN];
    for (size_t i = 0; i < n; i++) {
        single[i] = (float)scale[i];
    }
    memcpy(to, single, n * sizeof *single);
}

static void store_pair(struct pair pair, char *scale, size_t real_size, char *zero,
                       size_t code_size)
{
    const float single = (float)pair.scale;
    const int64_t integer = (int64_t)pair.zero;
    const int8_t z8 = (int8_t)integer;
    const int16_t z16 = (int16_t)integer;
    const int32_t z32 = (int32_t)(uint32_t)(uint64_t)integer;
    if (real_size == sizeof single) {
        memcpy(scale, &single, sizeof single);
    } else {
        memcpy(scale, &pair.scale, sizeof pair.scale);
    }
    if (code_size == 1) {
        memcpy(zero, &z8, sizeof z8);
    } else if (code_size == 2) {
        memcpy(zero, &z16, sizeof z16);
    } else {
        memcpy(zero, &z32, sizeof z32);
    }
}

/* What is left out as it is meant. */
static struct pq_choice settled(const struct pq_choice *given)
{
    struct pq_choice choice = *given;
    if (choice.real == PQ_NO_TYPE) {
        choice.real = PQ_F32;
    }
    if (choice.code == PQ_NO_TYPE) {
        choice.code = PQ_I8;
    }
    if (choice.rule == PQ_RULE_USUAL) {
        const bool is_signed =
            !pq_is_integer(choice.code) || pq_range_of(choice.code).lo < 0;
        choice.rule = is_signed ? PQ_RULE_SYMMETRIC : PQ_RULE_ASYMMETRIC;
    }
    return choice;
}

enum pq_status pq_choose(const struct pq_choice *given, size_t n, const double *smallest,
                         const double *largest, void *scale, void *zero)
{
    struct pq_choice room;
    const void *known = given;
    if (given == NULL || smallest == NULL || largest == NULL || scale == NULL ||
        zero == NULL) {
        return PQ_ERR_NULL;
    }
    const enum pq_status status =
        pq_known_struct(&known, &room, sizeof room,
                        offsetof(struct pq_choice, rule) + sizeof(enum pq_rule));
    if (status != PQ_OK) {
        return status;
    }
    const struct pq_choice chosen = settled(known), *const choice = &chosen;
    const enum pq_type code = choice->code;
    const bool symmetric = choice->rule == PQ_RULE_SYMMETRIC;
    if (!pq_is_real(choice->real) || !pq_is_code(code) ||
        (unsigned)choice->rule > PQ_RULE_ASYMMETRIC ||
        (pq_is_narrow_float(code) && !symmetric)) {
        return PQ_ERR_TYPE;
    }
    if (n > PTRDIFF_MAX / sizeof(double)) {
        return PQ_ERR_SHAPE;
    }
    const size_t real_size = choice->real == PQ_F64 ? sizeof(double) : sizeof(float);
    const size_t code_size = pq_type_size(code);
    const pq_fpenv found = pq_fpenv_enter();
    const struct target to = target_of(choice);
    double usual[CHOSEN];
    for (size_t i = 0; i < n;) {
        const size_t some = n - i < CHOSEN ? n - i : CHOSEN, stop = i + some;
        if (choose_usual(&to, some, smallest + i, largest + i, usual)) {
            if (real_size == sizeof(double)) {
                memcpy((char *)scale + i * real_size, usual, some * real_size);
            } else {
                narrow_scales((char *)scale + i * real_size, usual, some);
            }
            memset((char *)zero + i * code_size, 0, some * code_size);
            i = stop;
        }
        for (; i < stop; i++) {
            const struct pair pair = choose(&to, smallest[i], largest[i]);
            store_pair(pair, (char *)scale + i * real_size, real_size,
                       (char *)zero + i * code_size, code_size);
        }
    }
    pq_fpenv_leave(found);
    return PQ_OK;
}
