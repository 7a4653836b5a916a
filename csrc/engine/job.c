/* SPDX-License-Identifier: Apache-2.0 */
/* Initialize a job: its plan, and the types and addresses of its elements and parameters.
 */
#include "engine/job.h"

const struct pq_method pq_no_method = {0};

/* Copy 8-bit codes. They need no unpacking, but a layout can store them in words. */
static void copy_bytes(const void *x, void *y, size_t n)
{
    memcpy(y, x, n);
}

/* Return the functions and constants that unpack and pack the codes of `array`. */
static struct pq_codes describe_packed_codes(const struct pq_kernels *kernels,
                                             const struct pq_args *args,
                                             const struct pq_array *array,
                                             const struct pq_layout *layout)
{
    const int bits = pq_packed_code_bits(array, layout);
    struct pq_codes codes = {.bits = bits, .base = array->data, .last = -1};
    codes.stream = pq_is_stream(layout) ? layout : NULL;
    codes.unpack_words = kernels->unpack_words;
    codes.flip = pq_is_high_first(layout) ? 4 : 0;
    while (layout != NULL && 1 << codes.word_shift < layout->word_bits) {
        codes.word_shift++;
    }
    codes.most = bits < pq_bits_of(array->type) ? (1 << bits) - 1 : 0;
    if (bits == 8) {
        codes.unpack = copy_bytes;
        codes.pack = copy_bytes;
    } else { /* `unpack` extends signs, `unpack_bits` does not */
        codes.unpack = pq_is_narrow_integer(array->type)
                           ? kernels->unpack[pq_row_of(array->type)]
                           : kernels->unpack_bits[bits];
        codes.pack = kernels->pack[bits];
    }
    if (layout == NULL && pq_dense_bits(args, array) >= 0) {
        codes.last = pq_dense_bits(args, array) - bits;
    }
    return codes;
}

/* Set `codes` for one array. `convert` has the function for each narrow integer type. All
 * other types need a function only if they are packed. */
static void set_codes(struct pq_codes *codes, const struct pq_kernels *kernels,
                      const struct pq_args *args, const struct pq_array *array,
                      const struct pq_layout *layout, pq_bytes_fn *const convert[])
{
    *codes = (struct pq_codes){0};
    if (array->bit_strides != NULL) {
        *codes = describe_packed_codes(kernels, args, array, layout);
    }
    if (pq_is_narrow_integer(array->type)) {
        codes->convert = convert[pq_row_of(array->type)];
    }
}

void pq_job_set_params(struct pq_job *job, const struct pq_args *args)
{
    job->scale_type = args->scale.type;
    job->scale_swapped = args->scale.swapped;
    job->zero_given = args->zero.data != NULL;
    job->zero_type = job->zero_given ? args->zero.type : PQ_I8;
    job->zero_swapped = job->zero_given && args->zero.swapped;
    if (args->offset != NULL) {
        job->offset_from = (uintptr_t)args->offset - (uintptr_t)args->scale.data;
    }
}

enum pq_status pq_job_init(struct pq_job *job, const struct pq_kernels *kernels,
                           const struct pq_args *args)
{
    job->kernels = kernels;
    job->seed = args->seed;
    set_codes(&job->unpack, kernels, args, &args->in, args->in_layout, kernels->extend);
    if (job->unpack.bits != 0 && args->in.type != PQ_I4 && args->in.type != PQ_I2) {
        job->unpack.convert = NULL; /* unpacking has cleared the bits above */
    }
    set_codes(&job->pack, kernels, args, &args->out, args->out_layout, kernels->narrow);
    job->in_size = pq_bytes_of(args->in.type);
    job->out_size = pq_bytes_of(args->out.type);
    job->in_step = job->unpack.bits != 0 ? job->unpack.bits : (ptrdiff_t)job->in_size;
    job->out_step = job->pack.bits != 0 ? job->pack.bits : (ptrdiff_t)job->out_size;
    job->in_swapped = args->in.swapped && job->in_size > 1;
    job->out_swapped = args->out.swapped && job->out_size > 1;
    pq_job_set_params(job, args);
    const enum pq_status status = pq_plan_init(&job->plan, args, (size_t)job->out_step);
    if (!job->plan.empty && job->plan.dim[0].end == 1) { /* one element is contiguous */
        job->plan.dim[0].in = job->in_step;
        job->plan.dim[0].out = job->out_step;
    }
    job->in_start = job->plan.in - (const char *)args->in.data;
    job->out_start = job->plan.out - (char *)args->out.data;
    return status;
}
