/* SPDX-License-Identifier: Apache-2.0 */
#include "types.h"

#define ROW(type, text, kind_, bits_, carrier_, lo, hi)                                    \
    [PQ_##type] = {                                                                        \
        .name = text,                                                                      \
        .kind = PQ_KIND_##kind_,                                                           \
        .bits = bits_,                                                                     \
        .bytes = (bits_ + 7) / 8,                                                          \
        .carrier = PQ_##carrier_,                                                          \
        .lowest = lo,                                                                      \
        .highest = hi,                                                                     \
    },

static const struct pq_type_info rows[PQ_TYPE_COUNT] = {PQ_FOR_TYPE(ROW)};

const struct pq_type_info *pq_type_info(enum pq_type type)
{
    const bool known = type != PQ_NO_TYPE && (unsigned)type < PQ_TYPE_COUNT;
    return known ? &rows[type] : NULL;
}

size_t pq_type_size(enum pq_type type)
{
    return pq_bytes_of(type);
}

int pq_type_bits(enum pq_type type)
{
    return pq_bits_of(type);
}
