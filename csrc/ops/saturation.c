/* SPDX-License-Identifier: Apache-2.0 */
/* Count elements with a quotient outside the range of the codes. If the quotients of the
 * extrema of a group are within the range, the group needs no loop over elements. */
#include <math.h>

#include "math/narrow_float.h"
#include "ops/fake_quantize.h"

enum {
    TILE_COLUMNS = PQ_SIZE(64, 8),
    MIN_SEARCHED_ELEMENTS = 8 /* elements of shorter groups are counted without extrema */
};

/* Parameters, and the quotients beyond which an element saturates. A group of
 * several elements uses index 0. `invalid` counts scales that are 0, infinite or NaN. */
struct limits {
    double scale[TILE_COLUMNS], offset[TILE_COLUMNS], low[TILE_COLUMNS], high[TILE_COLUMNS];
    int64_t invalid;
};

struct pq_saturation pq_saturation_of(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_method *how, enum pq_type code)
{
    struct pq_saturation to = {
        .kernels = kernels,
        .is_f64 = args->in.type == PQ_F64,
        .has_zero = args->zero.data != NULL && !pq_is_narrow_float(code),
        .has_offset = args->offset.data != NULL,
        .is_zero_64_bit = how->has_64_bit_zero,
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

/* Return the zero point of group `k` as float64, or 0 without zero points. */
static double zero_at(const struct pq_run *run, size_t k)
{
    const struct pq_saturation *const to = run->tile_steps->saturation;
    if (!to->has_zero) {
        return 0;
    }
    if (to->is_zero_64_bit) {
        const uint64_t zero = run->zero.u64[k];
        return to->is_zero_unsigned ? (double)zero : (double)(int64_t)zero;
    }
    return run->general ? run->zero.f64[k] : (double)run->zero.i32[k];
}

/* Load the limits of `n` groups of a run. The first group is `first`. */
static void load_limits(struct limits *limits, const struct pq_run *run, size_t first,
                        size_t n)
{
    const struct pq_saturation *const to = run->tile_steps->saturation;
    const bool general = run->general;
    limits->invalid = 0;
    for (size_t i = 0; i < n; i++) {
        const size_t k = first + i;
        const double zero = zero_at(run, k);
        const double scale = general ? run->scale.f64[k] : (double)run->scale.f32[k];
        limits->scale[i] = scale;
        limits->offset[i] = !to->has_offset ? 0
                            : general       ? run->offset.f64[k]
                                            : (double)run->offset.f32[k];
        limits->low[i] = to->lowest - zero - to->margin;
        limits->high[i] = to->highest - zero + to->margin;
        limits->invalid += !pq_is_finite_f64(scale) || scale == 0;
    }
}

/* ---- elements ---- */

/* Count saturated elements. An element that the round trip does not change is not
 * saturated. `at` is the index of the limits of element i. */
#define COUNT(name, real, at)                                                              \
    static void name(const struct limits *by, const void *px, const void *py, size_t n,    \
                     int64_t *lows, int64_t *highs)                                        \
    {                                                                                      \
        const char *const x = px, *const y = py;                                           \
        unsigned low = 0, high = 0;                                                        \
        for (size_t i = 0; i < n; i++) {                                                   \
            real v, back;                                                                  \
            memcpy(&v, x + i * sizeof v, sizeof v);                                        \
            memcpy(&back, y + i * sizeof back, sizeof back);                               \
            const real q = (v - (real)by->offset[at]) / (real)by->scale[at];               \
            low += ((double)q < by->low[at]) & (v != back);                                \
            high += ((double)q > by->high[at]) & (v != back);                              \
        }                                                                                  \
        *lows += low;                                                                      \
        *highs += high;                                                                    \
    }
COUNT(count_f32, float, 0)
COUNT(count_f64, double, 0)
COUNT(count_each_f32, float, i)
COUNT(count_each_f64, double, i)
#undef COUNT

typedef void count_fn(const struct limits *by, const void *x, const void *y, size_t n,
                      int64_t *lows, int64_t *highs);

/* Return true if an extremum of a group is beyond the limits, if the group has a NaN or an
 * infinity, or if it is short. */
static bool may_saturate(const struct pq_saturation *to, count_fn *count,
                         const struct limits *by, const char *x, size_t n)
{
    const size_t size = to->is_f64 ? sizeof(double) : sizeof(float);
    const int row = to->is_f64 ? (int)PQ_F64_ROW : (int)PQ_F32_ROW;
    double extrema[2], nans[2];
    void *const highest = pq_extremum(extrema, to->is_f64, 1);
    uint32_t bits = 0;
    int64_t low = 0, high = 0;
    if (n < MIN_SEARCHED_ELEMENTS) {
        return true;
    }
    memcpy(extrema, x, size);
    memcpy(highest, x, size);
    memset(nans, 0xff, sizeof nans);
    to->kernels->minmax[row](x, n, extrema, highest, &bits);
    count(by, extrema, nans, 2, &low, &high);
    return bits >= PQ_INFINITY_BITS || low + high != 0;
}

/* This loop is faster than pq_run_tiles(), with which the calls for each group would take 5
 * to 7 percent of the time to measure errors in groups of 32. The loop also reads the
 * parameters of a column once for all rows. */
void pq_count_saturated(const struct pq_run *run, const void *px, const void *py, size_t n)
{
    static count_fn *const counts[2][2] = {{count_f32, count_f64},
                                           {count_each_f32, count_each_f64}};
    const struct pq_saturation *const to = run->tile_steps->saturation;
    const size_t size = to->is_f64 ? sizeof(double) : sizeof(float);
    const bool per_element = pq_has_element_groups(run);
    const size_t step = per_element ? TILE_COLUMNS : run->group;
    count_fn *const count = counts[per_element][to->is_f64];
    struct limits limits;
    const char *x = px, *y = py;
    for (size_t i = 0, m; i < n; i += m) {
        m = n - i < step ? n - i : step;
        load_limits(&limits, run, i / run->group, per_element ? m : 1);
        for (size_t row = 0; row == 0 || row < run->rows; row++) {
            const char *const from = x + (ptrdiff_t)row * run->in_stride;
            const char *const back = y + (ptrdiff_t)row * run->out_stride;
            *to->bad += limits.invalid * (int64_t)(per_element ? 1 : m);
            if (per_element || may_saturate(to, count, &limits, from, m)) {
                count(&limits, from, back, m, to->low, to->high);
            }
        }
        x += (ptrdiff_t)(m * size) + run->in_gap;
        y += (ptrdiff_t)(m * size) + run->out_gap;
    }
}
