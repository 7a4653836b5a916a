/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Narrow codes between memory and kernels, which know them as whole bytes. A packed array
 * is addressed as if each of its elements had a byte: the distance of such an address from
 * the beginning of the array is the position of the element.
 */
#ifndef PQ_PACKED_H
#define PQ_PACKED_H

#include <stdbool.h>
#include <string.h>

#include "kernels.h"

struct pq_codes {
    int bits;             /* of a packed element; 0: not packed */
    char *base;           /* packed: the first byte of the array ... */
    size_t count;         /* ... and its number of elements */
    pq_bytes_fn *convert; /* input: extend or unpack; output: narrow; null: nothing to do */
    pq_bytes_fn *pack;
};

/* `n` codes from the address `from`, made bytes. */
static inline void pq_take_codes(const struct pq_codes *codes, char *to, const char *from,
                                 size_t n)
{
    if (codes->bits == 0) {
        codes->convert(from, to, n);
        return;
    }
    const size_t per_byte = (size_t)(8 / codes->bits);
    size_t at = (size_t)(from - codes->base);
    const size_t into = at % per_byte;
    if (into != 0) { /* the rest of a byte */
        char whole[4];
        const size_t m = per_byte - into < n ? per_byte - into : n;
        codes->convert(codes->base + at / per_byte, whole, per_byte);
        memcpy(to, whole + into, m);
        to += m;
        at += m;
        n -= m;
    }
    codes->convert(codes->base + at / per_byte, to, n);
}

/* Write the low bits of one byte. The last element fills its byte up with zeros. */
static inline void pq_put_code(const struct pq_codes *codes, size_t at, char code)
{
    const size_t per_byte = (size_t)(8 / codes->bits);
    const int shift = (int)(at % per_byte) * codes->bits, mask = (1 << codes->bits) - 1;
    unsigned char *const byte = (unsigned char *)codes->base + at / per_byte;
    const int kept = at + 1 == codes->count ? (1 << shift) - 1 : ~(mask << shift);
    *byte = (unsigned char)((*byte & kept) | (code & mask) << shift);
}

/* `n` bytes, packed to the address `to`. Codes that share a byte with these are kept. */
static inline void pq_give_codes(const struct pq_codes *codes, char *to, const char *from,
                                 size_t n)
{
    const size_t per_byte = (size_t)(8 / codes->bits);
    size_t at = (size_t)(to - codes->base);
    for (; n > 0 && at % per_byte != 0; n--) {
        pq_put_code(codes, at++, *from++);
    }
    const bool last = at + n == codes->count;
    const size_t whole = last ? n : n / per_byte * per_byte;
    codes->pack(from, codes->base + at / per_byte, whole);
    for (size_t i = whole; i < n; i++) {
        pq_put_code(codes, at + i, from[i]);
    }
}

#endif
