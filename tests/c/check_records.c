/* SPDX-License-Identifier: Apache-2.0 */
/* Check the kernels that decode GGUF blocks, and the kernels that convert float32 results
 * to another real type. Results of every instruction set must equal results of the scalar
 * kernels, bit for bit. Arrays are between inaccessible pages. Also check the errors of
 * invalid calls. */
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "oracle.h"

enum { MOST = 9 }; /* maximum number of blocks of a kernel call */

/* Fill `n` bytes with random bits. In half of the calls, one bit of each byte is 0, so that
 * the scales of blocks are finite. */
static void draw_bytes(uint8_t *p, size_t n)
{
    const uint8_t kept = random_chance(50) ? 0xbb : 0xff;
    for (size_t i = 0; i < n; i++) {
        p[i] = (uint8_t)random_below(256) & kept;
    }
}

/* ---- kernels ---- */

static void check_decode(const struct pq_kernels *k, pq_decode_fn *const kernels[])
{
    static float theirs[MOST * 256];
    for (int place = 0; k != &pq_kernels_scalar && place < PQ_GGUF_FORMATS; place++) {
        const struct pq_block_format *const format = pq_block_format(place);
        const size_t bytes = (size_t)format->bytes;
        const size_t numbers = (size_t)format->elements * sizeof(float);
        struct guarded in = guarded_make(MOST * bytes), out = guarded_make(MOST * numbers);
        check_begin("%s of %s", format->name, k->name);
        CASES(round, 60) {
            const size_t n = random_below(MOST + 1);
            uint8_t *const x = guarded_end(&in, n * bytes);
            unsigned char *const y = guarded_end(&out, n * numbers);
            draw_bytes(x, n * bytes);
            kernels[place](x, y, n);
            pq_kernels_scalar.decode[place](x, theirs, n);
            CHECK(memcmp(y, theirs, n * numbers) == 0, "%zu blocks", n);
        }
    }
}

/* Check the conversion of float32 numbers to another real type. Some numbers are near the
 * limits of float16. A NaN must become the canonical NaN. */
static void check_narrowing(const struct pq_kernels *k, pq_narrow_fn *kernel,
                            enum pq_type type)
{
    enum { N = 96 };
    _Alignas(64) float x[N];
    _Alignas(64) double y[N]; /* or a narrower type */
    check_begin("float32 to %s of %s", type_name(type), k->name);
    CASES(round, 300) {
        for (int i = 0; i < N; i++) {
            const uint32_t bits = (uint32_t)random_bits();
            const uint32_t near = (bits & 0x87ffffff) | 0x38000000;
            const float v = f32_of_bits(random_chance(50) ? bits : near);
            x[i] = v == v ? v : f32_of_bits(0x7fc00000);
        }
        kernel(x, y, N);
        for (size_t i = 0; i < N; i++) {
            const double v = (double)x[i];
            CHECK(type == PQ_F64 ? y[i] == v || v != v
                                 : get_bits(y, type, i) == encode(type, v, 1, 0),
                  "%a", v);
        }
    }
}

DRIVER(check_to_f16, pq_narrow_fn *, check_narrowing(k, kernel, PQ_F16))
DRIVER(check_to_bf16, pq_narrow_fn *, check_narrowing(k, kernel, PQ_BF16))
DRIVER(check_to_f64, pq_narrow_fn *, check_narrowing(k, kernel, PQ_F64))

/* ---- errors ---- */

static void check_alone(void)
{
    float y[64];
    uint8_t x[36] = {0};
    const ptrdiff_t shape[2] = {2, 32}, odd[2] = {2, 31}, large[2] = {PTRDIFF_MAX / 8, 32};
    const ptrdiff_t in_strides[2] = {18, 1}, out_strides[2] = {128, 4}, none[2] = {0, 4};
    const ptrdiff_t most[2] = {PTRDIFF_MAX / 16 / 256, 256};
    const ptrdiff_t negative[2] = {-1, 32}, far[2] = {PTRDIFF_MAX / 2, PTRDIFF_MIN / 2};
    struct pq_blocks good = {
        .size = sizeof good,
        .format = 2,
        .ndim = 2,
        .shape = shape,
        .in = {.data = x, .strides = in_strides, .type = PQ_U8},
        .out = {.data = y, .strides = out_strides, .type = PQ_F32},
    };
    const struct pq_kernels *const k = tables[0];
    struct pq_blocks args = good;
    memset(y, 0, sizeof y);
    check_begin("errors");
#define DECODED(due, change) AFTER(due, change, pq_block_decode(k, &args, 0, 1))
    DECODED(PQ_OK, (void)0);
    DECODED(PQ_ERR_OPTION, args.format = 4);
    DECODED(PQ_ERR_OPTION, args.format = 43);
    DECODED(PQ_ERR_OPTION, args.format = -1);
    DECODED(PQ_ERR_OPTION, args.format = INT32_MIN);
    DECODED(PQ_ERR_SIZE, args.size = 8);
    DECODED(PQ_ERR_SHAPE, args.ndim = 0);
    DECODED(PQ_ERR_NDIM, args.ndim = -1);
    DECODED(PQ_ERR_NDIM, args.ndim = PQ_MAX_NDIM + 1);
    DECODED(PQ_ERR_SHAPE, args.shape = negative);
    DECODED(PQ_ERR_SHAPE, args.in.strides = far);
    DECODED(PQ_ERR_SHAPE, args.out.strides = far);
    DECODED(PQ_ERR_SHAPE, args.shape = odd);
    DECODED(PQ_ERR_SHAPE, args.shape = large);
    DECODED(PQ_ERR_NULL, args.shape = NULL);
    DECODED(PQ_ERR_NULL, args.in.data = NULL);
    DECODED(PQ_ERR_NULL, args.out.data = NULL);
    DECODED(PQ_ERR_NULL, args.out.strides = NULL);
    DECODED(PQ_ERR_TYPE, args.in.type = (enum pq_type) - 1);
    DECODED(PQ_ERR_TYPE, args.in.type = PQ_I8);
    DECODED(PQ_ERR_TYPE, args.out.type = PQ_I32);
    DECODED(PQ_ERR_OVERLAP, args.out.strides = none);
#undef DECODED
    EXPECT(PQ_ERR_PART, pq_block_decode(k, &good, 2, 2));
    EXPECT(PQ_ERR_PART, pq_block_decode(k, &good, -1, 2));
    EXPECT(PQ_ERR_NULL, pq_block_decode(NULL, &good, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_block_decode(k, NULL, 0, 1));
    const struct pq_array numbers = good.out;
    good.out = good.in;
    good.in = numbers;
#define ENCODED(due, change) AFTER(due, change, pq_block_encode(k, &args, 0, 1))
    ENCODED(PQ_OK, (void)0);
    /* The member `weights` is optional: a valid struct can end before `weights`. */
    ENCODED(PQ_OK, args.size = offsetof(struct pq_blocks, weights); args.weights.data = y);
    ENCODED(PQ_ERR_SIZE, args.size = 1 << 17);
    ENCODED(PQ_ERR_SIZE, args.size = offsetof(struct pq_blocks, weights) - 1);
    ENCODED(PQ_ERR_OPTION, args.format = 16);
    ENCODED(PQ_ERR_OPTION, args.search = 1);
    ENCODED(PQ_OK, args.search = 1; args.format = 20);
    ENCODED(PQ_OK, args.weights = numbers);
    ENCODED(PQ_OK, args.weights = numbers; args.weights.strides = none);
    ENCODED(PQ_ERR_TYPE, args.weights = numbers; args.weights.type = PQ_I32);
    ENCODED(PQ_ERR_SHAPE, args.shape = odd);
    /* A block of this format has 256 numbers, but 292 bytes. The shape is invalid because
     * the number of bytes overflows, although the number of elements does not. */
    ENCODED(PQ_ERR_SHAPE, args.format = 15; args.shape = most; args.out.strides = none);
    ENCODED(PQ_ERR_TYPE, args.out.type = PQ_I8);
    ENCODED(PQ_ERR_TYPE, args.in.type = PQ_I32);
    ENCODED(PQ_ERR_OVERLAP, args.out.strides = none);
    ENCODED(PQ_OK, args.in.strides = none);
#undef ENCODED
    CHECK(pq_block_format(-1) == NULL && pq_block_format(PQ_GGUF_FORMATS) == NULL,
          "formats that there are not");
}

#undef RECORDS
#define RECORDS TEST
#include "program.h"
