/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a kernel is: one contiguous run of elements, no shape, no stride. Every instruction
 * set fills one `struct pq_kernels`; tests compare them entry by entry.
 */
#ifndef PQ_KERNELS_H
#define PQ_KERNELS_H

#include "pq.h"
#include "pq_compiler.h"

/* The types and modes that have kernels of their own: types of 8 and 16 bit from and to
 * reals of at most 32. X(name, type) in the order of enum pq_type, from PQ_F32 and PQ_I8;
 * everything else goes through the wide kernels. */
#define PQ_FOR_REAL(X, ...)                                                                \
    X(f32, PQ_F32, __VA_ARGS__) X(f16, PQ_F16, __VA_ARGS__) X(bf16, PQ_BF16, __VA_ARGS__)
#define PQ_FOR_CODE(X, ...)                                                                \
    X(i8, PQ_I8, __VA_ARGS__)                                                              \
    X(u8, PQ_U8, __VA_ARGS__) X(i16, PQ_I16, __VA_ARGS__) X(u16, PQ_U16, __VA_ARGS__)

/* Narrow floats, X(name, type), from PQ_F8E4M3FN. */
#define PQ_FOR_FLOAT(X, ...)                                                               \
    X(e4m3fn, PQ_F8E4M3FN, __VA_ARGS__)                                                    \
    X(e4m3fnuz, PQ_F8E4M3FNUZ, __VA_ARGS__)                                                \
    X(e5m2, PQ_F8E5M2, __VA_ARGS__)                                                        \
    X(e5m2fnuz, PQ_F8E5M2FNUZ, __VA_ARGS__)                                                \
    X(e2m3fn, PQ_F6E2M3FN, __VA_ARGS__)                                                    \
    X(e3m2fn, PQ_F6E3M2FN, __VA_ARGS__) X(e2m1fn, PQ_F4E2M1FN, __VA_ARGS__)

enum {
    PQ_REALS = 3,
    PQ_CODES = 4,
    PQ_NARROWS = 4, /* integers of 4 and 2 bits, from PQ_I4 */
    PQ_FLOATS = 7,  /* from PQ_F8E4M3FN */
    PQ_SHIFTED = 2, /* 8 bit integers */
    PQ_WHOLES = 2,  /* 32 bit integers */
    PQ_PACKED_GROUP = 32
};

/* Groups of `g` elements (the last may be short) with one scale and zero point each.
 * Quantizing rounds half to even. */
typedef void pq_grp_fn(const void *x, void *y, size_t n, size_t g, const float *scale,
                       const int32_t *zero);

/* A scale and a zero point per element. */
typedef void pq_vec_fn(const void *x, void *y, size_t n, const float *scale,
                       const int32_t *zero);

/*
 * The same for narrow floats, and for integers whose zero point is added before rounding:
 * `zero` holds the bits of float32 numbers, to be added to the quotient, or to the value of
 * the code; -0 adds nothing.
 */

/* Integers of less than 8 bits: `n` codes from bytes to bytes. */
typedef void pq_bytes_fn(const void *x, void *y, size_t n);

/* Rows from columns: element (r, c) of size s from `from + r * s + c * from_stride` to
 * `to + r * to_stride + c * s`. */
typedef void pq_transpose_fn(const char *from, ptrdiff_t from_stride, char *to,
                             ptrdiff_t to_stride, size_t rows, size_t columns);

/* Extrema of a run, merged into *lo and *hi; *bits becomes at least 0x7f800000 when the
 * run holds a NaN or an infinity. */
typedef void pq_minmax_fn(const void *x, size_t n, float *lo, float *hi, uint32_t *bits);

/* The same of `groups` groups of `g` elements each, the extrema written to `lo` and `hi`,
 * and of `rows` rows of `n` elements that begin `stride` bytes apart, merged for each
 * column. */
typedef void pq_minmax_grp_fn(const void *x, size_t groups, size_t g, float *lo, float *hi,
                              uint32_t *bits);
typedef void pq_minmax_vec_fn(const void *x, ptrdiff_t stride, size_t rows, size_t n,
                              float *lo, float *hi, uint32_t *bits);

/* Any type, mode and precision, in float64, a scale and a zero point per element. */
struct pq_wide {
    enum pq_type in;
    enum pq_type out;
    enum pq_type compute; /* quantize: type of the quotient; dequantize: of the product */
    enum pq_round round;
    int zero_first;   /* quantize to integers: as in struct pq_args */
    int saturate;     /* quantize to narrow floats */
    int narrow_first; /* quantize: as in struct pq_args */
};
typedef void pq_wide_fn(const struct pq_wide *wide, const void *x, void *y, size_t n,
                        const double *scale, const double *zero);

struct pq_kernels {
    const char *name;
    pq_grp_fn *quantize_grp[PQ_REALS][PQ_CODES];
    pq_vec_fn *quantize_vec[PQ_REALS][PQ_CODES][PQ_ROUND_COUNT];
    pq_grp_fn *dequantize_grp[PQ_CODES][PQ_REALS];
    pq_vec_fn *dequantize_vec[PQ_CODES][PQ_REALS];
    /* From float16 and bfloat16, with scales of the same type, half to even of quotients
     * rounded to that type. */
    pq_vec_fn *quantize_rounded[2][PQ_CODES];
    /* From float32 to int8 and uint8, half to even, the zero point added first. */
    pq_vec_fn *quantize_shifted[PQ_SHIFTED];
    /* Between float32 and int32 or uint32, half to even, zero points 0 and not read. */
    pq_vec_fn *quantize_whole[PQ_WHOLES];
    pq_vec_fn *dequantize_whole[PQ_WHOLES];
    pq_grp_fn *encode_grp[PQ_REALS][PQ_FLOATS][2]; /* [1]: saturating */
    pq_vec_fn *encode_vec[PQ_REALS][PQ_FLOATS][2];
    pq_grp_fn *decode_grp[PQ_FLOATS][PQ_REALS];
    pq_vec_fn *decode_vec[PQ_FLOATS][PQ_REALS];
    /* From packed int4 and uint4, beginning at a whole byte, in whole groups of multiples
     * of PQ_PACKED_GROUP elements. */
    pq_grp_fn *dequantize_packed[2][PQ_REALS];
    /* Integers of 4 and 2 bits are computed as int8 and uint8: `extend` makes these of the
     * low bits of a byte, `unpack` of packed bytes; `narrow` saturates, in place or not,
     * and leaves the low bits. `pack` takes low bits, [0] four, [1] two of them. */
    pq_bytes_fn *extend[PQ_NARROWS];
    pq_bytes_fn *unpack[PQ_NARROWS];
    pq_bytes_fn *narrow[PQ_NARROWS];
    pq_bytes_fn *pack[2];
    pq_transpose_fn *transpose[4]; /* of elements of 1, 2, 4 and 8 bytes */
    pq_minmax_fn *minmax[PQ_REALS];
    pq_minmax_grp_fn *minmax_grp[PQ_REALS];
    pq_minmax_vec_fn *minmax_vec[PQ_REALS];
    pq_wide_fn *quantize_wide;
    pq_wide_fn *dequantize_wide;
};

extern const struct pq_kernels pq_kernels_scalar;
extern const struct pq_kernels pq_kernels_avx2;
extern const struct pq_kernels pq_kernels_neon;

#endif
