/* SPDX-License-Identifier: Apache-2.0 */
/* fake_quantize: dequantize(quantize(in)). One kernel computes both steps, or two kernels
 * run in turn on each tile. The codes of a tile stay in L1. */
#include "ops/fake_quantize.h"
#include "engine/slabs.h"

enum {
    CODE_BUFFER_BYTES = PQ_SIZE(1 << 14, 1 << 13), /* size of the buffer for codes */
    MAX_TILE_ELEMENTS = PQ_SIZE(1 << 13, 1 << 10), /* elements of the largest tile */
    COUNTED_ELEMENTS = 64                          /* elements of a smaller part */
};
_Static_assert((int)MAX_TILE_ELEMENTS >= (int)PQ_MAX_GAPPED_GROUP &&
                   (int)CODE_BUFFER_BYTES >= 8 * (int)PQ_MAX_GAPPED_GROUP,
               "a tile holds a group with gaps");

/* ---- tiles ---- */

#define WITHIN(type, bits)                                                                 \
    case PQ_##bits: {                                                                      \
        const type lo = (type)range.lo, hi = (type)range.hi;                               \
        const type *const c = (const void *)codes;                                         \
        for (size_t i = 0; i < n; i++) {                                                   \
            y[i] = (c[i] >= lo) & (c[i] <= hi);                                            \
        }                                                                                  \
        break;                                                                             \
    }

/* Write the mask of codes of the type `wider`: 1 for each code within `range`, else 0. */
static void find_in_range(char *PQ_RESTRICT y, const char *PQ_RESTRICT codes, size_t n,
                          enum pq_type wider, struct pq_range range)
{
    switch (wider) {
        WITHIN(int16_t, I16)
        WITHIN(int32_t, I32)
        WITHIN(int64_t, I64)
    default:
        break;
    }
}
#undef WITHIN

/* Write 1 for each element in range, and 0 for all other elements. The kernel only counts
 * elements out of range. If the count is not 0, divide the elements into smaller parts, and
 * count each part again. All elements belong to one group, or each element has its own
 * parameters. */
static void find_in_range_by_count(const struct pq_run *part, char *codes, const char *x,
                                   char *y, size_t n)
{
    const struct pq_tile_steps *const steps = part->tile_steps;
    struct pq_run one = *part;
    size_t out_of_range = 0;
    one.out_of_range = &out_of_range;
    one.exceeds_cache = false;
    steps->quantize(&one, x, codes, n);
    if (out_of_range == 0 || n == 1) {
        memset(y, out_of_range == 0, n);
        return;
    }
    const size_t half = n > COUNTED_ELEMENTS ? COUNTED_ELEMENTS : n / 2;
    for (size_t i = 0; i < n; i += half) {
        pq_set_first_group(&one, part, part->group == 1 ? i : 0);
        if (part->random_words != NULL) {
            one.random_words = part->random_words + i;
        }
        find_in_range_by_count(&one, codes, x + i * steps->real, y + i,
                               n - i < half ? n - i : half);
    }
}

static void dequantize_tile(const struct pq_run *part, const char *codes, char *y, size_t n)
{
    const struct pq_tile_steps *const steps = part->tile_steps;
    double zeros[TILE_ELEMENTS];
    struct pq_run back = steps->back;
    back.group = part->group;
    back.general = part->general;
    back.scale = part->scale;
    back.zero = part->zero;
    back.offset = part->offset;
    back.affine = &steps->affine;
    back.rows = part->rows;
    back.in_stride = (ptrdiff_t)(n * steps->code);
    back.out_stride = part->out_stride;
    back.out_gap = part->out_gap;
    back.exceeds_cache = part->exceeds_cache;
    if (steps->no_zeros) {
        memset(zeros, 0, sizeof zeros);
        back.zero.f64 = zeros;
    }
    steps->dequantize(&back, codes, y, n);
}

/* Process a tile, which has `n` elements, or rows of `n` elements. All rows have equal
 * parameters. */
static void fake_quantize_tile(const struct pq_run *part, const void *x, void *y, size_t n)
{
    const struct pq_tile_steps *const steps = part->tile_steps;
    const size_t all = n * (part->rows > 1 ? part->rows : 1);
    _Alignas(64) char codes[CODE_BUFFER_BYTES];
    struct pq_run run = *part;
    if (steps->counts) {
        find_in_range_by_count(part, codes, x, y, n);
        return;
    }
    run.out_stride = (ptrdiff_t)(n * steps->code);
    run.out_gap = 0;
    steps->quantize(&run, x, codes, n);
    if (steps->narrow != NULL) {
        steps->narrow(codes, codes, all);
        steps->extend(codes, codes, all);
    }
    if (steps->dequantize != NULL) {
        dequantize_tile(part, codes, y, n);
        if (steps->saturation != NULL) {
            pq_count_saturated(part, x, y, n);
        }
    } else {
        find_in_range(y, codes, n, steps->wider, steps->range);
    }
}

/* ---- the kernel ---- */

/* Process a run in tiles. If the result is a mask, a tile has no gaps and one row. If the
 * mask depends on the count of elements out of range, a tile is in one group, or each
 * element is a group. */
static void run_tile_steps(const struct pq_run *run, const void *x, void *y, size_t n)
{
    const struct pq_tile_steps *const steps = run->tile_steps;
    const size_t g = run->group, most = steps->most;
    pq_run_tiles(fake_quantize_tile, steps->counts && g > 1 && g < most ? g : most,
                 steps->dequantize != NULL, run, x, steps->real, y, steps->result, n);
}

/* ---- methods ---- */

/* Replace the kernel that quantizes or dequantizes by a general kernel. The reason is that
 * the other kernel is general, and both read the same float64 parameters. */
static void use_general_kernel(struct pq_method *how, pq_kernel_fn *kernel)
{
    if (how->affine.inner_kernel != NULL) {
        how->affine.inner_kernel = kernel;
    } else {
        how->kernel = kernel;
    }
    how->general = true;
}

static void set_sizes(struct pq_tile_steps *steps, const struct pq_method *how,
                      enum pq_type carrier, size_t real, size_t result)
{
    steps->real = real;
    steps->code = pq_bytes_of(carrier);
    steps->result = result;
    const size_t most = CODE_BUFFER_BYTES / steps->code;
    steps->most = most < MAX_TILE_ELEMENTS ? most : MAX_TILE_ELEMENTS;
    if (how->general && pq_is_narrow_float(carrier)) {
        steps->most = TILE_ELEMENTS;
        steps->no_zeros = true;
    }
}

/* Return the arguments of one step, quantize or dequantize, with the types `in` and
 * `out`. */
static struct pq_args direction_args(const struct pq_args *args, enum pq_type in,
                                     enum pq_type out)
{
    struct pq_args one = *args;
    one.in.type = in;
    one.out.type = out;
    return one;
}

/* Return true if the kernel fake_quantize supports the call: float32 to integers of at most
 * 16 bits, half to even, without `offset`, `inverse` and `fill`. */
static bool can_use_kernel(const struct pq_args *args, enum pq_type code)
{
    const bool is_plain = args->round == PQ_HALF_EVEN && args->offset.data == NULL &&
                          !args->inverse && args->fills == 0;
    const bool is_single = args->in.type == PQ_F32 &&
                           (args->precision == PQ_NO_TYPE || args->precision == PQ_F32);
    return is_plain && is_single && pq_is_integer(code) &&
           pq_bytes_of(pq_carrier_of(code)) <= 2;
}

/* Make the method process each run in tiles, as `steps` describes. */
static void use_tile_steps(struct pq_method *how, struct pq_tile_steps *steps)
{
    how->kernel = run_tile_steps;
    how->packed = NULL;
    how->run.tile_steps = steps;
}

enum pq_status pq_set_tile_steps(struct pq_method *how, struct pq_tile_steps *steps,
                                 struct pq_fake_call *call, const struct pq_args *args)
{
    const struct pq_kernels *const kernels = call->kernels;
    const enum pq_type code = call->code, carrier = pq_carrier_of(code);
    const struct pq_args from = direction_args(args, args->in.type, code);
    struct pq_args to = direction_args(args, code, args->in.type);
    struct pq_method back;
    to.round = PQ_HALF_EVEN; /* dequantize rejects these options of quantize */
    to.precision = PQ_NO_TYPE;
    to.overflow = 0;
    to.lowest_code = to.highest_code = 0;
    to.seed = to.start = 0;
    PQ_TRY(pq_quantize_method(how, kernels, &from, &call->facts));
    PQ_TRY(pq_dequantize_method(&back, kernels, &to, &call->facts));
    if (how->general != back.general) {
        use_general_kernel(how->general ? &back : how, how->general
                                                           ? kernels->dequantize_general
                                                           : kernels->quantize_general);
        how->flush_min_scale = 0;
    }
    *steps = (struct pq_tile_steps){.quantize = how->kernel, .dequantize = back.kernel};
    set_sizes(steps, how, carrier, pq_bytes_of(args->in.type), pq_bytes_of(args->in.type));
    if (pq_is_narrow_integer(code)) {
        steps->narrow = kernels->narrow[pq_row_of(code)];
        steps->extend = kernels->extend[pq_row_of(code)];
    }
    steps->back = back.run;
    steps->affine = back.affine;
    how->by_groups = how->by_groups && back.by_groups;
    use_tile_steps(how, steps);
    return PQ_OK;
}

/* Use the kernel fake_quantize, with the method of quantize. The kernel saturates codes to
 * the range of the call. */
static enum pq_status set_kernel(struct pq_method *how, struct pq_tile_steps *steps,
                                 struct pq_fake_call *call, const struct pq_args *args)
{
    struct pq_args from = direction_args(args, PQ_F32, call->code);
    struct pq_range range = pq_range_of(call->code);
    if (args->lowest_code != 0 || args->highest_code != 0) {
        PQ_TRY(pq_quantize_method(how, call->kernels, &from, &call->facts));
        range = (struct pq_range){args->lowest_code, args->highest_code};
        from.lowest_code = from.highest_code = 0;
    }
    PQ_TRY(pq_quantize_method(how, call->kernels, &from, &call->facts));
    how->kernel = call->kernels->fake_quantize;
    how->packed = NULL;
    how->run.fake_quantize = &steps->fake_quantize;
    *steps = (struct pq_tile_steps){
        .fake_quantize = {.bytes = (int)pq_bytes_of(pq_carrier_of(call->code)),
                          .lowest = (int32_t)range.lo,
                          .highest = (int32_t)range.hi}};
    return PQ_OK;
}

static enum pq_status set_method(struct pq_method *how, struct pq_tile_steps *steps,
                                 struct pq_fake_call *call, const struct pq_args *args)
{
    return can_use_kernel(args, call->code) ? set_kernel(how, steps, call, args)
                                            : pq_set_tile_steps(how, steps, call, args);
}

/* Return an integer type that is wider than `code`, or PQ_NO_TYPE for 64-bit integers and
 * narrow floats. */
static enum pq_type wider_code_type(enum pq_type code)
{
    return !pq_is_integer(code) || pq_is_64_bit(code) ? PQ_NO_TYPE
           : pq_bytes_of(code) == 1                   ? PQ_I16
           : pq_bytes_of(code) == 2                   ? PQ_I32
                                                      : PQ_I64;
}

/* Fill in the method that computes a mask. An element of the mask is 1 if the rounded
 * quotient plus the zero point is in the range of codes, else 0. */
static enum pq_status set_mask(struct pq_method *how, struct pq_tile_steps *steps,
                               struct pq_fake_call *call, const struct pq_args *args)
{
    const enum pq_type wider = wider_code_type(call->code);
    struct pq_args from =
        direction_args(args, args->in.type, wider != PQ_NO_TYPE ? wider : call->code);
    struct pq_range range = pq_range_of(call->code);
    from.fills = 0;
    from.overflow = 0;
    if (wider == PQ_NO_TYPE) {
        from.beyond = PQ_REFUSE;
        from.refuse_nan = 1;
    } else if (args->lowest_code != 0 || args->highest_code != 0) {
        range = (struct pq_range){args->lowest_code, args->highest_code};
        from.lowest_code = from.highest_code = 0;
    }
    PQ_TRY(pq_quantize_method(how, call->kernels, &from, &call->facts));
    *steps = (struct pq_tile_steps){.quantize = how->kernel,
                                    .counts = wider == PQ_NO_TYPE,
                                    .wider = wider,
                                    .range = range};
    set_sizes(steps, how, pq_carrier_of(from.out.type), pq_bytes_of(args->in.type), 1);
    use_tile_steps(how, steps);
    return PQ_OK;
}

/* ---- calls ---- */

typedef enum pq_status set_method_fn(struct pq_method *how, struct pq_tile_steps *steps,
                                     struct pq_fake_call *call, const struct pq_args *args);

struct fake_quantize_job {
    struct pq_tile_steps steps;
    struct pq_job job;
};

static enum pq_status make_job(struct fake_quantize_job *to, set_method_fn *set,
                               struct pq_fake_call *call, const struct pq_args *args)
{
    PQ_TRY(set(&to->job.how, &to->steps, call, args));
    return pq_job_init(&to->job, call->kernels, args);
}

static enum pq_status run_method(set_method_fn *set, struct pq_fake_call *call,
                                 const struct pq_args *args, int part, int parts)
{
    struct fake_quantize_job own;
    PQ_TRY(make_job(&own, set, call, args));
    pq_job_run(&own.job, part, parts);
    return PQ_OK;
}

/* Return true if the mask has the strides of `out`, in elements. */
static bool has_strides_of_out(const struct pq_array *mask, const struct pq_args *args)
{
    const ptrdiff_t size = (ptrdiff_t)pq_bytes_of(args->out.type);
    for (int d = 0; d < args->ndim; d++) {
        if (args->shape[d] > 1 && mask->strides[d] * size != args->out.strides[d]) {
            return false;
        }
    }
    return true;
}

static enum pq_status run_slab(void *what, const struct pq_args *slab,
                               const ptrdiff_t *first)
{
    struct pq_fake_call *const call = what;
    struct pq_args mask = *slab;
    char *at = call->mask.data;
    for (int d = 0; d < slab->ndim; d++) {
        at += first[d] != 0 ? first[d] * call->mask.strides[d] : 0;
    }
    PQ_TRY(run_method(set_method, call, slab, 0, 1));
    mask.out = call->mask;
    mask.out.data = at;
    return run_method(set_mask, call, &mask, 0, 1);
}

/* Compute values and mask. If a kernel can write both arrays, one pass computes both.
 * Otherwise a second job computes the mask of each slab (part that fits the caches). All
 * checks come before the first write. */
static enum pq_status run_with_mask(struct pq_fake_call *call, const struct pq_args *args,
                                    int part, int parts)
{
    struct pq_args mask = *args;
    struct fake_quantize_job own;
    mask.out = call->mask;
    PQ_TRY(pq_check_array(args, &call->mask, false));
    PQ_REQUIRE(mask.out.type == PQ_U8 && mask.out.bit_strides == NULL, PQ_ERR_TYPE);
    PQ_TRY(make_job(&own, set_method, call, args));
    if (own.steps.fake_quantize.bytes != 0 && has_strides_of_out(&mask.out, args) &&
        pq_job_is_direct(&own.job)) {
        own.steps.fake_quantize.mask = mask.out.data;
        own.steps.fake_quantize.out = args->out.data;
        pq_job_run(&own.job, part, parts);
        return PQ_OK;
    }
    PQ_TRY(make_job(&own, set_mask, call, &mask));
    return pq_is_empty(args)
               ? PQ_OK
               : pq_for_slabs(args, false, PQ_SLAB_BYTES, run_slab, call, part, parts);
}

enum pq_status pq_check_fake_quantize(struct pq_fake_call *call, struct pq_args *args,
                                      int accepted)
{
    PQ_REQUIRE(pq_is_real(args->in.type) && args->out.type == args->in.type &&
                   pq_is_code(call->code) && args->in.bit_strides == NULL &&
                   args->out.bit_strides == NULL && args->in_layout == NULL &&
                   args->out_layout == NULL,
               PQ_ERR_TYPE);
    PQ_TRY(pq_check_options(args, pq_options_of(args), accepted));
    if (pq_is_narrow_float(call->code)) {
        PQ_REQUIRE(pq_zeros_are_0(args, &call->facts), PQ_ERR_ZERO);
        args->zero.data = NULL;
    }
    return PQ_OK;
}

enum pq_status pq_fake_quantize(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_fake *given,
                                int part, int parts)
{
    enum { LEAST = offsetof(struct pq_fake, mask) + sizeof(struct pq_array) };
    struct pq_args room;
    struct pq_fake options;
    PQ_TRY(pq_copy_struct(&options, given, sizeof options, LEAST));
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    struct pq_fake_call call = {kernels, options.code, options.mask, {0}};
    struct pq_args own = *args;
    PQ_TRY(pq_check_fake_quantize(&call, &own, PQ_ACCEPTS_FAKE_QUANTIZE));
    return options.mask.data == NULL ? run_method(set_method, &call, &own, part, parts)
                                     : run_with_mask(&call, &own, part, parts);
}
