/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of many channels, counted in memory order (ops/channels.c). */
#ifndef PQ_CHANNELS_H
#define PQ_CHANNELS_H

#include <stdbool.h>

#include "pq.h"
#include "pq_compiler.h"

/* Counts and extrema of each channel, and a table of counters. Each page of keys (see pq.h)
 * that occurs has one row of the table. A row has `lanes` sections, and the sum of the
 * sections is the result. A section has 2^mantissa_bits counters for each channel, channel
 * by channel. The caller must limit the number of elements, so that no counter overflows.
 * The caller sets all members to 0, except extrema, options and memory. */
struct pq_channel_counts {
    int ignore_nonfinite; /* nonzero: skip NaN and infinities; 0: return PQ_ERR_NONFINITE */
    int mantissa_bits;
    size_t channels, lanes;
    uint64_t *count, *nan, *inf; /* numbers of finite values, NaN and infinities */
    double *lowest, *highest;    /* per channel; initially INFINITY and -INFINITY */
    void *table;                 /* counters, initially 0; NULL: do not count keys */
    bool is_32_bit;              /* counters have 32 bits; else 16 bits */
    size_t stride;               /* number of counters of a row */
    int rows, room;              /* number of rows in use, and number of allocated rows */
    uint16_t pages[PQ_PAGES];    /* the page of each row in use */
    bool full;                   /* the table needs one more row */
    size_t done;                 /* number of counted tiles, which the next call skips */
    size_t counted;              /* number of counted elements of the next tile */
};

/* Count the real array `in`. The strides of args->lowest select the channel of each
 * element: a step of 8 bytes is one channel. If the call sets `full`, add rows and call
 * again to count the remaining elements. After PQ_ERR_NONFINITE the results are
 * undefined. */
enum pq_status pq_count_channels(const struct pq_kernels *kernels,
                                 const struct pq_args *args,
                                 struct pq_channel_counts *channels, int part, int parts);

#endif
