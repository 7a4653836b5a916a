/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Count elements with a quotient outside the range of the codes. A group needs no loop
 * over its elements if the quotients of its extremes are within the range.
 */
#include <math.h>

#include "math/narrow_float.h"
#include "ops/fused.h"

/* Parameters, and the quotients beyond which an element saturates. */
struct limits {
    double scale, offset, low, high;
};

enum { TILE_COLUMNS = PQ_SIZE(64, 8) };

/* Limits of each element of a row. */
struct columns {
    double scale[TILE_COLUMNS], offset[TILE_COLUMNS], low[TILE_COLUMNS], high[TILE_COLUMNS];
    int64_t bad;
};

struct pq_saturation pq_saturation_of(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_method *how, enum pq_type code)
{
    struct pq_saturation to = {
        .kernels = kernels,
        .is_f64 = args->in.type == PQ_F64,
        .has_zero = args->zero.data != NULL && !pq_is_narrow_float(code),
        .has_offset = args->offset != NULL,
        .is_zero_64_bit = how->wide_zero,
        .is_zero_unsigned = args->zero.type == PQ_U64,
    };
    if (pq_is_narrow_float(code)) {
        const struct pq_format format = pq_format_of(code);
        int exponent;
        to.highest = (double)pq_f32_bits(format.highest);
        to.lowest = -to.highest;
        frexp(to.highest, &exponent);
        to.margin = ldexp(1, exponent - 2 - format.mantissa);
        return to;
    }
    const bool clips = args->lowest_code != 0 || args->highest_code != 0;
    to.margin = 0.5;
    to.lowest = (double)(clips ? args->lowest_code : pq_lowest_of(code));
    to.highest = !clips           ? (double)pq_highest_of(code)
                 : code == PQ_U64 ? (double)(uint64_t)args->highest_code
                                  : (double)args->highest_code;
    if (clips && code == PQ_U64) {
        to.lowest = (double)(uint64_t)args->lowest_code;
    }
    return to;
}

/* ---- parameters ---- */

/* Return a zero point. */
static double zero_at(const struct pq_run *run, size_t k)
{
    const struct pq_saturation *const to = run->fused->saturation;
    if (!to->has_zero) {
        return 0;
    }
    if (to->is_zero_64_bit) {
        const uint64_t zero = run->zero.u64[k];
        return to->is_zero_unsigned ? (double)zero : (double)(int64_t)zero;
    }
    return run->general ? run->zero.f64[k] : (double)run->zero.i32[k];
}

/* Return the limits of a group. */
static struct limits limits_at(const struct pq_run *run, size_t k)
{
    const struct pq_saturation *const to = run->fused->saturation;
    const bool general = run->general;
    const double zero = zero_at(run, k);
    struct limits limits = {
        .scale = general ? run->scale.f64[k] : (double)run->scale.f32[k],
        .low = to->lowest - zero - to->margin,
        .high = to->highest - zero + to->margin,
    };
    if (to->has_offset) {
        limits.offset = general ? run->offset.f64[k] : (double)run->offset.f32[k];
    }
    return limits;
}

/* ---- elements ---- */

/* Count elements that saturate. An element that the round trip keeps unchanged does not
 * saturate. AT selects the limits of element i. */
#define COUNT(name, real, tag, AT)                                                         \
    static void name(const struct tag *by, const void *px, const void *py, size_t n,       \
                     int64_t *lows, int64_t *highs)                                        \
    {                                                                                      \
        const char *const x = px, *const y = py;                                           \
        unsigned low = 0, high = 0;                                                        \
        for (size_t i = 0; i < n; i++) {                                                   \
            real v, back;                                                                  \
            memcpy(&v, x + i * sizeof v, sizeof v);                                        \
            memcpy(&back, y + i * sizeof back, sizeof back);                               \
            const real t = v - (real)AT(by->offset), q = t / (real)AT(by->scale);          \
            low += ((double)q < AT(by->low)) & (v != back);                                \
            high += ((double)q > AT(by->high)) & (v != back);                              \
        }                                                                                  \
        *lows += low;                                                                      \
        *highs += high;                                                                    \
    }
#define SHARED(member) (member)
#define OF_ELEMENT(member) (member)[i]
COUNT(count_f32, float, limits, SHARED)
COUNT(count_f64, double, limits, SHARED)
COUNT(count_each_f32, float, columns, OF_ELEMENT)
COUNT(count_each_f64, double, columns, OF_ELEMENT)
#undef COUNT

/* Return true if an extreme of a group is beyond the limits, if the group has a NaN, or if
 * it is short. */
static bool may_saturate(const struct pq_saturation *to, const struct limits *by,
                         const char *x, size_t n)
{
    enum { LEAST = 8 };
    float singles[2], back[2] = {NAN, NAN};
    double doubles[2], backs[2] = {NAN, NAN};
    uint32_t bits = 0;
    int64_t low = 0, high = 0;
    if (n < LEAST) {
        return true;
    }
    if (to->is_f64) {
        memcpy(&doubles[0], x, sizeof *doubles);
        doubles[1] = doubles[0];
        to->kernels->minmax[PQ_F64_ROW](x, n, &doubles[0], &doubles[1], &bits);
        count_f64(by, doubles, backs, 2, &low, &high);
    } else {
        memcpy(&singles[0], x, sizeof *singles);
        singles[1] = singles[0];
        to->kernels->minmax[PQ_F32_ROW](x, n, &singles[0], &singles[1], &bits);
        count_f32(by, singles, back, 2, &low, &high);
    }
    return bits >= PQ_INFINITY_BITS || low + high != 0;
}

/* Return true if a scale is 0, infinite or NaN. */
static bool is_invalid_scale(double scale)
{
    return !pq_is_finite_f64(scale) || scale == 0;
}

/* Count the elements of a group. */
static void count_group(const struct pq_saturation *to, const struct limits *by,
                        const char *x, const char *y, size_t n)
{
    if (is_invalid_scale(by->scale)) {
        *to->bad += (int64_t)n;
    }
    if (may_saturate(to, by, x, n)) {
        (to->is_f64 ? count_f64 : count_f32)(by, x, y, n, to->low, to->high);
    }
}

/* ---- parameters of each element ---- */

/* Load the limits of `n` elements. */
static void load_columns(struct columns *to, const struct pq_run *run, size_t first,
                         size_t n)
{
    to->bad = 0;
    for (size_t i = 0; i < n; i++) {
        const struct limits limits = limits_at(run, first + i);
        to->scale[i] = limits.scale;
        to->offset[i] = limits.offset;
        to->low[i] = limits.low;
        to->high[i] = limits.high;
        to->bad += is_invalid_scale(limits.scale);
    }
}

/* Count the elements of rows with one scale for each element of a row. */
static void count_columns(const struct pq_run *run, const char *x, const char *y, size_t n)
{
    const struct pq_saturation *const to = run->fused->saturation;
    const size_t size = to->is_f64 ? sizeof(double) : sizeof(float);
    const size_t rows = run->rows > 1 ? run->rows : 1;
    struct columns columns;
    for (size_t i = 0, some; i < n; i += some) {
        some = n - i < TILE_COLUMNS ? n - i : TILE_COLUMNS;
        load_columns(&columns, run, i, some);
        *to->bad += columns.bad * (int64_t)rows;
        for (size_t r = 0; r < rows; r++) {
            (to->is_f64 ? count_each_f64 : count_each_f32)(
                &columns, x + (ptrdiff_t)r * run->in_stride + i * size,
                y + (ptrdiff_t)r * run->out_stride + i * size, some, to->low, to->high);
        }
    }
}

void pq_count_saturated(const struct pq_run *run, const void *x, const void *y, size_t n)
{
    const struct pq_saturation *const to = run->fused->saturation;
    const size_t size = to->is_f64 ? sizeof(double) : sizeof(float);
    const size_t g = run->group;
    if (g == 1 && run->in_gap == 0 && run->out_gap == 0) {
        count_columns(run, x, y, n);
        return;
    }
    for (size_t row = 0; row < (run->rows > 1 ? run->rows : 1); row++) {
        const char *px = (const char *)x + (ptrdiff_t)row * run->in_stride;
        const char *py = (const char *)y + (ptrdiff_t)row * run->out_stride;
        for (size_t i = 0; i < n; i += g) {
            const size_t some = n - i < g ? n - i : g;
            const struct limits limits = limits_at(run, i / g);
            count_group(to, &limits, px, py, some);
            px += (ptrdiff_t)(some * size) + run->in_gap;
            py += (ptrdiff_t)(some * size) + run->out_gap;
        }
    }
}
