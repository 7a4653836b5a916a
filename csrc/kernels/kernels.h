/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Types of kernels and of their parameters. A kernel processes one contiguous run of
 * elements, without shape and strides. Each instruction set fills one `struct pq_kernels`.
 * Tests compare the results of all instruction sets.
 */
#ifndef PQ_KERNELS_H
#define PQ_KERNELS_H

/* Include these headers of kernels before PQ_TARGET_BEGIN. */
#include <math.h>
#include <string.h>

#include "args.h"
#include "blocks/formats.h"
#include "pq.h"
#include "types.h"

/* The lists below expand PQ_PAIR(real, code) for each pair of types with its own kernels.
 * All other pairs use general kernels or kernels of 64-bit codes. */
#define PQ_WITH_F32(code, ...) PQ_PAIR(F32, code)
#define PQ_WITH_F16(code, ...) PQ_PAIR(F16, code)
#define PQ_WITH_BF16(code, ...) PQ_PAIR(BF16, code)
#define PQ_FOR_CODE_PAIR                                                                   \
    PQ_FOR_CODE(PQ_WITH_F32) PQ_FOR_CODE(PQ_WITH_F16) PQ_FOR_CODE(PQ_WITH_BF16)
#define PQ_FOR_32_BIT_PAIR                                                                 \
    PQ_FOR_32_BIT(PQ_WITH_F32) PQ_FOR_32_BIT(PQ_WITH_F16) PQ_FOR_32_BIT(PQ_WITH_BF16)
/* PQ_FOR_SHARED_PAIR lists pairs of types with one dequantize kernel for AVX2 and AVX-512,
 * because an AVX-512 kernel is not faster. PQ_FOR_OWN_PAIR lists all other pairs. */
#define PQ_FOR_SHARED_PAIR PQ_FOR_CODE(PQ_WITH_F32) PQ_FOR_CODE(PQ_WITH_F16)
#define PQ_FOR_OWN_PAIR PQ_FOR_CODE(PQ_WITH_BF16) PQ_FOR_32_BIT_PAIR PQ_FOR_FLOAT_PAIR
#define PQ_FOR_FLOAT_PAIR                                                                  \
    PQ_FOR_FLOAT(PQ_WITH_F32) PQ_FOR_FLOAT(PQ_WITH_F16) PQ_FOR_FLOAT(PQ_WITH_BF16)

enum { PQ_PACKED_GROUP = 32, PQ_MIN_GAPPED_GROUP = 32, PQ_MAX_GAPPED_GROUP = 1024 };

/* Further values of `round` in kernels of pairs, which are the kernels for one real type
 * and one code type. Both modes round half to even. */
enum {
    PQ_ROUND_NARROWED = PQ_ROUND_COUNT, /* round the quotient to the input type first */
    PQ_ZERO_FIRST,                      /* add the zero point before rounding */
    PQ_PAIR_ROUND_COUNT
};

/* Return true if the kernel that quantizes this pair of types supports a value of `round`.
 * The kernels contain loops for these values only. */
PQ_INLINE bool pq_has_pair_round(enum pq_type in, enum pq_type code, int round)
{
    if (pq_is_narrow_float(code) || pq_bytes_of(code) > 2) {
        return round == PQ_HALF_EVEN;
    }
    return round == PQ_ZERO_FIRST       ? in == PQ_F32 && pq_bytes_of(code) == 1
           : round == PQ_ROUND_NARROWED ? in != PQ_F32
                                        : round < PQ_ROUND_COUNT && round != PQ_STOCHASTIC;
}

struct pq_run;
struct pq_tile_steps;         /* ops/fake_quantize.c */
struct pq_requantization_job; /* ops/requantize.c */

/* Process `n` elements: read `x` and write `y`. A kernel of a pair computes float32
 * quotients, and supports the rounding modes of pq_has_pair_round(). */
typedef void pq_kernel_fn(const struct pq_run *run, const void *x, void *y, size_t n);

/* The stages that affine kernels add before and after the kernel `inner_kernel`. The inner
 * kernel reads values of the type `carrier` to quantize, and writes values of this type to
 * dequantize. `carrier` is float32 or float64. */
struct pq_affine {
    pq_kernel_fn *inner_kernel;
    /* Kernel that quantizes input of type `real` without stages. Null if a stage must
     * change the input first. */
    pq_kernel_fn *plain_kernel;
    enum pq_type real, carrier, code; /* `real`, `code`: element types */
    int16_t bits;    /* bits of a code: fewer than its type has, if a layout packs codes */
    int16_t options; /* affine options of the call: bits PQ_OPTION_<name> */
    bool has_offset; /* subtract the offset before quantizing, add it after dequantizing */
    bool inverse;    /* multiply by the scale to quantize, divide by it to dequantize */
    bool clips;      /* clip integers to `range` */
    bool wraps;      /* wrap integers out of range, modulo the number of codes */
    bool counts;     /* count integers out of range */
    bool counts_nan; /* count NaN that no fill code replaces */
    struct pq_range range; /* range of codes; uint64 limits are stored as int64 */
    size_t fills;          /* number of fill codes; quantize writes the first one for NaN */
    const int64_t *fill;
};

/* Detection of codes out of range. `loop` computes a tile, and raises `largest` to the
 * largest difference of a code and the lowest code, as an unsigned integer. With PQ_WRAP,
 * the sums of rounded quotient + WRAP_LIMIT - 1 replace the differences. `finish` then
 * counts, wraps or fills the codes of the tile. */
struct pq_watch {
    uint32_t largest;
    pq_kernel_fn *loop, *finish;
};

/* The parameters of a kernel call and the options of the operation. Each group of `group`
 * elements has one scale and one zero point. The last group may be short.
 *
 * If `group` is 1, kernels other than the general kernels accept several `rows` with equal
 * parameters, and check the parameters once. Groups with gaps between them are complete and
 * have at least PQ_MIN_GAPPED_GROUP elements. Runs of general kernels have no gaps.
 *
 * For narrow floats and for PQ_ZERO_FIRST, `zero` holds the bits of float32 values. Kernels
 * add these values to quotients or to values of codes; -0 changes nothing. Kernels of
 * 32-bit integers do not read `zero`, because the zero points of 32-bit codes are 0. */
struct pq_run {
    size_t group;
    union {
        const float *f32;
        const double *f64;  /* general kernels */
        const int32_t *i32; /* requantize: integer multipliers */
    } scale;
    union {
        const int32_t *i32;
        const double *f64;   /* general kernels */
        const uint64_t *u64; /* for 64-bit codes: int64 in two's complement, or uint64 */
    } zero;
    union {
        const float *f32;
        const double *f64;
        const int32_t *i32;         /* requantize: shifts */
    } offset;                       /* affine kernels: floats of the type of `scale` */
    const struct pq_affine *affine; /* affine kernels */
    union {
        const struct pq_tile_steps *tile_steps;       /* ops/fake_quantize.c only */
        const struct pq_fake_quantize *fake_quantize; /* the kernel fake_quantize */
        const struct pq_codebook *book;               /* kernels of codebooks */
        struct pq_watch *watch;                       /* affine kernels only */
        struct pq_requantization_job *requantize;     /* ops/requantize.c only */
        const struct pq_kernels *kernels;             /* ops/levels.c only */
    };
    size_t *out_of_range;            /* affine kernels: counter of values out of range */
    size_t rows;                     /* number of rows; 0: one row */
    ptrdiff_t in_stride, out_stride; /* distance of row starts in bytes */
    ptrdiff_t in_gap, out_gap;       /* size of gaps between groups in bytes */
    enum pq_type in, out; /* types of elements; most kernels of pairs ignore both */
    enum pq_type compute; /* type of the quotient, or of the product */
    enum pq_round round;  /* quantize: rounding mode, PQ_ROUND_NARROWED or PQ_ZERO_FIRST */
    bool exceeds_cache;   /* the data exceeds the near caches */
    bool zero_first;      /* quantize, general kernels: add zero points before rounding */
    bool overflow;        /* quantize to narrow floats: `overflow` of struct pq_args */
    bool narrow_first;    /* general kernels: `narrow_first` of struct pq_args */
    bool unsigned_zero;   /* dequantize 64-bit codes: zero points are uint64 */
    bool general;         /* parameters have 8 bytes: float64, or uint64 zero points */
    bool inverse;         /* narrow floats, codebooks: `inverse` of struct pq_args */
    bool high_first;      /* packed codebooks: the result of pq_is_high_first() */
    const uint32_t *random_words; /* PQ_STOCHASTIC: one random word for each element */
};

/* Return true if each element of a row has its own parameters. */
PQ_INLINE bool pq_has_element_groups(const struct pq_run *run)
{
    return run->group == 1;
}

/* Make the parameters of group `k` of `from` the first parameters of `to`. `offset` may be
 * null. */
PQ_INLINE void pq_set_first_group(struct pq_run *to, const struct pq_run *from, size_t k)
{
    const size_t words = from->general ? 2 * k : k;
    to->scale.f32 = from->scale.f32 + words;
    to->zero.i32 = from->zero.i32 + words;
    to->offset.f32 = from->offset.f32 == NULL ? NULL : from->offset.f32 + words;
}

/* Call `kernel` with tiles of at most `room` elements. A tile has complete groups, or a
 * part of one group. Only if `has_gaps` is set, a tile can have gaps between groups, or
 * several rows. `in` and `out` are the numbers of bytes of an input and of an output
 * element. kernels/tiles.c defines the function. */
void pq_run_tiles(pq_kernel_fn *kernel, size_t room, bool has_gaps,
                  const struct pq_run *run, const char *x, size_t in, char *y, size_t out,
                  size_t n);

/* Load an integer of three bytes, the lowest first. */
PQ_INLINE int32_t pq_load_i24(const char *from)
{
    const unsigned char *const byte = (const unsigned char *)from;
    const int32_t code = byte[0] | byte[1] << 8 | byte[2] << 16, sign = 1 << 23;
    return (code ^ sign) - sign;
}

/* Saturate an int32 to 24 bits, and store three bytes, the lowest first. */
PQ_INLINE void pq_store_i24(char *to, const char *from)
{
    const int32_t most = (1 << 23) - 1;
    int32_t code;
    memcpy(&code, from, sizeof code);
    code = code < most ? code : most;
    code = code > -most - 1 ? code : -most - 1;
    to[0] = (char)code;
    to[1] = (char)(code >> 8);
    to[2] = (char)(code >> 16);
}

/* Write the random 32-bit words of `n` positions: see `seed` of struct pq_args. Successive
 * positions differ by `step`, modulo 2^64. */
typedef void pq_random_words_fn(uint32_t *to, uint64_t seed, uint64_t first, uint64_t step,
                                size_t n);

/* Dequantize `n` int32 codes. The scale of code i is by * scales[i]. Add offsets unless
 * `offsets` is null. `n` is at least PQ_MIN_ROW. `x` and `y` do not overlap. */
enum { PQ_MIN_ROW = 32 };
typedef void pq_row_scales_fn(const void *x, void *y, float by, const float *scales,
                              const float *offsets, size_t n);

/* Convert `n` codes of fewer than 8 bits. See list.h for the formats of `x` and `y`. */
typedef void pq_bytes_fn(const void *x, void *y, size_t n);

/* Write one byte for each of `n` 32-bit words: word >> shift & mask. */
typedef void pq_unpack_words_fn(const void *words, int shift, int mask, void *y, size_t n);

/* Transpose: copy element (r, c) of s bytes from `from + r * s + c * from_stride` to
 * `to + r * to_stride + c * s`. */
typedef void pq_transpose_fn(const char *from, ptrdiff_t from_stride, char *to,
                             ptrdiff_t to_stride, size_t rows, size_t columns);

/* split_pixels copies pixels of `channels` elements to one row for each channel;
 * join_pixels copies rows to pixels. An element has `size` bytes: 1, 2 or 4. The strides
 * are distances of the starts of pixels, or of the starts of rows, in bytes. Return the
 * number of copied pixels, which can be less than `n`. The caller copies the remaining
 * pixels. */
typedef size_t pq_pixels_fn(const char *from, ptrdiff_t from_stride, char *to,
                            ptrdiff_t to_stride, size_t channels, size_t n, size_t size);

/* Merge the extrema of a run into *lo and *hi, which are float64 for float64 data, else
 * float32. If the run contains a NaN or an infinity, raise *bits to at least 0x7f800000,
 * the bits of the float32 infinity. */
typedef void pq_minmax_fn(const void *x, size_t n, void *lo, void *hi, uint32_t *bits);

/* Write the extrema of each group to `lo` and `hi`. There are `groups` groups of `g`
 * elements. */
typedef void pq_minmax_groups_fn(const void *x, size_t groups, size_t g, void *lo, void *hi,
                                 uint32_t *bits);
/* Merge the extrema of each of `n` columns into `lo` and `hi`. There are `rows` rows, which
 * start `stride` bytes apart. */
typedef void pq_minmax_columns_fn(const void *x, ptrdiff_t stride, size_t rows, size_t n,
                                  void *lo, void *hi, uint32_t *bits);

/* Choose scales and zero points for `n` pairs of extrema. `n` is at most PQ_CHOSEN, and
 * codes are from `lowest` to `highest`. Return 0 if the caller must use its exact method
 * instead. This happens if the width of a range (choose_asymmetric) or its largest
 * magnitude (choose_middle) is not between `least` and `most`. It also happens if the codes
 * cannot represent an extremum within half a step. */
enum { PQ_CHOSEN = 64 };
struct pq_reach {
    double lowest, highest, middle, least, most;
};
typedef int pq_choose_fn(const struct pq_reach *to, const float *los, const float *his,
                         float *scale, uint32_t *zero, size_t n);

/* Parameters to requantize int32 sums to codes of 8, 16 and 32 bits. There are `lines`
 * lines of elements. Element i of every line uses parameter i if `per_element` is set.
 * Otherwise all elements of line i use parameter i. v is the sum of an element and its
 * bias. The result before limits and zero point is:
 *
 *     PQ_REQUANTIZE_F32    v * r in float32, half to even
 *     PQ_REQUANTIZE_ONCE   ((((v << left) * m >> 32) >> right) + 1) >> 1
 *     PQ_REQUANTIZE_TWICE  (((x - (x < 0)) >> right) + 1) >> 1, or x if `down` is negative,
 *                          with x = ((v << left) * 2 * m + 2^31) >> 32
 *
 * `right` is `down`, or 0 if `down` is negative. `left` is `-down`, or 0 if `down` is
 * positive. Kernels saturate the left shift, and `left` is at most 30.
 *
 * If `doubled` is set, the array `m` contains the lower 32 bits of 2 * m, where m is 0 or
 * at least 2^30. For PQ_REQUANTIZE_ONCE, all `down` are then negative, and `left` is `1 -
 * down`. PQ_REQUANTIZE_TWICE requires `doubled`, with `left` equal to `-1 - down`.
 *
 * Results of type int32 have no left shift. The single rounding uses 64 bits for these
 * results. `right` is then `down` + 33, or `down` + 32 with `doubled`, and is from 1 to 62.
 *
 *     PQ_REQUANTIZE_ONCE   (v * m + 2^(right - 1)) >> right
 *
 * The limits `lowest` and `highest` exclude the zero point. For int32 results they may be
 * outside int32. For PQ_REQUANTIZE_TWICE, at least one int32 is within the limits. */
enum pq_requantize_kind {
    PQ_REQUANTIZE_F32,
    PQ_REQUANTIZE_ONCE,
    PQ_REQUANTIZE_TWICE,
    PQ_REQUANTIZE_NONE /* no kernel */
};

struct pq_requantize_run {
    enum pq_requantize_kind kind;
    enum pq_type out;
    bool per_element, clips, doubled;
    bool biased;             /* false: `bias` is 0 everywhere */
    bool shifts;             /* at least one element of `down` is negative */
    bool shrinks;            /* all r are less than 1, so products fit int32 */
    int32_t zero;            /* the zero point */
    int32_t least, most;     /* limits of elements, so that all sums fit int32 */
    int64_t lowest, highest; /* limits of the codes, minus the zero point */
    size_t lines;
    ptrdiff_t in_stride, out_stride; /* distance of line starts in bytes */
    union {
        const float *r;
        const int32_t *m;
    };
    const int32_t *down, *bias; /* PQ_REQUANTIZE_F32 ignores `down` */
};

/* Requantize lines of `n` elements. Return 0 if an element is not within `least` and
 * `most`; the output is then undefined. */
typedef int pq_requantize_fn(const struct pq_requantize_run *how, const void *x, void *y,
                             size_t n);

/* Parameters of the OpenVINO levels, see levels.h. If `per_element` is set, element i uses
 * the parameters at index i. Otherwise all elements use the same parameters, which are
 * repeated at the first 64 indices. The arrays have 64 extra elements at the end, because
 * kernels load complete chunks. */
struct pq_levels {
    const float *low, *high, *slope, *shift, *step, *first;
    int per_element;
};
typedef void pq_levels_fn(const struct pq_levels *levels, const void *x, void *y, size_t n);

/* Parameters to quantize float32, half to even, to integers from `lowest` to `highest`, and
 * to dequantize these integers. An integer has `bytes` bytes: 1 or 2. Byte i of `mask`
 * belongs to element i of `out`. The kernel writes 1 if the rounded quotient plus the zero
 * point is in range, else 0. */
struct pq_fake_quantize {
    int bytes;
    int32_t lowest, highest;
    char *mask; /* null: no mask */
    const char *out;
};

/* Return the float32 bits of the largest magnitude of `n` float32 values. `n` is at least
 * PQ_MAGNITUDES. NaN has larger bits than infinity. */
enum { PQ_MAGNITUDES = 64 };
typedef uint32_t pq_magnitude_fn(const void *x, size_t n);

/* The types with kernels for extrema. pq_extrema_row() returns the index of a type in the
 * tables of these kernels. */
#define PQ_FOR_EXTREMA(X) PQ_FOR_REAL(X) X(F64, )
enum { PQ_F64_ROW = PQ_REALS, PQ_EXTREMA };
PQ_INLINE int pq_extrema_row(enum pq_type real)
{
    return real == PQ_F64 ? (int)PQ_F64_ROW : pq_row_of(real);
}

PQ_INLINE enum pq_type pq_real_of(bool is_f64)
{
    return is_f64 ? PQ_F64 : PQ_F32;
}

/* Return extremum `k`. pq_extremum() returns the address of extremum `k`. */
PQ_INLINE double pq_extremum_at(const void *extrema, bool is_f64, size_t k)
{
    return is_f64 ? ((const double *)extrema)[k] : (double)((const float *)extrema)[k];
}
PQ_INLINE void *pq_extremum(void *extrema, bool is_f64, size_t k)
{
    return (char *)extrema + k * (is_f64 ? sizeof(double) : sizeof(float));
}

/* Set `n` pairs of extrema to empty intervals, from infinity to -infinity. */
PQ_INLINE void pq_clear_extrema(void *lowest, void *highest, bool is_f64, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (is_f64) {
            ((double *)lowest)[k] = HUGE_VAL;
            ((double *)highest)[k] = -HUGE_VAL;
        } else {
            ((float *)lowest)[k] = INFINITY;
            ((float *)highest)[k] = -INFINITY;
        }
    }
}

/*
 * Sums in float64 are equal on every instruction set, because the order of the additions is
 * fixed. Element i of a run belongs to lane i % PQ_SUM_LANES. At the end of a run, the
 * upper half of the remaining lanes is added to the lower half, until one lane is left.
 * Elements need no alignment. In an array of two kernels, index 0 is for float32 and index
 * 1 for float64.
 */
enum { PQ_SUM_LANES = 16, PQ_SUM_ELEMENTS = 1024 };

/* Sums of x x, y y, x y, e and e e, where e = x - y, and the largest magnitudes of e
 * (`most`). */
struct pq_lanes {
    double xx[PQ_SUM_LANES], yy[PQ_SUM_LANES], xy[PQ_SUM_LANES];
    double e[PQ_SUM_LANES], ee[PQ_SUM_LANES], most[PQ_SUM_LANES];
};

/* Add `n` elements to the lanes. The first element belongs to lane 0. */
typedef void pq_errors_fn(const void *x, const void *y, size_t n, struct pq_lanes *lanes);

/* Each member is the sum of the lanes of equal name, but `most` is the maximum of the
 * lanes. */
struct pq_total {
    double xx, yy, xy, e, ee, most;
};
typedef void pq_total_fn(const struct pq_lanes *lanes, struct pq_total *total);

/* `count` candidate scales for float32 values from `lowest` to `highest`. For each scale,
 * `lo` and `hi` are the limits of the codes minus the zero point. If `narrow` is set, codes
 * have at most 8 bits. */
struct pq_grid {
    size_t count;
    const float *scale, *lo, *hi;
    float lowest, highest;
    bool narrow;
    /* True if the data is a complete group. The kernel may then skip a scale that cannot be
     * the first scale with the smallest sum. */
    bool covers_group;
};

/* Add to the sum of each scale s the sum of w (q s - x)^2 over at most PQ_SUM_ELEMENTS
 * elements. q is the code of x with the scale s, minus the zero point. q s and q s - x are
 * rounded to float32. Without `w`, weights are 1. Sums of skipped scales become infinite.
 * Instruction sets may skip different scales, but never the first scale with the smallest
 * sum. */
typedef void pq_grid_fn(const struct pq_grid *grid, const void *x, const double *w,
                        size_t n, double *sums);

/* Add the sums of w (x q) and w (q q) to `sums`. q is the code of x with the first scale,
 * minus the zero point. */
typedef void pq_fit_codes_fn(const struct pq_grid *grid, const void *x, const double *w,
                             size_t n, double sums[2]);

/* Add the sums of w (x q) and w (q q) over at most PQ_SUM_ELEMENTS elements to `sums`. The
 * caller passes q, codes minus the zero point. */
typedef void pq_fit_fn(const void *x, const void *q, const double *w, size_t n,
                       double sums[2]);
/* Return the sum of w ((y - x) unit)^2 over at most PQ_SUM_ELEMENTS elements. The kernel
 * for float32 ignores `unit`. */
typedef double pq_squares_fn(const void *x, const void *y, const double *w, size_t n,
                             double unit);

typedef void pq_widen_fn(float *to, const void *from, size_t n);

/* Decode `blocks` successive GGUF blocks to float32. Memory needs no alignment. A NaN
 * result is the canonical NaN. */
typedef void pq_decode_fn(const uint8_t *x, void *y, size_t blocks);

/* Convert `n` aligned float32 values to the type in the kernel's name. Each NaN must be the
 * canonical NaN. `n` is a multiple of 32. */
typedef void pq_narrow_fn(const float *x, void *y, size_t n);

/* Encode finite, aligned float32 values to `blocks` GGUF blocks, and write every byte. */
typedef void pq_encode_fn(const float *x, uint8_t *y, size_t blocks);

/* Parameters of a search for the scales of blocks. `place` is the format, PQ_BLOCK_<name>.
 * `bytes` is the size of a block. `mean` is the mean of the squares of a row; only Q4_0 to
 * Q5_1 use the mean, and only with weights. `asked` is true if the caller requests the
 * search for IQ4_NL without weights. */
struct pq_gguf_search {
    int place, bytes;
    float mean;
    bool asked;
};

/* Encode by a search that minimizes the weighted squared error. `weights` has one weight of
 * at least 0 for each value. If `weights` is null, the search computes weights from the
 * values. */
typedef void pq_gguf_search_fn(const struct pq_gguf_search *how, const float *x,
                               const float *weights, uint8_t *y, size_t blocks);

/* PQ_BOOK is the length of the arrays of struct pq_codebook. PQ_SMALL_BOOK is the largest
 * number of values for which the search tree has 4 levels. */
enum { PQ_BOOK = 256, PQ_SMALL_BOOK = 16 };

/*
 * Kernels of struct pq_codebook. Codes are bytes, and parameters are float64. `value` has
 * the table, repeated up to PQ_BOOK elements, so that the upper bits of a byte do not
 * matter. `code` has the codes in ascending order of their values. The position of a number
 * in this order is the number of midpoints less than it. A number equal to a midpoint gets
 * the lower position, and NaN gets position 0.
 *
 * `bound` has the midpoints of neighbouring values, as a binary tree of depth `levels`: 4
 * for at most PQ_SMALL_BOOK values, else 8; 0 if the struct has not been filled in. The
 * search starts with k = 1. It goes to 2 k + 1 if bound[k] is less than the number, else to
 * 2 k. At the end, k is 2^levels + position. Unused bounds are infinite.
 */

/* The kernels of an instruction set: see list.h. */
struct pq_kernels {
    const char *name;
#define KERNEL(member, type, dimensions, ...) type *member dimensions;
#include "kernels/list.h"
};

/* Return the kernel that converts float32 to a real type, or NULL for float32. */
static inline pq_narrow_fn *pq_narrow_to(const struct pq_kernels *kernels,
                                         enum pq_type type)
{
    return type == PQ_F16    ? kernels->to_f16
           : type == PQ_BF16 ? kernels->to_bf16
           : type == PQ_F64  ? kernels->to_f64
                             : NULL;
}

extern const struct pq_kernels pq_kernels_scalar, pq_kernels_avx2, pq_kernels_avx512,
    pq_kernels_neon;

/* Round `n` quotients to integers or narrow floats, in place, by stochastic rounding. */
typedef void pq_round_stochastic_fn(const struct pq_run *run, double *q, size_t n);

/* Maximum number of elements of a tile, a multiple of PQ_CHUNK. A tile and its parameters
 * fit L1. */
enum { TILE_ELEMENTS = PQ_SIZE(512, 64) };

/* Divide at most TILE_ELEMENTS elements by their scales, in the precision of the run. Add
 * the zero points if the run adds them before rounding. Return the zero points to add
 * after rounding: `zero`, or `none`, which the function fills with zeros. */
typedef const double *pq_quotients_fn(const struct pq_run *run, double *q, const char *x,
                                      const double *scale, const double *zero, double *none,
                                      size_t n);

/*
 * PQ_NAME(name) is the name of a function of the instruction set PQ_ISA. Each file of an
 * instruction set defines PQ_ISA before it includes this header.
 */
#ifdef PQ_PREFIX
#  define PQ_NAME(name) PQ_JOIN(PQ_JOIN(PQ_ADD_PREFIX(pq), PQ_ISA), name)
#else
#  define PQ_NAME(name) PQ_JOIN(PQ_JOIN(pq, PQ_ISA), name)
#endif
#define PQ_JOIN(a, b) PQ_JOIN_EXPANDED(a, b)
#define PQ_JOIN_EXPANDED(a, b) a##_##b

#ifdef PQ_ISA
/* The name of the table that the including file defines. PQ_TABLE_ISA can differ from
 * PQ_ISA, because the table may contain kernels of another instruction set. */
#  ifndef PQ_TABLE_ISA
#    define PQ_TABLE_ISA PQ_ISA
#  endif
#  define PQ_TABLE PQ_JOIN(pq_kernels, PQ_TABLE_ISA)

/* Declare the functions of the instruction set that other files call. For a row of list.h
 * with an array or a static function, the declared names have no definition and no use. */
#  define KERNEL(member, type, ...)                                                        \
      extern type PQ_NAME(member), PQ_NAME(member##_f32), PQ_NAME(member##_f64);
#  include "kernels/list.h"
#  define FORMAT(name, ...)                                                                \
      extern pq_decode_fn PQ_NAME(decode_##name);                                          \
      extern pq_encode_fn PQ_NAME(encode_##name);
PQ_FOR_BLOCK_FORMAT(FORMAT)
#  undef FORMAT
extern pq_quotients_fn PQ_NAME(divide_f64);
extern pq_round_stochastic_fn PQ_NAME(round_stochastic);
extern pq_transpose_fn PQ_NAME(transpose_1), PQ_NAME(transpose_2), PQ_NAME(transpose_4),
    PQ_NAME(transpose_8);
#endif

#endif
