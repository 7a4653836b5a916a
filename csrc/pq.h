/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pq.h - quantize and dequantize strided arrays, exactly and at the speed of memory.
 *
 *     quantize    out = saturate(round((in - offset) / scale) + zero)
 *     dequantize  out = (in - zero) * scale + offset
 *
 * The quotient is rounded once, as by IEEE division. The quotient becomes an integer by one
 * of ten named rounding modes or by stochastic rounding. NaN becomes the lowest integer
 * code. A code that is a narrow float is the sum of quotient and zero point, rounded half
 * to even or stochastically. NaN stays NaN if the narrow float has a NaN.
 *
 * Results are equal bit for bit on every CPU. They do not depend on the caller's
 * floating-point control state. The functions allocate no memory, access no memory outside
 * the arrays and keep no mutable state. Any number of threads may call them.
 *
 * Words of this header:
 *
 *     real          a float16, bfloat16, float32 or float64 number
 *     narrow float  a float of at most 8 bits
 *     code          the integer or narrow float that is stored for a real number
 *     group         the elements that share a scale and a zero point
 *     extent        the size of one dimension
 *     C order       the order of elements with the last dimension varying fastest
 *
 * A function that returns enum pq_status writes nothing if it reports an error, unless its
 * comment or the comment of the status states an exception. A function with the arguments
 * `part` and `parts` does part number `part`, from 0, of a call that is divided into
 * `parts` parts. Different threads may run the parts. Together the parts compute the result
 * of the call with parts = 1. Some parts may be empty. Each part checks the arguments.
 *
 * Every function with a `kernels` argument can return these errors: PQ_ERR_NULL,
 * PQ_ERR_SIZE, PQ_ERR_NDIM, PQ_ERR_SHAPE, PQ_ERR_TYPE, and PQ_ERR_PART if it has a `part`.
 * A function that writes an array `out` can return PQ_ERR_OVERLAP. The comment of a
 * function lists its other errors.
 */
#ifndef PQ_H
#define PQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef PQ_PREFIX
#  include "pq_prefix.h" /* exists only in the source folder */
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PQ_MAX_NDIM 64 /* the largest number of dimensions */

/* Element types. Value 0 is not a type, so a member that the caller leaves at 0 has no
 * type. Types without a comment have the sizes and formats that their names give. */
enum pq_type {
    PQ_NO_TYPE,
    PQ_F32,
    PQ_F16,
    PQ_BF16,
    PQ_F64,
    PQ_I8,
    PQ_U8,
    PQ_I16,
    PQ_U16,
    PQ_I32,
    PQ_U32,
    PQ_I64,
    PQ_U64,
    /* Types of at most 8 bits. A code is in the low bits of a byte. Readers ignore the bits
     * above the code; writers set them to 0. Codes of fewer than 8 bits can also be packed,
     * see `bit_strides` in struct pq_array. */
    PQ_I4,
    PQ_U4,
    PQ_I2,
    PQ_U2,
    PQ_F8E4M3FN,
    PQ_F8E4M3FNUZ,
    PQ_F8E5M2,
    PQ_F8E5M2FNUZ,
    PQ_F6E2M3FN,
    PQ_F6E3M2FN,
    PQ_F4E2M1FN,
    PQ_F8E8M0FNU, /* a power of two or NaN; only for scales and offsets */
    PQ_F8E3M4,
    PQ_F8E4M3,
    PQ_F8E4M3B11FNUZ,
    PQ_TYPE_COUNT
};

/* Rounding of the quotient to an integer. The PQ_HALF modes round to the nearest integer;
 * they differ for a number halfway between two integers. */
enum pq_round {
    PQ_HALF_EVEN,        /* halves to the even neighbour */
    PQ_HALF_AWAY,        /* halves away from zero */
    PQ_HALF_TOWARD_ZERO, /* halves toward zero */
    PQ_HALF_UP,          /* halves toward +infinity */
    PQ_HALF_DOWN,        /* halves toward -infinity */
    PQ_AWAY,             /* away from zero */
    PQ_TRUNC,            /* toward zero */
    PQ_CEIL,             /* toward +infinity */
    PQ_FLOOR,            /* toward -infinity */
    PQ_STOCHASTIC, /* to one of two neighbours at random, also for narrow floats; see `seed`
                      in struct pq_args */
    PQ_HALF_ODD,   /* halves to the odd neighbour */
    PQ_ROUND_COUNT
};

enum pq_status {
    PQ_OK,
    PQ_ERR_NULL,  /* a required pointer is null */
    PQ_ERR_NDIM,  /* `ndim` is negative or exceeds PQ_MAX_NDIM */
    PQ_ERR_SHAPE, /* an extent is negative, a member of `block` is less than 1, the elements
                     or strides exceed the address space, or a layout or axis is invalid */
    PQ_ERR_TYPE,  /* the function does not accept the type of an argument */
    PQ_ERR_ROUND, /* the rounding mode is unknown */
    PQ_ERR_PART,  /* `part` is less than 0, or not less than `parts` */
    PQ_ERR_ZERO,  /* a zero point is outside the range of codes, or too large for the
                     computation */
    PQ_ERR_OVERLAP, /* two elements of `out` share memory; overlap of `out` with other
                       arrays is forbidden too, but not checked */
    PQ_ERR_SIZE,    /* a struct is smaller than in its first version, or sets a member that
                       this version does not know */
    PQ_ERR_NONFINITE, /* an element is NaN or infinite, and the function has no result for
                         it; a part of the output may have been written */
    PQ_ERR_OPTION,    /* the function does not accept an option or its value, a code is
                         outside the range of its type, or two options exclude each other */
    PQ_ERR_BEYOND /* `beyond` or `refuse_nan` reports elements out of range; all elements
                     have been written, with saturated codes */
};

/* Handling of integers outside the range of codes. */
enum pq_beyond {
    PQ_SATURATE, /* write the nearest code of the range */
    PQ_WRAP, /* write the integer modulo 2^bits, and the lowest code for infinity and NaN */
    PQ_REFUSE, /* saturate, and return PQ_ERR_BEYOND */
    PQ_BEYOND_COUNT
};

/*
 * Versions of structs. Every struct that the caller fills in begins with `size`, except
 * struct pq_array and struct pq_channels. The caller sets `size` to the sizeof of the
 * struct. New versions add members only at the end. The functions read members beyond
 * `size` as 0, and 0 or null selects the default of the Python function. A caller compiled
 * for an older version therefore works. A caller compiled for a newer version works if it
 * leaves the new members at 0.
 */

/* One strided array. Element (i, j, ...) is at the address data + i * strides[0] +
 * j * strides[1] + ... This struct does not change between versions. */
struct pq_array {
    void *data;               /* address of element (0, 0, ...) */
    const ptrdiff_t *strides; /* `ndim` distances in bytes; any sign, any alignment */
    enum pq_type type;        /* type of the elements */
    int swapped;              /* not 0 if the byte order is not the machine's */
    /* Null, or `ndim` distances in bits that replace `strides`. Only `in` and `out` accept
     * bit strides, for types of fewer than 8 bits or with a layout. Element (i, j, ...)
     * begins i * bit_strides[0] + j * bit_strides[1] + ... bits above the lowest bit of the
     * byte `data`, and may end in the next byte. A function that writes `out` does not
     * change bits between elements. If the elements are dense in C order, the function sets
     * the unused bits of the last byte to 0. */
    const ptrdiff_t *bit_strides;
};

/*
 * Codes of at most 8 bits, or PQ_I32 codes of 24 bits, in words along one axis. The codes
 * along `axis` are one stream of bits. The `bit_strides` of the other axes locate the first
 * bit of each stream; they are multiples of 8. The bit stride of `axis` is ignored.
 *
 * Code i begins at bit v = i * bits of the stream. With an `order` it begins at bit
 * v = (i / group * group + order[i % group]) * bits. Bit v is bit v % word_bits of word
 * v / word_bits. Words are little-endian. Word k begins k * word_stride bits above the
 * begin of the stream. A code that does not fit in the rest of a word continues in the low
 * bits of the next word.
 *
 * The caller provides memory for every word that a code of a complete group can use. Bits
 * of `out` that belong to no code do not change.
 */
struct pq_layout {
    size_t size; /* sizeof(struct pq_layout) */
    int axis;    /* dimension of the streams, 0 <= axis < ndim */
    int bits; /* width of a code in bits: 24 for PQ_I32 (`word_bits` and `word_stride` are
                 8, without `order`), 1 to 8 for PQ_U8, else the width of the type; 0 stands
                 for the width of the type */
    int word_bits; /* bits of a word: 8, 16, 32 or 64 */
    int group;     /* number of codes in `order`, 1 to 256; ignored if `order` is null */
    ptrdiff_t word_stride;      /* distance of words in bits, a multiple of 8 */
    const unsigned char *order; /* a permutation of the numbers 0 to group - 1; null: codes
                                   are in order */
};

/*
 * Arguments of one call. All arrays have the dimensions of `shape`. For element
 * (i, j, ...), `scale`, `zero` and `offset` are indexed by i / block[0], j / block[1], ...
 * A stride of 0 means that the dimension does not select a parameter of this array. A
 * member of `block` is 1 for one parameter per index and larger for blocks; the last block
 * of a dimension may be short. A dimension has extent / block groups, rounded up, if a
 * stride of its parameters is not 0, and one group otherwise. An extent of 0 therefore has
 * no groups, or one.
 *
 * If an extent is 0, no element is accessed and strides do not matter, but required
 * pointers must not be null.
 *
 * The memory of `out` must not overlap `in`, `scale`, `zero` or `offset`. If it does, the
 * elements of `out` are undefined; other memory does not change.
 */
struct pq_args {
    size_t size;            /* sizeof(struct pq_args) */
    int ndim;               /* number of dimensions, 0 to PQ_MAX_NDIM */
    const ptrdiff_t *shape; /* `ndim` extents in elements */
    const ptrdiff_t *block; /* `ndim` block sizes in elements; null: 1 in each dimension */
    struct pq_array in;     /* the elements to read */
    struct pq_array out;    /* the elements to write */
    struct pq_array scale; /* scales of any type; integers are converted to float64 first */
    struct pq_array zero;  /* zero points of an integer type, or of the type of codes that
                              are narrow floats; `data` null: no zero points */
    /* The options begin here. Functions return PQ_ERR_OPTION for options that they do not
     * accept. The options from `round` to `narrow_first` are for quantize only. */
    enum pq_round round;    /* rounding; PQ_HALF_EVEN or PQ_STOCHASTIC for narrow floats */
    enum pq_type precision; /* real type of the quotient; PQ_NO_TYPE: float64 if `in` is
                               float64, else float32 */
    int overflow;     /* for narrow floats: if 0, a value out of range becomes the largest
                         number, else infinity, or NaN if the type has no infinity */
    int zero_first;   /* if not 0, integer codes are the rounded sum of quotient and zero
                         point, added in float64 for float64 quotients, else in float32 */
    int narrow_first; /* if not 0, first round `in` and `scale` to `precision` */
    /* If not 0, dequantize accepts zero points of integer codes outside the range of the
     * code type. If 0, dequantize returns PQ_ERR_ZERO. */
    int any_zeros;
    struct pq_array lowest;  /* smallest elements, see pq_minmax() */
    struct pq_array highest; /* largest elements, see pq_minmax() */
    /* Null, or the layout of the codes in `in` or `out`. If the codes of the layout have
     * fewer bits than the type, the largest code of the layout replaces larger codes. */
    const struct pq_layout *in_layout;
    const struct pq_layout *out_layout;
    /*
     * The members from here on are for quantize and dequantize only. A call that sets one
     * of the members `offset` to `refuse_nan` rounds after each operation. It computes in
     * the type of `in` to quantize and of `out` to dequantize, or in float32 if that type
     * has 16 bits. To quantize, `precision` can select PQ_F64.
     */
    /* Offsets of any type, indexed like `scale`: subtracted before the division or added
     * after the product. Integers are converted to float64 first. `data` null: no offsets.
     */
    struct pq_array offset;
    int inverse; /* if not 0, multiply by scales to quantize, divide to dequantize */
    const int64_t *fill; /* codes that mean NaN; NaN becomes the first. PQ_U64 codes here
                            and below are stored in two's complement */
    size_t fills;        /* number of codes in `fill`; 0: no code means NaN */
    /* Quantize to integers: the range of codes, if one of the limits is not 0. Zero points
     * must be within the range, unless all zero points are 0. */
    int64_t lowest_code, highest_code;
    enum pq_beyond beyond; /* for values out of range; not PQ_WRAP for narrow floats */
    int refuse_nan; /* 1: a NaN quotient that no fill replaces is PQ_ERR_BEYOND; else 0 */
    /*
     * For PQ_STOCHASTIC. Let a and b be the codes below and above the quotient, and t the
     * position of the quotient between them, from 0 at a to 1 at b. The result is b if
     * u < t, else a. With `zero_first` and for narrow floats, the sum of quotient and zero
     * point replaces the quotient. u is the upper 24 bits of a random word times 2^-24.
     * Word i is number i % 4 of the Philox4x32-10 output for the key `seed` and the counter
     * i / 4. i is `start` plus the position of the element in C order, modulo 2^64. Results
     * therefore do not depend on strides, parts or kernels.
     */
    uint64_t seed, start;
};

/* The kernels of one instruction set. */
struct pq_kernels;

/* Return the kernels of the instruction set "scalar", "avx2", "avx512" or "neon". Return
 * null if this build or this CPU does not have them, or if `name` is null. */
const struct pq_kernels *pq_isa_find(const char *name);

/* Return the name of instruction set number `i` of this machine; number 0 is the fastest.
 * Return null if `i` is negative, or not less than the number of instruction sets. */
const char *pq_isa_name(int i);

/*
 * Quantize `in` to `out`: out = saturate(round((in - offset) / scale) + zero). `in` is real
 * or int32; int32 numbers are converted to the type of the quotient first. `out` has any
 * integer or narrow float type. `in` can also be int8 or uint8 if `inverse` is not 0, `out`
 * is int8 or uint8, codes saturate, `round` is PQ_HALF_EVEN, quotients are float32, and
 * there is no fill.
 *
 * Zero points must be within the range of the code type, or of 24 bits for PQ_I32 with a
 * layout. With `zero_first` and for narrow floats, magnitudes up to 2^52 are valid. With
 * `zero_first` and PQ_HALF_EVEN, float32 to 8-bit integers accepts any int64.
 *
 * Errors: PQ_ERR_ROUND; PQ_ERR_ZERO; PQ_ERR_OPTION; PQ_ERR_BEYOND with `beyond` = PQ_REFUSE
 * or `refuse_nan`.
 */
enum pq_status pq_quantize(const struct pq_kernels *kernels, const struct pq_args *args,
                           int part, int parts);

/*
 * Dequantize `in` to `out`: out = (in - zero) * scale + offset. `in` has an integer or
 * narrow float type, and `out` is real. Zero points of integer codes have the ranges of
 * pq_quantize(). With `any_zeros` they can be any int64, or up to 2^52 in magnitude
 * together with `offset`, `inverse` or `fill`. Zero points of narrow floats can be up to
 * 2^52 in magnitude.
 *
 * Errors: PQ_ERR_ZERO; PQ_ERR_OPTION for a fill outside the range of the codes.
 */
enum pq_status pq_dequantize(const struct pq_kernels *kernels, const struct pq_args *args,
                             int part, int parts);

/*
 * A prepared call: checked and planned once, and run any number of times, by any number of
 * threads, on arrays of equal types, shape and strides. It needs no freeing. It has
 * pointers to scales, zero points, offsets, fills and layouts, so the caller must not move
 * or change these arrays.
 */
struct pq_prepared {
    size_t size;           /* sizeof(struct pq_prepared) */
    uint64_t opaque[1023]; /* private data */
};

/*
 * Prepare a call of pq_quantize() or pq_dequantize(). Only the types and strides of `in`
 * and `out` matter, but their `data` must not be null.
 *
 * Errors: as for the call; PQ_ERR_SIZE if the plan does not fit in `prepared`. After an
 * error pq_run() returns PQ_ERR_NULL.
 */
enum pq_status pq_prepare_quantize(struct pq_prepared *prepared,
                                   const struct pq_kernels *kernels,
                                   const struct pq_args *args);
enum pq_status pq_prepare_dequantize(struct pq_prepared *prepared,
                                     const struct pq_kernels *kernels,
                                     const struct pq_args *args);

/*
 * Run a part of a prepared call. `in` and `out` are the addresses of element (0, 0, ...).
 *
 * Errors: PQ_ERR_NULL for a null pointer, and if `prepared` contains no call (it is zeroed
 * or its preparation failed); PQ_ERR_PART; PQ_ERR_BEYOND as in pq_quantize().
 */
enum pq_status pq_run(const struct pq_prepared *prepared, const void *in, void *out,
                      int part, int parts);

/*
 * Copy codes to another layout, to bytes or from bytes. `in` and `out` have one type: a
 * type of fewer than 8 bits, a narrow float, or int8 or uint8 if at least one side has a
 * layout. Codes that exceed the bits of `out_layout` become the largest code of the layout.
 * The function reads only `ndim`, `shape`, `in`, `out` and the layouts.
 */
enum pq_status pq_repack(const struct pq_kernels *kernels, const struct pq_args *args,
                         int part, int parts);

/*
 * Find the smallest and the largest element of each group of the real array `in`, and merge
 * them into `lowest` and `highest`. Both are arrays of float64, indexed like `scale` in
 * other calls. Both are aligned, have the byte order of the machine, and contain start
 * values, for example +infinity and -infinity. A zero in the result may have either sign.
 *
 * Both arrays can instead be float32. The function then merges the largest magnitude of
 * each group, rounded half to even to float32, into `lowest`, and ignores `highest`.
 *
 * *finite is set to 1 if all elements are finite. It is set to 0 for a NaN or an infinity;
 * the results are then undefined. `scale`, `zero` and `out` are ignored.
 */
enum pq_status pq_minmax(const struct pq_kernels *kernels, const struct pq_args *args,
                         int *finite);

/* Count the NaN and infinities of the real array `in`. *first is the C-order position of
 * the first NaN or infinity, or 0 if *count is 0. Options are ignored. All other errors: as
 * for pq_minmax(). */
enum pq_status pq_count_nonfinite(const struct pq_args *args, size_t *count, size_t *first);

/*
 * Repeat a call of pq_quantize() that returned PQ_ERR_BEYOND, and count the elements out of
 * range. The function writes `out` again. *first is the position of the first counted
 * element in C order. The function returns PQ_OK after a count. If pq_quantize() does not
 * return PQ_ERR_BEYOND, the function sets *count and *first to 0 and returns the status of
 * pq_quantize().
 */
enum pq_status pq_count_beyond(const struct pq_kernels *kernels, const struct pq_args *args,
                               size_t *count, size_t *first);

/* Rules that choose a scale and a zero point from extrema; docs/semantics/scales.md has the
 * formulas. */
enum pq_rule {
    PQ_RULE_USUAL,      /* asymmetric for unsigned integers and if `like` has no symmetric
                          formula, else symmetric */
    PQ_RULE_SYMMETRIC,  /* zero point 0; for unsigned integers the middle code */
    PQ_RULE_ASYMMETRIC, /* the zero point that uses all codes; not for narrow floats */
    /* The rule of ONNX DynamicQuantizeLinear, for data of at most 32 bits and uint8 codes.
     * Infinities count as numbers; NaN in the data gives the scale NaN. */
    PQ_RULE_ONNX_DYNAMIC
};

/* Formulas of packages, for integer codes of at most 16 bits. csrc/ops/presets.h lists
 * their properties. */
enum pq_like {
    PQ_LIKE_PYQUANT,
    PQ_LIKE_ONNXRUNTIME,
    PQ_LIKE_PYTORCH,
    PQ_LIKE_ATEN,
    PQ_LIKE_FBGEMM,
    PQ_LIKE_TORCHAO,
    PQ_LIKE_TORCHAO_NO_CLIP,
    PQ_LIKE_COMPRESSED_TENSORS,
    PQ_LIKE_TFLITE,
    PQ_LIKE_XNNPACK,
    PQ_LIKE_QUARK_PO2,
    PQ_LIKE_COUNT
};

/* The choice of parameters. */
struct pq_choice {
    size_t size; /* sizeof(struct pq_choice) */
    /* Real type of the data, in which dequantized values are finite. PQ_NO_TYPE stands for
     * the type of `in`, or for float32 in pq_choose(). */
    enum pq_type real;
    /* Type of the codes, at most 32 bits. PQ_NO_TYPE stands for int8, or for uint8 with
     * PQ_RULE_ONNX_DYNAMIC. Zero points have the type of the codes, but int8 or uint8 for
     * integers of fewer than 8 bits, and int8 for narrow floats (zeros). */
    enum pq_type code;
    enum pq_rule rule;                 /* symmetric or asymmetric */
    int64_t lowest_code, highest_code; /* integers: the range of codes, unless both are 0 */
    enum pq_like like;                 /* the package that defines the formula */
    /* Type of the scales: real, PQ_F8E4M3FN or PQ_F8E8M0FNU. PQ_NO_TYPE: float64 for
     * float64 data, else float32. */
    enum pq_type scale;
};

/*
 * Choose a scale and a zero point for each of `n` pairs of extrema. The results are written
 * to contiguous arrays of any alignment; `choice` gives their types.
 *
 * Errors: PQ_ERR_NULL; PQ_ERR_SIZE; PQ_ERR_SHAPE if `n` numbers exceed the address space;
 * PQ_ERR_TYPE and PQ_ERR_OPTION for a choice that has no formula.
 */
enum pq_status pq_choose(const struct pq_choice *choice, size_t n, const double *smallest,
                         const double *largest, void *scale, void *zero);

/*
 * Choose a scale and a zero point for each group of the real array `in`, from its extrema,
 * and write them to `scale` and `zero`. These arrays have the types of `choice` and the
 * byte order of the machine; zero points of fewer than 8 bits have a byte each. If an
 * extent is 0, each group gets the parameters of an empty array. `out` is ignored. No group
 * is divided between parts.
 *
 * Errors: PQ_ERR_OPTION for a choice that has no formula; PQ_ERR_NONFINITE for NaN or an
 * infinity in `in`, except by PQ_RULE_ONNX_DYNAMIC.
 */
enum pq_status pq_choose_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *choice,
                                int part, int parts);

/* Arithmetic of requantize; docs/api/requantize.md has the formulas. All but the first use
 * fixed point: an integer multiplier and a shift replace the real multiplier. */
enum pq_arithmetic {
    PQ_ARITHMETIC_FLOAT32,
    PQ_ARITHMETIC_RNDNU,
    PQ_ARITHMETIC_TFLITE,
    PQ_ARITHMETIC_TFLITE_SINGLE,
    PQ_ARITHMETIC_FBGEMM,
    PQ_ARITHMETIC_COUNT
};

/* One number for each channel. This struct does not change between versions. */
struct pq_channels {
    const void *data; /* address of the number for channel 0 */
    ptrdiff_t stride; /* distance of two numbers in bytes; 0: one number for all channels */
    enum pq_type type; /* type of the numbers */
    int swapped;       /* not 0 if the byte order is not the machine's */
};

/*
 * Arguments of requantize: out = clamp(R(in - input_zero + bias) + zero). R multiplies and
 * rounds. The memory of `out` must not overlap other arrays.
 */
struct pq_requantization {
    size_t size;            /* sizeof(struct pq_requantization) */
    int ndim;               /* number of dimensions, 0 to PQ_MAX_NDIM */
    const ptrdiff_t *shape; /* `ndim` extents in elements */
    struct pq_array in;     /* int8 to int64, or uint8 to uint32 */
    struct pq_array out;    /* int8, uint8, int16, uint16 or int32 */
    int axis; /* dimension of the channels; ignored if the strides of `multiplier`,
                 `shift` and `bias` are 0 */
    enum pq_arithmetic arithmetic; /* multiplication and rounding */
    struct pq_channels multiplier; /* float32 or float64; with `shift`, integers from 0 to
                                      2^31 - 1 as pq_fixed_point() returns them */
    struct pq_channels shift;      /* integer shifts for fixed point; `data` null: derive
                                      multiplier and shift from `multiplier` */
    struct pq_channels bias; /* integers of at most int64, in units of `in`; `data` null: no
                                bias */
    int64_t input_zero;      /* zero point of `in`, within its type */
    int64_t zero;            /* zero point of `out`, within its type */
    int clips;               /* if not 0, clamp to the limits below, else to the type */
    int64_t lowest_code, highest_code; /* limits of the clamp, within the type of `out` */
};

/*
 * Requantize integers, for example sums of products, to codes of another scale.
 *
 * Errors: PQ_ERR_SHAPE for an invalid `axis`; PQ_ERR_ZERO for a zero point outside its
 * type; PQ_ERR_OPTION for a multiplier or shift that the arithmetic does not support, and
 * for limits outside the type of `out` or in the wrong order.
 */
enum pq_status pq_requantize(const struct pq_kernels *kernels,
                             const struct pq_requantization *args, int part, int parts);

/*
 * Requantize codes: quantize the numbers that the dequantized codes represent, without an
 * array of these numbers. `from` has the arguments of pq_dequantize(), with the codes in
 * `from->in`. `to` has the arguments of pq_quantize(), with the new codes in `to->out`.
 * Both shapes must be equal. The numbers have the type of `from->out`. The function ignores
 * all other members of `from->out`, and ignores `to->in`. The new codes equal the codes of
 * the two calls.
 *
 * Errors: as for pq_dequantize() and pq_quantize(); PQ_ERR_SHAPE also for different shapes
 * and for bit strides; PQ_ERR_OPTION also for PQ_STOCHASTIC, PQ_REFUSE and `refuse_nan`.
 */
enum pq_status pq_requantize_codes(const struct pq_kernels *kernels,
                                   const struct pq_args *from, const struct pq_args *to,
                                   int part, int parts);

/*
 * Convert a real multiplier to fixed point. The multiplier is approximately
 * integer * 2^(shift - 31) for PQ_ARITHMETIC_TFLITE and PQ_ARITHMETIC_TFLITE_SINGLE, and
 * integer * 2^-shift for PQ_ARITHMETIC_RNDNU and PQ_ARITHMETIC_FBGEMM.
 *
 * Errors: PQ_ERR_NULL; PQ_ERR_OPTION for PQ_ARITHMETIC_FLOAT32 and for a multiplier outside
 * the range of the arithmetic.
 */
enum pq_status pq_fixed_point(enum pq_arithmetic arithmetic, double multiplier,
                              int32_t *integer, int *shift);

/*
 * Do the work of pq_choose_params() and pq_quantize() in one call, group by group, so that
 * `in` is still in the cache when it is quantized. The function writes `scale`, `zero` and
 * `out`. The codes in `out` have the type and the range of `choice`. No group is divided
 * between parts.
 *
 * Errors: as for both functions. After PQ_ERR_NONFINITE, other groups may have been
 * written.
 */
enum pq_status pq_dynamic_quantize(const struct pq_kernels *kernels,
                                   const struct pq_args *args,
                                   const struct pq_choice *choice, int part, int parts);

/* Additional arguments of pq_fake_quantize(). */
struct pq_fake {
    size_t size;       /* sizeof(struct pq_fake) */
    enum pq_type code; /* integer or narrow float type to quantize to */
    /* If `data` is null, there is no mask. Else PQ_U8 elements: 1 if the rounded quotient
     * plus zero point is within the range of the codes, 0 if it is not or if it is NaN. */
    struct pq_array mask;
};

/*
 * Quantize and dequantize in one pass, as pq_quantize() and pq_dequantize() with these
 * arguments do, without an array of codes. `out` has the real type of `in`; both have
 * byte strides.
 *
 * Errors: PQ_ERR_ROUND; PQ_ERR_ZERO, also for zero points other than 0 with narrow floats;
 * PQ_ERR_OPTION, also for `zero_first`, `narrow_first`, `any_zeros`, `beyond` and
 * `refuse_nan`.
 */
enum pq_status pq_fake_quantize(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_fake *fake,
                                int part, int parts);

/*
 * Sizes of a histogram of bit patterns. The key of a number has 16 bits: all bits of a
 * float16 or bfloat16, or the upper 16 bits of a float32. A float64 is first truncated to
 * float32, toward zero. A page is the 128 keys with equal upper 9 bits. For all types but
 * float16, a page is one sign and one exponent. The key of -0 counts as the key of 0.
 */
enum {
    PQ_PAGES = 512,                 /* number of pages */
    PQ_PAGE = 128,                  /* number of keys in a page */
    PQ_COUNTERS = 4 * (65536 + 320) /* length of `counters` */
};

/* A histogram. Before the first call the caller sets all members to 0, except `size`, the
 * extrema, `ignore_nonfinite` and `counters`. */
struct pq_counts {
    size_t size;          /* sizeof(struct pq_counts) */
    int ignore_nonfinite; /* if not 0, skip NaN and infinities; 0: PQ_ERR_NONFINITE */
    uint32_t pending;     /* number of elements in the counters */
    uint32_t *counters;   /* PQ_COUNTERS zeros; if null, only find counts and extrema */
    uint64_t count;       /* number of finite numbers */
    uint64_t nan, inf;    /* numbers of NaN and of infinities */
    double lowest;        /* smallest finite number; the caller starts with INFINITY */
    double highest;       /* largest finite number; the caller starts with -INFINITY */
    uint64_t pages[PQ_PAGES / 64]; /* bit p % 64 of pages[p / 64] is 0 if page p is empty */
};

/*
 * Add the elements of the real array `in` to a histogram. Any number of calls may add to
 * one histogram `counts`. Parts that run simultaneously need separate histograms. An
 * extremum of 0 is +0.
 *
 * Errors: PQ_ERR_SHAPE if the counters would contain more than 2^32 - 2 elements: call
 * pq_histogram_take() first; PQ_ERR_NONFINITE, after which `counts` is undefined, but the
 * counters are zeros again once pq_histogram_take() has returned -1.
 */
enum pq_status pq_histogram(const struct pq_kernels *kernels, const struct pq_args *args,
                            struct pq_counts *counts, int part, int parts);

/* Remove one page from the histogram: write the counts of its 128 keys to `to`, and set its
 * counters to 0. Return the number of the page, which is its first key / 128. Repeated
 * calls return the pages in ascending order, then -1. */
int pq_histogram_take(struct pq_counts *counts, uint64_t *to);

/* Additional arguments of pq_search_params(). */
struct pq_search {
    size_t size; /* sizeof(struct pq_search) */
    /* If `data` is null, all weights are 1. Else one real number for each element of `in`:
     * the factor of its squared error. Weights must be finite and at least 0, or any
     * candidate may be chosen; pq_minmax() can check them, as for pq_block_encode(). */
    struct pq_array weights;
    /* `count` factors in (0, 1]; null: 1 - j / 100 for j from 0 to 19. */
    const double *candidates;
    size_t count; /* number of candidates */
};

/*
 * Choose parameters like pq_choose_params(), but with the least sum of squared errors. The
 * function multiplies the extrema of a group by each candidate and rounds the products to
 * float32 (float64 for float64 data). It keeps the first candidate with the least sum. It
 * then fits the scale to the codes by least squares, and keeps the fitted scale if the sum
 * becomes less.
 *
 * An error is the difference of a number and its dequantized value in float32 (float64),
 * rounded to that type. Sums are float64. Each 1024 elements in C order have a sum, and
 * these sums are added as in pq_measure().
 *
 * Errors: as for pq_choose_params(); PQ_ERR_OPTION also for an invalid candidate and for
 * PQ_RULE_ONNX_DYNAMIC.
 */
enum pq_status pq_search_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *choice,
                                const struct pq_search *search, int part, int parts);

/*
 * Error statistics of a group of pairs x and y, in float64. Sums include an element if x
 * and y are finite. The true sums of squares and products are 4^exponent times the members,
 * and the true sum of errors is 2^exponent * e. The exponent is 0 unless numbers are
 * float64 and their magnitudes are far from 1.
 */
struct pq_error {
    double xx, yy, xy, e, ee; /* sums of x^2, y^2, x y, x - y, (x - y)^2 */
    double most;              /* the largest magnitude of x - y */
    int64_t index;            /* C-order position of the error `most` in the group, or -1 */
    int64_t count;            /* number of elements, including `nan` and `inf` */
    int64_t nan, inf; /* numbers of excluded elements: x or y is NaN (`nan`); x or y is
                         infinite, and neither is NaN (`inf`) */
    int64_t exponent; /* binary exponent of the sums */
    /* pq_measure_params() only: numbers of elements that are below the range of the codes,
     * or above it, by more than half a step, or have a scale of 0, infinity or NaN. */
    int64_t low, high, bad_scales;
};

/* Number of elements in one chunk of pq_measure(). */
#define PQ_MEASURE_CHUNK 65536

/* Return the number of chunks of a group with `size` elements; an empty group has one. */
ptrdiff_t pq_measure_chunks(ptrdiff_t size);

/*
 * Compare the real arrays x = `in` and y = `out`, which is only read. All other arrays of
 * `args` are ignored.
 *
 * kept[d] is not 0 if dimension d separates groups. If `kept` is null, there is one group.
 * The elements at one index of the kept dimensions are a group. The function writes one
 * result for each chunk of PQ_MEASURE_CHUNK elements of a group in C order.
 * errors[g * chunks + c] is chunk c of group g, with groups in C order and chunks =
 * pq_measure_chunks(elements of a group). The sum of the chunks by pq_add_error(), in
 * order, is the result of the group. Results do not depend on parts.
 */
enum pq_status pq_measure(const struct pq_kernels *kernels, const struct pq_args *args,
                          const unsigned char *kept, struct pq_error *errors, int part,
                          int parts);

/*
 * Compare `in` with its values after quantization to `code` and dequantization to float32
 * (float64 if `in` is float64), without an array of codes or values. `out` is ignored.
 * `kept`, `errors` and the results are as in pq_measure(); saturated elements are counted
 * too.
 *
 * Errors: as for pq_fake_quantize(); PQ_ERR_OPTION also for `precision`, `inverse` and
 * PQ_STOCHASTIC.
 */
enum pq_status pq_measure_params(const struct pq_kernels *kernels,
                                 const struct pq_args *args, enum pq_type code,
                                 const unsigned char *kept, struct pq_error *errors,
                                 int part, int parts);

/* Add `error` to `sum`. In C order, elements of `sum` must precede elements of `error`. */
void pq_add_error(struct pq_error *sum, const struct pq_error *error);

/*
 * Return 1 if every zero point of `zero` is within [lo, hi], or if an extent is 0. Else
 * return 0 and set *outside to the first zero point found outside, a uint64 in two's
 * complement. Return 0 and set *outside to 0 for invalid arguments. The function reads only
 * `zero`, `ndim`, `shape` and `block`.
 */
int pq_zeros_within(const struct pq_args *args, int64_t lo, int64_t hi, int64_t *outside);

/* Families of types. */
enum pq_kind {
    PQ_KIND_NONE,
    PQ_KIND_REAL,    /* real types: data, scales and offsets */
    PQ_KIND_INTEGER, /* codes and zero points */
    PQ_KIND_FLOAT,   /* narrow floats: codes, scales, and zero points of equal type */
    PQ_KIND_EXPONENT /* only scales */
};

/* A table of numbers. The index of a number is its code. The caller sets `size` and zeroes
 * the rest. pq_codebook_init() fills in the struct; copies are valid. Only `bits` is
 * public. This struct does not change between versions: a different size is PQ_ERR_SIZE. */
struct pq_codebook {
    size_t size; /* sizeof(struct pq_codebook) */
    int bits;    /* width of a code in bits */
    int levels;  /* private, like the arrays below: see kernels/kernels.h */
    float value[256], bound[256];
    uint8_t code[256];
};

/* Fill in a codebook with `count` values: 4, 8, 16, 32, 64, 128 or 256. The values are
 * copied. Errors: PQ_ERR_NULL; PQ_ERR_SIZE; PQ_ERR_OPTION for a different count and for a
 * value that is not finite. */
enum pq_status pq_codebook_init(struct pq_codebook *book, const float *values, int count);

/*
 * Quantize the real array `in` to codes `out`: the index of the value nearest to
 * in / scale, or to in * scale with `inverse`. At a tie the lower value wins.
 * Quotients are float32, or float64 if `in` is float64. Codes are PQ_U8 (also with a
 * layout), PQ_U4 or PQ_U2, with at least the bits of the table.
 *
 * Errors: PQ_ERR_NULL if `book` has not been filled in; PQ_ERR_TYPE also for zero points;
 * PQ_ERR_OPTION for codes with too few bits and for options other than `inverse`.
 */
enum pq_status pq_codebook_quantize(const struct pq_kernels *kernels,
                                    const struct pq_args *args,
                                    const struct pq_codebook *book, int part, int parts);

/*
 * Dequantize codes `in` to the real array `out`: value[code] * scale, or value[code] /
 * scale with `inverse`, in float32. Packed codes have at most the bits of the table. In
 * codes of a byte, bits above the bits of the table are ignored.
 *
 * Errors: as for pq_codebook_quantize(); PQ_ERR_OPTION for codes with too many bits.
 */
enum pq_status pq_codebook_dequantize(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_codebook *book, int part, int parts);

/* One GGUF block format. */
struct pq_block_format {
    const char *name; /* ggml's name of the type, for example "Q4_0" */
    int id;           /* ggml's number of the type */
    int elements;     /* number of elements in a block */
    int bytes;        /* number of bytes in a block */
    int encodes;  /* encoders: 0 no encoder, 1 formula, 2 search, 3 formula and search */
    int weighted; /* not 0: a call with weights encodes by a search that uses weights */
};

/* Return block format number `i`, from 0, or null if `i` is negative or too large. */
const struct pq_block_format *pq_block_format(int i);

/* Arguments of pq_block_decode() and pq_block_encode(). Blocks follow each other along the
 * last dimension. */
struct pq_blocks {
    size_t size; /* sizeof(struct pq_blocks) */
    int format;  /* `id` of the block format */
    int ndim;    /* number of dimensions, 1 to PQ_MAX_NDIM */
    /* Extents of the array of numbers. The last extent is a multiple of the elements of a
     * block. The array of blocks has equal extents, but its last extent is a number of
     * bytes. */
    const ptrdiff_t *shape;
    struct pq_array in, out; /* decode: blocks (PQ_U8) to reals; encode: the reverse */
    /* Encode only. If `data` is null, there are no weights. Else one real number of at
     * least 0 for each element of `in`: the importance of its error. Strides may be 0.
     * Formats that use no weights ignore the array. */
    struct pq_array weights;
    int search; /* encode: not 0 selects the search, if a format has two encoders */
};

/*
 * Decode blocks `in` to real numbers `out`. The exact values are rounded to float32 once,
 * then half to even to the type of `out`. NaN is canonical. Every sequence of bytes is
 * valid.
 *
 * Errors: PQ_ERR_OPTION for an unknown format; PQ_ERR_SHAPE for a last extent that is no
 * multiple of a block, and for bit strides.
 */
enum pq_status pq_block_decode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts);

/*
 * Encode real numbers `in` to blocks `out`. float64 is rounded to float32 once. The bytes
 * are equal to the bytes of ggml's reference code; `weights` is its importance matrix.
 * Numbers and weights must be finite, and weights at least 0, or the bytes are undefined;
 * pq_minmax() can check them.
 *
 * Errors: as for pq_block_decode(); PQ_ERR_OPTION also for a format without an encoder, and
 * for `search` with a format without a search.
 */
enum pq_status pq_block_encode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts);

/* Properties of a type. */
struct pq_type_info {
    const char *name;     /* name in NumPy or ml_dtypes */
    enum pq_kind kind;    /* family */
    int bits;             /* width in bits; codes of fewer than 8 bits can be packed */
    size_t bytes;         /* size in bytes of a number that is not packed */
    enum pq_type carrier; /* type that kernels process: int8 or uint8 for narrow
                             integers, else the type itself */
    int64_t lowest;       /* integers: the smallest value, else 0 */
    uint64_t highest;     /* integers: the largest value, else 0 */
};

/* Return the properties of a type, or null for an unknown type. */
const struct pq_type_info *pq_type_info(enum pq_type type);

/* Return the size in bytes of an unpacked number of a type, or 0 for an unknown type. */
size_t pq_type_size(enum pq_type type);

/* Return the width in bits of a number of a type, or 0 for an unknown type. */
int pq_type_bits(enum pq_type type);

/* Return the English text of a status, a constant, also for an unknown status. */
const char *pq_status_text(enum pq_status status);

/*
 * Version of the interface. A change that breaks callers increases PQ_API_MAJOR. An
 * addition goes to the end of the table, of a struct or of an enum (before its _COUNT), and
 * increases PQ_API_MINOR. A newer version may therefore return a status that this header
 * does not list: it is an error, and pq_status_text() has its text.
 */
#define PQ_API_MAJOR 1
#define PQ_API_MINOR 2

/* The functions above as a table, for callers that get it from the Python module: see
 * pyquant.h. Each member has the name of its function without the prefix pq_. */
struct pq_api {
    unsigned major, minor; /* PQ_API_MAJOR and PQ_API_MINOR of the module; the first three
                              members do not change between versions */
    const char *version;   /* version of the package */
    const struct pq_kernels *kernels; /* the fastest kernels of this machine, or the kernels
                                         that PYQUANT_ISA names */
    const struct pq_kernels *(*isa_find)(const char *name);
    const char *(*isa_name)(int i);
    enum pq_status (*quantize)(const struct pq_kernels *kernels, const struct pq_args *args,
                               int part, int parts);
    enum pq_status (*dequantize)(const struct pq_kernels *kernels,
                                 const struct pq_args *args, int part, int parts);
    enum pq_status (*prepare_quantize)(struct pq_prepared *prepared,
                                       const struct pq_kernels *kernels,
                                       const struct pq_args *args);
    enum pq_status (*prepare_dequantize)(struct pq_prepared *prepared,
                                         const struct pq_kernels *kernels,
                                         const struct pq_args *args);
    enum pq_status (*run)(const struct pq_prepared *prepared, const void *in, void *out,
                          int part, int parts);
    enum pq_status (*repack)(const struct pq_kernels *kernels, const struct pq_args *args,
                             int part, int parts);
    enum pq_status (*minmax)(const struct pq_kernels *kernels, const struct pq_args *args,
                             int *finite);
    enum pq_status (*count_nonfinite)(const struct pq_args *args, size_t *count,
                                      size_t *first);
    enum pq_status (*choose)(const struct pq_choice *choice, size_t n,
                             const double *smallest, const double *largest, void *scale,
                             void *zero);
    int (*zeros_within)(const struct pq_args *args, int64_t lo, int64_t hi,
                        int64_t *outside);
    size_t (*type_size)(enum pq_type type);
    int (*type_bits)(enum pq_type type);
    const char *(*status_text)(enum pq_status status);
    const struct pq_type_info *(*type_info)(enum pq_type type);
    enum pq_status (*choose_params)(const struct pq_kernels *kernels,
                                    const struct pq_args *args,
                                    const struct pq_choice *choice, int part, int parts);
    enum pq_status (*count_beyond)(const struct pq_kernels *kernels,
                                   const struct pq_args *args, size_t *count,
                                   size_t *first);
    /* The members from here on exist since version 1.2. */
    enum pq_status (*dynamic_quantize)(const struct pq_kernels *kernels,
                                       const struct pq_args *args,
                                       const struct pq_choice *choice, int part, int parts);
    enum pq_status (*fake_quantize)(const struct pq_kernels *kernels,
                                    const struct pq_args *args, const struct pq_fake *fake,
                                    int part, int parts);
    enum pq_status (*histogram)(const struct pq_kernels *kernels,
                                const struct pq_args *args, struct pq_counts *counts,
                                int part, int parts);
    int (*histogram_take)(struct pq_counts *counts, uint64_t *to);
    enum pq_status (*requantize)(const struct pq_kernels *kernels,
                                 const struct pq_requantization *args, int part, int parts);
    enum pq_status (*fixed_point)(enum pq_arithmetic arithmetic, double multiplier,
                                  int32_t *integer, int *shift);
    enum pq_status (*search_params)(const struct pq_kernels *kernels,
                                    const struct pq_args *args,
                                    const struct pq_choice *choice,
                                    const struct pq_search *search, int part, int parts);
    enum pq_status (*measure)(const struct pq_kernels *kernels, const struct pq_args *args,
                              const unsigned char *kept, struct pq_error *errors, int part,
                              int parts);
    ptrdiff_t (*measure_chunks)(ptrdiff_t size);
    void (*add_error)(struct pq_error *sum, const struct pq_error *error);
    enum pq_status (*measure_params)(const struct pq_kernels *kernels,
                                     const struct pq_args *args, enum pq_type code,
                                     const unsigned char *kept, struct pq_error *errors,
                                     int part, int parts);
    const struct pq_block_format *(*block_format)(int i);
    enum pq_status (*block_decode)(const struct pq_kernels *kernels,
                                   const struct pq_blocks *args, int part, int parts);
    enum pq_status (*block_encode)(const struct pq_kernels *kernels,
                                   const struct pq_blocks *args, int part, int parts);
    enum pq_status (*codebook_init)(struct pq_codebook *book, const float *values,
                                    int count);
    enum pq_status (*codebook_quantize)(const struct pq_kernels *kernels,
                                        const struct pq_args *args,
                                        const struct pq_codebook *book, int part,
                                        int parts);
    enum pq_status (*codebook_dequantize)(const struct pq_kernels *kernels,
                                          const struct pq_args *args,
                                          const struct pq_codebook *book, int part,
                                          int parts);
    enum pq_status (*requantize_codes)(const struct pq_kernels *kernels,
                                       const struct pq_args *from, const struct pq_args *to,
                                       int part, int parts);
};

/* Fill in the table. `version` is stored, not copied. */
void pq_api_init(struct pq_api *api, const struct pq_kernels *kernels, const char *version);

#ifdef __cplusplus
}
#endif

#endif
