/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pq.h - quantize and dequantize strided arrays, exactly and at the speed of memory.
 *
 *     quantize    out = saturate(round(in / scale) + zero)
 *     dequantize  out = (in - zero) * scale
 *
 * The division is IEEE division rounded once, the rounding to integer is one of nine named
 * modes, NaN gives the lowest code. Narrow floats take the sum of quotient and zero point,
 * rounded half to even, and keep NaN where they have one. Results are the same bits on
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
    PQ_I64, /* zero points only */
    PQ_U64, /* zero points only */
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
    PQ_TYPE_COUNT
};

/* Rounding of the quotient to an integer. */
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
    PQ_ROUND_COUNT
};

enum pq_status {
    PQ_OK,
    PQ_ERR_NULL,  /* a pointer that is needed is null */
    PQ_ERR_NDIM,  /* more than PQ_MAX_NDIM dimensions, or fewer than none */
    PQ_ERR_SHAPE, /* a negative extent, a block smaller than one element, or more elements
                     or longer strides than memory has */
    PQ_ERR_TYPE,  /* a type that this argument cannot have */
    PQ_ERR_ROUND, /* an unknown rounding mode */
    PQ_ERR_PART,  /* not 0 <= part < parts */
    PQ_ERR_ZERO,  /* a zero point outside the range of the quantized type, or of what can be
                     computed */
    PQ_ERR_OVERLAP, /* elements of `out` share memory with each other; with those of other
                       arrays they must not, which is not checked */
    PQ_ERR_SIZE     /* a struct whose size is less than that of its first version, or that
                       sets members which this version does not know */
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
};

struct pq_kernels; /* the kernels of one instruction set */

/*
 * The kernels by name ("scalar", "avx2", "neon"); null when this build or this CPU lacks
 * them, and for null. pq_isa_name(i) lists the names that this machine can use, best first,
 * then null.
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
 * and strides. Nothing needs to be freed. It refers to the arrays of scales and zero
 * points, which have to stay where they are, and as they are; of `in` and `out` only the
 * types and strides count, and that `data` is not null. Any number of threads may run it.
 * What a failed call has prepared, or what holds nothing but zeros, gives PQ_ERR_NULL.
 * Of this struct, too, the caller sets the size; PQ_ERR_SIZE where the plan does not fit.
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

/* Copy elements of a narrow type, at bits or in bytes on either side. */
enum pq_status pq_repack(const struct pq_kernels *kernels, const struct pq_args *args,
                         int part, int parts);

/*
 * Smallest and largest element of real `in` per parameter, merged into the float64 arrays
 * `lowest` and `highest`, which are indexed as `scale` is elsewhere, aligned and in the
 * machine's byte order, and which the caller has filled with start values. `scale`, `zero`
 * and `out` are not looked at.
 * *finite becomes 0 when `in` holds a NaN or an infinity; the extrema then mean nothing.
 */
enum pq_status pq_minmax(const struct pq_kernels *kernels, const struct pq_args *args,
                         int *finite);

/* Number of NaN and infinities in real `in`, and the C-order position of the first. */
enum pq_status pq_count_nonfinite(const struct pq_args *args, size_t *count, size_t *first);

/* How choose_qparams makes parameters of extrema; see docs/semantics.md. */
enum pq_rule {
    PQ_RULE_USUAL,     /* symmetric, but for unsigned integers */
    PQ_RULE_SYMMETRIC, /* zero point 0; the middle code of unsigned integers */
    PQ_RULE_ASYMMETRIC /* all codes; not for narrow floats */
};

struct pq_choice {
    size_t size;
    /* Type of the data, which decides what comes back finite; none: float32. Scales are
     * float64 for PQ_F64, else float32. */
    enum pq_type real;
    /* Quantized type, also that of the zero points; these are int8 or uint8 for narrow
     * integers, and int8 zeros for narrow floats. None: int8. */
    enum pq_type code;
    enum pq_rule rule;
};

/* Scale and zero point of `n` pairs of extrema, written to contiguous arrays. */
enum pq_status pq_choose(const struct pq_choice *choice, size_t n, const double *smallest,
                         const double *largest, void *scale, void *zero);

/* 1 when every zero point is within [lo, hi], else 0 and in *outside one that is not (as
 * two's complement when it is a uint64). Looks at `zero`, `ndim`, `shape` and `block`; 0,
 * too, where these are none that can be looked at, and 1 where an extent is 0. */
int pq_zeros_within(const struct pq_args *args, int64_t lo, int64_t hi, int64_t *outside);

enum pq_kind {
    PQ_KIND_NONE,
    PQ_KIND_REAL,    /* quantized from, dequantized to; also scales */
    PQ_KIND_INTEGER, /* codes of at most 32 bits, and zero points */
    PQ_KIND_FLOAT,   /* narrow floats: codes, scales, zero points of their own type */
    PQ_KIND_EXPONENT /* scales only */
};

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

/* What a status says, in English, a constant; also for a number that is none. */
const char *pq_status_text(enum pq_status status);

/*
 * The functions as a table, for those who get them from a Python module: see pyquant.h.
 * `major` changes when something here does; what is added comes to the end of the table or
 * of an enum (before its _COUNT, where it has one) and changes `minor`. So a status may
 * come that this header does not know: it is a failure, and pq_status_text() has its text.
 */
#define PQ_API_MAJOR 1
#define PQ_API_MINOR 0

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
};

/* Fill the table. */
void pq_api_init(struct pq_api *api, const struct pq_kernels *kernels, const char *version);

#ifdef __cplusplus
}
#endif

#endif
