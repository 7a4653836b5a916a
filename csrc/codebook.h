/* SPDX-License-Identifier: Apache-2.0 */
/* Codes that are places in a table of numbers (ops/codebook.c). */
#ifndef PQ_CODEBOOK_H
#define PQ_CODEBOOK_H

#include "pq.h"

enum { PQ_BOOK = 256, PQ_SMALL_BOOK = 16 };

/*
 * A code has `bits`, what is above them does not count. Numbers have their place by how
 * many of the bounds are less, the middles of neighbours in ascending order: what is as
 * near to both gets the smaller, NaN the smallest. Bounds are a tree of 4 levels for tables
 * of up to PQ_SMALL_BOOK, else of 8: from k one goes to 2 k, or to 2 k + 1 if number k is
 * less, and from 1 comes to 2^levels and the place.
 */
struct pq_codebook {
    int bits, levels;
    float value[PQ_BOOK];  /* over and over, as codes have too many bits */
    float bound[PQ_BOOK];  /* infinite where there is none */
    uint8_t code[PQ_BOOK]; /* of places */
};

/* 4, 8, 16, 32, 64, 128 or 256 values, all finite; else PQ_ERR_OPTION. */
enum pq_status pq_codebook_init(struct pq_codebook *book, const float *values, int count);

/*
 * Numbers over their scales, or times these if `inverse`, to codes; and the values of codes
 * times scales, or over these, in float32, to numbers. Quotients are float32, float64 where
 * numbers are that. Codes are PQ_U8, PQ_U4 or PQ_U2, of no more bits than the table has
 * where they are looked up, and of no less where they are made. Of the other options there
 * are none.
 */
enum pq_status pq_codebook_quantize(const struct pq_kernels *kernels,
                                    const struct pq_args *args,
                                    const struct pq_codebook *book, int part, int parts);
enum pq_status pq_codebook_dequantize(const struct pq_kernels *kernels,
                                      const struct pq_args *args,
                                      const struct pq_codebook *book, int part, int parts);

#endif
