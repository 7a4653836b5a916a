/* SPDX-License-Identifier: Apache-2.0 */
/* Affine numbers, codes that are none, and what is out of range, beside both directions. */
#include "../args.h"
#include "../job.h"
#include "../narrow_float.h"

static bool clips(const struct pq_args *args)
{
    return args->lowest_code != 0 || args->highest_code != 0;
}

bool pq_is_affine(const struct pq_args *args, bool quantizes)
{
    return args->offset != NULL || args->inverse || args->fills != 0 ||
           (quantizes && (clips(args) || args->beyond != PQ_SATURATE || args->refuse_nan));
}

/* Of codes that are quantized to fewer bits than their type has, a uint8; else 0. */
static int bits_in_layout(const struct pq_args *args)
{
    return args->out_layout != NULL && args->out.type == PQ_U8 ? args->out_layout->bits : 0;
}

/* What codes can be, perhaps of few bits. */
static struct pq_range range_of_codes(const struct pq_args *args, enum pq_type code,
                                      bool quantizes)
{
    const int part = quantizes ? bits_in_layout(args) : 0;
    return part != 0 ? (struct pq_range){0, (INT64_C(1) << part) - 1} : pq_range_of(code);
}

/* Uint64 codes are not made: all fit. */
static bool is_within(int64_t code, struct pq_range range)
{
    return range.lo <= code && code <= range.hi;
}

static bool fills_suit(const struct pq_args *args, struct pq_range range, bool quantizes)
{
    const struct pq_range kept = {args->lowest_code, args->highest_code};
    for (size_t k = 0; k < args->fills; k++) {
        if (!is_within(args->fill[k], range) ||
            (quantizes && clips(args) && is_within(args->fill[k], kept))) {
            return false;
        }
    }
    return true;
}

/* A range within that of the type, of at least one code. */
static bool range_suits(const struct pq_args *args, struct pq_range range)
{
    return !clips(args) ||
           (is_within(args->lowest_code, range) && is_within(args->highest_code, range) &&
            args->lowest_code <= args->highest_code);
}

enum pq_status pq_check_affine(const struct pq_args *args, enum pq_type code,
                               bool quantizes)
{
    const struct pq_range range = range_of_codes(args, code, quantizes);
    const bool is_float = pq_is_narrow_float(code);
    if (args->fills != 0 && args->fill == NULL) {
        return PQ_ERR_NULL;
    }
    if (is_float ? args->fills != 0 : !fills_suit(args, range, quantizes)) {
        return PQ_ERR_OPTION;
    }
    if (!quantizes) {
        return PQ_OK;
    }
    const enum pq_type precision = args->precision;
    const bool suits = precision == PQ_NO_TYPE || precision == PQ_F64 ||
                       (precision == PQ_F32 && args->in.type != PQ_F64);
    if (!suits || !pq_is_real(args->in.type)) {
        return PQ_ERR_TYPE;
    }
    if ((unsigned)args->beyond >= PQ_BEYOND_COUNT || args->zero_first ||
        args->narrow_first || (args->beyond == PQ_WRAP && (is_float || clips(args))) ||
        (is_float && (clips(args) || (args->overflow && args->beyond != PQ_SATURATE)))) {
        return PQ_ERR_OPTION;
    }
    return is_float || range_suits(args, range) ? PQ_OK : PQ_ERR_OPTION;
}

void pq_go_around(struct pq_method *how, const struct pq_kernels *kernels,
                  const struct pq_args *args, enum pq_type carrier, bool quantizes)
{
    const enum pq_type code = quantizes ? args->out.type : args->in.type;
    const int part = quantizes ? bits_in_layout(args) : 0;
    how->affine = (struct pq_affine){
        .inner = how->kernel,
        .real = quantizes ? args->in.type : args->out.type,
        .carrier = carrier,
        .code = code,
        .bits = part != 0 ? part : pq_bits_of(code),
        .general = how->general,
        .has_offset = args->offset != NULL,
        .inverse = args->inverse != 0,
        .clips = quantizes && clips(args),
        .wraps = quantizes && args->beyond == PQ_WRAP,
        .counts = quantizes && args->beyond == PQ_REFUSE,
        .counts_nan = quantizes && args->refuse_nan != 0,
        .range = range_of_codes(args, code, quantizes),
        .fills = args->fills,
        .fill = args->fill,
    };
    if (how->affine.clips) {
        how->affine.range = (struct pq_range){args->lowest_code, args->highest_code};
    }
    how->kernel = quantizes ? kernels->quantize_affine : kernels->dequantize_affine;
    how->packed = NULL;
    how->by_groups = true;
    /* Beside a scale that multiplies, or an offset, subnormal numbers count; so do those of
     * float32 among float64. */
    if (args->inverse || args->offset != NULL ||
        (quantizes && carrier != how->affine.real && carrier == PQ_F64)) {
        how->flush_from = 0;
    }
}

/* ---- which elements were out of range ---- */

/* Along the last dimension, `n` elements from place `at` on, all indices before it as in
 * `index`, to codes in a row. */
static struct pq_args part_of(const struct pq_args *args, const ptrdiff_t *index,
                              ptrdiff_t at, char *codes)
{
    struct pq_args part = *args;
    const char *in = args->in.data, *scale = args->scale.data, *zero = args->zero.data;
    const char *offset = args->offset;
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t i = d == args->ndim - 1 ? at : index[d];
        const ptrdiff_t group = args->block != NULL ? i / args->block[d] : i;
        in += i * args->in.strides[d];
        scale += group * args->scale.strides[d];
        zero += zero != NULL ? group * args->zero.strides[d] : 0;
        offset += offset != NULL ? group * args->scale.strides[d] : 0;
    }
    part.ndim = 1;
    part.in.data = (void *)(uintptr_t)in;
    part.scale.data = (void *)(uintptr_t)scale;
    part.zero.data = (void *)(uintptr_t)zero;
    part.offset = offset;
    part.out = (struct pq_array){.data = codes, .type = args->out.type};
    part.out_layout = NULL;
    return part;
}

enum { FEW = 1024 };

/* Elements [at, at + n) of a row, all of one block or of whole ones; how many are out of
 * range is not 0. */
static bool is_beyond(const struct pq_kernels *kernels, const struct pq_args *args,
                      const ptrdiff_t *index, ptrdiff_t at, ptrdiff_t n)
{
    char codes[FEW * sizeof(int32_t)];
    const ptrdiff_t size = (ptrdiff_t)pq_bytes_of(args->out.type), none = 0;
    const int last = args->ndim - 1, bits = bits_in_layout(args);
    struct pq_args part = part_of(args, index, at, codes);
    const ptrdiff_t block = args->block != NULL && last >= 0 ? args->block[last] : 1;
    part.shape = &n;
    part.block = &block;
    part.in.strides = last >= 0 ? args->in.strides + last : &none;
    part.out.strides = &size;
    part.scale.strides = last >= 0 && n > 1 ? args->scale.strides + last : &none;
    part.zero.strides = last >= 0 && n > 1 ? args->zero.strides + last : &none;
    if (at % block != 0) { /* within one */
        part.scale.strides = part.zero.strides = &none;
    }
    if (bits != 0 && args->lowest_code == 0 && args->highest_code == 0) {
        part.highest_code = (1 << bits) - 1;
    }
    return pq_quantize(kernels, &part, 0, 1) == PQ_ERR_BEYOND;
}

/* The place of the first in a row; `n` where there is none. */
static ptrdiff_t first_in_row(const struct pq_kernels *kernels, const struct pq_args *args,
                              const ptrdiff_t *index, ptrdiff_t n)
{
    const int last = args->ndim - 1;
    const ptrdiff_t block = args->block != NULL && last >= 0 ? args->block[last] : 1;
    for (ptrdiff_t at = 0, m; at < n; at += m) {
        const ptrdiff_t whole = block < FEW ? FEW / block * block : block - at % block;
        m = whole < FEW ? whole : FEW;
        m = m < n - at ? m : n - at;
        if (!is_beyond(kernels, args, index, at, m)) {
            continue;
        }
        for (ptrdiff_t i = at; i < at + m; i++) {
            if (is_beyond(kernels, args, index, i, 1)) {
                return i;
            }
        }
    }
    return n;
}

enum pq_status pq_count_beyond(const struct pq_kernels *kernels, const struct pq_args *args,
                               size_t *count, size_t *first)
{
    struct pq_args room;
    if (count == NULL || first == NULL) {
        return PQ_ERR_NULL;
    }
    *count = *first = 0;
    enum pq_status status = pq_known_args(&args, &room);
    if (status == PQ_OK) {
        status = pq_quantize_counting(kernels, args, count);
    }
    if (status != PQ_ERR_BEYOND) {
        return status;
    }
    ptrdiff_t index[PQ_MAX_NDIM] = {0};
    const int last = args->ndim - 1;
    const ptrdiff_t n = last >= 0 ? args->shape[last] : 1;
    for (;;) {
        const ptrdiff_t place = first_in_row(kernels, args, index, n);
        *first += (size_t)place;
        if (place < n) {
            return PQ_OK;
        }
        int d = last - 1;
        for (; d >= 0 && ++index[d] == args->shape[d]; d--) {
            index[d] = 0;
        }
        if (d < 0) { /* the data has changed since */
            return PQ_OK;
        }
    }
}
