/* SPDX-License-Identifier: Apache-2.0 */
/* repack: copy codes between bytes, packed bits and words of layouts. */
#include "args.h"
#include "engine/job.h"

/* Define a function that copies codes, and clears the bits above each code. */
#define COPY_CODES(name, mask)                                                             \
    static void name(const void *x, void *y, size_t n)                                     \
    {                                                                                      \
        const unsigned char *const from = x;                                               \
        unsigned char *const to = y;                                                       \
        for (size_t i = 0; i < n; i++) {                                                   \
            to[i] = from[i] & (mask);                                                      \
        }                                                                                  \
    }

COPY_CODES(copy_8_bits, 0xff)
COPY_CODES(copy_6_bits, 0x3f)
COPY_CODES(copy_4_bits, 0x0f)

static void copy_32_bits(const void *x, void *y, size_t n)
{
    memcpy(y, x, n * sizeof(int32_t));
}

enum pq_status pq_repack(const struct pq_kernels *kernels, const struct pq_args *args,
                         int part, int parts)
{
    struct pq_args room;
    PQ_TRY(pq_adapt_args_version(&args, &room));
    struct pq_args plain = *args; /* remove scales, zero points and blocks from the call */
    plain.size = sizeof plain;
    plain.block = NULL;
    plain.scale = plain.zero = (struct pq_array){.data = NULL};
    args = &plain;
    PQ_TRY(pq_check_call(&args, &room, kernels, false, part, parts));
    PQ_TRY(pq_check_options(args, pq_options_of(args), PQ_ACCEPTS_REPACK));
    const enum pq_type type = args->in.type;
    const bool has_layout = args->in_layout != NULL || args->out_layout != NULL;
    const bool is_24_bit = has_layout && type == PQ_I32;
    PQ_REQUIRE(type == args->out.type && pq_is_code(type) &&
                   (pq_bytes_of(type) <= 1 || is_24_bit) &&
                   (has_layout || pq_is_narrow_integer(type) || pq_is_narrow_float(type)),
               PQ_ERR_TYPE);
    /* The kernel copies narrow integers as bytes. The engine unpacks and packs them. */
    const int bits = pq_bits_of(pq_carrier_of(type));
    struct pq_job job;
    job.how = (struct pq_method){.copy = bits == 32  ? copy_32_bits
                                         : bits == 8 ? copy_8_bits
                                         : bits == 6 ? copy_6_bits
                                                     : copy_4_bits};
    PQ_TRY(pq_job_init(&job, kernels, args));
    pq_job_run(&job, part, parts);
    return PQ_OK;
}
