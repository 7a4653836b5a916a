/* SPDX-License-Identifier: Apache-2.0 */
/* Implement the options of quantize and dequantize that need an affine kernel, and
 * pq_count_beyond(). */
#include "args.h"
#include "engine/job.h"
#include "engine/slabs.h"
#include "math/narrow_float.h"

static bool has_range(const struct pq_args *args)
{
    return args->lowest_code != 0 || args->highest_code != 0;
}

/* Return the width of the codes in the layout of a uint8 or int32 array. Return 0 for all
 * other types, or without a layout. */
static int layout_code_bits(const struct pq_array *array, const struct pq_layout *layout)
{
    return layout != NULL && (array->type == PQ_U8 || array->type == PQ_I32) ? layout->bits
                                                                             : 0;
}

/* Return the lowest and the highest code of an array with its layout. uint64 limits are
 * stored as int64. */
static struct pq_range code_range_of(const struct pq_array *array,
                                     const struct pq_layout *layout)
{
    const int bits = layout_code_bits(array, layout);
    const struct pq_range all = {pq_lowest_of(array->type),
                                 (int64_t)pq_highest_of(array->type)};
    const int64_t lowest = bits == 24 ? -(1 << 23) : 0;
    return bits != 0 ? (struct pq_range){lowest, lowest + (1 << bits) - 1} : all;
}

/* Map a code to an unsigned integer. An unsigned comparison of these integers orders codes
 * of signed and unsigned types. */
static uint64_t ordered_bits(int64_t code, enum pq_type type)
{
    return (uint64_t)code ^ (type == PQ_U64 ? 0 : UINT64_C(1) << 63);
}

static bool is_within(int64_t code, struct pq_range range, enum pq_type type)
{
    const uint64_t place = ordered_bits(code, type);
    return ordered_bits(range.lo, type) <= place && place <= ordered_bits(range.hi, type);
}

/* Return true if each fill code is within `range`, the codes of the type. If the call
 * quantizes, each fill code must also be outside the limits of the call. */
static bool are_valid_fills(const struct pq_args *args, struct pq_range range,
                            enum pq_type type, bool quantizes)
{
    const struct pq_range kept = {args->lowest_code, args->highest_code};
    for (size_t k = 0; k < args->fills; k++) {
        if (!is_within(args->fill[k], range, type) ||
            (quantizes && has_range(args) && is_within(args->fill[k], kept, type))) {
            return false;
        }
    }
    return true;
}

/* Return true if the call has no range, or if its limits are codes in ascending order. */
static bool is_valid_range(const struct pq_args *args, struct pq_range range,
                           enum pq_type type)
{
    const struct pq_range upwards = {args->lowest_code, range.hi};
    return !has_range(args) || (is_within(args->lowest_code, range, type) &&
                                is_within(args->highest_code, upwards, type));
}

/* Return true if the call has no range, if each zero point is within the range, or if every
 * zero point is 0. */
static bool zeros_fit_given_range(const struct pq_args *args, struct pq_facts *facts,
                                  enum pq_type code)
{
    uint64_t outside;
    const int64_t lo = args->lowest_code, hi = args->highest_code;
    return !has_range(args) || pq_zeros_are_0(args, facts) ||
           (code == PQ_U64
                ? pq_unsigned_zeros_fit(args, (uint64_t)lo, (uint64_t)hi, &outside)
                : pq_zeros_fit(args, facts, lo, hi));
}

enum pq_status pq_check_affine(const struct pq_args *args, struct pq_facts *facts,
                               enum pq_type code, bool quantizes)
{
    const struct pq_range range = quantizes ? code_range_of(&args->out, args->out_layout)
                                            : code_range_of(&args->in, args->in_layout);
    const bool is_float = pq_is_narrow_float(code);
    PQ_REQUIRE(is_float || are_valid_fills(args, range, code, quantizes), PQ_ERR_OPTION);
    if (!quantizes) {
        return PQ_OK;
    }
    const enum pq_type precision = args->precision;
    const bool is_supported = precision == PQ_NO_TYPE || precision == PQ_F64 ||
                              (precision == PQ_F32 && args->in.type != PQ_F64);
    PQ_REQUIRE(is_supported && (pq_is_real(args->in.type) || pq_can_rescale(args)),
               PQ_ERR_TYPE);
    PQ_REQUIRE((unsigned)args->beyond < PQ_BEYOND_COUNT &&
                   !(args->beyond == PQ_WRAP && has_range(args)) &&
                   (is_float ? !args->overflow || args->beyond == PQ_SATURATE
                             : is_valid_range(args, range, code)),
               PQ_ERR_OPTION);
    return zeros_fit_given_range(args, facts, code) ? PQ_OK : PQ_ERR_ZERO;
}

void pq_add_affine_stages(struct pq_method *how, const struct pq_kernels *kernels,
                          const struct pq_args *args, int options, enum pq_type carrier,
                          bool quantizes)
{
    const enum pq_type code = quantizes ? args->out.type : args->in.type;
    const int part = quantizes ? layout_code_bits(&args->out, args->out_layout) : 0;
    _Static_assert(PQ_OPTIONS_AFFINE <= INT16_MAX, "`options` is too narrow");
    how->affine = (struct pq_affine){
        .inner_kernel = how->kernel,
        .real = quantizes ? args->in.type : args->out.type,
        .carrier = carrier,
        .code = code,
        .bits = (int16_t)(part != 0 ? part : pq_bits_of(code)),
        .options = (int16_t)(options & PQ_OPTIONS_AFFINE),
        .has_offset = args->offset.data != NULL,
        .inverse = args->inverse != 0,
        .clips = quantizes && has_range(args),
        .wraps = quantizes && args->beyond == PQ_WRAP,
        .counts = quantizes && args->beyond == PQ_REFUSE,
        .counts_nan = quantizes && args->refuse_nan != 0,
        .range = code_range_of(&args->out, args->out_layout),
        .fills = args->fills,
        .fill = args->fill,
    };
    if (how->affine.clips) {
        how->affine.range = (struct pq_range){args->lowest_code, args->highest_code};
    }
    how->kernel = quantizes ? kernels->quantize_affine : kernels->dequantize_affine;
    how->counts = true; /* the kernel counts elements out of range */
    const bool adds = args->offset.data != NULL && !args->inverse && args->fills == 0;
    how->packed =
        adds && !quantizes && how->packed != NULL && pq_bits_of(code) == 4
            ? kernels->dequantize_affine_packed[pq_row_of(code)][pq_row_of(args->out.type)]
            : NULL;
    how->by_groups = true;
    /* Do not flush subnormals if the call multiplies by the scale, subtracts an offset, or
     * converts to float64, because a subnormal number can then change a code. */
    if (args->inverse || args->offset.data != NULL ||
        (quantizes && carrier != how->affine.real && carrier == PQ_F64)) {
        how->flush_min_scale = 0;
    }
}

/* ---- the first element out of range ---- */

enum { SEARCHED_ELEMENTS = PQ_SIZE(1024, 64) };

/* Return true if one of `n` elements along the last dimension is out of range. The first
 * element has the indices `index`. The elements belong to one block, or each element is a
 * block. */
static bool is_out_of_range(const struct pq_kernels *kernels, const struct pq_args *args,
                            const ptrdiff_t *index, ptrdiff_t n)
{
    char codes[SEARCHED_ELEMENTS * sizeof(int64_t)];
    const ptrdiff_t size = (ptrdiff_t)pq_bytes_of(args->out.type), none = 0;
    const int last = args->ndim - 1, bits = layout_code_bits(&args->out, args->out_layout);
    const struct pq_layout dense = {
        .size = sizeof dense, .bits = bits, .word_bits = 8, .word_stride = 8};
    struct pq_args all = *args, part;
    all.out = all.in; /* the strides of `out` can be invalid if it has a layout */
    part = all;
    pq_set_first_element(&part, &all, index);
    part.ndim = 1;
    part.shape = &n;
    part.block = NULL;
    const bool varies = n > 1 && (args->block == NULL || args->block[last] == 1);
    part.in.strides = n > 1 ? args->in.strides + last : &none;
    part.scale.strides = varies ? args->scale.strides + last : &none;
    part.zero.strides =
        varies && args->zero.data != NULL ? args->zero.strides + last : &none;
    part.offset.strides =
        varies && args->offset.data != NULL ? args->offset.strides + last : &none;
    part.out = (struct pq_array){.data = codes, .strides = &size, .type = args->out.type};
    part.out_layout = NULL;
    if (bits != 0) {
        part.out.bit_strides = &none;
        part.out_layout = &dense;
    }
    return pq_quantize(kernels, &part, 0, 1) == PQ_ERR_BEYOND;
}

/* Store in `index` the indices of the element at a position in C order. Return the number
 * of elements from this element to the end of the row, or to the end of the block if the
 * block ends earlier. */
static ptrdiff_t find_indices(const struct pq_args *args, ptrdiff_t position,
                              ptrdiff_t *index)
{
    const int last = args->ndim - 1;
    for (int d = last; d >= 0; d--) {
        index[d] = position % args->shape[d];
        position /= args->shape[d];
    }
    if (last < 0) {
        return 1;
    }
    const ptrdiff_t block = args->block != NULL ? args->block[last] : 1;
    const ptrdiff_t left = args->shape[last] - index[last];
    const ptrdiff_t same = block - index[last] % block;
    return block > 1 && same < left ? same : left;
}

enum pq_status pq_count_beyond(const struct pq_kernels *kernels, const struct pq_args *args,
                               size_t *count, size_t *first)
{
    struct pq_args room;
    PQ_REQUIRE(count != NULL && first != NULL, PQ_ERR_NULL);
    *count = *first = 0;
    PQ_TRY(pq_adapt_args_version(&args, &room));
    const enum pq_status status = pq_call(pq_quantize_method, kernels, args, 0, 1, count);
    if (status != PQ_ERR_BEYOND) {
        return status;
    }
    ptrdiff_t index[PQ_MAX_NDIM], all = 1, most = SEARCHED_ELEMENTS, at = 0;
    for (int d = 0; d < args->ndim; d++) {
        all *= args->shape[d];
    }
    while (at < all) { /* stop at `all`: another thread may change data after the count */
        const ptrdiff_t left = find_indices(args, at, index), n = left < most ? left : most;
        if (!is_out_of_range(kernels, args, index, n)) {
            at += n;
        } else if (n > 1) {
            most = 1;
        } else {
            break;
        }
    }
    *first = (size_t)at;
    return PQ_OK;
}
