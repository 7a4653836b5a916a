/* SPDX-License-Identifier: Apache-2.0 */
/* Codes that are places in a table of numbers (ops/codebook.c). */
#ifndef PQ_CODEBOOK_H
#define PQ_CODEBOOK_H

#include "pq.h"

enum { PQ_BOOK = 256, PQ_SMALL_BOOK = 16 };

/*
 * How struct pq_codebook is filled. A code has `bits`, what is above them does not count:
 * `value` has the table over and over. Numbers have their place by how many of the bounds
 * are less, the middles of neighbours in ascending order: what is as near to both gets the
 * smaller, NaN the smallest. `code` is that of each place. Bounds, infinite where there is
 * none, are a tree of 4 `levels` for tables of up to PQ_SMALL_BOOK, else of 8: from k one
 * goes to 2 k, or to 2 k + 1 if number k is less, and from 1 comes to 2^levels and the
 * place. Of what is not filled there are no levels.
 */

#endif
