/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copy packed codes of at most 8 bits to bytes, which kernels process, and from bytes.
 * Codes of 24 bits become int32 instead.
 *
 * The engine addresses an array of packed codes as if each bit occupied a byte. The
 * distance of a code's address from `base` is therefore a position in bits. A code of a
 * stream (see struct pq_layout) has the address of the stream, and an index in the stream.
 */
#ifndef PQ_BITS_H
#define PQ_BITS_H

#include <string.h>

#include "engine/plan.h"
#include "kernels/kernels.h"

struct pq_codes {
    int bits;       /* bits of a packed code, or 0 if the array has byte strides */
    size_t size;    /* size of an unpacked code in bytes: 4 for 24 bits, else 1 */
    int most;       /* limit of the codes: larger results become `most`; 0: no limit */
    char *base;     /* address of the byte with bit position 0 */
    ptrdiff_t last; /* bit position of a dense array's last code; -1 for other arrays */
    pq_bytes_fn *convert; /* input: kernel `extend`; output: `narrow`; null: not needed */
    pq_bytes_fn *unpack;  /* for dense codes from bit 0 of a byte; null: copy each code */
    pq_bytes_fn *pack;    /* for dense codes, like `unpack`; null if `unpack` is null */
    pq_unpack_words_fn *unpack_words;
    int flip; /* 4 if each byte has its first 4-bit code in the upper half, else 0 */
    const struct pq_layout *stream; /* the layout, or null if codes are equally spaced */
    int word_shift;                 /* log2 of the number of bits in a word */
};

/* Return the code of `bits` bits that begins at the bit position `at`. */
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

/* Write a code of `bits` bits that begins at the bit position `at`. If `fills` is true,
 * clear the bits above the code in its last byte. */
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

/* Write a code that begins at the bit position `at`. After the last code of a dense array,
 * also clear the unused bits of the byte. */
static inline void pq_write_code(const struct pq_codes *codes, ptrdiff_t at, char code)
{
    pq_write_bits(codes->base, at ^ codes->flip, codes->bits, (unsigned char)code,
                  at == codes->last);
}

/* Turn the bytes that a kernel has written into codes, in place: saturate narrow integers,
 * and limit codes to `most` if it is not 0. Compilers vectorize the loop. */
static inline void pq_saturate_codes(const struct pq_codes *codes, char *made, size_t n)
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

/* Copy `n` codes of streams to bytes, or from bytes. The first code has index `code`. From
 * code to code, the address increases by `step` and the index by `code_step`. */
void pq_unpack_stream(const struct pq_codes *codes, char *to, const char *from,
                      ptrdiff_t step, ptrdiff_t code, ptrdiff_t code_step, size_t n);
void pq_pack_stream(const struct pq_codes *codes, char *to, ptrdiff_t step, ptrdiff_t code,
                    ptrdiff_t code_step, const char *from, size_t n);

/* Copy dense 4-bit codes to bytes, or from bytes. The first code has the bit position `at`,
 * a multiple of 8. Each packed byte has its first code in the upper half. */
void pq_unpack_high_first(const struct pq_codes *codes, char *to, ptrdiff_t at, size_t n);
void pq_pack_high_first(const struct pq_codes *codes, ptrdiff_t at, const char *from,
                        size_t n);

/* Copy `n` codes of 24 bits to int32 numbers, or from int32 numbers, which are saturated.
 * The first code begins at the bit position `at`, and each next code `step` bits later. */
void pq_unpack_24_bits(const struct pq_codes *codes, char *to, ptrdiff_t at, ptrdiff_t step,
                       size_t n);
void pq_pack_24_bits(const struct pq_codes *codes, ptrdiff_t at, ptrdiff_t step,
                     const char *from, size_t n);

/* ---- equally spaced codes ---- */

/* Return true if the codes are adjacent, and one of the codes begins at bit 0 of a byte.
 * The first code begins at the bit position `at`, and each next code `step` bits later. */
static inline bool pq_is_dense(const struct pq_codes *codes, ptrdiff_t at, ptrdiff_t step)
{
    const int lowest = codes->bits & -codes->bits; /* the lowest bit that is set */
    return codes->unpack != NULL && step == codes->bits && at % lowest == 0;
}

/* Unpack `n` codes to bytes. Code i has the address `from` + i * `step`, in bits. */
static inline void pq_unpack_codes(const struct pq_codes *codes, char *to, const char *from,
                                   ptrdiff_t step, size_t n)
{
    if (codes->bits == 0) {
        codes->convert(from, to, n);
        return;
    }
    char *const first = to;
    ptrdiff_t at = from - codes->base;
    if (codes->size != 1) {
        pq_unpack_24_bits(codes, to, at, step, n);
        return;
    }
    const bool dense = pq_is_dense(codes, at, step);
    for (; n > 0 && (!dense || (at & 7) != 0); n--, at += step) {
        *to++ = (char)pq_read_bits(codes->base, at ^ codes->flip, codes->bits);
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

/* Pack `n` bytes to codes. Code i has the address `to` + i * `step`, in bits. The bits
 * between codes do not change. */
static inline void pq_pack_codes(const struct pq_codes *codes, char *to, ptrdiff_t step,
                                 const char *from, size_t n)
{
    ptrdiff_t at = to - codes->base;
    if (codes->size != 1) {
        pq_pack_24_bits(codes, at, step, from, n);
        return;
    }
    const bool dense = pq_is_dense(codes, at, step);
    for (; n > 0 && (!dense || (at & 7) != 0); n--, at += step) {
        pq_write_code(codes, at, *from++);
    }
    if (n == 0) {
        return;
    }
    /* The smallest number of codes that fills complete bytes, for example 2 for codes of 4
     * bits, and 8 for codes of 3 bits. */
    const size_t aligned_codes = (size_t)(8 / (codes->bits & -codes->bits));
    const bool last = at + (ptrdiff_t)(n - 1) * step == codes->last;
    const size_t full = last ? n : n / aligned_codes * aligned_codes;
    if (codes->flip != 0) {
        pq_pack_high_first(codes, at, from, full);
    } else {
        codes->pack(from, codes->base + (at >> 3), full);
    }
    for (size_t i = full; i < n; i++) {
        pq_write_code(codes, at + (ptrdiff_t)i * step, from[i]);
    }
}

#endif
