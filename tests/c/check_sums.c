/* SPDX-License-Identifier: Apache-2.0 */
/* Check the kernels that sum errors, and the kernels that search scales. Results of every
 * instruction set must equal results of the scalar kernels, bit for bit. Also check the
 * errors of invalid calls. */
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

/* Two arrays `x` and `y` of `n` elements, the weights of the elements, and candidate scales
 * for `x`. The arrays end at an inaccessible page. */
static struct {
    size_t n;
    void *x, *y;
    double *w;
    struct pq_lanes lanes;
    struct pq_grid grid;
    float scale[GRID], lo[GRID], hi[GRID];
} batch;

static struct {
    struct guarded x, y, w;
} memory;

static double *draw_numbers(const struct guarded *where, enum pq_type type)
{
    void *const p = guarded_end(where, batch.n * pq_type_size(type));
    for (size_t i = 0; i < batch.n; i++) {
        const double v = (random_unit() - 0.5) * (random_chance(5) ? 100 : 1);
        put_bits(p, type, i, bits_near(type, v));
    }
    return p;
}

static void draw_arrays(enum pq_type type)
{
    batch.n = random_below(MOST + 1);
    batch.x = draw_numbers(&memory.x, type);
    batch.y = draw_numbers(&memory.y, type);
    batch.w = draw_numbers(&memory.w, PQ_F64);
}

static void draw_lanes(void)
{
    for (size_t e = 0; e < sizeof batch.lanes / sizeof(double); e++) {
        ((double *)&batch.lanes)[e] = random_unit();
    }
}

/* Fill `batch` with random candidate scales, and with numbers near multiples of a scale. If
 * `ones` is 1, all weights are 1, else random. */
static void draw_grid(int ones)
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
    batch.w = draw_numbers(&memory.w, PQ_F64);
    for (size_t i = 0; i < batch.n && ones; i++) {
        batch.w[i] = 1;
    }
    batch.grid = grid;
}

/* Define a test that compares `numbers` sums of a kernel with sums of the scalar kernel.
 * The statement `draw` prepares case `i`. The last argument calls the kernel `run`, which
 * adds to `sums`. */
#define COMPARE(member, type, numbers, draw, ...)                                          \
    static void check_##member(const struct pq_kernels *k, type kernel)                    \
    {                                                                                      \
        check_begin(#member " of %s", k->name);                                            \
        CASES(i, k == scalar ? 0 : check_count(4000)) {                                    \
            double all[2][numbers];                                                        \
            draw;                                                                          \
            for (size_t e = 0; e < (numbers); e++) {                                       \
                all[0][e] = all[1][e] = random_unit() / 64;                                \
            }                                                                              \
            for (int t = 0; t < 2; t++) {                                                  \
                type const run = t == 0 ? kernel : scalar->member;                         \
                double *const sums = all[t];                                               \
                __VA_ARGS__;                                                               \
            }                                                                              \
            CHECK(same(all[0], all[1], sizeof all[0]), "%zu elements", batch.n);           \
        }                                                                                  \
    }

enum { LANES = sizeof(struct pq_lanes) / sizeof(double) };

COMPARE(add_errors, pq_errors_fn *const *, LANES, draw_arrays(i % 2 ? PQ_F64 : PQ_F32),
        run[i % 2](batch.x, batch.y, batch.n, (void *)sums))
COMPARE(total_errors, pq_total_fn *, sizeof(struct pq_total) / sizeof(double), draw_lanes(),
        run(&batch.lanes, (void *)sums))
COMPARE(fit, pq_fit_fn *const *, 2, draw_arrays(i % 2 ? PQ_F64 : PQ_F32),
        run[i % 2](batch.x, batch.y, batch.w, batch.n, sums))
COMPARE(sum_squares, pq_squares_fn *const *, 1, draw_arrays(i % 2 ? PQ_F64 : PQ_F32),
        *sums += run[i % 2](batch.x, batch.y, batch.w, batch.n, 0x1p-3))
COMPARE(fit_codes, pq_fit_codes_fn *, 2, draw_grid(i % 2),
        run(&batch.grid, batch.x, batch.w, batch.n, sums))

static void check_widen_f16(const struct pq_kernels *k, pq_widen_fn *kernel)
{
    check_begin("widen_f16 of %s", k->name);
    CASES(i, kernel != NULL ? check_count(4000) : 0) {
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

static size_t first_least(const double *sums)
{
    size_t least = 0;
    for (size_t j = 1; j < GRID; j++) {
        least = sums[j] < sums[least] ? j : least;
    }
    return least;
}

/* Return 1 if the sums of all candidates are equal, and so is the best candidate. An
 * infinite sum equals any sum, because a kernel sets the sum of a skipped candidate to
 * infinity. */
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

/* Check that the kernel does not skip the candidate with the least error. */
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
    check_begin("grid_sums of %s", k->name);
    CASES(i, k == scalar ? 0 : check_count(4000)) {
        double ours[GRID] = {0}, theirs[GRID] = {0};
        draw_grid(0);
        const double *const w = i % 2 ? batch.w : NULL;
        kernel(&batch.grid, batch.x, w, batch.n, ours);
        scalar->grid_sums(&batch.grid, batch.x, w, batch.n, theirs);
        CHECK(batch.grid.covers_group && w == NULL ? same_sums(ours, theirs)
                                                   : same(ours, theirs, sizeof ours),
              "%zu elements, scale %a", batch.n, (double)batch.scale[0]);
        check_whole(kernel);
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
    EXPECT(PQ_OK, pq_measure(scalar, &args, NULL, &error, 0, 1));
    CHECK(error.count == 4 && error.index == 3 && error.most == 0.5 && error.ee == 0.25 &&
              error.e == -0.5 && error.exponent == 0,
          "errors");
    sum = error;
    pq_add_error(&sum, &error);
    CHECK(sum.count == 8 && sum.index == 3 && sum.ee == 0.5, "sums");
    scale = 0.75f;
    zero = 0;
    EXPECT(PQ_OK, pq_measure_params(scalar, &args, PQ_I2, NULL, &error, 0, 1));
    CHECK(error.count == 4 && error.index == 2 && error.most == 2.25 && error.high == 1 &&
              error.low == 1 && error.bad_scales == 0,
          "what saturates");
    scale = 0;
    EXPECT(PQ_ERR_NULL, pq_search_params(scalar, &args, NULL, &search, 0, 1));
    EXPECT(PQ_OK, pq_search_params(scalar, &args, &choice, &search, 0, 1));
    CHECK(scale > 0 && zero == 0, "scale");
    for (int i = 0; i < 4; i++) {
        const float weights[] = {1, i % 2 ? -3 : 1, i / 2 ? (float)NAN : 1, -HUGE_VALF};
        memcpy(y, weights, sizeof y);
        search.weights = (struct pq_array){y, &stride, PQ_F32, 0, NULL};
        scale = 0;
        EXPECT(pq_search_params(scalar, &args, &choice, &search, 0, 1), PQ_OK);
        CHECK(scale > 0 && scale < HUGE_VALF, "a scale in spite of invalid weights");
    }
}

static void check_alone(void)
{
    guarded_make_all(&memory, sizeof memory, MOST * sizeof(double));
    check_refusals();
}

#undef SUMS
#define SUMS TEST
#include "program.h"
