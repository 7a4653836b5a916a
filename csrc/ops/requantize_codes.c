/* SPDX-License-Identifier: Apache-2.0 */
/* requantize_codes: quantize(dequantize(in)). A box is a rectangular part of the array that
 * can start at any element. The dequantized numbers of a box are in a buffer in L1. Along
 * each dimension, the elements of a box are complete blocks of dequantize, or belong to one
 * block. */
#include <string.h>

#include "args.h"
#include "engine/job.h"
#include "engine/slabs.h"

enum { BUFFER_BYTES = PQ_SIZE(1 << 15, 1 << 9) };

/* A call that is divided into boxes, and the current box. */
struct box_call {
    const struct pq_kernels *kernels;
    struct pq_args from, to;      /* arguments of dequantize and quantize */
    int order[PQ_MAX_NDIM];       /* dimensions in descending order of strides of `in` */
    ptrdiff_t most[PQ_MAX_NDIM];  /* largest extent of a box along each dimension */
    ptrdiff_t first[PQ_MAX_NDIM]; /* indices of the first element of the box */
    ptrdiff_t shape[PQ_MAX_NDIM]; /* extents of the box */
    ptrdiff_t box;                /* index of the box */
    int part, parts;
};

/* Return the number of indices, at most `n`, of dimension `d` that belong to one block or
 * to complete blocks. The first index is `i`. The last block of a dimension can be
 * short. */
static ptrdiff_t fit_blocks(const struct pq_args *args, int d, ptrdiff_t i, ptrdiff_t n)
{
    const ptrdiff_t block = args->block != NULL ? args->block[d] : 1;
    const ptrdiff_t left = block - i % block;
    if (!pq_selects_params(args, d) || n <= left) {
        return n;
    }
    return left < block ? left : i + n == args->shape[d] ? n : n / block * block;
}

/* Quantize the numbers of the box that have the indices `first` to `first + shape` in the
 * first `d` dimensions. Divide all other dimensions into complete blocks, or parts of one
 * block. */
PQ_NOINLINE enum pq_status quantize_box(const struct box_call *call,
                                        const struct pq_array *in, ptrdiff_t *first,
                                        ptrdiff_t *shape, int d)
{
    if (d == call->to.ndim) {
        struct pq_args to = call->to;
        pq_set_first_element(&to, &call->to, first);
        to.start = 0;
        to.shape = shape;
        to.in = *in;
        return pq_call_run(pq_quantize_method, call->kernels, &to);
    }
    struct pq_array from = *in;
    const ptrdiff_t end = call->first[d] + call->shape[d];
    for (ptrdiff_t i = call->first[d]; i < end; i += shape[d]) {
        first[d] = i;
        shape[d] = fit_blocks(&call->to, d, i, end - i);
        PQ_TRY(quantize_box(call, &from, first, shape, d + 1));
        from.data = (char *)from.data + shape[d] * in->strides[d];
    }
    return PQ_OK;
}

static enum pq_status run_box(const struct box_call *call)
{
    _Alignas(64) char numbers[BUFFER_BYTES];
    struct pq_args from = call->from;
    const enum pq_type type = from.out.type;
    ptrdiff_t strides[PQ_MAX_NDIM], first[PQ_MAX_NDIM], shape[PQ_MAX_NDIM];
    ptrdiff_t stride = (ptrdiff_t)pq_bytes_of(type);
    for (int d = from.ndim - 1; d >= 0; d--) {
        strides[d] = stride;
        stride *= call->shape[d];
    }
    pq_set_first_element(&from, &call->from, call->first);
    from.start = 0; /* only stochastic rounding uses the position */
    from.shape = call->shape;
    from.out = (struct pq_array){.data = numbers, .strides = strides, .type = type};
    PQ_TRY(pq_call_run(pq_dequantize_method, call->kernels, &from));
    return quantize_box(call, &from.out, first, shape, 0);
}

/* Return the extent of a box along dimension `d`, starting at index `i`. The extent has
 * complete blocks of dequantize and quantize, or if this extent is short, of dequantize
 * only. */
static ptrdiff_t box_extent(const struct box_call *call, int d, ptrdiff_t i)
{
    const ptrdiff_t left = call->from.shape[d] - i;
    ptrdiff_t n = call->most[d] < left ? call->most[d] : left;
    const ptrdiff_t most = fit_blocks(&call->from, d, i, n);
    ptrdiff_t fitting = most;
    do {
        n = fitting;
        fitting = fit_blocks(&call->from, d, i, fit_blocks(&call->to, d, i, n));
    } while (fitting < n);
    return n < most / 2 ? most : n;
}

/* Compute the boxes at the current indices of the first `k` dimensions in `order`. */
PQ_NOINLINE enum pq_status run_boxes(struct box_call *call, int k)
{
    if (k == call->from.ndim) {
        return call->box++ % call->parts == call->part ? run_box(call) : PQ_OK;
    }
    const int d = call->order[k];
    for (ptrdiff_t i = 0; i < call->from.shape[d]; i += call->shape[d]) {
        call->first[d] = i;
        call->shape[d] = box_extent(call, d, i);
        PQ_TRY(run_boxes(call, k + 1));
    }
    return PQ_OK;
}

/* Order the dimensions, and choose the largest box that fits the buffer. */
static void plan_boxes(struct box_call *call)
{
    const struct pq_args *const args = &call->from;
    ptrdiff_t left = BUFFER_BYTES / (ptrdiff_t)pq_bytes_of(args->out.type);
    for (int d = 0; d < args->ndim; d++) {
        int at = d;
        for (; at > 0 && pq_magnitude(args->in.strides[call->order[at - 1]]) <
                             pq_magnitude(args->in.strides[d]);
             at--) {
            call->order[at] = call->order[at - 1];
        }
        call->order[at] = d;
    }
    for (int k = args->ndim - 1; k >= 0; k--) {
        const int d = call->order[k];
        call->most[d] = args->shape[d] < left ? args->shape[d] : left;
        left = call->most[d] == args->shape[d] ? left / call->most[d] : 1;
    }
}

/* Check all arguments of the call before any box writes codes. */
static enum pq_status check_call(struct box_call *call)
{
    static const ptrdiff_t none[PQ_MAX_NDIM];
    char numbers[sizeof(double)] = {0};
    const struct pq_args *from = &call->from, *to = &call->to;
    struct pq_args room;
    struct pq_job job;
    call->from.out.data = call->to.in.data = numbers;
    call->from.out.strides = call->to.in.strides = none;
    call->from.out.swapped = call->to.in.swapped = 0;
    call->from.out.bit_strides = call->to.in.bit_strides = NULL;
    call->to.in.type = call->from.out.type;
    PQ_TRY(pq_check_call(&from, &room, call->kernels, true, call->part, call->parts));
    PQ_TRY(pq_check_call(&to, &room, call->kernels, true, call->part, call->parts));
    PQ_TRY(pq_dequantize_method(&job.how, call->kernels, from, &(struct pq_facts){0}));
    PQ_TRY(pq_quantize_method(&job.how, call->kernels, to, &(struct pq_facts){0}));
    return pq_job_init(&job, call->kernels, to); /* finds overlaps of `out` */
}

enum pq_status pq_requantize_codes(const struct pq_kernels *kernels,
                                   const struct pq_args *from, const struct pq_args *to,
                                   int part, int parts)
{
    struct pq_args rooms[2];
    struct box_call call = {.kernels = kernels, .part = part, .parts = parts};
    PQ_REQUIRE(from != NULL && to != NULL, PQ_ERR_NULL);
    PQ_TRY(pq_adapt_args_version(&from, &rooms[0]));
    PQ_TRY(pq_adapt_args_version(&to, &rooms[1]));
    call.from = *from;
    call.to = *to;
    PQ_REQUIRE(from->ndim == to->ndim && from->in.bit_strides == NULL &&
                   to->out.bit_strides == NULL,
               PQ_ERR_SHAPE);
    PQ_TRY(pq_check_options(to, pq_options_of(to), PQ_ACCEPTS_REQUANTIZE_CODES));
    PQ_TRY(pq_check_shape(from));
    call.to.shape = from->shape;
    for (int d = 0; d < from->ndim; d++) {
        PQ_REQUIRE(to->shape != NULL, PQ_ERR_NULL);
        PQ_REQUIRE(to->shape[d] == from->shape[d], PQ_ERR_SHAPE);
    }
    PQ_TRY(check_call(&call));
    if (pq_is_empty(from)) {
        return PQ_OK;
    }
    plan_boxes(&call);
    return run_boxes(&call, 0);
}
