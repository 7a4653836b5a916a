/* SPDX-License-Identifier: Apache-2.0 */
/* From arrays to quantization parameters: extrema, then scales and zero points. */
#include <math.h>

#include "fpenv.h"
#include "kernels.h"
#include "narrow_float.h"
#include "params.h"
#include "walk.h"

enum {
    TILE = 1024,
    RUN = 32 /* shorter groups are not worth a kernel call */
};

struct job {
    struct pq_plan plan;
    const struct pq_kernels *kernels;
    enum pq_type type;
    size_t size;
    bool swapped;
    bool finite;
};

/* ---- extrema ---- */

static void merge_extrema(const struct job *job, struct pq_cursor at, ptrdiff_t i,
                          double lo, double hi)
{
    const struct pq_dim *dim = &job->plan.dim[0];
    /* The cells are the caller's own arrays, reached through the plan's const pointers. */
    double *cell_lo = (double *)(uintptr_t)(at.scale + pq_dim_scale(dim, i));
    double *cell_hi = (double *)(uintptr_t)(at.zero + pq_dim_zero(dim, i));
    *cell_lo = lo < *cell_lo ? lo : *cell_lo;
    *cell_hi = hi > *cell_hi ? hi : *cell_hi;
}

/* Contiguous elements [i, i + n) of dim[0], all of one group. */
static void reduce_run(struct job *job, struct pq_cursor at, ptrdiff_t i, const char *x,
                       size_t n)
{
    float lo = INFINITY, hi = -INFINITY;
    uint32_t bits = 0;
    job->kernels->minmax[job->type](x, n, &lo, &hi, &bits);
    job->finite = job->finite && bits < 0x7f800000;
    merge_extrema(job, at, i, (double)lo, (double)hi);
}

/* The same for `n` elements of a group each, whose extrema are contiguous. */
static void merge_each(double *lo, double *hi, const double *x, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        lo[k] = x[k] < lo[k] ? x[k] : lo[k];
        hi[k] = x[k] > hi[k] ? x[k] : hi[k];
    }
}

/* Contiguous elements [i, i + n) of dim[0], one at a time. */
static void reduce_elements(struct job *job, struct pq_cursor at, ptrdiff_t i,
                            const char *x, size_t n)
{
    const struct pq_params from = {x, (ptrdiff_t)job->size, job->type, 0};
    double tile[TILE];
    pq_load_scales_f64(tile, from, n, 0);
    const struct pq_dim *dim = &job->plan.dim[0];
    double finite = 0;
    for (size_t k = 0; k < n; k++) {
        finite += tile[k] - tile[k]; /* NaN from NaN and infinity, else 0 */
    }
    job->finite = job->finite && finite == 0;
    const ptrdiff_t cell = sizeof(double);
    if (dim->block == 1 && dim->scale == cell && dim->zero == cell) {
        merge_each((double *)(uintptr_t)(at.scale + i * cell),
                   (double *)(uintptr_t)(at.zero + i * cell), tile, n);
        return;
    }
    for (size_t k = 0; k < n;) {
        const ptrdiff_t j = i + (ptrdiff_t)k;
        const size_t left = pq_dim_uniform(dim) ? n : (size_t)(dim->block - j % dim->block);
        const size_t stop = left < n - k ? k + left : n;
        double lo = tile[k], hi = tile[k];
        while (++k < stop) {
            lo = tile[k] < lo ? tile[k] : lo;
            hi = tile[k] > hi ? tile[k] : hi;
        }
        merge_extrema(job, at, j, lo, hi);
    }
}

/* One row, gathered tile by tile where it is not contiguous. */
static void reduce_row(void *p, struct pq_cursor at)
{
    struct job *job = p;
    const struct pq_dim *dim = &job->plan.dim[0];
    const bool direct = !job->swapped && dim->in == (ptrdiff_t)job->size;
    const bool kernel = job->type <= PQ_BF16;
    char buffer[TILE * sizeof(double)];
    for (ptrdiff_t i = dim->begin; i < dim->end;) {
        const ptrdiff_t group =
            pq_dim_uniform(dim) ? dim->end - i : dim->block - i % dim->block;
        const bool whole = kernel && group >= RUN;
        ptrdiff_t n = dim->end - i;
        if (whole && group < n) {
            n = group;
        }
        if (!(whole && direct) && n > TILE) {
            n = TILE;
        }
        const char *x = at.in + i * dim->in;
        if (!direct) {
            const struct pq_tile tile = {1, n, 0, dim->in, job->size, job->swapped};
            pq_gather(job->kernels, buffer, x, &tile);
            x = buffer;
        }
        if (whole) {
            reduce_run(job, at, i, x, (size_t)n);
        } else {
            reduce_elements(job, at, i, x, (size_t)n);
        }
        i += n;
    }
}

static bool is_real(enum pq_type type)
{
    return (unsigned)type <= PQ_F64;
}

enum pq_status pq_minmax(const struct pq_kernels *kernels, const struct pq_args *args,
                         int *finite)
{
    if (kernels == NULL || args == NULL || finite == NULL || args->in.data == NULL ||
        args->scale.data == NULL || args->zero.data == NULL) {
        return PQ_ERR_NULL;
    }
    const enum pq_status shape_status = pq_check_shape(args);
    if (shape_status != PQ_OK) {
        return shape_status;
    }
    if (args->ndim > 0 && (args->in.strides == NULL || args->scale.strides == NULL ||
                           args->zero.strides == NULL)) {
        return PQ_ERR_NULL;
    }
    if (!pq_has_span(args, &args->in, 0) || !pq_has_span(args, &args->scale, 1) ||
        !pq_has_span(args, &args->zero, 1)) {
        return PQ_ERR_SHAPE;
    }
    if (!is_real(args->in.type) || args->in.packed || args->scale.type != PQ_F64 ||
        args->zero.type != PQ_F64) {
        return PQ_ERR_TYPE;
    }
    struct pq_args read_only = *args;
    read_only.out.data = NULL;
    struct job job;
    job.kernels = kernels;
    job.type = args->in.type;
    job.size = pq_type_size(args->in.type);
    job.swapped = args->in.swapped != 0;
    job.finite = true;
    const enum pq_status status = pq_plan_init(&job.plan, &read_only, 0);
    if (status == PQ_OK && !job.plan.empty) {
        const pq_fpenv found = pq_fpenv_enter();
        pq_walk(&job.plan, 1, reduce_row, &job);
        pq_fpenv_leave(found);
    }
    *finite = job.finite;
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
    if (args == NULL || count == NULL || first == NULL || args->in.data == NULL) {
        return PQ_ERR_NULL;
    }
    const enum pq_status status = pq_check_shape(args);
    if (status != PQ_OK) {
        return status;
    }
    if (args->ndim > 0 && args->in.strides == NULL) {
        return PQ_ERR_NULL;
    }
    if (!pq_has_span(args, &args->in, 0)) {
        return PQ_ERR_SHAPE;
    }
    if (!is_real(args->in.type) || args->in.packed) {
        return PQ_ERR_TYPE;
    }
    *count = 0;
    *first = 0;
    const pq_fpenv found = pq_fpenv_enter();
    count_nonfinite(args, count, first);
    pq_fpenv_leave(found);
    return PQ_OK;
}

/* ---- parameters ---- */

/* Half to even, of a number small enough for 1.5 * 2^52 to have an ulp of 1. */
static double nearest(double v)
{
    return v + 0x1.8p52 - 0x1.8p52;
}

/* NaN, from an infinite range, to the lowest: converting it would be undefined. */
static double clamp(double v, double lo, double hi)
{
    return v > lo ? (v < hi ? v : hi) : lo;
}

/* A quotient of 0 would make a scale that loses everything. */
static double positive_scale(double scale, enum pq_type real)
{
    if (real == PQ_F32) {
        const float single = (float)scale;
        return single > 0 ? (double)single : 0x1p-149;
    }
    return scale > 0 ? scale : 0x1p-1074;
}

struct pair {
    double scale, zero;
};

static bool is_narrow_float(enum pq_type code)
{
    return code >= PQ_F8E4M3FN && code <= PQ_F4E2M1FN;
}

static void code_limits(enum pq_type code, double *lowest, double *highest)
{
    if (is_narrow_float(code)) {
        *highest = (double)pq_f32_bits(pq_format_of(code).highest);
        *lowest = -*highest;
    } else {
        const struct pq_range range = pq_code_range(code);
        *lowest = (double)range.lo;
        *highest = (double)range.hi;
    }
}

static struct pair choose(const struct pq_choice *choice, double lo, double hi)
{
    double lowest, highest;
    code_limits(choice->code, &lowest, &highest);
    lo = lo < 0 ? lo : 0; /* empty groups, too, have +inf and -inf here */
    hi = hi > 0 ? hi : 0;
    const bool zeros = lo == 0 && hi == 0;
    if (choice->symmetric) {
        const double absmax = hi > -lo ? hi : -lo;
        return (struct pair){zeros ? 1 : positive_scale(absmax / highest, choice->real), 0};
    }
    const double levels = highest - lowest, width = hi - lo;
    const double wide =
        width - width == 0 ? width / levels : (hi / 2 - lo / 2) / (levels / 2);
    const double scale = zeros ? 1 : positive_scale(wide, choice->real);
    const double zero = clamp(lowest - lo / scale, lowest, highest);
    return (struct pair){scale, nearest(zero)};
}

enum pq_status pq_choose(const struct pq_choice *choice, size_t n, const double *smallest,
                         const double *largest, void *scale, void *zero)
{
    if (choice == NULL || smallest == NULL || largest == NULL || scale == NULL ||
        zero == NULL) {
        return PQ_ERR_NULL;
    }
    const enum pq_type code = choice->code;
    const bool integer_code =
        (code >= PQ_I8 && code <= PQ_U32) || (code >= PQ_I4 && code <= PQ_U2);
    if ((choice->real != PQ_F32 && choice->real != PQ_F64) ||
        !(integer_code || (is_narrow_float(code) && choice->symmetric))) {
        return PQ_ERR_TYPE;
    }
    if (n > PTRDIFF_MAX / sizeof(double)) {
        return PQ_ERR_SHAPE;
    }
    const size_t real_size = pq_type_size(choice->real), code_size = pq_type_size(code);
    const pq_fpenv found = pq_fpenv_enter();
    for (size_t i = 0; i < n; i++) {
        const struct pair pair = choose(choice, smallest[i], largest[i]);
        const float single = (float)pair.scale;
        const int64_t integer = (int64_t)pair.zero;
        const int8_t z8 = (int8_t)integer;
        const int16_t z16 = (int16_t)integer;
        const int32_t z32 = (int32_t)(uint32_t)(uint64_t)integer;
        memcpy((char *)scale + i * real_size,
               real_size == 4 ? (const void *)&single : (const void *)&pair.scale,
               real_size);
        memcpy((char *)zero + i * code_size,
               code_size == 1   ? (const void *)&z8
               : code_size == 2 ? (const void *)&z16
                                : (const void *)&z32,
               code_size);
    }
    pq_fpenv_leave(found);
    return PQ_OK;
}
