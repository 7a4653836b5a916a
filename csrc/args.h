/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of arguments, and queries about zero points and options. */
#ifndef PQ_ARGS_H
#define PQ_ARGS_H

#include <stdbool.h>

#include "pq.h"
#include "pq_compiler.h"

/* Evaluate `call`. If its status is an error, return that status from the enclosing
 * function. */
#define PQ_TRY(call)                                                                       \
    do {                                                                                   \
        const enum pq_status pq_status_of_call = (call);                                   \
        if (pq_status_of_call != PQ_OK) {                                                  \
            return pq_status_of_call;                                                      \
        }                                                                                  \
    } while (0)

/* Return `status` from the enclosing function unless `condition` is true. */
#define PQ_REQUIRE(condition, status) PQ_TRY((condition) ? PQ_OK : (status))

/*
 * Compare the size of the caller's struct with the size in this version. If the sizes
 * differ, copy the struct to `room`, and set `*args` to the copy. Members that an older
 * caller lacks become 0. Members that this version does not know must be 0.
 */
enum pq_status pq_adapt_args_version(const struct pq_args **args, struct pq_args *room);

/* Copy a struct that begins with its size, and check the size like pq_adapt_args_version().
 * `size` is the size in this version, and `least` the size in the first version. `to` may
 * equal `given`. */
enum pq_status pq_copy_struct(void *to, const void *given, size_t size, size_t least);

/* Return true if an extent is 0, so that `in` and `out` have no elements. */
bool pq_is_empty(const struct pq_args *args);

/* Check the number of dimensions, the extents and the block sizes. */
enum pq_status pq_check_shape(const struct pq_args *args);

/* Check that the data of an array is not null, and that no offset of an element overflows.
 * If `blocks` is true, the array has one element for each block, like scales. */
enum pq_status pq_check_array(const struct pq_args *args, const struct pq_array *array,
                              bool blocks);

/* Check the shape, arrays, layouts and part of a call that reads `in` and writes `out`.
 * `scaled` is false if the call has no scales. Replace `*args` as pq_adapt_args_version()
 * does. */
enum pq_status pq_check_call(const struct pq_args **args, struct pq_args *room,
                             const struct pq_kernels *kernels, bool scaled, int part,
                             int parts);

/* Check the shape, and check that `array` contains real numbers and has byte strides. */
enum pq_status pq_check_reals(const struct pq_args *args, const struct pq_array *array);

static inline enum pq_status pq_check_part(int part, int parts)
{
    return part >= 0 && part < parts ? PQ_OK : PQ_ERR_PART;
}

/* Check a call that reduces the elements of each group of the real array `in`. `lowest`
 * and `highest` are the arrays of the results, indexed like scales. */
enum pq_status pq_check_reduction(const struct pq_kernels *kernels,
                                  const struct pq_args *args, const struct pq_array *lowest,
                                  const struct pq_array *highest, int part, int parts);

/* Return true if the call has no zero points, or if they have an integer type or the
 * narrow float type `code`. */
bool pq_has_valid_zero_type(const struct pq_args *args, enum pq_type code);

/* The options of struct pq_args. Each row has a name, and an expression that is 0 if the
 * call does not set the option. An option with several values has a row for each value that
 * some operation does not support. Each operation rejects a new row until the operation's
 * list below (PQ_ACCEPTS_...) contains the row. */
#define PQ_FOR_OPTION(OPTION)                                                              \
    OPTION(ROUND, args->round != PQ_HALF_EVEN && args->round != PQ_STOCHASTIC)             \
    OPTION(STOCHASTIC, args->round == PQ_STOCHASTIC)                                       \
    OPTION(PRECISION, args->precision)                                                     \
    OPTION(OVERFLOW, args->overflow)                                                       \
    OPTION(ZERO_FIRST, args->zero_first)                                                   \
    OPTION(NARROW_FIRST, args->narrow_first)                                               \
    OPTION(ANY_ZEROS, args->any_zeros)                                                     \
    OPTION(LAYOUT, args->in_layout != NULL || args->out_layout != NULL)                    \
    OPTION(OFFSET, args->offset.data != NULL)                                              \
    OPTION(INVERSE, args->inverse)                                                         \
    OPTION(FILL, args->fills != 0)                                                         \
    OPTION(RANGE, args->lowest_code | args->highest_code)                                  \
    OPTION(WRAP, args->beyond == PQ_WRAP)                                                  \
    OPTION(REFUSE, args->beyond != PQ_SATURATE && args->beyond != PQ_WRAP)                 \
    OPTION(REFUSE_NAN, args->refuse_nan == 1)                                              \
    OPTION(UNKNOWN_NAN, (unsigned)args->refuse_nan > 1) /* no operation accepts it */      \
    OPTION(SEED, (args->seed | args->start) != 0)
_Static_assert(sizeof(struct pq_args) - offsetof(struct pq_args, seed) == 16,
               "PQ_FOR_OPTION needs a row for each option of struct pq_args");
_Static_assert(PQ_ROUND_COUNT == 11 && PQ_BEYOND_COUNT == 3,
               "PQ_FOR_OPTION needs a row for each value that an operation may lack");

/* PQ_OPTION_name is the bit of an option, and PQ_OPTION_INDEX_name is the bit's index. */
enum {
#define OPTION(name, value) PQ_OPTION_INDEX_##name,
    PQ_FOR_OPTION(OPTION)
#undef OPTION
};
enum {
#define OPTION(name, value) PQ_OPTION_##name = 1 << PQ_OPTION_INDEX_##name,
    PQ_FOR_OPTION(OPTION)
#undef OPTION
        /* Options that need an affine kernel. Exception: quantizing to narrow floats does
         * not need an affine kernel if `inverse` is the only option of the list. */
        PQ_OPTIONS_AFFINE = PQ_OPTION_OFFSET |
        PQ_OPTION_INVERSE | PQ_OPTION_FILL | PQ_OPTION_RANGE | PQ_OPTION_WRAP |
        PQ_OPTION_REFUSE | PQ_OPTION_REFUSE_NAN,
    /* Options that change a tile only if a code of the tile is at a limit or out of
     * range. */
    PQ_OPTIONS_CHECKED = PQ_OPTION_FILL | PQ_OPTION_RANGE | PQ_OPTION_REFUSE |
        PQ_OPTION_REFUSE_NAN,
    /* Affine kernels do not support these options, which change the order of operations. */
    PQ_OPTIONS_OF_ORDER = PQ_OPTION_ZERO_FIRST | PQ_OPTION_NARROW_FIRST
};

/* The options that each operation accepts, for each family of codes. Every other option is
 * an error, so that no option is ignored by mistake. 64-bit codes and narrow floats have
 * rows of their own, because a new option needs new code in their kernels. */
enum {
    PQ_ACCEPTS_QUANTIZE = PQ_OPTION_STOCHASTIC | PQ_OPTION_SEED | PQ_OPTION_PRECISION |
        PQ_OPTION_NARROW_FIRST | PQ_OPTION_LAYOUT | PQ_OPTION_OFFSET | PQ_OPTION_INVERSE |
        PQ_OPTION_REFUSE | PQ_OPTION_REFUSE_NAN, /* accepted for codes of any type */
    PQ_ACCEPTS_QUANTIZE_FLOAT = PQ_ACCEPTS_QUANTIZE | PQ_OPTION_OVERFLOW,
    PQ_ACCEPTS_QUANTIZE_INT64 = PQ_ACCEPTS_QUANTIZE | PQ_OPTION_ROUND |
        PQ_OPTION_ZERO_FIRST | PQ_OPTION_FILL | PQ_OPTION_RANGE | PQ_OPTION_WRAP,
    PQ_ACCEPTS_QUANTIZE_INTEGER = PQ_ACCEPTS_QUANTIZE_INT64,
    PQ_ACCEPTS_DYNAMIC = PQ_ACCEPTS_QUANTIZE_FLOAT | PQ_ACCEPTS_QUANTIZE_INTEGER,
    PQ_ACCEPTS_REQUANTIZE_CODES = PQ_OPTION_ROUND | PQ_OPTION_SEED | PQ_OPTION_PRECISION |
        PQ_OPTION_OVERFLOW | PQ_OPTION_ZERO_FIRST | PQ_OPTION_NARROW_FIRST |
        PQ_OPTION_LAYOUT | PQ_OPTION_OFFSET | PQ_OPTION_INVERSE | PQ_OPTION_FILL |
        PQ_OPTION_RANGE | PQ_OPTION_WRAP,
    PQ_ACCEPTS_DEQUANTIZE_FLOAT = PQ_OPTION_LAYOUT | PQ_OPTION_OFFSET | PQ_OPTION_INVERSE,
    PQ_ACCEPTS_DEQUANTIZE_INT64 = PQ_ACCEPTS_DEQUANTIZE_FLOAT | PQ_OPTION_FILL |
        PQ_OPTION_ANY_ZEROS,
    PQ_ACCEPTS_DEQUANTIZE_INTEGER = PQ_ACCEPTS_DEQUANTIZE_INT64,
    PQ_ACCEPTS_MEASURE_PARAMS = PQ_OPTION_ROUND | PQ_OPTION_OVERFLOW | PQ_OPTION_OFFSET |
        PQ_OPTION_FILL | PQ_OPTION_RANGE,
    PQ_ACCEPTS_FAKE_QUANTIZE = PQ_ACCEPTS_MEASURE_PARAMS | PQ_OPTION_STOCHASTIC |
        PQ_OPTION_SEED | PQ_OPTION_PRECISION | PQ_OPTION_INVERSE,
    PQ_ACCEPTS_CODEBOOK = PQ_OPTION_LAYOUT | PQ_OPTION_INVERSE,
    PQ_ACCEPTS_REPACK = PQ_OPTION_LAYOUT,
    PQ_ACCEPTS_NONE = 0 /* for minmax, choose, search, histograms, measure and levels */
};

/* Return the bits of the options that a call sets. One test is enough for most calls, which
 * set none or only the rounding mode. */
PQ_INLINE int pq_options_of(const struct pq_args *args)
{
    const bool rounds = args->round != PQ_HALF_EVEN && args->round != PQ_STOCHASTIC;
    int options = rounds ? PQ_OPTION_ROUND : 0;
    int64_t any = 0;
#define OPTION(name, value)                                                                \
    any |= PQ_OPTION_##name != PQ_OPTION_ROUND ? (int64_t)(value) : 0;
    PQ_FOR_OPTION(OPTION)
#undef OPTION
#define OPTION(name, value) options |= (value) != 0 ? PQ_OPTION_##name : 0;
    if (any != 0) {
        PQ_FOR_OPTION(OPTION)
    }
#undef OPTION
    return options;
}

/* Return PQ_ERR_OPTION if `options`, the result of pq_options_of(), has a bit that
 * `accepted` lacks. Return PQ_ERR_NULL if `fills` is not 0, but `fill` is null. */
PQ_INLINE enum pq_status pq_check_options(const struct pq_args *args, int options,
                                          int accepted)
{
    const bool is_null = args->fills != 0 && args->fill == NULL;
    return is_null ? PQ_ERR_NULL : (options & ~accepted) != 0 ? PQ_ERR_OPTION : PQ_OK;
}

/* Return true if an affine kernel can multiply 8-bit integers by scales, and round half to
 * even to 8-bit codes. pq_check_options() rejects the options after PQ_OPTION_SEED. */
PQ_INLINE bool pq_can_rescale(const struct pq_args *args)
{
    const int accepted = PQ_OPTION_INVERSE | PQ_OPTION_OFFSET | PQ_OPTION_PRECISION |
                         PQ_OPTION_LAYOUT | PQ_OPTION_SEED | PQ_OPTIONS_OF_ORDER |
                         PQ_OPTION_OVERFLOW | PQ_OPTION_ANY_ZEROS;
    const enum pq_type in = args->in.type, out = args->out.type;
    return (in == PQ_I8 || in == PQ_U8) && (out == PQ_I8 || out == PQ_U8) &&
           args->inverse && (pq_options_of(args) & ~accepted) == 0 &&
           args->in_layout == NULL &&
           (args->precision == PQ_NO_TYPE || args->precision == PQ_F32);
}

/* Facts about the zero points of a call. The caller sets all members to 0. The first
 * function that needs the bounds reads all zero points; later functions use the bounds. The
 * bounds are not exact: if a bound exceeds a range, another pass compares all zero
 * points. */
struct pq_facts {
    bool has_bounds;       /* the two bounds below are valid */
    bool no_zeros;         /* an extent is 0 */
    int64_t zero_lowest;   /* a lower bound; 0 if all zero points are at least 0 */
    uint64_t zero_highest; /* an upper bound; both bounds are 0 if all zero points are 0 */
};

/* Return true if every zero point is within [lo, hi], or if the call has no zero points.
 * The caller has checked `args`. */
bool pq_zeros_fit(const struct pq_args *args, struct pq_facts *facts, int64_t lo,
                  int64_t hi);

/* Return true if every zero point is 0, or if the call has no zero points. */
bool pq_zeros_are_0(const struct pq_args *args, struct pq_facts *facts);

/* Like pq_zeros_fit(), with uint64 limits. If the result is false, *outside is the first
 * zero point that was found outside the limits. */
bool pq_unsigned_zeros_fit(const struct pq_args *args, uint64_t lo, uint64_t hi,
                           uint64_t *outside);

/*
 * Like pq_quantize() and pq_dequantize(), without pq_check_call(). The caller guarantees
 * that pq_check_call() accepts `args`, and that there is one dimension. The input and the
 * output are contiguous, in bytes or in bits, and all elements share one scale and one zero
 * point. These functions check types, options and the zero point.
 */
enum pq_status pq_quantize_run(const struct pq_kernels *kernels,
                               const struct pq_args *args);
enum pq_status pq_dequantize_run(const struct pq_kernels *kernels,
                                 const struct pq_args *args);

#endif
