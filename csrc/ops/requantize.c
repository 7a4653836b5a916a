/* SPDX-License-Identifier: Apache-2.0 */
/* requantize: out = clamp(R(in - input_zero + bias) + zero), checked and called. */
#include <string.h>

#include "args.h"
#include "math/fpenv.h"
#include "ops/requantize.h"

/* ---- checks ---- */

/* The extent that channels have, or 1. */
static ptrdiff_t channels_of(const struct pq_requantization *args)
{
    const bool many = (args->multiplier.stride != 0) ||
                      (args->shift.data != NULL && args->shift.stride != 0) ||
                      (args->bias.data != NULL && args->bias.stride != 0);
    return many ? args->shape[args->axis] : 1;
}

/* Whether the numbers of all channels can be addressed. */
PQ_RARE bool have_span(const struct pq_requantization *args, struct pq_args *arrays)
{
    const struct pq_channels *const all[] = {&args->multiplier, &args->shift, &args->bias};
    ptrdiff_t strides[PQ_MAX_NDIM] = {0};
    bool have = true;
    for (int i = 0; i < 3 && channels_of(args) > 1; i++) {
        struct pq_array array = {.data = arrays->in.data, .strides = strides};
        strides[args->axis] = all[i]->data != NULL ? all[i]->stride : 0;
        have = have && pq_check_array(arrays, &array, true) == PQ_OK;
    }
    return have;
}

static bool has_axis(const struct pq_requantization *args)
{
    return (args->multiplier.stride == 0 &&
            (args->shift.data == NULL || args->shift.stride == 0) &&
            (args->bias.data == NULL || args->bias.stride == 0)) ||
           (args->axis >= 0 && args->axis < args->ndim);
}

/* int8 to int64 and uint8 to uint32, which follow each other in pq.h. */
static bool is_summed(enum pq_type type)
{
    return type >= PQ_I8 && type <= PQ_I64;
}

PQ_RARE bool are_types(const struct pq_requantization *args)
{
    const enum pq_type out = args->out.type, by = args->multiplier.type;
    const bool suits = args->shift.data != NULL
                           ? is_summed(by) && is_summed(args->shift.type)
                           : by == PQ_F32 || by == PQ_F64;
    return suits && is_summed(args->in.type) && out >= PQ_I8 && out <= PQ_I32 &&
           args->in.bit_strides == NULL && args->out.bit_strides == NULL &&
           (args->bias.data == NULL || is_summed(args->bias.type));
}

_Static_assert(PQ_I64 == PQ_I8 + 6 && PQ_I32 == PQ_I8 + 4, "types are in another order");

static bool is_within(int64_t v, struct pq_range range)
{
    return v >= range.lo && v <= range.hi;
}

PQ_RARE enum pq_status check_numbers(const struct pq_requantization *args)
{
    const struct pq_range codes = pq_range_of(args->out.type);
    const bool fixed = pq_is_fixed(args->arithmetic);
    if ((int)args->arithmetic < 0 || args->arithmetic >= PQ_ARITHMETIC_COUNT ||
        (args->shift.data != NULL && !fixed)) {
        return PQ_ERR_OPTION;
    }
    if (!is_within(args->zero, codes) ||
        !is_within(args->input_zero, pq_range_of(args->in.type))) {
        return PQ_ERR_ZERO;
    }
    if (args->clips &&
        !(is_within(args->lowest_code, codes) && is_within(args->highest_code, codes) &&
          args->lowest_code <= args->highest_code)) {
        return PQ_ERR_OPTION;
    }
    const ptrdiff_t count =
        args->multiplier.stride == 0 && (!fixed || args->shift.stride == 0)
            ? 1
            : channels_of(args);
    return pq_have_multipliers(args, (size_t)count) ? PQ_OK : PQ_ERR_OPTION;
}

static enum pq_status check(const struct pq_kernels *kernels,
                            const struct pq_requantization *args, struct pq_args *arrays,
                            int part, int parts)
{
    PQ_TRY(pq_check_shape(arrays));
    if (kernels == NULL || args->multiplier.data == NULL) {
        return PQ_ERR_NULL;
    }
    PQ_TRY(pq_check_array(arrays, &arrays->in, false));
    PQ_TRY(pq_check_array(arrays, &arrays->out, false));
    if (part < 0 || part >= parts) {
        return PQ_ERR_PART;
    }
    if (!are_types(args)) {
        return PQ_ERR_TYPE;
    }
    return has_axis(args) && have_span(args, arrays) ? check_numbers(args) : PQ_ERR_SHAPE;
}

/* ---- the call ---- */

static const struct pq_channels *lead_of(const struct pq_requantization *args)
{
    return args->multiplier.stride != 0                          ? &args->multiplier
           : args->shift.data != NULL && args->shift.stride != 0 ? &args->shift
           : args->bias.data != NULL && args->bias.stride != 0   ? &args->bias
                                                                 : NULL;
}

/* What has passed all checks. Channels walk with the elements as scales do elsewhere. */
static enum pq_status run_part(struct pq_requantize_job *job, struct pq_args *arrays,
                               int part, int parts)
{
    const struct pq_requantization *const args = job->args;
    const struct pq_range codes = pq_range_of(args->out.type);
    ptrdiff_t strides[PQ_MAX_NDIM] = {0};
    job->lead = channels_of(args) > 1 ? lead_of(args) : NULL;
    if (job->lead != NULL) {
        strides[args->axis] = job->lead->stride;
        arrays->scale.data = (void *)(uintptr_t)job->lead->data;
        arrays->scale.strides = strides;
    }
    const int64_t lowest = args->clips ? args->lowest_code : codes.lo;
    const int64_t highest = args->clips ? args->highest_code : codes.hi;
    job->how = (struct pq_requantize_run){.out = args->out.type,
                                          .clips = args->clips != 0,
                                          .lowest = lowest - args->zero,
                                          .highest = highest - args->zero,
                                          .zero = (int32_t)args->zero};
    memset(&job->loaded_params, 0, sizeof job->loaded_params); /* none are there */
    PQ_TRY(pq_plan_init(&job->plan, arrays, pq_bytes_of(args->out.type)));
    pq_plan_part(&job->plan, part, parts, 1);
    if (!job->plan.empty) {
        pq_requantize_all(job);
    }
    return PQ_OK;
}

enum pq_status pq_requantize(const struct pq_kernels *kernels,
                             const struct pq_requantization *args, int part, int parts)
{
    struct pq_requantization room;
    const void *given = args;
    if (args == NULL) {
        return PQ_ERR_NULL;
    }
    PQ_TRY(pq_known_struct(&given, &room, sizeof room, sizeof room));
    args = given;
    struct pq_args arrays = {.size = sizeof arrays,
                             .ndim = args->ndim,
                             .shape = args->shape,
                             .in = args->in,
                             .out = args->out};
    const pq_fpenv found = pq_fpenv_enter();
    enum pq_status status = check(kernels, args, &arrays, part, parts);
    if (status == PQ_OK) {
        struct pq_requantize_job job;
        job.kernels = kernels;
        job.args = args;
        status = run_part(&job, &arrays, part, parts);
    }
    pq_fpenv_leave(found);
    return status;
}
