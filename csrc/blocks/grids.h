/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grids of the GGUF types IQ1, IQ2 and IQ3. A block of these types stores indices of grid
 * entries.
 *
 * A grid entry packs the values of 8 elements, 2 bits each, or of 4 elements, 3 bits each.
 * Element 0 is in the lowest bits. The bits select one of these values:
 *
 *     iq1s                 -1, 0, 1
 *     iq2xxs, iq2xs, iq2s  8, 25, 43
 *     iq3xxs               4, 12, 20, 28, 36, 44, 52, 62
 *     iq3s                 1, 3, 5, 7, 9, 11, 13, 15
 *
 * An optimization found the entries; no formula computes them.
 */
#ifndef PQ_BLOCKS_GRIDS_H
#define PQ_BLOCKS_GRIDS_H

#include <stdint.h>

#include "pq.h"

extern const uint16_t pq_grid_iq1s[2048];
extern const uint16_t pq_grid_iq2xxs[256];
extern const uint16_t pq_grid_iq2xs[512];
extern const uint16_t pq_grid_iq2s[1024];
extern const uint16_t pq_grid_iq3xxs[256];
extern const uint16_t pq_grid_iq3s[512];

#endif
