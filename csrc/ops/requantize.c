/* SPDX-License-Identifier: Apache-2.0 */
/* requantize: out = clamp(R(in - input_zero + bias) + zero). */
#include <string.h>

#include "args.h"
#include "math/fpenv.h"
#include "ops/requantize.h"

/* ---- checks ---- */

/* Return the first array with one number for each channel, or null. */
static const struct pq_channels *lead_of(const struct pq_requantization *args)
{
    return args->multiplier.stride != 0                          ? &args->multiplier
           : args->shift.data != NULL && args->shift.stride != 0 ? &args->shift
           : args->bias.data != NULL && args->bias.stride != 0   ? &args->bias
                                                                 : NULL;
}

/* Return the number of channels. */
static ptrdiff_t channels_of(const struct pq_requantization *args)
{
    return lead_of(args) != NULL ? args->shape[args->axis] : 1;
}

/* Return true if the addresses of all numbers are valid. */
PQ_RARE bool have_span(const struct pq_requantization *args, struct pq_args *arrays)
{
    const struct pq_channels *const all[] = {&args->multiplier, &args->shift, &args->bias};
    ptrdiff_t strides[PQ_MAX_NDIM];
    bool have = true;
    memset(strides, 0, (size_t)args->ndim * sizeof *strides);
    for (int i = 0; i < 3 && channels_of(args) > 1; i++) {
        struct pq_array array = {.data = arrays->in.data, .strides = strides};
        strides[args->axis] = all[i]->data != NULL ? all[i]->stride : 0;
        have = have && pq_check_array(arrays, &array, true) == PQ_OK;
    }
    return have;
}

static bool has_axis(const struct pq_requantization *args)
{
    return lead_of(args) == NULL || (args->axis >= 0 && args->axis < args->ndim);
}

/* Return true for int8 to int64 and uint8 to uint32, which are consecutive in pq.h. */
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

/* Return true if the arithmetic can represent the multipliers of all channels. */
static bool have_multipliers(const struct pq_requantization *args)
{
    struct pq_multiplier by[PQ_CHANNELS];
    const bool many = args->multiplier.stride != 0 ||
                      (pq_is_fixed(args->arithmetic) && args->shift.stride != 0);
    const ptrdiff_t channels = many ? channels_of(args) : 1;
    bool have = true;
    for (ptrdiff_t c = 0, m; c < channels && have; c += m) {
        m = channels - c < PQ_CHANNELS ? channels - c : PQ_CHANNELS;
        have = pq_load_multipliers(by, args, c, 1, (size_t)m);
    }
    return have;
}

/* Return true if int32 can represent all biases minus the zero point of the input. */
static bool have_small_biases(const struct pq_requantization *args)
{
    int64_t bias[PQ_CHANNELS];
    const bool many = args->bias.data != NULL && args->bias.stride != 0;
    const ptrdiff_t channels = many ? channels_of(args) : 1;
    int64_t beyond = 0;
    if (args->input_zero == 0 && args->bias.type <= PQ_I32) { /* the usual case */
        return true;
    }
    for (ptrdiff_t c = 0, m; c < channels; c += m) {
        m = channels - c < PQ_CHANNELS ? channels - c : PQ_CHANNELS;
        pq_load_biases(bias, &args->bias, c, 1, (size_t)m);
        for (ptrdiff_t i = 0; i < m; i++) {
            const int64_t sum = pq_sum_of(bias[i], args->input_zero, 0);
            beyond |= sum ^ (int32_t)sum;
        }
    }
    return beyond == 0;
}

PQ_RARE enum pq_status check_numbers(const struct pq_requantization *args)
{
    const struct pq_range codes = pq_range_of(args->out.type);
    if ((int)args->arithmetic < 0 || args->arithmetic >= PQ_ARITHMETIC_COUNT ||
        (args->shift.data != NULL && !pq_is_fixed(args->arithmetic))) {
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
    return have_multipliers(args) ? PQ_OK : PQ_ERR_OPTION;
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

/* Fill in the method of a checked call. */
static void set_method(struct pq_method *how, struct pq_requantization_job *call)
{
    const struct pq_requantization *const args = call->args;
    const bool fixed = pq_is_fixed(args->arithmetic);
    const struct pq_range codes = pq_range_of(args->out.type);
    const int64_t lowest = args->clips ? args->lowest_code : codes.lo;
    const int64_t highest = args->clips ? args->highest_code : codes.hi;
    call->lead = channels_of(args) > 1 ? lead_of(args) : NULL;
    call->how = (struct pq_requantize_run){
        .kind = fixed ? PQ_REQUANTIZE_ONCE : PQ_REQUANTIZE_F32,
        .out = args->out.type,
        .clips = args->clips != 0,
        .doubled = args->arithmetic == PQ_ARITHMETIC_TFLITE,
        .biased = args->bias.data != NULL || args->input_zero != 0,
        .zero = (int32_t)args->zero,
        .lowest = lowest - args->zero,
        .highest = highest - args->zero,
    };
    *how = pq_no_method;
    how->kernel = pq_requantize_lines;
    how->load = pq_load_requantize_params;
    how->element = have_small_biases(args) ? NULL : pq_requantize_element;
    how->by_groups = true;
    how->affine.has_offset = fixed; /* the place of shifts */
    how->run.requantize = call;
}

/* Run a part of a checked call. The addresses of scales and zero points are the addresses
 * of the channels. */
static enum pq_status run_part(struct pq_requantization_job *call, struct pq_args *arrays,
                               int part, int parts)
{
    const struct pq_requantization *const args = call->args;
    ptrdiff_t strides[PQ_MAX_NDIM];
    struct pq_job job;
    memset(strides, 0, (size_t)args->ndim * sizeof *strides);
    set_method(&job.how, call);
    arrays->scale.strides = strides;
    if (call->lead != NULL) {
        strides[args->axis] = call->lead->stride;
        arrays->scale.data = (void *)(uintptr_t)call->lead->data;
        arrays->zero = arrays->scale;
    }
    return pq_job_run_args(&job, call->kernels, arrays, part, parts);
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
        struct pq_requantization_job call = {.kernels = kernels, .args = args};
        status = run_part(&call, &arrays, part, parts);
    }
    pq_fpenv_leave(found);
    return status;
}
