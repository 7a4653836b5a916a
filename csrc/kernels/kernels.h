/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel processes one contiguous run of elements, without shape and strides. Every
 * instruction set fills one `struct pq_kernels`. Tests compare the results of the tables.
 */
#ifndef PQ_KERNELS_H
#define PQ_KERNELS_H

#include "blocks/formats.h"
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
#define PQ_FOR_32_BIT_PAIR                                                                 \
    PQ_FOR_32_BIT(PQ_WITH_F32) PQ_FOR_32_BIT(PQ_WITH_F16) PQ_FOR_32_BIT(PQ_WITH_BF16)
#define PQ_FOR_INTEGER_PAIR PQ_FOR_CODE_PAIR PQ_FOR_32_BIT_PAIR
#define PQ_FOR_FLOAT_PAIR                                                                  \
    PQ_FOR_FLOAT(PQ_WITH_F32) PQ_FOR_FLOAT(PQ_WITH_F16) PQ_FOR_FLOAT(PQ_WITH_BF16)

enum { PQ_PACKED_GROUP = 32, PQ_MIN_GAPPED_GROUP = 32, PQ_MAX_GAPPED_GROUP = 1024 };

struct pq_run;
struct pq_fused; /* ops/fake_quantize.c */

/*
 * What affine kernels do before and after another one, `inner`, which quantizes from and
 * dequantizes to numbers of type `carrier`, float32 or float64.
 */
struct pq_affine {
    void (*inner)(const struct pq_run *run, const void *x, void *y, size_t n);
    /* What quantizes numbers as they are, of type `real`; null: something has to be done to
     * them before. */
    void (*plain_kernel)(const struct pq_run *run, const void *x, void *y, size_t n);
    enum pq_type real, carrier, code;
    int bits;        /* of a code, perhaps fewer than its type has */
    bool general;    /* the other takes float64 parameters, and so offsets are these */
    bool has_offset; /* that is subtracted before, or added after */
    bool inverse;    /* the scale is multiplied by before, or divided by after */
    bool clips;      /* integers, to within `range` */
    bool wraps;      /* integers beyond it, modulo as many as the type has */
    bool counts;     /* what is beyond */
    bool counts_nan; /* and is not filled */
    struct pq_range range; /* of uint64, as two's complement */
    size_t fills;          /* integers that stand for NaN, and the first of them for it */
    const int64_t *fill;
};

/*
 * What a kernel takes beside its elements: parameters, and the options of the operation.
 * Groups of `group` elements (the last may be short) share a scale and a zero point. With
 * `group` 1 all kernels but the general ones take several `rows` under the same parameters,
 * which they then need to look at only once. Where there are gaps between groups, of at
 * least PQ_MIN_GAPPED_GROUP elements, all of them are whole; general kernels know no gaps.
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
        const double *f64;   /* general kernels */
        const uint64_t *u64; /* wide kernels: two's complement */
    } zero;
    union {
        const float *f32;
        const double *f64;
    } offset; /* affine kernels: as those they go around take scales */
    const struct pq_affine *affine; /* affine kernels */
    union {
        const struct pq_fused *fused; /* what a kernel that is made of two goes by */
        const struct pq_fake_quantize *fake_quantize; /* what the one that is not goes by */
        const struct pq_codebook *book;               /* those of codebooks */
    };
    size_t *outside;                 /* affine kernels: so many more are out of range */
    size_t rows;                     /* 0: one */
    ptrdiff_t in_stride, out_stride; /* from one to the next, in bytes */
    ptrdiff_t in_gap, out_gap;       /* between groups, in bytes */
    enum pq_type in, out; /* general kernels, those to narrow floats, and to packed ones */
    enum pq_type compute; /* quantize: type of the quotient; dequantize: of the product */
    enum pq_round round;  /* quantize to integers */
    bool exceeds_cache;   /* caches near do not hold what is run over */
    bool zero_first;      /* quantize to integers: as in struct pq_args */
    bool overflow;        /* quantize to narrow floats: as in struct pq_args */
    bool multiplies;      /* the same, not general: the scale is multiplied by */
    bool narrow_first;    /* quantize, general kernels: as in struct pq_args */
    bool unsigned_zero;   /* dequantize, wide kernels: zero points are of uint64 */
    bool general;         /* stochastic kernels: parameters are those of general ones */
    bool inverse;         /* those of codebooks: as in struct pq_args */
    bool high_first;      /* those of codebooks, packed: see pq_is_high_first() */
    const uint32_t *random_words; /* the same: a word for each element */
};

/*
 * `n` elements from `x` to `y`. Kernels that quantize a pair of types take quotients of
 * float32 and all modes; beside that, float16 and bfloat16 to integers quotients of their
 * own type, half to even, and float32 to 8 bits `zero_first`, half to even. 32-bit integers
 * are rounded half to even.
 */
typedef void pq_kernel_fn(const struct pq_run *run, const void *x, void *y, size_t n);

/* The words of `n` elements by a seed, the first at position `first`, see struct pq_args;
 * from one to the next `step` positions, modulo 2^64. */
typedef void pq_random_words_fn(uint32_t *to, uint64_t seed, uint64_t first, uint64_t step,
                                size_t n);

/* Integers of less than 8 bits: `n` codes from bytes to bytes. */
typedef void pq_bytes_fn(const void *x, void *y, size_t n);

/* Bytes of codes that `n` words of 32 bits have at the same place: what is left of them
 * `shift` bits above the lowest. */
typedef void pq_unpack_words_fn(const void *words, int shift, int mask, void *y, size_t n);

/* Rows from columns: element (r, c) of size s from `from + r * s + c * from_stride` to
 * `to + r * to_stride + c * s`. */
typedef void pq_transpose_fn(const char *from, ptrdiff_t from_stride, char *to,
                             ptrdiff_t to_stride, size_t rows, size_t columns);

/* Bytes of pixels of so many channels, `from_stride` from one to the next, to rows of a
 * channel each; or from these rows to pixels. Returns how many of `n` pixels it took. */
typedef size_t pq_pixels_fn(const char *from, ptrdiff_t from_stride, char *to,
                            ptrdiff_t to_stride, size_t channels, size_t n);

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

/*
 * What requantizes `n` int32 to codes of 8, 16 and 32 bits. Groups of `group` elements have
 * their parameters at a place each; or with `each` every element of a group, and those of
 * the next one the same, while there are PQ_CHUNK places beyond the last. Of v, the sum of
 * an element and its bias, there is made:
 *
 *     PQ_REQUANTIZE_F32    v * r in float32, half to even
 *     PQ_REQUANTIZE_ONCE   (((v << left) * m >> 32) + half) >> right
 *     PQ_REQUANTIZE_TWICE  x = ((v << left) * (m + 2^32) + 2^31) >> 32, which becomes
 *                       (((x - (x < 0)) >> right) + 1) >> 1 where `half` has all bits, and
 *                       stays as it is where that is 0: not without `each`
 *
 * Where there are `left` shifts they are of v within [-most - 1, most]. To int32 there are
 * none, and one rounding is of all 64 bits, `right` from 1 to 62:
 *
 *     PQ_REQUANTIZE_ONCE   (v * m + 2^(right - 1)) >> right
 *
 * Limits may then be beyond int32, as they are less the zero point; for two roundings some
 * number between them has to be an int32.
 */
enum pq_requantize_kind {
    PQ_REQUANTIZE_F32,
    PQ_REQUANTIZE_ONCE,
    PQ_REQUANTIZE_TWICE,
    PQ_REQUANTIZE_NONE /* no kernel */
};

struct pq_requantize_run {
    enum pq_requantize_kind kind;
    enum pq_type out;
    int each, shifts, clips;
    int shrinks; /* all r are less than 1: products are within int32; or all have `half` */
    size_t group;
    int64_t lowest, highest;       /* codes less the zero point, ... */
    int32_t zero;                  /* ... and that */
    int32_t least_bias, most_bias; /* both 0: none */
    const float *r;
    const int32_t *bias, *most, *left, *m, *half, *right;
};

/* 0, and what is written means nothing, where a sum may be more than int32 holds. */
typedef int pq_requantize_fn(const struct pq_requantize_run *how, const void *x, void *y,
                             size_t n);
/* Numbers between levels, see levels.h: the parameters of `each` element, or in the first
 * 64 places of each array those of all. After them there are 64 more that may be read. */
struct pq_levels {
    const float *low, *high, *slope, *shift, *step, *first;
    int each;
};
typedef void pq_levels_fn(const struct pq_levels *levels, const void *x, void *y, size_t n);

/*
 * Numbers that come back of quantizing float32, half to even, to integers from `lowest` to
 * `highest` of 1 or 2 `bytes`, and of dequantizing these. `mask` gets 1 where the quotient
 * rounded and the zero point are within that, else 0: bytes that lie as the elements of
 * `out` do.
 */
struct pq_fake_quantize {
    int bytes;
    int32_t lowest, highest;
    char *mask; /* null: none */
    const char *out;
};

/* Bits of the largest magnitude of float32 numbers, at least PQ_MAGNITUDES; those of NaN
 * are larger than those of infinity. */
enum { PQ_MAGNITUDES = 64 };
typedef uint32_t pq_magnitude_fn(const void *x, size_t n);

/* What has kernels of extrema, and its place among them. */
#define PQ_FOR_EXTREMA(X) PQ_FOR_REAL(X) X(F64, )
enum { PQ_F64_ROW = PQ_REALS, PQ_EXTREMA };

/*
 * Sums of float64, the same at every level: element i of a run goes to lane i %
 * PQ_SUM_LANES; at the end of a run halves of the lanes are added to each other until one
 * is left. Pointers to elements need no alignment. What has two versions has one for
 * float32 and one for float64.
 */
enum { PQ_SUM_LANES = 16, PQ_SUM_PIECE = 1024 };

/* Of x, y and e = x - y; `most` are the largest magnitudes of e. */
struct pq_lanes {
    double xx[PQ_SUM_LANES], yy[PQ_SUM_LANES], xy[PQ_SUM_LANES];
    double e[PQ_SUM_LANES], ee[PQ_SUM_LANES], most[PQ_SUM_LANES];
};

/* Add elements, of which the first belongs to lane 0. */
typedef void pq_errors_fn(const void *x, const void *y, size_t n, struct pq_lanes *lanes);

/* What they come to. */
struct pq_total {
    double xx, yy, xy, e, ee, most;
};
typedef void pq_total_fn(const struct pq_lanes *lanes, struct pq_total *total);

/* Scales to try on float32 numbers from `lowest` to `highest`, and integers less their zero
 * points that bound the codes, of at most 8 bits if `narrow`. */
struct pq_grid {
    size_t count;
    const float *scale, *lo, *hi;
    float lowest, highest;
    bool narrow;
    /* Whether these are all numbers, so that scales need not be tried of which it is known
     * that their sum is not the least, or not the first of the least. */
    bool whole;
};

/* Add to each of the sums that of w (q s - x)^2, of at most PQ_SUM_PIECE elements, where q
 * s and its difference from x are rounded to float32; no `w`: 1. Infinite are those of what
 * was not tried, which may depend on the level: the first of the least is none of them. */
typedef void pq_grid_fn(const struct pq_grid *grid, const void *x, const double *w,
                        size_t n, double *sums);

/* Add sums of w (x q) and w (q q) for the codes, less their zero point, of the first scale.
 */
typedef void pq_fit_codes_fn(const struct pq_grid *grid, const void *x, const double *w,
                             size_t n, double sums[2]);

/* The same of given q; and the sum of w ((y - x) unit)^2, of float32 without the unit. All
 * of at most PQ_SUM_PIECE elements. */
typedef void pq_fit_fn(const void *x, const void *q, const double *w, size_t n,
                       double sums[2]);
typedef double pq_squares_fn(const void *x, const void *y, const double *w, size_t n,
                             double unit);

/* float32 numbers of float16 ones. */
typedef void pq_widen_fn(float *to, const void *from, size_t n);

struct pq_sums {
    pq_errors_fn *errors[2];
    pq_total_fn *total;
    pq_widen_fn *widen; /* null: one at a time is as good */
    pq_fit_fn *fit[2];
    pq_squares_fn *squares[2];
    pq_grid_fn *grid;
    pq_fit_codes_fn *fit_codes;
};

/*
 * Numbers of `blocks` blocks of weights, which follow each other, to float32; no alignment.
 * NaN is canonical. `to`: multiples of 32 such numbers as other types, aligned.
 */
typedef void pq_decode_fn(const uint8_t *x, void *y, size_t blocks);
typedef void pq_narrow_fn(const float *x, void *y, size_t n);
enum { PQ_LONG_CALL = 1 << 16 };

/* The same blocks of finite numbers, which are aligned. Every byte is written. */
typedef void pq_encode_fn(const float *x, uint8_t *y, size_t blocks);

/* How blocks are searched for: of which format, PQ_BLOCK_<name>, and of how many bytes.
 * `mean`: of the squares of a row, where PQ_BLOCK_Q4_0 to Q5_1 have weights. `asked`:
 * whether IQ4_NL without weights shall be searched for, too. */
struct pq_gguf_search {
    int place, bytes;
    float mean;
    bool asked;
};

/*
 * The same by a search: what an error counts comes from `weights` of at least 0, as many as
 * numbers, or, if that is null, from the numbers alone.
 */
typedef void pq_block_search_fn(const struct pq_gguf_search *how, const float *x,
                                const float *weights, uint8_t *y, size_t blocks);

struct pq_gguf_kernels {
    pq_decode_fn *decode[PQ_GGUF_FORMATS];
    pq_encode_fn *encode[PQ_GGUF_FORMATS]; /* null: not made of numbers */
    pq_narrow_fn *to_f16, *to_bf16, *to_f64;
    pq_block_search_fn *search;
};

/* Return the kernel that converts float32 to a real type, or NULL for float32. */
static inline pq_narrow_fn *pq_narrow_to(const struct pq_gguf_kernels *records,
                                         enum pq_type type)
{
    return type == PQ_F16    ? records->to_f16
           : type == PQ_BF16 ? records->to_bf16
           : type == PQ_F64  ? records->to_f64
                             : NULL;
}

/* See codebook.h: codes are bytes, and parameters as those of general kernels. */
struct pq_books {
    pq_kernel_fn *quantize, *dequantize;
};

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
    /* The same for codes of 64 bits, but for their zero points; those to quantize with a
     * struct pq_affine heed its policies, too. */
    pq_kernel_fn *quantize_int64;
    pq_kernel_fn *dequantize_int64;
    pq_kernel_fn *quantize_affine; /* see struct pq_affine; any types and groups */
    pq_kernel_fn *dequantize_affine;
    /* The same as dequantize_packed, and offsets after that; null: by way of bytes. */
    pq_kernel_fn *dequantize_affine_packed[2][PQ_REALS];
    /* Stochastic rounding, of any types: all under one pair of parameters, or with a pair
     * each. */
    pq_kernel_fn *quantize_stochastic;
    pq_random_words_fn *random_words;
    /* Integers of 4 and 2 bits are computed as int8 and uint8: `extend` makes these of the
     * low bits of a byte, `unpack` of packed bytes; `narrow` saturates, in place or not,
     * and leaves the low bits. `pack` takes low bits, [0] four, [1] two of them. */
    pq_bytes_fn *extend[PQ_NARROWS];
    pq_bytes_fn *unpack[PQ_NARROWS];
    pq_bytes_fn *narrow[PQ_NARROWS];
    pq_bytes_fn *pack[2];
    pq_unpack_words_fn *unpack_words;
    /* As that of records, for calls of at least PQ_LONG_CALL numbers; null: none. */
    pq_narrow_fn *long_to_bf16;
    pq_transpose_fn *transpose[4];            /* of elements of 1, 2, 4 and 8 bytes */
    pq_pixels_fn *split_pixels, *join_pixels; /* null: none */
    pq_minmax_fn *minmax[PQ_EXTREMA];
    pq_minmax_grp_fn *minmax_groups[PQ_EXTREMA];
    pq_minmax_vec_fn *minmax_columns[PQ_EXTREMA];
    pq_choose_fn *choose_middle, *choose_asymmetric;
    pq_requantize_fn *requantize;
    pq_levels_fn *levels;
    pq_kernel_fn *fake_quantize; /* see struct pq_fake_quantize */
    pq_magnitude_fn *magnitude;
    const struct pq_sums *sums;
    const struct pq_gguf_kernels *records;
    const struct pq_books *books;
    /* The same from packed codes of 4 bits, as dequantize_packed takes them or with the
     * first of two in the upper half, by 16 values times scales to float32; null: by way of
     * bytes. */
    pq_kernel_fn *book_packed;
};

extern const struct pq_kernels pq_kernels_scalar, pq_kernels_avx2, pq_kernels_avx512,
    pq_kernels_neon;

/* Round quotients to the integers or narrow floats that stochastic rounding draws. */
typedef void pq_round_stochastic_fn(const struct pq_run *run, double *q, size_t n);

/* Quantize in one pass. Give every part that needs more than one pass to `fallback`. */
typedef void pq_direct_fn(const struct pq_run *run, const void *x, void *y, size_t n,
                          pq_kernel_fn *fallback);

/* Compute the quotients of at most GENERAL_TILE elements, as the general kernels do. */
typedef void pq_quotients_fn(const struct pq_run *run, double *q, const char *x,
                             const double *scale, const double *zero, size_t n);

/* Write the fill code of each NaN, see struct pq_affine. */
typedef void pq_fill_fn(const struct pq_run *run, uint64_t *codes, const uint8_t *is_nan,
                        size_t n);

/* Replace the numbers of the codes `fill` by NaN. */
typedef void pq_write_nan_fn(const struct pq_affine *affine, void *numbers,
                             const uint64_t *codes, size_t n, uint64_t fill);

/*
 * PQ_NAME(name) is the name of a function of the instruction set PQ_ISA. Each file of an
 * instruction set defines PQ_ISA before it includes this header.
 */
#define PQ_NAME(name) PQ_JOIN(PQ_JOIN(pq, PQ_ISA), name)
#define PQ_JOIN(a, b) PQ_JOIN_EXPANDED(a, b)
#define PQ_JOIN_EXPANDED(a, b) a##_##b

#ifdef PQ_ISA
/* The table of this file. The table of one instruction set may hold kernels of another. */
#  ifndef PQ_TABLE_ISA
#    define PQ_TABLE_ISA PQ_ISA
#  endif
#  define PQ_TABLE PQ_JOIN(pq_kernels, PQ_TABLE_ISA)

/* The functions that files of an instruction set share. */
extern pq_kernel_fn PQ_NAME(quantize_affine), PQ_NAME(dequantize_affine);
extern pq_direct_fn PQ_NAME(quantize_direct);
extern pq_kernel_fn PQ_NAME(quantize_int64), PQ_NAME(dequantize_int64);
extern pq_quotients_fn PQ_NAME(divide_f64);
extern pq_fill_fn PQ_NAME(fill_int64);
extern pq_write_nan_fn PQ_NAME(write_nan_int64);
extern pq_kernel_fn PQ_NAME(quantize_stochastic);
extern pq_random_words_fn PQ_NAME(random_words);
extern pq_round_stochastic_fn PQ_NAME(round_stochastic);
extern pq_kernel_fn PQ_NAME(fake_quantize);
extern pq_levels_fn PQ_NAME(levels);
extern pq_magnitude_fn PQ_NAME(magnitude);
extern pq_pixels_fn PQ_NAME(split_pixels), PQ_NAME(join_pixels);
extern pq_requantize_fn PQ_NAME(requantize);
extern pq_block_search_fn PQ_NAME(block_search);
extern pq_transpose_fn PQ_NAME(transpose_1), PQ_NAME(transpose_2), PQ_NAME(transpose_4),
    PQ_NAME(transpose_8);
extern const struct pq_sums PQ_NAME(sums);
extern const struct pq_gguf_kernels PQ_NAME(records);
extern const struct pq_books PQ_NAME(books);
#endif

#endif
