/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/tile.h"

/* ---- rows by usual strides, of which a compiler makes vectors ---- */

typedef void copy_row_fn(char *PQ_RESTRICT to, const char *PQ_RESTRICT from, ptrdiff_t n);

#define COPY_ROW(name, size, step)                                                         \
    PQ_NOINLINE void name##size(char *PQ_RESTRICT to, const char *PQ_RESTRICT from,        \
                                ptrdiff_t n)                                               \
    {                                                                                      \
        for (ptrdiff_t i = 0; i < n; i++) {                                                \
            memcpy(to + i * (size), from + i * (size) * (step), size);                     \
        }                                                                                  \
    }
#define COPY_ROWS(size)                                                                    \
    COPY_ROW(take_second_, size, 2)                                                        \
    COPY_ROW(take_backward_, size, -1)

COPY_ROWS(1)
COPY_ROWS(2)
COPY_ROWS(4)
COPY_ROWS(8)

/* Where sizes have their places in tables. */
static int place_of(size_t size)
{
    return size == 8 ? 3 : (int)size / 2;
}

/* Null for other strides. */
static copy_row_fn *row_copy_of(const struct pq_tile *tile)
{
    static copy_row_fn *const second[] = {take_second_1, take_second_2, take_second_4,
                                          take_second_8};
    static copy_row_fn *const backward[] = {take_backward_1, take_backward_2,
                                            take_backward_4, take_backward_8};
    const ptrdiff_t once = (ptrdiff_t)tile->size;
    if (tile->swapped) {
        return NULL;
    }
    return tile->column_stride == 2 * once ? second[place_of(tile->size)]
           : tile->column_stride == -once  ? backward[place_of(tile->size)]
                                           : NULL;
}

/* ---- elements by any strides ---- */

/* Four at a time, or to count and to compare would take as long as to copy. */
PQ_INLINE void copy_sized(char *PQ_RESTRICT to, ptrdiff_t to_row, ptrdiff_t to_column,
                          const char *PQ_RESTRICT from, ptrdiff_t from_row,
                          ptrdiff_t from_column, const struct pq_tile *tile, size_t size,
                          bool swapped)
{
    enum { TOGETHER = 4 };
    for (ptrdiff_t r = 0; r < tile->rows; r++) {
        char *y = to + r * to_row;
        const char *x = from + r * from_row;
        ptrdiff_t left = tile->columns;
        for (; left >= TOGETHER; left -= TOGETHER) {
            for (int k = 0; k < TOGETHER; k++) {
                pq_copy_element(y + k * to_column, x + k * from_column, size, swapped);
            }
            y += TOGETHER * to_column;
            x += TOGETHER * from_column;
        }
        for (; left > 0; left--, y += to_column, x += from_column) {
            pq_copy_element(y, x, size, swapped);
        }
    }
}

/* Sizes, byte orders and the contiguous side as constants, one loop for each. */
static void copy_tile(char *to, ptrdiff_t to_row, ptrdiff_t to_column, const char *from,
                      ptrdiff_t from_row, ptrdiff_t from_column, const struct pq_tile *tile)
{
#define COPY(size)                                                                         \
    if (tile->swapped) {                                                                   \
        copy_sized(to, to_row, to_column, from, from_row, from_column, tile, size, true);  \
    } else if (to_column == (size)) {                                                      \
        copy_sized(to, to_row, size, from, from_row, from_column, tile, size, false);      \
    } else {                                                                               \
        copy_sized(to, to_row, to_column, from, from_row, size, tile, size, false);        \
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

/* How many columns are taken as pixels, of which the rows are channels of a byte each. */
static ptrdiff_t channels_done(pq_pixels_fn *pixels, const char *from,
                               ptrdiff_t from_stride, char *to, ptrdiff_t to_stride,
                               const struct pq_tile *tile)
{
    return pixels == NULL || tile->size != 1
               ? 0
               : (ptrdiff_t)pixels(from, from_stride, to, to_stride, (size_t)tile->rows,
                                   (size_t)tile->columns);
}

void pq_gather(const struct pq_kernels *kernels, char *to, const char *from,
               const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size, row = tile->columns * size;
    copy_row_fn *const copy_row = row_copy_of(tile);
    if (pq_tile_rows(tile)) {
        for (ptrdiff_t r = 0; r < tile->rows; r++) {
            memcpy(to + r * row, from + r * tile->row_stride, (size_t)row);
        }
    } else if (pq_tile_transposed(tile)) {
        const ptrdiff_t done =
            channels_done(kernels->split_pixels, from, tile->column_stride, to, row, tile);
        kernels->transpose[place_of(tile->size)](
            from + done * tile->column_stride, tile->column_stride, to + done, row,
            (size_t)tile->rows, (size_t)(tile->columns - done));
    } else if (copy_row != NULL) {
        for (ptrdiff_t r = 0; r < tile->rows; r++) {
            copy_row(to + r * row, from + r * tile->row_stride, tile->columns);
        }
    } else {
        copy_tile(to, row, size, from, tile->row_stride, tile->column_stride, tile);
    }
}

void pq_scatter(const struct pq_kernels *kernels, char *to, const char *from,
                const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size, row = tile->columns * size;
    if (pq_tile_rows(tile)) {
        for (ptrdiff_t r = 0; r < tile->rows; r++) {
            memcpy(to + r * tile->row_stride, from + r * row, (size_t)row);
        }
    } else if (pq_tile_transposed(tile)) {
        const ptrdiff_t done =
            channels_done(kernels->join_pixels, from, row, to, tile->column_stride, tile);
        kernels->transpose[place_of(tile->size)](
            from + done, row, to + done * tile->column_stride, tile->column_stride,
            (size_t)(tile->columns - done), (size_t)tile->rows);
    } else {
        copy_tile(to, tile->row_stride, tile->column_stride, from, row, size, tile);
    }
}
