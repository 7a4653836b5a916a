/* SPDX-License-Identifier: Apache-2.0 */
/* Check sums of errors and searches for scales: the kernels of every instruction set
 * against the scalar ones, bit for bit, and invalid calls. fuzz_api.c checks valid calls.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "oracle.h"

enum { MOST = PQ_SUM_ELEMENTS, GRID = 5 };

static const struct pq_kernels *const scalar = &pq_kernels_scalar;

static int same(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

/* ---- kernels ---- */

/* Arrays of `n` elements, their weights, and candidate scales for x. The arrays end at an
 * inaccessible page. */
static struct {
    size_t n;
    void *x, *y;
    double *w;
    struct pq_grid grid;
    float scale[GRID], lo[GRID], hi[GRID];
} batch;

static struct {
    struct guarded x, y, w;
} memory;

static double *draw_numbers(const struct guarded *where, int is_f64)
{
    void *const p = guarded_end(where, batch.n * (is_f64 ? 8 : 4));
    for (size_t i = 0; i < batch.n; i++) {
        const double v = (random_unit() - 0.5) * (random_chance(5) ? 100 : 1);
        put_bits(p, is_f64 ? PQ_F64 : PQ_F32, i,
                 is_f64 ? bits_of_f64(v) : bits_of_f32((float)v));
    }
    return p;
}

static void draw_arrays(int is_f64)
{
    batch.n = random_below(MOST + 1);
    batch.x = draw_numbers(&memory.x, is_f64);
    batch.y = draw_numbers(&memory.y, is_f64);
    batch.w = draw_numbers(&memory.w, 1);
}

/* Draw candidate scales, and numbers near the codes of a scale. */
static void draw_grid(void)
{
    const int narrow = random_chance(70), power = (int)random_between(-118, 116);
    batch.n = random_below(MOST + 1);
    float *const x = (void *)guarded_end(&memory.x, batch.n * sizeof *x);
    for (int j = 0; j < GRID; j++) {
        const int zero = (int)random_between(0, narrow ? 255 : 65535);
        batch.scale[j] = ldexpf((float)(random_unit() + 0.5), power);
        if (random_chance(10)) {
            batch.scale[j] = f32_of_bits(bits_of_f32(batch.scale[j]) | 0x7fffff);
        }
        batch.lo[j] = (float)-zero;
        batch.hi[j] = (float)((narrow ? 255 : 65535) - zero);
    }
    struct pq_grid grid = {GRID, batch.scale, batch.lo, batch.hi,
                           0,    0,           narrow,   random_chance(50)};
    for (size_t i = 0; i < batch.n; i++) {
        const double by = (double)batch.scale[random_below(GRID)];
        float v = f32_of_bits((uint32_t)draw_real(PQ_F32, by, narrow ? 255 : 65535));
        v = v - v == 0 && fabsf(v) < 0x1p126f ? v : 0;
        x[i] = v;
        grid.lowest = v < grid.lowest ? v : grid.lowest;
        grid.highest = v > grid.highest ? v : grid.highest;
    }
    batch.x = x;
    batch.w = draw_numbers(&memory.w, 1);
    batch.grid = grid;
}

/* Begin a test that compares a kernel with the scalar kernel. Return the number of cases,
 * which is 0 for the scalar table. */
static size_t begin(const struct pq_kernels *k, const char *name)
{
    check_begin("%s of %s", name, k->name);
    return k == scalar ? 0 : check_count(4000);
}

static void check_add_errors(const struct pq_kernels *k, pq_errors_fn *const kernels[])
{
    const size_t cases = begin(k, "errors");
    CASES(i, cases) {
        struct pq_lanes ours = {{random_unit()}, {1}, {2}, {3}, {4}, {random_unit()}};
        struct pq_lanes theirs = ours;
        draw_arrays(i % 2);
        kernels[i % 2](batch.x, batch.y, batch.n, &ours);
        scalar->add_errors[i % 2](batch.x, batch.y, batch.n, &theirs);
        CHECK(same(&ours, &theirs, sizeof ours), "%zu elements", batch.n);
    }
}

static void check_total_errors(const struct pq_kernels *k, pq_total_fn *kernel)
{
    const size_t cases = begin(k, "totals");
    CASES(i, cases) {
        struct pq_lanes lanes;
        struct pq_total total = {0}, due = {0};
        for (size_t e = 0; e < sizeof lanes / sizeof(double); e++) {
            ((double *)&lanes)[e] = random_unit();
        }
        kernel(&lanes, &total);
        scalar->total_errors(&lanes, &due);
        CHECK(same(&total, &due, sizeof due), "%a, expected %a", total.xx, due.xx);
    }
}

static void check_widen_f16(const struct pq_kernels *k, pq_widen_fn *kernel)
{
    const size_t cases = begin(k, "float16 to float32");
    CASES(i, kernel != NULL ? cases : 0) {
        const size_t n = random_below(100);
        uint16_t *const from = (void *)guarded_end(&memory.x, n * sizeof *from);
        float *const to = (void *)guarded_end(&memory.y, n * sizeof *to);
        for (size_t e = 0; e < n; e++) {
            from[e] = (uint16_t)random_bits();
        }
        kernel(to, from, n);
        for (size_t e = 0; e < n; e++) {
            const double due = decode(PQ_F16, from[e]);
            CHECK(isnan(due) ? isnan(to[e])
                             : to[e] == due && !signbit(to[e]) == !signbit(due),
                  "%04x gives %a", from[e], (double)to[e]);
        }
    }
}

static void check_fit(const struct pq_kernels *k, pq_fit_fn *const kernels[])
{
    const size_t cases = begin(k, "fit");
    CASES(i, cases) {
        double ours[2] = {1, 2}, theirs[2] = {1, 2};
        draw_arrays(i % 2);
        kernels[i % 2](batch.x, batch.y, batch.w, batch.n, ours);
        scalar->fit[i % 2](batch.x, batch.y, batch.w, batch.n, theirs);
        CHECK(same(ours, theirs, sizeof ours), "%zu elements", batch.n);
    }
}

static void check_sum_squares(const struct pq_kernels *k, pq_squares_fn *const kernels[])
{
    const size_t cases = begin(k, "squares");
    CASES(i, cases) {
        draw_arrays(i % 2);
        const double sum = kernels[i % 2](batch.x, batch.y, batch.w, batch.n, 0x1p-3);
        const double due =
            scalar->sum_squares[i % 2](batch.x, batch.y, batch.w, batch.n, 0x1p-3);
        CHECK(same(&sum, &due, sizeof due), "%zu elements", batch.n);
    }
}

static size_t first_least(const double *sums)
{
    size_t least = 0;
    for (size_t j = 1; j < GRID; j++) {
        least = sums[j] < sums[least] ? j : least;
    }
    return least;
}

/* A candidate that one instruction set did not try has an infinite sum. */
static int same_sums(const double *ours, const double *theirs)
{
    for (size_t j = 0; j < GRID; j++) {
        const int tried = ours[j] < HUGE_VAL && theirs[j] < HUGE_VAL;
        if (tried && !same(ours + j, theirs + j, sizeof *ours)) {
            return 0;
        }
    }
    return first_least(ours) == first_least(theirs);
}

/* A candidate that need not be tried is not the best. */
static void check_whole(pq_grid_fn *kernel)
{
    struct pq_grid grid = batch.grid;
    double some[GRID] = {0}, all[GRID] = {0};
    grid.covers_group = true;
    kernel(&grid, batch.x, NULL, batch.n, some);
    grid.covers_group = false;
    kernel(&grid, batch.x, NULL, batch.n, all);
    const size_t least = first_least(all);
    CHECK(first_least(some) == least && some[least] == all[least], "the best of a grid");
}

static void check_grid_sums(const struct pq_kernels *k, pq_grid_fn *kernel)
{
    const size_t cases = begin(k, "grid");
    CASES(i, cases) {
        double ours[GRID] = {0}, theirs[GRID] = {0};
        draw_grid();
        const double *const w = i % 2 ? batch.w : NULL;
        kernel(&batch.grid, batch.x, w, batch.n, ours);
        scalar->grid_sums(&batch.grid, batch.x, w, batch.n, theirs);
        CHECK(batch.grid.covers_group && w == NULL ? same_sums(ours, theirs)
                                                   : same(ours, theirs, sizeof ours),
              "%zu elements, scale %a", batch.n, (double)batch.scale[0]);
        check_whole(kernel);
    }
}

static void check_fit_codes(const struct pq_kernels *k, pq_fit_codes_fn *kernel)
{
    const size_t cases = begin(k, "fit of codes");
    CASES(i, cases) {
        double ours[2] = {0}, theirs[2] = {0};
        draw_grid();
        for (size_t e = 0; e < batch.n && i % 2; e++) {
            batch.w[e] = 1;
        }
        kernel(&batch.grid, batch.x, batch.w, batch.n, ours);
        scalar->fit_codes(&batch.grid, batch.x, batch.w, batch.n, theirs);
        CHECK(same(ours, theirs, sizeof ours), "%zu elements", batch.n);
    }
}

/* ---- refusals ---- */

static void check_refusals(void)
{
    const ptrdiff_t shape = 4, stride = 4, none = 0;
    float x[4] = {1, -2, 3, 0.5f}, y[4] = {1, -2, 3, 1}, scale = 0;
    signed char zero = 1;
    struct pq_error error, sum;
    struct pq_args args = {.size = sizeof args, .ndim = 1, .shape = &shape};
    struct pq_choice choice = {.size = sizeof choice};
    struct pq_search search = {.size = sizeof search};
    check_begin("refusals");
    args.in = (struct pq_array){x, &stride, PQ_F32, 0, NULL};
    args.out = (struct pq_array){y, &stride, PQ_F32, 0, NULL};
    args.scale = (struct pq_array){&scale, &none, PQ_F32, 0, NULL};
    args.zero = (struct pq_array){&zero, &none, PQ_I8, 0, NULL};
    EXPECT(PQ_ERR_NULL, pq_measure(NULL, &args, NULL, &error, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_measure(scalar, NULL, NULL, &error, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_measure(scalar, &args, NULL, NULL, 0, 1));
    EXPECT(PQ_ERR_PART, pq_measure(scalar, &args, NULL, &error, 1, 1));
    EXPECT(PQ_OK, pq_measure(scalar, &args, NULL, &error, 0, 1));
    CHECK(error.count == 4 && error.index == 3 && error.most == 0.5 && error.ee == 0.25 &&
              error.e == -0.5 && error.exponent == 0,
          "errors");
    sum = error;
    pq_add_error(&sum, &error);
    CHECK(sum.count == 8 && sum.index == 3 && sum.ee == 0.5, "sums");
    scale = 0.75f;
    zero = 0;
    EXPECT(PQ_ERR_NULL, pq_measure_params(NULL, &args, PQ_I8, NULL, &error, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_measure_params(scalar, NULL, PQ_I8, NULL, &error, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_measure_params(scalar, &args, PQ_I8, NULL, NULL, 0, 1));
    EXPECT(PQ_ERR_PART, pq_measure_params(scalar, &args, PQ_I8, NULL, &error, 1, 1));
    EXPECT(PQ_ERR_TYPE, pq_measure_params(scalar, &args, PQ_F32, NULL, &error, 0, 1));
    args.inverse = 1;
    EXPECT(PQ_ERR_OPTION, pq_measure_params(scalar, &args, PQ_I8, NULL, &error, 0, 1));
    args.inverse = 0;
    zero = 2;
    EXPECT(PQ_ERR_ZERO, pq_measure_params(scalar, &args, PQ_I2, NULL, &error, 0, 1));
    zero = 0;
    EXPECT(PQ_OK, pq_measure_params(scalar, &args, PQ_I2, NULL, &error, 0, 1));
    CHECK(error.count == 4 && error.index == 2 && error.most == 2.25 && error.high == 1 &&
              error.low == 1 && error.bad_scales == 0,
          "what saturates");
    scale = 0;
    EXPECT(PQ_ERR_NULL, pq_search_params(scalar, &args, &choice, NULL, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_search_params(scalar, &args, NULL, &search, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_search_params(NULL, &args, &choice, &search, 0, 1));
    EXPECT(PQ_ERR_PART, pq_search_params(scalar, &args, &choice, &search, 2, 2));
    EXPECT(PQ_OK, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    CHECK(scale > 0 && zero == 0, "scale");
    const double bad[] = {1, 0}, good = 1;
    search.candidates = bad;
    search.count = 2;
    EXPECT(PQ_ERR_OPTION, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    search.candidates = &good;
    search.count = 0;
    EXPECT(PQ_ERR_OPTION, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    search.count = 1;
    for (int i = 0; i < 4; i++) {
        const float weights[] = {1, i % 2 ? -3 : 1, i / 2 ? (float)NAN : 1, -HUGE_VALF};
        memcpy(y, weights, sizeof y);
        search.weights = (struct pq_array){y, &stride, PQ_F32, 0, NULL};
        scale = 0;
        EXPECT(pq_search_params(scalar, &args, &choice, &search, 0, 1), PQ_OK);
        CHECK(scale > 0 && scale < HUGE_VALF, "a scale in spite of invalid weights");
    }
    search.weights = (struct pq_array){y, &stride, PQ_I32, 0, NULL};
    EXPECT(PQ_ERR_TYPE, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    search.weights.data = NULL;
    choice.rule = PQ_RULE_ONNX_DYNAMIC;
    EXPECT(PQ_ERR_OPTION, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    choice.rule = PQ_RULE_USUAL;
    args.scale.type = PQ_F64;
    EXPECT(PQ_ERR_TYPE, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    args.scale.type = PQ_F32;
    x[2] = (float)NAN;
    EXPECT(PQ_ERR_NONFINITE, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    search.size = 4;
    EXPECT(PQ_ERR_SIZE, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    args.in.type = PQ_I8;
    EXPECT(PQ_ERR_TYPE, pq_measure(scalar, &args, NULL, &error, 0, 1));
}

static void check_alone(void)
{
    struct guarded *const all[] = {&memory.x, &memory.y, &memory.w};
    for (size_t i = 0; i < COUNT(all); i++) {
        *all[i] = guarded_make(MOST * sizeof(double));
    }
    check_refusals();
}

#undef SUMS
#define SUMS TEST
#include "program.h"
