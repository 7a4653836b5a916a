/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pq.h - quantize and dequantize strided arrays, exactly and at the speed of memory.
 *
 *     quantize    out = saturate(round((in - offset) / scale) + zero)
 *     dequantize  out = (in - zero) * scale + offset
 *
 * The division is IEEE division rounded once, the rounding to integer is one of nine named
 * modes or a stochastic one, NaN gives the lowest code. Narrow floats take the sum of
 * quotient and zero point, rounded half to even or stochastically, and keep NaN where they
 * have one. Results are the same bits on
 * every CPU and do not depend on the caller's floating-point control state. Nothing is
 * allocated, nothing outside the arrays is read or written, nothing mutable is shared:
 * every function may be called from any number of threads.
 */
#ifndef PQ_H
#define PQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PQ_MAX_NDIM 64

/* 0 is no type, so that what is left out of a struct is not taken for one. */
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
    /* Narrow types, in the low bits of a byte; what is above them is ignored and written
     * as 0. Those of less than 8 bits can also lie at any bit, see bit_strides. */
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
    PQ_F8E8M0FNU, /* scales only */
    PQ_F8E3M4,
    PQ_F8E4M3,
    PQ_F8E4M3B11FNUZ,
    PQ_TYPE_COUNT
};

/* Rounding of the quotient to an integer. Stochastic, also to narrow floats: to one of the
 * two neighbours, by chance, see `seed` in struct pq_args. */
enum pq_round {
    PQ_HALF_EVEN,
    PQ_HALF_AWAY,
    PQ_HALF_TOWARD_ZERO,
    PQ_HALF_UP,
    PQ_HALF_DOWN,
    PQ_AWAY,
    PQ_TRUNC,
    PQ_CEIL,
    PQ_FLOOR,
    PQ_STOCHASTIC,
    PQ_ROUND_COUNT
};

enum pq_status {
    PQ_OK,
    PQ_ERR_NULL,  /* a pointer that is needed is null */
    PQ_ERR_NDIM,  /* more than PQ_MAX_NDIM dimensions, or fewer than none */
    PQ_ERR_SHAPE, /* a negative extent, a block smaller than one element, more elements or
                     longer strides than memory has, or a layout that makes no sense */
    PQ_ERR_TYPE,  /* a type that this argument cannot have */
    PQ_ERR_ROUND, /* an unknown rounding mode */
    PQ_ERR_PART,  /* not 0 <= part < parts */
    PQ_ERR_ZERO,  /* a zero point outside the range of codes, or of what can be computed */
    PQ_ERR_OVERLAP,   /* elements of `out` share memory with each other; with those of other
                         arrays they must not, which is not checked */
    PQ_ERR_SIZE,      /* a struct whose size is less than that of its first version, or that
                         sets members which this version does not know */
    PQ_ERR_NONFINITE, /* an element is NaN or infinite where that has no answer; some of
                         what was to be written has been */
    PQ_ERR_OPTION,    /* a code outside the range of the quantized type, or options that do
                         not go together */
    PQ_ERR_BEYOND /* elements out of range that were not to be; all has been written, with
                     these saturated */
};

/* What becomes of integers beyond the range of codes. */
enum pq_beyond {
    PQ_SATURATE,
    PQ_WRAP,   /* modulo 2^bits; what is infinite becomes the lowest code, as NaN does */
    PQ_REFUSE, /* PQ_ERR_BEYOND */
    PQ_BEYOND_COUNT
};

/*
 * Every struct that callers make, but for `struct pq_array` in it, begins with its size:
 * the caller sets `.size = sizeof` of it. Members are only ever added, at the end; what is
 * beyond `size` counts as zeros, and a member that is 0 or null means what Python's
 * functions do by default. So a caller may have been compiled for an older version, and for
 * a newer one if it leaves what is new at 0.
 */

/* Where elements lie. Element (i, j, ...) is at data + i * strides[0] + j * strides[1]...
 * This struct stays as it is. */
struct pq_array {
    void *data;
    const ptrdiff_t *strides; /* bytes; any sign, any alignment */
    enum pq_type type;
    int swapped; /* not 0: the byte order is not the machine's */
    /* Null, or for `in` and `out` of less than 8 bits instead of `strides`: distances in
     * bits. Element (i, j, ...) begins i * bit_strides[0] + j * bit_strides[1] ... bits
     * above the lowest bit of the byte `data`, and may end in the next byte. Bits of `out`
     * between elements stay as they are; where elements lie densely in C order, the last
     * byte is filled up with zeros. */
    const ptrdiff_t *bit_strides;
};

/*
 * Codes of at most 8 bits as a stream of bits along one axis, cut into words: beside the
 * bit_strides of `in` or `out`, which say where the streams of the other axes begin, in
 * whole bytes, while the stride of `axis` is not looked at. Code i begins at bit v = i *
 * bits of the stream, or with an `order` at v = (i / group * group + order[i % group]) *
 * bits. Bit v is bit v % word_bits of word v / word_bits, words are little-endian, and word
 * k begins k * word_stride bits above the stream. What a word has no room for is in the low
 * bits of the next. There is memory for every word of which a code of a whole group has
 * bits; bits of `out` that no code has stay as they are.
 */
struct pq_layout {
    size_t size;
    int axis;
    int bits;              /* of a code: those of its type, and of a PQ_U8 1 to 8; 0: all */
    int word_bits;         /* 8, 16, 32 or 64 */
    int group;             /* codes that are permuted among each other, at most 256 */
    ptrdiff_t word_stride; /* bits, a multiple of 8 */
    const unsigned char *order; /* `group` numbers from 0, each once; null: i as it is */
};

/*
 * One call. All arrays share `ndim` and `shape`, but `scale` and `zero` are indexed by
 * i / block[d] along dimension d: stride 0 where a dimension does not select a parameter,
 * block 1 for one parameter per index, larger for blocks (the last may be short). Where an
 * extent is 0 nothing is read, whatever the strides; pointers are not null there, too.
 *
 * `out` has memory of its own: where it shares some with `in`, `scale` or `zero`, the
 * result is undefined, though nothing else is written.
 */
struct pq_args {
    size_t size;
    int ndim;
    const ptrdiff_t *shape;
    const ptrdiff_t *block; /* null: 1 everywhere */
    struct pq_array in;
    struct pq_array out;
    struct pq_array scale; /* any type; integers count as float64 */
    struct pq_array
        zero; /* data null: none. Any integer type; with narrow floats, these too */
    /* The rest for quantize only. */
    enum pq_round round; /* integers */
    /* Real type that holds the quotient; none: float64 where `in` is, else float32. */
    enum pq_type precision;
    int overflow; /* narrow floats: what is too large becomes infinity or NaN where the type
                     has one, instead of the largest number */
    int zero_first; /* integers: round the sum of quotient and zero point, added in float32
                     */
    int narrow_first; /* round `in` and `scale` to `precision` before they are divided */
    /* Dequantize integers: take zero points outside the range of the quantized type, too,
     * where they are otherwise refused as quantize refuses them. */
    int any_zeros;
    /* The results of minmax. */
    struct pq_array lowest;
    struct pq_array highest;
    /* Null, or how codes lie in words; not looked at by minmax and choose_params. Codes
     * that are quantized to fewer bits than their type has are the largest that these hold
     * where they would be larger. */
    const struct pq_layout *in_layout;
    const struct pq_layout *out_layout;
    /*
     * The rest for quantize and dequantize, whose arithmetic then is that of `in`, or
     * `out`, float32 for 16 bits, rounded after each step; or of `precision`, which may be
     * PQ_F64.
     *
     * Null, or numbers that lie as those of `scale` do, of its type and byte order and at
     * its strides: subtracted before the division, added to the product.
     */
    const void *offset;
    int inverse; /* multiply by scales to quantize, and divide by them to dequantize */
    /* Null, or integers that stand for NaN, which becomes the first of them. Here and below
     * those of PQ_U64 are two's complement. */
    const int64_t *fill;
    size_t fills;
    /* Quantize only. Integers saturate to [lowest_code, highest_code], where either is not
     * 0, which zero points are within, unless all are 0. */
    int64_t lowest_code, highest_code;
    enum pq_beyond beyond; /* narrow floats: saturate, or refuse what would do so */
    int refuse_nan;        /* PQ_ERR_BEYOND for a NaN quotient that no fill stands for */
    /*
     * PQ_STOCHASTIC: a quotient (a sum with `zero_first`, and to narrow floats) t of the
     * way from one code to the next becomes that next one if u < t, where u is the upper 24
     * bits of a word times 2^-24. Word i is number i % 4 of what Philox4x32-10 makes of the
     * key `seed` and the counter i / 4, where i is `start` plus the position of the element
     * in C order, modulo 2^64. So results do not depend on strides, parts or kernels.
     */
    uint64_t seed, start;
};

struct pq_kernels; /* the kernels of one instruction set */

/*
 * The kernels by name ("scalar", "avx2", "avx512", "neon"); null when this build or this
 * CPU lacks them, and for null. pq_isa_name(i) lists the names that this machine can use,
 * best first, then null.
 */
const struct pq_kernels *pq_isa_find(const char *name);
const char *pq_isa_name(int i);

/*
 * Quantize real `in` (an int32 is converted to the type of the quotient) to integer or
 * narrow float `out`; dequantize those to real `out`. The work is cut into `parts` that may
 * run on different threads; each call does one of them. Dequantizing integers takes with
 * `any_zeros` all that int64 holds. Quantizing with `zero_first` takes these from float32
 * to 8 bits, half to even, and otherwise up to 2^52 in magnitude.
 */
enum pq_status pq_quantize(const struct pq_kernels *kernels, const struct pq_args *args,
                           int part, int parts);
enum pq_status pq_dequantize(const struct pq_kernels *kernels, const struct pq_args *args,
                             int part, int parts);

/*
 * A call that is checked and planned once, and run on other arrays of the same types, shape
 * and strides. Nothing needs to be freed. It refers to the arrays of scales, zero points
 * and offsets, to fills and to layouts, which have to stay where they are, and as they are;
 * of `in` and `out` only the types and strides count, and that `data` is not null. Any
 * number of threads may run it. What a failed call has prepared, or what holds nothing but
 * zeros, gives PQ_ERR_NULL. Of this struct, too, the caller sets the size; PQ_ERR_SIZE
 * where the plan does not fit.
 */
struct pq_prepared {
    size_t size;
    uint64_t opaque[1023];
};

enum pq_status pq_prepare_quantize(struct pq_prepared *prepared,
                                   const struct pq_kernels *kernels,
                                   const struct pq_args *args);
enum pq_status pq_prepare_dequantize(struct pq_prepared *prepared,
                                     const struct pq_kernels *kernels,
                                     const struct pq_args *args);
enum pq_status pq_run(const struct pq_prepared *prepared, const void *in, void *out,
                      int part, int parts);

/* Copy codes of a narrow type, or of a byte in a layout, at bits or in bytes on either
 * side. As where codes are quantized those that are too large for `out_layout` become the
 * largest it has. */
enum pq_status pq_repack(const struct pq_kernels *kernels, const struct pq_args *args,
                         int part, int parts);

/*
 * Smallest and largest element of real `in` per parameter, merged into the float64 arrays
 * `lowest` and `highest`, which are indexed as `scale` is elsewhere, aligned and in the
 * machine's byte order, and which the caller has filled with start values. `scale`, `zero`
 * and `out` are not looked at. A zero may be of either sign. Where both are PQ_F32 `lowest`
 * gets the largest magnitudes instead, rounded half to even, and `highest` is not written
 * to. *finite becomes 0 when `in` holds a NaN or an infinity; the extrema then mean
 * nothing.
 */
enum pq_status pq_minmax(const struct pq_kernels *kernels, const struct pq_args *args,
                         int *finite);

/* Number of NaN and infinities in real `in`, and the C-order position of the first. */
enum pq_status pq_count_nonfinite(const struct pq_args *args, size_t *count, size_t *first);

/* Quantize again what was PQ_ERR_BEYOND: number of such elements, and the C-order position
 * of the first. */
enum pq_status pq_count_beyond(const struct pq_kernels *kernels, const struct pq_args *args,
                               size_t *count, size_t *first);

/* How choose_qparams makes parameters of extrema; see docs/semantics.md. */
enum pq_rule {
    PQ_RULE_USUAL,      /* symmetric, but for unsigned integers */
    PQ_RULE_SYMMETRIC,  /* zero point 0; the middle code of unsigned integers */
    PQ_RULE_ASYMMETRIC, /* all codes; not for narrow floats */
    /* DynamicQuantizeLinear, of data of at most 32 bits to uint8, which is meant where no
     * type is given. Infinities are numbers, beside NaN the scale is NaN. */
    PQ_RULE_ONNX_DYNAMIC
};

/* Packages of formulas, see csrc/ops/presets.h; for integers of at most 16 bits. */
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

struct pq_choice {
    size_t size;
    /* Type of the data, which decides what comes back finite; none: that of `in`, or
     * float32. */
    enum pq_type real;
    /* Quantized type, of at most 32 bits, also that of the zero points; these are int8 or
     * uint8 for narrow integers, and int8 zeros for narrow floats. None: int8. */
    enum pq_type code;
    enum pq_rule rule;
    /* Integers: the range of codes, where either is not 0. */
    int64_t lowest_code, highest_code;
    enum pq_like like;
    /* Of the scales: a real, PQ_F8E4M3FN or PQ_F8E8M0FNU. None: float64 for float64 data,
     * else float32. */
    enum pq_type scale;
};

/* Scale and zero point of `n` pairs of extrema, written to contiguous arrays. */
enum pq_status pq_choose(const struct pq_choice *choice, size_t n, const double *smallest,
                         const double *largest, void *scale, void *zero);

/*
 * Scale and zero point for each group of elements of real `in` that share one, written to
 * `scale` and `zero`: of the types that `choice` says, in the machine's byte order, those
 * of less than 8 bits in bytes. Where an extent is 0 they are those of no elements. `out`
 * is not looked at. The work is cut into `parts` as elsewhere; a group is the work of one.
 */
enum pq_status pq_choose_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *choice,
                                int part, int parts);

/* How requantize multiplies, see docs/api/requantize.md. All but the first are fixed point:
 * an integer multiplier and a shift stand for the real one. */
enum pq_arithmetic {
    PQ_ARITHMETIC_FLOAT32,
    PQ_ARITHMETIC_RNDNU,
    PQ_ARITHMETIC_TFLITE,
    PQ_ARITHMETIC_TFLITE_SINGLE,
    PQ_ARITHMETIC_FBGEMM,
    PQ_ARITHMETIC_COUNT
};

/* A number for each channel, `stride` bytes apart; stride 0: one for all. This struct stays
 * as it is. */
struct pq_channels {
    const void *data;
    ptrdiff_t stride;
    enum pq_type type;
    int swapped; /* as in struct pq_array */
};

/*
 * One call of requantize: out = clamp(R(in - input_zero + bias) + zero), where R multiplies
 * and rounds. Channels are the indices along `axis`, which is not looked at where all
 * strides of `multiplier`, `shift` and `bias` are 0. As for quantize `out` has memory of
 * its own.
 */
struct pq_requantization {
    size_t size;
    int ndim;
    const ptrdiff_t *shape;
    struct pq_array in;  /* int8 to int64, uint8 to uint32 */
    struct pq_array out; /* int8, uint8, int16, uint16 or int32 */
    int axis;
    enum pq_arithmetic arithmetic;
    /* float32 or float64; or beside `shift` integers from 0 to 2^31 - 1, as
     * pq_fixed_point() makes them. */
    struct pq_channels multiplier;
    struct pq_channels shift; /* data null: none; else integers */
    struct pq_channels bias;  /* data null: none; else integers that int64 holds */
    int64_t input_zero, zero; /* within the types of `in` and of `out` */
    int clips;                /* to within these codes */
    int64_t lowest_code, highest_code;
};

/* Requantize a part; PQ_ERR_OPTION for a multiplier or a shift that the arithmetic cannot
 * have, PQ_ERR_ZERO for a zero point that its type does not hold. */
enum pq_status pq_requantize(const struct pq_kernels *kernels,
                             const struct pq_requantization *args, int part, int parts);

/* The integers that stand for a real multiplier: of PQ_ARITHMETIC_TFLITE and _TFLITE_SINGLE
 * times 2^(shift - 31), else 2^-shift. PQ_ERR_OPTION where there are none. */
enum pq_status pq_fixed_point(enum pq_arithmetic arithmetic, double multiplier,
                              int32_t *integer, int *shift);

/*
 * What pq_choose_params() and pq_quantize() do one after the other, while caches hold what
 * both read: `scale`, `zero` and `out`, of the type that is chosen for, are written. A
 * group is the work of one part. Codes are within the range of the choice. At what is not
 * finite those of other groups may have been written.
 */
enum pq_status pq_dynamic_quantize(const struct pq_kernels *kernels,
                                   const struct pq_args *args,
                                   const struct pq_choice *choice, int part, int parts);

struct pq_fake {
    size_t size;
    enum pq_type code; /* quantized to, and dequantized from */
    /* data null: none. Else PQ_U8, where 1 says that an element was within the range of
     * codes, of quotients rounded, and 0 that it was not, as no NaN is. */
    struct pq_array mask;
};

/* What pq_quantize() and pq_dequantize() do one after the other, with the same arguments,
 * without an array of codes: `out` has the type of `in`, and both have bytes. What has to
 * do with policies is not for this. */
enum pq_status pq_fake_quantize(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_fake *fake,
                                int part, int parts);

/*
 * How often the upper 16 bits of numbers occur: of float32, of bfloat16 and float16 their
 * own, of float64 those of the float32 that it is truncated to, toward zero. 128 keys of
 * the same upper 9 bits are a page; of all but float16 that is a sign and an exponent. What
 * has the key of -0 is counted with 0.
 */
enum { PQ_PAGES = 512, PQ_PAGE = 128, PQ_COUNTERS = 4 * (65536 + 320) };

/* To begin with all are 0, but for the size, the extrema, an option, and `counters`. */
struct pq_counts {
    size_t size;
    int ignore_nonfinite; /* else they are PQ_ERR_NONFINITE */
    uint32_t pending;     /* elements in the counters */
    uint32_t *counters;   /* PQ_COUNTERS zeros; null: extrema and numbers alone */
    uint64_t count;       /* finite numbers */
    uint64_t nan, inf;
    double lowest, highest; /* INFINITY, -INFINITY before there are any; zeros are 0 */
    uint64_t pages[PQ_PAGES / 64]; /* bit p % 64 of p / 64: some of page p are counted */
};

/*
 * Count real `in`, of which each part is the work of one thread with its own `counts`,
 * which may come from any number of calls; PQ_ERR_SHAPE where the counters would have to
 * hold 2^32 and more. After PQ_ERR_NONFINITE what is in `counts` means nothing, but the
 * counters are zeros again once all pages have been taken.
 */
enum pq_status pq_histogram(const struct pq_kernels *kernels, const struct pq_args *args,
                            struct pq_counts *counts, int part, int parts);

/* Write how often the 128 keys from 128 * page on were counted, and forget that. Returns
 * the page, in ascending order at each call, or -1 where there is none any more. */
int pq_histogram_take(struct pq_counts *counts, uint64_t *to);

/* How parameters are searched for. */
struct pq_search {
    size_t size;
    /* Data null: 1; else a real number for each element, finite and not negative, which its
     * squared error is multiplied by: strides as those of `in`. */
    struct pq_array weights;
    /* Null: 1 - j / 100 for j from 0 to 19; else `count` factors in (0, 1]. */
    const double *candidates;
    size_t count;
};

/*
 * As pq_choose_params(), but for the parameters with the least sum of squared errors: of
 * those of the extrema times each of the candidates, rounded to float32, or to float64 if
 * `in` is that, the first with the least sum; then the scale that fits its codes best, by
 * least squares, if the sum is less under that. The errors are those of what is dequantized
 * to float32, or float64, rounded to that type; sums are float64, those of 1024 elements in
 * C order at a time, as pq_measure() adds runs. PQ_ERR_OPTION for candidates and rules that
 * are none.
 */
enum pq_status pq_search_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *choice,
                                const struct pq_search *search, int part, int parts);

/*
 * Sums and extremes of the errors x - y of a group of elements, in float64, of those of
 * which both numbers are finite. Sums of squares and products are to be multiplied by
 * 4^exponent, `e` by 2^exponent; the exponent is 0 unless numbers are float64 and far from
 * 1.
 */
struct pq_error {
    double xx, yy, xy, e, ee; /* sums of x^2, y^2, x y, x - y, (x - y)^2 */
    double most;              /* the largest magnitude of x - y ... */
    int64_t index;            /* ... and its place among these, in C order; -1: none */
    int64_t count;            /* elements, these among them: */
    int64_t nan, inf;         /* not computed: one of the two is NaN, or else infinite */
    int64_t exponent;
    /* Of pq_measure_params(): too low or too high for the codes by more than half a step,
     * and under a scale that is 0, infinite or NaN. */
    int64_t low, high, bad_scales;
};

/*
 * Measure x (`in`) against y (`out`, which is only read), both real; of `args` the shape
 * and these two are looked at. The elements at each index of the dimensions that `kept`
 * marks, a number that is not 0 for each, null: none, are a group. Of each group there is a
 * result for each chunk of PQ_MEASURE_CHUNK elements in C order: that of chunk c of group
 * g, in C order, is errors[g * chunks + c]. Added in order they are those of the group;
 * parts do not change any. A group has pq_measure_chunks(size) chunks, one if it is empty.
 */
#define PQ_MEASURE_CHUNK 65536
ptrdiff_t pq_measure_chunks(ptrdiff_t size);
enum pq_status pq_measure(const struct pq_kernels *kernels, const struct pq_args *args,
                          const unsigned char *kept, struct pq_error *errors, int part,
                          int parts);

/*
 * What pq_measure() says of `in` and of what it becomes when it is quantized to `code` and
 * dequantized, to float64 if `in` is that, else to float32; `out` is not looked at. Nor is
 * there an array of codes. Also counts what saturates. The arithmetic is that of `in`, not
 * stochastic: with a `precision`, `inverse` or PQ_STOCHASTIC it is PQ_ERR_OPTION.
 */
enum pq_status pq_measure_params(const struct pq_kernels *kernels,
                                 const struct pq_args *args, enum pq_type code,
                                 const unsigned char *kept, struct pq_error *errors,
                                 int part, int parts);

/* Add the errors of elements that follow those of `sum`. */
void pq_add_error(struct pq_error *sum, const struct pq_error *error);

/* 1 when every zero point is within [lo, hi], else 0 and in *outside one that is not (as
 * two's complement when it is a uint64). Looks at `zero`, `ndim`, `shape` and `block`; 0,
 * too, where these are none that can be looked at, and 1 where an extent is 0. */
int pq_zeros_within(const struct pq_args *args, int64_t lo, int64_t hi, int64_t *outside);

enum pq_kind {
    PQ_KIND_NONE,
    PQ_KIND_REAL,    /* quantized from, dequantized to; also scales */
    PQ_KIND_INTEGER, /* codes, and zero points */
    PQ_KIND_FLOAT,   /* narrow floats: codes, scales, zero points of their own type */
    PQ_KIND_EXPONENT /* scales only */
};

/* A table of numbers, whose places are codes. The caller sets the size, leaves the rest at
 * 0, and may copy what pq_codebook_init() has made, of which only `bits` is for callers.
 * This struct stays as it is, too: another size is PQ_ERR_SIZE. */
struct pq_codebook {
    size_t size;
    int bits; /* of a code */
    int levels;
    float value[256], bound[256];
    uint8_t code[256];
};

/* Of 4, 8, 16, 32, 64, 128 or 256 values, which are copied; PQ_ERR_OPTION of other counts,
 * and where one is not finite. */
enum pq_status pq_codebook_init(struct pq_codebook *book, const float *values, int count);

/*
 * Numbers over their scales, or times these if `inverse`, to the codes of the nearest
 * values, of the lower one of two that are as near; and the values of codes times scales,
 * or over these, in float32, to numbers. Quotients are float32, float64 where numbers are
 * that. Codes are PQ_U8, PQ_U4 or PQ_U2, of no more bits than the table has where they are
 * looked up, and of no less where they are made; of bytes what is above these does not
 * count. There are no zero points, and of the other options none. A table that is still 0,
 * or was refused, gives PQ_ERR_NULL.
 */
enum pq_status pq_codebook_quantize(const struct pq_kernels *kernels,
                                    const struct pq_args *args,
                                    const struct pq_codebook *book, int part, int parts);
enum pq_status pq_codebook_dequantize(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_codebook *book, int part, int parts);

/* What is known of a format of weights in blocks, as GGUF files have them. */
struct pq_block_format {
    const char *name; /* and number, as ggml has them */
    int id;
    int elements, bytes; /* of a block */
    int encodes;  /* whether pq_block_encode makes them: 0 not, 1 by a formula, 2 by a
                   * search, 3 by either */
    int weighted; /* whether that heeds weights, for which it searches */
};

/* Those that there are, from 0 on, then null. */
const struct pq_block_format *pq_block_format(int i);

/* Blocks that follow each other along the last dimension. */
struct pq_blocks {
    size_t size;
    int format; /* its number in ggml */
    int ndim;   /* at least 1 */
    /* Of the numbers: the last extent is a multiple of a block's elements. The blocks have
     * as many dimensions, of their bytes the last. */
    const ptrdiff_t *shape;
    struct pq_array in, out;
    /* To encode: what the error of each number counts, of at least 0; real, of the shape of
     * `in`, maybe with strides of 0. Data of null: no weights. Who does not heed them does
     * not read them. */
    struct pq_array weights;
    int search; /* whether formats that are made by either are searched for */
};

/*
 * Make numbers of blocks `in`, PQ_U8, to real `out`: the exact values, rounded to float32
 * once, and half to even to other types after that; NaN is canonical. Every byte stands for
 * something. PQ_ERR_OPTION for a format that is not known. The work is cut into `parts` as
 * elsewhere.
 */
enum pq_status pq_block_decode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts);

/*
 * Make blocks `out`, PQ_U8, of real `in`, float64 rounded to float32 once: the bytes of
 * ggml's reference code, which takes weights for the importance of columns. Numbers that
 * are not finite, and weights that are not or are negative, make bytes that mean nothing:
 * pq_minmax finds them before. PQ_ERR_OPTION for a format that has no encoder, or none that
 * searches.
 */
enum pq_status pq_block_encode(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts);

/* What is known of a type. */
struct pq_type_info {
    const char *name; /* as NumPy and ml_dtypes have it */
    enum pq_kind kind;
    int bits; /* of its codes; those of less than 8 need not have a byte of their own */
    size_t bytes;
    enum pq_type carrier; /* the type of whole bytes that it is computed as */
    int64_t lowest;       /* of integers */
    uint64_t highest;
};

/* Null for no type. The rest are single columns of it; 0 for no type. */
const struct pq_type_info *pq_type_info(enum pq_type type);
size_t pq_type_size(enum pq_type type);
int pq_type_bits(enum pq_type type);

/* Return the English text of a status, a constant, also for an unknown status. */
const char *pq_status_text(enum pq_status status);

/*
 * The functions as a table, for those who get them from a Python module: see pyquant.h.
 * `major` changes when something here does; what is added comes to the end of the table or
 * of an enum (before its _COUNT, where it has one) and changes `minor`. So a status may
 * come that this header does not know: it is a failure, and pq_status_text() has its text.
 */
#define PQ_API_MAJOR 1
#define PQ_API_MINOR 2

struct pq_api {
    unsigned major, minor;            /* these three are the same in every version */
    const char *version;              /* of the package */
    const struct pq_kernels *kernels; /* the best of this machine, or PYQUANT_ISA's */
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
    /* of version 1.2 */
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
};

/* Fill the table. */
void pq_api_init(struct pq_api *api, const struct pq_kernels *kernels, const char *version);

#ifdef __cplusplus
}
#endif

#endif
