/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check the kernels that do not quantize: extrema, parameters of extrema, transposes,
 * pixels, magnitudes, sub-byte codes and random words. Results are compared with the
 * definition. Buffers are between inaccessible pages.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "oracle.h"
#include "run.h"
#include "types.h"

enum { MOST = 1 << 14, SHORT_N = 3 * 32 + 3, CANARY = 64 };

static struct {
    struct guarded x, y, scale, zero;
} memory;

static void fill_random(void *to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ((unsigned char *)to)[i] = (unsigned char)random_bits();
    }
}

/* Return the end of the output memory for `n` bytes, after known bytes. */
static unsigned char *place_output(const struct guarded *where, size_t n)
{
    unsigned char *const y = guarded_end(where, n);
    memset(y - CANARY, 0x5a, CANARY);
    return y;
}

static void check_canary(const struct pq_kernels *k, const unsigned char *y)
{
    for (size_t i = 1; i <= CANARY; i++) {
        CHECK(y[-(ptrdiff_t)i] == 0x5a, "%s: wrote before its output", k->name);
    }
}

/* ---- extrema: the sign of a zero is not specified ---- */

struct extrema {
    double lo, hi;
    uint32_t bits;
};

/* Extrema are float64 for float64 elements, else float32. */
static void put_extremum(void *p, enum pq_type real, size_t i, double v)
{
    const enum pq_type type = real == PQ_F64 ? PQ_F64 : PQ_F32;
    put_bits(p, type, i, type == PQ_F64 ? bits_of_f64(v) : bits_of_f32((float)v));
}

static double get_extremum(const void *p, enum pq_type real, size_t i)
{
    return get_real(p, real == PQ_F64 ? PQ_F64 : PQ_F32, i);
}

/* Merge every `step`-th of the elements by the definition. */
static void merge(struct extrema *e, enum pq_type real, const void *x, size_t n,
                  size_t step)
{
    for (size_t i = 0; i < n; i++) {
        const double v = get_real(x, real, i * step);
        e->bits = isfinite(v) ? e->bits : 0x7f800000;
        e->lo = v < e->lo ? v : e->lo;
        e->hi = v > e->hi ? v : e->hi;
    }
}

static void expect_extrema(const struct pq_kernels *k, const struct extrema *due,
                           enum pq_type real, const void *lo, const void *hi, size_t i,
                           const char *what, size_t n)
{
    const double least = get_extremum(lo, real, i), most = get_extremum(hi, real, i);
    CHECK(due->bits >= 0x7f800000 || (least == due->lo && most == due->hi),
          "%s: %s %zu of %zu elements: %a .. %a, expected %a .. %a", k->name, what, i, n,
          least, most, due->lo, due->hi);
}

/* Compare a run of all elements, groups, and columns of a matrix with gaps. */
static void verify_extrema(const struct pq_kernels *k, enum pq_type real, const void *x,
                           size_t rows, size_t n, size_t apart)
{
    static double lo[MOST], hi[MOST]; /* or float32 */
    const size_t size = pq_type_size(real), stride = n + apart;
    const int row = real == PQ_F64 ? PQ_F64_ROW : pq_row_of(real);
    const char *const from = x;
    struct extrema all = {HUGE_VAL, -HUGE_VAL, 0};
    uint32_t bits = 0;
    if (apart == 0) {
        all = random_chance(30)
                  ? (struct extrema){-3, 5e4, random_chance(10) ? 0x7f800000 : 0}
                  : all;
        put_extremum(lo, real, 0, all.lo);
        put_extremum(hi, real, 0, all.hi);
        bits = all.bits;
        merge(&all, real, x, rows * n, 1);
        k->minmax[row](x, rows * n, lo, hi, &bits);
        CHECK((bits < 0x7f800000) == (all.bits < 0x7f800000), "%s: bits %#x", k->name,
              (unsigned)bits);
        expect_extrema(k, &all, real, lo, hi, 0, "run", rows * n);
        all = (struct extrema){HUGE_VAL, -HUGE_VAL, 0};
        bits = 0;
        k->minmax_groups[row](x, rows, n, lo, hi, &bits);
        for (size_t r = 0; r < rows; r++) {
            struct extrema e = {HUGE_VAL, -HUGE_VAL, 0};
            merge(&e, real, from + r * stride * size, n, 1);
            all.bits |= e.bits;
            expect_extrema(k, &e, real, lo, hi, r, "group", n);
        }
        CHECK((bits < 0x7f800000) == (all.bits < 0x7f800000), "%s: bits %#x", k->name,
              (unsigned)bits);
    }
    for (size_t c = 0; c < n; c++) {
        put_extremum(lo, real, c, c % 3 == 0 ? -1.5 : HUGE_VAL);
        put_extremum(hi, real, c, c % 5 == 0 ? 2.5 : -HUGE_VAL);
    }
    put_extremum(lo, real, n, 77);
    put_extremum(hi, real, n, 77);
    bits = all.bits = 0;
    k->minmax_columns[row](x, (ptrdiff_t)(stride * size), rows, n, lo, hi, &bits);
    for (size_t c = 0; c < n; c++) {
        struct extrema e = {c % 3 == 0 ? -1.5 : HUGE_VAL, c % 5 == 0 ? 2.5 : -HUGE_VAL, 0};
        merge(&e, real, from + c * size, rows, stride);
        all.bits |= e.bits;
        expect_extrema(k, &e, real, lo, hi, c, "column", rows);
    }
    CHECK(get_extremum(lo, real, n) == 77 && get_extremum(hi, real, n) == 77,
          "%s: %zu columns: wrote one more", k->name, n);
    CHECK((bits < 0x7f800000) == (all.bits < 0x7f800000), "%s: bits %#x", k->name,
          (unsigned)bits);
}

/* Check all tables at once. */
static void check_extrema(const struct pq_kernels *k)
{
    for (int r = 0; k == tables[0] && r < PQ_EXTREMA; r++) {
        const enum pq_type real = reals[r];
        check_begin("extrema of %s", type_name(real));
        CASES(i, 300 + check_count(3000)) {
            const size_t single = i % 3 == 0; /* one row of each length */
            const size_t n = single ? i / 3 % (SHORT_N + 1) + 1
                                    : 1 + random_below(random_chance(90) ? SHORT_N : 600);
            const size_t rows = single ? 1 : random_below(n < 100 ? 70 : 20) + (n < 32);
            const size_t apart = random_chance(60) ? 0 : random_below(4);
            const size_t size = pq_type_size(real), count = rows * (n + apart);
            const size_t bytes = rows == 0 ? 0 : (count - apart) * size;
            unsigned char *const x = random_chance(50) ? guarded_end(&memory.x, bytes)
                                                       : memory.x.base + random_below(32);
            const int finite = !random_chance(10);
            for (size_t e = 0; e < bytes / size; e++) {
                do {
                    put_bits(x, real, e, draw_real(real, 0.03, 1e6));
                } while (finite && !isfinite(get_real(x, real, e)));
            }
            if (rows > 0 &&
                random_chance(20)) { /* an infinity or a NaN, perhaps in a gap */
                const uint64_t v = bits_of_f64(random_chance(50) ? HUGE_VAL : (double)NAN);
                const uint64_t narrow = real == PQ_F16    ? 0x7c00
                                        : real == PQ_BF16 ? 0x7f80
                                                          : 0x7f800000;
                put_bits(x, real, random_below(bytes / size),
                         real == PQ_F64 ? v : narrow + random_below(3));
            }
            for (int t = 0; tables[t] != NULL; t++) {
                verify_extrema(tables[t], real, x, rows, n, apart);
            }
        }
        check_end();
    }
}

/* ---- parameters of extrema ---- */

/* Draw an extreme. `tame`: its magnitude is within the limits of the kernels. */
static float draw_end(int tame)
{
    float v;
    do {
        const uint32_t bits = (uint32_t)draw_real(PQ_F32, 0.03, 1e6);
        memcpy(&v, &bits, sizeof v);
    } while (!isfinite(v) || (tame && (fabsf(v) < 1e-20f || fabsf(v) > 1e20f)));
    return v;
}

static void verify_choose(pq_choose_fn *judge, pq_choose_fn *choose, const char *name,
                          enum pq_type code)
{
    const struct pq_range range = pq_range_of(code);
    const struct pq_reach to = {(double)range.lo, (double)range.hi,
                                (double)(range.lo + range.hi + 1) / 2, 0x1p-80, 0x1p120};
    float lo[PQ_CHOSEN], hi[PQ_CHOSEN], due[PQ_CHOSEN], scale[PQ_CHOSEN + 1];
    uint32_t due_zero[PQ_CHOSEN], zero[PQ_CHOSEN + 1];
    const size_t n = random_below(PQ_CHOSEN + 1);
    const int tame = random_chance(70);
    for (size_t i = 0; i < n; i++) {
        const float a = draw_end(tame), b = random_chance(10) ? -a : draw_end(tame);
        lo[i] = a < b ? a : b;
        hi[i] = a < b ? b : a;
    }
    scale[n] = 77;
    zero[n] = 77;
    const int chosen = judge(&to, lo, hi, due, due_zero, n);
    CHECK(choose(&to, lo, hi, scale, zero, n) == chosen, "%s %s: not %d", name,
          type_name(code), chosen);
    for (size_t i = 0; i < n && chosen; i++) {
        CHECK(scale[i] == due[i] && zero[i] == due_zero[i],
              "%s %s: %a .. %a: %a, %u, expected %a, %u", name, type_name(code),
              (double)lo[i], (double)hi[i], (double)scale[i], (unsigned)zero[i],
              (double)due[i], (unsigned)due_zero[i]);
    }
    CHECK(scale[n] == 77 && zero[n] == 77, "%s: one more than %zu", name, n);
}

static void check_choose(const struct pq_kernels *k)
{
    static const enum pq_type types[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_U4, PQ_U2};
    check_begin("%s choose_middle and choose_asymmetric", k->name);
    CASES(i, check_count(2000)) {
        const enum pq_type code = types[i % (sizeof types / sizeof *types)];
        verify_choose(pq_kernels_scalar.choose_middle, k->choose_middle, k->name, code);
        verify_choose(pq_kernels_scalar.choose_asymmetric, k->choose_asymmetric, k->name,
                      code);
    }
    check_end();
}

/* ---- transposes ---- */

/* Transpose lines with gaps of `apart` bytes to rows without gaps. Input and output end at
 * an inaccessible page. */
static void verify_transpose(const struct pq_kernels *k, int which, size_t rows,
                             size_t columns, size_t apart)
{
    const size_t size = (size_t)1 << which, line = rows * size + apart;
    const size_t in_bytes = columns * line - apart, out_bytes = rows * columns * size;
    unsigned char *x = guarded_end(&memory.x, in_bytes);
    unsigned char *y = place_output(&memory.y, out_bytes);
    fill_random(x, in_bytes);
    k->transpose[which]((char *)x, (ptrdiff_t)line, (char *)y, (ptrdiff_t)(columns * size),
                        rows, columns);
    size_t wrong = 0;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < columns; c++) {
            wrong +=
                memcmp(y + (r * columns + c) * size, x + c * line + r * size, size) != 0;
        }
    }
    CHECK(wrong == 0, "%s: %zu x %zu elements of %zu bytes: %zu wrong", k->name, rows,
          columns, size, wrong);
    check_canary(k, y);
}

static void check_transpose(const struct pq_kernels *k)
{
    check_begin("%s transpose", k->name);
    CASES(i, 4 * 33 * check_count(8)) {
        const size_t rows = 1 + i / 4 % 33, columns = 1 + random_below(40);
        verify_transpose(k, (int)(i % 4), rows, columns, i / 132 % 2 * random_below(70));
    }
    check_end();
}

/* ---- pixels ---- */

static void check_pixels(const struct pq_kernels *k)
{
    check_begin("%s split_pixels and join_pixels", k->name);
    CASES(i, k->split_pixels != NULL ? check_count(2000) : 0) {
        const size_t stride = 1 + random_below(8), n = random_below(100);
        const size_t channels = 1 + random_below(stride), row = n + random_below(9);
        unsigned char *x = guarded_end(&memory.x, n * stride);
        unsigned char *y = guarded_end(&memory.y, channels * row);
        fill_random(x, n * stride);
        const size_t split = k->split_pixels((char *)x, (ptrdiff_t)stride, (char *)y,
                                             (ptrdiff_t)row, channels, n);
        for (size_t b = 0; b < split * channels; b++) {
            const size_t pixel = b / channels, c = b % channels;
            CHECK(y[c * row + pixel] == x[pixel * stride + c],
                  "split %zu of %zu pixels: channel %zu of %zu", pixel, n, c, stride);
        }
        x = place_output(&memory.x, n * stride);
        y = guarded_end(&memory.y, stride * row);
        fill_random(y, stride * row);
        const size_t joined = k->join_pixels((char *)y, (ptrdiff_t)row, (char *)x,
                                             (ptrdiff_t)stride, stride, n);
        for (size_t b = 0; b < joined * stride; b++) {
            const size_t pixel = b / stride, c = b % stride;
            CHECK(x[b] == y[c * row + pixel], "join %zu of %zu pixels: channel %zu of %zu",
                  pixel, n, c, stride);
        }
        CHECK(split <= n && joined <= n, "%zu pixels: %zu split, %zu joined", n, split,
              joined);
        check_canary(k, x);
        CHECK(stride < 2 || stride > 4 || (split + 17 > n && joined + 16 > n),
              "%zu pixels of %zu bytes: %zu split, %zu joined", n, stride, split, joined);
    }
    check_end();
}

/* ---- magnitudes ---- */

static void check_magnitude(const struct pq_kernels *k)
{
    check_begin("%s magnitude", k->name);
    CASES(i, check_count(4000)) {
        const size_t n = PQ_MAGNITUDES + random_below(200);
        unsigned char *const x = random_chance(50)
                                     ? guarded_end(&memory.x, n * sizeof(float))
                                     : memory.x.base + random_below(16) * 4;
        const int finite = random_chance(70);
        uint32_t most = 0;
        for (size_t e = 0; e < n; e++) {
            uint32_t bits = (uint32_t)draw_real(PQ_F32, 0.03, 1e6);
            bits &= finite ? 0xbfffffff : UINT32_MAX; /* below 2 */
            most = (bits & 0x7fffffff) > most ? bits & 0x7fffffff : most;
            put_bits(x, PQ_F32, e, bits);
        }
        const uint32_t got = k->magnitude(x, n);
        CHECK(got == most, "%zu elements: %#x, expected %#x", n, (unsigned)got,
              (unsigned)most);
    }
    check_end();
}

/* ---- random words ---- */

static void check_words(const struct pq_kernels *k)
{
    static const uint32_t known[] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8,
                                     0xf8e4cca4, 0x5cb200db, 0xb1a574eb, 0x097eff67};
    static const uint64_t steps[] = {1,          1, 1,          3, 96,
                                     UINT64_MAX, 0, UINT64_MAX, 1, 0x100000001};
    check_begin("%s: random words", k->name);
    for (size_t i = 0; i < COUNT(known); i++) {
        CHECK(random_word(0, i) == known[i], "word %zu of Random123", i);
    }
    CASES(i, check_count(4000)) {
        const size_t n = random_below(random_chance(80) ? 100 : 1100);
        const uint64_t step = steps[random_below(COUNT(steps))];
        const uint64_t seed = random_bits(), near = random_below(300);
        const uint64_t first = random_chance(30)   ? near
                               : random_chance(30) ? 0 - near
                               : random_chance(30) ? (UINT64_C(1) << 34) - near
                                                   : random_bits();
        uint32_t *const to = (void *)guarded_end(&memory.y, n * sizeof *to);
        k->random_words(to, seed, first, step, n);
        for (size_t j = 0; j < n; j++) {
            CHECK(to[j] == random_word(seed, first + j * step),
                  "n %zu, first %#llx, step %#llx: word %zu is %#x", n,
                  (unsigned long long)first, (unsigned long long)step, j, to[j]);
        }
    }
    check_end();
}

/* ---- bytes and bits, by their definition ---- */

static int low_bits(unsigned char c, int bits, int has_sign)
{
    const int v = c & ((1 << bits) - 1);
    return has_sign && v >= 1 << (bits - 1) ? v - (1 << bits) : v;
}

static void check_bytes_of(const struct pq_kernels *k, enum pq_type type)
{
    static unsigned char x[SHORT_N], kept[SHORT_N];
    const struct limits range = limits_of(type);
    const int bits = pq_type_bits(type), has_sign = range.lo < 0;
    const size_t per_byte = (size_t)(8 / bits);
    check_begin("%s: bytes of %s", k->name, type_name(type));
    for (size_t n = 0; n <= SHORT_N; n++) {
        const size_t bytes = (n + per_byte - 1) / per_byte;
        unsigned char *const y = guarded_end(&memory.y, n);
        unsigned char *const z = guarded_end(&memory.x, bytes);
        fill_random(x, n);
        k->extend[pq_row_of(type)](x, y, n);
        for (size_t i = 0; i < n; i++) {
            CHECK(y[i] == (unsigned char)low_bits(x[i], bits, has_sign), "extend %zu", n);
        }
        memcpy(y, x, n);
        k->narrow[pq_row_of(type)](y, y, n);
        for (size_t i = 0; i < n; i++) {
            const int64_t v = has_sign ? (signed char)x[i] : x[i];
            const int64_t v2 = v < range.lo ? range.lo : v > range.hi ? range.hi : v;
            CHECK(y[i] == (v2 & ((1 << bits) - 1)), "narrow %zu", n);
        }
        fill_random(z, bytes);
        memcpy(kept, z, bytes);
        k->unpack[pq_row_of(type)](z, y, n);
        for (size_t i = 0; i < n; i++) {
            const int above = z[i / per_byte] >> (int)(i % per_byte) * bits;
            CHECK(y[i] == (unsigned char)low_bits((unsigned char)above, bits, has_sign),
                  "unpack %zu", n);
        }
        CHECK(memcmp(z, kept, bytes) == 0, "wrote to its input");
    }
    check_end();
}

/* Extract codes from any position of 32-bit words. */
static void check_unpack_words(const struct pq_kernels *k)
{
    check_begin("%s unpack_words", k->name);
    CASES(i, check_count(400)) {
        const size_t n = i % 100;
        const int bits = 1 + (int)random_below(8), shift = (int)random_below(32);
        unsigned char *const x = guarded_end(&memory.x, n * sizeof(uint32_t));
        unsigned char *const y = place_output(&memory.y, n);
        fill_random(x, n * sizeof(uint32_t));
        const int left = 32 - shift < bits ? 32 - shift : bits, mask = (1 << left) - 1;
        k->unpack_words(x, shift, mask, y, n);
        for (size_t j = 0; j < n; j++) {
            uint32_t word;
            memcpy(&word, x + j * sizeof word, sizeof word);
            CHECK(y[j] == (word >> shift & (uint32_t)mask), "n %zu, shift %d", n, shift);
        }
        check_canary(k, y);
    }
    check_end();
}

static void check_bytes(const struct pq_kernels *k)
{
#define NARROW_TYPE(type, ...) check_bytes_of(k, PQ_##type);
    PQ_FOR_NARROW(NARROW_TYPE)
#undef NARROW_TYPE
}

/* Pack and unpack `n` codes, and compare each bit and code with the definition. */
static void check_bits_of(const struct pq_kernels *k, int bits, size_t n)
{
    const size_t all = n * (size_t)bits, bytes = (all + 7) / 8;
    unsigned char *const x = guarded_end(&memory.x, n);
    unsigned char *const y = guarded_end(&memory.y, bytes);
    unsigned char *const z = guarded_end(&memory.scale, n);
    fill_random(x, n);
    k->pack[bits](x, y, n);
    for (size_t b = 0; b < 8 * bytes; b++) {
        const int bit = b < all ? x[b / (size_t)bits] >> b % (size_t)bits & 1 : 0;
        CHECK((y[b / 8] >> b % 8 & 1) == bit, "pack %zu: bit %zu", n, b);
    }
    k->unpack_bits[bits](y, z, n);
    for (size_t i = 0; i < n; i++) {
        CHECK(z[i] == low_bits(x[i], bits, 0), "unpack %zu: code %zu", n, i);
    }
}

static void check_bits(const struct pq_kernels *k)
{
    for (int bits = 1; bits < 8; bits++) {
        check_begin("%s: codes of %d bits", k->name, bits);
        for (size_t n = 0; k->pack[bits] != NULL && n < 3 * SHORT_N + 4; n++) {
            check_bits_of(k, bits, n < 3 * SHORT_N ? n : random_below(MOST));
        }
        check_end();
    }
}

/* ---- packed codes of 4 bits, against kernels for bytes ---- */

enum { GROUPS = 130, PACKED_N = GROUPS * 4 * PQ_PACKED_GROUP };

/* Check a sum with offsets, in float32. */
static void check_packed_offsets(pq_kernel_fn *add, const struct pq_run *run,
                                 const unsigned char *x, const unsigned char *product,
                                 unsigned char *y, size_t n)
{
    static float offset[GROUPS];
    struct pq_run sum = *run;
    for (size_t i = 0; i < GROUPS; i++) {
        offset[i] = random_chance(5) ? INFINITY : (float)random_unit();
    }
    sum.offset.f32 = offset;
    add(&sum, x, y, n);
    for (size_t i = 0; i < n; i++) {
        const float due = (float)get_real(product, PQ_F32, i) + offset[i / run->group];
        CHECK(get_bits(y, PQ_F32, i) == encode(PQ_F32, (double)due, 1, 0),
              "element %zu of %zu plus an offset", i, n);
    }
}

static void check_packed_run(const struct pq_kernels *k, enum pq_type type,
                             enum pq_type real, int quantizes, size_t g, size_t groups)
{
    static unsigned char codes[PACKED_N], expected[PACKED_N * sizeof(float)];
    const struct limits range = limits_of(type);
    const enum pq_type byte = pq_carrier_of(type);
    const size_t n = g * groups, size = pq_type_size(real);
    const size_t in_bytes = quantizes ? n * size : n / 2;
    const size_t out_bytes = quantizes ? n / 2 : n * size;
    unsigned char *const x = guarded_end(&memory.x, in_bytes);
    unsigned char *const y = place_output(&memory.y, out_bytes + random_below(CANARY));
    float *const scale = (void *)guarded_end(&memory.scale, groups * sizeof *scale);
    int32_t *const zero = (void *)guarded_end(&memory.zero, groups * sizeof *zero);
    const struct pq_run run = {.group = g,
                               .scale.f32 = scale,
                               .zero.i32 = zero,
                               .in = quantizes ? real : byte,
                               .out = quantizes ? byte : real,
                               .compute = PQ_F32};
    const int plain = random_chance(50); /* scales with a reciprocal */
    for (size_t i = 0; i < groups; i++) {
        scale[i] = plain ? 0.25f + (float)random_unit() : draw_scale();
        zero[i] = quantizes ? (int32_t)draw_integer(range.lo, range.hi)
                            : (int32_t)draw_integer(-(1 << 30), 1 << 30);
    }
    fill_random(x, in_bytes);
    for (size_t i = 0; quantizes && i < n; i++) {
        put_bits(x, real, i, draw_real(real, (double)scale[i / g], 40));
    }
    if (quantizes) {
        run_kernel(&pq_kernels_scalar, &run, 1, 0, x, codes, n, g, scale, zero);
        pq_kernels_scalar.narrow[pq_row_of(type)](codes, codes, n);
        pq_kernels_scalar.pack[4](codes, expected, n);
        k->quantize_packed[pq_row_of(real)](&run, x, y, n);
    } else {
        pq_kernels_scalar.unpack[pq_row_of(type)](x, codes, n);
        run_kernel(&pq_kernels_scalar, &run, 0, 0, codes, expected, n, g, scale, zero);
        k->dequantize_packed[pq_row_of(type)][pq_row_of(real)](&run, x, y, n);
    }
    CHECK(memcmp(y, expected, out_bytes) == 0, "n %zu, g %zu", n, g);
    pq_kernel_fn *const add = k->dequantize_affine_packed[pq_row_of(type)][pq_row_of(real)];
    if (!quantizes && add != NULL) {
        check_packed_offsets(add, &run, x, expected, y, n);
    }
    check_canary(k, y);
}

static void check_packed(const struct pq_kernels *k)
{
    for (int c = 0; c < 2 * PQ_REALS; c++) {
        const enum pq_type type = c % 2 ? PQ_I4 : PQ_U4, real = reals[c / 2];
        check_begin("%s packed %s and %s", k->name, type_name(type), type_name(real));
        CASES(i, 60 + check_count(400)) {
            const size_t groups = 1 + random_below(random_chance(80) ? 12 : GROUPS);
            check_packed_run(k, type, real, i % 2 == 0, PQ_PACKED_GROUP * (1 + i / 2 % 4),
                             groups);
        }
        check_end();
    }
}

#undef KERNELS
#define KERNELS(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(int argc, char **argv)
{
    check_start(argc, argv);
    struct guarded *const all[] = {&memory.x, &memory.y, &memory.scale, &memory.zero};
    for (size_t i = 0; i < COUNT(all); i++) {
        *all[i] = guarded_make(MOST * sizeof(double));
    }
    run_drivers(drivers);
    return check_finish();
}
