/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The definitions of formats, rounding, random words, and of quantizing and dequantizing
 * one element. They share no code with csrc.
 */
#ifndef ORACLE_H
#define ORACLE_H

#include "check.h"
#include "kernels/kernels.h"

/* A binary floating-point format, other than float64. */
struct float_format {
    enum pq_type type;
    int exponent_bits, mantissa_bits, bias;
    uint32_t last; /* code of the largest finite magnitude */
    int infinite;  /* 1: the next code is infinity */
    int fnuz;      /* 1: the code of -0 is NaN */
    uint32_t nan; /* code of a positive NaN; without NaN: of the number that replaces NaN */
    int nan_has_sign;
};
const struct float_format *format_of(enum pq_type type);

/* Return the value of a magnitude code, which can also be the code after the last code. */
double value_of(const struct float_format *f, uint32_t magnitude);

/* Decode bits of a real or of a narrow float. */
double decode(enum pq_type type, uint64_t bits);

/* Encode a number, half to even. Numbers out of range become the largest number unless
 * `overflow` is 1. `negative` is the sign of a NaN. */
uint64_t encode(enum pq_type type, double v, int overflow, int negative);

/* Return num / den, rounded once to a real type. */
double quotient_in(enum pq_type type, double num, double den);

/* Round to an integer. `single`: stochastic rounding compares the float32 value of the
 * fraction with the random word. */
double rounded(enum pq_round round, double q, uint32_t word, int single);
/* Round stochastically to a number of a narrow float. */
double rounded_to_number(enum pq_type type, double q, uint32_t word, int single);

/* Return the random word of a position: Philox 4x32-10 of Random123. */
uint32_t random_word(uint64_t seed, uint64_t position);

/* Return r + z modulo 2^64 for an integer r. Set *side to -1 if the sum is below all codes
 * of the 64-bit type, to 1 if it is above all codes, else to 0. */
int64_t sum_of_64_bits(double r, int64_t z, enum pq_type type, int *side);

/* A zero point: an integer, or the number that is added to narrow floats. */
struct zero_point {
    int64_t integer;
    double number;
};

/* Quantize or dequantize an element with the types and options of `run`. */
uint64_t quantized(const struct pq_run *run, double x, double scale, struct zero_point zero,
                   uint32_t word);
uint64_t dequantized(const struct pq_run *run, const void *code, double scale,
                     struct zero_point zero);

#endif
