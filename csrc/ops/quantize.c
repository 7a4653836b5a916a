/* SPDX-License-Identifier: Apache-2.0 */
/* quantize: out = saturate(round(in / scale) + zero). */
#include "args.h"
#include "engine/job.h"
#include "math/fpenv.h"

/* Return true if the zero point is added before the rounding. The member `zero_first` of
 * struct pq_run has the result. */
static bool adds_zero_first(const struct pq_args *args)
{
    return pq_is_narrow_float(args->out.type) ||
           (args->zero_first && args->zero.data != NULL);
}

/* Return the float32 bits of a limit. If |scale| is at least the limit, no code changes if
 * subnormal operands and results are flushed to 0. Return 0 if codes can change for every
 * scale.
 *
 * A subnormal x is below 2^-126. If |s| >= 2^-124, its quotient is below 1/4, and so is
 * every result that underflows. The rounding modes to nearest and toward zero map numbers
 * below 1/4 to 0. The exception is PQ_TRUNC of the sum of a number and a zero point. Narrow
 * floats round magnitudes up to 2^-18 to 0, so |s| >= 2^-107 is sufficient. Narrow floats
 * require that no zero point is added, because the sign of a zero is part of the code.
 * tests/c/proofs/formats.c tries every subnormal x. */
static uint32_t least_scale(const struct pq_args *args)
{
    const bool outward = args->round == PQ_AWAY || args->round == PQ_CEIL ||
                         args->round == PQ_FLOOR ||
                         (args->round == PQ_TRUNC && adds_zero_first(args));
    if (pq_is_narrow_float(args->out.type)) {
        return args->zero.data == NULL ? (uint32_t)(127 - 107) << 23 : 0;
    }
    return outward ? 0 : (uint32_t)(127 - 124) << 23;
}

/* Like least_scale(), for the float64 scales of the general kernel. Subnormal float64
 * values are below 2^-1022, and values with a subnormal remainder of the division are below
 * 2^-916. If |s| >= 2^-500, the quotients of these values are below 2^-400. If the input or
 * the precision is not float64, return the limit for float32, or 0 for narrow floats. */
static uint32_t least_scale_f64(const struct pq_args *args, enum pq_type precision)
{
    if (least_scale(args) == 0) {
        return 0;
    }
    if (precision == PQ_F64 && args->in.type == PQ_F64) {
        return (uint32_t)(1023 - 500) << 20;
    }
    return pq_is_narrow_float(args->out.type) ? 0 : (uint32_t)(1023 - 124) << 20;
}

static enum pq_type precision_of(const struct pq_args *args)
{
    return args->precision != PQ_NO_TYPE ? args->precision
           : args->in.type == PQ_F64     ? PQ_F64
                                         : PQ_F32;
}

/* Return the value of `round` with which a kernel for one real type and one code type
 * implements the options. If no value does, return PQ_STOCHASTIC, which these kernels do
 * not support. */
static int pair_round_of(const struct pq_args *args, enum pq_type precision)
{
    const bool sums = adds_zero_first(args) && !pq_is_narrow_float(args->out.type);
    if (precision == PQ_F32 && !sums) {
        return (int)args->round;
    }
    if (precision == PQ_F32 && args->round == PQ_HALF_EVEN) {
        return PQ_ZERO_FIRST;
    }
    return !sums && args->in.type == precision && args->scale.type == precision &&
                   args->round == PQ_HALF_EVEN
               ? (int)PQ_ROUND_NARROWED
               : (int)PQ_STOCHASTIC;
}

/* Return the kernel for this pair of types and a value of `round`. If it is null, a general
 * kernel or the kernel of 64-bit codes quantizes. */
static pq_kernel_fn *kernel_of(const struct pq_kernels *kernels, const struct pq_args *args,
                               int round)
{
    const enum pq_type in = args->in.type, out = pq_carrier_of(args->out.type);
    const bool is_pair = pq_is_real(in) && pq_row_of(in) >= 0 && pq_row_of(out) >= 0;
    return is_pair && pq_has_pair_round(in, out, round) &&
                   (!pq_is_32_bit(out) || args->zero.data == NULL)
               ? kernels->quantize[pq_row_of(in)][pq_row_of(out)]
               : NULL;
}

/* Copy the options of a call to its method. */
static void set_options(struct pq_method *how, const struct pq_args *args)
{
    const enum pq_type in = args->in.type, precision = precision_of(args);
    const bool zero_first = adds_zero_first(args);
    /* Kernels compute in float32 if the precision is float32 and the input is not
     * float64. The option `narrow_first` then changes nothing. */
    const bool narrow = args->narrow_first && (precision != PQ_F32 || in == PQ_F64);
    how->run.in = in;
    how->run.compute = precision;
    how->run.round = args->round;
    how->run.zero_first = zero_first;
    how->run.overflow = args->overflow;
    how->run.narrow_first = narrow;
    how->single_scale = in != PQ_F64 && !narrow;
    how->has_64_bit_zero = pq_is_64_bit(args->out.type) && !zero_first;
    how->float_zero = zero_first;
}

PQ_RARE void set_stochastic_method(struct pq_method *how, const struct pq_kernels *kernels,
                                   const struct pq_args *args);

/* Choose the method of a call without affine stages. */
static void set_method(struct pq_method *how, const struct pq_kernels *kernels,
                       const struct pq_args *args)
{
    if (args->round == PQ_STOCHASTIC) {
        set_stochastic_method(how, kernels, args);
        return;
    }
    const enum pq_type precision = precision_of(args), in = args->in.type,
                       out = pq_carrier_of(args->out.type);
    const bool is_float = pq_is_narrow_float(out), has_zero = args->zero.data != NULL;
    const bool is_even = args->round == PQ_HALF_EVEN, is_64_bit = pq_is_64_bit(out);
    const int round = pair_round_of(args, precision);
    pq_kernel_fn *const kernel = kernel_of(kernels, args, round);
    *how = pq_no_method;
    set_options(how, args);
    how->kernel = kernel != NULL ? kernel
                  : is_64_bit    ? kernels->quantize_int64
                                 : kernels->quantize_general;
    how->general = kernel == NULL;
    if (!how->general) {
        how->run.round = (enum pq_round)round;
    }
    how->by_groups = kernel != NULL || is_64_bit ||
                     (in == PQ_F64 && precision == PQ_F64 && is_even &&
                      (is_float ? !has_zero : !how->run.zero_first));
    how->run.out = out;
    if (args->out.bit_strides != NULL && pq_bits_of(args->out.type) == 4 && !is_float &&
        kernel != NULL && how->run.round == PQ_HALF_EVEN) {
        how->packed = kernels->quantize_packed[pq_row_of(in)];
    } else if (args->out.bit_strides != NULL && out == PQ_I32 && in == PQ_F32 &&
               kernel != NULL) {
        how->packed = kernels->quantize_24;
    }
    if (PQ_CAN_FLUSH) {
        how->flush_min_scale =
            how->general ? least_scale_f64(args, precision) : least_scale(args);
    }
}

/* Choose the stochastic kernel. It passes rounded quotients to a second kernel. The
 * quotients are float32 for a kernel of one real and one code type, and float64 for all
 * other kernels. Do not flush subnormal values, because each subnormal value can round
 * up. */
PQ_RARE void set_stochastic_method(struct pq_method *how, const struct pq_kernels *kernels,
                                   const struct pq_args *args)
{
    const enum pq_type in = args->in.type;
    const bool single =
        precision_of(args) == PQ_F32 && pq_is_real(in) && pq_row_of(in) >= 0;
    struct pq_args between = *args;
    between.round = PQ_HALF_EVEN;
    between.narrow_first = 0;
    between.in.type = between.precision = PQ_F32;
    set_method(how, kernels, &between);
    if (!single || how->general || how->run.round != PQ_HALF_EVEN) {
        between.in.type = between.precision = PQ_F64;
        set_method(how, kernels, &between);
    }
    set_options(how, args);
    how->kernel = kernels->quantize_stochastic;
    how->packed = NULL;
    how->by_groups = false;
    how->flush_min_scale = 0;
}

/* Return a kernel that reads the unchanged input, or null if a stage changes the input. */
static pq_kernel_fn *kernel_without_stages(const struct pq_method *how,
                                           const struct pq_kernels *kernels,
                                           const struct pq_args *args, enum pq_type carrier)
{
    if (args->offset.data != NULL || args->inverse || pq_needs_random_words(how)) {
        return NULL;
    }
    if (args->in.type == carrier) {
        return how->kernel;
    }
    return how->general ? NULL : kernel_of(kernels, args, pair_round_of(args, carrier));
}

/* Choose an affine kernel. Its inner kernel reads numbers of the type of the quotient. */
static void set_affine_method(struct pq_method *how, const struct pq_kernels *kernels,
                              const struct pq_args *args, int options)
{
    struct pq_args between = *args;
    between.in.type = between.precision = precision_of(args);
    set_method(how, kernels, &between);
    how->single_scale = args->in.type != PQ_F64;
    pq_kernel_fn *const kernel = kernel_without_stages(how, kernels, args, between.in.type);
    pq_add_affine_stages(how, kernels, args, options, between.in.type, true);
    how->affine.plain_kernel = kernel;
    how->by_groups = !pq_needs_random_words(how);
}

/* Return true if a kernel that quantizes to narrow floats can multiply by the scale, and
 * `inverse` is the only affine option of the call. */
static bool can_multiply(const struct pq_args *args, const struct pq_kernels *kernels,
                         int options)
{
    return (options & PQ_OPTIONS_AFFINE) == PQ_OPTION_INVERSE &&
           pq_is_narrow_float(args->out.type) &&
           kernel_of(kernels, args, pair_round_of(args, precision_of(args))) != NULL;
}

/* Return true if the chosen kernel can add the zero points. */
static bool zeros_fit(const struct pq_args *args, struct pq_facts *facts,
                      const struct pq_method *how)
{
    struct pq_range range = {-(INT64_C(1) << 52), INT64_C(1) << 52};
    if (!how->run.zero_first) {
        range = pq_zero_range(args->out.type, args->out_layout);
    } else if (!how->general) { /* kernels convert any int64 zero point to float32 */
        range = (struct pq_range){INT64_MIN, INT64_MAX};
    }
    const bool all_fit = args->zero.type == args->out.type &&
                         !pq_is_32_bit(args->out.type) &&
                         !(how->run.zero_first && pq_is_64_bit(args->out.type));
    return all_fit || pq_zeros_fit(args, facts, range.lo, range.hi);
}

enum pq_status pq_quantize_method(struct pq_method *how, const struct pq_kernels *kernels,
                                  const struct pq_args *args, struct pq_facts *facts)
{
    struct pq_args without;
    const enum pq_type in = args->in.type, out = args->out.type;
    PQ_REQUIRE((pq_is_real(in) || in == PQ_I32 || pq_can_rescale(args)) &&
                   pq_is_code(out) && pq_is_real(precision_of(args)) &&
                   pq_has_valid_zero_type(args, out),
               PQ_ERR_TYPE);
    PQ_REQUIRE((unsigned)args->round < PQ_ROUND_COUNT, PQ_ERR_ROUND);
    const int options = pq_options_of(args);
    const bool is_float = pq_is_narrow_float(out);
    const bool affine = (options & PQ_OPTIONS_AFFINE) != 0;
    const int accepted = is_float            ? PQ_ACCEPTS_QUANTIZE_FLOAT
                         : pq_is_64_bit(out) ? PQ_ACCEPTS_QUANTIZE_INT64
                                             : PQ_ACCEPTS_QUANTIZE_INTEGER;
    PQ_TRY(pq_check_options(args, options,
                            affine ? accepted & ~PQ_OPTIONS_OF_ORDER : accepted));
    PQ_TRY(affine ? pq_check_affine(args, facts, out, true) : PQ_OK);
    if (pq_is_32_bit(out) && args->zero.data != NULL && pq_zeros_are_0(args, facts)) {
        without = *args; /* kernels of 32-bit codes expect calls without zero points */
        without.zero.data = NULL;
        args = &without;
    }
    if (!affine) {
        set_method(how, kernels, args);
    } else if (can_multiply(args, kernels, options)) {
        set_method(how, kernels, args);
        how->run.inverse = true;
        how->flush_min_scale = 0; /* a subnormal x times a large scale can round to 1 */
    } else {
        set_affine_method(how, kernels, args, options);
    }
    return zeros_fit(args, facts, how) ? PQ_OK : PQ_ERR_ZERO;
}

PQ_CALLS_OF(quantize, pq_quantize_method)
