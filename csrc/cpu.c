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

static struct regs cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct regs r;
#  if defined(_MSC_VER)
    int out[4];
    __cpuidex(out, (int)leaf, (int)subleaf);
    r = (struct regs){(uint32_t)out[0], (uint32_t)out[1], (uint32_t)out[2],
                      (uint32_t)out[3]};
#  else
    __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
#  endif
    return r;
}

/* Return XCR0, the mask of registers that the operating system saves on a task switch. Call
 * this only if CPUID reports OSXSAVE; else XGETBV is an illegal instruction. */
static uint64_t saved_registers(void)
{
#  if defined(_MSC_VER)
    return _xgetbv(0);
#  else
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
#  endif
}

static int has_all_bits(uint64_t bits, uint64_t required)
{
    return (bits & required) == required;
}

/* Bits of XCR0. YMM stands for the registers xmm and ymm. ZMM also stands for the mask
 * registers, the upper halves of zmm0 to zmm15, and zmm16 to zmm31. */
enum { YMM = 6, ZMM = YMM | 0xe0 };

static int has_avx512(void)
{
    /* Feature bits of CPUID. The comments name the leaf and the register. */
    const uint32_t f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31; /* 7, EBX */
    const uint32_t vbmi = 1u << 1, gfni = 1u << 8;                            /* 7, ECX */
    const uint32_t bf16 = 1u << 5;                                            /* 7.1, EAX */
    const struct regs leaf_7 = cpuid(7, 0);
    return has_all_bits(saved_registers(), ZMM) &&
           has_all_bits(leaf_7.ebx, f | dq | bw | vl) &&
           has_all_bits(leaf_7.ecx, vbmi | gfni) && leaf_7.eax >= 1 &&
           has_all_bits(cpuid(7, 1).eax, bf16);
}

unsigned pq_cpu_isas(void)
{
    const uint32_t fma = 1u << 12, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    const uint32_t avx2 = 1u << 5;

    if (cpuid(0, 0).eax < 7 || !has_all_bits(cpuid(1, 0).ecx, fma | osxsave | avx | f16c) ||
        !has_all_bits(saved_registers(), YMM) || !has_all_bits(cpuid(7, 0).ebx, avx2)) {
        return PQ_CPU_BASE;
    }
    return has_avx512() ? PQ_CPU_AVX2 | PQ_CPU_AVX512 : PQ_CPU_AVX2;
}

#elif defined(PQ_ARCH_AARCH64)

unsigned pq_cpu_isas(void)
{
    return PQ_CPU_NEON;
}

#else

unsigned pq_cpu_isas(void)
{
    return PQ_CPU_BASE;
}

#endif
