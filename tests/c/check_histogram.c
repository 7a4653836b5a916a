/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare pq_histogram() of every instruction set with a loop over single elements. The
 * elements are random bits of every type, in random views between inaccessible pages. Some
 * calls run in several parts.
 */
#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "kernels/kernels.h"

enum { KEYS = 1 << 16 };

static struct call call;
static uint32_t *counters;
static uint64_t expected[KEYS], found[KEYS];

/* The expected numbers of finite, NaN and infinite elements, and the expected extrema. */
struct truth {
    uint64_t count, nan, inf;
    double lowest, highest;
};

/* ---- data ---- */

static uint64_t draw_number(enum pq_type type, int mode)
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
    return type != PQ_F16 ? bits_near(type, v)
                          : random_bits() & (mode == 2 ? 0x3c00 : 0x7bff);
}

static void draw_array(enum pq_type type)
{
    const int mode = (int)random_below(5);
    memset(&call, 0, sizeof call);
    draw_shape(&call, random_chance(20) ? MOST_ELEMENTS : random_chance(50) ? 5000 : 40);
    draw_view(&call.in, &memory.in, call.args.ndim, call.shape, type,
              random_chance(30) ? PLAIN : BROADCAST);
    call.args = (struct pq_args){.size = sizeof call.args,
                                 .ndim = call.args.ndim,
                                 .shape = call.shape,
                                 .in = call.in.array};
    EACH_INDEX(index, call.args.ndim, call.shape) {
        put_element(&call.args.in, element_at(&call.args.in, call.args.ndim, index, NULL),
                    draw_number(type, mode));
    }
}

/* ---- the definition ---- */

/* Return the index of the counter of a number: the high bits of the largest float32 number
 * that is at most the magnitude. */
static size_t key_of(double v)
{
    const double magnitude = fabs(v);
    const float near = (float)magnitude;
    const uint32_t bits = bits_of_f32(near) - ((double)near > magnitude);
    return (size_t)(bits >> 16) | (bits >> 16 != 0 && signbit(v) ? 0x8000 : 0);
}

static struct truth count_all(void)
{
    struct truth truth = {0, 0, 0, HUGE_VAL, -HUGE_VAL};
    const struct pq_array *const in = &call.args.in;
    memset(expected, 0, sizeof expected);
    EACH_INDEX(index, call.args.ndim, call.shape) {
        unsigned char *const at = element_at(in, call.args.ndim, index, NULL);
        const double v = real_at(in, at);
        if (!isfinite(v)) {
            ++*(isnan(v) ? &truth.nan : &truth.inf);
            continue;
        }
        const size_t bits = (size_t)(integer_at(in, at) & 0xffff);
        const size_t key = pq_type_size(in->type) > 2 ? key_of(v) : bits;
        expected[key == 0x8000 ? 0 : key]++;
        truth.count++;
        truth.lowest = v < truth.lowest ? v : truth.lowest;
        truth.highest = v > truth.highest ? v : truth.highest;
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

/* Read all pages (parts with PQ_PAGE counters each) from a histogram. Check that the pages
 * are in ascending order and that no page is empty. */
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
    const size_t others = (PQ_COUNTERS - 1) * sizeof *counters;
    return counters[0] == 0 && memcmp(counters, counters + 1, others) == 0;
}

static void check_call(const struct pq_kernels *k, const struct truth *truth, int parts)
{
    struct pq_counts counts = fresh(1), plain = fresh(0);
    for (int part = 0; part < parts; part++) {
        EXPECT(PQ_OK, pq_histogram(k, &call.args, &counts, part, parts));
        EXPECT(PQ_OK, pq_histogram(k, &call.args, &plain, part, parts));
    }
    CHECK(counts.count == truth->count && counts.nan == truth->nan &&
              counts.inf == truth->inf && counts.pending == truth->count,
          "%s: numbers differ", k->name);
    CHECK(counts.lowest == truth->lowest && counts.highest == truth->highest,
          "%s: extremes %g %g for %g %g", k->name, counts.lowest, counts.highest,
          truth->lowest, truth->highest);
    CHECK(!(counts.lowest == 0 && signbit(counts.lowest)) &&
              !(counts.highest == 0 && signbit(counts.highest)),
          "%s: an extreme is -0", k->name);
    CHECK(plain.count == truth->count && plain.lowest == truth->lowest &&
              plain.highest == truth->highest && plain.nan == truth->nan,
          "%s: without counters they differ", k->name);
    take(&counts);
    CHECK(memcmp(found, expected, sizeof found) == 0, "%s: %s of %zu: counts differ",
          k->name, type_name(call.args.in.type), call.n);
    CHECK(counts.pending == 0 && are_zeros(), "%s: counters are not zeros", k->name);
    counts = fresh(1);
    counts.ignore_nonfinite = 0;
    EXPECT(truth->nan + truth->inf != 0 ? PQ_ERR_NONFINITE : PQ_OK,
           pq_histogram(k, &call.args, &counts, 0, 1));
    take(&counts);
    CHECK(are_zeros(), "%s: counters of a failed call are not zeros", k->name);
}

static void check_calls(enum pq_type type)
{
    check_begin("histogram of %s", type_name(type));
    CASES(i, check_count(200)) {
        draw_array(type);
        const struct truth truth = count_all();
        const int parts = random_chance(60) ? 1 : (int)random_between(2, 5);
        for (int t = 0; tables[t] != NULL; t++) {
            check_call(tables[t], &truth, parts);
        }
    }
}

/* Check that several calls add to one histogram. The rounding mode of the CPU differs
 * between the calls, and must not change the counts. */
static void check_together(const struct pq_kernels *k)
{
    static uint64_t sum[KEYS];
    check_begin("%s histogram of many calls", k->name);
    struct pq_counts counts = fresh(1);
    memset(sum, 0, sizeof sum);
    for (int i = 0; i < 20; i++) {
        draw_array(i % 2 ? PQ_F64 : PQ_F32);
        count_all();
        for (size_t key = 0; key < KEYS; key++) {
            sum[key] += expected[key];
        }
#if defined(FE_UPWARD) /* WebAssembly cannot change the rounding mode */
        const int before = fegetround();
        fesetround(i % 4 < 2 ? FE_UPWARD : FE_TOWARDZERO);
#endif
        EXPECT(PQ_OK, pq_histogram(k, &call.args, &counts, 0, 1));
#if defined(FE_UPWARD)
        fesetround(before);
#endif
    }
    take(&counts);
    CHECK(memcmp(found, sum, sizeof found) == 0, "counts differ");
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    make_arenas();
    counters = calloc(PQ_COUNTERS, sizeof *counters);
    for (size_t r = 0; r < REALS; r++) {
        check_calls(reals[r]);
    }
    for (int t = 0; tables[t] != NULL; t++) {
        check_together(tables[t]);
    }
    return check_finish();
}
