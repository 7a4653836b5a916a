/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that are planned once and run often. */
#include <stddef.h>

#include "job.h"

/* The bytes of a job that say what it does, up to the last dimension in use. */
static size_t head_size(const struct pq_plan *plan)
{
    const size_t unused = (size_t)(PQ_MAX_NDIM - plan->ndim) * sizeof plan->dim[0];
    return offsetof(struct pq_job, plan) + sizeof *plan - unused;
}

enum pq_status pq_prepare(struct pq_prepared *prepared, const struct pq_job *job,
                          enum pq_status status)
{
    enum { HEAD = offsetof(struct pq_prepared, opaque) };
    _Static_assert(offsetof(struct pq_job, plan) + sizeof job->plan <=
                       sizeof prepared->opaque,
                   "a job has grown");
    if (prepared == NULL) {
        return PQ_ERR_NULL;
    }
    if (prepared->size < HEAD + offsetof(struct pq_job, plan.dim)) {
        return PQ_ERR_SIZE;
    }
    memset(prepared->opaque, 0, offsetof(struct pq_job, plan.dim));
    if (status == PQ_OK && prepared->size < HEAD + head_size(&job->plan)) {
        status = PQ_ERR_SIZE;
    }
    if (status == PQ_OK) {
        memcpy(prepared->opaque, job, head_size(&job->plan));
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
