/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation asks of the engine: a plan, the kernels to run over it, how the
 * elements of either side lie, and the parameters. Operations fill it in, the engine runs
 * it.
 */
#ifndef PQ_JOB_H
#define PQ_JOB_H

#include "engine/bits.h"
#include "engine/params.h"
#include "engine/tile.h"
#include "engine/walk.h"
#include "kernels/kernels.h"
#include "types.h"

enum {
    PQ_TILE = 1024,   /* elements of a tile: all buffers alignment_elements fit in L1 */
    PQ_BROADCAST = 8, /* a parameter is repeated so many times at once */
    PQ_GROUP = 32     /* groups shorter than this are expanded */
};

/* How an operation computes: the kernels, and what they take for parameters. */
struct pq_method {
    pq_kernel_fn *kernel;
    pq_kernel_fn *packed;    /* null: packed codes are bytes in between */
    struct pq_run run;       /* the options, and at present the parameters */
    struct pq_affine affine; /* what an affine kernel goes around; no `inner`: it is none */
    pq_bytes_fn *copy;       /* not null: all there is to do, without parameters */
    pq_row_fn *element;      /* not null: one at a time */
    bool general;            /* the kernel takes float64 parameters */
    bool by_groups;          /* it gains from groups of at least PQ_GROUP elements */
    bool single_scale;       /* scales are rounded to float32 */
    bool float_zero;         /* zero points are bits of float32 numbers ... */
    bool negate_zero;        /* ... of the other sign */
    bool wide_zero;          /* zero points are integers of 64 bits instead of float64 */
    /* Upper 32 bits of the first scale that is not too small to flush subnormals beside it,
     * as the kernel takes scales; 0: never flush. */
    uint32_t flush_min_scale;
};

/* The indices of dimension 0 as `rows` rows of `columns` elements, 0 where they are not, in
 * groups of `row_group_size` rows and `block` elements; the parameters of all these planes
 * follow each other. */
struct pq_planes {
    ptrdiff_t rows, columns, row_group_size, group_size;
    ptrdiff_t row_groups, groups; /* of rows in a plane, of elements in a row */
    ptrdiff_t scale, zero;        /* bytes from a group's to the next one's */
};

struct pq_job {
    const struct pq_kernels *kernels; /* null: nothing to run */
    size_t in_size, out_size;
    ptrdiff_t in_step, out_step; /* from an element to the next: its size, or its bits */
    bool in_swapped, out_swapped;
    enum pq_type scale_type, zero_type;
    int scale_swapped, zero_swapped;
    bool zero_given;
    bool one_zero;           /* for all elements, which ... */
    ptrdiff_t zeros_there;   /* ... so many places have already */
    bool has_small_scale;    /* scales too small for flushing subnormals beside them */
    bool flushes_subnormals; /* at present */
    bool exceeds_cache;      /* caches near do not hold all that is run over */
    uintptr_t offset_from;   /* the array of scales: the way to that of offsets */
    uint64_t seed;
    size_t outside; /* elements out of range that were counted */
    struct pq_codes unpack, pack;
    struct pq_method how;

    ptrdiff_t in_start, out_start; /* of the plan in its arrays */
    int alignment_elements;        /* see pq_plan_part */
    struct pq_plan plan;           /* of which the end may be unused */

    /* Parameters, one per element of a tile or one per group; for what, says `loaded`. */
    struct {
        const char *scale, *zero;
        ptrdiff_t first, rows, columns;
    } loaded;
    struct pq_planes planes;
    _Alignas(64) union {
        float f32[PQ_TILE + 2 * PQ_BROADCAST];
        double f64[PQ_TILE + 2 * PQ_BROADCAST];
    } scale;
    _Alignas(64) union {
        int32_t i32[PQ_TILE + 2 * PQ_BROADCAST];
        double f64[PQ_TILE + 2 * PQ_BROADCAST]; /* moved as such, whatever its bits are */
        uint64_t u64[PQ_TILE + 2 * PQ_BROADCAST];
    } zero;
    _Alignas(64) union {
        float f32[PQ_TILE + 2 * PQ_BROADCAST];
        double f64[PQ_TILE + 2 * PQ_BROADCAST];
    } offset;
    uint32_t random_words[PQ_TILE]; /* of the elements of a tile, row by row */
};

/* ---- what operations need (job.c) ---- */

/* Where every method begins. A copy takes less time than what compilers clear as many bytes
 * with. */
extern const struct pq_method pq_no_method;

/* A job for arguments that passed the checks, of which the caller has set `how`. */
enum pq_status pq_job_init(struct pq_job *job, const struct pq_kernels *kernels,
                           const struct pq_args *args);

/* Where and how the parameters lie; pq_job_init() does this, too. */
void pq_job_set_params(struct pq_job *job, const struct pq_args *args);

/* Run one of `parts` parts (engine.c). */
void pq_job_run(struct pq_job *job, int part, int parts);

/* Whether kernels are given the elements of both sides themselves, in one part. */
bool pq_job_is_direct(const struct pq_job *job);

/* Whether all elements are one contiguous row of groups, for pq_job_run_groups(). */
bool pq_job_is_groups(const struct pq_job *job);

/* Run `n` elements of such a row from `x` and `y` on, of whole groups of `g` but for the
 * last, at most PQ_TILE of them, their parameters contiguous. The caller has set the
 * control state to the IEEE defaults, and finds it so. */
void pq_job_run_groups(struct pq_job *job, struct pq_position at, size_t n, size_t g);

/* Run `n` elements that follow each other on both sides, as kernels take them, under one
 * scale and one zero point, without a plan: of the job only `how` is set, and of `args`
 * only memory and types are looked at. */
void pq_job_run_row(struct pq_job *job, const struct pq_args *args, size_t n);

/* Say how a call is computed that pq_check_call() has passed, or what is wrong with it. */
typedef enum pq_status pq_set_method_fn(struct pq_method *how,
                                        const struct pq_kernels *kernels,
                                        const struct pq_args *args);

/* Those of the two directions (ops/). */
extern pq_set_method_fn pq_quantize_method, pq_dequantize_method;

/* Check a call, make its job, and run one part of that, or keep it for pq_run(); or run
 * what run.h says (prepared.c). */
enum pq_status pq_call(pq_set_method_fn *set, const struct pq_kernels *kernels,
                       const struct pq_args *args, int part, int parts);
enum pq_status pq_call_counting(pq_set_method_fn *set, const struct pq_kernels *kernels,
                                const struct pq_args *args, int part, int parts,
                                size_t *outside);
enum pq_status pq_call_run(pq_set_method_fn *set, const struct pq_kernels *kernels,
                           const struct pq_args *args);
enum pq_status pq_prepare(pq_set_method_fn *set, struct pq_prepared *prepared,
                          const struct pq_kernels *kernels, const struct pq_args *args);

/* Whether a call has what only affine kernels do, and what is wrong with it (ops/affine.c).
 */
bool pq_is_affine(const struct pq_args *args, bool quantizes);
enum pq_status pq_check_affine(const struct pq_args *args, enum pq_type code,
                               bool quantizes);

/* pq_quantize() that says how many elements were out of range. */
enum pq_status pq_quantize_counting(const struct pq_kernels *kernels,
                                    const struct pq_args *args, size_t *outside);

/* Make a method for numbers of `carrier` one for those of the call. */
void pq_add_affine_stages(struct pq_method *how, const struct pq_kernels *kernels,
                          const struct pq_args *args, enum pq_type carrier, bool quantizes);

/* 32-bit integers, of which float32 holds only some. */
static inline bool pq_is_32_bit(enum pq_type type)
{
    return pq_is_integer(type) && pq_bits_of(type) == 32;
}

static inline struct pq_params pq_scales_at(const struct pq_job *job, const char *at,
                                            ptrdiff_t stride)
{
    return (struct pq_params){at, stride, job->scale_type, job->scale_swapped};
}

static inline struct pq_params pq_zeros_at(const struct pq_job *job, const char *at,
                                           ptrdiff_t stride)
{
    return (struct pq_params){at, stride, job->zero_type, job->zero_swapped};
}

/* Whether kernels want a word for each element, which is made for tiles. */
static inline bool pq_needs_random_words(const struct pq_method *how)
{
    return how->run.round == PQ_STOCHASTIC;
}

/* Whether input is made whole bytes before a kernel sees it. */
static inline bool pq_job_unpacks(const struct pq_job *job)
{
    return job->unpack.convert != NULL || job->unpack.bits != 0;
}

/* ---- parameters, for the engine (job_params.c) ---- */

/* Whether a float32 scale is too small for flushing subnormals beside it. */
bool pq_has_small_scale(const struct pq_job *job, const void *scales, size_t n);

/* As the scales want it that have been looked at since. */
void pq_set_flush(struct pq_job *job);

/* `n` parameters from consecutive places, to place `to` of the job's arrays. */
void pq_load_params(struct pq_job *job, ptrdiff_t to, const char *scale,
                    ptrdiff_t scale_stride, const char *zero, ptrdiff_t zero_stride,
                    size_t n);

/* Repeat the parameters at place `from` over places [to, to + n), and a few beyond. */
void pq_repeat_param(struct pq_job *job, ptrdiff_t from, ptrdiff_t to, ptrdiff_t n);

/*
 * Parameters of the tile of rows [row, row + rows) and columns [column, column + columns),
 * unless those of the last tile will do: rows often share them. Returns how many elements
 * share a pair: all, with the pair at place 0, those of a row, or 1.
 */
ptrdiff_t pq_load_tile_params(struct pq_job *job, struct pq_position row_start,
                              ptrdiff_t row, ptrdiff_t rows, ptrdiff_t column,
                              ptrdiff_t columns);

#endif
