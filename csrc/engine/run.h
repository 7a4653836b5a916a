/* SPDX-License-Identifier: Apache-2.0 */
/* quantize and dequantize for calls with checked shapes and strides. */
#ifndef PQ_RUN_H
#define PQ_RUN_H

#include "pq.h"

/*
 * Like pq_quantize() and pq_dequantize(), without pq_check_call(). The caller guarantees
 * that `args` passes that check and has one dimension. The input and the output are
 * contiguous, in bytes or in bits, and all elements share one scale and one zero point.
 * These functions check types, options and the zero point.
 */
enum pq_status pq_quantize_run(const struct pq_kernels *kernels,
                               const struct pq_args *args);
enum pq_status pq_dequantize_run(const struct pq_kernels *kernels,
                                 const struct pq_args *args);

#endif
