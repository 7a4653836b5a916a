/* SPDX-License-Identifier: Apache-2.0 */
/* From arrays to extrema. */
#include <math.h>

#include "args.h"
#include "fpenv.h"
#include "kernels.h"
#include "params.h"
#include "types.h"
#include "walk.h"

enum {
    TILE = 1024, /* elements gathered at a time */
    CELLS = 512, /* groups or columns looked at together */
    NARROW = 256 /* fewer columns are not worth a row of their own */
};

/* Extrema as they are found: float32 of what has kernels, which are float32 exactly. */
struct found {
    union {
        float single[CELLS];
        double wide[CELLS];
    } lo, hi;
};

struct job {
    struct pq_plan plan;
    const struct pq_kernels *kernels;
    int row; /* of the kernels; none for float64 */
    ptrdiff_t size;
    bool swapped;
    uint32_t bits;    /* at least 0x7f800000: not finite */
    uint64_t carried; /* the same where the sign is set */
    struct found found;
};

/* ---- extrema: float64 ---- */

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

/* ---- extrema: any type ---- */

static void merge_extrema(const struct job *job, struct pq_cursor at, ptrdiff_t i,
                          double lo, double hi)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    /* The cells are the caller's own arrays, reached through the plan's const pointers. */
    double *cell_lo = (double *)(uintptr_t)(at.scale + pq_dim_scale(dim, i));
    double *cell_hi = (double *)(uintptr_t)(at.zero + pq_dim_zero(dim, i));
    *cell_lo = lesser(lo, *cell_lo);
    *cell_hi = greater(hi, *cell_hi);
}

/* Merge `n` numbers into cells that lie `stride` bytes apart. */
#define MERGE(name, type, comparison)                                                      \
    static void name(const char *cells, ptrdiff_t stride, const type *PQ_RESTRICT v,       \
                     size_t n)                                                             \
    {                                                                                      \
        double *PQ_RESTRICT cell = (double *)(uintptr_t)cells;                             \
        if (stride == sizeof *cell) {                                                      \
            for (size_t k = 0; k < n; k++) {                                               \
                cell[k] = (double)v[k] comparison cell[k] ? (double)v[k] : cell[k];        \
            }                                                                              \
            return;                                                                        \
        }                                                                                  \
        for (size_t k = 0; k < n; k++) {                                                   \
            cell = (double *)(uintptr_t)(cells + (ptrdiff_t)k * stride);                   \
            *cell = (double)v[k] comparison * cell ? (double)v[k] : *cell;                 \
        }                                                                                  \
    }
MERGE(merge_smallest, float, <)
MERGE(merge_largest, float, >)
MERGE(merge_smallest_f64, double, <)
MERGE(merge_largest_f64, double, >)
#undef MERGE

/* What was found of `n` groups of dim[0], from that of index `i` on, `repeat` times. A
 * column is a group of one element. */
static void merge_found(const struct job *job, struct pq_cursor at, ptrdiff_t i, size_t n,
                        size_t repeat)
{
    const struct found *found = &job->found;
    const struct pq_dim *dim = &job->plan.dim[0];
    const char *lo = at.scale + pq_dim_scale(dim, i), *hi = at.zero + pq_dim_zero(dim, i);
    for (size_t k = 0; k < repeat * n; k += n) {
        if (job->row >= 0) {
            merge_smallest(lo, dim->scale, found->lo.single + k, n);
            merge_largest(hi, dim->zero, found->hi.single + k, n);
        } else {
            merge_smallest_f64(lo, dim->scale, found->lo.wide + k, n);
            merge_largest_f64(hi, dim->zero, found->hi.wide + k, n);
        }
    }
}

/* Contiguous elements from index `i` of dim[0] on, all of one group. */
static void reduce_run(struct job *job, struct pq_cursor at, ptrdiff_t i, const char *x,
                       size_t n)
{
    float lo = INFINITY, hi = -INFINITY;
    double wide_lo = HUGE_VAL, wide_hi = -HUGE_VAL;
    if (job->row >= 0) {
        job->kernels->minmax[job->row](x, n, &lo, &hi, &job->bits);
        wide_lo = (double)lo;
        wide_hi = (double)hi;
    } else {
        job->carried |= run_f64(x, n, &wide_lo, &wide_hi);
    }
    merge_extrema(job, at, i, wide_lo, wide_hi);
}

/* Contiguous elements from index `i` of dim[0] on, of groups of `g`. */
static void reduce_groups(struct job *job, struct pq_cursor at, ptrdiff_t i, const char *x,
                          size_t groups, size_t g)
{
    struct found *found = &job->found;
    while (groups > 0) {
        const size_t n = groups < CELLS ? groups : CELLS;
        if (job->row >= 0) {
            job->kernels->minmax_grp[job->row](x, n, g, found->lo.single, found->hi.single,
                                               &job->bits);
        } else {
            for (size_t k = 0; k < n; k++) {
                found->lo.wide[k] = HUGE_VAL;
                found->hi.wide[k] = -HUGE_VAL;
                job->carried |= run_f64(x + k * g * sizeof(double), g, &found->lo.wide[k],
                                        &found->hi.wide[k]);
            }
        }
        merge_found(job, at, i, n, 1);
        i += (ptrdiff_t)(n * g);
        x += n * g * (size_t)job->size;
        groups -= n;
    }
}

/* Contiguous elements [i, i + n) of dim[0]; `i` begins a group, or all are of one. */
static void reduce_elements(struct job *job, struct pq_cursor at, ptrdiff_t i,
                            const char *x, ptrdiff_t n)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    const ptrdiff_t groups = pq_dim_uniform(dim) ? 0 : n / dim->block;
    const ptrdiff_t most = groups * dim->block;
    reduce_groups(job, at, i, x, (size_t)groups, (size_t)dim->block);
    if (most < n) {
        reduce_run(job, at, i + most, x + most * job->size, (size_t)(n - most));
    }
}

/* One row, gathered tile by tile where it is not contiguous. */
static void reduce_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->plan.dim[0];
    if (!job->swapped && dim->in == job->size) {
        reduce_elements(job, at, dim->begin, at.in + dim->begin * dim->in,
                        dim->end - dim->begin);
        return;
    }
    char buffer[TILE * sizeof(double)];
    for (ptrdiff_t i = dim->begin; i < dim->end;) {
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

/* ---- extrema: an element of each row per group ---- */

static void find_none(struct job *job, size_t n)
{
    struct found *found = &job->found;
    for (size_t k = 0; k < n; k++) {
        if (job->row >= 0) {
            found->lo.single[k] = INFINITY;
            found->hi.single[k] = -INFINITY;
        } else {
            found->lo.wide[k] = HUGE_VAL;
            found->hi.wide[k] = -HUGE_VAL;
        }
    }
}

static void find_columns(struct job *job, const char *x, ptrdiff_t stride, size_t rows,
                         size_t n)
{
    struct found *found = &job->found;
    if (job->row >= 0) {
        job->kernels->minmax_vec[job->row](x, stride, rows, n, found->lo.single,
                                           found->hi.single, &job->bits);
    } else {
        job->carried |= columns_f64(x, stride, rows, n, found->lo.wide, found->hi.wide);
    }
}

/* `rows` whole rows that follow each other, as fewer and longer ones. */
static void reduce_narrow(struct job *job, struct pq_cursor at, const char *x, size_t rows,
                          size_t n)
{
    const size_t together = NARROW / n < rows ? NARROW / n : rows;
    const size_t many = rows / together, size = (size_t)job->size;
    const ptrdiff_t stride = (ptrdiff_t)(together * n * size);
    find_none(job, together * n);
    find_columns(job, x, stride, many, together * n);
    find_columns(job, x + (ptrdiff_t)many * stride, stride, 1, rows % together * n);
    merge_found(job, at, 0, n, together);
}

/* `n` columns from index `i` of dim[0] on, of `rows` rows. */
static void reduce_columns(struct job *job, struct pq_cursor at, ptrdiff_t i, const char *x,
                           ptrdiff_t n, ptrdiff_t rows)
{
    const struct pq_dim *dim = &job->plan.dim[0], *outer = &job->plan.dim[1];
    find_none(job, (size_t)n);
    if (!job->swapped && dim->in == job->size) {
        find_columns(job, x, outer->in, (size_t)rows, (size_t)n);
    } else {
        char buffer[TILE * sizeof(double)];
        const ptrdiff_t some = TILE / n;
        for (ptrdiff_t r = 0; r < rows; r += some) {
            const ptrdiff_t now = rows - r < some ? rows - r : some;
            const struct pq_tile tile = {
                now, n, outer->in, dim->in, (size_t)job->size, job->swapped};
            pq_gather(job->kernels, buffer, x + r * outer->in, &tile);
            find_columns(job, buffer, n * job->size, (size_t)now, (size_t)n);
        }
    }
    merge_found(job, at, i, (size_t)n, 1);
}

/* All rows of dim[1], those of a group together. */
static void reduce_rows(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->plan.dim[0], *outer = &job->plan.dim[1];
    const bool narrow = !job->swapped && dim->in == job->size && dim->end <= NARROW / 2 &&
                        outer->in == dim->end * job->size;
    const ptrdiff_t block = pq_dim_uniform(outer) ? outer->end : outer->block;
    for (ptrdiff_t r = 0; r < outer->end; r += block) {
        const ptrdiff_t rows = outer->end - r < block ? outer->end - r : block;
        const struct pq_cursor first = pq_cursor_at(at, outer, r);
        if (narrow) {
            reduce_narrow(job, first, first.in, (size_t)rows, (size_t)dim->end);
            continue;
        }
        for (ptrdiff_t i = 0; i < dim->end; i += CELLS) {
            const ptrdiff_t n = dim->end - i < CELLS ? dim->end - i : CELLS;
            reduce_columns(job, first, i, first.in + i * dim->in, n, rows);
        }
    }
}

enum pq_status pq_minmax(const struct pq_kernels *kernels, const struct pq_args *args,
                         int *finite)
{
    struct pq_args room;
    if (kernels == NULL || finite == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = pq_check_shape(args);
    }
    if (status == PQ_OK) {
        status = pq_check_array(args, &args->in, false);
    }
    if (status == PQ_OK) {
        status = pq_check_array(args, &args->lowest, true);
    }
    if (status == PQ_OK) {
        status = pq_check_array(args, &args->highest, true);
    }
    if (status != PQ_OK) {
        return status;
    }
    if (!pq_is_real(args->in.type) || args->in.bit_strides != NULL ||
        args->lowest.type != PQ_F64 || args->highest.type != PQ_F64) {
        return PQ_ERR_TYPE;
    }
    struct pq_args read_only = *args;
    read_only.out.data = NULL;
    read_only.scale = args->lowest;
    read_only.zero = args->highest;
    struct job job;
    job.kernels = kernels;
    job.row = pq_row_of(args->in.type);
    job.size = (ptrdiff_t)pq_bytes_of(args->in.type);
    job.swapped = args->in.swapped != 0;
    job.bits = 0;
    job.carried = 0;
    status = pq_plan_init(&job.plan, &read_only, 0);
    if (status == PQ_OK && !job.plan.empty) {
        const pq_fpenv found = pq_fpenv_enter();
        const struct pq_dim *dim = &job.plan.dim[0];
        if (!pq_dim_uniform(dim) && dim->block == 1) {
            pq_walk(&job.plan, 2, reduce_rows, &job);
        } else {
            pq_walk(&job.plan, 1, reduce_row, &job);
        }
        pq_fpenv_leave(found);
    }
    *finite = job.bits < 0x7f800000 && job.carried >> 63 == 0;
    return status;
}

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
