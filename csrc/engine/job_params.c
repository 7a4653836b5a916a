/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a job, as its kernels take them: one per group, or one per element. */
#include "engine/job.h"
#include "math/fpenv.h"

/* ---- subnormal numbers ---- */

bool pq_has_small_scale(const struct pq_job *job, const void *scales, size_t n)
{
    enum { LANES = 16 };
    const uint32_t least = job->how.flush_min_scale;
    const char *from = scales;
    uint32_t bits[LANES], below = 0; /* the top bit says it */
    if (least == 0) {
        return false;
    }
    if (n >= LANES) {
        uint32_t lanes[LANES] = {0};
        for (; n >= LANES; n -= LANES, from += sizeof bits) {
            memcpy(bits, from, sizeof bits);
            for (int k = 0; k < LANES; k++) {
                lanes[k] |= (bits[k] & 0x7fffffff) - least;
            }
        }
        for (int k = 0; k < LANES; k++) {
            below |= lanes[k];
        }
    }
    for (size_t i = 0; i < n; i++) {
        memcpy(bits, from + i * sizeof *bits, sizeof *bits);
        below |= (*bits & 0x7fffffff) - least;
    }
    return below >> 31 != 0;
}

/* The same of float64 scales. */
static bool has_small_f64(const struct pq_job *job, const double *scales, size_t n)
{
    const uint64_t least = (uint64_t)job->how.flush_min_scale << 32;
    uint64_t below = 0;
    if (least == 0) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, scales + i, sizeof bits);
        below |= (bits & INT64_MAX) - least;
    }
    return below >> 63 != 0;
}

static void flush(struct pq_job *job, bool flushes_subnormals)
{
    if (job->flushes_subnormals != flushes_subnormals) {
        job->flushes_subnormals = flushes_subnormals;
        pq_fpenv_set(flushes_subnormals);
    }
}

void pq_set_flush(struct pq_job *job)
{
    if (job->how.flush_min_scale != 0) {
        flush(job, !job->has_small_scale);
        job->has_small_scale = false;
    }
}

/* ---- parameters ---- */

/* What is added for no zero point: to floats -0, which leaves the sign of zero as it is. */
static void no_zeros(struct pq_job *job, ptrdiff_t to, size_t n)
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
        no_zeros(job, to, n);
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

/* Whether one is too small. */
static bool load_scales(struct pq_job *job, ptrdiff_t to, const struct pq_params *from,
                        size_t n)
{
    if (job->how.general) {
        pq_load_scales_f64(job->scale.f64 + to, from, n, job->how.single_scale);
        return has_small_f64(job, job->scale.f64 + to, n);
    }
    pq_load_scales_f32(job->scale.f32 + to, from, n);
    return pq_has_small_scale(job, job->scale.f32 + to, n);
}

/* Where numbers lie as scales do. */
static void load_offsets(struct pq_job *job, ptrdiff_t to, struct pq_params from, size_t n)
{
    from.data = (const char *)((uintptr_t)from.data + job->offset_from);
    if (job->how.general) {
        pq_load_scales_f64(job->offset.f64 + to, &from, n, job->how.single_scale);
    } else {
        pq_load_scales_f32(job->offset.f32 + to, &from, n);
    }
}

/* Where all share a zero point: at the first `n` places for good. */
static void place_zeros(struct pq_job *job, const char *zero, ptrdiff_t n)
{
    if (!job->one_zero || job->zeros_there >= n) {
        return;
    }
    const struct pq_params one = pq_zeros_at(job, zero, 0);
    load_zeros(job, 0, &one, 1);
    for (ptrdiff_t i = 1; i < n; i++) {
        if (!job->how.general) {
            job->zero.i32[i] = job->zero.i32[0];
        } else {
            job->zero.f64[i] = job->zero.f64[0];
        }
    }
    job->zeros_there = n;
}

void pq_load_params(struct pq_job *job, ptrdiff_t to, const char *scale,
                    ptrdiff_t scale_stride, const char *zero, ptrdiff_t zero_stride,
                    size_t n)
{
    const struct pq_params s = pq_scales_at(job, scale, scale_stride);
    if (load_scales(job, to, &s, n)) {
        /* One that is 0 may have become so just now. */
        flush(job, false);
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

#define REPEAT(array, type)                                                                \
    {                                                                                      \
        const type v = job->array[from];                                                   \
        for (ptrdiff_t i = to; i < to + n; i += PQ_BROADCAST) {                            \
            for (ptrdiff_t j = i; j < i + PQ_BROADCAST; j++) {                             \
                job->array[j] = v;                                                         \
            }                                                                              \
        }                                                                                  \
    }

void pq_repeat_param(struct pq_job *job, ptrdiff_t from, ptrdiff_t to, ptrdiff_t n)
{
    if (!job->how.general) {
        REPEAT(scale.f32, float)
        REPEAT(zero.i32, int32_t)
    } else {
        REPEAT(scale.f64, double)
        REPEAT(zero.f64, double)
    }
    if (job->how.affine.has_offset && !job->how.general) {
        REPEAT(offset.f32, float)
    } else if (job->how.affine.has_offset) {
        REPEAT(offset.f64, double)
    }
}
#undef REPEAT

/* Parameters of groups, from where they are spread to elements. */
union numbers {
    float f32[PQ_TILE + PQ_BROADCAST];
    int32_t i32[PQ_TILE + PQ_BROADCAST];
    double f64[PQ_TILE + PQ_BROADCAST];
};
struct group_params {
    union numbers scale, zero, offset;
};

/* To n elements in groups of `block`, of which the first begins at `first`: whole vectors,
 * and so a few elements more. */
#define SPREAD(name, type)                                                                 \
    PQ_INLINE void name(type *PQ_RESTRICT to, const type *PQ_RESTRICT from,                \
                        ptrdiff_t first, ptrdiff_t n, ptrdiff_t block)                     \
    {                                                                                      \
        if (block == 1) {                                                                  \
            for (ptrdiff_t i = 0; i < n; i += PQ_BROADCAST) {                              \
                memcpy(to + i, from + i, PQ_BROADCAST * sizeof *to);                       \
            }                                                                              \
            return;                                                                        \
        }                                                                                  \
        for (ptrdiff_t i = first, end; i < n; i = end, from++) {                           \
            const type v = *from;                                                          \
            end = i + block < n ? i + block : n;                                           \
            for (ptrdiff_t j = i < 0 ? 0 : i; j < end; j += PQ_BROADCAST) {                \
                for (int k = 0; k < PQ_BROADCAST; k++) {                                   \
                    to[j + k] = v;                                                         \
                }                                                                          \
            }                                                                              \
        }                                                                                  \
    }

SPREAD(spread_f32, float)
SPREAD(spread_i32, int32_t)
SPREAD(spread_f64, double)

/* The places of an element each, that of the first `to`, from groups' beginning at `from`.
 */
static void spread_groups(struct pq_job *job, ptrdiff_t to,
                          const struct group_params *groups, ptrdiff_t from,
                          ptrdiff_t first, ptrdiff_t n, ptrdiff_t block)
{
    if (!job->how.general) {
        spread_f32(job->scale.f32 + to, groups->scale.f32 + from, first, n, block);
    } else {
        spread_f64(job->scale.f64 + to, groups->scale.f64 + from, first, n, block);
    }
    if (!job->one_zero && !job->how.general) {
        spread_i32(job->zero.i32 + to, groups->zero.i32 + from, first, n, block);
    } else if (!job->one_zero) {
        spread_f64(job->zero.f64 + to, groups->zero.f64 + from, first, n, block);
    }
    if (job->how.affine.has_offset && !job->how.general) {
        spread_f32(job->offset.f32 + to, groups->offset.f32 + from, first, n, block);
    } else if (job->how.affine.has_offset) {
        spread_f64(job->offset.f64 + to, groups->offset.f64 + from, first, n, block);
    }
}

/* The `n` parameters from place `at` on. */
static void take_groups(const struct pq_job *job, struct group_params *to, ptrdiff_t at,
                        ptrdiff_t n)
{
    const size_t some = (size_t)n;
    if (!job->how.general) {
        memcpy(to->scale.f32, job->scale.f32 + at, some * sizeof(float));
        memcpy(to->zero.i32, job->zero.i32 + at, some * sizeof(int32_t));
    } else {
        memcpy(to->scale.f64, job->scale.f64 + at, some * sizeof(double));
        memcpy(to->zero.f64, job->zero.f64 + at, some * sizeof(double));
    }
    if (job->how.affine.has_offset && !job->how.general) {
        memcpy(to->offset.f32, job->offset.f32 + at, some * sizeof(float));
    } else if (job->how.affine.has_offset) {
        memcpy(to->offset.f64, job->offset.f64 + at, some * sizeof(double));
    }
}

/* Places [to, to + n) for the indices [first, first + n) of dim[0]. */
static void expand_row(struct pq_job *job, struct pq_position at, ptrdiff_t first,
                       ptrdiff_t to, ptrdiff_t n)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    if (pq_dim_uniform(dim)) {
        pq_load_params(job, to, at.scale, 0, at.zero, 0, 1);
        pq_repeat_param(job, to, to, n);
        return;
    }
    const ptrdiff_t group = first / dim->group_size;
    const ptrdiff_t groups = (first + n - 1) / dim->group_size - group + 1;
    pq_load_params(job, to, at.scale + group * dim->scale, dim->scale,
                   at.zero + group * dim->zero, dim->zero, (size_t)groups);
    if (dim->group_size > 1) {
        struct group_params all;
        take_groups(job, &all, to, groups);
        spread_groups(job, to, &all, 0, group * dim->group_size - first, n,
                      dim->group_size);
    }
}

/* Places for the elements of `count` planes. */
static void load_planes(struct pq_job *job, struct pq_position at, ptrdiff_t count)
{
    const struct pq_planes *const p = &job->planes;
    const ptrdiff_t groups = p->row_groups * p->groups;
    struct group_params all;
    pq_load_params(job, 0, at.scale, p->scale, at.zero, p->zero, (size_t)(count * groups));
    take_groups(job, &all, 0, count * groups);
    ptrdiff_t to = 0;
    for (ptrdiff_t plane = 0; plane < count * groups; plane += groups) {
        for (ptrdiff_t from = plane, r = 0; r < p->rows; from += p->groups) {
            for (ptrdiff_t k = 0; k < p->row_group_size && r < p->rows; k++, r++) {
                spread_groups(job, to, &all, from, 0, p->columns, p->group_size);
                to += p->columns;
            }
        }
    }
    job->loaded.scale = NULL;
    pq_set_flush(job);
}

/* The `n` parameters at place `from` as often as `times` in all, one after the other. */
static void repeat_row(struct pq_job *job, ptrdiff_t from, ptrdiff_t n, ptrdiff_t times)
{
    const bool single = !job->how.general;
    const size_t size = single ? sizeof(float) : sizeof(double);
    char *const scale =
        single ? (char *)(job->scale.f32 + from) : (char *)(job->scale.f64 + from);
    char *const zero =
        single ? (char *)(job->zero.i32 + from) : (char *)(job->zero.f64 + from);
    char *const offset =
        single ? (char *)(job->offset.f32 + from) : (char *)(job->offset.f64 + from);
    const size_t all = (size_t)(n * times) * size;
    for (size_t done = (size_t)n * size; done < all;) {
        const size_t more = done < all - done ? done : all - done;
        memcpy(scale + done, scale, more);
        if (!job->one_zero) {
            memcpy(zero + done, zero, more);
        }
        if (job->how.affine.has_offset) {
            memcpy(offset + done, offset, more);
        }
        done += more;
    }
}

/* Places [0, rows) for the indices [row, row + rows) of dim[1]. */
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
    if (job->planes.rows != 0) {
        place_zeros(job, at.zero, rows * columns);
        load_planes(job, at, rows);
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
        expand_row(job, pq_position_at(row_start, &dim[1], row + r), column, r * columns,
                   columns);
        repeat_row(job, r * columns, columns, same);
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
