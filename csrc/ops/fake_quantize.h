/* SPDX-License-Identifier: Apache-2.0 */
/* Quantize and dequantize in one pass, one tile of codes at a time, and count saturated
 * elements. */
#ifndef PQ_FAKE_QUANTIZE_H
#define PQ_FAKE_QUANTIZE_H

#include "args.h"
#include "engine/job.h"

/* Counters of saturated elements, and the range that defines saturation. */
struct pq_saturation {
    const struct pq_kernels *kernels;
    double lowest, highest; /* the range of codes */
    double margin;          /* steps beyond the range that do not yet count as saturated */
    bool is_f64;            /* elements are float64; otherwise float32 */
    bool has_zero, has_offset;
    bool is_zero_64_bit, is_zero_unsigned;
    int64_t *low, *high; /* counts of elements below and above the range */
    int64_t *bad;        /* count of elements with a scale of 0, infinity or NaN */
};

/* How to process a tile. Without `dequantize`, the result is a mask with 1 for each element
 * that is in range. */
struct pq_tile_steps {
    pq_kernel_fn *quantize, *dequantize;
    pq_bytes_fn *narrow, *extend; /* saturate to 4 or 2 bits, extend; null if not needed */
    size_t real, code, result;    /* bytes of an input element, a code and a result */
    size_t most;                  /* largest number of elements of a tile */
    bool no_zeros;                /* dequantize with zero points of +0 */
    /* How to compute the mask: */
    bool counts;           /* true: count out-of-range elements; false: compare codes */
    enum pq_type wider;    /* the type of the codes to compare */
    struct pq_range range; /* codes in range */
    struct pq_fake_quantize fake_quantize; /* parameters of the kernel fake_quantize;
                                              bytes = 0: run the two kernels */
    struct pq_run back;                    /* options of dequantizing */
    struct pq_affine affine;
    const struct pq_saturation *saturation; /* null: do not count saturated elements */
};

/* A call that quantizes to codes of type `code` and dequantizes them. */
struct pq_fake_call {
    const struct pq_kernels *kernels;
    enum pq_type code;
    struct pq_array mask; /* for fake_quantize; `data` null: no mask */
    struct pq_facts facts;
};

/* Check the types and options of a call, and accept the options `accepted`. Remove the zero
 * points of narrow floats, which are 0. */
enum pq_status pq_check_fake_quantize(struct pq_fake_call *call, struct pq_args *args,
                                      int accepted);

/* Fill in a method with two kernels, for quantize and dequantize. It refers to `steps`. */
enum pq_status pq_set_tile_steps(struct pq_method *how, struct pq_tile_steps *steps,
                                 struct pq_fake_call *call, const struct pq_args *args);

/* Return the range that defines saturation for the code type `code`. The caller sets the
 * counters. */
struct pq_saturation pq_saturation_of(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_method *how, enum pq_type code);

/* Count the saturated elements of the `n` elements at `x`. `y` has their dequantized
 * values, and the run has their parameters. */
void pq_count_saturated(const struct pq_run *run, const void *x, const void *y, size_t n);

#endif
