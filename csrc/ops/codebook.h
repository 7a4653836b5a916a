/* SPDX-License-Identifier: Apache-2.0 */
/* The private members of struct pq_codebook. ops/codebook.c fills them in. */
#ifndef PQ_CODEBOOK_H
#define PQ_CODEBOOK_H

#include "pq.h"

/* The length of the arrays of struct pq_codebook; the most values of a table with 4
 * levels. */
enum { PQ_BOOK = 256, PQ_SMALL_BOOK = 16 };

/*
 * `value`: the table, repeated up to PQ_BOOK elements. The upper bits of a byte therefore
 * do not matter.
 *
 * `code`: the codes in ascending order of their values. The position of a number in this
 * order is the number of midpoints less than it. A number equal to a midpoint gets the
 * lower position, and NaN gets position 0.
 *
 * `bound`: the midpoints of neighbouring values, as a binary tree. The search starts with
 * k = 1. It goes to 2 k + 1 if bound[k] is less than the number, else to 2 k. After
 * `levels` steps, k is 2^levels + position. Unused bounds are infinite.
 *
 * `levels`: depth of the tree: 4 for tables of at most PQ_SMALL_BOOK values, else 8; 0 if
 * the struct has not been filled in.
 */

#endif
