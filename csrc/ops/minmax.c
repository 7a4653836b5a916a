/* SPDX-License-Identifier: Apache-2.0 */
/* minmax: merge extrema of groups into earlier results. Count nonfinite elements. */
#include "args.h"
#include "engine/reduce.h"
#include "engine/sweep.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"

/* ---- extrema ---- */

/* Merge the extrema of a call into the float64 results of earlier calls. */
static void merge_cells(void *what, const struct pq_cells *cells)
{
    const bool is_f64 = *(const bool *)what;
    for (size_t k = 0; k < cells->n; k++) {
        double *lo = (double *)(void *)(cells->scale + (ptrdiff_t)k * cells->scale_stride);
        double *hi = (double *)(void *)(cells->zero + (ptrdiff_t)k * cells->zero_stride);
        const double least = pq_extremum_at(cells->lowest, is_f64, k);
        const double most = pq_extremum_at(cells->highest, is_f64, k);
        *lo = least < *lo ? least : *lo;
        *hi = most > *hi ? most : *hi;
    }
}

/* Merge the larger magnitude of each pair of extrema into float32 results. */
PQ_NOINLINE void merge_magnitudes_f32(float *PQ_RESTRICT to, const float *least,
                                      const float *most, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const float magnitude = most[k] > -least[k] ? most[k] : -least[k];
        to[k] = magnitude > to[k] ? magnitude : to[k];
    }
}

static void merge_magnitudes(void *what, const struct pq_cells *cells)
{
    const bool is_f64 = *(const bool *)what;
    if (!is_f64 && cells->scale_stride == (ptrdiff_t)sizeof(float)) {
        merge_magnitudes_f32((void *)cells->scale, cells->lowest, cells->highest, cells->n);
        return;
    }
    for (size_t k = 0; k < cells->n; k++) {
        const float least = (float)pq_extremum_at(cells->lowest, is_f64, k);
        const float most = (float)pq_extremum_at(cells->highest, is_f64, k);
        merge_magnitudes_f32((void *)(cells->scale + (ptrdiff_t)k * cells->scale_stride),
                             &least, &most, 1);
    }
}

enum pq_status pq_minmax(const struct pq_kernels *kernels, const struct pq_args *args,
                         int *finite)
{
    struct pq_args room;
    PQ_REQUIRE(finite != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_adapt_args_version(&args, &room));
    PQ_TRY(pq_check_reduction(kernels, args, &args->lowest, &args->highest, 0, 1));
    PQ_TRY(pq_check_options(args, pq_options_of(args), PQ_ACCEPTS_NONE));
    const bool magnitudes = args->lowest.type == PQ_F32;
    PQ_REQUIRE((magnitudes || args->lowest.type == PQ_F64) &&
                   args->highest.type == args->lowest.type,
               PQ_ERR_TYPE);
    *finite = 1;
    if (pq_is_empty(args)) {
        return PQ_OK;
    }
    struct pq_args placed = *args;
    placed.scale = args->lowest;
    placed.zero = args->highest;
    bool is_f64 = args->in.type == PQ_F64;
    const enum pq_status status =
        pq_find_extrema(NULL, kernels, &placed, false,
                        magnitudes ? merge_magnitudes : merge_cells, &is_f64, 0, 1);
    *finite = status == PQ_OK;
    return status == PQ_ERR_NONFINITE ? PQ_OK : status;
}

/* ---- elements that are NaN or infinite ---- */

/* Count the elements that are NaN or infinite, and find the position of the first such
 * element. */
static void count_nonfinite(const struct pq_args *args, size_t *count, size_t *first)
{
    const struct pq_array *const in = &args->in;
    struct pq_sweep sweep;
    size_t position = 0;
    pq_sweep_init(&sweep, NULL, in, args->ndim, args->shape);
    do {
        struct pq_params at = {sweep.row, sweep.stride[0], in->type, in->swapped};
        for (ptrdiff_t i = 0; i < sweep.extent[0]; i++, position++, at.data += at.stride) {
            double v;
            pq_load_scales_f64(&v, &at, 1, 0);
            if (!pq_is_finite_f64(v) && (*count)++ == 0) {
                *first = position;
            }
        }
    } while (pq_sweep_next_row(&sweep));
}

enum pq_status pq_count_nonfinite(const struct pq_args *args, size_t *count, size_t *first)
{
    struct pq_args room;
    PQ_REQUIRE(count != NULL && first != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_adapt_args_version(&args, &room));
    PQ_TRY(pq_check_reals(args, &args->in));
    *count = 0;
    *first = 0;
    if (!pq_is_empty(args)) {
        const pq_fpenv found = pq_fpenv_enter();
        count_nonfinite(args, count, first);
        pq_fpenv_leave(found);
    }
    return PQ_OK;
}
