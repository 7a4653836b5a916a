/* SPDX-License-Identifier: Apache-2.0 */
/* Encoders of blocks against what ggml 0.25.3 makes of the same numbers, and their memory.
 */
#include <math.h>
#include <string.h>

#include "blocks/encode.h"
#include "check.h"

enum { PIECE = 1024, PIECES = 48, COUNT = PIECE * PIECES };

struct format {
    const char *name;
    int id, elements, bytes;
};

#define ROW(name, id, elements, bytes) {#name, id, elements, bytes},
static const struct format formats[] = {PQ_FOR_ENCODED(ROW)};
#undef ROW
enum { FORMATS = sizeof formats / sizeof *formats };

/* FNV-1a of the blocks of numbers(), in the order of the formats. ggml's reference code was
 * compiled without contraction; where that is undefined, the least scale of MXFP4. */
static const uint64_t digests[FORMATS] = {
    0x96fc298b21759809, /* Q4_0 */
    0xbf63108fdd733368, /* Q4_1 */
    0xb7374a681f39c352, /* Q5_0 */
    0x962f5492d0ae476a, /* Q5_1 */
    0xbadc1b40c1bb64b7, /* Q8_0 */
    0xf74c8dd4dc66a6cf, /* Q8_1 */
    0x1ff870ee52cb5efc, /* Q8_K */
    0x7359b9b4034faeef, /* TQ1_0 */
    0xc389dd87b88823ac, /* TQ2_0 */
    0xc7f5805c47a43ddf, /* MXFP4 */
    0xa8b5365f7519c526, /* NVFP4 */
    0x057daf81f8f5ddca, /* Q1_0 */
    0x32a47e6e63c96cc1, /* Q2_0 */
};

static struct guarded in, out;

/* Numbers that are the same everywhere: of many magnitudes, of few digits, some among
 * zeros, and such as have infinite inverses. */
static void numbers(float *x)
{
    for (uint32_t k = 0; k < COUNT; k++) {
        uint32_t h = (k + 1) * 2654435761u;
        h = (h ^ h >> 15) * 2246822519u;
        h = (h ^ h >> 13) * 3266489917u;
        h ^= h >> 16;
        const double fine = (double)(h & 0xffff) - 32768;
        const double coarse = ((double)(h >> 10 & 63) - 32) / 16;
        const int shift = (int)((h >> 16 & 15) * (h >> 20 & 1));
        switch (k / PIECE % 4) {
        case 0:
            x[k] = (float)ldexp(fine, -15 - shift);
            break;
        case 1:
            x[k] = (float)coarse;
            break;
        case 2:
            x[k] = h >> 29 == 0 && k / 256 % 2 == 0 ? (float)fine : 0;
            break;
        default:
            x[k] = (float)ldexp(fine, -15 - 118 - 3 * (int)(k / PIECE / 4));
        }
    }
}

static uint64_t digest_of(const unsigned char *bytes, size_t n)
{
    uint64_t digest = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) {
        digest = (digest ^ bytes[i]) * 0x100000001b3u;
    }
    return digest;
}

static void check_bytes(const struct format *format, uint64_t expected)
{
    check_begin("%s is ggml's", format->name);
    float *const x = (float *)guarded_end(&in, COUNT * sizeof *x);
    const size_t blocks = (size_t)(COUNT / format->elements);
    const size_t n = blocks * (size_t)format->bytes;
    unsigned char *const y = guarded_end(&out, n);
    numbers(x);
    memset(y, 0xa5, n);
    CHECK(pq_encode_blocks(format->id, x, y, blocks), "unknown");
    const uint64_t found = digest_of(y, n);
    CHECK(found == expected, "0x%016llx", (unsigned long long)found);
    check_end();
}

/* Any number of blocks, bytes at any address, the first or the last ones of their pages. */
static void check_memory(const struct format *format)
{
    check_begin("memory of %s", format->name);
    float *const all = (float *)guarded_end(&in, COUNT * sizeof *all);
    const size_t size = (size_t)format->bytes, elements = (size_t)format->elements;
    numbers(all);
    for (size_t blocks = 0; blocks < 5; blocks++) {
        const size_t n = blocks * size;
        const float *const x = all + COUNT - blocks * elements;
        unsigned char *const y = guarded_end(&out, n), *const other = out.base;
        memset(other, 0x5a, n + 1);
        memset(y, 0xa5, n);
        pq_encode_blocks(format->id, x, y, blocks);
        pq_encode_blocks(format->id, x, other, blocks);
        CHECK(memcmp(y, other, n) == 0, "%zu blocks: bytes left as they were", blocks);
        CHECK(other[n] == 0x5a, "%zu blocks: a byte after them", blocks);
        for (size_t i = 0; i < blocks; i++) {
            pq_encode_blocks(format->id, x + i * elements, other, 1);
            CHECK(memcmp(y + i * size, other, size) == 0, "block %zu alone", i);
        }
    }
    check_end();
}

/* The integer below a logarithm of float32, which is rounded: up to a power of two's. */
static void check_powers(void)
{
    check_begin("scales of MXFP4 below powers of two");
    for (int power = -124; power < 128; power++) {
        for (uint32_t step = 0; step < 60; step++) {
            float x[32] = {0};
            uint8_t y[17];
            x[9] = -f32_of_bits(bits_of_f32(ldexpf(1, power)) - step);
            pq_encode_blocks(39, x, y, 1);
            const int expected = (int)floorf((float)log2(fabs((double)x[9]))) + 125;
            CHECK(y[0] == expected, "2^%d - %u: %d, not %d", power, (unsigned)step, y[0],
                  expected);
        }
    }
    check_end();
}

static void check_refusals(void)
{
    check_begin("formats without an encoder");
    for (int id = -1; id < 1000; id++) {
        int known = 0;
        for (int i = 0; i < FORMATS; i++) {
            known |= formats[i].id == id;
        }
        CHECK(pq_encode_blocks(id, NULL, NULL, 0) == (known != 0), "%d", id);
    }
    check_end();
}

int main(void)
{
    check_start("check_encode");
    in = guarded_make(COUNT * sizeof(float));
    out = guarded_make(COUNT * 2);
    for (int i = 0; i < FORMATS; i++) {
        check_bytes(&formats[i], digests[i]);
        check_memory(&formats[i]);
    }
    check_powers();
    check_refusals();
    guarded_free(&in);
    guarded_free(&out);
    return check_finish();
}
