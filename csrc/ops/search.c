/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters by the errors they make: each of a grid of ranges is tried on all elements of
 * a group, and the scale that fits the best codes. Groups know nothing of each other.
 */
#include <math.h>

#include "../args.h"
#include "../fpenv.h"
#include "../narrow_float.h"
#include "../params.h"
#include "../reduce.h"
#include "../run.h"
#include "../scalar_math.h"
#include "../sweep.h"

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

struct hunt {
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

static const char *take(struct hunt *hunt, struct pq_sweep *sweep, enum pq_type type,
                        enum pq_type as, double *room, size_t n)
{
    if (type == as) {
        return pq_sweep_next(sweep, n, room);
    }
    const struct pq_params from = {pq_sweep_next(sweep, n, hunt->raw),
                                   (ptrdiff_t)sweep->size, type, false};
    if (as == PQ_F64) {
        pq_load_scales_f64(room, &from, n, 0);
    } else {
        pq_load_scales_f32((float *)(void *)room, &from, n);
    }
    return (const char *)room;
}

static bool is_weighted(const struct hunt *hunt)
{
    return hunt->search->weights.data != NULL;
}

/* The next ones, to the rooms from `at` on, unless they can be read where they lie. */
PQ_NOINLINE void take_elements(struct hunt *hunt, size_t n, size_t at)
{
    double *const w_room = hunt->w_room + at;
    hunt->x = take(hunt, &hunt->data, hunt->args->in.type, hunt->wide ? PQ_F64 : PQ_F32,
                   hunt->x_room + at, n);
    if (is_weighted(hunt)) {
        hunt->w = take(hunt, &hunt->weights, hunt->search->weights.type, PQ_F64, w_room, n);
        if ((uintptr_t)hunt->w % sizeof(double) != 0) {
            hunt->w = memmove(w_room, hunt->w, n * sizeof(double));
        }
    }
}

/* Walk over the elements of the group, those of one piece where they have been taken. */
typedef void piece_fn(struct hunt *hunt, void *what, size_t n);

PQ_NOINLINE void walk(struct hunt *hunt, const struct group *group, piece_fn *visit,
                      void *what)
{
    hunt->group = group;
    if (group->size <= PIECE) {
        hunt->x = group->x;
        hunt->w = group->w;
        visit(hunt, what, (size_t)group->size);
        return;
    }
    pq_sweep_seek(&hunt->data, 0);
    if (is_weighted(hunt)) {
        pq_sweep_seek(&hunt->weights, 0);
    }
    for (ptrdiff_t i = 0; i < group->size; i += PIECE) {
        const size_t n = (size_t)(group->size - i < PIECE ? group->size - i : PIECE);
        take_elements(hunt, n, 0);
        visit(hunt, what, n);
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

static void merge_extrema(struct hunt *hunt, void *what, size_t n)
{
    struct ends *const ends = what;
    if (hunt->wide) {
        hunt->kernels->minmax[PQ_F64_ROW](hunt->x, n, ends->of.wide, ends->of.wide + 1,
                                          &ends->bits);
    } else {
        hunt->kernels->minmax[PQ_F32_ROW](hunt->x, n, ends->of.single, ends->of.single + 1,
                                          &ends->bits);
    }
}

/* Whether all elements are finite. */
static bool find_extrema(struct hunt *hunt, struct group *group)
{
    struct ends ends = {.bits = 0};
    for (int k = 0; k < 2; k++) {
        const double none = k == 0 ? HUGE_VAL : -HUGE_VAL;
        if (hunt->wide) {
            ends.of.wide[k] = none;
        } else {
            ends.of.single[k] = (float)none;
        }
    }
    walk(hunt, group, merge_extrema, &ends);
    for (int k = 0; k < 2; k++) {
        group->range[k] = hunt->wide ? ends.of.wide[k] : (double)ends.of.single[k];
    }
    return ends.bits < NOT_FINITE;
}

/* ---- a batch of candidates ---- */

static double scale_at(const struct hunt *hunt, const struct batch *batch, size_t j)
{
    const enum pq_type type = hunt->choice.scale;
    const struct pq_params from = {(const char *)batch->scale + j * pq_bytes_of(type), 0,
                                   type, false};
    double scale;
    pq_load_scales_f64(&scale, &from, 1, !hunt->wide);
    return scale;
}

static const char *zero_place(const struct hunt *hunt, const struct batch *batch, size_t j)
{
    return (const char *)batch->zero + j * pq_bytes_of(hunt->zero_type);
}

/* As the kernel of grids takes them. */
static void load_grid(const struct hunt *hunt, struct batch *batch, size_t n)
{
    const enum pq_type type = hunt->choice.scale;
    const struct pq_params scales = {(const char *)batch->scale,
                                     (ptrdiff_t)pq_bytes_of(type), type, false};
    const struct pq_params zeros = {(const char *)batch->zero,
                                    (ptrdiff_t)pq_bytes_of(hunt->zero_type),
                                    hunt->zero_type, false};
    const float lo = (float)hunt->range.lo, hi = (float)hunt->range.hi;
    int32_t zero[BATCH];
    pq_load_scales_f32(batch->single, &scales, n);
    pq_load_zeros_i32(zero, &zeros, n);
    for (size_t j = 0; j < n; j++) {
        batch->lo[j] = lo - (float)zero[j];
        batch->hi[j] = hi - (float)zero[j];
    }
}

static struct pq_grid grid_of(const struct hunt *hunt, const struct trial *trial)
{
    const struct batch *const batch = trial->batch;
    const struct group *const group = hunt->group;
    return (struct pq_grid){.count = trial->count,
                            .scale = batch->single + trial->first,
                            .lo = batch->lo + trial->first,
                            .hi = batch->hi + trial->first,
                            .lowest = (float)group->range[0],
                            .highest = (float)group->range[1],
                            .whole = group->size <= PIECE,
                            .narrow = pq_bits_of(hunt->choice.code) <= 8};
}

static const double *weights_of(const struct hunt *hunt)
{
    return (const double *)(const void *)hunt->w;
}

static const double *given_weights(const struct hunt *hunt)
{
    return is_weighted(hunt) ? weights_of(hunt) : NULL;
}

static void try_grid(struct hunt *hunt, void *what, size_t n)
{
    const struct trial *const trial = what;
    const struct pq_grid grid = grid_of(hunt, trial);
    hunt->kernels->sums->grid(&grid, hunt->x, given_weights(hunt), n,
                              trial->batch->sum + trial->first);
}

/* Quantize and dequantize a piece, the latter with another scale. */
PQ_NOINLINE void go_and_come(struct hunt *hunt, const struct batch *batch, size_t j,
                             size_t n, const double *by)
{
    static const ptrdiff_t none = 0;
    const enum pq_type real = hunt->wide ? PQ_F64 : PQ_F32, code = hunt->choice.code;
    const ptrdiff_t shape = (ptrdiff_t)n, number = (ptrdiff_t)pq_bytes_of(real);
    const ptrdiff_t byte = (ptrdiff_t)pq_bytes_of(code);
    double scale = scale_at(hunt, batch, j);
    struct pq_args args = {.size = sizeof args, .ndim = 1, .shape = &shape};
    args.in = (struct pq_array){(void *)(uintptr_t)hunt->x, &number, real, 0, NULL};
    args.out = (struct pq_array){hunt->raw, &byte, code, 0, NULL};
    args.scale = (struct pq_array){&scale, &none, PQ_F64, 0, NULL};
    args.zero = (struct pq_array){(void *)(uintptr_t)zero_place(hunt, batch, j), &none,
                                  hunt->zero_type, 0, NULL};
    args.lowest_code = hunt->choice.lowest_code;
    args.highest_code = hunt->choice.highest_code;
    if (!pq_is_integer(code)) {
        args.zero.data = NULL;
    }
    pq_quantize_run(hunt->kernels, &args);
    args.in = args.out;
    args.out = (struct pq_array){hunt->y_room, &number, real, 0, NULL};
    args.lowest_code = args.highest_code = 0;
    scale = by == NULL ? scale : *by;
    pq_dequantize_run(hunt->kernels, &args);
}

static void try_each(struct hunt *hunt, void *what, size_t n)
{
    const struct trial *const trial = what;
    for (size_t j = trial->first; j < trial->first + trial->count; j++) {
        go_and_come(hunt, trial->batch, j, n, NULL);
        trial->batch->sum[j] += hunt->kernels->sums->squares[hunt->wide](
            hunt->x, hunt->y_room, weights_of(hunt), n, hunt->group->unit);
    }
}

static void try_all(struct hunt *hunt, const struct group *group, struct trial *trial)
{
    memset(trial->batch->sum + trial->first, 0, trial->count * sizeof(double));
    walk(hunt, group, hunt->integers ? try_grid : try_each, trial);
}

/* ---- the scale that fits ---- */

static void fit_grid(struct hunt *hunt, void *what, size_t n)
{
    const struct trial *const trial = what;
    const struct pq_grid grid = grid_of(hunt, trial);
    hunt->kernels->sums->fit_codes(&grid, hunt->x, weights_of(hunt), n, trial->batch->sum);
}

static void fit_each(struct hunt *hunt, void *what, size_t n)
{
    const struct trial *const trial = what;
    const double one = 1;
    go_and_come(hunt, trial->batch, 0, n, &one);
    hunt->kernels->sums->fit[hunt->wide](hunt->x, hunt->y_room, weights_of(hunt), n,
                                         trial->batch->sum);
}

/* Nearest, half to even; false where there is none. Powers of two are not worth it. */
PQ_RARE bool put_scale(const struct hunt *hunt, struct batch *batch, double scale)
{
    const float single = (float)scale;
    uint16_t half;
    uint8_t byte;
    switch (hunt->choice.scale) {
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
    const double stored = scale_at(hunt, batch, 0);
    return stored > 0 && stored < HUGE_VAL;
}

static void take_best(const struct hunt *hunt, struct best *best, const struct trial *trial)
{
    const struct batch *const batch = trial->batch;
    const size_t scale = pq_bytes_of(hunt->choice.scale);
    const size_t zero = pq_bytes_of(hunt->zero_type);
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
static void fit_best(struct hunt *hunt, struct group *group, struct batch *batch)
{
    struct trial trial = {batch, 0, 1};
    batch->scale[0] = group->best.scale;
    batch->zero[0] = group->best.zero;
    batch->sum[0] = batch->sum[1] = 0;
    load_grid(hunt, batch, 1);
    walk(hunt, group, hunt->integers ? fit_grid : fit_each, &trial);
    if (batch->sum[1] > 0 && put_scale(hunt, batch, batch->sum[0] / batch->sum[1])) {
        load_grid(hunt, batch, 1);
        try_all(hunt, group, &trial);
        take_best(hunt, &group->best, &trial);
    }
}

/* ---- groups ---- */

/* Choose for `n` candidates of each of the groups. */
PQ_NOINLINE void fill_batch(const struct hunt *hunt, struct batch *batch,
                            const struct group *groups, size_t many, size_t first, size_t n)
{
    double lo[BATCH], hi[BATCH];
    for (size_t g = 0, k = 0; g < many; g++) {
        for (size_t j = first; j < first + n; j++, k++) {
            lo[k] = groups[g].range[0] * hunt->factors[j];
            hi[k] = groups[g].range[1] * hunt->factors[j];
            if (!hunt->wide) {
                lo[k] = (double)(float)lo[k];
                hi[k] = (double)(float)hi[k];
            }
        }
    }
    pq_choose_by(hunt->kernels, &hunt->choice, many * n, lo, hi, batch->scale, batch->zero);
    load_grid(hunt, batch, many * n);
}

/* A power of two, so that squares are neither too large nor too small. */
static double unit_of(const struct hunt *hunt, const double *range)
{
    int exponent = 0;
    if (!hunt->wide) {
        return 1;
    }
    frexp(range[1] > -range[0] ? range[1] : -range[0], &exponent);
    exponent = exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
    return ldexp(1, -exponent);
}

static void search_groups(struct hunt *hunt, struct group *groups, size_t many)
{
    struct batch batch;
    const size_t most = BATCH / many;
    for (size_t first = 0; first < hunt->count; first += most) {
        const size_t n = hunt->count - first < most ? hunt->count - first : most;
        fill_batch(hunt, &batch, groups, many, first, n);
        for (size_t g = 0; g < many; g++) {
            struct trial trial = {&batch, g * n, n};
            try_all(hunt, &groups[g], &trial);
            take_best(hunt, &groups[g].best, &trial);
        }
    }
    for (size_t g = 0; g < many; g++) {
        if (hunt->choice.like != PQ_LIKE_QUARK_PO2) { /* whose scales are powers of two */
            fit_best(hunt, &groups[g], &batch);
        }
        memcpy(groups[g].scale, &groups[g].best.scale, pq_bytes_of(hunt->choice.scale));
        memcpy(groups[g].zero, &groups[g].best.zero, pq_bytes_of(hunt->zero_type));
    }
}

static void enter(struct hunt *hunt, struct pq_sweep *sweep, const struct pq_array *array,
                  const ptrdiff_t *first)
{
    const int ndim = hunt->args->ndim;
    const char *at = array->data;
    for (int d = 0; d < ndim; d++) {
        at += first[d] * array->strides[d];
    }
    pq_sweep_init(sweep, hunt->kernels, array, at, ndim, hunt->extent, array->strides);
}

/* Elements of a group along a dimension, but for the last one. */
static ptrdiff_t block_of(const struct hunt *hunt, int d)
{
    const struct pq_args *const args = hunt->args;
    return hunt->groups[d] == 1 ? args->shape[d] : args->block != NULL ? args->block[d] : 1;
}

/* The group of this number, its elements in the rooms from `at` on. Whether all of them are
 * finite. */
static bool enter_group(struct hunt *hunt, struct group *group, ptrdiff_t number, size_t at)
{
    const struct pq_args *const args = hunt->args;
    ptrdiff_t first[PQ_MAX_NDIM], scale = 0, zero = 0;
    group->size = 1;
    for (int d = args->ndim - 1; d >= 0; d--) {
        const ptrdiff_t i = number % hunt->groups[d], block = block_of(hunt, d);
        number /= hunt->groups[d];
        first[d] = i * block;
        hunt->extent[d] =
            args->shape[d] - first[d] < block ? args->shape[d] - first[d] : block;
        group->size *= hunt->extent[d];
        scale += i * args->scale.strides[d];
        zero += i * args->zero.strides[d];
    }
    group->scale = (char *)args->scale.data + scale;
    group->zero = (char *)args->zero.data + zero;
    group->best.any = false;
    enter(hunt, &hunt->data, &args->in, first);
    if (is_weighted(hunt)) {
        enter(hunt, &hunt->weights, &hunt->search->weights, first);
    }
    if (group->size <= PIECE) {
        take_elements(hunt, (size_t)group->size, at);
        group->x = hunt->x;
        group->w = hunt->w;
    }
    const bool finite = find_extrema(hunt, group);
    group->unit = unit_of(hunt, group->range);
    return finite;
}

/* Returns how many groups there are. */
PQ_RARE ptrdiff_t count_groups(struct hunt *hunt)
{
    const struct pq_args *const args = hunt->args;
    ptrdiff_t count = 1;
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t block = args->block != NULL ? args->block[d] : 1;
        const bool selects = args->scale.strides[d] != 0 || args->zero.strides[d] != 0;
        hunt->groups[d] = selects ? (args->shape[d] - 1) / block + 1 : 1;
        count *= hunt->groups[d];
    }
    return count;
}

/* ---- calls ---- */

PQ_RARE void set_up(struct hunt *hunt)
{
    const enum pq_type code = hunt->choice.code;
    const struct pq_choice *const choice = &hunt->choice;
    hunt->range = choice->lowest_code != 0 || choice->highest_code != 0
                      ? (struct pq_range){choice->lowest_code, choice->highest_code}
                      : pq_range_of(code);
    hunt->zero_type = pq_is_integer(code) ? pq_carrier_of(code) : PQ_I8;
    hunt->integers = pq_is_integer(code) && pq_bits_of(code) <= 16 && !hunt->wide;
    for (int j = 0; j < USUAL; j++) {
        hunt->factor[j] = 1 - j / 100.0;
    }
    const double *const given = hunt->search->candidates;
    hunt->factors = given != NULL ? given : hunt->factor;
    hunt->count = given != NULL ? hunt->search->count : USUAL;
    hunt->w = (const char *)hunt->w_room;
    for (int i = 0; i < PIECE && !is_weighted(hunt); i++) {
        hunt->w_room[i] = 1;
    }
}

/* What pq_choose() will be asked. */
PQ_RARE enum pq_status check_choice(struct hunt *hunt, const struct pq_choice *given)
{
    const struct pq_args *const args = hunt->args;
    const void *known = given;
    const double none = 0;
    uint64_t result;
    enum pq_status status =
        pq_known_struct(&known, &hunt->choice, sizeof hunt->choice,
                        offsetof(struct pq_choice, rule) + sizeof(enum pq_rule));
    if (status != PQ_OK) {
        return status;
    }
    memmove(&hunt->choice, known, sizeof hunt->choice);
    if (hunt->choice.rule == PQ_RULE_ONNX_DYNAMIC) {
        return PQ_ERR_OPTION;
    }
    if (hunt->choice.real == PQ_NO_TYPE) {
        hunt->choice.real = args->in.type;
    }
    if (hunt->choice.code == PQ_NO_TYPE) {
        hunt->choice.code = PQ_I8;
    }
    if (hunt->choice.scale == PQ_NO_TYPE) {
        hunt->choice.scale = hunt->wide ? PQ_F64 : PQ_F32;
    }
    status = pq_choose(&hunt->choice, 0, &none, &none, &result, &result);
    if (status != PQ_OK) {
        return status;
    }
    set_up(hunt);
    const bool fits =
        hunt->choice.real == args->in.type && args->scale.type == hunt->choice.scale &&
        !args->scale.swapped &&
        (args->zero.type == hunt->choice.code || args->zero.type == hunt->zero_type) &&
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
static size_t count_together(const struct hunt *hunt)
{
    size_t size = 1, many = GROUPS;
    for (int d = 0; d < hunt->args->ndim && size <= PIECE; d++) {
        size *= (size_t)block_of(hunt, d);
    }
    many = PIECE / size < many ? PIECE / size : many;
    many = BATCH / hunt->count < many ? BATCH / hunt->count : many;
    return many > 0 ? many : 1;
}

/* A share of the groups. */
static enum pq_status search_part(struct hunt *hunt, int part, int parts)
{
    const ptrdiff_t count = count_groups(hunt), share = count / parts, rest = count % parts;
    const ptrdiff_t begin = share * part + (part < rest ? part : rest);
    const ptrdiff_t end = begin + share + (part < rest ? 1 : 0);
    const ptrdiff_t together = (ptrdiff_t)count_together(hunt);
    struct group groups[GROUPS];
    for (ptrdiff_t i = begin; i < end; i += together) {
        const ptrdiff_t many = end - i < together ? end - i : together;
        size_t at = 0;
        for (ptrdiff_t g = 0; g < many; at += (size_t)groups[g++].size) {
            if (!enter_group(hunt, &groups[g], i + g, at)) {
                return PQ_ERR_NONFINITE;
            }
        }
        search_groups(hunt, groups, (size_t)many);
    }
    return PQ_OK;
}

enum pq_status pq_search_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *choice,
                                const struct pq_search *search, int part, int parts)
{
    struct pq_args room;
    struct pq_search search_room;
    struct hunt hunt;
    const void *known = search;
    if (choice == NULL || search == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = pq_check_search(kernels, args, &args->scale, &args->zero, part, parts);
    }
    if (status == PQ_OK) {
        status = pq_known_struct(&known, &search_room, sizeof search_room,
                                 offsetof(struct pq_search, count) + sizeof(size_t));
    }
    if (status != PQ_OK) {
        return status;
    }
    hunt.kernels = kernels;
    hunt.args = args;
    hunt.search = known;
    hunt.wide = args->in.type == PQ_F64;
    bool is_empty = false;
    for (int d = 0; d < args->ndim; d++) {
        is_empty = is_empty || args->shape[d] == 0;
    }
    const pq_fpenv found = pq_fpenv_enter();
    status = check_weights(args, &hunt.search->weights);
    if (status == PQ_OK) {
        status = check_candidates(hunt.search);
    }
    if (status == PQ_OK) {
        status = check_choice(&hunt, choice);
    }
    if (status == PQ_OK) {
        status = is_empty ? pq_choose_params(kernels, args, choice, part, parts)
                          : search_part(&hunt, part, parts);
    }
    pq_fpenv_leave(found);
    return status;
}
