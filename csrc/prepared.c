/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are run at once, or planned once and run often. */
#include <stddef.h>

#include "args.h"
#include "job.h"

static enum pq_status make_checked(pq_make_job_fn *make, struct pq_job *job,
                                   const struct pq_kernels *kernels,
                                   const struct pq_args *args, int part, int parts)
{
    struct pq_args room;
    const enum pq_status status = pq_check_call(&args, &room, kernels, true, part, parts);
    return status == PQ_OK ? make(job, kernels, args) : status;
}

enum pq_status pq_call(pq_make_job_fn *make, const struct pq_kernels *kernels,
                       const struct pq_args *args, int part, int parts)
{
    struct pq_job job;
    const enum pq_status status = make_checked(make, &job, kernels, args, part, parts);
    if (status == PQ_OK) {
        pq_job_run(&job, part, parts);
    }
    return status;
}

/* The bytes of a job that say what it does, up to the last dimension in use. */
static size_t head_size(const struct pq_plan *plan)
{
    const size_t unused = (size_t)(PQ_MAX_NDIM - plan->ndim) * sizeof plan->dim[0];
    return offsetof(struct pq_job, plan) + sizeof *plan - unused;
}

enum pq_status pq_prepare(pq_make_job_fn *make, struct pq_prepared *prepared,
                          const struct pq_kernels *kernels, const struct pq_args *args)
{
    enum { HEAD = offsetof(struct pq_prepared, opaque) };
    struct pq_job job;
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
    enum pq_status status = make_checked(make, &job, kernels, args, 0, 1);
    if (status == PQ_OK && prepared->size < HEAD + head_size(&job.plan)) {
        status = PQ_ERR_SIZE;
    }
    if (status == PQ_OK) {
        memcpy(prepared->opaque, &job, head_size(&job.plan));
    }
    return status;
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
    if (part < 0 || part >= parts) {
        return PQ_ERR_PART;
    }
    memcpy(&job, prepared->opaque, head_size(&job.plan));
    job.plan.in = (const char *)in + job.in_start;
    job.plan.out = (char *)out + job.out_start;
    job.take.base = (char *)(uintptr_t)in;
    job.give.base = out;
    pq_job_run(&job, part, parts);
    return PQ_OK;
}
