/* SPDX-License-Identifier: Apache-2.0 */
/* What this CPU and its operating system allow. Knows no kernel. */
#ifndef PQ_CPU_H
#define PQ_CPU_H

enum pq_cpu_level {
    PQ_CPU_BASE = 0,
    PQ_CPU_AVX2 = 1 << 0, /* AVX2, FMA and F16C, with the registers saved by the OS */
    PQ_CPU_NEON = 1 << 1, /* AArch64: part of the base */
    /* AVX-512 F, DQ, BW, VL, VBMI and BF16, and GFNI, with all registers saved */
    PQ_CPU_AVX512 = 1 << 2
};

/* The levels that this machine can run, as a mask. */
unsigned pq_cpu_levels(void);

#endif
