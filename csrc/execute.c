/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a plan over a table of kernels. Two ways serve every case: long contiguous rows
 * go straight to a kernel; anything else goes through tiles of at most TILE elements, for
 * which parameters are expanded to one per element and strided data gathered.
 */
#include "fpenv.h"
#include "kernels.h"
#include "params.h"
#include "walk.h"

enum {
    TILE = 1024,    /* elements of a tile: all buffers together fit in L1 */
    GROUP = 32,     /* groups shorter than this are expanded */
    LINE_BYTES = 64 /* of a cache line: the height of the tiles of a transposed array */
};

struct job {
    struct pq_plan plan;
    size_t in_size, out_size;
    bool in_swapped, out_swapped;
    enum pq_type scale_type, zero_type;
    int scale_swapped, zero_swapped;
    bool single_scale; /* scales are rounded to float32 */

    pq_grp_fn *grp; /* null: no kernel for groups */
    pq_vec_fn *vec; /* null: the wide kernel */
    pq_wide_fn *wide_fn;
    struct pq_wide wide;

    /* Parameters, one per element of a tile or one per group; for what, says `loaded`. */
    struct {
        const char *scale, *zero;
        ptrdiff_t first, rows, columns;
    } loaded;
    union {
        float f32[TILE];
        double f64[TILE];
    } scale;
    union {
        int32_t i32[TILE];
        double f64[TILE];
    } zero;
};

/* ---- parameters ---- */

static struct pq_params scales_at(const struct job *job, const char *at, ptrdiff_t stride)
{
    return (struct pq_params){at, stride, job->scale_type, job->scale_swapped};
}

static struct pq_params zeros_at(const struct job *job, const char *at, ptrdiff_t stride)
{
    return (struct pq_params){at, stride, job->zero_type, job->zero_swapped};
}

/* `n` parameters from consecutive places, to place `to` of the job's arrays. */
static void load_params(struct job *job, ptrdiff_t to, const char *scale,
                        ptrdiff_t scale_stride, const char *zero, ptrdiff_t zero_stride,
                        size_t n)
{
    const struct pq_params s = scales_at(job, scale, scale_stride);
    const struct pq_params z = zeros_at(job, zero, zero_stride);
    if (job->vec != NULL) {
        pq_load_scales_f32(job->scale.f32 + to, s, n);
        pq_load_zeros_i32(job->zero.i32 + to, z, n);
    } else {
        pq_load_scales_f64(job->scale.f64 + to, s, n, job->single_scale);
        pq_load_zeros_f64(job->zero.f64 + to, z, n);
    }
}

/* Repeat the parameters at place `from` over places [to, to + n). */
static void repeat_param(struct job *job, ptrdiff_t from, ptrdiff_t to, ptrdiff_t n)
{
    if (job->vec != NULL) {
        const float s = job->scale.f32[from];
        const int32_t z = job->zero.i32[from];
        for (ptrdiff_t i = to; i < to + n; i++) {
            job->scale.f32[i] = s;
            job->zero.i32[i] = z;
        }
    } else {
        const double s = job->scale.f64[from], z = job->zero.f64[from];
        for (ptrdiff_t i = to; i < to + n; i++) {
            job->scale.f64[i] = s;
            job->zero.f64[i] = z;
        }
    }
}

/* Places [to, to + n) for the indices [first, first + n) of dim[0]. */
static void expand_row(struct job *job, struct pq_cursor at, ptrdiff_t first, ptrdiff_t to,
                       ptrdiff_t n)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    if (pq_dim_uniform(dim)) {
        load_params(job, to, at.scale, 0, at.zero, 0, 1);
        repeat_param(job, to, to, n);
    } else if (dim->block == 1) {
        load_params(job, to, at.scale + first * dim->scale, dim->scale,
                    at.zero + first * dim->zero, dim->zero, (size_t)n);
    } else {
        /* One pair per group at the end of the arrays, from where they are spread forward:
         * the groups still to come have an element each, so none is overwritten early. */
        const ptrdiff_t group = first / dim->block;
        const ptrdiff_t groups = (first + n - 1) / dim->block - group + 1;
        ptrdiff_t from = TILE - groups;
        load_params(job, from, at.scale + group * dim->scale, dim->scale,
                    at.zero + group * dim->zero, dim->zero, (size_t)groups);
        for (ptrdiff_t i = first; i < first + n; from++) {
            const ptrdiff_t left = dim->block - i % dim->block;
            const ptrdiff_t m = left < first + n - i ? left : first + n - i;
            repeat_param(job, from, to, m);
            to += m;
            i += m;
        }
    }
}

/*
 * Parameters of the tile of rows [row, row + rows) and columns [column, column + columns),
 * unless those of the last tile will do: rows often share them. Returns whether the whole
 * tile has one pair, found at place 0.
 */
static bool load_tile_params(struct job *job, struct pq_cursor row_start, ptrdiff_t row,
                             ptrdiff_t rows, ptrdiff_t column, ptrdiff_t columns)
{
    const struct pq_dim *dim = job->plan.dim;
    const bool same_rows = pq_dim_uniform(&dim[1]) || rows == 1;
    const bool single = same_rows && pq_dim_uniform(&dim[0]);
    const struct pq_cursor at = pq_cursor_at(row_start, &dim[1], row);
    if (same_rows && job->loaded.scale == at.scale && job->loaded.zero == at.zero &&
        (single || job->loaded.first == column) && job->loaded.rows >= rows &&
        (single || job->loaded.columns == columns) &&
        job->loaded.columns * job->loaded.rows >= rows * columns) {
        return single;
    }
    for (ptrdiff_t r = 0; r < rows; r++) {
        expand_row(job, pq_cursor_at(row_start, &dim[1], row + r), column, r * columns,
                   columns);
    }
    job->loaded.scale = same_rows ? at.scale : NULL;
    job->loaded.zero = at.zero;
    job->loaded.first = column;
    job->loaded.rows = rows;
    job->loaded.columns = columns;
    return single;
}

/* ---- tiles ---- */

static void run_tile_kernel(struct job *job, const char *x, char *y, size_t n, bool single)
{
    if (single && job->grp != NULL) {
        job->grp(x, y, n, n, job->scale.f32, job->zero.i32);
    } else if (job->vec != NULL) {
        job->vec(x, y, n, job->scale.f32, job->zero.i32);
    } else {
        job->wide_fn(&job->wide, x, y, n, job->scale.f64, job->zero.f64);
    }
}

static void run_tile(struct job *job, struct pq_cursor row_start, ptrdiff_t row,
                     ptrdiff_t rows, ptrdiff_t column, ptrdiff_t columns)
{
    const struct pq_dim *dim = job->plan.dim;
    const struct pq_tile in = {rows,      columns,      dim[1].in,
                               dim[0].in, job->in_size, job->in_swapped};
    const struct pq_tile out = {rows,       columns,       dim[1].out,
                                dim[0].out, job->out_size, job->out_swapped};
    const char *x = row_start.in + row * dim[1].in + column * dim[0].in;
    char *y = row_start.out + row * dim[1].out + column * dim[0].out;
    char in_tile[TILE * sizeof(double)], out_tile[TILE * sizeof(double)];

    const bool single = load_tile_params(job, row_start, row, rows, column, columns);
    if (!pq_tile_direct(&in)) {
        pq_gather(in_tile, x, &in);
        x = in_tile;
    }
    const bool direct = pq_tile_direct(&out);
    run_tile_kernel(job, x, direct ? y : out_tile, (size_t)(rows * columns), single);
    if (!direct) {
        pq_scatter(y, out_tile, &out);
    }
}

/* Rows and columns of a tile: whole rows where they are short, and in a transposed array
 * as many rows as elements share a cache line of the input. */
static void tile_shape(const struct job *job, ptrdiff_t *rows, ptrdiff_t *columns)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t n0 = dim[0].end - dim[0].begin, n1 = dim[1].end - dim[1].begin;
    const ptrdiff_t across = dim[1].in < 0 ? -dim[1].in : dim[1].in;
    const ptrdiff_t along = dim[0].in < 0 ? -dim[0].in : dim[0].in;
    ptrdiff_t most = TILE;
    if (n1 > 1 && across < along) {
        most = TILE / (LINE_BYTES / (ptrdiff_t)job->in_size);
    }
    *columns = n0 < most ? n0 : most;
    *rows = n1 < TILE / *columns ? n1 : TILE / *columns;
}

/* Dimensions 0 and 1, columns of tiles outside: the tiles of a column may share their
 * parameters. */
static void run_tiles(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = job->plan.dim;
    ptrdiff_t rows, columns;
    tile_shape(job, &rows, &columns);
    for (ptrdiff_t c = dim[0].begin; c < dim[0].end; c += columns) {
        const ptrdiff_t nc = dim[0].end - c < columns ? dim[0].end - c : columns;
        for (ptrdiff_t r = dim[1].begin; r < dim[1].end; r += rows) {
            const ptrdiff_t nr = dim[1].end - r < rows ? dim[1].end - r : rows;
            run_tile(job, at, r, nr, c, nc);
        }
    }
}

/* ---- rows ---- */

/* A contiguous row under one pair of parameters. */
static void run_uniform_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->plan.dim[0];
    const size_t n = (size_t)(dim->end - dim->begin);
    if (job->loaded.scale != at.scale || job->loaded.zero != at.zero) {
        load_params(job, 0, at.scale, 0, at.zero, 0, 1);
        job->loaded.scale = at.scale;
        job->loaded.zero = at.zero;
    }
    job->grp(at.in + dim->begin * dim->in, at.out + dim->begin * dim->out, n, n,
             job->scale.f32, job->zero.i32);
}

/* A contiguous row of groups, the parameters of many groups loaded at a time. */
static void run_grouped_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->plan.dim[0];
    for (ptrdiff_t i = dim->begin; i < dim->end;) {
        const ptrdiff_t into = i % dim->block; /* only a part starts within a group */
        const ptrdiff_t first = i / dim->block;
        const ptrdiff_t groups = into != 0 ? 1 : TILE;
        const ptrdiff_t last = (dim->end - 1) / dim->block;
        const ptrdiff_t m = last - first + 1 < groups ? last - first + 1 : groups;
        const ptrdiff_t stop = (first + m) * dim->block;
        const ptrdiff_t n = (stop < dim->end ? stop : dim->end) - i;
        load_params(job, 0, at.scale + first * dim->scale, dim->scale,
                    at.zero + first * dim->zero, dim->zero, (size_t)m);
        job->grp(at.in + i * dim->in, at.out + i * dim->out, (size_t)n, (size_t)dim->block,
                 job->scale.f32, job->zero.i32);
        i += n;
    }
}

/* A contiguous row with a float32 scale per element, read where it lies, and one zero
 * point. */
static void run_scaled_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->plan.dim[0];
    if (job->loaded.zero != at.zero) {
        load_params(job, 0, at.scale, 0, at.zero, 0, 1);
        repeat_param(job, 0, 0, TILE);
        job->loaded.zero = at.zero;
    }
    for (ptrdiff_t i = dim->begin; i < dim->end; i += TILE) {
        const ptrdiff_t n = dim->end - i < TILE ? dim->end - i : TILE;
        const void *scales = at.scale + i * dim->scale;
        job->vec(at.in + i * dim->in, at.out + i * dim->out, (size_t)n, scales,
                 job->zero.i32);
    }
}

/* ---- the choice ---- */

static bool rows_contiguous(const struct job *job)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    return !job->in_swapped && !job->out_swapped && dim->in == (ptrdiff_t)job->in_size &&
           dim->out == (ptrdiff_t)job->out_size;
}

static pq_visit_fn *choose(const struct job *job, int *first)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t n = dim[0].end - dim[0].begin;
    const bool single_row = dim[1].end - dim[1].begin == 1;
    *first = 1;
    if (rows_contiguous(job) && job->grp != NULL && (n >= GROUP || single_row)) {
        if (pq_dim_uniform(dim)) {
            return run_uniform_row;
        }
        if (dim->block >= GROUP) {
            return run_grouped_row;
        }
    }
    if (rows_contiguous(job) && job->vec != NULL && (n >= TILE / 2 || single_row) &&
        dim->block == 1 && dim->zero == 0 && dim->scale == (ptrdiff_t)sizeof(float) &&
        job->scale_type == PQ_F32 && !job->scale_swapped) {
        return run_scaled_row;
    }
    *first = 2;
    return run_tiles;
}

static void run(struct job *job)
{
    if (job->plan.empty) {
        return;
    }
    job->loaded.scale = NULL;
    job->loaded.zero = NULL;
    int first;
    pq_visit_fn *visit = choose(job, &first);
    pq_walk(&job->plan, first, visit, job);
}

/* ---- entry points ---- */

static bool is_real(enum pq_type type)
{
    return (unsigned)type <= PQ_F64;
}

static bool is_integer(enum pq_type type)
{
    return (unsigned)type >= PQ_I8 && (unsigned)type < PQ_TYPE_COUNT;
}

static bool is_code(enum pq_type type)
{
    return is_integer(type) && type <= PQ_U32;
}

static bool is_narrow(enum pq_type real, enum pq_type code)
{
    return real <= PQ_BF16 && code <= PQ_U16;
}

static enum pq_status check(const struct pq_kernels *kernels, const struct pq_args *args,
                            int part, int parts)
{
    if (kernels == NULL || args == NULL) {
        return PQ_ERR_NULL;
    }
    const enum pq_status status = pq_check_shape(args);
    if (status != PQ_OK) {
        return status;
    }
    if ((args->ndim > 0 && (args->in.strides == NULL || args->out.strides == NULL ||
                            args->scale.strides == NULL)) ||
        args->in.data == NULL || args->out.data == NULL || args->scale.data == NULL ||
        (args->zero.data != NULL && args->ndim > 0 && args->zero.strides == NULL)) {
        return PQ_ERR_NULL;
    }
    if (part < 0 || part >= parts) {
        return PQ_ERR_PART;
    }
    if (!(is_real(args->scale.type) || is_integer(args->scale.type)) ||
        (args->zero.data != NULL && !is_integer(args->zero.type))) {
        return PQ_ERR_TYPE;
    }
    return PQ_OK;
}

static enum pq_status init(struct job *job, const struct pq_args *args, int part, int parts)
{
    job->in_size = pq_type_size(args->in.type);
    job->out_size = pq_type_size(args->out.type);
    job->in_swapped = args->in.swapped && job->in_size > 1;
    job->out_swapped = args->out.swapped && job->out_size > 1;
    job->scale_type = args->scale.type;
    job->scale_swapped = args->scale.swapped;
    job->zero_type = args->zero.data != NULL ? args->zero.type : PQ_I8;
    job->zero_swapped = args->zero.data != NULL && args->zero.swapped;
    const enum pq_status status = pq_plan_init(&job->plan, args, job->out_size);
    if (status == PQ_OK) {
        pq_plan_part(&job->plan, part, parts);
    }
    return status;
}

static void run_guarded(struct job *job)
{
    const pq_fpenv found = pq_fpenv_enter();
    run(job);
    pq_fpenv_leave(found);
}

/* Whether all zero points are within [lo, hi]; those of `type` or a narrower one are. */
static bool zeros_fit(const struct pq_args *args, enum pq_type type, int64_t lo, int64_t hi)
{
    int64_t outside;
    return args->zero.data == NULL || args->zero.type == type ||
           pq_zeros_within(args, lo, hi, &outside);
}

enum pq_status pq_quantize(const struct pq_kernels *kernels, const struct pq_args *args,
                           int part, int parts)
{
    enum pq_status status = check(kernels, args, part, parts);
    if (status != PQ_OK) {
        return status;
    }
    const enum pq_type in = args->in.type, out = args->out.type;
    if (!is_real(in) || !is_code(out) || !is_real(args->precision)) {
        return PQ_ERR_TYPE;
    }
    if ((unsigned)args->round >= PQ_ROUND_COUNT) {
        return PQ_ERR_ROUND;
    }
    const struct pq_range range = pq_code_range(out);
    if (!zeros_fit(args, out, range.lo, range.hi)) {
        return PQ_ERR_ZERO;
    }
    struct job job;
    job.grp = NULL;
    job.vec = NULL;
    if (is_narrow(in, out) && args->precision == PQ_F32) {
        job.vec = kernels->quantize_vec[in][out - PQ_I8][args->round];
        if (args->round == PQ_HALF_EVEN) {
            job.grp = kernels->quantize_grp[in][out - PQ_I8];
        }
    }
    job.wide_fn = kernels->quantize_wide;
    job.wide = (struct pq_wide){in, out, args->precision, args->round};
    job.single_scale = in != PQ_F64;
    status = init(&job, args, part, parts);
    if (status == PQ_OK) {
        run_guarded(&job);
    }
    return status;
}

enum pq_status pq_dequantize(const struct pq_kernels *kernels, const struct pq_args *args,
                             int part, int parts)
{
    enum pq_status status = check(kernels, args, part, parts);
    if (status != PQ_OK) {
        return status;
    }
    const enum pq_type in = args->in.type, out = args->out.type;
    if (!is_code(in) || !is_real(out)) {
        return PQ_ERR_TYPE;
    }
    struct job job;
    job.grp = NULL;
    job.vec = NULL;
    /* Zero points may be anything, but a difference of more than 32 bits is too much for
     * the narrow kernels, and one that float64 cannot hold for all. */
    if (!zeros_fit(args, in, -(INT64_C(1) << 52), INT64_C(1) << 52)) {
        return PQ_ERR_ZERO;
    }
    if (is_narrow(out, in) && zeros_fit(args, in, -(1 << 30), 1 << 30)) {
        job.grp = kernels->dequantize_grp[in - PQ_I8][out];
        job.vec = kernels->dequantize_vec[in - PQ_I8][out];
    }
    job.wide_fn = kernels->dequantize_wide;
    job.wide = (struct pq_wide){in, out, out == PQ_F64 ? PQ_F64 : PQ_F32, PQ_HALF_EVEN};
    job.single_scale = out != PQ_F64;
    status = init(&job, args, part, parts);
    if (status == PQ_OK) {
        run_guarded(&job);
    }
    return status;
}

size_t pq_type_size(enum pq_type type)
{
    static const unsigned char sizes[] = {4, 2, 2, 8, 1, 1, 2, 2, 4, 4, 8, 8};
    return (unsigned)type < PQ_TYPE_COUNT ? sizes[type] : 0;
}
