/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of quantize and dequantize that have been checked. */
#ifndef PQ_RUN_H
#define PQ_RUN_H

#include "pq.h"

/*
 * As pq_quantize() and pq_dequantize() do it, for who has made sure of what pq_check_call()
 * asks: `args` has one dimension, along which the elements of either side follow each
 * other, in bytes or at bits, and share a scale and a zero point. Types, options and the
 * zero point are checked here.
 */
enum pq_status pq_quantize_run(const struct pq_kernels *kernels,
                               const struct pq_args *args);
enum pq_status pq_dequantize_run(const struct pq_kernels *kernels,
                                 const struct pq_args *args);

#endif
