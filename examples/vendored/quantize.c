/* SPDX-License-Identifier: Apache-2.0 */
/* Quantize three numbers without Python. Compile this file with the files of csrc/. */
#include <stdio.h>

#include "pq.h"

int main(void)
{
    float x[3] = {0.5f, -3.0f, 1e9f}, scale = 0.5f;
    signed char q[3];
    const ptrdiff_t shape[1] = {3};
    const ptrdiff_t floats[1] = {sizeof(float)}, bytes[1] = {1}; /* strides in bytes */
    const ptrdiff_t same[1] = {0}; /* all elements have one scale */
    const struct pq_args args = {
        .size = sizeof args,
        .ndim = 1,
        .shape = shape,
        .in = {.data = x, .strides = floats, .type = PQ_F32},
        .out = {.data = q, .strides = bytes, .type = PQ_I8},
        .scale = {.data = &scale, .strides = same, .type = PQ_F32},
    };
    /* Use the best instruction set of this CPU. Part 0 of 1 is the complete call. */
    const struct pq_kernels *best = pq_isa_find(pq_isa_name(0));
    const enum pq_status status = pq_quantize(best, &args, 0, 1);
    if (status != PQ_OK) {
        puts(pq_status_text(status));
        return 1;
    }
    printf("%d %d %d\n", q[0], q[1], q[2]);
    return 0;
}
