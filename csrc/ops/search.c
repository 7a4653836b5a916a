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
#include "engine/slabs.h"
#include "engine/sweep.h"
#include "math/fpenv.h"
#include "math/narrow_float.h"
#include "math/scalar_math.h"
#include "ops/presets.h"
#include "ops/scales.h"

enum {
    BATCH_CANDIDATES = 256, /* maximum number of candidates of a batch */
    BATCH_GROUPS = 32,      /* maximum number of groups of a batch */
    DEFAULT_CANDIDATES = 20
};

/* Candidates for a scale, and the sum of squared errors of each candidate. */
struct batch {
    /* Scales and zero points in the types of the caller's arrays, contiguous. */
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

/* The best candidate, in the types of the caller's arrays. `sum` is NaN before the first
 * candidate. */
struct best {
    double sum, scale;
    uint32_t zero;
};

struct group {
    const char *x;   /* all elements of the group if a tile can contain them, else unused */
    const double *w; /* the weights of these elements */
    char *scale, *zero;
    double range[2];
    double unit; /* factor of float64 errors, see error_unit() */
    struct best best;
    ptrdiff_t size;
};

struct scale_search {
    const struct pq_kernels *kernels;
    const struct pq_args *args;
    struct pq_search search;
    struct pq_choice choice;
    bool is_f64;   /* elements are float64; otherwise float32 */
    bool integers; /* the grid kernel supports the codes */
    struct pq_range range;
    enum pq_type zero_type;
    struct pq_boxes groups; /* groups.box.out: the weights of the current group */
    ptrdiff_t next; /* position, in the group, of the element after the current tile */
    const char *x;  /* the current tile */
    const double *w;
    struct pq_sweep data, weights;
    double x_room[PQ_SUM_ELEMENTS], w_room[PQ_SUM_ELEMENTS], y_room[PQ_SUM_ELEMENTS];
    char raw[PQ_SUM_ELEMENTS * sizeof(double)]; /* unconverted elements, or codes */
    double factor[DEFAULT_CANDIDATES];
    const double *factors; /* factors of the range of a group, one for each candidate */
    size_t count;
};

/* ---- elements ---- */

static bool is_weighted(const struct scale_search *s)
{
    return s->search.weights.data != NULL;
}

/* Load the next elements and weights. `at` is the index of the first unused element of the
 * buffers. */
PQ_NOINLINE void load_elements(struct scale_search *s, size_t n, size_t at)
{
    double *const w_room = s->w_room + at;
    s->x = pq_sweep_load(&s->data, pq_real_of(s->is_f64), 1, 0, n, s->x_room + at, s->raw);
    if (is_weighted(s)) {
        const char *w = pq_sweep_load(&s->weights, PQ_F64, 1, 0, n, w_room, s->raw);
        if ((uintptr_t)w % sizeof(double) != 0) {
            w = memmove(w_room, w, n * sizeof(double));
        }
        s->w = (const void *)w;
    }
}

/* Prepare next_tile() to read a group from its start. */
static void begin_group(struct scale_search *s, const struct group *group)
{
    s->next = 0;
    if (group->size > PQ_SUM_ELEMENTS) {
        pq_sweep_seek(&s->data, 0);
        pq_sweep_seek(&s->weights, 0);
    }
}

/* Make the next elements of a group the current tile. Return the number of elements, or 0
 * at the end of the group. */
PQ_NOINLINE size_t next_tile(struct scale_search *s, const struct group *group)
{
    const ptrdiff_t left = group->size - s->next;
    const size_t n = (size_t)(left < PQ_SUM_ELEMENTS ? left : PQ_SUM_ELEMENTS);
    s->next += (ptrdiff_t)n;
    if (group->size <= PQ_SUM_ELEMENTS) {
        s->x = group->x;
        s->w = group->w;
    } else if (n != 0) {
        load_elements(s, n, 0);
    }
    return n;
}

/* Find the range of a group. Return true if all elements are finite. */
static bool find_extrema(struct scale_search *s, struct group *group)
{
    union {
        float f32[2];
        double f64[2];
    } ends;
    void *const highest = pq_extremum(&ends, s->is_f64, 1);
    uint32_t bits = 0;
    pq_clear_extrema(&ends, highest, s->is_f64, 1);
    begin_group(s, group);
    for (size_t n; (n = next_tile(s, group)) != 0;) {
        s->kernels->minmax[pq_extrema_row(pq_real_of(s->is_f64))](s->x, n, &ends, highest,
                                                                  &bits);
    }
    for (size_t k = 0; k < 2; k++) {
        group->range[k] = pq_extremum_at(&ends, s->is_f64, k);
    }
    return bits < PQ_INFINITY_BITS;
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

static struct pq_grid grid_of(const struct scale_search *s, const struct group *group,
                              const struct trial *trial)
{
    const struct batch *const batch = trial->batch;
    return (struct pq_grid){.count = trial->count,
                            .scale = batch->scale_f32 + trial->first,
                            .lo = batch->lo + trial->first,
                            .hi = batch->hi + trial->first,
                            .lowest = (float)group->range[0],
                            .highest = (float)group->range[1],
                            .covers_group = group->size <= PQ_SUM_ELEMENTS,
                            .narrow = pq_bits_of(s->choice.code) <= 8};
}

/* Quantize a tile with candidate `j`. Dequantize with the scale of `j`, or with the scale
 * `*by` if `by` is not NULL. */
PQ_NOINLINE void round_trip(struct scale_search *s, const struct batch *batch, size_t j,
                            size_t n, const double *by)
{
    static const ptrdiff_t none = 0;
    const enum pq_type real = pq_real_of(s->is_f64), code = s->choice.code;
    const ptrdiff_t shape = (ptrdiff_t)n, number = (ptrdiff_t)pq_bytes_of(real);
    const ptrdiff_t byte = (ptrdiff_t)pq_bytes_of(code);
    const size_t zero = pq_bytes_of(s->zero_type);
    double scale = scale_at(s, batch, j);
    struct pq_args args = {.size = sizeof args, .ndim = 1, .shape = &shape};
    args.in = (struct pq_array){(void *)(uintptr_t)s->x, &number, real, 0, NULL};
    args.out = (struct pq_array){s->raw, &byte, code, 0, NULL};
    args.scale = (struct pq_array){&scale, &none, PQ_F64, 0, NULL};
    args.zero = (struct pq_array){(char *)(uintptr_t)batch->zero + j * zero, &none,
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

/* Compute the sum of squared errors of each candidate of a group. */
static void sum_errors(struct scale_search *s, const struct group *group,
                       const struct trial *trial)
{
    const struct pq_kernels *const kernels = s->kernels;
    const struct pq_grid grid = grid_of(s, group, trial);
    double *const sums = trial->batch->sum + trial->first;
    memset(sums, 0, trial->count * sizeof *sums);
    begin_group(s, group);
    for (size_t n; (n = next_tile(s, group)) != 0;) {
        if (s->integers) {
            kernels->grid_sums(&grid, s->x, is_weighted(s) ? s->w : NULL, n, sums);
            continue;
        }
        for (size_t j = 0; j < trial->count; j++) {
            round_trip(s, trial->batch, trial->first + j, n, NULL);
            sums[j] +=
                kernels->sum_squares[s->is_f64](s->x, s->y_room, s->w, n, group->unit);
        }
    }
}

/* ---- the scale that fits the best codes ---- */

/* Store a scale as candidate 0, rounded half to even to the type of scales. Return false if
 * there is no fitted scale, because the result is not positive and finite, or because
 * scales must be powers of two. */
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
    if (sum < best->sum || best->sum != best->sum) {
        best->sum = sum;
        memcpy(&best->scale, (const char *)batch->scale + least * scale, scale);
        memcpy(&best->zero, (const char *)batch->zero + least * zero, zero);
    }
}

/* Fit a scale to the best codes by least squares. Keep the fitted scale if the sum of
 * squared errors decreases. */
static void fit_best(struct scale_search *s, struct group *group, struct batch *batch)
{
    const struct trial trial = {batch, 0, 1};
    const struct pq_kernels *const kernels = s->kernels;
    const double one = 1;
    double sums[2] = {0, 0};
    batch->scale[0] = group->best.scale;
    batch->zero[0] = group->best.zero;
    load_grid(s, batch, 1);
    const struct pq_grid grid = grid_of(s, group, &trial);
    begin_group(s, group);
    for (size_t n; (n = next_tile(s, group)) != 0;) {
        if (s->integers) {
            kernels->fit_codes(&grid, s->x, s->w, n, sums);
        } else {
            round_trip(s, batch, 0, n, &one);
            kernels->fit[s->is_f64](s->x, s->y_room, s->w, n, sums);
        }
    }
    if (sums[1] > 0 && store_scale(s, batch, sums[0] / sums[1])) {
        load_grid(s, batch, 1);
        sum_errors(s, group, &trial);
        keep_best(s, &group->best, &trial);
    }
}

/* ---- groups ---- */

/* Compute the scale and the zero point of the candidates [first, first + n) of each
 * group. */
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

/* Return a power of two as factor of errors, so that no square overflows or underflows to
 * 0. */
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
    const struct pq_preset *const preset = pq_preset_of(s->choice.like);
    /* If scales must be powers of two, do not fit a scale. */
    const bool can_fit = preset == NULL || preset->span != PQ_SPAN_POWER;
    for (size_t first = 0; first < s->count; first += most) {
        const size_t n = s->count - first < most ? s->count - first : most;
        fill_batch(s, &batch, groups, many, first, n);
        for (size_t g = 0; g < many; g++) {
            const struct trial trial = {&batch, g * n, n};
            sum_errors(s, &groups[g], &trial);
            keep_best(s, &groups[g].best, &trial);
        }
    }
    for (size_t g = 0; g < many; g++) {
        if (can_fit) {
            fit_best(s, &groups[g], &batch);
        }
        memcpy(groups[g].scale, &groups[g].best.scale, pq_bytes_of(s->choice.scale));
        memcpy(groups[g].zero, &groups[g].best.zero, pq_bytes_of(s->zero_type));
    }
}

/* Set `group`, and the readers `data` and `weights`, to the group with this number. Return
 * true if all elements of the group are finite. `at` is the index of the first unused
 * element of the buffers. */
static bool load_group(struct scale_search *s, struct group *group, ptrdiff_t number,
                       size_t at)
{
    const struct pq_args *const box = &s->groups.box;
    group->size = pq_enter_box(&s->groups, s->args, number);
    group->scale = box->scale.data;
    group->zero = box->zero.data;
    group->best.sum = (double)NAN;
    pq_sweep_init(&s->data, s->kernels, &box->in, box->ndim, box->shape);
    pq_sweep_init(&s->weights, s->kernels, &box->out, box->ndim, box->shape);
    if (group->size <= PQ_SUM_ELEMENTS) {
        load_elements(s, (size_t)group->size, at);
        group->x = s->x;
        group->w = s->w;
    }
    const bool finite = find_extrema(s, group);
    group->unit = error_unit(s, group->range);
    return finite;
}

PQ_RARE void divide_into_groups(struct scale_search *s)
{
    const struct pq_args *const args = s->args;
    for (int d = 0; d < args->ndim; d++) {
        const bool selects = args->scale.strides[d] != 0 || args->zero.strides[d] != 0;
        const ptrdiff_t block = args->block != NULL ? args->block[d] : 1;
        s->groups.step[d] = selects && block < args->shape[d] ? block : args->shape[d];
    }
    pq_init_boxes(&s->groups, args);
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
    const double *const given = s->search.candidates;
    s->factors = given != NULL ? given : s->factor;
    s->count = given != NULL ? s->search.count : DEFAULT_CANDIDATES;
    s->w = s->w_room;
    for (int i = 0; i < PQ_SUM_ELEMENTS && !is_weighted(s); i++) {
        s->w_room[i] = 1;
    }
}

PQ_RARE enum pq_status check_candidates(const struct pq_search *search)
{
    const double *const candidates = search->candidates;
    const size_t count = candidates != NULL ? search->count : 1;
    bool valid = count != 0;
    const pq_fpenv found = pq_fpenv_enter(); /* subnormals flushed to 0 do not exceed 0 */
    for (size_t j = 0; candidates != NULL && j < count; j++) {
        valid = valid && candidates[j] > 0 && candidates[j] <= 1;
    }
    pq_fpenv_leave(found);
    return valid ? PQ_OK : PQ_ERR_OPTION;
}

/* Return the number of groups of a batch. It is more than 1 if a tile can contain the
 * elements of several groups, and a batch can contain the candidates. */
static size_t count_batch_groups(const struct scale_search *s)
{
    size_t size = 1, many = BATCH_GROUPS;
    for (int d = 0; d < s->args->ndim && size <= PQ_SUM_ELEMENTS; d++) {
        size *= (size_t)s->groups.step[d];
    }
    many = PQ_SUM_ELEMENTS / size < many ? PQ_SUM_ELEMENTS / size : many;
    many = BATCH_CANDIDATES / s->count < many ? BATCH_CANDIDATES / s->count : many;
    return many > 0 ? many : 1;
}

/* Search the scales of the groups of a part of the call. */
static enum pq_status search_part(struct scale_search *s, int part, int parts)
{
    divide_into_groups(s);
    const struct pq_share share = pq_share_of(s->groups.all, part, parts);
    const ptrdiff_t batch = (ptrdiff_t)count_batch_groups(s);
    struct group groups[BATCH_GROUPS];
    for (ptrdiff_t i = share.begin; i < share.end; i += batch) {
        const ptrdiff_t left = share.end - i, many = left < batch ? left : batch;
        size_t at = 0;
        for (ptrdiff_t g = 0; g < many; at += (size_t)groups[g++].size) {
            PQ_REQUIRE(load_group(s, &groups[g], i + g, at), PQ_ERR_NONFINITE);
        }
        search_groups(s, groups, (size_t)many);
    }
    return PQ_OK;
}

enum pq_status pq_search_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *choice,
                                const struct pq_search *search, int part, int parts)
{
    struct pq_args room, own;
    enum { LEAST = offsetof(struct pq_search, count) + sizeof(size_t) };
    struct scale_search s;
    PQ_REQUIRE(search != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_copy_struct(&s.choice, choice, sizeof s.choice, PQ_LEAST_CHOICE));
    PQ_REQUIRE(s.choice.rule != PQ_RULE_ONNX_DYNAMIC, PQ_ERR_OPTION);
    PQ_TRY(pq_check_choosing(&args, &room, PQ_ACCEPTS_NONE, &s.choice, &s.choice, kernels,
                             part, parts));
    PQ_TRY(pq_copy_struct(&s.search, search, sizeof s.search, LEAST));
    s.kernels = kernels;
    s.args = &own;
    s.is_f64 = args->in.type == PQ_F64;
    PQ_TRY(is_weighted(&s) ? pq_check_reals(args, &s.search.weights) : PQ_OK);
    PQ_TRY(check_candidates(&s.search));
    if (pq_is_empty(args)) {
        return pq_choose_params(kernels, args, choice, part, parts);
    }
    own = *args;
    own.out = is_weighted(&s) ? s.search.weights : own.in;
    const pq_fpenv found = pq_fpenv_enter();
    init_search(&s);
    const enum pq_status status = search_part(&s, part, parts);
    pq_fpenv_leave(found);
    return status;
}
