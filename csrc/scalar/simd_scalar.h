/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inline functions on vectors (words) in portable C. A chunk has 32 elements, because
 * compilers vectorize loops of this length without unrolling.
 */
#ifndef PQ_SIMD_SCALAR_H
#define PQ_SIMD_SCALAR_H

#include "kernels/kernels.h"
#include "math/narrow_float.h"
#include "math/scalar_math.h"
#include "scalar/each.h"
#include "types.h"
#include <math.h>

#define PQ_CHUNK 32
#define PQ_LANES 8
#define PQ_LANES16 8
#define PQ_HALF (PQ_CHUNK / 2)
#define PQ_SQUARE4 8
#define PQ_SQUARE8 8
/* Each loop exists once. It reads types and mode at run time, once for each chunk.
 * Specialized copies would not be much faster, and would take minutes to compile. */
#define PQ_BODY PQ_NOINLINE
#define PQ_SPECIALISED 0
#define PQ_HAS_FMA 0 /* portable C uses no fused multiply-add */
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

/* A vector of float64 has half as many elements as a chunk. */
typedef struct {
    double v[PQ_HALF];
} vd;

/* ---- load, store and splat ---- */

LOAD_STORE(vf, load_f32, store_f32)
LOAD_STORE(vi, load_i32, store_i32)
LOAD_AS(vd, load_f64, double, )
STORE_AS(vd, store_f64, double, )
LOAD_STORE(vh, load_16, store_16)
LOAD_STORE(vb, load_bytes, store_bytes)
SPLAT(vf, splat, float)
SPLAT(vi, splat_i32, int32_t)
SPLAT(vd, splat_f64, double)
SPLAT(vh, splat_i16, int16_t)
LOAD_AS(vf, load_f16, uint16_t, pq_f32_from_f16)
LOAD_AS(vf, load_bf16, uint16_t, pq_f32_from_bf16)
STORE_AS(vf, store_f16, uint16_t, pq_f16_from_f32)
STORE_AS(vf, store_bf16, uint16_t, pq_bf16_from_f32)
LOAD_AS(vi, load_i8, int8_t, )
LOAD_AS(vi, load_u8, uint8_t, )
LOAD_AS(vi, load_i16, int16_t, )
LOAD_AS(vi, load_u16, uint16_t, )
LOAD_AS(vf, load_i32_f32, int32_t, (float))
LOAD_AS(vf, load_u32_f32, uint32_t, (float))

WORD_OF(vi, load_i24, (const char *p), pq_load_i24(p + 3 * i))

PQ_INLINE void store_i24(char *p, vi x)
{
    EACH(i, x) pq_store_i24(p + 3 * i, (const char *)&x.v[i]);
}

/* Load 32-bit integers, and convert the upper 24 bits of each to float32. */
#define UPPER_24(word) (float)(int32_t)((word) >> 8)
LOAD_AS(vf, load_top_24, uint32_t, UPPER_24)
#undef UPPER_24

#define HALVES_OF(type, ...)                                                               \
case PQ_##type:                                                                            \
    EACH(i, r) r.v[i] = pq_f32_from_f16(pq_f16_bits_of_code(c[i], PQ_##type));             \
    break;

/* Return the values of codes of a narrow float, divided by half_factor (see pq_format). */
PQ_NOINLINE vf load_float_codes(const void *p, enum pq_type type)
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

/* ---- arithmetic ---- */

ARITHMETIC(vf, , )
ARITHMETIC(vd, , _f64)
WORD2(vi, add_i32, (int32_t)((uint32_t)x.v[i] + (uint32_t)y.v[i]))
WORD2(vi, subtract_i32, (int32_t)((uint32_t)x.v[i] - (uint32_t)y.v[i]))
WORD2(vi, smaller_i32, x.v[i] < y.v[i] ? x.v[i] : y.v[i])
WORD2(vi, larger_i32, x.v[i] > y.v[i] ? x.v[i] : y.v[i])
WORD2(vi, larger_u32, (uint32_t)x.v[i] > (uint32_t)y.v[i] ? x.v[i] : y.v[i])
WORD2(vh, smaller_i16, x.v[i] < y.v[i] ? x.v[i] : y.v[i])
WORD2(vh, larger_i16, x.v[i] > y.v[i] ? x.v[i] : y.v[i])
WORD2(vh, larger_u16, (uint16_t)x.v[i] > (uint16_t)y.v[i] ? x.v[i] : y.v[i])

/* cap_keep_nan(): return the smaller number, or NaN if x is NaN. floor_drop_nan(): return
 * the larger number, or y if x is NaN. */
WORD2(vf, cap_keep_nan, y.v[i] < x.v[i] ? y.v[i] : x.v[i])
WORD2(vf, floor_drop_nan, x.v[i] > y.v[i] ? x.v[i] : y.v[i])
WORD2(vd, cap_keep_nan_f64, y.v[i] < x.v[i] ? y.v[i] : x.v[i])
WORD2(vd, floor_drop_nan_f64, x.v[i] > y.v[i] ? x.v[i] : y.v[i])

/* Collect NaN, which smaller() and larger() may drop: return x where x is NaN, else y. */
WORD2(vf, gather_nans, x.v[i] == x.v[i] ? y.v[i] : x.v[i])

/* Return NaN where x equals a or b, else v. Two loops are faster than one, because
 * compilers then keep the vectors in registers. */
PQ_INLINE vf nan_where_equal(vf v, vi x, int32_t a, int32_t b)
{
    EACH(i, v) v.v[i] = x.v[i] == a ? PQ_NAN_F32 : v.v[i];
    if (b != a) {
        EACH(i, v) v.v[i] = x.v[i] == b ? PQ_NAN_F32 : v.v[i];
    }
    return v;
}

/* Return 1 where x < y, else 0. */
WORD2(vf, one_where_less, x.v[i] < y.v[i] ? 1.0f : 0.0f)

/* Return x * y + z. The product must be exact. */
IN_PLACE(vf, scaled_add, (vf x, vf y, vf z), x.v[i] * y.v[i] + z.v[i])
IN_PLACE(vf, fused_add, (vf x, vf y, vf z), fmaf(x.v[i], y.v[i], z.v[i]))
IN_PLACE(vf, fused_subtract, (vf x, vf y, vf z), fmaf(-x.v[i], y.v[i], z.v[i]))

IN_PLACE(vi, mask_i32, (vi x, int32_t bits), x.v[i] & bits)
IN_PLACE(vi, shift_right, (vi x, int n), x.v[i] >> n) /* numbers must not be negative */

/* ---- extremes ---- */

/* Define a word that reduces a chunk to PQ_LANES elements. Element i of the result is the
 * extreme of the elements i, i + PQ_LANES, i + 2 * PQ_LANES and so on. */
#define FOLD(word, element, type, comparison)                                              \
    PQ_INLINE void word(element *p, type x)                                                \
    {                                                                                      \
        element r[PQ_LANES];                                                               \
        memcpy(r, x.v, sizeof r);                                                          \
        for (int k = PQ_LANES; k < PQ_CHUNK; k += PQ_LANES) {                              \
            for (int i = 0; i < PQ_LANES; i++) {                                           \
                r[i] = x.v[k + i] comparison r[i] ? x.v[k + i] : r[i];                     \
            }                                                                              \
        }                                                                                  \
        memcpy(p, r, sizeof r);                                                            \
    }
FOLD(store_smallest, float, vf, <)
FOLD(store_largest, float, vf, >)
FOLD(store_largest_i32, int32_t, vi, >)
FOLD(store_smallest_i16, int16_t, vh, <)
FOLD(store_largest_i16, int16_t, vh, >)
#undef FOLD

/* Define a word that stores the extreme of each of `lines` lines of `lanes` elements. */
#define OF_LINES(word, type, lines, lanes, comparison)                                     \
    PQ_INLINE void word(type *to, const type *line)                                        \
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

/* Define a word that reduces a chunk to one value. Its initial value is `first`. */
#define REDUCE(value, word, type, first, expression)                                       \
    PQ_INLINE value word(type x)                                                           \
    {                                                                                      \
        value r = first;                                                                   \
        EACH(i, x) r = expression;                                                         \
        return r;                                                                          \
    }
REDUCE(double, smallest_f64, vd, x.v[0], x.v[i] < r ? x.v[i] : r)
REDUCE(double, largest_f64, vd, x.v[0], x.v[i] > r ? x.v[i] : r)
REDUCE(int, any_nan, vf, 0, r | !(x.v[i] == x.v[i]))
REDUCE(int, any_nan_f64, vd, 0, r | !(x.v[i] == x.v[i]))
#undef REDUCE

/* ---- conversions ---- */

/* Round half to even. Magnitudes of 2^23 and above are integers already. */
PQ_INLINE float round_half_even_f32(float v)
{
    const float magic = v < 0 ? -0x1p23f : 0x1p23f, n = v + magic - magic;
    return v > -0x1p23f && v < 0x1p23f ? n : v;
}

/* Return the nearest int32 or uint32, ties to even. NaN becomes the lowest integer. */
PQ_INLINE int32_t nearest_i32(float x)
{
    const float v = round_half_even_f32(x);
    return v >= 0x1p31f ? INT32_MAX : v >= -0x1p31f ? (int32_t)v : INT32_MIN;
}

PQ_INLINE uint32_t nearest_u32(float x)
{
    const float v = round_half_even_f32(x);
    return v >= 0x1p32f ? UINT32_MAX : v > 0 ? (uint32_t)v : 0;
}

/* Return the largest integer that is at most x. NaN and infinity do not change. */
PQ_INLINE float floor_f32(float x)
{
    const float n = round_half_even_f32(x);
    return n > x ? n - 1 : n;
}

WORD1(vi, bits_of, vf, (int32_t)pq_bits_f32(x.v[i]))
WORD1(vf, float_of, vi, pq_f32_bits((uint32_t)x.v[i]))

/* Return the bits of magnitudes. The bits have the order of the magnitudes, with NaN above
 * infinity. */
WORD1(vi, magnitude_bits, vf, (int32_t)(pq_bits_f32(x.v[i]) & 0x7fffffff))

WORD1(vf, to_f32, vi, (float)x.v[i])
WORD1(vi, saturate_to_i32, vf, nearest_i32(x.v[i]))
WORD1(vi, saturate_to_u32, vf, (int32_t)nearest_u32(x.v[i]))
IN_PLACE(vf, round_down, (vf x), floor_f32(x.v[i]))
IN_PLACE(vf, canonical_nan, (vf x), pq_canonical_f32(x.v[i]))
IN_PLACE(vd, canonical_nan_f64, (vd x), pq_canonical_f64(x.v[i]))
WORD1(vi, widen_bytes, vb, (int8_t)x.v[i])

/* Round to float16 or bfloat16. NaN becomes a NaN with any bits. */
IN_PLACE(vf, round_to_f16, (vf x), pq_f32_from_f16(pq_f16_from_f32(x.v[i])))
IN_PLACE(vf, round_to_bf16, (vf x), pq_f32_from_bf16(pq_bf16_from_f32(x.v[i])))

/* Convert 16-bit floats to int16 numbers in the order of the floats: the magnitude bits,
 * negated for negative floats. from_order() converts them back. */
IN_PLACE(vh, to_order, (vh x), (int16_t)(x.v[i] < 0 ? -(x.v[i] & 0x7fff) : x.v[i]))
IN_PLACE(vh, from_order, (vh x), (int16_t)(x.v[i] < 0 ? -x.v[i] | -0x8000 : x.v[i]))

/* Convert the first or the second half of a chunk to float64. */
WORD1(vd, low_f32, vf, (double)x.v[i])
WORD1(vd, high_f32, vf, (double)x.v[i + PQ_HALF])
WORD1(vd, low_i32, vi, (double)x.v[i])
WORD1(vd, high_i32, vi, (double)x.v[i + PQ_HALF])

/* Convert two vectors of float64 to the two halves of a chunk. */
#define NARROW(type, word, f)                                                              \
    PQ_INLINE type word(vd x, vd y)                                                        \
    {                                                                                      \
        type r;                                                                            \
        EACH(i, x) r.v[i] = f(x.v[i]);                                                     \
        EACH(i, y) r.v[i + PQ_HALF] = f(y.v[i]);                                           \
        return r;                                                                          \
    }
NARROW(vf, narrow_f64, (float))
NARROW(vf, narrow_to_odd, pq_float_to_odd)
NARROW(vi, convert_f64, (int32_t)) /* exact for integers within int32 */
#undef NARROW

/* ---- primitives of one number, for rounding ---- */

#define nearest_float pq_nearest_f32

/* Round half to even. Magnitudes of 2^52 and above are integers already. */
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
    PRIMITIVE(real, multiply_##real(real x, real y), (x) * y)                              \
    PRIMITIVE(real, or_##real(real x, real y),                                             \
              pq_##type##_bits(pq_bits_##type(x) | pq_bits_##type(y)))                     \
    PRIMITIVE(real, sign_##real(real q), pq_##type##_bits(pq_bits_##type(q) & (sign_bit))) \
    PRIMITIVE(real, magnitude_##real(real q),                                              \
              pq_##type##_bits(pq_bits_##type(q) & ~(sign_bit)))                           \
    PRIMITIVE(real, minus_one_if_equal_##real(real x, double y),                           \
              x == (real)y ? (real)(-1) : 0)                                               \
    PRIMITIVE(real, up_##real(real q),                                                     \
              nearest_##real(q) + (nearest_##real(q) < q ? 1 : 0))                         \
    PRIMITIVE(real, down_##real(real q),                                                   \
              nearest_##real(q) - (nearest_##real(q) > q ? 1 : 0))
PRIMITIVES(float, f32, UINT32_C(1) << 31)
PRIMITIVES(double, f64, UINT64_C(1) << 63)
#undef PRIMITIVE
#undef PRIMITIVES

/* Return q unchanged, because the later conversion to int32 truncates q. */
PQ_INLINE float truncate_float(float q)
{
    return q;
}

PQ_INLINE double truncate_double(double q)
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

/* Round numbers of magnitude at most 2^22, see quotient_limit(). Callers exclude NaN. */
#define ROUND_TO_I32(mode)                                                                 \
case PQ_##mode:                                                                            \
    EACH(i, r) r.v[i] = (int32_t)round_##mode##_float(q.v[i]);                             \
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

#define ROUND_F64(mode)                                                                    \
case PQ_##mode:                                                                            \
    EACH(i, q) q.v[i] = round_##mode##_double(q.v[i]);                                     \
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

/* ---- store codes ---- */

PQ_INLINE int32_t saturate(int32_t v, int32_t lo, int32_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Define a vector word that stores a chunk of codes. `expression` is code i. */
#define STORE_WORD(word, type, parameters, expression)                                     \
    PQ_INLINE void word parameters                                                         \
    {                                                                                      \
        type c[PQ_CHUNK];                                                                  \
        for (int i = 0; i < PQ_CHUNK; i++) {                                               \
            c[i] = (type)(expression);                                                     \
        }                                                                                  \
        memcpy(p, c, sizeof c);                                                            \
    }

/* Store r plus the zero point, saturated. */
#define STORE_CODES(word, type, lo, hi)                                                    \
    STORE_WORD(word, type, (void *p, vi r, vi z), saturate(r.v[i] + z.v[i], lo, hi))
STORE_CODES(store_i8, int8_t, INT8_MIN, INT8_MAX)
STORE_CODES(store_u8, uint8_t, 0, UINT8_MAX)
STORE_CODES(store_i16, int16_t, INT16_MIN, INT16_MAX)
STORE_CODES(store_u16, uint16_t, 0, UINT16_MAX)
#undef STORE_CODES

/* Return x + y. Sums fit int16: saturating_quotient() limits x, and y is a zero point. */
WORD_OF(vh, narrow_sums, (vi x, vi y), (int16_t)(x.v[i] + y.v[i]))

/* Saturate the numbers of x to [0, highest], add `least` modulo the number of codes, and
 * store them. */
#define STORE_ABOVE(word, vector, type, highest)                                           \
    STORE_WORD(word, type, (void *p, vector x, int least),                                 \
               saturate(x.v[i], 0, highest) + least)
STORE_ABOVE(store_plus_least_8, vh, uint8_t, UINT8_MAX)
STORE_ABOVE(store_plus_least_16, vi, uint16_t, UINT16_MAX)
#undef STORE_ABOVE

/* For each element, store a byte: 1 where x and y are equal, else 0. */
STORE_WORD(store_equal, uint8_t, (void *p, vi x, vi y), x.v[i] == y.v[i])

/* Store magnitude codes of a narrow float, plus the sign bit `sign` where `signs` is
 * negative. The magnitude code `bare` never gets the sign bit. */
STORE_WORD(store_float_codes, uint8_t,
           (void *p, vi magnitudes, vi signs, int sign, int bare),
           magnitudes.v[i] | (((signs.v[i] < 0) & (magnitudes.v[i] != bare)) ? sign : 0))
#undef STORE_WORD

/* ---- random words: a 64-bit number for each of PQ_STREAMS counters ---- */

#define PQ_STREAMS 8
typedef struct {
    uint64_t v[PQ_STREAMS];
} vu;

WORD_OF(vu, load_streams, (const uint64_t *p), p[i])
SPLAT(vu, splat_u64, uint64_t)
WORD2(vu, add_u64, x.v[i] + y.v[i])
WORD2(vu, flip_u64, x.v[i] ^ y.v[i])
IN_PLACE(vu, upper_u64, (vu x), x.v[i] >> 32)
WORD2(vu, product_u32,
      (x.v[i] & UINT32_MAX) * (y.v[i] & UINT32_MAX)) /* product of the lower 32 bits */

/* Store the lower 32 bits of element i of a, b, c and d, for each i. */
PQ_INLINE void store_streams(uint32_t *to, vu a, vu b, vu c, vu d)
{
    EACH(i, a)
    {
        to[4 * i] = (uint32_t)a.v[i];
        to[4 * i + 1] = (uint32_t)b.v[i];
        to[4 * i + 2] = (uint32_t)c.v[i];
        to[4 * i + 3] = (uint32_t)d.v[i];
    }
}

/* ---- bytes ---- */

#define BYTES(word, number, expression)                                                    \
    IN_PLACE(vb, word, (vb x, number y), (uint8_t)(expression))
BYTES(mask_bytes, uint8_t, x.v[i] & y)
BYTES(flip_bytes, uint8_t, x.v[i] ^ y)
BYTES(subtract_bytes, uint8_t, x.v[i] - y)
BYTES(smaller_u8, uint8_t, x.v[i] < y ? x.v[i] : y)
BYTES(smaller_i8, int8_t, (int8_t)x.v[i] < y ? (int8_t)x.v[i] : y)
BYTES(larger_i8, int8_t, (int8_t)x.v[i] > y ? (int8_t)x.v[i] : y)
#undef BYTES

/* Define a word that unpacks codes. It expands each byte c to an integer with one code in
 * each byte. The bits above a code are arbitrary. Compilers vectorize this loop. */
#define UNPACK(word, number, codes, little, big)                                           \
    PQ_INLINE vb word(const void *p)                                                       \
    {                                                                                      \
        uint8_t bytes[PQ_CHUNK / (codes)];                                                 \
        number all[PQ_CHUNK / (codes)];                                                    \
        vb r;                                                                              \
        memcpy(bytes, p, sizeof bytes);                                                    \
        for (int i = 0; i < PQ_CHUNK / (codes); i++) {                                     \
            const uint32_t c = bytes[i];                                                   \
            all[i] = (number)(PQ_LITTLE_ENDIAN ? (little) : (big));                        \
        }                                                                                  \
        memcpy(r.v, all, sizeof all);                                                      \
        return r;                                                                          \
    }
UNPACK(unpack_4_bits, uint16_t, 2, c | c << 4, c << 8 | c >> 4)
UNPACK(unpack_2_bits, uint32_t, 4, c | c << 6 | c << 12 | c << 18,
       c << 24 | c >> 2 << 16 | c >> 4 << 8 | c >> 6)
#undef UNPACK

/* Pack codes of 4 or 2 bits. */
PQ_INLINE void pack_4_bits(void *p, vb x)
{
    uint8_t *c = p;
    for (int i = 0; i < PQ_CHUNK / 2; i++) {
        c[i] = (uint8_t)(x.v[2 * i] | x.v[2 * i + 1] << 4);
    }
}

PQ_INLINE void pack_2_bits(void *p, vb x)
{
    uint8_t *c = p;
    for (int i = 0; i < PQ_CHUNK / 4; i++) {
        c[i] = (uint8_t)(x.v[4 * i] | x.v[4 * i + 1] << 2 | x.v[4 * i + 2] << 4 |
                         x.v[4 * i + 3] << 6);
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

#endif
