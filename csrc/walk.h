/* SPDX-License-Identifier: Apache-2.0 */
/* Steps shared by everything that executes a plan: outer dimensions, strided tiles. */
#ifndef PQ_WALK_H
#define PQ_WALK_H

#include <string.h>

#include "kernels.h"
#include "plan.h"
#include "scalar_math.h"

/* Where one row, or one tile of rows, begins. */
struct pq_cursor {
    const char *in;
    char *out;
    const char *scale, *zero;
    ptrdiff_t in_code, out_code; /* of streams */
};

/* The cursor moved to index `i` of `dim`. */
static inline struct pq_cursor pq_cursor_at(struct pq_cursor at, const struct pq_dim *dim,
                                            ptrdiff_t i)
{
    at.in += i * dim->in;
    if (at.out != NULL) {
        at.out += i * dim->out;
    }
    at.scale += pq_dim_scale(dim, i);
    at.zero += pq_dim_zero(dim, i);
    at.in_code += i * dim->in_code;
    at.out_code += i * dim->out_code;
    return at;
}

static inline struct pq_cursor pq_cursor_start(const struct pq_plan *plan)
{
    return (struct pq_cursor){plan->in,   plan->out,     plan->scale,
                              plan->zero, plan->in_code, 0};
}

/* Call `visit` at every index of the dimensions from `first` outwards. */
typedef void pq_visit_fn(void *job, struct pq_cursor at);

static inline void pq_walk(const struct pq_plan *plan, int first, pq_visit_fn *visit,
                           void *job)
{
    ptrdiff_t index[PQ_MAX_NDIM];
    struct pq_cursor start[PQ_MAX_NDIM + 1]; /* start[d]: at the indices of dims above d */
    int d = plan->ndim;
    start[d] = pq_cursor_start(plan);
    for (;;) {
        while (d > first) { /* enter the dimensions within */
            d--;
            index[d] = plan->dim[d].begin;
            start[d] = pq_cursor_at(start[d + 1], &plan->dim[d], index[d]);
        }
        visit(job, start[first]);
        for (;; d++) { /* step the innermost one that has an index left */
            if (d == plan->ndim) {
                return;
            }
            if (++index[d] < plan->dim[d].end) {
                start[d] = pq_cursor_at(start[d + 1], &plan->dim[d], index[d]);
                break;
            }
        }
    }
}

/* ---- tiles: `rows` x `columns` elements, contiguous on one side ---- */

struct pq_tile {
    ptrdiff_t rows, columns;
    ptrdiff_t row_stride, column_stride; /* bytes, of the strided side */
    size_t size;                         /* of an element */
    bool swapped;                        /* byte order of the strided side */
};

PQ_INLINE void pq_copy_element(char *to, const char *from, size_t size, bool swapped)
{
    if (swapped) {
        for (size_t b = 0; b < size; b++) {
            to[b] = from[size - 1 - b];
        }
    } else {
        memcpy(to, from, size);
    }
}

/* Copy element by element between two strided layouts, the inner loop along `columns`. */
PQ_INLINE void pq_copy_strided(char *PQ_RESTRICT to, ptrdiff_t to_row, ptrdiff_t to_column,
                               const char *PQ_RESTRICT from, ptrdiff_t from_row,
                               ptrdiff_t from_column, ptrdiff_t rows, ptrdiff_t columns,
                               size_t size, bool swapped)
{
    for (ptrdiff_t r = 0; r < rows; r++) {
        for (ptrdiff_t c = 0; c < columns; c++) {
            pq_copy_element(to + r * to_row + c * to_column,
                            from + r * from_row + c * from_column, size, swapped);
        }
    }
}

/* Sizes, byte orders and the usual inner strides as constants, one loop for each. */
PQ_INLINE void pq_copy_sized(char *to, ptrdiff_t to_row, ptrdiff_t to_column,
                             const char *from, ptrdiff_t from_row, ptrdiff_t from_column,
                             const struct pq_tile *tile, size_t size, bool swapped)
{
    const ptrdiff_t once = (ptrdiff_t)size;
#define COPY(to_stride, from_stride)                                                       \
    pq_copy_strided(to, to_row, to_stride, from, from_row, from_stride, tile->rows,        \
                    tile->columns, size, swapped)
    if (swapped) {
        COPY(to_column, from_column);
    } else if (to_column == once && from_column == 2 * once) {
        COPY(once, 2 * once);
    } else if (to_column == once && from_column == -once) {
        COPY(once, -once);
    } else if (to_column == once) {
        COPY(once, from_column);
    } else {
        COPY(to_column, once);
    }
#undef COPY
}

/* One side is contiguous, from row to row and along each. */
static inline void pq_copy_tile(char *to, ptrdiff_t to_row, ptrdiff_t to_column,
                                const char *from, ptrdiff_t from_row, ptrdiff_t from_column,
                                const struct pq_tile *tile)
{
#define COPY(size, swapped)                                                                \
    pq_copy_sized(to, to_row, to_column, from, from_row, from_column, tile, size, swapped)
    switch (tile->size) {
    case 1:
        COPY(1, false);
        break;
    case 2:
        tile->swapped ? COPY(2, true) : COPY(2, false);
        break;
    case 4:
        tile->swapped ? COPY(4, true) : COPY(4, false);
        break;
    default:
        tile->swapped ? COPY(8, true) : COPY(8, false);
        break;
    }
#undef COPY
}

/* Whether rows lie as they do in a contiguous array, but further apart. */
static inline bool pq_tile_rows(const struct pq_tile *tile)
{
    return !tile->swapped && tile->column_stride == (ptrdiff_t)tile->size;
}

/* Whether columns lie so. */
static inline bool pq_tile_transposed(const struct pq_tile *tile)
{
    return !tile->swapped && tile->rows > 1 && tile->row_stride == (ptrdiff_t)tile->size;
}

static inline void pq_gather(const struct pq_kernels *kernels, char *to, const char *from,
                             const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size, row = tile->columns * size;
    pq_transpose_fn *const transpose = kernels->transpose[size == 8 ? 3 : size / 2];
    if (pq_tile_rows(tile)) {
        for (ptrdiff_t r = 0; r < tile->rows; r++) {
            memcpy(to + r * row, from + r * tile->row_stride, (size_t)row);
        }
    } else if (pq_tile_transposed(tile)) {
        transpose(from, tile->column_stride, to, row, (size_t)tile->rows,
                  (size_t)tile->columns);
    } else {
        pq_copy_tile(to, row, size, from, tile->row_stride, tile->column_stride, tile);
    }
}

static inline void pq_scatter(const struct pq_kernels *kernels, char *to, const char *from,
                              const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size, row = tile->columns * size;
    pq_transpose_fn *const transpose = kernels->transpose[size == 8 ? 3 : size / 2];
    if (pq_tile_rows(tile)) {
        for (ptrdiff_t r = 0; r < tile->rows; r++) {
            memcpy(to + r * tile->row_stride, from + r * row, (size_t)row);
        }
    } else if (pq_tile_transposed(tile)) {
        transpose(from, row, to, tile->column_stride, (size_t)tile->columns,
                  (size_t)tile->rows);
    } else {
        pq_copy_tile(to, tile->row_stride, tile->column_stride, from, row, size, tile);
    }
}

/* Whether the strided side is contiguous too, and can be used as it is. */
static inline bool pq_tile_direct(const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size;
    return !tile->swapped && (tile->columns == 1 || tile->column_stride == size) &&
           (tile->rows == 1 || tile->row_stride == tile->columns * size);
}

#endif
