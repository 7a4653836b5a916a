/* SPDX-License-Identifier: Apache-2.0 */
/* Check and run a call, or prepare it for any number of runs. */
#include <stddef.h>

#include "args.h"
#include "engine/job.h"

/* Return PQ_ERR_BEYOND if a job that has run counted elements out of range. */
static enum pq_status status_of(const struct pq_job *job)
{
    return job->outside != 0 ? PQ_ERR_BEYOND : PQ_OK;
}

/* Return true if kernels can use the elements unchanged. */
static bool has_native_elements(const struct pq_array *array)
{
    return array->bit_strides == NULL && !pq_is_narrow_integer(array->type) &&
           (array->swapped == 0 || pq_bytes_of(array->type) == 1);
}

static bool are_plain(const struct pq_job *job, const struct pq_args *args)
{
    return has_native_elements(&args->in) && has_native_elements(&args->out) &&
           job->how.element == NULL && !pq_needs_random_words(&job->how);
}

/* Return the number of elements if both sides are contiguous and all elements share a scale
 * and a zero point, like most small calls. Else return -1. */
static ptrdiff_t contiguous_run_length(const struct pq_args *args)
{
    const bool has_zero = args->zero.data != NULL;
    ptrdiff_t n = 1, in = (ptrdiff_t)pq_bytes_of(args->in.type),
              out = (ptrdiff_t)pq_bytes_of(args->out.type);
    for (int d = args->ndim - 1; d >= 0; d--) {
        const ptrdiff_t extent = args->shape[d];
        if (extent != 1 &&
            (args->in.strides[d] != in || args->out.strides[d] != out ||
             args->scale.strides[d] != 0 || (has_zero && args->zero.strides[d] != 0))) {
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
    const ptrdiff_t n =
        parts == 1 && are_plain(job, args) ? contiguous_run_length(args) : -1;
    job->outside = 0;
    if (n >= 0) {
        pq_job_run_row(job, args, (size_t)n);
    } else {
        PQ_TRY(pq_job_init(job, kernels, args));
        pq_job_run(job, part, parts);
    }
    return status_of(job);
}

enum pq_status pq_call(pq_set_method_fn *set, const struct pq_kernels *kernels,
                       const struct pq_args *args, int part, int parts, size_t *outside)
{
    struct pq_job job;
    struct pq_args room;
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    PQ_TRY(set(&job.how, kernels, args));
    const enum pq_status status = pq_job_run_args(&job, kernels, args, part, parts);
    if (outside != NULL) {
        *outside = job.outside;
    }
    return status;
}

enum pq_status pq_call_run(pq_set_method_fn *set, const struct pq_kernels *kernels,
                           const struct pq_args *args)
{
    struct pq_job job;
    PQ_TRY(set(&job.how, kernels, args));
    return pq_job_run_args(&job, kernels, args, 0, 1);
}

/* Return the number of bytes of a job up to the last dimension in use. Later members are
 * not copied. */
static size_t head_size(const struct pq_plan *plan)
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
    if (prepared == NULL) {
        return PQ_ERR_NULL;
    }
    if (prepared->size < HEAD + offsetof(struct pq_job, plan.dim)) {
        return PQ_ERR_SIZE;
    }
    memset(prepared->opaque, 0, offsetof(struct pq_job, plan.dim));
    PQ_TRY(pq_check_call(&args, &room, kernels, true, 0, 1));
    PQ_TRY(set(&job.how, kernels, args));
    PQ_TRY(pq_job_init(&job, kernels, args));
    if (prepared->size < HEAD + head_size(&job.plan)) {
        return PQ_ERR_SIZE;
    }
    memcpy(prepared->opaque, &job, head_size(&job.plan));
    return PQ_OK;
}

enum pq_status pq_run(const struct pq_prepared *prepared, const void *in, void *out,
                      int part, int parts)
{
    struct pq_job job;
    if (prepared == NULL || in == NULL || out == NULL) {
        return PQ_ERR_NULL;
    }
    memcpy(&job, prepared->opaque, offsetof(struct pq_job, plan.dim));
    if (job.kernels == NULL) {
        return PQ_ERR_NULL;
    }
    PQ_TRY(pq_check_part(part, parts));
    memcpy(&job, prepared->opaque, head_size(&job.plan));
    job.plan.in = (const char *)in + job.in_start;
    job.plan.out = (char *)out + job.out_start;
    job.unpack.base = (char *)(uintptr_t)in;
    job.pack.base = out;
    pq_job_run(&job, part, parts);
    return status_of(&job);
}
