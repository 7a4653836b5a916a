/* SPDX-License-Identifier: Apache-2.0 */
/* Check the encoders of GGUF blocks. Compare the blocks of fixed numbers with digests of
 * ggml 0.25.3. Compare the blocks of random numbers with the scalar encoders. The program
 * fuzz_api.c checks any number of blocks at any address. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "drivers.h"

enum { PIECE = 1024, PIECES = 48, COUNT_ALL = PIECE * PIECES };

/* FNV-1a digests of the blocks that ggml's reference code makes of the numbers of
 * fill_numbers(). The code was compiled without contraction of products and sums. The
 * numbers exclude the smallest scale of MXFP4, because ggml's code is undefined there. */
static const uint64_t digests[PQ_GGUF_FORMATS] = {
    [PQ_BLOCK_Q4_0] = 0x96fc298b21759809,   [PQ_BLOCK_Q4_1] = 0xbf63108fdd733368,
    [PQ_BLOCK_Q5_0] = 0xb7374a681f39c352,   [PQ_BLOCK_Q5_1] = 0x962f5492d0ae476a,
    [PQ_BLOCK_Q8_0] = 0xbadc1b40c1bb64b7,   [PQ_BLOCK_Q8_1] = 0xf74c8dd4dc66a6cf,
    [PQ_BLOCK_Q8_K] = 0x1ff870ee52cb5efc,   [PQ_BLOCK_TQ1_0] = 0x7359b9b4034faeef,
    [PQ_BLOCK_TQ2_0] = 0xc389dd87b88823ac,  [PQ_BLOCK_MXFP4] = 0xc7f5805c47a43ddf,
    [PQ_BLOCK_NVFP4] = 0xa8b5365f7519c526,  [PQ_BLOCK_Q1_0] = 0x057daf81f8f5ddca,
    [PQ_BLOCK_Q2_0] = 0x32a47e6e63c96cc1,   [PQ_BLOCK_Q2_K] = 0xf3a22753ff851b71,
    [PQ_BLOCK_Q3_K] = 0xe4133e8317ec6d97,   [PQ_BLOCK_Q4_K] = 0x7bd31646c8cea175,
    [PQ_BLOCK_Q5_K] = 0xa3d71e24bdb87259,   [PQ_BLOCK_Q6_K] = 0xc9729cce8e25e05d,
    [PQ_BLOCK_IQ4_NL] = 0xcc6dc69a7c16a630, [PQ_BLOCK_IQ4_XS] = 0xf855668b18b6af2b,
};

/* Digests of the blocks that ggml makes with the weights of fill_numbers(). The constant
 * `asked` is the digest of IQ4_NL blocks by a search without weights. */
static const uint64_t weighted[PQ_GGUF_FORMATS] = {
    [PQ_BLOCK_Q4_0] = 0x35a0434cfeada022,   [PQ_BLOCK_Q4_1] = 0x33553221862454df,
    [PQ_BLOCK_Q5_0] = 0x0c91128b5dc986a7,   [PQ_BLOCK_Q5_1] = 0xfc45486127d15f49,
    [PQ_BLOCK_Q2_K] = 0x5f3ee682cc69257f,   [PQ_BLOCK_Q3_K] = 0x673e50d0aa179074,
    [PQ_BLOCK_Q4_K] = 0xf70071ad15339959,   [PQ_BLOCK_Q5_K] = 0xe6817ff3c62f095e,
    [PQ_BLOCK_Q6_K] = 0x5756e583eb959b48,   [PQ_BLOCK_IQ4_NL] = 0xfab93e1fe723e692,
    [PQ_BLOCK_IQ4_XS] = 0xd45a6e31b1eafd76,
};
static const uint64_t asked = 0x02e00a5348c932ce;

static struct guarded in, out;
static float numbers[COUNT_ALL], weights[COUNT_ALL];

/* Return a pseudorandom number for an index. The number is equal on every machine. */
static uint32_t mixed(uint32_t k)
{
    uint32_t h = (k + 1) * 2654435761u;
    h = (h ^ h >> 15) * 2246822519u;
    h = (h ^ h >> 13) * 3266489917u;
    return h ^ h >> 16;
}

/* Fill the arrays of numbers and weights with values that are equal on every machine. The
 * numbers have many magnitudes. Some have few digits, some are alone among zeros, and some
 * have an infinite reciprocal. One weight in eight is 0. */
static void fill_numbers(void)
{
    float *const x = numbers;
    for (uint32_t k = 0; k < COUNT_ALL; k++) {
        const uint32_t h = mixed(k);
        weights[k] = (h >> 3 & 7) != 0 ? (float)((h >> 6 & 1023) + 1) / 256 : 0;
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

/* The two kernels that encode a format: by a formula, or by a search. */
struct encoder {
    pq_encode_fn *formula; /* or null */
    pq_gguf_search_fn *search;
};

/* Encode without weights. */
static void encode_blocks(struct encoder by, int place, const float *x, uint8_t *y,
                          size_t blocks)
{
    const struct pq_gguf_search how = {place, pq_block_format(place)->bytes, 0, false};
    if (by.formula != NULL) {
        by.formula(x, y, blocks);
    } else {
        by.search(&how, x, NULL, y, blocks);
    }
}

/* Compare the blocks of a format with ggml's blocks: encoded without weights, with weights,
 * and by a search without weights. The mean of a row is computed like ggml's: the sum of
 * the numbers in order, divided by the number of elements. */
static void check_bytes(const struct pq_kernels *k, struct encoder by, int place)
{
    const struct pq_block_format *const format = pq_block_format(place);
    const float *const x =
        memcpy(guarded_end(&in, sizeof numbers), numbers, sizeof numbers);
    const size_t blocks = (size_t)(COUNT_ALL / format->elements);
    const size_t n = blocks * (size_t)format->bytes;
    unsigned char *const y = guarded_end(&out, n);
    float sum = 0;
    for (uint32_t i = 0; i < COUNT_ALL; i++) {
        sum += x[i] * x[i];
    }
    check_begin("%s of %s is ggml's%s", format->name, k->name,
                by.formula == NULL ? ", by a search" : "");
    struct pq_gguf_search how = {place, format->bytes, sum / (float)COUNT_ALL, false};
    const uint64_t due[] = {digests[place], weighted[place], asked};
    const int has[] = {by.formula != NULL || format->encodes >= 2,
                       by.formula == NULL && format->weighted,
                       by.formula == NULL && place == PQ_BLOCK_IQ4_NL};
    for (int way = 0; way < 3; way++) {
        memset(y, 0xa5, n);
        how.asked = way == 2;
        if (!has[way]) {
            continue;
        }
        if (way == 0) {
            encode_blocks(by, place, x, y, blocks);
        } else {
            by.search(&how, x, way == 1 ? weights : NULL, y, blocks);
        }
        const uint64_t found = digest_of(y, n);
        CHECK(found == due[way], "way %d: 0x%016llx", way, (unsigned long long)found);
    }
}

/* Check the scales of MXFP4 blocks with maxima just below powers of two. The exponent is
 * the floor of a float32 logarithm, and the logarithm of these numbers rounds up to an
 * integer. */
static void check_powers(const struct pq_kernels *k, pq_encode_fn *mxfp4)
{
    check_begin("scales of MXFP4 below powers of two of %s", k->name);
    for (int power = -124; power < 128; power++) {
        for (uint32_t step = 0; step < 60; step++) {
            float x[32] = {0};
            uint8_t y[17];
            x[9] = -f32_of_bits(bits_of_f32(ldexpf(1, power)) - step);
            mxfp4(x, y, 1);
            const int expected = (int)floorf((float)log2(fabs((double)x[9]))) + 125;
            CHECK(y[0] == expected, "2^%d - %u: %d, not %d", power, (unsigned)step, y[0],
                  expected);
        }
    }
}

/* Compare the encoder of an instruction set with the scalar encoder. The largest magnitude
 * of a case is random. The remaining numbers have smaller magnitudes, or are 0. */
static void check_levels(const struct pq_kernels *k, struct encoder by,
                         struct encoder scalar, int place)
{
    const struct pq_block_format *const format = pq_block_format(place);
    enum { BLOCKS = 5, MOST = BLOCKS * 256 };
    static float x[MOST];
    static uint8_t ours[BLOCKS * 300], theirs[BLOCKS * 300];
    const size_t elements = BLOCKS * (size_t)format->elements;
    check_begin("%s of %s beside scalar", format->name, k->name);
    CASES(round, k != &pq_kernels_scalar ? check_count(400) : 0) {
        const uint32_t top = (uint32_t)random_below(0x7f80);
        const uint32_t few = random_chance(30) ? 0x7fff0000 : 0x7fffffff;
        const uint32_t signs = random_chance(20) ? 0 : 0x80000000;
        const uint32_t near = (uint32_t)random_below(1 + random_below(0x600));
        for (size_t i = 0; i < elements; i++) {
            const uint32_t below = (uint32_t)random_below(near + 1);
            const uint32_t high = (top > below ? top - below : 0) << 16;
            const uint32_t bits = (high | (uint32_t)random_below(1 << 16)) & few;
            const uint32_t sign = random_chance(50) ? signs : 0;
            x[i] = f32_of_bits((random_chance(5) ? 0 : bits) | sign);
        }
        encode_blocks(by, place, x, ours, BLOCKS);
        encode_blocks(scalar, place, x, theirs, BLOCKS);
        const size_t bytes = BLOCKS * (size_t)format->bytes;
        CHECK(memcmp(ours, theirs, bytes) == 0, "of up to %a",
              (double)f32_of_bits(top << 16));
    }
}

static void check_encode(const struct pq_kernels *k, pq_encode_fn *const kernels[])
{
    for (int place = 0; place < PQ_GGUF_FORMATS; place++) {
        const struct encoder by = {kernels[place], NULL};
        if (by.formula != NULL) {
            check_bytes(k, by, place);
            check_levels(k, by, (struct encoder){pq_kernels_scalar.encode[place], NULL},
                         place);
        }
    }
    check_powers(k, kernels[PQ_BLOCK_MXFP4]);
}

static void check_search_blocks(const struct pq_kernels *k, pq_gguf_search_fn *kernel)
{
    const struct encoder by = {NULL, kernel},
                         scalar = {NULL, pq_kernels_scalar.search_blocks};
    for (int place = 0; place < PQ_GGUF_FORMATS; place++) {
        const struct pq_block_format *const format = pq_block_format(place);
        if (format->weighted || format->encodes >= 2) {
            check_bytes(k, by, place);
        }
        if (format->encodes >= 2) {
            check_levels(k, by, scalar, place);
        }
    }
}

static void check_alone(void)
{
    in = guarded_make(sizeof numbers);
    out = guarded_make(COUNT_ALL * 2);
    fill_numbers();
}

#undef ENCODE
#define ENCODE TEST
#include "program.h"
