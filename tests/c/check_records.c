/* SPDX-License-Identifier: Apache-2.0 */
/* Check GGUF blocks: the kernels of every instruction set against the scalar ones, bit for
 * bit, between inaccessible pages, and invalid calls. fuzz_api.c checks valid calls. */
#include <string.h>

#include "check.h"
#include "drivers.h"
#include "oracle.h"

enum { MOST = 9 }; /* most blocks of a run */

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
    CASES(round, 60) {
        const size_t n = random_below(MOST + 1);
        uint8_t *const x = guarded_end(&in, n * bytes);
        unsigned char *const y = guarded_end(&out, n * elements * sizeof(float));
        draw_bytes(x, n * bytes);
        kernels->records->decode[place](x, y, n);
        pq_kernels_scalar.records->decode[place](x, theirs, n);
        CHECK(memcmp(y, theirs, n * elements * sizeof(float)) == 0, "%zu blocks", n);
    }
    check_end();
}

static void check_narrowing(const struct pq_kernels *kernels)
{
    enum { N = 96 };
    _Alignas(64) float x[N];
    _Alignas(64) uint16_t half[N], brain[N];
    _Alignas(64) double is_f64[N];
    check_begin("narrowing of %s", kernels->name);
    CASES(round, 300) {
        for (int i = 0; i < N;
             i++) { /* numbers near the limits of float16, and any numbers */
            const uint32_t bits =
                (uint32_t)random_below(1u << 16) << 16 | (uint32_t)random_below(1u << 16);
            const uint32_t near = (bits & 0x87ffffff) | 0x38000000;
            const float v = f32_of_bits(random_chance(50) ? bits : near);
            x[i] = v == v ? v : f32_of_bits(0x7fc00000);
        }
        kernels->to_f16(x, half, N);
        kernels->to_bf16(x, brain, N);
        kernels->to_f64(x, is_f64, N);
        for (int i = 0; i < N; i++) {
            const double v = (double)x[i];
            CHECK(half[i] == encode(PQ_F16, v, 1, 0), "float16 of %a", v);
            CHECK(brain[i] == encode(PQ_BF16, v, 1, 0), "bfloat16 of %a", v);
            CHECK(is_f64[i] == v || v != v, "float64 of %a", v);
        }
    }
    check_end();
}

/* ---- errors ---- */

static void check_refusals(void)
{
    float y[64];
    uint8_t x[36] = {0};
    const ptrdiff_t shape[2] = {2, 32}, odd[2] = {2, 31}, large[2] = {PTRDIFF_MAX / 8, 32};
    const ptrdiff_t in_strides[2] = {18, 1}, out_strides[2] = {128, 4}, none[2] = {0, 4};
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
#define DECODE(due, change) AFTER(due, change, pq_block_decode(k, &args, 0, 1))
    DECODE(PQ_OK, (void)0);
    DECODE(PQ_ERR_OPTION, args.format = 4);
    DECODE(PQ_ERR_OPTION, args.format = 43);
    DECODE(PQ_ERR_OPTION, args.format = -1);
    DECODE(PQ_ERR_OPTION, args.format = INT32_MIN);
    DECODE(PQ_ERR_SIZE, args.size = 8);
    DECODE(PQ_ERR_SHAPE, args.ndim = 0);
    DECODE(PQ_ERR_NDIM, args.ndim = -1);
    DECODE(PQ_ERR_NDIM, args.ndim = PQ_MAX_NDIM + 1);
    DECODE(PQ_ERR_SHAPE, args.shape = negative);
    DECODE(PQ_ERR_SHAPE, args.in.strides = far);
    DECODE(PQ_ERR_SHAPE, args.out.strides = far);
    DECODE(PQ_ERR_SHAPE, args.shape = odd);
    DECODE(PQ_ERR_SHAPE, args.shape = large);
    DECODE(PQ_ERR_NULL, args.shape = NULL);
    DECODE(PQ_ERR_NULL, args.in.data = NULL);
    DECODE(PQ_ERR_NULL, args.out.data = NULL);
    DECODE(PQ_ERR_NULL, args.out.strides = NULL);
    DECODE(PQ_ERR_TYPE, args.in.type = (enum pq_type) - 1);
    DECODE(PQ_ERR_TYPE, args.in.type = PQ_I8);
    DECODE(PQ_ERR_TYPE, args.out.type = PQ_I32);
    DECODE(PQ_ERR_OVERLAP, args.out.strides = none);
#undef DECODE
    EXPECT(PQ_ERR_PART, pq_block_decode(k, &good, 2, 2));
    EXPECT(PQ_ERR_PART, pq_block_decode(k, &good, -1, 2));
    EXPECT(PQ_ERR_NULL, pq_block_decode(NULL, &good, 0, 1));
    EXPECT(PQ_ERR_NULL, pq_block_decode(k, NULL, 0, 1));
    const struct pq_array numbers = good.out;
    good.out = good.in;
    good.in = numbers;
#define ENCODE(due, change) AFTER(due, change, pq_block_encode(k, &args, 0, 1))
    ENCODE(PQ_OK, (void)0);
    /* A struct may end before its last member. */
    ENCODE(PQ_OK, args.size = offsetof(struct pq_blocks, weights));
    ENCODE(PQ_ERR_SIZE, args.size = offsetof(struct pq_blocks, weights) - 1);
    ENCODE(PQ_ERR_OPTION, args.format = 16);
    ENCODE(PQ_ERR_OPTION, args.search = 1);
    ENCODE(PQ_OK, args.search = 1; args.format = 20);
    ENCODE(PQ_OK, args.weights = numbers);
    ENCODE(PQ_OK, args.weights = numbers; args.weights.strides = none);
    ENCODE(PQ_ERR_TYPE, args.weights = numbers; args.weights.type = PQ_I32);
    ENCODE(PQ_ERR_SHAPE, args.shape = odd);
    ENCODE(PQ_ERR_TYPE, args.out.type = PQ_I8);
    ENCODE(PQ_ERR_TYPE, args.in.type = PQ_I32);
    ENCODE(PQ_ERR_OVERLAP, args.out.strides = none);
    ENCODE(PQ_OK, args.in.strides = none);
#undef ENCODE
    CHECK(pq_block_format(-1) == NULL && pq_block_format(PQ_GGUF_FORMATS) == NULL,
          "formats that there are not");
    check_end();
}

static void check_kernels(const struct pq_kernels *kernels)
{
    for (int place = 0; kernels != &pq_kernels_scalar && place < PQ_GGUF_FORMATS; place++) {
        check_kernel(kernels, place);
    }
}

#undef RECORDS
#define RECORDS(check) check,
static driver_fn *const drivers[] = {
#include "kernels/list.h"
    NULL};

int main(int argc, char **argv)
{
    check_start(argc, argv);
    check_refusals();
    run_drivers(drivers);
    return check_finish();
}
