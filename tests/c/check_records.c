/* SPDX-License-Identifier: Apache-2.0 */
/* Check GGUF blocks: every instruction set against the scalar one, bit for bit, between
 * inaccessible pages; calls with any strides, types and parts; invalid calls. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "math/scalar_math.h"

enum { MOST = 9 }; /* most blocks of a run */

static const struct pq_kernels *scalar;

/* Fill in random bytes, or bytes with finite scales. */
static void draw_bytes(uint8_t *p, size_t n)
{
    const uint8_t kept = random_chance(50) ? 0xbb : 0xff;
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)random_below(256) & kept;
    }
}

/* ---- kernels ---- */

static void check_kernel(const struct pq_kernels *kernels, int place)
{
    const struct pq_block_format *const format = pq_block_format(place);
    const size_t bytes = (size_t)format->bytes, elements = (size_t)format->elements;
    struct guarded in = guarded_make(MOST * bytes);
    struct guarded out = guarded_make(MOST * elements * sizeof(float));
    static float theirs[MOST * 256];
    check_begin("%s of %s", format->name, kernels->name);
    for (int round = 0; round < 60; round++) {
        const size_t n = random_below(MOST + 1);
        uint8_t *const x = guarded_end(&in, n * bytes);
        unsigned char *const y = guarded_end(&out, n * elements * sizeof(float));
        draw_bytes(x, n * bytes);
        kernels->records->decode[place](x, y, n);
        scalar->records->decode[place](x, theirs, n);
        CHECK(memcmp(y, theirs, n * elements * sizeof(float)) == 0, "%zu blocks", n);
    }
    check_end();
    guarded_free(&in);
    guarded_free(&out);
}

static void check_narrowing(const struct pq_kernels *kernels)
{
    const struct pq_gguf_kernels *const ours = kernels->records;
    enum { N = 96 };
    _Alignas(64) float x[N];
    _Alignas(64) uint16_t half[N], brain[N], long_brain[N];
    _Alignas(64) double wide[N];
    check_begin("narrowing of %s", kernels->name);
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < N;
             i++) { /* numbers near the limits of float16, and any numbers */
            const uint32_t bits =
                (uint32_t)random_below(1u << 16) << 16 | (uint32_t)random_below(1u << 16);
            const uint32_t near = (bits & 0x87ffffff) | 0x38000000;
            const float v = pq_f32_bits(random_chance(50) ? bits : near);
            x[i] = v == v ? v : pq_f32_bits(0x7fc00000);
        }
        ours->to_f16(x, half, N);
        ours->to_bf16(x, brain, N);
        ours->to_f64(x, wide, N);
        memcpy(long_brain, brain, sizeof brain);
        if (kernels->long_to_bf16 != NULL) {
            memset(long_brain, 0x5a, sizeof long_brain);
            kernels->long_to_bf16(x, long_brain, N);
        }
        for (int i = 0; i < N; i++) {
            CHECK(half[i] == pq_f16_from_f32(x[i]), "float16 of %a", (double)x[i]);
            CHECK(brain[i] == pq_bf16_from_f32(x[i]), "bfloat16 of %a", (double)x[i]);
            CHECK(long_brain[i] == brain[i], "bfloat16 of %a, long", (double)x[i]);
            CHECK(wide[i] == (double)x[i] || x[i] != x[i], "float64 of %a", (double)x[i]);
        }
    }
    check_end();
}

/* ---- calls ---- */

/* Convert the expected number to the bits of an element of any type. */
static uint64_t expected_bits(enum pq_type type, float v)
{
    return type == PQ_F16    ? pq_f16_from_f32(v)
           : type == PQ_BF16 ? pq_bf16_from_f32(v)
           : type == PQ_F64  ? pq_bits_f64((double)v)
                             : pq_bits_f32(v);
}

static uint64_t bits_at(const char *p, size_t size)
{
    uint8_t b[8] = {0};
    uint64_t bits = 0;
    memcpy(b, p, size);
    if (PQ_LITTLE_ENDIAN) {
        memcpy(&bits, b, sizeof bits);
        return bits;
    }
    for (size_t i = 0; i < size; i++) {
        bits = bits << 8 | b[i];
    }
    return bits;
}

/* Decode rows of blocks at any strides to any type, in parts of any order. */
static void check_call(const struct pq_kernels *kernels)
{
    static const enum pq_type types[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};
    static uint8_t bytes[1 << 19], row[40 * 292];
    static char out[1 << 20];
    static float numbers[40 * 256];
    const int place = (int)random_below(PQ_GGUF_FORMATS);
    const struct pq_block_format *const format = pq_block_format(place);
    const enum pq_type type = types[random_below(4)];
    const ptrdiff_t size = (ptrdiff_t)pq_type_size(type);
    const ptrdiff_t blocks = (ptrdiff_t)random_below(13);
    const ptrdiff_t rows = 1 + (ptrdiff_t)random_below(4);
    const ptrdiff_t planes = 1 + (ptrdiff_t)random_below(2);
    const ptrdiff_t step = random_chance(70) ? 1 : 2;
    const ptrdiff_t apart = random_chance(60) ? size : -2 * size;
    const ptrdiff_t gap = random_chance(50) ? 0 : 1 + (ptrdiff_t)random_below(9);
    const ptrdiff_t in_row = blocks * format->bytes * step + gap;
    const ptrdiff_t columns = blocks * format->elements;
    const ptrdiff_t out_row = columns * (apart < 0 ? -apart : apart) + gap * size;
    const ptrdiff_t shape[3] = {planes, rows, columns};
    const ptrdiff_t in_strides[3] = {rows * in_row, in_row, step};
    const ptrdiff_t out_strides[3] = {rows * out_row, out_row, apart};
    char *const first = out + (apart < 0 && columns > 0 ? -apart * (columns - 1) : 0);
    const int parts = 1 + (int)random_below(5);
    draw_bytes(bytes, (size_t)(planes * rows * in_row));
    const struct pq_blocks args = {
        .size = sizeof args,
        .format = format->id,
        .ndim = 3,
        .shape = shape,
        .in = {.data = bytes, .strides = in_strides, .type = PQ_U8},
        .out = {.data = first, .strides = out_strides, .type = type},
    };
    for (int part = parts - 1; part >= 0; part--) {
        const enum pq_status status = pq_block_decode(kernels, &args, part, parts);
        CHECK(status == PQ_OK, "%s: %s", format->name, pq_status_text(status));
    }
    for (ptrdiff_t r = 0; r < planes * rows; r++) {
        for (ptrdiff_t i = 0; i < blocks * format->bytes; i++) {
            row[i] = bytes[r * in_row + i * step];
        }
        scalar->records->decode[place](row, numbers, (size_t)blocks);
        for (ptrdiff_t i = 0; i < columns; i++) {
            const uint64_t got = bits_at(first + r * out_row + i * apart, (size_t)size);
            if (got != expected_bits(type, numbers[i])) {
                CHECK(0, "%s, type %d: row %td, element %td", format->name, (int)type, r,
                      i);
                return;
            }
        }
    }
}

/* Round to a type, and return the float32 value that is encoded. */
static float put_number(char *to, enum pq_type type, float v)
{
    const uint16_t half = pq_f16_from_f32(v), brain = pq_bf16_from_f32(v);
    const double wide = (double)v * (1 + 0x1p-30); /* rounds to v */
    if (type == PQ_F16) {
        memcpy(to, &half, sizeof half);
        return pq_f32_from_f16(half);
    }
    if (type == PQ_BF16) {
        memcpy(to, &brain, sizeof brain);
        return pq_f32_from_bf16(brain);
    }
    if (type == PQ_F64) {
        memcpy(to, &wide, sizeof wide);
    } else {
        memcpy(to, &v, sizeof v);
    }
    return v;
}

/* Encode rows of numbers of any type and strides to blocks at any strides, in parts of
 * any order. */
static void check_encoding(const struct pq_kernels *kernels)
{
    static const enum pq_type types[] = {PQ_F32, PQ_F16, PQ_BF16, PQ_F64};
    static char in[1 << 20];
    static uint8_t out[1 << 18], wanted[8 * 12 * 292];
    static float numbers[8 * 12 * 256];
    int place = 0;
    do {
        place = (int)random_below(PQ_GGUF_FORMATS);
    } while (scalar->records->encode[place] == NULL);
    const struct pq_block_format *const format = pq_block_format(place);
    const enum pq_type type = types[random_below(4)];
    const ptrdiff_t size = (ptrdiff_t)pq_type_size(type);
    const ptrdiff_t blocks = (ptrdiff_t)random_below(13), rows = 4;
    const ptrdiff_t columns = blocks * format->elements, bytes = blocks * format->bytes;
    const ptrdiff_t step = random_chance(70) ? 1 : 2;
    const bool beside = random_chance(30); /* rows are adjacent, numbers of a row are not */
    const ptrdiff_t apart = beside ? rows * size : random_chance(60) ? size : 2 * size;
    const ptrdiff_t gap = random_chance(50) ? 0 : 1 + (ptrdiff_t)random_below(9);
    const ptrdiff_t in_row = beside ? size : columns * apart + gap;
    const ptrdiff_t out_row = bytes * step + gap;
    const ptrdiff_t shape[2] = {rows, columns};
    const ptrdiff_t in_strides[2] = {in_row, apart}, out_strides[2] = {out_row, step};
    const int parts = 1 + (int)random_below(5);
    const struct pq_blocks args = {
        .size = sizeof args,
        .format = format->id,
        .ndim = 2,
        .shape = shape,
        .in = {.data = in, .strides = in_strides, .type = type},
        .out = {.data = out, .strides = out_strides, .type = PQ_U8},
    };
    for (ptrdiff_t i = 0; i < rows * columns; i++) {
        const float v = ((float)random_below(1u << 12) - 2048) / 64;
        char *const to = in + i / columns * in_row + i % columns * apart;
        numbers[i] = put_number(to, type, v);
    }
    memset(out, 0xa5, sizeof out);
    scalar->records->encode[place](numbers, wanted, (size_t)(rows * blocks));
    for (int part = parts - 1; part >= 0; part--) {
        const enum pq_status status = pq_block_encode(kernels, &args, part, parts);
        CHECK(status == PQ_OK, "%s: %s", format->name, pq_status_text(status));
    }
    for (ptrdiff_t r = 0, i = 0; r < rows; r++) {
        for (ptrdiff_t at = 0; at < out_row; at++) {
            const bool made = at < bytes * step && at % step == 0;
            const uint8_t expected = made ? wanted[i++] : 0xa5;
            if (out[r * out_row + at] != expected) {
                CHECK(0, "%s of type %d: row %td, byte %td", format->name, (int)type, r,
                      at);
                return;
            }
        }
    }
}

static void check_calls(const struct pq_kernels *kernels)
{
    check_begin("calls of %s", kernels->name);
    for (int i = 0; i < 400; i++) {
        check_call(kernels);
        check_encoding(kernels);
    }
    check_end();
}

static void check_refusals(void)
{
    float y[64];
    uint8_t x[36] = {0};
    const ptrdiff_t shape[2] = {2, 32}, odd[2] = {2, 31}, large[2] = {PTRDIFF_MAX / 8, 32};
    const ptrdiff_t in_strides[2] = {18, 1}, out_strides[2] = {128, 4}, none[2] = {0, 4};
    const struct pq_blocks good = {
        .size = sizeof good,
        .format = 2,
        .ndim = 2,
        .shape = shape,
        .in = {.data = x, .strides = in_strides, .type = PQ_U8},
        .out = {.data = y, .strides = out_strides, .type = PQ_F32},
    };
    const struct pq_blocks back = {
        .size = sizeof back,
        .format = 2,
        .ndim = 2,
        .shape = shape,
        .in = good.out,
        .out = good.in,
    };
    memset(y, 0, sizeof y);
    check_begin("errors");
#define DECODE(due, ...)                                                                   \
    do {                                                                                   \
        struct pq_blocks args = good;                                                      \
        __VA_ARGS__;                                                                       \
        CHECK(pq_block_decode(scalar, &args, 0, 1) == (due), "decode: %s", #__VA_ARGS__);  \
    } while (0)
#define ENCODE(due, ...)                                                                   \
    do {                                                                                   \
        struct pq_blocks args = back;                                                      \
        __VA_ARGS__;                                                                       \
        CHECK(pq_block_encode(scalar, &args, 0, 1) == (due), "encode: %s", #__VA_ARGS__);  \
    } while (0)
    DECODE(PQ_OK, (void)0);
    DECODE(PQ_ERR_OPTION, args.format = 4);
    DECODE(PQ_ERR_SIZE, args.size = 8);
    DECODE(PQ_ERR_SHAPE, args.ndim = 0);
    DECODE(PQ_ERR_NDIM, args.ndim = -1);
    DECODE(PQ_ERR_SHAPE, args.shape = odd);
    DECODE(PQ_ERR_SHAPE, args.shape = large);
    DECODE(PQ_ERR_NULL, args.shape = NULL);
    DECODE(PQ_ERR_NULL, args.in.data = NULL);
    DECODE(PQ_ERR_NULL, args.out.data = NULL);
    DECODE(PQ_ERR_TYPE, args.in.type = PQ_I8);
    DECODE(PQ_ERR_TYPE, args.out.type = PQ_I32);
    DECODE(PQ_ERR_OVERLAP, args.out.strides = none);
    ENCODE(PQ_OK, (void)0);
    /* A struct may end before its last member. */
    ENCODE(PQ_OK, args.size = offsetof(struct pq_blocks, weights));
    ENCODE(PQ_ERR_SIZE, args.size = offsetof(struct pq_blocks, weights) - 1);
    ENCODE(PQ_ERR_OPTION, args.format = 16);
    ENCODE(PQ_ERR_OPTION, args.search = 1);
    ENCODE(PQ_OK, args.search = 1; args.format = 20);
    ENCODE(PQ_OK, args.weights = back.in);
    ENCODE(PQ_OK, args.weights = back.in; args.weights.strides = none);
    ENCODE(PQ_ERR_TYPE, args.weights = back.in; args.weights.type = PQ_I32);
    ENCODE(PQ_ERR_SHAPE, args.shape = odd);
    ENCODE(PQ_ERR_TYPE, args.out.type = PQ_I8);
    ENCODE(PQ_ERR_TYPE, args.in.type = PQ_I32);
    ENCODE(PQ_ERR_OVERLAP, args.out.strides = none);
    ENCODE(PQ_OK, args.in.strides = none);
#undef DECODE
#undef ENCODE
    CHECK(pq_block_decode(scalar, &good, 2, 2) == PQ_ERR_PART, "part 2 of 2");
    CHECK(pq_block_decode(NULL, &good, 0, 1) == PQ_ERR_NULL, "no kernels");
    CHECK(pq_block_decode(scalar, NULL, 0, 1) == PQ_ERR_NULL, "no arguments");
    CHECK(pq_block_format(-1) == NULL && pq_block_format(PQ_GGUF_FORMATS) == NULL,
          "formats that there are not");
    check_end();
}

static void check_kernels(const struct pq_kernels *kernels)
{
    for (int place = 0; place < PQ_GGUF_FORMATS; place++) {
        check_kernel(kernels, place);
    }
}

#undef RECORDS
#define RECORDS(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(void)
{
    check_start("check_records");
    scalar = pq_isa_find("scalar");
    check_refusals();
    run_drivers(drivers);
    for (int i = 0; pq_isa_name(i) != NULL; i++) {
        check_calls(pq_isa_find(pq_isa_name(i)));
    }
    return check_finish();
}
