/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/slabs.h"

#include "args.h"
#include "engine/plan.h"
#include "types.h"

/* Return the number of successive indices of dimension `d` that must stay in one slab. */
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

/* Return true if units of dimension `first` (see unit_along) share no byte of `out`. This
 * requires packed codes that are contiguous in C order, or words along another axis. */
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

/* Divide a call into slabs of at most `most` elements, or one unit if units are larger. */
static void init_slabs(struct pq_boxes *slabs, const struct pq_args *args, bool keep_groups,
                       ptrdiff_t most)
{
    int order[PQ_MAX_NDIM];
    const int ndim = cut_order(args, keep_groups, order);
    ptrdiff_t size = 1;
    for (int d = 0; d < args->ndim; d++) {
        slabs->step[d] = args->shape[d];
        size *= args->shape[d];
    }
    for (int i = 0; i < ndim && size > most; i++) {
        const int d = order[i];
        const ptrdiff_t within = size / args->shape[d],
                        unit = unit_along(args, d, keep_groups);
        const ptrdiff_t units = most / within / unit;
        slabs->step[d] = units > 1 ? units * unit : unit;
        size = within * slabs->step[d];
        if (needs_c_order(args) && slabs->step[d] > 1) {
            break;
        }
    }
    pq_init_boxes(slabs, args);
}

static void *offset_or_null(void *data, ptrdiff_t bytes)
{
    return data != NULL ? (char *)data + bytes : NULL;
}

void pq_set_first_element(struct pq_args *slab, const struct pq_args *args,
                          const ptrdiff_t *first)
{
    ptrdiff_t in = 0, out = 0, scale = 0, zero = 0, offset = 0, place = 0;
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
        offset += pq_param_offset(args, &args->offset, d, i);
    }
    slab->in.data = offset_or_null(args->in.data, in);
    slab->out.data = offset_or_null(args->out.data, out);
    slab->scale.data = offset_or_null(args->scale.data, scale);
    slab->zero.data = offset_or_null(args->zero.data, zero);
    slab->offset.data = offset_or_null(args->offset.data, offset);
    slab->start = args->start + (uint64_t)place;
}

void pq_init_boxes(struct pq_boxes *boxes, const struct pq_args *args)
{
    boxes->all = 1;
    for (int d = 0; d < args->ndim; d++) {
        boxes->count[d] = (args->shape[d] - 1) / boxes->step[d] + 1;
        boxes->all *= boxes->count[d];
    }
    boxes->box = *args;
    boxes->box.shape = boxes->shape;
}

ptrdiff_t pq_enter_box(struct pq_boxes *boxes, const struct pq_args *args, ptrdiff_t number)
{
    ptrdiff_t size = 1;
    for (int d = args->ndim - 1; d >= 0; d--) {
        const ptrdiff_t first = number % boxes->count[d] * boxes->step[d];
        const ptrdiff_t left = args->shape[d] - first;
        number /= boxes->count[d];
        boxes->first[d] = first;
        boxes->shape[d] = left < boxes->step[d] ? left : boxes->step[d];
        size *= boxes->shape[d];
    }
    pq_set_first_element(&boxes->box, args, boxes->first);
    return size;
}

enum pq_status pq_for_slabs(const struct pq_args *args, bool keep_groups, ptrdiff_t bytes,
                            pq_slab_fn *run, void *what, int part, int parts)
{
    struct pq_boxes slabs;
    ptrdiff_t size = 1;
    const ptrdiff_t element_bytes = (ptrdiff_t)pq_type_size(args->in.type);
    for (int d = 0; d < args->ndim; d++) {
        size *= args->shape[d];
    }
    const ptrdiff_t share = size / parts + 1, most = bytes / element_bytes;
    init_slabs(&slabs, args, keep_groups, share < most ? share : most);
    const struct pq_share own = pq_share_of(slabs.all, part, parts);
    for (ptrdiff_t k = own.begin; k < own.end; k++) {
        pq_enter_box(&slabs, args, k);
        PQ_TRY(run(what, &slabs.box, slabs.first));
    }
    return PQ_OK;
}
