/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/plan.h"

#include "pq_compiler.h"

/* The zero point of calls without zero points. The scale or offset of calls without scales
 * or offsets has this address, too, but no code reads that scale or offset. */
static const int8_t nothing = 0;

/* Return the sort key of a dimension: its stride in the output, so that stores are
 * sequential. A reduction has no output, and sorts by the stride in the input. */
static ptrdiff_t ordering_stride(const struct pq_plan *plan, const struct pq_dim *dim)
{
    return pq_magnitude(plan->out != NULL ? dim->out : dim->in);
}

/* Insert a dimension by its stride, the shortest first. Equal strides keep their order. */
static void insert_sorted(struct pq_plan *plan, struct pq_dim dim)
{
    int at = plan->ndim++;
    while (at > 0 &&
           ordering_stride(plan, &plan->dim[at - 1]) > ordering_stride(plan, &dim)) {
        plan->dim[at] = plan->dim[at - 1];
        at--;
    }
    plan->dim[at] = dim;
}

/* Reverse a dimension if the output (in a reduction, the input) descends along the
 * dimension. A dimension with groups can be reversed only if no group is short. */
static void make_ascending(struct pq_plan *plan, struct pq_dim *dim)
{
    const ptrdiff_t last = dim->end - 1;
    const ptrdiff_t lead = plan->out != NULL ? dim->out : dim->in;
    if (lead >= 0 || (!pq_is_uniform(dim) && dim->end % dim->group_size != 0)) {
        return;
    }
    plan->in += last * dim->in;
    if (plan->out != NULL) {
        plan->out += last * dim->out;
    }
    plan->params = pq_addresses_at(plan->params, dim, pq_dim_group(dim, last));
    plan->in_code += last * dim->in_code;
    plan->place += (uint64_t)last * dim->place;
    dim->place = 0 - dim->place;
    dim->in_code = -dim->in_code;
    dim->in = -dim->in;
    dim->out = -dim->out;
    dim->scale = -dim->scale;
    dim->zero = -dim->zero;
    dim->offset = -dim->offset;
}

/* Return the number of words that `n` codes of a stream occupy. Several codes count as
 * complete groups, because the order of a group can put any code in its last word. */
PQ_NOINLINE ptrdiff_t words_of(const struct pq_layout *layout, int bits, ptrdiff_t n)
{
    const ptrdiff_t group = layout->order != NULL ? layout->group : 1;
    if (n == 1) {
        const int first = layout->order != NULL ? layout->order[0] * bits : 0;
        return first % layout->word_bits + bits > layout->word_bits ? 2 : 1;
    }
    return ((n + group - 1) / group * group * bits - 1) / layout->word_bits + 1;
}

/* Return true if elements of `out` may share memory: a stride is shorter than the memory
 * that the inner dimensions span. `layout` is null if `out` has no streams (pq_is_stream).
 * The test also rejects rare interleaved strides that do not overlap. */
static bool overlaps_itself(const struct pq_plan *plan, ptrdiff_t out_size,
                            const struct pq_layout *layout)
{
    ptrdiff_t span = layout != NULL ? layout->word_bits : out_size;
    for (int d = 0; d < plan->ndim; d++) {
        const struct pq_dim *dim = &plan->dim[d];
        const ptrdiff_t n =
            dim->out_code != 0 ? words_of(layout, (int)out_size, dim->end) : dim->end;
        if (n > 1 && pq_magnitude(dim->out) < span) {
            return true;
        }
        span += (n - 1) * pq_magnitude(dim->out);
    }
    return false;
}

/* Return true if the memory of `outer` continues `inner` without a gap. */
static bool continues_memory(const struct pq_dim *inner, const struct pq_dim *outer)
{
    return outer->in == inner->in * inner->end && outer->out == inner->out * inner->end &&
           outer->in_code == inner->in_code * inner->end &&
           outer->out_code == inner->out_code * inner->end &&
           outer->place == inner->place * (uint64_t)inner->end;
}

/* Return true if the parameters of `outer` continue the groups of `inner`. */
static bool continues_groups(const struct pq_dim *inner, const struct pq_dim *outer)
{
    const ptrdiff_t groups = inner->end / inner->group_size;
    return inner->end % inner->group_size == 0 && outer->group_size == 1 &&
           outer->scale == inner->scale * groups && outer->zero == inner->zero * groups &&
           outer->offset == inner->offset * groups;
}

void pq_merge_dims(struct pq_plan *plan)
{
    int kept = 0;
    for (int d = 1; d < plan->ndim; d++) {
        struct pq_dim *const inner = &plan->dim[kept], *const outer = &plan->dim[d];
        const bool uniform = pq_is_uniform(inner);
        if (!continues_memory(inner, outer) ||
            !(uniform || continues_groups(inner, outer))) {
            plan->dim[++kept] = *outer;
            continue;
        }
        if (uniform) {
            inner->group_size = outer->group_size * inner->end;
            inner->scale = outer->scale;
            inner->zero = outer->zero;
            inner->offset = outer->offset;
        }
        inner->end *= outer->end;
    }
    plan->ndim = plan->ndim > 0 ? kept + 1 : 0;
}

void pq_pad_dims(struct pq_plan *plan)
{
    while (plan->ndim < 2) {
        plan->dim[plan->ndim++] = (struct pq_dim){.end = 1, .group_size = 1};
    }
}

static const ptrdiff_t *strides_of(const struct pq_array *array)
{
    return array->bit_strides != NULL ? array->bit_strides : array->strides;
}

int pq_packed_code_bits(const struct pq_array *array, const struct pq_layout *layout)
{
    if (array->bit_strides == NULL) {
        return 0;
    }
    return layout != NULL && layout->bits != 0 ? layout->bits : pq_type_bits(array->type);
}

ptrdiff_t pq_dense_bits(const struct pq_args *args, const struct pq_array *array)
{
    ptrdiff_t stride = pq_type_bits(array->type);
    for (int d = args->ndim - 1; d >= 0; d--) {
        if (args->shape[d] > 1 && array->bit_strides[d] != stride) {
            return -1;
        }
        stride *= args->shape[d];
    }
    return stride;
}

/* The functions for layouts are not inlined, because calls without layouts would become
 * slower. */

/* If dimension `d` is the axis of the layout, set the stride and the code step of the
 * array. The stride of output words is only for sorting; hide_words() clears it. */
static void set_layout_strides(ptrdiff_t *stride, ptrdiff_t *code, int d,
                               const struct pq_array *array, const struct pq_layout *layout)
{
    if (layout == NULL || layout->axis != d) {
        return;
    }
    const bool streams = pq_is_stream(layout);
    *stride =
        streams ? pq_magnitude(layout->word_stride) : pq_packed_code_bits(array, layout);
    *code = streams;
}

/* Set the strides of output words, which the sort needed, to 0. Remove dimensions of one
 * index. Compute a number of codes that fills complete words of the output. */
PQ_NOINLINE void hide_words(struct pq_plan *plan, const struct pq_layout *layout)
{
    int kept = 0;
    plan->out_full_words =
        64 * (layout != NULL && layout->order != NULL ? layout->group : 1);
    for (int d = 0; d < plan->ndim; d++) {
        struct pq_dim dim = plan->dim[d];
        if (dim.out_code != 0) {
            dim.out = 0;
        }
        if (dim.end > 1) {
            plan->dim[kept++] = dim;
        }
    }
    plan->ndim = kept;
}

PQ_NOINLINE void set_layouts(struct pq_dim *dim, int d, const struct pq_args *args)
{
    set_layout_strides(&dim->in, &dim->in_code, d, &args->in, args->in_layout);
    set_layout_strides(&dim->out, &dim->out_code, d, &args->out, args->out_layout);
    if (dim->in_code != 0) {
        dim->in = 0;
    }
}

enum pq_status pq_plan_init(struct pq_plan *plan, const struct pq_args *args,
                            size_t out_size)
{
    plan->empty = false;
    plan->ndim = 0;
    plan->in = args->in.data;
    plan->out = args->out.data;
    plan->in_code = 0;
    plan->place = args->start;

    const bool writes = plan->out != NULL, has_scale = args->scale.data != NULL;
    const bool has_zero = args->zero.data != NULL, has_offset = args->offset.data != NULL;
    const bool has_layout = writes && (args->in_layout != NULL || args->out_layout != NULL);
    plan->params.scale = has_scale ? args->scale.data : (const char *)&nothing;
    plan->params.zero = has_zero ? args->zero.data : (const char *)&nothing;
    plan->params.offset = has_offset ? args->offset.data : (const char *)&nothing;
    const ptrdiff_t *const in = strides_of(&args->in), *const out = strides_of(&args->out);
    uint64_t place = args->round == PQ_STOCHASTIC;
    for (int d = args->ndim - 1; d >= 0; d--) {
        struct pq_dim dim = {
            .begin = 0,
            .end = args->shape[d],
            .in = in[d],
            .out = writes ? out[d] : 0,
            .group_size = args->block != NULL ? args->block[d] : 1,
            .scale = has_scale ? args->scale.strides[d] : 0,
            .zero = has_zero ? args->zero.strides[d] : 0,
            .offset = has_offset ? args->offset.strides[d] : 0,
            .place = place,
        };
        place *= (uint64_t)args->shape[d];
        if (has_layout) {
            set_layouts(&dim, d, args);
        }
        if (dim.end == 0) {
            plan->empty = true;
        }
        if (dim.group_size >= dim.end) {
            dim.scale = dim.zero = dim.offset = 0;
        }
        if (pq_is_uniform(&dim)) {
            dim.group_size = 1;
        }
        if (dim.end > 1) {
            make_ascending(plan, &dim);
        }
        if (dim.end > 1 || dim.out_code != 0) { /* even one code can occupy two words */
            insert_sorted(plan, dim);
        }
    }
    if (plan->empty) {
        return PQ_OK;
    }
    const bool streams = has_layout && pq_is_stream(args->out_layout);
    if (writes &&
        overlaps_itself(plan, (ptrdiff_t)out_size, streams ? args->out_layout : NULL)) {
        return PQ_ERR_OVERLAP;
    }
    if (has_layout) {
        hide_words(plan, args->out_layout);
    }
    pq_merge_dims(plan);
    pq_pad_dims(plan);
    return PQ_OK;
}

/* Return true if parts of dimension `d` share no byte of `out`: the strides of all outer
 * dimensions are multiples of `unit`, which is 8 bits for packed codes, else 1 byte. */
static bool splits_evenly(const struct pq_plan *plan, int d, ptrdiff_t unit)
{
    for (d++; d < plan->ndim; d++) {
        if (plan->dim[d].out % unit != 0) {
            return false;
        }
    }
    return true;
}

void pq_plan_part(struct pq_plan *plan, int part, int parts, int alignment_elements)
{
    if (plan->empty || parts == 1) {
        return;
    }
    /* Split the longest dimension. If several are equally long, split the outermost. */
    int split = -1;
    for (int d = 0; d < plan->ndim; d++) {
        if (splits_evenly(plan, d, alignment_elements) &&
            (split < 0 || plan->dim[d].end >= plan->dim[split].end)) {
            split = d;
        }
    }
    /* Parts of the innermost dimension are multiples of 64 elements, so that two threads
     * rarely write to one cache line. */
    struct pq_dim *dim = &plan->dim[split];
    const ptrdiff_t aligned = split == 0 ? 64 : alignment_elements;
    const ptrdiff_t unit = dim->out_code != 0 ? plan->out_full_words : aligned;
    const struct pq_share share = pq_share_of((dim->end - 1) / unit + 1, part, parts);
    plan->empty = share.begin == share.end;
    dim->begin = share.begin * unit;
    dim->end = share.end * unit < dim->end ? share.end * unit : dim->end;
}

void pq_for_each_row(const struct pq_plan *plan, int first, pq_row_fn *visit, void *job)
{
    ptrdiff_t index[PQ_MAX_NDIM];
    /* start[d] is the position at the current indices of dimensions >= d. */
    struct pq_position start[PQ_MAX_NDIM + 1];
    int d = plan->ndim;
    start[d] = pq_position_start(plan);
    for (;;) {
        while (d > first) { /* enter the inner dimensions at their first indices */
            d--;
            index[d] = plan->dim[d].begin;
            start[d] = pq_position_at(start[d + 1], &plan->dim[d], index[d]);
        }
        visit(job, &start[first]);
        for (;; d++) { /* advance the innermost dimension that has an index left */
            if (d == plan->ndim) {
                return;
            }
            if (++index[d] < plan->dim[d].end) {
                start[d] = pq_position_at(start[d + 1], &plan->dim[d], index[d]);
                break;
            }
        }
    }
}
