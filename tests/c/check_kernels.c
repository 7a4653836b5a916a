/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check the kernels for extrema, parameters of extrema, transposes, pixels, magnitudes,
 * sub-byte codes, random words and fake_quantize. Compare the results with the definition
 * or with the scalar kernels. Arrays are between inaccessible pages.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "math/scalar_math.h"
#include "oracle.h"
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

/* Return the address of the last `n` bytes of the output memory. Fill the CANARY bytes
 * before this address with 0x5a, so that check_canary() finds writes before the output. */
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

/* ---- extrema; an extremum of 0 can have any sign ---- */

struct extrema {
    double lo, hi;
    uint32_t bits;
};

/* Store extremum `i`. Extrema are float64 for float64 elements, and float32 for elements of
 * any other type. */
static void put_extremum(void *p, enum pq_type real, size_t i, double v)
{
    const enum pq_type type = real == PQ_F64 ? PQ_F64 : PQ_F32;
    put_bits(p, type, i, bits_near(type, v));
}

static double get_extremum(const void *p, enum pq_type real, size_t i)
{
    return get_real(p, real == PQ_F64 ? PQ_F64 : PQ_F32, i);
}

/* Merge `n` elements at distances of `step` elements into the extrema. */
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

/* A matrix: the distance of the starts of rows (`stride`) in elements, the element size in
 * bytes, and the extrema that a kernel found. */
static struct {
    enum pq_type real;
    size_t rows, n, stride, size;
    const char *x;
    double lo[MOST], hi[MOST]; /* or float32 */
} matrix;

/* Return the extrema of run `i` before a kernel runs. Some extrema are -1.5 or 2.5, so that
 * the result is wrong if a kernel overwrites extrema instead of merging. */
static struct extrema first_extrema(size_t i)
{
    return (struct extrema){i % 3 == 0 ? -1.5 : HUGE_VAL, i % 5 == 0 ? 2.5 : -HUGE_VAL, 0};
}

/* Fill `matrix` with random elements, and set the extrema to first_extrema(). Every third
 * matrix has one row. */
static void draw_matrix(size_t i, enum pq_type real, int has_gaps)
{
    const size_t single = i % 3 == 0;
    const size_t n = single ? i / 3 % (SHORT_N + 1) + 1
                            : 1 + random_below(random_chance(90) ? SHORT_N : 600);
    const size_t rows = single ? 1 : random_below(n < 100 ? 70 : 20) + (n < 32);
    const size_t apart = has_gaps && random_chance(60) ? random_below(4) : 0;
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
    /* an infinity or a NaN, perhaps between two rows */
    if (rows > 0 && random_chance(20)) {
        put_bits(x, real, random_below(bytes / size),
                 encode(real, HUGE_VAL, 1, 0) + random_below(3));
    }
    matrix.real = real;
    matrix.rows = rows;
    matrix.n = n;
    matrix.stride = n + apart;
    matrix.size = size;
    matrix.x = (const char *)x;
    for (size_t e = 0; e <= rows + n; e++) {
        put_extremum(matrix.lo, real, e, first_extrema(e).lo);
        put_extremum(matrix.hi, real, e, first_extrema(e).hi);
    }
}

/* Compare the extrema of `count` runs with the expected extrema. The first element of run i
 * has the index i times `from`. A run has `n` elements at distances of `step` elements. The
 * extrema at index `count` must be unchanged. */
static void verify_extrema(const struct pq_kernels *k, size_t count, size_t from, size_t n,
                           size_t step, int merges, uint32_t bits)
{
    uint32_t due_bits = 0;
    for (size_t i = 0; i <= count; i++) {
        struct extrema due = merges || i == count
                                 ? first_extrema(i)
                                 : (struct extrema){HUGE_VAL, -HUGE_VAL, 0};
        if (i < count) {
            merge(&due, matrix.real, matrix.x + i * from * matrix.size, n, step);
        }
        const double least = get_extremum(matrix.lo, matrix.real, i);
        const double most = get_extremum(matrix.hi, matrix.real, i);
        due_bits |= due.bits;
        CHECK(due.bits >= 0x7f800000 || (least == due.lo && most == due.hi),
              "%s: %zu of %zu runs of %zu elements: %a .. %a, expected %a .. %a", k->name,
              i, count, n, least, most, due.lo, due.hi);
    }
    CHECK((bits < 0x7f800000) == (due_bits < 0x7f800000), "%s: bits %#x", k->name,
          (unsigned)bits);
}

/* Define the check of the kernels `kind` on random matrices. The code `...` runs kernel `r`
 * and compares the extrema. */
#define EXTREMA(kind, has_gaps, ...)                                                       \
    static void check_##kind(const struct pq_kernels *k, pq_##kind##_fn *const kernels[])  \
    {                                                                                      \
        for (int r = 0; r < PQ_EXTREMA; r++) {                                             \
            check_begin(#kind " of %s: %s", type_name(reals[r]), k->name);                 \
            CASES(i, 100 + check_count(1000)) {                                            \
                uint32_t bits = 0;                                                         \
                draw_matrix(i, reals[r], has_gaps);                                        \
                __VA_ARGS__;                                                               \
            }                                                                              \
        }                                                                                  \
    }

EXTREMA(minmax, 0, kernels[r](matrix.x, matrix.rows *matrix.n, matrix.lo, matrix.hi, &bits);
        verify_extrema(k, 1, 0, matrix.rows *matrix.n, 1, 1, bits))
EXTREMA(minmax_groups, 0,
        kernels[r](matrix.x, matrix.rows, matrix.n, matrix.lo, matrix.hi, &bits);
        verify_extrema(k, matrix.rows, matrix.n, matrix.n, 1, 0, bits))
EXTREMA(minmax_columns, 1,
        kernels[r](matrix.x, (ptrdiff_t)(matrix.stride * matrix.size), matrix.rows,
                   matrix.n, matrix.lo, matrix.hi, &bits);
        verify_extrema(k, matrix.n, 1, matrix.rows, matrix.stride, 1, bits))

/* ---- parameters of extrema ---- */

/* Return a random end of a range of numbers. If `tame` is 1, the magnitude is within the
 * limits of the vector kernels. */
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

static void check_choose(const struct pq_kernels *k, const char *name, pq_choose_fn *judge,
                         pq_choose_fn *kernel)
{
    static const enum pq_type types[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16, PQ_U4, PQ_U2};
    check_begin("%s %s", k->name, name);
    CASES(i, check_count(2000)) {
        verify_choose(judge, kernel, k->name, types[i % COUNT(types)]);
    }
}

DRIVER(check_choose_middle, pq_choose_fn *,
       check_choose(k, "choose_middle", pq_kernels_scalar.choose_middle, kernel))
DRIVER(check_choose_asymmetric, pq_choose_fn *,
       check_choose(k, "choose_asymmetric", pq_kernels_scalar.choose_asymmetric, kernel))

/* ---- transposes ---- */

/* Check the transpose of a matrix. The input has gaps of `apart` bytes between its lines,
 * and the output has no gaps. Input and output end at an inaccessible page. */
static void verify_transpose(const struct pq_kernels *k, pq_transpose_fn *kernel, int which,
                             size_t rows, size_t columns, size_t apart)
{
    const size_t size = (size_t)1 << which, line = rows * size + apart;
    const size_t in_bytes = columns * line - apart, out_bytes = rows * columns * size;
    unsigned char *x = guarded_end(&memory.x, in_bytes);
    unsigned char *y = place_output(&memory.y, out_bytes);
    fill_random(x, in_bytes);
    kernel((char *)x, (ptrdiff_t)line, (char *)y, (ptrdiff_t)(columns * size), rows,
           columns);
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

static void check_transpose(const struct pq_kernels *k, pq_transpose_fn *const kernels[])
{
    check_begin("%s transpose", k->name);
    CASES(i, 4 * 33 * check_count(8)) {
        const size_t rows = 1 + i / 4 % 33, columns = 1 + random_below(40);
        verify_transpose(k, kernels[i % 4], (int)(i % 4), rows, columns,
                         i / 132 % 2 * random_below(70));
    }
}

/* ---- pixels ---- */

/* An image of `n` pixels, and a row for each channel. The distance of the starts of pixels
 * is `stride` elements, and of rows `row` elements. An element has `size` bytes. */
static struct {
    size_t stride, n, channels, row, size;
} image;

static void draw_image(void)
{
    image.stride = 1 + random_below(8);
    image.n = random_below(100);
    image.channels = 1 + random_below(image.stride);
    image.row = image.n + random_below(9);
    image.size = (size_t)1 << random_below(3);
}

/* Compare the first `copied` pixels with the rows. Check that a kernel for pixels of 2 to 4
 * elements copies all pixels except at most `rest`. */
static void verify_pixels(const unsigned char *pixels, const unsigned char *rows,
                          size_t copied, size_t channels, size_t rest)
{
    const size_t n = image.n, stride = image.stride, size = image.size;
    for (size_t i = 0; i < copied * channels; i++) {
        const size_t pixel = i / channels, c = i % channels;
        CHECK(memcmp(rows + (c * image.row + pixel) * size,
                     pixels + (pixel * stride + c) * size, size) == 0,
              "%zu of %zu pixels: channel %zu of %zu, %zu bytes", pixel, n, c, stride,
              size);
    }
    CHECK(copied <= n && (stride < 2 || stride > 4 || copied + rest >= n),
          "%zu of %zu pixels of %zu elements", copied, n, stride);
}

static void check_pixels(const struct pq_kernels *k, pq_pixels_fn *kernel, int joins)
{
    check_begin("%s %s_pixels", k->name, joins ? "join" : "split");
    CASES(i, kernel != NULL ? check_count(4000) : 0) {
        draw_image();
        const size_t n = image.n, size = image.size;
        const size_t stride = image.stride * size, row = image.row * size;
        const size_t channels = joins ? image.stride : image.channels;
        const size_t in = joins ? channels * row : n * stride;
        const size_t out = joins ? n * stride : channels * row;
        unsigned char *const x = guarded_end(&memory.x, in);
        unsigned char *const y = place_output(&memory.y, out);
        fill_random(x, in);
        const size_t copied =
            kernel((char *)x, (ptrdiff_t)(joins ? row : stride), (char *)y,
                   (ptrdiff_t)(joins ? stride : row), channels, n, size);
        verify_pixels(joins ? y : x, joins ? x : y, copied, channels, joins ? 15 : 16);
        check_canary(k, y);
    }
}

DRIVER(check_split_pixels, pq_pixels_fn *, check_pixels(k, kernel, 0))
DRIVER(check_join_pixels, pq_pixels_fn *, check_pixels(k, kernel, 1))

/* ---- magnitudes ---- */

static void check_magnitude(const struct pq_kernels *k, pq_magnitude_fn *kernel)
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
        const uint32_t got = kernel(x, n);
        CHECK(got == most, "%zu elements: %#x, expected %#x", n, (unsigned)got,
              (unsigned)most);
    }
}

/* ---- random words ---- */

static void check_random_words(const struct pq_kernels *k, pq_random_words_fn *kernel)
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
        kernel(to, seed, first, step, n);
        for (size_t j = 0; j < n; j++) {
            CHECK(to[j] == random_word(seed, first + j * step),
                  "n %zu, first %#llx, step %#llx: word %zu is %#x", n,
                  (unsigned long long)first, (unsigned long long)step, j, to[j]);
        }
    }
}

/* ---- conversions of narrow codes ---- */

static int low_bits(unsigned char c, int bits, int has_sign)
{
    const int v = c & ((1 << bits) - 1);
    return has_sign && v >= 1 << (bits - 1) ? v - (1 << bits) : v;
}

typedef int definition_fn(const unsigned char *x, size_t i, enum pq_type type);

/* Compare kernels that convert narrow codes to bytes, or bytes to codes, with a definition.
 * If `in_place` is 1, input and output are one array. */
static void check_bytes(const struct pq_kernels *k, const char *name,
                        pq_bytes_fn *const kernels[], int packed, int in_place,
                        definition_fn *due)
{
#define NARROW_TYPE(type, ...) PQ_##type,
    static const enum pq_type types[] = {PQ_FOR_NARROW(NARROW_TYPE)};
#undef NARROW_TYPE
    static unsigned char kept[SHORT_N];
    check_begin("%s: %s", k->name, name);
    for (size_t i = 0; i < (SHORT_N + 1) * PQ_NARROWS; i++) {
        const enum pq_type type = types[i % PQ_NARROWS];
        const size_t n = i / PQ_NARROWS;
        const size_t bytes = packed ? (n * (size_t)pq_type_bits(type) + 7) / 8 : n;
        unsigned char *const y = guarded_end(&memory.y, n);
        unsigned char *const x = in_place ? y : guarded_end(&memory.x, bytes);
        fill_random(x, bytes);
        memcpy(kept, x, bytes);
        kernels[i % PQ_NARROWS](x, y, n);
        for (size_t e = 0; e < n; e++) {
            CHECK(y[e] == (unsigned char)due(kept, e, type), "%s, byte %zu of %zu",
                  type_name(type), e, n);
        }
        CHECK(in_place || memcmp(x, kept, bytes) == 0, "wrote to its input");
    }
}

static int extended(const unsigned char *x, size_t i, enum pq_type type)
{
    return low_bits(x[i], pq_type_bits(type), limits_of(type).lo < 0);
}

static int unpacked(const unsigned char *x, size_t i, enum pq_type type)
{
    const size_t bit = i * (size_t)pq_type_bits(type);
    const unsigned char code = (unsigned char)(x[bit / 8] >> bit % 8);
    return extended(&code, 0, type);
}

static int narrowed(const unsigned char *x, size_t i, enum pq_type type)
{
    const struct limits range = limits_of(type);
    const int64_t v = range.lo < 0 ? (signed char)x[i] : x[i];
    const int64_t code = v < range.lo ? range.lo : v > range.hi ? range.hi : v;
    return (int)(code & ((1 << pq_type_bits(type)) - 1));
}

DRIVER(check_extend, pq_bytes_fn *const *, check_bytes(k, "extend", kernel, 0, 0, extended))
DRIVER(check_unpack, pq_bytes_fn *const *, check_bytes(k, "unpack", kernel, 1, 0, unpacked))
DRIVER(check_narrow, pq_bytes_fn *const *, check_bytes(k, "narrow", kernel, 0, 1, narrowed))

/* Check the kernel that extracts one code from each 32-bit word, at any bit position. */
static void check_unpack_words(const struct pq_kernels *k, pq_unpack_words_fn *kernel)
{
    check_begin("%s unpack_words", k->name);
    CASES(i, check_count(400)) {
        const size_t n = i % 100;
        const int bits = 1 + (int)random_below(8), shift = (int)random_below(32);
        unsigned char *const x = guarded_end(&memory.x, n * sizeof(uint32_t));
        unsigned char *const y = place_output(&memory.y, n);
        fill_random(x, n * sizeof(uint32_t));
        const int left = 32 - shift < bits ? 32 - shift : bits, mask = (1 << left) - 1;
        kernel(x, shift, mask, y, n);
        for (size_t j = 0; j < n; j++) {
            uint32_t word;
            memcpy(&word, x + j * sizeof word, sizeof word);
            CHECK(y[j] == (word >> shift & (uint32_t)mask), "n %zu, shift %d", n, shift);
        }
        check_canary(k, y);
    }
}

/* Compare the first `count` bits of the packed codes `y` with the low bits of the `n` codes
 * `x`. Bits after the last code must be 0. */
static void verify_bits(const unsigned char *x, const unsigned char *y, int bits, size_t n,
                        size_t count)
{
    for (size_t b = 0; b < count; b++) {
        const size_t i = b / (size_t)bits;
        const int bit = i < n ? x[i] >> b % (size_t)bits & 1 : 0;
        CHECK((y[b / 8] >> b % 8 & 1) == bit, "%zu codes: bit %zu", n, b);
    }
}

static void check_bits(const struct pq_kernels *k, const char *name,
                       pq_bytes_fn *const kernels[], int packs)
{
    for (int bits = 1; bits < 8; bits++) {
        check_begin("%s: %s, %d bits", k->name, name, bits);
        for (size_t i = 0; kernels[bits] != NULL && i < 3 * SHORT_N + 4; i++) {
            const size_t n = i < 3 * SHORT_N ? i : random_below(MOST);
            const size_t bytes = (n * (size_t)bits + 7) / 8;
            unsigned char *const codes = guarded_end(&memory.x, n);
            unsigned char *const packed = guarded_end(&memory.y, bytes);
            fill_random(packs ? codes : packed, packs ? n : bytes);
            if (packs) {
                kernels[bits](codes, packed, n);
            } else {
                kernels[bits](packed, codes, n);
            }
            for (size_t c = 0; c < n && !packs; c++) {
                CHECK(codes[c] < 1 << bits, "%zu codes: code %zu is %d", n, c, codes[c]);
            }
            verify_bits(codes, packed, bits, n, packs ? 8 * bytes : n * (size_t)bits);
        }
    }
}

DRIVER(check_pack, pq_bytes_fn *const *, check_bits(k, "pack", kernel, 1))
DRIVER(check_unpack_bits, pq_bytes_fn *const *, check_bits(k, "unpack_bits", kernel, 0))

/* Check the kernel that packs int32 codes to 24 bits with saturation, or the kernel that
 * unpacks 24-bit codes. */
static void check_24_bits(const struct pq_kernels *k, pq_bytes_fn *kernel, int packs)
{
    check_begin("%s %s_24", k->name, packs ? "pack" : "unpack");
    CASES(i, check_count(400)) {
        const size_t n = i < 3 * SHORT_N ? i : random_below(MOST), in = packs ? 4 : 3;
        unsigned char *const x = guarded_end(&memory.x, n * in);
        unsigned char *const y = guarded_end(&memory.y, n * (7 - in));
        const unsigned char *const low = packs ? y : x, *const wide = packs ? x : y;
        fill_random(x, n * in);
        /* random int32 numbers seldom fit in 24 bits, so divide half of them by 256 */
        for (size_t c = 0; c < n && packs; c++) {
            const int64_t code = get_integer(x, PQ_I32, c);
            put_bits(x, PQ_I32, c, (uint64_t)(random_chance(50) ? code / 256 : code));
        }
        kernel(x, y, n);
        for (size_t c = 0; c < n; c++) {
            const int64_t code = get_integer(wide, PQ_I32, c), most = (1 << 23) - 1;
            const int64_t due = code > most ? most : code < -most - 1 ? -most - 1 : code;
            const int got = low[3 * c] | low[3 * c + 1] << 8 | low[3 * c + 2] << 16;
            CHECK((got ^ 1 << 23) - (1 << 23) == (packs ? due : code),
                  "%zu codes: code %zu", n, c);
        }
    }
}

DRIVER(check_unpack_24, pq_bytes_fn *, check_24_bits(k, kernel, 0))
DRIVER(check_pack_24, pq_bytes_fn *, check_24_bits(k, kernel, 1))

/* Compare the kernel between float32 and packed 24-bit codes with the scalar kernels for
 * int32 codes. The kernel requires at least 32 elements. */
static void check_24(const struct pq_kernels *k, pq_kernel_fn *kernel, bool quantizes)
{
    check_begin("%s %s_24", k->name, quantizes ? "quantize" : "dequantize");
    const struct pq_kernels *const scalar = &pq_kernels_scalar;
    const float scales[] = {0x1p-23f, 0.3f, -2.5f, 0, NAN, INFINITY, 0x1p-140f, 0x1p120f};
    CASES(i, kernel != NULL ? check_count(400) : 0) {
        static int32_t codes[MOST];
        const float scale = scales[random_below(8)];
        const size_t n = 32 + (i < SHORT_N ? i : random_below(MOST / 2));
        const struct pq_run run = {.group = n, .scale.f32 = &scale, .zero.i32 = codes};
        unsigned char *const packed = guarded_end(quantizes ? &memory.y : &memory.x, n * 3);
        float *const real = (void *)guarded_end(quantizes ? &memory.x : &memory.y, n * 4);
        fill_random(packed, n * 3);
        fill_random((unsigned char *)real, n * sizeof *real);
        if (!quantizes) {
            static float expected[MOST];
            kernel(&run, packed, real, n);
            scalar->unpack_24(packed, codes, n);
            scalar->dequantize[PQ_I32_ROW][PQ_F32_ROW](&run, codes, expected, n);
            CHECK(memcmp(real, expected, n * sizeof *real) == 0, "%zu codes by %g", n,
                  (double)scale);
            continue;
        }
        static unsigned char expected[3 * MOST];
        for (size_t c = 0; c < n; c++) {
            real[c] = random_chance(30) ? real[c] : (float)random_between(-99, 99) / 8;
        }
        kernel(&run, real, packed, n);
        scalar->quantize[PQ_F32_ROW][PQ_I32_ROW](&run, real, codes, n);
        scalar->pack_24(codes, expected, n);
        CHECK(memcmp(packed, expected, n * 3) == 0, "%zu codes by %g", n, (double)scale);
    }
}

DRIVER(check_dequantize_24, pq_kernel_fn *, check_24(k, kernel, false))
DRIVER(check_quantize_24, pq_kernel_fn *, check_24(k, kernel, true))

static void check_dequantize_row(const struct pq_kernels *k, pq_row_scales_fn *kernel)
{
    check_begin("%s dequantize_row", k->name);
    CASES(i, check_count(400)) {
        const size_t n = PQ_MIN_ROW + (i < SHORT_N ? i : random_below(MOST / 2));
        int32_t *const x = (void *)guarded_end(&memory.x, n * sizeof *x);
        float *const y = (void *)guarded_end(&memory.y, n * sizeof *y);
        static float scales[MOST], offsets[MOST];
        const float by = random_chance(5) ? INFINITY : (float)random_between(-99, 99) / 8;
        const bool adds = random_chance(50);
        fill_random((unsigned char *)x, n * sizeof *x);
        for (size_t c = 0; c < n; c++) {
            scales[c] = random_chance(1) ? NAN : (float)random_between(-99, 99) / 7;
            offsets[c] = random_chance(1) ? -INFINITY : (float)random_between(-99, 99);
        }
        kernel(x, y, by, scales, adds ? offsets : NULL, n);
        for (size_t c = 0; c < n; c++) {
            const float scale = by * scales[c], product = (float)x[c] * scale;
            const float sum = adds ? product + offsets[c] : product;
            CHECK(pq_bits_f32(y[c]) == pq_bits_f32(pq_canonical_f32(sum)),
                  "%zu codes: %d by %g", n, x[c], (double)scale);
        }
    }
}

/* ---- kernels for packed 4-bit codes ---- */

enum { GROUPS = 130, PACKED_N = GROUPS * 4 * PQ_PACKED_GROUP };

/* A kernel call with packed 4-bit codes: the input `x`, the output `y`, and `expected`. */
static struct {
    struct pq_run run;
    size_t n, out_bytes;
    unsigned char *x, *y, expected[PACKED_N * sizeof(float)];
} packed;

/* Fill `packed` with random numbers or codes. Compute the expected results by the scalar
 * kernels, which read or write a byte for each code. */
static void draw_packed(size_t i, enum pq_type type, enum pq_type real, int quantizes)
{
    static unsigned char codes[PACKED_N];
    const struct limits range = limits_of(type);
    const enum pq_type byte = pq_carrier_of(type);
    const size_t groups = 1 + random_below(random_chance(80) ? 12 : GROUPS);
    const size_t g = PQ_PACKED_GROUP * (1 + i % 4), n = g * groups;
    const size_t in_bytes = quantizes ? n * pq_type_size(real) : n / 2;
    float *const scale = (void *)guarded_end(&memory.scale, groups * sizeof *scale);
    int32_t *const zero = (void *)guarded_end(&memory.zero, groups * sizeof *zero);
    const int plain = random_chance(50); /* scales with a reciprocal */
    packed.n = n;
    packed.out_bytes = quantizes ? n / 2 : n * pq_type_size(real);
    packed.x = guarded_end(&memory.x, in_bytes);
    packed.y = place_output(&memory.y, packed.out_bytes + random_below(CANARY));
    packed.run = (struct pq_run){.group = g,
                                 .scale.f32 = scale,
                                 .zero.i32 = zero,
                                 .in = quantizes ? real : byte,
                                 .out = quantizes ? byte : real,
                                 .compute = PQ_F32};
    for (size_t k = 0; k < groups; k++) {
        scale[k] = plain ? 0.25f + (float)random_unit() : draw_scale();
        zero[k] = quantizes ? (int32_t)draw_integer(range.lo, range.hi)
                            : (int32_t)draw_integer(-(1 << 30), 1 << 30);
    }
    fill_random(packed.x, in_bytes);
    for (size_t e = 0; quantizes && e < n; e++) {
        put_bits(packed.x, real, e, draw_real(real, (double)scale[e / g], 40));
    }
    const int r = pq_row_of(real), c = pq_row_of(byte);
    if (quantizes) {
        pq_kernels_scalar.quantize[r][c](&packed.run, packed.x, codes, n);
        pq_kernels_scalar.narrow[pq_row_of(type)](codes, codes, n);
        pq_kernels_scalar.pack[4](codes, packed.expected, n);
    } else {
        pq_kernels_scalar.unpack[pq_row_of(type)](packed.x, codes, n);
        pq_kernels_scalar.dequantize[c][r](&packed.run, codes, packed.expected, n);
    }
}

/* Check a kernel that quantizes to packed codes, or dequantizes packed codes. If `adds` is
 * 1, the kernel adds offsets to the float32 products. */
static void check_packed(const struct pq_kernels *k, pq_kernel_fn *kernel,
                         enum pq_type type, enum pq_type real, int quantizes, int adds)
{
    static float offset[GROUPS];
    check_begin("%s: %s%s%s to %s", k->name, quantizes ? "quantize " : "", type_name(type),
                adds ? " plus offsets" : "", type_name(real));
    CASES(i, kernel != NULL ? 30 + check_count(200) : 0) {
        draw_packed(i, type, real, quantizes);
        for (size_t g = 0; g < GROUPS && adds; g++) {
            offset[g] = random_chance(5) ? INFINITY : (float)random_unit();
        }
        for (size_t e = 0; e < packed.n && adds; e++) {
            const double product = get_real(packed.expected, PQ_F32, e);
            const float sum = (float)product + offset[e / packed.run.group];
            put_bits(packed.expected, PQ_F32, e, encode(PQ_F32, (double)sum, 1, 0));
        }
        packed.run.offset.f32 = adds ? offset : NULL;
        kernel(&packed.run, packed.x, packed.y, packed.n);
        CHECK(memcmp(packed.y, packed.expected, packed.out_bytes) == 0, "n %zu, g %zu",
              packed.n, packed.run.group);
        check_canary(k, packed.y);
    }
}

static void check_quantize_packed(const struct pq_kernels *k, pq_kernel_fn *const kernels[])
{
    for (int r = 0; r < 2 * PQ_REALS; r++) {
        check_packed(k, kernels[r / 2], r % 2 ? PQ_I4 : PQ_U4, reals[r / 2], 1, 0);
    }
}

static void check_dequantize_packed(const struct pq_kernels *k,
                                    pq_kernel_fn *const kernels[][PQ_REALS])
{
    for (int r = 0; r < PQ_REALS; r++) {
        check_packed(k, kernels[PQ_I4_ROW][r], PQ_I4, reals[r], 0, 0);
        check_packed(k, kernels[PQ_U4_ROW][r], PQ_U4, reals[r], 0, 0);
    }
}

/* Check the kernels that add offsets, which exist only for float32 results. */
static void check_dequantize_affine_packed(const struct pq_kernels *k,
                                           pq_kernel_fn *const kernels[][PQ_REALS])
{
    check_packed(k, kernels[PQ_I4_ROW][PQ_F32_ROW], PQ_I4, PQ_F32, 0, 1);
    check_packed(k, kernels[PQ_U4_ROW][PQ_F32_ROW], PQ_U4, PQ_F32, 0, 1);
}

/* ---- fake_quantize ---- */

/* Compare results with the definition. The mask must be 1 if a code did not saturate. */
static void verify_fake(const struct pq_run *run, const char *x, const char *y, size_t n)
{
    const struct pq_fake_quantize *const to = run->fake_quantize;
    const struct pq_run quantize = {.in = PQ_F32, .out = PQ_I32, .compute = PQ_F32},
                        dequantize = {.in = PQ_I32, .out = PQ_F32, .compute = PQ_F32};
    for (size_t i = 0; i < n; i++) {
        const double v = get_real(x, PQ_F32, i),
                     scale = (double)run->scale.f32[i / run->group];
        const struct zero_point zero = {run->zero.i32[i / run->group], 0};
        const uint64_t bits = quantized(&quantize, v, scale, zero, 0);
        const int32_t code = (int32_t)bits;
        const int32_t kept = code < to->lowest    ? to->lowest
                             : code > to->highest ? to->highest
                                                  : code;
        CHECK(get_bits(y, PQ_F32, i) == dequantized(&dequantize, &kept, scale, zero),
              "%a by %a, zero point %d: %a", v, scale, (int)zero.integer,
              get_real(y, PQ_F32, i));
        CHECK(to->mask == NULL || to->mask[i] == (code == kept), "%a by %a: mask %d", v,
              scale, to->mask[i]);
    }
}

static void check_fake_quantize(const struct pq_kernels *k, pq_kernel_fn *kernel)
{
    enum { LONGEST = 600 };
    static const enum pq_type types[] = {PQ_I8, PQ_U8, PQ_I16, PQ_U16};
    static float scale[LONGEST];
    static int32_t zero[LONGEST];
    static char mask[LONGEST];
    check_begin("%s fake_quantize", k->name);
    CASES(i, check_count(4000)) {
        const enum pq_type type = types[i % COUNT(types)];
        const struct limits range = limits_of(type);
        const size_t n = random_below(random_chance(80) ? SHORT_N : LONGEST);
        const size_t g = random_chance(30) ? 1 : 1 + random_below(n + 1);
        char *const x = (char *)guarded_end(&memory.x, n * sizeof(float));
        char *const y = (char *)place_output(&memory.y, n * sizeof(float));
        const int32_t lowest = (int32_t)draw_integer(range.lo, range.hi);
        const struct pq_fake_quantize to = {(int)pq_type_size(type), lowest,
                                            (int32_t)draw_integer(lowest, range.hi),
                                            random_chance(50) ? mask : NULL, y};
        const struct pq_run run = {
            .group = g, .scale.f32 = scale, .zero.i32 = zero, .fake_quantize = &to};
        for (size_t e = 0; e < n; e++) {
            if (e % g == 0) {
                scale[e / g] =
                    random_chance(50) ? 0.25f + (float)random_unit() : draw_scale();
                zero[e / g] = (int32_t)draw_integer(to.lowest, to.highest);
            }
            put_bits(x, PQ_F32, e, draw_real(PQ_F32, (double)scale[e / g], 7e4));
        }
        kernel(&run, x, y, n);
        verify_fake(&run, x, y, n);
        check_canary(k, (unsigned char *)y);
    }
}

static void check_alone(void)
{
    guarded_make_all(&memory, sizeof memory, MOST * sizeof(double));
}

#undef KERNELS
#define KERNELS TEST
#include "program.h"
