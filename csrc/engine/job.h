/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job: the request of an operation to the engine. It contains a plan, kernels, the
 * formats of the input and output elements, and the parameters. Operations fill it in, and
 * the engine runs it.
 */
#ifndef PQ_JOB_H
#define PQ_JOB_H

#include "engine/bits.h"
#include "engine/params.h"
#include "engine/tile.h"
#include "kernels/kernels.h"
#include "types.h"

enum {
    PQ_TILE = PQ_SIZE(1024, 384), /* tile size in elements; all buffers fit in L1 */
    PQ_BROADCAST = 8,             /* number of parameter copies that one step writes */
    PQ_GROUP = 32 /* groups of fewer elements usually get a parameter for each element */
};

struct pq_facts; /* args.h */
struct pq_job;

/* Load the parameters of `n` groups to the indices [to, to + n) of the parameter tiles.
 * `at` is the address of the first scale. The distance of two scales is `stride` bytes. */
typedef void pq_load_fn(struct pq_job *job, ptrdiff_t to, const char *at, ptrdiff_t stride,
                        size_t n);

/* The kernels of an operation and the types of their parameters. */
struct pq_method {
    pq_kernel_fn *kernel;
    pq_kernel_fn *packed;    /* kernel for packed codes, or null if there is none */
    struct pq_run run;       /* the options and the parameters of the next kernel call */
    struct pq_affine affine; /* the stages of an affine kernel, if `inner_kernel` is set */
    pq_bytes_fn *copy;       /* not null: the job copies codes and has no parameters */
    pq_row_fn *element;      /* not null: run this function for each element */
    pq_load_fn *load;        /* loads parameters; if null, pq_load_params() does */
    bool general;            /* kernels use float64 parameters */
    bool by_groups;          /* kernels need only one pair of parameters for a long group */
    bool counts;             /* kernels count elements, so each element is processed once */
    bool single_scale;       /* round scales to float32 */
    bool float_zero;         /* zero points are float32 numbers, stored as bits */
    bool negate_zero;        /* with `float_zero`: zero points are stored negated */
    bool has_64_bit_zero;    /* zero points are 64-bit integers, not float64 */
    /* The upper 32 bits of a scale in the kernel's type, or 0. The engine flushes
     * subnormals only if this member is not 0 and every scale is at least this scale. */
    uint32_t flush_min_scale;
};

/* Scales, zero points or offsets: one for each element of a tile, or one for each group.
 * Code that only copies parameters uses an integer member. */
union pq_param_tile {
    float f32[PQ_TILE + 2 * PQ_BROADCAST];
    int32_t i32[PQ_TILE + 2 * PQ_BROADCAST];
    double f64[PQ_TILE + 2 * PQ_BROADCAST];
    uint64_t u64[PQ_TILE + 2 * PQ_BROADCAST];
};

struct pq_job {
    const struct pq_kernels *kernels; /* null: the job is empty */
    size_t in_size, out_size;
    ptrdiff_t in_step, out_step; /* element distance in bytes, or in bits if packed */
    bool in_swapped, out_swapped;
    enum pq_type scale_type, zero_type, offset_type;
    int scale_swapped, zero_swapped, offset_swapped;
    bool zero_given;
    bool one_zero;           /* all elements share a zero point */
    ptrdiff_t zeros_there;   /* number of copies of a shared zero point in `zero` */
    bool has_small_scale;    /* a loaded scale is less than `flush_min_scale` */
    bool flushes_subnormals; /* the control state (math/fpenv.h) flushes subnormals now */
    bool exceeds_cache;      /* the data exceeds the near caches */
    uint64_t seed;
    size_t out_of_range; /* count of the elements out of range */
    struct pq_codes unpack, pack;
    struct pq_method how;

    ptrdiff_t in_start, out_start; /* distances of plan.in and plan.out from the arrays */
    struct pq_plan plan;           /* a stored job ends after its last used dimension */

    /* The parameter tiles have a parameter for each element of a tile or for each group.
     * `loaded` has the addresses and the first column of these parameters, and the numbers
     * of rows and columns. */
    struct {
        struct pq_addresses at;
        ptrdiff_t first, rows, columns;
    } loaded;
    bool loads_rows; /* parameters of many rows are loaded together */
    _Alignas(64) union pq_param_tile scale;
    _Alignas(64) union pq_param_tile zero;
    _Alignas(64) union pq_param_tile offset;
    uint32_t random_words[PQ_TILE]; /* a random word for each element of a tile */
};

/* ---- for operations (job.c, engine.c) ---- */

/* An empty method. Copying this constant takes less time than the code by which compilers
 * clear a struct. */
extern const struct pq_method pq_no_method;

/* Initialize a job from checked arguments. The caller has set `how`. */
enum pq_status pq_job_init(struct pq_job *job, const struct pq_kernels *kernels,
                           const struct pq_args *args);

/* Set the types and the byte orders of the parameters. */
void pq_job_set_params(struct pq_job *job, const struct pq_args *args);

/* Run part number `part` of the `parts` parts of a job (engine.c). */
void pq_job_run(struct pq_job *job, int part, int parts);

/* Return true if kernels read `in` and write `out` directly, without copying elements. */
bool pq_job_is_direct(const struct pq_job *job);

/* Return true if pq_job_run_groups() can run the job: one contiguous row of groups. */
bool pq_job_can_run_groups(const struct pq_job *job);

/* Process `n` elements of a row from position `at` on, in at most PQ_TILE groups of `g`.
 * The last group may be short. The control state must have the IEEE defaults before the
 * call, and has the IEEE defaults after the call. */
void pq_job_run_groups(struct pq_job *job, struct pq_position at, size_t n, size_t g);

/* Process `n` contiguous elements with one scale and one zero point, without a plan. The
 * caller sets only the member `how` of the job. The function sets the other members. It
 * reads the addresses and types of `args`. */
void pq_job_run_row(struct pq_job *job, const struct pq_args *args, size_t n);

/* Run a checked call, without a plan if possible. The caller has set `how`. */
enum pq_status pq_job_run_args(struct pq_job *job, const struct pq_kernels *kernels,
                               const struct pq_args *args, int part, int parts);

/* Choose the method of a call that has passed pq_check_call(), or return an error. */
typedef enum pq_status pq_set_method_fn(struct pq_method *how,
                                        const struct pq_kernels *kernels,
                                        const struct pq_args *args, struct pq_facts *facts);

/* Choose the method of quantize or dequantize (ops/). */
extern pq_set_method_fn pq_quantize_method, pq_dequantize_method;

/* Check a call, initialize its job, and run one part. Store the number of elements out of
 * range, unless `out_of_range` is null. */
enum pq_status pq_call(pq_set_method_fn *set, const struct pq_kernels *kernels,
                       const struct pq_args *args, int part, int parts,
                       size_t *out_of_range);
/* Run all elements of a call without pq_check_call(), which must accept the call. */
enum pq_status pq_call_run(pq_set_method_fn *set, const struct pq_kernels *kernels,
                           const struct pq_args *args);
/* Check a call, and store its job in `prepared`, for pq_run(). */
enum pq_status pq_prepare(pq_set_method_fn *set, struct pq_prepared *prepared,
                          const struct pq_kernels *kernels, const struct pq_args *args);

/* Define the public functions of an operation with the method `set`. */
#define PQ_CALLS_OF(name, set)                                                             \
    enum pq_status pq_##name(const struct pq_kernels *kernels, const struct pq_args *args, \
                             int part, int parts)                                          \
    {                                                                                      \
        return pq_call(set, kernels, args, part, parts, NULL);                             \
    }                                                                                      \
    enum pq_status pq_##name##_run(const struct pq_kernels *kernels,                       \
                                   const struct pq_args *args)                             \
    {                                                                                      \
        return pq_call_run(set, kernels, args);                                            \
    }                                                                                      \
    enum pq_status pq_prepare_##name(struct pq_prepared *prepared,                         \
                                     const struct pq_kernels *kernels,                     \
                                     const struct pq_args *args)                           \
    {                                                                                      \
        return pq_prepare(set, prepared, kernels, args);                                   \
    }

/* Check the options of a call that needs an affine kernel (ops/affine.c). */
enum pq_status pq_check_affine(const struct pq_args *args, struct pq_facts *facts,
                               enum pq_type code, bool quantizes);

/* Replace the kernel of a method by an affine kernel, which calls the replaced kernel
 * with numbers of type `carrier`. `options` are the bits of pq_options_of(). */
void pq_add_affine_stages(struct pq_method *how, const struct pq_kernels *kernels,
                          const struct pq_args *args, int options, enum pq_type carrier,
                          bool quantizes);

/* Return the range of zero points of integer codes. An int32 array with a layout has codes
 * of 24 bits. */
static inline struct pq_range pq_zero_range(enum pq_type code,
                                            const struct pq_layout *layout)
{
    const bool is_24_bit = code == PQ_I32 && layout != NULL;
    return is_24_bit ? (struct pq_range){-(1 << 23), (1 << 23) - 1} : pq_range_of(code);
}

/* Return true for 32-bit integers. Float32 cannot represent all of them. */
static inline bool pq_is_32_bit(enum pq_type type)
{
    return pq_is_integer(type) && pq_bits_of(type) == 32;
}

/* Return true if each element needs a random word. Only run_tiles() generates the words. */
static inline bool pq_needs_random_words(const struct pq_method *how)
{
    return how->run.round == PQ_STOCHASTIC;
}

/* Return a number of output elements that occupies complete bytes, for codes of any size.
 * Parts of a job begin at multiples of this number. */
static inline int pq_alignment_elements(const struct pq_job *job)
{
    return job->pack.bits != 0 ? 8 : 1;
}

/* Return true if the engine converts input codes to bytes for the kernel. */
static inline bool pq_job_unpacks(const struct pq_job *job)
{
    return job->unpack.convert != NULL || job->unpack.bits != 0;
}

/* ---- parameters, for the engine (params.c) ---- */

/* Flush subnormals if `how.flush_min_scale` is not 0 and every scale that was loaded since
 * the last call is at least this large. Otherwise do not flush subnormals. */
void pq_set_flush(struct pq_job *job);

/* Load the scales, zero points and offsets of `n` groups of `dim` to the indices
 * [to, to + n) of the parameter tiles. `at` has the addresses for the first group. */
void pq_load_params(struct pq_job *job, ptrdiff_t to, const struct pq_addresses *at,
                    const struct pq_dim *dim, size_t n);

/* Load the parameters of all groups of `rows` rows to the parameter tiles, row by row. For
 * a job with `how.load`, the scales of all rows must be equally spaced. */
void pq_load_rows(struct pq_job *job, struct pq_addresses at, ptrdiff_t rows);

/* Return true if the parameter tiles begin with the parameters at the addresses `at`. */
static inline bool pq_has_loaded(const struct pq_job *job, const struct pq_addresses *at)
{
    return job->loaded.at.scale == at->scale && job->loaded.at.zero == at->zero &&
           job->loaded.at.offset == at->offset;
}

/* Copy the parameters at index `from` to the indices [to, to + n). The copy may write up
 * to PQ_BROADCAST - 1 further parameters. */
void pq_repeat_param(struct pq_job *job, ptrdiff_t from, ptrdiff_t to, ptrdiff_t n);

/*
 * Load the parameters of the tile of rows [row, row + rows) and columns
 * [column, column + columns), unless these parameters are still loaded. Return the number
 * of successive elements that share a pair of loaded parameters: all elements, a row, or 1.
 */
ptrdiff_t pq_load_tile_params(struct pq_job *job, struct pq_addresses row_start,
                              ptrdiff_t row, ptrdiff_t rows, ptrdiff_t column,
                              ptrdiff_t columns);

#endif
