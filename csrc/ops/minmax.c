/* SPDX-License-Identifier: Apache-2.0 */
/* minmax: merges the extrema of arrays. Also counts elements that are NaN or infinite. */
#include "args.h"
#include "engine/reduce.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"

/* ---- extrema ---- */

/* Merge extrema into the float64 results of earlier calls. */
static void merge_cells(void *what, const struct pq_cells *cells)
{
    const bool is_f64 = *(const bool *)what;
    for (size_t k = 0; k < cells->n; k++) {
        double *lo = (double *)(void *)(cells->scale + (ptrdiff_t)k * cells->scale_stride);
        double *hi = (double *)(void *)(cells->zero + (ptrdiff_t)k * cells->zero_stride);
        const double least = pq_cell_at(cells->lowest, is_f64, k);
        const double most = pq_cell_at(cells->highest, is_f64, k);
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
        const float least = (float)pq_cell_at(cells->lowest, is_f64, k);
        const float most = (float)pq_cell_at(cells->highest, is_f64, k);
        merge_magnitudes_f32((void *)(cells->scale + (ptrdiff_t)k * cells->scale_stride),
                             &least, &most, 1);
    }
}

enum pq_status pq_minmax(const struct pq_kernels *kernels, const struct pq_args *args,
                         int *finite)
{
    struct pq_args room;
    if (finite == NULL) {
        return PQ_ERR_NULL;
    }
    PQ_TRY(pq_known_args(&args, &room));
    PQ_TRY(pq_check_reduction(kernels, args, &args->lowest, &args->highest, 0, 1));
    const bool magnitudes = args->lowest.type == PQ_F32;
    if ((!magnitudes && args->lowest.type != PQ_F64) ||
        args->highest.type != args->lowest.type) {
        return PQ_ERR_TYPE;
    }
    *finite = 1;
    if (pq_is_empty(args)) {
        return PQ_OK;
    }
    struct pq_args placed = *args;
    placed.scale = args->lowest;
    placed.zero = args->highest;
    bool is_f64 = args->in.type == PQ_F64;
    const enum pq_status status =
        pq_find_extrema(kernels, &placed, false,
                        magnitudes ? merge_magnitudes : merge_cells, &is_f64, 0, 1);
    *finite = status == PQ_OK;
    return status == PQ_ERR_NONFINITE ? PQ_OK : status;
}

/* ---- elements that are NaN or infinite ---- */

/* Count the elements that are NaN or infinite, and find the position of the first. */
static void count_nonfinite(const struct pq_args *args, size_t *count, size_t *first)
{
    ptrdiff_t index[PQ_MAX_NDIM] = {0};
    struct pq_params at = {args->in.data, 0, args->in.type, args->in.swapped};
    if (pq_is_empty(args)) {
        return;
    }
    for (size_t position = 0;; position++) {
        double v;
        pq_load_scales_f64(&v, &at, 1, 0);
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
    PQ_TRY(pq_known_args(&args, &room));
    PQ_TRY(pq_check_shape(args));
    PQ_TRY(pq_check_array(args, &args->in, false));
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
