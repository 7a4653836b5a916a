/* SPDX-License-Identifier: Apache-2.0 */
/* Check results of public functions that are written out by hand. fuzz_api.c checks random
 * calls. */
#include <math.h>
#include <string.h>

#include "drivers.h"

/* ---- affine calls, by hand ---- */

/* Four elements with one scale and offset. A long call repeats these elements. AVX-512 has
 * other kernels for calls of LONG_CALL elements. */
enum { LONG_CALL = 1 << 16 };
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
    {"refusing one code more", 1, PQ_U8, .scale = 1, .beyond = PQ_REFUSE,
     .due = PQ_ERR_BEYOND, .reals = {255, 255.5f, 0, -0.5f}, .codes = {255, 255, 0, 0}},
    {"refusing one code more", 1, PQ_I16, .scale = 1, .beyond = PQ_REFUSE,
     .due = PQ_ERR_BEYOND, .reals = {32767, 32767.5f, -32768.5f, -32768},
     .codes = {32767, 32767, -32768, -32768}},
};

static void check_affine_case(const struct pq_kernels *k, const struct affine_case *c,
                              ptrdiff_t n)
{
    static const ptrdiff_t floats[] = {sizeof(float)}, same[] = {0};
    static float numbers[LONG_CALL];
    static unsigned char codes_then[LONG_CALL * sizeof(int16_t)];
    const ptrdiff_t size = (ptrdiff_t)pq_type_size(c->code);
    float scale = c->scale, offset = c->offset;
    struct pq_array real = {numbers, floats, PQ_F32, 0, NULL};
    struct pq_array code = {codes_then, &size, c->code, 0, NULL};
    int zero = c->zero;
    struct pq_args args = {.size = sizeof args,
                           .ndim = 1,
                           .shape = &n,
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
    for (size_t i = 0; i < (size_t)n; i++) {
        numbers[i] = c->quantize ? c->reals[i % 4] : 77;
        put_bits(codes_then, c->code, i, c->quantize ? 77 : (uint64_t)c->codes[i % 4]);
    }
    const enum pq_status status =
        c->quantize ? pq_quantize(k, &args, 0, 1) : pq_dequantize(k, &args, 0, 1);
    CHECK(status == c->due, "%s, %s: status %d", k->name, c->what, (int)status);
    for (size_t i = 0; i < (size_t)n; i++) {
        const int64_t got = get_integer(codes_then, c->code, i);
        CHECK(got == c->codes[i % 4], "%s, %s: code %zu is %d", k->name, c->what, i,
              (int)got);
        CHECK(bits_of_f32(numbers[i]) == bits_of_f32(c->reals[i % 4]),
              "%s, %s: number %zu is %a", k->name, c->what, i, (double)numbers[i]);
    }
}

static void check_affine(const struct pq_kernels *k)
{
    check_begin("%s: affine calls", k->name);
    for (size_t c = 0; c < sizeof affine_cases / sizeof affine_cases[0]; c++) {
        check_affine_case(k, &affine_cases[c], 4);
        check_affine_case(k, &affine_cases[c], LONG_CALL);
    }
    check_end();
}

/* ---- calls that random calls seldom equal ---- */

/* Check calls with contiguous elements that still need a plan: with parts, and with a zero
 * point that no kernel accepts. */
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

/* Check the index of the first element out of range. The search reads tiles of complete
 * blocks. */
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
    check_start(argc, argv);
    run_drivers(drivers);
    check_runs(&pq_kernels_scalar);
    check_first_beyond(&pq_kernels_scalar);
    return check_finish();
}
