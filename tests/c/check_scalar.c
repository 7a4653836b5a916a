/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare the kernels and the definitions of oracle.h with results from tables in this
 * file. The inputs are numbers at which a plausible, but wrong method fails. Also check all
 * rounding modes, and rounding to float16 and bfloat16.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "oracle.h"

enum { N = 100 };

/* arrays of any type; double only sets the size and the alignment */
static double x[N], y[N];

static void expect_code(const char *how, const struct pq_run *run, size_t i,
                        int64_t expected)
{
    const int64_t got = get_integer(y, run->out, i);
    CHECK(got == expected, "%s: %s of %s in %s: x %a gave %lld, expected %lld", how,
          round_name(run->round), type_name(run->out), type_name(run->compute),
          get_real(x, run->in, i), (long long)got, (long long)expected);
}

/* Run a kernel on the first `n` elements of `x`, in groups of `g` elements. If
 * options->general is 1, run the general kernel, else the kernel for the types of the
 * options. Scales and zero points have the types that the kernel requires. */
static void run_kernel(const struct pq_kernels *k, const struct pq_run *options,
                       int quantizes, size_t n, size_t g, const void *scale,
                       const void *zero)
{
    struct pq_run run = *options;
    const int in = pq_row_of(run.in), out = pq_row_of(run.out);
    run.group = g;
    run.scale.f64 = scale; /* or float32 */
    run.zero.f64 = zero;   /* or int32 */
    (run.general ? quantizes ? k->quantize_general : k->dequantize_general
     : quantizes ? k->quantize[in][out]
                 : k->dequantize[in][out])(&run, x, y, n);
}

/* ---- single elements ---- */

struct regression {
    float x, scale;
    int64_t zero;
    enum pq_type code;
    enum pq_round round;
    int64_t expected;
};

static const struct regression regressions[] = {
    /* the code is wrong if a method adds 1/2 and truncates */
    {0.49999997f, 1, 0, PQ_I8, PQ_HALF_AWAY, 0},
    {-0.49999997f, 1, 0, PQ_I8, PQ_HALF_AWAY, 0},
    {0.49999997f, 1, 0, PQ_I8, PQ_HALF_UP, 0},
    {-0.49999997f, 1, 0, PQ_I8, PQ_HALF_DOWN, 0},
    {0.50000006f, 1, 0, PQ_I8, PQ_HALF_TOWARD_ZERO, 1},
    {-2.5000002f, 1, 0, PQ_I8, PQ_HALF_TOWARD_ZERO, -3},
    {0.49999997f, 1, 1, PQ_U8, PQ_HALF_EVEN, 1},
    {8388609, 1, 0, PQ_I32, PQ_HALF_AWAY, 8388609},
    {8388609, 1, 0, PQ_I32, PQ_HALF_TOWARD_ZERO, 8388609},
    {8388609, 1, 0, PQ_I32, PQ_HALF_UP, 8388609},
    {8388609, 1, 0, PQ_I32, PQ_HALF_DOWN, 8388609},
    {8388609, 1, 0, PQ_I32, PQ_HALF_EVEN, 8388609},
    {-8388609, 1, 0, PQ_I32, PQ_HALF_EVEN, -8388609},
    {16777215, 1, 0, PQ_U32, PQ_HALF_AWAY, 16777215},
    /* the code is wrong if a method multiplies by the rounded reciprocal */
    {0.273939937f, 0.00214854861f, 0, PQ_I16, PQ_HALF_EVEN, 127},
    {0.273939937f, 0.00214854861f, 0, PQ_I8, PQ_HALF_EVEN, 127},
    {-45.5f, 7, 0, PQ_I8, PQ_HALF_EVEN, -6},
    {-2.25f, 0.3f, 0, PQ_I8, PQ_HALF_EVEN, -7},
    {-0.22999999f, 0.02f, 0, PQ_I8, PQ_HALF_EVEN, -12},
    {-10.849999f, 0.7f, 0, PQ_I8, PQ_HALF_EVEN, -15},
    {-0.68897635f, 0.0078740157f, 0, PQ_I8, PQ_HALF_EVEN, -88},
    /* the code is wrong if a method adds the zero point before rounding */
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

/* Inputs and results of the rounding modes, from nGraph's specification. */
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

/* Check the code of one element by the definition, and by the kernels of every instruction
 * set in runs of 1 and of 100 elements. */
static void expect_everywhere(const struct regression *r)
{
    struct pq_run run = {
        .in = PQ_F32, .out = r->code, .compute = PQ_F32, .round = r->round};
    static float scales[N];
    static int32_t zeros[N];
    static double wide_scales[N], wide_zeros[N];
    for (size_t i = 0; i < N; i++) {
        put_bits(x, PQ_F32, i, bits_of_f32(r->x));
        scales[i] = r->scale;
        zeros[i] = r->code == PQ_U32 ? 0 : (int32_t)r->zero;
        wide_scales[i] = (double)r->scale;
        wide_zeros[i] = (double)r->zero;
    }
    put_bits(y, r->code, 0,
             quantized(&run, (double)r->x, (double)r->scale,
                       (struct zero_point){r->zero, 0}, 0));
    expect_code("definition", &run, 0, r->expected);
    for (int i = 0; tables[i] != NULL; i++) {
        const struct pq_kernels *const k = tables[i];
        for (int form = r->code <= PQ_U16 ? 0 : 2; form < 3; form++) {
            memset(y, 0x55, sizeof y);
            run.general = form == 2;
            run_kernel(k, &run, 1, N, form == 1 ? N : 1,
                       form == 2 ? (void *)wide_scales : scales,
                       form == 2 ? (void *)wide_zeros : zeros);
            expect_code(k->name, &run, 0, r->expected);
            expect_code(k->name, &run, N - 1, r->expected);
        }
    }
}

static void check_regressions(void)
{
    static const enum pq_type codes[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_I32, PQ_U32};
    check_begin("inputs that need the exact method");
    for (size_t i = 0; i < COUNT(regressions); i++) {
        expect_everywhere(&regressions[i]);
    }

    check_begin("the table of rounding modes");
    for (size_t i = 0; i < STATIC_ROUNDS * COUNT(table_inputs) * COUNT(codes); i++) {
        const enum pq_round round = static_round(i / 48);
        const int64_t zero = i % 2 == 0 ? 0 : 10;
        const struct regression r = {
            (float)table_inputs[i / 6 % 8], 1, zero, codes[i % 6], round,
            table[round][i / 6 % 8] + zero};
        expect_everywhere(&r);
    }
}

static void check_wide_numbers(void)
{
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
        /* the input rounds to 0.5 in float32 */
        {0.49999999999999994, 1, PQ_F32, PQ_HALF_AWAY, 1},
        {2147483647.5, 1, PQ_F64, PQ_HALF_EVEN, INT32_MAX},
        {2147483646.5, 1, PQ_F64, PQ_HALF_EVEN, 2147483646},
        {-2147483648.5, 1, PQ_F64, PQ_FLOOR, INT32_MIN},
        {1e300, 1e-300, PQ_F64, PQ_HALF_EVEN, INT32_MAX},
        {5e-324, 5e-324, PQ_F64, PQ_HALF_EVEN, 1},
        {1 + 0x1p-24 + 0x1p-52, 1, PQ_F32, PQ_CEIL, 2}, /* above the midpoint */
        /* the midpoint of two float32 numbers rounds to even, here to 1 */
        {1 + 0x1p-24, 1, PQ_F32, PQ_CEIL, 1},
        {0.25, 0x1.998p-4, PQ_F16, PQ_HALF_EVEN, 2}, /* 2.5 in float16 */
        {0.25, 0x1.998p-4, PQ_F32, PQ_HALF_EVEN, 3},
        {65519.99, 1, PQ_F16, PQ_HALF_EVEN, 65504},
        {65520, 1, PQ_F16, PQ_HALF_EVEN, INT32_MAX},
    };
    for (size_t i = 0; i < COUNT(doubles); i++) {
        const struct pq_run run = {.in = PQ_F64,
                                   .out = PQ_I32,
                                   .compute = doubles[i].compute,
                                   .round = doubles[i].round,
                                   .general = true};
        const double zero = 0;
        put_bits(x, PQ_F64, 0, bits_of_f64(doubles[i].x));
        run_kernel(&pq_kernels_scalar, &run, 1, 1, 1, &doubles[i].scale, &zero);
        expect_code("scalar", &run, 0, doubles[i].expected);
        put_bits(
            y, PQ_I32, 0,
            quantized(&run, doubles[i].x, doubles[i].scale, (struct zero_point){0, 0}, 0));
        expect_code("definition", &run, 0, doubles[i].expected);
    }

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
    for (size_t i = 0; i < COUNT(differences); i++) {
        const struct pq_run run = {
            .in = differences[i].code, .out = PQ_F32, .compute = PQ_F32, .general = true};
        const double one = 1, zero = (double)differences[i].zero;
        put_bits(x, run.in, 0, (uint64_t)differences[i].q);
        run_kernel(&pq_kernels_scalar, &run, 0, 1, 1, &one, &zero);
        const uint64_t due = bits_of_f32(differences[i].expected);
        CHECK(get_bits(y, PQ_F32, 0) == due, "difference %zu: %a", i,
              get_real(y, PQ_F32, 0));
        CHECK(dequantized(&run, x, 1, (struct zero_point){differences[i].zero, 0}) == due,
              "definition of difference %zu", i);
    }
}

/* ---- float16 and bfloat16 ---- */

/* Check how results round to a 16-bit type. The test dequantizes the code 1 with scales
 * that are midpoints of the type's numbers, or neighbours of the midpoints. */
static void check_encoding(enum pq_type real)
{
    const struct float_format *const f = format_of(real);
    const struct pq_run run = {.in = PQ_I8, .out = real, .compute = PQ_F32};
    check_begin("%s encoded", type_name(real));
    CHECK(decode(PQ_F16, 0x7bff) == 65504 && decode(PQ_F16, 1) == 0x1p-24, "float16");
    CHECK(decode(PQ_BF16, 0x7f7f) == 0x1.fep127 && decode(PQ_BF16, 1) == 0x1p-133,
          "bfloat16");
    memset(x, 1, 4);
    for (uint32_t code = 0; code <= f->last; code++) {
        const float middle = (float)((value_of(f, code) + value_of(f, code + 1)) / 2);
        const uint32_t at = bits_of_f32(middle) - 1, sign = code << 31;
        const uint32_t bits[4] = {at, at + 1, at + 2,
                                  bits_of_f32((float)value_of(f, code))};
        float scales[4];
        int32_t zeros[4] = {0};
        for (size_t i = 0; i < 4; i++) {
            scales[i] = f32_of_bits(bits[i] | sign);
        }
        run_kernel(&pq_kernels_scalar, &run, 0, 4, 1, scales, zeros);
        for (size_t i = 0; i < 4; i++) {
            CHECK(get_bits(y, real, i) == encode(real, (double)scales[i], 1, 0), "%a: %#x",
                  (double)scales[i], (unsigned)get_bits(y, real, i));
        }
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_regressions();
    check_wide_numbers();
    check_encoding(PQ_F16);
    check_encoding(PQ_BF16);
    return check_finish();
}
