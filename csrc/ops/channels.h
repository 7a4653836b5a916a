/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of many channels at once, in the order of memory (ops/channels.c). */
#ifndef PQ_CHANNELS_H
#define PQ_CHANNELS_H

#include <stdbool.h>

#include "pq.h"

/*
 * What is known of each channel, and where it is counted. A page has a row of the table,
 * with 2^mantissa_bits counters for each channel, one channel after the other, and that as
 * many times as there are lanes, whose sum is meant. Counters are modulo 2^16: of each time
 * that one began anew its place is noted, ((page * channels + channel) << mantissa_bits) +
 * counter. To begin with all is 0, but for the extrema, options and memory.
 */
struct pq_channel_counts {
    int ignore_nonfinite; /* else they are PQ_ERR_NONFINITE */
    int mantissa_bits;
    size_t channels, lanes;
    uint64_t *count, *nan, *inf; /* of each channel */
    double *lowest, *highest;    /* INFINITY, -INFINITY before there are any */
    uint16_t *table;             /* zeros; null: extrema and numbers alone */
    size_t stride;               /* of rows, in counters */
    int rows, room;              /* in use, and allocated */
    uint16_t pages[PQ_PAGES];    /* the page of each row in use */
    uint64_t *wraps;             /* places */
    size_t wrapped, wraps_room;
    bool full;   /* there was no room for PQ_CHANNEL_TILE more places, or */
    int wanted;  /* so many rows */
    size_t done; /* tiles, which are not counted again */
};

enum { PQ_CHANNEL_TILE = 2048 };

/*
 * Count real `in`, the channel of an element being that of `lowest`, whose strides, in
 * bytes, are those of an array of uint64. Where `full` is set the call goes on with what is
 * left when it is made again, with more memory.
 * After PQ_ERR_NONFINITE what was found means nothing.
 */
enum pq_status pq_count_channels(const struct pq_kernels *kernels,
                                 const struct pq_args *args,
                                 struct pq_channel_counts *channels, int part, int parts);

#endif
