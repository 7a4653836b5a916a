/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/levels.h"

#include <math.h>

#include "args.h"
#include "engine/job.h"

enum {
    READABLE = 64, /* kernels can read 64 elements after a tile: see struct pq_levels */
    NARROW = 32    /* kernels of type pq_narrow_fn convert multiples of 32 elements */
};

/* Parameters of a tile. of[m][i] is member m of the struct pq_level_params of element i. */
enum { MEMBERS = sizeof(struct pq_level_params) / sizeof(float) };
struct fields {
    float of[MEMBERS][TILE_ELEMENTS + READABLE];
};

/* ---- parameters ---- */

/* Load the six float32 parameters of each of `n` groups. The three parameter tiles have
 * 64-bit numbers. Each number stores two parameters. */
static void load_params(struct pq_job *job, ptrdiff_t to, const char *at, ptrdiff_t stride,
                        size_t n)
{
    enum { PAIR = sizeof *job->scale.u64 };
    for (size_t i = 0; i < n; i++, to++, at += stride) {
        memcpy(job->scale.u64 + to, at, PAIR);
        memcpy(job->zero.u64 + to, at + PAIR, PAIR);
        memcpy(job->offset.u64 + to, at + 2 * PAIR, PAIR);
    }
}

/* Return the loaded parameters of group `k`. */
static struct pq_level_params group_params_at(const struct pq_run *run, size_t k)
{
    struct pq_level_params params;
    memcpy(&params.low, run->scale.f64 + k, 2 * sizeof params.low);
    memcpy(&params.slope, run->zero.f64 + k, 2 * sizeof params.slope);
    memcpy(&params.step, run->offset.f64 + k, 2 * sizeof params.step);
    return params;
}

/* Return true if the input range of at least one of `n` groups is inverted or empty. */
static bool has_inverted_range(const struct pq_run *run, size_t n)
{
    const char *const ranges = (const char *)run->scale.f64;
    bool inverted = false;
    for (size_t i = 0; i < n; i++) {
        float ends[2];
        memcpy(ends, ranges + i * sizeof ends, sizeof ends);
        inverted |= !(ends[0] < ends[1]);
    }
    return inverted;
}

/* Set the parameters of `n` elements. `step` is 1 if each element is a group, and 0 if all
 * elements belong to the first group. */
PQ_INLINE void set_fields(struct fields *PQ_RESTRICT fields, const struct pq_run *run,
                          size_t n, size_t step)
{
    const char *const pairs[] = {(const char *)run->scale.f64, (const char *)run->zero.f64,
                                 (const char *)run->offset.f64};
    for (size_t m = 0; m < MEMBERS; m++) {
        const char *const from = pairs[m / 2] + m % 2 * sizeof(float);
        for (size_t i = 0; i < n; i++) {
            memcpy(&fields->of[m][i], from + i * step * sizeof(double), sizeof(float));
        }
    }
}

/* ---- elements ---- */

/* Compute one element by the formulas of the specification: see struct pq_level_params. */
static float compute_element(float x, const struct pq_level_params *p)
{
    if (p->low < p->high) {
        const float v = x > p->low ? (x < p->high ? x : p->high) : p->low;
        return fmaf(rintf(v * p->slope + p->shift) + 0.0f, p->step, p->first); /* no -0 */
    }
    if (!(x > p->high)) {
        return p->first;
    }
    if (x > p->low) {
        return p->shift;
    }
    const float level = rintf((x - p->low) / (p->high - p->low) * p->slope);
    return level / p->slope * p->step + p->first;
}

/* Compute elements one by one. Arrays need no alignment. */
static void compute_elements(const struct pq_run *run, const char *x, char *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct pq_level_params one =
            group_params_at(run, pq_has_element_groups(run) ? i : 0);
        float v;
        memcpy(&v, x + i * sizeof v, sizeof v);
        v = compute_element(v, &one);
        memcpy(y + i * sizeof v, &v, sizeof v);
    }
}

/* Compute float32 elements of one group, or at most TILE_ELEMENTS groups of one element.
 * The kernel requires ascending ranges. */
static void run_group(const struct pq_run *run, const void *x, void *y, size_t n)
{
    const bool per_element = pq_has_element_groups(run);
    struct fields fields;
    const struct pq_levels levels = {fields.of[0], fields.of[1], fields.of[2], fields.of[3],
                                     fields.of[4], fields.of[5], per_element};
    if (has_inverted_range(run, per_element ? n : 1)) {
        compute_elements(run, x, y, n);
        return;
    }
    if (per_element) {
        memset(&fields, 0, n < READABLE ? sizeof fields : 0);
        set_fields(&fields, run, n, 1);
    } else {
        set_fields(&fields, run, READABLE, 0);
    }
    run->kernels->levels(&levels, x, y, n);
}

static void run_f32(const struct pq_run *run, const void *x, void *y, size_t n)
{
    const size_t room = pq_has_element_groups(run) ? TILE_ELEMENTS : run->group;
    pq_run_tiles(run_group, room, false, run, x, sizeof(float), y, sizeof(float), n);
}

/* Convert a tile to float32, compute the results, and convert the results back. */
static void run_tile(const struct pq_run *run, const void *x, void *y, size_t n)
{
    _Alignas(64) float from[TILE_ELEMENTS + NARROW], to[TILE_ELEMENTS + NARROW];
    _Alignas(64) double narrow[TILE_ELEMENTS];
    pq_load_reals_f32(run->kernels, from, x, run->in, n);
    run_f32(run, from, to, n);
    memset(to + n, 0, NARROW * sizeof *to);
    pq_narrow_to(run->kernels, run->in)(to, narrow, (n + NARROW - 1) / NARROW * NARROW);
    memcpy(y, narrow, n * pq_bytes_of(run->in));
}

/* Process a run in tiles that fit the buffers. */
static void run_levels(const struct pq_run *run, const void *x, void *y, size_t n)
{
    const size_t size = pq_bytes_of(run->in);
    if (run->in == PQ_F32) {
        run_f32(run, x, y, n);
    } else {
        pq_run_tiles(run_tile, TILE_ELEMENTS, false, run, x, size, y, size, n);
    }
}

/* ---- calls ---- */

enum pq_status pq_fake_levels(const struct pq_kernels *kernels, const struct pq_args *args,
                              int part, int parts)
{
    struct pq_args room;
    struct pq_job job;
    PQ_TRY(pq_check_call(&args, &room, kernels, true, part, parts));
    PQ_REQUIRE(pq_is_real(args->in.type) && args->out.type == args->in.type &&
                   args->scale.type == PQ_F32 && !args->scale.swapped &&
                   args->zero.data == NULL,
               PQ_ERR_TYPE);
    PQ_TRY(pq_check_options(args, pq_options_of(args), PQ_ACCEPTS_NONE));
    struct pq_args placed = *args;
    placed.zero = args->scale; /* load_params() fills all three tiles from `scale` */
    job.how = pq_no_method;
    job.how.kernel = run_levels;
    job.how.load = load_params;
    job.how.general = true; /* a float64 of a tile contains two float32 members */
    job.how.by_groups = true;
    job.how.affine.has_offset = true;
    job.how.run.in = args->in.type;
    job.how.run.kernels = kernels;
    return pq_job_run_args(&job, kernels, &placed, part, parts);
}
