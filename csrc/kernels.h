/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel is: one contiguous run of elements, no shape, no stride. Every instruction
 * set fills one `struct pq_kernels`; tests compare them entry by entry.
 */
#ifndef PQ_KERNELS_H
#define PQ_KERNELS_H

#include "pq.h"
#include "types.h"

/*
 * PQ_PAIR(real, code) for each pair of types that has kernels of its own; everything else
 * goes through the general ones. Instances and tables are made of these lists.
 */
#define PQ_WITH_F32(code, ...) PQ_PAIR(F32, code)
#define PQ_WITH_F16(code, ...) PQ_PAIR(F16, code)
#define PQ_WITH_BF16(code, ...) PQ_PAIR(BF16, code)
#define PQ_FOR_CODE_PAIR                                                                   \
    PQ_FOR_CODE(PQ_WITH_F32) PQ_FOR_CODE(PQ_WITH_F16) PQ_FOR_CODE(PQ_WITH_BF16)
#define PQ_FOR_WHOLE_PAIR                                                                  \
    PQ_FOR_WHOLE(PQ_WITH_F32) PQ_FOR_WHOLE(PQ_WITH_F16) PQ_FOR_WHOLE(PQ_WITH_BF16)
#define PQ_FOR_INTEGER_PAIR PQ_FOR_CODE_PAIR PQ_FOR_WHOLE_PAIR
#define PQ_FOR_FLOAT_PAIR                                                                  \
    PQ_FOR_FLOAT(PQ_WITH_F32) PQ_FOR_FLOAT(PQ_WITH_F16) PQ_FOR_FLOAT(PQ_WITH_BF16)

enum { PQ_PACKED_GROUP = 32, PQ_SPACED = 32, PQ_SPACED_MOST = 1024 };

struct pq_run;

/*
 * What affine kernels do before and after another one, `inner`, which quantizes from and
 * dequantizes to numbers of type `carrier`, float32 or float64.
 */
struct pq_affine {
    void (*inner)(const struct pq_run *run, const void *x, void *y, size_t n);
    enum pq_type real, carrier, code;
    int bits;        /* of a code, perhaps fewer than its type has */
    bool general;    /* the other takes float64 parameters, and so offsets are these */
    bool has_offset; /* that is subtracted before, or added after */
    bool inverse;    /* the scale is multiplied by before, or divided by after */
    bool clips;      /* integers, to within `range` */
    bool wraps;      /* integers beyond it, modulo as many as the type has */
    bool counts;     /* what is beyond */
    bool counts_nan; /* and is not filled */
    struct pq_range range;
    size_t fills; /* integers that stand for NaN, and the first of them for it */
    const int64_t *fill;
};

/*
 * What a kernel takes beside its elements: parameters, and the options of the operation.
 * Groups of `group` elements (the last may be short) share a scale and a zero point. With
 * `group` 1 all kernels but the general ones take several `rows` under the same parameters,
 * which they then need to look at only once. Where there are gaps between groups, of at
 * least PQ_SPACED elements, all of them are whole; general kernels know no gaps.
 *
 * Narrow floats, and integers whose zero point is added before rounding, have for `zero`
 * the bits of float32 numbers, to be added to the quotient, or to the value of the code; -0
 * adds nothing. 32-bit integers have zero points of 0, which are not read.
 */
struct pq_run {
    size_t group;
    union {
        const float *f32;
        const double *f64; /* general kernels */
    } scale;
    union {
        const int32_t *i32;
        const double *f64; /* general kernels */
    } zero;
    union {
        const float *f32;
        const double *f64;
    } offset; /* affine kernels: as those they go around take scales */
    const struct pq_affine *affine;  /* affine kernels */
    size_t *outside;                 /* affine kernels: so many more are out of range */
    size_t rows;                     /* 0: one */
    ptrdiff_t in_stride, out_stride; /* from one to the next, in bytes */
    ptrdiff_t in_gap, out_gap;       /* between groups, in bytes */
    int far;                         /* caches near do not hold what is run over */
    enum pq_type in, out; /* general kernels, those to narrow floats, and to packed ones */
    enum pq_type compute; /* quantize: type of the quotient; dequantize: of the product */
    enum pq_round round;  /* quantize to integers */
    int zero_first;       /* quantize to integers: as in struct pq_args */
    int overflow;         /* quantize to narrow floats: as in struct pq_args */
    int narrow_first;     /* quantize, general kernels: as in struct pq_args */
};

/*
 * `n` elements from `x` to `y`. Kernels that quantize a pair of types take quotients of
 * float32 and all modes; beside that, float16 and bfloat16 to integers quotients of their
 * own type, half to even, and float32 to 8 bits `zero_first`, half to even. 32-bit integers
 * are rounded half to even.
 */
typedef void pq_kernel_fn(const struct pq_run *run, const void *x, void *y, size_t n);

/* Integers of less than 8 bits: `n` codes from bytes to bytes. */
typedef void pq_bytes_fn(const void *x, void *y, size_t n);

/* Rows from columns: element (r, c) of size s from `from + r * s + c * from_stride` to
 * `to + r * to_stride + c * s`. */
typedef void pq_transpose_fn(const char *from, ptrdiff_t from_stride, char *to,
                             ptrdiff_t to_stride, size_t rows, size_t columns);

/* Extrema of a run, merged into *lo and *hi, which are float64 where the data is, else
 * float32; *bits becomes at least 0x7f800000 when the run holds a NaN or an infinity. */
typedef void pq_minmax_fn(const void *x, size_t n, void *lo, void *hi, uint32_t *bits);

/* The same of `groups` groups of `g` elements each, the extrema written to `lo` and `hi`,
 * and of `rows` rows of `n` elements that begin `stride` bytes apart, merged for each
 * column. */
typedef void pq_minmax_grp_fn(const void *x, size_t groups, size_t g, void *lo, void *hi,
                              uint32_t *bits);
typedef void pq_minmax_vec_fn(const void *x, ptrdiff_t stride, size_t rows, size_t n,
                              void *lo, void *hi, uint32_t *bits);

/*
 * Scales and zero points of `n` pairs of extrema, at most PQ_CHOSEN, for integers from
 * `lowest` to `highest`: where the scale tried first will do for all, of which the ranges,
 * or the magnitudes around `middle`, are from `least` to `most`. Else 0.
 */
enum { PQ_CHOSEN = 64 };
struct pq_reach {
    double lowest, highest, middle, least, most;
};
typedef int pq_choose_fn(const struct pq_reach *to, const float *los, const float *his,
                         float *scale, uint32_t *zero, size_t n);

/* What has kernels of extrema, and its place among them. */
#define PQ_FOR_EXTREMA(X) PQ_FOR_REAL(X) X(F64, )
enum { PQ_F64_ROW = PQ_REALS, PQ_EXTREMA };

struct pq_kernels {
    const char *name;
    pq_kernel_fn *quantize[PQ_REALS][PQ_CARRIERS];   /* null: none for this pair */
    pq_kernel_fn *dequantize[PQ_CARRIERS][PQ_REALS]; /* null: none for this pair */
    /* From packed int4 and uint4, beginning at a whole byte, in whole groups of multiples
     * of PQ_PACKED_GROUP elements. */
    pq_kernel_fn *dequantize_packed[2][PQ_REALS];
    /* To these, the same, from float32 quotients, half to even. */
    pq_kernel_fn *quantize_packed[PQ_REALS];
    pq_kernel_fn *quantize_general;
    pq_kernel_fn *dequantize_general;
    pq_kernel_fn *quantize_affine; /* see struct pq_affine; any types and groups */
    pq_kernel_fn *dequantize_affine;
    /* Integers of 4 and 2 bits are computed as int8 and uint8: `extend` makes these of the
     * low bits of a byte, `unpack` of packed bytes; `narrow` saturates, in place or not,
     * and leaves the low bits. `pack` takes low bits, [0] four, [1] two of them. */
    pq_bytes_fn *extend[PQ_NARROWS];
    pq_bytes_fn *unpack[PQ_NARROWS];
    pq_bytes_fn *narrow[PQ_NARROWS];
    pq_bytes_fn *pack[2];
    pq_transpose_fn *transpose[4]; /* of elements of 1, 2, 4 and 8 bytes */
    pq_minmax_fn *minmax[PQ_EXTREMA];
    pq_minmax_grp_fn *minmax_grp[PQ_EXTREMA];
    pq_minmax_vec_fn *minmax_vec[PQ_EXTREMA];
    pq_choose_fn *choose_middle, *choose_asymmetric;
};

/* The affine kernels have files of their own. */
extern pq_kernel_fn pq_scalar_affine_quantize, pq_scalar_affine_dequantize;
extern pq_kernel_fn pq_avx2_affine_quantize, pq_avx2_affine_dequantize;
extern pq_kernel_fn pq_neon_affine_quantize, pq_neon_affine_dequantize;

extern const struct pq_kernels pq_kernels_scalar;
extern const struct pq_kernels pq_kernels_avx2;
extern const struct pq_kernels pq_kernels_avx512;
extern const struct pq_kernels pq_kernels_neon;

#endif
