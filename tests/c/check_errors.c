/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check that invalid calls return the right status and write nothing; which instruction
 * sets are available; and rounding modes that callers leave behind.
 */
#include <fenv.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "kernels/kernels.h"

/* ---- a call to spoil ---- */

enum { ROWS = 2, COLUMNS = 3, BIG = PQ_MAX_NDIM + 1 };

/* A small valid call. Each test spoils a copy. */
static struct {
    float reals[ROWS * COLUMNS], scale[ROWS * COLUMNS];
    unsigned char codes[ROWS * COLUMNS], zero[ROWS * COLUMNS * 8];
    double lo[ROWS * COLUMNS], hi[ROWS * COLUMNS];
    ptrdiff_t shape[BIG], block[BIG];
    ptrdiff_t in[BIG], out[BIG], params[BIG], zeros[BIG];
} small;

static struct pq_args valid_args(int quantize, enum pq_type zero_type)
{
    const ptrdiff_t real = (ptrdiff_t)sizeof(float), code = 1;
    const ptrdiff_t zero = (ptrdiff_t)pq_type_size(zero_type);
    memset(&small, 0, sizeof small);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        small.reals[i] = (float)i - 2.0f;
        small.scale[i] = 0.5f;
        small.codes[i] = (unsigned char)(10 * i);
        small.lo[i] = (double)INFINITY;
        small.hi[i] = (double)-INFINITY;
    }
    for (int d = 0; d < BIG; d++) {
        small.shape[d] = 1;
        small.block[d] = 1;
    }
    small.shape[0] = ROWS;
    small.shape[1] = COLUMNS;
    small.in[0] = COLUMNS * (quantize ? real : code);
    small.in[1] = quantize ? real : code;
    small.out[0] = COLUMNS * (quantize ? code : real);
    small.out[1] = quantize ? code : real;
    small.params[0] = COLUMNS * real;
    small.params[1] = real;
    small.zeros[0] = COLUMNS * zero;
    small.zeros[1] = zero;
    struct pq_args args = {
        .size = sizeof args,
        .ndim = 2,
        .shape = small.shape,
        .block = small.block,
        .in = {quantize ? (void *)small.reals : (void *)small.codes, small.in,
               quantize ? PQ_F32 : PQ_I8, 0, NULL},
        .out = {quantize ? (void *)small.codes : (void *)small.reals, small.out,
                quantize ? PQ_I8 : PQ_F32, 0, NULL},
        .scale = {small.scale, small.params, PQ_F32, 0, NULL},
        .zero = {small.zero, small.zeros, zero_type, 0, NULL},
        .round = PQ_HALF_EVEN,
        .precision = PQ_F32,
    };
    return args;
}

/* The ways to spoil a call, and the expected status of each. */
enum fault {
    NO_FAULT,
    NO_SHAPE,
    NO_IN,
    NO_IN_STRIDES,
    NO_OUT,
    NO_OUT_STRIDES,
    NO_SCALE,
    NO_SCALE_STRIDES,
    NO_ZERO_STRIDES,
    NDIM_NEGATIVE,
    NDIM_BIG,
    NDIM_LOWEST,
    EXTENT_NEGATIVE,
    EXTENT_LOWEST,
    EXTENTS_HUGE,
    EXTENT_TIMES_STRIDE_HUGE,
    IN_STRIDE_HUGE,
    OUT_STRIDE_LOWEST,
    SCALE_STRIDE_HUGE,
    ZERO_STRIDE_LOWEST,
    STRIDES_ADD_UP,
    BLOCK_ZERO,
    BLOCK_NEGATIVE,
    IN_TYPE_OTHER,
    IN_TYPE_WRONG,
    OUT_TYPE_OTHER,
    OUT_TYPE_WRONG,
    SCALE_TYPE_WRONG,
    ZERO_TYPE_REAL,
    ZERO_TYPE_WRONG,
    PRECISION_CODE,
    PRECISION_WRONG,
    ROUND_WRONG,
    ROUND_NEGATIVE,
    ZERO_HIGH,
    ZERO_LOW,
    ROWS_OVERLAP,
    ROWS_SAME,
    ROWS_CROSS,
    FAULTS
};

static enum pq_type bad_type(int value)
{
    return (enum pq_type)value;
}

static enum pq_status bad_status(int value)
{
    return (enum pq_status)value;
}

/* Spoil the call and return the expected status. */
static enum pq_status spoil(struct pq_args *a, enum fault fault, int quantize)
{
    const ptrdiff_t size = (ptrdiff_t)pq_type_size(a->out.type);
    switch (fault) {
    case NO_SHAPE:
        a->shape = NULL;
        return PQ_ERR_NULL;
    case NO_IN:
        a->in.data = NULL;
        return PQ_ERR_NULL;
    case NO_IN_STRIDES:
        a->in.strides = NULL;
        return PQ_ERR_NULL;
    case NO_OUT:
        a->out.data = NULL;
        return PQ_ERR_NULL;
    case NO_OUT_STRIDES:
        a->out.strides = NULL;
        return PQ_ERR_NULL;
    case NO_SCALE:
        a->scale.data = NULL;
        return PQ_ERR_NULL;
    case NO_SCALE_STRIDES:
        a->scale.strides = NULL;
        return PQ_ERR_NULL;
    case NO_ZERO_STRIDES:
        a->zero.strides = NULL;
        return PQ_ERR_NULL;
    case NDIM_NEGATIVE:
        a->ndim = -1;
        return PQ_ERR_NDIM;
    case NDIM_LOWEST:
        a->ndim = INT_MIN;
        return PQ_ERR_NDIM;
    case NDIM_BIG:
        a->ndim = BIG;
        return PQ_ERR_NDIM;
    case EXTENT_NEGATIVE:
        small.shape[0] = -1;
        return PQ_ERR_SHAPE;
    case EXTENT_LOWEST:
        small.shape[1] = PTRDIFF_MIN;
        return PQ_ERR_SHAPE;
    case EXTENTS_HUGE: /* each extent alone is valid with strides of 0 */
        small.shape[0] = small.shape[1] = PTRDIFF_MAX / 100;
        small.in[0] = small.in[1] = small.params[0] = small.params[1] = 0;
        return PQ_ERR_SHAPE;
    case EXTENT_TIMES_STRIDE_HUGE:
        small.shape[0] = PTRDIFF_MAX / 100;
        return PQ_ERR_SHAPE;
    case IN_STRIDE_HUGE:
        small.in[0] = PTRDIFF_MAX;
        return PQ_ERR_SHAPE;
    case OUT_STRIDE_LOWEST:
        small.out[1] = PTRDIFF_MIN;
        return PQ_ERR_SHAPE;
    case SCALE_STRIDE_HUGE:
        small.params[1] = PTRDIFF_MAX / 2;
        return PQ_ERR_SHAPE;
    case ZERO_STRIDE_LOWEST:
        small.zeros[0] = PTRDIFF_MIN;
        return PQ_ERR_SHAPE;
    case STRIDES_ADD_UP:
        small.in[0] = small.in[1] = PTRDIFF_MAX / 40;
        return PQ_ERR_SHAPE;
    case BLOCK_ZERO:
        small.block[1] = 0;
        return PQ_ERR_SHAPE;
    case BLOCK_NEGATIVE:
        small.block[0] = -2;
        return PQ_ERR_SHAPE;
    case IN_TYPE_OTHER:
        a->in.type = quantize ? PQ_I8 : PQ_F32;
        return PQ_ERR_TYPE;
    case IN_TYPE_WRONG:
        a->in.type = bad_type(quantize ? -1 : PQ_F8E8M0FNU);
        return PQ_ERR_TYPE;
    case OUT_TYPE_OTHER:
        a->out.type = quantize ? PQ_F32 : PQ_I8;
        return PQ_ERR_TYPE;
    case OUT_TYPE_WRONG:
        a->out.type = bad_type(quantize ? PQ_F8E8M0FNU : PQ_TYPE_COUNT);
        return PQ_ERR_TYPE;
    case SCALE_TYPE_WRONG:
        a->scale.type = bad_type(quantize ? PQ_TYPE_COUNT : 99);
        return PQ_ERR_TYPE;
    case ZERO_TYPE_REAL:
        a->zero.type = PQ_F64;
        return PQ_ERR_TYPE;
    case ZERO_TYPE_WRONG:
        a->zero.type = bad_type(PQ_TYPE_COUNT);
        return PQ_ERR_TYPE;
    case PRECISION_CODE:
        a->precision = PQ_I8;
        return quantize ? PQ_ERR_TYPE : PQ_OK;
    case PRECISION_WRONG:
        a->precision = bad_type(-5);
        return quantize ? PQ_ERR_TYPE : PQ_OK;
    case ROUND_WRONG:
        a->round = (enum pq_round)bad_type(PQ_ROUND_COUNT);
        return quantize ? PQ_ERR_ROUND : PQ_OK;
    case ROUND_NEGATIVE:
        a->round = (enum pq_round)bad_type(-1);
        return quantize ? PQ_ERR_ROUND : PQ_OK;
    case ZERO_HIGH:
    case ZERO_LOW:
        if (a->zero.type != PQ_I64) {
            return PQ_OK;
        }
        if (!quantize) { /* any int64 is valid, a larger uint64 is not */
            a->zero.type = PQ_U64;
        }
        put_bits(small.zero, a->zero.type, ROWS * COLUMNS - 1,
                 (uint64_t)(quantize && fault == ZERO_HIGH ? 128 : -129));
        return PQ_ERR_ZERO;
    case ROWS_OVERLAP:
        small.out[0] = COLUMNS * size - 1;
        return PQ_ERR_OVERLAP;
    case ROWS_SAME:
        small.out[0] = 0;
        return PQ_ERR_OVERLAP;
    case ROWS_CROSS: /* reversed, and still overlapping */
        a->out.data = (char *)a->out.data + COLUMNS * size;
        small.out[0] = -(COLUMNS - 1) * size;
        return PQ_ERR_OVERLAP;
    default:
        return PQ_OK;
    }
}

static void check_errors(int quantize)
{
    check_begin("%s, errors", quantize ? "quantize" : "dequantize");
    const struct pq_kernels *k = &pq_kernels_scalar;
    for (int wide_zero = 0; wide_zero <= 1;
         wide_zero++) { /* zero points that are read before the plan, or later */
        for (int f = 0; f < FAULTS; f++) {
            struct pq_args args = valid_args(quantize, wide_zero ? PQ_I64 : PQ_I8);
            const enum pq_status due = spoil(&args, (enum fault)f, quantize);
            const enum pq_type other = wide_zero ? PQ_I64 : PQ_I8;
            check_case((uint64_t)f + 1000);
            unsigned char held[sizeof small];
            memcpy(held, &small, sizeof small);
            const enum pq_status got =
                quantize ? pq_quantize(k, &args, 0, 1) : pq_dequantize(k, &args, 0, 1);
            CHECK(got == due, "fault %d, zero %s: status %d, expected %d", f,
                  type_name(other), (int)got, (int)due);
            CHECK(due == PQ_OK || memcmp(held, &small, sizeof small) == 0,
                  "fault %d: something was written", f);
            struct pq_prepared plan = {.size = sizeof plan};
            const enum pq_status prepared = quantize
                                                ? pq_prepare_quantize(&plan, k, &args)
                                                : pq_prepare_dequantize(&plan, k, &args);
            CHECK(prepared == due, "fault %d: preparing gave %d, expected %d", f,
                  (int)prepared, (int)due);
            CHECK(due == PQ_OK ||
                      pq_run(&plan, small.reals, small.codes, 0, 1) == PQ_ERR_NULL,
                  "fault %d: a plan that failed was run", f);
        }
    }
    static const int parts[][2] = {{-1, 1}, {1, 1},      {0, 0},       {0, -1},
                                   {2, 2},  {-1, -1},    {INT_MIN, 1}, {INT_MAX, INT_MAX},
                                   {7, 3},  {0, INT_MIN}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        const struct pq_args args = valid_args(quantize, PQ_I8);
        const enum pq_status got = quantize
                                       ? pq_quantize(k, &args, parts[i][0], parts[i][1])
                                       : pq_dequantize(k, &args, parts[i][0], parts[i][1]);
        CHECK(got == PQ_ERR_PART, "part %d of %d: status %d", parts[i][0], parts[i][1],
              (int)got);
    }
    const struct pq_args args = valid_args(quantize, PQ_I8);
    CHECK((quantize ? pq_quantize(NULL, &args, 0, 1) : pq_dequantize(NULL, &args, 0, 1)) ==
              PQ_ERR_NULL,
          "no kernels");
    CHECK((quantize ? pq_quantize(k, NULL, 0, 1) : pq_dequantize(k, NULL, 0, 1)) ==
              PQ_ERR_NULL,
          "no arguments");
    check_case(0);
    check_end();
}

static void check_prepared(void)
{
    check_begin("plans, errors");
    const struct pq_kernels *k = &pq_kernels_scalar;
    const struct pq_args args = valid_args(1, PQ_I8);
    struct pq_prepared plan = {.size = sizeof plan};
    CHECK(pq_run(&plan, small.reals, small.codes, 0, 1) == PQ_ERR_NULL, "an empty plan");
    CHECK(pq_prepare_quantize(NULL, k, &args) == PQ_ERR_NULL, "no plan");
    CHECK(pq_prepare_dequantize(NULL, k, &args) == PQ_ERR_NULL, "no plan");
    CHECK(pq_prepare_quantize(&plan, NULL, &args) == PQ_ERR_NULL, "no kernels");
    CHECK(pq_prepare_quantize(&plan, k, NULL) == PQ_ERR_NULL, "no arguments");
    CHECK(pq_prepare_quantize(&plan, k, &args) == PQ_OK, "not prepared");
    CHECK(pq_run(NULL, small.reals, small.codes, 0, 1) == PQ_ERR_NULL, "no plan");
    CHECK(pq_run(&plan, NULL, small.codes, 0, 1) == PQ_ERR_NULL, "no input");
    CHECK(pq_run(&plan, small.reals, NULL, 0, 1) == PQ_ERR_NULL, "no output");
    CHECK(pq_run(&plan, small.reals, small.codes, 1, 1) == PQ_ERR_PART, "part 1 of 1");
    CHECK(pq_run(&plan, small.reals, small.codes, -1, 1) == PQ_ERR_PART, "part -1");
    CHECK(pq_run(&plan, small.reals, small.codes, 0, 0) == PQ_ERR_PART, "0 parts");
    CHECK(small.codes[5] == 50, "something was written");
    CHECK(pq_run(&plan, small.reals, small.codes, 0, 1) == PQ_OK, "not run");
    CHECK(small.codes[5] == 6, "code %d", small.codes[5]);
    check_end();
}

static void check_table(void)
{
    struct pq_api api;
    check_begin("the table of functions");
    memset(&api, 0, sizeof api);
    pq_api_init(&api, &pq_kernels_scalar, "1.2.3");
    void (*members[(sizeof api - offsetof(struct pq_api, isa_find)) / sizeof(void *)])(
        void);
    memcpy(members, (char *)&api + offsetof(struct pq_api, isa_find), sizeof members);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        CHECK(members[i] != NULL, "function %zu is missing", i);
        for (size_t j = 0; j < i; j++) {
            CHECK(members[i] != members[j], "functions %zu and %zu are the same", i, j);
        }
    }
    CHECK(api.major == PQ_API_MAJOR && api.minor == PQ_API_MINOR, "version");
    CHECK(api.kernels == &pq_kernels_scalar, "kernels");
    CHECK(strcmp(api.version, "1.2.3") == 0, "version %s", api.version);
    for (int i = 0; i <= PQ_ERR_BEYOND; i++) {
        for (int j = -1; j < i; j++) {
            const char *text = pq_status_text((enum pq_status)i);
            CHECK(text[0] != 0 && strcmp(text, pq_status_text(bad_status(j))) != 0,
                  "statuses %d and %d", i, j);
        }
    }
    const char *unknown = pq_status_text(bad_status(-1));
    CHECK(strcmp(unknown, pq_status_text(bad_status(PQ_ERR_BEYOND + 1))) == 0, "unknown");
    check_end();
}

/* Check that 64 dimensions are valid, and that a dimension of one element accepts any
 * stride. */
static void check_most_dimensions(void)
{
    check_begin("64 dimensions");
    struct pq_args args = valid_args(1, PQ_I8);
    args.ndim = PQ_MAX_NDIM;
    CHECK(pq_quantize(&pq_kernels_scalar, &args, 0, 1) == PQ_OK, "not taken");
    CHECK(small.codes[5] == 6, "code %d", small.codes[5]);
    args = valid_args(1, PQ_I8);
    args.ndim = 0;
    args.shape = NULL;
    args.block = NULL;
    args.in.strides = args.out.strides = args.scale.strides = args.zero.strides = NULL;
    CHECK(pq_quantize(&pq_kernels_scalar, &args, 0, 1) == PQ_OK, "0-d not taken");
    CHECK(small.codes[0] == (unsigned char)-4 && small.codes[1] == 10, "0-d codes %d %d",
          small.codes[0], small.codes[1]);
    check_end();
}

static struct pq_args valid_minmax(void)
{
    struct pq_args args = valid_args(1, PQ_I8);
    small.params[0] = 0;
    small.params[1] = sizeof(double);
    args.out = args.scale = args.zero = (struct pq_array){.data = NULL};
    args.lowest = (struct pq_array){small.lo, small.params, PQ_F64, 0, NULL};
    args.highest = (struct pq_array){small.hi, small.params, PQ_F64, 0, NULL};
    return args;
}

#define EXPECT_MINMAX(due, change)                                                         \
    do {                                                                                   \
        struct pq_args args = valid_minmax();                                              \
        int finite = 7;                                                                    \
        change;                                                                            \
        const enum pq_status got = pq_minmax(&pq_kernels_scalar, &args, &finite);          \
        CHECK(got == (due), "%s: status %d, expected %d", #change, (int)got, (int)(due));  \
    } while (0)

#define EXPECT_COUNT(due, change)                                                          \
    do {                                                                                   \
        struct pq_args args = valid_minmax();                                              \
        size_t count = 0, first = 0;                                                       \
        change;                                                                            \
        const enum pq_status got = pq_count_nonfinite(&args, &count, &first);              \
        CHECK(got == (due), "%s: status %d, expected %d", #change, (int)got, (int)(due));  \
    } while (0)

static void check_minmax_errors(void)
{
    const struct pq_args valid = valid_minmax();
    int flag;

    check_begin("minmax, errors");
    CHECK(pq_minmax(NULL, &valid, &flag) == PQ_ERR_NULL, "no kernels");
    CHECK(pq_minmax(&pq_kernels_scalar, NULL, &flag) == PQ_ERR_NULL, "no arguments");
    CHECK(pq_minmax(&pq_kernels_scalar, &valid, NULL) == PQ_ERR_NULL, "no result");
    EXPECT_MINMAX(PQ_OK, (void)args);
    CHECK(small.lo[0] == -2 && small.hi[2] == 3, "%a %a", small.lo[0], small.hi[2]);
    EXPECT_MINMAX(PQ_ERR_NULL, args.in.data = NULL);
    EXPECT_MINMAX(PQ_ERR_NULL, args.lowest.data = NULL);
    EXPECT_MINMAX(PQ_ERR_NULL, args.highest.data = NULL);
    EXPECT_MINMAX(PQ_ERR_TYPE, args.in.type = PQ_I8);
    EXPECT_MINMAX(PQ_ERR_TYPE, args.lowest.type = PQ_F32);
    EXPECT_MINMAX(PQ_ERR_TYPE, args.highest.type = PQ_I64);
    EXPECT_MINMAX(PQ_ERR_NDIM, args.ndim = BIG);
    EXPECT_MINMAX(PQ_ERR_NDIM, args.ndim = -1);
    EXPECT_MINMAX(PQ_ERR_SHAPE, small.shape[1] = -1);
    EXPECT_MINMAX(PQ_ERR_SHAPE, small.block[0] = 0);
    check_end();

    check_begin("minmax, missing shape or strides");
    EXPECT_MINMAX(PQ_ERR_NULL, args.shape = NULL);
    EXPECT_MINMAX(PQ_ERR_NULL, args.in.strides = NULL);
    EXPECT_MINMAX(PQ_ERR_NULL, args.lowest.strides = NULL);
    EXPECT_MINMAX(PQ_ERR_NULL, args.highest.strides = NULL);
    check_end();
}

static void check_count_errors(void)
{
    const struct pq_args valid = valid_minmax();
    size_t n;

    check_begin("count_nonfinite, errors");
    CHECK(pq_count_nonfinite(NULL, &n, &n) == PQ_ERR_NULL, "no arguments");
    CHECK(pq_count_nonfinite(&valid, NULL, &n) == PQ_ERR_NULL, "no count");
    CHECK(pq_count_nonfinite(&valid, &n, NULL) == PQ_ERR_NULL, "no first");
    EXPECT_COUNT(PQ_OK, (void)args);
    EXPECT_COUNT(PQ_ERR_NULL, args.in.data = NULL);
    EXPECT_COUNT(PQ_ERR_TYPE, args.in.type = PQ_U8);
    EXPECT_COUNT(PQ_ERR_NDIM, args.ndim = -1);
    check_end();

    check_begin("count_nonfinite, bad shapes");
    EXPECT_COUNT(PQ_ERR_NULL, args.shape = NULL);
    EXPECT_COUNT(PQ_ERR_NULL, args.in.strides = NULL);
    EXPECT_COUNT(PQ_ERR_NDIM, args.ndim = BIG);
    EXPECT_COUNT(PQ_ERR_SHAPE, small.shape[1] = -1);
    check_end();
}

static void check_choose_errors(void)
{
    check_begin("choose, errors");
    struct pq_choice choice = {sizeof choice, PQ_F32, PQ_I8, PQ_RULE_SYMMETRIC};
    double lo = -1, hi = 1;
    float scale = 9;
    int8_t zero = 9;
    CHECK(pq_choose(NULL, 1, &lo, &hi, &scale, &zero) == PQ_ERR_NULL, "no choice");
    CHECK(pq_choose(&choice, 1, NULL, &hi, &scale, &zero) == PQ_ERR_NULL, "no smallest");
    CHECK(pq_choose(&choice, 1, &lo, NULL, &scale, &zero) == PQ_ERR_NULL, "no largest");
    CHECK(pq_choose(&choice, 1, &lo, &hi, NULL, &zero) == PQ_ERR_NULL, "no scale");
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, NULL) == PQ_ERR_NULL, "no zero");
    CHECK(pq_choose(&choice, SIZE_MAX, &lo, &hi, &scale, &zero) == PQ_ERR_SHAPE,
          "more than memory has");
    CHECK(pq_choose(&choice, SIZE_MAX / 16 + 1, &lo, &hi, &scale, &zero) == PQ_ERR_SHAPE,
          "more numbers than memory has");
    choice.real = PQ_I8;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_TYPE, "int8 data");
    choice.real = PQ_F32;
    choice.code = PQ_I64;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_TYPE, "int64");
    choice.code = PQ_F32;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_TYPE, "float32 code");
    choice.code = bad_type(-1);
    CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_ERR_TYPE, "no type");
    CHECK(bits_of_f32(scale) == bits_of_f32(9) && zero == 9, "something was written");
    check_end();
}

/* ---- found by fuzz_api ---- */

/* Check that an unused stride can have any value. */
static void check_unused_strides(void)
{
    int64_t outside = 5;
    size_t count = 7, first = 7;
    check_begin("strides of dimensions of one element");
    struct pq_args args = valid_minmax();
    args.ndim = 4;
    small.in[2] = PTRDIFF_MAX;
    small.in[3] = PTRDIFF_MIN;
    CHECK(pq_count_nonfinite(&args, &count, &first) == PQ_OK && count == 0, "count");
    args = valid_args(1, PQ_I8);
    args.ndim = 4;
    small.zeros[2] = PTRDIFF_MAX;
    small.zeros[3] = PTRDIFF_MIN;
    small.zero[5] = 9;
    CHECK(pq_zeros_within(&args, 0, 9, &outside) == 1, "within");
    CHECK(pq_zeros_within(&args, 0, 8, &outside) == 0 && outside == 9, "outside");
    CHECK(pq_quantize(&pq_kernels_scalar, &args, 0, 1) == PQ_OK, "quantize");
    check_end();
}

/* Check that empty arrays need no zero points: their strides do not matter. */
static void check_zeros_of_nothing(void)
{
    int64_t outside = 5;
    struct guarded arena = guarded_make(8);
    check_begin("zero points of no elements");
    struct pq_args args = valid_args(1, PQ_I8);
    args.zero.data = guarded_end(&arena, 0);
    args.zero.type = PQ_I16; /* a type with zero points that must be checked */
    small.shape[0] = 0;
    small.zeros[0] = small.zeros[1] = 0;
    CHECK(pq_zeros_within(&args, 3, 3, &outside) == 1 && outside == 0, "within");
    CHECK(pq_quantize(&pq_kernels_scalar, &args, 0, 1) == PQ_OK, "quantize");
    check_end();
    guarded_free(&arena);
}

static ptrdiff_t bits[BIG];

/* Check that only codes of fewer than 8 bits accept bit strides. */
static void check_bit_strides(void)
{
    check_begin("bit strides where nothing lies at bits");
    for (int quantize = 0; quantize <= 1; quantize++) {
        for (int of_zero = 0; of_zero <= 1; of_zero++) {
            struct pq_args args = valid_args(quantize, PQ_I8);
            (of_zero ? &args.zero : &args.scale)->bit_strides = bits;
            CHECK((quantize
                       ? pq_quantize(&pq_kernels_scalar, &args, 0, 1)
                       : pq_dequantize(&pq_kernels_scalar, &args, 0, 1)) == PQ_ERR_TYPE,
                  "parameters at bits are taken");
            args = valid_args(quantize, PQ_I8);
            (of_zero ? &args.in : &args.out)->bit_strides = bits;
            CHECK((quantize
                       ? pq_quantize(&pq_kernels_scalar, &args, 0, 1)
                       : pq_dequantize(&pq_kernels_scalar, &args, 0, 1)) == PQ_ERR_TYPE,
                  "elements of 8 bits at bits are taken");
        }
    }
    EXPECT_MINMAX(PQ_ERR_TYPE, args.in.bit_strides = bits);
    EXPECT_COUNT(PQ_ERR_TYPE, args.in.bit_strides = bits);
    EXPECT_COUNT(PQ_ERR_SHAPE, small.in[1] = PTRDIFF_MAX / 2);
    EXPECT_COUNT(PQ_ERR_SHAPE, small.in[0] = PTRDIFF_MIN);
    check_end();
}

/* Check that dequantize accepts the zero points of quantize, and more with `any_zeros`. */
static void check_any_zeros(void)
{
    check_begin("zero points outside the range");
    static const enum pq_type types[] = {PQ_I16, PQ_U16, PQ_I32, PQ_U32, PQ_I64, PQ_U64};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        for (int z = 126; z <= 129; z++) {
            for (int any = 0; any <= 1; any++) {
                struct pq_args args = valid_args(0, types[t]);
                args.any_zeros = any;
                put_bits(&small.zero[0], types[t], 4, (uint64_t)z);
                const enum pq_status due = z > 127 && !any ? PQ_ERR_ZERO : PQ_OK;
                CHECK(pq_dequantize(&pq_kernels_scalar, &args, 0, 1) == due, "%s, %d, %d",
                      type_name(types[t]), z, any);
                CHECK(due == PQ_OK || small.reals[4] == 2, "something was written");
            }
        }
    }
    check_end();
}

static void check_zeros_errors(void)
{
    int64_t outside = 5;
    check_begin("zeros_within, errors");
    struct pq_args args = valid_args(1, PQ_I8);
    CHECK(pq_zeros_within(&args, 0, 0, &outside) == 1, "not taken");
    CHECK(pq_zeros_within(NULL, 0, 0, &outside) == 0, "no arguments");
    CHECK(pq_zeros_within(&args, 0, 0, NULL) == 0, "no result");
    args.zero.strides = NULL;
    CHECK(pq_zeros_within(&args, 0, 0, &outside) == 0, "no strides");
    args = valid_args(1, PQ_I8);
    args.zero.data = NULL;
    CHECK(pq_zeros_within(&args, 0, 0, &outside) == 0, "no data");
    args = valid_args(1, PQ_I8);
    small.zeros[1] = PTRDIFF_MIN;
    CHECK(pq_zeros_within(&args, 0, 0, &outside) == 0, "a stride beyond memory");
    static const int types[] = {-1,           PQ_NO_TYPE,    PQ_F32, PQ_F64,
                                PQ_F8E8M0FNU, PQ_TYPE_COUNT, INT_MAX};
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        args = valid_args(1, PQ_I8);
        args.zero.type = bad_type(types[i]);
        CHECK(pq_zeros_within(&args, 0, 0, &outside) == 0, "type %d", types[i]);
    }
    check_end();
}

/* Check that an invalid zero point is found anywhere in a long array. */
static void check_one_outside(void)
{
    enum { MOST = 20003 };
    static const int counts[] = {1, 3, 4, 5, 8191, 8192, 8193, 16384, MOST};
    static const enum pq_type types[] = {PQ_I16, PQ_U16, PQ_I32, PQ_U32, PQ_I64, PQ_U64};
    static unsigned char zeros[MOST * 8];
    check_begin("zeros_within, one outside");
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const ptrdiff_t size = (ptrdiff_t)pq_type_size(types[t]);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            const int n = counts[c];
            const ptrdiff_t shape[] = {n};
            const struct pq_args args = {.size = sizeof args,
                                         .ndim = 1,
                                         .shape = shape,
                                         .zero = {zeros, &size, types[t], 0, NULL}};
            for (int i = 0; i < n && !check_tired(); i += 1 + i % 4 * 250) {
                int64_t outside = 0;
                CHECK(pq_zeros_within(&args, 0, 127, &outside) == 1, "%s, %d: refused",
                      type_name(types[t]), n);
                put_bits(zeros, types[t], (size_t)i, 128);
                CHECK(pq_zeros_within(&args, 0, 127, &outside) == 0 && outside == 128,
                      "%s, %d of %d: taken", type_name(types[t]), i, n);
                put_bits(zeros, types[t], (size_t)i, 0);
            }
        }
    }
    check_end();
}

/* Check that extrema that are not finite cause no undefined behavior. */
static void check_choose_infinite(void)
{
    static const double ends[] = {-INFINITY, INFINITY, NAN, 0, -1};
    check_begin("choose, not finite");
    for (int real = 0; real <= 1; real++) {
        for (int i = 0; i < 25; i++) {
            const struct pq_choice choice = {sizeof choice, real ? PQ_F64 : PQ_F32, PQ_I8,
                                             PQ_RULE_ASYMMETRIC};
            const double lo = ends[i / 5], hi = ends[i % 5];
            double scale;
            int8_t zero = 99;
            CHECK(pq_choose(&choice, 1, &lo, &hi, &scale, &zero) == PQ_OK, "status");
            CHECK(i != 1 || zero == -128, "zero %d", zero);
        }
    }
    check_end();
}

/* Check that bits above a code are not copied. */
static void check_repacked_bits(void)
{
    static const enum pq_type types[] = {
        PQ_I4, PQ_U2, PQ_F4E2M1FN, PQ_F6E2M3FN, PQ_F6E3M2FN, PQ_F8E4M3FN, PQ_F8E5M2FNUZ};
    check_begin("repack, bits above the code");
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const ptrdiff_t shape[] = {256}, strides[] = {1};
        const int mask = (1 << pq_type_bits(types[t])) - 1;
        unsigned char in[256], out[256];
        for (int i = 0; i < 256; i++) {
            in[i] = (unsigned char)i;
        }
        const struct pq_args args = {.size = sizeof args,
                                     .ndim = 1,
                                     .shape = shape,
                                     .in = {in, strides, types[t], 0, NULL},
                                     .out = {out, strides, types[t], 0, NULL}};
        CHECK(pq_repack(&pq_kernels_scalar, &args, 0, 1) == PQ_OK, "status");
        for (int i = 0; i < 256 && !check_tired(); i++) {
            CHECK(out[i] == (i & mask), "%s: %#x became %#x", type_name(types[t]),
                  (unsigned)i, out[i]);
        }
    }
    check_end();
}

/* ---- layouts ---- */

static unsigned char words[256];
static unsigned char turned[256]; /* permutes the first n numbers for any n from 2 to 256 */

/* Codes 8, 9, ... of 4 bits, one word for each row. */
static struct pq_args valid_words(struct pq_layout *layout)
{
    struct pq_args args = valid_args(1, PQ_U8);
    memset(words, 0, sizeof words);
    for (int i = 0; i < 256; i++) {
        turned[i] = (unsigned char)(i ^ 1);
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        small.reals[i] = (float)(i + 8);
        small.scale[i] = 1;
    }
    bits[0] = 32;
    bits[1] = PTRDIFF_MIN; /* ignored */
    args.out = (struct pq_array){.data = words, .type = PQ_U4, .bit_strides = bits};
    args.out_layout = layout;
    *layout = (struct pq_layout){
        .size = sizeof *layout, .axis = 1, .word_bits = 32, .word_stride = 32};
    return args;
}

static void expect_layout(enum pq_status due, const char *what, const struct pq_args *args)
{
    static const unsigned char zeros[sizeof words];
    const enum pq_status status = pq_quantize(&pq_kernels_scalar, args, 0, 1);
    CHECK(status == due, "%s: %d, not %d", what, (int)status, (int)due);
    CHECK(status == PQ_OK || memcmp(words, zeros, sizeof words) == 0,
          "%s: something was written", what);
}

#define EXPECT_LAYOUT(due, ...)                                                            \
    do {                                                                                   \
        struct pq_layout layout;                                                           \
        struct pq_args args = valid_words(&layout);                                        \
        __VA_ARGS__;                                                                       \
        expect_layout(due, #__VA_ARGS__, &args);                                           \
    } while (0)

static void check_layouts(void)
{
    check_begin("layouts");
    EXPECT_LAYOUT(PQ_OK, (void)args);
    static const unsigned char due[] = {0x98, 0x0a, 0, 0, 0xcb, 0x0d, 0, 0};
    CHECK(memcmp(words, due, sizeof due) == 0, "%02x %02x", words[0], words[1]);
    EXPECT_LAYOUT(PQ_OK, args.out.type = PQ_U8; layout.bits = 3);
    static const unsigned char most[] = {0xff, 0x01, 0, 0, 0xff, 0x01};
    CHECK(memcmp(words, most, sizeof most) == 0, "%02x %02x", words[0], words[1]);
    EXPECT_LAYOUT(PQ_OK, layout.order = turned; layout.group = 4);
    static const unsigned char other[] = {0x89, 0xa0, 0, 0, 0xbc, 0xd0};
    CHECK(memcmp(words, other, sizeof other) == 0, "%02x %02x", words[0], words[1]);
    EXPECT_LAYOUT(PQ_OK, layout.order = turned; layout.group = 256; bits[0] = 1024);
    EXPECT_LAYOUT(PQ_OK, layout.word_bits = 64; layout.word_stride = bits[0] = 64);
    EXPECT_LAYOUT(PQ_OK, layout.group = -1);

    EXPECT_LAYOUT(PQ_ERR_SIZE, layout.size = 0);
    EXPECT_LAYOUT(PQ_ERR_SIZE, layout.size--);
    EXPECT_LAYOUT(PQ_ERR_NULL, args.out.bit_strides = NULL);
    EXPECT_LAYOUT(PQ_ERR_NULL, args.in_layout = &layout);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.axis = 2);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.axis = -1);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, args.ndim = 0);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.word_bits = 24);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.word_bits = 0);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.word_stride = 36);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.word_stride = PTRDIFF_MIN);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.word_stride = PTRDIFF_MAX / 8 * 8);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, bits[0] = 36);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, bits[0] = PTRDIFF_MAX / 8 * 8);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.order = turned; layout.group = 0);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.order = turned; layout.group = 257);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.order = turned; layout.group = 4; turned[3] = 1);
    EXPECT_LAYOUT(PQ_ERR_SHAPE, layout.order = turned; layout.group = 4; turned[3] = 4);
    EXPECT_LAYOUT(PQ_ERR_TYPE, layout.bits = 5);
    EXPECT_LAYOUT(PQ_ERR_TYPE, args.out.type = PQ_I8; layout.bits = 4);
    EXPECT_LAYOUT(PQ_ERR_TYPE, args.out.type = PQ_U8; layout.bits = 9);
    EXPECT_LAYOUT(PQ_ERR_TYPE, args.out.type = PQ_U8; layout.bits = -1);
    EXPECT_LAYOUT(PQ_ERR_TYPE, args.out.type = PQ_I16);
    EXPECT_LAYOUT(PQ_ERR_OVERLAP, bits[0] = 0);
    EXPECT_LAYOUT(PQ_ERR_OVERLAP, bits[0] = 8); /* rows share a word */
    EXPECT_LAYOUT(PQ_ERR_OVERLAP, layout.order = turned; layout.group = 16);
    EXPECT_LAYOUT(PQ_ERR_OVERLAP, layout.order = turned; layout.group = 16;
                  layout.word_stride = 16; bits[0] = 64);

    /* One code for each row: bits 6 to 8, in two words. */
    static const unsigned char third[] = {2, 0, 1};
#define EXPECT_ONE(due, ...)                                                               \
    EXPECT_LAYOUT(due, small.shape[1] = 1; args.out.type = PQ_U8; layout.bits = 3;         \
                  layout.order = third; layout.group = 3; layout.word_bits = 8;            \
                  layout.word_stride = 8; __VA_ARGS__)
    EXPECT_ONE(PQ_OK, bits[0] = 16);
    static const unsigned char ones[] = {0xc0, 0x01, 0xc0, 0x01, 0};
    CHECK(memcmp(words, ones, sizeof ones) == 0, "%02x %02x", words[0], words[1]);
    EXPECT_ONE(PQ_OK, bits[0] = 8; layout.word_stride = 16);
    EXPECT_ONE(PQ_OK, bits[0] = 16; layout.word_bits = 16);
    EXPECT_ONE(PQ_OK, bits[0] = 8; layout.word_stride = 0; layout.order = turned;
               layout.group = 4);
    EXPECT_ONE(PQ_ERR_OVERLAP, bits[0] = 8);
    EXPECT_ONE(PQ_ERR_OVERLAP, bits[0] = -8);
    EXPECT_ONE(PQ_ERR_OVERLAP, bits[0] = 16; layout.word_stride = 16);
    EXPECT_ONE(PQ_ERR_OVERLAP, bits[0] = 16; layout.word_stride = 0);
#undef EXPECT_ONE
    check_end();
}

/* Check that no word has bits of two parts; threads could lose some. */
static void check_parts_of_words(void)
{
    enum { N = 20000, PARTS = 4, MOST = 5056 };
    static const ptrdiff_t shape[] = {1, N}, none[] = {0, 0}, at[] = {0, 0};
    static const float zero = 0, one = 1;
    static const int groups[] = {1, 5, 64};
    static uint32_t memory[PARTS][2 * MOST];
    static unsigned char order[64];
    check_begin("words and parts");
    for (int b = 1; b <= 8; b++) {
        for (int g = 0; g < 3; g++) {
            struct pq_layout layout = {.size = sizeof layout,
                                       .axis = 1,
                                       .bits = b,
                                       .word_bits = 32,
                                       .word_stride = 64,
                                       .group = groups[g],
                                       .order = g == 0 ? NULL : order};
            struct pq_args args = {
                .size = sizeof args,
                .ndim = 2,
                .shape = shape,
                .in = {(void *)(uintptr_t)&zero, none, PQ_F32, 0, NULL},
                .scale = {(void *)(uintptr_t)&one, none, PQ_F32, 0, NULL},
                .out_layout = &layout};
            int writers = 0;
            for (int i = 0; i < groups[g]; i++) { /* in reverse order */
                order[i] = (unsigned char)(groups[g] - 1 - i);
            }
            for (int p = 0; p < PARTS; p++) {
                memset(memory[p], 0xff, sizeof memory[p]);
                args.out =
                    (struct pq_array){.data = memory[p], .type = PQ_U8, .bit_strides = at};
                CHECK(pq_quantize(&pq_kernels_scalar, &args, p, PARTS) == PQ_OK, "status");
                writers += memchr(memory[p], 0, sizeof memory[p]) != NULL;
            }
            CHECK(writers > 1, "%d bits: %d parts do it all", b, writers);
            for (int w = 0; w < 2 * MOST; w++) {
                int touched = 0;
                for (int p = 0; p < PARTS; p++) {
                    touched += memory[p][w] != UINT32_MAX;
                }
                CHECK(touched <= 1, "%d bits, groups of %d: word %d", b, groups[g], w);
            }
        }
    }
    check_end();
}

/* ---- instruction sets and types ---- */

static void check_names(void)
{
    int n = 0;
    check_begin("instruction sets");
    while (pq_isa_name(n) != NULL) {
        const struct pq_kernels *k = pq_isa_find(pq_isa_name(n));
        CHECK(k != NULL && strcmp(k->name, pq_isa_name(n)) == 0, "%s", pq_isa_name(n));
        n++;
    }
    CHECK(n >= 1 && pq_isa_find("scalar") == &pq_kernels_scalar, "no scalar");
    CHECK(n >= 1 && strcmp(pq_isa_name(n - 1), "scalar") == 0, "scalar is not the last");
    CHECK(pq_isa_name(n) == NULL && pq_isa_name(n + 100) == NULL, "more than there are");
    CHECK(pq_isa_find("sse9") == NULL && pq_isa_find("") == NULL, "an unknown name");
    CHECK(pq_isa_find(NULL) == NULL && pq_isa_name(-1) == NULL, "no name");
    CHECK(pq_isa_name(INT_MIN) == NULL, "no name at the lowest number");
#if defined(__x86_64__)
    __builtin_cpu_init(); /* required on Windows */
    /* The library that zig links for Windows reports no CPU features. */
    const int known = __builtin_cpu_supports("sse2");
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const int avx512 =
        avx2 && PQ_KNOWS_AVX512 && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bf16") &&
        __builtin_cpu_supports("gfni");
    const char *best = avx512 ? "avx512" : avx2 ? "avx2" : "scalar";
    CHECK(!known || strcmp(pq_isa_name(0), best) == 0, "%s is best, not %s", best,
          pq_isa_name(0));
    CHECK(!known || avx2 == (pq_isa_find("avx2") != NULL), "avx2 is %d", avx2);
    CHECK(!known || avx512 == (pq_isa_find("avx512") != NULL), "avx512 is %d", avx512);
    CHECK(pq_isa_find("neon") == NULL, "neon");
#elif defined(__aarch64__)
    CHECK(strcmp(pq_isa_name(0), "neon") == 0, "best is %s", pq_isa_name(0));
    CHECK(pq_isa_find("avx2") == NULL, "avx2");
#endif
    check_end();

    check_begin("type sizes");
    static const size_t sizes[PQ_TYPE_COUNT] = {[PQ_F32] = 4, [PQ_F16] = 2, [PQ_BF16] = 2,
                                                [PQ_F64] = 8, [PQ_I8] = 1,  [PQ_U8] = 1,
                                                [PQ_I16] = 2, [PQ_U16] = 2, [PQ_I32] = 4,
                                                [PQ_U32] = 4, [PQ_I64] = 8, [PQ_U64] = 8};
    for (int t = 0; t < PQ_TYPE_COUNT; t++) {
        const size_t size = sizes[t] != 0 ? sizes[t] : t != PQ_NO_TYPE; /* narrow types */
        CHECK(pq_type_size((enum pq_type)t) == size, "%s", type_name((enum pq_type)t));
    }
    CHECK(pq_type_info(PQ_NO_TYPE) == NULL && pq_type_info(bad_type(-1)) == NULL &&
              pq_type_info(PQ_TYPE_COUNT) == NULL,
          "no type");
    CHECK(pq_type_size(bad_type(PQ_TYPE_COUNT)) == 0, "one too many");
    CHECK(pq_type_size(bad_type(-1)) == 0, "-1");
    check_end();
}

/* ---- control state ---- */

#if defined(FE_UPWARD) /* WebAssembly always rounds to nearest */
/* Check rounding modes set by fenv.h, with data that depends on them. */
static void check_fenv(void)
{
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    check_begin("rounding set by fesetround");
    for (int isa = 0; pq_isa_name(isa) != NULL; isa++) {
        const struct pq_kernels *k = pq_isa_find(pq_isa_name(isa));
        for (int m = 0; m < 3; m++) {
            struct pq_args args = valid_args(1, PQ_I8);
            for (int i = 0; i < ROWS * COLUMNS; i++) {
                small.reals[i] = (float)i * 0.3f;
            }
            fesetround(modes[m]);
            pq_quantize(k, &args, 0, 1);
            const int kept = fegetround();
            fesetround(FE_TONEAREST);
            CHECK(kept == modes[m], "%s: the mode changed", k->name);
            static const unsigned char due[] = {0, 1, 1, 2, 2, 3};
            CHECK(memcmp(small.codes, due, sizeof due) == 0, "%s: mode %d", k->name, m);
        }
    }
    check_end();
}
#else
static void check_fenv(void) {}
#endif

/* ---- affine calls ---- */

/* Options of an otherwise valid call, and the expected status. */
struct option {
    const char *what;
    int quantize;
    enum pq_status due;
    enum pq_type real, code; /* PQ_NO_TYPE: float32, int8 */
    enum pq_type precision;
    size_t fills;
    int64_t fill; /* repeated `fills` times */
    int64_t lowest_code, highest_code;
    int beyond;
    int zero_first, narrow_first, overflow;
    signed char zero; /* zero point of all elements */
};

static const struct option options[] = {
    {"a fill", 1, PQ_OK, .fills = 1, .fill = -128},
    {"a fill", 0, PQ_OK, .fills = 1, .fill = 127},
    {"several", 0, PQ_OK, .fills = 3, .fill = 5},
    {"a fill too low", 1, PQ_ERR_OPTION, .fills = 1, .fill = -129},
    {"a fill too high", 1, PQ_ERR_OPTION, .fills = 1, .fill = 128},
    {"a fill too low", 0, PQ_ERR_OPTION, .fills = 1, .fill = -129},
    {"a fill too high", 0, PQ_ERR_OPTION, .fills = 1, .fill = 128},
    {"the lowest fill", 0, PQ_ERR_OPTION, .fills = 1, .fill = INT64_MIN},
    {"a fill of four bits", 0, PQ_ERR_OPTION, .code = PQ_I4, .fills = 1, .fill = 8},
    {"a fill of four bits", 0, PQ_OK, .code = PQ_I4, .fills = 1, .fill = 7},
    {"a fill of a float", 0, PQ_ERR_OPTION, .code = PQ_F8E5M2, .fills = 1, .fill = 1},
    {"a fill of a float", 1, PQ_ERR_OPTION, .code = PQ_F8E5M2, .fills = 1, .fill = 1},
    {"a range", 1, PQ_OK, .lowest_code = -127, .highest_code = 127},
    {"a range of one", 1, PQ_OK, .lowest_code = 3, .highest_code = 3},
    {"a range from zero", 1, PQ_OK, .highest_code = 3},
    {"a range too low", 1, PQ_ERR_OPTION, .lowest_code = -129, .highest_code = 127},
    {"a range too high", 1, PQ_ERR_OPTION, .lowest_code = -1, .highest_code = 128},
    {"no range", 1, PQ_ERR_OPTION, .lowest_code = 2, .highest_code = 1},
    {"a range not looked at", 0, PQ_OK, .lowest_code = 2, .highest_code = 1},
    {"a range of a float", 1, PQ_ERR_OPTION, .code = PQ_F8E5M2, .highest_code = 1},
    {"a zero point in it", 1, PQ_OK, .lowest_code = -7, .highest_code = 7, .zero = 7},
    {"one above", 1, PQ_ERR_ZERO, .lowest_code = -7, .highest_code = 7, .zero = 8},
    {"one below", 1, PQ_ERR_ZERO, .lowest_code = 1, .highest_code = 7, .zero = -1},
    {"none beside a range without 0", 1, PQ_OK, .lowest_code = 1, .highest_code = 7},
    {"a fill in the range", 1, PQ_ERR_OPTION, .highest_code = 3, .fills = 1, .fill = 3},
    {"a fill below it", 1, PQ_OK, .highest_code = 3, .fills = 2, .fill = -1},
    {"wrapping", 1, PQ_OK, .beyond = PQ_WRAP},
    {"wrapping to a range", 1, PQ_ERR_OPTION, .beyond = PQ_WRAP, .highest_code = 3},
    {"wrapping floats", 1, PQ_ERR_OPTION, .code = PQ_F8E5M2, .beyond = PQ_WRAP},
    {"refusing", 1, PQ_OK, .beyond = PQ_REFUSE},
    {"refusing floats", 1, PQ_OK, .code = PQ_F8E5M2, .beyond = PQ_REFUSE},
    {"refusing what overflows", 1, PQ_ERR_OPTION, .code = PQ_F8E5M2, .beyond = PQ_REFUSE,
     .overflow = 1},
    {"no policy", 1, PQ_ERR_OPTION, .beyond = PQ_BEYOND_COUNT},
    {"no policy", 1, PQ_ERR_OPTION, .beyond = -1},
    {"a policy not looked at", 0, PQ_OK, .beyond = -1},
    {"zero points first", 1, PQ_ERR_OPTION, .beyond = PQ_WRAP, .zero_first = 1},
    {"narrow first", 1, PQ_ERR_OPTION, .beyond = PQ_WRAP, .narrow_first = 1},
    {"quotients of float16", 1, PQ_ERR_TYPE, .beyond = PQ_WRAP, .precision = PQ_F16},
    {"quotients of float64", 1, PQ_OK, .beyond = PQ_WRAP, .precision = PQ_F64},
    {"of integers", 1, PQ_ERR_TYPE, .beyond = PQ_WRAP, .real = PQ_I32},
};

static enum pq_status run_option(struct pq_args *args, const struct option *o)
{
    const struct pq_kernels *const k = &pq_kernels_scalar;
    struct pq_prepared plan = {.size = sizeof plan};
    const enum pq_status prepared = o->quantize ? pq_prepare_quantize(&plan, k, args)
                                                : pq_prepare_dequantize(&plan, k, args);
    const enum pq_status status =
        o->quantize ? pq_quantize(k, args, 0, 1) : pq_dequantize(k, args, 0, 1);
    CHECK(prepared == status, "%s: preparing gave %d, not %d", o->what, (int)prepared,
          (int)status);
    return status;
}

static void check_affine_errors(void)
{
    check_begin("affine calls, errors");
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const struct option *const o = &options[i];
        const int64_t fill[] = {o->fill, o->fill, o->fill};
        struct pq_args args = valid_args(o->quantize, PQ_I8);
        struct pq_array *const real = o->quantize ? &args.in : &args.out;
        struct pq_array *const code = o->quantize ? &args.out : &args.in;
        unsigned char held[sizeof small];
        real->type = o->real != PQ_NO_TYPE ? o->real : real->type;
        code->type = o->code != PQ_NO_TYPE ? o->code : code->type;
        args.precision = o->precision;
        args.fills = o->fills;
        args.fill = fill;
        args.lowest_code = o->lowest_code;
        args.highest_code = o->highest_code;
        args.beyond = (enum pq_beyond)o->beyond;
        args.zero_first = o->zero_first;
        args.narrow_first = o->narrow_first;
        args.overflow = o->overflow;
        memset(small.zero, o->zero, ROWS * COLUMNS);
        check_case(i + 1000);
        memcpy(held, &small, sizeof small);
        const enum pq_status got = run_option(&args, o);
        CHECK(got == o->due, "%s: status %d, expected %d", o->what, (int)got, (int)o->due);
        CHECK(got == PQ_OK || memcmp(held, &small, sizeof small) == 0,
              "%s: something was written", o->what);
        args.fill = NULL;
        const enum pq_status none = run_option(&args, o);
        CHECK(o->fills == 0 || none == PQ_ERR_NULL, "%s: status %d without fills", o->what,
              (int)none);
    }
    check_case(0);
    check_end();
}

/* Check zero points that need 64 bits: no affine kernel supports them. */
static void check_affine_zeros(void)
{
    check_begin("affine calls, far zero points");
    struct pq_args args = valid_args(0, PQ_I64);
    const int64_t far = INT64_MAX;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        memcpy(small.zero + 8 * i, &far, sizeof far);
    }
    args.any_zeros = 1;
    CHECK(pq_dequantize(&pq_kernels_scalar, &args, 0, 1) == PQ_OK, "not taken");
    args.offset = small.scale;
    CHECK(pq_dequantize(&pq_kernels_scalar, &args, 0, 1) == PQ_ERR_ZERO, "taken");
    check_end();
}

static void check_beyond_errors(void)
{
    const struct pq_kernels *const k = &pq_kernels_scalar;
    check_begin("count_beyond");
    struct pq_args args = valid_args(1, PQ_I8);
    size_t count = 7, first = 7;
    small.reals[2] = INFINITY;
    small.reals[4] = -1000;
    small.reals[5] = NAN;
    CHECK(pq_count_beyond(k, &args, &count, &first) == PQ_OK && count == 0, "saturated");
    args.beyond = PQ_REFUSE;
    CHECK(pq_quantize(k, &args, 0, 1) == PQ_ERR_BEYOND, "taken");
    CHECK(small.codes[2] == 127 && small.codes[4] == 128 && small.codes[5] == 128,
          "not saturated");
    CHECK(pq_count_beyond(k, &args, &count, &first) == PQ_OK && count == 2 && first == 2,
          "%zu from %zu on", count, first);
    args.refuse_nan = 1;
    args.beyond = PQ_WRAP;
    CHECK(pq_count_beyond(k, &args, &count, &first) == PQ_OK && count == 1 && first == 5,
          "%zu from %zu on, of NaN", count, first);
    CHECK(pq_count_beyond(k, &args, NULL, &first) == PQ_ERR_NULL, "no count");
    CHECK(pq_count_beyond(k, &args, &count, NULL) == PQ_ERR_NULL, "no place");
    CHECK(pq_count_beyond(NULL, &args, &count, &first) == PQ_ERR_NULL, "no kernels");
    CHECK(pq_count_beyond(k, NULL, &count, &first) == PQ_ERR_NULL, "no arguments");
    struct {
        struct pq_args args;
        uint64_t more[8];
    } newer = {.args = args};
    newer.args.size = sizeof newer;
    CHECK(pq_count_beyond(k, &newer.args, &count, &first) == PQ_OK && count == 1,
          "%zu, of a newer caller", count);
    args.size = 1;
    CHECK(pq_count_beyond(k, &args, &count, &first) == PQ_ERR_SIZE, "no size");
    check_end();
}

int main(int argc, char **argv)
{
    (void)argc;
    check_start(argv[0]);
    check_names();
    check_errors(1);
    check_errors(0);
    check_most_dimensions();
    check_prepared();
    check_table();
    check_minmax_errors();
    check_count_errors();
    check_choose_errors();
    check_unused_strides();
    check_zeros_of_nothing();
    check_bit_strides();
    check_any_zeros();
    check_zeros_errors();
    check_one_outside();
    check_choose_infinite();
    check_repacked_bits();
    check_layouts();
    check_parts_of_words();
    check_affine_errors();
    check_affine_zeros();
    check_beyond_errors();
    check_fenv();
    return check_finish();
}
