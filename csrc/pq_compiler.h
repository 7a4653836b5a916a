/* SPDX-License-Identifier: Apache-2.0 */
/* Macros that hide differences between architectures and compilers. This file includes no
 * other file. */
#ifndef PQ_COMPILER_H
#define PQ_COMPILER_H

#if defined(__x86_64__) || defined(_M_X64)
#  define PQ_ARCH_X86_64 1
#elif defined(__aarch64__) || defined(_M_ARM64)
#  define PQ_ARCH_AARCH64 1
#endif

#if defined(_MSC_VER) ||                                                                   \
    (defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__)
#  define PQ_LITTLE_ENDIAN 1
#else
#  define PQ_LITTLE_ENDIAN 0
#endif

/* 1 if the compiler supports all instructions of the AVX-512 kernels. */
#if !defined(PQ_ARCH_X86_64)
#  define PQ_KNOWS_AVX512 0
#elif defined(__clang__)
#  define PQ_KNOWS_AVX512 (__clang_major__ >= 9)
#elif defined(__GNUC__)
#  define PQ_KNOWS_AVX512 (__GNUC__ >= 10)
#else
#  define PQ_KNOWS_AVX512 1
#endif

#if defined(__SANITIZE_ADDRESS__)
#  define PQ_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
#    define PQ_ADDRESS_SANITIZER 1
#  endif
#endif

/*
 * PQ_INLINE    a function that must be inlined to be fast. Under the address sanitizer the
 *              compiler decides, because callers with hundreds of guarded variables take
 *              minutes to compile.
 * PQ_NOINLINE  a function that is not inlined. A file can leave the function unused.
 * PQ_RARE      a function that runs rarely: compiled for size, not for speed
 */
#if defined(_MSC_VER) && !defined(__clang__)
#  define PQ_INLINE static __forceinline
#  define PQ_NOINLINE static __declspec(noinline)
#  define PQ_RARE static __declspec(noinline)
#  define PQ_RESTRICT __restrict
#else
#  if defined(PQ_ADDRESS_SANITIZER)
#    define PQ_INLINE static inline
#  else
#    define PQ_INLINE static inline __attribute__((always_inline))
#  endif
#  define PQ_NOINLINE static __attribute__((noinline, unused))
#  define PQ_RARE static __attribute__((noinline, cold))
#  define PQ_RESTRICT restrict
#endif

/* Hints. PQ_WILL_READ(p), PQ_WILL_WRITE(p): the program will soon access the cache line at
 * `p`, which can be any address. PQ_UNLIKELY(condition): the condition is rarely true. */
#if defined(_MSC_VER) && !defined(__clang__)
#  define PQ_WILL_READ(p) ((void)(p))
#  define PQ_WILL_WRITE(p) ((void)(p))
#  define PQ_UNLIKELY(condition) (condition)
#else
#  define PQ_WILL_READ(p) __builtin_prefetch((p), 0)
#  define PQ_WILL_WRITE(p) __builtin_prefetch((p), 1)
#  define PQ_UNLIKELY(condition) __builtin_expect((condition), 0)
#endif

/* PQ_IN_ORDER() forbids the compiler to move memory accesses across this point. Stores stay
 * in ascending order, because CPUs detect only ascending streams of stores. Compilers do
 * not vectorize a loop with it. PQ_NO_UNROLL keeps compilers from unrolling the next loop.
 * PQ_HIDE() in a loop hides the value of a variable if a constant condition is true.
 * Otherwise GCC 13 and later copy the loop for each value, and the module grows by a
 * tenth. */
#if defined(_MSC_VER) && !defined(__clang__)
#  define PQ_IN_ORDER() ((void)0)
#  define PQ_NO_UNROLL
#  define PQ_HIDE(variable, condition) ((void)0)
#else
#  define PQ_IN_ORDER() __asm__ volatile("" ::: "memory")
#  define PQ_NO_UNROLL _Pragma("GCC unroll 1")
#  define PQ_HIDE(variable, condition)                                                     \
      do {                                                                                 \
          if (condition) {                                                                 \
              __asm__("" : "+r"(variable));                                                \
          }                                                                                \
      } while (0)
#endif

/* The size of a buffer, or the size of data from which a call uses another path. The C
 * tests define PQ_SMALL_BUFFERS in one build, so that small calls fill buffers many times
 * and use all paths. */
#if defined(PQ_SMALL_BUFFERS)
#  define PQ_SIZE(usual, small) (small)
#else
#  define PQ_SIZE(usual, small) (usual)
#endif

/* Compile the functions between BEGIN and END for the instruction set `isa`. Therefore all
 * files can have equal compiler flags. MSVC accepts all intrinsics everywhere. */
#define PQ_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#  define PQ_TARGET_BEGIN(isa)                                                             \
      PQ_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#  define PQ_TARGET_END _Pragma("clang attribute pop")
#elif defined(__GNUC__)
#  define PQ_TARGET_BEGIN(isa) _Pragma("GCC push_options") PQ_PRAGMA(GCC target(isa))
#  define PQ_TARGET_END _Pragma("GCC pop_options")
#else
#  define PQ_TARGET_BEGIN(isa)
#  define PQ_TARGET_END
#endif

#endif
