/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of less than 8 bits between memory and kernels, which know them as whole bytes.
 * An array of them is addressed as if each bit had a byte: the distance of such an address
 * from that of the array is the position of an element in bits.
 */
#ifndef PQ_BITS_H
#define PQ_BITS_H

#include <string.h>

#include "kernels.h"

struct pq_codes {
    int bits;             /* of elements that lie at bits; 0: they have bytes */
    char *base;           /* the byte from which bits are counted */
    ptrdiff_t last;       /* position of the last one where they are dense; else -1 */
    pq_bytes_fn *convert; /* input: extend; output: narrow; null: nothing to do */
    pq_bytes_fn *unpack;  /* of whole bytes of dense elements; null: one at a time */
    pq_bytes_fn *pack;
};

/* One element, in the low bits of a byte. */
static inline char pq_get_bits(const struct pq_codes *codes, ptrdiff_t at)
{
    const unsigned char *const byte = (const unsigned char *)codes->base + (at >> 3);
    const int shift = (int)(at & 7), mask = (1 << codes->bits) - 1;
    int code = *byte >> shift;
    if (shift + codes->bits > 8) {
        code |= byte[1] << (8 - shift);
    }
    return (char)(code & mask);
}

/* Write one element. The last of a dense array fills its byte up with zeros. */
static inline void pq_put_bits(const struct pq_codes *codes, ptrdiff_t at, char code)
{
    unsigned char *const byte = (unsigned char *)codes->base + (at >> 3);
    const int shift = (int)(at & 7), end = shift + codes->bits;
    const int mask = ((1 << codes->bits) - 1) << shift;
    const int bits = (unsigned char)code << shift & mask;
    const int written = at == codes->last ? ~((1 << shift) - 1) : mask;
    byte[0] = (unsigned char)((byte[0] & ~written) | bits);
    if (end > 8) {
        byte[1] = (unsigned char)((byte[1] & ~(written >> 8)) | bits >> 8);
    }
}

/* Whether elements that follow each other so far apart are whole fractions of bytes. */
static inline int pq_is_dense(const struct pq_codes *codes, ptrdiff_t at, ptrdiff_t step)
{
    return codes->unpack != NULL && step == codes->bits && at % codes->bits == 0;
}

/* `n` codes from the address `from`, `step` apart, made bytes. */
static inline void pq_take_codes(const struct pq_codes *codes, char *to, const char *from,
                                 ptrdiff_t step, size_t n)
{
    if (codes->bits == 0) {
        codes->convert(from, to, n);
        return;
    }
    ptrdiff_t at = from - codes->base;
    if (!pq_is_dense(codes, at, step)) {
        for (size_t i = 0; i < n; i++) {
            to[i] = pq_get_bits(codes, at + (ptrdiff_t)i * step);
        }
        if (codes->convert != NULL) {
            codes->convert(to, to, n);
        }
        return;
    }
    const size_t per_byte = (size_t)(8 / codes->bits),
                 into = (size_t)(at & 7) / (size_t)step;
    if (into != 0) { /* the rest of a byte */
        char whole[4];
        const size_t m = per_byte - into < n ? per_byte - into : n;
        codes->unpack(codes->base + (at >> 3), whole, per_byte);
        memcpy(to, whole + into, m);
        to += m;
        at += (ptrdiff_t)m * step;
        n -= m;
    }
    codes->unpack(codes->base + (at >> 3), to, n);
}

/* `n` bytes, to the address `to` and `step` apart. Bits between them are kept. */
static inline void pq_give_codes(const struct pq_codes *codes, char *to, ptrdiff_t step,
                                 const char *from, size_t n)
{
    ptrdiff_t at = to - codes->base;
    const int dense = pq_is_dense(codes, at, step);
    for (; n > 0 && (!dense || (at & 7) != 0); n--, at += step) {
        pq_put_bits(codes, at, *from++);
    }
    if (n == 0) {
        return;
    }
    const size_t per_byte = (size_t)(8 / codes->bits);
    const int last = at + (ptrdiff_t)(n - 1) * step == codes->last;
    const size_t whole = last ? n : n / per_byte * per_byte;
    codes->pack(from, codes->base + (at >> 3), whole);
    for (size_t i = whole; i < n; i++) {
        pq_put_bits(codes, at + (ptrdiff_t)i * step, from[i]);
    }
}

#endif
