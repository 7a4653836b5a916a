/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Load scales, zero points and offsets of any type and stride. The first part of this file
 * converts rows of parameters to the types of kernels. The second part fills the parameter
 * tiles of a job: one parameter for each group, or a copy for each element. pq_set_flush()
 * flushes subnormal numbers unless a scale is too small.
 */
#include "engine/params.h"

#include <stdbool.h>

#include "engine/job.h"
#include "math/fpenv.h"
#include "math/narrow_float.h"
#include "math/scalar_math.h"
#include "types.h"

/* ---- rows of parameters ---- */

/* Buffer size in elements, for parameters with gaps or not in native byte order. */
enum { BUFFER_ELEMENTS = PQ_SIZE(256, 32) };

/* Copy `n` elements at `data` to `to`, in native byte order, and return `to`. */
static const char *copy_params(void *to, const struct pq_params *from, const char *data,
                               size_t n)
{
    const struct pq_tile tile = {
        1, (ptrdiff_t)n, 0, from->stride, pq_bytes_of(from->type), from->swapped != 0};
    pq_gather(NULL, to, data, &tile);
    return to;
}

/* Return true if `n` elements are contiguous and in native byte order. */
PQ_INLINE bool are_contiguous(const struct pq_params *from, size_t n)
{
    return (n == 1 || from->stride == (ptrdiff_t)pq_bytes_of(from->type)) && !from->swapped;
}

/* One case of a switch over types: convert `n` elements in a loop that the compiler
 * vectorizes. The expression `number` converts the element `v`. */
#define CASE(type, element, number)                                                        \
    case PQ_##type:                                                                        \
        for (size_t i = 0; i < n; i++) {                                                   \
            element v;                                                                     \
            memcpy(&v, data + i * sizeof v, sizeof v);                                     \
            to[i] = number;                                                                \
        }                                                                                  \
        break;

/* Return the value of a code. If the format has signed NaN, NaN keeps its sign, because NaN
 * codes of quantized elements have the sign of a NaN scale. */
static float decode_param(uint8_t code, enum pq_type type)
{
    if (type == PQ_F8E8M0FNU) {
        return pq_f32_from_e8m0(code);
    }
    const struct pq_format format = pq_format_of(type);
    const float v = pq_decode(code, type);
    const bool negative = v != v && format.signed_nan && (code & format.sign) != 0;
    return negative ? pq_f32_bits(pq_bits_f32(v) | 0x80000000) : v;
}

/* Load parameters of any real or narrow float type. Narrow floats are rare as parameters,
 * so their loop is not vectorized. */
#define LOAD_REALS(from_f32, from_f64)                                                     \
    switch (from->type) {                                                                  \
        CASE(F32, float, from_f32(v))                                                      \
        CASE(F16, uint16_t, from_f32(pq_f32_from_f16(v)))                                  \
        CASE(BF16, uint16_t, from_f32(pq_f32_from_bf16(v)))                                \
        CASE(F64, double, from_f64(v))                                                     \
    default:                                                                               \
        for (size_t i = 0; i < n; i++) {                                                   \
            to[i] = from_f32(decode_param((uint8_t)data[i], from->type));                  \
        }                                                                                  \
        break;                                                                             \
    }

#define LOAD_INTEGERS(as_number)                                                           \
    switch (from->type) {                                                                  \
        CASE(I8, int8_t, as_number(v))                                                     \
        CASE(U8, uint8_t, as_number(v))                                                    \
        CASE(I16, int16_t, as_number(v))                                                   \
        CASE(U16, uint16_t, as_number(v))                                                  \
        CASE(I32, int32_t, as_number(v))                                                   \
        CASE(U32, uint32_t, as_number(v))                                                  \
        CASE(I64, int64_t, as_number(v))                                                   \
        CASE(I4, uint8_t, as_number(((v & 15) ^ 8) - 8))                                   \
        CASE(U4, uint8_t, as_number(v & 15))                                               \
        CASE(I2, uint8_t, as_number(((v & 3) ^ 2) - 2))                                    \
        CASE(U2, uint8_t, as_number(v & 3))                                                \
    default:                                                                               \
        CASE(U64, uint64_t, as_number(v))                                                  \
    }

#define LOAD_ANY(as_number, from_f32, from_f64)                                            \
    if (pq_is_integer(from->type)) {                                                       \
        LOAD_INTEGERS(as_number)                                                           \
    } else {                                                                               \
        LOAD_REALS(from_f32, from_f64)                                                     \
    }

/* Define a function that loads `all` parameters as values of type `number`. The statement
 * `load` converts `n` elements at `data`. With a stride of 0, the function converts one
 * element and repeats the result. */
#define LOADER(name, number, own, load)                                                    \
    void name(number *PQ_RESTRICT to, const struct pq_params *from, size_t all)            \
    {                                                                                      \
        char room[BUFFER_ELEMENTS * sizeof(double)];                                       \
        const size_t others = from->stride == 0 && all > 1 ? 1 : all;                      \
        for (size_t first = 0, n; first < others; first += n, to += n) {                   \
            n = others - first < BUFFER_ELEMENTS ? others - first : BUFFER_ELEMENTS;       \
            const char *data = from->data + (ptrdiff_t)first * from->stride;               \
            data = are_contiguous(from, n) ? data : copy_params(room, from, data, n);      \
            if (n > 1 && from->type == PQ_##own) {                                         \
                memcpy(to, data, n * sizeof *to);                                          \
                continue;                                                                  \
            }                                                                              \
            load                                                                           \
        }                                                                                  \
        for (size_t i = 0; i < all - others; i++) {                                        \
            to[i] = to[-1];                                                                \
        }                                                                                  \
    }

LOADER(pq_load_scales_f32, float, F32, LOAD_ANY((float)(double), (float), pq_f32_from_f64))
LOADER(pq_load_zeros_i32, int32_t, I32, LOAD_INTEGERS((int32_t)))
LOADER(pq_load_zeros_f32, float, F32, LOAD_ANY((float), (float), pq_f32_from_f64))
LOADER(pq_load_zeros_u64, uint64_t, I64, LOAD_INTEGERS((uint64_t)))
LOADER(pq_load_zeros_f64, double, F64, LOAD_ANY((double), pq_f64_from_f32, (double)))

void pq_load_scales_f64(double *to, const struct pq_params *from, size_t n, int single)
{
    pq_load_zeros_f64(to, from, n);
    for (size_t i = 0; single && i < n; i++) {
        to[i] = pq_f64_from_f32(pq_f32_from_f64(to[i]));
    }
}

void pq_load_reals_f32(const struct pq_kernels *kernels, float *to, const void *from,
                       enum pq_type type, size_t n)
{
    const struct pq_params in_order = {from, (ptrdiff_t)pq_bytes_of(type), type, 0};
    if (type == PQ_F16 && kernels->widen_f16 != NULL) {
        kernels->widen_f16(to, from, n);
    } else {
        pq_load_scales_f32(to, &in_order, n);
    }
}

int64_t pq_load_integer(const struct pq_params *from)
{
    uint64_t value;
    pq_load_zeros_u64(&value, from, 1);
    return (int64_t)value;
}

/* ---- subnormal numbers ---- */

/* Define a function that returns true if a scale is less than `how.flush_min_scale`. */
#define HAS_SMALL(name, number, bits_of)                                                   \
    static bool name(const struct pq_job *job, const number *scales, size_t n)             \
    {                                                                                      \
        const int width = (int)sizeof(number) * 8;                                         \
        const bits_of least = (bits_of)job->how.flush_min_scale << (width - 32);           \
        bits_of below = 0; /* a scale below `least` sets the top bit */                    \
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

void pq_set_flush(struct pq_job *job)
{
    if (job->how.flush_min_scale != 0 && job->flushes_subnormals == job->has_small_scale) {
        job->flushes_subnormals = !job->has_small_scale;
        pq_fpenv_set(job->flushes_subnormals);
    }
    job->has_small_scale = false;
}

/* ---- copies in a parameter tile ---- */

/* Store `n` copies of a parameter of `size` bytes at `to`, and up to PQ_BROADCAST - 1
 * further copies. */
PQ_INLINE void fill_params(char *to, const char *from, ptrdiff_t n, ptrdiff_t size)
{
    uint64_t v = 0;
    memcpy(&v, from, (size_t)size);
    for (ptrdiff_t i = 0; i < n; i += PQ_BROADCAST) {
        for (ptrdiff_t j = i; j < i + PQ_BROADCAST; j++) {
            memcpy(to + j * size, &v, (size_t)size);
        }
    }
}

/* Copy the parameter at index `from` to the indices [to, to + n). */
static void repeat(const struct pq_job *job, union pq_param_tile *tile, ptrdiff_t from,
                   ptrdiff_t to, ptrdiff_t n)
{
    if (job->how.general) {
        fill_params((char *)(tile->u64 + to), (char *)(tile->u64 + from), n, 8);
    } else {
        fill_params((char *)(tile->i32 + to), (char *)(tile->i32 + from), n, 4);
    }
}

void pq_repeat_param(struct pq_job *job, ptrdiff_t from, ptrdiff_t to, ptrdiff_t n)
{
    repeat(job, &job->scale, from, to, n);
    repeat(job, &job->zero, from, to, n);
    if (job->how.affine.has_offset) {
        repeat(job, &job->offset, from, to, n);
    }
}

/* The parameter tiles of a job: scales, zero points and offsets. */
enum { PARAM_TILES = 3 };

static union pq_param_tile *tile_at(struct pq_job *job, int k)
{
    return k == 0 ? &job->scale : k == 1 ? &job->zero : &job->offset;
}

/* Return true if elements can have different parameters of the kind `k`, which is 0 for
 * scales, 1 for zero points, and 2 for offsets. */
static bool param_varies(const struct pq_job *job, int k)
{
    return k == 0 || (k == 1 ? !job->one_zero : job->how.affine.has_offset);
}

/* Groups along a row: `n` elements in groups of `size`. `first` is the position of the
 * first group, which is negative if the group begins before the `n` elements. */
struct groups {
    ptrdiff_t first, n, size;
};

/* Copy the parameter of each group to its elements at `to`. The function writes up to
 * PQ_BROADCAST - 1 parameters after the last element, too. */
PQ_INLINE void broadcast_params(char *PQ_RESTRICT to, const char *PQ_RESTRICT from,
                                struct groups groups, ptrdiff_t size)
{
    for (ptrdiff_t i = 0; groups.size == 1 && i < groups.n; i += PQ_BROADCAST) {
        memcpy(to + i * size, from + i * size, (size_t)(PQ_BROADCAST * size));
    }
    ptrdiff_t end = groups.first;
    for (ptrdiff_t i = end; groups.size > 1 && i < groups.n; i = end, from += size) {
        const ptrdiff_t begin = i < 0 ? 0 : i;
        end = i + groups.size < groups.n ? i + groups.size : groups.n;
        fill_params(to + begin * size, from, end - begin, size);
    }
}

static size_t param_bytes(const struct pq_job *job)
{
    return job->how.general ? sizeof(uint64_t) : sizeof(int32_t);
}

/* After the parameters at [from, from + n), append `times` - 1 copies of all of them. */
static void repeat_row(struct pq_job *job, ptrdiff_t from, ptrdiff_t n, ptrdiff_t times)
{
    const size_t size = param_bytes(job), all = (size_t)(n * times) * size;
    for (int k = 0; k < PARAM_TILES; k++) {
        char *const first = (char *)tile_at(job, k) + (size_t)from * size;
        for (size_t done = (size_t)n * size, more; param_varies(job, k) && done < all;
             done += more) {
            more = done < all - done ? done : all - done;
            memcpy(first + done, first, more);
        }
    }
}

/* ---- scales, zero points and offsets ---- */

/* Fill the entries [to, to + n) of the tile `zero` for a call that has no zero points.
 * Float entries are -0, because adding -0 to a zero keeps the sign of the zero. */
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
    } else if (job->how.has_64_bit_zero) {
        pq_load_zeros_u64(job->zero.u64 + to, from, n);
    } else if (job->how.general) {
        pq_load_zeros_f64(job->zero.f64 + to, from, n);
    } else if (!job->how.float_zero) {
        pq_load_zeros_i32(job->zero.i32 + to, from, n);
    } else {
        float *const zeros = job->zero.f32 + to;
        pq_load_zeros_f32(zeros, from, n);
        for (size_t i = 0; job->how.negate_zero && i < n; i++) {
            zeros[i] = -zeros[i];
        }
    }
}

/* Load `n` scales or offsets to the indices [to, to + n) of `tile`. */
static void load_reals(const struct pq_job *job, union pq_param_tile *tile, ptrdiff_t to,
                       const struct pq_params *from, size_t n)
{
    job->how.general ? pq_load_scales_f64(tile->f64 + to, from, n, job->how.single_scale)
                     : pq_load_scales_f32(tile->f32 + to, from, n);
}

/* If all elements share a zero point, store `n` copies in the tile `zero`, unless an
 * earlier call of the job has stored enough copies. */
static void store_shared_zeros(struct pq_job *job, const char *zero, ptrdiff_t n)
{
    if (job->one_zero && job->zeros_there < n) {
        const struct pq_params one = {zero, 0, job->zero_type, job->zero_swapped};
        load_zeros(job, 0, &one, 1);
        repeat(job, &job->zero, 0, 0, n);
        job->zeros_there = n;
    }
}

void pq_load_params(struct pq_job *job, ptrdiff_t to, const struct pq_addresses *at,
                    const struct pq_dim *dim, size_t n)
{
    if (job->how.load != NULL) {
        job->how.load(job, to, at->scale, dim->scale, n);
        return;
    }
    const struct pq_params s = {at->scale, dim->scale, job->scale_type, job->scale_swapped};
    load_reals(job, &job->scale, to, &s, n);
    if (job->how.general ? has_small_f64(job, job->scale.f64 + to, n)
                         : has_small_f32(job, job->scale.f32 + to, n)) {
        /* Load the scales again without flushing, which may have changed a scale to 0. */
        job->has_small_scale = true;
        pq_set_flush(job);
        load_reals(job, &job->scale, to, &s, n);
        job->has_small_scale = true;
    }
    if (job->how.affine.has_offset) {
        const struct pq_params o = {at->offset, dim->offset, job->offset_type,
                                    job->offset_swapped};
        load_reals(job, &job->offset, to, &o, n);
    }
    if (n > 1 && job->one_zero) {
        store_shared_zeros(job, at->zero, to + (ptrdiff_t)n);
    } else if (to + (ptrdiff_t)n > job->zeros_there) {
        const struct pq_params z = {at->zero, dim->zero, job->zero_type, job->zero_swapped};
        load_zeros(job, to, &z, n);
    }
}

/* ---- tiles of elements ---- */

/* Replace the parameters of `rows` rows by a copy for each element. Each row has loaded
 * parameters for `count` groups. The parameters and the copies begin at index `to`. */
static void broadcast_rows(struct pq_job *job, ptrdiff_t to, ptrdiff_t rows,
                           ptrdiff_t count, struct groups groups)
{
    const size_t size = param_bytes(job), row = (size_t)count * size;
    union pq_param_tile source;
    for (int k = 0; k < PARAM_TILES; k++) {
        char *at = (char *)tile_at(job, k) + (size_t)to * size;
        if (!param_varies(job, k)) {
            continue;
        }
        memcpy(&source, at, (size_t)rows * row);
        for (ptrdiff_t r = 0; r < rows; r++, at += (size_t)groups.n * size) {
            const char *const from = (const char *)&source + (size_t)r * row;
            if (size == sizeof(uint64_t)) {
                broadcast_params(at, from, groups, sizeof(uint64_t));
            } else {
                broadcast_params(at, from, groups, sizeof(int32_t));
            }
        }
    }
}

/* Copy one kind of parameters of `rows` rows to `room`, unless all of them are equally
 * spaced. Set `at` and `stride` for the result. `next` is the stride from row to row. */
static void gather_rows(const struct pq_job *job, ptrdiff_t rows, char *room,
                        const char **at, ptrdiff_t *stride, ptrdiff_t next,
                        enum pq_type type)
{
    const ptrdiff_t groups = pq_dim_groups(job->plan.dim);
    const struct pq_tile tile = {rows, groups, next, *stride, pq_bytes_of(type), false};
    if (rows > 1 && next != groups * *stride) {
        pq_gather(job->kernels, room, *at, &tile);
        *at = room;
        *stride = (ptrdiff_t)tile.size;
    }
}

void pq_load_rows(struct pq_job *job, struct pq_addresses at, ptrdiff_t rows)
{
    char room[3][PQ_TILE * sizeof(double)];
    const ptrdiff_t groups = pq_dim_groups(job->plan.dim);
    const struct pq_dim *const next = &job->plan.dim[1];
    struct pq_dim dim = job->plan.dim[groups == 1];
    gather_rows(job, rows, room[0], &at.scale, &dim.scale, next->scale, job->scale_type);
    gather_rows(job, rows, room[1], &at.zero, &dim.zero, next->zero, job->zero_type);
    gather_rows(job, rows, room[2], &at.offset, &dim.offset, next->offset,
                job->offset_type);
    pq_load_params(job, 0, &at, &dim, (size_t)(rows * groups));
}

/* Load a pair of parameters for each of the indices [first, first + n) of dim[0] to the
 * indices [to, to + n) of the parameter tiles. */
static void load_row(struct pq_job *job, struct pq_addresses at, ptrdiff_t first,
                     ptrdiff_t to, ptrdiff_t n)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    if (pq_is_uniform(dim)) {
        pq_load_params(job, to, &at, dim, 1);
        pq_repeat_param(job, to, to, n);
        return;
    }
    const ptrdiff_t group = first / dim->group_size;
    const ptrdiff_t count = (first + n - 1) / dim->group_size - group + 1;
    at = pq_addresses_at(at, dim, group);
    pq_load_params(job, to, &at, dim, (size_t)count);
    const struct groups groups = {group * dim->group_size - first, n, dim->group_size};
    if (dim->group_size > 1) {
        broadcast_rows(job, to, 1, count, groups);
    }
}

/* Load the parameters of `rows` complete rows, with a copy for each element. */
static void load_gapped_rows(struct pq_job *job, struct pq_addresses at, ptrdiff_t rows)
{
    const struct pq_dim *dim = job->plan.dim;
    const ptrdiff_t count = pq_dim_groups(dim), columns = dim->end;
    const struct groups groups = {0, columns, count == 1 ? columns : dim->group_size};
    pq_load_rows(job, at, rows);
    if (count < columns) {
        broadcast_rows(job, 0, rows, count, groups);
    }
    job->loaded.at.scale = NULL;
    pq_set_flush(job);
}

/* Load a pair of parameters for each of the indices [row, row + rows) of dim[1]. */
static void load_row_params(struct pq_job *job, struct pq_addresses row_start,
                            ptrdiff_t row, ptrdiff_t rows)
{
    const struct pq_dim *dim = &job->plan.dim[1];
    const ptrdiff_t step = dim->group_size == 1 ? rows : 1;
    for (ptrdiff_t r = 0; r < rows; r += step) {
        const struct pq_addresses at =
            pq_addresses_at(row_start, dim, pq_dim_group(dim, row + r));
        pq_load_params(job, r, &at, dim, (size_t)step);
    }
}

ptrdiff_t pq_load_tile_params(struct pq_job *job, struct pq_addresses row_start,
                              ptrdiff_t row, ptrdiff_t rows, ptrdiff_t column,
                              ptrdiff_t columns)
{
    const struct pq_dim *dim = job->plan.dim;
    const bool uniform = pq_is_uniform(&dim[1]), same_rows = uniform || rows == 1;
    const bool single = same_rows && pq_is_uniform(&dim[0]);
    if (uniform && single && pq_has_loaded(job, &row_start)) { /* true in most calls */
        return rows * columns;
    }
    const struct pq_addresses at =
        pq_addresses_at(row_start, &dim[1], pq_dim_group(&dim[1], row));
    const ptrdiff_t share = single ? rows * columns : 1;
    if (job->loads_rows) {
        store_shared_zeros(job, at.zero, rows * columns);
        load_gapped_rows(job, at, rows);
        return 1;
    }
    if (same_rows && pq_has_loaded(job, &at) && (single || job->loaded.first == column) &&
        job->loaded.rows >= rows && (single || job->loaded.columns == columns) &&
        job->loaded.columns * job->loaded.rows >= rows * columns) {
        return share;
    }
    if (!single && pq_is_uniform(&dim[0]) && job->how.by_groups && columns >= PQ_GROUP) {
        job->loaded.at.scale = NULL;
        load_row_params(job, row_start, row, rows);
        pq_set_flush(job);
        return columns;
    }
    job->loaded.at = at;
    if (single) {
        pq_load_params(job, 0, &job->loaded.at, dim, 1);
    } else {
        store_shared_zeros(job, at.zero, rows * columns);
    }
    for (ptrdiff_t r = 0; !single && r < rows;) {
        const ptrdiff_t left = dim[1].group_size - (row + r) % dim[1].group_size;
        const ptrdiff_t same = same_rows || left > rows - r ? rows - r : left;
        load_row(job, pq_addresses_at(row_start, &dim[1], pq_dim_group(&dim[1], row + r)),
                 column, r * columns, columns);
        if (same > 1) {
            repeat_row(job, r * columns, columns, same);
        }
        r += same;
    }
    job->loaded.at.scale = same_rows ? at.scale : NULL;
    job->loaded.first = column;
    job->loaded.rows = rows;
    job->loaded.columns = columns;
    pq_set_flush(job);
    return share;
}
