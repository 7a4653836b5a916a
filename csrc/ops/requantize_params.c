/* SPDX-License-Identifier: Apache-2.0 */
/* Convert the parameters of channels to the parameters of kernels, without rounding. */
#include "ops/requantize.h"

enum {
    SINGLE = -33,         /* `down` minus the shift to the right */
    DOUBLED = -32,        /* `down` minus the shift, for kernels that double m */
    LOWEST_SINGLE = -30,  /* `left` is at most 30; then every code saturates */
    LOWEST_DOUBLED = -29, /* one more, because single rounding of 2 * m uses it, too */
    NOTHING = 31          /* with m = 0, two roundings result in 0 */
};

#define TWO_30 (INT32_C(1) << 30)

/* Double a multiplier, and convert its shift to a value of pq_requantize_run.down. */
static void set_doubled(struct pq_multiplier *by, bool to_int32)
{
    by->shift += DOUBLED;
    if (by->m == 0) {
        by->shift = NOTHING;
    } else if (!to_int32 && by->m >= TWO_30 && by->shift < LOWEST_DOUBLED) {
        by->shift = LOWEST_DOUBLED;
    }
    by->m = (int32_t)(2 * (uint32_t)by->m);
}

/* Convert the shift of a multiplier to a value of pq_requantize_run.down. For codes of 8
 * and 16 bits, make the multiplier at least 2^30, unless it is 0. */
static void set_single(struct pq_multiplier *by, bool to_int32)
{
    by->shift += SINGLE;
    for (; !to_int32 && by->m != 0 && by->m < TWO_30; by->m *= 2) {
        by->shift++;
    }
    if (!to_int32 && by->shift < LOWEST_SINGLE) {
        by->shift = LOWEST_SINGLE;
    }
}

struct pq_multiplier pq_multiplier_at(const struct pq_requantize_run *how, size_t place)
{
    if (how->kind == PQ_REQUANTIZE_F32) {
        return (struct pq_multiplier){.r = how->r[place]};
    }
    const int32_t m = how->m[place], down = how->down[place];
    return how->doubled
               ? (struct pq_multiplier){0, (int32_t)((uint32_t)m >> 1), down - DOUBLED}
               : (struct pq_multiplier){0, m, down - SINGLE};
}

void pq_note_requantize_params(struct pq_requantize_range *range, int32_t m, int32_t down,
                               int32_t bias)
{
    range->lowest_down = down < range->lowest_down ? down : range->lowest_down;
    range->highest_down = down > range->highest_down ? down : range->highest_down;
    range->least_bias = bias < range->least_bias ? bias : range->least_bias;
    range->most_bias = bias > range->most_bias ? bias : range->most_bias;
    range->is_uneven |= m > 0;
}

void pq_set_requantize_kind(struct pq_requantize_run *how,
                            const struct pq_requantize_range *range)
{
    const bool is_int32 = how->out == PQ_I32;
    const bool fits = !is_int32 || (range->lowest_down >= -1 && how->lowest <= INT32_MAX &&
                                    how->highest >= INT32_MIN);
    how->shifts = range->lowest_down < 0;
    how->shrinks = !range->grows;
    how->least = INT32_MIN - range->least_bias;
    how->most = INT32_MAX - range->most_bias;
    if (how->kind == PQ_REQUANTIZE_F32) {
        return;
    }
    how->kind = !how->doubled             ? PQ_REQUANTIZE_ONCE
                : range->is_uneven        ? PQ_REQUANTIZE_NONE
                : range->highest_down < 0 ? PQ_REQUANTIZE_ONCE
                : fits                    ? PQ_REQUANTIZE_TWICE
                                          : PQ_REQUANTIZE_NONE;
}

/* Load at most PQ_CHANNELS places. */
static void load_places(struct pq_job *job, ptrdiff_t to, ptrdiff_t first, ptrdiff_t step,
                        size_t n)
{
    struct pq_requantization_job *const call = job->how.run.requantize;
    const struct pq_requantization *const args = call->args;
    struct pq_multiplier by[PQ_CHANNELS];
    int64_t bias[PQ_CHANNELS];
    pq_load_multipliers(by, args, first, step, n);
    pq_load_biases(bias, &args->bias, first, step, n);
    for (size_t i = 0; i < n; i++, to++) {
        job->zero.i32[to] = (int32_t)pq_sum_of(bias[i], args->input_zero, 0);
        if (call->how.kind == PQ_REQUANTIZE_F32) {
            job->scale.f32[to] = by[i].r;
            call->range.grows |= by[i].r >= 1;
        } else {
            (call->how.doubled ? set_doubled : set_single)(&by[i], call->how.out == PQ_I32);
            job->scale.i32[to] = by[i].m;
            job->offset.i32[to] = by[i].shift;
        }
        pq_note_requantize_params(&call->range, by[i].m, by[i].shift, job->zero.i32[to]);
    }
}

void pq_load_requantize_params(struct pq_job *job, ptrdiff_t to, const char *at,
                               ptrdiff_t stride, size_t n)
{
    struct pq_requantization_job *const call = job->how.run.requantize;
    const ptrdiff_t first = pq_channel_of(call, at);
    const ptrdiff_t step = call->lead == NULL ? 0 : stride / call->lead->stride;
    if (to == 0) { /* a new tile */
        call->range = PQ_NO_REQUANTIZE_RANGE;
    }
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < PQ_CHANNELS ? n - done : PQ_CHANNELS;
        load_places(job, to + (ptrdiff_t)done, first + (ptrdiff_t)done * step, step, m);
    }
    pq_set_requantize_kind(&call->how, &call->range);
}
