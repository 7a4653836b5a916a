/* SPDX-License-Identifier: Apache-2.0 */
/* Compare the codebook kernels of every instruction set with the definition. Arrays
 * begin at any address, or end at an inaccessible page. Also check the errors of invalid
 * calls. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "oracle.h"

enum { MOST = 200 };

static struct guarded in, out;
static int count;
static float table[PQ_BOOK], ascending[PQ_BOOK], middle[PQ_BOOK];
static uint8_t code_of[PQ_BOOK];
static struct pq_codebook book;

/* Fill the table of the codebook with random values, which often include equal values. Also
 * sort the values. */
static void draw_table(void)
{
    count = 4 << random_below(7);
    for (int i = 0; i < count; i++) {
        const int again = i > 0 && random_chance(10);
        table[i] = again ? table[random_below((size_t)i)]
                         : (float)ldexp(random_unit() - 0.5, (int)random_below(9));
    }
    for (int i = 0; i < count; i++) { /* a stable sort: equal values keep their order */
        int place = 0;
        for (int k = 0; k < count; k++) {
            place += table[k] < table[i] || (table[k] == table[i] && k < i);
        }
        ascending[place] = table[i];
        code_of[place] = (uint8_t)i;
    }
    for (int i = 0; i + 1 < count; i++) {
        middle[i] = (float)(((double)ascending[i] + (double)ascending[i + 1]) / 2);
    }
    book.size = sizeof book;
    CHECK(pq_codebook_init(&book, table, count) == PQ_OK, "table of %d", count);
}

static uint8_t place_of(double v)
{
    int below = 0;
    for (int i = 0; i + 1 < count; i++) {
        below += (double)middle[i] < v;
    }
    return code_of[below];
}

/* Return a random number, often near `scale` times a midpoint of two values of the
 * table. */
static float draw_number(float scale)
{
    static const float edges[] = {0.0f, -0.0f, 1e-45f, 3e38f, INFINITY, -INFINITY, NAN};
    const float at = middle[random_below((size_t)count - 1)];
    switch (random_below(5)) {
    case 0:
        return edges[random_below(7)];
    case 1:
        return (float)(random_unit() - 0.5) * 300;
    case 2:
        return at * scale;
    default:
        return nextafterf(at, random_chance(50) ? INFINITY : -INFINITY) * scale;
    }
}

static float draw_scale_of_book(void)
{
    return random_chance(70) ? 1.0f : draw_scale();
}

static struct pq_run draw_run(double *scales, size_t n, size_t *group)
{
    *group = random_chance(30) ? 1 : 1 + random_below(MOST);
    for (size_t i = 0; i < n; i++) {
        scales[i] = (double)draw_scale_of_book();
    }
    return (struct pq_run){.group = *group,
                           .scale = {.f64 = scales},
                           .book = &book,
                           .inverse = random_chance(30) != 0};
}

/* Return the expected bits of element `i`, by the definition. */
static uint64_t due_of(const struct pq_run *run, const void *x, size_t i, double scale)
{
    const float s = (float)scale;
    if (run->in == PQ_U8) {
        const float value = table[get_bits(x, PQ_U8, i) % (uint64_t)count];
        return encode(run->out, (double)(run->inverse ? value / s : value * s), 1, 0);
    }
    const double v = get_real(x, run->in, i), q = run->inverse ? v * scale : v / scale;
    const float single = run->inverse ? (float)v * s : (float)v / s;
    return place_of(run->in == PQ_F64 ? q : (double)single);
}

static void check_books(const struct pq_kernels *k, pq_kernel_fn *kernel, int quantizes)
{
    static double scales[MOST];
    check_begin("%s of %s", quantizes ? "quantize" : "dequantize", k->name);
    CASES(round, check_count(4000)) {
        const size_t n = random_below(MOST);
        const enum pq_type real = reals[random_below(REALS)];
        size_t g;
        draw_table();
        struct pq_run run = draw_run(scales, n, &g);
        run.in = quantizes ? real : PQ_U8;
        run.out = quantizes ? PQ_U8 : real;
        unsigned char *const x = guarded_end(&in, n * pq_bytes_of(run.in));
        unsigned char *const y = guarded_end(&out, n * pq_bytes_of(run.out));
        for (size_t i = 0; i < n; i++) {
            const double v = (double)draw_number((float)scales[i / g]);
            put_bits(x, run.in, i, quantizes ? encode(real, v, 1, 0) : random_below(256));
        }
        kernel(&run, x, y, n);
        for (size_t i = 0; i < n; i++) {
            const uint64_t got = get_bits(y, run.out, i);
            const uint64_t due = due_of(&run, x, i, scales[i / g]);
            CHECK(got == due, "element %zu of %zu, %d values, scale %a: %#llx, not %#llx",
                  i, n, count, scales[i / g], (unsigned long long)got,
                  (unsigned long long)due);
        }
    }
}

DRIVER(check_quantize_book, pq_kernel_fn *, check_books(k, kernel, 1))
DRIVER(check_dequantize_book, pq_kernel_fn *, check_books(k, kernel, 0))

/* Compare the kernel for packed 4-bit codes with the kernel dequantize_book, which reads
 * one code from each byte. */
static void check_book_packed(const struct pq_kernels *k, pq_kernel_fn *kernel)
{
    enum { GROUPS = 8, N = GROUPS * 3 * PQ_PACKED_GROUP };
    static uint8_t x[N / 2], codes[N];
    static float y[N], due[N];
    double scales[GROUPS];
    check_begin("dequantize_book_packed of %s", k->name);
    CASES(round, kernel != NULL ? check_count(1000) : 0) {
        const size_t g = PQ_PACKED_GROUP * (1 + random_below(3));
        /* the engine never calls the kernel with 0 elements */
        const size_t n = g * (1 + random_below(GROUPS));
        do {
            draw_table();
        } while (count > PQ_SMALL_BOOK);
        for (size_t i = 0; i < GROUPS; i++) {
            scales[i] = (double)draw_scale_of_book();
        }
        const struct pq_run run = {.group = g,
                                   .scale = {.f64 = scales},
                                   .book = &book,
                                   .in = PQ_U8,
                                   .out = PQ_F32,
                                   .high_first = random_chance(50) != 0};
        for (size_t i = 0; i < n; i++) {
            codes[i] = (uint8_t)random_below(16);
            const int shift = ((i % 2 == 0) == run.high_first) * 4;
            x[i / 2] = (uint8_t)((i % 2 ? x[i / 2] : 0) | codes[i] << shift);
        }
        pq_kernels_scalar.dequantize_book(&run, codes, due, n);
        kernel(&run, x, y, n);
        CHECK(memcmp(y, due, n * sizeof *y) == 0, "%zu elements in groups of %zu", n, g);
    }
}

static void check_alone(void)
{
    in = guarded_make(MOST * sizeof(double));
    out = guarded_make(MOST * sizeof(double));
}

#undef CODEBOOK
#define CODEBOOK TEST
#include "program.h"
