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

/* Return the address of `n` elements at the end of memory. */
static void *place(const struct guarded *memory, size_t n, size_t size)
{
    return guarded_end(memory, n * size);
}

static void draw_numbers(void *p, size_t n, int is_f64, int special)
{
    for (size_t i = 0; i < n; i++) {
        double v = (random_unit() - 0.5) * (random_chance(5) ? 100 : 1);
        if (special && random_chance(2)) {
            v = random_chance(50) ? (double)NAN : HUGE_VAL;
        }
        const float single = (float)v;
        memcpy((char *)p + i * (is_f64 ? 8 : 4), is_f64 ? (void *)&v : (void *)&single,
               is_f64 ? 8 : 4);
    }
}

static int same(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

/* ---- kernels ---- */

struct memory {
    struct guarded x, y, w;
};

static void check_errors(const struct pq_sums *sums, const struct memory *memory,
                         int is_f64)
{
    const size_t n = random_below(MOST + 1), size = is_f64 ? 8 : 4;
    void *const x = place(&memory->x, n, size), *const y = place(&memory->y, n, size);
    struct pq_lanes ours, theirs;
    draw_numbers(x, n, is_f64, 0);
    draw_numbers(y, n, is_f64, 0);
    for (size_t i = 0; i < sizeof ours / sizeof(double); i++) {
        ((double *)&ours)[i] = random_unit();
    }
    theirs = ours;
    sums->errors[is_f64](x, y, n, &ours);
    scalar->sums->errors[is_f64](x, y, n, &theirs);
    CHECK(same(&ours, &theirs, sizeof ours), "errors of %zu elements", n);
    struct pq_total total = {0}, due = {0};
    sums->total(&ours, &total);
    scalar->sums->total(&theirs, &due);
    CHECK(same(&total, &due, sizeof due), "totals of %zu elements", n);
}

static void check_widen(const struct pq_sums *sums, const struct memory *memory)
{
    const size_t n = random_below(100);
    uint16_t *const from = place(&memory->x, n, sizeof *from);
    float *const to = place(&memory->y, n, sizeof *to);
    for (size_t i = 0; i < n; i++) {
        from[i] = (uint16_t)random_bits();
    }
    sums->widen(to, from, n);
    for (size_t i = 0; i < n; i++) {
        const double due = decode(PQ_F16, from[i]);
        CHECK(isnan(due) ? isnan(to[i]) : to[i] == due && !signbit(to[i]) == !signbit(due),
              "%04x to float32, got %a", from[i], (double)to[i]);
    }
}

static void check_pairs(const struct pq_sums *sums, const struct memory *memory, int is_f64)
{
    const size_t n = random_below(MOST + 1), size = is_f64 ? 8 : 4;
    void *const x = place(&memory->x, n, size), *const y = place(&memory->y, n, size);
    double *const w = place(&memory->w, n, 8);
    double ours[2] = {1, 2}, theirs[2] = {1, 2};
    draw_numbers(x, n, is_f64, 0);
    draw_numbers(y, n, is_f64, 0);
    draw_numbers(w, n, 1, 0);
    sums->fit[is_f64](x, y, w, n, ours);
    scalar->sums->fit[is_f64](x, y, w, n, theirs);
    CHECK(same(ours, theirs, sizeof ours), "fit of %zu elements", n);
    ours[0] = sums->squares[is_f64](x, y, w, n, 0x1p-3);
    theirs[0] = scalar->sums->squares[is_f64](x, y, w, n, 0x1p-3);
    CHECK(same(ours, theirs, sizeof *ours), "squares of %zu elements", n);
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
static void check_whole(const struct pq_sums *sums, struct pq_grid *grid, const float *x,
                        size_t n)
{
    double some[GRID] = {0}, all[GRID] = {0};
    grid->covers_group = true;
    sums->grid(grid, x, NULL, n, some);
    grid->covers_group = false;
    sums->grid(grid, x, NULL, n, all);
    const size_t least = first_least(all);
    CHECK(first_least(some) == least && some[least] == all[least], "the best of a grid");
}

static void check_grid(const struct pq_sums *sums, const struct memory *memory)
{
    const size_t n = random_below(MOST + 1);
    float *const x = place(&memory->x, n, 4);
    double *const w = random_chance(50) ? place(&memory->w, n, 8) : NULL;
    double *const ones = place(&memory->y, n, 8);
    float scale[GRID], lo[GRID], hi[GRID];
    double ours[GRID] = {0}, theirs[GRID] = {0};
    const int narrow = random_chance(70);
    const int power = (int)random_between(-118, 116);
    for (int j = 0; j < GRID; j++) {
        const int zero = (int)random_between(0, narrow ? 255 : 65535);
        scale[j] = ldexpf((float)(random_unit() + 0.5), power);
        if (random_chance(10)) {
            scale[j] = f32_of_bits(bits_of_f32(scale[j]) | 0x7fffff);
        }
        lo[j] = (float)-zero;
        hi[j] = (float)((narrow ? 255 : 65535) - zero);
    }
    struct pq_grid grid = {GRID, scale, lo, hi, 0, 0, narrow, random_chance(50)};
    for (size_t i = 0; i < n; i++) {
        const double by = (double)scale[random_below(GRID)];
        float v = f32_of_bits((uint32_t)draw_real(PQ_F32, by, narrow ? 255 : 65535));
        v = v - v == 0 && fabsf(v) < 0x1p126f ? v : 0;
        x[i] = v;
        grid.lowest = v < grid.lowest ? v : grid.lowest;
        grid.highest = v > grid.highest ? v : grid.highest;
    }
    if (w != NULL) {
        draw_numbers(w, n, 1, 0);
    }
    sums->grid(&grid, x, w, n, ours);
    scalar->sums->grid(&grid, x, w, n, theirs);
    CHECK(grid.covers_group && w == NULL ? same_sums(ours, theirs)
                                         : same(ours, theirs, sizeof ours),
          "grid of %zu elements, 2^%d", n, power);
    check_whole(sums, &grid, x, n);
    memset(ours, 0, sizeof ours);
    memset(theirs, 0, sizeof theirs);
    for (size_t i = 0; i < n; i++) {
        ones[i] = 1;
    }
    sums->fit_codes(&grid, x, w != NULL ? w : ones, n, ours);
    scalar->sums->fit_codes(&grid, x, w != NULL ? w : ones, n, theirs);
    CHECK(same(ours, theirs, sizeof ours), "fit of codes, %zu elements", n);
}

static void check_kernels(const struct pq_kernels *kernels)
{
    if (kernels == scalar) {
        return;
    }
    const struct memory memory = {guarded_make(MOST * 8), guarded_make(MOST * 8),
                                  guarded_make(MOST * 8)};
    check_begin("sums of %s", kernels->name);
    CASES(i, check_count(2000)) {
        for (int is_f64 = 0; is_f64 < 2; is_f64++) {
            check_errors(kernels->sums, &memory, is_f64);
            check_pairs(kernels->sums, &memory, is_f64);
        }
        check_grid(kernels->sums, &memory);
        if (kernels->sums->widen != NULL) {
            check_widen(kernels->sums, &memory);
        }
    }
    check_end();
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
    check_end();
}

#undef SUMS
#define SUMS(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_refusals();
    run_drivers(drivers);
    return check_finish();
}
