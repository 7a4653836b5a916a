/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of weights, as GGUF files have them, of numbers: formats that need no search. */
#ifndef PQ_BLOCKS_ENCODE_H
#define PQ_BLOCKS_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(name, number of ggml, elements of a block, bytes of a block). */
#define PQ_FOR_ENCODED(X)                                                                  \
    X(Q4_0, 2, 32, 18)                                                                     \
    X(Q4_1, 3, 32, 20)                                                                     \
    X(Q5_0, 6, 32, 22)                                                                     \
    X(Q5_1, 7, 32, 24)                                                                     \
    X(Q8_0, 8, 32, 34)                                                                     \
    X(Q8_1, 9, 32, 36)                                                                     \
    X(Q8_K, 15, 256, 292)                                                                  \
    X(TQ1_0, 34, 256, 54)                                                                  \
    X(TQ2_0, 35, 256, 66)                                                                  \
    X(MXFP4, 39, 32, 17)                                                                   \
    X(NVFP4, 40, 64, 36)                                                                   \
    X(Q1_0, 41, 128, 18)                                                                   \
    X(Q2_0, 42, 64, 18)

/*
 * Make `blocks` blocks that follow each other of finite numbers. The bytes are those of
 * ggml's reference code, every operation rounded once. A scale beyond float16 becomes
 * infinite, as there. No alignment; every byte of the blocks is written. False for numbers
 * that are not in the list.
 */
bool pq_encode_blocks(int id, const float *x, uint8_t *y, size_t blocks);

#endif
