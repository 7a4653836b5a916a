/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/params.h"

#include <stdbool.h>

#include "engine/tile.h"
#include "math/narrow_float.h"
#include "math/scalar_math.h"
#include "types.h"

/* Loaders first copy elements with gaps, or in the other byte order, to a buffer. */
enum { BUFFER_ELEMENTS = PQ_SIZE(256, 32) };

static void copy_params(char *to, const struct pq_params *from, const char *data, size_t n)
{
    const struct pq_tile tile = {
        1, (ptrdiff_t)n, 0, from->stride, pq_bytes_of(from->type), from->swapped != 0};
    pq_gather(NULL, to, data, &tile);
}

/* Return the address of `n` contiguous elements from index `first` on, in native byte
 * order. Copy them to `room` if necessary. */
PQ_INLINE const char *contiguous_params(char *room, const struct pq_params *from,
                                        size_t first, size_t n)
{
    const size_t size = pq_bytes_of(from->type);
    const char *const data = from->data + (ptrdiff_t)first * from->stride;
    if ((from->stride == (ptrdiff_t)size || n == 1) && !from->swapped) {
        return data;
    }
    copy_params(room, from, data, n);
    return room;
}

/* Convert `n` elements of one type in a loop that the compiler vectorizes. The expression
 * `number` converts the element `v`. */
#define LOAD(type, number)                                                                 \
    for (size_t i = 0; i < n; i++) {                                                       \
        type v;                                                                            \
        memcpy(&v, data + i * sizeof v, sizeof v);                                         \
        to[i] = number;                                                                    \
    }                                                                                      \
    break

/* Return the value of a code. If the format has signed NaN, NaN keeps its sign, because the
 * sign of a NaN scale becomes a part of the NaN code. */
static float decode_param(uint8_t code, enum pq_type type)
{
    if (type == PQ_F8E8M0FNU) {
        return pq_f32_from_e8m0(code);
    }
    const struct pq_format format = pq_format_of(type);
    const float v = pq_decode(code, type);
    const bool negative = v != v && format.signed_nan && (code & format.sign) != 0;
    return negative ? pq_f32_bits(pq_bits_f32(v) | 0x80000000) : v;
}

/* Narrow floats are rare as parameters, so their loop is not vectorized. */
#define LOAD_REALS(from_f32, from_f64)                                                     \
    switch (from->type) {                                                                  \
    case PQ_F32:                                                                           \
        LOAD(float, from_f32(v));                                                          \
    case PQ_F16:                                                                           \
        LOAD(uint16_t, from_f32(pq_f32_from_f16(v)));                                      \
    case PQ_BF16:                                                                          \
        LOAD(uint16_t, from_f32(pq_f32_from_bf16(v)));                                     \
    case PQ_F64:                                                                           \
        LOAD(double, from_f64(v));                                                         \
    default:                                                                               \
        for (size_t i = 0; i < n; i++) {                                                   \
            to[i] = from_f32(decode_param((uint8_t)data[i], from->type));                  \
        }                                                                                  \
        break;                                                                             \
    }

#define LOAD_INTEGERS(as_number)                                                           \
    switch (from->type) {                                                                  \
    case PQ_I8:                                                                            \
        LOAD(int8_t, as_number(v));                                                        \
    case PQ_U8:                                                                            \
        LOAD(uint8_t, as_number(v));                                                       \
    case PQ_I16:                                                                           \
        LOAD(int16_t, as_number(v));                                                       \
    case PQ_U16:                                                                           \
        LOAD(uint16_t, as_number(v));                                                      \
    case PQ_I32:                                                                           \
        LOAD(int32_t, as_number(v));                                                       \
    case PQ_U32:                                                                           \
        LOAD(uint32_t, as_number(v));                                                      \
    case PQ_I64:                                                                           \
        LOAD(int64_t, as_number(v));                                                       \
    case PQ_I4:                                                                            \
        LOAD(uint8_t, as_number(((v & 15) ^ 8) - 8));                                      \
    case PQ_U4:                                                                            \
        LOAD(uint8_t, as_number(v & 15));                                                  \
    case PQ_I2:                                                                            \
        LOAD(uint8_t, as_number(((v & 3) ^ 2) - 2));                                       \
    case PQ_U2:                                                                            \
        LOAD(uint8_t, as_number(v & 3));                                                   \
    default:                                                                               \
        LOAD(uint64_t, as_number(v));                                                      \
    }

#define LOAD_ANY(as_number, from_f32, from_f64)                                            \
    if (pq_is_integer(from->type)) {                                                       \
        LOAD_INTEGERS(as_number)                                                           \
    } else {                                                                               \
        LOAD_REALS(from_f32, from_f64)                                                     \
    }

/* Define a function that loads `all` parameters as values of type `number`. The statement
 * `load` converts `n` elements at `data`. With a stride of 0, it converts one element and
 * repeats the result. */
#define LOADER(name, number, load)                                                         \
    void name(number *PQ_RESTRICT to, const struct pq_params *from, size_t all)            \
    {                                                                                      \
        char room[BUFFER_ELEMENTS * sizeof(double)];                                       \
        const size_t others = from->stride == 0 && all > 1 ? 1 : all;                      \
        for (size_t first = 0, n; first < others; first += n, to += n) {                   \
            n = others - first < BUFFER_ELEMENTS ? others - first : BUFFER_ELEMENTS;       \
            const char *const data = contiguous_params(room, from, first, n);              \
            load                                                                           \
        }                                                                                  \
        for (size_t i = 0; i < all - others; i++) {                                        \
            to[i] = to[-1];                                                                \
        }                                                                                  \
    }

LOADER(pq_load_scales_f32, float, LOAD_ANY((float)(double), (float), pq_f32_from_f64))
LOADER(pq_load_zeros_i32, int32_t, LOAD_INTEGERS((int32_t)))
LOADER(pq_load_zeros_f32, float, LOAD_ANY((float), (float), pq_f32_from_f64))
LOADER(pq_load_zeros_f64, double, LOAD_ANY((double), pq_f64_from_f32, (double)))

void pq_load_scales_f64(double *to, const struct pq_params *from, size_t n, int single)
{
    pq_load_zeros_f64(to, from, n);
    for (size_t i = 0; single && i < n; i++) {
        to[i] = pq_f64_from_f32(pq_f32_from_f64(to[i]));
    }
}

void pq_load_reals_f32(const struct pq_kernels *kernels, float *to, const void *from,
                       enum pq_type type, size_t n)
{
    const struct pq_params in_order = {from, (ptrdiff_t)pq_bytes_of(type), type, 0};
    if (type == PQ_F16 && kernels->sums->widen != NULL) {
        kernels->sums->widen(to, from, n);
    } else {
        pq_load_scales_f32(to, &in_order, n);
    }
}

/* Copy 64-bit zero points. Convert all other types one element at a time. */
void pq_load_zeros_u64(uint64_t *to, const struct pq_params *from, size_t n)
{
    struct pq_params one = *from;
    if (pq_is_64_bit(from->type)) {
        copy_params((char *)to, from, from->data, n);
        return;
    }
    for (size_t i = 0; i < n; i++, one.data += one.stride) {
        to[i] = (uint64_t)pq_load_integer(&one);
    }
}

int64_t pq_load_integer(const struct pq_params *from)
{
    char room[sizeof(int64_t)];
    const size_t n = 1;
    int64_t value = 0, *const to = &value;
    const char *const data = contiguous_params(room, from, 0, n);
    LOAD_INTEGERS((int64_t))
    return value;
}
