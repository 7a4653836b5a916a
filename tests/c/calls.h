/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random arguments for the public functions, random views, and the expected results of a
 * call. The results are computed element by element. Several programs use this file.
 * Functions that begin with draw_ choose values at random.
 */
#ifndef CALLS_H
#define CALLS_H

#include "check.h"

enum {
    USUAL_ELEMENTS = 3000,
    MOST_ELEMENTS = 80000,
    ARENA = 1 << 20,
    MOST_FILLS = 3,
    MOST_NDIM = 8 /* dimensions of a view */
};

/* The memory that contains the elements of views. Each array of a call has an arena. */
struct arenas {
    struct guarded in, out, scale, zero, offset;
};
extern struct arenas memory;
void make_arenas(void);

/* ---- views ---- */

/* An array and the memory that its elements span. */
struct view {
    struct pq_array array;
    ptrdiff_t strides[PQ_MAX_NDIM];
    unsigned char *lowest;
    size_t bytes;
    int has_words; /* 1 if the elements are stored in words with the layout `words` */
    struct pq_layout words;
    unsigned char order[256];
};

enum layout {
    PLAIN,     /* C order, native */
    GAPPED,    /* axes in any order, negative strides, gaps between elements */
    BROADCAST, /* like GAPPED, and some strides, for example 0, make elements overlap */
    ALIGNED    /* like GAPPED, but the strides are multiples of the element size */
};

void draw_view(struct view *view, const struct guarded *where, int ndim,
               const ptrdiff_t *extents, enum pq_type type, enum layout layout);
/* Choose bit strides for elements of fewer than 8 bits. PLAIN is C order without gaps. */
void draw_bits(struct view *view, const struct guarded *where, int ndim,
               const ptrdiff_t *extents, enum pq_type type, enum layout layout);

/* Choose a layout in words: elements of at most 8 bits along a random axis, or int32 codes
 * of 24 bits in three bytes. The view must have at least one axis. */
void draw_words(struct view *view, const struct guarded *where, int ndim,
                const ptrdiff_t *extents, enum pq_type type, enum layout layout);

unsigned char *element_at(const struct pq_array *array, int ndim, const ptrdiff_t *index,
                          const ptrdiff_t *block);
void put_element(const struct pq_array *array, void *at, uint64_t bits);
double real_at(const struct pq_array *array, const void *at);
int64_t integer_at(const struct pq_array *array, const void *at);
/* Set the strides of elements of `size` bytes in C order without gaps. Return the number of
 * bytes that the elements span. An extent of 0 counts as 1. */
ptrdiff_t set_dense_strides(ptrdiff_t *strides, int ndim, const ptrdiff_t *extents,
                            ptrdiff_t size);
/* Advance `index` to the next element in C order. Return 0 after the last element. */
int step(int ndim, const ptrdiff_t *extents, ptrdiff_t *index);
size_t elements_of(int ndim, const ptrdiff_t *extents);
/* Run the body for the index of each element, in C order. */
#define EACH_INDEX(index, ndim, extents)                                                   \
    for (ptrdiff_t index[PQ_MAX_NDIM] = {0}, more_ = elements_of(ndim, extents) != 0;      \
         more_; more_ = step(ndim, extents, index))

/* ---- calls ---- */

struct call {
    struct pq_args args;
    ptrdiff_t shape[PQ_MAX_NDIM], block[PQ_MAX_NDIM];
    ptrdiff_t counts[PQ_MAX_NDIM]; /* number of parameters along each dimension */
    int selects[PQ_MAX_NDIM];
    size_t n;
    struct view in, out, scale, zero, offset;
    int64_t fill[MOST_FILLS];
    int parts;
};

/* Return a limit for the number of elements of a random call. One limit in 100 is large. */
size_t usual_size(void);
enum pq_type pick(const enum pq_type *types, size_t n);
/* Choose a random shape with at most `most` elements. */
void draw_shape(struct call *call, size_t most);
/* Choose at random which dimensions have separate parameters, and the block size of each
 * dimension. */
void draw_granularity(struct call *call);
void draw_params(struct call *call, enum layout layout, enum pq_type scale_type,
                 enum pq_type zero_type, int with_zero);
void clear_unselected(const struct call *call, struct view *view);
void fill_params(struct call *call, int quantize);
void fill_input(struct call *call, int quantize);

/* Choose random options that quantize or dequantize accepts for codes of type `code`.
 * Affine options are not set. */
void draw_options(struct call *call, enum pq_type code, int quantize);

/* Add random affine options: offsets, inverse scales, fill codes, a range of codes,
 * policies for values out of range. Call this function before fill_params(), because
 * fill_params() also writes the offsets. */
void draw_affine(struct call *call, int quantize);

/* Copy the shape, arrays and layouts of `call` to `call->args`. The arrays of scales and of
 * zero points also serve as the output of calls that find extrema. */
void collect_args(struct call *call);

/* The number of elements out of range, and the index of the first in C order. */
struct out_of_range {
    size_t count, first;
};

/* Compute the expected results of a call into a copy of the output, which begins at
 * `lowest`. If the type of the zero points is not the type of the codes, zero points must
 * be at most 2^52 in magnitude. */
struct out_of_range naive(const struct call *call, int quantize, unsigned char *lowest);
/* Like naive(), but compute the expected results of pq_repack(). */
void naive_repack(const struct call *call, unsigned char *lowest);
void describe(const struct call *call, int quantize, char *text, size_t size);

#endif
