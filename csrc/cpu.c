/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#include "pq_compiler.h"

#if defined(PQ_ARCH_X86_64)

#  include <stdint.h>

#  if defined(_MSC_VER)
#    include <intrin.h>
#  else
#    include <cpuid.h>
#  endif

struct regs {
    uint32_t eax, ebx, ecx, edx;
};

static struct regs cpuid(uint32_t leaf)
{
    struct regs r;
#  if defined(_MSC_VER)
    int out[4];
    __cpuidex(out, (int)leaf, 0);
    r = (struct regs){(uint32_t)out[0], (uint32_t)out[1], (uint32_t)out[2],
                      (uint32_t)out[3]};
#  else
    __cpuid_count(leaf, 0, r.eax, r.ebx, r.ecx, r.edx);
#  endif
    return r;
}

/* Register states that the operating system saves on a task switch. Only valid when CPUID
 * reports OSXSAVE: elsewhere XGETBV is an illegal instruction. */
static uint64_t xcr0(void)
{
#  if defined(_MSC_VER)
    return _xgetbv(0);
#  else
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
#  endif
}

unsigned pq_cpu_levels(void)
{
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    const uint32_t avx2 = 1u << 5;
    const uint64_t xmm_ymm = 6;

    if (cpuid(0).eax < 7) {
        return PQ_CPU_BASE;
    }
    const uint32_t wanted = fma | osxsave | avx | f16c;
    if ((cpuid(1).ecx & wanted) != wanted || (xcr0() & xmm_ymm) != xmm_ymm) {
        return PQ_CPU_BASE;
    }
    return cpuid(7).ebx & avx2 ? PQ_CPU_AVX2 : PQ_CPU_BASE;
}

#elif defined(PQ_ARCH_AARCH64)

unsigned pq_cpu_levels(void)
{
    return PQ_CPU_NEON;
}

#else

unsigned pq_cpu_levels(void)
{
    return PQ_CPU_BASE;
}

#endif
