/* SPDX-License-Identifier: Apache-2.0 */
/* From arrays to quantization parameters: extrema, then scales and zero points. */
#include <float.h>
#include <math.h>

#include "args.h"
#include "fpenv.h"
#include "kernels.h"
#include "narrow_float.h"
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

/* What codes there are, and what a scale has to do. */
struct target {
    enum pq_type real;      /* of the data */
    double lowest, highest; /* codes, or numbers of a narrow float */
    double margin;          /* half a step beyond them is within reach, too */
    bool integers;
    bool symmetric;
    double middle; /* the zero point of symmetric codes */
    double end;    /* what the type of the data cannot hold */
};

/* From here on a product is infinite when rounded to the type of the data, float16 and
 * bfloat16 by way of float32. */
static double end_of(enum pq_type real)
{
    switch (real) {
    case PQ_F64:
        return HUGE_VAL;
    case PQ_F16:
        return 65520 - 0x1p-9;
    case PQ_BF16:
        return 0x1.ffp127 - 0x1p103;
    default:
        return 0x1.ffffffp127;
    }
}

static struct target target_of(const struct pq_choice *choice)
{
    struct target to = {.real = choice->real,
                        .symmetric = choice->rule == PQ_RULE_SYMMETRIC,
                        .end = end_of(choice->real)};
    if (pq_is_narrow_float(choice->code)) {
        const struct pq_format format = pq_format_of(choice->code);
        int exponent;
        to.highest = (double)pq_f32_bits(format.highest);
        to.lowest = -to.highest;
        frexp(to.highest, &exponent); /* one more than that of its significand */
        to.margin = ldexp(0.5, exponent - 1 - format.mantissa);
    } else {
        const struct pq_range range = pq_range_of(choice->code);
        to.lowest = (double)range.lo;
        to.highest = (double)range.hi;
        to.margin = 0.5;
        to.integers = true;
        to.middle = range.lo < 0 ? 0 : (to.highest + 1) / 2;
    }
    return to;
}

/* Scale and zero point, both exact in float64. */
struct pair {
    double scale, zero;
};

static bool is_wide(const struct target *to)
{
    return to->real == PQ_F64;
}

/* A scale as it is stored, and never 0, which would lose everything. */
static double stored_scale(const struct target *to, double scale)
{
    if (is_wide(to)) {
        return scale > 0 ? scale : 0x1p-1074;
    }
    const float single = (float)scale;
    return single > 0 ? (double)single : 0x1p-149;
}

/* The scale so many places further up or down. */
static double next_scale(const struct target *to, double scale, int places)
{
    if (is_wide(to)) {
        return pq_f64_bits(pq_bits_f64(scale) + (uint64_t)(int64_t)places);
    }
    return (double)pq_f32_bits(pq_bits_f32((float)scale) + (uint32_t)places);
}

static double zero_of(const struct target *to, double scale, double lo)
{
    return to->symmetric ? to->middle
                         : nearest(clamp(to->lowest - lo / scale, to->lowest, to->highest));
}

/* Whether v lies at most `steps` scales from 0: the product is not rounded. */
static bool is_within(const struct target *to, double v, double steps, double scale)
{
    if (!is_wide(to) && to->highest <= UINT16_MAX) {
        return v <= steps * scale; /* of 24 and 18 bits */
    }
    /* Where fractions of steps are subnormal; those are quarters at least. */
    const double unit = v < 1 ? 4 : 1;
    return fma(steps * unit, scale, -v * unit) >= 0;
}

/* What quantizing and dequantizing make of one end of the data. */
static bool comes_back(const struct target *to, struct pair pair, double end)
{
    double steps = end / pair.scale;
    if (!is_wide(to)) {
        steps = (double)(float)steps; /* float32 operands: as good as their quotient */
    }
    if (to->integers) {
        const double code = clamp(nearest(steps) + pair.zero, to->lowest, to->highest);
        steps = code - pair.zero;
    } else { /* the larger end is the largest number, and nothing is larger */
        steps = to->highest;
    }
    return fabs((is_wide(to) ? steps : (double)(float)steps) * pair.scale) < to->end;
}

/* Whether data from lo to hi comes back finite and saturates by half a step at most. */
static bool suits(const struct target *to, struct pair pair, double lo, double hi)
{
    /* Half a step is less than what is stepped over. */
    const double safe = (is_wide(to) ? DBL_MAX : to->end) / 4;
    return is_within(to, hi, to->highest - pair.zero + to->margin, pair.scale) &&
           is_within(to, -lo, pair.zero - to->lowest + to->margin, pair.scale) &&
           ((hi < safe && -lo < safe) ||
            (comes_back(to, pair, lo) && comes_back(to, pair, hi)));
}

enum { PLACES = 64 }; /* more than any case has been seen to need */

/* The scale nearest to this one that suits, if one of its neighbours does. */
static bool find_near(const struct target *to, struct pair *pair, double scale, double lo,
                      double hi)
{
    for (int k = 0; k < PLACES; k++) {
        for (int way = 1; way >= (k > 0 ? -1 : 1); way -= 2) {
            const double found = next_scale(to, scale, way * k);
            if (found > 0 && found < HUGE_VAL) {
                *pair = (struct pair){found, zero_of(to, found, lo)};
                if (suits(to, *pair, lo, hi)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Types of which most data has a simple answer, see choose_usual. */
static bool is_usual(const struct target *to)
{
    return to->symmetric && to->middle == 0 && to->highest <= UINT16_MAX;
}

/*
 * The definition rounded, unless rounding down lets data saturate by more than half a step,
 * or what lies at the end of the range of its type comes back infinite. Then a neighbour;
 * or, where both ends are that far out, the next larger scale of which the larger magnitude
 * is a little less than a number of steps and a half: both are rounded towards 0.
 */
static struct pair choose(const struct target *to, double lo, double hi)
{
    lo = lo < 0 ? lo : 0; /* empty groups, too, have +inf and -inf here */
    hi = hi > 0 ? hi : 0;
    if (hi == HUGE_VAL || lo == -HUGE_VAL) { /* not of data that may be quantized */
        return (struct pair){HUGE_VAL, to->symmetric ? to->middle : to->lowest};
    }
    if (lo == 0 && hi == 0) {
        return (struct pair){1, zero_of(to, 1, 0)};
    }
    const double far = hi > -lo ? hi : -lo;
    const double levels = to->highest - to->lowest, width = hi - lo;
    double wanted;
    if (to->symmetric) {
        wanted = far / (to->middle > 0 ? levels / 2 : to->highest);
    } else {
        wanted = width - width == 0 ? width / levels : (hi / 2 - lo / 2) / (levels / 2);
    }
    const double scale = stored_scale(to, wanted);
    if (is_usual(to) && far > 0x1p-80 && far < to->end / 4 && far < 0x1p120) {
        return (struct pair){scale, 0};
    }
    struct pair pair;
    if (find_near(to, &pair, scale, lo, hi)) {
        return pair;
    }
    const double steps = floor(far / scale - 0.5) + 0.5;
    if (steps >= 1 && find_near(to, &pair, stored_scale(to, far / steps), lo, hi)) {
        return pair;
    }
    return (struct pair){scale, zero_of(to, scale, lo)};
}

/* Scale and zero point 0 of data like most, so many at a time: rounded by 2^-24, while
 * 2^-17 of the largest code is half a step, and far from all ends. */
enum { CHOSEN = 64 };

static bool choose_usual(const struct target *to, size_t n, const double *smallest,
                         const double *largest, double *PQ_RESTRICT scale)
{
    const double top = to->end / 4 < 0x1p120 ? to->end / 4 : 0x1p120;
    const double highest = to->highest;
    uint64_t others = 0;
    if (!is_usual(to)) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const double lo = smallest[i] < 0 ? -smallest[i] : 0;
        const double hi = largest[i] > 0 ? largest[i] : 0;
        const double far = hi > lo ? hi : lo;
        others |= (far > 0x1p-80 ? UINT64_C(0) : UINT64_C(1)) |
                  (far < top ? UINT64_C(0) : UINT64_C(1));
        scale[i] = far / highest;
    }
    return others == 0;
}

static void narrow_scales(char *to, const double *scale, size_t n)
{
    float single[CHOSEN];
    for (size_t i = 0; i < n; i++) {
        single[i] = (float)scale[i];
    }
    memcpy(to, single, n * sizeof *single);
}

static void store_pair(struct pair pair, char *scale, size_t real_size, char *zero,
                       size_t code_size)
{
    const float single = (float)pair.scale;
    const int64_t integer = (int64_t)pair.zero;
    const int8_t z8 = (int8_t)integer;
    const int16_t z16 = (int16_t)integer;
    const int32_t z32 = (int32_t)(uint32_t)(uint64_t)integer;
    if (real_size == sizeof single) {
        memcpy(scale, &single, sizeof single);
    } else {
        memcpy(scale, &pair.scale, sizeof pair.scale);
    }
    if (code_size == 1) {
        memcpy(zero, &z8, sizeof z8);
    } else if (code_size == 2) {
        memcpy(zero, &z16, sizeof z16);
    } else {
        memcpy(zero, &z32, sizeof z32);
    }
}

/* What is left out as it is meant. */
static struct pq_choice settled(const struct pq_choice *given)
{
    struct pq_choice choice = *given;
    if (choice.real == PQ_NO_TYPE) {
        choice.real = PQ_F32;
    }
    if (choice.code == PQ_NO_TYPE) {
        choice.code = PQ_I8;
    }
    if (choice.rule == PQ_RULE_USUAL) {
        const bool is_signed =
            !pq_is_integer(choice.code) || pq_range_of(choice.code).lo < 0;
        choice.rule = is_signed ? PQ_RULE_SYMMETRIC : PQ_RULE_ASYMMETRIC;
    }
    return choice;
}

enum pq_status pq_choose(const struct pq_choice *given, size_t n, const double *smallest,
                         const double *largest, void *scale, void *zero)
{
    struct pq_choice room;
    const void *known = given;
    if (given == NULL || smallest == NULL || largest == NULL || scale == NULL ||
        zero == NULL) {
        return PQ_ERR_NULL;
    }
    const enum pq_status status =
        pq_known_struct(&known, &room, sizeof room,
                        offsetof(struct pq_choice, rule) + sizeof(enum pq_rule));
    if (status != PQ_OK) {
        return status;
    }
    const struct pq_choice chosen = settled(known), *const choice = &chosen;
    const enum pq_type code = choice->code;
    const bool symmetric = choice->rule == PQ_RULE_SYMMETRIC;
    if (!pq_is_real(choice->real) || !pq_is_code(code) ||
        (unsigned)choice->rule > PQ_RULE_ASYMMETRIC ||
        (pq_is_narrow_float(code) && !symmetric)) {
        return PQ_ERR_TYPE;
    }
    if (n > PTRDIFF_MAX / sizeof(double)) {
        return PQ_ERR_SHAPE;
    }
    const size_t real_size = choice->real == PQ_F64 ? sizeof(double) : sizeof(float);
    const size_t code_size = pq_type_size(code);
    const pq_fpenv found = pq_fpenv_enter();
    const struct target to = target_of(choice);
    double usual[CHOSEN];
    for (size_t i = 0; i < n;) {
        const size_t some = n - i < CHOSEN ? n - i : CHOSEN, stop = i + some;
        if (choose_usual(&to, some, smallest + i, largest + i, usual)) {
            if (real_size == sizeof(double)) {
                memcpy((char *)scale + i * real_size, usual, some * real_size);
            } else {
                narrow_scales((char *)scale + i * real_size, usual, some);
            }
            memset((char *)zero + i * code_size, 0, some * code_size);
            i = stop;
        }
        for (; i < stop; i++) {
            const struct pair pair = choose(&to, smallest[i], largest[i]);
            store_pair(pair, (char *)scale + i * real_size, real_size,
                       (char *)zero + i * code_size, code_size);
        }
    }
    pq_fpenv_leave(found);
    return PQ_OK;
}
