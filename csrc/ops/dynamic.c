/* SPDX-License-Identifier: Apache-2.0 */
/* dynamic_quantize: choose the parameters of some groups, and quantize these groups while
 * the groups are in the caches. A slab is a part of a call that fits the caches. */
#include <math.h>

#include "args.h"
#include "engine/job.h"
#include "engine/reduce.h"
#include "engine/slabs.h"
#include "math/fpenv.h"
#include "math/scalar_math.h"
#include "ops/presets.h"

enum {
    CACHED_INPUT_BYTES =
        PQ_SIZE(1 << 16, 1 << 10),           /* maximum number of input bytes of a tile */
    TILE_GROUPS = PQ_SIZE(PQ_MOST_CELLS, 16) /* largest number of groups of a tile */
};

/* ---- slabs ---- */

struct slabs {
    const struct pq_kernels *kernels;
    const struct pq_choice *choice;
    bool no_zeros; /* codes are narrow floats, so all zero points are 0 */
};

/* Choose the parameters of a slab, and quantize the slab. */
static enum pq_status run_slab(void *what, const struct pq_args *slab,
                               const ptrdiff_t *first)
{
    const struct slabs *const slabs = what;
    struct pq_args args = *slab;
    (void)first;
    PQ_TRY(pq_choose_params_by(pq_find_extrema, NULL, slabs->kernels, slab,
                               PQ_ACCEPTS_DYNAMIC, slabs->choice, 0, 1));
    if (slabs->no_zeros) {
        args.zero.data = NULL;
    }
    return pq_quantize(slabs->kernels, &args, 0, 1);
}

/* ---- contiguous groups ---- */

struct finder {
    pq_minmax_fn *run;
    pq_minmax_groups_fn *groups;
    pq_magnitude_fn *magnitude; /* finds magnitudes; null: this call needs extrema */
    bool is_f64;
    size_t size; /* number of bytes of an element */
    union pq_cell_extrema extrema;
};

/* Find the largest magnitude of each group of `g` elements, instead of extrema. Return
 * false if groups are short, or if the bits of a magnitude are outside [MIN_BITS,
 * MAX_BITS], as the bits of NaN and infinities are. The caller then finds extrema, because
 * very small and very large symmetric scales do not depend on the magnitude alone. */
static bool find_magnitudes(struct finder *finder, const char *x, size_t n, size_t g)
{
    enum {
        LONG_GROUP_ELEMENTS = 4 * PQ_MAGNITUDES,
        MIN_BITS = (127 - 79) << 23,
        MAX_BITS = (127 + 119) << 23
    };
    if (finder->magnitude == NULL || g < LONG_GROUP_ELEMENTS) {
        return false;
    }
    for (size_t k = 0, left = n; left > 0; k++) {
        const size_t m = left < g ? left : g;
        const uint32_t bits =
            m < PQ_MAGNITUDES ? 0 : finder->magnitude(x + k * g * finder->size, m);
        if (bits < MIN_BITS || bits > MAX_BITS) {
            return false;
        }
        finder->extrema.f32[1][k] = pq_f32_bits(bits);
        finder->extrema.f32[0][k] = -finder->extrema.f32[1][k];
        left -= m;
    }
    return true;
}

/* Find the extrema of each group of `g` elements among `n` elements. Return true if all
 * elements are finite. */
static bool find_extrema(struct finder *finder, const char *x, size_t n, size_t g)
{
    uint32_t bits = 0;
    size_t k = 0;
    if (find_magnitudes(finder, x, n, g)) {
        return true;
    }
    if (n / g >= PQ_FEW_GROUPS) {
        k = n / g;
        finder->groups(x, k, g, pq_cell_extremum(&finder->extrema, finder->is_f64, 0, 0),
                       pq_cell_extremum(&finder->extrema, finder->is_f64, 1, 0), &bits);
    }
    for (; k * g < n; k++) {
        const size_t left = n - k * g;
        void *const lowest = pq_cell_extremum(&finder->extrema, finder->is_f64, 0, k),
                    *highest = pq_cell_extremum(&finder->extrema, finder->is_f64, 1, k);
        pq_clear_extrema(lowest, highest, finder->is_f64, 1);
        finder->run(x + k * g * finder->size, left < g ? left : g, lowest, highest, &bits);
    }
    return bits < PQ_INFINITY_BITS;
}

struct grouped {
    struct pq_job job;
    bool by_magnitude;
};

/* Return true if magnitudes can replace extrema, because scales are symmetric and data is
 * float32. */
static bool depends_on_magnitude(const struct pq_args *args, const struct pq_choice *choice)
{
    const bool is_signed =
        pq_usual_rule(PQ_LIKE_PYQUANT, args->out.type) == PQ_RULE_SYMMETRIC;
    return args->in.type == PQ_F32 && args->scale.type == PQ_F32 && is_signed &&
           (choice->rule == PQ_RULE_SYMMETRIC || choice->rule == PQ_RULE_USUAL) &&
           choice->like == PQ_LIKE_PYQUANT && !pq_is_range_given(choice);
}

/* For each tile of a part: find the extrema of the groups, choose the parameters, and
 * quantize the groups. */
static enum pq_status run_groups(void *context, const struct pq_kernels *kernels,
                                 const struct pq_args *args, bool all_numbers,
                                 pq_cells_fn *take, void *what, int part, int parts)
{
    struct grouped *const grouped = context;
    struct pq_job *const job = &grouped->job;
    const struct pq_dim *const dim = &job->plan.dim[0];
    const int row = pq_extrema_row(args->in.type);
    struct finder finder = {.run = kernels->minmax[row],
                            .groups = kernels->minmax_groups[row],
                            .magnitude = grouped->by_magnitude ? kernels->magnitude : NULL,
                            .is_f64 = args->in.type == PQ_F64,
                            .size = job->in_size};
    const ptrdiff_t g = dim->group_size, all = (dim->end - 1) / g + 1;
    /* Parts begin at multiples of `unit` groups, so that no two parts write to one byte. */
    const ptrdiff_t unit = pq_alignment_elements(job), units = (all - 1) / unit + 1;
    const struct pq_share share = pq_share_of(units, part, parts);
    const ptrdiff_t begin = share.begin * unit;
    const ptrdiff_t end = share.end * unit < all ? share.end * unit : all;
    const ptrdiff_t near = CACHED_INPUT_BYTES / (g * dim->in);
    const ptrdiff_t some = near < TILE_GROUPS ? near : TILE_GROUPS;
    const ptrdiff_t step = some > 0 ? some : 1;
    enum pq_status status = PQ_OK;
    (void)all_numbers;
    const pq_fpenv found = pq_fpenv_enter();
    for (ptrdiff_t k = begin; k < end && status == PQ_OK; k += step) {
        const struct pq_position at =
            pq_position_at(pq_position_start(&job->plan), dim, k * g);
        const ptrdiff_t stop = (k + step < end ? k + step : end) * g;
        const size_t n = (size_t)((stop < dim->end ? stop : dim->end) - k * g);
        if (!find_extrema(&finder, at.in, n, (size_t)g)) {
            status = PQ_ERR_NONFINITE;
            break;
        }
        const struct pq_cells cells = {
            .n = (n - 1) / (size_t)g + 1,
            .lowest = pq_cell_extremum(&finder.extrema, finder.is_f64, 0, 0),
            .highest = pq_cell_extremum(&finder.extrema, finder.is_f64, 1, 0),
            /* The plan has const pointers to the caller's arrays, which are outputs here.
             */
            .scale = (char *)(uintptr_t)at.params.scale,
            .zero = (char *)(uintptr_t)at.params.zero,
            .scale_stride = dim->scale,
            .zero_stride = dim->zero,
        };
        take(what, &cells);
        pq_job_run_groups(job, at, n, (size_t)g);
    }
    pq_fpenv_leave(found);
    return status;
}

/* Return true if run_groups() can process the job. Groups must be contiguous in both
 * arrays. The kernel must not depend on the values of zero points, which are not known
 * yet. */
static bool can_run_groups(const struct pq_job *job, const struct pq_choice *choice)
{
    const struct pq_dim *const dim = &job->plan.dim[0];
    return pq_job_can_run_groups(job) && !pq_is_uniform(dim) && dim->scale != 0 &&
           dim->zero != 0 && !pq_is_32_bit(job->how.run.out) && !job->in_swapped &&
           choice->rule != PQ_RULE_ONNX_DYNAMIC;
}

/* ---- calls ---- */

/* Fill in the quantizing job. Choose its method without zero points, because their values
 * are not known yet and cannot be checked. */
static enum pq_status make_job(struct pq_job *job, const struct pq_kernels *kernels,
                               const struct pq_args *args, enum pq_type code)
{
    struct pq_args without = *args;
    without.zero.data = NULL;
    PQ_REQUIRE(pq_is_real(args->in.type) && args->out.type == code, PQ_ERR_TYPE);
    PQ_TRY(pq_quantize_method(&job->how, kernels, &without, &(struct pq_facts){0}));
    return pq_job_init(job, kernels, args);
}

enum pq_status pq_dynamic_quantize(const struct pq_kernels *kernels,
                                   const struct pq_args *args,
                                   const struct pq_choice *given, int part, int parts)
{
    struct pq_args room, ranged;
    struct pq_choice choice_room;
    struct grouped grouped;
    const struct pq_choice *const choice = &choice_room;
    PQ_TRY(pq_copy_struct(&choice_room, given, sizeof choice_room, PQ_LEAST_CHOICE));
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    PQ_REQUIRE(args->zero.data != NULL, PQ_ERR_NULL);
    if (pq_is_range_given(choice)) { /* the codes saturate to the range of the choice */
        ranged = *args;
        ranged.lowest_code = choice->lowest_code;
        ranged.highest_code = choice->highest_code;
        args = &ranged;
    }
    PQ_TRY(make_job(&grouped.job, kernels, args, pq_chosen_code(choice)));
    const bool no_zeros = pq_is_narrow_float(args->out.type);
    const bool by_groups = can_run_groups(&grouped.job, choice);
    if (by_groups || pq_is_empty(args)) {
        grouped.job.zero_given = !no_zeros;
        grouped.by_magnitude = depends_on_magnitude(args, choice);
        return pq_choose_params_by(by_groups ? run_groups : pq_find_extrema, &grouped,
                                   kernels, args, PQ_ACCEPTS_DYNAMIC, choice, part, parts);
    }
    struct slabs slabs = {kernels, choice, no_zeros};
    PQ_TRY(pq_check_choosing(&args, &room, PQ_ACCEPTS_DYNAMIC, &choice_room, choice,
                             kernels, part, parts));
    return pq_for_slabs(args, true, PQ_SLAB_BYTES, run_slab, &slabs, part, parts);
}
