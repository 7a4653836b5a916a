/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Check narrow types: the scalar kernels against the definition of the formats (a search
 * among their numbers), every other table against the scalar one, byte for byte, between
 * inaccessible pages; packed arrays through the public functions.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "math/fpenv.h"
#include "run.h"
#include "types.h"

enum { MOST = 5000, SHORT_N = 3 * 32 + 3, CANARY = 64 };

/* ---- formats by their definition ---- */

struct float_format {
    enum pq_type type;
    int exponent_bits, mantissa_bits, bias;
    int last;     /* code of the largest finite magnitude */
    int infinite; /* 1: the code after it is infinity, not NaN */
    int fnuz;
};

static const struct float_format formats[] = {
    {PQ_F8E4M3FN, 4, 3, 7, 0x7e, 0, 0}, {PQ_F8E4M3FNUZ, 4, 3, 8, 0x7f, 0, 1},
    {PQ_F8E5M2, 5, 2, 15, 0x7b, 1, 0},  {PQ_F8E5M2FNUZ, 5, 2, 16, 0x7f, 0, 1},
    {PQ_F6E2M3FN, 2, 3, 1, 0x1f, 0, 0}, {PQ_F6E3M2FN, 3, 2, 3, 0x1f, 0, 0},
    {PQ_F4E2M1FN, 2, 1, 1, 0x07, 0, 0}, {PQ_F8E3M4, 3, 4, 3, 0x6f, 1, 0},
    {PQ_F8E4M3, 4, 3, 7, 0x77, 1, 0},   {PQ_F8E4M3B11FNUZ, 4, 3, 11, 0x7f, 0, 1},
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static const struct float_format *definition_of(enum pq_type type)
{
    int f = 0;
    while (formats[f].type != type) {
        f++;
    }
    return &formats[f];
}

static int sign_bit(const struct float_format *f)
{
    return 1 << (f->exponent_bits + f->mantissa_bits);
}

static int
has_more(const struct float_format *f) /* 1 if there are codes beyond the largest number */
{
    return f->fnuz || f->last + 1 < sign_bit(f);
}

/* Return the value of a magnitude code, also of the code after the last. */
static double value_of(const struct float_format *f, int magnitude)
{
    const int exponent = magnitude >> f->mantissa_bits;
    const int fraction = magnitude & ((1 << f->mantissa_bits) - 1);
    const int whole = exponent > 0 ? 1 << f->mantissa_bits : 0;
    return ldexp(whole + fraction,
                 (exponent > 0 ? exponent : 1) - f->bias - f->mantissa_bits);
}

static int nan_code(const struct float_format *f, int negative)
{
    switch (f->type) {
    case PQ_F8E3M4:
        return negative ? 0xf8 : 0x78;
    case PQ_F8E4M3:
        return negative ? 0xfc : 0x7c;
    case PQ_F8E4M3FN:
        return negative ? 0xff : 0x7f;
    case PQ_F8E5M2:
        return negative ? 0xfe : 0x7e;
    case PQ_F4E2M1FN:
        return 7;
    case PQ_F6E2M3FN:
    case PQ_F6E3M2FN:
        return 0x20;
    default:
        return 0x80;
    }
}

/* Return the nearest magnitude, ties to the even code, by trying all codes, and the code
 * after the last if the format continues. */
static int nearest(const struct float_format *f, double v)
{
    int best = 0;
    const int top = has_more(f) ? f->last + 1 : f->last;
    for (int m = 1; m <= top; m++) {
        const double middle = (value_of(f, m - 1) + value_of(f, m)) / 2;
        if (v > middle || (v == middle && m % 2 == 0)) {
            best = m;
        }
    }
    return best;
}

static int encoded(const struct float_format *f, double v, int negative, int saturate)
{
    int m = nearest(f, v);
    if (m > f->last) {
        m = saturate ? f->last : f->infinite ? f->last + 1 : nan_code(f, 0);
    }
    if (f->fnuz) {
        return m == 0 || m == 0x80 ? m : m | (negative ? sign_bit(f) : 0);
    }
    return m | (negative ? sign_bit(f) : 0);
}

/* ---- scalar against the definition ---- */

static void check_encode(const struct float_format *f, int saturate)
{
    static float x[MOST];
    static unsigned char y[MOST];
    static const float scales[] = {1, -1};
    const int32_t none = INT32_MIN;
    size_t n = 0;
    check_begin("encode %s%s by its definition", type_name(f->type),
                saturate ? ", saturating" : "");
    for (int m = 0; m <= f->last + 1; m++) {
        const double v = value_of(f, m), middle = (v + value_of(f, m + 1)) / 2;
        for (int step = -2; step <= 2; step++) {
            x[n++] = f32_of_bits(bits_of_f32((float)v) +
                                 (v > 0 || step > 0 ? (uint32_t)step : 0));
            x[n++] = f32_of_bits(bits_of_f32((float)middle) + (uint32_t)step);
        }
    }
    x[n++] = INFINITY;
    while (n < MOST / 2) {
        x[n++] = f32_of_bits((uint32_t)random_bits() & 0x7fffffff);
    }
    for (size_t i = n; n < MOST; i++) { /* then the negative of all numbers */
        x[n++] = f32_of_bits(bits_of_f32(x[i - MOST / 2]) | 0x80000000u);
    }
    for (int flip = 0; flip < 2; flip++) {
        const struct pq_run options = {
            .in = PQ_F32, .out = f->type, .compute = PQ_F32, .overflow = !saturate};
        run_kernel(&pq_kernels_scalar, &options, 1, 0, x, y, n, n, &scales[flip], &none);
        for (size_t i = 0; i < n && !check_tired(); i++) {
            const int negative = (int)(bits_of_f32(x[i]) >> 31) ^ flip;
            const int expected = isnan(x[i])
                                     ? nan_code(f, negative)
                                     : encoded(f, fabs((double)x[i]), negative, saturate);
            CHECK(y[i] == expected, "%a / %g: %#x, not %#x", (double)x[i],
                  (double)scales[flip], y[i], (unsigned)expected);
        }
    }
    check_end();
}

static void check_decode(const struct float_format *f)
{
    unsigned char x[256];
    float y[256];
    const float scale = -3;
    const int32_t none = INT32_MIN;
    check_begin("decode %s by its definition", type_name(f->type));
    for (int i = 0; i < 256; i++) {
        x[i] = (unsigned char)i;
    }
    const struct pq_run options = {.in = f->type, .out = PQ_F32, .compute = PQ_F32};
    run_kernel(&pq_kernels_scalar, &options, 0, 0, x, y, 256, 256, &scale, &none);
    for (int i = 0; i < 256; i++) {
        const int m = i & (sign_bit(f) - 1), negative = (i & sign_bit(f)) != 0;
        const int nan = f->fnuz ? i == 0x80 : m > f->last + f->infinite;
        const double magnitude =
            f->infinite && m == f->last + 1 ? INFINITY : value_of(f, m);
        const float expected = (float)(-3 * (negative ? -magnitude : magnitude));
        CHECK(bits_of_f32(y[i]) == (nan ? 0x7fc00000u : bits_of_f32(expected)),
              "%#x: %a, not %a", (unsigned)i, (double)y[i], (double)expected);
    }
    check_end();
}

/* ---- every table against scalar ---- */

enum kind { ENCODE_GRP, ENCODE_VEC, DECODE_GRP, DECODE_VEC, SHIFTED, ROUNDED };

struct op {
    enum kind kind;
    enum pq_type in, out;
    int saturate;
};

static void run(const struct pq_kernels *k, const struct op *op, const void *x, void *y,
                size_t n, size_t g, const float *scale, const int32_t *zero)
{
    const int decodes = op->kind == DECODE_GRP || op->kind == DECODE_VEC;
    const int grp = op->kind == ENCODE_GRP || op->kind == DECODE_GRP;
    const struct pq_run options = {.in = op->in,
                                   .out = op->out,
                                   .compute = op->kind == ROUNDED ? op->in : PQ_F32,
                                   .zero_first = op->kind == SHIFTED,
                                   .overflow = !op->saturate};
    run_kernel(k, &options, !decodes, 0, x, y, n, grp ? g : 1, scale, zero);
}

static struct {
    struct guarded x, y, scale, zero;
} memory;

static int has_control; /* 1 if the machine has a floating-point control state */

/* Run the kernel while subnormals count as zeros. The engine does so to quantize, unless
 * it adds zero points to narrow floats. */
static void run_flushing(const struct pq_kernels *k, const struct op *op, const void *x,
                         void *y, size_t n, size_t g, const float *scale,
                         const int32_t *zero)
{
    const pq_fpenv found = pq_fpenv_set(1);
    run(k, op, x, y, n, g, scale, zero);
    pq_fpenv_leave(found);
}

/* Fill in numbers near a multiple of `scale` by a number of the format, or between two. */
static uint64_t draw_hard(enum pq_type real, enum pq_type code, float scale)
{
    const struct float_format *f = definition_of(code);
    const int m = (int)random_below((size_t)f->last + 1);
    const double v = value_of(f, m), next = value_of(f, m + 1);
    const double x = (double)scale * (random_chance(75) ? (v + next) / 2 : v);
    const uint32_t bits = bits_of_f32((float)x) + (uint32_t)random_between(-2, 2);
    return real == PQ_F32 ? bits : real == PQ_BF16 ? bits >> 16 : random_bits();
}

/* Compare at the end of memory, with canaries before the output. */
static void try_once(const struct pq_kernels *k, const struct op *op, size_t n, size_t g)
{
    static unsigned char expected[MOST * sizeof(float)];
    const size_t params = n > 0 ? (n - 1) / g + 1 : 0;
    const size_t out_bytes = n * pq_type_size(op->out);
    unsigned char *x = guarded_end(&memory.x, n * pq_type_size(op->in));
    unsigned char *y = guarded_end(&memory.y, out_bytes);
    float *scale = (void *)guarded_end(&memory.scale, params * sizeof *scale);
    int32_t *zero = (void *)guarded_end(&memory.zero, params * sizeof *zero);
    uint16_t half;
    const int decodes = op->kind == DECODE_GRP || op->kind == DECODE_VEC;
    const int encodes = op->kind <= ENCODE_VEC;
    int flushes_subnormals = PQ_CAN_FLUSH && has_control && !decodes && random_chance(50);
    for (size_t i = 0; i < params; i++) {
        const float z = (float)draw_integer(-40, 40) / 4;
        scale[i] = random_chance(50)
                       ? ldexpf(1 + (float)random_unit(), (int)random_between(-110, 20))
                       : draw_scale();
        zero[i] = random_chance(60) || (flushes_subnormals && encodes)
                      ? INT32_MIN
                      : (int32_t)bits_of_f32(z);
        if (op->kind == ROUNDED) {
            zero[i] = (int32_t)(op->out == PQ_U8 || op->out == PQ_U16 ? random_below(200)
                                                                      : random_below(100));
            put_bits(&half, op->in, 0, random_bits());
            scale[i] = (float)get_real(&half, op->in, 0);
        }
    }
    for (size_t i = 0; i < n; i++) {
        const double s = (double)scale[i / g];
        uint64_t bits = decodes ? random_bits() : draw_real(op->in, s, 600);
        if (op->kind <= ENCODE_VEC && random_chance(70)) {
            bits = draw_hard(op->in, op->out, scale[i / g]);
        }
        put_bits(x, op->in, i, bits);
    }
    for (size_t i = 0; i < params; i++) { /* as in the engine */
        flushes_subnormals =
            flushes_subnormals && !(fabsf(scale[i]) < (encodes ? 0x1p-107f : 0x1p-124f));
    }
    memset(y - CANARY, 0x5a, CANARY + out_bytes);
    run(&pq_kernels_scalar, op, x, expected, n, g, scale, zero);
    (flushes_subnormals ? run_flushing : run)(k, op, x, y, n, g, scale, zero);
    for (size_t i = 0; i < out_bytes && !check_tired(); i++) {
        CHECK(y[i] == expected[i], "%s: n %zu, g %zu, byte %zu: %#x, not %#x", k->name, n,
              g, i, y[i], expected[i]);
    }
    for (size_t i = 1; i <= CANARY; i++) {
        CHECK(y[-(ptrdiff_t)i] == 0x5a, "%s: n %zu: wrote before its output", k->name, n);
    }
}

static void check_op(const struct pq_kernels *k, struct op op)
{
    const int grp = op.kind == ENCODE_GRP || op.kind == DECODE_GRP;
    static const char *const kinds[] = {"encode_grp",       "encode_vec",
                                        "decode_grp",       "decode_vec",
                                        "quantize_shifted", "quantize_rounded"};
    check_begin("%s %s %s %s%s", k->name, kinds[op.kind], type_name(op.in),
                type_name(op.out), op.saturate ? ", saturating" : "");
    for (size_t n = 0; n <= SHORT_N; n++) {
        try_once(k, &op, n, grp && n > 0 ? n : 1);
    }
    for (size_t i = 0; i < check_count(40); i++) {
        const size_t n = random_below(MOST);
        try_once(k, &op, n, grp ? 1 + random_below(200) : 1);
    }
    for (size_t i = 0; grp && i < check_count(40); i++) { /* groups of complete chunks */
        const size_t g = 32 * (1 + i % 3);
        try_once(k, &op, g * (1 + random_below(20)), g);
    }
    for (size_t i = 0; grp && i < check_count(40);
         i++) { /* long enough for aligned chunks */
        const size_t g = 480 + random_below(600);
        try_once(k, &op, g * (1 + random_below(4)), g);
    }
    check_end();
}

/* Dequantize every code to float64, with one scale and zero point. */
static void check_decode_same(const struct pq_kernels *k, const struct float_format *f)
{
    enum { CODES = 256 };
    static unsigned char x[CODES];
    static double scale[CODES], zero[CODES], y[CODES], expected[CODES];
    check_begin("%s decode_same %s float64", k->name, type_name(f->type));
    for (size_t i = 0; i < CODES; i++) {
        x[i] = (unsigned char)i;
    }
    for (size_t draw = 0; draw < check_count(60); draw++) {
        const double s = draw_scale_f64();
        const double z = random_chance(40) ? (double)draw_integer(-40, 40) / 4 : 0;
        for (size_t i = 0; i < CODES; i++) {
            scale[i] = s;
            zero[i] = z;
        }
        struct pq_run same = {.group = CODES, .in = f->type, .out = PQ_F64};
        same.compute = PQ_F64;
        same.scale.f64 = scale;
        same.zero.f64 = zero;
        pq_kernels_scalar.dequantize_general(&same, x, expected, CODES);
        k->dequantize_general(&same, x, y, CODES);
        CHECK(memcmp(y, expected, sizeof y) == 0, "%s: scale %a, zero %a", k->name, s, z);
    }
    check_end();
}

static void check_ops(const struct pq_kernels *k)
{
    static const enum pq_type reals[] = {PQ_F32, PQ_F16, PQ_BF16};
    for (int f = 0; f < FORMATS; f++) {
        for (int r = 0; r < 3; r++) {
            for (int saturate = 0; saturate < 2; saturate++) {
                check_op(k, (struct op){ENCODE_GRP, reals[r], formats[f].type, saturate});
                check_op(k, (struct op){ENCODE_VEC, reals[r], formats[f].type, saturate});
            }
            check_op(k, (struct op){DECODE_GRP, formats[f].type, reals[r], 0});
            check_op(k, (struct op){DECODE_VEC, formats[f].type, reals[r], 0});
        }
        check_decode_same(k, &formats[f]);
    }
    check_op(k, (struct op){SHIFTED, PQ_F32, PQ_I8, 0});
    check_op(k, (struct op){SHIFTED, PQ_F32, PQ_U8, 0});
    for (int code = PQ_I8; code <= PQ_U16; code++) {
        check_op(k, (struct op){ROUNDED, PQ_F16, (enum pq_type)code, 0});
        check_op(k, (struct op){ROUNDED, PQ_BF16, (enum pq_type)code, 0});
    }
}

/* ---- bytes and bits, by their definition ---- */

static int low_bits(unsigned char c, int bits, int has_sign)
{
    const int v = c & ((1 << bits) - 1);
    return has_sign && v >= 1 << (bits - 1) ? v - (1 << bits) : v;
}

static void check_bytes_of(const struct pq_kernels *k, enum pq_type type)
{
    static unsigned char x[SHORT_N], packed[SHORT_N], kept[SHORT_N];
    const int bits = pq_type_bits(type), has_sign = type == PQ_I4 || type == PQ_I2;
    const struct limits range = {has_sign ? -(1 << (bits - 1)) : 0,
                                 (1 << (has_sign ? bits - 1 : bits)) - 1};
    const size_t per_byte = (size_t)(8 / bits);
    check_begin("%s: bytes of %s", k->name, type_name(type));
    for (size_t n = 0; n <= SHORT_N; n++) {
        const size_t bytes = (n + per_byte - 1) / per_byte;
        unsigned char *const y = guarded_end(&memory.y, n);
        unsigned char *const z = guarded_end(&memory.x, bytes);
        for (size_t i = 0; i < n; i++) {
            x[i] = (unsigned char)random_bits();
        }
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
        memset(packed, 0, sizeof packed);
        for (size_t i = 0; i < n; i++) {
            packed[i / per_byte] =
                (unsigned char)(packed[i / per_byte] | low_bits(x[i], bits, 0)
                                                           << ((int)(i % per_byte) * bits));
        }
        k->pack[bits == 4 ? 0 : 1](x, z, n);
        CHECK(memcmp(z, packed, bytes) == 0, "pack %zu", n);
        memcpy(kept, z, bytes);
        k->unpack[pq_row_of(type)](z, y, n);
        for (size_t i = 0; i < n; i++) {
            CHECK(y[i] == (unsigned char)low_bits(x[i], bits, has_sign), "unpack %zu", n);
        }
        CHECK(memcmp(z, kept, bytes) == 0, "wrote to its input");
    }
    check_end();
}

/* Extract codes from any position of 32-bit words. */
static void check_unpack_words(const struct pq_kernels *k)
{
    check_begin("%s take_words", k->name);
    for (size_t i = 0; i < check_count(400); i++) {
        const size_t n = i % 100;
        const int bits = 1 + (int)random_below(8), shift = (int)random_below(32);
        unsigned char *const x = guarded_end(&memory.x, n * sizeof(uint32_t));
        unsigned char *const y = guarded_end(&memory.y, n);
        for (size_t j = 0; j < n * sizeof(uint32_t); j++) {
            x[j] = (unsigned char)random_bits();
        }
        memset(y - CANARY, 0x5a, CANARY);
        const int left = 32 - shift < bits ? 32 - shift : bits, mask = (1 << left) - 1;
        k->unpack_words(x, shift, mask, y, n);
        for (size_t j = 0; j < n; j++) {
            uint32_t word;
            memcpy(&word, x + j * sizeof word, sizeof word);
            CHECK(y[j] == (word >> shift & (uint32_t)mask), "n %zu, shift %d", n, shift);
        }
        for (size_t j = 1; j <= CANARY; j++) {
            CHECK(y[-(ptrdiff_t)j] == 0x5a, "wrote before its output");
        }
    }
    check_end();
}

/* Dequantize packed codes and compare with the scalar kernels after unpacking. Results
 * begin at any address. */
static void check_dequantize_packed(const struct pq_kernels *k, enum pq_type type,
                                    enum pq_type real)
{
    static unsigned char codes[MOST], expected[MOST * sizeof(float)];
    const enum pq_type whole = type == PQ_I4 ? PQ_I8 : PQ_U8;
    check_begin("%s dequantize_packed %s %s", k->name, type_name(type), type_name(real));
    for (size_t i = 0; i < check_count(200); i++) {
        const size_t g = PQ_PACKED_GROUP * (1 + i % 4), groups = 1 + random_below(12);
        const size_t n = g * groups, bytes = n * pq_type_size(real);
        const size_t after = random_below(CANARY);
        unsigned char *const x = guarded_end(&memory.x, n / 2);
        unsigned char *const y = guarded_end(&memory.y, bytes + after);
        float *const scale = (void *)guarded_end(&memory.scale, groups * sizeof *scale);
        int32_t *const zero = (void *)guarded_end(&memory.zero, groups * sizeof *zero);
        for (size_t j = 0; j < n / 2; j++) {
            x[j] = (unsigned char)random_bits();
        }
        for (size_t j = 0; j < groups; j++) {
            scale[j] = i % 2 ? draw_scale() : (float)random_unit();
            zero[j] = (int32_t)draw_integer(-(1 << 30), 1 << 30);
        }
        memset(y - CANARY, 0x5a, CANARY);
        memset(y + bytes, 0x5a, after);
        pq_kernels_scalar.unpack[pq_row_of(type)](x, codes, n);
        const struct pq_run run = {
            .group = g, .scale.f32 = scale, .zero.i32 = zero, .in = whole, .out = real};
        run_kernel(&pq_kernels_scalar, &run, 0, 0, codes, expected, n, g, scale, zero);
        k->dequantize_packed[pq_row_of(type)][pq_row_of(real)](&run, x, y, n);
        CHECK(memcmp(y, expected, bytes) == 0, "n %zu, g %zu", n, g);
        pq_kernel_fn *const add =
            k->dequantize_affine_packed[pq_row_of(type)][pq_row_of(real)];
        if (add != NULL) {
            float offset[12];
            for (size_t j = 0; j < groups; j++) {
                offset[j] = random_chance(5) ? INFINITY : (float)random_unit();
            }
            struct pq_run sum = run;
            sum.offset.f32 = offset;
            add(&sum, x, y, n);
            for (size_t j = 0; j < n; j++) {
                const float due = (float)get_real(expected, real, j) + offset[j / g];
                CHECK(bits_of_f32((float)get_real(y, real, j)) ==
                          (due == due ? bits_of_f32(due) : 0x7fc00000),
                      "element %zu of %zu plus an offset", j, n);
            }
        }
        for (size_t j = 1; j <= CANARY; j++) {
            CHECK(y[-(ptrdiff_t)j] == 0x5a, "wrote before its output");
        }
    }
    check_end();
}

/* Quantize to packed codes and compare with the scalar kernels for bytes, narrowed and
 * packed. Scales are of all kinds, or ordinary scales without divisions. */
static void check_quantize_packed(const struct pq_kernels *k, enum pq_type type,
                                  enum pq_type real)
{
    static unsigned char codes[MOST], expected[MOST];
    const enum pq_type whole = type == PQ_I4 ? PQ_I8 : PQ_U8;
    check_begin("%s quantize_packed %s %s", k->name, type_name(real), type_name(type));
    for (size_t i = 0; i < check_count(200); i++) {
        const size_t g = PQ_PACKED_GROUP * (1 + i % 4),
                     groups = 1 + random_below(i % 4 ? 12 : 130);
        const size_t n = g * groups, size = pq_type_size(real);
        unsigned char *const x = guarded_end(&memory.x, n * size);
        unsigned char *const y = guarded_end(&memory.y, n / 2);
        float *const scale = (void *)guarded_end(&memory.scale, groups * sizeof *scale);
        int32_t *const zero = (void *)guarded_end(&memory.zero, groups * sizeof *zero);
        for (size_t j = 0; j < groups; j++) {
            scale[j] = i % 3 ? 0.25f + (float)random_unit() : draw_scale();
            zero[j] = (int32_t)draw_integer(type == PQ_I4 ? -8 : 0, type == PQ_I4 ? 7 : 15);
        }
        for (size_t j = 0; j < n; j++) {
            const uint64_t bits = draw_real(real, (double)scale[j / g], 40);
            memcpy(x + j * size, &bits, size);
        }
        memset(y - CANARY, 0x5a, CANARY);
        const struct pq_run run = {.group = g,
                                   .scale.f32 = scale,
                                   .zero.i32 = zero,
                                   .in = real,
                                   .out = whole,
                                   .compute = PQ_F32};
        run_kernel(&pq_kernels_scalar, &run, 1, 0, x, codes, n, g, scale, zero);
        pq_kernels_scalar.narrow[pq_row_of(type)](codes, codes, n);
        pq_kernels_scalar.pack[0](codes, expected, n);
        k->quantize_packed[pq_row_of(real)](&run, x, y, n);
        CHECK(memcmp(y, expected, n / 2) == 0, "n %zu, g %zu", n, g);
        for (size_t j = 1; j <= CANARY; j++) {
            CHECK(y[-(ptrdiff_t)j] == 0x5a, "wrote before its output");
        }
    }
    check_end();
}

/* ---- packed arrays, against arrays of bytes that are packed afterwards ---- */

/* Check that no part preserves bits of a byte that another part writes. */
static void check_parts(const struct pq_kernels *k, const struct pq_args *given,
                        size_t bytes, int parts)
{
    static unsigned char zeros[MOST], ones[MOST];
    struct pq_args args = *given;
    for (int part = 0; part < parts; part++) {
        memset(zeros, 0, sizeof zeros);
        memset(ones, 0xff, sizeof ones);
        args.out.data = zeros;
        CHECK(pq_quantize(k, &args, part, parts) == PQ_OK, "part %d", part);
        args.out.data = ones;
        CHECK(pq_quantize(k, &args, part, parts) == PQ_OK, "part %d", part);
        for (size_t i = 0; i < bytes; i++) {
            const int untouched = zeros[i] == 0 && ones[i] == 0xff;
            CHECK(untouched || zeros[i] == ones[i], "byte %zu is shared", i);
        }
    }
}

/* Check elements in descending order with a lowest element that does not begin a byte.
 * One part writes each byte, and bits below do not change. */
static void check_reversed_parts(const struct pq_kernels *k, enum pq_type type)
{
    enum { N = 301, PARTS = 4 };
    static float x[N];
    static unsigned char bytes[2][N + 1], codes[N];
    const float scale = 1;
    const ptrdiff_t bits = pq_type_bits(type), same[] = {0}, floats[] = {4}, ones[] = {1};
    const ptrdiff_t downwards[] = {-bits};
    check_begin("%s: parts of reversed %s", k->name, type_name(type));
    for (ptrdiff_t n = N - 8; n <= N; n++) {
        const ptrdiff_t last = (n - 1) * bits, top = (last + 7) / 8;
        int writers[N + 1] = {0};
        struct pq_args args = {
            .size = sizeof args,
            .ndim = 1,
            .shape = &n,
            .in = {x, floats, PQ_F32, 0, NULL},
            .out = {codes, ones, type, 0, NULL},
            .scale = {(void *)(uintptr_t)&scale, same, PQ_F32, 0, NULL},
        };
        for (ptrdiff_t i = 0; i < n; i++) {
            x[i] = (float)draw_integer(-3, 3);
        }
        CHECK(pq_quantize(k, &args, 0, 1) == PQ_OK, "in bytes");
        for (int part = 0; part < PARTS; part++) {
            memset(bytes[0], 0, sizeof bytes[0]);
            memset(bytes[1], 0xff, sizeof bytes[1]);
            for (int i = 0; i < 2; i++) {
                args.out = (struct pq_array){bytes[i] + top, NULL, type, 0, downwards};
                CHECK(pq_quantize(k, &args, part, PARTS) == PQ_OK, "part %d", part);
            }
            for (int i = 0; i <= N; i++) {
                writers[i] += bytes[0][i] != 0 || bytes[1][i] != 0xff;
                CHECK(writers[i] <= 1, "%td: byte %d has two writers", n, i);
            }
        }
        memset(bytes[0], 0xff, sizeof bytes[0]);
        args.out.data = bytes[0] + top;
        for (int part = 0; part < PARTS; part++) {
            CHECK(pq_quantize(k, &args, part, PARTS) == PQ_OK, "part %d", part);
        }
        for (ptrdiff_t i = 0; i < n; i++) {
            for (ptrdiff_t b = 0; b < bits; b++) {
                const ptrdiff_t at = 8 * top - i * bits + b;
                CHECK((bytes[0][at / 8] >> at % 8 & 1) == (codes[i] >> b & 1), "%td", i);
            }
        }
        for (ptrdiff_t at = 0; at < 8 * top - last; at++) {
            CHECK(bytes[0][at / 8] >> at % 8 & 1, "what lies below was written");
        }
    }
    check_end();
}

static void check_packed(const struct pq_kernels *k, enum pq_type type)
{
    static const ptrdiff_t shapes[][3] = {{1, 1, 1},  {1, 1, 37},  {3, 5, 7},
                                          {2, 33, 1}, {5, 1, 129}, {1, 3, 1031},
                                          {7, 2, 64}, {1, 1, 2047}};
    static const ptrdiff_t blocks[][3] = {{100, 100, 2000}, {1, 100, 2000}, {100, 1, 2000},
                                          {100, 100, 1},    {1, 1, 32},     {2, 2, 3},
                                          {100, 100, 33}};
    static float x[MOST], y[MOST], back[MOST], scale[MOST];
    static unsigned char codes[MOST], packed[MOST], expected[MOST];
    const int bits = pq_type_bits(type);
    check_begin("%s: packed %s", k->name, type_name(type));
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++) {
        for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
            const ptrdiff_t *const n = shapes[s], *const block = blocks[b];
            const ptrdiff_t m1 = (n[1] - 1) / block[1] + 1, m2 = (n[2] - 1) / block[2] + 1;
            const size_t count = (size_t)(n[0] * n[1] * n[2]);
            const size_t bytes = (count * (size_t)bits + 7) / 8;
            const ptrdiff_t floats[] = {4 * n[1] * n[2], 4 * n[2], 4};
            const ptrdiff_t across[] = {4, 4 * n[0], 4 * n[0] * n[1]};
            const ptrdiff_t single[] = {n[1] * n[2], n[2], 1};
            const ptrdiff_t scales[] = {4 * m1 * m2, 4 * m2, 4};
            const ptrdiff_t at_bits[] = {bits * n[1] * n[2], bits * n[2], bits};
            for (size_t i = 0; i < count; i++) {
                x[i] = (float)draw_integer(-40, 40) / 4;
                scale[i] = (float)draw_integer(1, 8) / 4;
            }
            struct pq_args args = {
                .size = sizeof args,
                .ndim = 3,
                .shape = n,
                .block = block,
                .in = {x, floats, PQ_F32, 0, NULL},
                .out = {codes, single, type, 0, NULL},
                .scale = {scale, scales, PQ_F32, 0, NULL},
                .zero = {NULL, NULL, PQ_I8, 0, NULL},
                .round = PQ_HALF_EVEN,
                .precision = PQ_F32,
            };
            CHECK(pq_quantize(k, &args, 0, 1) == PQ_OK, "quantize");
            memset(expected, 0, sizeof expected);
            for (size_t i = 0; i < count; i++) {
                const size_t at = i * (size_t)bits;
                expected[at / 8] |= (unsigned char)(codes[i] << at % 8);
                expected[at / 8 + 1] |= (unsigned char)(codes[i] << at % 8 >> 8);
            }
            args.out = (struct pq_array){packed, NULL, type, 0, at_bits};
            for (int parts = 1; parts <= 5; parts += 2) { /* parts in any order */
                memset(packed, 0xff, sizeof packed);
                for (int part = parts - 1; part >= 0; part--) {
                    CHECK(pq_quantize(k, &args, part, parts) == PQ_OK, "packed");
                }
                CHECK(memcmp(packed, expected, bytes) == 0,
                      "shape %zu, block %zu, %d parts", s, b, parts);
                CHECK(packed[bytes] == 0xff, "wrote after the last byte");
                check_parts(k, &args, bytes, parts);
            }
            struct pq_args reverse = args;
            reverse.in = (struct pq_array){codes, single, type, 0, NULL};
            reverse.out = (struct pq_array){y, across, PQ_F32, 0, NULL};
            CHECK(pq_dequantize(k, &reverse, 0, 1) == PQ_OK, "dequantize");
            reverse.in = args.out;
            reverse.out.data = back;
            CHECK(pq_dequantize(k, &reverse, 0, 1) == PQ_OK, "packed to transposed");
            CHECK(memcmp(y, back, count * sizeof *y) == 0, "shape %zu, block %zu", s, b);
            reverse.out.strides = floats;
            CHECK(pq_dequantize(k, &reverse, 0, 1) == PQ_OK, "packed");
            reverse.in = (struct pq_array){codes, single, type, 0, NULL};
            reverse.out.data = y;
            CHECK(pq_dequantize(k, &reverse, 0, 1) == PQ_OK, "unpacked");
            CHECK(memcmp(y, back, count * sizeof *y) == 0, "shape %zu, block %zu", s, b);
            reverse.in = args.out;
            reverse.out = (struct pq_array){codes, single, type, 0, NULL};
            memset(codes, 0xff, count);
            CHECK(pq_repack(k, &reverse, 0, 1) == PQ_OK, "unpack");
            reverse.in = reverse.out;
            reverse.out = args.out;
            memset(packed, 0xff, sizeof packed);
            CHECK(pq_repack(k, &reverse, 0, 1) == PQ_OK, "pack");
            CHECK(memcmp(packed, expected, bytes) == 0, "repacked %zu", s);
        }
    }
    check_end();
}

static void check_packed_kernels(const struct pq_kernels *k)
{
    for (int real = PQ_F32; real <= PQ_BF16; real++) {
        check_dequantize_packed(k, PQ_I4, (enum pq_type)real);
        check_dequantize_packed(k, PQ_U4, (enum pq_type)real);
        check_quantize_packed(k, PQ_I4, (enum pq_type)real);
        check_quantize_packed(k, PQ_U4, (enum pq_type)real);
    }
}

static void check_bytes(const struct pq_kernels *k)
{
#define NARROW_TYPE(type, ...) check_bytes_of(k, PQ_##type);
    PQ_FOR_NARROW(NARROW_TYPE)
#undef NARROW_TYPE
}

#undef NARROW
#define NARROW(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(void)
{
    check_start("check_narrow");
    has_control = getenv("CHECK_NO_CONTROL") == NULL;
    memory.x = guarded_make(MOST * sizeof(float));
    memory.y = guarded_make(MOST * sizeof(float));
    memory.scale = guarded_make(MOST * sizeof(float));
    memory.zero = guarded_make(MOST * sizeof(float));
    for (int f = 0; f < FORMATS; f++) {
        check_encode(&formats[f], 0);
        check_encode(&formats[f], 1);
        check_decode(&formats[f]);
    }
    run_drivers(drivers);
    for (int i = 0; pq_isa_name(i) != NULL; i++) {
        const struct pq_kernels *k = pq_isa_find(pq_isa_name(i));
        check_ops(k);
        for (int t = PQ_NO_TYPE + 1; t < PQ_TYPE_COUNT; t++) {
            const enum pq_type type = (enum pq_type)t;
            if (pq_type_bits(type) < 8) {
                check_packed(k, type);
                check_reversed_parts(k, type);
            }
        }
    }
    guarded_free(&memory.x);
    guarded_free(&memory.y);
    guarded_free(&memory.scale);
    guarded_free(&memory.zero);
    return check_finish();
}
