/* SPDX-License-Identifier: Apache-2.0 */
/*
 * float16 and bfloat16 in portable C. Tests compare the vector instructions with these
 * definitions. The functions select by mask and not by branch, so compilers can vectorize
 * loops over them.
 */
#ifndef PQ_SCALAR_MATH_H
#define PQ_SCALAR_MATH_H

#include <float.h>
#include <stdint.h>
#include <string.h>

#include "pq.h"
#include "pq_compiler.h"

/* Excess precision rounds results twice. Sums with a large constant then do not round to
 * integers. */
#if defined(FLT_EVAL_METHOD) && FLT_EVAL_METHOD != 0
#  error "excess precision: x86 wants -msse2 -mfpmath=sse, s390x -fexcess-precision=fast"
#endif
#if defined(__FAST_MATH__)
#  error "-ffast-math changes results: build without it"
#endif
/* On 32-bit Arm, reject clang, which compares by NEON, but accept GCC, which does not. */
#if defined(__arm__) && defined(__ARM_NEON) && defined(__clang__)
#  error "clang compares by NEON, to which subnormal numbers are 0: use -mfpu=vfpv3-d16"
#endif

/* Define a function that changes the type of a number, and keeps its bits. */
#define WITH_BITS_OF(name, to, from)                                                       \
    PQ_INLINE to name(from v)                                                              \
    {                                                                                      \
        to result;                                                                         \
        memcpy(&result, &v, sizeof result);                                                \
        return result;                                                                     \
    }
WITH_BITS_OF(pq_bits_f32, uint32_t, float)
WITH_BITS_OF(pq_f32_bits, float, uint32_t)
WITH_BITS_OF(pq_bits_f64, uint64_t, double)
WITH_BITS_OF(pq_f64_bits, double, uint64_t)
#undef WITH_BITS_OF

/* The canonical NaN, which replaces all NaN results: CPUs return NaN with various bits. */
#define PQ_NAN_F32 pq_f32_bits(0x7fc00000)
#define PQ_NAN_F64 pq_f64_bits(UINT64_C(0x7ff8000000000000))

/* Bits of the float32 infinity. Magnitudes with larger bits are NaN. */
enum { PQ_INFINITY_BITS = 0x7f800000 };

PQ_INLINE float pq_canonical_f32(float v)
{
    return v == v ? v : PQ_NAN_F32;
}

PQ_INLINE double pq_canonical_f64(double v)
{
    return v == v ? v : PQ_NAN_F64;
}

PQ_INLINE int pq_is_finite_f32(float v)
{
    return v - v == 0;
}

PQ_INLINE int pq_is_finite_f64(double v)
{
    return v - v == 0;
}

/* Round half to even. The magnitude must be at most 2^22 for float32, and below 2^51 for
 * float64, because the sum with the constant must have an ulp of 1. */
PQ_INLINE float pq_nearest_f32(float v)
{
    return v + 0x1.8p23f - 0x1.8p23f;
}

PQ_INLINE double pq_nearest_f64(double v)
{
    return v + 0x1.8p52 - 0x1.8p52;
}

/*
 * Conversions between float32 and float64 must keep the sign of a NaN, because codes of
 * narrow floats contain it. RISC-V makes every NaN positive. WebAssembly may change signs.
 */
#if defined(PQ_ARCH_X86_64) || defined(PQ_ARCH_AARCH64)
#  define PQ_KEEPS_NAN_SIGN 1
#else
#  define PQ_KEEPS_NAN_SIGN 0
#endif

PQ_INLINE double pq_f64_from_f32(float v)
{
    const uint64_t sign = (uint64_t)(pq_bits_f32(v) >> 31) << 63;
    const uint64_t rest = pq_bits_f64((double)v) & INT64_MAX;
    return PQ_KEEPS_NAN_SIGN ? (double)v : pq_f64_bits(sign | rest);
}

PQ_INLINE float pq_f32_from_f64(double v)
{
    const uint32_t sign = (uint32_t)(pq_bits_f64(v) >> 63) << 31;
    const uint32_t rest = pq_bits_f32((float)v) & INT32_MAX;
    return PQ_KEEPS_NAN_SIGN ? (float)v : pq_f32_bits(sign | rest);
}

PQ_INLINE float pq_f32_from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t mag = (uint32_t)(h & 0x7fff) << 13;
    const uint32_t special = mag >= 0x0f800000 ? 0x38000000u : 0; /* infinity and NaN */
    /* A subnormal is h * 2^-24. Its bits become the mantissa of 2^-14 + h * 2^-24; then
     * subtract 2^-14. */
    const uint32_t small =
        pq_bits_f32(pq_f32_bits(mag + 0x38800000u) - pq_f32_bits(0x38800000u));
    const uint32_t normal = mag + 0x38000000u + special;
    return pq_f32_bits(sign | (mag < 0x00800000 ? small : normal));
}

PQ_INLINE float pq_f32_from_bf16(uint16_t b)
{
    return pq_f32_bits((uint32_t)b << 16);
}

/* Convert to float16, half to even. NaN becomes the canonical quiet NaN without a sign. */
PQ_INLINE uint16_t pq_f16_from_f32(float v)
{
    const uint32_t bits = pq_bits_f32(v);
    const uint32_t sign = bits >> 16 & 0x8000, mag = bits & 0x7fffffff;
    const uint32_t normal = (mag - 0x38000000 + 0xfff + (mag >> 13 & 1)) >> 13;
    /* Below 2^-14, float16 numbers are multiples of 2^-24. Float32 numbers of at least 1/2
     * have this distance, so the sum with 1/2 rounds to a multiple. */
    const uint32_t small = pq_bits_f32(pq_f32_bits(mag) + 0.5f) - pq_bits_f32(0.5f);
    const uint32_t finite = mag < 0x38800000 ? small : normal;
    const uint32_t number = mag < 0x477ff000 ? finite : 0x7c00; /* from 65520 up: inf */
    return (uint16_t)(mag > PQ_INFINITY_BITS ? 0x7e00 : sign | number);
}

/*
 * Convert to float32, rounded to odd: if the conversion cuts off a 1, the last remaining
 * bit becomes 1. Rounding the result to float16 or a narrow float equals one rounding.
 * float32 has fewer bits below 2^-126, but these types have no numbers there.
 */
PQ_INLINE float pq_float_to_odd(double v)
{
    const uint64_t bits = pq_bits_f64(v), cut = bits & 0x1fffffff;
    return (float)pq_f64_bits((bits - cut) | (cut != 0 ? 0x20000000 : 0));
}

PQ_INLINE uint16_t pq_bf16_from_f32(float v)
{
    const uint32_t bits = pq_bits_f32(v);
    const uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > PQ_INFINITY_BITS ? 0x7fc0 : rounded);
}

#endif
