/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of tiles, which have rows x columns elements, between a strided array (the strided
 * side) and contiguous memory. */
#ifndef PQ_TILE_H
#define PQ_TILE_H

#include <string.h>

#include "kernels/kernels.h"
#include "pq_compiler.h"

/* Maximum number of elements that are gathered to count elements or to find extrema. */
enum { PQ_GATHERED_ELEMENTS = PQ_SIZE(1024, 64) };

struct pq_tile {
    ptrdiff_t rows, columns;
    ptrdiff_t row_stride, column_stride; /* in bytes, of the strided side */
    size_t size;                         /* size of an element in bytes */
    bool swapped;                        /* the strided side is not in native byte order */
};

/* Copy an element, with its bytes reversed if `swapped`. */
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

static inline bool pq_tile_has_contiguous_rows(const struct pq_tile *tile)
{
    return !tile->swapped && tile->column_stride == (ptrdiff_t)tile->size;
}

static inline bool pq_tile_has_contiguous_columns(const struct pq_tile *tile)
{
    return !tile->swapped && tile->rows > 1 && tile->row_stride == (ptrdiff_t)tile->size;
}

/* Return true if pq_gather() transposes: the elements of a column are adjacent, in
 * ascending or descending order. */
static inline bool pq_tile_is_transposed(const struct pq_tile *tile)
{
    return pq_tile_has_contiguous_columns(tile) ||
           (!tile->swapped && tile->rows > 1 && tile->row_stride == -(ptrdiff_t)tile->size);
}

/* Return true if the strided side is contiguous too, so that no copy is needed. */
static inline bool pq_tile_direct(const struct pq_tile *tile)
{
    const ptrdiff_t size = (ptrdiff_t)tile->size;
    return !tile->swapped && (tile->columns == 1 || tile->column_stride == size) &&
           (tile->rows == 1 || tile->row_stride == tile->columns * size);
}

/* Return the kernel that transposes a tile of elements of 1, 2, 4 or 8 bytes. */
static inline pq_transpose_fn *pq_transpose_of(const struct pq_kernels *kernels,
                                               const struct pq_tile *tile)
{
    return kernels->transpose[tile->size == 8 ? 3 : (int)tile->size / 2];
}

/* Copy a tile from a strided array to contiguous memory, and back. */
void pq_gather(const struct pq_kernels *kernels, char *to, const char *from,
               const struct pq_tile *tile);
void pq_scatter(const struct pq_kernels *kernels, char *to, const char *from,
                const struct pq_tile *tile);

#endif
