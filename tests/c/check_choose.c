/* SPDX-License-Identifier: Apache-2.0 */
/* Check the scales and zero points that pq_choose() and the kernels compute from extrema:
 * every formula, type of scales and range of codes. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "ops/presets.h"
#include "ops/scales.h"
#include "types.h"

static const enum pq_type codes[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I4,
                                     PQ_U4, PQ_I2, PQ_U2,  PQ_I32, PQ_U32};
static const enum pq_type scales[] = {PQ_F32,      PQ_F64,       PQ_F16,    PQ_BF16,
                                      PQ_F8E4M3FN, PQ_F8E8M0FNU, PQ_NO_TYPE};

/* Return a random end of a range of numbers. If `wild` is 1, the end can be infinite or
 * have any bits. */
static double random_end(enum pq_type real, int wild)
{
    if (wild && random_chance(5)) {
        return random_chance(50) ? HUGE_VAL : -HUGE_VAL;
    }
    const double v = real == PQ_F64 ? f64_of_bits(random_bits())
                                    : (double)f32_of_bits((uint32_t)random_bits());
    const double tame = (double)(float)(random_unit() * 100 - 50);
    return random_chance(20) ? 0 : !wild || random_chance(40) ? tame : v;
}

static struct pq_choice random_choice(void)
{
    struct pq_choice choice = {.size = sizeof choice};
    choice.real = reals[random_below(4)];
    choice.code = codes[random_below(10)];
    choice.rule = (enum pq_rule)random_below(3);
    if (random_chance(50)) {
        choice.like = (enum pq_like)random_below(PQ_LIKE_COUNT);
        choice.scale = scales[random_below(7)];
    }
    if (random_chance(40)) {
        const struct pq_range all = pq_range_of(choice.code);
        const int64_t down = random_chance(50) ? 1000 : INT32_MAX;
        const int64_t up = random_chance(50) ? 1000 : INT32_MAX;
        const int64_t least = all.lo < -down ? -down : all.lo;
        const int64_t most = all.hi < up ? all.hi : up;
        choice.lowest_code = random_between((ptrdiff_t)least, 0);
        choice.highest_code =
            random_between(choice.lowest_code < 0 ? 0 : 1, (ptrdiff_t)most);
    } else if (random_chance(2)) {
        *(random_chance(50) ? &choice.real : &choice.code) = (enum pq_type)no_type();
    }
    return choice;
}

/* Return the status that pq_choose() must return for a valid range, by the formulas. */
static enum pq_status status_of(const struct pq_choice *choice)
{
    const struct pq_preset *preset = pq_preset_of(choice->like);
    const enum pq_rule rule = choice->rule == PQ_RULE_USUAL
                                  ? pq_usual_rule(choice->like, choice->code)
                                  : choice->rule;
    if (!is_real_type(choice->real) || !pq_is_code(choice->code)) {
        return PQ_ERR_TYPE;
    }
    if (preset == NULL) {
        return PQ_OK;
    }
    if (!pq_preset_has_rule(preset, rule)) {
        return PQ_ERR_OPTION;
    }
    if (!pq_preset_has_code(preset, choice->code)) {
        return PQ_ERR_TYPE;
    }
    const int given = choice->lowest_code != 0 || choice->highest_code != 0;
    const int both = choice->lowest_code < 0 && choice->highest_code > 0;
    return preset->span == PQ_SPAN_ENDS && given && !both ? PQ_ERR_OPTION : PQ_OK;
}

enum { MOST = 700, MARGIN = 64 };

static struct guarded scale_memory, zero_memory;

/* Choose a random range of numbers, often a range at the limits of a formula. `steps` is
 * the highest minus the lowest code. */
static void draw_range(double steps, double *lo, double *hi)
{
    const double a = (random_unit() - 0.5) * ldexp(1, (int)random_below(60) - 30);
    const double b = (random_unit() - 0.5) * ldexp(1, (int)random_below(60) - 30);
    const double step = 0.01 + random_unit(), k = (double)random_below(300) + 0.5;
    const int kind = (int)random_below(12);
    const double large = kind == 4 ? 0x1.fffffep127 : 0x1.fffffffffffffp1023;
    *lo = fmin(a, b);
    *hi = fmax(a, b);
    if (kind == 0) {
        *lo = *hi = 0;
    } else if (kind == 1) { /* no elements */
        *lo = (double)INFINITY;
        *hi = (double)-INFINITY;
    } else if (kind == 2) { /* the quotient that rounds to the zero point is a tie */
        *lo = -k;
        *hi = steps - k;
    } else if (kind == 3) {
        *lo = -0x1p-149 * (double)random_below(3);
        *hi = 0x1p-149 * (double)random_below(200);
    } else if (kind <= 5) {
        *lo = random_chance(50) ? 0 : -large;
        *hi = large;
    } else if (kind == 6) {
        /* the quotient is near a tie, because the ends are rounded to float32 */
        *lo = (double)(float)(-k * step);
        *hi = (double)(float)((steps - k) * step);
    } else if (kind <= 9) {
        /* float32 extrema, because the core has vector code for float32 */
        *lo = (double)(float)*lo;
        *hi = (double)(float)*hi;
    }
}

/* Compare a scale and a zero point with the formula for the complete range of codes. The
 * scale can be larger than the formula's scale if data would otherwise saturate by more
 * than half a step. The scale can differ a little if dequantized data would otherwise be
 * infinite. The Python tests check the size of both differences. */
static void expect_formula(const struct pq_choice *choice, double lo, double hi, double got,
                           int64_t got_zero)
{
    const struct pq_range code = pq_range_of(choice->code);
    const int single = choice->real == PQ_F32;
    const int symmetric =
        choice->rule == PQ_RULE_SYMMETRIC || (choice->rule == PQ_RULE_USUAL && code.lo < 0);
    const double l = fmin(lo, 0), h = fmax(hi, 0),
                 steps = (double)code.hi - (double)code.lo;
    const double most = symmetric ? fmax(-l, h) : h - l;
    double s = symmetric         ? most / (code.lo < 0 ? (double)code.hi : steps / 2)
               : most < HUGE_VAL ? most / steps
                                 : h / steps - l / steps;
    double z = symmetric && code.lo == 0 ? ((double)code.hi + 1) / 2 : 0;
    s = l == 0 && h == 0 ? 1 : single ? (double)(float)s : s;
    s = s == 0 ? (single ? 0x1p-149 : 0x1p-1074) : s;
    const double place = single ? 0x1p-23 : 0x1p-52;
    const int tiny = s < (single ? 0x1p-126 : 0x1p-1022);
    const int close =
        tiny ? got >= s && got <= s + 0x1p-149 : fabs(got - s) <= 2 * place * s;
    const double below = -l - (z - (double)code.lo + 0.5) * s;
    const double above = h - ((double)code.hi - z + 0.5) * s;
    const int usual = symmetric && code.lo < 0 && code.hi <= INT16_MAX && !tiny &&
                      h - l < 0x1p120 && below < 0 && above < 0;
    CHECK(got == s || (close && !usual) || h - l >= 0x1p120,
          "%s %s symmetric %d: %a .. %a: scale %a, expected %a", type_name(choice->real),
          type_name(choice->code), symmetric, lo, hi, got, s);
    if (!symmetric) {
        z = fmin(fmax(rint((double)code.lo - l / got), (double)code.lo), (double)code.hi);
    }
    CHECK(code.hi > UINT16_MAX || h - l <= 0x1p-100 || h - l >= 0x1p100 ||
              (h <= ((double)code.hi - z + 0.5) * got &&
               -l <= (z - (double)code.lo + 0.5) * got),
          "%s %s symmetric %d: %a .. %a is out of reach of scale %a zero %g",
          type_name(choice->real), type_name(choice->code), symmetric, lo, hi, got, z);
    CHECK(got_zero == (int64_t)z, "%s %s symmetric %d: %a .. %a: zero %lld, expected %lld",
          type_name(choice->real), type_name(choice->code), symmetric, lo, hi,
          (long long)got_zero, (long long)z);
}

static void check_choice(const struct pq_choice *choice, size_t n)
{
    static double lo[MOST], hi[MOST];
    const enum pq_type type = choice->scale != PQ_NO_TYPE ? choice->scale
                              : choice->real == PQ_F64    ? PQ_F64
                                                          : PQ_F32;
    const enum pq_type carrier = pq_carrier_of(choice->code);
    const struct pq_range all = pq_range_of(choice->code);
    const int given = choice->lowest_code != 0 || choice->highest_code != 0;
    const int64_t lowest = given ? choice->lowest_code : all.lo;
    const int64_t highest = given ? choice->highest_code : all.hi;
    const size_t size = pq_bytes_of(type), zero_size = pq_bytes_of(choice->code);
    const int wild = random_chance(50), formula = random_chance(30);
    const int is_plain = choice->like == PQ_LIKE_PYQUANT && choice->scale == PQ_NO_TYPE &&
                         !given && pq_bits_of(choice->code) >= 8 &&
                         (choice->real == PQ_F32 || choice->real == PQ_F64);
    unsigned char *const stored = guarded_end(&scale_memory, n * size);
    unsigned char *const zeros = guarded_end(&zero_memory, n * zero_size);
    for (size_t i = 0; i < n; i++) {
        const double a = random_end(choice->real, wild);
        const double b = random_end(choice->real, wild);
        lo[i] = fmin(a, b);
        hi[i] = fmax(a, b);
        if (formula && is_plain) {
            draw_range((double)all.hi - (double)all.lo, &lo[i], &hi[i]);
        }
    }
    memset(stored - MARGIN, 0x5a, MARGIN + n * size);
    memset(zeros - MARGIN, 0x5a, MARGIN + n * zero_size);
    const enum pq_status status = pq_choose(choice, n, lo, hi, stored, zeros);
    CHECK(status == status_of(choice), "status %d, expected %d", (int)status,
          (int)status_of(choice));
    for (size_t i = 0; i < MARGIN; i++) {
        CHECK((stored - MARGIN)[i] == 0x5a && (zeros - MARGIN)[i] == 0x5a, "wrote before");
    }
    for (size_t i = 0; i < n * size && status != PQ_OK; i++) {
        CHECK(stored[i] == 0x5a, "an invalid call wrote");
    }
    for (size_t i = 0; i < n && status == PQ_OK; i++) {
        unsigned char alone[8], zero[8];
        const double scale = pq_scale_of_bits(type, get_bits(stored, type, i));
        const int64_t at = get_integer(zeros, carrier, i);
        CHECK(at >= lowest && at <= highest, "like %d: zero %lld of [%g, %g]",
              (int)choice->like, (long long)at, lo[i], hi[i]);
        if (isfinite(lo[i]) && isfinite(hi[i])) {
            CHECK(scale > 0 && isfinite(scale), "like %d: scale %g of [%g, %g]",
                  (int)choice->like, scale, lo[i], hi[i]);
        }
        if (is_plain && !(isnan(lo[i]) || isnan(hi[i])) && (formula || !wild)) {
            expect_formula(choice, lo[i], hi[i], scale, at);
        }
        if (random_chance(5)) {
            EXPECT(PQ_OK, pq_choose(choice, 1, lo + i, hi + i, alone, zero));
            CHECK(memcmp(alone, stored + i * size, size) == 0 &&
                      memcmp(zero, zeros + i * zero_size, zero_size) == 0,
                  "like %d: [%g, %g] alone", (int)choice->like, lo[i], hi[i]);
        }
    }
}

static void check_choices(void)
{
    check_begin("choose, all formulas");
    CASES(i, check_count(16000)) {
        const struct pq_choice choice = random_choice();
        check_choice(&choice, 1 + random_below(random_chance(5) ? MOST : 20));
    }
}

static void check_options(void)
{
    check_begin("choose, options");
    static const double ends[] = {-INFINITY, INFINITY};
    const double lo = -1, hi = 2;
    double scale = 9;
    int8_t zero = 9;
    const struct pq_choice good = {.size = sizeof good};
    struct pq_choice args = good;
    EXPECT(PQ_ERR_NULL, pq_choose(NULL, 1, &lo, &hi, &scale, &zero));
    EXPECT(PQ_ERR_NULL, pq_choose(&good, 1, NULL, &hi, &scale, &zero));
    EXPECT(PQ_ERR_NULL, pq_choose(&good, 1, &lo, NULL, &scale, &zero));
    EXPECT(PQ_ERR_NULL, pq_choose(&good, 1, &lo, &hi, NULL, &zero));
    EXPECT(PQ_ERR_NULL, pq_choose(&good, 1, &lo, &hi, &scale, NULL));
    EXPECT(PQ_ERR_SHAPE, pq_choose(&good, SIZE_MAX, &lo, &hi, &scale, &zero));
    EXPECT(PQ_ERR_SHAPE, pq_choose(&good, SIZE_MAX / 16 + 1, &lo, &hi, &scale, &zero));
#define CHOOSE(due, change) AFTER(due, change, pq_choose(&args, 1, &lo, &hi, &scale, &zero))
#define RANGE(low, high) (args.lowest_code = low, args.highest_code = high)
    CHOOSE(PQ_ERR_SIZE, args.size = 0);
    CHOOSE(PQ_ERR_SIZE, args.size = SIZE_MAX);
    CHOOSE(PQ_ERR_TYPE, args.real = PQ_I8);
    CHOOSE(PQ_ERR_TYPE, args.code = PQ_I64);
    CHOOSE(PQ_ERR_TYPE, args.code = PQ_F32);
    CHOOSE(PQ_ERR_TYPE, args.code = (enum pq_type) - 1);
    CHECK(scale == 9 && zero == 9, "memory was written");
    AFTER(PQ_OK, args.rule = PQ_RULE_ASYMMETRIC,
          pq_choose(&args, 1, ends, ends + 1, &scale, &zero));
    CHECK(zero == -128, "zero %d", zero);
    CHOOSE(PQ_ERR_OPTION, args.like = PQ_LIKE_COUNT);
    CHOOSE(PQ_ERR_OPTION, args.like = (enum pq_like) - 1);
    CHOOSE(PQ_ERR_TYPE, args.scale = PQ_I8);
    CHOOSE(PQ_ERR_OPTION, RANGE(-129, 0));
    CHOOSE(PQ_ERR_OPTION, RANGE(3, 3));
    CHOOSE(PQ_ERR_OPTION, RANGE(3, 128));
    CHOOSE(PQ_OK, RANGE(3, 9));
    CHOOSE(PQ_ERR_OPTION, RANGE(3, 9); args.code = PQ_F8E4M3FN);
    CHOOSE(PQ_ERR_OPTION, args.rule = PQ_RULE_ONNX_DYNAMIC; args.scale = PQ_F16);
    CHOOSE(PQ_ERR_OPTION, args.rule = PQ_RULE_ONNX_DYNAMIC; RANGE(0, 9));
    CHOOSE(PQ_OK, args.rule = PQ_RULE_ONNX_DYNAMIC; args.scale = PQ_F32);
#undef CHOOSE
}

/* Check that float64 extrema, which float32 does not represent, are not rounded to float32
 * before the division. */
static void check_wide_ends(void)
{
    enum { N = 40 };
    double lo[N], hi[N];
    float scale[N];
    int8_t zero[N];
    const struct pq_choice choice = {.size = sizeof choice, .real = PQ_F32};
    check_begin("choose, ends that are not float32");
    CASES(round, 200) {
        const int wide = (int)random_below(3); /* ends to change: 0 low, 1 high, 2 both */
        for (int i = 0; i < N; i++) {
            lo[i] =
                -(double)(float)random_unit() - (wide != 1 ? random_unit() * 0x1p-26 : 0);
            hi[i] =
                (double)(float)random_unit() + (wide != 0 ? random_unit() * 0x1p-26 : 0);
        }
        CHECK(pq_choose(&choice, N, lo, hi, scale, zero) == PQ_OK, "refused");
        for (int i = 0; i < N; i++) {
            const double far = hi[i] > -lo[i] ? hi[i] : -lo[i];
            CHECK(scale[i] == (float)(far / 127) && zero[i] == 0, "[%a, %a]: %a", lo[i],
                  hi[i], (double)scale[i]);
        }
    }
}

/* Check that a NaN extremum gives the scale NaN and the zero point 0. */
static void check_nan_ends(void)
{
    const double lo[] = {NAN, -1, NAN, NAN, 1}, hi[] = {2, NAN, NAN, -1, NAN};
    const struct pq_choice choice = {.size = sizeof choice, .rule = PQ_RULE_ONNX_DYNAMIC};
    check_begin("choose, ends that are NaN");
    for (int i = 0; i < 5; i++) {
        float scale = 0;
        uint8_t zero = 7;
        CHECK(pq_choose(&choice, 1, lo + i, hi + i, &scale, &zero) == PQ_OK, "refused");
        CHECK(scale != scale && zero == 0, "[%g, %g]: %g, %d", lo[i], hi[i], (double)scale,
              zero);
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    scale_memory = guarded_make(MOST * sizeof(double));
    zero_memory = guarded_make(MOST * sizeof(int32_t));
    check_wide_ends();
    check_nan_ends();
    check_choices();
    check_options();
    return check_finish();
}
