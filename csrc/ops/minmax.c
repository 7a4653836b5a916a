/* SPDX-License-Identifier: Apache-2.0 */
/* From arrays to extrema. */
#include "ops/minmax.h"

#include <math.h>

#include "args.h"
#include "fpenv.h"
#include "kernels.h"
#include "params.h"
#include "types.h"
#include "walk.h"

enum {
    TILE = 1024, /* elements gathered at a time */
    CELLS = 512, /* parameters whose extrema are looked for at a time */
    NARROW = 256 /* fewer columns are not worth a row of their own */
};

/* Extrema: [0] the lowest, [1] the highest. Float32 of what has kernels, which are float32
 * exactly. */
union cells {
    float single[2][CELLS];
    double wide[2][CELLS];
};

/*
 * The parameters are cut into boxes of at most CELLS, each with all of its elements: how
 * many there are decides nothing about what has to be kept.
 */
struct job {
    const struct pq_kernels *kernels;
    enum pq_type type;
    int row; /* of the kernels; none for float64 */
    ptrdiff_t size;
    bool swapped;
    bool empty;       /* there are parameters, but no elements */
    bool once;        /* no cell of the box is met twice */
    uint32_t bits;    /* at least 0x7f800000: not finite */
    uint64_t carried; /* the same where the sign is set */
    pq_take_cells_fn *take;
    void *what;
    struct pq_plan whole; /* with the parameters as they lie */
    struct pq_plan box;   /* whose scales are cells, counted from its own */
    struct pq_plan rows;  /* of cells, counted likewise, and their parameters */
    union cells cells;    /* of the box */
    union cells found;    /* to be merged into them */
};

/* ---- float64 ---- */

static double lesser(double v, double than)
{
    return v < than ? v : than;
}

static double greater(double v, double than)
{
    return v > than ? v : than;
}

/* An exponent of ones carries into the sign. */
static uint64_t carry(double v)
{
    return (pq_bits_f64(v) & ~(UINT64_C(1) << 63)) + (UINT64_C(1) << 52);
}

/* Rows of `n` elements that begin `stride` bytes apart, merged for each column. */
PQ_NOINLINE uint64_t columns_f64(const char *x, ptrdiff_t stride, size_t rows, size_t n,
                                 double *PQ_RESTRICT lo, double *PQ_RESTRICT hi)
{
    uint64_t carried = 0;
    for (size_t r = 0; r < rows; r++) {
        const char *PQ_RESTRICT row = x + (ptrdiff_t)r * stride;
        for (size_t i = 0; i < n; i++) {
            double v;
            memcpy(&v, row + i * sizeof v, sizeof v);
            lo[i] = v < lo[i] ? v : lo[i];
            hi[i] = v > hi[i] ? v : hi[i];
            carried |= carry(v);
        }
    }
    return carried;
}

/* Contiguous elements; many of them as columns. */
enum { CHAINS = 64 };

static uint64_t run_f64(const char *x, size_t n, double *lo, double *hi)
{
    uint64_t carried = 0;
    double v, los[CHAINS], his[CHAINS];
    if (n >= 4 * CHAINS) {
        const ptrdiff_t stride = CHAINS * sizeof v;
        const size_t rows = n / CHAINS;
        for (int k = 0; k < CHAINS; k++) {
            los[k] = *lo;
            his[k] = *hi;
        }
        carried = columns_f64(x, stride, rows, CHAINS, los, his);
        for (int k = 0; k < CHAINS; k++) {
            *lo = lesser(los[k], *lo);
            *hi = greater(his[k], *hi);
        }
        x += (ptrdiff_t)rows * stride;
        n -= rows * CHAINS;
    }
    double lo0 = *lo, lo1 = lo0, hi0 = *hi, hi1 = hi0;
    size_t i = 0;
    for (; i + 2 <= n; i += 2) { /* two chains */
        double w;
        memcpy(&v, x + i * sizeof v, sizeof v);
        memcpy(&w, x + (i + 1) * sizeof v, sizeof w);
        lo0 = lesser(v, lo0);
        hi0 = greater(v, hi0);
        lo1 = lesser(w, lo1);
        hi1 = greater(w, hi1);
        carried |= carry(v) | carry(w);
    }
    if (i < n) {
        memcpy(&v, x + i * sizeof v, sizeof v);
        lo0 = lesser(v, lo0);
        hi0 = greater(v, hi0);
        carried |= carry(v);
    }
    *lo = lesser(lo1, lo0);
    *hi = greater(hi1, hi0);
    return carried;
}

/* ---- cells ---- */

static void set_none(const struct job *job, union cells *cells, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        if (job->row >= 0) {
            cells->single[0][k] = INFINITY;
            cells->single[1][k] = -INFINITY;
        } else {
            cells->wide[0][k] = HUGE_VAL;
            cells->wide[1][k] = -HUGE_VAL;
        }
    }
}

/* Merge what was found of `n` cells, `repeat` times, into those from `to` on. */
#define MERGE(type, width)                                                                 \
    for (size_t r = 0; r < repeat; r++) {                                                  \
        type *PQ_RESTRICT lo = job->cells.width[0] + to;                                   \
        type *PQ_RESTRICT hi = job->cells.width[1] + to;                                   \
        const type *los = job->found.width[0] + r * n, *his = job->found.width[1] + r * n; \
        for (size_t k = 0; k < n; k++) {                                                   \
            lo[k] = los[k] < lo[k] ? los[k] : lo[k];                                       \
            hi[k] = his[k] > hi[k] ? his[k] : hi[k];                                       \
        }                                                                                  \
    }

static void merge_found(struct job *job, size_t to, size_t n, size_t repeat)
{
    if (job->row >= 0) {
        MERGE(float, single)
    } else {
        MERGE(double, wide)
    }
}
#undef MERGE

/* The cell of index `i` of the innermost dimension. */
static size_t cell_at(const struct job *job, struct pq_cursor at, ptrdiff_t i)
{
    return (size_t)(at.scale - job->box.scale + pq_dim_scale(&job->box.dim[0], i));
}

/* ---- one row after the other ---- */

/* Contiguous elements, all of one cell. */
static void reduce_run(struct job *job, size_t cell, const char *x, size_t n)
{
    union cells *cells = &job->cells;
    if (job->row >= 0) {
        job->kernels->minmax[job->row](x, n, cells->single[0] + cell,
                                       cells->single[1] + cell, &job->bits);
    } else {
        job->carried |= run_f64(x, n, cells->wide[0] + cell, cells->wide[1] + cell);
    }
}

/* Contiguous elements of groups of `g`. */
static void reduce_groups(struct job *job, size_t cell, const char *x, size_t groups,
                          size_t g)
{
    if (groups == 0) {
        return;
    }
    if (job->row < 0) {
        for (size_t k = 0; k < groups; k++) {
            reduce_run(job, cell + k, x + k * g * sizeof(double), g);
        }
        return;
    }
    union cells *to = job->once ? &job->cells : &job->found;
    const size_t first = job->once ? cell : 0;
    job->kernels->minmax_grp[job->row](x, groups, g, to->single[0] + first,
                                       to->single[1] + first, &job->bits);
    if (!job->once) {
        merge_found(job, cell, groups, 1);
    }
}

/* Contiguous elements [i, i + n) of dim[0]; `i` begins a group, or all are of one. */
static void reduce_elements(struct job *job, struct pq_cursor at, ptrdiff_t i,
                            const char *x, ptrdiff_t n)
{
    const struct pq_dim *dim = &job->box.dim[0];
    const ptrdiff_t groups = pq_dim_uniform(dim) ? 0 : n / dim->block;
    const ptrdiff_t most = groups * dim->block;
    reduce_groups(job, cell_at(job, at, i), x, (size_t)groups, (size_t)dim->block);
    if (most < n) {
        reduce_run(job, cell_at(job, at, i + most), x + most * job->size,
                   (size_t)(n - most));
    }
}

/* One row, gathered tile by tile where it is not contiguous. */
static void reduce_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->box.dim[0];
    if (!job->swapped && dim->in == job->size) {
        reduce_elements(job, at, 0, at.in, dim->end);
        return;
    }
    char buffer[TILE * sizeof(double)];
    for (ptrdiff_t i = 0; i < dim->end;) {
        ptrdiff_t n = dim->end - i;
        if (pq_dim_uniform(dim)) {
            n = n < TILE ? n : TILE;
        } else if (dim->block >= TILE) {
            const ptrdiff_t left = dim->block - i % dim->block;
            n = left < n ? left : n;
            n = n < TILE ? n : TILE;
        } else if (n > TILE) { /* whole groups */
            n = TILE / dim->block * dim->block;
        }
        const struct pq_tile tile = {1, n, 0, dim->in, (size_t)job->size, job->swapped};
        pq_gather(job->kernels, buffer, at.in + i * dim->in, &tile);
        reduce_elements(job, at, i, buffer, n);
        i += n;
    }
}

/* ---- an element of each row per cell ---- */

static void find_columns(struct job *job, union cells *to, size_t cell, const char *x,
                         ptrdiff_t stride, size_t rows, size_t n)
{
    if (job->row >= 0) {
        job->kernels->minmax_vec[job->row](x, stride, rows, n, to->single[0] + cell,
                                           to->single[1] + cell, &job->bits);
    } else {
        job->carried |=
            columns_f64(x, stride, rows, n, to->wide[0] + cell, to->wide[1] + cell);
    }
}

/* `rows` whole rows that follow each other, as fewer and longer ones. */
static void reduce_narrow(struct job *job, size_t cell, const char *x, size_t rows,
                          size_t n)
{
    const size_t together = NARROW / n < rows ? NARROW / n : rows;
    const size_t many = rows / together, size = (size_t)job->size;
    const ptrdiff_t stride = (ptrdiff_t)(together * n * size);
    union cells *found = &job->found;
    set_none(job, found, together * n);
    find_columns(job, found, 0, x, stride, many, together * n);
    find_columns(job, found, 0, x + (ptrdiff_t)many * stride, stride, 1,
                 rows % together * n);
    merge_found(job, cell, n, together);
}

/* `rows` rows of columns. */
static void reduce_columns(struct job *job, size_t cell, const char *x, ptrdiff_t rows)
{
    const struct pq_dim *dim = &job->box.dim[0], *outer = &job->box.dim[1];
    const ptrdiff_t n = dim->end;
    if (!job->swapped && dim->in == job->size) {
        find_columns(job, &job->cells, cell, x, outer->in, (size_t)rows, (size_t)n);
        return;
    }
    char buffer[TILE * sizeof(double)];
    const ptrdiff_t some = TILE / n;
    for (ptrdiff_t r = 0; r < rows; r += some) {
        const ptrdiff_t now = rows - r < some ? rows - r : some;
        const struct pq_tile tile = {now,         n, outer->in, dim->in, (size_t)job->size,
                                     job->swapped};
        pq_gather(job->kernels, buffer, x + r * outer->in, &tile);
        find_columns(job, &job->cells, cell, buffer, n * job->size, (size_t)now, (size_t)n);
    }
}

/* All rows of dim[1], those of a group together. */
static void reduce_rows(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->box.dim[0], *outer = &job->box.dim[1];
    const bool narrow = !job->swapped && dim->in == job->size && dim->end <= NARROW / 2 &&
                        outer->in == dim->end * job->size;
    const ptrdiff_t block = pq_dim_uniform(outer) ? outer->end : outer->block;
    for (ptrdiff_t r = 0; r < outer->end; r += block) {
        const ptrdiff_t rows = outer->end - r < block ? outer->end - r : block;
        const struct pq_cursor first = pq_cursor_at(at, outer, r);
        const size_t cell = cell_at(job, first, 0);
        if (narrow) {
            reduce_narrow(job, cell, first.in, (size_t)rows, (size_t)dim->end);
        } else {
            reduce_columns(job, cell, first.in, rows);
        }
    }
}

/* ---- boxes ---- */

/* Groups of each dimension of the whole: those of a part, those of a box, and the first of
 * the box at hand. */
struct cut {
    ptrdiff_t begin[PQ_MAX_NDIM], end[PQ_MAX_NDIM];
    ptrdiff_t step[PQ_MAX_NDIM];
    ptrdiff_t at[PQ_MAX_NDIM];
};

static ptrdiff_t groups_of(const struct pq_dim *dim)
{
    return pq_dim_uniform(dim) ? 1 : (dim->end - 1) / dim->block + 1;
}

/* The dimension of most groups is shared by the parts; boxes are long in the innermost
 * ones. False where the part has nothing. */
static bool make_cut(struct cut *cut, const struct pq_plan *plan, int part, int parts)
{
    int split = 0;
    for (int d = 1; d < plan->ndim; d++) {
        split = groups_of(&plan->dim[d]) >= groups_of(&plan->dim[split]) ? d : split;
    }
    ptrdiff_t room = CELLS;
    for (int d = 0; d < plan->ndim; d++) {
        ptrdiff_t groups = groups_of(&plan->dim[d]), begin = 0;
        if (d == split) {
            const ptrdiff_t share = groups / parts, rest = groups % parts;
            begin = share * part + (part < rest ? part : rest);
            groups = share + (part < rest ? 1 : 0);
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

static void fill_up(struct pq_plan *plan)
{
    while (plan->ndim < 2) {
        plan->dim[plan->ndim++] = (struct pq_dim){.end = 1, .block = 1};
    }
}

/* Returns how many cells the box has. */
static size_t make_box(struct job *job, const struct cut *cut)
{
    const struct pq_plan *whole = &job->whole;
    struct pq_plan *box = &job->box, *rows = &job->rows;
    struct pq_cursor at = pq_cursor_start(whole);
    ptrdiff_t count = 1;
    box->ndim = 0;
    rows->ndim = 0;
    job->once = true;
    for (int d = 0; d < whole->ndim; d++) {
        struct pq_dim dim = whole->dim[d];
        if (!pq_dim_uniform(&dim)) {
            const ptrdiff_t left = cut->end[d] - cut->at[d], first = cut->at[d] * dim.block;
            const ptrdiff_t groups = cut->step[d] < left ? cut->step[d] : left;
            const ptrdiff_t most = groups * dim.block, rest = dim.end - first;
            at = pq_cursor_at(at, &dim, first);
            if (groups > 1) {
                rows->dim[rows->ndim++] = (struct pq_dim){.end = groups,
                                                          .in = count,
                                                          .block = 1,
                                                          .scale = dim.scale,
                                                          .zero = dim.zero};
            }
            dim.end = most < rest ? most : rest;
            dim.block = groups > 1 ? dim.block : 1;
            dim.scale = groups > 1 ? count : 0;
            dim.zero = 0;
            count *= groups;
        }
        if (dim.end > 1) {
            job->once &= box->ndim == 0 || (!pq_dim_uniform(&dim) && dim.block == 1);
            box->dim[box->ndim++] = dim;
        }
    }
    fill_up(box);
    fill_up(rows);
    box->in = at.in;
    rows->scale = at.scale;
    rows->zero = at.zero;
    return (size_t)count;
}

static void reduce_box(struct job *job)
{
    const struct pq_dim *dim = &job->box.dim[0];
    if (!pq_dim_uniform(dim) && dim->block == 1) {
        pq_walk(&job->box, 2, reduce_rows, job);
    } else {
        pq_walk(&job->box, 1, reduce_row, job);
    }
}

/* Both extrema of a cell with a NaN become that. */
static void mark_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->box.dim[0];
    struct pq_params from = {at.in, 0, job->type, job->swapped};
    for (ptrdiff_t i = 0; i < dim->end; i++, from.data += dim->in) {
        double v;
        pq_load_scales_f64(&v, from, 1, 0);
        if (v != v) {
            const size_t cell = cell_at(job, at, i);
            for (int k = 0; k < 2; k++) {
                if (job->row >= 0) {
                    job->cells.single[k][cell] = (float)NAN;
                } else {
                    job->cells.wide[k][cell] = (double)NAN;
                }
            }
        }
    }
}

static void take_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->rows.dim[0];
    const union cells *cells = &job->cells;
    const ptrdiff_t first = at.in - job->rows.in;
    const bool wide = job->row < 0;
    const struct pq_cells row = {
        .n = (size_t)dim->end,
        .lowest = wide ? (const void *)(cells->wide[0] + first) : cells->single[0] + first,
        .highest = wide ? (const void *)(cells->wide[1] + first) : cells->single[1] + first,
        /* The caller's own arrays, reached through the plan's const pointers. */
        .scale = (char *)(uintptr_t)at.scale,
        .zero = (char *)(uintptr_t)at.zero,
        .scale_stride = dim->scale,
        .zero_stride = dim->zero,
    };
    job->take(job->what, &row);
}

static bool is_finite(const struct job *job)
{
    return job->bits < 0x7f800000 && job->carried >> 63 == 0;
}

/* Whether all were taken. */
static bool take_boxes(struct job *job, struct cut *cut, bool all_numbers)
{
    do {
        set_none(job, &job->cells, make_box(job, cut));
        if (!job->empty) {
            reduce_box(job);
        }
        if (!is_finite(job)) {
            if (!all_numbers) {
                return false;
            }
            pq_walk(&job->box, 1, mark_row, job);
            job->bits = 0;
            job->carried = 0;
        }
        pq_walk(&job->rows, 1, take_row, job);
    } while (next_box(cut, job->whole.ndim));
    return true;
}

/* Whether there are parameters: where a dimension has no elements, those of the others. The
 * extents become what is to be planned. */
static bool has_cells(const struct pq_args *args, ptrdiff_t *shape, bool *empty)
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

enum pq_status pq_find_extrema(const struct pq_kernels *kernels, const struct pq_args *args,
                               bool all_numbers, pq_take_cells_fn *take, void *what,
                               int part, int parts)
{
    ptrdiff_t shape[PQ_MAX_NDIM];
    struct pq_args planned = *args;
    struct cut cut;
    struct job job;
    planned.shape = shape;
    planned.out.data = NULL;
    job.kernels = kernels;
    job.type = args->in.type;
    job.row = pq_row_of(job.type);
    job.size = (ptrdiff_t)pq_bytes_of(job.type);
    job.swapped = args->in.swapped != 0;
    job.empty = false;
    job.bits = 0;
    job.carried = 0;
    job.take = take;
    job.what = what;
    job.box.scale = job.rows.in = (const char *)&job.cells; /* of which to count from */
    job.box.zero = job.box.scale;
    job.box.out = job.rows.out = NULL;
    if (!has_cells(args, shape, &job.empty)) {
        return PQ_OK;
    }
    const enum pq_status status = pq_plan_init(&job.whole, &planned, 0);
    if (status != PQ_OK || !make_cut(&cut, &job.whole, part, parts)) {
        return status;
    }
    const pq_fpenv found = pq_fpenv_enter();
    const bool all = take_boxes(&job, &cut, all_numbers);
    pq_fpenv_leave(found);
    return all ? PQ_OK : PQ_ERR_NONFINITE;
}

enum pq_status pq_check_search(const struct pq_kernels *kernels, const struct pq_args *args,
                               const struct pq_array *lowest,
                               const struct pq_array *highest, int part, int parts)
{
    if (kernels == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_check_shape(args);
    if (status == PQ_OK) {
        status = pq_check_array(args, &args->in, false);
    }
    if (status == PQ_OK) {
        status = pq_check_array(args, lowest, true);
    }
    if (status == PQ_OK) {
        status = pq_check_array(args, highest, true);
    }
    if (status == PQ_OK && (part < 0 || part >= parts)) {
        status = PQ_ERR_PART;
    }
    if (status == PQ_OK && (!pq_is_real(args->in.type) || args->in.bit_strides != NULL ||
                            lowest->bit_strides != NULL || highest->bit_strides != NULL)) {
        status = PQ_ERR_TYPE;
    }
    return status;
}

/* ---- the results as they are ---- */

static void merge_cells(void *what, const struct pq_cells *cells)
{
    const bool wide = *(const bool *)what;
    for (size_t k = 0; k < cells->n; k++) {
        double *lo = (double *)(void *)(cells->scale + (ptrdiff_t)k * cells->scale_stride);
        double *hi = (double *)(void *)(cells->zero + (ptrdiff_t)k * cells->zero_stride);
        const double least = wide ? ((const double *)cells->lowest)[k]
                                  : (double)((const float *)cells->lowest)[k];
        const double most = wide ? ((const double *)cells->highest)[k]
                                 : (double)((const float *)cells->highest)[k];
        *lo = lesser(least, *lo);
        *hi = greater(most, *hi);
    }
}

enum pq_status pq_minmax(const struct pq_kernels *kernels, const struct pq_args *args,
                         int *finite)
{
    struct pq_args room;
    if (finite == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = pq_check_search(kernels, args, &args->lowest, &args->highest, 0, 1);
    }
    if (status != PQ_OK) {
        return status;
    }
    if (args->lowest.type != PQ_F64 || args->highest.type != PQ_F64) {
        return PQ_ERR_TYPE;
    }
    *finite = 1;
    for (int d = 0; d < args->ndim; d++) {
        if (args->shape[d] == 0) {
            return PQ_OK;
        }
    }
    struct pq_args placed = *args;
    placed.scale = args->lowest;
    placed.zero = args->highest;
    bool wide = args->in.type == PQ_F64;
    status = pq_find_extrema(kernels, &placed, false, merge_cells, &wide, 0, 1);
    *finite = status == PQ_OK;
    return status == PQ_ERR_NONFINITE ? PQ_OK : status;
}

/* ---- what is not finite ---- */

static void count_nonfinite(const struct pq_args *args, size_t *count, size_t *first)
{
    ptrdiff_t index[PQ_MAX_NDIM] = {0};
    struct pq_params at = {args->in.data, 0, args->in.type, args->in.swapped};
    for (int d = 0; d < args->ndim; d++) {
        if (args->shape[d] == 0) {
            return;
        }
    }
    for (size_t position = 0;; position++) {
        double v;
        pq_load_scales_f64(&v, at, 1, 0);
        if ((pq_bits_f64(v) >> 52 & 0x7ff) == 0x7ff && (*count)++ == 0) {
            *first = position;
        }
        int d = args->ndim - 1;
        for (; d >= 0; d--) { /* the next index in C order */
            if (++index[d] < args->shape[d]) {
                at.data += args->in.strides[d];
                break;
            }
            at.data -= (args->shape[d] - 1) * args->in.strides[d];
            index[d] = 0;
        }
        if (d < 0) {
            return;
        }
    }
}

enum pq_status pq_count_nonfinite(const struct pq_args *args, size_t *count, size_t *first)
{
    struct pq_args room;
    if (count == NULL || first == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = pq_check_shape(args);
    }
    if (status == PQ_OK) {
        status = pq_check_array(args, &args->in, false);
    }
    if (status != PQ_OK) {
        return status;
    }
    if (!pq_is_real(args->in.type) || args->in.bit_strides != NULL) {
        return PQ_ERR_TYPE;
    }
    *count = 0;
    *first = 0;
    const pq_fpenv found = pq_fpenv_enter();
    count_nonfinite(args, count, first);
    pq_fpenv_leave(found);
    return PQ_OK;
}
