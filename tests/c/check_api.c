/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check the public functions against loops over single elements of equal views.
 *
 *     check_api              run everything
 *     check_api SEED COUNT   run COUNT random cases of each kind, from SEED
 */
#include <fenv.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "drivers.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
#  include <xmmintrin.h>
#endif

static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};
static const enum pq_type codes[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I32, PQ_U32};

static unsigned char before[ARENA + sizeof(uint64_t)], expected[ARENA];

/* Prepare the call with different addresses, which must not be accessed. */
static enum pq_status run_planned(const struct pq_kernels *k, const struct call *call,
                                  int quantize, int part)
{
    static struct pq_prepared plan = {.size = sizeof plan};
    static char elsewhere;
    struct pq_args args = call->args;
    args.in.data = &elsewhere;
    args.out.data = &elsewhere;
    const enum pq_status status = quantize ? pq_prepare_quantize(&plan, k, &args)
                                           : pq_prepare_dequantize(&plan, k, &args);
    CHECK(elsewhere == 0, "planning wrote something");
    memset(&args, 0xa5, sizeof args);
    return status != PQ_OK
               ? status
               : pq_run(&plan, call->args.in.data, call->args.out.data, part, call->parts);
}

static enum pq_status run_part(const struct pq_kernels *k, const struct call *call,
                               int quantize, int part)
{
    if ((call->n + (size_t)part) % 3 == 0) {
        return run_planned(k, call, quantize, part);
    }
    return quantize ? pq_quantize(k, &call->args, part, call->parts)
                    : pq_dequantize(k, &call->args, part, call->parts);
}

/* Run all parts in a random order. If parts are many, run only parts that have work. */
static enum pq_status run_parts(const struct pq_kernels *k, const struct call *call,
                                int quantize)
{
    enum { SOME = 100 };
    int order[SOME];
    if (call->parts > SOME) { /* parts are multiples of 1 or 64 of the longest dimension */
        for (int p = 0; p <= (int)call->n && p < call->parts - 1; p++) {
            const enum pq_status status = run_part(k, call, quantize, p);
            if (status != PQ_OK) {
                return status;
            }
        }
        return run_part(k, call, quantize, call->parts - 1);
    }
    for (int p = 0; p < call->parts; p++) {
        const int other = (int)random_below((size_t)p + 1);
        order[p] = order[other];
        order[other] = p;
    }
    for (int p = 0; p < call->parts; p++) {
        const enum pq_status status = run_part(k, call, quantize, order[p]);
        if (status != PQ_OK) {
            return status;
        }
    }
    return PQ_OK;
}

static void check_call(const struct call *call, int quantize)
{
    const size_t bytes = call->out.bytes;
    char text[1200];
    for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
        const uint64_t bits = random_bits();
        memcpy(before + i, &bits, sizeof bits);
    }
    memcpy(expected, before, bytes);
    naive(call, quantize, expected);
    for (int i = 0; tables[i] != NULL; i++) {
        const struct pq_kernels *const k = tables[i];
        unsigned char *out = call->out.lowest;
        memcpy(out, before, bytes);
        const enum pq_status status = run_parts(k, call, quantize);
        if (status != PQ_OK || memcmp(out, expected, bytes) != 0) {
            size_t at = 0;
            while (at < bytes && out[at] == expected[at]) {
                at++;
            }
            describe(call, quantize, text, sizeof text);
            CHECK(0, "%s: status %d, byte %zu of %zu, offset %td: %s", k->name, (int)status,
                  at, bytes, (unsigned char *)call->out.array.data - out, text);
        }
    }
}

static void check_calls(int quantize, uint64_t seed, size_t count)
{
    static struct call call;
    for (size_t i = 0; i < count && !check_tired(); i++) {
        random_seed(seed + i);
        check_case(seed + i);
        draw_call(&call, quantize);
        check_call(&call, quantize);
    }
    check_case(0);
}

/* Shapes that random calls seldom have: more groups than a tile of parameters, and rows
 * with lengths at the limits of different paths. */
static void check_chosen_shapes(int quantize)
{
    static const struct {
        ptrdiff_t rows, columns, block;
        int selects_rows;
    } shapes[] = {
        {1, 32 * 1030 + 5, 32, 0},
        {1, 33 * 1030, 33, 0},
        {1, 5 * 1030, 5, 0},
        {3, 32 * 1024 - 1, 32, 0},
        {2, 32 * 1024 + 1, 32, 0},
        {1, 1023, 1, 0},
        {1, 1024, 1, 0},
        {1, 1025, 1, 0},
        {5, 511, 1, 0},
        {5, 512, 1, 0},
        {5, 513, 1, 0},
        {40, 49, 0, 1},
        {1100, 3, 0, 1},
        {3, 1100, 0, 1},
        {1025, 32, 0, 1},
        {40, 1000, 1, 1},
        {33, 600, 64, 1},
        {1, 40000, 20000, 0},
        {64, 65, 65, 0},
        {2000, 1, 0, 1},
        {1, 70000, 0, 0},
        {40, 50, 16, 1},
        {6, 1000, 300, 1},
        {9, 65, 64, 1},
    };
    static struct call call;
    check_begin("%s, chosen shapes", quantize ? "quantize" : "dequantize");
    for (size_t i = 0; i < check_count(480); i++) {
        const size_t s = (i * 7) % (sizeof shapes / sizeof shapes[0]);
        const enum pq_type real = pick(reals, 3), code = pick(codes, 4);
        const enum layout layout = i % 3 != 0          ? PLAIN
                                   : random_chance(50) ? GAPPED
                                                       : BROADCAST;
        check_case(i + 1);
        call.args.size = sizeof call.args;
        call.args.ndim = 2;
        call.args.shape = call.shape;
        call.args.block = call.block;
        call.shape[0] = shapes[s].rows;
        call.shape[1] = shapes[s].columns;
        call.n = elements_of(2, call.shape);
        call.selects[0] = shapes[s].selects_rows;
        call.selects[1] = shapes[s].block > 0;
        call.block[0] = 1;
        call.block[1] = shapes[s].block > 0 ? shapes[s].block : 1;
        for (int d = 0; d < 2; d++) {
            call.counts[d] =
                call.selects[d] ? (call.shape[d] + call.block[d] - 1) / call.block[d] : 1;
        }
        draw_view(&call.in, &memory.in, 2, call.shape, quantize ? real : code, layout);
        draw_view(&call.out, &memory.out, 2, call.shape, quantize ? code : real,
                  layout == BROADCAST ? GAPPED : PLAIN);
        draw_params(&call, call.block[1] > 1 || random_chance(80) ? PLAIN : GAPPED, PQ_F32,
                    code, random_chance(75));
        if (random_chance(50) && call.selects[0] && call.block[1] > 1) {
            /* rows of parameters that overlap if the last block is short */
            const ptrdiff_t whole = call.shape[1] / call.block[1];
            call.scale.strides[0] = whole * call.scale.strides[1];
            call.zero.strides[0] = whole * call.zero.strides[1];
        }
        fill_params(&call, quantize);
        fill_input(&call, quantize);
        call.args.in = call.in.array;
        call.args.out = call.out.array;
        call.args.scale = call.scale.array;
        call.args.zero = call.zero.array;
        call.args.round = random_chance(75) ? PQ_HALF_EVEN : PQ_FLOOR;
        call.args.precision = PQ_F32;
        call.parts = random_chance(50) ? 1 : (int)random_between(2, 7);
        check_call(&call, quantize);
    }
    check_case(0);
    check_end();
}

/* ---- floating-point control state ---- */

struct control {
    uint64_t control, flags;
};

#if defined(__x86_64__)

static struct control get_control(void)
{
    return (struct control){_mm_getcsr(), 0};
}

static void set_control(struct control c)
{
    _mm_setcsr((unsigned)c.control);
}

/* FTZ 0x8000, rounding 0x6000, exceptions masked 0x1f80, DAZ 0x40, flags 0x3f */
static const struct control controls[] = {
    {0x9fc0, 0}, {0x9f80, 0}, {0x1fc0, 0}, {0x3f80, 0}, {0x5f80, 0}, {0x7f80, 0},
    {0xffc0, 0}, {0x1fbf, 0}, {0x1f95, 0}, {0x0000, 0}, {0xe060, 0},
};

#elif defined(__aarch64__)

static struct control get_control(void)
{
    struct control c;
    __asm__ volatile("mrs %0, fpcr" : "=r"(c.control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(c.flags));
    return c;
}

static void set_control(struct control c)
{
    __asm__ volatile("msr fpcr, %0" ::"r"(c.control) : "memory");
    __asm__ volatile("msr fpsr, %0" ::"r"(c.flags) : "memory");
}

/* AHP 1 << 26, DN 1 << 25, FZ 1 << 24, rounding 3 << 22, FZ16 1 << 19; flags 0x9f */
static const struct control controls[] = {
    {1 << 24, 0}, {1 << 25, 0}, {1 << 26, 0}, {1 << 19, 0},        {1 << 22, 0},
    {2 << 22, 0}, {3 << 22, 0}, {0, 0x9f},    {0x7fu << 20, 0x15},
};

#else

static struct control get_control(void)
{
    return (struct control){(uint64_t)fegetround(), 0};
}

static void set_control(struct control c)
{
    fesetround((int)c.control);
}

#  if defined(FE_UPWARD)
static const struct control controls[] = {{FE_UPWARD, 0}, {FE_TOWARDZERO, 0}};
#  else /* WebAssembly always rounds to nearest */
static const struct control controls[] = {{FE_TONEAREST, 0}};
#  endif

#endif

/* Collect all results of the public functions for the call. */
struct results {
    enum pq_status status;
    int finite;
    size_t count, first;
    double lo, hi;
    float scale;
    int32_t zero;
};

static struct results run_all(const struct pq_kernels *k, const struct call *call,
                              int quantize, const struct control *c)
{
    static const ptrdiff_t none[PQ_MAX_NDIM] = {0};
    struct results r = {PQ_OK, 0, 0, 0, INFINITY, -INFINITY, 0, 0};
    const struct pq_choice choice = {sizeof choice, PQ_F32, PQ_I32, PQ_RULE_ASYMMETRIC};
    const double lo = -0x1.23456789p-3, hi = 0x1.abcdef01p-1;
    struct pq_args extrema = call->args;
    struct control after;
    extrema.lowest = (struct pq_array){&r.lo, none, PQ_F64, 0, NULL};
    extrema.highest = (struct pq_array){&r.hi, none, PQ_F64, 0, NULL};
    const struct control mine = get_control();
    int kept = 1;
#define KEEPS(statement)                                                                   \
    do {                                                                                   \
        if (c != NULL) {                                                                   \
            set_control(*c);                                                               \
        }                                                                                  \
        statement;                                                                         \
        after = get_control();                                                             \
        set_control(mine);                                                                 \
        kept = c == NULL || (after.control == c->control && after.flags == c->flags);      \
        CHECK(kept, "%s: %s: control %#llx flags %#llx became %#llx, %#llx", k->name,      \
              #statement, (unsigned long long)c->control, (unsigned long long)c->flags,    \
              (unsigned long long)after.control, (unsigned long long)after.flags);         \
    } while (0)
    KEEPS(r.status = run_part(k, call, quantize, 0));
    if (quantize) {
        KEEPS(pq_minmax(k, &extrema, &r.finite));
        KEEPS(pq_count_nonfinite(&call->args, &r.count, &r.first));
    }
    KEEPS(pq_choose(&choice, 1, &lo, &hi, &r.scale, &r.zero));
#undef KEEPS
    return r;
}

static void check_control(int quantize)
{
    static struct call call;
    const size_t kinds = sizeof controls / sizeof controls[0];
    check_begin("%s under another control state", quantize ? "quantize" : "dequantize");
    for (size_t i = 0; i < check_count(800) && !check_tired(); i++) {
        random_seed(i + 12345);
        check_case(i + 12345);
        draw_call(&call, quantize);
        call.parts = 1;
        for (int isa = 0; tables[isa] != NULL; isa++) {
            const struct pq_kernels *const k = tables[isa];
            const struct control *c = &controls[i % kinds];
            memset(call.out.lowest, 0x5a, call.out.bytes);
            const struct results plain = run_all(k, &call, quantize, NULL);
            memcpy(expected, call.out.lowest, call.out.bytes);
            memset(call.out.lowest, 0x5a, call.out.bytes);
            const struct results other = run_all(k, &call, quantize, c);
            CHECK(plain.status == PQ_OK && other.status == PQ_OK, "status");
            CHECK(memcmp(call.out.lowest, expected, call.out.bytes) == 0,
                  "%s: control %#llx changes the result", k->name,
                  (unsigned long long)c->control);
            CHECK(plain.finite == other.finite && plain.count == other.count &&
                      plain.first == other.first &&
                      (!plain.finite || (plain.lo == other.lo && plain.hi == other.hi)) &&
                      bits_of_f32(plain.scale) == bits_of_f32(other.scale) &&
                      plain.zero == other.zero,
                  "%s: control %#llx changes the extrema or what is made of them", k->name,
                  (unsigned long long)c->control);
        }
    }
    check_case(0);
    check_end();
}

/* ---- affine calls, by hand ---- */

/* Four elements with one scale and offset. */
struct affine_case {
    const char *what;
    int quantize;
    enum pq_type code;
    float scale, offset;
    int inverse, zero;
    int64_t fill; /* a fill, unless 0 */
    int64_t lowest_code, highest_code;
    enum pq_beyond beyond;
    enum pq_status due;
    float reals[4];
    int codes[4];
};

static const struct affine_case affine_cases[] = {
    {"an offset", 0, PQ_I16, .scale = 0.5f, .offset = 10, .reals = {9.5f, 10, 11, 60},
     .codes = {-1, 0, 2, 100}},
    {"an offset and a fill", 0, PQ_I16, .scale = 0.5f, .offset = 10, .fill = 2,
     .reals = {9.5f, 10, NAN, 60}, .codes = {-1, 0, 2, 100}},
    {"two roundings", 0, PQ_U8, .scale = 0.1f, .offset = -0.3f,
     .reals = {0, -0.3f, 0x1.999998p-4f, 0}, .codes = {3, 0, 4, 3}},
    {"a divisor", 0, PQ_I8, .scale = 4, .offset = 1, .inverse = 1,
     .reals = {1.25f, 1, 0.75f, 2}, .codes = {1, 0, -1, 4}},
    {"an offset", 1, PQ_U8, .scale = 0.5f, .offset = -1, .reals = {-1, 0, 0.25f, 1000},
     .codes = {0, 2, 2, 255}},
    {"a multiplier", 1, PQ_I8, .scale = 4, .offset = 1, .inverse = 1,
     .reals = {1.25f, 1, 0.75f, 2}, .codes = {1, 0, -1, 4}},
    {"a multiplier", 1, PQ_F8E5M2, .scale = -4, .inverse = 1,
     .reals = {-0.25f, 0.5f, NAN, 1e5f}, .codes = {0x3c, 0xc0, 0xfe, 0xfb}},
    {"a large multiplier", 1, PQ_F8E5M2, .scale = 0x1p127f, .inverse = 1,
     .reals = {0x1p-140f, 0x1.8p-127f, 0, INFINITY}, .codes = {0x08, 0x3e, 0, 0x7b}},
    {"a fill", 1, PQ_I16, .scale = 1, .fill = -32768, .reals = {NAN, 1, -40000, 3},
     .codes = {-32768, 1, -32768, 3}},
    {"a range", 1, PQ_I8, .scale = 1, .lowest_code = -7, .highest_code = 5,
     .reals = {NAN, 6, -8, 5}, .codes = {-7, 5, -7, 5}},
    {"wrapping", 1, PQ_I8, .scale = 1, .zero = 1, .beyond = PQ_WRAP,
     .reals = {127, -130, INFINITY, 0x1p30f}, .codes = {-128, 127, -128, 1}},
    {"wrapping", 1, PQ_U16, .scale = 1, .beyond = PQ_WRAP,
     .reals = {65536, -1, -65537, 0x1p127f}, .codes = {0, 65535, 65535, 0}},
    {"refusing", 1, PQ_U8, .scale = 1, .beyond = PQ_REFUSE, .due = PQ_ERR_BEYOND,
     .reals = {255, 255.5f, NAN, -0.5f}, .codes = {255, 255, 0, 0}},
    {"refusing nothing", 1, PQ_U8, .scale = 1, .beyond = PQ_REFUSE,
     .reals = {255, 255.25f, NAN, -0.5f}, .codes = {255, 255, 0, 0}},
};

static void check_affine_case(const struct pq_kernels *k, const struct affine_case *c)
{
    static const ptrdiff_t shape[] = {4}, floats[] = {sizeof(float)}, same[] = {0};
    const ptrdiff_t size = (ptrdiff_t)pq_type_size(c->code);
    float numbers[4], scale = c->scale, offset = c->offset;
    unsigned char codes_then[4 * sizeof(int16_t)];
    struct pq_array real = {numbers, floats, PQ_F32, 0, NULL};
    struct pq_array code = {codes_then, &size, c->code, 0, NULL};
    int zero = c->zero;
    struct pq_args args = {.size = sizeof args,
                           .ndim = 1,
                           .shape = shape,
                           .in = c->quantize ? real : code,
                           .out = c->quantize ? code : real,
                           .scale = {&scale, same, PQ_F32, 0, NULL},
                           .zero = {&zero, same, PQ_I32, 0, NULL},
                           .offset = c->offset != 0 ? &offset : NULL,
                           .inverse = c->inverse,
                           .fill = &c->fill,
                           .fills = c->fill != 0,
                           .lowest_code = c->lowest_code,
                           .highest_code = c->highest_code,
                           .beyond = c->beyond};
    for (size_t i = 0; i < 4; i++) {
        numbers[i] = c->quantize ? c->reals[i] : 77;
        put_bits(codes_then, c->code, i, c->quantize ? 77 : (uint64_t)c->codes[i]);
    }
    const enum pq_status status =
        c->quantize ? pq_quantize(k, &args, 0, 1) : pq_dequantize(k, &args, 0, 1);
    CHECK(status == c->due, "%s, %s: status %d", k->name, c->what, (int)status);
    for (size_t i = 0; i < 4; i++) {
        const int64_t got = get_integer(codes_then, c->code, i);
        CHECK(got == c->codes[i], "%s, %s: code %zu is %d", k->name, c->what, i, (int)got);
        CHECK(bits_of_f32(numbers[i]) == bits_of_f32(c->reals[i]),
              "%s, %s: number %zu is %a", k->name, c->what, i, (double)numbers[i]);
    }
}

static void check_affine(const struct pq_kernels *k)
{
    check_begin("%s: affine calls", k->name);
    for (size_t c = 0; c < sizeof affine_cases / sizeof affine_cases[0]; c++) {
        check_affine_case(k, &affine_cases[c]);
    }
    check_end();
}

/* ---- calls larger than random calls ---- */

/* Many rows with gaps and one scale. The engine repeats the parameters for a limited
 * number of rows at a time. */
static void check_many_rows(void)
{
    enum { ROWS = 2500, COLUMNS = 33, STRIDE = 40 };
    static const ptrdiff_t shape[] = {ROWS, COLUMNS}, same[] = {0, 0};
    static const ptrdiff_t floats[] = {STRIDE * sizeof(float), sizeof(float)};
    static const ptrdiff_t bytes[] = {STRIDE, 1};
    static float x[ROWS * STRIDE];
    static signed char y[ROWS * STRIDE];
    const float scale = 0.5f;
    const struct pq_args args = {
        .size = sizeof args,
        .ndim = 2,
        .shape = shape,
        .in = {x, floats, PQ_F32, 0, NULL},
        .out = {y, bytes, PQ_I8, 0, NULL},
        .scale = {(void *)(uintptr_t)&scale, same, PQ_F32, 0, NULL}};
    check_begin("many rows with gaps");
    for (size_t i = 0; i < ROWS * STRIDE; i++) {
        x[i] = (float)(i % 100) / 2;
    }
    for (int level = 0; pq_isa_name(level) != NULL; level++) {
        size_t wrong = 0;
        memset(y, 101, sizeof y);
        CHECK(pq_quantize(pq_isa_find(pq_isa_name(level)), &args, 0, 1) == PQ_OK, "status");
        for (size_t i = 0; i < ROWS * STRIDE; i++) {
            wrong += y[i] != (i % STRIDE < COLUMNS ? (int)(i % 100) : 101);
        }
        CHECK(wrong == 0, "%s: %zu codes", pq_isa_name(level), wrong);
    }
    check_end();
}

/* Contiguous elements need no plan, unless a call has parts or zero points so large that
 * no kernel accepts them. */
static void check_runs(const struct pq_kernels *k)
{
    enum { N = 1000 };
    static const ptrdiff_t shape[] = {N}, doubles[] = {sizeof(double)}, bytes[] = {1},
                           same[] = {0};
    static double y[N];
    static signed char x[N];
    const double scale = 1;
    const int64_t far = (INT64_C(1) << 53) + 1;
    struct pq_args args = {.size = sizeof args,
                           .ndim = 1,
                           .shape = shape,
                           .in = {x, bytes, PQ_I8, 0, NULL},
                           .out = {y, doubles, PQ_F64, 0, NULL},
                           .scale = {(void *)(uintptr_t)&scale, same, PQ_F64, 0, NULL}};
    check_begin("runs without a plan");
    memset(x, 1, sizeof x);
    CHECK(pq_dequantize(k, &args, 1, 2) == PQ_OK && y[0] == 0 && y[N - 1] == 1,
          "a part did what belongs to another");
    args.zero = (struct pq_array){(void *)(uintptr_t)&far, same, PQ_I64, 0, NULL};
    args.any_zeros = 1;
    CHECK(pq_dequantize(k, &args, 0, 1) == PQ_OK && y[0] == -0x1p53, "%a", y[0]);
    check_end();
}

/* Rows are searched by tiles of complete blocks. */
static void check_first_beyond(const struct pq_kernels *k)
{
    enum { N = 2000, BLOCK = 3, BLOCKS = (N + BLOCK - 1) / BLOCK, PLACE = 1502 };
    static const ptrdiff_t shape[] = {N}, floats[] = {sizeof(float)}, bytes[] = {1};
    static const ptrdiff_t block[] = {BLOCK};
    static float x[N], scale[BLOCKS];
    static signed char y[N];
    const struct pq_args args = {.size = sizeof args,
                                 .ndim = 1,
                                 .shape = shape,
                                 .in = {x, floats, PQ_F32, 0, NULL},
                                 .out = {y, bytes, PQ_I8, 0, NULL},
                                 .scale = {scale, floats, PQ_F32, 0, NULL},
                                 .block = block,
                                 .beyond = PQ_REFUSE};
    size_t count = 0, first = 0;
    check_begin("the first of a row that is out of range");
    for (size_t i = 0; i < N; i++) {
        scale[i / BLOCK] = i / BLOCK % 2 != 0 ? 100 : 1;
        x[i] = 100 * scale[i / BLOCK];
    }
    x[PLACE] *= 2;
    CHECK(pq_count_beyond(k, &args, &count, &first) == PQ_OK && count == 1 &&
              first == PLACE,
          "%zu from %zu on", count, first);
    check_end();
}

#undef API
#define API(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(int argc, char **argv)
{
    check_start(argv[0]);
    make_arenas();
    if (argc == 3) {
        const uint64_t seed = strtoull(argv[1], NULL, 0);
        const size_t count = strtoul(argv[2], NULL, 0);
        check_begin("quantize, random views");
        check_calls(1, seed, count);
        check_end();
        check_begin("dequantize, random views");
        check_calls(0, seed, count);
        check_end();
        return check_finish();
    }
    const int has_control = getenv("CHECK_NO_CONTROL") == NULL;
    for (int quantize = 0; quantize <= 1; quantize++) {
        check_chosen_shapes(quantize);
        if (has_control) {
            check_control(quantize);
        }
        check_begin("%s, random views", quantize ? "quantize" : "dequantize");
        check_calls(quantize, 1, check_count(6000));
        check_end();
    }
    run_drivers(drivers);
    check_many_rows();
    check_runs(&pq_kernels_scalar);
    check_first_beyond(&pq_kernels_scalar);
    free_arenas();
    return check_finish();
}
