/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plan of a call: its shape, strides, axes and blocks as few and long dimensions. The
 * engine reads the plan instead of the shape. A plan depends on the sizes of elements, but
 * on no other property of their types, and on no CPU.
 */
#ifndef PQ_PLAN_H
#define PQ_PLAN_H

#include <stdbool.h>

#include "pq.h"

/*
 * One dimension of a plan, with the indices [begin, end). `in` and `out` are strides in
 * bytes for each index, or in bits for packed codes. `scale`, `zero` and `offset` are
 * strides in bytes for each group of `group_size` indices. A uniform dimension selects no
 * parameter: these strides are 0. `in_code` and `out_code` are 0, except along the axis of
 * a layout with streams (pq_is_stream). Along that axis they are the steps of the code's
 * index, 1 or -1, and the stride `in` or `out` is 0. `place` is the step of the position in
 * C order for each index, modulo 2^64, or 0 in calls without random words.
 */
struct pq_dim {
    ptrdiff_t begin, end;
    ptrdiff_t in, out;
    ptrdiff_t in_code, out_code;
    ptrdiff_t group_size, scale, zero, offset;
    uint64_t place;
};

/* The addresses of the parameters of an element. */
struct pq_addresses {
    const char *scale, *zero, *offset;
};

/* A plan has at least two dimensions, unless it is empty. dim[0] is the innermost. */
struct pq_plan {
    bool empty;
    int ndim;
    const char *in;
    char *out; /* null for a reduction */
    struct pq_addresses params;
    ptrdiff_t in_code;        /* index of the first element in its stream */
    ptrdiff_t out_full_words; /* a number of codes that fills complete words of `out` */
    uint64_t place;           /* `start` plus the first element's position in C order */
    struct pq_dim dim[PQ_MAX_NDIM];
};

static inline ptrdiff_t pq_magnitude(ptrdiff_t v)
{
    return v < 0 ? -v : v;
}

/* The units of one part of a call, for example groups. Their indices are [begin, end). */
struct pq_share {
    ptrdiff_t begin, end;
};

/* Divide `n` units among `parts` parts, and return the units of number `part`. The numbers
 * of units of two parts differ by at most one. */
static inline struct pq_share pq_share_of(ptrdiff_t n, int part, int parts)
{
    const ptrdiff_t smaller = n / parts, rest = n % parts;
    const ptrdiff_t begin = smaller * part + (part < rest ? part : rest);
    return (struct pq_share){begin, begin + smaller + (part < rest ? 1 : 0)};
}

/* Return the number of bytes from the first parameter to the parameter of index `i` of
 * dimension `d`. Return 0 for an array without data. */
static inline ptrdiff_t pq_param_offset(const struct pq_args *args,
                                        const struct pq_array *params, int d, ptrdiff_t i)
{
    if (params->data == NULL || i == 0) {
        return 0;
    }
    return (args->block != NULL ? i / args->block[d] : i) * params->strides[d];
}

/* Return the total number of bits in a packed array if the elements are in C order without
 * gaps, else -1. */
ptrdiff_t pq_dense_bits(const struct pq_args *args, const struct pq_array *array);

/* Return true if each byte has two 4-bit codes, and the first is in the upper half. */
static inline bool pq_is_high_first(const struct pq_layout *layout)
{
    return layout != NULL && layout->bits == 4 && layout->word_bits == 8 &&
           layout->word_stride == 8 && layout->order != NULL && layout->group == 2 &&
           layout->order[0] == 1;
}

/* Return true if bit strides alone cannot describe the layout, even if the two codes of
 * each byte are swapped. */
static inline bool pq_is_stream(const struct pq_layout *layout)
{
    return layout != NULL && !pq_is_high_first(layout) &&
           (layout->order != NULL || layout->word_stride != layout->word_bits);
}

/* Return the width of a packed code in bits, or 0 if the array has byte strides. */
int pq_packed_code_bits(const struct pq_array *array, const struct pq_layout *layout);

/* Set the plan of checked arguments. out.data is null for a reduction. `out_size` is the
 * size of an element of `out` in the unit of its strides, for the test of overlap. */
enum pq_status pq_plan_init(struct pq_plan *plan, const struct pq_args *args,
                            size_t out_size);

/* Join neighbouring dimensions if their memory and their parameters continue without a
 * gap (pq_merge_dims). Add dimensions of one index until a plan has two dimensions
 * (pq_pad_dims). */
void pq_merge_dims(struct pq_plan *plan);
void pq_pad_dims(struct pq_plan *plan);

/* Narrow the plan to one of `parts` nearly equal parts. A part can be empty. If `out` is
 * packed, a part begins at a multiple of `alignment_elements` elements, and no two parts
 * write to one byte or one word of a stream. */
void pq_plan_part(struct pq_plan *plan, int part, int parts, int alignment_elements);

static inline bool pq_is_uniform(const struct pq_dim *dim)
{
    return (dim->scale | dim->zero | dim->offset) == 0;
}

/* Return the number of groups along [begin, end), or 1 for a uniform dimension. */
static inline ptrdiff_t pq_dim_groups(const struct pq_dim *dim)
{
    return pq_is_uniform(dim)
               ? 1
               : (dim->end - 1) / dim->group_size - dim->begin / dim->group_size + 1;
}

/* Return the number of the group that contains index `i`, or 0 for a uniform dimension. */
static inline ptrdiff_t pq_dim_group(const struct pq_dim *dim, ptrdiff_t i)
{
    return pq_is_uniform(dim) ? 0 : i / dim->group_size;
}

/* Return the addresses for group `group` of `dim`. `at` has the addresses for group 0. */
static inline struct pq_addresses pq_addresses_at(struct pq_addresses at,
                                                  const struct pq_dim *dim, ptrdiff_t group)
{
    at.scale += group * dim->scale;
    at.zero += group * dim->zero;
    at.offset += group * dim->offset;
    return at;
}

/* ---- a loop over the outer dimensions ---- */

/* The position of an element, for example the first of a row: its addresses and indices. */
struct pq_position {
    const char *in;
    char *out;
    struct pq_addresses params;
    ptrdiff_t in_code, out_code; /* indices in streams (struct pq_layout), or 0 */
    uint64_t place;
};

/* Return the position of index `i` of `dim`. `at` is the position of index 0. */
static inline struct pq_position pq_position_at(struct pq_position at,
                                                const struct pq_dim *dim, ptrdiff_t i)
{
    at.in += i * dim->in;
    if (at.out != NULL) {
        at.out += i * dim->out;
    }
    at.in_code += i * dim->in_code;
    at.out_code += i * dim->out_code;
    at.place += (uint64_t)i * dim->place;
    at.params = pq_addresses_at(at.params, dim, pq_dim_group(dim, i));
    return at;
}

static inline struct pq_position pq_position_start(const struct pq_plan *plan)
{
    return (struct pq_position){plan->in,      plan->out, plan->params,
                                plan->in_code, 0,         plan->place};
}

/* Process the inner dimensions at one position of the outer dimensions. pq_for_each_row()
 * calls `visit` for all indices of the outer dimensions `dim[first]`, `dim[first + 1]` and
 * so on. `at` is an address, because a copy would wait for stores to members. */
typedef void pq_row_fn(void *job, const struct pq_position *at);
void pq_for_each_row(const struct pq_plan *plan, int first, pq_row_fn *visit, void *job);

#endif
