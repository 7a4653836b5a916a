/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check pq_requantize(). Compare the results of random calls with the definition, which
 * computes sums in 64 bits. Arrays are between inaccessible pages. Also check the errors of
 * invalid calls.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "drivers.h"
#include "math/fpenv.h"

enum { MOST = 3000, CHANNELS = 700 };

static const enum pq_type sources[] = {PQ_I8,  PQ_U8,  PQ_I16, PQ_U16, PQ_I32,
                                       PQ_I32, PQ_I32, PQ_U32, PQ_I64};
static const enum pq_type targets[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I32};

static struct {
    struct pq_requantization args;
    ptrdiff_t shape[3];
    struct view in, out;
    float f32[CHANNELS];
    double f64[CHANNELS];
    int32_t m[CHANNELS];
    int8_t shift[CHANNELS];
    int32_t bias[CHANNELS];
} call;

/* ---- the definition ---- */

static int64_t power(int exponent)
{
    return INT64_C(1) << exponent;
}

/* Return a * b / 2^31, rounded as gemmlowp rounds. No call overflows 64 bits. */
static int64_t high_product(int64_t a, int64_t b)
{
    const int64_t nudge = a * b >= 0 ? power(30) : 1 - power(30);
    return (a * b + nudge) / power(31);
}

static int64_t divide_by_power(int64_t x, int exponent)
{
    const int64_t mask = power(exponent) - 1;
    return (x >> exponent) + ((x & mask) > (mask >> 1) + (x < 0));
}

static int64_t fixed_product(int64_t v, int64_t m, int shift)
{
    switch (call.args.arithmetic) {
    case PQ_ARITHMETIC_TFLITE:
        return shift > 0 ? (v * m + power(30 - shift)) >> (31 - shift)
                         : divide_by_power(high_product(v, m), -shift);
    case PQ_ARITHMETIC_TFLITE_SINGLE:
        return (v * m + power(30 - shift)) >> (31 - shift);
    default:
        return (v * m + power(shift - 1)) >> shift;
    }
}

static double channel_real(size_t c)
{
    return call.args.multiplier.type == PQ_F32 ? (double)call.f32[c] : call.f64[c];
}

static int64_t expected_code(int64_t q, size_t channel)
{
    const struct pq_requantization *const a = &call.args;
    const size_t c = a->multiplier.stride != 0 ? channel : 0;
    const struct limits all = limits_of(a->out.type);
    const int64_t lo = a->clips ? a->lowest_code : all.lo;
    const int64_t hi = a->clips ? a->highest_code : all.hi;
    const int64_t bias =
        a->bias.data == NULL ? 0 : call.bias[a->bias.stride != 0 ? channel : 0];
    const int64_t v = q - a->input_zero + bias;
    int64_t r;
    if (a->arithmetic == PQ_ARITHMETIC_FLOAT32) {
        const double p = (double)((float)v * (float)channel_real(c));
        r = p < -0x1p40 ? -power(40) : p > 0x1p40 ? power(40) : (int64_t)nearbyint(p);
    } else if (a->shift.data != NULL) {
        r = fixed_product(v, call.m[c], call.shift[c]);
    } else {
        int32_t m = 0;
        int shift = 0;
        pq_fixed_point(a->arithmetic, channel_real(c), &m, &shift);
        r = fixed_product(v, m, shift);
    }
    r += a->zero;
    return r < lo ? lo : r > hi ? hi : r;
}

/* ---- random calls ---- */

static double draw_multiplier(void)
{
    const double one = random_chance(30) ? 0.5 : 0.5 + random_unit() / 2;
    const int least = random_chance(50) ? -31 : -20;
    return ldexp(one, (int)random_between(least, random_chance(30) ? 7 : 0));
}

/* Return a random integer. The sum of two of these integers often fits in 32 bits. */
static int64_t draw_element(enum pq_type type)
{
    struct limits all = limits_of(type);
    const int64_t most = INT64_C(1) << 31;
    all.lo = all.lo < -most ? -most : all.lo;
    all.hi = all.hi > most ? most : all.hi;
    const int64_t v = draw_integer(all.lo, all.hi);
    return random_chance(60) ? v >> random_below(30) : v;
}

static void draw_channels(size_t channels)
{
    struct pq_requantization *const a = &call.args;
    const int fixed = a->arithmetic != PQ_ARITHMETIC_FLOAT32;
    const int stored = fixed && random_chance(30), single = random_chance(40);
    const int left = a->arithmetic == PQ_ARITHMETIC_TFLITE ||
                     a->arithmetic == PQ_ARITHMETIC_TFLITE_SINGLE;
    const double common = draw_multiplier();
    for (size_t c = 0; c < channels; c++) {
        call.f64[c] = single ? common * (1 + random_unit()) / 2 : draw_multiplier();
        call.f64[c] = call.f64[c] < 0x1p-32 ? 0x1p-32 : call.f64[c];
        call.f32[c] = (float)call.f64[c];
        call.m[c] = (int32_t)(random_bits() >> 33 >> (random_chance(20) ? 12 : 0));
        /* Limit the shift, so that v * m + 2^(shift - 1) fits in 64 bits. */
        call.shift[c] = (int8_t)(left ? random_between(-30, 8) : random_between(20, 61));
        call.bias[c] = (int32_t)draw_integer(-1000000, 1000000);
        if (random_chance(1)) {
            call.bias[c] = (int32_t)draw_integer(INT32_MIN / 2, INT32_MAX / 2);
        }
    }
    const int is_f64 = random_chance(50), many = channels > 1 && random_chance(80);
    a->multiplier = is_f64 ? (struct pq_channels){call.f64, many * 8, PQ_F64, 0}
                           : (struct pq_channels){call.f32, many * 4, PQ_F32, 0};
    a->shift = (struct pq_channels){.data = NULL};
    if (stored) {
        a->multiplier = (struct pq_channels){call.m, many * 4, PQ_I32, 0};
        a->shift = (struct pq_channels){call.shift, many, PQ_I8, 0};
    }
    a->bias = (struct pq_channels){.data = NULL};
    if (random_chance(50)) {
        const int each = channels > 1 && random_chance(50);
        a->bias = (struct pq_channels){call.bias, each * 4, PQ_I32, 0};
    }
}

static void draw_call(void)
{
    struct pq_requantization *const a = &call.args;
    memset(a, 0, sizeof *a);
    a->size = sizeof *a;
    a->ndim = 3;
    call.shape[1] = random_chance(30)
                        ? 1
                        : 1 + (ptrdiff_t)random_below(random_chance(10) ? CHANNELS : 70);
    call.shape[0] = 1 + (ptrdiff_t)random_below(3);
    call.shape[2] = 1 + (ptrdiff_t)random_below((size_t)(MOST / 3 / call.shape[1]));
    if (random_chance(40)) { /* the channels are contiguous */
        call.shape[2] = 1;
    }
    a->shape = call.shape;
    a->axis = 1;
    a->arithmetic = (enum pq_arithmetic)random_below(PQ_ARITHMETIC_COUNT);
    a->in.type = sources[random_below(COUNT(sources))];
    a->out.type = targets[random_below(COUNT(targets))];
    const struct limits codes = limits_of(a->out.type), all = limits_of(a->in.type);
    a->zero = random_chance(50) ? 0 : draw_integer(codes.lo, codes.hi);
    a->input_zero = random_chance(70) || pq_type_bits(a->in.type) > 16
                        ? 0
                        : draw_integer(all.lo, all.hi);
    a->clips = random_chance(30);
    a->lowest_code = draw_integer(codes.lo, codes.hi);
    a->highest_code = draw_integer(a->lowest_code, codes.hi);
    draw_channels((size_t)call.shape[1]);
}

/* Run the call in one or several parts, and compare the results with the definition. */
static void check_call(const struct pq_kernels *table)
{
    struct pq_requantization *const a = &call.args;
    const int parts = random_chance(70) ? 1 : 1 + (int)random_below(5);
    draw_view(&call.in, &memory.in, 3, call.shape, a->in.type, GAPPED);
    draw_view(&call.out, &memory.out, 3, call.shape, a->out.type, GAPPED);
    a->in = call.in.array;
    a->out = call.out.array;
    EACH_INDEX(index, 3, call.shape) {
        put_element(&a->in, element_at(&a->in, 3, index, NULL),
                    (uint64_t)draw_element(a->in.type));
    }
    for (int part = 0; part < parts; part++) {
        EXPECT(PQ_OK, pq_requantize(table, a, part, parts));
    }
    EACH_INDEX(index, 3, call.shape) {
        const int64_t q = integer_at(&a->in, element_at(&a->in, 3, index, NULL));
        const int64_t got = integer_at(&a->out, element_at(&a->out, 3, index, NULL));
        const int64_t want = expected_code(q, (size_t)index[1]);
        CHECK(got == want,
              "arithmetic %d, %s to %s, element %td %td %td of %td %td %td: %lld gives "
              "%lld, expected %lld",
              (int)a->arithmetic, type_name(a->in.type), type_name(a->out.type), index[0],
              index[1], index[2], call.shape[0], call.shape[1], call.shape[2], (long long)q,
              (long long)got, (long long)want);
    }
}

static void check_requantize(const struct pq_kernels *k, pq_requantize_fn *kernel)
{
    struct pq_kernels table = pq_kernels_scalar;
    table.requantize = kernel;
    check_begin("random calls of %s", k->name);
    CASES(i, check_count(4000)) {
        draw_call();
        check_call(&table);
    }
}

/* ---- errors ---- */

static void check_refusals(void)
{
    const struct pq_kernels *const k = tables[0];
    int32_t x[6] = {0};
    int8_t y[6] = {9, 9, 9, 9, 9, 9};
    float r[3] = {1, 1, 1};
    const ptrdiff_t in[] = {12, 4}, out[] = {3, 1}, shape[] = {2, 3}, none[] = {-1, 3},
                    over[] = {1, 1};
    const struct pq_requantization good = {
        .size = sizeof good,
        .ndim = 2,
        .shape = shape,
        .in = {.data = x, .strides = in, .type = PQ_I32},
        .out = {.data = y, .strides = out, .type = PQ_I8},
        .axis = 1,
        .multiplier = {r, sizeof *r, PQ_F32, 0},
    };
    const double real = 0.5;
    const int32_t m = 5;
    int32_t integer;
    int shift;
    const struct pq_channels ints = {&m, 0, PQ_I32, 0},
                             large = {&m, PTRDIFF_MAX / 2, PQ_I32, 0};
    check_begin("refusals");
    struct pq_requantization args = good;
#define REFUSES(due, change) AFTER(due, change, pq_requantize(k, &args, 0, 1))
    EXPECT(PQ_ERR_NULL, pq_requantize(k, NULL, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_requantize(NULL, &good, 0, 1));
    EXPECT(PQ_ERR_PART, pq_requantize(k, &good, 1, 1));
    EXPECT(PQ_ERR_PART, pq_requantize(k, &good, -1, 1));
    EXPECT(PQ_ERR_NULL, pq_fixed_point(PQ_ARITHMETIC_TFLITE, 1, NULL, &shift));
    EXPECT(PQ_ERR_NULL, pq_fixed_point(PQ_ARITHMETIC_TFLITE, 1, &integer, NULL));
    EXPECT(PQ_ERR_OPTION, pq_fixed_point(PQ_ARITHMETIC_FLOAT32, 1, &integer, &shift));
    EXPECT(PQ_ERR_OPTION, pq_fixed_point(PQ_ARITHMETIC_FBGEMM, NAN, &integer, &shift));
    REFUSES(PQ_ERR_SIZE, args.size = 8);
    REFUSES(PQ_ERR_SIZE, args.size--);
    REFUSES(PQ_ERR_NDIM, args.ndim = PQ_MAX_NDIM + 1);
    REFUSES(PQ_ERR_NDIM, args.ndim = -1);
    REFUSES(PQ_ERR_SHAPE, args.shape = none);
    REFUSES(PQ_ERR_NULL, args.shape = NULL);
    REFUSES(PQ_ERR_NULL, args.in.data = NULL);
    REFUSES(PQ_ERR_NULL, args.out.strides = NULL);
    REFUSES(PQ_ERR_NULL, args.multiplier.data = NULL);
    REFUSES(PQ_ERR_SHAPE, args.axis = 2);
    REFUSES(PQ_ERR_SHAPE, args.axis = -1);
    REFUSES(PQ_ERR_SHAPE, args.axis = INT32_MIN);
    REFUSES(PQ_ERR_SHAPE, args.bias = large);
    REFUSES(PQ_ERR_OVERLAP, args.out.strides = over);
    REFUSES(PQ_ERR_TYPE, args.in.type = PQ_F32);
    REFUSES(PQ_ERR_TYPE, args.in.type = PQ_U64);
    REFUSES(PQ_ERR_TYPE, args.in.type = PQ_I4);
    REFUSES(PQ_ERR_TYPE, args.in.type = PQ_NO_TYPE);
    REFUSES(PQ_ERR_TYPE, args.out.type = PQ_U32);
    REFUSES(PQ_ERR_TYPE, args.out.type = PQ_I64);
    REFUSES(PQ_ERR_TYPE, args.multiplier.type = PQ_F16);
    REFUSES(PQ_ERR_TYPE, args.multiplier = ints);
    REFUSES(PQ_ERR_TYPE, args.multiplier.type = (enum pq_type) - 1);
    REFUSES(PQ_ERR_TYPE, args.bias = good.multiplier);
    REFUSES(PQ_ERR_TYPE, args.bias = ints; args.bias.type = PQ_TYPE_COUNT);
    REFUSES(PQ_ERR_OPTION, args.shift = ints; args.multiplier = ints);
    REFUSES(PQ_ERR_OPTION, args.arithmetic = PQ_ARITHMETIC_COUNT);
    REFUSES(PQ_ERR_OPTION, args.arithmetic = (enum pq_arithmetic) - 1);
    REFUSES(PQ_ERR_ZERO, args.zero = 128);
    REFUSES(PQ_ERR_ZERO, args.zero = INT64_MIN);
    REFUSES(PQ_ERR_ZERO, args.input_zero = INT64_MIN);
    REFUSES(PQ_ERR_ZERO, args.input_zero = INT64_C(1) << 31);
    REFUSES(PQ_ERR_OPTION, args.clips = 1; args.lowest_code = 1);
    REFUSES(PQ_ERR_OPTION, args.clips = 1; args.highest_code = 128);
    REFUSES(PQ_ERR_OPTION, args.clips = 1; args.lowest_code = INT64_MIN);
    r[2] = -1;
    REFUSES(PQ_ERR_OPTION, (void)0);
    r[2] = INFINITY;
    REFUSES(PQ_ERR_OPTION, (void)0);
    r[2] = 1;
    for (int i = 0; i < 6; i++) {
        CHECK(y[i] == 9, "code %d was written", i);
    }
    REFUSES(PQ_OK, args.multiplier.data = &real; args.multiplier.type = PQ_F64;
            args.multiplier.stride = 0; args.axis = 99);
#undef REFUSES
}

static void check_alone(void)
{
    make_arenas();
    check_refusals();
}

#undef REQUANTIZE
#define REQUANTIZE TEST
#include "program.h"
