/* SPDX-License-Identifier: Apache-2.0 */
/* Compute scales and zero points from extrema. */
#include <float.h>
#include <math.h>

#include "args.h"
#include "engine/reduce.h"
#include "math/fpenv.h"
#include "math/narrow_float.h"
#include "math/scalar_math.h"
#include "ops/presets.h"
#include "ops/scales.h"

/* The range of the codes, and the limits that a scale must satisfy. */
struct target {
    const struct pq_kernels *kernels;
    enum pq_type real, code; /* types of the data and of its codes */
    double lowest, highest;  /* the range of codes, or of narrow float values */
    double margin;           /* data may exceed the range by this many steps */
    bool small;              /* codes have at most 17 bits, so half steps fit float32 */
    bool symmetric;
    bool dynamic;  /* the rule is PQ_RULE_ONNX_DYNAMIC */
    double middle; /* the zero point of symmetric codes */
    double steps;  /* a symmetric scale is the largest magnitude divided by this number */
    double end;    /* a dequantized value below this limit is finite */
    enum pq_type scale;
    size_t zero_size;        /* number of bytes of a zero point */
    bool usual_scale;        /* scales are float64 for float64 data, else float32 */
    struct pq_wanted wanted; /* the formula of the member `like`, if set */
};

/* Return the least dequantized value that becomes infinite in the type of the data. For
 * float16 and bfloat16, too, the value is first rounded to float32. */
static double overflow_limit(enum pq_type real)
{
    switch (real) {
    case PQ_F64:
        return HUGE_VAL;
    case PQ_F16:
        return 65520 - 0x1p-9;
    case PQ_BF16:
        return 0x1.ffp127 - 0x1p103;
    default:
        return 0x1.ffffffp127;
    }
}

/* Set the range of codes, and the steps and the zero point of symmetric parameters. The
 * zero point is 0 for codes of both signs, and the middle code otherwise. */
static void set_range(struct target *to, const struct pq_choice *choice)
{
    const struct pq_range range = pq_code_range(choice);
    const bool both_signs = range.lo < 0 && range.hi > 0;
    to->lowest = (double)range.lo;
    to->highest = (double)range.hi;
    to->margin = 0.5;
    to->middle = both_signs ? 0 : floor((to->lowest + to->highest + 1) / 2);
    to->steps = !both_signs                 ? (to->highest - to->lowest) / 2
                : to->highest < -to->lowest ? to->highest
                                            : -to->lowest;
}

static struct target target_of(const struct pq_choice *choice,
                               const struct pq_kernels *kernels)
{
    struct target to = {.kernels = kernels,
                        .real = choice->real,
                        .code = choice->code,
                        .symmetric = choice->rule == PQ_RULE_SYMMETRIC,
                        .dynamic = choice->rule == PQ_RULE_ONNX_DYNAMIC,
                        .end = overflow_limit(choice->real),
                        .zero_size = pq_bytes_of(choice->code),
                        .scale = choice->scale};
    to.usual_scale = choice->scale == (choice->real == PQ_F64 ? PQ_F64 : PQ_F32);
    if (choice->like != PQ_LIKE_PYQUANT) {
        to.wanted = pq_wanted_of(choice);
    }
    if (pq_is_narrow_float(choice->code)) {
        const struct pq_format format = pq_format_of(choice->code);
        int exponent;
        to.highest = (double)pq_f32_bits(format.highest);
        to.lowest = -to.highest;
        frexp(to.highest, &exponent); /* 2^(exponent - 1) <= highest < 2^exponent */
        to.margin = ldexp(0.5, exponent - 1 - format.mantissa);
        to.steps = to.highest;
    } else {
        set_range(&to, choice);
    }
    to.small = to.lowest >= -UINT16_MAX && to.highest <= UINT16_MAX;
    return to;
}

static bool has_f64_scale(const struct target *to)
{
    return to->real == PQ_F64;
}

double pq_stored_scale(enum pq_type type, enum pq_type real, double v)
{
    const bool single = type == PQ_F64 && real != PQ_F64;
    const double end = single ? 0x1p-149 : 0, most = single ? 0x1.fffffep127 : HUGE_VAL;
    const uint64_t least = type == PQ_F8E8M0FNU ? 0 : 1, last = pq_largest_scale_bits(type);
    const uint64_t bits = pq_scale_bits(type, v > end ? (v < most ? v : most) : end);
    return pq_scale_of_bits(type, bits < least ? least : bits < last ? bits : last);
}

/* Return the scale that quantize uses: float32, unless the data is float64. */
static double scale_in_use(const struct target *to, double scale)
{
    return has_f64_scale(to) ? scale : (double)(float)scale;
}

static double zero_point_of(const struct target *to, double scale, double lo)
{
    return to->symmetric
               ? to->middle
               : pq_nearest_f64(pq_clamp(to->lowest - lo / scale, to->lowest, to->highest));
}

/* Return true if v <= steps * scale for the exact product. */
static bool is_within(double v, double steps, double scale)
{
    const double product = steps * scale;
    if (product != v) { /* the rounded product is on the correct side of v */
        return v < product;
    }
    /* `steps` is a multiple of 1/4. For small v, multiply by 4, so that the difference is a
     * multiple of the smallest subnormal number and does not underflow to 0. */
    const double unit = v < 1 ? 4 : 1;
    return fma(steps * unit, scale, -v * unit) >= 0;
}

/* Quantize one end of the data, and return the distance of the code to the zero point. */
static double quantized_distance(const struct target *to, struct pq_pair pair, double end)
{
    double steps = end / pair.scale;
    if (!has_f64_scale(to)) {
        steps = (double)(float)steps; /* equals a float32 division */
    }
    if (pq_is_narrow_float(to->code)) {
        const uint8_t code = pq_encode(pq_float_to_odd(steps), to->code, 1);
        return (double)pq_decode(code, to->code);
    }
    return pq_clamp(pq_nearest_f64(steps) + pair.zero, to->lowest, to->highest) - pair.zero;
}

/* Quantize and dequantize both ends of the data. Return true if both results are finite,
 * and at least one is not 0. */
PQ_NOINLINE bool survives_round_trip(const struct target *to, struct pq_pair pair,
                                     double lo, double hi)
{
    const double ends[] = {lo, hi};
    double largest = 0;
    pair.scale = scale_in_use(to, pair.scale);
    for (int i = 0; i < 2; i++) {
        const double steps = quantized_distance(to, pair, ends[i]);
        const double v =
            fabs((has_f64_scale(to) ? steps : (double)(float)steps) * pair.scale);
        largest = v > largest || v != v ? v : largest;
    }
    return largest > 0 && largest < to->end;
}

/* Return true if data from `lo` to `hi` exceeds the range of dequantized codes by at most
 * half a step, and if survives_round_trip() is true. */
PQ_NOINLINE bool fits_data(const struct target *to, struct pq_pair pair, double lo,
                           double hi)
{
    /* Below FLT_MIN, rounding a scale to float32 can change it by a large factor. */
    const bool tiny = pair.scale < (double)FLT_MIN;
    const double scale = tiny ? scale_in_use(to, pair.scale) : pair.scale;
    /* Below this limit, no value becomes infinite in a round trip: a value below half a
     * step becomes 0, and the magnitude of each larger value at most doubles. */
    const double safe = (has_f64_scale(to) ? DBL_MAX : to->end) / 4;
    return is_within(hi, to->highest - pair.zero + to->margin, scale) &&
           is_within(-lo, pair.zero - to->lowest + to->margin, scale) &&
           ((hi < safe && -lo < safe) || survives_round_trip(to, pair, lo, hi));
}

enum { MAX_NEIGHBOURS = 64 }; /* data near the largest float16 can need 64 neighbours */

/* Find the scale nearest to `scale` that fits the data. Return false if none fits. */
PQ_NOINLINE bool find_fit(const struct target *to, struct pq_pair *pair, double scale,
                          double lo, double hi)
{
    for (int k = 0; k < MAX_NEIGHBOURS; k++) {
        for (int way = 1; way >= (k > 0 ? -1 : 1); way -= 2) {
            const double found = pq_next_scale(to->scale, scale, way * k);
            if (found > 0 && found < HUGE_VAL) {
                *pair = (struct pq_pair){found, zero_point_of(to, found, lo)};
                if (fits_data(to, *pair, lo, hi)) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* Return true if the formula is correct for nearly all data: see GUESS_SYMMETRIC. */
static bool can_use_formula(const struct target *to)
{
    return to->symmetric && to->middle == 0 && to->small;
}

/* Return the parameters for data from `lo` to `hi`. The scale is the scale of the formula,
 * rounded to the type of scales, if it fits the data, else the nearest neighbour that fits.
 *
 * If both ends are close to the largest number of the type, it can happen that no neighbour
 * fits. Then return the next larger scale that rounds both ends towards 0. The larger
 * magnitude is then just below k + 1/2 steps for an integer k. If this scale does not fit,
 * return the next smaller scale that dequantizes to finite values. */
static struct pq_pair choose_pair(const struct target *to, double lo, double hi)
{
    lo = lo < 0 ? lo : 0; /* an empty group has the ends +inf and -inf */
    hi = hi > 0 ? hi : 0;
    if (to->wanted.preset != NULL && hi < HUGE_VAL && lo > -HUGE_VAL) {
        return pq_preset_pair(&to->wanted, lo, hi);
    }
    if (hi == HUGE_VAL || lo == -HUGE_VAL) { /* the caller reports an error */
        return (struct pq_pair){HUGE_VAL, to->symmetric ? to->middle : to->lowest};
    }
    if (lo == 0 && hi == 0) {
        return (struct pq_pair){1, zero_point_of(to, 1, 0)};
    }
    const double amax = hi > -lo ? hi : -lo;
    const double levels = to->highest - to->lowest, width = hi - lo;
    double wanted;
    if (to->symmetric) {
        wanted = amax / to->steps;
    } else {
        wanted =
            pq_is_finite_f64(width) ? width / levels : (hi / 2 - lo / 2) / (levels / 2);
    }
    const double scale = pq_stored_scale(to->scale, to->real, wanted);
    if (can_use_formula(to) && to->usual_scale && amax > 0x1p-80 && amax < to->end / 4 &&
        amax < 0x1p120) {
        return (struct pq_pair){scale, 0};
    }
    struct pq_pair pair;
    if (find_fit(to, &pair, scale, lo, hi)) {
        return pair;
    }
    const double steps = ceil(amax / scale - 0.5) - 0.5; /* fewer: a larger scale */
    if (steps >= 1 &&
        find_fit(to, &pair, pq_stored_scale(to->scale, to->real, amax / steps), lo, hi)) {
        return pair;
    }
    for (int k = 0; k < MAX_NEIGHBOURS; k++) { /* prefer saturation to infinite results */
        const double found = pq_next_scale(to->scale, scale, -k);
        pair = (struct pq_pair){found, zero_point_of(to, found, lo)};
        if (found > 0 && survives_round_trip(to, pair, lo, hi)) {
            return pair;
        }
    }
    return (struct pq_pair){scale, zero_point_of(to, scale, lo)};
}

/* Choose parameters as ONNX DynamicQuantizeLinear does, in float32. If the range is
 * infinite or NaN, the zero point is 0. */
static struct pq_pair choose_dynamic(const struct target *to, double least, double most)
{
    const float lo = least < 0 ? (float)least : 0, hi = most > 0 ? (float)most : 0;
    const float scale = (hi - lo) / (float)to->highest, steps = 0 - lo / scale;
    if (least != least || most != most) {
        return (struct pq_pair){(double)NAN, 0};
    }
    if (lo == hi) {
        return (struct pq_pair){1, 0};
    }
    return (struct pq_pair){(double)scale,
                            pq_nearest_f64(pq_clamp((double)steps, 0, to->highest))};
}

/* ---- many at a time ---- */

enum { CHOSEN = PQ_CHOSEN };

struct chosen {
    union {
        float f32[CHOSEN];
        double f64[CHOSEN];
    } scale;
    uint32_t zero[CHOSEN]; /* zero points modulo 2^32 */
};

/* Choose the parameters of `n` groups by formulas that compilers vectorize. Return false if
 * the parameters of a group may differ from the results of choose_pair(). Float32 quotients
 * of float32 extrema equal float64 quotients rounded to float32. The loops combine sign
 * bits of differences, because comparisons are slower. */
typedef bool guess_fn(const struct target *to, size_t n, const void *lowest,
                      const void *highest, struct chosen *chosen);

/* Vector formulas accept magnitudes and ranges from SMALLEST to largest_usual(). Results
 * for these magnitudes are neither subnormal nor infinite. */
#define SMALLEST 0x1p-80
static double largest_usual(const struct target *to)
{
    return to->end / 4 < 0x1p120 ? to->end / 4 : 0x1p120;
}

/* Define a function that computes the symmetric scales of many groups. It returns false if
 * a magnitude is too small or too large for the formula. For all other data, no element
 * exceeds the range of codes by more than half a step although the scale is rounded.
 * Rounding changes a scale by at most 2^-24 of the scale, and half a step is at least 2^-17
 * of the largest code. */
#define GUESS_SYMMETRIC(name, number, member, bits_of, sign)                               \
    static bool name(const struct target *to, size_t n, const void *lowest,                \
                     const void *highest, struct chosen *chosen)                           \
    {                                                                                      \
        const number *los = lowest, *his = highest;                                        \
        const number steps = (number)to->steps;                                            \
        const number top = (number)largest_usual(to), bottom = (number)SMALLEST;           \
        number *PQ_RESTRICT scale = chosen->scale.member;                                  \
        sign others = 0;                                                                   \
        for (size_t i = 0; i < n; i++) {                                                   \
            const number hi = his[i], lo = -los[i], amax = hi > lo ? hi : lo;              \
            others |= bits_of(amax - bottom) | bits_of(top - amax);                        \
            scale[i] = amax / steps;                                                       \
        }                                                                                  \
        memset(chosen->zero, 0, n * sizeof *chosen->zero);                                 \
        return others >> (sizeof others * 8 - 1) == 0;                                     \
    }
GUESS_SYMMETRIC(guess_symmetric, float, f32, pq_bits_f32, uint32_t)
GUESS_SYMMETRIC(guess_symmetric_f64, double, f64, pq_bits_f64, uint64_t)
#undef GUESS_SYMMETRIC

/* Choose the parameters of integer codes by a kernel. Return false if no kernel can. */
static bool guess_by_kernel(const struct target *to, size_t n, const void *lowest,
                            const void *highest, struct chosen *chosen)
{
    const struct pq_reach reach = {.lowest = to->lowest,
                                   .highest = to->highest,
                                   .middle = to->middle,
                                   .least = SMALLEST,
                                   .most = largest_usual(to)};
    pq_choose_fn *const choose =
        to->symmetric ? to->kernels->choose_middle : to->kernels->choose_asymmetric;
    return choose(&reach, lowest, highest, chosen->scale.f32, chosen->zero, n) != 0;
}

/* Choose like guess_symmetric(), for types of scales with 8 or 16 bits. */
static bool guess_narrow(const struct target *to, size_t n, const void *lowest,
                         const void *highest, struct chosen *chosen)
{
    const float *los = lowest, *his = highest;
    const double top = largest_usual(to), reach = to->steps + to->margin;
    const double last = pq_scale_of_bits(to->scale, pq_largest_scale_bits(to->scale));
    uint64_t others = 0;
    for (size_t i = 0; i < n; i++) {
        const double hi = (double)his[i], lo = (double)-los[i], amax = hi > lo ? hi : lo;
        const uint64_t bits = pq_scale_bits(to->scale, amax / to->steps);
        const double scale = pq_scale_of_bits(to->scale, bits);
        chosen->scale.f64[i] = scale;
        others |= pq_bits_f64(amax - SMALLEST) | pq_bits_f64(top - amax) |
                  pq_bits_f64(reach * scale - amax) | pq_bits_f64(last - scale);
    }
    memset(chosen->zero, 0, n * sizeof *chosen->zero);
    return others >> 63 == 0;
}

/* Choose parameters by the formula of the member `like`, which names a package. */
static bool guess_by_preset(const struct target *to, size_t n, const void *lowest,
                            const void *highest, struct chosen *chosen)
{
    return pq_preset_pairs(&to->wanted, n, lowest, highest, chosen->scale.f32,
                           chosen->zero);
}

/* Return the function that computes the formula for many groups, or NULL if none exists. */
static guess_fn *formula_of(const struct target *to)
{
    if (to->wanted.preset != NULL) {
        return to->real == PQ_F32 && to->scale == PQ_F32 ? guess_by_preset : NULL;
    }
    if (can_use_formula(to) && !has_f64_scale(to) && pq_bytes_of(to->scale) <= 2) {
        return guess_narrow;
    }
    if (to->dynamic || !to->small || !to->usual_scale) {
        return NULL;
    }
    if (has_f64_scale(to)) {
        return can_use_formula(to) ? guess_symmetric_f64 : NULL;
    }
    return can_use_formula(to) ? guess_symmetric : guess_by_kernel;
}

/* Choose each pair by the exact method. Extrema are float64 if `is_f64`, else float32. */
static void choose_exactly(const struct target *to, const struct pq_cells *of, bool is_f64,
                           struct chosen *chosen)
{
    for (size_t i = 0; i < of->n; i++) {
        const double lo = pq_extremum_at(of->lowest, is_f64, i);
        const double hi = pq_extremum_at(of->highest, is_f64, i);
        const struct pq_pair pair =
            to->dynamic ? choose_dynamic(to, lo, hi) : choose_pair(to, lo, hi);
        if (to->scale != PQ_F32) {
            chosen->scale.f64[i] = pair.scale;
        } else {
            chosen->scale.f32[i] = (float)pair.scale;
        }
        chosen->zero[i] = (uint32_t)(uint64_t)(int64_t)pair.zero;
    }
}

/* ---- results ---- */

/* Copy contiguous results to an array. A result has `size` bytes. */
static void store_results(char *to, ptrdiff_t stride, const void *from, size_t n,
                          size_t size)
{
    const struct pq_tile tile = {1, (ptrdiff_t)n, 0, stride, size, false};
    if (stride == (ptrdiff_t)size) {
        memcpy(to, from, n * size);
    } else {
        pq_scatter(NULL, to, from, &tile);
    }
}

/* Convert scales and zero points to their types, and store them. */
static void store_chosen(const struct target *to, const struct chosen *chosen,
                         const struct pq_cells *cells)
{
    const size_t n = cells->n, size = pq_bytes_of(to->scale);
    char narrow[CHOSEN * sizeof(uint16_t)];
    uint8_t bytes[CHOSEN];
    uint16_t halves[CHOSEN];
    for (size_t i = 0; size <= 2 && i < n; i++) {
        pq_store_bits(to->scale, pq_scale_bits(to->scale, chosen->scale.f64[i]),
                      narrow + i * size);
    }
    for (size_t i = 0; to->zero_size == 1 && i < n; i++) {
        bytes[i] = (uint8_t)chosen->zero[i];
    }
    for (size_t i = 0; to->zero_size == 2 && i < n; i++) {
        halves[i] = (uint16_t)chosen->zero[i];
    }
    store_results(cells->scale, cells->scale_stride,
                  size <= 2 ? (const void *)narrow : &chosen->scale, n, size);
    store_results(cells->zero, cells->zero_stride,
                  to->zero_size == 1   ? (const void *)bytes
                  : to->zero_size == 2 ? (const void *)halves
                                       : chosen->zero,
                  n, to->zero_size);
}

/* Convert extrema to float32. Return false if float32 cannot represent an extremum. */
static bool convert_to_f32(float *PQ_RESTRICT to, const double *from, size_t n)
{
    int others = 0;
    for (size_t i = 0; i < n; i++) {
        to[i] = (float)from[i];
        others |= (double)to[i] != from[i];
    }
    return others == 0;
}

/* Choose the parameters of at most CHOSEN groups. The formulas need float64 extrema
 * for float64 data, and float32 extrema for all other data. */
static void choose_batch(const struct target *to, const struct pq_cells *cells, bool is_f64)
{
    struct pq_cells of = *cells;
    struct chosen chosen;
    float lo[CHOSEN], hi[CHOSEN];
    if (is_f64 && !has_f64_scale(to) && convert_to_f32(lo, of.lowest, of.n) &&
        convert_to_f32(hi, of.highest, of.n)) {
        of.lowest = lo;
        of.highest = hi;
        is_f64 = false;
    }
    guess_fn *const guess = is_f64 == has_f64_scale(to) ? formula_of(to) : NULL;
    if (guess == NULL || !guess(to, of.n, of.lowest, of.highest, &chosen)) {
        choose_exactly(to, &of, is_f64, &chosen);
    }
    store_chosen(to, &chosen, &of);
}

/* Choose the parameters of all groups. Extrema are float64 if `is_f64`, else float32. */
static void choose_all(const struct target *to, struct pq_cells of, bool is_f64)
{
    const size_t size = is_f64 ? sizeof(double) : sizeof(float);
    for (size_t left = of.n; left > 0; left -= of.n) {
        of.n = left < CHOSEN ? left : CHOSEN;
        choose_batch(to, &of, is_f64);
        of.lowest = (const char *)of.lowest + of.n * size;
        of.highest = (const char *)of.highest + of.n * size;
        of.scale += (ptrdiff_t)of.n * of.scale_stride;
        of.zero += (ptrdiff_t)of.n * of.zero_stride;
    }
}

static void choose_cells(void *what, const struct pq_cells *cells)
{
    const struct target *const to = what;
    choose_all(to, *cells, has_f64_scale(to));
}

/* ---- calls ---- */

/* Replace each member of the choice that requests a default by the default. */
static void fill_defaults(struct pq_choice *choice, enum pq_type real)
{
    if (choice->real == PQ_NO_TYPE) {
        choice->real = real;
    }
    choice->code = pq_chosen_code(choice);
    if (choice->scale == PQ_NO_TYPE) {
        choice->scale = choice->real == PQ_F64 ? PQ_F64 : PQ_F32;
    }
    if (choice->rule == PQ_RULE_USUAL) {
        choice->rule = pq_usual_rule(choice->like, choice->code);
    }
}

/* Check that the formula of `like` supports the rule, the code type and the code range. */
static enum pq_status check_like(const struct pq_choice *choice)
{
    const struct pq_preset *const preset = pq_preset_of(choice->like);
    if (choice->like == PQ_LIKE_PYQUANT) {
        return PQ_OK;
    }
    PQ_REQUIRE(preset != NULL && pq_preset_has_rule(preset, choice->rule), PQ_ERR_OPTION);
    PQ_REQUIRE(pq_preset_has_code(preset, choice->code), PQ_ERR_TYPE);
    const bool both_signs = choice->lowest_code < 0 && choice->highest_code > 0;
    const bool is_supported =
        both_signs || preset->span != PQ_SPAN_ENDS || !pq_is_range_given(choice);
    return is_supported ? PQ_OK : PQ_ERR_OPTION;
}

/* Return true if the range of codes is valid. A valid range has no limits, or has limits in
 * ascending order within the integer type. */
static bool has_valid_range(const struct pq_choice *choice)
{
    const struct pq_range all = pq_range_of(choice->code);
    return !pq_is_range_given(choice) ||
           (pq_is_integer(choice->code) && all.lo <= choice->lowest_code &&
            choice->lowest_code < choice->highest_code && choice->highest_code <= all.hi);
}

/* Check the choice and fill in defaults. `real` is the default type of the data. */
static enum pq_status check_choice(struct pq_choice *choice, const struct pq_choice *given,
                                   enum pq_type real)
{
    PQ_TRY(pq_copy_struct(choice, given, sizeof *choice, PQ_LEAST_CHOICE));
    fill_defaults(choice, real);
    const bool dynamic = choice->rule == PQ_RULE_ONNX_DYNAMIC;
    const bool types =
        pq_is_real(choice->real) && pq_is_code(choice->code) &&
        !pq_is_64_bit(choice->code) &&
        (!dynamic || (choice->real != PQ_F64 && choice->code == PQ_U8)) &&
        (!pq_is_narrow_float(choice->code) || choice->rule == PQ_RULE_SYMMETRIC);
    const bool known_rule = (unsigned)choice->rule <= PQ_RULE_ONNX_DYNAMIC;
    PQ_REQUIRE(types && known_rule && pq_largest_scale_bits(choice->scale) != 0,
               PQ_ERR_TYPE);
    const bool plain = choice->like == PQ_LIKE_PYQUANT && choice->scale == PQ_F32 &&
                       !pq_is_range_given(choice);
    PQ_REQUIRE(has_valid_range(choice) && (!dynamic || plain), PQ_ERR_OPTION);
    return check_like(choice);
}

enum pq_status pq_choose_by(const struct pq_kernels *kernels, const struct pq_choice *given,
                            size_t n, const double *smallest, const double *largest,
                            void *scale, void *zero)
{
    struct pq_choice choice;
    PQ_REQUIRE(given != NULL && smallest != NULL && largest != NULL && scale != NULL &&
                   zero != NULL,
               PQ_ERR_NULL);
    PQ_TRY(check_choice(&choice, given, PQ_F32));
    PQ_REQUIRE(n <= PTRDIFF_MAX / sizeof(double), PQ_ERR_SHAPE);
    const pq_fpenv found = pq_fpenv_enter();
    const struct target to = target_of(&choice, kernels);
    const struct pq_cells of = {.n = n,
                                .lowest = smallest,
                                .highest = largest,
                                .scale = scale,
                                .zero = zero,
                                .scale_stride = (ptrdiff_t)pq_bytes_of(choice.scale),
                                .zero_stride = (ptrdiff_t)to.zero_size};
    choose_all(&to, of, true);
    pq_fpenv_leave(found);
    return PQ_OK;
}

enum pq_status pq_choose(const struct pq_choice *given, size_t n, const double *smallest,
                         const double *largest, void *scale, void *zero)
{
    return pq_choose_by(&pq_kernels_scalar, given, n, smallest, largest, scale, zero);
}

enum pq_status pq_check_choosing(const struct pq_args **given, struct pq_args *room,
                                 int accepted, struct pq_choice *choice,
                                 const struct pq_choice *given_choice,
                                 const struct pq_kernels *kernels, int part, int parts)
{
    PQ_TRY(given_choice != NULL ? pq_adapt_args_version(given, room) : PQ_ERR_NULL);
    const struct pq_args *const args = *given;
    const struct pq_array *const scale = &args->scale, *const zero = &args->zero;
    PQ_TRY(pq_check_reduction(kernels, args, scale, zero, part, parts));
    PQ_TRY(pq_check_options(args, pq_options_of(args), accepted));
    PQ_TRY(check_choice(choice, given_choice, args->in.type));
    const enum pq_type code = choice->code,
                       unpacked = pq_is_integer(code) ? pq_carrier_of(code) : PQ_I8;
    const bool is_supported =
        choice->real == args->in.type && scale->type == choice->scale &&
        (zero->type == code || zero->type == unpacked) && !scale->swapped && !zero->swapped;
    return is_supported ? PQ_OK : PQ_ERR_TYPE;
}

enum pq_status pq_choose_params_by(pq_extrema_fn *find_extrema, void *context,
                                   const struct pq_kernels *kernels,
                                   const struct pq_args *args, int accepted,
                                   const struct pq_choice *given, int part, int parts)
{
    struct pq_args room;
    struct pq_choice choice;
    PQ_TRY(pq_check_choosing(&args, &room, accepted, &choice, given, kernels, part, parts));
    const pq_fpenv found = pq_fpenv_enter();
    struct target to = target_of(&choice, kernels);
    pq_fpenv_leave(found);
    return find_extrema(context, kernels, args, choice.rule == PQ_RULE_ONNX_DYNAMIC,
                        choose_cells, &to, part, parts);
}

enum pq_status pq_choose_params(const struct pq_kernels *kernels,
                                const struct pq_args *args, const struct pq_choice *given,
                                int part, int parts)
{
    return pq_choose_params_by(pq_find_extrema, NULL, kernels, args, PQ_ACCEPTS_NONE, given,
                               part, parts);
}
