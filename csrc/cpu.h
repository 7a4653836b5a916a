/* SPDX-License-Identifier: Apache-2.0 */
/* The instruction sets that this CPU and its operating system support. */
#ifndef PQ_CPU_H
#define PQ_CPU_H

#include "pq.h"

/* Bits of the mask that pq_cpu_isas() returns. A bit is set only if the operating system
 * saves the registers of the instruction set. */
enum pq_cpu_isa {
    PQ_CPU_BASE = 0,       /* portable C */
    PQ_CPU_AVX2 = 1 << 0,  /* AVX2, FMA and F16C */
    PQ_CPU_NEON = 1 << 1,  /* every AArch64 CPU has NEON */
    PQ_CPU_AVX512 = 1 << 2 /* AVX-512 F, DQ, BW, VL, VBMI and BF16, and GFNI */
};

/* Return the mask of the instruction sets that this machine supports. */
unsigned pq_cpu_isas(void);

#endif
