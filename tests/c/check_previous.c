/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A caller compiled for version 1.1, with the header of old/1.1/, that gets the current
 * table. It uses the additions of version 1.1: offsets, fills, ranges, policies and
 * parameters.
 */
#include "pq.h"

#include <math.h>
#include <string.h>

#include "check.h"

enum { N = 5 };

static const ptrdiff_t shape[] = {N}, floats[] = {sizeof(float)}, bytes[] = {1};
static const ptrdiff_t same[] = {0};
static float x[N] = {1, 2.25f, -9, NAN, 99}, y[N];
static float scale = 0.5f, offset = 1;
static const int64_t fill[] = {-128};
static signed char codes[N];

/* Larger than the table of the caller. */
static union {
    struct pq_api api;
    unsigned char room[4 * sizeof(struct pq_api)];
} table;

static struct pq_args quantization(void)
{
    struct pq_args args = {
        .size = sizeof args,
        .ndim = 1,
        .shape = shape,
        .in = {.data = x, .strides = floats, .type = PQ_F32},
        .out = {.data = codes, .strides = bytes, .type = PQ_I8},
        .scale = {.data = &scale, .strides = same, .type = PQ_F32},
        .offset = &offset,
        .fill = fill,
        .fills = 1,
        .lowest_code = -7,
        .highest_code = 7,
    };
    return args;
}

static void check_calls(const struct pq_api *pq)
{
    static const signed char due[N] = {0, 2, -7, -128, 7};
    static const float back[N] = {1, 2, -2.5f, NAN, 4.5f};
    struct pq_args args = quantization();
    size_t count = 0, first = 0;
    check_begin("calls of version 1.1");
    CHECK(pq->major == PQ_API_MAJOR && pq->minor > PQ_API_MINOR, "version %u.%u", pq->major,
          pq->minor);
    CHECK(pq->quantize(pq->kernels, &args, 0, 1) == PQ_OK && memcmp(codes, due, N) == 0,
          "quantize");
    args.beyond = PQ_REFUSE;
    CHECK(pq->quantize(pq->kernels, &args, 0, 1) == PQ_ERR_BEYOND, "refuse");
    CHECK(pq->count_beyond(pq->kernels, &args, &count, &first) == PQ_OK && count == 2 &&
              first == 2,
          "count_beyond: %zu from %zu", count, first);
    args = quantization();
    args.in = args.out;
    args.out = (struct pq_array){.data = y, .strides = floats, .type = PQ_F32};
    args.lowest_code = args.highest_code = 0;
    CHECK(pq->dequantize(pq->kernels, &args, 0, 1) == PQ_OK && isnan(y[3]), "dequantize");
    y[3] = back[3];
    CHECK(memcmp(y, back, sizeof y) == 0, "dequantize: other numbers");
    check_end();
}

static void check_parameters(const struct pq_api *pq)
{
    const struct pq_choice choice = {.size = sizeof choice};
    float found = 0, finite[N] = {-3, 0, 1, 2, 200};
    signed char zero = 9;
    struct pq_args args = quantization();
    args.in.data = finite;
    args.scale.data = &found;
    args.zero = (struct pq_array){.data = &zero, .strides = same, .type = PQ_I8};
    check_begin("parameters by version 1.1");
    CHECK(pq->choose_params(pq->kernels, &args, &choice, 0, 1) == PQ_OK &&
              found == (float)(200.0 / 127) && zero == 0,
          "choose_params %a %d", (double)found, zero);
    check_end();
}

int main(void)
{
    check_start("check_previous");
    pq_api_init(&table.api, pq_isa_find("scalar"), "?");
    check_calls(&table.api);
    check_parameters(&table.api);
    return check_finish();
}
