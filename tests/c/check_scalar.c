/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check the scalar kernels against the definitions, in independent code: formats by
 * ldexp, rounding to a format by comparisons with the midpoints of its values, rounding
 * to integers by fmod. No code is shared with the kernels.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "run.h"
#include "types.h"

static const struct pq_kernels *const scalar = &pq_kernels_scalar;
static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};
static const enum pq_type codes[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I32, PQ_U32};
enum { CODES = 4 }; /* the first four types of `codes`, of 8 and 16 bits */

/* ---- the oracle: rounding to a format ---- */

enum { F16_VALUES = 0x7c00, BF16_VALUES = 0x7f80 };

/* The values of both formats in ascending order from 0, and the value after the largest. */
static double f16_values[F16_VALUES + 1], bf16_values[BF16_VALUES + 1];

static void make_values(void)
{
    for (int i = 0; i < F16_VALUES; i++) {
        f16_values[i] = decode_f16((uint16_t)i);
    }
    f16_values[F16_VALUES] = 0x1p16;
    for (int i = 0; i < BF16_VALUES; i++) {
        bf16_values[i] = decode_bf16((uint16_t)i);
    }
    bf16_values[BF16_VALUES] = 0x1p128;
}

/* Return the exact sign of num - value * den. No double is between a product and its
 * rounded value. */
static int compare(double num, double value, double den)
{
    const double product = value * den;
    if (num != product) {
        return num < product ? -1 : 1;
    }
    const double rest = fma(value, den, -product);
    return (rest < 0) - (rest > 0);
}

/*
 * Return the index of the value nearest to num / den, both positive, ties to the even
 * index. The quotient is never computed: num is compared with midpoints times den.
 */
static int nearest_value(const double *values, int last, double num, double den)
{
    int lo = 0, hi = last;
    if (compare(num, values[last], den) >= 0) {
        return last;
    }
    while (hi - lo > 1) { /* values[lo] <= num / den < values[hi] */
        const int middle = (lo + hi) / 2;
        if (compare(num, values[middle], den) >= 0) {
            lo = middle;
        } else {
            hi = middle;
        }
    }
    const int side = compare(num, (values[lo] + values[hi]) / 2, den);
    if (side != 0) {
        return side < 0 ? lo : hi;
    }
    return lo % 2 == 0 ? lo : hi;
}

/* Return the float32 nearest to num / den. Start from an estimate and go from midpoint to
 * midpoint. */
static double nearest_f32(double num, double den)
{
    const uint32_t infinity = 0x7f800000;
    uint32_t at = bits_of_f32((float)(num / den));
    for (;;) {
        const double here = at < infinity ? (double)f32_of_bits(at) : 0x1p128;
        const double up = at + 1 < infinity ? (double)f32_of_bits(at + 1) : 0x1p128;
        const double down = at > 0 ? (double)f32_of_bits(at - 1) : 0;
        const int above = compare(num, (here + up) / 2, den);
        const int below = compare(num, (down + here) / 2, den);
        if (at < infinity && (above > 0 || (above == 0 && at % 2 != 0))) {
            at++;
        } else if (at > 0 && (below < 0 || (below == 0 && at % 2 != 0))) {
            at--;
        } else {
            return (double)f32_of_bits(at);
        }
    }
}

/* Return num / den, rounded once to `type`. */
static double quotient_in(enum pq_type type, double num, double den)
{
    const int negative = signbit(num) != signbit(den);
    double n, q;
    int exponent, at;
    if (type == PQ_F64 || !isfinite(num) || !isfinite(den) || num == 0 || den == 0) {
        return num / den;
    }
    const double d = frexp(fabs(den), &exponent);
    n = ldexp(fabs(num), -exponent);
    switch (type) {
    case PQ_F32:
        q = nearest_f32(n, d);
        break;
    case PQ_F16:
        at = nearest_value(f16_values, F16_VALUES, n, d);
        q = at == F16_VALUES ? (double)INFINITY : f16_values[at];
        break;
    default:
        at = nearest_value(bf16_values, BF16_VALUES, n, d);
        q = at == BF16_VALUES ? (double)INFINITY : bf16_values[at];
        break;
    }
    return negative ? -q : q;
}

/* ---- the oracle: quantize ---- */

static double round_by_definition(double q, enum pq_round round)
{
    if (!(fabs(q) < 0x1p53)) {
        return q;
    }
    const double fraction = fmod(q, 1),
                 whole = q - fraction; /* both operations are exact */
    const double part = fabs(fraction), away = q > 0 ? whole + 1 : whole - 1;
    switch (round) {
    case PQ_HALF_AWAY:
        return part >= 0.5 ? away : whole;
    case PQ_HALF_TOWARD_ZERO:
        return part > 0.5 ? away : whole;
    case PQ_HALF_UP:
        return part > 0.5 || (part == 0.5 && q > 0) ? away : whole;
    case PQ_HALF_DOWN:
        return part > 0.5 || (part == 0.5 && q < 0) ? away : whole;
    case PQ_HALF_EVEN:
        return part > 0.5 || (part == 0.5 && fmod(whole, 2) != 0) ? away : whole;
    case PQ_HALF_ODD:
        return part > 0.5 || (part == 0.5 && fmod(whole, 2) == 0) ? away : whole;
    case PQ_AWAY:
        return part > 0 ? away : whole;
    case PQ_CEIL:
        return part > 0 && q > 0 ? away : whole;
    case PQ_FLOOR:
        return part > 0 && q < 0 ? away : whole;
    default:
        return whole;
    }
}

/* Round, add the zero point and saturate. NaN becomes the lowest code. */
static int64_t code_of(double q, enum pq_round round, int64_t zero, enum pq_type code)
{
    const struct limits limits = limits_of(code);
    const double rounded = round_by_definition(q, round);
    if (!(rounded > -0x1p40)) {
        return limits.lo;
    }
    if (rounded > 0x1p40) {
        return limits.hi;
    }
    const int64_t v = (int64_t)rounded + zero;
    return v < limits.lo ? limits.lo : v > limits.hi ? limits.hi : v;
}

/* ---- the oracle: dequantize ---- */

static uint64_t real_bits(enum pq_type real, float v)
{
    const uint64_t sign = signbit(v) ? 0x8000 : 0;
    switch (real) {
    case PQ_F16:
        if (isnan(v)) {
            return 0x7e00;
        }
        return sign | (uint64_t)nearest_value(f16_values, F16_VALUES, fabs((double)v), 1);
    case PQ_BF16:
        if (isnan(v)) {
            return 0x7fc0;
        }
        return sign | (uint64_t)nearest_value(bf16_values, BF16_VALUES, fabs((double)v), 1);
    default:
        return isnan(v) ? 0x7fc00000 : bits_of_f32(v);
    }
}

static uint64_t real_of(int64_t code, double scale, int64_t zero, enum pq_type real)
{
    const int64_t difference = code - zero;
    if (real == PQ_F64) {
        const double v = (double)difference * scale;
        return isnan(v) ? UINT64_C(0x7ff8000000000000) : bits_of_f64(v);
    }
    return real_bits(real, (float)difference * (float)scale);
}

/* ---- running kernels ---- */

enum { MAX_N = 1 << 16 };

static double x[MAX_N], y[MAX_N]; /* elements of any type */
static float scales[MAX_N];
static int32_t zeros[MAX_N];
static double wide_scales[MAX_N], wide_zeros[MAX_N];

static double reach_of(enum pq_type code)
{
    return 2.5 * (double)limits_of(code).hi;
}

static void expect_code(size_t i, enum pq_type real, enum pq_type code, int64_t expected,
                        double scale, int64_t zero, const char *how)
{
    const int64_t got = get_integer(y, code, i);
    if (got != expected) {
        CHECK(0, "%s %s to %s: x %a, scale %a, zero %lld gave %lld, expected %lld", how,
              type_name(real), type_name(code), get_real(x, real, i), scale,
              (long long)zero, (long long)got, (long long)expected);
    }
}

static void expect_real(size_t i, enum pq_type code, enum pq_type real, uint64_t expected,
                        double scale, int64_t zero)
{
    const uint64_t got = get_bits(y, real, i);
    if (got != expected) {
        CHECK(0, "%s to %s: code %lld, scale %a, zero %lld gave %#llx, expected %#llx",
              type_name(code), type_name(real), (long long)get_integer(x, code, i), scale,
              (long long)zero, (unsigned long long)got, (unsigned long long)expected);
    }
}

/* Run x[0, n) with one scale and zero point: as one group, and with parameters for each
 * element. */
static void quantize_all(enum pq_type real, enum pq_type code, enum pq_round round,
                         size_t n, float scale, int32_t zero)
{
    for (size_t i = 0; i < n; i++) {
        scales[i] = scale;
        zeros[i] = zero;
    }
    for (int grp = 0; grp <= 1; grp++) {
        const struct pq_run options = {
            .in = real, .out = code, .compute = PQ_F32, .round = round};
        run_kernel(scalar, &options, 1, 0, x, y, n, grp ? n : 1, scales, zeros);
        for (size_t i = 0; i < n; i++) {
            const float q = (float)get_real(x, real, i) / scale;
            expect_code(i, real, code, code_of((double)q, round, zero, code), (double)scale,
                        zero, round_name(round));
        }
    }
}

/* ---- formats ---- */

static void check_formats(void)
{
    check_begin("f16 and bf16 decoded");
    for (size_t i = 0; i < MAX_N; i++) { /* by a float64 kernel that only converts */
        put_bits(x, PQ_F16, i, i);
        wide_scales[i] = 1;
        wide_zeros[i] = 0;
    }
    CHECK(f16_values[0x7bff] == 65504 && f16_values[1] == 0x1p-24, "f16 table");
    CHECK(bf16_values[0x7f7f] == 0x1.fep127 && bf16_values[1] == 0x1p-133, "bf16 table");
    for (int t = 0; t < 2; t++) {
        const enum pq_type real = t == 0 ? PQ_F16 : PQ_BF16;
        const int infinity = t == 0 ? F16_VALUES : BF16_VALUES;
        for (int i = 0; i < MAX_N; i++) {
            float lo = INFINITY, hi = -INFINITY;
            uint32_t bits = 0;
            scalar->minmax[pq_row_of(real)]((char *)x + 2 * i, 1, &lo, &hi, &bits);
            const double v = get_real(x, real, (size_t)i);
            CHECK((i & 0x7fff) < infinity ? (double)lo == v && (double)hi == v
                                          : bits >= 0x7f800000,
                  "%s %#x decoded to %a", type_name(real), (unsigned)i, (double)lo);
        }
    }
    check_end();

    check_begin("f16 and bf16 encoded");
    /* Check every midpoint and its neighbours, by dequantizing 1 with these numbers as
     * scales. */
    for (int t = 0; t < 2; t++) {
        const enum pq_type real = t == 0 ? PQ_F16 : PQ_BF16;
        const double *values = t == 0 ? f16_values : bf16_values;
        const int last = t == 0 ? F16_VALUES : BF16_VALUES;
        for (int i = 0; i < last; i++) {
            const float middle = (float)((values[i] + values[i + 1]) / 2);
            for (int step = 0; step < 4; step++) {
                const float here = step == 3 ? (float)values[i] : middle;
                const uint32_t near =
                    bits_of_f32(here) + (step < 3 ? (uint32_t)step : 1) - 1;
                scales[step] = f32_of_bits(near) * (i % 2 == 0 ? 1.0f : -1.0f);
                zeros[step] = 0;
                put_bits(x, PQ_I8, (size_t)step, 1);
            }
            const struct pq_run options = {.in = PQ_I8, .out = real, .compute = PQ_F32};
            run_kernel(scalar, &options, 0, 0, x, y, 4, 1, scales, zeros);
            for (size_t step = 0; step < 4; step++) {
                expect_real(step, PQ_I8, real, real_bits(real, scales[step]),
                            (double)scales[step], 0);
            }
        }
    }
    check_end();
}

/* ---- quantize ---- */

/* Check all inputs of 16 bits. */
static void check_halves(enum pq_type real)
{
    static const float some[] = {1.0f,      0.1f,    7.0f,       0x1p-9f,   -0.3f,
                                 0x1p-140f, 0x1p15f, 0.0625001f, 0x1.8p-20f};
    const size_t count = check_count(8) < 8 ? 3 : sizeof some / sizeof some[0];
    check_begin("every %s quantized", type_name(real));
    for (size_t i = 0; i < MAX_N; i++) {
        put_bits(x, real, i, i);
    }
    for (int c = 0; c < CODES; c++) {
        for (size_t round = 0; round < STATIC_ROUNDS; round++) {
            for (size_t s = 0; s < count; s++) {
                const struct limits limits = limits_of(codes[c]);
                const int32_t zero = (int32_t)draw_integer(limits.lo, limits.hi);
                quantize_all(real, codes[c], static_round(round), MAX_N, some[s], zero);
            }
        }
    }
    check_end();
}

/* Check float32 numbers: steps through the relevant binades, and all numbers near ties. */
static void check_roundings(enum pq_round round)
{
    const uint32_t stride = check_count(8) < 8 ? 1999 : 311;
    uint32_t at = bits_of_f32(0x1p-4f);
    check_begin("%s of float32", round_name(round));
    while (at < bits_of_f32(0x1p18f)) {
        size_t n = 0;
        for (; n < 4096; n += 2, at += stride) {
            put_bits(x, PQ_F32, n, at);
            put_bits(x, PQ_F32, n + 1, at | 0x80000000);
        }
        quantize_all(PQ_F32, PQ_I16, round, n, 1.0f, 0);
        quantize_all(PQ_F32, PQ_U16, round, n, 1.0f, 32767);
    }
    const int ties = check_count(8) < 8 ? 2000 : 70000;
    for (int k = 0; k < ties; k += 64) {
        size_t n = 0;
        for (int half = 2 * k; half < 2 * k + 128; half++) {
            for (uint32_t step = 0; step < 7; step++) {
                const uint32_t bits = bits_of_f32(0.5f * (float)half) + step - 3;
                put_bits(x, PQ_F32, n++, bits);
                put_bits(x, PQ_F32, n++, bits ^ 0x80000000);
            }
        }
        quantize_all(PQ_F32, PQ_I16, round, n, 1.0f, -1);
        quantize_all(PQ_F32, PQ_U16, round, n, 1.0f, 1);
    }
    check_end();
}

static void check_hard_quantize(enum pq_type real, enum pq_type code)
{
    const struct limits limits = limits_of(code);
    check_begin("hard %s quantized to %s", type_name(real), type_name(code));
    for (size_t i = 0; i < check_count(250); i++) {
        const float scale = draw_scale();
        const size_t n = 250;
        for (size_t e = 0; e < n; e++) {
            put_bits(x, real, e, draw_real(real, (double)scale, reach_of(code)));
        }
        for (size_t round = 0; round < STATIC_ROUNDS; round++) {
            quantize_all(real, code, static_round(round), n, scale,
                         (int32_t)draw_integer(limits.lo, limits.hi));
        }
    }
    check_end();
}

static void check_quantize_int64(enum pq_type real, enum pq_type code)
{
    const struct limits limits = limits_of(code);
    check_begin("wide %s quantized to %s", type_name(real), type_name(code));
    for (size_t i = 0; i < check_count(200); i++) {
        const struct pq_run general = {.in = real,
                                       .out = code,
                                       .compute = reals[i % 4],
                                       .round =
                                           static_round((size_t)i / 4 % STATIC_ROUNDS)};
        const size_t n = 200;
        for (size_t e = 0; e < n; e++) {
            wide_scales[e] = general.compute == PQ_F64 || real == PQ_F64
                                 ? draw_scale_f64()
                                 : (double)draw_scale();
            wide_zeros[e] = (double)draw_integer(limits.lo, limits.hi);
            put_bits(x, real, e, draw_real(real, wide_scales[e], reach_of(code)));
        }
        run_kernel(scalar, &general, 1, 1, x, y, n, 1, wide_scales, wide_zeros);
        for (size_t e = 0; e < n; e++) {
            const double q =
                quotient_in(general.compute, get_real(x, real, e), wide_scales[e]);
            const int64_t zero = (int64_t)wide_zeros[e];
            expect_code(e, real, code, code_of(q, general.round, zero, code),
                        wide_scales[e], zero, round_name(general.round));
        }
    }
    check_end();
}

/* Check quotients near the midpoints of a precision, where two roundings give a wrong
 * result. */
static void check_precision(enum pq_type real, enum pq_type compute)
{
    check_begin("quotient of %s in %s", type_name(real), type_name(compute));
    for (size_t i = 0; i < check_count(400); i++) {
        const struct pq_run general = {.in = real,
                                       .out = PQ_I32,
                                       .compute = compute,
                                       .round = static_round((size_t)i % STATIC_ROUNDS)};
        const size_t n = 100;
        for (size_t e = 0; e < n; e++) {
            const double k = (double)random_between(1, 3000) + 0.5;
            const int digits = compute == PQ_F16 ? 11 : compute == PQ_BF16 ? 8 : 24;
            const double ulp = ldexp(1, ilogb(k) - digits + 1);
            const double target = k + (double)random_between(-3, 3) * ulp / 2;
            wide_scales[e] = (double)f32_of_bits((uint32_t)random_between(100, 150) << 23 |
                                                 (uint32_t)random_below(1 << 23));
            if (real == PQ_F64 && random_chance(50)) { /* all 53 bits */
                wide_scales[e] *= 1 + random_unit() * 0x1p-24;
            }
            wide_zeros[e] = 0;
            const double product = target * wide_scales[e];
            uint64_t bits = real == PQ_F64 ? bits_of_f64(product) : 0;
            if (real == PQ_F32) {
                bits = bits_of_f32((float)product);
            } else if (real != PQ_F64) {
                bits = draw_real(real, wide_scales[e], 3000);
            }
            put_bits(x, real, e, bits + random_below(3) - 1);
        }
        run_kernel(scalar, &general, 1, 1, x, y, n, 1, wide_scales, wide_zeros);
        for (size_t e = 0; e < n; e++) {
            const double q = quotient_in(compute, get_real(x, real, e), wide_scales[e]);
            expect_code(e, real, PQ_I32, code_of(q, general.round, 0, PQ_I32),
                        wide_scales[e], 0, round_name(general.round));
        }
    }
    check_end();
}

/* ---- dequantize ---- */

static void check_dequantize(enum pq_type code, enum pq_type real)
{
    const struct limits limits = limits_of(code);
    const int64_t most = INT64_C(1) << 30;
    check_begin("%s dequantized to %s", type_name(code), type_name(real));
    for (size_t i = 0; i < check_count(300); i++) {
        const size_t n = 256;
        const float scale = draw_scale();
        for (size_t e = 0; e < n; e++) {
            const int64_t v = limits.hi - limits.lo == 255
                                  ? limits.lo + (int64_t)e
                                  : draw_integer(limits.lo, limits.hi);
            put_bits(x, code, e, (uint64_t)v);
            scales[e] = i % 2 == 0 ? scale : draw_scale();
            zeros[e] = (int32_t)(random_chance(70) ? draw_integer(limits.lo, limits.hi)
                                                   : draw_integer(-most, most));
        }
        for (int grp = 0; grp <= 1; grp++) {
            const struct pq_run options = {.in = code, .out = real, .compute = PQ_F32};
            run_kernel(scalar, &options, 0, 0, x, y, n, grp ? n : 1, scales, zeros);
            for (size_t e = 0; e < n; e++) {
                const size_t p = grp ? 0 : e;
                const uint64_t expected =
                    real_of(get_integer(x, code, e), (double)scales[p], zeros[p], real);
                expect_real(e, code, real, expected, (double)scales[p], zeros[p]);
            }
        }
    }
    check_end();
}

static void check_dequantize_int64(enum pq_type code, enum pq_type real)
{
    const struct limits limits = limits_of(code);
    const int64_t most = INT64_C(1) << 52;
    const struct pq_run general = {.in = code,
                                   .out = real,
                                   .compute = real == PQ_F64 ? PQ_F64 : PQ_F32,
                                   .round = PQ_HALF_EVEN};
    check_begin("wide %s dequantized to %s", type_name(code), type_name(real));
    for (size_t i = 0; i < check_count(200); i++) {
        const size_t n = 200;
        for (size_t e = 0; e < n; e++) {
            wide_scales[e] = real == PQ_F64 ? draw_scale_f64() : (double)draw_scale();
            wide_zeros[e] = (double)(random_chance(70) ? draw_integer(limits.lo, limits.hi)
                                                       : draw_integer(-most, most));
            put_bits(x, code, e, (uint64_t)draw_integer(limits.lo, limits.hi));
        }
        run_kernel(scalar, &general, 0, 1, x, y, n, 1, wide_scales, wide_zeros);
        for (size_t e = 0; e < n; e++) {
            const int64_t zero = (int64_t)wide_zeros[e];
            expect_real(e, code, real,
                        real_of(get_integer(x, code, e), wide_scales[e], zero, real),
                        wide_scales[e], zero);
        }
    }
    check_end();
}

/* ---- codes of 64 bits: integers of more, in two parts ---- */

/* An integer upper * 2^33 + lower, with lower >= 0. */
struct split {
    int64_t upper, lower;
};
#define SPLIT INT64_C(0x200000000)

static struct split carried(int64_t upper, int64_t lower)
{
    while (lower < 0) {
        lower += SPLIT;
        upper--;
    }
    return (struct split){upper + lower / SPLIT, lower % SPLIT};
}

/* Split an integer of at most 2^66 in magnitude. */
static struct split split_of_real(double v)
{
    const double upper = floor(v / (double)SPLIT);
    return (struct split){(int64_t)upper, (int64_t)(v - upper * (double)SPLIT)};
}

static struct split split_of_code(int64_t v, enum pq_type type)
{
    return carried(type == PQ_U64 ? (int64_t)((uint64_t)v / (uint64_t)SPLIT) : v / SPLIT,
                   type == PQ_U64 ? (int64_t)((uint64_t)v % (uint64_t)SPLIT) : v % SPLIT);
}

static struct split difference_of(struct split a, struct split b)
{
    return carried(a.upper - b.upper, a.lower - b.lower);
}

static int is_less(struct split a, struct split b)
{
    return a.upper < b.upper || (a.upper == b.upper && a.lower < b.lower);
}

static struct split magnitude_of(struct split v)
{
    return v.upper < 0 ? difference_of((struct split){0, 0}, v) : v;
}

static int64_t wide_code_of(double q, enum pq_round round, int64_t zero, enum pq_type code)
{
    const int64_t lowest = code == PQ_U64 ? 0 : INT64_MIN;
    const int64_t highest = code == PQ_U64 ? -1 : INT64_MAX; /* in two's complement */
    const double r = round_by_definition(q, round);
    if (!(r > -0x1p66)) {
        return lowest;
    }
    if (r >= 0x1p66) {
        return highest;
    }
    const struct split a = split_of_real(r), b = split_of_code(zero, code);
    const struct split sum = carried(a.upper + b.upper, a.lower + b.lower);
    return is_less(sum, split_of_code(lowest, code)) ? lowest
           : is_less(split_of_code(highest, code), sum)
               ? highest
               : (int64_t)((uint64_t)sum.upper * (uint64_t)SPLIT + (uint64_t)sum.lower);
}

/* Return the float32 number nearest to an integer: the best of some candidates. */
static float nearest_single(struct split v)
{
    const double near = (double)v.upper * (double)SPLIT + (double)v.lower;
    float best = (float)near;
    struct split least = magnitude_of(difference_of(v, split_of_real((double)best)));
    const uint32_t bits = bits_of_f32(best);
    for (uint32_t step = 0; step < 2 && near != 0; step++) {
        const float other = f32_of_bits(step == 0 ? bits + 1 : bits - 1);
        const struct split off =
            fabs((double)other) < 1
                ? least
                : magnitude_of(difference_of(v, split_of_real((double)other)));
        const int same = !is_less(off, least) && !is_less(least, off);
        if (is_less(off, least) || (same && bits % 2 != 0 && fabs((double)other) >= 1)) {
            best = other;
            least = off;
        }
    }
    return best;
}

static uint64_t wide_real_of(int64_t q, double scale, int64_t zero, enum pq_type code,
                             enum pq_type zero_type, enum pq_type real)
{
    const struct split d =
        difference_of(split_of_code(q, code), split_of_code(zero, zero_type));
    if (real == PQ_F64) { /* the first product is exact */
        const double v = ((double)d.upper * (double)SPLIT + (double)d.lower) * scale;
        return isnan(v) ? UINT64_C(0x7ff8000000000000) : bits_of_f64(v);
    }
    return real_bits(real, nearest_single(d) * (float)scale);
}

static int64_t draw_wide(void)
{
    const int64_t near = INT64_C(1) << (20 + random_below(43));
    return random_chance(40)   ? (int64_t)random_bits()
           : random_chance(50) ? draw_integer(INT64_MIN, INT64_MAX)
                               : near - 2 + (int64_t)random_below(5);
}

static void check_quantize_64(enum pq_type real, enum pq_type code)
{
    static uint64_t bits[MAX_N];
    check_begin("%s quantized to %s", type_name(real), type_name(code));
    for (size_t i = 0; i < check_count(400); i++) {
        const struct pq_run wide = {.in = real,
                                    .out = code,
                                    .compute = reals[i % 4],
                                    .round = static_round((size_t)i / 4 % STATIC_ROUNDS)};
        const size_t n = 200;
        for (size_t e = 0; e < n; e++) {
            const double limit = random_chance(50) ? 0x1p67 : 0x1p54;
            wide_scales[e] = wide.compute == PQ_F64 || real == PQ_F64
                                 ? draw_scale_f64()
                                 : (double)draw_scale();
            bits[e] = (uint64_t)draw_wide();
            put_bits(x, real, e, draw_real(real, wide_scales[e], limit));
        }
        run_kernel(scalar, &wide, 1, 1, x, y, n, 1, wide_scales, bits);
        for (size_t e = 0; e < n; e++) {
            const double q =
                quotient_in(wide.compute, get_real(x, real, e), wide_scales[e]);
            const int64_t zero = (int64_t)bits[e];
            expect_code(e, real, code, wide_code_of(q, wide.round, zero, code),
                        wide_scales[e], zero, round_name(wide.round));
        }
    }
    check_end();
}

static void check_dequantize_64(enum pq_type code, enum pq_type real)
{
    static uint64_t bits[MAX_N];
    check_begin("%s dequantized to %s", type_name(code), type_name(real));
    for (size_t i = 0; i < check_count(400); i++) {
        const struct pq_run wide = {.in = code,
                                    .out = real,
                                    .compute = real == PQ_F64 ? PQ_F64 : PQ_F32,
                                    .unsigned_zero = code == PQ_U64 && i % 2 == 0};
        const enum pq_type zero_type = wide.unsigned_zero ? PQ_U64 : PQ_I64;
        const size_t n = 200;
        for (size_t e = 0; e < n; e++) {
            wide_scales[e] = real == PQ_F64 ? draw_scale_f64() : (double)draw_scale();
            bits[e] = (uint64_t)draw_wide();
            put_bits(x, code, e,
                     random_chance(50) ? (uint64_t)draw_wide()
                                       : bits[e] + random_below(99));
        }
        run_kernel(scalar, &wide, 0, 1, x, y, n, 1, wide_scales, bits);
        for (size_t e = 0; e < n; e++) {
            const int64_t zero = (int64_t)bits[e];
            expect_real(e, code, real,
                        wide_real_of(get_integer(x, code, e), wide_scales[e], zero, code,
                                     zero_type, real),
                        wide_scales[e], zero);
        }
    }
    check_end();
}

/* ---- extrema ---- */

static void check_minmax(enum pq_type real)
{
    check_begin("extrema of %s", type_name(real));
    for (size_t i = 0; i < check_count(4000); i++) {
        const size_t n = random_below(100);
        float lo = random_chance(50) ? INFINITY : 1.0f;
        float hi = random_chance(50) ? -INFINITY : 2.0f;
        uint32_t bits = random_chance(5) ? 0x7f800001 : 0;
        double expected_lo = (double)lo, expected_hi = (double)hi;
        int finite = bits == 0;
        const int tame = random_chance(80);
        for (size_t e = 0; e < n; e++) {
            do {
                put_bits(x, real, e, draw_real(real, 0.1, 1000));
            } while (tame && !isfinite(get_real(x, real, e)));
            const double v = get_real(x, real, e);
            finite = finite && isfinite(v);
            expected_lo = v < expected_lo ? v : expected_lo;
            expected_hi = v > expected_hi ? v : expected_hi;
        }
        scalar->minmax[pq_row_of(real)](x, n, &lo, &hi, &bits);
        CHECK((bits < 0x7f800000) == finite, "n %zu: bits %#x", n, (unsigned)bits);
        CHECK(!finite || ((double)lo == expected_lo && (double)hi == expected_hi),
              "n %zu: %a .. %a, expected %a .. %a", n, (double)lo, (double)hi, expected_lo,
              expected_hi);
    }
    check_end();
}

/* ---- inputs that tell right from nearly right ---- */

struct regression {
    float x, scale;
    int64_t zero;
    enum pq_type code;
    enum pq_round round;
    int64_t expected;
};

static const struct regression regressions[] = {
    /* adding a half before truncating */
    {0.49999997f, 1, 0, PQ_I8, PQ_HALF_AWAY, 0},
    {-0.49999997f, 1, 0, PQ_I8, PQ_HALF_AWAY, 0},
    {0.49999997f, 1, 0, PQ_I8, PQ_HALF_UP, 0},
    {-0.49999997f, 1, 0, PQ_I8, PQ_HALF_DOWN, 0},
    {0.49999997f, 1, 1, PQ_U8, PQ_HALF_EVEN, 1},
    {8388609, 1, 0, PQ_I32, PQ_HALF_AWAY, 8388609},
    {8388609, 1, 0, PQ_I32, PQ_HALF_TOWARD_ZERO, 8388609},
    {8388609, 1, 0, PQ_I32, PQ_HALF_UP, 8388609},
    {8388609, 1, 0, PQ_I32, PQ_HALF_DOWN, 8388609},
    {8388609, 1, 0, PQ_I32, PQ_HALF_EVEN, 8388609},
    {-8388609, 1, 0, PQ_I32, PQ_HALF_EVEN, -8388609},
    {16777215, 1, 0, PQ_U32, PQ_HALF_AWAY, 16777215},
    /* multiplying by the reciprocal */
    {0.273939937f, 0.00214854861f, 0, PQ_I16, PQ_HALF_EVEN, 127},
    {0.273939937f, 0.00214854861f, 0, PQ_I8, PQ_HALF_EVEN, 127},
    {-45.5f, 7, 0, PQ_I8, PQ_HALF_EVEN, -6},
    {-2.25f, 0.3f, 0, PQ_I8, PQ_HALF_EVEN, -7},
    {-0.22999999f, 0.02f, 0, PQ_I8, PQ_HALF_EVEN, -12},
    {-10.849999f, 0.7f, 0, PQ_I8, PQ_HALF_EVEN, -15},
    {-0.68897635f, 0.0078740157f, 0, PQ_I8, PQ_HALF_EVEN, -88},
    /* the zero point comes after the rounding */
    {0.5f, 1, 1, PQ_U8, PQ_HALF_EVEN, 1},
    {1.5f, 1, 1, PQ_U8, PQ_HALF_EVEN, 3},
    {2.5f, 1, 1, PQ_U8, PQ_HALF_EVEN, 3},
    {-0.5f, 1, -3, PQ_I8, PQ_HALF_EVEN, -3},
    {-1.5f, 1, -3, PQ_I8, PQ_HALF_EVEN, -5},
    /* NaN, infinities and numbers beyond int32 */
    {NAN, 1, 0, PQ_I8, PQ_HALF_EVEN, -128},
    {NAN, 1, 100, PQ_U8, PQ_HALF_EVEN, 0},
    {NAN, 1, 0, PQ_I32, PQ_HALF_EVEN, INT32_MIN},
    {NAN, 1, 7, PQ_U32, PQ_HALF_EVEN, 0},
    {INFINITY, 1, -10, PQ_I8, PQ_HALF_EVEN, 127},
    {-INFINITY, 1, -10, PQ_I8, PQ_HALF_EVEN, -128},
    {-INFINITY, 1, 255, PQ_U8, PQ_HALF_EVEN, 0},
    {3e9f, 1, 128, PQ_U8, PQ_HALF_EVEN, 255},
    {1e38f, 1, 255, PQ_U8, PQ_HALF_EVEN, 255},
    {-3e9f, 1, -128, PQ_I8, PQ_HALF_EVEN, -128},
    {-3e9f, 1, 127, PQ_I8, PQ_HALF_EVEN, -128},
    {2147483648.f, 1, 0, PQ_I32, PQ_HALF_EVEN, INT32_MAX},
    {2147483520.f, 1, 0, PQ_I32, PQ_HALF_EVEN, 2147483520},
    {2147483648.f, 1, -1, PQ_I32, PQ_HALF_EVEN, INT32_MAX},
    {2147483648.f, 1, -2, PQ_I32, PQ_HALF_EVEN, 2147483646},
    {3e9f, 1, -2000000000, PQ_I32, PQ_HALF_EVEN, 1000000000},
    {-2147483648.f, 1, 0, PQ_I32, PQ_HALF_EVEN, INT32_MIN},
    {-3e9f, 1, 0, PQ_I32, PQ_HALF_EVEN, INT32_MIN},
    {INFINITY, 1, 0, PQ_I32, PQ_HALF_EVEN, INT32_MAX},
    {4294967296.f, 1, 0, PQ_U32, PQ_HALF_EVEN, UINT32_MAX},
    {4294967040.f, 1, 0, PQ_U32, PQ_HALF_EVEN, 4294967040},
    {-1, 1, 5, PQ_U32, PQ_HALF_EVEN, 4},
    /* scales of 0, infinity and NaN */
    {1, 0.0f, 5, PQ_U8, PQ_HALF_EVEN, 255},
    {-1, 0.0f, 5, PQ_U8, PQ_HALF_EVEN, 0},
    {0, 0.0f, 5, PQ_U8, PQ_HALF_EVEN, 0},
    {1, -0.0f, 5, PQ_U8, PQ_HALF_EVEN, 0},
    {-1, -0.0f, 5, PQ_U8, PQ_HALF_EVEN, 255},
    {1, -1, 0, PQ_I8, PQ_HALF_EVEN, -1},
    {2.5f, -1, 0, PQ_I8, PQ_HALF_EVEN, -2},
    {1, NAN, 3, PQ_U8, PQ_HALF_EVEN, 0},
    {1, INFINITY, 5, PQ_U8, PQ_HALF_EVEN, 5},
    {INFINITY, INFINITY, 5, PQ_U8, PQ_HALF_EVEN, 0},
    {1e-40f, 1e-40f, 5, PQ_U8, PQ_HALF_EVEN, 6},
    {5e-40f, 1e-40f, 5, PQ_U8, PQ_HALF_EVEN, 10},
    {1, 1e-40f, 5, PQ_U8, PQ_HALF_EVEN, 255},
    {0x1p-149f, 0x1p-149f, 5, PQ_U8, PQ_HALF_EVEN, 6},
    {0x15p-149f, 0x1p-149f, 5, PQ_U8, PQ_HALF_EVEN, 26},
    {0x1p-149f, 1.76f, 0, PQ_I8, PQ_CEIL, 1},
    {-0x1p-149f, 1.76f, 0, PQ_I8, PQ_FLOOR, -1},
    {0x1p-149f, 1e30f, 0, PQ_I8, PQ_CEIL, 0},
    {0x1.fffffep127f, 0x1.fffffep127f, 1, PQ_I16, PQ_TRUNC, 2},
};

/* Check the rounding modes against the table of nGraph. */
static const double table_inputs[] = {2.5, -2.5, 3.5, -3.5, 2.25, -2.25, 2.75, -2.75};
static const signed char table[][8] = {
    [PQ_HALF_AWAY] = {3, -3, 4, -4, 2, -2, 3, -3},
    [PQ_HALF_TOWARD_ZERO] = {2, -2, 3, -3, 2, -2, 3, -3},
    [PQ_HALF_UP] = {3, -2, 4, -3, 2, -2, 3, -3},
    [PQ_HALF_DOWN] = {2, -3, 3, -4, 2, -2, 3, -3},
    [PQ_HALF_EVEN] = {2, -2, 4, -4, 2, -2, 3, -3},
    [PQ_AWAY] = {3, -3, 4, -4, 3, -3, 3, -3},
    [PQ_TRUNC] = {2, -2, 3, -3, 2, -2, 2, -2},
    [PQ_CEIL] = {3, -2, 4, -3, 3, -2, 3, -2},
    [PQ_FLOOR] = {2, -3, 3, -4, 2, -3, 2, -3},
    [PQ_HALF_ODD] = {3, -3, 3, -3, 2, -2, 3, -3},
};
_Static_assert(sizeof table / sizeof *table == PQ_ROUND_COUNT, "a mode lacks a row");

/* Quantize one element with every table, in runs of 1 and of 100. */
static void expect_everywhere(const struct regression *r)
{
    for (int i = 0; pq_isa_name(i) != NULL; i++) {
        const struct pq_kernels *k = pq_isa_find(pq_isa_name(i));
        const size_t n = 100;
        for (size_t e = 0; e < n; e++) {
            put_bits(x, PQ_F32, e, bits_of_f32(r->x));
            scales[e] = r->scale;
            zeros[e] = r->code == PQ_U32 ? 0 : (int32_t)r->zero;
            wide_scales[e] = (double)r->scale;
            wide_zeros[e] = (double)r->zero;
        }
        for (int form = 0; form < 3; form++) {
            const struct pq_run options = {
                .in = PQ_F32, .out = r->code, .compute = PQ_F32, .round = r->round};
            memset(y, 0x55, n * sizeof y[0]);
            if (form == 2) {
                run_kernel(k, &options, 1, 1, x, y, n, 1, wide_scales, wide_zeros);
            } else if (r->code <= PQ_U16) {
                run_kernel(k, &options, 1, 0, x, y, n, form == 0 ? 1 : n, scales, zeros);
            } else {
                continue;
            }
            expect_code(0, PQ_F32, r->code, r->expected, (double)r->scale, r->zero,
                        k->name);
            expect_code(n - 1, PQ_F32, r->code, r->expected, (double)r->scale, r->zero,
                        k->name);
        }
    }
}

static void check_regressions(void)
{
    check_begin("inputs that tell right from nearly right");
    for (size_t i = 0; i < sizeof regressions / sizeof regressions[0]; i++) {
        expect_everywhere(&regressions[i]);
    }
    check_end();

    check_begin("the modes as tabulated");
    for (size_t m = 0; m < STATIC_ROUNDS; m++) {
        const enum pq_round round = static_round(m);
        for (int i = 0; i < 8; i++) {
            for (int c = 0; c < 6; c++) {
                const int64_t zero = c % 2 == 0 ? 0 : 10;
                const struct regression r = {
                    (float)table_inputs[i], 1, zero, codes[c], round,
                    table[round][i] + zero};
                expect_everywhere(&r);
            }
        }
    }
    check_end();

    check_begin("quotients in float64");
    static const struct {
        double x, scale;
        enum pq_type compute;
        enum pq_round round;
        int64_t expected;
    } doubles[] = {
        {0.49999999999999994, 1, PQ_F64, PQ_HALF_AWAY, 0},
        {0.49999999999999994, 1, PQ_F64, PQ_HALF_UP, 0},
        {-0.49999999999999994, 1, PQ_F64, PQ_HALF_DOWN, 0},
        {0.49999999999999994, 1, PQ_F32, PQ_HALF_AWAY, 1}, /* the float32 quotient is 0.5 */
        {2147483647.5, 1, PQ_F64, PQ_HALF_EVEN, INT32_MAX},
        {2147483646.5, 1, PQ_F64, PQ_HALF_EVEN, 2147483646},
        {-2147483648.5, 1, PQ_F64, PQ_FLOOR, INT32_MIN},
        {1e300, 1e-300, PQ_F64, PQ_HALF_EVEN, INT32_MAX},
        {5e-324, 5e-324, PQ_F64, PQ_HALF_EVEN, 1},
        {1 + 0x1p-24 + 0x1p-52, 1, PQ_F32, PQ_CEIL, 2}, /* above the midpoint */
        {1 + 0x1p-24, 1, PQ_F32, PQ_CEIL, 1},           /* the midpoint, to even */
        {0.25, 0x1.998p-4, PQ_F16, PQ_HALF_EVEN, 2},    /* 2.5 in float16 */
        {0.25, 0x1.998p-4, PQ_F32, PQ_HALF_EVEN, 3},
        {65519.99, 1, PQ_F16, PQ_HALF_EVEN, 65504},
        {65520, 1, PQ_F16, PQ_HALF_EVEN, INT32_MAX},
    };
    for (size_t i = 0; i < sizeof doubles / sizeof doubles[0]; i++) {
        const struct pq_run general = {.in = PQ_F64,
                                       .out = PQ_I32,
                                       .compute = doubles[i].compute,
                                       .round = doubles[i].round};
        const double zero = 0;
        put_bits(x, PQ_F64, 0, bits_of_f64(doubles[i].x));
        run_kernel(scalar, &general, 1, 1, x, y, 1, 1, &doubles[i].scale, &zero);
        expect_code(0, PQ_F64, PQ_I32, doubles[i].expected, doubles[i].scale, 0,
                    type_name(doubles[i].compute));
    }
    check_end();

    check_begin("differences that float32 and int32 cannot hold");
    static const struct {
        enum pq_type code;
        int64_t q, zero;
        float expected;
    } differences[] = {
        {PQ_I32, 16777217, 1, 16777216.0f},
        {PQ_I32, INT32_MIN, 1, -2147483648.0f},
        {PQ_I32, INT32_MAX, INT32_MIN, 4294967296.0f},
        {PQ_I32, INT32_MAX, 0, 2147483648.0f},
        {PQ_U32, 0, UINT32_MAX, -4294967296.0f},
        {PQ_I8, 127, 16777217, -16777090.0f},
        {PQ_U8, 3, 3, 0.0f},
    };
    for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++) {
        const struct pq_run general = {.in = differences[i].code,
                                       .out = PQ_F32,
                                       .compute = PQ_F32,
                                       .round = PQ_HALF_EVEN};
        const double one = 1, zero = (double)differences[i].zero;
        put_bits(x, differences[i].code, 0, (uint64_t)differences[i].q);
        run_kernel(scalar, &general, 0, 1, x, y, 1, 1, &one, &zero);
        expect_real(0, differences[i].code, PQ_F32, bits_of_f32(differences[i].expected), 1,
                    differences[i].zero);
    }
    check_end();
}

int main(int argc, char **argv)
{
    (void)argc;
    check_start(argv[0]);
    make_values();
    check_regressions();
    check_formats();
    check_halves(PQ_F16);
    check_halves(PQ_BF16);
    for (size_t round = 0; round < STATIC_ROUNDS; round++) {
        check_roundings(static_round(round));
    }
    for (int r = 0; r < 4; r++) {
        for (int c = 0; c < 6; c++) {
            if (r < PQ_REALS && c < CODES) {
                check_hard_quantize(reals[r], codes[c]);
                check_dequantize(codes[c], reals[r]);
            }
            check_quantize_int64(reals[r], codes[c]);
            check_dequantize_int64(codes[c], reals[r]);
        }
        for (int c = 0; c < 2; c++) {
            check_quantize_64(reals[r], c == 0 ? PQ_I64 : PQ_U64);
            check_dequantize_64(c == 0 ? PQ_I64 : PQ_U64, reals[r]);
        }
        if (r < PQ_REALS) {
            check_minmax(reals[r]);
        }
        check_precision(reals[r], PQ_F16);
        check_precision(reals[r], PQ_BF16);
        check_precision(reals[r], PQ_F32);
    }
    return check_finish();
}
