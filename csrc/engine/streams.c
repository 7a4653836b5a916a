/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Read and write codes in words (struct pq_layout). place_of() computes the position of one
 * code. Two cases have faster loops. In the first case, the codes have equal indices in
 * successive streams. In the second case, the codes are complete groups of one stream with
 * adjacent words: dense codes in another order.
 */
#include "engine/bits.h"

/* The number of codes that fit in a buffer on the stack. */
enum { BUFFER_CODES = PQ_SIZE(1024, 128) };

/* The position of a code. Its first `low_bits` bits begin at bit `shift` of a word, and the
 * next word has its other bits. `word` and `high` are the bit positions of both words. */
struct place {
    ptrdiff_t word, high;
    int shift, low_bits;
};

/* Return the position of code `i` of the stream that begins at bit position `at`. */
static inline struct place place_of(const struct pq_codes *codes, ptrdiff_t at, ptrdiff_t i)
{
    const struct pq_layout *const stream = codes->stream;
    if (stream->order != NULL) {
        /* A mask replaces the division by a power of two, because a division takes longer
         * than the other steps. */
        const ptrdiff_t group = stream->group;
        const ptrdiff_t into = (group & (group - 1)) == 0 ? i & (group - 1) : i % group;
        i += stream->order[into] - into;
    }
    const ptrdiff_t bit = i * codes->bits, into = bit & (stream->word_bits - 1);
    const ptrdiff_t left = stream->word_bits - into;
    at += (bit >> codes->word_shift) * stream->word_stride;
    return (struct place){at, at + stream->word_stride, (int)into,
                          left < codes->bits ? (int)left : codes->bits};
}

/* ---- one code at a time ---- */

PQ_INLINE void copy_each_code(const struct pq_codes *codes, char *bytes, ptrdiff_t at,
                              ptrdiff_t step, ptrdiff_t code, ptrdiff_t code_step, size_t n,
                              bool packs)
{
    for (size_t c = 0; c < n; c++, at += step, code += code_step) {
        const struct place place = place_of(codes, at, code);
        const ptrdiff_t low = place.word + place.shift;
        const int low_bits = place.low_bits, high_bits = codes->bits - low_bits;
        if (packs) {
            const int byte = (unsigned char)bytes[c];
            pq_write_bits(codes->base, low, low_bits, byte, 0);
            if (high_bits > 0) {
                pq_write_bits(codes->base, place.high, high_bits, byte >> low_bits, 0);
            }
        } else {
            int byte = pq_read_bits(codes->base, low, low_bits);
            if (high_bits > 0) {
                byte |= pq_read_bits(codes->base, place.high, high_bits) << low_bits;
            }
            bytes[c] = (char)byte;
        }
    }
}

/* ---- across streams ---- */

/* Codes at one bit position of equally spaced words. The members are the address of the
 * first word, the distance of two words in bytes, the bit position, and the width of a
 * code. */
struct column {
    char *word;
    ptrdiff_t stride;
    int shift, bits;
};

/* Return true if words with a distance of `stride` bytes are adjacent, and have 32 bits
 * in little-endian order. */
static int has_adjacent_words(const struct pq_codes *codes, ptrdiff_t stride)
{
    return PQ_LITTLE_ENDIAN && codes->stream->word_bits == 32 && stride == 4;
}

/* Describe the codes as a column. Return false if that is impossible: their indices in the
 * streams differ, or a code occupies two words. */
static int find_column(const struct pq_codes *codes, ptrdiff_t at, ptrdiff_t step,
                       ptrdiff_t code, ptrdiff_t code_step, struct column *column)
{
    if (code_step != 0 || step % 8 != 0) {
        return 0;
    }
    const struct place place = place_of(codes, at, code);
    *column =
        (struct column){codes->base + place.word / 8, step / 8, place.shift, codes->bits};
    return place.low_bits == codes->bits;
}

/* Copy `bits` bits of byte i to word i, for each i. Bit `skip` of the byte becomes bit
 * `shift` of the word. Keep the other bits of the words. Words are adjacent and
 * little-endian and have 32 bits. Compilers vectorize the loop. */
static void pack_words(char *PQ_RESTRICT word, const char *PQ_RESTRICT from, int skip,
                       int shift, int bits, size_t n)
{
    const uint32_t mask = (1U << bits) - 1;
    for (size_t c = 0; c < n; c++) {
        uint32_t all;
        memcpy(&all, word + c * sizeof all, sizeof all);
        all = (all & ~(mask << shift)) | ((uint32_t)(unsigned char)from[c] >> skip & mask)
                                             << shift;
        memcpy(word + c * sizeof all, &all, sizeof all);
    }
}

static void unpack_column(const struct pq_codes *codes, char *to, struct column from,
                          size_t n)
{
    const int mask = (1 << from.bits) - 1, shift = from.shift % 8;
    const unsigned char *byte = (unsigned char *)from.word + from.shift / 8;
    const ptrdiff_t next = shift + from.bits > 8; /* 1: a code ends in the next byte */
    if (has_adjacent_words(codes, from.stride)) {
        codes->unpack_words(from.word, from.shift, mask, to, n);
        return;
    }
    for (size_t c = 0; c < n; c++, byte += from.stride) {
        to[c] = (char)((byte[0] | byte[next] << 8) >> shift & mask);
    }
}

static void pack_column(const struct pq_codes *codes, const char *from, struct column to,
                        size_t n)
{
    if (has_adjacent_words(codes, to.stride)) {
        pack_words(to.word, from, 0, to.shift, to.bits, n);
        return;
    }
    for (size_t c = 0; c < n; c++, to.word += to.stride) {
        pq_write_bits(to.word, to.shift, to.bits, (unsigned char)from[c], 0);
    }
}

/* Return true if the codes have equal indices in their streams, and adjacent words. The
 * caller has called find_column() without success, so each code occupies two words. */
static int is_split_column(const struct pq_codes *codes, ptrdiff_t step,
                           ptrdiff_t code_step)
{
    return code_step == 0 && step % 8 == 0 && has_adjacent_words(codes, step / 8);
}

static void unpack_split(const struct pq_codes *codes, char *to, struct place place,
                         size_t n)
{
    char high[BUFFER_CODES];
    const int low_bits = place.low_bits, high_bits = codes->bits - low_bits;
    const char *word = codes->base + place.word / 8, *next = codes->base + place.high / 8;
    for (size_t m; n > 0; n -= m, to += m, word += m * 4, next += m * 4) {
        m = n < BUFFER_CODES ? n : BUFFER_CODES;
        codes->unpack_words(word, place.shift, (1 << low_bits) - 1, to, m);
        codes->unpack_words(next, 0, (1 << high_bits) - 1, high, m);
        for (size_t c = 0; c < m; c++) {
            to[c] = (char)(to[c] | high[c] << low_bits);
        }
    }
}

static void pack_split(const struct pq_codes *codes, const char *from, struct place place,
                       size_t n)
{
    const int low_bits = place.low_bits, high_bits = codes->bits - low_bits;
    pack_words(codes->base + place.word / 8, from, 0, place.shift, low_bits, n);
    pack_words(codes->base + place.high / 8, from, low_bits, 0, high_bits, n);
}

/* ---- complete groups along a stream ---- */

/* Return the number of codes, at most BUFFER_CODES, in the complete groups from code `code`
 * on. Return 0 if `code` begins no group, or if copy_in_groups() does not support it. */
static size_t count_in_groups(const struct pq_codes *codes, ptrdiff_t at, ptrdiff_t step,
                              ptrdiff_t code, ptrdiff_t code_step, size_t n)
{
    const struct pq_layout *const stream = codes->stream;
    const int along = code_step == 1 && step == 0 && stream->order != NULL;
    const int dense = stream->word_stride == stream->word_bits && codes->unpack != NULL &&
                      stream->group * codes->bits % 8 == 0 && at % 8 == 0;
    if (!along || !dense || code % stream->group != 0) {
        return 0;
    }
    const size_t most = n < BUFFER_CODES ? n : BUFFER_CODES;
    return most - most % (size_t)stream->group;
}

/* Number of codes in a 32-bit word in halves: the lower half has the codes with even
 * indices, and the upper half has the codes with odd indices. */
enum { HALVED = 8 };

/* Swap the bits of `mask` with the bits `by` positions above. */
static uint32_t swap_bits(uint32_t word, int by, uint32_t mask)
{
    const uint32_t differ = (word ^ word >> by) & mask;
    return word ^ differ ^ differ << by;
}

/* Change the order of the codes from halves of words to the order of the stream, or back.
 * Each swap is its own inverse. Compilers vectorize the loop. */
PQ_INLINE void reorder_halved_codes(char *PQ_RESTRICT to, const char *PQ_RESTRICT from,
                                    size_t n, bool packs)
{
    for (size_t i = 0; i < n; i += HALVED / 2) {
        uint32_t word;
        memcpy(&word, from + i, sizeof word);
        word = packs ? swap_bits(word, 4, 0x00f000f0) : swap_bits(word, 8, 0xff00);
        word = packs ? swap_bits(word, 8, 0xff00) : swap_bits(word, 4, 0x00f000f0);
        memcpy(to + i, &word, sizeof word);
    }
}

/* Return true if each group is a 32-bit word that reorder_halved_codes() can reorder. */
static int has_halved_order(const struct pq_codes *codes)
{
    static const unsigned char order[HALVED] = {0, 4, 1, 5, 2, 6, 3, 7};
    const struct pq_layout *const stream = codes->stream;
    return PQ_LITTLE_ENDIAN && codes->bits == 4 && stream->word_bits == 32 &&
           stream->group == HALVED && memcmp(stream->order, order, HALVED) == 0;
}

PQ_INLINE void copy_in_groups(const struct pq_codes *codes, char *bytes, ptrdiff_t bit,
                              size_t n, bool packs)
{
    const size_t group = (size_t)codes->stream->group;
    const unsigned char *const order = codes->stream->order;
    char *const base = codes->base + bit / 8, dense[BUFFER_CODES];
    const bool halved = has_halved_order(codes);
    if (halved && !packs) {
        reorder_halved_codes(dense, base, n / 2, false);
    }
    if (!packs) {
        codes->unpack(halved ? dense : base, halved ? bytes : dense, n);
    }
    for (size_t g = 0; g < n && !halved; g += group) {
        for (size_t i = 0; i < group; i++) {
            char *const byte = bytes + g + i, *const code = dense + g + order[i];
            *(packs ? code : byte) = *(packs ? byte : code);
        }
    }
    if (packs) {
        codes->pack(halved ? bytes : dense, halved ? dense : base, n);
    }
    if (halved && packs) {
        reorder_halved_codes(base, dense, n / 2, true);
    }
}

/* ---- 4-bit codes, the first code of a byte in its upper half ---- */

/* Swap the bytes of each pair. `n` is even. */
static void swap_pairs(char *PQ_RESTRICT to, const char *PQ_RESTRICT from, size_t n)
{
    for (size_t i = 0; i < n; i += 2) {
        uint16_t pair;
        memcpy(&pair, from + i, sizeof pair);
        pair = (uint16_t)(pair << 8 | pair >> 8);
        memcpy(to + i, &pair, sizeof pair);
    }
}

void pq_unpack_high_first(const struct pq_codes *codes, char *to, ptrdiff_t at, size_t n)
{
    char pairs[BUFFER_CODES];
    for (size_t m; n > 0; n -= m, to += m, at += (ptrdiff_t)m * 4) {
        m = n < BUFFER_CODES ? n : BUFFER_CODES;
        const size_t full = m - m % 2;
        codes->unpack(codes->base + at / 8, pairs, full);
        swap_pairs(to, pairs, full);
        if (m != full) { /* the last code begins a byte: unpack both codes, use one */
            codes->unpack(codes->base + at / 8 + full / 2, pairs, 2);
            to[full] = pairs[1];
        }
    }
}

void pq_pack_high_first(const struct pq_codes *codes, ptrdiff_t at, const char *from,
                        size_t n)
{
    char pairs[BUFFER_CODES];
    for (size_t m; n > 0; n -= m, from += m, at += (ptrdiff_t)m * 4) {
        m = n < BUFFER_CODES ? n : BUFFER_CODES;
        swap_pairs(pairs, from, m);
        codes->pack(pairs, codes->base + at / 8, m);
    }
}

/* ---- 24-bit codes ---- */

void pq_unpack_24_bits(const struct pq_codes *codes, char *to, ptrdiff_t at, ptrdiff_t step,
                       size_t n)
{
    const char *from = codes->base + at / 8;
    if (step == codes->bits) {
        codes->unpack(from, to, n);
        return;
    }
    for (; n > 0; n--, from += step / 8, to += sizeof(int32_t)) {
        const int32_t code = pq_load_i24(from);
        memcpy(to, &code, sizeof code);
    }
}

void pq_pack_24_bits(const struct pq_codes *codes, ptrdiff_t at, ptrdiff_t step,
                     const char *from, size_t n)
{
    char *to = codes->base + at / 8;
    if (step == codes->bits) {
        codes->pack(from, to, n);
        return;
    }
    for (; n > 0; n--, to += step / 8, from += sizeof(int32_t)) {
        pq_store_i24(to, from);
    }
}

/* ---- all codes of streams ---- */

/* Return the number of codes up to the end of the group, or up to the end of the `n`
 * codes. */
static size_t count_until_group_end(const struct pq_codes *codes, ptrdiff_t code,
                                    ptrdiff_t code_step, size_t n)
{
    const ptrdiff_t group = codes->stream->group;
    if (codes->stream->order == NULL || code_step != 1) {
        return n;
    }
    const size_t left = (size_t)(group - code % group);
    return left < n ? left : n;
}

/* Copy `n` codes of a stream to bytes, or from bytes. */
PQ_INLINE void copy_stream(const struct pq_codes *codes, char *bytes, ptrdiff_t at,
                           ptrdiff_t step, ptrdiff_t code, ptrdiff_t code_step, size_t n,
                           bool packs)
{
    struct column column;
    if (find_column(codes, at, step, code, code_step, &column)) {
        packs ? pack_column(codes, bytes, column, n)
              : unpack_column(codes, bytes, column, n);
        return;
    }
    if (is_split_column(codes, step, code_step)) {
        const struct place place = place_of(codes, at, code);
        packs ? pack_split(codes, bytes, place, n) : unpack_split(codes, bytes, place, n);
        return;
    }
    for (size_t m; n > 0; n -= m, bytes += m, code += (ptrdiff_t)m * code_step) {
        m = count_in_groups(codes, at, step, code, code_step, n);
        if (m > 0) {
            const ptrdiff_t bit = at + code * codes->bits;
            copy_in_groups(codes, bytes, bit, m, packs);
            continue;
        }
        m = count_until_group_end(codes, code, code_step, n);
        copy_each_code(codes, bytes, at, step, code, code_step, m, packs);
        at += (ptrdiff_t)m * step;
    }
}

void pq_unpack_stream(const struct pq_codes *codes, char *to, const char *from,
                      ptrdiff_t step, ptrdiff_t code, ptrdiff_t code_step, size_t n)
{
    copy_stream(codes, to, from - codes->base, step, code, code_step, n, false);
    if (codes->convert != NULL) {
        codes->convert(to, to, n);
    }
}

void pq_pack_stream(const struct pq_codes *codes, char *to, ptrdiff_t step, ptrdiff_t code,
                    ptrdiff_t code_step, const char *from, size_t n)
{
    copy_stream(codes, (char *)(uintptr_t)from, to - codes->base, step, code, code_step, n,
                true);
}
