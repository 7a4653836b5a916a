/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tile.h"

/* Copy every `step`th element of a row. Compilers vectorize the loop if `size` and `step`
 * are constants. */
PQ_INLINE void copy_row(char *PQ_RESTRICT to, const char *PQ_RESTRICT from, ptrdiff_t n,
                        size_t size, ptrdiff_t step)
{
    for (ptrdiff_t i = 0; i < n; i++) {
        memcpy(to + i * (ptrdiff_t)size, from + i * (ptrdiff_t)size * step, size);
    }
}

/* Copy a tile element by element, four in each iteration: with one element, the loop
 * overhead would take as long as the copy. */
PQ_INLINE void copy_sized(char *PQ_RESTRICT to, ptrdiff_t to_row, ptrdiff_t to_column,
                          const char *PQ_RESTRICT from, ptrdiff_t from_row,
                          ptrdiff_t from_column, const struct pq_tile *tile, size_t size,
                          bool swapped)
{
    enum { UNROLLED_ELEMENTS = 4 };
    for (ptrdiff_t r = 0; r < tile->rows; r++) {
        char *y = to + r * to_row;
        const char *x = from + r * from_row;
        ptrdiff_t left = tile->columns;
        for (; left >= UNROLLED_ELEMENTS; left -= UNROLLED_ELEMENTS) {
            for (int k = 0; k < UNROLLED_ELEMENTS; k++) {
                pq_copy_element(y + k * to_column, x + k * from_column, size, swapped);
            }
            y += UNROLLED_ELEMENTS * to_column;
            x += UNROLLED_ELEMENTS * from_column;
        }
        for (; left > 0; left--, y += to_column, x += from_column) {
            pq_copy_element(y, x, size, swapped);
        }
    }
}

/* Copy a tile. In each loop, element size, byte order and contiguous side are constants. */
static void copy_tile(char *to, ptrdiff_t to_row, ptrdiff_t to_column, const char *from,
                      ptrdiff_t from_row, ptrdiff_t from_column, const struct pq_tile *tile)
{
#define COPY(size)                                                                         \
    if (tile->swapped) {                                                                   \
        copy_sized(to, to_row, to_column, from, from_row, from_column, tile, size, true);  \
    } else if (to_column == (size) && from_column == 2 * (size)) {                         \
        for (ptrdiff_t r = 0; r < tile->rows; r++) {                                       \
            copy_row(to + r * to_row, from + r * from_row, tile->columns, size, 2);        \
        }                                                                                  \
    } else if (to_column == (size) && from_column == -(size)) {                            \
        for (ptrdiff_t r = 0; r < tile->rows; r++) {                                       \
            copy_row(to + r * to_row, from + r * from_row, tile->columns, size, -1);       \
        }                                                                                  \
    } else if (to_column == (size)) {                                                      \
        copy_sized(to, to_row, size, from, from_row, from_column, tile, size, false);      \
    } else if (from_column == (size)) {                                                    \
        copy_sized(to, to_row, to_column, from, from_row, size, tile, size, false);        \
    } else {                                                                               \
        copy_sized(to, to_row, to_column, from, from_row, from_column, tile, size, false); \
    }                                                                                      \
    break;
    switch (tile->size) {
    case 1:
        COPY(1)
    case 2:
        COPY(2)
    case 4:
        COPY(4)
    default:
        COPY(8)
    }
#undef COPY
}

/* ---- tiles ---- */

enum { SHORT_ROW = 8 }; /* shorter rows are copied column by column */

enum { MAX_CHANNELS = 7 };

/* Transpose like a pq_transpose_fn. A tile with few rows or few columns can be pixels with
 * few channels. A kernel splits or joins the channels of most of these pixels. */
static void transpose_pixels(const struct pq_kernels *kernels, const char *from,
                             ptrdiff_t from_stride, char *to, ptrdiff_t to_stride,
                             ptrdiff_t rows, ptrdiff_t columns, const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size;
    const bool joins = rows > MAX_CHANNELS;
    const ptrdiff_t channels = joins ? columns : rows, pixels = joins ? rows : columns;
    pq_pixels_fn *const copy = joins ? kernels->join_pixels : kernels->split_pixels;
    ptrdiff_t done = 0;
    if (copy != NULL && channels <= MAX_CHANNELS && size <= (ptrdiff_t)sizeof(int32_t)) {
        done = (ptrdiff_t)copy(from, from_stride, to, to_stride, (size_t)channels,
                               (size_t)pixels, tile->size);
    }
    from += done * (joins ? size : from_stride);
    to += done * (joins ? to_stride : size);
    pq_transpose_of(kernels, tile)(from, from_stride, to, to_stride,
                                   (size_t)(joins ? rows - done : rows),
                                   (size_t)(joins ? columns : columns - done));
}

void pq_gather(const struct pq_kernels *kernels, char *to, const char *from,
               const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size, row = tile->columns * size;
    if (pq_tile_has_contiguous_rows(tile)) {
        for (ptrdiff_t r = 0; r < tile->rows; r++) {
            memcpy(to + r * row, from + r * tile->row_stride, (size_t)row);
        }
    } else if (pq_tile_is_transposed(tile)) {
        /* If columns descend in memory, the last row has the lowest address. */
        const bool descends = tile->row_stride < 0;
        const ptrdiff_t last = descends ? tile->rows - 1 : 0, step = descends ? -row : row;
        transpose_pixels(kernels, from - last * size, tile->column_stride, to + last * row,
                         step, tile->rows, tile->columns, tile);
    } else if (tile->columns < SHORT_ROW && tile->rows > tile->columns) {
        /* Copy short rows column by column, for example pixels with reversed channels. */
        const struct pq_tile turned = {tile->columns,    tile->rows, tile->column_stride,
                                       tile->row_stride, tile->size, tile->swapped};
        copy_tile(to, size, row, from, turned.row_stride, turned.column_stride, &turned);
    } else {
        copy_tile(to, row, size, from, tile->row_stride, tile->column_stride, tile);
    }
}

void pq_scatter(const struct pq_kernels *kernels, char *to, const char *from,
                const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size, row = tile->columns * size;
    if (pq_tile_has_contiguous_rows(tile)) {
        for (ptrdiff_t r = 0; r < tile->rows; r++) {
            memcpy(to + r * tile->row_stride, from + r * row, (size_t)row);
        }
    } else if (pq_tile_has_contiguous_columns(tile)) {
        transpose_pixels(kernels, from, row, to, tile->column_stride, tile->columns,
                         tile->rows, tile);
    } else {
        copy_tile(to, tile->row_stride, tile->column_stride, from, row, size, tile);
    }
}
