/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parameters of channels as kernels take them, a place for each: kernels do what 32
 * bits can hold.
 */
#include <string.h>

#include "ops/requantize.h"

static const int64_t two_30 = INT64_C(1) << 30;

/* ---- a place ---- */

/* 1 and 0 need no shifts; what is 0 stays so by any. */
static void set_nothing(struct pq_requantize_params *to, size_t i)
{
    to->m[i] = 0;
    to->left[i] = 0;
    to->most[i] = INT32_MAX;
    to->half[i] = 1;
    to->right[i] = 1;
}

/* As upper halves of products want it: m from 2^30 on, and shifts from 33 on, before which
 * v is shifted to the left. Where v is not within what can be shifted, products are beyond
 * any code of 16 bits by far. */
static bool set_once(struct pq_requantize_params *to, size_t i, int32_t m, int shift)
{
    set_nothing(to, i);
    if (m == 0) {
        return true;
    }
    for (; m < two_30; m *= 2) {
        shift++;
    }
    if (shift > 63) { /* less than 1/2 */
        return true;
    }
    if (shift < 33) {
        const int left = 33 - shift;
        if (left > 30) {
            return false;
        }
        to->left[i] = left;
        to->most[i] = (int32_t)((UINT32_C(1) << (31 - left)) - 1);
        shift = 33;
    }
    to->m[i] = m;
    to->half[i] = (int32_t)(INT64_C(1) << (shift - 33));
    to->right[i] = shift - 32;
    return true;
}

/* As struct pq_requantize_run has it: twice m, less 2^32; shifts by one less than those
 * given. */
static bool set_twice(struct pq_requantize_params *to, size_t i, int32_t m, int shift)
{
    set_nothing(to, i);
    if (m < two_30) {
        return false;
    }
    if (shift > 0) {
        to->left[i] = shift;
        to->most[i] = (int32_t)((UINT32_C(1) << (31 - shift)) - 1);
    }
    to->m[i] = (int32_t)(2 * (int64_t)m - (INT64_C(1) << 32));
    to->half[i] = shift < 0 ? -1 : 0;
    to->right[i] = shift < 0 ? -shift - 1 : 0;
    return true;
}

/* As products of 64 bits want it, for codes that they may be within. */
static bool set_int32(struct pq_requantize_params *to, size_t i, int32_t m, int shift)
{
    set_nothing(to, i);
    to->m[i] = m;
    to->right[i] = shift;
    return true;
}

/* Two roundings are done in 32 bits: without shifts to the left, and where some codes less
 * the zero point are int32. */
static bool fits_twice(const struct pq_requantize_run *how, int shift)
{
    return pq_bytes_of(how->out) < sizeof(int32_t) ||
           (shift <= 0 && how->lowest <= INT32_MAX && how->highest >= INT32_MIN);
}

/* What kernels take of a kind at place `i`. */
PQ_NOINLINE void set_place(struct pq_requantize_job *job, size_t i,
                           enum pq_requantize_kind kind)
{
    struct pq_requantize_params *const to = &job->prepared;
    const struct pq_fixed by = to->given[i];
    const int shift = pq_is_tflite(job->args->arithmetic) ? 31 - by.shift : by.shift;
    const int64_t bias = pq_sum_of(to->given_bias[i], job->args->input_zero, 0);
    bool fits = bias >= INT32_MIN && bias <= INT32_MAX;
    to->bias[i] = fits ? (int32_t)bias : 0;
    if (kind == PQ_REQUANTIZE_ONCE) {
        const bool is_int32 = pq_bytes_of(job->how.out) == sizeof(int32_t);
        fits = (is_int32 ? set_int32 : set_once)(to, i, by.m, shift) && fits;
    } else if (kind == PQ_REQUANTIZE_TWICE) {
        fits = set_twice(to, i, by.m, by.shift) && fits_twice(&job->how, by.shift) && fits;
    }
    to->kind[i] = (unsigned char)(fits ? kind : PQ_REQUANTIZE_NONE);
}

static enum pq_requantize_kind kind_of(const struct pq_requantize_job *job,
                                       const struct pq_fixed *by)
{
    const enum pq_arithmetic arithmetic = job->args->arithmetic;
    return !pq_is_fixed(arithmetic)                              ? PQ_REQUANTIZE_F32
           : arithmetic == PQ_ARITHMETIC_TFLITE && by->shift < 0 ? PQ_REQUANTIZE_TWICE
                                                                 : PQ_REQUANTIZE_ONCE;
}

void pq_summarize_params(struct pq_requantize_run *how, const struct pq_requantize_job *job,
                         size_t place, size_t count)
{
    const struct pq_requantize_params *const all = &job->prepared;
    const bool fixed = pq_is_fixed(job->args->arithmetic);
    how->kind = (enum pq_requantize_kind)all->kind[place];
    how->least_bias = how->most_bias = all->bias[place];
    how->shifts = 0;
    how->shrinks = 1;
    for (size_t i = place; i < place + count; i++) {
        how->kind = all->kind[i] == how->kind ? how->kind : PQ_REQUANTIZE_NONE;
        how->shifts |= fixed && all->left[i] != 0;
        how->shrinks &= fixed ? all->half[i] != 0 : all->r[i] < 1;
        how->least_bias = all->bias[i] < how->least_bias ? all->bias[i] : how->least_bias;
        how->most_bias = all->bias[i] > how->most_bias ? all->bias[i] : how->most_bias;
    }
}

/* For each of `n` elements to have parameters: they need to be of a kind. */
PQ_NOINLINE void join_places(struct pq_requantize_job *job, size_t n)
{
    struct pq_requantize_params *const all = &job->prepared;
    enum pq_requantize_kind kind = kind_of(job, &all->given[0]);
    for (size_t i = 0; i < n; i++) {
        const enum pq_requantize_kind other = kind_of(job, &all->given[i]);
        kind = other > kind ? other : kind;
    }
    for (size_t i = 0; i < n; i++) {
        set_place(job, i, kind);
    }
}

/* As given, those of `n` groups. */
static void load_places(struct pq_requantize_job *job, ptrdiff_t first, ptrdiff_t step,
                        size_t n)
{
    struct pq_requantize_params *const all = &job->prepared;
    pq_load_multipliers(all->r, all->given, job->args, first, step, n);
    pq_load_biases(all->given_bias, &job->args->bias, first, step, n);
}

/* ---- places ---- */

static bool are_there(const struct pq_requantize_job *job, ptrdiff_t first, ptrdiff_t step,
                      ptrdiff_t count, ptrdiff_t repeat, ptrdiff_t times)
{
    return job->loaded_params.first == first && job->loaded_params.step == step &&
           job->loaded_params.count == count && job->loaded_params.repeat == repeat &&
           job->loaded_params.times == times;
}

void pq_load_group_params(struct pq_requantize_job *job, struct pq_along along,
                          ptrdiff_t group, ptrdiff_t count)
{
    const ptrdiff_t first = along.first + group * along.step;
    const size_t n = (size_t)count;
    if (are_there(job, first, along.step, count, 0, 0)) {
        return;
    }
    load_places(job, first, along.step, n);
    for (size_t i = 0; i < n; i++) {
        set_place(job, i, kind_of(job, &job->prepared.given[i]));
    }
    pq_summarize_params(&job->how, job, 0, n);
    job->loaded_params.first = first;
    job->loaded_params.step = along.step;
    job->loaded_params.count = count;
    job->loaded_params.repeat = job->loaded_params.times = 0;
}

#define FOR_ARRAY(X, all)                                                                  \
    X((all)->r)                                                                            \
    X((all)->bias)                                                                         \
    X((all)->most)                                                                         \
    X((all)->left)                                                                         \
    X((all)->m)                                                                            \
    X((all)->half)                                                                         \
    X((all)->right)

/* The first `n` places once more, until there are `total`; and numbers, whatever they are,
 * beyond. */
static void repeat_places(struct pq_requantize_params *all, size_t n, size_t total)
{
#define REPEAT(array) memcpy((array) + at, array, n * sizeof *(array));
#define END(array) memset((array) + total, 0, PQ_PARAMS_BEYOND * sizeof *(array));
    for (size_t at = n; at < total; at += n) {
        FOR_ARRAY(REPEAT, all)
        REPEAT(all->given)
        REPEAT(all->given_bias)
    }
    FOR_ARRAY(END, all)
#undef REPEAT
#undef END
}
#undef FOR_ARRAY

void pq_load_element_params(struct pq_requantize_job *job, struct pq_along along,
                            ptrdiff_t column, ptrdiff_t columns, ptrdiff_t times)
{
    struct pq_requantize_params *const all = &job->prepared;
    const ptrdiff_t group = column / along.group_size;
    const size_t n = (size_t)columns;
    /* Channels are one dimension of a plan, so that `along` is the same on all visits. */
    if (are_there(job, column, along.step, columns, along.group_size, times)) {
        return;
    }
    load_places(job, along.first + group * along.step, along.step,
                (size_t)((column + columns - 1) / along.group_size - group + 1));
    for (ptrdiff_t i = columns;
         along.group_size > 1 && i-- > 0;) { /* no group is after it */
        const ptrdiff_t from = (column + i) / along.group_size - group;
        all->r[i] = all->r[from];
        all->given[i] = all->given[from];
        all->given_bias[i] = all->given_bias[from];
    }
    join_places(job, n);
    pq_summarize_params(&job->how, job, 0, n);
    repeat_places(all, n, n * (size_t)times);
    job->loaded_params.first = column;
    job->loaded_params.step = along.step;
    job->loaded_params.count = columns;
    job->loaded_params.repeat = along.group_size;
    job->loaded_params.times = times;
}
