/* SPDX-License-Identifier: Apache-2.0 */
/* Select and run a kernel of a table. */
#ifndef RUN_H
#define RUN_H

#include "kernels/kernels.h"

/* Run the kernel for run->in and run->out, or the float64 kernel, or the int64 kernel for
 * codes of 64 bits. Groups have `g` elements, and parameters have the type of the
 * kernel. */
static inline void run_kernel(const struct pq_kernels *k, const struct pq_run *options,
                              int quantizes, int general, const void *x, void *y, size_t n,
                              size_t g, const void *scale, const void *zero)
{
    struct pq_run run = *options;
    pq_kernel_fn *kernel = quantizes ? k->quantize_general : k->dequantize_general;
    if (pq_is_64_bit(quantizes ? run.out : run.in)) {
        kernel = quantizes ? k->quantize_int64 : k->dequantize_int64;
    }
    if (general) {
        run.scale.f64 = scale;
        run.zero.f64 = zero;
    } else {
        const int in = pq_row_of(run.in), out = pq_row_of(run.out);
        kernel = quantizes ? k->quantize[in][out] : k->dequantize[in][out];
        run.scale.f32 = scale;
        run.zero.i32 = zero;
    }
    run.group = g;
    kernel(&run, x, y, n);
}

#endif
