/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shape, strides, axes and blocks -> as few and as long dimensions as possible. The one
 * place that knows shapes; of element types it knows sizes, of CPUs nothing.
 */
#ifndef PQ_PLAN_H
#define PQ_PLAN_H

#include <stdbool.h>

#include "pq.h"

/*
 * One dimension of the normalised iteration: indices [begin, end). Strides are bytes per
 * index, for `scale` and `zero` bytes per `block` indices. A dimension that selects no
 * parameter is uniform: both of those are 0. The axis of a stream, see pq_layout, has no
 * stride on that side, but a step from code to code, 1 or -1, where others have 0. `place`
 * is the step of positions in C order, modulo 2^64; 0 where nobody asks for these.
 */
struct pq_dim {
    ptrdiff_t begin, end;
    ptrdiff_t in, out;
    ptrdiff_t in_code, out_code;
    ptrdiff_t group_size, scale, zero;
    uint64_t place;
};

/* dim[0] is the innermost; at least two dimensions, the extra ones of one index. */
struct pq_plan {
    bool empty;
    int ndim;
    const char *in;
    char *out; /* null when nothing is written */
    const char *scale, *zero;
    ptrdiff_t in_code;        /* the first of a stream */
    ptrdiff_t out_full_words; /* of a stream: codes that begin and end with words */
    uint64_t place;           /* of the first element */
    struct pq_dim dim[PQ_MAX_NDIM];
};

static inline ptrdiff_t pq_magnitude(ptrdiff_t v)
{
    return v < 0 ? -v : v;
}

/* Whether bytes hold two codes each, the first of them in the upper half. */
static inline bool pq_is_high_first(const struct pq_layout *layout)
{
    return layout != NULL && layout->bits == 4 && layout->word_bits == 8 &&
           layout->word_stride == 8 && layout->order != NULL && layout->group == 2 &&
           layout->order[0] == 1;
}

/* Whether codes of a layout lie elsewhere than at plain bit strides, or beside there in the
 * same byte. */
static inline bool pq_is_stream(const struct pq_layout *layout)
{
    return layout != NULL && !pq_is_high_first(layout) &&
           (layout->order != NULL || layout->word_stride != layout->word_bits);
}

/* Bits of a code; 0 where elements have bytes. */
int pq_code_bits(const struct pq_array *array, const struct pq_layout *layout);

/* Plan `args`, checked, whose out.data may be null for a reduction. `out_size` is the size
 * of an element of `out`, for telling whether its elements overlap. */
enum pq_status pq_plan_init(struct pq_plan *plan, const struct pq_args *args,
                            size_t out_size);

/* Narrow the plan to one of `parts` nearly equal shares of the work, which can be empty. If
 * `out` is packed, a share begins at a multiple of `alignment_elements` elements, and no
 * two shares write to one word. */
void pq_plan_part(struct pq_plan *plan, int part, int parts, int alignment_elements);

static inline bool pq_dim_uniform(const struct pq_dim *dim)
{
    return dim->scale == 0 && dim->zero == 0;
}

/* How many groups of elements that share their parameters there are. */
static inline ptrdiff_t pq_dim_groups(const struct pq_dim *dim)
{
    return pq_dim_uniform(dim)
               ? 1
               : (dim->end - 1) / dim->group_size - dim->begin / dim->group_size + 1;
}

/* Byte offset of the parameter that index `i` selects. */
static inline ptrdiff_t pq_dim_scale(const struct pq_dim *dim, ptrdiff_t i)
{
    return dim->scale == 0 ? 0 : i / dim->group_size * dim->scale;
}

static inline ptrdiff_t pq_dim_zero(const struct pq_dim *dim, ptrdiff_t i)
{
    return dim->zero == 0 ? 0 : i / dim->group_size * dim->zero;
}

#endif
