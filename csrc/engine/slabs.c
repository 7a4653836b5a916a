/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/slabs.h"

#include "args.h"
#include "engine/plan.h"
#include "types.h"

/* The division of a call into slabs. */
struct cut {
    ptrdiff_t step[PQ_MAX_NDIM];  /* indices of a slab along each dimension */
    ptrdiff_t count[PQ_MAX_NDIM]; /* slabs along each dimension */
    ptrdiff_t all;                /* slabs of the call */
};

/* Return the number of indices of a dimension that must stay in one slab. */
static ptrdiff_t unit_along(const struct pq_args *args, int d, bool keep_groups)
{
    const ptrdiff_t extent = args->shape[d];
    const ptrdiff_t block = args->block != NULL ? args->block[d] : 1;
    const ptrdiff_t group = pq_selects_params(args, d) && block < extent ? block : extent;
    ptrdiff_t unit = keep_groups || group < extent ? group : 1;
    if (args->out.bit_strides != NULL && unit < extent) {
        while (unit % 8 * (args->out.bit_strides[d] % 8) % 8 != 0) { /* align to bytes */
            unit *= 2;
        }
    }
    return unit < extent ? unit : extent;
}

/* Return true if units (unit_along) of dimension `first` share no byte of `out`: the packed
 * codes are contiguous in C order, or their words run along another axis. */
static bool has_own_bytes(const struct pq_args *args, int first)
{
    if (args->out_layout != NULL) {
        return args->out_layout->axis != first;
    }
    return pq_dense_bits(args, &args->out) >= 0;
}

/* Return true if each slab must be contiguous in C order, because the position of an
 * element in C order selects its random word. */
static bool needs_c_order(const struct pq_args *args)
{
    return args->round == PQ_STOCHASTIC;
}

/* Store in `order` the dimensions to cut, the outermost first, and return their number. A
 * dimension that cannot be cut ends the list, because slabs cut inside it would have many
 * short runs. For packed output, only the first dimension longer than 1 can be cut. */
static int cut_order(const struct pq_args *args, bool keep_groups, int *order)
{
    int ndim = 0, first = 0;
    for (int d = 0; d < args->ndim; d++) {
        int at = ndim;
        if (args->shape[d] == 1) {
            continue;
        }
        for (; at > 0 && !needs_c_order(args) &&
               pq_magnitude(args->in.strides[order[at - 1]]) <
                   pq_magnitude(args->in.strides[d]);
             at--) {
            order[at] = order[at - 1];
        }
        order[at] = d;
        ndim++;
    }
    if (args->out.bit_strides != NULL) {
        while (first < args->ndim - 1 && args->shape[first] == 1) {
            first++;
        }
        order[0] = first;
        ndim = ndim > 0 && has_own_bytes(args, first) ? 1 : 0;
    }
    for (int i = 0; i < ndim; i++) {
        if (unit_along(args, order[i], keep_groups) == args->shape[order[i]]) {
            return i;
        }
    }
    return ndim;
}

static void make_cut(struct cut *cut, const struct pq_args *args, bool keep_groups,
                     ptrdiff_t most)
{
    int order[PQ_MAX_NDIM];
    const int ndim = cut_order(args, keep_groups, order);
    ptrdiff_t size = 1;
    for (int d = 0; d < args->ndim; d++) {
        cut->step[d] = args->shape[d];
        size *= args->shape[d];
    }
    for (int i = 0; i < ndim && size > most; i++) {
        const int d = order[i];
        const ptrdiff_t within = size / args->shape[d],
                        unit = unit_along(args, d, keep_groups);
        const ptrdiff_t units = most / within / unit;
        cut->step[d] = units > 1 ? units * unit : unit;
        size = within * cut->step[d];
        if (needs_c_order(args) && cut->step[d] > 1) {
            break;
        }
    }
    cut->all = 1;
    for (int d = 0; d < args->ndim; d++) {
        cut->count[d] = (args->shape[d] - 1) / cut->step[d] + 1;
        cut->all *= cut->count[d];
    }
}

static void *offset_or_null(void *data, ptrdiff_t bytes)
{
    return data != NULL ? (char *)data + bytes : NULL;
}

void pq_set_first_element(struct pq_args *slab, const struct pq_args *args,
                          const ptrdiff_t *first)
{
    ptrdiff_t in = 0, out = 0, scale = 0, zero = 0, place = 0;
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t i = first[d];
        place = place * args->shape[d] + i;
        if (i == 0) {
            continue; /* the stride of an extent of 1 can be invalid */
        }
        in += i * args->in.strides[d];
        if (args->out.bit_strides != NULL) {
            out += i * args->out.bit_strides[d] / 8;
        } else {
            out += i * args->out.strides[d];
        }
        scale += pq_param_offset(args, &args->scale, d, i);
        zero += pq_param_offset(args, &args->zero, d, i);
    }
    slab->in.data = offset_or_null(args->in.data, in);
    slab->out.data = offset_or_null(args->out.data, out);
    slab->scale.data = offset_or_null(args->scale.data, scale);
    slab->zero.data = offset_or_null(args->zero.data, zero);
    slab->start = args->start + (uint64_t)place;
    slab->offset = args->offset != NULL ? (const char *)args->offset + scale : NULL;
}

enum pq_status pq_for_slabs(const struct pq_args *args, bool keep_groups, ptrdiff_t bytes,
                            pq_slab_fn *run, void *what, int part, int parts)
{
    struct pq_args slab = *args;
    struct cut cut;
    ptrdiff_t shape[PQ_MAX_NDIM], first[PQ_MAX_NDIM], size = 1;
    const ptrdiff_t element_bytes = (ptrdiff_t)pq_type_size(args->in.type);
    for (int d = 0; d < args->ndim; d++) {
        size *= args->shape[d];
    }
    const ptrdiff_t share = size / parts + 1, most = bytes / element_bytes;
    make_cut(&cut, args, keep_groups, share < most ? share : most);
    const struct pq_share slabs = pq_share_of(cut.all, part, parts);
    slab.shape = shape;
    for (ptrdiff_t k = slabs.begin; k < slabs.end; k++) {
        ptrdiff_t rest = k;
        for (int d = args->ndim - 1; d >= 0; d--) {
            first[d] = rest % cut.count[d] * cut.step[d];
            rest /= cut.count[d];
            shape[d] = args->shape[d] - first[d];
            shape[d] = shape[d] < cut.step[d] ? shape[d] : cut.step[d];
        }
        pq_set_first_element(&slab, args, first);
        PQ_TRY(run(what, &slab, first));
    }
    return PQ_OK;
}
