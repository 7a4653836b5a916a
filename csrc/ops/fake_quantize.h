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
    double lowest, highest; /* lowest and highest code */
    double margin;          /* tolerance at each end of the range, in steps */
    bool is_f64;            /* elements are float64; otherwise float32 */
    bool has_zero, has_offset;
    bool is_zero_64_bit, is_zero_unsigned;
    int64_t *low, *high; /* numbers of elements below and above the range */
    int64_t *bad;        /* number of elements with a scale of 0, infinity or NaN */
};

/* How to process a tile. Without `dequantize`, the result is a mask with 1 for each element
 * that is in range. */
struct pq_tile_steps {
    pq_kernel_fn *quantize, *dequantize;
    pq_bytes_fn *narrow, *extend; /* for codes of 4 or 2 bits, else null: see list.h */
    size_t real, code, result;    /* number of bytes of an input, a code and a result */
    size_t most;                  /* maximum number of elements of a tile */
    bool no_zeros;                /* dequantize with +0 as zero point */
    /* How to compute the mask: */
    bool counts;           /* true: count out-of-range elements; false: compare codes */
    enum pq_type wider;    /* the type of the codes that are compared with `range` */
    struct pq_range range; /* codes in range */
    struct pq_fake_quantize fake_quantize; /* parameters; if bytes = 0, run two kernels */
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

/* Check the types and options of a call. `accepted` are the accepted options. Remove the
 * zero points of narrow floats, which are 0. */
enum pq_status pq_check_fake_quantize(struct pq_fake_call *call, struct pq_args *args,
                                      int accepted);

/* Fill in a method with two kernels, to quantize and to dequantize. The method contains a
 * pointer to `steps`. */
enum pq_status pq_set_tile_steps(struct pq_method *how, struct pq_tile_steps *steps,
                                 struct pq_fake_call *call, const struct pq_args *args);

/* Return the range that defines saturation for type `code`. The caller sets counters. */
struct pq_saturation pq_saturation_of(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_method *how, enum pq_type code);

/* Count the saturated elements among the `n` elements at `x`. `y` contains the dequantized
 * values, and `run` contains the parameters. */
void pq_count_saturated(const struct pq_run *run, const void *x, const void *y, size_t n);

#endif
