/* SPDX-License-Identifier: Apache-2.0 */
#include "params.h"

#include <stdbool.h>

#include "narrow_float.h"
#include "plan.h"
#include "scalar_math.h"

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

/* Integer scales count as float64. */
static bool is_integer(enum pq_type type)
{
    return type >= PQ_I8 && type <= PQ_U2;
}

void pq_load_scales_f32(float *to, struct pq_params from, size_t n)
{
    if (is_integer(from.type)) {
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
    if (is_integer(from.type)) {
        LOAD_INTEGERS((float))
    } else {
        load_narrow_f32(to, from, n);
    }
}

void pq_load_scales_f64(double *to, struct pq_params from, size_t n, int single)
{
    if (is_integer(from.type)) {
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
    if (is_integer(from.type)) {
        LOAD_INTEGERS((double))
    } else {
        load_narrow_f64(to, from, n);
    }
}

struct pq_range pq_code_range(enum pq_type code)
{
    static const struct pq_range ranges[] = {
        [PQ_I8] = {INT8_MIN, INT8_MAX},
        [PQ_U8] = {0, UINT8_MAX},
        [PQ_I16] = {INT16_MIN, INT16_MAX},
        [PQ_U16] = {0, UINT16_MAX},
        [PQ_I32] = {INT32_MIN, INT32_MAX},
        [PQ_U32] = {0, UINT32_MAX},
        [PQ_I4] = {-8, 7},
        [PQ_U4] = {0, 15},
        [PQ_I2] = {-2, 1},
        [PQ_U2] = {0, 3},
    };
    return ranges[code];
}

int64_t pq_load_integer(struct pq_params from)
{
    int64_t value = 0, *const to = &value;
    const size_t n = 1;
    LOAD_INTEGERS((int64_t))
    return value;
}

/* One zero point; a uint64 that int64 cannot hold counts as too high, and so does a narrow
 * float that is not 0. */
static int is_within(struct pq_params at, int64_t lo, int64_t hi, int64_t *value)
{
    *value = 0;
    if (!is_integer(at.type)) {
        float v;
        load_narrow_f32(&v, at, 1);
        *value = v == 0 ? 0 : INT64_MAX;
        return *value >= lo && *value <= hi;
    }
    *value = pq_load_integer(at);
    return *value >= lo && *value <= hi && (at.type != PQ_U64 || *value >= 0);
}

/* Whether there are zero points, of a type and at places that can be looked at. */
static bool has_zeros(const struct pq_args *args)
{
    const enum pq_type type = args->zero.type;
    return args->zero.data != NULL && (args->ndim == 0 || args->zero.strides != NULL) &&
           ((unsigned)type < PQ_TYPE_COUNT && type >= PQ_I8 && type != PQ_F8E8M0FNU) &&
           pq_has_span(args, &args->zero, 1);
}

int pq_zeros_within(const struct pq_args *args, int64_t lo, int64_t hi, int64_t *outside)
{
    ptrdiff_t counts[PQ_MAX_NDIM], index[PQ_MAX_NDIM] = {0};
    if (args == NULL || outside == NULL) {
        return 0;
    }
    *outside = 0;
    if (pq_check_shape(args) != PQ_OK || !has_zeros(args)) {
        return 0;
    }
    for (int d = 0; d < args->ndim; d++) {
        const ptrdiff_t block = args->block != NULL ? args->block[d] : 1;
        if (args->shape[d] == 0) { /* whatever the stride: there may be none to look at */
            return 1;
        }
        counts[d] = args->zero.strides[d] != 0 ? (args->shape[d] - 1) / block + 1 : 1;
    }
    struct pq_params at = {args->zero.data, 0, args->zero.type, args->zero.swapped};
    for (;;) {
        if (!is_within(at, lo, hi, outside)) {
            return 0;
        }
        int d = args->ndim - 1;
        for (; d >= 0; d--) { /* the next index in C order */
            if (++index[d] < counts[d]) {
                at.data += args->zero.strides[d];
                break;
            }
            at.data -= (counts[d] - 1) * args->zero.strides[d];
            index[d] = 0;
        }
        if (d < 0) {
            return 1;
        }
    }
}
