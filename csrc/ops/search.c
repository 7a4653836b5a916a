/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Search scales by least squared error. The search tries each candidate on all elements
 * of a group. Then it tries the scale that fits the codes of the best candidate. Groups
 * are independent.
 */
#include <math.h>

#include "args.h"
#include "engine/params.h"
#include "engine/reduce.h"
#include "engine/run.h"
#include "engine/sweep.h"
#include "math/fpenv.h"
#include "math/narrow_float.h"
#include "math/scalar_math.h"
#include "ops/presets.h"
#include "ops/scales.h"

enum {
    TILE_ELEMENTS = PQ_SUM_PIECE,
    BATCH_CANDIDATES = 256, /* most candidates of a batch */
    BATCH_GROUPS = 32,      /* most groups of a batch */
    DEFAULT_CANDIDATES = 20
};

/* Candidates and their sums of squared errors. */
struct batch {
    /* Scales and zero points in their stored types, contiguous. */
    double scale[BATCH_CANDIDATES];
    uint32_t zero[BATCH_CANDIDATES];
    double sum[BATCH_CANDIDATES];
    /* Input of the grid kernel, see struct pq_grid. */
    float scale_f32[BATCH_CANDIDATES], lo[BATCH_CANDIDATES], hi[BATCH_CANDIDATES];
};

/* The candidates of one group in a batch. */
struct trial {
    struct batch *batch;
    size_t first, count;
};

/* The best candidate, in its stored types. */
struct best {
    double sum, scale;
    uint32_t zero;
    bool any;
};

struct group {
    const char *x;   /* all elements, if the group fits a tile */
    const double *w; /* the weights of these elements */
    char *scale, *zero;
    double range[2];
    double unit; /* factor of float64 errors */
    struct best best;
    ptrdiff_t size;
};

struct scale_search {
    const struct pq_kernels *kernels;
    const struct pq_args *args;
    const struct pq_search *search;
    struct pq_choice choice;
    bool is_f64;   /* elements are float64; otherwise float32 */
    bool integers; /* the grid kernel supports the codes */
    struct pq_range range;
    enum pq_type zero_type;
    ptrdiff_t groups[PQ_MAX_NDIM], extent[PQ_MAX_NDIM];
    const struct group *group; /* the current group */
    const char *x;             /* the current tile of the group */
    const double *w;
    struct pq_sweep data, weights;
    double x_room[TILE_ELEMENTS], w_room[TILE_ELEMENTS], y_room[TILE_ELEMENTS];
    char raw[TILE_ELEMENTS * sizeof(double)]; /* elements before conversion, or codes */
    double factor[DEFAULT_CANDIDATES];
    const double *factors; /* candidates: factors of the range of a group */
    size_t count;
};

/* ---- elements ---- */

/* Return the type of the arithmetic. */
static enum pq_type arithmetic_type(const struct scale_search *s)
{
    return s->is_f64 ? PQ_F64 : PQ_F32;
}

static bool is_weighted(const struct scale_search *s)
{
    return s->search->weights.data != NULL;
}

/* Load the next elements and weights. `at` is the first unused element of the buffers. */
PQ_NOINLINE void load_elements(struct scale_search *s, size_t n, size_t at)
{
    double *const w_room = s->w_room + at;
    s->x = pq_sweep_load(&s->data, arithmetic_type(s), 1, 0, n, s->x_room + at, s->raw);
    if (is_weighted(s)) {
        const char *w = pq_sweep_load(&s->weights, PQ_F64, 1, 0, n, w_room, s->raw);
        if ((uintptr_t)w % sizeof(double) != 0) {
            w = memmove(w_room, w, n * sizeof(double));
        }
        s->w = (const void *)w;
    }
}

/* A function for one tile of the current group. */
typedef void piece_fn(struct scale_search *s, void *what, size_t n);

/* Call a function for each tile of a group. */
PQ_NOINLINE void for_each_tile(struct scale_search *s, const struct group *group,
                               piece_fn *visit, void *what)
{
    s->group = group;
    if (group->size <= TILE_ELEMENTS) {
        s->x = group->x;
        s->w = group->w;
        visit(s, what, (size_t)group->size);
        return;
    }
    pq_sweep_seek(&s->data, 0);
    if (is_weighted(s)) {
        pq_sweep_seek(&s->weights, 0);
    }
    for (ptrdiff_t i = 0; i < group->size; i += TILE_ELEMENTS) {
        const size_t n =
            (size_t)(group->size - i < TILE_ELEMENTS ? group->size - i : TILE_ELEMENTS);
        load_elements(s, n, 0);
        visit(s, what, n);
    }
}

/* ---- extrema ---- */

struct ends {
    union {
        float f32[2];
        double f64[2];
    } of;
    uint32_t bits;
};

static void merge_extrema(struct scale_search *s, void *what, size_t n)
{
    struct ends *const ends = what;
    s->kernels->minmax[pq_extrema_row(arithmetic_type(s))](
        s->x, n, &ends->of, pq_extremum(&ends->of, s->is_f64, 1), &ends->bits);
}

/* Find the range of a group. Return true if all elements are finite. */
static bool find_extrema(struct scale_search *s, struct group *group)
{
    struct ends ends = {.bits = 0};
    pq_clear_extrema(&ends.of, pq_extremum(&ends.of, s->is_f64, 1), s->is_f64, 1);
    for_each_tile(s, group, merge_extrema, &ends);
    for (int k = 0; k < 2; k++) {
        group->range[k] = pq_extremum_at(&ends.of, s->is_f64, (size_t)k);
    }
    return ends.bits < PQ_INFINITY_BITS;
}

/* ---- a batch of candidates ---- */

static double scale_at(const struct scale_search *s, const struct batch *batch, size_t j)
{
    const enum pq_type type = s->choice.scale;
    const struct pq_params from = {(const char *)batch->scale + j * pq_bytes_of(type), 0,
                                   type, false};
    double scale;
    pq_load_scales_f64(&scale, &from, 1, !s->is_f64);
    return scale;
}

static const char *zero_place(const struct scale_search *s, const struct batch *batch,
                              size_t j)
{
    return (const char *)batch->zero + j * pq_bytes_of(s->zero_type);
}

/* Convert `n` candidates for the grid kernel. */
static void load_grid(const struct scale_search *s, struct batch *batch, size_t n)
{
    const enum pq_type type = s->choice.scale;
    const struct pq_params scales = {(const char *)batch->scale,
                                     (ptrdiff_t)pq_bytes_of(type), type, false};
    const struct pq_params zeros = {(const char *)batch->zero,
                                    (ptrdiff_t)pq_bytes_of(s->zero_type), s->zero_type,
                                    false};
    const float lo = (float)s->range.lo, hi = (float)s->range.hi;
    int32_t zero[BATCH_CANDIDATES];
    pq_load_scales_f32(batch->scale_f32, &scales, n);
    pq_load_zeros_i32(zero, &zeros, n);
    for (size_t j = 0; j < n; j++) {
        batch->lo[j] = lo - (float)zero[j];
        batch->hi[j] = hi - (float)zero[j];
    }
}

static struct pq_grid grid_of(const struct scale_search *s, const struct trial *trial)
{
    const struct batch *const batch = trial->batch;
    const struct group *const group = s->group;
    return (struct pq_grid){.count = trial->count,
                            .scale = batch->scale_f32 + trial->first,
                            .lo = batch->lo + trial->first,
                            .hi = batch->hi + trial->first,
                            .lowest = (float)group->range[0],
                            .highest = (float)group->range[1],
                            .whole = group->size <= TILE_ELEMENTS,
                            .narrow = pq_bits_of(s->choice.code) <= 8};
}

static void sum_grid_errors(struct scale_search *s, void *what, size_t n)
{
    const struct trial *const trial = what;
    const struct pq_grid grid = grid_of(s, trial);
    s->kernels->sums->grid(&grid, s->x, is_weighted(s) ? s->w : NULL, n,
                           trial->batch->sum + trial->first);
}

/* Quantize a tile with candidate `j`, and dequantize it with the scale `by`, if any. */
PQ_NOINLINE void round_trip(struct scale_search *s, const struct batch *batch, size_t j,
                            size_t n, const double *by)
{
    static const ptrdiff_t none = 0;
    const enum pq_type real = arithmetic_type(s), code = s->choice.code;
    const ptrdiff_t shape = (ptrdiff_t)n, number = (ptrdiff_t)pq_bytes_of(real);
    const ptrdiff_t byte = (ptrdiff_t)pq_bytes_of(code);
    double scale = scale_at(s, batch, j);
    struct pq_args args = {.size = sizeof args, .ndim = 1, .shape = &shape};
    args.in = (struct pq_array){(void *)(uintptr_t)s->x, &number, real, 0, NULL};
    args.out = (struct pq_array){s->raw, &byte, code, 0, NULL};
    args.scale = (struct pq_array){&scale, &none, PQ_F64, 0, NULL};
    args.zero = (struct pq_array){(void *)(uintptr_t)zero_place(s, batch, j), &none,
                                  s->zero_type, 0, NULL};
    args.lowest_code = s->choice.lowest_code;
    args.highest_code = s->choice.highest_code;
    if (!pq_is_integer(code)) {
        args.zero.data = NULL;
    }
    pq_quantize_run(s->kernels, &args);
    args.in = args.out;
    args.out = (struct pq_array){s->y_room, &number, real, 0, NULL};
    args.lowest_code = args.highest_code = 0;
    scale = by == NULL ? scale : *by;
    pq_dequantize_run(s->kernels, &args);
}

static void try_each(struct scale_search *s, void *what, size_t n)
{
    const struct trial *const trial = what;
    for (size_t j = trial->first; j < trial->first + trial->count; j++) {
        round_trip(s, trial->batch, j, n, NULL);
        trial->batch->sum[j] +=
            s->kernels->sums->squares[s->is_f64](s->x, s->y_room, s->w, n, s->group->unit);
    }
}

static void sum_trial_errors(struct scale_search *s, const struct group *group,
                             struct trial *trial)
{
    memset(trial->batch->sum + trial->first, 0, trial->count * sizeof(double));
    for_each_tile(s, group, s->integers ? sum_grid_errors : try_each, trial);
}

/* ---- the scale that fits the best codes ---- */

static void fit_grid(struct scale_search *s, void *what, size_t n)
{
    const struct trial *const trial = what;
    const struct pq_grid grid = grid_of(s, trial);
    s->kernels->sums->fit_codes(&grid, s->x, s->w, n, trial->batch->sum);
}

static void fit_each(struct scale_search *s, void *what, size_t n)
{
    const struct trial *const trial = what;
    const double one = 1;
    round_trip(s, trial->batch, 0, n, &one);
    s->kernels->sums->fit[s->is_f64](s->x, s->y_room, s->w, n, trial->batch->sum);
}

/* Store the nearest scale in its type, rounded half to even. Return false if the result
 * is not a positive finite number, or if scales are powers of two. */
PQ_RARE bool store_scale(const struct scale_search *s, struct batch *batch, double scale)
{
    const enum pq_type type = s->choice.scale;
    if (!(scale > 0 && scale < HUGE_VAL) || type == PQ_F8E8M0FNU) {
        return false;
    }
    scale = type == PQ_F64 ? scale : (double)(float)scale;
    const uint64_t bits = type == PQ_F8E4M3FN ? pq_encode((float)scale, type, false)
                                              : pq_scale_bits(type, scale);
    pq_store_bits(type, bits, (char *)batch->scale);
    const double stored = scale_at(s, batch, 0);
    return stored > 0 && stored < HUGE_VAL;
}

static void keep_best(const struct scale_search *s, struct best *best,
                      const struct trial *trial)
{
    const struct batch *const batch = trial->batch;
    const size_t scale = pq_bytes_of(s->choice.scale);
    const size_t zero = pq_bytes_of(s->zero_type);
    size_t least = trial->first;
    double sum = batch->sum[least];
    for (size_t j = least + 1; j < trial->first + trial->count; j++) {
        if (batch->sum[j] < sum || sum != sum) {
            least = j;
            sum = batch->sum[j];
        }
    }
    if (!best->any || sum < best->sum || best->sum != best->sum) {
        best->any = true;
        best->sum = sum;
        memcpy(&best->scale, (const char *)batch->scale + least * scale, scale);
        memcpy(&best->zero, (const char *)batch->zero + least * zero, zero);
    }
}

/* Fit the scale to the best codes by least squares, and keep it if the sum decreases. */
static void fit_best(struct scale_search *s, struct group *group, struct batch *batch)
{
    struct trial trial = {batch, 0, 1};
    batch->scale[0] = group->best.scale;
    batch->zero[0] = group->best.zero;
    batch->sum[0] = batch->sum[1] = 0;
    load_grid(s, batch, 1);
    for_each_tile(s, group, s->integers ? fit_grid : fit_each, &trial);
    if (batch->sum[1] > 0 && store_scale(s, batch, batch->sum[0] / batch->sum[1])) {
        load_grid(s, batch, 1);
        sum_trial_errors(s, group, &trial);
        keep_best(s, &group->best, &trial);
    }
}

/* ---- groups ---- */

/* Choose parameters for `n` candidates of each group. */
PQ_NOINLINE void fill_batch(const struct scale_search *s, struct batch *batch,
                            const struct group *groups, size_t many, size_t first, size_t n)
{
    double lo[BATCH_CANDIDATES], hi[BATCH_CANDIDATES];
    for (size_t g = 0, k = 0; g < many; g++) {
        for (size_t j = first; j < first + n; j++, k++) {
            lo[k] = groups[g].range[0] * s->factors[j];
            hi[k] = groups[g].range[1] * s->factors[j];
            if (!s->is_f64) {
                lo[k] = (double)(float)lo[k];
                hi[k] = (double)(float)hi[k];
            }
        }
    }
    pq_choose_by(s->kernels, &s->choice, many * n, lo, hi, batch->scale, batch->zero);
    load_grid(s, batch, many * n);
}

/* Return the power of two that multiplies errors, so that no square overflows or
 * vanishes. */
static double error_unit(const struct scale_search *s, const double *range)
{
    int exponent = 0;
    if (!s->is_f64) {
        return 1;
    }
    frexp(range[1] > -range[0] ? range[1] : -range[0], &exponent);
    exponent = exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
    return ldexp(1, -exponent);
}

static void search_groups(struct scale_search *s, struct group *groups, size_t many)
{
    struct batch batch;
    const size_t most = BATCH_CANDIDATES / many;
    for (size_t first = 0; first < s->count; first += most) {
        const size_t n = s->count - first < most ? s->count - first : most;
        fill_batch(s, &batch, groups, many, first, n);
        for (size_t g = 0; g < many; g++) {
            struct trial trial = {&batch, g * n, n};
            sum_trial_errors(s, &groups[g], &trial);
            keep_best(s, &groups[g].best, &trial);
        }
    }
    for (size_t g = 0; g < many; g++) {
        if (s->choice.like != PQ_LIKE_QUARK_PO2) {
            fit_best(s, &groups[g], &batch);
        }
        memcpy(groups[g].scale, &groups[g].best.scale, pq_bytes_of(s->choice.scale));
        memcpy(groups[g].zero, &groups[g].best.zero, pq_bytes_of(s->zero_type));
    }
}

/* Return the extent of a full group along a dimension. */
static ptrdiff_t block_of(const struct scale_search *s, int d)
{
    const struct pq_args *const args = s->args;
    return s->groups[d] == 1 ? args->shape[d] : args->block != NULL ? args->block[d] : 1;
}

/* Set `group` and the sweeps to the group with this number. Return true if all its
 * elements are finite. `at` is the first unused element of the buffers. */
static bool enter_group(struct scale_search *s, struct group *group, ptrdiff_t number,
                        size_t at)
{
    const struct pq_args *const args = s->args;
    const struct pq_array *const in = &args->in, *const weights = &s->search->weights;
    const char *x = in->data, *w = weights->data;
    group->size = 1;
    group->scale = args->scale.data;
    group->zero = args->zero.data;
    group->best.any = false;
    for (int d = args->ndim - 1; d >= 0; d--) {
        const ptrdiff_t i = number % s->groups[d], block = block_of(s, d);
        const ptrdiff_t first = i * block, left = args->shape[d] - first;
        number /= s->groups[d];
        s->extent[d] = left < block ? left : block;
        group->size *= s->extent[d];
        group->scale += i * args->scale.strides[d];
        group->zero += i * args->zero.strides[d];
        x += first * in->strides[d];
        if (is_weighted(s)) {
            w += first * weights->strides[d];
        }
    }
    pq_sweep_init(&s->data, s->kernels, in, x, args->ndim, s->extent, in->strides);
    if (is_weighted(s)) {
        pq_sweep_init(&s->weights, s->kernels, weights, w, args->ndim, s->extent,
                      weights->strides);
    }
    if (group->size <= TILE_ELEMENTS) {
        load_elements(s, (size_t)group->size, at);
        group->x = s->x;
        group->w = s->w;
    }
    const bool finite = find_extrema(s, group);
    group->unit = error_unit(s, group->range);
    return finite;
}

/* Count the groups. */
PQ_RARE ptrdiff_t count_groups(struct scale_search *s)
{
    const struct pq_args *const args = s->args;
    ptrdiff_t count = 1;
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t block = args->block != NULL ? args->block[d] : 1;
        const bool selects = args->scale.strides[d] != 0 || args->zero.strides[d] != 0;
        s->groups[d] = selects ? (args->shape[d] - 1) / block + 1 : 1;
        count *= s->groups[d];
    }
    return count;
}

/* ---- calls ---- */

PQ_RARE void init_search(struct scale_search *s)
{
    const enum pq_type code = s->choice.code;
    const struct pq_choice *const choice = &s->choice;
    s->range = pq_code_range(choice);
    s->zero_type = pq_is_integer(code) ? pq_carrier_of(code) : PQ_I8;
    s->integers = pq_is_integer(code) && pq_bits_of(code) <= 16 && !s->is_f64;
    for (int j = 0; j < DEFAULT_CANDIDATES; j++) {
        s->factor[j] = 1 - j / 100.0;
    }
    const double *const given = s->search->candidates;
    s->factors = given != NULL ? given : s->factor;
    s->count = given != NULL ? s->search->count : DEFAULT_CANDIDATES;
    s->w = s->w_room;
    for (int i = 0; i < TILE_ELEMENTS && !is_weighted(s); i++) {
        s->w_room[i] = 1;
    }
}

PQ_RARE enum pq_status check_candidates(const struct pq_search *search)
{
    const double *const candidates = search->candidates;
    const size_t count = candidates != NULL ? search->count : 1;
    bool valid = count != 0;
    const pq_fpenv found = pq_fpenv_enter(); /* subnormal candidates are positive */
    for (size_t j = 0; candidates != NULL && j < count; j++) {
        valid = valid && candidates[j] > 0 && candidates[j] <= 1;
    }
    pq_fpenv_leave(found);
    return valid ? PQ_OK : PQ_ERR_OPTION;
}

/* Return the number of groups of a batch. Their elements must fit in a tile, and their
 * candidates in a batch. */
static size_t count_batch_groups(const struct scale_search *s)
{
    size_t size = 1, many = BATCH_GROUPS;
    for (int d = 0; d < s->args->ndim && size <= TILE_ELEMENTS; d++) {
        size *= (size_t)block_of(s, d);
    }
    many = TILE_ELEMENTS / size < many ? TILE_ELEMENTS / size : many;
    many = BATCH_CANDIDATES / s->count < many ? BATCH_CANDIDATES / s->count : many;
    return many > 0 ? many : 1;
}

/* Search the groups of a part. */
static enum pq_status search_part(struct scale_search *s, int part, int parts)
{
    const struct pq_share share = pq_share_of(count_groups(s), part, parts);
    const ptrdiff_t together = (ptrdiff_t)count_batch_groups(s);
    struct group groups[BATCH_GROUPS];
    for (ptrdiff_t i = share.begin; i < share.end; i += together) {
        const ptrdiff_t left = share.end - i, many = left < together ? left : together;
        size_t at = 0;
        for (ptrdiff_t g = 0; g < many; at += (size_t)groups[g++].size) {
            if (!enter_group(s, &groups[g], i + g, at)) {
                return PQ_ERR_NONFINITE;
            }
        }
        search_groups(s, groups, (size_t)many);
    }
    return PQ_OK;
}

enum pq_status pq_search_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *choice,
                                const struct pq_search *search, int part, int parts)
{
    struct pq_args room;
    struct pq_search search_room;
    struct scale_search s;
    const void *known = search, *chosen = choice;
    PQ_TRY(search != NULL && choice != NULL ? PQ_OK : PQ_ERR_NULL);
    PQ_TRY(pq_adapt_struct_version(&chosen, &s.choice, sizeof s.choice, PQ_LEAST_CHOICE));
    choice = chosen;
    if (choice->rule == PQ_RULE_ONNX_DYNAMIC) {
        return PQ_ERR_OPTION;
    }
    PQ_TRY(pq_check_choosing(&args, &room, &s.choice, choice, kernels, part, parts));
    PQ_TRY(pq_adapt_struct_version(&known, &search_room, sizeof search_room,
                                   offsetof(struct pq_search, count) + sizeof(size_t)));
    s.kernels = kernels;
    s.args = args;
    s.search = known;
    s.is_f64 = args->in.type == PQ_F64;
    PQ_TRY(is_weighted(&s) ? pq_check_reals(args, &s.search->weights) : PQ_OK);
    PQ_TRY(check_candidates(s.search));
    if (pq_is_empty(args)) {
        return pq_choose_params(kernels, args, choice, part, parts);
    }
    const pq_fpenv found = pq_fpenv_enter();
    init_search(&s);
    const enum pq_status status = search_part(&s, part, parts);
    pq_fpenv_leave(found);
    return status;
}
