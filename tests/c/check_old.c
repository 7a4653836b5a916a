/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caller compiled for version 1.0 of the interface, with the header of old/1.0/, that
 * gets the current table. Every function of version 1.0 has its old position and result.
 */
#include "pq.h"

#include <math.h>
#include <string.h>

#include "check.h"

enum { N = 6 };

static const ptrdiff_t shape[] = {N}, floats[] = {sizeof(float)}, bytes[] = {1};
static const ptrdiff_t half_bytes[] = {4}, same[] = {0};
static float x[N] = {-3, -0.25f, 0.25f, 0.75f, 1, 200}, y[N];
static float scale = 0.5f;
static signed char codes[N];
static unsigned char packed[N / 2 + 1];

static struct pq_args quantization(void)
{
    struct pq_args args = {
        .size = sizeof args,
        .ndim = 1,
        .shape = shape,
        .in = {.data = x, .strides = floats, .type = PQ_F32},
        .out = {.data = codes, .strides = bytes, .type = PQ_I8},
        .scale = {.data = &scale, .strides = same, .type = PQ_F32},
    };
    return args;
}

/* Larger than the table of the caller. */
static union {
    struct pq_api api;
    unsigned char room[4 * sizeof(struct pq_api)];
} table;

static void check_table(const struct pq_api *pq)
{
    static const char *const names[PQ_TYPE_COUNT] = {
        [PQ_F32] = "float32",
        [PQ_F16] = "float16",
        [PQ_BF16] = "bfloat16",
        [PQ_F64] = "float64",
        [PQ_I8] = "int8",
        [PQ_U8] = "uint8",
        [PQ_I16] = "int16",
        [PQ_U16] = "uint16",
        [PQ_I32] = "int32",
        [PQ_U32] = "uint32",
        [PQ_I64] = "int64",
        [PQ_U64] = "uint64",
        [PQ_I4] = "int4",
        [PQ_U4] = "uint4",
        [PQ_I2] = "int2",
        [PQ_U2] = "uint2",
        [PQ_F8E4M3FN] = "float8_e4m3fn",
        [PQ_F8E4M3FNUZ] = "float8_e4m3fnuz",
        [PQ_F8E5M2] = "float8_e5m2",
        [PQ_F8E5M2FNUZ] = "float8_e5m2fnuz",
        [PQ_F6E2M3FN] = "float6_e2m3fn",
        [PQ_F6E3M2FN] = "float6_e3m2fn",
        [PQ_F4E2M1FN] = "float4_e2m1fn",
        [PQ_F8E8M0FNU] = "float8_e8m0fnu",
    };
    check_begin("the table of version 1.0");
    CHECK(pq->major == PQ_API_MAJOR && pq->minor > PQ_API_MINOR, "version %u.%u", pq->major,
          pq->minor);
    CHECK(strcmp(pq->version, "?") == 0 && pq->kernels == pq->isa_find("scalar"),
          "members");
    CHECK(pq->isa_find == pq_isa_find && pq->isa_name == pq_isa_name &&
              pq->quantize == pq_quantize && pq->dequantize == pq_dequantize &&
              pq->prepare_quantize == pq_prepare_quantize &&
              pq->prepare_dequantize == pq_prepare_dequantize && pq->run == pq_run &&
              pq->repack == pq_repack && pq->minmax == pq_minmax &&
              pq->count_nonfinite == pq_count_nonfinite && pq->choose == pq_choose &&
              pq->zeros_within == pq_zeros_within && pq->type_size == pq_type_size &&
              pq->type_bits == pq_type_bits && pq->status_text == pq_status_text &&
              pq->type_info == pq_type_info,
          "functions");
    for (int type = PQ_NO_TYPE + 1; type < PQ_TYPE_COUNT; type++) {
        const struct pq_type_info *info = pq->type_info((enum pq_type)type);
        CHECK(info != NULL && strcmp(info->name, names[type]) == 0, "type %d", type);
    }
    check_end();
}

static void check_calls(const struct pq_kernels *k)
{
    static const signed char due[N] = {-6, 0, 0, 2, 2, 127};
    static const float back[N] = {-3, 0, 0, 1, 1, 63.5f};
    struct pq_args args = quantization();
    check_begin("calls of version 1.0");
    CHECK(pq_quantize(k, &args, 0, 1) == PQ_OK && memcmp(codes, due, N) == 0, "quantize");
    struct pq_prepared plan = {.size = sizeof plan};
    memset(codes, 99, N);
    CHECK(pq_prepare_quantize(&plan, k, &args) == PQ_OK, "prepare");
    CHECK(pq_run(&plan, x, codes, 0, 1) == PQ_OK && memcmp(codes, due, N) == 0, "run");
    args.in = args.out;
    args.out = (struct pq_array){.data = y, .strides = floats, .type = PQ_F32};
    CHECK(pq_dequantize(k, &args, 0, 1) == PQ_OK && memcmp(y, back, sizeof y) == 0,
          "dequantize");
    args = quantization();
    args.out = (struct pq_array){.data = packed, .type = PQ_I4, .bit_strides = half_bytes};
    memset(packed, 0xff, sizeof packed);
    CHECK(pq_quantize(k, &args, 0, 1) == PQ_OK && packed[0] == 0x0a && packed[1] == 0x20 &&
              packed[2] == 0x72 && packed[3] == 0xff,
          "packed %02x %02x %02x", packed[0], packed[1], packed[2]);
    check_end();
}

static void check_parameters(const struct pq_kernels *k)
{
    double lo = HUGE_VAL, hi = -HUGE_VAL;
    int finite = 0;
    struct pq_args args = quantization();
    args.lowest = (struct pq_array){.data = &lo, .strides = same, .type = PQ_F64};
    args.highest = (struct pq_array){.data = &hi, .strides = same, .type = PQ_F64};
    check_begin("parameters by version 1.0");
    CHECK(pq_minmax(k, &args, &finite) == PQ_OK && finite && lo == -3 && hi == 200,
          "minmax %g %g", lo, hi);
    const struct pq_choice choice = {.size = sizeof choice};
    float found = 0;
    signed char zero = 9;
    CHECK(pq_choose(&choice, 1, &lo, &hi, &found, &zero) == PQ_OK &&
              found == (float)(200.0 / 127) && zero == 0,
          "choose %a %d", (double)found, zero);
    check_end();
}

/* A later version can add members to a struct; the caller leaves them at 0. */
static void check_sizes(const struct pq_kernels *k)
{
    struct {
        struct pq_args args;
        unsigned char more[1024]; /* more than any version has */
    } newer;
    check_begin("sizes of structs");
    memset(&newer, 0, sizeof newer);
    newer.args = quantization();
    newer.args.size = sizeof newer;
    CHECK(pq_quantize(k, &newer.args, 0, 1) == PQ_OK, "more zeros");
    newer.more[sizeof newer.more - 1] = 1;
    codes[0] = 99;
    CHECK(pq_quantize(k, &newer.args, 0, 1) == PQ_ERR_SIZE && codes[0] == 99, "a member");
    const size_t wrong[] = {0, sizeof(size_t), sizeof(struct pq_args) - 8, SIZE_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pq_args args = quantization();
        struct pq_prepared plan = {.size = sizeof plan};
        int64_t outside;
        int finite;
        size_t n;
        args.size = wrong[i];
        CHECK(pq_quantize(k, &args, 0, 1) == PQ_ERR_SIZE, "quantize %zu", i);
        CHECK(pq_dequantize(k, &args, 0, 1) == PQ_ERR_SIZE, "dequantize %zu", i);
        CHECK(pq_repack(k, &args, 0, 1) == PQ_ERR_SIZE, "repack %zu", i);
        CHECK(pq_prepare_quantize(&plan, k, &args) == PQ_ERR_SIZE, "prepare %zu", i);
        CHECK(pq_minmax(k, &args, &finite) == PQ_ERR_SIZE, "minmax %zu", i);
        CHECK(pq_count_nonfinite(&args, &n, &n) == PQ_ERR_SIZE, "count %zu", i);
        CHECK(pq_zeros_within(&args, 0, 0, &outside) == 0, "zeros %zu", i);
        struct pq_choice choice = {.size = i == 2 ? sizeof choice - 8 : wrong[i]};
        double end = 1;
        float found = 9;
        signed char zero = 9;
        CHECK(pq_choose(&choice, 1, &end, &end, &found, &zero) == PQ_ERR_SIZE, "choose");
        CHECK(codes[0] == 99 && found == 9 && zero == 9, "something was written");
    }
    const struct pq_args args = quantization();
    const size_t small[] = {0, sizeof(size_t), 100};
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        struct pq_prepared plan = {.size = small[i]};
        CHECK(pq_prepare_quantize(&plan, k, &args) == PQ_ERR_SIZE, "a plan of %zu",
              small[i]);
    }
    check_end();
}

int main(void)
{
    check_start("check_old");
    const struct pq_kernels *k = pq_isa_find("scalar");
    pq_api_init(&table.api, k, "?");
    check_table(&table.api);
    check_calls(k);
    check_parameters(k);
    check_sizes(k);
    return check_finish();
}
