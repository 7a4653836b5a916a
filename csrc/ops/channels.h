/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of many channels, counted in memory order (ops/channels.c). */
#ifndef PQ_CHANNELS_H
#define PQ_CHANNELS_H

#include <stdbool.h>

#include "pq.h"
#include "pq_compiler.h"

/*
 * Counts and extrema of each channel, and a table of counters. Each page that occurs has
 * one row of the table. A row has `lanes` sections, and the sum of the sections is the
 * result. A section has 2^mantissa_bits counters for each channel, channel by channel. The
 * caller must limit the elements so that no counter overflows. The caller sets all members
 * to 0, except extrema, options and memory.
 */
struct pq_channel_counts {
    int ignore_nonfinite; /* nonzero: skip NaN and infinities; 0: PQ_ERR_NONFINITE */
    int mantissa_bits;
    size_t channels, lanes;
    uint64_t *count, *nan, *inf; /* counts per channel: finite values, NaN, infinities */
    double *lowest, *highest;    /* extrema of each channel; at first INFINITY, -INFINITY */
    void *table;                 /* counters, zero at first; NULL: do not count keys */
    bool is_32_bit;              /* counters have 32 bits; else 16 bits */
    size_t stride;               /* distance of successive rows, in counters */
    int rows, room;              /* numbers of rows in use and of allocated rows */
    uint16_t pages[PQ_PAGES];    /* the page of each row in use */
    bool full;                   /* the table needs one more row */
    size_t done;                 /* number of counted tiles, which the next call skips */
    size_t counted;              /* number of counted elements of the next tile */
};

/*
 * Count the real array `in`. The strides of `lowest`, in bytes of an array of uint64,
 * select the channel of each element. If the call sets `full`, add rows and call again to
 * count the remaining elements. After PQ_ERR_NONFINITE the results are undefined.
 */
enum pq_status pq_count_channels(const struct pq_kernels *kernels,
                                 const struct pq_args *args,
                                 struct pq_channel_counts *channels, int part, int parts);

#endif
