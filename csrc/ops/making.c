/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/making.h"

enum pq_status pq_making_init(struct pq_round_trip *making,
                              const struct pq_kernels *kernels, const struct pq_args *whole,
                              const struct pq_args *group, enum pq_type code)
{
    struct pq_job *const job = &making->job;
    ptrdiff_t strides[PQ_MAX_NDIM], stride = (ptrdiff_t)pq_bytes_of(group->in.type);
    struct pq_args args = *group;
    for (int d = args.ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= args.shape[d];
    }
    args.in.strides = args.out.strides = strides;
    enum pq_status status = pq_fake_method(&job->how, &making->fused, kernels, whole, code);
    if (status == PQ_OK) {
        status = pq_job_init(job, kernels, &args);
    }
    if (status != PQ_OK) {
        return status;
    }
    making->saturation = pq_saturation_of(kernels, &args, &job->how, code);
    making->fused.saturation = &making->saturation;
    making->ndim = job->plan.ndim;
    memcpy(making->dim, job->plan.dim, (size_t)making->ndim * sizeof *making->dim);
    return PQ_OK;
}

/* Return the address of element 0 of a dimension, if `p` is element `i`. */
static char *before(const char *p, ptrdiff_t i, ptrdiff_t stride)
{
    return (char *)((uintptr_t)p - (uintptr_t)i * (uintptr_t)stride);
}

/* Run indices [i, i + n) of dimension `d`, with all indices of the inner dimensions. */
static void make_box(struct pq_round_trip *making, struct pq_position at, int d,
                     ptrdiff_t i, ptrdiff_t n)
{
    static const struct pq_dim single = {.end = 1, .group_size = 1};
    struct pq_plan *const plan = &making->job.plan;
    const struct pq_dim *const dim = &making->dim[d];
    plan->ndim = d > 0 ? d + 1 : 2;
    plan->dim[1] = single;
    memcpy(plan->dim, making->dim, (size_t)(d + 1) * sizeof *plan->dim);
    if (pq_dim_uniform(dim)) {
        i = 0;
    }
    plan->dim[d].begin = i;
    plan->dim[d].end = i + n;
    plan->in = before(at.in, i, dim->in);
    plan->out = before(at.out, i, dim->out);
    plan->scale = at.scale;
    plan->zero = at.zero;
    pq_job_run(&making->job, 0, 1);
}

/* Run `n` elements of the dimensions up to `d`, from element `first` on. */
static void make_range(struct pq_round_trip *making, struct pq_position at, int d,
                       ptrdiff_t first, ptrdiff_t n)
{
    const struct pq_dim *const dim = &making->dim[d];
    ptrdiff_t within = 1, some;
    for (int k = 0; k < d; k++) {
        within *= making->dim[k].end;
    }
    while (n > 0) {
        const ptrdiff_t i = first / within, into = first % within;
        some = within - into < n ? within - into : n;
        if (some == within) {
            some = n / within * within;
            make_box(making, at, d, i, n / within);
        } else {
            struct pq_position inner = at;
            inner.scale += pq_dim_scale(dim, i);
            inner.zero += pq_dim_zero(dim, i);
            make_range(making, inner, d - 1, into, some);
        }
        at.in += some * making->dim[0].in;
        at.out += some * making->dim[0].out;
        first += some;
        n -= some;
    }
}

void pq_run_round_trip(struct pq_round_trip *making, const char *x, char *y,
                       ptrdiff_t first, ptrdiff_t n)
{
    const struct pq_position at = {
        .in = x, .out = y, .scale = making->scale, .zero = making->zero};
    make_range(making, at, making->ndim - 1, first, n);
}
