/* SPDX-License-Identifier: Apache-2.0 */
#define PQ_ISA avx2
#define PQ_TABLE_ISA avx512
#include "kernels/kernels.h"

#if PQ_KNOWS_AVX512

#  include <immintrin.h>
#  include <math.h>
#  include <string.h>

PQ_TARGET_BEGIN(
    "avx2,fma,f16c,avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,avx512bf16,gfni")

#  include "ops/codebook.h"
#  include "x86/simd_512.h"

/* The table takes these kernels from AVX2: integers from real numbers and back, float64,
 * extrema and transposes. */
#  define PQ_TAKES_SHARED
/* The loops of 512 bits below process long runs. */
#  define PQ_LONG(name) LONG_NAME(name)
#  define LONG_NAME(name) long_##name
#  define PQ_PAIR(real, code)                                                              \
      static pq_kernel_fn PQ_LONG(PQ_NAME(quantize_##real##_##code));
PQ_FOR_CODE_PAIR
#  undef PQ_PAIR
#  define PQ_PAIR(real, code)                                                              \
      static pq_kernel_fn PQ_LONG(PQ_NAME(dequantize_##code##_##real));
PQ_FOR_SHARED_PAIR
#  undef PQ_PAIR
#  define PQ_PAIR(real, code) static pq_kernel_fn PQ_LONG(dequantize_##code##_##real);
PQ_FOR_OWN_PAIR
#  undef PQ_PAIR
static pq_kernel_fn long_encode_F32, long_encode_F16, long_encode_BF16,
    PQ_LONG(PQ_NAME(quantize_general)), PQ_LONG(PQ_NAME(quantize_affine));
#  define PQ_DEQUANTIZE_PACKED look_up_packed
PQ_INLINE void look_up_packed(const struct pq_run *run, const void *px, void *py, size_t n,
                              enum pq_type code, enum pq_type real);
static pq_kernel_fn add_packed_I4, add_packed_U4;
static pq_kernel_fn book_packed;
#  define PQ_HAS_WIDE 1
#  include "kernels/kernels.inc"

/*
 * Long runs. After their first 512-bit arithmetic, CPUs execute 512-bit instructions slowly
 * for some microseconds, and then lower their clock. The gain exceeds this cost from
 * LONG_ELEMENTS on. A table of results pays from TABLE_ELEMENTS on.
 */
enum { LONG_ELEMENTS = PQ_SIZE(1 << 16, 1 << 10), TABLE_ELEMENTS = 1 << 12 };

/* The constants of a run with one scale. */
struct wide {
    wf s, r, rest, lo, hi;
    wi z;
};

struct wide_f64 {
    wd s, r, lo, hi;
    wi z;
};

/* ---- chunk bodies: quantize.inc, encode.inc and general.inc have the proofs ---- */

/* Quantize a wide chunk. 8-bit codes need no lower bound, as with PQ_CONVERT_IS_LOW.
 *
 * If `most` is not null, the kernel counts elements out of range, as affine_chunk.inc does:
 * store unsigned codes relative to the lowest code, without bounds, and raise *most to the
 * largest code. NaN and elements out of range give codes above the range, because the
 * conversion turns large values into INT32_MIN. */
PQ_INLINE void quantize_wide(const char *x, char *y, const struct wide *f, int least,
                             __m512i *most, struct instance k)
{
    const int is_byte = pq_bytes_of(k.code) == 1;
    wf v = load_wide(x, k.real), q;
    if (most == NULL) {
        v = wide_cap_keep_nan(v, f->hi);
        v = is_byte ? v : wide_floor_drop_nan(v, f->lo);
    }
    if (is_byte) {
        q = wide_fused_add(v, f->r, wide_multiply(v, f->rest));
    } else {
        q = wide_multiply(v, f->r);
        q = wide_fused_add(wide_fused_subtract(q, f->s, v), f->r, q);
    }
    if (most == NULL) {
        store_wide_code(y, wide_nearest(q), f->z, k.code);
    } else if (is_byte) {
        *most = store_wide_above_8(y, wide_nearest(q), f->z, least, *most);
    } else {
        *most = store_wide_above_16(y, wide_nearest(q), f->z, least, *most);
    }
}

/* Quantize a chunk to a narrow float. The codes exceed the result by floor >> shift until
 * store_wide_floats() subtracts this difference from bytes. Return 0 if the chunk
 * contains a NaN. */
PQ_INLINE int encode_wide(const char *x, char *y, const struct wide *f, struct instance k)
{
    const wf floor = wide_float(wide_splat_i32(k.to.floor));
    const wf step = wide_float(wide_splat_i32((127 - k.to.shift) << 23));
    const wi exponent = wide_splat_i32(0x7f800000), shift = wide_splat_i32(k.to.shift);
    const wf v = load_wide(x, k.real);
    const wf mag = wide_least_magnitude(v, f->hi), q0 = wide_multiply(mag, f->r);
    const wf q = wide_fused_add(wide_fused_subtract(q0, f->s, mag), f->r, q0);
    const wi power = wide_mask(wide_bits(wide_larger(q, floor)), exponent);
    const wi sum = wide_bits(wide_fused_add(q, step, wide_float(power)));
    const wi steps = wide_subtract_i32(sum, power);
    store_wide_floats(y, wide_add_i32(steps, wide_shift_right(power, shift)),
                      k.to.floor >> k.to.shift, wide_bits(v), k.to.sign, k.to.bare);
    return !wide_any_nan(v);
}

PQ_INLINE wd wide_quotients_f64(wd v, const struct wide_f64 *f)
{
    const wd q = wide_multiply_f64(v, f->r);
    return wide_fused_add_f64(wide_fused_subtract_f64(q, f->s, v), f->r, q);
}

PQ_INLINE wd bounded_f64(wd v, const struct wide_f64 *f, enum pq_type code)
{
    v = wide_cap_keep_nan_f64(v, f->hi);
    return pq_bytes_of(code) == 1 ? v : wide_floor_drop_nan_f64(v, f->lo);
}

PQ_INLINE void quantize_wide_f64(const double *x, char *y, const struct wide_f64 *f,
                                 enum pq_type code)
{
    const wd lo = bounded_f64(load_wide_f64(x), f, code);
    const wd hi = bounded_f64(load_wide_f64(x + PQ_WIDE_HALF), f, code);
    store_wide_code(y,
                    wide_nearest_f64(wide_quotients_f64(lo, f), wide_quotients_f64(hi, f)),
                    f->z, code);
}

/* Like encode_capped(), for float64. */
PQ_INLINE wi encode_capped_f64(wd q, struct encoding to)
{
    enum { LESS = 52 - 23 }; /* mantissa bits of float64, minus the bits of float32 */
    const int shift = to.shift + LESS;
    const wd floor = wide_splat_f64((double)pq_f32_bits((uint32_t)to.floor));
    const wd step = wide_float_f64(wide_splat_i64((int64_t)(1023 - shift) << 52));
    const wi power = wide_mask(wide_bits_f64(wide_larger_f64(q, floor)),
                               wide_splat_i64(INT64_C(0x7ff) << 52));
    const wi sum = wide_bits_f64(wide_fused_add_f64(q, step, wide_float_f64(power)));
    return wide_add_i64(wide_subtract_i64(sum, power),
                        wide_shift_right_i64(power, wide_splat_i64(shift)));
}

PQ_INLINE int encode_wide_f64(const double *x, char *y, const struct wide_f64 *f,
                              struct encoding to)
{
    const wd lo = load_wide_f64(x), hi = load_wide_f64(x + PQ_WIDE_HALF);
    const wi low =
        encode_capped_f64(wide_quotients_f64(wide_least_magnitude_f64(lo, f->hi), f), to);
    const wi high =
        encode_capped_f64(wide_quotients_f64(wide_least_magnitude_f64(hi, f->hi), f), to);
    const int floor = (1023 - 127) + (to.floor >> 23);
    store_wide_floats(y, wide_halves(low, high, 0), floor << (23 - to.shift),
                      wide_halves(wide_bits_f64(lo), wide_bits_f64(hi), 1), to.sign,
                      to.bare);
    return !(wide_any_nan_f64(lo) | wide_any_nan_f64(hi));
}

/* ---- runs ---- */

/* Like chunk_at(), for wide chunks. */
PQ_INLINE size_t wide_at(size_t i, size_t n)
{
    return i + PQ_WIDE <= n ? i : n - PQ_WIDE;
}

PQ_INLINE void prefetch_wide_chunk(const char *x, size_t in, const char *y, size_t out)
{
    prefetch_chunk(x + PAGE, in, y + PAGE, out);
    prefetch_chunk(x + PAGE + PQ_CHUNK * in, in, y + PAGE + PQ_CHUNK * out, out);
}

/* After a NaN, the 256-bit kernel processes this number of elements, because NaN elements
 * often come in clusters. */
enum { AFTER_NAN_ELEMENTS = PQ_SIZE(4096, 256) };

/* Broadcast the parameters of a group. */
PQ_INLINE struct wide wide_params(struct group_params f)
{
    return (struct wide){widen(f.s),  widen(f.r),  widen(f.rest),
                         widen(f.lo), widen(f.hi), widen_i32(f.z)};
}

/* Quantize with one scale in the reciprocal range. All chunks except the first start at a
 * cache line. `most`: see quantize_wide(). The kernel `usual` processes chunks with NaN
 * that become narrow floats. */
PQ_INLINE void map_long(pq_kernel_fn *usual, const struct pq_run *run, const char *x,
                        char *y, size_t n, const struct wide *f, int least, __m512i *most,
                        struct instance k)
{
    const int far = run->exceeds_cache, is_float = pq_is_narrow_float(k.code);
    const size_t second = PQ_WIDE - (uintptr_t)x % LINE / in_size(k);
    for (size_t i = 0, next = second; i < n; i = next, next += PQ_WIDE) {
        const size_t at = wide_at(i, n);
        const char *const from = x + at * in_size(k);
        char *const to = y + at * out_size(k);
        if (far) {
            prefetch_wide_chunk(from, in_size(k), to, out_size(k));
        }
        if (!is_float) {
            quantize_wide(from, to, f, least, most, k);
        } else if (!encode_wide(from, to, f, k)) {
            const size_t m = n - at < AFTER_NAN_ELEMENTS ? n - at : AFTER_NAN_ELEMENTS;
            usual(run, from, to, m);
            next = at + m;
        }
    }
}

/* Quantize groups. Long groups with a scale in the reciprocal range use wide chunks. All
 * other groups use the 256-bit kernel `usual`. */
PQ_INLINE void map_long_groups(pq_kernel_fn *usual, const struct pq_run *run,
                               const void *px, void *py, size_t n, enum pq_type real,
                               enum pq_type code)
{
    const struct instance k = instance_of(run, QUANTIZE, real, code);
    const int is_float = pq_is_narrow_float(code);
    const int even = is_float || rounding_of(run) == PQ_HALF_EVEN;
    const struct reciprocal_range range = is_float ? encode_range(k) : quantize_range(k);
    struct pq_run group = *run;
    const char *x = px;
    char *y = py;
    if (run->group < LONG_ELEMENTS || !even || k.multiplies) {
        usual(run, x, y, n);
        return;
    }
    for (size_t m; n > 0; n -= m) {
        m = n < run->group ? n : run->group;
        if (m >= LONG_ELEMENTS &&
            can_use_reciprocal(*group.scale.f32, *group.zero.i32, range)) {
            const float s = *group.scale.f32;
            const struct wide f =
                wide_params(is_float ? encode_params(s, *group.zero.i32, k)
                                     : quantize_params(s, *group.zero.i32, k));
            map_long(usual, &group, x, y, m, &f, 0, NULL, k);
        } else {
            usual(&group, x, y, m);
        }
        x += m * in_size(k);
        y += m * out_size(k);
        group.scale.f32++;
        group.zero.i32++;
    }
}

/* ---- elements out of range ---- */

/* Elements of a tile, the unit of one check for elements out of range. */
enum { CHECKED_TILE_ELEMENTS = PQ_SIZE(4096, 256) };

/* Quantize with one scale in the reciprocal range. Repeat each tile that has elements out
 * of range with the 256-bit kernel, which counts them. */
PQ_INLINE void quantize_long_checked(const struct pq_run *run, const char *x, char *y,
                                     size_t n, struct instance k)
{
    const struct pq_range range = run->affine->range;
    const int least = (int)range.lo, bits = pq_bytes_of(k.code) == 1 ? 16 : 32;
    const struct wide f =
        wide_params(quantize_params(*run->scale.f32, *run->zero.i32 - least, k));
    for (size_t m; n > 0; n -= m, x += m * in_size(k), y += m * out_size(k)) {
        __m512i most = _mm512_setzero_si512();
        m = n < 2 * CHECKED_TILE_ELEMENTS ? n : CHECKED_TILE_ELEMENTS;
        map_long(NULL, run, x, y, m, &f, least, &most, k);
        if (wide_any_above(most, (uint32_t)(range.hi - range.lo), bits)) {
            PQ_NAME(quantize_affine)(run, x, y, m);
        }
    }
}

/* Return true for long runs with one scale that count all elements out of range, from
 * float32, float16 or bfloat16 to integers of at most 16 bits, without other stages. */
static int can_quantize_long_checked(const struct pq_run *run, size_t n)
{
    const struct pq_affine *const affine = run->affine;
    return n >= LONG_ELEMENTS && run->group >= n && affine->counts &&
           affine->carrier == PQ_F32 && !run->general && !affine->has_offset &&
           !affine->inverse && run->round == PQ_HALF_EVEN && pq_is_integer(affine->code) &&
           pq_bytes_of(affine->code) <= 2;
}

#  define CHECKED(from, type)                                                              \
      if (real == from && bytes == pq_bytes_of(type)) {                                    \
          const struct instance k = instance_of(run, QUANTIZE, from, type);                \
          if (can_use_reciprocal(*run->scale.f32, *run->zero.i32, quantize_range(k))) {    \
              quantize_long_checked(run, x, y, n, k);                                      \
              return;                                                                      \
          }                                                                                \
      }
#  define CHECKED_PAIRS(from, ...) CHECKED(PQ_##from, PQ_U8) CHECKED(PQ_##from, PQ_U16)
static void PQ_LONG(PQ_NAME(quantize_affine))(const struct pq_run *run, const void *x,
                                              void *y, size_t n)
{
    const enum pq_type real = run->affine->real;
    const size_t bytes = pq_bytes_of(run->affine->code);
    if (can_quantize_long_checked(run, n)) {
        PQ_FOR_REAL(CHECKED_PAIRS)
    }
    PQ_NAME(quantize_affine)(run, x, y, n);
}
#  undef CHECKED
#  undef CHECKED_PAIRS

/* ---- results of codes ---- */

enum { RESULT_BYTES = 2 };

/* The lower and upper bytes of the 256 values that an 8-bit code can have. CPUs lower
 * their clock for 512-bit multiplications. A lookup has only permutations, so it gains in
 * short runs, too. */
struct results {
    __m512i lower[4], upper[4];
};

PQ_INLINE struct results results_of(pq_kernel_fn *usual, const struct pq_run *run)
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

/* Dequantize by looking up the value of each code. All chunks except the first fill
 * complete cache lines. */
PQ_INLINE void look_up_long(pq_kernel_fn *usual, const struct pq_run *run, const char *x,
                            char *y, size_t n)
{
    const struct results all = results_of(usual, run);
    const int far = run->exceeds_cache;
    const size_t second = PQ_WIDE - (uintptr_t)y % LINE / RESULT_BYTES;
    for (size_t i = 0, next = second; i < n; i = next, next += PQ_WIDE) {
        const char *const from = x + wide_at(i, n);
        char *const to = y + RESULT_BYTES * wide_at(i, n);
        if (far) {
            prefetch_wide_chunk(from, 1, to, RESULT_BYTES);
        }
        const __m512i code = load_wide_codes(from);
        store_wide_pairs(to, wide_look_up(all.lower, code), wide_look_up(all.upper, code));
    }
}

PQ_INLINE int is_looked_up(enum pq_type code, enum pq_type real)
{
    return pq_bytes_of(code) == 1 && pq_bytes_of(real) == RESULT_BYTES;
}

PQ_NOINLINE void look_up_groups(pq_kernel_fn *usual, const struct pq_run *run,
                                const char *x, char *y, size_t n)
{
    struct pq_run group = *run;
    if (run->group < TABLE_ELEMENTS) {
        usual(run, x, y, n);
        return;
    }
    for (size_t m; n > 0; n -= m) {
        m = n < run->group ? n : run->group;
        if (m >= TABLE_ELEMENTS) {
            look_up_long(usual, &group, x, y, m);
        } else {
            usual(&group, x, y, m);
        }
        x += m;
        y += m * RESULT_BYTES;
        group.scale.f32++;
        group.zero.i32++;
    }
}

/* ---- results of packed codes ---- */

/* Return the dequantized values of the 16 codes of a group, plus the offset unless
 * `offset` is null. */
PQ_INLINE __m512i results_of_group(float s, int32_t z, const float *offset,
                                   enum pq_type code, enum pq_type real)
{
    const __m256 scale = _mm256_set1_ps(s);
    const __m256i zero = _mm256_set1_epi32(z);
    const __m256 lo = dequantize_8_codes(0, zero, scale);
    const __m256 hi = dequantize_8_codes(code == PQ_I4 ? -8 : 8, zero, scale);
    if (offset != NULL) {
        const __m256 v = _mm256_broadcast_ss(offset);
        return wide_results(_mm256_add_ps(lo, v), _mm256_add_ps(hi, v), real, 1);
    }
    const struct instance k = {.op = DEQUANTIZE, .real = real, .code = code};
    return can_use_reciprocal(s, z, dequantize_range(k)) ? wide_results(lo, hi, real, 0)
                                                         : wide_results(lo, hi, real, 1);
}

/* Dequantize packed codes by a table of the 16 results of each group. The table takes no
 * longer than one chunk. */
PQ_INLINE void dequantize_by_group_tables(const struct pq_run *run, const void *px,
                                          void *py, size_t n, const float *offset,
                                          enum pq_type code, enum pq_type real)
{
    enum { STEP = 16 }; /* bytes of codes, for two vectors of float32 or one of 16 bits */
    const float *s = run->scale.f32;
    const int32_t *z = run->zero.i32;
    const size_t bytes = run->group / 2;
    const char *x = px;
    struct lines lines = lines_from(py);
    for (const char *const end = x + n / 2; x < end; s++, z++) {
        const __m512i table = results_of_group(*s, *z, offset, code, real);
        offset = offset != NULL ? offset + 1 : NULL;
        for (size_t i = 0; i < bytes; i += STEP, x += STEP) {
            if (real == PQ_F32) {
                store_line(&lines, _mm512_permutexvar_epi32(wide_spread4(x, 0), table));
                store_line(&lines,
                           _mm512_permutexvar_epi32(wide_spread4(x + STEP / 2, 0), table));
            } else {
                store_line(&lines, _mm512_permutexvar_epi16(wide_spread4_16(x), table));
            }
        }
    }
    store_last_line(&lines, (char *)py + n * pq_bytes_of(real));
}

PQ_INLINE void look_up_packed(const struct pq_run *run, const void *x, void *y, size_t n,
                              enum pq_type code, enum pq_type real)
{
    dequantize_by_group_tables(run, x, y, n, NULL, code, real);
}

/* Dequantize packed codes to float32 with offsets. For other types, callers convert the
 * float32 results. */
#  define PACKED(code)                                                                     \
      static void add_packed_##code(const struct pq_run *run, const void *x, void *y,      \
                                    size_t n)                                              \
      {                                                                                    \
          dequantize_by_group_tables(run, x, y, n, run->offset.f32, PQ_##code, PQ_F32);    \
      }
PACKED(I4)
PACKED(U4)
#  undef PACKED

/* Dequantize packed indices of a codebook of 16 values, with results like codebook.inc. */
static void book_packed(const struct pq_run *run, const void *px, void *py, size_t n)
{
    enum { STEP = 8 };
    const int flip = run->high_first ? 4 : 0;
    const __m512 values = _mm512_loadu_ps(run->book->value);
    const double *scale = run->scale.f64;
    const size_t bytes = run->group / 2;
    const char *x = px;
    struct lines lines = lines_from(py);
    for (const char *const end = x + n / 2; x < end; scale++) {
        const __m512 v = _mm512_mul_ps(values, _mm512_set1_ps((float)*scale));
        const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        const __m512i table = _mm512_mask_mov_epi32(_mm512_castps_si512(v), is_nan,
                                                    _mm512_set1_epi32(0x7fc00000));
        for (size_t i = 0; i < bytes; i += STEP, x += STEP) {
            store_line(&lines, _mm512_permutexvar_epi32(wide_spread4(x, flip), table));
        }
    }
    store_last_line(&lines, (char *)py + n * sizeof(float));
}

/* ---- float64 ---- */

PQ_INLINE void map_long_f64(const struct pq_run *run, const double *x, char *y, size_t n,
                            enum pq_type code)
{
    const int is_float = pq_is_narrow_float(code);
    const struct encoding to =
        is_float ? encoding_of(run->out, run->overflow) : (struct encoding){.type = code};
    const float limit =
        is_float ? pq_f32_bits((uint32_t)to.cap) : saturating_quotient(code);
    const double s = *run->scale.f64, most = s * (double)limit;
    const struct wide_f64 f = {wide_splat_f64(s), wide_splat_f64(1 / s),
                               wide_splat_f64(-most), wide_splat_f64(most),
                               wide_splat_i32((int32_t)*run->zero.f64)};
    for (size_t i = 0, next = PQ_WIDE; i < n; i = next, next += PQ_WIDE) {
        const size_t at = wide_at(i, n);
        if (!is_float) {
            quantize_wide_f64(x + at, y + at * pq_bytes_of(code), &f, code);
        } else if (!encode_wide_f64(x + at, y + at, &f, to)) {
            const size_t m = n - at < AFTER_NAN_ELEMENTS ? n - at : AFTER_NAN_ELEMENTS;
            PQ_NAME(quantize_general)(run, x + at, y + at, m);
            next = at + m;
        }
    }
}

/* Return true for long runs of float64 with one moderate scale. */
static int is_long_f64(const struct pq_run *run, size_t n)
{
    return n >= LONG_ELEMENTS && run->group >= n && run->in == PQ_F64 &&
           run->compute == PQ_F64 && is_moderate(*run->scale.f64);
}

/* Quantize float64, half to even. Return 0, and write nothing, for other calls. Narrow
 * floats must have the zero point -0, because adding +0 changes the sign of -0. */
PQ_NOINLINE int quantize_long_f64(const struct pq_run *run, const void *x, void *y,
                                  size_t n)
{
    if (pq_is_narrow_float(run->out)) {
        if (pq_bits_f64(*run->zero.f64) != UINT64_C(1) << 63) {
            return 0;
        }
        map_long_f64(run, x, y, n, PQ_F8E4M3FN);
        return 1;
    }
    if (run->round != PQ_HALF_EVEN || run->zero_first) {
        return 0;
    }
    switch (run->out) {
#  define CASE(code, ...)                                                                  \
  case PQ_##code:                                                                          \
      map_long_f64(run, x, y, n, PQ_##code);                                               \
      return 1;
        PQ_FOR_CODE(CASE)
#  undef CASE
    default:
        return 0;
    }
}

static void PQ_LONG(PQ_NAME(quantize_general))(const struct pq_run *run, const void *x,
                                               void *y, size_t n)
{
    if (!is_long_f64(run, n) || !quantize_long_f64(run, x, y, n)) {
        PQ_NAME(quantize_general)(run, x, y, n);
    }
}

/* ---- instances ---- */

#  define LONG_KERNEL(kernel)                                                              \
      static void PQ_LONG(kernel)(const struct pq_run *run, const void *x, void *y,        \
                                  size_t n)

/* Define two functions for a kernel. The function for short runs then does not save the
 * registers that long runs need. */
#  define GROUPS(kernel) GROUPS_NAME(kernel)
#  define GROUPS_NAME(name) groups_##name
#  define INSTANCE(kernel, real, code)                                                     \
      PQ_NOINLINE void GROUPS(kernel)(const struct pq_run *run, const void *x, void *y,    \
                                      size_t n)                                            \
      {                                                                                    \
          map_long_groups(kernel, run, x, y, n, PQ_##real, PQ_##code);                     \
      }                                                                                    \
      LONG_KERNEL(kernel)                                                                  \
      {                                                                                    \
          if (n < LONG_ELEMENTS) {                                                         \
              kernel(run, x, y, n);                                                        \
          } else {                                                                         \
              GROUPS(kernel)(run, x, y, n);                                                \
          }                                                                                \
      }
#  define PQ_PAIR(real, code) INSTANCE(PQ_NAME(quantize_##real##_##code), real, code)
PQ_FOR_CODE_PAIR
#  undef PQ_PAIR
#  define REAL(real, ...) INSTANCE(encode_##real, real, F8E4M3FN)
PQ_FOR_REAL(REAL)
#  undef REAL
#  undef INSTANCE

#  define INSTANCE(kernel, real, code)                                                     \
      LONG_KERNEL(kernel)                                                                  \
      {                                                                                    \
          if (is_looked_up(PQ_##code, PQ_##real) && n >= TABLE_ELEMENTS) {                 \
              look_up_groups(kernel, run, x, y, n);                                        \
          } else {                                                                         \
              kernel(run, x, y, n);                                                        \
          }                                                                                \
      }
#  define PQ_PAIR(real, code) INSTANCE(PQ_NAME(dequantize_##code##_##real), real, code)
PQ_FOR_SHARED_PAIR
#  undef PQ_PAIR
#  define PQ_PAIR(real, code) INSTANCE(dequantize_##code##_##real, real, code)
PQ_FOR_OWN_PAIR
#  undef PQ_PAIR
#  undef INSTANCE

PQ_TARGET_END

#endif
