/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check that invalid calls return the right status and write nothing. Also check the list
 * of instruction sets. fuzz_api.c checks that calls restore the floating-point control
 * state.
 */
#include <limits.h>
#include <math.h>
#include <string.h>

#include "check.h"
#include "kernels/kernels.h"

static const struct pq_kernels *const scalar = &pq_kernels_scalar;

/* ---- a small valid call: each test makes a copy invalid ---- */

enum { ROWS = 2, COLUMNS = 3, BIG = PQ_MAX_NDIM + 1 };

static struct {
    float reals[ROWS * COLUMNS], scale[ROWS * COLUMNS];
    unsigned char codes[ROWS * COLUMNS], zero[ROWS * COLUMNS * 8];
    double lo[ROWS * COLUMNS], hi[ROWS * COLUMNS];
    ptrdiff_t shape[BIG], block[BIG];
    ptrdiff_t in[BIG], out[BIG], params[BIG], zeros[BIG], bits[BIG];
    unsigned char words[256];
} small;

static void set_strides(ptrdiff_t *strides, size_t size)
{
    strides[0] = COLUMNS * (ptrdiff_t)size;
    strides[1] = (ptrdiff_t)size;
}

static struct pq_args valid_args(int quantize, enum pq_type zero_type)
{
    memset(&small, 0, sizeof small);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        small.reals[i] = (float)i - 2.0f;
        small.scale[i] = 0.5f;
        small.codes[i] = (unsigned char)(10 * i);
        small.lo[i] = (double)INFINITY;
        small.hi[i] = (double)-INFINITY;
    }
    for (int d = 0; d < BIG; d++) {
        small.shape[d] = d == 0 ? ROWS : d == 1 ? COLUMNS : 1;
        small.block[d] = 1;
    }
    set_strides(small.in, quantize ? sizeof(float) : 1);
    set_strides(small.out, quantize ? 1 : sizeof(float));
    set_strides(small.params, sizeof(float));
    set_strides(small.zeros, pq_type_size(zero_type));
    const struct pq_array real = {small.reals, quantize ? small.in : small.out, PQ_F32, 0,
                                  NULL};
    const struct pq_array code = {small.codes, quantize ? small.out : small.in, PQ_I8, 0,
                                  NULL};
    return (struct pq_args){.size = sizeof(struct pq_args),
                            .ndim = 2,
                            .shape = small.shape,
                            .block = small.block,
                            .in = quantize ? real : code,
                            .out = quantize ? code : real,
                            .scale = {small.scale, small.params, PQ_F32, 0, NULL},
                            .zero = {small.zero, small.zeros, zero_type, 0, NULL},
                            .precision = quantize ? PQ_F32 : PQ_NO_TYPE};
}

static enum pq_type bad_type(int value)
{
    return (enum pq_type)value;
}

static enum pq_status run(const struct pq_args *args, int quantize, int part, int parts)
{
    return quantize ? pq_quantize(scalar, args, part, parts)
                    : pq_dequantize(scalar, args, part, parts);
}

static enum pq_status prepare(struct pq_prepared *plan, const struct pq_args *args,
                              int quantize)
{
    return quantize ? pq_prepare_quantize(plan, scalar, args)
                    : pq_prepare_dequantize(plan, scalar, args);
}

/* Run a call, and also prepare a plan of the call. Check that both return `due`. A call
 * with an error must write nothing. */
static void expect_status(enum pq_status due, const struct pq_args *args, int quantize,
                          const char *what)
{
    static unsigned char held[sizeof small];
    struct pq_prepared plan = {.size = sizeof plan};
    memcpy(held, &small, sizeof small);
    const enum pq_status got = run(args, quantize, 0, 1);
    const enum pq_status prepared = prepare(&plan, args, quantize);
    CHECK(got == due && (prepared == due || due == PQ_ERR_BEYOND),
          "%s, quantize %d, zero %s: status %d, prepared %d, expected %d", what, quantize,
          type_name(args->zero.type), (int)got, (int)prepared, (int)due);
    if (due != PQ_OK) {
        CHECK(memcmp(held, &small, sizeof small) == 0, "%s: memory was written", what);
        CHECK(pq_run(&plan, small.reals, small.codes, 0, 1) == PQ_ERR_NULL,
              "%s: an invalid plan was run", what);
    }
}

/* Make a valid call for the variables `quantize` and `zero_type`. Change the call by the
 * statements `...`, and check that the call returns `due`. */
#define FAULT(due, ...)                                                                    \
    do {                                                                                   \
        struct pq_args args = valid_args(quantize, zero_type), *const a = &args;           \
        __VA_ARGS__;                                                                       \
        expect_status(due, a, quantize, #__VA_ARGS__);                                     \
    } while (0)

static void check_faults(int quantize, enum pq_type zero_type)
{
    const ptrdiff_t size = quantize ? 1 : sizeof(float);
    FAULT(PQ_OK, (void)a);
    FAULT(PQ_ERR_NULL, a->out.data = NULL);
    FAULT(PQ_ERR_NULL, a->out.strides = NULL);
    FAULT(PQ_ERR_NULL, a->scale.data = NULL);
    FAULT(PQ_ERR_NULL, a->scale.strides = NULL);
    FAULT(PQ_ERR_NULL, a->zero.strides = NULL);
    FAULT(PQ_ERR_NDIM, a->ndim = INT_MIN);
    FAULT(PQ_ERR_SHAPE, small.shape[0] = -1);
    FAULT(PQ_ERR_SHAPE, small.shape[1] = PTRDIFF_MIN);
    /* Each extent alone is valid, but the product of the extents overflows. */
    FAULT(PQ_ERR_SHAPE, small.shape[0] = small.shape[1] = PTRDIFF_MAX / 100;
          small.in[0] = small.in[1] = small.params[0] = small.params[1] = 0);
    FAULT(PQ_ERR_SHAPE, small.shape[0] = PTRDIFF_MAX / 100);
    FAULT(PQ_ERR_SHAPE, small.in[0] = PTRDIFF_MAX);
    FAULT(PQ_ERR_SHAPE, small.out[1] = PTRDIFF_MIN);
    FAULT(PQ_ERR_SHAPE, small.params[1] = PTRDIFF_MAX / 2);
    FAULT(PQ_ERR_SHAPE, small.zeros[0] = PTRDIFF_MIN);
    FAULT(PQ_ERR_SHAPE, small.in[0] = small.in[1] = PTRDIFF_MAX / 40);
    FAULT(PQ_ERR_SHAPE, small.block[1] = 0);
    FAULT(PQ_ERR_SHAPE, small.block[0] = -2);
    FAULT(PQ_ERR_TYPE, a->in.type = quantize ? PQ_I8 : PQ_F32);
    FAULT(PQ_ERR_TYPE, a->in.type = bad_type(quantize ? -1 : PQ_F8E8M0FNU));
    FAULT(PQ_ERR_TYPE, a->out.type = quantize ? PQ_F32 : PQ_I8);
    FAULT(PQ_ERR_TYPE, a->out.type = bad_type(quantize ? PQ_F8E8M0FNU : PQ_TYPE_COUNT));
    FAULT(PQ_ERR_TYPE, a->scale.type = bad_type(quantize ? PQ_TYPE_COUNT : 99));
    FAULT(PQ_ERR_TYPE, a->zero.type = PQ_F64);
    FAULT(PQ_ERR_TYPE, a->zero.type = bad_type(PQ_TYPE_COUNT));
    /* Bit strides are invalid for parameters, and for elements of 8 or more bits. */
    FAULT(PQ_ERR_TYPE, a->scale.bit_strides = small.bits);
    FAULT(PQ_ERR_TYPE, a->zero.bit_strides = small.bits);
    FAULT(PQ_ERR_TYPE, (quantize ? &a->out : &a->in)->bit_strides = small.bits);
    FAULT(PQ_ERR_TYPE, (quantize ? &a->in : &a->out)->bit_strides = small.bits);
    /* Only quantize accepts the members `precision` and `round`. */
    FAULT(quantize ? PQ_ERR_TYPE : PQ_ERR_OPTION, a->precision = PQ_I8);
    FAULT(quantize ? PQ_ERR_TYPE : PQ_ERR_OPTION, a->precision = bad_type(-5));
    FAULT(quantize ? PQ_ERR_ROUND : PQ_ERR_OPTION, a->round = PQ_ROUND_COUNT);
    FAULT(quantize ? PQ_ERR_ROUND : PQ_ERR_OPTION, a->round = (enum pq_round)bad_type(-1));
    FAULT(PQ_ERR_OVERLAP, small.out[0] = COLUMNS * size - 1);
    FAULT(PQ_ERR_OVERLAP, small.out[0] = 0);
    FAULT(PQ_ERR_OVERLAP, a->out.data = (char *)a->out.data + COLUMNS * size;
          small.out[0] = -(COLUMNS - 1) * size);
}

/* Check zero points out of range. With `any_zeros`, dequantize accepts any int64 zero
 * point, but no uint64 zero point above the largest int64. */
static void check_zero_faults(int quantize)
{
    const enum pq_type zero_type = quantize ? PQ_I64 : PQ_U64;
    const size_t last = ROWS * COLUMNS - 1;
    FAULT(PQ_ERR_ZERO, put_bits(small.zero, zero_type, last, (uint64_t)-129));
    FAULT(PQ_ERR_ZERO, put_bits(small.zero, zero_type, last, 1); a->zero.swapped = 1);
    /* the zero point out of range is in the first of two rows */
    FAULT(PQ_ERR_ZERO, put_bits(small.zero, zero_type, 0, 128); small.zeros[0] = 8;
          small.zeros[1] = 16);
    FAULT(quantize ? PQ_ERR_ZERO : PQ_OK, put_bits(small.zero, zero_type, last, 128);
          a->any_zeros = !quantize);
    static const enum pq_type types[] = {PQ_I16, PQ_U16, PQ_I32, PQ_U32, PQ_I64, PQ_U64};
    for (size_t t = 0; t < COUNT(types); t++) {
        for (uint64_t z = 126; z <= 129; z++) {
            for (int any = 0; any <= 1; any++) {
                struct pq_args args = valid_args(0, types[t]);
                args.any_zeros = any;
                put_bits(small.zero, types[t], 4, z);
                expect_status(z > 127 && !any ? PQ_ERR_ZERO : PQ_OK, &args, 0, "any_zeros");
            }
        }
    }
}

/* Check offsets. Any type, address and strides are valid if the offsets are in memory. */
static void check_offset_faults(int quantize)
{
    const enum pq_type zero_type = PQ_I8;
    ptrdiff_t far[BIG] = {0, PTRDIFF_MAX / 2}, none[BIG] = {0}, back[BIG] = {-12, -4};
    FAULT(PQ_OK, a->offset = a->scale);
    FAULT(PQ_OK, a->offset = a->scale; a->offset.strides = none);
    FAULT(PQ_OK, a->offset = a->scale; a->offset.data = small.scale + 5;
          a->offset.strides = back);
    FAULT(PQ_OK, a->offset = a->scale; a->offset.data = small.words + 1;
          a->offset.strides = small.zeros; a->offset.type = PQ_F64);
    FAULT(PQ_OK, a->offset = a->scale; a->offset.type = PQ_U4; a->offset.swapped = 1);
    FAULT(PQ_OK, a->offset = a->scale; a->offset.strides = far; small.shape[1] = 1);
    FAULT(PQ_OK, a->offset = a->scale; a->offset.strides = far; small.shape[0] = 0;
          small.shape[1] = 1);
    FAULT(PQ_ERR_NULL, a->offset = a->scale; a->offset.strides = NULL);
    FAULT(PQ_ERR_SHAPE, a->offset = a->scale; a->offset.strides = far);
    FAULT(PQ_ERR_TYPE, a->offset = a->scale; a->offset.type = PQ_NO_TYPE);
    FAULT(PQ_ERR_TYPE, a->offset = a->scale; a->offset.type = bad_type(PQ_TYPE_COUNT));
    FAULT(PQ_ERR_TYPE, a->offset = a->scale; a->offset.bit_strides = small.bits);
    /* If `data` is null, the other members of `offset` are ignored. */
    FAULT(PQ_OK, a->offset = a->scale; a->offset.data = NULL; a->offset.strides = NULL;
          a->offset.type = bad_type(-1));
}

#define FILLS(n, code)                                                                     \
    a->fills = n, a->fill = (const int64_t[])                                              \
    {                                                                                      \
        code, code, code                                                                   \
    }
#define RANGE(lo, hi) a->lowest_code = lo, a->highest_code = hi
#define ZEROS(z) memset(small.zero, z, ROWS *COLUMNS)

static void check_affine_faults(void)
{
    enum pq_type zero_type = PQ_I8;
    int quantize = 0;
    FAULT(PQ_OK, FILLS(1, 127));
    FAULT(PQ_OK, FILLS(3, 5));
    FAULT(PQ_ERR_NULL, a->fills = 1);
    FAULT(PQ_ERR_OPTION, FILLS(1, -129));
    FAULT(PQ_ERR_OPTION, FILLS(1, 128));
    FAULT(PQ_ERR_OPTION, FILLS(1, INT64_MIN));
    FAULT(PQ_ERR_OPTION, a->in.type = PQ_I4; FILLS(1, 8));
    FAULT(PQ_OK, a->in.type = PQ_I4; FILLS(1, 7));
    FAULT(PQ_ERR_OPTION, a->in.type = PQ_F8E5M2; FILLS(1, 1));
    FAULT(PQ_ERR_OPTION, a->beyond = (enum pq_beyond)bad_type(-1));
    quantize = 1;
    FAULT(PQ_OK, FILLS(1, -128));
    FAULT(PQ_ERR_NULL, a->fills = 1);
    FAULT(PQ_ERR_OPTION, FILLS(1, -129));
    FAULT(PQ_ERR_OPTION, FILLS(1, 128));
    FAULT(PQ_ERR_OPTION, a->out.type = PQ_F8E5M2; FILLS(1, 1));
    FAULT(PQ_OK, RANGE(-127, 127));
    FAULT(PQ_OK, RANGE(3, 3));
    FAULT(PQ_OK, RANGE(0, 3));
    FAULT(PQ_ERR_OPTION, RANGE(-129, 127));
    FAULT(PQ_ERR_OPTION, RANGE(-1, 128));
    FAULT(PQ_ERR_OPTION, RANGE(2, 1));
    FAULT(PQ_ERR_OPTION, a->out.type = PQ_F8E5M2; RANGE(0, 1));
    FAULT(PQ_OK, RANGE(-7, 7); ZEROS(7));
    FAULT(PQ_ERR_ZERO, RANGE(-7, 7); ZEROS(8));
    FAULT(PQ_ERR_ZERO, RANGE(1, 7); ZEROS(-1));
    FAULT(PQ_OK, RANGE(1, 7));
    FAULT(PQ_ERR_OPTION, RANGE(0, 3); FILLS(1, 3));
    FAULT(PQ_OK, RANGE(0, 3); FILLS(2, -1));
    FAULT(PQ_OK, a->beyond = PQ_WRAP);
    FAULT(PQ_ERR_OPTION, a->beyond = PQ_WRAP; RANGE(0, 3));
    FAULT(PQ_ERR_OPTION, a->beyond = PQ_WRAP; a->out.type = PQ_F8E5M2);
    FAULT(PQ_OK, a->beyond = PQ_REFUSE);
    FAULT(PQ_OK, a->beyond = PQ_REFUSE; a->out.type = PQ_F8E5M2);
    FAULT(PQ_ERR_OPTION, a->beyond = PQ_REFUSE; a->out.type = PQ_F8E5M2; a->overflow = 1);
    FAULT(PQ_ERR_OPTION, a->beyond = PQ_BEYOND_COUNT);
    FAULT(PQ_ERR_OPTION, a->beyond = (enum pq_beyond)bad_type(-1));
    FAULT(PQ_ERR_OPTION, a->beyond = PQ_WRAP; a->zero_first = 1);
    FAULT(PQ_ERR_OPTION, a->beyond = PQ_WRAP; a->narrow_first = 1);
    FAULT(PQ_ERR_TYPE, a->beyond = PQ_WRAP; a->precision = PQ_F16);
    FAULT(PQ_OK, a->beyond = PQ_WRAP; a->precision = PQ_F64);
    FAULT(PQ_ERR_TYPE, a->beyond = PQ_WRAP; a->in.type = PQ_I32; a->precision = PQ_NO_TYPE);
    /* No affine kernel supports zero points that need 64 bits. */
    quantize = 0;
    zero_type = PQ_I64;
    FAULT(PQ_OK, put_bits(small.zero, PQ_I64, 5, INT64_MAX); a->any_zeros = 1);
    FAULT(PQ_ERR_ZERO, put_bits(small.zero, PQ_I64, 5, INT64_MAX); a->any_zeros = 1;
          a->offset = a->scale);
}

/* ---- accepted options ---- */

/* Apply a macro to each option: its name, and a statement that sets a valid value. */
#define FOR_OPTION(OPTION)                                                                 \
    OPTION(ROUND, a->round = PQ_FLOOR)                                                     \
    OPTION(STOCHASTIC, a->round = PQ_STOCHASTIC)                                           \
    OPTION(SEED, a->seed = 1)                                                              \
    OPTION(START, a->start = 1)                                                            \
    OPTION(PRECISION, a->precision = PQ_F64)                                               \
    OPTION(OVERFLOW, a->overflow = 1)                                                      \
    OPTION(ZERO_FIRST, a->zero_first = 1)                                                  \
    OPTION(NARROW_FIRST, a->narrow_first = 1)                                              \
    OPTION(ANY_ZEROS, a->any_zeros = 1)                                                    \
    OPTION(OFFSET, a->offset = a->scale)                                                   \
    OPTION(INVERSE, a->inverse = 1)                                                        \
    OPTION(FILL, a->fills = 1; a->fill = &fill)                                            \
    OPTION(RANGE, RANGE(-99, 99))                                                          \
    OPTION(WRAP, a->beyond = PQ_WRAP)                                                      \
    OPTION(REFUSE, a->beyond = PQ_REFUSE)                                                  \
    OPTION(REFUSE_NAN, a->refuse_nan = 1)                                                  \
    OPTION(UNKNOWN_NAN, a->refuse_nan = 2)
#define OPTION(name, set) AT_##name,
enum { FOR_OPTION(OPTION) OPTIONS };
#undef OPTION
#define OPTION(name, set) name = 1 << AT_##name,
enum {
    FOR_OPTION(OPTION) /* ALL: the options that quantize accepts for every type of codes */
    ALL = ROUND |
    STOCHASTIC | SEED | START | PRECISION | NARROW_FIRST | OFFSET | INVERSE | REFUSE |
    REFUSE_NAN
};
#undef OPTION

enum operation {
    QUANTIZE,
    DEQUANTIZE,
    FAKE_QUANTIZE,
    MEASURE_PARAMS,
    DYNAMIC_QUANTIZE,
    REPACK,
    MINMAX,
    CHOOSE_PARAMS,
    SEARCH_PARAMS,
    HISTOGRAM,
    MEASURE,
    COUNT_NONFINITE,
    COUNT_BEYOND,
    TO_CODEBOOK,
    FROM_CODEBOOK,
    /* excluded from check_required(), because pq_zeros_within() returns no status */
    ZEROS_WITHIN
};

enum { BOOK = 8 };
static const float book_values[BOOK] = {0, 1, 2, 3, 4, 5, 6, 7};
static unsigned char wide_codes[8 * ROWS * COLUMNS];
static uint32_t counters[PQ_COUNTERS];

/* The arguments of operate(), except struct pq_args. */
static struct {
    const struct pq_kernels *kernels;
    struct pq_fake fake;
    struct pq_choice choice;
    struct pq_search search;
    struct pq_counts counts;
    struct pq_codebook book;
    int has_no_result; /* 1 to pass NULL as the last struct or result */
    int part, parts;
} with;

/* Return valid arguments for an operation with codes of type `code`. Reset `with`. */
static struct pq_args valid_operation(enum operation operation, enum pq_type code)
{
    static const ptrdiff_t strides[2] = {8 * COLUMNS, 8}, cells[2] = {0, sizeof(double)};
    struct pq_args args = valid_args(1, PQ_I8);
    const struct pq_array real = args.in, codes = {wide_codes, strides, code, 0, NULL};
    with.kernels = scalar;
    with.fake = (struct pq_fake){.size = sizeof with.fake, .code = code};
    with.choice = (struct pq_choice){.size = sizeof with.choice, .code = code};
    with.search = (struct pq_search){.size = sizeof with.search};
    with.counts = (struct pq_counts){.size = sizeof with.counts,
                                     .counters = counters,
                                     .lowest = (double)INFINITY,
                                     .highest = (double)-INFINITY};
    with.book = (struct pq_codebook){.size = sizeof with.book};
    EXPECT(PQ_OK, pq_codebook_init(&with.book, book_values, BOOK));
    with.has_no_result = with.part = 0;
    with.parts = 1;
    args.precision = PQ_NO_TYPE;
    const int reads_codes =
        operation == DEQUANTIZE || operation == REPACK || operation == FROM_CODEBOOK;
    args.in = reads_codes ? codes : real;
    args.out = (reads_codes && operation != REPACK) || operation == FAKE_QUANTIZE ||
                       operation == MEASURE
                   ? real
                   : codes;
    if (operation == TO_CODEBOOK || operation == FROM_CODEBOOK) {
        args.zero.data = NULL;
    }
    if (operation == MINMAX || operation == COUNT_NONFINITE) {
        args.lowest = (struct pq_array){small.lo, cells, PQ_F64, 0, NULL};
        args.highest = (struct pq_array){small.hi, cells, PQ_F64, 0, NULL};
        args.out = (struct pq_array){.data = NULL};
    }
    return args;
}

static enum pq_status operate(enum operation operation, const struct pq_args *args)
{
    const int none = with.has_no_result, part = with.part, parts = with.parts;
    const struct pq_kernels *const k = with.kernels;
    struct pq_error error;
    int finite;
    int64_t outside;
    size_t count, first;
    switch (operation) {
    case QUANTIZE:
        return pq_quantize(k, args, part, parts);
    case DEQUANTIZE:
        return pq_dequantize(k, args, part, parts);
    case FAKE_QUANTIZE:
        return pq_fake_quantize(k, args, none ? NULL : &with.fake, part, parts);
    case MEASURE_PARAMS:
        return pq_measure_params(k, args, with.fake.code, NULL, none ? NULL : &error, part,
                                 parts);
    case DYNAMIC_QUANTIZE:
        return pq_dynamic_quantize(k, args, none ? NULL : &with.choice, part, parts);
    case REPACK:
        return pq_repack(k, args, part, parts);
    case MINMAX:
        return pq_minmax(k, args, none ? NULL : &finite);
    case CHOOSE_PARAMS:
        return pq_choose_params(k, args, none ? NULL : &with.choice, part, parts);
    case SEARCH_PARAMS:
        return pq_search_params(k, args, &with.choice, none ? NULL : &with.search, part,
                                parts);
    case HISTOGRAM:
        return pq_histogram(k, args, none ? NULL : &with.counts, part, parts);
    case MEASURE:
        return pq_measure(k, args, NULL, none ? NULL : &error, part, parts);
    case COUNT_NONFINITE:
        return pq_count_nonfinite(args, none ? NULL : &count, &first);
    case ZEROS_WITHIN:
        return pq_zeros_within(args, 0, 0, none ? NULL : &outside) ? PQ_OK : PQ_ERR_ZERO;
    case COUNT_BEYOND:
        return pq_count_beyond(k, args, none ? NULL : &count, &first);
    default:
        return (operation == TO_CODEBOOK ? pq_codebook_quantize : pq_codebook_dequantize)(
            k, args, none ? NULL : &with.book, part, parts);
    }
}

/* Return a type of codes that an operation accepts. Repack requires narrow codes. */
static enum pq_type code_of(enum operation operation)
{
    return operation == REPACK                                      ? PQ_I4
           : operation == TO_CODEBOOK || operation == FROM_CODEBOOK ? PQ_U8
                                                                    : PQ_I8;
}

/* Check the status of an operation. An operation with an error must write nothing. */
static void expect_operation(enum pq_status due, enum operation operation,
                             const struct pq_args *args, const char *what)
{
    static unsigned char held[sizeof small];
    memcpy(held, &small, sizeof small);
    memset(wide_codes, 0, sizeof wide_codes);
    const enum pq_status got = operate(operation, args);
    int written = memcmp(held, &small, sizeof small) != 0 || with.counts.count != 0;
    for (size_t i = 0; i < sizeof wide_codes; i++) {
        written |= wide_codes[i] != 0;
    }
    for (size_t i = 0; i < PQ_COUNTERS && operation == HISTOGRAM; i++) {
        written |= counters[i] != 0;
    }
    CHECK(got == due, "operation %d: %s: status %d, expected %d", (int)operation, what,
          (int)got, (int)due);
    CHECK(got == PQ_OK || !written, "operation %d: %s: memory was written", (int)operation,
          what);
    memset(counters, 0, operation == HISTOGRAM ? sizeof counters : 0);
}

/* Change valid arguments by the statements `...`, and check the status of the operation. */
static const ptrdiff_t far[2] = {PTRDIFF_MIN, PTRDIFF_MAX / 2};
#define OPERATION(operation, due, ...)                                                     \
    do {                                                                                   \
        struct pq_args args = valid_operation(operation, code_of(operation)), *const a =   \
                                                                                  &args;   \
        (void)a;                                                                           \
        __VA_ARGS__;                                                                       \
        expect_operation(due, operation, a, #__VA_ARGS__);                                 \
    } while (0)

/* Check the errors of arguments that every operation has. */
static void check_required(enum operation operation)
{
    const int has_parts =
        operation != MINMAX && operation != COUNT_NONFINITE && operation != COUNT_BEYOND;
    const int has_result =
        operation != QUANTIZE && operation != DEQUANTIZE && operation != REPACK;
    struct {
        struct pq_args args;
        uint64_t more[8];
    } newer = {.args = valid_operation(operation, code_of(operation))};
    newer.args.size = sizeof newer;
    expect_operation(PQ_OK, operation, &newer.args, "a newer caller");
    OPERATION(operation, PQ_OK, (void)0);
    OPERATION(operation, operation == COUNT_NONFINITE ? PQ_OK : PQ_ERR_NULL,
              with.kernels = NULL);
    OPERATION(operation, has_result ? PQ_ERR_NULL : PQ_OK, with.has_no_result = 1);
    OPERATION(operation, has_parts ? PQ_ERR_PART : PQ_OK, with.part = 1);
    OPERATION(operation, has_parts ? PQ_ERR_PART : PQ_OK, with.part = -1);
    EXPECT(PQ_ERR_NULL, operate(operation, NULL));
    OPERATION(operation, PQ_ERR_SIZE, a->size = offsetof(struct pq_args, in_layout) - 1);
    OPERATION(operation, PQ_ERR_NULL, a->shape = NULL);
    OPERATION(operation, PQ_ERR_NULL, a->in.data = NULL);
    OPERATION(operation, PQ_ERR_NULL, a->in.strides = NULL);
    OPERATION(operation, PQ_ERR_NDIM, a->ndim = BIG);
    OPERATION(operation, PQ_ERR_NDIM, a->ndim = -1);
    OPERATION(operation, PQ_ERR_TYPE, a->in.type = bad_type(-1));
    OPERATION(operation, PQ_ERR_SHAPE, small.shape[1] = -1);
    OPERATION(operation, PQ_ERR_SHAPE, a->in.strides = far);
}

static void check_operations(void)
{
    static const ptrdiff_t none[2] = {0}, many[2] = {(ptrdiff_t)1 << 20, 1 << 11};
    static const double candidates[2] = {1, 0};
    static const float bad_values[BOOK] = {0, 1, 2, INFINITY, 4, 5, 6, 7};
    check_begin("operations, errors");
    for (int operation = 0; operation < ZEROS_WITHIN; operation++) {
        check_required((enum operation)operation);
    }
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_NULL, a->zero.data = NULL);
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_TYPE, a->out.type = PQ_U8);
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_TYPE, a->in.type = PQ_I32);
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_TYPE, a->scale.type = PQ_F64);
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_TYPE, a->scale.type = PQ_F64; with.part = 98;
              with.parts = 99); /* part 98 of 99 has no elements */
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_TYPE, a->scale.type = PQ_F64; a->in.swapped = 1;
              with.part = 98; with.parts = 99);
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_ROUND, a->round = PQ_ROUND_COUNT);
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_OVERLAP, a->out.strides = none);
    OPERATION(DYNAMIC_QUANTIZE, PQ_ERR_SIZE, with.choice.size = 3);
    OPERATION(FAKE_QUANTIZE, PQ_ERR_SIZE, with.fake.size = 1);
    OPERATION(FAKE_QUANTIZE, PQ_ERR_TYPE, with.fake.code = PQ_F32);
    OPERATION(FAKE_QUANTIZE, PQ_ERR_ZERO, with.fake.code = PQ_F8E4M3FN;
              ZEROS(1)); /* narrow floats have no zero points */
#define MASK(strides, type)                                                                \
    with.fake.mask = (struct pq_array){small.codes, strides, type, 0, NULL}
    OPERATION(FAKE_QUANTIZE, PQ_OK, MASK(small.out, PQ_U8));
    OPERATION(FAKE_QUANTIZE, PQ_ERR_TYPE, MASK(small.out, PQ_I8));
    OPERATION(FAKE_QUANTIZE, PQ_ERR_OVERLAP, MASK(none, PQ_U8));
#undef MASK
    OPERATION(FAKE_QUANTIZE, PQ_ERR_OVERLAP, a->out.strides = none);
    OPERATION(FAKE_QUANTIZE, PQ_ERR_TYPE, a->out.type = PQ_F64);
    OPERATION(FAKE_QUANTIZE, PQ_ERR_ROUND, a->round = PQ_ROUND_COUNT);
    OPERATION(MEASURE, PQ_ERR_TYPE, a->in.type = PQ_I8);
    OPERATION(MEASURE_PARAMS, PQ_ERR_TYPE, with.fake.code = PQ_F32);
    OPERATION(MEASURE_PARAMS, PQ_ERR_ZERO, with.fake.code = PQ_I2; ZEROS(2));
    OPERATION(SEARCH_PARAMS, PQ_ERR_SIZE, with.search.size = 4);
    OPERATION(SEARCH_PARAMS, PQ_ERR_TYPE, a->scale.type = PQ_F64);
    OPERATION(SEARCH_PARAMS, PQ_ERR_OPTION, with.choice.rule = PQ_RULE_ONNX_DYNAMIC);
    OPERATION(SEARCH_PARAMS, PQ_ERR_NONFINITE, small.reals[2] = NAN);
    OPERATION(SEARCH_PARAMS, PQ_ERR_TYPE, with.search.weights = a->in;
              with.search.weights.type = PQ_I32);
    OPERATION(SEARCH_PARAMS, PQ_ERR_OPTION, with.search.candidates = candidates;
              with.search.count = 2);
    OPERATION(SEARCH_PARAMS, PQ_ERR_OPTION, with.search.candidates = candidates);
    OPERATION(HISTOGRAM, PQ_ERR_TYPE, a->in.type = PQ_I8);
    OPERATION(HISTOGRAM, PQ_ERR_TYPE, a->in.bit_strides = small.bits);
    OPERATION(HISTOGRAM, PQ_ERR_SIZE, with.counts.size--);
    OPERATION(HISTOGRAM, PQ_ERR_SHAPE, a->shape = many; a->in.strides = none;
              with.counts.pending = UINT32_MAX - 100);
    OPERATION(TO_CODEBOOK, PQ_ERR_OPTION, a->out.type = PQ_U2);
    OPERATION(FROM_CODEBOOK, PQ_ERR_SIZE, with.book.size--);
    OPERATION(FROM_CODEBOOK, PQ_ERR_TYPE, a->in.type = PQ_I8);
    OPERATION(FROM_CODEBOOK, PQ_ERR_TYPE, a->zero = a->in; a->zero.strides = none);
    OPERATION(FROM_CODEBOOK, PQ_ERR_OPTION, a->offset = a->scale);
    OPERATION(FROM_CODEBOOK, PQ_ERR_OPTION, a->any_zeros = 1);
#define INIT(due, values, n) EXPECT(due, pq_codebook_init(&with.book, values, n))
    OPERATION(FROM_CODEBOOK, PQ_ERR_NULL, INIT(PQ_ERR_OPTION, book_values, BOOK - 1));
    OPERATION(FROM_CODEBOOK, PQ_ERR_NULL, INIT(PQ_ERR_OPTION, bad_values, BOOK));
    INIT(PQ_ERR_OPTION, book_values, 2);
    INIT(PQ_ERR_OPTION, book_values, 512);
    INIT(PQ_ERR_NULL, NULL, BOOK);
    with.book.size--;
    INIT(PQ_ERR_SIZE, book_values, BOOK);
#undef INIT
    EXPECT(PQ_ERR_NULL, pq_codebook_init(NULL, book_values, BOOK));
}

/* Check which options each operation accepts. An option not listed in its row is an
 * error. */
static void check_options(void)
{
    static const struct {
        enum operation operation;
        enum pq_type code;
        int accepted;
    } rows[] = {
        {QUANTIZE, PQ_I8, ALL | ZERO_FIRST | FILL | RANGE | WRAP},
        {QUANTIZE, PQ_I32, ALL | ZERO_FIRST | FILL | RANGE | WRAP},
        {QUANTIZE, PQ_I64, ALL | ZERO_FIRST | FILL | RANGE | WRAP},
        {QUANTIZE, PQ_F8E5M2, (ALL & ~ROUND) | OVERFLOW},
        {DEQUANTIZE, PQ_I8, ANY_ZEROS | OFFSET | INVERSE | FILL},
        {DEQUANTIZE, PQ_I64, ANY_ZEROS | OFFSET | INVERSE | FILL},
        {DEQUANTIZE, PQ_F8E5M2, OFFSET | INVERSE},
        {FAKE_QUANTIZE, PQ_I8,
         ROUND | STOCHASTIC | SEED | START | PRECISION | OFFSET | INVERSE | FILL | RANGE},
        {FAKE_QUANTIZE, PQ_F8E5M2,
         STOCHASTIC | SEED | START | PRECISION | OVERFLOW | OFFSET | INVERSE},
        {MEASURE_PARAMS, PQ_I8, ROUND | OFFSET | FILL | RANGE},
        {MEASURE_PARAMS, PQ_F8E5M2, OVERFLOW | OFFSET},
        {DYNAMIC_QUANTIZE, PQ_I8, ALL | ZERO_FIRST | FILL | RANGE | WRAP},
        {REPACK, PQ_I4, 0},
        {MINMAX, PQ_I8, 0},
        {CHOOSE_PARAMS, PQ_I8, 0},
        {SEARCH_PARAMS, PQ_I8, 0},
        {HISTOGRAM, PQ_I8, 0},
        {MEASURE, PQ_I8, 0},
    };
    static const ptrdiff_t empty_shape[2] = {ROWS, 0};
    const struct pq_layout layout = {.size = sizeof layout};
    const int64_t fill = 100;
    check_begin("accepted options");
    for (size_t r = 0; r < 2 * COUNT(rows) * (OPTIONS + 1); r++) {
        const int option = (int)(r / 2 % (OPTIONS + 1)), row = (int)(r / 2 / (OPTIONS + 1));
        const bool empty = r % 2 != 0;
        const enum operation operation = rows[row].operation;
        struct pq_args args = valid_operation(operation, rows[row].code), *const a = &args;
        const char *name = "";
        args.shape = empty ? empty_shape : args.shape;
        switch (option) {
#define OPTION(text, set)                                                                  \
    case AT_##text:                                                                        \
        name = #text;                                                                      \
        set;                                                                               \
        break;
            FOR_OPTION(OPTION)
#undef OPTION
        default:
            if (operation <= REPACK) { /* layouts are valid for these operations */
                continue;
            }
            name = "LAYOUT";
            args.in_layout = &layout;
            break;
        }
        const int is_valid = rows[row].accepted >> option & 1;
        const enum pq_status due = is_valid ? PQ_OK : PQ_ERR_OPTION;
        const enum pq_status got = operate(operation, a);
        CHECK(got == due, "operation %d, %s%s: %s: status %d, expected %d", (int)operation,
              type_name(rows[row].code), empty ? ", no elements" : "", name, (int)got,
              (int)due);
    }
}

/* Check that structs of older and newer versions are accepted. An older struct ends
 * earlier. A newer struct has more members, which must be 0. */
static void check_sizes(int quantize)
{
    const enum pq_type zero_type = PQ_I8;
    struct {
        struct pq_args args;
        unsigned char more[1024];
    } newer = {.args = valid_args(quantize, zero_type)};
    newer.args.size = sizeof newer;
    expect_status(PQ_OK, &newer.args, quantize, "more zeros");
    newer.more[sizeof newer.more - 1] = 1;
    newer.args = valid_args(quantize, zero_type);
    newer.args.size = sizeof newer;
    expect_status(PQ_ERR_SIZE, &newer.args, quantize, "an unknown member");
    const size_t oldest = offsetof(struct pq_args, in_layout);
    FAULT(PQ_OK, a->size = oldest; memset((char *)a + oldest, 0xff, sizeof *a - oldest));
    FAULT(PQ_ERR_SIZE, a->size = oldest - 1);
    FAULT(PQ_ERR_SIZE, a->size = 0);
    FAULT(PQ_ERR_SIZE, a->size = SIZE_MAX);
    struct pq_args args = valid_args(quantize, zero_type);
    struct pq_prepared plan = {.size = 100};
    EXPECT(PQ_ERR_SIZE, prepare(&plan, &args, quantize));
    int64_t outside;
    args.size = oldest - 1;
    CHECK(pq_zeros_within(&args, 0, 0, &outside) == 0, "zeros_within: size");
}

static void check_parts(int quantize)
{
    static const int parts[][2] = {{-1, 1}, {1, 1},      {0, 0},       {0, -1},
                                   {2, 2},  {-1, -1},    {INT_MIN, 1}, {INT_MAX, INT_MAX},
                                   {7, 3},  {0, INT_MIN}};
    const struct pq_args args = valid_args(quantize, PQ_I8);
    struct pq_prepared plan = {.size = sizeof plan};
    CHECK(pq_run(&plan, small.reals, small.codes, 0, 1) == PQ_ERR_NULL, "an empty plan");
    EXPECT(PQ_ERR_NULL, prepare(NULL, &args, quantize));
    EXPECT(PQ_ERR_NULL, prepare(&plan, NULL, quantize));
    EXPECT(PQ_OK, prepare(&plan, &args, quantize));
    for (size_t i = 0; i < COUNT(parts); i++) {
        EXPECT(PQ_ERR_PART, run(&args, quantize, parts[i][0], parts[i][1]));
        EXPECT(PQ_ERR_PART,
               pq_run(&plan, args.in.data, args.out.data, parts[i][0], parts[i][1]));
    }
    EXPECT(PQ_ERR_NULL, pq_run(NULL, args.in.data, args.out.data, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_run(&plan, NULL, args.out.data, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_run(&plan, args.in.data, NULL, 0, 1));
    CHECK(small.codes[5] == 50 && small.reals[5] == 3, "memory was written");
    EXPECT(PQ_OK, pq_run(&plan, args.in.data, args.out.data, 0, 1));
    CHECK(quantize ? small.codes[5] == 6 : small.reals[5] == 25, "codes[5] = %d, %g",
          small.codes[5], (double)small.reals[5]);
}

static void check_errors(void)
{
    struct pq_args args = valid_args(1, PQ_I8);
    struct pq_prepared plan = {.size = sizeof plan};
    for (int quantize = 0; quantize <= 1; quantize++) {
        check_begin("%s, errors", quantize ? "quantize" : "dequantize");
        check_faults(quantize, PQ_I8);
        check_faults(quantize, PQ_I64); /* int64 zero points can be out of range */
        check_zero_faults(quantize);
        check_offset_faults(quantize);
        check_sizes(quantize);
        check_parts(quantize);
    }
    check_begin("affine calls, errors");
    check_affine_faults();
    check_begin("no kernels");
    EXPECT(PQ_ERR_NULL, pq_prepare_quantize(&plan, NULL, &args));
    EXPECT(PQ_ERR_NULL, pq_prepare_dequantize(&plan, NULL, &args));
}

static void check_table(void)
{
    struct pq_api api;
    check_begin("the table of functions");
    memset(&api, 0, sizeof api);
    pq_api_init(&api, scalar, "1.2.3");
    void (*members[(sizeof api - offsetof(struct pq_api, isa_find)) / sizeof(void *)])(
        void);
    memcpy(members, (char *)&api + offsetof(struct pq_api, isa_find), sizeof members);
    for (size_t i = 0; i < COUNT(members); i++) {
        CHECK(members[i] != NULL, "function %zu is missing", i);
        for (size_t j = 0; j < i; j++) {
            CHECK(members[i] != members[j], "functions %zu and %zu are equal", i, j);
        }
    }
    CHECK(api.major == PQ_API_MAJOR && api.minor == PQ_API_MINOR, "version");
    CHECK(api.kernels == scalar, "kernels");
    CHECK(strcmp(api.version, "1.2.3") == 0, "version %s", api.version);
    CHECK(api.quantize == pq_quantize && api.dequantize == pq_dequantize &&
              api.run == pq_run && api.repack == pq_repack && api.minmax == pq_minmax &&
              api.codebook_init == pq_codebook_init &&
              api.codebook_quantize == pq_codebook_quantize &&
              api.codebook_dequantize == pq_codebook_dequantize &&
              api.requantize_codes == pq_requantize_codes,
          "a function has another place");
    for (int i = 0; i <= PQ_ERR_BEYOND; i++) {
        for (int j = -1; j < i; j++) {
            const char *text = pq_status_text((enum pq_status)i);
            CHECK(text[0] != 0 && strcmp(text, pq_status_text((enum pq_status)j)) != 0,
                  "statuses %d and %d", i, j);
        }
    }
    const char *unknown = pq_status_text((enum pq_status) - 1);
    CHECK(strcmp(unknown, pq_status_text((enum pq_status)(PQ_ERR_BEYOND + 1))) == 0,
          "unknown");
}

/* Check that 64 dimensions are valid, and that any stride is valid for a dimension of one
 * element and for an empty array. */
static void check_dimensions(void)
{
    int64_t outside = 5;
    size_t count = 7, first = 7;
    struct guarded arena = guarded_make(8);
    check_begin("dimensions of 0 and 1");
    struct pq_args args = valid_args(1, PQ_I8);
    args.ndim = PQ_MAX_NDIM;
    small.in[2] = small.zeros[2] = PTRDIFF_MAX;
    small.in[3] = small.zeros[3] = PTRDIFF_MIN;
    small.zero[4] = 9;
    EXPECT(PQ_OK, pq_quantize(scalar, &args, 0, 1));
    CHECK(small.codes[5] == 6, "code %d", small.codes[5]);
    EXPECT(PQ_OK, pq_count_nonfinite(&args, &count, &first));
    CHECK(count == 0, "count %zu", count);
    CHECK(pq_zeros_within(&args, 0, 9, &outside) == 1, "within");
    CHECK(pq_zeros_within(&args, 0, 8, &outside) == 0 && outside == 9, "outside");
    args = valid_args(1, PQ_I8);
    args.ndim = 0;
    args.shape = args.block = NULL;
    args.in.strides = args.out.strides = args.scale.strides = args.zero.strides = NULL;
    EXPECT(PQ_OK, pq_quantize(scalar, &args, 0, 1));
    CHECK(small.codes[0] == (unsigned char)-4 && small.codes[1] == 10, "0-d codes %d %d",
          small.codes[0], small.codes[1]);
    args = valid_args(1, PQ_I16); /* int16 zero points can be out of range */
    args.zero.data = guarded_end(&arena, 0);
    small.shape[0] = small.zeros[0] = small.zeros[1] = 0;
    CHECK(pq_zeros_within(&args, 3, 3, &outside) == 1 && outside == 0, "within");
    EXPECT(PQ_OK, pq_quantize(scalar, &args, 0, 1));
}

/* ---- extrema ---- */

/* Check the errors of minmax and of count_nonfinite. The two can differ, because
 * count_nonfinite ignores the arrays of extrema. */
#define EXTREMA(due, due_count, ...)                                                       \
    do {                                                                                   \
        OPERATION(MINMAX, due, __VA_ARGS__);                                               \
        OPERATION(COUNT_NONFINITE, due_count, __VA_ARGS__);                                \
    } while (0)

static void check_extrema_errors(void)
{
    check_begin("minmax and count_nonfinite, errors");
    OPERATION(MINMAX, PQ_OK, (void)0);
    CHECK(small.lo[0] == -2 && small.hi[2] == 3, "%a %a", small.lo[0], small.hi[2]);
    EXTREMA(PQ_ERR_NULL, PQ_OK, a->lowest.data = NULL);
    EXTREMA(PQ_ERR_NULL, PQ_OK, a->highest.data = NULL);
    EXTREMA(PQ_ERR_NULL, PQ_OK, a->lowest.strides = NULL);
    EXTREMA(PQ_ERR_NULL, PQ_OK, a->highest.strides = NULL);
    EXTREMA(PQ_ERR_TYPE, PQ_OK, a->lowest.type = PQ_F32);
    EXTREMA(PQ_ERR_TYPE, PQ_OK, a->highest.type = PQ_I64);
    EXTREMA(PQ_ERR_SHAPE, PQ_ERR_SHAPE, small.block[0] = 0);
    EXTREMA(PQ_ERR_TYPE, PQ_ERR_TYPE, a->in.type = PQ_I8);
    EXTREMA(PQ_ERR_TYPE, PQ_ERR_TYPE, a->in.bit_strides = small.bits);
    EXTREMA(PQ_ERR_SHAPE, PQ_ERR_SHAPE, small.in[1] = PTRDIFF_MAX / 2);
    EXTREMA(PQ_ERR_SHAPE, PQ_ERR_SHAPE, small.in[0] = PTRDIFF_MIN);
}

/* ---- zero points within a range ---- */

static void check_zeros_errors(void)
{
    static const int types[] = {-1,           PQ_NO_TYPE,    PQ_F32, PQ_F64,
                                PQ_F8E8M0FNU, PQ_TYPE_COUNT, INT_MAX};
    check_begin("zeros_within, errors");
    OPERATION(ZEROS_WITHIN, PQ_OK, (void)0);
    OPERATION(ZEROS_WITHIN, PQ_ERR_ZERO, with.has_no_result = 1);
    OPERATION(ZEROS_WITHIN, PQ_ERR_ZERO, a->zero.strides = NULL);
    OPERATION(ZEROS_WITHIN, PQ_ERR_ZERO, a->zero.data = NULL);
    OPERATION(ZEROS_WITHIN, PQ_ERR_ZERO, small.zeros[1] = PTRDIFF_MIN);
    EXPECT(PQ_ERR_ZERO, operate(ZEROS_WITHIN, NULL));
    for (size_t i = 0; i < COUNT(types); i++) {
        OPERATION(ZEROS_WITHIN, PQ_ERR_ZERO, a->zero.type = bad_type(types[i]));
    }
}

/* Check that a zero point out of range is found at any index of a long array. */
static void check_one_outside(void)
{
    enum { MOST = 20003 };
    static const int counts[] = {1, 3, 4, 5, 8191, 8192, 8193, 16384, MOST};
    static const enum pq_type types[] = {PQ_I16, PQ_U16, PQ_I32, PQ_U32, PQ_I64, PQ_U64};
    static unsigned char zeros[MOST * 8];
    check_begin("zeros_within, one outside");
    for (size_t c = 0; c < COUNT(types) * COUNT(counts); c++) {
        const enum pq_type type = types[c / COUNT(counts)];
        const ptrdiff_t size = (ptrdiff_t)pq_type_size(type), n = counts[c % COUNT(counts)];
        const struct pq_args args = {.size = sizeof args,
                                     .ndim = 1,
                                     .shape = &n,
                                     .zero = {zeros, &size, type, 0, NULL}};
        for (ptrdiff_t i = 0; i < n && !check_tired(); i += 1 + i % 4 * 250) {
            int64_t outside = 0;
            CHECK(pq_zeros_within(&args, 0, 127, &outside) == 1, "%s, %td: not within",
                  type_name(type), n);
            put_bits(zeros, type, (size_t)i, 128);
            CHECK(pq_zeros_within(&args, 0, 127, &outside) == 0 && outside == 128,
                  "%s, %td of %td: within", type_name(type), i, n);
            put_bits(zeros, type, (size_t)i, 0);
        }
    }
}

/* ---- layouts of words ---- */

/* The first n members are a permutation of 0 to n - 1, for even n. */
static unsigned char turned[256];

/* Return a valid call that quantizes to the 4-bit codes 8, 9 and so on, in a 32-bit word
 * for each row. Set `layout` to the layout of the words. */
static struct pq_args valid_words(struct pq_layout *layout)
{
    struct pq_args args = valid_args(1, PQ_U8);
    for (int i = 0; i < 256; i++) {
        turned[i] = (unsigned char)(i ^ 1);
    }
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        small.reals[i] = (float)(i + 8);
        small.scale[i] = 1;
    }
    small.bits[0] = 32;
    small.bits[1] = PTRDIFF_MIN; /* ignored */
    args.out =
        (struct pq_array){.data = small.words, .type = PQ_U4, .bit_strides = small.bits};
    args.out_layout = layout;
    *layout = (struct pq_layout){
        .size = sizeof *layout, .axis = 1, .word_bits = 32, .word_stride = 32};
    return args;
}

/* Change the call of valid_words() by the statements `...`, and check the status.
 * LAYOUT_BYTES also compares the first bytes of the words. */
#define LAYOUT(due, ...)                                                                   \
    do {                                                                                   \
        struct pq_layout layout, *const w = &layout;                                       \
        struct pq_args args = valid_words(w), *const a = &args;                            \
        __VA_ARGS__;                                                                       \
        expect_status(due, a, 1, #__VA_ARGS__);                                            \
    } while (0)
#define LAYOUT_BYTES(bytes, ...)                                                           \
    do {                                                                                   \
        LAYOUT(PQ_OK, __VA_ARGS__);                                                        \
        CHECK(memcmp(small.words, bytes, sizeof bytes - 1) == 0, "%s: %02x %02x",          \
              #__VA_ARGS__, small.words[0], small.words[1]);                               \
    } while (0)
#define TURNED(n) w->order = turned, w->group = n
/* Change the layout to one 3-bit code for each row. The code occupies bits 6 to 8 of its
 * row, so that two words of 8 bits contain a part of the code. */
#define ONE                                                                                \
    (small.shape[1] = 1, a->out.type = PQ_U8, w->bits = 3,                                 \
     w->order = (const unsigned char[]){2, 0, 1}, w->group = 3, w->word_bits = 8,          \
     w->word_stride = 8)

#define INT24                                                                              \
    (a->out.type = a->zero.type = PQ_I32, small.zeros[0] = small.zeros[1] = 0,             \
     w->bits = 24, w->word_bits = 8, w->word_stride = 8, small.bits[0] = 72)

static void check_layouts(void)
{
    check_begin("layouts");
    LAYOUT_BYTES("\x98\x0a\0\0\xcb\x0d\0", (void)a);
    LAYOUT_BYTES("\xff\x01\0\0\xff\x01", a->out.type = PQ_U8; w->bits = 3);
    LAYOUT_BYTES("\x89\xa0\0\0\xbc\xd0", TURNED(4));
    LAYOUT_BYTES("\x08\0\0\x09\0\0\x0a", INT24);
    LAYOUT(PQ_OK, INT24; put_bits(small.zero, PQ_I32, 0, (1 << 23) - 1));
    LAYOUT(PQ_ERR_ZERO, INT24; put_bits(small.zero, PQ_I32, 0, 1 << 23));
    LAYOUT(PQ_OK, TURNED(256); small.bits[0] = 1024);
    LAYOUT(PQ_OK, w->word_bits = 64; w->word_stride = small.bits[0] = 64);
    LAYOUT(PQ_OK, w->group = -1);
    LAYOUT(PQ_ERR_SIZE, w->size = 0);
    LAYOUT(PQ_ERR_SIZE, w->size--);
    LAYOUT(PQ_ERR_NULL, a->out.bit_strides = NULL);
    LAYOUT(PQ_ERR_NULL, a->in_layout = w);
    LAYOUT(PQ_ERR_SHAPE, w->axis = 2);
    LAYOUT(PQ_ERR_SHAPE, w->axis = -1);
    LAYOUT(PQ_ERR_SHAPE, a->ndim = 0);
    LAYOUT(PQ_ERR_SHAPE, w->word_bits = 24);
    LAYOUT(PQ_ERR_SHAPE, w->word_bits = 0);
    LAYOUT(PQ_ERR_SHAPE, w->word_stride = 36);
    LAYOUT(PQ_ERR_SHAPE, w->word_stride = PTRDIFF_MIN);
    LAYOUT(PQ_ERR_SHAPE, w->word_stride = PTRDIFF_MAX / 8 * 8);
    LAYOUT(PQ_ERR_SHAPE, small.bits[0] = 36);
    LAYOUT(PQ_ERR_SHAPE, small.bits[0] = PTRDIFF_MAX / 8 * 8);
    LAYOUT(PQ_ERR_SHAPE, TURNED(0));
    LAYOUT(PQ_ERR_SHAPE, TURNED(257));
    LAYOUT(PQ_ERR_SHAPE, TURNED(4); turned[3] = 1);
    LAYOUT(PQ_ERR_SHAPE, TURNED(4); turned[3] = 4);
    LAYOUT(PQ_ERR_TYPE, w->bits = 5);
    LAYOUT(PQ_ERR_TYPE, a->out.type = PQ_I8; w->bits = 4);
    LAYOUT(PQ_ERR_TYPE, a->out.type = PQ_U8; w->bits = 9);
    LAYOUT(PQ_ERR_TYPE, a->out.type = PQ_U8; w->bits = -1);
    LAYOUT(PQ_ERR_TYPE, a->out.type = PQ_I16);
    LAYOUT(PQ_ERR_OVERLAP, small.bits[0] = 0);
    LAYOUT(PQ_ERR_OVERLAP, small.bits[0] = 8); /* rows share a word */
    LAYOUT(PQ_ERR_OVERLAP, TURNED(16));
    LAYOUT(PQ_ERR_OVERLAP, TURNED(16); w->word_stride = 16; small.bits[0] = 64);
    LAYOUT_BYTES("\xc0\x01\xc0\x01", ONE; small.bits[0] = 16);
    LAYOUT(PQ_OK, ONE; small.bits[0] = 8; w->word_stride = 16);
    LAYOUT(PQ_OK, ONE; small.bits[0] = 16; w->word_bits = 16);
    LAYOUT(PQ_OK, ONE; TURNED(4); small.bits[0] = 8; w->word_stride = 0);
    LAYOUT(PQ_ERR_OVERLAP, ONE; small.bits[0] = 8);
    LAYOUT(PQ_ERR_OVERLAP, ONE; small.bits[0] = -8);
    LAYOUT(PQ_ERR_OVERLAP, ONE; small.bits[0] = 16; w->word_stride = 16);
    LAYOUT(PQ_ERR_OVERLAP, ONE; small.bits[0] = 16; w->word_stride = 0);
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
    CHECK(n >= 1 && pq_isa_find("scalar") == scalar, "no scalar");
    CHECK(n >= 1 && strcmp(pq_isa_name(n - 1), "scalar") == 0, "scalar is not the last");
    CHECK(pq_isa_name(n) == NULL && pq_isa_name(n + 100) == NULL, "too many names");
    CHECK(pq_isa_find("sse9") == NULL && pq_isa_find("") == NULL, "an unknown name");
    CHECK(pq_isa_find(NULL) == NULL && pq_isa_name(-1) == NULL, "no name");
    CHECK(pq_isa_name(INT_MIN) == NULL, "no name at the lowest number");
#if defined(__x86_64__)
    __builtin_cpu_init(); /* __builtin_cpu_supports() needs this call on Windows */
    /* If sse2 is missing, skip the check: the library that zig links for Windows reports no
     * CPU features. */
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
    CHECK(pq_type_size(PQ_TYPE_COUNT) == 0, "one too many");
    CHECK(pq_type_size(bad_type(-1)) == 0, "-1");
}

/* ---- elements out of range ---- */

static void check_beyond_errors(void)
{
    check_begin("count_beyond");
    struct pq_args args = valid_args(1, PQ_I8);
    size_t count = 7, first = 7;
    small.reals[2] = INFINITY;
    small.reals[4] = -1000;
    small.reals[5] = NAN;
    EXPECT(PQ_OK, pq_count_beyond(scalar, &args, &count, &first));
    CHECK(count == 0, "saturated: %zu", count);
    args.beyond = PQ_REFUSE;
    EXPECT(PQ_ERR_BEYOND, pq_quantize(scalar, &args, 0, 1));
    CHECK(small.codes[2] == 127 && small.codes[4] == 128 && small.codes[5] == 128,
          "not saturated");
    EXPECT(PQ_OK, pq_count_beyond(scalar, &args, &count, &first));
    CHECK(count == 2 && first == 2, "%zu from %zu on", count, first);
    args.refuse_nan = 1;
    args.beyond = PQ_WRAP;
    EXPECT(PQ_OK, pq_count_beyond(scalar, &args, &count, &first));
    CHECK(count == 1 && first == 5, "%zu from %zu on, of NaN", count, first);
    EXPECT(PQ_ERR_NULL, pq_count_beyond(scalar, &args, &count, NULL));
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_names();
    check_table();
    check_errors();
    check_operations();
    check_options();
    check_dimensions();
    check_extrema_errors();
    check_zeros_errors();
    check_one_outside();
    check_layouts();
    check_beyond_errors();
    return check_finish();
}
