/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prove the ranges of scales within which kernels need no division or no check for NaN:
 * quantize_range(), encode_range(), dequantize_range() and has_exact_reciprocal(). The
 * program compares the results of a fast chunk body with the results of the body for any
 * scale, both for AVX2. The program runs for 80 seconds on one core.
 *
 * A binade is all scales from one power of two to the next. The program tries every
 * significand of the first and the last binade of a range. A computation in a binade
 * between the two differs only by powers of two, so that every rounding is equal.
 * reciprocals.c proves one of the binades between.
 */
#include "math/fpenv.h"
#include "pq_compiler.h"

#if defined(PQ_ARCH_X86_64)

/* Compile the kernels in this program. PQ_NAME() appends `proof` to the names of kernels,
 * so that the names differ from the library's. */
#  define PQ_ISA proof
#  include "kernels/kernels.h"

#  include <immintrin.h>
#  include <math.h>
#  include <string.h>

#  include "x86/simd_avx2.h"

#  include "kernels/group_loop.inc"

#  pragma GCC diagnostic ignored "-Wunused-function"
#  include "kernels/general_chunk.inc"

#  include "check.h"
#  include "oracle.h"

enum { SIGNIFICANDS = 1 << 23, TIES = 8, SAMPLES = 1009, ONE = 127 << 23 };

static float scale_of(int exponent, uint32_t significand)
{
    return f32_of_bits((uint32_t)(127 + exponent) << 23 | significand);
}

static int exponent_of(uint32_t bits)
{
    return (int)(bits >> 23) - 127;
}

/* ---- quotients of float32 ---- */

/* An instance of a fast chunk body, and ties between its codes. The binades of scales that
 * begin at 2^below and at 2^above are outside the range. The body fails in both binades:
 *
 *   - below: the CPU flushes a remainder to 0, and the remainder decides a code.
 *   - above: the bound of x is infinite, or the CPU flushes `rest` or the reciprocal to 0.
 */
struct kind {
    const char *name;
    struct instance k;
    int below, above;
    float ties[TIES];
};

#  define INTEGER(type, each)                                                              \
      {.op = QUANTIZE,                                                                     \
       .real = PQ_F32,                                                                     \
       .code = PQ_##type,                                                                  \
       .how = PQ_HALF_EVEN,                                                                \
       .per_element = each}
static const struct kind integers[] = {
    {"uint8, one scale",
     INTEGER(U8, 0),
     -126,
     80,
     {0.5f, 1.5f, 2.5f, 126.5f, 127.5f, 253.5f, 254.5f, 255.5f}},
    {"uint8, a scale for each element",
     INTEGER(U8, 1),
     -103,
     114,
     {0.5f, 1.5f, 2.5f, 126.5f, 127.5f, 253.5f, 254.5f, 255.5f}},
    {"uint16",
     INTEGER(U16, 0),
     -103,
     110,
     {0.5f, 1.5f, 2.5f, 255.5f, 32767.5f, 65533.5f, 65534.5f, 65535.5f}},
    {"int32",
     INTEGER(I32, 0),
     -103,
     95,
     {0.5f, 1.5f, 2.5f, 255.5f, 65535.5f, 0x1p22f + 0.5f, 0x1p24f, 0x1p31f}},
};

/* Fill a chunk with the products of `s` and each tie, the next numbers below and above, and
 * numbers at the limits of the proofs. */
static void fill_chunk_of_ties(float *x, float s, const float *ties, int negative)
{
    static const float limits[] = {0x1p-149f,        0x1.fffffcp-127f, 0x1p-126f, 0x1p-100f,
                                   0x1.fffffep-101f, 0x1.fffffep127f,  INFINITY,  NAN};
    for (size_t i = 0; i < 3 * TIES; i++) {
        const uint32_t at = bits_of_f32(s * ties[i / 3]);
        x[i] = f32_of_bits(at + (uint32_t)(i % 3) - 1);
    }
    memcpy(x + 3 * TIES, limits, sizeof limits);
    for (size_t i = 0; i < PQ_CHUNK; i++) {
        x[i] = negative ? -x[i] : x[i];
    }
}

/* Return 1 if the fast body computes a wrong code for the scale `s`, with or without
 * flushing of subnormal numbers by the CPU. */
PQ_INLINE int differs(const float *ties, float s, int negative, struct instance k)
{
    float x[PQ_CHUNK];
    char due[PQ_CHUNK * 4], got[PQ_CHUNK * 4];
    const int is_float = pq_is_narrow_float(k.code), is_32 = k.code == PQ_I32;
    /* the bits of a zero point of 0, or of -0.0 for floats */
    const int32_t none = is_float ? INT32_MIN : 0;
    const int32_t z =
        negative && !is_float && !is_32 ? (int32_t)pq_highest_of(k.code) : none;
    const size_t bytes = PQ_CHUNK * pq_bytes_of(k.code);
    const char *const from = (const char *)x;
    int wrong = 0;
    fill_chunk_of_ties(x, s, ties, negative);
    if (is_float) {
        encode_chunk(from, due, splat(s), splat_i32(z), k);
    } else {
        quantize_chunk(from, due, splat(s), splat_i32(z), k);
    }
    for (int flush = 0; flush <= PQ_CAN_FLUSH; flush++) {
        const pq_fpenv found = pq_fpenv_set(flush);
        if (is_float) {
            const struct group_params p = encode_params(s, z, k);
            encode_regular_chunk(from, got, &p, k);
        } else {
            const struct group_params p = k.per_element
                                              ? quantize_columns(splat(s), splat_i32(z), k)
                                              : quantize_params(s, z, k);
            quantize_regular_chunk(from, got, &p, k);
        }
        pq_fpenv_leave(found);
        wrong |= memcmp(due, got, bytes) != 0;
    }
    return wrong;
}

/* Return the number of scales of a binade with a wrong code. If `stops` is 1, stop after
 * the first of the scales. Try every `step`-th significand, and the last significand. */
PQ_INLINE uint32_t count_wrong(const float *ties, int exponent, uint32_t step, int stops,
                               struct instance k)
{
    uint32_t wrong = 0;
    for (uint32_t m = 0; m < SIGNIFICANDS && !(stops && wrong); m += step) {
        wrong += (uint32_t)differs(ties, scale_of(exponent, m), m / step % 2, k);
    }
    return wrong;
}

/* Prove a range of scales. If the range is `uneven`, the fast body must fail only for
 * scales with a significand of all ones. */
PQ_INLINE void prove_range(const struct kind *kind, struct reciprocal_range range,
                           struct instance k)
{
    const int first = exponent_of(range.lo), last = exponent_of(range.hi);
    check_begin("scales from 2^%d to 2^%d, %s", first, last + 1, kind->name);
    CHECK(range.lo == bits_of_f32(scale_of(first, 0)) &&
              range.hi == bits_of_f32(scale_of(last, SIGNIFICANDS - 1)),
          "%#x to %#x", (unsigned)range.lo, (unsigned)range.hi);
    for (int e = first; e <= last; e++) {
        const uint32_t step = e == first || e == last ? 1 : SIGNIFICANDS / SAMPLES;
        const uint32_t wrong = count_wrong(kind->ties, e, step, 0, k);
        const int all_ones = differs(kind->ties, scale_of(e, SIGNIFICANDS - 1), 0, k) |
                             differs(kind->ties, scale_of(e, SIGNIFICANDS - 1), 1, k);
        CHECK(wrong == 0 || (range.uneven && step == 1 && wrong == 1 && all_ones),
              "2^%d: %u significands", e, (unsigned)wrong);
        CHECK(range.uneven || !all_ones, "2^%d: the last significand", e);
    }
    CHECK(kind->below < first && kind->above > last, "limits outside the range");
    CHECK(count_wrong(kind->ties, kind->below, 1, 1, k) != 0, "no wrong code at 2^%d",
          kind->below);
    CHECK(count_wrong(kind->ties, kind->above, 1, 1, k) != 0, "no wrong code at 2^%d",
          kind->above);
}

static void prove_quantize(void)
{
    /* A constant index lets the compiler specialize the code for an instance. */
#  define PROVE(i) prove_range(&integers[i], quantize_range(integers[i].k), integers[i].k)
    PROVE(0);
    PROVE(1);
    PROVE(2);
    PROVE(3);
#  undef PROVE
}

static void prove_encode(void)
{
    for (int t = PQ_U64 + 1; t < PQ_TYPE_COUNT; t++) {
        const enum pq_type type = (enum pq_type)t;
        const struct float_format *const f = format_of(type);
        struct kind kind = {.name = type_name(type),
                            .k = {.op = QUANTIZE,
                                  .real = PQ_F32,
                                  .code = PQ_F8E4M3FN,
                                  .to = encoding_of(type, 0)},
                            .below = -104,
                            .above = 126};
        for (uint32_t i = 0; pq_is_narrow_float(type) && i < TIES; i++) {
            const uint32_t code = i < TIES / 2 ? i : f->last + i - TIES;
            kind.ties[i] = (float)((value_of(f, code) + value_of(f, code + 1)) / 2);
        }
        if (pq_is_narrow_float(type)) {
            prove_range(&kind, encode_range(kind.k), kind.k);
        }
    }
}

/* ---- products of codes ---- */

/* Return 1 if the fast body and the body for any scale differ for a code from 0 to 255.
 * Larger codes of 16 and 32 bits are not checked. */
PQ_INLINE int multiplies_wrongly(float s, struct instance k)
{
    const int32_t z = pq_is_narrow_float(k.code) ? INT32_MIN : 0;
    const struct group_params p = dequantize_params(s, z, k);
    const size_t bytes = PQ_CHUNK * pq_bytes_of(k.real);
    char x[PQ_CHUNK * 4], due[PQ_CHUNK * 4], got[PQ_CHUNK * 4];
    int wrong = 0;
    for (uint32_t code = 0; code < 256; code += PQ_CHUNK) {
        for (uint32_t i = 0; i < PQ_CHUNK; i++) {
            put_bits(x, k.code, i, code + i);
        }
        dequantize_chunk(x, due, splat(s), splat_i32(z), k);
        dequantize_regular_chunk(x, got, &p, k);
        wrong |= memcmp(due, got, bytes) != 0;
    }
    return wrong;
}

/* Check many scales in the range, positive and negative, and all scales near the limits.
 * Also check that the fast body is wrong for the next larger scale, and for the scale 0 if
 * the range excludes 0. For bfloat16, check that no product is subnormal, because the
 * instruction of AVX-512 flushes subnormal numbers. */
PQ_INLINE void prove_products(struct instance k)
{
    enum { NEAR = 1 << 12, STEP = 40009 };
    const struct reciprocal_range range = dequantize_range(k);
    const int is_float = pq_is_narrow_float(k.code);
    check_begin("scales from %a to %a, %s to %s", (double)f32_of_bits(range.lo),
                (double)f32_of_bits(range.hi), type_name(k.code), type_name(k.real));
    for (uint32_t bits = range.lo; bits <= range.hi;
         bits += bits < range.lo + NEAR || bits > range.hi - NEAR ? 1
                 : bits > range.hi - NEAR - STEP ? range.hi - NEAR + 1 - bits
                                                 : STEP) {
        const float s = f32_of_bits(bits);
        CHECK(!multiplies_wrongly(s, k) && !multiplies_wrongly(-s, k), "%a", (double)s);
    }
    CHECK(multiplies_wrongly(f32_of_bits(range.hi + 1), k), "nothing wrong above");
    if (k.real == PQ_BF16) {
        const double least = is_float ? value_of(format_of(k.code), 1) : 1;
        CHECK(least * (double)f32_of_bits(range.lo) >= 0x1p-126, "a subnormal product");
    } else {
        CHECK(range.lo == 0 || multiplies_wrongly(0, k), "nothing wrong below");
    }
}

static void prove_dequantize(void)
{
#  define PRODUCTS(type, ...)                                                              \
      prove_products(                                                                      \
          (struct instance){.op = DEQUANTIZE, .real = PQ_F32, .code = PQ_##type});         \
      prove_products(                                                                      \
          (struct instance){.op = DEQUANTIZE, .real = PQ_F16, .code = PQ_##type});         \
      prove_products(                                                                      \
          (struct instance){.op = DEQUANTIZE, .real = PQ_BF16, .code = PQ_##type});
    PQ_FOR_CARRIER(PRODUCTS)
#  undef PRODUCTS
}

/* ---- quotients of float64 ---- */

/* Return 1 if the fast quotient and X / S round to different integers. */
static int rounds_wrongly(double x, double s)
{
    double numbers[PQ_HALF] = {x}, q[PQ_HALF];
    const struct reciprocal f = reciprocal_of(s, 0, 0, 0);
    store_f64(q, reciprocal_quotients(load_f64(numbers), &f));
    return nearbyint(q[0]) != nearbyint(x / s);
}

static uint64_t inverse_of(uint64_t odd)
{
    uint64_t v = odd;
    for (int i = 0; i < 6; i++) {
        v *= 2 - odd * v;
    }
    return v;
}

/* Choose random divisors S of 53 bits. The last 20 bits are `last`, an odd number. Return
 * the number of wrong quotients near ties k + 1/2. The numerators X satisfy 2^54 X = S N +
 * c, where N = 2^20 (2 k + 1) +- 1 has 54 bits. The remainder c is `last` or -`last` modulo
 * 2^20, reduced to the least magnitude. See has_exact_reciprocal(). */
static unsigned count_wrong_quotients(uint32_t last, unsigned tries)
{
    const int64_t least = last < 1 << 19 ? (int64_t)last : (int64_t)last - (1 << 20);
    unsigned wrong = 0;
    for (unsigned i = 0; i < tries; i++) {
        const uint64_t s =
            UINT64_C(1) << 52 | (random_bits() >> 12 & ~UINT64_C(0xfffff)) | last;
        const int64_t c = random_chance(50) ? least : -least;
        const uint64_t n = (0 - (uint64_t)c) * inverse_of(s) & ((UINT64_C(1) << 54) - 1);
        if (n >> 53 == 0 || ((n + 1) >> 20) % 2 == 0) {
            continue;
        }
        __extension__ typedef __int128 wide;
        const uint64_t x = (uint64_t)(((wide)s * n + c) >> 54);
        wrong += (unsigned)rounds_wrongly((double)x * 0x1p33, (double)s);
    }
    return wrong;
}

static void prove_float64(void)
{
    enum { RESIDUES = 1 << 20, TRIES = 100000 };
    check_begin("float64 reciprocals");
    for (uint32_t last = 0; last < RESIDUES; last++) {
        /* A reciprocal is exact if |c| exceeds the error of the sum, S N 2^-104 < 16. The
         * variable `least`, the distance of `last` to a multiple of 2^20, is a lower bound
         * of |c|. */
        const uint32_t other = RESIDUES - last;
        const uint32_t least = last == 0 ? RESIDUES : last < other ? last : other;
        CHECK(has_exact_reciprocal(1 + last * 0x1p-52) == (least >= 16), "%u",
              (unsigned)last);
    }
    for (uint32_t last = 1; last < 32; last += 2) {
        const unsigned wrong = count_wrong_quotients(last, TRIES);
        const unsigned below = count_wrong_quotients(RESIDUES - last, TRIES);
        CHECK(!has_exact_reciprocal(1 + last * 0x1p-52) || wrong + below == 0,
              "%u: %u wrong quotients", (unsigned)last, wrong + below);
        CHECK(last != 1 || (wrong != 0 && below != 0), "no wrong quotient");
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    prove_quantize();
    prove_encode();
    prove_dequantize();
    prove_float64();
    return check_finish();
}

#else

int main(void)
{
    return 0; /* this program checks nothing without AVX2 */
}

#endif
