/* SPDX-License-Identifier: Apache-2.0 */
#include "params.h"

#include <stdbool.h>

#include "narrow_float.h"
#include "scalar_math.h"
#include "types.h"

PQ_INLINE void swap_bytes(void *p, size_t size)
{
    unsigned char *b = p;
    for (size_t i = 0; i < size / 2; i++) {
        const unsigned char t = b[i];
        b[i] = b[size - 1 - i];
        b[size - 1 - i] = t;
    }
}

/* One loop for contiguous native elements, which the compiler vectorizes, one for the
 * rest. */
#define LOAD(type, convert)                                                                \
    if (from.stride == (ptrdiff_t)sizeof(type) && !from.swapped) {                         \
        for (size_t i = 0; i < n; i++) {                                                   \
            type v;                                                                        \
            memcpy(&v, from.data + i * sizeof v, sizeof v);                                \
            to[i] = convert(v);                                                            \
        }                                                                                  \
    } else {                                                                               \
        for (size_t i = 0; i < n; i++) {                                                   \
            type v;                                                                        \
            memcpy(&v, from.data + (ptrdiff_t)i * from.stride, sizeof v);                  \
            if (from.swapped) {                                                            \
                swap_bytes(&v, sizeof v);                                                  \
            }                                                                              \
            to[i] = convert(v);                                                            \
        }                                                                                  \
    }                                                                                      \
    break

/* The low bits of a byte. */
PQ_INLINE int as_i4(uint8_t c)
{
    return ((c & 15) ^ 8) - 8;
}

PQ_INLINE int as_u4(uint8_t c)
{
    return c & 15;
}

PQ_INLINE int as_i2(uint8_t c)
{
    return ((c & 3) ^ 2) - 2;
}

PQ_INLINE int as_u2(uint8_t c)
{
    return c & 3;
}

/* With the sign of a NaN, where that has one, as wider floats keep theirs: with a scale it
 * goes into the code of a NaN. */
static float decode_signed(uint8_t code, enum pq_type type)
{
    const struct pq_format format = pq_format_of(type);
    const float v = pq_decode(code, type);
    const bool negative = v != v && format.signed_nan && (code & format.sign) != 0;
    return negative ? pq_f32_bits(pq_bits_f32(v) | 0x80000000) : v;
}

/* Narrow floats are few: one element at a time. */
static void load_narrow_f32(float *to, struct pq_params from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = (uint8_t)from.data[(ptrdiff_t)i * from.stride];
        to[i] =
            from.type == PQ_F8E8M0FNU ? pq_f32_from_e8m0(c) : decode_signed(c, from.type);
    }
}

static void load_narrow_f64(double *to, struct pq_params from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        float v;
        load_narrow_f32(&v, from, 1);
        to[i] = (double)v;
        from.data += from.stride;
    }
}

#define LOAD_REALS(as_real, load_narrow)                                                   \
    switch (from.type) {                                                                   \
    case PQ_F32:                                                                           \
        LOAD(float, as_real);                                                              \
    case PQ_F16:                                                                           \
        LOAD(uint16_t, pq_f32_from_f16);                                                   \
    case PQ_BF16:                                                                          \
        LOAD(uint16_t, pq_f32_from_bf16);                                                  \
    case PQ_F64:                                                                           \
        LOAD(double, as_real);                                                             \
    default:                                                                               \
        load_narrow(to, from, n);                                                          \
        break;                                                                             \
    }

#define LOAD_INTEGERS(as_number)                                                           \
    switch (from.type) {                                                                   \
    case PQ_I8:                                                                            \
        LOAD(int8_t, as_number);                                                           \
    case PQ_U8:                                                                            \
        LOAD(uint8_t, as_number);                                                          \
    case PQ_I16:                                                                           \
        LOAD(int16_t, as_number);                                                          \
    case PQ_U16:                                                                           \
        LOAD(uint16_t, as_number);                                                         \
    case PQ_I32:                                                                           \
        LOAD(int32_t, as_number);                                                          \
    case PQ_U32:                                                                           \
        LOAD(uint32_t, as_number);                                                         \
    case PQ_I64:                                                                           \
        LOAD(int64_t, as_number);                                                          \
    case PQ_I4:                                                                            \
        LOAD(uint8_t, as_number as_i4);                                                    \
    case PQ_U4:                                                                            \
        LOAD(uint8_t, as_number as_u4);                                                    \
    case PQ_I2:                                                                            \
        LOAD(uint8_t, as_number as_i2);                                                    \
    case PQ_U2:                                                                            \
        LOAD(uint8_t, as_number as_u2);                                                    \
    default:                                                                               \
        LOAD(uint64_t, as_number);                                                         \
    }

void pq_load_scales_f32(float *to, struct pq_params from, size_t n)
{
    if (pq_is_integer(from.type)) {
        LOAD_INTEGERS((float)(double))
    } else {
        LOAD_REALS((float), load_narrow_f32)
    }
}

void pq_load_zeros_i32(int32_t *to, struct pq_params from, size_t n)
{
    LOAD_INTEGERS((int32_t))
}

void pq_load_zeros_f32(float *to, struct pq_params from, size_t n)
{
    if (pq_is_integer(from.type)) {
        LOAD_INTEGERS((float))
    } else {
        load_narrow_f32(to, from, n);
    }
}

void pq_load_scales_f64(double *to, struct pq_params from, size_t n, int single)
{
    if (pq_is_integer(from.type)) {
        LOAD_INTEGERS((double))
    } else {
        LOAD_REALS((double), load_narrow_f64)
    }
    for (size_t i = 0; single && i < n; i++) {
        to[i] = (float)to[i];
    }
}

void pq_load_zeros_f64(double *to, struct pq_params from, size_t n)
{
    if (pq_is_integer(from.type)) {
        LOAD_INTEGERS((double))
    } else {
        load_narrow_f64(to, from, n);
    }
}

int64_t pq_load_integer(struct pq_params from)
{
    int64_t value = 0, *const to = &value;
    const size_t n = 1;
    LOAD_INTEGERS((int64_t))
    return value;
}
