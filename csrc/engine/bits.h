/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Elements of at most 8 bits between memory and kernels, which know them as whole bytes.
 * An array of them is addressed as if each bit had a byte: the distance of such an address
 * from that of the array is the position of an element in bits. Codes of a stream have the
 * address of their stream and a number in it, from which their place is computed.
 */
#ifndef PQ_BITS_H
#define PQ_BITS_H

#include <string.h>

#include "engine/plan.h"
#include "kernels/kernels.h"

struct pq_codes {
    int bits;             /* of elements that lie at bits; 0: they have bytes */
    int most;             /* code that larger ones become; 0: they are cut off */
    char *base;           /* the byte from which bits are counted */
    ptrdiff_t last;       /* position of the last one where they are dense; else -1 */
    pq_bytes_fn *convert; /* input: extend; output: narrow; null: nothing to do */
    pq_bytes_fn *unpack;  /* of whole bytes of dense elements; null: one at a time */
    pq_bytes_fn *pack;
    pq_unpack_words_fn *unpack_words;
    int flip; /* 4: halves of bytes are the other way around; else 0 */
    const struct pq_layout *stream; /* null: elements lie at plain distances */
    int word_shift;                 /* so many bits are a word of it, as a power of 2 */
};

/* The `bits` bits at a position, at most 8, as the low ones of a number. */
static inline int pq_read_bits(const char *base, ptrdiff_t at, int bits)
{
    const unsigned char *const byte = (const unsigned char *)base + (at >> 3);
    const int shift = (int)(at & 7), mask = (1 << bits) - 1;
    int code = *byte >> shift;
    if (shift + bits > 8) {
        code |= byte[1] << (8 - shift);
    }
    return code & mask;
}

/* Write them; `fills`: and zeros up to the end of the byte. */
static inline void pq_write_bits(char *base, ptrdiff_t at, int bits, int code, int fills)
{
    unsigned char *const byte = (unsigned char *)base + (at >> 3);
    const int shift = (int)(at & 7), end = shift + bits;
    const int mask = ((1 << bits) - 1) << shift;
    const int placed = code << shift & mask;
    const int written = fills ? ~((1 << shift) - 1) : mask;
    byte[0] = (unsigned char)((byte[0] & ~written) | placed);
    if (end > 8) {
        byte[1] = (unsigned char)((byte[1] & ~(written >> 8)) | placed >> 8);
    }
}

/* One element, in the low bits of a byte. */
static inline char pq_get_bits(const struct pq_codes *codes, ptrdiff_t at)
{
    return (char)pq_read_bits(codes->base, at ^ codes->flip, codes->bits);
}

/* Write one element. The last of a dense array fills its byte up with zeros. */
static inline void pq_put_bits(const struct pq_codes *codes, ptrdiff_t at, char code)
{
    pq_write_bits(codes->base, at ^ codes->flip, codes->bits, (unsigned char)code,
                  at == codes->last);
}

/* Convert the results of a kernel to codes, in place. Saturate codes of fewer bits than
 * their type: in a loop of its own, which compilers vectorize. */
static inline void pq_make_codes(const struct pq_codes *codes, char *made, size_t n)
{
    if (codes->convert != NULL) {
        codes->convert(made, made, n);
    }
    const unsigned char most = (unsigned char)codes->most;
    if (most == 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const unsigned char code = (unsigned char)made[i];
        made[i] = (char)(code < most ? code : most);
    }
}

/* `n` codes of a stream, each `step` and `code_step` on from the last in its address and
 * its number, made bytes; and from bytes. */
void pq_unpack_stream(const struct pq_codes *codes, char *to, const char *from,
                      ptrdiff_t step, ptrdiff_t code, ptrdiff_t code_step, size_t n);
void pq_pack_stream(const struct pq_codes *codes, char *to, ptrdiff_t step, ptrdiff_t code,
                    ptrdiff_t code_step, const char *from, size_t n);

/* The same of dense codes from a whole byte on, of which the first of two is in the upper
 * half. */
void pq_unpack_high_first(const struct pq_codes *codes, char *to, ptrdiff_t at, size_t n);
void pq_pack_high_first(const struct pq_codes *codes, ptrdiff_t at, const char *from,
                        size_t n);

/* ---- equally spaced codes ---- */

/* Return true if codes that are `step` bits apart are adjacent, and some code begins at a
 * byte. */
static inline bool pq_is_dense(const struct pq_codes *codes, ptrdiff_t at, ptrdiff_t step)
{
    const int lowest = codes->bits & -codes->bits; /* the lowest bit that is set */
    return codes->unpack != NULL && step == codes->bits && at % lowest == 0;
}

/* Unpack `n` codes from the address `from`, `step` bits apart, to bytes. */
static inline void pq_unpack_codes(const struct pq_codes *codes, char *to, const char *from,
                                   ptrdiff_t step, size_t n)
{
    if (codes->bits == 0) {
        codes->convert(from, to, n);
        return;
    }
    char *const first = to;
    ptrdiff_t at = from - codes->base;
    const bool dense = pq_is_dense(codes, at, step);
    for (; n > 0 && (!dense || (at & 7) != 0); n--, at += step) {
        *to++ = pq_get_bits(codes, at);
    }
    if (codes->convert != NULL && to != first) {
        codes->convert(first, first, (size_t)(to - first));
    }
    if (codes->flip != 0) {
        pq_unpack_high_first(codes, to, at, n);
    } else if (n > 0) {
        codes->unpack(codes->base + (at >> 3), to, n);
    }
}

/* Pack `n` bytes to the address `to`, `step` bits apart. Keep the bits between codes. */
static inline void pq_pack_codes(const struct pq_codes *codes, char *to, ptrdiff_t step,
                                 const char *from, size_t n)
{
    ptrdiff_t at = to - codes->base;
    const bool dense = pq_is_dense(codes, at, step);
    for (; n > 0 && (!dense || (at & 7) != 0); n--, at += step) {
        pq_put_bits(codes, at, *from++);
    }
    if (n == 0) {
        return;
    }
    /* As few codes as fill complete bytes: 2 of 4 bits, 8 of 3 bits. */
    const size_t together = (size_t)(8 / (codes->bits & -codes->bits));
    const bool last = at + (ptrdiff_t)(n - 1) * step == codes->last;
    const size_t full = last ? n : n / together * together;
    if (codes->flip != 0) {
        pq_pack_high_first(codes, at, from, full);
    } else {
        codes->pack(from, codes->base + (at >> 3), full);
    }
    for (size_t i = full; i < n; i++) {
        pq_put_bits(codes, at + (ptrdiff_t)i * step, from[i]);
    }
}

#endif
