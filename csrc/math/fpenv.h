/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The floating-point control state: rounding mode, flush-to-zero, denormals-are-zero.
 * Some libraries change this state and do not restore it, and results must not depend on
 * it. Therefore each entry point sets the IEEE defaults. On return it restores the state
 * of the caller, including the exception flags.
 */
#ifndef PQ_FPENV_H
#define PQ_FPENV_H

#include <stdint.h>

#include "pq_compiler.h"

#if defined(PQ_ARCH_X86_64)

#  include <xmmintrin.h>

typedef uint32_t pq_fpenv;

#  define PQ_CAN_FLUSH 1

/* Mask all exceptions and round half to even. If `flush` is true, treat subnormal operands
 * and results as 0, because each can cost Intel CPUs a microcode assist of 150 cycles. */
static inline pq_fpenv pq_fpenv_set(int flush)
{
    const pq_fpenv found = _mm_getcsr();
    _mm_setcsr(flush ? 0x1f80 | 0x8040 : 0x1f80); /* 0x8040: FTZ, DAZ */
    return found;
}

static inline void pq_fpenv_leave(pq_fpenv found)
{
    _mm_setcsr(found);
}

#elif defined(PQ_ARCH_AARCH64)

#  if defined(_MSC_VER) && !defined(__clang__)
#    include <intrin.h>
/* MSVC's register numbers contain op0 - 2, op1, CRn, CRm and op2 of the MRS instruction. */
#    define PQ_FPCR (1 << 14 | 3 << 11 | 4 << 7 | 4 << 3 | 0)
#    define PQ_FPSR (1 << 14 | 3 << 11 | 4 << 7 | 4 << 3 | 1)
#    define PQ_GET_FPCR(v) ((v) = (uint64_t)_ReadStatusReg(PQ_FPCR))
#    define PQ_SET_FPCR(v) _WriteStatusReg(PQ_FPCR, (__int64)(v))
#    define PQ_GET_FPSR(v) ((v) = (uint64_t)_ReadStatusReg(PQ_FPSR))
#    define PQ_SET_FPSR(v) _WriteStatusReg(PQ_FPSR, (__int64)(v))
#  else
#    define PQ_GET_FPCR(v) __asm__ volatile("mrs %0, fpcr" : "=r"(v))
#    define PQ_SET_FPCR(v) __asm__ volatile("msr fpcr, %0" ::"r"(v) : "memory")
#    define PQ_GET_FPSR(v) __asm__ volatile("mrs %0, fpsr" : "=r"(v))
#    define PQ_SET_FPSR(v) __asm__ volatile("msr fpsr, %0" ::"r"(v) : "memory")
#  endif

typedef struct {
    uint64_t control, flags;
} pq_fpenv;

static inline pq_fpenv pq_fpenv_set(int flush)
{
    pq_fpenv found;
    (void)flush;
    PQ_GET_FPCR(found.control);
    PQ_GET_FPSR(found.flags);
    PQ_SET_FPCR((uint64_t)0);
    return found;
}

static inline void pq_fpenv_leave(pq_fpenv found)
{
    PQ_SET_FPCR(found.control);
    PQ_SET_FPSR(found.flags);
}

#else

#  include <fenv.h>

typedef fenv_t pq_fpenv;

static inline pq_fpenv pq_fpenv_set(int flush)
{
    pq_fpenv found;
    (void)flush;
    fegetenv(&found);
    fesetenv(FE_DFL_ENV);
    return found;
}

static inline void pq_fpenv_leave(pq_fpenv found)
{
    fesetenv(&found);
}

#endif

#if !defined(PQ_CAN_FLUSH) /* subnormals are fast, or of unknown cost */
#  define PQ_CAN_FLUSH 0
#endif

static inline pq_fpenv pq_fpenv_enter(void)
{
    return pq_fpenv_set(0);
}

/* The control state for code that also uses the x87 unit. NumPy signals float16 overflow
 * by an x87 operation, which traps if the caller enabled this trap. */
#if defined(PQ_ARCH_X86_64) && !defined(_MSC_VER)

typedef struct {
    pq_fpenv sse;
    uint16_t control, flags;
} pq_fpenv_all;

enum { PQ_X87_DEFAULT = 0x037f, PQ_X87_FLAGS = 0x3f };

static inline uint16_t pq_x87_flags(void)
{
    uint16_t status;
    __asm__ volatile("fnstsw %0" : "=a"(status));
    return status & PQ_X87_FLAGS;
}

static inline void pq_x87_set_control(uint16_t control)
{
    __asm__ volatile("fldcw %0" ::"m"(control));
}

static inline pq_fpenv_all pq_fpenv_enter_all(void)
{
    pq_fpenv_all found = {.sse = pq_fpenv_enter(), .flags = pq_x87_flags()};
    __asm__ volatile("fnstcw %0" : "=m"(found.control));
    if (found.control != PQ_X87_DEFAULT) {
        pq_x87_set_control(PQ_X87_DEFAULT);
    }
    return found;
}

static inline void pq_fpenv_leave_all(pq_fpenv_all found)
{
    if (pq_x87_flags() != found.flags) { /* only fldenv can set flags */
        uint32_t environment[7];
        __asm__ volatile("fnstenv %0" : "=m"(environment));
        environment[1] = (environment[1] & ~(uint32_t)PQ_X87_FLAGS) | found.flags;
        __asm__ volatile("fldenv %0" ::"m"(environment));
    }
    if (found.control != PQ_X87_DEFAULT) {
        pq_x87_set_control(found.control);
    }
    pq_fpenv_leave(found.sse);
}

#else

#  define pq_fpenv_all pq_fpenv
#  define pq_fpenv_enter_all pq_fpenv_enter
#  define pq_fpenv_leave_all pq_fpenv_leave

#endif

#endif
