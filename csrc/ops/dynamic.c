/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_quantize: parameters of the data, and its codes, while caches hold it. */
#include <math.h>

#include "args.h"
#include "engine/job.h"
#include "engine/reduce.h"
#include "engine/slabs.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"

enum {
    SLAB = 1 << 17,  /* bytes of input that stay near until they are quantized */
    PIECE = 1 << 16, /* the same, nearer */
    GROUPS = 512,    /* at most */
    FEW_GROUPS = 8   /* fewer groups use the kernel of one group */
};

/* ---- slabs ---- */

struct slabs {
    const struct pq_kernels *kernels;
    const struct pq_choice *choice;
    bool no_zeros; /* codes take no zero points, though some are written */
};

static enum pq_status run_slab(void *what, const struct pq_args *slab,
                               const ptrdiff_t *first)
{
    const struct slabs *const slabs = what;
    struct pq_args args = *slab;
    (void)first;
    PQ_TRY(pq_choose_params(slabs->kernels, slab, slabs->choice, 0, 1));
    if (slabs->no_zeros) {
        args.zero.data = NULL;
    }
    return pq_quantize(slabs->kernels, &args, 0, 1);
}

/* For what is said of arguments in every part, also in one without slabs. */
static enum pq_status search_nothing(void *context, const struct pq_kernels *kernels,
                                     const struct pq_args *args, bool all_numbers,
                                     pq_cells_fn *take, void *what, int part, int parts)
{
    (void)context, (void)kernels, (void)args, (void)all_numbers;
    (void)take, (void)what, (void)part, (void)parts;
    return PQ_OK;
}

/* ---- contiguous groups ---- */

/* [0] the lowest, [1] the highest. */
union ends {
    float single[2][GROUPS];
    double wide[2][GROUPS];
};

struct finder {
    pq_minmax_fn *run;
    pq_minmax_groups_fn *groups;
    pq_magnitude_fn *magnitude; /* null: extrema are needed */
    bool wide;
    size_t size; /* bytes of an element */
    union ends ends;
};

static void *end_at(struct finder *finder, int which, size_t k)
{
    return finder->wide ? (void *)(finder->ends.wide[which] + k)
                        : finder->ends.single[which] + k;
}

/* Elements of one group. */
static void find_ends(struct finder *finder, size_t k, const char *x, size_t n,
                      uint32_t *bits)
{
    if (finder->wide) {
        finder->ends.wide[0][k] = HUGE_VAL;
        finder->ends.wide[1][k] = -HUGE_VAL;
    } else {
        finder->ends.single[0][k] = INFINITY;
        finder->ends.single[1][k] = -INFINITY;
    }
    finder->run(x, n, end_at(finder, 0, k), end_at(finder, 1, k), bits);
}

/*
 * Magnitudes in place of extrema, of long groups. Scales of symmetric codes depend on
 * nothing else, unless they are so small or so large that their neighbours are tried.
 * Whether it was done; if not, what is not finite is for others to find.
 */
static bool find_magnitudes(struct finder *finder, const char *x, size_t n, size_t g)
{
    enum { LONG = 4 * PQ_MAGNITUDES, LEAST = (127 - 79) << 23, MOST = (127 + 119) << 23 };
    if (finder->magnitude == NULL || g < LONG) {
        return false;
    }
    for (size_t k = 0, left = n; left > 0; k++) {
        const size_t m = left < g ? left : g;
        const uint32_t bits =
            m < PQ_MAGNITUDES ? 0 : finder->magnitude(x + k * g * finder->size, m);
        if (bits < LEAST || bits > MOST) {
            return false;
        }
        finder->ends.single[1][k] = pq_f32_bits(bits);
        finder->ends.single[0][k] = -finder->ends.single[1][k];
        left -= m;
    }
    return true;
}

/* Of all groups of `g` among `n` elements; whether all are finite. */
static bool find_all(struct finder *finder, const char *x, size_t n, size_t g)
{
    uint32_t bits = 0;
    size_t k = 0;
    if (find_magnitudes(finder, x, n, g)) {
        return true;
    }
    if (n / g >= FEW_GROUPS) {
        k = n / g;
        finder->groups(x, k, g, end_at(finder, 0, 0), end_at(finder, 1, 0), &bits);
    }
    for (; k * g < n; k++) {
        const size_t left = n - k * g;
        find_ends(finder, k, x + k * g * finder->size, left < g ? left : g, &bits);
    }
    return bits < PQ_INFINITY_BITS;
}

struct grouped {
    struct pq_job job;
    bool by_magnitude;
};

/* Whether magnitudes are all that scales of float32 data are made of. */
static bool is_by_magnitude(const struct pq_args *args, const struct pq_choice *choice)
{
    const enum pq_type code = args->out.type;
    const bool is_signed =
        pq_is_narrow_float(code) || (pq_is_integer(code) && pq_range_of(code).lo < 0);
    return args->in.type == PQ_F32 && args->scale.type == PQ_F32 && is_signed &&
           (choice->rule == PQ_RULE_SYMMETRIC || choice->rule == PQ_RULE_USUAL) &&
           choice->like == PQ_LIKE_PYQUANT && choice->lowest_code == 0 &&
           choice->highest_code == 0;
}

/* Some groups after the other: extrema, what is chosen of them, and codes. */
static enum pq_status run_groups(void *context, const struct pq_kernels *kernels,
                                 const struct pq_args *args, bool all_numbers,
                                 pq_cells_fn *take, void *what, int part, int parts)
{
    struct grouped *const grouped = context;
    struct pq_job *const job = &grouped->job;
    const struct pq_dim *const dim = &job->plan.dim[0];
    const int row = args->in.type == PQ_F64 ? PQ_F64_ROW : pq_row_of(args->in.type);
    struct finder finder = {.run = kernels->minmax[row],
                            .groups = kernels->minmax_groups[row],
                            .magnitude = grouped->by_magnitude ? kernels->magnitude : NULL,
                            .wide = args->in.type == PQ_F64,
                            .size = job->in_size};
    const ptrdiff_t g = dim->group_size, all = (dim->end - 1) / g + 1;
    /* No two parts have bits of a byte. */
    const ptrdiff_t unit = job->pack.bits != 0 ? 8 : 1, units = (all - 1) / unit + 1;
    const ptrdiff_t share = units / parts, more = units % parts;
    const ptrdiff_t begin = (share * part + (part < more ? part : more)) * unit;
    const ptrdiff_t due = begin + (share + (part < more ? 1 : 0)) * unit;
    const ptrdiff_t end = due < all ? due : all;
    const ptrdiff_t near = PIECE / (g * dim->in), some = near < GROUPS ? near : GROUPS;
    const ptrdiff_t step = some > 0 ? some : 1;
    enum pq_status status = PQ_OK;
    (void)all_numbers;
    const pq_fpenv found = pq_fpenv_enter();
    for (ptrdiff_t k = begin; k < end && status == PQ_OK; k += step) {
        const struct pq_position at =
            pq_position_at(pq_position_start(&job->plan), dim, k * g);
        const ptrdiff_t stop = (k + step < end ? k + step : end) * g;
        const size_t n = (size_t)((stop < dim->end ? stop : dim->end) - k * g);
        if (!find_all(&finder, at.in, n, (size_t)g)) {
            status = PQ_ERR_NONFINITE;
            break;
        }
        const struct pq_cells cells = {
            .n = (n - 1) / (size_t)g + 1,
            .lowest = end_at(&finder, 0, 0),
            .highest = end_at(&finder, 1, 0),
            /* The caller's own arrays, reached through the plan's const pointers. */
            .scale = (char *)(uintptr_t)at.scale,
            .zero = (char *)(uintptr_t)at.zero,
            .scale_stride = dim->scale,
            .zero_stride = dim->zero,
        };
        take(what, &cells);
        pq_job_run_groups(job, at, n, (size_t)g);
    }
    pq_fpenv_leave(found);
    return status;
}

/* Whether groups follow each other on both sides, and codes are of a type for which it does
 * not matter what zero points there will be. */
static bool are_groups(const struct pq_job *job, const struct pq_choice *choice)
{
    const struct pq_dim *const dim = &job->plan.dim[0];
    return pq_job_is_groups(job) && !pq_dim_uniform(dim) && dim->scale != 0 &&
           dim->zero != 0 && !pq_is_32_bit(job->how.run.out) && !job->in_swapped &&
           choice->rule != PQ_RULE_ONNX_DYNAMIC;
}

/* ---- calls ---- */

/* The job of quantizing, but for what its zero points are, which there are none of yet. */
static enum pq_status make_job(struct pq_job *job, const struct pq_kernels *kernels,
                               const struct pq_args *args, enum pq_type code)
{
    struct pq_args without = *args;
    without.zero.data = NULL;
    if (!pq_is_real(args->in.type) || args->out.type != code) {
        return PQ_ERR_TYPE;
    }
    PQ_TRY(pq_quantize_method(&job->how, kernels, &without));
    return pq_job_init(job, kernels, args);
}

/* The code that a choice is for. */
static enum pq_type code_of(const struct pq_choice *choice)
{
    return choice->code != PQ_NO_TYPE             ? choice->code
           : choice->rule == PQ_RULE_ONNX_DYNAMIC ? PQ_U8
                                                  : PQ_I8;
}

enum pq_status pq_dynamic_quantize(const struct pq_kernels *kernels,
                                   const struct pq_args *args,
                                   const struct pq_choice *given, int part, int parts)
{
    enum { LEAST = offsetof(struct pq_choice, rule) + sizeof(enum pq_rule) };
    struct pq_args room, ranged;
    struct pq_choice choice_room;
    struct grouped grouped;
    const void *known = given;
    if (given == NULL) {
        return PQ_ERR_NULL;
    }
    PQ_TRY(pq_known_struct(&known, &choice_room, sizeof choice_room, LEAST));
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    if (args->zero.data == NULL) {
        return PQ_ERR_NULL;
    }
    const struct pq_choice *const choice = known;
    ranged = *args; /* the codes of parameters are those that there may be */
    if (choice->lowest_code != 0 || choice->highest_code != 0) {
        ranged.lowest_code = choice->lowest_code;
        ranged.highest_code = choice->highest_code;
    }
    args = &ranged;
    PQ_TRY(make_job(&grouped.job, kernels, args, code_of(choice)));
    if (pq_is_empty(args)) {
        return pq_choose_params(kernels, args, choice, part, parts);
    }
    const bool no_zeros = pq_is_narrow_float(args->out.type);
    if (are_groups(&grouped.job, choice)) {
        grouped.job.zero_given = !no_zeros;
        grouped.by_magnitude = is_by_magnitude(args, choice);
        return pq_choose_params_by(run_groups, &grouped, kernels, args, choice, part,
                                   parts);
    }
    struct slabs slabs = {kernels, choice, no_zeros};
    PQ_TRY(pq_choose_params_by(search_nothing, NULL, kernels, args, choice, part, parts));
    return pq_for_slabs(args, true, SLAB, run_slab, &slabs, part, parts);
}
