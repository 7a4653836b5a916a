/* SPDX-License-Identifier: Apache-2.0 */
/* Check sums of errors and searches for scales: every instruction set against the scalar
 * one, bit for bit. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "drivers.h"

enum { MOST = PQ_SUM_PIECE, GRID = 5 };

static const struct pq_kernels *scalar;

/* Return the address of `n` elements at the end of memory. */
static void *place(const struct guarded *memory, size_t n, size_t size)
{
    return guarded_end(memory, n * size);
}

static void draw_numbers(void *p, size_t n, int wide, int special)
{
    for (size_t i = 0; i < n; i++) {
        double v = (random_unit() - 0.5) * (random_chance(5) ? 100 : 1);
        if (special && random_chance(2)) {
            v = random_chance(50) ? (double)NAN : HUGE_VAL;
        }
        const float single = (float)v;
        memcpy((char *)p + i * (wide ? 8 : 4), wide ? (void *)&v : (void *)&single,
               wide ? 8 : 4);
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

static void check_errors(const struct pq_sums *sums, const struct memory *memory, int wide)
{
    const size_t n = random_below(MOST + 1), size = wide ? 8 : 4;
    void *const x = place(&memory->x, n, size), *const y = place(&memory->y, n, size);
    struct pq_lanes ours, theirs;
    draw_numbers(x, n, wide, 0);
    draw_numbers(y, n, wide, 0);
    for (size_t i = 0; i < sizeof ours / sizeof(double); i++) {
        ((double *)&ours)[i] = random_unit();
    }
    theirs = ours;
    sums->errors[wide](x, y, n, &ours);
    scalar->sums->errors[wide](x, y, n, &theirs);
    CHECK(same(&ours, &theirs, sizeof ours), "errors of %zu elements", n);
}

static void check_pairs(const struct pq_sums *sums, const struct memory *memory, int wide)
{
    const size_t n = random_below(MOST + 1), size = wide ? 8 : 4;
    void *const x = place(&memory->x, n, size), *const y = place(&memory->y, n, size);
    double *const w = place(&memory->w, n, 8);
    double ours[2] = {1, 2}, theirs[2] = {1, 2};
    draw_numbers(x, n, wide, 0);
    draw_numbers(y, n, wide, 0);
    draw_numbers(w, n, 1, 0);
    sums->fit[wide](x, y, w, n, ours);
    scalar->sums->fit[wide](x, y, w, n, theirs);
    CHECK(same(ours, theirs, sizeof ours), "fit of %zu elements", n);
    ours[0] = sums->squares[wide](x, y, w, n, 0x1p-3);
    theirs[0] = scalar->sums->squares[wide](x, y, w, n, 0x1p-3);
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
    grid->whole = true;
    sums->grid(grid, x, NULL, n, some);
    grid->whole = false;
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
    CHECK(grid.whole && w == NULL ? same_sums(ours, theirs)
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
    const struct memory memory = {guarded_make(MOST * 8), guarded_make(MOST * 8),
                                  guarded_make(MOST * 8)};
    check_begin("sums of %s", kernels->name);
    for (size_t i = check_count(2000); i > 0 && !check_tired(); i--) {
        for (int wide = 0; wide < 2; wide++) {
            check_errors(kernels->sums, &memory, wide);
            check_pairs(kernels->sums, &memory, wide);
        }
        check_grid(kernels->sums, &memory);
    }
    check_end();
    guarded_free((struct guarded *)&memory.x);
    guarded_free((struct guarded *)&memory.y);
    guarded_free((struct guarded *)&memory.w);
}

/* ---- calls ---- */

enum { ROOM = 1 << 17 };
static double x_room[ROOM], y_room[ROOM], w_room[ROOM];
static char scale_room[2][ROOM], zero_room[2][ROOM];
static struct pq_error errors[2][ROOM / 64];

/* Draw an array of up to three dimensions, in any order. */
struct drawn {
    ptrdiff_t shape[3], block[3], x[3], y[3], w[3];
    int ndim;
};

static void draw_strides(const struct drawn *drawn, ptrdiff_t *strides, ptrdiff_t size)
{
    ptrdiff_t next = size * random_between(1, 2);
    const int backward = random_chance(50);
    for (int k = 0; k < drawn->ndim; k++) {
        const int d = backward ? drawn->ndim - 1 - k : k;
        strides[d] = random_chance(5) ? 0 : next;
        next *= drawn->shape[d];
    }
}

static struct drawn draw_array(ptrdiff_t most)
{
    struct drawn drawn = {.ndim = (int)random_below(4)};
    for (int d = 0; d < drawn.ndim; d++) {
        drawn.shape[d] = random_between(random_chance(3) ? 0 : 1, most);
        drawn.block[d] = random_between(1, 9);
        most = drawn.shape[d] > 0 ? most / drawn.shape[d] + 1 : most;
    }
    draw_strides(&drawn, drawn.x, 8);
    draw_strides(&drawn, drawn.y, 8);
    draw_strides(&drawn, drawn.w, 8);
    return drawn;
}

static const enum pq_type reals[] = {PQ_F32, PQ_F64, PQ_F16, PQ_BF16};

static void check_measure(const struct pq_kernels *kernels)
{
    const struct drawn drawn = draw_array((ptrdiff_t)random_below(12000) + 1);
    struct pq_args args = {.size = sizeof args, .ndim = drawn.ndim, .shape = drawn.shape};
    unsigned char kept[3];
    ptrdiff_t count = 1, size = 1;
    args.in = (struct pq_array){x_room, drawn.x, reals[random_below(4)], 0, NULL};
    args.out = (struct pq_array){y_room, drawn.y, reals[random_below(4)], 0, NULL};
    args.in.swapped = random_chance(20);
    for (int d = 0; d < drawn.ndim; d++) {
        kept[d] = (unsigned char)random_chance(30);
        *(kept[d] ? &count : &size) *= drawn.shape[d];
    }
    const size_t chunks = (size_t)count * (size_t)pq_measure_chunks(size);
    if (chunks > ROOM / 64) {
        return;
    }
    const int parts = (int)random_between(1, 4);
    memset(errors, 0, sizeof errors);
    for (int part = 0; part < parts; part++) {
        CHECK(pq_measure(kernels, &args, kept, errors[0], part, parts) == PQ_OK, "refused");
    }
    CHECK(pq_measure(scalar, &args, kept, errors[1], 0, 1) == PQ_OK, "refused");
    CHECK(same(errors[0], errors[1], chunks * sizeof **errors), "%d dimensions, %zu chunks",
          drawn.ndim, chunks);
}

static void check_search(const struct pq_kernels *kernels)
{
    static const enum pq_type codes[] = {PQ_I8,  PQ_U8,  PQ_I4,       PQ_U4,      PQ_I16,
                                         PQ_U16, PQ_I32, PQ_F8E4M3FN, PQ_F4E2M1FN};
    struct drawn drawn = draw_array((ptrdiff_t)random_below(3000) + 1);
    struct pq_args args = {.size = sizeof args,
                           .ndim = drawn.ndim,
                           .shape = drawn.shape,
                           .block = drawn.block};
    struct pq_choice choice = {.size = sizeof choice, .code = codes[random_below(9)]};
    struct pq_search search = {.size = sizeof search};
    const double candidates[] = {1, 0.75, 0.5};
    const enum pq_type type = random_chance(60) ? PQ_F32 : PQ_F64;
    ptrdiff_t scale[3], zero[3];
    size_t count = 1;
    const size_t size = pq_bytes_of(choice.code);
    for (int d = drawn.ndim - 1; d >= 0; d--) {
        const int selects = random_chance(50);
        scale[d] = selects ? (ptrdiff_t)count * (ptrdiff_t)pq_bytes_of(type) : 0;
        zero[d] = selects ? (ptrdiff_t)(count * size) : 0;
        count *=
            selects ? (size_t)((drawn.shape[d] + drawn.block[d] - 1) / drawn.block[d]) : 1;
    }
    if (count > ROOM / 8) {
        return;
    }
    args.in = (struct pq_array){x_room, drawn.x, type, 0, NULL};
    search.weights =
        (struct pq_array){random_chance(50) ? w_room : NULL, drawn.w, PQ_F64, 0, NULL};
    if (random_chance(50)) {
        search.candidates = candidates;
        search.count = 3;
    }
    memset(scale_room, 0, sizeof scale_room);
    memset(zero_room, 0, sizeof zero_room);
    for (int side = 0; side < 2; side++) {
        const int parts = side == 0 ? (int)random_between(1, 4) : 1;
        args.scale = (struct pq_array){scale_room[side], scale, type, 0, NULL};
        args.zero = (struct pq_array){zero_room[side], zero, choice.code, 0, NULL};
        for (int part = 0; part < parts; part++) {
            const enum pq_status status = pq_search_params(
                side == 0 ? kernels : scalar, &args, &choice, &search, part, parts);
            CHECK(status == PQ_OK, "%s", pq_status_text(status));
        }
    }
    CHECK(same(scale_room[0], scale_room[1], ROOM), "scales of %s", type_name(choice.code));
    CHECK(same(zero_room[0], zero_room[1], ROOM), "zeros of %s", type_name(choice.code));
}

static void check_calls(const struct pq_kernels *kernels)
{
    check_begin("measure, %s", kernels->name);
    for (size_t i = check_count(400); i > 0 && !check_tired(); i--) {
        if (i % 16 == 0) {
            draw_numbers(x_room, ROOM, 1, 1);
            draw_numbers(y_room, ROOM, 1, 1);
        }
        check_measure(kernels);
    }
    check_end();
    check_begin("search, %s", kernels->name);
    draw_numbers(x_room, ROOM, 1, 0);
    for (size_t i = 0; i < ROOM; i++) {
        w_room[i] = random_unit();
        /* Each is a sum of two float32 numbers. */
        const float two[2] = {(float)random_unit() - 0.4f, (float)random_unit()};
        memcpy(&x_room[i], two, sizeof two);
    }
    for (size_t i = check_count(400); i > 0 && !check_tired(); i--) {
        check_search(kernels);
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

int main(void)
{
    check_start("check_sums");
    scalar = pq_isa_find("scalar");
    check_refusals();
    run_drivers(drivers);
    for (int i = 0; pq_isa_name(i) != NULL; i++) {
        const struct pq_kernels *const kernels = pq_isa_find(pq_isa_name(i));
        check_calls(kernels);
    }
    return check_finish();
}
