/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers to codes and back, a piece of codes at a time; and what saturates then. */
#ifndef PQ_FUSED_H
#define PQ_FUSED_H

#include "engine/job.h"

/* Where elements are counted that are too low or too high for the codes by more than
 * `margin`, or under a scale that is none. */
struct pq_saturation {
    const struct pq_kernels *kernels;
    double lowest, highest, margin; /* the codes */
    bool wide;                      /* float64, else float32 */
    bool has_zero, has_offset;
    bool wide_zero, unsigned_zero;
    int64_t *low, *high, *bad;
};

/* What is done to a piece, beside the parameters of a run. */
struct pq_fused {
    pq_kernel_fn *quantize, *dequantize;   /* null: what is within range is said instead */
    pq_bytes_fn *narrow, *extend;          /* null: codes are as they were quantized */
    size_t real, code, result;             /* bytes of an element */
    size_t most;                           /* elements of a piece */
    bool general;                          /* parameters are float64 */
    bool no_zeros;                         /* for dequantizing there are +0 */
    bool counts;                           /* by counting what is not within range */
    enum pq_type wider;                    /* of codes that say it themselves ... */
    struct pq_range range;                 /* ... by being within this */
    struct pq_fake_quantize fake_quantize; /* of 0 bytes where no kernel does all of it */
    struct pq_run back;                    /* options of dequantizing */
    struct pq_affine affine;
    const struct pq_saturation *saturation; /* not null: what saturates is counted */
};

/* What goes to codes of type `code` and back: a method for pq_job_run(), which takes
 * `fused` with it. */
enum pq_status pq_fake_method(struct pq_method *how, struct pq_fused *fused,
                              const struct pq_kernels *kernels, const struct pq_args *args,
                              enum pq_type code);

/* What is wrong with arguments for that. */
enum pq_status pq_check_fake(const struct pq_args *args, enum pq_type code);

/* How elements of float32 or float64 that become such codes are counted. */
struct pq_saturation pq_saturation_of(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_method *how, enum pq_type code);

/* Count `n` elements from `x` on which `y` came back of, with the parameters of the run. */
void pq_count_saturated(const struct pq_run *run, const char *x, const char *y, size_t n);

#endif
