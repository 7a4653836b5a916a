/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/sweep.h"

#include "engine/params.h"
#include "engine/tile.h"

void pq_sweep_init(struct pq_sweep *sweep, const struct pq_kernels *kernels,
                   const struct pq_array *array, int ndim, const ptrdiff_t *extent)
{
    const ptrdiff_t *const stride = array->strides;
    int n = 0;
    sweep->kernels = kernels;
    sweep->type = array->type;
    sweep->size = pq_bytes_of(array->type);
    sweep->swapped = array->swapped && sweep->size > 1;
    sweep->row = array->data;
    sweep->at = 0;
    sweep->extent[0] = 1;
    sweep->stride[0] = (ptrdiff_t)sweep->size;
    for (int d = ndim - 1; d >= 0; d--) {
        if (extent[d] == 1) {
            continue;
        }
        if (n > 0 && stride[d] == sweep->stride[n - 1] * sweep->extent[n - 1]) {
            sweep->extent[n - 1] *= extent[d];
        } else {
            sweep->extent[n] = extent[d];
            sweep->stride[n] = stride[d];
            sweep->index[n++] = 0;
        }
    }
    sweep->ndim = n > 0 ? n : 1;
}

void pq_sweep_seek(struct pq_sweep *sweep, ptrdiff_t position)
{
    for (int d = 1; d < sweep->ndim; d++) {
        sweep->row -= sweep->index[d] * sweep->stride[d];
    }
    sweep->at = position % sweep->extent[0];
    position /= sweep->extent[0];
    for (int d = 1; d < sweep->ndim; d++) {
        sweep->index[d] = position % sweep->extent[d];
        position /= sweep->extent[d];
        sweep->row += sweep->index[d] * sweep->stride[d];
    }
}

/* Advance by `rows` rows along dimension 1, to the start of a row. At the end of dimension
 * 1, advance the outer dimensions. Return false after the last row. */
static bool skip_rows(struct pq_sweep *sweep, ptrdiff_t rows)
{
    sweep->at = 0;
    for (int d = 1; d < sweep->ndim; d++, rows = 1) {
        sweep->index[d] += rows;
        sweep->row += rows * sweep->stride[d];
        if (sweep->index[d] < sweep->extent[d]) {
            return true;
        }
        sweep->row -= sweep->index[d] * sweep->stride[d];
        sweep->index[d] = 0;
    }
    return false;
}

bool pq_sweep_next_row(struct pq_sweep *sweep)
{
    return skip_rows(sweep, 1);
}

/* Advance by `n` elements of the current row. At the end of the row, go to the next row. */
static void advance_in_row(struct pq_sweep *sweep, ptrdiff_t n)
{
    sweep->at += n;
    if (sweep->at == sweep->extent[0]) {
        skip_rows(sweep, 1);
    }
}

const char *pq_sweep_direct(struct pq_sweep *sweep, size_t n)
{
    if (sweep->swapped || sweep->stride[0] != (ptrdiff_t)sweep->size ||
        sweep->extent[0] - sweep->at < (ptrdiff_t)n) {
        return NULL;
    }
    return sweep->row + sweep->at * sweep->stride[0];
}

/* Return the address of the next `n` elements: in the array, or gathered in `room`. */
static const char *load_next_elements(struct pq_sweep *sweep, size_t n, void *room)
{
    const char *const there = pq_sweep_direct(sweep, n);
    const ptrdiff_t columns = sweep->extent[0], size = (ptrdiff_t)sweep->size;
    if (there != NULL) {
        advance_in_row(sweep, (ptrdiff_t)n);
        return there;
    }
    char *to = room;
    for (ptrdiff_t left = (ptrdiff_t)n, some; left > 0; left -= some, to += some * size) {
        struct pq_tile tile = {1,           columns - sweep->at, 0, sweep->stride[0],
                               sweep->size, sweep->swapped};
        const char *const from = sweep->row + sweep->at * sweep->stride[0];
        if (sweep->at == 0 && sweep->ndim > 1 && left >= columns) { /* complete rows */
            const ptrdiff_t there_are = sweep->extent[1] - sweep->index[1];
            tile.rows = left / columns < there_are ? left / columns : there_are;
            tile.row_stride = sweep->stride[1];
            some = tile.rows * columns;
            pq_gather(sweep->kernels, to, from, &tile);
            skip_rows(sweep, tile.rows);
        } else {
            tile.columns = tile.columns < left ? tile.columns : left;
            some = tile.columns;
            pq_gather(sweep->kernels, to, from, &tile);
            advance_in_row(sweep, some);
        }
    }
    return room;
}

/* Prefetch columns that are far apart, because hardware does not prefetch them. */
static void prefetch_columns(const struct pq_tile *tile, const char *from,
                             ptrdiff_t columns)
{
    const ptrdiff_t last = (tile->rows - 1) * tile->row_stride;
    const bool across =
        (((uintptr_t)from ^ (uintptr_t)(from + last)) & ~(uintptr_t)63) != 0;
    for (ptrdiff_t c = 0; c < columns; c++, from += tile->column_stride) {
        PQ_WILL_READ(from);
        if (across) {
            PQ_WILL_READ(from + last);
        }
    }
}

/* Transpose a tile, some columns at a time, and prefetch the next columns. */
static void gather_transposed(const struct pq_kernels *kernels, char *to, const char *from,
                              const struct pq_tile *tile)
{
    enum { AHEAD_COLUMNS = 16 };
    const ptrdiff_t size = (ptrdiff_t)tile->size;
    const ptrdiff_t ahead = AHEAD_COLUMNS * tile->column_stride;
    pq_transpose_fn *const transpose = pq_transpose_of(kernels, tile);
    for (ptrdiff_t left = tile->columns; left > 0; left -= AHEAD_COLUMNS) {
        const ptrdiff_t n = left < 2 * AHEAD_COLUMNS ? left : AHEAD_COLUMNS;
        prefetch_columns(tile, from + ahead, AHEAD_COLUMNS);
        transpose(from, tile->column_stride, to, tile->columns * size, (size_t)tile->rows,
                  (size_t)n);
        left -= n - AHEAD_COLUMNS;
        from += ahead;
        to += AHEAD_COLUMNS * size;
    }
}

/* Gather the next `n` elements of each group, group by group. */
static void gather_groups(struct pq_sweep *sweep, size_t rows, ptrdiff_t stride, size_t n,
                          char *to)
{
    const size_t row = n * sweep->size;
    const char *const first = sweep->row + sweep->at * sweep->stride[0];
    if (sweep->extent[0] - sweep->at >= (ptrdiff_t)n) {
        const struct pq_tile tile = {(ptrdiff_t)rows,  (ptrdiff_t)n, stride,
                                     sweep->stride[0], sweep->size,  sweep->swapped};
        if (pq_tile_has_contiguous_columns(&tile)) {
            gather_transposed(sweep->kernels, to, first, &tile);
        } else {
            pq_gather(sweep->kernels, to, first, &tile);
        }
        advance_in_row(sweep, (ptrdiff_t)n);
        return;
    }
    const struct pq_sweep before = *sweep;
    for (size_t r = 0; r < rows; r++) {
        const ptrdiff_t beside = (ptrdiff_t)r * stride;
        *sweep = before;
        sweep->row += beside;
        const char *const there = load_next_elements(sweep, n, to + r * row);
        if (there != to + r * row) {
            memcpy(to + r * row, there, row);
        }
        sweep->row -= beside;
    }
}

const char *pq_sweep_load(struct pq_sweep *sweep, enum pq_type type, size_t rows,
                          ptrdiff_t stride, size_t n, void *room, void *raw)
{
    const bool converts = type != sweep->type;
    const char *p = converts ? raw : room;
    if (rows > 1) {
        gather_groups(sweep, rows, stride, n, converts ? raw : room);
    } else {
        p = load_next_elements(sweep, n, converts ? raw : room);
    }
    if (!converts) {
        return p;
    }
    if (type == PQ_F64) {
        const struct pq_params from = {p, (ptrdiff_t)sweep->size, sweep->type, false};
        pq_load_scales_f64(room, &from, n * rows, 0);
    } else {
        pq_load_reals_f32(sweep->kernels, room, p, sweep->type, n * rows);
    }
    return room;
}
