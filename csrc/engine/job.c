/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of operations: check the arguments, initialize a job, and run the job once, or
 * store it for any number of runs. A job has a plan, and the types and addresses of its
 * elements and parameters.
 */
#include "engine/job.h"

#include <stddef.h>

#include "args.h"

const struct pq_method pq_no_method = {0};
_Static_assert(sizeof pq_no_method <= 256,
               "GCC copies larger structs by string instructions, which start slowly");

/* ---- jobs ---- */

/* Copy 8-bit codes. A layout can store 8-bit codes in words, but each code is a byte. */
static void copy_bytes(const void *x, void *y, size_t n)
{
    memcpy(y, x, n);
}

/* Return the functions and constants that unpack and pack the codes of `array`. */
static struct pq_codes describe_packed_codes(const struct pq_kernels *kernels,
                                             const struct pq_args *args,
                                             const struct pq_array *array,
                                             const struct pq_layout *layout)
{
    const int bits = pq_packed_code_bits(array, layout);
    struct pq_codes codes = {.bits = bits, .size = 1, .base = array->data, .last = -1};
    if (bits == 24) {
        codes.size = sizeof(int32_t);
        codes.unpack = kernels->unpack_24;
        codes.pack = kernels->pack_24;
        return codes;
    }
    codes.stream = pq_is_stream(layout) ? layout : NULL;
    codes.unpack_words = kernels->unpack_words;
    codes.flip = pq_is_high_first(layout) ? 4 : 0;
    while (layout != NULL && 1 << codes.word_shift < layout->word_bits) {
        codes.word_shift++;
    }
    codes.most = bits < pq_bits_of(array->type) ? (1 << bits) - 1 : 0;
    if (bits == 8) {
        codes.unpack = copy_bytes;
        codes.pack = copy_bytes;
    } else { /* kernels of `unpack` extend signs, kernels of `unpack_bits` do not */
        codes.unpack = pq_is_narrow_integer(array->type)
                           ? kernels->unpack[pq_row_of(array->type)]
                           : kernels->unpack_bits[bits];
        codes.pack = kernels->pack[bits];
    }
    if (layout == NULL && pq_dense_bits(args, array) >= 0) {
        codes.last = pq_dense_bits(args, array) - bits;
    }
    return codes;
}

/* Set `codes` for one array. `convert` has a function for each narrow integer type. For all
 * other types, only packed codes need functions. */
static void set_codes(struct pq_codes *codes, const struct pq_kernels *kernels,
                      const struct pq_args *args, const struct pq_array *array,
                      const struct pq_layout *layout, pq_bytes_fn *const convert[])
{
    *codes = (struct pq_codes){.size = 1};
    if (array->bit_strides != NULL) {
        *codes = describe_packed_codes(kernels, args, array, layout);
    }
    if (pq_is_narrow_integer(array->type)) {
        codes->convert = convert[pq_row_of(array->type)];
    }
}

void pq_job_set_params(struct pq_job *job, const struct pq_args *args)
{
    job->scale_type = args->scale.type;
    job->scale_swapped = args->scale.swapped;
    job->zero_given = args->zero.data != NULL;
    job->zero_type = job->zero_given ? args->zero.type : PQ_I8;
    job->zero_swapped = job->zero_given && args->zero.swapped;
    job->offset_type = args->offset.data != NULL ? args->offset.type : PQ_F32;
    job->offset_swapped = args->offset.swapped;
}

enum pq_status pq_job_init(struct pq_job *job, const struct pq_kernels *kernels,
                           const struct pq_args *args)
{
    job->kernels = kernels;
    job->seed = args->seed;
    set_codes(&job->unpack, kernels, args, &args->in, args->in_layout, kernels->extend);
    if (job->unpack.bits != 0 && args->in.type != PQ_I4 && args->in.type != PQ_I2) {
        job->unpack.convert = NULL; /* unpacking clears the bits above a code */
    }
    set_codes(&job->pack, kernels, args, &args->out, args->out_layout, kernels->narrow);
    job->in_size = pq_bytes_of(args->in.type);
    job->out_size = pq_bytes_of(args->out.type);
    job->in_step = job->unpack.bits != 0 ? job->unpack.bits : (ptrdiff_t)job->in_size;
    job->out_step = job->pack.bits != 0 ? job->pack.bits : (ptrdiff_t)job->out_size;
    job->in_swapped = args->in.swapped && job->in_size > 1;
    job->out_swapped = args->out.swapped && job->out_size > 1;
    pq_job_set_params(job, args);
    const enum pq_status status = pq_plan_init(&job->plan, args, (size_t)job->out_step);
    if (!job->plan.empty && job->plan.dim[0].end == 1) { /* a single index is contiguous */
        job->plan.dim[0].in = job->in_step;
        job->plan.dim[0].out = job->out_step;
    }
    job->in_start = job->plan.in - (const char *)args->in.data;
    job->out_start = job->plan.out - (char *)args->out.data;
    return status;
}

/* ---- calls ---- */

/* Return PQ_ERR_BEYOND if the job has counted elements out of range, else PQ_OK. */
static enum pq_status status_of(const struct pq_job *job)
{
    return job->out_of_range != 0 ? PQ_ERR_BEYOND : PQ_OK;
}

/* Return true if kernels can read or write the elements without a conversion. */
static bool has_native_elements(const struct pq_array *array)
{
    return array->bit_strides == NULL && !pq_is_narrow_integer(array->type) &&
           (array->swapped == 0 || pq_bytes_of(array->type) == 1);
}

/* Return the number of elements if input and output are contiguous and all elements share a
 * scale and a zero point, like most small calls. Else return -1. */
static ptrdiff_t contiguous_run_length(const struct pq_args *args)
{
    const bool has_zero = args->zero.data != NULL, has_offset = args->offset.data != NULL;
    ptrdiff_t n = 1, in = (ptrdiff_t)pq_bytes_of(args->in.type),
              out = (ptrdiff_t)pq_bytes_of(args->out.type);
    for (int d = args->ndim - 1; d >= 0; d--) {
        const ptrdiff_t extent = args->shape[d];
        if (extent != 1 &&
            (args->in.strides[d] != in || args->out.strides[d] != out ||
             args->scale.strides[d] != 0 || (has_zero && args->zero.strides[d] != 0) ||
             (has_offset && args->offset.strides[d] != 0))) {
            return -1;
        }
        n *= extent;
        in *= extent;
        out *= extent;
    }
    return n;
}

enum pq_status pq_job_run_args(struct pq_job *job, const struct pq_kernels *kernels,
                               const struct pq_args *args, int part, int parts)
{
    const bool is_plain = parts == 1 && has_native_elements(&args->in) &&
                          has_native_elements(&args->out) && job->how.element == NULL &&
                          !pq_needs_random_words(&job->how);
    const ptrdiff_t n = is_plain ? contiguous_run_length(args) : -1;
    job->out_of_range = 0;
    if (n >= 0) {
        pq_job_run_row(job, args, (size_t)n);
    } else {
        PQ_TRY(pq_job_init(job, kernels, args));
        pq_job_run(job, part, parts);
    }
    return status_of(job);
}

enum pq_status pq_call(pq_set_method_fn *set, const struct pq_kernels *kernels,
                       const struct pq_args *args, int part, int parts,
                       size_t *out_of_range)
{
    struct pq_job job;
    struct pq_args room;
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    PQ_TRY(set(&job.how, kernels, args, &(struct pq_facts){0}));
    const enum pq_status status = pq_job_run_args(&job, kernels, args, part, parts);
    if (out_of_range != NULL) {
        *out_of_range = job.out_of_range;
    }
    return status;
}

enum pq_status pq_call_run(pq_set_method_fn *set, const struct pq_kernels *kernels,
                           const struct pq_args *args)
{
    struct pq_job job;
    PQ_TRY(set(&job.how, kernels, args, &(struct pq_facts){0}));
    return pq_job_run_args(&job, kernels, args, 0, 1);
}

/* ---- prepared calls ---- */

/* Return the number of bytes of a job up to the last dimension in use. Copies of a job omit
 * the members after it. */
static size_t used_job_bytes(const struct pq_plan *plan)
{
    const size_t unused = (size_t)(PQ_MAX_NDIM - plan->ndim) * sizeof plan->dim[0];
    return offsetof(struct pq_job, plan) + sizeof *plan - unused;
}

enum pq_status pq_prepare(pq_set_method_fn *set, struct pq_prepared *prepared,
                          const struct pq_kernels *kernels, const struct pq_args *args)
{
    enum { HEAD = offsetof(struct pq_prepared, opaque) };
    struct pq_job job;
    struct pq_args room;
    _Static_assert(offsetof(struct pq_job, plan) + sizeof job.plan <=
                       sizeof prepared->opaque,
                   "a job has grown");
    PQ_REQUIRE(prepared != NULL, PQ_ERR_NULL);
    PQ_REQUIRE(prepared->size >= HEAD + offsetof(struct pq_job, plan.dim), PQ_ERR_SIZE);
    memset(prepared->opaque, 0, offsetof(struct pq_job, plan.dim));
    PQ_TRY(pq_check_call(&args, &room, kernels, true, 0, 1));
    PQ_TRY(set(&job.how, kernels, args, &(struct pq_facts){0}));
    PQ_TRY(pq_job_init(&job, kernels, args));
    PQ_REQUIRE(prepared->size >= HEAD + used_job_bytes(&job.plan), PQ_ERR_SIZE);
    memcpy(prepared->opaque, &job, used_job_bytes(&job.plan));
    return PQ_OK;
}

enum pq_status pq_run(const struct pq_prepared *prepared, const void *in, void *out,
                      int part, int parts)
{
    struct pq_job job;
    PQ_REQUIRE(prepared != NULL && in != NULL && out != NULL, PQ_ERR_NULL);
    memcpy(&job, prepared->opaque, offsetof(struct pq_job, plan.dim));
    PQ_REQUIRE(job.kernels != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_check_part(part, parts));
    memcpy(&job, prepared->opaque, used_job_bytes(&job.plan));
    job.plan.in = (const char *)in + job.in_start;
    job.plan.out = (char *)out + job.out_start;
    job.unpack.base = (char *)(uintptr_t)in;
    job.pack.base = out;
    pq_job_run(&job, part, parts);
    return status_of(&job);
}
