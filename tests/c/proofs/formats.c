/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prove the conversions of csrc/math/narrow_float.h and scalar_math.h. The program converts
 * every float32 number to every narrow float, float16 and bfloat16, and every code to
 * float32. It also converts float64 numbers next to each midpoint through
 * pq_float_to_odd(). Also prove least_scale() of csrc/ops/quantize.c: with this scale or a
 * larger scale, subnormal numbers have code 0. The program runs for seven minutes on one
 * core.
 */
#include <math.h>
#include <string.h>

#include "check.h"
#include "math/narrow_float.h"
#include "oracle.h"
#include "types.h"

#define INFINITE UINT32_C(0x7f800000)

static uint32_t converted(enum pq_type type, float v, int saturates)
{
    return type == PQ_F16    ? pq_f16_from_f32(v)
           : type == PQ_BF16 ? pq_bf16_from_f32(v)
                             : pq_encode(v, type, saturates);
}

/* Return the bits of the least float32 magnitude that rounds to a code above `code`. */
static uint32_t end_of(const struct float_format *f, uint32_t code)
{
    const double middle = (value_of(f, code) + value_of(f, code + 1)) / 2;
    const float near =
        (float)middle; /* float32 represents the midpoints of 16-bit and narrower formats */
    return bits_of_f32(near) + (code % 2 == 0);
}

/* Check the codes of all float32 numbers of both signs, in order of the magnitude. */
static void prove_all_numbers(enum pq_type type, int saturates)
{
    const struct float_format *const f = format_of(type);
    const uint32_t sign = UINT32_C(1) << (f->exponent_bits + f->mantissa_bits);
    uint32_t at = 0;
    check_begin("all float32 numbers to %s%s", type_name(type),
                saturates ? ", saturated" : "");
    for (uint32_t code = 0; code <= f->last + 1; code++) {
        const uint32_t end = code < f->last || (code == f->last && !saturates &&
                                                (f->fnuz || f->last + 1 < sign))
                                 ? end_of(f, code)
                                 : INFINITE + 1;
        const float v = f32_of_bits(at);
        const uint32_t due = (uint32_t)encode(type, (double)v, !saturates, 0);
        const uint32_t below = (uint32_t)encode(type, -(double)v, !saturates, 0);
        uint32_t wrong = 0;
        CHECK(code > f->last || due == code, "code %#x begins at %a", (unsigned)code,
              (double)v);
        for (; at < end; at++) {
            wrong += converted(type, f32_of_bits(at), saturates) != due;
            wrong +=
                converted(type, f32_of_bits(at | UINT32_C(1) << 31), saturates) != below;
        }
        CHECK(wrong == 0, "code %#x: %u numbers", (unsigned)code, (unsigned)wrong);
        if (at > INFINITE) {
            break;
        }
    }
    CHECK(at == INFINITE + 1, "ends at %#x", (unsigned)at);
}

/* Check the codes of float64 numbers at each midpoint of two values of `type`, and of the
 * next float64 numbers. The function pq_float_to_odd() rounds to float32 by rounding to
 * odd, so that the second rounding, to `type`, is right. */
static void prove_midpoints(enum pq_type type)
{
    const struct float_format *const f = format_of(type);
    check_begin("float64 numbers next to midpoints of %s", type_name(type));
    for (uint32_t code = 0; code < f->last; code++) {
        const double middle = (value_of(f, code) + value_of(f, code + 1)) / 2;
        for (uint64_t step = 0; step < 3; step++) {
            const double v = f64_of_bits(bits_of_f64(middle) + step - 1);
            const uint64_t due = encode(type, v, 0, 0);
            CHECK(pq_encode(pq_float_to_odd(v), type, 1) == due, "%a", v);
            CHECK(pq_encode(pq_float_to_odd(-v), type, 1) == encode(type, -v, 0, 0), "%a",
                  -v);
        }
    }
}

static void prove_codes(enum pq_type type)
{
    check_begin("all codes of %s", type_name(type));
    for (int code = 0; code < 1 << pq_type_bits(type); code++) {
        const double due = decode(type, (uint64_t)code);
        const double got = (double)pq_decode((unsigned char)code, type);
        CHECK(isnan(due) ? isnan(got) : bits_of_f64(got) == bits_of_f64(due), "%#x: %a",
              (unsigned)code, got);
    }
}

/* Check that quotients of subnormal numbers and the least scale round to 0. Larger scales
 * need no check, because the quotients are smaller. */
static void prove_subnormals(void)
{
    check_begin("subnormal numbers by the smallest scales");
    for (uint32_t bits = 0; bits < UINT32_C(1) << 23; bits++) {
        const float x = f32_of_bits(bits);
        const double q = (double)(x / 0x1p-124f);
        CHECK(q < 0.25, "%a", q);
        for (size_t i = 0; i < STATIC_ROUNDS; i++) {
            const enum pq_round round = static_round(i);
            CHECK(round == PQ_AWAY || round == PQ_CEIL || rounded(round, q, 0, 1) == 0,
                  "%s %a", round_name(round), q);
            CHECK(round == PQ_AWAY || round == PQ_FLOOR || rounded(round, -q, 0, 1) == 0,
                  "%s %a", round_name(round), -q);
        }
    }
    for (int type = PQ_U64 + 1; type < PQ_TYPE_COUNT; type++) {
        if (pq_is_narrow_float((enum pq_type)type)) {
            const float most =
                f32_of_bits((UINT32_C(1) << 23) - 1); /* the largest subnormal number */
            CHECK(pq_encode(most / 0x1p-107f, (enum pq_type)type, 1) == 0, "%s",
                  type_name((enum pq_type)type));
        }
    }
}

int main(int argc, char **argv)
{
    check_start(argc, argv);
    prove_subnormals();
    prove_all_numbers(PQ_F16, 0);
    prove_all_numbers(PQ_BF16, 0);
    for (int t = PQ_U64 + 1; t < PQ_TYPE_COUNT; t++) {
        const enum pq_type type = (enum pq_type)t;
        if (pq_is_narrow_float(type) && format_of(type) != NULL) {
            prove_codes(type);
            prove_midpoints(type);
            prove_all_numbers(type, 0);
            prove_all_numbers(type, 1);
        }
    }
    return check_finish();
}
