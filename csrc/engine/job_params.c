/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load the parameters of a job to its parameter tiles: one for each group, or a copy for
 * each element. Flush subnormal numbers only if no scale is too small.
 */
#include "engine/job.h"
#include "math/fpenv.h"

/* ---- subnormal numbers ---- */

/* Define a function that returns true if a scale is too small to flush subnormals. */
#define HAS_SMALL(name, number, bits_of)                                                   \
    static bool name(const struct pq_job *job, const number *scales, size_t n)             \
    {                                                                                      \
        const int width = (int)sizeof(number) * 8;                                         \
        const bits_of least = (bits_of)job->how.flush_min_scale << (width - 32);           \
        bits_of below = 0; /* the top bit is 1 after a small scale */                      \
        for (size_t i = 0; least != 0 && i < n; i++) {                                     \
            bits_of bits;                                                                  \
            memcpy(&bits, scales + i, sizeof bits);                                        \
            below |= (bits << 1 >> 1) - least;                                             \
        }                                                                                  \
        return below >> (width - 1) != 0;                                                  \
    }
HAS_SMALL(has_small_f32, float, uint32_t)
HAS_SMALL(has_small_f64, double, uint64_t)
#undef HAS_SMALL

static void switch_flush(struct pq_job *job, bool flushes_subnormals)
{
    if (job->flushes_subnormals != flushes_subnormals) {
        job->flushes_subnormals = flushes_subnormals;
        pq_fpenv_set(flushes_subnormals);
    }
}

void pq_set_flush(struct pq_job *job)
{
    if (job->how.flush_min_scale != 0) {
        switch_flush(job, !job->has_small_scale);
        job->has_small_scale = false;
    }
}

/* ---- places of a tile ---- */

/* Copy the parameter at index `from` to the indices [to, to + n), and to up to
 * PQ_BROADCAST - 1 further indices. */
#define REPEAT(member, type)                                                               \
    {                                                                                      \
        const type v = tile->member[from];                                                 \
        for (ptrdiff_t i = to; i < to + n; i += PQ_BROADCAST) {                            \
            for (ptrdiff_t j = i; j < i + PQ_BROADCAST; j++) {                             \
                tile->member[j] = v;                                                       \
            }                                                                              \
        }                                                                                  \
    }

PQ_INLINE void repeat(union pq_param_tile *tile, bool general, ptrdiff_t from, ptrdiff_t to,
                      ptrdiff_t n)
{
    if (general) {
        REPEAT(u64, uint64_t)
    } else {
        REPEAT(i32, int32_t)
    }
}
#undef REPEAT

void pq_repeat_param(struct pq_job *job, ptrdiff_t from, ptrdiff_t to, ptrdiff_t n)
{
    const bool general = job->how.general;
    repeat(&job->scale, general, from, to, n);
    repeat(&job->zero, general, from, to, n);
    if (job->how.affine.has_offset) {
        repeat(&job->offset, general, from, to, n);
    }
}

/* Store the parameter tiles of the job in `tiles`, and return their number. Omit the zero
 * points if all elements share one, and the offsets of a call without offsets. */
static int list_varying_tiles(struct pq_job *job, union pq_param_tile *tiles[3])
{
    int count = 0;
    tiles[count++] = &job->scale;
    if (!job->one_zero) {
        tiles[count++] = &job->zero;
    }
    if (job->how.affine.has_offset) {
        tiles[count++] = &job->offset;
    }
    return count;
}

/* Groups along a row: `n` elements in groups of `size`. `first` is the position of the
 * first group, which is negative if the group begins before the row. */
struct groups {
    ptrdiff_t first, n, size;
};

/* Copy the parameter of each group to its elements, from index `to` of a tile on.
 * Complete vectors are written: up to PQ_BROADCAST - 1 parameters after the last element.
 */
#define BROADCAST(name, member, type)                                                      \
    PQ_INLINE void name(union pq_param_tile *PQ_RESTRICT tile, ptrdiff_t to,               \
                        const union pq_param_tile *PQ_RESTRICT source, ptrdiff_t from,     \
                        struct groups groups)                                              \
    {                                                                                      \
        type *const PQ_RESTRICT at = tile->member + to;                                    \
        for (ptrdiff_t i = 0; groups.size == 1 && i < groups.n; i += PQ_BROADCAST) {       \
            memcpy(at + i, source->member + from + i, PQ_BROADCAST * sizeof *at);          \
        }                                                                                  \
        ptrdiff_t end = groups.first;                                                      \
        for (ptrdiff_t i = end; groups.size > 1 && i < groups.n; i = end, from++) {        \
            const type v = source->member[from];                                           \
            end = i + groups.size < groups.n ? i + groups.size : groups.n;                 \
            for (ptrdiff_t j = i < 0 ? 0 : i; j < end; j += PQ_BROADCAST) {                \
                for (int k = 0; k < PQ_BROADCAST; k++) {                                   \
                    at[j + k] = v;                                                         \
                }                                                                          \
            }                                                                              \
        }                                                                                  \
    }

BROADCAST(broadcast_i32, i32, int32_t)
BROADCAST(broadcast_u64, u64, uint64_t)
#undef BROADCAST

static void broadcast(const struct pq_job *job, union pq_param_tile *tile, ptrdiff_t to,
                      const union pq_param_tile *source, ptrdiff_t from,
                      struct groups groups)
{
    (job->how.general ? broadcast_u64 : broadcast_i32)(tile, to, source, from, groups);
}

static size_t size_of_place(const struct pq_job *job)
{
    return job->how.general ? sizeof(uint64_t) : sizeof(int32_t);
}

/* Copy `n` parameters from index `from` on to the begin of another tile. */
static void copy_places(const struct pq_job *job, union pq_param_tile *to,
                        const union pq_param_tile *tile, ptrdiff_t from, ptrdiff_t n)
{
    const size_t size = size_of_place(job);
    memcpy(to, (const char *)tile + (size_t)from * size, (size_t)n * size);
}

/* Repeat the `n` parameters from index `from` on, until there are `times` copies. */
static void repeat_row(struct pq_job *job, ptrdiff_t from, ptrdiff_t n, ptrdiff_t times)
{
    union pq_param_tile *tiles[3];
    const int count = list_varying_tiles(job, tiles);
    const size_t size = size_of_place(job), all = (size_t)(n * times) * size;
    for (int k = 0; k < count; k++) {
        char *const first = (char *)tiles[k] + (size_t)from * size;
        for (size_t done = (size_t)n * size, more; done < all; done += more) {
            more = done < all - done ? done : all - done;
            memcpy(first + done, first, more);
        }
    }
}

/* ---- scales, zero points and offsets ---- */

/* Set `n` zero points of a call without zero points. Float zero points are -0, because
 * adding -0 keeps the sign of zero. */
static void clear_zeros(struct pq_job *job, ptrdiff_t to, size_t n)
{
    const int32_t bits = job->how.float_zero ? INT32_MIN : 0;
    const double number = job->how.float_zero ? -0.0 : 0;
    for (size_t i = 0; i < n; i++) {
        if (!job->how.general) {
            job->zero.i32[to + (ptrdiff_t)i] = bits;
        } else {
            job->zero.f64[to + (ptrdiff_t)i] = number;
        }
    }
}

static void load_zeros(struct pq_job *job, ptrdiff_t to, const struct pq_params *from,
                       size_t n)
{
    if (!job->zero_given) {
        clear_zeros(job, to, n);
    } else if (job->how.wide_zero) {
        pq_load_zeros_u64(job->zero.u64 + to, from, n);
    } else if (job->how.general) {
        pq_load_zeros_f64(job->zero.f64 + to, from, n);
    } else if (!job->how.float_zero) {
        pq_load_zeros_i32(job->zero.i32 + to, from, n);
    } else {
        float zeros[PQ_TILE];
        pq_load_zeros_f32(zeros, from, n);
        for (size_t i = 0; job->how.negate_zero && i < n; i++) {
            zeros[i] = -zeros[i];
        }
        memcpy(job->zero.i32 + to, zeros, n * sizeof *zeros);
    }
}

/* Load scales. Return true if a scale is too small to flush subnormals. */
static bool load_scales(struct pq_job *job, ptrdiff_t to, const struct pq_params *from,
                        size_t n)
{
    if (job->how.general) {
        pq_load_scales_f64(job->scale.f64 + to, from, n, job->how.single_scale);
        return has_small_f64(job, job->scale.f64 + to, n);
    }
    pq_load_scales_f32(job->scale.f32 + to, from, n);
    return has_small_f32(job, job->scale.f32 + to, n);
}

/* Load the offsets of the scales `from`. */
static void load_offsets(struct pq_job *job, ptrdiff_t to, struct pq_params from, size_t n)
{
    from.data = (const char *)((uintptr_t)from.data + job->offset_from);
    if (job->how.general) {
        pq_load_scales_f64(job->offset.f64 + to, &from, n, job->how.single_scale);
    } else {
        pq_load_scales_f32(job->offset.f32 + to, &from, n);
    }
}

/* If all elements share a zero point, store it at the first `n` indices, once for the
 * complete job. */
static void place_zeros(struct pq_job *job, const char *zero, ptrdiff_t n)
{
    if (job->one_zero && job->zeros_there < n) {
        const struct pq_params one = pq_zeros_at(job, zero, 0);
        load_zeros(job, 0, &one, 1);
        repeat(&job->zero, job->how.general, 0, 0, n);
        job->zeros_there = n;
    }
}

void pq_load_params(struct pq_job *job, ptrdiff_t to, const char *scale,
                    ptrdiff_t scale_stride, const char *zero, ptrdiff_t zero_stride,
                    size_t n)
{
    if (job->how.load != NULL) {
        job->how.load(job, to, scale, scale_stride, n);
        return;
    }
    const struct pq_params s = pq_scales_at(job, scale, scale_stride);
    if (load_scales(job, to, &s, n)) {
        /* If subnormals are flushed now, the conversion may have changed a scale to 0. */
        switch_flush(job, false);
        load_scales(job, to, &s, n);
        job->has_small_scale = true;
    }
    if (job->how.affine.has_offset) {
        load_offsets(job, to, s, n);
    }
    if (n > 1 && job->one_zero) {
        place_zeros(job, zero, to + (ptrdiff_t)n);
    } else if (to + (ptrdiff_t)n > job->zeros_there) {
        const struct pq_params z = pq_zeros_at(job, zero, zero_stride);
        load_zeros(job, to, &z, n);
    }
}

/* ---- tiles of elements ---- */

/* Load the parameters of the indices [first, first + n) of dim[0], one for each index, to
 * the parameter tiles from index `to` on. */
static void load_row(struct pq_job *job, struct pq_position at, ptrdiff_t first,
                     ptrdiff_t to, ptrdiff_t n)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    if (pq_dim_uniform(dim)) {
        pq_load_params(job, to, at.scale, 0, at.zero, 0, 1);
        pq_repeat_param(job, to, to, n);
        return;
    }
    const ptrdiff_t group = first / dim->group_size;
    const ptrdiff_t count = (first + n - 1) / dim->group_size - group + 1;
    pq_load_params(job, to, at.scale + group * dim->scale, dim->scale,
                   at.zero + group * dim->zero, dim->zero, (size_t)count);
    if (dim->group_size > 1) {
        const struct groups groups = {group * dim->group_size - first, n, dim->group_size};
        union pq_param_tile *tiles[3], source;
        for (int k = list_varying_tiles(job, tiles); k-- > 0;) {
            copy_places(job, &source, tiles[k], to, count);
            broadcast(job, tiles[k], to, &source, 0, groups);
        }
    }
}

/* Load the parameters of `rows` complete rows with equally spaced parameters, and copy them
 * to the elements. */
static void load_spaced_rows(struct pq_job *job, struct pq_position at, ptrdiff_t rows)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t count = pq_dim_groups(dim), columns = dim->end;
    const struct pq_dim *const along = count == 1 ? &dim[1] : dim;
    const struct groups groups = {0, columns, count == 1 ? columns : dim->group_size};
    union pq_param_tile *tiles[3], source;
    pq_load_params(job, 0, at.scale, along->scale, at.zero, along->zero,
                   (size_t)(rows * count));
    for (int k = list_varying_tiles(job, tiles); k-- > 0;) {
        copy_places(job, &source, tiles[k], 0, rows * count);
        for (ptrdiff_t r = 0; r < rows; r++) {
            broadcast(job, tiles[k], r * columns, &source, r * count, groups);
        }
    }
    job->loaded.scale = NULL;
    pq_set_flush(job);
}

/* Load the parameters of the indices [row, row + rows) of dim[1], one pair for each row.
 */
static void load_row_params(struct pq_job *job, struct pq_position row_start, ptrdiff_t row,
                            ptrdiff_t rows)
{
    const struct pq_dim *dim = &job->plan.dim[1];
    const ptrdiff_t step = dim->group_size == 1 ? rows : 1;
    for (ptrdiff_t r = 0; r < rows; r += step) {
        const struct pq_position at = pq_position_at(row_start, dim, row + r);
        pq_load_params(job, r, at.scale, dim->scale, at.zero, dim->zero, (size_t)step);
    }
}

ptrdiff_t pq_load_tile_params(struct pq_job *job, struct pq_position row_start,
                              ptrdiff_t row, ptrdiff_t rows, ptrdiff_t column,
                              ptrdiff_t columns)
{
    const struct pq_dim *dim = job->plan.dim;
    const bool same_rows = pq_dim_uniform(&dim[1]) || rows == 1;
    const bool single = same_rows && pq_dim_uniform(&dim[0]);
    const struct pq_position at = pq_position_at(row_start, &dim[1], row);
    const ptrdiff_t share = single ? rows * columns : 1;
    if (job->equal_spacing) {
        place_zeros(job, at.zero, rows * columns);
        load_spaced_rows(job, at, rows);
        return 1;
    }
    if (same_rows && job->loaded.scale == at.scale && job->loaded.zero == at.zero &&
        (single || job->loaded.first == column) && job->loaded.rows >= rows &&
        (single || job->loaded.columns == columns) &&
        job->loaded.columns * job->loaded.rows >= rows * columns) {
        return share;
    }
    if (!single && pq_dim_uniform(&dim[0]) && job->how.by_groups && columns >= PQ_GROUP) {
        job->loaded.scale = NULL;
        load_row_params(job, row_start, row, rows);
        pq_set_flush(job);
        return columns;
    }
    if (single) {
        pq_load_params(job, 0, at.scale, 0, at.zero, 0, 1);
    } else {
        place_zeros(job, at.zero, rows * columns);
    }
    for (ptrdiff_t r = 0; !single && r < rows;) {
        const ptrdiff_t left = dim[1].group_size - (row + r) % dim[1].group_size;
        const ptrdiff_t same = same_rows || left > rows - r ? rows - r : left;
        load_row(job, pq_position_at(row_start, &dim[1], row + r), column, r * columns,
                 columns);
        if (same > 1) {
            repeat_row(job, r * columns, columns, same);
        }
        r += same;
    }
    job->loaded.scale = same_rows ? at.scale : NULL;
    job->loaded.zero = at.zero;
    job->loaded.first = column;
    job->loaded.rows = rows;
    job->loaded.columns = columns;
    pq_set_flush(job);
    return share;
}
