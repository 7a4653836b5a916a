/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of requantize: areas of elements, each with the places of its parameters. */
#include <string.h>

#include "engine/tile.h"
#include "engine/walk.h"
#include "ops/requantize.h"

enum {
    PIECE = PQ_SIZE(16384, 256), /* elements of a run that a kernel accepts or rejects */
    SHORT = 32, /* groups of fewer elements have parameters for each element */
    FEWER = 64  /* columns of a tile where one side is transposed */
};

/* ---- runs ---- */

/* The parameters of successive elements start at `place`. Each group of `group` elements
 * has one place. With `each`, the elements of every group have successive places. */
struct spread {
    size_t place, group;
    int each;
};

#define LOAD(bits, type)                                                                   \
    case bits: {                                                                           \
        type v;                                                                            \
        memcpy(&v, x, sizeof v);                                                           \
        return (int64_t)v;                                                                 \
    }

PQ_INLINE int64_t load_element(const char *x, enum pq_type in)
{
    switch (in) {
        LOAD(PQ_I8, int8_t)
        LOAD(PQ_U8, uint8_t)
        LOAD(PQ_I16, int16_t)
        LOAD(PQ_U16, uint16_t)
        LOAD(PQ_I32, int32_t)
        LOAD(PQ_U32, uint32_t)
        LOAD(PQ_I64, int64_t)
    default:
        return 0;
    }
}
#undef LOAD

PQ_INLINE void store_element(char *y, size_t size, int64_t v)
{
    const uint8_t v8 = (uint8_t)v;
    const uint16_t v16 = (uint16_t)v;
    const uint32_t v32 = (uint32_t)v;
    if (size == 1) {
        memcpy(y, &v8, sizeof v8);
    } else if (size == 2) {
        memcpy(y, &v16, sizeof v16);
    } else {
        memcpy(y, &v32, sizeof v32);
    }
}

/* One element after the other, by the definition. */
PQ_NOINLINE void run_each(const struct pq_requantize_job *job, const char *x, char *y,
                          size_t n, struct spread spread)
{
    const struct pq_requantization *const args = job->args;
    const enum pq_arithmetic arithmetic = args->arithmetic;
    const size_t in = pq_bytes_of(args->in.type), out = pq_bytes_of(args->out.type);
    const int64_t lowest = job->how.lowest, highest = job->how.highest;
    const size_t step = spread.each != 0;
    size_t place = spread.place, left = spread.group;
    for (size_t i = 0; i < n; i++, left--, place += step) {
        if (left == 0) {
            place = spread.each ? spread.place : place + 1;
            left = spread.group;
        }
        const int64_t v = pq_sum_of(load_element(x + i * in, args->in.type),
                                    args->input_zero, job->prepared.given_bias[place]);
        int64_t r = pq_is_fixed(arithmetic)
                        ? pq_fixed_product(v, arithmetic, job->prepared.given[place])
                        : pq_float_product(v, job->prepared.r[place], lowest, highest);
        r = r > lowest ? r : lowest;
        r = r < highest ? r : highest;
        store_element(y + i * out, out, r + args->zero);
    }
}

/* Convert elements to int32. Return false if int32 cannot hold all of them. */
#define WIDEN(type)                                                                        \
    {                                                                                      \
        int64_t beyond = 0;                                                                \
        for (size_t i = 0; i < n; i++) {                                                   \
            type v;                                                                        \
            memcpy(&v, x + i * sizeof v, sizeof v);                                        \
            to[i] = (int32_t)(uint32_t)v;                                                  \
            beyond |= (int64_t)v ^ to[i];                                                  \
        }                                                                                  \
        return beyond == 0;                                                                \
    }

PQ_NOINLINE bool widen(int32_t *PQ_RESTRICT to, const char *PQ_RESTRICT x,
                       enum pq_type type, size_t n)
{
    switch (type) {
    case PQ_I8:
        WIDEN(int8_t)
    case PQ_U8:
        WIDEN(uint8_t)
    case PQ_I16:
        WIDEN(int16_t)
    case PQ_U16:
        WIDEN(uint16_t)
    case PQ_U32:
        WIDEN(uint32_t)
    default:
        WIDEN(int64_t)
    }
}
#undef WIDEN

PQ_NOINLINE bool run_kernel(const struct pq_requantize_job *job,
                            const struct pq_requantize_run *how, const char *x, char *y,
                            size_t n)
{
    int32_t wide[PQ_PARAMS];
    const enum pq_type type = job->args->in.type;
    if (type == PQ_I32) {
        return job->kernels->requantize(how, x, y, n) != 0;
    }
    return widen(wide, x, type, n) && job->kernels->requantize(how, wide, y, n) != 0;
}

/* Elements that follow each other: of one group, or of groups of no more than PQ_PARAMS,
 * all of a kind. */
PQ_NOINLINE void run_row(const struct pq_requantize_job *job, const char *x, char *y,
                         size_t n, struct spread spread)
{
    const struct pq_requantize_params *const all = &job->prepared;
    const size_t in = pq_bytes_of(job->args->in.type);
    const size_t out = pq_bytes_of(job->args->out.type);
    struct pq_requantize_run how = job->how;
    how.each = spread.each;
    how.group = spread.group;
    if (how.kind == PQ_REQUANTIZE_NONE && !spread.each) { /* of all places together */
        pq_summarize_params(&how, job, spread.place, (n - 1) / spread.group + 1);
    }
    const bool sure = how.least_bias == 0 && how.most_bias == 0;
    const size_t least = job->args->in.type != PQ_I32 ? PQ_PARAMS : sure ? n : PIECE;
    const size_t most = spread.group < least ? least / spread.group * spread.group : least;
    for (size_t done = 0, m; done < n; done += m) {
        const size_t place = spread.place + (spread.each ? 0 : done / spread.group);
        const struct spread rest = {place, spread.group, spread.each};
        m = n - done < most ? n - done : most;
        how.r = all->r + place;
        how.bias = all->bias + place;
        how.most = all->most + place;
        how.left = all->left + place;
        how.m = all->m + place;
        how.half = all->half + place;
        how.right = all->right + place;
        if (how.kind == PQ_REQUANTIZE_NONE ||
            !run_kernel(job, &how, x + done * in, y + done * out, m)) {
            run_each(job, x + done * in, y + done * out, m, rest);
        }
    }
}

/* An area of dimensions 0 and 1. It has at most PQ_PARAMS elements, unless both sides are
 * contiguous. */
struct area {
    ptrdiff_t row, rows, column, columns;
};

PQ_NOINLINE void run_area(struct pq_requantize_job *job, struct pq_position at,
                          struct area area, struct spread spread)
{
    const struct pq_requantization *const args = job->args;
    const struct pq_dim *const dim = job->plan.dim;
    const struct pq_tile in = {area.rows,
                               area.columns,
                               dim[1].in,
                               dim[0].in,
                               pq_bytes_of(args->in.type),
                               args->in.swapped && pq_bytes_of(args->in.type) > 1};
    const struct pq_tile out = {area.rows,
                                area.columns,
                                dim[1].out,
                                dim[0].out,
                                pq_bytes_of(args->out.type),
                                args->out.swapped && pq_bytes_of(args->out.type) > 1};
    char from[PQ_PARAMS * sizeof(int64_t)], to[PQ_PARAMS * sizeof(int32_t)];
    const char *x = at.in + area.row * dim[1].in + area.column * dim[0].in;
    char *const y = at.out + area.row * dim[1].out + area.column * dim[0].out;
    if (!pq_tile_direct(&in)) {
        pq_gather(job->kernels, from, x, &in);
        x = from;
    }
    char *const result = pq_tile_direct(&out) ? y : to;
    run_row(job, x, result, (size_t)(area.rows * area.columns), spread);
    if (result != y) {
        pq_scatter(job->kernels, y, to, &out);
    }
}

/* ---- the walk ---- */

static ptrdiff_t channel_of(const struct pq_requantize_job *job, const char *at)
{
    return job->lead == NULL ? 0 : (at - (const char *)job->lead->data) / job->lead->stride;
}

static struct pq_along channels_along(const struct pq_requantize_job *job,
                                      struct pq_position at, const struct pq_dim *dim)
{
    const ptrdiff_t first = channel_of(job, at.scale);
    const ptrdiff_t step = dim->scale == 0 ? 0 : dim->scale / job->lead->stride;
    return (struct pq_along){first, step, dim->group_size};
}

static ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

PQ_NOINLINE bool is_contiguous(const struct pq_requantize_job *job)
{
    const struct pq_dim *const dim = job->plan.dim;
    const struct pq_array *const in = &job->args->in, *const out = &job->args->out;
    const bool swapped = (in->swapped && pq_bytes_of(in->type) > 1) ||
                         (out->swapped && pq_bytes_of(out->type) > 1);
    return !swapped && dim[0].in == (ptrdiff_t)pq_bytes_of(in->type) &&
           dim[0].out == (ptrdiff_t)pq_bytes_of(out->type);
}

/* Columns of an area under one pair of parameters. */
PQ_NOINLINE ptrdiff_t columns_at_once(const struct pq_requantize_job *job)
{
    const struct pq_dim *const dim = job->plan.dim;
    const bool has_shorter_stride =
        dim[1].end - dim[1].begin > 1 && pq_magnitude(dim[1].in) < pq_magnitude(dim[0].in);
    return is_contiguous(job) ? PTRDIFF_MAX : has_shorter_stride ? FEWER : PQ_PARAMS;
}

/* Rows and columns that share the parameters at a place. */
PQ_NOINLINE void run_same(struct pq_requantize_job *job, struct pq_position at,
                          struct area all, size_t place)
{
    const ptrdiff_t most = smaller(columns_at_once(job), all.columns);
    const ptrdiff_t rows = most < PQ_PARAMS ? PQ_PARAMS / most : 1;
    struct area area;
    for (ptrdiff_t c = 0; c < all.columns; c += most) {
        area.column = all.column + c;
        area.columns = smaller(all.columns - c, most);
        for (ptrdiff_t r = 0; r < all.rows; r += rows) {
            area.row = all.row + r;
            area.rows = smaller(all.rows - r, rows);
            run_area(job, at, area,
                     (struct spread){place, (size_t)(area.rows * area.columns), 0});
        }
    }
}

/* Contiguous groups of a row from a place on, whole ones: as many as are of a kind. */
static void run_full_groups(struct pq_requantize_job *job, struct pq_position at,
                            struct area area, size_t place, ptrdiff_t block)
{
    const unsigned char *const kind = job->prepared.kind;
    const size_t groups = (size_t)(area.columns / block);
    for (size_t done = 0, count; done < groups; done += count) {
        const struct spread spread = {place + done, (size_t)block, 0};
        count = job->how.kind == PQ_REQUANTIZE_NONE ? 1 : groups;
        for (; done + count < groups; count++) {
            if (kind[spread.place + count] != kind[spread.place]) {
                break;
            }
        }
        area.columns = (ptrdiff_t)count * block;
        run_area(job, at, area, spread);
        area.column += area.columns;
    }
}

/* Groups of dimension 0 are long enough. */
static void run_groups(struct pq_requantize_job *job, struct pq_position at,
                       struct pq_along along)
{
    const struct pq_dim *const dim = job->plan.dim;
    const ptrdiff_t block = along.group_size, last = (dim[0].end - 1) / block;
    const bool many = is_contiguous(job) && block <= PQ_PARAMS &&
                      dim[0].begin % block == 0 && dim[0].end % block == 0;
    for (ptrdiff_t group = dim[0].begin / block; group <= last; group += PQ_PARAMS) {
        const ptrdiff_t groups = smaller(PQ_PARAMS, last - group + 1);
        pq_load_group_params(job, along, group, groups);
        for (ptrdiff_t r = dim[1].begin; r < dim[1].end; r++) {
            if (many) {
                const struct area all = {r, 1, group * block, groups * block};
                run_full_groups(job, at, all, 0, block);
            }
            for (ptrdiff_t g = group; !many && g < group + groups; g++) {
                const ptrdiff_t from = g * block;
                const ptrdiff_t begin = from > dim[0].begin ? from : dim[0].begin;
                const ptrdiff_t end = smaller(from + block, dim[0].end);
                const struct area all = {r, 1, begin, end - begin};
                run_same(job, at, all, (size_t)(g - group));
            }
        }
    }
}

/* Dimension 0 selects no parameters; dimension 1 may, which then has rows for groups. */
static void run_uniform(struct pq_requantize_job *job, struct pq_position at)
{
    const struct pq_dim *const dim = job->plan.dim;
    const struct pq_along along = channels_along(job, at, &dim[1]);
    const ptrdiff_t columns = dim[0].end - dim[0].begin;
    if (along.step == 0) {
        const struct area all = {dim[1].begin, dim[1].end - dim[1].begin, dim[0].begin,
                                 columns};
        pq_load_group_params(job, along, 0, 1);
        run_same(job, at, all, 0);
        return;
    }
    for (ptrdiff_t r = dim[1].begin; r < dim[1].end;) {
        const ptrdiff_t group = r / along.group_size;
        const ptrdiff_t groups =
            smaller(PQ_PARAMS, (dim[1].end - 1) / along.group_size - group + 1);
        pq_load_group_params(job, along, group, groups);
        for (ptrdiff_t g = 0; g < groups; g++) {
            const ptrdiff_t end = smaller((group + g + 1) * along.group_size, dim[1].end);
            const struct area all = {r, end - r, dim[0].begin, columns};
            run_same(job, at, all, (size_t)g);
            r = end;
        }
    }
}

/* Whether rows follow each other on both sides. */
static bool is_dense(const struct pq_requantize_job *job)
{
    const struct pq_dim *const dim = job->plan.dim;
    const ptrdiff_t columns = dim[0].end - dim[0].begin;
    return is_contiguous(job) && dim[1].in == columns * dim[0].in &&
           dim[1].out == columns * dim[0].out;
}

/* They are not, or channels are the elements themselves. */
static void run_elements(struct pq_requantize_job *job, struct pq_position at,
                         struct pq_along along)
{
    const struct pq_dim *const dim = job->plan.dim;
    const ptrdiff_t most = smaller(columns_at_once(job), PQ_PARAMS);
    const ptrdiff_t all = dim[0].end - dim[0].begin, count = dim[1].end - dim[1].begin;
    struct area area;
    for (area.column = dim[0].begin; area.column < dim[0].end;
         area.column += area.columns) {
        area.columns = smaller(smaller(most, all), dim[0].end - area.column);
        const ptrdiff_t rows = smaller(PQ_PARAMS / area.columns, count);
        const struct spread spread = {0, (size_t)(area.columns * rows), 1};
        const ptrdiff_t step = area.columns == all && is_dense(job) ? count : rows;
        pq_load_element_params(job, along, area.column, area.columns, rows);
        for (area.row = dim[1].begin; area.row < dim[1].end; area.row += area.rows) {
            area.rows = smaller(dim[1].end - area.row, step);
            run_area(job, at, area, spread);
        }
    }
}

static void visit(void *p, struct pq_position at)
{
    struct pq_requantize_job *const job = p;
    const struct pq_dim *const dim = job->plan.dim;
    if (dim[0].scale == 0) {
        run_uniform(job, at);
        return;
    }
    const struct pq_along along = channels_along(job, at, &dim[0]);
    if (along.group_size >= SHORT) {
        run_groups(job, at, along);
    } else {
        run_elements(job, at, along);
    }
}

void pq_requantize_all(struct pq_requantize_job *job)
{
    pq_for_each_row(&job->plan, 2, visit, job);
}
