/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of histograms: the upper 16 bits of numbers, as pq_histogram() has them. */
#ifndef PQ_KEYS_H
#define PQ_KEYS_H

#include <string.h>

#include "pq.h"
#include "pq_compiler.h"

enum {
    PQ_KEY_SIGN = 32768,               /* the key of -0 */
    PQ_KEY_MOST = 0x7f7f,              /* the highest of float32 */
    PQ_KEY_REBIAS = (1023 - 127) << 7, /* between exponents of float64 and float32 */
};

/* Upper 16 bits of the float32 that a float64 is truncated to, toward zero. */
static inline uint16_t pq_key_of_f64(uint64_t bits)
{
    const uint32_t sign = (uint32_t)(bits >> 63) << 15;
    const int32_t key = (int32_t)(bits << 1 >> 46) - PQ_KEY_REBIAS;
    if (key >= 1 << 7) {
        return (uint16_t)(sign | (uint32_t)(key < PQ_KEY_MOST ? key : PQ_KEY_MOST));
    }
    const int32_t shift = 1 - (key >> 7); /* to what is subnormal; >> rounds down */
    const uint32_t mantissa = (uint32_t)(key & 127) | 128;
    return (uint16_t)(sign | (shift < 8 ? mantissa >> shift : 0));
}

/* The same of `n` elements, without branches where none but 0 becomes subnormal. */
static inline void pq_keys_of_f64(uint16_t *PQ_RESTRICT keys, const char *x, size_t n)
{
    uint32_t small = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i * sizeof bits, sizeof bits);
        const uint32_t high = (uint32_t)(bits >> 32), magnitude = high >> 13 & 0x3ffff;
        int32_t key = (int32_t)magnitude - PQ_KEY_REBIAS;
        small |= (uint32_t)(magnitude - 1 < PQ_KEY_REBIAS + 127);
        key = key < 128 ? 0 : key;
        key = key < PQ_KEY_MOST ? key : PQ_KEY_MOST;
        keys[i] = (uint16_t)((high >> 16 & PQ_KEY_SIGN) | (uint32_t)key);
    }
    for (size_t i = 0; small != 0 && i < n; i++) {
        uint64_t bits;
        memcpy(&bits, x + i * sizeof bits, sizeof bits);
        keys[i] = pq_key_of_f64(bits);
    }
}

static inline uint16_t pq_key_at(enum pq_type type, const char *x)
{
    uint64_t wide;
    uint32_t single;
    uint16_t half;
    switch (type) {
    case PQ_F64:
        memcpy(&wide, x, sizeof wide);
        return pq_key_of_f64(wide);
    case PQ_F32:
        memcpy(&single, x, sizeof single);
        return (uint16_t)(single >> 16);
    default:
        memcpy(&half, x, sizeof half);
        return half;
    }
}

#endif
