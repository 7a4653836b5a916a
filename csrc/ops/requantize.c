/* SPDX-License-Identifier: Apache-2.0 */
/* requantize: out = clamp(R(in - input_zero + bias) + zero). R multiplies and rounds. */
#include <string.h>

#include "args.h"
#include "engine/job.h"
#include "math/fpenv.h"
#include "ops/requantize.h"
#include "ops/scales.h"

/* ---- parameters of kernels ---- */

/* The limits of the loaded parameters. */
struct param_range {
    int32_t lowest_down, highest_down;
    int32_t least_bias, most_bias; /* minimum and maximum of 0 and all biases */
    bool grows;                    /* at least one float32 multiplier is 1 or more */
    bool is_uneven;                /* a doubled multiplier is from 1 to 2^31 - 1 */
};

#define NO_RANGE                                                                           \
    (struct param_range)                                                                   \
    {                                                                                      \
        INT32_MAX, INT32_MIN, 0, 0, false, false                                           \
    }

struct pq_requantization_job {
    const struct pq_kernels *kernels;
    const struct pq_requantization *args;
    const struct pq_channels
        *lead; /* the array that identifies channels; null: one channel */
    struct pq_requantize_run how; /* options of kernels */
    struct param_range range;
    bool has_large_bias; /* a bias minus the zero point of `in` exceeds int32 */
};

/* Return the channel of the number at the address `at` of the array `lead`. */
static inline ptrdiff_t channel_of(const struct pq_requantization_job *call, const char *at)
{
    const struct pq_channels *const lead = call->lead;
    return lead == NULL ? 0 : (at - (const char *)lead->data) / lead->stride;
}

enum {
    SINGLE = -33,         /* pq_requantize_run.down minus the shift of the multiplier */
    DOUBLED = -32,        /* pq_requantize_run.down minus the shift, if m is doubled */
    LOWEST_SINGLE = -30,  /* lowest `down`: a left shift by 30 saturates all nonzero sums */
    LOWEST_DOUBLED = -29, /* lowest `down` if doubled: the left shift is 1 - `down` = 30 */
    NOTHING = 31          /* `down` of the multiplier 0: two roundings then return 0 */
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

/* Return the multiplier with the index `place` in the loaded parameters. Reverse the
 * changes that set_single() or set_doubled() made to the shift. */
static struct pq_multiplier multiplier_at(const struct pq_requantize_run *how, size_t place)
{
    if (how->kind == PQ_REQUANTIZE_F32) {
        return (struct pq_multiplier){.r = how->r[place]};
    }
    const int32_t m = how->m[place], down = how->down[place];
    return how->doubled
               ? (struct pq_multiplier){0, (int32_t)((uint32_t)m >> 1), down - DOUBLED}
               : (struct pq_multiplier){0, m, down - SINGLE};
}

/* Extend the range so that it includes a multiplier, its `down` and its bias. */
static void note_params(struct param_range *range, int32_t m, int32_t down, int32_t bias)
{
    range->lowest_down = down < range->lowest_down ? down : range->lowest_down;
    range->highest_down = down > range->highest_down ? down : range->highest_down;
    range->least_bias = bias < range->least_bias ? bias : range->least_bias;
    range->most_bias = bias > range->most_bias ? bias : range->most_bias;
    range->is_uneven |= m > 0;
}

/* Choose the kind of kernel and the limits of elements for the limits of the parameters. */
static void set_kind(struct pq_requantize_run *how, const struct param_range *range)
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

/* Load the parameters of the channels first, first + step and so on, at most PQ_CHANNELS
 * channels. Store the parameters in the parameter tiles. The first index there is `to`. */
static void load_params_at(struct pq_job *job, ptrdiff_t to, ptrdiff_t first,
                           ptrdiff_t step, size_t n)
{
    struct pq_requantization_job *const call = job->how.run.requantize;
    const struct pq_requantization *const args = call->args;
    struct pq_multiplier by[PQ_CHANNELS];
    int64_t bias[PQ_CHANNELS];
    pq_load_multipliers(by, args, first, step, n);
    pq_load_channels(bias, &args->bias, first, step, n);
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
        note_params(&call->range, by[i].m, by[i].shift, job->zero.i32[to]);
    }
}

/* Load parameters to the parameter tiles. Scales contain `r` or `m`, zero points contain
 * `bias`, and offsets contain `down`. */
static void load_params(struct pq_job *job, ptrdiff_t to, const char *at, ptrdiff_t stride,
                        size_t n)
{
    struct pq_requantization_job *const call = job->how.run.requantize;
    const ptrdiff_t first = channel_of(call, at);
    const ptrdiff_t step = call->lead == NULL ? 0 : stride / call->lead->stride;
    if (to == 0) { /* a new tile */
        call->range = NO_RANGE;
    }
    for (size_t done = 0, m; done < n; done += m) {
        m = n - done < PQ_CHANNELS ? n - done : PQ_CHANNELS;
        load_params_at(job, to + (ptrdiff_t)done, first + (ptrdiff_t)done * step, step, m);
    }
    set_kind(&call->how, &call->range);
}

/* ---- kernel calls ---- */

/* A piece is the input of one kernel call. If a sum exceeds int32, run_by_definition()
 * computes the piece. A piece is at least as long as a tile, because a tile with parameters
 * for each element is not divided. */
enum { PIECE_ELEMENTS = PQ_SIZE(16384, PQ_TILE) };
_Static_assert((int)PIECE_ELEMENTS >= (int)PQ_TILE, "a tile does not fit a piece");

/* ---- the definition ---- */

/* Return the code of the sum of an element and its bias. */
static int64_t code_of(const struct pq_requantization_job *call, int64_t sum,
                       const struct pq_multiplier *by)
{
    const int64_t lowest = call->how.lowest, highest = call->how.highest;
    int64_t r = pq_rounded_product(sum, call->args->arithmetic, by, lowest, highest);
    r = r > lowest ? r : lowest;
    r = r < highest ? r : highest;
    return r + call->args->zero;
}

/* Requantize one element by the definition. The bias may exceed int32. */
static void run_element(void *p, const struct pq_position *at)
{
    struct pq_job *const job = p;
    const struct pq_requantization_job *const call = job->how.run.requantize;
    const struct pq_requantization *const args = call->args;
    const ptrdiff_t channel = channel_of(call, at->params.scale);
    struct pq_multiplier by;
    int64_t bias;
    char y[sizeof(int64_t)] = {0};
    pq_load_multipliers(&by, args, channel, 0, 1);
    pq_load_channels(&bias, &args->bias, channel, 0, 1);
    const struct pq_params x = {at->in, 0, args->in.type, job->in_swapped};
    const int64_t sum = pq_sum_of(pq_load_integer(&x), args->input_zero, bias);
    const int64_t code = code_of(call, sum, &by);
    pq_store_bits(args->out.type, (uint64_t)code, y);
    pq_copy_element(at->out, y, job->out_size, job->out_swapped);
}

/* Requantize the lines of `how` without a kernel: apply the definition to each element. */
PQ_NOINLINE void run_by_definition(const struct pq_requantization_job *call,
                                   const struct pq_requantize_run *how, const char *x,
                                   char *y, size_t n)
{
    const enum pq_type type = call->args->in.type;
    const size_t in = pq_bytes_of(type), out = pq_bytes_of(how->out);
    for (size_t line = 0; line < how->lines; line++) {
        for (size_t i = 0; i < n; i++) {
            const size_t place = how->per_element ? i : line;
            const struct pq_multiplier by = multiplier_at(how, place);
            const struct pq_params at = {x + i * in, 0, type, 0};
            const int64_t sum = pq_sum_of(pq_load_integer(&at), 0, how->bias[place]);
            const int64_t code = code_of(call, sum, &by);
            pq_store_bits(how->out, (uint64_t)code, y + i * out);
        }
        x += how->in_stride;
        y += how->out_stride;
    }
}

/* Convert `n` elements to int32. Return false if int32 cannot represent an element. */
PQ_NOINLINE bool widen_to_i32(int32_t *PQ_RESTRICT to, const char *PQ_RESTRICT x,
                              enum pq_type type, size_t n)
{
    const struct pq_params from = {x, (ptrdiff_t)pq_bytes_of(type), type, 0};
    int32_t negative = 0;
    int64_t beyond = 0;
    if (type != PQ_I64) {
        pq_load_zeros_i32(to, &from, n);
        for (size_t i = 0; type == PQ_U32 && i < n; i++) {
            negative |= to[i];
        }
        return negative >= 0;
    }
    for (size_t i = 0; i < n; i++) {
        int64_t v;
        memcpy(&v, x + i * sizeof v, sizeof v);
        to[i] = (int32_t)(uint32_t)v;
        beyond |= v ^ to[i];
    }
    return beyond == 0;
}

/* Run the kernel on int32 copies of lines, with at most PQ_TILE elements in sum. Return
 * false if an element does not fit in int32, or if the kernel fails. */
PQ_NOINLINE bool run_widened(const struct pq_requantization_job *call,
                             struct pq_requantize_run how, const char *x, char *y, size_t n)
{
    int32_t codes[PQ_TILE];
    bool fits = true;
    for (size_t line = 0; line < how.lines && fits; line++, x += how.in_stride) {
        fits = widen_to_i32(codes + line * n, x, call->args->in.type, n);
    }
    how.in_stride = (ptrdiff_t)(n * sizeof *codes);
    return fits && call->kernels->requantize(&how, codes, y, n) != 0;
}

/* Requantize the lines of `how`. If no kernel can do so, apply the definition. */
static void run_lines(const struct pq_requantization_job *call,
                      const struct pq_requantize_run *how, const char *x, char *y, size_t n)
{
    if (how->kind == PQ_REQUANTIZE_NONE ||
        !(call->args->in.type == PQ_I32 ? call->kernels->requantize(how, x, y, n) != 0
                                        : run_widened(call, *how, x, y, n))) {
        run_by_definition(call, how, x, y, n);
    }
}

/* Requantize a piece, the input of one kernel call. A line is a row, or the elements of a
 * group. */
static void run_piece(const struct pq_run *run, const void *px, void *py, size_t n)
{
    const struct pq_requantization_job *const call = run->requantize;
    struct pq_requantize_run how = call->how;
    const size_t g = run->group;
    const char *x = px;
    char *y = py;
    how.per_element = g == 1;
    how.m = run->scale.i32;
    how.down = run->offset.i32;
    how.bias = run->zero.i32;
    if (how.per_element) {
        how.lines = run->rows > 1 ? run->rows : 1;
        how.in_stride = run->in_stride;
        how.out_stride = run->out_stride;
        run_lines(call, &how, x, y, n);
        return;
    }
    if (how.kind == PQ_REQUANTIZE_NONE) { /* the piece is one line: see run_pieces() */
        struct param_range range = NO_RANGE;
        note_params(&range, *how.m, *how.down, *how.bias);
        set_kind(&how, &range);
    }
    how.lines = n / g;
    how.in_stride = (ptrdiff_t)(g * pq_bytes_of(call->args->in.type)) + run->in_gap;
    how.out_stride = (ptrdiff_t)(g * pq_bytes_of(how.out)) + run->out_gap;
    run_lines(call, &how, x, y, g);
    if (n % g != 0) { /* the last group is shorter than `g` elements */
        x += (ptrdiff_t)how.lines * how.in_stride;
        y += (ptrdiff_t)how.lines * how.out_stride;
        how.m += how.lines;
        how.down += how.lines;
        how.bias += how.lines;
        how.lines = 1;
        run_lines(call, &how, x, y, n % g);
    }
}

/* Requantize a run, a piece at a time. If no kernel supports all groups, a piece has only
 * one group, because a kernel may support a group only if the call has no other group. */
static void run_pieces(const struct pq_run *run, const void *x, void *y, size_t n)
{
    const struct pq_requantization_job *const call = run->requantize;
    const enum pq_type in = call->args->in.type;
    const size_t g = run->group, most = in == PQ_I32 ? PIECE_ELEMENTS : PQ_TILE;
    const bool single = g > 1 && call->how.kind == PQ_REQUANTIZE_NONE;
    pq_run_tiles(run_piece, single && g < most ? g : most, true, run, x, pq_bytes_of(in), y,
                 pq_bytes_of(call->how.out), n);
}

/* ---- checks ---- */

/* Return the first array with one number for each channel, or null. */
static const struct pq_channels *lead_channels(const struct pq_requantization *args)
{
    return args->multiplier.stride != 0                          ? &args->multiplier
           : args->shift.data != NULL && args->shift.stride != 0 ? &args->shift
           : args->bias.data != NULL && args->bias.stride != 0   ? &args->bias
                                                                 : NULL;
}

static ptrdiff_t count_channels(const struct pq_requantization *args)
{
    return lead_channels(args) != NULL ? args->shape[args->axis] : 1;
}

/* Return true if no byte offset in an array of channels overflows. */
PQ_RARE bool channel_offsets_fit(const struct pq_requantization *args,
                                 struct pq_args *arrays)
{
    const struct pq_channels *const all[] = {&args->multiplier, &args->shift, &args->bias};
    ptrdiff_t strides[PQ_MAX_NDIM];
    bool have = true;
    memset(strides, 0, (size_t)args->ndim * sizeof *strides);
    for (int i = 0; i < 3 && count_channels(args) > 1; i++) {
        struct pq_array array = {.data = arrays->in.data, .strides = strides};
        strides[args->axis] = all[i]->data != NULL ? all[i]->stride : 0;
        have = have && pq_check_array(arrays, &array, true) == PQ_OK;
    }
    return have;
}

/* Return true for int8 to int64 and uint8 to uint32, which are consecutive in pq.h. */
static bool type_fits_int64(enum pq_type type)
{
    return type >= PQ_I8 && type <= PQ_I64;
}

PQ_RARE bool has_valid_types(const struct pq_requantization *args)
{
    const enum pq_type out = args->out.type, by = args->multiplier.type;
    const bool is_supported = args->shift.data != NULL
                                  ? type_fits_int64(by) && type_fits_int64(args->shift.type)
                                  : by == PQ_F32 || by == PQ_F64;
    return is_supported && type_fits_int64(args->in.type) && out >= PQ_I8 &&
           out <= PQ_I32 && args->in.bit_strides == NULL && args->out.bit_strides == NULL &&
           (args->bias.data == NULL || type_fits_int64(args->bias.type));
}

_Static_assert(PQ_I64 == PQ_I8 + 6 && PQ_I32 == PQ_I8 + 4, "types are in another order");

static bool is_within(int64_t v, struct pq_range range)
{
    return v >= range.lo && v <= range.hi;
}

/* Return true if the arithmetic can represent the multipliers of all channels. Set
 * `has_large_bias` if int32 cannot represent a bias minus the zero point of the input. */
static bool check_channels(struct pq_requantization_job *call)
{
    const struct pq_requantization *const args = call->args;
    struct pq_multiplier by[PQ_CHANNELS];
    int64_t bias[PQ_CHANNELS], beyond = 0;
    const bool narrow = args->input_zero == 0 && args->bias.type <= PQ_I32;
    const bool many = args->multiplier.stride != 0 ||
                      (pq_is_fixed(args->arithmetic) && args->shift.stride != 0);
    const ptrdiff_t channels = count_channels(args);
    bool have = true;
    for (ptrdiff_t c = 0, m; c < channels && have; c += m) {
        m = channels - c < PQ_CHANNELS ? channels - c : PQ_CHANNELS;
        have = pq_load_multipliers(by, args, c, 1, many ? (size_t)m : 1);
        if (!narrow) {
            pq_load_channels(bias, &args->bias, c, 1, (size_t)m);
        }
        for (ptrdiff_t i = 0; i < m && !narrow; i++) {
            const int64_t sum = pq_sum_of(bias[i], args->input_zero, 0);
            beyond |= sum ^ (int32_t)sum;
        }
    }
    call->has_large_bias = beyond != 0;
    return have;
}

PQ_RARE enum pq_status check_numbers(struct pq_requantization_job *call)
{
    const struct pq_requantization *const args = call->args;
    const struct pq_range codes = pq_range_of(args->out.type);
    PQ_REQUIRE((int)args->arithmetic >= 0 && args->arithmetic < PQ_ARITHMETIC_COUNT &&
                   (args->shift.data == NULL || pq_is_fixed(args->arithmetic)),
               PQ_ERR_OPTION);
    PQ_REQUIRE(is_within(args->zero, codes) &&
                   is_within(args->input_zero, pq_range_of(args->in.type)),
               PQ_ERR_ZERO);
    PQ_REQUIRE(!args->clips || (is_within(args->lowest_code, codes) &&
                                is_within(args->highest_code, codes) &&
                                args->lowest_code <= args->highest_code),
               PQ_ERR_OPTION);
    return check_channels(call) ? PQ_OK : PQ_ERR_OPTION;
}

static enum pq_status check(struct pq_requantization_job *call, struct pq_args *arrays,
                            int part, int parts)
{
    const struct pq_requantization *const args = call->args;
    PQ_TRY(pq_check_shape(arrays));
    PQ_REQUIRE(call->kernels != NULL && args->multiplier.data != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_check_array(arrays, &arrays->in, false));
    PQ_TRY(pq_check_array(arrays, &arrays->out, false));
    PQ_TRY(pq_check_part(part, parts));
    PQ_REQUIRE(has_valid_types(args), PQ_ERR_TYPE);
    const bool has_axis =
        lead_channels(args) == NULL || (args->axis >= 0 && args->axis < args->ndim);
    return has_axis && channel_offsets_fit(args, arrays) ? check_numbers(call)
                                                         : PQ_ERR_SHAPE;
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
    call->lead = count_channels(args) > 1 ? lead_channels(args) : NULL;
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
    how->kernel = run_pieces;
    how->load = load_params;
    how->element = call->has_large_bias ? run_element : NULL;
    how->by_groups = true;
    how->affine.has_offset = fixed; /* the tile of offsets contains the shifts */
    how->run.requantize = call;
}

/* Run a part of a checked call. The array `lead` replaces the scales and the zero points
 * of the job. */
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
    struct pq_requantization copy;
    PQ_TRY(pq_copy_struct(&copy, args, sizeof copy, sizeof copy));
    args = &copy;
    struct pq_args arrays = {.size = sizeof arrays,
                             .ndim = args->ndim,
                             .shape = args->shape,
                             .in = args->in,
                             .out = args->out};
    const pq_fpenv found = pq_fpenv_enter();
    struct pq_requantization_job call = {.kernels = kernels, .args = args};
    enum pq_status status = check(&call, &arrays, part, parts);
    if (status == PQ_OK) {
        status = run_part(&call, &arrays, part, parts);
    }
    pq_fpenv_leave(found);
    return status;
}
