/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vector words in plain C, on chunks of 32 elements. Loops have no branches, and their
 * length makes compilers vectorize them instead of unrolling them.
 */
#ifndef PQ_SIMD_SCALAR_H
#define PQ_SIMD_SCALAR_H

#include "math/narrow_float.h"
#include "math/scalar_math.h"
#include "types.h"

#define PQ_CHUNK 32
#define PQ_LANES 8
#define PQ_LANES16 8
#define PQ_HALF (PQ_CHUNK / 2)
#define PQ_SQUARE4 8
#define PQ_SQUARE8 8
/* Each loop is compiled once and branches on types and mode for each chunk. An instance for
 * each type and mode would gain little and take minutes to compile. */
#define PQ_BODY PQ_NOINLINE
#define PQ_SPECIALISED 0
#define PQ_FAST_QUOTIENT 0 /* no fused multiply-add */
#define PQ_CONVERT_IS_LOW 0

typedef struct {
    float v[PQ_CHUNK];
} vf;

typedef struct {
    int32_t v[PQ_CHUNK];
} vi;

typedef struct {
    uint8_t v[PQ_CHUNK];
} vb;

typedef struct {
    int16_t v[PQ_CHUNK];
} vh;

#define EACH(i) for (int i = 0; i < PQ_CHUNK; i++)

/* ---- load and splat ---- */

PQ_INLINE vf load_f32(const void *p)
{
    vf r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

PQ_INLINE vf load_f16(const void *p)
{
    uint16_t h[PQ_CHUNK];
    vf r;
    memcpy(h, p, sizeof h);
    EACH(i) r.v[i] = pq_f32_from_f16(h[i]);
    return r;
}

PQ_INLINE vf load_bf16(const void *p)
{
    uint16_t h[PQ_CHUNK];
    vf r;
    memcpy(h, p, sizeof h);
    EACH(i) r.v[i] = pq_f32_from_bf16(h[i]);
    return r;
}

#define LOAD_CODES(name, type)                                                             \
    PQ_INLINE vi load_##name(const void *p)                                                \
    {                                                                                      \
        type c[PQ_CHUNK];                                                                  \
        vi r;                                                                              \
        memcpy(c, p, sizeof c);                                                            \
        EACH(i) r.v[i] = c[i];                                                             \
        return r;                                                                          \
    }
LOAD_CODES(i8, int8_t)
LOAD_CODES(u8, uint8_t)
LOAD_CODES(i16, int16_t)
LOAD_CODES(u16, uint16_t)
LOAD_CODES(i32, int32_t)
#undef LOAD_CODES

#define HALVES_OF(type, ...)                                                               \
case PQ_##type:                                                                            \
    EACH(i) r.v[i] = pq_f32_from_f16(pq_half_of_code(c[i], PQ_##type));                    \
    break;

/* Load codes of a narrow float as float16 numbers, see pq_half_of_code(). */
PQ_NOINLINE vf load_halves(const void *p, enum pq_type type)
{
    uint8_t c[PQ_CHUNK];
    vf r = {{0}};
    memcpy(c, p, sizeof c);
    switch (type) {
        PQ_FOR_FLOAT(HALVES_OF)
    default:
        break;
    }
    return r;
}
#undef HALVES_OF

PQ_INLINE vf splat(float s)
{
    vf r;
    EACH(i) r.v[i] = s;
    return r;
}

PQ_INLINE vi splat_i32(int32_t s)
{
    vi r;
    EACH(i) r.v[i] = s;
    return r;
}

/* ---- arithmetic ---- */

#define BINARY(name, type, expression)                                                     \
    PQ_INLINE type name(type a, type b)                                                    \
    {                                                                                      \
        type r;                                                                            \
        EACH(i) r.v[i] = expression;                                                       \
        return r;                                                                          \
    }
BINARY(divide, vf, a.v[i] / b.v[i])
BINARY(multiply, vf, a.v[i] * b.v[i])
BINARY(add, vf, a.v[i] + b.v[i])
BINARY(add_i32, vi, (int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i]))
BINARY(subtract_i32, vi, (int32_t)((uint32_t)a.v[i] - (uint32_t)b.v[i]))
BINARY(smaller_i32, vi, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
/* Collect values that are not finite. The result has one if b has one, or if a has a NaN,
 * which smaller() and larger() may drop. */
BINARY(gather_nans, vf, a.v[i] == a.v[i] ? b.v[i] : a.v[i])
BINARY(smaller, vf, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
BINARY(larger, vf, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
BINARY(larger_i32, vi, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
BINARY(cap_keep_nan, vf, b.v[i] < a.v[i] ? b.v[i] : a.v[i])
BINARY(floor_drop_nan, vf, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
#undef BINARY

/* Store one extremum for each lane: the least or largest of the elements i, i + PQ_LANES,
 * i + 2 * PQ_LANES, ... */
#define FOLD(name, type, block, comparison)                                                \
    PQ_INLINE void name(type *p, block a)                                                  \
    {                                                                                      \
        type r[PQ_LANES];                                                                  \
        memcpy(r, a.v, sizeof r);                                                          \
        for (int k = PQ_LANES; k < PQ_CHUNK; k += PQ_LANES) {                              \
            for (int i = 0; i < PQ_LANES; i++) {                                           \
                r[i] = a.v[k + i] comparison r[i] ? a.v[k + i] : r[i];                     \
            }                                                                              \
        }                                                                                  \
        memcpy(p, r, sizeof r);                                                            \
    }
FOLD(store_smallest, float, vf, <)
FOLD(store_largest, float, vf, >)
FOLD(store_largest_i32, int32_t, vi, >)

/* ---- chunks of 16-bit elements ---- */

PQ_INLINE vh load_16(const void *p)
{
    vh r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

PQ_INLINE void store_16(void *p, vh a)
{
    memcpy(p, a.v, sizeof a.v);
}

/* Convert bits of 16-bit floats to integers with the order of the floats, and back. */
PQ_INLINE vh to_order(vh a)
{
    EACH(i) a.v[i] = (int16_t)(a.v[i] < 0 ? -(a.v[i] & 0x7fff) : a.v[i]);
    return a;
}

PQ_INLINE vh from_order(vh a)
{
    EACH(i) a.v[i] = (int16_t)(a.v[i] < 0 ? -a.v[i] | -0x8000 : a.v[i]);
    return a;
}

PQ_INLINE vh smaller_i16(vh a, vh b)
{
    EACH(i) a.v[i] = a.v[i] < b.v[i] ? a.v[i] : b.v[i];
    return a;
}

PQ_INLINE vh larger_i16(vh a, vh b)
{
    EACH(i) a.v[i] = a.v[i] > b.v[i] ? a.v[i] : b.v[i];
    return a;
}

FOLD(store_smallest_i16, int16_t, vh, <)
FOLD(store_largest_i16, int16_t, vh, >)
#undef FOLD

/* Store the least or largest element of each line: of 8 lines of PQ_LANES16 elements, or of
 * PQ_LANES lines of PQ_LANES elements. */
#define OF_LINES(name, type, lines, lanes, comparison)                                     \
    PQ_INLINE void name(type *to, const type *line)                                        \
    {                                                                                      \
        for (int k = 0; k < lines; k++, line += lanes) {                                   \
            type r = line[0];                                                              \
            for (int i = 1; i < lanes; i++) {                                              \
                r = line[i] comparison r ? line[i] : r;                                    \
            }                                                                              \
            to[k] = r;                                                                     \
        }                                                                                  \
    }
OF_LINES(smallest_of_lines, int16_t, 8, PQ_LANES16, <)
OF_LINES(largest_of_lines, int16_t, 8, PQ_LANES16, >)
OF_LINES(smallest_of_rows, float, PQ_LANES, PQ_LANES, <)
OF_LINES(largest_of_rows, float, PQ_LANES, PQ_LANES, >)
#undef OF_LINES

/* Return x * y + z. The product must be exact. */
PQ_INLINE vf scaled_add(vf x, vf y, vf z)
{
    vf r;
    EACH(i) r.v[i] = x.v[i] * y.v[i] + z.v[i];
    return r;
}

PQ_INLINE vi mask_i32(vi a, int32_t bits)
{
    EACH(i) a.v[i] &= bits;
    return a;
}

/* Shift right. No element may be negative. */
PQ_INLINE vi shift_right(vi a, int n)
{
    EACH(i) a.v[i] >>= n;
    return a;
}

PQ_INLINE vi bits_of(vf a)
{
    vi r;
    memcpy(r.v, a.v, sizeof r.v);
    return r;
}

PQ_INLINE vf float_of(vi a)
{
    vf r;
    memcpy(r.v, a.v, sizeof r.v);
    return r;
}

PQ_INLINE int any_nan(vf a)
{
    int found = 0;
    EACH(i) found |= !(a.v[i] == a.v[i]);
    return found;
}

/* Round to float16 precision. NaN stays NaN, with any bits. */
PQ_INLINE vf round_to_f16(vf a)
{
    EACH(i) a.v[i] = pq_f32_from_f16(pq_f16_from_f32(a.v[i]));
    return a;
}

PQ_INLINE vf round_to_bf16(vf a)
{
    EACH(i) a.v[i] = pq_f32_from_bf16(pq_bf16_from_f32(a.v[i]));
    return a;
}

PQ_INLINE vf to_f32(vi a)
{
    vf r;
    EACH(i) r.v[i] = (float)a.v[i];
    return r;
}

PQ_INLINE vf u32_to_f32(vi a)
{
    vf r;
    EACH(i) r.v[i] = (float)(uint32_t)a.v[i];
    return r;
}

/* Round half to even. Magnitudes from 2^23 on are integers. */
PQ_INLINE float nearest_one(float v)
{
    const float magic = v < 0 ? -0x1p23f : 0x1p23f, n = v + magic - magic;
    return v > -0x1p23f && v < 0x1p23f ? n : v;
}

/* Round half to even to int32 or uint32, with saturation. NaN becomes the lowest integer.
 */
PQ_INLINE vi whole_i32(vf a)
{
    vi r;
    EACH(i)
    {
        const float v = nearest_one(a.v[i]);
        r.v[i] = v >= 0x1p31f ? INT32_MAX : v >= -0x1p31f ? (int32_t)v : INT32_MIN;
    }
    return r;
}

PQ_INLINE vi whole_u32(vf a)
{
    vi r;
    EACH(i)
    {
        const float v = nearest_one(a.v[i]);
        r.v[i] = (int32_t)(v >= 0x1p32f ? UINT32_MAX : v > 0 ? (uint32_t)v : 0);
    }
    return r;
}

PQ_INLINE vf canonical_nan(vf a)
{
    EACH(i) a.v[i] = pq_canonical_f32(a.v[i]);
    return a;
}

/* Return the bits of magnitudes. They have the order of the magnitudes, with NaN above
 * infinity. */
PQ_INLINE vi magnitude_bits(vf a)
{
    vi r;
    EACH(i) r.v[i] = (int32_t)(pq_bits_f32(a.v[i]) & 0x7fffffff);
    return r;
}

/* ---- primitives on one number, for rounding ---- */

/* Return the nearest even integer, for |q| <= 2^22: 1.5 * 2^23 has an ulp of 1. */
PQ_INLINE float nearest_float(float q)
{
    return q + 0x1.8p23f - 0x1.8p23f;
}

/* Return the nearest even integer. Magnitudes from 2^52 on are integers. */
PQ_INLINE double nearest_double(double q)
{
    const double magic = q < 0 ? -0x1p52 : 0x1p52, n = q + magic - magic;
    return q > -0x1p52 && q < 0x1p52 ? n : q;
}

#define PRIMITIVE(real, name, expression)                                                  \
    PQ_INLINE real name                                                                    \
    {                                                                                      \
        return expression;                                                                 \
    }
#define PRIMITIVES(real, type, sign_bit)                                                   \
    PRIMITIVE(real, splat_##real(double x), (real)x)                                       \
    PRIMITIVE(real, add_##real(real x, real y), x + y)                                     \
    PRIMITIVE(real, subtract_##real(real x, real y), x - y)                                \
    PRIMITIVE(real, or_##real(real x, real y),                                             \
              pq_##type##_bits(pq_bits_##type(x) | pq_bits_##type(y)))                     \
    PRIMITIVE(real, sign_##real(real q), pq_##type##_bits(pq_bits_##type(q) & (sign_bit))) \
    PRIMITIVE(real, magnitude_##real(real q),                                              \
              pq_##type##_bits(pq_bits_##type(q) & ~(sign_bit)))                           \
    PRIMITIVE(real, if_equal_##real(real x, real y, real v), x == y ? v : 0)               \
    PRIMITIVE(real, up_##real(real q),                                                     \
              nearest_##real(q) + (nearest_##real(q) < q ? 1 : 0))                         \
    PRIMITIVE(real, down_##real(real q),                                                   \
              nearest_##real(q) - (nearest_##real(q) > q ? 1 : 0))
PRIMITIVES(float, f32, UINT32_C(1) << 31)
PRIMITIVES(double, f64, UINT64_C(1) << 63)
#undef PRIMITIVE
#undef PRIMITIVES

/* Return q unchanged, because the conversion to int32 truncates. */
PQ_INLINE float toward_zero_float(float q)
{
    return q;
}

PQ_INLINE double toward_zero_double(double q)
{
    return or_double(down_double(magnitude_double(q)), sign_double(q));
}

#define PQ_REAL float
#define PQ_WORD(name) name##_float
#define PQ_BELOW_HALF 0x1.fffffep-2f
#include "kernels/round.inc"

#define PQ_REAL double
#define PQ_WORD(name) name##_double
#define PQ_BELOW_HALF 0x1.fffffffffffffp-2
#include "kernels/round.inc"

/* Round to int32. |q| <= 2^18, and q is not NaN, see bound() in quantize.inc. */
#define ROUND_TO_I32(mode)                                                                 \
case PQ_##mode:                                                                            \
    EACH(i) r.v[i] = (int32_t)round_##mode##_float(q.v[i]);                                \
    break;

PQ_INLINE vi round_to_i32(vf q, enum pq_round mode)
{
    vi r;
    switch (mode) {
        PQ_FOR_ROUND(ROUND_TO_I32)
    default:
        r = splat_i32(0);
        break;
    }
    return r;
}
#undef ROUND_TO_I32

/* ---- store ---- */

PQ_INLINE int32_t saturate(int32_t v, int32_t lo, int32_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Add the zero point, saturate and store codes. */
#define STORE_CODES(name, type, lo, hi)                                                    \
    PQ_INLINE void store_##name(void *p, vi r, vi z)                                       \
    {                                                                                      \
        type c[PQ_CHUNK];                                                                  \
        EACH(i) c[i] = (type)saturate(r.v[i] + z.v[i], lo, hi);                            \
        memcpy(p, c, sizeof c);                                                            \
    }
STORE_CODES(i8, int8_t, INT8_MIN, INT8_MAX)
STORE_CODES(u8, uint8_t, 0, UINT8_MAX)
STORE_CODES(i16, int16_t, INT16_MIN, INT16_MAX)
STORE_CODES(u16, uint16_t, 0, UINT16_MAX)
#undef STORE_CODES

/* Store a byte for each element: 1 if x and y are equal, else 0. */
PQ_INLINE void store_equal(void *p, vi x, vi y)
{
    uint8_t c[PQ_CHUNK];
    EACH(i) c[i] = x.v[i] == y.v[i];
    memcpy(p, c, sizeof c);
}

PQ_INLINE void store_f32(void *p, vf a)
{
    memcpy(p, a.v, sizeof a.v);
}

PQ_INLINE void store_i32(void *p, vi a)
{
    memcpy(p, a.v, sizeof a.v);
}

PQ_INLINE void store_f16(void *p, vf a)
{
    uint16_t h[PQ_CHUNK];
    EACH(i) h[i] = pq_f16_from_f32(a.v[i]);
    memcpy(p, h, sizeof h);
}

PQ_INLINE void store_bf16(void *p, vf a)
{
    uint16_t h[PQ_CHUNK];
    EACH(i) h[i] = pq_bf16_from_f32(a.v[i]);
    memcpy(p, h, sizeof h);
}

/* Store codes of a narrow float from magnitudes and the signs of `signs`. The magnitude
 * `bare` gets no sign. */
PQ_INLINE void store_float_codes(void *p, vi magnitudes, vi signs, int sign, int bare)
{
    uint8_t c[PQ_CHUNK];
    EACH(i)
    {
        const int negative = (signs.v[i] < 0) & (magnitudes.v[i] != bare);
        c[i] = (uint8_t)(magnitudes.v[i] | (negative ? sign : 0));
    }
    memcpy(p, c, sizeof c);
}

/* ---- float64: half a chunk ---- */

typedef struct {
    double v[PQ_HALF];
} vd;

#define EACH_HALF(i) for (int i = 0; i < PQ_HALF; i++)

PQ_INLINE vd load_f64(const void *p)
{
    vd r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

PQ_INLINE void store_f64(void *p, vd a)
{
    memcpy(p, a.v, sizeof a.v);
}

PQ_INLINE vd splat_f64(double s)
{
    vd r;
    EACH_HALF(i) r.v[i] = s;
    return r;
}

/* Convert the first or the second half of a chunk. */
#define HALF(name, type, first)                                                            \
    PQ_INLINE vd name(type a)                                                              \
    {                                                                                      \
        vd r;                                                                              \
        EACH_HALF(i) r.v[i] = (double)a.v[i + (first)];                                    \
        return r;                                                                          \
    }
HALF(low_f32, vf, 0)
HALF(high_f32, vf, PQ_HALF)
HALF(low_i32, vi, 0)
HALF(high_i32, vi, PQ_HALF)
#undef HALF

/* Join two halves, rounded to float32. */
PQ_INLINE vf narrow_f64(vd a, vd b)
{
    vf r;
    EACH_HALF(i) r.v[i] = (float)a.v[i];
    EACH_HALF(i) r.v[i + PQ_HALF] = (float)b.v[i];
    return r;
}

/* Join two halves, rounded to odd as by pq_float_to_odd(). */
PQ_INLINE vf narrow_to_odd(vd a, vd b)
{
    vf r;
    EACH_HALF(i) r.v[i] = pq_float_to_odd(a.v[i]);
    EACH_HALF(i) r.v[i + PQ_HALF] = pq_float_to_odd(b.v[i]);
    return r;
}

/* Join two halves of integers that fit int32. */
PQ_INLINE vi convert_f64(vd a, vd b)
{
    vi r;
    EACH_HALF(i) r.v[i] = (int32_t)a.v[i];
    EACH_HALF(i) r.v[i + PQ_HALF] = (int32_t)b.v[i];
    return r;
}

#define BINARY(name, expression)                                                           \
    PQ_INLINE vd name(vd a, vd b)                                                          \
    {                                                                                      \
        EACH_HALF(i) a.v[i] = expression;                                                  \
        return a;                                                                          \
    }
BINARY(divide_f64, a.v[i] / b.v[i])
BINARY(multiply_f64, a.v[i] * b.v[i])
BINARY(add_f64, a.v[i] + b.v[i])
BINARY(subtract_f64, a.v[i] - b.v[i])
BINARY(smaller_f64, a.v[i] < b.v[i] ? a.v[i] : b.v[i])
BINARY(larger_f64, a.v[i] > b.v[i] ? a.v[i] : b.v[i])
#undef BINARY

PQ_INLINE double smallest_f64(vd a)
{
    double r = a.v[0];
    EACH_HALF(i) r = a.v[i] < r ? a.v[i] : r;
    return r;
}

PQ_INLINE double largest_f64(vd a)
{
    double r = a.v[0];
    EACH_HALF(i) r = a.v[i] > r ? a.v[i] : r;
    return r;
}

PQ_INLINE int any_nan_f64(vd a)
{
    int found = 0;
    EACH_HALF(i) found |= !(a.v[i] == a.v[i]);
    return found;
}

/* Bound a to [lo, hi]. NaN becomes lo. */
PQ_INLINE vd bound_f64(vd a, vd lo, vd hi)
{
    EACH_HALF(i) a.v[i] = a.v[i] > lo.v[i] ? a.v[i] : lo.v[i];
    EACH_HALF(i) a.v[i] = a.v[i] < hi.v[i] ? a.v[i] : hi.v[i];
    return a;
}

PQ_INLINE vd canonical_nan_f64(vd a)
{
    EACH_HALF(i) a.v[i] = pq_canonical_f64(a.v[i]);
    return a;
}

#define ROUND_F64(mode)                                                                    \
case PQ_##mode:                                                                            \
    EACH_HALF(i) q.v[i] = round_##mode##_double(q.v[i]);                                   \
    break;

PQ_NOINLINE vd round_f64(vd q, enum pq_round mode)
{
    switch (mode) {
        PQ_FOR_ROUND(ROUND_F64)
    default:
        break;
    }
    return q;
}
#undef ROUND_F64
#undef EACH_HALF

/* ---- random words, and rounding with them ---- */

/* Convert the upper 24 bits of words to float32. */
PQ_INLINE vf load_top_24(const void *p)
{
    uint32_t words[PQ_CHUNK];
    vf r;
    memcpy(words, p, sizeof words);
    EACH(i) r.v[i] = (float)(int32_t)(words[i] >> 8);
    return r;
}

PQ_INLINE vf subtract(vf a, vf b)
{
    EACH(i) a.v[i] -= b.v[i];
    return a;
}

/* Round down to an integer. NaN and infinities stay. */
PQ_INLINE vf round_down(vf a)
{
    EACH(i)
    {
        const float n = nearest_one(a.v[i]);
        a.v[i] = n > a.v[i] ? n - 1 : n;
    }
    return a;
}

/* Return 1 where a < b, else 0. */
PQ_INLINE vf one_where_less(vf a, vf b)
{
    EACH(i) a.v[i] = a.v[i] < b.v[i] ? 1.0f : 0.0f;
    return a;
}

/* 64-bit integers, one for each of PQ_STREAMS blocks of the random generator. */
#define PQ_STREAMS 8
typedef struct {
    uint64_t v[PQ_STREAMS];
} vu;
#define EACH_STREAM(i) for (int i = 0; i < PQ_STREAMS; i++)

PQ_INLINE vu splat_u64(uint64_t s)
{
    vu r;
    EACH_STREAM(i) r.v[i] = s;
    return r;
}

/* Load streams. Lanes may be in any order that store_streams() reverses. */
PQ_INLINE vu load_streams(const uint64_t *p)
{
    vu r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

PQ_INLINE vu add_u64(vu a, vu b)
{
    EACH_STREAM(i) a.v[i] += b.v[i];
    return a;
}

/* Return the 64-bit products of the lower 32 bits. */
PQ_INLINE vu product_u32(vu a, vu b)
{
    EACH_STREAM(i) a.v[i] = (a.v[i] & UINT32_MAX) * (b.v[i] & UINT32_MAX);
    return a;
}

PQ_INLINE vu upper_u64(vu a)
{
    EACH_STREAM(i) a.v[i] >>= 32;
    return a;
}

PQ_INLINE vu flip_u64(vu a, vu b)
{
    EACH_STREAM(i) a.v[i] ^= b.v[i];
    return a;
}

/* Store the lower 32 bits of all four vectors, one block of the generator after another. */
PQ_INLINE void store_streams(uint32_t *to, vu a, vu b, vu c, vu d)
{
    EACH_STREAM(i)
    {
        to[4 * i] = (uint32_t)a.v[i];
        to[4 * i + 1] = (uint32_t)b.v[i];
        to[4 * i + 2] = (uint32_t)c.v[i];
        to[4 * i + 3] = (uint32_t)d.v[i];
    }
}
#undef EACH_STREAM

/* ---- bytes ---- */

PQ_INLINE vb load_bytes(const void *p)
{
    vb r;
    memcpy(r.v, p, sizeof r.v);
    return r;
}

PQ_INLINE void store_bytes(void *p, vb a)
{
    memcpy(p, a.v, sizeof a.v);
}

#define BYTES(name, type, expression)                                                      \
    PQ_INLINE vb name(vb a, type b)                                                        \
    {                                                                                      \
        EACH(i) a.v[i] = (uint8_t)(expression);                                            \
        return a;                                                                          \
    }
BYTES(mask_bytes, uint8_t, a.v[i] & b)
BYTES(flip_bytes, uint8_t, a.v[i] ^ b)
BYTES(subtract_bytes, uint8_t, a.v[i] - b)
BYTES(smaller_u8, uint8_t, a.v[i] < b ? a.v[i] : b)
BYTES(smaller_i8, int8_t, (int8_t)a.v[i] < b ? (int8_t)a.v[i] : b)
BYTES(larger_i8, int8_t, (int8_t)a.v[i] > b ? (int8_t)a.v[i] : b)
#undef BYTES

/* Convert int8 to int32. */
PQ_INLINE vi widen_bytes(vb a)
{
    vi r;
    EACH(i) r.v[i] = (int8_t)a.v[i];
    return r;
}

/* Unpack codes of 4 or 2 bits into bytes, with garbage above them. */
PQ_INLINE vb unpack4(const void *p)
{
    const uint8_t *c = p;
    vb r;
    EACH(i) r.v[i] = (uint8_t)(c[i / 2] >> (i % 2 * 4));
    return r;
}

PQ_INLINE vb unpack2(const void *p)
{
    const uint8_t *c = p;
    vb r;
    EACH(i) r.v[i] = (uint8_t)(c[i / 4] >> (i % 4 * 2));
    return r;
}

/* Pack bytes whose upper bits are 0. */
PQ_INLINE void pack4(void *p, vb a)
{
    uint8_t *c = p;
    for (int i = 0; i < PQ_CHUNK / 2; i++) {
        c[i] = (uint8_t)(a.v[2 * i] | a.v[2 * i + 1] << 4);
    }
}

PQ_INLINE void pack2(void *p, vb a)
{
    uint8_t *c = p;
    for (int i = 0; i < PQ_CHUNK / 4; i++) {
        c[i] = (uint8_t)(a.v[4 * i] | a.v[4 * i + 1] << 2 | a.v[4 * i + 2] << 4 |
                         a.v[4 * i + 3] << 6);
    }
}

/* ---- transposes of squares of 8 x 8 elements ---- */

#define TRANSPOSE(name, size)                                                              \
    PQ_INLINE void transpose_##name(const char *from, ptrdiff_t from_stride, char *to,     \
                                    ptrdiff_t to_stride)                                   \
    {                                                                                      \
        for (int r = 0; r < 8; r++) {                                                      \
            for (int c = 0; c < 8; c++) {                                                  \
                memcpy(to + r * to_stride + c * (size),                                    \
                       from + c * from_stride + r * (size), size);                         \
            }                                                                              \
        }                                                                                  \
    }
TRANSPOSE(bytes, 1)
TRANSPOSE(halves, 2)
TRANSPOSE(words, 4)
TRANSPOSE(doubles, 8)
#undef TRANSPOSE

#undef EACH
#endif
