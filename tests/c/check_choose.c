/* SPDX-License-Identifier: Apache-2.0 */
/* Check parameters from extrema: every formula, type of scales and range of codes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "ops/presets.h"
#include "ops/scales.h"

static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};
static const enum pq_type codes[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I4,
                                     PQ_U4, PQ_I2, PQ_U2,  PQ_I32, PQ_U32};
static const enum pq_type scales[] = {PQ_F32,      PQ_F64,       PQ_F16,    PQ_BF16,
                                      PQ_F8E4M3FN, PQ_F8E8M0FNU, PQ_NO_TYPE};

/* Wild limits have random bits. */
static double random_end(enum pq_type real, int wild)
{
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
    }
    return choice;
}

/* Return the status of a choice by the table of formulas, for a valid range. */
static enum pq_status status_of(const struct pq_choice *choice)
{
    const struct pq_preset *preset = pq_preset_of(choice->like);
    const enum pq_rule rule = choice->rule == PQ_RULE_USUAL
                                  ? pq_usual_rule(choice->like, choice->code)
                                  : choice->rule;
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

/* Return integer i of an array of any size and alignment. */
static uint64_t bits_at(const unsigned char *array, size_t size, size_t i)
{
    uint64_t wide;
    uint32_t single;
    uint16_t half;
    switch (size) {
    case 1:
        return array[i];
    case 2:
        memcpy(&half, array + i * size, size);
        return half;
    case 4:
        memcpy(&single, array + i * size, size);
        return single;
    default:
        memcpy(&wide, array + i * size, size);
        return wide;
    }
}

static int64_t zero_at(enum pq_type code, const unsigned char *zeros, size_t i)
{
    const size_t size = (size_t)(pq_type_bits(code) + 7) / 8;
    const int64_t bits = (int64_t)bits_at(zeros, size, i);
    const int64_t sign = (int64_t)1 << (8 * size - 1);
    return pq_range_of(code).lo < 0 ? (bits ^ sign) - sign : bits;
}

static double scale_at(enum pq_type type, const unsigned char *stored, size_t i)
{
    return pq_scale_of_bits(type, bits_at(stored, pq_type_size(type), i));
}

enum { MOST = 700 };

/* Allocate only the memory that a call may write: sanitizers detect other writes. */
static void check_choice(const struct pq_choice *choice, size_t n)
{
    const enum pq_type type = choice->scale != PQ_NO_TYPE ? choice->scale
                              : choice->real == PQ_F64    ? PQ_F64
                                                          : PQ_F32;
    const struct pq_range all = pq_range_of(choice->code);
    const int given = choice->lowest_code != 0 || choice->highest_code != 0;
    const int64_t lowest = given ? choice->lowest_code : all.lo;
    const int64_t highest = given ? choice->highest_code : all.hi;
    const size_t zero_size = (size_t)(pq_type_bits(choice->code) + 7) / 8;
    double *lo = malloc(n * sizeof *lo), *hi = malloc(n * sizeof *hi);
    unsigned char *stored = malloc(n * pq_type_size(type)), *zeros = malloc(n * zero_size);
    const int wild = random_chance(50);
    for (size_t i = 0; i < n; i++) {
        const double a = random_end(choice->real, wild);
        const double b = random_end(choice->real, wild);
        lo[i] = a < b ? a : b;
        hi[i] = a < b ? b : a;
    }
    const enum pq_status status = pq_choose(choice, n, lo, hi, stored, zeros);
    CHECK(status == status_of(choice), "status %d, expected %d", (int)status,
          (int)status_of(choice));
    for (size_t i = 0; i < n && status == PQ_OK; i++) {
        unsigned char alone[8], zero[8];
        const double scale = scale_at(type, stored, i);
        const int64_t at = zero_at(choice->code, zeros, i);
        CHECK(at >= lowest && at <= highest, "like %d: zero %lld of [%g, %g]",
              (int)choice->like, (long long)at, lo[i], hi[i]);
        if (isfinite(lo[i]) && isfinite(hi[i])) {
            CHECK(scale > 0 && isfinite(scale), "like %d: scale %g of [%g, %g]",
                  (int)choice->like, scale, lo[i], hi[i]);
        }
        if (random_chance(5)) {
            CHECK(pq_choose(choice, 1, lo + i, hi + i, alone, zero) == PQ_OK, "alone");
            CHECK(memcmp(alone, stored + i * pq_type_size(type), pq_type_size(type)) == 0 &&
                      memcmp(zero, zeros + i * zero_size, zero_size) == 0,
                  "like %d: [%g, %g] alone", (int)choice->like, lo[i], hi[i]);
        }
    }
    free(lo);
    free(hi);
    free(stored);
    free(zeros);
}

static void check_choices(void)
{
    check_begin("choose, all formulas");
    const size_t count = check_count(16000);
    for (size_t i = 0; i < count && !check_tired(); i++) {
        const struct pq_choice choice = random_choice();
        check_choice(&choice, 1 + random_below(random_chance(5) ? MOST : 20));
    }
    check_end();
}

static void check_options(void)
{
    check_begin("choose, options");
    const double lo = -1, hi = 2;
    double scale;
    int32_t zero;
    struct pq_choice choice = {.size = sizeof choice};
    choice.like = PQ_LIKE_COUNT;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_OPTION, "like");
    choice.like = (enum pq_like) - 1;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_OPTION, "like -1");
    choice.like = PQ_LIKE_PYQUANT;
    choice.scale = PQ_I8;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_TYPE, "int8 scales");
    choice.scale = PQ_NO_TYPE;
    choice.lowest_code = -129;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_OPTION, "lowest");
    choice.lowest_code = 3;
    choice.highest_code = 3;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_OPTION, "one code");
    choice.highest_code = 128;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_OPTION, "highest");
    choice.highest_code = 9;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_OK, "a range");
    choice.code = PQ_F8E4M3FN;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_OPTION, "of floats");
    choice = (struct pq_choice){.size = sizeof choice, .rule = PQ_RULE_ONNX_DYNAMIC};
    choice.scale = PQ_F16;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_OPTION, "ONNX float16");
    choice.scale = PQ_F32;
    choice.highest_code = 9;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_OPTION, "ONNX range");
    choice.highest_code = 0;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_OK, "ONNX");
    check_end();
}

/* Check that extrema beyond the precision of float32 are not rounded before the division.
 */
static void check_wide_ends(void)
{
    enum { N = 40 };
    double lo[N], hi[N];
    float scale[N];
    int8_t zero[N];
    const struct pq_choice choice = {.size = sizeof choice, .real = PQ_F32};
    check_begin("choose, ends that are not float32");
    for (int round = 0; round < 200; round++) {
        const int wide = (int)random_below(3); /* low ends, high ends, or both */
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
    check_end();
}

/* Check that NaN at either end gives scale NaN and zero point 0. */
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
    check_end();
}

int main(void)
{
    check_start("check_choose");
    check_wide_ends();
    check_nan_ends();
    check_choices();
    check_options();
    return check_finish();
}
