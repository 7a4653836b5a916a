/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA avx2
#define PQ_TABLE_ISA avx512
#include "kernels/kernels.h"

#if PQ_KNOWS_AVX512

#  include <immintrin.h>

PQ_TARGET_BEGIN(
    "avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512bf16,gfni")

#  include "x86/long_avx512.h"
#  include "x86/lookup_512.h"

#  include "kernels/group_loop.inc"

/* ---- results of packed codes ---- */

/* Return the results of dequantizing each of the 16 possible codes in group number `group`.
 * If `adds` is true, the results include the offset. */
typedef __m512i group_results_fn(const struct pq_run *run, size_t group, int adds,
                                 enum pq_type code, enum pq_type real);

PQ_INLINE __m512i integer_results(const struct pq_run *run, size_t group, int adds,
                                  enum pq_type code, enum pq_type real)
{
    const float s = run->scale.f32[group];
    const int32_t z = run->zero.i32[group];
    const __m256 scale = _mm256_set1_ps(s);
    const __m256i zero = _mm256_set1_epi32(z);
    const __m256 lo = dequantize_8_codes(0, zero, scale);
    const __m256 hi = dequantize_8_codes(code == PQ_I4 ? -8 : 8, zero, scale);
    if (adds) {
        const __m256 v = _mm256_broadcast_ss(run->offset.f32 + group);
        return wide_results(_mm256_add_ps(lo, v), _mm256_add_ps(hi, v), real, 1);
    }
    const struct instance k = {.op = DEQUANTIZE, .real = real, .code = code};
    return can_use_reciprocal(s, z, dequantize_range(k)) ? wide_results(lo, hi, real, 0)
                                                         : wide_results(lo, hi, real, 1);
}

/* Return the results of a codebook of 16 values, like codebook.inc. */
PQ_INLINE __m512i book_results(const struct pq_run *run, size_t group, int adds,
                               enum pq_type code, enum pq_type real)
{
    const __m512 scale = _mm512_set1_ps((float)run->scale.f64[group]);
    const __m512 v = _mm512_mul_ps(_mm512_loadu_ps(run->book->value), scale);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    (void)adds, (void)code, (void)real;
    return _mm512_mask_mov_epi32(_mm512_castps_si512(v), is_nan,
                                 _mm512_set1_epi32(0x7fc00000));
}

/* Dequantize packed codes by a table of the 16 results of each group. Computing a table
 * takes no longer than dequantizing one chunk. The loop of bytes.inc, which dequantizes
 * chunks, would take up to 1.11 times as long. */
PQ_INLINE void dequantize_by_group_tables(const struct pq_run *run, const void *px,
                                          void *py, size_t n, group_results_fn *results,
                                          int adds, enum pq_type code, enum pq_type real)
{
    enum { STEP = 16 }; /* bytes of 32 codes, with one or two vectors of results */
    const struct pq_run copy = *run; /* stores to py cannot change the copy */
    const size_t groups = n / run->group, bytes = run->group / 2;
    const int flip = run->high_first ? 4 : 0;
    const char *x = px;
    struct lines lines = begin_lines(py);
    for (size_t group = 0; group < groups; group++) {
        const __m512i table = results(&copy, group, adds, code, real);
        for (size_t i = 0; i < bytes; i += STEP, x += STEP) {
            if (real == PQ_F32) {
                store_line(&lines, _mm512_permutexvar_epi32(wide_unpack4(x, flip), table));
                store_line(&lines, _mm512_permutexvar_epi32(
                                       wide_unpack4(x + STEP / 2, flip), table));
            } else {
                store_line(&lines, _mm512_permutexvar_epi16(wide_unpack4_16(x), table));
            }
        }
    }
    store_last_line(&lines, (char *)py + n * pq_bytes_of(real));
}

/* Dequantize packed codes to float32 with offsets. For other types, callers convert the
 * float32 results. */
KERNEL_OF(static, dequantize_affine_packed_I4, dequantize_by_group_tables, integer_results,
          1, PQ_I4, PQ_F32)
KERNEL_OF(static, dequantize_affine_packed_U4, dequantize_by_group_tables, integer_results,
          1, PQ_U4, PQ_F32)
KERNEL_OF(static, dequantize_book_packed, dequantize_by_group_tables, book_results, 0,
          PQ_U4, PQ_F32)

/* ---- kernels ---- */

/* With PQ_TAKES_SHARED, kernels.inc does not define the kernels that the table takes from
 * kernels_avx2.c, for example extrema and transposes. */
#  define PQ_TAKES_SHARED
#  define PQ_DEQUANTIZE_PACKED(run, x, y, n, ...)                                          \
      dequantize_by_group_tables(run, x, y, n, integer_results, 0, __VA_ARGS__)
#  include "kernels/kernels.inc"

/*
 * Long runs. After their first 512-bit arithmetic, CPUs execute 512-bit instructions slowly
 * for some microseconds, and then lower their clock. The gain exceeds this cost from
 * LONG_ELEMENTS on. A table of results saves time from TABLE_ELEMENTS on.
 */
enum { LONG_ELEMENTS = PQ_SIZE(1 << 16, 1 << 10), TABLE_ELEMENTS = 1 << 12 };

/* Define a kernel that processes a group by `map_long` if the group has at least `least`
 * elements and `map_long` supports it, else by `kernel`. An element has `in` bytes in x and
 * `out` bytes in y. */
#  define PQ_LONG(name) LONG_NAME(name)
#  define LONG_NAME(name) long_##name
#  define GROUP_NAME(name) group_##name
#  define LONG_KERNEL(kernel, map_long, least, in, out)                                    \
      PQ_NOINLINE void GROUP_NAME(kernel)(const struct pq_run *run, const void *x,         \
                                          void *y, size_t n)                               \
      {                                                                                    \
          if (n < (least) || !map_long(run, x, y, n)) {                                    \
              kernel(run, x, y, n);                                                        \
          }                                                                                \
      }                                                                                    \
      static void PQ_LONG(kernel)(const struct pq_run *run, const void *x, void *y,        \
                                  size_t n)                                                \
      {                                                                                    \
          if ((least) == SIZE_MAX || n < (least) || run->group < (least) ||                \
              run->random_words != NULL) {                                                 \
              kernel(run, x, y, n);                                                        \
          } else {                                                                         \
              pq_run_tiles(GROUP_NAME(kernel), run->group, false, run, x, in, y, out, n);  \
          }                                                                                \
      }

/* ---- quantize: the functions of long_avx512.c ---- */

#  define PQ_PAIR(real, code)                                                              \
      LONG_KERNEL(PQ_NAME(quantize_##real##_##code), pq_long_quantize_##real##_##code,     \
                  LONG_ELEMENTS, pq_bytes_of(PQ_##real), pq_bytes_of(PQ_##code))
PQ_FOR_CODE_PAIR
#  undef PQ_PAIR
#  define REAL(real, ...)                                                                  \
      LONG_KERNEL(encode_##real, pq_long_encode_##real, LONG_ELEMENTS,                     \
                  pq_bytes_of(PQ_##real), 1)
PQ_FOR_REAL(REAL)
#  undef REAL
LONG_KERNEL(PQ_NAME(quantize_general), pq_long_quantize_general, LONG_ELEMENTS,
            pq_bytes_of(run->in), pq_bytes_of(run->out))
LONG_KERNEL(PQ_NAME(quantize_affine), pq_long_quantize_affine, LONG_ELEMENTS,
            pq_bytes_of(run->affine->real), pq_bytes_of(run->affine->code))

/* ---- results of codes ---- */

enum { RESULT_BYTES = 2 };

/* The lower and upper bytes of the results of all 256 codes. CPUs lower their clock for
 * 512-bit multiplications. Lookups do not multiply, so lookups are faster in shorter runs,
 * too. */
struct results {
    __m512i lower[4], upper[4];
};

PQ_INLINE struct results compute_results(pq_kernel_fn *usual, const struct pq_run *run)
{
    enum { CODES = 256, QUARTER = CODES / 4 };
    uint8_t codes[CODES];
    uint16_t values[CODES];
    struct results all;
    for (int i = 0; i < CODES; i++) {
        codes[i] = (uint8_t)i;
    }
    usual(run, codes, values, CODES);
    for (int i = 0; i < 4; i++) {
        const uint16_t *const from = values + i * QUARTER;
        all.lower[i] = wide_bytes_of(from, 0);
        all.upper[i] = wide_bytes_of(from, 8);
    }
    return all;
}

/* Dequantize a group by looking up the values of WIDE_CODES codes at a time. All steps
 * except the first and the last store complete cache lines. Return 1. */
PQ_INLINE int dequantize_by_table(pq_kernel_fn *usual, const struct pq_run *run,
                                  const char *x, char *y, size_t n)
{
    const struct results all = compute_results(usual, run);
    const int exceeds_cache = run->exceeds_cache;
    const size_t second = WIDE_CODES - (uintptr_t)y % LINE / RESULT_BYTES;
    for (size_t i = 0, next = second; i < n; i = next, next += WIDE_CODES) {
        const size_t at = i + WIDE_CODES <= n ? i : n - WIDE_CODES;
        const char *const from = x + at;
        char *const to = y + RESULT_BYTES * at;
        if (exceeds_cache) {
            prefetch_chunk(from + PAGE, 1, to + PAGE, RESULT_BYTES);
            prefetch_chunk(from + PAGE + PQ_CHUNK, 1, to + PAGE + PQ_CHUNK * RESULT_BYTES,
                           RESULT_BYTES);
        }
        const __m512i code = load_wide_codes(from);
        store_wide_pairs(to, wide_look_up(all.lower, code), wide_look_up(all.upper, code));
    }
    return 1;
}

PQ_INLINE int can_look_up(enum pq_type code, enum pq_type real)
{
    return pq_bytes_of(code) == 1 && pq_bytes_of(real) == RESULT_BYTES;
}

#  define LOOK_UP_NAME(name) table_##name
#  define LOOK_UP(name) LOOK_UP_NAME(name)
#  define INSTANCE(kernel, real, code)                                                     \
      PQ_NOINLINE int LOOK_UP(kernel)(const struct pq_run *run, const char *x, char *y,    \
                                      size_t n)                                            \
      {                                                                                    \
          return dequantize_by_table(kernel, run, x, y, n);                                \
      }                                                                                    \
      LONG_KERNEL(kernel, LOOK_UP(kernel),                                                 \
                  can_look_up(PQ_##code, PQ_##real) ? TABLE_ELEMENTS : SIZE_MAX, 1,        \
                  RESULT_BYTES)
#  define PQ_PAIR(real, code) INSTANCE(PQ_NAME(dequantize_##code##_##real), real, code)
PQ_FOR_SHARED_PAIR
#  undef PQ_PAIR
#  define PQ_PAIR(real, code) INSTANCE(dequantize_##code##_##real, real, code)
PQ_FOR_OWN_PAIR
#  undef PQ_PAIR
#  undef INSTANCE

/* ---- the table ---- */

#  define PQ_HAS_WIDE 1
#  include "kernels/table.inc"

PQ_TARGET_END

#endif
