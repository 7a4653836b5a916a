/* SPDX-License-Identifier: Apache-2.0 */
/* Quantize long groups by loops over chunks in 512-bit registers. */
#define PQ_ISA avx2
#include "x86/long_avx512.h"

#if PQ_KNOWS_AVX512

#  include <immintrin.h>

PQ_TARGET_BEGIN("avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl")

#  include "x86/simd_512.h"

#  define PQ_QUANTIZES_ONLY
#  include "kernels/group_loop.inc"

#  include "kernels/general_chunk.inc"

/* ---- pairs of types ---- */

PQ_INLINE int quantize_long(const struct pq_run *run, const char *x, char *y, size_t n,
                            enum pq_type real, enum pq_type code)
{
    const struct instance k = instance_of(run, QUANTIZE, real, code);
    const float s = *run->scale.f32;
    const int32_t z = *run->zero.i32;
    if (run->round != PQ_HALF_EVEN || !can_use_reciprocal(s, z, quantize_range(k))) {
        return 0;
    }
    const struct group_params p = quantize_params(s, z, k);
    map_group_chunks(quantize_regular_chunk, run, x, y, n, &p, k);
    return 1;
}

#  define PQ_PAIR(real, code)                                                              \
      int pq_long_quantize_##real##_##code(const struct pq_run *run, const char *x,        \
                                           char *y, size_t n)                              \
      {                                                                                    \
          return quantize_long(run, x, y, n, PQ_##real, PQ_##code);                        \
      }
PQ_FOR_CODE_PAIR
#  undef PQ_PAIR

PQ_INLINE int encode_long(const struct pq_run *run, const char *x, char *y, size_t n,
                          enum pq_type real)
{
    const struct instance k = instance_of(run, QUANTIZE, real, PQ_F8E4M3FN);
    const float s = *run->scale.f32;
    if (k.multiplies || !can_use_reciprocal(s, *run->zero.i32, encode_range(k))) {
        return 0;
    }
    const struct group_params p = encode_params(s, 0, k);
    map_group_chunks(encode_regular_chunk, run, x, y, n, &p, k);
    return 1;
}

#  define REAL(real, ...)                                                                  \
      int pq_long_encode_##real(const struct pq_run *run, const char *x, char *y,          \
                                size_t n)                                                  \
      {                                                                                    \
          return encode_long(run, x, y, n, PQ_##real);                                     \
      }
PQ_FOR_REAL(REAL)
#  undef REAL

/* Quantize float64 numbers by the reciprocal of the scale. */
int pq_long_quantize_general(const struct pq_run *run, const char *x, char *y, size_t n)
{
    const struct param_arrays p = {run->scale.f32, run->zero.i32, NULL};
    return supports_reciprocals(run) && quantize_group_f64(run, x, y, n, p);
}

/* ---- elements out of range ---- */

/* Quantize a tile. The 256-bit kernel quantizes a tile shorter than a chunk. It also
 * repeats a tile that has elements out of range, to count these elements. */
PQ_INLINE void quantize_and_check(const struct pq_run *run, const void *x, void *y,
                                  size_t n, enum pq_type real, enum pq_type code)
{
    struct pq_watch found = {0, NULL, NULL};
    struct pq_run part = *run;
    struct instance k = instance_of(run, QUANTIZE_REFUSE, real, code);
    struct seen seen;
    part.watch = &found;
    begin_watching(&seen, &k);
    if (n >= PQ_CHUNK) {
        const struct group_params p = quantize_params(*run->scale.f32, *run->zero.i32, k);
        map_group_chunks(quantize_affine_regular_chunk, run, x, y, n, &p, k);
        update_largest_code(&part, &seen, k);
    }
    if (n < PQ_CHUNK || found.largest > (uint32_t)k.span) {
        PQ_NAME(quantize_affine)(run, x, y, n);
    }
}

#  define CHECKED(real, code)                                                              \
      KERNEL_OF(static, check_##real##_##code, quantize_and_check, PQ_##real, PQ_##code)
#  define REAL(real, ...) CHECKED(real, U8) CHECKED(real, U16)
PQ_FOR_REAL(REAL)
#  undef REAL
#  undef CHECKED

/* Quantize float32, float16 or bfloat16 to integers of at most 16 bits, and count all
 * elements out of range. Return 0 if the run has other affine stages. */
int pq_long_quantize_affine(const struct pq_run *run, const char *x, char *y, size_t n)
{
#  define REAL(real, ...) [PQ_##real##_ROW] = {check_##real##_U8, check_##real##_U16},
    static pq_kernel_fn *const all[][2] = {PQ_FOR_REAL(REAL)};
#  undef REAL
    const struct pq_affine *const affine = run->affine;
    const size_t bytes = pq_bytes_of(affine->code);
    const struct instance k = {.op = QUANTIZE_REFUSE, .code = bytes == 1 ? PQ_U8 : PQ_U16};
    if (!affine->counts || !has_only(affine, PQ_OPTIONS_CHECKED) ||
        affine->carrier != PQ_F32 || run->general || run->round != PQ_HALF_EVEN ||
        !pq_is_integer(affine->code) || bytes > 2 ||
        !can_use_reciprocal(*run->scale.f32, *run->zero.i32, quantize_range(k))) {
        return 0;
    }
    pq_run_tiles(all[pq_row_of(affine->real)][bytes - 1], WATCHED_ELEMENTS, false, run, x,
                 pq_bytes_of(affine->real), y, bytes, n);
    return 1;
}

PQ_TARGET_END

#endif
