/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <math.h>
#include <string.h>

#include "types.h"

/* ---- formats ---- */

#define FORMAT(type, ...) [PQ_##type] = {PQ_##type, __VA_ARGS__}
static const struct float_format formats[PQ_TYPE_COUNT] = {
    FORMAT(F32, 8, 23, 127, 0x7f7fffff, 1, 0, 0x7fc00000, 0), /* reals: canonical NaN */
    FORMAT(F16, 5, 10, 15, 0x7bff, 1, 0, 0x7e00, 0),
    FORMAT(BF16, 8, 7, 127, 0x7f7f, 1, 0, 0x7fc0, 0),
    FORMAT(F8E4M3FN, 4, 3, 7, 0x7e, 0, 0, 0x7f, 1),
    FORMAT(F8E4M3FNUZ, 4, 3, 8, 0x7f, 0, 1, 0x80, 0),
    FORMAT(F8E5M2, 5, 2, 15, 0x7b, 1, 0, 0x7e, 1),
    FORMAT(F8E5M2FNUZ, 5, 2, 16, 0x7f, 0, 1, 0x80, 0),
    FORMAT(F6E2M3FN, 2, 3, 1, 0x1f, 0, 0, 0x20, 0),
    FORMAT(F6E3M2FN, 3, 2, 3, 0x1f, 0, 0, 0x20, 0),
    FORMAT(F4E2M1FN, 2, 1, 1, 0x07, 0, 0, 0x07, 0),
    FORMAT(F8E3M4, 3, 4, 3, 0x6f, 1, 0, 0x78, 1),
    FORMAT(F8E4M3, 4, 3, 7, 0x77, 1, 0, 0x7c, 1),
    FORMAT(F8E4M3B11FNUZ, 4, 3, 11, 0x7f, 0, 1, 0x80, 0),
};

const struct float_format *format_of(enum pq_type type)
{
    return formats[type].mantissa_bits > 0 ? &formats[type] : NULL;
}

static uint32_t sign_bit(const struct float_format *f)
{
    return UINT32_C(1) << (f->exponent_bits + f->mantissa_bits);
}

double value_of(const struct float_format *f, uint32_t magnitude)
{
    const int exponent = (int)(magnitude >> f->mantissa_bits);
    const int fraction = (int)(magnitude & ((1u << f->mantissa_bits) - 1));
    const int one = exponent > 0 ? 1 << f->mantissa_bits : 0;
    const int unit = (exponent > 0 ? exponent : 1) - f->bias - f->mantissa_bits;
    return (one + fraction) * f64_of_bits((uint64_t)(1023 + unit) << 52);
}

double decode(enum pq_type type, uint64_t bits)
{
    const struct float_format *const f = format_of(type);
    if (f == NULL) {
        return f64_of_bits(bits);
    }
    const uint32_t magnitude = (uint32_t)bits & (sign_bit(f) - 1);
    const int negative = (bits & sign_bit(f)) != 0;
    const int is_nan =
        f->fnuz ? negative && magnitude == 0 : magnitude > f->last + (uint32_t)f->infinite;
    const double v = is_nan                                    ? (double)NAN
                     : f->infinite && magnitude == f->last + 1 ? (double)INFINITY
                                                               : value_of(f, magnitude);
    return negative && !(is_nan && f->fnuz) ? -v : v;
}

static uint32_t nan_code(const struct float_format *f, int negative)
{
    return f->nan | (negative && f->nan_has_sign ? sign_bit(f) : 0);
}

/* Return the sign of num - value * den, computed exactly. If num differs from the
 * rounded product, the sign is right, because no double is between a product and its
 * rounded value. */
static int compare(double num, double value, double den)
{
    const double product = value * den;
    if (num != product) {
        return num < product ? -1 : 1;
    }
    const double rest = fma(value, den, -product);
    return (rest < 0) - (rest > 0);
}

/* Return a code near the code of the magnitude `v`. The result is at most `most`. */
static uint32_t code_near(const struct float_format *f, double v, uint32_t most)
{
    const uint64_t bits = bits_of_f64(v) >> (52 - f->mantissa_bits);
    const int64_t code = (int64_t)bits - ((int64_t)(1023 - f->bias) << f->mantissa_bits);
    const double unit = value_of(f, 1); /* the smallest subnormal number */
    const int64_t near = code < 1 << f->mantissa_bits ? (int64_t)(v / unit) : code;
    return near < most ? (uint32_t)near : most;
}

/* Return the code of the magnitude nearest to num / den, which both are positive. Ties
 * round to the even code. To avoid a rounded quotient, the function compares num with
 * products of den and midpoints. The result can be one above the code of the largest finite
 * magnitude. */
static uint32_t nearest_code(const struct float_format *f, double num, double den)
{
    const uint32_t most = f->last + (f->fnuz || f->last + 1 < sign_bit(f));
    if (compare(num, value_of(f, most), den) >= 0) {
        return most;
    }
    uint32_t lo = code_near(f, num / den, most - 1); /* the loops correct this estimate */
    for (; compare(num, value_of(f, lo), den) < 0; lo--) {
    }
    for (; compare(num, value_of(f, lo + 1), den) >= 0; lo++) {
    }
    const int side = compare(num, (value_of(f, lo) + value_of(f, lo + 1)) / 2, den);
    return side < 0 || (side == 0 && lo % 2 == 0) ? lo : lo + 1;
}

uint64_t encode(enum pq_type type, double v, int overflow, int negative)
{
    const struct float_format *const f = format_of(type);
    if (f == NULL) {
        return isnan(v) ? UINT64_C(0x7ff8000000000000) : bits_of_f64(v);
    }
    if (isnan(v)) {
        return nan_code(f, negative);
    }
    const uint32_t m = nearest_code(f, fabs(v), 1), sign = signbit(v) ? sign_bit(f) : 0;
    if (m <= f->last) {
        return f->fnuz && m == 0 ? 0 : sign | m;
    }
    return !overflow ? sign | f->last : f->infinite ? sign | m : sign | nan_code(f, 0);
}

double quotient_in(enum pq_type type, double num, double den)
{
    const float n = (float)num, d = (float)den;
    int exponent;
    if (type == PQ_F64 || !isfinite(num) || !isfinite(den) || num == 0 || den == 0) {
        return num / den;
    }
    if (type == PQ_F32 && (double)n == num && (double)d == den) {
        return (double)(n / d); /* rounded once */
    }
    const struct float_format *const f = format_of(type);
    const double divisor = frexp(fabs(den), &exponent);
    const uint32_t code = nearest_code(f, ldexp(fabs(num), -exponent), divisor);
    const double q = code > f->last ? (double)INFINITY : value_of(f, code);
    return signbit(num) != signbit(den) ? -q : q;
}

/* ---- rounding ---- */

uint32_t random_word(uint64_t seed, uint64_t position)
{
    uint32_t k[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint64_t block = position / 4;
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    for (int i = 0; i < 10; i++) {
        const uint64_t p = UINT64_C(0xd2511f53) * c[0], q = UINT64_C(0xcd9e8d57) * c[2];
        const uint32_t next[] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q,
                                 (uint32_t)(p >> 32) ^ c[3] ^ k[1], (uint32_t)p};
        memcpy(c, next, sizeof c);
        k[0] += 0x9e3779b9;
        k[1] += 0xbb67ae85;
    }
    return c[position % 4];
}

static double round_stochastic(double q, uint32_t word, int single)
{
    const double below = floor(q), part = q - below;
    const double share = single ? (double)(float)part : part;
    return ldexp(word >> 8, -24) < share ? below + 1 : below;
}

double rounded(enum pq_round round, double q, uint32_t word, int single)
{
    if (!(fabs(q) < 0x1p53)) {
        return q;
    }
    if (round == PQ_STOCHASTIC) {
        return round_stochastic(q, word, single);
    }
    const double fraction = fmod(q, 1), toward = q - fraction; /* both are exact */
    const double part = fabs(fraction), away = q > 0 ? toward + 1 : toward - 1;
    const double low = q > 0 ? toward : away, up = q > 0 ? away : toward;
    const double nearest = part > 0.5 ? away : toward;
    const int tie = part == 0.5, is_odd = fmod(toward, 2) != 0;
    if (part == 0) {
        return q;
    }
    switch (round) {
    case PQ_HALF_AWAY:
        return tie ? away : nearest;
    case PQ_HALF_TOWARD_ZERO:
        return tie ? toward : nearest;
    case PQ_HALF_UP:
        return tie ? up : nearest;
    case PQ_HALF_DOWN:
        return tie ? low : nearest;
    case PQ_HALF_EVEN:
        return tie && is_odd ? away : nearest;
    case PQ_HALF_ODD:
        return tie && !is_odd ? away : nearest;
    case PQ_AWAY:
        return away;
    case PQ_CEIL:
        return up;
    case PQ_FLOOR:
        return low;
    default:
        return toward;
    }
}

/* Numbers of a type with equal exponents have equal distances. Scale `q` so that this
 * distance is 1, round to an integer, and scale back. */
double rounded_to_number(enum pq_type type, double q, uint32_t word, int single)
{
    const struct float_format *const f = format_of(type);
    int exponent;
    if (!isfinite(q) || q == 0) {
        return q;
    }
    (void)frexp(q, &exponent);
    exponent = exponent > 2 - f->bias ? exponent - 1 : 1 - f->bias;
    exponent -= f->mantissa_bits;
    return copysign(ldexp(round_stochastic(ldexp(q, -exponent), word, single), exponent),
                    q);
}

/* ---- one element ---- */

/* Split `r` into a multiple of 2^32 and a remainder, and add both to `z` separately,
 * because float64 does not represent all sums. */
int64_t sum_of_64_bits(double r, int64_t z, enum pq_type type, int *side)
{
    const int is_far = fabs(r) >= 0x1p66;
    const double step = 0x1p32, near = is_far ? fmod(r, 0x1p64) : r;
    const double upper = floor(near / step), lower = near - upper * step;
    const double half = type == PQ_U64 ? 0 : 0x1p31;
    const uint64_t biased = (uint64_t)z ^ (type == PQ_U64 ? 0 : UINT64_C(1) << 63);
    const uint64_t low = (biased & UINT32_MAX) + (uint64_t)lower;
    const double high = upper + (double)(biased >> 32) + (double)(low >> 32);
    const double rest = fmod(high, step);
    const int64_t top = (int64_t)(rest < 0 ? rest + step : rest) - (int64_t)half;
    *side = is_far ? (r < 0 ? -1 : 1) : high < 0 ? -1 : high >= step;
    return (int64_t)(((uint64_t)top << 32) | (low & UINT32_MAX));
}

/* Return r + zero, saturated to the codes of `type`. NaN becomes the lowest code. */
static int64_t code_of(double r, int64_t zero, enum pq_type type)
{
    struct limits limits = limits_of(type);
    if (pq_is_64_bit(type)) {
        const int64_t highest = type == PQ_U64 ? -1 : limits.hi;
        int side = -1;
        const int64_t sum = isnan(r)   ? 0
                            : isinf(r) ? 0
                                       : sum_of_64_bits(r, zero, type, &side);
        side = isinf(r) ? (r < 0 ? -1 : 1) : side;
        return side < 0 ? limits.lo : side > 0 ? highest : sum;
    }
    /* float64 rounds only sums that are far out of range */
    const double sum = r + (double)zero;
    return !(sum > (double)limits.lo) ? limits.lo
           : sum >= (double)limits.hi ? limits.hi
                                      : (int64_t)sum;
}

uint64_t quantized(const struct pq_run *run, double x, double scale, struct zero_point zero,
                   uint32_t word)
{
    const int single = run->compute != PQ_F64;
    const double q = quotient_in(run->compute, x, scale);
    const double shifted =
        single ? (double)((float)q + (float)zero.number) : q + zero.number;
    if (!pq_is_narrow_float(run->out)) {
        const double r = rounded(run->round, run->zero_first ? shifted : q, word, single);
        return (uint64_t)code_of(r, run->zero_first ? 0 : zero.integer, run->out);
    }
    const double number = run->round == PQ_STOCHASTIC
                              ? rounded_to_number(run->out, shifted, word, single)
                              : shifted;
    return encode(run->out, number, run->overflow, signbit(x) != signbit(scale));
}

/* Return 4 * q + rest, rounded only once, to float32 if `single` is 1, else to float64. If
 * 4 * q could overflow, a nonzero `rest` only sets the lowest bit of `q`. The result is
 * rounded correctly, because float32 and float64 have too few bits to keep this bit. */
static double rounded_sum(int64_t q, int64_t rest, int single)
{
    const int is_small = q > -(INT64_C(1) << 60) && q < INT64_C(1) << 60;
    const int64_t down = rest < 0 ? -1 : 0; /* -3 <= rest <= 3 */
    const int64_t v = is_small ? 4 * q + rest : (q + down) | (rest != 0);
    return ldexp(single ? (double)(float)v : (double)v, is_small ? 0 : 2);
}

/* Return a 64-bit integer divided by 4, rounded down. */
static int64_t quarter_of(int64_t v, int is_unsigned)
{
    return is_unsigned ? (int64_t)((uint64_t)v >> 2) : (v - (v & 3)) / 4;
}

uint64_t dequantized(const struct pq_run *run, const void *code, double scale,
                     struct zero_point zero)
{
    const int single = run->out != PQ_F64;
    double v;
    if (pq_is_narrow_float(run->in)) {
        v = decode(run->in, *(const unsigned char *)code);
        v = single ? (double)((float)v + (float)zero.number) : v + zero.number;
    } else {
        const int64_t q = get_integer(code, run->in, 0);
        const int64_t quarters =
            quarter_of(q, run->in == PQ_U64) - quarter_of(zero.integer, run->unsigned_zero);
        v = rounded_sum(quarters, (q & 3) - (zero.integer & 3), single);
    }
    v = single ? (double)((float)v * (float)scale) : v * scale;
    return encode(run->out, v, 1, 0);
}
