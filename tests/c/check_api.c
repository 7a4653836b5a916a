/* SPDX-License-Identifier: Apache-2.0 */
/* Check the affine kernels by calls of public functions. Compare each pair of types and
 * each affine stage with the definition. Also check kinds of calls that are rare among the
 * random calls of fuzz_api.c. */
#include <math.h>
#include <string.h>

#include "calls.h"
#include "drivers.h"
#include "types.h"

/* ---- affine kernels: each type with each affine stage ---- */

enum stage { OFFSET, INVERSE, FILL, RANGE, WRAP, REFUSE, REFUSE_NAN, STAGES };

static int has_stage(const struct pq_args *args, enum stage stage)
{
    return stage == OFFSET    ? args->offset.data != NULL
           : stage == INVERSE ? args->inverse
           : stage == FILL    ? args->fills != 0
           : stage == RANGE   ? args->lowest_code != 0 || args->highest_code != 0
           : stage == WRAP    ? args->beyond == PQ_WRAP
           : stage == REFUSE  ? args->beyond == PQ_REFUSE
                              : args->refuse_nan;
}

/* Return 1 if quantize or dequantize supports the affine stage for codes of type `code`. */
static int allows_stage(int quantizes, enum pq_type code, enum stage stage)
{
    return stage <= INVERSE ||
           (stage == FILL ? !pq_is_narrow_float(code)
                          : quantizes && (stage >= REFUSE || !pq_is_narrow_float(code)));
}

static struct call call;

/* Prepare a random call with the affine stage `stage`, and perhaps with more stages. A long
 * call has LONG_CALL elements, because AVX-512 has separate kernels for long calls. */
static void draw_stage(int quantizes, enum pq_type real, enum pq_type code,
                       enum stage stage, int is_long)
{
    enum { LONG_CALL = 1 << 16 };
    memset(&call, 0, sizeof call);
    call.args.size = sizeof call.args;
    draw_shape(&call, random_chance(90) ? 200 : USUAL_ELEMENTS);
    if (is_long) {
        call.args.ndim = 1;
        call.shape[0] = LONG_CALL;
        call.n = LONG_CALL;
    }
    do {
        draw_granularity(&call);
    } while (is_long && call.selects[0] && call.block[0] < LONG_CALL);
    draw_view(&call.in, &memory.in, call.args.ndim, call.shape, quantizes ? real : code,
              PLAIN);
    draw_view(&call.out, &memory.out, call.args.ndim, call.shape, quantizes ? code : real,
              PLAIN);
    call.args.any_zeros = !quantizes && !pq_is_narrow_float(code);
    if (quantizes && !pq_is_narrow_float(code) && random_chance(50)) {
        call.args.round = static_round(random_below(STATIC_ROUNDS));
    }
    draw_params(&call, PLAIN, PQ_F32, code, random_chance(50));
    const struct pq_args plain = call.args;
    do {
        call.args = plain;
        draw_affine(&call, quantizes);
    } while (!has_stage(&call.args, stage));
    collect_args(&call);
    fill_params(&call, quantizes);
    fill_input(&call, quantizes);
}

/* Run the prepared call with `table`, and compare the output with the definition. */
static void verify_stage(const struct pq_kernels *table, int quantizes)
{
    static unsigned char expected[ARENA];
    char text[1500];
    memcpy(expected, call.out.lowest, call.out.bytes);
    const int refuses = naive(&call, quantizes, expected).count != 0;
    const enum pq_status status = quantizes ? pq_quantize(table, &call.args, 0, 1)
                                            : pq_dequantize(table, &call.args, 0, 1);
    if (status != (refuses ? PQ_ERR_BEYOND : PQ_OK) ||
        memcmp(call.out.lowest, expected, call.out.bytes) != 0) {
        describe(&call, quantizes, text, sizeof text);
        CHECK(0, "status %d: %s", (int)status, text);
    }
}

/* Check each pair of a real type and a code type with each affine stage. */
static void check_stages(const struct pq_kernels *k, pq_kernel_fn *kernel, int quantizes)
{
    struct pq_kernels table = *k;
    *(quantizes ? &table.quantize_affine : &table.dequantize_affine) = kernel;
#define TYPE(type, ...) PQ_##type,
    static const enum pq_type codes[] = {PQ_FOR_CARRIER(TYPE) PQ_I64, PQ_U64};
#undef TYPE
    for (size_t pair = 0; pair < REALS * COUNT(codes); pair++) {
        const enum pq_type real = reals[pair % REALS], code = codes[pair / REALS];
        check_begin("%s: affine %s and %s%s", k->name, type_name(real), type_name(code),
                    quantizes ? "" : ", dequantized");
        CASES(i, STAGES * check_count(30)) {
            const enum stage stage = (enum stage)(i % STAGES);
            if (allows_stage(quantizes, code, stage)) {
                draw_stage(quantizes, real, code, stage, i < STAGES && code < PQ_I32);
                verify_stage(&table, quantizes);
            }
        }
    }
}

DRIVER(check_quantize_affine, pq_kernel_fn *, check_stages(k, kernel, 1))
DRIVER(check_dequantize_affine, pq_kernel_fn *, check_stages(k, kernel, 0))

/* ---- calls that are rare among random calls ---- */

/* Check calls with contiguous elements that one kernel call cannot run: calls in several
 * parts, and calls with a zero point that no kernel supports. */
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
}

/* Check that the core reports the index of the first element out of range. The core
 * searches tile by tile, and the blocks of 3 elements do not divide the largest tile. */
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
}

static void check_alone(void)
{
    make_arenas();
    check_runs(&pq_kernels_scalar);
    check_first_beyond(&pq_kernels_scalar);
}

#undef API
#define API TEST
#include "program.h"
