/* SPDX-License-Identifier: Apache-2.0 */
/* The GGUF block formats, one row for each. */
#ifndef PQ_BLOCKS_FORMATS_H
#define PQ_BLOCKS_FORMATS_H

#include "pq.h"

/* X(name, id, elements, bytes, encodes, weighted): the members of struct pq_block_format.
 *
 * `encodes` selects the encoder of the format. 0 means no encoder, 1 means
 * encode_block_<name>() of encoders.inc, and 2 means the search of search_blocks.inc. 3
 * means a formula, or the search if the caller requests the search. `weighted` is 1 if the
 * encoder accepts weights of elements. `elements` is a multiple of 32 and divides
 * GGUF_TILE_ELEMENTS of ops/blocks.c. */
#define PQ_FOR_BLOCK_FORMAT(X)                                                             \
    X(Q4_0, 2, 32, 18, 1, 1)                                                               \
    X(Q4_1, 3, 32, 20, 1, 1)                                                               \
    X(Q5_0, 6, 32, 22, 1, 1)                                                               \
    X(Q5_1, 7, 32, 24, 1, 1)                                                               \
    X(Q8_0, 8, 32, 34, 1, 0)                                                               \
    X(Q8_1, 9, 32, 36, 1, 0)                                                               \
    X(Q2_K, 10, 256, 84, 2, 1)                                                             \
    X(Q3_K, 11, 256, 110, 2, 1)                                                            \
    X(Q4_K, 12, 256, 144, 2, 1)                                                            \
    X(Q5_K, 13, 256, 176, 2, 1)                                                            \
    X(Q6_K, 14, 256, 210, 2, 1)                                                            \
    X(Q8_K, 15, 256, 292, 1, 0)                                                            \
    X(IQ2_XXS, 16, 256, 66, 0, 0)                                                          \
    X(IQ2_XS, 17, 256, 74, 0, 0)                                                           \
    X(IQ3_XXS, 18, 256, 98, 0, 0)                                                          \
    X(IQ1_S, 19, 256, 50, 0, 0)                                                            \
    X(IQ4_NL, 20, 32, 18, 3, 1)                                                            \
    X(IQ3_S, 21, 256, 110, 0, 0)                                                           \
    X(IQ2_S, 22, 256, 82, 0, 0)                                                            \
    X(IQ4_XS, 23, 256, 136, 2, 1)                                                          \
    X(IQ1_M, 29, 256, 56, 0, 0)                                                            \
    X(TQ1_0, 34, 256, 54, 1, 0)                                                            \
    X(TQ2_0, 35, 256, 66, 1, 0)                                                            \
    X(MXFP4, 39, 32, 17, 1, 0)                                                             \
    X(NVFP4, 40, 64, 36, 1, 0)                                                             \
    X(Q1_0, 41, 128, 18, 1, 0)                                                             \
    X(Q2_0, 42, 64, 18, 1, 0)

/* The index of each format in tables of formats, and the number of formats. */
#define PQ_BLOCK_INDEX(name, ...) PQ_BLOCK_##name,
enum { PQ_FOR_BLOCK_FORMAT(PQ_BLOCK_INDEX) PQ_GGUF_FORMATS };
#undef PQ_BLOCK_INDEX

/* Return PQ_ERR_NONFINITE if an element of `in` is NaN or infinite after rounding to
 * float32. The function only checks, and writes no blocks. The arguments are the arguments
 * of pq_block_encode(). */
enum pq_status pq_block_finite(const struct pq_kernels *kernels,
                               const struct pq_blocks *args, int part, int parts);

#endif
