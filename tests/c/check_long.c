/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check kernels that quantize, in runs so long that instruction sets can have special
 * kernels for them. Each table is compared with the scalar one byte for byte, between
 * inaccessible pages. Numbers are near ties and limits of the codes, or have random bits;
 * all float16 and bfloat16 numbers occur.
 *
 *     CHECK_SAMPLES=1000000000 build/check_long       number of float32 numbers for each
 * type
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "math/fpenv.h"
#include "run.h"
#include "types.h"

enum { LONG = 1 << 16, MANY = 1 << 12, MOST = 2 * LONG + 700, GROUPS = 4, CANARY = 64 };

static int has_control; /* 1 if the machine has a floating-point control state */

static struct {
    struct guarded x, y;
} memory;

/* One pair of parameters for each group. float64 parameters are equal for all groups. */
static struct {
    int dequantizes;
    enum pq_type in, out;
    enum pq_round round;
    int overflow;
    size_t n, g;
    float scale[GROUPS];
    int32_t zero[GROUPS];
    double wide_scale[GROUPS], wide_zero[GROUPS];
    double x[MOST];
    unsigned char y[2 * MOST];
} batch;

static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};
#define TYPE(type, ...) PQ_##type,
static const enum pq_type codes[] = {PQ_FOR_CODE(TYPE) PQ_FOR_FLOAT(TYPE)};
#undef TYPE
enum { REALS = sizeof reals / sizeof reals[0], CODES = sizeof codes / sizeof codes[0] };

/* ---- numbers ---- */

static enum pq_type code_of(void)
{
    return batch.dequantizes ? batch.in : batch.out;
}

static double scale_of(size_t i)
{
    return batch.in == PQ_F64 ? batch.wide_scale[0] : (double)batch.scale[i / batch.g];
}

/* Draw a number near a multiple of half a scale, or near a number of few bits (the ties
 * of narrow floats), or with any bits or value. */
static uint64_t draw_number(enum pq_type type, double scale)
{
    const uint64_t bits = random_bits();
    const int64_t few = (int64_t)(bits >> 32 & 0x7f) - 64;
    const int64_t many = (int64_t)(bits >> 32 & 0xfffff) >> (bits >> 52 & 15);
    double v;
    switch (bits >> 60) {
    case 0:
    case 1:
    case 2:
        return random_bits();
    case 3:
    case 4:
        v = (random_unit() - 0.5) * 1024 * scale;
        break;
    case 5:
    case 6:
    case 7:
    case 8:
    case 9:
        v = (bits & 1 ? 0.5 : -0.5) * (double)many * scale;
        break;
    default:
        v = ldexp((double)few * scale, (int)(bits >> 1 & 0x3f) - 26);
        break;
    }
    const uint64_t off = (bits >> 8 & 3) - (bits >> 10 & 3);
    return off + (type == PQ_F64 ? bits_of_f64(v) : bits_of_f32((float)v));
}

static void draw_input(void)
{
    const int is_half = batch.in == PQ_F16 || batch.in == PQ_BF16;
    for (size_t i = 0; i < batch.n; i++) {
        put_bits(batch.x, batch.in, i,
                 batch.dequantizes ? random_bits()
                 : is_half         ? i
                                   : draw_number(batch.in, scale_of(i)));
    }
}

static int64_t draw_zero(void)
{
    const struct limits code = limits_of(code_of());
    return random_chance(30) ? 0 : draw_integer(code.lo, code.hi);
}

static float tame_scale(void)
{
    return ldexpf(1 + (float)random_unit(), (int)random_between(-76, 76));
}

static void draw_params(int tame)
{
    const int is_float = pq_is_narrow_float(code_of());
    for (size_t i = 0; i < GROUPS; i++) {
        const float z = (float)draw_integer(-40, 40) / 4;
        batch.scale[i] = tame ? tame_scale() : draw_scale();
        batch.zero[i] = !is_float                   ? (int32_t)draw_zero()
                        : tame || random_chance(50) ? INT32_MIN
                                                    : (int32_t)bits_of_f32(z);
    }
    const double s = tame ? (double)tame_scale() : draw_scale_f64();
    const double z = !is_float                   ? (double)draw_zero()
                     : tame || random_chance(50) ? -0.0
                                                 : 0.25;
    for (size_t i = 0; i < GROUPS; i++) {
        batch.wide_scale[i] = s;
        batch.wide_zero[i] = z;
    }
}

/* ---- runs ---- */

static void run(const struct pq_kernels *k, const void *x, void *y)
{
    const int wide = batch.in == PQ_F64;
    const struct pq_run options = {.in = batch.in,
                                   .out = batch.out,
                                   .compute = wide ? PQ_F64 : PQ_F32,
                                   .round = batch.round,
                                   .overflow = batch.overflow};
    run_kernel(k, &options, !batch.dequantizes, wide, x, y, batch.n, batch.g,
               wide ? (void *)batch.wide_scale : batch.scale,
               wide ? (void *)batch.wide_zero : batch.zero);
}

/* Return 1 if the engine runs the batch while subnormals count as zeros. */
static int may_flush(void)
{
    const int is_float = pq_is_narrow_float(code_of());
    int may = PQ_CAN_FLUSH && has_control && !batch.dequantizes && batch.in != PQ_F64 &&
              (is_float || batch.round == PQ_HALF_EVEN);
    for (size_t i = 0; i < GROUPS; i++) {
        may = may && !(fabsf(batch.scale[i]) < (is_float ? 0x1p-107f : 0x1p-124f)) &&
              (!is_float || batch.zero[i] == INT32_MIN);
    }
    return may;
}

static void report(const struct pq_kernels *k, const unsigned char *y)
{
    const size_t size = pq_type_size(batch.out), in = pq_type_size(batch.in);
    size_t i = 0;
    while (memcmp(y + i * size, batch.y + i * size, size) == 0) {
        i++;
    }
    uint64_t bits = 0, got = 0, expected = 0;
    memcpy(&bits, (char *)batch.x + i * in, in);
    memcpy(&got, y + i * size, size);
    memcpy(&expected, batch.y + i * size, size);
    CHECK(0, "%s: n %zu, g %zu, element %zu: x %#llx, scale %a gave %#llx, not %#llx",
          k->name, batch.n, batch.g, i, (unsigned long long)bits, scale_of(i),
          (unsigned long long)got, (unsigned long long)expected);
}

/* Run the batch, `from` and `to` bytes after the first inaccessible page, or up to the
 * last one for AT_END. */
enum { AT_END = -1 };

static void verify(const struct pq_kernels *k, ptrdiff_t from, ptrdiff_t to)
{
    const size_t in_bytes = batch.n * pq_type_size(batch.in);
    const size_t out_bytes = batch.n * pq_type_size(batch.out);
    unsigned char *const x =
        from == AT_END ? guarded_end(&memory.x, in_bytes) : memory.x.base + from;
    unsigned char *const y =
        to == AT_END ? guarded_end(&memory.y, out_bytes) : memory.y.base + to;
    const size_t below = to == AT_END ? CANARY : (size_t)to;
    memcpy(x, batch.x, in_bytes);
    memset(y - below, 0x5a, below + out_bytes);
    const pq_fpenv found = pq_fpenv_set(may_flush() && random_chance(80));
    run(k, x, y);
    pq_fpenv_leave(found);
    if (memcmp(y, batch.y, out_bytes) != 0) {
        report(k, y);
    }
    for (size_t i = 1; i <= below; i++) {
        CHECK(y[-(ptrdiff_t)i] == 0x5a, "%s: n %zu: wrote before its output", k->name,
              batch.n);
    }
}

/* ---- checks of each pair of types ---- */

static void draw_shape(size_t i)
{
    const size_t least = batch.dequantizes ? MANY : LONG;
    if (i % 4 == 0) { /* long groups; the last one can be short */
        batch.g = least + random_below(300);
        batch.n = batch.g + random_below(batch.g + 100);
    } else {
        batch.n = least - (size_t)(i % 4 == 1) + random_below(i % 4 == 1 ? 2 : 200);
        batch.g = batch.n;
    }
}

static void try_runs(const struct pq_kernels *k, size_t count)
{
    for (size_t i = 0; i < check_count(count); i++) {
        batch.overflow = (int)random_below(2);
        batch.round =
            random_chance(80) ? PQ_HALF_EVEN : static_round(random_below(STATIC_ROUNDS));
        draw_shape(i);
        draw_params(i % 8 < 6);
        draw_input();
        run(&pq_kernels_scalar, batch.x, batch.y);
        verify(k, (ptrdiff_t)random_below(64), (ptrdiff_t)random_below(64));
        verify(k, AT_END, AT_END);
    }
}

static void check_pair(const struct pq_kernels *k, enum pq_type real, enum pq_type code)
{
    check_begin("%s long %s to %s", k->name, type_name(real), type_name(code));
    batch.dequantizes = 0;
    batch.in = real;
    batch.out = code;
    try_runs(k, real == PQ_F64 ? 60 : 16);
    check_end();
    if (real != PQ_F64) {
        check_begin("%s long %s to %s", k->name, type_name(code), type_name(real));
        batch.dequantizes = 1;
        batch.in = code;
        batch.out = real;
        try_runs(k, 60);
        check_end();
    }
}

/* ---- as many float32 numbers as are asked for ---- */

static size_t samples(void)
{
    const char *const asked = getenv("CHECK_SAMPLES");
    return asked != NULL ? (size_t)strtoull(asked, NULL, 10) : check_count(1 << 20);
}

static void check_samples(const struct pq_kernels *k)
{
    const size_t count = samples();
    check_begin("%s samples of float32", k->name);
    batch.dequantizes = 0;
    batch.in = PQ_F32;
    batch.n = batch.g = LONG;
    batch.round = PQ_HALF_EVEN;
    for (size_t done = 0; done < count && !check_failed(); done += batch.n) {
        batch.out = PQ_I8;
        draw_params(random_chance(85));
        draw_input();
        for (size_t c = 0; c < CODES; c++) {
            const float s = batch.scale[0];
            batch.out = codes[c];
            batch.overflow = (int)random_below(2);
            draw_params(1);
            batch.scale[0] = s;
            run(&pq_kernels_scalar, batch.x, batch.y);
            verify(k, 16, 16);
        }
    }
    printf("%s: %zu float32 numbers to each of %d types\n", k->name, count, (int)CODES);
    check_end();
}

int main(void)
{
    check_start("check_long");
    has_control = getenv("CHECK_NO_CONTROL") == NULL;
    memory.x = guarded_make(sizeof batch.x);
    memory.y = guarded_make(sizeof batch.y);
    for (int i = 0; pq_isa_name(i) != NULL; i++) {
        const struct pq_kernels *const k = pq_isa_find(pq_isa_name(i));
        if (k == &pq_kernels_scalar) {
            continue;
        }
        for (int r = 0; r < REALS; r++) {
            for (int c = 0; c < CODES; c++) {
                check_pair(k, reals[r], codes[c]);
            }
        }
        check_samples(k);
    }
    guarded_free(&memory.x);
    guarded_free(&memory.y);
    return check_finish();
}
