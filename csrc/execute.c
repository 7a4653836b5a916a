/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a plan over a table of kernels. Two ways serve every case: long contiguous rows
 * go straight to a kernel; anything else goes through tiles of at most TILE elements, for
 * which parameters are expanded to one per element and strided data gathered. Narrow codes
 * are made whole bytes, or these made narrow codes, at most TILE elements at a time.
 */
#include "args.h"
#include "bits.h"
#include "fpenv.h"
#include "kernels.h"
#include "params.h"
#include "types.h"
#include "walk.h"

enum {
    SQUARE = 8192, /* bytes of one that is transposed */
    TILE = 1024,   /* elements of a tile: all buffers together fit in L1 */
    SPREAD = 8,    /* a parameter is repeated so many times at once */
    GROUP = 32,    /* groups shorter than this are expanded */
    ACROSS = 16    /* rows of a tile where one side is transposed: two squares of bytes */
};

struct job {
    const struct pq_kernels *kernels; /* null: nothing to run */
    size_t in_size, out_size;
    ptrdiff_t in_step, out_step; /* from an element to the next: its size, or its bits */
    bool in_swapped, out_swapped;
    enum pq_type scale_type, zero_type;
    int scale_swapped, zero_swapped;
    bool single_scale; /* scales are rounded to float32 */
    bool float_zero;   /* zero points are bits of float32 numbers ... */
    bool negate_zero;  /* ... of the other sign */
    bool zero_given;
    bool one_zero;         /* for all elements, which ... */
    ptrdiff_t zeros_there; /* ... so many places have already */
    bool far;              /* zero points beyond 2^52 */
    bool has_small;        /* scales too small for flushing subnormals beside them */
    bool flushes;          /* at present */
    uint32_t flush_from; /* bits of the first scale that is not too small; 0: never flush */
    struct pq_codes take, give;

    pq_grp_fn *grp;    /* null: no kernel for groups */
    pq_grp_fn *packed; /* null: packed input is made bytes first */
    pq_vec_fn *vec;    /* null: the wide kernel */
    pq_wide_fn *wide_fn;
    struct pq_wide wide;

    ptrdiff_t in_start, out_start; /* of the plan in its arrays */
    int together;                  /* see pq_plan_part */
    struct pq_plan plan;           /* of which the end may be unused */

    /* Parameters, one per element of a tile or one per group; for what, says `loaded`. */
    struct {
        const char *scale, *zero;
        ptrdiff_t first, rows, columns;
    } loaded;
    _Alignas(64) union {
        float f32[TILE + 2 * SPREAD];
        double f64[TILE + 2 * SPREAD];
    } scale;
    _Alignas(64) union {
        int32_t i32[TILE + 2 * SPREAD];
        double f64[TILE + 2 * SPREAD];
    } zero;
};

/* ---- subnormal numbers ---- */

/* Whether a float32 scale is too small for flushing subnormals beside it. */
static bool has_small_scale(const struct job *job, const void *scales, size_t n)
{
    enum { LANES = 16 };
    const uint32_t least = job->flush_from;
    uint32_t bits[LANES], lanes[LANES] = {0}, below = 0; /* the top bits say it */
    const char *from = scales;
    if (least == 0) {
        return false;
    }
    for (; n >= LANES; n -= LANES, from += sizeof bits) {
        memcpy(bits, from, sizeof bits);
        for (int k = 0; k < LANES; k++) {
            lanes[k] |= (bits[k] & 0x7fffffff) - least;
        }
    }
    memcpy(bits, from, n * sizeof *bits);
    for (size_t k = 0; k < n; k++) {
        below |= (bits[k] & 0x7fffffff) - least;
    }
    for (int k = 0; k < LANES; k++) {
        below |= lanes[k];
    }
    return below >> 31 != 0;
}

static void flush(struct job *job, bool flushes)
{
    if (job->flushes != flushes) {
        job->flushes = flushes;
        pq_fpenv_set(flushes);
    }
}

/* As the scales want it that have been looked at since. */
static void set_flush(struct job *job)
{
    if (job->flush_from != 0) {
        flush(job, !job->has_small);
        job->has_small = false;
    }
}

/* ---- parameters ---- */

static struct pq_params scales_at(const struct job *job, const char *at, ptrdiff_t stride)
{
    return (struct pq_params){at, stride, job->scale_type, job->scale_swapped};
}

static struct pq_params zeros_at(const struct job *job, const char *at, ptrdiff_t stride)
{
    return (struct pq_params){at, stride, job->zero_type, job->zero_swapped};
}

/* What is added for no zero point: -0, which leaves the sign of zero as it is. */
static void no_zeros(struct job *job, ptrdiff_t to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (job->vec != NULL) {
            job->zero.i32[to + (ptrdiff_t)i] = INT32_MIN;
        } else {
            job->zero.f64[to + (ptrdiff_t)i] = -0.0;
        }
    }
}

static void load_zeros(struct job *job, ptrdiff_t to, struct pq_params from, size_t n)
{
    if (job->float_zero && !job->zero_given) {
        no_zeros(job, to, n);
    } else if (job->vec == NULL) {
        pq_load_zeros_f64(job->zero.f64 + to, from, n);
    } else if (!job->float_zero) {
        pq_load_zeros_i32(job->zero.i32 + to, from, n);
    } else {
        float zeros[TILE];
        pq_load_zeros_f32(zeros, from, n);
        for (size_t i = 0; job->negate_zero && i < n; i++) {
            zeros[i] = -zeros[i];
        }
        memcpy(job->zero.i32 + to, zeros, n * sizeof *zeros);
    }
}

/* `n` parameters from consecutive places, to place `to` of the job's arrays. */
static void load_params(struct job *job, ptrdiff_t to, const char *scale,
                        ptrdiff_t scale_stride, const char *zero, ptrdiff_t zero_stride,
                        size_t n)
{
    const struct pq_params s = scales_at(job, scale, scale_stride);
    if (job->vec != NULL) {
        pq_load_scales_f32(job->scale.f32 + to, s, n);
        if (has_small_scale(job, job->scale.f32 + to, n)) {
            /* One that is 0 may have become so just now. */
            flush(job, false);
            pq_load_scales_f32(job->scale.f32 + to, s, n);
            job->has_small = true;
        }
    } else {
        pq_load_scales_f64(job->scale.f64 + to, s, n, job->single_scale);
    }
    if (to + (ptrdiff_t)n > job->zeros_there) {
        load_zeros(job, to, zeros_at(job, zero, zero_stride), n);
    }
}

/* Where all share a zero point: at the first `n` places for good. */
static void place_zeros(struct job *job, const char *zero, ptrdiff_t n)
{
    if (!job->one_zero || job->zeros_there >= n) {
        return;
    }
    load_zeros(job, 0, zeros_at(job, zero, 0), 1);
    for (ptrdiff_t i = 1; i < n; i++) {
        if (job->vec != NULL) {
            job->zero.i32[i] = job->zero.i32[0];
        } else {
            job->zero.f64[i] = job->zero.f64[0];
        }
    }
    job->zeros_there = n;
}

/* Repeat the parameters at place `from` over places [to, to + n), and a few beyond. */
static void repeat_param(struct job *job, ptrdiff_t from, ptrdiff_t to, ptrdiff_t n)
{
    if (job->vec != NULL) {
        const float s = job->scale.f32[from];
        const int32_t z = job->zero.i32[from];
        for (ptrdiff_t i = to; i < to + n; i += SPREAD) {
            for (ptrdiff_t j = i; j < i + SPREAD; j++) {
                job->scale.f32[j] = s;
                job->zero.i32[j] = z;
            }
        }
    } else {
        const double s = job->scale.f64[from], z = job->zero.f64[from];
        for (ptrdiff_t i = to; i < to + n; i += SPREAD) {
            for (ptrdiff_t j = i; j < i + SPREAD; j++) {
                job->scale.f64[j] = s;
                job->zero.f64[j] = z;
            }
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
         * the groups still to come have an element each, and what is repeated too often
         * ends before the place of theirs, so none is overwritten early. */
        const ptrdiff_t group = first / dim->block;
        const ptrdiff_t groups = (first + n - 1) / dim->block - group + 1;
        ptrdiff_t from = TILE + 2 * SPREAD - groups;
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

/* The `n` parameters at place `from` as often as `times` in all, one after the other. */
static void repeat_row(struct job *job, ptrdiff_t from, ptrdiff_t n, ptrdiff_t times)
{
    const bool single = job->vec != NULL;
    const size_t size = single ? sizeof(float) : sizeof(double);
    char *const scale =
        single ? (char *)(job->scale.f32 + from) : (char *)(job->scale.f64 + from);
    char *const zero =
        single ? (char *)(job->zero.i32 + from) : (char *)(job->zero.f64 + from);
    const size_t all = (size_t)(n * times) * size;
    for (size_t done = (size_t)n * size; done < all;) {
        const size_t more = done < all - done ? done : all - done;
        memcpy(scale + done, scale, more);
        if (!job->one_zero) {
            memcpy(zero + done, zero, more);
        }
        done += more;
    }
}

/* Places [0, rows) for the indices [row, row + rows) of dim[1]. */
static void load_row_params(struct job *job, struct pq_cursor row_start, ptrdiff_t row,
                            ptrdiff_t rows)
{
    const struct pq_dim *dim = &job->plan.dim[1];
    const ptrdiff_t step = dim->block == 1 ? rows : 1;
    for (ptrdiff_t r = 0; r < rows; r += step) {
        const struct pq_cursor at = pq_cursor_at(row_start, dim, row + r);
        load_params(job, r, at.scale, dim->scale, at.zero, dim->zero, (size_t)step);
    }
}

/*
 * Parameters of the tile of rows [row, row + rows) and columns [column, column + columns),
 * unless those of the last tile will do: rows often share them. Returns how many elements
 * share a pair: all, with the pair at place 0, those of a row, or 1.
 */
static ptrdiff_t load_tile_params(struct job *job, struct pq_cursor row_start,
                                  ptrdiff_t row, ptrdiff_t rows, ptrdiff_t column,
                                  ptrdiff_t columns)
{
    const struct pq_dim *dim = job->plan.dim;
    const bool same_rows = pq_dim_uniform(&dim[1]) || rows == 1;
    const bool single = same_rows && pq_dim_uniform(&dim[0]);
    const struct pq_cursor at = pq_cursor_at(row_start, &dim[1], row);
    const ptrdiff_t share = single ? rows * columns : 1;
    if (same_rows && job->loaded.scale == at.scale && job->loaded.zero == at.zero &&
        (single || job->loaded.first == column) && job->loaded.rows >= rows &&
        (single || job->loaded.columns == columns) &&
        job->loaded.columns * job->loaded.rows >= rows * columns) {
        return share;
    }
    if (!single && pq_dim_uniform(&dim[0]) && job->grp != NULL && columns >= GROUP) {
        job->loaded.scale = NULL;
        load_row_params(job, row_start, row, rows);
        set_flush(job);
        return columns;
    }
    if (rows > 1) {
        place_zeros(job, at.zero, rows * columns);
    }
    for (ptrdiff_t r = 0; r < rows;) {
        const ptrdiff_t left = dim[1].block - (row + r) % dim[1].block;
        const ptrdiff_t same = same_rows || left > rows - r ? rows - r : left;
        expand_row(job, pq_cursor_at(row_start, &dim[1], row + r), column, r * columns,
                   columns);
        repeat_row(job, r * columns, columns, same);
        r += same;
    }
    job->loaded.scale = same_rows ? at.scale : NULL;
    job->loaded.zero = at.zero;
    job->loaded.first = column;
    job->loaded.rows = rows;
    job->loaded.columns = columns;
    set_flush(job);
    return share;
}

/* ---- tiles ---- */

/* `share`: as load_tile_params tells, 1 of one element being all of them; `from`: place of
 * the first parameters. */
static void run_tile_kernel(struct job *job, const char *x, char *y, size_t n, size_t share,
                            ptrdiff_t from)
{
    if ((share > 1 || n == 1) && job->grp != NULL) {
        job->grp(x, y, n, share, job->scale.f32 + from, job->zero.i32 + from);
    } else if (job->vec != NULL) {
        job->vec(x, y, n, job->scale.f32 + from, job->zero.i32 + from);
    } else {
        job->wide_fn(&job->wide, x, y, n, job->scale.f64 + from, job->zero.f64 + from);
    }
}

/* Whether input is made whole bytes before a kernel sees it. */
static bool is_taken(const struct job *job)
{
    return job->take.convert != NULL || job->take.bits != 0;
}

static bool is_staged(const struct job *job)
{
    return is_taken(job) || job->give.convert != NULL || job->give.bits != 0;
}

/* The input of a tile for a kernel: as it lies, or in `buffer`. */
static const char *take_tile(const struct job *job, char *buffer, const char *x,
                             const struct pq_tile *tile)
{
    const size_t n = (size_t)(tile->rows * tile->columns);
    const bool direct = pq_tile_direct(tile);
    if (job->take.bits != 0 && !direct) {
        for (ptrdiff_t r = 0; r < tile->rows; r++) {
            pq_take_codes(&job->take, buffer + r * tile->columns, x + r * tile->row_stride,
                          tile->column_stride, (size_t)tile->columns);
        }
        return buffer;
    }
    if (!direct) {
        pq_gather(job->kernels, buffer, x, tile);
        x = buffer;
    }
    if (is_taken(job)) {
        pq_take_codes(&job->take, buffer, x, job->in_step, n);
        x = buffer;
    }
    return x;
}

static void give_tile(const struct job *job, char *y, const char *result,
                      const struct pq_tile *tile)
{
    for (ptrdiff_t r = 0; job->give.bits != 0 && r < tile->rows; r++) {
        pq_give_codes(&job->give, y + r * tile->row_stride, tile->column_stride,
                      result + r * tile->columns, (size_t)tile->columns);
    }
    if (job->give.bits == 0 && result != y) {
        pq_scatter(job->kernels, y, result, tile);
    }
}

/* Whether kernels can write the rows of a tile where they belong. */
static bool is_by_rows(const struct job *job, const struct pq_tile *out)
{
    return pq_tile_rows(out) && !pq_tile_direct(out) && out->columns >= GROUP &&
           job->give.bits == 0 && job->give.convert == NULL;
}

/* Some of dimensions 0 and 1. */
struct area {
    ptrdiff_t row, rows, column, columns;
};

static struct pq_tile tile_in(const struct job *job, struct area area)
{
    const struct pq_dim *dim = job->plan.dim;
    return (struct pq_tile){area.rows, area.columns,         dim[1].in,
                            dim[0].in, (size_t)job->in_step, job->in_swapped};
}

static struct pq_tile tile_out(const struct job *job, struct area area)
{
    const struct pq_dim *dim = job->plan.dim;
    return (struct pq_tile){area.rows,  area.columns,          dim[1].out,
                            dim[0].out, (size_t)job->out_step, job->out_swapped};
}

static const char *place_in(const struct job *job, struct pq_cursor at, struct area area)
{
    return at.in + area.row * job->plan.dim[1].in + area.column * job->plan.dim[0].in;
}

static char *place_out(const struct job *job, struct pq_cursor at, struct area area)
{
    return at.out + area.row * job->plan.dim[1].out + area.column * job->plan.dim[0].out;
}

/* At most TILE elements, from `taken` and to `kept`, both contiguous, or where they are
 * null from the input and to the output. */
static void run_tile(struct job *job, struct pq_cursor at, struct area area,
                     const char *taken, char *kept)
{
    const ptrdiff_t rows = area.rows, columns = area.columns;
    const struct pq_tile in = tile_in(job, area), out = tile_out(job, area);
    const size_t n = (size_t)(rows * columns);
    char in_tile[TILE * sizeof(double)], out_tile[TILE * sizeof(double)];

    const ptrdiff_t share = load_tile_params(job, at, area.row, rows, area.column, columns);
    const char *const x =
        taken != NULL ? taken : take_tile(job, in_tile, place_in(job, at, area), &in);
    if (kept != NULL) {
        run_tile_kernel(job, x, kept, n, (size_t)share, 0);
        return;
    }
    char *const y = place_out(job, at, area);
    if (is_by_rows(job, &out)) {
        for (ptrdiff_t r = 0; r < rows; r++) {
            const size_t g = share > columns ? (size_t)columns : (size_t)share;
            run_tile_kernel(job, x + r * columns * (ptrdiff_t)job->in_size,
                            y + r * out.row_stride, (size_t)columns, g,
                            share > columns ? 0 : r * columns / share);
        }
        return;
    }
    char *const result = pq_tile_direct(&out) && job->give.bits == 0 ? y : out_tile;
    run_tile_kernel(job, x, result, n, (size_t)share, 0);
    if (job->give.convert != NULL) {
        job->give.convert(result, result, n);
    }
    give_tile(job, y, result, &out);
}

/* Whether dimension 1 is the one with the shorter stride. */
static bool crosswise(ptrdiff_t stride0, ptrdiff_t stride1)
{
    return (stride1 < 0 ? -stride1 : stride1) < (stride0 < 0 ? -stride0 : stride0);
}

/* Rows and columns of a tile: whole rows where they are short, few where one side is
 * transposed. */
static void tile_shape(const struct job *job, ptrdiff_t *rows, ptrdiff_t *columns)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t n0 = dim[0].end - dim[0].begin, n1 = dim[1].end - dim[1].begin;
    ptrdiff_t most = TILE;
    if (n1 > 1 && (crosswise(dim[0].in, dim[1].in) || crosswise(dim[0].out, dim[1].out))) {
        most = TILE / ACROSS;
    }
    *columns = n0 < most ? n0 : most;
    *rows = n1 < TILE / *columns ? n1 : TILE / *columns;
    if (*rows > dim[1].block) { /* rows of a block have their parameters together */
        *rows -= *rows % dim[1].block;
    }
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
            run_tile(job, at, (struct area){r, nr, c, nc}, NULL, NULL);
        }
    }
}

/* ---- one side transposed ---- */

/* Whether one side is contiguous along dimension 0, the other along dimension 1. */
static bool is_across(const struct job *job)
{
    const struct area some = {0, 2, 0, 2};
    const struct pq_dim *dim = job->plan.dim;
    const struct pq_tile in = tile_in(job, some), out = tile_out(job, some);
    return dim[1].end - dim[1].begin > 1 && !is_staged(job) && job->take.bits == 0 &&
           ((pq_tile_transposed(&in) && pq_tile_rows(&out)) ||
            (pq_tile_rows(&in) && pq_tile_transposed(&out)));
}

/*
 * A square that is transposed as a whole, and computed a tile at a time: in whole lines of
 * caches on both sides. Where strides are powers of two a line is gone before it is used
 * again.
 */
static void run_square(struct job *job, struct pq_cursor at, struct area all)
{
    char square[SQUARE];
    const struct pq_tile in = tile_in(job, all), out = tile_out(job, all);
    const bool gathers = pq_tile_transposed(&in);
    const size_t size = gathers ? job->in_size : job->out_size;
    const ptrdiff_t step = TILE / all.columns;
    if (gathers) {
        pq_gather(job->kernels, square, place_in(job, at, all), &in);
    }
    for (ptrdiff_t r = 0; r < all.rows; r += step) {
        const ptrdiff_t rows = all.rows - r < step ? all.rows - r : step;
        const struct area area = {all.row + r, rows, all.column, all.columns};
        char *const part = square + (size_t)(r * all.columns) * size;
        run_tile(job, at, area, gathers ? part : NULL, gathers ? NULL : part);
    }
    if (!gathers) {
        pq_scatter(job->kernels, place_out(job, at, all), square, &out);
    }
}

static void run_squares(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = job->plan.dim;
    const size_t size = dim[1].in == (ptrdiff_t)job->in_size ? job->in_size : job->out_size;
    const ptrdiff_t side = size <= 2 ? 64 : 32;
    for (ptrdiff_t c = dim[0].begin; c < dim[0].end; c += side) {
        const ptrdiff_t nc = dim[0].end - c < side ? dim[0].end - c : side;
        for (ptrdiff_t r = dim[1].begin; r < dim[1].end; r += side) {
            const ptrdiff_t nr = dim[1].end - r < side ? dim[1].end - r : side;
            run_square(job, at, (struct area){r, nr, c, nc});
        }
    }
}

/* ---- rows ---- */

/* A contiguous run of at most TILE elements by way of bytes; g 0: a parameter each. */
static void run_staged(const struct job *job, const char *x, char *y, size_t n, size_t g,
                       const float *scale, const int32_t *zero)
{
    char from[TILE], to[TILE];
    if (is_taken(job)) {
        pq_take_codes(&job->take, from, x, job->in_step, n);
        x = from;
    }
    char *const result = job->give.bits != 0 ? to : y;
    if (g == 0) {
        job->vec(x, result, n, scale, zero);
    } else {
        job->grp(x, result, n, g, scale, zero);
    }
    if (job->give.convert != NULL) {
        job->give.convert(result, result, n);
    }
    if (job->give.bits != 0) {
        pq_give_codes(&job->give, y, job->out_step, to, n);
    }
}

/* Groups of `g` elements, their parameters at place `from` of the job's arrays. */
static void run_groups(const struct job *job, const char *x, char *y, size_t n, size_t g,
                       ptrdiff_t from)
{
    const float *scale = job->scale.f32 + from;
    const int32_t *zero = job->zero.i32 + from;
    if (!is_staged(job)) {
        job->grp(x, y, n, g, scale, zero);
        return;
    }
    const ptrdiff_t at = job->packed != NULL ? x - job->take.base : 1;
    if (at % 8 == 0 && n % g == 0 && g % PQ_PACKED_GROUP == 0) {
        job->packed(job->take.base + at / 8, y, n, g, scale, zero);
        return;
    }
    /* As many groups as fit, or one of them in pieces. */
    const size_t step = g < TILE ? TILE / g * g : TILE;
    for (size_t done = 0; done < n;) {
        const size_t group = done / g;
        size_t m = n - done < step ? n - done : step;
        if (g >= TILE && (group + 1) * g - done < m) {
            m = (group + 1) * g - done;
        }
        run_staged(job, x + (ptrdiff_t)done * job->in_step,
                   y + (ptrdiff_t)done * job->out_step, m, g < m ? g : m, scale + group,
                   zero + group);
        done += m;
    }
}

/* A contiguous row under one pair of parameters. */
static void run_uniform_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->plan.dim[0];
    const size_t n = (size_t)(dim->end - dim->begin);
    if (job->loaded.scale != at.scale || job->loaded.zero != at.zero) {
        load_params(job, 0, at.scale, 0, at.zero, 0, 1);
        set_flush(job);
        job->loaded.scale = at.scale;
        job->loaded.zero = at.zero;
    }
    run_groups(job, at.in + dim->begin * dim->in, at.out + dim->begin * dim->out, n, n, 0);
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
        const char *const scale = at.scale + first * dim->scale;
        const char *const zero = at.zero + first * dim->zero;
        if (job->loaded.scale != scale || job->loaded.zero != zero ||
            job->loaded.columns < m) { /* rows of a tile of blocks share theirs */
            load_params(job, 0, scale, dim->scale, zero, dim->zero, (size_t)m);
            set_flush(job);
            job->loaded.scale = scale;
            job->loaded.zero = zero;
            job->loaded.columns = m;
        }
        run_groups(job, at.in + i * dim->in, at.out + i * dim->out, (size_t)n,
                   (size_t)dim->block, 0);
        i += n;
    }
}

/* How many groups a row has. */
static ptrdiff_t groups_of(const struct pq_dim *dim)
{
    return pq_dim_uniform(dim) ? 1
                               : (dim->end - 1) / dim->block - dim->begin / dim->block + 1;
}

/* Whether rows are many and short, and the parameters of all follow each other, or are the
 * same: worth loading for many rows at a time. */
static bool is_batch(const struct job *job)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t groups = groups_of(dim), rows = dim[1].end - dim[1].begin;
    const bool whole = pq_dim_uniform(dim) || dim[0].begin % dim[0].block == 0;
    const bool follow = groups == 1 || (dim[1].scale == groups * dim[0].scale &&
                                        dim[1].zero == groups * dim[0].zero);
    return rows > 1 && dim[0].end - dim[0].begin <= TILE && groups <= TILE / 4 && whole &&
           (pq_dim_uniform(&dim[1]) || (dim[1].block == 1 && follow));
}

/* Dimensions 0 and 1: contiguous short rows. */
static void run_rows(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = job->plan.dim;
    const bool same = pq_dim_uniform(&dim[1]);
    const ptrdiff_t groups = groups_of(dim), first = dim[0].begin;
    const size_t n = (size_t)(dim[0].end - first);
    const size_t g = pq_dim_uniform(dim) ? n : (size_t)dim[0].block;
    const ptrdiff_t step = same ? dim[1].end - dim[1].begin : TILE / groups;
    const struct pq_dim *const along = groups > 1 || same ? &dim[0] : &dim[1];
    at.in += first * dim[0].in;
    at.out += first * dim[0].out;
    at.scale += pq_dim_scale(dim, first);
    at.zero += pq_dim_zero(dim, first);
    for (ptrdiff_t r = dim[1].begin; r < dim[1].end; r += step) {
        const ptrdiff_t rows = dim[1].end - r < step ? dim[1].end - r : step;
        const struct pq_cursor row = pq_cursor_at(at, &dim[1], r);
        load_params(job, 0, row.scale, along->scale, row.zero, along->zero,
                    (size_t)(same ? groups : rows * groups));
        set_flush(job);
        for (ptrdiff_t i = 0; i < rows; i++) {
            run_groups(job, row.in + i * dim[1].in, row.out + i * dim[1].out, n, g,
                       same ? 0 : i * groups);
        }
    }
    job->loaded.scale = NULL;
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
    /* Worth a look where other rows have them, too. */
    const struct pq_dim *rows = &job->plan.dim[1];
    if (job->loaded.scale != at.scale && rows->scale == 0 && rows->end - rows->begin > 1) {
        job->has_small = has_small_scale(job, at.scale + dim->begin * dim->scale,
                                         (size_t)(dim->end - dim->begin));
        set_flush(job);
        job->loaded.scale = at.scale;
    }
    for (ptrdiff_t i = dim->begin; i < dim->end; i += TILE) {
        const ptrdiff_t n = dim->end - i < TILE ? dim->end - i : TILE;
        const void *scales = at.scale + i * dim->scale;
        const char *const x = at.in + i * dim->in;
        char *const y = at.out + i * dim->out;
        if (is_staged(job)) {
            run_staged(job, x, y, (size_t)n, 0, scales, job->zero.i32);
        } else {
            job->vec(x, y, (size_t)n, scales, job->zero.i32);
        }
    }
}

/* ---- zero points beyond what float64 can subtract ---- */

/* One element: the difference as sign and magnitude, which 64 bits hold, converted once. */
static void run_far_element(void *p, struct pq_cursor at)
{
    const struct job *job = p;
    char code[sizeof(int32_t)], result[sizeof(double)];
    const char *from = at.in;
    if (is_taken(job)) {
        pq_take_codes(&job->take, code, at.in, job->in_step, 1);
        from = code;
    }
    const struct pq_params in = {from, 0, job->wide.in, job->in_swapped};
    const int64_t q = pq_load_integer(in), z = pq_load_integer(zeros_at(job, at.zero, 0));
    const uint64_t magnitude =
        q < z ? (uint64_t)z - (uint64_t)q : (uint64_t)q - (uint64_t)z;
    double scale;
    pq_load_scales_f64(&scale, scales_at(job, at.scale, 0), 1, job->single_scale);
    if (job->wide.out == PQ_F64) {
        const double d = q < z ? -(double)magnitude : (double)magnitude;
        const double v = d * scale;
        const double y = v == v ? v : pq_f64_bits(UINT64_C(0x7ff8000000000000));
        memcpy(result, &y, sizeof y);
    } else {
        const float d = q < z ? -(float)magnitude : (float)magnitude;
        const float v = d * (float)scale;
        const float y = v == v ? v : pq_f32_bits(0x7fc00000);
        const uint16_t half =
            job->wide.out == PQ_F16 ? pq_f16_from_f32(y) : pq_bf16_from_f32(y);
        if (job->wide.out == PQ_F32) {
            memcpy(result, &y, sizeof y);
        } else {
            memcpy(result, &half, sizeof half);
        }
    }
    pq_copy_element(at.out, result, job->out_size, job->out_swapped);
}

/* ---- the choice ---- */

static bool rows_contiguous(const struct job *job)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    return !job->in_swapped && !job->out_swapped && dim->in == job->in_step &&
           dim->out == job->out_step;
}

static pq_visit_fn *choose(const struct job *job, int *first)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t n = dim[0].end - dim[0].begin;
    const bool single_row = dim[1].end - dim[1].begin == 1;
    const bool in_groups = pq_dim_uniform(dim) || dim->block >= GROUP ||
                           dim->block == GROUP / 2 || dim->block == GROUP / 4;
    *first = 1;
    if (rows_contiguous(job) && job->grp != NULL && (n >= GROUP || single_row) &&
        in_groups) {
        if (is_batch(job)) {
            *first = 2;
            return run_rows;
        }
        return pq_dim_uniform(dim) ? run_uniform_row : run_grouped_row;
    }
    if (rows_contiguous(job) && job->vec != NULL && (n >= TILE / 2 || single_row) &&
        dim->block == 1 && dim->zero == 0 && dim->scale == (ptrdiff_t)sizeof(float) &&
        job->scale_type == PQ_F32 && !job->scale_swapped) {
        return run_scaled_row;
    }
    *first = 2;
    return is_across(job) ? run_squares : run_tiles;
}

/* A transposed array of wide elements that become narrow ones is walked along its own rows:
 * what is transposed then is the result, which is smaller. */
static void walk_along_input(struct job *job)
{
    struct pq_dim *dim = job->plan.dim;
    if (dim[1].in == (ptrdiff_t)job->in_size && dim[1].end > 1 &&
        crosswise(dim[0].in, dim[1].in) && dim[0].out == (ptrdiff_t)job->out_size &&
        job->out_size < job->in_size && !job->in_swapped && !job->out_swapped &&
        job->give.bits == 0) {
        const struct pq_dim inner = dim[0];
        dim[0] = dim[1];
        dim[1] = inner;
    }
}

static void run(struct job *job)
{
    if (job->plan.empty) {
        return;
    }
    walk_along_input(job);
    job->loaded.scale = NULL;
    job->loaded.zero = NULL;
    job->zeros_there = 0;
    job->one_zero = true;
    for (int d = 0; d < job->plan.ndim; d++) {
        job->one_zero = job->one_zero && job->plan.dim[d].zero == 0;
    }
    int first = 0;
    pq_visit_fn *visit = job->far ? run_far_element : choose(job, &first);
    const struct pq_dim *dim = &job->plan.dim[0];
    if (visit != run_tiles && visit != run_squares && !pq_dim_uniform(dim) &&
        dim->block > 1 && dim->block < GROUP) {
        job->flush_from = 0; /* a look at that many scales costs more than it is worth */
    }
    pq_walk(&job->plan, first, visit, job);
}

/* ---- entry points ---- */

/* Types of 8 and 16 bits, and narrow floats, from and to reals of at most 32. */
static bool has_kernel(enum pq_type real, enum pq_type code)
{
    return pq_is_real(real) && pq_row_of(real) >= 0 && pq_bytes_of(code) <= 2;
}

/* Whether elements follow each other at bits, in C order and without gaps. */
static bool is_dense(const struct pq_args *args, const struct pq_array *array)
{
    ptrdiff_t stride = pq_bits_of(array->type);
    for (int d = args->ndim - 1; d >= 0; d--) {
        if (args->shape[d] > 1 && array->bit_strides[d] != stride) {
            return false;
        }
        stride *= args->shape[d];
    }
    return true;
}

/* What takes elements from bits and puts them there. */
static struct pq_codes codes_at_bits(const struct pq_kernels *kernels,
                                     const struct pq_args *args,
                                     const struct pq_array *array)
{
    const int bits = pq_bits_of(array->type);
    struct pq_codes codes = {.bits = bits, .base = array->data, .last = -1};
    if (8 % bits == 0) {
        /* Narrow floats have their codes unpacked as integers of 4 bits. */
        const int row = pq_is_narrow_integer(array->type) ? pq_row_of(array->type) : -1;
        codes.unpack = kernels->unpack[row >= 0 ? row : PQ_U4_ROW];
        codes.pack = kernels->pack[bits == 4 ? 0 : 1];
    }
    if (is_dense(args, array)) {
        codes.last = -bits;
        ptrdiff_t count = 1;
        for (int d = 0; d < args->ndim; d++) {
            count *= args->shape[d];
        }
        codes.last += count * bits;
    }
    return codes;
}

static struct pq_codes codes_taken(const struct pq_kernels *kernels,
                                   const struct pq_args *args)
{
    struct pq_codes codes = {0};
    if (args->in.bit_strides != NULL) {
        codes = codes_at_bits(kernels, args, &args->in);
    }
    const int row = pq_row_of(args->in.type);
    if (pq_is_narrow_integer(args->in.type) && row >= 0) {
        codes.convert = kernels->extend[row];
    }
    return codes;
}

static struct pq_codes codes_given(const struct pq_kernels *kernels,
                                   const struct pq_args *args)
{
    struct pq_codes codes = {0};
    if (args->out.bit_strides != NULL) {
        codes = codes_at_bits(kernels, args, &args->out);
    }
    const int row = pq_row_of(args->out.type);
    if (pq_is_narrow_integer(args->out.type) && row >= 0) {
        codes.convert = kernels->narrow[row];
    }
    return codes;
}

/* Zero points are integers, or of the narrow float type itself. */
static bool zero_suits(const struct pq_args *args, enum pq_type code)
{
    return args->zero.data == NULL || pq_is_integer(args->zero.type) ||
           (pq_is_narrow_float(code) && args->zero.type == code);
}

static enum pq_status init(struct job *job, const struct pq_kernels *kernels,
                           const struct pq_args *args)
{
    const bool takes_bits = args->in.bit_strides != NULL;
    const bool gives_bits = args->out.bit_strides != NULL;
    job->kernels = kernels;
    job->together = gives_bits ? 8 : 1; /* at which a byte begins, whatever the stride */
    job->take = codes_taken(kernels, args);
    job->give = codes_given(kernels, args);
    job->in_size = pq_bytes_of(args->in.type);
    job->out_size = pq_bytes_of(args->out.type);
    job->in_step = takes_bits ? pq_bits_of(args->in.type) : (ptrdiff_t)job->in_size;
    job->out_step = gives_bits ? pq_bits_of(args->out.type) : (ptrdiff_t)job->out_size;
    job->in_swapped = args->in.swapped && job->in_size > 1;
    job->out_swapped = args->out.swapped && job->out_size > 1;
    job->scale_type = args->scale.type;
    job->scale_swapped = args->scale.swapped;
    job->zero_given = args->zero.data != NULL;
    job->zero_type = job->zero_given ? args->zero.type : PQ_I8;
    job->zero_swapped = job->zero_given && args->zero.swapped;
    const enum pq_status status = pq_plan_init(&job->plan, args, (size_t)job->out_step);
    job->in_start = job->plan.in - (const char *)args->in.data;
    job->out_start = job->plan.out - (char *)args->out.data;
    return status;
}

static void run_part(struct job *job, int part, int parts)
{
    /* Shares begin with bytes where the first element does; else one part does it all. */
    if (job->give.bits != 0 && (job->plan.out - job->give.base) % 8 != 0) {
        job->plan.empty = job->plan.empty || part != 0;
        parts = 1;
    }
    pq_plan_part(&job->plan, part, parts, job->together);
    const pq_fpenv found = pq_fpenv_enter();
    job->flushes = false;
    job->has_small = false;
    run(job);
    pq_fpenv_leave(found);
}

/* 32-bit integers, which float32 holds only some of. */
static bool is_whole(enum pq_type type)
{
    return pq_is_integer(type) && pq_bits_of(type) == 32;
}

/*
 * From which scale on codes are the same while subnormal operands and results count as
 * zeros: a subnormal x, of less than 2^-126, has a quotient of less than 1/4 where
 * |s| >= 2^-124, and so has what underflows. That is 0 to nearest and toward zero. Codes of
 * narrow floats begin at half of 2^-17, which wants |s| >= 2^-107, and as signs of zeros
 * count, nothing may be added. 0: never.
 */
static uint32_t least_scale(const struct pq_args *args)
{
    const bool outward =
        args->round == PQ_AWAY || args->round == PQ_CEIL || args->round == PQ_FLOOR;
    if (pq_is_narrow_float(args->out.type)) {
        return args->zero.data == NULL ? (uint32_t)(127 - 107) << 23 : 0;
    }
    return outward ? 0 : (uint32_t)(127 - 124) << 23;
}

/* Type of the quotient. */
static enum pq_type precision_of(const struct pq_args *args)
{
    const enum pq_type usual = args->in.type == PQ_F64 ? PQ_F64 : PQ_F32;
    return args->precision != PQ_NO_TYPE ? args->precision : usual;
}

static void choose_quantizer(struct job *job, const struct pq_kernels *kernels,
                             const struct pq_args *args)
{
    const enum pq_type precision = precision_of(args);
    const enum pq_type in = args->in.type, out = pq_carrier_of(args->out.type);
    const bool usual = has_kernel(in, out) && precision == PQ_F32;
    /* Float32 is what is rounded to anyway, but from float64. */
    const bool narrow = args->narrow_first && (precision != PQ_F32 || in == PQ_F64);
    const int from = pq_row_of(in), to = pq_row_of(out), clips = args->overflow == 0;
    job->grp = NULL;
    job->packed = NULL;
    job->vec = NULL;
    job->far = false;
    if (pq_is_narrow_float(out)) {
        if (usual) {
            job->grp = kernels->encode_grp[from][to][clips];
            job->vec = kernels->encode_vec[from][to][clips];
        }
    } else if (args->zero_first) {
        if (usual && in == PQ_F32 && pq_bits_of(out) == 8 && args->round == PQ_HALF_EVEN) {
            job->vec = kernels->quantize_shifted[to];
        }
    } else if (usual) {
        job->vec = kernels->quantize_vec[from][to][args->round];
        if (args->round == PQ_HALF_EVEN) {
            job->grp = kernels->quantize_grp[from][to];
        }
    } else if (in == PQ_F32 && is_whole(out) && precision == PQ_F32 &&
               args->round == PQ_HALF_EVEN && pq_zeros_fit(args, 0, 0)) {
        job->vec = kernels->quantize_whole[to];
    } else if (in == precision && in == args->scale.type && args->round == PQ_HALF_EVEN &&
               (in == PQ_F16 || in == PQ_BF16) && has_kernel(in, out)) {
        job->vec = kernels->quantize_rounded[from - PQ_F16_ROW][to];
    }
    job->wide_fn = kernels->quantize_wide;
    job->wide =
        (struct pq_wide){in, out, precision, args->round, args->zero_first, clips, narrow};
    job->single_scale = in != PQ_F64 && !narrow;
    job->float_zero =
        pq_is_narrow_float(out) || (args->zero_first && args->zero.data != NULL);
    job->negate_zero = false;
    job->flush_from = job->vec != NULL && PQ_CAN_FLUSH ? least_scale(args) : 0;
}

static enum pq_status set_quantize(struct job *job, const struct pq_kernels *kernels,
                                   const struct pq_args *args, int part, int parts)
{
    struct pq_args room;
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = pq_check_call(kernels, args, part, parts);
    }
    if (status != PQ_OK) {
        return status;
    }
    const enum pq_type in = args->in.type, out = args->out.type;
    if (!(pq_is_real(in) || in == PQ_I32) || !pq_is_code(out) ||
        !pq_is_real(precision_of(args)) || !zero_suits(args, out)) {
        return PQ_ERR_TYPE;
    }
    if ((unsigned)args->round >= PQ_ROUND_COUNT) {
        return PQ_ERR_ROUND;
    }
    choose_quantizer(job, kernels, args);
    struct pq_range range = {-(INT64_C(1) << 52), INT64_C(1) << 52};
    if (!args->zero_first && !pq_is_narrow_float(out)) {
        range = pq_range_of(out);
    } else if (job->vec != NULL) { /* converted to float32 at once */
        range = (struct pq_range){INT64_MIN, INT64_MAX};
    }
    if (args->zero.type != out && !pq_zeros_fit(args, range.lo, range.hi)) {
        return PQ_ERR_ZERO;
    }
    return init(job, kernels, args);
}

enum pq_status pq_quantize(const struct pq_kernels *kernels, const struct pq_args *args,
                           int part, int parts)
{
    struct job job;
    const enum pq_status status = set_quantize(&job, kernels, args, part, parts);
    if (status == PQ_OK) {
        run_part(&job, part, parts);
    }
    return status;
}

static enum pq_status set_dequantize(struct job *job, const struct pq_kernels *kernels,
                                     const struct pq_args *args, int part, int parts)
{
    struct pq_args room;
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = pq_check_call(kernels, args, part, parts);
    }
    if (status != PQ_OK) {
        return status;
    }
    const enum pq_type in = pq_carrier_of(args->in.type), out = args->out.type;
    if (!pq_is_code(in) || !pq_is_real(out) || args->out.bit_strides != NULL ||
        !zero_suits(args, args->in.type)) {
        return PQ_ERR_TYPE;
    }
    const bool own = args->zero.type == args->in.type;
    const int from = pq_row_of(in), to = pq_row_of(out);
    job->grp = NULL;
    job->packed = NULL;
    job->vec = NULL;
    /* Zero points may be anything, but a difference of more than 32 bits is too much for
     * the narrow kernels, and one that float64 cannot hold for the wide one. */
    const struct pq_range range = pq_range_of(args->in.type);
    const bool within = own || pq_is_narrow_float(in) || args->any_zeros != 0 ||
                        pq_zeros_fit(args, range.lo, range.hi);
    if (!within) {
        return PQ_ERR_ZERO;
    }
    const bool near =
        own || (args->any_zeros == 0 && pq_bytes_of(in) <= 2 && !pq_is_narrow_float(in)) ||
        pq_zeros_fit(args, -(1 << 30), 1 << 30);
    job->far = !near && !pq_zeros_fit(args, -(INT64_C(1) << 52), INT64_C(1) << 52);
    if (job->far && (pq_is_narrow_float(in) || !pq_zeros_fit(args, INT64_MIN, INT64_MAX))) {
        return PQ_ERR_ZERO;
    }
    if (pq_is_narrow_float(in) && has_kernel(out, in)) {
        job->grp = kernels->decode_grp[from][to];
        job->vec = kernels->decode_vec[from][to];
    } else if (has_kernel(out, in) && near) {
        job->grp = kernels->dequantize_grp[from][to];
        job->vec = kernels->dequantize_vec[from][to];
        if (args->in.bit_strides != NULL && pq_bits_of(args->in.type) == 4) {
            job->packed = kernels->dequantize_packed[pq_row_of(args->in.type)][to];
        }
    }
    if (out == PQ_F32 && is_whole(in) && pq_zeros_fit(args, 0, 0)) {
        job->vec = kernels->dequantize_whole[from];
    }
    job->wide_fn = kernels->dequantize_wide;
    job->wide =
        (struct pq_wide){in, out, out == PQ_F64 ? PQ_F64 : PQ_F32, PQ_HALF_EVEN, 0, 0, 0};
    job->single_scale = out != PQ_F64;
    job->float_zero = pq_is_narrow_float(in) && job->vec != NULL;
    job->negate_zero = true;
    job->flush_from = 0;
    return init(job, kernels, args);
}

enum pq_status pq_dequantize(const struct pq_kernels *kernels, const struct pq_args *args,
                             int part, int parts)
{
    struct job job;
    const enum pq_status status = set_dequantize(&job, kernels, args, part, parts);
    if (status == PQ_OK) {
        run_part(&job, part, parts);
    }
    return status;
}

/* ---- planned once ---- */

/* The bytes of a job that say what it does, up to the last dimension in use. */
static size_t head_size(const struct pq_plan *plan)
{
    const size_t unused = (size_t)(PQ_MAX_NDIM - plan->ndim) * sizeof plan->dim[0];
    return offsetof(struct job, plan) + sizeof *plan - unused;
}

static enum pq_status prepare(struct pq_prepared *prepared, struct job *job,
                              enum pq_status status)
{
    enum { HEAD = offsetof(struct pq_prepared, opaque) };
    _Static_assert(offsetof(struct job, plan) + sizeof job->plan <= sizeof prepared->opaque,
                   "a job has grown");
    if (prepared == NULL) {
        return PQ_ERR_NULL;
    }
    if (prepared->size < HEAD + offsetof(struct job, plan.dim)) {
        return PQ_ERR_SIZE;
    }
    memset(prepared->opaque, 0, offsetof(struct job, plan.dim));
    if (status == PQ_OK && prepared->size < HEAD + head_size(&job->plan)) {
        status = PQ_ERR_SIZE;
    }
    if (status == PQ_OK) {
        memcpy(prepared->opaque, job, head_size(&job->plan));
    }
    return status;
}

enum pq_status pq_prepare_quantize(struct pq_prepared *prepared,
                                   const struct pq_kernels *kernels,
                                   const struct pq_args *args)
{
    struct job job;
    return prepare(prepared, &job, set_quantize(&job, kernels, args, 0, 1));
}

enum pq_status pq_prepare_dequantize(struct pq_prepared *prepared,
                                     const struct pq_kernels *kernels,
                                     const struct pq_args *args)
{
    struct job job;
    return prepare(prepared, &job, set_dequantize(&job, kernels, args, 0, 1));
}

enum pq_status pq_run(const struct pq_prepared *prepared, const void *in, void *out,
                      int part, int parts)
{
    struct job job;
    if (prepared == NULL || in == NULL || out == NULL) {
        return PQ_ERR_NULL;
    }
    memcpy(&job, prepared->opaque, offsetof(struct job, plan.dim));
    if (job.kernels == NULL) {
        return PQ_ERR_NULL;
    }
    if (part < 0 || part >= parts) {
        return PQ_ERR_PART;
    }
    memcpy(&job, prepared->opaque, head_size(&job.plan));
    job.plan.in = (const char *)in + job.in_start;
    job.plan.out = (char *)out + job.out_start;
    job.take.base = (char *)(uintptr_t)in;
    job.give.base = out;
    run_part(&job, part, parts);
    return PQ_OK;
}

/* Kernels that copy codes, without what is above their bits. */
#define COPY_CODES(name, mask)                                                             \
    static void name(const void *x, void *y, size_t n, const float *scale,                 \
                     const int32_t *zero)                                                  \
    {                                                                                      \
        const unsigned char *const from = x;                                               \
        unsigned char *const to = y;                                                       \
        (void)scale;                                                                       \
        (void)zero;                                                                        \
        for (size_t i = 0; i < n; i++) {                                                   \
            to[i] = from[i] & (mask);                                                      \
        }                                                                                  \
    }

COPY_CODES(copy_8_bits, 0xff)
COPY_CODES(copy_6_bits, 0x3f)
COPY_CODES(copy_4_bits, 0x0f)

enum pq_status pq_repack(const struct pq_kernels *kernels, const struct pq_args *args,
                         int part, int parts)
{
    static const ptrdiff_t same[PQ_MAX_NDIM] = {0};
    static const float one = 1;
    struct pq_args room;
    enum pq_status status = pq_known_args(&args, &room);
    if (status != PQ_OK) {
        return status;
    }
    struct pq_args plain = *args;
    plain.block = NULL;
    plain.zero.data = NULL;
    plain.scale =
        (struct pq_array){.data = (void *)(uintptr_t)&one, .strides = same, .type = PQ_F32};
    status = pq_check_call(kernels, &plain, part, parts);
    if (status != PQ_OK) {
        return status;
    }
    const enum pq_type type = args->in.type;
    if (type != args->out.type ||
        !(pq_is_narrow_integer(type) || pq_is_narrow_float(type))) {
        return PQ_ERR_TYPE;
    }
    struct job job;
    job.grp = NULL;
    job.packed = NULL;
    job.far = false;
    /* Around it narrow integers are made bytes, and codes again. */
    const int bits = pq_bits_of(pq_carrier_of(type));
    job.vec = bits == 8 ? copy_8_bits : bits == 6 ? copy_6_bits : copy_4_bits;
    job.float_zero = false;
    job.flush_from = 0;
    job.single_scale = true;
    status = init(&job, kernels, &plain);
    if (status == PQ_OK) {
        run_part(&job, part, parts);
    }
    return status;
}
