/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random calls of the public functions on random views, and their expected results,
 * computed element by element. Several programs use the views.
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

/* The memory of views. */
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
    int has_words; /* 1: the elements are in `words` */
    struct pq_layout words;
    unsigned char order[256];
};

enum layout {
    PLAIN,     /* C order, native */
    GAPPED,    /* permuted, reversed, with gaps */
    BROADCAST, /* also with strides, for example 0, that make elements overlap */
    ALIGNED    /* GAPPED, with strides that are multiples of the element size */
};

void draw_view(struct view *view, const struct guarded *where, int ndim,
               const ptrdiff_t *extents, enum pq_type type, enum layout layout);
/* Elements of fewer than 8 bits with bit strides. PLAIN is dense, in C order. */
void draw_bits(struct view *view, const struct guarded *where, int ndim,
               const ptrdiff_t *extents, enum pq_type type, enum layout layout);

/* Elements of at most 8 bits in words along a random axis, or int32 codes in three bytes.
 * The view needs at least one axis. */
void draw_words(struct view *view, const struct guarded *where, int ndim,
                const ptrdiff_t *extents, enum pq_type type, enum layout layout);

unsigned char *element_at(const struct pq_array *array, int ndim, const ptrdiff_t *index,
                          const ptrdiff_t *block);
void put_element(const struct pq_array *array, void *at, uint64_t bits);
double real_at(const struct pq_array *array, const void *at);
int64_t integer_at(const struct pq_array *array, const void *at);
/* Set the strides of elements in C order without gaps. Return the bytes that the elements
 * span, with extents of 0 as 1. */
ptrdiff_t set_dense_strides(ptrdiff_t *strides, int ndim, const ptrdiff_t *extents,
                            ptrdiff_t size);
/* Advance to the next index in C order. Return 0 after the last index. */
int step(int ndim, const ptrdiff_t *extents, ptrdiff_t *index);
size_t elements_of(int ndim, const ptrdiff_t *extents);
/* Run the body for each index in C order. */
#define EACH_INDEX(index, ndim, extents)                                                   \
    for (ptrdiff_t index[PQ_MAX_NDIM] = {0}, more_ = elements_of(ndim, extents) != 0;      \
         more_; more_ = step(ndim, extents, index))

/* ---- calls ---- */

struct call {
    struct pq_args args;
    ptrdiff_t shape[PQ_MAX_NDIM], block[PQ_MAX_NDIM];
    ptrdiff_t counts[PQ_MAX_NDIM]; /* extents of the parameters */
    int selects[PQ_MAX_NDIM];
    size_t n;
    struct view in, out, scale, zero, offset;
    int64_t fill[MOST_FILLS];
    int parts;
};

/* Return a number of elements: usually small, seldom large. */
size_t usual_size(void);
enum pq_type pick(const enum pq_type *types, size_t n);
/* Draw a shape of at most `most` elements. */
void draw_shape(struct call *call, size_t most);
/* Draw the dimensions that select parameters, and their block sizes. */
void draw_granularity(struct call *call);
void draw_params(struct call *call, enum layout layout, enum pq_type scale_type,
                 enum pq_type zero_type, int with_zero);
void clear_unselected(const struct call *call, struct view *view);
void fill_params(struct call *call, int quantize);
void fill_input(struct call *call, int quantize);

/* Draw the options that quantize or dequantize accepts for codes of type `code`, except
 * affine options. */
void draw_options(struct call *call, enum pq_type code, int quantize);

/* Add random affine options: offsets, multipliers, fills, a range, policies. Call this
 * function before the numbers are drawn, because the offsets are numbers, too. */
void draw_affine(struct call *call, int quantize);

/* Set the shape, arrays and layouts of the arguments. The arrays of scales and zero points
 * also serve as the cells of extrema. */
void collect_args(struct call *call);

/* The number of elements out of range, and the C-order position of the first. */
struct out_of_range {
    size_t count, first;
};

/* Compute the result into a copy of the output that begins at `lowest`. Zero points of a
 * type that differs from the codes must be at most 2^52 in magnitude. */
struct out_of_range naive(const struct call *call, int quantize, unsigned char *lowest);
/* Compute the result of pq_repack(). */
void naive_repack(const struct call *call, unsigned char *lowest);
void describe(const struct call *call, int quantize, char *text, size_t size);

#endif
