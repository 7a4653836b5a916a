/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The definitions of the expected results: formats, rounding, random words, and how to
 * quantize and dequantize one element. The definitions share no code with csrc.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "check.h"
#include "kernels/kernels.h"

/* A binary floating-point format. float64 has no entry. */
struct float_format {
    enum pq_type type;
    int exponent_bits, mantissa_bits, bias;
    uint32_t last; /* bits of the largest finite magnitude */
    int infinite;  /* 1 if the code `last` + 1 is infinity */
    int fnuz;      /* 1 if NaN has the bits of -0 */
    uint32_t nan;  /* code of the positive NaN, or of the number that replaces NaN */
    int nan_has_sign;
};
const struct float_format *format_of(enum pq_type type);

/* Return the value of a code without a sign. The code can be at most `last` + 1. */
double value_of(const struct float_format *f, uint32_t magnitude);

/* Return the value of the bits of a real or a narrow float. */
double decode(enum pq_type type, uint64_t bits);

/* Return the bits of a number, rounded half to even. Numbers out of range become the
 * largest number, or infinity or NaN if `overflow` is 1. If `negative` is 1 and the format
 * has signed NaNs, NaN becomes a negative NaN. */
uint64_t encode(enum pq_type type, double v, int overflow, int negative);

/* Return num / den, rounded only once, to a real type. */
double quotient_in(enum pq_type type, double num, double den);

/* Return `q`, rounded to an integer. If `single` is 1, stochastic rounding compares the
 * random word with the fraction in float32, else in float64. */
double rounded(enum pq_round round, double q, uint32_t word, int single);
/* Return `q`, rounded stochastically to a value of a narrow float. */
double rounded_to_number(enum pq_type type, double q, uint32_t word, int single);

/* Return the 32-bit random word at a position of the sequence of a seed. The words are the
 * words of Philox 4x32-10 in the library Random123. */
uint32_t random_word(uint64_t seed, uint64_t position);

/* Return r + z modulo 2^64 for an integer r. Set *side to -1 if the sum is below the lowest
 * code of the 64-bit type, to 1 if the sum is above the highest code, else to 0. */
int64_t sum_of_64_bits(double r, int64_t z, enum pq_type type, int *side);

/* A zero point. Integer codes use `integer`. Narrow floats and zero_first use `number`. */
struct zero_point {
    int64_t integer;
    double number;
};

/* Return the bits of an element after quantizing or dequantizing, with the types and
 * options of `run`. */
uint64_t quantized(const struct pq_run *run, double x, double scale, struct zero_point zero,
                   uint32_t word);
uint64_t dequantized(const struct pq_run *run, const void *code, double scale,
                     struct zero_point zero);

#endif
