/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check random words against an independent definition, and stochastic rounding: every
 * available table against the scalar one, between inaccessible pages and at every
 * alignment.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "math/fpenv.h"
#include "types.h"

enum { MOST = 1100, BYTES = MOST * 8 };

/* ---- words ---- */

static uint32_t word_at(uint64_t seed, uint64_t position)
{
    uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
    const uint64_t block = position / 4;
    uint32_t a = (uint32_t)block, b = (uint32_t)(block >> 32), c = 0, d = 0;
    for (int i = 0; i < 10; i++) {
        const uint64_t p = (uint64_t)a * 0xd2511f53, q = (uint64_t)c * 0xcd9e8d57;
        a = (uint32_t)(q >> 32) ^ b ^ low;
        b = (uint32_t)q;
        c = (uint32_t)(p >> 32) ^ d ^ high;
        d = (uint32_t)p;
        low += 0x9e3779b9;
        high += 0xbb67ae85;
    }
    const uint32_t words[] = {a, b, c, d};
    return words[position % 4];
}

static void check_definition(void)
{
    static const uint32_t known[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8,
                                     0xf8e4cca4, 0x5cb200db, 0xb1a574eb, 0x097eff67};
    check_begin("the words of Random123");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        CHECK(word_at(0, i) == known[i], "word %zu: %#x", i, word_at(0, i));
    }
    check_end();
}

static struct {
    struct guarded x, y, random_words, scale, zero;
} memory;

static const uint64_t steps[] = {1, 1, 1, 3, 96, UINT64_MAX, 0, UINT64_MAX, 1, 0x100000001};

static void check_words(const struct pq_kernels *k)
{
    check_begin("%s: words", k->name);
    for (size_t i = 0; i < check_count(4000); i++) {
        const size_t n = random_below(random_chance(80) ? 100 : MOST);
        const uint64_t step = steps[random_below(sizeof steps / sizeof *steps)];
        const uint64_t seed = random_bits(), near = random_below(300);
        const uint64_t first = random_chance(30)   ? near
                               : random_chance(30) ? 0 - near
                               : random_chance(30) ? (UINT64_C(1) << 34) - near
                                                   : random_bits();
        uint32_t *const to =
            (uint32_t *)(void *)guarded_end(&memory.random_words, n * sizeof *to);
        k->random_words(to, seed, first, step, n);
        for (size_t j = 0; j < n; j++) {
            const uint32_t word = word_at(seed, first + j * step);
            CHECK(to[j] == word, "n %zu, first %#llx, step %#llx: word %zu is %#x, not %#x",
                  n, (unsigned long long)first, (unsigned long long)step, j, to[j], word);
        }
    }
    check_end();
}

/* ---- codes ---- */

static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};

struct batch {
    enum pq_type in, out, compute;
    int general, each, overflow;
    size_t n;
    char x[BYTES], y[BYTES];
    uint32_t random_words[MOST];
    double scale[MOST], zero[MOST]; /* elements of any type */
};

static void draw_params(struct batch *b)
{
    const int is_float = pq_is_narrow_float(b->out);
    for (size_t i = 0; i < MOST; i++) {
        const double s = b->in == PQ_F64 ? draw_scale_f64() : (double)draw_scale();
        const int64_t z = draw_integer(-9, 9);
        const float single = (float)s, sum = random_chance(50) ? -0.0f : (float)z;
        const int32_t whole = pq_bits_of(b->out) == 32 ? 0 : (int32_t)z;
        if (b->general) {
            b->scale[i] = b->in == PQ_F64 ? s : (double)single;
            b->zero[i] = is_float ? (double)sum : (double)z;
        } else {
            memcpy((char *)b->scale + i * sizeof single, &single, sizeof single);
            memcpy((char *)b->zero + i * sizeof whole,
                   is_float ? (const void *)&sum : (const void *)&whole, sizeof whole);
        }
        if (pq_is_64_bit(b->out)) {
            memcpy(&b->zero[i], &z, sizeof z);
        }
    }
}

static double scale_at(const struct batch *b, size_t i)
{
    float single;
    memcpy(&single, (const char *)b->scale + i * sizeof single, sizeof single);
    return b->general ? b->scale[i] : (double)single;
}

static void draw_batch(struct batch *b)
{
    b->out = (enum pq_type)(1 + random_below(PQ_TYPE_COUNT - 1));
    while (!pq_is_code(b->out) || pq_is_narrow_integer(b->out)) {
        b->out = (enum pq_type)(1 + random_below(PQ_TYPE_COUNT - 1));
    }
    b->in = reals[random_below(4)];
    b->general = b->in == PQ_F64 || pq_is_64_bit(b->out) || random_chance(20);
    b->compute = b->in == PQ_F64 ? PQ_F64 : PQ_F32;
    b->each = random_chance(40);
    b->overflow = random_chance(50);
    b->n = 1 + random_below(random_chance(80) ? 100 : MOST - 1);
    draw_params(b);
    const double reach =
        pq_is_narrow_float(b->out) ? 500 : 2.5 * (double)limits_of(b->out).hi;
    for (size_t i = 0; i < b->n; i++) {
        const double s = scale_at(b, b->each ? i : 0);
        put_bits(b->x, b->in, i, draw_real(b->in, s, random_chance(50) ? 4 : reach));
        b->random_words[i] = random_chance(10) ? 0 : (uint32_t)random_bits();
    }
}

static void run(const struct pq_kernels *k, const struct batch *b, const void *x, void *y,
                const uint32_t *random_words, const void *scale, const void *zero)
{
    struct pq_run run = {.group = b->each ? 1 : b->n,
                         .in = b->in,
                         .out = b->out,
                         .compute = b->compute,
                         .round = PQ_STOCHASTIC,
                         .overflow = b->overflow,
                         .random_words = random_words,
                         .general = b->general};
    if (b->general) {
        run.scale.f64 = scale;
        run.zero.f64 = zero;
    } else {
        run.scale.f32 = scale;
        run.zero.i32 = zero;
    }
    k->quantize_stochastic(&run, x, y, b->n);
}

/* Place an array at the end of memory, or some bytes after its begin. */
static void *copied(const struct guarded *where, const void *from, size_t n, size_t align)
{
    unsigned char *const to =
        random_chance(50) ? guarded_end(where, n) : where->base + align * random_below(9);
    memcpy(to, from, n);
    return to;
}

static void check_codes(const struct pq_kernels *k)
{
    static struct batch b;
    check_begin("%s: codes", k->name);
    for (size_t i = 0; i < check_count(6000); i++) {
        draw_batch(&b);
        const size_t in = pq_bytes_of(b.in), out = pq_bytes_of(b.out);
        const size_t size = b.general ? sizeof(double) : sizeof(float);
        const size_t params = b.each ? b.n * size : size;
        run(&pq_kernels_scalar, &b, b.x, b.y, b.random_words, b.scale, b.zero);
        void *const x = copied(&memory.x, b.x, b.n * in, 1);
        unsigned char *const y = copied(&memory.y, b.x, b.n * out, 1);
        const pq_fpenv found = pq_fpenv_enter();
        run(k, &b, x, y,
            copied(&memory.random_words, b.random_words, b.n * sizeof *b.random_words, 4),
            copied(&memory.scale, b.scale, params, size),
            copied(&memory.zero, b.zero, params, size));
        pq_fpenv_leave(found);
        for (size_t j = 0; j < b.n; j++) {
            CHECK(memcmp(y + j * out, b.y + j * out, out) == 0,
                  "%s to %s, general %d, each %d, n %zu: element %zu, scale %a, word %#x",
                  type_name(b.in), type_name(b.out), b.general, b.each, b.n, j,
                  scale_at(&b, b.each ? j : 0), b.random_words[j]);
        }
    }
    check_end();
}

#undef STOCHASTIC
#define STOCHASTIC(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(void)
{
    struct guarded *const all[] = {&memory.x, &memory.y, &memory.random_words,
                                   &memory.scale, &memory.zero};
    check_start("check_stochastic");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        *all[i] = guarded_make(2 * BYTES);
    }
    check_definition();
    run_drivers(drivers);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        guarded_free(all[i]);
    }
    return check_finish();
}
