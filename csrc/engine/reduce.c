/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Find the extrema of the elements of each parameter: run the plan of a job without output.
 * A cell has both extrema of one parameter. In a row of the plan, there is one parameter
 * for all elements, for each group, or for each element.
 */
#include "engine/reduce.h"

#include <math.h>

#include "math/fpenv.h"
#include "math/scalar_math.h"

enum {
    BOX_CELLS = PQ_SIZE(512, 32),          /* maximum number of cells in a box */
    SHORT_ROW_ELEMENTS = PQ_SIZE(256, 16), /* maximum number of elements of joined rows */
    FEW_ELEMENTS = 32                      /* fewer float32 elements need no kernel */
};

/* The state of a call. A call divides the cells into boxes of at most BOX_CELLS cells, so
 * that the buffers have a fixed size. All elements of a cell belong to one box. */
struct reduction {
    const struct pq_job *job; /* its plan describes the complete call */
    bool is_f64;              /* the data is float64 */
    size_t few;               /* fewer elements are reduced without a kernel */
    pq_minmax_fn *run;
    pq_minmax_groups_fn *groups;
    pq_minmax_columns_fn *columns;
    bool empty;    /* the array has no elements, but there are parameters */
    bool once;     /* each cell of the box occurs in one row only */
    uint32_t bits; /* at least PQ_INFINITY_BITS if an element is not finite */
    pq_cells_fn *take;
    void *what;
    struct pq_plan box;  /* plan of the box's elements; its strides `scale` count cells */
    struct pq_plan rows; /* plan of the box's cells, with addresses of the parameters */
    union pq_cell_extrema cells; /* extrema of the box */
    union pq_cell_extrema found; /* extrema of one step, merged into `cells` later */
};

/* ---- cells ---- */

static void clear_cells(const struct reduction *reduction, union pq_cell_extrema *cells,
                        size_t n)
{
    pq_clear_extrema(pq_cell_extremum(cells, reduction->is_f64, 0, 0),
                     pq_cell_extremum(cells, reduction->is_f64, 1, 0), reduction->is_f64,
                     n);
}

/* Merge each of the `repeat` rows of `n` extrema in `found` into the cells [to, to + n). */
#define MERGE(type, width)                                                                 \
    for (size_t r = 0; r < repeat; r++) {                                                  \
        type *PQ_RESTRICT lo = reduction->cells.width[0] + to;                             \
        type *PQ_RESTRICT hi = reduction->cells.width[1] + to;                             \
        const type *los = reduction->found.width[0] + r * n,                               \
                   *his = reduction->found.width[1] + r * n;                               \
        for (size_t k = 0; k < n; k++) {                                                   \
            lo[k] = los[k] < lo[k] ? los[k] : lo[k];                                       \
            hi[k] = his[k] > hi[k] ? his[k] : hi[k];                                       \
        }                                                                                  \
    }

static void merge_extrema(struct reduction *reduction, size_t to, size_t n, size_t repeat)
{
    if (reduction->is_f64) {
        MERGE(double, f64)
    } else {
        MERGE(float, f32)
    }
}
#undef MERGE

/* Return the index of the cell for index `i` of the innermost dimension. */
static size_t cell_at(const struct reduction *reduction, struct pq_position at, ptrdiff_t i)
{
    return (size_t)(at.params.scale - reduction->box.params.scale +
                    pq_dim_group(&reduction->box.dim[0], i) * reduction->box.dim[0].scale);
}

/* ---- one row after the other ---- */

/*
 * Define loops for fewer than `few` elements, because calling a kernel would take longer: a
 * loop for a run of one cell, and one for rows of adjacent cells. The sum of v - v detects
 * NaN and infinity, because v - v is 0 only for finite v.
 */
#define SHORT_LOOPS(name, number)                                                          \
    static void run_##name(struct reduction *reduction, size_t cell, const void *x,        \
                           size_t n)                                                       \
    {                                                                                      \
        number lo = reduction->cells.name[0][cell], hi = reduction->cells.name[1][cell];   \
        number v, beyond = 0;                                                              \
        for (size_t i = 0; i < n; i++) {                                                   \
            memcpy(&v, (const char *)x + i * sizeof v, sizeof v);                          \
            lo = v < lo ? v : lo;                                                          \
            hi = v > hi ? v : hi;                                                          \
            beyond += v - v;                                                               \
        }                                                                                  \
        reduction->cells.name[0][cell] = lo;                                               \
        reduction->cells.name[1][cell] = hi;                                               \
        reduction->bits = beyond == 0 ? reduction->bits : PQ_INFINITY_BITS;                \
    }                                                                                      \
                                                                                           \
    static void columns_##name(struct reduction *reduction, size_t cell, const char *x,    \
                               ptrdiff_t stride, size_t rows, size_t n)                    \
    {                                                                                      \
        number *lo = reduction->cells.name[0] + cell,                                      \
               *hi = reduction->cells.name[1] + cell;                                      \
        number v, beyond = 0;                                                              \
        for (size_t r = 0; r < rows; r++, x += stride) {                                   \
            for (size_t i = 0; i < n; i++) {                                               \
                memcpy(&v, x + i * sizeof v, sizeof v);                                    \
                lo[i] = v < lo[i] ? v : lo[i];                                             \
                hi[i] = v > hi[i] ? v : hi[i];                                             \
                beyond += v - v;                                                           \
            }                                                                              \
        }                                                                                  \
        reduction->bits = beyond == 0 ? reduction->bits : PQ_INFINITY_BITS;                \
    }
SHORT_LOOPS(f32, float)
SHORT_LOOPS(f64, double)
#undef SHORT_LOOPS

/* Reduce a run of fewer than `few` elements. */
static void reduce_few(struct reduction *reduction, size_t cell, const char *x, size_t n)
{
    const struct pq_job *const job = reduction->job;
    float room[FEW_ELEMENTS];
    if (reduction->is_f64) {
        run_f64(reduction, cell, x, n);
    } else if (job->in_size == sizeof(float)) {
        run_f32(reduction, cell, x, n);
    } else {
        pq_load_reals_f32(job->kernels, room, x, job->how.run.in, n);
        run_f32(reduction, cell, room, n);
    }
}

/* Reduce the columns of `rows` rows, which have fewer than `few` elements in total. */
static void reduce_few_columns(struct reduction *reduction, size_t cell, const char *x,
                               ptrdiff_t stride, size_t rows, size_t n)
{
    const struct pq_job *const job = reduction->job;
    const size_t size = job->in_size;
    float room[FEW_ELEMENTS];
    if (reduction->is_f64) {
        columns_f64(reduction, cell, x, stride, rows, n);
        return;
    }
    if (size != sizeof(float)) {
        const size_t step = stride == (ptrdiff_t)(n * size) ? rows : 1;
        for (size_t r = 0; r < rows; r += step) {
            pq_load_reals_f32(job->kernels, room + r * n, x + (ptrdiff_t)r * stride,
                              job->how.run.in, step * n);
        }
        x = (const char *)room;
        stride = (ptrdiff_t)(n * sizeof *room);
    }
    columns_f32(reduction, cell, x, stride, rows, n);
}

/* Reduce contiguous elements of one cell. */
static void reduce_run(struct reduction *reduction, size_t cell, const char *x, size_t n)
{
    union pq_cell_extrema *cells = &reduction->cells;
    if (n < reduction->few) {
        reduce_few(reduction, cell, x, n);
        return;
    }
    reduction->run(x, n, pq_cell_extremum(cells, reduction->is_f64, 0, cell),
                   pq_cell_extremum(cells, reduction->is_f64, 1, cell), &reduction->bits);
}

/* Reduce contiguous groups of `g` elements. */
static void reduce_groups(struct reduction *reduction, size_t cell, const char *x,
                          size_t groups, size_t g)
{
    if (groups == 0) {
        return;
    }
    if (groups < PQ_FEW_GROUPS) {
        for (size_t k = 0; k < groups; k++) {
            reduce_run(reduction, cell + k, x + k * g * reduction->job->in_size, g);
        }
        return;
    }
    union pq_cell_extrema *to = reduction->once ? &reduction->cells : &reduction->found;
    const size_t first = reduction->once ? cell : 0;
    reduction->groups(x, groups, g, pq_cell_extremum(to, reduction->is_f64, 0, first),
                      pq_cell_extremum(to, reduction->is_f64, 1, first), &reduction->bits);
    if (!reduction->once) {
        merge_extrema(reduction, cell, groups, 1);
    }
}

/* Reduce contiguous elements [i, i + n) of dim[0]. `i` begins a group, or all `n` elements
 * are in one group. */
static void reduce_elements(struct reduction *reduction, struct pq_position at, ptrdiff_t i,
                            const char *x, ptrdiff_t n)
{
    const struct pq_dim *dim = &reduction->box.dim[0];
    const ptrdiff_t groups = pq_is_uniform(dim) ? 0 : n / dim->group_size;
    const ptrdiff_t most = groups * dim->group_size;
    reduce_groups(reduction, cell_at(reduction, at, i), x, (size_t)groups,
                  (size_t)dim->group_size);
    if (most < n) {
        reduce_run(reduction, cell_at(reduction, at, i + most),
                   x + most * (ptrdiff_t)reduction->job->in_size, (size_t)(n - most));
    }
}

/* Reduce one row. Gather a row that is not contiguous, tile by tile. */
static void reduce_row(void *p, const struct pq_position *at)
{
    struct reduction *reduction = p;
    const struct pq_dim *dim = &reduction->box.dim[0];
    if (!reduction->job->in_swapped && dim->in == (ptrdiff_t)reduction->job->in_size) {
        reduce_elements(reduction, *at, 0, at->in, dim->end);
        return;
    }
    char buffer[PQ_GATHERED_ELEMENTS * sizeof(double)];
    const ptrdiff_t group = pq_is_uniform(dim) ? dim->end : dim->group_size;
    for (ptrdiff_t i = 0; i < dim->end;) {
        ptrdiff_t n = dim->end - i;
        if (group >= PQ_GATHERED_ELEMENTS) {
            const ptrdiff_t left = group - i % group;
            n = left < n ? left : n;
            n = n < PQ_GATHERED_ELEMENTS ? n : PQ_GATHERED_ELEMENTS;
        } else if (n > PQ_GATHERED_ELEMENTS) { /* a tile has complete groups */
            n = PQ_GATHERED_ELEMENTS / group * group;
        }
        const struct pq_tile tile = {
            1, n, 0, dim->in, reduction->job->in_size, reduction->job->in_swapped};
        pq_gather(reduction->job->kernels, buffer, at->in + i * dim->in, &tile);
        reduce_elements(reduction, *at, i, buffer, n);
        i += n;
    }
}

/* ---- columns: element i of each row belongs to cell i ---- */

static void find_column_extrema(struct reduction *reduction, union pq_cell_extrema *to,
                                size_t cell, const char *x, ptrdiff_t stride, size_t rows,
                                size_t n)
{
    reduction->columns(x, stride, rows, n, pq_cell_extremum(to, reduction->is_f64, 0, cell),
                       pq_cell_extremum(to, reduction->is_f64, 1, cell), &reduction->bits);
}

/* Reduce `rows` short contiguous rows, joined to longer rows. */
static void reduce_short_rows(struct reduction *reduction, size_t cell, const char *x,
                              size_t rows, size_t n)
{
    const size_t joined = SHORT_ROW_ELEMENTS / n < rows ? SHORT_ROW_ELEMENTS / n : rows;
    const size_t many = rows / joined, size = reduction->job->in_size;
    const ptrdiff_t stride = (ptrdiff_t)(joined * n * size);
    union pq_cell_extrema *found = &reduction->found;
    clear_cells(reduction, found, joined * n);
    find_column_extrema(reduction, found, 0, x, stride, many, joined * n);
    find_column_extrema(reduction, found, 0, x + (ptrdiff_t)many * stride, stride, 1,
                        rows % joined * n);
    merge_extrema(reduction, cell, n, joined);
}

/* Reduce the columns of `rows` rows. */
static void reduce_columns(struct reduction *reduction, size_t cell, const char *x,
                           ptrdiff_t rows)
{
    const struct pq_dim *dim = &reduction->box.dim[0], *outer = &reduction->box.dim[1];
    const ptrdiff_t n = dim->end;
    if (!reduction->job->in_swapped && dim->in == (ptrdiff_t)reduction->job->in_size) {
        find_column_extrema(reduction, &reduction->cells, cell, x, outer->in, (size_t)rows,
                            (size_t)n);
        return;
    }
    char buffer[PQ_GATHERED_ELEMENTS * sizeof(double)];
    const ptrdiff_t some = PQ_GATHERED_ELEMENTS / n;
    for (ptrdiff_t r = 0; r < rows; r += some) {
        const ptrdiff_t now = rows - r < some ? rows - r : some;
        const struct pq_tile tile = {now,
                                     n,
                                     outer->in,
                                     dim->in,
                                     reduction->job->in_size,
                                     reduction->job->in_swapped};
        pq_gather(reduction->job->kernels, buffer, x + r * outer->in, &tile);
        find_column_extrema(reduction, &reduction->cells, cell, buffer,
                            n * (ptrdiff_t)reduction->job->in_size, (size_t)now, (size_t)n);
    }
}

/* Reduce all rows of dim[1], in groups of rows that share parameters. */
static void reduce_rows(void *p, const struct pq_position *at)
{
    struct reduction *reduction = p;
    const struct pq_dim *dim = &reduction->box.dim[0], *outer = &reduction->box.dim[1];
    const ptrdiff_t size = (ptrdiff_t)reduction->job->in_size;
    const bool contiguous = !reduction->job->in_swapped && dim->in == size;
    const bool narrow =
        contiguous && dim->end <= SHORT_ROW_ELEMENTS / 2 && outer->in == dim->end * size;
    const ptrdiff_t block = pq_is_uniform(outer) ? outer->end : outer->group_size;
    for (ptrdiff_t r = 0; r < outer->end; r += block) {
        const ptrdiff_t rows = outer->end - r < block ? outer->end - r : block;
        const struct pq_position first = pq_position_at(*at, outer, r);
        const size_t cell = cell_at(reduction, first, 0);
        if (contiguous && (size_t)(rows * dim->end) < reduction->few) {
            reduce_few_columns(reduction, cell, first.in, outer->in, (size_t)rows,
                               (size_t)dim->end);
        } else if (narrow) {
            reduce_short_rows(reduction, cell, first.in, (size_t)rows, (size_t)dim->end);
        } else {
            reduce_columns(reduction, cell, first.in, rows);
        }
    }
}

/* ---- boxes ---- */

/* The division of a part into boxes. Along each dimension, the part has the groups
 * [begin, end), a box has up to `step` groups, and the current box begins at group `at`. */
struct cut {
    ptrdiff_t begin[PQ_MAX_NDIM], end[PQ_MAX_NDIM];
    ptrdiff_t step[PQ_MAX_NDIM];
    ptrdiff_t at[PQ_MAX_NDIM];
};

/* Divide the dimension with the most groups into parts, and the part into boxes. Boxes
 * are long in the innermost dimensions. Return false for an empty part. */
static bool make_cut(struct cut *cut, const struct pq_plan *plan, int part, int parts)
{
    int split = 0;
    for (int d = 1; d < plan->ndim; d++) {
        split =
            pq_dim_groups(&plan->dim[d]) >= pq_dim_groups(&plan->dim[split]) ? d : split;
    }
    ptrdiff_t room = BOX_CELLS;
    for (int d = 0; d < plan->ndim; d++) {
        ptrdiff_t groups = pq_dim_groups(&plan->dim[d]), begin = 0;
        if (d == split) {
            const struct pq_share share = pq_share_of(groups, part, parts);
            begin = share.begin;
            groups = share.end - begin;
        }
        if (groups == 0) {
            return false;
        }
        cut->begin[d] = cut->at[d] = begin;
        cut->end[d] = begin + groups;
        cut->step[d] = groups < room ? groups : room;
        room /= cut->step[d];
    }
    return true;
}

static bool next_box(struct cut *cut, int ndim)
{
    for (int d = 0; d < ndim; d++) {
        cut->at[d] += cut->step[d];
        if (cut->at[d] < cut->end[d]) {
            return true;
        }
        cut->at[d] = cut->begin[d];
    }
    return false;
}

/* Set `box` and `rows` for the current box. Return the number of its cells. */
static size_t enter_box(struct reduction *reduction, const struct cut *cut)
{
    const struct pq_plan *plan = &reduction->job->plan;
    struct pq_plan *box = &reduction->box, *rows = &reduction->rows;
    struct pq_position at = pq_position_start(plan);
    ptrdiff_t count = 1;
    box->ndim = 0;
    rows->ndim = 0;
    reduction->once = true;
    for (int d = 0; d < plan->ndim; d++) {
        struct pq_dim dim = plan->dim[d];
        if (!pq_is_uniform(&dim)) {
            const ptrdiff_t left = cut->end[d] - cut->at[d],
                            first = cut->at[d] * dim.group_size;
            const ptrdiff_t groups = cut->step[d] < left ? cut->step[d] : left;
            const ptrdiff_t most = groups * dim.group_size, rest = dim.end - first;
            at = pq_position_at(at, &dim, first);
            if (groups > 1) {
                rows->dim[rows->ndim++] = (struct pq_dim){.end = groups,
                                                          .in = count,
                                                          .group_size = 1,
                                                          .scale = dim.scale,
                                                          .zero = dim.zero};
            }
            dim.end = most < rest ? most : rest;
            dim.group_size = groups > 1 ? dim.group_size : 1;
            dim.scale = groups > 1 ? count : 0;
            dim.zero = 0;
            count *= groups;
        }
        if (dim.end > 1) {
            reduction->once &=
                box->ndim == 0 || (!pq_is_uniform(&dim) && dim.group_size == 1);
            box->dim[box->ndim++] = dim;
        }
    }
    pq_merge_dims(rows);
    pq_pad_dims(box);
    pq_pad_dims(rows);
    box->in = at.in;
    rows->params = at.params;
    return (size_t)count;
}

/* Set both extrema of a cell to NaN if an element of the cell is NaN. */
static void mark_nan_cells(void *p, const struct pq_position *at)
{
    struct reduction *reduction = p;
    const struct pq_dim *dim = &reduction->box.dim[0];
    struct pq_params from = {at->in, 0, reduction->job->how.run.in,
                             reduction->job->in_swapped};
    for (ptrdiff_t i = 0; i < dim->end; i++, from.data += dim->in) {
        double v;
        pq_load_scales_f64(&v, &from, 1, 0);
        if (v != v) {
            const size_t cell = cell_at(reduction, *at, i);
            for (int k = 0; k < 2; k++) {
                if (reduction->is_f64) {
                    reduction->cells.f64[k][cell] = (double)NAN;
                } else {
                    reduction->cells.f32[k][cell] = (float)NAN;
                }
            }
        }
    }
}

static void pass_row_of_cells(void *p, const struct pq_position *at)
{
    struct reduction *reduction = p;
    const struct pq_dim *dim = &reduction->rows.dim[0];
    const size_t first = (size_t)(at->in - reduction->rows.in);
    const struct pq_cells row = {
        .n = (size_t)dim->end,
        .lowest = pq_cell_extremum(&reduction->cells, reduction->is_f64, 0, first),
        .highest = pq_cell_extremum(&reduction->cells, reduction->is_f64, 1, first),
        /* The plan has const pointers to the caller's arrays, which are outputs here. */
        .scale = (char *)(uintptr_t)at->params.scale,
        .zero = (char *)(uintptr_t)at->params.zero,
        .scale_stride = dim->scale,
        .zero_stride = dim->zero,
    };
    reduction->take(reduction->what, &row);
}

/* Find the extrema of all boxes, and pass them to `take`. Return false after the first box
 * with an element that is not finite. With `all_numbers`, infinities are accepted, and NaN
 * makes the extrema of its cell NaN. */
static bool reduce_boxes(struct reduction *reduction, struct cut *cut, bool all_numbers)
{
    const struct pq_dim *const dim = &reduction->box.dim[0];
    do {
        clear_cells(reduction, &reduction->cells, enter_box(reduction, cut));
        const bool by_columns = !pq_is_uniform(dim) && dim->group_size == 1;
        if (!reduction->empty) {
            pq_for_each_row(&reduction->box, by_columns ? 2 : 1,
                            by_columns ? reduce_rows : reduce_row, reduction);
        }
        if (reduction->bits >= PQ_INFINITY_BITS) {
            if (!all_numbers) {
                return false;
            }
            pq_for_each_row(&reduction->box, 1, mark_nan_cells, reduction);
            reduction->bits = 0;
        }
        pq_for_each_row(&reduction->rows, 1, pass_row_of_cells, reduction);
    } while (next_box(cut, reduction->job->plan.ndim));
    return true;
}

/* Store the extents for the plan in `shape`. An extent of 0 becomes 1 and sets `empty`. If
 * the dimension selects parameters, there are no parameters, so return false instead. */
static bool has_parameters(const struct pq_args *args, ptrdiff_t *shape, bool *empty)
{
    for (int d = 0; d < args->ndim; d++) {
        shape[d] = args->shape[d];
        if (shape[d] == 0) {
            if (args->scale.strides[d] != 0 || args->zero.strides[d] != 0) {
                return false;
            }
            shape[d] = 1;
            *empty = true;
        }
    }
    return true;
}

enum pq_status pq_find_extrema(void *context, const struct pq_kernels *kernels,
                               const struct pq_args *args, bool all_numbers,
                               pq_cells_fn *take, void *what, int part, int parts)
{
    (void)context;
    ptrdiff_t shape[PQ_MAX_NDIM];
    struct pq_args planned = *args;
    struct pq_job job;
    struct reduction reduction;
    struct cut cut;
    job.how = pq_no_method;
    job.how.run.in = args->in.type;
    reduction.job = &job;
    reduction.is_f64 = args->in.type == PQ_F64;
    reduction.empty = false;
    reduction.bits = 0;
    reduction.take = take;
    reduction.what = what;
    reduction.box.params.scale = reduction.box.params.zero = reduction.box.params.offset =
        (const char *)&reduction.cells; /* the address of cell 0; it is never read */
    reduction.rows.in = reduction.box.params.scale;
    reduction.box.out = reduction.rows.out = NULL;
    planned.shape = shape;
    planned.out = (struct pq_array){.data = NULL};
    if (!has_parameters(args, shape, &reduction.empty)) {
        return PQ_OK;
    }
    const enum pq_status status = pq_job_init(&job, kernels, &planned);
    if (status != PQ_OK || !make_cut(&cut, &job.plan, part, parts)) {
        return status;
    }
    const int row = pq_extrema_row(args->in.type);
    reduction.few = reduction.is_f64 ? FEW_ELEMENTS / 2 : FEW_ELEMENTS;
    reduction.run = kernels->minmax[row];
    reduction.groups = kernels->minmax_groups[row];
    reduction.columns = kernels->minmax_columns[row];
    const pq_fpenv found = pq_fpenv_enter();
    const bool all = reduce_boxes(&reduction, &cut, all_numbers);
    pq_fpenv_leave(found);
    return all ? PQ_OK : PQ_ERR_NONFINITE;
}
