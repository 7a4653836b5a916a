/* SPDX-License-Identifier: Apache-2.0 */
#include "encode.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "../scalar_math.h"

/* Elements of the largest block. */
enum { MOST = 256 };

/* ---- numbers ---- */

PQ_NOINLINE float magnitude_of(const float *x, int n)
{
    int32_t most = 0; /* bits of magnitudes are in their order */
    for (int i = 0; i < n; i++) {
        const int32_t bits = (int32_t)(pq_bits_f32(x[i]) & 0x7fffffff);
        most = bits > most ? bits : most;
    }
    return pq_f32_bits((uint32_t)most);
}

/* The first that is largest in magnitude, with its sign; 0 for zeros of either sign. */
PQ_NOINLINE float peak_of(const float *x, int n)
{
    const float most = magnitude_of(x, n);
    for (int i = 0; most > 0 && i < n; i++) {
        if (fabsf(x[i]) == most) {
            return x[i];
        }
    }
    return 0;
}

/* 0 has itself for one. That of a subnormal number may be infinite. */
static float inverse(float d)
{
    return d != 0 ? 1 / d : 0;
}

/* 0 for what infinite inverses make: no other quotient is as large. */
static float finite(float v)
{
    return fabsf(v) < 0x1p30f ? v : 0;
}

/* Half away from zero: what truncation leaves is exact. */
static int half_away(float v)
{
    const int whole = (int)finite(v);
    const float rest = finite(v) - (float)whole;
    return whole + (rest >= 0.5f) - (rest <= -0.5f);
}

/* Half to even, by an addition; what is too large for that comes to the least. */
static int nearest(float v)
{
    return (int)(pq_bits_f32(v + 12582912.0f) & 0x7fffff) - 0x400000;
}

/* ---- bytes ---- */

static void put_16(uint8_t *y, unsigned v)
{
    y[0] = (uint8_t)v;
    y[1] = (uint8_t)(v >> 8);
}

static void put_32(uint8_t *y, uint32_t v)
{
    put_16(y, v & 0xffff);
    put_16(y + 2, v >> 16);
}

static void put_half(uint8_t *y, float v)
{
    put_16(y, pq_f16_from_f32(v));
}

/* Twice `width` codes to the low halves of as many bytes, and the high ones. */
PQ_NOINLINE void put_halves(uint8_t *y, const int *codes, int width)
{
    for (int i = 0; i < width; i++) {
        y[i] = (uint8_t)((codes[i] & 15) | (codes[i + width] & 15) << 4);
    }
}

/* Bits 4 of 32 codes, then their halves; `n` is 32. */
PQ_NOINLINE void put_fives(uint8_t *y, const int *codes, int n)
{
    uint32_t high = 0;
    for (int i = 0; i < n; i++) {
        high |= (uint32_t)(codes[i] >> 4 & 1) << i;
    }
    put_32(y, high);
    put_halves(y + 4, codes, n / 2);
}

/* ---- a scale, and maybe a least number ---- */

/* With an offset, and 0 in the middle: -`middle` times the scale is the largest. */
PQ_NOINLINE void code_signed(const float *x, uint8_t *y, int *codes, int n, int middle)
{
    const float d = peak_of(x, n) / (float)-middle, i = inverse(d);
    const float half_above = (float)middle + 0.5f;
    put_half(y, d);
    for (int k = 0; k < n; k++) {
        const int code = (int)finite(x[k] * i + half_above);
        codes[k] = code < 2 * middle - 1 ? code : 2 * middle - 1;
    }
}

PQ_NOINLINE void code_unsigned(const float *x, uint8_t *y, int *codes, int n, int top)
{
    float low = x[0], high = x[0];
    for (int k = 1; k < n; k++) {
        low = x[k] < low ? x[k] : low;
        high = x[k] > high ? x[k] : high;
    }
    const float d = (high - low) / (float)top, i = inverse(d);
    put_half(y, d);
    put_half(y + 2, low);
    for (int k = 0; k < n; k++) {
        const int code = (int)finite((x[k] - low) * i + 0.5f);
        codes[k] = code < top ? code : top;
    }
}

static void block_Q4_0(const float *x, uint8_t *y, int n)
{
    int codes[32];
    code_signed(x, y, codes, n, 8);
    put_halves(y + 2, codes, n / 2);
}

static void block_Q5_0(const float *x, uint8_t *y, int n)
{
    int codes[32];
    code_signed(x, y, codes, n, 16);
    put_fives(y + 2, codes, n);
}

static void block_Q4_1(const float *x, uint8_t *y, int n)
{
    int codes[32];
    code_unsigned(x, y, codes, n, 15);
    put_halves(y + 4, codes, n / 2);
}

static void block_Q5_1(const float *x, uint8_t *y, int n)
{
    int codes[32];
    code_unsigned(x, y, codes, n, 31);
    put_fives(y + 4, codes, n);
}

/* ---- codes of 8 bits ---- */

/* To bytes from `at` on; returns the sum of the codes times the scale. */
PQ_NOINLINE float put_eights(const float *x, uint8_t *y, int n, int at)
{
    const float d = magnitude_of(x, n) / 127, i = inverse(d);
    int sum = 0;
    put_half(y, d);
    for (int k = 0; k < n; k++) {
        const int code = half_away(x[k] * i);
        sum += code;
        y[at + k] = (uint8_t)code;
    }
    return (float)sum * d;
}

static void block_Q8_0(const float *x, uint8_t *y, int n)
{
    (void)put_eights(x, y, n, 2);
}

static void block_Q8_1(const float *x, uint8_t *y, int n)
{
    put_half(y + 2, put_eights(x, y, n, 4));
}

/* ggml leaves the sums of zeros unset; here they are 0. */
static void block_Q8_K(const float *x, uint8_t *y, int n)
{
    const float peak = peak_of(x, n), i = peak != 0 ? -127 / peak : 0;
    put_32(y, pq_bits_f32(inverse(i)));
    for (int group = 0; group < n / 16; group++) {
        int sum = 0;
        for (int k = 16 * group; k < 16 * group + 16; k++) {
            const int code = nearest(i * x[k]);
            y[4 + k] = (uint8_t)code;
            sum += (int8_t)code;
        }
        put_16(y + 260 + 2 * group, (unsigned)sum & 0xffff);
    }
}

/* ---- codes of 1 and 2 bits, and of three values ---- */

/* Four codes, so far from each other, in a byte. One at a time: several are much code. */
static uint8_t four_at(const int *codes, int step)
{
    PQ_IN_ORDER();
    return (uint8_t)(codes[0] | codes[step] << 2 | codes[2 * step] << 4 |
                     codes[3 * step] << 6);
}

static void block_Q1_0(const float *x, uint8_t *y, int n)
{
    float sum = 0;
    memset(y + 2, 0, 16);
    for (int k = 0; k < n; k++) {
        sum += fabsf(x[k]);
        y[2 + k / 8] = (uint8_t)(y[2 + k / 8] | (x[k] >= 0) << k % 8);
    }
    put_half(y, sum / 128);
}

/* Codes -1 to 1 plus 1. */
PQ_NOINLINE float code_ternary(const float *x, int *codes, int n)
{
    const float d = magnitude_of(x, n), i = inverse(d);
    for (int k = 0; k < n; k++) {
        codes[k] = half_away(x[k] * i) + 1;
    }
    return d;
}

/* An infinite inverse gives the least code here. */
static void block_Q2_0(const float *x, uint8_t *y, int n)
{
    int codes[64];
    const float d = code_ternary(x, codes, n), i = inverse(d);
    put_half(y, d);
    for (int k = 0; k < n; k++) {
        codes[k] = fabsf(x[k] * i) < 0x1p30f ? codes[k] : 0;
    }
    for (int k = 0; k < n / 4; k++) {
        y[2 + k] = four_at(codes + 4 * k, 1);
    }
}

/* Digits of three, `width` apart, the first of which counts most, as a fraction of 256. */
PQ_NOINLINE void put_digits(uint8_t *y, const int *codes, int count, int width)
{
    for (int k = 0; k < width; k++) {
        int number = 0;
        for (int n = 0; n < 5; n++) {
            number = 3 * number + (n < count ? codes[k + n * width] : 0);
        }
        y[k] = (uint8_t)((number * 256 + 242) / 243);
        PQ_IN_ORDER(); /* as in four_at */
    }
}

static void block_TQ1_0(const float *x, uint8_t *y, int n)
{
    int codes[MOST];
    put_half(y + 52, code_ternary(x, codes, n));
    put_digits(y, codes, 5, 32);
    put_digits(y + 32, codes + 160, 5, 16);
    put_digits(y + 48, codes + 240, 4, 4);
}

static void block_TQ2_0(const float *x, uint8_t *y, int n)
{
    int codes[MOST];
    put_half(y + 64, code_ternary(x, codes, n));
    for (int half = 0; half < n / 128; half++) {
        for (int k = 0; k < 32; k++) {
            y[32 * half + k] = four_at(codes + 128 * half + k, 32);
        }
    }
}

/* ---- float4_e2m1fn ---- */

/*
 * Codes of the nearest numbers, ties to the smaller magnitude; -0 is 0. `unit` is the
 * smallest magnitude: that times a half of 4 bits is exact. What is infinite is nearest to
 * nothing.
 */
PQ_NOINLINE void code_e2m1(const float *x, int *codes, int n, float unit)
{
    static const float between[7] = {0.5f, 1.5f, 2.5f, 3.5f, 5, 7, 10};
    static const float above[7] = {1, 2, 3, 4, 6, 8, 12};
    float bounds[7];
    for (int j = 0; j < 7; j++) {
        bounds[j] = above[j] * unit <= FLT_MAX ? between[j] * unit : FLT_MAX;
    }
    for (int k = 0; k < n; k++) {
        int code = 0;
        for (int j = 0; j < 7; j++) {
            code += fabsf(x[k]) > bounds[j];
        }
        codes[k] = code != 0 && x[k] < 0 ? code + 8 : code;
    }
}

/*
 * The integer below the logarithm to base 2 of a positive number, which is one of float32:
 * just below a power of two that is the power itself. Subnormal numbers have less than
 * -126.
 */
static int floor_log2(float v)
{
    /* Floats below 2^k, by the bits of k - 1 or of -k. */
    static const uint32_t near[8] = {0, 0, 1, 2, 5, 11, 22, 44};
    const uint32_t bits = pq_bits_f32(v);
    const int power = (int)(bits >> 23) - 126;
    int size = 0;
    for (int k = power > 0 ? power - 1 : -power; k != 0; k >>= 1) {
        size++;
    }
    return power - 1 + (0x800000 - (bits & 0x7fffff) <= near[size & 7]);
}

static void block_MXFP4(const float *x, uint8_t *y, int n)
{
    int codes[32];
    const float most = magnitude_of(x, n);
    const int e = most > 0 ? floor_log2(most) + 125 : 0;
    const uint32_t power = e > 0 ? (uint32_t)e : 0;
    y[0] = (uint8_t)power;
    code_e2m1(x, codes, n,
              pq_f32_bits(power < 2 ? (uint32_t)0x200000 << power : (power - 1) << 23));
    put_halves(y + 1, codes, n / 2);
}

/* Of e4m3 without a sign, as ggml rounds: by the next bit alone; 256 and more are 448. */
static unsigned small_scale_code(float v)
{
    const uint32_t bits = pq_bits_f32(v < 448 ? v : 448);
    if (!(v > 0)) {
        return 0;
    }
    if (bits >> 23 <= 120) {
        const int code = (int)(v * 512 + 0.5f);
        return code < 7 ? (unsigned)code : 7;
    }
    const uint32_t code = (((bits >> 19) + 1) >> 1) - (120 << 3);
    return code < 15 << 3 ? code : 0x7e;
}

/* Half of what the codes above stand for. */
static float small_scale(unsigned code)
{
    return code < 8 ? (float)code * 0x1p-10f : pq_f32_bits((code + (119 << 3)) << 20);
}

static void block_NVFP4(const float *x, uint8_t *y, int n)
{
    for (int group = 0; group < n / 16; group++) {
        int codes[16] = {0};
        const unsigned scale = small_scale_code(magnitude_of(x + 16 * group, 16) / 6);
        y[group] = (uint8_t)scale;
        if (scale != 0) {
            code_e2m1(x + 16 * group, codes, 16, small_scale(scale));
        }
        put_halves(y + 4 + 8 * group, codes, 8);
    }
}

/* ---- all of them ---- */

bool pq_encode_blocks(int id, const float *x, uint8_t *y, size_t blocks)
{
#define ROW(name, number, elements, bytes) {number, elements, bytes, block_##name},
    static const struct {
        int id, elements, bytes;
        /* Given the elements: loops that knew them would be unrolled, thrice the size. */
        void (*encode)(const float *x, uint8_t *y, int n);
    } rows[] = {PQ_FOR_ENCODED(ROW)};
#undef ROW
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].id != id) {
            continue;
        }
        for (size_t b = 0; b < blocks; b++) {
            rows[i].encode(x, y, rows[i].elements);
            x += rows[i].elements;
            y += rows[i].bytes;
        }
        return true;
    }
    return false;
}
