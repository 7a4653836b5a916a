/* SPDX-License-Identifier: Apache-2.0 */
/*
 * requantize: out = clamp(R(in - input_zero + bias) + zero). Everything is defined here, an
 * element at a time and exactly, in integers without limits as far as results can tell;
 * kernels do what 32 bits can hold.
 */
#include "../args.h"
#include "../fpenv.h"
#include "../kernels.h"
#include "../params.h"
#include "../scalar_math.h"
#include "../tile.h"
#include "../walk.h"

enum {
    PLACES = 512,   /* parameters that are prepared at a time, and elements of a tile */
    BEYOND = 32,    /* places that kernels may read past them: the largest block */
    PIECE = 4096,   /* elements of a run that a kernel does or leaves as a whole */
    SHORT = 32,     /* groups of fewer elements have parameters for each element */
    FEWER = 64,     /* columns of a tile where one side is transposed */
    MOST_SHIFT = 62 /* as (v * m + 2^(shift - 1)) >> shift is within 64 bits */
};

#define MOST_MULTIPLIER INT32_MAX
static const int64_t two_30 = INT64_C(1) << 30;

/* ---- multipliers ---- */

static bool is_fixed(enum pq_arithmetic arithmetic)
{
    return arithmetic != PQ_ARITHMETIC_FLOAT32;
}

/* Shifts to the left of 2^-31, the others shift to the right. */
static bool is_tflite(enum pq_arithmetic arithmetic)
{
    return arithmetic == PQ_ARITHMETIC_TFLITE || arithmetic == PQ_ARITHMETIC_TFLITE_SINGLE;
}

struct fixed {
    int32_t m;
    int shift;
};

/* TFLite's QuantizeMultiplier: half away from zero to 31 bits. Below 2^-32 it is 0; what
 * single rounding cannot shift so far is the largest. */
static bool fix_tflite(struct fixed *to, double real, bool single)
{
    const uint64_t bits = pq_bits_f64(real);
    const uint64_t fraction = (bits & (UINT64_MAX >> 12)) | UINT64_C(1) << 52;
    int shift = (int)(bits >> 52) - 1022;
    int64_t m = (int64_t)((fraction + (1 << 21)) >> 22);
    if (m == INT64_C(1) << 31) {
        m /= 2;
        shift++;
    }
    if (shift < -31) {
        m = 0;
        shift = 0;
    }
    if (shift > 30 && single) {
        m = INT32_MAX;
        shift = 30;
    }
    *to = (struct fixed){(int32_t)m, shift};
    return shift <= 30;
}

/* XNNPACK's: the 24 bits of a float32, which is within [2^-32, 2^8). */
static bool fix_rndnu(struct fixed *to, float real)
{
    const uint32_t bits = pq_bits_f32(real);
    *to = (struct fixed){(int32_t)((bits & 0x7fffff) | 0x800000), 150 - (int)(bits >> 23)};
    return real >= 0x1p-32f && real < 0x1p8f;
}

/* FBGEMM's ChooseRequantizationMultiplier, of which the shift is from 1 to 62. */
static bool fix_fbgemm(struct fixed *to, float real)
{
    int shift = 31;
    if (!(real >= 0x1p-32f && real < 0x1p30f)) {
        return false;
    }
    for (; real < 0.5F; real *= 2) {
        shift++;
    }
    for (; real > 1; real /= 2) {
        shift--;
    }
    if (real == 1) { /* 2^31 is no int32 */
        real /= 2;
        shift--;
    }
    *to = (struct fixed){(int32_t)(real * 0x1p31F), shift};
    return true;
}

PQ_NOINLINE bool fix(struct fixed *to, enum pq_arithmetic arithmetic, double real)
{
    if (!(real > 0 && real <= DBL_MAX)) {
        return false;
    }
    switch (arithmetic) {
    case PQ_ARITHMETIC_RNDNU:
        return fix_rndnu(to, (float)real);
    case PQ_ARITHMETIC_TFLITE:
        return fix_tflite(to, real, false);
    case PQ_ARITHMETIC_TFLITE_SINGLE:
        return fix_tflite(to, real, true);
    case PQ_ARITHMETIC_FBGEMM:
        return fix_fbgemm(to, (float)real);
    default:
        return false;
    }
}

enum pq_status pq_fixed_point(enum pq_arithmetic arithmetic, double multiplier,
                              int32_t *integer, int *shift)
{
    struct fixed fixed = {0, 0};
    if (integer == NULL || shift == NULL) {
        return PQ_ERR_NULL;
    }
    const pq_fpenv found = pq_fpenv_enter();
    const bool fits = fix(&fixed, arithmetic, multiplier);
    pq_fpenv_leave(found);
    if (fits) {
        *integer = fixed.m;
        *shift = fixed.shift;
    }
    return fits ? PQ_OK : PQ_ERR_OPTION;
}

static struct pq_params channel_at(const struct pq_channels *of, ptrdiff_t channel)
{
    return (struct pq_params){(const char *)of->data + channel * of->stride, of->stride,
                              of->type, of->swapped};
}

PQ_NOINLINE int64_t integer_at(const struct pq_channels *of, ptrdiff_t channel)
{
    const struct pq_params at = channel_at(of, channel);
    return pq_load_integer(&at);
}

/* What a channel is multiplied by; false where the arithmetic has none. */
struct multiplier {
    float r;
    struct fixed fixed;
};

PQ_NOINLINE bool load_multiplier(struct multiplier *to,
                                 const struct pq_requantization *args, ptrdiff_t channel)
{
    double real;
    if (args->shift.data != NULL) {
        const int64_t m = integer_at(&args->multiplier, channel);
        const int64_t shift = integer_at(&args->shift, channel);
        const bool left = is_tflite(args->arithmetic);
        if (m < 0 || m > MOST_MULTIPLIER || shift < (left ? -31 : 1) ||
            shift > (left ? 30 : MOST_SHIFT)) {
            return false;
        }
        to->fixed = (struct fixed){(int32_t)m, (int)shift};
        return true;
    }
    const struct pq_params at = channel_at(&args->multiplier, channel);
    pq_load_scales_f64(&real, &at, 1, 0);
    if (is_fixed(args->arithmetic)) {
        return fix(&to->fixed, args->arithmetic, real);
    }
    to->r = (float)real;
    return to->r > 0 && to->r <= FLT_MAX;
}

/* ---- an element ---- */

/* a * 2^32 + b, where b is within [0, 2^32). */
struct parts {
    int64_t a;
    int64_t b;
};

static struct parts parts_of(int64_t v)
{
    return (struct parts){v >> 32, v & UINT32_MAX};
}

/* v - zero + bias, at an end of int64 where that cannot hold it. */
static int64_t sum_of(int64_t v, int64_t zero, int64_t bias)
{
    const struct parts x = parts_of(v), y = parts_of(zero), z = parts_of(bias);
    const int64_t low = x.b - y.b + z.b, a = x.a - y.a + z.a + (low >> 32);
    return a > INT32_MAX   ? INT64_MAX
           : a < INT32_MIN ? INT64_MIN
                           : a * (INT64_C(1) << 32) + (low & UINT32_MAX);
}

/* (v * m + 2^(shift - 1)) >> shift, for shifts from 1 to 62; near an end of int64 where
 * that cannot hold it. */
static int64_t rounded_product(int64_t v, int32_t m, int shift)
{
    const struct parts x = parts_of(v);
    const int64_t low = x.b * m, high = x.a * m + (low >> 32);
    if (shift > 32) {
        return (high + (INT64_C(1) << (shift - 33))) >> (shift - 32);
    }
    const int64_t most = INT64_MAX >> (32 - shift);
    if (high > most - 2 || high < 2 - most) {
        return high < 0 ? -INT64_MAX : INT64_MAX;
    }
    const int64_t rest = (low & UINT32_MAX) + (INT64_C(1) << (shift - 1));
    return high * (INT64_C(1) << (32 - shift)) + (rest >> shift);
}

/* gemmlowp's RoundingDivideByPOT, half away from zero. */
static int64_t divided(int64_t v, int exponent)
{
    const int64_t mask = (INT64_C(1) << exponent) - 1;
    return (v >> exponent) + ((v & mask) > (mask >> 1) + (v < 0));
}

PQ_NOINLINE int64_t fixed_product(int64_t v, enum pq_arithmetic arithmetic, struct fixed by)
{
    if (!is_tflite(arithmetic)) {
        return rounded_product(v, by.m, by.shift);
    }
    if (by.shift >= 0 || arithmetic == PQ_ARITHMETIC_TFLITE_SINGLE) {
        return rounded_product(v, by.m, 31 - by.shift);
    }
    return divided(rounded_product(v, by.m, 31), -by.shift);
}

/* A product in float32, within [lowest, highest], half to even. */
PQ_NOINLINE int64_t float_product(int64_t v, float r, int64_t lowest, int64_t highest)
{
    const float product = (float)v * r;
    const double p = (double)product, lo = (double)lowest, hi = (double)highest;
    const double above = p > lo ? p : lo, bounded = above < hi ? above : hi;
    return (int64_t)(bounded + 0x1.8p52 - 0x1.8p52);
}

/* ---- prepared parameters ---- */

/* What kernels take, and what is as given. */
struct prepared {
    float r[PLACES + BEYOND];
    int32_t bias[PLACES + BEYOND], most[PLACES + BEYOND], left[PLACES + BEYOND];
    int32_t m[PLACES + BEYOND], half[PLACES + BEYOND], right[PLACES + BEYOND];
    int64_t given_bias[PLACES];
    struct fixed given[PLACES];
    unsigned char kind[PLACES];
};

struct job {
    const struct pq_kernels *kernels;
    const struct pq_requantization *args;
    struct pq_plan plan;
    const struct pq_channels *lead; /* whose places in memory say which channel it is */
    int64_t lowest, highest;        /* less the zero point */
    struct pq_rescale how;          /* of the places, or of all of them */
    struct {
        ptrdiff_t first, step, count, repeat, times;
    } places;
    struct prepared prepared;
};

/* 1 and 0 need no shifts; what is 0 stays so by any. */
static void set_nothing(struct prepared *to, size_t i)
{
    to->m[i] = 0;
    to->left[i] = 0;
    to->most[i] = INT32_MAX;
    to->half[i] = 1;
    to->right[i] = 1;
}

/* As upper halves of products want it: m from 2^30 on, and shifts from 33 on, before which
 * v is shifted to the left. Where v is not within what can be shifted, products are beyond
 * any code of 16 bits by far. */
static bool set_once(struct prepared *to, size_t i, int32_t m, int shift)
{
    set_nothing(to, i);
    if (m == 0) {
        return true;
    }
    for (; m < two_30; m *= 2) {
        shift++;
    }
    if (shift > 63) { /* less than 1/2 */
        return true;
    }
    if (shift < 33) {
        const int left = 33 - shift;
        if (left > 30) {
            return false;
        }
        to->left[i] = left;
        to->most[i] = (int32_t)((UINT32_C(1) << (31 - left)) - 1);
        shift = 33;
    }
    to->m[i] = m;
    to->half[i] = (int32_t)(INT64_C(1) << (shift - 33));
    to->right[i] = shift - 32;
    return true;
}

/* As struct pq_rescale has it: twice m, less 2^32; shifts by one less than those given. */
static bool set_twice(struct prepared *to, size_t i, int32_t m, int shift)
{
    set_nothing(to, i);
    if (m < two_30) {
        return false;
    }
    if (shift > 0) {
        to->left[i] = shift;
        to->most[i] = (int32_t)((UINT32_C(1) << (31 - shift)) - 1);
    }
    to->m[i] = (int32_t)(2 * (int64_t)m - (INT64_C(1) << 32));
    to->half[i] = shift < 0 ? -1 : 0;
    to->right[i] = shift < 0 ? -shift - 1 : 0;
    return true;
}

/* What kernels take of a kind at place `i`. */
PQ_NOINLINE void set_place(struct job *job, size_t i, enum pq_rescale_kind kind)
{
    struct prepared *const to = &job->prepared;
    const struct fixed by = to->given[i];
    const int shift = is_tflite(job->args->arithmetic) ? 31 - by.shift : by.shift;
    const int64_t bias = sum_of(to->given_bias[i], job->args->input_zero, 0);
    bool fits = bias >= INT32_MIN && bias <= INT32_MAX;
    to->bias[i] = fits ? (int32_t)bias : 0;
    if (kind == PQ_RESCALE_ONCE) {
        fits = set_once(to, i, by.m, shift) && fits;
    } else if (kind == PQ_RESCALE_TWICE) {
        fits = set_twice(to, i, by.m, by.shift) && fits;
    }
    to->kind[i] = (unsigned char)(fits ? kind : PQ_RESCALE_NONE);
}

static enum pq_rescale_kind kind_of(const struct job *job, const struct fixed *by)
{
    const enum pq_arithmetic arithmetic = job->args->arithmetic;
    return !is_fixed(arithmetic)                                 ? PQ_RESCALE_F32
           : arithmetic == PQ_ARITHMETIC_TFLITE && by->shift < 0 ? PQ_RESCALE_TWICE
                                                                 : PQ_RESCALE_ONCE;
}

/* Whether the `count` places from one on are of a kind, which `how` gets, and what else
 * there is to know of them all. */
static void look_at_places(struct pq_rescale *how, const struct job *job, size_t place,
                           size_t count)
{
    const struct prepared *const all = &job->prepared;
    const bool fixed = is_fixed(job->args->arithmetic);
    how->kind = (enum pq_rescale_kind)all->kind[place];
    how->least_bias = how->most_bias = all->bias[place];
    how->shifts = 0;
    how->shrinks = 1;
    for (size_t i = place; i < place + count; i++) {
        how->kind = all->kind[i] == how->kind ? how->kind : PQ_RESCALE_NONE;
        how->shifts |= fixed && all->left[i] != 0;
        how->shrinks &= all->r[i] < 1;
        how->least_bias = all->bias[i] < how->least_bias ? all->bias[i] : how->least_bias;
        how->most_bias = all->bias[i] > how->most_bias ? all->bias[i] : how->most_bias;
    }
}

/* For `each` of `n` elements to have parameters: they need to be of a kind. */
PQ_NOINLINE void join_places(struct job *job, size_t n)
{
    struct prepared *const all = &job->prepared;
    enum pq_rescale_kind kind = kind_of(job, &all->given[0]);
    for (size_t i = 0; i < n; i++) {
        const enum pq_rescale_kind other = kind_of(job, &all->given[i]);
        kind = other > kind ? other : kind;
    }
    for (size_t i = 0; i < n; i++) {
        set_place(job, i, kind);
    }
    look_at_places(&job->how, job, 0, n);
    for (size_t i = n; i < n + BEYOND; i++) { /* numbers, whatever they are */
        all->r[i] = 0;
        all->bias[i] = all->most[i] = all->left[i] = 0;
        all->m[i] = all->half[i] = all->right[i] = 0;
    }
}

/* As given, for one channel. */
PQ_NOINLINE void load_place(struct job *job, size_t i, ptrdiff_t channel)
{
    const struct pq_requantization *const args = job->args;
    struct multiplier by = {0, {0, 0}};
    load_multiplier(&by, args, channel);
    const int64_t bias = args->bias.data != NULL ? integer_at(&args->bias, channel) : 0;
    job->prepared.r[i] = by.r;
    job->prepared.given[i] = by.fixed;
    job->prepared.given_bias[i] = bias;
}

static void copy_place(struct prepared *all, size_t to, size_t from)
{
    all->r[to] = all->r[from];
    all->given[to] = all->given[from];
    all->given_bias[to] = all->given_bias[from];
}

/* ---- runs ---- */

/* Where the parameters of elements that follow each other are: from a place on, one for
 * every group of so many, or for each element of a group, and for the next one again. */
struct spread {
    size_t place, group;
    int each;
};

#define LOAD(bits, type)                                                                   \
    case bits: {                                                                           \
        type v;                                                                            \
        memcpy(&v, x, sizeof v);                                                           \
        return (int64_t)v;                                                                 \
    }

PQ_INLINE int64_t load_element(const char *x, enum pq_type in)
{
    switch (in) {
        LOAD(PQ_I8, int8_t)
        LOAD(PQ_U8, uint8_t)
        LOAD(PQ_I16, int16_t)
        LOAD(PQ_U16, uint16_t)
        LOAD(PQ_I32, int32_t)
        LOAD(PQ_U32, uint32_t)
        LOAD(PQ_I64, int64_t)
    default:
        return 0;
    }
}
#undef LOAD

PQ_INLINE void store_element(char *y, size_t size, int64_t v)
{
    const uint8_t v8 = (uint8_t)v;
    const uint16_t v16 = (uint16_t)v;
    const uint32_t v32 = (uint32_t)v;
    if (size == 1) {
        memcpy(y, &v8, sizeof v8);
    } else if (size == 2) {
        memcpy(y, &v16, sizeof v16);
    } else {
        memcpy(y, &v32, sizeof v32);
    }
}

/* One element after the other, by the definition. */
PQ_NOINLINE void run_each(const struct job *job, const char *x, char *y, size_t n,
                          struct spread spread)
{
    const struct pq_requantization *const args = job->args;
    const enum pq_arithmetic arithmetic = args->arithmetic;
    const size_t in = pq_bytes_of(args->in.type), out = pq_bytes_of(args->out.type);
    const size_t step = spread.each != 0;
    size_t place = spread.place, left = spread.group;
    for (size_t i = 0; i < n; i++, left--, place += step) {
        if (left == 0) {
            place = spread.each ? spread.place : place + 1;
            left = spread.group;
        }
        const int64_t v = sum_of(load_element(x + i * in, args->in.type), args->input_zero,
                                 job->prepared.given_bias[place]);
        int64_t r =
            is_fixed(arithmetic)
                ? fixed_product(v, arithmetic, job->prepared.given[place])
                : float_product(v, job->prepared.r[place], job->lowest, job->highest);
        r = r > job->lowest ? r : job->lowest;
        r = r < job->highest ? r : job->highest;
        store_element(y + i * out, out, r + args->zero);
    }
}

/* As int32; false where that cannot hold all. */
#define WIDEN(type)                                                                        \
    {                                                                                      \
        int64_t beyond = 0;                                                                \
        for (size_t i = 0; i < n; i++) {                                                   \
            type v;                                                                        \
            memcpy(&v, x + i * sizeof v, sizeof v);                                        \
            to[i] = (int32_t)(uint32_t)v;                                                  \
            beyond |= (int64_t)v ^ to[i];                                                  \
        }                                                                                  \
        return beyond == 0;                                                                \
    }

PQ_NOINLINE bool widen(int32_t *PQ_RESTRICT to, const char *PQ_RESTRICT x,
                       enum pq_type type, size_t n)
{
    switch (type) {
    case PQ_I8:
        WIDEN(int8_t)
    case PQ_U8:
        WIDEN(uint8_t)
    case PQ_I16:
        WIDEN(int16_t)
    case PQ_U16:
        WIDEN(uint16_t)
    case PQ_U32:
        WIDEN(uint32_t)
    default:
        WIDEN(int64_t)
    }
}
#undef WIDEN

PQ_NOINLINE bool run_kernel(const struct job *job, const struct pq_rescale *how,
                            const char *x, char *y, size_t n)
{
    int32_t wide[PLACES];
    const enum pq_type type = job->args->in.type;
    if (type == PQ_I32) {
        return job->kernels->rescale(how, x, y, n) != 0;
    }
    return widen(wide, x, type, n) && job->kernels->rescale(how, wide, y, n) != 0;
}

/* Elements that follow each other: of one group, or of groups of no more than PLACES, all
 * of a kind. */
PQ_NOINLINE void run_row(const struct job *job, const char *x, char *y, size_t n,
                         struct spread spread)
{
    const struct prepared *const all = &job->prepared;
    const size_t in = pq_bytes_of(job->args->in.type);
    const size_t out = pq_bytes_of(job->args->out.type);
    const size_t least = job->args->in.type == PQ_I32 ? PIECE : PLACES;
    const size_t most = spread.group < n ? least / spread.group * spread.group : least;
    struct pq_rescale how = job->how;
    how.each = spread.each;
    how.group = spread.group;
    if (!spread.each) {
        look_at_places(&how, job, spread.place, (n - 1) / spread.group + 1);
    }
    for (size_t done = 0, m; done < n; done += m) {
        const size_t place = spread.place + (spread.each ? 0 : done / spread.group);
        const struct spread rest = {place, spread.group, spread.each};
        m = n - done < most ? n - done : most;
        how.r = all->r + place;
        how.bias = all->bias + place;
        how.most = all->most + place;
        how.left = all->left + place;
        how.m = all->m + place;
        how.half = all->half + place;
        how.right = all->right + place;
        if (how.kind == PQ_RESCALE_NONE || out > 2 ||
            !run_kernel(job, &how, x + done * in, y + done * out, m)) {
            run_each(job, x + done * in, y + done * out, m, rest);
        }
    }
}

/* Some of dimensions 0 and 1, at most PLACES elements unless both sides are contiguous. */
struct area {
    ptrdiff_t row, rows, column, columns;
};

PQ_NOINLINE void run_area(struct job *job, struct pq_cursor at, struct area area,
                          struct spread spread)
{
    const struct pq_requantization *const args = job->args;
    const struct pq_dim *const dim = job->plan.dim;
    const struct pq_tile in = {area.rows,
                               area.columns,
                               dim[1].in,
                               dim[0].in,
                               pq_bytes_of(args->in.type),
                               args->in.swapped && pq_bytes_of(args->in.type) > 1};
    const struct pq_tile out = {area.rows,
                                area.columns,
                                dim[1].out,
                                dim[0].out,
                                pq_bytes_of(args->out.type),
                                args->out.swapped && pq_bytes_of(args->out.type) > 1};
    char from[PLACES * sizeof(int64_t)], to[PLACES * sizeof(int32_t)];
    const char *x = at.in + area.row * dim[1].in + area.column * dim[0].in;
    char *const y = at.out + area.row * dim[1].out + area.column * dim[0].out;
    if (!pq_tile_direct(&in)) {
        pq_gather(job->kernels, from, x, &in);
        x = from;
    }
    char *const result = pq_tile_direct(&out) ? y : to;
    run_row(job, x, result, (size_t)(area.rows * area.columns), spread);
    if (result != y) {
        pq_scatter(job->kernels, y, to, &out);
    }
}

/* ---- the walk ---- */

static ptrdiff_t channel_of(const struct job *job, const char *at)
{
    return job->lead == NULL ? 0 : (at - (const char *)job->lead->data) / job->lead->stride;
}

/* Where the walk is among channels: index `i` of a dimension has that of its group. */
struct channels {
    ptrdiff_t first, step, block; /* of index 0, from group to group, indices to a group */
};

static struct channels channels_along(const struct job *job, struct pq_cursor at,
                                      const struct pq_dim *dim)
{
    const ptrdiff_t first = channel_of(job, at.scale);
    const ptrdiff_t step = dim->scale == 0 ? 0 : dim->scale / job->lead->stride;
    return (struct channels){first, step, dim->block};
}

static bool are_there(const struct job *job, ptrdiff_t first, ptrdiff_t step,
                      ptrdiff_t count, ptrdiff_t repeat, ptrdiff_t times)
{
    return job->places.first == first && job->places.step == step &&
           job->places.count == count && job->places.repeat == repeat &&
           job->places.times == times;
}

/* Parameters of `count` groups from `group` on, a place for each. */
PQ_NOINLINE void prepare_groups(struct job *job, struct channels along, ptrdiff_t group,
                                ptrdiff_t count)
{
    const ptrdiff_t first = along.first + group * along.step;
    if (are_there(job, first, along.step, count, 0, 0)) {
        return;
    }
    for (ptrdiff_t i = 0; i < count; i++) {
        const size_t place = (size_t)i;
        load_place(job, place, first + i * along.step);
        set_place(job, place, kind_of(job, &job->prepared.given[place]));
    }
    job->places.first = first;
    job->places.step = along.step;
    job->places.count = count;
    job->places.repeat = job->places.times = 0;
}

/* Those of `columns` elements from `column` on, a place for each, `times` over. */
PQ_NOINLINE void prepare_each(struct job *job, struct channels along, ptrdiff_t column,
                              ptrdiff_t columns, ptrdiff_t times)
{
    const ptrdiff_t key = along.first * along.block + column * along.step;
    if (are_there(job, key, along.step, columns, along.block, times)) {
        return;
    }
    for (ptrdiff_t i = 0; i < columns; i++) {
        const ptrdiff_t group = (column + i) / along.block;
        if (i > 0 && (column + i) % along.block != 0) {
            copy_place(&job->prepared, (size_t)i, (size_t)i - 1);
        } else {
            load_place(job, (size_t)i, along.first + group * along.step);
        }
    }
    for (ptrdiff_t i = columns; i < columns * times; i++) {
        copy_place(&job->prepared, (size_t)i, (size_t)(i - columns));
    }
    join_places(job, (size_t)(columns * times));
    job->places.first = key;
    job->places.step = along.step;
    job->places.count = columns;
    job->places.repeat = along.block;
    job->places.times = times;
}

static ptrdiff_t smaller(ptrdiff_t a, ptrdiff_t b)
{
    return a < b ? a : b;
}

static bool is_contiguous(const struct job *job)
{
    const struct pq_dim *const dim = job->plan.dim;
    const struct pq_array *const in = &job->args->in, *const out = &job->args->out;
    const bool swapped = (in->swapped && pq_bytes_of(in->type) > 1) ||
                         (out->swapped && pq_bytes_of(out->type) > 1);
    return !swapped && dim[0].in == (ptrdiff_t)pq_bytes_of(in->type) &&
           dim[0].out == (ptrdiff_t)pq_bytes_of(out->type);
}

/* Columns of an area under one pair of parameters. */
static ptrdiff_t columns_at_once(const struct job *job)
{
    const struct pq_dim *const dim = job->plan.dim;
    const ptrdiff_t in[] = {dim[0].in < 0 ? -dim[0].in : dim[0].in,
                            dim[1].in < 0 ? -dim[1].in : dim[1].in};
    const bool crosswise = dim[1].end - dim[1].begin > 1 && in[1] < in[0];
    return is_contiguous(job) ? PTRDIFF_MAX : crosswise ? FEWER : PLACES;
}

/* Rows and columns that share the parameters at a place. */
static void run_same(struct job *job, struct pq_cursor at, struct area all, size_t place)
{
    const ptrdiff_t most = smaller(columns_at_once(job), all.columns);
    const ptrdiff_t rows = most < PLACES ? PLACES / most : 1;
    struct area area;
    for (ptrdiff_t c = 0; c < all.columns; c += most) {
        area.column = all.column + c;
        area.columns = smaller(all.columns - c, most);
        for (ptrdiff_t r = 0; r < all.rows; r += rows) {
            area.row = all.row + r;
            area.rows = smaller(all.rows - r, rows);
            run_area(job, at, area,
                     (struct spread){place, (size_t)(area.rows * area.columns), 0});
        }
    }
}

/* Contiguous groups of a row from a place on, whole ones: as many as are of a kind. */
static void run_whole(struct job *job, struct pq_cursor at, struct area area, size_t place,
                      ptrdiff_t block)
{
    const unsigned char *const kind = job->prepared.kind;
    const size_t groups = (size_t)(area.columns / block);
    for (size_t done = 0, count; done < groups; done += count) {
        const struct spread spread = {place + done, (size_t)block, 0};
        for (count = 1; done + count < groups; count++) {
            if (kind[spread.place + count] != kind[spread.place]) {
                break;
            }
        }
        area.columns = (ptrdiff_t)count * block;
        run_area(job, at, area, spread);
        area.column += area.columns;
    }
}

/* Groups of dimension 0 are long enough. */
static void run_groups(struct job *job, struct pq_cursor at, struct channels along)
{
    const struct pq_dim *const dim = job->plan.dim;
    const ptrdiff_t block = along.block, last = (dim[0].end - 1) / block;
    const bool many = is_contiguous(job) && block <= PLACES && dim[0].begin % block == 0 &&
                      dim[0].end % block == 0;
    for (ptrdiff_t group = dim[0].begin / block; group <= last; group += PLACES) {
        const ptrdiff_t groups = smaller(PLACES, last - group + 1);
        prepare_groups(job, along, group, groups);
        for (ptrdiff_t r = dim[1].begin; r < dim[1].end; r++) {
            if (many) {
                const struct area all = {r, 1, group * block, groups * block};
                run_whole(job, at, all, 0, block);
            }
            for (ptrdiff_t g = group; !many && g < group + groups; g++) {
                const ptrdiff_t from = g * block;
                const ptrdiff_t begin = from > dim[0].begin ? from : dim[0].begin;
                const ptrdiff_t end = smaller(from + block, dim[0].end);
                const struct area all = {r, 1, begin, end - begin};
                run_same(job, at, all, (size_t)(g - group));
            }
        }
    }
}

/* Dimension 0 selects no parameters; dimension 1 may, which then has rows for groups. */
static void run_uniform(struct job *job, struct pq_cursor at)
{
    const struct pq_dim *const dim = job->plan.dim;
    const struct channels along = channels_along(job, at, &dim[1]);
    const ptrdiff_t columns = dim[0].end - dim[0].begin;
    if (along.step == 0) {
        const struct area all = {dim[1].begin, dim[1].end - dim[1].begin, dim[0].begin,
                                 columns};
        prepare_groups(job, along, 0, 1);
        run_same(job, at, all, 0);
        return;
    }
    for (ptrdiff_t r = dim[1].begin; r < dim[1].end;) {
        const ptrdiff_t group = r / along.block;
        const ptrdiff_t groups =
            smaller(PLACES, (dim[1].end - 1) / along.block - group + 1);
        prepare_groups(job, along, group, groups);
        for (ptrdiff_t g = 0; g < groups; g++) {
            const ptrdiff_t end = smaller((group + g + 1) * along.block, dim[1].end);
            const struct area all = {r, end - r, dim[0].begin, columns};
            run_same(job, at, all, (size_t)g);
            r = end;
        }
    }
}

/* Whether rows follow each other on both sides. */
static bool is_dense(const struct job *job)
{
    const struct pq_dim *const dim = job->plan.dim;
    const ptrdiff_t columns = dim[0].end - dim[0].begin;
    return is_contiguous(job) && dim[1].in == columns * dim[0].in &&
           dim[1].out == columns * dim[0].out;
}

/* They are not, or channels are the elements themselves. */
static void run_elements(struct job *job, struct pq_cursor at, struct channels along)
{
    const struct pq_dim *const dim = job->plan.dim;
    const ptrdiff_t most = smaller(columns_at_once(job), PLACES);
    const ptrdiff_t all = dim[0].end - dim[0].begin, count = dim[1].end - dim[1].begin;
    struct area area;
    for (area.column = dim[0].begin; area.column < dim[0].end;
         area.column += area.columns) {
        area.columns = smaller(smaller(most, all), dim[0].end - area.column);
        const ptrdiff_t rows = smaller(PLACES / area.columns, count);
        const struct spread spread = {0, (size_t)(area.columns * rows), 1};
        const ptrdiff_t step = area.columns == all && is_dense(job) ? count : rows;
        prepare_each(job, along, area.column, area.columns, rows);
        for (area.row = dim[1].begin; area.row < dim[1].end; area.row += area.rows) {
            area.rows = smaller(dim[1].end - area.row, step);
            run_area(job, at, area, spread);
        }
    }
}

static void visit(void *p, struct pq_cursor at)
{
    struct job *const job = p;
    const struct pq_dim *const dim = job->plan.dim;
    if (dim[0].scale == 0) {
        run_uniform(job, at);
        return;
    }
    const struct channels along = channels_along(job, at, &dim[0]);
    if (along.block >= SHORT) {
        run_groups(job, at, along);
    } else {
        run_elements(job, at, along);
    }
}

/* ---- checks ---- */

/* The extent that channels have, or 1. */
static ptrdiff_t channels_of(const struct pq_requantization *args)
{
    const bool many = (args->multiplier.stride != 0) ||
                      (args->shift.data != NULL && args->shift.stride != 0) ||
                      (args->bias.data != NULL && args->bias.stride != 0);
    return many ? args->shape[args->axis] : 1;
}

/* Whether the numbers of all channels can be addressed. */
PQ_RARE bool have_span(const struct pq_requantization *args, struct pq_args *arrays)
{
    const struct pq_channels *const all[] = {&args->multiplier, &args->shift, &args->bias};
    ptrdiff_t strides[PQ_MAX_NDIM] = {0};
    bool have = true;
    for (int i = 0; i < 3 && channels_of(args) > 1; i++) {
        struct pq_array array = {.data = arrays->in.data, .strides = strides};
        strides[args->axis] = all[i]->data != NULL ? all[i]->stride : 0;
        have = have && pq_check_array(arrays, &array, true) == PQ_OK;
    }
    return have;
}

static bool has_axis(const struct pq_requantization *args)
{
    return (args->multiplier.stride == 0 &&
            (args->shift.data == NULL || args->shift.stride == 0) &&
            (args->bias.data == NULL || args->bias.stride == 0)) ||
           (args->axis >= 0 && args->axis < args->ndim);
}

/* int8 to int64 and uint8 to uint32, which follow each other in pq.h. */
static bool is_summed(enum pq_type type)
{
    return type >= PQ_I8 && type <= PQ_I64;
}

PQ_RARE bool are_types(const struct pq_requantization *args)
{
    const enum pq_type out = args->out.type, by = args->multiplier.type;
    const bool suits = args->shift.data != NULL
                           ? is_summed(by) && is_summed(args->shift.type)
                           : by == PQ_F32 || by == PQ_F64;
    return suits && is_summed(args->in.type) && out >= PQ_I8 && out <= PQ_I32 &&
           args->in.bit_strides == NULL && args->out.bit_strides == NULL &&
           (args->bias.data == NULL || is_summed(args->bias.type));
}

_Static_assert(PQ_I64 == PQ_I8 + 6 && PQ_I32 == PQ_I8 + 4, "types are in another order");

static bool is_within(int64_t v, struct pq_range range)
{
    return v >= range.lo && v <= range.hi;
}

PQ_RARE enum pq_status check_numbers(const struct pq_requantization *args)
{
    const struct pq_range codes = pq_range_of(args->out.type);
    const bool fixed = is_fixed(args->arithmetic);
    if ((int)args->arithmetic < 0 || args->arithmetic >= PQ_ARITHMETIC_COUNT ||
        (args->shift.data != NULL && !fixed)) {
        return PQ_ERR_OPTION;
    }
    if (!is_within(args->zero, codes) ||
        !is_within(args->input_zero, pq_range_of(args->in.type))) {
        return PQ_ERR_ZERO;
    }
    if (args->clips &&
        !(is_within(args->lowest_code, codes) && is_within(args->highest_code, codes) &&
          args->lowest_code <= args->highest_code)) {
        return PQ_ERR_OPTION;
    }
    const ptrdiff_t count =
        args->multiplier.stride == 0 && (!fixed || args->shift.stride == 0)
            ? 1
            : channels_of(args);
    struct multiplier by;
    for (ptrdiff_t c = 0; c < count; c++) {
        if (!load_multiplier(&by, args, c)) {
            return PQ_ERR_OPTION;
        }
    }
    return PQ_OK;
}

static enum pq_status check(const struct pq_kernels *kernels,
                            const struct pq_requantization *args, struct pq_args *arrays,
                            int part, int parts)
{
    enum pq_status status = pq_check_shape(arrays);
    if (status != PQ_OK) {
        return status;
    }
    if (kernels == NULL || args->multiplier.data == NULL) {
        return PQ_ERR_NULL;
    }
    status = pq_check_array(arrays, &arrays->in, false);
    if (status == PQ_OK) {
        status = pq_check_array(arrays, &arrays->out, false);
    }
    if (status != PQ_OK) {
        return status;
    }
    if (part < 0 || part >= parts) {
        return PQ_ERR_PART;
    }
    if (!are_types(args)) {
        return PQ_ERR_TYPE;
    }
    return has_axis(args) && have_span(args, arrays) ? check_numbers(args) : PQ_ERR_SHAPE;
}

/* ---- the call ---- */

static const struct pq_channels *lead_of(const struct pq_requantization *args)
{
    return args->multiplier.stride != 0                          ? &args->multiplier
           : args->shift.data != NULL && args->shift.stride != 0 ? &args->shift
           : args->bias.data != NULL && args->bias.stride != 0   ? &args->bias
                                                                 : NULL;
}

/* What has passed all checks. Channels walk with the elements as scales do elsewhere. */
static enum pq_status run_part(struct job *job, struct pq_args *arrays, int part, int parts)
{
    const struct pq_requantization *const args = job->args;
    const struct pq_range codes = pq_range_of(args->out.type);
    ptrdiff_t strides[PQ_MAX_NDIM] = {0};
    job->lead = channels_of(args) > 1 ? lead_of(args) : NULL;
    if (job->lead != NULL) {
        strides[args->axis] = job->lead->stride;
        arrays->scale.data = (void *)(uintptr_t)job->lead->data;
        arrays->scale.strides = strides;
    }
    job->lowest = (args->clips ? args->lowest_code : codes.lo) - args->zero;
    job->highest = (args->clips ? args->highest_code : codes.hi) - args->zero;
    job->how = (struct pq_rescale){.out = args->out.type, .clips = args->clips != 0};
    if (pq_bytes_of(args->out.type) <= 2) {
        job->how.zero = (int32_t)args->zero;
        job->how.lowest = (int32_t)job->lowest;
        job->how.highest = (int32_t)job->highest;
    }
    memset(&job->places, 0, sizeof job->places); /* none are there */
    const enum pq_status status =
        pq_plan_init(&job->plan, arrays, pq_bytes_of(args->out.type));
    if (status == PQ_OK) {
        pq_plan_part(&job->plan, part, parts, 1);
    }
    if (status == PQ_OK && !job->plan.empty) {
        pq_walk(&job->plan, 2, visit, job);
    }
    return status;
}

enum pq_status pq_requantize(const struct pq_kernels *kernels,
                             const struct pq_requantization *args, int part, int parts)
{
    struct pq_requantization room;
    const void *given = args;
    if (args == NULL) {
        return PQ_ERR_NULL;
    }
    enum pq_status status = pq_known_struct(&given, &room, sizeof room, sizeof room);
    if (status != PQ_OK) {
        return status;
    }
    args = given;
    struct pq_args arrays = {.size = sizeof arrays,
                             .ndim = args->ndim,
                             .shape = args->shape,
                             .in = args->in,
                             .out = args->out};
    const pq_fpenv found = pq_fpenv_enter();
    status = check(kernels, args, &arrays, part, parts);
    if (status == PQ_OK) {
        struct job job;
        job.kernels = kernels;
        job.args = args;
        status = run_part(&job, &arrays, part, parts);
    }
    pq_fpenv_leave(found);
    return status;
}
