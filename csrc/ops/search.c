/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters by the errors they make: each of a grid of ranges is tried on all elements of
 * a group, and the scale that fits the best codes. Groups know nothing of each other.
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

enum {
    PIECE = PQ_SUM_PIECE, /* elements that are computed at a time */
    BATCH = 256,          /* scales that are chosen at a time */
    GROUPS = 32,          /* groups of which they are, where a piece holds as many */
    USUAL = 20,           /* candidates where none are given */
    NOT_FINITE = 0x7f800000
};

/* Scales and zero points to be tried, and their sums. */
struct batch {
    /* Bytes, one after the other, of scales and zero points as they are stored. */
    double scale[BATCH];
    uint32_t zero[BATCH];
    double sum[BATCH];
    /* As the kernel of grids takes them, see struct pq_grid. */
    float single[BATCH], lo[BATCH], hi[BATCH];
};

/* Those of a batch that are for one group. */
struct trial {
    struct batch *batch;
    size_t first, count;
};

/* The best so far, with its bytes. */
struct best {
    double sum, scale;
    uint32_t zero;
    bool any;
};

struct group {
    const char *x, *w; /* all elements, where a piece holds them */
    char *scale, *zero;
    double range[2];
    double unit; /* of errors of float64 */
    struct best best;
    ptrdiff_t size;
};

struct scale_search {
    const struct pq_kernels *kernels;
    const struct pq_args *args;
    const struct pq_search *search;
    struct pq_choice choice;
    bool wide;     /* float64, else float32 */
    bool integers; /* that the kernel of grids takes */
    struct pq_range range;
    enum pq_type zero_type;
    ptrdiff_t groups[PQ_MAX_NDIM], extent[PQ_MAX_NDIM];
    const struct group *group; /* the one at hand */
    const char *x, *w;         /* of which the first elements are here */
    struct pq_sweep data, weights;
    double x_room[PIECE], w_room[PIECE], y_room[PIECE];
    char raw[PIECE * sizeof(double)]; /* elements, or codes */
    double factor[USUAL];
    const double *factors; /* candidates */
    size_t count;
};

/* ---- elements ---- */

static const char *take(struct scale_search *scale_search, struct pq_sweep *sweep,
                        enum pq_type type, enum pq_type as, double *room, size_t n)
{
    if (type == as) {
        return pq_sweep_next(sweep, n, room);
    }
    const struct pq_params from = {pq_sweep_next(sweep, n, scale_search->raw),
                                   (ptrdiff_t)sweep->size, type, false};
    if (as == PQ_F64) {
        pq_load_scales_f64(room, &from, n, 0);
    } else {
        pq_load_scales_f32((float *)(void *)room, &from, n);
    }
    return (const char *)room;
}

static bool is_weighted(const struct scale_search *scale_search)
{
    return scale_search->search->weights.data != NULL;
}

/* The next ones, to the rooms from `at` on, unless they can be read where they lie. */
PQ_NOINLINE void take_elements(struct scale_search *scale_search, size_t n, size_t at)
{
    double *const w_room = scale_search->w_room + at;
    scale_search->x =
        take(scale_search, &scale_search->data, scale_search->args->in.type,
             scale_search->wide ? PQ_F64 : PQ_F32, scale_search->x_room + at, n);
    if (is_weighted(scale_search)) {
        scale_search->w = take(scale_search, &scale_search->weights,
                               scale_search->search->weights.type, PQ_F64, w_room, n);
        if ((uintptr_t)scale_search->w % sizeof(double) != 0) {
            scale_search->w = memmove(w_room, scale_search->w, n * sizeof(double));
        }
    }
}

/* Walk over the elements of the group, those of one piece where they have been taken. */
typedef void piece_fn(struct scale_search *scale_search, void *what, size_t n);

PQ_NOINLINE void walk(struct scale_search *scale_search, const struct group *group,
                      piece_fn *visit, void *what)
{
    scale_search->group = group;
    if (group->size <= PIECE) {
        scale_search->x = group->x;
        scale_search->w = group->w;
        visit(scale_search, what, (size_t)group->size);
        return;
    }
    pq_sweep_seek(&scale_search->data, 0);
    if (is_weighted(scale_search)) {
        pq_sweep_seek(&scale_search->weights, 0);
    }
    for (ptrdiff_t i = 0; i < group->size; i += PIECE) {
        const size_t n = (size_t)(group->size - i < PIECE ? group->size - i : PIECE);
        take_elements(scale_search, n, 0);
        visit(scale_search, what, n);
    }
}

/* ---- extrema ---- */

struct ends {
    union {
        float single[2];
        double wide[2];
    } of;
    uint32_t bits;
};

static void merge_extrema(struct scale_search *scale_search, void *what, size_t n)
{
    struct ends *const ends = what;
    if (scale_search->wide) {
        scale_search->kernels->minmax[PQ_F64_ROW](scale_search->x, n, ends->of.wide,
                                                  ends->of.wide + 1, &ends->bits);
    } else {
        scale_search->kernels->minmax[PQ_F32_ROW](scale_search->x, n, ends->of.single,
                                                  ends->of.single + 1, &ends->bits);
    }
}

/* Whether all elements are finite. */
static bool find_extrema(struct scale_search *scale_search, struct group *group)
{
    struct ends ends = {.bits = 0};
    for (int k = 0; k < 2; k++) {
        const double none = k == 0 ? HUGE_VAL : -HUGE_VAL;
        if (scale_search->wide) {
            ends.of.wide[k] = none;
        } else {
            ends.of.single[k] = (float)none;
        }
    }
    walk(scale_search, group, merge_extrema, &ends);
    for (int k = 0; k < 2; k++) {
        group->range[k] = scale_search->wide ? ends.of.wide[k] : (double)ends.of.single[k];
    }
    return ends.bits < NOT_FINITE;
}

/* ---- a batch of candidates ---- */

static double scale_at(const struct scale_search *scale_search, const struct batch *batch,
                       size_t j)
{
    const enum pq_type type = scale_search->choice.scale;
    const struct pq_params from = {(const char *)batch->scale + j * pq_bytes_of(type), 0,
                                   type, false};
    double scale;
    pq_load_scales_f64(&scale, &from, 1, !scale_search->wide);
    return scale;
}

static const char *zero_place(const struct scale_search *scale_search,
                              const struct batch *batch, size_t j)
{
    return (const char *)batch->zero + j * pq_bytes_of(scale_search->zero_type);
}

/* As the kernel of grids takes them. */
static void load_grid(const struct scale_search *scale_search, struct batch *batch,
                      size_t n)
{
    const enum pq_type type = scale_search->choice.scale;
    const struct pq_params scales = {(const char *)batch->scale,
                                     (ptrdiff_t)pq_bytes_of(type), type, false};
    const struct pq_params zeros = {(const char *)batch->zero,
                                    (ptrdiff_t)pq_bytes_of(scale_search->zero_type),
                                    scale_search->zero_type, false};
    const float lo = (float)scale_search->range.lo, hi = (float)scale_search->range.hi;
    int32_t zero[BATCH];
    pq_load_scales_f32(batch->single, &scales, n);
    pq_load_zeros_i32(zero, &zeros, n);
    for (size_t j = 0; j < n; j++) {
        batch->lo[j] = lo - (float)zero[j];
        batch->hi[j] = hi - (float)zero[j];
    }
}

static struct pq_grid grid_of(const struct scale_search *scale_search,
                              const struct trial *trial)
{
    const struct batch *const batch = trial->batch;
    const struct group *const group = scale_search->group;
    return (struct pq_grid){.count = trial->count,
                            .scale = batch->single + trial->first,
                            .lo = batch->lo + trial->first,
                            .hi = batch->hi + trial->first,
                            .lowest = (float)group->range[0],
                            .highest = (float)group->range[1],
                            .whole = group->size <= PIECE,
                            .narrow = pq_bits_of(scale_search->choice.code) <= 8};
}

static const double *weights_of(const struct scale_search *scale_search)
{
    return (const double *)(const void *)scale_search->w;
}

static const double *given_weights(const struct scale_search *scale_search)
{
    return is_weighted(scale_search) ? weights_of(scale_search) : NULL;
}

static void try_grid(struct scale_search *scale_search, void *what, size_t n)
{
    const struct trial *const trial = what;
    const struct pq_grid grid = grid_of(scale_search, trial);
    scale_search->kernels->sums->grid(&grid, scale_search->x, given_weights(scale_search),
                                      n, trial->batch->sum + trial->first);
}

/* Quantize and dequantize a piece, the latter with another scale. */
PQ_NOINLINE void round_trip(struct scale_search *scale_search, const struct batch *batch,
                            size_t j, size_t n, const double *by)
{
    static const ptrdiff_t none = 0;
    const enum pq_type real = scale_search->wide ? PQ_F64 : PQ_F32,
                       code = scale_search->choice.code;
    const ptrdiff_t shape = (ptrdiff_t)n, number = (ptrdiff_t)pq_bytes_of(real);
    const ptrdiff_t byte = (ptrdiff_t)pq_bytes_of(code);
    double scale = scale_at(scale_search, batch, j);
    struct pq_args args = {.size = sizeof args, .ndim = 1, .shape = &shape};
    args.in = (struct pq_array){(void *)(uintptr_t)scale_search->x, &number, real, 0, NULL};
    args.out = (struct pq_array){scale_search->raw, &byte, code, 0, NULL};
    args.scale = (struct pq_array){&scale, &none, PQ_F64, 0, NULL};
    args.zero = (struct pq_array){(void *)(uintptr_t)zero_place(scale_search, batch, j),
                                  &none, scale_search->zero_type, 0, NULL};
    args.lowest_code = scale_search->choice.lowest_code;
    args.highest_code = scale_search->choice.highest_code;
    if (!pq_is_integer(code)) {
        args.zero.data = NULL;
    }
    pq_quantize_run(scale_search->kernels, &args);
    args.in = args.out;
    args.out = (struct pq_array){scale_search->y_room, &number, real, 0, NULL};
    args.lowest_code = args.highest_code = 0;
    scale = by == NULL ? scale : *by;
    pq_dequantize_run(scale_search->kernels, &args);
}

static void try_each(struct scale_search *scale_search, void *what, size_t n)
{
    const struct trial *const trial = what;
    for (size_t j = trial->first; j < trial->first + trial->count; j++) {
        round_trip(scale_search, trial->batch, j, n, NULL);
        trial->batch->sum[j] += scale_search->kernels->sums->squares[scale_search->wide](
            scale_search->x, scale_search->y_room, weights_of(scale_search), n,
            scale_search->group->unit);
    }
}

static void try_all(struct scale_search *scale_search, const struct group *group,
                    struct trial *trial)
{
    memset(trial->batch->sum + trial->first, 0, trial->count * sizeof(double));
    walk(scale_search, group, scale_search->integers ? try_grid : try_each, trial);
}

/* ---- the scale that fits ---- */

static void fit_grid(struct scale_search *scale_search, void *what, size_t n)
{
    const struct trial *const trial = what;
    const struct pq_grid grid = grid_of(scale_search, trial);
    scale_search->kernels->sums->fit_codes(&grid, scale_search->x, weights_of(scale_search),
                                           n, trial->batch->sum);
}

static void fit_each(struct scale_search *scale_search, void *what, size_t n)
{
    const struct trial *const trial = what;
    const double one = 1;
    round_trip(scale_search, trial->batch, 0, n, &one);
    scale_search->kernels->sums->fit[scale_search->wide](
        scale_search->x, scale_search->y_room, weights_of(scale_search), n,
        trial->batch->sum);
}

/* Nearest, half to even; false where there is none. Powers of two are not worth it. */
PQ_RARE bool put_scale(const struct scale_search *scale_search, struct batch *batch,
                       double scale)
{
    const float single = (float)scale;
    uint16_t half;
    uint8_t byte;
    switch (scale_search->choice.scale) {
    case PQ_F64:
        memcpy(batch->scale, &scale, sizeof scale);
        break;
    case PQ_F32:
        memcpy(batch->scale, &single, sizeof single);
        break;
    case PQ_F16:
        half = pq_f16_from_f32(single);
        memcpy(batch->scale, &half, sizeof half);
        break;
    case PQ_BF16:
        half = pq_bf16_from_f32(single);
        memcpy(batch->scale, &half, sizeof half);
        break;
    case PQ_F8E4M3FN:
        byte = pq_encode(single, PQ_F8E4M3FN, false);
        memcpy(batch->scale, &byte, sizeof byte);
        break;
    default:
        return false;
    }
    const double stored = scale_at(scale_search, batch, 0);
    return stored > 0 && stored < HUGE_VAL;
}

static void take_best(const struct scale_search *scale_search, struct best *best,
                      const struct trial *trial)
{
    const struct batch *const batch = trial->batch;
    const size_t scale = pq_bytes_of(scale_search->choice.scale);
    const size_t zero = pq_bytes_of(scale_search->zero_type);
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

/* By least squares, kept where the sum falls. */
static void fit_best(struct scale_search *scale_search, struct group *group,
                     struct batch *batch)
{
    struct trial trial = {batch, 0, 1};
    batch->scale[0] = group->best.scale;
    batch->zero[0] = group->best.zero;
    batch->sum[0] = batch->sum[1] = 0;
    load_grid(scale_search, batch, 1);
    walk(scale_search, group, scale_search->integers ? fit_grid : fit_each, &trial);
    if (batch->sum[1] > 0 &&
        put_scale(scale_search, batch, batch->sum[0] / batch->sum[1])) {
        load_grid(scale_search, batch, 1);
        try_all(scale_search, group, &trial);
        take_best(scale_search, &group->best, &trial);
    }
}

/* ---- groups ---- */

/* Choose for `n` candidates of each of the groups. */
PQ_NOINLINE void fill_batch(const struct scale_search *scale_search, struct batch *batch,
                            const struct group *groups, size_t many, size_t first, size_t n)
{
    double lo[BATCH], hi[BATCH];
    for (size_t g = 0, k = 0; g < many; g++) {
        for (size_t j = first; j < first + n; j++, k++) {
            lo[k] = groups[g].range[0] * scale_search->factors[j];
            hi[k] = groups[g].range[1] * scale_search->factors[j];
            if (!scale_search->wide) {
                lo[k] = (double)(float)lo[k];
                hi[k] = (double)(float)hi[k];
            }
        }
    }
    pq_choose_by(scale_search->kernels, &scale_search->choice, many * n, lo, hi,
                 batch->scale, batch->zero);
    load_grid(scale_search, batch, many * n);
}

/* A power of two, so that squares are neither too large nor too small. */
static double unit_of(const struct scale_search *scale_search, const double *range)
{
    int exponent = 0;
    if (!scale_search->wide) {
        return 1;
    }
    frexp(range[1] > -range[0] ? range[1] : -range[0], &exponent);
    exponent = exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
    return ldexp(1, -exponent);
}

static void search_groups(struct scale_search *scale_search, struct group *groups,
                          size_t many)
{
    struct batch batch;
    const size_t most = BATCH / many;
    for (size_t first = 0; first < scale_search->count; first += most) {
        const size_t n =
            scale_search->count - first < most ? scale_search->count - first : most;
        fill_batch(scale_search, &batch, groups, many, first, n);
        for (size_t g = 0; g < many; g++) {
            struct trial trial = {&batch, g * n, n};
            try_all(scale_search, &groups[g], &trial);
            take_best(scale_search, &groups[g].best, &trial);
        }
    }
    for (size_t g = 0; g < many; g++) {
        if (scale_search->choice.like !=
            PQ_LIKE_QUARK_PO2) { /* whose scales are powers of two */
            fit_best(scale_search, &groups[g], &batch);
        }
        memcpy(groups[g].scale, &groups[g].best.scale,
               pq_bytes_of(scale_search->choice.scale));
        memcpy(groups[g].zero, &groups[g].best.zero, pq_bytes_of(scale_search->zero_type));
    }
}

static void enter(struct scale_search *scale_search, struct pq_sweep *sweep,
                  const struct pq_array *array, const ptrdiff_t *first)
{
    const int ndim = scale_search->args->ndim;
    const char *at = array->data;
    for (int d = 0; d < ndim; d++) {
        at += first[d] * array->strides[d];
    }
    pq_sweep_init(sweep, scale_search->kernels, array, at, ndim, scale_search->extent,
                  array->strides);
}

/* Elements of a group along a dimension, but for the last one. */
static ptrdiff_t block_of(const struct scale_search *scale_search, int d)
{
    const struct pq_args *const args = scale_search->args;
    return scale_search->groups[d] == 1 ? args->shape[d]
           : args->block != NULL        ? args->block[d]
                                        : 1;
}

/* The group of this number, its elements in the rooms from `at` on. Whether all of them are
 * finite. */
static bool enter_group(struct scale_search *scale_search, struct group *group,
                        ptrdiff_t number, size_t at)
{
    const struct pq_args *const args = scale_search->args;
    ptrdiff_t first[PQ_MAX_NDIM], scale = 0, zero = 0;
    group->size = 1;
    for (int d = args->ndim - 1; d >= 0; d--) {
        const ptrdiff_t i = number % scale_search->groups[d],
                        block = block_of(scale_search, d);
        number /= scale_search->groups[d];
        first[d] = i * block;
        scale_search->extent[d] =
            args->shape[d] - first[d] < block ? args->shape[d] - first[d] : block;
        group->size *= scale_search->extent[d];
        scale += i * args->scale.strides[d];
        zero += i * args->zero.strides[d];
    }
    group->scale = (char *)args->scale.data + scale;
    group->zero = (char *)args->zero.data + zero;
    group->best.any = false;
    enter(scale_search, &scale_search->data, &args->in, first);
    if (is_weighted(scale_search)) {
        enter(scale_search, &scale_search->weights, &scale_search->search->weights, first);
    }
    if (group->size <= PIECE) {
        take_elements(scale_search, (size_t)group->size, at);
        group->x = scale_search->x;
        group->w = scale_search->w;
    }
    const bool finite = find_extrema(scale_search, group);
    group->unit = unit_of(scale_search, group->range);
    return finite;
}

/* Returns how many groups there are. */
PQ_RARE ptrdiff_t count_groups(struct scale_search *scale_search)
{
    const struct pq_args *const args = scale_search->args;
    ptrdiff_t count = 1;
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t block = args->block != NULL ? args->block[d] : 1;
        const bool selects = args->scale.strides[d] != 0 || args->zero.strides[d] != 0;
        scale_search->groups[d] = selects ? (args->shape[d] - 1) / block + 1 : 1;
        count *= scale_search->groups[d];
    }
    return count;
}

/* ---- calls ---- */

PQ_RARE void set_up(struct scale_search *scale_search)
{
    const enum pq_type code = scale_search->choice.code;
    const struct pq_choice *const choice = &scale_search->choice;
    scale_search->range = choice->lowest_code != 0 || choice->highest_code != 0
                              ? (struct pq_range){choice->lowest_code, choice->highest_code}
                              : pq_range_of(code);
    scale_search->zero_type = pq_is_integer(code) ? pq_carrier_of(code) : PQ_I8;
    scale_search->integers =
        pq_is_integer(code) && pq_bits_of(code) <= 16 && !scale_search->wide;
    for (int j = 0; j < USUAL; j++) {
        scale_search->factor[j] = 1 - j / 100.0;
    }
    const double *const given = scale_search->search->candidates;
    scale_search->factors = given != NULL ? given : scale_search->factor;
    scale_search->count = given != NULL ? scale_search->search->count : USUAL;
    scale_search->w = (const char *)scale_search->w_room;
    for (int i = 0; i < PIECE && !is_weighted(scale_search); i++) {
        scale_search->w_room[i] = 1;
    }
}

/* What pq_choose() will be asked. */
PQ_RARE enum pq_status check_choice(struct scale_search *scale_search,
                                    const struct pq_choice *given)
{
    const struct pq_args *const args = scale_search->args;
    const void *known = given;
    const double none = 0;
    uint64_t result;
    enum pq_status status =
        pq_known_struct(&known, &scale_search->choice, sizeof scale_search->choice,
                        offsetof(struct pq_choice, rule) + sizeof(enum pq_rule));
    if (status != PQ_OK) {
        return status;
    }
    memmove(&scale_search->choice, known, sizeof scale_search->choice);
    if (scale_search->choice.rule == PQ_RULE_ONNX_DYNAMIC) {
        return PQ_ERR_OPTION;
    }
    if (scale_search->choice.real == PQ_NO_TYPE) {
        scale_search->choice.real = args->in.type;
    }
    if (scale_search->choice.code == PQ_NO_TYPE) {
        scale_search->choice.code = PQ_I8;
    }
    if (scale_search->choice.scale == PQ_NO_TYPE) {
        scale_search->choice.scale = scale_search->wide ? PQ_F64 : PQ_F32;
    }
    status = pq_choose(&scale_search->choice, 0, &none, &none, &result, &result);
    if (status != PQ_OK) {
        return status;
    }
    set_up(scale_search);
    const bool fits = scale_search->choice.real == args->in.type &&
                      args->scale.type == scale_search->choice.scale &&
                      !args->scale.swapped &&
                      (args->zero.type == scale_search->choice.code ||
                       args->zero.type == scale_search->zero_type) &&
                      !args->zero.swapped;
    return fits ? PQ_OK : PQ_ERR_TYPE;
}

PQ_RARE enum pq_status check_weights(const struct pq_args *args,
                                     const struct pq_array *weights)
{
    if (weights->data == NULL) {
        return PQ_OK;
    }
    const enum pq_status status = pq_check_array(args, weights, false);
    if (status != PQ_OK) {
        return status;
    }
    return pq_is_real(weights->type) && weights->bit_strides == NULL ? PQ_OK : PQ_ERR_TYPE;
}

PQ_RARE enum pq_status check_candidates(const struct pq_search *search)
{
    const size_t count = search->candidates != NULL ? search->count : 0;
    if (search->candidates != NULL && count == 0) {
        return PQ_ERR_OPTION;
    }
    for (size_t j = 0; j < count; j++) {
        if (!(search->candidates[j] > 0 && search->candidates[j] <= 1)) {
            return PQ_ERR_OPTION;
        }
    }
    return PQ_OK;
}

/* How many groups are searched together: a piece holds their elements, and a batch their
 * candidates. */
static size_t count_together(const struct scale_search *scale_search)
{
    size_t size = 1, many = GROUPS;
    for (int d = 0; d < scale_search->args->ndim && size <= PIECE; d++) {
        size *= (size_t)block_of(scale_search, d);
    }
    many = PIECE / size < many ? PIECE / size : many;
    many = BATCH / scale_search->count < many ? BATCH / scale_search->count : many;
    return many > 0 ? many : 1;
}

/* A share of the groups. */
static enum pq_status search_part(struct scale_search *scale_search, int part, int parts)
{
    const ptrdiff_t count = count_groups(scale_search), share = count / parts,
                    rest = count % parts;
    const ptrdiff_t begin = share * part + (part < rest ? part : rest);
    const ptrdiff_t end = begin + share + (part < rest ? 1 : 0);
    const ptrdiff_t together = (ptrdiff_t)count_together(scale_search);
    struct group groups[GROUPS];
    for (ptrdiff_t i = begin; i < end; i += together) {
        const ptrdiff_t many = end - i < together ? end - i : together;
        size_t at = 0;
        for (ptrdiff_t g = 0; g < many; at += (size_t)groups[g++].size) {
            if (!enter_group(scale_search, &groups[g], i + g, at)) {
                return PQ_ERR_NONFINITE;
            }
        }
        search_groups(scale_search, groups, (size_t)many);
    }
    return PQ_OK;
}

enum pq_status pq_search_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *choice,
                                const struct pq_search *search, int part, int parts)
{
    struct pq_args room;
    struct pq_search search_room;
    struct scale_search scale_search;
    const void *known = search;
    if (choice == NULL || search == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = pq_check_reduction(kernels, args, &args->scale, &args->zero, part, parts);
    }
    if (status == PQ_OK) {
        status = pq_known_struct(&known, &search_room, sizeof search_room,
                                 offsetof(struct pq_search, count) + sizeof(size_t));
    }
    if (status != PQ_OK) {
        return status;
    }
    scale_search.kernels = kernels;
    scale_search.args = args;
    scale_search.search = known;
    scale_search.wide = args->in.type == PQ_F64;
    bool is_empty = false;
    for (int d = 0; d < args->ndim; d++) {
        is_empty = is_empty || args->shape[d] == 0;
    }
    const pq_fpenv found = pq_fpenv_enter();
    status = check_weights(args, &scale_search.search->weights);
    if (status == PQ_OK) {
        status = check_candidates(scale_search.search);
    }
    if (status == PQ_OK) {
        status = check_choice(&scale_search, choice);
    }
    if (status == PQ_OK) {
        status = is_empty ? pq_choose_params(kernels, args, choice, part, parts)
                          : search_part(&scale_search, part, parts);
    }
    pq_fpenv_leave(found);
    return status;
}
