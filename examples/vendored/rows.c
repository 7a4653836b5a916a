/* SPDX-License-Identifier: Apache-2.0 */
/* Quantize rows of activations to int8, each by its own range, for a matrix product of
 * integers. Compile this file with the files of csrc/. */
#include <stdio.h>

#include "pq.h"

enum { TOKENS = 3, FEATURES = 4 };

/* Quantize `x` to `q`, and store a scale for each row. Zero points are 0. */
static enum pq_status quantize_rows(const float *x, size_t tokens, size_t features,
                                    signed char *q, float *scale, signed char *zero)
{
    const ptrdiff_t n = (ptrdiff_t)features, size = (ptrdiff_t)sizeof *x;
    const ptrdiff_t shape[2] = {(ptrdiff_t)tokens, n};
    const ptrdiff_t floats[2] = {n * size, size}, bytes[2] = {n, 1};
    const ptrdiff_t float_each[2] = {size, 0}, byte_each[2] = {1, 0};
    const struct pq_args args = {
        .size = sizeof args,
        .ndim = 2,
        .shape = shape,
        .in = {.data = (void *)x, .strides = floats, .type = PQ_F32},
        .out = {.data = q, .strides = bytes, .type = PQ_I8},
        .scale = {.data = scale, .strides = float_each, .type = PQ_F32},
        .zero = {.data = zero, .strides = byte_each, .type = PQ_I8},
    };
    const struct pq_choice choice = {.size = sizeof choice, .code = PQ_I8};
    const struct pq_kernels *kernels = pq_isa_find(pq_isa_name(0)); /* fastest of the CPU */
    return pq_dynamic_quantize(kernels, &args, &choice, 0, 1);
}

int main(void)
{
    const float x[TOKENS][FEATURES] = {
        {-1.0f, 0.5f, 2.0f, 0.25f}, {0}, {0.1f, 0.2f, 0.3f, -0.3f}};
    signed char q[TOKENS][FEATURES], zero[TOKENS];
    float scale[TOKENS];
    const enum pq_status status =
        quantize_rows(&x[0][0], TOKENS, FEATURES, &q[0][0], scale, zero);
    if (status != PQ_OK) {
        puts(pq_status_text(status));
        return 1;
    }
    for (int row = 0; row < TOKENS; row++) {
        printf("%g:", (double)scale[row]);
        for (int i = 0; i < FEATURES; i++) {
            printf(" %d", q[row][i]);
        }
        puts("");
    }
    return 0;
}
