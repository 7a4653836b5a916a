/* SPDX-License-Identifier: Apache-2.0 */
/* dequantize: out = (in - zero) * scale. */
#include "args.h"
#include "engine/job.h"

enum { MAX_CODES = PQ_SIZE(256, 32) }; /* number of 64-bit codes in a buffer */

/* ---- distant zero points ---- */

/* Dequantize a tile by the kernel of 64-bit codes, which computes exact differences. */
static void run_65_bit_tile(const struct pq_run *run, const void *x, void *y, size_t n)
{
    uint64_t codes[MAX_CODES];
    const struct pq_params from = {x, (ptrdiff_t)pq_bytes_of(run->in), run->in, 0};
    struct pq_run converted = *run;
    converted.in = PQ_I64;
    pq_load_zeros_u64(codes, &from, n); /* loads integers, so that it can load codes, too */
    run->affine->inner_kernel(&converted, codes, y, n);
}

static void dequantize_65_bit(const struct pq_run *run, const void *x, void *y, size_t n)
{
    pq_run_tiles(run_65_bit_tile, MAX_CODES, false, run, x, pq_bytes_of(run->in), y,
                 pq_bytes_of(run->out), n);
}

/* ---- methods ---- */

/* The size of the differences q - zero, which selects the kernel. ZEROS_32_BIT selects
 * kernels for one real type and one code type, or the kernel of 64-bit codes. ZEROS_F64
 * selects general kernels, with float64 differences. ZEROS_64_BIT selects
 * dequantize_65_bit(), with 65-bit differences. ZEROS_TOO_LARGE is an error, PQ_ERR_ZERO.
 * 32-bit codes without zero points are ZEROS_32_BIT. */
enum zero_size { ZEROS_32_BIT, ZEROS_F64, ZEROS_64_BIT, ZEROS_TOO_LARGE };

static enum zero_size zero_size_of(const struct pq_args *args, struct pq_facts *facts)
{
    const enum pq_type code = args->in.type;
    const struct pq_range range = pq_zero_range(code, args->in_layout);
    const bool is_float = pq_is_narrow_float(code), is_32_bit = pq_is_32_bit(code);
    if (is_32_bit ? pq_zeros_are_0(args, facts) : args->zero.type == code) {
        return ZEROS_32_BIT;
    }
    const bool is_checked = !is_float && args->any_zeros == 0;
    if (is_checked && !pq_zeros_fit(args, facts, range.lo, range.hi)) {
        return ZEROS_TOO_LARGE;
    }
    const bool is_small = is_checked && pq_bits_of(code) < 32;
    if (is_small || (!is_32_bit && pq_zeros_fit(args, facts, -(1 << 30), 1 << 30))) {
        return ZEROS_32_BIT;
    }
    if (!pq_is_64_bit(code) &&
        pq_zeros_fit(args, facts, -(INT64_C(1) << 52), INT64_C(1) << 52)) {
        return ZEROS_F64;
    }
    if (is_float || !pq_zeros_fit(args, facts, INT64_MIN, INT64_MAX)) {
        return ZEROS_TOO_LARGE;
    }
    return pq_is_64_bit(code) ? ZEROS_32_BIT : ZEROS_64_BIT;
}

/* Return the kernel for the two types of the call. Return null if the call needs a general
 * kernel, the kernel of 64-bit codes or dequantize_65_bit(). */
static pq_kernel_fn *kernel_of(const struct pq_kernels *kernels, const struct pq_args *args,
                               enum zero_size zeros)
{
    const enum pq_type in = pq_carrier_of(args->in.type), out = args->out.type;
    const bool is_supported = pq_is_narrow_float(in) || zeros == ZEROS_32_BIT;
    return is_supported && pq_row_of(in) >= 0 && pq_row_of(out) >= 0
               ? kernels->dequantize[pq_row_of(in)][pq_row_of(out)]
               : NULL;
}

static void set_method(struct pq_method *how, const struct pq_kernels *kernels,
                       const struct pq_args *args, enum zero_size zeros)
{
    const enum pq_type in = pq_carrier_of(args->in.type), out = args->out.type;
    pq_kernel_fn *const kernel = kernel_of(kernels, args, zeros);
    const bool is_65_bit = zeros == ZEROS_64_BIT, is_64_bit = is_65_bit || pq_is_64_bit(in);
    *how = pq_no_method;
    how->kernel = kernel != NULL ? kernel
                  : is_65_bit    ? dequantize_65_bit
                  : is_64_bit    ? kernels->dequantize_int64
                                 : kernels->dequantize_general;
    how->affine.inner_kernel = is_65_bit ? kernels->dequantize_int64 : NULL;
    how->general = kernel == NULL;
    how->by_groups = kernel != NULL || is_64_bit || out == PQ_F64;
    how->has_64_bit_zero = is_64_bit;
    how->run.unsigned_zero = args->zero.data != NULL && args->zero.type == PQ_U64;
    how->run.in = in;
    how->run.out = out;
    how->run.compute = out == PQ_F64 ? PQ_F64 : PQ_F32;
    how->single_scale = out != PQ_F64;
    how->float_zero = pq_is_narrow_float(in) && kernel != NULL;
    how->negate_zero = true;
    if (args->in.bit_strides != NULL && pq_bits_of(args->in.type) == 4 && kernel != NULL &&
        pq_is_integer(in)) {
        how->packed = kernels->dequantize_packed[pq_row_of(args->in.type)][pq_row_of(out)];
    } else if (args->in.bit_strides != NULL && in == PQ_I32 && out == PQ_F32 &&
               kernel != NULL) {
        how->packed = kernels->dequantize_24;
    }
}

enum pq_status pq_dequantize_method(struct pq_method *how, const struct pq_kernels *kernels,
                                    const struct pq_args *args, struct pq_facts *facts)
{
    const enum pq_type in = args->in.type, out = args->out.type;
    PQ_REQUIRE(pq_is_code(in) && pq_is_real(out) && args->out.bit_strides == NULL &&
                   pq_has_valid_zero_type(args, in),
               PQ_ERR_TYPE);
    const enum zero_size zeros = zero_size_of(args, facts);
    PQ_REQUIRE(zeros != ZEROS_TOO_LARGE, PQ_ERR_ZERO);
    const int options = pq_options_of(args);
    PQ_TRY(pq_check_options(args, options,
                            pq_is_narrow_float(in) ? PQ_ACCEPTS_DEQUANTIZE_FLOAT
                            : pq_is_64_bit(in)     ? PQ_ACCEPTS_DEQUANTIZE_INT64
                                                   : PQ_ACCEPTS_DEQUANTIZE_INTEGER));
    if ((options & PQ_OPTIONS_AFFINE) == 0) {
        set_method(how, kernels, args, zeros);
        return PQ_OK;
    }
    PQ_TRY(pq_check_affine(args, facts, in, false));
    PQ_REQUIRE(zeros != ZEROS_64_BIT, PQ_ERR_ZERO);
    /* The inner kernel writes numbers of the type of the product. */
    struct pq_args between = *args;
    between.out.type = out == PQ_F64 ? PQ_F64 : PQ_F32;
    set_method(how, kernels, &between, zeros);
    pq_add_affine_stages(how, kernels, args, options, between.out.type, false);
    return PQ_OK;
}

PQ_CALLS_OF(dequantize, pq_dequantize_method)
