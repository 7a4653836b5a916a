/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grids of GGUF's IQ1, IQ2 and IQ3 types: what the indices that they store stand for.
 *
 * An entry holds the levels of 8 elements as indices of 2 bits, or of 4 elements as indices
 * of 3 bits, element 0 in the lowest bits. The levels are
 *
 *     iq1s                 -1, 0, 1
 *     iq2xxs, iq2xs, iq2s  8, 25, 43
 *     iq3xxs               4, 12, 20, 28, 36, 44, 52, 62
 *     iq3s                 1, 3, 5, 7, 9, 11, 13, 15
 *
 * They were found by an optimization, and cannot be computed.
 */
#ifndef PQ_BLOCKS_GRIDS_H
#define PQ_BLOCKS_GRIDS_H

#include <stdint.h>

extern const uint16_t pq_grid_iq1s[2048];
extern const uint16_t pq_grid_iq2xxs[256];
extern const uint16_t pq_grid_iq2xs[512];
extern const uint16_t pq_grid_iq2s[1024];
extern const uint16_t pq_grid_iq3xxs[256];
extern const uint16_t pq_grid_iq3s[512];

#endif
