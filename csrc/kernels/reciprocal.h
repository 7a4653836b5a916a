/* SPDX-License-Identifier: Apache-2.0 */
/* Tests whether a product with the reciprocal of a scale can replace a division. */
#ifndef PQ_RECIPROCAL_H
#define PQ_RECIPROCAL_H

#include "math/scalar_math.h"

/* A range of scales: scales that need no division, or scales that give NaN only for NaN
 * codes. The bits of a scale, limited to the bits in `mask`, are from `lo` to `hi`. If
 * `alone` is set, the run must have no zero point, which the bits of -0 represent. If
 * `uneven` is set, the significand must not be all ones. The struct fits registers. A
 * struct in memory would be slow, because reading it would wait for the stores of
 * results. */
struct reciprocal_range {
    uint32_t lo, hi, mask;
    uint16_t alone, uneven;
};

PQ_INLINE int can_use_reciprocal(float s, int32_t z, struct reciprocal_range range)
{
    const uint32_t bits = pq_bits_f32(s) & range.mask;
    return (bits >= range.lo) & (bits <= range.hi) &
           (!range.uneven | ((~bits & 0x7fffff) != 0)) & (!range.alone | (z == INT32_MIN));
}

/* Return the range of scales s for codes of 8 bits. Let r = RN(1/s) and d = RN(RN(1 - r s)
 * r). The values RN(x r + RN(x d)) and x/s must be on one side of each tie k + 1/2 up to
 * 255.5. The two values are monotone in x, so that only the numbers x next to a tie need a
 * check. The condition holds for every significand of s except all ones
 * (tests/c/proofs/reciprocals.c), if d is not subnormal: 2^-76 <= s < 2^76. */
PQ_INLINE struct reciprocal_range reciprocal_range_of_bytes(void)
{
    return (struct reciprocal_range){(127 - 76) << 23, ((127 + 76) << 23) - 1, UINT32_MAX,
                                     0, 1};
}

#endif
