/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check pq_histogram() with every instruction set against a loop over single elements:
 * random bits of every type, strides of both signs, both byte orders, parts, and memory
 * between inaccessible pages.
 */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "kernels/kernels.h"

enum { MOST = 1 << 17, KEYS = 1 << 16, DIMS = 3 };

static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};

static struct guarded memory;
static uint32_t *counters;
static uint64_t expected[KEYS], found[KEYS];

struct view {
    enum pq_type type;
    ptrdiff_t shape[DIMS], strides[DIMS];
    size_t n;
    char *first;
    int swapped;
};

/* The expected counts and extremes, by definition. */
struct truth {
    uint64_t count, nan, inf;
    double lowest, highest;
};

/* ---- data ---- */

static uint64_t draw_bits(enum pq_type type, int mode)
{
    static const double few[] = {0, -0.0, 1, -1, 3, 1e-40, -1e-42, 1e-310, 1e300, -1e39};
    const double usual =
        random_chance(5) ? 0 : ldexp(random_unit() - 0.5, (int)random_below(60) - 40);
    const double v = mode == 1   ? random_unit() - 0.5
                     : mode == 2 ? 3.0
                     : mode == 3 ? few[random_below(10)]
                                 : usual;
    if (mode == 0) {
        return random_bits();
    }
    return type == PQ_F64    ? bits_of_f64(v)
           : type == PQ_F32  ? bits_of_f32((float)v)
           : type == PQ_BF16 ? bits_of_f32((float)v) >> 16
                             : random_bits() & (mode == 2 ? 0x3c00 : 0x7bff);
}

static void draw_view(struct view *view, enum pq_type type)
{
    const size_t size = pq_type_size(type);
    const int mode = (int)random_below(5);
    const size_t limit = random_chance(20) ? MOST : random_chance(50) ? 5000 : 40;
    view->type = type;
    view->swapped = random_chance(20);
    view->n = 1;
    ptrdiff_t span = 0;
    for (int d = 0; d < DIMS; d++) {
        view->shape[d] =
            random_chance(30) ? 1 : (ptrdiff_t)(random_below(limit / view->n) + 1);
        view->n *= (size_t)view->shape[d];
    }
    /* Contiguous in a random order of the dimensions, sometimes with gaps and reversed. */
    ptrdiff_t step = (ptrdiff_t)size;
    for (int k = 0, at = (int)random_below(DIMS); k < DIMS; k++, at = (at + 1) % DIMS) {
        if (random_chance(15) && (size_t)step * view->n < memory.size / 8) {
            step += (ptrdiff_t)size;
        }
        view->strides[at] = step;
        step *= view->shape[at];
    }
    view->first = NULL;
    ptrdiff_t before = 0;
    for (int d = 0; d < DIMS; d++) {
        span += (view->shape[d] - 1) * view->strides[d];
        if (random_chance(30)) {
            before += (view->shape[d] - 1) * view->strides[d];
            view->strides[d] = -view->strides[d];
        }
    }
    const size_t bytes = (size_t)span + size;
    unsigned char *const base = guarded_end(&memory, bytes);
    for (size_t i = 0; i < bytes / size; i++) {
        put_bits(base, type, i, draw_bits(type, mode));
        if (view->swapped) {
            swap_bytes_of(base + i * size, size);
        }
    }
    view->first = (char *)base + before;
}

/* ---- the definition ---- */

/* Return the largest float32 that does not exceed the magnitude, by search. */
static size_t key_of_double(double v)
{
    const double magnitude = fabs(v);
    uint32_t lo = 0, hi = 0x7f7fffff;
    while (lo < hi) {
        const uint32_t middle = hi - (hi - lo) / 2;
        if ((double)f32_of_bits(middle) <= magnitude) {
            lo = middle;
        } else {
            hi = middle - 1;
        }
    }
    return (size_t)(lo >> 16) | (signbit(v) ? 0x8000 : 0);
}

static void count_one(struct truth *truth, const struct view *view, const char *at)
{
    unsigned char bytes[8];
    const size_t size = pq_type_size(view->type);
    memcpy(bytes, at, size);
    if (view->swapped) {
        swap_bytes_of(bytes, size);
    }
    const double v = get_real(bytes, view->type, 0);
    if (v != v) {
        truth->nan++;
    } else if (v - v != 0) {
        truth->inf++;
    } else {
        const size_t key = view->type == PQ_F16 || view->type == PQ_BF16
                               ? (size_t)get_bits(bytes, view->type, 0)
                               : key_of_double(v);
        expected[key == 0x8000 ? 0 : key]++;
        truth->count++;
        truth->lowest = v < truth->lowest ? v : truth->lowest;
        truth->highest = v > truth->highest ? v : truth->highest;
    }
}

static struct truth count_all(const struct view *view)
{
    struct truth truth = {0, 0, 0, HUGE_VAL, -HUGE_VAL};
    memset(expected, 0, sizeof expected);
    for (ptrdiff_t i = 0; i < view->shape[0]; i++) {
        for (ptrdiff_t j = 0; j < view->shape[1]; j++) {
            for (ptrdiff_t k = 0; k < view->shape[2]; k++) {
                count_one(&truth, view,
                          view->first + i * view->strides[0] + j * view->strides[1] +
                              k * view->strides[2]);
            }
        }
    }
    return truth;
}

/* ---- calls ---- */

static struct pq_counts fresh(int counting)
{
    return (struct pq_counts){.size = sizeof(struct pq_counts),
                              .ignore_nonfinite = 1,
                              .counters = counting ? counters : NULL,
                              .lowest = HUGE_VAL,
                              .highest = -HUGE_VAL};
}

static struct pq_args args_of(const struct view *view)
{
    return (struct pq_args){.size = sizeof(struct pq_args),
                            .ndim = DIMS,
                            .shape = view->shape,
                            .in = {.data = view->first,
                                   .strides = view->strides,
                                   .type = view->type,
                                   .swapped = view->swapped}};
}

/* Take all pages. They come in ascending order and are not empty. */
static void take(struct pq_counts *counts)
{
    uint64_t page[PQ_PAGE];
    int last = -1;
    memset(found, 0, sizeof found);
    for (int at; (at = pq_histogram_take(counts, page)) >= 0; last = at) {
        uint64_t any = 0;
        CHECK(at > last && at < PQ_PAGES, "page %d after %d", at, last);
        for (int k = 0; k < PQ_PAGE; k++) {
            found[at * PQ_PAGE + k] = page[k];
            any |= page[k];
        }
        CHECK(any != 0, "page %d is empty", at);
    }
}

static int are_zeros(void)
{
    for (size_t i = 0; i < PQ_COUNTERS; i++) {
        if (counters[i] != 0) {
            return 0;
        }
    }
    return 1;
}

static void check_view(const struct pq_kernels *k, const struct view *view, int parts)
{
    const struct truth truth = count_all(view);
    const struct pq_args args = args_of(view);
    struct pq_counts counts = fresh(1), plain = fresh(0);
    for (int part = 0; part < parts; part++) {
        CHECK(pq_histogram(k, &args, &counts, part, parts) == PQ_OK, "a part failed");
        CHECK(pq_histogram(k, &args, &plain, part, parts) == PQ_OK, "a part failed");
    }
    CHECK(counts.count == truth.count && counts.nan == truth.nan &&
              counts.inf == truth.inf && counts.pending == truth.count,
          "numbers differ");
    CHECK(counts.lowest == truth.lowest && counts.highest == truth.highest,
          "extremes %g %g for %g %g", counts.lowest, counts.highest, truth.lowest,
          truth.highest);
    CHECK(!(counts.lowest == 0 && signbit(counts.lowest)) &&
              !(counts.highest == 0 && signbit(counts.highest)),
          "an extreme is -0");
    CHECK(plain.count == truth.count && plain.lowest == truth.lowest &&
              plain.highest == truth.highest && plain.nan == truth.nan,
          "without counters they differ");
    take(&counts);
    CHECK(memcmp(found, expected, sizeof found) == 0, "%s of %zu: counts differ",
          type_name(view->type), view->n);
    CHECK(counts.pending == 0 && are_zeros(), "something is left");
    counts = fresh(1);
    counts.ignore_nonfinite = 0;
    const enum pq_status due = truth.nan + truth.inf != 0 ? PQ_ERR_NONFINITE : PQ_OK;
    CHECK(pq_histogram(k, &args, &counts, 0, 1) == due, "not %d", (int)due);
    take(&counts);
    CHECK(are_zeros(), "something is left of a failed call");
}

static void check_views(const struct pq_kernels *k, enum pq_type type)
{
    check_begin("%s histogram of %s", k->name, type_name(type));
    const size_t cases = check_count(200);
    for (size_t i = 0; i < cases && !check_failed(); i++) {
        struct view view;
        draw_view(&view, type);
        check_view(k, &view, random_chance(60) ? 1 : (int)random_between(2, 5));
    }
    check_end();
}

/* Check that several calls add up, in any control state of the caller. */
static void check_together(const struct pq_kernels *k)
{
    check_begin("%s histogram of many calls", k->name);
    struct pq_counts counts = fresh(1);
    uint64_t sum[KEYS] = {0};
    for (int i = 0; i < 20; i++) {
        struct view view;
        draw_view(&view, PQ_F32);
        const struct pq_args args = args_of(&view);
        count_all(&view);
        for (size_t key = 0; key < KEYS; key++) {
            sum[key] += expected[key];
        }
#if defined(FE_UPWARD) /* WebAssembly always rounds to nearest */
        const int before = fegetround();
        fesetround(i % 2 ? FE_UPWARD : FE_TOWARDZERO);
#endif
        CHECK(pq_histogram(k, &args, &counts, 0, 1) == PQ_OK, "failed");
#if defined(FE_UPWARD)
        fesetround(before);
#endif
    }
    take(&counts);
    CHECK(memcmp(found, sum, sizeof found) == 0, "counts differ");
    check_end();
}

static void check_refusals(const struct pq_kernels *k)
{
    check_begin("%s histogram refuses", k->name);
    const ptrdiff_t shape[] = {3}, strides[] = {4}, bits[] = {32}, none[] = {0};
    const ptrdiff_t many[] = {(ptrdiff_t)1 << 20, (ptrdiff_t)1 << 11}, still[] = {0, 0};
    float x[3] = {1, 2, 3};
    struct pq_args args = {.size = sizeof args,
                           .ndim = 1,
                           .shape = shape,
                           .in = {.data = x, .strides = strides, .type = PQ_F32}};
    struct pq_counts counts = fresh(1);
    CHECK(pq_histogram(NULL, &args, &counts, 0, 1) == PQ_ERR_NULL, "kernels");
    CHECK(pq_histogram(k, NULL, &counts, 0, 1) == PQ_ERR_NULL, "args");
    CHECK(pq_histogram(k, &args, NULL, 0, 1) == PQ_ERR_NULL, "counts");
    CHECK(pq_histogram(k, &args, &counts, 1, 1) == PQ_ERR_PART, "part");
    CHECK(pq_histogram(k, &args, &counts, -1, 1) == PQ_ERR_PART, "part");
    args.in.type = PQ_I8;
    CHECK(pq_histogram(k, &args, &counts, 0, 1) == PQ_ERR_TYPE, "type");
    args.in.type = PQ_F32;
    args.in.bit_strides = bits;
    CHECK(pq_histogram(k, &args, &counts, 0, 1) == PQ_ERR_TYPE, "bit strides");
    args.in.bit_strides = NULL;
    args.in.data = NULL;
    CHECK(pq_histogram(k, &args, &counts, 0, 1) == PQ_ERR_NULL, "data");
    args.in.data = x;
    counts.size--;
    CHECK(pq_histogram(k, &args, &counts, 0, 1) == PQ_ERR_SIZE, "size");
    counts.size++;
    args.shape = none;
    CHECK(pq_histogram(k, &args, &counts, 0, 1) == PQ_OK && counts.count == 0, "empty");
    args.shape = many;
    args.ndim = 2;
    args.in.strides = still;
    counts.pending = UINT32_MAX - 100;
    CHECK(pq_histogram(k, &args, &counts, 0, 1) == PQ_ERR_SHAPE, "too many");
    counts.pending = 0;
    take(&counts);
    CHECK(are_zeros() && counts.count == 0, "something was counted");
    check_end();
}

int main(void)
{
    check_start("check_histogram");
    memory = guarded_make((size_t)16 * MOST * sizeof(double));
    counters = calloc(PQ_COUNTERS, sizeof *counters);
    for (int i = 0; pq_isa_name(i) != NULL; i++) {
        const struct pq_kernels *const k = pq_isa_find(pq_isa_name(i));
        for (size_t t = 0; t < sizeof reals / sizeof reals[0]; t++) {
            check_views(k, reals[t]);
        }
        check_together(k);
        check_refusals(k);
    }
    free(counters);
    guarded_free(&memory);
    return check_finish();
}
